//! Table I and Figure 5: the calculated holding time of packets.

use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::Checks;
use crate::reproduce::verdict::Findings;

/// The thresholds of the tables.
const THRESHOLDS: [u32; 4] = [20, 30, 40, 50];

/// The rate of all links of the paper, and the size of its packets.
const LINK_BPS: f64 = 10e6;
const PACKET_BITS: f64 = 8000.0;

pub(super) const CHECKS: &Checks = &[
    ("table1.1", likeliest_is_half),
    ("table1.2", printed_b),
    ("table1.3", hold_delay),
    ("table1.4", total_delay),
    ("table1.5", likelihood),
    ("table1.6", at_a_gigabit),
    ("fig5.1", bounded_by_power),
    ("fig5.2", grows_late),
    ("fig5.3", one_peak),
];

/// C(n, k) / 2^n.
fn ways(n: u32, k: u32) -> f64 {
    let factor = |i: u32| f64::from(n - i) / f64::from(i + 1);
    (0..k).map(factor).product::<f64>() / 2_f64.powi(n as i32)
}

/// p^m (1 - p)^(l - m).
fn each(p: f64, l: u32, m: u32) -> f64 {
    p.powi(m as i32) * (1.0 - p).powi((l - m) as i32)
}

/// The maximum of [`each`] over m.
fn envelope(p: f64, l: u32) -> f64 {
    (0..=l).map(|m| each(p, l, m)).fold(0.0, f64::max)
}

/// The m with the greatest number of combinations.
fn likeliest(l: u32) -> u32 {
    let best = (0..=l).max_by(|a, b| ways(l, *a).total_cmp(&ways(l, *b)));
    best.unwrap_or_default()
}

/// Milliseconds that a number of packets takes on a link.
fn ms(packets: f64, bps: f64) -> f64 {
    1e3 * packets * PACKET_BITS / bps
}

fn likeliest_is_half(_: &Measured, f: &mut Findings) {
    for (l, printed) in THRESHOLDS.into_iter().zip([10, 15, 20, 25]) {
        let m = likeliest(l);
        f.is(format!("L = {l}: m* = {m} (paper {printed})"), m == printed);
    }
}

fn printed_b(_: &Measured, f: &mut Findings) {
    for (l, printed) in THRESHOLDS.into_iter().zip([0.176, 0.135, 0.125, 0.108]) {
        let b = ways(l, likeliest(l));
        let near = ways(l, l / 2 - 1);
        f.is(
            format!(
                "L = {l}: B* = {b:.4} (paper {printed}; C(L, {}) / 2^L = {near:.4})",
                l / 2 - 1
            ),
            (b - printed).abs() < 0.001,
        );
    }
}

fn hold_delay(_: &Measured, f: &mut Findings) {
    for (l, printed) in THRESHOLDS.into_iter().zip([8.0, 12.0, 16.0, 20.0]) {
        let delay = ms(f64::from(likeliest(l)), LINK_BPS);
        f.is(
            format!("L = {l}: {delay:.1} ms (paper {printed})"),
            (delay - printed).abs() < 1e-9,
        );
    }
}

/// The delay in ms of L packets and L/2 holds.
fn greatest_delay(l: u32, bps: f64) -> f64 {
    ms(f64::from(l + likeliest(l)), bps)
}

fn total_delay(_: &Measured, f: &mut Findings) {
    for (l, printed) in THRESHOLDS.into_iter().zip([24.0, 36.0, 48.0, 60.0]) {
        let delay = greatest_delay(l, LINK_BPS);
        f.is(
            format!("L = {l}: {delay:.1} ms (paper {printed})"),
            (delay - printed).abs() < 1e-9,
        );
    }
}

fn likelihood(_: &Measured, f: &mut Findings) {
    for l in THRESHOLDS {
        let m = l / 2;
        let steps = || (0..=1000).map(|n| f64::from(n) / 1000.0);
        let a = steps().map(|p| each(p, l, m)).fold(0.0, f64::max);
        let at = steps().max_by(|p, q| each(*p, l, m).total_cmp(&each(*q, l, m)));
        f.is(
            format!(
                "L = {l}: A = 1 at m = {m}? the maximum there is {a:.1e}, at p = {}",
                at.unwrap_or_default()
            ),
            (a - 1.0).abs() < 1e-9,
        );
    }
}

fn at_a_gigabit(_: &Measured, f: &mut Findings) {
    for (l, known) in THRESHOLDS.into_iter().zip([0.24, 0.36, 0.48, 0.60]) {
        let delay = greatest_delay(l, 1e9);
        f.is(
            format!("L = {l}: {delay:.2} ms"),
            (delay - known).abs() < 1e-9,
        );
    }
}

fn bounded_by_power(_: &Measured, f: &mut Findings) {
    for l in THRESHOLDS {
        let excess = |n: u32| {
            let p = f64::from(n) / 1000.0;
            envelope(p, l) / p.powi(l as i32)
        };
        let worst = (501..1000).map(excess).fold(0.0, f64::max);
        f.is(
            format!("L = {l}: at most {worst:.6} of p^L"),
            worst <= 1.0 + 1e-9,
        );
    }
}

fn grows_late(_: &Measured, f: &mut Findings) {
    for l in THRESHOLDS {
        let (at, end) = (envelope(0.9, l), envelope(1.0, l));
        let other = envelope(0.1, l);
        f.is(
            format!("L = {l}: {at:.4} at 0.9, {other:.4} at 0.1, {end} at 1"),
            at <= 0.15 && other <= 0.15 && end == 1.0,
        );
    }
}

fn one_peak(_: &Measured, f: &mut Findings) {
    for l in THRESHOLDS {
        let rises = (0..l / 2).all(|m| ways(l, m) < ways(l, m + 1));
        let even = (0..=l).all(|m| (ways(l, m) / ways(l, l - m) - 1.0).abs() < 1e-9);
        f.is(
            format!("L = {l}: rises up to {} and falls symmetrically", l / 2),
            rises && even,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_by_hand() {
        assert_eq!(ways(4, 2), 6.0 / 16.0);
        assert_eq!((likeliest(4), likeliest(20)), (2, 10));
        assert_eq!(each(0.5, 3, 1), 0.125);
        assert_eq!(envelope(0.75, 2), 0.5625);
        assert_eq!(ms(1.0, LINK_BPS), 0.8);
        assert_eq!(greatest_delay(20, LINK_BPS), 24.0);
    }
}
