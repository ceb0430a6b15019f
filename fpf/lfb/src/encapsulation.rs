//! The sections `[fpf.encapsulation.NAME]`: packets that get an FPF header at this edge, and the vectors in the header.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Bytes, Rate, Span};
use weir_fpf_path::Domain;
use weir_fpf_path::edge::filter::{Filter, RawFilter};
use weir_fpf_path::edge::paths::{Paths, Spread};
use weir_fpf_path::edge::profile::{BURST_MAX, BURST_MIN, Police, Profile, Shape, WAITING_MAX};
use weir_fpf_path::edge::rule::Rule;
use weir_fpf_path::edge::setup::Encapsulation;
use weir_fpf_path::header::Vector;

use crate::{Wrong, text};

/// Longest list of vectors, in bytes.
const VECTORS_MAX: usize = 16_384;

const fn word(id: u32, name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(name, Kind::Text(49), "", about).id(id)
}

/// LID vectors.
pub(super) const VECTORS: Parameter = Parameter::new(
    "vectors",
    Kind::Text(VECTORS_MAX),
    "",
    "LID vectors in hexadecimal, each with an optional weight, separated by spaces: b1a1:3 c1a1",
)
.id(10);

/// How packets are spread over the vectors.
pub(super) const SPREAD: Parameter = Parameter::new(
    "spread",
    Kind::Word(&["flow", "packet", "copies"]),
    "flow",
    "how packets are spread over several vectors; flow: each flow keeps one vector, chosen by weight; packet: weighted \
     round-robin by packet; copies: each packet goes to all vectors (multicast)",
)
.id(11);

/// The number of a session.
pub(super) const SESSION: Parameter = Parameter::new(
    "session",
    Kind::Count(0, u32::MAX as u64),
    "0",
    "number of the session that the packets belong to, for reports",
)
.id(13);

/// The rate to which packets are policed.
pub(super) const POLICE: Parameter = Parameter::new(
    "police",
    Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
    "0 bit",
    "maximum rate; packets beyond it are dropped; 0 bit: not policed",
)
.id(14);

/// The depth of the policer's token bucket.
pub(super) const BURST: Parameter = Parameter::new(
    "burst",
    Kind::Bytes(BURST_MIN, BURST_MAX),
    "15140 B",
    "bytes that may exceed the rate `police` in one burst",
)
.id(15);

/// The components of a section.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "priority",
        Kind::Count(0, 65_535),
        "1000",
        "if several encapsulations match a packet, the lowest number wins, then the first by name",
    )
    .id(2),
    word(
        3,
        "source",
        "prefix of the source: 192.0.2.0/24; empty: any",
    ),
    word(4, "destination", "prefix of the destination; empty: any"),
    word(
        5,
        "protocol",
        "tcp, udp, icmp, icmpv6, sctp or a number; empty: any",
    ),
    word(
        6,
        "source_ports",
        "source port or port range: 5000-5999; empty: any",
    ),
    word(
        7,
        "destination_ports",
        "destination port or port range; empty: any",
    ),
    word(
        8,
        "version",
        "IP version, 4 or 6; only if no prefix determines it",
    ),
    word(
        9,
        "ether_type",
        "Ethernet type of non-IP packets, like 0x88b5, instead of all other fields",
    ),
    VECTORS,
    SPREAD,
    Parameter::new(
        "timeout",
        Kind::Span(Span::ZERO, Span::from_secs(604_800)),
        "0 s",
        "time without packets after which the encapsulation expires; 0 s: never",
    )
    .id(12),
    SESSION,
    POLICE,
    BURST,
    Parameter::new(
        "shape",
        Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
        "0 bit",
        "rate to which the packets are shaped; packets beyond it wait; 0 bit: not shaped",
    )
    .id(16),
    Parameter::new(
        "shape_limit",
        Kind::Count(1, WAITING_MAX as u64),
        "100 packets",
        "maximum packets that wait for the rate `shape`; further packets are dropped",
    )
    .id(17),
];

pub(super) fn encapsulation(
    name: &str,
    settings: &Settings,
    domain: &Domain,
) -> Result<Encapsulation, Wrong> {
    let filter = filter(settings)?;
    Ok(Encapsulation {
        name: name.to_owned(),
        row: settings.count("priority") as u32, // its range is checked; `in_rows` makes it unique
        filter,
        rule: rule(settings, domain, profile(settings)?)?,
    })
}

/// The edge rule of a section: vectors, timeout, session, and this profile.
pub(super) fn rule(
    settings: &Settings,
    domain: &Domain,
    profile: Option<Profile>,
) -> Result<Rule, Wrong> {
    let spread = match settings.word("spread") {
        "packet" => Spread::ByPacket,
        "copies" => Spread::Copies,
        _ => Spread::ByFlow,
    };
    let words = settings.text("vectors").split_whitespace();
    let vectors: Result<Vec<_>, String> = words.map(|word| weighted(word, domain)).collect();
    let vectors = vectors.map_err(|why| Wrong::new("vectors", why))?;
    let paths = Paths::new(spread, &vectors).map_err(|e| Wrong::new("vectors", e.to_string()))?;
    Ok(Rule {
        paths,
        timeout: Some(settings.span("timeout")).filter(|time| *time > Span::ZERO),
        session: settings.count("session") as u32, // its range is checked
        profile,
    })
}

/// The policer of a section, if it has one.
pub(super) fn policed(settings: &Settings) -> Result<Option<Profile>, Wrong> {
    let rate = settings.rate("police");
    if rate.as_bps() == 0 {
        return Ok(None);
    }
    let police = Police::new(rate, Bytes(settings.bytes("burst")));
    let police = police.map_err(|error| Wrong::new("police", error.to_string()))?;
    Ok(Some(Profile::Policed(police)))
}

fn profile(settings: &Settings) -> Result<Option<Profile>, Wrong> {
    let shape = Some(settings.rate("shape")).filter(|rate| rate.as_bps() > 0);
    match (policed(settings)?, shape) {
        (policed, None) => Ok(policed),
        (None, Some(rate)) => {
            let shape = Shape::new(rate, settings.count("shape_limit") as usize);
            let shape = shape.map_err(|error| Wrong::new("shape", error.to_string()))?;
            Ok(Some(Profile::Shaped(shape)))
        }
        (Some(_), Some(_)) => {
            let why =
                "`shape` cannot be combined with `police`; remove `police`, or set it to \"0 bit\"";
            Err(Wrong::new("shape", why))
        }
    }
}

/// Maximum packets that wait in the shaper of a section.
pub(super) fn waiting_max(settings: &Settings) -> usize {
    match settings.rate("shape").as_bps() {
        0 => 0,
        _ => settings.count("shape_limit") as usize,
    }
}

/// The filter of an encapsulation, or of any section with the same filter components.
pub(super) fn filter(settings: &Settings) -> Result<Filter, Wrong> {
    let filter = raw(settings)?.check();
    filter.map_err(|error| Wrong::whole(error.to_string()))
}

/// Gives each encapsulation a unique row: by priority, then by name, which is the order of `all`.
pub(super) fn in_rows(mut all: Vec<Encapsulation>) -> Vec<Encapsulation> {
    all.sort_by_key(|encapsulation| encapsulation.row);
    let mut next = 0;
    for encapsulation in &mut all {
        next = next.max(encapsulation.row << 16);
        encapsulation.row = next;
        next += 1; // at most NAMED_MAX = 65 536 encapsulations share a priority
    }
    all
}

fn raw(settings: &Settings) -> Result<RawFilter, Wrong> {
    let given = |name: &'static str| Some(settings.text(name)).filter(|text| !text.is_empty());
    let prefix = |name| {
        given(name)
            .map(prefix)
            .transpose()
            .map_err(|why| Wrong::new(name, why))
    };
    let ports = |name| {
        given(name)
            .map(ports)
            .transpose()
            .map_err(|why| Wrong::new(name, why))
    };
    let version = match given("version") {
        None => None,
        Some("4") => Some(4),
        Some("6") => Some(6),
        Some(other) => return Err(Wrong::new("version", format!("\"{other}\" is not 4 or 6"))),
    };
    let ethertype = given("ether_type").map(text::ether_type).transpose();
    let protocol = given("protocol").map(protocol).transpose();
    Ok(RawFilter {
        version,
        ethertype: ethertype.map_err(|why| Wrong::new("ether_type", why))?,
        source: prefix("source")?,
        destination: prefix("destination")?,
        protocol: protocol.map_err(|why| Wrong::new("protocol", why))?,
        source_ports: ports("source_ports")?,
        destination_ports: ports("destination_ports")?,
    })
}

/// A prefix, or a single address.
fn prefix(text: &str) -> Result<IpNet, String> {
    let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let wrong = || format!("\"{text}\" is not a prefix, like 192.0.2.0/24 or 2001:db8::/32");
    let prefix: IpNet = text.parse().ok().or_else(single).ok_or_else(wrong)?;
    if prefix.trunc() == prefix {
        Ok(prefix)
    } else {
        Err(format!(
            "\"{text}\" has bits set beyond its prefix length; write {}",
            prefix.trunc()
        ))
    }
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "\"{text}\" is not a port or port range, like 443 or 5000-5999"
        )),
    }
}

fn protocol(text: &str) -> Result<u8, String> {
    Ok(match text {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "icmpv6" => 58,
        "sctp" => 132,
        _ => text.parse().map_err(|_| {
            format!("\"{text}\" is not a protocol; permitted are tcp, udp, icmp, icmpv6, sctp and numbers to 255")
        })?,
    })
}

/// Parses a vector with its weight: `b1a1:3`. Its first LID belongs to this domain.
fn weighted(word: &str, domain: &Domain) -> Result<(Vector, u32), String> {
    let (vector, weight) = word.split_once(':').unwrap_or((word, "1"));
    let lids = text::vector(vector)?;
    let bytes = domain.lid_size().bytes();
    if lids.len().get() < bytes {
        return Err(format!(
            "\"{vector}\" is shorter than a LID of {bytes} bytes"
        ));
    }
    let weight = weight
        .parse()
        .map_err(|_| format!("\"{word}\": the weight must be a number, like in b1a1:3"))?;
    Ok((lids, weight))
}
