//! Routes that an FE has in its tables but not in its kernel.
//!
//! ```text
//!  all restored -> subscription to the FE's `ce_routes` -> its value -> in sync
//!                                   | event                               '-> degraded, until the FE reports none
//!                                   '----------------------------------------'
//! ```
//!
//! The FE finds and restores lost routes itself; the CE only reports them. An FE without the class `ce_routes` is not a
//! weir FE, and is in sync when its tables are.

use weir_base::Instant;
use weir_lfb::class::ce_routes;
use weir_model::{ComponentPath, Value};
use weir_protocol::wire::{Id, OperationKind};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, State};
use super::resolved::Resolved;
use super::watch::subscription;
use crate::contract::{Filter, LogEvent};
use crate::leaf::Leaf;

/// The events of the class.
const EVENTS: [&str; 2] = ["missing_changed", "route_lost"];

impl Control {
    /// An FE has its desired state in its tables; subscribes to the routes that its kernel lacks.
    pub(super) fn in_sync(&mut self, now: Instant, id: Id, count: usize) {
        let Some(fe) = self.fes.get(&id).filter(|fe| fe.is_associated()) else {
            return self.retry(now);
        };
        let events = EVENTS.iter().map(|event| {
            let resolved = self.kernel_of(fe, &[event])?;
            subscription(&resolved, Some(&Filter::default())).ok()
        });
        match events.collect::<Option<Vec<_>>>() {
            Some(edits) => self.send(now, id, edits, Then::FollowsKernel(id, count)),
            None => self.settle_in_sync(now, id, count),
        }
    }

    /// Reads the missing routes once an FE has accepted or refused the subscription.
    pub(super) fn follows_kernel(&mut self, now: Instant, id: Id, count: usize) {
        let fe = self.fes.get(&id).filter(|fe| fe.is_associated());
        let resolved = fe.and_then(|fe| self.kernel_of(fe, &[]));
        match resolved.and_then(|resolved| Some((resolved.path().ok()?, resolved))) {
            Some((path, resolved)) => {
                let paths = vec![(resolved.block, OperationKind::Get, path)];
                self.query(now, id, paths, Then::Kernel(id, resolved, count));
            }
            None => self.settle_in_sync(now, id, count),
        }
    }

    /// The FE has answered with the routes that its kernel lacks, unless it does not know them.
    pub(super) fn kernel_read(
        &mut self,
        now: Instant,
        id: Id,
        resolved: &Resolved,
        count: usize,
        answers: Answers,
    ) {
        if let Ok(value) = answers.and_then(|leaves| self.value(id, resolved, &leaves)) {
            self.take_report(id, &value);
        }
        self.settle_in_sync(now, id, count);
    }

    fn settle_in_sync(&mut self, now: Instant, id: Id, count: usize) {
        if let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) {
            fe.state = State::InSync;
            let name = fe.name.clone();
            self.note(LogEvent::InSync(name, count));
            self.subscribe_again(now, id);
        }
        self.retry(now);
    }

    /// Handles an event of an FE if it concerns the FE's kernel routes.
    pub(super) fn note_kernel(&mut self, id: Id, leaf: &Leaf) {
        let is_it = |class: &weir_protocol::schema::Class| class.short_name() == ce_routes::NAME;
        let class = self.codec.class(leaf.block.0).filter(|class| is_it(class));
        if let Some(report) = class.and_then(|class| super::watch::reports(class, leaf)) {
            self.take_report(id, &report);
        }
    }

    fn take_report(&mut self, id: Id, report: &Value) {
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) else {
            return;
        };
        let lost = report.whole("lost").unwrap_or_default();
        let missing = report.whole("missing").unwrap_or_default();
        let first = report.text("first").unwrap_or("unspecified route");
        let lacks = match missing {
            0 => None,
            1 => Some(first.to_owned()),
            more => Some(format!("{first}; and {} more routes", more - 1)),
        };
        let has_lost = lost > fe.lost;
        fe.lost = lost;
        if fe.lacks == lacks && !has_lost {
            return;
        }
        fe.lacks = lacks.clone();
        let name = fe.name.clone();
        self.note(match lacks {
            Some(why) => LogEvent::Lacks(name, why),
            None => LogEvent::Regained(name, lost),
        });
    }

    fn kernel_of(&self, fe: &Fe, path: &[&str]) -> Option<Resolved> {
        let path = ComponentPath::new([ce_routes::NAME, "1"]).below(path.iter().copied());
        let resolved = self.resolve(fe, &path).ok()?;
        fe.directory.has(resolved.block).then_some(resolved)
    }
}
