//! The comparison of both habitats: as a table for a terminal and as a part of the page.

use std::collections::{BTreeMap, BTreeSet};

use super::html::{escape, section};
use super::metric::{Metric, shown};
use super::table::{align, measured};
use crate::agreement::{Both, Compared};

/// The table, and the causes of differences, each named once.
pub(crate) fn text(both: &Both) -> String {
    let heads = ["", "metric", "sim", "lab", "difference", "tolerance", ""];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut point = String::new();
    for row in &both.comparison {
        let title = row.title.clone();
        let first = if title == point {
            String::new()
        } else {
            title.clone()
        };
        point = title;
        rows.push(vec![
            first,
            row.metric.to_owned(),
            shown(row.sim),
            shown(row.lab),
            difference(row),
            tolerance(row),
            row.verdict().to_owned(),
        ]);
    }
    let mut text = format!("{}\n\n{}", verdict(both), align(&rows));
    for (cause, metrics) in causes(both) {
        text += &format!("\n{} may differ: {cause}", listed(&metrics));
    }
    text.trim_end().to_owned() + "\n"
}

/// A separate article, placed before the articles of the two results.
pub(crate) fn html(both: &Both) -> String {
    let mut rows = String::new();
    let mut point = None;
    for row in &both.comparison {
        let title = row.title.clone();
        let class = if point.as_ref() == Some(&title) {
            " class=\"same\""
        } else {
            ""
        };
        let metric = Metric::named(row.metric);
        rows += &format!(
            "<tr{class}><th scope=\"row\">{}</th><td class=\"word\">{}<small>{}</small></td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"word {verdict}\">{verdict}</td></tr>",
            escape(&title),
            escape(&metric.heading()),
            metric.unit,
            shown(row.sim),
            shown(row.lab),
            difference(row),
            tolerance(row),
            verdict = row.verdict(),
        );
        point = Some(title);
    }
    let causes: String = causes(both)
        .iter()
        .map(|(cause, metrics)| format!("<li>{} ({})</li>", escape(cause), listed(metrics)))
        .collect();
    let causes = match causes.as_str() {
        "" => String::new(),
        _ => format!("<p>Known causes of differences:</p><ul class=\"causes\">{causes}</ul>"),
    };
    let table = format!(
        "<div class=\"scroll\"><table class=\"measures\"><thead><tr><th></th>\
         <th class=\"word\">Metric</th><th>Simulation</th><th>Lab</th><th>Difference</th>\
         <th>Tolerance</th><th></th></tr></thead><tbody>{rows}</tbody></table></div>{causes}"
    );
    format!(
        "<article><header><p class=\"kicker\">weir · simulation and lab</p><h1>{}</h1>\
         <p class=\"about\">{}</p><p class=\"measured\">{} {}</p></header>{}</article>",
        escape(&both.sim.title),
        escape(&both.sim.about),
        escape(&measured(&both.sim)),
        escape(&measured(&both.lab)),
        section(&verdict(both), &table)
    )
}

fn verdict(both: &Both) -> String {
    let all = both.comparison.len();
    match both.comparison.iter().filter(|row| row.agrees).count() {
        _ if all == 0 => "Simulation and lab have no metric in common".to_owned(),
        agree if agree == all => format!("Simulation and lab agree on all {all} metrics"),
        agree => format!("Simulation and lab agree on {agree} of {all} metrics"),
    }
}

fn difference(row: &Compared) -> String {
    match (row.difference, row.relative) {
        (None, _) => "–".to_owned(),
        (Some(x), true) => format!("{:+.0} %", 100.0 * x),
        (Some(x), false) => format!("{x:+.3}"),
    }
}

fn tolerance(row: &Compared) -> String {
    if row.relative {
        format!("±{:.0} %", 100.0 * row.tolerance)
    } else {
        format!("±{}", row.tolerance)
    }
}

/// The causes, each with the metrics that it may explain.
fn causes(both: &Both) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut causes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &both.comparison {
        for cause in &row.causes {
            causes.entry(*cause).or_default().insert(row.metric);
        }
    }
    causes
}

fn listed(metrics: &BTreeSet<&'static str>) -> String {
    metrics.iter().copied().collect::<Vec<_>>().join(", ")
}
