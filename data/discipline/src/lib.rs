//! Queue disciplines: who gets the link, when, and who must go.
//!
//! One file per mechanism, of the same shape inside: a manual page (purpose, source, picture,
//! parameters, counters, deviations), `Params`, `State`, `Stats`, the decision functions, tests.
//! A discipline is a pure state machine: time, flow keys and the books are handed in by [`Cx`].
//! It does not know what a port, a device or a clock is.

pub mod contract;
pub mod fifo;
pub mod metered;
pub mod spec;

pub use contract::{
    Admission, Cx, Discipline, FlowReport, FlowStanding, Manual, Ready, SpecMismatch,
};
pub use metered::Metered;
pub use spec::Spec;
