//! Longest prefix match for IPv4 and IPv6.
//!
//! ```text
//!  address --16 bits--> [ root ] --8 bits--> [ node ] --8 bits--> [ node ] ... --> [ bucket ]
//!                        value                default, value       default, value   default, prefixes
//!
//!  The last value found on the way is the answer: a route's number.
//! ```
//!
//! - [`trie`]: the structure that a packet's address is looked up in
//! - [`bucket`]: its leaves, where few prefixes are left
//! - [`pages`]: its memory
//! - [`sorted`]: all prefixes in order, to list them and to rebuild small parts of the trie
//! - [`numbers`]: the distinct routes, each once
//!
//! Source: multibit tries with compressed nodes (Degermark et al., "Small forwarding tables for fast routing lookups",
//! SIGCOMM 1997; Eatherton et al., "Tree bitmap", CCR 2004; Asai and Ohara, "Poptrie", SIGCOMM 2015). A node covers
//! eight bits and stores one value for each run of equal slots. The differences:
//!
//! - The value of a prefix is not pushed further down than to the next nodes, as their default. So a change touches one
//!   node and at most 256 below it, however many longer prefixes the changed one covers. (Prefixes of up to 16 bits
//!   change up to 65 536 slots of the root.)
//! - A few prefixes need no nodes of their own: they share a *bucket*, one or two cache lines that are searched at
//!   once. So an IPv6 route of 48 bits takes three or four cache lines instead of seven or more.
//! - The whole structure is stored in pages that snapshots share. A change copies only the pages that it touches, and
//!   only if a snapshot still uses them.
//!
//! Bounds: an IPv4 lookup passes at most 2 nodes and a bucket, an IPv6 lookup at most 14 nodes. A node exists only
//! where more prefixes than fit a bucket start with the same bits, so the most expensive set of prefixes (clusters of
//! four IPv6 hosts each) takes 14 lines of 64 bytes for four routes.

mod address;
mod bucket;
mod entry;
pub(crate) mod numbers;
mod pages;
mod sorted;
mod trie;

use std::net::{Ipv4Addr, Ipv6Addr};

use address::Address;
use entry::Leaf;
pub(crate) use sorted::Sorted;
use trie::Trie;

/// Maximum packets that are looked up at once.
pub const BURST: usize = 64;

/// A prefix: its address, with zeros after the prefix, and its length.
type Prefix<A> = (A, u8);

/// The prefixes of one family, each with the number of its route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup<A: Address> {
    routes: Sorted<Prefix<A>, u32>,
    trie: Trie<A>,
}

/// At most [`BURST`] items, without an allocation.
pub(crate) struct Batch<T> {
    items: [T; BURST],
    len: usize,
}

/// The prefixes of IPv4.
pub(crate) type Lookup4 = Lookup<u32>;
/// The prefixes of IPv6.
pub(crate) type Lookup6 = Lookup<u128>;

impl<A: Address> Lookup<A> {
    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Bytes of the lookup structure.
    pub(crate) fn bytes(&self) -> usize {
        self.trie.bytes()
    }

    /// Adds a prefix, and returns the number that it had before. The number is from 1 to [`numbers::MAX`].
    pub(crate) fn insert(&mut self, (address, len): Prefix<A>, number: u32) -> Option<u32> {
        let prefix = (address.truncated(len), len);
        let before = self.routes.insert(prefix, number);
        if before != Some(number) {
            self.trie
                .insert(&self.routes, prefix, number, before.is_none());
        }
        before
    }

    /// Removes a prefix, and returns its number.
    pub(crate) fn remove(&mut self, (address, len): Prefix<A>) -> Option<u32> {
        let prefix = (address.truncated(len), len);
        let number = self.routes.remove(&prefix)?;
        let covering = self.covering(prefix);
        self.trie.remove(&self.routes, prefix, covering);
        Some(number)
    }

    /// The longest prefix that covers an address, and the number of its route.
    #[inline]
    pub(crate) fn find(&self, address: A) -> Option<(Prefix<A>, u32)> {
        let found = self.trie.find(address);
        let len = found.len();
        (found != Leaf::NONE).then(|| ((address.truncated(len), len), found.number()))
    }

    /// The numbers of the routes of at most [`BURST`] addresses, zero where there is none: the same as from
    /// [`Self::find`], but cache misses of different addresses overlap.
    #[inline]
    pub(crate) fn find_all(&self, addresses: &[A], numbers: &mut [u32; BURST]) {
        self.trie.find_all(addresses, numbers);
    }

    /// All prefixes in order, with the numbers of their routes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix<A>, u32)> {
        self.routes
            .iter()
            .map(|(prefix, number)| (*prefix, *number))
    }

    /// The longest other prefix that covers this one, and the number of its route.
    pub(crate) fn shorter(&self, (address, len): Prefix<A>) -> Option<(Prefix<A>, u32)> {
        let found = self.covering((address.truncated(len), len));
        let len = found.len();
        (found != Leaf::NONE).then(|| ((address.truncated(len), len), found.number()))
    }

    /// The longest other prefix that covers this one.
    ///
    /// In sorted order, every prefix between the covering prefix and this one lies within the covering prefix. So the
    /// covering prefix also covers the direct predecessor, and is at most as long as the bits that both have in common.
    /// The same argument then holds for those common bits.
    fn covering(&self, (address, len): Prefix<A>) -> Leaf {
        let Some(mut len) = len.checked_sub(1) else {
            return Leaf::NONE;
        };
        while let Some((before, number)) = self.routes.last_to(&(address.truncated(len), len)) {
            let common = address.common_bits(before.0);
            if common >= before.1 {
                return Leaf::new(before.1, *number);
            }
            len = common; // less than before
        }
        Leaf::NONE
    }
}

impl<T: Copy + Default> Batch<T> {
    /// No items.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            items: [T::default(); BURST],
            len: 0,
        }
    }

    /// Adds an item; drops it if the batch is full.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if let Some(place) = self.items.get_mut(self.len) {
            *place = item;
            self.len += 1;
        }
    }

    /// The items.
    #[inline]
    pub(crate) fn get(&self) -> &[T] {
        &self.items[..self.len]
    }
}

impl Lookup4 {
    /// A prefix of IPv4.
    pub(crate) fn prefix(net: ipnet::Ipv4Net) -> Prefix<u32> {
        (net.addr().to_bits(), net.prefix_len())
    }

    /// Converts a prefix to a network.
    pub(crate) fn net((address, len): Prefix<u32>) -> Option<ipnet::Ipv4Net> {
        ipnet::Ipv4Net::new(Ipv4Addr::from_bits(address), len).ok()
    }
}

impl Lookup6 {
    /// A prefix of IPv6.
    pub(crate) fn prefix(net: ipnet::Ipv6Net) -> Prefix<u128> {
        (net.addr().to_bits(), net.prefix_len())
    }

    /// Converts a prefix to a network.
    pub(crate) fn net((address, len): Prefix<u128>) -> Option<ipnet::Ipv6Net> {
        ipnet::Ipv6Net::new(Ipv6Addr::from_bits(address), len).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefix_trie::PrefixMap;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rand::Rng;
    use weir_base::Streams;

    /// A change of a table: a prefix with few different bits, so that prefixes cover each other, and its new number;
    /// zero removes it.
    type Change = (u128, u8, u32);

    /// Addresses that agree in many bits: each byte is one of four.
    fn address() -> impl Strategy<Value = u128> {
        vec(prop::sample::select(vec![0_u8, 1, 0x80, 0xff]), 16).prop_map(|bytes| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
        })
    }

    fn changes(bits: u8) -> impl Strategy<Value = Vec<Change>> {
        // Half of the changes are to prefixes of few common bits, which crowd together.
        let crowded = (0_u128..512, 0..=bits).prop_map(move |(a, len)| (a << 119, len));
        let prefix = prop_oneof![(address(), 0..=bits), crowded];
        vec((prefix, 0_u32..6), 1..400)
            .prop_map(|all| all.into_iter().map(|((a, len), n)| (a, len, n)).collect())
    }

    /// The longest prefix that covers an address, found by trying all.
    fn slow<A: Address>(lookup: &[(Prefix<A>, u32)], address: A) -> Option<(Prefix<A>, u32)> {
        let covers = |(a, len): Prefix<A>| address.truncated(len) == a;
        let covering = lookup.iter().filter(|(prefix, _)| covers(*prefix));
        covering.max_by_key(|(prefix, _)| prefix.1).copied()
    }

    fn check<A: Address>(lookup: &Lookup<A>, addresses: &[A]) -> Result<(), TestCaseError> {
        let all: Vec<_> = lookup.iter().collect();
        for addresses in addresses.chunks(BURST) {
            let mut numbers = [77; BURST];
            lookup.find_all(addresses, &mut numbers);
            for (address, number) in addresses.iter().zip(numbers) {
                let expected = slow(&all, *address);
                prop_assert_eq!(lookup.find(*address), expected, "{:?}", address);
                prop_assert_eq!(number, expected.map_or(0, |(_, number)| number));
            }
        }
        Ok(())
    }

    /// Applies changes, and compares with the reference after each fiftieth change; compares the snapshots from those
    /// times again at the end.
    fn compare<A: Address>(
        changes: Vec<Change>,
        addresses: Vec<u128>,
        cut: fn(u128) -> A,
    ) -> Result<(), TestCaseError> {
        let mut lookup = Lookup::default();
        let mut prefixes = std::collections::BTreeMap::new();
        let mut snapshots = Vec::new();
        let mut tried: Vec<A> = addresses.into_iter().map(cut).collect();
        // Addresses at both ends of prefixes, and beyond them.
        for (address, len, _) in changes.iter().step_by(3) {
            let first = address & u128::MAX.checked_shl(128 - u32::from(*len)).unwrap_or(0);
            let last = first | u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
            tried.extend(
                [
                    first,
                    last,
                    first.wrapping_sub(1 << 96),
                    last.wrapping_add(1),
                ]
                .map(cut),
            );
        }
        for (n, (address, len, number)) in changes.into_iter().enumerate() {
            let prefix = (cut(address), len);
            let key = (cut(address).truncated(len), len);
            match number {
                0 => prop_assert_eq!(lookup.remove(prefix), prefixes.remove(&key)),
                _ => prop_assert_eq!(lookup.insert(prefix, number), prefixes.insert(key, number)),
            }
            if n % 50 == 0 {
                check(&lookup, &tried)?;
                snapshots.push((lookup.clone(), prefixes.clone()));
            }
        }
        check(&lookup, &tried)?;
        for (snapshot, prefixes) in &snapshots {
            prop_assert!(snapshot.iter().eq(prefixes.iter().map(|(p, n)| (*p, *n))));
            check(snapshot, &tried)?;
        }
        for prefix in prefixes.keys() {
            lookup.remove(*prefix);
        }
        prop_assert_eq!(lookup.trie.nodes_and_buckets(), 0);
        check(&lookup, &tried)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn ipv4_finds_the_longest_prefix(changes in changes(32), addresses in vec(address(), 64)) {
            compare(changes, addresses, |bits| (bits >> 96) as u32)?;
        }

        #[test]
        fn ipv6_finds_the_longest_prefix(changes in changes(128), addresses in vec(address(), 64)) {
            compare(changes, addresses, |bits| bits)?;
        }
    }

    #[test]
    fn a_table_of_the_internets_size_agrees_with_another_implementation() {
        let mut random = Streams::new(1).stream("routes");
        let (mut lookup, mut reference) = (Lookup6::default(), PrefixMap::new());
        let mut addresses = Vec::new();
        for n in 0..60_000_u32 {
            // Networks of 32 bits within a few blocks, and networks within those.
            let block = 0x2a00_u128 << 112 | u128::from(random.next_u32() % 4096) << 100;
            let inside = u128::from(random.next_u32()) << 68;
            let len = [32, 36, 40, 44, 48, 48, 48, 64, 128][random.next_u32() as usize % 9];
            let net = ipnet::Ipv6Net::new(Ipv6Addr::from_bits(block | inside), len).unwrap();
            match n % 4 {
                3 => {
                    let old: ipnet::Ipv6Net =
                        addresses[random.next_u32() as usize % addresses.len()];
                    assert_eq!(
                        lookup.remove(Lookup6::prefix(old.trunc())),
                        reference.remove(&old.trunc())
                    );
                }
                _ => {
                    let before = lookup.insert(Lookup6::prefix(net), n + 1);
                    assert_eq!(before, reference.insert(net.trunc(), n + 1));
                }
            }
            addresses.push(net);
        }
        assert_eq!(lookup.len(), reference.len());
        for net in addresses {
            let host = ipnet::Ipv6Net::from(net.addr());
            let expected = reference.get_lpm(&host);
            let found = lookup.find(net.addr().to_bits());
            let found = found.map(|(prefix, number)| (Lookup6::net(prefix).unwrap(), number));
            assert_eq!(found, expected.map(|(prefix, number)| (prefix, *number)));
        }
    }
}
