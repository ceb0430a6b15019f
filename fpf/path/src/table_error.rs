//! The limits of a forwarding table, and its invalid rows, each with an error message.

use std::net::IpAddr;

/// Maximum interfaces of a table: with LIDs of two bytes, 64 MB of rows.
pub const INTERFACES_MAX: usize = 256;
/// Maximum copies that one packet becomes, through all multicast rules that lead to each other.
pub const COPIES_MAX: usize = 256;
/// Maximum processors of a table: each holds up to 650 kB, or as much as its cache may.
pub const PROCESSORS_MAX: usize = 64;
/// Maximum multicast rules that lead to each other.
pub const MULTICAST_DEPTH_MAX: usize = 4;

/// An invalid row of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There are too many interfaces.
    #[error("more than {INTERFACES_MAX} interfaces")]
    Interfaces,
    /// There are too many processors.
    #[error("more than {PROCESSORS_MAX} rules process packets")]
    Processors,
    /// The number is not one of this table's interfaces.
    #[error("interface number {0} is not in the table")]
    NoInterface(usize),
    /// The LID does not fit.
    #[error("LID {lid:#x} does not fit into {bytes} byte")]
    Lid {
        /// The LID.
        lid: u16,
        /// Bytes of a LID in this domain.
        bytes: u8,
    },
    /// The neighbour has an IP address, but the kernel cannot resolve its MAC address there.
    #[error(
        "the neighbour {0} cannot be resolved in a VLAN, because the kernel has no neighbour table there: write its \
         MAC address"
    )]
    Unresolvable(IpAddr),
    /// The LID already has a rule for this input interface.
    #[error("LID {0:#x} has two rules for the same input interface")]
    Twice(u16),
    /// There are two rules for the end of a path.
    #[error("two rules for the last FE of a path at the same input interface")]
    TwoEnds,
    /// A multicast rule has no leaves.
    #[error("the multicast rule of LID {0:#x} has no leaves")]
    NoLeaves(u16),
    /// A leaf is shorter than a LID.
    #[error(
        "leaf {leaf} of the multicast rule of LID {lid:#x} is shorter than a LID of {bytes} bytes"
    )]
    Leaf {
        /// The LID of the multicast rule.
        lid: u16,
        /// The number of the leaf, from one on.
        leaf: usize,
        /// Bytes of a LID in this domain.
        bytes: u8,
    },
    /// A multicast rule leads to itself.
    #[error(
        "the multicast rule of LID {0:#x} leads back to itself: its packets would be copied forever"
    )]
    Loop(u16),
    /// Multicast rules lead to each other too often.
    #[error(
        "more than {MULTICAST_DEPTH_MAX} multicast rules lead to each other, starting at LID {0:#x}"
    )]
    Depth(u16),
    /// One packet becomes too many copies.
    #[error("the multicast rule of LID {0:#x} makes more than {COPIES_MAX} copies of a packet")]
    Copies(u16),
}
