//! Verdicts on claims.

use serde::Serialize;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The claim holds at every point.
    Holds,
    /// The claim holds at some of the points.
    Partly,
    /// The claim holds at no point.
    Fails,
    /// The order is right, but the intervals do not separate.
    Undecided,
    /// Not measured here, for a stated reason.
    #[serde(rename = "not run")]
    NotRun,
    /// A metric or a point that the claim needs does not exist.
    Missing,
}

impl Verdict {
    /// All verdicts, in the order of a summary.
    pub const ALL: [Self; 6] = [
        Self::Holds,
        Self::Partly,
        Self::Fails,
        Self::Undecided,
        Self::NotRun,
        Self::Missing,
    ];

    /// The verdict as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "partly",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
            Self::Missing => "missing",
        }
    }

    /// The sign, shown next to the word.
    pub fn sign(self) -> char {
        match self {
            Self::Holds => '\u{2713}',
            Self::Partly => '\u{25d0}',
            Self::Fails => '\u{2717}',
            Self::Undecided => '?',
            Self::NotRun => '\u{2013}',
            Self::Missing => '!',
        }
    }

    /// Whether the claim was measured but not confirmed.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Partly | Self::Fails | Self::Undecided)
    }
}
