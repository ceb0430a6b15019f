//! `weir fe`: a router that control elements steer. `router` runs it; this is what a forwarding element has in
//! addition: its certificates and its associations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_base::Span;
use weir_forces_live::tml::identity::Certificate;
use weir_forces_live::tml::{
    ChannelSettings, Common, Faults, Identity, Pinned, Pins, Remote, Schedule, Security, Transport,
};
use weir_lfb::Plan;
use weir_lfb::fe::{CePlan, FePlan};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::fe::{self, Failover, Retry, Standby};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::Selects;

use crate::Failure;

/// Unanswered requests of all CEs together.
const REQUESTS_MAX: usize = 256;
/// Bytes in the queue of the session to one CE; the transport has its own.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Reads the certificates, and puts together what the FE needs to run.
pub(crate) fn prepare(
    config: &Path,
    fe: &FePlan,
    plan: &Plan,
) -> Result<weir_forces_live::fe::Params, Failure> {
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
    Ok(weir_forces_live::fe::Params {
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
pub(crate) fn doubts(params: &weir_forces_live::fe::Params) -> Vec<String> {
    let open = params
        .ces
        .values()
        .filter(|(transport, remote)| !transport.proves(&remote.common.security));
    let open = open.map(|(transport, remote)| {
        format!(
            "`insecure = true` at the CE {} ({}): it proves nothing, so whoever answers there steers this router",
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

/// Where a CE is, and who it must be.
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
        _ => None, // `FePlan::check` permits it where it is meant
    };
    let transport = Transport::from_word(ce.transport).unwrap_or_default();
    let discipline = Schedule::from_word(ce.schedule).unwrap_or_default().spec();
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
