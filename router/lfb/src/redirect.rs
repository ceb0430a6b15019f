//! Exceptions: packets that the router redirects to its control element, and their maximum rate.
//!
//! Source of the rates: Zhuge et al., "Research on Internal Flow Control Mechanism of ForCES Routers", the flow control
//! LFB with its parameters B_c, B_e and T_s.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Bytes, Rate, Span};
use weir_discipline::channel::token_bucket::Limits;
use weir_path::exception::Policy;

/// Maximum addresses of the control element at one router.
const ADDRESSES_MAX: usize = 256;
/// Maximum prefixes of groups: each packet to a group is compared with all.
const GROUPS_MAX: usize = 32;
/// The largest burst.
pub(crate) const BURST_MAX: Bytes = Bytes(100_000_000);
/// Longest text with addresses, in bytes.
const ADDRESSES_LEN_MAX: usize = 16_384;
/// Maximum bits in T_s: 400 Gbit/s for an hour.
const BITS_MAX: u64 = 400_000_000_000 * 3600;

const fn flag(id: u32, name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(name, Kind::Flag, "false", about).id(id)
}

/// The components of the LFB.
pub(crate) const PARAMETERS: &[Parameter] = &[
    flag(1, "flow_control", "whether token buckets limit exceptions; if not, all exceptions go to the control element"),
    Parameter::new(
        "bc",
        Kind::Count(0, BITS_MAX),
        "22500000",
        "bits of exceptions that always pass in each `ts` (B_c); whole messages count, not only their packets",
    )
    .id(2),
    Parameter::new(
        "be",
        Kind::Count(0, BITS_MAX),
        "0",
        "maximum bits of exceptions that pass in each `ts` (B_e); a value below `bc` counts as `bc`",
    )
    .id(3),
    Parameter::new(
        "ts",
        Kind::Span(Span::from_millis(1), Span::from_secs(3600)),
        "1.5 s",
        "interval of `bc` and `be` (T_s); the buckets fill continuously, not once in each interval",
    )
    .id(4),
    Parameter::new(
        "burst",
        Kind::Bytes(Bytes(1619), BURST_MAX),
        "15000 B",
        "bytes of exceptions that may pass at once; an exception takes 105 bytes more than its frame",
    )
    .id(8),
    Parameter::new(
        "addresses",
        Kind::Text(ADDRESSES_LEN_MAX),
        "",
        "addresses of the control element, separated by spaces: packets to them go there",
    )
    .id(9),
    flag(10, "neighbours", "whether ARP and IPv6 neighbour discovery go to the control element"),
    flag(11, "multicast", "whether other multicast packets go to the control element (routing protocols)"),
    flag(12, "hop_limit", "whether packets with an expired TTL go to the control element, which answers them"),
    flag(13, "no_route", "whether packets without a route go to the control element, which answers them"),
    flag(14, "next_hop", "whether packets whose next hop does not answer go to the control element"),
    flag(15, "too_big", "whether packets above the MTU that may not be fragmented go to the control element"),
    flag(16, "router_alert", "whether packets with the router alert option go to the control element and no further"),
    Parameter::new(
        "classes",
        Kind::Flag,
        "true",
        "whether exceptions have classes, each with its own part of the buckets and its own ring: routing protocols, \
         neighbours, local, errors",
    )
    .id(17),
    Parameter::new(
        "peers",
        Kind::Text(ADDRESSES_LEN_MAX),
        "",
        "addresses, separated by spaces, whose BGP and BFD packets are of the class of routing protocols",
    )
    .id(18),
    Parameter::new(
        "groups",
        Kind::Text(ADDRESSES_LEN_MAX),
        "224.0.0.0/24 ff02::/16",
        "multicast groups, as prefixes separated by spaces, to which `multicast` applies; by default the link-local groups",
    )
    .id(19),
];

/// The checked components.
#[derive(Clone, Debug, PartialEq)]
pub struct RedirectPlan {
    /// The policy that the components define.
    pub policy: Policy,
    /// The components as requested, for display.
    pub(crate) settings: Settings,
}

impl Default for RedirectPlan {
    fn default() -> Self {
        let settings = Settings::defaults(PARAMETERS);
        match Self::new(settings) {
            Ok(plan) => plan,
            Err((name, why)) => unreachable!("the default of {name}: {why}"),
        }
    }
}

impl RedirectPlan {
    /// The components as requested.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes a plan from checked settings; an error names the component.
    pub(crate) fn new(settings: Settings) -> Result<Self, (&'static str, String)> {
        let set = |name| addresses(settings.text(name)).map_err(|why| (name, why));
        let (addresses, peers) = (set("addresses")?, set("peers")?);
        let groups = groups(settings.text("groups")).map_err(|why| ("groups", why))?;
        let ts = settings.span("ts");
        let rate = |name| {
            let bits = u128::from(settings.count(name));
            let per_second = bits * 1_000_000_000 / u128::from(ts.as_nanos());
            Rate::from_bps(u64::try_from(per_second).unwrap_or(u64::MAX))
        };
        let policy = Policy {
            addresses,
            neighbours: settings.flag("neighbours"),
            multicast: settings.flag("multicast"),
            groups,
            hop_limit: settings.flag("hop_limit"),
            no_route: settings.flag("no_route"),
            next_hop: settings.flag("next_hop"),
            too_big: settings.flag("too_big"),
            router_alert: settings.flag("router_alert"),
            classes: settings.flag("classes"),
            peers,
            limits: Limits {
                flow_control: settings.flag("flow_control"),
                committed: rate("bc"),
                excess: rate("be"),
                burst: Bytes(settings.bytes("burst")),
            },
        };
        Ok(Self { policy, settings })
    }
}

fn groups(text: &str) -> Result<Vec<IpNet>, String> {
    let group = |word: &str| {
        let net = word
            .parse()
            .or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
        let net = net.ok().filter(|net: &IpNet| net.network().is_multicast());
        net.ok_or_else(|| {
            format!(
                "`{word}` is not a prefix of multicast groups; write prefixes like `224.0.0.0/24 ff02::5`"
            )
        })
    };
    let groups = text.split_whitespace().map(group);
    let groups = groups.collect::<Result<Vec<_>, String>>()?;
    if groups.len() > GROUPS_MAX {
        let found = groups.len();
        return Err(format!("{found} prefixes, but the maximum is {GROUPS_MAX}"));
    }
    Ok(groups)
}

/// Parses addresses of hosts, separated by spaces.
pub fn addresses(text: &str) -> Result<BTreeSet<IpAddr>, String> {
    let wrong = |word| {
        format!(
            "`{word}` is not an address; permitted are addresses separated by spaces: `192.0.2.1 2001:db8::1`"
        )
    };
    let words = text.split_whitespace();
    let addresses = words.map(|word| word.parse().map_err(|_| wrong(word)));
    let addresses = addresses.collect::<Result<BTreeSet<IpAddr>, String>>()?;
    let no_host = |a: &&IpAddr| a.is_unspecified() || a.is_multicast() || a.is_loopback();
    if let Some(address) = addresses.iter().find(no_host) {
        return Err(format!("{address} is not the address of a host on a link"));
    }
    if addresses.len() > ADDRESSES_MAX {
        Err(format!(
            "{} addresses are given, but at most {ADDRESSES_MAX} are permitted",
            addresses.len()
        ))
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use weir_base::setting::Scalar;

    use super::*;

    fn plan(settings: &[(&str, &str)]) -> Result<RedirectPlan, (&'static str, String)> {
        let mut all = Settings::defaults(PARAMETERS);
        for (name, text) in settings {
            all.set(PARAMETERS, name, &Scalar::Text((*text).to_owned()))
                .unwrap();
        }
        RedirectPlan::new(all)
    }

    #[test]
    fn by_default_nothing_goes_to_the_control_element() {
        let policy = RedirectPlan::default().policy;
        let limits = Limits {
            flow_control: false,
            ..policy.limits.clone()
        };
        let none = Policy {
            limits,
            ..Policy::default()
        };
        assert_eq!(policy, none);
    }

    #[test]
    fn each_flag_is_its_own() {
        for parameter in PARAMETERS.iter().filter(|p| p.default == "false") {
            let set = plan(&[(parameter.name, "true")]).unwrap().policy;
            let flags = [
                ("flow_control", set.limits.flow_control),
                ("neighbours", set.neighbours),
                ("multicast", set.multicast),
                ("hop_limit", set.hop_limit),
                ("no_route", set.no_route),
                ("next_hop", set.next_hop),
                ("too_big", set.too_big),
                ("router_alert", set.router_alert),
            ];
            let on: Vec<_> = flags
                .iter()
                .filter(|(_, on)| *on)
                .map(|(n, _)| *n)
                .collect();
            assert_eq!(on, [parameter.name]);
        }
    }

    #[test]
    fn rates_are_bits_in_an_interval() {
        // The paper's example: 22.5 Mbit in 1.5 s are 15 Mbit/s.
        let limits = plan(&[("flow_control", "true")]).unwrap().policy.limits;
        assert_eq!(limits.committed, Rate::from_bps(15_000_000));
        let limits = plan(&[("be", "3000"), ("ts", "1 ms")])
            .unwrap()
            .policy
            .limits;
        assert_eq!(limits.excess, Rate::from_bps(3_000_000));
    }

    #[test]
    fn groups_are_prefixes() {
        let set = plan(&[("groups", "224.0.0.5 ff02::/16")]).unwrap();
        let shown: Vec<_> = set.policy.groups.iter().map(IpNet::to_string).collect();
        assert_eq!(shown, ["224.0.0.5/32", "ff02::/16"]);
        for text in ["10.0.0.0/8", "ff02::/129", "all"] {
            let (name, why) = plan(&[("groups", text)]).unwrap_err();
            assert!(
                why.contains("is not a prefix of multicast groups") && name == "groups",
                "{why}"
            );
        }
    }

    #[test]
    fn addresses_are_checked() {
        let set = plan(&[("addresses", " 10.0.0.1  2001:db8::1 10.0.0.1 ")]).unwrap();
        assert_eq!(set.policy.addresses.len(), 2);
        for (text, word) in [
            ("10.0.0.1/24", "`10.0.0.1/24` is not an address"),
            ("10.0.0.1, 10.0.0.2", "`10.0.0.1,` is not an address"),
            ("224.0.0.5", "224.0.0.5 is not the address of a host"),
            ("::", ":: is not the address of a host"),
        ] {
            let (name, why) = plan(&[("addresses", text)]).unwrap_err();
            assert!(why.contains(word) && name == "addresses", "{why}");
        }
        let many: Vec<_> = (0..257)
            .map(|n| format!("10.0.{}.{}", n / 200, n % 200))
            .collect();
        let (_, why) = plan(&[("addresses", &many.join(" "))]).unwrap_err();
        assert!(why.contains("at most 256"), "{why}");
    }
}
