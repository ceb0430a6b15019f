//! Linked lists over numbered entries: each entry is in at most one list, and moves in constant time.
//!
//! ```text
//!  top  5 <-> 0 <-> 3  bottom        each list is a ring through an anchor, beyond the entries
//!  top  1              bottom
//! ```
//!
//! Links are in a separate array, which stays small.

/// The lists over a fixed number of entries.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The links of each entry, then of each list's anchor.
    links: Box<[Link]>,
    capacity: usize,
}

/// Neighbours in a list: towards the bottom, towards the top.
#[derive(Clone, Copy, Debug)]
struct Link {
    below: u32,
    above: u32,
}

impl Lists {
    /// `lists` empty lists over `capacity` entries, none of which is in a list.
    pub(crate) fn new(capacity: usize, lists: usize) -> Self {
        let anchor = |list| Link {
            below: (capacity + list) as u32,
            above: (capacity + list) as u32,
        };
        let mut links = vec![Link { below: 0, above: 0 }; capacity];
        links.extend((0..lists).map(anchor));
        Self {
            links: links.into_boxed_slice(),
            capacity,
        }
    }

    /// The entries just below and just above another one, or anchors, for loading their memory.
    pub(crate) fn neighbours(&self, entry: usize) -> (u32, u32) {
        let Link { below, above } = self.links[entry];
        (
            self.links[below as usize].above,
            self.links[above as usize].below,
        )
    }

    /// Puts an entry that is in no list on top of `list`.
    pub(crate) fn put(&mut self, entry: usize, list: usize) {
        let anchor = self.capacity + list;
        let top = self.links[anchor].below;
        self.links[entry] = Link {
            below: top,
            above: anchor as u32,
        };
        self.links[top as usize].above = entry as u32;
        self.links[anchor].below = entry as u32;
    }

    /// Takes an entry out of the list that it is in.
    pub(crate) fn take(&mut self, entry: usize) {
        let Link { below, above } = self.links[entry];
        self.links[below as usize].above = above;
        self.links[above as usize].below = below;
    }

    /// Moves an entry, from whichever list it is in, to the top of `list`.
    pub(crate) fn raise(&mut self, entry: usize, list: usize) {
        self.take(entry);
        self.put(entry, list);
    }

    /// The entry at the bottom of `list`.
    #[inline]
    pub(crate) fn bottom(&self, list: usize) -> Option<usize> {
        self.entry(self.links[self.capacity + list].above)
    }

    /// The entry on top of `list`.
    #[inline]
    pub(crate) fn top(&self, list: usize) -> Option<usize> {
        self.entry(self.links[self.capacity + list].below)
    }

    /// The entry above another one in its list.
    pub(crate) fn above(&self, entry: usize) -> Option<usize> {
        self.entry(self.links[entry].above)
    }

    /// The entry below another one in its list.
    pub(crate) fn below(&self, entry: usize) -> Option<usize> {
        self.entry(self.links[entry].below)
    }

    /// The entries of `list`, from the bottom to the top.
    pub(crate) fn upwards(&self, list: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.bottom(list), |at| self.above(*at))
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        size_of_val(&*self.links)
    }

    /// A link's end, unless it is an anchor.
    fn entry(&self, end: u32) -> Option<usize> {
        Some(end as usize).filter(|entry| *entry < self.capacity)
    }
}
