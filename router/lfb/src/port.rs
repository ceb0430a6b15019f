//! A port: its interface, and its rate.

use std::sync::Arc;

use weir_base::framing::{self, Cells, Framing};
use weir_base::setting::{Kind, Parameter, Scalar, Setting, Settings};
use weir_base::units::Bytes;
use weir_base::{Rate, Span};
use weir_discipline::Spec;
use weir_path::egress::port::Link;
use weir_path::ip::tables::SourceCheck;

use crate::auto_rate::AutoRate;

/// The values of `kind`: an existing interface, and an interface that the router creates.
const KINDS: [&str; 2] = ["ethernet", TUN];
const TUN: &str = "tun";
/// The value of `direction` of a port for received frames.
const IN: &str = "in";
/// The value of `rate` of a port that finds its rate; for `mpu` and `framing` it means the default of `overhead`.
const AUTO: &str = "auto";

/// The components of a port, except its `discipline`, which is a separate block.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "interface",
        Kind::Text(15),
        "",
        "network interface; by default the interface with the port's name",
    )
    .id(2),
    Parameter::new(
        "rate",
        Kind::RateOrWord(Rate::from_bps(0), RATE_MAX, &[AUTO]),
        "0 bit",
        "rate to which sent packets are paced; 0 bit: as fast as the device accepts; auto: estimate the rate of the \
         link behind the port by probes to `reflectors` or by its own traffic; not with direction in",
    )
    .id(21),
    Parameter::new(
        "overhead",
        Kind::BytesOrWords(Bytes(0), Bytes(256), framing::KEYWORDS),
        "ethernet",
        "bytes that a frame takes of `rate` beyond its layer-2 length, as a number or a keyword of tc-cake(8); \
         ethernet: frame check sequence, preamble and gap (24 B)",
    )
    .id(22),
    Parameter::new(
        "local_share",
        Kind::Ratio(0.01, 1.0),
        "0.5",
        "maximum share of `rate` for the machine's own packets, which pass before forwarded packets; a port without \
         `rate` has no such limit",
    )
    .id(23),
    Parameter::new(
        "source_check",
        Kind::Word(&["kernel", "strict", "loose", "off"]),
        "kernel",
        "permitted sources of received packets (RFC 3704): strict: sources routed back through this port; loose: \
         sources that have a route; kernel: per net.ipv4.conf.*.rp_filter, and off for IPv6",
    )
    .id(24),
    Parameter::new(
        "kind",
        Kind::Word(&KINDS),
        "ethernet",
        "ethernet: an interface of the machine; tun: the router creates the interface, and packets that the machine \
         routes into it get the headers of `fpf.encapsulation`, like packets received at other ports",
    )
    .id(25),
    Parameter::new(
        "rate_least",
        Kind::Rate(RATE_MIN, RATE_MAX),
        "1 Mbit",
        "with rate auto: minimum rate, regardless of the delay",
    )
    .id(26),
    Parameter::new(
        "rate_base",
        Kind::Rate(Rate::from_bps(0), RATE_MAX),
        "0 bit",
        "with rate auto: rate at the start and after a period without load, and maximum rate while no reflector \
         answers; 0 bit: `rate_least`",
    )
    .id(27),
    Parameter::new(
        "rate_most",
        Kind::Rate(RATE_MIN, RATE_MAX),
        "1 Gbit",
        "with rate auto: maximum rate",
    )
    .id(28),
    Parameter::new(
        "rate_threshold",
        Kind::Span(Span::from_millis(1), Span::from_secs(1)),
        "8 ms",
        "with rate auto: delay above the baseline that counts as a queue behind the port; must exceed the jitter of \
         the path",
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
         `traffic`, alone or in addition: the TCP connections with timestamps through the port",
    )
    .id(31),
    Parameter::new(
        "mpu",
        Kind::BytesOrWords(Bytes(0), Bytes(256), &[AUTO]),
        AUTO,
        "minimum bytes that a frame takes of `rate`, including `overhead`; auto: as defined by the keyword of \
         `overhead` (ethernet 84 B, docsis 64 B, others 0 B), or, if `overhead` is in bytes, 60 B (Ethernet's shortest \
         frame) plus `overhead`",
    )
    .id(32),
    Parameter::new(
        "framing",
        Kind::Word(&[AUTO, "none", "atm", "ptm"]),
        AUTO,
        "how the link carries a frame: atm: in cells of 53 B for each 48 B; ptm: with one extra byte for each 64 B; \
         auto: as defined by the keyword of `overhead`, or none if `overhead` is in bytes",
    )
    .id(33),
    Parameter::new(
        "direction",
        Kind::Word(&["out", IN]),
        "out",
        "with mode queue: out: the frames that the kernel sends through the interface; in: the frames that the interface \
         has received, before the kernel takes them",
    )
    .id(34),
    Parameter::new(
        "rate_of",
        Kind::Text(NAME_BYTES_MAX),
        "",
        "name of the port whose `rate` this port shares: all ports of a rate together send at most that much, each of \
         them an equal part if all have packets; by default the port has a rate of its own",
    )
    .id(35),
];

/// The frames of an interface that a port queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Frames that leave.
    Out,
    /// Frames that the interface has received.
    In,
}

/// Minimum rate: at lower rates a single full frame lasts for seconds.
const RATE_MIN: Rate = Rate::from_bps(8_000);
const RATE_MAX: Rate = Rate::from_mbps(400_000);

/// A checked port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortPlan {
    /// Name in the configuration.
    pub name: String,
    /// Name of the network interface.
    pub interface: String,
    /// Whether the router creates the interface, for packets of the machine's own processes.
    pub is_tun: bool,
    /// Rate to which the port is paced, initially if it finds its rate; `None` if it is not paced.
    pub rate: Option<Rate>,
    /// Name of the port whose rate this port shares.
    pub rate_of: Option<String>,
    /// Parameters of a port that finds its rate.
    pub auto: Option<Arc<AutoRate>>,
    /// Bytes that a frame occupies on the link.
    pub framing: Framing,
    /// Share of the rate that the machine's own packets may take.
    pub local_share: f64,
    /// The queued frames, in mode "queue".
    pub direction: Direction,
    /// Check of the source addresses of received packets; `None`: as the kernel does it.
    pub source_check: Option<SourceCheck>,
    /// Queue discipline.
    pub discipline: Spec,
    /// The components as requested, for display.
    pub(crate) settings: Settings,
}

/// Maximum bytes of a port's name.
const NAME_BYTES_MAX: usize = 64;

/// Checks the name of a port. It appears in tables, logs, and paths as in `PATH=VALUE`, so it is one printable word.
fn check_name(name: &str) -> Result<(), (&'static str, String)> {
    let wrong = |c: char| c.is_control() || c.is_whitespace() || c == '=';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(wrong) {
        let why = format!(
            "{name:?} cannot be the name of a port; it must have 1 to {NAME_BYTES_MAX} bytes \
             without spaces, `=` and control characters, like [port.wan] or [port.\"eth0.100\"]"
        );
        return Err(("", why));
    }
    Ok(())
}

/// Refuses components that make no sense for a port with processes of the machine behind it.
fn check_tun(settings: &Settings, interface: &str) -> Result<(), (&'static str, String)> {
    if interface.contains([':', '%']) || matches!(interface, "." | "..") {
        let why = format!(
            "{interface:?} cannot be the name of an interface that the router creates; use a name without `:` and `%`, \
             like interface = \"weir0\""
        );
        return Err(("interface", why));
    }
    let has_rate = settings.setting("rate") != &Setting::Rate(Rate::default());
    if has_rate || !settings.text("rate_of").is_empty() {
        let why = "a port of kind \"tun\" has no rate: its packets are paced at their output ports";
        return Err((if has_rate { "rate" } else { "rate_of" }, why.to_owned()));
    }
    if settings.word("source_check") != "kernel" {
        let why =
            "a port of kind \"tun\" has no source check: the machine itself chooses the sources";
        return Err(("source_check", why.to_owned()));
    }
    Ok(())
}

/// A configured rate; `None` if the port is not paced.
fn fixed_rate(rate: Rate) -> Result<Option<Rate>, (&'static str, String)> {
    if rate != Rate::default() && rate < RATE_MIN {
        let why = format!("\"{rate}\" is too slow; set at least \"{RATE_MIN}\", or remove `rate`");
        return Err(("rate", why));
    }
    Ok(Some(rate).filter(|rate| *rate != Rate::default()))
}

/// The framing from the settings `overhead`, `mpu` and `framing`.
fn framing(settings: &Settings) -> Result<Framing, (&'static str, String)> {
    let framing = match settings.setting("overhead") {
        Setting::Bytes(Bytes(bytes)) => Framing::of_frames(*bytes as u32), // its range is checked
        _ => Framing::of_words(settings.text("overhead"))
            .map_err(|why| ("overhead", why))?
            .from_ethernet(),
    };
    Ok(Framing {
        least: match settings.setting("mpu") {
            Setting::Bytes(Bytes(bytes)) => *bytes as u32,
            _ => framing.least,
        },
        cells: match settings.word("framing") {
            "none" => Cells::None,
            "atm" => Cells::Atm,
            "ptm" => Cells::Ptm,
            _ => framing.cells,
        },
        ..framing
    })
}

impl PortPlan {
    /// Makes a plan from checked settings; the error names the component and the rule.
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
        let direction = match settings.word("direction") {
            IN => Direction::In,
            _ => Direction::Out,
        };
        let (rate, auto) = match settings.setting("rate") {
            Setting::Word(_) if direction == Direction::In => {
                let why = "\"auto\" finds the rate of sent frames, but received frames wait at the other end of the \
                           line; set a rate slightly below that of the line, like \"95 Mbit\"";
                return Err(("rate", why.to_owned()));
            }
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
            rate_of: Some(settings.text("rate_of").to_owned()).filter(|name| !name.is_empty()),
            auto,
            framing: framing(&settings)?,
            local_share: settings.ratio("local_share"),
            direction,
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

    /// Maximum rate of the machine's own packets at the port while its rate is `rate`, in layer-2 bytes (which the
    /// kernel counts) of full frames.
    pub fn local_rate(&self, rate: Rate) -> Rate {
        const FULL_FRAME: u64 = 1514;
        let on_wire = self.framing.wire_bytes(FULL_FRAME) as f64;
        let share = self.local_share * FULL_FRAME as f64 / on_wire;
        Rate::from_bps((rate.as_bps() as f64 * share) as u64)
    }

    /// The link that the port sends into, for frames of at most `frame_bytes_max`.
    pub fn link(&self, frame_bytes_max: u32) -> Link {
        Link {
            rate: self.rate,
            framing: self.framing,
            frame_bytes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan of a port with these components; or the component at fault, and the reason.
    fn plan(given: &[(&str, &str)]) -> Result<PortPlan, (&'static str, String)> {
        let given: Vec<_> = given
            .iter()
            .map(|(name, value)| (*name, Scalar::Text((*value).to_owned())))
            .collect();
        let given = given.iter().map(|(name, value)| (*name, value));
        let settings = Settings::check(PARAMETERS, given).unwrap_or_else(|e| panic!("{e}"));
        let fifo = Spec::check("fifo", []).unwrap_or_else(|e| panic!("{e}"));
        PortPlan::new("wan", settings, fifo)
    }

    #[test]
    fn what_a_frame_takes_of_a_port() {
        let charged = |given: &[(&str, &str)]| {
            let framing = plan(given).map(|plan| plan.framing);
            let framing = framing.unwrap_or_else(|(name, why)| panic!("{name}: {why}"));
            [42, 60, 1514].map(|len| framing.wire_bytes(len))
        };
        assert_eq!(charged(&[]), [84, 84, 1538]);
        assert_eq!(charged(&[("overhead", "24 B")]), [84, 84, 1538]);
        assert_eq!(charged(&[("overhead", "0 B")]), [60, 60, 1514]);
        assert_eq!(charged(&[("overhead", "raw")]), [42, 60, 1514]);
        assert_eq!(charged(&[("overhead", "docsis")]), [64, 64, 1518]);
        let tagged = [("overhead", "ethernet ether-vlan")];
        assert_eq!(charged(&tagged), [84, 88, 1542]);
        let changed = [("overhead", "docsis"), ("mpu", "0 B"), ("framing", "atm")];
        assert_eq!(charged(&changed), [53, 106, 32 * 53]);
        let changed = [("overhead", "pppoe-ptm"), ("framing", "none")];
        assert_eq!(charged(&changed), [58, 76, 1530]);
    }

    #[test]
    fn the_share_of_the_box_counts_on_the_wire() {
        let rate = Rate::from_mbps(100);
        let local =
            |given: &[(&str, &str)]| plan(given).map_or(0, |plan| plan.local_rate(rate).as_bps());
        // Half of the rate, in full frames of 1514 B that take 1538 B or 33 cells.
        assert_eq!(local(&[]), 50_000_000 * 1514 / 1538);
        let adsl = [("overhead", "pppoe-llcsnap")];
        assert_eq!(local(&adsl), 50_000_000 * 1514 / (33 * 53));
    }
}
