//! Routing protocols: to which one a packet belongs.
//!
//! | protocol | packets | source |
//! |---|---|---|
//! | BFD | UDP to port 3784, 3785 or 4784 | RFC 5881, section 4; RFC 5883, section 5 |
//! | BGP | TCP with port 179 | RFC 4271, section 8 |
//! | IS-IS | frames of 802.3 with LLC and its protocol identifier | ISO 10589; RFC 1195 |
//! | LDP | UDP to port 646, TCP with port 646 | RFC 5036, section 3.10 |
//! | OSPF | IP protocol 89 | RFC 2328, appendix A; RFC 5340 |
//! | VRRP | IP protocol 112 | RFC 9568, section 5.1.1.4 |

use crate::ipv6_extension::Chain;
use crate::{EtherType, FragmentOffset, ethernet, ipv4, ipv6};

/// The largest number in place of an EtherType that is a length (IEEE 802.3, clause 3.2.6).
const LENGTH_MAX: u16 = 1500;

/// A routing protocol, or a protocol that routing depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoutingProtocol {
    /// Bidirectional forwarding detection.
    Bfd,
    /// Border gateway protocol.
    Bgp,
    /// Intermediate system to intermediate system.
    IsIs,
    /// Label distribution protocol.
    Ldp,
    /// Open shortest path first, both versions.
    Ospf,
    /// Virtual router redundancy protocol.
    Vrrp,
}

impl RoutingProtocol {
    /// The protocol of an Ethernet frame without tags.
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let (header, payload) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>()?;
        let ethertype = ethernet::View::new_unchecked(header).ethertype();
        Self::of_payload(ethertype, payload)
    }

    /// The protocol of the payload of a frame.
    pub fn of_payload(ethertype: EtherType, payload: &[u8]) -> Option<Self> {
        match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => Self::of_packet(payload),
            length if u16::from(length) <= LENGTH_MAX => {
                const LLC_AND_PROTOCOL: [u8; 4] = [0xfe, 0xfe, 0x03, 0x83];
                payload.starts_with(&LLC_AND_PROTOCOL).then_some(Self::IsIs)
            }
            _ => None,
        }
    }

    fn of_packet(packet: &[u8]) -> Option<Self> {
        let (protocol, transport) = match packet.first()? >> 4 {
            4 => {
                let view = ipv4::View::new_checked(packet).ok()?;
                let is_first = view.fragment_offset() == FragmentOffset::ZERO;
                let transport = packet.get(view.header_len()..).filter(|_| is_first);
                (view.protocol(), transport)
            }
            _ => {
                let view = ipv6::View::new_checked(packet).ok()?;
                let after = packet.get(ipv6::HEADER_LEN..)?;
                let chain = Chain::walk(view.next_header(), after);
                let is_first = chain
                    .fragment
                    .is_none_or(|part| part.offset == FragmentOffset::ZERO);
                (chain.protocol, after.get(chain.len..).filter(|_| is_first))
            }
        };
        let port = |at: usize| {
            let bytes = transport?.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let [source, destination] = [port(0), port(2)];
        match (u8::from(protocol), source, destination) {
            (89, ..) => Some(Self::Ospf),
            (112, ..) => Some(Self::Vrrp),
            (6, Some(179), _) | (6, _, Some(179)) => Some(Self::Bgp),
            (6, Some(646), _) | (6 | 17, _, Some(646)) => Some(Self::Ldp),
            (17, _, Some(3784 | 3785 | 4784)) => Some(Self::Bfd),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpNumber, PacketBuilder};

    use super::*;

    #[test]
    fn each_protocol_is_known_by_its_number_or_port() {
        let ip = |protocol: u8| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4([10, 0, 0, 1], [224, 0, 0, 5], 1)
                .write(&mut frame, IpNumber(protocol), &[0; 40])
                .unwrap();
            frame
        };
        let tcp = |source, destination| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv6([1; 16], [2; 16], 64)
                .tcp(source, destination, 1, 100)
                .write(&mut frame, &[])
                .unwrap();
            frame
        };
        let udp = |source, destination| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 255)
                .udp(source, destination)
                .write(&mut frame, &[0; 20])
                .unwrap();
            frame
        };
        let mut hello = vec![1, 0x80, 0xc2, 0, 0, 0x14, 2, 2, 2, 2, 2, 2, 0, 30];
        hello.extend([0xfe, 0xfe, 0x03, 0x83, 0x1b]);
        for (frame, expected) in [
            (ip(89), Some(RoutingProtocol::Ospf)),
            (ip(112), Some(RoutingProtocol::Vrrp)),
            (ip(2), None),
            (tcp(179, 40_000), Some(RoutingProtocol::Bgp)),
            (tcp(40_000, 179), Some(RoutingProtocol::Bgp)),
            (tcp(646, 40_000), Some(RoutingProtocol::Ldp)),
            (tcp(22, 40_000), None),
            (udp(49_152, 3784), Some(RoutingProtocol::Bfd)),
            (udp(646, 646), Some(RoutingProtocol::Ldp)),
            (udp(3784, 53), None),
            (hello.clone(), Some(RoutingProtocol::IsIs)),
            (hello[..16].to_vec(), None),
            (vec![], None),
        ] {
            assert_eq!(RoutingProtocol::of_frame(&frame), expected, "{frame:?}");
        }
        // A later fragment has no ports, whatever its bytes look like.
        let mut later = udp(49_152, 3784);
        later[21] = 100;
        assert_eq!(RoutingProtocol::of_frame(&later), None);
    }
}
