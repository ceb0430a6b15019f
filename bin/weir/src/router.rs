//! `weir router`: the parts of a router, wired together. `weir-forces fe` runs it as well, with an [`Addition`].
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
//! `weir_live::router` starts, changes and stops the running router. The supervisor is here, because it starts this
//! same program with its own arguments and returns its exit code.
//!
//! - [`heartbeat`], [`supervisor`]: replace a router that hangs or crashes
//! - [`restarts`]: limits the restarts; [`starvation`]: threads that wait for a processor do not hang
//! - [`service_manager`]: notifies systemd
//! - [`operator`]: requests of the northbound service
//! - [`page`]: samples as lines, and the page on loopback; [`listening`]: the page's address

mod heartbeat;
mod listening;
mod operator;
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
use weir_live::kernel::fpm::Fpm;
use weir_live::mutex::lock;
use weir_live::namespace::raise_file_limit;
use weir_live::router::journal::Totals;
use weir_live::router::reader::{Identity, Reader};
use weir_live::router::{self, Running};
use weir_live::worker::Worker;
use weir_northbound::{LiveLine, Service};

use self::heartbeat::Heart;
use self::operator::Console;
use self::page::Viewer;
use crate::configuration::Admission;
use crate::program::release_signals;
use crate::{Failure, configuration, journal};

/// The role of a process with a router.
pub trait Role {
    /// The subcommand that starts the role.
    fn word(&self) -> &'static str;

    /// Checks that the configuration is for this role, and reads the part that the role adds to the router.
    fn prepare(
        &self,
        config: &Path,
        fe: Option<FePlan>,
        plan: &Plan,
    ) -> Result<Option<Arc<dyn Addition>>, Failure>;
}

/// The part of a running router that a role adds.
pub trait Addition: Send + Sync {
    /// The sections of the configuration for this part, which cannot change while the router runs.
    fn plan(&self) -> &FePlan;

    /// Starts the tasks of this part, once. They end when `ends` has a value, and drop it then.
    fn start(
        &self,
        running: &Arc<Running>,
        reader: &Arc<Reader>,
        ends: watch::Receiver<()>,
        tasks: &mut JoinSet<String>,
    );

    /// Checks the parts of the configuration that the router's plan does not contain, and returns how to apply them.
    fn reload(&self, config: &Path, plan: &Plan) -> Result<TakeOver<'_>, String>;

    /// Resumes forwarding; returns the reason why it did not, or `None` if it did.
    fn enable(&self) -> Result<Option<String>, String>;
}

/// Applies the parts that a reload has read; returns the changes, in sentences.
pub type TakeOver<'a> = Box<dyn FnOnce() -> Result<Vec<String>, String> + 'a>;

/// A router on its own: `weir router`.
pub struct Alone;

impl Role for Alone {
    fn word(&self) -> &'static str {
        "router"
    }

    fn prepare(
        &self,
        config: &Path,
        fe: Option<FePlan>,
        _: &Plan,
    ) -> Result<Option<Arc<dyn Addition>>, Failure> {
        let config = config.display();
        match fe {
            Some(_) => Err(Failure::Usage(format!(
                "{config}: the section [fe] makes this router a forwarding element: start it with `weir fe {config}`"
            ))),
            None => Ok(None),
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Runs a router until a signal ends it. `restarts`: the number of earlier processes if a supervisor started this one.
pub fn run(config: &Path, restarts: Option<u64>, role: &dyn Role) -> Result<(), Failure> {
    if config.as_os_str() == "-" {
        let why = "a router rereads its configuration on SIGHUP: name a file, not standard input";
        return Err(Failure::Usage(why.to_owned()));
    }
    let Admission {
        plan, facts, fe, ..
    } = configuration::load_here(config)?;
    let addition = role.prepare(config, fe, &plan)?;
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
    let result = runtime.block_on(serve(config, (plan, facts), addition, (heart, identity)));
    runtime.shutdown_background();
    result
}

async fn serve(
    config: &Path,
    (plan, facts): (Plan, Facts),
    addition: Option<Arc<dyn Addition>>,
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
    let fpm = plan.router.fpm.map(Fpm::listen).transpose();
    let fpm = fpm.map_err(|e| Failure::Run(e.to_string()))?;
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
    router::spawn_tasks(&running, fpm, inbox, &mut tasks);
    let reader = Arc::new(Reader::new(Arc::clone(&running), identity));
    let reloads = addition.clone().map(|addition| Reloads {
        addition,
        file: Arc::new(Mutex::new(file)),
    });
    spawn_readers(&running, &reader, addition.clone(), service, &mut tasks);
    let (end_element, element_ends) = watch::channel(());
    if let Some(addition) = addition {
        addition.start(&running, &reader, element_ends, &mut tasks);
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
        "the router is stopping: the kernel forwards, and queues drain; another signal stops it immediately"
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
    result // dropping the last `running` ends the control thread, which hands the rest back to the kernel
}

/// Ends the associations with control elements, hands the traffic over to the kernel, and waits for the queues.
async fn stop(running: Arc<Running>, element: watch::Sender<()>) {
    element.send_replace(());
    element.closed().await; // the associations have ended
    let _ = tokio::task::spawn_blocking(move || running.stop()).await; // it panics only with the router
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

    /// Waits for one of these signals.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reloads the configuration, on a thread that may block.
fn reload(running: &Arc<Running>, config: &Path, reloads: Option<Reloads>) {
    let (running, config) = (Arc::clone(running), config.to_owned());
    tokio::task::spawn_blocking(move || {
        journal::changed("SIGHUP", None, &reloaded(&running, &config, reloads));
    });
}

/// The state that a reload needs in addition to the router's own plan.
#[derive(Clone)]
struct Reloads {
    addition: Arc<dyn Addition>,
    /// The plan of the router in the last file that was read.
    file: Arc<Mutex<Plan>>,
}

/// Applies a configuration, with the certificates of a forwarding element: all of it or nothing. Changes that control
/// elements have made at a forwarding element stay as long as the file's plan of the router does not change.
fn reloaded(
    running: &Running,
    config: &Path,
    reloads: Option<Reloads>,
) -> Result<Vec<String>, Vec<String>> {
    let sentence = |failure: Failure| vec![failure.to_string()];
    let apply = |plan: Plan| running.apply(plan).map_err(configuration::sentences);
    let new = configuration::load(config).map_err(sentence)?;
    let plan = new.for_running(reloads.as_ref().map(|reloads| reloads.addition.plan()))?;
    let Some(Reloads { addition, file }) = reloads else {
        return apply(plan);
    };
    let take_over = addition.reload(config, &plan).map_err(|why| vec![why])?;
    let mut file = lock(&file);
    let mut lines = Vec::new();
    if *file != plan {
        lines = apply(plan.clone())?;
        *file = plan;
    }
    lines.extend(take_over().map_err(|why| vec![why])?);
    Ok(lines)
}

/// Starts the tasks that report the router's state: samples, the page, and the northbound service.
fn spawn_readers(
    running: &Arc<Running>,
    reader: &Arc<Reader>,
    addition: Option<Arc<dyn Addition>>,
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
    let console = Console::new(
        Arc::clone(running),
        Arc::clone(reader),
        live,
        listening,
        addition,
    );
    tasks.spawn(serve_northbound(console, service));
}

async fn serve_northbound(console: Console, service: Service) -> String {
    match service.serve(Arc::new(console)).await {
        Ok(()) => "the northbound service has stopped".to_owned(),
        Err(error) => format!("northbound service: {error}"),
    }
}
