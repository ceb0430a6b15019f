//! Values and ranges in words, for errors and manual pages.

use std::fmt;

use super::{Kind, Scalar, Setting};

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => write!(f, "{n}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Flag(on) => write!(f, "{on}"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Ratio(x) => write!(f, "{x}"),
            Self::Span(s) => write!(f, "{s}"),
            Self::Rate(r) => write!(f, "{r}"),
            Self::Bytes(b) => write!(f, "{b}"),
            Self::Flag(on) => write!(f, "{on}"),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Kind {
    /// The range in words, as an error or a manual page shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(min, max) => write!(f, "an integer from {min} to {max}"),
            Self::Ratio(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Span(min, max) => write!(f, "a time from \"{min}\" to \"{max}\""),
            Self::Rate(min, max) => write!(f, "a rate from \"{min}\" to \"{max}\""),
            Self::Bytes(min, max) => write!(f, "a size from \"{min}\" to \"{max}\""),
            Self::Flag => f.write_str("true or false"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::PacketsRateOrShare(packets, rate) => write!(
                f,
                "a number of packets up to {packets}, a rate up to \"{rate}\", or a share like \"1/20\""
            ),
            Self::RatioOrWord(min, max, word) => {
                write!(f, "a number from {min} to {max}, or \"{word}\"")
            }
            Self::RateOrWord(min, max, words) => {
                let words = words.join("\", \"");
                write!(f, "a rate from \"{min}\" to \"{max}\", or \"{words}\"")
            }
            Self::BytesOrWords(min, max, words) => {
                let words = words.join(", ");
                write!(f, "a size from \"{min}\" to \"{max}\", or {words}")
            }
            Self::Text(max) => write!(f, "a string of at most {max} bytes"),
        }
    }
}
