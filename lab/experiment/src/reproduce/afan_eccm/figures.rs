//! The basic link, and Figures 7 to 9.

use super::{
    AFTER_RUNS, BOTH, DELAY, GOODPUT, INTERNATIONAL, INTERVALS, INTERVALS_EFMP, LISTED, LOCAL,
    MECHANISMS, alike, at, basic_link, by_interval, show_printed,
};
use crate::report::Line;
use crate::reproduce::figure::swept;
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, extremes, pairs};
use crate::reproduce::recipe::{Recipe, TOLERANCE, claim, line, names};
use crate::reproduce::samples::Samples;

/// A metric by interval, with a line for each mechanism.
fn lines(m: &Measured, metric: &str) -> Vec<Line> {
    let line = |(name, mechanism, intervals): (&str, _, &[u32])| {
        let of = |s| at(m, mechanism, s).metric(metric);
        swept!(for s in intervals.iter().copied(), "{name}": of(s))
    };
    MECHANISMS.map(line).into()
}

/// Other readings of the basic link.
const READINGS: [&str; 6] = names![
    "access as printed" "volumes as printed" "delays as printed" "streams from 20 s"
    "window of 20 packets" "buffer of 1000 packets"
];

fn show_basic(m: &Measured, f: &mut Findings, metric: &str) {
    f.shown(m.printed(), "as printed", |m| basic_link(m).metric(metric));
    show!(f, m, "other readings": for reading in READINGS, "{reading}":
        m.at("afan-eccm/readings", reading).metric(metric));
}

const BASIC_COLUMNS: [&str; 3] = names![
    "acceptance delay, s" "goodput of an elastic flow, Mbit/s" "elastic flows on the list"
];

pub(super) fn basic(r: &mut Recipe) {
    r.title = "100 Mbit/s without a mechanism";
    r.notes = &[
        "R11 is calibrated on this link, so that its three numbers are no evidence: access links \
         of 1 Gbit/s, transfers that outlast the run, delays of 0.1 ms and 1 ms. Streams that are never accepted \
         count with their wait until the end of the run.",
    ];
    r.scenarios = &["afan-eccm/none"];
    r.readings = &["afan-eccm/readings"];
    let printed = [201.66, 3.71, 22.9];
    let metrics = [DELAY, GOODPUT, LISTED];
    let place = [("reading", "as read".into())];
    line(r, place, &BASIC_COLUMNS, printed, [TOLERANCE; 3])
        .ours(move |m| metrics.map(|metric| basic_link(m).metric(metric)));
    let names = names![
        "access links of 10 Mbit/s" "transfers of 210 Mbit" "delays of 1 ms and 10 ms"
        "streams from 20 s on (R10)" "window of 20 packets" "buffer of 1000 packets"
    ];
    for (name, variant) in names.into_iter().zip(READINGS) {
        let place = [("reading", name.into())];
        line(r, place, &BASIC_COLUMNS, printed, [TOLERANCE; 3]).ours(move |m| {
            let at = m.at("afan-eccm/readings", variant);
            metrics.map(|metric| at.metric(metric))
        });
    }

    let text = "Without a mechanism streams wait unacceptably long";
    claim(r, "basic.1", text).calibrated(|m, f| {
        check!(f, "mean acceptance delay, s": above(basic_link(m).metric(DELAY), 11.0));
        let accepted = "acceptance_delay_s_accepted.stream";
        show!(f, m, "of accepted streams only": basic_link(m).metric(accepted));
        show!(f, m, "never accepted, of 20": basic_link(m).metric("never_accepted_flows.stream"));
        show_basic(m, f, DELAY);
    });
    claim(r, "basic.2", "Elastic goodput about 3.7 Mb/s").calibrated(|m, f| {
        check!(f, "goodput, Mbit/s": between(basic_link(m).metric(GOODPUT), [2.8, 4.7]));
        show!(f, m, "goodput of the link over flows on the list":
            basic_link(m).metric("tcp_goodput_mbps") / basic_link(m).metric(LISTED));
        show_basic(m, f, GOODPUT);
    });
    claim(r, "basic.3", "PFL size about 23").calibrated(|m, f| {
        check!(f, "elastic flows on the list": between(basic_link(m).metric(LISTED), [19.0, 27.0]));
        show_basic(m, f, LISTED);
    });
    claim(r, "basic.4", "Printed values agree with the link").arithmetic(|_, f| {
        check!(f, "22.9 x 3.71, Mbit/s": at_most(22.9 * 3.71, 100.0));
        check!(f, "100 / 22.9, Mbit/s": at_most(100.0 / 22.9, 5.0));
    });
}

pub(super) fn fig7(r: &mut Recipe) {
    r.title = "Acceptance delay by mechanism and interval";
    r.notes = &[
        "EFMP with the oldest-flow policy. R9: ECCM's later steps are driven by timers. R11 is \
         calibrated on the link without mechanism, see afan-eccm/basic.",
        "R29: goodput is the mean over the accepted elastic flows, since their acceptance, without flows removed in \
         the clean-up of the run that accepted them: section 4 says that they \"are deleted in short time after \
         acceptance\", and counting them would contradict its \
         \"almost unchanged\". R30: flows on the list are sampled one second after each run of the mechanism began, \
         when its clean-up or restoration is over; without a mechanism the figure is the mean over time.",
    ];
    r.scenarios = &["afan-eccm/none", "afan-eccm/mechanisms"];
    let title = "Acceptance delay of streams, s";
    r.figure(title, "interval between two runs, s", |m| lines(m, DELAY));
    fn delay(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        at(m, mechanism, interval).metric(DELAY)
    }

    claim(r, "fig7.1", "RAMAF and ECCM far better than EFMP").measured(|m, f| {
        check!(f, for other in BOTH, "delay at 3 s, EFMP to {other}":
            times(delay(m, "efmp", 3), delay(m, other, 3), 1.5));
        show_printed(m, f, DELAY);
    });
    claim(r, "fig7.2", "At a short interval RAMAF and ECCM are alike").measured(|m, f| {
        let [a, b] = BOTH.map(|name| delay(m, name, 3));
        let what = format!("delay at 3 s, RAMAF {}, ECCM {}", a.shown(), b.shown());
        f.is_if_known(what, alike(&a, &b, |a, b| (a - b).abs() <= 1.0));
    });
    claim(r, "fig7.3", "At longer intervals ECCM is better").measured(|m, f| {
        let both =
            [9, 12, 15].map(|s| (format!("{s} s"), delay(m, "eccm", s), delay(m, "ramaf", s)));
        f.mostly_less("delay, ECCM and RAMAF", &both, 2);
        show_printed(m, f, DELAY);
    });
    claim(r, "fig7.4", "d_acc grows with the interval").measured(|m, f| {
        check!(f, for (name, mechanism, intervals) in MECHANISMS, "delay, {name}":
            rises(by_interval(intervals, |s| delay(m, mechanism, s))));
    });
    claim(r, "fig7.5", "Local bound met at 3 and 6 s").measured(|m, f| {
        check!(f, for (name, s) in pairs(&BOTH, &[3, 6]), "delay, {name} {s} s":
            at_most(delay(m, name, s), LOCAL));
    });
    claim(r, "fig7.6", "ECCM also meets it at 9 s").measured(|m, f| {
        check!(f, "delay, eccm 9 s": at_most(delay(m, "eccm", 9), LOCAL));
    });
    claim(
        r,
        "fig7.7",
        "RAMAF misses the local bound at 9 s; above 9 s, both miss it",
    )
    .measured(|m, f| {
        for (name, intervals) in [("ramaf", &INTERVALS[2..]), ("eccm", &INTERVALS[3..])] {
            check!(f, for &s in intervals, "delay, {name} {s} s": above(delay(m, name, s), LOCAL));
        }
        show_printed(m, f, DELAY);
    });
    claim(r, "fig7.8", "EFMP is unacceptable above 4 s").measured(|m, f| {
        check!(f, "delay, EFMP 6 s": above(delay(m, "efmp", 6), INTERNATIONAL));
        show!(f, m, "below": by_interval(&INTERVALS_EFMP, |s| delay(m, "efmp", s)));
    });
    claim(r, "fig7.9", "All are a great gain over the basic link").measured(|m, f| {
        check!(f, for name in BOTH, "delay, basic to {name} 3 s":
            times(basic_link(m).metric(DELAY), delay(m, name, 3), 10.0));
        show_printed(m, f, DELAY);
    });
    claim(r, "fig7.10", "International bound (11 s) for each interval").measured(|m, f| {
        for (name, intervals) in [("ramaf", &INTERVALS[..2]), ("eccm", &INTERVALS[..3])] {
            check!(f, for &s in intervals, "delay, {name} {s} s":
                at_most(delay(m, name, s), INTERNATIONAL));
        }
        show!(f, m, "EFMP": by_interval(&INTERVALS_EFMP, |s| delay(m, "efmp", s)));
        show!(f, m, "RAMAF and ECCM": for (name, s) in pairs(&BOTH, &[9, 12, 15]), "{name} {s} s":
            delay(m, name, s));
    });
}

pub(super) fn fig8(r: &mut Recipe) {
    r.title = "Goodput of elastic flows by mechanism and interval";
    r.notes = &["Set-up and readings as in afan-eccm/fig7."];
    r.scenarios = &["afan-eccm/none", "afan-eccm/mechanisms"];
    let title = "Goodput of an elastic flow since its acceptance, Mbit/s";
    r.figure(title, "interval between two runs, s", |m| lines(m, GOODPUT));
    fn goodput(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        at(m, mechanism, interval).metric(GOODPUT)
    }

    claim(r, "fig8.1", "EFMP has the worst goodput").measured(|m, f| {
        let since_accepted = "goodput_since_accepted_mbps.elastic";
        let by_list = |at: &Point<'_>| at.metric("tcp_goodput_mbps") / at.metric(LISTED);
        let efmp = at(m, "efmp", 3);
        check!(f, for other in BOTH, "goodput at 3 s, EFMP and {other}":
            less(efmp.metric(GOODPUT), goodput(m, other, 3)));
        check!(f, for other in BOTH, "over all flows ever accepted (R29), EFMP and {other}":
            less(efmp.metric(since_accepted), at(m, other, 3).metric(since_accepted)));
        check!(f, for other in BOTH,
            "goodput of the link by flows on the list (R29), EFMP and {other}":
                less(by_list(&efmp), by_list(&at(m, other, 3))));
        show_printed(m, f, GOODPUT);
    });
    claim(r, "fig8.2", "ECCM goodput hardly depends on the interval").measured(|m, f| {
        let [greatest, least] = extremes(INTERVALS.map(|s| goodput(m, "eccm", s)));
        check!(f, "goodput of ECCM, highest to lowest": at_most(greatest / least, 1.1));
        show_printed(m, f, GOODPUT);
    });
    let text = "RAMAF goodput slowly falls as runs get more frequent";
    claim(r, "fig8.3", text).measured(|m, f| {
        check!(f, "goodput, RAMAF": rises(by_interval(&INTERVALS, |s| goodput(m, "ramaf", s))));
        let ratio = goodput(m, "ramaf", 3) / goodput(m, "ramaf", 15);
        check!(f, "goodput at 3 s to that at 15 s": between(ratio, [0.65, 0.98]));
    });
    claim(r, "fig8.4", "ECCM only slightly below basic").measured(|m, f| {
        check!(f, for s in INTERVALS, "goodput, ECCM {s} s to basic":
            times(goodput(m, "eccm", s), basic_link(m).metric(GOODPUT), 0.9));
        show_printed(m, f, GOODPUT);
    });
    claim(r, "fig8.5", "RAMAF only slightly below basic").measured(|m, f| {
        check!(f, for s in [6, 9, 12, 15], "goodput, RAMAF {s} s to basic":
            times(goodput(m, "ramaf", s), basic_link(m).metric(GOODPUT), 0.8));
        show!(f, m, "RAMAF 3 s": goodput(m, "ramaf", 3));
    });
    claim(r, "fig8.6", "ECCM at least RAMAF").measured(|m, f| {
        let [ramaf, eccm] = BOTH.map(|name| move |s| goodput(m, name, s));
        check!(f, "goodput at 3 s, RAMAF and ECCM": less(ramaf(3), eccm(3)));
        check!(f, for s in [6, 9, 12, 15], "goodput at {s} s, RAMAF and ECCM":
            not_more(ramaf(s), eccm(s)));
        show_printed(m, f, GOODPUT);
    });
}

pub(super) fn fig9(r: &mut Recipe) {
    r.title = "Elastic flows on the protected flow list";
    r.notes = &["Set-up and readings as in afan-eccm/fig7."];
    r.scenarios = &["afan-eccm/none", "afan-eccm/mechanisms"];
    let title = "Elastic flows on the list";
    r.figure(title, "interval between two runs, s", |m| {
        lines(m, AFTER_RUNS)
    });
    fn listed(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        at(m, mechanism, interval).metric(AFTER_RUNS)
    }
    fn by_basic(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        listed(m, mechanism, interval) / basic_link(m).metric(LISTED)
    }

    claim(r, "fig9.1", "EFMP: PFL grows with the interval").measured(|m, f| {
        let listed = by_interval(&INTERVALS_EFMP, |s| listed(m, "efmp", s));
        check!(f, "flows on the list, EFMP": rises(listed));
    });
    claim(r, "fig9.2", "EFMP: above basic, but not by much").measured(|m, f| {
        check!(f, for s in INTERVALS_EFMP, "flows on the list, efmp {s} s to basic":
            between(by_basic(m, "efmp", s), [1.0, 1.3]));
    });
    claim(r, "fig9.3", "RAMAF: PFL grows with the frequency").measured(|m, f| {
        let listed = by_interval(&[15, 12, 9, 6, 3], |s| listed(m, "ramaf", s));
        check!(f, "flows on the list, RAMAF": rises(listed));
    });
    claim(r, "fig9.4", "RAMAF at 3 s about twice basic").measured(|m, f| {
        check!(f, "flows on the list, RAMAF 3 s to basic":
            between(by_basic(m, "ramaf", 3), [1.6, 2.4]));
        show_printed(m, f, LISTED);
    });
    claim(r, "fig9.5", "ECCM: PFL almost constant").measured(|m, f| {
        let [greatest, least] = extremes(INTERVALS.map(|s| listed(m, "eccm", s)));
        check!(f, "flows on the list of ECCM, highest to lowest": at_most(greatest / least, 1.15));
    });
    claim(r, "fig9.6", "ECCM: only slightly above basic").measured(|m, f| {
        check!(f, for s in INTERVALS, "flows on the list, eccm {s} s to basic":
            between(by_basic(m, "eccm", s), [1.0, 1.25]));
        show_printed(m, f, LISTED);
    });
    claim(r, "fig9.7", "More IDs go with lower goodput").measured(|m, f| {
        let means = pairs(&BOTH, &INTERVALS).into_iter().map(|(name, s)| {
            let goodput = at(m, name, s).metric(GOODPUT);
            Some((listed(m, name, s).mean()?, goodput.mean()?))
        });
        let rho = means.collect::<Option<Vec<_>>>().map(|means| {
            let (flows, goodput): (Vec<f64>, Vec<f64>) = means.into_iter().unzip();
            rank_correlation(&flows, &goodput)
        });
        let shown = rho.map_or("not measured".into(), |rho| format!("{rho:.2}"));
        let what = format!("rank correlation of flows and goodput {shown} (at most -0.70)");
        f.is_if_known(what, rho.map(|rho| rho <= -0.7));
    });
    let text = "Under EFMP more flows really send than the PFL shows";
    claim(r, "fig9.8", text).measured(|m, f| {
        let [eccm, efmp] = ["eccm", "efmp"].map(|name| {
            at(m, name, 3).metric("sending_flows.bottleneck.elastic")
                / at(m, name, 3).metric(LISTED)
        });
        check!(f, "flows that send in 10 s to flows on the list, ECCM and EFMP": less(eccm, efmp));
    });
}

/// Spearman's coefficient: the correlation of ranks.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let below = |x: f64| values.iter().filter(|y| **y < x).count() as f64;
        let same = |x: f64| values.iter().filter(|y| **y == x).count() as f64;
        values
            .iter()
            .map(|x| below(*x) + (same(*x) - 1.0) / 2.0)
            .collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_by_hand() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[2.0, 3.0, 100.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), -1.0);
        // Ranks 0 1 2 3 and 1 0 2 3: 1 - 6 * 2 / (4 * 15) = 0.8.
        let rho = rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]);
        assert!((rho - 0.8).abs() < 1e-12);
    }
}
