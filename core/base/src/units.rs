//! Rates, byte counts, and the written forms of every unit that a configuration uses.
//!
//! A written quantity is a number, an optional space, and a unit: `"100 Mbit"`, `"0.1 ms"`,
//! `"1500 B"`, `"20 packets"`. Rates are decimal (1 kbit = 1000 bit/s), sizes accept both
//! `kB` (1000) and `KiB` (1024).

use std::fmt;
use std::str::FromStr;

use crate::time::Span;

/// A data rate in bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why a written quantity was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct UnitError {
    /// The text as written.
    pub text: String,
    /// The permitted form, with an example.
    pub expected: &'static str,
}

impl Rate {
    /// The largest rate that a parameter accepts, above that of any existing link. The same bound applies to
    /// the rates that a controller orders and to those that a queue accepts.
    pub const PARAMETER_MAX: Self = Self::from_mbps(1_000_000);

    /// A rate of `bits` bits a second.
    pub const fn from_bps(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `megabits` million bits a second.
    pub const fn from_mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000)
    }

    /// Bits a second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// The time that `bytes` take at this rate, to the nearest nanosecond; [`Span::MAX`] at rate zero.
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let bit_nanos = bytes as u128 * 8 * 1_000_000_000;
        Span::from_nanos(((bit_nanos + self.0 as u128 / 2) / self.0 as u128) as u64)
    }

    /// Whole bytes that this rate carries in `span`.
    pub const fn bytes_in(self, span: Span) -> u64 {
        (self.0 as u128 * span.as_nanos() as u128 / 8_000_000_000) as u64
    }
}

/// The units of one quantity as they are written, each with its size in the base unit.
type Units = [(&'static str, f64)];

const RATES: &Units = &[
    ("bit", 1.0),
    ("bit/s", 1.0),
    ("kbit", 1e3),
    ("kbit/s", 1e3),
    ("Mbit", 1e6),
    ("Mbit/s", 1e6),
    ("Gbit", 1e9),
    ("Gbit/s", 1e9),
];
const TIMES: &Units = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
];
const SIZES: &Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
];

/// Spellings that other programs and people use for our units.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("bit", &["bps", "b"]),
    ("kbit", &["k", "kb", "kbps", "kb/s"]),
    ("Mbit", &["m", "mb", "mbps", "mb/s"]),
    ("Gbit", &["g", "gb", "gbps", "gb/s"]),
    ("ns", &["nsec", "nanoseconds"]),
    ("us", &["usec", "µs", "microseconds"]),
    ("ms", &["msec", "millis", "milliseconds"]),
    ("s", &["sec", "seconds", "second"]),
    ("min", &["m", "minutes", "minute"]),
    ("B", &["byte", "bytes", "octets"]),
    ("kB", &["k", "kb"]),
    ("KiB", &["ki"]),
    ("MB", &["m", "mb"]),
    ("MiB", &["mi"]),
    ("GB", &["g", "gb"]),
];

/// A quantity that has a unit, for the error that names the right unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A [`Rate`].
    Rate,
    /// A [`Span`].
    Time,
    /// [`Bytes`].
    Size,
}

impl Quantity {
    fn units(self) -> &'static Units {
        match self {
            Self::Rate => RATES,
            Self::Time => TIMES,
            Self::Size => SIZES,
        }
    }

    /// The units, as an error lists them.
    pub const fn unit_names(self) -> &'static str {
        match self {
            Self::Rate => "bit, kbit, Mbit, Gbit",
            Self::Time => "ns, us, ms, s, min",
            Self::Size => "B, kB, MB, GB, KiB, MiB",
        }
    }

    /// The probable meaning of `text`, if its number can be read and its unit cannot: `"95 Mbit"` for `"95 Mbits"` and
    /// for `"95M"`. `None` for a bare number, because its unit cannot be guessed.
    pub fn meant(self, text: &str) -> Option<String> {
        let (value, written) = split(text)?;
        let units = self.units();
        if written.is_empty() || units.iter().any(|(name, _)| *name == written) {
            return None;
        }
        if self == Self::Rate
            && let Some(bits) = bits_of_bytes(written)
        {
            return Some(format!("{} {bits}", 8.0 * value));
        }
        let number = text.trim().strip_suffix(written)?.trim_end();
        let lower = written.to_lowercase();
        let is_meant = |name: &str| {
            let synonyms = SYNONYMS.iter().filter(|(unit, _)| *unit == name);
            let mut synonyms = synonyms.flat_map(|(_, synonyms)| *synonyms);
            let name = name.to_lowercase();
            lower == name || lower == name + "s" || synonyms.any(|synonym| *synonym == lower)
        };
        let (unit, _) = units.iter().find(|(name, _)| is_meant(name))?;
        Some(format!("{number} {unit}"))
    }
}

/// The unit in bits that corresponds to a unit in bytes per second (`MB/s`, `MBps`). An upper-case `B` means bytes.
fn bits_of_bytes(written: &str) -> Option<&'static str> {
    let prefix = written
        .strip_suffix("B/s")
        .or_else(|| written.strip_suffix("Bps"))?;
    match prefix {
        "" => Some("bit"),
        "k" | "K" => Some("kbit"),
        "M" => Some("Mbit"),
        "G" => Some("Gbit"),
        _ => None,
    }
}

/// Splits `"1.5 ms"` into the number and the unit's name.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number = text[..end].replace('_', "").parse::<f64>().ok()?;
    Some((number, text[end..].trim()))
}

/// Reads a quantity by a table of unit names and their size in the base unit.
fn read(text: &str, expected: &'static str, units: &Units) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected,
    };
    let (number, unit) = split(text).ok_or_else(error)?;
    let (_, size) = units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(error)?;
    let value = number * size;
    // Zero means unlimited in many places, so a quantity that would round to it is refused.
    let is_lost = value > 0.0 && value < 0.5;
    if value.is_finite() && value <= u64::MAX as f64 && !is_lost {
        Ok(value.round() as u64)
    } else {
        Err(error())
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(
            text,
            "a rate like \"100 Mbit\" (bit, kbit, Mbit, Gbit)",
            RATES,
        )
        .map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text, "a time like \"0.1 ms\" (ns, us, ms, s, min)", TIMES).map(Self::from_nanos)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(
            text,
            "a size like \"1500 B\" (B, kB, MB, GB, KiB, MiB)",
            SIZES,
        )
        .map(Self)
    }
}

/// Reads a count of packets: `125` or `125 packets`.
pub fn read_packets(text: &str) -> Result<u64, UnitError> {
    const UNITS: &Units = &[("packets", 1.0), ("packet", 1.0), ("", 1.0)];
    read(text, "a number of packets like \"125 packets\"", UNITS)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1_000_000_000 => (1e9, "Gbit"),
            n if n >= 1_000_000 => (1e6, "Mbit"),
            n if n >= 1_000 => (1e3, "kbit"),
            _ => (1.0, "bit"),
        };
        write!(f, "{} {name}", self.0 as f64 / unit)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 && n % 1_000 == 0 => write!(f, "{} MB", n as f64 / 1e6),
            n => write!(f, "{n} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_a_second_are_eight_times_as_many_bits() {
        let meant = |text| Quantity::Rate.meant(text);
        assert_eq!(meant("12.5 MB/s").as_deref(), Some("100 Mbit"));
        assert_eq!(meant("1_000KBps").as_deref(), Some("8000 kbit"));
        assert_eq!(meant("12.5 Mb/s").as_deref(), Some("12.5 Mbit"));
        assert_eq!(meant("9 mb/s").as_deref(), Some("9 Mbit"));
    }

    #[test]
    fn a_small_quantity_is_not_none() {
        assert!("0.4 bit".parse::<Rate>().is_err() && "0.3 ns".parse::<Span>().is_err());
        assert!("0.1 B".parse::<Bytes>().is_err());
        assert_eq!("0 bit".parse(), Ok(Rate::from_bps(0)));
        assert_eq!("0.0004 kB".parse::<Bytes>().ok(), None);
        assert_eq!("0.0005 kbit".parse(), Ok(Rate::from_bps(1)));
    }

    #[test]
    fn written_quantities_are_read() {
        assert_eq!("100 Mbit".parse(), Ok(Rate::from_mbps(100)));
        assert_eq!("2.5Gbit/s".parse(), Ok(Rate::from_mbps(2500)));
        assert_eq!("0.1 ms".parse(), Ok(Span::from_micros(100)));
        assert_eq!("1500 B".parse(), Ok(Bytes(1500)));
        assert_eq!("64 KiB".parse(), Ok(Bytes(65536)));
        assert_eq!(read_packets("125 packets"), Ok(125));
    }

    #[test]
    fn a_wrong_unit_says_which_are_right() {
        let error = "100 Mb".parse::<Rate>().unwrap_err();
        assert!(error.to_string().contains("Mbit"), "{error}");
        assert!("-1 s".parse::<Span>().is_err());
        assert!("".parse::<Bytes>().is_err());
    }

    #[test]
    fn a_unit_of_another_program_is_understood_and_named() {
        let meant = |quantity: Quantity, text| quantity.meant(text);
        for text in ["95 Mbits", "95M", "95 mbit", "95 Mbps", "95Mb/s"] {
            assert_eq!(meant(Quantity::Rate, text).as_deref(), Some("95 Mbit"));
        }
        let time = |text| meant(Quantity::Time, text);
        assert_eq!(time("0.5 sec").as_deref(), Some("0.5 s"));
        assert_eq!(time("5 MS").as_deref(), Some("5 ms"));
        let size = meant(Quantity::Size, "1500 bytes");
        assert_eq!(size.as_deref(), Some("1500 B"));
        for text in ["95", "95 Mbit", "fast", "95 apples", ""] {
            assert_eq!(meant(Quantity::Rate, text), None, "{text}");
        }
    }

    #[test]
    fn transmission_time_by_hand() {
        // 1514 B x 8 = 12112 bit; at 100 Mbit/s that is 121.12 us.
        assert_eq!(
            Rate::from_mbps(100).time_for(1514),
            Span::from_nanos(121_120)
        );
        // 64 B + 20 B on the wire at 100 Gbit/s: 6.72 ns, nearest 7.
        assert_eq!(Rate::from_mbps(100_000).time_for(84), Span::from_nanos(7));
        assert_eq!(Rate::from_bps(0).time_for(1), Span::MAX);
        assert_eq!(Rate::from_mbps(100).bytes_in(Span::from_millis(1)), 12_500);
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read_back(bits in 0_u64..1 << 50, nanos in 0_u64..1 << 50, bytes in 0_u64..1 << 50) {
            prop_assert_eq!(Rate(bits).to_string().parse(), Ok(Rate(bits)));
            prop_assert_eq!(Span::from_nanos(nanos).to_string().parse(), Ok(Span::from_nanos(nanos)));
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
    }
}
