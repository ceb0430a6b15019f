//! Filters and packets for tests.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;
use weir_packet::FlowKey;
use weir_packet::key::Family;
use weir_wire::{EtherType, Protocol};

use crate::edge::filter::{Filter, RawFilter, Subject};

/// A packet that is not a fragment.
pub(super) fn whole(key: &FlowKey) -> Subject<'_> {
    Subject {
        key,
        hash: 0,
        has_ports: Protocol::from(key.protocol).has_ports(),
        ethertype: match key.family {
            Family::V4 => EtherType::IPV4,
            Family::V6 => EtherType::IPV6,
            Family::Link => EtherType::ARP,
        },
    }
}

/// Filters and keys over few values, so that they meet.
pub(super) fn filters() -> impl Strategy<Value = Filter> {
    let prefix = || prop::option::of((0_u8..3, prop::sample::select(vec![1_u8, 8, 31, 32])));
    let ports = || prop::option::of((0_u16..6, 0_u16..6).prop_map(|(a, b)| (a.min(b), a.max(b))));
    let protocol = prop::sample::select(vec![None, Some(1), Some(17), Some(17), Some(6)]);
    let link = (0_u16..2).prop_map(|n| RawFilter {
        ethertype: Some(0x88f0 + n),
        ..RawFilter::default()
    });
    let ip = (
        any::<bool>(),
        prefix(),
        prefix(),
        protocol,
        ports(),
        ports(),
    )
        .prop_map(
            |(v4, source, destination, protocol, source_ports, destination_ports)| {
                let net = |(address, len): (u8, u8)| {
                    let len = if v4 { len } else { len * 4 };
                    IpNet::new(address_of(v4, address), len).unwrap()
                };
                let has_ports = matches!(protocol, Some(6 | 17));
                RawFilter {
                    version: Some(if v4 { 4 } else { 6 }),
                    ethertype: None,
                    source: source.map(net),
                    destination: destination.map(net),
                    protocol,
                    source_ports: source_ports.filter(|_| has_ports),
                    destination_ports: destination_ports.filter(|_| has_ports),
                }
            },
        );
    prop_oneof![1 => link, 12 => ip].prop_map(|raw| raw.check().unwrap())
}

/// Packets: the key, whether it is a fragment, and the ether type.
pub(super) fn packets() -> impl Strategy<Value = (FlowKey, bool, u16)> {
    let fields = (any::<bool>(), 0_u8..3, 0_u8..3, 0_u16..6, 0_u16..6);
    let protocol = prop::sample::select(vec![1_u8, 6, 17]);
    (fields, protocol, any::<bool>(), 0_u16..12).prop_map(|(fields, protocol, fragment, link)| {
        let (v4, source, destination, source_port, destination_port) = fields;
        if link < 2 {
            return (
                FlowKey::link([source; 6], [destination; 6]),
                false,
                0x88f0 + link,
            );
        }
        let has_ports = Protocol::from(protocol).has_ports() && !fragment;
        let key = FlowKey::ip(
            address_of(v4, source),
            address_of(v4, destination),
            protocol,
            if has_ports { source_port } else { 0 },
            if has_ports { destination_port } else { 0 },
        );
        (key, fragment, if v4 { 0x0800 } else { 0x86dd })
    })
}

fn address_of(v4: bool, n: u8) -> IpAddr {
    if v4 {
        [10 + 128 * (n & 1), 0, 0, n].into()
    } else {
        [n; 16].into()
    }
}
