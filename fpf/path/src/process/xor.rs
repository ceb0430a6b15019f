//! XOR coding of pairs of packets: of three packets, any one may be lost.
//!
//! ```text
//!  encoder    a --> leaf 0: a               decoder    a, b  --> a, b
//!             b --> leaf 1: b                          a, a^b --> a, b = a ^ (a^b)
//!                   leaf 2: a ^ b                      b, a^b --> b, a
//!
//!  behind the FPF header:
//!   0          1      2        4             8
//!  +----------+------+--------+-------------+---------
//!  | position |  0   | length | group        | payload       position: 0 first, 1 second, 2 parity
//!  +----------+------+--------+-------------+---------
//! ```
//!
//! Source: the paper names recoding, but does not specify it; this is the smallest possible code, one parity over two
//! packets (a [3, 2] code). The length field has the length of the payload, and in a parity the XOR of both lengths;
//! the shorter payload of a pair counts as padded with zeros. All numbers are big endian. Because of the length field,
//! a link layer may pad the packets.
//!
//! Leaves 0 and 1 should be different paths, and leaf 2 either of them or a third. Encoder and decoder pass on each
//! packet at once; only a repaired packet is late, by the time until the parity arrives. Gauges: [`Decoded`].
//!
//! - The last packet of an odd number has no parity until another packet comes.
//! - The decoder holds the sums of the latest [`GROUPS`] groups. It passes on data of an older group, although they may
//!   be duplicates; a parity of an older group is useless.
//! - A group that is further back than [`RESTART`] comes from an encoder that restarted.
//!
//! An attacker who can send to a decoder can make it "repair" a packet of their choice in a group that lacks one; they
//! could send that packet itself. Memory is bounded by `GROUPS` times [`PAYLOAD_MAX`].

use weir_packet::Reason;

use super::{PAYLOAD_MAX, Processor, Taken};

/// Bytes before the payload.
pub const HEADER_LEN: usize = 8;
/// Number of groups that a decoder holds.
pub const GROUPS: usize = 64;
/// A group that is older than the latest by this number is not late, but comes from an encoder that restarted.
pub const RESTART: u32 = 1 << 16;

/// The gauge of packets that were lost and repaired.
pub const REPAIRED: &str = "repaired";

/// The position of a parity in its group.
const PARITY: u8 = 2;

/// The sum of payloads, and of their lengths.
#[derive(Clone, Debug, Default)]
struct Sum {
    length: u16,
    bytes: Vec<u8>,
}

impl Sum {
    fn clear(&mut self) {
        self.length = 0;
        self.bytes.clear();
    }

    fn add(&mut self, length: u16, payload: &[u8]) {
        self.length ^= length;
        if self.bytes.len() < payload.len() {
            self.bytes.resize(payload.len(), 0);
        }
        for (byte, other) in self.bytes.iter_mut().zip(payload) {
            *byte ^= other;
        }
    }
}

/// Codes packets in pairs.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    group: u32,
    /// Whether the first packet of the group has arrived.
    has_first: bool,
    sum: Sum,
    out: Vec<u8>,
}

impl Encoder {
    fn give(
        &mut self,
        position: u8,
        length: u16,
        payload: &[u8],
        give: &mut dyn FnMut(usize, &[u8]),
    ) {
        self.out.clear();
        self.out.extend([position, 0]);
        self.out.extend(length.to_be_bytes());
        self.out.extend(self.group.to_be_bytes());
        self.out.extend(payload);
        give(position.into(), &self.out);
    }
}

impl Processor for Encoder {
    fn process(
        &mut self,
        Taken {
            payload: packet, ..
        }: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        if packet.len() > PAYLOAD_MAX {
            return Err(Reason::TooBig);
        }
        let length = packet.len() as u16; // at most PAYLOAD_MAX
        let position = u8::from(self.has_first);
        self.give(position, length, packet, give);
        self.sum.add(length, packet);
        if self.has_first {
            let sum = std::mem::take(&mut self.sum);
            self.give(PARITY, sum.length, &sum.bytes, give);
            self.sum = sum;
            self.sum.clear();
            self.group = self.group.wrapping_add(1);
        }
        self.has_first = !self.has_first;
        Ok(())
    }

    fn leaves(&self) -> usize {
        3
    }

    fn state_bytes_max(&self) -> usize {
        size_of_val(self) + 2 * PAYLOAD_MAX + HEADER_LEN
    }
}

/// The counts of a decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Packets that were lost and repaired.
    pub repaired: u64,
    /// Packets that arrived twice, or after their repair.
    pub duplicates: u64,
    /// Packets of groups that are no longer held.
    pub late: u64,
}

/// A group of two packets and their parity.
#[derive(Clone, Debug, Default)]
struct Group {
    number: u32,
    /// The positions that have arrived, a bit for each.
    seen: u8,
    /// The sum over all packets that have arrived.
    sum: Sum,
}

/// Decodes pairs of packets, and repairs a lost packet.
#[derive(Clone, Debug)]
pub struct Decoder {
    groups: Box<[Group]>,
    counts: Decoded,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            groups: vec![Group::default(); GROUPS].into(),
            counts: Decoded::default(),
        }
    }
}

impl Decoder {
    /// The counts of the decoder.
    pub fn counts(&self) -> Decoded {
        self.counts
    }
}

impl Processor for Decoder {
    fn process(
        &mut self,
        Taken {
            payload: packet, ..
        }: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        let (header, payload) = packet
            .split_first_chunk::<HEADER_LEN>()
            .ok_or(Reason::TruncatedHeader)?;
        let [position, _, length_high, length_low, number @ ..] = *header;
        let length = u16::from_be_bytes([length_high, length_low]);
        let number = u32::from_be_bytes(number);
        let payload = match position {
            0 | 1 => payload.get(..length.into()),
            PARITY => Some(payload),
            _ => None,
        };
        let payload = payload.filter(|payload| payload.len() <= PAYLOAD_MAX);
        let payload = payload.ok_or(Reason::TruncatedHeader)?;
        let group = &mut self.groups[number as usize % GROUPS];
        if group.seen == 0 || group.number != number {
            let behind = group.number.wrapping_sub(number);
            if group.seen != 0 && behind < RESTART {
                self.counts.late += 1;
                if position != PARITY {
                    give(0, payload);
                }
                return Ok(());
            }
            (group.number, group.seen) = (number, 0);
            group.sum.clear();
        }
        let bit = 1 << position;
        if group.seen & bit != 0 {
            self.counts.duplicates += 1;
            return Ok(());
        }
        group.seen |= bit;
        group.sum.add(length, payload);
        if position != PARITY {
            give(0, payload);
        }
        let is_second = group.seen.count_ones() == 2;
        if is_second && group.seen & 1 << PARITY != 0 {
            group.seen = 0b111; // if the lost packet arrives after all, it is a duplicate
            let lost = group.sum.bytes.get(..group.sum.length.into());
            give(0, lost.ok_or(Reason::TruncatedHeader)?);
            self.counts.repaired += 1;
        }
        Ok(())
    }

    fn leaves(&self) -> usize {
        1
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report(REPAIRED, self.counts.repaired);
        report("duplicates", self.counts.duplicates);
        report("late", self.counts.late);
    }

    fn state_bytes_max(&self) -> usize {
        size_of_val(self) + GROUPS * (size_of::<Group>() + PAYLOAD_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;

    fn taken(payload: &[u8]) -> Taken<'_> {
        Taken::new(payload, Instant::ZERO)
    }

    /// The packets that a processor gives for these packets.
    fn given<'a>(
        processor: &mut impl Processor,
        packets: impl IntoIterator<Item = &'a Vec<u8>>,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for packet in packets {
            let mut give = |leaf: usize, bytes: &[u8]| all.push((leaf, bytes.to_vec()));
            processor.process(taken(packet), &mut give).unwrap();
        }
        all
    }

    fn payloads(given: Vec<(usize, Vec<u8>)>) -> Vec<Vec<u8>> {
        given.into_iter().map(|(_, bytes)| bytes).collect()
    }

    #[test]
    fn a_pair_by_hand() {
        let coded = given(&mut Encoder::default(), &[vec![0x0f, 0x33], vec![0xff]]);
        let expected = [
            (0, vec![0, 0, 0, 2, 0, 0, 0, 0, 0x0f, 0x33]),
            (1, vec![1, 0, 0, 1, 0, 0, 0, 0, 0xff]),
            (2, vec![2, 0, 0, 3, 0, 0, 0, 0, 0xf0, 0x33]),
        ];
        assert_eq!(coded, expected);
    }

    proptest! {
        /// Whichever packet of a group is lost, and in any order of the others, all packets come out once.
        #[test]
        fn any_one_of_three_may_be_lost(
            packets in vec(vec(any::<u8>(), 0..60), 2..40),
            lost in vec(0_usize..4, 20),
            turned in vec(0_usize..2, 20),
        ) {
            let packets = &packets[..packets.len() & !1];
            let coded = payloads(given(&mut Encoder::default(), packets));
            let mut decoder = Decoder::default();
            let mut repaired = 0;
            for (place, group) in coded.chunks(3).enumerate() {
                let mut group: Vec<_> = group.to_vec();
                if lost[place] < 3 {
                    group.remove(lost[place]);
                    repaired += u64::from(lost[place] < 2);
                }
                let turn = turned[place] % group.len();
                group.rotate_left(turn);
                let mut out = payloads(given(&mut decoder, &group));
                let mut pair = packets[2 * place..2 * place + 2].to_vec();
                out.sort();
                pair.sort();
                prop_assert_eq!(out, pair);
            }
            // A parity that arrives before its second packet repairs that packet early.
            prop_assert!(decoder.counts().repaired >= repaired);
            prop_assert_eq!(decoder.counts().late, 0);
        }

        #[test]
        fn no_bytes_make_a_decoder_panic_or_grow(packets in vec(vec(any::<u8>(), 0..40), 0..200)) {
            let mut decoder = Decoder::default();
            for packet in &packets {
                let mut gives = 0;
                let _ = decoder.process(taken(packet), &mut |_, _| gives += 1);
                prop_assert!(gives <= 2);
            }
            let held: usize = decoder.groups.iter().map(|g| g.sum.bytes.capacity()).sum();
            prop_assert!(held <= decoder.state_bytes_max());
        }
    }

    #[test]
    fn two_of_three_lost_are_lost() {
        let coded = payloads(given(&mut Encoder::default(), &[vec![1], vec![2]]));
        for (place, expected) in [(0, vec![vec![1]]), (1, vec![vec![2]]), (2, vec![])] {
            assert_eq!(
                payloads(given(&mut Decoder::default(), [&coded[place]])),
                expected
            );
        }
    }

    #[test]
    fn what_comes_twice_or_late_is_counted() {
        let packets: Vec<Vec<u8>> = (0..=2 * GROUPS as u8 + 1).map(|n| vec![n]).collect();
        let coded = payloads(given(&mut Encoder::default(), &packets));
        let mut decoder = Decoder::default();
        assert_eq!(given(&mut decoder, &coded).len(), packets.len());
        assert_eq!(decoder.counts(), Decoded::default());
        assert!(given(&mut decoder, [coded.last().unwrap()]).is_empty());
        // By now the last group has taken the first group's place.
        assert_eq!(payloads(given(&mut decoder, &coded[..3])), [[0], [1]]);
        let counts = decoder.counts();
        assert_eq!((counts.duplicates, counts.late), (1, 3));
    }

    #[test]
    fn an_encoder_that_begins_anew_is_followed() {
        let mut encoder = Encoder {
            group: RESTART + 5 * GROUPS as u32,
            ..Encoder::default()
        };
        let mut decoder = Decoder::default();
        given(
            &mut decoder,
            &payloads(given(&mut encoder, &[vec![1], vec![2]])),
        );
        let coded = payloads(given(&mut Encoder::default(), &[vec![3], vec![4]]));
        let out = payloads(given(&mut decoder, &coded[1..]));
        assert_eq!(out, [[4], [3]]);
        assert_eq!(decoder.counts().late, 0);
    }

    #[test]
    fn too_long_is_refused() {
        let mut encoder = Encoder::default();
        let long = vec![0; PAYLOAD_MAX + 1];
        assert_eq!(
            encoder.process(taken(&long), &mut |_, _| {}),
            Err(Reason::TooBig)
        );
        assert_eq!(
            Decoder::default().process(taken(&[0; 7]), &mut |_, _| {}),
            Err(Reason::TruncatedHeader)
        );
    }
}
