//! Packets that wait for a neighbour's MAC address.
//!
//! There are three bounds, because a sender that scans a network makes the router resolve each address: on packets in
//! total, on packets for one neighbour, and on neighbours (see [`resolution`](crate::ip::resolution)). A packet that
//! finds no free place is dropped, or takes the place of another packet; a packet that waits too long is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Instant, Span};

use crate::classify::Classified;
use crate::ip::forward::Origin;
use crate::ip::resolution::{NeighbourRequest, PendingRequests, Place};
use crate::ip::tables::{Neighbour, NeighbourKey, Tables};

/// Maximum packets that wait for one neighbour.
pub const PACKETS_PER_NEIGHBOUR_MAX: usize = 64;
/// Maximum packets that wait in total.
pub const PACKETS_MAX: usize = 512;
/// Time after which an unanswered request has failed. The kernel sends three requests, one per second.
pub const PATIENCE: Span = Span::from_secs(4);

/// One waiting packet, with the state needed to forward it later.
#[derive(Debug)]
pub struct Held {
    /// The packet.
    pub packet: Classified,
    /// Ingress port of the packet; `None` if the port has been removed.
    pub ingress: Option<usize>,
    /// Origin of the packet.
    pub origin: Origin,
    /// Whether a rule of the overlay, not a route, sends the packet to the neighbour for which it waits.
    pub by_rule: bool,
}

impl Held {
    /// A packet that follows the routes.
    #[inline]
    pub fn new(packet: Classified, ingress: Option<usize>, origin: Origin) -> Self {
        Self {
            packet,
            ingress,
            origin,
            by_rule: false,
        }
    }

    /// Updates the number of the ingress port after port `gone` has been removed and later ports have moved up.
    pub fn renumber(&mut self, gone: usize) {
        self.ingress = match self.ingress {
            Some(number) if number == gone => None,
            Some(number) if number > gone => Some(number - 1),
            other => other,
        };
    }
}

/// The waiting packets, by neighbour.
#[derive(Debug, Default)]
pub struct Waiting {
    neighbours: BTreeMap<NeighbourKey, Queue>,
    packets: usize,
    pending: PendingRequests,
    /// The time of each request, oldest first; some of the requests may have been settled.
    ages: VecDeque<(Instant, NeighbourKey)>,
    requests: Vec<NeighbourRequest>,
}

#[derive(Debug)]
struct Queue {
    since: Instant,
    place: Place,
    /// The tables listed the neighbour as failed at the time of the request, so the same entry is not an answer.
    failed_before: bool,
    held: VecDeque<Held>,
}

/// Packets whose wait is over.
#[derive(Debug, Default)]
pub struct Settled {
    /// The neighbour answered: send them.
    pub answered: Vec<(NeighbourKey, Held)>,
    /// The neighbour did not answer: drop them.
    pub failed: Vec<Held>,
}

impl Waiting {
    /// Lets a packet wait for `neighbour`. Packets that get no place, or lose theirs, are added to `refused`.
    pub fn push(
        &mut self,
        now: Instant,
        neighbour: NeighbourKey,
        failed_before: bool,
        held: Held,
        refused: &mut Vec<Held>,
    ) {
        if let Some(queue) = self.neighbours.get_mut(&neighbour) {
            if queue.held.len() >= PACKETS_PER_NEIGHBOUR_MAX {
                refused.push(held);
                return;
            }
            queue.held.push_back(held);
        } else {
            let source: IpAddr = held.packet.headers.source();
            let Some((place, victim)) = self.pending.ask(now, neighbour, source) else {
                refused.push(held);
                return;
            };
            if let Some(victim) = victim {
                self.give_up(victim, refused);
            }
            let queue = Queue {
                since: now,
                place,
                failed_before,
                held: VecDeque::from([held]),
            };
            self.neighbours.insert(neighbour, queue);
            self.ages.push_back((now, neighbour));
            self.requests.push(NeighbourRequest::Ask(neighbour));
        }
        self.packets += 1;
        if self.packets > PACKETS_MAX {
            self.shorten_longest(refused);
        }
    }

    /// Gives up a request whose place another request has taken.
    fn give_up(&mut self, neighbour: NeighbourKey, refused: &mut Vec<Held>) {
        if let Some(queue) = self.neighbours.remove(&neighbour) {
            self.packets -= queue.held.len();
            refused.extend(queue.held);
            self.requests.push(NeighbourRequest::GiveUp(neighbour));
        }
    }

    /// Shortens the longest queue: a flood to a neighbour that does not answer must not take every place.
    fn shorten_longest(&mut self, refused: &mut Vec<Held>) {
        let queues = self.neighbours.values_mut();
        if let Some(longest) = queues.max_by_key(|q| q.held.len())
            && let Some(oldest) = longest.held.pop_front()
        {
            self.packets -= 1;
            refused.push(oldest);
        }
    }

    /// Takes out the packets whose neighbours these tables list as resolved or as failed.
    pub fn take_settled(&mut self, tables: &Arc<Tables>, now: Instant) -> Settled {
        let mut settled = Settled::default();
        let mut over = Vec::new();
        for (neighbour, queue) in &mut self.neighbours {
            match tables.neighbours.get(neighbour) {
                None => queue.failed_before = false,
                Some(Neighbour::Failed) if queue.failed_before => {}
                Some(known) => over.push((*neighbour, known.mac().is_some())),
            }
        }
        for (neighbour, answered) in over {
            let held = self.remove(&neighbour);
            if answered {
                self.pending.answers(neighbour, now);
                let held = held.into_iter().map(|held| (neighbour, held));
                settled.answered.extend(held);
            } else {
                self.pending.fails(neighbour, now);
                settled.failed.extend(held);
            }
        }
        settled
    }

    /// Takes out the packets that have waited too long.
    pub fn expired(&mut self, now: Instant) -> Vec<Held> {
        let mut expired = Vec::new();
        while let Some((since, neighbour)) = self.ages.front().copied() {
            let queue = self.neighbours.get(&neighbour);
            let waits = queue.is_some_and(|q| q.since == since);
            if waits && now.since(since) < PATIENCE {
                break;
            }
            self.ages.pop_front();
            if waits {
                self.pending.fails(neighbour, now);
                expired.extend(self.remove(&neighbour));
            }
        }
        expired
    }

    /// When [`Self::expired`] should be called next.
    pub fn deadline(&self) -> Option<Instant> {
        self.ages.front().map(|(since, _)| *since + PATIENCE)
    }

    /// Takes out all packets.
    pub fn drain(&mut self) -> Vec<Held> {
        let all: Vec<_> = self.neighbours.keys().copied().collect();
        self.ages.clear();
        all.iter().flat_map(|n| self.remove(n)).collect()
    }

    /// Updates the port numbers after port `gone` has been removed and later ports have moved up.
    pub fn renumber(&mut self, gone: usize) {
        for held in self.neighbours.values_mut().flat_map(|q| &mut q.held) {
            held.renumber(gone);
        }
    }

    /// How many packets wait for `neighbour`.
    pub fn count(&self, neighbour: &NeighbourKey) -> usize {
        self.neighbours.get(neighbour).map_or(0, |q| q.held.len())
    }

    /// The neighbours for which packets wait.
    pub fn neighbours(&self) -> impl Iterator<Item = &NeighbourKey> {
        self.neighbours.keys()
    }

    /// Requests to the control side since the last call.
    pub(crate) fn take_requests(&mut self) -> std::vec::Drain<'_, NeighbourRequest> {
        self.requests.drain(..)
    }

    /// The pending requests.
    pub(crate) fn pending(&mut self) -> &mut PendingRequests {
        &mut self.pending
    }

    fn remove(&mut self, neighbour: &NeighbourKey) -> VecDeque<Held> {
        let Some(queue) = self.neighbours.remove(neighbour) else {
            return VecDeque::new();
        };
        self.packets -= queue.held.len();
        self.pending.free(queue.place, *neighbour);
        queue.held
    }
}
