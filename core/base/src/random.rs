//! Named random streams.
//!
//! Every user of randomness owns a stream that is named by its path (`"port.wan.lru_fq"`). A stream
//! depends on the run's seed and its own name only, so adding a user elsewhere, or reordering
//! calls between users, changes no other stream. The generator is fixed (xoshiro256++), so that a
//! seed replays the same run in every later version.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// One user's random stream. Use it through [`rand::Rng`] and [`rand::RngExt`].
pub type Stream = Xoshiro256PlusPlus;

/// The source of all streams of one run.
#[derive(Clone, Debug)]
pub struct Streams {
    seed: u64,
    path: String,
}

impl Streams {
    /// The streams of a run with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            path: String::new(),
        }
    }

    /// The same run, one level down: the names of its streams are relative to `name`.
    pub fn below(&self, name: &str) -> Self {
        Self {
            seed: self.seed,
            path: format!("{}{name}.", self.path),
        }
    }

    /// The stream named `name` at this level.
    pub fn stream(&self, name: &str) -> Stream {
        let mut hasher = SipHasher13::new_with_keys(self.seed, 0x7765_6972);
        hasher.write(self.path.as_bytes());
        hasher.write(name.as_bytes());
        Stream::seed_from_u64(hasher.finish())
    }

    /// A 128-bit key for a keyed hash, from the stream named `name`.
    pub fn hash_key(&self, name: &str) -> (u64, u64) {
        let mut stream = self.stream(name);
        (stream.next_u64(), stream.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_only() {
        let streams = Streams::new(7);
        let mut a = streams.below("port1").stream("lru_fq");
        let mut b = Streams::new(7).below("port1").stream("lru_fq");
        assert_eq!(a.next_u64(), b.next_u64());
        let mut other_name = streams.below("port2").stream("lru_fq");
        let mut other_seed = Streams::new(8).below("port1").stream("lru_fq");
        let mut again = streams.below("port1").stream("lru_fq");
        let value = again.next_u64();
        assert_ne!(value, other_name.next_u64());
        assert_ne!(value, other_seed.next_u64());
    }

    #[test]
    fn the_generator_is_frozen() {
        // Golden value: a change here changes every recorded run.
        let value = Streams::new(1).stream("golden").next_u64();
        assert_eq!(value, GOLDEN);
    }

    const GOLDEN: u64 = 18_252_773_566_036_651_110;
}
