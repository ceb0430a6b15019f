//! The source address of an ICMP error, as Linux chooses it.
//!
//! ```text
//!  route back to the sender --> none, or not to a next hop: no error is sent
//!            |
//!            +--> the source that the route names
//!            +--> IPv4: a primary address of the route's interface: in the next hop's network, else the first;
//!            |          else one of another interface, the loopback first; else 192.0.0.8 (RFC 7600)
//!            +--> IPv6: the best of all interfaces by RFC 6724, where those of the ingress interface are preferred
//! ```
//!
//! A router may have addresses on its loopback interface only, and next hops of the other family.
//!
//! Source: RFC 1812, section 4.3.2.4; RFC 6724, sections 4 and 5, with Linux' table of labels; `inet_select_addr`
//! (net/ipv4/devinet.c), `__icmp_send` (net/ipv4/icmp.c), `ipv6_dev_get_saddr` (net/ipv6/addrconf.c) and `icmp6_send`
//! (net/ipv6/icmp.c).
//!
//! Deviations: interfaces are tried in the order of their indices, not of their creation; of several next hops the
//! first one counts; changes of the table of labels (`ip addrlabel`) and `use_tempaddr` are not followed, nor home
//! addresses, which only kernels for mobile nodes prefer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::ip::tables::{Action, Address, Interface, SCOPE_LINK, Tables};

/// The address of a router that has no IPv4 address (RFC 7600, section 4.8).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The largest scope of an address that another interface may lend.
const SCOPE_LENT_MAX: u8 = SCOPE_LINK - 1;

/// The source of an error to `sender`, whose packet arrived at interface `ingress` (kernel index); `None` if no error
/// can be sent.
pub fn of_error(tables: &Tables, ingress: Option<u32>, sender: IpAddr) -> Option<IpAddr> {
    match sender {
        IpAddr::V4(_) => of_error_v4(tables, ingress, sender),
        IpAddr::V6(to) => of_error_v6(tables, ingress, to),
    }
}

fn of_error_v4(tables: &Tables, ingress: Option<u32>, sender: IpAddr) -> Option<IpAddr> {
    let (_, route) = tables.route(sender)?;
    let Action::Forward(next_hops) = &route.action else {
        return None;
    };
    let hop = next_hops.first()?;
    let at_ingress = || select_v4(tables, ingress?, Some(sender), SCOPE_LINK);
    let by_route = || select_v4(tables, hop.interface, hop.gateway, route.scope);
    tables
        .errors_from_ingress
        .then(at_ingress)
        .flatten()
        .or(route.source)
        .or_else(by_route)
        .or(Some(DUMMY.into()))
}

/// An address of an interface with at most this scope; if it has none, an address of another interface.
fn select_v4(tables: &Tables, interface: u32, near: Option<IpAddr>, scope: u8) -> Option<IpAddr> {
    let usable = |most: u8| {
        move |a: &&Address| a.net.addr().is_ipv4() && !a.flags.secondary && a.scope <= most
    };
    let own = tables.interfaces.get(&interface);
    let own = own.map_or(&[][..], |interface| &interface.addresses);
    let mut own = own.iter().filter(usable(scope));
    let first = own.clone().next();
    let is_near = |a: &&Address| near.is_some_and(|near| a.network().contains(&near));
    let lent = || {
        let all = tables.interfaces.values();
        all.flat_map(|interface| &interface.addresses)
            .find(usable(scope.min(SCOPE_LENT_MAX)))
    };
    let address = own.find(is_near).or(first).or_else(lent)?;
    Some(address.net.addr())
}

fn of_error_v6(tables: &Tables, ingress: Option<u32>, to: Ipv6Addr) -> Option<IpAddr> {
    let at_ingress = best_v6(tables, ingress, to);
    // A route may depend on the source.
    let by_route = |source: Ipv6Addr| {
        let route = tables.route_from(to.into(), source.into())?;
        let Action::Forward(next_hops) = &route.action else {
            return None;
        };
        Some((route.source, next_hops.first()?.interface))
    };
    match (by_route(Ipv6Addr::UNSPECIFIED), at_ingress) {
        (Some((Some(source), _)), _) => Some(source),
        (_, Some(source)) => by_route(source).map(|_| source.into()),
        (Some((None, interface)), None) => best_v6(tables, Some(interface), to).map(IpAddr::from),
        (None, None) => None,
    }
}

/// The best source by RFC 6724 for packets to `to` that leave through an interface.
fn best_v6(tables: &Tables, interface: Option<u32>, to: Ipv6Addr) -> Option<Ipv6Addr> {
    let only_own = interface.is_some_and(|index| tables.settings(index).only_own_v6);
    let only_own = only_own || scope_v6(to) <= SCOPE_LINK_V6;
    let mut best = None;
    for (index, Interface { addresses, .. }) in &tables.interfaces {
        let is_own = interface.is_none_or(|interface| interface == *index);
        if only_own && !is_own {
            continue;
        }
        for address in addresses {
            let IpNet::V6(net) = address.net else {
                continue;
            };
            let preference = preference(address, net.addr(), to, is_own);
            // Of equal addresses, the kernel takes the first that it finds.
            if !address.flags.tentative && best.is_none_or(|(most, _)| preference > most) {
                best = Some((preference, net.addr()));
            }
        }
    }
    best.map(|(_, address)| address)
}

/// The rules of RFC 6724, section 5, in their order; the largest address is the best.
type Preference = (bool, i32, bool, bool, bool, bool, u32);

fn preference(address: &Address, own: Ipv6Addr, to: Ipv6Addr, is_own: bool) -> Preference {
    let scope = match scope_v6(own) {
        scope if scope >= scope_v6(to) => -scope,
        scope => scope - 128,
    };
    let common = (own.to_bits() ^ to.to_bits()).leading_zeros();
    (
        own == to,
        scope,
        !address.flags.avoided,
        is_own,
        label(own) == label(to),
        !address.flags.temporary,
        common.min(u32::from(address.net.prefix_len())),
    )
}

const SCOPE_LINK_V6: i32 = 2;

/// The scope of a unicast address (RFC 4007).
fn scope_v6(address: Ipv6Addr) -> i32 {
    match address.segments()[0] {
        0xfe80..=0xfebf => SCOPE_LINK_V6,
        0xfec0..=0xfeff => 5,
        _ if address.is_loopback() => 1,
        _ => 14,
    }
}

/// The label of an address (RFC 6724, section 2.1).
fn label(address: Ipv6Addr) -> u8 {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => 0,
        [0, 0, 0, 0, 0, 0xffff, ..] => 4,
        [0, 0, 0, 0, 0, 0, ..] => 3,
        [0x2001, 0, ..] => 6,
        [0x2001, 0x10..=0x1f, ..] => 7,
        [0x2002, ..] => 2,
        [0xfc00..=0xfdff, ..] => 5,
        _ => 1,
    }
}

impl Address {
    /// The network whose hosts can be reached directly.
    fn network(&self) -> IpNet {
        let far_end = self
            .peer
            .map(|peer| IpNet::new(peer, self.net.prefix_len()));
        far_end.and_then(Result::ok).unwrap_or(self.net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tables::NextHop;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A change of an address.
    type Change = fn(&mut Address);

    /// A router with these addresses (interface, address, changes), and a route back to the sender through interface 2.
    fn chosen(sender: &str, addresses: &[(u32, &str, Change)]) -> Option<IpAddr> {
        let mut tables = Tables::default();
        for (index, net, change) in addresses {
            let mut address = Address::of(net.parse().unwrap());
            change(&mut address);
            let interface = tables.interfaces.entry(*index).or_default();
            interface.addresses.push(address);
        }
        let next_hop = NextHop {
            interface: 2,
            gateway: None,
            weight: 1,
        };
        let sender = ip(sender);
        let action = Action::Forward(vec![next_hop]);
        tables.set_route(IpNet::from(sender), action.into());
        of_error(&tables, Some(3), sender)
    }

    #[test]
    fn ipv4_has_an_address_of_the_interface_back_or_a_lent_one() {
        let same = |_: &mut Address| {};
        let secondary = |a: &mut Address| a.flags.secondary = true;
        let on_link = |a: &mut Address| a.scope = SCOPE_LINK;
        let peer = |a: &mut Address| a.peer = Some(ip("203.0.113.9"));
        let choose = |addresses: &[_]| chosen("203.0.113.9", addresses).unwrap();
        assert_eq!(choose(&[]), ip("192.0.0.8"));
        let lent = [
            (1, "192.0.2.1/32", same as fn(&mut _)),
            (3, "10.3.0.1/24", same),
        ];
        assert_eq!(choose(&lent), ip("192.0.2.1"));
        assert_eq!(
            choose(&[(1, "10.1.0.1/32", on_link), lent[1]]),
            ip("10.3.0.1")
        );
        let own = [
            lent[0],
            (2, "10.2.0.1/24", secondary),
            (2, "10.2.0.2/24", same),
        ];
        assert_eq!(choose(&own), ip("10.2.0.2"));
        assert_eq!(
            choose(&[(2, "10.2.0.1/24", on_link), lent[1]]),
            ip("10.3.0.1")
        );
        assert_eq!(choose(&[(2, "10.2.0.2/32", peer)]), ip("10.2.0.2"));
    }

    #[test]
    fn ipv6_has_the_best_address_of_all_interfaces() {
        let same = |_: &mut Address| {};
        let avoided = |a: &mut Address| a.flags.avoided = true;
        let tentative = |a: &mut Address| a.flags.tentative = true;
        let temporary = |a: &mut Address| a.flags.temporary = true;
        let choose = |addresses: &[_]| chosen("2001:db8::9", addresses);
        let local = (3, "fe80::3/64", same as fn(&mut _));
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[local]), Some(ip("fe80::3")));
        assert_eq!(
            choose(&[(1, "fd00::1/128", same), local]),
            Some(ip("fd00::1"))
        );
        let own = (3, "fd00:3::1/64", same as fn(&mut _));
        assert_eq!(
            choose(&[(2, "2001:db8::1/64", same), own]),
            Some(ip("fd00:3::1"))
        );
        let old = (3, "2001:db8:3::1/64", avoided as fn(&mut _));
        assert_eq!(
            choose(&[(2, "2001:db8::1/64", same), old]),
            Some(ip("2001:db8::1"))
        );
        let new = (3, "2001:db8:3::1/64", tentative as fn(&mut _));
        assert_eq!(choose(&[own, new]), Some(ip("fd00:3::1")));
        let short = (3, "2001:db8:3::2/64", temporary as fn(&mut _));
        let long = (3, "2001:dbf::1/64", same as fn(&mut _));
        assert_eq!(choose(&[short, long, own]), Some(ip("2001:dbf::1")));
    }
}
