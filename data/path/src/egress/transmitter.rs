//! The transmitter of a link: when each frame starts, and when the link becomes free again.

use weir_base::{Instant, Rate, Span, Tally};

/// A link: its rate, and the cost of a frame on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bits a second; none for a link without a limit.
    pub rate: Option<Rate>,
    /// Bytes that each frame takes on the wire in addition to its layer-2 length: preamble, frame check
    /// sequence and inter-frame gap (24 for Ethernet), or the overhead of a tunnel or of cells. Negative
    /// for a simulated link whose frames have no Ethernet header.
    pub overhead: i32,
    /// The longest frame, for the size of a burst.
    pub frame_bytes_max: u32,
}

impl Link {
    /// Bytes that may leave back to back after a late step: two frames, or one millisecond's bytes if
    /// that is more.
    pub fn burst(&self) -> u64 {
        const LATE: Span = Span::from_millis(1);
        let frames = 2 * self.wire_bytes(u64::from(self.frame_bytes_max));
        self.rate.map_or(frames, |r| frames.max(r.bytes_in(LATE)))
    }

    /// How far behind the clock the schedule may lag: a burst minus the frame in which the lag ends,
    /// and minus the time between the decision to send and the sending, which varies.
    pub(crate) fn lag_max(&self) -> Span {
        const SENDING: Span = Span::from_micros(50);
        let one = self.wire_bytes(u64::from(self.frame_bytes_max));
        self.rate
            .map_or(Span::ZERO, |r| r.time_for(self.burst() - one) - SENDING)
    }

    /// Bytes that a frame of `bytes` bytes takes on the wire.
    #[inline]
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        self.wire_bytes_of(Tally::one(bytes))
    }

    /// Bytes that these frames take on the wire.
    #[inline]
    pub fn wire_bytes_of(&self, frames: Tally) -> u64 {
        let framing = frames.packets as i64 * i64::from(self.overhead);
        frames.bytes.saturating_add_signed(framing)
    }
}

/// The time for which a frame is on the link: its first bit at `start`, its last at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The link begins to send it.
    pub start: Instant,
    /// The link is free again; the same instant without a rate.
    pub end: Instant,
}

/// Longest time for which a link counts as busy with frames that did not pass its queue.
pub(crate) const DEBT_MAX: Span = Span::from_millis(20);

/// A link that sends one frame at a time.
#[derive(Debug)]
pub struct Transmitter {
    link: Link,
    /// The time at which the link has finished sending. The remaining fraction of a nanosecond, in units of
    /// 1 / rate, is carried over, so that a schedule keeps its rate without drift.
    free_at: Instant,
    carry: u64,
    /// Serialisation time of the last frame, kept because most frames have the length of the one before.
    serialisation: Serialisation,
}

/// The time that a link takes for a frame of some length.
#[derive(Clone, Copy, Debug)]
struct Serialisation {
    /// The length in layer 2.
    bytes: u64,
    /// Whole nanoseconds.
    nanos: u64,
    /// The remaining fraction of a nanosecond, in units of 1 / rate.
    rest: u64,
}

impl Serialisation {
    /// The time for a length that no frame has.
    const NONE: Self = Self {
        bytes: u64::MAX,
        nanos: 0,
        rest: 0,
    };
}

impl Transmitter {
    /// A link that is free from `now` on.
    pub fn new(link: Link, now: Instant) -> Self {
        Self {
            link,
            free_at: now,
            carry: 0,
            serialisation: Serialisation::NONE,
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// When the link has finished all frames that it was given.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Sends a frame of `bytes` bytes (layer 2) at `at`, or when the link is free.
    #[inline]
    pub fn send(&mut self, bytes: u64, at: Instant) -> Transmission {
        // Bits times nanoseconds then fit in 64 bits. A division of 128 bits would cost more than all the
        // rest of this function, and no frame is 2 GB long.
        const BYTES_MAX: u64 = 1 << 31;
        let Some(rate) = self.link.rate.map(Rate::as_bps).filter(|r| *r > 0) else {
            return Transmission { start: at, end: at };
        };
        let start = self.free_at.max(at);
        if start > self.free_at {
            self.carry = 0; // the link stood idle: a new schedule begins
        }
        if bytes != self.serialisation.bytes {
            let scaled = self.link.wire_bytes(bytes).min(BYTES_MAX) * 8 * 1_000_000_000;
            self.serialisation = Serialisation {
                bytes,
                nanos: scaled / rate,
                rest: scaled % rate,
            };
        }
        let Serialisation { nanos, rest, .. } = self.serialisation;
        let (more, carry) = match rest + self.carry {
            carry if carry >= rate => (1, carry - rate),
            carry => (0, carry),
        };
        self.carry = carry;
        self.free_at = start + Span::from_nanos(nanos + more);
        let end = self.free_at;
        Transmission { start, end }
    }

    /// Charges the link for a frame that left through it at `at` without passing its queue. Such debts are
    /// bounded by [`DEBT_MAX`]: a sender that makes the kernel send more than the link carries (by a flood of
    /// pings, say) delays forwarded packets, but cannot stop them for longer than the flood lasts.
    pub fn charge(&mut self, bytes: u64, at: Instant) {
        let before = self.free_at;
        self.send(bytes, at);
        self.free_at = self.free_at.min(before.max(at + DEBT_MAX));
    }

    /// Replaces the link by another one, at `now`.
    pub fn replace(&mut self, link: Link, now: Instant) {
        // The debt of a slow link must not block a fast link for long.
        let free_at = self.free_at.min(now + DEBT_MAX);
        *self = Self::new(link, free_at);
    }
}
