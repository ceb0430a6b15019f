//! Table I and Figure 5: the calculated holding time of packets.

use super::THRESHOLDS;
use crate::reproduce::findings::check;
use crate::reproduce::recipe::{Recipe, claim};

/// The rate of all links of the paper, and the size of its packets.
const LINK_BPS: f64 = 10e6;
const PACKET_BITS: f64 = 8000.0;

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

/// The delay in ms of L packets and L/2 holds.
fn greatest_delay(l: u32, bps: f64) -> f64 {
    ms(f64::from(l + likeliest(l)), bps)
}

/// The thresholds, each with a number.
fn with<T>(numbers: [T; 4]) -> impl Iterator<Item = (u32, T)> {
    THRESHOLDS.into_iter().zip(numbers)
}

pub(super) fn table1(r: &mut Recipe) {
    r.title = "How long packets are held, computed";
    r.notes = &[
        "Arithmetic only. A* is the maximum of p^m (1 - p)^(L - m), B* that of C(L, m) / 2^L, over p and m; L is \
         the threshold, a packet takes 0.8 ms.",
    ];

    claim(r, "table1.1", "Likeliest number of holds is L/2").arithmetic(|_, f| {
        for (l, printed) in with([10, 15, 20, 25]) {
            let m = likeliest(l);
            check!(f, "L = {l}: m* = {m} (paper {printed})": is(m == printed));
        }
    });
    claim(r, "table1.2", "Printed B*").arithmetic(|_, f| {
        for (l, printed) in with([0.176, 0.135, 0.125, 0.108]) {
            let (b, below) = (ways(l, likeliest(l)), l / 2 - 1);
            let near = format!("C(L, {below}) / 2^L = {:.4}", ways(l, below));
            check!(f, "L = {l}: B* = {b:.4} (paper {printed}; {near})":
                is((b - printed).abs() < 0.001));
        }
    });
    claim(r, "table1.3", "Hold delay 8, 12, 16, 20 ms").arithmetic(|_, f| {
        for (l, printed) in with([8.0, 12.0, 16.0, 20.0]) {
            let delay = ms(f64::from(likeliest(l)), LINK_BPS);
            check!(f, "L = {l}: {delay:.1} ms (paper {printed})":
                is((delay - printed).abs() < 1e-9));
        }
    });
    claim(r, "table1.4", "Greatest total delay 24, 36, 48, 60 ms").arithmetic(|_, f| {
        for (l, printed) in with([24.0, 36.0, 48.0, 60.0]) {
            let delay = greatest_delay(l, LINK_BPS);
            check!(f, "L = {l}: {delay:.1} ms (paper {printed})":
                is((delay - printed).abs() < 1e-9));
        }
    });
    claim(r, "table1.5", "p* = A* x B* is a likelihood of m*").arithmetic(|_, f| {
        for l in THRESHOLDS {
            let m = l / 2;
            let steps = || (0..=1000).map(|n| f64::from(n) / 1000.0);
            let a = steps().map(|p| each(p, l, m)).fold(0.0, f64::max);
            let at = steps().max_by(|p, q| each(*p, l, m).total_cmp(&each(*q, l, m)));
            let at = at.unwrap_or_default();
            check!(f, "L = {l}: A = 1 at m = {m}? its maximum there is {a:.1e}, at p = {at}":
                is((a - 1.0).abs() < 1e-9));
        }
        f.remark(
            "A* = 1 needs m = L or 0, B* needs m = L/2: no p gives both. The likelihood of m = L/2 is highest at p \
             = 1/2, where it is B* itself (C(L, m) / 2^L): so the printed p* is right where B* is right, but for \
             another reason",
        );
    });
    claim(r, "table1.6", "At gigabit links the delay is far smaller").arithmetic(|_, f| {
        for (l, known) in with([0.24, 0.36, 0.48, 0.60]) {
            let delay = greatest_delay(l, 1e9);
            check!(f, "L = {l}: {delay:.2} ms": is((delay - known).abs() < 1e-9));
        }
    });
}

pub(super) fn fig5(r: &mut Recipe) {
    r.title = "The two factors of the likelihood of holds";
    r.notes = &["Arithmetic only; A over p from 0.501 to 0.999 in steps of 0.001, and every m."];

    claim(r, "fig5.1", "A(p) is bounded by p^L above one half").arithmetic(|_, f| {
        for l in THRESHOLDS {
            let excess = |n: u32| {
                let p = f64::from(n) / 1000.0;
                envelope(p, l) / p.powi(l as i32)
            };
            let worst = (501..1000).map(excess).fold(0.0, f64::max);
            check!(f, "L = {l}: at most {worst:.6} of p^L": is(worst <= 1.0 + 1e-9));
        }
    });
    let text = "A grows fast only beyond .9 (below .1) and peaks at 1";
    claim(r, "fig5.2", text).arithmetic(|_, f| {
        for l in THRESHOLDS {
            let [at, other, end] = [0.9, 0.1, 1.0].map(|p| envelope(p, l));
            check!(f, "L = {l}: {at:.4} at 0.9, {other:.4} at 0.1, {end} at 1":
                is(at <= 0.15 && other <= 0.15 && end == 1.0));
        }
    });
    claim(r, "fig5.3", "C(L,m) peaks at L/2").arithmetic(|_, f| {
        for l in THRESHOLDS {
            let rises = (0..l / 2).all(|m| ways(l, m) < ways(l, m + 1));
            let even = (0..=l).all(|m| (ways(l, m) / ways(l, l - m) - 1.0).abs() < 1e-9);
            f.is(
                format!("L = {l}: rises up to {} and falls symmetrically", l / 2),
                rises && even,
            );
        }
    });
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
