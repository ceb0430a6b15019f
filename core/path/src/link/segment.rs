//! Cutting a superframe into the frames that a wire carries, as hardware with segmentation offload
//! does (and Linux, where there is none: `inet_gso_segment` and `tcp_gso_segment`).
//!
//! ```text
//!  | Ethernet | IP | UDP | VXLAN | Ethernet | IP | TCP | payload 0 | payload 1 | payload 2 |
//!  |<-------------- the same headers, corrected ------>|
//!  | headers | payload 0 |    | headers | payload 1 |    | headers | payload 2 |
//! ```
//!
//! | header | what changes from segment to segment |
//! |---|---|
//! | IPv4 | total length; identification, incremented by one; header checksum |
//! | IPv6 | payload length |
//! | PPPoE | length |
//! | UDP or GRE around a tunnel | UDP's length; the checksum, if there is one |
//! | TCP | sequence number; FIN and PSH only on the last, CWR only on the first; checksum |
//! | UDP | length; checksum, if there is one |
//!
//! The bytes between two IP headers of a tunnel (VXLAN, GENEVE, an Ethernet header) are copied without being
//! parsed. The inner IP header is the next one whose length reaches exactly to the end of the frame (and
//! whose checksum is correct), so no list of tunnel ports is needed. The bytes of all headers, their number,
//! and the number of segments are bounded.
//!
//! No input is trusted: a superframe whose headers contradict its offload fields is dropped with
//! [`Reason::BadOffload`], and the segments lie within the frame, whatever its bytes are.
//!
//! Deviations: a superframe of more than 64 KB (BIG TCP) is refused; with accurate ECN (RFC 9768) CWR
//! would have to stay on every segment, but `virtio_net_hdr` does not indicate accurate ECN.

use std::net::IpAddr;

use weir_packet::Reason;
use weir_wire::checksum::{self, Sum};
use weir_wire::ipv6_extension::Chain;
use weir_wire::tcp::Flags;
use weir_wire::{Protocol, ipv4, ipv6, pppoe, tcp, udp};

use crate::link::encapsulation::{self, Next};
use crate::link::offload::{Offload, SEGMENTS_MAX, SegmentKind};

/// Maximum bytes of all headers together.
const HEADERS_LEN_MAX: usize = 512;
/// Maximum headers whose length or checksum changes, besides the transport header.
const LAYERS_MAX: usize = 8;
/// IP protocol numbers of IPv4, IPv6 and GRE within IP.
const IN_IP: [u8; 2] = [4, 41];
const GRE: u8 = 47;

/// A superframe whose headers are known.
#[derive(Debug)]
pub struct Superframe<'a> {
    frame: &'a [u8],
    /// Offsets of the transport header and of the payload.
    transport: usize,
    payload: usize,
    kind: SegmentKind,
    size: usize,
    layers: Layers,
    /// The initial sum of the transport checksum: the pseudo header without the length; `None` if there is no checksum.
    seed: Option<Sum>,
    /// Whether the transport checksum is still to be finished.
    is_partial: bool,
}

/// A header whose length or checksum depends on the segment's length.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// The header of a PPPoE session.
    Session,
    V4,
    V6,
    /// UDP around a tunnel; with the pseudo header's addresses if it has a checksum.
    Udp(Option<(IpAddr, IpAddr)>),
    /// GRE with a checksum.
    Gre,
}

/// The layers with their offsets, from the outermost to the innermost.
#[derive(Debug, Default)]
struct Layers {
    list: [Option<(usize, Layer)>; LAYERS_MAX],
    len: usize,
    /// The addresses of the innermost IP header, and whether it is IPv6.
    addresses: Option<(IpAddr, IpAddr)>,
}

impl<'a> Superframe<'a> {
    /// Finds the headers of `frame`, which is cut as `offload` describes.
    pub fn new(frame: &'a [u8], offload: &Offload) -> Result<Self, Reason> {
        Self::find(frame, offload).ok_or(Reason::BadOffload)
    }

    fn find(frame: &'a [u8], offload: &Offload) -> Option<Self> {
        let segmentation = offload.segmentation?;
        let (kind, size) = (segmentation.kind, usize::from(segmentation.size));
        if kind == SegmentKind::Unknown || size == 0 || frame.len() > usize::from(u16::MAX) + 22 {
            return None;
        }
        let partial = offload.checksum;
        if partial.is_some_and(|p| usize::from(p.offset) != kind.checksum_at()) {
            return None;
        }
        let mut walk = Walk {
            frame,
            kind,
            transport: partial.map(|p| usize::from(p.start)),
            layers: Layers::default(),
        };
        let transport = walk.link()?;
        let layers = walk.layers;
        let segment = frame.get(transport..)?;
        let header_len = match kind {
            SegmentKind::Udp => udp::View::new_checked(segment)
                .ok()
                .map(|_| udp::HEADER_LEN),
            _ => tcp::View::new_checked(segment)
                .ok()
                .map(|view| view.header_len())
                .filter(|len| *len >= tcp::HEADER_LEN_MIN),
        };
        let payload = transport + header_len?;
        if payload > frame.len().min(HEADERS_LEN_MAX) {
            return None;
        }
        let at = kind.checksum_at();
        let field = u16::from_be_bytes([segment[at], segment[at + 1]]);
        let (from, to) = layers.addresses?;
        let seed = match partial {
            // The sender's own pseudo header, minus the length in it.
            Some(_) => Some(Sum::default().word(field).word(!(segment.len() as u16))),
            None if kind == SegmentKind::Udp && field == 0 => None,
            None => Some(Sum::default().pseudo(from, to, protocol(kind), 0)),
        };
        let superframe = Self {
            frame,
            transport,
            payload,
            kind,
            size,
            layers,
            seed,
            is_partial: partial.is_some(),
        };
        (superframe.count() <= SEGMENTS_MAX).then_some(superframe)
    }

    /// Number of segments: at least one.
    pub fn count(&self) -> usize {
        let payload = self.frame.len() - self.payload;
        payload.div_ceil(self.size).max(1)
    }

    /// Bytes of all segments together.
    pub fn bytes(&self) -> u64 {
        (self.frame.len() + (self.count() - 1) * self.payload) as u64
    }

    /// Whether Linux cuts the frame to the same segments when it gets it with its offload fields: TCP without a tunnel.
    pub fn is_cut_by_linux(&self) -> bool {
        let is_tcp = self.kind != SegmentKind::Udp && self.layers.len == 1;
        is_tcp && self.is_partial && !self.has_cwr()
    }

    /// Whether the first segment has the flag CWR, which the other segments must not have. Offload fields may hide that.
    fn has_cwr(&self) -> bool {
        let view = tcp::View::new_unchecked(&self.frame[self.transport..]);
        view.flags().bits() & Flags::CWR.bits() != 0
    }

    /// Replaces the content of `segment` by segment `n`, which must be less than [`Self::count`].
    pub fn write(&self, n: usize, segment: &mut Vec<u8>) {
        let start = self.payload + n * self.size;
        let end = self.frame.len().min(start + self.size);
        segment.clear();
        segment.extend_from_slice(&self.frame[..self.payload]);
        segment.extend_from_slice(&self.frame[start..end]);
        match self.kind {
            SegmentKind::Udp => self.write_udp(&mut segment[self.transport..]),
            _ => self.write_tcp(n, &mut segment[self.transport..]),
        }
        // From the innermost to the outermost, because a checksum covers the inner bytes.
        for (at, layer) in self.layers.list[..self.layers.len].iter().rev().flatten() {
            layer.write(n, &mut segment[*at..]);
        }
    }

    fn write_tcp(&self, n: usize, segment: &mut [u8]) {
        let len = segment.len();
        let mut view = tcp::View::new_unchecked(&mut *segment);
        let mut cleared = 0;
        if n > 0 {
            cleared |= Flags::CWR.bits();
        }
        if n + 1 < self.count() {
            cleared |= Flags::FIN.and(Flags::PSH).bits();
        }
        let flags = Flags::from_bits(view.flags().bits() & !cleared);
        view.set_header_len_and_flags(view.header_len(), flags);
        view.set_sequence(view.sequence().wrapping_add((n * self.size) as u32));
        view.set_checksum(0);
        if let Some(seed) = self.seed {
            let sum = seed.word(len as u16).bytes(segment);
            tcp::View::new_unchecked(segment).set_checksum(sum.checksum());
        }
    }

    fn write_udp(&self, segment: &mut [u8]) {
        let len = segment.len();
        let mut view = udp::View::new_unchecked(&mut *segment);
        view.set_length(len as u16);
        view.set_checksum(0);
        if let Some(seed) = self.seed {
            let sum = seed.word(len as u16).bytes(segment).checksum();
            udp::View::new_unchecked(segment).set_checksum(checksum::nonzero(sum));
        }
    }
}

impl Layer {
    /// Corrects the header at the start of `packet` for segment `n`.
    fn write(self, n: usize, packet: &mut [u8]) {
        let len = packet.len();
        match self {
            Self::Session => {
                let payload_len = (len - pppoe::HEADER_LEN) as u16;
                pppoe::View::new_unchecked(packet).set_payload_len(payload_len);
            }
            Self::V4 => {
                let mut view = ipv4::View::new_unchecked(packet);
                view.set_total_len(len as u16);
                view.set_identification(view.identification().wrapping_add(n as u16));
                view.fill_checksum();
            }
            Self::V6 => {
                let payload_len = (len - ipv6::HEADER_LEN) as u16;
                ipv6::View::new_unchecked(packet).set_payload_len(payload_len);
            }
            Self::Udp(addresses) => {
                udp::View::new_unchecked(&mut *packet).set_length(len as u16);
                if let Some((from, to)) = addresses {
                    udp::View::new_unchecked(packet).fill_checksum(from, to);
                }
            }
            Self::Gre => {
                packet[GRE_CHECKSUM_AT..GRE_CHECKSUM_AT + 2].fill(0);
                let sum = checksum::internet(packet);
                packet[GRE_CHECKSUM_AT..GRE_CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
            }
        }
    }
}

/// Offset of GRE's checksum (RFC 2784, section 2.1), which is present if the first bit of the header is set.
const GRE_CHECKSUM_AT: usize = 4;
const GRE_HEADER_LEN_MIN: usize = 4;

impl Layers {
    fn push(&mut self, at: usize, layer: Layer) -> Option<()> {
        *self.list.get_mut(self.len)? = Some((at, layer));
        self.len += 1;
        Some(())
    }
}

/// A walk from the Ethernet header to the transport header.
struct Walk<'a> {
    frame: &'a [u8],
    kind: SegmentKind,
    /// The expected offset of the transport header; if `None`, it follows the outermost IP header.
    transport: Option<usize>,
    layers: Layers,
}

impl Walk<'_> {
    /// Passes the Ethernet header and the encapsulations, and returns the position of the transport header.
    fn link(&mut self) -> Option<usize> {
        let layers = &mut self.layers;
        let (next, at) = encapsulation::walk(self.frame, |header, at| {
            if header == Next::Session {
                layers.push(at, Layer::Session);
            }
        })?;
        // Otherwise each segment would be dropped for its version.
        let version = match next {
            Next::V4 => 4,
            Next::V6 => 6,
            _ => return None,
        };
        (self.frame.get(at)? >> 4 == version).then(|| self.layers_from(at))?
    }

    /// Passes an IP header at `at` and everything after it. Each step goes forward, never back.
    fn layers_from(&mut self, mut at: usize) -> Option<usize> {
        loop {
            let ip = self.ip(at)?;
            self.layers.push(at, ip.layer)?;
            self.layers.addresses = Some(ip.addresses);
            let transport = self.transport.unwrap_or(ip.next);
            if ip.next == transport {
                let fits = ip.protocol == protocol(self.kind) && ip.suits(self.kind);
                return fits.then_some(transport);
            }
            at = self.tunnel(&ip)?;
        }
    }

    /// Passes the bytes between two IP headers, and returns the start of the inner one.
    fn tunnel(&mut self, outer: &Ip) -> Option<usize> {
        let (at, rest) = (outer.next, self.frame.get(outer.next..)?);
        let from = match outer.protocol.into() {
            n if IN_IP.contains(&n) => return Some(at),
            GRE => {
                let checked = rest.first()? & 0x80 != 0;
                if checked {
                    self.layers.push(at, Layer::Gre)?;
                }
                at + GRE_HEADER_LEN_MIN
            }
            n if n == u8::from(Protocol::UDP) => {
                let view = udp::View::new_checked(rest).ok()?;
                if usize::from(view.length()) != rest.len() {
                    return None;
                }
                let checked = view.checksum() != 0;
                let layer = Layer::Udp(checked.then_some(outer.addresses));
                self.layers.push(at, layer)?;
                at + udp::HEADER_LEN
            }
            _ => at,
        };
        let until = self.transport?.min(HEADERS_LEN_MAX);
        (from..until).find(|at| self.ip(*at).is_some_and(|ip| ip.next <= until))
    }

    /// The IP header at `at`, if there is one whose length reaches exactly to the end of the frame
    /// and whose packet is not a fragment.
    fn ip(&self, at: usize) -> Option<Ip> {
        let packet = self.frame.get(at..)?;
        match packet.first()? >> 4 {
            4 => {
                let view = ipv4::View::new_checked(packet).ok()?;
                let header = packet.get(..view.header_len())?;
                let whole = !view.more_fragments() && view.fragment_offset().bits() == 0;
                let good = header.len() >= ipv4::HEADER_LEN_MIN
                    && usize::from(view.total_len()) == packet.len()
                    && whole
                    && checksum::is_right(header);
                good.then(|| Ip {
                    layer: Layer::V4,
                    next: at + header.len(),
                    protocol: view.protocol(),
                    addresses: (view.source().into(), view.destination().into()),
                })
            }
            6 => {
                let view = ipv6::View::new_checked(packet).ok()?;
                if view.total_len() != packet.len() {
                    return None;
                }
                let chain = Chain::walk(view.next_header(), &packet[ipv6::HEADER_LEN..]);
                let whole = chain.fragment.is_none_or(|f| f.is_whole());
                (chain.complete && whole).then(|| Ip {
                    layer: Layer::V6,
                    next: at + ipv6::HEADER_LEN + chain.len,
                    protocol: chain.protocol,
                    addresses: (view.source().into(), view.destination().into()),
                })
            }
            _ => None,
        }
    }
}

/// An IP header of the walk.
struct Ip {
    layer: Layer,
    /// Offset of the payload, after the extension headers.
    next: usize,
    protocol: Protocol,
    addresses: (IpAddr, IpAddr),
}

impl Ip {
    /// Whether the header may carry a payload of this kind.
    fn suits(&self, kind: SegmentKind) -> bool {
        match kind {
            SegmentKind::TcpV4 => matches!(self.layer, Layer::V4),
            SegmentKind::TcpV6 => matches!(self.layer, Layer::V6),
            SegmentKind::Udp => true,
            SegmentKind::Unknown => false,
        }
    }
}

const fn protocol(kind: SegmentKind) -> Protocol {
    match kind {
        SegmentKind::Udp => Protocol::UDP,
        _ => Protocol::TCP,
    }
}
