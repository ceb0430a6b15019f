//! What flow-aware admission control asks of the scheduler behind it.
//!
//! Fair rate and priority load are differences of running sums over a time that the admission control
//! chooses; a scheduler only keeps the sums. Which of its packets and rounds count is the scheduler's
//! own matter: the papers define it differently for each.

use weir_base::{Instant, Span};

use crate::contract::Discipline;

/// A scheduler that tells streaming from elastic flows by what each of them has queued.
pub(crate) trait Scheduler: Discipline {
    /// Bytes of the flow with this hash (of `KeyKind::Flow`) that wait.
    fn queued_bytes(&self, flow: u64) -> u64;

    /// Running sums since the beginning.
    fn sums(&self, now: Instant) -> Sums;
}

/// Running sums, from which the fair rate and the priority load are estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sums {
    /// Bytes of priority packets: those sent where the scheduler is AFAN (equation 1), else those that
    /// have arrived.
    pub priority_bytes: u64,
    /// Bytes that one flow with packets waiting at all times would have been served.
    pub fair_bytes: f64,
    /// How long nothing was queued and nothing was sent.
    pub idle: Span,
}
