//! Waiting packets of a discipline: whose they are, and what decides their turn. For an operator who asks who holds the link.
//!
//! A discipline reports its queues with the packet at the head of each, whose flow key is in the pool. So it keeps
//! nothing for this, and an answer costs a step for each queue, not for each packet.

use std::collections::VecDeque;

use weir_base::Tally;
use weir_packet::{KeyKind, Packet};

/// Maximum reports of one discipline: the forwarding thread makes them between two bursts.
pub const REPORTS_MAX: usize = 1024;

/// Packets that wait together.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The first of them to leave.
    pub first: &'a Packet,
    /// All of them. Of a long queue that is looked at here and there, `first` stands for its neighbours.
    pub held: Tally,
    /// The part of the flow key of `first` that all of them have; none if they have nothing in common.
    pub common: Option<KeyKind>,
    /// The rule by which they leave.
    pub service: Service,
}

/// The rule by which packets leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Packets of one queue for many flows leave in the order of their arrival. The words name the queue.
    Arrival(&'static str),
    /// The queues take turns, each at a price for a byte.
    Priced(Price),
}

impl Service {
    /// By turns, at the same price for all.
    pub(crate) const EVEN: Self = Self::Priced(Price::EVEN);

    /// By turns, where only the busier of a flow's two hosts counts, by their flows: source and destination.
    pub(crate) fn of_busier([source, destination]: [u32; 2]) -> Self {
        Self::Priced(match source >= destination {
            true => Price {
                source_flows: source,
                ..Price::EVEN
            },
            false => Price {
                destination_load: destination as f32,
                ..Price::EVEN
            },
        })
    }
}

/// The cost of a byte of a queue, as a multiple of the least price: [`Self::factor`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Flows of its source that take turns; 1 if the discipline does not count them.
    pub source_flows: u32,
    /// The sources that share its destination, a source with several receivers as a part; 1 if the discipline does not
    /// count them.
    pub destination_load: f32,
    /// Flows in this queue, for which its turns count.
    pub flows: u32,
}

impl Price {
    /// The same as everybody's.
    pub const EVEN: Self = Self {
        source_flows: 1,
        destination_load: 1.0,
        flows: 1,
    };

    /// How many times as long it takes to send a byte as at the least price.
    pub fn factor(&self) -> f32 {
        self.source_flows as f32 * self.destination_load / self.flows.max(1) as f32
    }
}

/// Reports the packets of a discipline that has one queue for all.
pub(crate) fn of_one_queue(queue: &VecDeque<Packet>, report: &mut dyn FnMut(Waiting<'_>)) {
    of_queue(queue, "the queue of all packets", REPORTS_MAX, report);
}

/// Reports the packets of a queue for many flows, at most `max` of them, each for its neighbours.
pub(crate) fn of_queue(
    queue: &VecDeque<Packet>,
    words: &'static str,
    max: usize,
    report: &mut dyn FnMut(Waiting<'_>),
) {
    of_places(queue.len(), |at| &queue[at], words, max, report);
}

/// The same for packets at this many places.
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
