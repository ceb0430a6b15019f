//! All routes that the kernel has for each prefix, of which one is in force.
//!
//! A prefix may have routes in several tables and of several metrics. In force is the first that
//! works in the order local table, main, default; then lowest metric; then the kernel's own order.

use std::collections::HashMap;

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_path::tables::{Action, NextHop, Route};

use super::message::{NextHopKind, NextHopObject, Placement};

/// One of the routes of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    rank: u8,
    metric: u32,
    /// What the route itself says.
    inline: Action,
    /// The next-hop object that it refers to instead.
    object: Option<u32>,
}

/// The routes and next-hop objects of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    candidates: HashMap<IpNet, Vec<Candidate>>,
    objects: HashMap<u32, NextHopKind>,
}

/// Members of a group are single objects: the kernel allows no deeper nesting.
const NESTING_MAX: u32 = 1;

impl Routes {
    /// The route of a prefix that is in force.
    pub(super) fn in_force(&self, prefix: &IpNet) -> Option<Route> {
        self.candidates.get(prefix)?.iter().find_map(|candidate| {
            let action = candidate
                .object
                .and_then(|id| self.object_action(id, NESTING_MAX))
                .unwrap_or_else(|| candidate.inline.clone());
            let works = !matches!(&action, Action::Forward(hops) if hops.is_empty());
            works.then_some(Route {
                action,
                metric: candidate.metric,
            })
        })
    }

    /// Takes a new route in. False if only reading everything again can tell what it replaced.
    pub(super) fn insert(&mut self, prefix: IpNet, new: Candidate, place: Placement) -> bool {
        let list = self.candidates.entry(prefix).or_default();
        if list.contains(&new) {
            return true;
        }
        let rival = |c: &Candidate| (c.rank, c.metric) == (new.rank, new.metric);
        let rivals = list.iter().filter(|c| rival(c)).count();
        match prefix {
            // An IPv6 route that grows a next hop is announced whole.
            IpNet::V6(_) if rivals > 0 && place != Placement::Replace => {
                list.retain(|c| !(rival(c) && new.covers(c)));
            }
            IpNet::V6(_) if rivals > 1 => return false,
            _ if place == Placement::Replace && rivals > 0 => {
                if let Some(old) = list.iter_mut().find(|c| rival(c)) {
                    *old = new;
                }
                return true;
            }
            _ => {}
        }
        let order = |c: &Candidate| (c.rank, c.metric);
        let at = match place {
            Placement::Last => list.partition_point(|c| order(c) <= order(&new)),
            _ => list.partition_point(|c| order(c) < order(&new)),
        };
        list.insert(at, new);
        true
    }

    /// Removes a route. False if it was not known in this form.
    pub(super) fn remove(&mut self, prefix: &IpNet, gone: &Candidate) -> bool {
        let Some(list) = self.candidates.get_mut(prefix) else {
            return true;
        };
        let rival = |c: &Candidate| (c.rank, c.metric) == (gone.rank, gone.metric);
        let known = if let Some(at) = list.iter().position(|c| c == gone) {
            list.remove(at);
            true
        } else if let Some(part) = list.iter_mut().find(|c| rival(c) && c.covers(gone)) {
            part.subtract(gone);
            true
        } else if prefix.addr().is_ipv4()
            && let Some(at) = list.iter().position(rival)
        {
            list.remove(at);
            true
        } else {
            false
        };
        if list.is_empty() {
            self.candidates.remove(prefix);
        }
        known
    }

    /// Stores a next-hop object and gives the prefixes whose routes go by it.
    pub(super) fn set_object(&mut self, object: NextHopObject) -> Vec<IpNet> {
        let id = object.id;
        let old = self.objects.insert(id, object.kind);
        if old.as_ref() == self.objects.get(&id) {
            return Vec::new();
        }
        self.users(id)
    }

    /// Forgets a next-hop object; says whether a route or a group went by it.
    pub(super) fn remove_object(&mut self, id: u32) -> bool {
        let used = !self.users(id).is_empty();
        self.objects.remove(&id);
        used
    }

    /// The prefixes whose routes go by an object. Walks all routes: objects change seldom, and
    /// the copy that is published afterwards costs more.
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

    /// What an object does; None if it is not known.
    fn object_action(&self, id: u32, nesting: u32) -> Option<Action> {
        Some(match self.objects.get(&id)? {
            NextHopKind::Blackhole => Action::Blackhole,
            NextHopKind::Unknown => Action::Unreachable,
            NextHopKind::Single { dead: true, .. } => Action::Forward(Vec::new()),
            NextHopKind::Single {
                interface, gateway, ..
            } => Action::Forward(vec![NextHop {
                interface: *interface,
                gateway: *gateway,
                weight: 1,
            }]),
            NextHopKind::Group(_) if nesting == 0 => return None,
            NextHopKind::Group(members) => {
                let mut hops = Vec::new();
                for (member, weight) in members {
                    match self.object_action(*member, nesting - 1) {
                        Some(Action::Forward(ways)) => hops.extend(ways.iter().map(|w| NextHop {
                            weight: *weight,
                            ..*w
                        })),
                        // A group with a blackhole has no other member.
                        Some(other) => return Some(other),
                        None => {}
                    }
                }
                Action::Forward(hops)
            }
        })
    }
}

impl Candidate {
    /// Whether all next hops of `other` are among this one's.
    fn covers(&self, other: &Self) -> bool {
        let same = |a: &NextHop, b: &NextHop| (a.interface, a.gateway) == (b.interface, b.gateway);
        match (&self.inline, &other.inline) {
            (Action::Forward(ours), Action::Forward(theirs)) => {
                self.object == other.object
                    && !theirs.is_empty()
                    && theirs.iter().all(|t| ours.iter().any(|o| same(o, t)))
            }
            _ => false,
        }
    }

    /// Removes the next hops of `other`.
    fn subtract(&mut self, other: &Self) {
        if let (Action::Forward(ours), Action::Forward(theirs)) = (&mut self.inline, &other.inline)
        {
            ours.retain(|o| {
                let same = |t: &NextHop| (o.interface, o.gateway) == (t.interface, t.gateway);
                !theirs.iter().any(same)
            });
        }
    }
}

/// Reads a route message; None for routes that forwarding does not look at: other tables,
/// multicast, by type of service or source, cached ones.
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
    let mut way = Way::default();
    let (mut destination, mut table, mut metric) = (any, u32::from(header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = read_address(address)?,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            other => way.read(other),
        }
    }
    let rank = match u8::try_from(table) {
        Ok(libc::RT_TABLE_LOCAL) => 0,
        Ok(libc::RT_TABLE_MAIN) => 1,
        Ok(libc::RT_TABLE_DEFAULT) => 2,
        _ => return None,
    };
    let inline = match header.kind {
        RouteType::Unicast => way.action(header.flags),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast => Action::Local,
        RouteType::BlackHole => Action::Blackhole,
        // "Throw" goes on in the next rule's table, where there is nothing for us.
        RouteType::Unreachable | RouteType::Throw => Action::Unreachable,
        RouteType::Prohibit => Action::Prohibit,
        _ => return None,
    };
    let inline = match inline {
        // Of IPv6 the kernel names a change's next hop first; a flow must stay where it is.
        Action::Forward(mut hops) if any.is_ipv6() => {
            hops.sort_by_key(|hop| (hop.interface, hop.gateway));
            Action::Forward(hops)
        }
        other => other,
    };
    let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?;
    let candidate = Candidate {
        rank,
        metric,
        inline,
        object: way.object.filter(|_| header.kind == RouteType::Unicast),
    };
    Some((prefix.trunc(), candidate))
}

/// What the attributes say about the way out.
#[derive(Default)]
struct Way {
    interface: u32,
    gateway: Option<IpAddr>,
    several: Vec<Hop>,
    object: Option<u32>,
    tunnel: bool,
}

/// A next hop, and whether the kernel would use it.
struct Hop {
    next: NextHop,
    dead: bool,
    no_carrier: bool,
}

impl Way {
    fn read(&mut self, attribute: &RouteAttribute) {
        match attribute {
            RouteAttribute::Oif(index) => self.interface = *index,
            RouteAttribute::Gateway(address) => self.gateway = read_address(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    let (hop, tunnel) = read_hop(hop);
                    self.several.push(hop);
                    self.tunnel |= tunnel;
                }
            }
            RouteAttribute::NhId(id) => self.object = Some(*id),
            RouteAttribute::Encap(_) => self.tunnel = true,
            _ => {}
        }
    }

    /// Dead next hops are left out, and those without carrier while another one has it.
    fn action(&mut self, flags: RouteFlags) -> Action {
        if self.tunnel {
            return Action::Unreachable;
        }
        if self.several.is_empty() && self.interface != 0 {
            self.several.push(Hop {
                next: NextHop {
                    interface: self.interface,
                    gateway: self.gateway,
                    weight: 1,
                },
                dead: flags.contains(RouteFlags::Dead),
                no_carrier: false,
            });
        }
        let alive = |hop: &&Hop| !hop.dead;
        let carried = self.several.iter().filter(alive).any(|h| !h.no_carrier);
        let usable = |hop: &&Hop| !(hop.dead || carried && hop.no_carrier);
        Action::Forward(self.several.iter().filter(usable).map(|h| h.next).collect())
    }
}

/// One of several next hops, and whether it leads into a tunnel.
fn read_hop(hop: &RouteNextHop) -> (Hop, bool) {
    let mut way = Way::default();
    for attribute in &hop.attributes {
        way.read(attribute);
    }
    let next = NextHop {
        interface: hop.interface_index,
        gateway: way.gateway,
        weight: u32::from(hop.hops) + 1,
    };
    let hop = Hop {
        next,
        dead: hop.flags.contains(RouteNextHopFlags::Dead),
        no_carrier: hop.flags.contains(RouteNextHopFlags::Linkdown),
    };
    (hop, way.tunnel)
}

fn read_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(a) => Some((*a).into()),
        RouteAddress::Inet6(a) => Some((*a).into()),
        _ => None,
    }
}
