//! A device in memory, for tests and benches: it receives the frames that were sent.
//!
//! ```text
//! a.transmit --> [bounded queue] --> b.receive        pair
//! b.transmit --> [bounded queue] --> a.receive
//! a.transmit --> [bounded queue] --> a.receive        looped
//! ```
//!
//! The caller supplies the clock, so that the same calls give the same frames at the same instants. A full queue
//! accepts fewer frames, like any device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use weir_base::Instant;
use weir_packet::FrameBytes;
use weir_path::link::offload::Offload;

use super::{Counters, Device, Direction, Received};
use crate::mutex::lock;

/// The clock that gives a [`Loopback`] the time at which a frame is sent.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// One end of a memory link.
#[derive(Clone)]
pub struct Loopback {
    incoming: Arc<Mutex<Queue>>,
    outgoing: Arc<Mutex<Queue>>,
    clock: Clock,
}

/// Frames in transit.
struct Queue {
    frames: VecDeque<Frame>,
    frames_max: usize,
    spare: Vec<Vec<u8>>,
}

/// One frame, with all data of [`Received`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The bytes from the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Length on the link, in bytes.
    pub len: u32,
    /// Time of arrival.
    pub arrived: Instant,
    /// The VLAN tag, out of band.
    pub vlan: Option<u16>,
    /// Receiver of the frame.
    pub direction: Direction,
    /// Work that the sender left to hardware.
    pub offload: Offload,
}

impl Frame {
    /// An ordinary frame for this host.
    pub fn new(bytes: Vec<u8>, arrived: Instant) -> Self {
        Self {
            len: bytes.len() as u32,
            bytes,
            arrived,
            vlan: None,
            direction: Direction::Host,
            offload: Offload::NONE,
        }
    }

    /// The frame as a device lends it.
    pub fn lend(&self) -> Received<'_> {
        Received {
            bytes: FrameBytes::Lent(&self.bytes),
            len: self.len,
            arrived: self.arrived,
            vlan: self.vlan,
            direction: self.direction,
            offload: self.offload,
        }
    }
}

impl Queue {
    fn new(frames_max: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            frames: VecDeque::with_capacity(frames_max),
            frames_max,
            spare: Vec::new(),
        }))
    }
}

impl Loopback {
    /// Two ends; each direction holds at most `frames_max` frames.
    pub fn pair(frames_max: usize, clock: Clock) -> (Self, Self) {
        let (there, back) = (Queue::new(frames_max), Queue::new(frames_max));
        let a = Self {
            incoming: back.clone(),
            outgoing: there.clone(),
            clock: clock.clone(),
        };
        let b = Self {
            incoming: there,
            outgoing: back,
            clock,
        };
        (a, b)
    }

    /// A device that receives what it sends.
    pub fn looped(frames_max: usize, clock: Clock) -> Self {
        let queue = Queue::new(frames_max);
        Self {
            incoming: queue.clone(),
            outgoing: queue,
            clock,
        }
    }

    /// Delivers `frame` to this end; returns it if the queue is full.
    pub fn inject(&self, frame: Frame) -> Result<(), Frame> {
        let mut queue = lock(&self.incoming);
        if queue.frames.len() == queue.frames_max {
            return Err(frame);
        }
        queue.frames.push_back(frame);
        Ok(())
    }

    /// Frames that wait to be received at this end.
    pub fn waiting(&self) -> usize {
        lock(&self.incoming).frames.len()
    }
}

impl Device for Loopback {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < burst_max {
            // Not locked during `take`, which may send through the same queue.
            let Some(frame) = lock(&self.incoming).frames.pop_front() else {
                break;
            };
            taken += frame.lend().cost();
            take(frame.lend());
            lock(&self.incoming).spare.push(frame.bytes);
        }
        Ok(taken)
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        let now = (self.clock)();
        let mut queue = lock(&self.outgoing);
        let room = queue.frames_max - queue.frames.len();
        let taken = room.min(frames.len());
        for frame in &frames[..taken] {
            let mut bytes = queue.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(frame);
            queue.frames.push_back(Frame::new(bytes, now));
        }
        Ok(taken)
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_five() -> Clock {
        Arc::new(|| Instant::from_nanos(5))
    }

    fn all(device: &mut Loopback) -> Vec<(Vec<u8>, Instant)> {
        let mut got = Vec::new();
        device
            .receive(100, &mut |r| got.push((r.bytes.to_vec(), r.arrived)))
            .unwrap();
        got
    }

    #[test]
    fn what_one_end_sends_the_other_receives_in_order() {
        let (mut a, mut b) = Loopback::pair(8, at_five());
        assert_eq!(a.transmit(&[b"one", b"two"]).unwrap(), 2);
        assert_eq!(b.waiting(), 2);
        let five = Instant::from_nanos(5);
        assert_eq!(
            all(&mut b),
            [(b"one".to_vec(), five), (b"two".to_vec(), five)]
        );
        assert_eq!(all(&mut b), []);
        assert_eq!(all(&mut a), []);
        b.transmit(&[b"x"]).unwrap();
        assert_eq!(all(&mut a).len(), 1);
    }

    #[test]
    fn a_full_queue_takes_fewer() {
        let mut device = Loopback::looped(3, at_five());
        let frame: &[u8] = b"frame";
        assert_eq!(device.transmit(&[frame; 5]).unwrap(), 3);
        assert_eq!(device.transmit(&[frame; 5]).unwrap(), 0);
        let late = Frame::new(vec![1], Instant::ZERO);
        assert_eq!(device.inject(late.clone()), Err(late.clone()));
        assert_eq!(device.receive(2, &mut |_| {}).unwrap(), 2);
        assert_eq!(device.inject(late), Ok(()));
        assert_eq!(device.waiting(), 2);
    }
}
