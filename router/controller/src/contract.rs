//! The interface between a controller and its queues.

use std::fmt;
use std::sync::Arc;

use weir_base::gauge::Gauge;
use weir_base::setting::{Parameter, Setting, SettingError, Settings};
use weir_base::{Instant, Tally};

/// The name of a queue: its element and its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    /// The element.
    pub element: Arc<str>,
    /// The port that the queue belongs to.
    pub port: Arc<str>,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.port, self.element)
    }
}

/// The state of a queue at one time. Sums start when the queue starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Packets and bytes offered to the queue.
    pub received: Tally,
    /// Packets and bytes sent by the queue.
    pub sent: Tally,
    /// Packets and bytes in the queue.
    pub backlog: Tally,
    /// Gauges of the discipline by name; unused slots have an empty name.
    gauges: [(&'static str, u64); GAUGES_MAX],
}

/// Maximum number of gauges that a role reads.
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

    /// This sample with one more gauge. A sample that already has [`GAUGES_MAX`] other gauges does not change.
    pub fn with_gauge(mut self, name: &'static str, value: u64) -> Self {
        let is_free = |place: &&mut (&str, u64)| place.0 == name || place.0.is_empty();
        if let Some(place) = self.gauges.iter_mut().find(is_free) {
            *place = (name, value);
        }
        self
    }

    /// The value of a gauge, if the sample has it.
    pub fn gauge(&self, name: &str) -> Option<u64> {
        let found = self.gauges.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// A queue's sample in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// The queue.
    pub queue: QueueName,
    /// State of the queue; `None` if it did not answer.
    pub sample: Option<Sample>,
}

/// An order to set a parameter of a queue's discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The queue.
    pub queue: QueueName,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// New value of the parameter.
    pub value: Setting,
}

/// A controller takes samples and issues orders.
///
/// Queues join and leave the controller, each in one of its roles; in every round the controller receives a sample of
/// each queue that has joined.
///
/// # Requirements for an implementation
///
/// - Its decisions depend only on its arguments, and take a time that is bounded by the number of queues.
/// - It continues when a queue does not answer: it uses the queue's latest sample, or treats the queue as absent. The
///   manual page defines which.
/// - It repeats all its orders at each sample, because orders may be lost. Orders that an element has already carried
///   out are not sent again (see [`runner`](crate::runner)).
/// - Its orders for one queue are consecutive, and only for queues that have joined.
pub trait Controller: Send {
    /// Adds a new queue in the role of this name, which must be a role of the manual page.
    fn join(&mut self, queue: &QueueName, role: &str);

    /// Removes a queue and its state.
    fn leave(&mut self, queue: &QueueName);

    /// Takes the samples of a round that began at `now`, with one entry for each queue, and appends the resulting
    /// orders to `orders`.
    fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>);

    /// Reports gauges under stable names, as in the manual page.
    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// The role that queues of one kind have for a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// Name in a configuration.
    pub name: &'static str,
    /// Minimum and maximum number of queues.
    pub queues: [usize; 2],
    /// Parameters that the controller sets; the queues' disciplines must have them.
    pub sets: &'static [&'static str],
    /// The parameters in `sets` that a queue keeps only for a limited time: repeating their value has an effect, unless
    /// it is zero.
    pub renews: &'static [&'static str],
    /// Gauges that the controller reads, at most [`GAUGES_MAX`]; the queues' disciplines must have them.
    pub reads: &'static [&'static str],
    /// Meaning of these queues, in one sentence.
    pub about: &'static str,
}

/// The manual page of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// Name in a configuration.
    pub name: &'static str,
    /// ID of the controller's class, unique among all classes.
    pub id: u32,
    /// Purpose, in one line.
    pub purpose: &'static str,
    /// Paper or RFC, with section or equation.
    pub source: &'static str,
    /// Operation; deviations from the source and their reasons; possible attacks.
    pub text: &'static str,
    /// Roles of the queues that the controller uses.
    pub roles: &'static [Role],
    /// Parameters of the controller.
    pub parameters: &'static [Parameter],
    /// The gauges that `inspect` reports.
    pub gauges: &'static [Gauge],
}

/// A kind of controller: its manual page and its constructor.
pub struct Kind {
    /// The manual page.
    pub manual: Manual,
    /// Constructs the controller, without queues.
    pub build: fn(&Settings) -> Built,
}

/// A controller in its initial state, or the contradiction between its settings.
pub type Built = Result<Box<dyn Controller>, SettingError>;
