//! Numbers that a mechanism reports: ID, name and unit, declared once.
//!
//! A mechanism declares a table of [`Gauge`]s next to its [`Parameter`](crate::setting::Parameter)s. Its manual page,
//! the component that a peer reads, and the name of its metric come from that table.

use std::fmt;

/// A number that a mechanism reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// ID, unique among the parameters and gauges of the mechanism; it never changes its meaning.
    pub id: u32,
    /// The name of the number.
    pub name: &'static str,
    /// Whether the number only counts up; otherwise it goes up and down.
    pub counts: bool,
    /// The unit of the number.
    pub unit: Unit,
    /// The meaning, in a sentence without a full stop.
    pub about: &'static str,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    One,
    /// Packets or frames.
    Packets,
    /// Thousandths of a packet: the average length of a queue.
    MilliPackets,
    /// Bytes of layer-2 frames, without frame check sequence.
    Bytes,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Bits a second.
    BitsPerSecond,
    /// A share: 1 is all.
    Ratio,
    /// A share in thousandths.
    PerMille,
    /// A share in millionths.
    PerMillion,
}

impl Gauge {
    /// A number that only counts up, from zero at the start of the mechanism.
    pub const fn counter(id: u32, name: &'static str, unit: Unit, about: &'static str) -> Self {
        Self {
            counts: true,
            ..Self::level(id, name, unit, about)
        }
    }

    /// A number that goes up and down.
    pub const fn level(id: u32, name: &'static str, unit: Unit, about: &'static str) -> Self {
        Self {
            id,
            name,
            counts: false,
            unit,
            about,
        }
    }

    /// The same gauge in another mechanism, where it has this ID.
    pub const fn id(self, id: u32) -> Self {
        Self { id, ..self }
    }
}

impl fmt::Display for Unit {
    /// The unit, as it is printed after the type of a number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "",
            Self::Packets => ", packets",
            Self::MilliPackets => ", thousandths of a packet",
            Self::Bytes => ", bytes",
            Self::Seconds => ", seconds",
            Self::Milliseconds => ", milliseconds",
            Self::BitsPerSecond => ", bit/s",
            Self::Ratio => ", 1 = 100 %",
            Self::PerMille => ", thousandths",
            Self::PerMillion => ", millionths",
        })
    }
}
