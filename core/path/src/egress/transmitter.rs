//! The transmitter of a link: when each frame starts, and when the link becomes free again.

use weir_base::{Framing, Instant, Rate, Span};
use weir_packet::Packet;

/// A link: its rate, and the cost of a frame on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rate of the link; `None` for a link without a limit.
    pub rate: Option<Rate>,
    /// From a frame's layer-2 length to its bytes on the wire.
    pub framing: Framing,
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
    pub fn lag_max(&self) -> Span {
        const SENDING: Span = Span::from_micros(50);
        let one = self.wire_bytes(u64::from(self.frame_bytes_max));
        self.rate
            .map_or(Span::ZERO, |r| r.time_for(self.burst() - one) - SENDING)
    }

    /// Bytes that a frame of `bytes` bytes takes on the wire.
    #[inline]
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        self.framing.wire_bytes(bytes)
    }

    /// Bytes that several frames of `bytes` bytes together take on the wire; of one length, or one byte more.
    pub fn wire_bytes_of(&self, bytes: u64, frames: u8) -> u64 {
        let frames = u64::from(frames.max(1));
        let (least, longer) = (bytes / frames, bytes % frames);
        longer * self.wire_bytes(least + 1) + (frames - longer) * self.wire_bytes(least)
    }
}

/// The time for which a frame is on the link: its first bit at `start`, its last at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The link begins to send the frame.
    pub start: Instant,
    /// The link is free again; equal to `start` without a rate.
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
    /// Cost of the last frame, kept because most frames have the length of the one before.
    cost: Cost,
    /// Bytes on the wire so far.
    on_wire: u64,
}

/// The cost of a frame of some length on a link.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The length in layer 2.
    bytes: u64,
    /// Bytes on the wire.
    on_wire: u64,
    /// Whole nanoseconds.
    nanos: u64,
    /// The remaining fraction of a nanosecond, in units of 1 / rate.
    rest: u64,
}

impl Cost {
    /// The cost of a length that no frame has.
    const NONE: Self = Self {
        bytes: u64::MAX,
        on_wire: 0,
        nanos: 0,
        rest: 0,
    };

    #[inline(never)] // most frames cost as much as the previous frame
    fn of(bytes: u64, on_wire: u64, rate: u64) -> Self {
        // Bits times nanoseconds then fit in 64 bits. A division of 128 bits would cost more than all the
        // rest of this function, and no frame is 2 GB long.
        const BYTES_MAX: u64 = 1 << 31;
        let scaled = on_wire.min(BYTES_MAX) * 8 * 1_000_000_000;
        Self {
            bytes,
            on_wire,
            nanos: scaled.checked_div(rate).unwrap_or(0),
            rest: scaled.checked_rem(rate).unwrap_or(0),
        }
    }
}

impl Transmitter {
    /// A link that is free from `now` on.
    pub fn new(link: Link, now: Instant) -> Self {
        Self {
            link,
            free_at: now,
            carry: 0,
            cost: Cost::NONE,
            on_wire: 0,
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Bytes on the wire of all frames that the link was given.
    pub fn on_wire(&self) -> u64 {
        self.on_wire
    }

    /// When the link has finished all its frames.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Sends a packet at `at`, or when the link is free.
    #[inline]
    pub fn send_packet(&mut self, packet: &Packet, at: Instant) -> Transmission {
        if packet.frames == 1 {
            self.send(packet.bytes(), at)
        } else {
            self.send_superframe(packet, at)
        }
    }

    #[inline(never)] // so that the code for all other packets stays short
    fn send_superframe(&mut self, packet: &Packet, at: Instant) -> Transmission {
        let on_wire = self.link.wire_bytes_of(packet.bytes(), packet.frames);
        let rate = self.link.rate.map_or(0, Rate::as_bps);
        self.schedule(Cost::of(packet.bytes(), on_wire, rate), rate, at)
    }

    /// Sends a frame of `bytes` bytes (layer 2) at `at`, or when the link is free.
    #[inline]
    pub fn send(&mut self, bytes: u64, at: Instant) -> Transmission {
        let rate = self.link.rate.map_or(0, Rate::as_bps);
        if bytes != self.cost.bytes {
            self.cost = Cost::of(bytes, self.link.wire_bytes(bytes), rate);
        }
        self.schedule(self.cost, rate, at)
    }

    /// Sends a frame of this cost; a rate of zero means no limit.
    #[inline]
    fn schedule(&mut self, cost: Cost, rate: u64, at: Instant) -> Transmission {
        self.on_wire += cost.on_wire;
        if rate == 0 {
            return Transmission { start: at, end: at };
        }
        let start = self.free_at.max(at);
        if start > self.free_at {
            self.carry = 0; // the link was idle: a new schedule begins
        }
        let (more, carry) = match cost.rest + self.carry {
            carry if carry >= rate => (1, carry - rate),
            carry => (0, carry),
        };
        self.carry = carry;
        self.free_at = start + Span::from_nanos(cost.nanos + more);
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

    /// Starts no frame before `until`.
    pub(crate) fn wait_for(&mut self, until: Instant) {
        self.free_at = self.free_at.max(until);
    }

    /// Replaces the link at `now`.
    pub fn replace(&mut self, link: Link, now: Instant) {
        // The debt of a slow link must not block a fast link for long.
        let free_at = self.free_at.min(now + DEBT_MAX);
        *self = Self {
            on_wire: self.on_wire,
            ..Self::new(link, free_at)
        };
    }
}
