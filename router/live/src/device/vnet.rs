//! The kernel's metadata for a received frame, and frames that are too long for a slot of the ring.
//!
//! With `PACKET_VNET_HDR`, each frame comes with a `virtio_net_hdr`, which describes the work that the sender left to
//! hardware.
//!
//! ```text
//!  0       1          2         4          6            8             10
//! +-------+----------+---------+----------+------------+-------------+--------
//! | flags | gso_type | hdr_len | gso_size | csum_start | csum_offset | frame     (native byte order)
//! +-------+----------+---------+----------+------------+-------------+--------
//! ```
//!
//! A superframe is up to 64 KB long. Slots of that size would take hundreds of megabytes per port, so the slots are
//! sized for the MTU. With `PACKET_COPY_THRESH`, the kernel puts a reference to a longer frame into the socket's
//! receive queue, in the order of the slots (`tpacket_rcv`). The socket's receive buffer bounds that queue; a frame
//! that arrives while it is full is counted as missed.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};

use super::af_packet::device_gone;
use super::ring::Slot;
use crate::sys;

/// Length of the header.
pub(super) const HEADER_LEN: usize = 10;
/// `struct virtio_net_hdr` of linux/virtio_net.h.
pub(super) type Header = [u8; HEADER_LEN];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
pub(super) const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_NONE`, `.._TCPV4`, `.._TCPV6`, `.._UDP_L4`, and the flag `.._ECN`, which requests segmentation
/// per RFC 3168; we always segment that way.
pub(super) const GSO_NONE: u8 = 0;
pub(super) const GSO_TCP_V4: u8 = 1;
pub(super) const GSO_TCP_V6: u8 = 4;
pub(super) const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Spare bytes before a long frame, for a VLAN tag that is put back into it.
const SPARE_BYTES: usize = 16;
/// The longest IP packet, with an Ethernet header and two tags.
const LONG_FRAME_BYTES_MAX: usize = 65_535 + 14 + 8;
/// Bytes that may wait in the receive queue, including the kernel's own overhead; the kernel doubles the value. About
/// as much as a ring holds in frames of 1500 bytes.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Makes `socket` deliver, and expect, a header before each frame.
pub(super) fn switch_on(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)
}

/// The header before the frame that starts at `start`. Without room for a header, it is all zeros, which means that no
/// work is left.
pub(super) fn before(bytes: &[u8], start: usize) -> Header {
    bytes
        .get(..start)
        .and_then(|front| front.last_chunk())
        .copied()
        .unwrap_or_default()
}

/// The work that the header leaves to us.
#[inline]
pub(super) fn offload(header: Header) -> Offload {
    let [flags, gso, _, _, a, b, c, d, e, f] = header;
    let word = |bytes| u16::from_ne_bytes(bytes);
    let kind = match gso & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCP_V4 => Some(SegmentKind::TcpV4),
        GSO_TCP_V6 => Some(SegmentKind::TcpV6),
        GSO_UDP_L4 => Some(SegmentKind::Udp),
        _ => Some(SegmentKind::Unknown),
    };
    Offload {
        checksum: (flags & NEEDS_CHECKSUM != 0).then(|| PartialChecksum {
            start: word([c, d]),
            offset: word([e, f]),
        }),
        segmentation: kind.map(|kind| Segmentation {
            kind,
            size: word([a, b]),
        }),
    }
}

/// Frames that are too long for a slot.
#[derive(Debug)]
pub(super) struct LongFrames {
    bytes: Box<[u8]>,
}

impl LongFrames {
    /// Makes `socket`, which has no ring yet, receive headers and long frames.
    pub(super) fn new(socket: &Socket) -> io::Result<Self> {
        switch_on(socket)?;
        let on: libc::c_int = 1;
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &on)?;
        let bytes = RECEIVE_BUFFER_BYTES as libc::c_int;
        if sys::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
            // Not privileged: accept the size that the system grants.
            socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        }
        Ok(Self {
            bytes: vec![0; SPARE_BYTES + LONG_FRAME_BYTES_MAX].into_boxed_slice(),
        })
    }

    /// The slot with its whole frame, which is fetched from the receive queue of `socket` if the slot was too short;
    /// `None` if the queue had no room for the frame.
    #[inline]
    pub(super) fn whole<'a>(
        &'a mut self,
        slot: Slot<'a>,
        socket: &Socket,
    ) -> io::Result<Option<Slot<'a>>> {
        if slot.header.tp_status & libc::TP_STATUS_COPY != 0 {
            return self.fetch(slot, socket);
        }
        // Frames sent by the kernel itself are cut on purpose.
        let outgoing = slot.address.sll_pkttype == libc::PACKET_OUTGOING;
        let cut = slot.header.tp_snaplen < slot.header.tp_len;
        Ok((!cut || outgoing).then_some(slot))
    }

    #[cold]
    fn fetch<'a>(&'a mut self, slot: Slot<'a>, socket: &Socket) -> io::Result<Option<Slot<'a>>> {
        let mut vnet = Header::default();
        match receive(socket, &mut vnet, &mut self.bytes[SPARE_BYTES..]) {
            Ok(len) => {
                let end = self.bytes.len().min(SPARE_BYTES + len);
                let mut header = slot.header;
                header.tp_len = len as u32;
                Ok(Some(Slot {
                    header,
                    vnet,
                    bytes: &mut self.bytes[..end],
                    start: SPARE_BYTES,
                    ..slot
                }))
            }
            Err(error) if device_gone(&error) => Err(error),
            // The kernel queues the frame before it hands over the slot, so a frame that is missing in the queue is
            // lost.
            Err(_) => Ok(None),
        }
    }
}

/// Takes one frame from the receive queue; returns its length, which may exceed the buffer. Does not block.
fn receive(socket: &Socket, vnet: &mut Header, frame: &mut [u8]) -> io::Result<usize> {
    let mut parts = [
        libc::iovec {
            iov_base: vnet.as_mut_ptr().cast(),
            iov_len: vnet.len(),
        },
        libc::iovec {
            iov_base: frame.as_mut_ptr().cast(),
            iov_len: frame.len(),
        },
    ];
    // SAFETY: all zeros is a message header without address, data and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the message has two parts, each borrowed mutably during the call, and the kernel writes no more into them
    // than their lengths permit.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok(len.saturating_sub(HEADER_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, gso: u8, words: [u16; 3]) -> Header {
        let mut header = [flags, gso, 9, 9, 0, 0, 0, 0, 0, 0];
        for (place, word) in header[4..].chunks_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    #[test]
    fn a_header_says_what_is_left_to_do() {
        assert_eq!(offload(header(0, 0, [1448, 34, 16])), Offload::NONE);
        assert_eq!(offload(header(2, 0, [0, 0, 0])), Offload::NONE); // "data valid"
        let (start, offset) = (34, 16);
        let checksum = Some(PartialChecksum { start, offset });
        let size = 1448;
        for (gso, kind) in [
            (1, Some(SegmentKind::TcpV4)),
            (0x81, Some(SegmentKind::TcpV4)),
            (4, Some(SegmentKind::TcpV6)),
            (5, Some(SegmentKind::Udp)),
            (3, Some(SegmentKind::Unknown)),
            (0, None),
        ] {
            let segmentation = kind.map(|kind| Segmentation { kind, size });
            let expected = Offload {
                checksum,
                segmentation,
            };
            assert_eq!(offload(header(1, gso, [size, start, offset])), expected);
        }
    }

    #[test]
    fn a_header_stands_right_before_its_frame() {
        let bytes: Vec<u8> = (0..40).collect();
        assert_eq!(before(&bytes, 12), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(before(&bytes, 9), [0; HEADER_LEN]);
        assert_eq!(before(&bytes, 99), [0; HEADER_LEN]);
    }
}
