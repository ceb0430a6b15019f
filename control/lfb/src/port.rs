//! A port: its interface, and how fast it sends.

use weir_base::Rate;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::units::Bytes;
use weir_discipline::Spec;
use weir_path::port::Link;

/// The components of a port, but for its `discipline`, which is a block of its own.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "interface",
        kind: Kind::Text(15),
        default: "",
        about: "network interface; if absent, the one with the port's name",
    },
    Parameter {
        name: "rate",
        kind: Kind::Rate(Rate::from_bps(0), Rate::from_mbps(400_000)),
        default: "0 bit",
        about: "pace what is sent to this rate; 0 bit: send as fast as the device takes it",
    },
    Parameter {
        name: "overhead",
        kind: Kind::Bytes(Bytes(0), Bytes(256)),
        default: "24 B",
        about: "what a frame costs on the wire beyond its layer-2 length (24 B: Ethernet's preamble, FCS and gap)",
    },
];

/// Slower than this the burst of one frame lasts for seconds.
const RATE_MIN: Rate = Rate::from_bps(8_000);

/// A checked port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortPlan {
    /// Its name in the configuration.
    pub name: String,
    /// Its network interface.
    pub interface: String,
    /// The rate that it is paced to.
    pub rate: Option<Rate>,
    /// Bytes that a frame costs beyond its length.
    pub overhead: u32,
    /// Its discipline.
    pub discipline: Spec,
}

impl PortPlan {
    /// From checked settings; the error names the component and the rule.
    pub fn new(
        name: &str,
        settings: &Settings,
        discipline: Spec,
    ) -> Result<Self, (&'static str, String)> {
        let interface = match settings.text("interface") {
            "" => name,
            given => given,
        };
        if interface.len() > 15 || interface.contains(['/', ' ']) || interface.is_empty() {
            let why = format!("\"{interface}\" cannot be the name of a network interface");
            return Err(("interface", why));
        }
        let rate = settings.rate("rate");
        if rate != Rate::default() && rate < RATE_MIN {
            let why = format!("\"{rate}\" is too slow: at least \"{RATE_MIN}\", or absent");
            return Err(("rate", why));
        }
        Ok(Self {
            name: name.to_owned(),
            interface: interface.to_owned(),
            rate: Some(rate).filter(|r| *r != Rate::default()),
            overhead: settings.bytes("overhead") as u32,
            discipline,
        })
    }

    /// The link that the port sends into, for frames of at most `frame_bytes_max`.
    pub fn link(&self, frame_bytes_max: u32) -> Link {
        Link {
            rate: self.rate,
            overhead: self.overhead as i32, // its range is checked
            frame_bytes_max,
        }
    }
}
