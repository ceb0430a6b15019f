//! Where a packet goes: longest prefix match, ECMP, neighbour, TTL and MTU.
//!
//! ```text
//!  Classified --> [ way known? ] --------------------------------------> TTL? --> MTU? --> Exit
//!                   | no                                             ^     |        |
//!                   +--> route? --> next hop --> interface? --> neighbour? |        |
//!                          |                         |               |     v        v
//!                        no-route               not a port   unknown: wait expired  too big
//! ```
//!
//! Source: RFC 1812, section 5.2 (the order of the steps), RFC 8200, section 3, RFC 2992 (a flow
//! stays on one path).
//!
//! Deviation: no ICMP redirect is sent (RFC 1812, section 5.2.7.2, permits that): a router in
//! front of a paced link has no business in rearranging its own segment's paths.

use std::net::IpAddr;

use weir_packet::Reason;

use crate::headers::Headers;
use crate::ip::icmp_error::IcmpCause;
use crate::ip::next_hop_cache::{Adjacency, NextHopCache};
use crate::ip::tables::{Action, Mac, Neighbour, NeighbourKey, NextHop, Tables};

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
    Wait(NeighbourKey),
    /// It ends, and perhaps its sender is told.
    End(Reason, Option<IcmpCause>),
}

/// Former name of [`NeighbourKey`](crate::ip::tables::NeighbourKey).
pub use crate::ip::tables::NeighbourKey as Neighbourhood;

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

/// Decides where a packet with these headers goes. `ways` belongs to `tables`: whoever changes the
/// tables clears it.
#[inline]
pub fn forward(
    tables: &Tables,
    ways: &mut NextHopCache,
    headers: &Headers,
    flow_hash: u64,
    origin: Origin,
) -> Verdict {
    let way = match ways.get(headers.destination) {
        Some(way) => Ok(way),
        None => find(tables, ways, headers.destination, flow_hash),
    };
    let expired = origin == Origin::Transit && headers.ttl <= 1;
    match way {
        Err(Verdict::Wait(_)) | Ok(_) if expired => {
            Verdict::End(Reason::TtlExpired, Some(IcmpCause::TtlExpired))
        }
        Err(verdict) => verdict,
        Ok(way) if headers.total_len <= way.mtu => Verdict::Send(way.exit),
        Ok(Adjacency { mtu, .. }) if headers.dont_fragment => {
            Verdict::End(Reason::TooBig, Some(IcmpCause::TooBig { mtu }))
        }
        Ok(Adjacency { exit, mtu }) => Verdict::Fragment(exit, mtu),
    }
}

/// Looks the way out up in the tables, and remembers it if the destination alone decides.
fn find(
    tables: &Tables,
    ways: &mut NextHopCache,
    destination: IpAddr,
    flow_hash: u64,
) -> Result<Adjacency, Verdict> {
    let unreachable = |reason, cause| Err(Verdict::End(reason, Some(cause)));
    let route = tables.route(destination).map(|(_, route)| &route.action);
    let hop = next_hop(route, flow_hash)?;
    let interface = match tables.interfaces.get(&hop.interface) {
        None => return unreachable(Reason::NotAPort, IcmpCause::NetUnreachable),
        Some(interface) if !interface.up => {
            return unreachable(Reason::DeviceDown, IcmpCause::HostUnreachable);
        }
        Some(interface) => interface,
    };
    let key = (hop.interface, hop.gateway.unwrap_or(destination));
    let neighbour = match tables.neighbours.get(&key) {
        Some(Neighbour::Reachable(mac) | Neighbour::Permanent(mac)) => *mac,
        Some(Neighbour::Failed) | None => return Err(Verdict::Wait(key)),
    };
    let way = Adjacency {
        exit: Exit {
            interface: hop.interface,
            source: interface.mac,
            destination: neighbour,
        },
        mtu: interface.mtu,
    };
    if matches!(route, Some(Action::Forward(next_hops)) if next_hops.len() == 1) {
        ways.set(destination, way, key);
    }
    Ok(way)
}

/// The next hop by which a route forwards a flow, or why it does not; `None` where no route leads to the
/// destination. A flow takes one of several next hops by its hash, so it stays on one path.
#[inline]
pub fn next_hop(route: Option<&Action>, flow_hash: u64) -> Result<&NextHop, Verdict> {
    let end = |reason, cause| Err(Verdict::End(reason, cause));
    match route {
        Some(Action::Forward(next_hops)) => match Action::choose(next_hops, flow_hash) {
            Some(next_hop) => Ok(next_hop),
            None => end(Reason::NoRoute, Some(IcmpCause::NetUnreachable)),
        },
        None => end(Reason::NoRoute, Some(IcmpCause::NetUnreachable)),
        Some(Action::Local) => end(Reason::LocalDelivery, None),
        Some(Action::Blackhole) => end(Reason::RouteBlackhole, None),
        Some(Action::Unreachable) => {
            end(Reason::RouteUnreachable, Some(IcmpCause::HostUnreachable))
        }
        Some(Action::Prohibit) => end(Reason::RouteProhibit, Some(IcmpCause::Prohibited)),
    }
}
