//! The passage of each flow at a watched port: the arrival and the departure of its first packet, and its longest
//! outage.
//!
//! ```text
//!   offered                passed                          latest
//!   |------- it waits -----|==== === ======  outage  =======|
//! ```
//!
//! With admission control, the time from `offered` to `passed` is the flow's acceptance delay. A flow that passed but
//! is refused again soon does not count as accepted for its goodput: a mechanism that admits waiting flows for a moment
//! cleans up afterwards. The port itself need not track flows.

use weir_base::{Instant, Span};

/// The interval in which sending flows are counted.
pub const SENDING_STEP: Span = Span::from_secs(10);
/// A flow that is refused sooner than this after it passed was not kept: a clean-up follows within a second, and the
/// next packet of the flow some round trips later.
const KEPT_AFTER: Span = Span::from_secs(2);
/// Number of packets after which a flow is established: a later pause is an outage.
const ESTABLISHED_PACKETS: u64 = 1000;

/// One flow at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Arrival of its first packet at the port.
    pub offered: Option<Instant>,
    /// Departure of the first packet.
    pub passed: Option<Instant>,
    /// Departure of the first packet after which the flow was kept.
    pub kept: Option<Instant>,
    /// Payload in the window that has left since then.
    pub kept_bytes: u64,
    /// Time at which its latest packet was refused.
    refused: Instant,
    /// Departure of the latest packet.
    pub latest: Instant,
    /// Number of packets that have left.
    pub packets: u64,
    /// Longest time between two departures after the flow was established.
    pub outage: Span,
    /// Number of the latest step, from one on, in which it was counted as sending.
    counted: u64,
}

impl Passage {
    const NONE: Self = Self {
        offered: None,
        passed: None,
        kept: None,
        kept_bytes: 0,
        refused: Instant::ZERO,
        latest: Instant::ZERO,
        packets: 0,
        outage: Span::ZERO,
        counted: 0,
    };

    /// The longest time without a packet up to `end`, if the flow was established. A flow that sends until it ends has
    /// no outage at its end.
    pub fn outage_until(&self, end: Instant, has_ended: bool) -> Option<Span> {
        if self.packets < ESTABLISHED_PACKETS {
            return None;
        }
        let last = if has_ended {
            Span::ZERO
        } else {
            end.since(self.latest)
        };
        Some(self.outage.max(last))
    }
}

/// All flows at one port, by their number.
#[derive(Clone, Debug, Default)]
pub struct Passages {
    flows: Vec<Passage>,
    /// For each step and traffic: the number of flows with a packet that left.
    pub sending: Vec<Vec<u64>>,
}

impl Passages {
    /// The flow with this number.
    pub fn get(&self, flow: u32) -> Passage {
        let flow = self.flows.get(flow as usize);
        flow.copied().unwrap_or(Passage::NONE)
    }

    /// Records that a packet arrived.
    #[inline]
    pub(crate) fn offered(&mut self, flow: u32, now: Instant) {
        let passage = self.place(flow);
        if passage.offered.is_none() {
            passage.offered = Some(now);
        }
    }

    /// Records that a packet arrived and was not admitted.
    pub(crate) fn refused(&mut self, flow: u32, now: Instant) {
        let passage = self.place(flow);
        passage.refused = now;
        passage.kept = passage.kept.filter(|at| now.since(*at) >= KEPT_AFTER);
    }

    /// Records that a packet left which had arrived at `enqueued`, with this payload in the window.
    #[inline]
    pub(crate) fn departed(
        &mut self,
        flow: u32,
        traffic: u32,
        enqueued: Instant,
        now: Instant,
        payload: u64,
    ) {
        let step = now.as_nanos() / SENDING_STEP.as_nanos();
        let passage = self.place(flow);
        // A packet that was queued before the refusal does not prove that the flow is accepted again.
        if passage.kept.is_none() && enqueued >= passage.refused {
            (passage.kept, passage.kept_bytes) = (Some(now), 0);
        }
        passage.kept_bytes += payload;
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
            passages.departed(3, 1, at(5000 + n), at(5000 + n), 100);
        }
        passages.departed(3, 1, at(9000), at(9000), 100);
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
        passages.departed(0, 0, at(0), at(0), 100);
        passages.departed(0, 0, at(9000), at(9000), 100);
        assert_eq!(passages.get(0).outage_until(at(20_000), false), None);
    }

    #[test]
    fn a_flow_that_is_refused_at_once_was_not_kept() {
        let mut passages = Passages::default();
        let kept = |passages: &Passages| passages.get(0).kept;
        passages.departed(0, 0, at(1000), at(1200), 100);
        assert_eq!(kept(&passages), Some(at(1200)));
        // The flow is cleaned up; packets queued before still leave.
        passages.refused(0, at(1600));
        passages.departed(0, 0, at(1500), at(1700), 100);
        assert_eq!(kept(&passages), None);
        // The next run admits the flow for good, and a later run takes it off the list for a moment.
        passages.departed(0, 0, at(4000), at(4100), 100);
        passages.refused(0, at(6100));
        passages.departed(0, 0, at(7000), at(7000), 100);
        let flow = passages.get(0);
        assert_eq!((flow.passed, flow.kept), (Some(at(1200)), Some(at(4100))));
        assert_eq!(
            flow.kept_bytes, 200,
            "the packet with which it was accepted, and one more"
        );
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
            passages.departed(flow, traffic, at(ms), at(ms), 100);
        }
        assert_eq!(passages.sending, [vec![1, 1], vec![2]]);
    }
}
