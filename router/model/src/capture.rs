//! Capture requests, and the reasons why a router refuses a capture.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, Scalar, Settings};

use crate::class::{Class, Component, Type};
use crate::observe::PacketFilter;

/// The LFB class of captures.
pub const CLASS: Class = Class {
    name: "capture",
    id: 0x00F7_010A,
    about: "a capture of packets that pass or are dropped at the ports",
    parameters: &[
        Parameter::new("drops", Kind::Flag, "false", "capture only lost packets").id(2),
        Parameter::new(
            "snap",
            Kind::Count(1, 262_144),
            "96",
            "maximum bytes captured of each frame",
        )
        .id(3),
        Parameter::new(
            "packets",
            Kind::Count(1, 1_000_000),
            "10000",
            "number of packets after which the capture ends",
        )
        .id(4),
        Parameter::new(
            "seconds",
            Kind::Ratio(0.001, 600.0),
            "10",
            "maximum duration of the capture, in seconds",
        )
        .id(5),
    ],
    gauges: &[
        Gauge::counter(101, "captured", Unit::Packets, "captured packets"),
        Gauge::counter(
            102,
            "missed",
            Unit::Packets,
            "packets not captured because the buffer was full",
        ),
    ],
    components: &[
        Component::new(1, "ports", Type::Text, "wan")
            .about("Names of the ports; empty: all ports.")
            .settable(),
        Component::new(6, "filter", Type::Struct(FILTER), "")
            .about("Captures only packets of these flows and with these drop reasons.")
            .settable(),
    ],
    ..Class::PLAIN
};

/// The fields of a [`PacketFilter`].
const FILTER: &[Component] = &[
    Component::new(1, "host", Type::Text, "192.0.2.7")
        .about("Addresses or prefixes of either end."),
    Component::new(2, "src", Type::Text, "").about("Addresses or prefixes of the source."),
    Component::new(3, "dst", Type::Text, "").about("Addresses or prefixes of the destination."),
    Component::new(4, "proto", Type::Text, "udp").about("Protocols, by name or number."),
    Component::new(5, "port_number", Type::Text, "53").about("Port numbers of either end."),
    Component::new(6, "reason", Type::Text, "").about("Drop reasons."),
];

/// A capture request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRequest {
    /// Names of the ports; empty: all ports.
    pub ports: Vec<String>,
    /// Capture only lost packets.
    pub drops: bool,
    /// Captures only packets of these flows and with these drop reasons.
    pub filter: PacketFilter,
    /// Maximum bytes captured of each frame.
    pub snap: u32,
    /// Number of packets after which the capture ends.
    pub packets: u64,
    /// Maximum duration of the capture, in seconds.
    pub seconds: f64,
}

/// A capture that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureTicket {
    /// ID of the capture, for fetching it.
    pub id: u64,
}

/// A finished capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureReport {
    /// Captured packets.
    pub captured: u64,
    /// Packets not captured because the buffer was full.
    pub missed: u64,
}

/// Why a capture is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureRefusal {
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Only one capture runs at a time.
    #[error("another capture is running; retry when it has ended")]
    Busy,
    /// There is no capture of this number.
    #[error("no such capture; a capture ends if it is not fetched for a while")]
    Gone,
    /// The router does not answer.
    #[error("{0}")]
    Silent(String),
}

impl Default for CaptureRequest {
    fn default() -> Self {
        let defaults = Settings::defaults(CLASS.parameters);
        Self {
            ports: Vec::new(),
            drops: defaults.flag("drops"),
            filter: PacketFilter::default(),
            snap: defaults.count("snap") as u32, // the permitted range fits a u32
            packets: defaults.count("packets"),
            seconds: defaults.ratio("seconds"),
        }
    }
}

impl CaptureRequest {
    /// Whether every value is within its range; whether the ports exist is not checked.
    pub fn check(&self) -> Result<(), CaptureRefusal> {
        let packets = i64::try_from(self.packets).unwrap_or(i64::MAX); // above every limit, so the check refuses it
        let given = [
            ("snap", Scalar::Integer(self.snap.into())),
            ("packets", Scalar::Integer(packets)),
            ("seconds", Scalar::Real(self.seconds)),
        ];
        let given = given.iter().map(|(name, value)| (*name, value));
        let checked = Settings::check(CLASS.parameters, given);
        checked
            .map(drop)
            .map_err(|error| CaptureRefusal::Wrong(error.to_string()))
    }
}
