//! Who sends how much through a port, from a sample of the packets that it sends.
//!
//! ```text
//!   bytes    |--- step ---|--- step ---|--- step ---|--- step ---|      one byte of each step is chosen
//!   packets  [ a ][  a  ][b][ a ][  c  ][ a ][ b ][  a  ][   a   ]
//!   taken             a          c         b                a           each stands for the bytes of its step
//! ```
//!
//! A packet costs two additions and a comparison; a sampled packet also costs a copy of its flow key. The reader adds
//! up the bytes by flow or by host ([`Talkers::fetch`]), so the forwarding thread keeps no tables.
//!
//! # Bounds
//!
//! At most [`TAKEN_MAX`] samples are kept between two fetches. When there are more, one of each two neighbours is
//! dropped, and steps become twice as long. A port that sends up to half as many packets is counted exactly; otherwise
//! the error of a share `p` of the bytes is about `sqrt(p / 1024)`: one percentage point for 10 %. No packet pattern
//! can avoid or hit the sampled bytes on purpose, because they are random.

use rand::Rng;
use weir_base::Stream;
use weir_packet::FlowKey;

/// Maximum samples that are kept between two fetches.
const TAKEN_MAX: usize = 2048;
/// Maximum packets between two fetches that are counted one by one.
const EXACT_MAX: usize = TAKEN_MAX / 2;

/// A sampled packet, and the bytes that it represents.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Flow of the packet.
    pub key: FlowKey,
    /// Bytes that the sample represents: the packet's own, plus those of unsampled packets if not every packet is
    /// taken.
    pub bytes: u64,
}

/// A sample of the packets that a port sends.
#[derive(Debug)]
pub struct Talkers {
    taken: Vec<Taken>,
    /// Bytes per step; zero to take every packet.
    step: u64,
    /// Bytes since this step began, negative while the previous step is not over; and the chosen byte of the step.
    passed: i64,
    chosen: i64,
    /// Packets since the latest fetch.
    packets: usize,
    stream: Stream,
}

impl Talkers {
    /// An empty sample; `stream` chooses the bytes to sample.
    pub fn new(stream: Stream) -> Self {
        Self {
            taken: Vec::with_capacity(TAKEN_MAX),
            step: 0,
            passed: 0,
            chosen: 0,
            packets: 0,
            stream,
        }
    }

    /// Counts a sent packet of `bytes` bytes, and takes it if a chosen byte is in it.
    #[inline]
    pub fn sent(&mut self, bytes: u64, key: impl FnOnce() -> FlowKey) {
        self.packets += 1;
        self.passed += bytes as i64;
        if self.passed > self.chosen {
            self.take(key());
        }
    }

    fn take(&mut self, key: FlowKey) {
        let mut bytes = 0;
        if self.step == 0 {
            bytes = std::mem::take(&mut self.passed) as u64;
        }
        while self.passed > self.chosen {
            // A step that ends within the packet has its chosen byte in this packet; the next step, which begins there,
            // may have it in this packet as well.
            let steps = (self.passed as u64 / self.step).max(1) * self.step;
            bytes += steps;
            self.begin(self.passed - steps as i64);
        }
        self.taken.push(Taken { key, bytes });
        if self.taken.len() >= TAKEN_MAX {
            self.thin();
        }
    }

    /// Starts a step that began `passed` bytes ago; if negative, that begins later.
    fn begin(&mut self, passed: i64) {
        self.passed = passed;
        self.chosen = match self.step {
            0 => 0,
            step => (self.stream.next_u64() % step) as i64,
        };
    }

    /// Drops one of each two neighbours; the other represents both. Each stays with a probability proportional to its
    /// bytes.
    fn thin(&mut self) {
        for pair in 0..TAKEN_MAX / 2 {
            let [a, b] = [self.taken[2 * pair], self.taken[2 * pair + 1]];
            let bytes = a.bytes + b.bytes;
            let stays = if self.stream.next_u64() % bytes.max(1) < a.bytes {
                a
            } else {
                b
            };
            self.taken[pair] = Taken { bytes, ..stays };
        }
        self.taken.truncate(TAKEN_MAX / 2);
        self.adapt();
    }

    /// Sets the step such that the same bytes again would fill half of the memory.
    fn adapt(&mut self) {
        let bytes: u64 = self.taken.iter().map(|taken| taken.bytes).sum();
        self.step = match self.packets {
            ..=EXACT_MAX => 0,
            _ => bytes / EXACT_MAX as u64,
        };
        self.begin(0);
    }

    /// Takes the samples since the last call.
    pub fn fetch(&mut self) -> Vec<Taken> {
        self.adapt();
        self.packets = 0;
        std::mem::replace(&mut self.taken, Vec::with_capacity(TAKEN_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use weir_base::Streams;

    /// The bytes of each source port after one second of these packets.
    fn fetched(
        talkers: &mut Talkers,
        packets: impl Iterator<Item = (u16, u64)>,
    ) -> BTreeMap<u16, u64> {
        for (port, bytes) in packets {
            let address = [10, 0, 0, 1].into();
            talkers.sent(bytes, || FlowKey::ip(address, address, 17, port, 53));
            assert!(talkers.taken.len() < TAKEN_MAX);
        }
        let mut all = BTreeMap::new();
        for taken in talkers.fetch() {
            *all.entry(taken.key.source_port).or_default() += taken.bytes;
        }
        all
    }

    fn talkers() -> Talkers {
        Talkers::new(Streams::new(1).stream("talkers"))
    }

    #[test]
    fn a_slow_port_is_counted_exactly() {
        let mut talkers = talkers();
        for _ in 0..3 {
            let packets = (0..1000).map(|n| (n % 10, 60 + u64::from(n % 10)));
            let all = fetched(&mut talkers, packets);
            let expected = (0..10).map(|port| (port, 100 * (60 + u64::from(port))));
            assert!(all.into_iter().eq(expected));
        }
    }

    #[test]
    fn a_fast_port_is_estimated_in_fixed_memory() {
        // Full frames of one flow alternate with short frames of another; a third flow is rare. Slightly too many to
        // count, and far too many.
        for packets in [1500, 3000, 300_000] {
            let mut talkers = talkers();
            let mut sum: BTreeMap<u16, u64> = BTreeMap::new();
            for _ in 0..40 {
                let packets = (0..packets).map(|n| match n % 20 {
                    0 => (3, 1514),
                    n if n % 2 == 0 => (2, 142),
                    _ => (1, 1042),
                });
                let all = fetched(&mut talkers, packets);
                all.into_iter()
                    .for_each(|(port, bytes)| *sum.entry(port).or_default() += bytes);
            }
            let all: u64 = sum.values().sum();
            let whole = 10.0 * 1042.0 + 9.0 * 142.0 + 1514.0;
            for (port, bytes) in [(1, 10_420.0), (2, 1278.0), (3, 1514.0)] {
                let (share, expected) = (sum[&port] as f64 / all as f64, bytes / whole);
                assert!(
                    (share - expected).abs() < 0.012,
                    "{packets} {port}: {share} {expected}"
                );
            }
        }
    }
}
