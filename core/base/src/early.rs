//! The law of early drops: how likely a drop is at an average queue length, and how drops are spread.
//!
//! ```text
//!  p_b                          1 _ _ _ _ _ _ _ _ _ _ /|
//!   ^                                               /   |
//!   |                                            /      |
//!   |                          max_probability /        |
//!   |                     _______------'''    gentle    |   all dropped
//!   |______________------'                |             |
//!   +-------------|-----------------------|-------------|--> average
//!                min                     max         2 x max
//! ```
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", ToN 1993,
//! sections 4 and 7. A queue that decides by itself uses both halves. Where a controller computes p_b and
//! queues elsewhere draw, each side uses one half.

/// The probability p_b, before drops are spread evenly, by the average length of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Average from which packets are dropped.
    pub min: f64,
    /// Average at which p_b is `max_probability`.
    pub max: f64,
    /// The value of p_b at `max`.
    pub max_probability: f64,
    /// Whether p_b grows further from `max` to reach 1 at twice `max`, instead of jumping to 1.
    pub gentle: bool,
}

impl Curve {
    /// The average from which all packets are dropped.
    pub fn forced(&self) -> f64 {
        if self.gentle {
            2.0 * self.max
        } else {
            self.max
        }
    }

    /// The paper's p_b.
    pub fn probability(&self, average: f64) -> f64 {
        if average < self.min {
            0.0
        } else if average >= self.forced() {
            1.0
        } else if average < self.max {
            self.max_probability * (average - self.min) / (self.max - self.min)
        } else {
            let beyond = (average - self.max) / self.max;
            (self.max_probability + (1.0 - self.max_probability) * beyond).min(1.0)
        }
    }
}

/// The paper's p_a: the probability to draw with, for p_b and the number of packets since the last drop.
/// At a constant p_b, all distances between two drops are then equally likely, from 1 up to a maximum that
/// depends on the caller: 1/p_b - 1 if `count` includes the current packet (RED), 1/p_b if it does not.
pub fn spread(base: f64, count: u64) -> f64 {
    let due = count as f64 * base;
    if due < 1.0 {
        (base / (1.0 - due)).min(1.0)
    } else {
        1.0
    }
}

/// The p_a of ns-2 with `wait`: no packet is dropped for 1/p_b packets, and all distances from there
/// to 2/p_b - 1 are equally likely.
pub fn spread_waiting(base: f64, count: u64) -> f64 {
    let due = count as f64 * base;
    if due < 1.0 {
        0.0
    } else if due < 2.0 {
        (base / (2.0 - due)).min(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    const CURVE: Curve = Curve {
        min: 10.0,
        max: 30.0,
        max_probability: 0.1,
        gentle: true,
    };

    #[test]
    fn p_b_by_hand() {
        let p_b = |average| CURVE.probability(average);
        assert_eq!(p_b(9.9), 0.0);
        close(p_b(10.0), 0.0);
        close(p_b(15.0), 0.025); // 0.1 * (15 - 10) / (30 - 10)
        close(p_b(20.0), 0.05);
        close(p_b(30.0), 0.1);
        close(p_b(45.0), 0.55); // 0.1 + 0.9 * (45 - 30) / 30
        assert_eq!(p_b(60.0), 1.0);
        assert_eq!(CURVE.forced(), 60.0);
        let hard = Curve {
            gentle: false,
            ..CURVE
        };
        assert_eq!((hard.forced(), hard.probability(30.0)), (30.0, 1.0));
    }

    #[test]
    fn p_a_by_hand() {
        close(spread(0.02, 0), 0.02);
        close(spread(0.02, 1), 0.02 / 0.98);
        close(spread(0.02, 25), 0.04); // 0.02 / (1 - 0.5)
        close(spread(0.02, 49), 1.0); // 0.02 / (1 - 0.98)
        assert_eq!(spread(0.02, 50), 1.0);
        assert_eq!(spread(0.02, u64::MAX), 1.0);
        assert_eq!(spread(0.0, u64::MAX), 0.0);
        assert_eq!(spread(0.6, 1), 1.0); // 0.6 / 0.4 is more than always
    }

    #[test]
    fn p_a_with_wait_by_hand() {
        assert_eq!(spread_waiting(0.02, 49), 0.0);
        close(spread_waiting(0.02, 50), 0.02); // 0.02 / (2 - 1)
        close(spread_waiting(0.02, 75), 0.04); // 0.02 / (2 - 1.5)
        close(spread_waiting(0.02, 99), 1.0); // 0.02 / (2 - 1.98)
        assert_eq!(spread_waiting(0.02, 100), 1.0);
    }
}
