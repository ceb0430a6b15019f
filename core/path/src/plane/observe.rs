//! Observers: which flows lose packets, where and why, for readers that watch now or ask later.
//!
//! ```text
//!  end of a packet --filter--> [ places: flow, reason, port ] --every 250 ms--> [ events ] --Plane::observed--> reader
//!                                  no place left: counted by reason
//! ```
//!
//! The drops of a flow for one reason at one port are one event, with their number. So a flood becomes a few events a
//! second, and the sum of all events is the number of drops. Drops that find no place, and drops that were counted
//! without a packet, become an event by reason without a flow.
//!
//! The *history* is an observer without a filter that always runs: it costs an addition for each drop, and nothing for
//! a forwarded packet. Other observers belong to readers with a filter. A reader that does not fetch blocks nothing:
//! its oldest events are overwritten, and counted. A reader that has not fetched for [`LEASE`] loses its observer.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::{Instant, Span, Tally};
use weir_packet::{DropCounters, FlowKey, Freed, Pool, Reason, Slot};

use crate::classify::flow_key;
use crate::headers;
use crate::plane::PlanePort;
use crate::plane::filter::Filter;

/// Time over which drops are added up.
pub const INTERVAL: Span = Span::from_millis(250);
/// Maximum flows, each for one reason at one port, that an observer distinguishes within an interval.
pub const PLACES: usize = 64;
/// Maximum events that an observer keeps until they are fetched.
pub const EVENTS_MAX: usize = 4096;
/// Maximum observers in addition to the history.
pub const OBSERVERS_MAX: usize = 8;
/// An observer from which nobody has fetched for this time ends.
pub const LEASE: Span = Span::from_secs(60);
/// The number of the history.
pub const HISTORY: u64 = 0;

/// Places that a flow may take.
const PROBES: usize = 4;
/// The port of frames without a port.
const NO_PORT: u16 = u16::MAX;

/// A request for an observer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Names of ports; empty means all.
    pub ports: Vec<String>,
    /// Flows and reasons.
    pub filter: Filter,
}

/// Drops for one reason within an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// Time of the first drop.
    pub first: Instant,
    /// Time of the last drop.
    pub last: Instant,
    /// Drop reason.
    pub reason: Reason,
    /// Packets and bytes.
    pub count: Tally,
    /// The flow; `None` if these are packets of many flows.
    pub of: Option<OfFlow>,
}

/// The flow whose packets were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfFlow {
    /// Flow key.
    pub key: FlowKey,
    /// The port that held the packets, or through which they arrived; `None` if it was removed.
    pub port: Option<Arc<str>>,
    /// Whether the packets should have left through that port.
    pub outbound: bool,
    /// Length of the first frame in bytes.
    pub frame_bytes: u32,
    /// The longest time that one of the packets had waited.
    pub waited: Span,
}

/// Events, in memory that does not grow.
#[derive(Debug)]
pub struct Events(VecDeque<Drops>);

/// Events of an observer since the last fetch.
#[derive(Debug)]
pub struct Batch {
    /// The observer.
    pub observer: u64,
    /// The events, the oldest first.
    pub events: Events,
    /// Number of older events that were overwritten.
    pub overwritten: u64,
}

/// There are [`OBSERVERS_MAX`] observers already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The observers of a plane.
#[derive(Debug)]
pub(crate) struct Observers {
    all: Vec<Observer>,
    /// When the earliest interval is over.
    due: Instant,
    last: u64,
}

#[derive(Debug)]
struct Observer {
    number: u64,
    want: Want,
    places: Box<[Place]>,
    /// The places in use.
    used: Vec<u16>,
    /// Drops that match the request, since the observer began.
    matched: [Tally; Reason::COUNT],
    /// Matched drops that are in places or events.
    shown: [Tally; Reason::COUNT],
    /// Start of the interval.
    begun: Instant,
    /// When the interval is over.
    due: Instant,
    events: Events,
    overwritten: u64,
    lease: Instant,
}

/// Drops of one flow for one reason at one port; free if their number is zero.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    key: FlowKey,
    first: Instant,
    last: Instant,
    count: Tally,
    waited: Span,
    frame_bytes: u32,
    port: u16,
    reason: Reason,
    outbound: bool,
}

/// Where packets are dropped.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    /// Number and name of the port.
    pub(super) port: Option<(usize, &'a str)>,
    pub(super) outbound: bool,
    pub(super) now: Instant,
}

/// A frame that never became a packet.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) frame: &'a [u8],
    pub(super) len: u32,
    pub(super) reason: Reason,
}

impl Default for Events {
    /// Allocates all the memory that it will ever need.
    fn default() -> Self {
        Self(VecDeque::with_capacity(EVENTS_MAX))
    }
}

impl Events {
    /// Adds an event; returns whether the oldest one was overwritten.
    fn push(&mut self, event: Drops) -> bool {
        let full = self.0.len() >= EVENTS_MAX;
        if full {
            self.0.pop_front();
        }
        self.0.push_back(event);
        full
    }

    /// Takes the events, the oldest first, and keeps the memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Drops> + '_ {
        self.0.drain(..)
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Want {
    fn takes(&self, at: &At<'_>, reason: Reason) -> bool {
        let is_port = |(_, name): (usize, &str)| self.ports.iter().any(|port| port == name);
        (self.ports.is_empty() || at.port.is_some_and(is_port))
            && self.filter.takes_end(Some(reason))
    }

    /// Whether the request covers packets that wait at a port. These are not dropped, so a request with drop reasons
    /// does not cover them.
    pub fn takes_waiting(&self, port: &str, key: &FlowKey) -> bool {
        (self.ports.is_empty() || self.ports.iter().any(|name| name == port))
            && self.filter.takes_end(None)
            && self.filter.takes_flow(key)
    }

    /// Whether the request covers an event of the history. An event without a flow or a port may concern any of them,
    /// so only a request that names neither flows nor ports covers it.
    pub fn takes_event(&self, event: &Drops) -> bool {
        let takes_reason = self.filter.takes_end(Some(event.reason));
        takes_reason
            && match &event.of {
                None => self.ports.is_empty() && !self.filter.reads_flows(),
                Some(of) => {
                    let is_port = |name: &Arc<str>| self.ports.iter().any(|port| **port == **name);
                    (self.ports.is_empty() || of.port.as_ref().is_some_and(is_port))
                        && self.filter.takes_flow(&of.key)
                }
            }
    }
}

impl Default for Observers {
    /// Only the history.
    fn default() -> Self {
        Self {
            all: vec![Observer::new(
                HISTORY,
                Want::default(),
                Events::default(),
                Instant::ZERO,
            )],
            due: Instant::FAR_FUTURE,
            last: HISTORY,
        }
    }
}

impl Observers {
    /// When the earliest interval is over.
    #[inline]
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn begin(
        &mut self,
        want: Want,
        empty: Events,
        now: Instant,
    ) -> Result<u64, TooMany> {
        self.all.retain(|observer| observer.is_alive(now));
        if self.all.len() > OBSERVERS_MAX {
            return Err(TooMany);
        }
        self.last += 1;
        self.all.push(Observer::new(self.last, want, empty, now));
        Ok(self.last)
    }

    pub(super) fn end(&mut self, number: u64) {
        self.all
            .retain(|observer| observer.number != number || number == HISTORY);
    }

    /// Counts dropped packets, before their memory is used again.
    #[inline(never)] // forwarded packets do not get here
    pub(super) fn see(&mut self, at: &At<'_>, fates: &DropCounters, pool: &Pool) {
        for freed in fates.to_be_freed() {
            if !freed.reason.is_loss() {
                continue;
            }
            // Every packet in a queue has its key in the pool. A packet that has just arrived may have no key yet.
            let of_frame;
            let (key, hash) = if at.outbound {
                (pool.keys.key_at(freed.slot), pool.keys.hash_at(freed.slot))
            } else {
                of_frame = key_of(pool.frame_at(freed.slot));
                (&of_frame, pool.keys.hash_key(&of_frame))
            };
            self.count(at, freed, key, hash);
        }
    }

    /// Counts a frame that never became a packet.
    #[cold]
    pub(super) fn see_frame(&mut self, at: &At<'_>, refused: &Refused<'_>, pool: &Pool) {
        let Refused { frame, len, reason } = *refused;
        let key = key_of(frame);
        let freed = Freed {
            slot: Slot::default(),
            reason,
            len,
            since: at.now,
        };
        self.count(at, &freed, &key, pool.keys.hash_key(&key));
    }

    fn count(&mut self, at: &At<'_>, freed: &Freed, key: &FlowKey, hash: u64) {
        for observer in &mut self.all {
            let Want { filter, .. } = &observer.want;
            if observer.want.takes(at, freed.reason) && filter.takes_flow(key) {
                observer.count(at, freed, key, hash);
                self.due = self.due.min(observer.due);
            }
        }
    }

    /// Turns the drops so far into events, at the end of an interval.
    #[cold]
    pub(super) fn flush(&mut self, ports: &[PlanePort], fates: &DropCounters, now: Instant) {
        self.all.retain(|observer| observer.is_alive(now));
        for observer in &mut self.all {
            if observer.due <= now {
                observer.flush(ports, fates, now);
            }
        }
        let due = self.all.iter().map(|observer| observer.due).min();
        self.due = due.unwrap_or(Instant::FAR_FUTURE);
    }

    /// Turns all drops so far into events.
    pub(super) fn flush_all(&mut self, ports: &[PlanePort], fates: &DropCounters, now: Instant) {
        for observer in &mut self.all {
            observer.due = now;
        }
        self.flush(ports, fates, now);
    }

    /// Events of each observer since the last call. The observers continue with the `empties`; if there are fewer of
    /// these, the last observers keep their events.
    pub(super) fn fetch(
        &mut self,
        empties: impl IntoIterator<Item = Events>,
        ports: &[PlanePort],
        fates: &DropCounters,
        now: Instant,
    ) -> Vec<Batch> {
        // Drops that were counted without a packet have begun no interval.
        for observer in &mut self.all {
            let is_over = now.since(observer.begun) >= INTERVAL;
            if observer.due == Instant::FAR_FUTURE && is_over {
                observer.due = now;
            }
        }
        self.flush(ports, fates, now);
        let batches = self.all.iter_mut().zip(empties).map(|(observer, empty)| {
            observer.lease = now + LEASE;
            Batch {
                observer: observer.number,
                events: std::mem::replace(&mut observer.events, empty),
                overwritten: std::mem::take(&mut observer.overwritten),
            }
        });
        batches.collect()
    }
}

impl Observer {
    fn new(number: u64, want: Want, events: Events, now: Instant) -> Self {
        let free = Place {
            hash: 0,
            key: FlowKey::default(),
            first: Instant::ZERO,
            last: Instant::ZERO,
            count: Tally::ZERO,
            waited: Span::ZERO,
            frame_bytes: 0,
            port: NO_PORT,
            reason: Reason::Shutdown,
            outbound: false,
        };
        Self {
            number,
            want,
            places: vec![free; PLACES].into_boxed_slice(),
            used: Vec::with_capacity(PLACES),
            matched: [Tally::ZERO; Reason::COUNT],
            shown: [Tally::ZERO; Reason::COUNT],
            begun: now,
            due: Instant::FAR_FUTURE,
            events,
            overwritten: 0,
            lease: now + LEASE,
        }
    }

    fn is_alive(&self, now: Instant) -> bool {
        self.number == HISTORY || now < self.lease
    }

    /// Adds a drop to those of its flow, if there is a place for the flow.
    #[inline]
    fn count(&mut self, at: &At<'_>, freed: &Freed, key: &FlowKey, hash: u64) {
        let bytes = u64::from(freed.len);
        let reason = freed.reason as usize;
        self.matched[reason].count(bytes);
        if self.due == Instant::FAR_FUTURE {
            (self.begun, self.due) = (at.now, at.now + INTERVAL);
        }
        let port = at.port.map_or(NO_PORT, |(number, _)| number as u16);
        let waited = at.now.since(freed.since);
        for probe in 0..PROBES {
            let number = (hash as usize).wrapping_add(reason + probe) % PLACES;
            let place = &mut self.places[number];
            if place.count.packets == 0 {
                *place = Place {
                    hash,
                    key: *key,
                    first: at.now,
                    last: at.now,
                    count: Tally::one(bytes),
                    waited,
                    frame_bytes: freed.len,
                    port,
                    reason: freed.reason,
                    outbound: at.outbound,
                };
                self.used.push(number as u16);
                self.shown[reason].count(bytes);
                return;
            }
            if (place.hash, place.port, place.reason) == (hash, port, freed.reason) {
                place.count.count(bytes);
                place.last = at.now;
                place.waited = place.waited.max(waited);
                self.shown[reason].count(bytes);
                return;
            }
        }
    }

    fn flush(&mut self, ports: &[PlanePort], fates: &DropCounters, now: Instant) {
        let mut used = std::mem::take(&mut self.used);
        used.sort_unstable_by_key(|number| self.places[usize::from(*number)].first);
        for number in used.drain(..) {
            let place = &mut self.places[usize::from(number)];
            let event = Drops {
                first: place.first,
                last: place.last,
                reason: place.reason,
                count: std::mem::replace(&mut place.count, Tally::ZERO),
                of: Some(OfFlow {
                    key: place.key,
                    port: ports
                        .get(usize::from(place.port))
                        .map(|port| Arc::clone(&port.label)),
                    outbound: place.outbound,
                    frame_bytes: place.frame_bytes,
                    waited: place.waited,
                }),
            };
            self.overwritten += u64::from(self.events.push(event));
        }
        self.used = used;
        self.show_others(fates, now);
        (self.begun, self.due) = (now, Instant::FAR_FUTURE);
    }

    /// Turns the drops that found no place into events; for the history, also the drops that were only counted.
    fn show_others(&mut self, fates: &DropCounters, now: Instant) {
        for reason in Reason::ALL.into_iter().filter(|reason| reason.is_loss()) {
            let all = match self.number {
                HISTORY => fates.ended(reason),
                _ => self.matched[reason as usize],
            };
            let shown = std::mem::replace(&mut self.shown[reason as usize], all);
            if all.packets > shown.packets {
                let event = Drops {
                    first: self.begun,
                    last: now,
                    reason,
                    count: all - shown,
                    of: None,
                };
                self.overwritten += u64::from(self.events.push(event));
            }
        }
    }
}

/// The key of a frame as it arrived.
fn key_of(frame: &[u8]) -> FlowKey {
    flow_key(frame, &headers::peek(frame))
}
