//! Superframes that become more packets than a port may pass on at once, and the frames that their senders send
//! meanwhile.
//!
//! ```text
//!  superframe of more than AT_ONCE packets --> [ its sender's queue ] --+
//!  later frames of the same sender --------> [ behind it            ]   +--> AT_ONCE / 4 packets each, in turn
//!  superframe of another sender -----------> [ that sender's queue  ] --+
//!  frame of anybody else ------------------------------------------------> at once
//! ```
//!
//! A superframe of 64 KB with 32 bytes in each segment is 2000 packets of work. Usual superframes become up to 45
//! packets (64 KB in segments of an MTU) and never wait. So an unlikely size costs only its sender: the frames of a
//! sender stay in order, and frames of all other senders, also on the same port, continue.
//!
//! A sender is a source MAC address with a source IP address. The number of senders, and the bytes of each, are
//! bounded; memory is allocated when a superframe waits, and freed afterwards.

use std::collections::VecDeque;

use crate::headers;
use crate::plane::step::Arrival;

/// Maximum packets that one superframe becomes at once; a longer superframe waits, and is cut in several turns.
pub const AT_ONCE: usize = 64;
/// Maximum senders whose frames wait at a port.
pub const SENDERS_MAX: usize = 16;
/// Maximum waiting bytes of one sender: four of the longest superframes.
pub const SENDER_BYTES_MAX: usize = 256 * 1024;
/// Memory of a waiting frame in addition to its bytes.
const HELD_BYTES: usize = size_of::<Held>();

/// The source of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    mac: [u8; 6],
    ip: u128,
}

/// A waiting frame.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) frame: Box<[u8]>,
    pub(crate) arrival: Arrival,
    /// The next segment to cut, if the frame is a superframe.
    pub(crate) next: usize,
}

#[derive(Debug)]
struct Queue {
    sender: Sender,
    frames: VecDeque<Held>,
    bytes: usize,
}

/// The waiting frames of a port.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// In the order of their turns; each queue has a frame.
    queues: VecDeque<Queue>,
}

impl Sender {
    pub(crate) fn of(frame: &[u8]) -> Self {
        let mac = frame.get(6..).and_then(|rest| rest.first_chunk());
        Self {
            mac: mac.copied().unwrap_or_default(),
            ip: headers::peek(frame).source,
        }
    }
}

impl Deferred {
    /// Whether no frame waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether frames of this sender wait, so that its next frames must wait as well.
    pub(crate) fn has(&self, sender: Sender) -> bool {
        self.queues.iter().any(|queue| queue.sender == sender)
    }

    /// Queues a frame; returns whether there was room.
    pub(crate) fn push(&mut self, sender: Sender, frame: &[u8], arrival: Arrival) -> bool {
        let place = self.queues.iter().position(|queue| queue.sender == sender);
        let place = match place {
            Some(place) => place,
            None if self.queues.len() == SENDERS_MAX => return false,
            None => {
                self.queues.push_back(Queue {
                    sender,
                    frames: VecDeque::new(),
                    bytes: 0,
                });
                self.queues.len() - 1
            }
        };
        let queue = &mut self.queues[place];
        let bytes = queue.bytes + frame.len() + HELD_BYTES;
        if bytes > SENDER_BYTES_MAX {
            return false; // so the queue has frames
        }
        queue.bytes = bytes;
        queue.frames.push_back(Held {
            frame: frame.into(),
            arrival,
            next: 0,
        });
        true
    }

    /// Takes the frame whose turn it is.
    pub(crate) fn take(&mut self) -> Option<Held> {
        self.queues.front_mut()?.frames.pop_front()
    }

    /// Ends the turn of the sender whose frame was taken; `rest` is that frame, if some of its segments remain.
    pub(crate) fn put_back(&mut self, bytes: usize, rest: Option<Held>) {
        let Some(mut queue) = self.queues.pop_front() else {
            return;
        };
        match rest {
            Some(rest) => queue.frames.push_front(rest),
            None => queue.bytes -= bytes + HELD_BYTES,
        }
        if !queue.frames.is_empty() {
            self.queues.push_back(queue);
        }
    }

    /// Takes all frames.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Held> + use<> {
        let queues = std::mem::take(&mut self.queues);
        queues.into_iter().flat_map(|queue| queue.frames)
    }
}
