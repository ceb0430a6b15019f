//! Distributions of sizes and times, and how they are written.
//!
//! ```text
//!   "20 kB"                        always this
//!   "uniform 10 kB to 30 kB"       every value in the range equally likely
//!   "exponential 0.2 s"            its mean
//!   "pareto 1.5 26 MB"             shape (more than 1) and mean: many small ones, few huge ones
//!   "pareto 1.5 26 MB to 2 GB"     the same without the values above the bound
//!   "500 B: 35, 5 kB: 50"          these values with these weights
//! ```
//!
//! A value is drawn by inverting the distribution function at one uniform number. A stream
//! therefore gives the n-th value after n steps, whatever the distribution: two scenarios that
//! differ only in a mean still draw the same random numbers. [`Sizes`] are whole bytes, [`Times`]
//! are spans; a [`Distribution`] itself has no unit (bytes or seconds).

use std::fmt;
use std::str::FromStr;

use rand::RngExt;

use crate::random::Stream;
use crate::time::Span;
use crate::units::{Bytes, UnitError};

/// A distribution of non-negative numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(f64),
    /// Every value from `low` to `high` is equally likely.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Pareto; its smallest value is `mean * (shape - 1) / shape`.
    Pareto {
        /// How fast large values become rare; more than 1.
        shape: f64,
        /// The mean of the unbounded distribution.
        mean: f64,
        /// The bound: larger values are excluded, not reduced to it.
        max: Option<f64>,
    },
    /// These values, each with its weight.
    Empirical(Vec<(f64, f64)>),
}

impl Distribution {
    /// The next value.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        self.at(stream.random())
    }

    /// The value at `place` (0 to 1) of the cumulative distribution.
    pub fn at(&self, place: f64) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Uniform { low, high } => low + place * (high - low),
            Self::Exponential { mean } => -mean * (-place).ln_1p(),
            Self::Pareto { shape, mean, max } => {
                let scale = scale(*shape, *mean);
                let kept = max.map_or(1.0, |max| 1.0 - (scale / max).powf(*shape));
                scale * (1.0 - place * kept).powf(-1.0 / shape)
            }
            Self::Empirical(values) => {
                let mut left = place * values.iter().map(|(_, weight)| weight).sum::<f64>();
                for (value, weight) in values {
                    left -= weight;
                    if left < 0.0 {
                        return *value;
                    }
                }
                values.last().map_or(0.0, |(value, _)| *value)
            }
        }
    }

    /// The mean; with a bound, the mean of the bounded distribution.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Uniform { low, high } => (low + high) / 2.0,
            Self::Exponential { mean } => *mean,
            Self::Pareto {
                shape,
                mean,
                max: None,
            } => {
                debug_assert!(*shape > 1.0);
                *mean
            }
            Self::Pareto {
                shape,
                mean,
                max: Some(max),
            } => {
                // Integral of x f(x) from the scale to the bound, over the share that is kept.
                let share = (scale(*shape, *mean) / max).powf(*shape);
                let below = mean - share * max * shape / (shape - 1.0);
                below / (1.0 - share)
            }
            Self::Empirical(values) => {
                let total: f64 = values.iter().map(|(_, weight)| weight).sum();
                values.iter().map(|(v, w)| v * w).sum::<f64>() / total
            }
        }
    }

    /// The smallest and the largest number in its description (where it has only a mean: the mean).
    pub fn described(&self) -> (f64, f64) {
        match self {
            Self::Fixed(value) => (*value, *value),
            Self::Uniform { low, high } => (*low, *high),
            Self::Exponential { mean } => (*mean, *mean),
            Self::Pareto { mean, max, .. } => (*mean, max.unwrap_or(*mean)),
            Self::Empirical(values) => {
                let all = values.iter().map(|(value, _)| *value);
                let least = all.clone().fold(f64::INFINITY, f64::min);
                (least, all.fold(0.0, f64::max))
            }
        }
    }

    /// Reads one of the written forms; `value` reads a single value.
    fn read(text: &str, value: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        Some(match word {
            "uniform" => {
                let (low, high) = rest.split_once(" to ")?;
                let (low, high) = (value(low)?, value(high)?);
                (low < high).then_some(Self::Uniform { low, high })?
            }
            "exponential" => Self::Exponential { mean: value(rest)? },
            "pareto" => {
                let (shape, rest) = rest.split_once(' ')?;
                let shape: f64 = shape.parse().ok()?;
                let (mean, max) = match rest.split_once(" to ") {
                    Some((mean, max)) => (value(mean)?, Some(value(max)?)),
                    None => (value(rest)?, None),
                };
                let sane = shape > 1.0 && shape <= SHAPE_MAX;
                let sane = sane && max.is_none_or(|max| max > scale(shape, mean));
                sane.then_some(Self::Pareto { shape, mean, max })?
            }
            _ if text.contains(':') => {
                let entry = |entry: &str| {
                    let (size, weight) = entry.split_once(':')?;
                    let weight: f64 = weight.trim().parse().ok()?;
                    (weight > 0.0 && weight < WEIGHT_MAX).then_some((value(size)?, weight))
                };
                Self::Empirical(text.split(',').map(entry).collect::<Option<_>>()?)
            }
            _ => Self::Fixed(value(text)?),
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, unit: fn(f64) -> String) -> fmt::Result {
        match self {
            Self::Fixed(value) => f.write_str(&unit(*value)),
            Self::Uniform { low, high } => write!(f, "uniform {} to {}", unit(*low), unit(*high)),
            Self::Exponential { mean } => write!(f, "exponential {}", unit(*mean)),
            Self::Pareto { shape, mean, max } => {
                write!(f, "pareto {shape} {}", unit(*mean))?;
                max.map_or(Ok(()), |max| write!(f, " to {}", unit(max)))
            }
            Self::Empirical(values) => {
                let entries = values.iter().map(|(v, w)| format!("{}: {w}", unit(*v)));
                f.write_str(&entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Beyond this shape a Pareto distribution is a fixed value.
const SHAPE_MAX: f64 = 1000.0;
/// Weights are less than this.
const WEIGHT_MAX: f64 = 1e9;

/// The smallest value of a Pareto distribution.
fn scale(shape: f64, mean: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

/// A distribution of sizes, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Distribution);

impl Sizes {
    /// The web files of the Webstone benchmark, mean 19.2 kB; written `"webstone"`.
    pub fn webstone() -> Self {
        Self(Distribution::Empirical(vec![
            (500.0, 35.0),
            (5e3, 50.0),
            (50e3, 14.0),
            (500e3, 0.9),
            (5e6, 0.1),
        ]))
    }

    /// The next size: whole bytes, at least one.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        (self.0.sample(stream).round() as u64).max(1)
    }
}

impl FromStr for Sizes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "webstone" {
            return Ok(Self::webstone());
        }
        let value = |text: &str| Some(text.trim().parse::<Bytes>().ok()?.0 as f64);
        let read = Distribution::read(text, value).map(Self);
        read.ok_or_else(|| UnitError {
            text: text.to_owned(),
            expected: "a size like \"20 kB\", or a distribution of sizes like \"exponential 20 kB\", \
                       \"uniform 1 kB to 9 kB\", \"pareto 1.5 26 MB\" (shape, mean), \
                       \"500 B: 35, 5 kB: 65\" (weights) or \"webstone\"",
        })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, |bytes| Bytes(bytes as u64).to_string())
    }
}

/// A distribution of times, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(pub Distribution);

impl Times {
    /// The next time.
    pub fn sample(&self, stream: &mut Stream) -> Span {
        Span::from_secs_f64(self.0.sample(stream))
    }
}

impl FromStr for Times {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = |text: &str| Some(text.trim().parse::<Span>().ok()?.as_secs_f64());
        let read = Distribution::read(text, value).map(Self);
        read.ok_or_else(|| UnitError {
            text: text.to_owned(),
            expected: "a time like \"0.2 s\", or a distribution of times like \"exponential 0.2 s\", \
                       \"uniform 1 s to 3 s\", \"pareto 1.5 0.5 s\" (shape, mean) or \
                       \"1 s: 3, 10 s: 1\" (weights)",
        })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, |s| Span::from_secs_f64(s).to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::Streams;

    fn sizes(text: &str) -> Distribution {
        text.parse::<Sizes>().unwrap().0
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(sizes("20 kB"), Distribution::Fixed(20e3));
        assert_eq!(
            sizes("exponential 20 kB"),
            Distribution::Exponential { mean: 20e3 }
        );
        let bounded = Distribution::Pareto {
            shape: 1.5,
            mean: 26e6,
            max: Some(2e9),
        };
        assert_eq!(sizes("pareto 1.5 26 MB to 2 GB"), bounded);
        let times: Times = "uniform 1 s to 3 s".parse().unwrap();
        let (low, high) = (1.0, 3.0);
        assert_eq!(times.0, Distribution::Uniform { low, high });
        for wrong in [
            "",
            "500",
            "500 B: 0",
            "500 B: -1, 5 kB: 1",
            "webston",
            "exponential",
            "exponential 0.2 s",
            "pareto 26 MB",
            "pareto 1 26 MB",
            "pareto 1.5 30 kB to 10 kB", // the smallest value is 10 kB
            "uniform 3 kB to 1 kB",
        ] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
        let error = "exponentail 1 s".parse::<Times>().unwrap_err().to_string();
        assert!(error.contains("\"exponential 0.2 s\""), "{error}");
    }

    #[test]
    fn quantiles_by_hand() {
        // Exponential: -20 ln(1 - 1/2) = 13.8629...
        let exponential = Distribution::Exponential { mean: 20.0 };
        assert!(near(exponential.at(0.5), 20.0 * std::f64::consts::LN_2));
        // Pareto of shape 2, mean 10: the smallest is 5, and 5 (1 - 3/4)^(-1/2) = 10.
        let pareto = |max| Distribution::Pareto {
            shape: 2.0,
            mean: 10.0,
            max,
        };
        assert!(near(pareto(None).at(0.0), 5.0) && near(pareto(None).at(0.75), 10.0));
        // Bounded at 10, which leaves out a quarter: half of the rest lies below
        // 5 (1 - 3/8)^(-1/2) = 6.3246; the last is the bound.
        let bounded = pareto(Some(10.0));
        assert!(near(bounded.at(0.5), 5.0 / 0.625_f64.sqrt()) && near(bounded.at(1.0), 10.0));
        // Its mean: integral of x * 50/x^3 from 5 to 10 is 50 (1/5 - 1/10) = 5; over 3/4.
        assert!(near(bounded.mean(), 5.0 / 0.75));
        assert!(near(sizes("uniform 2 kB to 4 kB").at(0.25), 2500.0));
    }

    #[test]
    fn the_webstone_mix_by_hand() {
        let Sizes(mix) = "webstone".parse().unwrap();
        // 0.35 * 500 + 0.5 * 5000 + 0.14 * 50000 + 0.009 * 500000 + 0.001 * 5000000 = 19175
        assert!(near(mix.mean(), 19_175.0));
        let sizes = [0.0, 0.349, 0.351, 0.849, 0.851, 0.991, 0.9991].map(|x| mix.at(x));
        assert_eq!(sizes, [500.0, 500.0, 5e3, 5e3, 50e3, 500e3, 5e6]);
    }

    #[test]
    fn means_of_samples_lie_where_they_should() {
        let cases = [
            "uniform 1 kB to 9 kB",
            "exponential 20 kB",
            "pareto 3 30 kB",
            "pareto 1.5 20 kB to 1 MB",
            "webstone",
        ];
        for text in cases {
            let distribution = sizes(text);
            let mut stream = Streams::new(1).stream(text);
            const N: usize = 200_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..N {
                let x = distribution.sample(&mut stream);
                sum += x;
                squares += x * x;
            }
            let mean = sum / N as f64;
            let deviation = (squares / N as f64 - mean * mean).sqrt();
            // Four standard errors: one honest stream in 16 000 lies outside.
            let interval = 4.0 * deviation / (N as f64).sqrt();
            let wanted = distribution.mean();
            assert!((mean - wanted).abs() < interval, "{text}: {mean}, {wanted}");
        }
    }

    #[test]
    fn every_draw_takes_one_step_of_the_stream() {
        let [fixed, exponential, mix] = ["20 kB", "exponential 20 kB", "webstone"].map(|text| {
            let mut stream = Streams::new(3).stream("same");
            sizes(text).sample(&mut stream);
            stream.random::<u64>()
        });
        assert!(fixed == exponential && exponential == mix);
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read_back(
            a in 1_u64..1 << 40,
            b in 1_u64..1 << 40,
            shape in 1.001_f64..10.0,
            weight in 0.001_f64..1e6,
            form in 0..6,
        ) {
            let whole = |unit: fn(u64) -> f64| {
                let (low, other, high) = (unit(a), unit(b), unit(a + b));
                match form {
                    0 => Distribution::Fixed(low),
                    1 => Distribution::Uniform { low, high },
                    2 => Distribution::Exponential { mean: low },
                    3 => Distribution::Pareto { shape, mean: low, max: None },
                    4 => Distribution::Pareto { shape, mean: low, max: Some(high) },
                    _ => Distribution::Empirical(vec![(low, weight), (other, 1.0)]),
                }
            };
            let sizes = Sizes(whole(|bytes| bytes as f64));
            prop_assert_eq!(sizes.to_string().parse(), Ok(sizes));
            let times = Times(whole(|nanos| Span::from_nanos(nanos).as_secs_f64()));
            prop_assert_eq!(times.to_string().parse(), Ok(times));
        }
    }
}
