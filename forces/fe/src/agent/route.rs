//! Rows of forwarding tables that a Config changes, and their routes.
//!
//! ```text
//!  path of a Config --> tables --- all paths done ---> Effect::Change --> Effect::Routes --> answer
//!                          |                                 | refused        | refused
//!                          +<------- undone, last first -----+----------------+
//! ```
//!
//! The tables change with each path, and a journal undoes that. Routes come after the changes of the router, because a
//! Config may make the port of its routes. What is prepared (two-phase commit) is in the tables at once, and its routes
//! come with the commit.
//!
//! *Decision*: no message says that a CE has restored all rows after a restart of the FE. So routes that an earlier
//! process left behind go when a CE is associated and has written no row for [`RESTORED`].

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_lfb::Plan;
use weir_protocol::session::fe::State;
use weir_protocol::wire::{OperationKind, ResultCode};

use super::Agent;
use super::execute::Execution;
use crate::blocks::Source;
use crate::contract::{Effect, RouteFailure, RouteTicket};
use crate::fib::{Before, RouteChange};
use crate::request::{Failure, Item};
use crate::tables::{Changed, Write};

/// How long a CE that restores its rows may pause at most.
const RESTORED: Span = Span::from_secs(10);

/// Rows that a request has changed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) changed: Changed,
    /// For each path that has changed rows: its number, and where its routes begin.
    paths: Vec<(usize, usize)>,
}

impl Rows {
    /// Adds those of a later request, without their paths.
    pub(super) fn extend(&mut self, later: Self) {
        self.changed.journal.extend(later.changed.journal);
        self.changed.routes.extend(later.changed.routes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.journal.is_empty()
    }

    /// The paths that are to blame, with the reasons.
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

/// Routes that an earlier process left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    /// There may be some, and no CE has been associated that knows them.
    Unknown,
    /// A CE may restore rows until then.
    Until(Instant),
    /// They have gone.
    Gone,
}

impl Leftover {
    pub(super) fn associated(&mut self, now: Instant) {
        if *self == Self::Unknown {
            *self = Self::Until(now + RESTORED);
        }
    }

    /// A CE has written rows.
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
    /// Executes a path that is one of a forwarding table; none if it is not.
    pub(super) fn execute_rows(
        &mut self,
        execution: &mut Execution,
        item: &Item,
    ) -> Option<Result<(), Failure>> {
        let block = execution.draft.blocks().get(item.class).ok()?;
        let Source::Fib(table) = block.source else {
            return None;
        };
        if item.operation == OperationKind::SetProperty {
            return None;
        }
        let Rows { changed, paths } = &mut execution.rows;
        paths.push((execution.answers.len(), changed.routes.len()));
        let draft = &execution.draft;
        let mut write = Write {
            fib: &mut self.fib,
            table,
            changed,
            is_port: &|number| draft.ports().contains_key(&number),
        };
        Some(write.execute(block, item))
    }

    /// Hands routes to the machine.
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

    /// Hands the routes of an execution to the machine.
    pub(super) fn ask_routes(&mut self, now: Instant, execution: &mut Execution) -> RouteTicket {
        self.leftover.written(now);
        let routes = std::mem::take(&mut execution.rows.changed.routes);
        self.send_routes(routes, execution.draft.ports().clone())
    }

    /// Undoes changes of rows, and of their routes if those were handed to the machine.
    pub(super) fn undo_rows(&mut self, journal: Vec<Before>, was_sent: bool) {
        let undone = self.fib.undo(journal);
        if was_sent && !undone.is_empty() {
            let ports = self.own.ports().clone();
            self.send_routes(undone, ports);
        }
    }

    /// Routes go with their ports, and follow a port to another interface. `before` has the ports of the plan `old`.
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
        let routes = self
            .fib
            .routes()
            .filter(|route| other.contains(&route.port));
        let changes: Vec<_> = routes
            .map(|route| match ports.contains_key(&route.port) {
                true => RouteChange::Put(route),
                false => RouteChange::Remove(route.prefix),
            })
            .collect();
        if !changes.is_empty() {
            self.send_routes(changes, ports);
        }
    }

    /// No CE any more, and CEFTI has passed: its routes go.
    pub(super) fn drop_routes(&mut self) {
        if self.job.is_some() {
            return; // its changes are undone, or done, first
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

    /// Removes routes that no CE has restored, if it is time.
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
