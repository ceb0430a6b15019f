//! LRU-FQ: a small cache of flows picks out the hogs; hogs and all others share the link by weight.
//!
//! ```text
//!              +------------------------+   hit, above the threshold
//!  arrivals -->| cache: LRU of n flows  |------------------------------> [ hit queue  ] --+
//!              |  top  A B C ... bottom |                                                 +--> link
//!              +------------------------+------------------------------> [ miss queue ] --+
//!               a miss replaces the         miss, or below the threshold        STFQ, two weights
//!               bottom with probability p
//! ```
//!
//! Source: Achanta and Reddy, "Design and Evaluation of a Partial State Router", ICC 2004, section II
//! and Figures 1 and 2.

use std::collections::VecDeque;

use rand::Rng;
use weir_base::setting::{Kind, Parameter, Setting, SettingError, Settings};
use weir_base::{Instant, Rate, Span, Stream, Tally};
use weir_packet::{Class, FlowKey, KeyKind, Packet, Reason};

use crate::bins::{KEY, key_kind};
use crate::chance::Chance;
use crate::contract::{
    Admission, Cx, Discipline, FlowReport, FlowStanding, Manual, Ready, SpecMismatch,
};
use crate::lru::Lru;
use crate::rate::{RateEstimate, Window};
use crate::spec::Spec;
use crate::stfq::{ByteCost, Clock, Tag};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "lru_fq",
    purpose: "a small cache picks out the high-bandwidth flows, which get one share of the link together",
    source: "Achanta and Reddy, ICC 2004, section II, Figures 1 and 2",
    text: "\
The cache holds a fixed number of flows, whatever the number of flows on the link. A packet of a
cached flow is a hit: the flow is counted and moves to the top. Any other packet is a miss: with the
admission probability its flow replaces the one at the bottom. So a flow must send steadily to be in
the cache, and short ones hardly ever are. A hit whose flow is above the threshold goes to the hit
queue; everything else goes to the miss queue. Start-time fair queueing shares the link by the two
weights. A packet costs constant time, and memory is fixed.

                +------------------------+   hit, above the threshold
    arrivals -->| cache: LRU of n flows  |------------------------------> [ hit queue  ] --+
                |  top  A B C ... bottom |                                                 +--> link
                +------------------------+------------------------------> [ miss queue ] --+
                 a miss replaces the         miss, or below the threshold
                 bottom with probability p

Choosing parameters. The cache must be larger than the number of hogs to expect, or they push each
other out. With a threshold in packets it must not be much larger: on a link with few flows, every
flow that lasts ends up in a large cache, and reaches any number of packets. With a threshold as a
rate the size hardly matters. The default cache of 64 is for a link with up to some 20 hogs.
The default limit of 500 packets lets both queues together hold as much as the default FIFO does;
a queue that has half the link then delays a packet as long as that FIFO at most.

Order. When a flow crosses the threshold, or leaves the cache, its packets go to the other queue, and
may overtake those that still wait in the first one. Within one queue they keep their order.

With `pin`, a flow above the threshold cannot be replaced. It is released when it was not above the
threshold for `pin_timeout`: its place is the first to be replaced then. At most three quarters of
the cache are pinned, so that new hogs can always be found.

Deviations: while the cache is not full, a miss is also admitted with the probability only, so that
start-up is no exception. The packet that gets its flow admitted is counted as seen, but is a miss.
The limit on pins and their release are ours; the paper only proposes pinning. Flows are told apart by
the 64-bit keyed hash of their key. Equal start tags favour the miss queue. The virtual time is
treated as in `stfq`. A new `key` empties the cache, because its entries mean something else then.

An attacker with more hogs than the cache has entries makes them push each other out: part of their
packets is in the miss queue then (a larger cache or `pin` helps). One who changes his addresses with
each packet has no flow: all of it is in the miss queue, together with everybody else, and the cache is
stirred with every admission (`key = \"destination\"` finds the victim instead). One who stays below
the threshold, or sends in turns from many flows, is not a hog. With pins, he can hold three quarters of
the cache by one packet of each flow in each `pin_timeout`.",
    parameters: &[
        CACHE, ADMISSION, THRESHOLD, HIT_WEIGHT, MISS_WEIGHT, PIN, PIN_TIMEOUT, KEY, LIMIT, RATE_WINDOW,
    ],
    gauges: &[
        ("hits", "packets of flows in the cache"),
        ("misses", "packets of flows not in the cache"),
        ("admissions", "flows admitted to the cache"),
        ("evictions", "flows replaced in the cache"),
        ("evicted_hogs", "of these, flows whose latest packet was above the threshold"),
        ("refusals", "admissions that failed, because every entry is pinned"),
        ("identified", "times that a flow in the cache came above the threshold"),
        ("cached", "flows in the cache"),
        ("hogs", "flows in the cache whose latest packet was above the threshold"),
        ("pinned", "flows in the cache that cannot be replaced"),
        ("to_hit", "packets for the hit queue, dropped ones included"),
        ("to_miss", "packets for the miss queue, dropped ones included"),
        ("full_hit", "packets dropped because the hit queue was full"),
        ("full_miss", "packets dropped because the miss queue was full"),
        ("hit_packets", "packets in the hit queue"),
        ("hit_bytes", "bytes in the hit queue"),
        ("miss_packets", "packets in the miss queue"),
        ("miss_bytes", "bytes in the miss queue"),
    ],
};

const CACHE: Parameter = Parameter {
    name: "cache",
    kind: Kind::Count(1, 65536),
    default: "64",
    about: "flows in the cache; more than the hogs to expect",
};

const ADMISSION: Parameter = Parameter {
    name: "admission",
    kind: Kind::Ratio(0.0, 1.0),
    default: "1/50",
    about: "probability that a miss admits its flow to the cache",
};

const THRESHOLD: Parameter = Parameter {
    name: "threshold",
    kind: Kind::PacketsOrRate(1_000_000_000, Rate::from_mbps(1_000_000)),
    default: "125 packets",
    about: "packets since admission, or rate, from which a flow in the cache is a hog",
};

const HIT_WEIGHT: Parameter = Parameter {
    name: "hit_weight",
    kind: Kind::Count(1, 1000),
    default: "1",
    about: "share of the hit queue, to that of the miss queue",
};

const MISS_WEIGHT: Parameter = Parameter {
    name: "miss_weight",
    kind: Kind::Count(1, 1000),
    default: "1",
    about: "share of the miss queue, to that of the hit queue",
};

const PIN: Parameter = Parameter {
    name: "pin",
    kind: Kind::Flag,
    default: "false",
    about: "whether a flow above the threshold stays in the cache",
};

const PIN_TIMEOUT: Parameter = Parameter {
    name: "pin_timeout",
    kind: Kind::Span(Span::from_millis(1), Span::from_secs(86_400)),
    default: "10 s",
    about: "a pin is released when its flow was not above the threshold for this long",
};

const LIMIT: Parameter = Parameter {
    name: "limit",
    kind: Kind::Count(1, 500_000),
    default: "500 packets",
    about: "packets held at most, in each of the two queues",
};

const RATE_WINDOW: Parameter = Parameter {
    name: "rate_window",
    kind: Kind::Span(Span::from_micros(10), Span::from_secs(100)),
    default: "100 ms",
    about: "window of the rate estimate",
};

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Flows in the cache.
    pub cache: usize,
    /// Probability that a miss admits its flow.
    pub admission: f64,
    /// From where on a flow in the cache is a hog.
    pub threshold: Threshold,
    /// Share of the hit queue.
    pub hit_weight: u32,
    /// Share of the miss queue.
    pub miss_weight: u32,
    /// Whether a hog stays in the cache.
    pub pin: bool,
    /// When a pin is released.
    pub pin_timeout: Span,
    /// What counts as one flow.
    pub key: KeyKind,
    /// Packets held at most, in each of the two queues.
    pub limit: usize,
    /// Window of the rate estimate.
    pub rate_window: Span,
}

/// From where on a flow in the cache is a hog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// From this many packets since its admission.
    Packets(u64),
    /// From this estimated rate.
    Rate(Rate),
}

impl Threshold {
    fn is_met(self, seen: Tally, rate: impl FnOnce() -> Rate) -> bool {
        match self {
            Self::Packets(packets) => seen.packets >= packets,
            Self::Rate(least) => rate() >= least,
        }
    }
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        let params = Self {
            cache: settings.count("cache") as usize,
            admission: settings.ratio("admission"),
            threshold: match settings.setting("threshold") {
                Setting::Rate(rate) => Threshold::Rate(*rate),
                _ => Threshold::Packets(settings.count("threshold")),
            },
            hit_weight: settings.count("hit_weight") as u32,
            miss_weight: settings.count("miss_weight") as u32,
            pin: settings.flag("pin"),
            pin_timeout: settings.span("pin_timeout"),
            key: key_kind(settings),
            limit: settings.count("limit") as usize,
            rate_window: settings.span("rate_window"),
        };
        let all_are_hogs = matches!(params.threshold, Threshold::Packets(0..=1))
            || params.threshold == Threshold::Rate(Rate::from_bps(0));
        if params.pin && all_are_hogs {
            return Err(SettingError::Contradiction {
                name: "pin",
                why: "every flow is above this threshold, so pins would keep the first ones that come"
                    .to_owned(),
            });
        }
        Ok(params)
    }

    /// Back to settings, for showing.
    pub fn settings(&self) -> Settings {
        let threshold = match self.threshold {
            Threshold::Packets(packets) => Setting::Count(packets),
            Threshold::Rate(rate) => Setting::Rate(rate),
        };
        Settings::from_pairs([
            ("cache", Setting::Count(self.cache as u64)),
            ("admission", Setting::Ratio(self.admission)),
            ("threshold", threshold),
            ("hit_weight", Setting::Count(self.hit_weight.into())),
            ("miss_weight", Setting::Count(self.miss_weight.into())),
            ("pin", Setting::Flag(self.pin)),
            ("pin_timeout", Setting::Span(self.pin_timeout)),
            ("key", Setting::Word(self.key.word())),
            ("limit", Setting::Count(self.limit as u64)),
            ("rate_window", Setting::Span(self.rate_window)),
        ])
    }

    /// Entries that may be pinned: three quarters, rounded up.
    fn pins_max(&self) -> usize {
        (3 * self.cache).div_ceil(4)
    }
}

/// What the cache and the queues count.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    hits: u64,
    misses: u64,
    admissions: u64,
    evictions: u64,
    evicted_hogs: u64,
    refusals: u64,
    identified: u64,
    to: [u64; 2],
    full: [u64; 2],
}

/// A flow in the cache: what each hit changes. Its name is kept apart, so that this fits a cache line.
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

/// The recency lists of the cache.
const UNPINNED: usize = 0;
const PINNED: usize = 1;

/// The two queues.
const HIT: usize = 0;
const MISS: usize = 1;

/// The cache: which flows are known, and which of them are hogs.
#[derive(Debug)]
struct Cache {
    flows: Lru<Flow, 2>,
    names: Vec<Name>,
    hogs: u64,
    pinned: usize,
}

/// One of the two queues.
#[derive(Debug)]
struct Queue {
    packets: VecDeque<Packet>,
    backlog: Tally,
    tag: Tag,
    cost: ByteCost,
}

/// The cache and the two queues.
#[derive(Debug)]
pub struct LruFq {
    params: Params,
    admission: Chance,
    window: Window,
    cache: Cache,
    queues: [Queue; 2],
    clock: Clock,
    stream: Stream,
    stats: Stats,
}

impl Cache {
    fn new(flows: usize) -> Self {
        Self {
            flows: Lru::new(flows),
            names: Vec::with_capacity(flows),
            hogs: 0,
            pinned: 0,
        }
    }

    /// Counts a packet of a flow in the cache; says whether the flow is above the threshold.
    fn hit(
        &mut self,
        entry: usize,
        params: &Params,
        window: Window,
        now: Instant,
        bytes: u64,
        stats: &mut Stats,
    ) -> bool {
        let flow = self.flows.get_mut(entry);
        flow.seen.count(bytes);
        flow.rate.update(window, now.since(flow.latest), bytes);
        flow.latest = now;
        let hog = params.threshold.is_met(flow.seen, || flow.rate.rate());
        let was_hog = std::mem::replace(&mut flow.hog, hog);
        if hog {
            if !was_hog {
                stats.identified += 1;
                self.hogs += 1;
            }
            flow.identified = now;
            if params.pin && !flow.pinned && self.pinned < params.pins_max() {
                flow.pinned = true;
                self.pinned += 1;
            }
        } else if was_hog {
            self.hogs -= 1;
        }
        if !flow.pinned {
            self.flows.raise(entry, UNPINNED);
        } else if hog {
            self.flows.raise(entry, PINNED); // that list is in the order of `identified`
        } else if now.since(flow.identified) >= params.pin_timeout {
            flow.pinned = false;
            self.pinned -= 1;
            self.flows.raise(entry, UNPINNED);
        }
        hog
    }

    /// Admits a flow by its first packet, in the place of the one at the bottom if there is none left.
    fn admit(&mut self, hash: u64, flow: Flow, name: Name, params: &Params, stats: &mut Stats) {
        if self.flows.insert(hash, flow, UNPINNED).is_ok() {
            self.names.push(name);
        } else if let Some(entry) = self.victim(name.since, params) {
            let old = self.flows.replace(entry, hash, flow, UNPINNED);
            self.names[entry] = name;
            self.hogs -= u64::from(old.hog);
            self.pinned -= usize::from(old.pinned);
            stats.evictions += 1;
            stats.evicted_hogs += u64::from(old.hog);
        } else {
            stats.refusals += 1;
            return;
        }
        stats.admissions += 1;
    }

    /// The entry to be replaced: a pin that has run out, else the one not used for longest.
    fn victim(&self, now: Instant, params: &Params) -> Option<usize> {
        let silent = |entry: &usize| {
            let identified = self.flows.get(*entry).identified;
            now.since(identified) >= params.pin_timeout
        };
        let released = self.flows.bottom(PINNED).filter(silent);
        released.or_else(|| self.flows.bottom(UNPINNED))
    }

    /// The same flows under new parameters. A smaller cache keeps the most recent ones.
    fn resized(&self, params: &Params) -> Self {
        let of = |list| self.flows.upwards(list);
        let mut order: Vec<usize> = of(UNPINNED).chain(of(PINNED)).collect();
        order.sort_by_key(|entry| self.flows.get(*entry).latest); // stable: ties stay in list order
        let order = &order[order.len().saturating_sub(params.cache)..];
        let may_pin = if params.pin { params.pins_max() } else { 0 };
        let pinned = order.iter().filter(|e| self.flows.get(**e).pinned).count();
        let mut to_release = pinned.saturating_sub(may_pin);
        let mut new = Self::new(params.cache);
        for &entry in order {
            let mut flow = *self.flows.get(entry);
            if flow.pinned && to_release > 0 {
                to_release -= 1;
                flow.pinned = false;
            }
            let list = if flow.pinned { PINNED } else { UNPINNED };
            let hash = self.flows.hash(entry);
            if new.flows.insert(hash, flow, list).is_ok() {
                new.names.push(self.names[entry]);
                new.hogs += u64::from(flow.hog);
                new.pinned += usize::from(flow.pinned);
            }
        }
        new
    }
}

impl Queue {
    fn new(limit: usize, weight: u32) -> Self {
        Self {
            packets: VecDeque::with_capacity(limit),
            backlog: Tally::ZERO,
            tag: Tag::default(),
            cost: ByteCost::of_weight(weight),
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }
}

impl LruFq {
    /// An empty cache and empty queues. All memory they will ever use is taken now.
    pub fn new(params: Params, stream: Stream) -> Self {
        Self {
            admission: Chance::new(params.admission),
            window: Window::new(params.rate_window),
            cache: Cache::new(params.cache),
            queues: [params.hit_weight, params.miss_weight]
                .map(|weight| Queue::new(params.limit, weight)),
            clock: Clock::default(),
            params,
            stream,
            stats: Stats::default(),
        }
    }

    /// Figure 2 of the paper: which queue a packet belongs to.
    fn classify(&mut self, cx: &Cx<'_>, packet: &Packet) -> usize {
        let hash = cx.keys.hash(packet, self.params.key);
        if let Some(entry) = self.cache.flows.find(hash) {
            self.stats.hits += 1;
            let hog = self.cache.hit(
                entry,
                &self.params,
                self.window,
                cx.now,
                packet.bytes(),
                &mut self.stats,
            );
            return if hog { HIT } else { MISS };
        }
        self.stats.misses += 1;
        if self.admission.happens(self.stream.next_u64()) {
            self.admit(cx, packet, hash);
        }
        MISS
    }

    #[cold]
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
            key: cx.keys.key(packet).project(self.params.key),
            since: cx.now,
        };
        let Self { params, stats, .. } = self;
        self.cache.admit(hash, flow, name, params, stats);
    }

    /// The queue whose head has the lesser start tag; the miss queue if they are equal.
    fn turn(&self) -> Option<usize> {
        let [hit, miss] = &self.queues;
        match (hit.packets.is_empty(), miss.packets.is_empty()) {
            (true, true) => None,
            (true, false) => Some(MISS),
            (false, true) => Some(HIT),
            (false, false) if hit.tag < miss.tag => Some(HIT),
            (false, false) => Some(MISS),
        }
    }
}

impl Discipline for LruFq {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        let which = self.classify(cx, &packet);
        self.stats.to[which] += 1;
        let queue = &mut self.queues[which];
        if queue.packets.len() >= self.params.limit {
            self.stats.full[which] += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        if queue.packets.is_empty() {
            self.clock.arrive(&mut queue.tag);
        }
        queue.backlog.count(packet.bytes());
        queue.packets.push_back(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(which) = self.turn() else {
            self.clock.idle();
            return None;
        };
        let queue = &mut self.queues[which];
        let packet = queue.pop()?;
        self.clock.serve(&mut queue.tag, queue.cost, packet.bytes());
        Some(packet)
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        self.cache
            .flows
            .touch(cx.keys.hash(packet, self.params.key));
    }

    fn has_room(&self, _class: Class) -> bool {
        let room = |queue: &Queue| queue.packets.len() < self.params.limit;
        self.queues.iter().all(room) // which queue a packet will belong to is not known before
    }

    fn ready(&self, _now: Instant) -> Ready {
        match self.turn() {
            None => Ready::Empty,
            Some(_) => Ready::Now,
        }
    }

    fn backlog(&self) -> Tally {
        self.queues[HIT].backlog + self.queues[MISS].backlog
    }

    fn reconfigure(&mut self, spec: &Spec, _now: Instant) -> Result<(), SpecMismatch> {
        let Spec::LruFq(params) = spec else {
            return Err(spec.mismatch(MANUAL.name));
        };
        self.cache = if params.key == self.params.key {
            self.cache.resized(params)
        } else {
            Cache::new(params.cache)
        };
        let weights = [params.hit_weight, params.miss_weight];
        for (queue, weight) in self.queues.iter_mut().zip(weights) {
            let held = queue.packets.len();
            queue.packets.reserve(params.limit.saturating_sub(held));
            queue.cost = ByteCost::of_weight(weight);
        }
        self.admission = Chance::new(params.admission);
        self.window = Window::new(params.rate_window);
        self.params = params.clone();
        Ok(())
    }

    /// In the order of arrival over both queues, so that a flow that crossed is in order again.
    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        let arrival = |queue: &Queue| queue.packets.front().map(|p| (p.enqueued, p.id));
        loop {
            let [hit, miss] = &mut self.queues;
            let next = match (arrival(hit), arrival(miss)) {
                (Some(a), Some(b)) if a < b => hit.pop(),
                (Some(_), None) => hit.pop(),
                _ => miss.pop(),
            };
            match next {
                Some(packet) => out(packet),
                None => return,
            }
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("hits", self.stats.hits);
        report("misses", self.stats.misses);
        report("admissions", self.stats.admissions);
        report("evictions", self.stats.evictions);
        report("evicted_hogs", self.stats.evicted_hogs);
        report("refusals", self.stats.refusals);
        report("identified", self.stats.identified);
        report("cached", self.cache.flows.len() as u64);
        report("hogs", self.cache.hogs);
        report("pinned", self.cache.pinned as u64);
        report("to_hit", self.stats.to[HIT]);
        report("to_miss", self.stats.to[MISS]);
        report("full_hit", self.stats.full[HIT]);
        report("full_miss", self.stats.full[MISS]);
        let [hit, miss] = [&self.queues[HIT].backlog, &self.queues[MISS].backlog];
        report("hit_packets", hit.packets);
        report("hit_bytes", hit.bytes);
        report("miss_packets", miss.packets);
        report("miss_bytes", miss.bytes);
    }

    fn flows(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        let of = |list| self.cache.flows.upwards(list);
        for entry in of(PINNED).chain(of(UNPINNED)) {
            let (flow, name) = (self.cache.flows.get(entry), &self.cache.names[entry]);
            let rate = flow.rate.faded(self.window, now.since(flow.latest));
            let standing = if flow.pinned {
                FlowStanding::Pinned
            } else if self.params.threshold.is_met(flow.seen, || rate) {
                FlowStanding::Hog
            } else {
                FlowStanding::Watched
            };
            report(FlowReport {
                key: name.key,
                kind: self.params.key,
                standing,
                seen: flow.seen,
                rate,
                since: name.since,
                latest: flow.latest,
            });
        }
    }
}
