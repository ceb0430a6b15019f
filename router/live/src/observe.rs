//! Readers of a router's drops and backlogged (held-back) flows: shares the plane's observers between the readers, and
//! keeps the history for all of them.
//!
//! ```text
//!  worker: [ history ] --swap, at most 5 times a second--> [ past: 4096 events ] --place in it--> readers without a filter
//!          [ observer ] --the same swap------------------> [ its events ] ----------------------> the reader with that filter
//!          [ sample   ] --once a second, anyway----------> [ samples ] --new backlogged flows---> every reader
//! ```
//!
//! The forwarding thread does not know the readers: it swaps memory on request, and requests are equally frequent for
//! one reader and for many. A reader that comes late loses the oldest events, and learns how many.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_base::Span;
use weir_layer::NoAnswer;
use weir_lfb::class::sampled::Sampled;
use weir_lfb::class::sampled::held_back::{Follower, HeldBack};
use weir_lfb::packet_filter;
use weir_model::observe::{DROP, HELD_BACK, ObserveReport, ObserveRequest, Observed, ObservedFlow};
use weir_packet::FlowKey;
use weir_path::plane::observe::{
    Drops, EVENTS_MAX, Events, HISTORY, LEASE, OBSERVERS_MAX, TooMany, Want,
};

use crate::clock;
use crate::mutex::lock;
use crate::worker::{Handle, Worker};

/// Maximum readers at a time, with and without a filter.
const READERS_MAX: usize = 16;
/// Shortest time between two requests to the forwarding thread.
const ASK_GAP: Duration = Duration::from_millis(200);

/// Time after which the drops of an instant have been fetched.
const GRACE: Span = Span::from_millis(650); // the interval, and twice the gap

/// Why a reader is refused, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveRefusal {
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The router has too many other readers.
    #[error("too many observers of this router; end another one, or retry later")]
    Busy,
    /// No reader has this number.
    #[error("unknown observer; an observer that is not read for a minute ends")]
    Gone,
    /// The router does not answer.
    #[error("{0}")]
    Silent(#[from] NoAnswer),
}

/// The readers of a router.
#[derive(Debug)]
pub struct Observations {
    handle: Handle,
    sampled: Arc<Mutex<Sampled>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    readers: BTreeMap<u64, Reader>,
    past: Past,
    asked: Option<Instant>,
    /// Empty memory that the observers continue with at the next request.
    spare: Vec<Events>,
}

/// The latest events of the history.
#[derive(Debug, Default)]
struct Past {
    events: VecDeque<Drops>,
    /// Number of the first event here, counted from the start, including events that were overwritten before they were
    /// fetched.
    first: u64,
}

#[derive(Debug)]
struct Reader {
    /// The source of its drops, if it requested drops.
    drops: Option<Source>,
    /// Its position in the events of backlogged flows, if it requested these.
    held_back: Option<Follower>,
    /// Events that were not fetched yet.
    waiting: VecDeque<Event>,
    lost: u64,
    fetched: Instant,
    follows: bool,
    /// The time after which it takes no more events.
    until: Option<weir_base::Instant>,
}

/// An event of a reader.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Drops(Drops),
    HeldBack(HeldBack),
}

/// The source of a reader's new drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The history, from the event with this number on.
    Past(u64),
    /// The observer with this number, which belongs to this reader alone.
    Own(u64),
}

impl Observations {
    /// Observations of the router behind `handle`, whose samples are in `sampled`; without readers yet.
    pub fn new(handle: Handle, sampled: Arc<Mutex<Sampled>>) -> Self {
        Self {
            handle,
            sampled,
            state: Mutex::default(),
        }
    }

    /// Adds a reader, and returns its number.
    pub fn start(&self, request: &ObserveRequest) -> Result<u64, ObserveRefusal> {
        request.check().map_err(ObserveRefusal::Wrong)?;
        let filter = packet_filter::check(&request.filter).map_err(ObserveRefusal::Wrong)?;
        let want = Want {
            ports: request.port.clone(),
            filter,
        };
        let mut state = lock(&self.state);
        state.forget(&self.handle);
        if state.readers.len() >= READERS_MAX {
            return Err(ObserveRefusal::Busy);
        }
        let ports = want.ports.clone();
        self.handle.call(|worker| unknown_port(worker, ports))??;
        state.ask(&self.handle)?;
        let last = request.last.unwrap_or(0) as usize;
        let (mut waiting, mut held_back) = (Vec::new(), None);
        if request.wants(HELD_BACK) {
            let (past, follower) = lock(&self.sampled).follow_held_back(&want, last);
            waiting.extend(past.into_iter().map(Event::HeldBack));
            held_back = Some(follower);
        }
        let mut drops = None;
        if request.wants(DROP) {
            waiting.extend(state.past.last(last, &want).into_iter().map(Event::Drops));
            drops = Some(if want == Want::default() || !request.follows() {
                Source::Past(state.past.end())
            } else {
                self.begin_observer(want)?
            });
        }
        waiting.sort_by_key(Event::at);
        waiting.drain(..waiting.len().saturating_sub(last));
        state.last += 1;
        let reader = Reader {
            drops,
            held_back,
            waiting: waiting.into(),
            lost: 0,
            fetched: Instant::now(),
            follows: request.follows(),
            until: request
                .seconds
                .map(|s| clock::now() + Span::from_secs_f64(s)),
        };
        let number = state.last;
        state.readers.insert(number, reader);
        Ok(number)
    }

    /// Starts an observer for one reader alone.
    fn begin_observer(&self, want: Want) -> Result<Source, ObserveRefusal> {
        let begun = self
            .handle
            .call(move |worker| worker.plane.observe(want, Events::default(), clock::now()));
        Ok(Source::Own(begun?.map_err(|TooMany| ObserveRefusal::Busy)?))
    }

    /// The events of a reader since the last call.
    pub fn fetch(&self, number: u64) -> Result<ObserveReport, ObserveRefusal> {
        let mut state = lock(&self.state);
        state.forget(&self.handle);
        let reader = state.readers.get(&number).ok_or(ObserveRefusal::Gone)?;
        let is_over = |until: weir_base::Instant| clock::now() >= until + GRACE;
        let done = !reader.follows || reader.until.is_some_and(is_over);
        if reader.follows && reader.drops.is_some() && (done || state.may_ask()) {
            state.ask(&self.handle)?;
        }
        let State { readers, past, .. } = &mut *state;
        let reader = readers.get_mut(&number).ok_or(ObserveRefusal::Gone)?;
        if reader.follows {
            reader.follow(past);
            reader.follow_held_back(&lock(&self.sampled));
        }
        reader.fetched = Instant::now();
        let epoch = clock::epoch();
        reader.waiting.make_contiguous().sort_by_key(Event::at);
        let events = reader.waiting.drain(..);
        Ok(ObserveReport {
            events: events.map(|event| event.observed(epoch)).collect(),
            lost: std::mem::take(&mut reader.lost),
            done,
        })
    }

    /// Ends a reader.
    pub fn end(&self, number: u64) {
        if let Some(reader) = lock(&self.state).readers.remove(&number) {
            reader.end(&self.handle);
        }
    }
}

/// On the forwarding thread: refuses ports that do not exist.
fn unknown_port(worker: &mut Worker, wanted: Vec<String>) -> Result<(), ObserveRefusal> {
    let ports = worker.plane.ports();
    let Some(unknown) = wanted
        .iter()
        .find(|name| ports.iter().all(|port| port.name != **name))
    else {
        return Ok(());
    };
    let known: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
    let known = known.join(", ");
    let why = format!("there is no port `{unknown}`; the ports are: {known}");
    Err(ObserveRefusal::Wrong(why))
}

impl State {
    /// Ends readers that have not fetched for too long.
    fn forget(&mut self, handle: &Handle) {
        let lease = Duration::from_nanos(LEASE.as_nanos());
        let gone = |_: &u64, reader: &mut Reader| reader.fetched.elapsed() >= lease;
        let gone = self.readers.extract_if(.., gone);
        gone.for_each(|(_, reader)| reader.end(handle));
    }

    fn may_ask(&self) -> bool {
        self.asked.is_none_or(|asked| asked.elapsed() >= ASK_GAP)
    }

    /// Fetches the events of the observers, and passes them to the readers.
    fn ask(&mut self, handle: &Handle) -> Result<(), ObserveRefusal> {
        let is_own = |reader: &&Reader| matches!(reader.drops, Some(Source::Own(_)));
        let observers = 1 + self.readers.values().filter(is_own).count();
        let mut empties = std::mem::take(&mut self.spare);
        empties.resize_with(observers.min(1 + OBSERVERS_MAX), Events::default);
        let batches = handle.call(|worker| worker.plane.observed(empties, clock::now()))?;
        self.asked = Some(Instant::now());
        for mut batch in batches {
            match batch.observer {
                HISTORY => self.past.add(batch.overwritten, batch.events.drain()),
                number => {
                    let of = |reader: &&mut Reader| reader.drops == Some(Source::Own(number));
                    if let Some(reader) = self.readers.values_mut().find(of) {
                        reader.lost += batch.overwritten;
                        let events = batch.events.drain().map(Event::Drops);
                        events.for_each(|event| reader.push(event));
                    }
                }
            }
            batch.events.drain().for_each(drop);
            self.spare.push(batch.events);
        }
        Ok(())
    }
}

impl Past {
    /// Number of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn add(&mut self, overwritten: u64, events: impl Iterator<Item = Drops>) {
        if overwritten > 0 {
            // The stored events are older than the missing ones: keeping them would leave a gap.
            self.first = self.end() + overwritten;
            self.events.clear();
        }
        for event in events {
            if self.events.len() >= EVENTS_MAX {
                self.events.pop_front();
                self.first += 1;
            }
            self.events.push_back(event);
        }
    }

    /// The last events that match `want`, at most `count`.
    fn last(&self, count: usize, want: &Want) -> VecDeque<Drops> {
        let wanted = self
            .events
            .iter()
            .rev()
            .filter(|event| want.takes_event(event));
        let mut last: VecDeque<_> = wanted.take(count).cloned().collect();
        last.make_contiguous().reverse();
        last
    }
}

impl Reader {
    /// Ends the reader's own observer, if it has one.
    fn end(self, handle: &Handle) {
        if let Some(Source::Own(observer)) = self.drops {
            let _ = handle.post(move |worker| worker.plane.end_observer(observer)); // or the router has ended
        }
    }

    /// Adds an event; if too many wait, the oldest one is lost.
    fn push(&mut self, event: Event) {
        if self.until.is_some_and(|until| event.at() > until) {
            return;
        }
        if self.waiting.len() >= EVENTS_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back(event);
    }

    /// Takes new drops from the history.
    fn follow(&mut self, past: &Past) {
        let Some(Source::Past(next)) = &mut self.drops else {
            return;
        };
        self.lost += past.first.saturating_sub(*next);
        let known = next.saturating_sub(past.first) as usize; // at most as many as there are
        *next = past.end();
        for event in past.events.iter().skip(known) {
            self.push(Event::Drops(event.clone()));
        }
    }

    /// Takes the changes of backlogged flows in the latest samples.
    fn follow_held_back(&mut self, sampled: &Sampled) {
        if let Some(follower) = &mut self.held_back {
            let (events, lost) = sampled.held_back(follower);
            self.lost += lost;
            let events = events.into_iter().map(Event::HeldBack);
            events.for_each(|event| self.push(event));
        }
    }
}

impl Event {
    fn at(&self) -> weir_base::Instant {
        match self {
            Self::Drops(event) => event.first,
            Self::HeldBack(event) => event.at,
        }
    }

    /// The event as readers receive it.
    fn observed(&self, epoch: u64) -> Observed {
        match self {
            Self::Drops(event) => of_drops(event, epoch),
            Self::HeldBack(event) => of_held_back(event, epoch),
        }
    }
}

fn of_drops(event: &Drops, epoch: u64) -> Observed {
    Observed {
        event: DROP.to_owned(),
        unix_s: unix_s(event.first, epoch),
        over_s: event.last.since(event.first).as_secs_f64(),
        reason: Some(event.reason.name().to_owned()),
        packets: event.count.packets,
        bytes: event.count.bytes,
        flow: event.of.as_ref().map(|of| ObservedFlow {
            port: of.port.as_deref().map(str::to_owned),
            direction: if of.outbound { "out" } else { "in" }.to_owned(),
            frame_bytes: Some(of.frame_bytes),
            waited_s: Span::as_secs_f64(of.waited),
            protocol: of.key.source_ip().map(|_| of.key.protocol),
            ..of_key(&of.key)
        }),
        phase: None,
        flows: None,
        link_share_ratio: None,
        why: None,
    }
}

fn of_held_back(event: &HeldBack, epoch: u64) -> Observed {
    Observed {
        event: HELD_BACK.to_owned(),
        unix_s: unix_s(event.at, epoch),
        over_s: event.span.as_secs_f64(),
        reason: None,
        packets: event.held.packets,
        bytes: event.held.bytes,
        flow: Some(ObservedFlow {
            port: Some((*event.port).to_owned()),
            text: event.who.clone(),
            waited_s: Span::as_secs_f64(event.waited),
            ..of_key(&event.key)
        }),
        phase: Some(if event.ended { "ends" } else { "begins" }.to_owned()),
        flows: Some(event.flows),
        link_share_ratio: event.link_share,
        why: Some(event.why.clone()),
    }
}

/// The flow of a key, at its outgoing port.
fn of_key(key: &FlowKey) -> ObservedFlow {
    ObservedFlow {
        port: None,
        direction: "out".to_owned(),
        text: key.to_string(),
        source: key.address_shown(key.source),
        source_port: Some(key.source_port).filter(|port| *port != 0),
        destination: key.address_shown(key.destination),
        destination_port: Some(key.destination_port).filter(|port| *port != 0),
        protocol: Some(key.protocol).filter(|protocol| *protocol != 0),
        frame_bytes: None,
        waited_s: 0.0,
    }
}

fn unix_s(at: weir_base::Instant, epoch: u64) -> f64 {
    (epoch + at.as_nanos()) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::{Streams, Tally};
    use weir_packet::Reason;
    use weir_path::plane::Plane;

    /// An event of the history, `number` milliseconds after the start.
    fn event(number: u64) -> Drops {
        let at = weir_base::Instant::ZERO + Span::from_millis(number);
        Drops {
            first: at,
            last: at,
            reason: Reason::QueueFull,
            count: Tally::one(100),
            of: None,
        }
    }

    fn reader(source: Source) -> Reader {
        Reader {
            drops: Some(source),
            held_back: None,
            waiting: VecDeque::new(),
            lost: 0,
            fetched: Instant::now(),
            follows: true,
            until: None,
        }
    }

    fn seen(reader: &mut Reader) -> Vec<u64> {
        let events = reader.waiting.drain(..);
        events
            .map(|event| event.at().as_nanos() / 1_000_000)
            .collect()
    }

    fn router() -> Handle {
        let plane = Plane::new(16, 1518, Streams::new(1));
        Worker::new(plane, Box::new(|_| {})).start().unwrap().0
    }

    #[test]
    fn a_reader_gets_every_event_once_or_learns_how_many_it_has_lost() {
        let mut past = Past::default();
        past.add(0, (0..10).map(event));
        let mut early = reader(Source::Past(past.end()));
        past.add(0, (10..13).map(event));
        early.follow(&past);
        assert_eq!((seen(&mut early), early.lost), (vec![10, 11, 12], 0));
        early.follow(&past);
        assert!(seen(&mut early).is_empty());
        // The forwarding thread has overwritten two events: the stored events are older, and not contiguous with the
        // new ones.
        past.add(2, (15..17).map(event));
        early.follow(&past);
        assert_eq!((seen(&mut early), early.lost), (vec![15, 16], 2));
        let all = past.last(100, &Want::default());
        assert_eq!(all.len(), 2);
        // More events than the history keeps.
        let many = EVENTS_MAX as u64;
        past.add(0, (17..17 + many).map(event));
        early.lost = 0;
        early.follow(&past);
        assert_eq!((early.waiting.len(), early.lost), (EVENTS_MAX, 0));
        past.add(0, (0..many + 7).map(event));
        early.follow(&past);
        assert_eq!(early.waiting.len(), EVENTS_MAX);
        assert_eq!(
            early.lost,
            7 + many,
            "seven are gone, and as many as wait were not read"
        );
    }

    #[test]
    fn events_after_the_end_of_a_reader_are_not_its_own() {
        let mut past = Past::default();
        let mut reader = reader(Source::Past(0));
        reader.until = Some(weir_base::Instant::ZERO + Span::from_millis(2));
        past.add(0, (0..5).map(event));
        reader.follow(&past);
        assert_eq!(seen(&mut reader), [0, 1, 2]);
    }

    #[test]
    fn readers_are_few_and_leave_their_places() {
        let handle = router();
        let all = Observations::new(handle.clone(), Arc::default());
        let plain = ObserveRequest::default();
        let mut filtered = ObserveRequest::default();
        filtered.filter.host = vec!["192.0.2.7".to_owned()];
        let numbers: Vec<_> = (0..OBSERVERS_MAX)
            .map(|_| all.start(&filtered).unwrap())
            .collect();
        assert_eq!(all.start(&filtered), Err(ObserveRefusal::Busy));
        for _ in OBSERVERS_MAX..READERS_MAX {
            all.start(&plain).unwrap();
        }
        assert_eq!(all.start(&plain), Err(ObserveRefusal::Busy));
        let report = all.fetch(numbers[0]).unwrap();
        assert_eq!(report, ObserveReport::default());
        all.end(numbers[0]);
        assert_eq!(all.fetch(numbers[0]), Err(ObserveRefusal::Gone));
        let again = all.start(&filtered).unwrap();
        assert!(all.fetch(again).is_ok());
        all.end(again);
        let last = ObserveRequest {
            last: Some(5),
            ..plain.clone()
        };
        let last = all.start(&last).unwrap();
        assert!(all.fetch(last).unwrap().done);
        all.end(last);
        let wrong = ObserveRequest {
            port: vec!["wan".to_owned()],
            ..plain
        };
        assert!(matches!(all.start(&wrong), Err(ObserveRefusal::Wrong(_))));
        handle.call(Worker::stop).unwrap();
    }
}
