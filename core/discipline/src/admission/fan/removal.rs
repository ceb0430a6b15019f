//! Removes flows from the protected flow list: which flows, how many, and whether they are remembered.
//!
//! A mechanism's request may concern every flow on the list. Slices of a fixed number of flows carry it
//! out, so that no packet waits for a walk over all of them.

use weir_base::Instant;

use super::flow_list::{FlowList, Listed};

/// Which elastic flows are removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The order in which they became elastic.
    Elastic,
    /// The reverse of that order.
    Newest,
    /// The flow that was accepted first, found by reading all of them.
    First,
    MostActive,
}

/// The elastic flows to remove from the list: all that were accepted in a certain time, or the first few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    policy: Policy,
    /// Only flows accepted at this time or later.
    from: Instant,
    /// Only flows accepted at this time or earlier.
    until: Instant,
    /// How many more to remove.
    left: u64,
    /// Whether the removed flows are remembered.
    pub(super) sets_aside: bool,
    /// The acceptance time and the hash of the first accepted of the flows read.
    first: Option<(Instant, u64)>,
}

/// The result of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// Flows that were read.
    pub(super) reads: u64,
    /// Whether nothing is left to do.
    pub(super) is_done: bool,
}

/// Maximum flows that are read in one slice.
const SLICE: usize = 256;

impl Removal {
    fn all(policy: Policy, from: Instant, until: Instant) -> Self {
        Self {
            policy,
            from,
            until,
            left: u64::MAX,
            sets_aside: false,
            first: None,
        }
    }

    /// All flows that were accepted up to `until`.
    pub(super) fn elastic(until: Instant) -> Self {
        Self::all(Policy::Elastic, Instant::ZERO, until)
    }

    /// The flow that was accepted first. Time that a flow spent off the list counts: a flow that was set aside
    /// and came back is as old as its first acceptance.
    pub(super) fn oldest(now: Instant) -> Self {
        Self {
            left: 1,
            ..Self::all(Policy::First, Instant::ZERO, now)
        }
    }

    /// This many of the flows with the most bytes queued.
    pub(super) fn most_active(count: u64) -> Self {
        Self {
            left: count,
            ..Self::all(Policy::MostActive, Instant::ZERO, Instant::FAR_FUTURE)
        }
    }

    /// All flows that were accepted between two recent times.
    pub(super) fn new_ones(from: Instant, until: Instant) -> Self {
        Self::all(Policy::Newest, from, until)
    }

    /// This removal, with the removed flows remembered.
    pub(super) fn set_aside(self) -> Self {
        Self {
            sets_aside: true,
            ..self
        }
    }

    /// Whether the removal ends a run, by removing new flows again.
    pub(super) fn is_clean_up(&self) -> bool {
        self.policy == Policy::Newest
    }

    /// Prepares the list for the first slice.
    pub(super) fn begin(&self, list: &mut FlowList) {
        list.begin_walk(self.policy != Policy::Newest);
    }

    /// Does the next slice. `queued` returns the bytes waiting of a flow; a flow with more than `mtu` is
    /// elastic. Removed flows go to `out`.
    pub(super) fn advance(
        &mut self,
        list: &mut FlowList,
        mtu: u64,
        queued: &dyn Fn(u64) -> u64,
        out: &mut dyn FnMut(u64, Listed),
    ) -> Slice {
        let mut slice = Slice::default();
        for _ in 0..SLICE {
            let next = match (self.left, self.policy) {
                (0, _) => None,
                (_, Policy::MostActive) => list.most_active(),
                _ => list.walk(),
            };
            let Some(entry) = next else {
                slice.is_done = true;
                self.take_first(list, mtu, queued, out);
                return slice;
            };
            slice.reads += 1;
            let (flow, hash) = (*list.get(entry), list.hash(entry));
            let bytes = queued(hash);
            match self.policy {
                Policy::MostActive => {
                    // The scheduler may have dropped some of the flow's packets in the meantime.
                    list.set_activity(entry, bytes);
                    if list.most_active() != Some(entry) {
                        continue;
                    }
                    slice.is_done = bytes <= mtu; // no flow has more, to within 1024 bytes
                }
                // The walk goes back in the order in which flows became elastic: all remaining flows were on the
                // list before `from`.
                Policy::Newest => {
                    slice.is_done = flow.elastic.is_some_and(|at| at < self.from);
                }
                Policy::First => {
                    let is_first = self.first.is_none_or(|(since, _)| flow.since < since);
                    if bytes > mtu && flow.since <= self.until && is_first {
                        self.first = Some((flow.since, hash));
                    }
                    continue;
                }
                Policy::Elastic => {}
            }
            if slice.is_done {
                return slice;
            }
            if bytes > mtu && (self.from..=self.until).contains(&flow.since) {
                let listed = list.remove(entry);
                out(hash, listed);
                self.left -= 1;
            }
        }
        slice
    }

    /// Removes the flow that was found to be accepted first, if it is still on the list and active.
    fn take_first(
        &mut self,
        list: &mut FlowList,
        mtu: u64,
        queued: &dyn Fn(u64) -> u64,
        out: &mut dyn FnMut(u64, Listed),
    ) {
        let Some((_, hash)) = self.first.take() else {
            return;
        };
        if let Some(entry) = list.find(hash)
            && queued(hash) > mtu
        {
            out(hash, list.remove(entry));
            self.left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow_list::Flow;
    use super::*;
    use weir_base::{Span, Tally};
    use weir_packet::FlowKey;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    /// Flows 1, 2, ... accepted at 1, 2, ... seconds, elastic from then on; flow n has n kB waiting.
    fn list(flows: u64) -> FlowList {
        let mut list = FlowList::new(1000, true);
        for n in 1..=flows {
            let flow = Flow {
                since: at(1000 * n),
                latest: at(1000 * n),
                seen: Tally::ZERO,
                elastic: None,
            };
            let listed = Listed {
                flow,
                key: FlowKey::default(),
                waited: Span::ZERO,
            };
            list.insert(n, listed, flow.since, &|_| 0);
            let entry = list.find(n).unwrap();
            list.mark_elastic(entry, flow.since);
            list.set_activity(entry, 2100 * n);
        }
        list
    }

    /// Runs all slices of a removal; returns the removed flows in order, and how many flows were read.
    fn all(
        removal: Removal,
        list: &mut FlowList,
        queued: impl Fn(u64) -> u64,
    ) -> (Vec<u64>, Vec<u64>) {
        let (mut left, mut reads) = (Vec::new(), Vec::new());
        let mut removal = removal;
        removal.begin(list);
        loop {
            let slice = removal.advance(list, 1500, &queued, &mut |hash, _| left.push(hash));
            reads.push(slice.reads);
            if slice.is_done {
                return (left, reads);
            }
        }
    }

    #[test]
    fn the_oldest_elastic_ones() {
        // Flow 1 has nothing waiting: it is not active.
        let queued = |n| if n == 1 { 0 } else { 2000 * n };
        let all_old = all(Removal::elastic(at(3000)), &mut list(5), queued);
        assert_eq!(all_old, (vec![2, 3], vec![5]));
        let one = all(Removal::oldest(at(9000)), &mut list(5), queued);
        assert_eq!(one, (vec![2], vec![5]));
    }

    #[test]
    fn the_oldest_is_the_one_that_began_first_though_it_was_away() {
        let mut list = list(5);
        let away = list.find(1).unwrap();
        let listed = list.remove(away);
        list.insert(1, listed, at(20_000), &|_| 0); // elastic again at 20 s
        let oldest = Removal::oldest(at(30_000));
        assert_eq!(all(oldest, &mut list, |_| 2000).0, [1]);
        assert_eq!(all(oldest, &mut list, |_| 2000).0, [2]);
    }

    #[test]
    fn the_oldest_of_many_is_found_over_several_slices() {
        let mut list = list(600);
        let oldest = all(Removal::oldest(at(u64::MAX >> 30)), &mut list, |n| {
            if n < 500 { 0 } else { 9000 }
        });
        assert_eq!(oldest, (vec![500], vec![256, 256, 88]));
    }

    #[test]
    fn the_newest_ones_without_looking_at_the_others() {
        let new = all(Removal::new_ones(at(4000), at(4500)), &mut list(5), |n| {
            2000 * n
        });
        assert_eq!(new, (vec![4], vec![3])); // 5 came later, 3 was elastic before
    }

    #[test]
    fn the_most_active_ones_as_the_scheduler_has_them_now() {
        let most = all(Removal::most_active(2), &mut list(5), |n| 2000 * n);
        assert_eq!(most, (vec![5, 4], vec![2]));
        // All packets of flow 5 were dropped meanwhile, and most of flow 4.
        let queued = |n| [0, 2100, 4000, 6000, 1600, 0][n as usize];
        let most = all(Removal::most_active(9), &mut list(5), queued);
        assert_eq!(most.0, [3, 2, 1, 4]);
    }

    #[test]
    fn a_flow_that_comes_back_is_ranked_before_its_next_packet() {
        let queued = |n| [0, 2100, 4200, 6300][n as usize];
        let mut list = list(3);
        let entry = list.find(3).unwrap();
        let listed = list.remove(entry);
        list.insert(3, listed, at(20_000), &queued);
        let mut resized = list.resized(500, true, &queued);
        let most = Removal::most_active(1);
        assert_eq!(all(most, &mut list, queued).0, [3]);
        assert_eq!(all(most, &mut resized, queued).0, [3]);
        // Nor does a mechanism that does not need the ranks leave the next one without them.
        let plain = resized.resized(500, false, &queued);
        let mut ranked = plain.resized(500, true, &queued);
        assert_eq!(all(most, &mut ranked, queued).0, [2]);
    }

    #[test]
    fn many_flows_leave_in_slices() {
        let (left, reads) = all(Removal::elastic(at(u64::MAX >> 30)), &mut list(600), |_| {
            9000
        });
        assert_eq!(left.len(), 600);
        assert_eq!(reads, [256, 256, 88]);
    }

    #[test]
    fn a_walk_goes_on_where_its_flow_has_left() {
        let mut list = list(600);
        let mut removal = Removal::elastic(at(u64::MAX >> 30));
        removal.begin(&mut list);
        let mut left = Vec::new();
        removal.advance(&mut list, 1500, &|_| 9000, &mut |hash, _| left.push(hash));
        // The flow at which the walk continues, and the next one, time out.
        for hash in [257, 258] {
            let entry = list.find(hash).unwrap();
            list.remove(entry);
        }
        while !removal
            .advance(&mut list, 1500, &|_| 9000, &mut |hash, _| left.push(hash))
            .is_done
        {}
        assert_eq!(left.len(), 598);
        assert_eq!(list.len(), 0);
    }
}
