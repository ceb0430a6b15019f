//! Members of the kernel's bridges.

use std::collections::BTreeMap;
use std::io;

use super::netlink::{self, NetlinkSocket, Request, attribute, u32_at};

/// Length of `struct ifinfomsg`.
const HEADER_BYTES: usize = 16;

/// The names of the interfaces that have a master (a bridge, a bond), each with the master's kernel index.
pub fn masters() -> io::Result<BTreeMap<String, u32>> {
    let mut masters = BTreeMap::new();
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; HEADER_BYTES]);
    socket.dump(&request, |link| {
        let attributes = link.payload.get(HEADER_BYTES..).unwrap_or_default();
        let name = attribute(attributes, libc::IFLA_IFNAME).map(netlink::text);
        let master = attribute(attributes, libc::IFLA_MASTER).and_then(|bytes| u32_at(bytes, 0));
        masters.extend(name.zip(master));
    })?;
    Ok(masters)
}
