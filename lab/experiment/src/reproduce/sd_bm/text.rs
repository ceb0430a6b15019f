//! Claims of the text without a table or figure.

use super::{DELAY, INGRESSES, LOSS, goodput, loaded, peak, tables};
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::query::{Point, Quantity, pairs};
use crate::reproduce::recipe::{Recipe, claim, names};
use crate::reproduce::samples::Samples;

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
    fn of(at: &Point<'_>) -> Self {
        Self {
            delay: at.metric(DELAY),
            loss: at.metric(LOSS),
            goodput: goodput(at),
        }
    }
}

/// Jain's index of the loss ratios of the four ingresses' traffic.
fn evenness(at: &Point<'_>) -> Samples {
    let of = |n: u32| {
        let traffics = ["a", "b", "udp"].map(|kind| {
            let loss = at.metric(format!("loss_ratio.{kind}{n}"));
            let received = at.metric(format!("packets_received_per_s.{kind}{n}"));
            let sent = received.with(&loss, |received, loss| received / (1.0 - loss));
            [sent.clone() - received, sent]
        });
        let all = traffics.into_iter();
        let sum = all.reduce(|[lost, sent], [more, other]| [lost + more, sent + other]);
        let [lost, sent] = sum.unwrap_or_default();
        lost / sent
    };
    let all = [4, 5, 6, 7].map(of);
    let sum = |of: fn(f64) -> f64| {
        let [a, b, c, d] = all.each_ref().map(|share| share.map(of));
        (a + b) + (c + d)
    };
    let (sum, squares) = (sum(|x| x), sum(|x| x * x));
    sum.map(|sum| sum * sum) / (4.0 * squares)
}

pub(super) fn text(r: &mut Recipe) {
    r.title = "What the text claims";
    r.notes = &[
        "Static rate limits, today's practice, are a rate of 2.5 Mbit/s for each ingress link, a \
         quarter of what the WAN carries. Skewed traffic has the same load, four parts of seven of \
         it at n4.",
        "The PI law has a target of 100 packets for the virtual queue; its gains follow from \
         Hollot et al. for 40 flows, 1250 packets a second and a round trip of 0.16 s.",
    ];
    r.scenarios = &[
        "sd-bm/tables-1.4",
        "sd-bm/tables-1.8",
        "sd-bm/tables",
        "sd-bm/text",
    ];

    claim(r, "text.1", "40 Gb/s x 250 ms = 1.25 GB").arithmetic(|_, f| {
        check!(f, "40 Gbit/s x 250 ms, GB": between(40e9 * 0.25 / 8.0 / 1e9, [1.25, 1.25]));
    });
    let text = "Buffers compared are equal: 100 + 4 x 50 = 300 packets, near round trip x C0";
    claim(r, "text.2", text).arithmetic(|_, f| {
        let packets = 100.0 + 4.0 * 50.0;
        check!(f, "100 + 4 x 50 packets": between(packets, [300.0, 300.0]));
        check!(f, "ms that they take on the link (rule of thumb: 250)":
            between(packets * 8000.0 / 10e6 * 1e3, [225.0, 275.0]));
        f.remark("a mean delay of 81 ms leaves no room for a round trip of 240 ms (R25)");
    });
    claim(r, "text.3", "Without refill the total loss does not fall").measured(|m, f| {
        let at = |threshold| m.at("sd-bm/text", format!("no holds, {threshold}"));
        let red = tables(m, "RED", 100).metric(LOSS);
        check!(f, for threshold in [0, 50], "threshold {threshold}, loss":
            times(at(threshold).metric(LOSS), &red, 0.95));
        for (name, threshold) in pairs(&INGRESSES, &[0, 50]) {
            let packets = at(threshold).metric(format!("queue_packets_mean.{name}"));
            check!(f, "threshold {threshold}, packets at {name}": at_most(packets, 2.0));
        }
    });
    claim(r, "text.4", "Refill shaves the egress peaks").measured(|m, f| {
        let peak = |load, variant| loaded(m, load, variant).curve("queue_packets.wan", peak);
        for (name, other) in [("RED", "RED 100"), ("drop-tail", "drop-tail 100")] {
            check!(f, for load in [1.8, 2.0],
                "load {load:.1}, 95th percentile of the edge queue, {name}":
                    less(peak(load, "RS-RED 50"), peak(load, other)));
        }
        show!(f, m, "egress-driven": for load in [1.8, 2.0], "load {load:.1}":
            peak(load, "egress-driven 50"));
    });
    other_laws(r);
}

fn other_laws(r: &mut Recipe) {
    let text = "Another control law with refill can do better (not shown)";
    claim(r, "text.5", text).measured(|m, f| {
        let theirs = Outcome::of(&tables(m, "RS-RED", 50));
        let ours = Outcome::of(&m.at("sd-bm/text", "PI, RS-RED 50"));
        better(f, "PI and RED's law", [&ours, &theirs]);
        let laws = names![
            "PI at the egress, RS-RED 50" "PI at the egress, egress-driven 50"
            "egress-driven 50, 100 ms under way" "egress-driven 50, 20 % lost" "static limits"
        ];
        let quantities: [(_, Quantity); 3] = [
            ("delay, ms", |at| at.metric(DELAY)),
            ("loss", |at| at.metric(LOSS)),
            ("goodput, Mbit/s", goodput),
        ];
        for (what, of) in quantities {
            show!(f, m, "{what}": for law in laws, "{law}":
                of(&m.at("sd-bm/text", law)));
        }
    });
    let text = "Equal drop probability suffices only for similar ingress traffic (scope)";
    claim(r, "text.6", text).measured(|m, f| {
        let even = evenness(&loaded(m, 1.4, "RS-RED 50"));
        let skewed = evenness(&m.at("sd-bm/text", "skewed, RS-RED 50"));
        check!(f, "Jain's index of loss by ingress, skewed and even load": less(skewed, even));
        let schemes = names![
            "skewed, RS-RED 50" "skewed, RS-RED 50, contribution" "skewed, egress-driven 50"
            "skewed, egress-driven 50, contribution" "skewed, RED 100" "skewed, static limits"
        ];
        let quantities: [(_, Quantity); 4] = [
            ("Jain's index", evenness),
            ("goodput, Mbit/s", goodput),
            ("loss", |at| at.metric(LOSS)),
            ("delay, ms", |at| at.metric(DELAY)),
        ];
        for (what, of) in quantities {
            show!(f, m, "{what}": for scheme in schemes, "{scheme}":
                of(&m.at("sd-bm/text", scheme)));
        }
    });
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
