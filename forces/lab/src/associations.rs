//! Tests with real associations: a flood of redirected packets, and many FEs on one CE.

use std::env;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_base::{Rate, Span};
use weir_experiment::Error;
use weir_experiment::folder::Folder;
use weir_forces_live::tml::Transport;

use crate::ce::session::CeReport;
use crate::channel::{Channel, write_keys};
use crate::lines::Line;
use crate::part::{Part, ask, start};

/// Messages that are in flight at the end arrive within this time.
const DRAIN: Duration = Duration::from_secs(1);
/// The FEs' dead interval. The CE sends a heartbeat every second.
const DEAD: Span = Span::from_secs(3);

/// A group of FEs in one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Number of FEs.
    pub(crate) fes: u32,
    /// Events per second of each FE; and the length of an event in bytes.
    pub(crate) per_s: f64,
    pub(crate) bytes: u32,
    /// Redirected packets per second of each FE.
    pub(crate) packets_per_s: f64,
    /// Rate of each FE's channel.
    pub(crate) rate: Option<Rate>,
}

/// The result of a test with associations.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Seconds from the start of the FEs' processes until all FEs were associated.
    pub(crate) associate_s: f64,
    /// Number of events and of redirected packets that the FEs sent.
    pub(crate) sent: [u64; 2],
    /// Reports of the CE: before the first FE, when all FEs were associated, and at the end.
    pub(crate) ce: [CeReport; 3],
}

impl Shown {
    /// Number of events that did not arrive at the CE.
    pub(crate) fn events_lost(&self) -> u64 {
        self.sent[0].saturating_sub(self.ce[2].events)
    }

    /// Number of heartbeats that were not answered.
    pub(crate) fn heartbeats_lost(&self) -> u64 {
        let [sent, answered] = self.ce[2].heartbeats;
        sent.saturating_sub(answered)
    }

    /// Processor time of the CE in seconds from the moment when all FEs were associated.
    pub(crate) fn busy_s(&self) -> f64 {
        let [_, before, after] = self.ce.each_ref().map(|ce| {
            let threads = ce.threads.iter();
            threads.map(|thread| thread.busy_s).sum::<f64>()
        });
        after - before
    }
}

/// Runs a CE and groups of FEs, and lets the FEs send for this time.
pub(crate) fn run(
    executable: &Path,
    channel: &Channel,
    groups: &[Group],
    (duration, round_trips): (Span, u64),
) -> Result<Shown, Error> {
    let fes: u32 = groups.iter().map(|group| group.fes).sum();
    let mut ce = vec![
        "ce".to_owned(),
        format!("--fes={fes}"),
        format!("--dead={DEAD}"),
        format!("--round-trips={round_trips}"),
    ];
    ce.extend(channel.to_args());
    let (mut ce, addresses) = start(executable, [ce], Line::listening)?;
    let alone = report(&mut ce)?;
    let began = Instant::now();
    let mut first = 1;
    let groups = groups.iter().map(|group| {
        let mut args = vec![
            "fe".to_owned(),
            addresses[0].to_string(),
            format!("--first={first}"),
            format!("--fes={}", group.fes),
            format!("--per-s={}", group.per_s),
            format!("--bytes={}", group.bytes),
            format!("--packets-per-s={}", group.packets_per_s),
            format!("--duration={duration}"),
            format!("--dead={DEAD}"),
        ];
        args.extend(group.rate.map(|rate| format!("--rate={rate}")));
        args.extend(channel.to_args());
        first += group.fes;
        args
    });
    let (mut fes, _) = start(executable, groups, Line::connected)?;
    let associate_s = began.elapsed().as_secs_f64();
    let associated = report(&mut ce)?;
    let sent = ask(&mut fes, duration, |line| match line {
        Line::Sent { events, packets } => Some([events, packets]),
        _ => None,
    })?;
    std::thread::sleep(DRAIN);
    Ok(Shown {
        associate_s,
        sent: [0, 1].map(|n| sent.iter().map(|sent| sent[n]).sum()),
        ce: [alone, associated, settled(&mut ce)?],
    })
}

/// The CE's report as soon as every heartbeat is answered; after [`DRAIN`] the latest report.
fn settled(ce: &mut [Part]) -> Result<CeReport, Error> {
    let until = Instant::now() + DRAIN;
    loop {
        let report = report(ce)?;
        let [sent, answered] = report.heartbeats;
        if sent == answered || Instant::now() >= until {
            return Ok(report);
        }
        std::thread::sleep(DRAIN / 50);
    }
}

fn report(ce: &mut [Part]) -> Result<CeReport, Error> {
    let mut reports = ask(ce, Span::ZERO, |line| match line {
        Line::Sessions(report) => Some(report),
        _ => None,
    })?;
    Ok(reports.remove(0)) // there is one CE
}

/// Options of [`bench`].
#[derive(Clone, Debug)]
pub struct Bench {
    /// Number of FEs on one CE.
    pub fes: u32,
    /// Time for which each FE sends ten events per second.
    pub duration: Span,
    /// Number of Configs whose round trips are measured.
    pub round_trips: u64,
    /// The transports.
    pub transports: Vec<Transport>,
}

/// Many FEs on one CE, over one transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The transport.
    pub transport: &'static str,
    /// Number of FEs.
    pub fes: u32,
    /// Seconds until all FEs were associated.
    pub associate_s: f64,
    /// Number of associations at the end, and of those that ended before the end.
    pub associations: u64,
    /// Number of associations that ended.
    pub associations_lost: u64,
    /// Number of events sent.
    pub events: u64,
    /// Number of events that did not arrive.
    pub events_lost: u64,
    /// Number of heartbeats that the CE sent.
    pub heartbeats: u64,
    /// Number of heartbeats that were not answered.
    pub heartbeats_lost: u64,
    /// 99th percentile of the time in ms from creating an event to its arrival.
    pub event_ms_p99: f64,
    /// Resident memory of the CE for each FE, in bytes.
    pub memory_per_fe_bytes: u64,
    /// Mean number of processors that the CE used.
    pub processors: f64,
    /// Median round trip of a Config with a single FE, in microseconds.
    pub round_trip_us_p50: f64,
    /// 99th percentile of the round trip of a Config with a single FE, in microseconds.
    pub round_trip_us_p99: f64,
}

/// Events per second of each FE; and the length of an event in bytes.
const PER_S: f64 = 10.0;
const BYTES: u32 = 100;
/// Number of processes that contain the FEs.
const GROUPS: u32 = 2;

/// Runs many FEs on one CE, with certificates, over each transport. The processes run this program.
pub fn bench(options: &Bench) -> Result<Vec<Row>, Error> {
    let executable = env::current_exe();
    let executable = executable.map_err(Error::io("cannot find this program's executable"))?;
    let folder = Folder::new().map_err(Error::io("cannot create a private folder"))?;
    let folder = folder.path();
    write_keys(folder, options.fes).map_err(Error::io("cannot write certificates"))?;
    let transports = options.transports.iter();
    let rows = transports.map(|transport| bench_one(&executable, *transport, folder, options));
    rows.collect()
}

fn bench_one(
    executable: &Path,
    transport: Transport,
    folder: &Path,
    options: &Bench,
) -> Result<Row, Error> {
    let has_keys = matches!(transport, Transport::Quic | Transport::TcpUdp);
    let channel = Channel {
        transport,
        keys: has_keys.then(|| folder.to_owned()),
    };
    let group = |fes, per_s| Group {
        fes,
        per_s,
        bytes: BYTES,
        packets_per_s: 0.0,
        rate: None,
    };
    let alone = run(
        executable,
        &channel,
        &[group(1, 0.0)],
        (Span::from_secs(2), options.round_trips),
    )?;
    let groups = (0..GROUPS).map(|n| (options.fes + n) / GROUPS);
    let groups: Vec<Group> = groups
        .filter(|fes| *fes > 0)
        .map(|fes| group(fes, PER_S))
        .collect();
    let many = run(executable, &channel, &groups, (options.duration, 0))?;
    let [before, associated, end] = &many.ce;
    let memory = associated.memory_bytes.saturating_sub(before.memory_bytes);
    Ok(Row {
        transport: transport.word(),
        fes: options.fes,
        associate_s: many.associate_s,
        associations: end.associated,
        associations_lost: end.lost,
        events: many.sent[0],
        events_lost: many.events_lost(),
        heartbeats: end.heartbeats[0],
        heartbeats_lost: many.heartbeats_lost(),
        event_ms_p99: end.delay_ms[1],
        memory_per_fe_bytes: memory / u64::from(options.fes),
        processors: many.busy_s() / (options.duration.as_secs_f64() + DRAIN.as_secs_f64()),
        round_trip_us_p50: alone.ce[2].round_trip_us[0],
        round_trip_us_p99: alone.ce[2].round_trip_us[1],
    })
}
