//! The words of a trie: the value of a prefix, and an entry of a node.
//!
//! ```text
//!  bit:    31   30 ....... 23   22 .......... 0
//!  leaf:    0   length          route's number          all zero: none
//!  child:   1   kind: 2 bits;        number of a line
//! ```

/// The value of a prefix: the number of its route and the length of the prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf(pub(super) u32);

/// An entry of a node, or a child of the root: a leaf, a node or a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u32);

impl Leaf {
    pub(super) const NONE: Self = Self(0);
    /// Bits of a route number. The eight bits above hold the length; the highest bit is free.
    const NUMBER_BITS: u32 = 23;
    pub(super) const NUMBER_MAX: u32 = (1 << Self::NUMBER_BITS) - 1;

    pub(super) fn new(len: u8, number: u32) -> Self {
        Self(number & Self::NUMBER_MAX | u32::from(len) << Self::NUMBER_BITS)
    }

    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0 & Self::NUMBER_MAX
    }

    #[inline(always)]
    pub(super) fn len(self) -> u8 {
        (self.0 >> Self::NUMBER_BITS) as u8
    }

    /// This value, or `other` if this is [`Self::NONE`].
    #[inline(always)]
    pub(super) fn or(self, other: Self) -> Self {
        match self {
            Self::NONE => other,
            _ => self,
        }
    }
}

impl Entry {
    pub(super) const NONE: Self = Self(0);
    const CHILD: u32 = 1 << 31;
    /// The kinds of children. The bits below hold the line number: 2^29 lines are 32 GB.
    const KIND: u32 = 0b11 << 29;
    const NODE: u32 = 0 << 29;
    const WHOLE: u32 = 0b01 << 29;
    const SHORT: u32 = 0b10 << 29;
    const SHORT_PAIR: u32 = 0b11 << 29;

    pub(super) fn leaf(leaf: Leaf) -> Self {
        Self(leaf.0)
    }

    /// A node that starts at a line.
    pub(super) fn node(line: u32) -> Self {
        Self(Self::CHILD | Self::NODE | line)
    }

    /// A bucket of whole addresses at a line.
    pub(super) fn whole_bucket(line: u32) -> Self {
        Self(Self::CHILD | Self::WHOLE | line)
    }

    /// A bucket that keeps 32 bits of each address, in one line or two.
    pub(super) fn short_bucket(line: u32, is_pair: bool) -> Self {
        let kind = if is_pair {
            Self::SHORT_PAIR
        } else {
            Self::SHORT
        };
        Self(Self::CHILD | kind | line)
    }

    #[inline(always)]
    pub(super) fn is_child(self) -> bool {
        self.0 & Self::CHILD != 0
    }

    #[inline(always)]
    pub(super) fn is_node(self) -> bool {
        self.0 & (Self::CHILD | Self::KIND) == Self::CHILD
    }

    #[inline(always)]
    pub(super) fn is_bucket(self) -> bool {
        self.is_child() & (self.0 & Self::KIND != Self::NODE)
    }

    /// Whether a bucket keeps whole addresses.
    #[inline(always)]
    pub(super) fn is_whole(self) -> bool {
        self.0 & Self::KIND == Self::WHOLE
    }

    /// Whether a bucket that keeps 32 bits of each address has two lines.
    #[inline(always)]
    pub(super) fn is_pair(self) -> bool {
        self.0 & Self::KIND == Self::SHORT_PAIR
    }

    /// The line of a child.
    #[inline(always)]
    pub(super) fn line(self) -> u32 {
        self.0 & !(Self::CHILD | Self::KIND)
    }

    /// The value of a leaf; [`Leaf::NONE`] for a child.
    #[inline(always)]
    pub(super) fn value(self) -> Leaf {
        if self.is_child() {
            Leaf::NONE
        } else {
            Leaf(self.0)
        }
    }
}
