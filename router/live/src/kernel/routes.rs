//! All routes of the kernel for each prefix, one of which is active.
//!
//! A prefix may have routes in several tables and with several metrics. The active route is the first working route in
//! this order: tables local, main, default; then lowest metric; then the router's preference (RFC 4191); then the
//! kernel's own order. A route whose lifetime has ended does not work.
//!
//! The kernel searches one table after the other. It treats IPv4's local and main as one table as long as nobody has
//! added a rule; so a route of `default` counts only where those two have no route. IPv6's local comes before main, and
//! there is no rule for `default`. A throw route ends the search in its table.
//!
//! | not followed | its packets |
//! |---|---|
//! | routes for a type of service (IPv4) | take the route without one |
//! | routes with an encapsulation | are answered with "unreachable" |

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Instant;

use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr};
use weir_path::ip::tables::{Action, NextHop, ObjectKey, Route};

use self::fpm::Fpm;
use super::message::{LinkState, NextHopKind, NextHopObject, Placement};

pub(super) mod fpm;

/// One of the routes of a prefix.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) rank: u8,
    pub(super) metric: u32,
    /// The router's preference; smaller is better.
    pub(super) preference: u8,
    /// The sources to which the route applies (IPv6); `None` for all.
    pub(super) from: Option<IpNet>,
    /// The end of its lifetime.
    pub(super) expires: Option<Instant>,
    pub(super) mtu: Option<u32>,
    pub(super) source: Option<IpAddr>,
    pub(super) scope: u8,
    pub(super) protocol: u8,
    /// The action of the route itself.
    pub(super) way: RouteTarget,
    /// The next-hop object to which the route refers instead.
    pub(super) object: Option<u32>,
    /// The replay in which zebra last sent the route by FPM; `None` for the kernel's routes.
    pub(super) fpm: Option<u32>,
}

/// The destination of a route.
#[derive(Clone, Debug)]
pub(super) enum RouteTarget {
    /// No next hop: the route itself states the action.
    Fixed(Action),
    /// One of these next hops.
    Hops(Vec<Hop>),
}

/// A next hop, and whether the kernel would use it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) next: NextHop,
    pub(super) dead: bool,
    pub(super) no_carrier: bool,
}

/// The routes and next-hop objects of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    candidates: HashMap<IpNet, Vec<Candidate>>,
    objects: HashMap<ObjectKey, NextHopKind>,
    /// How many routes name each object, known or not: most changes of objects affect no route.
    uses: HashMap<ObjectKey, usize>,
    fpm: Fpm,
    /// Prefixes whose lookup involves another table: those of `default`, and those of throw routes.
    linked: BTreeSet<IpNet>,
    /// IPv6 networks in the table local, which hide those of main.
    wide_local: BTreeSet<IpNet>,
    /// The end of the first lifetime.
    first_end: Option<Instant>,
    unfollowed: BTreeSet<Unfollowed>,
}

/// The result of a changed next-hop object: the objects of which all routes change in place, or the prefixes whose
/// active route may change.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) objects: BTreeSet<ObjectKey>,
    pub(super) prefixes: Vec<IpNet>,
}

/// A route of the kernel that is not followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unfollowed {
    /// Destination of the route.
    pub prefix: IpNet,
    /// Reason why it is not followed.
    pub why: Unsupported,
    pub(super) metric: u32,
}

/// The attribute because of which a route is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unsupported {
    /// A type of service: the route applies only to its packets.
    TypeOfService(u8),
    /// An encapsulation: MPLS, a tunnel, segment routing.
    Encapsulation,
}

/// Maximum routes that are listed as not followed; default routes come first.
const UNFOLLOWED_MAX: usize = 256;
/// The table `main`.
pub(super) const RANK_MAIN: u8 = 1;
/// The table `default`.
pub(super) const RANK_DEFAULT: u8 = 2;

/// The set of the kernel's objects. FPM's objects are in the set of their replay.
const OF_KERNEL: u32 = u32::MAX;

/// Members of a group are single objects: the kernel permits no deeper nesting.
const NESTING_MAX: u32 = 1;

impl Routes {
    /// The active route of a prefix.
    pub(super) fn in_force(&self, prefix: &IpNet) -> Option<Route> {
        let own = self.first(prefix, |c| c.from.is_none());
        let list = self.candidates.get(prefix)?;
        let mut sources: Vec<IpNet> = list.iter().filter_map(|c| c.from).collect();
        if sources.is_empty() {
            return own;
        }
        sources.sort_by_key(|net| std::cmp::Reverse(net.prefix_len()));
        sources.dedup();
        let of_source = |net: IpNet| Some((net, self.first(prefix, |c| c.from == Some(net))?));
        let mut routes: Vec<_> = sources.into_iter().filter_map(of_source).collect();
        let any = IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0).ok()?;
        match (routes.is_empty(), own) {
            (true, own) => own,
            (false, own) => {
                routes.extend(own.map(|route| (any, route)));
                Some(Action::BySource(routes).into())
            }
        }
    }

    /// The first working route of a prefix, from the first table that has a route for it.
    fn first(&self, prefix: &IpNet, counts: impl Fn(&Candidate) -> bool) -> Option<Route> {
        let early = self.working(prefix, |c| counts(c) && !c.is_late(prefix));
        match early.as_ref().map(|route| &route.action) {
            Some(Action::Throw) if prefix.addr().is_ipv4() => self.in_default(prefix).or(early),
            Some(_) => early,
            None if self.linked.is_empty() && self.wide_local.is_empty() => {
                self.working(prefix, counts)
            }
            None => {
                // A shorter prefix of the earlier table hides the route.
                let shorter = supernets(prefix).skip(1);
                let mut early = shorter.filter_map(|net| self.working(&net, |c| !c.is_late(&net)));
                match early.next().map(|route| route.action) {
                    None | Some(Action::Throw) => self.working(prefix, counts),
                    Some(_) => None,
                }
            }
        }
    }

    /// The route of the table `default` that has the longest prefix which covers this one.
    fn in_default(&self, prefix: &IpNet) -> Option<Route> {
        let is_default = |c: &Candidate| c.rank == RANK_DEFAULT;
        supernets(prefix).find_map(|net| self.working(&net, is_default))
    }

    fn working(&self, prefix: &IpNet, counts: impl Fn(&Candidate) -> bool) -> Option<Route> {
        let list = self.candidates.get(prefix)?;
        list.iter().filter(|c| counts(c)).find_map(|candidate| {
            if candidate.expires.is_some_and(|at| at <= Instant::now()) {
                return None;
            }
            let action = self.action(candidate);
            let works = !matches!(&action, Action::Forward(hops) if hops.is_empty());
            works.then_some(Route {
                action,
                metric: candidate.metric,
                mtu: candidate.mtu,
                source: candidate.source,
                scope: candidate.scope,
                protocol: candidate.protocol,
                object: candidate.object_key(),
            })
        })
    }

    /// The actions of all routes of a prefix, including inactive ones.
    pub(super) fn all_of(&self, prefix: &IpNet) -> impl Iterator<Item = Action> {
        let candidates = self.candidates.get(prefix).into_iter().flatten();
        candidates.map(|candidate| self.action(candidate))
    }

    /// The action of a route, which its next-hop object decides if it has one.
    fn action(&self, route: &Candidate) -> Action {
        let by_object = route.object_key().and_then(|key| self.object_action(key));
        by_object.unwrap_or_else(|| route.way.action())
    }

    /// The action of an object; `None` if the object is unknown.
    pub(super) fn object_action(&self, (set, id): ObjectKey) -> Option<Action> {
        let way = object_way(&|id| self.objects.get(&(set, id)), id, NESTING_MAX);
        way.map(|way| way.action())
    }

    /// The prefixes whose active route may differ after a change of this prefix: itself, and prefixes within it that
    /// depend on another table.
    pub(super) fn affected(&self, prefix: &IpNet) -> Vec<IpNet> {
        let within = |net: &&IpNet| *net != prefix && prefix.contains(*net);
        let mut all = vec![*prefix];
        if prefix.addr().is_ipv4() {
            all.extend(self.linked.iter().filter(within));
        } else if self.wide_local.contains(prefix) {
            all.extend(self.candidates.keys().filter(within));
        }
        all
    }

    /// Whether the lifetime of a route has ended since it was read: the kernel may have prolonged it without a message.
    pub(super) fn has_expired(&self) -> bool {
        self.first_end.is_some_and(|at| at <= Instant::now())
    }

    /// The routes that are not followed, at most [`UNFOLLOWED_MAX`].
    pub(super) fn unfollowed(&self) -> impl Iterator<Item = &Unfollowed> {
        self.unfollowed.iter()
    }

    /// Adds a route to the list of routes that are not followed, or removes it from the list.
    pub(super) fn set_unfollowed(&mut self, route: Unfollowed, is_there: bool) {
        if !is_there {
            self.unfollowed.remove(&route);
            return;
        }
        self.unfollowed.insert(route);
        if self.unfollowed.len() > UNFOLLOWED_MAX {
            let mut others = self.unfollowed.iter().rev();
            let other = others.find(|route| route.prefix.prefix_len() > 0).cloned();
            match other {
                Some(other) => drop(self.unfollowed.remove(&other)),
                None => drop(self.unfollowed.pop_last()),
            }
        }
    }

    /// Removes the route that `by` has replaced from the list of routes that are not followed.
    pub(super) fn replace_unfollowed(&mut self, prefix: &IpNet, by: &Candidate) {
        let replaced = Unfollowed {
            prefix: *prefix,
            why: Unsupported::Encapsulation,
            metric: by.metric,
        };
        self.unfollowed.remove(&replaced);
    }

    /// Inserts a new route. Returns false if only a new dump can determine the route that it replaced.
    pub(super) fn insert(&mut self, prefix: IpNet, new: Candidate, place: Placement) -> bool {
        // A route that has already expired stays until the kernel removes it.
        let end = new.expires.filter(|at| *at > Instant::now());
        self.first_end = self.first_end.into_iter().chain(end).min();
        if new.rank == RANK_DEFAULT || matches!(new.way, RouteTarget::Fixed(Action::Throw)) {
            self.linked.insert(prefix); // never removed: at worst, it causes useless lookups
        }
        if new.rank == 0 && prefix.addr().is_ipv6() && prefix.prefix_len() < prefix.max_prefix_len()
        {
            self.wide_local.insert(prefix);
        }
        self.edit(prefix, |list| {
            // The kernel's route and FPM's with the same metric are the same; the kernel notices a lost link first.
            let order = |c: &Candidate| (c.rank, c.metric, c.fpm.is_some(), c.preference);
            let rival = |c: &Candidate| c.rivals(&new);
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
        })
    }

    /// Removes a route. Returns false if it is not stored in this form.
    pub(super) fn remove(&mut self, prefix: &IpNet, gone: &Candidate) -> bool {
        if !self.candidates.contains_key(prefix) {
            return true;
        }
        let rival = |c: &Candidate| c.rivals(gone);
        self.edit(*prefix, |list| {
            if let Some(at) = list.iter().position(|c| c.is(gone)) {
                list.remove(at);
                true
            } else if prefix.addr().is_ipv4() {
                // IPv4 routes are never removed in part. The route of a next-hop object may be stored in another form.
                let at = list.iter().position(rival);
                at.map(|at| list.remove(at)).is_some()
            } else if let Some(whole) = list.iter_mut().find(|c| rival(c) && c.covers(gone)) {
                whole.subtract(gone);
                list.retain(
                    |c| !matches!(&c.way, RouteTarget::Hops(hops) if hops.is_empty() && c.object.is_none()),
                );
                true
            } else {
                false
            }
        })
    }

    /// Changes the routes of a prefix, and counts which objects they name.
    fn edit<T>(&mut self, prefix: IpNet, change: impl FnOnce(&mut Vec<Candidate>) -> T) -> T {
        // Most prefixes have one route.
        let list = self.candidates.entry(prefix);
        let list = list.or_insert_with(|| Vec::with_capacity(1));
        for key in list.iter().filter_map(Candidate::object_key) {
            if let Entry::Occupied(mut uses) = self.uses.entry(key) {
                *uses.get_mut() -= 1;
                if *uses.get() == 0 {
                    uses.remove();
                }
            }
        }
        let changed = change(list);
        for key in list.iter().filter_map(Candidate::object_key) {
            *self.uses.entry(key).or_default() += 1;
        }
        if list.is_empty() {
            self.candidates.remove(&prefix);
        }
        changed
    }

    /// Stores a next-hop object of the kernel.
    pub(super) fn set_object(&mut self, object: NextHopObject) -> Moved {
        self.put_object((OF_KERNEL, object.id), object.kind)
    }

    fn put_object(&mut self, key: ObjectKey, kind: NextHopKind) -> Moved {
        if self.objects.get(&key) == Some(&kind) {
            return Moved::default();
        }
        let named = self.named(key);
        let worked_before = self.work(&named);
        self.objects.insert(key, kind);
        self.moved(named, worked_before)
    }

    /// Removes a next-hop object; returns whether a route or a group used it.
    pub(super) fn remove_object(&mut self, id: u32) -> bool {
        let is_used = !self.named((OF_KERNEL, id)).is_empty();
        self.objects.remove(&(OF_KERNEL, id));
        is_used
    }

    /// The objects that routes name, and whose action depends on this object: itself, and groups of which it is a
    /// member.
    fn named(&self, key: ObjectKey) -> BTreeSet<ObjectKey> {
        let (set, id) = key;
        let is_group = |of: &ObjectKey| {
            let kind = self.objects.get(of).filter(|_| of.0 == set);
            kind.is_some_and(|kind| kind.members().any(|member| member == id))
        };
        let named = self.uses.keys().copied();
        named.filter(|of| *of == key || is_group(of)).collect()
    }

    /// Whether each of these objects gives its routes a way.
    fn work(&self, keys: &BTreeSet<ObjectKey>) -> bool {
        let works = |action: Action| !matches!(&action, Action::Forward(hops) if hops.is_empty());
        keys.iter()
            .all(|key| self.object_action(*key).is_some_and(works))
    }

    /// The routes to which a change of these objects matters: in every other case, another route of a prefix may be the
    /// active one now.
    fn moved(&self, objects: BTreeSet<ObjectKey>, worked_before: bool) -> Moved {
        if objects.is_empty() || worked_before && self.work(&objects) {
            return Moved {
                objects,
                prefixes: Vec::new(),
            };
        }
        Moved {
            prefixes: self.users(&objects),
            objects: BTreeSet::new(),
        }
    }

    /// The prefixes whose routes name any of these objects. Visits all routes: it is seldom needed.
    pub(super) fn users(&self, objects: &BTreeSet<ObjectKey>) -> Vec<IpNet> {
        let uses = |c: &Candidate| c.object_key().is_some_and(|key| objects.contains(&key));
        self.candidates
            .iter()
            .filter(|(_, list)| list.iter().any(uses))
            .map(|(prefix, _)| *prefix)
            .collect()
    }
}

impl Candidate {
    /// The object that decides its action.
    pub(super) fn object_key(&self) -> Option<ObjectKey> {
        Some((self.fpm.unwrap_or(OF_KERNEL), self.object?))
    }

    /// Whether the kernel searches its table after another table, for all prefixes.
    fn is_late(&self, prefix: &IpNet) -> bool {
        match prefix {
            IpNet::V4(_) => self.rank == RANK_DEFAULT,
            IpNet::V6(_) => self.rank > 0,
        }
    }

    /// Whether only their order in the kernel, or their preference, decides between the two routes.
    fn rivals(&self, other: &Self) -> bool {
        let plain = |c: &Self| (c.rank, c.metric, c.from, c.fpm.is_some());
        plain(self) == plain(other)
    }

    /// Whether both are the same route, regardless of which next hops work.
    fn is(&self, other: &Self) -> bool {
        let plain = |c: &Self| {
            let attributes = (c.mtu, c.source, c.scope);
            (
                c.fpm.is_some(),
                c.rank,
                c.metric,
                c.from,
                c.object,
                attributes,
            )
        };
        let ways = match (&self.way, &other.way) {
            (RouteTarget::Fixed(ours), RouteTarget::Fixed(theirs)) => ours == theirs,
            (RouteTarget::Hops(ours), RouteTarget::Hops(theirs)) => {
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(o, t)| o.next == t.next)
            }
            _ => false,
        };
        plain(self) == plain(other) && ways
    }

    /// Whether all next hops of `other` are among those of this route.
    fn covers(&self, other: &Self) -> bool {
        match (&self.way, &other.way) {
            (RouteTarget::Hops(ours), RouteTarget::Hops(theirs)) => {
                self.object == other.object
                    && !theirs.is_empty()
                    && theirs.iter().all(|t| ours.iter().any(|o| o.leads_as(t)))
            }
            _ => false,
        }
    }

    /// Sets the state of the interface of each next hop.
    pub(super) fn set_link(&mut self, link: impl Fn(u32) -> LinkState) {
        if let RouteTarget::Hops(hops) = &mut self.way {
            for hop in hops {
                let state = link(hop.next.interface);
                (hop.dead, hop.no_carrier) = (state.dead, state.no_carrier);
            }
        }
    }

    /// Removes the next hops of `other`.
    fn subtract(&mut self, other: &Self) {
        if let (RouteTarget::Hops(ours), RouteTarget::Hops(theirs)) = (&mut self.way, &other.way) {
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

impl RouteTarget {
    /// The action without dead next hops, and without next hops that lack a carrier if another one has a carrier.
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

/// The destination of an object; `None` if the object is unknown.
fn object_way<'a>(
    kind: &impl Fn(u32) -> Option<&'a NextHopKind>,
    id: u32,
    nesting: u32,
) -> Option<RouteTarget> {
    Some(match kind(id)? {
        NextHopKind::Blackhole => RouteTarget::Fixed(Action::Blackhole),
        NextHopKind::Unknown => RouteTarget::Fixed(Action::Unreachable),
        NextHopKind::Single {
            interface,
            gateway,
            dead,
            no_carrier,
        } => RouteTarget::Hops(vec![Hop {
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
                match object_way(kind, *member, nesting - 1) {
                    Some(RouteTarget::Hops(mut hop)) => {
                        hop.iter_mut().for_each(|h| h.next.weight = *weight);
                        hops.extend(hop);
                    }
                    // A group with a blackhole has no other members.
                    Some(fixed) => return Some(fixed),
                    None => {}
                }
            }
            RouteTarget::Hops(hops)
        }
    })
}

/// The prefixes that cover this one, beginning with itself.
fn supernets(prefix: &IpNet) -> impl Iterator<Item = IpNet> {
    std::iter::successors(Some(*prefix), IpNet::supernet)
}

impl fmt::Display for Unfollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, why, .. } = self;
        match why {
            Unsupported::TypeOfService(tos) => write!(f, "{prefix} tos {tos:#04x}"),
            Unsupported::Encapsulation => write!(f, "{prefix} encap"),
        }
    }
}
