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
//! Packets of an interface without Ethernet headers pass a pair as they are: a frame begins with the IP header. Received
//! packets go back with a header, which the kernel takes off at the near end.
//!
//! The kernel sends frames of its own into its devices (IPv6's multicast listeners). At the near end they have the address
//! of that end, and [`Lent`](crate::lent::Lent) forgets them; at the far end a rule drops unmarked frames.
//!
//! A pair belongs to its device and is removed with it. A process that is killed leaves its pairs behind without
//! effect: the rules vanish with the process, and the next router at the interface makes the pairs again.
//!
//! Frames that the rules lend into a pair that somebody has removed, switched off or changed would be lost. So
//! [`checked_links`] compares the pairs with the links after each change: it withdraws a broken pair from [`chains`], and
//! the device fails and is opened again, with a new pair.
//!
//! [`chains`]: super::lending::chains

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use weir_lfb::port::Direction;
use weir_path::ip::tables::Mac;

use super::lacking::lacking;
use super::links::{self, IFINFOMSG_BYTES, Link, Links};
use super::netlink::{NetlinkSocket, Request};
use super::traffic_control::{INGRESS, filters, new_clsact, redirection};
use crate::device::Layer;
use crate::mutex::lock;

/// Longest packet of a pair, which carries superframes.
const MTU: u32 = 65_535;

/// The pairs of this process, by interface and direction.
static PAIRS: Mutex<BTreeMap<(u32, Direction), Weak<Helper>>> = Mutex::new(BTreeMap::new());

/// The interface whose frames a pair carries, at the time when the pair was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Index of the interface.
    pub(crate) index: u32,
    /// The longest layer-3 packet of the interface.
    pub(crate) mtu: u32,
    /// The direction of the frames.
    pub(crate) direction: Direction,
    /// The address of the near end: for received frames, that of the interface.
    pub(crate) mac: Mac,
    /// Whether the interface has Ethernet headers.
    pub(crate) layer: Layer,
}

/// An end of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) index: u32,
    pub(super) name: String,
}

/// A pair of devices; dropping it removes both.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(super) served: Served,
    /// The end into which the kernel lends frames.
    pub(super) near: End,
    /// The end at which weir reads the frames, and through which it returns received ones.
    pub(super) far: End,
    is_broken: AtomicBool,
}

impl Helper {
    /// The pair for a direction of an interface. A port that takes the place of another during a change shares the pair
    /// with it.
    pub(crate) fn of(served: Served) -> io::Result<Arc<Self>> {
        let mut pairs = lock(&PAIRS);
        pairs.retain(|_, pair| pair.strong_count() > 0);
        let pair = pairs.entry((served.index, served.direction)).or_default();
        let shared = pair.upgrade();
        if let Some(shared) = shared.filter(|pair| pair.served == served && !pair.is_broken()) {
            return Ok(shared);
        }
        let made = Arc::new(Self::make(served)?);
        *pair = Arc::downgrade(&made);
        Ok(made)
    }

    /// The pair into which the kernel may lend frames; `None` without an intact pair.
    pub(super) fn lending(interface: u32, direction: Direction) -> Option<Arc<Self>> {
        let pair = lock(&PAIRS).get(&(interface, direction))?.upgrade()?;
        (!pair.is_broken()).then_some(pair)
    }

    /// Makes a pair and switches it on. A pair that another process has left behind is replaced.
    fn make(served: Served) -> io::Result<Self> {
        let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        let Served {
            index, direction, ..
        } = served;
        let names = [near(index, direction), far(index, direction)];
        for name in &names {
            let unnumbered = Request::new(libc::RTM_DELLINK, 0, &[0; IFINFOMSG_BYTES]);
            let left_behind = unnumbered.with_text(libc::IFLA_IFNAME, name);
            remove(&mut socket, left_behind)?;
        }
        let [near, far] = &names;
        ask(
            &mut socket,
            "pair of devices",
            new_pair(near, far, served.mac),
        )?;
        for name in &names {
            match socket.ask(&without_address(name).acknowledged()) {
                Err(error) if error.raw_os_error() != Some(libc::EAFNOSUPPORT) => {
                    return Err(error);
                }
                _ => {} // a kernel without IPv6 gives no addresses
            }
            socket.ask(&switch_on(name).acknowledged())?;
        }
        let links = links::read()?;
        let end = |name: String| {
            let index = links.iter().find(|(_, link)| link.name == name)?.0;
            Some(End {
                index: *index,
                name,
            })
        };
        let [Some(near), Some(far)] = names.map(end) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let helper = Self {
            served,
            near,
            far,
            is_broken: AtomicBool::new(false),
        };
        if direction == Direction::In {
            let near = helper.near.index;
            ask(&mut socket, "qdisc", new_clsact(near))?;
            ask(&mut socket, "filter", redirection(near, index))?;
        }
        Ok(helper)
    }

    /// The name of the end at which weir reads the frames.
    pub(crate) fn far(&self) -> &str {
        &self.far.name
    }

    /// Whether somebody has removed, switched off or changed the pair or its interface.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// The first thing that is not as it was when the pair was made.
    fn change(&self, links: &Links) -> Option<String> {
        let Served {
            index,
            mtu,
            direction,
            mac,
            layer,
        } = self.served;
        let Some(interface) = links.get(&index) else {
            return Some("the interface was removed".to_owned());
        };
        let name = &interface.name;
        if !interface.up {
            return Some(format!("{name} was switched off"));
        }
        if interface.mtu != mtu {
            return Some(format!("the MTU of {name} has changed"));
        }
        if (direction, layer) == (Direction::In, Layer::Frames) && interface.mac != mac {
            return Some(format!("the address of {name} has changed"));
        }
        for end in [&self.near, &self.far] {
            // A device passes superframes regardless of its MTU.
            let carries = |link: &&Link| link.up && link.mtu >= mtu && !link.enslaved;
            let link = links.get(&end.index).filter(|link| link.name == end.name);
            if link.filter(carries).is_none() {
                return Some(format!("{} was removed, switched off or changed", end.name));
            }
        }
        let near = links.get(&self.near.index);
        if near.is_some_and(|link| link.mac != mac) {
            return Some(format!("the address of {} has changed", self.near.name));
        }
        (direction == Direction::In && !self.returns())
            .then(|| format!("the filter at {} was removed", self.near.name))
    }

    /// Whether the near end passes frames on; so it counts if that cannot be read.
    fn returns(&self) -> bool {
        let filters = NetlinkSocket::open(libc::NETLINK_ROUTE)
            .and_then(|mut socket| filters(&mut socket, self.near.index, INGRESS));
        filters.map_or(true, |filters| {
            filters.values().any(|filter| filter.redirects)
        })
    }
}

/// Reads the links, and breaks the pairs that are not as they were made. Their devices then fail.
pub(super) fn checked_links() -> io::Result<Links> {
    // First: a pair that is made meanwhile may not be among the links.
    let pairs: Vec<_> = lock(&PAIRS).values().filter_map(Weak::upgrade).collect();
    let links = links::read()?;
    for pair in pairs.iter().filter(|pair| !pair.is_broken()) {
        if let Some(change) = pair.change(&links) {
            tracing::warn!(
                device = pair.near.name,
                "{change}: frames bypass the queue until the helper devices are recreated"
            );
            pair.is_broken.store(true, Ordering::Relaxed);
        }
    }
    Ok(links)
}

impl Drop for Helper {
    /// Removes the pair, unless somebody has: then its index may belong to another device.
    fn drop(&mut self) {
        let remove_all = || {
            let links = links::read()?;
            let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
            let ends = [&self.near, &self.far].into_iter();
            let mut ends = ends.filter(|end| {
                links
                    .get(&end.index)
                    .is_some_and(|link| link.name == end.name)
            });
            ends.try_for_each(|end| {
                let mut header = [0; IFINFOMSG_BYTES];
                header[4..8].copy_from_slice(&end.index.to_ne_bytes());
                remove(&mut socket, Request::new(libc::RTM_DELLINK, 0, &header))
            })
        };
        if let Err(error) = remove_all() {
            let device = &self.near.name;
            tracing::warn!(device, %error, "cannot remove a helper device");
        }
    }
}

/// Makes something; the error names a part that the kernel lacks.
fn ask(socket: &mut NetlinkSocket, what: &str, request: Request) -> io::Result<()> {
    let asked = socket.ask(&request.acknowledged());
    asked.map_err(|error| lacking(what, error).map_or_else(|error| error, io::Error::other))
}

/// Removes a device with its other end, if it exists.
fn remove(socket: &mut NetlinkSocket, delete: Request) -> io::Result<()> {
    match socket.ask(&delete.acknowledged()) {
        Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Err(error),
        _ => Ok(()),
    }
}

/// Name of the end into which the kernel lends frames.
fn near(interface: u32, direction: Direction) -> String {
    match direction {
        Direction::Out => format!("weir-o{interface}"),
        Direction::In => format!("weir-i{interface}"),
    }
}

fn far(interface: u32, direction: Direction) -> String {
    near(interface, direction) + "r"
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

/// Switches a helper on, without ARP: nobody resolves its neighbours.
fn switch_on(name: &str) -> Request {
    let flags = (libc::IFF_UP | libc::IFF_NOARP) as u32;
    let mut header = [0; IFINFOMSG_BYTES];
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    Request::new(libc::RTM_NEWLINK, 0, &header).with_text(libc::IFLA_IFNAME, name)
}
