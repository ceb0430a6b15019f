//! The interface of FAN to the port: packets in and out, timers, changes, reports.

use std::collections::VecDeque;

use weir_base::{Instant, Rate, Span, Tally};
use weir_packet::{Class, FlowKey, KeyKind, Packet, Reason};

use super::flow_list::Listed;
use super::mechanism::{Event, Gate};
use super::side_list::{Aside, SideList};
use super::{Fan, STEPS_MAX};
use crate::contract::{Admission, Cx, Discipline, FlowClass, FlowReport, FlowStanding};
use crate::waiting::{self, REPORTS_MAX, Waiting};

impl Discipline for Fan {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        let (now, hash) = (cx.now, cx.keys.hash(&packet, KeyKind::Flow));
        let Self {
            scheduler,
            measurement,
            list,
            ..
        } = self;
        measurement.wake(now, || scheduler.sums(now));
        let timeout = self.params.flow_timeout;
        self.stats.timed_out += list.expire(now, timeout);
        if let Some(aside) = &mut self.aside {
            aside.expire(now);
        }
        let entry = match list.find(hash) {
            Some(entry) if !list.is_over(entry, now, timeout) => {
                list.count(entry, now, packet.bytes());
                Some(entry)
            }
            silent => {
                if let Some(entry) = silent {
                    list.remove(entry);
                    self.stats.timed_out += 1;
                }
                match self.arrive(cx, &packet, hash) {
                    Ok(entry) => entry,
                    Err(()) => {
                        return Admission::Refused(cx.fates.discard(packet, Reason::NotAdmitted));
                    }
                }
            }
        };
        if !self.has_room_behind() {
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        let admission = self.scheduler.enqueue(cx, packet);
        if let Some(entry) = entry {
            self.classify(entry, hash, now);
        }
        admission
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.before.pop_front() {
            self.before_tally.uncount(packet.bytes());
            if self.before.is_empty() {
                self.before = VecDeque::new();
            }
            return Some(packet);
        }
        let packet = self.scheduler.dequeue(cx)?;
        if self.list.is_ranked() {
            let hash = cx.keys.hash(&packet, KeyKind::Flow);
            if let Some(entry) = self.list.find(hash) {
                self.classify(entry, hash, cx.now);
            }
        }
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.list.touch(cx.keys.hash(packet, KeyKind::Flow));
        self.scheduler.prefetch(cx, packet);
    }

    fn has_room(&self, class: Class) -> bool {
        // Whether the packet's flow is on the list is not known in advance.
        !self.measurement.is_congested() && self.has_room_behind() && self.scheduler.has_room(class)
    }

    fn backlog(&self) -> Tally {
        self.before_tally + self.scheduler.backlog()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self)
            + self.scheduler.state_bytes()
            + size_of_val(&*self.mechanism)
            + self.before.capacity() * size_of::<Packet>()
            + self.list.state_bytes()
            + self.waiting.state_bytes()
            + self.aside.as_ref().map_or(0, SideList::state_bytes)
    }

    fn relax(&mut self) {
        self.scheduler.relax();
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.port_rate = rate;
        self.scheduler.set_link_rate(rate);
        self.measurement.set_limits(self.params.limits(rate));
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.before_tally = Tally::ZERO;
        self.before.drain(..).for_each(&mut *out);
        self.scheduler.drain(out);
    }

    fn timeout(&self) -> Option<Instant> {
        let timers = [
            self.measurement.timeout(),
            self.mechanism.timeout(),
            self.work_at,
            self.scheduler.timeout(),
        ];
        timers.into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |timer: Option<Instant>| timer.is_some_and(|at| at <= now);
        if is_due(self.scheduler.timeout()) {
            self.scheduler.on_timeout(cx);
        }
        let sums = self.scheduler.sums(now);
        if let Some(estimate) = self.measurement.on_timeout(now, sums) {
            self.estimated(estimate, now);
        }
        for _ in 0..STEPS_MAX {
            if is_due(self.mechanism.timeout()) {
                let action = self.mechanism.on(Event::Timer, now, &self.rules);
                self.act(action, now);
            }
        }
        if is_due(self.work_at) {
            self.work(now);
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let s = &self.stats;
        let aside = self.aside.as_ref();
        report("fair_rate", self.measurement.fair_rate());
        report("priority_load", self.measurement.priority_load());
        report("congested", self.measurement.is_congested().into());
        report("flows", self.list.len() as u64);
        report("elastic", self.list.elastics() as u64);
        report("streaming", (self.list.len() - self.list.elastics()) as u64);
        report("waiting", self.waiting.len() as u64);
        report("set_aside", aside.map_or(0, SideList::len) as u64);
        report("set_aside_most", aside.map_or(0, SideList::most));
        report("accepted", s.accepted);
        report("accepted_late", s.accepted_late);
        report("accepted_in_runs", s.accepted_in_runs);
        report("delay_sum", s.delay_sum.as_nanos() / 1_000_000);
        report("unlisted", s.unlisted);
        report("refused", s.refused);
        report("timed_out", s.timed_out);
        report("replaced", s.replaced);
        report("forgotten", self.waiting.forgotten());
        report("runs", s.runs);
        report("flows_before_runs", s.flows_before_runs);
        report("removed", s.removed);
        report("removed_established", s.removed_established);
        report("removed_new", s.removed_new);
        report("returned", s.returned);
        report("list_reads", s.list_reads);
        report("list_writes", s.list_writes);
        report("clean_up_reads", s.clean_up_reads);
    }

    fn flows(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        let timeout = self.params.flow_timeout;
        for listed in self.list.iter() {
            if now.since(listed.flow.latest) >= timeout {
                continue; // the next packet removes it
            }
            let class = match listed.flow.elastic {
                Some(_) => FlowClass::Elastic,
                None => FlowClass::Streaming,
            };
            report(known(&listed, FlowStanding::Accepted(class), now));
        }
        for (key, wait) in self.waiting.iter() {
            let waited = now.since(wait.first);
            let times = [wait.first, wait.latest, now];
            report(reported(
                *key,
                FlowStanding::Waiting,
                wait.seen,
                times,
                waited,
            ));
        }
        let standing = match self.mechanism.gate(&self.rules) {
            Gate::NotBlocked => FlowStanding::Blocked,
            _ => FlowStanding::SetAside,
        };
        for Aside { listed, .. } in self.aside.iter().flat_map(SideList::iter) {
            report(known(listed, standing, now));
        }
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        let before = "packets queued before a change of the scheduler";
        waiting::of_queue(&self.before, before, REPORTS_MAX / 4, report);
        self.scheduler.waiting(report);
    }
}

/// The report of a flow that is, or was, on the list.
fn known(listed: &Listed, standing: FlowStanding, now: Instant) -> FlowReport {
    let Listed { flow, key, waited } = *listed;
    let times = [flow.since, flow.latest, now];
    reported(key, standing, flow.seen, times, waited)
}

/// Minimum time for the mean of a rate, because a burst that has just arrived does not give a rate.
const RATE_OVER_MIN: Span = Span::from_millis(100);

/// The report of a flow; its rate is the mean since tracking began.
fn reported(
    key: FlowKey,
    standing: FlowStanding,
    seen: Tally,
    [since, latest, now]: [Instant; 3],
    waited: Span,
) -> FlowReport {
    let seconds = now.since(since).max(RATE_OVER_MIN).as_secs_f64();
    FlowReport {
        key,
        kind: KeyKind::Flow,
        standing,
        seen,
        dropped: None,
        threshold: None,
        rate: Rate::from_bps((seen.bytes as f64 * 8.0 / seconds) as u64),
        since,
        latest,
        waited: Some(waited),
    }
}
