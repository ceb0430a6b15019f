//! Packets that wait for a neighbour's MAC address.
//!
//! Bounded three ways, because a sender who scans a network makes the router ask for each address:
//! packets in all, packets for one neighbour, and neighbours (see [`questions`](crate::ip::resolution)).
//! What finds no place ends, or takes that of another; what waits too long is given up.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Instant, Span};

use crate::classify::Classified;
use crate::ip::forward::{Neighbourhood, Origin};
use crate::ip::resolution::{Order, Place, Questions};
use crate::ip::tables::{Neighbour, Tables};

/// Packets that wait for one neighbour at most.
pub const PACKETS_PER_NEIGHBOUR_MAX: usize = 64;
/// Packets that wait in all.
pub const PACKETS_MAX: usize = 512;
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
    questions: Questions,
    /// When which question was asked, oldest first; some have ended.
    ages: VecDeque<(Instant, Neighbourhood)>,
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Queue {
    since: Instant,
    place: Place,
    /// The tables said so when it was asked for: that is no answer.
    failed_before: bool,
    held: VecDeque<Held>,
}

/// What has waited long enough.
#[derive(Debug, Default)]
pub struct Ended {
    /// These can be sent.
    pub answered: Vec<Held>,
    /// These cannot.
    pub failed: Vec<Held>,
}

impl Waiting {
    /// Lets a packet wait for `neighbour`. Packets that have no place (any more) are added to
    /// `refused`.
    pub fn push(
        &mut self,
        now: Instant,
        neighbour: Neighbourhood,
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
            let source: IpAddr = held.packet.headers.source;
            let Some((place, victim)) = self.questions.ask(now, neighbour, source) else {
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
            self.orders.push(Order::Ask(neighbour));
        }
        self.packets += 1;
        if self.packets > PACKETS_MAX {
            self.shorten_longest(refused);
        }
    }

    /// A question whose place another one has taken.
    fn give_up(&mut self, neighbour: Neighbourhood, refused: &mut Vec<Held>) {
        if let Some(queue) = self.neighbours.remove(&neighbour) {
            self.packets -= queue.held.len();
            refused.extend(queue.held);
            self.orders.push(Order::GiveUp(neighbour));
        }
    }

    /// Whoever floods a neighbour that does not answer must not take every place.
    fn shorten_longest(&mut self, refused: &mut Vec<Held>) {
        let queues = self.neighbours.values_mut();
        if let Some(longest) = queues.max_by_key(|q| q.held.len())
            && let Some(oldest) = longest.held.pop_front()
        {
            self.packets -= 1;
            refused.push(oldest);
        }
    }

    /// Takes out everything that waits for a neighbour of which these tables have news.
    pub fn take_ended(&mut self, tables: &Arc<Tables>, now: Instant) -> Ended {
        let mut ended = Ended::default();
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
                self.questions.answers(neighbour, now);
                ended.answered.extend(held);
            } else {
                self.questions.fails(neighbour, now);
                ended.failed.extend(held);
            }
        }
        ended
    }

    /// Takes out everything that has waited too long.
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
                self.questions.fails(neighbour, now);
                expired.extend(self.remove(&neighbour));
            }
        }
        expired
    }

    /// When [`Self::expired`] should be asked next.
    pub fn deadline(&self) -> Option<Instant> {
        self.ages.front().map(|(since, _)| *since + PATIENCE)
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> Vec<Held> {
        let all: Vec<_> = self.neighbours.keys().copied().collect();
        self.ages.clear();
        all.iter().flat_map(|n| self.remove(n)).collect()
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

    /// What the control side shall do, since the last call.
    pub(crate) fn orders(&mut self) -> std::vec::Drain<'_, Order> {
        self.orders.drain(..)
    }

    /// How many neighbours may be asked for at the same time, and who has a place in any case.
    pub(crate) fn questions(&mut self) -> &mut Questions {
        &mut self.questions
    }

    fn remove(&mut self, neighbour: &Neighbourhood) -> VecDeque<Held> {
        let Some(queue) = self.neighbours.remove(neighbour) else {
            return VecDeque::new();
        };
        self.packets -= queue.held.len();
        self.questions.free(queue.place, *neighbour);
        queue.held
    }
}
