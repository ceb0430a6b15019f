//! A drain: the queue behind the port is emptied, and its delay shows whether it was the port's.

use weir_base::{Instant, Span};

use super::reflectors::Answer;

/// Shortest drain that can show that the delay is not the port's, the part of the time by which that must fall then,
/// and by which it must not rise.
const PROOF: Span = Span::from_millis(200);
const FALLS: f64 = 0.05;
const RISES: f64 = 0.2;

/// A drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) since: Instant,
    /// Whether the port sends as little as it may, or half of what the link delivers.
    pub(super) hard: bool,
    /// Whether only an answer ends it.
    pub(super) until_seen: bool,
    /// The first and the last probe that was sent in it: when, and its delay; and the least delay of all of them.
    pub(super) first: Option<(Instant, Span)>,
    pub(super) last: (Instant, Span),
    pub(super) least: Span,
    /// The rate in bit/s at which the link has delivered, as far as its queue has shown it.
    pub(super) delivered: Option<f64>,
}

impl Drain {
    /// Takes the delay of a probe that was sent in it.
    pub(super) fn take(&mut self, answer: &Answer) {
        self.first.get_or_insert((answer.at, answer.delay));
        self.last = (answer.at, answer.delay);
        self.least = self.least.min(answer.delay);
    }

    /// Whether the delay has not fallen as that of a queue would have.
    pub(super) fn is_in_vain(&self) -> bool {
        let Some((at, delay)) = self.first else {
            return false;
        };
        let lasted = self.last.0.since(at);
        let part = |share| Span::from_secs_f64(lasted.as_secs_f64() * share);
        lasted >= PROOF && self.last.1 + part(FALLS) > delay && self.last.1 < delay + part(RISES)
    }
}
