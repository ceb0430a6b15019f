//! The choice of packets to drop when all queues together are full, or when a sender does not respond.

use weir_base::Span;
use weir_packet::{Discarded, Reason};

use super::TripleFair;
use super::hosts::{HOSTS, Hosts};
use super::layout::{FIRST_BIN, FLOWS};
use super::queue::{Queue, Waits};
use super::share::Turn;
use crate::contract::Cx;

/// Maximum packets that the fullest host loses at a time: finding it is a walk over all queues and hosts.
const DROP_BATCH: u64 = 64;
/// Time for which a packet may wait in the queue of a sender that does not respond, in a shared queue, or among
/// strangers.
const LATE: Span = Span::from_millis(100);
/// Packets that such a queue may always hold.
const FEW: u64 = 2;
/// Light flows of strangers that may always wait.
const FEW_STRANGERS: u32 = 64;

/// The queues that may lose packets.
#[derive(Clone, Copy)]
enum Whose {
    Anyone,
    /// The host at this place of this end.
    Host(usize, usize),
    Bins,
}

impl TripleFair {
    /// Drops the packets of a queue that have waited for too long, if its sender does not respond, or if it is shared.
    #[inline]
    pub(super) fn drop_late(&mut self, cx: &mut Cx<'_>, at: usize) {
        if !self.queues[at].is_stubborn && at < FLOWS {
            return;
        }
        while self.queues[at].packets.tally().packets > FEW && self.drop_late_head(cx, at) {}
    }

    /// Drops light packets of strangers that have waited for too long: strangers can send more than the link carries
    /// for any length of time.
    #[inline]
    pub(super) fn drop_late_strangers(&mut self, cx: &mut Cx<'_>) {
        let waiting = |from: Waits| self.light[from as usize].len();
        if waiting(Waits::Strange) + waiting(Waits::Unknown) > FEW_STRANGERS {
            self.drop_late_of_many(cx);
        }
    }

    fn drop_late_of_many(&mut self, cx: &mut Cx<'_>) {
        for from in [Waits::Strange, Waits::Unknown] {
            let list = from as usize;
            while self.light[list].len() > FEW_STRANGERS
                && let Some(queue) = self.light[list].first()
                && self.drop_late_head(cx, queue)
            {
                if !self.queues[queue].packets.is_empty() {
                    break;
                }
                self.leave(Turn { queue, from });
            }
        }
    }

    /// Drops the packet at the head of a queue if it has waited for too long; returns whether it did.
    fn drop_late_head(&mut self, cx: &mut Cx<'_>, at: usize) -> bool {
        let head = self.slab.front(&self.queues[at].packets);
        if head.is_none_or(|head| cx.now.since(head.enqueued) <= LATE) {
            return false;
        }
        let Some(packet) = self.pop(at) else {
            return false;
        };
        self.stats.late += 1;
        cx.fates.discard(packet, Reason::LongestFlow);
        true
    }

    /// Drops packets at the head of the longest queue of the fullest host; returns that queue and the last drop.
    pub(super) fn make_room(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Discarded)> {
        let at = self.fullest()?;
        let half = self.queues[at].packets.tally().packets / 2;
        let mut last = None;
        for _ in 0..half.clamp(1, DROP_BATCH) {
            let packet = self.pop(at)?;
            self.stats.fullest_host += 1;
            last = Some((at, cx.fates.discard(packet, Reason::LongestFlow)));
        }
        last
    }

    /// The longest queue by bytes of the host with most packets. A host's packets count times the active hosts at its
    /// end, and all bins together count as one host. If no host has more than its part, the longest of all queues.
    fn fullest(&self) -> Option<usize> {
        let packets = |queue: &Queue| queue.packets.tally().packets;
        let mut best = self.held.packets;
        let mut whose = Whose::Anyone;
        for (end, hosts) in self.ends.iter().enumerate() {
            let mut held = [0_u32; HOSTS];
            for queue in &self.queues[..] {
                if let Some(count) = held.get_mut(usize::from(queue.hosts[end])) {
                    *count += packets(queue) as u32;
                }
            }
            let fullest = held.iter().enumerate().max_by_key(|(_, count)| **count);
            let (host, count) = fullest.map_or((0, 0), |(host, count)| (host, *count));
            let weighed = u64::from(count) * u64::from(hosts.active());
            if weighed > best {
                best = weighed;
                whose = Whose::Host(end, host);
            }
        }
        let in_bins: u64 = self.queues[FIRST_BIN..].iter().map(packets).sum();
        let active = self.ends.each_ref().map(Hosts::active);
        if in_bins * u64::from(active[0].min(active[1])) > best {
            whose = Whose::Bins;
        }
        let length = |queue: &Queue| queue.packets.tally().bytes.max(packets(queue));
        let queues = self.queues.iter().enumerate();
        let theirs = queues.filter(|(at, queue)| match whose {
            Whose::Anyone => true,
            Whose::Host(end, host) => usize::from(queue.hosts[end]) == host,
            Whose::Bins => *at >= FIRST_BIN,
        });
        theirs
            .max_by_key(|(_, queue)| length(queue))
            .map(|(at, _)| at)
    }
}
