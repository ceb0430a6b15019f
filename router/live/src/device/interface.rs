//! Properties and state of interfaces, by name.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

use weir_path::ip::tables::Mac;

use super::Layer;
use crate::sys;

/// Whether the interface called `name` is administratively up.
pub fn is_up(name: &str) -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let request = ask_interface(&socket, name, libc::SIOCGIFFLAGS as libc::Ioctl)?;
    // SAFETY: the kernel has written the flags into the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// The longest layer-3 packet that the interface called `name` carries, in bytes, in the calling thread's network
/// namespace. Needs no privilege.
pub fn mtu(name: &str) -> io::Result<usize> {
    let any_socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    interface_mtu(&any_socket, name)
}

/// Whether an error means that the interface is down or no longer exists.
pub fn device_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)
    )
}

pub(super) fn interface_index(socket: &Socket, name: &str) -> io::Result<u32> {
    let request = ask_interface(socket, name, libc::SIOCGIFINDEX as libc::Ioctl)?;
    // SAFETY: the kernel has written the index into the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

/// The kernel's index of the interface called `name`, in the calling thread's network namespace.
pub fn index(name: &str) -> io::Result<u32> {
    let any_socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    interface_index(&any_socket, name)
}

/// The MAC address of the interface called `name`, in the calling thread's network namespace.
pub fn mac(name: &str) -> io::Result<Mac> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let request = ask_interface(&socket, name, libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: the kernel has written a hardware address into the union.
    let bytes = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    let mut mac = Mac::default();
    for (to, from) in mac.iter_mut().zip(bytes) {
        *to = from as u8;
    }
    Ok(mac)
}

/// The layer of the interface called `name`; `None` if weir cannot use it.
pub fn layer(name: &str) -> io::Result<Option<Layer>> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let request = ask_interface(&socket, name, libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: the kernel has written a hardware address into the union.
    let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(Layer::of(family))
}

pub(super) fn interface_mtu(socket: &Socket, name: &str) -> io::Result<usize> {
    let request = ask_interface(socket, name, libc::SIOCGIFMTU as libc::Ioctl)?;
    // SAFETY: the kernel has written the MTU into the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as usize)
}

/// Queries a property of the interface called `name`. (C libraries differ in the type of such a request's number.) This
/// uses the socket instead of sysfs, because sysfs may show another network namespace.
pub(super) fn ask_interface(
    socket: &Socket,
    name: &str,
    what: libc::Ioctl,
) -> io::Result<libc::ifreq> {
    let mut request = interface_request(name)?;
    // SAFETY: these requests read the name, which ends with a zero, and write the union.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), what, &mut request) })?;
    Ok(request)
}

/// A request about the interface called `name`, with an empty union.
pub(super) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is an empty name and an empty union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
