//! Figure 9: the effect of the total size of all queues on the schemes.

use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Checks};
use crate::reproduce::verdict::{Findings, Samples, shown};

pub(super) const CHECKS: &Checks = &[("fig9.3", change_little), ("fig9.4", smoothly)];

/// Name and scenario of both loads.
const LOADS: [[&str; 2]; 2] = [
    ["fig9, load 1.4", "sd-bm/fig9-1.4"],
    ["fig9, load 1.8", "sd-bm/fig9-1.8"],
];

/// The schemes of Figure 9; the last is not from the paper (R32).
const SCHEMES: [&str; 4] = ["drop-tail", "RED", "RS-RED", "egress-driven"];

/// A formula over the metrics of a point.
type Quantity = fn(&Measured, &At) -> Samples;

const GOODPUT: Quantity = |m, at| {
    let [tcp, udp] = ["tcp_goodput_mbps", "udp_goodput_mbps"].map(|name| m.samples(at, name));
    tcp.with(&udp, |a, b| a + b)
};
const JITTER: Quantity = |m, at| m.samples(at, "jitter_ms");
const DELAY: Quantity = |m, at| m.samples(at, "delay_ms_mean");
const LOSS: Quantity = |m, at| m.samples(at, "loss_ratio");

/// The means of a quantity with 200 to 500 packets in all queues; `None` if any was not measured.
fn means(m: &Measured, scenario: &str, scheme: &str, quantity: Quantity) -> Option<[f64; 4]> {
    let mut means = [0.0; 4];
    for (mean, total) in means.iter_mut().zip([200, 300, 400, 500]) {
        *mean = quantity(m, &At::new(scenario, format!("{scheme} {total}"))).mean()?;
    }
    Some(means)
}

fn known(x: Option<f64>) -> String {
    x.map_or_else(|| "not measured".to_owned(), shown)
}

fn extremes(means: &[f64; 4]) -> [f64; 2] {
    [f64::max, f64::min].map(|choose| means.iter().copied().fold(means[0], choose))
}

/// The maximum mean divided by the minimum.
fn spread(means: &[f64; 4]) -> f64 {
    let [greatest, least] = extremes(means);
    greatest / least
}

fn change_little(m: &Measured, f: &mut Findings) {
    for [load, scenario] in LOADS {
        for scheme in &SCHEMES[..3] {
            for (what, quantity, most) in [("goodput", GOODPUT, 1.05), ("jitter", JITTER, 1.5)] {
                let ratio = means(m, scenario, scheme, quantity).map(|means| spread(&means));
                let shown = known(ratio);
                f.is_if_known(
                    format!(
                        "{load}, {scheme}, {what}, maximum / minimum: {shown} (at most {most})"
                    ),
                    ratio.map(|ratio| ratio <= most),
                );
            }
        }
    }
}

/// The maximum distance of a mean from a straight line, divided by the range of the means.
fn roughness(means: &[f64; 4]) -> Option<f64> {
    let n = means.len() as f64;
    let (x_mean, y_mean) = ((n - 1.0) / 2.0, means.iter().sum::<f64>() / n);
    let off = |place: usize| place as f64 - x_mean;
    let moments = means.iter().enumerate();
    let (xy, xx) = moments.fold((0.0, 0.0), |(xy, xx), (place, y)| {
        (xy + off(place) * (y - y_mean), xx + off(place) * off(place))
    });
    let residual = |(place, y): (usize, &f64)| (y - y_mean - xy / xx * off(place)).abs();
    let worst = means.iter().enumerate().map(residual).fold(0.0, f64::max);
    let [greatest, least] = extremes(means);
    (greatest > least).then(|| worst / (greatest - least))
}

fn smoothly(m: &Measured, f: &mut Findings) {
    for [load, scenario] in LOADS {
        for (what, quantity) in [("delay", DELAY), ("loss", LOSS)] {
            let all = SCHEMES
                .map(|scheme| means(m, scenario, scheme, quantity).and_then(|m| roughness(&m)));
            let [tail, red, ours, egress_driven] = all.map(known);
            let is_smooth = all[2].zip(all[0]).zip(all[1]);
            f.is_if_known(
                format!(
                    "{load}, {what}, deviation from a straight line / range: RS-RED {ours} (RED {red}, drop-tail \
                     {tail})"
                ),
                is_smooth.map(|((ours, tail), red)| ours <= red && ours <= tail),
            );
            f.remark(format!("{load}, {what}, egress-driven: {egress_driven}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roughness_by_hand() {
        assert!(roughness(&[1.0, 2.0, 3.0, 4.0]).unwrap() < 1e-12);
        // The line through 0, 0, 0, 1 is -0.2 + 0.3 x: 0.2, -0.1, -0.4, 0.3 off it.
        let rough = roughness(&[0.0, 0.0, 0.0, 1.0]).unwrap();
        assert!((rough - 0.4).abs() < 1e-12, "{rough}");
        assert_eq!(roughness(&[1.0; 4]), None);
        assert_eq!(spread(&[1.0, 2.0, 4.0, 3.0]), 4.0);
    }
}
