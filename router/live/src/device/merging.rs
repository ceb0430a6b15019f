//! The receive offload that must be off at a router's port.
//!
//! With LRO, a network card merges frames of a flow and forgets their lengths, so nobody can split them again. The
//! kernel also switches LRO off on interfaces that forward. GRO stays as it is: a merged frame comes with the
//! information needed to split it, like a superframe.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::interface::interface_request;
use crate::sys;

/// `ETHTOOL_GFLAGS`, `ETHTOOL_SFLAGS` of linux/ethtool.h.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
/// `ETH_FLAG_LRO` of linux/ethtool.h.
const FLAG_LRO: u32 = 1 << 15;
pub(super) const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches LRO off at the interface called `name`, if it is on; returns whether it was.
pub(super) fn stop_lro(socket: &Socket, name: &str) -> io::Result<bool> {
    let flags = ethtool(socket, name, GET_FLAGS, 0)?;
    let lro = flags & FLAG_LRO != 0;
    if lro {
        ethtool(socket, name, SET_FLAGS, flags & !FLAG_LRO)?;
    }
    Ok(lro)
}

pub(super) fn ethtool(socket: &Socket, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the request names the interface with a zero at the end, and its pointer is to the
    // structure that these commands read and write, which lives until the call is over.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) })?;
    Ok(value.data)
}
