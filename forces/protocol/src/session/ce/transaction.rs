//! All-or-none changes at several FEs: a two-phase commit (RFC 5810, 4.3.1.2).
//!
//! ```text
//!  every FE    Config SOT, MOT: check          Config EOT: COMMIT        TRCOMP, not answered
//!             -------- all succeed --------> ------ all succeed ------> committed
//!                        '---- one fails, is lost or late ----'
//!                                        |
//!                                        v  Config ABT at every FE still associated
//!                                     aborted
//! ```
//!
//! The CE sends all messages of a phase at the same time. An FE that does not answer the abort is *in doubt*: the CE
//! restores its desired state there. A lost FE undoes its part on its own.
//!
//! *Decision*: COMMIT and TRCOMP are in an LFBselect of class 1, instance 1, because the RFC does not define the
//! LFBselect. TRCOMP has the flags of a COMMIT, but FEs never answer it.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};

use super::contract::{Cause, Ended, Event, RequestError, TransactionId};
use super::messages::flags;
use super::request::{Owner, Step};
use super::{Ce, commits};
use crate::wire::header::{Ack, Execution, Flags, Phase};
use crate::wire::message::{Config, Selects};
use crate::wire::{Body, Id, LfbSelect, MessageKind, Operation, WireError};

/// Maximum duration of each phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Time for all FEs to check their parts.
    pub prepare: Span,
    /// Time for all FEs to execute their parts.
    pub commit: Span,
    /// Time for all FEs to undo their parts.
    pub abort: Span,
}

/// The reason why a transaction does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// There are no parts, an FE has two parts, or a part has no changes.
    #[error("a transaction needs at least one FE, and lists each FE once, with changes")]
    Parts,
    /// A part cannot be sent.
    #[error(transparent)]
    Request(#[from] RequestError),
}

#[derive(Debug)]
pub(super) struct Transaction {
    step: Step,
    deadlines: Deadlines,
    /// Number of outstanding answers of each FE.
    owed: BTreeMap<Id, usize>,
    failures: Vec<(Id, Cause)>,
    in_doubt: Vec<Id>,
}

impl Ce {
    /// Changes components of several FEs: makes all changes or none.
    pub fn transact(
        &mut self,
        now: Instant,
        parts: Vec<(Id, Vec<Config>)>,
        deadlines: Deadlines,
    ) -> Result<TransactionId, TransactionError> {
        self.check_parts(&parts)?;
        let id = TransactionId(self.next);
        self.next += 1;
        let owed = parts
            .iter()
            .map(|(fe, configs)| (*fe, configs.len()))
            .collect();
        let transaction = Transaction {
            step: Step::Prepare,
            deadlines,
            owed,
            failures: Vec::new(),
            in_doubt: Vec::new(),
        };
        self.transactions.insert(id, transaction);
        for (fe, _) in &parts {
            if let Some(association) = self.fes.get_mut(fe) {
                association.transaction = Some(id);
            }
        }
        let deadline = now + deadlines.prepare;
        for (fe, configs) in parts {
            for (at, config) in configs.into_iter().enumerate() {
                let phase = if at == 0 { Phase::Start } else { Phase::Middle };
                let asked = (deadline, Owner::Transaction(id, Step::Prepare));
                let body = Body::Config(config);
                if self
                    .request(now, fe, body, phase_flags(phase, Ack::Always), asked)
                    .is_err()
                {
                    self.settle(now, id, fe, Step::Prepare, Err(Cause::Unsent));
                    return Ok(id);
                }
            }
        }
        Ok(id)
    }

    fn check_parts(&self, parts: &[(Id, Vec<Config>)]) -> Result<(), TransactionError> {
        if parts.is_empty() {
            return Err(TransactionError::Parts);
        }
        for (at, (fe, configs)) in parts.iter().enumerate() {
            if configs.is_empty() || parts[..at].iter().any(|(other, _)| other == fe) {
                return Err(TransactionError::Parts);
            }
            if configs.iter().any(commits) {
                return Err(RequestError::Commits.into());
            }
            let association = self.fes.get(fe).ok_or(RequestError::Unassociated(*fe))?;
            if association.transaction.is_some() {
                return Err(RequestError::Busy(*fe).into());
            }
            let waiting = association.requests.waiting() + configs.len();
            if waiting > self.params.requests_max {
                return Err(RequestError::Full(*fe).into());
            }
        }
        Ok(())
    }

    /// An FE has answered a message of a transaction, or has failed to do so.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        id: TransactionId,
        fe: Id,
        step: Step,
        outcome: Result<(), Cause>,
    ) {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        if transaction.step != step {
            return; // an answer to an earlier phase
        }
        if let Some(owed) = transaction.owed.get_mut(&fe) {
            *owed = owed.saturating_sub(1);
        }
        match (outcome, step) {
            (Ok(()), _) => {}
            (Err(_), Step::Abort) => transaction.in_doubt.push(fe),
            (Err(cause), _) => {
                transaction.failures.push((fe, cause));
                return self.abort(now, id);
            }
        }
        let is_settled = transaction.owed.values().all(|owed| *owed == 0);
        match (is_settled, step) {
            (false, _) => {}
            (true, Step::Prepare) => self.advance(now, id, Step::Commit),
            (true, Step::Commit) => self.complete(now, id),
            (true, Step::Abort) => self.finish_abort(id),
        }
    }

    /// A participant of a transaction was lost.
    pub(super) fn fail(&mut self, now: Instant, id: TransactionId, fe: Id, cause: Cause) {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        transaction.owed.remove(&fe);
        match transaction.step {
            Step::Abort => {
                if transaction.owed.values().all(|owed| *owed == 0) {
                    self.finish_abort(id);
                }
            }
            Step::Prepare | Step::Commit => {
                transaction.failures.push((fe, cause));
                self.abort(now, id);
            }
        }
    }

    fn abort(&mut self, now: Instant, id: TransactionId) {
        let fes = self.participants(id);
        for fe in &fes {
            if let Some(association) = self.fes.get_mut(fe) {
                association.requests.cancel(id);
            }
        }
        if fes.is_empty() {
            return self.finish_abort(id);
        }
        self.advance(now, id, Step::Abort);
    }

    /// Begins a phase in which every FE gets one message.
    fn advance(&mut self, now: Instant, id: TransactionId, step: Step) {
        let fes = self.participants(id);
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        transaction.step = step;
        transaction.owed.values_mut().for_each(|owed| *owed = 1);
        let (phase, span) = match step {
            Step::Abort => (Phase::Abort, transaction.deadlines.abort),
            Step::Prepare | Step::Commit => (Phase::End, transaction.deadlines.commit),
        };
        let owner = Owner::Transaction(id, step);
        for fe in fes {
            if self.transactions.get(&id).is_none_or(|t| t.step != step) {
                return; // sending a message failed, which ended this phase
            }
            let sent = alone(Operation::COMMIT)
                .map_err(RequestError::from)
                .and_then(|body| {
                    self.request(
                        now,
                        fe,
                        body,
                        phase_flags(phase, Ack::Always),
                        (now + span, owner),
                    )
                });
            if sent.is_err() {
                self.settle(now, id, fe, step, Err(Cause::Unsent));
            }
        }
    }

    fn complete(&mut self, now: Instant, id: TransactionId) {
        for fe in self.participants(id) {
            if let Ok(body) = alone(Operation::TRANSACTION_COMPLETE) {
                let asked = (Instant::FAR_FUTURE, Owner::Transaction(id, Step::Commit));
                // Sending fails only if the FE is lost, which then undoes its part.
                let _ = self.request(now, fe, body, phase_flags(Phase::End, Ack::Never), asked);
            }
        }
        self.conclude(id, Ended::Committed);
    }

    fn finish_abort(&mut self, id: TransactionId) {
        if let Some(transaction) = self.transactions.get_mut(&id) {
            let failures = std::mem::take(&mut transaction.failures);
            let in_doubt = std::mem::take(&mut transaction.in_doubt);
            self.conclude(id, Ended::Aborted { failures, in_doubt });
        }
    }

    fn conclude(&mut self, id: TransactionId, ended: Ended) {
        for fe in self.participants(id) {
            if let Some(association) = self.fes.get_mut(&fe) {
                association.transaction = None;
            }
        }
        self.transactions.remove(&id);
        self.events.push_back(Event::Ended(id, ended));
    }

    fn participants(&self, id: TransactionId) -> Vec<Id> {
        let transaction = self.transactions.get(&id);
        transaction.map_or(Vec::new(), |t| t.owed.keys().copied().collect())
    }
}

fn phase_flags(phase: Phase, ack: Ack) -> Flags {
    Flags {
        ack,
        execution: Execution::AllOrNone,
        transaction: true,
        phase,
        ..flags(MessageKind::Config)
    }
}

fn alone(operation: Operation) -> Result<Body, WireError> {
    let select = LfbSelect::new(1, 1, vec![operation])?;
    Ok(Body::Config(Selects::new(vec![select])?))
}
