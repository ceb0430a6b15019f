//! Interfaces on top of others, through which frames of a port reach the kernel under another name.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use super::netlink::{NetlinkSocket, Request, attribute, text, u32_at};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    /// Whether it is administratively up.
    pub(super) up: bool,
    /// The longest layer-3 packet, in bytes.
    pub(super) mtu: u32,
    /// MAC address; empty if it has none.
    pub(super) mac: Vec<u8>,
    /// Whether it belongs to another interface, for instance a bridge.
    pub(super) enslaved: bool,
    /// The interface below a VLAN, macvlan or macvtap device.
    pub(super) above: Option<Above>,
}

/// The interface below a virtual one, and the rule that assigns frames to the virtual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Above {
    /// Index of the interface below.
    pub(super) below: u32,
    /// How frames are assigned to the upper interface.
    pub(super) kind: AboveKind,
}

/// How frames are assigned to an upper interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AboveKind {
    /// By their outermost tag.
    Vlan {
        /// `ETH_P_8021Q` or `ETH_P_8021AD`.
        protocol: u16,
        /// VLAN identifier.
        id: u16,
    },
    /// By their destination MAC address, which is the upper interface's.
    Macvlan,
    /// As `Macvlan`, but frames go to a program's file (a virtual machine), never to the IP stack.
    Macvtap,
}

/// Index of the interface called `name`, in the calling thread's network namespace.
pub(super) fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends with a zero, and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Announces at once that an interface without a carrier does not work. The kernel itself announces the loss of a carrier
/// up to a second later, to merge announcements.
pub fn set_dormant(name: &str) -> io::Result<()> {
    const IFLA_OPERSTATE: u16 = 16;
    const IF_OPER_DORMANT: u8 = 5;
    let mut header = [0; IFINFOMSG_BYTES];
    header[4..8].copy_from_slice(&index_of(name)?.to_ne_bytes());
    let request = Request::new(libc::RTM_SETLINK, 0, &header)
        .with(IFLA_OPERSTATE, &[IF_OPER_DORMANT])
        .acknowledged();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.ask(&request)
}

/// All interfaces, by index.
pub(super) type Links = BTreeMap<u32, Link>;

/// Reads the interfaces of the calling thread's network namespace.
pub(super) fn read() -> io::Result<Links> {
    /// Statistics of links are long and not needed here.
    const SKIP_STATISTICS: [u8; 4] = (1_u32 << 3).to_ne_bytes();
    const IFLA_EXT_MASK: u16 = 29;
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; IFINFOMSG_BYTES])
        .with(IFLA_EXT_MASK, &SKIP_STATISTICS);
    let mut links = Links::new();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        if message.kind == libc::RTM_NEWLINK {
            links.extend(read_link(message.payload));
        }
    })?;
    Ok(links)
}

/// Length of `struct ifinfomsg`.
pub(super) const IFINFOMSG_BYTES: usize = 16;

fn read_link(payload: &[u8]) -> Option<(u32, Link)> {
    const IFLA_LINK_NETNSID: u16 = 37;
    let index = u32_at(payload, 4)?;
    let body = payload.get(IFINFOMSG_BYTES..)?;
    let name = text(attribute(body, libc::IFLA_IFNAME)?);
    let mac = attribute(body, libc::IFLA_ADDRESS).unwrap_or_default();
    let mtu = attribute(body, libc::IFLA_MTU).and_then(|mtu| u32_at(mtu, 0));
    // The index of a lower interface in another namespace has no meaning here.
    let below = match attribute(body, IFLA_LINK_NETNSID) {
        None => attribute(body, libc::IFLA_LINK).and_then(|link| u32_at(link, 0)),
        Some(_) => None,
    };
    let kind = attribute(body, libc::IFLA_LINKINFO).and_then(read_kind);
    let above = below.zip(kind).map(|(below, kind)| Above { below, kind });
    let link = Link {
        name,
        up: u32_at(payload, 8)? & libc::IFF_UP as u32 != 0,
        mtu: mtu.unwrap_or_default(),
        mac: mac.to_vec(),
        enslaved: attribute(body, libc::IFLA_MASTER).is_some(),
        above,
    };
    Some((index, link))
}

fn read_kind(info: &[u8]) -> Option<AboveKind> {
    const IFLA_VLAN_ID: u16 = 1;
    const IFLA_VLAN_PROTOCOL: u16 = 5;
    match text(attribute(info, libc::IFLA_INFO_KIND)?).as_str() {
        "macvlan" => Some(AboveKind::Macvlan),
        "macvtap" => Some(AboveKind::Macvtap),
        "vlan" => {
            let data = attribute(info, libc::IFLA_INFO_DATA)?;
            let id = attribute(data, IFLA_VLAN_ID)?.first_chunk()?;
            let protocol = attribute(data, IFLA_VLAN_PROTOCOL)?.first_chunk()?;
            Some(AboveKind::Vlan {
                protocol: u16::from_be_bytes(*protocol),
                id: u16::from_ne_bytes(*id),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;

    fn link(index: u32, attributes: impl FnOnce(Request) -> Request) -> Option<(u32, Link)> {
        let mut header = [0; IFINFOMSG_BYTES];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let request = attributes(Request::new(libc::RTM_NEWLINK, 0, &header));
        let bytes = request.numbered(1);
        read_link(messages(&bytes).next().unwrap().payload)
    }

    #[test]
    fn a_vlan_is_known_by_what_it_stands_on_and_by_its_tag() {
        let vlan = |r: Request| {
            r.with_text(libc::IFLA_IFNAME, "eth0.5")
                .with(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1])
                .with(libc::IFLA_LINK, &7_u32.to_ne_bytes())
                .nested(libc::IFLA_LINKINFO, |i| {
                    i.with_text(libc::IFLA_INFO_KIND, "vlan")
                        .nested(libc::IFLA_INFO_DATA, |d| {
                            d.with(1, &5_u16.to_ne_bytes()).with(5, &[0x81, 0x00])
                        })
                })
        };
        let (index, read) = link(9, vlan).unwrap();
        let kind = AboveKind::Vlan {
            protocol: 0x8100,
            id: 5,
        };
        assert_eq!((index, read.name.as_str()), (9, "eth0.5"));
        assert_eq!(read.above, Some(Above { below: 7, kind }));
        // The interface below it is in another namespace.
        let (_, moved) = link(9, |r| vlan(r).with(37, &[0; 4])).unwrap();
        assert_eq!(moved.above, None);
        let (_, plain) = link(7, |r| r.with_text(libc::IFLA_IFNAME, "eth0")).unwrap();
        assert_eq!(plain.above, None);
    }
}
