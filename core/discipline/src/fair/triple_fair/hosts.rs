//! The hosts at one end of the flows, and the service that they have received.
//!
//! ```text
//!  hash --> set [ a | b | - | c | - | - | - | d ]   a host to which queues refer stays; of the others a stranger
//!    referred    1   0   0   1   0   0   0   1     makes room first, then a trusted host, if more than half of the
//!    trusted     0   1   0   1   0   0   0   1     set are trusted
//! ```
//!
//! Of 256 sets at each end, one is read for each packet whose flow has no queue.
//!
//! A clock of a host is the virtual time up to which the host has used its share. The clock outlives the host's flows:
//! a host that only sends single packets now and then has no queue with a tag.

use super::layout::FIRST_SHARED;
use super::places::{Places, WAYS};

/// Hosts remembered at each end. With a thousand busy hosts, one in a hundred finds its set full: it counts as an
/// untrusted host with a single flow.
pub(super) const HOSTS: usize = 2048;
/// Sets of hosts.
const SETS: usize = HOSTS / WAYS;
/// No host.
pub(super) const NONE: u16 = u16::MAX;
/// No shared queue.
const NO_QUEUE: u16 = u16::MAX;
/// Packets of a source after which it is trusted.
const TRUSTED: u8 = 16;
/// All strangers at a destination together count as this many sources at most.
const STRANGERS: u64 = 2;
/// The share of the link that a source with one queue requests at its destination: shares are in 256ths.
pub(super) const ONE: u64 = 256;

/// One host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// The virtual times up to which the host has used its share: counting all flows that began, and familiar flows
    /// only.
    pub(super) clocks: [u64; 2],
    /// Of a destination: the virtual time up to which all strangers together have used their share of it.
    pub(super) strangers_clock: u64,
    /// Bytes of light flows for which the heavy flows pay: a sum that only grows. Each heavy flow remembers up to which
    /// value it has paid.
    pub(super) owed: u32,
    /// Heavy queues of the host.
    pub(super) heavy: u16,
    /// Of a destination: the sum of the shares that trusted sources request there, in 256ths.
    pub(super) trusted: u32,
    /// Of a destination: the sum of the shares that strangers request there, in 256ths.
    pub(super) strangers: u32,
    /// Queues of the host that wait for a turn.
    pub(super) busy: u16,
    /// Queues that refer to the host.
    referrers: u16,
    /// The queue that the host's flows share, by its number among the shared queues.
    shared: u16,
    /// Packets served, up to [`TRUSTED`].
    seen: u8,
}

impl Host {
    const NEW: Self = Self {
        clocks: [0; 2],
        strangers_clock: 0,
        owed: 0,
        heavy: 0,
        trusted: 0,
        strangers: 0,
        busy: 0,
        referrers: 0,
        shared: NO_QUEUE,
        seen: 0,
    };

    /// Whether enough packets of the host have been served to trust it: a forged address does not last that long.
    #[inline]
    pub(super) fn is_trusted(&self) -> bool {
        self.seen >= TRUSTED
    }

    /// Counts a served packet; returns whether the host has become trusted with it.
    #[inline]
    pub(super) fn saw(&mut self) -> bool {
        if self.is_trusted() {
            return false;
        }
        self.seen += 1;
        self.is_trusted()
    }

    /// The queue that the host's flows share, if any.
    #[inline]
    pub(super) fn shared(&self) -> Option<usize> {
        (self.shared != NO_QUEUE).then(|| FIRST_SHARED + usize::from(self.shared))
    }

    /// The price of this destination for one source, relative to a destination with a single source, in 256ths: at
    /// least 256. Trusted sources count individually; all strangers together count as [`STRANGERS`] at most. If
    /// `comes`, a source without a heavy queue counts in addition.
    #[inline]
    pub(super) fn price(&self, for_trusted: bool, comes: bool) -> u64 {
        let (trusted, strangers) = (u64::from(self.trusted), u64::from(self.strangers));
        let more = u64::from(comes) * ONE;
        let load = (trusted + strangers.min(STRANGERS * ONE) + more).max(ONE);
        if for_trusted {
            load
        } else {
            load * (strangers / STRANGERS).max(ONE) / ONE
        }
    }

    /// The price of this destination for all strangers together, in 256ths.
    #[inline]
    pub(super) fn strangers_price(&self) -> u64 {
        let strangers = u64::from(self.strangers).clamp(ONE, STRANGERS * ONE);
        (u64::from(self.trusted) + strangers) * ONE / strangers
    }

    /// Advances the host's clock of all flows at this price. Returns how far the clock of this kind of flow was ahead
    /// of its time in `now`, or zero within `credit` bytes.
    #[inline]
    pub(super) fn charge(
        &mut self,
        now: [u64; 2],
        kind: usize,
        bytes: u64,
        price: u64,
        credit: u64,
    ) -> u64 {
        let ahead = beyond(self.clocks[kind], now[kind], credit * price);
        advance(&mut self.clocks[0], now[0], bytes * price);
        ahead
    }

    /// Sets the queue that the host's flows share, if any.
    pub(super) fn share(&mut self, queue: Option<usize>) {
        self.shared = queue.map_or(NO_QUEUE, |at| (at - FIRST_SHARED) as u16);
    }
}

/// Advances a clock.
#[inline]
pub(super) fn advance(clock: &mut u64, now: u64, cost: u64) {
    *clock = (*clock).max(now) + cost;
}

/// How far a clock is ahead of `now`, or zero within `credit`.
#[inline]
pub(super) fn beyond(clock: u64, now: u64, credit: u64) -> u64 {
    match clock.saturating_sub(now) {
        ahead if ahead > credit => ahead,
        _ => 0,
    }
}

/// The hosts of one end.
#[derive(Debug)]
pub(super) struct Hosts {
    index: Places<SETS>,
    sets: Box<[Set; SETS]>,
    hosts: Box<[Host; HOSTS]>,
    /// Hosts with a queue that waits.
    pub(super) active: u32,
    /// The sum over these hosts of the shares of trusted sources, and the same with at most one source at each host, in
    /// 256ths.
    trusted: [u64; 2],
}

/// The hosts of one set.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// The hosts to which queues refer, a bit for each.
    referred: u8,
    /// The trusted hosts.
    trusted: u8,
}

impl Hosts {
    /// No host is known. All memory is allocated now.
    pub(super) fn new() -> Self {
        Self {
            index: Places::new(),
            sets: Box::new([Set::default(); SETS]),
            hosts: Box::new([Host::NEW; HOSTS]),
            active: 0,
            trusted: [0; 2],
        }
    }

    /// The host with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<u16> {
        self.index.find(hash).map(|place| place as u16)
    }

    /// The host at this place.
    #[inline]
    pub(super) fn get(&self, at: u16) -> Option<&Host> {
        self.hosts.get(usize::from(at))
    }

    /// The host at this place, to change.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u16) -> Option<&mut Host> {
        self.hosts.get_mut(usize::from(at))
    }

    /// Whether the host at this place, if any, is trusted.
    #[inline]
    pub(super) fn is_trusted(&self, at: u16) -> bool {
        self.get(at).is_some_and(Host::is_trusted)
    }

    /// Adds the host with this hash, to which one queue refers, in the place of a forgotten host; returns [`NONE`] if
    /// no host of its set may be forgotten.
    pub(super) fn refer_new(&mut self, hash: u64) -> u16 {
        let set = Places::<SETS>::set(hash);
        let ways = &mut self.sets[set];
        let free = !ways.referred;
        let strangers = free & !ways.trusted;
        // A flood of new hosts leaves half of the trusted ones.
        let spared = strangers != 0 || ways.trusted.count_ones() as usize <= WAYS / 2;
        let victims = if spared { strangers } else { free };
        if victims == 0 {
            return NONE;
        }
        let way = victims.trailing_zeros() as usize % WAYS;
        ways.referred |= 1 << way;
        ways.trusted &= !(1 << way);
        let at = set * WAYS + way;
        self.index.put(at, hash);
        self.hosts[at] = Host {
            referrers: 1,
            ..Host::NEW
        };
        at as u16
    }

    /// Counts one more queue that refers to this host.
    #[inline]
    pub(super) fn refer(&mut self, at: u16) {
        let host = &mut self.hosts[usize::from(at)];
        host.referrers += 1;
        self.sets[usize::from(at) / WAYS].referred |= 1 << (usize::from(at) % WAYS);
    }

    /// Counts one queue less that refers to this host.
    #[inline]
    pub(super) fn release(&mut self, at: u16) {
        if let Some(host) = self.hosts.get_mut(usize::from(at)) {
            host.referrers -= 1;
            let last = u8::from(host.referrers == 0) << (usize::from(at) % WAYS);
            self.sets[usize::from(at) / WAYS].referred &= !last;
        }
    }

    /// Counts a queue of this host that begins to wait for a turn.
    #[inline]
    pub(super) fn enter(&mut self, at: u16) -> Option<&mut Host> {
        let host = self.hosts.get_mut(usize::from(at))?;
        self.active += u32::from(host.busy == 0);
        host.busy += 1;
        Some(host)
    }

    /// Uncounts a queue of this host that no longer waits.
    #[inline]
    pub(super) fn leave(&mut self, at: u16) {
        if let Some(host) = self.hosts.get_mut(usize::from(at)) {
            host.busy -= 1;
            self.active -= u32::from(host.busy == 0);
        }
    }

    /// Marks a host as trusted, and resets its clock, because as a stranger it paid for all strangers at its
    /// destination.
    pub(super) fn trust(&mut self, at: u16, now: u64) {
        self.hosts[usize::from(at)].clocks[0] = now;
        self.sets[usize::from(at) / WAYS].trusted |= 1 << (usize::from(at) % WAYS);
    }

    /// Changes a queue's part of the load of its destination, from and to these parts of trusted sources and of
    /// strangers.
    #[inline]
    pub(super) fn load(&mut self, at: u16, from: [u32; 2], to: [u32; 2]) {
        let Some(host) = self.hosts.get_mut(usize::from(at)) else {
            return;
        };
        let before = u64::from(host.trusted);
        host.trusted = host.trusted - from[0] + to[0];
        host.strangers = host.strangers - from[1] + to[1];
        let after = u64::from(host.trusted);
        self.trusted[0] = self.trusted[0] + after - before;
        self.trusted[1] = self.trusted[1] + after.min(ONE) - before.min(ONE);
    }

    /// The mean number of trusted sources at the destinations that have some, in 256ths: at least 256.
    #[inline]
    pub(super) fn trusted_mean(&self) -> u64 {
        let [all, once] = self.trusted;
        (all * ONE / once.max(1)).max(ONE)
    }

    /// Hosts with a queue that waits, at least one.
    #[inline]
    pub(super) fn active(&self) -> u32 {
        self.active.max(1)
    }

    /// Hosts with a queue that waits.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.active)
    }

    /// Subtracts `from` from all clocks, down to zero, because the hosts' times restart near zero.
    pub(super) fn rebase(&mut self, from: [u64; 2]) {
        for host in &mut self.hosts[..] {
            for (clock, from) in host.clocks.iter_mut().zip(from) {
                *clock = clock.saturating_sub(from);
            }
            host.strangers_clock = host.strangers_clock.saturating_sub(from[0]);
        }
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.index.state_bytes() + size_of_val(&*self.sets) + size_of_val(&*self.hosts)
    }
}
