//! A periodic callback that shows that the forwarding thread iterates.

use weir_base::{Instant, Span};

use super::Worker;

/// A function that the forwarding thread calls once per period, from its own loop. The function must not block.
pub(super) struct Pulse {
    beat: Box<dyn FnMut() + Send>,
    period: Span,
    next: Instant,
}

impl Worker {
    /// Calls this function once per period as long as the thread iterates.
    pub fn set_pulse(&mut self, period: Span, beat: impl FnMut() + Send + 'static) {
        self.pulse = Some(Pulse {
            beat: Box::new(beat),
            period,
            next: Instant::ZERO,
        });
    }

    /// Calls the function if it is due; returns when it is due next.
    pub(super) fn beat(&mut self, now: Instant) -> Option<Instant> {
        let pulse = self.pulse.as_mut()?;
        if pulse.next <= now {
            (pulse.beat)();
            pulse.next = now + pulse.period;
        }
        Some(pulse.next)
    }
}
