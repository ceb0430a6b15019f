//! Routes and next-hop objects from FPM, next to the kernel's.
//!
//! zebra has one route for each prefix of a table, so a new one replaces the old one. Routes may name an object before it
//! comes; until then they do not work. A peer that connects replays all that it has; routes that it has not repeated are
//! removed at the end of the replay. Until then, old routes keep the old objects: a restarted zebra numbers its objects
//! from the start.

use std::collections::HashMap;

use ipnet::IpNet;

use super::{Candidate, RouteTarget, Routes};
use crate::kernel::message::{LinkState, NextHopKind, NextHopObject, Placement};

/// Maximum routes of a peer: twice the Internet's.
const ROUTES_MAX: usize = 2_000_000;
/// Maximum next hops, of routes, of objects and of groups together.
const HOPS_MAX: usize = 4_000_000;

/// Next-hop objects from FPM, and counts. The routes themselves are candidates of their prefixes.
#[derive(Clone, Debug, Default)]
pub(super) struct FpmObjects {
    objects: HashMap<Key, NextHopKind>,
    /// How many routes name each object, known or not: most changes of objects affect no route.
    uses: HashMap<Key, usize>,
    /// The number of the current replay.
    replay: u32,
    routes: usize,
    hops: usize,
}

/// The replay in which an object came, and its number in messages.
type Key = (u32, u32);

/// All that came by FPM, outside the kernel's tables, while these are read again.
#[derive(Debug)]
pub(in crate::kernel) struct Detached {
    objects: FpmObjects,
    routes: Vec<(IpNet, Candidate)>,
}

/// Numbers of routes and objects from FPM.
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
    pub(super) fn kind(&self, key: Key) -> Option<&NextHopKind> {
        self.objects.get(&key)
    }

    fn count(&mut self, route: &Candidate) {
        self.routes += 1;
        self.hops += hops(route);
        if let Some(key) = key(route) {
            *self.uses.entry(key).or_default() += 1;
        }
    }

    fn uncount(&mut self, route: &Candidate) {
        self.routes -= 1;
        self.hops -= hops(route);
        if let Some(key) = key(route)
            && let Some(uses) = self.uses.get_mut(&key)
        {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&key);
            }
        }
    }
}

impl Routes {
    /// Stores a route of the peer, in place of its last route with this prefix and metric.
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
        self.fpm.objects.contains_key(&(self.fpm.replay, id))
    }

    /// Stores a next-hop object of the peer; returns the prefixes whose routes use it.
    pub(in crate::kernel) fn set_fpm_object(
        &mut self,
        object: NextHopObject,
    ) -> Result<Vec<IpNet>, Full> {
        let key = (self.fpm.replay, object.id);
        let old = self.fpm.objects.get(&key);
        if old == Some(&object.kind) {
            return Ok(Vec::new());
        }
        let hops = self.fpm.hops - old.map_or(0, NextHopKind::len) + object.kind.len();
        if hops > HOPS_MAX {
            return Err(Full);
        }
        self.fpm.hops = hops;
        self.fpm.objects.insert(key, object.kind);
        Ok(self.fpm_users(object.id))
    }

    /// Removes a next-hop object of the peer; returns the prefixes whose routes name it, which stay.
    pub(in crate::kernel) fn remove_fpm_object(&mut self, id: u32) -> Vec<IpNet> {
        let users = self.fpm_users(id);
        if let Some(old) = self.fpm.objects.remove(&(self.fpm.replay, id)) {
            self.fpm.hops -= old.len();
        }
        users
    }

    /// The prefixes whose routes name an object, or a group of which it is a member.
    fn fpm_users(&self, id: u32) -> Vec<IpNet> {
        let replay = self.fpm.replay;
        let objects = self.fpm.objects.iter();
        let groups = objects.filter(|((of, _), kind)| *of == replay && kind.has_member(id));
        let mut ids: Vec<u32> = groups.map(|((_, group), _)| *group).collect();
        ids.push(id);
        ids.retain(|id| self.fpm.uses.contains_key(&(replay, *id)));
        match ids.is_empty() {
            true => Vec::new(),
            false => self.users(&ids, Some(replay)),
        }
    }

    /// Begins a replay.
    pub(in crate::kernel) fn begin_fpm_replay(&mut self) {
        self.fpm.replay += 1;
    }

    /// Ends a replay; returns the prefixes whose routes are removed.
    pub(in crate::kernel) fn end_fpm_replay(&mut self) -> Vec<IpNet> {
        let replay = self.fpm.replay;
        let is_old = |c: &Candidate| c.fpm.is_some_and(|of| of != replay);
        let old = self.candidates.iter();
        let old = old.flat_map(|(prefix, list)| {
            let old = list.iter().filter(|c| is_old(c));
            old.map(|route| (*prefix, route.clone()))
        });
        let old: Vec<_> = old.collect();
        for (prefix, route) in &old {
            self.remove_fpm(prefix, route);
        }
        let FpmObjects { objects, hops, .. } = &mut self.fpm;
        objects.retain(|(of, _), kind| {
            let is_current = *of == replay;
            *hops -= if is_current { 0 } else { kind.len() };
            is_current
        });
        old.into_iter().map(|(prefix, _)| prefix).collect()
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
        let kinds = self.fpm.objects.values_mut();
        kinds.for_each(|kind| kind.set_link(&link));
        let joined = detached.routes.into_iter().map(|(prefix, mut route)| {
            route.set_link(&link);
            self.insert(prefix, route, Placement::Replace);
            prefix
        });
        joined.collect()
    }

    /// How much came by FPM.
    pub(in crate::kernel) fn fpm_counts(&self) -> FpmCounts {
        let FpmObjects { objects, uses, .. } = &self.fpm;
        let unknown = uses.iter().filter(|(key, _)| !objects.contains_key(key));
        FpmCounts {
            routes: self.fpm.routes,
            unresolved: unknown.map(|(_, uses)| uses).sum(),
            objects: objects.len(),
        }
    }
}

/// The object that a route names.
pub(super) fn key(route: &Candidate) -> Option<Key> {
    Some((route.fpm?, route.object?))
}

/// The next hops that a route itself has.
fn hops(route: &Candidate) -> usize {
    match &route.way {
        RouteTarget::Hops(hops) => hops.len(),
        RouteTarget::Fixed(_) => 0,
    }
}
