//! Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks".
//!
//! - [`paths`]: Figure 1
//! - [`speed`]: Figures 4, 6 and 7
//! - [`internet`]: Figure 8 and Table II
//! - [`mod@header`]: sizes of headers
//! - [`mod@text`]: claims without a figure

mod header;
mod internet;
mod paths;
mod speed;
mod text;

use header::header;
use internet::{fig8, table2};
use paths::fig1;
use speed::{fig4, fig6, fig7};
use text::text;
use weir_experiment::reproduce::measured::Measured;
use weir_experiment::reproduce::query::Point;
use weir_experiment::reproduce::recipe::{Paper, results};

use crate::measures::Measures;

pub(crate) fn paper() -> Paper {
    Paper {
        name: "fpf",
        source: "Beben et al., \"A Scalable and Flexible Packet Forwarding Method for Future \
                 Internet Networks\", 2015",
        columns: &[],
        lab: ["9 s", "0 s"], // traffic ends after 8 s, and all of it counts
        loads: &[],
        benches: &[
            ("fpf/internet", &Measures::Internet),
            ("fpf/conformance", &Measures::Conformance),
            ("fpf/core", &Measures::Core),
            ("fpf/flows", &Measures::Flows),
            ("fpf/look-up", &Measures::LookUp),
            ("fpf/edge", &Measures::Edge),
            ("fpf/implicit", &Measures::Implicit),
            ("fpf/encapsulation", &Measures::Encapsulation),
            ("fpf/wire", &Measures::Wire),
            ("fpf/wire-edge", &Measures::WireEdge),
            ("fpf/wire-loops", &Measures::WireLoops),
            ("fpf/media", &Measures::Media),
            ("fpf/classifier", &Measures::Classifier),
            ("fpf/headers", &Measures::Headers),
            ("fpf/table", &Measures::Table),
        ],
        results: results!["fpf": fig1 fig4 fig6 fig7 fig8 table2 header text],
    }
}

/// Measurements in memory.
const IN_MEMORY: &str = "In memory, one core: a plane from received frame to sent frame, no device. \
    Throughput is RFC 2544's, the highest rate without loss, in steps of 1 Mbit/s, 100,000 frames per trial, each \
    run with tables and frames of its own; time is processor time. At least 16,384 frames \
    and 4 MiB of them take turns.";
/// Measurements through interfaces.
const INTERFACES: &str = "Through interfaces: a router in a network namespace between two others; packet \
    sockets and virtual Ethernet. Throughput is RFC 2544's again, in steps of 1 % of the rate of a 1 \
    Gbit/s link, which is the highest rate offered; trials of 2 s. Kinds of frames take turns at each \
    length. Source, router and kernel share the processors of this machine.";

/// Frame sizes in bytes, check sequence included.
const FRAME_BYTES: [u32; 9] = [78, 96, 128, 196, 256, 384, 512, 1024, 1518];
const ROUTES: &str = "IPv6, 10000 routes";
const FPS: &str = "fps";
const OF_LINK: &str = "link_share_ratio";
const OF_LINK_OFFERED: &str = "offered_share_ratio";

/// A variant of a scenario or of a measurement.
fn at<'a>(m: &'a Measured, name: &str, variant: &str) -> Point<'a> {
    m.at(format!("fpf/{name}"), variant)
}

/// An engine in memory, by the length of a frame.
fn core<'a>(m: &'a Measured, engine: &str, bytes: u32) -> Point<'a> {
    at(m, "core", engine).and("bytes", bytes)
}

/// An edge by the number of its flows and the length of a frame.
fn edge<'a>(m: &'a Measured, name: &str, flows: u32, bytes: u32) -> Point<'a> {
    at(m, name, "edge").and("flows", flows).and("bytes", bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_experiment::RunOptions;
    use weir_experiment::reproduce::{Options, faults, papers, run, select};

    /// The paper, as a program adds it.
    fn added() -> &'static weir_experiment::reproduce::recipe::Paper {
        weir_experiment::extend(crate::FPF);
        papers().iter().find(|paper| paper.name == "fpf").unwrap()
    }

    #[test]
    fn the_paper_has_no_faults() {
        assert_eq!(faults(added()), Vec::<String>::new());
    }

    #[test]
    fn every_name_of_fpf_exists() {
        added();
        let graph = std::env::temp_dir().join(format!("weir-graph-{}.txt", std::process::id()));
        fs::write(&graph, "1|2|-1\n2|3|0\n3|4|-1\n").unwrap();
        let options = Options {
            run: RunOptions {
                runs: Some(2),
                ..RunOptions::default()
            },
            quick: true,
            load: true,
            graph: Some(graph.clone()),
            overrides: Vec::new(),
        };
        let reproduction = run(&select(&["fpf".to_owned()]).unwrap(), &options).unwrap();
        fs::remove_file(graph).unwrap();
        let missing: Vec<_> = reproduction.mistakes().collect();
        assert_eq!(missing, []);
        let note = &reproduction.notes[0];
        assert!(note.ends_with("4 domains, 3 links."), "{note}");
        // Paths of 2, 3 and 4 domains: 3, 2 and 1 in each direction.
        let fig8 = reproduction.results.iter().find(|r| r.id == "fpf/fig8");
        let ours: Vec<_> = fig8.unwrap().rows.iter().map(|row| row.ours).collect();
        assert_eq!(ours, [Some(4.0), Some(16.0 / 6.0), Some(4.0)]);
    }
}
