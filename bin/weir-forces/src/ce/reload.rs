//! SIGHUP: a control element reloads its configuration, and applies all of it or nothing.
//!
//! FEs, their certificates, their configuration, and the network can change while the control element runs. All other
//! parts need a restart: a difference there is refused with the name of the part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::runtime;
use weir::configuration::read;
use weir_ce::configuration::{CePlan, FePlan};
use weir_forces_live::ce::{Handle, Store};
use weir_forces_live::enrol::registrar::Registrar;
use weir_forces_live::tml::Pinned;
use weir_forces_live::tml::identity::Replaced;
use weir_live::mutex::lock;
use weir_network::NetworkPlan;
use weir_protocol::wire::Id;

use super::console::Names;
use super::{enrolled, load, members};

/// Minimum number of FEs that a control element has room for.
const FES_MIN: usize = 64;

/// The parts of a running control element that a reload changes.
pub(super) struct Reload {
    pub(super) path: PathBuf,
    pub(super) plan: Mutex<CePlan>,
    pub(super) network: Mutex<Option<NetworkPlan>>,
    pub(super) store: Arc<Store>,
    pub(super) security: Option<Pinned>,
    /// `None` without certificates.
    pub(super) registrar: Option<Arc<Registrar>>,
    pub(super) handle: Handle,
    pub(super) runtime: runtime::Handle,
    pub(super) names: Names,
    /// Maximum number of FEs, for which the listeners have links.
    pub(super) room: usize,
}

impl Reload {
    /// Reads the configuration, and applies it. Returns the changes, or the reasons why nothing has changed. It may
    /// block.
    pub(super) fn run(&self) -> Result<Vec<String>, Vec<String>> {
        let mut running = lock(&self.plan);
        // No certificate is pinned or revoked between the reading of the files and their use.
        let mut held = self.registrar.as_ref().map(|registrar| registrar.hold());
        let loaded = read(&self.path).and_then(|text| load(&self.path, &text));
        let loaded = loaded.map_err(|failure| vec![failure.to_string()])?;
        let new = loaded.plan;
        let mut refusals = fixed(&running, &new);
        if new.fes.len() > self.room {
            refusals.push(format!(
                "{} FEs: the listeners were opened for at most {}; restart the CE",
                new.fes.len(),
                self.room
            ));
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        let members = members(&new, &self.store).map_err(|why| vec![why])?;
        let mut lines = changes(&running, &new);
        let mut network = lock(&self.network);
        if *network != loaded.network {
            lines.push("~ network".to_owned());
        }
        let mut ended = BTreeSet::new();
        if let (Some(pinned), Some(new_pinned)) = (&self.security, &loaded.security) {
            if pinned.identity.replace(&new_pinned.identity) {
                lines.push(format!("~ certificate: {}", pinned.identity.fingerprint()));
            }
            new_pinned.peers.revoke(pinned.peers.revoked());
            let replaced = pinned.peers.replace(&new_pinned.peers);
            let names = new.fes.iter().map(|fe| (fe.id, fe.name.as_str())).collect();
            lines.extend(certificates(&replaced, &names));
            ended = replaced.ended;
        }
        let names = new.fes.iter().map(|fe| fe.name.clone()).collect();
        let replaced = self
            .handle
            .replace_members(members, ended, loaded.network.clone());
        let replaced = self.runtime.block_on(replaced);
        replaced.map_err(|refusal| vec![refusal.to_string()])?;
        *lock(&self.names) = names;
        if let Some(held) = &mut held {
            **held = enrolled(&self.path, &new);
        }
        *running = new;
        *network = loaded.network;
        Ok(lines)
    }
}

/// The changes of certificates of FEs, one per line.
fn certificates(replaced: &Replaced, names: &BTreeMap<Id, &str>) -> Vec<String> {
    let line = |id: &Id| {
        let name = names.get(id)?;
        Some(if replaced.ended.contains(id) {
            format!("~ fe.{name}: certificate replaced; its association ends")
        } else {
            format!("~ fe.{name}: certificates changed; its association continues")
        })
    };
    replaced.changed.iter().filter_map(line).collect()
}

/// Maximum number of FEs of a control element until it restarts.
pub(super) fn room_of(plan: &CePlan) -> usize {
    plan.fes.len().next_power_of_two().max(FES_MIN)
}

/// The differences in parts that cannot change while the control element runs.
fn fixed(running: &CePlan, new: &CePlan) -> Vec<String> {
    let parts = [
        ("id", running.id == new.id),
        ("socket", running.socket == new.socket),
        ("store", running.store == new.store),
        ("certificate", running.certificate == new.certificate),
        ("key", running.key == new.key),
        ("enrol", running.enrol == new.enrol),
        ("[etcd]", running.etcd == new.etcd),
        ("page", running.page == new.page),
        ("page_token", running.page_token == new.page_token),
        ("threads", running.threads == new.threads),
        ("[listen]", running.listeners == new.listeners),
        ("[library]", running.libraries == new.libraries),
        ("[controller]", running.controllers == new.controllers),
        ("[device]", running.devices == new.devices),
        ("[remote]", running.remotes == new.remotes),
        ("[router]", running.routers == new.routers),
    ];
    let differing = parts.into_iter().filter(|(_, is_same)| !is_same);
    differing
        .map(|(name, _)| {
            format!("`{name}` cannot change while the CE runs; undo the change, or restart the CE")
        })
        .collect()
}

/// The changes of FEs, one per line.
fn changes(running: &CePlan, new: &CePlan) -> Vec<String> {
    let by_name = |plan: &'_ CePlan| -> BTreeMap<String, FePlan> {
        let fes = plan.fes.iter();
        fes.map(|fe| (fe.name.clone(), fe.clone())).collect()
    };
    let (before, after) = (by_name(running), by_name(new));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| format!("- fe.{name}"));
    let there = after
        .iter()
        .filter_map(|(name, fe)| match before.get(name) {
            None => Some(format!("+ fe.{name}")),
            Some(old) if old.id != fe.id => {
                Some(format!("~ fe.{name}: id {} -> {}", old.id, fe.id))
            }
            Some(old) if old.desired != fe.desired => Some(format!("~ fe.{name}")),
            Some(_) => None,
        });
    gone.chain(there).collect()
}
