//! Next hops with everything needed to send there, kept from packet to packet.
//!
//! ```text
//!  route's number --> [ adjacency ]               a route with one gateway: by its number, without a search
//!  destination    --> [ destination, adjacency ]  a neighbour of its own on the link: direct-mapped
//! ```
//!
//! Interface and neighbour take two lookups in two tables. The cache keeps their results until a new snapshot of the
//! tables arrives. The lookup of the route itself is not cached: that would help only while destinations are few.
//! Destinations on the link have a direct-mapped cache: a destination has only one possible slot, so a sender to many
//! destinations makes the cache useless but never slow. Routes with several next hops are not cached, because there the
//! next hop depends on the flow.
//!
//! The cache also records which neighbours are in use, so that the kernel can be asked to verify them: each use marks
//! the neighbour.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::ip::tables::{Mac, NeighbourKey};

/// Maximum destinations: 256 kB, which fits in a core's second-level cache.
const DESTINATIONS: usize = 4096;
/// Maximum routes: routes with larger numbers are not cached.
const ROUTES_MAX: usize = 65_536;
/// Maximum neighbours whose use is recorded. If there are more, only some are recorded.
const NEIGHBOURS_MAX: usize = 65_536;

/// A next hop with everything needed to send there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Kernel index of the interface.
    pub interface: u32,
    /// The MAC addresses in their order in a frame: the neighbour's, then the interface's.
    pub macs: [Mac; 2],
    /// The longest IPv4 packet, and the longest IPv6 packet, that may go there, in bytes.
    pub mtus: [u32; 2],
}

/// The cache.
#[derive(Debug)]
pub struct NextHopCache {
    /// Indexed by route number; as long as the largest cached number requires.
    routes: Vec<Option<Entry>>,
    destinations: Box<[Option<(IpAddr, Entry)>]>,
    neighbours: Vec<NeighbourKey>,
    /// Indexed by neighbour number.
    used: Vec<bool>,
    numbers: HashMap<NeighbourKey, u16>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    next_hop: Adjacency,
    /// The neighbour's number.
    neighbour: u16,
}

impl Default for NextHopCache {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            destinations: vec![None; DESTINATIONS].into_boxed_slice(),
            neighbours: Vec::new(),
            used: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl NextHopCache {
    /// The next hop of the route with this number, if it is cached.
    #[inline]
    pub fn of_route(&mut self, number: u32) -> Option<&Adjacency> {
        let entry = self.routes.get(number as usize)?.as_ref()?;
        self.used[usize::from(entry.neighbour)] = true;
        Some(&entry.next_hop)
    }

    /// The next hop to a destination on the link, if it is cached.
    #[inline]
    pub fn of_destination(&mut self, destination: IpAddr) -> Option<Adjacency> {
        match &self.destinations[place(destination)] {
            Some((cached, entry)) if *cached == destination => {
                self.used[usize::from(entry.neighbour)] = true;
                Some(entry.next_hop)
            }
            _ => None,
        }
    }

    /// Caches the next hop of the route with this number; it is this neighbour.
    pub fn set_route(&mut self, number: u32, next_hop: Adjacency, neighbour: NeighbourKey) {
        let number = number as usize;
        if number >= ROUTES_MAX {
            return;
        }
        let entry = self.entry(next_hop, neighbour);
        if number >= self.routes.len() {
            self.routes.resize(number + 1, None);
        }
        self.routes[number] = Some(entry);
    }

    /// Caches the next hop to a destination on the link, which is this neighbour itself.
    pub fn set_destination(&mut self, next_hop: Adjacency, neighbour: NeighbourKey) {
        let entry = self.entry(next_hop, neighbour);
        self.destinations[place(neighbour.1)] = Some((neighbour.1, entry));
    }

    /// Empties the cache, because the tables have changed. Neighbours stay marked.
    pub fn clear(&mut self) {
        self.routes.clear();
        self.destinations.fill(None);
    }

    /// The neighbours that were used since the last call.
    pub fn take_used(&mut self) -> Vec<NeighbourKey> {
        let all = self.neighbours.iter().zip(&self.used);
        let used = all.filter(|(_, used)| **used).map(|(n, _)| *n).collect();
        self.forget_all();
        used
    }

    /// An entry for a neighbour, which is marked as used.
    fn entry(&mut self, next_hop: Adjacency, neighbour: NeighbourKey) -> Entry {
        let number = match self.numbers.get(&neighbour) {
            Some(number) => *number,
            None => self.number(neighbour),
        };
        self.used[usize::from(number)] = true;
        Entry {
            next_hop,
            neighbour: number,
        }
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
        self.clear(); // cached entries contain neighbour numbers
        self.neighbours.clear();
        self.used.clear();
        self.numbers.clear();
    }
}

#[inline]
fn place(destination: IpAddr) -> usize {
    spread(destination, DESTINATIONS)
}

/// Spreads addresses over `entries`, a power of two. Not keyed: a collision costs one lookup, nothing else.
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

    fn hop(interface: u32) -> Adjacency {
        Adjacency {
            interface,
            macs: [[2; 6], [1; 6]],
            mtus: [1500; 2],
        }
    }

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn a_destination_is_found_until_it_is_replaced_or_forgotten() {
        let mut cache = NextHopCache::default();
        cache.set_destination(hop(1), (1, address(1)));
        assert_eq!(cache.of_destination(address(1)), Some(hop(1)));
        let same_place = (2..)
            .map(address)
            .find(|a| place(*a) == place(address(1)))
            .unwrap();
        assert_eq!(cache.of_destination(same_place), None);
        cache.set_destination(hop(2), (2, same_place));
        assert_eq!(cache.of_destination(address(1)), None);
        cache.clear();
        assert_eq!(cache.of_destination(same_place), None);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        cache.set_destination(hop(3), (1, v6));
        assert_eq!(cache.of_destination(v6), Some(hop(3)));
        assert_eq!(
            cache.take_used(),
            [(1, address(1)), (2, same_place), (1, v6)]
        );
    }

    #[test]
    fn a_route_is_found_by_its_number_until_the_tables_change() {
        let mut cache = NextHopCache::default();
        cache.set_route(7, hop(1), (1, address(1)));
        let found = [6, 7, 8].map(|number| cache.of_route(number).copied());
        assert_eq!(found, [None, Some(hop(1)), None]);
        cache.set_route(3, hop(2), (2, address(2)));
        assert_eq!(cache.of_route(3).copied(), Some(hop(2)));
        // Beyond the bound a route is not cached, and its neighbour not recorded.
        cache.set_route(ROUTES_MAX as u32, hop(3), (3, address(3)));
        assert_eq!(cache.of_route(ROUTES_MAX as u32), None);
        cache.clear();
        assert_eq!(cache.of_route(7).copied(), None);
        assert_eq!(cache.take_used(), [(1, address(1)), (2, address(2))]);
    }

    #[test]
    fn marks_of_neighbours_outlive_the_entries() {
        let mut cache = NextHopCache::default();
        for n in 0..3 {
            cache.set_destination(hop(1), (1, address(n)));
        }
        cache.clear();
        assert_eq!(cache.take_used().len(), 3);
        assert_eq!(cache.take_used(), []);
        cache.set_destination(hop(1), (1, address(7)));
        cache.of_destination(address(7));
        cache.of_destination(address(8));
        assert_eq!(cache.take_used(), [(1, address(7))]);
        // The memory is bounded, at the price of some marks.
        for n in 0..=NEIGHBOURS_MAX as u32 {
            cache.set_destination(hop(1), (1, address(n)));
        }
        assert_eq!(cache.take_used(), [(1, address(NEIGHBOURS_MAX as u32))]);
    }
}
