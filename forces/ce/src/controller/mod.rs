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
//! Each controller is a [`Runner`](weir_controller::Runner), as in simulation and in the lab. Its polls of an FE are
//! served from a *subscription*: the FE reports the queue's event at most once a period (RFC 5812, 4.8.5), and the
//! latest report is the sample of every round until the next report, because an FE reports every change. The controller
//! reads a table only before the first report, when no report came for [`REFRESH`] (a report may be lost), and at FEs
//! without such an event. So a controller reads tables occasionally while its queues are idle, and never while they are
//! busy.
//!
//! The token buckets for packets that an FE redirects to the CE are a queue too: `redirect` translates between its LFB
//! and the parameters of a controller, and uses the events of the LFB's two rates.
//!
//! Orders become one change for each FE, all or none, in the order in which the controller gives them. The CE does not
//! keep them as desired state: an FE that associates again receives all of them again. While an FE works on a change,
//! newer changes for that FE replace each other; a slow FE gets the newest values, and never a queue of old values.
//!
//! An FE has joined from its association (with its desired state restored) until its loss. Devices that are not weir
//! have always joined: the controller samples them once a period, and sets nothing there.
//!
//! The driver executes each [`poll_command`](Controllers::poll_command), and passes the outcome to
//! [`handle_done`](Controllers::handle_done), with the command's ID. It passes reports of a watch to
//! [`handle_report`](Controllers::handle_report) with the ID of the watch's [`Command::Watch`]. It calls
//! [`handle_timeout`](Controllers::handle_timeout) at the time of [`poll_timeout`](Controllers::poll_timeout).
//!
//! Bounds: for each FE and controller one table read, one change in progress and one queued change; for each device
//! one request.

mod bridge;
mod element;
mod redirect;
mod sample;
mod section;
mod steering;
mod table;

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
pub use self::table::CONTROLLERS;

/// Validity of a sample from a subscription. If an FE's transport does not notice the end of the FE, the controller
/// notices after this time; with the `timeout` of `flow_control` that is less than a second.
pub const REFRESH: Span = Span::from_millis(400);
/// Time for an FE to execute a change.
const RESPONSE_MAX: Span = Span::from_secs(1);
/// Minimum interval between log entries about one element's errors.
const NOTE_INTERVAL: Span = Span::from_secs(10);

/// Identifies a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// Index of the controller.
    controller: usize,
    number: u64,
}

/// Work for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Subscribe once to an event of an LFB, and stay subscribed when the FE associates again.
    Watch {
        /// Name of the FE.
        fe: Arc<str>,
        /// The class that defines the event.
        class: &'static str,
        /// The instance: its number, or the name of its port.
        instance: Arc<str>,
        /// Name of the event.
        event: &'static str,
        /// Interval of the reports, or the change that triggers a report.
        filter: Filter,
    },
    /// Read all rows of a class.
    Read {
        /// Name of the FE.
        fe: Arc<str>,
        /// Name of the class.
        class: &'static str,
    },
    /// Set components of the running configuration, all or none, in this order, without storing them.
    Steer {
        /// Name of the FE.
        fe: Arc<str>,
        /// The components.
        changes: Vec<Change>,
    },
    /// Sample ports of a device that is not weir.
    Sample {
        /// Name of the device.
        device: Arc<str>,
        /// Names of the ports.
        ports: Vec<Arc<str>>,
    },
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The subscription is active.
    Watching,
    /// The rows that were read.
    Rows(Value),
    /// The FE has applied the changes.
    Changed,
    /// Samples of a device, by port. A missing port has no entry.
    Samples(Vec<(Arc<str>, Sample)>),
    /// The FE refuses, with the reason.
    Refused(String),
    /// The FE or the device does not answer, with the reason.
    Silent(String),
}

/// An error of an FE or device, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Name of the controller.
    pub controller: String,
    /// Name of the FE or device.
    pub element: Arc<str>,
    /// The error.
    pub why: String,
}

/// A controller's state, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the controller.
    pub name: String,
    /// Kind of the controller.
    pub kind: &'static str,
    /// Number of FEs and devices that have joined, and number of all.
    pub elements: [usize; 2],
    /// Gauges by name.
    pub gauges: Vec<(&'static str, f64)>,
    /// Recent errors, by element.
    pub troubles: Vec<(Arc<str>, String)>,
}

/// The controllers of a control element. See [the module](self) for the order of calls.
pub struct Controllers(Vec<Steering>);

impl Controllers {
    /// Creates the controllers, which start at `now`.
    pub fn new(now: Instant, plans: &[ControllerPlan]) -> Self {
        let steering = |(place, plan)| Steering::new(now, place, plan);
        Self(plans.iter().enumerate().map(steering).collect())
    }

    /// Handles an FE that has associated and has its desired state.
    pub fn handle_associated(&mut self, now: Instant, fe: &str) {
        for steering in &mut self.0 {
            steering.handle_associated(now, fe);
        }
    }

    /// Handles the loss of an FE.
    pub fn handle_lost(&mut self, now: Instant, fe: &str) {
        for steering in &mut self.0 {
            steering.handle_lost(now, fe);
        }
    }

    /// Handles the outcome of a command. Ignores the outcome if no controller waits for it any longer.
    pub fn handle_done(&mut self, now: Instant, id: CommandId, done: Done) {
        if let Some(steering) = self.0.get_mut(id.controller) {
            steering.handle_done(now, id.number, done);
        }
    }

    /// Handles a report of the watch that this command started.
    pub fn handle_report(&mut self, now: Instant, watch: CommandId, report: &Value) {
        if let Some(steering) = self.0.get_mut(watch.controller) {
            steering.handle_report(now, watch.number, report);
        }
    }

    /// Handles the end of the watch that this command started, and restarts the watch.
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

    /// Latest time for the next call of [`handle_timeout`](Self::handle_timeout); `None` without controllers.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().map(Steering::poll_timeout).min()
    }

    /// Returns the next command.
    pub fn poll_command(&mut self) -> Option<(CommandId, Command)> {
        self.0.iter_mut().find_map(Steering::poll_command)
    }

    /// Returns the next log entry.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.0.iter_mut().find_map(Steering::poll_note)
    }

    /// The state of each controller at `now`.
    pub fn report(&self, now: Instant) -> Vec<Report> {
        self.0.iter().map(|steering| steering.report(now)).collect()
    }
}
