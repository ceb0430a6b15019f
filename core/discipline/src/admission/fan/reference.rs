//! Every mechanism compared with a slow reference that follows its text, under random arrivals.
//!
//! The reference takes the link's reaction to the arrivals (estimates, bytes waiting) from the discipline.
//! It decides again, with plain lists, which flows join the list, which leave it and when, and which are
//! remembered.

use proptest::prelude::*;

use super::flow_list::ACTIVITY_SHIFT;
use super::tests::Bench;
use super::*;
use crate::contract::FlowStanding;
use crate::rig::flow_key;

const FLOWS: usize = 12;
const INTERVAL: Span = Span::from_millis(100);
const ACTIVE: Span = Span::from_millis(150);
const ASIDE: Span = Span::from_millis(120);
const FAIR_RATE: Span = Span::from_millis(40);

/// Mechanisms and policies.
const ALL: [(&str, &str); 9] = [
    ("none", "oldest"),
    ("efm", "oldest"),
    ("raef", "oldest"),
    ("rbaef", "oldest"),
    ("rpaef", "oldest"),
    ("efmp", "oldest"),
    ("efmp", "most_active"),
    ("ramaf", "oldest"),
    ("eccm", "oldest"),
];

/// The state of a run that takes several steps.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Idle,
    /// RAMAF removed flows.
    Removed,
    /// Flows are accepted since this time.
    Open(Instant),
    /// ECCM estimates again; its run began at this time.
    Closing(Instant),
}

#[derive(Clone, Copy)]
struct Member {
    flow: usize,
    since: Instant,
    /// When it was set aside.
    left: Instant,
}

struct Reference {
    word: &'static str,
    most_active: bool,
    listed: Vec<Member>,
    /// Flows on the list, in the order in which they became elastic.
    elastic: Vec<usize>,
    aside: Vec<Member>,
    last_run: Instant,
    step: Step,
    /// Number of the most active flows that leave; the scheduler knows which ones.
    wanted: u64,
}

impl Reference {
    fn sets_aside(&self) -> bool {
        ["rbaef", "rpaef", "efmp", "ramaf"].contains(&self.word)
    }

    fn is_aside(&self, flow: usize, now: Instant) -> bool {
        let here = |k: &&Member| k.flow == flow && self.stays(k, now);
        self.aside.iter().any(|k| here(&k))
    }

    /// RBAEF and RPAEF remember a flow for a time, the others until all come back.
    fn stays(&self, known: &Member, now: Instant) -> bool {
        !["rbaef", "rpaef"].contains(&self.word) || now.since(known.left) < ASIDE
    }

    /// Takes flows off the list.
    fn remove(&mut self, now: Instant, remembers: bool, leaves: impl Fn(&Member) -> bool) {
        for known in std::mem::take(&mut self.listed) {
            if !leaves(&known) {
                self.listed.push(known);
                continue;
            }
            self.elastic.retain(|flow| *flow != known.flow);
            if remembers {
                self.aside.retain(|k| k.flow != known.flow);
                self.aside.push(Member { left: now, ..known });
            }
        }
    }

    fn restore(&mut self) {
        for known in std::mem::take(&mut self.aside) {
            self.listed.push(known);
            self.elastic.push(known.flow); // it was elastic when it left
        }
    }

    /// Starts a run, if it is due; `waits` returns whether more than an MTU of a flow waits.
    fn new_flow_in_congestion(
        &mut self,
        now: Instant,
        below: Option<Instant>,
        waits: &dyn Fn(usize) -> bool,
    ) {
        let Some(below) = below else {
            return; // by the priority load alone
        };
        if now.since(below.max(self.last_run)) <= INTERVAL {
            return;
        }
        match self.word {
            "none" => return,
            "efm" => self.remove(now, false, |k| waits(k.flow)),
            "raef" | "rbaef" | "rpaef" => {
                if now.since(Instant::ZERO) < ACTIVE {
                    return;
                }
                let old = |k: &Member| waits(k.flow) && now.since(k.since) >= ACTIVE;
                self.remove(now, self.sets_aside(), old);
            }
            "efmp" if self.most_active => self.wanted = 1,
            "efmp" => {
                // The flow that began first, wherever it was in between.
                let since = |flow: usize| {
                    let known = self.listed.iter().find(|k| k.flow == flow);
                    known.map(|k| k.since)
                };
                let active = self.elastic.iter().copied().filter(|flow| waits(*flow));
                let oldest = active.min_by_key(|flow| since(*flow));
                self.remove(now, true, |k| Some(k.flow) == oldest);
            }
            "ramaf" => {
                // min_FR is 40 %: 100 / 40 - 1 = 1.5, one elastic flow remains.
                self.wanted = (self.elastic.len() as u64).saturating_sub(1);
                self.step = Step::Removed;
            }
            _ if self.step != Step::Idle => return,
            _ => self.step = Step::Open(now),
        }
        self.last_run = now;
    }

    /// The fair rate was estimated.
    fn estimated(&mut self, now: Instant, is_clear: bool, waits: &dyn Fn(usize) -> bool) {
        match (self.word, self.step) {
            ("efmp", _) if is_clear => self.restore(),
            ("ramaf", Step::Removed) if is_clear => {
                self.restore();
                self.step = Step::Open(now);
            }
            ("ramaf", Step::Open(since)) => {
                self.step = Step::Idle;
                self.remove(now, false, |k| waits(k.flow) && k.since >= since);
            }
            _ => {}
        }
    }

    /// ECCM's timers.
    fn timers(&mut self, now: Instant, waits: &dyn Fn(usize) -> bool) {
        if self.word != "eccm" {
            return;
        }
        let half = Span::from_nanos(FAIR_RATE.as_nanos() / 2);
        match self.step {
            Step::Open(since) if now >= since + half => self.step = Step::Closing(since),
            Step::Closing(since) if now >= since + FAIR_RATE => {
                self.step = Step::Idle;
                let time = since..=since + half;
                self.remove(now, false, |k| waits(k.flow) && time.contains(&k.since));
            }
            _ => {}
        }
    }

    /// Whether a packet passes; `congested` is the state of the link before it arrived.
    fn passes(&mut self, flow: usize, now: Instant, congested: bool) -> bool {
        if self.listed.iter().any(|k| k.flow == flow) {
            return true;
        }
        let is_held = self.word == "eccm" && matches!(self.step, Step::Open(_));
        let passes = match self.word {
            _ if congested && !is_held => false,
            "rbaef" => !self.is_aside(flow, now),
            // P_RPAEF is 0.
            "rpaef" => self.is_aside(flow, now) || !self.aside.iter().any(|k| self.stays(k, now)),
            _ => true,
        };
        if passes {
            let known = self.aside.iter().copied().find(|k| k.flow == flow);
            self.aside.retain(|k| k.flow != flow);
            let returns = ["efmp", "ramaf"].contains(&self.word);
            let known = known.filter(|_| returns);
            let fresh = Member {
                flow,
                since: now,
                left: now,
            };
            self.listed.push(known.unwrap_or(fresh));
            self.elastic.extend(known.map(|k| k.flow));
        }
        passes
    }
}

/// The discipline and the reference, side by side.
struct Both {
    bench: Bench,
    reference: Reference,
}

impl Both {
    fn new((word, policy): (&'static str, &str)) -> Self {
        let given = [
            ("mechanism", word),
            ("efmp", policy),
            ("scheduler", "pfq"),
            ("min_fair_rate", "0.4"),
            ("interval", "100 ms"),
            ("fair_rate_interval", "40 ms"),
            ("priority_load_interval", "100 s"),
            ("active_time", "150 ms"),
            ("blocked_time", "120 ms"),
            ("priority_time", "120 ms"),
            ("priority_admission", "0"),
        ];
        Self {
            bench: Bench::new(&given),
            reference: Reference {
                word,
                most_active: policy == "most_active",
                listed: Vec::new(),
                elastic: Vec::new(),
                aside: Vec::new(),
                last_run: Instant::ZERO,
                step: Step::Idle,
                wanted: 0,
            },
        }
    }

    /// Bytes waiting of each flow.
    fn queued(&self) -> Vec<u64> {
        let hash = |flow| self.bench.rig.keys.hash_key(&flow_key(flow));
        let queued = |flow| self.bench.fan.scheduler.queued_bytes(hash(flow));
        (0..FLOWS).map(queued).collect()
    }

    fn mtu(&self) -> u64 {
        self.bench.fan.params.afan.mtu_bytes
    }

    fn timers(&mut self, until: Instant) {
        while let Some(due) = self.bench.fan.timeout().filter(|due| *due <= until) {
            let (queued, mtu) = (self.queued(), self.mtu());
            let waits = |flow: usize| queued[flow] > mtu;
            let measurement = &self.bench.fan.measurement;
            let estimates = measurement.timeout().is_some_and(|at| at <= due);
            self.bench.rig.now = due;
            self.bench.fan.on_timeout(&mut self.bench.rig.cx());
            let is_clear = self.bench.fan.measurement.below_since().is_none();
            if estimates {
                self.reference.estimated(due, is_clear, &waits);
            }
            self.reference.timers(due, &waits);
            self.check();
        }
        self.bench.rig.now = until;
    }

    fn offer(&mut self, flow: usize, bytes: u32) {
        let (queued, mtu, now) = (self.queued(), self.mtu(), self.bench.rig.now);
        let waits = |flow: usize| queued[flow] > mtu;
        let measurement = &self.bench.fan.measurement;
        let (congested, below) = (measurement.is_congested(), measurement.below_since());
        let is_new = !self.reference.listed.iter().any(|k| k.flow == flow);
        let passed = self.bench.offer(flow, bytes);
        if is_new && congested {
            self.reference.new_flow_in_congestion(now, below, &waits);
        }
        self.follow_most_active(&queued);
        assert_eq!(passed, self.reference.passes(flow, now, congested));
        let here = self.reference.listed.iter().any(|k| k.flow == flow);
        if here && self.queued()[flow] > mtu && !self.reference.elastic.contains(&flow) {
            self.reference.elastic.push(flow);
        }
        self.check();
    }

    /// Checks that the most active flows left: as many as the mechanism requested, or all that are elastic.
    /// No flow that stayed may have more bytes waiting than one that left, to the list's precision.
    fn follow_most_active(&mut self, queued: &[u64]) {
        let wanted = std::mem::take(&mut self.reference.wanted);
        if wanted == 0 {
            return;
        }
        let now = self.bench.rig.now;
        let here = self.listed();
        let before: Vec<usize> = self.reference.listed.iter().map(|k| k.flow).collect();
        let (stayed, left): (Vec<usize>, Vec<usize>) = before
            .iter()
            .partition(|flow| here.iter().any(|k| k.0 == flow_key(**flow)));
        let (mtu, step) = (self.mtu(), 1 << ACTIVITY_SHIFT);
        let more = |bytes| before.iter().filter(|flow| queued[**flow] > bytes).count() as u64;
        let (least, most) = (wanted.min(more(mtu + step)), wanted.min(more(mtu)));
        assert!((least..=most).contains(&(left.len() as u64)));
        let least = left
            .iter()
            .map(|flow| queued[*flow])
            .min()
            .unwrap_or(u64::MAX);
        let most = stayed.iter().map(|flow| queued[*flow]).max().unwrap_or(0);
        assert!(left.is_empty() || least > mtu && least + step >= most);
        // In the order in which they left, which only the discipline knows.
        let order = self.bench.fan.aside.iter().flat_map(SideList::iter);
        let order: Vec<_> = order.map(|aside| aside.listed.key).collect();
        self.reference.remove(now, true, |k| left.contains(&k.flow));
        let place = |k: &Member| order.iter().position(|key| *key == flow_key(k.flow));
        self.reference.aside.sort_by_key(place);
    }

    /// The flows on the list, and when they were accepted.
    fn listed(&self) -> Vec<(weir_packet::FlowKey, Instant)> {
        let mut listed = Vec::new();
        self.bench.fan.flows(self.bench.rig.now, &mut |report| {
            if let FlowStanding::Accepted(_) = report.standing {
                listed.push((report.key, report.since));
            }
        });
        listed.sort_unstable();
        listed
    }

    fn check(&self) {
        let reference = &self.reference;
        let name = |k: &Member| (flow_key(k.flow), k.since);
        let mut expected: Vec<_> = reference.listed.iter().map(name).collect();
        expected.sort_unstable();
        assert_eq!(self.listed(), expected, "{}", reference.word);
        let now = self.bench.rig.now;
        for flow in 0..FLOWS {
            let hash = self.bench.rig.keys.hash_key(&flow_key(flow));
            let aside = self.bench.fan.aside.as_ref();
            let is_aside = aside.is_some_and(|aside| aside.has(hash, now));
            assert_eq!(is_aside, reference.is_aside(flow, now), "flow {flow} aside");
        }
        assert_eq!(self.bench.fan.last_run, reference.last_run);
    }
}

proptest! {
    /// Checks which flows pass, which leave and when, and which are remembered and come back.
    #[test]
    fn mechanisms_decide_as_their_texts(
        which in 0..ALL.len(),
        calls in prop::collection::vec((0..FLOWS, 60_u32..1500, 1_u64..8_000_000, 0_usize..3), 100..500),
    ) {
        let mut both = Both::new(ALL[which]);
        for (flow, bytes, nanos, takes) in calls {
            let until = both.bench.rig.now + Span::from_nanos(nanos);
            both.timers(until);
            // Mostly a few flows that always have packets to send.
            both.offer(if bytes % 4 == 0 { flow } else { flow % 4 }, bytes);
            for _ in 0..takes / 2 {
                both.bench.rig.take(&mut both.bench.fan);
            }
            both.bench.rig.fates.freed().for_each(drop);
        }
    }
}
