//! Schedules: how control messages and redirects share a channel.
//!
//! | schedule | discipline | source |
//! |---|---|---|
//! | `dppbrb` | `dppbrb` with its defaults | Zhuge et al., equations 5 to 11 |
//! | `priorities` | `dppbrb` with a fixed share of 1: control messages always first | RFC 5811, 4.2.1 |
//! | `drop_tail` | `fifo`: one queue for both | the plain queue, the baseline of the paper |

use std::str::FromStr;

use weir_base::setting::Scalar;

use crate::channel::dppbrb;
use crate::fifo;
use crate::spec::Spec;

/// Maximum number of messages in a drop-tail queue.
const DROP_TAIL_LIMIT: i64 = 100;

/// How the queue schedules control messages and redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// DPPBRB: the share of control messages increases when they need more.
    #[default]
    Dppbrb,
    /// Strict priorities, as in RFC 5811: redirects leave only while no control message waits.
    Priorities,
    /// One queue for both.
    DropTail,
}

impl Schedule {
    /// All schedules, with their names in a configuration.
    pub const ALL: [(&'static str, Self); 3] = [
        ("dppbrb", Self::Dppbrb),
        ("priorities", Self::Priorities),
        ("drop_tail", Self::DropTail),
    ];
    /// The names in a configuration, in the order of [`Self::ALL`].
    pub const WORDS: &'static [&'static str] = &["dppbrb", "priorities", "drop_tail"];

    /// Name in a configuration.
    pub fn word(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, schedule)| *schedule == self);
        own.map_or("", |(word, _)| *word)
    }

    /// The discipline with its parameters.
    pub fn spec(self) -> Spec {
        let (off, one) = (Scalar::Flag(false), Scalar::Real(1.0));
        let limit = Scalar::Integer(DROP_TAIL_LIMIT);
        let checked = match self {
            Self::Dppbrb => Spec::check(dppbrb::MANUAL.name, []),
            Self::Priorities => {
                Spec::check(dppbrb::MANUAL.name, [("adapt", &off), ("share", &one)])
            }
            Self::DropTail => Spec::check(fifo::MANUAL.name, [("limit", &limit)]),
        };
        match checked {
            Ok(spec) => spec,
            Err(error) => unreachable!("these parameters are permitted: {error}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(own, _)| *own == word);
        let known = Self::WORDS.join(", ");
        let unknown = || format!("unknown schedule; permitted: {known}");
        found.map(|(_, schedule)| *schedule).ok_or_else(unknown)
    }
}
