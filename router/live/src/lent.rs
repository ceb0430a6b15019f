//! A device for mode "queue": it receives the frames that the kernel lends, and sends them on from where they were
//! taken.
//!
//! See [`helper`](crate::kernel::helper) for their way. Sent frames pass the traffic control of the interface and are
//! visible to packet sockets there, like every frame of the kernel.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_base::Span;
use weir_lfb::port::Direction;
use weir_path::ip::tables::Mac;
use weir_path::link::offload::Offload;

use crate::device::af_packet::{AfPacket, Options, Through};
use crate::device::{Counters, Device, Layer, OwnershipWindow, Received, headerless, interface};
use crate::kernel::helper::{Helper, Served};

/// Length of an Ethernet header and two tags.
pub(crate) const LAYER_2_BYTES: usize = 22;
/// Maximum time for a frame that the kernel lent before the end of the window to arrive here.
const UNDER_WAY_MAX: Span = Span::from_millis(5);

/// Lent frames of one direction of an interface.
#[derive(Debug)]
pub struct Lent {
    frames: AfPacket,
    /// The source address of frames that the kernel sends into the helper itself.
    helpers: Mac,
    helper: Arc<Helper>, // after the socket at its end
}

/// The address of the helper for sent frames: locally administered.
const HELPER: Mac = [2, b'w', b'e', b'i', b'r', 0];

impl Lent {
    /// Takes frames of the interface called `name` in the calling thread's network namespace, once the kernel's rules
    /// lend them; sends frames with this mark. If the interface is down or missing, the error is one that
    /// [`device_gone`](interface::device_gone) recognises.
    pub fn open(name: &str, direction: Direction, mark: u32) -> io::Result<Self> {
        let index = interface::index(name)?;
        if !interface::is_up(name)? {
            return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
        }
        let layer = interface::layer(name)?.ok_or(io::ErrorKind::Unsupported)?;
        let (helpers, through) = match (direction, layer) {
            (Direction::Out, _) => {
                let through = Through {
                    index,
                    is_seen: true,
                    layer,
                };
                (HELPER, Some(through))
            }
            // The kernel must take the frames for its own.
            (Direction::In, Layer::Frames) => (interface::mac(name)?, None),
            (Direction::In, Layer::Packets) => (headerless::DESTINATION, None),
        };
        let mtu = interface::mtu(name)?;
        let helper = Helper::of(Served {
            index,
            mtu: mtu as u32,
            direction,
            mac: helpers,
            layer,
        })?;
        let options = Options {
            frame_bytes_max: Some(mtu + LAYER_2_BYTES),
            offloads: true,
            promiscuous: true,
            outgoing: false,
            ownership: OwnershipWindow::NEVER,
            arriving: layer,
            through,
            mark,
            ..Options::default()
        };
        Ok(Self {
            frames: AfPacket::open(helper.far(), options)?,
            helpers,
            helper,
        })
    }
}

impl Device for Lent {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        if self.helper.is_broken() {
            return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
        }
        let helpers = self.helpers;
        self.frames.receive(burst_max, &mut |frame| {
            if frame.bytes.get(6..12) != Some(&helpers[..]) {
                take(frame);
            }
        })
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        self.frames.transmit(frames)
    }

    fn does_offloads(&self) -> bool {
        self.frames.does_offloads()
    }

    fn transmit_offloaded(&mut self, frames: &[&[u8]], offloads: &[Offload]) -> io::Result<usize> {
        self.frames.transmit_offloaded(frames, offloads)
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        self.frames.wait_on()
    }

    /// The kernel keeps no copy of a frame that it lent before the end of the window.
    fn set_ownership(&mut self, window: OwnershipWindow) {
        self.frames.set_ownership(OwnershipWindow {
            until: window.until.after(UNDER_WAY_MAX),
            ..window
        });
    }

    fn tenure_is_over(&self) -> bool {
        self.frames.tenure_is_over()
    }

    fn counters(&mut self) -> Counters {
        self.frames.counters()
    }
}
