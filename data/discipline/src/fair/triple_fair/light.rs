//! The light queues, which have their turns before the heavy ones, in the order of their arrival.
//!
//! ```text
//!   short      [ a b ]     familiar flows of trusted sources, at most half a frame ahead of their share
//!   new        [ c ]       unfamiliar flows of trusted sources
//!   long       [ d ]       other familiar flows of trusted sources
//!   strange    [ e f ]     flows of strangers after their first turn      together at most half of the link
//!   unknown    [ g h i ]   other flows of strangers                       while heavy flows wait
//! ```

use super::queue::Queue;

/// The lists, by precedence.
pub(super) const LISTS: usize = 5;
/// Familiar flows of trusted sources, at most half a frame ahead.
pub(super) const SHORT: usize = 0;
/// Unfamiliar flows of trusted sources.
pub(super) const NEW: usize = 1;
/// Other familiar flows of trusted sources.
pub(super) const LONG: usize = 2;
/// Flows of strangers after their first turn.
pub(super) const STRANGE: usize = 3;
/// Flows of strangers before their first turn.
pub(super) const UNKNOWN: usize = 4;

/// Queues in the order of their arrival; each has the number of the next queue.
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
