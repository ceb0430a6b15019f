//! The addresses of an interface.

use std::collections::BTreeSet;
use std::io;

use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::links;
use super::message::{self, KernelMessage};
use super::netlink::{NetlinkSocket, Request, family};

/// Of linux/if_addr.h: the prefix address (on a point-to-point link the peer's), and the local address.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Gives the interface called `interface`, in the calling thread's network namespace, exactly these addresses, each with
/// the network of its link; link-local addresses of IPv6, which the kernel makes, stay. The error is the first one,
/// with its address.
pub fn set(interface: &str, wanted: &BTreeSet<IpNet>) -> Result<(), (Option<IpNet>, io::Error)> {
    let index = links::index_of(interface).map_err(|error| (None, error))?;
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE).map_err(|error| (None, error))?;
    let mut failure = Ok(());
    let mut change = |socket: &mut NetlinkSocket, kind, flags, net: &IpNet| {
        let done = socket.ask(&request(kind, flags, net, index));
        if let (Ok(()), Err(error)) = (&failure, done) {
            failure = Err((Some(*net), error));
        }
    };
    let before = read(&mut socket, index).map_err(|error| (None, error))?;
    for net in before.difference(wanted) {
        change(&mut socket, libc::RTM_DELADDR, 0, net);
    }
    // The kernel deletes secondary addresses with their primary address.
    let rest = read(&mut socket, index).map_err(|error| (None, error))?;
    for net in wanted.difference(&rest) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        change(&mut socket, libc::RTM_NEWADDR, flags, net);
    }
    failure
}

/// The addresses of an interface, without link-local addresses of IPv6.
fn read(socket: &mut NetlinkSocket, index: u32) -> io::Result<BTreeSet<IpNet>> {
    let mut present = BTreeSet::new();
    let dump = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; 8]);
    socket.dump(&dump, |message| {
        if let Ok(Some(KernelMessage::Route(RouteNetlinkMessage::NewAddress(found), _))) =
            message::parse(&message)
        {
            present.extend(address(&found, index));
        }
    })?;
    Ok(present)
}

fn request(kind: u16, flags: libc::c_int, net: &IpNet, index: u32) -> Request {
    // struct ifaddrmsg: family, prefix length, flags, scope (universe), index
    let mut header = vec![family(net.addr()), net.prefix_len(), 0, 0];
    header.extend(index.to_ne_bytes());
    Request::new(kind, flags, &header)
        .with_address(IFA_LOCAL, net.addr())
        .with_address(IFA_ADDRESS, net.addr())
        .acknowledged()
}

/// The address of a message about this interface, unless it is link-local.
fn address(message: &AddressMessage, index: u32) -> Option<IpNet> {
    let header = &message.header;
    let is_link = header.scope == AddressScope::Link && header.family == AddressFamily::Inet6;
    if header.index != index || is_link {
        return None;
    }
    let of_kind = |local: bool| {
        message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                AddressAttribute::Local(a) if local => Some(*a),
                AddressAttribute::Address(a) if !local => Some(*a),
                _ => None,
            })
    };
    IpNet::new(of_kind(true).or_else(|| of_kind(false))?, header.prefix_len).ok()
}
