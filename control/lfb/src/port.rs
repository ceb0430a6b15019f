//! A port: its interface, and how fast it sends.

use std::sync::Arc;

use weir_base::setting::{Kind, Parameter, Scalar, Setting, Settings};
use weir_base::units::Bytes;
use weir_base::{Rate, Span};
use weir_discipline::Spec;
use weir_path::egress::port::Link;
use weir_path::ip::source_check::SourceCheck;

use crate::auto_rate::AutoRate;

/// The values of `kind`, of an interface that is there, and of one that the router makes.
const KINDS: [&str; 2] = ["ethernet", TUN];
const TUN: &str = "tun";
/// The value of `rate` of a port that finds it.
const AUTO: &str = "auto";

/// The components of a port, but for its `discipline`, which is a block of its own.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "interface",
        Kind::Text(15),
        "",
        "network interface; if absent, the one with the port's name",
    )
    .id(2),
    Parameter::new(
        "rate",
        Kind::RateOrWord(Rate::from_bps(0), RATE_MAX, &[AUTO]),
        "0 bit",
        "pace what is sent to this rate; 0 bit: send as fast as the device takes it; auto: find the rate of the link \
                behind the port, by probes to `reflectors` or by its own traffic",
    )
    .id(21),
    Parameter::new(
        "overhead",
        Kind::Bytes(Bytes(0), Bytes(256)),
        "24 B",
        "what a frame costs on the wire beyond its layer-2 length (24 B: Ethernet's preamble, FCS and gap)",
    )
    .id(22),
    Parameter::new(
        "local_share",
        Kind::Ratio(0.01, 1.0),
        "0.5",
        "share of `rate` that packets of the box itself may take of the port, which pass before transit; a port without `rate` has no such limit",
    )
    .id(23),
    Parameter::new(
        "source_check",
        Kind::Word(&["kernel", "strict", "loose", "off"]),
        "kernel",
        "which sources may come in (RFC 3704): strict: those that are routed back out of this port; loose: those \
                that have a route; kernel: what net.ipv4.conf.*.rp_filter says, and off for IPv6",
    )
    .id(24),
    Parameter::new(
        "kind",
        Kind::Word(&KINDS),
        "ethernet",
        "ethernet: an interface of the machine; tun: the router makes the interface, and what the machine routes into it \
                gets the headers of `fpf.encapsulation`, like packets that come in by other ports",
    )
    .id(25),
    Parameter::new(
        "rate_least",
        Kind::Rate(RATE_MIN, RATE_MAX),
        "1 Mbit",
        "with rate auto: the least rate, whatever the delay",
    )
    .id(26),
    Parameter::new(
        "rate_base",
        Kind::Rate(Rate::from_bps(0), RATE_MAX),
        "0 bit",
        "with rate auto: the rate at the start and after a while without load, and the greatest one while no reflector \
                answers; 0 bit: `rate_least`",
    )
    .id(27),
    Parameter::new(
        "rate_most",
        Kind::Rate(RATE_MIN, RATE_MAX),
        "1 Gbit",
        "with rate auto: the greatest rate",
    )
    .id(28),
    Parameter::new(
        "rate_threshold",
        Kind::Span(Span::from_millis(1), Span::from_secs(1)),
        "8 ms",
        "with rate auto: delay above the baseline that counts as a queue behind the port; more than the jitter of the way",
    )
    .id(29),
    Parameter::new(
        "rate_interval",
        Kind::Span(Span::from_millis(5), Span::from_secs(1)),
        "20 ms",
        "with rate auto: time between two probes while the port is busy",
    )
    .id(30),
    Parameter::new(
        "reflectors",
        Kind::Text(512),
        "",
        "with rate auto: up to 8 addresses of hosts behind the link that answer pings, separated by spaces; and \
                `traffic`: the TCP connections with timestamps that pass the port, beside them or alone",
    )
    .id(31),
];

/// Slower than this the burst of one frame lasts for seconds.
const RATE_MIN: Rate = Rate::from_bps(8_000);
const RATE_MAX: Rate = Rate::from_mbps(400_000);

/// A checked port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortPlan {
    /// Its name in the configuration.
    pub name: String,
    /// Its network interface.
    pub interface: String,
    /// Whether the router makes the interface, for packets of the machine's own processes.
    pub is_tun: bool,
    /// The rate that it is paced to; if it finds its rate, the one at the start.
    pub rate: Option<Rate>,
    /// How it finds its rate, if it does.
    pub auto: Option<Arc<AutoRate>>,
    /// Bytes that a frame costs beyond its length.
    pub overhead: u32,
    /// Share of the rate that packets of the box itself may take.
    pub local_share: f64,
    /// How sources are checked that come in; none: as the kernel does it.
    pub source_check: Option<SourceCheck>,
    /// Its discipline.
    pub discipline: Spec,
    /// Its components as they were asked for, for showing.
    pub(crate) settings: Settings,
}

/// Bytes of a port's name at most.
const NAME_BYTES_MAX: usize = 64;

/// A port's name stands in tables, logs and paths: one printable word.
fn check_name(name: &str) -> Result<(), (&'static str, String)> {
    let wrong = |c: char| c.is_control() || c.is_whitespace();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(wrong) {
        let why = format!(
            "{name:?} cannot be the name of a port; it must have 1 to {NAME_BYTES_MAX} bytes \
             without spaces and control characters, like [port.wan] or [port.\"eth0.100\"]"
        );
        return Err(("", why));
    }
    Ok(())
}

/// Components that make no sense where processes of the machine are behind a port.
fn check_tun(settings: &Settings, interface: &str) -> Result<(), (&'static str, String)> {
    if interface.contains([':', '%']) || matches!(interface, "." | "..") {
        let why = format!(
            "{interface:?} cannot be the name of an interface that the router makes; write it without `:` and `%`, like \
             interface = \"weir0\""
        );
        return Err(("interface", why));
    }
    if settings.setting("rate") != &Setting::Rate(Rate::default()) {
        let why = "a port of kind \"tun\" has no rate: its packets are paced at the ports by which they leave";
        return Err(("rate", why.to_owned()));
    }
    if settings.word("source_check") != "kernel" {
        let why =
            "a port of kind \"tun\" has no source check: the machine itself has chosen the sources";
        return Err(("source_check", why.to_owned()));
    }
    Ok(())
}

/// A rate that a person chose; none if the port is not paced.
fn fixed_rate(rate: Rate) -> Result<Option<Rate>, (&'static str, String)> {
    if rate != Rate::default() && rate < RATE_MIN {
        let why = format!("\"{rate}\" is too slow: at least \"{RATE_MIN}\", or absent");
        return Err(("rate", why));
    }
    Ok(Some(rate).filter(|rate| *rate != Rate::default()))
}

impl PortPlan {
    /// From checked settings; the error names the component and the rule.
    pub fn new(
        name: &str,
        mut settings: Settings,
        discipline: Spec,
    ) -> Result<Self, (&'static str, String)> {
        check_name(name)?;
        let interface = match settings.text("interface") {
            "" => name,
            given => given,
        }
        .to_owned();
        let wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        if interface.len() > 15 || interface.contains(wrong) || interface.is_empty() {
            let why = format!(
                "{interface:?} cannot be the name of a network interface; it must have 1 to 15 \
                 bytes without spaces and `/`, like interface = \"eth0\" (`ip link` lists them)"
            );
            return Err(("interface", why));
        }
        let (rate, auto) = match settings.setting("rate") {
            Setting::Word(_) => {
                let auto = AutoRate::new(&settings)?;
                (Some(auto.params.base), Some(Arc::new(auto)))
            }
            _ => (fixed_rate(settings.rate("rate"))?, None),
        };
        let is_tun = settings.word("kind") == TUN;
        if is_tun {
            check_tun(&settings, &interface)?;
        }
        settings
            .set(PARAMETERS, "interface", &Scalar::Text(interface.clone()))
            .map_err(|error| ("interface", error.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            is_tun,
            rate,
            auto,
            overhead: settings.bytes("overhead") as u32,
            local_share: settings.ratio("local_share"),
            source_check: match settings.word("source_check") {
                "strict" => Some(SourceCheck::Strict),
                "loose" => Some(SourceCheck::Loose),
                "off" => Some(SourceCheck::Off),
                _ => None,
            },
            discipline,
            settings,
            interface,
        })
    }

    /// The most that packets of the box itself may take of the port while its rate is this one.
    pub fn local_rate(&self, rate: Rate) -> Rate {
        Rate::from_bps((rate.as_bps() as f64 * self.local_share) as u64)
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
