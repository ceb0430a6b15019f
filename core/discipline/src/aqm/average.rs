//! The average length of a queue, as random early detection computes it.
//!
//! ```text
//!  queue   0    0    3    4    2    0    0
//!          |    |    |    |    |    |    |
//!  average falls for       moves a little to      falls again
//!          the idle time   each length found
//! ```
//!
//! Source: Floyd and Jacobson, ToN 1993, Figure 2 (avg and q_time).

use weir_base::{Instant, Span};

/// The average, in packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Average {
    /// The average length at the latest arrival.
    pub(crate) value: f64,
    /// While the queue is empty: the time up to which the average has been lowered for it.
    idle_since: Instant,
}

impl Average {
    /// The average of a queue that has been empty since the beginning.
    pub(crate) const ZERO: Self = Self {
        value: 0.0,
        idle_since: Instant::ZERO,
    };

    /// Updates the average when a packet arrives and finds `queue` packets waiting. If there are none, the
    /// average falls as if one packet had arrived at an empty queue in each `packet_time` of the idle time.
    pub(crate) fn arrive(&mut self, weight: f64, packet_time: Span, queue: usize, now: Instant) {
        if queue > 0 {
            self.value = (1.0 - weight) * self.value + weight * queue as f64;
            return;
        }
        let packets = now.since(self.idle_since).as_nanos() / packet_time.as_nanos();
        self.value *= power(1.0 - weight, packets);
        // The remaining idle time counts at the next arrival if this packet is not queued: many arrivals in
        // one packet time must not keep the average up.
        self.idle_since += packet_time.times(packets);
    }

    /// Notes that the queue has been empty since `now`.
    pub(crate) fn idle_from(&mut self, now: Instant) {
        self.idle_since = now;
    }
}

/// `base^exponent` from multiplications only: the power function may round differently on different
/// machines, but a seed must replay the same run on all of them.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 B at 100 Mbit/s.
    const PACKET_TIME: Span = Span::from_micros(80);

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn average_by_hand() {
        let mut average = Average {
            value: 10.0,
            ..Average::ZERO
        };
        // 0.998 * 10 + 0.002 * 20 = 9.98 + 0.04.
        average.arrive(0.002, PACKET_TIME, 20, Instant::ZERO);
        close(average.value, 10.02);
        // 0.998 * 10.02 + 0.002 * 500 = 9.99996 + 1.
        average.arrive(0.002, PACKET_TIME, 500, Instant::ZERO);
        close(average.value, 10.99996);
    }

    #[test]
    fn idle_time_by_hand() {
        let mut average = Average {
            value: 10.0,
            idle_since: Instant::from_nanos(1_000_000),
        };
        let mut arrive = |nanos| {
            average.arrive(0.002, PACKET_TIME, 0, Instant::from_nanos(nanos));
            average.value
        };
        // 879 us are ten times 80 us, and 79 us that do not count yet.
        // 0.998^10 = 0.980 179 043; 10 times that.
        close(arrive(1_879_000), 9.801_790_433_519_495);
        // 1 us later the eleventh packet is through: 9.801 790 434 * 0.998.
        close(arrive(1_880_000), 9.782_186_852_652_456);
        // No time has passed since that arrival.
        close(arrive(1_880_000), 9.782_186_852_652_456);
        // A day is 1.08e9 packet times, after which the average is zero.
        assert_eq!(arrive(86_400_000_000_000), 0.0);
    }

    #[test]
    fn powers_by_hand() {
        assert_eq!(power(0.5, 0), 1.0);
        assert_eq!(power(0.0, 0), 1.0);
        assert_eq!(power(0.0, 3), 0.0);
        assert_eq!(power(0.5, 13), 1.0 / 8192.0);
    }
}
