//! Whose packets begin to be held back in a queue, and when that ends: the difference between samples, as events.
//!
//! ```text
//!   sample  sample  sample  sample  sample  sample
//!     -       x       x       x       -       -          x: packets of a source have waited for a millisecond
//!                   begins                   ends
//! ```
//!
//! Two samples in a row decide, so a packet that happens to wait when a sample is made is no event, and neither is a
//! flood whose sources are new in each. The forwarding thread does nothing for this: it makes the samples anyway.
//!
//! A source is held back by a rule of the discipline. One that comes under another rule, from a queue for all to the
//! queue of hogs, is held back anew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::{Instant, Span, Tally};
use weir_discipline::waiting::Service;
use weir_packet::{FlowKey, KeyKind};
use weir_path::plane::observe::Want;

use super::sample::{Held, Sample};
use super::waiting::{Crowd, Holder};

/// Sources of a port, each under one rule, that are followed at a time.
const SOURCES_MAX: usize = 64;
/// Events that are kept.
pub const EVENTS_MAX: usize = 1024;
/// Least time that packets have waited. Less than this, a burst waits that came faster than the link.
const WAITED_MIN: Span = Span::from_millis(1);

/// A source begins to be held back, or is held back no longer.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldBack {
    /// When that was seen.
    pub at: Instant,
    /// Whether it is over.
    pub ended: bool,
    /// How long it has been held back: from the first sample to the last.
    pub span: Span,
    /// Name of the port whose queue holds its packets.
    pub port: Arc<str>,
    /// The flow in one line, or the source of several.
    pub who: String,
    /// What its packets have in common.
    pub key: FlowKey,
    /// Flows that wait, about.
    pub flows: u32,
    /// Its packets in the queue.
    pub held: Tally,
    /// The longest time that a packet at the head of a queue has waited.
    pub waited: Span,
    /// Share of the link that it gets while others wait, too; none if that cannot be told.
    pub link_share: Option<f64>,
    /// Why, in words.
    pub why: String,
}

/// The sources that are held back, of those that are wanted.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    want: Want,
    sources: BTreeMap<Id, Tracked>,
}

/// A source at a port under a rule of its discipline.
type Id = (Arc<str>, String, &'static str);

#[derive(Clone, Debug)]
struct Tracked {
    first: Instant,
    last: Instant,
    /// Whether its beginning was an event.
    begun: bool,
    /// Whether it was missing in the latest sample.
    missing: bool,
    latest: Holder,
}

/// The tracker of everything, with the latest of its events.
#[derive(Debug, Default)]
pub(super) struct Past {
    tracker: Tracker,
    events: VecDeque<HeldBack>,
    /// Number of the first of them, counted from the start.
    first: u64,
    /// Samples so far.
    samples: u64,
}

/// A reader of these events.
#[derive(Debug)]
pub struct Follower(Source);

/// Where new events of a reader come from.
#[derive(Debug)]
enum Source {
    /// From all events: the one with this number is the next.
    Past(u64),
    /// From a tracker of its own, which has seen this many samples.
    Own(Tracker, u64),
}

impl Tracker {
    /// Follows those who are wanted. Who is held back already is known, and no event.
    fn of(want: &Want, sample: Option<&Sample>) -> Self {
        let mut tracker = Self {
            want: want.clone(),
            sources: BTreeMap::new(),
        };
        if let Some(sample) = sample {
            tracker.take(sample);
            let all = tracker.sources.values_mut();
            all.for_each(|tracked| tracked.begun = true);
        }
        tracker
    }

    /// Compares a sample with what was before.
    fn take(&mut self, sample: &Sample) -> Vec<HeldBack> {
        let at = sample.at;
        let mut events = Vec::new();
        let mut now = self.held_back(&sample.waiting);
        self.sources.retain(|id, tracked| match now.remove(id) {
            Some(holder) => {
                if tracked.see(at, holder) {
                    events.push(tracked.event(at, false));
                }
                true
            }
            None if tracked.begun && !tracked.missing => {
                tracked.missing = true;
                true
            }
            None => {
                if tracked.begun {
                    events.push(tracked.event(at, true));
                }
                false
            }
        });
        let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (port, ..) in self.sources.keys() {
            *places.entry(port.clone()).or_default() += 1;
        }
        let mut new: Vec<_> = now.into_iter().collect();
        new.sort_by_key(|(_, holder)| std::cmp::Reverse(holder.held.bytes));
        for (id, latest) in new {
            let taken = places.entry(id.0.clone()).or_default();
            if *taken < SOURCES_MAX {
                *taken += 1;
                self.sources.insert(id, Tracked::new(at, latest));
            }
        }
        events
    }

    /// Whoever is held back now and wanted: of each port those with most bytes, and whoever is followed already.
    fn held_back(&self, waiting: &[Held]) -> BTreeMap<Id, Holder> {
        let mut ports: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
        for held in waiting {
            ports.entry(&held.port).or_default().push(held);
        }
        let mut sources = BTreeMap::new();
        for all in ports.into_values() {
            let mut groups: BTreeMap<Id, Vec<&Held>> = BTreeMap::new();
            for held in all.iter().filter(|held| self.takes(held)) {
                let id = (held.port.clone(), held.source(), rule(held));
                groups.entry(id).or_default().push(held);
            }
            let bytes = |of: &[&Held]| of.iter().map(|held| held.held.bytes).sum::<u64>();
            let mut groups: Vec<_> = groups.into_iter().collect();
            groups.sort_by_key(|(_, of)| std::cmp::Reverse(bytes(of)));
            let crowd = Crowd::of(all);
            for (place, (id, of)) in groups.into_iter().enumerate() {
                if place < SOURCES_MAX || self.sources.contains_key(&id) {
                    let (who, key) = name(&of);
                    let holder = Holder {
                        key,
                        ..crowd.row(who, &of)
                    };
                    sources.insert(id, holder);
                }
            }
        }
        sources
    }

    fn takes(&self, held: &Held) -> bool {
        held.waited >= WAITED_MIN && self.want.takes_waiting(&held.port, &held.shown_key())
    }
}

/// The rule by which packets leave.
fn rule(held: &Held) -> &'static str {
    match held.service {
        Service::Arrival(queue) => queue,
        Service::Priced(_) => "turns",
    }
}

/// The flow of packets of one source, or the source if they are of several flows; and what their keys have in common.
fn name(of: &[&Held]) -> (String, FlowKey) {
    let (first, key) = (of[0], of[0].shown_key());
    let is_common = |kind: KeyKind| {
        of.iter()
            .all(|held| held.shown_key().project(kind) == key.project(kind))
    };
    let kinds = [KeyKind::Flow, KeyKind::Pair, KeyKind::Source];
    let common = kinds.into_iter().find(|kind| is_common(*kind));
    let is_flow = common == Some(KeyKind::Flow) && key.protocol != 0;
    let who = if is_flow {
        first.flow()
    } else {
        first.source()
    };
    (
        who,
        common.map_or_else(FlowKey::default, |kind| key.project(kind)),
    )
}

impl Tracked {
    fn new(at: Instant, latest: Holder) -> Self {
        Self {
            first: at,
            last: at,
            begun: false,
            missing: false,
            latest,
        }
    }

    /// Takes what the latest sample has of it; returns whether it begins to be held back. Its end has the name of its
    /// beginning, so that a filter takes both or neither.
    fn see(&mut self, at: Instant, mut holder: Holder) -> bool {
        if self.begun {
            holder.who = std::mem::take(&mut self.latest.who);
            holder.key = self.latest.key;
        }
        (self.last, self.missing, self.latest) = (at, false, holder);
        !std::mem::replace(&mut self.begun, true)
    }

    fn event(&self, at: Instant, ended: bool) -> HeldBack {
        let Holder {
            port,
            who,
            key,
            flows,
            held,
            waited,
            queue_share: _,
            link_share,
            why,
        } = self.latest.clone();
        HeldBack {
            at,
            ended,
            span: self.last.since(self.first),
            port,
            who,
            key,
            flows,
            held,
            waited,
            link_share,
            why,
        }
    }
}

impl Past {
    pub(super) fn take(&mut self, sample: &Sample) {
        self.samples += 1;
        for event in self.tracker.take(sample) {
            if self.events.len() >= EVENTS_MAX {
                self.events.pop_front();
                self.first += 1;
            }
            self.events.push_back(event);
        }
    }

    /// The last events that are wanted, at most this many.
    pub(super) fn last(&self, count: usize, want: &Want) -> Vec<HeldBack> {
        let takes = |event: &&HeldBack| want.takes_waiting(&event.port, &event.key);
        let wanted = self.events.iter().rev().filter(takes);
        let mut last: Vec<_> = wanted.take(count).cloned().collect();
        last.reverse();
        last
    }

    /// A reader of those who are wanted.
    pub(super) fn follower(&self, want: &Want, latest: Option<&Sample>) -> Follower {
        Follower(match *want == Want::default() {
            true => Source::Past(self.first + self.events.len() as u64),
            false => Source::Own(Tracker::of(want, latest), self.samples),
        })
    }

    /// New events of a reader, and how many it has missed.
    pub(super) fn follow(
        &self,
        Follower(source): &mut Follower,
        latest: Option<&Sample>,
    ) -> (Vec<HeldBack>, u64) {
        match source {
            Source::Past(next) => {
                let lost = self.first.saturating_sub(*next);
                let known = next.saturating_sub(self.first) as usize; // at most as many as there are
                *next = self.first + self.events.len() as u64;
                (self.events.iter().skip(known).cloned().collect(), lost)
            }
            Source::Own(tracker, samples) => {
                let is_new = std::mem::replace(samples, self.samples) < self.samples;
                let events = latest.filter(|_| is_new).map(|sample| tracker.take(sample));
                (events.unwrap_or_default(), 0)
            }
        }
    }
}
