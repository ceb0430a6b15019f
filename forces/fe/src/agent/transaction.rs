//! The FE's part in a two-phase commit (RFC 5810, 4.3.1.2); the session decides which steps are permitted.

use weir_base::Instant;
use weir_model::{Fault, Operation};
use weir_protocol::session::fe::Ticket;
use weir_protocol::wire::ResultCode;

use super::route::Rows;
use super::{Agent, Job};
use crate::contract::{ChangeTicket, Effect, RouteFailure, RouteTicket};
use crate::fib::Before;
use crate::own::Own;

/// Prepared changes, and after a commit the changes that undo it.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// State of the FE after all prepared changes.
    pub(super) draft: Option<Own>,
    /// Prepared operations on the router.
    pub(super) operations: Vec<Operation>,
    /// Prepared rows of forwarding tables. They are in the tables already; their routes follow with the commit.
    pub(super) rows: Rows,
    /// Set after the commit.
    undo: Option<Undo>,
}

/// The changes that undo a commit.
#[derive(Debug)]
struct Undo {
    own: Own,
    operations: Vec<Operation>,
    rows: Vec<Before>,
}

/// A commit or an abort that waits for the router.
#[derive(Debug)]
pub(super) struct Ending {
    ticket: Option<Ticket>,
    pub(super) change: ChangeTicket,
    /// State of the FE after the commit or abort.
    draft: Own,
    is_commit: bool,
    before: weir_lfb::Plan,
    /// The changed rows of a commit; their routes leave this field when they are passed to the machine.
    rows: Rows,
    pub(super) routed: Option<RouteTicket>,
}

impl Agent {
    pub(super) fn begin_commit(&mut self, now: Instant, ticket: Ticket) {
        let transaction = self.transaction.get_or_insert_default();
        let operations = transaction.operations.clone();
        let draft = transaction.draft.clone();
        let rows = std::mem::take(&mut transaction.rows);
        let draft = draft.unwrap_or_else(|| self.own.clone());
        self.change(now, Some(ticket), draft, (operations, rows), true);
    }

    /// Discards prepared changes, and undoes committed changes.
    pub(super) fn begin_abort(&mut self, now: Instant, ticket: Option<Ticket>) {
        let transaction = self.transaction.take().unwrap_or_default();
        self.undo_rows(transaction.rows.changed.journal, false);
        match transaction.undo {
            Some(undo) => {
                self.undo_rows(undo.rows, true);
                let changes = (undo.operations, Rows::default());
                self.change(now, ticket, undo.own, changes, false);
            }
            None => self.answer_end(now, ticket, ResultCode::Success),
        }
    }

    fn change(
        &mut self,
        now: Instant,
        ticket: Option<Ticket>,
        draft: Own,
        (operations, rows): (Vec<Operation>, Rows),
        is_commit: bool,
    ) {
        let change = ChangeTicket(self.ticket());
        let ending = Ending {
            ticket,
            change,
            draft,
            is_commit,
            before: self.plan.clone(),
            rows,
            routed: None,
        };
        if operations.is_empty() {
            return self.end_with_routes(now, ending);
        }
        self.effects.push_back(Effect::Change(change, operations));
        self.job = Some(Job::Ending(Box::new(ending)));
    }

    /// Handles the router's answer.
    pub(super) fn ended(
        &mut self,
        now: Instant,
        ending: Ending,
        answer: Result<Vec<String>, Vec<Fault>>,
    ) {
        self.note_change(&answer);
        match answer {
            Ok(_) => self.end_with_routes(now, ending),
            Err(faults) => {
                let code = faults
                    .first()
                    .map(|fault| u32::from(fault.code as u8).into());
                let code = code.unwrap_or(ResultCode::InternalError);
                self.undo_rows(ending.rows.changed.journal, false);
                let why = faults.first().map(ToString::to_string);
                self.refuse_end(now, ending.ticket, code, &why.unwrap_or_default());
            }
        }
    }

    /// Passes the routes of a commit to the machine, if there are any.
    fn end_with_routes(&mut self, now: Instant, mut ending: Ending) {
        if ending.rows.changed.routes.is_empty() {
            return self.end(now, ending);
        }
        ending.routed = Some(self.ask_routes(now, &mut ending.rows, &ending.draft));
        self.job = Some(Job::Ending(Box::new(ending)));
    }

    /// The machine has changed the routes. If some have failed, undoes the commit.
    pub(super) fn ended_routes(&mut self, now: Instant, ending: Ending, failures: &[RouteFailure]) {
        if failures.is_empty() {
            return self.end(now, ending);
        }
        self.undo_rows(ending.rows.changed.journal, true);
        self.change_back(&ending.before);
        let why = failures.first().map_or("", |failure| &failure.why);
        self.refuse_end(now, ending.ticket, ResultCode::InternalError, why);
    }

    fn end(&mut self, now: Instant, ending: Ending) {
        let before = self.own.clone();
        self.answer_end(now, ending.ticket, ResultCode::Success);
        self.adopt(now, ending.draft);
        if let Some(transaction) = self.transaction.as_mut().filter(|_| ending.is_commit) {
            transaction.undo = Some(Undo {
                own: before,
                operations: self.plan.operations_to(&ending.before),
                rows: ending.rows.changed.journal,
            });
        }
    }

    fn refuse_end(&mut self, now: Instant, ticket: Option<Ticket>, code: ResultCode, why: &str) {
        if let Some(ticket) = ticket {
            let _ = self.fe.refuse_commit(now, ticket, code, why); // always fits a message
        }
    }

    fn answer_end(&mut self, now: Instant, ticket: Option<Ticket>, code: ResultCode) {
        if let Some(ticket) = ticket {
            let _ = self.fe.respond_commit(now, ticket, code); // always fits a message
        }
    }
}
