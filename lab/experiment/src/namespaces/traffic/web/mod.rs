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
//! names under `/bytes/` can replace it, and any web client can fetch from it.

pub mod fetch;
pub mod serve;

/// The two ends.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// Answer `GET /bytes/N` with N bytes.
    Serve(serve::Options),
    /// Fetch files in a closed loop.
    Fetch(fetch::Options),
}
