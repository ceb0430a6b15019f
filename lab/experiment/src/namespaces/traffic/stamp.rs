//! The sending time in the first bytes of a datagram, and the delays that a receiver computes from it.
//!
//! ```text
//!   | nanoseconds of the machine's monotonic clock, big-endian (8 B) | zeros ..
//! ```
//!
//! Namespaces of one machine share this clock, so a one-way delay needs no second clock. A receiver that polls adds the
//! time until its next poll. A datagram that is too short, or whose time is outside this run, has no delay.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};

use crate::reported::{DELAY_STEP, Delays};

/// Length of a stamp.
const BYTES: usize = 8;
/// Maximum number of steps of a delay, 10 s; longer delays count as this.
const STEPS_MAX: u64 = 1_000_000;

/// Writes the time into a payload, if the payload is long enough.
pub(super) fn write(payload: &mut [u8], now: Instant) {
    if let Some(stamp) = payload.first_chunk_mut::<BYTES>() {
        *stamp = now.as_nanos().to_be_bytes();
    }
}

/// The delay of a payload received at `now`, in a run that began at `start`.
fn delay(payload: &[u8], start: Instant, now: Instant) -> Option<Span> {
    let stamp = u64::from_be_bytes(*payload.first_chunk::<BYTES>()?);
    let sent = Instant::from_nanos(stamp);
    (start <= sent && sent <= now).then(|| now.since(sent))
}

/// The delays of one port, in steps.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<u32, u64>);

impl Counts {
    /// Adds the delay of a payload.
    pub(super) fn add(&mut self, payload: &[u8], start: Instant, now: Instant) {
        if let Some(delay) = delay(payload, start, now) {
            let steps = delay.as_nanos() / DELAY_STEP.as_nanos();
            *self.0.entry(steps.min(STEPS_MAX) as u32).or_default() += 1;
        }
    }

    /// The delays as a line of the report.
    pub(super) fn reported(self, port: u16) -> Delays {
        Delays {
            port,
            counts: self.0.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_are_counted_in_steps() {
        let at = |us: u64| Instant::from_nanos(1000 * us);
        let mut payload = [0; 64];
        write(&mut payload, at(1_000_000));
        let mut counts = Counts::default();
        for now in [1_025_004, 1_025_009, 1_000_000, 99_000_000] {
            counts.add(&payload, at(500_000), at(now));
        }
        // Stamps from before the run and from the future, and a payload without a stamp.
        counts.add(&payload, at(1_000_001), at(1_025_000));
        counts.add(&payload, at(500_000), at(999_999));
        counts.add(&[0; 64], at(500_000), at(1_025_000));
        counts.add(&payload[..7], at(500_000), at(1_025_000));
        assert_eq!(
            counts.reported(5001).counts,
            [(0, 1), (2500, 2), (1_000_000, 1)]
        );
        let mut short = [7; 3];
        write(&mut short, at(1));
        assert_eq!(short, [7; 3]);
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in prop::collection::vec(any::<u8>(), 0..20), start: u64, now: u64) {
            let [start, now] = [start, now].map(Instant::from_nanos);
            if let Some(delay) = delay(&payload, start, now) {
                prop_assert!(delay <= now.since(start));
            }
        }
    }
}
