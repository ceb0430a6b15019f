//! The definition of a host, and the number of busy queues of each.

use weir_base::setting::{Kind, Parameter, Setting};
use weir_packet::KeyKind;

use crate::fair::sets::{Place, Sets};
use crate::params::{Value, place};

/// The `hosts` parameter.
pub(crate) const HOSTS: Parameter = Parameter::new(
    "hosts",
    Kind::Word(Hosts::WORDS),
    "both",
    "hosts that are fair to each other: by source, destination, or both; or by network",
);

/// Which hosts are fair to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts(usize);

impl Hosts {
    const WORDS: &'static [&'static str] = &[
        "both",
        "source",
        "destination",
        "both_prefixes",
        "source_prefix",
        "destination_prefix",
    ];

    /// The parts of a flow key that identify sending and receiving hosts; `None` if they do not matter.
    pub(crate) fn kinds(self) -> [Option<KeyKind>; 2] {
        let (source, destination) = match self.0 {
            0..3 => (KeyKind::Source, KeyKind::Destination),
            _ => (KeyKind::SourcePrefix, KeyKind::DestinationPrefix),
        };
        match self.0 % 3 {
            0 => [Some(source), Some(destination)],
            1 => [Some(source), None],
            _ => [None, Some(destination)],
        }
    }
}

impl Value for Hosts {
    fn of(setting: &Setting) -> Result<Self, String> {
        place(setting, Self::WORDS).map(Self)
    }
}

/// The hosts at one end of the flows.
#[derive(Debug)]
pub(crate) struct Census {
    sets: Sets,
    hosts: Box<[Host]>,
}

/// Queues of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    waiting: u32,
    busy: u32,
}

impl Census {
    /// A census with room for this many hosts.
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            sets: Sets::new(hosts),
            hosts: vec![Host::default(); hosts].into_boxed_slice(),
        }
    }

    /// Counts a queue that waits for turns, for the host with this hash; returns the host's place.
    pub(crate) fn enter(&mut self, hash: u64) -> u32 {
        let place = match self.sets.find(hash, |at| self.hosts[at].waiting == 0) {
            Place::Own(at) | Place::Taken(at) => at,
            Place::Free(at) => {
                self.sets.claim(at, hash);
                at
            }
        };
        self.hosts[place].waiting += 1;
        place as u32
    }

    /// Uncounts a queue that no longer waits, for the host at this place.
    pub(crate) fn leave(&mut self, place: Option<u32>) {
        if let Some(at) = place {
            self.hosts[at as usize].waiting -= 1;
        }
    }

    /// Counts a queue of the host at this place as busy, or no longer as busy.
    pub(crate) fn set_busy(&mut self, place: Option<u32>, busy: bool) {
        if let Some(at) = place {
            let count = &mut self.hosts[at as usize].busy;
            *count = if busy { *count + 1 } else { *count - 1 };
        }
    }

    /// Busy queues of the host at this place.
    pub(crate) fn load(&self, place: Option<u32>) -> u32 {
        place.map_or(0, |at| self.hosts[at as usize].busy)
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.sets.state_bytes() + size_of_val(&*self.hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_two_ends_of_a_host_or_a_network() {
        let kinds = [
            (Some(KeyKind::Source), Some(KeyKind::Destination)),
            (Some(KeyKind::Source), None),
            (None, Some(KeyKind::Destination)),
            (
                Some(KeyKind::SourcePrefix),
                Some(KeyKind::DestinationPrefix),
            ),
            (Some(KeyKind::SourcePrefix), None),
            (None, Some(KeyKind::DestinationPrefix)),
        ];
        for (place, (source, destination)) in kinds.into_iter().enumerate() {
            assert_eq!(Hosts(place).kinds(), [source, destination]);
        }
    }

    #[test]
    fn a_host_is_counted_in_one_place_while_a_queue_of_it_waits() {
        let mut census = Census::new(8);
        let (a, b) = (census.enter(1), census.enter(2));
        assert_ne!(a, b);
        assert_eq!(census.enter(1), a);
        census.set_busy(Some(a), true);
        assert_eq!(
            (
                census.load(Some(a)),
                census.load(Some(b)),
                census.load(None)
            ),
            (1, 0, 0)
        );
        // Both queues of `a` leave: its place may be another host's.
        census.set_busy(Some(a), false);
        census.leave(Some(a));
        census.leave(Some(a));
        let others: Vec<u32> = (3..10).map(|hash| census.enter(hash)).collect();
        assert!(others.contains(&a) && !others.contains(&b));
    }
}
