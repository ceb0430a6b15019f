//! Buckets of a trie: a few prefixes that are searched at once.
//!
//! ```text
//!  | default | prefix, value | prefix, value | ...      shortest first, so the last that covers an address counts |
//! ```
//!
//! A *short* bucket keeps 32 bits of each prefix, after the bits that all have in common: seven prefixes in a line, and
//! 15 of IPv6 in two adjacent lines. So an IPv6 network of 32 bits and the networks of up to 56 bits in it are one
//! bucket, and not two levels of nodes. A *whole* bucket keeps whole addresses, for longer prefixes: three of IPv6.

use super::Prefix;
use super::address::{Address, SHORT_LINE};
use super::entry::{Entry, Leaf};
use super::pages::LINE_WORDS;

/// Index of the default among the words of a bucket, and of a node.
pub(super) const DEFAULT: usize = 0;
/// Bits that a short bucket keeps of each address.
const SHORT_BITS: u8 = u32::BITS as u8;

/// A bucket to store.
#[derive(Debug)]
pub(super) struct Bucket {
    words: [u32; 2 * LINE_WORDS],
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Short,
    ShortPair,
}

impl Bucket {
    /// A bucket for prefixes that have the first `depth` bits in common and are longer than that; `None` if they do not
    /// fit in a bucket.
    pub(super) fn new<A: Address>(
        below: &[(Prefix<A>, Leaf)],
        depth: u8,
        default: Leaf,
    ) -> Option<Self> {
        let is_short = below.iter().all(|((_, len), _)| len - depth <= SHORT_BITS);
        let kind = match below.len() {
            n if is_short && n <= SHORT_LINE => Kind::Short,
            n if is_short && n <= A::SHORT_MAX => Kind::ShortPair,
            n if n <= A::WHOLE_MAX => Kind::Whole,
            _ => return None,
        };
        let mut below = below.to_vec();
        below.sort_by_key(|(prefix, _)| prefix.1);
        let mut words = [0; 2 * LINE_WORDS];
        words[DEFAULT] = default.0;
        for (n, ((address, _), value)) in below.iter().enumerate() {
            match kind {
                Kind::Whole => {
                    let at = 1 + n * (A::WORDS + 1);
                    address.write(&mut words[at..at + A::WORDS]);
                    words[at + A::WORDS] = value.0;
                }
                Kind::Short | Kind::ShortPair => {
                    words[1 + 2 * n] = address.word(depth);
                    words[2 + 2 * n] = value.0;
                }
            }
        }
        let mut bucket = Self { words, kind };
        bucket.fill(below.len());
        Some(bucket)
    }

    /// Fills the free slots of a short bucket with its last prefix, so that a search need not check whether a slot is
    /// free.
    fn fill(&mut self, used: usize) {
        if self.kind != Kind::Whole && used > 0 {
            let places = (self.lines() * LINE_WORDS - 1) / 2;
            for n in used..places {
                self.words.copy_within(2 * used - 1..=2 * used, 1 + 2 * n);
            }
        }
    }

    /// Number of cache lines.
    pub(super) fn lines(&self) -> usize {
        1 + usize::from(self.kind == Kind::ShortPair)
    }

    /// The words of all its lines.
    pub(super) fn words(&self) -> &[u32] {
        &self.words[..self.lines() * LINE_WORDS]
    }

    /// The entry of this bucket, stored at a line.
    pub(super) fn entry(&self, line: u32) -> Entry {
        match self.kind {
            Kind::Whole => Entry::whole_bucket(line),
            Kind::Short => Entry::short_bucket(line, false),
            Kind::ShortPair => Entry::short_bucket(line, true),
        }
    }
}

/// The value for an address in a bucket below the first `depth` bits; `words` start with the bucket.
#[inline(always)]
pub(super) fn search<A: Address>(
    words: &[u32],
    bucket: Entry,
    value: Leaf,
    address: A,
    depth: u8,
) -> Leaf {
    // A page consists of whole blocks, so `words` are always long enough.
    if bucket.is_whole() {
        let words = words.first_chunk();
        words.map_or(value, |words| search_whole(words, value, address))
    } else if bucket.is_pair() {
        let words = words.first_chunk::<{ 2 * LINE_WORDS }>();
        words.map_or(value, |words| {
            search_short(words, value, address.word(depth), depth)
        })
    } else {
        let words = words.first_chunk::<LINE_WORDS>();
        words.map_or(value, |words| {
            search_short(words, value, address.word(depth), depth)
        })
    }
}

/// The value in a bucket of whole addresses.
#[inline(always)]
fn search_whole<A: Address>(words: &[u32; LINE_WORDS], value: Leaf, address: A) -> Leaf {
    let mut value = Leaf(words[DEFAULT]).or(value);
    for n in 0..A::WHOLE_MAX {
        let at = 1 + n * (A::WORDS + 1);
        let found = Leaf(words[at + A::WORDS]);
        let covers = (found != Leaf::NONE) & address.agrees(A::read(words, at), found.len());
        value = if covers { found } else { value };
    }
    value
}

/// The value in a bucket of 32 bits of each address; `word` holds these bits of the address to look up.
#[inline(always)]
fn search_short<const N: usize>(words: &[u32; N], value: Leaf, word: u32, depth: u8) -> Leaf {
    let mut value = Leaf(words[DEFAULT]).or(value);
    for n in 0..(N - 1) / 2 {
        let (prefix, found) = (words[1 + 2 * n], Leaf(words[2 + 2 * n]));
        let len = found.len().wrapping_sub(depth); // from 1 to 32
        value = if word.agrees(prefix, len) {
            found
        } else {
            value
        };
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_decide_about_the_kind() {
        let below = |count: u32, len: u8| -> Vec<(Prefix<u128>, Leaf)> {
            let nth = |n| {
                (
                    (0x2001_u128 << 112 | u128::from(n) << 80, len),
                    Leaf::new(len, n + 1),
                )
            };
            (0..count).map(nth).collect()
        };
        let kind = |count, len| Bucket::new(&below(count, len), 16, Leaf::NONE).map(|b| b.kind);
        assert_eq!(
            [7, 15].map(|n| kind(n, 48)),
            [Some(Kind::Short), Some(Kind::ShortPair)]
        );
        assert_eq!(
            [3, 4, 16].map(|n| kind(n, 49)),
            [Some(Kind::Whole), None, None]
        );
        assert_eq!(kind(16, 48), None);
    }
}
