//! Converts the kernel's messages to [`Tables`], without sockets.
//!
//! ```text
//! KernelMessage --apply--> TableState --tables()--> Tables
//!                              |
//!                              +--> Effect: nothing | changed | read everything again
//! ```
//!
//! Applying every message of a dump fills a state, and applying each change keeps it up to date. In some cases the
//! kernel changes its tables without a message for each change (routes vanish with their link or their source address).
//! Then [`Effect::Reread`] requests a new dump.
//!
//! The tables local, main and default are followed ([`Routes`]), but not others, which only rules lead to.
//! [`unfollowed`](super::state::unfollowed) lists routes that are not followed, and
//! [`forwarding_off`](super::state::forwarding_off) ports where forwarding is switched off.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags as Flags, AddressMessage,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use tracing::warn;
use weir_path::ip::tables::{
    Action, Address, AddressFlags, Interface, Mac, MovedRoute, Neighbour, ObjectKey, Route,
    SCOPE_GLOBAL, SCOPE_LINK, Tables,
};

use super::message::{self, ConfOf, Global, KernelMessage, Placement};
use super::netlink::{self, messages};
use super::route_message::{self, Read};
use super::routes::{Moved, Routes, Unfollowed};
use super::settings::Confs;

mod fpm;

/// A copy of the kernel's tables, with the data needed to follow their changes.
#[derive(Clone, Debug, Default)]
pub struct TableState {
    tables: Tables,
    routes: Routes,
    /// For each interface, whether it is up and whether it has a carrier: routes depend on both.
    working: HashMap<u32, LinkFlags>,
    confs: Confs,
    global: Global,
    /// The prefixes whose active route has changed since the last [`TableState::take_changed`]; `None` if any may have.
    changed: Option<BTreeSet<IpNet>>,
    /// The objects of which all routes have changed since then, and these routes.
    moved: BTreeSet<ObjectKey>,
    moved_routes: Vec<MovedRoute>,
}

/// Maximum changed prefixes that are remembered: more than come between two publications.
const CHANGED_MAX: usize = 1 << 20;

/// An interface is up and has a carrier.
const WORKS: LinkFlags = LinkFlags::Up.union(LinkFlags::Running);

/// The effect of a message on the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// No difference for forwarding.
    Nothing,
    /// The tables have changed.
    Changed,
    /// The tables may have changed, and more has changed than the message contains.
    Reread,
}

impl TableState {
    /// The current tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The active route of exactly this prefix.
    pub fn active(&self, prefix: &IpNet) -> Option<Route> {
        self.routes.in_force(prefix)
    }

    /// The routes that have changed with their next-hop objects since the last [`Self::take_changed`], which visits all routes
    /// to find their prefixes.
    pub fn moved_routes(&self) -> &[MovedRoute] {
        &self.moved_routes
    }

    /// The prefixes whose active route has changed since the last call; `None` if any may have: at the first call,
    /// after everything was read again, or after too many changes.
    pub fn take_changed(&mut self) -> Option<BTreeSet<IpNet>> {
        self.moved_routes.clear();
        let moved = std::mem::take(&mut self.moved);
        let mut changed = self.changed.replace(BTreeSet::new())?;
        if !moved.is_empty() {
            changed.extend(self.routes.users(&moved));
        }
        Some(changed)
    }

    /// The actions of all routes of a prefix, including inactive ones.
    pub(super) fn all_of(&self, prefix: &IpNet) -> impl Iterator<Item = Action> {
        self.routes.all_of(prefix)
    }

    /// The routes that are not followed, up to a limit.
    pub(super) fn unfollowed(&self) -> impl Iterator<Item = &Unfollowed> {
        self.routes.unfollowed()
    }

    /// Whether the kernel's path MTUs limit forwarded packets, which weir does not follow.
    pub(super) fn forwards_by_path_mtu(&self) -> bool {
        self.global.forwards_by_path_mtu
    }

    /// Whether the lifetime of a route has ended, so that everything must be read again.
    pub(super) fn has_expired(&self) -> bool {
        self.routes.has_expired()
    }

    /// Applies the messages of a datagram.
    pub fn apply_datagram(&mut self, bytes: &[u8]) -> Effect {
        let effects = messages(bytes).map(|message| self.apply_bytes(&message));
        effects.max().unwrap_or(Effect::Nothing)
    }

    /// Applies a message. Skips a message that cannot be parsed: the rest of the tables is still right.
    pub(super) fn apply_bytes(&mut self, message: &netlink::Message<'_>) -> Effect {
        match message::parse(message) {
            Ok(Some(parsed)) => self.apply(parsed),
            Ok(None) => Effect::Nothing,
            Err(error) => {
                warn!(kind = message.kind, %error, "cannot parse a message from the kernel");
                Effect::Nothing
            }
        }
    }

    /// Applies parsed messages.
    pub(super) fn apply_all(&mut self, all: Vec<KernelMessage>) -> Effect {
        let effects = all.into_iter().map(|message| self.apply(message));
        effects.max().unwrap_or(Effect::Nothing)
    }

    /// Applies one parsed message.
    pub fn apply(&mut self, message: KernelMessage) -> Effect {
        match message {
            KernelMessage::Route(message, place) => self.apply_route_message(message, place),
            KernelMessage::NewNextHop(object) => {
                let moved = self.routes.set_object(object);
                self.follow_objects(&moved)
            }
            KernelMessage::DelNextHop(id) => match self.routes.remove_object(id) {
                true => Effect::Reread, // its routes were removed with it, without messages
                false => Effect::Nothing,
            },
            KernelMessage::NetConf(version, of, conf) => {
                match self.confs.set(version, of, conf) {
                    true => Effect::Reread, // other next hops are in use
                    false => self.refresh_settings(of),
                }
            }
            KernelMessage::Global(global) => {
                self.tables.errors_from_ingress = global.errors_from_ingress;
                if std::mem::replace(&mut self.global, global) == global {
                    Effect::Nothing
                } else {
                    Effect::Changed
                }
            }
            KernelMessage::Inet6(index, conf) => {
                self.confs.set_inet6(index, conf);
                self.refresh_settings(ConfOf::Interface(index))
            }
        }
    }

    /// Computes the settings of the interfaces that a change is about.
    fn refresh_settings(&mut self, changed: ConfOf) -> Effect {
        let mut effect = Effect::Nothing;
        for (index, interface) in &self.tables.interfaces {
            if !matches!(changed, ConfOf::Interface(one) if one != *index) {
                let now = self.confs.of(*index, interface);
                if self.tables.settings.insert(*index, now) != Some(now) {
                    effect = Effect::Changed;
                }
            }
        }
        effect
    }

    fn apply_route_message(&mut self, message: RouteNetlinkMessage, place: Placement) -> Effect {
        match message {
            RouteNetlinkMessage::NewLink(link) => self.new_link(&link),
            RouteNetlinkMessage::DelLink(link) => self.del_link(&link),
            RouteNetlinkMessage::NewAddress(address) => self.new_address(&address),
            RouteNetlinkMessage::DelAddress(address) => self.del_address(&address),
            RouteNetlinkMessage::NewRoute(route) => self.new_route(&route, place),
            RouteNetlinkMessage::DelRoute(route) => self.del_route(&route),
            RouteNetlinkMessage::NewNeighbour(neighbour) => self.new_neighbour(&neighbour),
            RouteNetlinkMessage::DelNeighbour(neighbour) => self.del_neighbour(&neighbour),
            _ => Effect::Nothing,
        }
    }

    fn new_link(&mut self, link: &LinkMessage) -> Effect {
        if link.header.interface_family != AddressFamily::Unspec {
            return Effect::Nothing; // a bridge's or IPv6's view of a link, which lacks the rest
        }
        let index = link.header.index;
        let before = self.tables.interfaces.get(&index);
        let mut now = before.cloned().unwrap_or_default();
        let working = link.header.flags & WORKS;
        now.up = working.contains(LinkFlags::Up);
        now.carrier = link.header.flags.contains(LinkFlags::LowerUp);
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => now.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => {
                    if before.is_some_and(|before| before.mtu != *mtu) {
                        self.confs.forget_mtu(index);
                    }
                    now.mtu = *mtu;
                }
                LinkAttribute::Address(bytes) => now.mac = mac(bytes).unwrap_or_default(),
                _ => {}
            }
        }
        let worked = self.working.insert(index, working);
        let effect = match before {
            // Routes appear and vanish with their link, many of them without a message.
            Some(_) if worked != Some(working) => Effect::Reread,
            Some(before) if *before == now => Effect::Nothing,
            // FPM may have routes to this interface already.
            None if now.up && self.fpm_counts().routes > 0 => Effect::Reread,
            _ => Effect::Changed,
        };
        self.tables.interfaces.insert(index, now);
        effect.max(self.refresh_settings(ConfOf::Interface(index)))
    }

    fn del_link(&mut self, link: &LinkMessage) -> Effect {
        let index = link.header.index;
        if link.header.interface_family != AddressFamily::Unspec
            || self.tables.interfaces.remove(&index).is_none()
        {
            return Effect::Nothing;
        }
        self.working.remove(&index);
        self.confs.remove(index);
        self.tables.settings.remove(&index);
        self.tables.neighbours.retain(|(on, _), _| *on != index);
        Effect::Reread
    }

    fn new_address(&mut self, message: &AddressMessage) -> Effect {
        let Some((interface, address)) = self.find_address(message) else {
            return Effect::Nothing;
        };
        let failed = message.header.flags.contains(Flags::Dadfailed);
        let all = &mut interface.addresses;
        let known = all.iter().position(|a| a.is_same(&address));
        match known {
            None if failed => return Effect::Nothing,
            None => {
                let at = place_of(all, &address);
                all.insert(at, address);
            }
            Some(at) if failed => drop(all.remove(at)),
            Some(at) if all[at] == address => return Effect::Nothing,
            Some(at) => all[at] = address,
        }
        Effect::Changed
    }

    fn del_address(&mut self, message: &AddressMessage) -> Effect {
        let Some((interface, address)) = self.find_address(message) else {
            return Effect::Nothing;
        };
        let before = interface.addresses.len();
        interface.addresses.retain(|a| !a.is_same(&address));
        if interface.addresses.len() == before {
            Effect::Nothing
        } else if address.net.addr().is_ipv4() {
            Effect::Reread // routes with this source address vanish, silently in old kernels
        } else {
            Effect::Changed
        }
    }

    /// The interface and the address of a message.
    fn find_address(&mut self, message: &AddressMessage) -> Option<(&mut Interface, Address)> {
        let (mut local, mut other) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => other = Some(*address),
                _ => {}
            }
        }
        // On a point-to-point link "address" is the peer's; without "local" it is ours.
        let own = local.or(other)?;
        let has = |flags: Flags| message.header.flags.intersects(flags);
        // The kernel has one flag for secondary (IPv4) and temporary (IPv6).
        let second = has(Flags::Secondary);
        let address = Address {
            net: IpNet::new(own, message.header.prefix_len).ok()?,
            peer: other.filter(|peer| *peer != own),
            scope: message.header.scope.into(),
            flags: AddressFlags {
                secondary: second && own.is_ipv4(),
                temporary: second && own.is_ipv6(),
                tentative: has(Flags::Tentative) && !has(Flags::Optimistic),
                avoided: has(Flags::Deprecated.union(Flags::Optimistic)),
            },
        };
        let interface = self.tables.interfaces.get_mut(&message.header.index)?;
        Some((interface, address))
    }

    fn new_route(&mut self, message: &RouteMessage, place: Placement) -> Effect {
        let (prefix, candidate) = match route_message::read(message) {
            None => return Effect::Nothing,
            Some(Read::Candidate(prefix, candidate)) => {
                if place == Placement::Replace {
                    self.routes.replace_unfollowed(&prefix, &candidate);
                }
                (prefix, candidate)
            }
            Some(Read::Unfollowed(route, candidate)) => {
                let prefix = route.prefix;
                self.routes.set_unfollowed(route, true);
                match candidate {
                    Some(candidate) => (prefix, candidate),
                    None => return Effect::Changed, // the findings changed
                }
            }
        };
        if self.routes.insert(prefix, candidate, place) {
            self.refresh_all(&self.routes.affected(&prefix))
        } else {
            Effect::Reread
        }
    }

    fn del_route(&mut self, message: &RouteMessage) -> Effect {
        let (prefix, candidate) = match route_message::read(message) {
            None => return Effect::Nothing,
            Some(Read::Candidate(prefix, candidate)) => (prefix, candidate),
            Some(Read::Unfollowed(route, candidate)) => {
                let prefix = route.prefix;
                self.routes.set_unfollowed(route, false);
                match candidate {
                    Some(candidate) => (prefix, candidate),
                    None => return Effect::Changed,
                }
            }
        };
        if self.routes.remove(&prefix, &candidate) {
            self.refresh_all(&self.routes.affected(&prefix))
        } else {
            Effect::Reread
        }
    }

    fn refresh_all(&mut self, prefixes: &[IpNet]) -> Effect {
        let effects = prefixes.iter().map(|prefix| self.refresh(prefix));
        effects.max().unwrap_or(Effect::Nothing)
    }

    /// Updates the active routes after a change of next-hop objects.
    fn follow_objects(&mut self, moved: &Moved) -> Effect {
        let mut effect = self.refresh_all(&moved.prefixes);
        let action = |key| match moved.objects.contains(&key) {
            true => self.routes.object_action(key),
            false => None,
        };
        let routes = if moved.objects.is_empty() {
            Vec::new()
        } else {
            self.tables.change_object(action)
        };
        if !routes.is_empty() {
            if self.changed.is_some() {
                self.moved.extend(&moved.objects);
                self.moved_routes.extend(routes);
            }
            effect = Effect::Changed;
        }
        effect
    }

    /// Updates the active route of a prefix.
    fn refresh(&mut self, prefix: &IpNet) -> Effect {
        let now = self.routes.in_force(prefix);
        let before = self.tables.route_of(*prefix);
        if now.as_ref() == before {
            return Effect::Nothing;
        }
        let acts_same = now
            .as_ref()
            .zip(before)
            .is_some_and(|(now, before)| now.acts_like(before));
        match now {
            Some(route) => self.tables.set_route(*prefix, route),
            None => self.tables.remove_route(*prefix),
        }
        if acts_same {
            return Effect::Nothing; // after a replay, its object has another number
        }
        if let Some(changed) = &mut self.changed {
            changed.insert(*prefix);
            self.changed.take_if(|changed| changed.len() > CHANGED_MAX);
        }
        Effect::Changed
    }

    fn new_neighbour(&mut self, message: &NeighbourMessage) -> Effect {
        let Some(key) = neighbour_key(message) else {
            return Effect::Nothing;
        };
        let mac = message.attributes.iter().find_map(|a| match a {
            NeighbourAttribute::LinkLayerAddress(bytes) => mac(bytes),
            _ => None,
        });
        let now = match message.header.state {
            NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe => mac.map(Neighbour::Reachable),
            NeighbourState::Permanent | NeighbourState::Noarp => mac.map(Neighbour::Permanent),
            NeighbourState::Failed => Some(Neighbour::Failed),
            _ => None,
        };
        self.set_neighbour(key, now)
    }

    fn del_neighbour(&mut self, message: &NeighbourMessage) -> Effect {
        match neighbour_key(message) {
            Some(key) => self.set_neighbour(key, None),
            None => Effect::Nothing,
        }
    }

    fn set_neighbour(&mut self, key: (u32, IpAddr), now: Option<Neighbour>) -> Effect {
        let before = match now {
            Some(now) => self.tables.neighbours.insert(key, now),
            None => self.tables.neighbours.remove(&key),
        };
        if before == now {
            Effect::Nothing
        } else {
            Effect::Changed
        }
    }
}

/// Interface and address of an IP neighbour that is not a proxy entry.
fn neighbour_key(message: &NeighbourMessage) -> Option<(u32, IpAddr)> {
    if message.header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let address = message.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => Some(IpAddr::from(*a)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => Some(IpAddr::from(*a)),
        _ => None,
    });
    Some((message.header.ifindex, address?))
}

/// The position at which the kernel inserts a new address among those of its interface. It orders IPv4's primary
/// addresses by scope, followed by the secondary ones; and IPv6's addresses by scope, the latest first.
fn place_of(all: &[Address], new: &Address) -> usize {
    if new.flags.secondary {
        return all.len();
    }
    let scope = |a: &Address| match a.net {
        IpNet::V4(_) => a.scope,
        // The kernel's numbers of IPv6 scopes are in the other order.
        IpNet::V6(net) if net.addr().is_unicast_link_local() => SCOPE_LINK,
        IpNet::V6(net) if net.addr().is_loopback() => SCOPE_LINK + 1,
        IpNet::V6(_) => SCOPE_GLOBAL,
    };
    let of_family = |a: &Address| a.net.addr().is_ipv4() == new.net.addr().is_ipv4();
    let mut others = all.iter();
    let found = match new.net {
        IpNet::V4(_) => {
            let before = |a: &Address| of_family(a) && !a.flags.secondary && scope(a) >= scope(new);
            return others.rposition(before).map_or(0, |at| at + 1);
        }
        IpNet::V6(_) => others.position(|a| of_family(a) && scope(a) >= scope(new)),
    };
    found.unwrap_or(all.len())
}

fn mac(bytes: &[u8]) -> Option<Mac> {
    Mac::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::message::{NextHopKind, NextHopObject};
    use super::*;
    use netlink_packet_route::route::{
        RouteAttribute, RouteHeader, RouteNextHop, RouteNextHopFlags, RouteType, RouteVia,
    };
    use weir_path::ip::tables::{Action, NextHop};

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    pub(super) fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// `ip route add PREFIX .. metric METRIC`, with these attributes for the rest.
    pub(super) fn route(
        prefix: &str,
        metric: u32,
        attributes: Vec<RouteAttribute>,
    ) -> RouteMessage {
        let prefix = net(prefix);
        let mut route = RouteMessage::default();
        route.header.address_family = match prefix {
            IpNet::V4(_) => AddressFamily::Inet,
            IpNet::V6(_) => AddressFamily::Inet6,
        };
        route.header.destination_prefix_length = prefix.prefix_len();
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.kind = RouteType::Unicast;
        let destination = RouteAttribute::Destination(prefix.addr().into());
        let priority = RouteAttribute::Priority(metric);
        route.attributes = [vec![destination, priority], attributes].concat();
        route
    }

    fn oif(index: u32) -> Vec<RouteAttribute> {
        vec![RouteAttribute::Oif(index)]
    }

    pub(super) fn via(gateway: &str, index: u32) -> Vec<RouteAttribute> {
        let gateway = RouteAttribute::Gateway(ip(gateway).into());
        vec![gateway, RouteAttribute::Oif(index)]
    }

    fn hop(interface: u32, gateway: Option<&str>, weight: u32) -> NextHop {
        NextHop {
            interface,
            gateway: gateway.map(ip),
            weight,
        }
    }

    fn one_of_several(gateway: &str, index: u32, weight: u8) -> RouteNextHop {
        let mut hop = RouteNextHop::default();
        hop.interface_index = index;
        hop.hops = weight - 1;
        hop.attributes = vec![RouteAttribute::Gateway(ip(gateway).into())];
        hop
    }

    fn multipath(hops: Vec<RouteNextHop>) -> Vec<RouteAttribute> {
        vec![RouteAttribute::MultiPath(hops)]
    }

    impl TableState {
        pub(super) fn add(&mut self, route: RouteMessage) -> Effect {
            self.place(route, Placement::First)
        }

        fn place(&mut self, route: RouteMessage, place: Placement) -> Effect {
            let message = RouteNetlinkMessage::NewRoute(route);
            self.apply(KernelMessage::Route(message, place))
        }

        pub(super) fn remove(&mut self, route: RouteMessage) -> Effect {
            let message = RouteNetlinkMessage::DelRoute(route);
            self.apply(KernelMessage::Route(message, Placement::First))
        }

        pub(super) fn hear(&mut self, message: RouteNetlinkMessage) -> Effect {
            self.apply(KernelMessage::Route(message, Placement::Last))
        }

        pub(super) fn action(&self, to: &str) -> Option<Action> {
            let found = self.tables.route(ip(to));
            found.map(|(_, route)| route.action.clone())
        }

        pub(super) fn hops(&self, to: &str) -> Vec<NextHop> {
            match self.action(to) {
                Some(Action::Forward(hops)) => hops,
                other => panic!("{to}: {other:?}"),
            }
        }
    }

    #[test]
    fn of_several_metrics_the_lowest_counts_and_the_next_takes_over() {
        let mut state = TableState::default();
        assert_eq!(
            state.add(route("10.1.0.0/16", 200, oif(2))),
            Effect::Changed
        );
        assert_eq!(
            state.add(route("10.1.0.0/16", 100, oif(1))),
            Effect::Changed
        );
        assert_eq!(
            state.add(route("10.1.0.0/16", 300, oif(3))),
            Effect::Nothing
        );
        assert_eq!(state.hops("10.1.2.3"), [hop(1, None, 1)]);
        assert_eq!(
            state.remove(route("10.1.0.0/16", 100, oif(1))),
            Effect::Changed
        );
        assert_eq!(state.hops("10.1.2.3"), [hop(2, None, 1)]);
        assert_eq!(
            state.remove(route("10.1.0.0/16", 300, oif(3))),
            Effect::Nothing
        );
        assert_eq!(
            state.remove(route("10.1.0.0/16", 200, oif(2))),
            Effect::Changed
        );
        assert_eq!(state.action("10.1.2.3"), None);
        assert_eq!(
            state.remove(route("10.1.0.0/16", 200, oif(2))),
            Effect::Nothing
        );
    }

    #[test]
    fn equal_routes_keep_the_kernels_order() {
        let mut state = TableState::default();
        let add = |state: &mut TableState, index, place| {
            state.place(route("10.0.0.0/8", 0, oif(index)), place)
        };
        add(&mut state, 1, Placement::First);
        assert_eq!(add(&mut state, 2, Placement::Last), Effect::Nothing);
        assert_eq!(state.hops("10.0.0.1"), [hop(1, None, 1)]);
        assert_eq!(add(&mut state, 3, Placement::First), Effect::Changed);
        assert_eq!(state.hops("10.0.0.1"), [hop(3, None, 1)]);
        add(&mut state, 4, Placement::Replace);
        assert_eq!(state.hops("10.0.0.1"), [hop(4, None, 1)]);
        state.remove(route("10.0.0.0/8", 0, oif(4)));
        assert_eq!(state.hops("10.0.0.1"), [hop(1, None, 1)]);
        state.remove(route("10.0.0.0/8", 0, oif(1)));
        assert_eq!(state.hops("10.0.0.1"), [hop(2, None, 1)]);
    }

    #[test]
    fn kinds_of_routes_become_actions() {
        let mut state = TableState::default();
        let cases = [
            ("10.0.1.0/24", RouteType::BlackHole, Action::Blackhole),
            ("10.0.2.0/24", RouteType::Unreachable, Action::Unreachable),
            ("10.0.3.0/24", RouteType::Prohibit, Action::Prohibit),
            ("10.0.4.0/24", RouteType::Throw, Action::Throw),
        ];
        for (prefix, kind, action) in cases {
            let mut message = route(prefix, 0, Vec::new());
            message.header.kind = kind;
            assert_eq!(state.add(message), Effect::Changed);
            assert_eq!(state.action(&net(prefix).addr().to_string()), Some(action));
        }
        let encap = RouteAttribute::Encap(Vec::new());
        state.add(route(
            "10.0.5.0/24",
            0,
            [via("10.9.9.9", 1), vec![encap]].concat(),
        ));
        assert_eq!(state.action("10.0.5.1"), Some(Action::Unreachable));
    }

    #[test]
    fn the_local_table_comes_before_main_and_that_before_default() {
        let mut state = TableState::default();
        let in_table = |prefix: &str, table, kind, index| {
            let mut message = route(prefix, 0, oif(index));
            (message.header.table, message.header.kind) = (table, kind);
            message
        };
        state.add(in_table("10.0.0.1/32", 254, RouteType::Unicast, 5));
        state.add(in_table("10.0.0.1/32", 255, RouteType::Local, 1));
        state.add(in_table("10.0.0.255/32", 255, RouteType::Broadcast, 1));
        assert_eq!(state.action("10.0.0.1"), Some(Action::Local));
        assert_eq!(state.action("10.0.0.255"), Some(Action::Local));
        state.remove(in_table("10.0.0.1/32", 255, RouteType::Local, 1));
        assert_eq!(state.hops("10.0.0.1"), [hop(5, None, 1)]);
        let anycast = in_table("fd00::/128", 255, RouteType::Anycast, 1);
        assert_eq!(state.add(anycast), Effect::Changed);
        let multicast = in_table("ff00::/8", 255, RouteType::Multicast, 1);
        assert_eq!(state.add(multicast), Effect::Nothing);
        state.add(in_table("0.0.0.0/0", 253, RouteType::Unicast, 7));
        state.add(in_table("0.0.0.0/0", 254, RouteType::Unicast, 6));
        assert_eq!(state.hops("192.0.2.1"), [hop(6, None, 1)]);
        let foreign = in_table("0.0.0.0/0", 100, RouteType::Unicast, 8);
        assert_eq!(state.add(foreign), Effect::Nothing);
        let mut foreign = in_table("192.0.2.0/24", 252, RouteType::Unicast, 8);
        foreign.attributes.push(RouteAttribute::Table(1000));
        assert_eq!(state.add(foreign), Effect::Nothing);
    }

    #[test]
    fn of_several_next_hops_the_working_ones_count() {
        let mut state = TableState::default();
        let mut dead = one_of_several("10.0.3.2", 3, 1);
        dead.flags = RouteNextHopFlags::Dead;
        let mut uncarried = one_of_several("10.0.4.2", 4, 1);
        uncarried.flags = RouteNextHopFlags::Linkdown;
        let (a, b) = (
            one_of_several("10.0.1.2", 1, 1),
            one_of_several("10.0.2.2", 2, 3),
        );
        state.add(route(
            "10.9.0.0/16",
            0,
            multipath(vec![a, b, dead, uncarried.clone()]),
        ));
        let both = [hop(1, Some("10.0.1.2"), 1), hop(2, Some("10.0.2.2"), 3)];
        assert_eq!(state.hops("10.9.0.1"), both);
        // A next hop without carrier is better than none: the kernel would use it too.
        state.add(route("10.8.0.0/16", 0, multipath(vec![uncarried])));
        assert_eq!(state.hops("10.8.0.1"), [hop(4, Some("10.0.4.2"), 1)]);
    }

    #[test]
    fn routes_that_differ_only_in_a_next_hop_without_carrier_are_two() {
        let mut state = TableState::default();
        let mut uncarried = one_of_several("10.0.1.2", 1, 1);
        uncarried.flags = RouteNextHopFlags::Linkdown;
        let carried = one_of_several("10.0.2.2", 2, 1);
        let both = route("10.9.0.0/16", 0, multipath(vec![uncarried, carried]));
        state.add(both.clone());
        state.place(route("10.9.0.0/16", 0, via("10.0.2.2", 2)), Placement::Last);
        assert_eq!(state.hops("10.9.0.1"), [hop(2, Some("10.0.2.2"), 1)]);
        assert_eq!(state.remove(both), Effect::Nothing);
        assert_eq!(state.hops("10.9.0.1"), [hop(2, Some("10.0.2.2"), 1)]);
        let single = route("10.9.0.0/16", 0, via("10.0.2.2", 2));
        assert_eq!(state.remove(single), Effect::Changed);
        assert_eq!(state.action("10.9.0.1"), None);
    }

    #[test]
    fn a_route_whose_next_hops_are_all_dead_gives_way_to_the_next() {
        let mut state = TableState::default();
        let mut dead = one_of_several("10.0.3.2", 3, 1);
        dead.flags = RouteNextHopFlags::Dead;
        state.add(route("10.9.0.0/16", 10, multipath(vec![dead])));
        assert_eq!(state.action("10.9.0.1"), None);
        state.add(route("10.9.0.0/16", 20, oif(4)));
        assert_eq!(state.hops("10.9.0.1"), [hop(4, None, 1)]);
    }

    #[test]
    fn an_ipv4_route_may_go_by_an_ipv6_router() {
        let mut state = TableState::default();
        let router = RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap()));
        state.add(route("10.9.0.0/16", 0, [oif(2), vec![router]].concat()));
        assert_eq!(state.hops("10.9.0.1"), [hop(2, Some("fe80::1"), 1)]);
    }

    #[test]
    fn an_ipv6_route_grows_and_loses_next_hops() {
        let mut state = TableState::default();
        let (a, b) = (
            one_of_several("fd00::2", 1, 1),
            one_of_several("fd00::3", 1, 1),
        );
        state.add(route("2001:db8::/32", 1024, via("fd00::2", 1)));
        let both = multipath(vec![a, b]);
        let grown = route("2001:db8::/32", 1024, both);
        assert_eq!(state.place(grown, Placement::Last), Effect::Changed);
        let two = [hop(1, Some("fd00::2"), 1), hop(1, Some("fd00::3"), 1)];
        assert_eq!(state.hops("2001:db8::1"), two);
        let less = route("2001:db8::/32", 1024, via("fd00::2", 1));
        assert_eq!(state.remove(less), Effect::Changed);
        assert_eq!(state.hops("2001:db8::1"), [hop(1, Some("fd00::3"), 1)]);
        let unknown = route("2001:db8::/32", 1024, via("fd00::9", 1));
        assert_eq!(state.remove(unknown), Effect::Reread);
    }

    #[test]
    fn link_local_networks_of_several_interfaces_live_side_by_side() {
        let mut state = TableState::default();
        for index in [1, 2, 3] {
            state.add(route("fe80::/64", 256, oif(index)));
        }
        state.remove(route("fe80::/64", 256, oif(3)));
        let first = state.hops("fe80::1")[0].interface;
        state.remove(route("fe80::/64", 256, oif(first)));
        assert_eq!(state.hops("fe80::1"), [hop(3 - first, None, 1)]);
    }

    #[test]
    fn routes_follow_their_next_hop_objects() {
        let object = |id, interface| {
            let kind = NextHopKind::Single {
                interface,
                gateway: Some(ip("10.0.0.2")),
                dead: false,
                no_carrier: false,
            };
            KernelMessage::NewNextHop(NextHopObject { id, kind })
        };
        let group = |members| {
            let kind = NextHopKind::Group(members);
            KernelMessage::NewNextHop(NextHopObject { id: 10, kind })
        };
        let mut state = TableState::default();
        assert_eq!(state.apply(object(1, 1)), Effect::Nothing);
        assert_eq!(state.apply(object(2, 2)), Effect::Nothing);
        assert_eq!(state.apply(group(vec![(1, 1), (2, 3)])), Effect::Nothing);
        let by_group = vec![RouteAttribute::NhId(10)];
        assert_eq!(
            state.add(route("10.9.0.0/16", 0, by_group)),
            Effect::Changed
        );
        let to = |interface, weight| hop(interface, Some("10.0.0.2"), weight);
        assert_eq!(state.hops("10.9.0.1"), [to(1, 1), to(2, 3)]);
        assert_eq!(state.apply(object(2, 2)), Effect::Nothing);
        assert_eq!(state.apply(object(2, 7)), Effect::Changed);
        assert_eq!(state.hops("10.9.0.1"), [to(1, 1), to(7, 3)]);
        assert_eq!(state.apply(group(vec![(2, 1)])), Effect::Changed);
        assert_eq!(state.hops("10.9.0.1"), [to(7, 1)]);
        assert_eq!(state.apply(KernelMessage::DelNextHop(1)), Effect::Nothing);
        assert_eq!(state.apply(KernelMessage::DelNextHop(2)), Effect::Reread);
        assert_eq!(state.apply(KernelMessage::DelNextHop(10)), Effect::Reread);
        let blackhole = NextHopObject {
            id: 11,
            kind: NextHopKind::Blackhole,
        };
        state.apply(KernelMessage::NewNextHop(blackhole));
        state.add(route("10.7.0.0/16", 0, vec![RouteAttribute::NhId(11)]));
        assert_eq!(state.action("10.7.0.1"), Some(Action::Blackhole));
    }

    fn link(index: u32, name: &str, flags: LinkFlags) -> LinkMessage {
        let mut link = LinkMessage::default();
        (link.header.index, link.header.flags) = (index, flags);
        link.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Mtu(1500),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]),
        ];
        link
    }

    #[test]
    fn links_come_change_and_go() {
        use RouteNetlinkMessage::{DelLink, NewLink};
        let mut state = TableState::default();
        assert_eq!(state.hear(NewLink(link(3, "wan", WORKS))), Effect::Changed);
        assert_eq!(state.hear(NewLink(link(3, "wan", WORKS))), Effect::Nothing);
        let wan = Interface {
            name: "wan".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: false,
            addresses: Vec::new(),
        };
        assert_eq!(state.tables().interfaces[&3], wan);
        let plugged = link(3, "wan", WORKS | LinkFlags::LowerUp);
        assert_eq!(state.hear(NewLink(plugged)), Effect::Changed);
        assert!(state.tables().interfaces[&3].carrier);
        assert_eq!(state.hear(NewLink(link(3, "lan", WORKS))), Effect::Changed);
        let no_carrier = link(3, "lan", LinkFlags::Up);
        assert_eq!(state.hear(NewLink(no_carrier)), Effect::Reread);
        assert!(state.tables().interfaces[&3].up);
        let down = link(3, "lan", LinkFlags::empty());
        assert_eq!(state.hear(NewLink(down)), Effect::Reread);
        assert!(!state.tables().interfaces[&3].up);
        let mut bridge_port = link(3, "x", WORKS);
        bridge_port.header.interface_family = AddressFamily::Bridge;
        assert_eq!(state.hear(NewLink(bridge_port.clone())), Effect::Nothing);
        assert_eq!(state.hear(DelLink(bridge_port)), Effect::Nothing);
        assert_eq!(state.hear(DelLink(link(3, "lan", WORKS))), Effect::Reread);
        assert!(state.tables().interfaces.is_empty());
        assert_eq!(state.hear(DelLink(link(3, "lan", WORKS))), Effect::Nothing);
    }

    #[test]
    fn addresses_belong_to_their_interface() {
        use RouteNetlinkMessage::{DelAddress, NewAddress, NewLink};
        let address = |attributes: Vec<AddressAttribute>, prefix_len| {
            let mut message = AddressMessage::default();
            (message.header.index, message.header.prefix_len) = (3, prefix_len);
            message.attributes = attributes;
            message
        };
        let mut state = TableState::default();
        let v6 = address(vec![AddressAttribute::Address(ip("fd00::1"))], 64);
        assert_eq!(state.hear(NewAddress(v6.clone())), Effect::Nothing);
        state.hear(NewLink(link(3, "wan", WORKS)));
        assert_eq!(state.hear(NewAddress(v6.clone())), Effect::Changed);
        assert_eq!(state.hear(NewAddress(v6.clone())), Effect::Nothing);
        let (own, peer) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let ours = vec![
            AddressAttribute::Address(peer),
            AddressAttribute::Local(own),
        ];
        let v4 = address(ours, 32);
        assert_eq!(state.hear(NewAddress(v4.clone())), Effect::Changed);
        let addresses = |state: &TableState| state.tables().interfaces[&3].addresses.clone();
        let with_peer = Address {
            peer: Some(peer),
            ..Address::of(net("10.0.0.1/32"))
        };
        assert_eq!(
            addresses(&state),
            [with_peer, Address::of(net("fd00::1/64"))]
        );
        assert_eq!(state.hear(DelAddress(v4)), Effect::Reread);
        let mut twice = v6;
        twice.header.flags = Flags::Dadfailed;
        assert_eq!(state.hear(NewAddress(twice)), Effect::Changed);
        assert_eq!(addresses(&state), []);
    }

    #[test]
    fn neighbours_are_known_failed_or_absent() {
        use RouteNetlinkMessage::{DelNeighbour, NewNeighbour};
        let neighbour = |state, mac: Option<u8>| {
            let mut message = NeighbourMessage::default();
            (message.header.ifindex, message.header.state) = (3, state);
            let address = NeighbourAddress::Inet("10.0.0.2".parse().unwrap());
            message.attributes = vec![NeighbourAttribute::Destination(address)];
            let lladdr = |m| NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, m]);
            message.attributes.extend(mac.map(lladdr));
            message
        };
        let key = (3, ip("10.0.0.2"));
        let mut state = TableState::default();
        let asked = NewNeighbour(neighbour(NeighbourState::Incomplete, None));
        assert_eq!(state.hear(asked.clone()), Effect::Nothing);
        let known = NewNeighbour(neighbour(NeighbourState::Reachable, Some(7)));
        assert_eq!(state.hear(known), Effect::Changed);
        let mac = Neighbour::Reachable([2, 0, 0, 0, 0, 7]);
        assert_eq!(state.tables().neighbours[&key], mac);
        for quiet in [
            NeighbourState::Stale,
            NeighbourState::Delay,
            NeighbourState::Probe,
        ] {
            let message = NewNeighbour(neighbour(quiet, Some(7)));
            assert_eq!(state.hear(message), Effect::Nothing);
        }
        let moved = NewNeighbour(neighbour(NeighbourState::Permanent, Some(8)));
        assert_eq!(state.hear(moved), Effect::Changed);
        let set = Neighbour::Permanent([2, 0, 0, 0, 0, 8]);
        assert_eq!(state.tables().neighbours[&key], set);
        let failed = NewNeighbour(neighbour(NeighbourState::Failed, None));
        assert_eq!(state.hear(failed), Effect::Changed);
        assert_eq!(state.tables().neighbours[&key], Neighbour::Failed);
        assert_eq!(state.hear(asked), Effect::Changed);
        assert!(state.tables().neighbours.is_empty());
        let mut proxy = neighbour(NeighbourState::Reachable, Some(7));
        proxy.header.flags = NeighbourFlags::Proxy;
        assert_eq!(state.hear(NewNeighbour(proxy)), Effect::Nothing);
        let unknown = DelNeighbour(neighbour(NeighbourState::Failed, None));
        assert_eq!(state.hear(unknown), Effect::Nothing);
    }

    #[test]
    fn settings_of_an_interface_and_of_all_decide_together() {
        use super::super::message::{Inet6Conf, NetConf, Version};
        use weir_path::ip::tables::SourceCheck;
        let mut state = TableState::default();
        state.hear(RouteNetlinkMessage::NewLink(link(7, "wan", WORKS)));
        let set = |state: &mut TableState, version, of, conf| {
            let effect = state.apply(KernelMessage::NetConf(version, of, conf));
            (effect, state.tables().settings(7))
        };
        let (one, none) = (ConfOf::Interface(7), NetConf::default());
        let before = state.tables().settings(7);
        assert!(!before.forwards_v4 && !before.forwards_v6);
        for (all, own, expected) in [
            (1, 0, SourceCheck::Strict),
            (1, 2, SourceCheck::Loose),
            (2, 1, SourceCheck::Loose),
            (0, 0, SourceCheck::Off),
        ] {
            let rp_filter = |value| NetConf {
                rp_filter: Some(value),
                ..none
            };
            set(&mut state, Version::V4, ConfOf::All, rp_filter(all));
            set(&mut state, Version::V4, ConfOf::Default, rp_filter(1));
            let (_, now) = set(&mut state, Version::V4, one, rp_filter(own));
            assert_eq!(now.source_check, expected, "{all}, {own}");
        }
        let forwarding = |value| NetConf {
            forwarding: Some(value),
            ..none
        };
        let (effect, now) = set(&mut state, Version::V4, ConfOf::All, forwarding(1));
        assert_eq!((effect, now.forwards_v4), (Effect::Nothing, false));
        let (effect, now) = set(&mut state, Version::V4, one, forwarding(1));
        assert_eq!((effect, now.forwards_v4), (Effect::Changed, true));
        // For IPv6, the value for all decides, or an exception for one interface.
        let (_, now) = set(&mut state, Version::V6, one, forwarding(1));
        assert!(!now.forwards_v6);
        let forced = |forced| Inet6Conf {
            forced,
            ..Inet6Conf::default()
        };
        for on in [true, false] {
            state.apply(KernelMessage::Inet6(7, forced(on)));
            assert_eq!(state.tables().settings(7).forwards_v6, on);
        }
        assert!(
            set(&mut state, Version::V6, ConfOf::All, forwarding(1))
                .1
                .forwards_v6
        );
        let conf = Inet6Conf {
            mtu: 1400,
            disabled: true,
            only_own: true,
            forced: false,
        };
        state.apply(KernelMessage::Inet6(7, conf));
        let now = state.tables().settings(7);
        assert!(!now.forwards_v6 && now.only_own_v6);
        assert_eq!(now.mtu_v6, 1400);
        let linkdown = |value| NetConf {
            ignore_linkdown: Some(value),
            ..none
        };
        let first = set(&mut state, Version::V4, one, linkdown(0)).0;
        assert_eq!(first, Effect::Nothing);
        let switched = set(&mut state, Version::V4, one, linkdown(1)).0;
        assert_eq!(switched, Effect::Reread);
    }
}
