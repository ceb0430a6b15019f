//! Control and forwarding elements for the lab: the queues of a simulated link, and load tests of the transports (TML),
//! which find the load that a CE can carry, with its loss, delay and processor time.
//!
//! ```text
//!   fe: FE 1 .. FE n  --- events ---> ce: one process, or one for each FE
//!                     <-- answers ---
//! ```
//!
//! - `queue`: the queue of a transport in simulation
//! - `run`: starts the processes of a point, and computes its metrics
//! - [`associations`]: tests with associations: a flood, and many FEs on one CE (`weir bench forces`)
//! - [`network`]: a network of a CE and three FEs: routing daemons under floods, full tables
//! - [`ce`], [`fe`]: the two sides, `weir traffic load`. Each runs only the transport (`tml`: CETML and FETML), or a
//!   session with associations and heartbeats (`session`)
//! - [`channel`]: address, transport and certificates of both sides
//! - [`message`]: the messages
//! - [`lines`], [`part`]: the processes, and the protocol between them
//! - [`tally`]: the counts of a test
//!
//! The interface: [`ForCes`] for scenarios and papers, [`associations::bench`], the runs of [`network`], and [`run()`] for
//! `weir traffic load`.
//!
//! Messages, framing, queues and sockets are those of a real CE and real FEs. CETML and FETML omit the sessions, and
//! the CE's work for a message is a fixed processor time.

pub mod associations;
pub mod ce;
pub mod channel;
pub mod fe;
mod lines;
mod message;
pub mod network;
mod part;
mod queue;
mod run;
mod tally;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_experiment::scenario::Wire;
use weir_experiment::transports::{LoadTests, Queue, Transports};

/// File descriptors in addition to those of the links.
const FILES: u64 = 64;

/// The transports of ForCES.
#[derive(Debug)]
pub struct ForCes;

impl Transports for ForCes {
    fn queue(&self, wire: &Wire, seed: u64) -> Box<dyn Queue> {
        Box::new(queue::Simulated::new(wire, seed))
    }

    fn load_tests(&self, executable: PathBuf, interrupt: Arc<AtomicBool>) -> Box<dyn LoadTests> {
        Box::new(run::Runner::new(executable, interrupt))
    }
}

/// The two sides of a load test.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// The CE's side: answer the events of FEs.
    Cetml(ce::tml::Options),
    /// The FEs' side: send events to a CETML, and count the answers.
    Fetml(fe::tml::Options),
    /// A CE with real associations.
    Ce(ce::session::Options),
    /// FEs with real associations.
    Fe(Box<fe::session::Options>),
}

/// Runs one side to its end.
pub fn run(command: &Command) -> io::Result<()> {
    match command {
        Command::Cetml(options) => ce::tml::run(options),
        Command::Fetml(options) => fe::tml::run(options),
        Command::Ce(options) => ce::session::run(options),
        Command::Fe(options) => fe::session::run(options),
    }
}
