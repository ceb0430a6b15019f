//! Takes any bytes as a frame; routes, bridges, classifies, rewrites, answers and fragments it.
//!
//! Checks besides "no panic": a bridge does not change the bytes, and a routed packet lies within its frame.

#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use weir_base::Instant;
use weir_packet::{Ecn, Pool};
use weir_path::classify::{Classified, classify};
use weir_path::egress::fragment::fragment;
use weir_path::egress::rewrite;
use weir_path::headers::Parsed;
use weir_path::ip::error_budget::ErrorBudget;
use weir_path::ip::icmp_error::{IcmpCause, build};
use weir_path::plane::Mode;
use weir_path::{bridge, ip, link};

const SLOTS: usize = 16;
const MTU: u32 = 576;

fuzz_target!(|frame: &[u8]| {
    for mode in [Mode::Routed, Mode::Bridged] {
        carry(frame, mode);
    }
});

fn carry(frame: &[u8], mode: Mode) {
    let mut pool = Pool::new(SLOTS, 4096, (1, 2));
    let Some(mut packet) = pool.receive(frame, Instant::ZERO) else {
        return;
    };
    let parsed = match mode {
        Mode::Bridged => bridge::parse(&pool, packet),
        Mode::Routed => {
            let Ok(link) = link::validate(frame) else {
                return;
            };
            let Ok(headers) = ip::parse::parse(&mut pool, &mut packet, &link) else {
                return;
            };
            Parsed { packet, headers }
        }
    };
    let Classified { packet, headers } = classify(&mut pool, parsed);
    let range = headers.l3_range();
    assert!(range.end <= pool.frame(&packet).len());
    assert_eq!(pool.frame(&packet).len(), packet.len as usize);
    match mode {
        Mode::Bridged => assert_eq!(pool.frame(&packet), frame),
        Mode::Routed => assert!(headers.is_ip()),
    }

    let from: IpAddr = match headers.source() {
        IpAddr::V4(_) => [10, 0, 0, 1].into(),
        IpAddr::V6(_) => [0x20; 16].into(),
    };
    let cause = IcmpCause::TooBig { mtu: MTU };
    let budget = &mut ErrorBudget::default();
    let answer = build(
        &mut pool,
        budget,
        &packet,
        &headers,
        cause,
        from,
        Instant::ZERO,
    );
    if let Some(Parsed { packet, headers }) = answer {
        assert_eq!(headers.l3_range().end, pool.frame(&packet).len());
        pool.release(packet);
    }

    let mut pieces = Vec::new();
    let _ = fragment(&mut pool, &packet, &headers, MTU, &mut |p| pieces.push(p));
    for piece in &pieces {
        assert!(pool.frame(piece).len() <= range.start + MTU as usize);
    }

    let bytes = pool.frame_mut(&packet);
    rewrite::decrement_hops(bytes, &headers);
    rewrite::write_ecn(bytes, &headers, Ecn::Congested);
    rewrite::mark_congestion(bytes, Some(weir_wire::fpf::ETHERTYPE_DEFAULT));
}
