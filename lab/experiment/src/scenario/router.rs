//! A router of a scenario.

use std::fmt;

/// A router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The name.
    pub name: String,
    /// The forwarder.
    pub mode: Mode,
    /// The links through which packets leave with the router's own address; empty in [`Mode::Routed`].
    pub masquerade: Vec<String>,
}

/// The forwarder in the lab. In simulation, both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// weir forwards
    Routed,
    /// The kernel forwards, and weir queues its packets
    Queue,
}

impl Mode {
    /// The words of `mode` in files.
    pub const WORDS: &[&str] = &["routed", "queue"];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}
