//! The first bytes of a stream, put together from pieces that come in any order.
//!
//! ```text
//!  pieces       [0..1200]      [2400..3000]           held ranges are sorted and do not touch
//!  beginning    [0..1200]                             contiguous bytes from 0 on: what a parser sees
//! ```
//!
//! It serves the two directions of a TCP connection and the CRYPTO frames of QUIC. A sender chooses the pieces, so
//! everything is bounded: bytes beyond [`BYTES_MAX`] are ignored, and so is a piece that would make more than
//! [`RANGES_MAX`] ranges. If bytes arrive twice, the later bytes count; a sender that sends two versions of its own
//! handshake deceives nobody but itself.

/// Maximum number of bytes held. A ClientHello with post-quantum key shares has about 2 kB.
pub(crate) const BYTES_MAX: usize = 8192;
/// Maximum number of separate ranges held.
const RANGES_MAX: usize = 8;

/// The beginning of one stream.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
    /// Held ranges, start and end, sorted; no two overlap or touch.
    ranges: Vec<(usize, usize)>,
}

impl Assembly {
    /// Adds a piece that begins at `offset` of the stream.
    pub(crate) fn insert(&mut self, offset: usize, piece: &[u8]) {
        let end = offset.saturating_add(piece.len()).min(BYTES_MAX);
        if offset >= end {
            return;
        }
        let is_before = |range: &(usize, usize)| range.1 < offset;
        let first = self.ranges.iter().take_while(|r| is_before(r)).count();
        let joined = self.ranges[first..].iter();
        let joined = joined.take_while(|range| range.0 <= end).count();
        if joined == 0 {
            if self.ranges.len() == RANGES_MAX {
                return;
            }
            self.ranges.insert(first, (offset, end));
        } else {
            let last = self.ranges[first + joined - 1].1.max(end);
            self.ranges[first] = (self.ranges[first].0.min(offset), last);
            self.ranges.drain(first + 1..first + joined);
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(&piece[..end - offset]);
    }

    /// The bytes from the beginning of the stream to the first gap.
    pub(crate) fn beginning(&self) -> &[u8] {
        match self.ranges.first() {
            Some(&(0, end)) => &self.bytes[..end],
            _ => &[],
        }
    }

    /// Whether further bytes no longer extend [`Self::beginning`].
    pub(crate) fn is_full(&self) -> bool {
        self.beginning().len() == BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_come_in_any_order() {
        let mut assembly = Assembly::default();
        assembly.insert(6, b"world");
        assert_eq!(assembly.beginning(), b"");
        assembly.insert(0, b"hel");
        assert_eq!(assembly.beginning(), b"hel");
        assembly.insert(2, b"llo ");
        assert_eq!(assembly.beginning(), b"hello world");
        assert!(!assembly.is_full());
        assembly.insert(11, &[0; BYTES_MAX]);
        assert!(assembly.is_full());
    }

    proptest! {
        /// The slow, obvious reference: an optional byte for each offset.
        #[test]
        fn behaves_as_an_array_of_bytes(pieces in prop::collection::vec((0_usize..BYTES_MAX + 9, 0_usize..900, any::<u8>()), 0..40)) {
            let mut assembly = Assembly::default();
            let mut reference = vec![None; BYTES_MAX];
            for (offset, len, byte) in pieces {
                let before = assembly.ranges.clone();
                assembly.insert(offset, &vec![byte; len]);
                let gap = |r: &(usize, usize)| r.1 < offset || r.0 > offset + len;
                if before.len() < RANGES_MAX || !before.iter().all(gap) {
                    let end = (offset + len).min(BYTES_MAX);
                    reference[offset.min(end)..end].fill(Some(byte));
                }
                let known: Vec<u8> = reference.iter().map_while(|b| *b).collect();
                prop_assert_eq!(assembly.beginning(), known);
                prop_assert!(assembly.ranges.len() <= RANGES_MAX);
                prop_assert!(assembly.ranges.windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }
}
