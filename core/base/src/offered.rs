//! An offered load: a rate, constant or a linear function of time.
//!
//! ```text
//!   rate(t) = max(0, slope * t + base)        t in seconds since the start of the run
//! ```
//!
//! Written `"2 Mbit"`, `"0.5*t + 2 Mbit"`, `"2*t - 1 Mbit"`, or with a unit at each term,
//! `"500 kbit*t + 2 Mbit"`. A unit at the end applies to all terms that have none. Schedules are
//! computed from the integral, not by adding up gaps, so they do not drift.

use std::fmt;
use std::str::FromStr;

use crate::units::{Rate, UnitError};

/// A rate that may grow or shrink with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Bits a second, each second.
    pub slope: f64,
    /// Bits a second at the start of the run.
    pub base: f64,
}

impl Offered {
    /// The same rate at all times.
    pub fn constant(rate: Rate) -> Self {
        Self {
            slope: 0.0,
            base: rate.as_bps() as f64,
        }
    }

    /// This load split evenly into `parts`.
    pub fn shared_by(self, parts: u32) -> Self {
        let parts = f64::from(parts.max(1));
        Self {
            slope: self.slope / parts,
            base: self.base / parts,
        }
    }

    /// Bits a second at `t` seconds.
    pub fn at(&self, t: f64) -> f64 {
        (self.slope * t + self.base).max(0.0)
    }

    /// Bits offered from `from` to `until` (seconds).
    pub fn bits_between(&self, from: f64, until: f64) -> f64 {
        let (mut from, mut until) = (from, until.max(from));
        if self.slope != 0.0 {
            let zero = -self.base / self.slope;
            if self.slope > 0.0 {
                (from, until) = (from.max(zero), until.max(zero));
            } else {
                (from, until) = (from.min(zero), until.min(zero));
            }
        }
        (self.at(from) + self.at(until)) / 2.0 * (until - from)
    }

    /// The time at which `bits` bits have been offered since `from`; `None` if that never happens.
    pub fn time_of(&self, from: f64, bits: f64) -> Option<f64> {
        if self.slope == 0.0 && self.base > 0.0 {
            return Some(from + bits / self.base);
        }
        let start = if self.slope > 0.0 {
            from.max(-self.base / self.slope)
        } else {
            from
        };
        let rate = self.at(start);
        // slope/2 x^2 + rate x = bits, solved without cancellation
        let root = rate * rate + 2.0 * self.slope * bits;
        let denominator = rate + root.max(0.0).sqrt();
        if root < 0.0 || denominator <= 0.0 {
            return (bits <= 0.0).then_some(start);
        }
        Some(start + 2.0 * bits / denominator)
    }
}

const EXPECTED: &str = "a rate like \"100 Mbit\", or a function of the time t in seconds like \"0.5*t + 2 Mbit\" \
                        (bit, kbit, Mbit, Gbit)";

/// One term as written: its number, its unit, and whether it is multiplied by t.
struct Term {
    number: f64,
    unit: Option<f64>,
    times_t: bool,
}

impl FromStr for Offered {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            text: text.to_owned(),
            expected: EXPECTED,
        };
        let spaced = text.replace(['(', ')'], " ").replace('-', "+-");
        let terms = spaced.split('+').filter(|t| !t.trim().is_empty());
        let terms: Vec<Term> = terms
            .map(read_term)
            .collect::<Option<_>>()
            .ok_or_else(error)?;
        let shared = terms.last().and_then(|t| t.unit).ok_or_else(error)?;
        let mut offered = Self {
            slope: 0.0,
            base: 0.0,
        };
        for term in terms {
            let value = term.number * term.unit.unwrap_or(shared);
            if term.times_t {
                offered.slope += value;
            } else {
                offered.base += value;
            }
        }
        let sane = offered.slope.abs() <= 1e12 && offered.base.abs() <= 1e12;
        if sane { Ok(offered) } else { Err(error()) }
    }
}

/// Reads `[-] [number] [unit] [*] [t] [unit]`.
fn read_term(text: &str) -> Option<Term> {
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest.trim()),
        None => (1.0, text),
    };
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number = match &text[..end] {
        "" => 1.0,
        digits => digits.replace('_', "").parse::<f64>().ok()?,
    };
    let mut term = Term {
        number: sign * number,
        unit: None,
        times_t: false,
    };
    for word in text[end..].replace('*', " ").split_whitespace() {
        if word == "t" && !term.times_t {
            term.times_t = true;
        } else if term.unit.is_none() {
            term.unit = Some(format!("1 {word}").parse::<Rate>().ok()?.as_bps() as f64);
        } else {
            return None;
        }
    }
    (end > 0 || term.times_t).then_some(term)
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.slope == 0.0 {
            return write!(f, "{} bit", self.base);
        }
        let sign = if self.base < 0.0 { '-' } else { '+' };
        write!(f, "{} bit*t {sign} {} bit", self.slope, self.base.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (f64, f64) {
        let offered: Offered = text.parse().unwrap();
        (offered.slope, offered.base)
    }

    #[test]
    fn written_loads_are_read() {
        assert_eq!(read("100 Mbit"), (0.0, 1e8));
        assert_eq!(read("0.5*t + 2 Mbit"), (0.5e6, 2e6));
        assert_eq!(read("2*t - 1 Mbit"), (2e6, -1e6));
        assert_eq!(read("500 kbit * t + 2Mbit"), (0.5e6, 2e6));
        assert_eq!(read("(0.5*t + 2) Mbit"), (0.5e6, 2e6));
        assert_eq!(read("t Mbit"), (1e6, 0.0));
        assert_eq!(read("-1*t + 4 Mbit"), (-1e6, 4e6));
        for wrong in [
            "",
            "2",
            "Mbit",
            "2 Mb",
            "2*t*t Mbit",
            "t",
            "2 x Mbit",
            "9e9 Gbit",
        ] {
            assert!(wrong.parse::<Offered>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        for text in ["100 Mbit", "2*t - 1 Mbit", "0.5*t + 2 Mbit"] {
            let offered: Offered = text.parse().unwrap();
            assert_eq!(offered.to_string().parse(), Ok(offered));
        }
    }

    #[test]
    fn integrals_by_hand() {
        // 2t - 1 from t = 1 to 3: integral of 2t - 1 = [t^2 - t] = 6 - 0 = 6 Mbit.
        let offered: Offered = "2*t - 1 Mbit".parse().unwrap();
        assert!((offered.bits_between(1.0, 3.0) - 6e6).abs() < 1e-3);
        // It is negative before t = 0.5: from 0 to 1 only 0.5..1 counts: 0.25 Mbit.
        assert!((offered.bits_between(0.0, 1.0) - 0.25e6).abs() < 1e-3);
        // 4 - t: from 0 to 10 only 0..4 counts: 8 Mbit, and there is never more.
        let falling: Offered = "-1*t + 4 Mbit".parse().unwrap();
        assert!((falling.bits_between(0.0, 10.0) - 8e6).abs() < 1e-3);
        assert!((falling.time_of(0.0, 7.5e6).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(falling.time_of(0.0, 8.1e6), None);
    }

    #[test]
    fn the_time_of_an_amount_is_the_inverse_of_the_integral() {
        for text in ["3 Mbit", "2*t - 1 Mbit", "0.5*t + 2 Mbit", "-1*t + 40 Mbit"] {
            let offered: Offered = text.parse().unwrap();
            for bits in [1e3, 1e5, 2.5e6, 1e7] {
                let t = offered.time_of(1.5, bits).unwrap();
                let again = offered.bits_between(1.5, t);
                assert!((again - bits).abs() < 1e-3, "{text} {bits}: {again}");
            }
        }
        let nothing: Offered = "0 Mbit".parse().unwrap();
        assert_eq!(nothing.time_of(0.0, 1.0), None);
    }
}
