//! Changes of rows of forwarding tables by a Config, and the resulting routes.
//!
//! ```text
//!  path of a Config --> tables --- all paths done ---> Effect::Change --> Effect::Routes --> answer
//!                          |                                 | refused        | refused
//!                          +<------- undone, last first -----+----------------+
//! ```
//!
//! The tables change with each path; a journal makes it possible to undo the changes. Routes follow the changes of the
//! router, because a Config may create the port of its routes. Prepared changes (two-phase commit) are in the tables at
//! once; their routes follow with the commit.
//!
//! *Decision*: no message announces that a CE has restored all rows after a restart of the FE. Therefore the FE removes
//! routes of an earlier process when a CE is associated and has written no rows for [`RESTORED`].

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_lfb::Plan;
use weir_protocol::session::fe::State;
use weir_protocol::wire::{OperationKind, ResultCode};

use super::Agent;
use crate::blocks::Source;
use crate::contract::{Effect, RouteFailure, RouteTicket};
use crate::fib::{Before, Route, RouteChange};
use crate::own::Own;
use crate::request::{Failure, Item};
use crate::tables::{Changed, Write};

/// Maximum pause of a CE that restores its rows.
const RESTORED: Span = Span::from_secs(10);

/// Rows changed by a request.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) changed: Changed,
    /// For each path that has changed rows: its index, and the index of its first route.
    paths: Vec<(usize, usize)>,
}

impl Rows {
    /// Adds the rows of a later request, without their paths.
    pub(super) fn extend(&mut self, later: Self) {
        self.changed.journal.extend(later.changed.journal);
        self.changed.routes.extend(later.changed.routes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.journal.is_empty()
    }

    /// The paths whose routes have failed, with the reasons.
    pub(super) fn blame(&self, failures: &[RouteFailure]) -> Vec<(usize, Failure)> {
        let path = |failure: &RouteFailure| {
            let after = self
                .paths
                .partition_point(|(_, begin)| *begin <= failure.place);
            let (path, _) = self.paths.get(after.checked_sub(1)?)?;
            let failure = Failure::new(ResultCode::InternalError, failure.why.clone());
            Some((*path, failure))
        };
        failures.iter().filter_map(path).collect()
    }
}

/// State of the routes of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// There may be such routes, and no CE has been associated yet.
    Unknown,
    /// A CE may restore rows until this time.
    Until(Instant),
    /// The routes were removed.
    Gone,
}

impl Leftover {
    pub(super) fn associated(&mut self, now: Instant) {
        if *self == Self::Unknown {
            *self = Self::Until(now + RESTORED);
        }
    }

    /// A CE has written rows, which extends its time.
    pub(super) fn written(&mut self, now: Instant) {
        if let Self::Until(until) = self {
            *until = now + RESTORED;
        }
    }

    pub(super) const fn due(self) -> Option<Instant> {
        match self {
            Self::Until(until) => Some(until),
            Self::Unknown | Self::Gone => None,
        }
    }
}

impl Agent {
    /// Executes path `number` of a request if it is a path of a forwarding table; `None` if it is another path.
    pub(super) fn execute_rows(
        &mut self,
        draft: &Own,
        rows: &mut Rows,
        number: usize,
        item: &Item,
    ) -> Option<Result<(), Failure>> {
        let block = draft.blocks().get(item.class).ok()?;
        let Source::Fib(table) = block.source else {
            return None;
        };
        if item.operation == OperationKind::SetProperty {
            return None;
        }
        let Rows { changed, paths } = rows;
        paths.push((number, changed.routes.len()));
        let mut write = Write {
            fib: &mut self.fib,
            table,
            changed,
            is_port: &|number| draft.ports().contains_key(&number),
        };
        Some(write.execute(block, item))
    }

    /// Passes changes of routes to the machine.
    pub(super) fn send_routes(
        &mut self,
        routes: Vec<RouteChange>,
        ports: BTreeMap<u32, String>,
    ) -> RouteTicket {
        let ticket = RouteTicket(self.ticket());
        self.effects
            .push_back(Effect::Routes(ticket, routes, ports));
        ticket
    }

    /// Passes the routes of a request to the machine.
    pub(super) fn ask_routes(&mut self, now: Instant, rows: &mut Rows, draft: &Own) -> RouteTicket {
        self.leftover.written(now);
        let routes = std::mem::take(&mut rows.changed.routes);
        self.send_routes(routes, draft.ports().clone())
    }

    /// Undoes changes of rows, and of their routes if `was_sent` to the machine.
    pub(super) fn undo_rows(&mut self, journal: Vec<Before>, was_sent: bool) {
        let undone = self.fib.undo(journal);
        if was_sent && !undone.is_empty() {
            let ports = self.own.ports().clone();
            self.send_routes(undone, ports);
        }
    }

    /// Removes the routes of deleted ports, and moves the routes of a port to its new interface. `before` has the ports
    /// of the plan `old`.
    pub(super) fn routes_follow(&mut self, before: &BTreeMap<u32, String>, old: &Plan) {
        let interface = |plan: &Plan, name: &str| {
            let port = plan.ports.iter().find(|port| port.name == name);
            port.map(|port| port.interface.clone())
        };
        let is_same = |(number, name): &(&u32, &String)| {
            self.own.ports().get(number) == Some(*name)
                && interface(old, name) == interface(&self.plan, name)
        };
        let other: Vec<u32> = before
            .iter()
            .filter(|port| !is_same(port))
            .map(|(n, _)| *n)
            .collect();
        if other.is_empty() {
            return;
        }
        let ports = self.own.ports().clone();
        let any = |route: &Route, of: &dyn Fn(&u32) -> bool| {
            let mut hops = route.target.hops();
            hops.any(|(hop, _)| of(&hop.port))
        };
        let routes = self.fib.routes();
        let routes = routes.filter(|route| any(route, &|port| other.contains(port)));
        let changes: Vec<_> = routes
            .map(|route| {
                if any(&route, &|port| ports.contains_key(port)) {
                    RouteChange::Put(route)
                } else {
                    RouteChange::Remove(route.prefix)
                }
            })
            .collect();
        if !changes.is_empty() {
            self.send_routes(changes, ports);
        }
    }

    /// Removes all routes of the CEs: there is no CE, and CEFTI has passed.
    pub(super) fn drop_routes(&mut self) {
        if self.job.is_some() {
            return; // the job completes or undoes its changes first
        }
        let gone = self.fib.clear();
        if !gone.is_empty() {
            let ports = self.own.ports().clone();
            self.send_routes(gone, ports);
        }
        if self.leftover != Leftover::Gone {
            self.leftover = Leftover::Gone;
            self.effects.push_back(Effect::Sweep);
        }
    }

    /// Removes routes that no CE has restored, if their time has passed.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.leftover.due().is_none_or(|due| due > now) {
            return;
        }
        self.leftover = match self.fe.state() {
            State::Associated => {
                self.effects.push_back(Effect::Sweep);
                Leftover::Gone
            }
            _ => Leftover::Unknown,
        };
    }
}
