//! The page: one message for each section, then the picture or the table that supports it.

use serde_json::Value;

use crate::results::{Curve, OneRun, PointResult, RunResult};

use super::picture::{self, LINES_MAX};
use super::style::STYLE;
use super::table::{columns, measured, spreads};
use super::{agreement, gain, latency, measures, paper, shares, swept};
use crate::agreement::Ran;

/// Maximum number of pictures over time of one section.
const PICTURES_MAX: usize = 12;
/// Maximum number of rows of the table of hogs, for each point.
const HOGS_MAX: usize = 8;

/// A plot in a file beside the page.
pub(super) struct Drawn {
    /// Its title.
    pub(super) title: String,
    /// The path of the file relative to the page, without extension.
    pub(super) path: String,
}

/// The page of these results; `drawn` has the plots of each.
pub(super) fn html(all: &[Ran], drawn: &[Vec<Drawn>]) -> String {
    let results: Vec<&RunResult> = all.iter().flat_map(Ran::results).collect();
    let name = results.first().map_or("results", |r| r.title.as_str());
    let mut drawn = drawn.iter().map(Vec::as_slice);
    let sections: String = all.iter().map(|ran| ran_html(ran, &mut drawn)).collect();
    document(&format!("weir: {name}"), "", &sections)
}

/// A whole page: its title, what it adds to the common style, and its articles.
pub(crate) fn document(title: &str, own_style: &str, articles: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
         <style>{STYLE}{own_style}</style></head><body><main>{articles}</main></body></html>\n",
        escape(title)
    )
}

fn ran_html<'a>(ran: &Ran, drawn: &mut impl Iterator<Item = &'a [Drawn]>) -> String {
    let results = ran.results().into_iter();
    let results: String = results
        .map(|result| result_html(result, drawn.next().unwrap_or_default()))
        .collect();
    match ran {
        Ran::One(_) => results,
        Ran::Both(both) => agreement::html(both) + &results,
    }
}

fn result_html(result: &RunResult, drawn: &[Drawn]) -> String {
    let mut html = format!("<article>{}", header("weir", result));
    if let Some(headline) = gain::headline(result) {
        html += &section(&headline, "");
    }
    html += &latency::html(result);
    html += &latency::swept_html(result);
    html += &shares::html(result);
    html += &numbers(result);
    html += &shares::over_time(result, PICTURES_MAX);
    html += &queues_over_time(result);
    html += &measures::html(result);
    html += &hogs(result);
    html += &list(drawn);
    html += &notes(result);
    html + "</article>"
}

/// An article with the pictures of a result alone: first these sections; then the times that its small packets, fetches and
/// transfers take, and the goodput of its traffic over time, at every point.
pub(crate) fn pictures(name: &str, result: &RunResult, first: &str) -> String {
    let header = header(&format!("weir · {name}"), result) + first;
    let pictures = latency::html(result) + &shares::over_time(result, usize::MAX);
    format!("<article>{header}{pictures}</article>")
}

fn header(of: &str, result: &RunResult) -> String {
    let place = match result.on.as_str() {
        "sim" => "simulation",
        other => other,
    };
    format!(
        "<header><p class=\"kicker\">{} · {}</p><h1>{}</h1><p class=\"about\">{}</p>\
         <p class=\"measured\">{}</p></header>",
        escape(of),
        escape(place),
        escape(&result.title),
        escape(&result.about),
        escape(&measured(result)),
    )
}

pub(crate) fn section(message: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>{body}</section>", escape(message))
}

/// The plots in files beside the page.
fn list(drawn: &[Drawn]) -> String {
    let item = |plot: &Drawn| {
        let (title, path) = (escape(&plot.title), escape(&plot.path));
        format!("<li><a href=\"{path}.svg\">{title}</a> (<a href=\"{path}.png\">PNG</a>)</li>")
    };
    let items: String = drawn.iter().map(item).collect();
    match drawn.len() {
        0 => String::new(),
        count => section(
            "All plots",
            &format!(
                "<details><summary>{count} files</summary><ul class=\"plots\">{items}</ul></details>"
            ),
        ),
    }
}

/// One picture for each point in the middle of the sweep: the packets in the queue of each watched link.
fn queues_over_time(result: &RunResult) -> String {
    const CURVE: &str = "queue_packets.";
    let points = swept::middles(result);
    let left_out = points.len().saturating_sub(PICTURES_MAX);
    let points = &points[..points.len() - left_out];
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
    let left_out = match left_out {
        0 => String::new(),
        more => format!("<p>{more} more are among the plots below.</p>"),
    };
    let body = format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">packets in the queue{more}</li></ul>\
         <div class=\"grid\">{pictures}</div>{left_out}{}",
        swept::middle_note(result)
    );
    section("Packets waiting over time", &body)
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
        false if columns.iter().any(|c| c.heading == "Fetches") => {
            "<p>Unfinished fetches count with their age at the end.</p>"
        }
        false => "",
    };
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr><th></th>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div><p>{}</p>{remark}",
        spreads(result)
    );
    section(&message, &table)
}

/// The ratio of fetches between the best and the worst point.
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
    section("Flows that the router holds back", &table)
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
