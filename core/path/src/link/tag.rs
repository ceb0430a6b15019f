//! Inserting 802.1Q tags into frames, and removing them.

use weir_packet::{Packet, Pool};
use weir_wire::{EtherType, ethernet, vlan};

/// Bytes that a tag adds to a frame.
const TAG_LEN: i32 = vlan::TAG_LEN as i32;
/// Length of the two addresses, which stay in front of a tag.
const MACS_LEN: usize = 12;

/// Inserts an 802.1Q tag into a frame. Returns whether there was room.
pub fn insert(pool: &mut Pool, packet: &mut Packet, tci: u16) -> bool {
    if (packet.len as usize) < ethernet::HEADER_LEN || !pool.move_start(packet, -TAG_LEN) {
        return false;
    }
    let frame = pool.frame_mut(packet);
    frame.copy_within(vlan::TAG_LEN..vlan::TAG_LEN + MACS_LEN, 0);
    let [high, low] = tci.to_be_bytes();
    let [a, b] = u16::from(EtherType::VLAN).to_be_bytes();
    frame[MACS_LEN..MACS_LEN + vlan::TAG_LEN].copy_from_slice(&[a, b, high, low]);
    true
}

/// Removes the outermost 802.1Q tag from a frame. Returns whether it had one.
pub fn remove(pool: &mut Pool, packet: &mut Packet) -> bool {
    let frame = pool.frame_mut(packet);
    let tagged = matches!(ethernet::View::new_checked(&*frame), Ok(v) if v.ethertype().is_tag());
    if !tagged || frame.len() < ethernet::HEADER_LEN + vlan::TAG_LEN {
        return false;
    }
    frame.copy_within(..MACS_LEN, vlan::TAG_LEN);
    pool.move_start(packet, TAG_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Instant;

    #[test]
    fn a_tag_goes_in_and_out_again() {
        let mut pool = Pool::new(1, 2048, (1, 2));
        let frame: Vec<u8> = (0..60).collect();
        let mut packet = pool.receive(&frame, Instant::ZERO).unwrap();
        assert!(insert(&mut pool, &mut packet, 0xa007));
        let tagged = pool.frame(&packet);
        assert_eq!(tagged[..12], frame[..12]);
        assert_eq!(tagged[12..16], [0x81, 0, 0xa0, 7]);
        assert_eq!(tagged[16..], frame[12..]);
        assert!(remove(&mut pool, &mut packet));
        assert_eq!(pool.frame(&packet), frame);
        assert!(!remove(&mut pool, &mut packet));
        pool.truncate(&mut packet, 13);
        assert!(!insert(&mut pool, &mut packet, 1));
    }
}
