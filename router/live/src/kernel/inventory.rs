//! The interfaces of this machine and where its default routes lead, for choosing ports.
//!
//! Everything here can be read without privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use ipnet::IpNet;
use socket2::{Domain, Socket, Type};
use weir_base::Rate;
use weir_path::ip::tables::Tables;

use super::follow;
use super::message::IFINFOMSG_BYTES;
use super::netlink::{NetlinkSocket, Request, attribute, text, u16_at, u32_at};
use crate::device::speed::link_speed;

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// The kernel's name for its kind: bridge, vlan, wireguard, ..; empty for hardware.
    pub kind: String,
    /// Whether it carries Ethernet frames.
    pub is_ethernet: bool,
    /// Whether it reaches this machine only.
    pub is_loopback: bool,
    /// Whether it is a wireless device.
    pub is_wireless: bool,
    /// Whether it is switched on.
    pub up: bool,
    /// Addresses, with their networks.
    pub addresses: Vec<IpNet>,
    /// The bridge or bond that it belongs to.
    pub master: Option<String>,
    /// The interface below it, if that is in the same namespace.
    pub below: Option<String>,
    /// The speed of its link, if the device knows it.
    pub speed: Option<Rate>,
}

/// The interfaces of a machine, and where its traffic to the rest of the world goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All interfaces, in the kernel's order.
    pub interfaces: Vec<Interface>,
    /// The interfaces of the default routes: IPv4 first, each once.
    pub uplinks: Vec<String>,
    /// The interfaces of further default routes: with a higher metric, or in a table that only rules lead to.
    pub spare_uplinks: Vec<String>,
}

/// Reads the interfaces and uplinks in the calling thread's network namespace.
pub fn read() -> io::Result<Inventory> {
    let state = follow::read_state().map_err(io::Error::other)?;
    let tables = state.tables();
    let links = read_links()?;
    let name_of = |index: u32| links.get(&index).map(|link| link.name.clone());
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let interface = |(index, link): (&u32, &Link)| Interface {
        name: link.name.clone(),
        kind: link.kind.clone(),
        is_ethernet: link.hardware == libc::ARPHRD_ETHER,
        is_loopback: link.flags & libc::IFF_LOOPBACK as u32 != 0,
        is_wireless: is_wireless(&link.name),
        up: link.flags & libc::IFF_UP as u32 != 0,
        addresses: addresses(tables, *index),
        master: link.master.and_then(name_of),
        below: link.below.and_then(name_of),
        speed: link_speed(&socket, &link.name),
    };
    let uplinks = uplinks(tables);
    let spare = defaults()?
        .into_iter()
        .filter(|index| !uplinks.contains(index));
    Ok(Inventory {
        interfaces: links.iter().map(interface).collect(),
        spare_uplinks: spare.filter_map(name_of).collect(),
        uplinks: uplinks.into_iter().filter_map(name_of).collect(),
    })
}

/// Whether sysfs lists a wireless device. Elsewhere, the kernel reports that through a second netlink protocol only.
fn is_wireless(name: &str) -> bool {
    let folder = Path::new("/sys/class/net").join(name);
    ["wireless", "phy80211"]
        .iter()
        .any(|mark| folder.join(mark).exists())
}

fn addresses(tables: &Tables, index: u32) -> Vec<IpNet> {
    let interface = tables.interfaces.get(&index);
    interface.map_or_else(Vec::new, |interface| {
        interface.addresses.iter().map(|a| a.net).collect()
    })
}

/// The kernel indices of the default routes' interfaces.
fn uplinks(tables: &Tables) -> Vec<u32> {
    let mut defaults: Vec<_> = tables
        .routes()
        .filter(|(prefix, _)| prefix.prefix_len() == 0)
        .collect();
    defaults.sort_by_key(|(prefix, _)| prefix.addr().is_ipv6());
    let mut indices = Vec::new();
    for (_, route) in defaults {
        for hop in route.action.next_hops() {
            if !indices.contains(&hop.interface) {
                indices.push(hop.interface);
            }
        }
    }
    indices
}

/// The kernel indices of the interfaces of all default routes with one next hop, in any table and of any metric.
fn defaults() -> io::Result<BTreeSet<u32>> {
    const RTMSG_BYTES: usize = 12;
    let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; RTMSG_BYTES]);
    let mut indices = BTreeSet::new();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        let [_, length, _, _, _, _, _, kind, ..] = message.payload[..] else {
            return;
        };
        if length == 0 && kind == libc::RTN_UNICAST {
            let body = message.payload.get(RTMSG_BYTES..).unwrap_or_default();
            indices.extend(attribute(body, libc::RTA_OIF).and_then(|index| u32_at(index, 0)));
        }
    })?;
    Ok(indices)
}

/// The part of a link that routing does not need.
struct Link {
    name: String,
    kind: String,
    hardware: u16,
    flags: u32,
    master: Option<u32>,
    below: Option<u32>,
}

fn read_links() -> io::Result<BTreeMap<u32, Link>> {
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; IFINFOMSG_BYTES]);
    let mut links = BTreeMap::new();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        if message.kind == libc::RTM_NEWLINK {
            links.extend(read_link(message.payload));
        }
    })?;
    Ok(links)
}

fn read_link(payload: &[u8]) -> Option<(u32, Link)> {
    const IFLA_LINK_NETNSID: u16 = 37;
    let body = payload.get(IFINFOMSG_BYTES..)?;
    let index_in = |kind| attribute(body, kind).and_then(|value| u32_at(value, 0));
    let kind =
        attribute(body, libc::IFLA_LINKINFO).and_then(|info| attribute(info, libc::IFLA_INFO_KIND));
    let link = Link {
        name: text(attribute(body, libc::IFLA_IFNAME)?),
        kind: kind.map(text).unwrap_or_default(),
        hardware: u16_at(payload, 2)?,
        flags: u32_at(payload, 8)?,
        master: index_in(libc::IFLA_MASTER),
        // An index of another namespace has no meaning here.
        below: index_in(libc::IFLA_LINK).filter(|_| attribute(body, IFLA_LINK_NETNSID).is_none()),
    };
    Some((u32_at(payload, 4)?, link))
}
