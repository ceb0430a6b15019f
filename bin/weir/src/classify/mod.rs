//! `weir classify`: identifies the protocol of each flow of a capture.

#[cfg(feature = "ndpi")]
mod ndpi;
mod report;
mod source;

use std::path::{Path, PathBuf};

use weir_classifier::evaluation::{Comparison, Scores, labels};
use weir_classifier::{Offline, Settings};
use weir_live::file::{read_text, with_suffix};

use crate::Failure;
use crate::output::{note, print, print_json};
use report::{Capture, Report};

/// File extensions of captures in a folder.
const ENDINGS: [&str; 3] = ["pcap", "pcapng", "cap"];

/// Maximum length of a file of labels, in bytes.
const LABELS_MAX: u64 = 256 << 20;

/// Arguments of `weir classify`.
#[derive(Debug, clap::Args)]
pub struct ClassifyArguments {
    /// Captures, and folders with them (*.pcap, *.pcapng, *.cap); `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Maximum number of flows at the same time; another flow replaces the oldest
    #[arg(long, default_value_t = Settings::default().flows as u32, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    table: u32,
    /// Compare with the labels of nDPI in FILE.out (ndpiReader -v 2), and print precision and recall
    ///
    /// Captures without such a file are skipped. Only flows that differ are listed.
    #[arg(long)]
    labels: bool,
    /// Compare with the labels of the library nDPI, and print precision and recall
    #[cfg(feature = "ndpi")]
    #[arg(long, conflicts_with = "labels")]
    ndpi: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClassifyArguments {
    /// Whether verdicts are compared with labels.
    fn compares(&self) -> bool {
        #[cfg(feature = "ndpi")]
        if self.ndpi {
            return true;
        }
        self.labels
    }

    /// The labels to compare the verdicts on a capture with, if any.
    fn comparison(&self, file: &Path) -> Result<Option<Comparison>, Failure> {
        #[cfg(feature = "ndpi")]
        if self.ndpi {
            return ndpi::labels(file).map(|labels| Some(Comparison::new(labels)));
        }
        labels_of(file)
    }
}

/// Classifies the captures, and prints the results. A capture that cannot be read to its end makes the
/// command fail; the results up to the error are printed.
pub fn run(arguments: &ClassifyArguments) -> Result<(), Failure> {
    let settings = Settings {
        flows: arguments.table as usize,
        ..Settings::default()
    };
    let mut report = Report::default();
    let mut failed = 0;
    for file in captures(&arguments.files)? {
        let comparison = if arguments.compares() {
            match arguments.comparison(&file)? {
                Some(comparison) => Some(comparison),
                None => continue,
            }
        } else {
            None
        };
        let (mut capture, fault) = classify(&file, settings, comparison, &mut report.scores);
        if let Some(why) = fault {
            failed += 1;
            note(&format!("weir: {}: {why}", file.display()));
        }
        if !arguments.json {
            // With labels, captures without a difference are only counted.
            if !capture.agrees() {
                print(&capture.text())?;
            }
            capture.forget_flows();
        }
        report.captures.push(capture);
    }
    if report.captures.is_empty() {
        return Err(Failure::Usage(if arguments.labels {
            "no capture has a file with nDPI's labels next to it, such as a.pcap.out for a.pcap"
                .to_owned()
        } else {
            format!(
                "no captures in the folder; their file extensions are {}",
                ENDINGS.join(", ")
            )
        }));
    }
    if arguments.json {
        print_json(&report.json())?
    } else {
        print(&report.text())?
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::Run(
            "1 capture could not be read completely".to_owned(),
        )),
        n => Err(Failure::Run(format!(
            "{n} captures could not be read completely"
        ))),
    }
}

/// The given files, and the captures of the given folders ordered by name.
fn captures(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |e: std::io::Error| Failure::Usage(format!("{}: {e}", path.display()));
        let mut inside = Vec::new();
        for entry in path.read_dir().map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let ending = file.extension().and_then(|e| e.to_str());
            if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                inside.push(file);
            }
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// nDPI's labels for a capture, if the file with the labels exists.
fn labels_of(file: &Path) -> Result<Option<Comparison>, Failure> {
    let path = with_suffix(file, ".out");
    if !path.exists() {
        return Ok(None);
    }
    let text = read_text(&path, LABELS_MAX);
    let text = text.map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))?;
    Ok(Some(Comparison::new(labels(&text))))
}

/// Classifies a capture. Also returns the reason if it could not be read to its end.
fn classify(
    file: &Path,
    settings: Settings,
    mut comparison: Option<Comparison>,
    scores: &mut Scores,
) -> (Capture, Option<String>) {
    let mut capture = Capture::new(file);
    // A constant key: captures do not attack the hash table, and equal captures must give equal reports.
    let mut offline = Offline::new(settings, (0, 0));
    let take =
        |capture: &mut Capture, offline: &mut Offline, comparison: &mut Option<Comparison>| {
            while let Some(flow) = offline.take_ended() {
                if let Some(comparison) = comparison {
                    comparison.take(&flow);
                }
                capture.take(flow);
            }
        };
    let read = source::read(file, |frame| {
        capture.packets += 1;
        offline.take(frame.at, frame.link_type, frame.bytes);
        take(&mut capture, &mut offline, &mut comparison);
    });
    capture.unread = offline.finish();
    take(&mut capture, &mut offline, &mut comparison);
    capture.differences = comparison.map(|c| c.finish(scores));
    (capture, read.err())
}
