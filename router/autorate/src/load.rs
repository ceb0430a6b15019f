//! The load of a port: what it sent, as a share of what its rate permitted.

use weir_base::{Instant, Span};

/// Time over which it is taken.
const OVER: Span = Span::from_millis(100);

/// The load of the latest tenth of a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Start of the measurement, and bytes sent by then.
    from: (Instant, u64),
    /// Bits that the port could have sent since.
    possible: f64,
    /// The latest turn.
    now: Instant,
    share: f64,
}

impl Load {
    /// None at `now`, when `sent` bytes have been sent.
    pub(super) fn new(now: Instant, sent: u64) -> Self {
        Self {
            from: (now, sent),
            possible: 0.0,
            now,
            share: 0.0,
        }
    }

    /// Takes the bytes sent up to `now`, since the turn before at `rate` bit/s.
    pub(super) fn take(&mut self, now: Instant, sent: u64, rate: f64) {
        self.possible += rate * now.since(self.now).as_secs_f64();
        self.now = now;
        let (since, before) = self.from;
        if now.since(since) >= OVER && self.possible > 0.0 {
            self.share = sent.saturating_sub(before) as f64 * 8.0 / self.possible;
            *self = Self {
                share: self.share,
                ..Self::new(now, sent)
            };
        }
    }

    /// The share, 1 if the port always sent.
    pub(super) fn share(&self) -> f64 {
        self.share
    }
}
