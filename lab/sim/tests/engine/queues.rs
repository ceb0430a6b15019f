//! Queues with a mean waiting time that is known in closed form.
//!
//! The queue is the port of a host that is linked to its receiver. The measured time is that from queueing to the start
//! of transmission, for every packet after the warm-up. The link's overhead compensates for the headers, so that the
//! service time is that of the payload alone.
//!
//! A mean is tested with the 95 % confidence interval of independent runs (Student), whose seeds are simply the first
//! numbers. The interval must also be narrow, otherwise any queue would pass.

use weir_base::pace::Load;
use weir_base::{Framing, Instant, Offered, Rate, Spacing, Span, Streams};
use weir_sim::network::End;
use weir_sim::{FlowSpec, Measurement, Network, PortId, Simulation};

use super::support::{HEADERS, fifo, flow_spec, host, load};

/// 1250 bytes of payload take one millisecond.
const RATE: Rate = Rate::from_mbps(10);
const PIECE: u32 = 1250;
const SERVICE: f64 = 1e-3;

const RUNS: u64 = 20;
/// The 97.5 % quantile of Student's t for 19 degrees of freedom.
const STUDENT: f64 = 2.093;

/// A queue with these loads, starting at time zero.
fn queue(loads: &[Load], seed: u64, from: Instant) -> (Simulation, PortId) {
    let mut network = Network::default();
    let [a, b] = [1, 2].map(|n| host(&mut network, n));
    let end = |node, name: &str| End {
        node,
        name: name.to_owned(),
        spec: fifo(1_000_000),
    };
    let ends = [end(a, "a"), end(b, "b")];
    let [port, _] = network.link(ends, Some(RATE), Span::ZERO, Framing::bytes(-HEADERS));
    let measurement = Measurement {
        from,
        until: Instant::FAR_FUTURE,
        step: Span::from_secs(1),
        traffics: 1,
    };
    let mut sim = Simulation::new(network, measurement, Streams::new(seed)).unwrap();
    sim.watch(&[port]);
    for (number, load) in loads.iter().enumerate() {
        let flow_spec = FlowSpec {
            name: format!("source {number}"),
            ..flow_spec(a, b, 0)
        };
        sim.udp(&flow_spec, load.clone()).unwrap();
    }
    (sim, port)
}

/// The mean waiting times of `RUNS` runs, each of about `packets` packets after a warm-up of a tenth of them.
fn means(loads: &[Load], packets: f64) -> Vec<f64> {
    let pieces = |load: &Load| load.rate.base / f64::from(load.piece) / 8.0;
    let second = packets / loads.iter().map(pieces).sum::<f64>();
    let at = |seconds: f64| Instant::ZERO + Span::from_secs_f64(seconds);
    let run = |seed| {
        let (mut sim, port) = queue(loads, seed, at(0.1 * second));
        sim.run_until(at(1.1 * second));
        sim.watched(port).unwrap().sojourn.mean().unwrap()
    };
    (1..=RUNS).map(run).collect()
}

/// Fails unless the interval around the mean of `means` contains `expected`, and extends at most the share `width` of
/// it to either side.
fn holds(means: &[f64], expected: f64, width: f64) {
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let squares = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>();
    let half = STUDENT * (squares / (n - 1.0) / n).sqrt();
    println!(
        "{:.4} of the theory, +- {:.4}",
        mean / expected,
        half / expected
    );
    assert!(
        half < width * expected,
        "{mean} +- {half} is too uncertain for {expected}"
    );
    assert!(
        (mean - expected).abs() < half,
        "{mean} +- {half}, not {expected}"
    );
}

/// Poisson arrivals, one size: `W = rho / (2 mu (1 - rho))`.
fn m_d_1(rho: f64, packets: f64, width: f64) {
    let load = load(rho / SERVICE, PIECE, Spacing::Poisson);
    let expected = rho * SERVICE / 2.0 / (1.0 - rho);
    holds(&means(&[load], packets), expected, width);
}

#[test]
fn m_d_1_at_half_load() {
    m_d_1(0.5, 30e3, 0.02);
}

#[test]
fn m_d_1_at_80_percent() {
    m_d_1(0.8, 60e3, 0.03);
}

#[test]
fn m_d_1_at_95_percent() {
    m_d_1(0.95, 200e3, 0.05);
}

/// Poisson arrivals with exponential sizes, cut into steps of a tenth of the mean up to twelve times the mean. Each
/// step is a separate Poisson source with the mean size of the step; together they are one Poisson process with
/// independent sizes.
fn exponential_sizes(rho: f64) -> Vec<Load> {
    const STEP: f64 = 0.1;
    const STEPS: u32 = 120;
    let mean = f64::from(PIECE);
    let within = 1.0 - STEP / STEP.exp_m1(); // of the mean, beyond the lower end of a step
    let step = |n| {
        let lower = STEP * f64::from(n);
        let share = (-lower).exp() * -(-STEP).exp_m1();
        let piece = (mean * (lower + within)).round() as u32;
        load(share * rho / SERVICE, piece, Spacing::Poisson)
    };
    (0..STEPS).map(step).collect()
}

/// The mean waiting time of Pollaczek and Khinchine for exactly these loads: `sum(lambda s^2) / 2 (1 - rho)`.
fn pollaczek_khinchine(loads: &[Load]) -> f64 {
    let terms = |power: i32| {
        let term = |load: &Load| {
            let bits = f64::from(load.piece) * 8.0;
            load.rate.base / bits * (bits / RATE.as_bps() as f64).powi(power)
        };
        loads.iter().map(term).sum::<f64>()
    };
    terms(2) / 2.0 / (1.0 - terms(1))
}

/// Two claims: the queue has the mean of the sizes that it received (M/G/1), and those sizes are close enough to
/// exponential that this mean equals that of M/M/1, `rho / mu (1 - rho)`, within 0.5 %.
fn m_m_1(rho: f64, packets: f64, width: f64) {
    let loads = exponential_sizes(rho);
    let expected = pollaczek_khinchine(&loads);
    let limit = rho * SERVICE / (1.0 - rho);
    assert!(
        (expected / limit - 1.0).abs() < 0.005,
        "{expected} and {limit}"
    );
    holds(&means(&loads, packets), expected, width);
}

#[test]
fn m_m_1_at_half_load() {
    m_m_1(0.5, 50e3, 0.02);
}

#[test]
fn m_m_1_at_80_percent() {
    m_m_1(0.8, 100e3, 0.04);
}

/// Every single waiting time, by Lindley's recursion `W' = max(0, W + S - gap)` over the same arrivals.
#[test]
fn poisson_arrivals_wait_as_lindley_says() {
    const SEED: u64 = 1;
    let until = Span::from_secs(50);
    let load = load(0.9 / SERVICE, PIECE, Spacing::Poisson);
    let (mut sim, port) = queue(std::slice::from_ref(&load), SEED, Instant::ZERO);
    sim.run_until(Instant::ZERO + until);
    let sojourn = &sim.watched(port).unwrap().sojourn;

    let mut stream = Streams::new(SEED).below("traffic").stream("source 0");
    let rate: Offered = load.rate;
    let service = Span::from_secs_f64(SERVICE).as_nanos();
    let (mut place, mut free_at, mut waited, mut started) = (0.0, 0, 0, 0);
    loop {
        place += Spacing::Poisson.gap(&mut stream);
        let at = rate.time_of(0.0, place * f64::from(PIECE) * 8.0).unwrap();
        let at = Span::from_secs_f64(at).as_nanos();
        let start = free_at.max(at);
        if start > until.as_nanos() {
            break;
        }
        waited += start - at;
        started += 1;
        free_at = start + service;
    }
    assert_eq!(sojourn.count(), started);
    assert_eq!(sojourn.mean(), Some(waited as f64 / 1e9 / started as f64));
}

#[test]
fn d_d_1_never_waits_up_to_full_load() {
    for rho in [0.5, 0.999, 1.0] {
        let load = load(rho / SERVICE, PIECE, Spacing::Even);
        let (mut sim, port) = queue(&[load], 1, Instant::ZERO);
        sim.run_until(Instant::ZERO + Span::from_secs(20));
        let sojourn = &sim.watched(port).unwrap().sojourn;
        assert!(sojourn.count() > 9_000);
        assert_eq!(
            (sojourn.mean(), sojourn.percentile(1.0)),
            (Some(0.0), Some(0.0))
        );
    }
}

#[test]
fn the_second_of_two_that_come_together_waits_for_one_service() {
    let loads = [(); 2].map(|()| load(0.4 / SERVICE, PIECE, Spacing::Even));
    let (mut sim, port) = queue(&loads, 1, Instant::ZERO);
    sim.run_until(Instant::ZERO + Span::from_millis(9_999));
    let sojourn = &sim.watched(port).unwrap().sojourn;
    assert_eq!(sojourn.count(), 2 * 3_999); // each 2.5 ms; the first comes at 2.5 ms
    assert_eq!(sojourn.mean(), Some(SERVICE / 2.0));
}

#[test]
fn beyond_full_load_the_queue_grows_by_the_difference() {
    // 1.1 pieces arrive per departure: after one second, 100 pieces wait or are being sent.
    let load = load(1.1 / SERVICE, PIECE, Spacing::Even);
    let (mut sim, port) = queue(&[load], 1, Instant::ZERO);
    sim.run_until(Instant::ZERO + Span::from_secs(10));
    let held = sim.fabric().port(port).backlog().packets;
    assert!((999..=1000).contains(&held), "{held}");
}
