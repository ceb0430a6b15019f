//! The light queues, which have their turns before the heavy ones, in the order of their arrival.
//!
//! ```text
//!   familiar   [ a b ]     flows of which some packets have been served, of trusted sources
//!   new        [ c ]       other flows of trusted sources
//!   strange    [ d e ]     flows of strangers that have had a turn already    together at most half of the link
//!   unknown    [ f g h ]   other flows of strangers                           while heavy ones wait
//! ```

use super::queue::Queue;

/// The lists, by precedence.
pub(super) const LISTS: usize = 4;
/// Flows of which [`FAMILIAR_PACKETS`](super::queue::FAMILIAR_PACKETS) have been served, of trusted sources.
pub(super) const FAMILIAR: usize = 0;
/// Other flows of trusted sources.
pub(super) const NEW: usize = 1;
/// Flows of strangers that have had a turn.
pub(super) const STRANGE: usize = 2;
/// Flows of strangers that have had none.
pub(super) const UNKNOWN: usize = 3;

/// Queues in the order of their arrival. Each names the one behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    ends: Option<(u16, u16)>,
    len: u32,
}

impl List {
    /// The first queue.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        Some(usize::from(self.ends?.0))
    }

    /// Their number.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// A queue comes last.
    #[inline]
    pub(super) fn push(&mut self, queues: &mut [Queue], at: usize) {
        let number = at as u16;
        self.ends = Some(match self.ends {
            None => (number, number),
            Some((first, last)) => {
                queues[usize::from(last)].behind = number;
                (first, number)
            }
        });
        self.len += 1;
    }

    /// The first queue leaves.
    #[inline]
    pub(super) fn pop(&mut self, queues: &[Queue]) {
        self.ends = self.ends.and_then(|(first, last)| {
            (first != last).then(|| (queues[usize::from(first)].behind, last))
        });
        self.len = self.len.saturating_sub(1);
    }
}
