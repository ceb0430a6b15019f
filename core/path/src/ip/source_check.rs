//! Ingress validation: whether packets that arrive at an interface are forwarded at all, and whether their source is
//! valid.
//!
//! ```text
//!  the interface --> its forwarding is off --> forwarding-off
//!
//!  source --> route back --> one of the router's own addresses, or a broadcast address --> own-source
//!                |
//!                +-- none that is as specific as a reserved block of addresses --> martian-source
//!                |
//!                +-- off:     passes
//!                +-- loose:   some network, through any port, the default route included: passes
//!                +-- strict:  one of its next hops is on the packet's ingress port: passes
//!                +-- else --> reverse-path
//! ```
//!
//! Source: RFC 3704, sections 2.2 to 2.4 (strict and loose reverse path forwarding); RFC 1812, section
//! 5.3.8; Linux' `rp_filter`. With several next hops, strict is "feasible" in Linux' sense: one of
//! them is enough. [`parse`](crate::ip::parse) has already refused martian sources.
//!
//! Whether a packet may be forwarded depends on `net.ipv4.conf.*.forwarding`, `net.ipv6.conf.all.forwarding`,
//! `force_forwarding` and `disable_ipv6` of its ingress interface. As in Linux, the sender gets no ICMP error; only
//! IPv6 packets without a route are nevertheless answered.
//!
//! Unless the configuration overrides it, a port follows the kernel's `rp_filter` of its interface. IPv6, which has no
//! such setting, is not checked.
//!
//! Deviations from Linux. Two are stricter: the router's own addresses are refused in IPv6 too, and broadcast addresses
//! of its networks are refused whatever `rp_filter` is. One is more permissive: on an interface without any address,
//! Linux treats loose as strict; here it is loose.

use std::net::IpAddr;

use weir_packet::Reason;

use crate::ip::next_hop_cache::spread;
use crate::ip::tables::{Action, NextHop, SourceCheck, Tables};

/// Maximum sources that are remembered: 100 kB.
const ENTRIES: usize = 4096;

/// Sources that passed, with their ingress ports; direct-mapped. Each new snapshot of the tables and each change of a
/// port empties it.
#[derive(Debug)]
pub(crate) struct Passed {
    entries: Box<[Option<(IpAddr, u16)>]>,
}

impl Default for Passed {
    fn default() -> Self {
        Self {
            entries: vec![None; ENTRIES].into_boxed_slice(),
        }
    }
}

/// The ingress port of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ingress {
    /// Kernel index of the port's interface, if it has one.
    pub(crate) interface: Option<u32>,
    /// Check of the port; `None` to use the kernel's setting.
    pub(crate) check: Option<SourceCheck>,
}

impl Passed {
    pub(crate) fn clear(&mut self) {
        self.entries.fill(None);
    }

    /// Whether a packet from `source` has passed the check at a port.
    #[inline]
    pub(crate) fn contains(&self, source: IpAddr, port: usize) -> bool {
        self.entries[spread(source, ENTRIES)] == Some((source, port as u16))
    }

    /// Remembers that a packet from `source` has passed the check at a port.
    pub(crate) fn insert(&mut self, source: IpAddr, port: usize) {
        self.entries[spread(source, ENTRIES)] = Some((source, port as u16));
    }
}

/// Checks whether a packet with these addresses may enter at `ingress`; if not, returns the reason to drop it. If so,
/// returns whether all packets from this source may.
pub(crate) fn check(
    tables: &Tables,
    ingress: Ingress,
    source: IpAddr,
    destination: IpAddr,
) -> Result<bool, Reason> {
    let interface = ingress.interface.unwrap_or_default(); // no interface has index 0
    let settings = tables.settings(interface);
    let forwards = settings.forwards(source);
    let is_refused = !forwards
        && match tables.route_from(destination, source).map(|r| &r.action) {
            Some(Action::Local) => false,
            Some(Action::Forward(_)) => true,
            _ => source.is_ipv4() || !settings.reads_v6,
        };
    let kernels = || source.is_ipv4().then_some(settings.source_check);
    let check = ingress.check.or_else(kernels).unwrap_or_default();
    if is_refused {
        return Err(Reason::ForwardingOff);
    }
    check_route_back(tables, source, interface, check).map(|()| forwards)
}

fn check_route_back(
    tables: &Tables,
    source: IpAddr,
    interface: u32,
    check: SourceCheck,
) -> Result<(), Reason> {
    let route = tables.route(source).map(|(_, route)| &route.action);
    match (route, check) {
        (Some(Action::Local), _) => Err(Reason::OwnSource),
        (Some(Action::Reserved), _) => Err(Reason::MartianSource),
        (_, SourceCheck::Off) => Ok(()),
        (Some(action), _) => {
            let is_here = |hop: &NextHop| check == SourceCheck::Loose || hop.interface == interface;
            let here = action.next_hops().any(is_here);
            here.then_some(()).ok_or(Reason::ReversePath)
        }
        (None, _) => Err(Reason::ReversePath),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_back_decides() {
        let mut tables = Tables::default();
        let hop = |interface| NextHop {
            interface,
            gateway: None,
            weight: 1,
        };
        for (prefix, action) in [
            ("10.1.0.0/16", Action::Forward(vec![hop(1)])),
            ("10.1.0.1/32", Action::Local),
            ("10.1.255.255/32", Action::Local),
            ("10.2.0.0/16", Action::Forward(vec![hop(2)])),
            ("10.3.0.0/16", Action::Forward(vec![hop(2), hop(1)])),
            ("10.4.0.0/16", Action::Blackhole),
            ("10.5.0.0/16", Action::Unreachable),
        ] {
            tables.set_route(prefix.parse().unwrap(), action.into());
        }
        use SourceCheck::{Loose, Off, Strict};
        let own = Err(Reason::OwnSource);
        let no = Err(Reason::ReversePath);
        for (source, results) in [
            ("10.1.0.9", [Ok(()), Ok(()), Ok(())]),
            ("10.1.0.1", [own, own, own]),
            ("10.1.255.255", [own, own, own]),
            ("10.2.0.9", [Ok(()), Ok(()), no]),
            ("10.3.0.9", [Ok(()), Ok(()), Ok(())]),
            ("10.4.0.9", [Ok(()), no, no]),
            ("10.5.0.9", [Ok(()), no, no]),
            ("192.0.2.1", [Ok(()), no, no]),
            ("169.254.1.1", [Err(Reason::MartianSource); 3]),
        ] {
            for (check, result) in [Off, Loose, Strict].into_iter().zip(results) {
                let found = check_route_back(&tables, source.parse().unwrap(), 1, check);
                assert_eq!(found, result, "{source}, {check:?}");
            }
        }
    }
}
