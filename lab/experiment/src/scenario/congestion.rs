//! Congestion controls of TCP.

use std::str::FromStr;

/// A congestion control, with its loss recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438) with selective acknowledgements.
    #[default]
    Cubic,
    /// Reno's window (RFC 5681), losses repaired by selective acknowledgements (RFC 6675).
    Sack,
    /// Reno's window without selective acknowledgements (RFC 6582).
    NewReno,
    /// BBR of the lab's kernel; the simulator has no model of it.
    Bbr,
}

impl Congestion {
    /// The words in a scenario.
    pub const WORDS: &'static [&'static str] = &["cubic", "sack", "newreno", "bbr"];

    /// The word in a scenario.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Whether connections use selective acknowledgements.
    pub fn has_sack(self) -> bool {
        self != Self::NewReno
    }
}

impl FromStr for Congestion {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Cubic, Self::Sack, Self::NewReno, Self::Bbr]
            .into_iter()
            .find(|c| c.word() == word)
            .ok_or_else(|| format!("must be one of {}", Self::WORDS.join(", ")))
    }
}
