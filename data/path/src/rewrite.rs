//! What a router writes into the headers of a packet that it forwards.
//!
//! IPv4 header checksums are updated by difference (RFC 1624), so that a packet whose checksum was
//! damaged stays recognisably damaged. All functions do nothing where the header does not fit the
//! frame.

use weir_packet::key::Family;
use weir_packet::{Ecn, Packet, Pool};
use weir_wire::ethernet::{self, Mac};
use weir_wire::{EtherType, checksum, ipv4, ipv6, vlan};

use crate::parse::{self, Headers};

/// What a tag adds to a frame.
const TAG_LEN: i32 = vlan::TAG_LEN as i32;
/// The two addresses, which stay in front of a tag.
const MACS_LEN: usize = 12;

/// Takes one hop off the TTL or hop limit, not below zero. `headers` keeps the received one.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], headers: &Headers) {
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

/// Marks a frame that leaves a queue as "congestion experienced", if it is IP. Its headers were
/// found long ago and are found again, since few packets are marked.
pub fn mark_congestion(frame: &mut [u8]) {
    let headers = parse::look(frame);
    write_ecn(frame, &headers, Ecn::Congested);
}

/// Puts an 802.1Q tag, which came out of band, back into a frame. Says whether there was room.
pub fn insert_tag(pool: &mut Pool, packet: &mut Packet, tci: u16) -> bool {
    if (packet.len as usize) < ethernet::HEADER_LEN || !pool.move_start(packet, -TAG_LEN) {
        return false;
    }
    let frame = pool.frame_mut(packet);
    frame.copy_within(vlan::TAG_LEN..vlan::TAG_LEN + MACS_LEN, 0);
    let [high, low] = tci.to_be_bytes();
    let [a, b] = u16::from(EtherType::Vlan).to_be_bytes();
    frame[MACS_LEN..MACS_LEN + vlan::TAG_LEN].copy_from_slice(&[a, b, high, low]);
    true
}

/// Takes the outermost 802.1Q tag out of a frame. Says whether it had one.
pub fn remove_tag(pool: &mut Pool, packet: &mut Packet) -> bool {
    let frame = pool.frame_mut(packet);
    let tagged = matches!(ethernet::View::new_checked(&*frame), Ok(v) if v.ethertype().is_tag());
    if !tagged || frame.len() < ethernet::HEADER_LEN + vlan::TAG_LEN {
        return false;
    }
    frame.copy_within(..MACS_LEN, vlan::TAG_LEN);
    pool.move_start(packet, TAG_LEN)
}

/// Writes the two MAC addresses of a frame.
#[inline]
pub fn set_macs(frame: &mut [u8], destination: Mac, source: Mac) {
    if let Ok(mut view) = ethernet::View::new_checked(frame) {
        view.set_destination(destination);
        view.set_source(source);
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
