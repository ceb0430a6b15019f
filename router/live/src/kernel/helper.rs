//! The helper devices of mode "queue": pairs of veth through which the kernel lends frames of an interface.
//!
//! ```text
//!  out: kernel --> egress hook of wan0: fwd --> near ══ far --> packet socket, plane, queue --> packet socket at wan0
//!  in:  wire --> ingress hook of wan0: fwd --> near ══ far --> packet socket, plane, queue --+
//!       kernel <-- as received at wan0 <-- mirred at the ingress of near ══ far <------------+
//! ```
//!
//! Frames that weir sends carry its mark, and pass the hooks. Only the action `mirred` of traffic control passes a frame
//! on as received at another interface; nf_tables cannot. For `in`, the near end has the MAC
//! address of the interface, because the kernel takes frames of others for frames to another host.
//!
//! The kernel sends frames of its own into its devices (IPv6's multicast listeners). At the near end they have the address
//! of that end, and [`Lent`](crate::lent::Lent) forgets them; at the far end a rule drops unmarked frames.
//!
//! A pair belongs to its device and is removed with it. A process that is killed leaves its pairs behind without
//! effect: the rules vanish with the process, and the next router at the interface makes the pairs again.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use weir_lfb::port::Direction;
use weir_path::ip::tables::Mac;

use super::links::{self, IFINFOMSG_BYTES, Links};
use super::netlink::{NetlinkSocket, Request};
use crate::mutex::lock;

/// Longest packet of a pair, which carries superframes.
const MTU: u32 = 65_535;

/// The pairs of this process, by interface and direction.
static PAIRS: Mutex<BTreeMap<(u32, Direction), Weak<Helper>>> = Mutex::new(BTreeMap::new());

/// A pair of devices; dropping it removes both.
#[derive(Debug)]
pub(crate) struct Helper {
    socket: NetlinkSocket,
    near: String,
    far: String,
}

impl Helper {
    /// The pair for a direction of the interface with this index; `mac` is the address of the near end. A port that takes
    /// the place of another during a change shares the pair with it.
    pub(crate) fn of(interface: u32, mac: Mac, direction: Direction) -> io::Result<Arc<Self>> {
        let mut pairs = lock(&PAIRS);
        let pair = pairs.entry((interface, direction)).or_default();
        if let Some(shared) = pair.upgrade() {
            return Ok(shared);
        }
        let made = Arc::new(Self::make(interface, mac, direction)?);
        *pair = Arc::downgrade(&made);
        Ok(made)
    }

    /// Makes a pair and switches it on. A pair that another process has left behind is replaced.
    fn make(interface: u32, mac: Mac, direction: Direction) -> io::Result<Self> {
        let mut helper = Self {
            socket: NetlinkSocket::open(libc::NETLINK_ROUTE)?,
            near: near(interface, direction),
            far: far(interface, direction),
        };
        helper.remove()?;
        let create = new_pair(&helper.near, &helper.far, mac);
        helper.socket.ask(&create.acknowledged())?;
        for name in [&helper.near, &helper.far] {
            match helper.socket.ask(&without_address(name).acknowledged()) {
                Err(error) if error.raw_os_error() != Some(libc::EAFNOSUPPORT) => {
                    return Err(error);
                }
                _ => {} // a kernel without IPv6 gives no addresses
            }
            helper.socket.ask(&switch_on(name).acknowledged())?;
        }
        if direction == Direction::In {
            let [near, _] =
                ends(interface, direction, &links::read()?).ok_or(io::ErrorKind::NotFound)?;
            helper.socket.ask(&new_clsact(near).acknowledged())?;
            helper
                .socket
                .ask(&redirection(near, interface).acknowledged())?;
        }
        Ok(helper)
    }

    /// The end at which weir reads the frames, and through which it returns received ones.
    pub(crate) fn far(&self) -> &str {
        &self.far
    }

    fn remove(&mut self) -> io::Result<()> {
        let delete = Request::new(libc::RTM_DELLINK, 0, &[0; IFINFOMSG_BYTES])
            .with_text(libc::IFLA_IFNAME, &self.near);
        match self.socket.ask(&delete.acknowledged()) {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(device = self.near, %error, "cannot remove a helper device");
        }
    }
}

/// Name of the end into which the kernel lends frames.
pub(super) fn near(interface: u32, direction: Direction) -> String {
    match direction {
        Direction::Out => format!("weir-o{interface}"),
        Direction::In => format!("weir-i{interface}"),
    }
}

fn far(interface: u32, direction: Direction) -> String {
    near(interface, direction) + "r"
}

/// The indices of both ends, if they exist.
pub(super) fn ends(interface: u32, direction: Direction, links: &Links) -> Option<[u32; 2]> {
    let index = |name: String| {
        let mut links = links.iter();
        links.find(|(_, link)| link.name == name).map(|(n, _)| *n)
    };
    Some([
        index(near(interface, direction))?,
        index(far(interface, direction))?,
    ])
}

fn new_pair(near: &str, far: &str, mac: Mac) -> Request {
    const VETH_INFO_PEER: u16 = 1;
    const IFLA_TXQLEN: u16 = 13;
    let mtu = MTU.to_ne_bytes();
    let peer = Request::new(0, 0, &[0; IFINFOMSG_BYTES])
        .with_text(libc::IFLA_IFNAME, far)
        .with(libc::IFLA_MTU, &mtu);
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    Request::new(libc::RTM_NEWLINK, flags, &[0; IFINFOMSG_BYTES])
        .with_text(libc::IFLA_IFNAME, near)
        .with(libc::IFLA_MTU, &mtu)
        .with(libc::IFLA_ADDRESS, &mac)
        .with(IFLA_TXQLEN, &0_u32.to_ne_bytes())
        .nested(libc::IFLA_LINKINFO, |info| {
            info.with_text(libc::IFLA_INFO_KIND, "veth")
                .nested(libc::IFLA_INFO_DATA, |data| {
                    data.with(VETH_INFO_PEER | libc::NLA_F_NESTED as u16, peer.body())
                })
        })
}

/// Lets IPv6 give the device no address. A sysctl would switch IPv6 off, but the service must not write sysctls.
fn without_address(name: &str) -> Request {
    const ADDRESS_MODE: u16 = 8;
    const NONE: u8 = 1;
    Request::new(libc::RTM_NEWLINK, 0, &[0; IFINFOMSG_BYTES])
        .with_text(libc::IFLA_IFNAME, name)
        .nested(libc::IFLA_AF_SPEC, |families| {
            families.nested(libc::AF_INET6 as u16, |own| own.with(ADDRESS_MODE, &[NONE]))
        })
}

/// Nobody asks for the neighbours of a helper.
fn switch_on(name: &str) -> Request {
    let flags = (libc::IFF_UP | libc::IFF_NOARP) as u32;
    let mut header = [0; IFINFOMSG_BYTES];
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    Request::new(libc::RTM_NEWLINK, 0, &header).with_text(libc::IFLA_IFNAME, name)
}

pub(super) const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// `TC_H_CLSACT` of linux/pkt_sched.h.
const CLSACT: u32 = 0xffff_fff1;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)` of linux/pkt_sched.h; it also selects the qdisc `ingress`.
pub(super) const INGRESS: u32 = 0xffff_fff2;

fn tc(kind: u16, device: u32, handle: u32, parent: u32, info: u32) -> Request {
    let words = [0, device, handle, parent, info];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Request::new(kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &header)
}

fn new_clsact(device: u32) -> Request {
    tc(libc::RTM_NEWQDISC, device, 0xffff_0000, CLSACT, 0).with_text(TCA_KIND, "clsact")
}

/// A filter that matches everything received at `device`, and passes it on as received at `to`. The classifier is
/// `u32`, which every kernel with traffic control has.
fn redirection(device: u32, to: u32) -> Request {
    const TCA_U32_SEL: u16 = 5;
    const TCA_U32_ACT: u16 = 7;
    const TCA_ACT_KIND: u16 = 1;
    const TCA_ACT_OPTIONS: u16 = 2;
    const TCA_MIRRED_PARMS: u16 = 2;
    const PRIORITY: u32 = 1 << 16;
    /// `TC_ACT_STOLEN`, `TCA_INGRESS_REDIR`.
    const STOLEN: u32 = 4;
    const TO_INGRESS: u32 = 3;
    // `struct tc_u32_sel`: terminal, one key; the key has an empty mask.
    let mut selector = [0; 32];
    (selector[0], selector[2]) = (1, 1);
    // `struct tc_mirred`
    let parameters = [0, 0, STOLEN, 0, 0, TO_INGRESS, to];
    let parameters: Vec<u8> = parameters.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
    tc(
        libc::RTM_NEWTFILTER,
        device,
        0,
        INGRESS,
        PRIORITY | protocol,
    )
    .with_text(TCA_KIND, "u32")
    .nested(TCA_OPTIONS, |options| {
        options
            .with(TCA_U32_SEL, &selector)
            .nested(TCA_U32_ACT, |actions| {
                actions.nested(1, |action| {
                    action
                        .with_text(TCA_ACT_KIND, "mirred")
                        .nested(TCA_ACT_OPTIONS, |o| o.with(TCA_MIRRED_PARMS, &parameters))
                })
            })
    })
}
