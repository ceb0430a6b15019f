//! `weir traffic web serve|fetch`: web files of any size, and clients that fetch them one after
//! another, each over a connection of its own.
//!
//! ```text
//!   fetch                              serve
//!     SYN ───────────────▶                        ┐ connection time
//!     ◀─────────── SYN+ACK                        ┘            │ response time
//!     GET /bytes/5000 ───▶                                     │ (includes the connection)
//!     ◀─── 5000 bytes, FIN                                     ┘
//! ```
//!
//! The server answers `GET /bytes/N` with N bytes and closes; any web server with files of these
//! names under `/bytes/` can stand in for it, and any web client can fetch from it.

pub mod fetch;
pub mod serve;

use serde::{Deserialize, Serialize};

/// The two ends.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// Answer `GET /bytes/N` with N bytes.
    Serve(serve::Options),
    /// Fetch files in a closed loop.
    Fetch(fetch::Options),
}

/// One fetch, as its client saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetch {
    /// Which client.
    pub client: u32,
    /// Size of the file.
    pub bytes: u64,
    /// When it began, in seconds of the run.
    pub start_s: f64,
    /// Time to the connection; none if there never was one.
    pub connect_s: Option<f64>,
    /// Time to the end of the file, connection included; the age so far if it is unfinished.
    pub response_s: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole file came.
    Finished,
    /// The run ended first.
    Unfinished,
    /// Nobody listens there.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was given up by the kernel.
    TimedOut,
    /// The answer was not the file that was asked for.
    Wrong,
}
