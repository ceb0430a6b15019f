//! Steady-state throughput under random loss, compared with the formulas.
//!
//! The path has a round-trip time and no rate, and each data segment is lost with probability p. The result is the
//! throughput in segments per round trip. Delayed acknowledgments make no difference to the formulas, because the
//! window counts bytes: b = 1 throughout.

use rand::RngExt;
use weir_base::{Instant, Span, Streams};
use weir_sim::tcp::{Options, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, Sent, is_data};

/// Segments delivered in each measurement.
const SEGMENTS: u64 = 400_000;

/// Segments delivered per round trip.
fn throughput(
    options: &Options,
    rtt: Span,
    mut is_lost: impl FnMut(&Sent) -> bool + 'static,
) -> f64 {
    let mut path = Path::new(options, rtt, move |sent| {
        if is_data(sent) && is_lost(sent) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    path.keeps_log = false;
    path.start(None);
    while path.ends[SERVER].delivered() < SEGMENTS * u64::from(options.mss) {
        assert!(
            path.step(Instant::FAR_FUTURE).is_some(),
            "nothing happens any more"
        );
    }
    assert!(!path.ends[CLIENT].has_failed());
    let rounds = path.now.as_nanos() as f64 / rtt.as_nanos() as f64;
    SEGMENTS as f64 / rounds
}

/// Loses each data segment with probability `p`.
fn random(p: f64, name: &str) -> impl FnMut(&Sent) -> bool + 'static {
    let mut stream = Streams::new(1).stream(name);
    move |_| stream.random::<f64>() < p
}

/// Padhye, Firoiu, Towsley, Kurose, SIGCOMM 1998, equation 30; the timeout is in round trips.
fn pftk(p: f64, timeout: f64) -> f64 {
    let recovery = (2.0 * p / 3.0).sqrt();
    let timeouts = (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    1.0 / (recovery + timeout * timeouts)
}

fn assert_near(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let ratio = measured / expected;
    assert!(
        (ratio - 1.0).abs() < tolerance,
        "{what}: {measured:.2} segments, expected {expected:.2}, ratio {ratio:.3}"
    );
}

#[test]
fn reno_is_as_fast_as_pftk_says() {
    for variant in [Variant::NewReno, Variant::Sack] {
        for ack_every in [1, 2] {
            for p in [0.001, 0.003, 0.01, 0.03] {
                let options = Options {
                    variant,
                    ack_every,
                    ..Options::default()
                };
                let measured = throughput(&options, Span::from_millis(100), random(p, "reno"));
                // RTO = SRTT + G: three round trips. At 0.1 % this is Mathis' 1.22 / sqrt(p).
                let what = format!("{variant:?}, ack every {ack_every}, p = {p}");
                assert_near(measured, pftk(p, 3.0), 0.1, &what);
            }
        }
    }
}

#[test]
fn cubic_is_as_fast_as_reno_on_a_short_path() {
    // RFC 9438, section 4.3: AVG_W_est = sqrt(alpha (1 + beta) / (2 p (1 - beta))) = sqrt(1.5 / p) in its Reno-friendly
    // region. The model is somewhat faster, because alpha is 1 above the last maximum, and slower where timeouts
    // matter.
    for ack_every in [1, 2] {
        for p in [0.001, 0.003, 0.01] {
            let options = Options {
                ack_every,
                ..Options::default()
            };
            let measured = throughput(&options, Span::from_millis(10), random(p, "cubic"));
            let what = format!("ack every {ack_every}, p = {p}");
            assert_near(measured, (1.5 / p).sqrt(), 0.15, &what);
        }
    }
}

#[test]
fn cubic_keeps_its_own_law_on_a_long_path() {
    // RFC 9438, section 5.1: AVG_W_cubic = (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4), for losses at equal
    // distances. It ignores that a recovery takes a round trip, and that the window follows the curve with some delay:
    // one to two of the round trips between two losses.
    for p in [0.0003_f64, 0.001] {
        for rtt in [0.2_f64, 0.4] {
            let distance = (1.0 / p) as u64;
            let mut sent = 0;
            let lost = move |_: &Sent| {
                sent += 1;
                sent % distance == 0
            };
            let measured = throughput(&Options::default(), Span::from_secs_f64(rtt), lost);
            let expected = (0.4_f64 * 3.7 / 1.2).powf(0.25) * (rtt / p).powf(0.75);
            assert!(expected > 1.3 * (1.5 / p).sqrt(), "Reno-friendly");
            let rounds = 1.0 / (p * expected);
            let (low, high) = (1.0 - 2.0 / rounds, 1.0 - 1.0 / rounds);
            let ratio = measured / expected;
            assert!((low..high).contains(&ratio), "p = {p}, {rtt} s: {ratio:.3}");
        }
    }
}
