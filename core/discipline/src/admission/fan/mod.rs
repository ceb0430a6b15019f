//! FAN: flow-aware networking, admission control in front of a scheduler that distinguishes streaming from
//! elastic flows.
//!
//! ```text
//!              on the list, or not congested                    +-- streaming: first ---+
//!  arrivals --> [ admission control ] --> [ scheduler: afan, pfq, pdrr ]                +--> link
//!               | protected flow list     +-- elastic: fair ----+
//!               +--> refused: new flow in congestion   <------- fair rate, priority load
//! ```
//!
//! Source: Domzal, Wojcik, Cholda, Stankiewicz, Jajszczyk, "Efficient congestion control mechanism for
//! flow-aware networks", International Journal of Communication Systems 2015; sections 1 to 3, equations 1, 2,
//! 8, Figures 1 to 5.
//!
//! - `manual`, `params`: the manual page, and the parameters
//! - this file: configuration, accepting flows, and carrying out a mechanism's actions; `discipline`: the interface
//!   to the port
//! - `admission`: whether the link is congested
//! - `flow_list`, `waiting`, `side_list`: flows that may pass, that wait, and that were taken off the list
//! - `mechanism`: the congestion mechanisms; `removal`: taking flows off the list, in slices

mod admission;
mod discipline;
mod flow_list;
mod manual;
mod mechanism;
mod params;
mod removal;
mod side_list;
mod waiting;

use std::collections::VecDeque;

use rand::Rng;
use weir_base::setting::SettingError;
use weir_base::{Instant, Rate, Span, Stream, Streams, Tally};
use weir_packet::Packet;

use crate::admission::afan::Afan;
use crate::admission::pdrr::Pdrr;
use crate::admission::pfq::Pfq;
use crate::admission::scheduler::Scheduler;
use crate::contract::{Configured, Cx, Discipline, Manual, apply};

use admission::{Estimate, Measurement};
use flow_list::{Flow, FlowList, Listed};
use mechanism::{Action, Event, Gate, Mechanism, Rules};
use removal::Removal;
use side_list::{Aside, SideList};
use waiting::Waiting;

pub use manual::MANUAL;
pub use params::{Counted, Params};

/// Time between two slices of a long removal.
const SLICE_GAP: Span = Span::from_millis(1);
/// Maximum flows that come back in one slice.
const RESTORED_MAX: usize = 256;
/// Maximum steps of a mechanism's timer that may be due at once.
const STEPS_MAX: usize = 4;

/// Counters of the admission control.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    accepted: u64,
    accepted_late: u64,
    accepted_in_runs: u64,
    delay_sum: Span,
    unlisted: u64,
    refused: u64,
    timed_out: u64,
    replaced: u64,
    runs: u64,
    flows_before_runs: u64,
    removed: u64,
    removed_established: u64,
    removed_new: u64,
    returned: u64,
    list_reads: u64,
    list_writes: u64,
    clean_up_reads: u64,
}

/// The phase of a run of the mechanism, for counting the flows that the run accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The run is over.
    Over,
    /// The run has begun.
    Begun,
    /// The link was found not congested.
    Clear,
}

/// Admission control with its scheduler.
pub struct Fan {
    params: Params,
    rules: Rules,
    scheduler: Box<dyn Scheduler>,
    /// Packets from before a change of the scheduler: they leave first.
    before: VecDeque<Packet>,
    before_tally: Tally,
    list: FlowList,
    waiting: Waiting,
    /// Flows that were removed and are remembered, if the mechanism remembers them.
    aside: Option<SideList>,
    mechanism: Box<dyn Mechanism>,
    measurement: Measurement,
    removal: Option<Removal>,
    restoring: bool,
    /// When the next slice of a removal or of a restoration is due.
    work_at: Option<Instant>,
    last_run: Instant,
    phase: Phase,
    stream: Stream,
    /// The stream for schedulers, including those that are built later.
    scheduler_stream: Stream,
    port_rate: Option<Rate>,
    stats: Stats,
}

impl Configured for Fan {
    type Params = Params;
    const MANUAL: Manual = MANUAL;
    const KNOWS_FLOWS: bool = true;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        Afan::limit(&params.afan)
    }

    fn build(params: Params, now: Instant, streams: &Streams) -> Self {
        let streams = streams.below(MANUAL.name);
        let scheduler_stream = streams.stream("scheduler");
        let scheduler = scheduler(&params, now, &scheduler_stream);
        let mechanism = mechanism::of(params.mechanism);
        let rules = params.rules();
        Self {
            list: FlowList::new(params.flows, mechanism.ranks(&rules)),
            waiting: Waiting::new(params.waiting),
            aside: side_list(&*mechanism, &rules, params.flows),
            measurement: Measurement::new(params.limits(None), now, scheduler.sums(now)),
            mechanism,
            rules,
            scheduler,
            before: VecDeque::new(),
            before_tally: Tally::ZERO,
            removal: None,
            restoring: false,
            work_at: None,
            last_run: now,
            phase: Phase::Over,
            stream: streams.stream("admission"),
            scheduler_stream,
            port_rate: None,
            params,
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, now: Instant) {
        let old = std::mem::replace(&mut self.params, params.clone());
        self.rules = params.rules();
        self.measurement.set_limits(params.limits(self.port_rate));
        if !change_scheduler(&mut *self.scheduler, &params, now) {
            self.set_scheduler(now);
        }
        if params.mechanism != self.mechanism.word() {
            self.set_mechanism(now);
        } else if let Some(aside) = &mut self.aside {
            let time = self.mechanism.sets_aside(&self.rules).flatten();
            *aside = aside.resized(params.flows, time);
        }
        let ranked = self.mechanism.ranks(&self.rules);
        if params.flows != old.flows || ranked != self.list.is_ranked() {
            let queued = |hash| self.scheduler.queued_bytes(hash);
            self.list = self.list.resized(params.flows, ranked, &queued);
            self.removal = None; // it was walking over the old list
        }
        if params.waiting != old.waiting {
            self.waiting = self.waiting.resized(params.waiting);
        }
    }
}

impl Fan {
    /// Handles a packet of a flow that is not on the list; returns the flow's entry there, if the flow was
    /// accepted and there was room.
    fn arrive(&mut self, cx: &Cx<'_>, packet: &Packet, hash: u64) -> Result<Option<usize>, ()> {
        let now = cx.now;
        if self.measurement.is_congested() {
            self.new_flow_in_congestion(now);
        }
        let is_aside = self.aside.as_ref().is_some_and(|a| a.has(hash, now));
        let passes = !self.measurement.is_congested()
            && match self.mechanism.gate(&self.rules) {
                Gate::Open => true,
                Gate::NotBlocked => !is_aside,
                Gate::SetAsideFirst(chance) => {
                    let nobody = self.aside.as_ref().is_none_or(|a| a.is_empty(now));
                    is_aside || nobody || chance.happens(self.stream.next_u64())
                }
            };
        if passes {
            return Ok(self.accept(cx, packet, hash));
        }
        self.stats.refused += 1;
        if !is_aside {
            let key = cx.keys.key(packet);
            self.waiting.refuse(hash, key, now, packet.bytes());
        }
        Err(())
    }

    /// Passes the event to the mechanism, which may begin a run.
    fn new_flow_in_congestion(&mut self, now: Instant) {
        let since = self.measurement.below_since();
        let since = since.map(|since| since.max(self.last_run));
        let event = Event::NewFlow {
            due: since.is_some_and(|since| now.since(since) > self.params.interval),
            elastic: match self.params.ramaf {
                Counted::Listed => self.list.len() as u64,
                Counted::Elastic => self.list.elastics() as u64,
            },
        };
        let action = self.mechanism.on(event, now, &self.rules);
        let begins = match &action {
            Action::Hold => true,
            Action::Remove(removal) => !removal.is_clean_up(),
            _ => false,
        };
        if begins {
            self.last_run = now;
            self.phase = Phase::Begun;
            self.stats.runs += 1;
            self.stats.flows_before_runs += self.list.len() as u64;
        }
        self.act(action, now);
    }

    /// Puts a flow on the list, if there is room.
    fn accept(&mut self, cx: &Cx<'_>, packet: &Packet, hash: u64) -> Option<usize> {
        let now = cx.now;
        let waited = self.waiting.accept(hash, now);
        let fresh = Flow {
            since: now,
            latest: now,
            seen: Tally::one(packet.bytes()),
            elastic: None,
        };
        let flow = match self.aside.as_mut().and_then(|aside| aside.take(hash)) {
            Some(flow) => {
                self.stats.returned += 1;
                match self.mechanism.gate(&self.rules) {
                    Gate::Open => Flow {
                        latest: now,
                        ..flow
                    },
                    _ => fresh,
                }
            }
            None => {
                self.stats.accepted += 1;
                self.stats.accepted_late += u64::from(waited > Span::ZERO);
                self.stats.accepted_in_runs += u64::from(self.phase != Phase::Over);
                self.stats.delay_sum = self.stats.delay_sum + waited;
                fresh
            }
        };
        let listed = Listed {
            flow,
            key: *cx.keys.key(packet),
            waited,
        };
        self.list_flow(hash, listed, now);
        let entry = self.list.find(hash);
        self.stats.unlisted += u64::from(entry.is_none());
        entry
    }

    fn list_flow(&mut self, hash: u64, listed: Listed, now: Instant) {
        let queued = |hash| self.scheduler.queued_bytes(hash);
        let (_, replaced) = self.list.insert(hash, listed, now, &queued);
        self.stats.replaced += u64::from(replaced);
    }

    /// Updates the backlog of a flow after one of its packets arrived or left.
    fn classify(&mut self, entry: usize, hash: u64, now: Instant) {
        if self.list.get(entry).elastic.is_some() && !self.list.is_ranked() {
            return;
        }
        let queued = self.scheduler.queued_bytes(hash);
        self.list.set_activity(entry, queued);
        if queued > self.params.afan.mtu_bytes {
            self.list.mark_elastic(entry, now);
        }
    }

    /// Carries out an action of the mechanism.
    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Nothing => {}
            Action::Hold => {
                self.measurement.hold();
                self.phase = Phase::Clear;
                self.stats.list_writes += 1; // only the fair rate is written
            }
            Action::Resume => {
                let estimate = self.measurement.resume(now, self.scheduler.sums(now));
                self.estimated(estimate, now);
            }
            Action::Restore => {
                self.removal = None; // it would take flows again that come back
                self.restoring = true;
                self.work(now);
            }
            Action::Remove(removal) => {
                removal.begin(&mut self.list);
                self.removal = Some(removal);
                self.work(now);
            }
        }
    }

    /// Handles an estimate of the fair rate.
    fn estimated(&mut self, estimate: Estimate, now: Instant) {
        self.phase = match (self.phase, estimate) {
            (Phase::Begun, Estimate::Clear) => Phase::Clear,
            (Phase::Clear, Estimate::Congested) => Phase::Over,
            (phase, _) => phase,
        };
        let event = Event::Estimate(estimate);
        let action = self.mechanism.on(event, now, &self.rules);
        self.act(action, now);
    }

    /// Does the next slice of the removal in progress.
    fn work(&mut self, now: Instant) {
        let mut is_done = true;
        if let Some(mut removal) = self.removal.take() {
            let slice = self.remove(&mut removal, now);
            if !slice.is_done {
                self.removal = Some(removal);
                is_done = false;
            }
        }
        for _ in 0..RESTORED_MAX {
            if !self.restoring {
                break;
            }
            match self.aside.as_mut().and_then(SideList::take_first) {
                Some((hash, listed)) => {
                    self.stats.list_writes += 1;
                    self.stats.returned += 1;
                    self.list_flow(hash, listed, now);
                }
                None => self.restoring = false,
            }
        }
        is_done &= !self.restoring;
        self.work_at = (!is_done).then_some(now + SLICE_GAP);
    }

    fn remove(&mut self, removal: &mut Removal, now: Instant) -> removal::Slice {
        let Self {
            list,
            scheduler,
            aside,
            stats,
            ..
        } = self;
        let established = self.params.fair_rate_interval;
        let (cleans_up, sets_aside) = (removal.is_clean_up(), removal.sets_aside);
        let mut out = |hash, listed: Listed| {
            stats.removed_established += u64::from(now.since(listed.flow.since) > established);
            if cleans_up {
                stats.removed_new += 1
            } else {
                stats.removed += 1
            }
            if let Some(aside) = aside.as_mut().filter(|_| sets_aside) {
                stats.list_writes += 1;
                aside.add(hash, Aside { at: now, listed });
            }
        };
        let queued = |hash| scheduler.queued_bytes(hash);
        let slice = removal.advance(list, self.params.afan.mtu_bytes, &queued, &mut out);
        if cleans_up {
            stats.clean_up_reads += slice.reads
        } else {
            stats.list_reads += slice.reads
        }
        slice
    }

    /// Switches to another mechanism, and ends the run of the old one.
    fn set_mechanism(&mut self, now: Instant) {
        self.mechanism = mechanism::of(self.params.mechanism);
        self.removal = None;
        self.restoring = false;
        self.work_at = None;
        self.phase = Phase::Over;
        self.aside = side_list(&*self.mechanism, &self.rules, self.params.flows);
        if self.measurement.is_held() {
            self.measurement.resume(now, self.scheduler.sums(now));
        }
    }

    fn set_scheduler(&mut self, now: Instant) {
        let mut new = scheduler(&self.params, now, &self.scheduler_stream);
        new.set_link_rate(self.port_rate);
        let held = self.scheduler.backlog();
        self.before.reserve_exact(held.packets as usize);
        let before = &mut self.before;
        self.scheduler.drain(&mut |packet| before.push_back(packet));
        self.before_tally += held;
        self.scheduler = new;
        self.measurement.begin(now, self.scheduler.sums(now));
    }

    fn has_room_behind(&self) -> bool {
        self.before.is_empty() || self.backlog().packets < self.params.afan.limit as u64
    }
}

/// The scheduler that these parameters name.
fn scheduler(params: &Params, now: Instant, stream: &Stream) -> Box<dyn Scheduler> {
    match params.scheduler {
        "pfq" => Box::new(Pfq::new(params.pfq.clone(), now)),
        "pdrr" => Box::new(Pdrr::new(params.pdrr.clone(), now)),
        _ => Box::new(Afan::new(params.afan.clone(), now, stream.clone())),
    }
}

/// Applies the parameters of the scheduler that they name; `false` if another one is in place.
fn change_scheduler(scheduler: &mut dyn Scheduler, params: &Params, now: Instant) -> bool {
    match params.scheduler {
        "pfq" => apply::<Pfq>(scheduler, &params.pfq, now),
        "pdrr" => apply::<Pdrr>(scheduler, &params.pdrr, now),
        _ => apply::<Afan>(scheduler, &params.afan, now),
    }
}

/// The list of flows set aside; `None` if the mechanism sets none aside.
fn side_list(mechanism: &dyn Mechanism, rules: &Rules, flows: usize) -> Option<SideList> {
    let time = mechanism.sets_aside(rules)?;
    Some(SideList::new(flows, time))
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
