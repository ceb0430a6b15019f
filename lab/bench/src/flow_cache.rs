//! Measures which of the largest flows the flow cache of LRU-FQ holds, by its size and its admission.
//!
//! 400 000 flows send ten million packets. Afterwards the flows in the cache are ranked by their mean rate since
//! admission and by the packets counted since admission. The first k of each ranking are compared with the k flows that
//! really sent the most. Then new flows arrive, one after another, each with one packet in a hundred, to measure how
//! many packets a flow sends before it is in the cache.

use std::fmt::Write;

use rand::RngExt;
use serde::Serialize;
use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Stream, Streams};
use weir_discipline::spec::SpecError;
use weir_discipline::{Cx, Discipline, FlowReport, Spec};
use weir_packet::{DropCounters, FlowKey, Keys, Packet, Slot};

/// Flows that send repeatedly.
const FLOWS: usize = 400_000;
/// With churn, the number of packets after which other flows replace the flows with odd ranks.
const EPOCH: usize = 1_000_000;
/// Time between two packets.
const GAP: Span = Span::from_micros(10);
/// Entries of the cache, and the number of flows that it should hold, as in performance studies of sketches.
const SIZES: [(u64, usize); 4] = [(64, 16), (282, 75), (706, 300), (2824, 300)];
/// Admissions that are compared.
const ADMISSIONS: [&str; 3] = ["1/50", "1/200", "adaptive"];
/// Number of new flows to wait for, and the maximum number of packets to wait for each.
const NEWCOMERS: u32 = 20;
const PATIENCE: u32 = 2_000;

/// The kind of traffic.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// Each packet belongs to a random flow: the weight of a flow is its rank to this negative power.
    Zipf(f64),
    /// [`Self::Zipf`] with different large flows in each epoch.
    Churn(f64),
    /// [`Self::Zipf`] in trains of ten packets on average.
    Trains(f64),
    /// [`Self::Zipf`], but every second packet belongs to a flow that sends nothing else.
    Flood(f64),
}

const TRAFFICS: [(&str, Traffic); 6] = [
    ("zipf 1.0", Traffic::Zipf(1.0)),
    ("zipf 1.2", Traffic::Zipf(1.2)),
    ("churn 1.0", Traffic::Churn(1.0)),
    ("churn 1.2", Traffic::Churn(1.2)),
    ("trains 1.0", Traffic::Trains(1.0)),
    ("flood 1.0", Traffic::Flood(1.0)),
];

/// The measurement of one cache.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The traffic.
    pub traffic: &'static str,
    /// Entries of the cache.
    pub cache: u64,
    /// The number of largest flows that the cache should hold.
    pub top: usize,
    /// The cache's admission rule.
    pub admission: &'static str,
    /// Share of the largest flows that is in the cache.
    pub present: f64,
    /// Share of the largest flows among the first of a ranking by the mean rate since admission.
    pub by_rate: f64,
    /// Share of the largest flows among the first of a ranking by the rate of the last 100 ms.
    pub by_rate_of_late: f64,
    /// Share of the largest flows among the first of a ranking by the packets since admission.
    pub by_packets: f64,
    /// Packets that a new flow sends before it is in the cache, on average.
    pub newcomer_packets: f64,
}

/// Measures all caches under all kinds of traffic.
pub fn run(quick: bool) -> Result<Vec<Row>, SpecError> {
    let packets = if quick { EPOCH } else { 10 * EPOCH };
    let mut rows = Vec::new();
    for (name, traffic) in TRAFFICS {
        let trace = traffic.trace(packets);
        let from = match traffic {
            Traffic::Churn(_) => packets - EPOCH,
            _ => 0,
        };
        let truth = by_packets(&trace[from..]);
        for (cache, top) in SIZES {
            for admission in ADMISSIONS {
                let mut link = Link::new(cache, admission)?;
                trace.iter().for_each(|flow| link.send(*flow));
                let (top_flows, now) = (&truth[..top], link.now);
                rows.push(Row {
                    traffic: name,
                    cache,
                    top,
                    admission,
                    present: link.recall(top_flows, |_| 0.0, cache as usize),
                    by_rate: link.recall(top_flows, |f| mean_rate(f, now), top),
                    by_rate_of_late: link.recall(top_flows, |f| f.rate.as_bps() as f64, top),
                    by_packets: link.recall(top_flows, |f| f.seen.packets as f64, top),
                    newcomer_packets: link.newcomers(&trace),
                });
            }
        }
    }
    Ok(rows)
}

/// Rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "traffic     cache   top  admission  present  by rate   recent  by packets  newcomer waits\n",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:10} {:>6} {:>5}  {:9} {:>8.3} {:>8.3} {:>8.3} {:>11.3} {:>7.0} packets",
            row.traffic,
            row.cache,
            row.top,
            row.admission,
            row.present,
            row.by_rate,
            row.by_rate_of_late,
            row.by_packets,
            row.newcomer_packets
        );
    }
    table
}

impl Traffic {
    /// The flows of the packets, in order.
    fn trace(self, packets: usize) -> Vec<u32> {
        let (Self::Zipf(power) | Self::Churn(power) | Self::Trains(power) | Self::Flood(power)) =
            self;
        let ranks = Ranks::new(power);
        let mut stream = Streams::new(42).stream("flow_cache");
        let mut trace = Vec::with_capacity(packets);
        for at in 0..packets {
            let flow = match self {
                Self::Trains(_) if at > 0 && stream.random::<f64>() < 0.9 => trace[at - 1],
                Self::Flood(_) if at % 2 == 0 => (FLOWS + at) as u32,
                Self::Churn(_) => {
                    let (rank, epoch) = (ranks.draw(&mut stream), at / EPOCH);
                    match rank % 2 {
                        0 => rank,
                        _ => ((rank as usize + epoch * 7_919 * 2) % FLOWS) as u32,
                    }
                }
                _ => ranks.draw(&mut stream),
            };
            trace.push(flow);
        }
        trace
    }
}

/// Ranks; the nth is drawn in proportion to a negative power of `n`.
struct Ranks(Vec<f64>);

impl Ranks {
    fn new(power: f64) -> Self {
        let weights = (1..=FLOWS).map(|rank| (rank as f64).powf(-power));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self(sums.collect())
    }

    fn draw(&self, stream: &mut Stream) -> u32 {
        let all = self.0.last().copied().unwrap_or(0.0);
        let place = stream.random::<f64>() * all;
        self.0.partition_point(|sum| *sum < place).min(FLOWS - 1) as u32
    }
}

/// All flows, most packets first.
fn by_packets(trace: &[u32]) -> Vec<u32> {
    let mut counts = vec![0_u32; 1 + trace.iter().copied().max().unwrap_or(0) as usize];
    trace.iter().for_each(|flow| counts[*flow as usize] += 1);
    let mut flows: Vec<u32> = (0..counts.len() as u32).collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(counts[*flow as usize]));
    flows
}

/// The mean rate of a flow since its admission. The packet that admitted it starts that time and is not
/// counted; otherwise every flow admitted a moment ago would seem to send at a high rate.
fn mean_rate(flow: &FlowReport, now: Instant) -> f64 {
    (flow.seen.packets - 1) as f64 / now.since(flow.since).as_secs_f64().max(1e-9)
}

/// LRU-FQ on a link that is never full.
struct Link {
    discipline: Box<dyn Discipline>,
    keys: Keys,
    fates: DropCounters,
    now: Instant,
    id: u64,
}

impl Link {
    fn new(cache: u64, admission: &str) -> Result<Self, SpecError> {
        let (cache, admission) = (
            Scalar::Integer(cache as i64),
            Scalar::Text(admission.to_owned()),
        );
        let given = [("cache", &cache), ("admission", &admission)];
        let streams = Streams::new(1);
        Ok(Self {
            discipline: Spec::check("lru_fq", given)?.build(Instant::ZERO, &streams),
            keys: Keys::new(1, streams.hash_key("keys")),
            fates: DropCounters::default(),
            now: Instant::ZERO,
            id: 0,
        })
    }

    fn send(&mut self, flow: u32) {
        self.keys.set(Slot(0), key(flow));
        let mut cx = Cx {
            now: self.now,
            keys: &self.keys,
            fates: &mut self.fates,
            heavy: false,
        };
        let packet = Packet::new(self.id, Slot(0), 1000, self.now);
        self.discipline.enqueue(&mut cx, packet);
        self.discipline.dequeue(&mut cx);
        self.id += 1;
        self.now += GAP;
    }

    fn known(&self) -> Vec<FlowReport> {
        let mut known = Vec::new();
        self.discipline
            .flows(self.now, &mut |flow| known.push(flow));
        known
    }

    /// The share of `truth` that is among the first flows of a ranking.
    fn recall(&self, truth: &[u32], rank: impl Fn(&FlowReport) -> f64, first: usize) -> f64 {
        let mut known = self.known();
        known.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        known.truncate(first);
        let is_there = |flow: &&u32| known.iter().any(|report| report.key == key(**flow));
        truth.iter().filter(is_there).count() as f64 / truth.len() as f64
    }

    /// The mean number of packets that a new flow sends before it is in the cache.
    fn newcomers(&mut self, trace: &[u32]) -> f64 {
        let mut others = trace.iter();
        let mut sum = 0;
        for newcomer in (0..NEWCOMERS).map(|n| u32::MAX - n) {
            for sent in 1..=PATIENCE {
                others.by_ref().take(99).for_each(|flow| self.send(*flow));
                self.send(newcomer);
                if sent == PATIENCE || self.known().iter().any(|f| f.key == key(newcomer)) {
                    sum += sent;
                    break;
                }
            }
        }
        f64::from(sum) / f64::from(NEWCOMERS)
    }
}

fn key(flow: u32) -> FlowKey {
    FlowKey::ip(
        flow.to_be_bytes().into(),
        [192, 0, 2, 1].into(),
        17,
        5000,
        53,
    )
}
