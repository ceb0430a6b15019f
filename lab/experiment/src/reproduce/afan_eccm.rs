//! Domzal et al., "Efficient congestion control mechanism for flow-aware networks".

use super::figure::swept;
use super::measured::Measured;
use super::query::{Point, Quantity, Series, extremes, pairs, series};
use super::recipe::{Paper, Recipe, TOLERANCE, claim, line, names, results};
use super::verdict::{Findings, Samples, check, show};
use crate::report::Line;
use crate::scenario::Reading;

pub(super) fn paper() -> Paper {
    Paper {
        name: "afan-eccm",
        source: "Domżał, Wójcik, Chołda, Stankiewicz and Jajszczyk, \"Efficient congestion control \
                 mechanism for flow-aware networks\", International Journal of Communication \
                 Systems 2015",
        columns: &[
            ("as printed", Reading::Printed),
            ("streams from 20 s (R10)", Reading::LateStreams),
            ("RAMAF counts all flows (R13)", Reading::AllListed),
        ],
        lab: ["40 s", "10 s"],
        loads: &[],
        benches: &[],
        results: results!["afan-eccm": basic fig7 fig8 fig9 table2 table3 cost text],
    }
}

/// Acceptance delay of streams; a stream that is never accepted counts with its age at the end (R10).
const DELAY: &str = "acceptance_delay_s.stream";
/// Goodput of elastic flows since their acceptance, without flows that the clean-up of the same run removed (R29).
const GOODPUT: &str = "goodput_since_kept_mbps.elastic";
/// Elastic flows on the list: the mean over time, and after each run's clean-up or restoration (R30).
const LISTED: &str = "known_flows.bottleneck.elastic";
const AFTER_RUNS: &str = "run_after_flows.bottleneck.elastic";
/// The total over all runs.
const RUNS: &str = "gauge.bottleneck.runs";
const WRITES: &str = "gauge.bottleneck.list_writes";
const READS: &str = "gauge.bottleneck.list_reads";
const REMOVED: &str = "gauge.bottleneck.removed";
const REMOVED_ESTABLISHED: &str = "gauge.bottleneck.removed_established";
const OUTAGE: &str = "outage_s_max.elastic";

/// Intervals between two runs of RAMAF and of ECCM, and of EFMP.
const INTERVALS: [u32; 5] = [3, 6, 9, 12, 15];
const INTERVALS_EFMP: [u32; 4] = [1, 2, 3, 4];
const BOTH: [&str; 2] = ["ramaf", "eccm"];
const MECHANISMS: [(&str, &str, &[u32]); 3] = [
    ("EFMP", "efmp", &INTERVALS_EFMP),
    ("RAMAF", "ramaf", &INTERVALS),
    ("ECCM", "eccm", &INTERVALS),
];

/// A link of 100 Mbit/s without a mechanism, and with a mechanism at an interval.
fn basic_link(m: &Measured) -> Point<'_> {
    m.at("afan-eccm/none", "none")
}

fn at<'a>(m: &'a Measured, mechanism: &str, interval: u32) -> Point<'a> {
    m.at("afan-eccm/mechanisms", format!("{mechanism} {interval}"))
}

/// A link of 1 Gbit/s.
fn gigabit<'a>(m: &'a Measured, mechanism: &str, interval: u32) -> Point<'a> {
    m.at("afan-eccm/gigabit", format!("{mechanism} {interval}"))
}

/// A quantity by interval.
fn by_interval(intervals: &[u32], of: impl Fn(u32) -> Samples) -> Series {
    series!(for s in intervals, "{s} s": of(*s))
}

/// Another metric of the same mechanism divided by its runs.
fn in_a_run(at: &Point<'_>, metric: &str) -> Samples {
    at.metric(metric) / at.metric(RUNS).map(|runs| runs.max(1.0))
}

/// Shows a metric with the values that the paper prints, without a mechanism and with some.
fn show_printed(m: &Measured, f: &mut Findings, metric: &str) {
    f.shown(m.printed(), "as printed, none", |m| {
        basic_link(m).metric(metric)
    });
    let points = ["efmp 3", "ramaf 3", "ramaf 9", "eccm 3", "eccm 9"];
    f.shown(m.printed(), "as printed", |m| {
        let of = |point| m.at("afan-eccm/mechanisms", point).metric(metric);
        series!(for point in points, "{point}": of(point))
    });
}

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

fn basic(r: &mut Recipe) {
    r.title = "100 Mbit/s without a mechanism";
    r.notes = &[
        "R11 is calibrated on this link, so that its three numbers are no evidence: access links \
         of 1 Gbit/s, transfers that outlast the run, delays of 0.1 ms and 1 ms. Streams that are \
         never let in count with their wait to the end of the run.",
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
        show!(f, m, "of those let in only": basic_link(m).metric(accepted));
        show!(f, m, "never let in, of 20": basic_link(m).metric("never_accepted_flows.stream"));
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

/// Local and international bounds of the delay, in seconds.
const LOCAL: f64 = 6.0;
const INTERNATIONAL: f64 = 11.0;

fn fig7(r: &mut Recipe) {
    r.title = "Acceptance delay by mechanism and interval";
    r.notes = &[
        "EFMP with the oldest-flow policy. R9: ECCM's later steps are driven by timers. R11 is \
         calibrated on the link without mechanism, see afan-eccm/basic.",
        "R29: goodput is the mean over the elastic flows that were let in, since they were, \
         without those that the clean-up of the run that let them in removed: section 4 says that \
         they \"are deleted in short time after acceptance\", and to count them contradicts its \
         \"almost unchanged\". R30: flows on the list are sampled a second after each run began, \
         when it has cleaned up or restored; without a mechanism they are the mean over time.",
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
    claim(r, "fig7.7", "RAMAF does not at 9 s; neither does above").measured(|m, f| {
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

fn fig8(r: &mut Recipe) {
    r.title = "Goodput of elastic flows by mechanism and interval";
    r.notes = &["Set-up and readings as in afan-eccm/fig7."];
    r.scenarios = &["afan-eccm/none", "afan-eccm/mechanisms"];
    let title = "Goodput of an elastic flow since it was let in, Mbit/s";
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
        check!(f, for other in BOTH, "over all flows ever let in (R29), EFMP and {other}":
            less(efmp.metric(since_accepted), at(m, other, 3).metric(since_accepted)));
        check!(f, for other in BOTH,
            "goodput of the link by flows on the list (R29), EFMP and {other}":
                less(by_list(&efmp), by_list(&at(m, other, 3))));
        show_printed(m, f, GOODPUT);
    });
    claim(r, "fig8.2", "ECCM goodput hardly depends on the interval").measured(|m, f| {
        let [greatest, least] = extremes(INTERVALS.map(|s| goodput(m, "eccm", s)));
        check!(f, "goodput of ECCM, greatest to least": at_most(greatest / least, 1.1));
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

fn fig9(r: &mut Recipe) {
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
        check!(f, "flows on the list of ECCM, greatest to least": at_most(greatest / least, 1.15));
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

/// The lines of Tables II and III: the mechanism and its interval.
const GIGABIT: [(&str, Option<u32>, &str); 5] = [
    ("none", None, "none"),
    ("RAMAF", Some(3), "ramaf 3"),
    ("RAMAF", Some(6), "ramaf 6"),
    ("ECCM", Some(3), "eccm 3"),
    ("ECCM", Some(6), "eccm 6"),
];
const TABLE_2: [f64; 5] = [82.7, 2.42, 2.93, 1.42, 2.57];
const TABLE_3: [f64; 5] = [4.42, 3.32, 3.8, 3.57, 4.28];

fn gigabit_table(r: &mut Recipe, column: &'static str, printed: [f64; 5], ours: Quantity) {
    for ((mechanism, interval, variant), printed) in GIGABIT.into_iter().zip(printed) {
        let interval = interval.map(|s| ("interval, s", s.into()));
        let place = [("mechanism", mechanism.into())]
            .into_iter()
            .chain(interval);
        line(r, place, &[column], [printed], [TOLERANCE])
            .ours(move |m| [ours(&m.at("afan-eccm/gigabit", variant))]);
    }
}

fn table2(r: &mut Recipe) {
    r.title = "Acceptance delay at 1 Gbit/s";
    r.notes = &[
        "R11 as in afan-eccm/basic, with ten times the rates: access links of 10 Gbit/s, delays of \
         0.01 ms and 0.2 ms. Arrivals every 0.2 s are printed, and run: 1500 of the 4000 transfers \
         begin in 300 s.",
        "R12: the goodput of Table III counts in units of 10 Mbit/s for each flow; only ratios \
         decide. R29 as in afan-eccm/fig7.",
    ];
    r.scenarios = &["afan-eccm/gigabit", "afan-eccm/mechanisms"];
    gigabit_table(r, "acceptance delay, s", TABLE_2, |at| at.metric(DELAY));
    fn delay(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        gigabit(m, mechanism, interval).metric(DELAY)
    }

    claim(r, "table2.1", "1 Gb/s: both cut d_acc strongly").measured(|m, f| {
        let basic = m.at("afan-eccm/gigabit", "none").metric(DELAY);
        check!(f, for (name, s) in pairs(&BOTH, &[3, 6]), "delay, basic to {name} {s} s":
            times(&basic, delay(m, name, s), 10.0));
    });
    claim(r, "table2.2", "1 Gb/s: ECCM below RAMAF").measured(|m, f| {
        let [ramaf, eccm] = BOTH.map(|name| move |s| delay(m, name, s));
        check!(f, "delay at 3 s, ECCM and RAMAF": less(eccm(3), ramaf(3)));
        check!(f, "delay at 6 s, ECCM and RAMAF": not_more(eccm(6), ramaf(6)));
    });
    claim(r, "table2.3", "1 Gb/s: local bound met").measured(|m, f| {
        check!(f, for (name, s) in pairs(&BOTH, &[3, 6]), "delay, {name} {s} s":
            at_most(delay(m, name, s), LOCAL));
    });
    claim(r, "table2.4", "d_acc near half the interval").measured(|m, f| {
        check!(f, "delay, ECCM 3 s": between(delay(m, "eccm", 3), [1.2, 2.8]));
        check!(f, "delay, ECCM 6 s": between(delay(m, "eccm", 6), [2.1, 4.9]));
    });
}

fn table3(r: &mut Recipe) {
    r.title = "Goodput at 1 Gbit/s";
    r.notes = &["Set-up and readings as in afan-eccm/table2."];
    r.scenarios = &["afan-eccm/gigabit"];
    let column = "goodput of an elastic flow, 10 Mbit/s";
    gigabit_table(r, column, TABLE_3, |at| at.metric(GOODPUT) * 0.1);
    fn goodput(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        gigabit(m, mechanism, interval).metric(GOODPUT)
    }

    claim(r, "table3.1", "ECCM goodput at least RAMAF's").measured(|m, f| {
        // The interval decides, not the mean.
        check!(f, for s in [3, 6], "goodput at {s} s, RAMAF and ECCM":
            not_more(goodput(m, "ramaf", s), goodput(m, "eccm", s)));
    });
    claim(r, "table3.2", "ECCM like the basic link").measured(|m, f| {
        let basic = m.at("afan-eccm/gigabit", "none").metric(GOODPUT);
        check!(f, for (s, factor) in [(6, 0.9), (3, 0.75)], "goodput, ECCM {s} s to basic":
            times(gigabit(m, "eccm", s).metric(GOODPUT), &basic, factor));
    });
    claim(r, "table3.3", "RAMAF loses more").measured(|m, f| {
        check!(f, for s in [3, 6], "goodput at {s} s, RAMAF and ECCM":
            less(goodput(m, "ramaf", s), goodput(m, "eccm", s)));
    });
    claim(r, "table3.4", "Longer interval, higher goodput").measured(|m, f| {
        for name in BOTH {
            let [short, long] = [3, 6].map(|s| gigabit(m, name, s).metric(GOODPUT));
            check!(f, "goodput, {name} at 3 s and 6 s": less(short, long));
        }
    });
}

fn cost(r: &mut Recipe) {
    r.title = "What a run of a mechanism costs";
    r.notes = &[
        "Interval 3 s. A read is a flow on the list that a run looks at, a write one that it sets \
         aside or puts back; of ECCM it is the fair rate. Looking for new elastic flows at the end \
         of a run is counted apart.",
    ];
    r.scenarios = &["afan-eccm/mechanisms"];
    fn of(m: &Measured, mechanism: &str, metric: &str) -> Samples {
        at(m, mechanism, 3).metric(metric)
    }
    /// Reads and writes.
    fn operations(m: &Measured, mechanism: &str) -> Samples {
        of(m, mechanism, READS) + of(m, mechanism, WRITES)
    }

    claim(r, "cost.1", "75 runs of the mechanism in 300 s").measured(|m, f| {
        check!(f, "300 / (3 + 2 x 0.5)": between(300.0 / (3.0 + 2.0 * 0.5), [75.0, 75.0]));
        check!(f, for name in BOTH, "runs of {name}": between(of(m, name, RUNS), [60.0, 75.0]));
    });
    claim(r, "cost.2", "RAMAF reads 3000 entries").measured(|m, f| {
        let what = "flows read in all runs, within 15 %";
        f.between(what, of(m, "ramaf", READS), [2550.0, 3450.0]);
        let before = "gauge.bottleneck.flows_before_runs";
        show!(f, m, "flows on the list before a run": in_a_run(&at(m, "ramaf", 3), before));
        show!(f, m, "looked at in a run": in_a_run(&at(m, "ramaf", 3), READS));
        f.remark(
            "the paper's 75 runs read the whole list of 40; our list is kept in the order of \
             activity, so a run reads what it removes",
        );
    });
    claim(r, "cost.3", "RAMAF writes 825 + 825 entries").measured(|m, f| {
        check!(f, "flows set aside and put back in all runs, within 15 %":
            between(of(m, "ramaf", WRITES), [1402.5, 1897.5]));
        show!(f, m, "removed in a run": in_a_run(&at(m, "ramaf", 3), REMOVED));
        show!(f, m, "written in a run": in_a_run(&at(m, "ramaf", 3), WRITES));
        f.remark(
            "40 flows of all kinds would be 75 x 21 = 1575 by equation 8, 30 elastic ones are 75 x \
             11 (R13)",
        );
    });
    claim(r, "cost.4", "ECCM writes 75 values").measured(|m, f| {
        check!(f, "one value in each of 75 runs": between(75.0 * 1.0, [75.0, 75.0]));
        check!(f, "values written and runs":
            within(of(m, "eccm", WRITES), of(m, "eccm", RUNS), 0.0));
    });
    claim(r, "cost.5", "ECCM needs far fewer list operations").measured(|m, f| {
        let [ramaf, eccm] = BOTH.map(|name| operations(m, name));
        check!(f, "reads and writes, RAMAF to ECCM": times(ramaf, eccm, 20.0));
    });
    claim(r, "cost.6", "Also with the clean-up of new IDs counted").measured(|m, f| {
        let [ramaf, eccm] = BOTH.map(|name| {
            let reads = of(m, name, "gauge.bottleneck.clean_up_reads");
            operations(m, name) + reads + of(m, name, "gauge.bottleneck.removed_new")
        });
        check!(f, "all operations, ECCM and RAMAF": less(eccm, ramaf));
    });
    claim(r, "cost.7", "ECCM needs less memory (no second list)").measured(|m, f| {
        let most = |name| of(m, name, "gauge.bottleneck.set_aside_most");
        check!(f, for other in ["ramaf", "efmp"], "most flows beside the list, ECCM and {other}":
            less(most("eccm"), most(other)));
    });
    let why = "a bench: a simulation has no processor. The operations of cost.5 and cost.6 are \
        counted; slices of 256 flows bound the time of each";
    claim(r, "cost.8", "A run costs less time").not_run(why);
}

/// An earlier mechanism at 3 s.
fn earlier<'a>(m: &'a Measured, mechanism: &str) -> Point<'a> {
    m.at("afan-eccm/text", format!("{mechanism} 3"))
}

fn text(r: &mut Recipe) {
    r.title = "What the text claims";
    r.notes = &[
        "EFM, RAEF, RBAEF and RPAEF at 3 s. RAEF and those built on it remove elastic flows that \
         were accepted 10 s ago or before; flows are blocked, or come before others, for 2 s; \
         P_RPAEF is 0.03. The papers that define them were not at hand; these values are ours.",
        "An outage is the longest time without a packet on the link, of a flow that has sent a \
         thousand packets.",
    ];
    r.scenarios = &[
        "afan-eccm/none",
        "afan-eccm/mechanisms",
        "afan-eccm/text",
        "afan-eccm/gigabit",
    ];
    own_mechanisms(r);
    earlier_mechanisms(r);
    streams(r);
}

fn own_mechanisms(r: &mut Recipe) {
    claim(r, "text.1", "Results are alike for every FAN kind").measured(|m, f| {
        let metrics = [("delay, s", DELAY), ("goodput, Mbit/s", GOODPUT)];
        for (s, (what, metric)) in pairs(&[3, 6], &metrics) {
            let afan = at(m, "eccm", s).metric(metric);
            for scheduler in ["pfq", "pdrr"] {
                let other = m
                    .at("afan-eccm/text", format!("{scheduler} {s}"))
                    .metric(metric);
                let close = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.25;
                let shown = (other.shown(), afan.shown());
                let text = format!("{what}, {s} s, {scheduler} {}, afan {}", shown.0, shown.1);
                f.is_if_known(text, alike(&other, &afan, close));
            }
        }
    });
    let text = "Half an FR interval lets in all waiting streams";
    claim(r, "text.2", text).measured(|m, f| {
        for s in [3, 6] {
            // If no stream waits at any run of a seed, the metric does not exist.
            let let_in = at(m, "eccm", s).metric("run_let_in_ratio.bottleneck.stream");
            match let_in.mean() {
                Some(_) => {
                    check!(f, "{s} s, share of waiting streams let in": at_least(let_in, 0.99));
                }
                None => f.nothing(format!("{s} s: in some seeds no stream waited at a run")),
            }
        }
    });
    claim(r, "text.3", "ECCM removes no established flow").measured(|m, f| {
        for s in INTERVALS {
            let removed = at(m, "eccm", s).metric(REMOVED_ESTABLISHED);
            check!(f, "established flows removed, {s} s": at_most(removed, 0.0));
        }
        // A zero proves nothing unless the counter counts.
        check!(f, "EFMP removes some": above(at(m, "efmp", 3).metric(REMOVED_ESTABLISHED), 0.0));
    });
    claim(r, "text.4", "New elastic flows stay out").measured(|m, f| {
        let growth = "run_growth_flows.bottleneck.elastic";
        check!(f, for s in [3, 6], "more elastic flows 1 s after a run, {s} s":
            at_most(at(m, "eccm", s).metric(growth), 1.0));
        show_printed(m, f, growth);
    });
    claim(r, "text.5", "Mechanisms scale from 100 Mb/s to 1 Gb/s").measured(|m, f| {
        for (name, s) in pairs(&BOTH, &[3, 6]) {
            let ratio = gigabit(m, name, s).metric(DELAY) / at(m, name, s).metric(DELAY);
            check!(f, "delay, {name} {s} s, 1 Gbit/s to 100": at_most(ratio, 1.25));
        }
    });
}

fn earlier_mechanisms(r: &mut Recipe) {
    claim(r, "text.6", "EFM swells the PFL and sinks FR").measured(|m, f| {
        let listed = earlier(m, "efm").metric(LISTED);
        check!(f, "flows on the list, basic and EFM": less(basic_link(m).metric(LISTED), listed));
        let rate = earlier(m, "efm").metric("gauge_mean.bottleneck.fair_rate") / 1e6;
        check!(f, "mean fair rate under EFM, Mbit/s": at_most(rate, 5.0));
    });
    claim(r, "text.7", "RAEF removes fewer IDs than EFM").measured(|m, f| {
        let [raef, efm] = ["raef", "efm"].map(|name| in_a_run(&earlier(m, name), REMOVED));
        check!(f, "flows removed in a run, RAEF and EFM": less(raef, efm));
    });
    claim(r, "text.8", "RBAEF may stop removed flows for long").measured(|m, f| {
        let rbaef = earlier(m, "rbaef").metric(OUTAGE);
        check!(f, "longest outage, s, RPAEF and RBAEF":
            less(earlier(m, "rpaef").metric(OUTAGE), &rbaef));
        check!(f, "longest outage, s, RAMAF and RBAEF":
            less(at(m, "ramaf", 3).metric(OUTAGE), rbaef));
    });
    let text = "RPAEF limits flows let in after a cleaning, at times not enough";
    claim(r, "text.9", text).measured(|m, f| {
        let [rpaef, raef, ramaf] = [earlier(m, "rpaef"), earlier(m, "raef"), at(m, "ramaf", 3)]
            .map(|point| in_a_run(&point, "gauge.bottleneck.accepted_in_runs"));
        check!(f, "flows let in by a run, RPAEF and RAEF": less(&rpaef, raef));
        check!(f, "flows let in by a run, RAMAF and RPAEF": less(ramaf, rpaef));
    });
    claim(r, "text.10", "RAMAF damps FR swings round min_FR").measured(|m, f| {
        let deviation = |at: Point<'_>| at.metric("gauge_dev.bottleneck.fair_rate") / 1e6;
        for other in ["efm", "raef"] {
            check!(f, "deviation of the fair rate, Mbit/s, RAMAF and {other}":
                less(deviation(at(m, "ramaf", 3)), deviation(earlier(m, other))));
        }
    });
    claim(r, "text.11", "EFMP interrupts the flows it removes").measured(|m, f| {
        let removed = |name| at(m, name, 3).metric(REMOVED_ESTABLISHED);
        check!(f, "established flows removed by EFMP": above(removed("efmp"), 0.0));
        check!(f, "established flows removed by ECCM": at_most(removed("eccm"), 0.0));
        show!(f, m, "longest outage, s": for name in ["efmp", "eccm"], "{name}":
            at(m, name, 3).metric(OUTAGE));
        show!(f, m, "without a mechanism, s": basic_link(m).metric(OUTAGE));
    });
}

fn streams(r: &mut Recipe) {
    let text = "Uniform drop method: about one drop in 50 at mid buffer";
    claim(r, "text.12", text).arithmetic(|_, f| {
        let what = "packets between two drops, half of the way from min_th to max_th";
        let packets = 1.0 / (2.0 * 0.02 * (6500.0 - 4000.0) / (9000.0 - 4000.0)) + 0.5;
        f.between(what, packets, [49.5, 51.5]);
        f.remark("the mean gap of the discipline's own draws is a test of `afan`");
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds a packet of afan, pfq and pdrr";
    let text = "AFAN handles packets more simply than PFQ and PDRR";
    claim(r, "text.13", text).not_run(why);
    claim(r, "text.14", "Streams let in keep their quality").measured(|m, f| {
        let all = || pairs(&["eccm", "ramaf"], &[3, 6]);
        let rate = "goodput_since_accepted_mbps.stream";
        let kbps = |name, s| 1000.0 * at(m, name, s).metric(rate) / 0.72;
        check!(f, for (name, s) in all(), "{name} {s} s, rate since let in, kbit/s":
            at_least(kbps(name, s), 79.0));
        check!(f, for (name, s) in all(), "{name} {s} s, loss since let in":
            at_most(1.0 - kbps(name, s) / 80.0, 0.001));
    });
    let text = "(variant, ours) Figure 4 taken literally stalls";
    claim(r, "text.15", text).measured(|m, f| {
        let [literal, timers] = [earlier(m, "literal"), at(m, "eccm", 3)];
        check!(f, "runs, literal and by timers": less(literal.metric(RUNS), timers.metric(RUNS)));
        for (what, metric) in [
            ("delay, s", DELAY),
            ("share of time congested", "gauge_mean.bottleneck.congested"),
        ] {
            let both = [("literal", &literal), ("by timers", &timers)];
            f.shown(m, what, |_| {
                series!(for (name, point) in both, "{name}":
                point.metric(metric))
            });
        }
    });
}

/// Whether two quantities are alike: within a tolerance, or with overlapping intervals. `None` if one was not measured.
fn alike(a: &Samples, b: &Samples, within: impl Fn(f64, f64) -> bool) -> Option<bool> {
    let (a, b) = (a.summary()?, b.summary()?);
    let reach = a.ci95.unwrap_or(0.0) + b.ci95.unwrap_or(0.0);
    Some(within(a.mean, b.mean) || (a.mean - b.mean).abs() <= reach)
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
