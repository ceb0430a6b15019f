//! The section `[router.NAME]` of a control element's file: a routing suite (FRR, BIRD) on the machine of the CE routes
//! for an FE.
//!
//! ```toml
//! [router.north]
//! fe = "edge1"
//! namespace = "north"           # network namespace of the TAPs of this FE: the suite runs there
//! peers = "192.0.2.1"           # its BGP and BFD packets pass before the others
//!
//! [remote.wan]                  # each port at which the suite speaks
//! fe = "edge1"
//! port = "wan"
//! addresses = "192.0.2.7/24"
//! tap = true
//! ```
//!
//! ```text
//!   suite --routes--> kernel of the namespace --netlink--> CE --ForCES--> tables of the FE
//!         <--packets--        TAPs         <----------- redirects <----- ports of the FE
//! ```
//!
//! A namespace has the TAPs of one FE, so a next hop at a TAP is a next hop at the port of that FE.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use weir_base::setting::{Kind, Parameter, Scalar, Settings};
use weir_lfb::redirect::addresses;
use weir_lfb::router::fpm_address;
use weir_model::{Change, Class, ComponentPath, Fault, Section};
use weir_path::plane::Mode;

use crate::sections::{add_missing, check_fe, wrong};

/// Longest name of a network namespace, in bytes.
const NAMESPACE_LEN_MAX: usize = 64;

/// Protocols of routes by name, with their numbers (`/etc/iproute2/rt_protos`): FRR has its own for static routes.
const PROTOCOLS: &[(&str, &[u8])] = &[
    ("babel", &[42]),
    ("bgp", &[186]),
    ("bird", &[12]),
    ("eigrp", &[192]),
    ("isis", &[187]),
    ("ospf", &[188]),
    ("rip", &[189, 190]),
    ("sharp", &[194]),
    ("static", &[4, 196]),
    ("zebra", &[11]),
];
/// The protocol of connected routes, which every FE needs (`RTPROT_KERNEL`).
const KERNEL: u8 = 2;

/// Class of a router.
pub const ROUTER_CLASS: Class = Class {
    name: "router",
    id: 0x00F7_0322,
    about: "a routing suite that routes for a forwarding element, on the control element's machine",
    parameters: &[
        Parameter::new("fe", Kind::Text(64), "", "name of the FE").id(1),
        Parameter::new(
            "namespace",
            Kind::Text(NAMESPACE_LEN_MAX),
            "",
            "network namespace of the TAPs of the FE's remote ports, in which the suite runs: a name (`ip netns add`) or a \
             path; empty: the namespace of the CE",
        )
        .id(2),
        Parameter::new(
            "protocols",
            Kind::Text(256),
            "ospf isis bgp static bird",
            "protocols, separated by spaces, whose routes the FE gets; it gets connected routes always",
        )
        .id(3),
        Parameter::new(
            "peers",
            Kind::Text(4096),
            "",
            "addresses of the suite's BGP and BFD peers, separated by spaces: `redirect.peers` of the FE",
        )
        .id(4),
        Parameter::new(
            "fpm",
            Kind::Text(64),
            "",
            "loopback address and port in the namespace at which FRR's zebra delivers its routes (module \
             `dplane_fpm_nl`, `fpm address`), like \"127.0.0.1:2620\"; empty: only the kernel's routes",
        )
        .id(5),
    ],
    ..Class::PLAIN
};

/// Section of a router.
pub static ROUTER: Section = Section {
    key: "router",
    has_instances: true,
    about: "A routing suite, like FRR, that runs on the CE's machine and routes for an FE: the FE gets the routes of the \
            suite's kernel. Choose any NAME.",
    classes: || vec![ROUTER_CLASS],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [{path}.NAME], with an `fe`")
    },
    sections: &[],
};

/// A routing suite that routes for an FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPlan {
    /// Name of the section.
    pub name: String,
    /// Name of the FE.
    pub fe: String,
    /// Network namespace of the TAPs; `None`: the namespace of the CE.
    pub namespace: Option<String>,
    /// Numbers of the protocols whose routes the FE gets (`rtm_protocol`).
    pub protocols: BTreeSet<u8>,
    /// Where zebra delivers its routes.
    pub fpm: Option<SocketAddr>,
    /// Addresses of its BGP and BFD peers, for `redirect.peers`.
    peers: String,
}

impl RouterPlan {
    /// Checks a section; its FE must be in `fes`.
    pub fn check(name: &str, given: &[(&str, &Scalar)], fes: &[&str]) -> Result<Self, Vec<Fault>> {
        let path = ComponentPath::new([ROUTER.key, name]);
        let of_setting = |error| vec![Fault::of_setting(&path, &ROUTER_CLASS, &error)];
        let given = given.iter().copied();
        let settings = Settings::check(ROUTER_CLASS.parameters, given).map_err(of_setting)?;
        let one = |key: &str, why: String| vec![wrong(path.join(key), why)];
        let (fe, namespace) = (settings.text("fe"), settings.text("namespace"));
        check_fe(&path, fe, fes)?;
        if !namespace.starts_with('/') && (namespace.contains('/') || namespace.starts_with('.')) {
            let why = format!(
                "`{namespace}` cannot name a network namespace: write a name of `ip netns list`, or an absolute path"
            );
            return Err(one("namespace", why));
        }
        addresses(settings.text("peers")).map_err(|why| one("peers", why))?;
        let namespace = namespace.strip_prefix("/run/netns/").unwrap_or(namespace);
        let protocols = protocols(settings.text("protocols"));
        let fpm = fpm_address(settings.text("fpm"), Mode::Routed);
        Ok(Self {
            name: name.to_owned(),
            fe: fe.to_owned(),
            namespace: Some(namespace.to_owned()).filter(|name| !name.is_empty()),
            protocols: protocols.map_err(|why| one("protocols", why))?,
            fpm: fpm.map_err(|why| one("fpm", why))?,
            peers: settings.text("peers").to_owned(),
        })
    }

    /// Checks that no two routers have the same FE or the same namespace.
    pub fn check_all(all: &[Self]) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        for (at, router) in all.iter().enumerate() {
            let path = ComponentPath::new([ROUTER.key, &router.name]);
            for other in &all[..at] {
                let section = format!("[{}.{}]", ROUTER.key, other.name);
                if other.fe == router.fe {
                    let why = format!("{section} already routes for {}", router.fe);
                    faults.push(wrong(path.join("fe"), why));
                }
                if other.namespace == router.namespace {
                    let why =
                        format!("{section} already has this namespace; each FE needs its own");
                    faults.push(wrong(path.join("namespace"), why));
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

/// Adds settings to the desired configuration of an FE that redirect packets of routing protocols to the CE, unless the
/// configuration already has these settings.
pub(crate) fn desire(all: &[RouterPlan], fe: &str, desired: &mut Vec<Change>) {
    let Some(router) = all.iter().find(|router| router.fe == fe) else {
        return;
    };
    let settings = [
        ("multicast", Scalar::Flag(true)),
        ("peers", Scalar::Text(router.peers.clone())),
    ];
    add_missing(desired, settings);
}

/// The name of a protocol of routes, or its number.
pub fn protocol_word(number: u8) -> String {
    let others: &[(&str, &[u8])] = &[
        ("kernel", &[KERNEL]),
        ("boot", &[3]),
        ("ra", &[9]),
        ("dhcp", &[16]),
    ];
    let mut all = PROTOCOLS.iter().chain(others);
    let found = all.find(|(_, numbers)| numbers.contains(&number));
    found.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

fn protocols(text: &str) -> Result<BTreeSet<u8>, String> {
    let mut all = BTreeSet::from([KERNEL]);
    for word in text.split_whitespace() {
        let Some((_, numbers)) = PROTOCOLS.iter().find(|(name, _)| *name == word) else {
            let names: Vec<_> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "`{word}` is not a protocol; write names from: {}",
                names.join(" ")
            ));
        };
        all.extend(*numbers);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[(&str, &str)]) -> Result<RouterPlan, String> {
        let given: Vec<_> = given
            .iter()
            .map(|(name, text)| (*name, Scalar::Text((*text).to_owned())))
            .collect();
        let given: Vec<_> = given.iter().map(|(name, text)| (*name, text)).collect();
        RouterPlan::check("north", &given, &["edge1", "edge2"])
            .map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_fe_gets_connected_routes_and_those_of_named_protocols() {
        let plan = check(&[("fe", "edge1"), ("protocols", "bgp static")]).unwrap();
        assert_eq!(plan.protocols, BTreeSet::from([2, 4, 186, 196]));
        assert_eq!(plan.namespace, None);
        let cases = [
            (
                ("fe", "edge"),
                "router.north.fe: there is no FE `edge`; did you mean",
            ),
            (
                ("protocols", "bgp ospf6"),
                "router.north.protocols: `ospf6` is not a protocol; write names from: babel bgp",
            ),
            (("namespace", "../x"), "cannot name a network namespace"),
        ];
        for (given, expected) in cases {
            let fe = [("fe", "edge1")]
                .into_iter()
                .filter(|(key, _)| *key != given.0);
            let why = check(&fe.chain([given]).collect::<Vec<_>>()).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn each_fe_has_one_router_and_each_router_a_namespace() {
        let plan = |fe, namespace| check(&[("fe", fe), ("namespace", namespace)]).unwrap();
        assert!(RouterPlan::check_all(&[plan("edge1", "a"), plan("edge2", "b")]).is_ok());
        let faults = RouterPlan::check_all(&[plan("edge1", ""), plan("edge2", "")]).unwrap_err();
        assert!(faults[0].to_string().contains("each FE needs its own"));
        let faults = RouterPlan::check_all(&[plan("edge1", "a"), plan("edge1", "b")]).unwrap_err();
        assert!(faults[0].to_string().contains("already routes for edge1"));
    }

    #[test]
    fn an_fe_is_asked_for_groups_and_its_own_section_wins() {
        let all = [check(&[("fe", "edge1"), ("peers", "192.0.2.1")]).unwrap()];
        let peers = ComponentPath::new(["redirect", "peers"]);
        let mut desired = vec![Change::new(peers, Scalar::Text("192.0.2.9".to_owned()))];
        desire(&all, "edge1", &mut desired);
        let line = |c: &Change| format!("{}={}", c.path, c.value.clone().unwrap());
        let shown: Vec<_> = desired.iter().map(line).collect();
        assert_eq!(
            shown,
            ["redirect.peers=\"192.0.2.9\"", "redirect.multicast=true"]
        );
    }
}
