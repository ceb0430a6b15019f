//! The light queues, which have their turns before the heavy ones, in the order of their arrival.
//!
//! ```text
//!   short      [ a b ]     familiar flows of trusted sources, at most half a frame ahead of their share
//!   new        [ c ]       unfamiliar flows of trusted sources
//!   long       [ d ]       other familiar flows of trusted sources
//!   strange    [ e f ]     flows of strangers after their first turn      at most half of the link, together with
//!   unknown    [ g h i ]   other flows of strangers                       heavy strangers, while trusted ones wait
//! ```

use super::queue::{Queue, Waits};

/// The lists, in the order of [`Waits`].
pub(super) const LISTS: usize = Waits::Heavy as usize;

/// Queues in the order of their arrival; each has the number of the next queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    first: u16,
    last: u16,
    len: u32,
}

impl List {
    /// The first queue.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        (self.len > 0).then_some(usize::from(self.first))
    }

    /// The number of queues.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a queue at the end.
    #[inline]
    pub(super) fn push(&mut self, queues: &mut [Queue], at: usize) {
        let number = at as u16;
        match self.len {
            0 => self.first = number,
            _ => queues[usize::from(self.last)].behind = number,
        }
        self.last = number;
        self.len += 1;
    }

    /// Removes the first queue; the list must not be empty.
    #[inline]
    pub(super) fn pop(&mut self, queues: &[Queue]) {
        self.first = queues[usize::from(self.first)].behind;
        self.len -= 1;
    }
}
