//! One queue: its packets, its place in the order of turns, its hosts, its control law.

use weir_base::{Instant, Span};

use super::hosts::NONE;
use crate::aqm::codel;
use crate::parts::chain::Chain;

/// Queues of single flows.
pub(super) const FLOWS: usize = 256;
/// Queues that all other flows of one host share.
pub(super) const SHARED: usize = 32;
/// Queues for what finds no other one, by source.
pub(super) const BINS: usize = 8;
/// The first queue of a host.
pub(super) const FIRST_SHARED: usize = FLOWS;
/// The first bin.
pub(super) const FIRST_BIN: usize = FLOWS + SHARED;
/// All queues.
pub(super) const QUEUES: usize = FLOWS + SHARED + BINS;

/// The longest target of a queue that ran empty after a drop.
const TARGET_MAX: Span = Span::from_millis(40);
/// A queue that runs empty within this time after a drop had a target that was too short.
const SOON: Span = Span::from_secs(1);

/// One queue: what every packet needs is in one cache line, the control law in the next.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Queue {
    pub(super) packets: Chain,
    /// When its next packet starts, in virtual time.
    pub(super) tag: u64,
    /// The flow, of a queue of a single one.
    pub(super) hash: u64,
    /// Its hosts, by their places: source, destination.
    pub(super) hosts: [u16; 2],
    /// Its part of its destination's load.
    pub(super) share: u16,
    /// Whether its source was trusted when this part was reckoned.
    pub(super) is_trusted: bool,
    /// Whether it waits for a turn.
    pub(super) waits: bool,
    pub(super) codel: codel::State,
    /// Its own target.
    pub(super) target: Span,
    /// The latest drop, if the queue has not run empty since.
    dropped: Option<Instant>,
}

impl Queue {
    /// An empty queue.
    pub(super) const fn new(hash: u64, hosts: [u16; 2], target: Span) -> Self {
        Self {
            packets: Chain::EMPTY,
            tag: 0,
            hash,
            hosts,
            share: 0,
            is_trusted: true,
            waits: false,
            codel: codel::State::FRESH,
            target,
            dropped: None,
        }
    }

    /// An empty queue of nobody.
    pub(super) const fn nobodys(target: Span) -> Self {
        Self::new(0, [NONE; 2], target)
    }

    /// The control law dropped or marked packets. If the queue did not run empty after the drop before, a little less
    /// than its target is long enough.
    pub(super) fn dropped(&mut self, now: Instant, least: Span) {
        if self.dropped.is_some() {
            let [target, least] = [self.target, least].map(Span::as_nanos);
            self.target = Span::from_nanos(target - target.saturating_sub(least) / 16);
        }
        self.dropped = Some(now);
    }

    /// It ran empty. If that was soon after a drop, one sender with a long round trip has the link for itself, and
    /// drops made it pause: the target doubles.
    #[inline]
    pub(super) fn ran_empty(&mut self, now: Instant) {
        if let Some(since) = self.dropped.take()
            && now.since(since) < SOON
        {
            self.target = self.target.times(2).min(TARGET_MAX.max(self.target));
        }
    }
}
