//! One queue: its packets, its place in the order of turns, its hosts, its control law.

use weir_base::{Instant, Span};

use super::hosts::{NONE, ONE};
use crate::aqm::codel;
use crate::parts::chain::Chain;

/// The longest target of a queue that ran empty after a drop.
const TARGET_MAX: Span = Span::from_millis(40);
/// A queue that runs empty within this time after a drop had a target that was too short.
const SOON: Span = Span::from_secs(1);

/// A queue that has been too long at each of its turns for this time belongs to a sender that does not respond to
/// drops.
const STUBBORN: Span = Span::from_secs(1);

/// Bytes over which a shared queue takes the mean of its destinations' loads.
const LOAD_MEMORY: u64 = 32_768;

/// Packets of a flow after which it is familiar.
pub(super) const FAMILIAR_PACKETS: u8 = 2;

/// Where a queue waits for a turn: in a list of light queues, in order of precedence, or among the heavy queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Waits {
    /// Familiar flows of trusted sources, at most half a frame ahead.
    Short,
    /// Unfamiliar flows of trusted sources.
    New,
    /// Other familiar flows of trusted sources.
    Long,
    /// Flows of strangers after their first turn.
    Strange,
    /// Flows of strangers before their first turn.
    Unknown,
    /// Among the heavy queues of trusted sources.
    Heavy,
    /// Among the heavy queues of strangers.
    Crowd,
    /// The queue does not wait.
    Not,
}

impl Waits {
    /// Where a heavy queue waits.
    #[inline]
    pub(super) fn heavy(is_trusted: bool) -> Self {
        if is_trusted { Self::Heavy } else { Self::Crowd }
    }

    /// Whether the queue is heavy.
    #[inline]
    pub(super) fn is_heavy(self) -> bool {
        matches!(self, Self::Heavy | Self::Crowd)
    }
}

/// One queue: the fields that every packet needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) packets: Chain,
    /// The virtual time up to which its flow has used its share; if the queue is heavy, the start tag of its next
    /// packet.
    pub(super) tag: u64,
    /// The queue's hosts, by their places: source, destination.
    pub(super) hosts: [u16; 2],
    /// The queue's part of the load of its destination, in 256ths.
    pub(super) share: u16,
    /// For a source's shared queue: the load of its packets' destinations, as a mean by bytes, in 256ths.
    pub(super) load: u16,
    /// Whether the source was trusted and responded to drops when `share` was computed.
    pub(super) is_trusted: bool,
    /// Whether the sender does not respond to drops.
    pub(super) is_stubborn: bool,
    /// Where it waits for a turn.
    pub(super) waits: Waits,
    /// The next queue in its list.
    pub(super) behind: u16,
    /// Packets of the flow that were served, up to [`FAMILIAR_PACKETS`].
    pub(super) seen: u8,
    /// The values of `owed` of source and destination up to which the queue has paid.
    pub(super) paid: [u32; 2],
    /// Whether a packet waited for longer than the minimum target, so that its [`Law`] has a state.
    pub(super) was_late: bool,
}

impl Queue {
    /// Includes a packet of `bytes` bytes to a destination with this load in the mean load.
    pub(super) fn mix(&mut self, load: u64, bytes: u64) {
        let (before, load) = (i64::from(self.load), load.min(u64::from(u16::MAX)) as i64);
        let weight = bytes.min(LOAD_MEMORY) as i64;
        let after = before + (load - before) * weight / LOAD_MEMORY as i64;
        self.load = after as u16; // a mean of two values that fit
    }

    /// An empty queue without hosts.
    pub(super) const NOBODYS: Self = Self::new([NONE; 2]);

    /// An empty queue.
    pub(super) const fn new(hosts: [u16; 2]) -> Self {
        Self {
            packets: Chain::EMPTY,
            tag: 0,
            hosts,
            share: 0,
            load: ONE as u16,
            is_trusted: true,
            is_stubborn: false,
            waits: Waits::Not,
            behind: 0,
            seen: 0,
            paid: [0; 2],
            was_late: false,
        }
    }
}

/// The control law of a queue, stored apart from the queue, because few packets need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    pub(super) codel: codel::State,
    /// The queue's own target.
    pub(super) target: Span,
    /// The latest drop, if the queue has not run empty since; otherwise [`Instant::ZERO`].
    dropped: Instant,
    /// Since when the queue has been too long at each of its turns.
    too_long: Option<Instant>,
}

impl Law {
    /// The law of a queue in which no packet has waited for longer than the minimum target.
    pub(super) const fn new(least: Span) -> Self {
        Self {
            codel: codel::State::FRESH,
            target: least,
            dropped: Instant::ZERO,
            too_long: None,
        }
    }

    /// Records at a turn whether the queue is too long; returns whether this has lasted for `STUBBORN`, so that the
    /// sender does not respond to drops.
    pub(super) fn is_stubborn(&mut self, is_too_long: bool, now: Instant) -> bool {
        if !is_too_long {
            self.too_long = None;
            return false;
        }
        now.since(*self.too_long.get_or_insert(now)) >= STUBBORN
    }

    /// Records that the packet at the head was not late.
    pub(super) fn calm(&mut self) {
        self.codel.calm();
        self.too_long = None;
    }

    /// Records that the control law dropped or marked packets. If the queue did not run empty after the previous
    /// drop, its target falls a little, because a shorter one is long enough.
    pub(super) fn dropped(&mut self, now: Instant, least: Span) {
        if self.dropped != Instant::ZERO {
            let [target, least] = [self.target, least].map(Span::as_nanos);
            self.target = Span::from_nanos(target - target.saturating_sub(least) / 16);
        }
        self.dropped = now;
    }

    /// Records that the queue ran empty. If that was soon after a drop, one sender with a long round trip has the
    /// link to itself, and drops made it pause: the target doubles, up to `TARGET_MAX`.
    #[inline]
    pub(super) fn ran_empty(&mut self, now: Instant) {
        let since = std::mem::replace(&mut self.dropped, Instant::ZERO);
        if since != Instant::ZERO && now.since(since) < SOON {
            self.target = self.target.times(2).min(TARGET_MAX.max(self.target));
        }
    }
}
