//! The parameters of the law, and its states.

use weir_base::{Rate, Span};

/// The configured parameters of the law.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Minimum rate, whatever the delay.
    pub least: Rate,
    /// The rate at the start and after a while without load; the maximum rate while no reflector answers.
    pub base: Rate,
    /// Maximum rate.
    pub most: Rate,
    /// Delay above the baseline from which the port drains the queue behind it.
    pub threshold: Span,
    /// Time between two probes while the port is busy.
    pub interval: Span,
    /// Number of reflectors.
    pub reflectors: usize,
}

/// The state of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No reflector answers: the rate is at most `base`.
    Blind,
    /// The delay is low.
    Follow,
    /// One delay was high.
    Suspicion,
    /// The port empties the queue behind it.
    Drain,
}

impl Phase {
    /// The word for the phase in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::Follow => "follow",
            Self::Suspicion => "suspicion",
            Self::Drain => "drain",
        }
    }
}
