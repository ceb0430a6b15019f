//! Netfilter rules of the machine that forwarded packets bypass: checked at the start, before a configuration is put in
//! force, and while the router runs.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use weir_lfb::Plan;
use weir_lfb::class::netfilter;
use weir_lfb::router::OnChange;

use super::running::Running;
use crate::kernel::announcements::Announcements;
use crate::kernel::netfilter::{self as rules, BypassedChain};
use crate::mutex::lock;

/// Shortest time between two readings of the rules, even if they change faster.
const GAP: Duration = Duration::from_secs(1);
/// Longest time between two readings: legacy iptables announces nothing.
const GAP_MAX: Duration = Duration::from_secs(10);

/// The bypassed chains, each with whether it existed at the start.
pub type Bypassed = BTreeMap<BypassedChain, bool>;

pub(super) fn read(plan: &Plan) -> io::Result<Vec<BypassedChain>> {
    let ports: Vec<_> = plan.ports.iter().map(|p| p.interface.as_str()).collect();
    rules::bypassed(plan.router.mode, &ports)
}

fn names<'a>(chains: impl IntoIterator<Item = &'a BypassedChain>) -> String {
    let names: Vec<_> = chains.into_iter().map(ToString::to_string).collect();
    names.join("; ")
}

/// Records chains that a new plan permits to bypass, so that they do not count as new once the plan is in force.
pub(super) fn permit(chains: Vec<BypassedChain>, bypassed: &Mutex<Bypassed>) {
    let mut bypassed = lock(bypassed);
    for chain in chains {
        bypassed.entry(chain).or_insert(false);
    }
}

/// Reads the machine's rules again whenever they change. Returns only if the router must stop.
pub(super) async fn follow(running: Arc<Running>) -> String {
    let mut announcements = match Announcements::of_rules() {
        Ok(announcements) => Some(announcements),
        Err(error) => {
            tracing::warn!(%error, "changes of this machine's rules are not announced here");
            None
        }
    };
    // At the start, permitted chains were logged and others were refused.
    let mut first = true;
    loop {
        let began = Instant::now();
        tracing::debug!("the machine's rules are read");
        let asked = Arc::clone(&running);
        let read = tokio::task::spawn_blocking(move || {
            let in_force = asked.in_force();
            let chains = read(&in_force.plan)?;
            io::Result::Ok((in_force.plan.router.clone(), chains))
        });
        match read.await {
            Ok(Ok((router, chains))) => {
                let at_start = first && router.bypass_netfilter;
                first = false;
                let new = renew(&mut lock(&running.bypassed), chains, at_start);
                if !new.is_empty() && router.netfilter_change == OnChange::Stop {
                    return format!(
                        "`netfilter_change` is \"stop\", and transit through weir bypasses new \
                         rules of this machine: {}",
                        names(&new)
                    );
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot read which rules of this machine forwarded packets bypass");
            }
            Err(error) => return error.to_string(),
        }
        sleep_until(began + GAP).await;
        let Some(changes) = &mut announcements else {
            sleep_until(began + GAP_MAX).await;
            continue;
        };
        if let Ok(Err(error)) = timeout_at(began + GAP_MAX, changes.changed()).await {
            tracing::warn!(%error, "changes of this machine's rules are no longer announced");
            announcements = None;
        }
    }
}

/// Replaces the known chains by those just read; logs and returns the new ones.
fn renew(known: &mut Bypassed, chains: Vec<BypassedChain>, at_start: bool) -> Vec<BypassedChain> {
    let before = std::mem::take(known);
    let mut new = Vec::new();
    for chain in chains {
        let was_there = before.get(&chain).copied();
        known.insert(chain.clone(), was_there.unwrap_or(at_start));
        if was_there.is_none() && !at_start {
            new.push(chain);
        }
    }
    for BypassedChain {
        family,
        table,
        chain,
        hook,
        drops,
        ..
    } in &new
    {
        tracing::error!(
            family,
            table,
            chain,
            hook,
            policy_drop = drops,
            "new rules of this machine are NOT applied to transit through weir"
        );
    }
    for chain in before.keys().filter(|chain| !known.contains_key(chain)) {
        tracing::info!(chain = %chain, "rules that transit bypassed are gone");
    }
    new
}

/// The number of bypassed chains, and of those that did not exist at the start.
pub(super) fn counts(bypassed: &Bypassed) -> (usize, usize) {
    let new = bypassed.values().filter(|at_start| !**at_start).count();
    (bypassed.len(), new)
}

/// The bypassed chains, for an operator.
pub fn report(bypassed: &Bypassed) -> Vec<netfilter::Bypassed> {
    let row = |(chain, at_start): (&BypassedChain, &bool)| netfilter::Bypassed {
        family: chain.family.clone(),
        table: chain.table.clone(),
        chain: chain.chain.clone(),
        hook: chain.hook.clone(),
        has_rules: chain.has_rules,
        policy_drop: chain.drops,
        at_start: *at_start,
    };
    bypassed.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_appears_later_is_new() {
        let chain = |name: &str| BypassedChain {
            family: "inet".into(),
            table: "t".into(),
            chain: name.into(),
            hook: "forward".into(),
            has_rules: true,
            drops: false,
        };
        let mut known = Bypassed::new();
        assert!(renew(&mut known, vec![chain("a")], true).is_empty());
        let both = || vec![chain("a"), chain("b")];
        assert_eq!(renew(&mut known, both(), false), [chain("b")]);
        assert!(renew(&mut known, both(), false).is_empty());
        let rows: Vec<_> = report(&known)
            .into_iter()
            .map(|r| (r.chain, r.at_start))
            .collect();
        assert_eq!(rows, [("a".to_owned(), true), ("b".to_owned(), false)]);
        assert!(renew(&mut known, Vec::new(), false).is_empty());
        assert_eq!(renew(&mut known, vec![chain("a")], false), [chain("a")]);
    }
}
