//! Adds addresses to an interface.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use super::netlink::{NetlinkSocket, Request};

/// Of linux/if_addr.h: the prefix address (on a point-to-point link the peer's), and the local address.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Adds an address, with the network of its link, to the interface called `interface`, in the calling thread's network
/// namespace. An address that the interface has already is not an error.
pub fn add(interface: &str, address: IpNet) -> io::Result<()> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends with a zero, and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let (family, bytes) = match address.addr() {
        IpAddr::V4(a) => (libc::AF_INET, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6, a.octets().to_vec()),
    };
    // struct ifaddrmsg: family, prefix length, flags, scope (universe), index
    let mut header = vec![family as u8, address.prefix_len(), 0, 0];
    header.extend(index.to_ne_bytes());
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let request = Request::new(libc::RTM_NEWADDR, flags, &header)
        .with(IFA_LOCAL, &bytes)
        .with(IFA_ADDRESS, &bytes)
        .acknowledged();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.ask(&request)
}
