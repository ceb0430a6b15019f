//! From [`Headers`] to a flow key: the two ends of the flow.
//!
//! All fragments of a datagram have the 3-tuple as key, because only the first fragment carries ports; so a datagram
//! stays in one queue and in order. For ICMP and other protocols without ports, the ports are zero. The key of a frame
//! that is not IP is its two MAC addresses.

use weir_packet::key::FlowKey;
use weir_packet::{Packet, Pool};
use weir_wire::{Protocol, ethernet};

use crate::headers::{Fragment, Headers, Parsed};

/// A packet with its flow key.
#[derive(Debug)]
pub struct Classified {
    /// The packet; its flow key is in the pool.
    pub packet: Packet,
    /// The packet's headers.
    pub headers: Headers,
}

/// Finds the flow key of a packet, and stores it in the pool.
#[inline(always)] // also in other crates: headers are too long to pass
pub fn classify(pool: &mut Pool, parsed: Parsed) -> Classified {
    let Parsed { packet, headers } = parsed;
    set_key(pool, &packet, &headers);
    Classified { packet, headers }
}

/// Finds the flow key of a packet, and stores it in the pool.
#[inline(always)]
pub(crate) fn set_key(pool: &mut Pool, packet: &Packet, headers: &Headers) {
    let (keys, frame) = pool.keys_and_frame(packet);
    // Two calls, so that each writes its key at its place at once.
    if headers.is_ip() {
        keys.set(packet.slot, ip_key(frame, headers));
    } else {
        keys.set(packet.slot, link_key(frame));
    }
}

/// The flow key of a frame with these headers.
pub fn flow_key(frame: &[u8], headers: &Headers) -> FlowKey {
    if headers.is_ip() {
        ip_key(frame, headers)
    } else {
        link_key(frame)
    }
}

#[inline(always)]
fn ip_key(frame: &[u8], headers: &Headers) -> FlowKey {
    let (source_port, destination_port) = match headers.fragment {
        Fragment::Whole => ports_at(frame, headers),
        Fragment::First | Fragment::Later => (0, 0),
    };
    let [source, destination] = headers.addresses();
    FlowKey {
        source,
        destination,
        source_port,
        destination_port,
        protocol: headers.protocol,
        family: headers.family,
    }
}

#[cold]
fn link_key(frame: &[u8]) -> FlowKey {
    match ethernet::View::new_checked(frame) {
        Ok(view) => FlowKey::link(view.source(), view.destination()),
        Err(_) => FlowKey::default(),
    }
}

/// The ports of a packet, also of a first fragment; zero if its protocol has none.
#[inline]
pub(crate) fn ports_at(frame: &[u8], headers: &Headers) -> (u16, u16) {
    if !Protocol::from(headers.protocol).has_ports() {
        return (0, 0);
    }
    match *headers.transport(frame) {
        [a, b, c, d, ..] => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => (0, 0),
    }
}

/// Whether the flow key of a packet with these headers contains the packet's ports: the packet is not a fragment, its
/// protocol has ports, and the ports are within the packet.
#[inline]
pub fn has_ports(headers: &Headers) -> bool {
    headers.fragment == Fragment::Whole
        && Protocol::from(headers.protocol).has_ports()
        && usize::from(headers.l4) + 4 <= headers.l3_range().end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge;
    use etherparse::{IpNumber, PacketBuilder};
    use weir_base::Instant;

    /// The key of a frame as a bridge sees it, as text.
    fn key_of(frame: &[u8]) -> String {
        let mut pool = Pool::new(1, 2048, (1, 2));
        let packet = pool.receive(frame, Instant::ZERO).unwrap();
        let parsed = bridge::parse(&pool, packet);
        let Classified { packet, .. } = classify(&mut pool, parsed);
        match pool.keys.key(&packet) {
            key if key.source_ip().is_some() => key.to_string(),
            key => format!("link {key}"),
        }
    }

    /// A packet with this protocol whose payload starts with the ports 5000 and 80.
    fn v4(protocol: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [192, 0, 2, 1], 9)
            .write(
                &mut frame,
                IpNumber(protocol),
                &[0x13, 0x88, 0, 80, 1, 2, 3, 4],
            )
            .unwrap();
        frame
    }

    fn v6(protocol: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([0x20; 16], [0x21; 16], 9)
            .write(
                &mut frame,
                IpNumber(protocol),
                &[0x13, 0x88, 0, 80, 1, 2, 3, 4],
            )
            .unwrap();
        frame
    }

    #[test]
    fn transports_with_ports_have_them_in_the_key() {
        for (protocol, name) in [
            (6, "tcp"),
            (17, "udp"),
            (33, "proto 33"),
            (132, "proto 132"),
            (136, "proto 136"),
        ] {
            let expected = format!("10.0.0.1:5000 > 192.0.2.1:80 {name}");
            assert_eq!(key_of(&v4(protocol)), expected);
            assert!(key_of(&v6(protocol)).ends_with(&format!("]:80 {name}")));
        }
        assert_eq!(key_of(&v4(1)), "10.0.0.1 > 192.0.2.1 icmp");
        assert_eq!(key_of(&v4(50)), "10.0.0.1 > 192.0.2.1 proto 50");
        assert!(key_of(&v6(58)).ends_with("2121 icmpv6"));
    }

    #[test]
    fn all_fragments_of_a_datagram_have_the_same_key() {
        for bits in [[0x20, 0], [0x20, 9], [0x00, 9]] {
            let mut frame = v4(17);
            frame[20..22].copy_from_slice(&bits);
            assert_eq!(key_of(&frame), "10.0.0.1 > 192.0.2.1 udp");
        }
        let keys = [[0, 1], [1, 1], [1, 0]].map(|[high, low]| {
            let mut frame = v6(44);
            frame[54..62].copy_from_slice(&[17, 0, high, low, 0, 0, 0, 7]);
            key_of(&frame)
        });
        assert!(keys[0].ends_with("2121 udp"), "{}", keys[0]);
        assert!(keys.iter().all(|k| *k == keys[0]));
    }

    #[test]
    fn a_transport_header_that_is_not_there_gives_no_ports() {
        let mut frame = v4(6);
        frame.truncate(37);
        assert_eq!(key_of(&frame), "10.0.0.1 > 192.0.2.1 tcp");
    }

    #[test]
    fn what_is_not_ip_counts_by_its_mac_addresses() {
        let mut arp = v4(6);
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(key_of(&arp), "link 02:02:02:02:02:02 > 04:04:04:04:04:04");
        assert_eq!(key_of(&[1, 2, 3]), "link * > *");
    }
}
