//! The cost of a run, and claims of the text.

use super::{
    BOTH, DELAY, GOODPUT, INTERVALS, LISTED, OUTAGE, READS, REMOVED, REMOVED_ESTABLISHED, RUNS,
    WRITES, alike, at, basic_link, gigabit, show_printed,
};
use crate::reproduce::findings::{check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, pairs, series};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::Samples;

/// Another metric of the same mechanism divided by its runs.
fn in_a_run(at: &Point<'_>, metric: &str) -> Samples {
    at.metric(metric) / at.metric(RUNS).map(|runs| runs.max(1.0))
}

pub(super) fn cost(r: &mut Recipe) {
    r.title = "What a run of a mechanism costs";
    r.notes = &[
        "Interval 3 s. A read is a flow on the list that a run examines, a write is a flow that it sets aside or \
         restores; for ECCM, a write is a change of the fair rate. The search for new elastic flows at the end of a \
         run is counted separately.",
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
        check!(f, "flows set aside and restored in all runs, within 15 %":
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
        check!(f, for other in ["ramaf", "efmp"], "maximum flows in addition to the list, ECCM and {other}":
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

pub(super) fn text(r: &mut Recipe) {
    r.title = "What the text claims";
    r.notes = &[
        "EFM, RAEF, RBAEF and RPAEF at 3 s. RAEF and those built on it remove elastic flows that were accepted at \
         least 10 s ago; flows are blocked, or have priority, for 2 s; \
         P_RPAEF is 0.03. The papers that define them were not available; these values are ours.",
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
    let text = "Half an FR interval admits all waiting streams";
    claim(r, "text.2", text).measured(|m, f| {
        for s in [3, 6] {
            // If no stream waits at any run of a seed, the metric does not exist.
            let let_in = at(m, "eccm", s).metric("run_let_in_ratio.bottleneck.stream");
            match let_in.mean() {
                Some(_) => {
                    check!(f, "{s} s, share of waiting streams admitted": at_least(let_in, 0.99));
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
    let text = "RPAEF limits the flows admitted after a cleaning, at times not enough";
    claim(r, "text.9", text).measured(|m, f| {
        let [rpaef, raef, ramaf] = [earlier(m, "rpaef"), earlier(m, "raef"), at(m, "ramaf", 3)]
            .map(|point| in_a_run(&point, "gauge.bottleneck.accepted_in_runs"));
        check!(f, "flows admitted by a run, RPAEF and RAEF": less(&rpaef, raef));
        check!(f, "flows admitted by a run, RAMAF and RPAEF": less(ramaf, rpaef));
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
        let what = "packets between two drops, halfway from min_th to max_th";
        let packets = 1.0 / (2.0 * 0.02 * (6500.0 - 4000.0) / (9000.0 - 4000.0)) + 0.5;
        f.between(what, packets, [49.5, 51.5]);
        f.remark("the mean gap of the discipline's own draws is a test of `afan`");
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds per packet of afan, pfq and pdrr";
    let text = "AFAN handles packets more simply than PFQ and PDRR";
    claim(r, "text.13", text).not_run(why);
    claim(r, "text.14", "Accepted streams keep their quality").measured(|m, f| {
        let all = || pairs(&["eccm", "ramaf"], &[3, 6]);
        let rate = "goodput_since_accepted_mbps.stream";
        let kbps = |name, s| 1000.0 * at(m, name, s).metric(rate) / 0.72;
        check!(f, for (name, s) in all(), "{name} {s} s, rate since acceptance, kbit/s":
            at_least(kbps(name, s), 79.0));
        check!(f, for (name, s) in all(), "{name} {s} s, loss since acceptance":
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
