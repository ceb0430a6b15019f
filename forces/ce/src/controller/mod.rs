//! Controllers over the FEs of a control element, as a state machine without I/O.
//!
//! ```text
//!                  ┌────────────────────── Controllers ──────────────────────┐
//!   reports ──────▶│ latest samples ──┐                                      │
//!   tables  ──────▶│ ─────────────────┴─▶ Runner ──orders──▶ newest changes  ├──▶ commands
//!   FE comes, goes ▶ join, leave ────────▶        (weir-controller)          │
//!                  └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Each controller is a [`Runner`](weir_controller::Runner), as in simulation and in the lab. What it asks of an FE
//! is served from a *subscription*: the FE reports the queue's event at most once a period (RFC 5812, 4.8.5), and the
//! latest report is the sample of every round until the next one, because an FE reports every change. A table is read
//! only before the first report, when there was none for [`REFRESH`] (a report may be lost), and at FEs that have no
//! such event. So a controller whose queues rest asks for a table now and then, and one whose queues work asks for none.
//!
//! The token buckets of what an FE hands over to the CE are a queue, too: `redirect` has its block in the words of a
//! controller, and the events of its two rates.
//!
//! Orders become one change for each FE, all of it or nothing, in the order in which the controller gives them. They
//! are not kept as desired state: an FE that associates anew receives all of them again. While a change is under way at an FE, newer
//! ones for it replace each other; a slow FE gets the newest values, and never a queue of old ones.
//!
//! An FE is there from its association (with its desired state restored) until it is lost. Devices that are not weir
//! are always there: they are sampled once a period, and nothing is set there.
//!
//! The driver carries out each [`poll_command`](Controllers::poll_command), and hands its outcome to
//! [`handle_done`](Controllers::handle_done), with the command's ID; reports of a watch come by
//! [`handle_report`](Controllers::handle_report) with the ID of its [`Command::Watch`]. It calls
//! [`handle_timeout`](Controllers::handle_timeout) when [`poll_timeout`](Controllers::poll_timeout) says.
//!
//! Bounds: for each FE and controller one table, one change and the change that waits for it; for each device one
//! request.

mod bridge;
mod element;
mod redirect;
mod sample;
mod section;
mod steering;

use std::sync::Arc;

use weir_base::{Instant, Span};
pub use weir_controller::Sample;
use weir_model::{Change, Value};

use crate::contract::Filter;

pub use self::bridge::{Bridge, DeviceRequest};
pub use self::section::{
    CONTROLLER, ControllerPlan, DEVICE, DEVICE_CLASS, DevicePlan, QueueKind, QueuePlan,
};
use self::steering::Steering;

/// A sample of a subscription counts for this long. An FE whose transport does not notice its end is missed after this
/// time; with the `timeout` of `flow_control` that is less than a second.
pub const REFRESH: Span = Span::from_millis(400);
/// Time for an FE to carry out a change.
const RESPONSE_MAX: Span = Span::from_secs(1);
/// An element in trouble is reported at most so often.
const NOTE_INTERVAL: Span = Span::from_secs(10);

/// Tells commands apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// The place of the controller among all of them.
    controller: usize,
    number: u64,
}

/// Work for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Subscribe to an event of a block, and stay subscribed when the FE associates anew. Done once.
    Watch {
        /// The FE.
        fe: Arc<str>,
        /// The class whose event it is.
        class: &'static str,
        /// The instance: its number, or the port whose instance it is.
        instance: Arc<str>,
        /// The event.
        event: &'static str,
        /// How often, or after which change, it is reported.
        filter: Filter,
    },
    /// Read all rows of a class.
    Read {
        /// The FE.
        fe: Arc<str>,
        /// The class.
        class: &'static str,
    },
    /// Set components of the configuration in force, all of them or none, in this order, and without keeping them.
    Steer {
        /// The FE.
        fe: Arc<str>,
        /// The components.
        changes: Vec<Change>,
    },
    /// Sample ports of a device that is not weir.
    Sample {
        /// The device.
        device: Arc<str>,
        /// Its ports.
        ports: Vec<Arc<str>>,
    },
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The subscription is in force.
    Watching,
    /// The rows.
    Rows(Value),
    /// The changes are in force.
    Changed,
    /// The samples of a device, by port. One that is missing has none.
    Samples(Vec<(Arc<str>, Sample)>),
    /// The FE refuses, with the reason.
    Refused(String),
    /// The FE or the device does not answer, with the reason.
    Silent(String),
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The controller.
    pub controller: String,
    /// The FE or device.
    pub element: Arc<str>,
    /// The trouble.
    pub why: String,
}

/// A controller's state, for showing.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// FEs and devices that are there, and all of them.
    pub elements: [usize; 2],
    /// Its gauges by name.
    pub gauges: Vec<(&'static str, f64)>,
    /// Recent troubles, by element.
    pub troubles: Vec<(Arc<str>, String)>,
}

/// The controllers of a control element. See [the module](self) for the order of calls.
pub struct Controllers(Vec<Steering>);

impl Controllers {
    /// These controllers, which begin at `now`.
    pub fn new(now: Instant, plans: &[ControllerPlan]) -> Self {
        let steering = |(place, plan)| Steering::new(now, place, plan);
        Self(plans.iter().enumerate().map(steering).collect())
    }

    /// An FE has associated, and its desired state is in force.
    pub fn handle_associated(&mut self, now: Instant, fe: &str) {
        for steering in &mut self.0 {
            steering.handle_associated(now, fe);
        }
    }

    /// An FE is lost.
    pub fn handle_lost(&mut self, now: Instant, fe: &str) {
        for steering in &mut self.0 {
            steering.handle_lost(now, fe);
        }
    }

    /// The outcome of a command. It is ignored if nobody waits for it any more.
    pub fn handle_done(&mut self, now: Instant, id: CommandId, done: Done) {
        if let Some(steering) = self.0.get_mut(id.controller) {
            steering.handle_done(now, id.number, done);
        }
    }

    /// A report of the watch that this command began.
    pub fn handle_report(&mut self, now: Instant, watch: CommandId, report: &Value) {
        if let Some(steering) = self.0.get_mut(watch.controller) {
            steering.handle_report(now, watch.number, report);
        }
    }

    /// The watch that this command began has ended. It begins again.
    pub fn handle_unwatched(&mut self, now: Instant, watch: CommandId) {
        if let Some(steering) = self.0.get_mut(watch.controller) {
            steering.handle_unwatched(now, watch.number);
        }
    }

    /// Handles everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for steering in &mut self.0 {
            steering.handle_timeout(now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if not earlier; none without controllers.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().map(Steering::poll_timeout).min()
    }

    /// The next command.
    pub fn poll_command(&mut self) -> Option<(CommandId, Command)> {
        self.0.iter_mut().find_map(Steering::poll_command)
    }

    /// The next note for the log.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.0.iter_mut().find_map(Steering::poll_note)
    }

    /// The state of each controller at `now`.
    pub fn report(&self, now: Instant) -> Vec<Report> {
        self.0.iter().map(|steering| steering.report(now)).collect()
    }
}
