//! The actions for FPF packets (table I of the paper).

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::Queue;
use weir_wire::EtherType;
use weir_wire::ethernet::Mac;

use crate::header::Vector;
use crate::interface::InterfaceId;
use crate::process::Processing;

/// The action for packets with one LID from one input interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Sends the packet to the next FE.
    Forward(Hop),
    /// Makes a copy for each of these vectors; each replaces the packet's own vector, Index begins at zero, and the
    /// forwarding engine handles the copy as if it had arrived at the same input interface.
    Multicast(Arc<[Vector]>),
    /// Hands the payload to a processor; each packet that it gives has the vector of a leaf, or continues with the next
    /// LID of its own vector, and is handled like the copies of a multicast rule.
    Process(Processing),
    /// Removes the header, whatever LIDs are left.
    Decapsulate(Inner),
    /// Hands the packet to the control element.
    Redirect,
    /// Drops the packet.
    Drop,
}

/// A neighbour: the next FE, or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The interface through which the packet leaves.
    pub interface: InterfaceId,
    /// The neighbour on the link. A tunnel ignores it, because its far end is found by the routes.
    pub destination: Destination,
    /// The queue of the egress port; zero leaves the choice to the port's discipline.
    pub queue: Queue,
    /// Whether the neighbour belongs to the next domain: Index is advanced by the size of a LID.
    pub leaves_domain: bool,
}

/// A neighbour on a link, as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// By its MAC address.
    Mac(Mac),
    /// By its IP address; the neighbour table has the MAC address.
    Address(IpAddr),
}

/// The destination of a tunnel, which ignores it.
impl Default for Destination {
    fn default() -> Self {
        Self::Mac(Mac::default())
    }
}

impl From<Mac> for Destination {
    fn from(mac: Mac) -> Self {
        Self::Mac(mac)
    }
}

/// How the payload is forwarded after the header is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inner {
    /// IPv4 or IPv6, by its version: as if it had arrived at the same port without the header.
    #[default]
    Ip,
    /// As a frame of this Ethernet type, to this neighbour.
    Frame(EtherType, Hop),
}
