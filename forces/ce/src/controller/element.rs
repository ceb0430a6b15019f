//! A controller's view of one FE or device: samples of its queues, and requests in progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::setting::Scalar;
use weir_base::{Instant, Span};
use weir_controller::runner::{Change as Order, RequestId};
use weir_controller::{Role, Sample};
use weir_model::{Change, ComponentPath};

use super::section::QueueKind;
use super::{REFRESH, redirect};
use crate::contract::Filter;

/// Minimum change of an FE's control rate before the FE reports the rate, in bit/s. Reports are themselves control
/// messages: 25 reports a second make about 50 kbit/s.
const CONTROL_STEP_BPS: u32 = 100_000;
/// Maximum number of runner requests that one change answers. Older requests have exceeded their deadlines.
const ANSWERED_MAX: usize = 64;

/// An FE or a device.
#[derive(Debug, Default)]
pub(super) struct Element {
    /// The kind of the element's queues.
    pub(super) kind: QueueKind,
    /// Whether the element has joined the runner.
    pub(super) is_there: bool,
    pub(super) ports: BTreeMap<Arc<str>, Port>,
    /// The command that is reading the queues.
    pub(super) reading: Option<u64>,
    /// The poll that waits for the read.
    pub(super) waits: Option<RequestId>,
    /// The command that is changing the FE, with the runner's requests that it answers.
    pub(super) changing: Option<(u64, Vec<RequestId>)>,
    /// Changes that wait for the end of `changing`.
    next: Changes,
    /// The latest error, and its time. `noted` is the time of the last log entry.
    pub(super) trouble: Option<(Instant, String)>,
    pub(super) noted: Option<Instant>,
}

/// A port whose queue has a role.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) role: &'static Role,
    /// The subscription to each event of the queue.
    pub(super) watches: Vec<(Event, Watch)>,
    /// The error to report if the port has no sample.
    absent: &'static str,
    /// The latest sample with its time; the sample is `None` if the FE has no such queue.
    latest: Option<(Instant, Option<Sample>)>,
}

/// An event of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) name: &'static str,
    pub(super) filter: Filter,
}

/// The subscription to an event of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Not subscribed: the controller polls the FE every round.
    No,
    /// The subscription is in progress.
    Begins,
    /// The FE reports changes.
    Holds,
}

/// Changes to send in one command.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) requests: Vec<RequestId>,
    orders: Vec<Order>,
}

impl Port {
    pub(super) fn new(role: &'static Role, kind: QueueKind, period: Span) -> Self {
        let events = events(role, kind, period);
        Self {
            role,
            watches: events.into_iter().map(|event| (event, Watch::No)).collect(),
            absent: match kind {
                QueueKind::Redirect => "the FE does not count its exceptions and control messages",
                QueueKind::Port | QueueKind::Device => "there is no such port",
            },
            latest: None,
        }
    }

    /// Stores a sample. The error names missing data.
    pub(super) fn take(&mut self, now: Instant, sample: Option<Sample>) -> Result<(), String> {
        let lacks = |sample: &Sample| {
            self.role
                .reads
                .iter()
                .find(|name| sample.gauge(name).is_none())
        };
        let (sample, result) = match sample {
            None => (None, Err(self.absent.to_owned())),
            Some(sample) => match lacks(&sample) {
                None => (Some(sample), Ok(())),
                Some(name) => (None, Err(format!("its discipline has no gauge `{name}`"))),
            },
        };
        self.latest = Some((now, sample));
        result
    }

    /// The currently valid sample; the outer `None` means that the controller must poll the FE.
    fn held(&self, now: Instant) -> Option<Option<Sample>> {
        let (at, sample) = self.latest?;
        let mut watches = self.watches.iter();
        let is_watched = !self.watches.is_empty() && watches.all(|(_, w)| *w == Watch::Holds);
        let holds = match sample {
            Some(_) if !is_watched => Span::ZERO,
            _ => REFRESH,
        };
        (now.since(at) < holds).then_some(sample)
    }
}

impl Element {
    /// Forgets everything except the subscriptions, which continue when the FE associates again.
    pub(super) fn forget(&mut self) {
        self.is_there = false;
        (self.reading, self.waits, self.changing) = (None, None, None);
        self.next = Changes::default();
        for port in self.ports.values_mut() {
            port.latest = None;
        }
    }

    /// The currently valid samples; `None` if the controller must poll the element.
    pub(super) fn held(&self, now: Instant) -> Option<Vec<(Arc<str>, Sample)>> {
        let mut samples = Vec::new();
        for (name, port) in &self.ports {
            samples.extend(port.held(now)?.map(|sample| (Arc::clone(name), sample)));
        }
        Some(samples)
    }

    /// The samples younger than [`REFRESH`], even if the controller polls the element for new ones.
    pub(super) fn fresh(&self, now: Instant) -> Vec<(Arc<str>, Sample)> {
        let fresh = |(name, port): (&Arc<str>, &Port)| {
            let (at, sample) = port.latest?;
            let sample = sample.filter(|_| now.since(at) < REFRESH)?;
            Some((Arc::clone(name), sample))
        };
        self.ports.iter().filter_map(fresh).collect()
    }

    /// Queues a request's orders. A newer value replaces an older value at its position.
    pub(super) fn order(&mut self, request: RequestId, orders: Vec<Order>) {
        let next = &mut self.next;
        if next.requests.len() == ANSWERED_MAX {
            next.requests.remove(0);
        }
        next.requests.push(request);
        let mut places: BTreeMap<(Arc<str>, &str), usize> = BTreeMap::new();
        for (place, order) in next.orders.iter().enumerate() {
            places.insert((Arc::clone(&order.port), order.parameter), place);
        }
        for order in orders {
            match places.get(&(Arc::clone(&order.port), order.parameter)) {
                Some(place) => next.orders[*place] = order,
                None => next.orders.push(order),
            }
        }
    }

    /// Takes the queued changes, if a change can start now.
    pub(super) fn next(&mut self) -> Option<Changes> {
        let can = self.is_there && self.changing.is_none() && !self.next.orders.is_empty();
        can.then(|| std::mem::take(&mut self.next))
    }
}

impl Changes {
    /// The changes as configuration components of an FE with queues of this kind.
    pub(super) fn components(&self, kind: QueueKind) -> Vec<Change> {
        let component = |order: &Order| {
            let path = ["port", &*order.port, "discipline", order.parameter];
            let value = Scalar::Text(order.value.to_string());
            vec![Change::new(ComponentPath::new(path), value)]
        };
        let mut changes = Vec::new();
        for order in &self.orders {
            let of_order = match kind {
                QueueKind::Redirect => redirect::components(order.parameter, &order.value),
                QueueKind::Port | QueueKind::Device => component(order),
            };
            for change in of_order {
                if !changes.contains(&change) {
                    changes.push(change); // two parameters may need the same component
                }
            }
        }
        changes
    }
}

/// The events on which the FE reports new samples of a queue.
fn events(role: &Role, kind: QueueKind, period: Span) -> Vec<Event> {
    let every = Filter {
        interval: Some(period),
        ..Filter::default()
    };
    let event = |name, filter| Event { name, filter };
    match (kind, role.reads) {
        (QueueKind::Device, _) => Vec::new(),
        (QueueKind::Redirect, _) => {
            let step = Filter {
                hysteresis: Some(CONTROL_STEP_BPS),
                ..Filter::default()
            };
            vec![
                event("redirect_rate_changed", every),
                event("control_rate_changed", step),
            ]
        }
        // Gauges count arrivals; a role that reads no gauges needs the backlog.
        (QueueKind::Port, []) => vec![event("backlog_changed", every)],
        (QueueKind::Port, _) => vec![event("received_changed", every)],
    }
}
