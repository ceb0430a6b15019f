//! Reports of waiting packets: their flows, and the rule that decides their turn. They show an operator which flows
//! occupy the link.
//!
//! A discipline reports each queue by the packet at its head, whose flow key is in the pool. So it needs no extra
//! state, and a report costs one step per queue, not per packet.

use std::collections::VecDeque;

use weir_base::Tally;
use weir_packet::{KeyKind, Packet};

/// Maximum reports of one discipline: the forwarding thread makes them between two bursts.
pub const REPORTS_MAX: usize = 1024;

/// Packets that wait together.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The packet that leaves first.
    pub first: &'a Packet,
    /// Packets and bytes in total. In a long queue, which is sampled, `first` represents the packets behind it, which
    /// count as equally long.
    pub held: Tally,
    /// The part of the flow key of `first` that all packets share; `None` if they share no part.
    pub common: Option<KeyKind>,
    /// The rule by which the packets leave.
    pub service: Service,
}

/// The rule by which packets leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Packets of one queue for many flows leave in order of arrival. The text names the queue.
    Arrival(&'static str),
    /// The queues take turns, each at a price per byte.
    Priced(Price),
}

impl Service {
    /// All queues take turns at the same price.
    pub(crate) const EVEN: Self = Self::Priced(Price::EVEN);

    /// Queues take turns at a price that only the busier of a flow's two hosts sets, given the flows of source and
    /// destination.
    pub(crate) fn of_busier([source, destination]: [u32; 2]) -> Self {
        Self::Priced(if source >= destination {
            Price {
                source_flows: source,
                ..Price::EVEN
            }
        } else {
            Price {
                destination_load: destination as f32,
                ..Price::EVEN
            }
        })
    }
}

/// The cost of a byte of a queue, as a multiple of the lowest price: [`Self::factor`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Flows of the source that take turns; 1 if the discipline does not count them.
    pub source_flows: u32,
    /// Sources that share the destination; a source that sends to several destinations counts as a fraction. 1 if the
    /// discipline does not count them.
    pub destination_load: f32,
    /// Flows in this queue, which share its turns.
    pub flows: u32,
}

impl Price {
    /// The price of every queue where all queues pay the same.
    pub const EVEN: Self = Self {
        source_flows: 1,
        destination_load: 1.0,
        flows: 1,
    };

    /// Time to send a byte, as a multiple of the time at the lowest price.
    pub fn factor(&self) -> f32 {
        self.source_flows as f32 * self.destination_load / self.flows.max(1) as f32
    }
}

/// Reports the packets of a discipline that has one queue for all.
pub(crate) fn of_one_queue(queue: &VecDeque<Packet>, report: &mut dyn FnMut(Waiting<'_>)) {
    of_queue(queue, "the queue of all packets", REPORTS_MAX, report);
}

/// Reports a queue of many flows by at most `max` of its packets, each of which represents the packets behind it.
pub(crate) fn of_queue(
    queue: &VecDeque<Packet>,
    words: &'static str,
    max: usize,
    report: &mut dyn FnMut(Waiting<'_>),
) {
    of_places(queue.len(), |at| &queue[at], words, max, report);
}

/// Like `of_queue`, for `len` packets that `packet` returns by position.
pub(crate) fn of_places<'a>(
    len: usize,
    packet: impl Fn(usize) -> &'a Packet,
    words: &'static str,
    max: usize,
    report: &mut dyn FnMut(Waiting<'_>),
) {
    let step = len.div_ceil(max).max(1);
    for at in (0..len).step_by(step) {
        let packets = step.min(len - at) as u64;
        let first = packet(at);
        report(Waiting {
            first,
            held: Tally {
                packets,
                bytes: packets * first.bytes(),
            },
            common: Some(KeyKind::Flow),
            service: Service::Arrival(words),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Instant;
    use weir_packet::Slot;

    #[test]
    fn a_long_queue_is_looked_at_here_and_there() {
        for (len, reports) in [(0, 0), (1, 1), (10, 10), (11, 6), (95, 10), (1000, 10)] {
            let packets = (0..len).map(|id| Packet::new(id, Slot(0), 100, Instant::ZERO));
            let queue: VecDeque<_> = packets.collect();
            let (mut count, mut all) = (0, Tally::ZERO);
            of_queue(&queue, "", 10, &mut |waiting| {
                count += 1;
                all += waiting.held;
            });
            let expected = Tally {
                packets: len,
                bytes: 100 * len,
            };
            assert_eq!((count, all), (reports, expected), "{len}");
        }
    }

    #[test]
    fn a_price_is_the_product_of_its_parts() {
        let price = Price {
            source_flows: 40,
            destination_load: 1.5,
            flows: 3,
        };
        assert_eq!((price.factor(), Price::EVEN.factor()), (20.0, 1.0));
    }
}
