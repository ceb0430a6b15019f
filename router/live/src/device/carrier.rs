//! The carrier of an interface.

use std::io;

use socket2::{Domain, Socket, Type};

use super::merging::ethtool;

/// Whether the interface called `name` has a carrier. `IFF_RUNNING` follows the carrier up to a second later.
pub fn has_carrier(name: &str) -> io::Result<bool> {
    /// `ETHTOOL_GLINK` of linux/ethtool.h.
    const GET_LINK: u32 = 10;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    match ethtool(&socket, name, GET_LINK, 0) {
        Ok(link) => Ok(link != 0),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(true), // it has no link
        Err(error) => Err(error),
    }
}
