//! The page: one message for each section, then the picture or the table that supports it.

use serde_json::Value;

use crate::results::{Curve, OneRun, PointResult, RunResult};

use super::figure::curves::Curves;
use super::figure::lines::LINES_MAX;
use super::html::{escape, section};
use super::style::{STYLE, colours};
use super::table::{columns, measured, spreads};
use super::{agreement, gain, latency, measures, paper, shares, swept};
use crate::agreement::Ran;

/// Maximum number of pictures over time of one section.
const PICTURES_MAX: usize = 12;
/// Maximum number of rows of the table of hogs, for each point.
const HOGS_MAX: usize = 8;

/// The meaning of the mark of disturbed runs.
pub(crate) const DISTURBED: &str = "<p class=\"disturbed\">\u{26a0} During the runs marked (disturbed), other \
     programs used this machine, or packets were lost between its network namespaces. Their numbers may be wrong; see \
     the notes at the end. Repeat the run on an idle machine.</p>";

/// A plot in a file next to the page.
pub(super) struct Drawn {
    /// The title.
    pub(super) title: String,
    /// The path of the file relative to the page, without extension.
    pub(super) path: String,
}

/// The page of these results; `drawn` has the plots of each, `paths` the files with numbers next to the page.
pub(super) fn html(all: &[Ran], drawn: &[Vec<Drawn>], paths: &[String]) -> String {
    let results: Vec<&RunResult> = all.iter().flat_map(Ran::results).collect();
    let name = results.first().map_or("results", |r| r.title.as_str());
    let mut drawn = drawn.iter().map(Vec::as_slice);
    let sections: String = all.iter().map(|ran| ran_html(ran, &mut drawn)).collect();
    let files = format!("<article>{}</article>", files(paths));
    document(&format!("weir: {name}"), "", &(sections + &files))
}

/// A whole page: its title, its additions to the common style, and its articles. The first header gets the command that
/// made the page, and the list of contents.
pub(crate) fn document(title: &str, own_style: &str, articles: &str) -> String {
    let (contents, articles) = contents(articles);
    let head = format!(
        "<p class=\"measured\"><code>{}</code><br>weir {}</p>{contents}</header>",
        escape(&command()),
        env!("CARGO_PKG_VERSION")
    );
    let articles = articles.replacen("</header>", &head, 1);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
         <style>{STYLE}{}{own_style}</style></head><body><main>{articles}</main></body></html>\n",
        escape(title),
        colours()
    )
}

/// The command line of this process in shell syntax.
fn command() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    let quoted = |word: std::ffi::OsString| match word.to_string_lossy() {
        word if word.chars().all(is_plain) && !word.is_empty() => word.into_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args_os().skip(1).map(quoted);
    std::iter::once("weir".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A list of links to the articles and their sections, and the articles with the targets of the links. Empty for few
/// sections.
fn contents(articles: &str) -> (String, String) {
    const SECTIONS_MIN: usize = 4;
    let between = |text: &str, from: &str, to: &str| {
        let text = text.split_once(from)?.1;
        Some(text.split_once(to)?.0.to_owned())
    };
    let (mut items, mut marked, mut sections) = (String::new(), String::new(), 0);
    for (number, article) in articles.split("<article>").enumerate() {
        if number > 0 {
            if let Some(title) = between(article, "<h1>", "</h1>") {
                items += &format!("<li class=\"article\"><a href=\"#a{number}\">{title}</a></li>");
            }
            marked += &format!("<article id=\"a{number}\">");
        }
        for (place, part) in article.split("<section>").enumerate() {
            if place > 0 {
                sections += 1;
                let title = between(part, "<h2>", "</h2>").unwrap_or_default();
                items += &format!("<li><a href=\"#s{sections}\">{title}</a></li>");
                marked += &format!("<section id=\"s{sections}\">");
            }
            marked += part;
        }
    }
    let list = match sections {
        0..SECTIONS_MIN => String::new(),
        _ => format!(
            "<nav><details><summary>Contents: {sections} sections</summary><ul>{items}</ul></details></nav>"
        ),
    };
    (list, marked)
}

/// A section with links to the files next to the page; the files of a folder are folded.
pub(crate) fn files(paths: &[String]) -> String {
    let link = |path: &&String| format!("<li><a href=\"{0}\">{0}</a></li>", escape(path));
    let (inside, beside): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.contains('/'));
    let mut body = format!(
        "<ul class=\"plots\">{}</ul>",
        beside.iter().map(link).collect::<String>()
    );
    if !inside.is_empty() {
        body += &format!(
            "<details><summary>{} more files in folders</summary><ul class=\"plots\">{}</ul></details>",
            inside.len(),
            inside.iter().map(link).collect::<String>()
        );
    }
    section("Data files", &body)
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
    html += &gain::html(result).unwrap_or_default();
    html += &latency::html(result);
    html += &latency::swept_html(result);
    html += &shares::html(result);
    html += &numbers(result);
    html += &gain::worse_html(result);
    html += &shares::over_time(result, PICTURES_MAX);
    html += &queues_over_time(result);
    html += &measures::html(result);
    html += &hogs(result);
    html += &list(drawn);
    html += &notes(result);
    html + "</article>"
}

/// An article with only the pictures of a result: first these sections; then the times that its small packets, fetches
/// and transfers take, and the goodput of its traffic over time, at every point.
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
    let disturbed = if result.points.iter().any(PointResult::is_disturbed) {
        DISTURBED
    } else {
        ""
    };
    format!(
        "<header><p class=\"kicker\">{} · {}</p><h1>{}</h1><p class=\"about\">{}</p>\
         <p class=\"measured\">{}</p>{disturbed}</header>",
        escape(of),
        escape(place),
        escape(&result.title),
        escape(&result.about),
        escape(&measured(result)),
    )
}

/// The plots in files next to the page.
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
        let figure = Curves {
            curves: &curves,
            top,
            stacked: None,
        };
        let svg = figure.figure(&format!("queue over time, {}", point.label()));
        let name = escape(&point.label());
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
        more => format!("<p>{more} more plots are in the list below.</p>"),
    };
    let body = format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">packets in the queue{more}</li></ul>\
         <div class=\"grid\">{pictures}</div>{left_out}{}",
        swept::middle_note(result)
    );
    section("Queue length over time", &body)
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
            escape(&point.label())
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
        (true, None) => "Comparison with the paper's Tables I and II".to_owned(),
        (false, None) => "Results".to_owned(),
    };
    let remark = match compared {
        true => {
            "<p>Pale rows show the paper's Tables I and II; its requests in 600 s are divided by 600. Unfinished \
                 fetches count with their age at the end.</p>"
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
            "Web clients fetch {factor:.decimals$} times as much under {} as under {}",
            best.1.label(),
            worst.1.label()
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
            rows += &hog_row(&point.label(), hog);
        }
        if hogs.len() > HOGS_MAX {
            let more = hogs.len() - HOGS_MAX;
            let point = escape(&point.label());
            rows += &format!(
                "<tr><th scope=\"row\">{point}</th><td colspan=\"5\">and {more} more</td></tr>"
            );
        }
    }
    if all_known == 0 {
        return String::new();
    }
    let table = format!(
        "<div class=\"scroll\"><table \
         class=\"hogs\"><thead><tr><th></th><th>Flow</th><th>State</th><th>Rate<small>Mbit/s</small></th><th>Seen<small>packets</small></th><th>Tracked<small>for, \
         s</small></th></tr></thead><tbody>{rows}</tbody></table></div><p>As reported by the router 0.3 s before the \
         end of the last run.</p>"
    );
    section("Flows that the router treats as hogs", &table)
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
    let runs = result.points.iter().map(|point| point.runs.len());
    let runs = runs.max().unwrap_or(1);
    format!(
        "<footer>{list}<p><code>weir run {} --on {} --runs {runs} --seed {}</code></p><p>CPU time {:.0} s, wall-clock \
         time {:.0} s.</p></footer>",
        escape(&result.scenario),
        escape(&result.on),
        result.seed,
        result.cpu_s,
        result.wall_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_contents_leads_to_every_section() {
        let sections: String = ["one", "two", "three", "four"]
            .map(|title| section(title, ""))
            .concat();
        let page = document(
            "t",
            "",
            &format!("<article><header><h1>all</h1></header>{sections}</article>"),
        );
        for (number, title) in [(1, "one"), (4, "four")] {
            assert!(
                page.contains(&format!("<a href=\"#s{number}\">{title}</a>")),
                "{page}"
            );
            assert!(
                page.contains(&format!("<section id=\"s{number}\"><h2>{title}</h2>")),
                "{page}"
            );
        }
        assert!(
            page.contains("<a href=\"#a1\">all</a>") && page.contains("<code>weir"),
            "{page}"
        );
        assert!(!document("t", "", &section("one", "")).contains("<nav>"));
    }
}
