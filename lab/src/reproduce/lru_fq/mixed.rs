//! Tables III and IV: loads that need no holding back.

use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::lines;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

const TABLE3_RUNS: &str = "lru-fq/table3";
const TABLE4_RUNS: &str = "lru-fq/table4";

pub(super) const CODE: Code = Code {
    checks: &[
        ("table3.3", fairness),
        ("table3.4", totals),
        ("table4.1", udp_unharmed),
        ("table4.2", tcp_unharmed),
        ("table4.3", ideal),
    ],
    remarks: &[],
    figures: &[],
};

const FLOWS: [u32; 3] = [15, 20, 25];

fn both(m: &Measured, flows: u32, metric: &str) -> [Samples; 2] {
    ["fifo", "lru_fq"]
        .map(|router| m.samples(&At::new(TABLE3_RUNS, router).and("count", flows), metric))
}

fn fairness(m: &Measured, f: &mut Findings) {
    for flows in FLOWS {
        let [normal, ours] = both(m, flows, "jain_index");
        f.at_least(&format!("{flows} flows, LRU-FQ, Jain's index"), &ours, 0.98);
        let lost = ours.less(&normal);
        f.at_least(
            &format!("{flows} flows, index of LRU-FQ less that of normal"),
            &lost,
            -0.01,
        );
    }
}

/// Only the paper's numbers.
fn totals(_: &Measured, f: &mut Findings) {
    for line in lines("lru-fq/table3") {
        let [mean, _, total] = line.numbers[..] else {
            unreachable!("the table has three columns")
        };
        let [router, flows] = ["router", "flows"].map(|key| line.word(key));
        let flows: f64 = flows.parse().unwrap_or(f64::NAN);
        let off = mean * flows / total - 1.0;
        let what = format!("{router}, {flows} flows: off by {:.4} %", 100.0 * off);
        f.is(what, off.abs() <= 1e-4);
    }
}

/// Mean of a UDP flow, of a TCP flow, and of all flows.
fn means(m: &Measured, router: &str, floods: u32) -> [Samples; 3] {
    let at = At::new(TABLE4_RUNS, format!("{router} {floods}"));
    let [udp, tcp] = ["udp", "tcp"].map(|kind| m.samples(&at, &format!("{kind}_goodput_mbps")));
    let all = udp.with(&tcp, |udp, tcp| (udp + tcp) / 20.0);
    let (udp, tcp) = (
        udp.map(|sum| sum / f64::from(floods)),
        tcp.map(|sum| sum / f64::from(20 - floods)),
    );
    [udp, tcp, all]
}

fn udp_unharmed(m: &Measured, f: &mut Findings) {
    for floods in 2..=4 {
        let [udp, _, all] = means(m, "lru_fq", floods);
        let [normal, ..] = means(m, "fifo", floods);
        f.times(
            &format!("{floods} UDP flows, one of them to the mean of all"),
            &udp,
            &all,
            0.95,
        );
        f.times(
            &format!("{floods} UDP flows, LRU-FQ to normal"),
            &udp,
            &normal,
            0.95,
        );
        let at = At::new(TABLE4_RUNS, format!("lru_fq {floods}"));
        let hogs = m
            .samples(&at, "hog_flows.bottleneck.flood")
            .map(|hogs| hogs / f64::from(floods));
        f.remark(format!(
            "{floods} UDP flows are treated as hogs {} of the time",
            hogs.shown()
        ));
    }
}

fn tcp_unharmed(m: &Measured, f: &mut Findings) {
    for floods in 2..=4 {
        let [_, tcp, all] = means(m, "lru_fq", floods);
        f.times(
            &format!("{floods} UDP flows, a TCP flow to the mean of all"),
            &tcp,
            &all,
            0.97,
        );
    }
}

/// Only the paper's numbers.
fn ideal(_: &Measured, f: &mut Findings) {
    for (line, floods) in lines("lru-fq/table4").zip([2.0, 3.0, 4.0]) {
        let [udp, tcp, printed] = line.numbers[..] else {
            unreachable!("the table has three columns")
        };
        let mean = (floods * udp + (20.0 - floods) * tcp) / 20.0;
        let what = format!("{floods} UDP flows: {mean:.4}, printed {printed:.4}");
        f.is(what, (mean - printed).abs() <= 0.001);
    }
}
