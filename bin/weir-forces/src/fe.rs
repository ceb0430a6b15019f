//! `weir-forces fe`: a router under the control of control elements. [`weir::router`] runs it; this module adds the
//! parts of a forwarding element: its certificates and its associations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use weir::Failure;
use weir::configuration::{self, Admission};
use weir::router::{Addition, Role, TakeOver};
use weir_base::Span;
use weir_forces_live::enrol::client::{Ce, Contacts, Fe};
use weir_forces_live::enrol::files::Files;
use weir_forces_live::fe::{Handle, Inputs, Params};
use weir_forces_live::tml::identity::{Certificate, warnings};
use weir_forces_live::tml::{
    ChannelSettings, Common, Faults, Identity, Pinned, Pins, Remote, Security, Transport,
};
use weir_lfb::Plan;
use weir_lfb::fe::{CePlan, FePlan};
use weir_live::file::next_to;
use weir_live::mutex::lock;
use weir_live::router::Running;
use weir_live::router::reader::Reader;
use weir_protocol::session::Heartbeats;
use weir_protocol::session::fe::{self, Failover, Retry, Standby};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::Selects;

/// Maximum number of unanswered requests of all CEs together.
const REQUESTS_MAX: usize = 256;
/// Maximum bytes in the queue of the session with one CE; the transport has its own queue.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Interval between contacts with each CE about certificates.
const CONTACT_EVERY: Duration = Duration::from_secs(3600);
/// Interval after a failure.
const CONTACT_RETRY: Duration = Duration::from_secs(300);
/// Interval after a change.
const CONTACT_SOON: Duration = Duration::from_secs(1);

/// A forwarding element: `weir-forces fe`.
pub(crate) struct ForwardingElement;

impl Role for ForwardingElement {
    fn word(&self) -> &'static str {
        "fe"
    }

    fn prepare(
        &self,
        config: &Path,
        fe: Option<FePlan>,
        plan: &Plan,
    ) -> Result<Option<Arc<dyn Addition>>, Failure> {
        let Some(fe) = fe else {
            let config = config.display();
            return Err(Failure::Usage(format!(
                "{config}: a forwarding element needs the sections [fe] and [ce.NAME]; `weir router {config}` starts \
                 a router without control elements"
            )));
        };
        let params = prepare(config, &fe, plan)?;
        let (handle, inputs) = weir_forces_live::fe::inputs();
        Ok(Some(Arc::new(Element {
            config: config.to_owned(),
            reloaded: Arc::default(),
            plan: fe,
            handle,
            start: Mutex::new(Some((params, inputs))),
        })))
    }
}

/// The part of a running router that makes it a forwarding element.
struct Element {
    config: PathBuf,
    /// Tells [`renew`] that certificates have been read again.
    reloaded: Arc<Notify>,
    plan: FePlan,
    handle: Handle,
    /// The parameters and inputs for its start.
    start: Mutex<Option<(Params, Inputs)>>,
}

impl Addition for Element {
    fn plan(&self) -> &FePlan {
        &self.plan
    }

    fn start(
        &self,
        running: &Arc<Running>,
        reader: &Arc<Reader>,
        ends: watch::Receiver<()>,
        tasks: &mut JoinSet<String>,
    ) {
        let Some((params, inputs)) = lock(&self.start).take() else {
            return;
        };
        for doubt in doubts(&params) {
            tracing::warn!("{doubt}");
        }
        if let Some(fe) = enrolment(&self.config, &self.plan).filter(|fe| !fe.ces.is_empty()) {
            let reloaded = Arc::clone(&self.reloaded);
            tasks.spawn(renew(fe, Arc::clone(running), self.reloads(), reloaded));
        }
        let (running, reader) = (Arc::clone(running), Arc::clone(reader));
        tasks.spawn(weir_forces_live::fe::run(
            running, reader, params, inputs, ends,
        ));
    }

    fn reload(&self, config: &Path, plan: &Plan) -> Result<TakeOver<'_>, String> {
        let params = prepare(config, &self.plan, plan).map_err(|failure| failure.to_string())?;
        Ok(Box::new(|| {
            let changes = self.handle.replace_certificates(params.ces);
            self.reloaded.notify_one();
            changes
        }))
    }

    fn enable(&self) -> Result<Option<String>, String> {
        let before = self.handle.enable()?;
        Ok(before.map(|why| why.to_string()))
    }
}

impl Element {
    /// Reads the certificates, and returns the changes.
    fn reloads(&self) -> impl Fn(&Plan) -> Result<Vec<String>, String> + Clone + Send + 'static {
        let (config, fe, handle) = (self.config.clone(), self.plan.clone(), self.handle.clone());
        move |plan| {
            let params = prepare(&config, &fe, plan).map_err(|failure| failure.to_string())?;
            handle.replace_certificates(params.ces)
        }
    }
}

/// Keeps certificates current, for as long as the FE runs.
async fn renew(
    fe: Fe,
    running: Arc<Running>,
    reloads: impl Fn(&Plan) -> Result<Vec<String>, String> + Clone + Send + 'static,
    reloaded: Arc<Notify>,
) -> String {
    loop {
        // Present the certificate of the files before the CE learns of it and removes the old pin.
        let (reloads, router) = (reloads.clone(), Arc::clone(&running));
        let changes = tokio::task::spawn_blocking(move || reloads(&router.in_force().plan)).await;
        match changes.unwrap_or_else(|e| Err(e.to_string())) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => tracing::info!(changes = changes.join("; "), "certificates replaced"),
            Err(why) => tracing::warn!(why, "cannot read the certificates"),
        }
        let Contacts { changes, failures } = fe.contact(false).await;
        for why in &failures {
            tracing::warn!(why, "cannot renew certificates");
        }
        let pause = match (&changes[..], &failures[..]) {
            ([], []) => CONTACT_EVERY,
            ([], _) => CONTACT_RETRY,
            _ => CONTACT_SOON, // the CE has to learn what we trust and present now
        };
        let _ = tokio::time::timeout(pause, reloaded.notified()).await; // a reload cuts the pause short
    }
}

/// The files and the CEs with which an FE enrols; `None` if it has no files for its certificate and key.
pub(crate) fn enrolment(config: &Path, fe: &FePlan) -> Option<Fe> {
    if fe.certificate.is_empty() || fe.key.is_empty() {
        return None;
    }
    let own = Files::of(config, &fe.certificate, &fe.key);
    let enrols = |ce: &CePlan| {
        Some(Ce {
            name: ce.name.clone(),
            desk: ce.enrol.filter(|_| !ce.certificate.is_empty())?,
            pins: next_to(config, &ce.certificate),
        })
    };
    let ces: Vec<_> = fe.ces.iter().filter_map(enrols).collect();
    Some(Fe {
        id: fe.id,
        name: own.certificate.file_stem()?.to_string_lossy().into_owned(),
        own,
        renews: ces.len() == fe.ces.len(),
        ces,
    })
}

/// `weir-forces check` of a forwarding element's configuration, with its certificates.
pub(crate) fn check(path: &Path, text: &str) -> Result<(), Failure> {
    let Admission {
        plan,
        mut doubts,
        fe,
        ..
    } = configuration::here(path, text)?;
    if let Some(fe) = &fe {
        let params = prepare(path, fe, &plan)?;
        doubts.extend(self::doubts(&params));
        doubts.extend(warnings(&params.pinned()));
    }
    configuration::good(path, &plan, doubts)
}

/// Reads the certificates, and collects the parameters of the FE.
fn prepare(config: &Path, fe: &FePlan, plan: &Plan) -> Result<Params, Failure> {
    let identity = match (&*fe.certificate, &*fe.key) {
        ("", "") => None,
        ("", _) | (_, "") => {
            let why = format!(
                "{}: [fe] needs both `certificate` and `key`, or neither; `weir keys` generates them",
                config.display()
            );
            return Err(Failure::Usage(why));
        }
        (certificate, key) => {
            let own = Files::of(config, certificate, key);
            let remedy = if fe.ces.iter().any(|ce| ce.enrol.is_some()) && !own.key.exists() {
                format!("; enrol first: `weir enrol {}`", config.display())
            } else {
                String::new()
            };
            let identity = own
                .read()
                .map_err(|e| Failure::Usage(format!("{e}{remedy}")))?;
            Some(Arc::new(identity))
        }
    };
    let faults = Arc::new(Faults::default());
    let remote = |ce: &CePlan| Ok((Id(ce.id), remote(config, ce, identity.as_ref(), &faults)?));
    let ces = fe
        .ces
        .iter()
        .map(remote)
        .collect::<Result<BTreeMap<_, _>, Failure>>()?;
    let setup = Selects::new(Vec::new()).map_err(|e| Failure::Run(e.to_string()))?;
    Ok(Params {
        agent: weir_fe::Params {
            session: session(fe, setup),
            name: fe.name.clone(),
            model: format!("weir {}", env!("CARGO_PKG_VERSION")),
            plan: plan.clone(),
        },
        ces,
    })
}

/// Settings that are permitted, but probably not intended.
fn doubts(params: &Params) -> Vec<String> {
    let open = params.ces.values().filter(|(transport, remote)| {
        !transport.authenticates() || remote.common.security.pinned.is_none()
    });
    let open = open.map(|(transport, remote)| {
        format!(
            "`insecure = true` for the CE {} ({}): it is not authenticated; anyone who answers there can control \
             this router",
            remote.address,
            transport.word()
        )
    });
    open.collect()
}

fn session(fe: &FePlan, setup: weir_protocol::wire::message::AssociationSetup) -> fe::Params {
    let ((ce_sends, ce_dead), (fe_sends, fe_interval)) = (fe.ce_heartbeats, fe.fe_heartbeats);
    fe::Params {
        id: Id(fe.id),
        setup,
        extended_results: true,
        groups: Vec::new(),
        ces: fe.ces.iter().map(|ce| Id(ce.id)).collect(),
        heartbeats: Heartbeats {
            ce_sends,
            ce_dead,
            fe_sends,
            fe_interval,
        },
        failover: Failover {
            keeps: fe.cefti,
            standby: match fe.standby {
                weir_lfb::fe::Standby::Hot => Standby::Hot,
                weir_lfb::fe::Standby::Cold => Standby::Cold,
                weir_lfb::fe::Standby::None => Standby::None,
            },
        },
        retry: Retry {
            pause_max: Span::from_secs(5),
            ..Retry::default()
        },
        requests_max: REQUESTS_MAX,
        queue_bytes_max: QUEUE_BYTES_MAX,
    }
}

/// The address of a CE, and the certificate that it must prove.
fn remote(
    config: &Path,
    ce: &CePlan,
    identity: Option<&Arc<Identity>>,
    faults: &Arc<Faults>,
) -> Result<(Transport, Remote), Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(format!("[ce.{}]: {e}", ce.name));
    let pinned = match (identity, &*ce.certificate) {
        (Some(identity), file) if !file.is_empty() => {
            let pins = Certificate::read_pins(&next_to(config, file)).map_err(|e| usage(&e))?;
            let pins = pins.into_iter().map(|certificate| (Id(ce.id), certificate));
            let peers = Pins::new(pins).map_err(|e| usage(&e))?;
            Some(Pinned {
                identity: Arc::clone(identity),
                peers: Arc::new(peers),
            })
        }
        _ => None, // `FePlan::check` permits this only with `insecure`
    };
    let remote = Remote {
        address: ce.address,
        redirect_port: None,
        common: Common {
            security: Security {
                pinned,
                insecure: ce.insecure,
            },
            channel: ChannelSettings {
                discipline: ce.schedule.spec(),
                rate: ce.rate,
                ..ChannelSettings::default()
            },
            faults: Arc::clone(faults),
            ..Common::default()
        },
    };
    Ok((ce.transport, remote))
}
