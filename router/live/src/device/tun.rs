//! TUN devices: an interface of the machine whose other end is this router (/dev/net/tun), for packets of the machine's
//! own processes.
//!
//! ```text
//!  process --> route of the kernel --> [queue, txqueuelen] --read--> | Ethernet header | packet | --> plane
//!  process <-- kernel <-------------------------------------write--- (header taken off) <------------ plane
//! ```
//!
//! The kernel passes IP packets. The plane handles frames, so each packet gets an Ethernet header with fixed addresses,
//! which nobody else sees except a capture. The kernel completes checksums and segments before it passes a packet to a
//! TUN, so packets are as on a wire.
//!
//! Packets that the kernel sends wait in the device's queue, which is bounded; the kernel drops and counts the excess
//! there (`ip -s link`). A packet for the kernel is either taken at once, or counted as refused: while the interface is
//! down, or when the kernel has no memory. A frame that is not IP is refused too.
//!
//! The device vanishes with this process ([`made`](super::made)); the machine's packets then follow its other routes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use weir_path::link::offload::Offload;

use super::made::{self, Layer, MakeError};
use super::{Counters, Device, Direction, Received};
use crate::clock;

/// The longest packet that a new device carries, in bytes. An operator may change it (`ip link set NAME mtu N`).
const MTU: u32 = 1500;
/// Length of an Ethernet header.
const HEADER_LEN: usize = 14;
/// The destination and the source of every frame that the plane gets: the router and the machine.
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
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
        let mut frame = vec![0; FRAME_BYTES_MAX].into_boxed_slice();
        frame[..ADDRESSES.len()].copy_from_slice(&ADDRESSES);
        Ok(Self {
            file,
            frame,
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
            let Some(ethertype) = ethertype(&frame[HEADER_LEN..]) else {
                self.counters.missed += 1;
                taken += 1;
                continue;
            };
            frame[ADDRESSES.len()..HEADER_LEN].copy_from_slice(&ethertype);
            let received = Received {
                len: frame.len() as u32,
                bytes: frame,
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
            let Some(packet) = ip(frame) else {
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

/// The Ethernet type of a packet, by its IP version; `None` if the packet is not IP.
fn ethertype(packet: &[u8]) -> Option<[u8; 2]> {
    match packet.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

/// The IP packet of a frame; `None` if the Ethernet type is not IP, or does not match the version of the packet.
fn ip(frame: &[u8]) -> Option<&[u8]> {
    let (header, packet) = frame.split_at_checked(HEADER_LEN)?;
    let named = &header[ADDRESSES.len()..];
    (ethertype(packet)? == named).then_some(packet)
}

/// Ethernet types.
const IPV4: [u8; 2] = (libc::ETH_P_IP as u16).to_be_bytes();
const IPV6: [u8; 2] = (libc::ETH_P_IPV6 as u16).to_be_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ip_leaves_and_without_its_header() {
        let frame = |kind: [u8; 2], packet: &[u8]| [&ADDRESSES[..], &kind, packet].concat();
        assert_eq!(ip(&frame(IPV4, &[0x45, 7])), Some(&[0x45, 7][..]));
        assert_eq!(ip(&frame(IPV6, &[0x60])), Some(&[0x60][..]));
        for refused in [
            frame(IPV6, &[0x45]),
            frame(IPV4, &[0x60]),
            frame([8, 6], &[0x45]),
            frame(IPV4, &[]),
            ADDRESSES.to_vec(),
        ] {
            assert_eq!(ip(&refused), None, "{refused:?}");
        }
    }
}
