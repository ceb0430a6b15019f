//! The packets of a port as a capture file.
//!
//! ```text
//!   port ─▶ departed, at the start of its transmission ─┐
//!        ─▶ reaped, with its reason ────────────────────┴─▶ Trace ─▶ pcapng
//! ```
//!
//! Packets of the simulator have no bytes. The file contains headers with the values of the model, and the length of
//! each packet; the payload is missing, as in a capture with a short snap length. Link-layer addresses are invented,
//! and checksums of TCP and UDP are zero. Windows are shifted by [`WINDOW_SHIFT`], which every SYN announces.
//!
//! A packet that leaves with "congestion experienced" is "marked", no matter where it was marked. A dropped packet has
//! the ECN bits set by its sender.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::{Instant, Rate};
use weir_capture::{Direction, Fate, Seen, Writer};
use weir_packet::key::Family;
use weir_packet::{Ecn, FlowKey, Reason};
use weir_wire::{EtherType, Protocol, WireError, ethernet, ipv4, ipv6, tcp, udp};

use crate::flight::Content;
use crate::tcp::{Flags, Segment};

/// Windows in headers count units of two to this power, in bytes: up to 64 MiB.
pub const WINDOW_SHIFT: u8 = 10;
/// The longest headers: Ethernet, IPv6, TCP with forty bytes of options.
const HEADERS_BYTES_MAX: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + tcp::HEADER_LEN_MAX;
/// Locally administered link-layer addresses, which belong to no device.
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The packets of a port, up to a limit.
#[derive(Debug)]
pub struct Trace {
    limit: usize,
    packets: Vec<Traced>,
    missed: u64,
    until: Instant,
}

/// A packet that left a port or was dropped there.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// Time of departure or drop.
    pub at: Instant,
    /// Addresses and ports.
    pub key: FlowKey,
    /// The content of the packet.
    pub content: Content,
    /// The ECN field.
    pub ecn: Ecn,
    /// The fate at the port.
    pub fate: Fate,
}

impl Trace {
    /// A trace with room for the first `limit` packets.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            packets: Vec::new(),
            missed: 0,
            until: Instant::ZERO,
        }
    }

    /// Records that a packet starts to leave.
    pub(crate) fn departed(&mut self, at: Instant, key: &FlowKey, content: &Content, ecn: Ecn) {
        let fate = match ecn {
            Ecn::Congested => Fate::Marked,
            _ => Fate::Passed,
        };
        self.add(at, key, content, ecn, fate);
    }

    /// Records that a packet is dropped.
    pub(crate) fn lost(&mut self, at: Instant, key: &FlowKey, content: &Content, reason: Reason) {
        let ecn = match content {
            Content::Tcp(segment) if segment.ecn_capable => Ecn::Capable0,
            _ => Ecn::NotCapable,
        };
        self.add(at, key, content, ecn, Fate::Dropped(reason));
    }

    fn add(&mut self, at: Instant, key: &FlowKey, content: &Content, ecn: Ecn, fate: Fate) {
        self.until = self.until.max(at);
        if self.packets.len() == self.limit {
            self.missed += 1;
            return;
        }
        self.packets.push(Traced {
            at,
            key: *key,
            content: *content,
            ecn,
            fate,
        });
    }

    /// The packets, ordered by time.
    pub fn packets(&self) -> &[Traced] {
        &self.packets
    }

    /// The content of a pcapng file, with the port's name and rate.
    pub fn pcapng(&self, name: &str, rate: Option<Rate>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(0, 0, &mut out);
        let interface = writer.interface(name, rate, &mut out);
        for packet in &self.packets {
            let mut frame = [0; HEADERS_BYTES_MAX];
            let seen = Seen {
                interface,
                at: packet.at,
                // The model's packets are far below every limit of a header.
                frame: packet.headers(&mut frame).unwrap_or_default(),
                original_len: packet.len(),
                direction: Some(Direction::Outbound),
                fate: packet.fate,
            };
            writer.packet(&seen, &mut out);
        }
        writer.statistics(interface, self.until, self.missed, &mut out);
        out
    }
}

impl Traced {
    /// Length of the transport header and the bytes after it.
    fn transport_bytes(&self) -> u32 {
        let header = match &self.content {
            Content::Tcp(segment) => segment.header_bytes(),
            _ => udp::HEADER_LEN as u32,
        };
        header + self.content.payload()
    }

    /// The length of the frame, in bytes.
    fn len(&self) -> u32 {
        let ip = match self.key.family {
            Family::V6 => ipv6::HEADER_LEN,
            Family::V4 | Family::Link => ipv4::HEADER_LEN_MIN,
        };
        (ethernet::HEADER_LEN + ip) as u32 + self.transport_bytes()
    }

    /// Writes the headers to the start of `frame`.
    fn headers<'a>(&self, frame: &'a mut [u8; HEADERS_BYTES_MAX]) -> Result<&'a [u8], WireError> {
        let ethertype = match self.key.family {
            Family::V6 => EtherType::IPV6,
            Family::V4 | Family::Link => EtherType::IPV4,
        };
        let repr = ethernet::Repr {
            destination: THERE,
            source: HERE,
            ethertype,
        };
        repr.emit(&mut ethernet::View::new_unchecked(&mut frame[..]));
        let mut end = repr.encoded_len();
        end += self.network(&mut frame[end..])?;
        end += self.transport(&mut frame[end..])?;
        Ok(&frame[..end])
    }

    fn network(&self, room: &mut [u8]) -> Result<usize, WireError> {
        let protocol = Protocol::from(self.key.protocol);
        let payload_len = self.transport_bytes() as usize;
        let FlowKey {
            source,
            destination,
            ..
        } = self.key;
        if self.key.family == Family::V6 {
            let repr = ipv6::Repr {
                traffic_class: self.ecn.bits(),
                flow_label: Default::default(),
                payload_len: payload_len.min(usize::from(u16::MAX)) as u16,
                next_header: protocol,
                hop_limit: 64,
                source: Ipv6Addr::from(source),
                destination: Ipv6Addr::from(destination),
            };
            repr.emit(&mut ipv6::View::new_unchecked(room));
            return Ok(repr.encoded_len());
        }
        let v4 = |[a, b, c, d, ..]: [u8; 16]| Ipv4Addr::new(a, b, c, d);
        let mut repr = ipv4::Repr::new(v4(source), v4(destination), protocol, payload_len)?;
        repr.traffic_class = self.ecn.bits();
        repr.dont_fragment = true;
        repr.emit(&mut ipv4::View::new_unchecked(room));
        Ok(repr.encoded_len())
    }

    fn transport(&self, room: &mut [u8]) -> Result<usize, WireError> {
        let (source, destination) = (self.key.source_port, self.key.destination_port);
        match &self.content {
            Content::Datagram { .. } | Content::Chunk(_) | Content::Probe { .. } => {
                let payload = self.content.payload() as usize;
                let repr = udp::Repr::new(source, destination, payload)?;
                repr.emit(&mut udp::View::new_unchecked(room));
                Ok(repr.encoded_len())
            }
            Content::Tcp(segment) => {
                let is_syn = segment.flags.contains(Flags::SYN);
                let shift = if is_syn { 0 } else { WINDOW_SHIFT };
                let has_ack = segment.flags.contains(Flags::ACK);
                let repr = tcp::Repr {
                    source_port: source,
                    destination_port: destination,
                    // Sequence numbers of the model never wrap; those of a header do.
                    sequence: segment.sequence as u32,
                    acknowledgment: if has_ack {
                        segment.acknowledgment as u32
                    } else {
                        0
                    },
                    flags: control_bits(segment),
                    window: (segment.window >> shift).min(u32::from(u16::MAX)) as u16,
                    urgent: 0,
                    options: options(segment)?,
                };
                repr.emit(&mut tcp::View::new_unchecked(room));
                Ok(repr.encoded_len())
            }
        }
    }
}

fn control_bits(segment: &Segment) -> tcp::Flags {
    let bits = [
        (Flags::SYN, tcp::Flags::SYN),
        (Flags::FIN, tcp::Flags::FIN),
        (Flags::ACK, tcp::Flags::ACK),
        (Flags::RST, tcp::Flags::RST),
        (Flags::ECE, tcp::Flags::ECE),
        (Flags::CWR, tcp::Flags::CWR),
    ];
    let set = bits
        .iter()
        .filter(|(ours, _)| segment.flags.contains(*ours));
    let mut flags = match segment.payload {
        0 => tcp::Flags::from_bits(0),
        _ => tcp::Flags::PSH,
    };
    for (_, theirs) in set {
        flags = flags.and(*theirs);
    }
    flags
}

/// Options in the order and with the padding of Linux, as [`Segment::header_bytes`] counts them.
fn options(segment: &Segment) -> Result<tcp::Options, WireError> {
    const NOP: u8 = 1;
    let mut bytes = Vec::with_capacity(40);
    let has = |flag| segment.flags.contains(flag);
    let is_syn = has(Flags::SYN);
    if is_syn {
        let mss = segment.mss.min(u32::from(u16::MAX)) as u16;
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    match (is_syn && has(Flags::SACK_PERMITTED), has(Flags::TIMESTAMPS)) {
        (true, _) => {
            if !has(Flags::TIMESTAMPS) {
                bytes.extend([NOP, NOP]);
            }
            bytes.extend([4, 2]);
        }
        (false, true) => bytes.extend([NOP, NOP]),
        (false, false) => {}
    }
    if has(Flags::TIMESTAMPS) {
        bytes.extend([8, 10]);
        bytes.extend(segment.timestamp.to_be_bytes());
        bytes.extend(segment.echo.to_be_bytes());
    }
    if is_syn {
        bytes.extend([NOP, 3, 3, WINDOW_SHIFT]);
    } else if !segment.sack.is_empty() {
        let blocks = segment.sack.ranges(segment.acknowledgment);
        bytes.extend([NOP, NOP, 5, 2 + 8 * segment.sack.count() as u8]);
        for block in blocks {
            bytes.extend((block.start as u32).to_be_bytes());
            bytes.extend((block.end as u32).to_be_bytes());
        }
    }
    tcp::Options::new(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Range, SackBlocks};

    fn traced(content: Content, ipv6: bool) -> Traced {
        let key = match (ipv6, &content) {
            (true, _) => FlowKey::ip(
                "2001:db8::1".parse().unwrap(),
                "2001:db8::2".parse().unwrap(),
                6,
                10_000,
                5_001,
            ),
            (false, Content::Tcp(_)) => {
                FlowKey::ip([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 10_000, 5_001)
            }
            (false, _) => FlowKey::ip([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 7, 9),
        };
        Traced {
            at: Instant::from_nanos(5),
            key,
            content,
            ecn: Ecn::Congested,
            fate: Fate::Passed,
        }
    }

    #[test]
    fn headers_are_as_long_as_the_model_says() {
        let all = [
            Flags::SYN,
            Flags::SYN | Flags::ACK,
            Flags::ACK,
            Flags::ACK | Flags::FIN,
        ];
        let sacked = [
            Range::new(110, 120),
            Range::new(130, 140),
            Range::new(150, 160),
        ];
        for flags in all {
            for more in [
                Flags::empty(),
                Flags::SACK_PERMITTED,
                Flags::TIMESTAMPS,
                Flags::SACK_PERMITTED | Flags::TIMESTAMPS,
            ] {
                for sack in [SackBlocks::default(), SackBlocks::new(100, &sacked)] {
                    if flags.contains(Flags::SYN) && !sack.is_empty() {
                        continue; // never sent
                    }
                    let segment = Segment {
                        sequence: (1 << 40) + 7,
                        acknowledgment: 100,
                        flags: flags | more,
                        payload: 1000,
                        mss: 1460,
                        window: 1 << 20,
                        sack,
                        ..Segment::default()
                    };
                    for ipv6 in [false, true] {
                        let packet = traced(Content::Tcp(segment), ipv6);
                        let mut frame = [0; HEADERS_BYTES_MAX];
                        let headers = packet.headers(&mut frame).unwrap();
                        assert_eq!(headers.len() as u32 + 1000, packet.len(), "{segment:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_segment_is_read_back() {
        let segment = Segment {
            sequence: (1 << 32) + 7,
            acknowledgment: 100,
            flags: Flags::ACK | Flags::ECE,
            payload: 1000,
            window: 3 << 10,
            sack: SackBlocks::new(100, &[Range::new(110, 120)]),
            ..Segment::default()
        };
        let packet = traced(Content::Tcp(segment), false);
        let mut frame = [0; HEADERS_BYTES_MAX];
        let headers = packet.headers(&mut frame).unwrap();
        let ip = ipv4::View::new_unchecked(&headers[14..]);
        assert_eq!((ip.total_len(), ip.traffic_class()), (20 + 32 + 1000, 0b11));
        let view = tcp::View::new_checked(&headers[34..]).unwrap();
        let read = tcp::Repr::parse(&view).unwrap();
        assert_eq!((read.source_port, read.destination_port), (10_000, 5_001));
        assert_eq!(
            (read.sequence, read.acknowledgment, read.window),
            (7, 100, 3)
        );
        assert!(read.flags.contain(tcp::Flags::ACK.and(tcp::Flags::ECE)));
        let sack = [1, 1, 5, 10, 0, 0, 0, 110, 0, 0, 0, 120];
        assert_eq!(read.options.as_bytes(), sack);
    }

    #[test]
    fn a_trace_ends_at_its_limit_and_says_what_it_missed() {
        let mut trace = Trace::new(2);
        let packet = traced(Content::Datagram { payload: 100 }, false);
        let (key, content) = (&packet.key, &packet.content);
        trace.departed(Instant::from_nanos(1), key, content, Ecn::Congested);
        trace.lost(Instant::from_nanos(2), key, content, Reason::QueueFull);
        trace.lost(Instant::from_nanos(3), key, content, Reason::QueueFull);
        let fates: Vec<Fate> = trace.packets().iter().map(|p| p.fate).collect();
        assert_eq!(fates, [Fate::Marked, Fate::Dropped(Reason::QueueFull)]);
        assert_eq!(trace.missed, 1);
        let file = trace.pcapng("out", None);
        let text = String::from_utf8_lossy(&file).into_owned();
        assert!(text.contains("dropped: queue-full") && text.contains("marked: congestion"));
    }
}
