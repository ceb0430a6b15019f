//! The interfaces, routes and neighbours that forwarding looks up.
//!
//! The tables are a plain value: a habitat builds it (live: from the kernel, through netlink) and
//! publishes it as a whole, and the forwarding thread reads one consistent snapshot for each burst.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

pub use weir_wire::ethernet::Mac;

use crate::ip::source_check::SourceCheck;

/// A neighbour by interface (kernel index) and address.
pub type NeighbourKey = (u32, IpAddr);

/// One consistent state of everything that forwarding looks up.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Interfaces by kernel index.
    pub interfaces: BTreeMap<u32, Interface>,
    /// Neighbours.
    pub neighbours: HashMap<NeighbourKey, Neighbour>,
    /// How the kernel checks the sources of IPv4 packets, by interface (`rp_filter`); off if absent.
    pub source_checks: BTreeMap<u32, SourceCheck>,
    // Shared between snapshots: a change of a neighbour copies no routes.
    v4: Arc<PrefixMap<Ipv4Net, Route>>,
    v6: Arc<PrefixMap<Ipv6Net, Route>>,
    /// The number of next hops at each gateway, so that listing the gateways needs no walk over the routes.
    gateways: Arc<BTreeMap<NeighbourKey, u32>>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: Mac,
    /// The longest layer-3 packet it carries, in bytes.
    pub mtu: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether its link works: a cable with a working device at the other end. Forwarding does not check this,
    /// because the kernel reports it up to a second late; without carrier the device itself drops frames.
    pub carrier: bool,
    /// Its addresses with their networks.
    pub addresses: Vec<IpNet>,
}

/// A route: the action for packets to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The action.
    pub action: Action,
    /// The kernel's priority; of two routes for one prefix, the one with the lower metric counts.
    pub metric: u32,
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Forwards it to one of these, chosen by flow hash in proportion to their weights.
    Forward(Vec<NextHop>),
    /// Leaves it to the kernel: the destination is an address of this machine or a broadcast address.
    Local,
    /// Drops it silently.
    Blackhole,
    /// Drops it and reports "unreachable" to the sender.
    Unreachable,
    /// Drops it and reports "administratively prohibited" to the sender.
    Prohibit,
}

/// An interface, and optionally the router to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Kernel index of the egress interface.
    pub interface: u32,
    /// The router to send to; none if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Share among the route's next hops, at least 1.
    pub weight: u32,
}

/// A neighbour's MAC address, or that it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// The kernel has learnt this MAC address.
    Reachable(Mac),
    /// The operator has configured this MAC address, so it is never resolved.
    Permanent(Mac),
    /// A request for its MAC address was not answered.
    Failed,
}

impl Tables {
    /// Adds a route, or replaces the one with its prefix.
    pub fn set_route(&mut self, prefix: IpNet, route: Route) {
        for gateway in route.gateways() {
            *Arc::make_mut(&mut self.gateways)
                .entry(gateway)
                .or_default() += 1;
        }
        let replaced = match prefix {
            IpNet::V4(p) => Arc::make_mut(&mut self.v4).insert(p.trunc(), route),
            IpNet::V6(p) => Arc::make_mut(&mut self.v6).insert(p.trunc(), route),
        };
        self.forget_gateways(replaced);
    }

    /// Removes the route for a prefix.
    pub fn remove_route(&mut self, prefix: IpNet) {
        let removed = match prefix {
            IpNet::V4(p) => Arc::make_mut(&mut self.v4).remove(&p.trunc()),
            IpNet::V6(p) => Arc::make_mut(&mut self.v6).remove(&p.trunc()),
        };
        self.forget_gateways(removed);
    }

    fn forget_gateways(&mut self, of: Option<Route>) {
        for gateway in of.iter().flat_map(Route::gateways) {
            let routes = Arc::make_mut(&mut self.gateways);
            if let Some(count) = routes.get_mut(&gateway) {
                *count -= 1;
                if *count == 0 {
                    routes.remove(&gateway);
                }
            }
        }
    }

    /// The route with the longest prefix that covers `destination`.
    pub fn route(&self, destination: IpAddr) -> Option<(IpNet, &Route)> {
        match destination {
            IpAddr::V4(a) => {
                let (prefix, route) = self.v4.get_lpm(&host_v4(a))?;
                Some((IpNet::V4(prefix), route))
            }
            IpAddr::V6(a) => {
                let (prefix, route) = self.v6.get_lpm(&host_v6(a))?;
                Some((IpNet::V6(prefix), route))
            }
        }
    }

    /// All routes, IPv4 first, each family by prefix.
    pub fn routes(&self) -> impl Iterator<Item = (IpNet, &Route)> {
        let v4 = self.v4.iter().map(|(p, r)| (IpNet::V4(p), r));
        let v6 = self.v6.iter().map(|(p, r)| (IpNet::V6(p), r));
        v4.chain(v6)
    }

    /// All gateways, each once.
    pub fn gateways(&self) -> impl Iterator<Item = NeighbourKey> {
        self.gateways.keys().copied()
    }

    /// Whether a route uses this gateway.
    pub fn is_gateway(&self, neighbour: NeighbourKey) -> bool {
        self.gateways.contains_key(&neighbour)
    }

    /// Number of routes.
    pub fn route_count(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

impl Neighbour {
    /// Its MAC address, if it has one.
    #[inline]
    pub fn mac(self) -> Option<Mac> {
        match self {
            Self::Reachable(mac) | Self::Permanent(mac) => Some(mac),
            Self::Failed => None,
        }
    }
}

impl Route {
    /// Each next hop that is a gateway.
    fn gateways(&self) -> impl Iterator<Item = NeighbourKey> {
        let next_hops = match &self.action {
            Action::Forward(next_hops) => next_hops.as_slice(),
            _ => &[],
        };
        let gateway = |hop: &NextHop| Some((hop.interface, hop.gateway?));
        next_hops.iter().filter_map(gateway)
    }
}

impl Interface {
    /// The source address for an ICMP error of this family: the interface's first address, a global one
    /// before a link-local one.
    pub fn address_for(&self, family_of: IpAddr) -> Option<IpAddr> {
        let mut addresses = self
            .addresses
            .iter()
            .map(IpNet::addr)
            .filter(|a| a.is_ipv4() == family_of.is_ipv4());
        let link_local = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
        addresses
            .clone()
            .find(|a| !link_local(a))
            .or_else(|| addresses.next())
    }
}

fn host_v4(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::from(address)
}

fn host_v6(address: Ipv6Addr) -> Ipv6Net {
    Ipv6Net::from(address)
}

impl Action {
    /// The next hop for a flow, chosen by weight, and the same for all packets with this hash.
    pub fn choose(next_hops: &[NextHop], flow_hash: u64) -> Option<&NextHop> {
        if let [only] = next_hops {
            return Some(only);
        }
        let total: u64 = next_hops.iter().map(|n| u64::from(n.weight)).sum();
        // The high half of a product spreads the hash over 0..total without a division. The halves are swapped
        // because the queues' bins also use the high bits: flows that share a next hop must not be confined to
        // a few bins.
        let spread = flow_hash.rotate_left(32);
        let mut point = ((u128::from(spread) * u128::from(total)) >> 64) as u64;
        next_hops.iter().find(|n| {
            let weight = u64::from(n.weight);
            let found = point < weight;
            point = point.saturating_sub(weight);
            found
        })
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

    fn forward(interface: u32) -> Route {
        Route {
            action: Action::Forward(vec![via(interface, 1)]),
            metric: 0,
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut tables = Tables::default();
        tables.set_route("0.0.0.0/0".parse().unwrap(), forward(1));
        tables.set_route("10.0.0.0/8".parse().unwrap(), forward(2));
        tables.set_route("10.1.0.0/16".parse().unwrap(), forward(3));
        tables.set_route("::/0".parse().unwrap(), forward(4));
        let found = |a: &str| tables.route(a.parse().unwrap()).unwrap().1.clone();
        assert_eq!(found("192.0.2.1"), forward(1));
        assert_eq!(found("10.2.0.1"), forward(2));
        assert_eq!(found("10.1.0.1"), forward(3));
        assert_eq!(found("2001:db8::1"), forward(4));
        tables.remove_route("10.1.0.0/16".parse().unwrap());
        let found = tables.route("10.1.0.1".parse().unwrap()).unwrap();
        assert_eq!(found.0.to_string(), "10.0.0.0/8");
    }

    #[test]
    fn gateways_are_those_of_the_routes_that_are_there() {
        let to = |gateways: &[&str]| {
            let hop = |gateway: &&str| NextHop {
                gateway: Some(gateway.parse().unwrap()),
                ..via(1, 1)
            };
            let action = Action::Forward(gateways.iter().map(hop).collect());
            Route { action, metric: 0 }
        };
        let mut tables = Tables::default();
        for (prefix, route, expected) in [
            ("10.0.0.0/8", Some(forward(1)), vec![]),
            ("10.1.0.0/16", Some(to(&["10.0.0.1"])), vec!["10.0.0.1"]),
            (
                "10.2.0.0/16",
                Some(to(&["10.0.0.1", "10.0.0.2", "10.0.0.2"])),
                vec!["10.0.0.1", "10.0.0.2"],
            ),
            ("10.1.0.0/16", None, vec!["10.0.0.1", "10.0.0.2"]),
            ("10.1.0.0/16", None, vec!["10.0.0.1", "10.0.0.2"]),
            ("10.2.0.0/16", Some(to(&["10.0.0.2"])), vec!["10.0.0.2"]),
            (
                "2001:db8::/32",
                Some(to(&["fe80::1"])),
                vec!["10.0.0.2", "fe80::1"],
            ),
            ("10.2.0.0/16", Some(forward(1)), vec!["fe80::1"]),
            ("2001:db8::/32", None, vec![]),
        ] {
            let prefix = prefix.parse().unwrap();
            match route {
                Some(route) => tables.set_route(prefix, route),
                None => tables.remove_route(prefix),
            }
            let expected: Vec<_> = expected.iter().map(|a| (1, a.parse().unwrap())).collect();
            assert_eq!(tables.gateways().collect::<Vec<_>>(), expected, "{prefix}");
            assert!(expected.iter().all(|gateway| tables.is_gateway(*gateway)));
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
