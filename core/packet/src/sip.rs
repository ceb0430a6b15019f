//! SipHash-1-3 of a message of known length: no buffer, no loop over bytes.
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, with one round for each word and
//! three at the end.

/// The hash of a message of `N` whole words and a last word, which has the remaining bytes and, in its highest byte,
/// the length of the message. Words are little endian.
#[inline]
pub(crate) fn sip13<const N: usize>(key: (u64, u64), words: [u64; N], last: u64) -> u64 {
    let mut state = [
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ];
    for word in words.into_iter().chain([last]) {
        state[3] ^= word;
        round(&mut state);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*b);
    *a = a.wrapping_add(*d);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher;

    #[test]
    fn agrees_with_another_implementation() {
        let mut word = 1_u64;
        let mut next = || {
            word = word
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405);
            word
        };
        for _ in 0..1000 {
            let (key, words, tail) = ((next(), next()), [next(), next(), next()], next() >> 16);
            let mut hasher = SipHasher13::new_with_keys(key.0, key.1);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            hasher.write(&bytes);
            hasher.write(&tail.to_le_bytes()[..6]);
            assert_eq!(sip13(key, words, 30 << 56 | tail), hasher.finish());
        }
    }
}
