//! Claims of the text without a table or figure.

use super::TABLES;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Checks};
use crate::reproduce::verdict::{Findings, Samples};

pub(super) const CHECKS: &Checks = &[("text.5", another_law), ("text.6", similar_traffic)];

fn at(variant: &str) -> At {
    At::new("sd-bm/text", variant)
}

/// Adds the finding whether either delay or loss is clearly lower, and the mean of the other is at most 5 % higher. A
/// law that delivers nothing has neither, and is not better.
fn better(f: &mut Findings, what: &str, [ours, theirs]: [&Outcome; 2]) {
    let text = format!(
        "{what}: delay {} and {} ms, loss {} and {}, goodput {} and {} Mbit/s",
        ours.delay.shown(),
        theirs.delay.shown(),
        ours.loss.shown(),
        theirs.loss.shown(),
        ours.goodput.shown(),
        theirs.goodput.shown()
    );
    match ours.goodput.mean() {
        Some(goodput) if goodput <= 0.0 => f.is(text, false),
        _ => {
            let delays = [&ours.delay, &theirs.delay];
            f.one_less(text, [delays, [&ours.loss, &theirs.loss]], 0.05);
        }
    }
}

/// The outcome of a law.
struct Outcome {
    delay: Samples,
    loss: Samples,
    goodput: Samples,
}

impl Outcome {
    fn of(m: &Measured, at: &At) -> Self {
        let [tcp, udp] = ["tcp", "udp"].map(|kind| m.samples(at, &format!("{kind}_goodput_mbps")));
        Self {
            delay: m.samples(at, "delay_ms_mean"),
            loss: m.samples(at, "loss_ratio"),
            goodput: tcp.with(&udp, |a, b| a + b),
        }
    }
}

fn another_law(m: &Measured, f: &mut Findings) {
    let theirs = Outcome::of(m, &At::new(TABLES, "RS-RED 50"));
    let ours = Outcome::of(m, &at("PI, RS-RED 50"));
    better(f, "PI and RED's law", [&ours, &theirs]);
}

/// Jain's index of the loss ratios of the four ingresses' traffic.
fn evenness(m: &Measured, at: &At) -> Samples {
    let of = |n: u32| {
        let traffics = ["a", "b", "udp"].map(|kind| {
            let name = format!("{kind}{n}");
            let loss = m.samples(at, &format!("loss_ratio.{name}"));
            let received = m.samples(at, &format!("packets_received_per_s.{name}"));
            let sent = received.with(&loss, |received, loss| received / (1.0 - loss));
            (sent.with(&received, |sent, received| sent - received), sent)
        });
        let sum = |place: fn(&(Samples, Samples)) -> &Samples| {
            let all = traffics.iter().map(place).cloned();
            all.reduce(|a, b| a.with(&b, |a, b| a + b))
                .unwrap_or_default()
        };
        sum(|t| &t.0).with(&sum(|t| &t.1), |lost, sent| lost / sent)
    };
    let [a, b, c, d] = [4, 5, 6, 7].map(of);
    // Jain's index of four, from two sums.
    let pair = |x: &Samples, y: &Samples, of: fn(f64, f64) -> f64| x.with(y, of);
    let sums = pair(
        &pair(&a, &b, |x, y| x + y),
        &pair(&c, &d, |x, y| x + y),
        |x, y| x + y,
    );
    let squares = |x: f64, y: f64| x * x + y * y;
    let squares = pair(&pair(&a, &b, squares), &pair(&c, &d, squares), |x, y| x + y);
    sums.with(&squares, |sum, squares| sum * sum / (4.0 * squares))
}

fn similar_traffic(m: &Measured, f: &mut Findings) {
    let even = evenness(m, &At::new("sd-bm/tables-1.4", "RS-RED 50"));
    let skewed = evenness(m, &at("skewed, RS-RED 50"));
    f.less(
        "Jain's index of loss by ingress, skewed and even load",
        &skewed,
        &even,
    );
    let each = [
        "skewed, RS-RED 50",
        "skewed, RS-RED 50, contribution",
        "skewed, egress-driven 50",
        "skewed, egress-driven 50, contribution",
        "skewed, RED 100",
        "skewed, static limits",
    ]
    .map(|name| format!("{name} {}", evenness(m, &at(name)).shown()));
    f.remark(format!("Jain's index: {}", each.join(", ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_better_and_the_other_not_much_worse() {
        let of = |delay: f64, loss: f64| {
            // Three seeds, 1 % apart: equal on both sides, so that only the means differ.
            let around = |mean: f64| Samples::new(vec![0.99 * mean, mean, 1.01 * mean]);
            let [delay, loss] = [delay, loss].map(around);
            let goodput = Samples::new(vec![9.0]);
            Outcome {
                delay,
                loss,
                goodput,
            }
        };
        let verdict = |ours: Outcome, theirs: Outcome| {
            let mut f = Findings::default();
            better(&mut f, "x", [&ours, &theirs]);
            f.verdict().0.word()
        };
        // If nothing is delivered there is no delay to compare; if goodput was not measured, the claim is missing.
        let of_goodput = |goodput: Vec<f64>| Outcome {
            delay: Samples::default(),
            loss: Samples::default(),
            goodput: Samples::new(goodput),
        };
        assert_eq!(verdict(of_goodput(vec![0.0]), of(100.0, 0.02)), "fails");
        assert_eq!(verdict(of_goodput(vec![]), of(100.0, 0.02)), "missing");
        assert_eq!(verdict(of(90.0, 0.0209), of(100.0, 0.02)), "holds");
        assert_eq!(verdict(of(90.0, 0.022), of(100.0, 0.02)), "fails");
        assert_eq!(verdict(of(104.0, 0.019), of(100.0, 0.02)), "holds");
        // A delay that is lower by less than the minimum effect, or not significantly lower, does not count.
        assert_eq!(verdict(of(98.5, 0.02), of(100.0, 0.02)), "undecided");
        let uncertain = Outcome {
            delay: Samples::new(vec![60.0, 90.0, 120.0]),
            ..of(90.0, 0.0205)
        };
        assert_eq!(verdict(uncertain, of(100.0, 0.02)), "undecided");
        assert_eq!(verdict(of(101.0, 0.0202), of(100.0, 0.02)), "fails");
    }
}
