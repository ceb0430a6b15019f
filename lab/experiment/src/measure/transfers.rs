//! TCP transfers of a given size.

use weir_base::statistics::mean;

use super::goodput::Reports;
use super::{WORDS, statistics};
use crate::metrics::Measured;
use crate::reported::Transfer;
use crate::scenario::Kind;

/// The transfers that ended in the window, and the unfinished transfers.
#[derive(Debug)]
pub(crate) struct Transfers<'a> {
    finished: Vec<&'a Transfer>,
    unfinished: Vec<&'a Transfer>,
    /// Length of the window.
    seconds: f64,
}

crate::metrics! {
    RUN on both;
    /// Adds numbers and times.
    fn add_all(all: &Transfers<'_>) {
        /// sized TCP transfers that ended in the window
        "transfers" = all.finished.len();
        /// the same per second
        "transfers_per_s" = all.finished.len() as f64 / all.seconds;
        /// transfers still unfinished at the end of the run
        "transfers_unfinished" = all.unfinished.len();
        /// from the start of a transfer to its last byte; covers transfers that ended in the window, and unfinished
        /// transfers with their age at the end, because a mean over finished transfers only would be biased
        "transfer_s_STATISTIC" = statistics(WORDS, all.times());
        /// the same mean over finished transfers only
        "transfer_finished_s_mean" = mean(&all.finished.iter().map(|t| t.time_s).collect::<Vec<_>>());
    }
}

crate::metrics! {
    SIZE on both;
    /// Adds the times of transfers of one size.
    fn add_size(times: Vec<f64>) {
        /// transfer_s by transfer size: all, to_10kB, to_100kB (above 10 kB), to_1MB, above_1MB
        "completion_s_STATISTIC.SIZE" = statistics(&["mean", "p50", "p99"], times);
    }
}

/// Size classes of transfers in bytes: above the first number, up to the second.
const SIZES: [(&str, u64, u64); 5] = [
    ("all", 0, u64::MAX),
    ("to_10kB", 0, 10_000),
    ("to_100kB", 10_000, 100_000),
    ("to_1MB", 100_000, 1_000_000),
    ("above_1MB", 1_000_000, u64::MAX),
];

impl<'a> Transfers<'a> {
    /// `None` if the run had no transfers.
    pub(super) fn of(reports: Reports<'a>) -> Option<Self> {
        let (from, _) = reports.scenario.window();
        let all = || reports.of_kind(Kind::Tcp).flat_map(|r| &r.transfers);
        all().next()?;
        let counted = all().filter(|t| t.is_counted(from));
        let (finished, unfinished) = counted.partition(|t| t.finished);
        Some(Self {
            finished,
            unfinished,
            seconds: reports.seconds(),
        })
    }

    /// The times of all counted transfers.
    pub(super) fn times(&self) -> Vec<f64> {
        self.all().map(|t| t.time_s).collect()
    }

    fn all(&self) -> impl Iterator<Item = &&'a Transfer> {
        self.finished.iter().chain(&self.unfinished)
    }

    pub(super) fn add_metrics(&self, measured: &mut Measured) {
        add_all(self, &[], measured);
        for (name, least, most) in SIZES {
            let of_size = self.all().filter(|t| least < t.bytes && t.bytes <= most);
            let times = of_size.map(|t| t.time_s).collect();
            add_size(times, &[name], measured);
        }
    }
}
