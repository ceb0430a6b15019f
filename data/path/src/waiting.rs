//! Packets that wait for a neighbour's MAC address.
//!
//! Bounded three ways, because a sender who scans a network makes the router ask for each address:
//! packets in all, packets for one neighbour, and neighbours. What finds no place ends; what waits
//! too long is given up.

use std::collections::{BTreeMap, VecDeque};

use weir_base::{Instant, Span};

use crate::classify::Classified;
use crate::forward::{Neighbourhood, Origin};

/// Packets that wait for one neighbour at most.
pub const PACKETS_PER_NEIGHBOUR_MAX: usize = 64;
/// Packets that wait in all.
pub const PACKETS_MAX: usize = 512;
/// Neighbours that are waited for.
pub const NEIGHBOURS_MAX: usize = 256;
/// After this time an unanswered question counts as failed; the kernel asks three times, once a
/// second.
pub const PATIENCE: Span = Span::from_secs(4);

/// One waiting packet, with what is needed to send it on.
#[derive(Debug)]
pub struct Held {
    /// The packet.
    pub packet: Classified,
    /// The port it came in by; none if that has been removed.
    pub ingress: Option<usize>,
    /// Where it comes from.
    pub origin: Origin,
}

/// The packets that wait, by neighbour.
#[derive(Debug, Default)]
pub struct Waiting {
    neighbours: BTreeMap<Neighbourhood, Queue>,
    packets: usize,
}

#[derive(Debug)]
struct Queue {
    since: Instant,
    held: VecDeque<Held>,
}

/// What became of a packet that should wait.
#[derive(Debug)]
pub enum Wait {
    /// It waits for a neighbour that nobody waited for yet: ask for it.
    First,
    /// It waits with others.
    Joined,
    /// There is no place for it.
    Full(Held),
}

impl Waiting {
    /// Lets a packet wait for `neighbour`.
    pub fn push(&mut self, now: Instant, neighbour: Neighbourhood, held: Held) -> Wait {
        if self.packets >= PACKETS_MAX {
            return Wait::Full(held);
        }
        if let Some(queue) = self.neighbours.get_mut(&neighbour) {
            if queue.held.len() >= PACKETS_PER_NEIGHBOUR_MAX {
                return Wait::Full(held);
            }
            queue.held.push_back(held);
            self.packets += 1;
            return Wait::Joined;
        }
        if self.neighbours.len() >= NEIGHBOURS_MAX {
            return Wait::Full(held);
        }
        let queue = Queue {
            since: now,
            held: VecDeque::from([held]),
        };
        self.neighbours.insert(neighbour, queue);
        self.packets += 1;
        Wait::First
    }

    /// Takes out everything that waits for a neighbour of which `known` says there is an answer.
    pub fn answered(&mut self, known: impl Fn(&Neighbourhood) -> bool) -> Vec<Held> {
        self.take(|neighbour, _| known(neighbour))
    }

    /// Takes out everything that has waited too long.
    pub fn expired(&mut self, now: Instant) -> Vec<Held> {
        self.take(|_, queue| now.since(queue.since) >= PATIENCE)
    }

    /// When [`Self::expired`] should be asked next.
    pub fn deadline(&self) -> Option<Instant> {
        self.neighbours.values().map(|q| q.since + PATIENCE).min()
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> Vec<Held> {
        self.take(|_, _| true)
    }

    /// A port has been removed, and the ones behind it have moved up.
    pub fn renumber(&mut self, gone: usize) {
        for held in self.neighbours.values_mut().flat_map(|q| &mut q.held) {
            held.ingress = match held.ingress {
                Some(number) if number == gone => None,
                Some(number) if number > gone => Some(number - 1),
                other => other,
            };
        }
    }

    /// How many packets wait for `neighbour`.
    pub fn count(&self, neighbour: &Neighbourhood) -> usize {
        self.neighbours.get(neighbour).map_or(0, |q| q.held.len())
    }

    /// The neighbours that are waited for.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbourhood> {
        self.neighbours.keys()
    }

    fn take(&mut self, mut which: impl FnMut(&Neighbourhood, &Queue) -> bool) -> Vec<Held> {
        let taken: Vec<_> = self
            .neighbours
            .extract_if(.., |neighbour, queue| which(neighbour, queue))
            .flat_map(|(_, queue)| queue.held)
            .collect();
        self.packets -= taken.len();
        taken
    }
}
