//! Why a network or its traffic is refused.

/// Reason why a network or its traffic is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A host has no link, or more than one.
    #[error("host {0} has {1} links; a host must have exactly one")]
    Links(String, usize),
    /// There is no path between two nodes.
    #[error("no path from {0} to {1}")]
    NoPath(String, String),
    /// A packet would travel from one node to the other, and perhaps back, without any time passing.
    #[error("the path from {0} to {1} takes no time; give one of its links a rate or a delay")]
    NoTime(String, String),
    /// Two receivers of a group have the same router.
    #[error(
        "{0} and {1} receive the same multicast group at router {2}; attach each to a different router"
    )]
    OneRouter(String, String, String),
}
