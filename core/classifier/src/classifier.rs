//! The classifier: a bounded table of flows, and the verdict on each.
//!
//! ```text
//!  packet -- key --> table (20 000 flows) -- closed? --> verdict, by one lookup
//!                       |                \-- open ----> parsers --> verdict
//!                       \-- full, or idle for too long: the oldest flow leaves, and can be taken as a report
//! ```
//!
//! An attacker who invents flows evicts other flows from the table before they are decided. Such flows follow ordinary
//! rules, as they would without the classifier; decided flows no longer need the table, because their rules are stored
//! elsewhere. Memory is bounded by the table and by the assemblies, which all flows share; a flow without an assembly
//! is decided by what single packets show.

use std::collections::VecDeque;

use weir_base::{Instant, Span};
use weir_packet::FlowKey;

use crate::finding::Finding;
use crate::flow::{Budget, Flow, Patience, Stage};
use crate::kind::Kinds;
use crate::segment::Segment;
use crate::table::{Ends, Table};

/// Maximum number of idle flows that one packet removes from the table.
const EXPIRED_MAX: usize = 4;

/// The bounds of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of flows in the table.
    pub flows: usize,
    /// Time after which an idle flow leaves the table, with one of the next packets, and after twice this time at the
    /// latest.
    pub idle: Span,
    /// Number of packets to read of each flow.
    pub patience: Patience,
    /// Maximum number of streams whose beginnings are assembled at the same time, of 8 kB each at most.
    pub assemblies: usize,
    /// Whether flows that leave the table are kept until [`Classifier::take_ended`] takes them.
    pub reports: bool,
}

impl Default for Settings {
    /// 20 000 flows as in the paper (section V.C), 5 minutes, 32 packets for the class and 128 for the carried
    /// protocols, 1024 assemblies, no reports.
    fn default() -> Self {
        Self {
            flows: 20_000,
            idle: Span::from_secs(300),
            patience: Patience {
                packets: 32,
                carried_packets: 128,
            },
            assemblies: 1024,
            reports: false,
        }
    }
}

/// The verdict on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is found yet; the classifier needs more packets.
    Unknown,
    /// The flow has these kinds.
    Class {
        /// The class of the flow, and the protocols that it carries.
        kinds: Kinds,
        /// Whether the classifier needs more packets, because the flow may carry more.
        more: bool,
    },
    /// No known protocol; the classifier needs no more packets.
    GivenUp,
}

/// A flow that has left the table, for a report.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Number of the flow, in the order of first packets.
    pub number: u64,
    /// The key of its first packet.
    pub key: FlowKey,
    /// Packets in the direction of the flow's first packet, and in the opposite direction.
    pub packets: [u64; 2],
    /// Bytes of payload in both directions.
    pub bytes: u64,
    /// Time of the first packet.
    pub first: Instant,
    /// Time of the last packet.
    pub last: Instant,
    /// The protocol that sets the flow up.
    pub class: Option<Box<Finding>>,
    /// The latest protocol found within the flow.
    pub carried: Option<Box<Finding>>,
    /// All kinds found.
    pub kinds: Kinds,
    /// Packets with payload until the class was found.
    pub decided_after: u16,
}

/// Flows and their classes. [`Self::observe`] takes each packet.
#[derive(Debug)]
pub struct Classifier {
    settings: Settings,
    table: Table<Entry>,
    budget: Budget,
    ended: VecDeque<Ended>,
    /// Number of flows so far.
    begun: u64,
    /// Time after which the next packet checks for idle flows.
    expires: Instant,
}

/// A flow in the table.
#[derive(Debug)]
struct Entry {
    number: u64,
    /// Whether the first packet went from the higher end to the lower end.
    is_turned: bool,
    flow: Flow,
    packets: [u64; 2],
    bytes: u64,
    first: Instant,
    last: Instant,
}

impl Classifier {
    /// A classifier that has seen nothing. `secret` keys the hash of its table.
    pub fn new(settings: Settings, secret: (u64, u64)) -> Self {
        Self {
            settings,
            table: Table::new(settings.flows, secret),
            budget: Budget(settings.assemblies),
            ended: VecDeque::new(),
            begun: 0,
            expires: Instant::ZERO,
        }
    }

    /// Takes a packet of a flow and returns the verdict on the flow. `now` must not decrease.
    pub fn observe(&mut self, now: Instant, key: &FlowKey, segment: Segment<'_>) -> Verdict {
        self.expire(now);
        let bytes = match segment {
            Segment::Datagram(bytes) | Segment::Stream { bytes, .. } => bytes.len() as u64,
            Segment::Other => 0,
        };
        let (ends, is_turned) = Ends::of(key);
        let patience = self.settings.patience;
        if let Some(entry) = self.table.get(&ends) {
            let side = usize::from(entry.is_turned != is_turned);
            return entry.take(now, side, key, segment, bytes, patience, &mut self.budget);
        }
        let mut entry = Entry {
            number: self.begun,
            is_turned,
            flow: Flow::new(),
            packets: [0; 2],
            bytes: 0,
            first: now,
            last: now,
        };
        self.begun += 1;
        let verdict = entry.take(now, 0, key, segment, bytes, patience, &mut self.budget);
        if let Some((ends, gone)) = self.table.insert(ends, entry) {
            self.end(&ends, gone);
        }
        verdict
    }

    /// The verdict on a flow, without a packet of the flow.
    pub fn verdict(&mut self, key: &FlowKey) -> Option<Verdict> {
        let (ends, _) = Ends::of(key);
        self.table.get(&ends).map(|entry| entry.verdict())
    }

    /// The server that the client of a flow requests, as far as known: names of TLS and QUIC, hosts of HTTP, questions
    /// of DNS.
    pub fn server(&mut self, key: &FlowKey) -> Option<&str> {
        let (ends, _) = Ends::of(key);
        let flow = &self.table.get(&ends)?.flow;
        let findings = [&flow.carried, &flow.class].into_iter().flatten();
        findings
            .filter_map(|finding| finding.name.as_deref())
            .next()
    }

    /// The number of flows in the table.
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// Ends all flows, as at the end of a capture.
    pub fn finish(&mut self) {
        while let Some((ends, gone)) = self.table.remove_oldest() {
            self.end(&ends, gone);
        }
    }

    /// The next flow that has left the table, if [`Settings::reports`] is set.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Removes flows that have been idle for too long. While no flow is due, this costs one comparison.
    fn expire(&mut self, now: Instant) {
        if now <= self.expires {
            return;
        }
        let idle_max = self.settings.idle;
        for _ in 0..EXPIRED_MAX {
            let last = self.table.oldest().map(|entry| entry.last);
            if last.is_some_and(|last| now.since(last) > idle_max) {
                if let Some((ends, gone)) = self.table.remove_oldest() {
                    self.end(&ends, gone);
                }
            } else if !self.table.pass_used() {
                // The other flows entered the order later. A flow that was used before it moved to the front may leave
                // late, but by less than the idle time.
                self.expires = last.unwrap_or(now) + idle_max;
                return;
            }
        }
    }

    fn end(&mut self, ends: &Ends, mut entry: Entry) {
        entry.flow.finish(&mut self.budget);
        if self.settings.reports {
            self.ended.push_back(entry.into_ended(ends));
        }
    }
}

impl Entry {
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet, and what all flows share"
    )]
    fn take(
        &mut self,
        now: Instant,
        side: usize,
        key: &FlowKey,
        segment: Segment<'_>,
        bytes: u64,
        patience: Patience,
        budget: &mut Budget,
    ) -> Verdict {
        self.packets[side] += 1;
        self.bytes += bytes;
        self.last = now;
        if self.flow.stage != Stage::Closed {
            let ports = [key.source_port, key.destination_port];
            self.flow.read(side, ports, segment, patience, budget);
        }
        self.verdict()
    }

    fn verdict(&self) -> Verdict {
        match (self.flow.kinds, self.flow.stage) {
            (kinds, Stage::Closed) if kinds.is_empty() => Verdict::GivenUp,
            (kinds, _) if kinds.is_empty() => Verdict::Unknown,
            (kinds, stage) => Verdict::Class {
                kinds,
                more: stage != Stage::Closed,
            },
        }
    }

    fn into_ended(self, ends: &Ends) -> Ended {
        Ended {
            number: self.number,
            key: ends.key(self.is_turned),
            packets: self.packets,
            bytes: self.bytes,
            first: self.first,
            last: self.last,
            kinds: self.flow.kinds,
            decided_after: self.flow.decided_after,
            class: self.flow.class,
            carried: self.flow.carried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x02ab\x02de\0\0\x01\0\x01";

    fn key(client: u32) -> FlowKey {
        let client = std::net::Ipv4Addr::from_bits(0x0a00_0000 + client);
        FlowKey::ip(client.into(), [192, 0, 2, 1].into(), 17, 5000, 53)
    }

    fn settings(flows: usize) -> Settings {
        Settings {
            flows,
            reports: true,
            ..Settings::default()
        }
    }

    fn ended(classifier: &mut Classifier) -> Vec<FlowKey> {
        std::iter::from_fn(|| classifier.take_ended())
            .map(|flow| flow.key)
            .collect()
    }

    #[test]
    fn the_flow_used_longest_ago_makes_room_for_the_20_001st() {
        let mut classifier = Classifier::new(settings(Settings::default().flows), (1, 2));
        let other = Segment::Datagram(b"no protocol");
        for client in 0..20_000 {
            classifier.observe(Instant::ZERO, &key(client), other);
        }
        assert_eq!(
            (classifier.flows(), ended(&mut classifier)),
            (20_000, vec![])
        );
        classifier.observe(Instant::ZERO, &key(0).reversed(), other); // the reply keeps it
        classifier.observe(Instant::ZERO, &key(20_000), other);
        assert_eq!(classifier.flows(), 20_000);
        assert_eq!(ended(&mut classifier), [key(1)]);
        assert_eq!(classifier.verdict(&key(1)), None);
        assert_eq!(classifier.verdict(&key(0)), Some(Verdict::Unknown));
    }

    #[test]
    fn idle_flows_leave_a_few_with_each_packet() {
        let idle = settings(100).idle;
        let mut classifier = Classifier::new(settings(100), (1, 2));
        let query = Segment::Datagram(QUERY);
        for client in 0..10 {
            let at = Instant::ZERO + Span::from_secs(u64::from(client));
            classifier.observe(at, &key(client), query);
        }
        let last = Instant::ZERO + Span::from_secs(9);
        classifier.observe(last + idle, &key(10), query);
        assert_eq!(ended(&mut classifier).len(), EXPIRED_MAX);
        classifier.observe(last + idle, &key(10), query);
        classifier.observe(last + idle, &key(10), query);
        let rest: Vec<_> = (4..9).map(key).collect();
        assert_eq!(
            ended(&mut classifier),
            rest,
            "the tenth has waited no longer than permitted"
        );
        classifier.observe(last + idle + Span::from_nanos(1), &key(10), query);
        assert_eq!(ended(&mut classifier), [key(9)]);
    }

    #[test]
    fn a_flow_is_reported_with_both_directions() {
        let mut classifier = Classifier::new(settings(10), (1, 2));
        let at = |s| Instant::ZERO + Span::from_secs(s);
        classifier.observe(at(1), &key(1), Segment::Datagram(b"????"));
        let verdict = classifier.observe(at(2), &key(1), Segment::Datagram(QUERY));
        let kinds = Kinds::NONE.with(Kind::Dns);
        assert_eq!(verdict, Verdict::Class { kinds, more: false });
        classifier.observe(at(5), &key(1).reversed(), Segment::Datagram(QUERY));
        classifier.observe(at(5), &key(2), Segment::Other);
        assert_eq!(classifier.verdict(&key(2)), Some(Verdict::GivenUp));
        classifier.finish();
        let flow = classifier.take_ended().unwrap();
        assert_eq!((flow.key, flow.number, flow.packets), (key(1), 0, [2, 1]));
        assert_eq!(flow.bytes, 4 + 2 * QUERY.len() as u64);
        assert_eq!((flow.first, flow.last), (at(1), at(5)));
        assert_eq!((flow.kinds, flow.decided_after), (kinds, 2));
        assert_eq!(flow.class.unwrap().name.as_deref(), Some("www.ab.de"));
        assert_eq!(classifier.take_ended().map(|flow| flow.key), Some(key(2)));
        assert_eq!(classifier.flows(), 0);
    }

    /// An attacker begins the maximum number of hellos, and completes none.
    #[test]
    fn assemblies_are_bounded_and_come_back() {
        let few = Settings {
            assemblies: 3,
            ..settings(10)
        };
        let mut classifier = Classifier::new(few, (1, 2));
        let hello = Segment::Stream {
            sequence: 1,
            is_syn: false,
            bytes: &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        };
        let mut left = Vec::new();
        for client in 0..12 {
            let key = FlowKey {
                protocol: 6,
                ..key(client)
            };
            classifier.observe(Instant::ZERO, &key, hello);
            left.push(classifier.budget.0);
        }
        assert_eq!(left, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        // The last flow took the assembly that the first flow returned, and the second flow returned its own.
        classifier.finish();
        assert_eq!(classifier.budget.0, 3);
    }
}
