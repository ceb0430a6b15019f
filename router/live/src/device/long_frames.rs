//! Received frames that are too long for a slot of the ring.
//!
//! A superframe is up to 64 KB long. Slots of that size would take hundreds of megabytes per port, so the slots are
//! sized for the MTU. With `PACKET_COPY_THRESH`, the kernel puts a reference to a longer frame into the socket's
//! receive queue, in the order of the slots (`tpacket_rcv`). The socket's receive buffer bounds that queue; a frame
//! that arrives while it is full is counted as missed.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;
use weir_packet::LongBuffer;
use weir_packet::packet::HEADROOM;

use super::interface::device_gone;
use super::ring::{Memory, Slot};
use super::vnet::{HEADER_LEN, Header, switch_on};
use crate::sys;

/// Bytes that may wait in the receive queue, including the kernel's own overhead; the kernel doubles the value. About
/// as much as a ring holds in frames of 1500 bytes.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Frames that are too long for a slot.
#[derive(Debug)]
pub(super) struct LongFrames {
    buffer: LongBuffer,
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
            buffer: LongBuffer::default(),
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
        let bytes = self.buffer.bytes_mut();
        match receive(socket, &mut vnet, &mut bytes[HEADROOM..]) {
            Ok(len) => {
                let end = bytes.len().min(HEADROOM + len);
                let mut header = slot.header;
                header.tp_len = len as u32;
                Ok(Some(Slot {
                    header,
                    vnet,
                    memory: Memory::Buffer(&mut self.buffer, end),
                    start: HEADROOM,
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
