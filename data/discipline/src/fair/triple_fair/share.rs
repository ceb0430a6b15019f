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
use super::hosts::{self, Host, ONE};
use super::queue::{FIRST_BIN, FLOWS, QUEUES, Queue};
use super::turns::TAG_MAX;

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

impl TripleFair {
    /// A queue begins to wait for a turn.
    pub(super) fn enter(&mut self, at: usize) {
        self.set_waits(at, true);
        let boosted = self.now.saturating_sub(BOOST * ONE);
        let tag = self.queues[at].tag.max(boosted).max(self.earliest(at));
        self.queues[at].tag = tag;
        self.turns.push(tag, at);
    }

    /// A queue no longer waits.
    pub(super) fn leave(&mut self, at: usize) {
        self.set_waits(at, false);
        if Self::is_shared(at) {
            self.give_back(at);
        }
    }

    fn set_waits(&mut self, at: usize, waits: bool) {
        let queue = &mut self.queues[at];
        queue.waits = waits;
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            hosts.set_busy(host, waits);
        }
        self.busy = if waits { self.busy + 1 } else { self.busy - 1 };
        if at < FLOWS {
            if waits {
                self.busy_flows += 1;
                self.idle.take(at);
            } else {
                self.busy_flows -= 1;
                self.idle.put(at, 0);
            }
        }
        self.reckon(at);
    }

    /// Renews a queue's part of its destination's load; returns the flows of its source, and the load.
    #[inline]
    fn reckon(&mut self, at: usize) -> (u32, u64) {
        let queue = &mut self.queues[at];
        let [source, destination] = queue.hosts;
        let source = self.ends[0].get(source);
        let flows = source.map_or(1, |host| host.flows());
        let is_trusted = source.is_some_and(Host::is_trusted);
        let Some(destination) = self.ends[1].get_mut(destination) else {
            return (flows, ONE);
        };
        let share = if queue.waits {
            divided(ONE, flows).max(1) as u16
        } else {
            0
        };
        // In registers: what was just written in halves is slow to read as one.
        let (mut trusted, mut strangers) = (destination.trusted, destination.strangers);
        match queue.is_trusted {
            true => trusted -= u32::from(queue.share),
            false => strangers -= u32::from(queue.share),
        }
        match is_trusted {
            true => trusted += u32::from(share),
            false => strangers += u32::from(share),
        }
        (destination.trusted, destination.strangers) = (trusted, strangers);
        (queue.share, queue.is_trusted) = (share, is_trusted);
        (flows, hosts::price(trusted, strangers, is_trusted))
    }

    /// The least tag with which a queue may wait, by what its hosts have had: zero if they have had no more than their
    /// share. A source that has lasted is not delayed by its destination, unless many send there.
    #[inline]
    pub(super) fn earliest(&self, at: usize) -> u64 {
        let Queue {
            hosts: [source, destination],
            is_trusted,
            ..
        } = self.queues[at];
        let source = self.ends[0].get(source);
        let destination = self.ends[1].get(destination);
        let frames = ALLOWANCE * self.bytes_max;
        let load = destination.map_or(ONE, |host| {
            hosts::price(host.trusted, host.strangers, is_trusted)
        });
        let ahead = source.map_or(0, |host| {
            host.tag.saturating_sub(self.ends[0].now + frames * load)
        });
        let ahead = match destination {
            Some(host) if is_trusted && host.trusted < CROWD * ONE as u32 => ahead,
            Some(host) => ahead.max(host.tag.saturating_sub(self.ends[1].now + frames * ONE)),
            None => ahead,
        };
        if ahead == 0 { 0 } else { self.now + ahead }
    }

    /// A queue had its turn, by `tag`, and sent this many bytes.
    pub(super) fn serve(&mut self, at: usize, tag: u64, bytes: u64) {
        self.now = self.now.max(tag);
        let (flows, load) = self.reckon(at);
        let cost = bytes * load;
        let debt = DEBT_MAX * self.bytes_max;
        let [source, destination] = self.queues[at].hosts;
        let active = self.ends.each_ref().map(|hosts| hosts.active());
        let [sources, destinations] = &mut self.ends;
        let before = sources.now;
        if let Some(host) = sources.get_mut(source) {
            let now = before + divided(cost, active[0]);
            host.seen = host.seen.saturating_add(1);
            host.tag = (host.tag.max(before) + cost).min(now + debt * load);
            sources.now = now;
        }
        let before = destinations.now;
        if let Some(host) = destinations.get_mut(destination) {
            host.tag = (host.tag.max(before) + bytes * ONE).min(before + debt * ONE);
            destinations.now = before + divided(bytes * ONE, active[1]);
        }
        let in_queue = match at {
            0..FLOWS => 1,
            FIRST_BIN.. => self.sketches[at - FLOWS].flows().min(BIN_FLOWS_MAX),
            _ => self.sketches[at - FLOWS].flows(),
        };
        if Self::is_shared(at)
            && let Some(host) = self.ends[0].get_mut(source)
        {
            host.crowd = in_queue as u16;
        }
        let queue = &mut self.queues[at];
        queue.tag = tag + divided(cost * u64::from(flows), in_queue);
        self.finish = self.finish.max(queue.tag);
        if self.now > REBASE {
            self.rebase();
        }
    }

    /// Called when nothing is queued: service beyond the queues' shares is forgotten.
    pub(super) fn settle(&mut self) {
        while let Some((_, at)) = self.turns.first() {
            self.turns.pop();
            self.leave(at);
        }
        self.now = self.finish.max(self.now);
    }

    /// The virtual times begin anew near zero; a walk over all queues and hosts, once in many millions of packets.
    fn rebase(&mut self) {
        let from = self.now - KEPT;
        self.now -= from;
        self.finish -= from;
        for queue in &mut self.queues {
            queue.tag = queue.tag.saturating_sub(from);
        }
        self.turns.rebase(from);
        for hosts in &mut self.ends {
            let from = hosts.now.saturating_sub(KEPT);
            hosts.rebase(from);
        }
    }
}
