//! The FE's routes in the kernel: changes, and comparison with the desired routes.
//!
//! **A route belongs to the router that has claimed its interface.** Other FEs in this network namespace have routes
//! with the same protocol and metric. Routes via interfaces that other FEs have claimed belong to those FEs: this FE
//! never replaces or removes them, and refuses a route of the same prefix. Routes via unclaimed interfaces were left
//! behind by a dead process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use ipnet::IpNet;
use weir_base::{Instant, Span};
use weir_fe::RouteFailure;
use weir_fe::fib::{self, Route};

use super::upkeep::{Found, Upkeep};
use weir_live::clock;
use weir_live::device::interface;
use weir_live::kernel::claim;
use weir_live::kernel::install::{InstalledRoute, Installer, METRIC, RouteChange};

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
    /// Interfaces of ports, by the port numbers in routes.
    pub(super) interfaces: BTreeMap<u32, String>,
    /// The interface of each route of this protocol that does not belong to this FE, but to an earlier process or to
    /// another FE.
    others: HashMap<IpNet, u32>,
    /// Time of the next comparison, and the earliest time for it.
    pub(super) due: Instant,
    pub(super) earliest: Instant,
    /// Whether interfaces have changed since the last comparison.
    pub(super) links: bool,
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
            interfaces: BTreeMap::new(),
            others: HashMap::new(),
            due: Instant::ZERO,
            earliest: Instant::ZERO,
            links: false,
        };
        open.compare()?;
        Ok((open, port))
    }

    pub(super) fn change(&mut self, changes: &[fib::RouteChange]) -> Vec<RouteFailure> {
        if self.upkeep.is_empty()
            && let Err(error) = self.compare()
        {
            return vec![failure(0, error)]; // `others` is current only while this FE has routes
        }
        let indices = indices(&self.interfaces);
        let owners = Owners::new(&indices);
        let mut failures = Vec::new();
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for (place, change) in changes.iter().enumerate() {
            match self.of_kernel(change, &indices, &owners) {
                Ok(Some(change)) => {
                    wanted.push(change);
                    places.push(place);
                }
                Ok(None) => {}
                Err(why) => failures.push(RouteFailure { place, why }),
            }
        }
        match self.installer.change(&wanted) {
            Ok(refused) => {
                if !refused.is_empty() {
                    // The agent withdraws the refused routes first, unless it must keep them.
                    self.earliest = self.earliest.max(clock::now() + COMPARE_RETRY);
                    self.due = self.earliest;
                }
                for refused in refused {
                    let Some(place) = places.get(refused.place) else {
                        continue;
                    };
                    match refused.source.raw_os_error() {
                        Some(libc::ENETDOWN | libc::ENODEV) => {} // the next comparison finds that it waits
                        Some(libc::EEXIST) => failures.push(failure(
                            *place,
                            format!(
                                "route {}: another route for this prefix with metric {METRIC} exists, which the FE did not install",
                                refused.prefix
                            ),
                        )),
                        _ => failures.push(failure(*place, refused)),
                    }
                }
            }
            Err(error) => failures.push(failure(0, error)),
        }
        failures
    }

    /// Converts a change for the kernel; `None` if the change has to wait, or if there is nothing to do.
    fn of_kernel(
        &mut self,
        change: &fib::RouteChange,
        indices: &Indices,
        owners: &Owners,
    ) -> Result<Option<RouteChange>, String> {
        match change {
            fib::RouteChange::Put(route) => {
                let prefix = net(route.prefix)?;
                let is_known = self.upkeep.wanted(&prefix).is_some();
                let other = self.others.get(&prefix).copied();
                if let Some(owner) = other.and_then(|interface| owners.of(interface)) {
                    return Err(format!("route {prefix}: {}", belongs(&owner)));
                }
                match installed(prefix, route, indices)? {
                    Ok(installed) => {
                        self.upkeep.put(prefix, *route);
                        Ok(Some(if is_known || other.is_some() {
                            RouteChange::Put(installed)
                        } else {
                            RouteChange::Add(installed)
                        }))
                    }
                    Err(away) => {
                        self.upkeep.put_later(prefix, *route, away);
                        Ok(None)
                    }
                }
            }
            fib::RouteChange::Remove(prefix) => {
                let prefix = net(*prefix)?;
                let route = self.upkeep.wanted(&prefix);
                let interface = route.and_then(|route| match &indices.get(&route.port)?.1 {
                    Ok(index) => Some(*index),
                    Err(_) => None,
                });
                let other = self.others.get(&prefix).copied();
                let other = other.filter(|interface| owners.of(*interface).is_none());
                let is_there = route.is_some() || other.is_some();
                self.upkeep.remove(&prefix);
                Ok(is_there.then_some(RouteChange::Remove(prefix, interface.or(other))))
            }
        }
    }

    /// Compares the kernel's routes with the desired routes, and installs those that are due.
    pub(super) fn compare(&mut self) -> io::Result<()> {
        let now = clock::now();
        self.due = now + COMPARE_RETRY; // unless it succeeds
        let found = self.installer.installed()?.into_iter();
        let found: HashMap<IpNet, InstalledRoute> =
            found.map(|route| (route.prefix, route)).collect();
        let indices = indices(&self.interfaces);
        let owners = Owners::new(&indices);
        let links = std::mem::take(&mut self.links);
        self.upkeep.compare(now, links, |prefix, route| {
            let there = found.get(prefix);
            let owner = || owners.of(there?.interface);
            match installed(*prefix, route, &indices) {
                Ok(Ok(wanted)) if there == Some(&wanted) => Found::Installed,
                Ok(Ok(_)) => match owner() {
                    Some(owner) => Found::Impossible(belongs(&owner)),
                    None => Found::Absent,
                },
                Ok(Err(why)) | Err(why) => Found::Impossible(why),
            }
        });
        let is_other = |route: &&InstalledRoute| {
            self.upkeep.wanted(&route.prefix).is_none() || owners.of(route.interface).is_some()
        };
        let others = found.values().filter(is_other);
        self.others = others
            .map(|route| (route.prefix, route.interface))
            .collect();
        self.restore(now, &indices)?;
        let took = clock::now().since(now);
        self.earliest = clock::now() + COMPARE_GAP.max(took.times(COMPARE_SHARE));
        let next = self.upkeep.next().unwrap_or(now + COMPARE_INTERVAL);
        self.due = next.min(now + COMPARE_INTERVAL).max(self.earliest);
        Ok(())
    }

    /// Installs the routes that are due.
    fn restore(&mut self, now: Instant, indices: &Indices) -> io::Result<()> {
        let due = self.upkeep.due(now);
        let change = |prefix: &IpNet| {
            let route = self.upkeep.wanted(prefix)?;
            let installed = installed(*prefix, route, indices).ok()?.ok()?;
            Some(RouteChange::Put(installed))
        };
        let changes: Vec<_> = due.iter().filter_map(change).collect();
        let mut refused: HashMap<usize, String> = HashMap::new();
        for why in self.installer.change(&changes)? {
            refused.insert(why.place, why.source.to_string());
        }
        for (place, change) in changes.iter().enumerate() {
            let why = refused.remove(&place);
            self.upkeep.tried(now, &change.prefix(), why);
        }
        Ok(())
    }

    pub(super) fn sweep(&mut self) -> io::Result<usize> {
        self.compare()?;
        let indices = indices(&self.interfaces);
        let owners = Owners::new(&indices);
        let others = self.others.iter();
        let (theirs, gone): (Vec<_>, Vec<_>) =
            others.partition(|(_, interface)| owners.of(**interface).is_some());
        if !theirs.is_empty() {
            let routes = theirs.len();
            tracing::info!(routes, "keeping routes of other FEs on this machine");
        }
        let gone: Vec<_> = gone
            .into_iter()
            .map(|(prefix, interface)| RouteChange::Remove(*prefix, Some(*interface)))
            .collect();
        let refused = self.installer.change(&gone)?;
        for refused in &refused {
            tracing::warn!(%refused, "cannot remove a route of an earlier process");
        }
        for change in &gone {
            self.others.remove(&change.prefix());
        }
        Ok(gone.len() - refused.len())
    }
}

/// The interface of each port, and the interface's index.
type Indices = BTreeMap<u32, (String, io::Result<u32>)>;

fn indices(interfaces: &BTreeMap<u32, String>) -> Indices {
    let indices = interfaces
        .iter()
        .map(|(port, interface)| (*port, (interface.clone(), index_if_up(interface))));
    indices.collect()
}

/// The owners of claimed interfaces, each looked up once.
struct Owners {
    /// Interfaces of this FE's own ports.
    own: BTreeSet<u32>,
    known: RefCell<HashMap<u32, Option<String>>>,
}

impl Owners {
    fn new(indices: &Indices) -> Self {
        let own = indices
            .values()
            .filter_map(|(name, _)| interface::index(name).ok());
        Self {
            own: own.collect(),
            known: RefCell::default(),
        }
    }

    /// The other router that has claimed an interface; `None` if this router has claimed it, or nobody. If the lookup
    /// fails, assumes another owner, whose routes must stay.
    fn of(&self, interface: u32) -> Option<String> {
        if self.own.contains(&interface) {
            return None;
        }
        let mut known = self.known.borrow_mut();
        let owner = known.entry(interface).or_insert_with(|| {
            claim::owner(interface).unwrap_or_else(|error| Some(error.to_string()))
        });
        let ours = format!("process {},", std::process::id());
        owner.clone().filter(|owner| !owner.starts_with(&ours))
    }
}

fn belongs(owner: &str) -> String {
    format!(
        "another FE on this machine has a route for this prefix ({owner}); remove it there first, or give each FE its own prefixes"
    )
}

/// Index of an interface, if it is up. A down interface has no connected routes, so the kernel would call its next
/// routers unreachable.
fn index_if_up(interface: &str) -> io::Result<u32> {
    if interface::is_up(interface)? {
        interface::index(interface)
    } else {
        Err(io::Error::from_raw_os_error(libc::ENETDOWN))
    }
}

/// Whether an error means that an interface is down or absent.
fn is_away(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV))
}

fn net((address, len): fib::Prefix) -> Result<IpNet, String> {
    let prefix = IpNet::new(address, len).map_err(|error| error.to_string())?;
    Ok(prefix.trunc())
}

/// A route in the kernel's form; the inner error says that its interface is down or absent.
fn installed(
    prefix: IpNet,
    route: &Route,
    indices: &Indices,
) -> Result<Result<InstalledRoute, String>, String> {
    match indices.get(&route.port) {
        Some((_, Ok(index))) => Ok(Ok(InstalledRoute {
            prefix,
            gateway: route.gateway,
            interface: *index,
        })),
        Some((name, Err(error))) if is_away(error) => {
            Ok(Err(format!("interface {name} is down or absent")))
        }
        Some((name, Err(error))) => Err(format!("route {prefix}: interface {name}: {error}")),
        None => Err(format!("route {prefix}: there is no port {}", route.port)),
    }
}

pub(super) fn failure(place: usize, why: impl std::fmt::Display) -> RouteFailure {
    let why = why.to_string();
    RouteFailure { place, why }
}
