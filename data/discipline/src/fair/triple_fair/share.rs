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
//! send pays as if these were one. A host of which only single packets wait now and then would escape that, because
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
const CROWD: u32 = 4;
/// Flows in a bin that count at most.
const BIN_FLOWS_MAX: u32 = 32;
/// When the virtual times begin anew near zero.
pub(super) const REBASE: u64 = TAG_MAX / 4;
/// How much of the past they keep then.
const KEPT: u64 = REBASE / 4;

/// Reciprocals of small numbers, scaled: a division for every packet would cost more than all else here.
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

/// `value / n`, for `n` up to the number of queues.
#[inline]
fn divided(value: u64, n: u32) -> u64 {
    (value * u64::from(RECIPROCALS[(n as usize).min(QUEUES)])) >> SCALE
}

/// The part of `span` that each of `queues` has.
#[inline]
pub(super) fn part(span: Span, queues: u32) -> Span {
    Span::from_nanos(divided(span.as_nanos(), queues))
}

/// What a packet of a queue costs now.
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
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            hosts.enter(host);
        }
        let price = reckon(queue, &mut self.ends);
        let boosted = self.now.saturating_sub(BOOST * ONE);
        let ahead = ahead(queue, &self.ends, &price, self.bytes_max);
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
        if let Some(destination) = self.ends[1].get_mut(queue.hosts[1]) {
            let [trusted, strangers] = parts(queue.share, queue.is_trusted);
            destination.trusted -= trusted;
            destination.strangers -= strangers;
        }
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
        let price = reckon(queue, &mut self.ends);
        let Price { flows, load, .. } = price;
        let cost = bytes * load;
        let debt = DEBT_MAX * self.bytes_max;
        let [source, destination] = queue.hosts;
        let in_queue = match at {
            0..FLOWS => 1,
            FIRST_BIN.. => self.sketches[at - FLOWS].flows().min(BIN_FLOWS_MAX),
            _ => self.sketches[at - FLOWS].flows(),
        };
        let [sources, destinations] = &mut self.ends;
        let (before, active) = (sources.now, sources.active());
        if let Some(host) = sources.get_mut(source) {
            let now = before + divided(cost, active);
            host.tag = (host.tag.max(before) + cost).min(now + debt * load);
            if Self::is_shared(at) {
                host.crowd = in_queue as u16;
            }
            sources.now = now;
            sources.saw(source);
        }
        let (before, active) = (destinations.now, destinations.active());
        if let Some(host) = destinations.get_mut(destination) {
            host.tag = (host.tag.max(before) + bytes * ONE).min(before + debt * ONE);
            destinations.now = before + divided(bytes * ONE, active);
        }
        let cost = cost * u64::from(flows);
        queue.tag = tag
            + if at < FLOWS {
                cost
            } else {
                divided(cost, in_queue)
            };
        self.finish = self.finish.max(queue.tag);
        let queue = &mut self.queues[at];
        if leaves {
            self.turns.pop(turn);
            self.leave(at);
            return;
        }
        let ahead = ahead(queue, &self.ends, &price, self.bytes_max);
        let earliest = if ahead == 0 { 0 } else { self.now + ahead };
        queue.tag = queue.tag.max(earliest);
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
fn reckon(queue: &mut Queue, [sources, destinations]: &mut [Hosts; 2]) -> Price {
    let [source, destination] = queue.hosts;
    let source = sources.get(source);
    let flows = source.map_or(1, |host| host.flows());
    let is_trusted = source.is_some_and(Host::is_trusted);
    let Some(destination) = destinations.get_mut(destination) else {
        return Price {
            flows,
            load: ONE,
            is_delayed: false,
        };
    };
    let share = divided(ONE, flows).max(1) as u16;
    if (share, is_trusted) == (queue.share, queue.is_trusted) {
        let (trusted, strangers) = (destination.trusted, destination.strangers);
        return Price {
            flows,
            load: hosts::price(trusted, strangers, is_trusted),
            is_delayed: !is_trusted || trusted >= CROWD * ONE as u32,
        };
    }
    // In registers: what was just written in halves is slow to read as one.
    let [before, after] = [
        parts(queue.share, queue.is_trusted),
        parts(share, is_trusted),
    ];
    let trusted = destination.trusted - before[0] + after[0];
    let strangers = destination.strangers - before[1] + after[1];
    (destination.trusted, destination.strangers) = (trusted, strangers);
    (queue.share, queue.is_trusted) = (share, is_trusted);
    Price {
        flows,
        load: hosts::price(trusted, strangers, is_trusted),
        is_delayed: !is_trusted || trusted >= CROWD * ONE as u32,
    }
}

/// A share as parts of trusted sources and of strangers.
#[inline]
fn parts(share: u16, is_trusted: bool) -> [u32; 2] {
    let (share, trusted) = (u32::from(share), u32::from(is_trusted));
    [share * trusted, share * (1 - trusted)]
}

/// How far the hosts of a queue are ahead of their share, beyond an allowance: so much later it begins. A source that
/// has lasted is not delayed by its destination, unless many send there.
#[inline]
fn ahead(
    queue: &Queue,
    [sources, destinations]: &[Hosts; 2],
    price: &Price,
    bytes_max: u64,
) -> u64 {
    let frames = ALLOWANCE * bytes_max;
    let source = sources.get(queue.hosts[0]);
    let ahead = source.map_or(0, |host| {
        host.tag.saturating_sub(sources.now + frames * price.load)
    });
    match destinations.get(queue.hosts[1]) {
        Some(host) if price.is_delayed => {
            ahead.max(host.tag.saturating_sub(destinations.now + frames * ONE))
        }
        _ => ahead,
    }
}
