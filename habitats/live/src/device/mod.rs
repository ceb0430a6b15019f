//! Where frames come from and go to, in bursts.
//!
//! A device knows nothing of routes and queues. Back ends: [`af_packet`] (any Linux interface),
//! [`pcap`] (files), [`loopback`] (memory). The trait is made for `af_xdp` to fit in: frames are
//! lent, never owned, in both directions, and one call moves a burst.

pub mod af_packet;
pub mod loopback;
mod merging;
pub mod pcap;
mod ring;
mod tenure;
mod vnet;

use std::io;
use std::os::fd::BorrowedFd;

use weir_base::Instant;
use weir_path::link::offload::Offload;

pub use tenure::Tenure;

/// A frame as a device lends it: without frame check sequence, valid during the call.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The bytes from the Ethernet header on; a VLAN tag that came out of band is not among them.
    pub bytes: &'a [u8],
    /// Its length on the link; more than `bytes` if the ring cut it.
    pub len: u32,
    /// When it arrived, by the monotonic clock; never later than now.
    pub arrived: Instant,
    /// The 802.1Q tag control information, if it was tagged.
    pub vlan: Option<u16>,
    /// Its receiver.
    pub direction: Direction,
    /// Work that the sender left to hardware that does not exist (veth, tun, virtio), or what the kernel
    /// put together on the way (GRO): it must be done before the frame goes on.
    pub offload: Offload,
}

/// The receiver of a frame, as the link layer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Our own MAC address.
    Host,
    /// The broadcast address, or a multicast one.
    Group,
    /// Somebody else (promiscuous mode).
    Other,
    /// Nobody here: the kernel itself sent it out of this interface. Not to be forwarded, but it
    /// counts against the port's rate.
    Outgoing,
}

/// A longer frame counts for several of these in a burst, as for their share of a turn.
const ORDINARY_FRAME_BYTES: u32 = 1536;

impl Received<'_> {
    /// For how many frames of ordinary length this one counts: the packets that a superframe becomes,
    /// or its length in ordinary frames if that is more.
    #[inline]
    pub fn cost(&self) -> usize {
        let bytes = self.len.div_ceil(ORDINARY_FRAME_BYTES) as usize;
        self.offload.packets_max(self.len).max(bytes).max(1)
    }
}

/// A port's link.
pub trait Device: Send {
    /// Hands waiting frames to `take` until there are no more, or until they count for `burst_max`
    /// ([`Received::cost`]); gives what they counted for, which the last one may make more than that.
    /// Does not block.
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize>;

    /// Sends frames in order and gives how many were taken; fewer when the device is full. Does
    /// not block. A frame that the device refuses for its own sake (too long) is counted in
    /// [`Counters::refused`] and counts as taken.
    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize>;

    /// Becomes readable when frames wait; none for devices that never wait.
    fn wait_on(&self) -> Option<BorrowedFd<'_>>;

    /// Sets which frames are given out; the others are taken and forgotten. A device that the kernel
    /// does not forward from has no use for it.
    fn set_tenure(&mut self, _tenure: Tenure) {}

    /// Whether every frame of the tenure has been given out, and no more can come.
    fn tenure_is_over(&self) -> bool {
        true
    }

    /// The device's own counters.
    fn counters(&mut self) -> Counters;
}

/// Counters that only a device can keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that found the receive ring full, and superframes that found the receive buffer full: a
    /// superframe counts once (lost before the router saw them).
    pub missed: u64,
    /// Frames that the device refused to send.
    pub refused: u64,
}
