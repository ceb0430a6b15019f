//! The page: one message for each section, then the picture or the table that bears it out.

use serde_json::Value;

use crate::results::{PointResult, RunResult};

use super::paper;
use super::picture::{self, KINDS};
use super::table::{columns, measured};

/// Rows of the table of hogs at most, for each point.
const HOGS_MAX: usize = 8;

/// The page of these results.
pub(super) fn html(results: &[RunResult]) -> String {
    let name = results.first().map_or("results", |r| r.title.as_str());
    let sections: String = results.iter().map(result_html).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>weir: {}</title>\
         <style>{STYLE}</style></head><body><main>{sections}</main></body></html>\n",
        escape(name)
    )
}

fn result_html(result: &RunResult) -> String {
    let mut html = format!(
        "<article><header><p class=\"kicker\">weir · {}</p><h1>{}</h1><p class=\"about\">{}</p>\
         <p class=\"measured\">{}</p></header>",
        escape(&result.on),
        escape(&result.title),
        escape(&result.about),
        escape(&measured(result)),
    );
    html += &shares(result);
    html += &over_time(result);
    html += &numbers(result);
    html += &hogs(result);
    html += &notes(result);
    html + "</article>"
}

fn section(message: &str, body: &str) -> String {
    format!("<section><h2>{}</h2>{body}</section>", escape(message))
}

fn shares(result: &RunResult) -> String {
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
    let body = legend() + &bars("wide", 760) + &bars("narrow", 360);
    section(&message, &body)
}

fn percent(share: Option<f64>) -> String {
    let percent = share.unwrap_or(0.0) * 100.0;
    let decimals = if percent < 2.0 { 1 } else { 0 };
    format!("{percent:.decimals$} %")
}

fn legend() -> String {
    let item = |(kind, name): &(&str, &str)| {
        format!("<li><span class=\"swatch {kind}\"></span>{name}</li>")
    };
    let items: String = KINDS.iter().map(item).collect();
    format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">goodput at the receiver, Mbit/s</li></ul>"
    )
}

/// One picture for each variant, at the middle of the sweep.
fn over_time(result: &RunResult) -> String {
    let mut variants: Vec<&Option<String>> = Vec::new();
    for point in &result.points {
        if !variants.contains(&&point.variant) {
            variants.push(&point.variant);
        }
    }
    let top = result.points.iter().flat_map(|p| &p.runs).map(peak);
    let top = (top.fold(1.0, f64::max) / 10.0).ceil() * 10.0;
    let mut pictures = String::new();
    for variant in variants {
        let of: Vec<_> = result
            .points
            .iter()
            .filter(|p| p.variant == *variant)
            .collect();
        let point = of[of.len() / 2];
        let Some(run) = point.runs.first() else {
            continue;
        };
        let name = escape(&point.title());
        let svg = picture::over_time(run, &format!("goodput over time, {name}"), top);
        pictures += &format!("<figure><figcaption>{name}</figcaption>{svg}</figure>");
    }
    let body = format!("{}<div class=\"grid\">{pictures}</div>", legend());
    section("What each kind of traffic got, moment by moment", &body)
}

/// The highest sum of all kinds in a run.
fn peak(run: &crate::results::OneRun) -> f64 {
    let steps = run
        .series
        .values()
        .map(|c| c.values.len())
        .max()
        .unwrap_or(0);
    let sum = |n: usize| -> f64 { run.series.values().filter_map(|c| c.values.get(n)).sum() };
    (0..steps).map(sum).fold(0.0, f64::max)
}

fn numbers(result: &RunResult) -> String {
    let columns = columns(result);
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d232b;--faint:#d3d8de;--soft:#5c6672;--ground:#fbfbf9;\
--card:#fff;--tcp:#0072b2;--udp:#c9560a;--web:#00815e}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--faint:#3a424c;--soft:#9aa5b1;\
--ground:#14181d;--card:#1b2027;--tcp:#2a8fd0;--udp:#d9701f;--web:#1fa37c}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,sans-serif}\
main{max-width:70rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}\
article+article{margin-top:4rem;border-top:1px solid var(--faint);padding-top:2rem}\
.kicker{margin:0;color:var(--soft);font-size:.85rem;letter-spacing:.08em;text-transform:uppercase}\
h1{margin:.2rem 0 .6rem;font-size:clamp(1.6rem,4vw,2.4rem);line-height:1.2;font-weight:650}\
h2{margin:0 0 1rem;font-size:1.25rem;line-height:1.35;font-weight:600;max-width:46rem}\
.about{margin:0;max-width:46rem;font-size:1.1rem}\
.measured,section p,footer{color:var(--soft);font-size:.9rem;max-width:46rem}\
section{margin-top:2rem;background:var(--card);border:1px solid var(--faint);border-radius:12px;\
padding:1.4rem}\
figure{margin:0}figcaption{font-weight:600;margin-bottom:.3rem}\
svg{display:block;width:100%;height:auto}\
.narrow{display:none}@media(max-width:40rem){.narrow{display:block}.wide{display:none}}\
.grid{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr))}\
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;list-style:none;margin:0 0 1rem;padding:0;\
font-size:.9rem}\
.legend .unit{color:var(--soft)}\
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.45em}\
.swatch.tcp{background:var(--tcp)}.swatch.udp{background:var(--udp)}.swatch.web{background:var(--web)}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{padding:.4rem .45rem;text-align:right;white-space:nowrap;vertical-align:top}\
thead th{border-bottom:2px solid var(--faint);vertical-align:bottom;font-weight:600}\
tbody tr{border-bottom:1px solid var(--faint)}\
th[scope=row]{text-align:left;font-weight:600}\
small{display:block;font-weight:400;color:var(--soft);font-size:.8em}\
tr.paper td,tr.paper th{color:var(--soft);font-weight:400}\
tr:has(+tr.paper){border-bottom:none}\
td.flow{text-align:left;font-family:ui-monospace,monospace;font-size:.85em}\
.hogs thead th:nth-child(2){text-align:left}\
footer{margin-top:2rem}footer ul{padding-left:1.2rem}\
code{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}";

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
