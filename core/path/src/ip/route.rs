//! A route: the action for packets to a prefix.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::weighted;

/// The scope of an address or a route that is valid everywhere.
pub const SCOPE_GLOBAL: u8 = 0;
/// The scope of an address or a route that is valid on its link.
pub const SCOPE_LINK: u8 = 253;

/// A route: the action for packets to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The action.
    pub action: Action,
    /// The kernel's priority; of two routes for one prefix, the one with the lower metric counts.
    pub metric: u32,
    /// The longest packet that may take the route, in bytes, if the route has its own limit.
    pub mtu: Option<u32>,
    /// The source address of the router's own packets that take the route.
    pub source: Option<IpAddr>,
    /// The largest scope that such a source may have, if the route names no source (IPv4).
    pub scope: u8,
    /// Who installed the route (`rtm_protocol` of linux/rtnetlink.h); it decides nothing.
    pub protocol: u8,
    /// The next-hop object that decides the action, so that [`Tables::change_object`](super::tables::Tables::change_object)
    /// finds its routes.
    pub object: Option<ObjectKey>,
}

/// A route that has changed in place, for all of its prefixes, because its next-hop object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRoute {
    /// The old route.
    pub before: Arc<Route>,
    /// The new route.
    pub after: Arc<Route>,
    /// Number of prefixes with this route.
    pub prefixes: usize,
}

/// Identifies a next-hop object: in which of several sets, and its number there.
pub type ObjectKey = (u32, u32);

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Forwards the packet to one of these next hops, chosen by flow hash in proportion to their weights.
    Forward(Vec<NextHop>),
    /// Leaves the packet to the kernel: the destination is an address of this machine or a broadcast address.
    Local,
    /// Drops the packet silently.
    Blackhole,
    /// Drops the packet and reports "unreachable" to the sender.
    Unreachable,
    /// Drops the packet and reports "administratively prohibited" to the sender.
    Prohibit,
    /// Acts as if there were no route, even if a shorter prefix has one.
    Throw,
    /// The addresses are reserved, and no route is at least as specific as the reserved block.
    Reserved,
    /// The longest of these networks that contains the packet's source decides. If none contains it, a shorter prefix
    /// decides.
    BySource(Vec<(IpNet, Route)>),
}

/// An interface, and optionally the router to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// Kernel index of the egress interface.
    pub interface: u32,
    /// The router to send to; `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Share among the route's next hops, at least 1.
    pub weight: u32,
}

impl From<Action> for Route {
    fn from(action: Action) -> Self {
        Self {
            action,
            metric: 0,
            mtu: None,
            source: None,
            scope: SCOPE_GLOBAL,
            protocol: 0,
            object: None,
        }
    }
}

impl Route {
    /// Whether the two routes differ at most in their objects.
    pub fn acts_like(&self, other: &Self) -> bool {
        let Self {
            action,
            metric,
            mtu,
            source,
            scope,
            protocol,
            object: _,
        } = self;
        (action, metric, mtu, source) == (&other.action, &other.metric, &other.mtu, &other.source)
            && (scope, protocol) == (&other.scope, &other.protocol)
    }

    /// The route after its object, or the objects of its sources, have got these actions; `None` if it stays the same.
    pub(crate) fn after(&self, of_object: impl Fn(ObjectKey) -> Option<Action>) -> Option<Self> {
        let own = |route: &Self| {
            let action = of_object(route.object?)?;
            (action != route.action).then(|| Self {
                action,
                ..route.clone()
            })
        };
        let Action::BySource(routes) = &self.action else {
            return own(self);
        };
        let after: Vec<_> = routes.iter().map(|(_, route)| own(route)).collect();
        if after.iter().all(Option::is_none) {
            return None;
        }
        let routes = routes.iter().zip(after);
        let routes = routes.map(|((net, before), after)| {
            let route = after.unwrap_or_else(|| before.clone());
            (*net, route)
        });
        Some(Self {
            action: Action::BySource(routes.collect()),
            ..self.clone()
        })
    }
}

impl Action {
    /// Every next hop, for any source.
    pub fn next_hops(&self) -> impl Iterator<Item = &NextHop> {
        let (own, by_source) = match self {
            Self::Forward(next_hops) => (next_hops.as_slice(), &[][..]),
            Self::BySource(routes) => (&[][..], routes.as_slice()),
            _ => (&[][..], &[][..]),
        };
        let of_sources = by_source
            .iter()
            .filter_map(|(_, route)| match &route.action {
                Self::Forward(next_hops) => Some(next_hops),
                _ => None,
            });
        own.iter().chain(of_sources.flatten())
    }

    /// The next hop for a flow, chosen by weight, and the same for all packets with this hash.
    pub fn choose(next_hops: &[NextHop], flow_hash: u64) -> Option<&NextHop> {
        if let [only] = next_hops {
            return Some(only);
        }
        let weights = next_hops.iter().map(|next_hop| next_hop.weight);
        next_hops.get(weighted::choose(flow_hash, weights)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(interface: u32, weight: u32) -> NextHop {
        NextHop {
            interface,
            gateway: None,
            weight,
        }
    }

    #[test]
    fn flows_spread_over_next_hops_by_weight() {
        let hops = [via(1, 1), via(2, 3)];
        let step = u64::MAX / 1000 + 1;
        let first = (0..1000)
            .filter(|n| {
                Action::choose(&hops, (n * step).rotate_left(32))
                    .unwrap()
                    .interface
                    == 1
            })
            .count();
        assert_eq!(first, 250);
        assert_eq!(Action::choose(&hops, u64::MAX).unwrap().interface, 2);
        assert!(Action::choose(&[], 5).is_none());
    }
}
