//! A running router, as those who change it see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::kernel::neighbours::Neighbours;
use crate::kernel::transit::TransitGuard;
use crate::worker::Handle;
use arc_swap::ArcSwap;
use tokio::sync::Notify;
use weir_base::Rate;
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_model::{Change, Fault};
use weir_path::tables::Tables;

use super::bypass::{self, Bypassed};
use super::differences::differences;
use super::holdings::Holdings;
use super::ports::{self, frame_bytes_max, opened};

/// Changes of single components follow each other at least this far apart.
const CHANGE_GAP: Duration = Duration::from_millis(1);

/// The running router.
pub struct Running {
    /// The forwarding thread.
    pub handle: Handle,
    /// The latest snapshot of the kernel's tables.
    pub tables: ArcSwap<Tables>,
    /// The longest frame that the pool can hold; fixed at the start.
    frame_bytes_max: usize,
    /// Packets that the pool can hold; fixed at the start.
    pool: usize,
    /// There is a new snapshot.
    pub(super) tables_changed: Notify,
    pub(super) neighbours: Mutex<Neighbours>,
    /// Held for as long as a change takes, which may be seconds: not for the control thread to wait for.
    in_force: Mutex<InForce>,
    /// Keeps transit from the kernel; shared with `in_force`.
    pub guard: Arc<Mutex<TransitGuard>>,
    /// A plan was put in force whose rates may be others, or a port has another interface.
    pub(super) rates_changed: Notify,
    /// Rules of the machine that transit bypasses.
    pub bypassed: Mutex<Bypassed>,
    /// When single components were changed last. Whoever changes some holds it while he waits for his
    /// turn, and nothing else waits for it.
    changed: Mutex<Instant>,
}

struct InForce {
    plan: Plan,
    holdings: Holdings,
}

/// What is fixed at the start.
pub(super) struct Limits {
    /// The longest frame that the pool can hold.
    pub(super) frame_bytes_max: usize,
    /// Packets that the pool can hold.
    pub(super) pool: usize,
}

impl Running {
    pub(super) fn new(
        handle: Handle,
        tables: Arc<Tables>,
        limits: Limits,
        neighbours: Neighbours,
        plan: Plan,
        holdings: Holdings,
    ) -> Self {
        Self {
            handle,
            tables: ArcSwap::new(tables),
            frame_bytes_max: limits.frame_bytes_max,
            pool: limits.pool,
            tables_changed: Notify::new(),
            neighbours: Mutex::new(neighbours),
            guard: holdings.guard(),
            in_force: Mutex::new(InForce { plan, holdings }),
            rates_changed: Notify::new(),
            bypassed: Mutex::default(),
            changed: Mutex::new(Instant::now()),
        }
    }

    /// Packets that the pool can hold.
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// The plan in force.
    pub fn plan(&self) -> Plan {
        self.lock().plan.clone()
    }

    /// Puts a plan in force and says what changed, or changes nothing and says why.
    pub fn apply(&self, plan: Plan) -> Result<Vec<String>, String> {
        if let Some(why) = bypass::obstacle(&plan) {
            return Err(why);
        }
        bypass::permit(&plan, &self.bypassed);
        self.put_in_force(&mut self.lock(), plan, &[])
    }

    /// Changes single components of the plan in force; says what changed, or why nothing did. A
    /// port that is named hears of it also if nothing changes: a discipline may take a value that
    /// is set again as a sign of life.
    pub fn change(&self, changes: &[Change]) -> Result<Vec<String>, Vec<String>> {
        self.wait_for_turn();
        let mut in_force = self.lock();
        let plan = in_force.plan.with(changes);
        let plan =
            plan.map_err(|faults| faults.iter().map(Fault::to_string).collect::<Vec<_>>())?;
        let port = |change: &Change| match change.path.segments()[..] {
            ["port", port, ..] => Some(port.to_owned()),
            _ => None,
        };
        let named: Vec<String> = changes.iter().filter_map(port).collect();
        self.put_in_force(&mut in_force, plan, &named)
            .map_err(|why| vec![why])
    }

    /// Whoever sends changes without end gets so many a second, and forwarding stays undisturbed.
    fn wait_for_turn(&self) {
        let mut changed = lock(&self.changed);
        thread::sleep(CHANGE_GAP.saturating_sub(changed.elapsed()));
        *changed = Instant::now();
    }

    fn put_in_force(
        &self,
        in_force: &mut InForce,
        plan: Plan,
        named: &[String],
    ) -> Result<Vec<String>, String> {
        let mut messages = differences(&in_force.plan.shown(), &plan.shown());
        if messages.is_empty() {
            messages.push("nothing to change".to_owned());
        }
        self.check(&in_force.plan, &plan, &messages)?;
        let before = in_force.plan.ports.clone();
        let exchanged = self.exchange(in_force, plan, named);
        in_force.holdings.keep_claims_of(&in_force.plan);
        exchanged?;
        self.rates_changed.notify_one();
        // The plan is in force whatever comes of this, and the next change tries again.
        if let Err(error) = self.take_untaken(in_force) {
            tracing::error!(%error, "the kernel forwards what comes in by a port");
            messages.push(format!(
                "{error}: the kernel forwards what comes in by that port until the next change"
            ));
        } else {
            messages.extend(waiting(in_force, &before));
        }
        Ok(messages)
    }

    /// Takes transit at the ports of the plan where it is not taken yet.
    fn take_untaken(&self, in_force: &mut InForce) -> Result<(), String> {
        let InForce { plan, holdings } = in_force;
        let ports = plan.ports.iter();
        let untaken = ports.filter(|port| holdings.interface(&port.name).is_none());
        let untaken: Vec<_> = untaken
            .map(|port| (port.name.clone(), port.interface.clone()))
            .collect();
        match untaken.is_empty() {
            true => Ok(()),
            false => holdings.take(&self.handle, &untaken),
        }
    }

    /// Lets the forwarding thread go from the plan in force to this one.
    fn exchange(&self, in_force: &mut InForce, plan: Plan, named: &[String]) -> Result<(), String> {
        let old = &in_force.plan.ports;
        let new: Vec<_> = plan.ports.iter().filter(|p| !is_kept(p, old)).collect();
        in_force.holdings.claim_ports(new.iter().copied())?;
        let mode = plan.router.mode;
        let opened = new
            .iter()
            .map(|port| opened(port, mode).map(|device| ((*port).clone(), device)))
            .collect::<Result<Vec<_>, _>>()?;
        let gone = old.iter().filter(|p| !is_kept(p, &plan.ports));
        let gone: Vec<_> = gone.map(|p| p.name.clone()).collect();
        let changed = plan.ports.iter();
        let changed = changed.filter(|p| named.contains(&p.name) || !old.contains(p));
        let changed: Vec<_> = changed.cloned().collect();
        if !gone.is_empty() {
            self.give_back(in_force, &gone);
        }
        // Without an answer the change is still on its way to a slow worker: what is recorded here
        // must be what will be in force.
        let mode = plan.router.mode;
        in_force.plan = plan;
        self.handle
            .call(move |worker| {
                ports::remove(worker, &gone);
                for (port, device) in opened {
                    ports::add(worker, &port, mode, device);
                }
                ports::reconfigure(worker, &changed);
            })
            .map_err(|e| e.to_string())
    }

    /// Ports that will be removed: the kernel forwards, and what they hold leaves.
    fn give_back(&self, in_force: &mut InForce, gone: &[String]) {
        let ports = gone.join(", ");
        match in_force.holdings.give_back(&self.handle, gone, true) {
            Ok(true) => {}
            Ok(false) => tracing::warn!(ports, "removed with packets in their queues"),
            Err(error) => {
                tracing::warn!(ports, %error, "removed without giving transit back in order")
            }
        }
        if let Err(error) = in_force.holdings.forget(gone) {
            tracing::error!(ports, %error, "the kernel does not forward what comes in by removed ports");
        }
    }

    /// Whether a running router can go from one plan to another.
    fn check(&self, from: &Plan, to: &Plan, messages: &[String]) -> Result<(), String> {
        if from.router != to.router {
            return Err(format!(
                "mode, socket, pool, age_max, watchdog, bypass_netfilter and netfilter_change cannot \
                 change while the router runs; restart it for: {}",
                messages.join(", ")
            ));
        }
        let longest = to.ports.iter().map(|p| frame_bytes_max(&p.interface));
        if longest.max() > Some(self.frame_bytes_max) {
            return Err(format!(
                "an interface has a larger MTU than this router was started for (frames of {} \
                 bytes); restart it",
                self.frame_bytes_max
            ));
        }
        let needed = to.packets_needed();
        if needed > self.pool {
            return Err(format!(
                "full queues would need {needed} packets, but this router was started with a pool \
                 of {}; restart it",
                self.pool
            ));
        }
        Ok(())
    }

    /// Gives the transit of a port to the kernel whose device is lost: whoever is there first when its
    /// interface works again forwards, and that is the kernel.
    pub(super) fn lose(&self, port: &str) {
        let mut in_force = self.lock();
        let name = port.to_owned();
        let is_open = self
            .handle
            .call(move |worker| ports::is_open(worker, &name));
        if is_open != Ok(false) {
            return; // it has come back in the meantime
        }
        if let Err(error) = in_force.holdings.forget(&[port.to_owned()]) {
            tracing::warn!(port, %error, "the rules of a lost port stay until it is back");
        }
    }

    /// Takes the transit of a port again whose interface has come back or has another name.
    pub(super) fn take_again(&self, port: &str, interface: &str) {
        let mut in_force = self.lock();
        if !in_force.plan.ports.iter().any(|p| p.name == port) {
            return; // removed in the meantime
        }
        let InForce { plan, holdings } = &mut *in_force;
        if let Err(error) = holdings.take_again(&self.handle, port, interface) {
            tracing::error!(port, interface, %error, "the kernel forwards what comes in by this port");
        }
        holdings.keep_claims_of(plan);
        self.rates_changed.notify_one();
    }

    /// Of each interface, the most that the box's own packets may take of it; none where nothing is
    /// paced. Waits for a change that is under way.
    pub(super) fn local_limits(&self) -> Vec<(String, Option<Rate>)> {
        let InForce { plan, holdings } = &*self.lock();
        let limit = |port: &PortPlan| {
            let interface = holdings.interface(&port.name)?;
            Some((interface.to_owned(), port.local_rate()))
        };
        plan.ports.iter().filter_map(limit).collect()
    }

    /// Gives every port back to the kernel, and waits until the router holds nothing.
    pub fn drain(&self) {
        let holdings = &mut self.lock().holdings;
        let ports = holdings.ports();
        match holdings.give_back(&self.handle, &ports, false) {
            Ok(true) => {}
            Ok(false) => tracing::warn!("stopped with packets in queues"),
            Err(error) => tracing::warn!(%error, "stopped without giving transit back in order"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        lock(&self.in_force)
    }
}

/// Whether a port has its interface among these ports too.
fn is_kept(port: &PortPlan, others: &[PortPlan]) -> bool {
    let is_same = |other: &PortPlan| other.name == port.name && other.interface == port.interface;
    others.iter().any(is_same)
}

/// Says which ports are new beside those before, and have no device yet.
fn waiting(in_force: &InForce, before: &[PortPlan]) -> Vec<String> {
    let ports = in_force.plan.ports.iter();
    let waits = |port: &&PortPlan| {
        !is_kept(port, before) && in_force.holdings.interface(&port.name).is_none()
    };
    let say = |PortPlan {
                   name, interface, ..
               }: &PortPlan| {
        format!("port `{name}`: interface `{interface}` is down or missing; the port waits for it")
    };
    ports.filter(waits).map(say).collect()
}

/// Locks even after another thread panicked with the lock held. Only builds that unwind get here: a panic ends a
/// release.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
