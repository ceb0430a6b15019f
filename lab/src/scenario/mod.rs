//! Scenarios: one TOML file describes a network, its queues, its traffic and what to compare.
//! The same file serves the simulator and the lab.
//!
//! ```text
//!  text ──raw::parse──▶ Node ──set──▶ Node ──checked──▶ Scenario     (one for each point)
//!                         ▲
//!        --set PATH=VALUE, a variant's `set`, a value of the sweep
//! ```
//!
//! ```toml
//! title = "Two hosts and a router"
//! duration = "60 s"                  # of each run
//! warm_up = "10 s"                   # left out of every mean
//! seed = 1
//!
//! [router.r]
//! [host.tcp]
//! count = 20                         # tcp1 .. tcp20, each with a link of its own
//! [host.server]
//!
//! [link.access]
//! ends = ["tcp", "r"]
//! rate = "100 Mbit"                  # both ways
//! [link.bottleneck]
//! ends = ["r", "server"]
//! rate = "100 Mbit"
//! discipline = { kind = "fifo", limit = "100 packets" }   # the first end's; else 1000 packets
//!
//! [traffic.long]
//! kind = "tcp"                       # greedy, unless `rate` or `total_rate` is given
//! from = "tcp"
//! to = "server"
//!
//! [[variant]]                        # every variant is run at every point of the sweep
//! name = "big"
//! set = { "link.bottleneck.discipline.limit" = "1000 packets" }
//!
//! [sweep]
//! "traffic.long.flows" = [1, 2, 4]
//! ```
//!
//! Rates of links count what a packet costs on the wire (24 bytes beyond the layer-2 length, frame
//! check sequence, preamble and gap included); rates of traffic count payload.

pub mod checked;
pub mod mix;
pub mod offered;
pub mod parameters;
pub mod plan;
pub mod raw;
mod reader;

pub use checked::{Congestion, Discipline, HostGroup, Kind, Link, Scenario, Traffic, TrafficKind};
pub use mix::Mix;
pub use offered::Offered;
pub use plan::{Override, Plan, Point, load};
pub use raw::Origin;

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{origin}: {why}", file.as_ref().map(|f| format!("{f}, ")).unwrap_or_default())]
pub struct ScenarioError {
    /// The file, once it is known.
    pub file: Option<String>,
    /// Where in the file, or which override.
    pub origin: Origin,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl ScenarioError {
    /// An error at `origin`.
    pub fn new(origin: Origin, why: String) -> Self {
        Self {
            file: None,
            origin,
            why,
        }
    }

    /// The same error, in the file of this name.
    pub fn in_file(self, file: &str) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..self
        }
    }
}
