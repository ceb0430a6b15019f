//! Policy rules that decide about forwarded packets.
//!
//! The kernel creates three rules by itself: `0: lookup local`, `32766: lookup main`, and for IPv4 `32767: lookup
//! default`. weir looks routes up in these tables, in this order; every other rule is a finding, and so is a default
//! rule that is missing or out of order.
//! A rule that cannot match a packet from a port is not a finding: the kernel compares `iif lo`, `oif` and a range of
//! users with packets of the machine itself only.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_element::Finding;
use weir_element::kernel::kinds::POLICY_RULES;

use crate::kernel::netlink::{NetlinkSocket, Request, attributes, text, u16_at, u32_at};

/// Length of `struct fib_rule_hdr`.
const HEADER_BYTES: usize = 12;
/// `FIB_RULE_INVERT` of linux/fib_rules.h.
const INVERT: u32 = 2;
/// Actions of linux/fib_rules.h, with the words of `ip rule`.
const ACTIONS: [(u8, &str); 5] = [
    (TO_TABLE, "lookup"),
    (3, "nop"),
    (6, "blackhole"),
    (7, "unreachable"),
    (8, "prohibit"),
];
const TO_TABLE: u8 = 1;
const GOTO: u8 = 2;
/// The tables of the default rules, in their order; IPv6 has no table `default`.
const TABLES: [(u32, &str); 3] = [(255, "local"), (254, "main"), (253, "default")];

/// The rules of both families that decide about packets from these ports and are not the default ones.
pub(super) fn read(ports: &[&str]) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (family, name) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
        let mut rules = Vec::new();
        let mut header = [0; HEADER_BYTES];
        header[0] = family as u8;
        let request = Request::new(libc::RTM_GETRULE, libc::NLM_F_DUMP, &header);
        let dumped = NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
            let is_rule = message.kind == libc::RTM_NEWRULE;
            rules.extend(Rule::read(message.payload).filter(|_| is_rule));
        });
        match dumped {
            // A kernel without policy rules, or without IPv6.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT)
                ) => {}
            Ok(()) => findings.extend(differences(name, &rules, ports)),
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

fn differences(family: &str, rules: &[Rule], ports: &[&str]) -> Vec<Finding> {
    let expected = match family {
        "IPv4" => &TABLES[..],
        _ => &TABLES[..2],
    };
    let mut findings = Vec::new();
    let mut looked_up = Vec::new();
    for rule in rules.iter().filter(|rule| rule.may_match(ports)) {
        let table = rule.table.filter(|_| rule.is_plain());
        let next = expected.get(looked_up.len()).map(|(number, _)| *number);
        match table {
            Some(table) if looked_up.contains(&table) => {} // it finds nothing new
            Some(table) if Some(table) == next || is_last(table, &looked_up) => {
                looked_up.push(table);
            }
            _ => findings.push(Finding::new(
                &POLICY_RULES,
                format!("{family} rule {}", rule.shown),
            )),
        }
    }
    let exists = |number: u32| {
        rules
            .iter()
            .any(|r| r.is_plain() && r.table == Some(number))
    };
    for (number, name) in expected.iter().filter(|(number, _)| !exists(*number)) {
        let priority = match number {
            255 => 0,
            other => 33020 - other,
        };
        findings.push(Finding::new(
            &POLICY_RULES,
            format!("{family} has no rule {priority}: from all lookup {name}"),
        ));
    }
    findings
}

/// Whether this is a lookup of the table `default` after all others, as IPv6 may have it too.
fn is_last(table: u32, looked_up: &[u32]) -> bool {
    table == 253 && looked_up == [255, 254]
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    /// The table that it looks up.
    table: Option<u32>,
    /// Whether it matches packets that its selectors do not match.
    is_inverted: bool,
    /// Whether it has a selector, or limits the routes that it finds.
    is_limited: bool,
    input: Option<String>,
    output: Option<String>,
    /// First user of a range.
    user: Option<u32>,
    is_l3mdev: bool,
    /// As `ip rule` shows it.
    shown: String,
}

impl Rule {
    fn read(payload: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = payload.first_chunk()?;
        let [
            family,
            destination_len,
            source_len,
            tos,
            short_table,
            _,
            _,
            action,
            ..,
        ] = *header;
        let mut rule = Self {
            is_inverted: u32_at(header, 8)? & INVERT != 0,
            is_limited: tos != 0,
            ..Self::default()
        };
        let (mut priority, mut table) = (0, u32::from(short_table));
        let (mut from, mut rest) = ("all".to_owned(), String::new());
        if tos != 0 {
            _ = write!(rest, " tos {tos:#x}");
        }
        let is_v6 = libc::c_int::from(family) == libc::AF_INET6;
        for (kind, value) in attributes(payload.get(HEADER_BYTES..)?) {
            let number = u32_at(value, 0).unwrap_or_default();
            match kind {
                FRA_PRIORITY => priority = number,
                FRA_TABLE => table = number,
                FRA_PROTOCOL | FRA_PAD => {}
                FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP if number == u32::MAX => {}
                FRA_SRC => from = prefix(value, source_len, is_v6),
                FRA_DST => _ = write!(rest, " to {}", prefix(value, destination_len, is_v6)),
                FRA_IIFNAME => rule.input = Some(text(value)),
                FRA_OIFNAME => rule.output = Some(text(value)),
                FRA_UID_RANGE => {
                    rule.user = Some(number);
                    _ = write!(rest, " uidrange {number}-{}", u32_at(value, 4)?);
                }
                FRA_L3MDEV => rule.is_l3mdev = number as u8 == 1 || value == [1],
                FRA_FWMARK => _ = write!(rest, " fwmark {number:#x}"),
                FRA_FWMASK if number == u32::MAX => {}
                FRA_FWMASK => _ = write!(rest, "/{number:#x}"),
                FRA_SUPPRESS_PREFIXLEN => _ = write!(rest, " suppress_prefixlength {number}"),
                FRA_SUPPRESS_IFGROUP => _ = write!(rest, " suppress_ifgroup {number}"),
                FRA_IP_PROTO => _ = write!(rest, " ipproto {}", value.first()?),
                FRA_SPORT_RANGE => _ = write!(rest, " sport {}", range(value)?),
                FRA_DPORT_RANGE => _ = write!(rest, " dport {}", range(value)?),
                FRA_GOTO => _ = write!(rest, " goto {number}"),
                FRA_FLOW => _ = write!(rest, " realms {:#x}", number),
                other => _ = write!(rest, " selector-{other}"),
            }
        }
        for (word, name) in [("iif", &rule.input), ("oif", &rule.output)] {
            if let Some(name) = name {
                _ = write!(rest, " {word} {name}");
            }
        }
        rule.is_limited |= from != "all" || !rest.is_empty() || rule.is_inverted;
        rule.table = (action == TO_TABLE).then_some(table);
        let not = if rule.is_inverted { "not " } else { "" };
        let does = match action {
            GOTO => String::new(), // an attribute shows it
            TO_TABLE if rule.is_l3mdev => "lookup [l3mdev-table]".to_owned(),
            TO_TABLE => format!("lookup {}", table_name(table)),
            other => {
                let word = ACTIONS.iter().find(|(number, _)| *number == other);
                word.map_or_else(|| format!("action {other}"), |(_, word)| (*word).to_owned())
            }
        };
        rule.shown = format!("{priority}: {not}from {from}{rest} {does}");
        Some(rule)
    }

    /// Whether it may match a packet that arrived at a port. A VRF rule does not count: a port in a VRF is a separate
    /// finding.
    fn may_match(&self, ports: &[&str]) -> bool {
        if self.is_l3mdev {
            return false;
        }
        let of_others = self
            .input
            .as_deref()
            .is_some_and(|name| !ports.contains(&name));
        // Forwarded packets have no output interface yet, and belong to root.
        let of_box = self.output.is_some() || self.user.is_some_and(|first| first > 0);
        self.is_inverted || !(of_others || of_box)
    }

    /// Whether it looks up a table for every packet.
    fn is_plain(&self) -> bool {
        !self.is_limited
    }
}

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FLOW: u16 = 11;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PAD: u16 = 18;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;

fn table_name(number: u32) -> String {
    let name = TABLES.iter().find(|(known, _)| *known == number);
    name.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

fn prefix(value: &[u8], len: u8, is_v6: bool) -> String {
    let address = if is_v6 {
        value
            .first_chunk::<16>()
            .map(|b| Ipv6Addr::from(*b).to_string())
    } else {
        value
            .first_chunk::<4>()
            .map(|b| Ipv4Addr::from(*b).to_string())
    };
    format!("{}/{len}", address.unwrap_or_default())
}

fn range(value: &[u8]) -> Option<String> {
    Some(match (u16_at(value, 0)?, u16_at(value, 2)?) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;
    use proptest::prelude::*;

    /// A rule as the kernel sends it: table, action, flags, priority, and more attributes.
    fn rule(table: u8, (action, flags): (u8, u32), priority: u32, more: &[(u16, &[u8])]) -> Rule {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[2], header[4], header[7]) = (2, 24, table, action);
        header[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut request = Request::new(libc::RTM_NEWRULE, 0, &header)
            .with(FRA_TABLE, &u32::from(table).to_ne_bytes())
            .with(FRA_SUPPRESS_PREFIXLEN, &u32::MAX.to_ne_bytes())
            .with(FRA_PROTOCOL, &[2])
            .with(FRA_PRIORITY, &priority.to_ne_bytes());
        for (kind, value) in more {
            request = request.with(*kind, value);
        }
        let bytes = request.numbered(1);
        Rule::read(messages(&bytes).next().unwrap().payload).unwrap()
    }

    fn lookup(table: u8, priority: u32) -> Rule {
        rule(table, (TO_TABLE, 0), priority, &[])
    }

    fn defaults() -> Vec<Rule> {
        vec![lookup(255, 0), lookup(254, 32766), lookup(253, 32767)]
    }

    fn found(family: &str, rules: &[Rule]) -> Vec<String> {
        let found = differences(family, rules, &["r0", "r1"]);
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn the_default_rules_are_no_finding_wherever_they_stand() {
        assert!(found("IPv4", &defaults()).is_empty());
        assert!(found("IPv6", &defaults()[..2]).is_empty());
        assert!(found("IPv6", &defaults()).is_empty());
        // As the documentation of VRFs advises, and with a rule that finds nothing new.
        let l3mdev = rule(0, (TO_TABLE, 0), 1000, &[(FRA_L3MDEV, &[1])]);
        let mut moved = vec![l3mdev, lookup(255, 32765)];
        moved.extend(defaults().into_iter().skip(1));
        moved.push(lookup(254, 32768));
        assert!(found("IPv4", &moved).is_empty());
    }

    #[test]
    fn rules_for_packets_of_the_box_are_no_finding() {
        let of_box: [&[(u16, &[u8])]; 4] = [
            &[(FRA_IIFNAME, b"lo\0")],
            &[(FRA_IIFNAME, b"docker0\0")],
            &[(FRA_OIFNAME, b"wg0\0")],
            &[(FRA_UID_RANGE, &[1, 0, 0, 0, 9, 0, 0, 0])],
        ];
        for selector in of_box {
            let with = |flags| {
                let mut rules = vec![rule(100, (TO_TABLE, flags), 5, selector)];
                rules.extend(defaults());
                found("IPv4", &rules)
            };
            assert!(with(0).is_empty(), "{selector:?}");
            assert_eq!(with(INVERT).len(), 1, "not {selector:?}");
        }
        let mut rules = defaults();
        rules.insert(0, rule(100, (TO_TABLE, 0), 5, &[(FRA_IIFNAME, b"r0\0")]));
        assert_eq!(
            found("IPv4", &rules),
            ["IPv4 rule 5: from all iif r0 lookup 100"]
        );
    }

    #[test]
    fn what_differs_is_named_as_ip_rule_shows_it() {
        let mut rules = defaults();
        rules.insert(1, rule(0, (8, 0), 100, &[(FRA_SRC, &[10, 77, 1, 0])]));
        let mark: &[(u16, &[u8])] = &[
            (FRA_FWMARK, &0xca6c_u32.to_ne_bytes()),
            (FRA_FWMASK, &u32::MAX.to_ne_bytes()),
        ];
        rules.insert(2, rule(99, (TO_TABLE, INVERT), 200, mark));
        let mut shorter = rule(254, (TO_TABLE, 0), 150, &[]);
        shorter.is_limited = true; // suppress_prefixlength 0
        rules.insert(2, shorter);
        assert_eq!(
            found("IPv4", &rules),
            [
                "IPv4 rule 100: from 10.77.1.0/24 prohibit",
                "IPv4 rule 150: from all lookup main",
                "IPv4 rule 200: not from all fwmark 0xca6c lookup 99",
            ]
        );
        let swapped = [lookup(254, 0), lookup(255, 5), lookup(253, 9)];
        assert_eq!(
            found("IPv4", &swapped),
            [
                "IPv4 rule 0: from all lookup main",
                "IPv4 rule 9: from all lookup default",
            ]
        );
        assert_eq!(
            found("IPv6", &[lookup(254, 32766)])[1],
            "IPv6 has no rule 0: from all lookup local"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(payload in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Rule::read(&payload);
        }
    }
}
