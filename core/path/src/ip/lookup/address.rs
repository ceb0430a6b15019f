//! IPv4 and IPv6 addresses as integers, and how a bucket stores them.

use std::fmt::Debug;

use super::pages::LINE_WORDS;

/// Maximum 32-bit prefixes that fit after the default in one line, and in two lines.
pub(super) const SHORT_LINE: usize = (LINE_WORDS - 1) / 2;
pub(super) const SHORT_PAIR: usize = (2 * LINE_WORDS - 1) / 2;

/// The addresses of a family, as integers.
pub(crate) trait Address: Copy + Ord + Debug + Default {
    /// 32-bit words of an address.
    const WORDS: usize;
    /// Maximum prefixes of a bucket of whole addresses: as many as fit in a line after the default.
    const WHOLE_MAX: usize = (LINE_WORDS - 1) / (Self::WORDS + 1);
    /// Maximum prefixes of a bucket that keeps 32 bits of each address.
    const SHORT_MAX: usize;
    /// The first 16 bits.
    fn top(self) -> usize;
    /// The eight bits after the first `depth`.
    fn byte(self, depth: u8) -> usize;
    /// The 32 bits after the first `depth`, with zeros after the last bit; `depth` is less than the address length.
    fn word(self, depth: u8) -> u32;
    /// The first `len` bits; zeros after them.
    fn truncated(self, len: u8) -> Self;
    /// The number of leading bits in common.
    fn common_bits(self, other: Self) -> u8;
    /// Whether the first `len` bits are the same; `len` must not be zero.
    fn agrees(self, other: Self, len: u8) -> bool;
    /// Writes the address as words.
    fn write(self, words: &mut [u32]);
    /// Reads an address from the words at `at`.
    fn read(words: &[u32; LINE_WORDS], at: usize) -> Self;
}

impl Address for u32 {
    const WORDS: usize = 1;
    const SHORT_MAX: usize = SHORT_LINE;

    #[inline(always)]
    fn top(self) -> usize {
        (self >> 16) as usize
    }

    #[inline(always)]
    fn byte(self, depth: u8) -> usize {
        (self.wrapping_shr((Self::BITS - 8).wrapping_sub(depth.into())) & 0xff) as usize
    }

    #[inline(always)]
    fn word(self, depth: u8) -> u32 {
        self.wrapping_shl(depth.into())
    }

    fn truncated(self, len: u8) -> Self {
        self & Self::MAX
            .checked_shl(Self::BITS - u32::from(len))
            .unwrap_or(0)
    }

    fn common_bits(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    #[inline(always)]
    fn agrees(self, other: Self, len: u8) -> bool {
        (self ^ other).wrapping_shr(Self::BITS.wrapping_sub(len.into())) == 0
    }

    fn write(self, words: &mut [u32]) {
        words[0] = self;
    }

    #[inline(always)]
    fn read(words: &[u32; LINE_WORDS], at: usize) -> Self {
        words[at]
    }
}

impl Address for u128 {
    const WORDS: usize = 4;
    const SHORT_MAX: usize = SHORT_PAIR;

    #[inline(always)]
    fn top(self) -> usize {
        (self >> 112) as usize
    }

    #[inline(always)]
    fn byte(self, depth: u8) -> usize {
        (self.wrapping_shr((Self::BITS - 8).wrapping_sub(depth.into())) & 0xff) as usize
    }

    #[inline(always)]
    fn word(self, depth: u8) -> u32 {
        (self.wrapping_shl(depth.into()) >> 96) as u32
    }

    fn truncated(self, len: u8) -> Self {
        self & Self::MAX
            .checked_shl(Self::BITS - u32::from(len))
            .unwrap_or(0)
    }

    fn common_bits(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8
    }

    #[inline(always)]
    fn agrees(self, other: Self, len: u8) -> bool {
        (self ^ other).wrapping_shr(Self::BITS.wrapping_sub(len.into())) == 0
    }

    fn write(self, words: &mut [u32]) {
        for (n, word) in words.iter_mut().enumerate().take(Self::WORDS) {
            *word = (self >> (96 - 32 * n)) as u32;
        }
    }

    #[inline(always)]
    fn read(words: &[u32; LINE_WORDS], at: usize) -> Self {
        let word = |n: usize| u128::from(words[at + n]);
        word(0) << 96 | word(1) << 64 | word(2) << 32 | word(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_read_an_address_alike() {
        let v4 = 0x0a01_80ff_u32;
        let v6 = u128::from(v4) << 96 | 5;
        assert_eq!((v4.top(), v6.top()), (0x0a01, 0x0a01));
        assert_eq!([16, 24].map(|depth| v4.byte(depth)), [0x80, 0xff]);
        assert_eq!([16, 24, 120].map(|depth| v6.byte(depth)), [0x80, 0xff, 5]);
        assert_eq!(v4.truncated(17), 0x0a01_8000);
        assert_eq!(v6.truncated(17), 0x0a01_8000 << 96);
        assert_eq!([0, 32].map(|len| v4.truncated(len)), [0, v4]);
        assert_eq!([0, 128].map(|len| v6.truncated(len)), [0, v6]);
        assert_eq!(v4.common_bits(0x0a01_80fe), 31);
        assert_eq!(v6.common_bits(v6 ^ 4), 125);
        assert!(v4.agrees(0x0a01_80fe, 31) && !v4.agrees(0x0a01_80fe, 32));
        assert!(v6.agrees(v6 ^ 4, 125) && !v6.agrees(v6 ^ 4, 126));
        let mut words = [0; LINE_WORDS];
        v4.write(&mut words[1..2]);
        v6.write(&mut words[5..9]);
        assert_eq!((u32::read(&words, 1), u128::read(&words, 5)), (v4, v6));
        assert_eq!((u32::WHOLE_MAX, u128::WHOLE_MAX), (7, 3));
        assert_eq!((u32::SHORT_MAX, u128::SHORT_MAX), (7, 15));
        assert_eq!(
            [16, 24].map(|depth| v4.word(depth)),
            [0x80ff_0000, 0xff00_0000]
        );
        assert_eq!(
            [16, 24, 120].map(|depth| v6.word(depth)),
            [0x80ff_0000, 0xff00_0000, 5 << 24]
        );
    }
}
