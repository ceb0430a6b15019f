//! Local identifiers (LIDs): their size by equation (1), and the assignment of a domain's LIDs to rules.
//!
//! ```text
//!   LS+ = ceil(log2(DD * DB + SR) / 8)                                                      equation (1), in bytes
//!         DD: links to other domains, DB: behaviours, SR: special rules
//! ```
//!
//! A LID is valid only in its domain. It identifies an exit of the domain with a behaviour, an edge FE that removes the
//! header, copies for the leaves of a multicast tree, or a processor. Allocation is stable: a LID keeps its rule until
//! it is released. A new LID gets a number that was never used; released numbers are reused only when no unused number
//! is left, the oldest first. Therefore packets in transit with an old LID match no rule, instead of a wrong rule.
//!
//! Deviation: equation (1) gives zero bytes for a single rule; our LIDs have at least one byte.

use std::collections::{BTreeMap, VecDeque};

use super::topology::{FeId, LinkId, Payload};

/// Maximum bytes of a LID: a table that is indexed by two bytes has 65536 rows.
pub(super) const LID_BYTES_MAX: u32 = 2;

/// Bytes of a LID by equation (1), for a domain with these numbers of links to other domains, of behaviours and of
/// special rules; at least one.
///
/// ```
/// # use weir_paths::lid_bytes;
/// // Table II: a domain with 60 links, three behaviours, and a special rule for each link.
/// assert_eq!(lid_bytes(60, 3, 60), 1);
/// assert_eq!(lid_bytes(2972, 3, 2972), 2);
/// ```
pub fn lid_bytes(degree: u64, behaviours: u64, special: u64) -> u32 {
    let rules = degree.saturating_mul(behaviours).saturating_add(special);
    let bits = u64::BITS - rules.saturating_sub(1).leading_zeros(); // log2, rounded up
    bits.div_ceil(8).max(1)
}

/// A local identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lid {
    /// Number of the LID.
    pub value: u16,
    /// Bytes of the LID in a vector, 1 or 2; the same for all LIDs of a domain.
    pub bytes: u8,
}

impl Lid {
    /// Appends the bytes of the LID, most significant byte first.
    pub fn append_to(self, vector: &mut Vec<u8>) {
        let [high, low] = self.value.to_be_bytes();
        match self.bytes {
            1 => vector.push(low),
            _ => vector.extend([high, low]),
        }
    }
}

/// The meaning of a LID, which determines its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meaning {
    /// The path through the domain and over this link, with the behaviour of this index.
    Exit {
        /// The link to another domain.
        link: LinkId,
        /// Index of the behaviour in the domain.
        behaviour: usize,
    },
    /// The path to this FE, which removes the header.
    Deliver {
        /// The edge FE.
        fe: FeId,
        /// The kind of the packets in the header.
        payload: Payload,
        /// Index of the behaviour in the domain.
        behaviour: usize,
    },
    /// Copies for the leaves of a multicast tree: the number of the tree, and the FE that makes the copies.
    Copies(u64, FeId),
    /// The path to this FE, where the processor with this number receives the payload.
    Process(FeId, u32),
}

/// The LIDs of a domain.
#[derive(Clone, Debug)]
pub(super) struct Lids {
    bytes: u8,
    of: BTreeMap<Meaning, u16>,
    /// The lowest number that was never used.
    fresh: u32,
    /// Released numbers, the oldest first.
    released: VecDeque<u16>,
}

/// All identifiers are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Lids {
    /// An empty set; each LID will have this number of bytes, 1 or 2.
    pub(super) fn new(bytes: u8) -> Self {
        Self {
            bytes,
            of: BTreeMap::new(),
            fresh: 0,
            released: VecDeque::new(),
        }
    }

    /// Bytes per LID.
    pub(super) fn bytes(&self) -> u8 {
        self.bytes
    }

    /// The LID with a meaning.
    pub(super) fn get(&self, meaning: Meaning) -> Option<Lid> {
        let value = *self.of.get(&meaning)?;
        Some(self.lid(value))
    }

    /// The LID with a meaning; allocates a LID if there is none.
    pub(super) fn allocate(&mut self, meaning: Meaning) -> Result<Lid, Full> {
        if let Some(lid) = self.get(meaning) {
            return Ok(lid);
        }
        let value = match u16::try_from(self.fresh) {
            Ok(value) if self.fresh < 1 << (8 * u32::from(self.bytes)) => {
                self.fresh += 1;
                value
            }
            _ => self.released.pop_front().ok_or(Full)?,
        };
        self.of.insert(meaning, value);
        Ok(self.lid(value))
    }

    /// Releases the LID with a meaning.
    pub(super) fn release(&mut self, meaning: Meaning) {
        self.released.extend(self.of.remove(&meaning));
    }

    /// All LIDs with their meanings, ordered by meaning.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Meaning, Lid)> {
        self.of
            .iter()
            .map(|(meaning, value)| (*meaning, self.lid(*value)))
    }

    fn lid(&self, value: u16) -> Lid {
        Lid {
            value,
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_1_gives_the_sizes_of_table_2() {
        let bytes = [6, 60, 128, 2000, 2972].map(|degree| lid_bytes(degree, 3, degree));
        assert_eq!(bytes, [1, 1, 2, 2, 2]);
        // One byte is enough for at most 256 rules: 64 links.
        assert_eq!([64, 65].map(|degree| lid_bytes(degree, 3, degree)), [1, 2]);
        assert_eq!(lid_bytes(16_384, 3, 16_384), 2);
        assert_eq!(lid_bytes(16_385, 3, 16_385), 3);
        assert_eq!([lid_bytes(0, 1, 0), lid_bytes(1, 1, 0)], [1, 1]);
    }

    #[test]
    fn a_released_number_comes_back_last() {
        let exit = |link| Meaning::Exit {
            link: LinkId(link),
            behaviour: 0,
        };
        let mut lids = Lids::new(1);
        let all: Vec<u16> = (0..256)
            .map(|n| lids.allocate(exit(n)).unwrap().value)
            .collect();
        assert_eq!(all, (0..256).collect::<Vec<_>>());
        assert_eq!(lids.allocate(exit(256)), Err(Full));
        assert_eq!(lids.allocate(exit(7)).unwrap().value, 7);
        lids.release(exit(9));
        lids.release(exit(3));
        lids.release(exit(1000));
        assert_eq!(lids.get(exit(9)), None);
        let again = [300, 301].map(|n| lids.allocate(exit(n)).unwrap().value);
        assert_eq!(again, [9, 3]);
        assert_eq!(lids.allocate(exit(302)), Err(Full));
    }

    #[test]
    fn a_vector_has_the_most_significant_byte_first() {
        let mut vector = Vec::new();
        let lid = |value, bytes| Lid { value, bytes };
        lid(0xa1, 1).append_to(&mut vector);
        lid(0x1234, 2).append_to(&mut vector);
        assert_eq!(vector, [0xa1, 0x12, 0x34]);
    }
}
