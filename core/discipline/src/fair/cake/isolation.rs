//! CAKE's isolation modes: the definition of a flow, and the load of the hosts at its two ends.
//!
//! ```text
//!  isolation        a flow is             fair between
//!  triple-isolate   addresses and ports   sources and destinations, then flows
//!  dual-srchost     addresses and ports   sources, then flows
//!  dual-dsthost     addresses and ports   destinations, then flows
//!  flows            addresses and ports   flows
//!  hosts            a pair of addresses   pairs
//!  srchost          a source              sources
//!  dsthost          a destination         destinations
//! ```
//!
//! Source: Linux `net/sched/sch_cake.c`, `cake_hash`, `cake_get_flow_quantum`.

use weir_base::setting::{Kind, Parameter, Setting};
use weir_packet::KeyKind;

use crate::fair::sets::{Place, Sets};
use crate::params::{Value, place};

/// The `isolation` parameter.
pub(super) const ISOLATION: Parameter = Parameter::new(
    "isolation",
    Kind::Word(Isolation::WORDS),
    "triple-isolate",
    "fairness between hosts or flows, in CAKE's keywords",
);

/// The isolation mode: between which hosts and flows the discipline is fair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation(usize);

impl Isolation {
    const WORDS: &'static [&'static str] = &[
        "triple-isolate",
        "dual-srchost",
        "dual-dsthost",
        "flows",
        "hosts",
        "srchost",
        "dsthost",
    ];

    /// The parts of a flow key that identify a flow.
    pub(super) fn flow(self) -> KeyKind {
        match Self::WORDS[self.0] {
            "hosts" => KeyKind::Pair,
            "srchost" => KeyKind::Source,
            "dsthost" => KeyKind::Destination,
            _ => KeyKind::Flow,
        }
    }

    /// The parts of a flow key that identify the hosts between which the discipline is fair first, at both ends; `None`
    /// if they do not matter.
    pub(super) fn hosts(self) -> [Option<KeyKind>; 2] {
        let (source, destination) = (Some(KeyKind::Source), Some(KeyKind::Destination));
        match Self::WORDS[self.0] {
            "triple-isolate" => [source, destination],
            "dual-srchost" => [source, None],
            "dual-dsthost" => [None, destination],
            _ => [None, None],
        }
    }
}

impl Value for Isolation {
    fn of(setting: &Setting) -> Result<Self, String> {
        place(setting, Self::WORDS).map(Self)
    }
}

/// The hosts at one end of the flows, each with the number of its bulk flows.
///
/// A host's place is free for another host as soon as none of its flows is bulk, although sparse flows may still refer
/// to it. When these become bulk, they count for the other host. CAKE accepts this, because sparse flows seldom become
/// bulk.
#[derive(Debug)]
pub(super) struct Hosts {
    sets: Sets,
    bulk: Box<[u16]>,
}

impl Hosts {
    /// Places for this many hosts.
    pub(super) fn new(places: usize) -> Self {
        Self {
            sets: Sets::new(places),
            bulk: vec![0; places].into_boxed_slice(),
        }
    }

    /// The place of the host with this hash; it is shared if all places of its set are taken.
    pub(super) fn place(&mut self, hash: u64) -> u16 {
        let place = match self.sets.find(hash, |at| self.bulk[at] == 0) {
            Place::Own(at) => at,
            Place::Free(at) | Place::Taken(at) => {
                self.sets.claim(at, hash);
                at
            }
        };
        place as u16
    }

    /// Counts one bulk flow more, or less, for the host at this place.
    pub(super) fn count(&mut self, place: u16, more: bool) {
        let most = self.bulk.len() as u16;
        let bulk = &mut self.bulk[usize::from(place)];
        *bulk = if more {
            (*bulk + 1).min(most)
        } else {
            bulk.saturating_sub(1)
        };
    }

    /// Bulk flows of the host at this place.
    pub(super) fn bulk(&self, place: u16) -> u16 {
        self.bulk[usize::from(place)]
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.sets.state_bytes() + size_of_val(&*self.bulk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_flow_and_two_ends() {
        let (source, destination) = (Some(KeyKind::Source), Some(KeyKind::Destination));
        let expected = [
            ("triple-isolate", KeyKind::Flow, [source, destination]),
            ("dual-srchost", KeyKind::Flow, [source, None]),
            ("dual-dsthost", KeyKind::Flow, [None, destination]),
            ("flows", KeyKind::Flow, [None, None]),
            ("hosts", KeyKind::Pair, [None, None]),
            ("srchost", KeyKind::Source, [None, None]),
            ("dsthost", KeyKind::Destination, [None, None]),
        ];
        assert_eq!(expected.len(), Isolation::WORDS.len());
        for (word, flow, hosts) in expected {
            let isolation = Isolation::of(&Setting::Word(word)).unwrap();
            assert_eq!((isolation.flow(), isolation.hosts()), (flow, hosts));
        }
    }

    #[test]
    fn a_place_is_free_when_no_flow_of_its_host_is_bulk() {
        // One set of eight places. Hash 0 starts at place 0, as do the small hashes 1 to 9.
        let mut hosts = Hosts::new(8);
        let places: Vec<u16> = (1..=8)
            .map(|hash| {
                let at = hosts.place(hash);
                hosts.count(at, true);
                at
            })
            .collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7]);
        hosts.count(3, true);
        assert_eq!((hosts.bulk(3), hosts.place(4)), (2, 3));
        // All places are taken: the ninth host shares the first one.
        assert_eq!((hosts.place(9), hosts.bulk(0)), (0, 1));
        hosts.count(5, false);
        assert_eq!(hosts.place(10), 5);
    }
}
