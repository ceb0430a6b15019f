//! Takes any bytes as a frame that is not routed; finds the packet behind its encapsulations, and marks it.
//!
//! Checks besides "no panic": every header is within the frame, the flow does not depend on the payload or on a tag, and
//! a mark changes nothing but the ECN field and the checksum.

use weir_packet::Ecn;
use weir_packet::key::Family;
use weir_path::classify::flow_key;
use weir_path::egress::rewrite;
use weir_path::headers;
use weir_path::link::encapsulation::{DEPTH_MAX, walk};

/// A tag with priority 5 for VLAN 7.
const TAG: [u8; 4] = [0x81, 0, 0xa0, 7];

/// The target.
pub(crate) fn target(frame: &[u8]) {
    let headers = headers::peek(frame);
    assert!(headers.l3_range().end <= frame.len());
    let key = flow_key(frame, &headers);
    let mut depth = 0;
    walk(frame, |_, at| {
        assert!(at < frame.len());
        depth += 1;
    });
    assert!(depth <= DEPTH_MAX);
    if !headers.is_ip() {
        return;
    }

    let mut other = frame.to_vec();
    let payload = usize::from(headers.l4) + 4; // after the ports
    if let Some(bytes) = other.get_mut(payload..) {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    assert_eq!(flow_key(&other, &headers::peek(&other)), key);

    if depth < DEPTH_MAX {
        let tagged = [&frame[..12], &TAG, &frame[12..]].concat();
        assert_eq!(flow_key(&tagged, &headers::peek(&tagged)), key);
    }

    let mut marked = frame.to_vec();
    rewrite::mark_congestion(&mut marked, &headers);
    let mut expected = headers;
    expected.ecn = Ecn::Congested;
    assert_eq!(headers::peek(&marked), expected);
    let ip = usize::from(headers.l3);
    marked[ip + 1] = frame[ip + 1];
    if headers.family == Family::V4 {
        marked[ip + 10..ip + 12].copy_from_slice(&frame[ip + 10..ip + 12]);
    }
    assert_eq!(marked, frame);
}

/// Packets of each family behind tags, a PPPoE session, and labels.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let behind = |packet: &Vec<u8>| {
        let is_v4 = packet[14] >> 4 == 4;
        let protocol = if is_v4 { 0x21 } else { 0x57 };
        let [high, low] = (packet.len() as u16 - 12).to_be_bytes();
        let session = [0x88, 0x64, 0x11, 0, 0, 7, high, low, 0, protocol];
        let tags = [0x88, 0xa8, 0, 3, 0x81, 0, 0, 7];
        let labels = |bottom: [u8; 3]| [&[0x88, 0x47, 0, 1, 0, 64][..], &bottom, &[64]].concat();
        let null = if is_v4 { [0, 0, 1] } else { [0, 0, 0x21] };
        let ways = [
            session.to_vec(),
            [&tags[..], &session].concat(),
            labels([0, 2, 1]),
            labels(null),
            [&tags[..], &labels([0, 2, 1])].concat(),
        ];
        ways.map(|way| [&packet[..12], &way, &packet[14..]].concat())
    };
    let mut all = super::frames::seeds();
    all.extend(super::frames::long().iter().flat_map(behind));
    all
}
