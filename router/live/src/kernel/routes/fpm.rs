//! Routes and next-hop objects that came by FPM, next to those of the kernel.
//!
//! zebra has one route for each prefix of a table, so a new one replaces the old one. Routes may name an object before it
//! comes; until then they do not work. A peer that connects replays all that it has; what it has not repeated at the end
//! of the replay is removed.

use std::collections::HashMap;

use ipnet::IpNet;

use super::{Candidate, RouteTarget, Routes};
use crate::kernel::message::{LinkState, NextHopKind, NextHopObject, Placement};

/// Maximum routes of a peer: twice the Internet's.
const ROUTES_MAX: usize = 2_000_000;
/// Maximum next hops, of routes, of objects and of groups together.
const HOPS_MAX: usize = 4_000_000;

/// What came by FPM, except the routes themselves, which are candidates of their prefixes.
#[derive(Clone, Debug, Default)]
pub(super) struct FpmObjects {
    objects: HashMap<u32, Object>,
    /// How many routes name each object, known or not: most changes of objects affect no route.
    uses: HashMap<u32, usize>,
    /// The number of the current replay.
    replay: u32,
    routes: usize,
    hops: usize,
}

#[derive(Clone, Debug)]
struct Object {
    kind: NextHopKind,
    /// The replay in which the peer last sent it.
    replay: u32,
}

/// All that came by FPM, outside the kernel's tables, while these are read again.
#[derive(Debug)]
pub(in crate::kernel) struct Detached {
    objects: FpmObjects,
    routes: Vec<(IpNet, Candidate)>,
}

/// What a peer has sent, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FpmCounts {
    /// Routes.
    pub routes: usize,
    /// Routes that name a next-hop object which has not come, and therefore do not work.
    pub unresolved: usize,
    /// Next-hop objects.
    pub objects: usize,
}

/// A peer has sent more than a router stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {ROUTES_MAX} routes or {HOPS_MAX} next hops")]
pub(in crate::kernel) struct Full;

impl FpmObjects {
    pub(super) fn kind(&self, id: u32) -> Option<&NextHopKind> {
        self.objects.get(&id).map(|object| &object.kind)
    }

    fn count(&mut self, route: &Candidate) {
        self.routes += 1;
        self.hops += hops(route);
        if let Some(id) = route.object {
            *self.uses.entry(id).or_default() += 1;
        }
    }

    fn uncount(&mut self, route: &Candidate) {
        self.routes -= 1;
        self.hops -= hops(route);
        if let Some(id) = route.object
            && let Some(uses) = self.uses.get_mut(&id)
        {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&id);
            }
        }
    }

    /// The groups of which an object is a member.
    pub(super) fn groups_of(&self, id: u32) -> impl Iterator<Item = u32> {
        let groups = self
            .objects
            .iter()
            .filter(move |(_, o)| o.kind.has_member(id));
        groups.map(|(group, _)| *group)
    }
}

impl Routes {
    /// Stores a route of the peer, in place of the one that it replaces.
    pub(in crate::kernel) fn set_fpm(
        &mut self,
        prefix: IpNet,
        route: Candidate,
    ) -> Result<(), Full> {
        let old = self.fpm_route(&prefix, &route).cloned();
        let (old_routes, old_hops) = old.as_ref().map_or((0, 0), |old| (1, hops(old)));
        if self.fpm.routes - old_routes >= ROUTES_MAX
            || self.fpm.hops - old_hops + hops(&route) > HOPS_MAX
        {
            return Err(Full);
        }
        if let Some(old) = old {
            self.fpm.uncount(&old);
        }
        let route = Candidate {
            fpm: Some(self.fpm.replay),
            ..route
        };
        self.fpm.count(&route);
        self.insert(prefix, route, Placement::Replace);
        Ok(())
    }

    /// Removes the peer's route for a prefix.
    pub(in crate::kernel) fn remove_fpm(&mut self, prefix: &IpNet, route: &Candidate) {
        if let Some(old) = self.fpm_route(prefix, route).cloned() {
            self.fpm.uncount(&old);
            self.remove(prefix, &old);
        }
    }

    fn fpm_route(&self, prefix: &IpNet, route: &Candidate) -> Option<&Candidate> {
        let mut list = self.candidates.get(prefix)?.iter();
        list.find(|c| c.fpm.is_some() && c.metric == route.metric && c.from == route.from)
    }

    /// Whether the peer has sent an object.
    pub(in crate::kernel) fn knows_fpm_object(&self, id: u32) -> bool {
        self.fpm.objects.contains_key(&id)
    }

    /// Stores a next-hop object of the peer; returns the prefixes whose routes use it.
    pub(in crate::kernel) fn set_fpm_object(
        &mut self,
        object: NextHopObject,
    ) -> Result<Vec<IpNet>, Full> {
        let NextHopObject { id, kind } = object;
        let old = self.fpm.objects.get(&id).map_or(0, |old| old.kind.len());
        let hops = self.fpm.hops - old + kind.len();
        if hops > HOPS_MAX {
            return Err(Full);
        }
        self.fpm.hops = hops;
        let replay = self.fpm.replay;
        let old = self.fpm.objects.insert(id, Object { kind, replay });
        if old.map(|old| old.kind).as_ref() == self.fpm.kind(id) {
            return Ok(Vec::new());
        }
        Ok(self.fpm_users(id))
    }

    /// Removes a next-hop object of the peer; returns the prefixes whose routes name it, which stay.
    pub(in crate::kernel) fn remove_fpm_object(&mut self, id: u32) -> Vec<IpNet> {
        let users = self.fpm_users(id);
        if let Some(old) = self.fpm.objects.remove(&id) {
            self.fpm.hops -= old.kind.len();
        }
        users
    }

    fn fpm_users(&self, id: u32) -> Vec<IpNet> {
        let named = |id: &u32| self.fpm.uses.contains_key(id);
        match named(&id) || self.fpm.groups_of(id).any(|group| named(&group)) {
            true => self.users(id, true),
            false => Vec::new(),
        }
    }

    /// Begins a replay.
    pub(in crate::kernel) fn begin_fpm_replay(&mut self) {
        self.fpm.replay += 1;
    }

    /// Ends a replay; returns the prefixes whose routes are removed or use removed objects.
    pub(in crate::kernel) fn end_fpm_replay(&mut self) -> Vec<IpNet> {
        let replay = self.fpm.replay;
        let is_old = |c: &Candidate| c.fpm.is_some_and(|of| of != replay);
        let old = self.candidates.iter();
        let old = old.flat_map(|(prefix, list)| {
            let old = list.iter().filter(|c| is_old(c));
            old.map(|route| (*prefix, route.clone()))
        });
        let old: Vec<_> = old.collect();
        let mut changed: Vec<IpNet> = old.iter().map(|(prefix, _)| *prefix).collect();
        for (prefix, route) in old {
            self.remove_fpm(&prefix, &route);
        }
        let objects = self.fpm.objects.iter();
        let objects: Vec<u32> = objects
            .filter(|(_, o)| o.replay != replay)
            .map(|(id, _)| *id)
            .collect();
        for id in objects {
            changed.extend(self.remove_fpm_object(id));
        }
        changed
    }

    /// Takes all that came by FPM out of these routes.
    pub(in crate::kernel) fn into_fpm(self) -> Detached {
        let all = self.candidates.into_iter();
        let routes = all.flat_map(|(prefix, list)| {
            let list = list.into_iter().filter(|c| c.fpm.is_some());
            list.map(move |route| (prefix, route))
        });
        Detached {
            routes: routes.collect(),
            objects: self.fpm,
        }
    }

    /// Adds all that came by FPM to newly read routes, and returns the prefixes.
    pub(in crate::kernel) fn join_fpm(
        &mut self,
        detached: Detached,
        link: impl Fn(u32) -> LinkState,
    ) -> Vec<IpNet> {
        self.fpm = detached.objects;
        for object in self.fpm.objects.values_mut() {
            object.kind.set_link(&link);
        }
        let joined = detached.routes.into_iter().map(|(prefix, mut route)| {
            route.set_link(&link);
            self.insert(prefix, route, Placement::Replace);
            prefix
        });
        joined.collect()
    }

    /// How much came by FPM.
    pub(in crate::kernel) fn fpm_counts(&self) -> FpmCounts {
        let unknown = self
            .fpm
            .uses
            .iter()
            .filter(|(id, _)| !self.knows_fpm_object(**id));
        FpmCounts {
            routes: self.fpm.routes,
            unresolved: unknown.map(|(_, uses)| uses).sum(),
            objects: self.fpm.objects.len(),
        }
    }
}

/// The next hops that a route itself has.
fn hops(route: &Candidate) -> usize {
    match &route.way {
        RouteTarget::Hops(hops) => hops.len(),
        RouteTarget::Fixed(_) => 0,
    }
}
