//! Gives addresses to an interface.

use std::ffi::CString;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use super::netlink::{NetlinkSocket, Request};

/// Of linux/if_addr.h: the address, and the same seen from the peer of a link.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Gives an address with the network of its link to the interface of this name, in the calling thread's network
/// namespace. It is no error if the interface has it already.
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
