//! Identifiers of nodes, ports and endpoints.

/// A host or router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A port: one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// The port at the other end of its link: the two have consecutive numbers, the lower number even.
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// Identifies an endpoint. A place is reused with a new generation, so late packets and timers of an earlier endpoint
/// are recognised and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointId {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}
