//! A key of a scenario: its meaning and its values.

use std::fmt;

use weir_base::{Bytes, Rate, Spacing, Span, setting::Kind};

/// One key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The permitted values.
    pub form: Form,
    /// The default, as in a file; empty without a default.
    pub default: &'static str,
    /// The effect, in a sentence.
    pub about: &'static str,
}

/// The permitted values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A single value with its unit and range.
    Setting(Kind),
    /// A size or a distribution of sizes, with the range of every number in it.
    Sizes(Bytes, Bytes),
    /// A time or a distribution of times, with the range of every number in it.
    Times(Span, Span),
    /// A rate that may change in steps during the run; each rate is within the range or an outage.
    RateCourse(Rate, Rate),
    /// A time that may change in steps during the run; each time is within the range.
    SpanCourse(Span, Span),
    /// A rate, or a rate that is a linear function of time.
    Load,
    /// The spacing of packets.
    Spacing,
    /// Any text.
    Text,
    /// The name of a host.
    Host,
    /// The names of two nodes.
    Ends,
    /// Names of links.
    Links,
    /// A list of names; the key's description defines what they name.
    Names,
    /// Integers from 1.
    Weights,
    /// Names of variants.
    Variants,
    /// A queue discipline with its settings.
    Discipline,
    /// A queue discipline with its settings, or the word [`SAME`].
    ReverseDiscipline,
}

/// Maximum weight of a path.
pub(super) const WEIGHT_MAX: u32 = 1_000_000;
/// The word for a queue at a link's second end with the same settings as at the first end.
pub(super) const SAME: &str = "same";

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(kind) => write!(f, "{kind}"),
            Self::Sizes(min, max) => {
                write!(f, "sizes (or their mean) from \"{min}\" to \"{max}\"")
            }
            Self::Times(min, max) => {
                write!(f, "times (or their mean) from \"{min}\" to \"{max}\"")
            }
            Self::RateCourse(min, max) => write!(
                f,
                "{}, or a schedule: \"20 Mbit, 5 Mbit from 10 s, outage from 20 s\", \"sawtooth 2 Mbit to 20 Mbit in \
                 10 steps every 30 s\", \"trace FILE\"",
                Kind::Rate(*min, *max)
            ),
            Self::SpanCourse(min, max) => write!(
                f,
                "{}, or a schedule: \"20 ms, 50 ms from 10 s\", \"sawtooth 20 ms to 50 ms in 4 steps every 30 s\"",
                Kind::Span(*min, *max)
            ),
            Self::Load => write!(f, "a rate, or a function like \"0.5*t + 2 Mbit\""),
            Self::Spacing => f.write_str(Spacing::EXPECTED),
            Self::Text => f.write_str("a string in quotes"),
            Self::Host => f.write_str("the name of a host"),
            Self::Ends => f.write_str("two names: [\"NODE\", \"NODE\"]"),
            Self::Links => f.write_str("a list of links: [\"LINK\"]"),
            Self::Names => f.write_str("a list of names: [\"NAME\"]"),
            Self::Weights => {
                write!(f, "a list of integers from 1 to {WEIGHT_MAX}: [3, 1]")
            }
            Self::Variants => f.write_str("a list of variants: [\"VARIANT\"]"),
            Self::Discipline => f.write_str("a discipline in braces, like { kind = \"fifo\" }"),
            Self::ReverseDiscipline => {
                write!(
                    f,
                    "a discipline in braces, like {{ kind = \"fifo\" }}, or \"{SAME}\""
                )
            }
        }
    }
}
