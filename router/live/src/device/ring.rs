//! The memory into which the kernel writes received frames (TPACKET_V2).
//!
//! ```text
//! block 0                                 block 1
//! +--------+--------+--------+---------+--------+--
//! | slot 0 | slot 1 | slot 2 | (waste) | slot 3 | ...      a slot never crosses a block
//! +--------+--------+--------+---------+--------+--
//! slot: | tpacket2_hdr | sockaddr_ll | spare | virtio_net_hdr | frame ... |
//! ```
//!
//! The first word of a slot names its owner. We read a slot only while we own it, and the kernel writes it only while
//! it owns it.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::Socket;
use weir_packet::packet::HEADROOM;
use weir_packet::{FrameBytes, LongBuffer};

use super::vnet;

/// Maximum bytes before the frame in a slot: header, address, alignment, virtio header (see `tpacket_rcv`).
const SLOT_OVERHEAD_BYTES: usize = 112;
/// Alignment of slots.
const SLOT_ALIGN_BYTES: usize = 16;
/// Minimum size of a block.
const BLOCK_BYTES_MIN: usize = 64 * 1024;

/// A receive ring, mapped into our memory.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    shape: Shape,
    block: usize,
    slot: usize,
}

/// Layout of blocks and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    slot_bytes: usize,
    block_bytes: usize,
    blocks: usize,
}

/// A slot that we own until [`Ring::release`].
#[derive(Debug)]
pub(super) struct Slot<'a> {
    /// The header that the kernel wrote.
    pub(super) header: libc::tpacket2_hdr,
    /// The address from which the frame came.
    pub(super) address: libc::sockaddr_ll,
    /// Work that the sender left to hardware.
    pub(super) vnet: vnet::Header,
    /// The bytes, from the end of `address` to the end of the frame.
    pub(super) memory: Memory<'a>,
    /// Offset of the frame in the memory.
    pub(super) start: usize,
}

/// Where a frame is.
#[derive(Debug)]
pub(super) enum Memory<'a> {
    Ring(&'a mut [u8]),
    /// In a buffer, up to this offset.
    Buffer(&'a mut LongBuffer, usize),
}

impl<'a> Memory<'a> {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Ring(bytes) => bytes,
            Self::Buffer(buffer, end) => &mut buffer.bytes_mut()[..*end],
        }
    }

    /// The frame, which starts at `start`.
    pub(super) fn lend(self, start: usize) -> FrameBytes<'a> {
        match self {
            Self::Buffer(buffer, end) if start == HEADROOM => {
                FrameBytes::Buffer(buffer, end - start)
            }
            Self::Buffer(buffer, end) => FrameBytes::Lent(&buffer.bytes_mut()[start..end]),
            Self::Ring(bytes) => FrameBytes::Lent(&bytes[start..]),
        }
    }
}

impl Shape {
    /// At least `slots` slots for frames of `frame_bytes_max` bytes.
    fn new(slots: usize, frame_bytes_max: usize) -> Self {
        let slot_bytes = (frame_bytes_max + SLOT_OVERHEAD_BYTES).next_multiple_of(SLOT_ALIGN_BYTES);
        let block_bytes = slot_bytes.next_power_of_two().max(BLOCK_BYTES_MIN);
        Self {
            slot_bytes,
            block_bytes,
            blocks: slots.max(1).div_ceil(block_bytes / slot_bytes),
        }
    }

    fn slots_per_block(self) -> usize {
        self.block_bytes / self.slot_bytes
    }

    fn bytes(self) -> usize {
        self.block_bytes * self.blocks
    }
}

impl Ring {
    /// Gives `socket` a ring of at least `slots` slots. The socket must not be bound yet and must have virtio headers
    /// switched on.
    pub(super) fn new(socket: &Socket, slots: usize, frame_bytes_max: usize) -> io::Result<Self> {
        let shape = Shape::new(slots, frame_bytes_max);
        let request = libc::tpacket_req {
            tp_block_size: shape.block_bytes as libc::c_uint,
            tp_block_nr: shape.blocks as libc::c_uint,
            tp_frame_size: shape.slot_bytes as libc::c_uint,
            tp_frame_nr: (shape.slots_per_block() * shape.blocks) as libc::c_uint,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        crate::sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        crate::sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice does not overlap our memory.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                shape.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            memory,
            shape,
            block: 0,
            slot: 0,
        })
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.shape.slots_per_block() * self.shape.blocks
    }

    /// The oldest frame that is not released, if the kernel has written one.
    pub(super) fn head(&mut self) -> Option<Slot<'_>> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.current();
        const ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
        const BYTES_AT: usize = ADDRESS_AT + size_of::<libc::sockaddr_ll>();
        // SAFETY: the slot lies within the mapping and is longer than both structures, it is
        // aligned for them, the status shows that the kernel has finished writing them, and any bytes are valid values
        // of them.
        let (header, address) = unsafe {
            (
                slot.cast::<libc::tpacket2_hdr>().read(),
                slot.add(ADDRESS_AT).cast::<libc::sockaddr_ll>().read(),
            )
        };
        const FRAME_AT: usize = BYTES_AT + size_of::<vnet::Header>();
        let start = usize::from(header.tp_mac).clamp(FRAME_AT, self.shape.slot_bytes);
        let end = (start + header.tp_snaplen as usize).min(self.shape.slot_bytes);
        // SAFETY: `BYTES_AT <= start <= end <= slot_bytes`, so the range lies within the slot,
        // which the kernel does not touch while its status is "user"; the exclusive borrow of
        // the ring keeps us from a second view of it.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(slot.add(BYTES_AT).as_ptr(), end - BYTES_AT) };
        let start = start - BYTES_AT;
        Some(Slot {
            header,
            address,
            vnet: vnet::before(bytes, start),
            memory: Memory::Ring(bytes),
            start,
        })
    }

    /// Returns the slot of [`Self::head`] to the kernel.
    pub(super) fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.slot += 1;
        if self.slot == self.shape.slots_per_block() {
            self.slot = 0;
            self.block += 1;
            if self.block == self.shape.blocks {
                self.block = 0;
            }
        }
    }

    fn current(&self) -> NonNull<u8> {
        let offset = self.block * self.shape.block_bytes + self.slot * self.shape.slot_bytes;
        // SAFETY: `block < blocks` and `slot < slots_per_block`, so the slot is in the mapping.
        unsafe { self.memory.add(offset) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the first field of the slot, aligned, and both sides access it
        // only as one word; it lives as long as the mapping, which `self` owns.
        unsafe { self.current().cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and no slice of it outlives the ring.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.shape.bytes()) };
    }
}

// SAFETY: the mapping belongs to the ring alone, and is not bound to the thread that made it.
unsafe impl Send for Ring {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_their_frame_and_no_slot_crosses_a_block() {
        for frame_bytes_max in [60, 1522, 2048, 9022, 65_557, 65_536 * 2] {
            let shape = Shape::new(4096, frame_bytes_max);
            assert!(shape.slot_bytes >= frame_bytes_max + 82, "{shape:?}");
            assert_eq!(shape.slot_bytes % SLOT_ALIGN_BYTES, 0);
            assert!(shape.block_bytes.is_power_of_two() && shape.block_bytes >= shape.slot_bytes);
            assert!(shape.slots_per_block() * shape.blocks >= 4096);
        }
    }
}
