//! `weir-forces ce`: a control element; connects its parts.

mod asker;
mod console;
mod listeners;
mod reload;
mod remote;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir::configuration::{FILE_BYTES_MAX, is_router, located, read, shown};
use weir::output::{note, print};
use weir::program::release_signals;
use weir::{Failure, journal};
use weir_base::Span;
use weir_ce::Control;
use weir_ce::configuration::{CePlan, FePlan, ListenPlan};
use weir_ce::contract::{FeConfig, Params};
use weir_ce::desired::{Desired, DesiredValue};
use weir_ce::network::PathService;
use weir_config::Document;
use weir_forces_live::ce::{Cluster, Driver, Handle, Store};
use weir_forces_live::enrol::desk::Desk;
use weir_forces_live::enrol::files::Files;
use weir_forces_live::enrol::registrar::{Member, Members, Registrar};
use weir_forces_live::snmp::{Secrets, Target};
use weir_forces_live::tml::identity::{Certificate, warn_daily, warnings};
use weir_forces_live::tml::{Faults, Pinned, Pins};
use weir_live::device::made;
use weir_live::file::{next_to, read_text};
use weir_live::namespace::raise_file_limit;
use weir_model::{ComponentPath, Fault};
use weir_network::NetworkPlan;
use weir_northbound::{ControlElement, Page, Service, Token};
use weir_protocol::schema::Registry;
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::Params as SessionParams;

use self::console::Console;
use self::listeners::{links_max, open};
use self::reload::{Reload, room_of};

/// Maximum time for an FE to answer a request.
const ANSWER_MAX: Span = Span::from_secs(10);

/// Maximum length of a file with a token.
const TOKEN_BYTES_MAX: u64 = 1024;

/// A checked configuration with everything that its files contain.
struct Loaded {
    plan: CePlan,
    registry: Registry,
    security: Option<Pinned>,
    /// Devices that are not weir.
    devices: Vec<(String, Target)>,
    /// The CE's part in the election among CEs that share their desired state.
    cluster: Option<Cluster>,
    /// The token of the page, if the configuration names its file.
    token: Option<Token>,
    /// The network whose elements are its FEs.
    network: Option<NetworkPlan>,
}

/// `weir-forces check` of a CE's configuration.
pub(crate) fn check(path: &Path, text: &str) -> Result<(), Failure> {
    let Loaded { plan, security, .. } = load(path, text)?;
    let ending = warnings(security.as_slice());
    for doubt in doubts(path, &plan).into_iter().chain(ending) {
        note(&format!("weir: {}: {doubt}", shown(path)));
    }
    let (fes, listeners) = (plan.fes.len(), plan.listeners.len());
    print(&format!(
        "{}: valid, a control element with {} and {}\n",
        shown(path),
        counted(fes, "FE"),
        counted(listeners, "listener"),
    ))
}

/// Warnings: permitted settings of a configuration that cannot work.
fn doubts(path: &Path, plan: &CePlan) -> Vec<String> {
    let proves = |listen: &ListenPlan| listen.transport.authenticates();
    let open = plan
        .listeners
        .iter()
        .filter(|listen| !proves(listen) || plan.certificate.is_none());
    let open = open.map(|listen| {
        format!(
            "`insecure = true` in [listen.{}]: {} ({}) does not authenticate peers; anyone who can reach it can act as \
             any FE without a `certificate`",
            listen.name,
            listen.address,
            listen.transport.word()
        )
    });
    let pinned = plan.fes.iter().filter(|fe| fe.certificate.is_some());
    let unheard = pinned.filter(|_| !plan.listeners.iter().any(proves));
    let unheard = unheard.map(|fe| {
        format!(
            "[fe.{}] has a `certificate`, but sctp cannot present one: the FE can never associate; add a [listen.NAME] \
             with `transport = \"quic\"` or \"tcp_udp\", or remove the certificate",
            fe.name
        )
    });
    let files = enrolled(path, plan).into_iter();
    let waiting = files.filter_map(|(name, member)| {
        let file = member.pins.filter(|file| !file.exists())?;
        let file = file.display();
        Some(format!(
            "[fe.{name}] cannot associate yet, because {file} does not exist: `weir invite {name}`"
        ))
    });
    open.chain(unheard).chain(waiting).collect()
}

/// A number with its noun: `1 FE`, `2 FEs`.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Runs a CE until a signal ends it.
pub(crate) fn run(path: &Path) -> Result<(), Failure> {
    let text = read(path)?;
    let loaded = load(path, &text)?;
    // This thread runs the CE itself, the others run the transports.
    let mut builder = if loaded.plan.threads == 1 {
        Builder::new_current_thread()
    } else {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(loaded.plan.threads - 1)
            .thread_name("ce-transport");
        builder
    };
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Run(e.to_string()))?;
    let result = runtime.block_on(serve(path, loaded));
    runtime.shutdown_background();
    result
}

async fn serve(path: &Path, loaded: Loaded) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Run(format!("signals: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let hangup = signal(SignalKind::hangup()).map_err(failed)?;
    release_signals()?;
    let Loaded {
        plan,
        registry,
        security,
        devices,
        cluster,
        token,
        network,
    } = loaded;
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(format!("{}: {e}", shown(path)));
    let store = match &cluster {
        Some(cluster) => cluster.store(),
        None => {
            let store = Store::open(&next_to(path, &plan.store));
            store.map_err(|e| Failure::Run(e.to_string()))?
        }
    };
    let store = Arc::new(store);
    let members = members(&plan, &store).map_err(Failure::Run)?;
    let params = Params {
        session: session(&plan),
        answer_max: ANSWER_MAX,
    };
    let control = Control::new(params, registry, members).map_err(|e| usage(&e))?;
    let service = Service::bind(Path::new(&plan.socket));
    let service = service.map_err(|e| Failure::Run(format!("`socket` {}: {e}", plan.socket)))?;
    let faults = Arc::new(Faults::default());
    let driver = Driver::new(control, Arc::clone(&store), Arc::clone(&faults));
    let (driver, handle) = driver.map_err(|e| Failure::Run(e.to_string()))?;
    let fes = plan.fes.iter().map(|fe| (fe.id, &*fe.name));
    let driver = driver
        .with_controllers(&plan.controllers, devices)
        .with_remotes(&plan.remotes, fes)
        .with_certificates(security.clone())
        .with_routers(&plan.routers, &plan.remotes);
    let driver = driver.map_err(|e| Failure::Run(e.to_string()))?;
    let driver = match &network {
        Some(network) => {
            let kept = store.read_requests().map_err(Failure::Run)?;
            driver.with_network(network.clone(), kept)
        }
        None => driver,
    };
    let driver = match cluster {
        Some(cluster) => driver.with_cluster(cluster),
        None => Ok(driver),
    };
    let driver = driver.map_err(|e| Failure::Run(e.to_string()))?;
    let registrar = registrar(path, &plan, security.as_ref(), &store, &handle);
    let registrar = registrar.map_err(Failure::Run)?;
    let desk = match (plan.enrol, &registrar) {
        (Some(address), Some(registrar)) => Some(desk(address, registrar, &faults).await?),
        _ => None,
    };
    let files = raise_file_limit(u64::MAX).map_err(|e| Failure::Run(e.to_string()))?;
    let mut listeners = Vec::new();
    for listen in &plan.listeners {
        listeners.push((
            listen.transport,
            open(listen, security.as_ref(), &plan, &faults, files).await?,
        ));
    }
    let page = match plan.page {
        Some(address) => Some(page(address, token, Path::new(&plan.socket)).await?),
        None => None,
    };
    let names = plan.fes.iter().map(|fe| fe.name.clone()).collect();
    let names = Arc::new(Mutex::new(names));
    let runtime = tokio::runtime::Handle::current();
    let console = Console::new(
        handle.clone(),
        runtime.clone(),
        Arc::clone(&names),
        registrar.clone(),
    );
    let console: Arc<dyn ControlElement> = Arc::new(console);
    for (transport, listener) in &listeners {
        tracing::info!(transport = transport.word(), address = %listener.address(), "listening for forwarding elements");
    }
    for doubt in doubts(path, &plan) {
        tracing::warn!("{doubt}");
    }
    tracing::info!(id = %plan.id, fes = plan.fes.len(), "control element started");
    let reload = Reload {
        path: path.to_owned(),
        room: room_of(&plan),
        plan: Mutex::new(plan),
        network: Mutex::new(network),
        store,
        security: security.clone(),
        registrar,
        handle,
        runtime,
        names,
    };
    let end = async {
        tokio::select!(_ = terminate.recv() => {}, _ = interrupt.recv() => {});
    };
    tokio::select! {
        ended = driver.run(listeners, end) => ended.map_err(Failure::Run),
        ended = service.serve_control_element(Arc::clone(&console)) => {
            Err(northbound("service", ended))
        }
        never = enrol(desk) => match never {},
        ended = show(page, console) => Err(northbound("page", ended)),
        () = warn_daily(security.into_iter().collect()) => unreachable!("it never ends"),
        () = reload_when_asked(hangup, Arc::new(reload)) => Err(Failure::Run("signal handling has ended".to_owned())),
    }
}

/// The registrar of a CE with certificates. Applies revocations.
fn registrar(
    path: &Path,
    plan: &CePlan,
    security: Option<&Pinned>,
    store: &Arc<Store>,
    handle: &Handle,
) -> Result<Option<Arc<Registrar>>, String> {
    let (Some(pinned), Some(own)) = (security, own(path, plan)) else {
        return Ok(None);
    };
    let (handle, runtime) = (handle.clone(), tokio::runtime::Handle::current());
    let expel = move |fe| drop(runtime.block_on(handle.expel(fe))); // fails if the CE ends
    let registrar = Registrar::new(
        pinned.clone(),
        own,
        Arc::clone(store),
        plan.enrol.is_some(),
        enrolled(path, plan),
        Box::new(expel),
    )?;
    Ok(Some(Arc::new(registrar)))
}

/// Files of the CE's certificate and key.
fn own(path: &Path, plan: &CePlan) -> Option<Files> {
    let (certificate, key) = (plan.certificate.as_ref()?, plan.key.as_ref()?);
    Some(Files::of(path, certificate, key))
}

/// The FEs, with the files of their certificates.
fn enrolled(path: &Path, plan: &CePlan) -> Members {
    let member = |fe: &FePlan| Member {
        id: fe.id,
        pins: fe.certificate.as_ref().map(|file| next_to(path, file)),
    };
    plan.fes
        .iter()
        .map(|fe| (fe.name.clone(), member(fe)))
        .collect()
}

/// Listens for FEs that enrol or renew.
async fn desk(
    address: SocketAddr,
    registrar: &Arc<Registrar>,
    faults: &Arc<Faults>,
) -> Result<Desk, Failure> {
    let desk = Desk::open(address, Arc::clone(registrar), Arc::clone(faults)).await;
    let desk = desk.map_err(|e| Failure::Run(format!("`enrol`: {e}")))?;
    tracing::info!(%address, "listening for enrolment");
    Ok(desk)
}

/// Enrols FEs, if the CE listens for them.
async fn enrol(desk: Option<Desk>) -> Infallible {
    match desk {
        Some(desk) => desk.run().await,
        None => std::future::pending().await,
    }
}

/// Reloads the configuration at each signal, on a thread that may block.
async fn reload_when_asked(mut hangup: Signal, reload: Arc<Reload>) {
    while hangup.recv().await.is_some() {
        let reload = Arc::clone(&reload);
        let done = tokio::task::spawn_blocking(move || reload.run()).await;
        let done = done.unwrap_or_else(|error| Err(vec![error.to_string()]));
        journal::changed("SIGHUP", None, &done);
    }
}

/// Listens for browsers. Without a configured token it writes a new token to a file in the folder of the socket.
async fn page(address: SocketAddr, token: Option<Token>, socket: &Path) -> Result<Page, Failure> {
    let failed = |why: String| Failure::Run(format!("`page` {address}: {why}"));
    let (token, file) = match token {
        Some(token) => (token, None),
        None => {
            let made = Token::beside(socket)
                .map_err(|e| failed(format!("cannot create its token: {e}")))?;
            (made.0, Some(made.1.display().to_string()))
        }
    };
    let page = Page::bind(address, token).await;
    let page = page.map_err(|e| failed(format!("{e}; is another program using this address?")))?;
    tracing::info!(
        token = file.as_deref().unwrap_or("page_token"),
        "page: http://{address}/"
    );
    Ok(page)
}

/// Serves the page, if there is one.
async fn show(page: Option<Page>, console: Arc<dyn ControlElement>) -> std::io::Result<()> {
    match page {
        Some(page) => page.serve(console).await,
        None => std::future::pending().await,
    }
}

/// The failure that the northbound service or its page has ended.
fn northbound(what: &str, ended: std::io::Result<()>) -> Failure {
    let why = ended.map_or_else(
        |error| error.to_string(),
        |()| "ended unexpectedly".to_owned(),
    );
    Failure::Run(format!("northbound {what}: {why}"))
}

fn session(plan: &CePlan) -> SessionParams {
    SessionParams {
        id: plan.id,
        assigns: None,
        heartbeats: Heartbeats::default(),
        setup_max: Span::from_secs(5),
        links_max: links_max(plan),
        window: 32,
        requests_max: 1024,
        queue_bytes_max: 4 << 20,
    }
}

/// The FEs, with their configuration and the later changes by operators.
fn members(plan: &CePlan, store: &Store) -> Result<Vec<FeConfig>, String> {
    let mut kept = store.read()?;
    let member = |fe: &FePlan| {
        let mut desired = Desired::default();
        for change in &fe.desired {
            let wish = change
                .value
                .clone()
                .map_or(DesiredValue::Exists, DesiredValue::Is);
            desired.put(&change.path, Some(&wish));
        }
        let kept = kept.remove(&fe.name).unwrap_or_default();
        FeConfig {
            name: fe.name.clone(),
            id: fe.id,
            is_pinned: fe.certificate.is_some(),
            desired,
            kept: kept.desired,
            components: kept.components,
            routes: kept.routes,
        }
    };
    Ok(plan.fes.iter().map(member).collect())
}

/// Reads and checks a configuration and the files that it names.
fn load(path: &Path, text: &str) -> Result<Loaded, Failure> {
    let failed = |faults: Vec<String>| Failure::Usage(faults.join("\n"));
    if is_router(text) {
        let (name, what) = (shown(path), "this is the configuration of a router");
        let run =
            format!("run it with `weir fe {name}` if it has [fe], else with `weir router {name}`");
        return Err(Failure::Usage(format!("{name}: {what}; {run}")));
    }
    let document = Document::parse(&shown(path), text).map_err(|e| failed(vec![e.to_string()]))?;
    let plan = CePlan::check(document.changes());
    let plan = plan.map_err(|faults| failed(located(&document, &faults)))?;
    let network = network(path, &plan, &document);
    let files = files(path, plan).map_err(|faults| located(&document, &faults));
    match (files, network) {
        (Ok(loaded), Ok(network)) => Ok(Loaded { network, ..loaded }),
        (files, network) => {
            let faults = [files.err(), network.err()].into_iter().flatten().flatten();
            Err(failed(faults.collect()))
        }
    }
}

/// Reads and checks the network that a configuration names. Faults are sentences, each with its line of the file.
fn network(
    path: &Path,
    plan: &CePlan,
    document: &Document,
) -> Result<Option<NetworkPlan>, Vec<String>> {
    let Some(file) = &plan.network else {
        return Ok(None);
    };
    let file = next_to(path, file);
    let text = read_text(&file, FILE_BYTES_MAX).map_err(|error| {
        let why = format!("{}: {error}", file.display());
        let fault = Fault::new(ComponentPath::new(["network"]), why);
        located(document, &[fault])
    })?;
    let name = shown(&file);
    let network = Document::parse(&name, &text).map_err(|error| vec![error.to_string()])?;
    let fes = plan
        .fes
        .iter()
        .map(|fe| (&*fe.name, &*fe.desired))
        .collect();
    let checked = NetworkPlan::check(network.changes());
    let checked = checked.and_then(|plan| PathService::check(&plan, &fes).map(|()| plan));
    checked
        .map(Some)
        .map_err(|faults| located(&network, &faults))
}

/// Reads the files that a checked configuration names: libraries, certificates, secrets of devices, the token.
fn files(path: &Path, plan: CePlan) -> Result<Loaded, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut registry = weir_library::registry();
    for (name, file) in &plan.libraries {
        let at = ComponentPath::new(["library", name, "file"]);
        let text = read_text(&next_to(path, file), FILE_BYTES_MAX).map_err(|e| e.to_string());
        let loaded = text.and_then(|text| registry.load(&text).map_err(|e| e.to_string()));
        if let Err(why) = loaded {
            faults.push(Fault::new(at, format!("{file}: {why}")));
        }
    }
    for remote in &plan.remotes {
        if let Some(Err(error)) = remote.interface.as_deref().map(made::check_name) {
            let at = ComponentPath::new(["remote", &remote.name, "interface"]);
            faults.push(Fault::new(at, error));
        }
    }
    let security = security(path, &plan, &mut faults);
    let devices = devices(path, &plan, &mut faults);
    let cluster = plan.etcd.as_ref().and_then(|etcd| {
        let cluster = Cluster::new(etcd, |file| next_to(path, file));
        let wrong = |(key, why): (Option<&str>, _)| {
            let at = ["etcd"].into_iter().chain(key);
            faults.push(Fault::new(ComponentPath::new(at), why));
        };
        cluster.map_err(wrong).ok()
    });
    let token = plan.page_token.as_ref().and_then(|file| {
        let wrong = |why| Fault::new(ComponentPath::new(["page_token"]), format!("{file}: {why}"));
        token(&next_to(path, file))
            .map_err(|why| faults.push(wrong(why)))
            .ok()
    });
    if faults.is_empty() {
        Ok(Loaded {
            plan,
            registry,
            security,
            devices,
            cluster,
            token,
            network: None, // it is read from its own file
        })
    } else {
        Err(faults)
    }
}

/// The token of the page. Only the file's owner may have permission to read it.
fn token(path: &Path) -> Result<Token, String> {
    let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "users other than its owner can access it: chmod 600 {}",
            path.display()
        ));
    }
    Token::new(&read_text(path, TOKEN_BYTES_MAX).map_err(|e| e.to_string())?)
}

/// The devices that do not run weir, with their secrets.
fn devices(path: &Path, plan: &CePlan, faults: &mut Vec<Fault>) -> Vec<(String, Target)> {
    let mut targets = Vec::new();
    for device in &plan.devices {
        match Secrets::read(&next_to(path, &device.secrets)) {
            Ok(secrets) => {
                let target = Target {
                    address: device.address,
                    secrets,
                    timeout: Duration::from_nanos(device.timeout.as_nanos()),
                };
                targets.push((device.name.clone(), target));
            }
            Err(error) => {
                let at = ComponentPath::new(["device", &device.name, "secrets"]);
                faults.push(Fault::new(at, error));
            }
        }
    }
    targets
}

/// The certificates of the CE and of the FEs.
fn security(path: &Path, plan: &CePlan, faults: &mut Vec<Fault>) -> Option<Pinned> {
    let mut pins = Vec::new();
    for fe in &plan.fes {
        if let Some(file) = &fe.certificate {
            let file = next_to(path, file);
            if plan.enrol.is_some() && !file.exists() {
                continue; // the FE has not enrolled yet
            }
            match Certificate::read_pins(&file) {
                Ok(certificates) => pins.extend(certificates.into_iter().map(|c| (fe.id, c))),
                Err(error) => {
                    let at = ComponentPath::new(["fe", &fe.name, "certificate"]);
                    faults.push(Fault::new(at, error));
                }
            }
        }
    }
    let root = |name: &str| ComponentPath::new([name]);
    let identity = match (&plan.certificate, &plan.key) {
        (Some(_), Some(_)) => own(path, plan)?
            .read()
            .map_err(|e| faults.push(Fault::new(root("certificate"), e)))
            .ok(),
        (Some(_), None) => {
            let why = "`certificate` needs a `key`: `weir keys NAME` generates both";
            faults.push(Fault::new(root("certificate"), why));
            None
        }
        (None, _) => None,
    }?;
    let pins = Pins::new(pins)
        .map_err(|e| faults.push(Fault::new(root("fe"), e)))
        .ok()?;
    Some(Pinned {
        identity: Arc::new(identity),
        peers: Arc::new(pins),
    })
}
