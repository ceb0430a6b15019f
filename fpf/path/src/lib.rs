//! The path of a packet in flexible packet forwarding (FPF): paths chosen at the edge, labels of a byte.
//!
//! ```text
//!  frame --> (1) input interface   Ethernet, a VLAN, a GRE tunnel
//!            (2) Index > Length: drop     Index = Length: the last FE, the header comes off ---------> IP, or the
//!            (3) table[input interface][LID at Index] --> rule                                         end rule's exit
//!            (4) the packet leaves the domain: Index += size of a LID
//!            (5) forward | multicast | process | decapsulate | redirect | drop
//! ```
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", section
//! III and table I. The header is in [`crate::header`].
//!
//! An ingress edge puts a vector of LIDs (local identifiers) before a packet. Each domain on the path uses the LID at
//! Index, and only the last forwarding element (FE) of a domain advances Index. So a LID has a meaning in its own
//! domain only, tables hold neighbours, not paths, and only the edge of a path changes it:
//!
//! ```text
//!      domain C          domain B          domain A            vector: LID_B LID_A
//!   [edge FE]--------->[FE]------>[FE]--------->[edge FE]
//!     Index 0      1          1          2 = Length: off
//!   uses LID_B       uses LID_A twice
//! ```
//!
//! [`Fpf`] is the overlay of a plane ([`weir_path::plane::overlay`]): [`forwarder`] is a table at work, [`ingress`] an
//! edge at work. Both use the other modules, which know no plane:
//!
//! - [`domain`]: the Ethernet type and the size of a LID, the same throughout a domain
//! - [`interface`]: where FPF packets arrive and leave: Ethernet, VLAN, GRE
//! - [`rule`]: the actions for packets
//! - [`process`]: in-network processing: packets that a rule hands to a state machine
//! - [`table`]: the forwarding table, an immutable snapshot that is built as a whole
//! - [`forward`]: the decision
//! - [`relay`]: packets that just go to a neighbour, from the header to the rewritten frame
//! - [`bindings`]: the current ports of a plane for the interfaces of a table
//! - [`edge`]: the ingress edge, which puts headers before packets
//! - [`encapsulation`]: headers put before a payload, and taken off; [`payload`]: the headers of the packet behind them
//!
//! Choices that the paper leaves open:
//!
//! - The inner packet is not touched: between the two edges, FEs do not decrement the TTL, and send no ICMP errors. A
//!   packet that an exit's MTU does not permit is dropped with its reason.
//! - The header with a vector without LIDs (Length 0, Index 0) is removed, because Index equals Length.
//! - The forwarding engine of the same FE handles a multicast leaf, per the paper, with the same input interface. So
//!   leaves could lead to leaves forever. The builder refuses a table with such a loop, or with more than
//!   [`COPIES_MAX`](table::COPIES_MAX) copies for one packet.
//! - A frame with nested headers (FPF in GRE in FPF, say) is followed for at most [`NESTED_MAX`](forward::NESTED_MAX)
//!   decisions, and becomes at most `COPIES_MAX` packets.
//!
//! An attacker who can send FPF frames to a port chooses among all paths that the rules of the port offer, which is
//! the point of source routing. Rules are for one input interface or for any; a port without rules drops every LID.
//! One frame costs at most [`COPIES_MAX`](table::COPIES_MAX) copies.
//!
//! # Decisions worth knowing
//!
//! - **FPF tables name ports, not numbers.** A table of flexible packet forwarding (FPF) is built as a whole and never
//!   changes, and the builder refuses rows that can never work ([`table`]). Ports are added and removed, so
//!   [`bindings`] finds them again after each change, and a packet costs two loads by number. weir itself implements
//!   tunnels and VLANs; a tunnel's packets follow the routes ([`interface`]). A sender can nest headers, so the
//!   numbers of decisions and copies for one frame are bounded.
//! - **Implicit rules are state, not configuration.** The plane copies the first packets of flows into memory of fixed
//!   size; a separate thread classifies the flows and returns decisions, a few per iteration
//!   (`fpf/lfb/src/classification.rs`). A rule of a flow names its class, so a change of a class costs the
//!   same for any number of flows: each flow follows with its next packet ([`edge::classes`]). `edge/seen` records
//!   the flows that need no more copies, and costs one cache line per packet.

pub mod bindings;
pub mod domain;
pub mod edge;
pub mod encapsulation;
pub mod forward;
pub mod forwarder;
pub mod header;
pub mod ingress;
pub mod interface;
pub mod overlay;
pub mod payload;
pub mod process;
pub mod relay;
pub mod rule;
pub mod segment_header;
pub mod table;
mod table_error;
mod table_row;

pub use domain::{Domain, LidSize};
pub use interface::{Interface, InterfaceId};
pub use overlay::Fpf;
pub use rule::{Destination, Hop, Inner, Rule};
pub use table::{Builder, Table};
