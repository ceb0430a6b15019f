//! The forwarding thread shows that it makes turns.

use weir_base::{Instant, Span};

use super::Worker;

/// A function that the forwarding thread calls once in a period, from its own loop. It must not block.
pub(super) struct Pulse {
    beat: Box<dyn FnMut() + Send>,
    period: Span,
    next: Instant,
}

impl Worker {
    /// Calls this function once in a period as long as the thread makes turns.
    pub fn set_pulse(&mut self, period: Span, beat: impl FnMut() + Send + 'static) {
        self.pulse = Some(Pulse {
            beat: Box::new(beat),
            period,
            next: Instant::ZERO,
        });
    }

    /// Calls the function if it is time; returns when it is time again.
    pub(super) fn beat(&mut self, now: Instant) -> Option<Instant> {
        let pulse = self.pulse.as_mut()?;
        if pulse.next <= now {
            (pulse.beat)();
            pulse.next = now + pulse.period;
        }
        Some(pulse.next)
    }
}
