//! A small cache of the ways out, by destination.
//!
//! Longest prefix match, interface and neighbour take three look-ups in three tables; most packets
//! go where one has just gone. The cache is direct-mapped: an entry is found or replaced at one
//! place, so a sender of many destinations makes it useless but never slow. It is emptied with each
//! new snapshot of the tables, and holds no route with several next hops, because there the flow
//! decides.
//!
//! It also knows which neighbours are in use, so that the kernel can be asked to verify them: a look-up
//! marks the neighbour of the way that it finds.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::ip::forward::{Exit, Neighbourhood};

/// Destinations at most: 256 kB, which fits a core's second-level cache.
const ENTRIES: usize = 4096;
/// Neighbours whose use is known. With more of them it is known of a part.
const NEIGHBOURS_MAX: usize = 65_536;

/// A way out: where to, and how much fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Interface and neighbour.
    pub exit: Exit,
    /// The longest IP packet that the interface carries.
    pub mtu: u32,
}

/// The cache.
#[derive(Debug)]
pub struct Ways {
    entries: Box<[Option<Entry>]>,
    neighbours: Vec<Neighbourhood>,
    /// By the neighbours' numbers.
    used: Vec<bool>,
    numbers: HashMap<Neighbourhood, u16>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    destination: IpAddr,
    /// The neighbour's number.
    neighbour: u16,
    way: Way,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            entries: vec![None; ENTRIES].into_boxed_slice(),
            neighbours: Vec::new(),
            used: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl Ways {
    /// The way to a destination, if it is remembered.
    #[inline]
    pub fn get(&mut self, destination: IpAddr) -> Option<Way> {
        match &self.entries[place(destination)] {
            Some(entry) if entry.destination == destination => {
                self.used[usize::from(entry.neighbour)] = true;
                Some(entry.way)
            }
            _ => None,
        }
    }

    /// Remembers the way to a destination, which leads over this neighbour.
    pub fn set(&mut self, destination: IpAddr, way: Way, neighbour: Neighbourhood) {
        let number = match self.numbers.get(&neighbour) {
            Some(number) => *number,
            None => self.number(neighbour),
        };
        self.used[usize::from(number)] = true;
        self.entries[place(destination)] = Some(Entry {
            destination,
            neighbour: number,
            way,
        });
    }

    /// Forgets every way: the tables have changed. Who was used stays known.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }

    /// The neighbours that were used since the last call.
    pub fn take_used(&mut self) -> Vec<Neighbourhood> {
        let all = self.neighbours.iter().zip(&self.used);
        let used = all.filter(|(_, used)| **used).map(|(n, _)| *n).collect();
        self.forget_all();
        used
    }

    /// A number for one more neighbour.
    fn number(&mut self, neighbour: Neighbourhood) -> u16 {
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
        self.clear(); // the ways have the neighbours' numbers
        self.neighbours.clear();
        self.used.clear();
        self.numbers.clear();
    }
}

#[inline]
fn place(destination: IpAddr) -> usize {
    spread(destination, ENTRIES)
}

/// Spreads addresses over so many entries, a power of two. Not keyed: a collision costs one look-up,
/// nothing else.
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
    fn a_way_is_found_until_it_is_replaced_or_forgotten() {
        let way = |interface| Way {
            exit: Exit {
                interface,
                source: [1; 6],
                destination: [2; 6],
            },
            mtu: 1500,
        };
        let mut ways = Ways::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let via = |interface| (interface, address(99));
        ways.set(address(1), way(1), via(1));
        assert_eq!(ways.get(address(1)), Some(way(1)));
        let same_place = (2..)
            .map(address)
            .find(|a| place(*a) == place(address(1)))
            .unwrap();
        assert_eq!(ways.get(same_place), None);
        ways.set(same_place, way(2), via(2));
        assert_eq!(ways.get(address(1)), None);
        ways.clear();
        assert_eq!(ways.get(same_place), None);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        ways.set(v6, way(3), via(1));
        assert_eq!(ways.get(v6), Some(way(3)));
        assert_eq!(ways.take_used(), [via(1), via(2)]);
    }

    #[test]
    fn who_is_used_is_known_whatever_else_is_forgotten() {
        let way = Way {
            exit: Exit {
                interface: 1,
                source: [1; 6],
                destination: [2; 6],
            },
            mtu: 1500,
        };
        let mut ways = Ways::default();
        let address = |n: u32| IpAddr::V4(n.into());
        for n in 0..3 {
            ways.set(address(n), way, (1, address(n)));
        }
        ways.clear();
        assert_eq!(ways.take_used().len(), 3);
        assert_eq!(ways.take_used(), []);
        ways.set(address(7), way, (1, address(7)));
        ways.get(address(7));
        ways.get(address(8));
        assert_eq!(ways.take_used(), [(1, address(7))]);
        // A bound on the memory, at the price of some marks.
        for n in 0..=NEIGHBOURS_MAX as u32 {
            ways.set(address(n), way, (1, address(n)));
        }
        assert_eq!(ways.take_used(), [(1, address(NEIGHBOURS_MAX as u32))]);
    }
}
