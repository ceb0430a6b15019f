//! The forwarding decision for an IP packet: longest prefix match, ECMP, neighbour, TTL and MTU.
//!
//! ```text
//!  destination --> route's number --> [ next hop cached? ] ----------------> TTL? --> MTU? --> Departure
//!                                       | no                                ^     |        |
//!                                       +--> interface? --> neighbour? -----+     |        |
//!                                             |              |                    v        v
//!                                           not a port     unknown: wait       expired   too big
//! ```
//!
//! The route's number is an argument, so that a caller with many packets can look up all their routes at once
//! ([`Tables::route_numbers`]).
//!
//! Source: RFC 1812, section 5.2 (the order of the steps), RFC 8200, section 3, RFC 2992 (a flow
//! stays on one path).
//!
//! The decision reads headers, not frames, and changes nothing. The simulator's routers, which have no frames, also
//! choose their next hops with [`next_hop`].
//!
//! Deviation: the router sends no ICMP redirects (RFC 1812, section 5.2.7.2, permits that): a router in front of a
//! paced link should not rearrange the paths in its own segment.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_packet::Reason;
use weir_packet::key::Family;

use crate::egress::{Departure, Exit, Rewrites};
use crate::headers::Headers;
use crate::ip::icmp_cause::IcmpCause;
use crate::ip::next_hop_cache::{Adjacency, NextHopCache};
use crate::ip::tables::{Action, Neighbour, NeighbourKey, NextHop, Tables};

/// The origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Another machine: the router checks and decrements the TTL.
    Transit,
    /// A process of this machine, behind its own port. The kernel does not decrement the TTL, and neither do we.
    Process,
    /// This router itself (an ICMP error, the outer packet of a tunnel).
    Router,
    /// The control element of this router.
    ControlElement,
}

impl Origin {
    /// Whether the packet arrived through a port, from a sender that did not choose its path: an encapsulation may
    /// choose the path, and an ICMP error may answer the packet.
    pub fn is_received(self) -> bool {
        matches!(self, Self::Transit | Self::Process)
    }
}

/// The verdict about a packet: how it is sent, or why it is not.
pub type Verdict = Result<Departure, Stop>;

/// Why a packet is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The packet waits for this neighbour's MAC address.
    Wait(NeighbourKey),
    /// The packet is dropped, and its sender may get an ICMP error.
    Drop(Reason, Option<IcmpCause>),
}

/// Decides about a packet with these headers. `route` is the number of the route to its destination; zero if there is
/// none. `cache` belongs to `tables`: the caller must clear it when they change. `delegated` holds the addresses of a
/// control element at this router.
#[inline]
pub fn forward(
    tables: &Tables,
    delegated: &BTreeSet<IpAddr>,
    cache: &mut NextHopCache,
    route: u32,
    headers: &Headers,
    flow_hash: impl FnOnce() -> u64,
    origin: Origin,
) -> Verdict {
    let is_delegated = !delegated.is_empty() && delegated.contains(&headers.destination());
    if is_delegated {
        return Err(Stop::Drop(Reason::LocalDelivery, None));
    }
    let expired = origin == Origin::Transit && headers.ttl <= 1;
    // By far the most packets take this branch. The next hop is copied only into the rewrites.
    if !expired && let Some(next_hop) = cache.of_route(route) {
        return depart(next_hop, headers, origin);
    }
    match find(tables, cache, route, headers, flow_hash()) {
        Err(Stop::Wait(_)) | Ok(_) if expired => {
            Err(Stop::Drop(Reason::TtlExpired, Some(IcmpCause::TtlExpired)))
        }
        Err(stop) => Err(stop),
        Ok(next_hop) => depart(&next_hop, headers, origin),
    }
}

/// How a packet leaves to a next hop, or that it is too big.
#[inline(always)]
fn depart(next_hop: &Adjacency, headers: &Headers, origin: Origin) -> Verdict {
    let mtu = next_hop.mtus[usize::from(headers.family == Family::V6)];
    if headers.total_len > mtu && headers.dont_fragment {
        return Err(Stop::Drop(Reason::TooBig, Some(IcmpCause::TooBig { mtu })));
    }
    Ok(Departure {
        rewrites: Rewrites {
            decrement_hops: origin == Origin::Transit,
            fragment: (headers.total_len > mtu).then_some(mtu),
            macs: Some(next_hop.macs),
            push_tag: None,
        },
        exit: Exit::Interface(next_hop.interface),
    })
}

/// Looks up the next hop in the tables, and caches it unless it depends on the flow.
fn find(
    tables: &Tables,
    cache: &mut NextHopCache,
    number: u32,
    headers: &Headers,
    flow_hash: u64,
) -> Result<Adjacency, Stop> {
    let destination = headers.destination();
    let unreachable = |reason, cause| Err(Stop::Drop(reason, Some(cause)));
    let mut route = tables.numbered(number);
    let by_source = matches!(route.map(|route| &route.action), Some(Action::BySource(_)));
    if by_source {
        route = tables.route_from(destination, headers.source());
    }
    let action = route.map(|route| &route.action);
    let hop = next_hop(action, flow_hash)?;
    let is_only =
        !by_source && matches!(action, Some(Action::Forward(next_hops)) if next_hops.len() == 1);
    if is_only
        && hop.gateway.is_none()
        && let Some(next_hop) = cache.of_destination(destination)
        && next_hop.interface == hop.interface
    {
        return Ok(next_hop);
    }
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
        Some(Neighbour::Failed) | None => return Err(Stop::Wait(key)),
    };
    let mtus = route.and_then(|route| tables.mtus(route, hop.interface));
    let adjacency = Adjacency {
        interface: hop.interface,
        macs: [neighbour, interface.mac],
        mtus: mtus.unwrap_or([interface.mtu; 2]),
    };
    match hop.gateway {
        _ if !is_only => {}
        Some(_) => cache.set_route(number, adjacency, key),
        None => cache.set_destination(adjacency, key),
    }
    Ok(adjacency)
}

/// The next hop to which a route forwards a flow, or why it does not; `None` if no route leads to the
/// destination. Among several next hops, the flow's hash decides, so a flow stays on one path.
#[inline]
pub fn next_hop(route: Option<&Action>, flow_hash: u64) -> Result<&NextHop, Stop> {
    let drop = |reason, cause| Err(Stop::Drop(reason, cause));
    match route {
        Some(Action::Forward(next_hops)) => match Action::choose(next_hops, flow_hash) {
            Some(next_hop) => Ok(next_hop),
            None => drop(Reason::NoRoute, Some(IcmpCause::NetUnreachable)),
        },
        None | Some(Action::Throw | Action::BySource(_)) => {
            drop(Reason::NoRoute, Some(IcmpCause::NetUnreachable))
        }
        Some(Action::Reserved) => drop(Reason::MartianDestination, Some(IcmpCause::NetUnreachable)),
        Some(Action::Local) => drop(Reason::LocalDelivery, None),
        Some(Action::Blackhole) => drop(Reason::RouteBlackhole, None),
        Some(Action::Unreachable) => {
            drop(Reason::RouteUnreachable, Some(IcmpCause::RouteUnreachable))
        }
        Some(Action::Prohibit) => drop(Reason::RouteProhibit, Some(IcmpCause::Prohibited)),
    }
}
