//! Reads the kernel's messages about routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RoutePreference, RouteType, RouteVia,
};
use weir_path::ip::tables::{Action, NextHop};

use super::routes::{
    Candidate, Hop, RANK_DEFAULT, RANK_MAIN, RouteTarget, Unfollowed, Unsupported,
};

/// Ticks per second of the times that the kernel passes to programs (USER_HZ).
const TICKS: u64 = 100;

/// A route of the kernel.
pub(super) enum Read {
    /// A route that forwarding uses.
    Candidate(IpNet, Candidate),
    /// A route that forwarding should use but does not follow, with a substitute if it has one.
    Unfollowed(Unfollowed, Option<Candidate>),
}

/// Reads a route message; `None` for routes that forwarding does not use: other tables, multicast, cached routes.
pub(super) fn read(message: &RouteMessage) -> Option<Read> {
    let header = &message.header;
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    if header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let mut attributes = Attributes::default();
    let (mut destination, mut table, mut metric) = (any, u32::from(header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = read_address(address)?,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            other => attributes.read(other),
        }
    }
    let rank = match u8::try_from(table) {
        Ok(libc::RT_TABLE_LOCAL) => 0,
        Ok(libc::RT_TABLE_MAIN) => RANK_MAIN,
        // IPv6 has no rule that leads there.
        Ok(libc::RT_TABLE_DEFAULT) if any.is_ipv4() => RANK_DEFAULT,
        _ => return None,
    };
    let encapsulated = attributes.tunnel;
    let way = match header.kind {
        RouteType::Unicast => attributes.way(header.flags, any),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast => {
            RouteTarget::Fixed(Action::Local)
        }
        RouteType::BlackHole => RouteTarget::Fixed(Action::Blackhole),
        RouteType::Unreachable => RouteTarget::Fixed(Action::Unreachable),
        RouteType::Throw => RouteTarget::Fixed(Action::Throw),
        RouteType::Prohibit => RouteTarget::Fixed(Action::Prohibit),
        _ => return None,
    };
    let prefix = IpNet::new(destination, header.destination_prefix_length)
        .ok()?
        .trunc();
    let from = attributes.from.unwrap_or(any);
    let from = IpNet::new(from, header.source_prefix_length).ok()?.trunc();
    let candidate = Candidate {
        rank,
        metric,
        preference: attributes.preference,
        from: Some(from).filter(|net| net.prefix_len() > 0),
        expires: attributes.expires,
        mtu: attributes.mtu,
        source: attributes.source,
        scope: header.scope.into(),
        protocol: header.protocol.into(),
        way,
        // The kernel reports a route whose object drops packets as a blackhole.
        object: attributes
            .object
            .filter(|_| matches!(header.kind, RouteType::Unicast | RouteType::BlackHole)),
        fpm: None,
    };
    let unfollowed = |why| Unfollowed {
        prefix,
        why,
        metric,
    };
    Some(match header.tos {
        tos if tos != 0 && any.is_ipv4() => {
            Read::Unfollowed(unfollowed(Unsupported::TypeOfService(tos)), None)
        }
        _ if encapsulated => {
            Read::Unfollowed(unfollowed(Unsupported::Encapsulation), Some(candidate))
        }
        _ => Read::Candidate(prefix, candidate),
    })
}

/// The attributes of a route that determine its next hops.
#[derive(Default)]
struct Attributes {
    interface: u32,
    gateway: Option<IpAddr>,
    several: Vec<Hop>,
    object: Option<u32>,
    tunnel: bool,
    /// As in [`Candidate`].
    preference: u8,
    from: Option<IpAddr>,
    expires: Option<Instant>,
    mtu: Option<u32>,
    source: Option<IpAddr>,
}

impl Attributes {
    fn read(&mut self, attribute: &RouteAttribute) {
        match attribute {
            RouteAttribute::Preference(preference) => {
                self.preference = match preference {
                    RoutePreference::High => 0,
                    RoutePreference::Low => 2,
                    _ => 1,
                }
            }
            RouteAttribute::Source(address) => self.from = read_address(address),
            RouteAttribute::PrefSource(address) => self.source = read_address(address),
            RouteAttribute::Metrics(metrics) => {
                let mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
                self.mtu = mtu.filter(|mtu| *mtu > 0);
            }
            RouteAttribute::CacheInfo(info) if info.expires != 0 => {
                let left = u64::try_from(info.expires.cast_signed()).unwrap_or(0); // negative: expired
                self.expires = Some(Instant::now() + Duration::from_millis(left * 1000 / TICKS));
            }
            RouteAttribute::Oif(index) => self.interface = *index,
            RouteAttribute::Gateway(address) => self.gateway = read_address(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    self.read_hop(hop);
                }
            }
            RouteAttribute::NhId(id) => self.object = Some(*id),
            RouteAttribute::Encap(_) => self.tunnel = true,
            _ => {}
        }
    }

    /// Adds one of several next hops.
    fn read_hop(&mut self, hop: &RouteNextHop) {
        let mut own = Self::default();
        for attribute in &hop.attributes {
            own.read(attribute);
        }
        self.tunnel |= own.tunnel;
        self.several.push(Hop {
            next: NextHop {
                interface: hop.interface_index,
                gateway: own.gateway,
                weight: u32::from(hop.hops) + 1,
            },
            dead: hop.flags.contains(RouteNextHopFlags::Dead),
            no_carrier: hop.flags.contains(RouteNextHopFlags::Linkdown),
        });
    }

    fn way(&mut self, flags: RouteFlags, family_of: IpAddr) -> RouteTarget {
        if self.tunnel {
            return RouteTarget::Fixed(Action::Unreachable);
        }
        if self.several.is_empty() && self.interface != 0 {
            self.several.push(Hop {
                next: NextHop {
                    interface: self.interface,
                    gateway: self.gateway,
                    weight: 1,
                },
                dead: flags.contains(RouteFlags::Dead),
                no_carrier: flags.contains(RouteFlags::Linkdown),
            });
        }
        let mut hops = std::mem::take(&mut self.several);
        if family_of.is_ipv6() {
            // The kernel lists the next hop that changed first; a flow must keep its next hop.
            hops.sort_by_key(|hop| (hop.next.interface, hop.next.gateway));
        }
        RouteTarget::Hops(hops)
    }
}

fn read_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(a) => Some((*a).into()),
        RouteAddress::Inet6(a) => Some((*a).into()),
        _ => None,
    }
}
