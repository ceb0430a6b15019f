//! Packet filters of captures and observers, converted from the written form to the form that the plane matches.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use weir_base::setting::{did_you_mean, nearest};
use weir_model::observe::PacketFilter;
use weir_packet::Reason;
use weir_path::plane::filter::Filter;
use weir_wire::Protocol;

/// Maximum values of one field: each packet may be compared with all of them.
pub const VALUES_MAX: usize = 16;

/// Names of protocols, and their numbers. The name `icmp` covers both versions of ICMP.
const PROTOCOLS: &[(&str, &[u8])] = &[
    ("tcp", &[6]),
    ("udp", &[17]),
    ("icmp", &[1, 58]),
    ("icmpv6", &[58]),
    ("sctp", &[132]),
    ("dccp", &[33]),
    ("udplite", &[136]),
    ("gre", &[47]),
    ("esp", &[50]),
    ("ipip", &[4]),
    ("ospf", &[89]),
];

/// Checks a filter. An error names the field, the wrong value with the reason, and the permitted values.
pub fn check(written: &PacketFilter) -> Result<Filter, String> {
    let protocols = all("proto", &written.proto, protocols)?.concat();
    let port_numbers = all("port_number", &written.port_number, port_numbers)?;
    let has_ports = |number: &u8| Protocol::from(*number).has_ports();
    if !port_numbers.is_empty() && !protocols.is_empty() && !protocols.iter().any(has_ports) {
        let why =
            "the given protocols have no port numbers; only tcp, udp, sctp, dccp and udplite do";
        return Err(format!("`port_number`: {why}"));
    }
    Ok(Filter {
        hosts: all("host", &written.host, network)?,
        sources: all("src", &written.src, network)?,
        destinations: all("dst", &written.dst, network)?,
        protocols,
        port_numbers,
        reasons: all("reason", &written.reason, reason)?,
    })
}

/// Names of the reasons for which a packet is lost.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    let losses = Reason::ALL.into_iter().filter(|reason| reason.is_loss());
    losses.map(Reason::name)
}

/// Names of protocols.
pub fn protocol_names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().map(|(name, _)| *name)
}

/// Checks every value of a field.
fn all<T>(
    field: &'static str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    if texts.len() > VALUES_MAX {
        let count = texts.len();
        return Err(format!(
            "`{field}`: {count} values; at most {VALUES_MAX} are permitted"
        ));
    }
    let values = texts.iter().map(|text| read(text.trim()));
    let values: Result<_, String> = values.collect();
    values.map_err(|why| format!("`{field}`: {why}"))
}

/// Parses a prefix or a single address. Bits beyond the prefix length are ignored, so an interface address with its
/// prefix length means its network.
fn network(text: &str) -> Result<IpNet, String> {
    let single = text.parse::<IpAddr>().map(IpNet::from);
    let network = single.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
        format!("\"{text}\" is not an address or prefix, like 192.0.2.7 or 2001:db8::/32")
    })?;
    Ok(network.trunc())
}

fn protocols(text: &str) -> Result<Vec<u8>, String> {
    if let Ok(number) = text.parse() {
        return Ok(vec![number]);
    }
    let word = text.to_ascii_lowercase();
    let named = PROTOCOLS.iter().find(|(name, _)| *name == word);
    named.map(|(_, numbers)| numbers.to_vec()).ok_or_else(|| {
        let near = did_you_mean(nearest(&word, protocol_names()));
        let names: Vec<_> = protocol_names().collect();
        let names = names.join(", ");
        format!("there is no protocol \"{text}\"{near}; permitted are {names} and numbers to 255")
    })
}

fn port_numbers(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "\"{text}\" is not a port number or range, like 443 or 5000-5999"
        )),
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    let word = text.to_ascii_lowercase().replace('_', "-");
    match Reason::from_name(&word) {
        Some(reason) if reason.is_loss() => Ok(reason),
        Some(_) => Err(format!(
            "\"{word}\" is not a loss: these packets continue elsewhere, and only `weir show drops` counts them"
        )),
        None => {
            let near = did_you_mean(nearest(&word, reasons()));
            let all = "`weir show drops` lists the reasons that occurred, docs/drop-reasons.md all reasons";
            Err(format!("there is no drop reason \"{text}\"{near}; {all}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn each_field_is_read() {
        let written = PacketFilter {
            host: texts(&["192.0.2.7", "2001:db8::/32"]),
            src: texts(&["10.1.2.3/8"]),
            dst: texts(&[]),
            proto: texts(&["UDP", "icmp", "47"]),
            port_number: texts(&["53", "5000-5999"]),
            reason: texts(&["queue-full", "no_route"]),
        };
        let expected = Filter {
            hosts: vec![
                "192.0.2.7/32".parse().unwrap(),
                "2001:db8::/32".parse().unwrap(),
            ],
            sources: vec!["10.0.0.0/8".parse().unwrap()],
            destinations: vec![],
            protocols: vec![17, 1, 58, 47],
            port_numbers: vec![53..=53, 5000..=5999],
            reasons: vec![Reason::QueueFull, Reason::NoRoute],
        };
        assert_eq!(check(&written), Ok(expected));
        assert_eq!(check(&PacketFilter::default()), Ok(Filter::default()));
        for name in reasons() {
            assert!(reason(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_error_names_field_value_and_remedy() {
        let good = PacketFilter::default;
        let cases = [
            (
                PacketFilter {
                    host: texts(&["10.0.0.300"]),
                    ..good()
                },
                "`host`: \"10.0.0.300\" is not an address",
            ),
            (
                PacketFilter {
                    proto: texts(&["tcpp"]),
                    ..good()
                },
                "did you mean `tcp`?",
            ),
            (
                PacketFilter {
                    proto: texts(&["256"]),
                    ..good()
                },
                "numbers to 255",
            ),
            (
                PacketFilter {
                    port_number: texts(&["9-5"]),
                    ..good()
                },
                "like 443 or 5000-5999",
            ),
            (
                PacketFilter {
                    port_number: texts(&["0"]),
                    ..good()
                },
                "`port_number`: \"0\"",
            ),
            (
                PacketFilter {
                    reason: texts(&["queue-ful"]),
                    ..good()
                },
                "did you mean `queue-full`?",
            ),
            (
                PacketFilter {
                    reason: texts(&["local-delivery"]),
                    ..good()
                },
                "is not a loss",
            ),
            (
                PacketFilter {
                    src: texts(&["::1"; 17]),
                    ..good()
                },
                "`src`: 17 values; at most 16",
            ),
            (
                PacketFilter {
                    port_number: texts(&["53"]),
                    proto: texts(&["icmp"]),
                    ..good()
                },
                "have no port numbers",
            ),
        ];
        for (written, expected) in cases {
            let error = check(&written).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
