//! The line behind a port: a link whose rate and delay change with time, perhaps with a modem's buffer in front of it.
//!
//! ```text
//!   without a modem                         with a modem
//!
//!   [ discipline ] ─▶ line ─▶ delay         [ discipline ] ─▶ shaper ─▶ [ buffer ] ─▶ line ─▶ delay
//!     waits until the line is free             at a rate of its own       FIFO of bytes
//! ```
//!
//! - Without a modem the port gives the line one frame at a time, and its discipline knows the rate at every instant.
//! - With a modem the port does not know the line: it sends at the rate of its shaper, or as fast as it can, into the
//!   modem's FIFO. A frame that finds the FIFO full is lost. Latency arises in the FIFO if the shaper is faster than
//!   the line.
//!
//! # When the rate or the delay changes
//!
//! The line sends the bits that it can at each instant: the remaining bits of a frame in transmission are sent at the
//! new rate. In an outage the frame waits, and continues after it. No fraction of a bit gets lost while the line is
//! busy. The whole course is known in advance, and no later frame changes the departure of an earlier frame, so all of
//! this is arithmetic on the frame's arrival at the line, without events.
//!
//! A frame gets the delay at the time when its last bit leaves. It never overtakes: after the delay has decreased, it
//! arrives no earlier than the frame before it.

use std::collections::VecDeque;

use weir_base::varying::{BIT, Varying, Work};
use weir_base::{Bytes, Framing, Instant, Rate, Span};
use weir_path::egress::port::Transmission;

/// The rate, the delay and the modem of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSpec {
    /// The rate; unlimited if absent.
    pub rate: Option<Varying<Rate>>,
    /// The delay.
    pub delay: Varying<Span>,
    /// Maximum bytes (layer 2) that wait in the modem in front of the line, without the frame in transmission; no modem
    /// if absent.
    pub buffer: Option<Bytes>,
}

/// A line that sends one frame at a time.
#[derive(Debug)]
pub(crate) struct Line {
    spec: LineSpec,
    /// Converts a frame's layer-2 length to its bytes on the wire.
    framing: Framing,
    /// Time at which all frames so far are sent; and the further work that the line could have done by then, since
    /// times are whole nanoseconds.
    free_at: Instant,
    spare: Work,
    /// Arrival of the last frame.
    last: Instant,
    /// The frames in the modem, with the start of their transmission, and their bytes.
    waiting: VecDeque<(Instant, u64)>,
    waiting_bytes: u64,
    /// The rate last reported to the discipline.
    told: Option<Rate>,
}

impl Line {
    /// A line at time zero.
    pub(crate) fn new(spec: LineSpec, framing: Framing) -> Self {
        Self {
            spec,
            framing,
            free_at: Instant::ZERO,
            spare: 0,
            last: Instant::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            told: None,
        }
    }

    /// The rate, delay and modem of the line.
    pub(crate) fn spec(&self) -> &LineSpec {
        &self.spec
    }

    /// Whether every frame arrives later than it is sent.
    pub(crate) fn takes_time(&self) -> bool {
        self.spec.rate.is_some() || self.spec.delay.values().all(|delay| delay > Span::ZERO)
    }

    /// Maximum number of frames that the port may give the line at `now`.
    pub(crate) fn room(&self, now: Instant) -> usize {
        let one_at_a_time = self.spec.buffer.is_none() && self.spec.rate.is_some();
        if one_at_a_time {
            usize::from(self.free_at <= now)
        } else {
            usize::MAX
        }
    }

    /// Time at which the port may give the line the next frame; `None` if it may now, or if an outage never ends.
    pub(crate) fn next_room(&self, now: Instant) -> Option<Instant> {
        let waits = self.room(now) == 0 && self.free_at < Instant::FAR_FUTURE;
        waits.then_some(self.free_at)
    }

    /// The rate at `now`, if the port knows the line's rate and the rate has changed since the last report. An outage
    /// is not reported to a discipline, because a rate of zero is not a valid parameter.
    pub(crate) fn news(&mut self, now: Instant) -> Option<Rate> {
        if self.spec.buffer.is_some() {
            return None;
        }
        let rate = self.spec.rate.as_ref()?.at(now);
        if rate == Rate::default() || self.told == Some(rate) {
            return None;
        }
        self.told = Some(rate);
        self.told
    }

    /// Takes a frame of `bytes` bytes (layer 2) at `now`: returns its transmission and its arrival at the other end, or
    /// `None` if the modem has no room.
    pub(crate) fn send(&mut self, bytes: u64, now: Instant) -> Option<(Transmission, Instant)> {
        if let Some(buffer) = self.spec.buffer {
            let waiting = self.waiting(now);
            if self.free_at > now && waiting + bytes > buffer.0 {
                return None;
            }
        }
        let sending = self.transmit(bytes, now);
        if sending.start > now {
            self.waiting.push_back((sending.start, bytes));
            self.waiting_bytes += bytes;
        }
        self.last = self.last.max(sending.end + self.spec.delay.at(sending.end));
        Some((sending, self.last))
    }

    fn transmit(&mut self, bytes: u64, now: Instant) -> Transmission {
        let Some(rate) = &self.spec.rate else {
            return Transmission {
                start: now,
                end: now,
            };
        };
        if now > self.free_at {
            (self.free_at, self.spare) = (now, 0); // the line was idle
        }
        let start = self.free_at;
        let wire_bytes = self.framing.wire_bytes(bytes);
        let work = Work::from(wire_bytes * 8) * BIT;
        let (end, spare) = match work.checked_sub(self.spare) {
            Some(work) => rate.done(start, work),
            None => (start, self.spare - work),
        };
        (self.free_at, self.spare) = (end, spare);
        Transmission { start, end }
    }

    /// Bytes that wait in the modem at `now`.
    fn waiting(&mut self, now: Instant) -> u64 {
        while let Some((_, bytes)) = self.waiting.pop_front_if(|(start, _)| *start <= now) {
            self.waiting_bytes -= bytes;
        }
        self.waiting_bytes
    }

    /// Bytes on the wire of the packets that wait in the modem at `now`.
    pub(crate) fn behind(&self, now: Instant) -> u64 {
        let waiting = self.waiting.iter().filter(|(start, _)| *start > now);
        waiting
            .map(|(_, bytes)| self.framing.wire_bytes(*bytes))
            .sum()
    }

    /// Releases memory that is not needed now.
    pub(crate) fn relax(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::Streams;
    use weir_base::setting::Scalar;
    use weir_discipline::Spec;
    use weir_packet::{DropCounters, Keys, Packet, Slot};
    use weir_path::egress::port::{Link, Port};

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    fn line(rate: &str, delay: &str, buffer: Option<u64>) -> Line {
        let spec = LineSpec {
            rate: Some(rate.parse().unwrap()),
            delay: delay.parse().unwrap(),
            buffer: buffer.map(Bytes),
        };
        Line::new(spec, Framing::bytes(0))
    }

    #[test]
    fn the_rest_of_a_frame_goes_at_the_new_rate() {
        // 1500 B are 12 000 bit: 1 ms at 12 Mbit/s.
        let mut line = line(
            "12 Mbit, 3 Mbit from 10 ms, outage from 20 ms, 12 Mbit from 30 ms",
            "5 ms",
            None,
        );
        let mut send = |at| {
            let (sending, arrival) = line.send(1500, at).unwrap();
            (sending.start, sending.end, arrival)
        };
        assert_eq!(send(ms(0)), (ms(0), ms(1), ms(6)));
        let half = ms(9) + Span::from_micros(500);
        assert_eq!(send(half), (half, ms(12), ms(17)));
        assert_eq!(
            send(ms(18)),
            (
                ms(18),
                ms(30) + Span::from_micros(500),
                ms(35) + Span::from_micros(500)
            )
        );
    }

    #[test]
    fn a_frame_never_overtakes_when_the_delay_falls() {
        let mut line = line("12 Mbit", "20 ms, 5 ms from 10 ms", None);
        let mut arrival = |at| line.send(1500, ms(at)).unwrap().1;
        // The frame that ends at 10 ms has the new delay, but the frame before it is still in flight.
        assert_eq!(
            [arrival(8), arrival(9), arrival(12), arrival(24)],
            [29, 29, 29, 30].map(ms)
        );
    }

    #[test]
    fn a_modem_holds_its_bytes_and_no_more() {
        let mut line = line("12 Mbit", "0 s", Some(3000));
        let taken: Vec<bool> = (0..4).map(|_| line.send(1500, ms(0)).is_some()).collect();
        // One frame is being sent, two wait.
        assert_eq!(taken, [true, true, true, false]);
        assert_eq!((line.waiting(ms(0)), line.room(ms(0))), (3000, usize::MAX));
        assert_eq!(line.waiting(ms(1)), 1500);
        assert!(line.send(1500, ms(1)).is_some());
    }

    proptest! {
        /// Whatever the course: frames arrive in order, and a busy line does all the work that is possible.
        #[test]
        fn a_busy_line_wastes_nothing_and_keeps_the_order(
            steps in prop::collection::vec((1_u64..20, 100_000_u64..50_000_000, 0_u64..30), 1..6),
            sizes in prop::collection::vec(60_u64..1515, 1..60),
        ) {
            let mut at = 0;
            let (mut rates, mut delays) = (Vec::new(), Vec::new());
            for (gap, bps, delay) in steps {
                rates.push((Span::from_millis(at), Rate::from_bps(bps)));
                delays.push((Span::from_millis(at), Span::from_millis(delay)));
                at += gap;
            }
            let rate = Varying::new(rates, Some(Span::from_millis(at))).unwrap();
            let delay = Varying::new(delays, Some(Span::from_millis(at))).unwrap();
            let mut line = Line::new(LineSpec { rate: Some(rate.clone()), delay, buffer: Some(Bytes(1 << 20)) }, Framing::bytes(0));
            let mut arrivals = Vec::new();
            for size in &sizes {
                arrivals.push(line.send(*size, Instant::ZERO).unwrap().1);
            }
            prop_assert!(arrivals.is_sorted());
            let bits: u64 = sizes.iter().map(|size| size * 8).sum();
            prop_assert_eq!(rate.done(Instant::ZERO, Work::from(bits) * BIT).0, line.free_at);
        }

        /// The lab emulates a line with an `impair` port whose parameters change at their times.
        #[test]
        fn a_line_is_the_labs_emulation_of_it(
            steps in prop::collection::vec((1_u64..9, 1_u64..40, 0_u64..9), 1..6),
            packets in prop::collection::vec((0_u64..1_500_000, 60_u32..1515), 1..60),
            buffer in 2_000_u64..20_000,
        ) {
            // Odd numbers, so that no frame ends at the instant of a change.
            let (mut at, mut rates, mut delays) = (Span::ZERO, Vec::new(), Vec::new());
            for (gap, rate, delay) in steps {
                rates.push((at, Rate::from_bps(rate * 999_983)));
                delays.push((at, Span::from_millis(delay)));
                at = at + Span::from_nanos(gap * 1_000_003);
            }
            let spec = |rate: Rate, delay: Span| {
                let settings = [
                    ("rate", rate.to_string()),
                    ("delay", delay.to_string()),
                    ("buffer", Bytes(buffer).to_string()),
                    ("limit", "100000".to_owned()),
                ];
                let settings = settings.map(|(name, text)| (name, Scalar::Text(text)));
                Spec::check("impair", settings.iter().map(|(name, value)| (*name, value))).unwrap()
            };
            let changes: Vec<_> = rates.iter().zip(&delays).map(|((at, rate), (_, delay))| {
                (Instant::ZERO + *at, spec(*rate, *delay))
            }).collect();
            let mut line = Line::new(LineSpec {
                rate: Some(Varying::new(rates, None).unwrap()),
                delay: Varying::new(delays, None).unwrap(),
                buffer: Some(Bytes(buffer)),
            }, Framing::bytes(24));
            let link = Link { rate: None, framing: Framing::bytes(24), frame_bytes_max: 1514 };
            let mut port = Port::new(changes[0].1.clone(), link, Instant::ZERO, &Streams::new(1));
            let (keys, mut fates) = (Keys::new(packets.len(), (1, 2)), DropCounters::default());
            let mut emulated = Vec::new();
            let mut changes = changes.into_iter().skip(1).peekable();
            let (mut expected, mut coming, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
            for (number, (gap, len)) in packets.into_iter().enumerate() {
                now += Span::from_nanos(gap);
                coming.push(Packet::new(number as u64, Slot(number as u32), len, now));
                if let Some((_, arrival)) = line.send(u64::from(len), now) {
                    expected.push((number as u64, arrival));
                }
            }
            let mut coming = coming.into_iter().peekable();
            let mut wake = None;
            loop {
                let never = Instant::FAR_FUTURE;
                let change = changes.peek().map_or(never, |(at, _)| *at);
                let packet = coming.peek().map_or(never, |packet| packet.arrived);
                let due = change.min(packet).min(wake.unwrap_or(never));
                if due == never {
                    break;
                }
                if change == due && let Some((_, spec)) = changes.next() {
                    port.set(spec, due).unwrap();
                }
                while let Some(packet) = coming.next_if(|packet| packet.arrived == due) {
                    port.offer(packet);
                }
                let mut departed = |packet: Packet, _| emulated.push((packet.id, due));
                wake = port.step(due, &keys, &mut fates, usize::MAX, &mut departed);
            }
            prop_assert_eq!(emulated, expected);
        }
    }
}
