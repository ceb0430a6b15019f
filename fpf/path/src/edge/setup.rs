//! The configuration of an edge: plain values, which the plane applies.

use crate::edge::filter::Filter;
use crate::edge::rule::Rule;

/// An encapsulation with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Name of the encapsulation.
    pub name: String,
    /// Row in the table: of the matching rows, the lowest one counts.
    pub row: u32,
    /// The packets of the encapsulation.
    pub filter: Filter,
    /// Vectors and profile of the packets.
    pub rule: Rule,
}

/// A class of flows that a classifier finds: implicit encapsulations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name of the class.
    pub name: String,
    /// The configured criteria for its flows. They are only compared: the flows of a class whose criteria change leave
    /// it.
    pub criteria: String,
    /// The vectors and the profile of each of its flows. A rule without a timeout lasts until its place is needed.
    pub rule: Rule,
}

/// The treatment of IP packets that no encapsulation matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoMatch {
    /// The packets follow the routes.
    #[default]
    Forward,
    /// The packets are dropped, and their senders learn that sending is prohibited.
    Drop,
}

/// The configuration of an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The encapsulations, lowest row first.
    pub encapsulations: Vec<Encapsulation>,
    /// The classes of flows, in the order of their priority; at most 65 535. An encapsulation that matches a packet
    /// comes before them.
    pub classes: Vec<Class>,
    /// Maximum flows with a rule of a class. If the value changes, the edge restarts without flows.
    pub flows_max: usize,
    /// The treatment of the other packets.
    pub no_match: NoMatch,
    /// Names of the ports whose packets may get a header; empty for all ports.
    pub ports: Vec<String>,
}

impl Setup {
    /// Whether the edge changes the treatment of any packet.
    pub fn concerns_packets(&self) -> bool {
        let has_rules = !self.encapsulations.is_empty() || !self.classes.is_empty();
        has_rules || self.no_match == NoMatch::Drop
    }
}
