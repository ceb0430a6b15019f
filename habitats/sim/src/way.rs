//! The ways that connections take: each is found once, when the connection is made.
//!
//! ```text
//!   hops:  ... | port, port, HERE | port, port, port, HERE | ...      a way, behind its host's port
//! ```

use crate::network::PortId;

/// A place in the list of all hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hop(u32);

impl Hop {
    /// The hop after this one.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The end of a way.
const HERE: u32 = u32::MAX;

/// All ways, one behind the other. They are kept for ever, as flow keys are.
#[derive(Debug, Default)]
pub(crate) struct Hops(Vec<u32>);

impl Hops {
    /// Keeps a way through these ports; gives its first hop.
    pub(crate) fn keep(&mut self, ports: impl Iterator<Item = PortId>) -> Hop {
        let first = Hop(self.0.len() as u32);
        self.0.extend(ports.map(|port| port.0));
        self.0.push(HERE);
        first
    }

    /// The port by which a packet goes on; none if it has come to its host.
    #[inline]
    pub(crate) fn port(&self, hop: Hop) -> Option<PortId> {
        match self.0[hop.0 as usize] {
            HERE => None,
            port => Some(PortId(port)),
        }
    }
}
