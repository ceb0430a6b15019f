//! The protected flow list (PFL): the flows that may pass while the link is congested.
//!
//! ```text
//!  hash ──▶ flow    by recency:          top  latest packet  ..  longest silent  bottom ──▶ timeout
//!                   once elastic:        top  latest         ..  oldest          bottom
//!                   by bytes queued:     levels, the highest first               (if it is needed)
//! ```
//!
//! The list is bounded: when it is full, a new flow replaces the flow that has been silent for longest, if
//! that is long enough. A flow is elastic while more than an MTU of it waits; no field stores that. A flow
//! that was elastic once is a candidate for removal; its bytes queued at that moment decide.

use weir_base::{Instant, Span, Tally};
use weir_packet::FlowKey;

use crate::parts::lists::Lists;
use crate::parts::longest::Longest;
use crate::parts::lru::Lru;

/// A flow that was silent for less than this is never replaced by a new one.
const SILENCE_MIN: Span = Span::from_secs(1);
/// Maximum flows that time out at one packet: more than the one flow that a packet may add.
const EXPIRED_MAX: usize = 4;
/// Queued bytes are compared in steps of `2^ACTIVITY_SHIFT` = 1024.
pub(super) const ACTIVITY_SHIFT: u32 = 10;
/// The only list of each kind.
const ALL: usize = 0;

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// When it was accepted.
    pub(super) since: Instant,
    /// When the latest packet arrived.
    pub(super) latest: Instant,
    /// Packets and bytes since it was accepted.
    pub(super) seen: Tally,
    /// When the flow first became elastic, that is, more than an MTU of it waited; `None` if it never did.
    pub(super) elastic: Option<Instant>,
}

/// A flow with its key and its waiting time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// The fields that a packet changes.
    pub(super) flow: Flow,
    /// Addresses and ports.
    pub(super) key: FlowKey,
    /// Time from its first packet to the one with which it was accepted.
    pub(super) waited: Span,
}

/// The list.
#[derive(Debug)]
pub(super) struct FlowList {
    flows: Lru<Flow, 1>,
    /// The rarely read fields of each entry.
    names: Vec<(FlowKey, Span)>,
    /// Entries that were elastic once, in the order in which they became elastic.
    elastic: Lists,
    elastics: usize,
    /// The entry at which a walk continues.
    cursor: Option<usize>,
    walks_up: bool,
    /// Bytes queued of each entry, as of its latest packet in or out, or of when it was added; `None` if the
    /// mechanism does not need them. The scheduler may have dropped some since, but no flow has more.
    activity: Option<Longest>,
}

impl FlowList {
    /// An empty list with room for `capacity` flows; `ranked` if the mechanism needs the most active flow.
    pub(super) fn new(capacity: usize, ranked: bool) -> Self {
        Self {
            flows: Lru::new(capacity),
            names: Vec::with_capacity(capacity),
            elastic: Lists::new(capacity, 1),
            elastics: 0,
            cursor: None,
            walks_up: true,
            activity: ranked.then(|| Longest::new(capacity, ACTIVITY_SHIFT)),
        }
    }

    /// A list of the same flows with other bounds. A smaller list keeps the most recent flows. `queued` returns the
    /// bytes waiting of a flow.
    pub(super) fn resized(
        &self,
        capacity: usize,
        ranked: bool,
        queued: &dyn Fn(u64) -> u64,
    ) -> Self {
        let mut new = Self::new(capacity, ranked);
        let skipped = self.flows.len().saturating_sub(capacity);
        for entry in self.flows.upwards(ALL).skip(skipped) {
            let listed = self.listed(entry);
            let plain = Flow {
                elastic: None,
                ..listed.flow
            };
            new.insert(
                self.flows.hash(entry),
                Listed {
                    flow: plain,
                    ..listed
                },
                Instant::ZERO,
                queued,
            );
        }
        for entry in self.elastic.upwards(ALL) {
            if let Some(place) = new.find(self.flows.hash(entry))
                && let Some(since) = self.flows.get(entry).elastic
            {
                new.mark_elastic(place, since);
            }
        }
        new
    }

    /// The entry of a flow.
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        self.flows.find(hash)
    }

    /// Loads the memory that a packet of this flow will need.
    pub(super) fn touch(&self, hash: u64) {
        self.flows.touch(hash);
    }

    /// Counts a packet of a flow on the list.
    pub(super) fn count(&mut self, entry: usize, now: Instant, bytes: u64) {
        let flow = self.flows.get_mut(entry);
        flow.latest = now;
        flow.seen.count(bytes);
        self.flows.raise(entry, ALL);
    }

    /// Adds a flow, which must be absent. `queued` returns the bytes waiting of a flow: this one may have been on the
    /// list before. Returns whether it was added, and whether it replaced another one.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        listed: Listed,
        now: Instant,
        queued: &dyn Fn(u64) -> u64,
    ) -> (bool, bool) {
        let replaces = self.flows.is_full();
        if replaces {
            let silent = self.flows.bottom(ALL);
            let silent = silent.filter(|e| now.since(self.flows.get(*e).latest) >= SILENCE_MIN);
            match silent {
                Some(entry) => drop(self.remove(entry)),
                None => return (false, false),
            }
        }
        let Listed { flow, key, waited } = listed;
        let plain = Flow {
            elastic: None,
            ..flow
        };
        let Ok(entry) = self.flows.insert(hash, plain, ALL) else {
            return (false, replaces); // not reached: room was made
        };
        match self.names.get_mut(entry) {
            Some(name) => *name = (key, waited),
            None => self.names.push((key, waited)),
        }
        if flow.elastic.is_some() {
            self.mark_elastic(entry, now);
        }
        if self.is_ranked() {
            self.set_activity(entry, queued(hash));
        }
        (true, replaces)
    }

    /// Notes that more than an MTU of the flow waits.
    pub(super) fn mark_elastic(&mut self, entry: usize, now: Instant) {
        let flow = self.flows.get_mut(entry);
        if flow.elastic.is_none() {
            flow.elastic = Some(now);
            self.elastics += 1;
            self.elastic.put(entry, ALL);
        }
    }

    /// Notes that this many bytes of the flow wait now.
    pub(super) fn set_activity(&mut self, entry: usize, queued: u64) {
        if let Some(activity) = &mut self.activity {
            activity.set(entry, queued);
        }
    }

    /// Whether the list ranks flows by bytes queued.
    pub(super) fn is_ranked(&self) -> bool {
        self.activity.is_some()
    }

    /// The flow with the most bytes waiting.
    pub(super) fn most_active(&self) -> Option<usize> {
        self.activity.as_ref()?.get()
    }

    /// Begins a walk over the flows that were elastic once, from the flow that became elastic first, or
    /// from the latest. There is one walk at a time.
    pub(super) fn begin_walk(&mut self, from_oldest: bool) {
        self.walks_up = from_oldest;
        self.cursor = if from_oldest {
            self.elastic.bottom(ALL)
        } else {
            self.elastic.top(ALL)
        };
    }

    /// The next flow of the walk.
    pub(super) fn walk(&mut self) -> Option<usize> {
        let entry = self.cursor?;
        self.cursor = self.beyond(entry);
        Some(entry)
    }

    fn beyond(&self, entry: usize) -> Option<usize> {
        if self.walks_up {
            self.elastic.above(entry)
        } else {
            self.elastic.below(entry)
        }
    }

    /// State of an entry.
    pub(super) fn get(&self, entry: usize) -> &Flow {
        self.flows.get(entry)
    }

    /// The hash of an entry.
    pub(super) fn hash(&self, entry: usize) -> u64 {
        self.flows.hash(entry)
    }

    /// Takes a flow off the list.
    pub(super) fn remove(&mut self, entry: usize) -> Listed {
        let listed = self.listed(entry);
        if listed.flow.elastic.is_some() {
            if self.cursor == Some(entry) {
                self.cursor = self.beyond(entry);
            }
            self.elastic.take(entry);
            self.elastics -= 1;
        }
        self.set_activity(entry, 0);
        self.flows.remove(entry);
        listed
    }

    fn listed(&self, entry: usize) -> Listed {
        let (key, waited) = self.names[entry];
        Listed {
            flow: *self.flows.get(entry),
            key,
            waited,
        }
    }

    /// Removes a few of the flows that have been silent for `timeout`; returns how many.
    pub(super) fn expire(&mut self, now: Instant, timeout: Span) -> u64 {
        let mut expired = 0;
        for _ in 0..EXPIRED_MAX {
            match self.flows.bottom(ALL) {
                Some(entry) if self.is_over(entry, now, timeout) => drop(self.remove(entry)),
                _ => break,
            }
            expired += 1;
        }
        expired
    }

    /// Whether a flow has been silent for at least the timeout.
    pub(super) fn is_over(&self, entry: usize, now: Instant, timeout: Span) -> bool {
        now.since(self.flows.get(entry).latest) >= timeout
    }

    /// How many flows are on the list.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// How many flows on the list were elastic at some time.
    pub(super) fn elastics(&self) -> usize {
        self.elastics
    }

    /// The flows, the longest silent first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Listed> {
        self.flows.upwards(ALL).map(|entry| self.listed(entry))
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        let activity = self.activity.as_ref().map_or(0, Longest::state_bytes);
        self.flows.state_bytes()
            + self.names.capacity() * size_of::<(FlowKey, Span)>()
            + self.elastic.state_bytes()
            + activity
    }
}
