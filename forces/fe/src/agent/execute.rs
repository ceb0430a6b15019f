//! Executes a Config, or prepares it as a part of a transaction.
//!
//! | execution mode | operations on the router |
//! |---|---|
//! | all or none, prepare | all operations of the message form one change |
//! | until failure, continue on failure | the operations of each path form a change |
//!
//! The same applies to rows of forwarding tables ([`route`](super::route)).

use weir_base::Instant;
use weir_model::{Fault, Operation};
use weir_protocol::session::execute::{self, Answer};
use weir_protocol::session::fe::{Stage, Ticket};
use weir_protocol::wire::header::{Execution as Mode, Flags};
use weir_protocol::wire::message::Config;
use weir_protocol::wire::{Body, Content, LfbSelect, OperationKind, Outcome, ResultCode};

use super::route::Rows;
use super::{Agent, Job, Transaction};
use crate::contract::{ChangeTicket, Effect, Notice, RouteFailure, RouteTicket};
use crate::own::Own;
use crate::request::{Failure, Item, Recorded};

/// A Config in progress.
#[derive(Debug)]
pub(super) struct Execution {
    ticket: Ticket,
    stage: Stage,
    flags: Flags,
    config: Config,
    items: Vec<Item>,
    /// Answers to the paths so far.
    answers: Vec<Answer>,
    /// State of the FE after the paths so far.
    draft: Own,
    /// Operations on the router that are not executed yet, each with the index of its path.
    operations: Vec<(usize, Operation)>,
    /// The draft before the current path, if paths are executed one by one.
    before: Option<Own>,
    waits: Option<ChangeTicket>,
    /// Changed rows of forwarding tables whose routes are not active yet.
    rows: Rows,
    routed: Option<RouteTicket>,
    /// The configuration before the operations, which are undone if a route is refused.
    plan: Option<weir_lfb::Plan>,
}

impl Execution {
    pub(super) fn waits_for(&self, ticket: ChangeTicket) -> bool {
        self.waits == Some(ticket)
    }

    pub(super) fn waits_for_routes(&self, ticket: RouteTicket) -> bool {
        self.routed == Some(ticket)
    }

    fn is_whole(&self) -> bool {
        self.flags.execution == Mode::AllOrNone
    }

    fn needs_router(&self) -> bool {
        !self.operations.is_empty() || !self.rows.changed.routes.is_empty()
    }
}

impl Agent {
    pub(super) fn begin_config(
        &mut self,
        now: Instant,
        ticket: Ticket,
        stage: Stage,
        flags: Flags,
        config: Config,
    ) {
        if !self.fe.can_answer(ticket, &config) {
            let code = ResultCode::ContentsTooLong;
            let response = execute::refuse_at_first(&config, code).ok();
            let _ = self
                .fe
                .respond(now, ticket, response.map(Body::ConfigResponse)); // it fits a message
            return;
        }
        let draft = match (&self.transaction, stage) {
            (
                Some(Transaction {
                    draft: Some(draft), ..
                }),
                Stage::Prepare,
            ) => draft.clone(),
            _ => self.own.clone(),
        };
        let execution = Execution {
            ticket,
            stage,
            items: match is_executable(&flags, &config) {
                true => Item::all(config.selects()),
                false => Vec::new(), // refused when answered
            },
            answers: Vec::new(),
            draft,
            operations: Vec::new(),
            before: None,
            waits: None,
            rows: Rows::default(),
            routed: None,
            plan: None,
            flags,
            config,
        };
        self.execute(now, Box::new(execution));
    }

    /// Executes paths until the router is needed, or to the end.
    fn execute(&mut self, now: Instant, mut execution: Box<Execution>) {
        while execution.answers.len() < execution.items.len() {
            let number = execution.answers.len();
            let is_whole = execution.is_whole();
            execution.before = (!is_whole).then(|| execution.draft.clone());
            match self.execute_path(&mut execution) {
                Ok(operations) => {
                    execution.answers.push(success());
                    let operations = operations.into_iter().map(|o| (number, o));
                    execution.operations.extend(operations);
                    if !is_whole && execution.needs_router() {
                        return self.ask(now, execution);
                    }
                }
                Err(failure) => {
                    execution.answers.push(failure.answer());
                    self.undo_rows(std::mem::take(&mut execution.rows).changed.journal, false);
                    match execution.before.take() {
                        Some(before) => execution.draft = before,
                        None => return self.finish(now, *execution),
                    }
                    if execution.flags.execution == Mode::UntilFailure {
                        break;
                    }
                }
            }
        }
        if execution.is_whole()
            && let Err((class, failure)) = execution.draft.complete()
        {
            let of_class = |item: &Item| item.class == class;
            let at = execution.items.iter().rposition(of_class);
            execution.answers[at.unwrap_or_default()] = failure.answer();
            return self.finish(now, *execution);
        }
        if execution.needs_router() {
            self.ask(now, execution)
        } else {
            self.finish(now, *execution)
        }
    }

    fn execute_path(&mut self, execution: &mut Execution) -> Result<Vec<Operation>, Failure> {
        let is_whole = execution.is_whole();
        let items = std::mem::take(&mut execution.items);
        let number = execution.answers.len();
        let Execution { rows, draft, .. } = execution;
        let result = match items.get(number) {
            Some(item) => match self.execute_rows(draft, rows, number, item) {
                Some(result) => result.map(|()| Vec::new()),
                None => draft.execute(item, &self.plan, &self.fe, is_whole),
            },
            None => Ok(Vec::new()),
        };
        execution.items = items;
        result
    }

    /// Requests that the router execute the operations, or check them together with the prepared operations of the
    /// transaction.
    fn ask(&mut self, now: Instant, mut execution: Box<Execution>) {
        if execution.operations.is_empty() {
            return self.ask_for_routes(now, execution);
        }
        let has_rows = !execution.rows.is_empty();
        execution.plan = has_rows.then(|| self.plan.clone());
        let ticket = ChangeTicket(self.ticket());
        let operations = execution.operations.iter().map(|(_, o)| o.clone());
        self.effects
            .push_back(match (execution.stage, &self.transaction) {
                (Stage::Execute, _) => Effect::Change(ticket, operations.collect()),
                (Stage::Prepare, None) => Effect::Check(ticket, operations.collect()),
                (Stage::Prepare, Some(transaction)) => {
                    let prepared = transaction.operations.iter().cloned();
                    Effect::Check(ticket, prepared.chain(operations).collect())
                }
            });
        execution.waits = Some(ticket);
        self.job = Some(Job::Executing(execution));
    }

    /// Handles the router's answer.
    pub(super) fn executed(
        &mut self,
        now: Instant,
        mut execution: Box<Execution>,
        answer: Result<Vec<String>, Vec<Fault>>,
    ) {
        execution.waits = None;
        if execution.stage == Stage::Execute {
            self.note_change(&answer);
        }
        match answer {
            Ok(_) => self.ask_for_routes(now, execution),
            Err(faults) => {
                let failures = blame(&execution.operations, &faults);
                self.failed(now, execution, failures, false);
            }
        }
    }

    /// Passes the changed routes to the machine, if there are any.
    fn ask_for_routes(&mut self, now: Instant, mut execution: Box<Execution>) {
        let has_routes = !execution.rows.changed.routes.is_empty();
        if execution.stage == Stage::Prepare || !has_routes {
            return self.go_on(now, execution);
        }
        let Execution { rows, draft, .. } = &mut *execution;
        execution.routed = Some(self.ask_routes(now, rows, draft));
        self.job = Some(Job::Executing(execution));
    }

    /// The machine has changed the routes. If some have failed, undoes all changes.
    pub(super) fn routed(
        &mut self,
        now: Instant,
        mut execution: Box<Execution>,
        failures: &[RouteFailure],
    ) {
        execution.routed = None;
        if failures.is_empty() {
            return self.go_on(now, execution);
        }
        let failures = execution.rows.blame(failures);
        self.failed(now, execution, failures, true);
    }

    /// Handles failed paths: undoes their changes, including the routes if `were_sent`.
    fn failed(
        &mut self,
        now: Instant,
        mut execution: Box<Execution>,
        failures: Vec<(usize, Failure)>,
        were_sent: bool,
    ) {
        for (number, failure) in failures {
            if let Some(answer) = execution.answers.get_mut(number) {
                *answer = failure.answer();
            }
        }
        self.undo_rows(
            std::mem::take(&mut execution.rows).changed.journal,
            were_sent,
        );
        if were_sent && let Some(before) = execution.plan.take() {
            self.change_back(&before);
        }
        if let Some(before) = execution.before.take() {
            execution.draft = before;
        }
        match execution.flags.execution {
            Mode::ContinueOnFailure => self.go_on(now, execution),
            _ => self.finish(now, *execution),
        }
    }

    /// Sends the answer, or continues with the next path.
    fn go_on(&mut self, now: Instant, mut execution: Box<Execution>) {
        if execution.is_whole() {
            self.finish(now, *execution)
        } else {
            execution.operations.clear();
            execution.rows = Rows::default();
            self.execute(now, execution);
        }
    }

    /// Restores an earlier configuration of the router, without waiting for the result.
    pub(super) fn change_back(&mut self, before: &weir_lfb::Plan) {
        let operations = self.plan.operations_to(before);
        if !operations.is_empty() {
            let ticket = ChangeTicket(self.ticket());
            self.effects.push_back(Effect::Change(ticket, operations));
        }
    }

    pub(super) fn note_change(&mut self, answer: &Result<Vec<String>, Vec<Fault>>) {
        let sentences = |faults: &Vec<Fault>| faults.iter().map(Fault::to_string).collect();
        self.notice(Notice::Changed(match answer {
            Ok(changes) => Ok(changes.clone()),
            Err(faults) => Err(sentences(faults)),
        }));
    }

    /// Sends the answer, and applies the executed changes.
    fn finish(&mut self, now: Instant, execution: Execution) {
        let Execution {
            ticket,
            stage,
            flags,
            config,
            items,
            answers,
            draft,
            operations,
            rows,
            ..
        } = execution;
        let is_refused = items.is_empty();
        let has_failed = answers.iter().any(Answer::is_failure);
        let response = |answers: &[Answer]| {
            let target = &mut Recorded(answers.iter());
            execute::config(&config, flags.execution, flags.ack, target)
        };
        let mut sent = false;
        for answers in [answers.clone(), short(&answers)] {
            let Ok(response) = response(&answers) else {
                continue;
            };
            let response = response.map(Body::ConfigResponse);
            sent |= self.fe.respond(now, ticket, response).is_ok();
            if sent {
                break;
            }
        }
        if !sent {
            let _ = self.fe.respond(now, ticket, None); // no form of the answer fits a message
        }
        match (stage, flags.execution) {
            _ if is_refused => {}
            (Stage::Prepare, _) | (_, Mode::AllOrNone) if has_failed => {
                self.undo_rows(rows.changed.journal, false);
            }
            (Stage::Execute, _) => self.adopt(now, draft),
            (Stage::Prepare, _) => {
                let operations = operations.into_iter().map(|(_, o)| o);
                let transaction = self.transaction.get_or_insert_with(Transaction::default);
                transaction.operations.extend(operations);
                transaction.draft = Some(draft);
                transaction.rows.extend(rows);
            }
        }
    }
}

fn success() -> Answer {
    Answer::new(Content::Outcome(Outcome::SUCCESS))
}

/// The same answers, without their causes.
fn short(answers: &[Answer]) -> Vec<Answer> {
    let answers = answers.iter().map(|answer| match &answer.content {
        Content::Outcome(outcome) => Answer::code(outcome.code()),
        _ => answer.clone(),
    });
    answers.collect()
}

/// Whether a Config has an execution mode and only operations that change components. Any other Config is refused as a
/// whole.
fn is_executable(flags: &Flags, config: &Config) -> bool {
    let mut operations = config.selects().iter().flat_map(LfbSelect::operations);
    flags.execution != Mode::Unset
        && operations.all(|operation| {
            matches!(
                operation.kind(),
                OperationKind::Set | OperationKind::SetProperty | OperationKind::Delete
            )
        })
}

/// Maps faults to the indices of the paths that caused them; a fault that matches no path is attributed to the last
/// path.
fn blame(operations: &[(usize, Operation)], faults: &[Fault]) -> Vec<(usize, Failure)> {
    let mut blamed = Vec::new();
    for fault in faults {
        let failure = Failure::new(u32::from(fault.code as u8).into(), fault.to_string());
        let is_about = |(_, operation): &&(usize, Operation)| {
            let (of, at) = (operation.path().segments(), fault.path.segments());
            !at.is_empty() && (of == at || of.starts_with(&at))
        };
        let about = operations.iter().find(is_about).or(operations.last());
        blamed.extend(about.map(|(number, _)| (*number, failure)));
    }
    blamed
}
