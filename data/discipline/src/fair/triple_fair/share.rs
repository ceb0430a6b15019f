//! Tags: what a turn costs, and when a queue may have one.
//!
//! ```text
//!   turn of a queue     tag  += bytes x (flows of its source) x (load of its destination) / (flows in the queue)
//!   turn of a source    tag  += bytes x load of the destination       VS += the same / active sources
//!   turn of a receiver  tag  += bytes                                 VD += the same / active destinations
//!
//!   load of a destination = sum over its queues of 1 / (flows of the queue's source)
//! ```
//!
//! So a source with many flows pays for each as many times as it has flows, and a destination to which many sources
//! send pays as if these were one. A sender that does not respond to drops pays no less than these do, wherever it
//! sends. A host of which only single packets wait now and then would escape that, because
//! it has no queue when it is charged; therefore hosts have tags of their own: whoever is ahead of its end's virtual
//! time by more than an allowance begins as much later.

use weir_base::Span;

use super::TripleFair;
use super::hosts::{self, Host, Hosts, ONE};
use super::queue::{FIRST_BIN, FLOWS, QUEUES, Queue};
use super::turns::{TAG_MAX, Turn};

/// Full frames that a host may be ahead of its share.
const ALLOWANCE: u64 = 8;
/// Full frames that a host's tag is ahead of the virtual time at most: so long it pays for the past.
const DEBT_MAX: u64 = 512;
/// Bytes that a queue that was empty may send before it waits like others.
const BOOST: u64 = 15_000;
/// Sources at a destination, from which on it delays trusted ones too.
const CROWD: u32 = 8;
/// Flows in a bin that count at most.
const BIN_FLOWS_MAX: u32 = 32;
/// When the virtual times begin anew near zero.
pub(super) const REBASE: u64 = TAG_MAX / 4;
/// How much of the past they keep then.
const KEPT: u64 = REBASE / 4;

/// Reciprocals of small numbers, scaled: a division for every packet would cost more than all else here. That of zero is
/// the same as that of one.
const SCALE: u32 = 20;
const RECIPROCALS: [u32; QUEUES + 1] = {
    let mut table = [1 << SCALE; QUEUES + 1];
    let mut n = 1;
    while n <= QUEUES {
        table[n] = (1 << SCALE) / n as u32;
        n += 1;
    }
    table
};
/// The share of the link that a queue asks of its destination, by the flows of its source.
const SHARES: [u16; QUEUES + 1] = {
    let mut table = [ONE as u16; QUEUES + 1];
    let mut n = 1;
    while n <= QUEUES {
        table[n] = if n < ONE as usize {
            ONE as u16 / n as u16
        } else {
            1
        };
        n += 1;
    }
    table
};

/// `value / n`, for `n` up to the number of queues; `value` if `n` is zero.
#[inline]
fn divided(value: u64, n: u32) -> u64 {
    (value * u64::from(RECIPROCALS[(n as usize).min(QUEUES)])) >> SCALE
}

/// The part of `span` that each of `queues` has.
#[inline]
pub(super) fn part(span: Span, queues: u32) -> Span {
    Span::from_nanos(divided(span.as_nanos(), queues))
}

/// The cost of a packet of a queue now.
struct Price {
    /// The flows of its source.
    flows: u32,
    /// The load of its destination, in 256ths.
    load: u64,
    /// Whether its destination may delay it.
    is_delayed: bool,
}

impl TripleFair {
    /// A queue begins to wait for a turn.
    #[inline]
    pub(super) fn enter(&mut self, at: usize) {
        self.busy += 1;
        if at < FLOWS {
            self.busy_flows += 1;
            self.flows.wakes(at);
        }
        let queue = &mut self.queues[at];
        queue.waits = true;
        let [sources, destinations] = &mut self.ends;
        let nows = [sources.now, destinations.now];
        let source = sources.enter(queue.hosts[0]);
        destinations.enter(queue.hosts[1]);
        let price = reckon(queue, source.as_deref(), destinations);
        let tags = [
            source.map(|host| host.tag),
            destinations.get(queue.hosts[1]).map(|host| host.tag),
        ];
        let boosted = self.now.saturating_sub(BOOST * ONE);
        let ahead = ahead(tags, nows, &price, ALLOWANCE * self.bytes_max);
        let earliest = if ahead == 0 { 0 } else { self.now + ahead };
        queue.tag = queue.tag.max(boosted).max(earliest);
        if queue.tag == boosted {
            self.turns.push_new(boosted, at);
        } else {
            self.turns.push(queue.tag, at);
        }
    }

    /// A queue no longer waits.
    #[inline]
    pub(super) fn leave(&mut self, at: usize) {
        self.busy -= 1;
        if at < FLOWS {
            self.busy_flows -= 1;
            self.flows.rests(at);
        }
        let queue = &mut self.queues[at];
        queue.waits = false;
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            hosts.leave(host);
        }
        let parts = parts(queue.share, queue.is_trusted);
        self.ends[1].load(queue.hosts[1], parts, [0; 2]);
        queue.share = 0;
        if Self::is_shared(at) {
            self.give_back(at);
        }
    }

    /// A queue had its turn, and sends this many bytes: it waits for another one, or leaves.
    #[inline]
    pub(super) fn serve(&mut self, turn: Turn, bytes: u64, leaves: bool) {
        let (at, tag) = (turn.queue, turn.tag);
        self.now = self.now.max(tag);
        let queue = &mut self.queues[at];
        let [sources, destinations] = &mut self.ends;
        let mut nows = [sources.now, destinations.now];
        let source = sources.get(queue.hosts[0]);
        let price = reckon(queue, source, destinations);
        let actives = [sources.active, destinations.active];
        let bytes = if queue.is_stubborn {
            bytes * destinations.trusted_mean().max(price.load) / price.load
        } else {
            bytes
        };
        let source = sources.get_mut(queue.hosts[0]);
        let destination = destinations.get_mut(queue.hosts[1]);
        let (load, cost) = (price.load, bytes * price.load);
        let debt = DEBT_MAX * self.bytes_max;
        let in_queue = match at {
            0..FLOWS => 1,
            FIRST_BIN.. => self.sketches[at - FLOWS].flows().min(BIN_FLOWS_MAX),
            _ => self.sketches[at - FLOWS].flows(),
        };
        let mut tags = [None; 2];
        if let Some(host) = source {
            let before = nows[0];
            nows[0] = before + divided(cost, actives[0]);
            host.tag = (host.tag.max(before) + cost).min(nows[0] + debt * load);
            tags[0] = Some(host.tag);
            if Self::is_shared(at) {
                host.crowd = in_queue as u16;
            }
            let is_trusted_now = host.saw();
            sources.now = nows[0];
            if is_trusted_now {
                sources.trust(queue.hosts[0]);
            }
        }
        if let Some(host) = destination {
            let before = nows[1];
            nows[1] = before + divided(bytes * ONE, actives[1]);
            host.tag = (host.tag.max(before) + bytes * ONE).min(before + debt * ONE);
            tags[1] = Some(host.tag);
            destinations.now = nows[1];
        }
        let cost = cost * u64::from(price.flows);
        let cost = if at < FLOWS {
            cost
        } else {
            divided(cost, in_queue)
        };
        queue.tag = tag + cost;
        self.finish = self.finish.max(queue.tag);
        if leaves {
            self.turns.pop(turn);
            self.leave(at);
            return;
        }
        let ahead = ahead(tags, nows, &price, ALLOWANCE * self.bytes_max);
        if ahead > 0 {
            queue.tag = queue.tag.max(self.now + ahead);
        }
        self.turns.again(turn, queue.tag);
    }

    /// The virtual times begin anew near zero, if they have become great; a walk over all queues and hosts, once in many
    /// millions of packets.
    #[inline]
    pub(super) fn renew(&mut self) {
        if self.now > REBASE {
            self.rebase();
        }
    }

    /// Called when nothing is queued: service beyond the queues' shares is forgotten.
    pub(super) fn settle(&mut self) {
        while let Some(turn) = self.turns.first() {
            self.turns.pop(turn);
            self.leave(turn.queue);
        }
        self.now = self.finish.max(self.now);
    }

    fn rebase(&mut self) {
        let from = self.now - KEPT;
        self.now -= from;
        self.finish -= from;
        for queue in &mut self.queues[..] {
            queue.tag = queue.tag.saturating_sub(from);
        }
        self.turns.rebase(from);
        for hosts in &mut self.ends {
            let from = hosts.now.saturating_sub(KEPT);
            hosts.rebase(from);
        }
    }
}

/// Renews a queue's part of its destination's load.
#[inline]
fn reckon(queue: &mut Queue, source: Option<&Host>, destinations: &mut Hosts) -> Price {
    let flows = source.map_or(1, Host::flows);
    let has_lasted = source.is_some_and(Host::is_trusted);
    let is_trusted = has_lasted && !queue.is_stubborn;
    let at = queue.hosts[1];
    let share = SHARES[(flows as usize).min(QUEUES)];
    if (share, is_trusted) != (queue.share, queue.is_trusted) {
        let [from, to] = [
            parts(queue.share, queue.is_trusted),
            parts(share, is_trusted),
        ];
        destinations.load(at, from, to);
        (queue.share, queue.is_trusted) = (share, is_trusted);
    }
    let Some(destination) = destinations.get(at) else {
        return Price {
            flows,
            load: u64::from(queue.load),
            is_delayed: false,
        };
    };
    let (trusted, strangers) = (destination.trusted, destination.strangers);
    Price {
        flows,
        load: hosts::price(trusted, strangers, is_trusted),
        is_delayed: !has_lasted || trusted >= CROWD * ONE as u32,
    }
}

/// A share as parts of trusted sources and of strangers.
#[inline]
fn parts(share: u16, is_trusted: bool) -> [u32; 2] {
    let (share, trusted) = (u32::from(share), u32::from(is_trusted));
    [share * trusted, share * (1 - trusted)]
}

/// How far the hosts of a queue, by their tags, are ahead of their share, beyond an allowance of bytes: so much later it
/// begins. A source that has lasted is not delayed by its destination, unless many send there.
#[inline]
fn ahead(tags: [Option<u64>; 2], nows: [u64; 2], price: &Price, allowance: u64) -> u64 {
    let [source, destination] = tags;
    let ahead = source.map_or(0, |tag| {
        tag.saturating_sub(nows[0] + allowance * price.load)
    });
    match destination {
        Some(tag) if price.is_delayed => ahead.max(tag.saturating_sub(nows[1] + allowance * ONE)),
        _ => ahead,
    }
}
