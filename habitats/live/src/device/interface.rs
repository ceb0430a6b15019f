//! The state of interfaces.

use std::io;

use socket2::{Domain, Socket, Type};

use super::af_packet::ask_interface;

/// Whether the interface called `name` is up, as an administrator has set it.
pub fn is_up(name: &str) -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let request = ask_interface(&socket, name, libc::SIOCGIFFLAGS as libc::Ioctl)?;
    // SAFETY: the kernel has written the flags into the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}
