//! The equations, and the controller that computes with them.

use rand::RngExt;
use weir_base::setting::{Scalar, Setting};
use weir_base::{Instant, Span, Streams};
use weir_controller::flow_control::{committed, excess};
use weir_controller::{Controller, Order, QueueName, QueueSample, Sample, Spec};
use weir_discipline::channel::dppbrb::{Law, by_rate};
use weir_discipline::parts::rate::{RateEstimate, Window};

use super::{TCP, UDP, at};
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::series;
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::shown;

/// Total rate in bit/s: five FEs on 100 Mbit/s, with 5 Mbit/s of control messages each.
const TOTAL: f64 = 100e6;
const CONTROL: f64 = 5e6;

/// B_e in Mbit/s if three of the five FEs redirect 50 Mbit/s and two 5 Mbit/s.
fn two_quiet(delta: f64) -> f64 {
    let rate = committed(TOTAL, &[CONTROL; 5]);
    excess(rate, delta, &mut [50e6, 50e6, 50e6, 5e6, 5e6]) / 1e6
}

pub(super) fn model(r: &mut Recipe) {
    r.title = "The equations, computed and in queues";
    r.notes = &[
        "R21: the printed B_c of 21.92 M is B_e, alpha is delta, and equation 13 clips at B_e. The \
         sweep of delta is Figure 17 at x = 50.",
    ];
    r.scenarios = &["forces-flow-control/shares", "forces-flow-control/delta"];
    r.loads = &[
        "forces-flow-control/linear",
        "forces-flow-control/forms",
        "forces-flow-control/rates",
    ];
    transport(r);
    dppbrb(r);
    flow_control(r);
}

fn transport(r: &mut Recipe) {
    let text = "The CETML's work is linear in FEs, channels and messages, plus set-up";
    claim(r, "model.1", text).measured(linear);
    claim(r, "model.2", "Threads load the CETML less than processes").measured(|m, f| {
        let busy = |form, n| {
            at(m, "forms", form)
                .and("fes", n)
                .metric("busy_us_per_event")
        };
        check!(f, for n in [1, 8, 16],
            "{n} FEs, processor time of an event, us, one thread and processes":
                less(busy("one thread", n), busy("process", n)));
        show!(f, m, "two threads": for n in [1, 8, 16], "{n} FEs": busy("two threads", n));
        show!(f, m, "processor time of the set-up, ms, one thread and processes with 16 FEs":
            for form in ["one thread", "process"], "{form}":
                at(m, "forms", form).and("fes", 16).metric("setup_s") * 1000.0);
        f.remark("with one FE both forms are the same program: one process with one thread");
    });
    let text = "Send and receive in separate threads: more resources, more throughput";
    claim(r, "model.3", text).measured(|m, f| {
        let of = |form, metric| at(m, "rates", form).and("per_s", 1000).metric(metric);
        for (what, metric) in [
            (
                "at 2.5 times what one thread carries, events answered in a second",
                "delivered_per_s",
            ),
            ("processors in use", "busy_ratio"),
        ] {
            check!(f, "{what}, one and two threads":
                less(of("one thread", metric), of("two threads", metric)));
        }
    });
}

fn dppbrb(r: &mut Recipe) {
    let text = "While both queues wait, their shares are p_c and 1 - p_c";
    claim(r, "model.4", text).measured(|m, f| {
        for share in [0.5, 0.65, 0.8, 0.95] {
            let at = at(m, "shares", share.to_string());
            let tcp = at.metric("tcp_goodput_mbps") / TCP;
            let udp = at.metric("udp_goodput_mbps") / UDP;
            check!(f, "p_c = {share}, share of control messages":
                between(tcp.clone() / (tcp + udp), [share - 0.01, share + 0.01]));
        }
        f.remark(
            "a unit test has both queues filled at every moment: \
             dppbrb::tests::fixed::both_backlogged_share_by_the_probability",
        );
    });
    let text = "p_c = 0 or 1 shuts one queue out; otherwise the server never idles";
    claim(r, "model.5", text).measured(|m, f| {
        let tcp = at(m, "shares", "0").metric("tcp_goodput_mbps") / TCP;
        check!(f, "p_c = 0, control messages, Mbit/s": at_most(tcp, 0.0));
        let udp = at(m, "shares", "1").metric("udp_goodput_mbps") / UDP;
        check!(f, "p_c = 1, redirect messages, Mbit/s": at_most(udp, 0.0));
        for variant in ["0, only control", "1, only redirect"] {
            check!(f, "p_c = {variant} messages, use of the link":
                at_least(at(m, "shares", variant).metric("utilisation_ratio.uplink"), 0.999));
        }
    });
    claim(r, "model.6", "The rate estimator settles on the true rate").arithmetic(settles);
    let text = "Dropping by rate alone trims a flow to its bandwidth";
    claim(r, "model.7", text).arithmetic(trims);
    let text = "p_c stays in [1/2, 1], falls by lambda_p at ease, grows under pressure";
    claim(r, "model.8", text).arithmetic(stays);
}

fn flow_control(r: &mut Recipe) {
    let text = "The committed rate is 15 Mbit/s, B_c 22.5 Mbit";
    claim(r, "model.9", text).arithmetic(|_, f| {
        let rate = committed(TOTAL, &[CONTROL; 5]);
        check!(f, "B_c / T_s, Mbit/s": between(rate / 1e6, [15.0, 15.0]));
        check!(f, "B_c, Mbit": between(rate * 1.5 / 1e6, [22.5, 22.5]));
    });
    claim(r, "model.10", "B_e is about 21.92 Mbit/s at delta = 1 %").arithmetic(|_, f| {
        check!(f, "B_e, Mbit/s": between(two_quiet(0.01), [21.91, 21.93]));
    });
    claim(r, "model.11", "delta = 0: no extra burst").arithmetic(|_, f| {
        let rate = committed(TOTAL, &[CONTROL; 5]);
        let all = excess(rate, 0.0, &mut [50e6; 5]);
        let text = format!("all FEs clipped: B_e {} Mbit/s", shown(all / 1e6));
        f.is(text, all == rate);
    });
    let text = "A smaller delta: a smaller B_e, less burst, less congestion";
    claim(r, "model.12", text).measured(|m, f| {
        const DELTAS: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
        let level = DELTAS.map(two_quiet);
        // The value is computed, not measured, so any rise counts, however small.
        let is_rising = level.is_sorted_by(|a, b| a < b);
        check!(f, "B_e, Mbit/s, by delta, rises: {level:.2?}": is(is_rising));
        let by_delta = |delta: f64| at(m, "delta", "on, x 50").and("delta", delta);
        let is_full = |packets: &[f64]| {
            let full = packets.iter().filter(|n| **n >= 99.0).count();
            Some(full as f64 / packets.len() as f64)
        };
        let full = series!(for percent in [0.0, 0.1, 1.0, 5.0], "{percent} %":
            by_delta(percent / 100.0).curve("queue_packets.ce", is_full));
        check!(f, "share of time with a full queue at the CE's link, by delta,": rises(full));
        show!(f, m, "control messages of all, Mbit/s, by delta": for delta in DELTAS, "{delta}":
            by_delta(delta).metric("tcp_goodput_mbps") / TCP);
    });
    let text = "delta = 0 treats FEs alike, but wastes bandwidth";
    claim(r, "model.13", text).measured(|m, f| {
        let at = |delta| at(m, "delta", "on, x 50").and("delta", delta);
        for pair in [[1, 2], [2, 3], [1, 3]] {
            let [a, b] = pair.map(|fe| at("0").metric(format!("goodput_mbps.redirect{fe}")) / UDP);
            let [one, other] = pair;
            check!(f, "FE{one} and FE{other}": within(a, b, 0.02));
        }
        let [none, some] = ["0", "0.01"].map(|delta| at(delta).metric("utilisation_ratio.ce"));
        check!(f, "use of the CE's link at 0 and at 1 %": less(none, some));
        f.remark(
            "equation 13 gives the busy FEs at delta = 0 what the quiet ones leave, so that control and redirect \
             messages add up to 100 of 100 Mbit/s. With B_e = B_c / T_s, as in the text for delta = 0, they would \
             add up to 25 + 10 + 45 = 80: that is the waste",
        );
    });
    let text = "The CE recomputes when the number of FEs changes";
    claim(r, "model.14", text).arithmetic(anew);
}

/// Equation 4: the CE's work is a sum over FEs and channels of the set-up T_p and of M messages of length L at the
/// speed V. Speed and length have the channel's index, so that each channel has its own time for a message, L / V. Here
/// both channels of an FE are one term, and events of 64 B and of 1024 B count as separate channels.
fn linear(m: &Measured, f: &mut Findings) {
    const FES: [u32; 4] = [1, 4, 16, 64];
    const RATES: [u32; 3] = [100, 200, 400];
    let mut points: Vec<Place<4>> = Vec::new();
    for fes in FES {
        for (place, bytes) in [64, 1024].into_iter().enumerate() {
            for rate in RATES {
                let at = at(m, "linear", "one thread").and("fes", fes);
                let at = at.and("bytes", bytes).and("per_s", rate);
                let busy = at.metric("total_s").mean();
                let events = at.metric("delivered_per_s").mean(); // the test takes a second
                let (Some(busy), Some(events)) = (busy, events) else {
                    return f.is_if_known("busy time of the CE", None);
                };
                let mut x = [1.0, f64::from(fes), 0.0, 0.0];
                x[2 + place] = events;
                points.push((x, busy));
            }
        }
    }
    let Some((terms, share)) = least_squares(&points) else {
        return f.is_if_known("a fit of the busy time", None);
    };
    check!(f, "fit of the CE's busy time, R2": at_least(share, 0.95));
    let [start, setup, small, large] = terms;
    let [start, setup] = [start, setup].map(|s| shown(s * 1e3));
    let [small, large] = [small, large].map(|s| shown(s * 1e6));
    f.remark(format!(
        "start {start} ms, set-up {setup} ms for each FE, {small} us for an event of 64 B and {large} \
         us for one of 1024 B, answers included"
    ));
    let by_bytes: Vec<Place<3>> = points
        .iter()
        .map(|([one, fes, small, large], busy)| {
            ([*one, *fes, small * 64.0 + large * 1024.0], *busy)
        })
        .collect();
    if let Some((_, share)) = least_squares(&by_bytes) {
        let share = shown(share);
        f.remark(format!(
            "with one speed V in bytes per second for both lengths, R2 is {share}"
        ));
    }
}

/// The values of x and y.
type Place<const N: usize> = ([f64; N], f64);

/// The factors of the best fit of y by a sum of multiples of x, and its R2; `None` if the factors are not determined.
fn least_squares<const N: usize>(points: &[Place<N>]) -> Option<Place<N>> {
    // The normal equations, solved by elimination (Gauss) with pivots.
    let sum = |of: &dyn Fn(&Place<N>) -> f64| points.iter().map(of).sum::<f64>();
    let mut rows: [Place<N>; N] = std::array::from_fn(|row| {
        let left = std::array::from_fn(|column| sum(&|(x, _)| x[row] * x[column]));
        (left, sum(&|(x, y)| x[row] * y))
    });
    for step in 0..N {
        let size = |row: &usize| rows[*row].0[step].abs();
        let pivot = (step..N).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        rows.swap(step, pivot);
        let (left, right) = rows[step];
        if left[step].abs() < 1e-12 {
            return None;
        }
        for row in (0..N).filter(|row| *row != step) {
            let factor = rows[row].0[step] / left[step];
            (0..N).for_each(|column| rows[row].0[column] -= factor * left[column]);
            rows[row].1 -= factor * right;
        }
    }
    let factors: [f64; N] = std::array::from_fn(|n| rows[n].1 / rows[n].0[n]);
    let mean = sum(&|(_, y)| *y) / points.len() as f64;
    let fitted = |x: &[f64; N]| x.iter().zip(&factors).map(|(x, k)| x * k).sum::<f64>();
    let rest = sum(&|(x, y)| (y - fitted(x)).powi(2));
    Some((factors, 1.0 - rest / sum(&|(_, y)| (y - mean).powi(2))))
}

/// A constant rate that follows silence: the estimate after five windows.
fn settles(_: &Measured, f: &mut Findings) {
    const RATE_BPS: f64 = 5e6;
    for window in [Span::from_millis(20), Span::from_millis(500)] {
        for bytes in [64_u32, 210, 1000] {
            let gap = Span::from_secs_f64(f64::from(bytes) * 8.0 / RATE_BPS);
            let packets = window.times(5).as_nanos() / gap.as_nanos();
            let (mut estimate, k) = (RateEstimate::default(), Window::new(window));
            (0..packets).for_each(|_| estimate.update(k, gap, bytes.into()));
            check!(f, "K {window}, messages of {bytes} B: estimate after 5 K, by the rate":
                between(estimate.bps() / RATE_BPS, [0.98, 1.02]));
        }
    }
}

fn trims(_: &Measured, f: &mut Findings) {
    const PACKETS: u32 = 200_000;
    let mut draws = Streams::new(1).stream("reproduce.trims");
    for k in [1.5, 2.0, 4.0] {
        let drop = by_rate(1e6, k * 1e6);
        let left = (0..PACKETS).filter(|_| draws.random::<f64>() >= drop);
        let output = left.count() as f64 * k / f64::from(PACKETS);
        check!(f, "at {k} B_i, output by B_i": between(output, [0.98, 1.02]));
    }
    let law = table_1();
    let product = |queue| shown(4.0 * (1.0 - law.by_buffer(queue) * by_rate(1e6, 4e6)));
    f.remark(format!(
        "the product of equation 9 drops less: at 4 B_i, {} B_i pass where 50 messages wait, {} B_i \
         where 75 do",
        product(50),
        product(75)
    ));
}

/// The constants of Table 1.
fn table_1() -> Law {
    Law {
        buffer_slope: 0.0127,
        buffer_offset: 0.0,
        threshold: 0.011,
        decay: 0.995,
        estimate: Span::from_millis(20),
        max_threshold: 75,
        min_threshold: 25,
    }
}

fn stays(_: &Measured, f: &mut Findings) {
    const STEPS: u32 = 1_000_000;
    let (law, mut share) = (table_1(), 0.8);
    let mut draws = Streams::new(1).stream("reproduce.stays");
    let [mut outside, mut wrong] = [0, 0];
    for _ in 0..STEPS {
        let drop = if draws.random_bool(0.5) {
            0.0
        } else {
            draws.random::<f64>().powi(3)
        };
        let next = law.adjust(share, drop);
        outside += u32::from(!(0.5..=1.0).contains(&next));
        let right = match drop {
            0.0 => next == (share * law.decay).max(0.5),
            drop if drop > law.threshold => next > share || next == 1.0,
            _ => next == share,
        };
        wrong += u32::from(!right);
        share = next;
    }
    check!(f, "{outside} of {STEPS} steps leave [1/2, 1]": is(outside == 0));
    check!(f, "{wrong} steps go in the wrong direction": is(wrong == 0));
}

/// Five FEs; the fifth answers until 1 s and again from 2 s on. Measures the time until the controller has sent the new
/// rates to all others.
fn anew(_: &Measured, f: &mut Findings) {
    let none: [(&str, &Scalar); 0] = [];
    let Ok(spec) = Spec::check("flow_control", &[5], none) else {
        return;
    };
    let mut controller = spec.build();
    (0..5).for_each(|fe| controller.join(&uplink(fe), "uplinks"));
    let level = |n: usize| {
        let rate = committed(TOTAL, &vec![CONTROL; n]);
        let mut redirect = [50e6, 50e6, 5e6, 5e6, 50e6];
        [rate, excess(rate, 0.01, &mut redirect[..n])]
    };
    (0..1000)
        .step_by(40)
        .for_each(|now| drop(step(controller.as_mut(), now)));
    for (event, until, present) in [(1000, 2000, 4), (2000, 3000, 5)] {
        let [rate, more] = level(present);
        let took = (event..until).step_by(40).find(|now| {
            let orders = step(controller.as_mut(), *now);
            let is = |order: &Order, parameter: &str, wanted: f64| {
                let right = match order.value {
                    Setting::Rate(rate) => (rate.as_bps() as f64 - wanted).abs() < 1.0,
                    _ => false,
                };
                order.parameter == parameter && right
            };
            let ordered = |fe: usize, parameter: &str, wanted: f64| {
                let queue = uplink(fe);
                let mut of = orders.iter().filter(|order| order.queue == queue);
                of.any(|order| is(order, parameter, wanted))
            };
            (0..present).all(|fe| ordered(fe, "committed", rate) && ordered(fe, "excess", more))
        });
        let what = format!(
            "{present} FEs: B_c/T_s {} and B_e {} Mbit/s everywhere",
            shown(rate / 1e6),
            shown(more / 1e6)
        );
        match took {
            Some(now) => f.at_most(&format!("{what}, after s"), (now - event) as f64 / 1e3, 1.0),
            None => f.is(format!("{what}: not within 1 s"), false),
        }
    }
}

/// The queue of an FE towards the CE.
fn uplink(fe: usize) -> QueueName {
    QueueName {
        element: format!("fe{}", fe + 1).into(),
        port: "ce".into(),
    }
}

/// Hands the controller a sample at `now`, in ms.
fn step(controller: &mut dyn Controller, now: u64) -> Vec<Order> {
    let samples: Vec<QueueSample> = [50, 50, 5, 5, 50]
        .iter()
        .enumerate()
        .map(|(fe, mbps)| {
            let sample = Sample::default().with_gauge("redirect_bytes", mbps * now * 125);
            QueueSample {
                queue: uplink(fe),
                sample: (fe != 4 || !(1000..2000).contains(&now)).then_some(sample),
            }
        })
        .collect();
    let mut orders = Vec::new();
    controller.sample(
        Instant::ZERO + Span::from_millis(now),
        &samples,
        &mut orders,
    );
    orders
}

#[cfg(test)]
mod tests {
    use super::least_squares;

    #[test]
    fn a_plane_is_found_and_noise_lowers_the_fit() {
        let points = |noise: f64| {
            let at = |n: u32| [1.0, f64::from(n % 4), f64::from(n * n)];
            let points = (0..20).map(|n| {
                let x = at(n);
                let sign = if n % 2 == 0 { noise } else { -noise };
                (x, 5.0 + 2.0 * x[1] - 0.25 * x[2] + sign)
            });
            points.collect::<Vec<_>>()
        };
        let (factors, share) = least_squares(&points(0.0)).unwrap();
        let off = factors
            .iter()
            .zip([5.0, 2.0, -0.25])
            .map(|(a, b)| (a - b).abs());
        assert!(off.sum::<f64>() < 1e-9 && share > 0.999_999, "{factors:?}");
        let (_, noisy) = least_squares(&points(20.0)).unwrap();
        assert!((0.1..0.9).contains(&noisy), "{noisy}");
        assert_eq!(least_squares(&[([1.0, 2.0], 3.0)]), None);
    }
}
