//! Cost of a discipline per packet, in memory: enqueue and dequeue, by number of flows.
//!
//! Packets arrive in batches of 32, as from a receive ring: each batch is touched (`prefetch`), then enqueued, then the
//! same number of packets is dequeued. A standing backlog keeps the scheduler at work. Half of the packets belong to a
//! few steady TCP flows, the others to UDP flows drawn evenly from all flows. The flow key of a packet is written
//! before the clock starts, so that ten million flows need no more slots than a thousand. The cost of reading the clock
//! is subtracted. Each figure is the smallest of several rounds. Each round also measures a FIFO and FQ-CoDel; compare
//! the ratios, not the times, between machines.
//!
//! A discipline that delays packets (a shaper, an emulated link) emits fewer packets than it accepts; the slots bound
//! its backlog. If the limits of a discipline do not permit the backlog, its backlog is half of its limit. A dropped
//! packet costs less than a queued packet, so the share of drops is reported. AFAN is measured a second time with
//! thresholds at which each elastic packet is compared with a drawn packet, because with its defaults such a short
//! queue needs no comparison.

use std::fmt::Write;
use std::time::Instant as Clock;

use rand::{Rng, RngExt};
use serde::Serialize;
use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Stream, Streams};
use weir_discipline::spec::SpecError;
use weir_discipline::{Cx, Discipline, Spec, manuals};
use weir_packet::{DropCounters, FlowKey, Keys, Packet, Slot};

/// Packets in a batch.
const BATCH: usize = 32;
/// Packets in the standing backlog.
const BACKLOG: usize = 256;
/// Slots in use: the backlog, a batch, and packets that wait to be reclaimed.
const SLOTS: usize = 1024;
/// Flows on the link.
const FLOWS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Number of steady flows, unless the traffic is designed for a cache.
const STEADY: u64 = 8;
/// Time between two packets: 10 Gbit/s of full frames.
const GAP: Span = Span::from_nanos(1_230);

/// Time to advance when the discipline holds all slots.
const HELD: Span = Span::from_millis(1);

/// Cost of one discipline under one kind of traffic.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the discipline.
    pub discipline: &'static str,
    /// Flows on the link.
    pub flows: u64,
    /// Entries of the flow cache, if it has one.
    pub cache: Option<u64>,
    /// Share of packets whose flow was not in the cache, if it has one.
    pub miss_ratio: Option<f64>,
    /// Share of packets that the discipline dropped.
    pub drop_ratio: f64,
    /// Nanoseconds for the enqueue and the dequeue of one packet.
    pub ns: f64,
    /// `ns`, divided by the cost of a FIFO in the same round.
    pub ratio_to_fifo: f64,
    /// `ns`, divided by the cost of FQ-CoDel in the same round.
    pub ratio_to_fq_codel: f64,
    /// Bytes of state, independent of the number of flows.
    pub state_bytes: usize,
}

/// Measures every discipline by number of flows, and LRU-FQ by cache size and miss ratio.
pub fn run(quick: bool) -> Result<Vec<Row>, SpecError> {
    let effort = if quick { Effort::QUICK } else { Effort::WHOLE };
    let mut rows = Vec::new();
    for manual in manuals() {
        let spec = Spec::check(manual.name, [])?;
        for flows in FLOWS {
            rows.push(measure(&spec, Traffic::mixed(flows), effort)?);
        }
    }
    let always = [("min_threshold", &Scalar::Integer(1))];
    let drawing = Spec::check("afan", always)?;
    for flows in FLOWS {
        rows.push(Row {
            discipline: "afan, drawing",
            ..measure(&drawing, Traffic::mixed(flows), effort)?
        });
    }
    for cache in [12, 64, 1024, 4096, 65536] {
        for steady_share in [1.0, 0.5, 0.0] {
            let traffic = Traffic {
                flows: 10_000_000,
                steady: cache * 3 / 4,
                steady_share,
            };
            let entries = Scalar::Integer(cache as i64);
            let spec = Spec::check("lru_fq", [("cache", &entries)])?;
            rows.push(measure(&spec, traffic, effort)?);
        }
    }
    Ok(rows)
}

/// Rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "discipline                  flows  cache  misses  drops  ns/packet  x fifo  x fq_codel  state bytes\n",
    );
    for row in rows {
        let cache = row.cache.map(|n| n.to_string()).unwrap_or_default();
        let misses = row.miss_ratio.map(|r| format!("{:.0} %", r * 100.0));
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:22} {:>10} {cache:>6} {:>7} {:>6} {:>10.1} {:>7.2} {:>11.2} {:>12}",
            row.discipline,
            row.flows,
            misses.unwrap_or_default(),
            format!("{:.0} %", row.drop_ratio * 100.0),
            row.ns,
            row.ratio_to_fifo,
            row.ratio_to_fq_codel,
            row.state_bytes
        );
    }
    table
}

/// Length of the measurement.
#[derive(Clone, Copy)]
struct Effort {
    rounds: u32,
    batches: u32,
}

impl Effort {
    const QUICK: Self = Self {
        rounds: 5,
        batches: 300,
    };
    const WHOLE: Self = Self {
        rounds: 60,
        batches: 600,
    };
}

/// The flows that send.
#[derive(Clone, Copy)]
struct Traffic {
    /// Number of flows from which the packets of unsteady flows are drawn.
    flows: u64,
    /// Flows that send all the time.
    steady: u64,
    /// Share of the packets that the steady flows send.
    steady_share: f64,
}

impl Traffic {
    /// Half of the packets from a few steady flows, half from all others.
    const fn mixed(flows: u64) -> Self {
        Self {
            flows,
            steady: STEADY,
            steady_share: 0.5,
        }
    }

    fn key(self, stream: &mut Stream) -> FlowKey {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        let (flow, protocol) = if stream.random::<f64>() < self.steady_share {
            (u32::MAX as u64 - stream.random_range(0..self.steady), TCP)
        } else {
            (stream.random_range(0..self.flows), UDP)
        };
        let [a, b, c, d] = (flow as u32).to_be_bytes();
        FlowKey::ip(
            [a, b, c, d].into(),
            [192, 0, 2, 1].into(),
            protocol,
            5000,
            53,
        )
    }
}

fn measure(spec: &Spec, traffic: Traffic, effort: Effort) -> Result<Row, SpecError> {
    let mut fifo = Load::new(&Spec::check("fifo", [])?, traffic);
    let mut fq_codel = Load::new(&Spec::check("fq_codel", [])?, traffic);
    let mut load = Load::new(spec, traffic);
    load.fill_cache(spec)?;
    let before = load.lookups();
    (load.offered, load.dropped) = (0, 0);
    let clock_ns = clock_ns();
    let [mut ns, mut fifo_ns, mut fq_codel_ns] = [f64::MAX; 3];
    for _ in 0..effort.rounds {
        fifo_ns = fifo_ns.min(fifo.round(effort.batches, clock_ns));
        fq_codel_ns = fq_codel_ns.min(fq_codel.round(effort.batches, clock_ns));
        ns = ns.min(load.round(effort.batches, clock_ns));
    }
    let misses = load.lookups().zip(before).map(|(after, before)| {
        let (hits, misses) = (after.0 - before.0, after.1 - before.1);
        misses as f64 / (hits + misses) as f64
    });
    Ok(Row {
        discipline: spec.kind(),
        flows: traffic.flows,
        cache: cache(spec),
        miss_ratio: misses,
        drop_ratio: load.dropped as f64 / load.offered as f64,
        ns,
        ratio_to_fifo: ns / fifo_ns,
        ratio_to_fq_codel: ns / fq_codel_ns,
        state_bytes: load.discipline.state_bytes(),
    })
}

/// The number of flows that the cache of `lru_fq` holds.
fn cache(spec: &Spec) -> Option<u64> {
    (spec.kind() == "lru_fq").then(|| spec.settings().count("cache"))
}

/// A discipline under traffic.
struct Load {
    discipline: Box<dyn Discipline>,
    traffic: Traffic,
    stream: Stream,
    keys: Keys,
    fates: DropCounters,
    free: Vec<Slot>,
    now: Instant,
    id: u64,
    taken: Vec<Packet>,
    /// Packets held after each batch: [`BACKLOG`], or half of the discipline's limit.
    standing: usize,
    offered: usize,
    dropped: usize,
}

impl Load {
    fn new(spec: &Spec, traffic: Traffic) -> Self {
        let streams = Streams::new(1);
        let mut load = Self {
            discipline: spec.build(Instant::ZERO, &streams),
            traffic,
            stream: streams.stream("traffic"),
            keys: Keys::new(SLOTS, streams.hash_key("keys")),
            fates: DropCounters::default(),
            free: (0..SLOTS as u32).map(Slot).collect(),
            now: Instant::ZERO,
            id: 0,
            taken: Vec::with_capacity(BATCH),
            standing: 0,
            offered: 0,
            dropped: 0,
        };
        for _ in 0..4 * BACKLOG / BATCH {
            if load.backlog() < BACKLOG {
                let mut batch = load.batch();
                load.offer(&mut batch);
            }
        }
        load.standing = match load.backlog() {
            held if held < BACKLOG => held / 2,
            _ => BACKLOG,
        };
        load
    }

    /// The next packets, with their flow keys written.
    fn batch(&mut self) -> Vec<Packet> {
        self.free.extend(self.taken.drain(..).map(|p| p.slot));
        self.free.extend(self.fates.freed().map(|freed| freed.slot));
        let mut batch = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let Some(slot) = self.free.pop() else {
                self.now += HELD; // delayed packets become due
                break;
            };
            self.keys.set(slot, self.traffic.key(&mut self.stream));
            let bytes = 64 + self.stream.next_u32() % 1451;
            batch.push(Packet::new(self.id, slot, bytes, self.now));
            self.id += 1;
        }
        batch
    }

    fn backlog(&self) -> usize {
        self.discipline.backlog().packets as usize
    }

    /// Enqueues a batch, as a port does.
    fn offer(&mut self, batch: &mut Vec<Packet>) {
        let mut cx = Cx {
            now: self.now,
            keys: &self.keys,
            fates: &mut self.fates,
            heavy: false,
        };
        for packet in batch.iter() {
            self.discipline.prefetch(&cx, packet);
        }
        for mut packet in batch.drain(..) {
            cx.now += GAP;
            packet.enqueued = cx.now;
            self.discipline.enqueue(&mut cx, packet);
        }
        self.now = cx.now;
    }

    /// Dequeues `packets` packets, as a port does when its link has room.
    fn take(&mut self, packets: usize) {
        let mut cx = Cx {
            now: self.now,
            keys: &self.keys,
            fates: &mut self.fates,
            heavy: false,
        };
        for _ in 0..packets {
            self.taken.extend(self.discipline.dequeue(&mut cx));
        }
    }

    /// Nanoseconds for the enqueue and the dequeue of one packet.
    fn round(&mut self, batches: u32, clock_ns: f64) -> f64 {
        let (mut nanos, mut packets) = (0, 0);
        for _ in 0..batches {
            let mut batch = self.batch();
            let (came, held) = (batch.len(), self.backlog());
            let start = Clock::now();
            self.offer(&mut batch);
            let queued = self.backlog();
            self.take(queued.saturating_sub(self.standing));
            nanos += start.elapsed().as_nanos();
            self.dropped += held + came - queued;
            packets += came;
        }
        self.offered += packets;
        (nanos as f64 - clock_ns * f64::from(batches)) / packets.max(1) as f64
    }

    /// Lets all steady flows into the cache, which would take long by chance alone.
    fn fill_cache(&mut self, spec: &Spec) -> Result<(), SpecError> {
        if cache(spec).is_some() {
            let traffic = self.traffic;
            self.traffic.steady_share = 1.0;
            let open = spec.with([("admission", &Scalar::Real(1.0))])?;
            open.apply(&mut *self.discipline, self.now);
            // With n flows drawn at random, each has been seen after about n ln n packets.
            let packets = 20 * traffic.steady;
            self.round(packets.div_ceil(BATCH as u64) as u32, 0.0);
            self.traffic = traffic;
            spec.apply(&mut *self.discipline, self.now);
        }
        self.round(1_000, 0.0);
        Ok(())
    }

    /// Hits and misses, if the discipline has a cache.
    fn lookups(&self) -> Option<(u64, u64)> {
        let (mut hits, mut misses) = (None, None);
        self.discipline.inspect(&mut |name, value| match name {
            "hits" => hits = Some(value),
            "misses" => misses = Some(value),
            _ => {}
        });
        hits.zip(misses)
    }
}

/// Cost of reading the clock twice, nanoseconds.
fn clock_ns() -> f64 {
    let costs = (0..10_000).map(|_| Clock::now().elapsed().as_nanos());
    costs.min().unwrap_or(0) as f64
}
