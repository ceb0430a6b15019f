//! What the text claims, without a table or figure.

use super::arithmetic::{equal_buffers, rule_of_thumb};
use super::{DELAY, INGRESSES, LOAD_14, LOAD_18, LOAD_20, LOSS, goodput, red, rs_red};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};
use crate::statistics::percentile;

const RUNS: &str = "sd-bm/text";

pub(super) const CODE: Code = Code {
    checks: &[
        ("text.1", rule_of_thumb),
        ("text.2", equal_buffers),
        ("text.3", without_refill),
        ("text.4", shaves_peaks),
        ("text.5", another_law),
        ("text.6", similar_traffic),
    ],
    remarks: &[],
    figures: &[],
};

fn at(variant: &str) -> At {
    At::new(RUNS, variant)
}

fn without_refill(m: &Measured, f: &mut Findings) {
    let of_red = m.samples(&red(&LOAD_20), LOSS);
    for threshold in ["0", "50"] {
        let at = at(&format!("no holds, {threshold}"));
        let loss = m.samples(&at, LOSS);
        f.times(
            &format!("threshold {threshold}, loss"),
            &loss,
            &of_red,
            0.95,
        );
        for name in INGRESSES {
            let queue = m.samples(&at, &format!("queue_packets_mean.{name}"));
            f.at_most(
                &format!("threshold {threshold}, packets at {name}"),
                &queue,
                2.0,
            );
        }
    }
}

/// The length that the edge queue does not exceed in 95 % of the samples.
fn peak(m: &Measured, at: &At) -> Samples {
    m.of_curves(at, &["queue_packets.wan"], |curves| {
        let mut sorted = curves[0].to_vec();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, 0.95)
    })
}

fn shaves_peaks(m: &Measured, f: &mut Findings) {
    for load in [&LOAD_18, &LOAD_20] {
        let ours = peak(m, &rs_red(load, "RS-RED", 50));
        let what = format!("{}, 95th percentile of the edge queue", load.name);
        f.less(&format!("{what}, RED"), &ours, &peak(m, &red(load)));
        let tail = At::new(load.scenario, "drop-tail 100");
        f.less(&format!("{what}, drop-tail"), &ours, &peak(m, &tail));
        let set = peak(m, &rs_red(load, "egress-driven", 50)).shown();
        let name = load.name;
        f.remark(format!("{name}, egress-driven: {set}"));
    }
}

/// Whether one of delay and loss is clearly lower, and the mean of the other not more than 5 % higher. A law under
/// which nothing is delivered has neither, and is not better.
fn better(f: &mut Findings, what: &str, [ours, theirs]: [&Outcome; 2]) {
    let said = format!(
        "{what}: delay {} and {} ms, loss {} and {}, goodput {} and {} Mbit/s",
        ours.delay.shown(),
        theirs.delay.shown(),
        ours.loss.shown(),
        theirs.loss.shown(),
        ours.goodput.shown(),
        theirs.goodput.shown()
    );
    match ours.goodput.mean() {
        Some(goodput) if goodput <= 0.0 => f.is(said, false),
        _ => {
            let delays = [&ours.delay, &theirs.delay];
            f.one_less(said, [delays, [&ours.loss, &theirs.loss]], 0.05);
        }
    }
}

/// What a law comes to.
struct Outcome {
    delay: Samples,
    loss: Samples,
    goodput: Samples,
}

impl Outcome {
    fn of(m: &Measured, at: &At) -> Self {
        Self {
            delay: m.samples(at, DELAY),
            loss: m.samples(at, LOSS),
            goodput: goodput(m, at),
        }
    }
}

fn another_law(m: &Measured, f: &mut Findings) {
    let theirs = Outcome::of(m, &rs_red(&LOAD_20, "RS-RED", 50));
    let ours = Outcome::of(m, &at("PI, RS-RED 50"));
    better(f, "PI and RED's law", [&ours, &theirs]);
    let both = |at: &At| [m.samples(at, DELAY), m.samples(at, LOSS)];
    for name in [
        "PI at the egress, RS-RED 50",
        "PI at the egress, egress-driven 50",
    ] {
        let Outcome {
            delay,
            loss,
            goodput,
        } = Outcome::of(m, &at(name));
        let [delay, loss, goodput] = [delay, loss, goodput].map(|a| a.shown());
        f.remark(format!(
            "{name}: delay {delay} ms, loss {loss}, goodput {goodput} Mbit/s"
        ));
    }
    for name in [
        "egress-driven 50, 100 ms under way",
        "egress-driven 50, 20 % lost",
    ] {
        let [delay, loss] = both(&at(name)).map(|a| a.shown());
        f.remark(format!("{name}: delay {delay} ms, loss {loss}"));
    }
    let [delay, loss] = both(&at("static limits")).map(|a| a.shown());
    f.remark(format!(
        "static limits: delay {delay} ms, loss {loss}, goodput {} Mbit/s",
        goodput(m, &at("static limits")).shown()
    ));
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
    let even = evenness(m, &rs_red(&LOAD_14, "RS-RED", 50));
    let skewed = evenness(m, &at("skewed, RS-RED 50"));
    f.less(
        "Jain's index of loss by ingress, skewed and even load",
        &skewed,
        &even,
    );
    for name in [
        "skewed, RS-RED 50",
        "skewed, RS-RED 50, contribution",
        "skewed, egress-driven 50",
        "skewed, egress-driven 50, contribution",
        "skewed, RED 100",
        "skewed, static limits",
    ] {
        let at = at(name);
        f.remark(format!(
            "{name}: Jain {}, goodput {} Mbit/s, loss {}, delay {} ms",
            evenness(m, &at).shown(),
            goodput(m, &at).shown(),
            m.samples(&at, LOSS).shown(),
            m.samples(&at, DELAY).shown()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_better_and_the_other_not_much_worse() {
        let of = |delay: f64, loss: f64| {
            // Three seeds, 1 % apart: the same on both sides, so that they differ by their means alone.
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
            f.judgement().0.word()
        };
        // Where nothing is delivered there is no delay to compare; where it is not known, somebody must look.
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
        // A lower delay that is less than the least effect, or that the seeds do not make certain, is none.
        assert_eq!(verdict(of(98.5, 0.02), of(100.0, 0.02)), "undecided");
        let uncertain = Outcome {
            delay: Samples::new(vec![60.0, 90.0, 120.0]),
            ..of(90.0, 0.0205)
        };
        assert_eq!(verdict(uncertain, of(100.0, 0.02)), "undecided");
        assert_eq!(verdict(of(101.0, 0.0202), of(100.0, 0.02)), "fails");
    }
}
