//! The filter between a peer's packets and the library that reassembles messages (`sctp-proto`).
//!
//! The library trusts its peer in places: it keeps each fragment however small, accepts data far beyond the window, and
//! sorts by numbers that a peer can choose such that no order exists, on which Rust's sort may panic. The gate passes
//! only data that an honest sender of one ordered stream can send:
//!
//! ```text
//!   acknowledged | cum+1 ............................ cum+WINDOW |
//!   duplicates   | TSN: each may come once, or again unchanged   | dropped
//!   pass         | SSN: from the expected one up to WINDOW more  |
//! ```
//!
//! As the cumulative TSN advances, each message must begin where the previous message ended, with the next SSN. So the
//! library holds at most [`WINDOW`] fragments and the message that is arriving. A peer that breaks the order is a
//! [`Violation`], which ends the association.
//!
//! Gauges: none here; the association counts dropped chunks.

use std::collections::VecDeque;

use super::packet::{u16_at, u32_at};

/// Maximum distance of a TSN beyond the cumulative TSN.
pub const WINDOW: u32 = 2048;
/// Length of the fixed part of the value of DATA: TSN, stream, SSN, PPID.
pub const DATA_LEN: usize = 12;

const UNORDERED: u8 = 4;
const BEGIN: u8 = 2;
const END: u8 = 1;

/// A chunk that no honest sender sends. It ends the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;

/// The fate of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Pass the chunk to the library.
    Pass,
    /// Drop the chunk; the sender may send it again.
    Drop,
}

/// The TSNs that have arrived, and those that may arrive.
#[derive(Debug)]
pub struct Gate {
    /// The cumulative TSN: all TSNs up to this TSN were acknowledged.
    cumulative: u32,
    /// The fragments that have arrived after the cumulative TSN, by distance.
    arrived: VecDeque<Option<Fragment>>,
    /// Number of missing fragments among them.
    missing: usize,
    /// SSN of the next fragment in order.
    next_ssn: u16,
    /// Whether the next fragment in order begins a message.
    next_begins: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    ssn: u16,
    begins: bool,
    ends: bool,
}

impl Gate {
    /// Creates a gate for data from `first_tsn`.
    pub fn new(first_tsn: u32) -> Self {
        Self {
            cumulative: first_tsn.wrapping_sub(1),
            arrived: VecDeque::new(),
            missing: 0,
            next_ssn: 0,
            next_begins: true,
        }
    }

    /// The cumulative TSN: all TSNs up to this TSN were acknowledged.
    pub fn cumulative(&self) -> u32 {
        self.cumulative
    }

    /// Whether data are missing before other data that have arrived.
    pub fn has_gap(&self) -> bool {
        self.missing > 0
    }

    /// Checks a DATA chunk.
    pub fn data(&mut self, flags: u8, value: &[u8]) -> Result<Verdict, Violation> {
        let tsn = u32_at(value, 0).ok_or(Violation)?;
        let stream = u16_at(value, 4).ok_or(Violation)?;
        let fragment = Fragment {
            ssn: u16_at(value, 6).ok_or(Violation)?,
            begins: flags & BEGIN != 0,
            ends: flags & END != 0,
        };
        if value.len() <= DATA_LEN || stream != 0 || flags & UNORDERED != 0 {
            return Err(Violation);
        }
        let ahead = tsn.wrapping_sub(self.cumulative);
        if ahead == 0 || ahead > u32::MAX / 2 {
            return Ok(Verdict::Pass); // a duplicate, to be acknowledged again
        }
        if ahead > WINDOW || u32::from(fragment.ssn.wrapping_sub(self.next_ssn)) > ahead {
            return Ok(Verdict::Drop);
        }
        let at = ahead as usize - 1;
        if self.arrived.len() <= at {
            self.missing += at + 1 - self.arrived.len();
            self.arrived.resize(at + 1, None);
        }
        let Some(place) = self.arrived.get_mut(at) else {
            return Ok(Verdict::Drop);
        };
        match place {
            Some(there) if *there != fragment => Ok(Verdict::Drop),
            Some(_) => Ok(Verdict::Pass),
            None => {
                *place = Some(fragment);
                self.missing -= 1;
                Ok(Verdict::Pass)
            }
        }
    }

    /// Records that the library acknowledged all data up to `cumulative`.
    pub fn acknowledged(&mut self, cumulative: u32) -> Result<(), Violation> {
        let ahead = cumulative.wrapping_sub(self.cumulative);
        if ahead > u32::MAX / 2 {
            return Ok(());
        }
        for _ in 0..ahead.min(WINDOW) {
            let fragment = self.arrived.pop_front().flatten().ok_or(Violation)?;
            if fragment.ssn != self.next_ssn || fragment.begins != self.next_begins {
                return Err(Violation);
            }
            self.next_begins = fragment.ends;
            self.next_ssn = fragment.ssn.wrapping_add(fragment.ends.into());
            self.cumulative = self.cumulative.wrapping_add(1);
        }
        Ok(())
    }

    /// Checks a FORWARD TSN chunk: the sender has given up all data up to a TSN, and all messages up to an SSN.
    ///
    /// [`Gate::acknowledged`] must first have been called with the library's latest acknowledgement.
    pub fn forward(&mut self, value: &[u8]) -> Result<Verdict, Violation> {
        let tsn = u32_at(value, 0).ok_or(Violation)?;
        let ahead = tsn.wrapping_sub(self.cumulative);
        if ahead == 0 || ahead > u32::MAX / 2 {
            return Ok(Verdict::Pass); // an old chunk, to be acknowledged again
        }
        let (Some(0), Some(ssn), 8) = (u16_at(value, 4), u16_at(value, 6), value.len()) else {
            return Ok(Verdict::Drop); // must contain one stream, with its SSN
        };
        let skipped = ssn.wrapping_sub(self.next_ssn);
        if ahead > WINDOW || u32::from(skipped) > ahead {
            return Ok(Verdict::Drop);
        }
        let gone = self.arrived.len().min(ahead as usize);
        self.missing -= self.arrived.range(..gone).filter(|f| f.is_none()).count();
        for fragment in self.arrived.drain(..gone).flatten() {
            if fragment.ssn.wrapping_sub(self.next_ssn) > skipped {
                return Err(Violation);
            }
        }
        self.cumulative = tsn;
        self.next_ssn = ssn.wrapping_add(1);
        self.next_begins = true;
        Ok(Verdict::Pass)
    }
}

/// Whether the value of a SACK is plausible: `last_sent` is the highest TSN sent, and the blocks of acknowledged data
/// ascend, so that reading them takes bounded work.
pub fn sack_is_plausible(value: &[u8], last_sent: u32) -> bool {
    let (Some(cumulative), Some(blocks), Some(duplicates)) =
        (u32_at(value, 0), u16_at(value, 8), u16_at(value, 10))
    else {
        return false;
    };
    let len = 12 + 4 * (usize::from(blocks) + usize::from(duplicates));
    let beyond = cumulative.wrapping_sub(last_sent);
    if value.len() < len || (beyond != 0 && beyond <= u32::MAX / 2) {
        return false;
    }
    let unacknowledged = last_sent.wrapping_sub(cumulative);
    let mut last = 1;
    (0..usize::from(blocks)).all(|block| {
        let at = 12 + 4 * block;
        let (Some(start), Some(end)) = (u16_at(value, at), u16_at(value, at + 2)) else {
            return false;
        };
        let ascends = start > last && start <= end && u32::from(end) <= unacknowledged;
        last = end;
        ascends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(tsn: u32, ssn: u16) -> Vec<u8> {
        let mut value = tsn.to_be_bytes().to_vec();
        value.extend([0, 0]);
        value.extend(ssn.to_be_bytes());
        value.extend([0, 0, 0, 21, b'x']);
        value
    }

    fn forward(tsn: u32, ssn: u16) -> Vec<u8> {
        let mut value = tsn.to_be_bytes().to_vec();
        value.extend([0, 0]);
        value.extend(ssn.to_be_bytes());
        value
    }

    #[test]
    fn messages_in_order_pass_and_duplicates_too() {
        let mut gate = Gate::new(u32::MAX);
        for (tsn, ssn) in [(u32::MAX, 0), (0, 1), (1, 2), (0, 1)] {
            assert_eq!(gate.data(3, &data(tsn, ssn)), Ok(Verdict::Pass));
        }
        assert_eq!(gate.acknowledged(1), Ok(()));
        assert_eq!(gate.data(3, &data(0, 9)), Ok(Verdict::Pass));
        assert_eq!(gate.cumulative(), 1);
    }

    #[test]
    fn fragments_are_one_message() {
        let mut gate = Gate::new(1);
        for (tsn, flags, has_gap) in [(3, 1, true), (1, 2, true), (1, 2, true), (2, 0, false)] {
            assert_eq!(gate.data(flags, &data(tsn, 0)), Ok(Verdict::Pass));
            assert_eq!(gate.has_gap(), has_gap);
        }
        assert_eq!(gate.acknowledged(3), Ok(()));
        assert_eq!(gate.data(3, &data(4, 1)), Ok(Verdict::Pass));
        assert_eq!(gate.acknowledged(4), Ok(()));
    }

    #[test]
    fn data_beyond_the_window_are_dropped() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.data(3, &data(WINDOW, 5)), Ok(Verdict::Pass));
        assert_eq!(gate.data(3, &data(WINDOW + 1, 5)), Ok(Verdict::Drop));
        assert_eq!(gate.data(3, &data(4, 6)), Ok(Verdict::Drop)); // the fourth fragment cannot be of the sixth message
        assert_eq!(gate.data(3, &data(WINDOW, 6)), Ok(Verdict::Drop)); // it differed before
        assert_eq!(gate.data(3, &data(WINDOW, 5)), Ok(Verdict::Pass));
    }

    #[test]
    fn what_breaks_the_order_is_a_violation() {
        let broken = [
            vec![(3, 1, 1)],            // SSN 1 before 0
            vec![(1, 1, 0)],            // an end without a beginning
            vec![(2, 1, 0), (2, 2, 0)], // a beginning within a message
            vec![(2, 1, 0), (3, 2, 1)], // the next message before the end of this message
        ];
        for chunks in broken {
            let mut gate = Gate::new(1);
            let mut last = 0;
            for (flags, tsn, ssn) in chunks {
                assert_eq!(gate.data(flags, &data(tsn, ssn)), Ok(Verdict::Pass));
                last = tsn;
            }
            assert_eq!(gate.acknowledged(last), Err(Violation));
        }
    }

    #[test]
    fn empty_unordered_and_foreign_data_are_violations() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.data(7, &data(1, 0)), Err(Violation));
        assert_eq!(gate.data(3, &data(1, 0)[..12]), Err(Violation));
        let mut stream = data(1, 0);
        stream[5] = 1;
        assert_eq!(gate.data(3, &stream), Err(Violation));
    }

    #[test]
    fn data_that_were_given_up_are_skipped() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.data(3, &data(3, 2)), Ok(Verdict::Pass));
        assert!(gate.has_gap());
        assert_eq!(gate.forward(&forward(4, 3)), Ok(Verdict::Pass));
        assert_eq!((gate.cumulative(), gate.has_gap()), (4, false));
        assert_eq!(gate.data(3, &data(5, 4)), Ok(Verdict::Pass));
        assert_eq!(gate.acknowledged(5), Ok(()));
        assert_eq!(gate.forward(&forward(5, 9)), Ok(Verdict::Pass)); // old: the library acknowledges
        assert_eq!(gate.forward(&forward(6, 9)), Ok(Verdict::Drop)); // one TSN is not five messages
        assert_eq!(gate.forward(&forward(5 + WINDOW + 1, 9)), Ok(Verdict::Drop));
        assert_eq!(gate.forward(&forward(6, 5)[..4]), Ok(Verdict::Drop));
    }

    #[test]
    fn data_that_outlive_the_giving_up_are_a_violation() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.data(2, &data(2, 1)), Ok(Verdict::Pass));
        assert_eq!(gate.forward(&forward(2, 0)), Err(Violation));
    }

    #[test]
    fn acknowledgements_must_be_of_what_was_sent() {
        let sack = |cumulative: u32, blocks: &[(u16, u16)]| {
            let mut value = cumulative.to_be_bytes().to_vec();
            value.extend([0, 1, 0, 0, 0, blocks.len() as u8, 0, 0]);
            for (start, end) in blocks {
                value.extend(start.to_be_bytes());
                value.extend(end.to_be_bytes());
            }
            value
        };
        assert!(sack_is_plausible(&sack(10, &[]), 10));
        assert!(!sack_is_plausible(&sack(11, &[]), 10));
        assert!(sack_is_plausible(&sack(u32::MAX, &[(2, 3), (5, 5)]), 10));
        assert!(!sack_is_plausible(&sack(5, &[(2, 3), (3, 4)]), 10));
        assert!(!sack_is_plausible(&sack(5, &[(3, 2)]), 10));
        assert!(!sack_is_plausible(&sack(5, &[(2, 6)]), 10));
        assert!(!sack_is_plausible(&sack(5, &[(2, 3)])[..15], 10));
    }
}
