//! Which flows are hogs, by a cache of fixed size: the left half of LRU-FQ.
//!
//! ```text
//!             found                              above the threshold
//!  packet --> cache? --> count it, raise it --> hog? --> yes: hit queue     (with pins: keep it)
//!               | no                              | no
//!               +--> with probability p replaces the bottom  --> miss queue
//! ```
//!
//! Source: Achanta and Reddy, ICC 2004, section II.A and Figure 2. The manual page of
//! [`lru_fq`](crate::lru_fq) tells the deviations, and what an attacker can do.

use rand::Rng;
use weir_base::{Instant, Rate, Span, Stream, Tally};
use weir_packet::{FlowKey, KeyKind, Packet};

use crate::chance::Chance;
use crate::contract::{Cx, FlowReport, FlowStanding};
use crate::lru::Lru;
use crate::rate::{RateEstimate, Window};

/// From where on a flow in the cache is a hog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// From this many packets since its admission.
    Packets(u64),
    /// From this estimated rate.
    Rate(Rate),
}

impl Threshold {
    /// Whether every flow is above it.
    pub(crate) fn is_nothing(self) -> bool {
        matches!(self, Self::Packets(0..=1)) || self == Self::Rate(Rate::from_bps(0))
    }

    fn is_met(self, seen: Tally, rate: impl FnOnce() -> Rate) -> bool {
        match self {
            Self::Packets(packets) => seen.packets >= packets,
            Self::Rate(least) => rate() >= least,
        }
    }
}

/// How flows are judged.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Flows in the cache.
    pub(crate) flows: usize,
    /// What counts as one flow.
    pub(crate) key: KeyKind,
    /// Whether a miss admits its flow.
    pub(crate) admission: Chance,
    /// From where on a flow is a hog.
    pub(crate) threshold: Threshold,
    /// How long a hog is kept after it was one; `None` to keep none.
    pub(crate) pin_timeout: Option<Span>,
    /// Window of the rate estimate.
    pub(crate) window: Window,
}

impl Policy {
    /// Entries that may be pinned: three quarters, rounded up.
    fn pins_max(&self) -> usize {
        match self.pin_timeout {
            Some(_) => (3 * self.flows).div_ceil(4),
            None => 0,
        }
    }

    /// Whether a pin whose flow was above the threshold at `identified` has run out.
    fn releases(&self, identified: Instant, now: Instant) -> bool {
        self.pin_timeout
            .is_none_or(|timeout| now.since(identified) >= timeout)
    }
}

/// What the cache counts.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    hits: u64,
    misses: u64,
    admissions: u64,
    evictions: u64,
    evicted_hogs: u64,
    refusals: u64,
    identified: u64,
}

/// A flow in the cache: what a hit changes. Its name is kept apart, so that this fits a cache line.
#[derive(Clone, Copy, Debug)]
struct Flow {
    seen: Tally,
    rate: RateEstimate,
    latest: Instant,
    /// When it was above the threshold last.
    identified: Instant,
    /// Whether its latest packet was above the threshold.
    hog: bool,
    pinned: bool,
}

/// What stays the same of a flow in the cache.
#[derive(Clone, Copy, Debug)]
struct Name {
    key: FlowKey,
    since: Instant,
}

/// The list of the entries that may be replaced, by their latest packet.
const UNPINNED: usize = 0;
/// The list of those that may not, by the time when they were above the threshold last.
const PINNED: usize = 1;

/// The cache.
#[derive(Debug)]
pub(crate) struct FlowCache {
    policy: Policy,
    flows: Lru<Flow, 2>,
    names: Vec<Name>,
    hogs: u64,
    pinned: usize,
    stream: Stream,
    stats: Stats,
}

impl FlowCache {
    /// An empty cache; admissions are drawn from `stream`.
    pub(crate) fn new(policy: Policy, stream: Stream) -> Self {
        Self {
            flows: Lru::new(policy.flows),
            names: Vec::with_capacity(policy.flows),
            policy,
            hogs: 0,
            pinned: 0,
            stream,
            stats: Stats::default(),
        }
    }

    /// Counts a packet, and says whether it belongs to a hog.
    pub(crate) fn is_hog(&mut self, cx: &Cx<'_>, packet: &Packet) -> bool {
        let hash = cx.keys.hash(packet, self.policy.key);
        if let Some(entry) = self.flows.find(hash) {
            self.stats.hits += 1;
            return self.hit(entry, cx.now, packet.bytes());
        }
        self.stats.misses += 1;
        if self.policy.admission.happens(self.stream.next_u64()) {
            self.admit(cx, packet, hash);
        }
        false
    }

    /// Loads what `is_hog` will need.
    pub(crate) fn touch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.flows.touch(cx.keys.hash(packet, self.policy.key));
    }

    /// Counts a packet of a flow in the cache; says whether the flow is above the threshold.
    fn hit(&mut self, entry: usize, now: Instant, bytes: u64) -> bool {
        let policy = &self.policy;
        let flow = self.flows.get_mut(entry);
        flow.seen.count(bytes);
        flow.rate
            .update(policy.window, now.since(flow.latest), bytes);
        flow.latest = now;
        let hog = policy.threshold.is_met(flow.seen, || flow.rate.rate());
        let was_hog = std::mem::replace(&mut flow.hog, hog);
        if hog {
            flow.identified = now;
            if !flow.pinned && self.pinned < policy.pins_max() {
                flow.pinned = true;
                self.pinned += 1;
            }
        } else if flow.pinned && policy.releases(flow.identified, now) {
            flow.pinned = false;
            self.pinned -= 1;
        }
        match (was_hog, hog) {
            (false, true) => {
                self.hogs += 1;
                self.stats.identified += 1;
            }
            (true, false) => self.hogs -= 1,
            _ => {}
        }
        if !flow.pinned {
            self.flows.raise(entry, UNPINNED);
        } else if hog {
            self.flows.raise(entry, PINNED);
        }
        hog
    }

    /// Admits the flow of a packet, in the place of another one if there is none left.
    fn admit(&mut self, cx: &Cx<'_>, packet: &Packet, hash: u64) {
        let flow = Flow {
            seen: Tally::one(packet.bytes()),
            rate: RateEstimate::default(),
            latest: cx.now,
            identified: Instant::ZERO,
            hog: false,
            pinned: false,
        };
        let name = Name {
            key: cx.keys.key(packet).project(self.policy.key),
            since: cx.now,
        };
        if self.flows.insert(hash, flow, UNPINNED).is_ok() {
            self.names.push(name);
        } else if let Some(entry) = self.victim(cx.now) {
            let old = self.flows.replace(entry, hash, flow, UNPINNED);
            self.names[entry] = name;
            self.hogs -= u64::from(old.hog);
            self.pinned -= usize::from(old.pinned);
            self.stats.evictions += 1;
            self.stats.evicted_hogs += u64::from(old.hog);
        } else {
            self.stats.refusals += 1;
            return;
        }
        self.stats.admissions += 1;
    }

    /// The entry to be replaced: a pin that has run out, else the one not used for longest.
    fn victim(&self, now: Instant) -> Option<usize> {
        let run_out = |entry: &usize| {
            let identified = self.flows.get(*entry).identified;
            self.policy.releases(identified, now)
        };
        let released = self.flows.bottom(PINNED).filter(run_out);
        released.or_else(|| self.flows.bottom(UNPINNED))
    }

    /// Takes a new policy. A smaller cache keeps the most recent flows; a new key keeps none.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        let flow = |entry: &usize| *self.flows.get(*entry);
        let of = |list| self.flows.upwards(list);
        let mut kept: Vec<usize> = match policy.key == self.policy.key {
            true => of(UNPINNED).chain(of(PINNED)).collect(),
            false => Vec::new(),
        };
        kept.sort_by_key(|entry| flow(entry).latest); // stable: ties stay in the order of the list
        kept.drain(..kept.len().saturating_sub(policy.flows));
        let (mut pinned, mut unpinned): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|entry| flow(entry).pinned);
        pinned.sort_by_key(|entry| flow(entry).identified);
        unpinned.extend(pinned.drain(..pinned.len().saturating_sub(policy.pins_max())));
        unpinned.sort_by_key(|entry| flow(entry).latest);

        let mut new = Self {
            stats: self.stats,
            ..Self::new(policy, self.stream.clone())
        };
        for (entries, list) in [(unpinned, UNPINNED), (pinned, PINNED)] {
            for entry in entries {
                let flow = Flow {
                    pinned: list == PINNED,
                    ..flow(&entry)
                };
                if new.flows.insert(self.flows.hash(entry), flow, list).is_ok() {
                    new.names.push(self.names[entry]);
                    new.hogs += u64::from(flow.hog);
                    new.pinned += usize::from(flow.pinned);
                }
            }
        }
        *self = new;
    }

    /// Bytes of memory taken.
    pub(crate) fn state_bytes(&self) -> usize {
        self.flows.state_bytes() + self.names.capacity() * size_of::<Name>()
    }

    /// The gauges of the cache.
    pub(crate) fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("hits", self.stats.hits);
        report("misses", self.stats.misses);
        report("admissions", self.stats.admissions);
        report("evictions", self.stats.evictions);
        report("evicted_hogs", self.stats.evicted_hogs);
        report("refusals", self.stats.refusals);
        report("identified", self.stats.identified);
        report("cached", self.flows.len() as u64);
        report("hogs", self.hogs);
        report("pinned", self.pinned as u64);
    }

    /// The flows in the cache: pinned ones first, then from the bottom to the top.
    pub(crate) fn report(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        let of = |list| self.flows.upwards(list);
        for entry in of(PINNED).chain(of(UNPINNED)) {
            let (flow, name) = (self.flows.get(entry), &self.names[entry]);
            let silence = now.since(flow.latest);
            let rate = flow.rate.faded(self.policy.window, silence);
            let standing = if flow.pinned {
                FlowStanding::Pinned
            } else if self.policy.threshold.is_met(flow.seen, || rate) {
                FlowStanding::Hog
            } else {
                FlowStanding::Watched
            };
            report(FlowReport {
                key: name.key,
                kind: self.policy.key,
                standing,
                seen: flow.seen,
                rate,
                since: name.since,
                latest: flow.latest,
                waited: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, flow_key};
    use proptest::prelude::*;
    use weir_base::Streams;

    fn policy() -> Policy {
        Policy {
            flows: 2,
            key: KeyKind::Flow,
            admission: Chance::new(1.0),
            threshold: Threshold::Packets(3),
            pin_timeout: None,
            window: Window::new(Span::from_millis(100)),
        }
    }

    fn cache(policy: Policy) -> FlowCache {
        FlowCache::new(policy, Streams::new(1).stream("lru_fq"))
    }

    /// Offers packets of these flows, 1 ms apart; gives the flows' standings from bottom to top.
    fn play(cache: &mut FlowCache, rig: &mut Rig, flows: &[usize]) -> Vec<(usize, FlowStanding)> {
        for &flow in flows {
            rig.now += Span::from_millis(1);
            let packet = rig.packet(flow, 1000);
            cache.is_hog(&rig.cx(), &packet);
        }
        known(cache, rig.now)
    }

    fn known(cache: &FlowCache, now: Instant) -> Vec<(usize, FlowStanding)> {
        let mut known = Vec::new();
        cache.report(now, &mut |report| {
            let flow = (0..99).find(|n| report.key == flow_key(*n)).unwrap();
            known.push((flow, report.standing));
        });
        known
    }

    #[test]
    fn a_flow_is_a_hog_from_its_threshold_on() {
        use FlowStanding::{Hog, Watched};
        let mut rig = Rig::new(5);
        let mut cache = cache(policy());
        assert_eq!(play(&mut cache, &mut rig, &[0, 0]), [(0, Watched)]);
        assert_eq!(play(&mut cache, &mut rig, &[0]), [(0, Hog)]);
        assert_eq!(play(&mut cache, &mut rig, &[1]), [(0, Hog), (1, Watched)]);
        // The cache is full: flow 2 replaces flow 0, which is at the bottom, hog or not.
        assert_eq!(
            play(&mut cache, &mut rig, &[2]),
            [(1, Watched), (2, Watched)]
        );
        assert_eq!(cache.stats.evicted_hogs, 1);
        // Flow 1 moves to the top, so that flow 3 replaces flow 2.
        assert_eq!(
            play(&mut cache, &mut rig, &[1, 3]),
            [(1, Watched), (3, Watched)]
        );
    }

    #[test]
    fn a_pinned_hog_stays_until_it_is_silent() {
        use FlowStanding::{Pinned, Watched};
        let mut rig = Rig::new(5);
        let mut cache = cache(Policy {
            pin_timeout: Some(Span::from_millis(100)),
            ..policy()
        });
        let after = play(&mut cache, &mut rig, &[0, 0, 0, 1, 2, 3]);
        assert_eq!(after, [(0, Pinned), (3, Watched)]);
        rig.now += Span::from_millis(90);
        assert_eq!(
            play(&mut cache, &mut rig, &[1]),
            [(0, Pinned), (1, Watched)]
        );
        rig.now += Span::from_millis(10);
        // Flow 0 was silent for 104 ms: its place is the next to be replaced, before flow 1.
        assert_eq!(
            play(&mut cache, &mut rig, &[2]),
            [(1, Watched), (2, Watched)]
        );
        assert_eq!(cache.pinned, 0);
    }

    #[test]
    fn a_pin_runs_out_when_its_flow_falls_below_the_rate() {
        // Threshold 400 kbit/s. 1000 B every 1 ms is 8 Mbit/s; 1000 B every 100 ms is 80 kbit/s.
        let mut rig = Rig::new(5);
        let mut cache = cache(Policy {
            threshold: Threshold::Rate(Rate::from_bps(400_000)),
            pin_timeout: Some(Span::from_millis(500)),
            ..policy()
        });
        assert_eq!(
            play(&mut cache, &mut rig, &[0; 100]),
            [(0, FlowStanding::Pinned)]
        );
        for _ in 0..8 {
            rig.now += Span::from_millis(99);
            play(&mut cache, &mut rig, &[0]);
        }
        assert_eq!(known(&cache, rig.now), [(0, FlowStanding::Watched)]);
        assert_eq!((cache.hogs, cache.pinned), (0, 0));
    }

    #[test]
    fn pins_leave_a_quarter_of_the_cache() {
        let mut rig = Rig::new(99);
        let mut cache = cache(Policy {
            flows: 8,
            pin_timeout: Some(Span::from_secs(100)),
            ..policy()
        });
        for flow in 0..20 {
            play(&mut cache, &mut rig, &[flow; 5]);
        }
        assert_eq!((cache.pinned, cache.flows.len()), (6, 8));
        assert_eq!(cache.stats.refusals, 0);
    }

    #[test]
    fn a_smaller_cache_keeps_the_most_recent_flows() {
        let mut rig = Rig::new(9);
        let mut cache = cache(Policy {
            flows: 5,
            ..policy()
        });
        play(&mut cache, &mut rig, &[0, 1, 2, 3, 4, 1]);
        let flows = |cache: &FlowCache, now| -> Vec<usize> {
            known(cache, now)
                .into_iter()
                .map(|(flow, _)| flow)
                .collect()
        };
        cache.set_policy(Policy {
            flows: 3,
            ..policy()
        });
        assert_eq!(flows(&cache, rig.now), [3, 4, 1]);
        cache.set_policy(Policy {
            flows: 9,
            ..policy()
        });
        play(&mut cache, &mut rig, &[0]);
        assert_eq!(flows(&cache, rig.now), [3, 4, 1, 0]);
        cache.set_policy(Policy {
            key: KeyKind::Source,
            ..policy()
        });
        assert_eq!(flows(&cache, rig.now), []);
    }

    #[test]
    fn chance_decides_on_misses_only() {
        // 1000 flows of one packet each at p = 1/50: 20 expected, standard deviation 4.4.
        let mut rig = Rig::new(1000);
        let mut cache = cache(Policy {
            flows: 1000,
            admission: Chance::new(0.02),
            ..policy()
        });
        for flow in 0..1000 {
            let packet = rig.packet(flow, 100);
            cache.is_hog(&rig.cx(), &packet);
        }
        assert!(
            (5..=35).contains(&cache.stats.admissions),
            "{:?}",
            cache.stats
        );
        let mut same = Streams::new(1).stream("lru_fq");
        let admitted = (0..1000).filter(|_| Chance::new(0.02).happens(same.next_u64()));
        assert_eq!(cache.stats.admissions, admitted.count() as u64);
    }

    /// Figure 2 word for word, on a vector from the bottom to the top.
    struct Reference {
        policy: Policy,
        stream: Stream,
        flows: Vec<Known>,
    }

    struct Known {
        flow: usize,
        packets: u64,
        rate: f64,
        latest: Instant,
        identified: Instant,
        pinned: bool,
    }

    impl Reference {
        fn is_hog(&mut self, flow: usize, bytes: u64, now: Instant) -> bool {
            let pins = self.flows.iter().filter(|f| f.pinned).count();
            if let Some(at) = self.flows.iter().position(|f| f.flow == flow) {
                let mut known = self.flows.remove(at);
                known.packets += 1;
                let (t, k) = (now.since(known.latest).as_secs_f64(), 0.1);
                let fade = (-t / k).exp();
                let own = if t == 0.0 { 1.0 / k } else { (1.0 - fade) / t };
                known.rate = own * bytes as f64 * 8.0 + fade * known.rate;
                known.latest = now;
                let hog = match self.policy.threshold {
                    Threshold::Packets(least) => known.packets >= least,
                    Threshold::Rate(least) => known.rate >= least.as_bps() as f64,
                };
                if hog {
                    known.identified = now;
                    let may_pin = pins < (3 * self.policy.flows).div_ceil(4);
                    known.pinned |= self.policy.pin_timeout.is_some() && may_pin;
                } else if self.silent(&known, now) {
                    known.pinned = false;
                }
                self.flows.push(known);
                return hog;
            }
            if self.policy.admission.happens(self.stream.next_u64()) {
                if self.flows.len() >= self.policy.flows && !self.make_room(now) {
                    return false;
                }
                self.flows.push(Known {
                    flow,
                    packets: 1,
                    rate: 0.0,
                    latest: now,
                    identified: Instant::ZERO,
                    pinned: false,
                });
            }
            false
        }

        fn silent(&self, known: &Known, now: Instant) -> bool {
            let timeout = self.policy.pin_timeout;
            timeout.is_none_or(|timeout| now.since(known.identified) >= timeout)
        }

        fn make_room(&mut self, now: Instant) -> bool {
            let pins = self.flows.iter().enumerate().filter(|(_, f)| f.pinned);
            let oldest = pins.min_by_key(|(_, f)| f.identified);
            let released = oldest
                .filter(|(_, f)| self.silent(f, now))
                .map(|(at, _)| at);
            let victim = released.or_else(|| self.flows.iter().position(|f| !f.pinned));
            victim.map(|at| self.flows.remove(at)).is_some()
        }
    }

    proptest! {
        #[test]
        fn judges_as_the_paper(
            size in 1_usize..7,
            threshold in prop_oneof![
                (0_u64..6).prop_map(Threshold::Packets),
                (0_u64..600_000).prop_map(|bps| Threshold::Rate(Rate::from_bps(bps))),
            ],
            admission in prop_oneof![Just(1.0), 0.0..1.0],
            pin in prop::option::of(1_u64..200),
            packets in prop::collection::vec((0_usize..12, 1_u32..1500, 0_u64..40), 0..400),
        ) {
            let policy = Policy {
                flows: size,
                admission: Chance::new(admission),
                threshold,
                pin_timeout: pin.map(Span::from_millis),
                ..policy()
            };
            let stream = Streams::new(9).stream("x");
            let mut rig = Rig::new(12);
            let mut cache = FlowCache::new(policy.clone(), stream.clone());
            let mut reference = Reference { policy, stream, flows: Vec::new() };
            for (flow, bytes, gap_ms) in packets {
                rig.now += Span::from_millis(gap_ms + u64::from(gap_ms == 0)); // ties have their own test
                let packet = rig.packet(flow, bytes);
                let expected = reference.is_hog(flow, bytes.into(), rig.now);
                prop_assert_eq!(cache.is_hog(&rig.cx(), &packet), expected);
                let pinned = reference.flows.iter().filter(|f| f.pinned).count();
                prop_assert_eq!((cache.pinned, cache.flows.len()), (pinned, reference.flows.len()));
                let mut left: Vec<_> = known(&cache, rig.now).into_iter().map(|(f, _)| f).collect();
                let mut right: Vec<_> = reference.flows.iter().map(|f| f.flow).collect();
                left.sort_unstable();
                right.sort_unstable();
                prop_assert_eq!(left, right);
            }
        }
    }
}
