//! The classifier on captures that nDPI has labelled, which are not in the repository: precision and recall by class.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::fs;
use std::path::{Path, PathBuf};

use weir_capture::{Reader, Step};
use weir_classifier::evaluation::{Comparison, Scores, labels};
use weir_classifier::{Ended, Kind, Offline, Settings};

/// Captures with a file of labels next to them.
fn labelled() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ndpi");
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let out = entry.unwrap().path();
            let name = out.to_str()?.strip_suffix(".out")?;
            let text = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
            Some((PathBuf::from(name), text))
        })
        .collect();
    files.sort();
    if files.is_empty() {
        eprintln!("skipped: there are no labels in {}", folder.display());
    }
    files
}

/// The flows of a capture.
fn flows(file: &[u8], settings: Settings) -> Vec<Ended> {
    let (mut reader, mut offline) = (Reader::new(), Offline::new(settings, (1, 2)));
    let mut rest = file;
    loop {
        match reader.step(rest).unwrap() {
            Step::Frame(bytes, frame) => {
                offline.take(frame.at, frame.link_type, frame.bytes);
                rest = &rest[bytes..];
            }
            Step::Passed(bytes) => rest = rest.get(bytes as usize..).unwrap_or_default(),
            Step::Wanted(_) => break,
        }
    }
    reader.end(rest).unwrap();
    offline.finish();
    std::iter::from_fn(|| offline.take_ended()).collect()
}

#[test]
fn precision_and_recall_are_above_95_percent() {
    let mut scores = Scores::default();
    let captures = labelled();
    for (capture, text) in &captures {
        let mut comparison = Comparison::new(labels(text));
        let flows = flows(&fs::read(capture).unwrap(), Settings::default());
        flows.iter().for_each(|flow| comparison.take(flow));
        let (differences, _) = comparison.finish(&mut scores);
        for difference in differences {
            println!("{}: {difference:?}", capture.display());
        }
    }
    println!("{:8} {:>9} {:>9}", "class", "precision", "recall");
    for (kind, score) in scores.iter() {
        let shown = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{s:.3}"));
        let (precision, recall) = (shown(score.precision()), shown(score.recall()));
        println!("{kind:<8} {precision:>9} {recall:>9}");
    }
    for kind in [Kind::Rtp, Kind::Tls, Kind::Quic, Kind::Dns] {
        let score = scores.of(kind);
        let shares = [score.precision(), score.recall()];
        let is_good = |share: Option<f64>| share.is_some_and(|share| share > 0.95);
        assert!(
            captures.is_empty() || shares.into_iter().all(is_good),
            "{kind}: {score:?}"
        );
    }
}

/// Flows that share a table of two entries leave it before they are decided; nothing else goes wrong.
#[test]
fn a_small_table_finds_less_and_never_another_class() {
    let small = Settings {
        flows: 2,
        assemblies: 1,
        ..Settings::default()
    };
    for (capture, text) in labelled() {
        let bytes = fs::read(&capture).unwrap();
        let mut scores = Scores::default();
        let mut comparison = Comparison::new(labels(&text));
        let flows = flows(&bytes, small);
        flows.iter().for_each(|flow| comparison.take(flow));
        comparison.finish(&mut scores);
        for kind in [Kind::Rtp, Kind::Tls, Kind::Quic, Kind::Dns] {
            assert_eq!(scores.of(kind).wrong, 0, "{}: {kind}", capture.display());
        }
    }
}
