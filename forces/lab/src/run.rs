//! Measures the points of a load test: starts the processes, waits for their reports, computes metrics.
//!
//! | metric | meaning |
//! |---|---|
//! | `offered_per_s`, `delivered_per_s` | events of all FEs, and events answered within a second of the end |
//! | `loss_ratio` | share of the offered events that were not answered in that time |
//! | `delay_ms_mean`, `_p50`, `_p99` | from handing an event to the transport to its answer |
//! | `growth_ratio` | growth of the number of events in flight in half of the time, divided by the offered events |
//! | `busy_s`, `busy_ratio` | processor time of the CE, by itself and divided by the time until the last answer |
//! | `busy_us_per_event` | processor time of the CE for each answered event |
//! | `wait_us_per_event` | time for which the CE's threads were ready but had no processor |
//! | `setup_s` | processor time of the CE until all FEs had their links, its start included |
//! | `total_s` | processor time of the CE from its start to the end |
//! | `redirected_per_s`, `redirected_mbps` | redirected packets that arrived at the CE, and their payload |
//! | `associations`, `associations_lost` | associations at the end of a flood, and associations that ended before |
//! | `heartbeats`, `heartbeats_lost` | heartbeats of the CE, and heartbeats that were not answered |
//! | `control_delivered_ratio`, `redirect_delivered_ratio` | share of the events and packets that arrived |
//! | `event_ms_p99`, `event_ms_max` | from creating an event to its arrival at the CE's session |
//! | `capacity_fes`, `capacity_per_s` | the maximum number of FEs, or the maximum rate of each FE, without loss |

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_base::{Rate, Span};
use weir_experiment::Error;
use weir_experiment::load::{Form, Measures, Point};
use weir_experiment::results::Metrics;
use weir_experiment::transports::LoadTests;
use weir_forces_live::tml::Transport;

use crate::associations::{self, Group};
use crate::ce::CeAddress;
use crate::channel::Channel;
use crate::fe::tml::PATIENCE;
use crate::lines::Line;
use crate::part::{Part, ask, start};
use crate::tally::FeReport;

/// Maximum loss ratio of a test that counts as without loss.
const LOSS_MAX: f64 = 0.001;
/// Maximum growth of the queue in half of the time, as a share of the offered events, in a test that counts as without
/// growth.
const GROWTH_MAX: f64 = 0.005;
/// The search for the maximum rate without loss goes down to this part of the maximum to try, in steps of this ratio.
const SEARCH_DOWN: f64 = 16.0;
const SEARCH_STEP: f64 = 1.04;
/// The rate at which one thread loses nothing, in the unit of a load with `unit`: that of the paper's first loss.
const UNIT_PER_S: f64 = 400.0;

/// The channel rate that equation 13 leaves to a busy FE: B_e of 21.92 Mbit/s, and 5 Mbit/s of control messages.
const CHANNEL_RATE: Rate = Rate::from_bps(26_920_000);

/// Runs load tests.
#[derive(Debug)]
pub(crate) struct Runner {
    executable: PathBuf,
    interrupt: Arc<AtomicBool>,
    /// Maximum rates without loss of one thread with one FE, by length of an event and work.
    units: BTreeMap<(u32, Span), f64>,
    /// Number of single tests performed.
    tests: u64,
}

/// The result of one test.
#[derive(Debug)]
struct Shown {
    fes: FeReport,
    /// The CE's counts when all FEs had their links, and at the end.
    busy: [Busy; 2],
    /// Seconds from the first event until the last answer, or until the wait for it ended.
    elapsed_s: f64,
    /// Seconds for which events were offered.
    duration_s: f64,
}

impl Runner {
    /// A runner. The processes of its tests run `executable`; it ends when `interrupt` becomes true.
    pub(crate) fn new(executable: PathBuf, interrupt: Arc<AtomicBool>) -> Self {
        Self {
            executable,
            interrupt,
            units: BTreeMap::new(),
            tests: 0,
        }
    }
}

impl LoadTests for Runner {
    fn measure(&mut self, point: &Point) -> Result<Metrics, Error> {
        let unit = if point.unit {
            self.unit(point)? / UNIT_PER_S
        } else {
            1.0
        };
        let point = Point {
            per_s: point.per_s * unit,
            ..*point
        };
        match point.measures {
            Measures::Loss | Measures::Redirects => Ok(self.test(point)?.metrics()),
            Measures::Flood => self.flood(point),
            Measures::Fes => Ok(one("capacity_fes", f64::from(self.most_fes(point)?))),
            Measures::Rate => Ok(one("capacity_per_s", self.greatest_rate(point)?)),
        }
    }

    fn tests(&self) -> u64 {
        self.tests
    }
}

impl Runner {
    /// Tests five FEs with associations and a flood, as described at [`Measures::Flood`].
    fn flood(&mut self, point: Point) -> Result<Metrics, Error> {
        self.tests += 1;
        let of_5_mbps = 5e6 / 8.0 / f64::from(point.bytes);
        let group = |fes, packets_per_s| Group {
            fes,
            per_s: of_5_mbps,
            bytes: point.bytes,
            packets_per_s,
            rate: Some(CHANNEL_RATE),
        };
        let groups = [group(3, point.per_s), group(2, 5e6 / 8000.0)];
        let channel = Channel {
            transport: Transport::TcpUdp,
            keys: None,
        };
        let shown = associations::run(&self.executable, &channel, &groups, (point.duration, 0))?;
        let end = &shown.ce[2];
        let [events, packets] = shown.sent.map(|n| n.max(1) as f64);
        let numbers = [
            ("associations", end.associated as f64),
            ("associations_lost", end.lost as f64),
            ("heartbeats", end.heartbeats[0] as f64),
            ("heartbeats_lost", shown.heartbeats_lost() as f64),
            ("control_delivered_ratio", end.events as f64 / events),
            ("redirect_delivered_ratio", end.packets as f64 / packets),
            ("event_ms_p99", end.delay_ms[1]),
            ("event_ms_max", end.delay_ms[2]),
        ];
        let numbers = numbers.into_iter();
        Ok(numbers
            .map(|(name, value)| (name.to_owned(), value))
            .collect())
    }

    /// The maximum rate without loss of one thread with one FE.
    fn unit(&mut self, point: &Point) -> Result<f64, Error> {
        let key = (point.bytes, point.work);
        if let Some(unit) = self.units.get(&key) {
            return Ok(*unit);
        }
        let unit = self.greatest_rate(Point {
            measures: Measures::Rate,
            form: Form::OneThread,
            fes: 1,
            per_s: match point.work {
                Span::ZERO => 200_000.0,
                work => 1.1 / work.as_secs_f64(),
            },
            ..*point
        })?;
        self.units.insert(key, unit);
        Ok(unit)
    }

    /// The maximum number of FEs, up to `point.fes`, that are served without loss; zero if not even one FE is.
    fn most_fes(&mut self, point: Point) -> Result<u32, Error> {
        let [mut good, mut bad] = [0, point.fes + 1];
        while bad - good > 1 {
            let fes = good + (bad - good) / 2;
            if self.is_served(Point { fes, ..point })? {
                good = fes
            } else {
                bad = fes
            }
        }
        Ok(good)
    }

    /// The maximum rate of each FE without loss, up to `point.per_s`; zero if it is below the range of the search.
    fn greatest_rate(&mut self, point: Point) -> Result<f64, Error> {
        let lowest = point.per_s / SEARCH_DOWN;
        if !self.is_served(Point {
            per_s: lowest,
            ..point
        })? {
            return Ok(0.0);
        }
        let [mut good, mut bad] = [lowest, point.per_s * SEARCH_STEP];
        while bad / good > SEARCH_STEP {
            let per_s = (good * bad).sqrt();
            if self.is_served(Point { per_s, ..point })? {
                good = per_s
            } else {
                bad = per_s
            }
        }
        Ok(good)
    }

    /// Whether a load is served without loss and without a queue that grows. A test that fails is repeated once: other
    /// programs may have used the processors.
    fn is_served(&mut self, point: Point) -> Result<bool, Error> {
        for _ in 0..2 {
            let report = self.test(point)?.fes;
            let growth = report.growth / report.offered.max(1) as f64;
            if report.loss_ratio() <= LOSS_MAX && growth <= GROWTH_MAX {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Performs one test.
    fn test(&mut self, point: Point) -> Result<Shown, Error> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        self.tests += 1;
        let cetmls = match point.form {
            Form::Process => point.fes,
            Form::OneThread | Form::TwoThreads => 1,
        };
        let mut cetml = vec!["cetml".to_owned(), format!("--work={}", point.work)];
        let has_two = point.form == Form::TwoThreads;
        cetml.extend(has_two.then(|| "--send-apart".to_owned()));
        let cetmls = (0..cetmls).map(|_| cetml.clone());
        let (mut cetmls, addresses) = start(&self.executable, cetmls, Line::listening)?;
        let mut fetml = vec![
            "fetml".to_owned(),
            format!("--fes={}", point.fes),
            format!("--per-s={}", point.per_s),
            format!("--bytes={}", point.bytes),
            format!("--duration={}", point.duration),
        ];
        let is_redirect = point.measures == Measures::Redirects;
        fetml.extend(is_redirect.then(|| "--redirect".to_owned()));
        fetml.extend(addresses.iter().map(CeAddress::to_string));
        let (mut fetml, _) = start(&self.executable, [fetml], Line::connected)?;
        let before = busy(&mut cetmls)?;
        let began = Instant::now();
        let mut fes = ask(&mut fetml, point.duration + PATIENCE, |line| match line {
            Line::Delivered(report) => Some(report),
            _ => None,
        })?;
        Ok(Shown {
            fes: fes.remove(0), // there is one process with FEs
            elapsed_s: began.elapsed().as_secs_f64(),
            busy: [before, busy(&mut cetmls)?],
            duration_s: point.duration.as_secs_f64(),
        })
    }
}

fn one(name: &str, value: f64) -> Metrics {
    BTreeMap::from([(name.to_owned(), value)])
}

/// The counts of all CETMLs so far.
#[derive(Debug, Default)]
struct Busy {
    /// Processor time, in seconds.
    busy_s: f64,
    /// Time for which threads waited for a processor, in seconds.
    wait_s: f64,
    /// Number of redirected packets, and their bytes.
    redirected: [u64; 2],
}

fn busy(cetmls: &mut [Part]) -> Result<Busy, Error> {
    let reports = ask(cetmls, Span::ZERO, |line| match line {
        Line::Busy {
            threads,
            redirected,
            ..
        } => Some((threads, redirected)),
        _ => None,
    })?;
    let mut all = Busy::default();
    for (threads, [packets, bytes]) in reports {
        all.busy_s += threads.iter().map(|thread| thread.busy_s).sum::<f64>();
        all.wait_s += threads.iter().map(|thread| thread.wait_s).sum::<f64>();
        all.redirected[0] += packets;
        all.redirected[1] += bytes;
    }
    Ok(all)
}

impl Shown {
    fn metrics(&self) -> Metrics {
        let fes = &self.fes;
        let [before, after] = &self.busy;
        let busy_s = after.busy_s - before.busy_s;
        let wait_s = after.wait_s - before.wait_s;
        let [packets, packet_bytes] = after.redirected.map(|n| n as f64 / self.duration_s);
        let each = |seconds: f64| seconds * 1e6 / fes.delivered.max(1) as f64;
        let delays = [
            ("delay_ms_mean", fes.delay_ms_mean),
            ("delay_ms_p50", fes.delay_ms_p50),
            ("delay_ms_p99", fes.delay_ms_p99),
        ];
        let numbers = [
            ("offered_per_s", fes.offered as f64 / self.duration_s),
            ("delivered_per_s", fes.delivered as f64 / self.duration_s),
            ("loss_ratio", fes.loss_ratio()),
            ("growth_ratio", fes.growth / fes.offered.max(1) as f64),
            ("busy_s", busy_s),
            ("busy_ratio", busy_s / self.elapsed_s),
            ("busy_us_per_event", each(busy_s)),
            ("wait_us_per_event", each(wait_s)),
            ("setup_s", before.busy_s),
            ("total_s", after.busy_s),
            ("redirected_per_s", packets),
            ("redirected_mbps", packet_bytes * 8.0 / 1e6),
        ];
        let delays = delays
            .into_iter()
            .filter_map(|(name, delay)| Some((name, delay?)));
        let all = numbers.into_iter().chain(delays);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
