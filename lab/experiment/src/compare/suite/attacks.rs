//! The share that honest traffic keeps under attack: the scenarios of `scenarios/attack`. The summary is in
//! docs/attacks.md.

use crate::compare::choice;
use crate::compare::figures::{self, Column, column, kept, mean};
use crate::compare::load::{Load, rows};
use crate::compare::markdown::{glance, table};
use crate::compare::number::with_half;
use crate::statistics::Summary;

use super::Suite;

pub(super) const SUITE: Suite = Suite {
    name: "attacks",
    about: "Attacks: docs/attacks.md",
    folders: &["attack"],
    summary,
    tables: all_tables,
    picture: Some(("choose.svg", choice)),
};

/// The disciplines between which an operator chooses: docs/choose.md.
const CHOICE: [&str; 5] = ["fq_codel", "cake", "host_fair", "lru_fq", "triple_fair"];

const COLUMNS: [Column; 16] = [
    column("kept", kept),
    column("web", figures::web_kept),
    column("control", |m| mean(m, "kept_ratio.control")),
    column("redirect", |m| m.get("kept_ratio.redirect").copied()),
    column("beside", |m| m.get("kept_ratio.beside").copied()),
    column("elsewhere", |m| mean(m, "kept_ratio.elsewhere")),
    column("calls lost, %", |m| Some(100.0 * m.get("loss_ratio.call")?)),
    column("calls, p99 ms", |m| m.get("delay_ms_p99.call").copied()),
    // Calls of an attacked address.
    column("talk lost, %", |m| Some(100.0 * m.get("loss_ratio.talk")?)),
    column("talk, p99 ms", |m| m.get("delay_ms_p99.talk").copied()),
    column("accepted after, s", |m| {
        m.get("acceptance_delay_s_accepted.call").copied()
    }),
    column("never accepted", |m| {
        m.get("never_accepted_flows.call").copied()
    }),
    column("recovery, s", |m| m.get("recovery_s").copied()),
    column("recall", |m| mean(m, "hog_recall_ratio.")),
    column("precision", |m| mean(m, "hog_precision_ratio.")),
    column("detection, s", |m| mean(m, "hog_detection_s_mean.")),
];

/// The share that honest traffic keeps; its rows are the disciplines that every attack on the link has.
fn summary(loads: &[Load]) -> String {
    let common = common(loads);
    let mut names = rows(common.iter().copied());
    names.retain(|name| common.iter().all(|load| load.has(name)));
    at_a_glance(&common, &names)
}

/// The attacks on a link that are possible with any discipline; an attack on one mechanism alone has its own rows.
fn common(loads: &[Load]) -> Vec<&Load> {
    loads.iter().filter(|load| load.has("fifo")).collect()
}

/// The picture of docs/choose.md: attacks on a link that carries all kinds of traffic.
fn choice(loads: &[Load]) -> Option<String> {
    let mut loads = common(loads);
    loads.retain(|load| load.metrics().any(|m| figures::web_kept(m).is_some()));
    choice::picture(&loads, &CHOICE)
}

fn at_a_glance(loads: &[&Load], rows: &[&str]) -> String {
    let mut text = String::from("\n");
    for (number, load) in (1..).zip(loads) {
        text += &format!("{number}. {} (`{}`)\n", load.title, load.name);
    }
    format!("{text}\n{}\n", glance(loads, rows, kept, 2))
}

/// A mean and its interval with about two digits.
fn shown(summary: &Summary) -> String {
    with_half(summary, 2)
}

fn all_tables(loads: &[Load]) -> String {
    let tables = loads.iter().map(|load| {
        let Load {
            name,
            title,
            about,
            note,
            ..
        } = load;
        let table = table(load, &load.columns(&COLUMNS), shown);
        format!("\n## {title} (`{name}`)\n\n{about} {note}\n\n{table}")
    });
    let common = common(loads);
    let glance = at_a_glance(&common, &rows(common.iter().copied()));
    glance + &tables.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn load(name: &str, rows: [(&str, f64); 2]) -> Load {
        let point = |(variant, kept): (&str, f64)| {
            let metrics = json!({
                "honest_kept_ratio": kept, "kept_ratio.elsewhere1": 0.5, "kept_ratio.elsewhere2": 0.25,
            });
            json!({
                "variant": variant, "set": {}, "summary": {},
                "runs": [{ "seed": 1, "series": {}, "metrics": metrics }],
            })
        };
        let results = json!({
            "title": "T", "about": "A.", "seed": 1, "duration_s": 45.0, "warm_up_s": 8.0, "points": rows.map(point),
            "scenario": "", "on": "sim", "cpu_s": 0.0, "wall_s": 0.0,
        });
        Load::all(name, &serde_json::from_value(results).unwrap()).remove(0)
    }

    #[test]
    fn a_row_for_each_variant() {
        let common = load("flood", [("fifo", 0.125), ("drr source", 12.25)]);
        let other = load("burst", [("fifo", 0.25), ("drr", 0.5)]);
        let own = load("liar", [("alike", 0.5), ("contribution", 1.5)]);
        let loads = [common, other, own];
        assert!(
            summary(&loads).ends_with("| | 1 | 2 |\n|---|---|---|\n| `fifo` | 0.12 | 0.25 |\n\n")
        );
        let text = all_tables(&loads);
        for expected in [
            "1. T (`flood`)\n2. T (`burst`)\n\n| | 1 | 2 |\n",
            "| `fifo` | 0.12 | 0.25 |\n| `drr source` | 12.25 | - |\n",
            "\n## T (`liar`)\n\nA. 45 s, the first 8 s not counted; one run, seed 1.\n\n",
            "| | kept | elsewhere |\n|---|---|---|\n| `alike` | 0.50 ± 0.00 | 0.38 ± 0.00 |\n",
            "| `contribution` | 1.5 ± 0.0 |",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
