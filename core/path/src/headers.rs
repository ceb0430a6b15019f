//! The positions of a frame's headers, and the fields that later stages read.
//!
//! Each network layer validates the packets that it forwards. This module reads headers without validating
//! them: for a bridge, for packets that the router made, and for packets that left a queue.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::key::Family;
use weir_packet::{Ecn, Packet};
use weir_wire::ipv6_extension::{Chain, is_extension};
use weir_wire::{ethernet, ipv4, ipv6};

use crate::link::encapsulation::{self, Next};

/// A packet with its headers.
#[derive(Debug)]
pub struct Parsed {
    /// The packet.
    pub packet: Packet,
    /// The packet's headers.
    pub headers: Headers,
}

/// The positions of the headers, and the fields that later stages read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Offset of the IP header in the frame; of the payload if the family is [`Family::Link`].
    pub l3: u16,
    /// Offset of the bytes after the IP header and the extension headers. It may be beyond the end of the packet;
    /// [`Self::transport`] returns the slice.
    pub l4: u16,
    /// Length of the IP packet from `l3` on; never beyond the frame.
    pub total_len: u32,
    /// The kind of addresses; [`Family::Link`] if this is not an IP packet (bridged mode only).
    pub family: Family,
    /// IP protocol number of the bytes at `l4`; the same in all fragments of a datagram.
    pub protocol: u8,
    /// TTL or hop limit, as received.
    pub ttl: u8,
    /// ECN field, as received.
    pub ecn: Ecn,
    /// Whether the packet is a fragment, and which.
    pub fragment: Fragment,
    /// Whether routers must not fragment the packet: always true in IPv6.
    pub dont_fragment: bool,
    // Addresses as integers, because headers are stored and read again for each packet, and an integer takes one or two
    // machine words. Zero if this is not an IP packet.
    pub(crate) source: u128,
    pub(crate) destination: u128,
}

/// Whether a packet is a fragment of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    Whole,
    /// The first fragment: only this one has a transport header.
    First,
    /// A later fragment.
    Later,
}

impl Headers {
    /// The position of the IP packet in its frame.
    #[inline]
    pub fn l3_range(&self) -> std::ops::Range<usize> {
        let start = usize::from(self.l3);
        start..start + self.total_len as usize
    }

    /// Source address; unspecified if this is not an IP packet.
    #[inline]
    pub fn source(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Destination address; unspecified if this is not an IP packet.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        self.address(self.destination)
    }

    /// Source and destination address, left-aligned and zero-padded.
    #[inline]
    pub(crate) fn addresses(&self) -> [[u8; 16]; 2] {
        let ends = [self.source, self.destination];
        match self.family {
            Family::V6 => ends.map(u128::to_be_bytes),
            Family::V4 | Family::Link => {
                ends.map(|bits| u128::from((bits as u32).swap_bytes()).to_le_bytes())
            }
        }
    }

    #[inline]
    fn address(&self, bits: u128) -> IpAddr {
        match self.family {
            Family::V6 => Ipv6Addr::from_bits(bits).into(),
            Family::V4 | Family::Link => Ipv4Addr::from_bits(bits as u32).into(),
        }
    }

    /// Whether this is an IP packet.
    #[inline]
    pub fn is_ip(&self) -> bool {
        self.family != Family::Link
    }

    /// The bytes at `l4`, up to the end of the IP packet; empty if `l4` is beyond the end.
    #[inline]
    pub fn transport<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame
            .get(usize::from(self.l4)..self.l3_range().end)
            .unwrap_or(&[])
    }
}

/// The headers of any frame, behind any [encapsulation], without validation; a malformed packet counts as not IP.
#[inline(always)]
pub fn peek(frame: &[u8]) -> Headers {
    let Some((next, l3)) = encapsulation::walk(frame, |_, _| ()) else {
        return not_ip(frame, ethernet::HEADER_LEN);
    };
    let packet = &frame[l3..];
    let found = match next {
        Next::V4 => peek_v4(packet, l3),
        Next::V6 => peek_v6(packet, l3),
        _ => None,
    };
    found.unwrap_or_else(|| not_ip(frame, l3))
}

/// The headers of an IPv4 packet that starts at `l3` of its frame.
#[inline(always)]
pub fn peek_v4(packet: &[u8], l3: usize) -> Option<Headers> {
    let fixed = packet.first_chunk::<{ ipv4::HEADER_LEN_MIN }>()?;
    let view = ipv4::View::new_unchecked(fixed);
    let header_len = view.header_len();
    if view.version() != 4 || !(ipv4::HEADER_LEN_MIN..=packet.len()).contains(&header_len) {
        return None;
    }
    // A total length of zero means a packet still to be segmented (GSO); a length beyond the frame is cut to the frame.
    let total_len = match usize::from(view.total_len()) {
        len if (header_len..=packet.len()).contains(&len) => len,
        _ => packet.len(),
    };
    Some(from_v4(fixed, l3, total_len))
}

/// The headers of an IPv6 packet that starts at `l3` of its frame.
#[inline(always)]
pub fn peek_v6(packet: &[u8], l3: usize) -> Option<Headers> {
    let fixed = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let view = ipv6::View::new_unchecked(fixed);
    if view.version() != 6 {
        return None;
    }
    let total_len = view.total_len().min(packet.len());
    Some(from_v6(packet, fixed, l3, total_len).0)
}

/// The headers of a frame that is not IP.
pub fn not_ip(frame: &[u8], l3: usize) -> Headers {
    let l3 = l3.min(frame.len());
    Headers {
        l3: l3 as u16,
        l4: l3 as u16,
        total_len: (frame.len() - l3) as u32,
        family: Family::Link,
        protocol: 0,
        ttl: 0,
        ecn: Ecn::NotCapable,
        fragment: Fragment::Whole,
        dont_fragment: true,
        source: 0,
        destination: 0,
    }
}

#[inline(always)]
pub(crate) fn from_v4(fixed: &[u8; ipv4::HEADER_LEN_MIN], l3: usize, total_len: usize) -> Headers {
    let view = ipv4::View::new_unchecked(fixed);
    let first = view.fragment_offset().bits() == 0;
    Headers {
        l3: l3 as u16,
        l4: (l3 + view.header_len()) as u16,
        total_len: total_len as u32,
        family: Family::V4,
        protocol: view.protocol().into(),
        ttl: view.ttl(),
        ecn: Ecn::from_bits(view.traffic_class()),
        fragment: match (first, view.more_fragments()) {
            (true, false) => Fragment::Whole,
            (true, true) => Fragment::First,
            (false, _) => Fragment::Later,
        },
        dont_fragment: view.dont_fragment(),
        source: view.source().to_bits().into(),
        destination: view.destination().to_bits().into(),
    }
}

/// The headers, and whether the packet has a type-0 routing header.
#[inline(always)]
pub(crate) fn from_v6(
    packet: &[u8],
    fixed: &[u8; ipv6::HEADER_LEN],
    l3: usize,
    total_len: usize,
) -> (Headers, bool) {
    let view = ipv6::View::new_unchecked(fixed);
    let mut headers = Headers {
        l3: l3 as u16,
        l4: (l3 + ipv6::HEADER_LEN) as u16,
        total_len: total_len as u32,
        family: Family::V6,
        protocol: view.next_header().into(),
        ttl: view.hop_limit(),
        ecn: Ecn::from_bits(view.traffic_class()),
        fragment: Fragment::Whole,
        dont_fragment: true,
        source: view.source().to_bits(),
        destination: view.destination().to_bits(),
    };
    if !is_extension(view.next_header()) {
        return (headers, false);
    }
    let chain = Chain::walk(view.next_header(), &packet[ipv6::HEADER_LEN..total_len]);
    headers.l4 += chain.len as u16;
    headers.protocol = chain.protocol.into();
    headers.fragment = match chain.fragment {
        Some(f) if f.is_whole() => Fragment::Whole,
        None => Fragment::Whole,
        Some(f) if f.offset.bits() == 0 => Fragment::First,
        Some(_) => Fragment::Later,
    };
    (headers, chain.source_routed)
}
