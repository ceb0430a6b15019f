//! The page: one message for each section, then the picture or the table that bears it out.

use serde_json::Value;

use crate::results::{Curve, OneRun, PointResult, RunResult};

use super::picture::{self, KINDS, LINES_MAX};
use super::style::STYLE;
use super::table::{columns, measured};
use super::{comparison, measures, paper};
use crate::compare::Ran;

/// Rows of the table of hogs at most, for each point.
const HOGS_MAX: usize = 8;

/// The page of these results.
pub(super) fn html(all: &[Ran]) -> String {
    let results: Vec<&RunResult> = all.iter().flat_map(Ran::results).collect();
    let name = results.first().map_or("results", |r| r.title.as_str());
    let sections: String = all.iter().map(ran_html).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>weir: {}</title>\
         <style>{STYLE}</style></head><body><main>{sections}</main></body></html>\n",
        escape(name)
    )
}

fn ran_html(ran: &Ran) -> String {
    let results: String = ran.results().into_iter().map(result_html).collect();
    match ran {
        Ran::One(_) => results,
        Ran::Both(both) => comparison::html(both) + &results,
    }
}

fn result_html(result: &RunResult) -> String {
    let place = match result.on.as_str() {
        "sim" => "simulation",
        "lab" => "lab",
        other => other,
    };
    let mut html = format!(
        "<article><header><p class=\"kicker\">weir · {}</p><h1>{}</h1><p class=\"about\">{}</p>\
         <p class=\"measured\">{}</p></header>",
        escape(place),
        escape(&result.title),
        escape(&result.about),
        escape(&measured(result)),
    );
    html += &shares(result);
    html += &over_time(result);
    html += &numbers(result);
    html += &queues_over_time(result);
    html += &measures::html(result);
    html += &hogs(result);
    html += &notes(result);
    html + "</article>"
}

pub(crate) fn section(message: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>{body}</section>", escape(message))
}

fn shares(result: &RunResult) -> String {
    if result.points.iter().all(|p| picture::total(p) <= 0.0) {
        return String::new();
    }
    let share = |p: &&PointResult| p.median("tcp_share_ratio");
    let with = result.points.iter().filter(|p| share(p).is_some());
    let sorted = |a: &&PointResult, b: &&PointResult| {
        share(a)
            .partial_cmp(&share(b))
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    let (worst, best) = (with.clone().min_by(sorted), with.max_by(sorted));
    let message = match worst.zip(best) {
        Some((worst, best)) if worst != best => format!(
            "Long TCP gets {} of what it shares with UDP under {}, {} under {}",
            percent(share(&best)),
            best.title(),
            percent(share(&worst)),
            worst.title()
        ),
        _ => "Who got the link".to_owned(),
    };
    let bars = |class: &str, width: u32| {
        let svg = picture::bars(&result.points, width);
        format!("<figure class=\"{class}\">{svg}</figure>")
    };
    // A phone gets a picture of its own: a shrunken one could not be read.
    let body = legend(result) + &bars("wide", 760) + &bars("narrow", 360);
    section(&message, &body)
}

fn percent(share: Option<f64>) -> String {
    let percent = share.unwrap_or(0.0) * 100.0;
    let decimals = if percent < 2.0 { 1 } else { 0 };
    format!("{percent:.decimals$}\u{a0}%")
}

fn legend(result: &RunResult) -> String {
    let there = |(kind, _): &&(&str, &str)| {
        let metric = format!("{kind}_goodput_mbps");
        result.points.iter().any(|p| p.median(&metric).is_some())
    };
    let item = |(kind, name): &(&str, &str)| {
        format!("<li><span class=\"swatch {kind}\"></span>{name}</li>")
    };
    let items: String = KINDS.iter().filter(there).map(item).collect();
    format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">goodput at the receiver, Mbit/s</li></ul>"
    )
}

/// One picture for each variant, at the middle of the sweep.
fn over_time(result: &RunResult) -> String {
    let top = result.points.iter().flat_map(|p| &p.runs).map(peak);
    let top = top.fold(1.0, f64::max);
    let step = if top > 20.0 { 10.0 } else { 1.0 };
    let top = (top / step).ceil() * step;
    let mut pictures = String::new();
    for point in middles(result) {
        let Some(run) = point.runs.first() else {
            continue;
        };
        let name = escape(&point.title());
        let svg = picture::over_time(run, &format!("goodput over time, {name}"), top);
        pictures += &format!("<figure><figcaption>{name}</figcaption>{svg}</figure>");
    }
    if pictures.is_empty() {
        return String::new();
    }
    let body = format!("{}<div class=\"grid\">{pictures}</div>", legend(result));
    section("What each kind of traffic got, moment by moment", &body)
}

/// The point in the middle of the sweep, of each variant.
fn middles(result: &RunResult) -> Vec<&PointResult> {
    let mut variants: Vec<&Option<String>> = Vec::new();
    for point in &result.points {
        if !variants.contains(&&point.variant) {
            variants.push(&point.variant);
        }
    }
    let middle = |variant: &&Option<String>| {
        let of = result.points.iter().filter(|p| p.variant == **variant);
        let of: Vec<_> = of.collect();
        of[of.len() / 2]
    };
    variants.iter().map(middle).collect()
}

/// The highest sum of all kinds in a run.
fn peak(run: &OneRun) -> f64 {
    let kinds = KINDS.iter();
    let kinds = kinds.filter_map(|(kind, _)| run.series.get(&format!("{kind}_mbps")));
    let kinds: Vec<&Curve> = kinds.collect();
    let steps = kinds.iter().map(|c| c.values.len()).max().unwrap_or(0);
    let sum = |n: usize| -> f64 { kinds.iter().filter_map(|c| c.values.get(n)).sum() };
    (0..steps).map(sum).fold(0.0, f64::max)
}

/// One picture for each variant: the packets that wait at each watched link.
fn queues_over_time(result: &RunResult) -> String {
    const CURVE: &str = "queue_packets.";
    let points = middles(result);
    let runs = || points.iter().filter_map(|p| Some((p, p.runs.first()?)));
    let mut links: Vec<&str> = runs()
        .flat_map(|(_, run)| run.series.keys())
        .filter_map(|name| name.strip_prefix(CURVE))
        .collect();
    links.sort_unstable();
    links.dedup();
    if links.is_empty() {
        return String::new();
    }
    let more = links.len().saturating_sub(LINES_MAX);
    links.truncate(LINES_MAX);
    let curve = |run: &'_ OneRun, link: &str| run.series.get(&format!("{CURVE}{link}")).cloned();
    let top = runs().flat_map(|(_, run)| links.iter().filter_map(move |link| curve(run, link)));
    let top = top.flat_map(|c| c.values).fold(1.0, f64::max);
    let mut pictures = String::new();
    for (point, run) in runs() {
        let curves: Vec<Option<Curve>> = links.iter().map(|link| curve(run, link)).collect();
        let name = escape(&point.title());
        let svg = picture::lines(&curves, &format!("queue over time, {name}"), top);
        pictures += &format!("<figure><figcaption>{name}</figcaption>{svg}</figure>");
    }
    let item = |(n, link): (usize, &&str)| {
        format!(
            "<li><span class=\"line line{n}\"></span>{}</li>",
            escape(link)
        )
    };
    let items: String = links.iter().enumerate().map(item).collect();
    let more = match more {
        0 => String::new(),
        more => format!(", {more} more links in series.csv"),
    };
    let body = format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">packets in the queue{more}</li></ul>\
         <div class=\"grid\">{pictures}</div>"
    );
    section("How many packets wait, moment by moment", &body)
}

fn numbers(result: &RunResult) -> String {
    let columns = columns(result);
    if columns.is_empty() {
        return String::new();
    }
    let heads: String = columns
        .iter()
        .map(|c| format!("<th>{}<small>{}</small></th>", c.heading, c.unit))
        .collect();
    let mut rows = String::new();
    let mut compared = false;
    for point in &result.points {
        let ours: String = columns
            .iter()
            .map(|c| {
                let spread = c.spread(point).map(|s| format!("<small>{s}</small>"));
                let ours = c.ours(point).unwrap_or_default();
                format!("<td>{ours}{}</td>", spread.unwrap_or_default())
            })
            .collect();
        rows += &format!(
            "<tr><th scope=\"row\">{}</th>{ours}</tr>",
            escape(&point.title())
        );
        if let Some(row) = paper::row_of(result, point) {
            compared = true;
            let cells = columns.iter().map(|c| c.paper(&row).unwrap_or_default());
            let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
            rows += &format!("<tr class=\"paper\"><th scope=\"row\">the paper</th>{cells}</tr>");
        }
    }
    let message = match (compared, web_factor(result)) {
        (_, Some(message)) => message,
        (true, None) => "Beside the paper's Tables I and II".to_owned(),
        (false, None) => "The numbers".to_owned(),
    };
    let remark = match compared {
        true => {
            "<p>Paler rows are the paper's Tables I and II; its requests in 600 s are divided \
                 by 600. Unfinished fetches count with their age at the end.</p>"
        }
        false => "<p>Unfinished fetches count with their age at the end.</p>",
    };
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr><th></th>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>{remark}"
    );
    section(&message, &table)
}

/// How many times more fetches the best point has than the worst.
fn web_factor(result: &RunResult) -> Option<String> {
    let fetches = |p: &PointResult| p.median("web_fetches_per_s");
    let with = || result.points.iter().filter_map(|p| Some((fetches(p)?, p)));
    let worst = with().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let best = with().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (worst.0 > 0.0 && best.0 > worst.0 * 1.5).then(|| {
        let factor = best.0 / worst.0;
        let decimals = if factor < 10.0 { 1 } else { 0 };
        format!(
            "The web fetches {factor:.decimals$} times as much under {} as under {}",
            best.1.title(),
            worst.1.title()
        )
    })
}

fn hogs(result: &RunResult) -> String {
    let mut rows = String::new();
    let mut all_known = 0;
    for point in &result.points {
        let Some(run) = point.runs.last() else {
            continue;
        };
        let found = run.routers.values().filter_map(|r| r["hogs"].as_array());
        let found: Vec<&Value> = found.flatten().collect();
        let hog = |h: &&&Value| matches!(h["standing"].as_str(), Some("hog" | "pinned"));
        let hogs: Vec<&&Value> = found.iter().filter(hog).collect();
        all_known += hogs.len();
        for hog in hogs.iter().take(HOGS_MAX) {
            rows += &hog_row(&point.title(), hog);
        }
        if hogs.len() > HOGS_MAX {
            let more = hogs.len() - HOGS_MAX;
            let point = escape(&point.title());
            rows += &format!(
                "<tr><th scope=\"row\">{point}</th><td colspan=\"5\">and {more} more</td></tr>"
            );
        }
    }
    if all_known == 0 {
        return String::new();
    }
    let table = format!(
        "<div class=\"scroll\"><table class=\"hogs\"><thead><tr><th></th><th>Flow</th>\
         <th>Standing</th><th>Rate<small>Mbit/s</small></th><th>Seen<small>packets</small></th>\
         <th>Known<small>for, s</small></th></tr></thead><tbody>{rows}</tbody></table></div>\
         <p>As the router named them 0.3 s before the end of the last run.</p>"
    );
    section("The router names the flows that it holds back", &table)
}

fn hog_row(point: &str, hog: &Value) -> String {
    let number = |value: &Value, scale: f64, decimals: usize| {
        let shown = value
            .as_f64()
            .map(|x| format!("{:.*}", decimals, x / scale));
        shown.unwrap_or_default()
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"flow\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td></tr>",
        escape(point),
        escape(hog["flow"].as_str().unwrap_or_default()),
        escape(hog["standing"].as_str().unwrap_or_default()),
        number(&hog["rate_bps"], 1e6, 2),
        number(&hog["seen"]["packets"], 1.0, 0),
        number(&hog["known_s"], 1.0, 1),
    )
}

fn notes(result: &RunResult) -> String {
    let note = |n: &String| format!("<li>{}</li>", escape(n));
    let notes: String = result.notes.iter().map(note).collect();
    let list = match notes.as_str() {
        "" => String::new(),
        _ => format!("<ul>{notes}</ul>"),
    };
    format!(
        "<footer>{list}<p><code>weir run {} --on {} --seed {}</code></p>\
         <p>{:.0} s of processor time in {:.0} s.</p></footer>",
        escape(&result.scenario),
        escape(&result.on),
        result.seed,
        result.cpu_s,
        result.wall_s
    )
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_escaped() {
        assert_eq!(
            escape("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
