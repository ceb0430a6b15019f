//! Reports waiting packets and the price of their turns, for an operator.

use weir_base::Tally;
use weir_packet::KeyKind;

use super::TripleFair;
use super::hosts::{NONE, ONE};
use super::layout::{FIRST_BIN, FLOWS};
use super::queue::Queue;
use crate::parts::bins::ASIDE;
use crate::waiting::{Price, Service, Waiting};

impl TripleFair {
    /// Reports every queue that holds packets, and the packets from before a change of `hosts` as one queue.
    pub(super) fn report_waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        if let Some(first) = self.slab.front(&self.aside) {
            report(Waiting {
                first,
                held: self.aside.tally(),
                common: None,
                service: Service::Arrival(ASIDE),
            });
        }
        for (at, queue) in self.queues.iter().enumerate() {
            if queue.packets.tally() == Tally::ZERO {
                continue;
            }
            let Some(first) = self.slab.front(&queue.packets) else {
                continue;
            };
            report(Waiting {
                first,
                held: queue.packets.tally(),
                common: self.common(at, queue),
                service: Service::Priced(self.priced(at, queue)),
            });
        }
    }

    /// The part of their flow keys that the packets of a queue have in common.
    fn common(&self, at: usize, queue: &Queue) -> Option<KeyKind> {
        match at {
            0..FLOWS => Some(KeyKind::Flow),
            FIRST_BIN.. => None,
            _ if queue.hosts[0] == NONE => self.kinds[1],
            _ => self.kinds[0],
        }
    }

    /// The price of a queue's turn, as it would be charged now.
    fn priced(&self, at: usize, queue: &Queue) -> Price {
        let load = self.price(queue).source;
        Price {
            source_flows: self.source_flows(queue),
            destination_load: load as f32 / ONE as f32,
            flows: self.flows_in(at),
        }
    }
}
