//! The state machine of a running router without I/O: requests and events in, effects out.
//!
//! ```text
//!  Request: start, apply, change, stop ---+                 +--> Effect: claim, open, take, ...
//!  Event: port lost, back, renamed -------+--> [RouterCore] ---+--> Answer to a request
//!  Completion of an effect ---------------+                 +--> Notice for the log, the active state
//!  time ----------------------------------+
//! ```
//!
//! - [`admission`]: the only check of a plan against the machine and against the running plan
//! - [`element`]: the state machine, which decides the order of every change
//! - [`effect`]: its inputs and outputs as plain values
//! - [`difference`]: how two sets of components differ
//! - [`kernel`]: every kind of kernel state that decides about a packet, and weir's reaction to it
//!
//! The habitat carries the effects out; nothing here opens a socket, waits or reads a clock.

pub mod admission;
pub mod difference;
pub mod effect;
pub mod element;
mod job;
pub mod kernel;
mod state;

pub use admission::{Admitted, Facts, Limits, Unfit, admit};
pub use difference::differences;
pub use effect::{
    ActiveState, Answer, Completion, Effect, Event, Moment, Notice, Output, Place, Request, Ticket,
    UNCHANGED,
};
pub use element::RouterCore;
pub use kernel::Finding;
