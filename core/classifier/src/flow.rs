//! One flow: its first packets go to the parsers until one of them is sure, or patience runs out.
//!
//! ```text
//!  TCP segment --> [assembly of its direction] --> tls, start_line, greeting, stun, dns, rtp
//!  datagram    --> dns at its ports, stun, quic, dtls, dns, rtp, start_line, quic (short headers)
//!                              |
//!        nothing <-- No     Partial --> wait, and keep what it would be     Found --> class
//!                                                                              |
//!                      watched on for what it carries: STUN -> DTLS, RTP; RTP -> SVC; mail -> TLS
//! ```
//!
//! The *class* is the protocol that sets the session up: of several, the protocol found first, except that DTLS
//! replaces STUN, which has only found the path for it. A flow *carries* the protocols that are found later: media in a
//! flow that began as STUN (WebRTC), scalable video in RTP, TLS after STARTTLS. A policy can name either.
//!
//! Messages begin at the start of a segment, in the middle of a connection too, so a later message classifies a
//! connection whose first packets are missing.
//!
//! The state for parsers is dropped as soon as the flow is decided; a counter, the findings and a few flags remain.

use crate::assembly::Assembly;
use crate::finding::{Finding, Reading};
use crate::kind::{Kind, Kinds};
use crate::segment::Segment;
use crate::svc::Search;
use crate::{dns, dtls, greeting, quic, rtp, start_line, stun, tls};

/// Kinds after which the flow is watched further, each with the kinds that it may carry.
const CARRIERS: [(Kind, &[Kind]); 9] = [
    (Kind::Stun, &[Kind::Dtls, Kind::Rtp]),
    (Kind::Dtls, &[Kind::Rtp]),
    (Kind::Rtcp, &[Kind::Rtp]),
    (Kind::Rtp, &[Kind::Svc]),
    (Kind::Rtsp, &[Kind::Rtp]),
    (Kind::Smtp, &[Kind::Tls]),
    (Kind::Pop3, &[Kind::Tls]),
    (Kind::Imap, &[Kind::Tls]),
    (Kind::Ftp, &[Kind::Tls]),
];

/// Packets with payload after which a flow gets the class that one of its packets has suggested.
const FALLBACK_PACKETS: u16 = 8;

/// Limits on the packets read of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Packets with payload until a flow without a class is given up.
    pub packets: u16,
    /// Packets with payload until the classifier stops watching a classified flow for carried protocols.
    pub carried_packets: u16,
}

/// Number of assemblies that may still begin: all flows share one bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(pub(crate) usize);

/// The stages of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No class yet.
    Open,
    /// The flow has a class and may carry more.
    Watched,
    /// The classifier needs no more packets.
    Closed,
}

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) stage: Stage,
    /// All kinds found.
    pub(crate) kinds: Kinds,
    /// Number of packets with payload read.
    read: u16,
    /// The value of `read` at which the class was found.
    pub(crate) decided_after: u16,
    pub(crate) class: Option<Box<Finding>>,
    pub(crate) carried: Option<Box<Finding>>,
    parsers: Option<Box<Parsers>>,
}

/// The state that the parsers need between two packets.
#[derive(Debug)]
struct Parsers {
    sides: [Side; 2],
    /// In a separate box, because its keys take more memory than all other parsers.
    quic: Option<Box<quic::Session>>,
    svc: Search,
    /// Scalable video in packets that may be RTP.
    video: Option<Finding>,
    /// The class if no packet gives stronger evidence.
    fallback: Option<Finding>,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    /// The sequence number of the first byte, after its SYN and before any byte.
    start: Option<u32>,
    /// The sequence number of the first byte of the assembly.
    base: u32,
    assembly: Option<Assembly>,
    rtp: rtp::Sources,
    short: quic::ShortHeaders,
}

impl Flow {
    /// A flow without a packet.
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Open,
            kinds: Kinds::NONE,
            read: 0,
            decided_after: 0,
            class: None,
            carried: None,
            parsers: Some(Box::new(Parsers {
                sides: [Side::default(), Side::default()],
                quic: None,
                svc: Search::START,
                video: None,
                fallback: None,
            })),
        }
    }

    /// Reads a packet of the direction `side` (0 is that of the first packet).
    pub(crate) fn read(
        &mut self,
        side: usize,
        ports: [u16; 2],
        segment: Segment<'_>,
        patience: Patience,
        budget: &mut Budget,
    ) {
        let Some(parsers) = self
            .parsers
            .as_mut()
            .filter(|_| self.stage != Stage::Closed)
        else {
            return;
        };
        let is_open = self.stage == Stage::Open;
        let reading = match segment {
            Segment::Stream {
                sequence,
                is_syn: true,
                bytes: [],
            } => {
                parsers.sides[side].start = Some(sequence.wrapping_add(1));
                return;
            }
            Segment::Stream { bytes: [], .. } | Segment::Datagram([]) => return,
            Segment::Stream {
                sequence,
                is_syn,
                bytes,
            } => {
                let sequence = sequence.wrapping_add(is_syn.into());
                if is_syn {
                    parsers.sides[side].start = Some(sequence); // with data: TCP Fast Open (RFC 7413)
                }
                self.read += 1;
                parsers.segment(side, sequence, bytes, ports, budget)
            }
            Segment::Datagram(bytes) => {
                self.read += 1;
                parsers.datagram(side, bytes, ports, self.kinds, budget)
            }
            Segment::Other => {
                self.close(budget);
                return;
            }
        };
        let found = match reading {
            Reading::Found(finding) => Some(finding),
            Reading::Partial(Some(finding)) if is_open => {
                let fallback = &mut parsers.fallback;
                if fallback
                    .as_ref()
                    .is_none_or(|f| f.evidence <= finding.evidence)
                {
                    *fallback = Some(finding);
                }
                None
            }
            Reading::Partial(_) | Reading::No => None,
        };
        let has_fallback = parsers.fallback.is_some();
        let is_media = found.as_ref().is_some_and(|f| f.kind == Kind::Rtp);
        let video = is_media.then(|| parsers.video.take()).flatten();
        for finding in found.into_iter().chain(video) {
            self.take(finding);
        }
        let limit = match self.stage {
            Stage::Open if has_fallback => patience.packets.min(FALLBACK_PACKETS),
            Stage::Open => patience.packets,
            _ => patience.carried_packets,
        };
        if self.read >= limit {
            self.finish(budget);
        } else if self.stage == Stage::Closed {
            self.close(budget);
        }
    }

    /// Takes a finding as the class, or as a carried protocol.
    fn take(&mut self, finding: Finding) {
        let kind = finding.kind;
        if self.kinds.contains(kind) {
            return;
        }
        let is_first = self.kinds.is_empty();
        let is_carried = self.kinds.iter().any(|k| carries(k).contains(&kind));
        if !is_first && !is_carried {
            return;
        }
        self.kinds = self.kinds.with(kind);
        let replaces =
            kind == Kind::Dtls && self.class.as_ref().is_some_and(|c| c.kind == Kind::Stun);
        if is_first {
            self.decided_after = self.read;
        }
        if is_first || replaces {
            self.class = Some(Box::new(finding))
        } else {
            self.carried = Some(Box::new(finding))
        }
        self.stage = if carries(kind).is_empty() {
            Stage::Closed
        } else {
            Stage::Watched
        };
    }

    /// Stops reading packets. If a packet has suggested a class and none has found one, the suggestion becomes the
    /// class.
    pub(crate) fn finish(&mut self, budget: &mut Budget) {
        let fallback = self.parsers.as_mut().and_then(|p| p.fallback.take());
        if let (Stage::Open, Some(finding)) = (self.stage, fallback) {
            self.take(finding);
        }
        self.close(budget);
    }

    /// Drops the parsers' state.
    fn close(&mut self, budget: &mut Budget) {
        self.stage = Stage::Closed;
        if let Some(parsers) = self.parsers.take() {
            budget.0 += parsers.assemblies();
        }
    }
}

/// The kinds that may still be found in a flow of these kinds.
pub(crate) fn may_carry(kinds: Kinds) -> Kinds {
    let carried = |kinds: Kinds| {
        let all = kinds.iter().flat_map(|kind| carries(kind).iter());
        all.fold(Kinds::NONE, |set, kind| set.with(*kind))
    };
    // A carried kind may carry other kinds itself.
    let mut found = carried(kinds);
    for _ in 0..CARRIERS.len() {
        found = carried(found).iter().fold(found, Kinds::with);
    }
    found
}

/// The kinds that a flow of `kind` may carry.
fn carries(kind: Kind) -> &'static [Kind] {
    let found = CARRIERS.iter().find(|(carrier, _)| *carrier == kind);
    found.map_or(&[], |(_, carried)| carried)
}

impl Parsers {
    /// Assemblies in use; a session of QUIC has one.
    fn assemblies(&self) -> usize {
        let streams = self.sides.iter().filter(|side| side.assembly.is_some());
        streams.count() + usize::from(self.quic.is_some())
    }

    /// Reads a segment of TCP.
    fn segment(
        &mut self,
        side: usize,
        sequence: u32,
        bytes: &[u8],
        ports: [u16; 2],
        budget: &mut Budget,
    ) -> Reading {
        let Side {
            start,
            assembly,
            base,
            rtp,
            ..
        } = &mut self.sides[side];
        if assembly.is_none() {
            match start.take() {
                // A later segment has overtaken the first one.
                Some(first) if sequence != first && budget.take() => {
                    *base = first;
                    *assembly = Some(Assembly::default());
                }
                first => {
                    let reading = message(bytes, ports, rtp, first == Some(sequence));
                    if !matches!(reading, Reading::Partial(_)) {
                        return reading;
                    }
                    if !budget.take() {
                        return decided(reading);
                    }
                    *base = sequence;
                    let mut begun = Assembly::default();
                    begun.insert(0, bytes);
                    *assembly = Some(begun);
                    return reading;
                }
            }
        }
        let Some(held) = assembly else {
            return Reading::No;
        };
        let offset = sequence.wrapping_sub(*base);
        if offset > u32::MAX / 2 {
            return Reading::No; // before the beginning: a retransmission
        }
        held.insert(offset as usize, bytes);
        let reading = match held.beginning() {
            [] => return Reading::Partial(None),
            beginning => message(beginning, ports, rtp, false),
        };
        match reading {
            Reading::Partial(_) if !held.is_full() => reading,
            reading => {
                // The next segment may begin another message.
                *assembly = None;
                budget.0 += 1;
                decided(reading)
            }
        }
    }

    /// Reads a datagram.
    fn datagram(
        &mut self,
        side: usize,
        bytes: &[u8],
        ports: [u16; 2],
        kinds: Kinds,
        budget: &mut Budget,
    ) -> Reading {
        let is_relayed = kinds.contains(Kind::Stun);
        let bytes = match is_relayed.then(|| stun::peer_data(bytes)).flatten() {
            Some(data) => data,
            None => bytes,
        };
        if kinds.contains(Kind::Rtp) {
            let packet = rtp::Packet::parse(bytes).filter(rtp::Packet::is_dynamic);
            let found = packet.and_then(|p| self.svc.take(p.payload));
            return found.map_or(Reading::No, Reading::Found);
        }
        let at_home = [53, 5353, 5355].iter().any(|port| ports.contains(port));
        let reading = if at_home {
            dns::datagram(bytes, ports)
        } else {
            Reading::No
        };
        reading
            .or(|| stun::datagram(bytes))
            .or(|| self.quic(bytes, budget))
            .or(|| dtls::read(bytes))
            .or(|| dns::datagram(bytes, ports))
            .or(|| self.media(side, bytes))
            .or(|| start_line::datagram(bytes))
            .or(|| {
                let found = self.sides[side].short.take(bytes, ports);
                found.map_or(Reading::No, Reading::Found)
            })
    }

    /// Media in a datagram. The message that shows scalable video may be in the very first packet, before anything
    /// confirms RTP, so it is kept until then.
    fn media(&mut self, side: usize, bytes: &[u8]) -> Reading {
        if let Some(control) = rtp::control(bytes) {
            return Reading::Partial(Some(control));
        }
        let Some(packet) = rtp::Packet::parse(bytes) else {
            return Reading::No;
        };
        if packet.is_dynamic() {
            self.video = self.video.take().or_else(|| self.svc.take(packet.payload));
        }
        if self.sides[side].rtp.confirm(&packet) {
            Reading::Found(packet.finding())
        } else {
            Reading::No
        }
    }

    fn quic(&mut self, bytes: &[u8], budget: &mut Budget) -> Reading {
        if !quic::is_candidate(bytes) {
            return Reading::No;
        }
        if self.quic.is_none() && !budget.take() {
            return decided(quic::read(bytes, &mut quic::Session::default()));
        }
        quic::read(bytes, self.quic.get_or_insert_default())
    }
}

/// Reads the beginning of a message in a stream, whose first bytes these are if it `begins` here.
fn message(bytes: &[u8], ports: [u16; 2], rtp: &mut rtp::Sources, begins: bool) -> Reading {
    tls::read(bytes, begins)
        .or(|| start_line::stream(bytes))
        .or(|| greeting::stream(bytes))
        .or(|| stun::stream(bytes))
        .or(|| dns::stream(bytes, ports))
        .or(|| framed_media(bytes, rtp))
}

/// Media in a stream, each packet after its length.
fn framed_media(bytes: &[u8], sources: &mut rtp::Sources) -> Reading {
    let mut packets = rtp::frames(bytes).filter_map(rtp::Packet::parse);
    match packets.find(|packet| sources.confirm(packet)) {
        Some(packet) => Reading::Found(packet.finding()),
        None => Reading::No,
    }
}

/// The reading if no more bytes can arrive.
fn decided(reading: Reading) -> Reading {
    match reading {
        Reading::Partial(Some(finding)) => Reading::Found(finding),
        Reading::Partial(None) => Reading::No,
        other => other,
    }
}

impl Budget {
    /// Takes one assembly from the budget; returns whether one was left.
    fn take(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::tests::packet;
    use crate::tls::tests::{client_hello, records};

    const PATIENCE: Patience = Patience {
        packets: 32,
        carried_packets: 128,
    };
    const PORTS: [u16; 2] = [40_000, 40_001];
    /// A binding request.
    const STUN: [u8; 20] = [
        0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ];
    /// A record of application data of DTLS 1.2.
    const DTLS: [u8; 15] = [23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 9, 0, 2, 7, 7];
    /// An SEI unit with `scalability_info`.
    const SVC: [u8; 5] = [6, 24, 1, 0x12, 0x80];

    /// A flow, and the number of assemblies left.
    struct Driven(Flow, Budget);

    impl Driven {
        fn new(assemblies: usize) -> Self {
            Self(Flow::new(), Budget(assemblies))
        }

        fn datagram(&mut self, side: usize, bytes: &[u8]) -> &mut Self {
            let segment = Segment::Datagram(bytes);
            self.0.read(side, PORTS, segment, PATIENCE, &mut self.1);
            self
        }

        fn stream(&mut self, side: usize, sequence: u32, is_syn: bool, bytes: &[u8]) -> &mut Self {
            let segment = Segment::Stream {
                sequence,
                is_syn,
                bytes,
            };
            self.0.read(side, PORTS, segment, PATIENCE, &mut self.1);
            self
        }

        /// Class, kinds and stage.
        fn state(&self) -> (Option<Kind>, Vec<Kind>, Stage) {
            let class = self.0.class.as_ref().map(|finding| finding.kind);
            (class, self.0.kinds.iter().collect(), self.0.stage)
        }
    }

    fn tls() -> Vec<u8> {
        records(&client_hello("example.org", "h2"), 100)
    }

    #[test]
    fn a_hello_may_be_in_the_syn() {
        let hello = records(&client_hello("example.org", "h2"), 16_000);
        for in_syn in [hello.len(), 40, 3] {
            let mut flow = Driven::new(9);
            flow.stream(0, 999, true, &hello[..in_syn])
                .stream(1, 5, true, &[])
                .stream(0, 1000 + in_syn as u32, false, &hello[in_syn..]);
            assert_eq!(flow.state().0, Some(Kind::Tls), "{in_syn}");
            // The server did not accept the data: the client sends it again.
            let mut flow = Driven::new(9);
            flow.stream(0, 999, true, &hello[..in_syn])
                .stream(0, 1000, false, &hello);
            assert_eq!(flow.state().0, Some(Kind::Tls), "{in_syn}");
        }
    }

    #[test]
    fn what_begins_a_connection_is_a_hello_or_no_tls() {
        for content in [20, 21, 22, 23] {
            let bytes = [&[content, 3, 1, 0, 40][..], &[9; 20], &[8; 20]].concat();
            let mut flow = Driven::new(9);
            flow.stream(0, 999, true, &[])
                .stream(0, 1000, false, &bytes);
            assert_eq!(flow.state().0, None, "{content}");
            let mut flow = Driven::new(9);
            flow.stream(0, 1000, false, &bytes);
            assert_eq!(flow.state().0.is_some(), content != 20, "{content}");
        }
    }

    #[test]
    fn a_hello_in_segments_is_found_in_any_order_and_gives_its_assembly_back() {
        let hello = tls();
        let first = u32::MAX - 50; // sequence numbers wrap within the hello
        let cuts = [0, 40, 70, hello.len()];
        let pieces: Vec<_> = cuts
            .windows(2)
            .map(|w| (w[0], &hello[w[0]..w[1]]))
            .collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0]] {
            let mut flow = Driven::new(1);
            flow.stream(0, first.wrapping_sub(1), true, b"");
            for piece in order {
                let (offset, bytes) = pieces[piece];
                assert_eq!(flow.state().2, Stage::Open, "{order:?}");
                flow.stream(0, first.wrapping_add(offset as u32), false, bytes);
            }
            assert_eq!(
                flow.state(),
                (Some(Kind::Tls), vec![Kind::Tls], Stage::Closed)
            );
            assert_eq!(flow.0.class.unwrap().name.as_deref(), Some("example.org"));
            assert_eq!((flow.0.decided_after, flow.1.0), (3, 1), "{order:?}");
        }
    }

    #[test]
    fn segments_that_are_sent_again_change_nothing() {
        let hello = tls();
        let mut flow = Driven::new(1);
        flow.stream(0, 99, true, b"");
        for _ in 0..3 {
            flow.stream(0, 100, false, &hello[..60]);
        }
        flow.stream(0, 90, false, b"before the beginning");
        flow.stream(0, 160, false, &hello[60..]);
        assert_eq!(flow.state().0, Some(Kind::Tls));
    }

    #[test]
    fn without_an_assembly_a_single_segment_decides() {
        let hello = tls();
        let mut flow = Driven::new(0);
        flow.stream(0, 1, false, &hello[..80]);
        assert_eq!(flow.state().0, Some(Kind::Tls));
        assert_eq!(flow.0.class.unwrap().evidence, crate::Evidence::Header);
    }

    #[test]
    fn directions_are_read_apart() {
        let mut flow = Driven::new(2);
        flow.datagram(0, &packet(96, 1, 7, b"voice"));
        flow.datagram(1, &packet(96, 2, 7, b"voice"));
        assert_eq!(
            flow.state().0,
            None,
            "the next number, but of the other side"
        );
        flow.datagram(1, &packet(96, 3, 7, b"voice"));
        assert_eq!(flow.state().0, Some(Kind::Rtp));
        let hello = tls();
        let mut flow = Driven::new(2);
        flow.stream(0, 1, false, &hello[..60]);
        flow.stream(1, 61, false, &hello[60..]);
        assert_eq!(flow.state().0, None, "two halves of no message");
    }

    #[test]
    fn media_are_found_behind_stun_and_dtls() {
        let mut flow = Driven::new(1);
        flow.datagram(0, &STUN);
        assert_eq!(
            flow.state(),
            (Some(Kind::Stun), vec![Kind::Stun], Stage::Watched)
        );
        flow.datagram(0, &DTLS);
        assert_eq!(
            flow.state().0,
            Some(Kind::Dtls),
            "STUN has only found the path"
        );
        flow.datagram(1, &packet(111, 1, 7, b"voice"));
        flow.datagram(1, &packet(111, 2, 7, b"voice"));
        let kinds = vec![Kind::Rtp, Kind::Dtls, Kind::Stun];
        assert_eq!(flow.state(), (Some(Kind::Dtls), kinds, Stage::Watched));
        assert_eq!(flow.0.carried.unwrap().kind, Kind::Rtp);
    }

    #[test]
    fn scalable_video_is_found_in_the_first_packet_or_later() {
        for svc_at in [0, 1, 5] {
            let mut flow = Driven::new(0);
            for number in 0..7 {
                let payload: &[u8] = if number == svc_at {
                    &SVC
                } else {
                    &[0x61, 1, 2]
                };
                flow.datagram(0, &packet(96, number, 7, payload));
            }
            let kinds = vec![Kind::Rtp, Kind::Svc];
            assert_eq!(flow.state(), (Some(Kind::Rtp), kinds, Stage::Closed));
            assert_eq!(flow.0.carried.unwrap().kind, Kind::Svc);
        }
        // The same message in a flow that is not RTP.
        let mut flow = Driven::new(0);
        for number in [1, 70, 2000] {
            flow.datagram(0, &packet(96, number, u32::from(number), &SVC));
        }
        assert_eq!(flow.state().0, None);
    }

    #[test]
    fn patience_ends() {
        let mut flow = Driven::new(0);
        for number in 1..=PATIENCE.packets {
            assert_eq!(flow.state().2, Stage::Open, "packet {number}");
            flow.datagram(0, b"no protocol");
        }
        assert_eq!(flow.state(), (None, vec![], Stage::Closed));
        flow.datagram(0, &STUN);
        assert_eq!(flow.state().0, None, "it is not read any more");

        let mut flow = Driven::new(0);
        flow.datagram(0, &STUN);
        for _ in 1..PATIENCE.carried_packets {
            assert_eq!(flow.state().2, Stage::Watched);
            flow.datagram(0, b"no protocol");
        }
        assert_eq!(
            flow.state(),
            (Some(Kind::Stun), vec![Kind::Stun], Stage::Closed)
        );
    }

    #[test]
    fn a_suggestion_is_the_class_if_no_packet_says_more() {
        let report = [0x80, 201, 0, 1, 1, 2, 3, 4]; // a receiver report
        let mut flow = Driven::new(0);
        for _ in 1..FALLBACK_PACKETS {
            flow.datagram(0, &report);
            assert_eq!(flow.state().0, None);
        }
        flow.datagram(0, &report);
        assert_eq!(
            flow.state(),
            (Some(Kind::Rtcp), vec![Kind::Rtcp], Stage::Closed)
        );
        let mut flow = Driven::new(0);
        flow.datagram(0, &report);
        flow.0.finish(&mut flow.1);
        assert_eq!(flow.state().0, Some(Kind::Rtcp), "the flow ends");
    }

    #[test]
    fn assemblies_come_back_when_patience_ends() {
        let hello = tls();
        let mut flow = Driven::new(2);
        flow.stream(0, 1, false, &hello[..20]);
        flow.stream(1, 1, false, &hello[..20]);
        assert_eq!(flow.1.0, 0);
        flow.0.finish(&mut flow.1);
        assert_eq!(flow.1.0, 2);
        assert!(flow.0.parsers.is_none());
    }
}
