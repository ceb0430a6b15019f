//! Past samples, in memory of fixed size.
//!
//! ```text
//!   for each port   [ second | second | .. | second ]  the latest ten minutes
//!                   [ minute | minute | .. | minute ]  the latest six hours
//!   drops           [ second | second | .. | second ]  by reason
//! ```
//!
//! A record is the difference between two samples. The records of a deleted port are deleted.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::{Delays, Instant, Span, Tally};
use weir_packet::Reason;

use super::sample::{PortSample, Sample};

/// Records by second: ten minutes.
pub(super) const SECONDS: usize = 600;
/// Records by minute: six hours.
pub(super) const MINUTES: usize = 360;
/// Minimum time that a record by minute covers.
const MINUTE: Span = Span::from_secs(60);

/// Quantiles of delays: the median and the 99th percentile.
pub(super) type Quantiles = [Span; 2];

/// A port between two samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The time of the later sample.
    pub(super) at: Instant,
    pub(super) span: Span,
    pub(super) received: Tally,
    /// Packets offered to the queue.
    pub(super) offered: Tally,
    pub(super) sent: Tally,
    /// Transmission time on the link as a share of all time; `None` if the port is not paced.
    pub(super) utilisation: Option<f32>,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    /// Packets in the queue at the later sample.
    pub(super) backlog: Tally,
    /// Queue delay of the sent packets: light, heavy, all.
    pub(super) delays: [Option<Quantiles>; 3],
}

/// Drops between two samples.
#[derive(Clone, Debug)]
pub(super) struct Drops {
    pub(super) at: Instant,
    pub(super) span: Span,
    /// By reason.
    pub(super) packets: Box<[u64; Reason::COUNT]>,
}

/// The counters of a port at one moment.
#[derive(Clone, Debug)]
struct Counters {
    at: Instant,
    received: Tally,
    offered: Tally,
    sent: Tally,
    /// Bytes that the link has carried, including the per-frame overhead.
    on_wire: u64,
    dropped: u64,
    marked: u64,
    delays: Box<[Delays; 2]>,
}

/// The records of a port.
#[derive(Debug)]
pub(super) struct PortRecords {
    pub(super) name: Arc<str>,
    /// The oldest first.
    pub(super) seconds: VecDeque<Record>,
    pub(super) minutes: VecDeque<Record>,
    latest: Counters,
    /// The counters at the start of the current minute.
    minute: Counters,
}

/// All records.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) ports: Vec<PortRecords>,
    /// The oldest first.
    pub(super) drops: VecDeque<Drops>,
    latest: Option<(Instant, Box<[u64; Reason::COUNT]>)>,
}

impl Records {
    /// Adds a sample.
    pub(super) fn take(&mut self, sample: &Sample) {
        let mut known = std::mem::take(&mut self.ports);
        for port in &sample.ports {
            let now = Counters::of(port, sample.at);
            let place = known.iter().position(|records| records.name == port.name);
            let records = match place.map(|place| known.swap_remove(place)) {
                Some(mut records) => {
                    records.take(port, now);
                    records
                }
                None => PortRecords::new(port.name.clone(), now),
            };
            self.ports.push(records);
        }
        let ended = &sample.ended;
        if let Some((at, before)) = self.latest.replace((sample.at, ended.clone())) {
            let mut packets = ended.clone();
            for (count, before) in packets.iter_mut().zip(&*before) {
                *count = count.saturating_sub(*before);
            }
            let drops = Drops {
                at: sample.at,
                span: sample.at.since(at),
                packets,
            };
            push(&mut self.drops, drops, SECONDS);
        }
    }
}

impl PortRecords {
    /// Starts the records of a new port.
    fn new(name: Arc<str>, now: Counters) -> Self {
        Self {
            name,
            seconds: VecDeque::with_capacity(SECONDS),
            minutes: VecDeque::with_capacity(MINUTES),
            minute: now.clone(),
            latest: now,
        }
    }

    fn take(&mut self, port: &PortSample, now: Counters) {
        if now.is_before(&self.latest) {
            *self = Self::new(self.name.clone(), now); // another port of the same name
            return;
        }
        push(&mut self.seconds, now.since(&self.latest, port), SECONDS);
        if now.at.since(self.minute.at) >= MINUTE {
            push(&mut self.minutes, now.since(&self.minute, port), MINUTES);
            self.minute = now.clone();
        }
        self.latest = now;
    }
}

impl Counters {
    fn of(port: &PortSample, at: Instant) -> Self {
        Self {
            at,
            received: port.received,
            offered: port.offered,
            sent: port.sent,
            on_wire: port.on_wire,
            dropped: port.dropped,
            marked: port.marked,
            delays: port.delays.clone(),
        }
    }

    /// Whether a counter is less than an earlier value, so that these are the counters of another port.
    fn is_before(&self, earlier: &Self) -> bool {
        let counts = |of: &Self| {
            [
                of.received.bytes,
                of.offered.bytes,
                of.sent.bytes,
                of.on_wire,
                of.dropped,
            ]
        };
        counts(self)
            .iter()
            .zip(counts(earlier))
            .any(|(now, before)| *now < before)
    }

    fn since(&self, earlier: &Self, port: &PortSample) -> Record {
        let span = self.at.since(earlier.at);
        let [light, heavy] = [0, 1].map(|which| self.delays[which].since(&earlier.delays[which]));
        let mut all = light;
        all.add(&heavy);
        let quantiles = |delays: Delays| Some([delays.quantile(0.5)?, delays.quantile(0.99)?]);
        let capacity = port
            .rate
            .map(|rate| rate.as_bps() as f64 * span.as_secs_f64() / 8.0);
        let on_wire = (self.on_wire - earlier.on_wire) as f64;
        Record {
            at: self.at,
            span,
            received: self.received - earlier.received,
            offered: self.offered - earlier.offered,
            sent: self.sent - earlier.sent,
            utilisation: capacity.map(|capacity| (on_wire / capacity.max(1.0)) as f32),
            dropped: self.dropped - earlier.dropped,
            marked: self.marked - earlier.marked,
            backlog: port.backlog,
            delays: [light, heavy, all].map(quantiles),
        }
    }
}

/// Adds to a ring of at most `most` elements.
fn push<T>(ring: &mut VecDeque<T>, new: T, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Rate;

    /// A sample after this number of seconds: a port has sent one packet a second after a delay of 3 ms, and dropped
    /// one packet a second.
    fn sample(seconds: u64) -> Sample {
        let mut delays = Delays::default();
        (0..seconds).for_each(|_| delays.count(Span::from_millis(3)));
        let mut heavy = Delays::default();
        (0..seconds).for_each(|_| heavy.count(Span::from_millis(500)));
        let sent = Tally {
            packets: seconds,
            bytes: 1000 * seconds,
        };
        let mut ended = Box::new([0; Reason::COUNT]);
        ended[Reason::QueueFull as usize] = seconds;
        Sample {
            at: Instant::from_nanos(seconds * 1_000_000_000),
            ports: vec![PortSample {
                name: "wan".into(),
                rate: Some(Rate::from_bps(16_384)),
                on_wire: 2 * (sent.bytes + 24 * seconds),
                received: sent,
                offered: sent,
                sent,
                dropped: seconds,
                marked: 0,
                backlog: Tally::one(60),
                delays: Box::new([delays, heavy]),
                talkers: Vec::new(),
            }],
            ended,
            ..Sample::of_waiting(Vec::new())
        }
    }

    #[test]
    fn a_record_is_the_difference_between_two_samples() {
        let mut records = Records::default();
        [1, 2, 4]
            .iter()
            .for_each(|seconds| records.take(&sample(*seconds)));
        let [port] = &records.ports[..] else {
            panic!("{records:?}")
        };
        let record = port.seconds[1];
        assert_eq!(port.seconds.len(), 2);
        assert_eq!((record.sent.packets, record.sent.bytes), (2, 2000));
        assert_eq!((record.dropped, record.backlog), (2, Tally::one(60)));
        assert_eq!(record.span, Span::from_secs(2));
        // Sent and charged: 1024 B/s on the wire each, of 2048 B/s.
        assert_eq!(record.utilisation, Some(1.0));
        let [light, heavy, all] = record.delays.map(Option::unwrap);
        assert!(light[0] < light[1] && light[1] < Span::from_micros(3600));
        assert!(light[0] > Span::from_micros(2500) && heavy[0] > Span::from_millis(400));
        assert!(all[0] < heavy[0] && all[1] > Span::from_millis(400));
        let drops = &records.drops[1];
        assert_eq!(drops.packets[Reason::QueueFull as usize], 2);
        assert_eq!(drops.packets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn memory_has_a_fixed_size() {
        let mut records = Records::default();
        for seconds in 0..40_000 {
            records.take(&sample(seconds));
        }
        let port = &records.ports[0];
        assert_eq!((port.seconds.len(), port.minutes.len()), (SECONDS, MINUTES));
        assert_eq!(records.drops.len(), SECONDS);
        assert_eq!(port.minutes[5].sent.packets, 60);
        assert_eq!(port.minutes[6].at.since(port.minutes[5].at), MINUTE);
    }

    #[test]
    fn another_port_of_the_same_name_begins_anew() {
        let mut records = Records::default();
        [5, 6, 1, 2]
            .iter()
            .for_each(|seconds| records.take(&sample(*seconds)));
        assert_eq!(records.ports[0].seconds.len(), 1);
        let gone = Sample {
            ports: Vec::new(),
            ..sample(3)
        };
        records.take(&gone);
        assert!(records.ports.is_empty());
    }
}
