//! The load of a port: the bytes sent, as a share of the bytes that its rate permitted.

use weir_base::{Instant, Span};

/// Time over which the load is measured.
const OVER: Span = Span::from_millis(100);

/// The load of the latest tenth of a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Start of the measurement, and bytes sent by then.
    from: (Instant, u64),
    /// Bits that the port could have sent since.
    possible: f64,
    /// Time of the latest call of [`Self::take`].
    now: Instant,
    share: f64,
}

impl Load {
    /// Starts with no load at `now`, when the port has sent `sent` bytes.
    pub(super) fn new(now: Instant, sent: u64) -> Self {
        Self {
            from: (now, sent),
            possible: 0.0,
            now,
            share: 0.0,
        }
    }

    /// Takes the bytes sent up to `now`; since the previous call the port's rate was `rate` bit/s.
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

    /// The load as a share: 1 if the port always sent.
    pub(super) fn share(&self) -> f64 {
        self.share
    }
}
