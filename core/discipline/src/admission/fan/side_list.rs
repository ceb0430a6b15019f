//! Flows that a mechanism took off the protected flow list and remembers: the blocked flow list of RBAEF,
//! the priority access flow list (PAFL) of RPAEF, EFMP and RAMAF.
//!
//! The list is bounded. When it is full, the flow that was set aside first is forgotten.

use weir_base::{Instant, Span};

use super::flow_list::{Flow, Listed};
use crate::parts::lru::Lru;

/// Maximum flows forgotten at one packet: more than the one flow that a packet may add.
const EXPIRED_MAX: usize = 4;

/// A flow that was set aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aside {
    /// The time at which it was set aside.
    pub(super) at: Instant,
    /// The flow's state on the protected flow list.
    pub(super) listed: Listed,
}

/// The list, in the order in which flows were set aside.
#[derive(Debug)]
pub(super) struct SideList {
    flows: Lru<Aside, 1>,
    /// How long a flow stays; `None` if it stays until the mechanism takes it.
    time: Option<Span>,
    /// Maximum number of flows so far.
    most: u64,
}

impl SideList {
    /// Room for `capacity` flows, each of which stays for `time`.
    pub(super) fn new(capacity: usize, time: Option<Span>) -> Self {
        Self {
            flows: Lru::new(capacity),
            time,
            most: 0,
        }
    }

    /// A list of the same flows with other bounds. A smaller list keeps the latest flows.
    pub(super) fn resized(&self, capacity: usize, time: Option<Span>) -> Self {
        let mut new = Self::new(capacity, time);
        new.most = self.most;
        let skipped = self.flows.len().saturating_sub(capacity);
        for entry in self.flows.upwards(0).skip(skipped) {
            new.add(self.flows.hash(entry), *self.flows.get(entry));
        }
        new
    }

    /// Sets a flow aside.
    pub(super) fn add(&mut self, hash: u64, aside: Aside) {
        self.forget(hash);
        let aside = match self.flows.insert(hash, aside, 0) {
            Ok(_) => {
                self.most = self.most.max(self.flows.len() as u64);
                return;
            }
            Err(aside) => aside,
        };
        if let Some(first) = self.flows.bottom(0) {
            self.flows.replace(first, hash, aside, 0);
        }
    }

    /// Whether a flow is on the list.
    pub(super) fn has(&self, hash: u64, now: Instant) -> bool {
        let found = self.flows.find(hash);
        found.is_some_and(|entry| !self.is_over(entry, now))
    }

    /// Whether no flow is on the list; it is enough to check the latest one, which stays longest.
    pub(super) fn is_empty(&self, now: Instant) -> bool {
        let latest = self.flows.top(0);
        latest.is_none_or(|entry| self.is_over(entry, now))
    }

    /// Takes a flow off the list.
    pub(super) fn take(&mut self, hash: u64) -> Option<Flow> {
        let entry = self.flows.find(hash)?;
        self.flows.remove(entry);
        Some(self.flows.get(entry).listed.flow)
    }

    /// Takes the flow that was set aside first.
    pub(super) fn take_first(&mut self) -> Option<(u64, Listed)> {
        let entry = self.flows.bottom(0)?;
        self.flows.remove(entry);
        Some((self.flows.hash(entry), self.flows.get(entry).listed))
    }

    /// Forgets a flow.
    pub(super) fn forget(&mut self, hash: u64) {
        if let Some(entry) = self.flows.find(hash) {
            self.flows.remove(entry);
        }
    }

    /// How many flows are on the list.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The maximum number of flows so far.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// The flows, in the order in which they were set aside.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Aside> {
        self.flows.upwards(0).map(|entry| self.flows.get(entry))
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.flows.state_bytes()
    }

    /// Forgets a few of the flows whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        for _ in 0..EXPIRED_MAX {
            match self.flows.bottom(0) {
                Some(entry) if self.is_over(entry, now) => self.flows.remove(entry),
                _ => return,
            }
        }
    }

    fn is_over(&self, entry: usize, now: Instant) -> bool {
        let passed = now.since(self.flows.get(entry).at);
        self.time.is_some_and(|time| passed >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Tally;
    use weir_packet::FlowKey;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn aside(ms: u64) -> Aside {
        let flow = Flow {
            since: at(0),
            latest: at(0),
            seen: Tally::ZERO,
            elastic: None,
        };
        Aside {
            at: at(ms),
            listed: Listed {
                flow,
                key: FlowKey::default(),
                waited: Span::ZERO,
            },
        }
    }

    #[test]
    fn flows_stay_for_their_time() {
        let mut list = SideList::new(3, Some(Span::from_secs(2)));
        list.add(1, aside(0));
        list.add(2, aside(500));
        assert!(list.has(1, at(1999)) && !list.has(1, at(2000)));
        assert!(!list.is_empty(at(2499)) && list.is_empty(at(2500)));
        list.expire(at(2000));
        assert_eq!((list.len(), list.most()), (1, 2));
        assert!(list.take(2).is_some() && list.take(2).is_none());
    }

    #[test]
    fn a_full_list_forgets_the_first() {
        let mut list = SideList::new(2, None);
        for n in 1..=3 {
            list.add(n, aside(n));
        }
        assert!(!list.has(1, at(9)));
        assert_eq!(list.take_first().map(|(hash, _)| hash), Some(2));
        assert_eq!(list.resized(1, None).len(), 1);
    }
}
