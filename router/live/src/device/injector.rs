//! Sends frames together with work left to hardware, as a virtual machine does: for the lab and for tests.
//!
//! The kernel partially validates the description of that work, and refuses what it cannot interpret. A frame that it
//! accepts arrives unchanged at the other end of a veth pair.

use std::io;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};

use super::af_packet::link_address;
use super::interface::interface_index;
use super::vnet::{self, GSO_NONE, GSO_TCP_V4, GSO_TCP_V6, GSO_UDP_L4, NEEDS_CHECKSUM};

/// Maximum time for which a send waits for buffer space.
const SEND_TIME_MAX: Duration = Duration::from_secs(1);

/// A socket that sends frames out of an interface.
#[derive(Debug)]
pub struct Injector(Socket);

impl Injector {
    /// Opens the interface called `name` in the calling thread's network namespace.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        vnet::switch_on(&socket)?;
        socket.bind(&link_address(interface_index(&socket, name)?, 0)?)?;
        socket.set_write_timeout(Some(SEND_TIME_MAX))?;
        Ok(Self(socket))
    }

    /// Sends a frame; an error means that the kernel refuses it, or has no buffer space.
    pub fn send(&self, frame: &[u8], offload: &Offload) -> io::Result<()> {
        let (mut flags, mut gso, mut words) = (0, GSO_NONE, [0_u16; 4]);
        if let Some(PartialChecksum { start, offset }) = offload.checksum {
            flags = NEEDS_CHECKSUM;
            (words[2], words[3]) = (start, offset);
        }
        if let Some(Segmentation { kind, size }) = offload.segmentation {
            gso = match kind {
                SegmentKind::TcpV4 => GSO_TCP_V4,
                SegmentKind::TcpV6 => GSO_TCP_V6,
                SegmentKind::Udp | SegmentKind::Unknown => GSO_UDP_L4,
            };
            let transport = if kind == SegmentKind::Udp { 8 } else { 20 };
            (words[0], words[1]) = (words[2].saturating_add(transport), size);
        }
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        let mut message: Vec<u8> = [flags, gso].into_iter().chain(words).collect();
        message.extend_from_slice(frame);
        self.0.send(&message).map(|_| ())
    }
}
