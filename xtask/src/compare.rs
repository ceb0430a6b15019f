//! Every discipline under the same load: the scenarios of RFC 7928 and RRUL, as one document.
//!
//! What is measured stands in docs/comparison.md between marks, a summary at the top and all tables at the
//! end, and this command replaces both; the text around them is written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program;
use crate::statistics::Summary;

const USAGE: &str = "cargo xtask compare [--runs N] [--weir PROGRAM] [SCENARIO...]
  SCENARIO  a file name below scenarios/rfc7928 or scenarios/rrul, without `.toml`; all of them if none is
            named, and then docs/comparison.md is written; otherwise the tables are printed
  --runs    seeds of each point (what the scenario says)
  --weir    a release binary, instead of building one";

const FOLDERS: [&str; 2] = ["rrul", "rfc7928"];
const DOCUMENT: &str = "docs/comparison.md";
/// The marks around the summary, and around all tables.
const SUMMARY: [&str; 2] = [
    "<!-- summary, measured by `cargo xtask compare`: do not edit -->\n",
    "<!-- end of the summary -->\n",
];
const MEASURED: [&str; 2] = [
    "<!-- measured by `cargo xtask compare`: do not edit -->\n",
    "<!-- end of what is measured -->\n",
];
/// Where a point says which discipline it is for.
const DISCIPLINE: &str = "link.bottleneck.discipline.kind";

/// A column of the tables.
struct Column {
    title: &'static str,
    read: Read,
}

type Metrics = BTreeMap<String, f64>;
type Read = fn(&Metrics) -> Option<f64>;

const COLUMNS: [Column; 9] = [
    Column {
        title: "queue, p99 ms",
        read: queue_delay,
    },
    Column {
        title: "small packets, p99 ms",
        read: small_packets,
    },
    Column {
        title: "TCP, Mbit/s",
        read: |m| sum(m, &["tcp_goodput_mbps", "web_goodput_mbps"]),
    },
    Column {
        title: "UDP, Mbit/s",
        read: |m| m.get("udp_goodput_mbps").copied(),
    },
    Column {
        title: "loss, %",
        read: |m| Some(100.0 * m.get("loss_ratio")?),
    },
    Column {
        title: "Jain",
        read: jain,
    },
    // RFC 7928, section 6.3: goodput of category II over category I.
    Column {
        title: "far / near",
        read: |m| Some(m.get("goodput_mbps.far")? / m.get("goodput_mbps.near")?),
    },
    Column {
        title: "short flows, mean s",
        read: short_flows,
    },
    Column {
        title: "p99 s",
        read: |m| first(m, &["transfer_s_p99", "web_response_s_p99"]),
    },
];

/// Columns of the summary, for each of its loads.
const IN_SHORT: [Column; 4] = [
    Column {
        title: "delay, p99 ms",
        read: small_packets,
    },
    Column {
        title: "goodput, Mbit/s",
        read: |m| {
            let kinds = ["tcp_goodput_mbps", "udp_goodput_mbps", "web_goodput_mbps"];
            sum(m, &kinds)
        },
    },
    Column {
        title: "Jain",
        read: jain,
    },
    Column {
        title: "short flows, s",
        read: short_flows,
    },
];
/// The loads of the summary: those that have all of its columns. With the words for them there.
const LOADS_IN_SHORT: [(&str, &str); 2] = [("rrul", "RRUL"), ("9-mix", "mix")];

fn queue_delay(metrics: &Metrics) -> Option<f64> {
    let both = [
        "queue_delay_ms_p99.bottleneck",
        "queue_delay_ms_p99.bottleneck.reverse",
    ];
    most(metrics, &both)
}

fn small_packets(metrics: &Metrics) -> Option<f64> {
    let small = [
        "delay_ms_p99.voice",
        "delay_ms_p99.ping",
        "delay_ms_p99.pong",
    ];
    most(metrics, &small)
}

/// Of long flows; between them and short ones it says nothing.
fn jain(metrics: &Metrics) -> Option<f64> {
    let index = metrics.get("jain_index").copied();
    index.filter(|_| !metrics.contains_key("transfers"))
}

fn short_flows(metrics: &Metrics) -> Option<f64> {
    first(metrics, &["transfer_s_mean", "web_response_s_mean"])
}

fn first(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| metrics.get(*name).copied())
}

fn most(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    let values = names.iter().filter_map(|name| metrics.get(*name).copied());
    values.reduce(f64::max)
}

fn sum(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    let values = names.iter().filter_map(|name| metrics.get(*name).copied());
    values.reduce(|a, b| a + b)
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    runs: Option<usize>,
    weir: Option<PathBuf>,
    scenarios: Vec<String>,
}

/// One load, and what each discipline made of it.
struct Load {
    /// The scenario's name, and what its sweep sets besides the discipline.
    name: String,
    about: String,
    note: String,
    /// Discipline and the metrics of its runs.
    rows: Vec<(String, Vec<Metrics>)>,
}

/// Runs `cargo xtask compare` with these words behind it.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = parse(words)?;
    let weir = match &options.weir {
        Some(weir) => weir.clone(),
        None => program::build_weir(root)?,
    };
    let files = files(root, &options.scenarios)?;
    let mut loads = Vec::new();
    for file in files {
        eprintln!("{}", file.display());
        loads.extend(measure(&weir, &file, options.runs)?);
    }
    let (summary, measured) = (summary(&loads), document(&loads));
    if !options.scenarios.is_empty() {
        print!("{measured}");
        return Ok(());
    }
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let text = replaced(&text, SUMMARY, &summary);
    let text = text.and_then(|text| replaced(&text, MEASURED, &measured));
    let text = text.ok_or(format!("{DOCUMENT}: the marks are gone"))?;
    fs::write(&path, text).map_err(|error| format!("{DOCUMENT}: {error}"))
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match *word {
            "--runs" => {
                let runs = value()?.parse().ok().filter(|runs| *runs > 0);
                options.runs = Some(runs.ok_or(format!("{word}: not a positive number"))?);
            }
            "--weir" => options.weir = Some(PathBuf::from(value()?)),
            name if !name.starts_with('-') => options.scenarios.push(name.to_owned()),
            _ => return Err(format!("\"{word}\" is not understood\nusage: {USAGE}")),
        }
    }
    Ok(options)
}

/// The scenario files, in the order of the document.
fn files(root: &Path, named: &[String]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let folder = root.join("scenarios").join(folder);
        let entries = fs::read_dir(&folder);
        let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut here: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        here.sort();
        files.extend(here);
    }
    let stem = |file: &Path| file.file_stem().map(|s| s.to_string_lossy().into_owned());
    if let Some(name) = named
        .iter()
        .find(|name| !files.iter().any(|file| stem(file).as_ref() == Some(name)))
    {
        return Err(format!("there is no scenario \"{name}\"\nusage: {USAGE}"));
    }
    files.retain(|file| named.is_empty() || stem(file).is_some_and(|s| named.contains(&s)));
    Ok(files)
}

/// The loads of a scenario.
fn measure(weir: &Path, file: &Path, runs: Option<usize>) -> Result<Vec<Load>, String> {
    let mut command = Command::new(weir);
    command.arg("run").arg(file).arg("--json");
    if let Some(runs) = runs {
        command.args(["--runs", &runs.to_string()]);
    }
    let text = program::output(&mut command)?;
    let results: Value =
        serde_json::from_str(&text).map_err(|error| format!("{command:?}: {error}"))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    loads(&name, &results).ok_or(format!("{command:?}: results of another shape"))
}

fn loads(name: &str, results: &Value) -> Option<Vec<Load>> {
    let mut loads: Vec<Load> = Vec::new();
    for point in results["points"].as_array()? {
        let set = point["set"].as_object()?;
        let discipline = set.get(DISCIPLINE)?.as_str()?.to_owned();
        let others = set
            .iter()
            .filter(|(path, _)| !path.ends_with("discipline.kind"));
        let others = others.map(|(path, value)| {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            format!(", {path} = {value}")
        });
        let name = format!("{name}{}", others.collect::<String>());
        let runs = point["runs"].as_array()?;
        let metrics: Option<Vec<Metrics>> =
            runs.iter().map(|run| metrics(&run["metrics"])).collect();
        let (count, seed) = (runs.len(), results["seed"].as_u64()?);
        let (duration, warm_up) = (
            results["duration_s"].as_f64()?,
            results["warm_up_s"].as_f64()?,
        );
        let row = (discipline, metrics?);
        match loads.iter_mut().find(|load| load.name == name) {
            Some(load) => load.rows.push(row),
            None => loads.push(Load {
                name,
                about: results["about"].as_str()?.to_owned(),
                note: format!(
                    "{duration} s, the first {warm_up} s not counted; {count} runs, seeds {seed} to {}.",
                    seed + count as u64 - 1
                ),
                rows: vec![row],
            }),
        }
    }
    Some(loads)
}

fn metrics(value: &Value) -> Option<Metrics> {
    let pairs = value.as_object()?.iter();
    let pairs = pairs.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    Some(pairs.collect())
}

/// The text with what is between the marks replaced.
fn replaced(text: &str, [begin, end]: [&str; 2], measured: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{measured}{end}{after}"))
}

/// Delay, goodput, fairness and short flows of each discipline in one table.
fn summary(loads: &[Load]) -> String {
    let loads: Vec<(&str, &Load)> = LOADS_IN_SHORT
        .iter()
        .filter_map(|(name, word)| Some((*word, loads.iter().find(|load| load.name == *name)?)))
        .collect();
    let titles = loads.iter().flat_map(|(word, _)| {
        let titles = IN_SHORT.iter().map(|column| column.title);
        titles.map(move |title| format!("{word}: {title}"))
    });
    let mut text = header(&titles.collect::<Vec<_>>());
    for name in disciplines(loads.iter().map(|(_, load)| *load)) {
        let cells = loads.iter().flat_map(|(_, load)| {
            let columns = IN_SHORT.iter();
            columns.map(|column| load.cell(name, column.read, Summary::shown))
        });
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    format!("\n{text}\n")
}

fn document(loads: &[Load]) -> String {
    let mut text = glance(loads);
    for load in loads {
        text += &format!("\n## {}\n\n{} {}\n\n", load.name, load.about, load.note);
        text += &table(load);
    }
    text
}

/// Delay of each discipline under each load.
fn glance(loads: &[Load]) -> String {
    let numbers: Vec<String> = (1..=loads.len()).map(|n| n.to_string()).collect();
    let mut text = String::from(
        "\n## Delay under each load\n\nIn ms, the 99th percentile: of small packets from end to end where the load has them \
         (*), of all packets in the queue otherwise.\n\n",
    );
    for (number, load) in numbers.iter().zip(loads) {
        let mut runs = load.rows.iter().flat_map(|(_, runs)| runs);
        let small = runs.any(|m| small_packets(m).is_some());
        let star = if small { " (*)" } else { "" };
        text += &format!("{number}. {}{star}\n", load.name);
    }
    text += "\n";
    text += &header(&numbers);
    let delay: Read = |m| small_packets(m).or_else(|| queue_delay(m));
    for name in disciplines(loads) {
        let cells = loads.iter();
        let cells = cells.map(|load| load.cell(name, delay, |s| format!("{:.0}", s.mean)));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

/// A row for each discipline; columns that the load has nothing for are left out.
fn table(load: &Load) -> String {
    let all = || load.rows.iter().flat_map(|(_, runs)| runs);
    // One flow is always fair to itself.
    let told = |column: &&Column| {
        let values = || all().filter_map(column.read);
        values().next().is_some() && !(column.title == "Jain" && values().all(|x| x == 1.0))
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(told).collect();
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut text = header(&titles);
    for name in disciplines([load]) {
        let cells = columns.iter();
        let cells = cells.map(|column| load.cell(name, column.read, Summary::shown));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

impl Load {
    /// What all runs of a discipline say together.
    fn cell(&self, discipline: &str, read: Read, shown: impl Fn(&Summary) -> String) -> String {
        let row = self.rows.iter().find(|(name, _)| name == discipline);
        let summary = row.and_then(|(_, runs)| Summary::of(runs.iter().filter_map(read)));
        summary.map_or("-".to_owned(), |summary| shown(&summary))
    }
}

/// The disciplines of these loads, each once.
fn disciplines<'a>(loads: impl IntoIterator<Item = &'a Load>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in loads.into_iter().flat_map(|load| &load.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn header<T: AsRef<str>>(titles: &[T]) -> String {
    let titles: Vec<&str> = titles.iter().map(AsRef::as_ref).collect();
    let lines = "---|".repeat(titles.len());
    format!("| | {} |\n|---|{lines}\n", titles.join(" | "))
}

fn row(discipline: &str, cells: &[String]) -> String {
    format!("| `{discipline}` | {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_options_or_scenarios() {
        let options = parse(&["--runs", "3", "9-mix"]);
        let options = options.map(|options| (options.runs, options.scenarios));
        assert_eq!(options, Ok((Some(3), vec!["9-mix".to_owned()])));
        assert!(parse(&["--runs", "0"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }

    #[test]
    fn what_is_between_the_marks_is_replaced() {
        let [begin, end] = MEASURED;
        let text = format!("by hand\n{begin}old\n{end}by hand too\n");
        let expected = format!("by hand\n{begin}new\n{end}by hand too\n");
        assert_eq!(replaced(&text, MEASURED, "new\n"), Some(expected));
        assert_eq!(replaced(&text, SUMMARY, "new\n"), None);
    }

    #[test]
    fn the_summary_has_a_row_for_each_discipline() {
        let load = |name: &str, delay: f64| {
            let metrics = [
                ("delay_ms_p99.voice", delay),
                ("tcp_goodput_mbps", 10.0),
                ("udp_goodput_mbps", 2.0),
                ("jain_index", 0.5),
                ("web_response_s_mean", 0.25),
            ];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
            Load {
                name: name.into(),
                about: String::new(),
                note: String::new(),
                rows: vec![("fifo".into(), vec![metrics.into()])],
            }
        };
        let text = summary(&[load("rrul", 30.0), load("5.2", 1.0), load("9-mix", 60.0)]);
        let expected = "| `fifo` | 30.00 ± 0.00 | 12.00 ± 0.00 | 0.5000 ± 0.0000 | 0.2500 ± 0.0000 | 60.00 ± 0.00 |";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("| RRUL: delay, p99 ms | RRUL: goodput"),
            "{text}"
        );
    }

    #[test]
    fn a_table_for_each_load() {
        let point = |kind: &str, rate: &str, delay: f64| {
            json!({
                "set": { DISCIPLINE: kind, "traffic.flood.rate": rate },
                "runs": [{ "metrics": { "queue_delay_ms_p99.bottleneck": delay, "jain_index": 1.0 } }],
            })
        };
        let results = json!({
            "about": "A load.", "seed": 1, "duration_s": 60.0, "warm_up_s": 10.0,
            "points": [point("fifo", "80 Mbit", 100.0), point("red", "80 Mbit", 7.25), point("fifo", "200 Mbit", 120.0)],
        });
        let loads = loads("5.3", &results).unwrap_or_default();
        assert_eq!(loads.len(), 2);
        let text = document(&loads);
        assert!(
            text.contains("## 5.3, traffic.flood.rate = 80 Mbit\n"),
            "{text}"
        );
        assert!(
            text.contains("| `fifo` | 100 | 120 |\n| `red` | 7 | - |\n"),
            "{text}"
        );
        assert!(
            text.contains("| | queue, p99 ms |\n|---|---|\n| `fifo` | 100.0 ± 0.0 |\n"),
            "{text}"
        );
    }
}
