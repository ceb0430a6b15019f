//! The counts of a run. All counts are for the window (the run without its warm-up), except curves and the rows of
//! flows, which cover the whole run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use weir_base::{Framing, Instant, Span, Tally};
use weir_discipline::Metered;
use weir_discipline::contract::FlowStanding;
use weir_packet::{FlowKey, Packet, Reason};

use crate::flight::Flight;
use crate::gauges::Gauges;
use crate::id::{NodeId, PortId};
use crate::identification::Identification;
use crate::passage::Passages;
use crate::trace::Trace;

/// Range and precision of delays: from one microsecond, with three digits. Memory grows with the longest delay.
const TIME_MIN_NANOS: u64 = 1024;
const TIME_MAX_NANOS: u64 = 1_000_000_000_000;
const DIGITS: u8 = 3;

/// The distribution of delays, with mean and percentiles.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: Histogram<u32>,
    sum_nanos: u128,
    max_nanos: u64,
}

impl Default for Delays {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(TIME_MIN_NANOS, 2 * TIME_MIN_NANOS, DIGITS);
        // The bounds are constants and valid.
        let mut histogram = histogram.unwrap_or_else(|error| unreachable!("{error}"));
        histogram.auto(true);
        Self {
            histogram,
            sum_nanos: 0,
            max_nanos: 0,
        }
    }
}

impl Delays {
    /// Adds a delay.
    #[inline]
    pub fn record(&mut self, span: Span) {
        let nanos = span.as_nanos().min(TIME_MAX_NANOS);
        if self.histogram.record(nanos).is_err() {
            unreachable!("it grows to whatever it is given");
        }
        self.sum_nanos += u128::from(span.as_nanos());
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The exact mean in seconds; `None` without delays.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_nanos as f64 / 1e9 / count as f64)
    }

    /// The time in seconds that a share `p` of all delays does not exceed.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let nanos = self.histogram.value_at_quantile(p).min(self.max_nanos);
        (self.count() > 0).then(|| nanos as f64 / 1e9)
    }
}

/// The counts of one flow group.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// Packets with payload sent by the hosts of the traffic, in layer-2 bytes.
    pub sent: Tally,
    /// Packets with payload received by the hosts of the traffic.
    pub received: Tally,
    /// Payload that has arrived, by interval, over the whole run; each byte counts once.
    pub arrived: Vec<u64>,
    /// Payload that has arrived in the window, exactly.
    pub window_bytes: u64,
    /// Payload offered by the applications; `None` if they were greedy.
    pub offered_bytes: Option<u64>,
    /// Delay of packets with payload, from sending host to receiving host.
    pub delay: Delays,
    /// Delay of datagrams by interval, over the whole run: the sum in nanoseconds, and the number.
    pub transits: Vec<(u64, u64)>,
    /// The jitter of RFC 3550 (section 6.4.1) after each packet: the sum in seconds, and the number.
    pub jitter: (f64, u64),
}

/// One flow: a connection, or the datagrams from one port.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The traffic of the flow.
    pub traffic: u32,
    /// The sender and the receiver of the data.
    pub hosts: [NodeId; 2],
    /// Time at which its first packet was sent.
    pub start: Instant,
    /// Time at which the connection was established.
    pub connected: Option<Instant>,
    /// Time at which the last byte of a transfer was received, or the sender had closed.
    pub end: Option<Instant>,
    /// Bytes of the transfer, if it has a size.
    pub size: Option<u64>,
    /// Payload that has arrived in the whole run.
    pub bytes: u64,
    /// Payload that has arrived in the window.
    pub window_bytes: u64,
}

/// The record of one port.
#[derive(Debug)]
pub struct Watch {
    from: Instant,
    framing: Framing,
    /// Packets in the queue at each sampling, over the whole run.
    pub queue_packets: Vec<u64>,
    /// Bytes in the queue at each sampling, over the whole run.
    pub queue_bytes: Vec<u64>,
    /// Time in the queue.
    pub sojourn: Delays,
    /// Packets that the link has started to send.
    pub sent: Tally,
    /// Bytes on the wire of these packets.
    pub sent_on_wire: u64,
    /// Bytes on the wire that a line behind the port has started to send, or will send after earlier packets.
    pub carried_on_wire: u64,
    /// Packets that left, by traffic and by class (0 or 1), if the discipline reports classes.
    pub classes: Option<Vec<[u64; 2]>>,
    /// The flows that the discipline tracks, if it tracks flows by their keys.
    pub tracked: Option<TrackedFlows>,
    /// The discipline's gauges.
    pub gauges: Gauges,
    /// The passage of each flow.
    pub passages: Passages,
    /// The identified hogs compared with the truth, if the scenario defines it.
    pub identification: Option<Identification>,
    /// The packets themselves, if a trace was requested.
    pub trace: Option<Trace>,
}

/// Numbers of flows that a discipline tracks, counted at each sampling.
#[derive(Clone, Debug)]
pub struct TrackedFlows {
    /// Number of samplings in the window.
    pub samples: u64,
    /// For each flow group: sums over the samplings in the window.
    pub flows: Vec<TrackedCounts>,
    /// For each flow group, at each sampling of the whole run: flows tracked or accepted.
    pub curves: Vec<Vec<u32>>,
}

/// Numbers of flows of one flow group, by their treatment in the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackedCounts {
    /// Tracked by a classifier, or accepted by an admission control.
    pub tracked: u64,
    /// Tracked or accepted flows that are treated as hogs.
    pub hogs: u64,
    /// Flows that are not accepted yet.
    pub waiting: u64,
}

impl Watch {
    pub(crate) fn new(from: Instant, framing: Framing) -> Self {
        Self {
            from,
            framing,
            queue_packets: Vec::new(),
            queue_bytes: Vec::new(),
            sojourn: Delays::default(),
            sent: Tally::ZERO,
            sent_on_wire: 0,
            carried_on_wire: 0,
            classes: None,
            tracked: None,
            gauges: Gauges::default(),
            passages: Passages::default(),
            identification: None,
            trace: None,
        }
    }

    /// Also counts packets by class, and the flows that the discipline tracks.
    pub(crate) fn track_flows(&mut self, traffics: usize) {
        self.classes = Some(vec![[0; 2]; traffics]);
        self.tracked = Some(TrackedFlows {
            samples: 0,
            flows: vec![TrackedCounts::default(); traffics],
            curves: vec![Vec::new(); traffics],
        });
    }

    /// Records that a packet arrives at the port.
    pub(crate) fn offered(&mut self, flight: &Flight, key: &FlowKey, now: Instant) {
        self.passages.offered(flight.flow, now);
        if let Some(identification) = &mut self.identification {
            identification.offered(flight.traffic, key, now);
        }
    }

    /// Records that a packet leaves the port.
    pub(crate) fn passed(&mut self, packet: &Packet, flight: &Flight, key: &FlowKey, at: Instant) {
        let payload = u64::from(flight.content.payload()) * u64::from(at >= self.from);
        let Flight { flow, traffic, .. } = *flight;
        self.passages
            .departed(flow, traffic, packet.enqueued, at, payload);
        self.departed(packet, at, traffic);
        if let Some(trace) = &mut self.trace {
            trace.departed(at, key, &flight.content, packet.ecn);
        }
    }

    /// Records that a line behind the port starts a packet at `at`.
    pub(crate) fn carried(&mut self, packet: &Packet, at: Instant) {
        if at >= self.from {
            self.carried_on_wire += self.framing.wire_bytes(packet.bytes());
        }
    }

    /// Records that a packet is dropped at the port.
    pub(crate) fn lost(&mut self, flight: &Flight, key: &FlowKey, now: Instant, reason: Reason) {
        if reason == Reason::NotAdmitted {
            self.passages.refused(flight.flow, now);
        }
        if let Some(trace) = &mut self.trace {
            trace.lost(now, key, &flight.content, reason);
        }
    }

    /// Counts a packet of `traffic` that has left.
    #[inline]
    fn departed(&mut self, packet: &Packet, at: Instant, traffic: u32) {
        if at >= self.from {
            self.sojourn.record(at.since(packet.enqueued));
            self.sent.count(packet.bytes());
            self.sent_on_wire += self.framing.wire_bytes(packet.bytes());
            if let Some(classes) = &mut self.classes {
                classes[traffic as usize][usize::from(packet.class.0.min(1))] += 1;
            }
        }
    }

    /// Samples the discipline's gauges and the flows that it tracks; `traffic` maps a flow key to its traffic.
    pub(crate) fn sample(
        &mut self,
        queue: &Metered,
        now: Instant,
        traffic: impl Fn(&FlowKey) -> Option<u32>,
    ) {
        let from = self.from;
        let inspect = |report: &mut dyn FnMut(&'static str, u64)| queue.inspect(report);
        self.gauges.sample(now, from, inspect);
        let Some(tracked) = &mut self.tracked else {
            return;
        };
        let mut seen = vec![TrackedCounts::default(); tracked.flows.len()];
        queue.flows(now, &mut |flow| {
            // A key other than the 5-tuple does not identify the traffic of these packets.
            let Some(traffic) = traffic(&flow.key) else {
                return;
            };
            let seen = &mut seen[traffic as usize];
            match flow.standing {
                FlowStanding::Watched | FlowStanding::Accepted(_) => seen.tracked += 1,
                FlowStanding::Hog | FlowStanding::Pinned => {
                    seen.tracked += 1;
                    seen.hogs += 1;
                }
                FlowStanding::Waiting => seen.waiting += 1,
                FlowStanding::SetAside | FlowStanding::Blocked => {}
            }
        });
        tracked.samples += u64::from(now >= from);
        let all = tracked.flows.iter_mut().zip(&mut tracked.curves).zip(seen);
        for ((sums, curve), seen) in all {
            curve.push(seen.tracked as u32);
            if now >= from {
                sums.tracked += seen.tracked;
                sums.hogs += seen.hogs;
                sums.waiting += seen.waiting;
            }
        }
    }
}

/// Lost packets of one flow group, at one port, for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// All packets, including acknowledgments, SYNs and FINs.
    pub packets: u64,
    /// Packets with payload, and their bytes of payload.
    pub payload: Tally,
}

/// Losses, by traffic, port and reason.
pub type Losses = BTreeMap<(u32, PortId, &'static str), Loss>;

/// All counts of a run.
#[derive(Debug, Default)]
pub struct Meters {
    /// Start of the window.
    pub from: Instant,
    /// Step of the curves.
    pub interval: Span,
    /// The meters by traffic.
    pub traffics: Vec<Meter>,
    /// Every flow.
    pub flows: Vec<Flow>,
    /// Lost packets.
    pub losses: Losses,
    /// The traffic of each well-known port.
    pub(crate) ports: BTreeMap<u16, u32>,
}

impl Meters {
    /// The traffic of a flow, identified by one of the flow's two ports.
    pub(crate) fn traffic(&self, key: &FlowKey) -> Option<u32> {
        let of = |port| self.ports.get(&port).copied();
        of(key.destination_port).or_else(|| of(key.source_port))
    }

    #[inline]
    pub(crate) fn sent(&mut self, traffic: u32, now: Instant, len: u32) {
        if now >= self.from {
            self.traffics[traffic as usize].sent.count(u64::from(len));
        }
    }

    pub(crate) fn lost(&mut self, flight: &Flight, now: Instant, port: PortId, reason: Reason) {
        if now < self.from {
            return;
        }
        let losses = self.losses.entry((flight.traffic, port, reason.name()));
        let loss = losses.or_default();
        loss.packets += 1;
        let payload = flight.content.payload();
        if payload > 0 {
            loss.payload.count(u64::from(payload));
        }
    }

    /// Counts a packet with payload that has reached its host.
    #[inline]
    pub(crate) fn received(&mut self, flight: &Flight, now: Instant, jitter: &mut Jitter) {
        let transit = now.since(flight.sent);
        let jitter = jitter.of(transit);
        if now >= self.from {
            let meter = &mut self.traffics[flight.traffic as usize];
            meter.received.count(u64::from(flight.content.payload()));
            meter.delay.record(transit);
            meter.jitter.0 += jitter;
            meter.jitter.1 += 1;
        }
    }

    /// Counts a datagram that has reached its host.
    pub(crate) fn datagram(&mut self, flight: &Flight, now: Instant) {
        let place = (now.as_nanos() / self.interval.as_nanos()) as usize;
        let transits = &mut self.traffics[flight.traffic as usize].transits;
        if place >= transits.len() {
            transits.resize(place + 1, (0, 0));
        }
        let (sum, count) = &mut transits[place];
        *sum += now.since(flight.sent).as_nanos();
        *count += 1;
    }

    /// Counts bytes of a flow that have arrived, in order or not; each byte counts once.
    #[inline]
    pub(crate) fn arrived(&mut self, flow: u32, now: Instant, bytes: u64) {
        let flow = &mut self.flows[flow as usize];
        flow.bytes += bytes;
        if now >= self.from {
            flow.window_bytes += bytes;
        }
        if flow.end.is_none() && flow.size.is_some_and(|size| flow.bytes >= size) {
            flow.end = Some(now);
        }
        let place = (now.as_nanos() / self.interval.as_nanos()) as usize;
        let arrived = &mut self.traffics[flow.traffic as usize].arrived;
        if place >= arrived.len() {
            arrived.resize(place + 1, 0);
        }
        arrived[place] += bytes;
        if now >= self.from {
            self.traffics[flow.traffic as usize].window_bytes += bytes;
        }
    }

    /// Records that the sender of a flow has closed.
    pub(crate) fn closed(&mut self, flow: u32, now: Instant) {
        let flow = &mut self.flows[flow as usize];
        flow.end = flow.end.or(Some(now));
    }

    /// Records that the receiver of a flow has established the connection.
    pub(crate) fn connected(&mut self, flow: u32, now: Instant) {
        let flow = &mut self.flows[flow as usize];
        flow.connected = flow.connected.or(Some(now));
    }

    /// Counts bytes offered by an application.
    #[inline]
    pub(crate) fn offered(&mut self, traffic: u32, now: Instant, bytes: u64) {
        let offered = &mut self.traffics[traffic as usize].offered_bytes;
        let offered = offered.get_or_insert(0);
        if now >= self.from {
            *offered += bytes;
        }
    }
}

/// The interarrival jitter of one flow, RFC 3550, section 6.4.1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    transit: Option<Span>,
    seconds: f64,
}

impl Jitter {
    /// The jitter in seconds after a packet with this transit time.
    #[inline]
    fn of(&mut self, transit: Span) -> f64 {
        if let Some(before) = self.transit.replace(transit) {
            let difference = transit.as_secs_f64() - before.as_secs_f64();
            self.seconds += (difference.abs() - self.seconds) / 16.0;
        }
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Class, Slot};

    #[test]
    fn jitter_by_hand() {
        let mut jitter = Jitter::default();
        assert_eq!(jitter.of(Span::from_millis(10)), 0.0);
        // |26 - 10| ms / 16 = 1 ms; then |10 - 26| ms: 1 + (16 - 1) / 16 = 1.9375 ms.
        assert!((jitter.of(Span::from_millis(26)) - 1e-3).abs() < 1e-12);
        assert!((jitter.of(Span::from_millis(10)) - 1.9375e-3).abs() < 1e-12);
    }

    #[test]
    fn departures_are_counted_by_traffic_and_class() {
        let packet = |class: u8| {
            let mut packet = Packet::new(0, Slot(0), 100, Instant::ZERO);
            packet.class = Class(class);
            packet
        };
        let second = Instant::ZERO + Span::from_secs(1);
        let mut watch = Watch::new(second, Framing::ETHERNET);
        watch.departed(&packet(1), second, 0);
        watch.track_flows(2);
        watch.departed(&packet(1), Instant::ZERO, 0); // before the window
        watch.departed(&packet(1), second, 1);
        watch.departed(&packet(0), second, 1);
        assert_eq!(watch.classes, Some(vec![[0, 0], [1, 1]]));
        assert_eq!((watch.sent.packets, watch.sent_on_wire), (3, 3 * 124));
    }

    #[test]
    fn times_by_hand() {
        let mut times = Delays::default();
        (1..=100).for_each(|n| times.record(Span::from_millis(n)));
        assert!((times.mean().unwrap() - 0.0505).abs() < 1e-12);
        assert!((times.percentile(0.99).unwrap() - 0.099).abs() < 1e-4);
        assert_eq!(Delays::default().mean(), None);
    }
}
