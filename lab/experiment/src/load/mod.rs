//! The load test of the transports (TML): how much a CE carries, at which loss, delay and processor time.
//!
//! ```text
//!   weir traffic load fetml       weir traffic load cetml (one process, or one for each FE)
//!   FE 1 .. FE n  --- events ---> transport, answer
//!                 <-- answers ---
//! ```
//!
//! - [`plan`]: what is measured, as a paper's file describes it
//! - [`run`](mod@run): starts the processes of a point, and computes its metrics
//! - [`cetml`], [`fetml`]: the two sides, `weir traffic load cetml` and `weir traffic load fetml`
//! - [`ce`], [`fe`]: the same with associations and heartbeats, over every transport; [`sessions`]: what they share
//! - [`associations`]: tests with them: a flood, and many FEs on one CE (`weir bench forces`)
//! - [`message`]: the messages
//! - [`lines`], [`part`]: the processes, and what they say to each other
//! - [`tally`]: the counts of a test
//!
//! The messages, the framing, the queues and the sockets are those of a real CE and real FEs. CETML and FETML leave the
//! sessions out, and the CE's work for a message is a set time on the processor.

pub mod associations;
pub mod ce;
pub mod cetml;
pub mod fe;
pub mod fetml;
mod lines;
mod message;
mod part;
pub mod plan;
pub mod run;
pub mod sessions;
mod tally;

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
