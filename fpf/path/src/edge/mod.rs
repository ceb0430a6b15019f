//! The ingress edge: which packets get an FPF header, and which LID vectors are in it.
//!
//! ```text
//!  packet --> filters --no match--> flows of a class --none--> ordinary forwarding, or drop
//!                | match              | match        \--> a copy to the classifier, which finds classes
//!                v
//!             profile --no tokens--> drop;  shaped: wait
//!                |
//!                v
//!             LID vectors: one by flow, one by packet, or all (copies)
//!                |
//!                v
//!             header pushed, Index 0 --> forwarding by LID
//! ```
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", section
//! III.B.
//!
//! - [`filter`]: multi-field filters, checked
//! - [`rule`]: the treatment of packets that match a filter
//! - [`rules`]: the table; `index` and `shapes` find its rules, `deadlines` expires them
//! - [`paths`]: the vectors of a rule, and which of them a packet gets
//! - [`profile`]: the traffic that packets of a rule may send
//! - [`implicit`]: encapsulations of single flows that a classifier has found: `classes`, their rules; [`copies`] for
//!   the classifier, and `seen`, the flows that need no more copies
//! - [`shaper`]: the queues of rules whose packets wait for their rate
//! - [`setup`]: the configuration of an edge, which a plane applies
//! - [`size`]: the effect of the header on the MTU and on TCP's segment size

pub mod classes;
pub mod copies;
mod deadlines;
pub mod filter;
pub mod implicit;
mod index;
pub mod paths;
pub mod profile;
pub mod rule;
pub mod rules;
#[cfg(test)]
mod samples;
mod seen;
pub mod setup;
pub mod shaper;
mod shapes;
pub mod size;
