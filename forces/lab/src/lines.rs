//! The protocol between a load test and its processes: JSON lines on standard input and output.
//!
//! ```text
//!   test                     CETML                    FETML
//!    |  <----- listening ------ |                       |
//!    |  <----------------------------- connected ------ |
//!    |  ------- (a line) -----> |                       |
//!    |  <-------- busy -------- |                       |      processor time so far
//!    |  ------------------------------ (a line) ------> |      events begin
//!    |  <----------------------------- delivered ------ |
//!    |  ------- (a line) -----> |                       |
//!    |  <-------- busy -------- |                       |
//! ```
//!
//! Each process ends when its standard input does.

use std::io::{self, BufRead, Write};
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weir_live::thread_times::ThreadTimes;

use crate::ce::CeAddress;
use crate::ce::session::CeReport;
use crate::tally::FeReport;

/// A line on standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// A CE listens.
    Listening(CeAddress),
    /// All FEs have a link.
    Connected,
    /// Processor time of a CETML, and the messages that it has received so far.
    Busy {
        /// Processor time by thread.
        threads: Vec<ThreadTimes>,
        /// Number of events received.
        events: u64,
        /// Number of redirected packets received, and their bytes.
        redirected: [u64; 2],
    },
    /// The FEs' counts.
    Delivered(FeReport),
    /// The counts of a CE with sessions so far.
    Sessions(CeReport),
    /// The counts of FEs with sessions.
    Sent {
        /// Number of events.
        events: u64,
        /// Number of redirected packets.
        packets: u64,
    },
}

impl Line {
    /// The address of a CE that listens.
    pub(crate) fn listening(self) -> Option<CeAddress> {
        match self {
            Self::Listening(address) => Some(address),
            _ => None,
        }
    }

    /// Whether all FEs have a link.
    pub(crate) fn connected(self) -> Option<()> {
        (self == Self::Connected).then_some(())
    }
}

/// Writes a line.
pub(crate) fn say(line: &Line) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Receives a message for each line of standard input; the channel closes at the end of standard input. A thread waits
/// for the lines, because reading standard input blocks.
pub(crate) fn requests() -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
    let thread = thread::Builder::new().name("requests".to_owned());
    let started = thread.spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for _ in lines {
            if sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    started.map(|_| receiver)
}
