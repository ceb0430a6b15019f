//! Section 4: operations on lists, RAMAF against ECCM.

use super::{at, gauge, per};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::Code;

pub(super) const CODE: Code = Code {
    checks: &[
        ("cost.1", |m, f| {
            let [length, interval, jitter] = [300.0, 3.0, 0.5];
            f.is(
                "300 / (3 + 2 x 0.5) = 75",
                length / (interval + 2.0 * jitter) == 75.0,
            );
            for mechanism in ["ramaf", "eccm"] {
                let runs = gauge(m, &at(mechanism, 3), "runs");
                f.between(&format!("runs of {mechanism}"), &runs, [60.0, 75.0]);
            }
        }),
        ("cost.2", |m, f| {
            product(f, 40, 3000);
            f.remark(format!(
                "flows on the list before a run {}, looked at in a run {}",
                per_run(m, "ramaf", "flows_before_runs").shown(),
                per_run(m, "ramaf", "list_reads").shown()
            ));
        }),
        ("cost.3", |m, f| {
            product(f, 11, 825);
            f.remark(format!(
                "40 flows of all kinds would be 75 x 21 = 1575 by equation 8, 30 elastic ones are 75 x 11 (R13); removed in a run {}, written {}",
                per_run(m, "ramaf", "removed").shown(),
                per_run(m, "ramaf", "list_writes").shown()
            ));
        }),
        ("cost.4", |m, f| {
            f.is("one value in each of 75 runs", true);
            let writes = gauge(m, &at("eccm", 3), "list_writes");
            let runs = gauge(m, &at("eccm", 3), "runs");
            f.within("values written and runs", &writes, &runs, 0.0);
        }),
        ("cost.5", |m, f| {
            let [ramaf, eccm] = ["ramaf", "eccm"].map(|mechanism| operations(m, mechanism));
            f.times("reads and writes, RAMAF to ECCM", &ramaf, &eccm, 20.0);
        }),
        ("cost.6", |m, f| {
            let [ramaf, eccm] = ["ramaf", "eccm"].map(|mechanism| {
                let clean_up = gauge(m, &at(mechanism, 3), "clean_up_reads");
                let removed = gauge(m, &at(mechanism, 3), "removed_new");
                let clean_up = clean_up.with(&removed, |a, b| a + b);
                operations(m, mechanism).with(&clean_up, |a, b| a + b)
            });
            f.less("all operations, ECCM and RAMAF", &eccm, &ramaf);
        }),
        ("cost.7", |m, f| {
            let most = |mechanism| gauge(m, &at(mechanism, 3), "set_aside_most");
            for other in ["ramaf", "efmp"] {
                let what = format!("flows beside the list at most, ECCM and {other}");
                f.less(&what, &most("eccm"), &most(other));
            }
        }),
    ],
    remarks: &[],
    figures: &[],
};

/// What the paper works out for its 75 runs.
fn product(f: &mut Findings, in_one: u32, printed: u32) {
    f.is(format!("75 x {in_one} = {printed}"), 75 * in_one == printed);
}

fn operations(m: &Measured, mechanism: &str) -> Samples {
    let reads = gauge(m, &at(mechanism, 3), "list_reads");
    let writes = gauge(m, &at(mechanism, 3), "list_writes");
    reads.with(&writes, |reads, writes| reads + writes)
}

fn per_run(m: &Measured, mechanism: &str, name: &str) -> Samples {
    let runs = gauge(m, &at(mechanism, 3), "runs");
    per(&gauge(m, &at(mechanism, 3), name), &runs)
}
