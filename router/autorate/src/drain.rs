//! A drain: the port empties the queue behind it, and the delay shows whether the port had caused that queue.

use weir_base::{Instant, Span};

use super::reflectors::Answer;

/// Shortest drain that can prove that the port did not cause the delay: the delay fell by less than `FALLS` of this
/// time, and rose by less than `RISES` of it.
const PROOF: Span = Span::from_millis(200);
const FALLS: f64 = 0.05;
const RISES: f64 = 0.2;

/// A drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) since: Instant,
    /// Whether the port sends at its minimum rate; otherwise at half of the link's delivery rate.
    pub(super) hard: bool,
    /// Whether only an answer with a low delay ends the drain, not the estimate of the bits behind the port.
    pub(super) until_seen: bool,
    /// Time and delay of the first and the last probe sent during the drain; and the minimum delay of all of them.
    pub(super) first: Option<(Instant, Span)>,
    pub(super) last: (Instant, Span),
    pub(super) least: Span,
    /// The delivery rate of the link in bit/s, if its queue has revealed it.
    pub(super) delivered: Option<f64>,
}

impl Drain {
    /// Takes the delay of a probe sent during the drain.
    pub(super) fn take(&mut self, answer: &Answer) {
        self.first.get_or_insert((answer.at, answer.delay));
        self.last = (answer.at, answer.delay);
        self.least = self.least.min(answer.delay);
    }

    /// Whether the delay has failed to fall as the delay of the port's own queue would.
    pub(super) fn is_in_vain(&self) -> bool {
        let Some((at, delay)) = self.first else {
            return false;
        };
        let lasted = self.last.0.since(at);
        let part = |share| Span::from_secs_f64(lasted.as_secs_f64() * share);
        lasted >= PROOF && self.last.1 + part(FALLS) > delay && self.last.1 < delay + part(RISES)
    }
}
