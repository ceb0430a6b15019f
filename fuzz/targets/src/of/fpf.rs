//! Takes any bytes as frames of a router whose FPF rules use every action of a rule. The first byte of the input is the
//! length of the frames.
//!
//! Checks besides "no panic": a Repr that was read can be written and read again; every packet has exactly one fate, and
//! all memory is free at the end.

#[path = "../../../../fpf/path/tests/hostile/router.rs"]
#[allow(dead_code, clippy::unwrap_used, missing_docs)]
// A test's module, which creates more frames with it.
mod router;

use router::Router;
use weir_fpf_path::{header, payload, segment_header};
use weir_path::egress::rewrite;
use weir_wire::ethernet;

use super::wire::again;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some((len, bytes)) = bytes.split_first() else {
        return;
    };
    let mut router = Router::new();
    for frame in bytes.chunks(14 + usize::from(*len)) {
        headers(frame);
        router.carry(frame);
    }
    router.settle();
}

fn headers(frame: &[u8]) {
    let behind = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
    again!(header::View<_>, header::Repr, behind);
    again!(segment_header::View<_>, segment_header::Repr, behind);
    let inner = payload::peek_behind(frame, ethernet::HEADER_LEN);
    rewrite::mark_congestion(&mut frame.to_vec(), &inner);
}

/// A frame for each LID of the router, and others.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = |len: u8, frames: Vec<Vec<u8>>| {
        let step = 14 + usize::from(len);
        let mut all = vec![len];
        for mut frame in frames {
            frame.resize(step, 0);
            all.extend(frame);
        }
        all
    };
    let fpf = |header: &[u8], payload: &[u8]| router::frame(0xc000, &[header, payload]);
    let (v4, v6) = (router::ipv4(), router::ipv6());
    let plain = [(0x0800, &v4), (0x86dd, &v6)];
    let mut all: Vec<_> = plain
        .iter()
        .map(|(kind, packet)| of(80, vec![router::frame(*kind, &[packet])]))
        .collect();
    for lid in router::LIDS {
        all.push(of(
            80,
            vec![fpf(&[3, 0, lid, 5, 1], &v4), fpf(&[2, 1, 0xff, lid], &v6)],
        ));
        all.push(of(250, vec![fpf(&[4, 0, 14, 15, lid, 1], &[0x44; 200])]));
    }
    let [interest, data] = router::chunk();
    let data = router::in_tunnel(&[0, 0, 0xc0, 0, 2, 0, 16, 5], &data);
    let first = fpf(&[2, 0, 16, 5], &interest);
    let data = router::frame(0x0800, &[&data]);
    all.push(of(150, vec![first.clone(), data, first]));
    let parts = router::in_parts(7, &v4);
    all.push(of(
        80,
        parts.map(|part| fpf(&[2, 0, 15, 5], &part)).to_vec(),
    ));
    all
}
