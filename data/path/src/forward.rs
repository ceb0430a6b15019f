//! Where a packet goes: longest prefix match, ECMP, neighbour, TTL and MTU.
//!
//! ```text
//!  Classified --> route? --> TTL? --> next hop --> interface --> MTU? --> neighbour? --> Exit
//!                   |         |                        |          |           |
//!                   v         v                        v          v           v
//!                 no-route  expired                not a port   too big     unknown: wait
//! ```
//!
//! Source: RFC 1812, section 5.2 (the order of the steps), RFC 8200, section 3, RFC 2992 (a flow
//! stays on one path).
//!
//! Deviation: no ICMP redirect is sent (RFC 1812, section 5.2.7.2, permits that): a router in
//! front of a paced link has no business in rearranging its own segment's paths.

use std::net::IpAddr;

use weir_packet::Reason;

use crate::icmp_error::IcmpCause;
use crate::parse::Headers;
use crate::tables::{Action, Interface, Mac, Neighbour, NextHop, Tables};

/// Where a packet comes from, as far as forwarding cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From another machine: its TTL counts.
    Transit,
    /// From this router itself (an ICMP error).
    Router,
}

/// What forwarding has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it this way.
    Send(Exit),
    /// Send it this way, in fragments of at most `mtu` bytes of IP packet.
    Fragment(Exit, u32),
    /// It could go if this neighbour's MAC address were known.
    Wait(Neighbourhood),
    /// This neighbour did not answer. Its sender is told, and the neighbour is asked again.
    Failed(Neighbourhood),
    /// It ends, and perhaps its sender is told.
    End(Reason, Option<IcmpCause>),
}

/// A neighbour by interface and address.
pub type Neighbourhood = (u32, IpAddr);

/// The way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Kernel index of the interface.
    pub interface: u32,
    /// Its MAC address.
    pub source: Mac,
    /// The neighbour's MAC address.
    pub destination: Mac,
}

/// Decides where a packet with these headers goes.
pub fn forward(tables: &Tables, headers: &Headers, flow_hash: u64, origin: Origin) -> Verdict {
    let Some((_, route)) = tables.route(headers.destination) else {
        return Verdict::End(Reason::NoRoute, Some(IcmpCause::NetUnreachable));
    };
    let next_hops = match &route.action {
        Action::Forward(next_hops) => next_hops,
        Action::Local => return Verdict::End(Reason::LocalDelivery, None),
        Action::Blackhole => return Verdict::End(Reason::RouteBlackhole, None),
        Action::Unreachable => {
            return Verdict::End(Reason::RouteUnreachable, Some(IcmpCause::HostUnreachable));
        }
        Action::Prohibit => {
            return Verdict::End(Reason::RouteProhibit, Some(IcmpCause::Prohibited));
        }
    };
    if origin == Origin::Transit && headers.ttl <= 1 {
        return Verdict::End(Reason::TtlExpired, Some(IcmpCause::TtlExpired));
    }
    let Some(hop) = Action::choose(next_hops, flow_hash) else {
        return Verdict::End(Reason::NoRoute, Some(IcmpCause::NetUnreachable));
    };
    match tables.interfaces.get(&hop.interface) {
        None => Verdict::End(Reason::NotAPort, Some(IcmpCause::NetUnreachable)),
        Some(interface) if !interface.up => {
            Verdict::End(Reason::DeviceDown, Some(IcmpCause::HostUnreachable))
        }
        Some(interface) => through(tables, headers, hop, interface),
    }
}

/// The last two steps: does it fit the interface, and is the neighbour known?
fn through(tables: &Tables, headers: &Headers, hop: &NextHop, interface: &Interface) -> Verdict {
    let mtu = interface.mtu;
    let fits = headers.total_len <= mtu;
    if !fits && headers.dont_fragment {
        return Verdict::End(Reason::TooBig, Some(IcmpCause::TooBig { mtu }));
    }
    let address = hop.gateway.unwrap_or(headers.destination);
    let neighbourhood = (hop.interface, address);
    let destination = match tables.neighbours.get(&neighbourhood) {
        Some(Neighbour::Reachable(mac)) => *mac,
        Some(Neighbour::Failed) => return Verdict::Failed(neighbourhood),
        None => return Verdict::Wait(neighbourhood),
    };
    let exit = Exit {
        interface: hop.interface,
        source: interface.mac,
        destination,
    };
    if fits {
        Verdict::Send(exit)
    } else {
        Verdict::Fragment(exit, mtu)
    }
}
