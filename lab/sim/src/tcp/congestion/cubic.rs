//! CUBIC (RFC 9438): a window that is a cubic function of the time since the last reduction.
//!
//! ```text
//!  window                                        W(t) = C (t - K)^3 + W_max
//!    ^                              /
//!    |                            _/             K = cbrt((W_max - cwnd_epoch) / C)
//!  W_max ............._________---
//!    |           __--                            and never less than what Reno would have
//!    | beta   _/
//!    |_______/_________________________________
//!            0        K                          -> time since the epoch began
//! ```
//!
//! Parameters: C = 0.4 segments/s^3, beta = 0.7, fast convergence.
//!
//! Deviations: section 4.4 adds (target - cwnd) / cwnd for each acknowledgment. We add it for each segment
//! acknowledged, as Linux does, because with delayed acknowledgments the window would fall behind its own target. The
//! window is never lowered to W_est (section 4.3 speaks of setting it).
//!
//! Windows are real numbers in segments. We compute the cube root ourselves with operations that IEEE 754 defines
//! exactly, so that a run is the same on every platform.

use weir_base::Instant;

use super::Acked;

/// C, in segments for each cubic second (section 5).
const C: f64 = 0.4;
/// The factor of a reduction (section 4.6).
const BETA: f64 = 0.7;
/// Additive increase that gives the same average as Reno with beta = 0.5 (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of congestion avoidance.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// Start of this stage of congestion avoidance, postponed by the time without growth.
    epoch: Option<Instant>,
    /// Time of the last acknowledgment in this epoch.
    last_ack: Instant,
    /// Whether that acknowledgment came while the application or the receiver limited the sender.
    is_paused: bool,
    /// Window before the last reduction, lower with fast convergence; zero when unknown.
    max_window: f64,
    /// Window before the last reduction (cwnd_prior).
    prior_window: f64,
    /// Seconds from the epoch to the plateau.
    k: f64,
    /// W_est, Reno's window.
    reno_window: f64,
    /// Accumulated growth of less than one byte.
    fraction: f64,
}

impl Cubic {
    /// The window in bytes after an acknowledgment (sections 4.2 to 4.5).
    pub(super) fn increase(&mut self, window: u64, mss: u64, acked: Acked) -> u64 {
        let mss = mss as f64;
        let exact = (window as f64 + self.fraction) / mss;
        let elapsed = self.elapsed(exact, acked);
        if !acked.is_window_limited {
            return window;
        }
        let segments = acked.bytes as f64 / mss;
        let alpha = if self.reno_window < self.prior_window {
            ALPHA
        } else {
            1.0
        };
        self.reno_window += alpha * segments / exact;
        let grown = if self.cubic_window(elapsed) < self.reno_window {
            exact.max(self.reno_window)
        } else {
            let target = self.cubic_window(elapsed + acked.rtt.as_secs_f64());
            let target = target.clamp(exact, 1.5 * exact);
            exact + (target - exact) / exact * segments
        };
        let bytes = grown * mss;
        let whole = bytes as u64;
        self.fraction = bytes - whole as f64;
        whole
    }

    /// The bytes of `flight` that remain after a reduction (sections 4.6 and 4.7).
    pub(super) fn reduce(&mut self, flight: u64, window: u64, mss: u64) -> u64 {
        let window = window as f64 / mss as f64;
        self.max_window = if window < self.max_window {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.prior_window = window;
        self.end_epoch();
        (flight as f64 * BETA) as u64
    }

    /// Makes the next stage of congestion avoidance start from its own window (section 4.8).
    pub(super) fn on_timeout(&mut self) {
        self.max_window = 0.0;
        self.end_epoch();
    }

    /// Makes the next acknowledgment in congestion avoidance start a new epoch.
    pub(super) fn end_epoch(&mut self) {
        self.epoch = None;
        self.fraction = 0.0;
    }

    /// Seconds since the epoch, without the time in which the window could not have grown
    /// (section 5.8).
    fn elapsed(&mut self, window: f64, acked: Acked) -> f64 {
        let mut epoch = self.epoch.unwrap_or_else(|| {
            self.begin_epoch(window);
            self.last_ack = acked.now;
            acked.now
        });
        if self.is_paused || !acked.is_window_limited {
            epoch += acked.now.since(self.last_ack);
        }
        self.is_paused = !acked.is_window_limited;
        self.last_ack = acked.now;
        self.epoch = Some(epoch);
        acked.now.since(epoch).as_secs_f64()
    }

    fn begin_epoch(&mut self, window: f64) {
        self.reno_window = window;
        if self.max_window > window {
            self.k = cube_root((self.max_window - window) / C);
        } else {
            // After a timeout, or a slow start that no loss has ended.
            self.k = 0.0;
            self.max_window = window;
        }
    }

    /// W_cubic(t) (section 4.2, figure 1).
    fn cubic_window(&self, elapsed: f64) -> f64 {
        let t = elapsed - self.k;
        C * t * t * t + self.max_window
    }
}

/// The cube root of a positive number, by Newton's iteration.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent: within a few per cent of the root for every magnitude.
    let mut root = f64::from_bits(x.to_bits() / 3 + (682 << 52));
    for _ in 0..5 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Span;

    const MSS: u64 = 1000;

    /// Feeds one acknowledgment of a segment at `millis`; returns the window in segments.
    fn ack(cubic: &mut Cubic, window: &mut u64, millis: u64, rtt: u64, limited: bool) -> f64 {
        *window = cubic.increase(
            *window,
            MSS,
            Acked {
                bytes: MSS,
                is_window_limited: limited,
                is_after_timeout: false,
                rtt: Span::from_millis(rtt),
                now: Instant::from_nanos(millis * 1_000_000),
            },
        );
        *window as f64 / MSS as f64
    }

    #[test]
    fn the_cube_root_is_exact_to_the_last_places() {
        for x in [1e-9_f64, 0.5, 1.0, 8.0, 27.0, 75.0, 12_345.678, 1e12] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-14, "{x}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
        assert_eq!(cube_root(-1.0), 0.0);
    }

    #[test]
    fn the_curve_by_hand() {
        // W_max = 100, cwnd_epoch = 70: K = cbrt(30 / 0.4) = 4.2172 s.
        let mut cubic = Cubic::default();
        let mut window = cubic.reduce(100 * MSS, 100 * MSS, MSS);
        assert_eq!(window, 70 * MSS);
        ack(&mut cubic, &mut window, 0, 1000, true);
        assert!((cubic.k - 4.2172).abs() < 1e-4, "{}", cubic.k);
        // W(0) = 70; W(1) = 0.4 (-3.2172)^3 + 100 = 86.680; W(K) = 100; W(6) = 102.267.
        for (at, expected) in [(0.0, 70.0), (1.0, 86.680), (4.2172, 100.0), (6.0, 102.267)] {
            assert!((cubic.cubic_window(at) - expected).abs() < 1e-3, "{at}");
        }
        // At t = 0 W_est is ahead by alpha / 70 = 0.0076. At t = 0.1 the target is W(1.1) = 87.884,
        // and a segment adds (87.884 - 70.0076) / 70.0076 = 0.2553.
        assert!(
            (window as f64 / MSS as f64 - 70.0076).abs() < 2e-3,
            "{window}"
        );
        let reached = ack(&mut cubic, &mut window, 100, 1000, true);
        assert!((reached - 70.2629).abs() < 2e-3, "{reached}");
    }

    #[test]
    fn a_window_follows_the_curve() {
        // One acknowledgment for each segment of each window, 1 s of round-trip time.
        let mut cubic = Cubic::default();
        let mut window = cubic.reduce(100 * MSS, 100 * MSS, MSS);
        ack(&mut cubic, &mut window, 0, 1000, true);
        for round in 1..8 {
            let before = window as f64 / MSS as f64;
            for _ in 0..window / MSS {
                ack(&mut cubic, &mut window, round * 1000, 1000, true);
            }
            // Each segment covers 1/w of the distance, so a window of them covers 1 - 1/e of it,
            // less what the window grows meanwhile.
            let target = cubic.cubic_window(round as f64 + 1.0);
            let covered = (window as f64 / MSS as f64 - before) / (target - before);
            assert!((0.55..0.64).contains(&covered), "round {round}: {covered}");
        }
    }

    #[test]
    fn growth_stops_at_half_of_the_window_for_each_round_trip() {
        let mut cubic = Cubic {
            max_window: 1000.0,
            ..Cubic::default()
        };
        let mut window = 10 * MSS;
        ack(&mut cubic, &mut window, 0, 10, true);
        // The target is far above the window: it is limited to 1.5 x 10, so one segment adds (15 - 10) / 10.
        cubic.k = 0.0;
        let mut window = 10 * MSS;
        assert_eq!(ack(&mut cubic, &mut window, 1, 10, true), 10.5);
    }

    #[test]
    fn on_a_short_path_it_grows_like_reno() {
        // alpha = 3 x 0.3 / 1.7 = 0.5294 segments for each window, until the window before the loss
        // is reached; one segment from there on.
        let mut cubic = Cubic::default();
        let mut window = cubic.reduce(10 * MSS, 10 * MSS, MSS);
        assert_eq!(window, 7 * MSS);
        for _ in 0..7 {
            ack(&mut cubic, &mut window, 1, 1, true);
        }
        let grown = window as f64 / MSS as f64;
        assert!((grown - (7.0 + 0.5294)).abs() < 0.03, "{grown}");
        while window < 10 * MSS {
            ack(&mut cubic, &mut window, 2, 1, true);
        }
        let before = window as f64 / MSS as f64;
        for _ in 0..10 {
            ack(&mut cubic, &mut window, 3, 1, true);
        }
        let grown = window as f64 / MSS as f64 - before;
        assert!((grown - 1.0).abs() < 0.06, "{grown}");
    }

    #[test]
    fn convergence_is_fast_when_the_window_was_smaller_than_before() {
        let mut cubic = Cubic::default();
        cubic.reduce(100 * MSS, 100 * MSS, MSS);
        assert_eq!(cubic.max_window, 100.0);
        cubic.reduce(80 * MSS, 80 * MSS, MSS);
        assert!((cubic.max_window - 80.0 * 0.85).abs() < 1e-9);
        cubic.reduce(90 * MSS, 90 * MSS, MSS);
        assert_eq!(cubic.max_window, 90.0);
    }

    #[test]
    fn after_a_timeout_the_curve_starts_at_its_plateau() {
        let mut cubic = Cubic::default();
        cubic.reduce(100 * MSS, 100 * MSS, MSS);
        cubic.on_timeout();
        let mut window = 70 * MSS;
        ack(&mut cubic, &mut window, 0, 100, true);
        assert_eq!((cubic.k, cubic.max_window), (0.0, 70.0));
    }

    #[test]
    fn the_time_without_growth_does_not_count() {
        let mut cubic = Cubic::default();
        let mut window = cubic.reduce(100 * MSS, 100 * MSS, MSS);
        ack(&mut cubic, &mut window, 0, 100, true);
        ack(&mut cubic, &mut window, 1000, 100, true);
        ack(&mut cubic, &mut window, 1100, 100, false);
        ack(&mut cubic, &mut window, 5000, 100, false);
        ack(&mut cubic, &mut window, 9000, 100, true);
        let acked = Acked {
            bytes: MSS,
            is_window_limited: true,
            is_after_timeout: false,
            rtt: Span::from_millis(100),
            now: Instant::from_nanos(9_500_000_000),
        };
        // 1 s before the pause, 0.5 s after it.
        assert!((cubic.elapsed(80.0, acked) - 1.5).abs() < 1e-9);
    }
}
