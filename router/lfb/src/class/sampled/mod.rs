//! The present and recent past of a router: samples that the forwarding thread collects once a second, for all readers.
//!
//! ```text
//!   forwarding thread --Sample::collect, once a second--> Sampled::take --> history, in memory of fixed size
//!                                                            |
//!     `weir show waiting`, `weir show history`, /v1/live, the page: any number of readers, which query no thread
//!     `weir observe`: sources that start being backlogged
//! ```
//!
//! - [`sample`]: the counters and the queues at one moment
//! - [`records`]: past samples, in one ring for each port
//! - [`talkers`]: rates of senders, now and over minutes
//! - [`waiting`], [`history`], [`drop_history`]: tables made from these
//! - [`held_back`]: changes between samples, as events

use std::collections::BTreeMap;

use weir_model::Value;
use weir_path::plane::observe::Want;

pub(super) mod drop_history;
pub mod held_back;
pub(super) mod history;
mod records;
mod sample;
pub(super) mod talkers;
pub(super) mod waiting;

use self::held_back::{Follower, HeldBack};
use self::records::Records;
pub use self::sample::Sample;
use self::talkers::Talkers;
use super::{Block, Source};

/// The latest sample, and the records of earlier samples.
#[derive(Debug, Default)]
pub struct Sampled {
    latest: Option<Sample>,
    records: Records,
    talkers: Talkers,
    held_back: held_back::Past,
    /// Tables that other threads make.
    others: BTreeMap<&'static str, Value>,
}

impl Sampled {
    /// Takes a new sample, and the tables that belong to it, by the names of their classes.
    pub fn take(&mut self, sample: Sample, others: BTreeMap<&'static str, Value>) {
        self.records.take(&sample);
        self.talkers.take(&sample);
        self.held_back.take(&sample);
        self.latest = Some(sample);
        self.others = others;
    }

    /// Whether samples contain a table: tables with metrics, whose rows are few, and tables that are made from samples.
    pub fn has(block: &Block) -> bool {
        match block.source {
            Source::Sampled(_) => true,
            Source::Plane(_)
            | Source::Redirect(_)
            | Source::Ports(_)
            | Source::Rates(_)
            | Source::CeRoutes(_)
            | Source::Status(_) => block.class.metric.is_some(),
            Source::Flows(..) | Source::Tables(_) | Source::Kernel(_) | Source::Netfilter(_) => {
                false
            }
        }
    }

    /// A table of the latest sample; `None` if samples do not contain it, or no sample exists yet.
    pub fn table(&self, block: &Block) -> Option<&Value> {
        let name = block.class.name;
        let sample = self.latest.as_ref()?;
        sample.tables.get(name).or_else(|| self.others.get(name))
    }

    /// The `last` matching events of backlogged sources, and a reader of future events.
    pub fn follow_held_back(&self, want: &Want, last: usize) -> (Vec<HeldBack>, Follower) {
        let follower = self.held_back.follower(want, self.latest.as_ref());
        (self.held_back.last(last, want), follower)
    }

    /// Events since the last call, and the number of events lost before these. Call this after each sample.
    pub fn held_back(&self, follower: &mut Follower) -> (Vec<HeldBack>, u64) {
        self.held_back.follow(follower, self.latest.as_ref())
    }
}
