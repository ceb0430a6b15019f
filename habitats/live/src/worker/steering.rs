//! The rate of a port, in the hands of another thread.
//!
//! ```text
//!   worker's thread                    the thread that finds the rate
//!   each turn: bytes sent ---------->  read before each probe
//!              the port's rate <-----  set, then the worker is woken
//! ```
//!
//! A pair of numbers instead of commands: reading never waits for the forwarding thread, and rates that come faster than
//! its turns do not queue up, because only the latest one counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_base::{Instant, Rate};
use weir_path::plane::PlanePort;

use super::Worker;

/// The numbers that a port shares with the thread that finds its rate.
#[derive(Debug, Default)]
pub struct Steering {
    /// Bytes on the wire so far: those of the port, and those of the kernel that are charged to it.
    sent: AtomicU64,
    /// The wanted rate in bit/s; zero before the first one.
    rate: AtomicU64,
    /// The port is gone.
    ended: AtomicBool,
}

impl Steering {
    /// Bytes on the wire so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sets the rate that the port takes with the next turn of the forwarding thread, if it takes it from here.
    pub fn set_rate(&self, rate: Rate) {
        self.rate.store(rate.as_bps(), Ordering::Relaxed);
    }

    /// The rate that was set last.
    pub(crate) fn rate(&self) -> Option<Rate> {
        match self.rate.load(Ordering::Relaxed) {
            0 => None,
            rate => Some(Rate::from_bps(rate)),
        }
    }

    /// Whether the port is gone.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Bytes of a port on the wire so far.
fn on_the_wire(slot: &PlanePort) -> u64 {
    let (sent, charged) = (slot.port.sent(), slot.charged);
    let frames = (sent.packets + charged.packets) as i64;
    let framing = frames * i64::from(slot.port.link().overhead);
    (sent.bytes + charged.bytes).saturating_add_signed(framing)
}

impl Worker {
    /// The numbers that this port shares with whoever finds its rate.
    pub fn steering(&self, number: usize) -> Arc<Steering> {
        Arc::clone(&self.links[number].steering)
    }

    /// Sets whether this port takes its rate from there.
    pub fn set_steered(&mut self, number: usize, is_steered: bool) {
        self.links[number].is_steered = is_steered;
    }

    /// Exchanges numbers with those who find rates.
    pub(super) fn steer(&mut self, now: Instant) {
        let Self { links, plane, .. } = self;
        let steered = links.iter().enumerate().filter(|(_, link)| link.is_steered);
        for (number, link) in steered {
            let slot = &plane.ports()[number];
            let sent = on_the_wire(slot);
            link.steering.sent.store(sent, Ordering::Relaxed);
            let before = slot.port.link().rate;
            if let Some(rate) = link.steering.rate().filter(|rate| Some(*rate) != before) {
                plane.pace_port(number, rate, now);
            }
        }
    }
}
