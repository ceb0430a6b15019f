//! Routes of the CE in the kernel, by a thread of their own: a change of a hundred thousand routes blocks for a part of
//! a second.
//!
//! ```text
//!  agent --- changes ---> thread --- Installer ---> kernel --- announcements ---> forwarding thread
//!        <-- failures ---
//! ```
//!
//! A route by an interface that is down or absent is no failure: the agent hands it in again when the interface comes back
//! ([`comeback`](crate::kernel::comeback)).
//!
//! Changes are made in the order in which they come. The agent bounds how many wait: it has one request under way.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc;
use std::{io, thread};

use ipnet::IpNet;
use weir_fe::fib::{self, Route};
use weir_fe::{RouteFailure, RouteTicket};

use super::Input;
use crate::device::{af_packet, interface};
use crate::kernel::install::{InstalledRoute, Installer, RouteChange};

/// Work for the thread.
enum Work {
    Change(RouteTicket, Vec<fib::RouteChange>, BTreeMap<u32, String>),
    Sweep,
}

/// The thread, which ends when this value is dropped.
pub(super) struct Routes {
    work: mpsc::Sender<Work>,
}

impl Routes {
    /// Starts it, in the calling thread's network namespace. It answers to `answers`.
    pub(super) fn start(answers: tokio::sync::mpsc::Sender<Input>) -> io::Result<Self> {
        let (work, works) = mpsc::channel();
        let run = move || {
            let mut kernel = Kernel::default();
            for work in works {
                match work {
                    Work::Sweep => kernel.sweep(),
                    Work::Change(ticket, changes, interfaces) => {
                        let failures = kernel.change(&changes, &interfaces);
                        if answers
                            .blocking_send(Input::Routed(ticket, failures))
                            .is_err()
                        {
                            return;
                        }
                    }
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

/// The kernel's routes of this protocol.
#[derive(Default)]
struct Kernel {
    installer: Option<Open>,
}

struct Open {
    installer: Installer,
    /// Prefixes that an earlier process left behind and that no change has named.
    leftover: HashSet<IpNet>,
}

impl Kernel {
    /// Opened when it is first needed: an FE whose CE writes no routes needs none of it.
    fn open(&mut self) -> io::Result<&mut Open> {
        if self.installer.is_none() {
            let installer = Installer::new()?;
            let routes = installer.installed()?.into_iter();
            let leftover = routes.map(|route| route.prefix).collect();
            self.installer = Some(Open {
                installer,
                leftover,
            });
        }
        let none = || io::Error::other("no socket for routes");
        self.installer.as_mut().ok_or_else(none)
    }

    fn change(
        &mut self,
        changes: &[fib::RouteChange],
        interfaces: &BTreeMap<u32, String>,
    ) -> Vec<RouteFailure> {
        match self.open() {
            Ok(open) => open.change(changes, interfaces),
            Err(error) => vec![failure(0, error)],
        }
    }

    fn sweep(&mut self) {
        let swept = self.open().and_then(Open::sweep);
        match swept {
            Ok(0) => {}
            Ok(routes) => tracing::info!(routes, "removed routes of an earlier process"),
            Err(error) => tracing::warn!(%error, "routes of an earlier process stay"),
        }
    }
}

impl Open {
    fn change(
        &mut self,
        changes: &[fib::RouteChange],
        interfaces: &BTreeMap<u32, String>,
    ) -> Vec<RouteFailure> {
        let indices = interfaces
            .iter()
            .map(|(port, interface)| (*port, (interface, index_if_up(interface))));
        let indices = indices.collect();
        let mut failures = Vec::new();
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for (place, change) in changes.iter().enumerate() {
            match of_kernel(change, &indices) {
                Ok(Some(change)) => {
                    wanted.push(change);
                    places.push(place);
                }
                Ok(None) => {}
                Err(why) => failures.push(RouteFailure { place, why }),
            }
        }
        match self.installer.change(&wanted) {
            Ok(refused) => failures.extend(
                refused
                    .into_iter()
                    .filter(|refused| !is_away(&refused.source))
                    .filter_map(|refused| Some(failure(*places.get(refused.place)?, refused))),
            ),
            Err(error) => failures.push(failure(0, error)),
        }
        if !self.leftover.is_empty() {
            for change in &wanted {
                self.leftover.remove(match change {
                    RouteChange::Put(route) => &route.prefix,
                    RouteChange::Remove(prefix) => prefix,
                });
            }
        }
        failures
    }

    fn sweep(&mut self) -> io::Result<usize> {
        let gone: Vec<_> = self.leftover.drain().map(RouteChange::Remove).collect();
        let refused = self.installer.change(&gone)?;
        for refused in &refused {
            tracing::warn!(%refused, "a route of an earlier process stays");
        }
        Ok(gone.len() - refused.len())
    }
}

type Indices<'a> = BTreeMap<u32, (&'a String, io::Result<u32>)>;

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

/// A change as the kernel takes it; none if its interface is down or absent.
fn of_kernel(
    change: &fib::RouteChange,
    indices: &Indices<'_>,
) -> Result<Option<RouteChange>, String> {
    let prefix = |(address, len)| {
        let prefix = IpNet::new(address, len).map_err(|error| error.to_string())?;
        Ok::<_, String>(prefix.trunc())
    };
    let Route {
        prefix: of,
        gateway,
        port,
    } = match change {
        fib::RouteChange::Put(route) => *route,
        fib::RouteChange::Remove(of) => return Ok(Some(RouteChange::Remove(prefix(*of)?))),
    };
    let interface = match indices.get(&port) {
        Some((_, Ok(index))) => *index,
        Some((_, Err(error))) if is_away(error) => return Ok(None),
        Some((name, Err(error))) => {
            return Err(format!(
                "route {}/{}: interface {name}: {error}",
                of.0, of.1
            ));
        }
        None => return Err(format!("route {}/{}: there is no port {port}", of.0, of.1)),
    };
    Ok(Some(RouteChange::Put(InstalledRoute {
        prefix: prefix(of)?,
        gateway,
        interface,
    })))
}

fn failure(place: usize, why: impl std::fmt::Display) -> RouteFailure {
    let why = why.to_string();
    RouteFailure { place, why }
}
