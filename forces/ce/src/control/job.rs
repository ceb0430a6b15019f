//! Work that takes several messages: the CE sends them all at once, and continues when all are answered.

use weir_base::{Instant, Span};
use weir_protocol::session::batch::Batch;
use weir_protocol::session::ce::{
    Cause, Deadlines, Ended, Manner, RequestError, RequestId, TransactionId,
};
use weir_protocol::wire::header::{Ack, Execution};
use weir_protocol::wire::message::{Config, Query, Selects};
use weir_protocol::wire::{Body, Id, LfbSelect, Operation, OperationKind, PathData, WireError};

use super::Control;
use super::continuation::{Answers, Then};
use crate::contract::Refusal;
use crate::leaf::{Leaf, leaves};
use crate::settings::{BlockId, Edit};

/// Longest message with changes, in bytes. Longer changes form a transaction of several messages.
const MESSAGE_MAX: usize = 60_000;
/// Extra time for an FE to process each message with changes that is queued before the one in question.
const MESSAGE_TIME: Span = Span::from_millis(100);
/// Maximum LFBs per Query, so that its answer fits in a message.
const BLOCKS_MAX: usize = 32;
/// Maximum paths of one LFB per Query: the FE answers each missing row with an error sentence.
const PATHS_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobId(u64);

/// Messages of which some are still unanswered.
#[derive(Debug)]
pub(super) struct Job {
    open: usize,
    leaves: Vec<Leaf>,
    failure: Option<Refusal>,
    then: Then,
}

impl Control {
    /// Sends queries for components, each given as an LFB and a path.
    pub(super) fn query(
        &mut self,
        now: Instant,
        fe: Id,
        paths: Vec<(BlockId, OperationKind, PathData)>,
        then: Then,
    ) {
        let id = self.job(then);
        let queries = match queries(paths) {
            Ok(queries) => queries,
            Err(error) => return self.fail(now, id, Refusal::Wrong(error.to_string())),
        };
        let deadline = now + self.params.answer_max;
        for query in queries {
            let sent = self.ce.query(now, fe, query, deadline);
            self.sent(id, sent);
        }
        self.settle(now, id);
    }

    /// Sends changes to one FE, all or none.
    pub(super) fn send(&mut self, now: Instant, fe: Id, edits: Vec<Edit>, then: Then) {
        let id = self.job(then);
        let mut configs = match configs(edits) {
            Ok(configs) => configs,
            Err(error) => return self.fail(now, id, Refusal::Wrong(error.to_string())),
        };
        if configs.len() > 1 {
            return self.transact_job(now, id, vec![(fe, configs)]);
        }
        self.configure(now, id, fe, configs.pop());
        self.settle(now, id);
    }

    /// Sends changes to one FE; each message is all or none by itself, and contains changes of only one list.
    pub(super) fn send_each(&mut self, now: Instant, fe: Id, lists: [Vec<Edit>; 2], then: Then) {
        let id = self.job(then);
        match lists
            .into_iter()
            .map(configs)
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(configs) => self.configure(now, id, fe, configs.into_iter().flatten()),
            Err(error) => return self.fail(now, id, Refusal::Wrong(error.to_string())),
        }
        self.settle(now, id);
    }

    fn configure(
        &mut self,
        now: Instant,
        id: JobId,
        fe: Id,
        configs: impl IntoIterator<Item = Config>,
    ) {
        for (before, config) in configs.into_iter().enumerate() {
            let manner = Manner {
                execution: Execution::AllOrNone,
                ack: Ack::Always,
                deadline: now + self.patience(before),
            };
            let sent = self.ce.configure(now, fe, config, manner);
            self.sent(id, sent);
        }
    }

    /// Timeout for the answer to a message that is queued behind `before` others.
    fn patience(&self, before: usize) -> Span {
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        self.params.answer_max + MESSAGE_TIME.times(before)
    }

    /// Sends changes to several FEs, all or none.
    pub(super) fn transact(&mut self, now: Instant, parts: Vec<(Id, Vec<Edit>)>, then: Then) {
        let id = self.job(then);
        let parts = parts
            .into_iter()
            .map(|(fe, edits)| Ok((fe, configs(edits)?)));
        match parts.collect::<Result<Vec<_>, WireError>>() {
            Ok(parts) => self.transact_job(now, id, parts),
            Err(error) => self.fail(now, id, Refusal::Wrong(error.to_string())),
        }
    }

    fn transact_job(&mut self, now: Instant, id: JobId, parts: Vec<(Id, Vec<Config>)>) {
        let messages = parts.iter().map(|(_, configs)| configs.len());
        let phase = self.patience(messages.max().unwrap_or(0));
        let deadlines = Deadlines {
            prepare: phase,
            commit: phase,
            abort: phase,
        };
        match self.ce.transact(now, parts, deadlines) {
            Ok(transaction) => {
                self.transactions.insert(transaction, id);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.open += 1;
                }
            }
            Err(error) => self.fail(now, id, Refusal::Refused(vec![error.to_string()])),
        }
    }

    fn job(&mut self, then: Then) -> JobId {
        let id = JobId(self.number());
        let job = Job {
            open: 0,
            leaves: Vec::new(),
            failure: None,
            then,
        };
        self.jobs.insert(id, job);
        id
    }

    fn sent(&mut self, id: JobId, sent: Result<RequestId, RequestError>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        match sent {
            Ok(request) => {
                job.open += 1;
                self.open.insert(request, id);
            }
            Err(error) => {
                job.failure
                    .get_or_insert(Refusal::Silent(error.to_string()));
            }
        }
    }

    fn fail(&mut self, now: Instant, id: JobId, refusal: Refusal) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.failure.get_or_insert(refusal);
        }
        self.settle(now, id);
    }

    /// Finishes a job if none of its messages is open.
    fn settle(&mut self, now: Instant, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.open == 0)
            && let Some(job) = self.jobs.remove(&id)
        {
            let answers = match job.failure {
                Some(refusal) => Err(refusal),
                None => Ok(job.leaves),
            };
            self.proceed(now, job.then, answers);
        }
    }

    pub(super) fn proceed(&mut self, now: Instant, then: Then, answers: Answers) {
        match then {
            Then::Describe(fe) => self.described(now, fe, answers),
            Then::Master(fe) => self.has_master(now, fe, answers),
            Then::Compare(fe) => self.compare(now, fe, answers),
            Then::Restored(fe, restoring) => self.restored(now, fe, *restoring, answers),
            Then::Routed(fe, updates, count) => self.routed(now, fe, *updates, count, answers),
            Then::Learnt(fe, updates) => self.learnt_sent(now, fe, *updates, answers),
            Then::RowsAgain(fe) => self.rows_again(now, fe, answers),
            Then::Value(ticket, fe, resolved) => self.got(ticket, fe, &resolved, answers),
            Then::Rows(ticket, fe, class) => self.got_rows(ticket, fe, class, answers),
            Then::Explain(ticket, fe, evidence) => self.explained(ticket, fe, *evidence, answers),
            Then::Overview(ticket, fe, suite) => {
                self.overview_read(now, ticket, fe, suite.as_deref(), answers);
            }
            Then::Config(ticket, fe) => self.got_config(ticket, fe, answers),
            Then::Changed(pending) => self.changed(now, *pending, answers),
            Then::Steered(ticket, fe) => self.steered(ticket, fe, answers),
            Then::Given(giving) => self.given(now, *giving, answers),
            Then::Sample(watch) => self.sampled(watch, answers),
            Then::Subscribed(registration) => self.subscribed(registration, answers),
            Then::FollowsKernel(fe, count) => self.follows_kernel(now, fe, count),
            Then::Kernel(fe, resolved, count) => {
                self.kernel_read(now, fe, &resolved, count, answers)
            }
        }
    }

    /// Handles an answer of an FE.
    pub(super) fn respond(&mut self, now: Instant, request: RequestId, body: &Body, last: bool) {
        let Some(id) = self.open.get(&request).copied() else {
            return;
        };
        let selects = match body {
            Body::ConfigResponse(response) => response.selects(),
            Body::QueryResponse(response) => response.selects(),
            _ => &[],
        };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.leaves.extend(leaves(selects));
            job.open -= usize::from(last);
        }
        if last {
            self.open.remove(&request);
            self.settle(now, id);
        }
    }

    /// Handles a request that gets no answer.
    pub(super) fn unanswered(&mut self, now: Instant, fe: Id, request: RequestId) {
        let Some(id) = self.open.remove(&request) else {
            return;
        };
        let why = format!("{} did not answer", self.shown(fe));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.open -= 1;
            job.failure.get_or_insert(Refusal::Silent(why));
        }
        self.settle(now, id);
    }

    /// A transaction has ended.
    pub(super) fn ended(&mut self, now: Instant, transaction: TransactionId, ended: Ended) {
        let Some(id) = self.transactions.remove(&transaction) else {
            return;
        };
        let failure = match ended {
            Ended::Committed => None,
            Ended::Aborted { failures, in_doubt } => {
                let doubts = in_doubt.iter().map(|fe| {
                    let fe = self.shown(*fe);
                    format!("{fe}: did not confirm the rollback of its part")
                });
                let failures = failures.iter().map(|(fe, cause)| {
                    let fe = self.shown(*fe);
                    format!("{fe}: {}", in_words(cause))
                });
                Some(Refusal::Refused(failures.chain(doubts).collect()))
            }
        };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.open -= 1;
            job.failure = job.failure.take().or(failure);
        }
        self.settle(now, id);
    }

    /// Name of an FE for error texts; its ID if the name is unknown.
    pub(super) fn shown(&self, fe: Id) -> String {
        let name = self.fes.get(&fe).map(|fe| fe.name.clone());
        name.unwrap_or_else(|| fe.to_string())
    }
}

fn in_words(cause: &Cause) -> String {
    match cause {
        Cause::Failed(code, Some(why)) if !why.is_empty() => format!("{why} ({code})"),
        Cause::Failed(code, _) => format!("refused the change: {code}"),
        Cause::Unanswered => "did not answer in time".to_owned(),
        Cause::Malformed => "sent a malformed answer".to_owned(),
        Cause::Lost => "its association ended".to_owned(),
        Cause::Unsent => "the change could not be sent".to_owned(),
    }
}

fn configs(edits: Vec<Edit>) -> Result<Vec<Config>, WireError> {
    let mut batch = Batch::new(MESSAGE_MAX);
    let mut edits = edits.into_iter().peekable();
    while let Some(first) = edits.next() {
        let section = first.section();
        let mut together = vec![first];
        while section.is_some()
            && let Some(next) = edits.next_if(|next| next.section() == section)
        {
            together.push(next);
        }
        batch.keep_together(together.iter().map(|edit| (edit.operation, &edit.path)))?;
        for edit in together {
            batch.push(edit.block, edit.operation, edit.path)?;
        }
    }
    batch.finish()
}

/// Builds queries for components. Consecutive paths of one LFB share an LFBselect.
fn queries(paths: Vec<(BlockId, OperationKind, PathData)>) -> Result<Vec<Query>, WireError> {
    let mut selects: Vec<LfbSelect> = Vec::new();
    let mut paths = paths.into_iter().peekable();
    while let Some((block, kind, path)) = paths.next() {
        let mut of_block = vec![path];
        while of_block.len() < PATHS_MAX
            && let Some((.., path)) = paths.next_if(|next| (next.0, next.1) == (block, kind))
        {
            of_block.push(path);
        }
        let operation = Operation::on(kind, of_block)?;
        selects.push(LfbSelect::new(block.0, block.1, vec![operation])?);
    }
    let chunks = selects.chunks(BLOCKS_MAX);
    chunks.map(|chunk| Selects::new(chunk.to_vec())).collect()
}
