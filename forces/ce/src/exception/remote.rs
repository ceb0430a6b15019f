//! The section `[remote.NAME]` of a control element's file: a port of an FE for which the CE acts.
//!
//! ```toml
//! [remote.wan]
//! fe = "edge1"
//! port = "wan"
//! addresses = "192.0.2.7/24 2001:db8::7/64"
//! tap = true                          # the CE's own kernel acts for the port, by the interface `edge1.wan`
//! ```
//!
//! The FE gets the addresses as `redirect.addresses`, and `redirect.neighbours = true`, so that packets to them, ARP
//! and neighbour discovery reach the CE. `[fe.edge1.redirect]` overrides both, and can redirect more. The FE's own
//! machine must not have these addresses.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use weir_base::setting::{Kind, Parameter, Scalar, Settings};
use weir_model::{Change, Class, ComponentPath, Fault, Section};

use crate::sections::{add_missing, check_fe, wrong};

/// Longest name of an interface, in bytes (IFNAMSIZ of Linux, less the terminating zero).
const INTERFACE_LEN_MAX: usize = 15;
/// Maximum addresses of one port.
const ADDRESSES_MAX: usize = 64;

/// Class of a port for which the CE acts.
pub const REMOTE_CLASS: Class = Class {
    name: "remote",
    id: 0x00F7_0320,
    about: "a port of a forwarding element that the control element acts for",
    parameters: &[
        Parameter::new("fe", Kind::Text(64), "", "name of the FE").id(1),
        Parameter::new("port", Kind::Text(64), "", "name of the port in the FE's configuration").id(2),
        Parameter::new(
            "addresses",
            Kind::Text(4096),
            "",
            "addresses of the port that belong to the CE, each with its prefix length, separated by spaces; the \
             FE's own machine must not have them",
        )
        .id(3),
        Parameter::new(
            "tap",
            Kind::Flag,
            "false",
            "whether the CE's own kernel acts for the port, through a TAP device with the port's MAC address and MTU; \
             otherwise the CE answers only ARP and neighbour discovery",
        )
        .id(4),
        Parameter::new(
            "interface",
            Kind::Text(INTERFACE_LEN_MAX),
            "",
            "name of the TAP device; empty: FE.PORT",
        )
        .id(5),
    ],
    ..Class::PLAIN
};

/// Section of a port for which the CE acts.
pub static REMOTE: Section = Section {
    key: "remote",
    has_instances: true,
    about: "A port of an FE that the CE acts for: the FE redirects packets for the CE's addresses there to \
            the CE. Choose any NAME.",
    classes: || vec![REMOTE_CLASS],
    kind_default: "",
    no_value: |path, value| {
        format!(
            "`{path}` is {value}, but must be a section: [{path}.NAME], with an `fe` and a `port`"
        )
    },
    sections: &[],
};

/// A port for which the CE acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePlan {
    /// Name of the section.
    pub name: String,
    /// Name of the FE.
    pub fe: String,
    /// Name of the port.
    pub port: String,
    /// The port's addresses that the CE owns, with the networks of their links.
    pub addresses: Vec<IpNet>,
    /// Name of the TAP device, if the CE's own kernel acts for the port.
    pub interface: Option<String>,
    /// Network namespace of the TAP device; `None`: the namespace of the CE.
    pub namespace: Option<String>,
}

impl RemotePlan {
    /// Checks a section; its FE must be one of `fes`.
    pub fn check(name: &str, given: &[(&str, &Scalar)], fes: &[&str]) -> Result<Self, Vec<Fault>> {
        let path = ComponentPath::new([REMOTE.key, name]);
        let of_setting = |error| vec![Fault::of_setting(&path, &REMOTE_CLASS, &error)];
        let given = given.iter().copied();
        let settings = Settings::check(REMOTE_CLASS.parameters, given).map_err(of_setting)?;
        let one = |key: &str, why: String| vec![wrong(path.join(key), why)];
        let (fe, port) = (settings.text("fe"), settings.text("port"));
        check_fe(&path, fe, fes)?;
        if port.is_empty() {
            return Err(one(
                "port",
                "missing; name a port of the FE, like port = \"wan\"".to_owned(),
            ));
        }
        let addresses = addresses(settings.text("addresses"));
        let addresses = addresses.map_err(|why| one("addresses", why))?;
        let interface = settings
            .flag("tap")
            .then(|| match settings.text("interface") {
                "" => format!("{fe}.{port}"),
                name => name.to_owned(),
            });
        if let Some(name) = interface
            .as_ref()
            .filter(|name| name.len() > INTERFACE_LEN_MAX)
        {
            let why = format!(
                "`{name}` is too long for an interface name, which has at most {INTERFACE_LEN_MAX} bytes; \
                 choose a shorter one: interface = \"tap0\""
            );
            return Err(one("interface", why));
        }
        Ok(Self {
            name: name.to_owned(),
            fe: fe.to_owned(),
            port: port.to_owned(),
            addresses,
            interface,
            namespace: None, // a router of the FE may have one
        })
    }

    /// Checks that no two sections use the same port, the same interface or, at one FE, the same address.
    pub fn check_all(all: &[Self]) -> Result<(), Vec<Fault>> {
        let mut taken: BTreeMap<(&str, String), &str> = BTreeMap::new();
        let mut faults = Vec::new();
        for remote in all {
            let port = ("port", format!("{}.{}", remote.fe, remote.port));
            let interface = remote
                .interface
                .iter()
                .map(|name| ("interface", name.clone()));
            let address = |net: &IpNet| ("addresses", format!("{} of {}", net.addr(), remote.fe));
            let addresses = remote.addresses.iter().map(address);
            for (key, value) in [port].into_iter().chain(interface).chain(addresses) {
                let place = ComponentPath::new([REMOTE.key, &remote.name, key]);
                if let Some(other) = taken.insert((key, value.clone()), &remote.name) {
                    let why = format!("[{}.{other}] already has {value}", REMOTE.key);
                    faults.push(wrong(place, why));
                }
            }
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }
}

/// Adds settings to the desired configuration of an FE that redirect packets for its remote ports to the CE, unless the
/// configuration already has these settings.
pub(crate) fn desire(all: &[RemotePlan], fe: &str, desired: &mut Vec<Change>) {
    let own = all.iter().filter(|remote| remote.fe == fe);
    let addresses: BTreeSet<_> = own
        .flat_map(|remote| &remote.addresses)
        .map(IpNet::addr)
        .collect();
    if !all.iter().any(|remote| remote.fe == fe) {
        return;
    }
    let words: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let settings = [
        ("addresses", Scalar::Text(words.join(" "))),
        ("neighbours", Scalar::Flag(true)),
    ];
    add_missing(desired, settings);
}

fn addresses(text: &str) -> Result<Vec<IpNet>, String> {
    let address = |word: &str| {
        let net: Option<IpNet> = word.parse().ok();
        let wrong = || {
            format!(
                "`{word}` is not a host address with its prefix length; permitted are addresses separated by \
                 spaces: `192.0.2.7/24 2001:db8::7/64`"
            )
        };
        let is_host = |net: &IpNet| {
            let address = net.addr();
            !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
        };
        net.filter(is_host).ok_or_else(wrong)
    };
    let all = text.split_whitespace().map(address);
    let all = all.collect::<Result<Vec<_>, String>>()?;
    if all.len() > ADDRESSES_MAX {
        Err(format!(
            "there are {} addresses, but at most {ADDRESSES_MAX} are permitted",
            all.len()
        ))
    } else {
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[(&str, &str)]) -> Result<RemotePlan, String> {
        let given: Vec<_> = given
            .iter()
            .map(|(name, text)| (*name, Scalar::Text((*text).to_owned())))
            .collect();
        let given: Vec<_> = given.iter().map(|(name, text)| (*name, text)).collect();
        RemotePlan::check("wan", &given, &["edge1"])
            .map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_port_is_one_of_an_fe_of_the_file() {
        let plan = check(&[
            ("fe", "edge1"),
            ("port", "wan"),
            ("addresses", " 192.0.2.7/24  2001:db8::7/64"),
            ("tap", "true"),
        ]);
        let plan = plan.unwrap();
        assert_eq!(plan.interface.as_deref(), Some("edge1.wan"));
        assert_eq!(plan.addresses.len(), 2);
        let cases: [(&[(&str, &str)], &str); 5] = [
            (&[("port", "wan")], "remote.wan.fe: there is no FE ``"),
            (&[("fe", "edge2"), ("port", "wan")], "did you mean `edge1`"),
            (&[("fe", "edge1")], "remote.wan.port: missing; name a port"),
            (
                &[("fe", "edge1"), ("port", "wan"), ("addresses", "192.0.2.7")],
                "`192.0.2.7` is not a host address with its prefix length",
            ),
            (
                &[("fe", "edge1"), ("port", "upstream-fibre"), ("tap", "true")],
                "at most 15 bytes; choose a shorter one: interface = \"tap0\"",
            ),
        ];
        for (given, expected) in cases {
            let why = check(given).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn two_sections_are_about_two_ports() {
        let plan = |port| {
            check(&[
                ("fe", "edge1"),
                ("port", port),
                ("addresses", "192.0.2.7/24"),
            ])
            .unwrap()
        };
        assert!(RemotePlan::check_all(&[plan("wan")]).is_ok());
        let faults = RemotePlan::check_all(&[plan("wan"), plan("lan")]).unwrap_err();
        assert_eq!(
            faults[0].to_string(),
            "remote.wan.addresses: [remote.wan] already has 192.0.2.7 of edge1"
        );
        let faults = RemotePlan::check_all(&[plan("wan"), plan("wan")]).unwrap_err();
        assert_eq!(faults.len(), 2);
    }

    #[test]
    fn an_fe_is_asked_for_the_packets_unless_its_own_section_says_otherwise() {
        let all = [
            check(&[
                ("fe", "edge1"),
                ("port", "wan"),
                ("addresses", "192.0.2.7/24"),
            ])
            .unwrap(),
            check(&[
                ("fe", "edge1"),
                ("port", "lan"),
                ("addresses", "10.0.0.7/8"),
            ])
            .unwrap(),
        ];
        let shown = |desired: &[Change]| -> Vec<String> {
            let line = |c: &Change| format!("{}={}", c.path, c.value.clone().unwrap());
            desired.iter().map(line).collect()
        };
        let mut desired = Vec::new();
        desire(&all, "edge1", &mut desired);
        assert_eq!(
            shown(&desired),
            [
                "redirect.addresses=\"10.0.0.7 192.0.2.7\"",
                "redirect.neighbours=true"
            ]
        );
        let own = Change::new(
            ComponentPath::new(["redirect", "neighbours"]),
            Scalar::Flag(false),
        );
        let mut desired = vec![own];
        desire(&all, "edge1", &mut desired);
        assert_eq!(
            shown(&desired),
            [
                "redirect.neighbours=false",
                "redirect.addresses=\"10.0.0.7 192.0.2.7\""
            ]
        );
        let mut desired = Vec::new();
        desire(&all, "edge2", &mut desired);
        assert!(desired.is_empty());
    }
}
