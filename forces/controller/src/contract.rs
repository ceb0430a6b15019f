//! The exchange between a controller and the queues that it controls.

use std::fmt;
use std::sync::Arc;

use weir_base::gauge::Gauge;
use weir_base::setting::{Parameter, Setting, SettingError, Settings};
use weir_base::{Instant, Tally};

/// The name of a queue: the element that it is in, and its port there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    /// The element.
    pub element: Arc<str>,
    /// The port, whose queue it is.
    pub port: Arc<str>,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.port, self.element)
    }
}

/// The state of a queue at one moment. Sums are since the queue began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Offered to it.
    pub received: Tally,
    /// Given out by it.
    pub sent: Tally,
    /// Held now.
    pub backlog: Tally,
    /// Gauges of its discipline by name; places that are not taken have an empty name.
    gauges: [(&'static str, u64); GAUGES_MAX],
}

/// Gauges that a role reads at most.
pub const GAUGES_MAX: usize = 2;

impl Sample {
    /// A sample without gauges.
    pub fn new(received: Tally, sent: Tally, backlog: Tally) -> Self {
        Self {
            received,
            sent,
            backlog,
            ..Self::default()
        }
    }

    /// A sample with this gauge. One that has [`GAUGES_MAX`] others stays as it is.
    pub fn with_gauge(mut self, name: &'static str, value: u64) -> Self {
        let is_free = |place: &&mut (&str, u64)| place.0 == name || place.0.is_empty();
        if let Some(place) = self.gauges.iter_mut().find(is_free) {
            *place = (name, value);
        }
        self
    }

    /// A gauge, if the sample has it.
    pub fn gauge(&self, name: &str) -> Option<u64> {
        let found = self.gauges.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// A queue's sample in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// Which queue.
    pub queue: QueueName,
    /// Its state; none if it did not answer.
    pub sample: Option<Sample>,
}

/// A parameter of a queue's discipline is to have this value.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Which queue.
    pub queue: QueueName,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Its value.
    pub value: Setting,
}

/// A controller: samples in, orders out.
///
/// Queues join it, each in one of its roles, and leave it; every round it takes a sample of each queue
/// that has joined and not left.
///
/// # What an implementation must keep
///
/// - It decides from its arguments only, and in a time that is bounded by the number of queues.
/// - A queue that does not answer is no reason to stop: its latest sample stands, or it counts as
///   gone; the manual page says which.
/// - An order that is lost is given again: with each sample it says all that it wants. What an element has already is
///   not sent to it again (see [`runner`](crate::runner)).
/// - Orders of one queue follow each other, and are for queues that are there.
pub trait Controller: Send {
    /// A queue that is not there yet joins in the role of this name, which is one of the manual page's.
    fn join(&mut self, queue: &QueueName, role: &str);

    /// A queue leaves, and is forgotten.
    fn leave(&mut self, queue: &QueueName);

    /// Takes the samples of a round, which was asked for at `now`: one entry for each queue. Adds what
    /// is wanted of them to `orders`.
    fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>);

    /// Gauges under stable names, as the manual page lists them.
    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// The part that queues of one kind play for a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name in a configuration.
    pub name: &'static str,
    /// Least and greatest number of queues.
    pub queues: [usize; 2],
    /// Parameters that it sets there; the queues' disciplines must have them.
    pub sets: &'static [&'static str],
    /// Those of them that a queue keeps for a time only: setting one again has an effect, unless it is zero.
    pub renews: &'static [&'static str],
    /// Gauges that it reads there, at most [`GAUGES_MAX`]; the queues' disciplines must have them.
    pub reads: &'static [&'static str],
    /// The meaning of these queues, in a sentence.
    pub about: &'static str,
}

/// The manual page of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// The name in a configuration.
    pub name: &'static str,
    /// ID of its class, unique among all classes.
    pub id: u32,
    /// Purpose, in one line.
    pub purpose: &'static str,
    /// Paper or RFC, with section or equation.
    pub source: &'static str,
    /// How it works; deviations from the source and why; what an attacker can do.
    pub text: &'static str,
    /// The queues that it works with.
    pub roles: &'static [Role],
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// The gauges that `inspect` reports.
    pub gauges: &'static [Gauge],
}

/// A kind of controller: its manual page, and how it is built.
pub struct Kind {
    /// The manual page.
    pub manual: Manual,
    /// Builds it, without queues.
    pub build: fn(&Settings) -> Built,
}

/// A controller at its beginning, or which settings contradict each other.
pub type Built = Result<Box<dyn Controller>, SettingError>;
