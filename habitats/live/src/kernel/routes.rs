//! All routes of the kernel for each prefix, of which one is in force.
//!
//! A prefix may have routes in several tables and with several metrics. In force is the first working route in this
//! order: tables local, main, default; then lowest metric; then the kernel's own order.

use std::collections::HashMap;

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_path::ip::tables::{Action, NextHop, Route};

use super::message::{NextHopKind, NextHopObject, Placement};

/// One of the routes of a prefix.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    rank: u8,
    metric: u32,
    /// The action of the route itself.
    way: Way,
    /// The next-hop object that the route refers to instead.
    object: Option<u32>,
}

/// The destination of a route.
#[derive(Clone, Debug)]
enum Way {
    /// No next hop: the route itself states the action.
    Fixed(Action),
    /// One of these next hops.
    Hops(Vec<Hop>),
}

/// A next hop, and whether the kernel would use it.
#[derive(Clone, Copy, Debug)]
struct Hop {
    next: NextHop,
    dead: bool,
    no_carrier: bool,
}

/// The routes and next-hop objects of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    candidates: HashMap<IpNet, Vec<Candidate>>,
    objects: HashMap<u32, NextHopKind>,
}

/// Members of a group are single objects: the kernel permits no deeper nesting.
const NESTING_MAX: u32 = 1;

impl Routes {
    /// The route of a prefix that is in force.
    pub(super) fn in_force(&self, prefix: &IpNet) -> Option<Route> {
        self.candidates.get(prefix)?.iter().find_map(|candidate| {
            let action = candidate
                .object
                .and_then(|id| self.object_way(id, NESTING_MAX))
                .map_or_else(|| candidate.way.action(), |way| way.action());
            let works = !matches!(&action, Action::Forward(hops) if hops.is_empty());
            works.then_some(Route {
                action,
                metric: candidate.metric,
            })
        })
    }

    /// The actions of all routes of a prefix, also of those that are not in force.
    pub(super) fn all_of(&self, prefix: &IpNet) -> impl Iterator<Item = Action> {
        let candidates = self.candidates.get(prefix).into_iter().flatten();
        candidates.map(|candidate| {
            let object = candidate
                .object
                .and_then(|id| self.object_way(id, NESTING_MAX));
            object.map_or_else(|| candidate.way.action(), |way| way.action())
        })
    }

    /// Inserts a new route. False if the route that it replaced can be found only by reading everything again.
    pub(super) fn insert(&mut self, prefix: IpNet, new: Candidate, place: Placement) -> bool {
        let list = self.candidates.entry(prefix).or_default();
        let order = |c: &Candidate| (c.rank, c.metric);
        let rival = |c: &Candidate| order(c) == order(&new);
        let same = list.iter().position(|c| c.is(&new));
        let first_rival = list.iter().position(rival);
        if place == Placement::Replace
            && let Some(first) = first_rival
        {
            if prefix.addr().is_ipv6() && list.iter().filter(|c| rival(c)).count() > 1 {
                return false;
            }
            list[first] = new;
            if let Some(second) = same.filter(|at| *at != first) {
                list.remove(second);
            }
            return true;
        }
        if let Some(at) = same {
            // The kernel never has the same route twice; the only possible difference is which next hops work.
            list[at] = new;
            return true;
        }
        if prefix.addr().is_ipv6() {
            // A route that gains a next hop is announced as a whole.
            list.retain(|c| !(rival(c) && new.covers(c)));
        }
        let at = match place {
            Placement::Last => list.partition_point(|c| order(c) <= order(&new)),
            _ => list.partition_point(|c| order(c) < order(&new)),
        };
        list.insert(at, new);
        true
    }

    /// Removes a route. False if it is not stored in this form.
    pub(super) fn remove(&mut self, prefix: &IpNet, gone: &Candidate) -> bool {
        let Some(list) = self.candidates.get_mut(prefix) else {
            return true;
        };
        let rival = |c: &Candidate| (c.rank, c.metric) == (gone.rank, gone.metric);
        let known = if let Some(at) = list.iter().position(|c| c.is(gone)) {
            list.remove(at);
            true
        } else if prefix.addr().is_ipv4() {
            // Never removed in part. The route of a next-hop object may be stored in another form.
            let at = list.iter().position(rival);
            at.map(|at| list.remove(at)).is_some()
        } else if let Some(whole) = list.iter_mut().find(|c| rival(c) && c.covers(gone)) {
            whole.subtract(gone);
            true
        } else {
            false
        };
        if list.is_empty() {
            self.candidates.remove(prefix);
        }
        known
    }

    /// Stores a next-hop object and returns the prefixes whose routes use it.
    pub(super) fn set_object(&mut self, object: NextHopObject) -> Vec<IpNet> {
        let id = object.id;
        let old = self.objects.insert(id, object.kind);
        if old.as_ref() == self.objects.get(&id) {
            return Vec::new();
        }
        self.users(id)
    }

    /// Removes a next-hop object; returns whether a route or a group used it.
    pub(super) fn remove_object(&mut self, id: u32) -> bool {
        let used = !self.users(id).is_empty();
        self.objects.remove(&id);
        used
    }

    /// The prefixes whose routes use an object. Visits all routes: objects change seldom, and the copy for the
    /// publication that follows costs more.
    fn users(&self, id: u32) -> Vec<IpNet> {
        let in_group = |kind: &NextHopKind| match kind {
            NextHopKind::Group(members) => members.iter().any(|(member, _)| *member == id),
            _ => false,
        };
        let mut ids: Vec<u32> = vec![id];
        ids.extend(
            self.objects
                .iter()
                .filter(|(_, k)| in_group(k))
                .map(|(id, _)| *id),
        );
        let uses = |c: &Candidate| c.object.is_some_and(|o| ids.contains(&o));
        self.candidates
            .iter()
            .filter(|(_, list)| list.iter().any(uses))
            .map(|(prefix, _)| *prefix)
            .collect()
    }

    /// The destination of an object; None if it is not known.
    fn object_way(&self, id: u32, nesting: u32) -> Option<Way> {
        Some(match self.objects.get(&id)? {
            NextHopKind::Blackhole => Way::Fixed(Action::Blackhole),
            NextHopKind::Unknown => Way::Fixed(Action::Unreachable),
            NextHopKind::Single {
                interface,
                gateway,
                dead,
                no_carrier,
            } => Way::Hops(vec![Hop {
                next: NextHop {
                    interface: *interface,
                    gateway: *gateway,
                    weight: 1,
                },
                dead: *dead,
                no_carrier: *no_carrier,
            }]),
            NextHopKind::Group(_) if nesting == 0 => return None,
            NextHopKind::Group(members) => {
                let mut hops = Vec::new();
                for (member, weight) in members {
                    match self.object_way(*member, nesting - 1) {
                        Some(Way::Hops(mut hop)) => {
                            hop.iter_mut().for_each(|h| h.next.weight = *weight);
                            hops.extend(hop);
                        }
                        // A group with a blackhole has no other members.
                        Some(fixed) => return Some(fixed),
                        None => {}
                    }
                }
                Way::Hops(hops)
            }
        })
    }
}

impl Candidate {
    /// Whether both are the same route, regardless of which next hops work.
    fn is(&self, other: &Self) -> bool {
        let plain = |c: &Self| (c.rank, c.metric, c.object);
        let ways = match (&self.way, &other.way) {
            (Way::Fixed(ours), Way::Fixed(theirs)) => ours == theirs,
            (Way::Hops(ours), Way::Hops(theirs)) => {
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(o, t)| o.next == t.next)
            }
            _ => false,
        };
        plain(self) == plain(other) && ways
    }

    /// Whether all next hops of `other` are among those of this route.
    fn covers(&self, other: &Self) -> bool {
        match (&self.way, &other.way) {
            (Way::Hops(ours), Way::Hops(theirs)) => {
                self.object == other.object
                    && !theirs.is_empty()
                    && theirs.iter().all(|t| ours.iter().any(|o| o.leads_as(t)))
            }
            _ => false,
        }
    }

    /// Removes the next hops of `other`.
    fn subtract(&mut self, other: &Self) {
        if let (Way::Hops(ours), Way::Hops(theirs)) = (&mut self.way, &other.way) {
            ours.retain(|o| !theirs.iter().any(|t| o.leads_as(t)));
        }
    }
}

impl Hop {
    fn leads_as(&self, other: &Self) -> bool {
        let place = |hop: &Self| (hop.next.interface, hop.next.gateway);
        place(self) == place(other)
    }
}

impl Way {
    /// The action without dead next hops, and without those without carrier if another one has a carrier.
    fn action(&self) -> Action {
        let hops = match self {
            Self::Fixed(action) => return action.clone(),
            Self::Hops(hops) => hops,
        };
        let carried = hops.iter().any(|h| !(h.dead || h.no_carrier));
        let usable = |hop: &&Hop| !(hop.dead || carried && hop.no_carrier);
        Action::Forward(hops.iter().filter(usable).map(|h| h.next).collect())
    }
}

/// Reads a route message; None for routes that forwarding does not use: other tables, multicast, selection by type of
/// service or source, cached routes.
pub(super) fn read(message: &RouteMessage) -> Option<(IpNet, Candidate)> {
    let header = &message.header;
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    if header.flags.contains(RouteFlags::Cloned) || header.source_prefix_length != 0 {
        return None;
    }
    if header.tos != 0 && any.is_ipv4() {
        return None;
    }
    let mut attributes = Attributes::default();
    let (mut destination, mut table, mut metric) = (any, u32::from(header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = read_address(address)?,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            other => attributes.read(other),
        }
    }
    let rank = match u8::try_from(table) {
        Ok(libc::RT_TABLE_LOCAL) => 0,
        Ok(libc::RT_TABLE_MAIN) => 1,
        Ok(libc::RT_TABLE_DEFAULT) => 2,
        _ => return None,
    };
    let way = match header.kind {
        RouteType::Unicast => attributes.way(header.flags, any),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast => Way::Fixed(Action::Local),
        RouteType::BlackHole => Way::Fixed(Action::Blackhole),
        // "Throw" continues in the next rule's table, which has nothing for us.
        RouteType::Unreachable | RouteType::Throw => Way::Fixed(Action::Unreachable),
        RouteType::Prohibit => Way::Fixed(Action::Prohibit),
        _ => return None,
    };
    let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?;
    let candidate = Candidate {
        rank,
        metric,
        way,
        object: attributes
            .object
            .filter(|_| header.kind == RouteType::Unicast),
    };
    Some((prefix.trunc(), candidate))
}

/// The attributes of a route that determine its next hops.
#[derive(Default)]
struct Attributes {
    interface: u32,
    gateway: Option<IpAddr>,
    several: Vec<Hop>,
    object: Option<u32>,
    tunnel: bool,
}

impl Attributes {
    fn read(&mut self, attribute: &RouteAttribute) {
        match attribute {
            RouteAttribute::Oif(index) => self.interface = *index,
            RouteAttribute::Gateway(address) => self.gateway = read_address(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    self.read_hop(hop);
                }
            }
            RouteAttribute::NhId(id) => self.object = Some(*id),
            RouteAttribute::Encap(_) => self.tunnel = true,
            _ => {}
        }
    }

    /// One of several next hops.
    fn read_hop(&mut self, hop: &RouteNextHop) {
        let mut own = Self::default();
        for attribute in &hop.attributes {
            own.read(attribute);
        }
        self.tunnel |= own.tunnel;
        self.several.push(Hop {
            next: NextHop {
                interface: hop.interface_index,
                gateway: own.gateway,
                weight: u32::from(hop.hops) + 1,
            },
            dead: hop.flags.contains(RouteNextHopFlags::Dead),
            no_carrier: hop.flags.contains(RouteNextHopFlags::Linkdown),
        });
    }

    fn way(&mut self, flags: RouteFlags, family_of: IpAddr) -> Way {
        if self.tunnel {
            return Way::Fixed(Action::Unreachable);
        }
        if self.several.is_empty() && self.interface != 0 {
            self.several.push(Hop {
                next: NextHop {
                    interface: self.interface,
                    gateway: self.gateway,
                    weight: 1,
                },
                dead: flags.contains(RouteFlags::Dead),
                no_carrier: flags.contains(RouteFlags::Linkdown),
            });
        }
        let mut hops = std::mem::take(&mut self.several);
        if family_of.is_ipv6() {
            // The kernel lists the next hop that changed first; a flow must keep its next hop.
            hops.sort_by_key(|hop| (hop.next.interface, hop.next.gateway));
        }
        Way::Hops(hops)
    }
}

fn read_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(a) => Some((*a).into()),
        RouteAddress::Inet6(a) => Some((*a).into()),
        _ => None,
    }
}
