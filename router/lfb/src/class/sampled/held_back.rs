//! Events of sources whose packets start or stop being backlogged in a queue, derived from the difference between
//! samples.
//!
//! ```text
//!   sample  sample  sample  sample  sample  sample
//!     -       x       x       x       -       -          x: packets of a source have waited at least a millisecond
//!                   begins                   ends
//! ```
//!
//! Two samples in a row decide, so a packet that happens to wait at the time of one sample causes no event, and neither
//! does a flood whose sources are new in each sample. This costs the forwarding thread nothing: it collects the samples
//! anyway.
//!
//! A source is backlogged under a rule of the discipline. A source that changes to another rule, for example from the
//! queue for all flows to the queue of hogs, ends and begins again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::{Instant, Span, Tally};
use weir_discipline::waiting::Service;
use weir_packet::{FlowKey, KeyKind};
use weir_path::plane::observe::Want;

use super::sample::{Held, Sample};
use super::waiting::{Crowd, Holder};

/// Maximum sources of a port, each under one rule, that are followed at a time.
const SOURCES_MAX: usize = 64;
/// Maximum stored events.
pub const EVENTS_MAX: usize = 1024;
/// Minimum waiting time of backlogged packets: a burst that arrives faster than the link also waits, but for less.
const WAITED_MIN: Span = Span::from_millis(1);

/// A source starts or stops being backlogged.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldBack {
    /// Time of the sample that showed it.
    pub at: Instant,
    /// Whether the backlog has ended.
    pub ended: bool,
    /// How long the source has been backlogged: from the first sample to the last.
    pub span: Span,
    /// Name of the port whose queue holds its packets.
    pub port: Arc<str>,
    /// The flow in one line, or the source of several flows.
    pub who: String,
    /// The fields that all packets of the source have in common.
    pub key: FlowKey,
    /// Approximate number of flows that wait.
    pub flows: u32,
    /// Packets of the source in the queue.
    pub held: Tally,
    /// The longest time that a packet at the head of a queue has waited.
    pub waited: Span,
    /// Share of the link that the source gets while others wait too; `None` if unknown.
    pub link_share: Option<f64>,
    /// Why the source is backlogged, in words.
    pub why: String,
}

/// The backlogged sources that match a filter.
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
    /// Whether its beginning has been reported as an event.
    begun: bool,
    /// Whether the source was missing in the latest sample.
    missing: bool,
    latest: Holder,
}

/// The tracker of all sources, with its latest events.
#[derive(Debug, Default)]
pub(super) struct Past {
    tracker: Tracker,
    events: VecDeque<HeldBack>,
    /// Number of the first stored event, counted from the start.
    first: u64,
    /// Samples so far.
    samples: u64,
}

/// A reader of these events.
#[derive(Debug)]
pub struct Follower(Source);

/// The source of a reader's new events.
#[derive(Debug)]
enum Source {
    /// From all events: the event with this number is next.
    Past(u64),
    /// From the reader's own tracker, and the number of samples that it has seen.
    Own(Tracker, u64),
}

impl Tracker {
    /// Follows the sources that match `want`. Sources that are backlogged already, per the tracker of `all`, cause no
    /// event.
    fn of(want: &Want, all: &Self, sample: Option<&Sample>) -> Self {
        let mut tracker = Self {
            want: want.clone(),
            sources: BTreeMap::new(),
        };
        if let Some(sample) = sample {
            tracker.take(sample);
        }
        for (id, tracked) in &mut tracker.sources {
            if let Some(known) = all.sources.get(id) {
                (tracked.first, tracked.begun) = (known.first, known.begun);
            }
        }
        tracker
    }

    /// Compares a sample with the previous state, and returns the events.
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

    /// Matching holders that are backlogged now: of each port those with the most bytes, and those that are followed
    /// already.
    fn held_back(&self, waiting: &[Held]) -> BTreeMap<Id, Holder> {
        let mut ports: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
        for held in waiting {
            ports.entry(&held.port).or_default().push(held);
        }
        let mut sources = BTreeMap::new();
        for all in ports.into_values() {
            let mut groups: BTreeMap<Id, Vec<&Held>> = BTreeMap::new();
            for held in all.iter().filter(|held| self.takes(held)) {
                let id = (held.port.clone(), held.host(), rule(held));
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

/// The scheduling rule by which these packets leave.
fn rule(held: &Held) -> &'static str {
    match held.service {
        Service::Arrival(queue) => queue,
        Service::Priced(_) => "turns",
    }
}

/// The flow of these packets from one source, or the source if the packets belong to several flows; and the common part
/// of the packets' keys.
fn name(of: &[&Held]) -> (String, FlowKey) {
    let (first, key) = (of[0], of[0].shown_key());
    let is_common = |kind: KeyKind| {
        of.iter()
            .all(|held| held.shown_key().project(kind) == key.project(kind))
    };
    let kinds = [KeyKind::Flow, KeyKind::Pair, KeyKind::Source];
    let common = kinds.into_iter().find(|kind| is_common(*kind));
    let is_flow = common == Some(KeyKind::Flow) && key.protocol != 0;
    let who = if is_flow { first.flow() } else { first.host() };
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

    /// Takes the source's holder of the latest sample; returns whether the backlog begins. The end event has the name
    /// of the begin event, so that a filter takes both or neither.
    fn see(&mut self, at: Instant, mut holder: Holder) -> bool {
        if self.begun {
            holder.who = std::mem::take(&mut self.latest.who);
            holder.key = self.latest.key;
        }
        (self.last, self.missing, self.latest) = (at, false, holder);
        !std::mem::replace(&mut self.begun, true)
    }

    fn event(&self, at: Instant, ended: bool) -> HeldBack {
        let latest = self.latest.clone();
        HeldBack {
            at,
            ended,
            span: self.last.since(self.first),
            port: latest.port,
            who: latest.who,
            key: latest.key,
            flows: latest.flows,
            held: latest.held,
            waited: latest.waited,
            link_share: latest.link_share,
            why: latest.why,
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

    /// The last `count` events that match `want`.
    pub(super) fn last(&self, count: usize, want: &Want) -> Vec<HeldBack> {
        let takes = |event: &&HeldBack| want.takes_waiting(&event.port, &event.key);
        let wanted = self.events.iter().rev().filter(takes);
        let mut last: Vec<_> = wanted.take(count).cloned().collect();
        last.reverse();
        last
    }

    /// A reader of the events that match `want`.
    pub(super) fn follower(&self, want: &Want, latest: Option<&Sample>) -> Follower {
        Follower(if *want == Want::default() {
            Source::Past(self.first + self.events.len() as u64)
        } else {
            Source::Own(Tracker::of(want, &self.tracker, latest), self.samples)
        })
    }

    /// New events for a reader, and the number of events that it has missed.
    pub(super) fn follow(
        &self,
        Follower(source): &mut Follower,
        latest: Option<&Sample>,
    ) -> (Vec<HeldBack>, u64) {
        match source {
            Source::Past(next) => {
                let lost = self.first.saturating_sub(*next);
                let known = next.saturating_sub(self.first) as usize; // at most EVENTS_MAX
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::sampled::Sampled;
    use weir_discipline::waiting::Price;
    use weir_path::plane::filter::Filter;

    const OTHERS: Service = Service::Arrival("the queue of all flows but hogs");
    const HOGS: Service = Service::Arrival("the queue of hogs");
    const TURNS: Service = Service::Priced(Price::EVEN);

    /// A packet of 10.0.0.x, to this port number, that has waited for 5 ms.
    fn held(source: u8, port: u16, service: Service) -> Held {
        let addresses = [[10, 0, 0, source], [192, 0, 2, 9]];
        let [source, destination] = addresses.map(Into::into);
        Held {
            port: "wan".into(),
            key: FlowKey::ip(source, destination, 17, 4000, port),
            common: Some(KeyKind::Flow),
            held: Tally::one(1000),
            waited: Span::from_millis(5),
            service,
            is_inbound: false,
        }
    }

    /// Samples, one per second, and the events that readers see.
    #[derive(Default)]
    struct Seconds {
        sampled: Sampled,
        now: u64,
    }

    impl Seconds {
        fn add(&mut self, waiting: Vec<Held>) {
            self.now += 1;
            let sample = Sample {
                at: Instant::ZERO + Span::from_secs(self.now),
                ..Sample::of_waiting(waiting)
            };
            self.sampled.take(sample, BTreeMap::new());
        }

        fn follower(&self, want: &Want) -> Follower {
            self.sampled.follow_held_back(want, 0).1
        }

        /// Adds the sample of the next second; returns the events that a reader sees.
        fn next(&mut self, follower: &mut Follower, waiting: Vec<Held>) -> Vec<String> {
            self.add(waiting);
            let (events, lost) = self.sampled.held_back(follower);
            assert_eq!(lost, 0);
            events.iter().map(shown).collect()
        }
    }

    fn shown(event: &HeldBack) -> String {
        let phase = if event.ended { "ends" } else { "begins" };
        let seconds = event.span.as_secs_f64();
        format!("{phase} {} x{} {seconds} s", event.who, event.flows)
    }

    fn of_port_number(number: u16) -> Want {
        Want {
            filter: Filter {
                port_numbers: vec![number..=number],
                ..Filter::default()
            },
            ..Want::default()
        }
    }

    #[test]
    fn two_samples_in_a_row_begin_it_and_two_without_end_it() {
        let mut seconds = Seconds::default();
        let mut reader = seconds.follower(&Want::default());
        let mut next = |waits: bool| {
            let waiting = waits.then(|| held(1, 53, TURNS)).into_iter().collect();
            seconds.next(&mut reader, waiting)
        };
        for waits in [true, false, true, false, false] {
            assert!(next(waits).is_empty(), "one sample is chance");
        }
        let flow = "10.0.0.1:4000 > 192.0.2.9:53 udp";
        assert!(next(true).is_empty());
        assert_eq!(next(true), [format!("begins {flow} x1 1 s")]);
        for waits in [true, false, true, false] {
            assert!(next(waits).is_empty(), "it goes on");
        }
        assert_eq!(next(false), [format!("ends {flow} x1 4 s")]);
        assert!(next(false).is_empty());
    }

    #[test]
    fn packets_that_hardly_wait_are_not_held_back() {
        let mut seconds = Seconds::default();
        let mut reader = seconds.follower(&Want::default());
        for _ in 0..5 {
            let mut short = held(1, 53, TURNS);
            short.waited = Span::from_micros(999);
            assert!(seconds.next(&mut reader, vec![short]).is_empty());
        }
    }

    #[test]
    fn a_flow_that_becomes_a_hog_is_held_back_anew_and_says_by_which_queue() {
        let mut seconds = Seconds::default();
        for service in [OTHERS, OTHERS, HOGS, HOGS] {
            seconds.add(vec![held(1, 53, service)]);
        }
        let (past, _) = seconds.sampled.follow_held_back(&Want::default(), 9);
        let past: Vec<_> = past.iter().map(|event| (event.ended, &event.why)).collect();
        let [(false, first), (true, _), (false, hog)] = past[..] else {
            panic!("{past:?}")
        };
        assert!(first.contains("the queue of all flows but hogs"), "{first}");
        assert!(hog.contains("the queue of hogs"), "{hog}");
    }

    #[test]
    fn sources_that_are_new_in_each_sample_are_no_events_and_hide_nobody() {
        let mut seconds = Seconds::default();
        let mut reader = seconds.follower(&Want::default());
        let mut seen = Vec::new();
        for second in 0..5 {
            let flood = (0..1000).map(|n| {
                let mut forged = held(2, 53, TURNS);
                forged.key.source[1..3].copy_from_slice(&[(n / 250) as u8, (n % 250) as u8]);
                forged.key.source[0] = 20 + second;
                forged
            });
            let mut true_one = held(1, 53, TURNS);
            true_one.held = Tally {
                packets: 9,
                bytes: 9000,
            };
            seen.extend(seconds.next(&mut reader, flood.chain([true_one]).collect()));
        }
        assert_eq!(seen, ["begins 10.0.0.1:4000 > 192.0.2.9:53 udp x1 1 s"]);
        // Of the sources that stay, SOURCES_MAX are followed.
        let all = || (0..200).map(|source| held(source, 53, TURNS)).collect();
        let mut count = 0;
        for _ in 0..5 {
            count += seconds.next(&mut reader, all()).len();
        }
        assert_eq!(count, SOURCES_MAX - 1, "and the one of before goes on");
    }

    #[test]
    fn a_filter_takes_its_own_flows_of_a_source_and_both_events_of_each() {
        let mut seconds = Seconds::default();
        let mut all = seconds.follower(&Want::default());
        let mut dns = seconds.follower(&of_port_number(53));
        let mut web = seconds.follower(&of_port_number(443));
        let mut lan = seconds.follower(&Want {
            ports: vec!["lan".to_owned()],
            ..Want::default()
        });
        let both = || vec![held(1, 53, TURNS), held(1, 80, TURNS)];
        seconds.add(both());
        for follower in [&mut all, &mut dns, &mut web, &mut lan] {
            assert_eq!(seconds.sampled.held_back(follower), (vec![], 0));
        }
        seconds.add(both());
        let mut seen = |sampled: &Sampled| {
            [&mut all, &mut dns, &mut web, &mut lan]
                .map(|follower| sampled.held_back(follower).0.iter().map(shown).collect())
        };
        let [of_all, of_dns, of_web, of_lan]: [Vec<String>; 4] = seen(&seconds.sampled);
        assert_eq!(of_all, ["begins 10.0.0.1 x2 1 s"]);
        assert_eq!(of_dns, ["begins 10.0.0.1:4000 > 192.0.2.9:53 udp x1 1 s"]);
        assert!(of_web.is_empty() && of_lan.is_empty());
        // A reader that starts now knows the backlogged sources, and sees only the end.
        let mut late = seconds.follower(&of_port_number(53));
        for seconds_without in 1..=2 {
            let events = seconds.next(&mut late, vec![held(1, 80, TURNS)]);
            assert_eq!(events.len(), seconds_without - 1, "{events:?}");
        }
        let [of_all, of_dns, ..] = seen(&seconds.sampled);
        assert!(of_all.is_empty(), "another flow of it still is");
        assert!(of_dns.is_empty(), "it was away, and saw one sample of two");
        let ended = seconds.next(&mut dns, vec![held(1, 80, TURNS)]);
        assert_eq!(ended, ["ends 10.0.0.1:4000 > 192.0.2.9:53 udp x1 1 s"]);
    }

    #[test]
    fn the_past_is_bounded_and_a_late_reader_learns_how_much_it_has_lost() {
        let mut seconds = Seconds::default();
        let mut reader = seconds.follower(&Want::default());
        let rounds = EVENTS_MAX / SOURCES_MAX;
        for round in 0..=rounds {
            for waits in [true, true, false, false] {
                let of = |n: u8| held(n, round as u16, TURNS);
                let all = (0..SOURCES_MAX as u8).map(of);
                seconds.add(all.filter(|_| waits).collect());
            }
        }
        let made = 2 * (rounds + 1) * SOURCES_MAX;
        let (events, lost) = seconds.sampled.held_back(&mut reader);
        assert_eq!(
            (events.len(), lost as usize),
            (EVENTS_MAX, made - EVENTS_MAX)
        );
        let last = |count| seconds.sampled.follow_held_back(&Want::default(), count).0;
        assert_eq!(last(EVENTS_MAX), events);
        assert_eq!(last(3), events[EVENTS_MAX - 3..]);
        let asked = seconds.sampled.follow_held_back(&of_port_number(7), 9).0;
        assert!(asked.is_empty(), "{asked:?}, which are too old");
    }
}
