//! The interfaces, routes and neighbours that forwarding looks up.
//!
//! The tables are a plain value: a habitat builds it (live: from the kernel, through netlink) and
//! publishes it as a whole, and the forwarding thread reads one consistent snapshot for each burst.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

pub use weir_wire::ethernet::Mac;

pub use crate::ip::lookup::BURST;
use crate::ip::lookup::numbers::Numbers;
use crate::ip::lookup::{Batch, Lookup4, Lookup6, Sorted};
use crate::ip::source_check::SourceCheck;
use crate::weighted;

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
    // Shared between snapshots: a change copies only the parts that it touches.
    v4: Lookup4,
    v6: Lookup6,
    routes: Numbers,
    /// The number of distinct routes at each gateway, so that listing the gateways needs no walk over the routes.
    gateways: Sorted<NeighbourKey, u32>,
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The action.
    pub action: Action,
    /// The kernel's priority; of two routes for one prefix, the one with the lower metric counts.
    pub metric: u32,
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        let taken = self.routes.take(route);
        for gateway in taken.first.iter().flat_map(|route| route.gateways()) {
            let routes = self.gateways.get(&gateway).copied().unwrap_or(0);
            self.gateways.insert(gateway, routes + 1);
        }
        let replaced = match prefix {
            IpNet::V4(p) => self.v4.insert(Lookup4::prefix(p), taken.number),
            IpNet::V6(p) => self.v6.insert(Lookup6::prefix(p), taken.number),
        };
        self.forget(replaced);
    }

    /// Removes the route for a prefix.
    pub fn remove_route(&mut self, prefix: IpNet) {
        let removed = match prefix {
            IpNet::V4(p) => self.v4.remove(Lookup4::prefix(p)),
            IpNet::V6(p) => self.v6.remove(Lookup6::prefix(p)),
        };
        self.forget(removed);
    }

    /// A prefix no longer has the route with this number.
    fn forget(&mut self, number: Option<u32>) {
        let Some(route) = number.and_then(|number| self.routes.give_back(number)) else {
            return;
        };
        for gateway in route.gateways() {
            match self.gateways.get(&gateway) {
                Some(routes) if *routes > 1 => {
                    let routes = routes - 1;
                    self.gateways.insert(gateway, routes);
                }
                _ => drop(self.gateways.remove(&gateway)),
            }
        }
    }

    /// The next hops of the route to `destination`; none if packets to it are not forwarded.
    pub fn next_hops(&self, destination: IpAddr) -> &[NextHop] {
        match self.route(destination).map(|(_, route)| &route.action) {
            Some(Action::Forward(next_hops)) => next_hops,
            _ => &[],
        }
    }

    /// The route with the longest prefix that covers `destination`.
    pub fn route(&self, destination: IpAddr) -> Option<(IpNet, &Route)> {
        let (prefix, number) = match destination {
            IpAddr::V4(a) => {
                let (prefix, number) = self.v4.find(a.to_bits())?;
                (Lookup4::net(prefix)?.into(), number)
            }
            IpAddr::V6(a) => {
                let (prefix, number) = self.v6.find(a.to_bits())?;
                (Lookup6::net(prefix)?.into(), number)
            }
        };
        Some((prefix, self.routes.get(number)?))
    }

    /// The number of the route to a destination; zero if there is none.
    #[inline]
    pub fn route_number(&self, destination: IpAddr) -> u32 {
        let found = match destination {
            IpAddr::V4(a) => self.v4.find(a.to_bits()).map(|(_, number)| number),
            IpAddr::V6(a) => self.v6.find(a.to_bits()).map(|(_, number)| number),
        };
        found.unwrap_or(0)
    }

    /// The numbers of the routes to at most [`BURST`] destinations, in their order; zero where there is none.
    #[inline]
    pub fn route_numbers(&self, destinations: impl Iterator<Item = IpAddr>) -> [u32; BURST] {
        let mut numbers = [0; BURST];
        let (mut v4, mut v4_places) = (Batch::new(), Batch::new());
        let (mut v6, mut v6_places) = (Batch::new(), Batch::new());
        for (place, destination) in destinations.enumerate().take(BURST) {
            match destination {
                IpAddr::V4(a) => {
                    v4.push(a.to_bits());
                    v4_places.push(place);
                }
                IpAddr::V6(a) => {
                    v6.push(a.to_bits());
                    v6_places.push(place);
                }
            }
        }
        let mut found = [0; BURST];
        self.v4.find_all(v4.get(), &mut found);
        for (place, number) in v4_places.get().iter().zip(found) {
            numbers[*place] = number;
        }
        self.v6.find_all(v6.get(), &mut found);
        for (place, number) in v6_places.get().iter().zip(found) {
            numbers[*place] = number;
        }
        numbers
    }

    /// The route with a number.
    #[inline]
    pub fn numbered(&self, number: u32) -> Option<&Route> {
        self.routes.get(number)
    }

    /// All routes, IPv4 first, each family by prefix.
    pub fn routes(&self) -> impl Iterator<Item = (IpNet, &Route)> {
        let net = |(p, n)| Some((IpNet::V4(Lookup4::net(p)?), n));
        let v4 = self.v4.iter().filter_map(net);
        let net = |(p, n)| Some((IpNet::V6(Lookup6::net(p)?), n));
        let v6 = self.v6.iter().filter_map(net);
        let route = |(prefix, number)| Some((prefix, self.routes.get(number)?));
        v4.chain(v6).filter_map(route)
    }

    /// All gateways, each once.
    pub fn gateways(&self) -> impl Iterator<Item = NeighbourKey> {
        self.gateways.iter().map(|(gateway, _)| *gateway)
    }

    /// Whether a route uses this gateway.
    pub fn is_gateway(&self, neighbour: NeighbourKey) -> bool {
        self.gateways.get(&neighbour).is_some()
    }

    /// Bytes of the structures that packets' destinations are looked up in, IPv4 and IPv6.
    pub fn lookup_bytes(&self) -> [usize; 2] {
        [self.v4.bytes(), self.v6.bytes()]
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

impl Action {
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
