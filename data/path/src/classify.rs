//! From [`Headers`] to a flow key: who talks to whom.
//!
//! All fragments of a datagram have the 3-tuple as key, because only the first one carries ports;
//! so a datagram stays in one queue and in order. ICMP, and what has no ports, has zero there. A
//! frame that is not IP has its two MAC addresses as key.

use weir_packet::key::FlowKey;
use weir_packet::{Class, Packet, Pool};
use weir_wire::{Protocol, ethernet};

use crate::parse::{Fragment, Headers, Parsed};

/// A packet whose flow and class are known.
#[derive(Debug)]
pub struct Classified {
    /// The packet; its flow key is in the pool.
    pub packet: Packet,
    /// Its headers.
    pub headers: Headers,
}

/// Remembers the flow key of a packet in the pool, and gives it a class.
#[inline]
pub fn classify(pool: &mut Pool, parsed: Parsed) -> Classified {
    let Parsed {
        mut packet,
        headers,
    } = parsed;
    let key = flow_key(pool.frame(&packet), &headers);
    pool.keys.set(packet.slot, key);
    packet.class = Class(0);
    Classified { packet, headers }
}

/// The flow key of a frame with these headers.
#[inline]
pub fn flow_key(frame: &[u8], headers: &Headers) -> FlowKey {
    if !headers.is_ip() {
        return match ethernet::View::new_checked(frame) {
            Ok(view) => FlowKey::link(view.source(), view.destination()),
            Err(_) => FlowKey::default(),
        };
    }
    let (source_port, destination_port) = ports(frame, headers);
    FlowKey::ip(
        headers.source,
        headers.destination,
        headers.protocol,
        source_port,
        destination_port,
    )
}

#[inline]
fn ports(frame: &[u8], headers: &Headers) -> (u16, u16) {
    if headers.fragment != Fragment::Whole || !Protocol::from(headers.protocol).has_ports() {
        return (0, 0);
    }
    match *headers.transport(frame) {
        [a, b, c, d, ..] => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => (0, 0),
    }
}
