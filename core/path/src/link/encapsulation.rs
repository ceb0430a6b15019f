//! The headers between the Ethernet header and the IP header: tags, PPPoE sessions, MPLS labels.
//!
//! ```text
//!  frame: | Ethernet | 802.1Q, 802.1ad | PPPoE, PPP | IP ...        each header names the next header,
//!         | Ethernet | 802.1Q          | MPLS | MPLS | IP ...       except the bottom of a label stack
//! ```
//!
//! Source: IEEE 802.1Q, clause 9; RFC 2516; RFC 3032.
//!
//! The bottom of a label stack does not name the next header, unless its label is an explicit null. A first byte like
//! that of an IP header may also belong to the MAC address of a pseudowire without a control word (RFC 4928). Because a
//! queue that marks congestion writes into the IP header, the rest of the header must fit too: the checksum of an IPv4
//! header, the length of an IPv6 packet.
//!
//! For a new encapsulation, add a header to [`Next`], and an arm to [`walk`].

use weir_wire::{EtherType, checksum, ethernet, ipv4, ipv6, mpls, pppoe, vlan};

/// Maximum headers between the Ethernet header and the IP header; each tag and each label counts.
pub const DEPTH_MAX: usize = 8;

/// The header that follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// An 802.1Q or 802.1ad tag.
    Tag,
    /// The header of a PPPoE session.
    Session,
    /// An entry of an MPLS label stack.
    Label,
    /// Anything else: other protocols, and headers beyond [`DEPTH_MAX`].
    Other,
}

impl From<EtherType> for Next {
    #[inline(always)]
    fn from(ethertype: EtherType) -> Self {
        match ethertype {
            EtherType::IPV4 => Self::V4,
            EtherType::IPV6 => Self::V6,
            EtherType::VLAN | EtherType::SERVICE_VLAN => Self::Tag,
            EtherType::PPPOE_SESSION => Self::Session,
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => Self::Label,
            _ => Self::Other,
        }
    }
}

/// Walks from the Ethernet header to the first header that is not an encapsulation, and returns this header with its
/// offset. `passed` gets each encapsulation with its offset. `None` if the frame ends within a header.
#[inline(always)] // most frames have no encapsulation
pub fn walk(frame: &[u8], mut passed: impl FnMut(Next, usize)) -> Option<(Next, usize)> {
    let view = ethernet::View::new_unchecked(frame.first_chunk::<{ ethernet::HEADER_LEN }>()?);
    let (mut next, mut at) = (view.ethertype().into(), ethernet::HEADER_LEN);
    for _ in 0..DEPTH_MAX {
        let (following, len) = match next {
            Next::V4 | Next::V6 | Next::Other => return Some((next, at)),
            Next::Tag | Next::Session | Next::Label => after(next, frame.get(at..)?)?,
        };
        passed(next, at);
        (next, at) = (following, at + len);
    }
    match next {
        Next::V4 | Next::V6 => Some((next, at)),
        _ => Some((Next::Other, at)),
    }
}

/// The header after an encapsulation at the start of `rest`, and the length of the encapsulation; `None` if `rest` ends
/// within it.
#[inline(never)]
fn after(encapsulation: Next, rest: &[u8]) -> Option<(Next, usize)> {
    match encapsulation {
        Next::Tag => {
            let tag = vlan::View::new_checked(rest).ok()?;
            Some((tag.ethertype().into(), vlan::TAG_LEN))
        }
        Next::Session => {
            let session = pppoe::View::new_checked(rest).ok()?;
            let next = match session.protocol() {
                pppoe::Protocol::IPV4 if session.is_session() => Next::V4,
                pppoe::Protocol::IPV6 if session.is_session() => Next::V6,
                _ => Next::Other,
            };
            Some((next, pppoe::HEADER_LEN))
        }
        Next::Label => {
            let entry = mpls::View::new_checked(rest).ok()?;
            let next = match entry.label() {
                _ if !entry.is_bottom() => Next::Label,
                mpls::EXPLICIT_NULL_IPV4 => Next::V4,
                mpls::EXPLICIT_NULL_IPV6 => Next::V6,
                _ => below_labels(&rest[mpls::ENTRY_LEN..]),
            };
            Some((next, mpls::ENTRY_LEN))
        }
        Next::V4 | Next::V6 | Next::Other => None,
    }
}

/// The header after the bottom of a label stack.
fn below_labels(payload: &[u8]) -> Next {
    match payload.first().map(|first| first >> 4) {
        Some(4) if is_v4(payload) => Next::V4,
        Some(6) if is_v6(payload) => Next::V6,
        _ => Next::Other,
    }
}

fn is_v4(payload: &[u8]) -> bool {
    ipv4::View::new_checked(payload).is_ok_and(|view| {
        let header = payload.get(..view.header_len());
        header.is_some_and(|h| h.len() >= ipv4::HEADER_LEN_MIN && checksum::is_right(h))
    })
}

/// A packet with at least a transport header needs no padding after 14 bytes of Ethernet and four of a label.
fn is_v6(payload: &[u8]) -> bool {
    ipv6::View::new_checked(payload).is_ok_and(|view| view.total_len() == payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::flow_key;
    use crate::egress::rewrite;
    use crate::headers;
    use etherparse::PacketBuilder;
    use weir_packet::Ecn;
    use weir_packet::key::Family;

    const VLAN: [u8; 4] = [0x81, 0, 0xa0, 7];
    const SERVICE: [u8; 4] = [0x88, 0xa8, 0, 3];
    /// An Ethernet type, and a label above and at the bottom of the stack.
    const MPLS: [u8; 2] = [0x88, 0x47];
    const LABEL: [u8; 4] = [0, 1, 0, 64];
    const BOTTOM: [u8; 4] = [0, 2, 1, 64];

    /// UDP with ECT(0) from 10.0.0.1:5000 to 192.0.2.1:53, or from 2020:: to 2121:: with the same ports.
    fn packet(family: Family) -> Vec<u8> {
        let mut frame = Vec::new();
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = match family {
            Family::V6 => link.ipv6([0x20; 16], [0x21; 16], 9),
            _ => link.ipv4([10, 0, 0, 1], [192, 0, 2, 1], 9),
        };
        ip.udp(5000, 53).write(&mut frame, b"hello").unwrap();
        let headers = headers::peek(&frame);
        rewrite::write_ecn(&mut frame, &headers, Ecn::Capable0);
        frame
    }

    /// A PPPoE session with this PPP protocol in front of a payload.
    fn session(protocol: u16, payload: usize) -> Vec<u8> {
        let repr = pppoe::Repr::new(7, payload as u16, protocol.into()).unwrap();
        let mut bytes = vec![0x88, 0x64];
        bytes.resize(2 + pppoe::HEADER_LEN, 0);
        repr.emit(&mut pppoe::View::new_unchecked(&mut bytes[2..]));
        bytes
    }

    /// A packet behind these headers, which begin with an Ethernet type.
    fn behind(encapsulations: &[&[u8]], packet: &[u8]) -> Vec<u8> {
        let all = [&packet[..12], &encapsulations.concat(), &packet[14..]];
        all.concat()
    }

    /// Every way in which a packet of this family can be encapsulated.
    fn encapsulated(family: Family) -> Vec<Vec<u8>> {
        let plain = packet(family);
        let (ethertype, protocol, null) = match family {
            Family::V6 => ([0x86, 0xdd], 0x57, [0, 0, 0x21, 64]),
            _ => ([8, 0], 0x21, [0, 0, 1, 64]),
        };
        let session = session(protocol, plain.len() - 14);
        let ways: [&[&[u8]]; 10] = [
            &[&ethertype],
            &[&VLAN, &ethertype],
            &[&SERVICE, &VLAN, &ethertype],
            &[&session],
            &[&VLAN, &session],
            &[&SERVICE, &VLAN, &session],
            &[&MPLS, &BOTTOM],
            &[&VLAN, &MPLS, &LABEL, &LABEL, &BOTTOM],
            &[&MPLS, &null],
            &[&MPLS, &LABEL, &null],
        ];
        ways.map(|way| behind(way, &plain)).to_vec()
    }

    /// The flow of a frame as text; `None` if it is that of the MAC addresses.
    fn flow(frame: &[u8]) -> Option<String> {
        let headers = headers::peek(frame);
        headers
            .is_ip()
            .then(|| flow_key(frame, &headers).to_string())
    }

    #[test]
    fn the_flow_of_a_packet_is_found_behind_every_encapsulation() {
        for (family, expected) in [
            (Family::V4, "10.0.0.1:5000 > 192.0.2.1:53 udp"),
            (
                Family::V6,
                "[2020:2020:2020:2020:2020:2020:2020:2020]:5000 > [2121:2121:2121:2121:2121:2121:2121:2121]:53 udp",
            ),
        ] {
            for frame in encapsulated(family) {
                assert_eq!(flow(&frame).as_deref(), Some(expected), "{frame:02x?}");
            }
        }
    }

    #[test]
    fn a_congestion_mark_reaches_the_packet_and_its_checksum_stays_right() {
        for family in [Family::V4, Family::V6] {
            let mut marked = packet(family);
            let headers = headers::peek(&marked);
            rewrite::mark_congestion(&mut marked, &headers);
            for mut frame in encapsulated(family) {
                let (headers, before) = (headers::peek(&frame), frame.clone());
                assert!(rewrite::mark_congestion(&mut frame, &headers));
                let l3 = usize::from(headers.l3);
                assert_eq!(frame[..l3], before[..l3]);
                assert_eq!(frame[l3..], marked[14..]);
                assert_eq!(headers::peek(&frame).ecn, Ecn::Congested);
            }
        }
    }

    #[test]
    fn a_frame_that_ends_early_has_no_flow() {
        for frame in [encapsulated(Family::V4), encapsulated(Family::V6)].concat() {
            let ip = usize::from(headers::peek(&frame).l3);
            for len in 0..ip + 20 {
                assert_eq!(flow(&frame[..len]), None);
            }
        }
    }

    #[test]
    fn what_is_not_ip_is_left_alone() {
        let v4 = packet(Family::V4);
        let padded = |bytes: &[u8]| [bytes, &[0; 46]].concat();
        let other_code = {
            let mut padt = session(0x21, 33);
            padt[3] = 0xa7;
            behind(&[&padt], &v4)
        };
        let control_word = behind(&[&MPLS, &BOTTOM, &[0; 4]], &v4);
        let wrong_null = behind(&[&MPLS, &[0, 0, 0x21, 64]], &v4);
        let associated_channel = behind(&[&MPLS, &[0, 0, 0xd1, 64], &[0x10, 0, 0, 0]], &v4);
        let echo = behind(&[&session(0xc021, 33)], &v4);
        let discovery = padded(&behind(&[&[0x88, 0x63, 0x11, 9, 0, 0, 0, 4]], &v4[..14]));
        for frame in [
            other_code,
            control_word,
            wrong_null,
            associated_channel,
            echo,
            discovery,
        ] {
            assert_eq!(flow(&frame), None, "{frame:02x?}");
        }
    }

    /// The frame of a pseudowire may begin with a MAC address that looks like the version of an IP header.
    #[test]
    fn a_mac_address_below_the_labels_is_not_an_ip_header() {
        for first in [0x45, 0x60] {
            let mut inner = packet(Family::V4);
            inner[0] = first;
            let frame = [
                &[4; 6][..],
                &[2; 6],
                &MPLS,
                &LABEL,
                &BOTTOM,
                &inner,
                &[0; 20],
            ]
            .concat();
            assert_eq!(flow(&frame), None);
        }
    }

    #[test]
    fn the_depth_is_bounded() {
        let plain = packet(Family::V4);
        let with = |tags: usize| behind(&[&VLAN.repeat(tags), &[8, 0]], &plain);
        assert!(flow(&with(DEPTH_MAX)).is_some());
        assert_eq!(flow(&with(DEPTH_MAX + 1)), None);
        let beyond = walk(&with(DEPTH_MAX + 1), |_, _| ());
        assert_eq!(beyond, Some((Next::Other, 14 + 4 * DEPTH_MAX)));
    }
}
