//! Selects the queue of an arriving packet.

use weir_base::Instant;
use weir_packet::{KeyKind, Packet};

use super::TripleFair;
use super::hosts::{Host, Hosts, NONE, ONE};
use super::layout::{BINS, FIRST_BIN, FIRST_SHARED, FLOWS};
use super::queue::{Law, Queue, Waits};
use crate::contract::Cx;
use crate::parts::bins::Bins;

/// Number of busy flow queues from which each host may have no more than its part.
const PRESSURE: u32 = FLOWS as u32 / 4;
/// Number of busy flow queues below which its destination does not limit a trusted source.
const TRUST_ENDS: u32 = FLOWS as u32 / 16 * 15;
/// Flow queues that the hosts of one end divide; the others are reserved for flows of trusted sources.
const DIVIDED: u32 = FLOWS as u32 * 7 / 8;
/// Flow queues that every host may always have.
const PART_MIN: u32 = 8;

impl TripleFair {
    /// The queue of a packet; `None` if the packet is refused, which happens only if its flow has no packet waiting.
    #[inline]
    pub(super) fn place(&mut self, cx: &Cx<'_>, packet: &Packet) -> Option<usize> {
        let hash = cx.keys.hash(packet, KeyKind::Flow);
        let Some(at) = self.flows.find(hash) else {
            return self.place_new(cx, packet, hash);
        };
        let queue = &self.queues[at];
        let begins = queue.waits == Waits::Not;
        (!begins || !self.is_overrun(queue.hosts)).then_some(at)
    }

    /// The queue of a packet whose flow has no queue of its own.
    #[inline(never)] // so that `place` saves fewer registers
    fn place_new(&mut self, cx: &Cx<'_>, packet: &Packet, flow: u64) -> Option<usize> {
        let hash = |kind: Option<KeyKind>| kind.map(|kind| cx.keys.hash_host(packet, kind));
        let hashes = [hash(self.kinds[0]), hash(self.kinds[1])];
        let find = |hosts: &Hosts, hash: Option<u64>| hosts.find(hash?);
        let known = [
            find(&self.ends[0], hashes[0]),
            find(&self.ends[1], hashes[1]),
        ];
        // Packets of the flow may wait in a shared queue. The flow stays in that queue, so that it keeps its order.
        if self.busy > self.busy_flows
            && let Some(at) = self.waits_in(flow, hashes, known)
        {
            return Some(self.join(at, flow, known, packet));
        }
        let hosts = known.map(|host| host.unwrap_or(NONE));
        if self.is_overrun(hosts) {
            return None;
        }
        let crowd = if self.is_spent(hosts) {
            Some((0, hosts[0]))
        } else {
            self.crowding(known)
        };
        let at = match crowd {
            Some((end, host)) => self.share(end, host),
            None if self.is_reserved(hosts[0]) => None,
            None => self.claim(cx.now, flow, hashes, known),
        };
        Some(match at {
            Some(at) if at < FLOWS => at,
            Some(at) => self.join(at, flow, known, packet),
            None => self.join(bin(flow, hashes), flow, known, packet),
        })
    }

    /// The shared queue or bin in which packets of this flow may wait.
    fn waits_in(
        &self,
        flow: u64,
        hashes: [Option<u64>; 2],
        known: [Option<u16>; 2],
    ) -> Option<usize> {
        let shared = [0, 1].map(|end| self.shared_by(end, known[end]));
        let all = [shared[0], shared[1], Some(bin(flow, hashes))];
        let mut all = all.into_iter().flatten();
        all.find(|at| self.queues[*at].waits != Waits::Not && self.sketches[at - FLOWS].has(flow))
    }

    /// The queue that the flows of a host share.
    fn shared_by(&self, end: usize, host: Option<u16>) -> Option<usize> {
        self.ends[end].get(host?)?.shared()
    }

    /// Adds a packet to a queue of many flows. A source's shared queue has no single destination to set its price, so
    /// it pays the mean load of its packets' destinations.
    fn join(&mut self, at: usize, flow: u64, known: [Option<u16>; 2], packet: &Packet) -> usize {
        self.sketches[at - FLOWS].come(flow);
        let [source, destination] = [0, 1].map(|end: usize| self.ends[end].get(known[end]?));
        if let Some(destination) = destination {
            let is_trusted = source.is_some_and(Host::is_trusted);
            let load = destination.price(is_trusted, false);
            self.queues[at].mix(load, packet.bytes());
        }
        if at < FIRST_BIN {
            self.stats.shared += 1
        } else {
            self.stats.bins += 1
        }
        at
    }

    /// The end and the host, of the packet's two hosts, that has its part of the flow queues, or more; if both have,
    /// the host that is farther beyond its part. A source's part is counted in queues, a destination's in the shares
    /// of its sources, so that one source with many flows counts there once.
    fn crowding(&self, known: [Option<u16>; 2]) -> Option<(usize, u16)> {
        if self.busy_flows < PRESSURE {
            return None;
        }
        let host = |end: usize| known[end].and_then(|at| self.ends[end].get(at));
        let (source, destination) = (host(0), host(1));
        let queues = source.map_or(0, |host| u32::from(host.busy));
        let is_trusted = source.is_some_and(Host::is_trusted);
        let shares = if is_trusted && self.busy_flows < TRUST_ENDS {
            0
        } else {
            destination.map_or(0, |host| (host.trusted + host.strangers) / ONE as u32)
        };
        let active = self.ends.each_ref().map(Hosts::active);
        // Whether `count` is at least the part, `DIVIDED / active`. For most packets this test suffices, without a
        // division.
        let is_beyond =
            |count: u32, active: u32| count >= PART_MIN && (count + 1) * active > DIVIDED;
        if !is_beyond(queues, active[0]) && !is_beyond(shares, active[1]) {
            return None;
        }
        let parts = active.map(|hosts| (DIVIDED / hosts).max(PART_MIN));
        let end = usize::from(shares * parts[0] > queues * parts[1]);
        Some((end, known[end]?))
    }

    /// Whether the remaining flow queues are reserved for trusted sources, and this source is not trusted.
    fn is_reserved(&self, source: u16) -> bool {
        self.busy_flows >= DIVIDED && !self.ends[0].is_trusted(source)
    }

    /// The queue that the flows of this host share, assigned now if the host had none; `None` if all are in use.
    fn share(&mut self, end: usize, host: u16) -> Option<usize> {
        if let Some(at) = self.shared_by(end, Some(host)) {
            return Some(at);
        }
        let at = usize::from(self.spare.pop()?);
        self.ends[end].refer(host);
        self.ends[end].get_mut(host)?.share(Some(at));
        self.laws[at] = Law::new(self.params.control.target);
        self.queues[at] = Queue::NOBODYS;
        self.queues[at].hosts[end] = host;
        Some(at)
    }

    /// Takes a shared queue, in which no packet waits, back from its host.
    pub(super) fn give_back(&mut self, at: usize) {
        let end = usize::from(self.queues[at].hosts[0] == NONE);
        let host = self.queues[at].hosts[end];
        if let Some(host) = self.ends[end].get_mut(host) {
            host.share(None);
        }
        self.ends[end].release(host);
        self.queues[at].hosts = [NONE; 2];
        self.sketches[at - FLOWS].clear();
        self.spare.push(at as u16);
    }

    /// Gives a flow a queue of its own, which has been empty for long; `None` if no queue is available.
    fn claim(
        &mut self,
        now: Instant,
        flow: u64,
        hashes: [Option<u64>; 2],
        known: [Option<u16>; 2],
    ) -> Option<usize> {
        let for_stranger = !self.ends[0].is_trusted(known[0].unwrap_or(NONE));
        let (at, evicted) = self.flows.claim(flow, for_stranger, now)?;
        self.stats.evicted += u64::from(evicted);
        let queue = &mut self.queues[at];
        // The queue is empty, and does not wait: its other fields are as in a new queue.
        (queue.tag, queue.was_late, queue.is_stubborn, queue.seen) = (0, false, false, 0);
        for end in 0..2 {
            let (before, hosts) = (queue.hosts[end], &mut self.ends[end]);
            let host = match (known[end], hashes[end]) {
                (Some(host), _) if host == before => continue,
                (Some(host), _) => {
                    hosts.refer(host);
                    host
                }
                (None, Some(hash)) => hosts.refer_new(hash),
                (None, None) => continue,
            };
            hosts.release(before);
            queue.hosts[end] = host;
        }
        Some(at)
    }

    /// Whether a queue is one that the flows of a host share.
    pub(super) fn is_shared(at: usize) -> bool {
        (FIRST_SHARED..FIRST_BIN).contains(&at)
    }
}

/// The bin of a flow, by its source, or else its destination.
fn bin(flow: u64, hashes: [Option<u64>; 2]) -> usize {
    FIRST_BIN + Bins::place(hashes[0].or(hashes[1]).unwrap_or(flow), BINS)
}
