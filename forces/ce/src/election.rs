//! The election of a leader among control elements that share their desired state in etcd, without I/O.
//!
//! ```text
//!            all keys             no leader             won: all keys
//!  reading ----------> following ----------> campaign ----------------> leading
//!     ^                    |  ^                  | lost                    |
//!     |   the watch ended, |  '------------------'                         |
//!     +--- or is behind ---'           not renewed in time, or deposed     |
//!     '--------------------------------------------------------------------'
//! ```
//!
//! | key, below the prefix | value |
//! |---|---|
//! | `meta/leader` | number of the leader's process, its lease in milliseconds, and its name; the create revision is the *epoch* |
//! | `meta/change` | epoch and number of the last change |
//! | `state/KEY` | an entry of the desired state |
//!
//! **Lease.** The leader writes its key again four times in a lease. A follower that has not seen that for a whole lease
//! deletes the key, on condition that it is still as seen. The leader leads until a tenth of the lease before that, counted
//! from the sending of the last renewal that etcd has confirmed. Clocks of the machines may differ; only their rates must
//! agree within that tenth.
//!
//! **Fencing.** Each change is a transaction that compares the epoch and the revision of the change before, so a deposed
//! leader changes nothing, and a change whose answer is lost can be repeated: it takes effect once.
//!
//! *Decision*: the key has no lease of etcd. etcd extends all leases when it elects its own leader, so after the death of a
//! machine with both leaders another CE would lead later by up to a lease. In return etcd keeps a revision for each
//! renewal; the leader compacts them.

use std::collections::{BTreeMap, VecDeque};

use weir_base::{Instant, Span};

/// A key with its new value; `None` removes the key.
pub type Entry = (String, Option<String>);

/// Longest lease.
pub const LEASE_MAX: Span = Span::from_secs(60);
/// Pause before a failed request is repeated.
const RETRY: Span = Span::from_millis(100);
/// Renewals in a lease, and the part of the lease at its end in which the leader no longer leads.
const RENEWALS: u64 = 4;
const MARGIN: u64 = 10;
/// Revisions that etcd keeps at least, and the revisions between two compactions.
const REVISIONS_KEPT: u64 = 1000;

/// The parameters of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Name of this control element.
    pub name: String,
    /// A number that no other process has.
    pub process: u64,
    /// The beginning of all keys.
    pub prefix: String,
    /// Time without a renewal after which another control element may lead.
    pub lease: Span,
}

/// A request to etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read all keys with this prefix.
    Range(String),
    /// Compare, and then do one or the other, as a whole.
    Txn {
        /// The condition.
        compares: Vec<Compare>,
        /// Operations if all conditions hold.
        then: Vec<Op>,
        /// Operations otherwise.
        otherwise: Vec<Op>,
    },
    /// Forget all revisions before this one.
    Compact(u64),
}

/// A condition about a key; the revision of a key that does not exist is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was created at this revision.
    Created(String, u64),
    /// The key was last changed at this revision.
    Changed(String, u64),
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Set a key.
    Put(String, String),
    /// Delete a key.
    Delete(String),
    /// Read all keys with this prefix.
    Range(String),
}

/// A key as etcd has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The whole key.
    pub name: String,
    /// The value.
    pub value: String,
    /// Revision that created the key.
    pub created: u64,
    /// Revision that changed the key last.
    pub changed: u64,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the conditions of a transaction held.
    pub succeeded: bool,
    /// The revision of the store.
    pub revision: u64,
    /// The keys that were read.
    pub keys: Vec<Key>,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// etcd has refused the request; nothing has changed.
    Refused(String),
    /// No answer: etcd may or may not have executed the request.
    Lost(String),
}

/// ID of a request, of a watch, or of a change, which the caller chooses.
pub type Number = u64;

/// An output for the habitat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a request, then call [`Election::handle_answer`].
    Request(Number, Request),
    /// Watch all keys of the prefix from this revision on, instead of an earlier watch. Then call
    /// [`Election::handle_watch`], and [`Election::handle_watch_ended`] at its end.
    Watch(Number, u64),
    /// This control element is the leader until this instant.
    Leads(Instant),
    /// This control element is not the leader; the name of the leader, if there is one.
    Follows(Option<String>),
    /// The whole desired state.
    State(BTreeMap<String, String>),
    /// Changes of the desired state by the leader.
    Changed(Vec<Entry>),
    /// A change is durable, or why it is not.
    Written(Number, Result<(), String>),
    /// Why etcd cannot be used; `None`: it answers again.
    Trouble(Option<String>),
}

/// A leader, per its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leader {
    name: String,
    process: u64,
    lease: Span,
    epoch: u64,
    /// Revision of the last renewal.
    renewed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Following,
    /// Until this instant.
    Leading(Instant),
}

/// Kinds of requests. Each kind has at most one open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Read,
    Campaign,
    Renew,
    Write,
    /// Delete the key of a leader that does not renew it.
    Depose,
    Compact,
}

/// A change by this control element.
#[derive(Debug)]
struct Change {
    id: Number,
    entries: Vec<Entry>,
    /// Value of `meta/change` after it.
    mark: String,
}

/// A participant of an election. After each call of a `handle_*` function, of [`Self::write`] or of [`Self::leave`], call
/// [`Self::poll_output`] until it returns nothing, and then [`Self::poll_timeout`] for the instant at which to call
/// [`Self::handle_timeout`].
#[derive(Debug)]
pub struct Election {
    params: Params,
    phase: Phase,
    leader: Option<Leader>,
    /// The revision of the last change.
    change: u64,
    changes: VecDeque<Change>,
    due: BTreeMap<Work, Instant>,
    open: BTreeMap<Number, (Work, Instant)>,
    watch: Number,
    /// The revision at the last compaction.
    compacted: u64,
    is_troubled: bool,
    next: u64,
    outputs: VecDeque<Output>,
}

impl Election {
    /// Joins the election.
    pub fn new(now: Instant, params: Params) -> Self {
        Self {
            params,
            phase: Phase::Reading,
            leader: None,
            change: 0,
            changes: VecDeque::new(),
            due: BTreeMap::from([(Work::Read, now)]),
            open: BTreeMap::new(),
            watch: 0,
            compacted: 0,
            is_troubled: false,
            next: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Does all work that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Phase::Leading(until) = self.phase
            && until <= now
        {
            self.step_down(now);
        }
        let due = self
            .due
            .iter()
            .filter(|(work, at)| **at <= now && !self.is_open(**work));
        for work in due.map(|(work, _)| *work).collect::<Vec<_>>() {
            self.due.remove(&work);
            self.start(now, work);
        }
    }

    /// The next instant at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.due.iter().filter(|(work, _)| !self.is_open(**work));
        let until = match self.phase {
            Phase::Leading(until) => Some(until),
            Phase::Reading | Phase::Following => None,
        };
        due.map(|(_, at)| *at).chain(until).min()
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Makes entries durable, all or none; the result is an output with this number.
    pub fn write(&mut self, now: Instant, id: Number, entries: Vec<Entry>) {
        match (&self.leader, self.phase) {
            (Some(leader), Phase::Leading(_)) => {
                self.next += 1;
                let mark = format!("{}.{}", leader.epoch, self.next);
                self.changes.push_back(Change { id, entries, mark });
                self.due.entry(Work::Write).or_insert(now);
                self.handle_timeout(now);
            }
            _ => {
                let why = not_leader(self.leader.as_ref().map(|leader| &*leader.name));
                self.outputs.push_back(Output::Written(id, Err(why)));
            }
        }
    }

    /// Leaves the election: the next leader need not wait for the end of the lease.
    pub fn leave(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Leading(_)) {
            self.start(now, Work::Depose);
        }
    }

    /// Handles the answer to a request.
    pub fn handle_answer(&mut self, now: Instant, id: Number, answer: Result<Answer, Failure>) {
        let Some((work, sent)) = self.open.remove(&id) else {
            return; // it belongs to an earlier phase
        };
        match answer {
            Ok(answer) => {
                self.trouble(None);
                self.answered(now, sent, work, answer);
            }
            Err(failure) => self.failed(now, work, failure),
        }
        self.handle_timeout(now);
    }

    /// Handles changed keys, each with its new value, or `None` if it was deleted.
    pub fn handle_watch(&mut self, now: Instant, watch: Number, keys: Vec<(String, Option<Key>)>) {
        if watch != self.watch || self.phase == Phase::Reading {
            return;
        }
        let (leader_key, change_key) = (self.key("meta/leader"), self.key("meta/change"));
        let mut entries = Vec::new();
        let mut leader = self.leader.clone();
        for (name, key) in keys {
            if name == leader_key {
                leader = key.as_ref().map(Leader::of);
            } else if self.phase != Phase::Following {
                // our own change
            } else if name == change_key {
                self.change = key.map_or(0, |key| key.changed);
            } else if let Some(entry) = self.entry(&name) {
                entries.push((entry, key.map(|key| key.value)));
            }
        }
        if !entries.is_empty() {
            self.outputs.push_back(Output::Changed(entries));
        }
        let epoch = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.epoch);
        let is_renewed = leader != self.leader;
        match self.phase {
            Phase::Following if epoch(&leader) != epoch(&self.leader) => {
                self.leader = leader;
                // The answer to our own campaign is the better news.
                if !(self.is_own() && self.is_open(Work::Campaign)) {
                    self.follow(now);
                }
            }
            Phase::Following if is_renewed && !self.is_own() => {
                self.leader = leader;
                self.expect_renewal(now);
            }
            Phase::Leading(_) if epoch(&leader) != epoch(&self.leader) => self.step_down(now),
            _ => {}
        }
        self.handle_timeout(now);
    }

    /// Handles the end of a watch: the connection is lost, or etcd no longer has the revision. A leader needs no watch.
    pub fn handle_watch_ended(&mut self, now: Instant, watch: Number, why: &str) {
        if watch == self.watch && self.phase == Phase::Following {
            self.read(now + RETRY);
            self.trouble(Some(why));
        }
        self.handle_timeout(now);
    }

    fn answered(&mut self, now: Instant, sent: Instant, work: Work, answer: Answer) {
        let Answer {
            succeeded,
            revision,
            keys,
        } = answer;
        match work {
            Work::Read => {
                self.take(revision, keys);
                self.phase = Phase::Following;
                self.follow(now);
            }
            Work::Campaign if succeeded => {
                self.take(revision, keys);
                self.due.clear();
                self.lead(sent);
            }
            Work::Campaign => {
                self.leader = self.leader_in(&keys);
                self.follow(now);
            }
            Work::Renew if succeeded => {
                self.lead(sent);
                if revision >= self.compacted + 2 * REVISIONS_KEPT {
                    self.compacted = revision;
                    self.due.insert(Work::Compact, now);
                }
            }
            Work::Renew => self.step_down(now),
            Work::Write => self.wrote(now, succeeded, revision, &keys),
            Work::Depose if self.phase != Phase::Following => {}
            Work::Depose if succeeded => {
                self.leader = None;
                self.follow(now);
            }
            Work::Depose => self.read(now), // the leader renews its key, but the watch is behind
            Work::Compact => {}
        }
    }

    fn failed(&mut self, now: Instant, work: Work, failure: Failure) {
        match (work, failure) {
            (Work::Write, Failure::Refused(why)) => {
                if let Some(change) = self.changes.pop_front() {
                    self.outputs.push_back(Output::Written(change.id, Err(why)));
                }
                self.due
                    .extend((!self.changes.is_empty()).then_some((Work::Write, now)));
            }
            (Work::Compact, _) => {} // the next one forgets these revisions too
            (work, Failure::Refused(why) | Failure::Lost(why)) => {
                // A leader may have renewed its key meanwhile: then it is deposed later.
                self.due.entry(work).or_insert(now + RETRY);
                self.trouble(Some(&why));
            }
        }
    }

    /// Starts the work that is due.
    fn start(&mut self, now: Instant, work: Work) {
        let (leader, change) = (self.key("meta/leader"), self.key("meta/change"));
        let otherwise = vec![Op::Range(self.key("meta/"))];
        let Params {
            name,
            process,
            prefix,
            lease,
        } = &self.params;
        let own = format!("{process:016x} {} {name}", lease.as_nanos() / 1_000_000);
        let (epoch, renewed) = self
            .leader
            .as_ref()
            .map_or((0, 0), |l| (l.epoch, l.renewed));
        let is_ours = Compare::Created(leader.clone(), epoch);
        let request = match work {
            Work::Read => Request::Range(prefix.clone()),
            Work::Campaign => Request::Txn {
                compares: vec![Compare::Created(leader.clone(), 0)],
                then: vec![Op::Put(leader, own), Op::Range(prefix.clone())],
                otherwise,
            },
            Work::Renew => Request::Txn {
                compares: vec![is_ours],
                then: vec![Op::Put(leader, own)],
                otherwise,
            },
            Work::Depose => Request::Txn {
                compares: vec![match self.is_own() {
                    true => is_ours,
                    false => Compare::Changed(leader.clone(), renewed),
                }],
                then: vec![Op::Delete(leader)],
                otherwise,
            },
            Work::Write => {
                let Some(first) = self.changes.front() else {
                    return;
                };
                let op = |(key, value): &Entry| {
                    let key = self.key(&format!("state/{key}"));
                    match value {
                        Some(value) => Op::Put(key, value.clone()),
                        None => Op::Delete(key),
                    }
                };
                let mark = Op::Put(change.clone(), first.mark.clone());
                Request::Txn {
                    compares: vec![is_ours, Compare::Changed(change, self.change)],
                    then: first.entries.iter().map(op).chain([mark]).collect(),
                    otherwise,
                }
            }
            Work::Compact => Request::Compact(self.compacted.saturating_sub(REVISIONS_KEPT)),
        };
        self.next += 1;
        self.open.insert(self.next, (work, now));
        self.outputs.push_back(Output::Request(self.next, request));
    }

    /// Takes everything that was read at a revision, and watches from there.
    fn take(&mut self, revision: u64, keys: Vec<Key>) {
        let change = self.key("meta/change");
        self.leader = self.leader_in(&keys);
        self.change = changed(&keys, &change);
        let state = keys
            .into_iter()
            .filter_map(|key| Some((self.entry(&key.name)?, key.value)));
        let state = state.collect();
        self.outputs.push_back(Output::State(state));
        self.next += 1;
        self.watch = self.next;
        self.outputs
            .push_back(Output::Watch(self.watch, revision + 1));
    }

    /// Acts on who leads.
    fn follow(&mut self, now: Instant) {
        self.due.clear();
        match &self.leader {
            // Our own key, after we could not renew it in time, or after the answer to our campaign was lost: another
            // epoch refuses changes that may still be on their way.
            Some(_) if self.is_own() => {
                self.due.insert(Work::Depose, now);
            }
            Some(leader) => {
                let name = leader.name.clone();
                self.outputs.push_back(Output::Follows(Some(name)));
                self.expect_renewal(now);
            }
            None => {
                self.due.insert(Work::Campaign, now);
                self.outputs.push_back(Output::Follows(None));
            }
        }
    }

    /// Deposes the leader after a lease without a renewal.
    fn expect_renewal(&mut self, now: Instant) {
        if let Some(leader) = &self.leader {
            self.due.insert(Work::Depose, now + leader.lease);
        }
    }

    fn is_own(&self) -> bool {
        self.leader
            .as_ref()
            .is_some_and(|leader| leader.process == self.params.process)
    }

    /// Leads for a lease from the sending of a renewal that etcd has confirmed.
    fn lead(&mut self, sent: Instant) {
        let lease = self.params.lease.as_nanos();
        let until = sent + Span::from_nanos(lease / MARGIN * (MARGIN - 1));
        self.phase = Phase::Leading(until);
        self.due
            .insert(Work::Renew, sent + Span::from_nanos(lease / RENEWALS));
        self.outputs.push_back(Output::Leads(until));
    }

    /// Leads no longer.
    fn step_down(&mut self, now: Instant) {
        self.leader = None;
        self.outputs.push_back(Output::Follows(None));
        let is_open = self.is_open(Work::Write);
        for (n, change) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            let why = if n == 0 && is_open {
                "this CE has lost etcd: it is unknown whether etcd has the change".to_owned()
            } else {
                not_leader(None)
            };
            self.outputs.push_back(Output::Written(change.id, Err(why)));
        }
        self.read(now);
    }

    /// Reads everything again.
    fn read(&mut self, at: Instant) {
        self.phase = Phase::Reading;
        self.open.clear();
        self.due = BTreeMap::from([(Work::Read, at)]);
    }

    /// A change has been executed, or its conditions did not hold.
    fn wrote(&mut self, now: Instant, succeeded: bool, revision: u64, keys: &[Key]) {
        let Some(change) = self.changes.front() else {
            return;
        };
        let key = self.key("meta/change");
        let is_repeated = keys
            .iter()
            .any(|is| is.name == key && is.value == change.mark);
        if !succeeded && !is_repeated {
            return self.step_down(now);
        }
        self.change = if succeeded {
            revision
        } else {
            changed(keys, &key)
        };
        self.outputs.push_back(Output::Written(change.id, Ok(())));
        self.changes.pop_front();
        self.due
            .extend((!self.changes.is_empty()).then_some((Work::Write, now)));
    }

    fn trouble(&mut self, why: Option<&str>) {
        if self.is_troubled != why.is_some() {
            self.is_troubled = why.is_some();
            self.outputs
                .push_back(Output::Trouble(why.map(str::to_owned)));
        }
    }

    fn is_open(&self, work: Work) -> bool {
        self.open.values().any(|(open, _)| *open == work)
    }

    fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.params.prefix)
    }

    /// The entry of the state with this key.
    fn entry(&self, key: &str) -> Option<String> {
        let rest = key.strip_prefix(&*self.params.prefix)?;
        rest.strip_prefix("state/").map(str::to_owned)
    }

    fn leader_in(&self, keys: &[Key]) -> Option<Leader> {
        let leader = self.key("meta/leader");
        keys.iter().find(|key| key.name == leader).map(Leader::of)
    }
}

/// Revision of the last change of a key.
fn changed(keys: &[Key], name: &str) -> u64 {
    keys.iter()
        .find(|key| key.name == name)
        .map_or(0, |key| key.changed)
}

impl Leader {
    fn of(key: &Key) -> Self {
        let mut parts = key.value.splitn(3, ' ');
        let process = parts
            .next()
            .and_then(|text| u64::from_str_radix(text, 16).ok());
        let lease = parts.next().and_then(|text| text.parse().ok());
        Self {
            // A value that no control element has written belongs to nobody; it is deposed like a dead leader.
            process: process.unwrap_or_default(),
            lease: lease.map_or(LEASE_MAX, Span::from_millis),
            name: parts.next().unwrap_or(&key.value).to_owned(),
            epoch: key.created,
            renewed: key.changed,
        }
    }
}

/// Why a control element that is not the leader refuses a change.
pub(crate) fn not_leader(leader: Option<&str>) -> String {
    match leader {
        Some(leader) => format!("this CE is not the leader: {leader} is"),
        None => {
            "this CE is not the leader, and it knows of none; retry in a few seconds".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
