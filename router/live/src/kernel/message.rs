//! Parsed messages about the kernel's tables.
//!
//! The messages of links, addresses, routes and neighbours are those of `netlink_packet_route`;
//! next-hop objects, which it lacks, are read here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{DecodeError, ParseableParametrized};
use netlink_packet_route::RouteNetlinkMessage;

use super::netlink::{self, attributes, u32_at};

/// One message of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelMessage {
    /// About a link, an address, a route or a neighbour.
    Route(RouteNetlinkMessage, Placement),
    /// A next-hop object was made or changed.
    NewNextHop(NextHopObject),
    /// A next-hop object was deleted.
    DelNextHop(u32),
    /// Settings of an interface, or of all interfaces.
    NetConf(Version, ConfOf, NetConf),
    /// IPv6's view of the link with this kernel index.
    Inet6(u32, Inet6Conf),
    /// Settings that are not those of an interface.
    Global(Global),
}

/// Settings of IPv4 that are not those of an interface, and whose changes the kernel does not announce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// `icmp_errors_use_inbound_ifaddr`.
    pub errors_from_ingress: bool,
    /// `ip_forward_use_pmtu`: packets may not be longer than the path MTU that the machine itself has learnt.
    pub forwards_by_path_mtu: bool,
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Settings of an interface (linux/netconf.h), as far as a message has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetConf {
    /// How the sources of packets are checked.
    pub rp_filter: Option<u32>,
    /// Whether packets are forwarded.
    pub forwarding: Option<u32>,
    /// Whether next hops without carrier are not used.
    pub ignore_linkdown: Option<u32>,
}

/// IPv6's settings of a link (`IFLA_INET6_CONF`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inet6Conf {
    /// The longest packet; a router advertisement may lower it.
    pub mtu: u32,
    /// Whether IPv6 is switched off (`disable_ipv6`).
    pub disabled: bool,
    /// Whether the router's own packets have addresses of this interface only (`use_oif_addrs_only`).
    pub only_own: bool,
    /// Whether packets are forwarded although `net.ipv6.conf.all.forwarding` is 0 (`force_forwarding`).
    pub forced: bool,
}

impl Default for Inet6Conf {
    fn default() -> Self {
        Self {
            mtu: u32::MAX,
            disabled: false,
            only_own: false,
            forced: false,
        }
    }
}

/// The subject of a kernel setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfOf {
    /// Every interface (`net.ipv4.conf.all`).
    All,
    /// Future interfaces (`net.ipv4.conf.default`).
    Default,
    /// The interface with this kernel index.
    Interface(u32),
}

/// The position of a new route among the routes of the same prefix and metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Behind the others: a dump's order, and `ip route append`.
    #[default]
    Last,
    /// Before the others: `ip route prepend`, or the only route.
    First,
    /// In place of the first one: `ip route replace`.
    Replace,
}

/// A next-hop object (`ip nexthop`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// The number that routes and groups refer to.
    pub id: u32,
    /// Kind of the object, with its data.
    pub kind: NextHopKind,
}

/// The kind of a next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopKind {
    /// A single next hop.
    Single {
        /// Kernel index of the interface.
        interface: u32,
        /// The router to send to.
        gateway: Option<IpAddr>,
        /// The kernel reports the interface as down.
        dead: bool,
        /// The interface has no carrier.
        no_carrier: bool,
    },
    /// Other objects, with their weights.
    Group(Vec<(u32, u32)>),
    /// Drops silently.
    Blackhole,
    /// A kind that this router does not support: a tunnel, or a bridge's entry.
    Unknown,
}

/// Whether the kernel would use next hops of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) dead: bool,
    pub(super) no_carrier: bool,
}

impl NextHopKind {
    /// How many next hops or members the object has.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Group(members) => members.len().max(1),
            _ => 1,
        }
    }

    /// The members of a group.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        let members = match self {
            Self::Group(members) => &members[..],
            _ => &[],
        };
        members.iter().map(|(member, _)| *member)
    }

    /// Sets the state of the object's interface.
    pub(super) fn set_link(&mut self, link: impl Fn(u32) -> LinkState) {
        if let Self::Single {
            interface,
            dead,
            no_carrier,
            ..
        } = self
        {
            let state = link(*interface);
            (*dead, *no_carrier) = (state.dead, state.no_carrier);
        }
    }
}

/// `RTM_NEWNEXTHOP` of linux/rtnetlink.h.
pub const RTM_NEWNEXTHOP: u16 = 104;
/// `RTM_DELNEXTHOP` of linux/rtnetlink.h.
pub(super) const RTM_DELNEXTHOP: u16 = 105;
/// `RTM_GETNEXTHOP` of linux/rtnetlink.h.
pub(super) const RTM_GETNEXTHOP: u16 = 106;
/// `RTM_NEWNETCONF` of linux/rtnetlink.h.
const RTM_NEWNETCONF: u16 = 80;
/// `RTM_GETNETCONF` of linux/rtnetlink.h.
pub(super) const RTM_GETNETCONF: u16 = 82;
/// Length of `struct ifinfomsg`.
pub(super) const IFINFOMSG_BYTES: usize = 16;
/// Length of `struct netconfmsg`, padded.
pub(super) const NETCONFMSG_BYTES: usize = 4;
/// Length of `struct nhmsg`.
pub(super) const NHMSG_BYTES: usize = 8;
/// Of linux/rtnetlink.h: the interface of a next hop is down.
const RTNH_F_DEAD: u32 = 1;
/// Of linux/rtnetlink.h: the interface of a next hop has no carrier.
const RTNH_F_LINKDOWN: u32 = 16;
/// Attribute of linux/nexthop.h: the identifier of a next-hop object.
pub const NHA_ID: u16 = 1;
/// Attribute of linux/nexthop.h: the interface.
pub const NHA_OIF: u16 = 5;
/// Attribute of linux/nexthop.h: the next router.
pub const NHA_GATEWAY: u16 = 6;
/// Other attributes of linux/nexthop.h.
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_BLACKHOLE: u16 = 4;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;
/// Length of `struct nexthop_grp`.
const MEMBER_BYTES: usize = 8;

/// Parses one message; `None` if this kind of message is not relevant here.
pub(super) fn parse(message: &netlink::Message<'_>) -> Result<Option<KernelMessage>, DecodeError> {
    match message.kind {
        RTM_NEWNEXTHOP => Ok(parse_next_hop(message.payload).map(KernelMessage::NewNextHop)),
        RTM_DELNEXTHOP => {
            Ok(parse_next_hop(message.payload).map(|n| KernelMessage::DelNextHop(n.id)))
        }
        RTM_NEWNETCONF => Ok(parse_netconf(message.payload)),
        libc::RTM_NEWLINK if is_about_inet6(message.payload) => Ok(parse_inet6(message.payload)),
        libc::RTM_NEWLINK
        | libc::RTM_DELLINK
        | libc::RTM_NEWADDR
        | libc::RTM_DELADDR
        | libc::RTM_NEWROUTE
        | libc::RTM_DELROUTE
        | libc::RTM_NEWNEIGH
        | libc::RTM_DELNEIGH => {
            let parsed = RouteNetlinkMessage::parse_with_param(message.payload, message.kind)?;
            Ok(Some(KernelMessage::Route(parsed, placement(message.flags))))
        }
        _ => Ok(None),
    }
}

/// Reads `struct netconfmsg` and its attributes (linux/netconf.h); `None` if it is about another family.
fn parse_netconf(payload: &[u8]) -> Option<KernelMessage> {
    const NETCONFA_IFINDEX: u16 = 1;
    const NETCONFA_FORWARDING: u16 = 2;
    const NETCONFA_RP_FILTER: u16 = 3;
    const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
    const ALL: i32 = -1;
    const DEFAULT: i32 = -2;
    let version = match libc::c_int::from(*payload.first()?) {
        libc::AF_INET => Version::V4,
        libc::AF_INET6 => Version::V6,
        _ => return None,
    };
    let rest = payload.get(NETCONFMSG_BYTES..)?;
    let number = |kind| u32_at(netlink::attribute(rest, kind)?, 0);
    let of = match number(NETCONFA_IFINDEX)? as i32 {
        ALL => ConfOf::All,
        DEFAULT => ConfOf::Default,
        index => ConfOf::Interface(u32::try_from(index).ok()?),
    };
    let conf = NetConf {
        rp_filter: number(NETCONFA_RP_FILTER),
        forwarding: number(NETCONFA_FORWARDING),
        ignore_linkdown: number(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN),
    };
    Some(KernelMessage::NetConf(version, of, conf))
}

/// Whether a message about a link comes from IPv6.
fn is_about_inet6(payload: &[u8]) -> bool {
    payload.first().copied().map(libc::c_int::from) == Some(libc::AF_INET6)
}

/// Reads `IFLA_INET6_CONF`, an array of 32-bit numbers (linux/ipv6.h: `DEVCONF_..`), of IPv6's message about a link.
fn parse_inet6(payload: &[u8]) -> Option<KernelMessage> {
    const IFLA_PROTINFO: u16 = 12;
    const IFLA_INET6_CONF: u16 = 2;
    const DEVCONF_MTU6: usize = 2;
    const DEVCONF_DISABLE_IPV6: usize = 26;
    const DEVCONF_USE_OIF_ADDRS_ONLY: usize = 37;
    const DEVCONF_FORCE_FORWARDING: usize = 59;
    let index = u32_at(payload, 4)?;
    let info = netlink::attribute(payload.get(IFINFOMSG_BYTES..)?, IFLA_PROTINFO)?;
    let conf = netlink::attribute(info, IFLA_INET6_CONF)?;
    let setting = |place: usize| u32_at(conf, place * size_of::<u32>());
    let is_set = |place| setting(place).is_some_and(|value| value != 0);
    let conf = Inet6Conf {
        mtu: setting(DEVCONF_MTU6)?,
        disabled: is_set(DEVCONF_DISABLE_IPV6),
        only_own: is_set(DEVCONF_USE_OIF_ADDRS_ONLY),
        forced: is_set(DEVCONF_FORCE_FORWARDING),
    };
    Some(KernelMessage::Inet6(index, conf))
}

fn placement(flags: u16) -> Placement {
    let set = |flag: libc::c_int| libc::c_int::from(flags) & flag != 0;
    if set(libc::NLM_F_MULTI) || set(libc::NLM_F_APPEND) {
        Placement::Last
    } else if set(libc::NLM_F_REPLACE) {
        Placement::Replace
    } else {
        Placement::First
    }
}

/// Reads `struct nhmsg` and its attributes (linux/nexthop.h).
pub(super) fn parse_next_hop(payload: &[u8]) -> Option<NextHopObject> {
    let flags = u32_at(payload, 4)?;
    let (mut id, mut interface, mut gateway) = (None, None, None);
    let mut special = None;
    for (kind, value) in attributes(payload.get(NHMSG_BYTES..)?) {
        match kind {
            NHA_ID => id = u32_at(value, 0),
            NHA_OIF => interface = u32_at(value, 0),
            NHA_GATEWAY => gateway = address(value),
            NHA_BLACKHOLE => special = Some(NextHopKind::Blackhole),
            NHA_GROUP => special = Some(NextHopKind::Group(members(value))),
            NHA_ENCAP | NHA_FDB => special = Some(NextHopKind::Unknown),
            _ => {}
        }
    }
    let single = interface.map(|interface| NextHopKind::Single {
        interface,
        gateway,
        dead: flags & RTNH_F_DEAD != 0,
        no_carrier: flags & RTNH_F_LINKDOWN != 0,
    });
    Some(NextHopObject {
        id: id?,
        kind: special.or(single).unwrap_or(NextHopKind::Unknown),
    })
}

/// Numbers and weights of a group's members; the kernel stores the weight minus one.
fn members(value: &[u8]) -> Vec<(u32, u32)> {
    let member = |m: &[u8]| {
        let weight = u32::from(m[5]) << 8 | u32::from(m[4]);
        Some((u32_at(m, 0)?, weight + 1))
    };
    value
        .chunks_exact(MEMBER_BYTES)
        .filter_map(member)
        .collect()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(value).ok()?;
    Some(Ipv6Addr::from(v6).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::{Request, messages};
    use proptest::prelude::*;

    fn parsed(request: &Request) -> Option<KernelMessage> {
        let bytes = request.numbered(1);
        parse(&messages(&bytes).next().unwrap()).unwrap()
    }

    #[test]
    fn next_hop_objects_are_read() {
        // ip nexthop add id 7 via 10.0.0.2 dev (index 3)
        let single = Request::new(RTM_NEWNEXTHOP, 0, &[2, 0, 0, 0, 0, 0, 0, 0])
            .with(1, &7_u32.to_ne_bytes())
            .with(5, &3_u32.to_ne_bytes())
            .with(6, &[10, 0, 0, 2]);
        let kind = NextHopKind::Single {
            interface: 3,
            gateway: Some("10.0.0.2".parse().unwrap()),
            dead: false,
            no_carrier: false,
        };
        let object = NextHopObject { id: 7, kind };
        assert_eq!(parsed(&single), Some(KernelMessage::NewNextHop(object)));

        // ip nexthop add id 9 group 7,1/8,3
        let group = Request::new(RTM_NEWNEXTHOP, 0, &[0; 8])
            .with(1, &9_u32.to_ne_bytes())
            .with(
                2,
                &[
                    7_u32.to_ne_bytes(),
                    [0; 4],
                    8_u32.to_ne_bytes(),
                    [2, 0, 0, 0],
                ]
                .concat(),
            );
        let kind = NextHopKind::Group(vec![(7, 1), (8, 3)]);
        let object = NextHopObject { id: 9, kind };
        assert_eq!(parsed(&group), Some(KernelMessage::NewNextHop(object)));

        let gone = Request::new(RTM_DELNEXTHOP, 0, &[0; 8]).with(1, &9_u32.to_ne_bytes());
        assert_eq!(parsed(&gone), Some(KernelMessage::DelNextHop(9)));
        assert_eq!(parsed(&Request::new(RTM_NEWNEXTHOP, 0, &[0; 8])), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            kind in 16_u16..110,
            flags in any::<u16>(),
            payload in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let _ = parse(&netlink::Message { kind, flags, sequence: 0, port: 0, payload: &payload });
        }
    }
}
