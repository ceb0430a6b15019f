//! What passes between a controller and the queues that it steers.

use weir_base::setting::{Parameter, Setting};
use weir_base::{Instant, Tally};

/// What one queue says of itself. Sums are since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Offered to it.
    pub received: Tally,
    /// Given out by it.
    pub sent: Tally,
    /// Held now.
    pub backlog: Tally,
    /// Gauges of its discipline, in the order of the role's `reads`.
    pub read: [u64; READS_MAX],
}

/// Gauges that a role reads at most.
pub const READS_MAX: usize = 2;

/// A parameter of a queue's discipline is to have this value.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Which queue, by its place in the samples.
    pub queue: usize,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Its value.
    pub value: Setting,
}

/// A controller: samples in, orders out.
///
/// # What an implementation must keep
///
/// - It decides from what it is handed only, and in a time that is bounded by the number of queues.
/// - A queue that does not answer is no reason to stop: its latest sample stands, or it counts as
///   gone; the manual page says which.
/// - An order that is lost is given again, for instance with the next sample.
pub trait Controller: Send {
    /// Takes one sample of each queue, in the order of the roles; none of a queue that did not
    /// answer. Adds what is wanted of them to `orders`.
    fn sample(&mut self, now: Instant, samples: &[Option<Sample>], orders: &mut Vec<Order>);

    /// Gauges under stable names, as the manual page lists them.
    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// What queues of one kind are for in a controller's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name in a configuration.
    pub name: &'static str,
    /// Least and greatest number of queues.
    pub queues: [usize; 2],
    /// Parameters that it sets there; the queues' disciplines must have them.
    pub sets: &'static [&'static str],
    /// Gauges that it reads there, at most [`READS_MAX`]; the queues' disciplines must have them.
    pub reads: &'static [&'static str],
    /// What these queues are, in a sentence.
    pub about: &'static str,
}

/// The manual page of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// The name in a configuration.
    pub name: &'static str,
    /// Purpose, in one line.
    pub purpose: &'static str,
    /// Paper or RFC, with section or equation.
    pub source: &'static str,
    /// How it works; deviations from the source and why; what an attacker can do.
    pub text: &'static str,
    /// The queues that it works with; samples come in this order.
    pub roles: &'static [Role],
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// Names and meanings of what `inspect` reports.
    pub gauges: &'static [(&'static str, &'static str)],
}
