//! Round trips of the paths behind a port, measured from the TCP connections that cross it.
//!
//! ```text
//!   sent:      data ends at 4000, TSval 17 ─────────────▶ peer     a record: (flow, 4000), 17, the time
//!   received:  acknowledgment 4000, TSecr 16 ◀─────────── peer     that record: its age is a round trip
//! ```
//!
//! This needs no probes, and it measures the peers whose delay matters. [`RoundTrips`] reads every TCP segment with the
//! timestamp option (RFC 7323) that the port sends or receives from its link, and returns some round trips. Each names
//! its peer, because each peer has its own path: compare only delays of the same peer.
//!
//! # Which acknowledgment belongs to which segment
//!
//! The acknowledgment number identifies the segment that caused the acknowledgment (ACK); the timestamp excludes
//! ambiguous cases:
//!
//! - **New data only.** Pure ACKs are not acknowledged, and a retransmitted segment gets no record.
//! - **A filled gap.** The acknowledgment number jumps to data that arrived long before. But the ACK echoes the
//!   timestamp of the segment that filled the gap, which is newer than the record's timestamp: it gives no round trip.
//! - **Delayed acknowledgments.** The receiver may have waited for a second segment, or for the application's reply. So
//!   a segment counts only if the flow sends another segment within [`FOLLOWED`], or if the ACK echoes an older
//!   timestamp and therefore acknowledges more than one segment.
//! - **Ticks.** The timestamp clock may tick only every 10 ms. Its values are compared, never subtracted.
//!
//! # Source
//!
//! Kathleen Nichols' `pping` (github.com/pollere/pping) matches the first segment with a TSval to the first ACK that
//! echoes it. Deviation: we match the acknowledgment number, and compare the timestamps. An ACK echoes the timestamp of
//! the *first* segment that it acknowledges, so `pping` also measures the time until the second segment: 6 ms with two
//! uploads at 4 Mbit/s. `pping` takes the minimum of many results; a controller needs each.
//!
//! # Bounds
//!
//! All memory is allocated at the start: [`FLOWS`] and [`RECORDS`] slots. A segment costs one keyed hash and one access
//! to each table. A flow keeps its slot as long as it sends, even if another flow has the same slot. At most one record
//! is made per [`SPACING`]; later records overwrite earlier ones.
//!
//! # What an attacker can do
//!
//! A peer can delay its ACKs, and acknowledge data that it has not received; this changes only the round trips of its
//! own address. But where the minimum over all peers counts, a single peer can decide it: a rate that follows the
//! minimum needs limits. An echo that is newer than the segment, or older than the latest echo, gives no round trip. A
//! host that opens many connections can take the slots of other flows, which then give no round trips: name reflectors,
//! too, where that matters.

use weir_base::{Instant, Span};
use weir_packet::{FlowKey, KeyKind, Keys};
use weir_wire::{Protocol, tcp};

use crate::headers::{Fragment, Headers};

/// Slots for flows, and for records.
const FLOWS: usize = 512;
const RECORDS: usize = 2048;
/// Minimum time between two records.
const SPACING: Span = Span::from_millis(1);
/// Time within which another segment must follow: shorter than any delayed-ACK timer.
const FOLLOWED: Span = Span::from_millis(20);
/// A flow that has sent nothing for this time may lose its slot.
const SILENT: Span = Span::from_secs(1);
/// A record older than this no longer describes the link.
const OLD: Span = Span::from_secs(4);

/// The fields of a TCP segment with timestamps from which round trips are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// The next sequence number that the segment's sender expects; `None` without the ACK flag.
    pub acknowledgment: Option<u32>,
    /// Bytes of data.
    pub payload: u32,
    /// TSval, and TSecr.
    pub timestamps: (u32, u32),
}

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// A keyed hash of the peer's address.
    pub peer: u64,
    /// When the port sent the segment.
    pub at: Instant,
    /// The bytes that the port had sent before the segment.
    pub sent: u64,
    /// The time until the acknowledgment arrived.
    pub took: Span,
}

/// A sent segment.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Hash of the segment's flow.
    flow: u64,
    /// The sequence number after the last byte.
    end: u32,
    timestamp: u32,
    at: Instant,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    hash: u64,
    /// The latest new segment.
    latest: Record,
    /// The latest acknowledgment number, its timestamp echo, and when it arrived; `None` before the first.
    answered: Option<(u32, u32, Instant)>,
}

/// The round trips of a port.
pub struct RoundTrips {
    keys: Keys,
    flows: Box<[Option<Flow>]>,
    records: Box<[Option<Record>]>,
    /// When the latest record was sent.
    recorded: Option<Instant>,
}

impl RoundTrips {
    /// Empty tables; `secret` keys the hashes.
    pub fn new(secret: (u64, u64)) -> Self {
        Self {
            keys: Keys::new(0, secret),
            flows: vec![None; FLOWS].into(),
            records: vec![None; RECORDS].into(),
            recorded: None,
        }
    }

    /// Records a segment of the flow `key` that the port sends at `now`, after `sent` bytes.
    pub fn sent(&mut self, now: Instant, key: &FlowKey, segment: &Segment, sent: u64) {
        if segment.payload == 0 {
            return;
        }
        let hash = self.keys.hash_key(key);
        let latest = Record {
            flow: hash,
            end: segment.sequence.wrapping_add(segment.payload),
            timestamp: segment.timestamps.0,
            at: now,
            sent,
        };
        let place = &mut self.flows[place(hash, FLOWS)];
        let known = match place {
            Some(flow) if flow.hash == hash => flow,
            Some(flow) if flow.latest.at + SILENT > now => return,
            _ => {
                *place = Some(Flow {
                    hash,
                    latest,
                    answered: None,
                });
                return;
            }
        };
        if !is_after(latest.end, known.latest.end) {
            return; // a retransmission
        }
        let before = std::mem::replace(&mut known.latest, latest);
        let is_due = self.recorded.is_none_or(|at| before.at >= at + SPACING);
        if now.since(before.at) <= FOLLOWED && is_due {
            self.recorded = Some(before.at);
            self.records[record_place(hash, before.end)] = Some(before);
        }
    }

    /// Handles a segment of the flow `key` that arrived from the port's link at `now`. Returns the round trip, if it
    /// ends one.
    pub fn received(
        &mut self,
        now: Instant,
        key: &FlowKey,
        segment: &Segment,
    ) -> Option<RoundTrip> {
        let (acknowledgment, echo) = (segment.acknowledgment?, segment.timestamps.1);
        let there = FlowKey {
            source: key.destination,
            destination: key.source,
            source_port: key.destination_port,
            destination_port: key.source_port,
            ..*key
        };
        let hash = self.keys.hash_key(&there);
        let flow = self.flows[place(hash, FLOWS)].as_mut()?;
        if flow.hash != hash {
            return None;
        }
        // Much older values cannot be compared: timestamps in microseconds wrap after 72 minutes.
        let answered = flow.answered.filter(|(.., at)| now.since(*at) <= OLD);
        if let Some((last, last_echo, _)) = answered
            && (!is_after(acknowledgment, last) || is_after(last_echo, echo))
        {
            return None; // a duplicate, or an old echo
        }
        let latest = flow.latest;
        if is_after(acknowledgment, latest.end) || is_after(echo, latest.timestamp) {
            return None; // for a segment that was never sent, or was retransmitted
        }
        flow.answered = Some((acknowledgment, echo, now));
        let record = match latest.end == acknowledgment {
            true => Some(latest).filter(|_| echo != latest.timestamp), // covers several segments
            false => self.records[record_place(hash, acknowledgment)],
        }?;
        let is_this = record.flow == hash && record.end == acknowledgment;
        let is_clear = !is_after(echo, record.timestamp) && now.since(record.at) <= OLD;
        (is_this && is_clear).then(|| RoundTrip {
            peer: self.keys.hash_key(&there.project(KeyKind::Destination)),
            at: record.at,
            sent: record.sent,
            took: now.since(record.at),
        })
    }
}

impl Segment {
    /// The segment in a frame; `None` if it is not a whole TCP segment with timestamps, or if it opens or ends a
    /// connection.
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        if headers.protocol != u8::from(Protocol::TCP) || headers.fragment != Fragment::Whole {
            return None;
        }
        let view = tcp::View::new_checked(headers.transport(frame)).ok()?;
        let flags = view.flags();
        let ends = [tcp::Flags::SYN, tcp::Flags::FIN, tcp::Flags::RST];
        if ends.into_iter().any(|end| flags.contain(end)) {
            return None;
        }
        Some(Self {
            sequence: view.sequence(),
            acknowledgment: flags
                .contain(tcp::Flags::ACK)
                .then(|| view.acknowledgment()),
            payload: view.payload().len() as u32,
            timestamps: view.timestamps()?,
        })
    }
}

/// Whether sequence number or timestamp `a` is after `b`; both wrap.
fn is_after(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// The slot for a hash.
fn place(hash: u64, places: usize) -> usize {
    hash as usize & (places - 1)
}

fn record_place(flow: u64, end: u32) -> usize {
    let mixed = (flow ^ u64::from(end)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    place(mixed >> 32, RECORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    fn key(peer: u8) -> FlowKey {
        let [here, there] = [1, peer].map(|n| IpAddr::from(Ipv4Addr::new(192, 0, 2, n)));
        FlowKey::ip(here, there, Protocol::TCP.into(), 4000, 443)
    }

    fn back(peer: u8) -> FlowKey {
        let there = key(peer);
        FlowKey {
            source: there.destination,
            destination: there.source,
            source_port: there.destination_port,
            destination_port: there.source_port,
            ..there
        }
    }

    /// A measurement of one flow to peer 2, whose segments have 100 bytes.
    struct Flow {
        round_trips: RoundTrips,
    }

    impl Flow {
        fn new() -> Self {
            Self {
                round_trips: RoundTrips::new((1, 2)),
            }
        }

        /// Sends segment `n`, from zero on, with TSval `timestamp`.
        fn sends(&mut self, at: u64, n: u32, timestamp: u32) {
            let segment = Segment {
                sequence: 100 * n,
                acknowledgment: Some(7),
                payload: 100,
                timestamps: (timestamp, 0),
            };
            let sent = u64::from(n) * 150;
            self.round_trips.sent(ms(at), &key(2), &segment, sent);
        }

        /// Receives an ACK for everything before segment `n`, with TSecr `echo`. Returns the round trip in ms.
        fn gets(&mut self, at: u64, n: u32, echo: u32) -> Option<u64> {
            let segment = Segment {
                sequence: 7,
                acknowledgment: Some(100 * n),
                payload: 0,
                timestamps: (0, echo),
            };
            let round_trip = self.round_trips.received(ms(at), &back(2), &segment)?;
            assert_eq!(round_trip.sent, u64::from(n - 1) * 150);
            assert_eq!(round_trip.at + round_trip.took, ms(at));
            Some(round_trip.took.as_nanos() / 1_000_000)
        }
    }

    #[test]
    fn the_age_of_the_segment_that_caused_the_answer_is_the_round_trip() {
        // Every second segment is acknowledged, and the echo is the first one's.
        let mut flow = Flow::new();
        for n in 0..6 {
            flow.sends(u64::from(n) * 6, n, 1000 + 6 * n);
        }
        assert_eq!(flow.gets(36, 2, 1000), Some(30));
        assert_eq!(flow.gets(48, 4, 1012), Some(30));
        // No segment followed the last one, but its ACK covers two segments.
        assert_eq!(flow.gets(60, 6, 1024), Some(30));
    }

    #[test]
    fn a_lone_segment_may_have_waited_for_the_timer_of_its_receiver() {
        let mut flow = Flow::new();
        flow.sends(0, 0, 1000);
        flow.sends(50, 1, 1050); // too late to have triggered the ACK for the first one
        assert_eq!(flow.gets(60, 1, 1000), None);
        assert_eq!(flow.gets(110, 2, 1050), None);
        // Two segments in quick succession.
        flow.sends(200, 2, 1200);
        flow.sends(201, 3, 1201);
        assert_eq!(flow.gets(220, 3, 1200), Some(20));
    }

    #[test]
    fn data_that_is_sent_again_gives_no_round_trip() {
        // Segment 1 is lost. The ACKs for 2 and 3 repeat 100; the retransmission at 100 ms fills the gap.
        let mut flow = Flow::new();
        for n in 0..5 {
            flow.sends(u64::from(n) * 2, n, 1000 + 2 * n);
        }
        assert_eq!(flow.gets(20, 1, 1000), Some(20));
        assert_eq!(flow.gets(24, 1, 1000), None);
        assert_eq!(flow.gets(26, 1, 1000), None);
        flow.sends(100, 1, 1100);
        assert_eq!(flow.gets(120, 4, 1100), None, "echoes the second try");
    }

    #[test]
    fn echoes_from_the_past_and_from_the_future_are_not_used() {
        let mut flow = Flow::new();
        for n in 0..8 {
            flow.sends(u64::from(n), n, 1000 + n);
        }
        assert_eq!(flow.gets(20, 2, 1003), None, "newer than the segment");
        assert_eq!(flow.gets(22, 4, 999), None, "older than the latest echo");
        assert_eq!(flow.gets(24, 20, 1004), None, "of what was never sent");
        assert_eq!(flow.gets(26, 6, 1004), Some(21));
        assert_eq!(flow.gets(27, 6, 1004), None, "twice");
    }

    #[test]
    fn a_clock_of_ten_milliseconds_and_one_that_wraps_serve_as_well() {
        let mut flow = Flow::new();
        for n in 0..30 {
            flow.sends(u64::from(n), n, u32::MAX.wrapping_add(n / 10));
        }
        assert_eq!(flow.gets(21, 2, u32::MAX), Some(20));
        assert_eq!(flow.gets(41, 22, 1), Some(20));
    }

    #[test]
    fn a_silence_after_which_a_clock_of_microseconds_seems_to_run_backwards_hides_nothing() {
        for minutes in [20, 36, 50, 71, 72] {
            let mut flow = Flow::new();
            for (burst, first) in [(0, 0), (minutes * 60_000, 10)] {
                let clock = |at: u64| (1000 * at) as u32;
                for n in 0..6 {
                    let at = burst + u64::from(n);
                    flow.sends(at, first + n, clock(at));
                }
                let echo = clock(burst);
                assert_eq!(
                    flow.gets(burst + 30, first + 2, echo),
                    Some(29),
                    "{minutes}"
                );
            }
        }
    }

    #[test]
    fn there_is_a_record_at_most_every_millisecond() {
        let mut flow = Flow::new();
        for n in 0..1000 {
            flow.sends(0, n, 1000);
        }
        flow.sends(1, 1000, 1001);
        let records = flow.round_trips.records.iter().flatten().count();
        assert_eq!(records, 1);
    }

    #[test]
    fn a_busy_flow_keeps_its_place() {
        let mut flow = Flow::new();
        flow.sends(0, 0, 1000);
        let place = place(flow.round_trips.keys.hash_key(&key(2)), FLOWS);
        let stranger = (1..=u16::MAX).map(|source_port| FlowKey {
            source_port,
            ..key(3)
        });
        let meets =
            |key: &FlowKey| super::place(flow.round_trips.keys.hash_key(key), FLOWS) == place;
        let stranger = stranger.into_iter().find(meets).unwrap();
        let segment = Segment {
            sequence: 0,
            acknowledgment: None,
            payload: 1,
            timestamps: (1, 0),
        };
        flow.round_trips.sent(ms(999), &stranger, &segment, 0);
        flow.sends(999, 1, 1999);
        flow.sends(1000, 2, 2000);
        assert_eq!(flow.gets(1020, 2, 1999), Some(21));
        flow.round_trips.sent(ms(2000), &stranger, &segment, 0);
        assert_eq!(flow.gets(2001, 3, 2000), None, "it was silent");
    }

    #[test]
    fn peers_have_numbers_of_their_own() {
        let mut round_trips = RoundTrips::new((1, 2));
        let mut peer = |n: u8, at: u64| {
            for (k, sequence) in [(0, 0), (2, 100), (4, 200)] {
                let segment = Segment {
                    sequence,
                    acknowledgment: None,
                    payload: 100,
                    timestamps: (1, 0),
                };
                round_trips.sent(ms(at + k), &key(n), &segment, 0);
            }
            let answer = Segment {
                sequence: 0,
                acknowledgment: Some(100),
                payload: 0,
                timestamps: (1, 1),
            };
            round_trips.received(ms(at + 10), &back(n), &answer)
        };
        let [a, b] = [(2, 10), (3, 30)].map(|(n, at)| peer(n, at).unwrap());
        assert_ne!(a.peer, b.peer);
        assert_eq!([a.took, b.took], [Span::from_millis(10); 2]);
    }

    proptest! {
        /// For any input, a round trip is the time since a segment of that flow with that end was sent.
        #[test]
        fn a_round_trip_is_never_longer_than_since_the_first_segment(
            steps in prop::collection::vec((0_u64..30, 0_u32..12, 0_u32..12, 2_u8..5, any::<bool>()), 1..300),
        ) {
            let mut round_trips = RoundTrips::new((1, 2));
            let mut firsts = std::collections::HashMap::new();
            let mut now = 0;
            for (gap, n, timestamp, peer, goes) in steps {
                now += gap;
                let segment = Segment {
                    sequence: 100 * n,
                    acknowledgment: Some(100 * n),
                    payload: 100,
                    timestamps: (timestamp, timestamp),
                };
                if goes {
                    firsts.entry((peer, 100 * (n + 1))).or_insert(now);
                    round_trips.sent(ms(now), &key(peer), &segment, 0);
                } else if let Some(found) = round_trips.received(ms(now), &back(peer), &segment) {
                    let first = firsts.get(&(peer, 100 * n)).copied();
                    prop_assert!(first.is_some_and(|first| found.at >= ms(first)));
                    prop_assert_eq!(found.at + found.took, ms(now));
                }
            }
        }
    }
}
