//! How the packets of a UDP flow, or the writes of a TCP application, follow each other.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;

use crate::random::Stream;

/// The gaps between the packets of a flow; their mean always matches the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Spacing {
    /// All gaps are equal.
    #[default]
    Even,
    /// Exponential gaps: the packets are a Poisson process.
    Poisson,
    /// Each gap evenly between (1 - x) and (1 + x) of its length.
    Jittered(f64),
}

impl Spacing {
    /// The permitted forms.
    pub const EXPECTED: &'static str =
        "\"even\", \"poisson\", or \"jittered X\" with X from 0 to 1, like \"jittered 0.1\"";

    /// The next gap, in units of the mean gap.
    pub fn gap(self, stream: &mut Stream) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::Poisson => -(-stream.random::<f64>()).ln_1p(),
            Self::Jittered(x) => 1.0 + x * (2.0 * stream.random::<f64>() - 1.0),
        }
    }
}

impl FromStr for Spacing {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be {}", Self::EXPECTED);
        match text.trim() {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson),
            text => {
                let x = text.strip_prefix("jittered ").ok_or_else(wrong)?;
                let x: f64 = x.trim().parse().map_err(|_| wrong())?;
                let sane = (0.0..=1.0).contains(&x);
                sane.then_some(Self::Jittered(x)).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for Spacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson => f.write_str("poisson"),
            Self::Jittered(x) => write!(f, "jittered {x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Streams;

    use super::*;

    #[test]
    fn spacings_are_read_and_shown() {
        for text in ["even", "poisson", "jittered 0.1"] {
            assert_eq!(text.parse::<Spacing>().unwrap().to_string(), text);
        }
        for wrong in ["", "jittered", "jittered 1.1", "jittered -0.1", "evenly"] {
            assert!(wrong.parse::<Spacing>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_mean_gap_is_one() {
        let mut stream = Streams::new(1).stream("spacing");
        for spacing in [Spacing::Even, Spacing::Poisson, Spacing::Jittered(0.5)] {
            let gaps = (0..100_000).map(|_| spacing.gap(&mut stream));
            let mean = gaps.sum::<f64>() / 1e5;
            // The deviation of an exponential gap is 1: four standard errors are 0.0126.
            assert!((mean - 1.0).abs() < 0.0127, "{spacing}: {mean}");
        }
        let x = Spacing::Jittered(0.1).gap(&mut stream);
        assert!((0.9..=1.1).contains(&x));
    }
}
