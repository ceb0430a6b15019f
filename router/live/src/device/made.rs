//! Interfaces that this process creates (/dev/net/tun): the common part of [`tap`](super::tap) and [`tun`](super::tun).
//!
//! They are not persistent: an interface vanishes with its file, together with its addresses and its routes, and thus
//! with the process, however that ends, unless the service manager keeps the file ([`kept_files`](crate::kept_files)).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use weir_path::ip::tables::Mac;

use super::Layer;

/// Longest name of an interface, in bytes.
pub const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// Why an interface could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The name is not a valid interface name.
    #[error(
        "`{0}` cannot be the name of an interface: 1 to {NAME_LEN_MAX} bytes, without spaces, `/`, `:` and `%`"
    )]
    Name(String),
    /// The name is in use.
    #[error("interface `{0}` already exists; remove it, or choose another name")]
    Taken(String),
    /// The kernel has no such devices, or this process may not use them.
    #[error("cannot open /dev/net/tun: {0}; load the module `tun`, and run as root")]
    NoTun(io::Error),
    /// The kernel refused a step.
    #[error("cannot {1} of the interface `{0}`: {2}")]
    Refused(String, &'static str, io::Error),
}

/// Makes an interface in the network namespace of the calling thread. Reads and writes of its file do not block.
pub(super) fn make(name: &str, layer: Layer) -> Result<File, MakeError> {
    check_name(name)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(MakeError::NoTun)?;
    let layer = match layer {
        Layer::Frames => libc::IFF_TAP,
        Layer::Packets => libc::IFF_TUN,
    };
    let flags = layer | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    change(file.as_raw_fd(), libc::TUNSETIFF, &mut request).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EINVAL | libc::EEXIST) => MakeError::Taken(name.to_owned()),
            _ => MakeError::Refused(name.to_owned(), "create the device", error),
        }
    })?;
    Ok(file)
}

/// The name of the interface that belongs to this file.
pub(super) fn name(file: &File) -> io::Result<String> {
    let mut request = request("");
    change(file.as_raw_fd(), libc::TUNGETIFF, &mut request)?;
    let name = request.ifr_name.iter().take_while(|c| **c != 0);
    Ok(String::from_utf8_lossy(&name.map(|c| *c as u8).collect::<Vec<_>>()).into_owned())
}

/// Sets the MAC address.
pub(super) fn set_mac(name: &str, mac: Mac) -> Result<(), MakeError> {
    let mut request = request(name);
    let mut address = libc::sockaddr {
        sa_family: libc::ARPHRD_ETHER,
        sa_data: [0; 14],
    };
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    let done = set(libc::SIOCSIFHWADDR as libc::Ioctl, &mut request);
    done.map_err(refused(name, "set the MAC address"))
}

/// Sets the MTU: the longest layer-3 packet, in bytes.
pub(super) fn set_mtu(name: &str, mtu: u32) -> Result<(), MakeError> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = libc::c_int::try_from(mtu).unwrap_or(libc::c_int::MAX);
    let done = set(libc::SIOCSIFMTU as libc::Ioctl, &mut request);
    done.map_err(refused(name, "set the MTU"))
}

/// Sets whether the interface that belongs to this file has a carrier.
pub(super) fn set_carrier(name: &str, file: &File, carrier: bool) -> Result<(), MakeError> {
    let carrier = libc::c_int::from(carrier);
    // SAFETY: TUNSETCARRIER reads one int.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETCARRIER, &raw const carrier) };
    crate::sys::check(done).map_err(refused(name, "set the carrier"))
}

/// Switches an interface on.
pub(super) fn switch_on(name: &str) -> Result<(), MakeError> {
    let mut request = request(name);
    let done = set(libc::SIOCGIFFLAGS as libc::Ioctl, &mut request).and_then(|()| {
        // SAFETY: SIOCGIFFLAGS has just written this member, and any bytes are a value of it.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        set(libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
    });
    done.map_err(refused(name, "bring up the link"))
}

/// Whether a write error concerns only this packet, or is temporary: the interface is down, the kernel has no memory,
/// or the packet has no header.
pub(super) fn is_about_packet(error: &io::Error) -> bool {
    let passing = [libc::EIO, libc::ENOBUFS, libc::ENOMEM, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}

/// Whether an interface can have this name.
pub fn check_name(name: &str) -> Result<(), MakeError> {
    let bad = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '%' | '\0');
    let wrong = name.is_empty() || name.len() > NAME_LEN_MAX || matches!(name, "." | "..");
    if wrong || name.contains(bad) {
        Err(MakeError::Name(name.to_owned()))
    } else {
        Ok(())
    }
}

fn refused<'a>(name: &'a str, what: &'static str) -> impl FnOnce(io::Error) -> MakeError + 'a {
    move |error| MakeError::Refused(name.to_owned(), what, error)
}

/// A request about the interface of this name, which must be short enough.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: integers, and a union of integers and pointers that the kernel reads only as what the request names.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = &mut request.ifr_name[..NAME_LEN_MAX];
    for (to, from) in room.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Requests about interfaces work on any socket.
fn set(what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    change(socket.as_raw_fd(), what, request)
}

fn change(fd: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: every request of this file reads and writes one ifreq, which outlives the call.
    crate::sys::check(unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for good in ["edge-1.wan", "a", "123456789012345", "wän"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "1234567890123456",
            "tap%d",
            "a/b",
            "a b",
            "a:b",
        ] {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.contains("1 to 15 bytes"), "{error}");
        }
    }
}
