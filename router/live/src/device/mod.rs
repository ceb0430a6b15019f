//! Devices, which receive and send frames in bursts.
//!
//! A device does not know routes or queues. Back ends: [`af_packet`] (any Linux interface), [`pcap`] (files),
//! [`loopback`] (memory). The trait is designed so that `af_xdp` fits in: frames are lent, never owned, in both
//! directions, and one call moves a burst.
//!
//! [`tap`] and [`tun`] are interfaces that this process creates. [`tap`], for a control element, is a kernel device
//! whose link is this process; [`tun`] is a port whose link is the kernel. An [`injector`] only sends.

pub mod af_packet;
pub mod carrier;
pub(crate) mod headerless;
pub mod injector;
pub mod interface;
mod long_frames;
pub mod loopback;
pub mod made;
mod merging;
mod ownership_window;
pub mod pcap;
mod ring;
pub(crate) mod speed;
pub mod tap;
pub mod tun;
mod vnet;

use std::io;
use std::os::fd::BorrowedFd;

use weir_base::Instant;
use weir_packet::FrameBytes;
use weir_path::link::offload::Offload;
use weir_path::plane::deferred::AT_ONCE;

pub use ownership_window::OwnershipWindow;

use crate::clock::UnixTime;

/// A frame lent by a device: without frame check sequence, valid during the call.
#[derive(Debug)]
pub struct Received<'a> {
    /// The bytes from the Ethernet header on, without a VLAN tag that came out of band.
    pub bytes: FrameBytes<'a>,
    /// Length of the frame on the link; more than `bytes` if the ring cut it.
    pub len: u32,
    /// Time of arrival by the monotonic clock; never later than now.
    pub arrived: Instant,
    /// The 802.1Q tag control information, if the frame was tagged.
    pub vlan: Option<u16>,
    /// Receiver of the frame.
    pub direction: Direction,
    /// Work to be done before the frame is forwarded: the sender left it to hardware that does not exist (veth, tun,
    /// virtio), or the kernel merged frames (GRO).
    pub offload: Offload,
}

/// The receiver of a frame, as the link layer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Our own MAC address.
    Host,
    /// The broadcast address, or a multicast one.
    Group,
    /// Another host (promiscuous mode).
    Other,
    /// No receiver here: the kernel itself sent the frame through this interface. It must not be forwarded, but it
    /// counts against the port's rate.
    Outgoing,
}

/// The layer at which an interface exchanges packets with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet frames.
    #[default]
    Frames,
    /// IP packets without an Ethernet header.
    Packets,
}

impl Layer {
    /// The layer of an interface by its hardware type (`ARPHRD_ETHER` and so on); `None` for types that weir cannot use.
    pub(crate) const fn of(hardware: u16) -> Option<Self> {
        match hardware {
            libc::ARPHRD_ETHER => Some(Self::Frames),
            libc::ARPHRD_NONE | libc::ARPHRD_PPP => Some(Self::Packets),
            _ => None,
        }
    }
}

/// Length of an ordinary frame. A longer frame counts as several, both in a burst and in a port's share of an
/// iteration.
const ORDINARY_FRAME_BYTES: u32 = 1536;

impl Received<'_> {
    /// The number of ordinary frames that this one counts as: the packets that a superframe becomes, or its length in
    /// ordinary frames if that is more. Packets of a deferred superframe count when they are created.
    #[inline]
    pub fn cost(&self) -> usize {
        let bytes = self.len.div_ceil(ORDINARY_FRAME_BYTES) as usize;
        let packets = self.offload.packets_max(self.len);
        let packets = if packets > AT_ONCE { 1 } else { packets };
        packets.max(bytes).max(1)
    }
}

/// A port's link.
pub trait Device: Send {
    /// Passes waiting frames to `take` until there are no more, or until their cost reaches `burst_max`
    /// ([`Received::cost`]). Returns their cost, which the last frame may raise above `burst_max`. Does not block.
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize>;

    /// Sends frames in order and returns how many were taken; fewer when the device is full. Does not block. If the
    /// device refuses a frame because of the frame itself (too long), the frame is counted in [`Counters::refused`] and
    /// counts as taken.
    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize>;

    /// Whether [`Self::transmit_offloaded`] leaves work to the kernel.
    fn does_offloads(&self) -> bool {
        false
    }

    /// Sends frames like [`Self::transmit`], and leaves to the kernel what their senders left to hardware.
    fn transmit_offloaded(&mut self, frames: &[&[u8]], _offloads: &[Offload]) -> io::Result<usize> {
        self.transmit(frames)
    }

    /// A descriptor that becomes readable when frames wait; `None` for devices that never wait.
    fn wait_on(&self) -> Option<BorrowedFd<'_>>;

    /// Sets which frames the device delivers; it receives and drops the others. Has no effect on a device from which
    /// the kernel does not forward.
    fn set_ownership(&mut self, _tenure: OwnershipWindow) {}

    /// Moves the start of the ownership window to `from`, if that is later: frames stamped before `from` belong to the kernel.
    fn begin_again(&mut self, _from: UnixTime) {}

    /// Whether the device has delivered every frame of the ownership window and no more can arrive.
    fn tenure_is_over(&self) -> bool {
        true
    }

    /// The device's own counters.
    fn counters(&mut self) -> Counters;
}

/// Counters that only a device can keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that arrived while the receive ring was full, and superframes that arrived while the receive buffer was
    /// full. They are lost before the router sees them; a superframe counts once.
    pub missed: u64,
    /// Frames that the device refused to send.
    pub refused: u64,
}
