//! Routes that a routing suite has found for an FE.
//!
//! ```text
//!  all routes -> difference to the rows of the FE, as after an association
//!  changes    -> rows of the changed prefixes, a batch at a time
//! ```
//!
//! The store does not contain these routes: the suite has them. Until the suite has named all of its routes, after the start of the CE, the FE
//! keeps the rows that it has.

use weir_base::Instant;
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, Learnt};
use crate::contract::Refusal;
use crate::route::rows::{self, Updates};
use crate::route::{LearntRecord, ROUTES_MAX};
use crate::settings::Edit;

/// Maximum prefixes that one batch changes.
const BATCH_MAX: usize = 20_000;

impl Control {
    /// Makes an FE keep the rows of its routing tables until [`Self::learn`] has named all routes of its routing suite.
    pub fn expect_routes(&mut self, fe: &str) {
        let id = self.names.get(fe);
        if let Some(fe) = id.and_then(|id| self.fes.get_mut(id)) {
            fe.learnt = Some(Learnt::default());
        }
    }

    /// Takes routes of the routing suite of an FE: all of them, or changes.
    pub fn learn(&mut self, now: Instant, fe: &str, records: Vec<LearntRecord>, is_all: bool) {
        let id = self.names.get(fe).copied();
        let fe = id.and_then(|id| self.fes.get_mut(&id));
        let Some(learnt) = fe.and_then(|fe| fe.learnt.as_mut()) else {
            return; // no longer configured
        };
        if is_all {
            learnt.routes.clear();
            (learnt.is_complete, learnt.all_changed) = (true, true);
        }
        for (prefix, route) in records {
            match route {
                None => drop(learnt.routes.remove(&prefix)),
                Some(_) if learnt.routes.len() >= ROUTES_MAX => continue,
                Some(route) => drop(learnt.routes.insert(prefix, route)),
            }
            learnt.changed.insert(prefix);
        }
        if let Some(id) = id {
            self.send_learnt(now, id);
        }
        self.pump(now);
    }

    /// Sends the changed routes of every FE that can take them.
    pub(super) fn send_all_learnt(&mut self, now: Instant) {
        let fes: Vec<Id> = self.fes.keys().copied().collect();
        for fe in fes {
            self.send_learnt(now, fe);
        }
    }

    fn send_learnt(&mut self, now: Instant, id: Id) {
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        if !fe.is_idle() || !fe.is_associated() || fe.rows.is_none() {
            return; // a restoration sends all
        }
        let Some(learnt) = &mut fe.learnt else {
            return;
        };
        if learnt.all_changed {
            fe.begin_restoring();
            return self.sync_routes(now, id, 0);
        }
        match fe.next_batch() {
            None => {}
            Some(Ok((updates, edits))) => {
                fe.busy = true;
                let then = Then::Learnt(id, Box::new(updates));
                self.send_each(now, id, rows::next_hops_first(edits), then);
            }
            Some(Err(why)) => self.refuse(now, id, &format!("its routes: {why}")),
        }
    }

    /// Handles an FE's answer to a batch.
    pub(super) fn learnt_sent(&mut self, now: Instant, id: Id, updates: Updates, answers: Answers) {
        let done = answers.and_then(|leaves| self.all_done(id, &leaves));
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.busy = false;
            match done {
                Ok(()) => fe.apply_routes(updates),
                Err(Refusal::Silent(_) | Refusal::Refused(_)) => {
                    return self.restore(now, id); // learns which rows the FE has, and finds the refused ones
                }
                Err(why) => return self.refuse(now, id, &why.to_string()),
            }
        }
        self.retry(now);
    }
}

impl Fe {
    /// The next rows to change; `None` if there are none.
    fn next_batch(&mut self) -> Option<Result<(Updates, Vec<Edit>), String>> {
        loop {
            let changed = &mut self.learnt.as_mut()?.changed;
            let rest = changed.iter().nth(BATCH_MAX).copied();
            let rest = rest.map(|first| changed.split_off(&first));
            let batch = std::mem::replace(changed, rest.unwrap_or_default());
            if batch.is_empty() {
                return None;
            }
            match self.updates_of(&batch)? {
                Ok((_, edits)) if edits.is_empty() => {}
                update => return Some(update),
            }
        }
    }
}
