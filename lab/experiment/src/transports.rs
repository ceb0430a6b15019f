//! The transports between control elements and routers, which another crate provides: the queues of a simulated link,
//! and load tests.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_base::Instant;

use crate::error::Error;
use crate::load::Point;
use crate::results::Metrics;
use crate::scenario::Wire;

/// The transports of a program.
pub trait Transports: fmt::Debug + Sync {
    /// An empty queue for one direction of a link; `seed` for the random choices of its discipline.
    fn queue(&self, wire: &Wire, seed: u64) -> Box<dyn Queue>;

    /// Load tests. Their processes run `executable`, and end when `interrupt` becomes true.
    fn load_tests(&self, executable: PathBuf, interrupt: Arc<AtomicBool>) -> Box<dyn LoadTests>;
}

/// The queue of a transport. Time must not go backwards.
pub trait Queue: Send {
    /// Whether the queue accepts a control message now.
    fn has_room(&self) -> bool;

    /// Offers a control message of `len` bytes; there must be room for it.
    fn offer_control(&mut self, now: Instant, len: usize);

    /// Offers a redirect of `len` bytes, which the queue may drop.
    fn offer_redirect(&mut self, now: Instant, len: usize);

    /// Takes the next message.
    fn take(&mut self, now: Instant) -> Taken;
}

/// A queue's answer to the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A control message of this length in bytes. Control messages leave in the order in which they came.
    Control(usize),
    /// A redirect.
    Redirect,
    /// No message before this time.
    At(Instant),
    /// The queue is empty.
    Empty,
}

/// Load tests of a transport.
pub trait LoadTests {
    /// Measures a point once.
    fn measure(&mut self, point: &Point) -> Result<Metrics, Error>;

    /// Number of single tests performed.
    fn tests(&self) -> u64;
}
