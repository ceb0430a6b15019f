//! Paths, LIDs and headers on a graph of domains, from a file or generated.

use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;

use weir_experiment::Error;
use weir_experiment::RunOptions;
use weir_experiment::progress::Progress;
use weir_experiment::results::Metrics;

use crate::scale::{self, generate, graph::Graph};

/// The graphs of a study.
pub(super) enum Graphs {
    File(Graph),
    /// Seeds from 1 to this.
    Generated(u64),
}

impl Graphs {
    pub(super) fn new(
        file: Option<&Path>,
        runs: u64,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let Some(path) = file else {
            notes.push(format!(
                "The graph of domains is generated, with the degrees of Table II: {} domains, {runs} seeds. Its paths \
                 are shorter than the Internet's. `--graph FILE` uses AS relationships instead.",
                generate::DOMAINS
            ));
            return Ok(Self::Generated(runs));
        };
        let graph = Graph::read(path);
        let graph = graph.map_err(Error::io(format!("cannot read {}", path.display())))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        notes.push(format!(
            "The graph of domains is {}: {} domains, {} links.",
            name.display(),
            graph.domains(),
            graph.links()
        ));
        Ok(Self::File(graph))
    }

    pub(super) fn study(&self, options: &RunOptions) -> Result<Vec<Metrics>, Error> {
        let progress = Mutex::new(Progress::new(options.progress));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = options.jobs.unwrap_or(processors);
        let one = |which: String, graph: &Graph| {
            let show = |done: usize| {
                let text = format!("{which}: {done} of {} domains", graph.domains());
                if let Ok(mut progress) = progress.lock() {
                    progress.update(&text);
                }
            };
            let found = scale::study(graph, jobs, &options.interrupt, &show);
            found.ok_or(Error::Interrupted)
        };
        match self {
            Self::File(graph) => Ok(vec![one("graph".to_owned(), graph)?]),
            Self::Generated(runs) => (1..=*runs)
                .map(|seed| one(format!("graph {seed} of {runs}"), &generate::internet(seed)))
                .collect(),
        }
    }
}
