//! The load test of the transports (TML): the load that a CE can carry, with its loss, delay and processor time.
//!
//! ```text
//!   weir traffic load fetml       weir traffic load cetml (one process, or one for each FE)
//!   FE 1 .. FE n  --- events ---> transport, answer
//!                 <-- answers ---
//! ```
//!
//! - [`plan`]: the measurements and their points
//! - [`run`](mod@run): starts the processes of a point, and computes its metrics
//! - [`cetml`], [`fetml`]: the two sides, `weir traffic load cetml` and `weir traffic load fetml`
//! - [`ce`], [`fe`]: both sides with associations and heartbeats, over all transports; [`sessions`]: their common parts
//! - [`associations`]: tests with these: a flood, and many FEs on one CE (`weir bench forces`)
//! - [`message`]: the messages
//! - [`lines`], [`part`]: the processes, and the protocol between them
//! - [`tally`]: the counts of a test
//!
//! The interface: [`plan::Load`] and [`run::Runner`] for the points of a paper, [`associations::bench`], and [`run()`] for
//! `weir traffic load`.
//!
//! Messages, framing, queues and sockets are those of a real CE and real FEs. CETML and FETML omit the sessions, and
//! the CE's work for a message is a fixed processor time.

pub mod associations;
pub mod ce;
pub mod cetml;
mod error;
pub mod fe;
pub mod fetml;
mod lines;
mod message;
mod part;
pub mod plan;
pub mod run;
pub mod sessions;
mod tally;

use std::io;

pub use error::Error;

/// The two sides of a load test.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// The CE's side: answer the events of FEs.
    Cetml(cetml::Options),
    /// The FEs' side: send events to a CETML, and count the answers.
    Fetml(fetml::Options),
    /// A CE with real associations.
    Ce(ce::Options),
    /// FEs with real associations.
    Fe(Box<fe::Options>),
}

/// Runs one side to its end.
pub fn run(command: &Command) -> io::Result<()> {
    match command {
        Command::Cetml(options) => cetml::run(options),
        Command::Fetml(options) => fetml::run(options),
        Command::Ce(options) => ce::run(options),
        Command::Fe(options) => fe::run(options),
    }
}
