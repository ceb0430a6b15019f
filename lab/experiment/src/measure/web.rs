//! Fetches of web clients.

use weir_base::statistics::mean;

use super::goodput::Reports;
use super::{WORDS, statistics};
use crate::reported::{Fetch, Outcome};
use crate::scenario::Kind;

/// The fetches that ended in the window, and the unfinished fetches.
#[derive(Debug)]
pub(crate) struct Fetches<'a> {
    counted: Vec<&'a Fetch>,
    /// Length of the window.
    seconds: f64,
}

crate::metrics! {
    RUN on both;
    /// Adds numbers and times.
    pub(super) fn add_metrics(all: &Fetches<'_>) {
        /// fetches of web clients that finished in the window
        "web_fetches" = all.finished().len();
        /// the same per second
        "web_fetches_per_s" = all.finished().len() as f64 / all.seconds;
        /// fetches still unfinished at the end of the run
        "web_unfinished" = all.ended().len() - all.finished().len();
        /// fetches that ended in the window with a reset, a timeout or an error
        "web_failures" = all.counted.len() - all.ended().len();
        /// from the start of a fetch to its last byte; covers fetches that finished in the window, and unfinished
        /// fetches with their age; excludes failed fetches
        "web_response_s_STATISTIC" = statistics(WORDS, all.ended());
        /// the same mean over finished fetches only
        "web_response_finished_s_mean" = mean(&all.finished());
        /// from the start of a fetch to the established connection; a connection not established at the end counts with
        /// its age
        "web_connect_s_STATISTIC" = statistics(WORDS, all.connects());
    }
}

impl<'a> Fetches<'a> {
    /// `None` if the scenario has no web traffic.
    pub(super) fn of(reports: Reports<'a>) -> Option<Self> {
        let (from, _) = reports.scenario.window();
        reports.of_kind(Kind::Web).next()?;
        let fetches = reports.of_kind(Kind::Web).flat_map(|r| &r.fetches);
        Some(Self {
            counted: fetches.filter(|f| f.is_counted(from)).collect(),
            seconds: reports.seconds(),
        })
    }

    /// The response times of finished fetches.
    fn finished(&self) -> Vec<f64> {
        self.responses(&[Outcome::Finished])
    }

    /// The response times of fetches that did not fail.
    pub(super) fn ended(&self) -> Vec<f64> {
        self.responses(&[Outcome::Finished, Outcome::Unfinished])
    }

    /// The times to the connection.
    fn connects(&self) -> Vec<f64> {
        let connects = self.counted.iter().filter_map(|f| match f.outcome {
            Outcome::Unfinished => f.connect_s.or(Some(f.response_s)),
            _ => f.connect_s,
        });
        connects.collect()
    }

    fn responses(&self, wanted: &[Outcome]) -> Vec<f64> {
        let wanted = self.counted.iter().filter(|f| wanted.contains(&f.outcome));
        wanted.map(|f| f.response_s).collect()
    }
}
