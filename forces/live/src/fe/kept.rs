//! The FE's routes in the kernel: changes, and comparison with the desired routes.
//!
//! **A route belongs to the router that has claimed its interface.** Other FEs in this network namespace have routes
//! with the same protocol and metric. Routes via interfaces that other FEs have claimed belong to those FEs: this FE
//! never replaces or removes them, and refuses a route of the same prefix. Routes via unclaimed interfaces were left
//! behind by a dead process. A route that drops packets has no interface: unless this FE has installed it, it may
//! belong to any other router in the namespace.
//!
//! Routes of a row refer to its next-hop object ([`targets`](super::targets)), so that a changed row is one message.
//! Where the kernel has no object for a target, the routes themselves have it. The kernel may have deleted an object
//! with its interface, and an announcement of that may come later than a change: a change that the kernel refuses
//! because of it is made again with a new object.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use ipnet::IpNet;
use weir_base::{Instant, Span};
use weir_fe::RouteFailure;
use weir_fe::fib::{self, TargetRow};
use weir_model::Target;

use super::targets::{self, Interfaces, Targets, Unavailable, Via};
use super::upkeep::{Found, Upkeep};
use weir_live::clock;
use weir_live::device::interface::{self, device_gone};
use weir_live::kernel::claim;
use weir_live::kernel::install::{
    InstalledRoute, Installer, METRIC, Only, RefusedRoute, RouteChange,
};

/// Maximum interval between comparisons without an announcement.
const COMPARE_INTERVAL: Span = Span::from_secs(60);
/// Interval after a failed comparison, and after a change that the kernel refused.
const COMPARE_RETRY: Span = Span::from_secs(1);
/// Minimum interval between comparisons; they use at most a tenth of the thread's time.
const COMPARE_GAP: Span = Span::from_millis(100);
const COMPARE_SHARE: u64 = 10;

/// The open connection to the kernel's routes.
pub(super) struct Open {
    installer: Installer,
    pub(super) upkeep: Upkeep,
    targets: Targets,
    /// Interfaces of ports, by the port numbers in routes.
    pub(super) interfaces: BTreeMap<u32, String>,
    /// The routes of this protocol that do not belong to this FE, but to an earlier process or to another FE.
    others: HashMap<IpNet, InstalledRoute>,
    /// Time of the next comparison, and the earliest time for it.
    pub(super) due: Instant,
    pub(super) earliest: Instant,
    /// Whether interfaces have changed since the last comparison.
    pub(super) links: bool,
}

/// Changes for the kernel.
struct Batch {
    interfaces: Interfaces,
    owners: Owners,
    changes: Vec<RouteChange>,
    /// For each change, the index of the request from which it follows.
    places: Vec<usize>,
    refused: Vec<(usize, RefusedRoute)>,
    failed: Option<io::Error>,
}

impl Batch {
    fn push(&mut self, place: usize, change: RouteChange) {
        self.changes.push(change);
        self.places.push(place);
    }
}

impl Open {
    /// Opens the routes of the calling thread's network namespace. Also returns the netlink port in the kernel's
    /// announcements of these changes.
    pub(super) fn new() -> io::Result<(Self, u32)> {
        let mut installer = Installer::new()?;
        let port = installer.port()?;
        let mut open = Self {
            installer,
            upkeep: Upkeep::default(),
            targets: Targets::default(),
            interfaces: BTreeMap::new(),
            others: HashMap::new(),
            due: Instant::ZERO,
            earliest: Instant::ZERO,
            links: false,
        };
        open.compare()?;
        Ok((open, port))
    }

    fn batch(&self) -> Batch {
        let interfaces = targets::find(&self.interfaces, self.installer.has_objects());
        Batch {
            owners: Owners::new(&interfaces),
            interfaces,
            changes: Vec::new(),
            places: Vec::new(),
            refused: Vec::new(),
            failed: None,
        }
    }

    pub(super) fn change(&mut self, changes: &[fib::RouteChange]) -> Vec<RouteFailure> {
        let read = if self.upkeep.is_empty() {
            self.compare() // `others` is current only while this FE has routes
        } else if self.links {
            self.targets.reread(&mut self.installer) // objects go with their interface
        } else {
            Ok(())
        };
        if let Err(error) = read {
            return vec![failure(0, error)];
        }
        let mut batch = self.batch();
        let mut failures = Vec::new();
        for (place, change) in changes.iter().enumerate() {
            let made = match change {
                fib::RouteChange::Put(route) => {
                    self.targets.set(route.row, &route.target);
                    let put = net(route.prefix)
                        .and_then(|prefix| self.put(place, prefix, route.row, &mut batch));
                    self.targets.forget_unused(route.row);
                    put
                }
                fib::RouteChange::Remove(prefix) => {
                    net(*prefix).map(|prefix| self.remove(place, prefix, &mut batch))
                }
                fib::RouteChange::Move(row, target) => {
                    self.targets.set(*row, target);
                    let moved = self.move_all(place, *row, &mut batch);
                    self.targets.forget_unused(*row);
                    moved
                }
            };
            failures.extend(made.err().map(|why| RouteFailure { place, why }));
        }
        self.flush(&mut batch);
        self.repeat(&mut batch);
        self.targets.remove_unused(&mut self.installer);
        failures.extend(batch.failed.map(|error| failure(0, error)));
        if !batch.refused.is_empty() {
            // The agent withdraws the refused routes first, unless it must keep them.
            self.earliest = self.earliest.max(clock::now() + COMPARE_RETRY);
            self.due = self.earliest;
        }
        for (place, refused) in batch.refused {
            match refused.source.raw_os_error() {
                _ if device_gone(&refused.source) => {} // the next comparison finds that it waits
                Some(libc::EEXIST) => failures.push(failure(
                    place,
                    format!(
                        "route {}: another route for this prefix with metric {METRIC} exists, which the FE did \
                         not install",
                        refused.change.prefix()
                    ),
                )),
                _ => failures.push(failure(place, refused)),
            }
        }
        failures
    }

    /// Sets a route, or lets it wait for its interface.
    fn put(
        &mut self,
        place: usize,
        prefix: IpNet,
        row: TargetRow,
        batch: &mut Batch,
    ) -> Result<(), String> {
        let before = self.upkeep.wanted(&prefix);
        let other = self.others.get(&prefix);
        if let Some(owner) = other.and_then(|other| batch.owners.of(other)) {
            return Err(format!("route {prefix}: {}", belongs(owner)));
        }
        let change = match before.is_some() || other.is_some() {
            true => RouteChange::Put,
            false => RouteChange::Add,
        };
        match self.via(row, batch) {
            Ok(via) => {
                self.upkeep.put(prefix, row);
                batch.push(place, change(installed(prefix, via)));
            }
            Err(Unavailable::Away(why)) => self.upkeep.put_later(prefix, row, why),
            Err(Unavailable::Wrong(why)) => return Err(format!("route {prefix}: {why}")),
        }
        self.targets.assign(prefix, Some(row), before);
        Ok(())
    }

    fn remove(&mut self, place: usize, prefix: IpNet, batch: &mut Batch) {
        let row = self.upkeep.wanted(&prefix);
        let own = row.map(|row| match self.targets.object(row) {
            Some(id) => RouteChange::Remove(prefix, Only::Object(id)),
            None => match self.targets.resolve(row, &batch.interfaces) {
                Ok(target) => installed(prefix, (target, None)).removal(),
                Err(_) => RouteChange::Remove(prefix, Only::Any),
            },
        });
        let other = self.others.get(&prefix);
        let removal = match other.map(|other| (other, batch.owners.of(other))) {
            Some((_, Some(_))) => None,
            other => own.or_else(|| Some(other?.0.removal())),
        };
        self.upkeep.remove(&prefix);
        self.targets.assign(prefix, None, row);
        if let Some(removal) = removal {
            batch.push(place, removal);
        }
    }

    /// Gives the routes of a row its new target: by its object, or each by itself if it had or has no object.
    fn move_all(&mut self, place: usize, row: TargetRow, batch: &mut Batch) -> Result<(), String> {
        let before = self.targets.object(row);
        let object = self.via(row, batch).map(|(_, object)| object);
        if before.is_some() && object.as_ref().is_ok_and(|object| *object == before) {
            return Ok(());
        }
        if let Err(Unavailable::Away(_)) = object {
            self.targets.drop_object(row); // the kernel removes its routes with it
        }
        for prefix in self.targets.routes(row) {
            self.put(place, prefix, row, batch)?;
        }
        Ok(())
    }

    /// The kernel's form of a row's target. Makes or changes its object.
    fn via(&mut self, row: TargetRow, batch: &mut Batch) -> Result<Via, Unavailable> {
        let target = self.targets.resolve(row, &batch.interfaces)?;
        if !targets::has_object(&target, &self.installer) {
            self.targets.drop_object(row);
            return Ok((target, None));
        }
        if let Some(id) = self.targets.object(row)
            && self.installer.object(id) == Some(&target)
        {
            return Ok((target, Some(id)));
        }
        self.flush(batch); // the object may need a route to its gateway
        match self.targets.make(row, &target, &mut self.installer) {
            Ok(object) => Ok((target, object)),
            // An object that drops packets needs the loopback interface; a route that drops them does not.
            Err(error) if device_gone(&error) && matches!(target, Target::Discard(_)) => {
                Ok((target, None))
            }
            Err(error) if device_gone(&error) => {
                let why = "its interface is down or has no carrier";
                Err(Unavailable::Away(why.to_owned()))
            }
            Err(error) => Err(Unavailable::Wrong(error.to_string())),
        }
    }

    /// Passes the changes to the kernel.
    fn flush(&mut self, batch: &mut Batch) {
        match self.installer.change(&batch.changes) {
            Ok(refused) => {
                let refused = refused.into_iter();
                let placed = refused.filter_map(|why| Some((*batch.places.get(why.place)?, why)));
                batch.refused.extend(placed);
            }
            Err(error) => batch.failed = Some(error),
        }
        batch.changes.clear();
        batch.places.clear();
    }

    /// Makes the changes again that the kernel has refused because it has deleted their objects.
    fn repeat(&mut self, batch: &mut Batch) {
        let is_stale = |(_, refused): &(usize, RefusedRoute)| match &refused.change {
            RouteChange::Add(route) | RouteChange::Put(route) => {
                route.object.is_some() && targets::is_stale(&refused.source)
            }
            RouteChange::Remove(..) => false,
        };
        let refused = std::mem::take(&mut batch.refused).into_iter();
        let (stale, refused): (Vec<_>, _) = refused.partition(is_stale);
        batch.refused = refused;
        if stale.is_empty() {
            return;
        }
        if let Err(error) = self.targets.reread(&mut self.installer) {
            batch.failed = Some(error);
        }
        for (place, refused) in stale {
            let prefix = refused.change.prefix();
            let Some(row) = self.upkeep.wanted(&prefix) else {
                continue; // removed since
            };
            let change = match &refused.change {
                RouteChange::Add(_) => RouteChange::Add,
                _ => RouteChange::Put,
            };
            match self.via(row, batch) {
                Ok(via) => batch.push(place, change(installed(prefix, via))),
                Err(Unavailable::Away(why)) => self.upkeep.put_later(prefix, row, why),
                Err(Unavailable::Wrong(_)) => batch.refused.push((place, refused)),
            }
        }
        self.flush(batch);
    }

    /// Compares the kernel's routes with the desired routes, and installs those that are due.
    pub(super) fn compare(&mut self) -> io::Result<()> {
        let now = clock::now();
        self.due = now + COMPARE_RETRY; // unless it succeeds
        let mut batch = self.batch();
        self.targets.reread(&mut self.installer)?;
        for row in self.targets.with_objects() {
            let _ = self.via(row, &mut batch); // its routes show whether it worked
        }
        let found = self.installer.installed()?.into_iter();
        let found: HashMap<IpNet, InstalledRoute> =
            found.map(|route| (route.prefix, route)).collect();
        let resolve = |row| {
            let target = self.targets.resolve(row, &batch.interfaces)?;
            Ok((target, self.targets.object(row)))
        };
        let vias: HashMap<TargetRow, Result<Via, Unavailable>> =
            self.targets.rows().map(|row| (row, resolve(row))).collect();
        let is_wanted = |route: &InstalledRoute, row: TargetRow| {
            let via = vias.get(&row).and_then(|via| via.as_ref().ok());
            via.is_some_and(|(target, object)| (target, object) == (&route.target, &route.object))
        };
        let owners = &batch.owners;
        let links = std::mem::take(&mut self.links);
        self.upkeep.compare(now, links, |prefix, row| {
            let there = found.get(prefix);
            if there.is_some_and(|there| is_wanted(there, row)) {
                return Found::Installed;
            }
            match vias.get(&row) {
                Some(Err(Unavailable::Away(why) | Unavailable::Wrong(why))) => {
                    Found::Impossible(why.clone())
                }
                _ => match there.and_then(|there| owners.of(there)) {
                    Some(owner) => Found::Impossible(belongs(owner)),
                    None => Found::Absent,
                },
            }
        });
        let is_other = |route: &&InstalledRoute| match self.upkeep.wanted(&route.prefix) {
            Some(row) => owners.of(route).is_some() && !is_wanted(route, row),
            None => true,
        };
        let others = found.values().filter(is_other);
        self.others = others.map(|route| (route.prefix, route.clone())).collect();
        self.restore(now, batch)?;
        let took = clock::now().since(now);
        self.earliest = clock::now() + COMPARE_GAP.max(took.times(COMPARE_SHARE));
        let next = self.upkeep.next().unwrap_or(now + COMPARE_INTERVAL);
        self.due = next.min(now + COMPARE_INTERVAL).max(self.earliest);
        Ok(())
    }

    /// Installs the routes that are due.
    fn restore(&mut self, now: Instant, mut batch: Batch) -> io::Result<()> {
        let due = self.upkeep.due(now);
        let mut vias: HashMap<TargetRow, Result<Via, Unavailable>> = HashMap::new();
        let mut refused: HashMap<usize, String> = HashMap::new();
        for (place, prefix) in due.iter().enumerate() {
            let Some(row) = self.upkeep.wanted(prefix) else {
                continue;
            };
            let via = vias.entry(row);
            match via.or_insert_with(|| self.via(row, &mut batch)) {
                Ok(via) => {
                    let route = installed(*prefix, via.clone());
                    batch.push(place, RouteChange::Put(route));
                }
                Err(Unavailable::Away(why) | Unavailable::Wrong(why)) => {
                    refused.insert(place, why.clone());
                }
            }
        }
        self.flush(&mut batch);
        self.targets.remove_unused(&mut self.installer);
        if let Some(error) = batch.failed {
            return Err(error);
        }
        let why = |(place, why): (usize, RefusedRoute)| (place, why.source.to_string());
        refused.extend(batch.refused.into_iter().map(why));
        for (place, prefix) in due.iter().enumerate() {
            self.upkeep.tried(now, prefix, refused.remove(&place));
        }
        Ok(())
    }

    pub(super) fn sweep(&mut self) -> io::Result<usize> {
        self.compare()?;
        let owners = self.batch().owners;
        let others = self.others.values();
        let (theirs, gone): (Vec<_>, Vec<_>) = others.partition(|other| owners.of(other).is_some());
        if !theirs.is_empty() {
            let routes = theirs.len();
            tracing::info!(routes, "keeping routes of other FEs on this machine");
        }
        let used: BTreeSet<u32> = theirs.iter().filter_map(|route| route.object).collect();
        let gone: Vec<_> = gone.into_iter().map(InstalledRoute::removal).collect();
        let refused = self.installer.change(&gone)?;
        for refused in &refused {
            tracing::warn!(%refused, "cannot remove a route of an earlier process");
        }
        for change in &gone {
            self.others.remove(&change.prefix());
        }
        self.installer.sweep_objects(&used)?;
        Ok(gone.len() - refused.len())
    }
}

/// The owners of claimed interfaces, looked up when they are needed.
struct Owners {
    /// Interfaces of this FE's own ports.
    own: BTreeSet<u32>,
    all: OnceCell<io::Result<BTreeMap<u32, String>>>,
}

impl Owners {
    fn new(interfaces: &Interfaces) -> Self {
        let own = interfaces
            .values()
            .filter_map(|(name, _)| interface::index(name).ok());
        Self {
            own: own.collect(),
            all: OnceCell::new(),
        }
    }

    /// The other router to which a route of this protocol may belong; `None` if this router has claimed its interface,
    /// or nobody. If the lookup fails, assumes another owner, whose routes must stay.
    fn of(&self, route: &InstalledRoute) -> Option<&str> {
        let interface = route.interface();
        if interface.is_some_and(|interface| self.own.contains(&interface)) {
            return None;
        }
        let all = match self.all.get_or_init(claim::owners) {
            Ok(all) => all,
            Err(_) => return Some("its owner cannot be found"),
        };
        let ours = format!("process {},", std::process::id());
        let is_meant = |index: &u32| interface.is_none_or(|interface| interface == *index);
        let mut others = all.iter().filter(|(index, owner)| {
            is_meant(index) && !self.own.contains(index) && !owner.starts_with(&ours)
        });
        others.next().map(|(_, owner)| &**owner)
    }
}

fn belongs(owner: &str) -> String {
    format!(
        "another FE on this machine has a route for this prefix ({owner}); remove it there first, or give each FE its \
         own prefixes"
    )
}

fn net((address, len): fib::Prefix) -> Result<IpNet, String> {
    let prefix = IpNet::new(address, len).map_err(|error| error.to_string())?;
    Ok(prefix.trunc())
}

fn installed(prefix: IpNet, (target, object): Via) -> InstalledRoute {
    InstalledRoute {
        prefix,
        target,
        object,
    }
}

pub(super) fn failure(place: usize, why: impl std::fmt::Display) -> RouteFailure {
    let why = why.to_string();
    RouteFailure { place, why }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use weir_fe::fib::{Family, NextHop, Route, Selector};
    use weir_live::namespace::Namespace;

    use super::*;

    fn ip(command: &str) {
        let done = Command::new("ip").args(command.split_whitespace()).status();
        assert!(done.unwrap().success(), "ip {command}");
    }

    /// A route of 10.N.0.0/16 through the only port.
    fn put(n: u8) -> fib::RouteChange {
        fib::RouteChange::Put(Route {
            prefix: ([10, n, 0, 0].into(), 16),
            row: (Family::V4, Selector::NextHop(1)),
            target: Target::Hop(NextHop {
                gateway: Some([192, 0, 2, 1].into()),
                port: 1,
            }),
        })
    }

    /// The kernel deletes objects and routes of an interface that goes down, and the FE may hear of it after the next
    /// change.
    #[test]
    fn a_change_after_a_flap_uses_no_deleted_object() {
        let Ok(namespace) = Namespace::new() else {
            return eprintln!("skipped: no namespaces");
        };
        let change = || {
            ip("link add lan type veth peer name far");
            ip("address add 192.0.2.2/24 dev lan");
            ip("link set far up");
            ip("link set lan up");
            let (mut open, _) = Open::new().unwrap();
            if !open.installer.has_objects() {
                return eprintln!("skipped: the kernel has no next-hop objects");
            }
            open.interfaces = [(1, "lan".to_owned())].into();
            let installed = |open: &Open| {
                let routes = open.installer.installed().unwrap().into_iter();
                let mut routes: Vec<_> = routes.map(|route| route.prefix.to_string()).collect();
                routes.sort();
                routes
            };
            assert_eq!(open.change(&[put(0)]), []);
            let mut expected = vec!["10.0.0.0/16".to_owned()];
            for (n, is_known) in [(1, false), (2, true)] {
                assert_eq!(installed(&open), expected);
                ip("link set lan down");
                ip("link set lan up");
                assert_eq!(installed(&open), <[String; 0]>::default());
                open.links = is_known;
                assert_eq!(open.change(&[put(n)]), [], "{is_known}");
                assert_eq!(installed(&open), [format!("10.{n}.0.0/16")]);
                open.links = true;
                open.compare().unwrap();
                expected.push(format!("10.{n}.0.0/16"));
            }
            assert_eq!(installed(&open), expected);
            // An object that is changed, and one whose removal the kernel refuses.
            let hop = |gateway: u8| NextHop {
                gateway: Some([192, 0, 2, gateway].into()),
                port: 1,
            };
            let row = (Family::V4, Selector::NextHop(1));
            let two = Target::of_hops([(hop(1), 1), (hop(3), 1)]).unwrap();
            ip("link set lan down");
            ip("link set lan up");
            assert_eq!(open.change(&[fib::RouteChange::Move(row, two)]), []);
            assert_eq!(installed(&open), expected);
            ip("link set lan down");
            ip("link set lan up");
            let gone = fib::RouteChange::Remove(([10, 0, 0, 0].into(), 16));
            assert_eq!(open.change(&[gone]), []);
        };
        namespace.enter(change).unwrap();
    }
}
