//! The report of simulated runs: the page, its plots, and the files for Flent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_experiment::scenario::Override;
use weir_experiment::{Ran, RunOptions, RunResult, report};

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(name)
}

/// Runs a scenario of the repository for some seconds, with a few seeds.
fn run(name: &str, variants: &[&str], set: &[(&str, &str)]) -> RunResult {
    let set = set.iter().map(|(path, value)| Override {
        path: (*path).to_owned(),
        value: (*value).to_owned(),
    });
    weir_experiment::run(&RunOptions {
        scenario: scenario(name),
        overrides: set.collect(),
        variants: variants.iter().map(|v| (*v).to_owned()).collect(),
        runs: Some(2),
        ..RunOptions::default()
    })
    .unwrap()
}

/// Real-time response under load with a plain queue and with a fair one.
fn rrul() -> RunResult {
    let set = [("duration", "\"12 s\""), ("warm_up", "\"2 s\"")];
    run("rrul/rrul.toml", &["fifo", "fq_codel"], &set)
}

/// A new empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&folder));
    folder
}

fn write(result: RunResult, folder: &Path) -> String {
    report::write(&[Ran::from(result)], folder).unwrap();
    fs::read_to_string(folder.join("report.html")).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn goodput_is_never_above_the_rate_of_the_link() {
    // A full frame has at most 1460 B of payload in 1538 B on the wire: 18.99 of 20 Mbit/s. A step of half a second
    // may have one frame more, which is 0.02.
    let most = 20.0 * 1460.0 / 1538.0 + 0.03;
    for point in &rrul().points {
        for run in &point.runs {
            for traffic in ["up", "down"] {
                let name = format!("goodput_mbps.{traffic}");
                let peak = run.series[&name].values.iter().copied().fold(0.0, f64::max);
                assert!(
                    peak <= most,
                    "{}: {traffic} at {peak} Mbit/s",
                    point.title()
                );
                assert!(run.metrics[&name] <= most);
            }
        }
    }
}

#[test]
fn the_page_of_a_line_under_load_begins_with_its_small_packets() {
    let folder = folder("report-rrul");
    let result = rrul();
    let text = report::text(&result);
    assert!(
        text.contains("Delay of ping") && !text.contains("TCP share"),
        "{text}"
    );
    let page = write(result, &folder);
    let headlines: Vec<&str> = page
        .split("<h2>")
        .skip(1)
        .map(|rest| rest.split("</h2>").next().unwrap())
        .collect();
    let first = headlines[0];
    assert!(
        first.starts_with("A small packet of ping takes "),
        "{headlines:?}"
    );
    for part in ["(median)", "(p99)", "under fq_codel", "under fifo"] {
        assert!(first.contains(part), "{first}");
    }
    assert!(
        headlines.contains(&"Shares of the link bottleneck.reverse"),
        "{headlines:?}"
    );
    assert!(
        !headlines.iter().any(|h| h.starts_with("A packet waits")),
        "{headlines:?}"
    );
    // Values that the variant sets are not repeated.
    assert!(!page.contains("kind fq_codel"));
    let plots = names(&folder.join("plots"));
    assert!(
        plots.contains(&"delay_ms.ping-distribution.svg".to_owned()),
        "{plots:?}"
    );
    for name in &plots {
        assert!(
            page.contains(&format!("href=\"plots/{name}\"")),
            "{name} is not linked"
        );
    }
}

#[test]
fn a_sweep_is_drawn_over_what_was_swept() {
    let folder = folder("report-sweep");
    let set = [
        ("duration", "\"2 s\""),
        ("warm_up", "\"500 ms\""),
        (
            "sweep",
            "{ \"link.bottleneck.rate\" = [\"20 Mbit\", \"50 Mbit\", \"100 Mbit\"] }",
        ),
    ];
    let page = write(run("lru-fq/demo.toml", &["fifo", "lru_fq"], &set), &folder);
    assert!(
        page.contains("for rate from 20 to 100\u{a0}Mbit/s"),
        "{page}"
    );
    assert!(page.contains("link.bottleneck.rate, Mbit/s"));
    // Pictures of single points name the points that they leave out.
    assert!(page.contains("2 of 6 points are shown"));
    let plots = names(&folder.join("plots"));
    let by = "tcp_goodput_mbps-by-link.bottleneck.rate.svg";
    assert!(plots.contains(&by.to_owned()), "{plots:?}");
    let drawing = fs::read_to_string(folder.join("plots").join(by)).unwrap();
    for tick in ["\n20\n", "\n50\n", "\n100\n"] {
        assert!(drawing.contains(tick), "{tick} is no tick of {drawing}");
    }
}

/// Flent 2.3 from PyPI, in a virtual environment that is kept for the next run; an error with the reason if it cannot
/// be installed. `WEIR_FLENT` names another Flent.
fn flent() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("WEIR_FLENT") {
        return Ok(path.into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flent-2.3.0");
    let flent = folder.join("bin/flent");
    let done = folder.join("done");
    if done.exists() {
        return Ok(flent);
    }
    let steps = [
        "python3 -m venv --clear DIR",
        "DIR/bin/pip install --quiet --timeout 10 --retries 1 --only-binary numpy,matplotlib flent==2.3.0 matplotlib",
    ];
    for step in steps {
        let step = step.replace("DIR", &folder.to_string_lossy());
        let mut command = Command::new("timeout");
        let output = command.arg("120").args(step.split(' ')).output();
        let output = output.map_err(|e| format!("{step}: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "{step}: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    fs::write(done, "").map_err(|e| e.to_string())?;
    Ok(flent)
}

/// Flent's output; it must have drawn a bitmap if one was requested.
fn ask(flent: &Path, file: &Path, arguments: &[&str], picture: Option<&Path>) -> String {
    let mut command = Command::new(flent);
    command
        .env("MPLBACKEND", "Agg")
        .arg("--input")
        .arg(file)
        .args(arguments);
    if let Some(picture) = picture {
        command.arg("--output").arg(picture);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    if let Some(picture) = picture {
        // For a result that Flent considers empty it draws nothing, but exits with success.
        let png = fs::read(picture).unwrap();
        assert!(
            png.starts_with(b"\x89PNG") && png.len() > 10_000,
            "{} B: {said}",
            png.len()
        );
    }
    said
}

#[test]
fn flent_opens_and_plots_what_is_written_for_it() {
    let flent = match flent() {
        Ok(flent) => flent,
        Err(why) => {
            println!("skipped: Flent cannot be had: {why}");
            return;
        }
    };
    let files = folder("report-flent");
    write(rrul(), &files);
    let file = files.join("flent/fq_codel.flent.gz");
    let said = ask(&flent, &file, &["--format", "summary"], None);
    assert!(said.contains("Summary of rrul test run"), "{said}");
    for series in [
        "Ping (ms) UDP BE",
        "TCP upload sum",
        "TCP download avg",
        "TCP totals",
    ] {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(series));
        assert!(
            line.is_some_and(|line| !line.contains("N/A")),
            "{series}: {said}"
        );
    }
    for plot in ["all_scaled", "ping_cdf"] {
        let picture = files.join(format!("{plot}.png"));
        ask(&flent, &file, &["--plot", plot], Some(&picture));
    }
    let files = folder("report-flent-download");
    let set = [("duration", "\"5 s\""), ("warm_up", "\"1 s\"")];
    write(run("lru-fq/demo.toml", &["lru_fq"], &set), &files);
    let file = files.join("flent/lru_fq.flent.gz");
    ask(
        &flent,
        &file,
        &["--plot", "download"],
        Some(&files.join("download.png")),
    );
}
