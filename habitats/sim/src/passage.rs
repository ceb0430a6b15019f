//! The passage of each flow at a watched port: when it came, when its first packet left, and its longest
//! outage.
//!
//! ```text
//!   offered                passed                          latest
//!   |------- it waits -----|==== === ======  outage  =======|
//! ```
//!
//! With admission control, the time between the first two is its acceptance delay. A flow that passed and is
//! refused again at once does not count as accepted for its goodput: a mechanism that lets waiting flows in
//! for a moment cleans up after itself. The port itself need not track flows.

use weir_base::{Instant, Span};

/// The interval in which flows that send are counted.
pub const SENDING_STEP: Span = Span::from_secs(10);
/// A flow that is refused sooner than this after it passed was not kept: a clean-up comes within a second,
/// and the next packet of the flow some round trips later.
const KEPT_AFTER: Span = Span::from_secs(2);
/// Packets after which a flow is established: a later pause is an outage.
const ESTABLISHED_PACKETS: u64 = 1000;

/// One flow at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When its first packet came to the port.
    pub offered: Option<Instant>,
    /// When the first one left.
    pub passed: Option<Instant>,
    /// When the first packet left after which the flow was kept.
    pub kept: Option<Instant>,
    /// When its latest packet was refused.
    refused: Instant,
    /// When the latest one left.
    pub latest: Instant,
    /// How many have left.
    pub packets: u64,
    /// The longest time between two that left, once the flow was established.
    pub outage: Span,
    /// The step in which it was counted as sending, from one on.
    counted: u64,
}

impl Passage {
    const NONE: Self = Self {
        offered: None,
        passed: None,
        kept: None,
        refused: Instant::ZERO,
        latest: Instant::ZERO,
        packets: 0,
        outage: Span::ZERO,
        counted: 0,
    };

    /// The longest time without a packet up to `end`, if the flow was established; one that goes on sending
    /// until it ends has no outage at its end.
    pub fn outage_until(&self, end: Instant, has_ended: bool) -> Option<Span> {
        if self.packets < ESTABLISHED_PACKETS {
            return None;
        }
        let last = match has_ended {
            true => Span::ZERO,
            false => end.since(self.latest),
        };
        Some(self.outage.max(last))
    }
}

/// All flows at one port, by their number.
#[derive(Clone, Debug, Default)]
pub struct Passages {
    flows: Vec<Passage>,
    /// In each step, by traffic: flows of which a packet left.
    pub sending: Vec<Vec<u64>>,
}

impl Passages {
    /// The flow with this number.
    pub fn get(&self, flow: u32) -> Passage {
        let flow = self.flows.get(flow as usize);
        flow.copied().unwrap_or(Passage::NONE)
    }

    /// A packet came.
    #[inline]
    pub(crate) fn offered(&mut self, flow: u32, now: Instant) {
        let passage = self.place(flow);
        if passage.offered.is_none() {
            passage.offered = Some(now);
        }
    }

    /// A packet came and was not admitted.
    pub(crate) fn refused(&mut self, flow: u32, now: Instant) {
        let passage = self.place(flow);
        passage.refused = now;
        passage.kept = passage.kept.filter(|at| now.since(*at) >= KEPT_AFTER);
    }

    /// A packet left that had come at `enqueued`.
    #[inline]
    pub(crate) fn departed(&mut self, flow: u32, traffic: u32, enqueued: Instant, now: Instant) {
        let step = now.as_nanos() / SENDING_STEP.as_nanos();
        let passage = self.place(flow);
        // A packet that was queued before the refusal does not show that the flow is accepted again.
        if passage.kept.is_none() && enqueued >= passage.refused {
            passage.kept = Some(now);
        }
        if passage.passed.is_none() {
            passage.passed = Some(now);
        } else if passage.packets >= ESTABLISHED_PACKETS {
            passage.outage = passage.outage.max(now.since(passage.latest));
        }
        passage.latest = now;
        passage.packets += 1;
        if passage.counted <= step {
            passage.counted = step + 1;
            self.count(step as usize, traffic as usize);
        }
    }

    fn place(&mut self, flow: u32) -> &mut Passage {
        let flow = flow as usize;
        if flow >= self.flows.len() {
            self.flows.resize(flow + 1, Passage::NONE);
        }
        &mut self.flows[flow]
    }

    fn count(&mut self, step: usize, traffic: usize) {
        if step >= self.sending.len() {
            self.sending.resize(step + 1, Vec::new());
        }
        let counts = &mut self.sending[step];
        if traffic >= counts.len() {
            counts.resize(traffic + 1, 0);
        }
        counts[traffic] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_flow_waits_then_sends_then_pauses() {
        let mut passages = Passages::default();
        passages.offered(3, at(100));
        passages.offered(3, at(200));
        assert_eq!(passages.get(3).passed, None);
        for n in 0..1200 {
            passages.departed(3, 1, at(5000 + n), at(5000 + n));
        }
        passages.departed(3, 1, at(9000), at(9000));
        let flow = passages.get(3);
        assert_eq!((flow.offered, flow.passed), (Some(at(100)), Some(at(5000))));
        // From 6199 ms to 9000 ms.
        assert_eq!(flow.outage, Span::from_millis(2801));
        assert_eq!(
            flow.outage_until(at(15_000), false),
            Some(Span::from_secs(6))
        );
        assert_eq!(flow.outage_until(at(15_000), true), Some(flow.outage));
        assert_eq!(passages.get(99), Passage::NONE);
    }

    #[test]
    fn a_flow_that_has_sent_little_has_no_outage() {
        let mut passages = Passages::default();
        passages.departed(0, 0, at(0), at(0));
        passages.departed(0, 0, at(9000), at(9000));
        assert_eq!(passages.get(0).outage_until(at(20_000), false), None);
    }

    #[test]
    fn a_flow_that_is_refused_at_once_was_not_kept() {
        let mut passages = Passages::default();
        let kept = |passages: &Passages| passages.get(0).kept;
        passages.departed(0, 0, at(1000), at(1200));
        assert_eq!(kept(&passages), Some(at(1200)));
        // Cleaned up; what was queued before still leaves.
        passages.refused(0, at(1600));
        passages.departed(0, 0, at(1500), at(1700));
        assert_eq!(kept(&passages), None);
        // The next run lets it in for good, and a later one takes it off the list for a moment.
        passages.departed(0, 0, at(4000), at(4100));
        passages.refused(0, at(6100));
        passages.departed(0, 0, at(7000), at(7000));
        let flow = passages.get(0);
        assert_eq!((flow.passed, flow.kept), (Some(at(1200)), Some(at(4100))));
    }

    #[test]
    fn senders_are_counted_once_in_ten_seconds() {
        let mut passages = Passages::default();
        for (flow, traffic, ms) in [
            (0, 0, 0),
            (0, 0, 9_999),
            (1, 1, 500),
            (0, 0, 10_000),
            (2, 0, 10_001),
        ] {
            passages.departed(flow, traffic, at(ms), at(ms));
        }
        assert_eq!(passages.sending, [vec![1, 1], vec![2]]);
    }
}
