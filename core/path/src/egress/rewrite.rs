//! Changes to the headers of a packet that the router forwards.
//!
//! IPv4 header checksums are updated by the difference (RFC 1624), so that a packet with a damaged
//! checksum stays recognisably damaged. No function does anything if the header does not fit in the
//! frame.

use weir_packet::Ecn;
use weir_packet::key::Family;
use weir_wire::ethernet::{self, Mac};
use weir_wire::{checksum, ipv4, ipv6};

use crate::headers::Headers;

/// Decrements the TTL or hop limit, not below zero. `headers` keeps the received value.
#[inline]
pub fn decrement_hops(frame: &mut [u8], headers: &Headers) {
    let Some(packet) = frame.get_mut(headers.l3.into()..) else {
        return;
    };
    match headers.family {
        Family::V4 => change_v4(packet, 4, |view| view.set_ttl(view.ttl().saturating_sub(1))),
        Family::V6 => {
            if let Ok(mut view) = ipv6::View::new_checked(packet) {
                view.set_hop_limit(view.hop_limit().saturating_sub(1));
            }
        }
        Family::Link => {}
    }
}

/// Writes the ECN field.
#[inline]
pub fn write_ecn(frame: &mut [u8], headers: &Headers, ecn: Ecn) {
    let Some(packet) = frame.get_mut(headers.l3.into()..) else {
        return;
    };
    let with_ecn = |class: u8| class & !0b11 | ecn.bits();
    match headers.family {
        Family::V4 => change_v4(packet, 0, |view| {
            view.set_traffic_class(with_ecn(view.traffic_class()));
        }),
        Family::V6 => {
            if let Ok(mut view) = ipv6::View::new_checked(packet) {
                view.set_traffic_class(with_ecn(view.traffic_class()));
            }
        }
        Family::Link => {}
    }
}

/// Marks a frame that leaves a queue as "congestion experienced", if it has an IP packet with these headers. Returns
/// whether the mark is new.
pub fn mark_congestion(frame: &mut [u8], headers: &Headers) -> bool {
    write_ecn(frame, headers, Ecn::Congested);
    headers.is_ip() && headers.ecn != Ecn::Congested
}

/// Writes the two MAC addresses of a frame, the destination's first.
#[inline]
pub fn set_macs(frame: &mut [u8], macs: &[Mac; 2]) {
    let macs = macs.as_flattened();
    if frame.len() >= ethernet::HEADER_LEN {
        frame[..macs.len()].copy_from_slice(macs);
    }
}

/// Changes a field within the 16-bit `word` of an IPv4 header, and the checksum by the difference.
#[inline]
fn change_v4(packet: &mut [u8], word: usize, change: impl FnOnce(&mut ipv4::View<&mut [u8]>)) {
    let Ok(mut view) = ipv4::View::new_checked(packet) else {
        return;
    };
    let before = view.word(word);
    change(&mut view);
    let after = view.word(word);
    view.set_checksum(checksum::update(view.checksum(), before, after));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    fn v4(ttl: u8, class: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [192, 0, 2, 1], ttl)
            .udp(1, 2)
            .write(&mut frame, b"hello")
            .unwrap();
        let mut view = ipv4::View::new_unchecked(&mut frame[14..]);
        view.set_traffic_class(class);
        view.fill_checksum();
        frame
    }

    fn v6(hops: u8, class: u8) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([0x20; 16], [0x21; 16], hops)
            .udp(1, 2)
            .write(&mut frame, b"hello")
            .unwrap();
        ipv6::View::new_unchecked(&mut frame[14..]).set_traffic_class(class);
        frame
    }

    #[test]
    fn a_damaged_checksum_stays_damaged() {
        let mut frame = v4(9, 0);
        frame[24] ^= 0x10;
        let headers = headers::peek(&frame);
        decrement_hops(&mut frame, &headers);
        assert!(!checksum::is_right(&frame[14..34]));
    }

    #[test]
    fn a_ttl_of_zero_stays_zero() {
        for mut frame in [v4(0, 0), v6(0, 0)] {
            let headers = headers::peek(&frame);
            let before = frame.clone();
            decrement_hops(&mut frame, &headers);
            assert_eq!(frame, before);
        }
    }

    fn mark(frame: &mut [u8]) -> bool {
        let headers = headers::peek(frame);
        mark_congestion(frame, &headers)
    }

    #[test]
    fn a_mark_reaches_packets_behind_tags_and_leaves_others_alone() {
        let mut tagged = v4(9, 0b10);
        tagged.splice(12..12, [0x88, 0xa8, 0, 3, 0x81, 0, 0, 7]);
        assert!(mark(&mut tagged));
        assert!(!mark(&mut tagged));
        assert_eq!(headers::peek(&tagged).ecn, Ecn::Congested);
        assert!(checksum::is_right(&tagged[22..42]));
        for other in [vec![], vec![0; 60], vec![0xff; 13]] {
            let mut frame = other.clone();
            assert!(!mark(&mut frame));
            assert_eq!(frame, other);
        }
    }

    #[test]
    fn macs_are_written() {
        let mut frame = v4(9, 0);
        set_macs(&mut frame, &[[6; 6], [8; 6]]);
        assert_eq!(frame[..6], [6; 6]);
        assert_eq!(frame[6..12], [8; 6]);
        set_macs(&mut frame[..5], &[[1; 6], [1; 6]]);
        assert_eq!(frame[..6], [6; 6]);
    }

    proptest! {
        #[test]
        fn a_hop_costs_one_and_the_checksum_stays_right(ttl in 1_u8.., class: u8) {
            for (mut frame, expected) in [
                (v4(ttl, class), v4(ttl - 1, class)),
                (v6(ttl, class), v6(ttl - 1, class)),
            ] {
                let headers = headers::peek(&frame);
                decrement_hops(&mut frame, &headers);
                prop_assert_eq!(frame, expected);
            }
        }

        #[test]
        fn a_mark_changes_the_ecn_field_only(class: u8, bits in 0_u8..4) {
            let marked = class & !0b11 | bits;
            for (mut frame, expected) in [(v4(9, class), v4(9, marked)), (v6(9, class), v6(9, marked))] {
                let headers = headers::peek(&frame);
                write_ecn(&mut frame, &headers, Ecn::from_bits(bits));
                prop_assert_eq!(frame, expected);
            }
        }
    }
}
