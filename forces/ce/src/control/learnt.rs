//! Routes that a routing suite has found for an FE.
//!
//! ```text
//!  changes -> rows of the changed prefixes, a batch at a time -> FE
//!                    ^                                            | some are refused, or no answer
//!                    '--------- rows are read again --------------'
//! ```
//!
//! If all routes of a next hop, or of several next hops together, get the same new target, the batch changes one row
//! instead of theirs. If the FE refuses that, the batch is repeated with a row for each prefix.
//!
//! Visiting a million routes takes seconds, in which their packets are lost. So a suite reports first that routes have
//! *shifted* together from one target to another, and their own changes later. If these are all routes with the old target,
//! the FE gets the row at once. The changes then find nothing to do.
//!
//! The store does not contain these routes: the suite has them. Until the suite has found all of its routes after the start
//! of the CE, the FE keeps its rows. The state of an FE depends on routes of operators only, so a refused route of a suite
//! does not restore the FE.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use weir_base::Instant;
use weir_model::Target;
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, Learnt, State};
use crate::contract::{LogEvent, Refusal};
use crate::route::rows::{self, Edits, Rows, Updates};
use crate::route::{Hop, LEARNT_MAX, LearntRecord, LearntRoute, Shift};

/// Maximum prefixes that one batch changes.
const BATCH_MAX: usize = 20_000;
/// Maximum prefixes that a batch moves together with a row to which they refer.
const MOVED_MAX: usize = 8 * BATCH_MAX;

impl Control {
    /// Makes an FE keep the rows of its routing tables until [`Self::complete_routes`].
    pub fn expect_routes(&mut self, fe: &str) {
        let id = self.names.get(fe);
        if let Some(fe) = id.and_then(|id| self.fes.get_mut(id)) {
            fe.learnt = Some(Learnt::default());
        }
    }

    /// Takes shifts of the routing suite of an FE. [`Self::learn`] must follow with the changes of their routes.
    pub fn shift(&mut self, now: Instant, fe: &str, shifts: Vec<Shift>) {
        let id = self.names.get(fe).copied();
        let fe = id.and_then(|id| self.fes.get_mut(&id));
        let Some(fe) = fe.filter(|fe| fe.is_associated()) else {
            return; // compared as a whole later
        };
        let is_operators = |target: &Target<Hop>| {
            let mut hops = fe.routes.iter().map(|(_, hop)| hop);
            hops.any(|own| matches!(target, Target::Hop(hop) if hop == own))
        };
        let Some(learnt) = &mut fe.learnt else {
            return; // no longer configured
        };
        if !fe.unroutable.is_empty() {
            return; // their rows may differ from their routes
        }
        let has_all = |shift: &Shift| {
            learnt.users.get(&shift.before) == Some(&shift.routes) && !is_operators(&shift.before)
        };
        let shifts: Vec<_> = shifts.into_iter().filter(has_all).collect();
        let targets = shifts.iter().map(|shift| shift.before.clone());
        learnt.shifted.extend(targets);
        learnt.shifts.extend(shifts);
        self.send_all_learnt(now);
        self.pump(now);
    }

    /// Takes routes of the routing suite of an FE: all of them, or changes.
    pub fn learn(&mut self, now: Instant, fe: &str, records: Vec<LearntRecord>, is_all: bool) {
        let id = self.names.get(fe).copied();
        if let Some(fe) = id.and_then(|id| self.fes.get_mut(&id)) {
            let changed = match &mut fe.learnt {
                None => return, // no longer configured
                Some(learnt) => {
                    let mut changed = if is_all {
                        learnt.replace(records)
                    } else {
                        learnt.apply(records)
                    };
                    changed.extend(learnt.left_behind());
                    changed
                }
            };
            fe.note_changed(changed);
        }
        self.send_all_learnt(now);
        self.pump(now);
    }

    /// The routing suite of an FE has found all of its routes: the FE loses rows of other routes.
    pub fn complete_routes(&mut self, now: Instant, fe: &str) {
        let id = self.names.get(fe).copied();
        if let Some(fe) = id.and_then(|id| self.fes.get_mut(&id))
            && let Some(learnt) = fe.learnt.as_mut().filter(|learnt| !learnt.is_complete)
        {
            learnt.is_complete = true;
            let rows = fe.rows.iter().flatten().flat_map(Rows::prefixes);
            fe.note_changed(rows.copied().collect());
        }
        self.send_all_learnt(now);
        self.pump(now);
    }

    /// Sends the changed routes of every FE that can take them.
    pub(super) fn send_all_learnt(&mut self, now: Instant) {
        let has_changes = |fe: &&Fe| {
            let learnt = fe.learnt.as_ref();
            learnt.is_some_and(Learnt::has_changes) && fe.is_associated() && fe.is_idle()
        };
        let fes: Vec<Id> = self
            .fes
            .values()
            .filter(has_changes)
            .map(|fe| fe.id)
            .collect();
        for fe in fes {
            self.send_learnt(now, fe);
        }
    }

    fn send_learnt(&mut self, now: Instant, id: Id) {
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        if fe.rows.is_none() {
            return self.read_rows_again(now, id);
        }
        if let Some((updates, edits)) = fe.next_shifts().or_else(|| fe.next_batch()) {
            fe.busy = true;
            let then = Then::Learnt(id, Box::new(updates));
            self.send_each(now, id, edits, then);
        } else {
            // The CE has other work between two batches, however many changes change no row.
            self.has_rest |= fe.learnt.as_ref().is_some_and(Learnt::has_changes);
        }
    }

    /// Handles an FE's answer to a batch.
    pub(super) fn learnt_sent(&mut self, now: Instant, id: Id, updates: Updates, answers: Answers) {
        let done = match &answers {
            Ok(leaves) => self.all_done(id, leaves),
            Err(refusal) => Err(refusal.clone()),
        };
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        fe.busy = false;
        let Err(refusal) = done else {
            fe.apply_routes(updates);
            return self.retry(now);
        };
        if !fe.is_associated() {
            return self.retry(now);
        }
        let prefixes: Vec<IpNet> = rows::prefixes(&updates).collect();
        let moved: BTreeSet<IpNet> = rows::moved(&updates).collect();
        let refused = answers.map(|leaves| rows::refused(&updates, &leaves));
        let refused: BTreeMap<_, _> = match refused {
            Ok(refused) if refused.is_empty() && moved.is_empty() => {
                let why = refusal.to_string();
                prefixes
                    .iter()
                    .map(|prefix| (*prefix, why.clone()))
                    .collect()
            }
            Ok(refused) => refused.into_iter().collect(),
            Err(_) => BTreeMap::new(), // no answer: perhaps done
        };
        if let Some((prefix, why)) = refused.first_key_value() {
            let more = refused.len() - 1;
            let why = format!("route {prefix}: {why}; and {more} more of the routing suite");
            let note = LogEvent::Unroutable(fe.name.clone(), why);
            self.outputs
                .push_back(crate::contract::Output::LogEvent(note));
        }
        let rest = prefixes
            .into_iter()
            .filter(|prefix| !refused.contains_key(prefix));
        if let Some(learnt) = fe.learnt.as_mut().filter(|_| !moved.is_empty()) {
            learnt.one_by_one = true;
        }
        fe.note_changed(rest.chain(moved).collect());
        fe.unroutable.extend(refused);
        self.read_rows_again(now, id);
    }

    /// Reads the rows of an FE, which may have made a part of a change.
    fn read_rows_again(&mut self, now: Instant, id: Id) {
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        fe.rows = None;
        fe.busy = true;
        match Self::route_reads(fe) {
            Ok(paths) => self.query(now, id, paths, Then::RowsAgain(id)),
            Err(why) => self.rows_again(now, id, Err(Refusal::Silent(why))),
        }
    }

    /// Handles an FE's answer with its rows. Without an answer, the FE is compared as a whole.
    pub(super) fn rows_again(&mut self, now: Instant, id: Id, answers: Answers) {
        let is_silent = matches!(answers, Err(Refusal::Silent(_)));
        let read = answers.map_err(|refusal| refusal.to_string());
        let read = read.and_then(|leaves| self.read_rows(id, &leaves));
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        fe.busy = false;
        if !fe.is_associated() {
            fe.rows = None;
        } else if is_silent {
            self.restore(now, id);
        } else if let Err(why) = read {
            if let Some(learnt) = &mut fe.learnt {
                learnt.forget_changes();
            }
            fe.state = State::Refused(format!("its routes cannot be read: {why}"));
        }
        self.retry(now);
    }
}

impl Learnt {
    /// Replaces all routes; returns the prefixes whose routes differ.
    fn replace(&mut self, records: Vec<LearntRecord>) -> BTreeSet<IpNet> {
        let all = records
            .into_iter()
            .filter_map(|(prefix, route)| Some((prefix, route?)));
        let new: BTreeMap<IpNet, LearntRoute> = all.take(LEARNT_MAX).collect();
        self.users.clear();
        for route in new.values() {
            *self.users.entry(route.target.clone()).or_default() += 1;
        }
        let old = std::mem::replace(&mut self.routes, new);
        let gone = old
            .iter()
            .filter(|(prefix, _)| !self.routes.contains_key(prefix));
        let new = self
            .routes
            .iter()
            .filter(|(prefix, route)| old.get(prefix) != Some(route));
        gone.chain(new).map(|(prefix, _)| *prefix).collect()
    }

    /// Applies changes; returns their prefixes. New prefixes beyond the maximum have no route.
    fn apply(&mut self, records: Vec<LearntRecord>) -> BTreeSet<IpNet> {
        let mut changed = BTreeSet::new();
        for (prefix, route) in records {
            let has_room = self.routes.len() < LEARNT_MAX || self.routes.contains_key(&prefix);
            let before = match route.filter(|_| has_room) {
                Some(route) => {
                    *self.users.entry(route.target.clone()).or_default() += 1;
                    self.routes.insert(prefix, route)
                }
                None => self.routes.remove(&prefix),
            };
            if let Some(before) = before
                && let Entry::Occupied(mut users) = self.users.entry(before.target)
            {
                *users.get_mut() -= 1;
                if *users.get() == 0 {
                    users.remove();
                }
            }
            changed.insert(prefix);
        }
        changed
    }

    /// Whether the rows of an FE may differ from the routes.
    fn has_changes(&self) -> bool {
        !self.changed.is_empty() || !self.shifts.is_empty()
    }

    /// Forgets what the FE lacks, because its rows are compared as a whole.
    pub(super) fn forget_changes(&mut self) {
        self.changed.clear();
        self.shifts.clear();
    }

    /// Takes the next prefixes whose rows may differ, and whether next hops and groups may change.
    fn next_changed(&mut self) -> (BTreeSet<IpNet>, bool) {
        let moves = !self.one_by_one;
        let size = if moves { MOVED_MAX } else { BATCH_MAX };
        let rest = self.changed.iter().nth(size).copied();
        let rest = rest.map(|first| self.changed.split_off(&first));
        let batch = std::mem::replace(&mut self.changed, rest.unwrap_or_default());
        self.one_by_one &= !self.changed.is_empty(); // later changes may move rows again
        (batch, moves)
    }

    /// The routes whose target has shifted, but which have not changed: their rows have moved with others.
    fn left_behind(&mut self) -> Vec<IpNet> {
        let shifted = std::mem::take(&mut self.shifted);
        if !shifted.iter().any(|target| self.users.contains_key(target)) {
            return Vec::new();
        }
        let routes = self.routes.iter();
        let left = routes.filter(|(_, route)| shifted.contains(&route.target));
        left.map(|(prefix, _)| *prefix).collect()
    }
}

impl Fe {
    /// Records prefixes whose rows may differ from the routes. A disconnected FE is compared as a whole later.
    fn note_changed(&mut self, mut changed: BTreeSet<IpNet>) {
        let Some(learnt) = self.learnt.as_mut().filter(|_| self.state.is_associated()) else {
            return;
        };
        let is_on_link = |prefix: &IpNet| {
            let route = learnt.routes.get(prefix);
            let mut hops = route.into_iter().flat_map(|route| route.target.hops());
            hops.any(|(hop, _)| hop.gateway.is_none())
        };
        if changed.iter().any(is_on_link) {
            // The FE may have refused other routes because their gateways were not reachable.
            changed.extend(std::mem::take(&mut self.unroutable).into_keys());
        } else {
            self.unroutable
                .retain(|prefix, _| !changed.contains(prefix));
        }
        learnt.changed.extend(changed); // `append` would visit all that wait
    }

    /// The rows of shifts, and their edits; `None` without shifts, or if other routes have these rows.
    fn next_shifts(&mut self) -> Option<(Updates, Edits)> {
        let learnt = self.learnt.as_mut()?;
        let shifts = std::mem::take(&mut learnt.shifts);
        let is_exact = !learnt.is_complete;
        if is_exact && !learnt.changed.is_empty() {
            return None; // rows of an earlier time may be among them
        }
        let (updates, edits) = self.updates_of_shifts(&shifts, is_exact)?.ok()?;
        edits
            .iter()
            .any(|list| !list.is_empty())
            .then_some((updates, edits))
    }

    /// The rows to change for the next prefixes, and their edits; `None` if they need none.
    fn next_batch(&mut self) -> Option<(Updates, Edits)> {
        let (batch, moves) = self.learnt.as_mut()?.next_changed();
        match self.updates_of(&batch, moves)? {
            Ok((_, edits)) if moves && edits.iter().any(|list| list.len() > BATCH_MAX) => {
                let learnt = self.learnt.as_mut()?;
                learnt.changed.extend(batch);
                learnt.one_by_one = true;
                self.next_batch()
            }
            Ok((updates, edits)) => edits
                .iter()
                .any(|list| !list.is_empty())
                .then_some((updates, edits)),
            Err(why) => {
                // The table has no free row.
                let refused = batch.into_iter().map(|prefix| (prefix, why.clone()));
                self.unroutable.extend(refused);
                None
            }
        }
    }
}
