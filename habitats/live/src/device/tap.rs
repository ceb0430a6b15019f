//! TAP devices: an interface of the machine whose link is this process (/dev/net/tun).
//!
//! A control element has one for each port of its forwarding elements that its own kernel shall act for: the kernel, and
//! every program on the machine, uses `edge-1.wan` as if the remote port were built in. Frames that the kernel sends
//! are read here; frames that arrived at the remote port are written here.
//!
//! The device is not persistent: it vanishes with the file, and thus with the process, however that ends.
//!
//! Frames that the kernel sends wait in the device's queue, which is bounded (`txqueuelen`), and are dropped and counted
//! there by the kernel (`ip -s link`). A frame for the kernel is taken at once or dropped and counted here. The kernel
//! leaves no checksum and no segmentation to a TAP, so frames are as on a wire.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weir_path::ip::tables::Mac;

/// Longest name of an interface, in bytes.
pub const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// A TAP device, open as long as this value lives.
#[derive(Debug)]
pub struct Tap {
    file: AsyncFd<File>,
    name: String,
    refused: AtomicU64,
}

/// Why a TAP could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The name is not one of an interface.
    #[error(
        "`{0}` cannot be the name of an interface: 1 to {NAME_LEN_MAX} bytes, without spaces, `/`, `:` and `%`"
    )]
    Name(String),
    /// The name is taken.
    #[error("there is an interface `{0}` already; remove it, or choose another name")]
    Taken(String),
    /// The kernel has no TAP devices, or this process may not use them.
    #[error("cannot open /dev/net/tun: {0}; load the module `tun`, and run as root")]
    NoTun(io::Error),
    /// The kernel refused a step.
    #[error("cannot {1} of the interface `{0}`: {2}")]
    Refused(String, &'static str, io::Error),
}

impl Tap {
    /// Makes a device with this name, MAC address and MTU (bytes of layer 3), and switches it on. It must be
    /// called in a tokio runtime, on a thread in the network namespace of the device.
    pub fn open(name: &str, mac: Mac, mtu: u32) -> Result<Self, TapError> {
        check_name(name)?;
        let refused = |what| move |error| TapError::Refused(name.to_owned(), what, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(TapError::NoTun)?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        change(file.as_raw_fd(), libc::TUNSETIFF, &mut request).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EBUSY | libc::EINVAL | libc::EEXIST) => TapError::Taken(name.to_owned()),
                _ => TapError::Refused(name.to_owned(), "make the device", error),
            }
        })?;
        // SAFETY: the `File` owns its descriptor, which stays open until the `AsyncFd` is dropped.
        let file = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
        let file = file.map_err(|error| refused("wait for frames")(error.into()))?;
        let tap = Self {
            file,
            name: name.to_owned(),
            refused: AtomicU64::new(0),
        };
        tap.set_mac(mac)?;
        tap.set_mtu(mtu)?;
        tap.switch_on().map_err(refused("switch on the link"))?;
        Ok(tap)
    }

    /// The name of the interface when it was made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames that the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Sets the MAC address.
    pub fn set_mac(&self, mac: Mac) -> Result<(), TapError> {
        let mut request = request(&self.name);
        let mut address = libc::sockaddr {
            sa_family: libc::ARPHRD_ETHER,
            sa_data: [0; 14],
        };
        for (to, from) in address.sa_data.iter_mut().zip(mac) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = address;
        self.set(libc::SIOCSIFHWADDR, &mut request, "set the MAC address")
    }

    /// Sets the MTU: the longest layer-3 packet, in bytes.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), TapError> {
        let mut request = request(&self.name);
        request.ifr_ifru.ifru_mtu = libc::c_int::try_from(mtu).unwrap_or(libc::c_int::MAX);
        self.set(libc::SIOCSIFMTU, &mut request, "set the MTU")
    }

    /// The next frame that the kernel sends, written to the front of `buffer`; returns its length. A frame that is longer
    /// than the buffer is cut.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.file.readable().await?;
            if let Ok(read) = ready.try_io(|file| file.get_ref().read(buffer)) {
                return read;
            }
        }
    }

    /// Hands a frame to the kernel, as if it had arrived. Does not block. Returns whether the kernel took it: it does not
    /// while the interface is down, or when it has no memory.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        let written = self.file.get_ref().write(frame);
        let error = match written {
            Ok(len) if len == frame.len() => return Ok(true),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) => error,
        };
        let passing = [
            libc::EAGAIN,
            libc::EIO,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::EINVAL, // shorter than an Ethernet header
        ];
        match error.raw_os_error() {
            Some(code) if passing.contains(&code) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            _ => Err(error),
        }
    }

    fn switch_on(&self) -> io::Result<()> {
        let socket = socket()?;
        let mut request = request(&self.name);
        change(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has just written this member, and any bytes are a value of it.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        change(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request)
    }

    fn set(
        &self,
        what: libc::Ioctl,
        request: &mut libc::ifreq,
        words: &'static str,
    ) -> Result<(), TapError> {
        let refused = |error| TapError::Refused(self.name.clone(), words, error);
        let socket = socket().map_err(refused)?;
        change(socket.as_raw_fd(), what, request).map_err(refused)
    }
}

/// Whether an interface can have this name.
pub fn check_name(name: &str) -> Result<(), TapError> {
    let bad = |c: char| c.is_whitespace() || matches!(c, '/' | ':' | '%' | '\0');
    let wrong = name.is_empty() || name.len() > NAME_LEN_MAX || matches!(name, "." | "..");
    match wrong || name.contains(bad) {
        true => Err(TapError::Name(name.to_owned())),
        false => Ok(()),
    }
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

/// Any socket: the way to ask about interfaces.
fn socket() -> io::Result<OwnedFd> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    Ok(socket.into())
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
