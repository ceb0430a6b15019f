//! Exponential estimate of a flow's rate, after each packet.
//!
//! ```text
//!  new = (1 - e^(-T/K)) * l/T  +  e^(-T/K) * old        l  bits of the packet
//!        '-- this packet ---'     '-- fades --'         T  time since the one before
//!                                                       K  window
//! ```
//!
//! Source: Stoica, Shenker, Zhang, "Core-Stateless Fair Queueing", SIGCOMM 1998, equation 3. The
//! weight depends on T, so that the estimate does not depend on how a flow's bytes are cut into
//! packets.
//!
//! Deviation: packets of one batch arrive at one instant, where l/T does not exist. The product
//! `(1 - e^(-T/K)) * l/T` has the limit `l/K` there, and we use it (test: `at_one_instant`).

use weir_base::{Rate, Span};

/// The reciprocal of the window K, per nanosecond and per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    per_nano: f64,
    per_second: f64,
}

impl Window {
    /// A window of this length; zero counts as one nanosecond.
    pub fn new(window: Span) -> Self {
        let nanos = window.as_nanos().max(1) as f64;
        Self {
            per_nano: 1.0 / nanos,
            per_second: 1e9 / nanos,
        }
    }

    /// `e^-x` and `(1 - e^-x) / x` for `x = T/K`.
    fn weights(self, gap: Span) -> (f64, f64) {
        /// Below this, four terms of the series are exact to 1e-11, and need no exponential.
        const SMALL: f64 = 0.005;
        let x = gap.as_nanos() as f64 * self.per_nano;
        if x < SMALL {
            let share = 1.0 - x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0)));
            (1.0 - x * share, share)
        } else {
            let fade = exp_minus(x);
            (fade, (1.0 - fade) / x)
        }
    }
}

/// `e^-x` for `x >= 0`, to 1e-12, from multiplications and additions only: the exponential function may round
/// differently on different machines, but a seed must replay the same run on all of them.
#[inline(never)] // rare, and would take registers from the code around it
fn exp_minus(x: f64) -> f64 {
    use std::f64::consts::{LN_2, LOG2_E};
    /// `1/n!`, from the highest power down.
    const TERMS: [f64; 11] = [
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let halvings = (x * LOG2_E).round();
    if halvings > 1000.0 {
        return 0.0;
    }
    let rest = halvings * LN_2 - x; // between -ln(2)/2 and ln(2)/2
    let power = TERMS.iter().fold(0.0, |sum, term| sum * rest + term);
    power * f64::from_bits((1023 - halvings as u64) << 52)
}

/// The estimate, in bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateEstimate(f64);

impl RateEstimate {
    /// Updates the estimate for a packet of `bytes` that arrived `gap` after the one before.
    pub fn update(&mut self, window: Window, gap: Span, bytes: u64) {
        let (fade, share) = window.weights(gap);
        self.0 = share * (bytes as f64 * 8.0) * window.per_second + fade * self.0;
    }

    /// The estimate right after the latest packet, in bits a second.
    pub fn bps(self) -> f64 {
        self.0
    }

    /// [`Self::bps`], rounded down to whole bits.
    pub fn rate(self) -> Rate {
        Rate::from_bps(self.0 as u64)
    }

    /// The estimate as it has faded after `silence` since the latest packet.
    pub fn faded(self, window: Window, silence: Span) -> Rate {
        Rate::from_bps((self.0 * window.weights(silence).0) as u64)
    }

    /// [`Self::faded`] for display, corrected for a flow of age `old`: the estimate of a young flow is too low,
    /// because it started at zero. Two packets do not give a rate, so the age counts as at least a quarter of
    /// the window.
    pub fn shown(self, window: Window, silence: Span, old: Span) -> Rate {
        const LEAST: f64 = 0.22; // 1 - e^(-1/4)
        let filled = (1.0 - window.weights(old).0).max(LEAST);
        Rate::from_bps((self.0 * window.weights(silence).0 / filled) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn by_hand() {
        // K = 100 ms, 1250 B = 10 000 bit after T = 100 ms: x = 1, e^-1 = 0.36787944.
        // new = 0.63212056 * 10 000 bit / 0.1 s + 0.36787944 * 0 = 63 212.06 bit/s.
        let window = Window::new(Span::from_millis(100));
        let mut estimate = RateEstimate::default();
        estimate.update(window, Span::from_millis(100), 1250);
        close(estimate.0, 63_212.055_882_855_77);
        // Once more: 63 212.06 + 0.36787944 * 63 212.06 = 86 466.47.
        estimate.update(window, Span::from_millis(100), 1250);
        close(estimate.0, 86_466.471_676_338_73);
        // Silent for 100 ms: 0.36787944 * 86 466.47 = 31 809.24, rounded down to whole bits.
        let faded = estimate.faded(window, Span::from_millis(100));
        assert_eq!(faded, Rate::from_bps(31_809));
        // The two packets came in the flow's first 200 ms: 86 466.47 / (1 - e^-2) = 100 000.
        let young = estimate.shown(window, Span::ZERO, Span::from_millis(200));
        assert!((99_999..=100_000).contains(&young.as_bps()), "{young}");
        let sudden = estimate.shown(window, Span::ZERO, Span::ZERO);
        assert_eq!(sudden, Rate::from_bps((86_466.471_676 / 0.22) as u64));
    }

    #[test]
    fn at_one_instant() {
        // l/K = 10 000 bit / 0.1 s = 100 000 bit/s for each packet, and nothing fades.
        let window = Window::new(Span::from_millis(100));
        let mut estimate = RateEstimate::default();
        estimate.update(window, Span::ZERO, 1250);
        estimate.update(window, Span::ZERO, 1250);
        close(estimate.0, 200_000.0);
    }

    #[test]
    fn the_exponential_is_exact_enough() {
        for n in 0..40_000 {
            let x = f64::from(n) * 0.001;
            let (ours, exact) = (exp_minus(x), (-x).exp());
            assert!((ours / exact - 1.0).abs() < 1e-12, "{x}: {ours} {exact}");
        }
        assert_eq!(exp_minus(1e18), 0.0);
    }

    #[test]
    fn the_series_meets_the_exponential() {
        for window in [1_000_000, 1_000_003] {
            let window = Window::new(Span::from_nanos(window));
            let (below, above) = (
                window.weights(Span::from_nanos(4_999)),
                window.weights(Span::from_nanos(5_000)),
            );
            let x = 4_999.0 * window.per_nano;
            assert!((below.0 - (-x).exp()).abs() < 1e-11);
            assert!((below.1 - (1.0 - (-x).exp()) / x).abs() < 1e-11);
            assert!(below.0 > above.0 && below.1 > above.1);
        }
    }

    #[test]
    fn a_steady_flow_converges_to_its_rate_whatever_its_packets() {
        // 1 Mbit/s as 1250 B every 10 ms, and as 125 B every 1 ms.
        for (bytes, gap) in [(1250, Span::from_millis(10)), (125, Span::from_millis(1))] {
            let window = Window::new(Span::from_millis(100));
            let mut estimate = RateEstimate::default();
            for _ in 0..5000 {
                estimate.update(window, gap, bytes);
            }
            close(estimate.0, 1e6);
        }
    }
}
