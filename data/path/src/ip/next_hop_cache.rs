//! A small cache of next hops, by destination.
//!
//! Longest prefix match, interface and neighbour take three look-ups in three tables, and most packets go
//! where another has just gone. The cache is direct-mapped: an entry is found or replaced at one place, so
//! a sender to many destinations makes it useless but never slow. It is emptied with each new snapshot of
//! the tables. Routes with several next hops are not cached, because there the next hop depends on the flow.
//!
//! It also records which neighbours are in use, so that the kernel can be asked to verify them: a look-up
//! marks the neighbour that it finds.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::ip::tables::{Mac, NeighbourKey};

/// Maximum destinations: 256 kB, which fits in a core's second-level cache.
const ENTRIES: usize = 4096;
/// Maximum neighbours whose use is recorded. If there are more, only some are recorded.
const NEIGHBOURS_MAX: usize = 65_536;

/// A next hop with everything needed to send there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Kernel index of the interface.
    pub interface: u32,
    /// Its MAC address.
    pub source: Mac,
    /// The neighbour's MAC address.
    pub destination: Mac,
    /// The longest IP packet that the interface carries.
    pub mtu: u32,
}

/// The cache.
#[derive(Debug)]
pub struct NextHopCache {
    entries: Box<[Option<Entry>]>,
    neighbours: Vec<NeighbourKey>,
    /// By the neighbours' numbers.
    used: Vec<bool>,
    numbers: HashMap<NeighbourKey, u16>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    destination: IpAddr,
    /// The neighbour's number.
    neighbour: u16,
    next_hop: Adjacency,
}

impl Default for NextHopCache {
    fn default() -> Self {
        Self {
            entries: vec![None; ENTRIES].into_boxed_slice(),
            neighbours: Vec::new(),
            used: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl NextHopCache {
    /// The next hop to a destination, if it is cached.
    #[inline]
    pub fn get(&mut self, destination: IpAddr) -> Option<Adjacency> {
        match &self.entries[place(destination)] {
            Some(entry) if entry.destination == destination => {
                self.used[usize::from(entry.neighbour)] = true;
                Some(entry.next_hop)
            }
            _ => None,
        }
    }

    /// Caches the next hop to a destination; it is this neighbour.
    pub fn set(&mut self, destination: IpAddr, next_hop: Adjacency, neighbour: NeighbourKey) {
        let number = match self.numbers.get(&neighbour) {
            Some(number) => *number,
            None => self.number(neighbour),
        };
        self.used[usize::from(number)] = true;
        self.entries[place(destination)] = Some(Entry {
            destination,
            neighbour: number,
            next_hop,
        });
    }

    /// Empties the cache: the tables have changed. The marks of neighbours stay.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }

    /// The neighbours that were used since the last call.
    pub fn take_used(&mut self) -> Vec<NeighbourKey> {
        let all = self.neighbours.iter().zip(&self.used);
        let used = all.filter(|(_, used)| **used).map(|(n, _)| *n).collect();
        self.forget_all();
        used
    }

    /// A number for one more neighbour.
    fn number(&mut self, neighbour: NeighbourKey) -> u16 {
        if self.neighbours.len() >= NEIGHBOURS_MAX {
            self.forget_all();
        }
        let number = self.neighbours.len() as u16; // below NEIGHBOURS_MAX
        self.neighbours.push(neighbour);
        self.used.push(false);
        self.numbers.insert(neighbour, number);
        number
    }

    fn forget_all(&mut self) {
        self.clear(); // its entries have the neighbours' numbers
        self.neighbours.clear();
        self.used.clear();
        self.numbers.clear();
    }
}

#[inline]
fn place(destination: IpAddr) -> usize {
    spread(destination, ENTRIES)
}

/// Spreads addresses over `entries`, a power of two. Not keyed: a collision costs one look-up, nothing
/// else.
#[inline]
pub(crate) fn spread(address: IpAddr, entries: usize) -> usize {
    let word = match address {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            (bits >> 64) as u64 ^ bits as u64
        }
    };
    // Fibonacci hashing: the high bits of a product with 2^64 / phi.
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - entries.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_hop_is_found_until_it_is_replaced_or_forgotten() {
        let hop = |interface| Adjacency {
            interface,
            source: [1; 6],
            destination: [2; 6],
            mtu: 1500,
        };
        let mut cache = NextHopCache::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let via = |interface| (interface, address(99));
        cache.set(address(1), hop(1), via(1));
        assert_eq!(cache.get(address(1)), Some(hop(1)));
        let same_place = (2..)
            .map(address)
            .find(|a| place(*a) == place(address(1)))
            .unwrap();
        assert_eq!(cache.get(same_place), None);
        cache.set(same_place, hop(2), via(2));
        assert_eq!(cache.get(address(1)), None);
        cache.clear();
        assert_eq!(cache.get(same_place), None);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        cache.set(v6, hop(3), via(1));
        assert_eq!(cache.get(v6), Some(hop(3)));
        assert_eq!(cache.take_used(), [via(1), via(2)]);
    }

    #[test]
    fn marks_of_neighbours_outlive_the_entries() {
        let hop = Adjacency {
            interface: 1,
            source: [1; 6],
            destination: [2; 6],
            mtu: 1500,
        };
        let mut cache = NextHopCache::default();
        let address = |n: u32| IpAddr::V4(n.into());
        for n in 0..3 {
            cache.set(address(n), hop, (1, address(n)));
        }
        cache.clear();
        assert_eq!(cache.take_used().len(), 3);
        assert_eq!(cache.take_used(), []);
        cache.set(address(7), hop, (1, address(7)));
        cache.get(address(7));
        cache.get(address(8));
        assert_eq!(cache.take_used(), [(1, address(7))]);
        // The memory is bounded, at the price of some marks.
        for n in 0..=NEIGHBOURS_MAX as u32 {
            cache.set(address(n), hop, (1, address(n)));
        }
        assert_eq!(cache.take_used(), [(1, address(NEIGHBOURS_MAX as u32))]);
    }
}
