//! Carries out the element's effects: claims, devices, rules, and changes on the forwarding thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use weir_base::Span;
use weir_element::{Completion, Effect, Facts, Limits, Moment, Place};
use weir_layer::LayerPlan;
use weir_lfb::Plan;
use weir_lfb::port::{Direction, PortPlan};
use weir_lfb::redirect::RedirectPlan;
use weir_path::ip::tables::Tables;
use weir_path::plane::{Mode, Plane};

use super::background::{self, Layers, Wake};
use super::events::Inbox;
use super::findings::KernelFindings;
use super::input::Input;
use super::ports::{self, Opened, frame_bytes_max};
use super::survey;
use crate::clock::{self, UnixTime};
use crate::device::{OwnershipWindow, interface};
use crate::kernel::claim::{ClaimError, Claims};
use crate::kernel::follow;
use crate::kernel::neighbours::Neighbours;
use crate::kernel::transit::{Side, TransitGuard};
use crate::mutex::lock;
use crate::worker::{Handle, Lease, Worker};

/// All resources of the machine that the router holds.
pub(super) struct Carrier {
    claims: Claims,
    /// The mark of sent frames.
    mark: u32,
    /// Locked for single changes only, so that readers of its counters do not wait.
    guard: Arc<Mutex<TransitGuard>>,
    /// Directions of ports, by name.
    directions: BTreeMap<String, Direction>,
    /// Devices of ports that are not added yet, by name of the port.
    opened: BTreeMap<String, (Mode, Opened)>,
    tables: Option<Arc<Tables>>,
    worker: Option<Handle>,
    launched: Option<Launched>,
    known: Arc<Mutex<KernelFindings>>,
    /// The active layers, for their background work.
    layers: Layers,
    /// Wakes the background work, once it has started.
    background: Option<Wake>,
    /// The receiver of the result of a long effect; used once.
    report: Option<mpsc::Sender<Input>>,
    runtime: tokio::runtime::Handle,
}

/// The forwarding thread and its companions.
pub(super) struct Launched {
    pub(super) handle: Handle,
    pub(super) thread: JoinHandle<Worker>,
    pub(super) inbox: Inbox,
    pub(super) tables: Arc<Tables>,
    pub(super) neighbours: Neighbours,
}

fn failed(what: &str, error: &dyn Display) -> String {
    format!("{what}: {error}")
}

impl Carrier {
    /// Creates the holders of claims and rules; nothing is claimed or taken yet. Call it within a runtime.
    pub(super) fn new(
        plan: &Plan,
        facts: &Facts,
        report: mpsc::Sender<Input>,
    ) -> Result<Self, String> {
        let owner = format!("process {}, {}", std::process::id(), plan.router.socket);
        let guard = TransitGuard::install(&[])
            .map_err(|e| failed("cannot take over forwarding from the kernel", &e))?
            .marking(plan.router.mark);
        Ok(Self {
            claims: Claims::new(&owner).map_err(|e| failed("netlink", &e))?,
            mark: plan.router.mark.value,
            guard: Arc::new(Mutex::new(guard)),
            directions: BTreeMap::new(),
            opened: BTreeMap::new(),
            tables: None,
            worker: None,
            launched: None,
            known: Arc::new(Mutex::new(KernelFindings::at_start(&facts.findings))),
            layers: Arc::default(),
            background: None,
            report: Some(report),
            runtime: tokio::runtime::Handle::current(),
        })
    }

    /// The guard, which keeps transit from the kernel.
    pub(super) fn guard(&self) -> Arc<Mutex<TransitGuard>> {
        Arc::clone(&self.guard)
    }

    /// Kernel state that the router refuses or warns of.
    pub(super) fn known(&self) -> Arc<Mutex<KernelFindings>> {
        Arc::clone(&self.known)
    }

    /// The result of [`Effect::Launch`], once.
    pub(super) fn take_launched(&mut self) -> Option<Launched> {
        self.launched.take()
    }

    /// Completes the effect [`Effect::ReadTables`], after the kernel's tables have been read.
    pub(super) fn tables_read(&mut self, tables: Result<Tables, String>) -> Completion {
        match tables {
            Ok(tables) => {
                self.tables = Some(Arc::new(tables));
                Completion::Done
            }
            Err(why) => Completion::Failed(why),
        }
    }

    /// Carries out an effect; `None` if its completion will be reported later.
    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Completion> {
        if effect == Effect::ReadTables {
            return self.read_tables();
        }
        let done = self.done(effect);
        Some(done.unwrap_or_else(Completion::Failed))
    }

    /// The kernel may take a long time to deliver its tables, and the router may have to stop meanwhile.
    fn read_tables(&mut self) -> Option<Completion> {
        let Some(report) = self.report.take() else {
            return Some(Completion::Failed(
                "the kernel tables were already read".to_owned(),
            ));
        };
        self.runtime.spawn(async move {
            let tables = follow::read().await;
            let tables = tables.map_err(|e| failed("kernel tables", &e));
            let _ = report.send(Input::Tables(tables)); // without a receiver, the router is stopping
        });
        None
    }

    fn done(&mut self, effect: Effect) -> Result<Completion, String> {
        match effect {
            Effect::Survey { plan, all } => return Ok(Completion::Facts(self.survey(&plan, all))),
            Effect::ReadTables => unreachable!("`read_tables` carries it out"),
            Effect::Claim(place) => self.claim(&place.interface).map_err(|e| e.to_string())?,
            Effect::Open(port, mode) => self.open(port, mode)?,
            Effect::Launch(plan, limits) => self.launch(&plan, limits)?,
            Effect::ListOpen(ports) => return self.list_open(ports),
            Effect::Take(places, mode) => return self.take(&places, mode),
            Effect::Begin(ports, from) => {
                let ownership = OwnershipWindow::from(UnixTime::from_nanos(from.unix_nanos));
                self.on_worker(move |worker| ports::set_ownership(worker, &ports, ownership))?;
            }
            Effect::Settle(places) => {
                let sides: Vec<_> = self.sides(&places).collect();
                let settled = lock(&self.guard).settle(&sides);
                settled.map_err(|e| e.to_string())?;
            }
            Effect::GiveBack(places) => return self.give_back(&places),
            Effect::End(ports, until) => {
                let ownership = OwnershipWindow {
                    until: UnixTime::from_nanos(until.unix_nanos),
                    ..OwnershipWindow::ALWAYS
                };
                self.on_worker(move |worker| ports::set_ownership(worker, &ports, ownership))?;
            }
            Effect::Close(ports) => self.on_worker(move |worker| ports::close(worker, &ports))?,
            Effect::AskDrained { ports, waiting } => return self.ask_drained(ports, waiting),
            Effect::Unprotect(place) => {
                let removed = lock(&self.guard).unprotect(&self.side(&place));
                removed.map_err(|e| e.to_string())?;
                self.on_worker(move |worker| ports::set_unprotected(worker, &place.port))?;
            }
            Effect::Exchange {
                gone,
                added,
                changed,
                redirect,
                layers,
            } => self.exchange(gone, added, changed, redirect, layers)?,
            Effect::Release { kept } => self.release(&kept),
        }
        Ok(Completion::Done)
    }

    fn on_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, String> {
        let worker = self.worker.as_ref();
        let worker = worker.ok_or("the forwarding thread has not started")?;
        worker.call(work).map_err(|e| e.to_string())
    }

    fn survey(&self, plan: &Plan, all: bool) -> Facts {
        if !all {
            return survey::frames(plan);
        }
        let facts = survey::all(plan);
        lock(&self.known).permit(&facts.findings, &plan.router);
        facts
    }

    fn claim(&mut self, interface: &str) -> Result<(), ClaimError> {
        match interface::index(interface) {
            Ok(index) => self.claims.claim(index),
            Err(error) if interface::device_gone(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&mut self, port: PortPlan, mode: Mode) -> Result<(), String> {
        let opened = ports::opened(&port, mode, self.mark)?;
        self.opened.insert(port.name, (mode, opened));
        Ok(())
    }

    /// The devices of ports to be added, each with the longest frame of its interface. The forwarding thread must
    /// determine neither, because it opens no sockets.
    fn with_devices(&mut self, ports: Vec<PortPlan>) -> Result<Vec<ports::Addition>, String> {
        let with_device = |port: PortPlan| {
            let opened = self.opened.remove(&port.name);
            let (mode, device) =
                opened.ok_or_else(|| format!("port `{}` was not opened", port.name))?;
            // Until now a port of this name may have had another direction.
            self.directions.insert(port.name.clone(), port.direction);
            Ok(ports::Addition {
                frame_bytes_max: frame_bytes_max(&port.interface),
                port,
                mode,
                device,
            })
        };
        ports.into_iter().map(with_device).collect()
    }

    fn launch(&mut self, plan: &Plan, limits: Limits) -> Result<(), String> {
        let (wake, background) = background::prepare();
        let (event, inbox) = Inbox::new(wake.clone());
        let additions = self.with_devices(plan.ports.clone())?;
        let mut worker = ports::worker(&plan.router, limits, additions, event);
        let policy = plan.redirect.policy.clone();
        worker.plane.set_exception_policy(policy, clock::now());
        let tables = self.tables.take().unwrap_or_default();
        worker.set_tables(Arc::clone(&tables));
        self.guard_tunnels(&plan.layers)?;
        drop(apply(&plan.layers, &mut worker.plane));
        if let Some(limit) = plan.router.watchdog {
            worker.set_lease(self.lease(limit));
        }
        self.background = Some(wake);
        self.set_layers(&plan.layers);
        let neighbours = Neighbours::new().map_err(|e| failed("netlink", &e))?;
        let (handle, thread) = worker
            .start()
            .map_err(|e| failed("forwarding thread", &e))?;
        background.start(&handle, &self.layers, ports::entropy())?;
        self.worker = Some(handle.clone());
        self.launched = Some(Launched {
            handle,
            thread,
            inbox,
            tables,
            neighbours,
        });
        Ok(())
    }

    /// A lease on transit, if this kernel supports it.
    fn lease(&self, limit: Span) -> Option<Lease> {
        let renewal = lock(&self.guard).lease(Lease::lifetime(limit));
        let renewal = renewal.inspect_err(|error| {
            tracing::warn!(
                %error,
                "no transit lease, which needs Linux 5.16: if router and supervisor both freeze, nobody forwards"
            );
        });
        let lease = Lease::new(renewal.ok()?);
        lease.inspect_err(|error| self.end_lease(error)).ok()
    }

    /// Continues without a lease that cannot be renewed.
    fn end_lease(&self, why: &dyn Display) {
        let ended = lock(&self.guard).end_lease();
        let rules = ended.err().map(tracing::field::display);
        tracing::warn!(
            error = %why,
            rules,
            "transit lease disabled: if router and supervisor both freeze, nobody forwards"
        );
    }

    /// Renews the lease on which the active rules depend.
    fn renew_lease(&self) -> Result<(), String> {
        let Err(error) = self.on_worker(Worker::renew_lease)? else {
            return Ok(());
        };
        self.end_lease(&error);
        self.on_worker(|worker| worker.set_lease(None))
    }

    fn list_open(&self, ports: Vec<String>) -> Result<Completion, String> {
        self.on_worker(move |worker| {
            let open = ports.into_iter();
            let open = open.filter(|port| ports::is_open(worker, port));
            Completion::Open(open.collect())
        })
    }

    fn take(&self, places: &[Place], mode: Mode) -> Result<Completion, String> {
        let sides: Vec<_> = self.sides(places).map(|side| (side, mode)).collect();
        let from = lock(&self.guard).take(&sides);
        let from = from.map_err(|e| e.to_string())?;
        self.renew_lease()?;
        Ok(moment(from.max(UnixTime::now()))) // until the renewal, the kernel may have forwarded
    }

    fn give_back(&self, places: &[Place]) -> Result<Completion, String> {
        // Rules vanish with their interface.
        let there = self.sides(places);
        let there = there.filter(|side| interface::index(&side.interface).is_ok());
        let until = lock(&self.guard).give_back(&there.collect::<Vec<_>>());
        until.map(moment).map_err(|e| e.to_string())
    }

    /// The frames that the router takes at a place.
    fn side(&self, place: &Place) -> Side {
        let direction = self.directions.get(&place.port);
        Side {
            interface: place.interface.clone(),
            direction: direction.copied().unwrap_or(Direction::Out),
        }
    }

    fn sides<'a>(&'a self, places: &'a [Place]) -> impl Iterator<Item = Side> + 'a {
        places.iter().map(|place| self.side(place))
    }

    fn ask_drained(&self, ports: Vec<String>, waiting: bool) -> Result<Completion, String> {
        self.on_worker(move |worker| {
            let none_waits = worker.plane.waiting().neighbours().next().is_none();
            let is_drained = ports::are_drained(worker, &ports) && (!waiting || none_waits);
            Completion::Drained(is_drained)
        })
    }

    fn exchange(
        &mut self,
        gone: Vec<String>,
        added: Vec<PortPlan>,
        changed: Vec<PortPlan>,
        redirect: Option<Arc<RedirectPlan>>,
        layers: Option<Arc<Vec<LayerPlan>>>,
    ) -> Result<(), String> {
        let additions = self.with_devices(added)?;
        if let Some(layers) = &layers {
            self.guard_tunnels(layers)?;
            self.set_layers(layers);
        }
        let replaced = self.on_worker(move |worker| {
            ports::remove(worker, &gone);
            for addition in additions {
                ports::add(worker, addition);
            }
            ports::reconfigure(worker, &changed);
            if let Some(redirect) = redirect {
                worker
                    .plane
                    .set_exception_policy(redirect.policy.clone(), clock::now());
            }
            layers.map(|layers| apply(&layers, &mut worker.plane))
        })?;
        drop(replaced); // here, not on the forwarding thread
        Ok(())
    }

    /// Passes changed layers to their background work.
    fn set_layers(&self, layers: &Arc<Vec<LayerPlan>>) {
        self.layers.store(Arc::clone(layers));
        if let Some(background) = &self.background {
            background.wake();
        }
    }

    /// Keeps the packets of the layers' tunnels from the kernel.
    fn guard_tunnels(&self, layers: &[LayerPlan]) -> Result<(), String> {
        let tunnels: Vec<_> = layers.iter().flat_map(LayerPlan::tunnels).collect();
        let guarded = lock(&self.guard).set_tunnels(&tunnels);
        guarded.map_err(|e| e.to_string())
    }

    fn release(&mut self, kept: &[String]) {
        self.opened.clear();
        let kept = kept.iter();
        let kept = kept.filter_map(|interface| interface::index(interface).ok());
        self.claims.keep_only(&kept.collect::<BTreeSet<u32>>());
    }
}

/// Applies layers to a plane. Returns the replaced parts.
fn apply(layers: &[LayerPlan], plane: &mut Plane) -> Vec<Box<dyn Send>> {
    let layers = layers.iter();
    layers
        .map(|layer| layer.apply(plane, clock::now()))
        .collect()
}

fn moment(when: UnixTime) -> Completion {
    let remaining = Span::from_nanos(when.remaining().as_nanos() as u64);
    Completion::Moment(Moment {
        at: clock::now() + remaining,
        unix_nanos: when.as_nanos(),
    })
}
