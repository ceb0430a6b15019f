//! The FE's part in a two-phase commit (RFC 5810, 4.3.1.2): the session decides what is permitted when.

use weir_base::Instant;
use weir_forces::session::fe::Ticket;
use weir_forces::wire::ResultCode;
use weir_model::{Fault, Operation};

use super::{Agent, Job};
use crate::contract::{ChangeTicket, Effect};
use crate::own::Own;

/// Prepared changes, and how it is undone once it is committed.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The FE after everything that was prepared.
    pub(super) draft: Option<Own>,
    /// Operations on the router that were prepared.
    pub(super) operations: Vec<Operation>,
    /// Once it is committed: the FE before, and the operations that undo those on the router.
    undo: Option<(Own, Vec<Operation>)>,
}

/// A commit or an abort that waits for the router.
#[derive(Debug)]
pub(super) struct Ending {
    ticket: Option<Ticket>,
    pub(super) change: ChangeTicket,
    /// The FE afterwards.
    draft: Own,
    is_commit: bool,
    before: weir_lfb::Plan,
}

impl Agent {
    pub(super) fn begin_commit(&mut self, now: Instant, ticket: Ticket) {
        let transaction = self.transaction.get_or_insert_default();
        let operations = transaction.operations.clone();
        let draft = transaction.draft.clone();
        let draft = draft.unwrap_or_else(|| self.own.clone());
        self.change(now, Some(ticket), draft, operations, true);
    }

    /// Forgets what was prepared, and undoes what was committed.
    pub(super) fn begin_abort(&mut self, now: Instant, ticket: Option<Ticket>) {
        let transaction = self.transaction.take();
        match transaction.and_then(|transaction| transaction.undo) {
            Some((own, operations)) => self.change(now, ticket, own, operations, false),
            None => self.answer_end(now, ticket, ResultCode::Success),
        }
    }

    fn change(
        &mut self,
        now: Instant,
        ticket: Option<Ticket>,
        draft: Own,
        operations: Vec<Operation>,
        is_commit: bool,
    ) {
        let change = ChangeTicket(self.ticket());
        let ending = Ending {
            ticket,
            change,
            draft,
            is_commit,
            before: self.plan.clone(),
        };
        if operations.is_empty() {
            return self.end(now, ending);
        }
        self.effects.push_back(Effect::Change(change, operations));
        self.job = Some(Job::Ending(Box::new(ending)));
    }

    /// The router has answered.
    pub(super) fn ended(
        &mut self,
        now: Instant,
        ending: Ending,
        answer: Result<Vec<String>, Vec<Fault>>,
    ) {
        self.note_change(&answer);
        match answer {
            Ok(_) => self.end(now, ending),
            Err(faults) => {
                let code = faults
                    .first()
                    .map(|fault| u32::from(fault.code as u8).into());
                let code = code.unwrap_or(ResultCode::InternalError);
                self.answer_end(now, ending.ticket, code);
            }
        }
    }

    fn end(&mut self, now: Instant, ending: Ending) {
        let before = self.own.clone();
        self.answer_end(now, ending.ticket, ResultCode::Success);
        self.adopt(now, ending.draft);
        if let Some(transaction) = self.transaction.as_mut().filter(|_| ending.is_commit) {
            transaction.undo = Some((before, self.plan.operations_to(&ending.before)));
        }
    }

    fn answer_end(&mut self, now: Instant, ticket: Option<Ticket>, code: ResultCode) {
        if let Some(ticket) = ticket {
            let _ = self.fe.respond_commit(now, ticket, code); // it always fits a message
        }
    }
}
