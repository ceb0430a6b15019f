//! Figures 7 and 9: the effect of the total size of all queues on the schemes.

use super::{DELAY, JITTER, LOSS, goodput, loaded};
use crate::report::Line;
use crate::reproduce::figure::swept;
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, Quantity, Series, pairs, series};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::shown;

const LOADS_7: [f64; 3] = [1.0, 1.4, 1.8];

fn show_7(m: &Measured, f: &mut Findings, what: &str, of: Quantity) {
    f.shown(m, what, |m| {
        let schemes = ["RS-RED 50", "egress-driven 50", "RED 300"];
        series!(for (load, scheme) in pairs(&LOADS_7, &schemes), "load {load:.1}, {scheme}":
            of(&loaded(m, load, scheme)))
    });
}

fn as_much_goodput(m: &Measured, f: &mut Findings) {
    check!(f, for load in LOADS_7, "load {load:.1}, goodput in Mbit/s":
        times(goodput(&loaded(m, load, "RS-RED 50")), goodput(&loaded(m, load, "RED 300")), 0.97));
}

/// A metric of RS-RED is at most 1.25 times RED's, and this more.
fn nearly_as_good(m: &Measured, f: &mut Findings, what: &str, metric: &str, more: f64) {
    for load in LOADS_7 {
        let [ours, red] =
            ["RS-RED 50", "RED 300"].map(|variant| loaded(m, load, variant).metric(metric));
        let what = format!("load {load:.1}, {what} less 1.25 times RED's");
        f.at_most(&what, ours - 1.25 * red, more);
    }
}

pub(super) fn fig7(r: &mut Recipe) {
    r.title = "RS-RED with 100 + 4 x 50 packets compared with RED with 300";
    r.notes = &[
        "At loads of 1.0, 1.4 and 1.8 of what the WAN link carries. `egress-driven` (R32) is not \
         the paper's and decides nothing.",
    ];
    r.scenarios = &["sd-bm/tables-1.0", "sd-bm/tables-1.4", "sd-bm/tables-1.8"];
    fn lines(m: &Measured, of: Quantity) -> Vec<Line> {
        let line = |scheme| swept!(for load in LOADS_7, "{scheme}": of(&loaded(m, load, scheme)));
        ["RED 300", "RS-RED 50", "egress-driven 50"]
            .map(line)
            .into()
    }
    r.figure("Loss, %", "load, C0", |m| {
        lines(m, |at| at.metric(LOSS) * 100.0)
    });
    r.figure("Mean one-way delay, ms", "load, C0", |m| {
        lines(m, |at| at.metric(DELAY))
    });

    claim(r, "fig7.1", "Equal total buffer: throughput as good").measured(|m, f| {
        as_much_goodput(m, f);
        show_7(m, f, "goodput, Mbit/s", goodput);
    });
    claim(r, "fig7.2", "Loss nearly as good").measured(|m, f| {
        nearly_as_good(m, f, "loss", LOSS, 0.002);
        show_7(m, f, "loss", |at| at.metric(LOSS));
    });
    claim(r, "fig7.3", "Delay even lower than RED's").measured(|m, f| {
        let delay = |load, variant| loaded(m, load, variant).metric(DELAY);
        let [ours, red] = ["RS-RED 50", "RED 300"].map(|variant| move |load| delay(load, variant));
        check!(f, "load 1.0, delay in ms": not_more(ours(1.0), red(1.0)));
        check!(f, for load in [1.4, 1.8], "load {load:.1}, delay in ms":
            less(ours(load), red(load)));
        show_7(m, f, "delay, ms", |at| at.metric(DELAY));
    });
    claim(r, "fig7.4", "Jitter nearly as good").measured(|m, f| {
        nearly_as_good(m, f, "jitter in ms", JITTER, 0.0);
        show_7(m, f, "jitter, ms", |at| at.metric(JITTER));
    });
    claim(r, "fig7.5", "So the edge can have a third of the buffer").measured(|m, f| {
        let longest = |queue: &[f64]| queue.iter().copied().reduce(f64::max);
        check!(f, for load in LOADS_7, "load {load:.1}, longest edge queue":
            at_most(loaded(m, load, "RS-RED 50").curve("queue_packets.wan", longest), 100.0));
        as_much_goodput(m, f);
        nearly_as_good(m, f, "loss", LOSS, 0.002);
        show_7(m, f, "loss", |at| at.metric(LOSS));
    });
}

const LOADS_9: [f64; 2] = [1.4, 1.8];
const TOTALS: [u32; 4] = [200, 300, 400, 500];

/// The schemes of Figure 9; the last is not from the paper (R32).
const SCHEMES: [&str; 4] = ["drop-tail", "RED", "RS-RED", "egress-driven"];

/// A scheme with this many packets in all queues.
fn sized<'a>(m: &'a Measured, load: f64, scheme: &str, total: u32) -> Point<'a> {
    m.at(format!("sd-bm/fig9-{load:.1}"), format!("{scheme} {total}"))
}

/// A metric by the number of packets in all queues.
fn by_total(m: &Measured, load: f64, scheme: &str, metric: &str) -> Series {
    let of = |total| sized(m, load, scheme, total).metric(metric);
    series!(for total in TOTALS, "{total}": of(total))
}

fn show_egress_driven(m: &Measured, f: &mut Findings, what: &str, metric: &str) {
    show!(f, m, "egress-driven, load 1.8, {what}": by_total(m, 1.8, "egress-driven", metric));
}

/// The means of a quantity with 200 to 500 packets in all queues; `None` if any was not measured.
fn means(m: &Measured, load: f64, scheme: &str, quantity: Quantity) -> Option<[f64; 4]> {
    let mut means = [0.0; 4];
    for (mean, total) in means.iter_mut().zip(TOTALS) {
        *mean = quantity(&sized(m, load, scheme, total)).mean()?;
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

pub(super) fn fig9(r: &mut Recipe) {
    r.title = "RS-RED, RED and drop-tail by the size of all queues together";
    r.notes = &[
        "RS-RED has 100 packets at the egress and a quarter of the rest as threshold at each \
         ingress; RED and drop-tail have all at the egress. Thresholds of RED, and of RS-RED's \
         controller, are a quarter and three quarters of all.",
    ];
    r.scenarios = &["sd-bm/fig9-1.4", "sd-bm/fig9-1.8"];
    fn lines(m: &Measured, metric: &str, factor: f64) -> Vec<Line> {
        let of = |scheme, total| sized(m, 1.8, scheme, total).metric(metric) * factor;
        SCHEMES
            .map(|scheme| swept!(for total in TOTALS, "{scheme}": of(scheme, total)))
            .into()
    }
    r.figure("Loss at a load of 1.8, %", "packets in all queues", |m| {
        lines(m, LOSS, 100.0)
    });
    let title = "Mean one-way delay at a load of 1.8, ms";
    r.figure(title, "packets in all queues", |m| lines(m, DELAY, 1.0));

    claim(r, "fig9.1", "Larger queue, less loss (all three schemes)").measured(|m, f| {
        for (load, scheme) in pairs(&LOADS_9, &SCHEMES[..3]) {
            let of = |total| sized(m, load, scheme, total).metric(LOSS);
            let steps = series!(for total in [500, 400, 300, 200], "{total}": of(total));
            check!(f, "fig9, load {load:.1}, {scheme}, loss from large to small": rises(steps));
        }
        show_egress_driven(m, f, "loss", LOSS);
    });
    claim(r, "fig9.2", "Larger queue, more delay (all three)").measured(|m, f| {
        check!(f, for (load, scheme) in pairs(&LOADS_9, &SCHEMES[..3]),
            "fig9, load {load:.1}, {scheme}, delay in ms": rises(by_total(m, load, scheme, DELAY)));
        show_egress_driven(m, f, "delay in ms", DELAY);
    });
    claim(r, "fig9.3", "Throughput and jitter change little").measured(|m, f| {
        let quantities: [(_, Quantity, _); 2] = [
            ("goodput", goodput, 1.05),
            ("jitter", |at| at.metric(JITTER), 1.5),
        ];
        for (load, scheme) in pairs(&LOADS_9, &SCHEMES[..3]) {
            for (what, quantity, most) in quantities {
                let ratio = means(m, load, scheme, quantity).map(|means| spread(&means));
                let shown = known(ratio);
                check!(f, "fig9, load {load:.1}, {scheme}, {what}, largest divided by smallest: {shown} (at most \
                           {most})": is_if_known(ratio.map(|ratio| ratio <= most)));
            }
        }
        show_egress_driven(m, f, "jitter in ms", JITTER);
    });
    claim(r, "fig9.4", "RS-RED changes smoothly").measured(|m, f| {
        let quantities: [(_, Quantity); 2] = [
            ("delay", |at| at.metric(DELAY)),
            ("loss", |at| at.metric(LOSS)),
        ];
        for (load, (what, quantity)) in pairs(&LOADS_9, &quantities) {
            let all = SCHEMES.map(|scheme| roughness(&means(m, load, scheme, quantity)?));
            let [tail, red, ours, egress_driven] = all.map(known);
            let is_smooth = all[2].zip(all[0]).zip(all[1]);
            let is_smooth = is_smooth.map(|((ours, tail), red)| ours <= red && ours <= tail);
            check!(f, "fig9, load {load:.1}, {what}, distance from a straight line as a share of its range: RS-RED \
                       {ours} (RED {red}, drop-tail {tail})": is_if_known(is_smooth));
            f.remark(format!("fig9, load {load:.1}, {what}, egress-driven: {egress_driven}"));
        }
    });
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
