//! `weir router` and `weir fe`: the parts of a router, wired together.
//!
//! ```text
//!  supervisor (parent) <--heartbeat-- child:
//!
//!  file --plan--> Running <---- northbound service (Unix socket)
//!                   |  ^------- signals: HUP apply, TERM and INT stop
//!        commands   v
//!                worker thread <--- tables --- kernel (netlink)
//!                   |---- requests -------------> kernel (neighbours)
//! ```
//!
//! The control side is one asynchronous thread. Forwarding has its own thread and never waits for the control side.
//!
//! `weir_live::router` starts, changes and stops the running router. The supervisor stays here: it starts this same
//! program with its own arguments and passes on its exit code.
//!
//! - [`heartbeat`], [`supervisor`]: a router that hangs or crashes is replaced
//! - [`restarts`]: how often; [`starvation`]: threads that wait for a processor do not hang
//! - [`service_manager`]: notifies systemd
//! - [`page`]: samples as lines, and the page on loopback

mod heartbeat;
mod page;
mod restarts;
mod service_manager;
mod starvation;
mod supervisor;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_base::Span;
use weir_element::Facts;
use weir_lfb::Plan;
use weir_lfb::fe::FePlan;
use weir_live::mutex::lock;
use weir_live::namespace::raise_file_limit;
use weir_live::router::journal::Totals;
use weir_live::router::reader::{Identity, Reader};
use weir_live::router::{self, Running};
use weir_live::worker::Worker;
use weir_northbound::{LiveLine, Service};

use self::heartbeat::Heart;
use self::page::Viewer;
use crate::configuration::Admission;
use crate::operator::Console;
use crate::{Failure, configuration, journal, release_signals};

/// The role of a process with a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A router on its own: `weir router`.
    Router,
    /// A forwarding element: `weir fe`.
    ForwardingElement,
}

impl Role {
    /// The subcommand.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::ForwardingElement => "fe",
        }
    }

    /// Checks that the configuration is for this role.
    fn check(self, config: &Path, fe: Option<&FePlan>) -> Result<(), Failure> {
        let config = config.display();
        match (self, fe) {
            (Self::Router, Some(_)) => Err(Failure::Usage(format!(
                "{config}: it has a section [fe], so it is a forwarding element: start it with `weir fe {config}`"
            ))),
            (Self::ForwardingElement, None) => Err(Failure::Usage(format!(
                "{config}: a forwarding element needs the sections [fe] and [ce.NAME]; `weir router {config}` starts \
                 a router without control elements"
            ))),
            _ => Ok(()),
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Runs a router until a signal ends it. `restarts`: a supervisor started this process after that number of others.
pub(crate) fn run(config: &Path, restarts: Option<u64>, role: Role) -> Result<(), Failure> {
    if config.as_os_str() == "-" {
        let why =
            "a router reads its configuration again on SIGHUP: give it a file, not standard input";
        return Err(Failure::Usage(why.to_owned()));
    }
    let Admission {
        plan, facts, fe, ..
    } = configuration::load_here(config)?;
    role.check(config, fe.as_ref())?;
    let element = fe.as_ref().map(|fe| crate::fe::prepare(config, fe, &plan));
    let element = element.transpose()?;
    let heart = match (restarts, plan.router.watchdog) {
        (None, Some(limit)) => return supervisor::supervise(config, limit, role),
        (Some(_), Some(limit)) => Heart::of_child(limit),
        (_, None) => Heart::of_single_process(),
    };
    raise_file_limit(u64::MAX).map_err(|e| Failure::Run(e.to_string()))?;
    let identity = Identity {
        version: env!("CARGO_PKG_VERSION"),
        restarts: restarts.unwrap_or(0),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Run(e.to_string()))?;
    let result = runtime.block_on(serve(
        config,
        (plan, facts),
        (fe, element),
        (heart, identity),
    ));
    runtime.shutdown_background();
    result
}

async fn serve(
    config: &Path,
    (plan, facts): (Plan, Facts),
    (fe, element): (Option<FePlan>, Option<weir_forces_live::fe::Params>),
    (heart, identity): (Heart, Identity),
) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Run(format!("signals: {e}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let mut ending = Ending::new().map_err(failed)?;
    release_signals()?;
    let socket = PathBuf::from(&plan.router.socket);
    let service = Service::bind(&socket);
    let service =
        service.map_err(|e| Failure::Run(format!("`socket` {}: {e}", socket.display())))?;
    let file = plan.clone();
    let mut starting = router::start(plan, facts).map_err(Failure::Run)?;
    let started = tokio::select! {
        biased;
        () = ending.asked() => None,
        started = starting.started() => Some(started.map_err(Failure::Run)?),
    };
    let Some((running, thread, inbox)) = started else {
        tokio::select! {
            () = starting.give_up() => {}
            () = ending.asked() => {}
        }
        return Ok(());
    };
    let mut tasks = JoinSet::new();
    router::spawn_tasks(&running, inbox, &mut tasks);
    let reader = Arc::new(Reader::new(Arc::clone(&running), identity));
    for doubt in element.iter().flat_map(crate::fe::doubts) {
        tracing::warn!("{doubt}");
    }
    let (handle, inputs) = weir_forces_live::fe::inputs();
    let reloads = fe.clone().map(|fe| Reloads {
        fe,
        handle: handle.clone(),
        file: Arc::new(Mutex::new(file)),
    });
    let asked = fe.map(|fe| (fe, handle));
    spawn_readers(&running, &reader, asked, service, &mut tasks);
    let (end_element, element_ends) = watch::channel(());
    if let Some(element) = element {
        let running = Arc::clone(&running);
        let run = weir_forces_live::fe::run(running, reader, element, inputs, element_ends);
        tasks.spawn(run);
    } else {
        drop(element_ends);
    }
    let watched = Arc::clone(&running);
    let is_handed_back = move || !watched.in_force().handed_back.is_empty();
    tasks.spawn(heart.clone().beat(running.handle.clone(), is_handed_back));
    let started = Instant::now();
    router::journal::started(&running.in_force());
    let result = loop {
        tokio::select! {
            _ = hangup.recv() => reload(&running, config, reloads.clone()),
            () = ending.asked() => break Ok(()),
            Some(ended) = tasks.join_next() => {
                break Err(Failure::Run(ended.unwrap_or_else(|e| e.to_string())));
            }
        }
    };
    tracing::info!(
        "router stops: the kernel forwards, and queues drain; another signal ends it at once"
    );
    tokio::select! {
        () = stop(Arc::clone(&running), end_element) => {}
        () = ending.asked() => {}
    }
    let totals = running.handle.call(|worker| Totals::of(&worker.plane)).ok();
    heart.ends();
    tasks.shutdown().await;
    if running.handle.call(Worker::stop).is_ok() {
        let _ = thread.join();
    }
    router::journal::stopped(totals, started);
    result // dropping the last `running` ends the control thread, which gives everything left back to the kernel
}

/// Ends the associations with control elements, hands the traffic over to the kernel, and waits for the queues.
async fn stop(running: Arc<Running>, element: watch::Sender<()>) {
    element.send_replace(());
    element.closed().await; // the control elements know
    let _ = tokio::task::spawn_blocking(move || running.stop()).await; // it panics with the router only
}

/// The signals that stop the router.
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

/// Reads the configuration again, on a thread that may block.
fn reload(running: &Arc<Running>, config: &Path, fe: Option<Reloads>) {
    let (running, config) = (Arc::clone(running), config.to_owned());
    tokio::task::spawn_blocking(move || {
        journal::changed("SIGHUP", None, &reloaded(&running, &config, fe));
    });
}

/// The parts of a forwarding element that a reload reads.
#[derive(Clone)]
struct Reloads {
    fe: FePlan,
    handle: weir_forces_live::fe::Handle,
    /// The router as its file had it last.
    file: Arc<Mutex<Plan>>,
}

/// Takes over a configuration, with the certificates of a forwarding element: all of it or nothing. What control elements
/// have set at a forwarding element stays while its file says the same about the router as before.
fn reloaded(
    running: &Running,
    config: &Path,
    fe: Option<Reloads>,
) -> Result<Vec<String>, Vec<String>> {
    let sentence = |failure: Failure| vec![failure.to_string()];
    let apply = |plan: Plan| running.apply(plan).map_err(configuration::sentences);
    let new = configuration::load(config).map_err(sentence)?;
    let plan = new.for_running(fe.as_ref().map(|element| &element.fe))?;
    let Some(Reloads { fe, handle, file }) = fe else {
        return apply(plan);
    };
    let params = crate::fe::prepare(config, &fe, &plan).map_err(sentence)?;
    let mut file = lock(&file);
    let mut lines = Vec::new();
    if *file != plan {
        lines = apply(plan.clone())?;
        *file = plan;
    }
    lines.extend(
        handle
            .replace_certificates(params.ces)
            .map_err(|why| vec![why])?,
    );
    Ok(lines)
}

/// Starts the tasks that show the router: samples, the page, and the northbound service.
fn spawn_readers(
    running: &Arc<Running>,
    reader: &Arc<Reader>,
    fe: Option<(FePlan, weir_forces_live::fe::Handle)>,
    service: Service,
    tasks: &mut JoinSet<String>,
) {
    let (lines, live) = watch::channel(LiveLine::default());
    tasks.spawn(Arc::clone(reader).sample());
    tasks.spawn(page::make_lines(Arc::clone(reader), lines));
    let viewer = Viewer {
        running: Arc::clone(running),
        reader: Arc::clone(reader),
        live: live.clone(),
    };
    let listening = Arc::default();
    tasks.spawn(page::serve(
        Arc::clone(running),
        viewer,
        Arc::clone(&listening),
    ));
    let console = Console::new(Arc::clone(running), Arc::clone(reader), live, listening, fe);
    tasks.spawn(serve_northbound(console, service));
}

async fn serve_northbound(console: Console, service: Service) -> String {
    match service.serve(Arc::new(console)).await {
        Ok(()) => "the northbound service has ended".to_owned(),
        Err(error) => format!("northbound service: {error}"),
    }
}
