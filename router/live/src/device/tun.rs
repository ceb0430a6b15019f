//! TUN devices: an interface of the machine whose other end is this router (/dev/net/tun), for packets of the machine's
//! own processes.
//!
//! ```text
//!  process --> route of the kernel --> [queue, txqueuelen] --read--> | Ethernet header | packet | --> plane
//!  process <-- kernel <-------------------------------------write--- (header taken off) <------------ plane
//! ```
//!
//! The kernel passes IP packets, and each gets an Ethernet header for the plane ([`headerless`]). The kernel completes
//! checksums and segments before it passes a packet to a TUN, so packets are as on a wire.
//!
//! Packets that the kernel sends wait in the device's queue, which is bounded; the kernel drops and counts the excess
//! there (`ip -s link`). A packet for the kernel is either taken at once, or counted as refused: while the interface is
//! down, or when the kernel has no memory. A frame that is not IP is refused too.
//!
//! The device vanishes with this process ([`made`](super::made)); the machine's packets then follow its other routes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use weir_packet::FrameBytes;
use weir_path::link::offload::Offload;

use super::headerless::{self, HEADER_LEN};
use super::made::{self, MakeError};
use super::{Counters, Device, Direction, Layer, Received};
use crate::clock;

/// The longest packet that a new device carries, in bytes. An operator may change it (`ip link set NAME mtu N`).
const MTU: u32 = 1500;
/// Longest frame: an Ethernet header, and the longest packet of an interface.
const FRAME_BYTES_MAX: usize = HEADER_LEN + 65_535;

/// A TUN device, open as long as this value lives.
#[derive(Debug)]
pub struct Tun {
    file: File,
    /// Buffer for a received packet, behind its Ethernet header.
    frame: Box<[u8]>,
    counters: Counters,
}

impl Tun {
    /// Makes a device with this name in the network namespace of the calling thread, and switches it on.
    pub fn open(name: &str) -> Result<Self, MakeError> {
        let file = made::make(name, Layer::Packets)?;
        made::set_mtu(name, MTU)?;
        made::switch_on(name)?;
        Ok(Self {
            file,
            frame: vec![0; FRAME_BYTES_MAX].into_boxed_slice(),
            counters: Counters::default(),
        })
    }
}

impl Device for Tun {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < burst_max {
            let len = match self.file.read(&mut self.frame[HEADER_LEN..]) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let frame = &mut self.frame[..HEADER_LEN + len];
            let Some(header) = headerless::header(&frame[HEADER_LEN..]) else {
                self.counters.missed += 1;
                taken += 1;
                continue;
            };
            frame[..HEADER_LEN].copy_from_slice(&header);
            let received = Received {
                len: frame.len() as u32,
                bytes: FrameBytes::Lent(frame),
                arrived: clock::now(),
                vlan: None,
                direction: Direction::Host,
                offload: Offload::NONE,
            };
            taken += received.cost();
            take(received);
        }
        Ok(taken)
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        for (sent, frame) in frames.iter().enumerate() {
            let Some(packet) = headerless::packet(frame) else {
                self.counters.refused += 1;
                continue;
            };
            match self.file.write(packet) {
                Ok(_) => {} // a packet is taken whole
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                Err(error) if made::is_about_packet(&error) => self.counters.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(frames.len())
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}
