//! The interface of a running router: read, change, stop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, oneshot};
use weir_base::{Rate, Throughput};
use weir_element::{ActiveState, Answer, Event, Finding, Request};
use weir_layer::NoAnswer;
use weir_lfb::Plan;
use weir_lfb::class::ControlSent;
use weir_lfb::class::ce_routes::CeRoutes;
use weir_lfb::port::PortPlan;
use weir_model::{Fault, Operation};
use weir_path::exception::{Exception, Injection};
use weir_path::ip::tables::Tables;
use weir_path::plane::Mode;

use super::findings::KernelFindings;
use super::input::Input;
use super::rates::Finders;
use crate::clock;
use crate::kernel::neighbours::Neighbours;
use crate::kernel::transit::TransitGuard;
use crate::mutex::lock;
use crate::worker::Handle;

/// Shortest time between two changes of single components.
const CHANGE_GAP: Duration = Duration::from_millis(1);
/// Maximum packets of the control element in one iteration of the forwarding thread: as many as a port may receive.
pub const INJECTIONS_MAX: usize = 64;

/// Computes the seconds until the first certificate expires; `None` without certificates.
pub type CertificateLeft = Box<dyn Fn() -> Option<f64> + Send + Sync>;

/// The running router.
pub struct Running {
    /// The forwarding thread.
    pub handle: Handle,
    /// The latest snapshot of the kernel's tables.
    pub tables: ArcSwap<Tables>,
    /// Signals a new snapshot.
    pub(super) tables_changed: Notify,
    /// Signals packets that wait for the control element.
    pub(super) exceptions_wait: Notify,
    /// Control messages that were sent to control elements.
    control_sent: Mutex<Throughput>,
    /// The routes of a control element, as the kernel has them.
    ce_routes: Mutex<CeRoutes>,
    /// Computes the seconds until the first certificate expires, if the router is a forwarding element.
    certificate_left: OnceLock<CertificateLeft>,
    /// Reason why the router, as a forwarding element, does not forward; `None` if it does.
    stopped: Mutex<Option<String>>,
    pub(super) neighbours: Mutex<Neighbours>,
    pub(super) published: Arc<Published>,
    /// Ports that find their rate.
    pub(super) finders: Finders,
    /// Keeps transit from the kernel.
    pub guard: Arc<Mutex<TransitGuard>>,
    /// Findings that the kernel's tables themselves do not show.
    pub(super) unfollowed: Mutex<Vec<Finding>>,
    /// Kernel state that the router refuses or warns of.
    pub(super) known: Arc<Mutex<KernelFindings>>,
    element: mpsc::Sender<Input>,
    /// Time of the last change of single components. The next change holds the lock while it waits for its turn, and
    /// nothing else waits for the lock.
    changed: Mutex<Instant>,
}

/// A snapshot of the active state, for all readers.
pub(super) struct Published {
    in_force: ArcSwap<ActiveState>,
    /// Signals a new plan whose rates may differ, a port with another interface, or a found rate.
    pub(super) rates_changed: Notify,
    /// Signals a new plan, or a port with another interface.
    pub(super) plan_changed: Notify,
}

impl Published {
    pub(super) fn new(in_force: Arc<ActiveState>) -> Self {
        Self {
            in_force: ArcSwap::new(in_force),
            rates_changed: Notify::new(),
            plan_changed: Notify::new(),
        }
    }

    pub(super) fn renew(&self, in_force: Arc<ActiveState>) {
        self.in_force.store(in_force);
        self.rates_changed.notify_one();
        self.plan_changed.notify_one();
    }
}

impl Running {
    pub(super) fn new(
        (handle, tables, neighbours): (Handle, Arc<Tables>, Neighbours),
        published: Arc<Published>,
        guard: Arc<Mutex<TransitGuard>>,
        known: Arc<Mutex<KernelFindings>>,
        element: mpsc::Sender<Input>,
    ) -> Self {
        let unfollowed = lock(&known).unfollowed();
        Self {
            handle,
            tables: ArcSwap::new(tables),
            tables_changed: Notify::new(),
            exceptions_wait: Notify::new(),
            control_sent: Mutex::default(),
            ce_routes: Mutex::default(),
            certificate_left: OnceLock::new(),
            stopped: Mutex::default(),
            neighbours: Mutex::new(neighbours),
            published,
            finders: Finders::default(),
            guard,
            unfollowed: Mutex::new(unfollowed),
            known,
            element,
            changed: Mutex::new(Instant::now()),
        }
    }

    /// The active plan, and the interfaces whose transit the router has taken.
    pub fn in_force(&self) -> Arc<ActiveState> {
        self.published.in_force.load_full()
    }

    /// Applies a plan and returns the changes, or changes nothing and returns the reasons. May block for seconds if
    /// ports have to drain.
    pub fn apply(&self, plan: Plan) -> Answer {
        self.ask(Request::Apply(plan))
    }

    /// Applies operations to the active plan, all of them or none; returns the changes, or the reasons why nothing
    /// changed. Blocks, for seconds if ports have to drain.
    pub fn change(&self, operations: Vec<Operation>) -> Answer {
        self.wait_for_turn();
        self.ask(Request::Change(operations))
    }

    /// Checks operations without applying them.
    pub fn check(&self, operations: Vec<Operation>) -> Answer {
        self.ask(Request::Check(operations))
    }

    /// Gives every port back to the kernel, and waits until the router holds nothing.
    pub fn stop(&self) {
        let _ = self.ask(Request::Stop); // failures are in the log
    }

    fn ask(&self, request: Request) -> Answer {
        let ended = || vec![Fault::of_machine("the router has stopped")];
        let (answer, answered) = oneshot::channel();
        let asked = self.element.send(Input::Request(request, answer));
        asked.map_err(|_| ended())?;
        answered.blocking_recv().map_err(|_| ended())?
    }

    /// Waits until there are packets for the control element; then call [`Self::take_exceptions`]. Only one task may
    /// wait.
    pub async fn exceptions(&self) {
        self.exceptions_wait.notified().await;
    }

    /// Takes the packets that wait for the control element, oldest first: at most
    /// [`RING_MAX`](weir_path::exception::RING_MAX). Blocks for an iteration of the forwarding thread.
    pub fn take_exceptions(&self) -> Result<VecDeque<Exception>, NoAnswer> {
        self.handle.call(|worker| worker.plane.take_exceptions())
    }

    /// Sends packets of the control element, at most [`INJECTIONS_MAX`] of them; the others stay in `packets`. Returns
    /// the number of refused packets. Blocks for an iteration of the forwarding thread, which slows the caller down.
    pub fn inject(&self, packets: &mut Vec<Injection>) -> Result<usize, NoAnswer> {
        let count = packets.len().min(INJECTIONS_MAX);
        let burst: Vec<Injection> = packets.drain(..count).collect();
        self.handle.call(move |worker| {
            let now = clock::now();
            let sent = burst.iter().map(|packet| worker.plane.inject(packet, now));
            sent.filter(Result::is_err).count()
        })
    }

    /// Counts a control message that is sent to a control element.
    pub fn count_control(&self, bytes: u64) {
        lock(&self.control_sent).count(clock::now(), bytes);
    }

    /// The control messages that were sent to control elements.
    pub(super) fn control_sent(&self, now: weir_base::Instant) -> ControlSent {
        let sent = *lock(&self.control_sent);
        ControlSent {
            total: sent.total(),
            rate: sent.rate(now),
        }
    }

    /// Sets whether the router forwards received packets or drops them. Blocks for an iteration of the forwarding
    /// thread.
    pub fn set_forwarding(&self, on: bool) -> Result<(), NoAnswer> {
        self.handle
            .call(move |worker| worker.plane.set_forwarding(on))
    }

    /// Stores the state of a control element's routes in the kernel; returns the previous state.
    pub fn set_ce_routes(&self, now: CeRoutes) -> CeRoutes {
        std::mem::replace(&mut lock(&self.ce_routes), now)
    }

    /// The state of a control element's routes in the kernel.
    pub(super) fn ce_routes(&self) -> CeRoutes {
        lock(&self.ce_routes).clone()
    }

    /// Stores, for readers, the reason why a forwarding element does not forward; `None` if it does.
    pub fn set_stopped(&self, why: Option<String>) {
        *lock(&self.stopped) = why;
    }

    /// Stores, for readers, the function that computes the seconds until a forwarding element's first certificate
    /// expires.
    pub fn set_certificate_left(&self, left: CertificateLeft) {
        let _ = self.certificate_left.set(left); // there is one forwarding element
    }

    /// Seconds until the first certificate of a forwarding element expires; `None` without certificates.
    pub(super) fn certificate_left_s(&self) -> Option<f64> {
        self.certificate_left.get()?()
    }

    pub(super) fn stopped(&self) -> Option<String> {
        lock(&self.stopped).clone()
    }

    /// Limits the changes per second, so that endless changes do not disturb forwarding.
    fn wait_for_turn(&self) {
        let mut changed = lock(&self.changed);
        thread::sleep(CHANGE_GAP.saturating_sub(changed.elapsed()));
        *changed = Instant::now();
    }

    /// Passes an event of a port's device to the element.
    pub(super) fn handle_event(&self, event: Event) {
        let _ = self.element.send(Input::Event(event)); // without a receiver, the router is ending
    }

    /// For each interface, the maximum rate of the machine's own packets; `None` if its port is not paced.
    pub(super) fn local_limits(&self) -> Vec<(String, Option<Rate>)> {
        let ActiveState { plan, taken, .. } = &*self.in_force();
        if plan.router.mode == Mode::Queue {
            return Vec::new(); // the queues hold packets of the machine too
        }
        let limit = |port: &PortPlan| {
            let interface = taken.get(&port.name)?;
            let rate = self.finders.rate(&port.name).or(port.rate);
            Some((interface.clone(), rate.map(|rate| port.local_rate(rate))))
        };
        plan.ports.iter().filter_map(limit).collect()
    }
}
