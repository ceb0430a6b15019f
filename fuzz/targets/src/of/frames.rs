//! Takes any bytes as a frame; routes, bridges, classifies, rewrites, answers and fragments it.
//!
//! Checks besides "no panic": a bridge does not change the bytes, and a routed packet is within its frame.

use std::net::IpAddr;

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};
use weir_base::Instant;
use weir_packet::{Ecn, Pool};
use weir_path::classify::{Classified, classify};
use weir_path::egress::fragment::fragment;
use weir_path::egress::rewrite;
use weir_path::headers::Parsed;
use weir_path::ip::error_budget::ErrorBudget;
use weir_path::ip::icmp_cause::IcmpCause;
use weir_path::ip::icmp_error::build;
use weir_path::plane::Mode;
use weir_path::{bridge, ip, link};

const SLOTS: usize = 16;
const MTU: u32 = 576;

/// The target.
pub(crate) fn target(frame: &[u8]) {
    for mode in [Mode::Routed, Mode::Bridged] {
        carry(frame, mode);
    }
}

fn carry(frame: &[u8], mode: Mode) {
    let mut pool = Pool::new(SLOTS, 4096, (1, 2));
    let Some(mut packet) = pool.receive(frame, Instant::ZERO) else {
        return;
    };
    let parsed = match mode {
        Mode::Bridged | Mode::Queue => bridge::parse(&pool, packet),
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
        Mode::Bridged | Mode::Queue => assert_eq!(pool.frame(&packet), frame),
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
}

/// Frames with a long payload: TCP over IPv4 and IPv6, UDP over IPv4 and IPv6.
pub(super) fn long() -> Vec<Vec<u8>> {
    let link = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 1, 0]);
    let v4 = || link().ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9);
    let v6 = || link().ipv6([0x20; 16], [0x21; 16], 9);
    let payload = [0x5a; 1800];
    let tcp = |step: PacketBuilderStep<IpHeaders>| {
        let mut frame = Vec::new();
        let written = step
            .tcp(4000, 80, 7, 1000)
            .psh()
            .write(&mut frame, &payload);
        written.map(|()| frame).unwrap_or_default()
    };
    let udp = |step: PacketBuilderStep<IpHeaders>| {
        let mut frame = Vec::new();
        let written = step.udp(4000, 53).write(&mut frame, &payload);
        written.map(|()| frame).unwrap_or_default()
    };
    vec![tcp(v4()), tcp(v6()), udp(v4()), udp(v6())]
}

/// Frames of the protocols that a router reads, with tags, options, extensions and fragments.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = long();
    let short: Vec<_> = all.iter().map(|frame| frame[..120].to_vec()).collect();
    all.extend(short);
    let tagged = |frame: &Vec<u8>, tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    all.push(tagged(&all[0], &[0x81, 0, 0, 7]));
    all.push(tagged(&all[1], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]));
    let ethernet = [2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 9];
    let v6 = |next: u8, body: &[u8]| {
        let len = (body.len() as u16).to_be_bytes();
        let head = [0x60, 0, 0, 0, len[0], len[1], next, 9];
        [
            &ethernet[..],
            &[0x86, 0xdd],
            &head,
            &[0x20; 16],
            &[0x21; 16],
            body,
        ]
        .concat()
    };
    let hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let destination = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [44, 0, 0, 1, 0, 0, 0, 0];
    let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
    let udp = [0x0f, 0xa0, 0, 53, 0, 8, 0, 0];
    all.push(v6(0, &[hop, destination, routing, fragment, udp].concat()));
    all.push(v6(
        58,
        &[
            135, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        ],
    ));
    let mut options = [
        &ethernet[..],
        &[
            8, 0, 0x48, 0, 0, 48, 0, 7, 0x20, 0, 9, 17, 0, 0, 10, 0, 1, 10, 192, 0, 2, 1,
        ],
    ]
    .concat();
    options.extend([
        0x83, 7, 4, 192, 0, 2, 9, 1, 0x94, 4, 0, 0, 0, 53, 0, 53, 0, 16, 0, 0,
    ]);
    options.resize(62, 0);
    all.push(options);
    all
}
