//! Several CEs: this CE steers FEs only while it leads.
//!
//! ```text
//!   associated --> standby --CEID of the FE is ours--> leader: restore the desired state
//!                     ^  '-- asked every half second      '--> follower: hold the FE, then release it
//!                     '-------- all FEs are released ------------ deposed, or the lease has run out
//! ```
//!
//! An FE with cold standby is associated with its master only, an FE with hot standby with all CEs, and only the master
//! may change it (RFC 7121). A CE can query CEID, but not subscribe to its change while it is a backup, so it asks.
//!
//! *Decision*: a follower that an FE takes as its master holds the association, because it may be the next leader. It
//! releases the FE, so that the FE tries its next CE, when another CE has become the leader since, or has been the leader
//! for longer than a dead leader keeps its lease.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Instant, Span};
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::{Id, OperationKind, PathData};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, State};
use super::overview::MASTER;
use super::sync::number;
use crate::contract::{LogEvent, Records, Refusal, Request};
use crate::directory::FE_PROTOCOL;
use crate::election::not_leader;

/// Interval between two questions to an FE whether this CE is its master: of a leader, which waits for the FE to notice
/// the death of its predecessor, and of a follower.
const ASKS: [Span; 2] = [Span::from_millis(100), Span::from_millis(500)];

/// The state of this CE among several.
#[derive(Debug)]
pub(super) struct Leadership {
    /// Until when this CE leads; `None`: it follows.
    until: Option<Instant>,
    /// The name of the other leader, if there is one.
    leader: Option<String>,
    /// When that leader became known.
    since: Instant,
    /// How long a follower holds an FE while another CE leads.
    hold: Span,
    /// FEs that are associated, and that this CE does not steer.
    standby: BTreeMap<Id, Standby>,
}

#[derive(Clone, Copy, Debug)]
struct Standby {
    /// When to ask the FE for its master; `None`: the question is open.
    ask_at: Option<Instant>,
    /// Since when this CE is the FE's master.
    master_since: Option<Instant>,
}

impl Control {
    /// Declares that there are several CEs; this CE follows until [`Self::lead`]. As a follower it releases an FE that has
    /// taken it as master, if another CE leads for longer than `hold`.
    pub fn share(&mut self, now: Instant, hold: Span) {
        self.leadership = Some(Leadership {
            until: None,
            leader: None,
            since: now,
            hold,
            standby: BTreeMap::new(),
        });
    }

    /// Leads until this instant, unless it is called again before.
    pub fn lead(&mut self, now: Instant, until: Instant) {
        let Some(leadership) = self.leadership.as_mut().filter(|_| now < until) else {
            return;
        };
        if leadership.until.replace(until).is_none() {
            leadership.leader = None;
            for standby in leadership.standby.values_mut() {
                standby.ask_at = standby.ask_at.map(|_| now);
            }
            self.note(LogEvent::Leads);
            self.ask_masters(now);
        }
        self.pump(now);
    }

    /// Follows another leader, or none.
    pub fn follow(&mut self, now: Instant, leader: Option<String>) {
        self.step_down(now);
        if let Some(leadership) = &mut self.leadership
            && leadership.leader != leader
        {
            leadership.leader.clone_from(&leader);
            leadership.since = now;
            self.note(LogEvent::Follows(leader));
        }
        self.pump(now);
    }

    /// Takes changes of what operators have set, by FE name; with `is_all` they replace everything. This CE must not
    /// lead.
    pub fn replace_kept(&mut self, changes: Vec<(String, Records)>, is_all: bool) {
        let mut changed = BTreeSet::new();
        if is_all {
            changed.extend(self.fes.keys());
            self.fes.values_mut().for_each(Fe::keep_nothing);
        }
        for (name, records) in changes {
            let id = self.names.get(&name);
            if let Some(fe) = id.and_then(|id| self.fes.get_mut(id)) {
                changed.insert(fe.id);
                fe.keep(records);
            }
        }
        for id in changed {
            if let Some(fe) = self.fes.get_mut(&id) {
                fe.join();
            }
        }
    }

    /// Ends the leadership if its time has passed.
    pub(super) fn check_leadership(&mut self, now: Instant) {
        let until = self.leadership.as_ref().and_then(|l| l.until);
        if until.is_some_and(|until| until <= now) {
            self.follow(now, None);
        }
    }

    /// Why a request has to go to another CE.
    pub(super) fn not_leading(&self, request: &Request) -> Option<Refusal> {
        let leadership = self.leadership.as_ref().filter(|l| l.until.is_none())?;
        let is_change = matches!(
            request,
            Request::Change(_) | Request::Route(_) | Request::Give(..) | Request::Steer(..)
        );
        let why = || Refusal::Refused(vec![not_leader(leadership.leader.as_deref())]);
        is_change.then(why)
    }

    /// Releases all FEs, so that they look for another CE. Messages that still wait for them are dropped.
    fn step_down(&mut self, now: Instant) {
        let leadership = self.leadership.as_mut();
        if leadership.is_some_and(|leadership| leadership.until.take().is_some()) {
            self.note(LogEvent::Follows(None));
            self.leave(now);
        }
    }

    /// Puts an FE that has associated on standby. Returns false if this CE is the only one.
    pub(super) fn stand_by(&mut self, now: Instant, id: Id) -> bool {
        let Some(leadership) = &mut self.leadership else {
            return false;
        };
        let standby = Standby {
            ask_at: Some(now),
            master_since: None,
        };
        leadership.standby.insert(id, standby);
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.since = Some(now);
            fe.state = State::Away("this CE is on standby for it".to_owned());
        }
        self.ask_masters(now);
        true
    }

    /// Forgets an FE whose association has ended. Returns whether it was on standby.
    pub(super) fn leave_standby(&mut self, id: Id) -> bool {
        let leadership = self.leadership.as_mut();
        leadership.is_some_and(|leadership| leadership.standby.remove(&id).is_some())
    }

    /// When this CE must act next.
    pub(super) fn leadership_due(&self) -> Option<Instant> {
        let leadership = self.leadership.as_ref()?;
        let asks = leadership
            .standby
            .values()
            .filter_map(|standby| standby.ask_at);
        asks.chain(leadership.until).min()
    }

    /// Asks each FE on standby for its master, when it is due.
    pub(super) fn ask_masters(&mut self, now: Instant) {
        let standby = self.leadership.iter_mut().flat_map(|l| &mut l.standby);
        let due = standby.filter(|(_, standby)| standby.ask_at.is_some_and(|at| at <= now));
        let asked = due.map(|(id, standby)| {
            standby.ask_at = None;
            *id
        });
        for id in asked.collect::<Vec<_>>() {
            let path = PathData::bare(vec![MASTER]);
            let paths = path.map(|path| vec![(FE_PROTOCOL, OperationKind::Get, path)]);
            self.query(now, id, paths.unwrap_or_default(), Then::Master(id));
        }
    }

    /// An FE has reported its master, or has not answered.
    pub(super) fn has_master(&mut self, now: Instant, id: Id, answers: Answers) {
        let master = answers.ok().and_then(|leaves| number(&leaves, MASTER));
        let is_ours = master == Some(u64::from(self.params.session.id.0));
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        let Some(standby) = leadership.standby.get_mut(&id) else {
            return;
        };
        let is_leading = leadership.until.is_some();
        standby.ask_at = Some(now + ASKS[usize::from(!is_leading)]);
        if !is_ours {
            standby.master_since = None;
        } else if is_leading {
            leadership.standby.remove(&id);
            self.take_over(now, id);
        } else {
            let since = *standby.master_since.get_or_insert(now);
            let is_another = leadership.leader.is_some();
            let is_new = leadership.since > since;
            if is_another && (is_new || now >= since + leadership.hold) {
                self.ce.release(now, id, TeardownReason::Normal);
            }
        }
    }
}
