//! The memory of a trie: blocks of whole cache lines, in pages that copies of the trie share.
//!
//! ```text
//!  line number:  | page | line in it |
//!                   |
//!  pages:   [ Arc | Arc | Arc | ... ]         a copy shares all pages;
//!              |                              the first change of a page copies that page
//!              v
//!           | block | block | free | ...      blocks of one size in each page
//! ```
//!
//! A block has from one to [`BLOCK_LINES_MAX`] lines. Each page has blocks of one size, and a page without used blocks
//! is free for any size. The first word of a free block holds the number of the next free block of its page.

use std::sync::Arc;

/// Words of a cache line.
pub(super) const LINE_WORDS: usize = 16;
/// Maximum lines of a block: room for 267 words, the largest node.
pub(super) const BLOCK_LINES_MAX: usize = 17;

/// Lines of a page: 16 kB. Smaller pages would cost more references per copy, larger ones more bytes per change.
const PAGE_LINES: usize = 256;
const PAGE_WORDS: usize = PAGE_LINES * LINE_WORDS;
/// No page, or no block.
const NONE: u32 = u32::MAX;
/// The list of pages without used blocks; the list of pages with free blocks of `n` lines is `n`.
const UNUSED: usize = 0;

/// The pages.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pages: Arc<Vec<Arc<Page>>>,
    uses: Arc<Vec<Use>>,
    /// The first page of each list.
    lists: [u32; BLOCK_LINES_MAX + 1],
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Page([u32; PAGE_WORDS]);

/// The use of a page.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// Lines of each block; zero if no block is used.
    lines: u16,
    /// Used blocks.
    used: u16,
    /// Blocks that have been used at least once; the blocks after them have never been used.
    touched: u16,
    /// The first free block among these, as a line of the page.
    free: u32,
    /// Neighbours in the list of pages.
    previous: u32,
    next: u32,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            pages: Arc::default(),
            uses: Arc::default(),
            lists: [NONE; BLOCK_LINES_MAX + 1],
        }
    }
}

impl Pages {
    /// The words from the start of a block to the end of its page.
    #[inline(always)]
    pub(super) fn get(&self, line: u32) -> &[u32] {
        let page = &self.pages[line as usize / PAGE_LINES];
        &page.0[line as usize % PAGE_LINES * LINE_WORDS..]
    }

    /// Like [`Self::get`], but mutable.
    pub(super) fn get_mut(&mut self, line: u32) -> &mut [u32] {
        let page = &mut Arc::make_mut(&mut self.pages)[line as usize / PAGE_LINES];
        &mut Arc::make_mut(page).0[line as usize % PAGE_LINES * LINE_WORDS..]
    }

    /// Takes a block, and returns its line. The block still has the words of its previous use.
    pub(super) fn take(&mut self, lines: usize) -> u32 {
        let page = match (self.lists[lines], self.lists[UNUSED]) {
            (NONE, NONE) => self.add_page(),
            (NONE, unused) => {
                self.unlink(unused, UNUSED);
                unused
            }
            (page, _) => page,
        };
        let place = &mut Arc::make_mut(&mut self.uses)[page as usize];
        if place.lines == 0 {
            *place = Use {
                lines: lines as u16,
                ..Use::EMPTY
            };
            self.link(page, lines);
        }
        let place = &mut Arc::make_mut(&mut self.uses)[page as usize];
        let line = page * PAGE_LINES as u32;
        let line = match place.free {
            NONE => {
                place.touched += 1;
                line + u32::from(place.touched - 1) * lines as u32
            }
            free => {
                let line = line + free;
                let next = self.get(line)[0];
                Arc::make_mut(&mut self.uses)[page as usize].free = next;
                line
            }
        };
        let place = &mut Arc::make_mut(&mut self.uses)[page as usize];
        place.used += 1;
        if usize::from(place.used) == PAGE_LINES / lines {
            self.unlink(page, lines);
        }
        line
    }

    /// Gives a block back.
    pub(super) fn give_back(&mut self, line: u32) {
        let page = line / PAGE_LINES as u32;
        let uses = Arc::make_mut(&mut self.uses);
        let place = &mut uses[page as usize];
        let lines = usize::from(place.lines);
        let was_full = usize::from(place.used) == PAGE_LINES / lines;
        place.used -= 1;
        if place.used == 0 {
            *place = Use {
                previous: place.previous,
                next: place.next,
                ..Use::EMPTY
            };
            if !was_full {
                self.unlink(page, lines);
            }
            self.link(page, UNUSED);
            let empty = self.empty_page();
            Arc::make_mut(&mut self.pages)[page as usize] = empty;
            return;
        }
        let next = std::mem::replace(&mut place.free, line % PAGE_LINES as u32);
        self.get_mut(line)[0] = next;
        if was_full {
            self.link(page, lines);
        }
    }

    /// Bytes of the pages with used blocks.
    pub(super) fn bytes(&self) -> usize {
        let used = self.uses.iter().filter(|place| place.used > 0);
        used.count() * PAGE_WORDS * size_of::<u32>()
    }

    fn add_page(&mut self) -> u32 {
        let page = self.pages.len() as u32;
        Arc::make_mut(&mut self.pages).push(Arc::new(Page([0; PAGE_WORDS])));
        Arc::make_mut(&mut self.uses).push(Use::EMPTY);
        page
    }

    /// A page for a place without used blocks: shared with another such place, if there is one.
    fn empty_page(&self) -> Arc<Page> {
        match self.uses.get(self.lists[UNUSED] as usize) {
            Some(first) if first.next != NONE => Arc::clone(&self.pages[first.next as usize]),
            _ => Arc::new(Page([0; PAGE_WORDS])),
        }
    }

    fn link(&mut self, page: u32, list: usize) {
        let uses = Arc::make_mut(&mut self.uses);
        let next = std::mem::replace(&mut self.lists[list], page);
        uses[page as usize].previous = NONE;
        uses[page as usize].next = next;
        if next != NONE {
            uses[next as usize].previous = page;
        }
    }

    fn unlink(&mut self, page: u32, list: usize) {
        let uses = Arc::make_mut(&mut self.uses);
        let Use { previous, next, .. } = uses[page as usize];
        match previous {
            NONE => self.lists[list] = next,
            previous => uses[previous as usize].next = next,
        }
        if next != NONE {
            uses[next as usize].previous = previous;
        }
    }
}

impl Use {
    const EMPTY: Self = Self {
        lines: 0,
        used: 0,
        touched: 0,
        free: NONE,
        previous: NONE,
        next: NONE,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every block keeps its words, in each copy, whatever happens to other blocks.
        #[test]
        fn blocks_do_not_overlap_and_copies_do_not_change(
            changes in proptest::collection::vec((0..=1000_usize, 1..=BLOCK_LINES_MAX), 1..2000),
        ) {
            let mut pages = Pages::default();
            let mut blocks: Vec<(u32, usize, u32)> = Vec::new();
            let mut copies = Vec::new();
            for (n, (choice, lines)) in changes.into_iter().enumerate() {
                if choice < 400 && !blocks.is_empty() {
                    let (line, ..) = blocks.swap_remove(choice % blocks.len());
                    pages.give_back(line);
                } else {
                    let line = pages.take(lines);
                    pages.get_mut(line)[..lines * LINE_WORDS].fill(n as u32);
                    blocks.push((line, lines, n as u32));
                }
                if n % 501 == 0 {
                    copies.push((pages.clone(), blocks.clone()));
                }
            }
            copies.push((pages, blocks));
            for (pages, blocks) in &copies {
                for (line, lines, content) in blocks {
                    let words = &pages.get(*line)[..lines * LINE_WORDS];
                    prop_assert!(words.iter().all(|word| word == content));
                }
            }
            let Some((mut pages, blocks)) = copies.pop() else { unreachable!() };
            blocks.iter().for_each(|(line, ..)| pages.give_back(*line));
            prop_assert_eq!(pages.bytes(), 0);
        }
    }

    #[test]
    fn memory_that_is_given_back_serves_any_size() {
        let mut pages = Pages::default();
        for lines in 1..=BLOCK_LINES_MAX {
            let blocks: Vec<_> = (0..PAGE_LINES / lines * 3)
                .map(|_| pages.take(lines))
                .collect();
            assert_eq!(pages.pages.len(), 3);
            blocks.into_iter().for_each(|line| pages.give_back(line));
        }
        // Free pages have no memory of their own.
        assert!(
            Arc::ptr_eq(&pages.pages[0], &pages.pages[1])
                || Arc::ptr_eq(&pages.pages[1], &pages.pages[2])
        );
    }
}
