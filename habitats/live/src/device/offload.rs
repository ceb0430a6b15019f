//! Receive offloads that merge frames, which a router's port must not have.
//!
//! With GRO or LRO the kernel hands up several frames of a flow as one, longer than the MTU and than
//! a slot of the receive ring: the router would have to cut it, and lose it. Switching them off
//! costs the kernel's own receive path some speed, nothing else; `ethtool -K DEVICE gro on`
//! switches them on again once the router is gone.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::af_packet::interface_request;
use crate::sys;

/// `ETHTOOL_GGRO`, `ETHTOOL_SGRO`, `ETHTOOL_GFLAGS`, `ETHTOOL_SFLAGS` of linux/ethtool.h.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
/// `ETH_FLAG_LRO` of linux/ethtool.h.
const FLAG_LRO: u32 = 1 << 15;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches merging off at the interface called `name`, where it is on; whether it was.
pub(super) fn stop_merging(socket: &Socket, name: &str) -> io::Result<bool> {
    let gro = ethtool(socket, name, GET_GRO, 0)? != 0;
    if gro {
        ethtool(socket, name, SET_GRO, 0)?;
    }
    let flags = ethtool(socket, name, GET_FLAGS, 0)?;
    let lro = flags & FLAG_LRO != 0;
    if lro {
        ethtool(socket, name, SET_FLAGS, flags & !FLAG_LRO)?;
    }
    Ok(gro || lro)
}

fn ethtool(socket: &Socket, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the request names the interface with a zero at the end, and its pointer is to the
    // structure that these commands read and write, which lives until the call is over.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) })?;
    Ok(value.data)
}
