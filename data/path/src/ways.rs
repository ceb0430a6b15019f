//! A small cache of the ways out, by destination.
//!
//! Longest prefix match, interface and neighbour take three look-ups in three tables; most packets
//! go where one has just gone. The cache is direct-mapped: an entry is found or replaced at one
//! place, so a sender of many destinations makes it useless but never slow. It is emptied with each
//! new snapshot of the tables, and holds no route with several next hops, because there the flow
//! decides.

use std::net::IpAddr;

use crate::forward::Exit;

/// Destinations at most: 256 kB, which fits a core's second-level cache.
const ENTRIES: usize = 4096;

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
    entries: Box<[Option<(IpAddr, Way)>]>,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            entries: vec![None; ENTRIES].into_boxed_slice(),
        }
    }
}

impl Ways {
    /// The way to a destination, if it is remembered.
    #[inline]
    pub fn get(&self, destination: IpAddr) -> Option<Way> {
        match self.entries[place(destination)] {
            Some((known, way)) if known == destination => Some(way),
            _ => None,
        }
    }

    /// Remembers the way to a destination.
    pub fn set(&mut self, destination: IpAddr, way: Way) {
        self.entries[place(destination)] = Some((destination, way));
    }

    /// Forgets everything: the tables have changed.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }
}

/// Spreads addresses over the entries. Not keyed: a collision costs one look-up, nothing else.
#[inline]
fn place(destination: IpAddr) -> usize {
    let word = match destination {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            (bits >> 64) as u64 ^ bits as u64
        }
    };
    // Fibonacci hashing: the high bits of a product with 2^64 / phi.
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.ilog2())) as usize
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
        ways.set(address(1), way(1));
        assert_eq!(ways.get(address(1)), Some(way(1)));
        let same_place = (2..)
            .map(address)
            .find(|a| place(*a) == place(address(1)))
            .unwrap();
        assert_eq!(ways.get(same_place), None);
        ways.set(same_place, way(2));
        assert_eq!(ways.get(address(1)), None);
        ways.clear();
        assert_eq!(ways.get(same_place), None);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        ways.set(v6, way(3));
        assert_eq!(ways.get(v6), Some(way(3)));
    }
}
