//! FPF and GRE headers: inserted after the Ethernet header of a frame, replaced, and removed.
//!
//! ```text
//!  | Ethernet | ............ payload |     push     | Ethernet' | header | payload |
//!  | Ethernet | header | ... payload |     strip    | Ethernet' | payload |
//! ```
//!
//! The payload is not read, and it stays where it is in memory, unless the spare bytes before the frame do not suffice.
//! Ethernet' has the type of the bytes that then follow it. Every function changes a frame as a whole, or not at all.

use std::net::IpAddr;

use weir_packet::{Packet, Pool};
use weir_wire::{EtherType, Protocol, ethernet, gre, ipv4, ipv6};

use crate::header::{Repr, View};

/// Hop limit of a tunnel's packets.
const TUNNEL_HOPS: u8 = 64;

/// Puts an FPF header before the payload of a frame. Returns whether there was room.
#[inline]
pub fn push_fpf(pool: &mut Pool, packet: &mut Packet, ethertype: EtherType, header: &Repr) -> bool {
    replace_fpf(pool, packet, 0, header) && set_ethertype(pool, packet, ethertype)
}

/// Replaces the FPF header of a frame, which has `len` bytes. Returns whether there was room.
#[inline]
pub fn replace_fpf(pool: &mut Pool, packet: &mut Packet, len: usize, header: &Repr) -> bool {
    if !splice(pool, packet, len, header.encoded_len()) {
        return false;
    }
    let bytes = &mut pool.frame_mut(packet)[ethernet::HEADER_LEN..];
    header.emit(&mut View::new_unchecked(bytes));
    true
}

/// Writes the Index of the FPF header of a frame.
#[inline(always)]
pub fn set_index(frame: &mut [u8], index: u8) {
    const AT: usize = ethernet::HEADER_LEN + 1;
    if let Some(place) = frame.get_mut(AT) {
        *place = index;
    }
}

/// Removes the `len` bytes after the Ethernet header, and writes the type of the bytes that follow. Returns whether the
/// frame has these bytes.
pub fn strip(pool: &mut Pool, packet: &mut Packet, len: usize, ethertype: EtherType) -> bool {
    splice(pool, packet, len, 0) && set_ethertype(pool, packet, ethertype)
}

/// Puts an IP header and a GRE header before the payload of a frame, whose Ethernet type becomes GRE's protocol type
/// (RFC 2784, RFC 7676). Both ends must be of one family. The packet must not be fragmented, so that no far end has to
/// reassemble (RFC 4459, section 3.1). Returns whether there was room.
pub fn push_gre(pool: &mut Pool, packet: &mut Packet, local: IpAddr, remote: IpAddr) -> bool {
    let Ok(link) = ethernet::View::new_checked(pool.frame(packet)) else {
        return false;
    };
    let inner = gre::Repr {
        ethertype: link.ethertype(),
    };
    let payload_len = packet.len as usize - ethernet::HEADER_LEN + inner.encoded_len();
    match (local, remote) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let outer = ipv4::Repr::new(source, destination, Protocol::GRE, payload_len);
            let Ok(mut outer) = outer else {
                return false;
            };
            outer.dont_fragment = true;
            let header_len = outer.encoded_len();
            push_tunnel(pool, packet, &inner, EtherType::IPV4, header_len, |bytes| {
                outer.emit(&mut ipv4::View::new_unchecked(bytes));
            })
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let Ok(payload_len) = u16::try_from(payload_len) else {
                return false;
            };
            let outer = ipv6::Repr {
                traffic_class: 0,
                flow_label: ipv6::FlowLabel::default(),
                payload_len,
                next_header: Protocol::GRE,
                hop_limit: TUNNEL_HOPS,
                source,
                destination,
            };
            let header_len = outer.encoded_len();
            push_tunnel(pool, packet, &inner, EtherType::IPV6, header_len, |bytes| {
                outer.emit(&mut ipv6::View::new_unchecked(bytes));
            })
        }
        _ => false,
    }
}

/// Bytes that [`push_gre`] adds to a packet for this far end.
pub fn gre_len(remote: IpAddr) -> u32 {
    let outer = match remote {
        IpAddr::V4(_) => ipv4::HEADER_LEN_MIN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    (outer + gre::HEADER_LEN) as u32
}

fn push_tunnel(
    pool: &mut Pool,
    packet: &mut Packet,
    inner: &gre::Repr,
    ethertype: EtherType,
    header_len: usize,
    emit: impl FnOnce(&mut [u8]),
) -> bool {
    if !splice(pool, packet, 0, header_len + inner.encoded_len()) {
        return false;
    }
    let bytes = &mut pool.frame_mut(packet)[ethernet::HEADER_LEN..];
    let (outer, rest) = bytes.split_at_mut(header_len);
    emit(outer);
    inner.emit(&mut gre::View::new_unchecked(rest));
    set_ethertype(pool, packet, ethertype)
}

#[inline]
fn set_ethertype(pool: &mut Pool, packet: &Packet, ethertype: EtherType) -> bool {
    let view = ethernet::View::new_checked(pool.frame_mut(packet));
    view.map(|mut view| view.set_ethertype(ethertype)).is_ok()
}

/// Replaces the `old` bytes after the Ethernet header by `new` bytes. Returns whether the frame has the old bytes, and
/// room for the new ones.
#[inline]
fn splice(pool: &mut Pool, packet: &mut Packet, old: usize, new: usize) -> bool {
    const LINK: usize = ethernet::HEADER_LEN;
    if (packet.len as usize) < LINK + old {
        return false;
    }
    if let Some(more) = new.checked_sub(old) {
        if !pool.grow_front(packet, more) {
            return false;
        }
        move_link(pool.frame_mut(packet), more, 0);
        return true;
    }
    let less = old - new;
    move_link(pool.frame_mut(packet), 0, less);
    pool.move_start(packet, less as i32)
}

/// Moves the Ethernet header from offset `from` of a buffer to offset `to`. Its length is constant, so the compiler
/// emits no call.
#[inline]
fn move_link(buffer: &mut [u8], from: usize, to: usize) {
    const LEN: usize = ethernet::HEADER_LEN;
    let header = buffer
        .get(from..)
        .and_then(<[u8]>::first_chunk::<LEN>)
        .copied();
    let place = buffer.get_mut(to..).and_then(<[u8]>::first_chunk_mut);
    if let (Some(header), Some(place)) = (header, place) {
        *place = header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Vector;
    use etherparse::SlicedPacket;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_path::headers;

    const FPF: EtherType = crate::header::ETHERTYPE_DEFAULT;

    fn link(ethertype: EtherType) -> Vec<u8> {
        let [a, b] = u16::from(ethertype).to_be_bytes();
        let macs = [[6; 6], [8; 6]].concat();
        [&macs[..], &[a, b]].concat()
    }

    fn header(len: usize) -> Repr {
        let lids: Vec<u8> = (0..len).map(|n| n as u8).collect();
        Repr::first(Vector::new(&lids).unwrap())
    }

    #[test]
    fn a_tunnel_goes_on_and_off() {
        for (local, remote) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            let mut pool = Pool::new(1, 1518, (1, 2));
            let inner = [&link(FPF)[..], &[1, 0, 0xa1, 0x45, 9, 9]].concat();
            let mut packet = pool.receive(&inner, Instant::ZERO).unwrap();
            assert!(push_gre(&mut pool, &mut packet, local, remote));
            let frame = pool.frame(&packet).to_vec();
            SlicedPacket::from_ethernet(&frame).unwrap(); // lengths and checksum
            let headers = headers::peek(&frame);
            assert_eq!((headers.source(), headers.destination()), (local, remote));
            assert_eq!((headers.protocol, headers.ttl), (47, 64));
            assert!(headers.dont_fragment);
            assert_eq!(headers.transport(&frame)[..4], [0, 0, 0xc0, 0]);
            assert_eq!(headers.transport(&frame)[4..], inner[14..]);
            let outer = usize::from(headers.l4) + 4 - 14;
            assert!(strip(&mut pool, &mut packet, outer, FPF));
            assert_eq!(pool.frame(&packet), inner);
        }
    }

    #[test]
    fn ends_of_two_families_and_short_frames_are_left_alone() {
        let mut pool = Pool::new(1, 1518, (1, 2));
        let mut packet = pool.receive(&link(FPF), Instant::ZERO).unwrap();
        let (v4, v6) = ("10.0.0.1".parse().unwrap(), "::1".parse().unwrap());
        assert!(!push_gre(&mut pool, &mut packet, v4, v6));
        assert!(!strip(&mut pool, &mut packet, 1, FPF));
        pool.truncate(&mut packet, 13);
        assert!(!push_gre(&mut pool, &mut packet, v4, v4));
        assert!(!push_fpf(&mut pool, &mut packet, FPF, &header(1)));
        assert_eq!(pool.frame(&packet), &link(FPF)[..13]);
    }

    proptest! {
        /// Against a new frame, put together byte by byte.
        #[test]
        fn headers_go_on_are_replaced_and_come_off(
            payload in vec(any::<u8>(), 0..300),
            first in 1_usize..=255,
            second in 1_usize..=255,
        ) {
            const ROOM: usize = 400;
            let mut pool = Pool::new(1, ROOM, (1, 2));
            let plain = [&link(EtherType::IPV4)[..], &payload].concat();
            let mut packet = pool.receive(&plain, Instant::ZERO).unwrap();
            let with = |header: &Repr| {
                let mut bytes = vec![0; header.encoded_len()];
                header.emit(&mut View::new_unchecked(&mut bytes[..]));
                [&link(FPF)[..], &bytes, &payload].concat()
            };
            let fits = |frame: &[u8]| frame.len() <= weir_packet::packet::HEADROOM + ROOM;
            let [first, second] = [first, second].map(header);
            let pushed = push_fpf(&mut pool, &mut packet, FPF, &first);
            prop_assert_eq!(pushed, fits(&with(&first)));
            if !pushed {
                prop_assert_eq!(pool.frame(&packet), plain);
                return Ok(());
            }
            prop_assert_eq!(pool.frame(&packet), with(&first));
            let len = first.encoded_len();
            let replaced = replace_fpf(&mut pool, &mut packet, len, &second);
            prop_assert_eq!(replaced, fits(&with(&second)));
            let now = if replaced { second } else { first };
            prop_assert_eq!(pool.frame(&packet), with(&now));
            prop_assert!(strip(&mut pool, &mut packet, now.encoded_len(), EtherType::IPV4));
            prop_assert_eq!(pool.frame(&packet), plain);
        }
    }
}
