//! `weir router`: the parts of a stand-alone router, wired together.
//!
//! ```text
//!  supervisor (parent) <--heartbeat-- child:
//!
//!  file --plan--> Running <---- northbound service (Unix socket)
//!                   |  ^------- signals: HUP apply, TERM and INT stop
//!        commands   v
//!                worker thread <--- tables --- kernel (netlink)
//!                   |---- questions ------------> kernel (neighbours)
//! ```
//!
//! The control side is one asynchronous thread; forwarding has a thread of its own and never waits
//! for it.
//!
//! - [`bypass`]: rules of the machine that transit passes by
//! - [`checks`]: what a plan needs of the machine
//! - [`events`]: what the forwarding thread asks and says
//! - [`running`]: changes of what runs
//! - [`ports`]: ports and their devices
//! - [`holdings`]: what is claimed and taken from the kernel, and given back
//! - [`limits`]: what the box itself sends, and devices on ports
//! - [`heartbeat`], [`supervisor`]: a router that hangs is ended, so that the kernel forwards
//! - [`service_manager`]: what systemd is told

pub(crate) mod bypass;
mod checks;
mod events;
mod heartbeat;
mod holdings;
mod limits;
mod ports;
mod running;
mod service_manager;
mod supervisor;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use weir_lfb::Plan;
use weir_live::kernel::follow;
use weir_live::kernel::neighbours::Neighbours;
use weir_live::worker::Worker;
use weir_northbound::Service;
use weir_path::tables::Tables;

pub(crate) use self::checks::{doubts, obstacles};
use self::events::{Inbox, handle_events};
use self::heartbeat::Heart;
use self::holdings::Holdings;
use self::running::Limits;
pub(crate) use self::running::Running;
pub(crate) use self::running::lock;
use crate::journal::{self, Totals};
use crate::operator::Console;
use crate::{Failure, configuration, release_signals};

/// Runs a router until it is told to stop. `is_child` says that a supervisor has started this process.
pub(crate) fn run(config: &Path, is_child: bool) -> Result<(), Failure> {
    if config.as_os_str() == "-" {
        let why =
            "a router reads its configuration again on SIGHUP: give it a file, not standard input";
        return Err(Failure::Usage(why.to_owned()));
    }
    let plan = configuration::load_here(config)?;
    let heart = match (is_child, plan.router.watchdog) {
        (false, Some(limit)) => return supervisor::supervise(config, limit),
        (true, Some(limit)) => Heart::of_child(limit),
        (_, None) => Heart::of_single_process(),
    };
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
    let result = runtime.block_on(serve(config, plan, heart));
    runtime.shutdown_background();
    result
}

async fn serve(config: &Path, plan: Plan, heart: Heart) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Run(format!("signals: {e}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let mut ending = Ending::new().map_err(failed)?;
    release_signals()?;
    let socket = PathBuf::from(&plan.router.socket);
    let service = Service::bind(&socket);
    let service =
        service.map_err(|e| Failure::Run(format!("`socket` {}: {e}", socket.display())))?;
    let (running, thread, inbox) = tokio::select! {
        biased;
        () = ending.asked() => return Ok(()), // nothing is taken from the kernel yet
        started = start(plan) => started.map_err(Failure::Run)?,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_kernel(Arc::clone(&running)));
    tasks.spawn(handle_events(Arc::clone(&running), inbox));
    tasks.spawn(serve_northbound(Arc::clone(&running), service));
    tasks.spawn(limits::follow_links(Arc::clone(&running)));
    tasks.spawn(limits::follow_rates(Arc::clone(&running)));
    tasks.spawn(bypass::follow(Arc::clone(&running)));
    tasks.spawn(heart.clone().beat(running.handle.clone()));
    let started = Instant::now();
    journal::started(&running.plan(), running.pool());
    let result = loop {
        tokio::select! {
            _ = hangup.recv() => reload(&running, config),
            () = ending.asked() => break Ok(()),
            Some(ended) = tasks.join_next() => {
                break Err(Failure::Run(ended.unwrap_or_else(|e| e.to_string())));
            }
        }
    };
    tracing::info!(
        "router stops: the kernel forwards, and queues drain; another signal ends it at once"
    );
    let drained = Arc::clone(&running);
    tokio::select! {
        _ = tokio::task::spawn_blocking(move || drained.drain()) => {}
        () = ending.asked() => {}
    }
    let totals = running.handle.call(|worker| Totals::of(&worker.plane)).ok();
    heart.ends();
    tasks.shutdown().await;
    if running.handle.call(Worker::stop).is_ok() {
        let _ = thread.join();
    }
    journal::stopped(totals, started);
    result // with the last of `running` the guard's table goes
}

type Started = (Arc<Running>, std::thread::JoinHandle<Worker>, Inbox);

/// Claims the interfaces, opens the ports, and takes transit from the kernel, in this order. It waits for other
/// tasks only before it takes anything, so that it can be given up.
async fn start(plan: Plan) -> Result<Started, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let mut holdings = Holdings::claim(&plan)?;
    let (event, inbox) = Inbox::new();
    let mut worker = ports::worker(&plan, event)?;
    let limits = Limits {
        frame_bytes_max: worker.plane.frame_bytes_max(),
        pool: worker.plane.pool_packets(),
    };
    // The kernel forwards until its tables are known here.
    let tables = follow::read()
        .await
        .map_err(|e| failed("kernel tables", &e))?;
    let tables = Arc::new(tables);
    worker.set_tables(Arc::clone(&tables));
    let neighbours = Neighbours::new().map_err(|e| failed("netlink", &e))?;
    let (handle, thread) = worker
        .start()
        .map_err(|e| failed("forwarding thread", &e))?;
    let ports = plan.ports.iter();
    let ports: Vec<_> = ports
        .map(|port| (port.name.clone(), port.interface.clone()))
        .collect();
    holdings.take(&handle, &ports)?;
    let running = Running::new(handle, tables, limits, neighbours, plan, holdings);
    Ok((Arc::new(running), thread, inbox))
}

/// The signals that ask for the end.
struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

impl Ending {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reads the configuration again, on a thread that may wait.
fn reload(running: &Arc<Running>, config: &Path) {
    let (running, config) = (Arc::clone(running), config.to_owned());
    tokio::task::spawn_blocking(move || running.reload(&config));
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
        journal::tables(&running.tables.load(), &tables);
        running.tables.store(Arc::clone(&tables));
        running.tables_changed.notify_one();
        let posted = running.handle.post(move |worker| worker.set_tables(tables));
        if let Err(error) = posted {
            tracing::error!(%error, "routes and neighbours stay as they were");
        }
    };
    match follow::follow(publish).await {
        Err(error) => format!("cannot follow the kernel's tables: {error}"),
    }
}
