//! TAP devices: an interface of the machine whose link is this process (/dev/net/tun).
//!
//! A control element has a TAP for each port of its forwarding elements for which its own kernel acts: the kernel, and
//! every program on the machine, uses `edge-1.wan` as if the remote port were built in. The control element reads the
//! frames that the kernel sends, and writes the frames that arrived at the remote port.
//!
//! The device vanishes with this process, unless a service manager keeps its file ([`made`](super::made)).
//!
//! Frames that the kernel sends wait in the device's queue, which is bounded (`txqueuelen`); the kernel drops and
//! counts the excess there (`ip -s link`). A frame for the kernel is either taken at once, or dropped and counted here.
//! The kernel completes checksums and segments before it passes a frame to a TAP, so frames are as on a wire.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weir_path::ip::tables::Mac;

use super::Layer;
use super::made::{self, MakeError};

/// Maximum frames of an earlier process that are discarded: more than a device's queue holds (`txqueuelen`).
const WAITING_MAX: u32 = 10_000;

/// A TAP device, open as long as this value lives.
#[derive(Debug)]
pub struct Tap {
    file: AsyncFd<File>,
    name: String,
    refused: AtomicU64,
}

impl Tap {
    /// Makes a device with this name, MAC address and MTU (bytes of layer 3), and switches it on; or continues with the
    /// device of a file that an earlier process has made, without the frames that waited meanwhile. It must be called in a
    /// tokio runtime, on a thread in the network namespace of the device.
    pub fn open(name: &str, mac: Mac, mtu: u32, kept: Option<File>) -> Result<Self, MakeError> {
        let kept = kept.filter(|file| made::name(file).is_ok_and(|found| found == name));
        let file = match kept {
            Some(mut file) => {
                let mut frame = [0; 1]; // reading a part of a frame discards the rest
                let _ = (0..WAITING_MAX).try_for_each(|_| file.read(&mut frame).map(drop));
                file
            }
            None => made::make(name, Layer::Frames)?,
        };
        // SAFETY: the `File` owns its descriptor, which stays open until the `AsyncFd` is dropped.
        let file = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
        let file = file.map_err(|error| {
            MakeError::Refused(name.to_owned(), "wait for frames", error.into())
        })?;
        made::set_mac(name, mac)?;
        made::set_mtu(name, mtu)?;
        made::switch_on(name)?;
        Ok(Self {
            file,
            name: name.to_owned(),
            refused: AtomicU64::new(0),
        })
    }

    /// The file of the device.
    pub fn file(&self) -> &File {
        self.file.get_ref()
    }

    /// The name of the interface when it was created.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames that the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Sets the MAC address.
    pub fn set_mac(&self, mac: Mac) -> Result<(), MakeError> {
        made::set_mac(&self.name, mac)
    }

    /// Sets the MTU: the longest layer-3 packet, in bytes.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), MakeError> {
        made::set_mtu(&self.name, mtu)
    }

    /// Sets whether the link has a carrier.
    pub fn set_carrier(&self, carrier: bool) -> Result<(), MakeError> {
        made::set_carrier(&self.name, self.file.get_ref(), carrier)
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

    /// Passes a frame to the kernel, as if it had arrived. Does not block. Returns whether the kernel took it: the
    /// kernel refuses it while the interface is down, or without memory.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        let written = self.file.get_ref().write(frame);
        let error = match written {
            Ok(len) if len == frame.len() => return Ok(true),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::WouldBlock || made::is_about_packet(&error) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Ok(false)
        } else {
            Err(error)
        }
    }
}
