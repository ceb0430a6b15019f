//! Routes and next-hop objects from FPM, next to the kernel's.
//!
//! zebra has one route for each prefix of a table, so a new one replaces the old one. Routes may name an object before
//! it comes; until then they do not work. A peer that connects replays all that it has; routes that it has not repeated
//! are removed at the end of the replay. Until then, old routes keep the old objects: a restarted zebra numbers its
//! objects from the start.

use ipnet::IpNet;
use weir_path::ip::tables::ObjectKey;

use super::{Candidate, Moved, OF_KERNEL, RouteTarget, Routes};
use crate::kernel::message::{LinkState, NextHopKind, NextHopObject, Placement};

/// Maximum routes of a peer: twice the Internet's.
const ROUTES_MAX: usize = 2_000_000;
/// Maximum next hops, of routes, of objects and of groups together.
const HOPS_MAX: usize = 4_000_000;

/// The current replay, and counts. The routes themselves are candidates of their prefixes; objects are in the set of
/// the replay in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Fpm {
    /// The number of the current replay.
    replay: u32,
    routes: usize,
    hops: usize,
}

/// All that came by FPM, outside the kernel's tables, while these are read again.
#[derive(Debug)]
pub(in crate::kernel) struct Detached {
    fpm: Fpm,
    objects: Vec<(ObjectKey, NextHopKind)>,
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

impl Fpm {
    fn count(&mut self, route: &Candidate) {
        self.routes += 1;
        self.hops += hops(route);
    }

    fn uncount(&mut self, route: &Candidate) {
        self.routes -= 1;
        self.hops -= hops(route);
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
        self.objects.contains_key(&(self.fpm.replay, id))
    }

    /// Stores a next-hop object of the peer.
    pub(in crate::kernel) fn set_fpm_object(
        &mut self,
        object: NextHopObject,
    ) -> Result<Moved, Full> {
        let key = (self.fpm.replay, object.id);
        let old = self.objects.get(&key).map_or(0, NextHopKind::len);
        let hops = self.fpm.hops - old + object.kind.len();
        if hops > HOPS_MAX {
            return Err(Full);
        }
        self.fpm.hops = hops;
        Ok(self.put_object(key, object.kind))
    }

    /// Removes a next-hop object of the peer. The routes that name it stay.
    pub(in crate::kernel) fn remove_fpm_object(&mut self, id: u32) -> Moved {
        let key = (self.fpm.replay, id);
        let named = self.named(key);
        if let Some(old) = self.objects.remove(&key) {
            self.fpm.hops -= old.len();
        }
        self.moved(named, false)
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
        let hops = &mut self.fpm.hops;
        self.objects.retain(|(of, _), kind| {
            let is_current = [OF_KERNEL, replay].contains(of);
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
        let objects = self.objects.into_iter();
        Detached {
            fpm: self.fpm,
            objects: objects.filter(|(key, _)| is_fpm(key)).collect(),
            routes: routes.collect(),
        }
    }

    /// Adds all that came by FPM to newly read routes, and returns the prefixes.
    pub(in crate::kernel) fn join_fpm(
        &mut self,
        detached: Detached,
        link: impl Fn(u32) -> LinkState,
    ) -> Vec<IpNet> {
        self.fpm = detached.fpm;
        let objects = detached.objects.into_iter().map(|(key, mut kind)| {
            kind.set_link(&link);
            (key, kind)
        });
        self.objects.extend(objects);
        let joined = detached.routes.into_iter().map(|(prefix, mut route)| {
            route.set_link(&link);
            self.insert(prefix, route, Placement::Replace);
            prefix
        });
        joined.collect()
    }

    /// How much came by FPM.
    pub(in crate::kernel) fn fpm_counts(&self) -> FpmCounts {
        let is_unknown = |key: &ObjectKey| is_fpm(key) && !self.objects.contains_key(key);
        let unresolved = self.uses.iter().filter(|(key, _)| is_unknown(key));
        FpmCounts {
            routes: self.fpm.routes,
            unresolved: unresolved.map(|(_, uses)| uses).sum(),
            objects: self.objects.keys().filter(|key| is_fpm(key)).count(),
        }
    }
}

/// Whether an object has come by FPM.
fn is_fpm((set, _): &ObjectKey) -> bool {
    *set != OF_KERNEL
}

/// The next hops that a route itself has.
fn hops(route: &Candidate) -> usize {
    match &route.way {
        RouteTarget::Hops(hops) => hops.len(),
        RouteTarget::Fixed(_) => 0,
    }
}
