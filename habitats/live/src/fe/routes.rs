//! Routes of the CE in the kernel, by a thread of their own: a change of a hundred thousand routes blocks for a part of
//! a second.
//!
//! ```text
//!  agent --- changes ---> thread --- Installer ---> kernel --- announcements ---> forwarding thread
//!        <-- failures ---    ^  \-- report: what the kernel lacks                 |
//!                            '------------ Losses: time to compare ---------------+
//! ```
//!
//! **The routes stay.** What the kernel loses, because an interface goes down or another program removes it, is found by
//! comparing its routes with those that it must have, and installed again as [`upkeep`](super::upkeep) says. A route by an
//! interface that is down or absent is no failure: it waits.
//!
//! **A route belongs to the router that has claimed its interface.** Other FEs in this network namespace have routes with
//! the same protocol and metric. Those by interfaces that others have claimed are theirs: they are never replaced or removed,
//! and a route of the same prefix is refused here. Those by interfaces that nobody has claimed were left behind by a process
//! that is dead.
//!
//! Changes are made in the order in which they come. The agent bounds how many wait: it has one request under way.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use ipnet::IpNet;
use weir_base::{Instant, Span};
use weir_fe::fib::{self, Route};
use weir_fe::{RouteFailure, RouteTicket};
use weir_lfb::class::ce_routes::CeRoutes;

use super::Input;
use super::upkeep::{Found, Upkeep};
use crate::clock;
use crate::device::{af_packet, interface};
use crate::kernel::claim;
use crate::kernel::install::{InstalledRoute, Installer, METRIC, RouteChange};
use crate::kernel::losses::{Hint, Losses};
use crate::router::Running;
use crate::router::journal::Sparse;

/// Time after which routes are compared without an announcement.
const COMPARE_INTERVAL: Span = Span::from_secs(60);
/// Shortest time between two comparisons; they use at most a tenth of the thread's time.
const COMPARE_GAP: Span = Span::from_millis(100);
const COMPARE_SHARE: u64 = 10;

/// Work for the thread.
enum Work {
    Change(RouteTicket, Vec<fib::RouteChange>, BTreeMap<u32, String>),
    Sweep,
    Hint(Hint),
}

/// The thread, which ends when this value is dropped.
pub(super) struct Routes {
    work: mpsc::Sender<Work>,
}

impl Routes {
    /// Starts it, in the calling thread's network namespace. It answers to `answers`, and reports to `running`.
    pub(super) fn start(
        answers: tokio::sync::mpsc::Sender<Input>,
        running: Arc<Running>,
    ) -> io::Result<Self> {
        let (work, works) = mpsc::channel();
        let port = Arc::new(AtomicU32::new(0));
        let losses = Losses::open(Arc::clone(&port))?;
        tokio::spawn(pass_on(losses, work.clone()));
        let run = move || {
            let mut kernel = Kernel {
                open: None,
                port,
                running,
                reported: Sparse::default(),
            };
            loop {
                match kernel.next(&works) {
                    Ok(Work::Sweep) => kernel.sweep(),
                    Ok(Work::Hint(hint)) => kernel.hint(hint),
                    Ok(Work::Change(ticket, changes, interfaces)) => {
                        let failures = kernel.change(&changes, interfaces);
                        if answers
                            .blocking_send(Input::Routed(ticket, failures))
                            .is_err()
                        {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => kernel.compare(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new()
            .name("weir-routes".to_owned())
            .spawn(run)?;
        Ok(Self { work })
    }

    /// Makes changes. The map has the interface of each port.
    pub(super) fn change(
        &self,
        ticket: RouteTicket,
        changes: Vec<fib::RouteChange>,
        interfaces: BTreeMap<u32, String>,
    ) {
        let _ = self.work.send(Work::Change(ticket, changes, interfaces)); // the thread ends after this value
    }

    /// Removes what an earlier process left behind and no change has named since.
    pub(super) fn sweep(&self) {
        let _ = self.work.send(Work::Sweep);
    }
}

/// Passes on that routes may be missing. A comparison at intervals finds what is announced to nobody.
async fn pass_on(mut losses: Losses, work: mpsc::Sender<Work>) {
    loop {
        match losses.next().await {
            Ok(hint) => {
                if work.send(Work::Hint(hint)).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "interface monitor failed: lost routes of a CE are reinstalled up to a minute later");
                return;
            }
        }
    }
}

/// The kernel's routes of this protocol.
struct Kernel {
    /// Opened when it is first needed: an FE whose CE writes no routes needs none of it.
    open: Option<Open>,
    port: Arc<AtomicU32>,
    running: Arc<Running>,
    reported: Sparse,
}

struct Open {
    installer: Installer,
    upkeep: Upkeep,
    /// The interfaces of ports, by the numbers that routes have.
    interfaces: BTreeMap<u32, String>,
    /// The interface of each route that is none of ours: those of an earlier process, and of others.
    others: HashMap<IpNet, u32>,
    /// When the routes are compared next, and not before when.
    due: Instant,
    earliest: Instant,
    /// Whether interfaces have changed since the last comparison.
    links: bool,
}

impl Kernel {
    /// The next work; none until routes are to be compared.
    fn next(&self, works: &mpsc::Receiver<Work>) -> Result<Work, RecvTimeoutError> {
        let Some(open) = self.open.as_ref().filter(|open| !open.upkeep.is_empty()) else {
            return works.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        match open.due.since(clock::now()) {
            Span::ZERO => Err(RecvTimeoutError::Timeout),
            wait => works.recv_timeout(Duration::from_nanos(wait.as_nanos())),
        }
    }

    fn open(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let mut installer = Installer::new()?;
            self.port.store(installer.port()?, Ordering::Relaxed);
            let mut open = Open {
                installer,
                upkeep: Upkeep::default(),
                interfaces: BTreeMap::new(),
                others: HashMap::new(),
                due: Instant::ZERO,
                earliest: Instant::ZERO,
                links: false,
            };
            open.compare()?;
            self.open = Some(open);
        }
        let none = || io::Error::other("no socket for routes");
        self.open.as_mut().ok_or_else(none)
    }

    fn change(
        &mut self,
        changes: &[fib::RouteChange],
        interfaces: BTreeMap<u32, String>,
    ) -> Vec<RouteFailure> {
        let failures = match self.open() {
            Ok(open) => {
                open.interfaces = interfaces;
                open.change(changes)
            }
            Err(error) => vec![failure(0, error)],
        };
        self.report();
        failures
    }

    fn sweep(&mut self) {
        let swept = self.open().and_then(Open::sweep);
        match swept {
            Ok(0) => {}
            Ok(routes) => tracing::info!(routes, "removed routes of an earlier process"),
            Err(error) => tracing::warn!(%error, "routes of an earlier process stay"),
        }
    }

    fn hint(&mut self, hint: Hint) {
        if let Some(open) = &mut self.open {
            open.links |= hint == Hint::Links;
            open.due = open.earliest; // which may have passed
        }
    }

    fn compare(&mut self) {
        let Some(open) = &mut self.open else {
            return;
        };
        if let Err(error) = open.compare() {
            tracing::warn!(%error, "cannot compare the kernel's routes with those of the CE");
        }
        self.report();
    }

    /// Reports what the kernel lacks, and logs it if that has changed.
    fn report(&mut self) {
        let Some(open) = &self.open else {
            return;
        };
        let report = open.upkeep.report();
        let before = self.running.set_ce_routes(report.clone());
        let is_worse = report.lost > before.lost || report.missing > before.missing;
        let is_better = report.missing == 0 && before.missing > 0;
        if !(is_worse || is_better) {
            return;
        }
        let Some(unlogged) = self.reported.admit() else {
            return;
        };
        let CeRoutes {
            missing,
            first,
            lost,
            restored,
            ..
        } = report;
        match missing {
            0 => tracing::info!(
                lost,
                restored,
                unlogged,
                "the kernel has all routes of the CE again"
            ),
            _ => tracing::warn!(
                missing,
                first,
                unlogged,
                "the kernel lacks routes of the CE"
            ),
        }
    }
}

impl Open {
    fn change(&mut self, changes: &[fib::RouteChange]) -> Vec<RouteFailure> {
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
                for refused in refused {
                    self.due = self.due.min(self.earliest);
                    let Some(place) = places.get(refused.place) else {
                        continue;
                    };
                    match refused.source.raw_os_error() {
                        Some(libc::ENETDOWN | libc::ENODEV) => {} // it waits, as the next comparison finds
                        Some(libc::EEXIST) => failures.push(failure(
                            *place,
                            format!(
                                "route {}: there is a route of this prefix with metric {METRIC} that the FE has not made",
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

    /// A change as the kernel takes it; none if it has to wait, or if there is nothing to do.
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
                        Ok(Some(match is_known || other.is_some() {
                            true => RouteChange::Put(installed),
                            false => RouteChange::Add(installed),
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

    /// Compares the routes that the kernel has with those that it must have, and installs those that are due.
    fn compare(&mut self) -> io::Result<()> {
        let now = clock::now();
        let installed_now = self.installer.installed()?;
        let found: HashMap<IpNet, InstalledRoute> = installed_now
            .into_iter()
            .map(|route| (route.prefix, route))
            .collect();
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
        let is_other = |prefix: &IpNet| self.upkeep.wanted(prefix).is_none();
        let others = found.values().filter(|route| is_other(&route.prefix));
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

    fn sweep(&mut self) -> io::Result<usize> {
        self.compare()?;
        let indices = indices(&self.interfaces);
        let owners = Owners::new(&indices);
        let others = self.others.iter();
        let (theirs, gone): (Vec<_>, Vec<_>) =
            others.partition(|(_, interface)| owners.of(**interface).is_some());
        if !theirs.is_empty() {
            let routes = theirs.len();
            tracing::info!(routes, "routes of other FEs on this machine stay");
        }
        let gone: Vec<_> = gone
            .into_iter()
            .map(|(prefix, interface)| RouteChange::Remove(*prefix, Some(*interface)))
            .collect();
        let refused = self.installer.change(&gone)?;
        for refused in &refused {
            tracing::warn!(%refused, "a route of an earlier process stays");
        }
        for change in &gone {
            self.others.remove(&change.prefix());
        }
        Ok(gone.len() - refused.len())
    }
}

/// The interface of each port, and its index.
type Indices = BTreeMap<u32, (String, io::Result<u32>)>;

fn indices(interfaces: &BTreeMap<u32, String>) -> Indices {
    let indices = interfaces
        .iter()
        .map(|(port, interface)| (*port, (interface.clone(), index_if_up(interface))));
    indices.collect()
}

/// Who has claimed interfaces. Each is asked for once.
struct Owners {
    /// The interfaces of this FE's own ports.
    own: BTreeSet<u32>,
    known: RefCell<HashMap<u32, Option<String>>>,
}

impl Owners {
    fn new(indices: &Indices) -> Self {
        let own = indices
            .values()
            .filter_map(|(name, _)| af_packet::index(name).ok());
        Self {
            own: own.collect(),
            known: RefCell::default(),
        }
    }

    /// The other router that has an interface; none if this one has it, or nobody. Where the kernel does not say, there is
    /// another one: its routes must stay.
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
        "another FE on this machine has a route of this prefix ({owner}); remove it there first, or give each its own prefixes"
    )
}

/// The index of an interface. Without its networks, the kernel would call the next routers of one that is down unreachable.
fn index_if_up(interface: &str) -> io::Result<u32> {
    match interface::is_up(interface)? {
        true => af_packet::index(interface),
        false => Err(io::Error::from_raw_os_error(libc::ENETDOWN)),
    }
}

/// Whether an interface is down or absent.
fn is_away(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV))
}

fn net((address, len): fib::Prefix) -> Result<IpNet, String> {
    let prefix = IpNet::new(address, len).map_err(|error| error.to_string())?;
    Ok(prefix.trunc())
}

/// A route as the kernel has it, or that its interface is down or absent.
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

fn failure(place: usize, why: impl std::fmt::Display) -> RouteFailure {
    let why = why.to_string();
    RouteFailure { place, why }
}
