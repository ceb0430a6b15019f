//! The parameters of the law, and its states.

use weir_base::{Rate, Span};

/// The wishes of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The rate is never below this one, whatever the delay.
    pub least: Rate,
    /// The rate at the start, after a while without load, and at most while no reflector answers.
    pub base: Rate,
    /// The rate is never above this one.
    pub most: Rate,
    /// Delay above the baseline that makes it drain the queue behind the port.
    pub threshold: Span,
    /// Time between two probes while the port is busy.
    pub interval: Span,
    /// How many reflectors there are.
    pub reflectors: usize,
}

/// The state of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No reflector answers: the rate is `base` at most.
    Blind,
    /// The delay is low.
    Follow,
    /// One delay was high.
    Suspicion,
    /// The queue behind the port is emptied.
    Drain,
}

impl Phase {
    /// Its word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Follow => "follow",
            Self::Suspicion => "suspicion",
            Self::Drain => "drain",
        }
    }
}
