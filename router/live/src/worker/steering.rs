//! A port's rate, set by another thread.
//!
//! ```text
//!   worker's thread                    the thread that finds the rate
//!   each turn: bytes sent ---------->  read before each probe
//!              the port's rate <-----  set, then the worker is woken
//!              round trips ---------->  taken at least every few milliseconds
//! ```
//!
//! The threads share numbers instead of sending commands: reading never waits for the forwarding thread, and rates that
//! come faster than its iterations do not queue up, because only the latest rate counts. For a port that measures its
//! rate by the round trips of its traffic, these wait in a list of bounded length. The forwarding thread never waits
//! for the list: while the other thread empties it, the round trips stay with the port until the next iteration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_base::{Instant, Rate};
use weir_path::plane::Plane;
use weir_path::round_trips::RoundTrip;

use super::Worker;
use crate::mutex::lock;

/// Maximum round trips that wait in the list; more are dropped. About a thousand arrive per second.
const ROUND_TRIPS_MAX: usize = 256;

/// The numbers that a port shares with the thread that finds its rate.
#[derive(Debug, Default)]
pub struct Steering {
    /// Bytes sent on the wire so far: the port's own, and the kernel's that are charged to the port.
    sent: AtomicU64,
    /// The desired rate in bit/s; zero before the first rate.
    rate: AtomicU64,
    /// Round trips of the port's traffic, in the order of their answers.
    round_trips: Mutex<Vec<RoundTrip>>,
    /// The port was removed, or the worker has ended.
    ended: AtomicBool,
}

impl Steering {
    /// Bytes sent on the wire so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sets the rate that a steered port adopts in the next iteration of the forwarding thread.
    pub fn set_rate(&self, rate: Rate) {
        self.rate.store(rate.as_bps(), Ordering::Relaxed);
    }

    /// The rate set last; `None` before the first.
    pub(crate) fn rate(&self) -> Option<Rate> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => Some(Rate::from_bps(rate)),
        }
    }

    /// Replaces the contents of `taken` by the round trips of the port's traffic since the last call.
    pub fn take_round_trips(&self, taken: &mut Vec<RoundTrip>) {
        taken.clear();
        std::mem::swap(taken, &mut *lock(&self.round_trips));
    }

    /// Adds round trips to the list, up to its limit, unless the other thread holds it.
    fn hand_over(&self, plane: &mut Plane, number: usize) {
        if let Ok(mut waiting) = self.round_trips.try_lock() {
            let room = ROUND_TRIPS_MAX - waiting.len();
            waiting.extend(plane.take_round_trips(number).take(room));
        }
    }

    /// Whether the port was removed, or the worker has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Worker {
    /// The numbers that this port shares with the thread that finds its rate.
    pub fn steering(&self, number: usize) -> Arc<Steering> {
        Arc::clone(&self.links[number].steering)
    }

    /// Sets whether this port takes its rate from its [`Steering`], and whether the round trips of its traffic go
    /// there.
    pub fn set_steered(&mut self, number: usize, is_steered: bool, by_traffic: bool) {
        self.links[number].is_steered = is_steered;
        self.plane
            .measure_round_trips(number, is_steered && by_traffic);
    }

    /// Exchanges numbers with the threads that find rates.
    pub(super) fn steer(&mut self, now: Instant) {
        let Self { links, plane, .. } = self;
        let steered = links.iter().enumerate().filter(|(_, link)| link.is_steered);
        for (number, link) in steered {
            link.steering.hand_over(plane, number);
            let slot = &plane.ports()[number];
            let sent = slot.on_the_wire();
            link.steering.sent.store(sent, Ordering::Relaxed);
            let before = slot.port.link().rate;
            if let Some(rate) = link.steering.rate().filter(|rate| Some(*rate) != before) {
                plane.pace_port(number, rate, now);
            }
        }
    }
}
