//! The part of an edge as a configuration wants it: plain values, which the plane puts in force.

use crate::fpf::edge::filter::Filter;
use crate::fpf::edge::rule::Rule;

/// An encapsulation with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Its name.
    pub name: String,
    /// Its row in the table: of those that match, the lowest one counts.
    pub row: u32,
    /// Its packets.
    pub filter: Filter,
    /// Their vectors and their profile.
    pub rule: Rule,
}

/// A class of flows that a classifier finds: implicit encapsulations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Which flows belong to it, as the configuration says. It is compared only: the flows of a class whose criteria
    /// change leave it.
    pub criteria: String,
    /// The vectors and the profile of each of its flows. A rule without a time-out lasts until its place is needed.
    pub rule: Rule,
}

/// The treatment of IP packets that no encapsulation matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoMatch {
    /// They are forwarded by the routes.
    #[default]
    Forward,
    /// They are dropped, and their senders learn that it is prohibited.
    Drop,
}

/// The part of an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The encapsulations, lowest row first.
    pub encapsulations: Vec<Encapsulation>,
    /// The classes of flows, in the order of their priority; at most 65 535. An encapsulation that matches a packet
    /// comes before them.
    pub classes: Vec<Class>,
    /// Maximum flows with a rule of a class. Another value begins anew, without flows.
    pub flows_max: usize,
    /// The treatment of the other packets.
    pub no_match: NoMatch,
    /// Names of the ports whose packets may get a header; empty for all ports.
    pub ports: Vec<String>,
}

impl Setup {
    /// Whether any packet is treated otherwise than without an edge.
    pub fn concerns_packets(&self) -> bool {
        let has_rules = !self.encapsulations.is_empty() || !self.classes.is_empty();
        has_rules || self.no_match == NoMatch::Drop
    }
}
