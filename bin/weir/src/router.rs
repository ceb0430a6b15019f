//! `weir router`: the parts of a stand-alone router, wired together.
//!
//! ```text
//!  file --plan--> Running <---- northbound service (Unix socket)
//!                   |  ^------- signals: HUP apply, TERM and INT stop
//!        commands   v
//!                worker thread <--- tables --- kernel (netlink)
//!                   |---- questions ------------> kernel (neighbours)
//! ```
//!
//! The control side is one asynchronous thread; forwarding has a thread of its own and never waits
//! for it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_base::Streams;
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_live::clock;
use weir_live::device::Device;
use weir_live::device::af_packet::{self, AfPacket, Options};
use weir_live::kernel::neighbours::Neighbours;
use weir_live::kernel::transit::{self, TransitGuard};
use weir_live::kernel::{follow, netfilter};
use weir_live::worker::{Event, Handle, Opener, Worker};
use weir_model::{Change, Fault};
use weir_northbound::Service;
use weir_path::parse::Mode;
use weir_path::plane::Plane;
use weir_path::tables::Tables;

use crate::operator::Console;
use crate::{Failure, configuration};

/// Ethernet header and two tags.
const LAYER_2_BYTES: usize = 22;
/// Events that wait for the control side. A question that does not fit is lost, and its packets
/// are given up; the next packet after that asks again.
const EVENTS_MAX: usize = 1024;
/// Changes of single components follow each other at least this far apart.
const CHANGE_GAP: Duration = Duration::from_millis(1);

/// The running router.
pub(crate) struct Running {
    /// The forwarding thread.
    pub(crate) handle: Handle,
    /// The latest snapshot of the kernel's tables.
    pub(crate) tables: ArcSwap<Tables>,
    /// The longest frame that the pool can hold; fixed at the start.
    frame_bytes_max: usize,
    /// Packets that the pool can hold; fixed at the start.
    pool: usize,
    neighbours: Mutex<Neighbours>,
    in_force: Mutex<InForce>,
    /// When single components were changed last. Whoever changes some holds it while he waits for his
    /// turn, and nothing else waits for it.
    changed: Mutex<Instant>,
}

struct InForce {
    plan: Plan,
    /// Keeps transit away from the kernel for as long as it lives.
    guard: TransitGuard,
}

/// Runs a router until it is told to stop.
pub(crate) fn run(config: &Path) -> Result<(), Failure> {
    let plan = configuration::load(config)?;
    let obstacles = obstacles(&plan);
    if !obstacles.is_empty() {
        return Err(Failure::Usage(obstacles.join("\n")));
    }
    for doubt in doubts(&plan) {
        tracing::warn!("{doubt}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Run(e.to_string()))?;
    let result = runtime.block_on(serve(config, plan));
    runtime.shutdown_background();
    result
}

/// What keeps this plan from being started on this machine, a sentence each.
pub(crate) fn obstacles(plan: &Plan) -> Vec<String> {
    let mut obstacles = Vec::new();
    for port in &plan.ports {
        let (name, interface) = (&port.name, &port.interface);
        match af_packet::is_ethernet(interface) {
            Ok(true) => {}
            Ok(false) => obstacles.push(format!(
                "port `{name}`: interface `{interface}` carries no Ethernet frames; only \
                 Ethernet interfaces can be ports"
            )),
            Err(error) => {
                obstacles.push(format!("port `{name}`: interface `{interface}`: {error}"));
            }
        }
    }
    if plan.router.mode == Mode::Routed && !plan.router.bypass_netfilter {
        match netfilter::bypassed_rules() {
            Ok(rules) if rules.is_empty() => {}
            Ok(rules) => obstacles.push(format!(
                "transit through weir does not pass these rules of this machine: {}; remove \
                 them, or set `bypass_netfilter = true` if that is what you want",
                rules.join("; ")
            )),
            Err(error) => {
                tracing::warn!(%error, "cannot see whether this machine has forward or NAT rules");
            }
        }
    }
    obstacles
}

/// What is permitted, but probably not meant, a sentence each.
pub(crate) fn doubts(plan: &Plan) -> Vec<String> {
    if plan.router.mode == Mode::Bridged {
        return Vec::new();
    }
    ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]
        .into_iter()
        .filter(|name| {
            let value = std::fs::read_to_string(format!("/proc/sys/{name}"));
            value.is_ok_and(|v| v.trim() == "0")
        })
        .map(|name| {
            format!("{name} is 0: when weir ends, the kernel will not forward in its place")
        })
        .collect()
}

async fn serve(config: &Path, plan: Plan) -> Result<(), Failure> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| Failure::Run(format!("{what}: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(|e| failed("SIGHUP", &e))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| failed("SIGTERM", &e))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| failed("SIGINT", &e))?;
    let socket = PathBuf::from(&plan.router.socket);
    let service = Service::bind(&socket);
    let service = service
        .map_err(|e| Failure::Run(format!("`socket` {}: {e}", socket.display())))?;
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let mut worker = worker(&plan, events).map_err(Failure::Run)?;
    let frame_bytes_max = worker.plane.frame_bytes_max();
    let pool = worker.plane.pool_packets();
    // The kernel forwards until its tables are known here.
    let tables = follow::read()
        .await
        .map_err(|e| failed("kernel tables", &e))?;
    let tables = Arc::new(tables);
    worker.set_tables(Arc::clone(&tables));
    let guard = guard(&plan).map_err(|e| failed("cannot keep transit from the kernel", &e))?;
    let neighbours = Neighbours::new().map_err(|e| failed("netlink", &e))?;
    let (handle, thread) = worker
        .start()
        .map_err(|e| failed("forwarding thread", &e))?;
    let running = Arc::new(Running {
        handle,
        tables: ArcSwap::new(tables),
        frame_bytes_max,
        pool,
        neighbours: Mutex::new(neighbours),
        in_force: Mutex::new(InForce { plan, guard }),
        changed: Mutex::new(Instant::now()),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_kernel(Arc::clone(&running)));
    tasks.spawn(handle_events(Arc::clone(&running), inbox));
    tasks.spawn(serve_northbound(Arc::clone(&running), service));
    tracing::info!("router runs");
    let result = loop {
        tokio::select! {
            _ = hangup.recv() => running.reload(config),
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            Some(ended) = tasks.join_next() => {
                break Err(Failure::Run(ended.unwrap_or_else(|e| e.to_string())));
            }
        }
    };
    tracing::info!("router stops");
    tasks.shutdown().await;
    if running.handle.call(Worker::stop).is_ok() {
        let _ = thread.join();
    }
    result // with the last of `running` the guard goes, and the kernel forwards
}

/// The worker with every port open.
fn worker(plan: &Plan, events: mpsc::Sender<Event>) -> Result<Worker, String> {
    let frame_bytes_max = plan
        .ports
        .iter()
        .map(|p| frame_bytes_max(&p.interface))
        .max();
    let plane = Plane::new(
        plan.router.mode,
        plan.router.pool.unwrap_or(2 * plan.packets_needed()),
        frame_bytes_max.unwrap_or_default(),
        Streams::new(entropy()),
    );
    let event = Box::new(move |event| {
        // Full: the control side is far behind.
        let _ = events.try_send(event);
    });
    let mut worker = Worker::new(plane, event);
    for port in &plan.ports {
        let device = opened(port, plan.router.mode)?;
        add_port(&mut worker, port, device);
    }
    Ok(worker)
}

/// A seed that no sender can know: the standard library keys its own hash maps with it.
fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A device if it could be opened, and how to open it (again).
type Opened = (Option<Box<dyn Device>>, Opener);

fn opened(port: &PortPlan, mode: Mode) -> Result<Opened, String> {
    let interface = port.interface.clone();
    let mut open: Opener = Box::new(move || {
        let options = Options {
            promiscuous: mode == Mode::Bridged,
            ..Options::default()
        };
        Ok(Box::new(AfPacket::open(&interface, options)?))
    });
    let device = open().map(Some).or_else(|error| {
        if af_packet::device_gone(&error) {
            let (port, interface) = (&port.name, &port.interface);
            tracing::warn!(
                port,
                interface,
                "the interface is down; the port waits for it"
            );
            return Ok(None);
        }
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => " (CAP_NET_RAW is needed)",
            _ => "",
        };
        let (name, interface) = (&port.name, &port.interface);
        Err(format!(
            "port `{name}`: cannot open `{interface}`: {error}{hint}"
        ))
    })?;
    Ok((device, open))
}

fn add_port(worker: &mut Worker, port: &PortPlan, (device, open): Opened) {
    worker.plane.add_port(
        &port.name,
        &port.interface,
        port.discipline.clone(),
        port.link(frame_bytes_max(&port.interface) as u32),
        clock::now(),
    );
    worker.bind(device, open);
}

/// Keeps transit away from the kernel at the plan's ports.
fn guard(plan: &Plan) -> Result<TransitGuard, transit::Error> {
    let ports: Vec<_> = plan
        .ports
        .iter()
        .map(|p| (p.interface.as_str(), plan.router.mode))
        .collect();
    TransitGuard::install(&ports)
}

async fn serve_northbound(running: Arc<Running>, service: Service) -> String {
    let console = Arc::new(Console::new(running));
    match service.serve(console).await {
        Ok(()) => "the northbound service has ended".to_owned(),
        Err(error) => format!("northbound service: {error}"),
    }
}

/// Gives each new state of the kernel's tables to the forwarding thread.
async fn follow_kernel(running: Arc<Running>) -> String {
    let publish = |tables: Tables| {
        let tables = Arc::new(tables);
        running.tables.store(Arc::clone(&tables));
        if let Err(error) = lock(&running.neighbours).update(&tables) {
            tracing::warn!(%error, "the kernel does not keep neighbours known");
        }
        let posted = running.handle.post(move |worker| worker.set_tables(tables));
        if let Err(error) = posted {
            tracing::error!(%error, "routes and neighbours stay as they were");
        }
    };
    match follow::follow(publish).await {
        Err(error) => format!("cannot follow the kernel's tables: {error}"),
    }
}

/// Does what the forwarding thread asks for.
async fn handle_events(running: Arc<Running>, mut inbox: mpsc::Receiver<Event>) -> String {
    while let Some(event) = inbox.recv().await {
        match event {
            Event::Resolve((interface, address)) => {
                if let Err(error) = lock(&running.neighbours).resolve(interface, address) {
                    tracing::debug!(%address, %error, "the kernel does not resolve a neighbour");
                }
            }
            Event::PortLost(_) => {}
            Event::Retired(tables) => drop(tables),
            // The rule went away with the interface that it was bound to.
            Event::PortBack(name) => running.guard_again(&name),
        }
    }
    "the forwarding thread has ended".to_owned()
}

impl Running {
    /// The plan in force.
    pub(crate) fn plan(&self) -> Plan {
        self.lock().plan.clone()
    }

    /// Puts a plan in force and says what changed, or changes nothing and says why.
    pub(crate) fn apply(&self, plan: Plan) -> Result<Vec<String>, String> {
        self.put_in_force(&mut self.lock(), plan, &[])
    }

    /// Changes single components of the plan in force; says what changed, or why nothing did. A
    /// port that is named hears of it also if nothing changes: a discipline may take a value that
    /// is set again as a sign of life.
    pub(crate) fn change(&self, changes: &[Change]) -> Result<Vec<String>, Vec<String>> {
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
        std::thread::sleep(CHANGE_GAP.saturating_sub(changed.elapsed()));
        *changed = Instant::now();
    }

    fn put_in_force(
        &self,
        in_force: &mut InForce,
        plan: Plan,
        named: &[String],
    ) -> Result<Vec<String>, String> {
        let mut messages = configuration::differences(&in_force.plan.shown(), &plan.shown());
        if messages.is_empty() {
            messages.push("nothing to change".to_owned());
        }
        self.check(&in_force.plan, &plan, &messages)?;
        let kept = |port: &PortPlan, others: &[PortPlan]| {
            let same = |o: &PortPlan| o.name == port.name && o.interface == port.interface;
            others.iter().any(same)
        };
        let new = plan.ports.iter().filter(|p| !kept(p, &in_force.plan.ports));
        let mode = plan.router.mode;
        let opened = new
            .map(|port| opened(port, mode).map(|device| (port.clone(), device)))
            .collect::<Result<Vec<_>, _>>()?;
        let gone = in_force.plan.ports.iter().filter(|p| !kept(p, &plan.ports));
        let gone: Vec<_> = gone.map(|p| p.name.clone()).collect();
        // What is new is guarded before it is used; the old guard goes last.
        let guard = match opened.is_empty() && gone.is_empty() {
            true => None,
            false => Some(guard(&plan).map_err(|e| e.to_string())?),
        };
        let ports = plan.ports.iter();
        let changed = ports.filter(|p| named.contains(&p.name) || !in_force.plan.ports.contains(p));
        let changed: Vec<_> = changed.cloned().collect();
        let done = self
            .handle
            .call(move |worker| change_ports(worker, &gone, opened, &changed));
        // Without an answer the change is still on its way to a slow worker: what is recorded here
        // must be what will be in force.
        if let Some(guard) = guard {
            in_force.guard = guard;
        }
        in_force.plan = plan;
        done.map(|()| messages).map_err(|e| e.to_string())
    }

    /// Whether a running router can go from one plan to another.
    fn check(&self, from: &Plan, to: &Plan, messages: &[String]) -> Result<(), String> {
        if from.router != to.router {
            return Err(format!(
                "mode, socket, pool and bypass_netfilter cannot change while the router runs; \
                 restart it for: {}",
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

    /// Reads the configuration again, as SIGHUP asks for.
    fn reload(&self, config: &Path) {
        let applied =
            configuration::load(config).and_then(|plan| self.apply(plan).map_err(Failure::Usage));
        match applied {
            Ok(messages) => tracing::info!(changes = messages.join(", "), "configuration applied"),
            Err(Failure::Usage(why) | Failure::Run(why)) => {
                tracing::error!("configuration refused, nothing changed: {why}");
            }
        }
    }

    fn guard_again(&self, port: &str) {
        let mut in_force = self.lock();
        let mode = in_force.plan.router.mode;
        let port = in_force.plan.ports.iter().find(|p| p.name == port);
        let Some(interface) = port.map(|p| p.interface.clone()) else {
            return; // removed in the meantime
        };
        if let Err(error) = in_force.guard.protect(&interface, mode) {
            tracing::warn!(%error, "the kernel forwards transit beside this router");
        }
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        lock(&self.in_force)
    }
}

/// What these locks guard is replaced whole, so a panic elsewhere cannot have left half of it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the forwarding thread, between two bursts: from the old ports to the new ones.
fn change_ports(
    worker: &mut Worker,
    gone: &[String],
    opened: Vec<(PortPlan, Opened)>,
    ports: &[PortPlan],
) {
    let number = |worker: &Worker, name: &str| {
        worker
            .plane
            .ports()
            .iter()
            .position(|slot| slot.name == name)
    };
    for name in gone {
        if let Some(number) = number(worker, name) {
            worker.remove_port(number);
        }
    }
    for (port, device) in opened {
        add_port(worker, &port, device);
    }
    for port in ports {
        if let Some(number) = number(worker, &port.name) {
            let link = port.link(frame_bytes_max(&port.interface) as u32);
            let discipline = port.discipline.clone();
            worker
                .plane
                .reconfigure_port(number, discipline, link, clock::now());
        }
    }
}

/// The longest frame of an interface, its Ethernet header and a tag included.
fn frame_bytes_max(interface: &str) -> usize {
    af_packet::mtu(interface).unwrap_or(1500) + LAYER_2_BYTES
}
