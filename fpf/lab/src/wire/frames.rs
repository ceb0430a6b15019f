//! The frames of a measurement: all kinds use the same ports, and each has a variant for every forwarding decision.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_fpf_path::header::ETHERTYPE_DEFAULT;
use weir_wire::checksum;

use super::{Kind, LOOPS_MAX};

/// Number of LIDs in the core FE's table, of IP destinations, and of LIDs to which an edge sends flows.
pub(super) const LIDS: u32 = 256;
/// Minimum number of different frames that are sent in turn.
const FRAMES_MIN: u32 = 1024;
/// Bytes of a frame's check sequence, which counts in its length, but is not part of the data of a packet socket.
const CRC_BYTES: usize = 4;
/// UDP ports: an arbitrary source port, and that of the discard service.
const PORTS: [u16; 2] = [5000, 9];

/// The networks of the destinations.
pub(super) const V4: &str = "198.18.0.0/16";
pub(super) const V6: &str = "2001:db8:9::/48";

/// The source address of a flow.
pub(super) fn source(flow: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(flow))
}

/// The frames of a kind with this length, check sequence included, from one MAC address to another.
pub(super) fn frames(kind: Kind, bytes: usize, [from, to]: [[u8; 6]; 2]) -> Vec<Vec<u8>> {
    let count = match kind {
        Kind::Edge(flows) => flows.max(FRAMES_MIN),
        _ => FRAMES_MIN,
    };
    let frame = |n: u32| {
        let mut frame = [to, from].concat();
        match kind {
            Kind::Fpf => {
                frame.extend(u16::from(ETHERTYPE_DEFAULT).to_be_bytes());
                // Four LIDs; this router uses the first.
                frame.extend([4, 0, (n % LIDS) as u8, 1, 2, 3]);
                ipv6(&mut frame, bytes - CRC_BYTES, 0, 0);
            }
            Kind::Loops(loops) => {
                frame.extend(u16::from(ETHERTYPE_DEFAULT).to_be_bytes());
                // All vectors have the same length: the LIDs after the last port's LID are not used.
                frame.extend([LOOPS_MAX as u8 + 1, 0]);
                frame.extend((1..=loops as u8).chain([0]));
                frame.resize(frame.len() + (LOOPS_MAX - loops) as usize, 0);
                ipv6(&mut frame, bytes - CRC_BYTES, 0, 0);
            }
            Kind::Ipv6 => {
                frame.extend([0x86, 0xdd]);
                ipv6(&mut frame, bytes - CRC_BYTES, 0, n % LIDS);
            }
            Kind::Edge(flows) => {
                frame.extend([0x86, 0xdd]);
                ipv6(&mut frame, bytes - CRC_BYTES, n % flows, 0);
            }
            Kind::Ipv4 => {
                frame.extend([0x08, 0x00]);
                ipv4(&mut frame, bytes - CRC_BYTES, n % LIDS);
            }
        }
        frame
    };
    (0..count).map(frame).collect()
}

/// Appends an IPv6 packet that fills the frame to this length.
fn ipv6(frame: &mut Vec<u8>, len: usize, flow: u32, destination: u32) {
    let payload = len.saturating_sub(frame.len() + 40) as u16;
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(payload.to_be_bytes());
    frame.extend([17, 64]);
    frame.extend(source(flow).octets());
    let network: u128 = 0x2001_0db8_0009 << 80;
    frame.extend(Ipv6Addr::from_bits(network | u128::from(destination + 1)).octets());
    udp(frame, len, payload);
}

fn ipv4(frame: &mut Vec<u8>, len: usize, destination: u32) {
    let at = frame.len();
    let total = (len - at) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(Ipv4Addr::new(10, 77, 1, 2).octets());
    let [_, _, high, low] = (destination + 1).to_be_bytes();
    frame.extend(Ipv4Addr::new(198, 18, high, low).octets());
    let sum = checksum::internet(&frame[at..]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    udp(frame, len, total - 20);
}

fn udp(frame: &mut Vec<u8>, len: usize, udp_len: u16) {
    frame.extend(PORTS.map(u16::to_be_bytes).concat());
    frame.extend(udp_len.to_be_bytes());
    frame.resize(len, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_wanted_and_differ_in_what_decides() {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let kinds = [
            Kind::Fpf,
            Kind::Ipv4,
            Kind::Ipv6,
            Kind::Edge(2000),
            Kind::Loops(LOOPS_MAX),
        ];
        let counts = [
            (256, 1024),
            (256, 1024),
            (256, 1024),
            (2000, 2000),
            (1, 1024),
        ];
        for (kind, (distinct, count)) in kinds.into_iter().zip(counts) {
            for bytes in [78, 1518] {
                let all = frames(kind, bytes, macs);
                assert!(all.iter().all(|frame| frame.len() == bytes - 4), "{kind:?}");
                assert_eq!(all.len(), count, "{kind:?}");
                let different: std::collections::BTreeSet<_> = all.iter().collect();
                assert_eq!(different.len(), distinct, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_vector_names_the_loops_and_then_the_way_out() {
        let frames = frames(
            Kind::Loops(3),
            128,
            [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        );
        assert_eq!(frames[0][14..24], [8, 0, 1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(frames[0][24], 0x60, "a packet of IPv6");
    }
}
