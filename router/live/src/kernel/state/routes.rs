//! Routes past the ports, which lead to interfaces that are not ports: packets that follow one are dropped.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_element::Finding;
use weir_element::kernel::kinds::{
    FORWARDING_OFF, PATH_MTU, SPARE_DEFAULT, UNFOLLOWED_DEFAULT, UNFOLLOWED_ROUTE,
    UNPORTED_DEFAULT, UNPORTED_ROUTE,
};
use weir_path::ip::tables::{Action, Interface, Route, Tables};

use super::Scope;
use crate::kernel::routes::Unfollowed;
use crate::kernel::tables::TableState;

/// Maximum prefixes listed for an interface; the others are counted.
const NAMED_MAX: usize = 3;

/// Default routes, or large parts of one, that have a next hop past the ports.
pub fn defaults_past(tables: &Tables, scope: &Scope) -> Vec<Finding> {
    let routes = tables.routes().filter(|(prefix, _)| is_default(prefix));
    let finding = |(prefix, interface): (IpNet, &str)| {
        Finding::new(&UNPORTED_DEFAULT, default_by(&prefix, interface))
    };
    let mut findings: Vec<_> = outside(tables, routes, scope).map(finding).collect();
    findings.dedup();
    findings
}

/// The other routes past the ports, one finding for each interface.
pub fn past(tables: &Tables, scope: &Scope) -> Vec<Finding> {
    let routes = tables.routes().filter(|(prefix, _)| !is_default(prefix));
    let mut of_interfaces: BTreeMap<&str, Vec<IpNet>> = BTreeMap::new();
    for (prefix, interface) in outside(tables, routes, scope) {
        of_interfaces.entry(interface).or_default().push(prefix);
    }
    let finding = |(interface, prefixes): (&str, Vec<IpNet>)| {
        let named: Vec<_> = prefixes
            .iter()
            .take(NAMED_MAX)
            .map(IpNet::to_string)
            .collect();
        let more = match prefixes.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Finding::new(
            &UNPORTED_ROUTE,
            format!("{interface} ({}{more})", named.join(", ")),
        )
    };
    of_interfaces.into_iter().map(finding).collect()
}

/// Inactive default routes past the ports: those with a higher metric than others, except those that were `found`
/// already.
pub(super) fn spare_past(state: &TableState, scope: &Scope, found: &[Finding]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let any = [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Ipv6Addr::UNSPECIFIED.into(),
    ];
    for prefix in any.map(|any| IpNet::new_assert(any, 0)) {
        let routes: Vec<_> = state.all_of(&prefix).map(Route::from).collect();
        let routes = routes.iter().map(|route| (prefix, route));
        for (prefix, interface) in outside(state.tables(), routes, scope) {
            let what = default_by(&prefix, interface);
            if found.iter().all(|finding| finding.what != what) {
                findings.push(Finding::new(&SPARE_DEFAULT, what));
            }
        }
    }
    findings.dedup();
    findings
}

/// Findings that [`Tables`] do not contain: routes that are not followed, path MTUs.
pub fn unfollowed(state: &TableState) -> Vec<Finding> {
    let route = |route: &Unfollowed| {
        if is_default(&route.prefix) {
            Finding::new(&UNFOLLOWED_DEFAULT, route.to_string())
        } else {
            Finding::new(&UNFOLLOWED_ROUTE, route.to_string())
        }
    };
    let path_mtu = || Finding::new(&PATH_MTU, "net.ipv4.ip_forward_use_pmtu");
    let routes = state.unfollowed().map(route);
    routes
        .chain(state.forwards_by_path_mtu().then(path_mtu))
        .collect()
}

/// Ports at which the kernel forwards no packets of a family.
pub fn forwarding_off(tables: &Tables, scope: &Scope) -> Vec<Finding> {
    let at_port = |(index, interface): (&u32, &Interface)| {
        let settings = tables.settings(*index);
        let families = [
            ("IPv4", settings.forwards_v4),
            ("IPv6", settings.forwards_v6),
        ];
        let off = families.into_iter().filter(|(_, forwards)| !forwards);
        let finding = |(family, _)| {
            Finding::new(&FORWARDING_OFF, format!("{family} from {}", interface.name))
        };
        off.map(finding).collect::<Vec<_>>()
    };
    let interfaces = tables.interfaces.iter();
    let ports = interfaces.filter(|(_, interface)| scope.has(&interface.name));
    ports.flat_map(at_port).collect()
}

/// A default route as an operator knows it.
fn default_by(prefix: &IpNet, interface: &str) -> String {
    match prefix.prefix_len() {
        0 if prefix.addr().is_ipv4() => format!("IPv4 default dev {interface}"),
        0 => format!("IPv6 default dev {interface}"),
        _ => format!("{prefix} dev {interface}"),
    }
}

/// Whether a route covers enough of the address space to act as a default route: tunnels for all traffic often use two
/// halves.
fn is_default(prefix: &IpNet) -> bool {
    match prefix {
        IpNet::V4(prefix) => prefix.prefix_len() <= 1,
        IpNet::V6(prefix) => prefix.prefix_len() <= 3,
    }
}

/// Each next hop of these routes at an interface that is not a port. Link-local networks do not count, because the
/// kernel never forwards to them.
fn outside<'a>(
    tables: &'a Tables,
    routes: impl Iterator<Item = (IpNet, &'a Route)>,
    scope: &'a Scope,
) -> impl Iterator<Item = (IpNet, &'a str)> {
    let is_forwarded = |prefix: &IpNet| match prefix {
        IpNet::V4(_) => true,
        IpNet::V6(prefix) => {
            let address = prefix.addr();
            !(address.is_unicast_link_local() || address.is_multicast())
        }
    };
    routes
        .filter(move |(prefix, _)| is_forwarded(prefix))
        .flat_map(move |(prefix, route)| {
            let hops = match &route.action {
                Action::Forward(hops) => hops.as_slice(),
                _ => &[],
            };
            let name = |index: &u32| tables.interfaces.get(index).map(|i| i.name.as_str());
            let names = hops.iter().filter_map(move |hop| name(&hop.interface));
            names
                .filter(|name| *name != "lo" && !scope.has(name))
                .map(move |name| (prefix, name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_path::ip::tables::{Interface, NextHop};
    use weir_path::plane::Mode;

    #[test]
    fn default_routes_past_the_ports_are_told_from_other_routes() {
        let mut tables = Tables::default();
        for (index, name) in [(1, "lo"), (2, "r0"), (3, "wwan0"), (4, "docker0")] {
            let interface = Interface {
                name: name.to_owned(),
                ..Interface::default()
            };
            tables.interfaces.insert(index, interface);
        }
        let hops = |interfaces: &[u32]| {
            let hop = |interface: &u32| NextHop {
                interface: *interface,
                gateway: None,
                weight: 1,
            };
            Action::Forward(interfaces.iter().map(hop).collect())
        };
        for (prefix, action) in [
            ("0.0.0.0/0", hops(&[2, 3])),
            ("128.0.0.0/1", hops(&[3])),
            ("10.0.0.0/8", hops(&[2])),
            ("172.17.0.0/16", hops(&[4])),
            ("172.18.0.0/16", hops(&[4])),
            ("192.0.2.0/24", Action::Blackhole),
            ("::/0", Action::Unreachable),
            ("2000::/3", hops(&[3])),
            ("fe80::/64", hops(&[4])),
            ("fd00::/64", hops(&[1])),
        ] {
            tables.set_route(prefix.parse().unwrap(), action.into());
        }
        let scope = Scope {
            mode: Mode::Routed,
            ports: vec!["r0".into()],
        };
        let shown = |findings: Vec<Finding>| -> Vec<_> {
            findings.into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(
            shown(defaults_past(&tables, &scope)),
            [
                "IPv4 default dev wwan0",
                "128.0.0.0/1 dev wwan0",
                "2000::/3 dev wwan0"
            ]
        );
        assert_eq!(
            shown(past(&tables, &scope)),
            ["docker0 (172.17.0.0/16, 172.18.0.0/16)"]
        );
    }
}
