//! `weir-forces fe`: a router under the control of control elements. [`weir::router`] runs it; this module adds the
//! parts of a forwarding element: its certificates and its associations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinSet;
use weir::Failure;
use weir::configuration::{self, Admission};
use weir::router::{Addition, Role, TakeOver};
use weir_base::Span;
use weir_forces_live::fe::{Handle, Inputs, Params};
use weir_forces_live::tml::identity::{Certificate, warnings};
use weir_forces_live::tml::{
    ChannelSettings, Common, Faults, Identity, Pinned, Pins, Remote, Schedule, Security, Transport,
};
use weir_lfb::Plan;
use weir_lfb::fe::{CePlan, FePlan};
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
            plan: fe,
            handle,
            start: Mutex::new(Some((params, inputs))),
        })))
    }
}

/// The part of a running router that makes it a forwarding element.
struct Element {
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
        let (running, reader) = (Arc::clone(running), Arc::clone(reader));
        tasks.spawn(weir_forces_live::fe::run(
            running, reader, params, inputs, ends,
        ));
    }

    fn reload(&self, config: &Path, plan: &Plan) -> Result<TakeOver<'_>, String> {
        let params = prepare(config, &self.plan, plan).map_err(|failure| failure.to_string())?;
        Ok(Box::new(|| self.handle.replace_certificates(params.ces)))
    }

    fn enable(&self) -> Result<Option<String>, String> {
        let before = self.handle.enable()?;
        Ok(before.map(|why| why.to_string()))
    }
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
                "{}: [fe] needs both `certificate` and `key`, or neither; `weir keys` makes them",
                config.display()
            );
            return Err(Failure::Usage(why));
        }
        (certificate, key) => {
            let identity = Identity::read(&beside(config, certificate), &beside(config, key));
            Some(Arc::new(
                identity.map_err(|e| Failure::Usage(e.to_string()))?,
            ))
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
    let open = params
        .ces
        .values()
        .filter(|(transport, remote)| !transport.proves(&remote.common.security));
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
                "hot" => Standby::Hot,
                "cold" => Standby::Cold,
                _ => Standby::None,
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
            let pins = Certificate::read_pins(&beside(config, file)).map_err(|e| usage(&e))?;
            let pins = pins.into_iter().map(|certificate| (Id(ce.id), certificate));
            let peers = Pins::new(pins).map_err(|e| usage(&e))?;
            Some(Pinned {
                identity: Arc::clone(identity),
                peers: Arc::new(peers),
            })
        }
        _ => None, // `FePlan::check` permits this only with `insecure`
    };
    let transport = ce.transport.parse::<Transport>().unwrap_or_default();
    let discipline = ce.schedule.parse::<Schedule>().unwrap_or_default().spec();
    let remote = Remote {
        address: ce.address,
        redirect_port: None,
        common: Common {
            security: Security {
                pinned,
                insecure: ce.insecure,
            },
            channel: ChannelSettings {
                discipline,
                rate: ce.rate,
                ..ChannelSettings::default()
            },
            faults: Arc::clone(faults),
            ..Common::default()
        },
    };
    Ok((transport, remote))
}

/// A path of a configuration, which is relative to its file.
fn beside(config: &Path, file: &str) -> PathBuf {
    config
        .parent()
        .map_or_else(|| file.into(), |folder| folder.join(file))
}
