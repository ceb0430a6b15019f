//! The interfaces, routes and neighbours that forwarding looks up.
//!
//! The tables are a plain value: a habitat builds it (live: from the kernel, through netlink) and
//! publishes it as a whole, and the forwarding thread reads one consistent snapshot for each burst.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

pub use weir_wire::ethernet::Mac;

pub use crate::ip::lookup::BURST;
use crate::ip::lookup::numbers::Numbers;
use crate::ip::lookup::{Batch, Lookup4, Lookup6, Sorted};
pub use crate::ip::route::{
    Action, MovedRoute, NextHop, ObjectKey, Route, SCOPE_GLOBAL, SCOPE_LINK,
};

/// A neighbour by interface (kernel index) and address.
pub type NeighbourKey = (u32, IpAddr);

/// One consistent state of everything that forwarding looks up.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Interfaces by kernel index.
    pub interfaces: BTreeMap<u32, Interface>,
    /// Neighbours.
    pub neighbours: HashMap<NeighbourKey, Neighbour>,
    /// The kernel's settings of interfaces; [`Settings::default`] if absent.
    pub settings: BTreeMap<u32, Settings>,
    /// Whether ICMP errors have an address of the interface at which the offending packet arrived, whatever the route
    /// back (`net.ipv4.icmp_errors_use_inbound_ifaddr`).
    pub errors_from_ingress: bool,
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
    /// Name of the interface.
    pub name: String,
    /// MAC address of the interface.
    pub mac: Mac,
    /// The longest layer-3 packet that the interface carries, in bytes.
    pub mtu: u32,
    /// Whether the interface is administratively up.
    pub up: bool,
    /// Whether the link works: a cable with a working device at the other end. Forwarding does not check this, because
    /// the kernel reports it up to a second late; without carrier the device itself drops frames.
    pub carrier: bool,
    /// Addresses of the interface, in the kernel's order.
    pub addresses: Vec<Address>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address with its network.
    pub net: IpNet,
    /// The other end of a point-to-point link, to which the network belongs instead.
    pub peer: Option<IpAddr>,
    /// Scope in which the address is valid; a smaller value reaches farther ([`SCOPE_GLOBAL`]).
    pub scope: u8,
    /// How the address may be used as a source.
    pub flags: AddressFlags,
}

/// How an address may be used as a source. Most addresses have none of these flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressFlags {
    /// An IPv4 address within the network of an earlier one.
    pub secondary: bool,
    /// Duplicate address detection has not ended.
    pub tentative: bool,
    /// The address should not begin new conversations: it is deprecated, or used before duplicate address detection has
    /// ended.
    pub avoided: bool,
    /// A temporary address (RFC 8981).
    pub temporary: bool,
}

/// Address blocks that a default route, or any other route shorter than the block, does not cover: "this network" (RFC
/// 791), the former class E (RFC 1112), link-local addresses (RFC 3927) and IPv4-mapped ones (RFC 4291).
const RESERVED: [IpNet; 4] = [
    v4_block(Ipv4Addr::new(0, 0, 0, 0), 8),
    v4_block(Ipv4Addr::new(240, 0, 0, 0), 4),
    v4_block(Ipv4Addr::new(169, 254, 0, 0), 16),
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
        96,
    )),
];

const fn v4_block(address: Ipv4Addr, len: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(address, len))
}

/// The kernel's settings of an interface that affect forwarding (`net.ipv4.conf`, `net.ipv6.conf`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How the sources of IPv4 packets are checked (`rp_filter`).
    pub source_check: SourceCheck,
    /// Whether IPv4 packets that arrive at the interface are forwarded.
    pub forwards_v4: bool,
    /// Whether IPv6 packets that arrive at the interface are forwarded.
    pub forwards_v6: bool,
    /// Whether IPv6 packets that arrive at the interface are read at all.
    pub reads_v6: bool,
    /// The longest IPv6 packet that leaves through the interface, in bytes; the interface's MTU also applies.
    pub mtu_v6: u32,
    /// Whether IPv6 replies to packets at this interface use only addresses of this interface (`use_oif_addrs_only`).
    pub only_own_v6: bool,
}

/// The required relation between a packet's source and its ingress port (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceCheck {
    /// No check.
    #[default]
    Off,
    /// A route back must exist.
    Loose,
    /// The route back must lead out of this port.
    Strict,
}

/// A neighbour's MAC address, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// The kernel has learnt this MAC address.
    Reachable(Mac),
    /// The operator has configured this MAC address, so it is never resolved.
    Permanent(Mac),
    /// A request for its MAC address was not answered.
    Failed,
}

impl Default for Tables {
    fn default() -> Self {
        let mut tables = Self {
            interfaces: BTreeMap::new(),
            neighbours: HashMap::new(),
            settings: BTreeMap::new(),
            errors_from_ingress: false,
            v4: Lookup4::default(),
            v6: Lookup6::default(),
            routes: Numbers::default(),
            gateways: Sorted::default(),
        };
        for block in RESERVED {
            tables.set_route(block, Action::Reserved.into());
        }
        tables
    }
}

impl Tables {
    /// Adds a route, or replaces the route of the same prefix.
    pub fn set_route(&mut self, prefix: IpNet, route: Route) {
        let taken = self.routes.take(route);
        if let Some(route) = &taken.first {
            self.count_gateways(route);
        }
        let replaced = match prefix {
            IpNet::V4(p) => self.v4.insert(Lookup4::prefix(p), taken.number),
            IpNet::V6(p) => self.v6.insert(Lookup6::prefix(p), taken.number),
        };
        self.forget(replaced);
    }

    /// Removes the route for a prefix.
    pub fn remove_route(&mut self, prefix: IpNet) {
        if RESERVED.contains(&prefix) {
            return self.set_route(prefix, Action::Reserved.into());
        }
        let removed = match prefix {
            IpNet::V4(p) => self.v4.remove(Lookup4::prefix(p)),
            IpNet::V6(p) => self.v6.remove(Lookup6::prefix(p)),
        };
        self.forget(removed);
    }

    /// Gives the routes of next-hop objects new actions, however many prefixes have these routes. Returns the changed
    /// routes.
    pub fn change_object(
        &mut self,
        of_object: impl Fn(ObjectKey) -> Option<Action>,
    ) -> Vec<MovedRoute> {
        let changed = self.routes.change(|route| route.after(&of_object));
        for moved in &changed {
            self.count_gateways(&moved.after);
            self.uncount_gateways(&moved.before);
        }
        changed
    }

    /// Releases the route with this number, which a prefix no longer has.
    fn forget(&mut self, number: Option<u32>) {
        if let Some(route) = number.and_then(|number| self.routes.give_back(number)) {
            self.uncount_gateways(&route);
        }
    }

    fn count_gateways(&mut self, route: &Route) {
        for gateway in gateways(route) {
            let routes = self.gateways.get(&gateway).copied().unwrap_or(0);
            self.gateways.insert(gateway, routes + 1);
        }
    }

    fn uncount_gateways(&mut self, route: &Route) {
        for gateway in gateways(route) {
            match self.gateways.get(&gateway) {
                Some(routes) if *routes > 1 => {
                    let routes = routes - 1;
                    self.gateways.insert(gateway, routes);
                }
                _ => drop(self.gateways.remove(&gateway)),
            }
        }
    }

    /// The next hops of the routes to `destination`, for any source; empty if packets to it are not forwarded.
    pub fn next_hops(&self, destination: IpAddr) -> impl Iterator<Item = &NextHop> {
        let route = self.route(destination);
        route
            .into_iter()
            .flat_map(|(_, route)| route.action.next_hops())
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

    /// The route of exactly this prefix.
    pub fn route_of(&self, prefix: IpNet) -> Option<&Route> {
        let (mut found, mut route) = self.route(prefix.network())?;
        while found.prefix_len() > prefix.prefix_len() {
            (found, route) = self.shorter(found)?;
        }
        (found == prefix).then_some(route)
    }

    /// The route that a packet takes; its source may decide as well.
    pub fn route_from(&self, destination: IpAddr, source: IpAddr) -> Option<&Route> {
        let (mut prefix, mut route) = self.route(destination)?;
        while let Action::BySource(routes) = &route.action {
            let mut has_it = routes.iter().filter(|(net, _)| net.contains(&source));
            if let Some((_, route)) = has_it.next() {
                return Some(route);
            }
            (prefix, route) = self.shorter(prefix)?;
        }
        Some(route)
    }

    /// Whether the route to an address leads to the link of this interface, without a gateway.
    pub fn is_on_link(&self, address: IpAddr, interface: Option<u32>) -> bool {
        let Some((
            _,
            Route {
                action: Action::Forward(hops),
                ..
            },
        )) = self.route(address)
        else {
            return false;
        };
        hops.iter()
            .any(|hop| Some(hop.interface) == interface && hop.gateway.is_none())
    }

    /// The longest other prefix that covers this one, and its route.
    fn shorter(&self, prefix: IpNet) -> Option<(IpNet, &Route)> {
        let (prefix, number) = match prefix {
            IpNet::V4(p) => {
                let (prefix, number) = self.v4.shorter(Lookup4::prefix(p))?;
                (Lookup4::net(prefix)?.into(), number)
            }
            IpNet::V6(p) => {
                let (prefix, number) = self.v6.shorter(Lookup6::prefix(p))?;
                (Lookup6::net(prefix)?.into(), number)
            }
        };
        Some((prefix, self.routes.get(number)?))
    }

    /// The kernel's settings of an interface.
    pub fn settings(&self, interface: u32) -> Settings {
        self.settings.get(&interface).copied().unwrap_or_default()
    }

    /// The longest IPv4 and IPv6 packets, in bytes, that may take a route out of an interface; `None` if the interface
    /// does not exist.
    pub fn mtus(&self, route: &Route, interface: u32) -> Option<[u32; 2]> {
        let device = self.interfaces.get(&interface)?.mtu;
        let mtu = device.min(route.mtu.unwrap_or(u32::MAX));
        Some([mtu, mtu.min(self.settings(interface).mtu_v6)])
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
        let all = v4.chain(v6).filter_map(route);
        all.filter(|(_, route)| route.action != Action::Reserved)
    }

    /// All gateways, each once.
    pub fn gateways(&self) -> impl Iterator<Item = NeighbourKey> {
        self.gateways.iter().map(|(gateway, _)| *gateway)
    }

    /// Whether a route uses this gateway.
    pub fn is_gateway(&self, neighbour: NeighbourKey) -> bool {
        self.gateways.get(&neighbour).is_some()
    }

    /// Bytes of the lookup structures, IPv4 and IPv6.
    pub fn lookup_bytes(&self) -> [usize; 2] {
        [self.v4.bytes(), self.v6.bytes()]
    }

    /// Number of routes.
    pub fn route_count(&self) -> usize {
        let is_reserved = |prefix: &&IpNet| {
            let found = self.route(prefix.network());
            found.is_some_and(|(_, route)| route.action == Action::Reserved)
        };
        self.v4.len() + self.v6.len() - RESERVED.iter().filter(is_reserved).count()
    }
}

impl Settings {
    /// Whether packets of this address's family that arrive at the interface are forwarded.
    pub fn forwards(&self, family_of: IpAddr) -> bool {
        match family_of {
            IpAddr::V4(_) => self.forwards_v4,
            IpAddr::V6(_) => self.forwards_v6,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source_check: SourceCheck::Off,
            forwards_v4: true,
            forwards_v6: true,
            reads_v6: true,
            mtu_v6: u32::MAX,
            only_own_v6: false,
        }
    }
}

impl Address {
    /// Whether both are the same address of an interface, whatever their scope and flags.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.net, self.peer) == (other.net, other.peer)
    }

    /// An address with global scope, without a peer or flags.
    pub fn of(net: IpNet) -> Self {
        Self {
            net,
            peer: None,
            scope: SCOPE_GLOBAL,
            flags: AddressFlags::default(),
        }
    }
}

impl Neighbour {
    /// The MAC address, if the neighbour has one.
    #[inline]
    pub fn mac(self) -> Option<Mac> {
        match self {
            Self::Reachable(mac) | Self::Permanent(mac) => Some(mac),
            Self::Failed => None,
        }
    }
}

/// Each next hop of a route that is a gateway.
fn gateways(route: &Route) -> impl Iterator<Item = NeighbourKey> {
    let gateway = |hop: &NextHop| Some((hop.interface, hop.gateway?));
    route.action.next_hops().filter_map(gateway)
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
        Action::Forward(vec![via(interface, 1)]).into()
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
    fn reserved_blocks_need_routes_of_their_own() {
        let mut tables = Tables::default();
        let set = |tables: &mut Tables, prefix: &str, interface| {
            tables.set_route(prefix.parse().unwrap(), forward(interface));
        };
        set(&mut tables, "0.0.0.0/0", 1);
        set(&mut tables, "128.0.0.0/1", 2);
        set(&mut tables, "240.1.0.0/16", 3);
        set(&mut tables, "169.254.0.0/16", 4);
        let found = |tables: &Tables, a: &str| tables.route(a.parse().unwrap()).unwrap().1.clone();
        let reserved = Route::from(Action::Reserved);
        for (to, route) in [
            ("240.1.2.3", forward(3)),
            ("240.2.2.3", reserved.clone()),
            ("0.1.2.3", reserved.clone()),
            ("169.254.1.1", forward(4)),
            ("192.0.2.1", forward(2)),
        ] {
            assert_eq!(found(&tables, to), route, "{to}");
        }
        assert_eq!((tables.route_count(), tables.routes().count()), (4, 4));
        tables.remove_route("169.254.0.0/16".parse().unwrap());
        assert_eq!(found(&tables, "169.254.1.1"), reserved);
        assert_eq!((tables.route_count(), tables.routes().count()), (3, 3));
    }

    #[test]
    fn gateways_are_those_of_the_routes_that_are_there() {
        let to = |gateways: &[&str]| {
            let hop = |gateway: &&str| NextHop {
                gateway: Some(gateway.parse().unwrap()),
                ..via(1, 1)
            };
            Route::from(Action::Forward(gateways.iter().map(hop).collect()))
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
}
