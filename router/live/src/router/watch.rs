//! Kernel state that the router refuses or warns of: read for a start and for a configuration, and watched while the
//! router runs.
//!
//! ```text
//! announcements, half a second --> Reader --> KernelFindings (`weir show kernel`) --> element: forward, or hand back
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use weir_element::kernel::kinds;
use weir_element::{Event, Finding, InForce};
use weir_lfb::Plan;
use weir_lfb::class::{kernel, netfilter};
use weir_lfb::router::{OnChange, RouterPlan};
use weir_path::plane::Mode;

use super::running::Running;
use crate::kernel::announcements::Announcements;
use crate::kernel::bridge;
use crate::kernel::netfilter::BypassedChain;
use crate::kernel::state::{self, Changed, Found, Reader, Scope};
use crate::mutex::lock;

/// Shortest time between two readings because of changes.
const GAP: Duration = Duration::from_millis(400);
/// Longest time between two readings: the kernel does not announce everything.
const GAP_MAX: Duration = Duration::from_millis(500);
/// Interval at which everything is read again, including announced state and all routes.
const WHOLE_GAP: Duration = Duration::from_secs(10);

/// The findings of the latest reading.
#[derive(Debug, Default)]
pub(super) struct KernelFindings {
    /// Each finding, with whether it existed at the start.
    findings: BTreeMap<Finding, bool>,
    chains: Vec<BypassedChain>,
}

impl KernelFindings {
    /// The findings at the start.
    pub(super) fn at_start(findings: &[Finding]) -> Self {
        let watched = |finding: &&Finding| *finding.kind != kinds::SPARE_DEFAULT;
        let findings = findings.iter().filter(watched);
        let findings = findings.map(|finding| (finding.clone(), true));
        Self {
            findings: findings.collect(),
            chains: Vec::new(),
        }
    }

    /// Findings that the forwarding tables do not contain.
    pub(super) fn unfollowed(&self) -> Vec<Finding> {
        let kinds = [
            &kinds::UNFOLLOWED_DEFAULT,
            &kinds::UNFOLLOWED_ROUTE,
            &kinds::PATH_MTU,
        ];
        let findings = self.findings.keys();
        findings
            .filter(|finding| kinds.contains(&finding.kind))
            .cloned()
            .collect()
    }

    /// Records findings that a new plan permits, so that they do not count as new once the plan is active.
    pub(super) fn permit(&mut self, findings: &[Finding], router: &RouterPlan) {
        let permitted = Self::at_start(findings).findings.into_keys();
        for finding in permitted.filter(|finding| !finding.is_refused(router)) {
            self.findings.entry(finding).or_insert(false);
        }
    }

    /// Replaces the state by the latest reading; logs and returns new findings.
    fn renew(&mut self, found: &Found, router: &RouterPlan) -> Vec<Finding> {
        let before = std::mem::take(&mut self.findings);
        self.chains.clone_from(&found.chains);
        for finding in &found.findings {
            let at_start = before.get(finding).copied().unwrap_or(false);
            self.findings.insert(finding.clone(), at_start);
        }
        let new = found.findings.iter().filter(|f| !before.contains_key(*f));
        for Finding { kind, what } in new.clone() {
            let finding = Finding::new(kind, what);
            match finding.is_refused(router) {
                true => tracing::error!(
                    kind = kind.name,
                    what,
                    "new kernel state that weir does NOT follow"
                ),
                false => tracing::warn!(kind = kind.name, what, "new kernel state"),
            }
        }
        for finding in before.keys().filter(|f| !self.findings.contains_key(f)) {
            tracing::info!(
                kind = finding.kind.name,
                what = finding.what,
                "kernel state removed"
            );
        }
        new.cloned().collect()
    }

    /// The number of bypassed netfilter chains, and of those that did not exist at the start.
    pub(super) fn chains(&self) -> (usize, usize) {
        let chains = self.findings.iter();
        let chains = chains.filter(|(finding, _)| *finding.kind == kinds::NETFILTER);
        let new = chains.clone().filter(|(_, at_start)| !**at_start).count();
        (chains.count(), new)
    }

    /// The bypassed netfilter chains, for an operator.
    pub(super) fn report_chains(&self) -> Vec<netfilter::Bypassed> {
        let row = |chain: &BypassedChain| netfilter::Bypassed {
            family: chain.family.clone(),
            table: chain.table.clone(),
            chain: chain.chain.clone(),
            hook: chain.hook.clone(),
            has_rules: chain.has_rules,
            policy_drop: chain.drops,
            at_start: self.is_of_start(&Finding::new(&kinds::NETFILTER, chain.to_string())),
        };
        self.chains.iter().map(row).collect()
    }

    fn is_of_start(&self, finding: &Finding) -> bool {
        self.findings.get(finding).copied().unwrap_or(false)
    }

    /// All findings, for an operator.
    pub(super) fn report(&self, router: &RouterPlan) -> Vec<kernel::Found> {
        let row = |(finding, at_start): (&Finding, &bool)| kernel::Found {
            kind: finding.kind.name,
            what: finding.what.clone(),
            refused: finding.is_refused(router),
            at_start: *at_start,
        };
        self.findings.iter().map(row).collect()
    }
}

/// Reads the state on which a plan depends: refused state and state to warn of, and the bridges of its interfaces.
pub(super) fn survey(plan: &Plan) -> (Vec<Finding>, Option<BTreeMap<String, u32>>) {
    let interfaces = plan.ports.iter().map(|port| port.interface.clone());
    let scope = Scope {
        mode: plan.router.mode,
        ports: interfaces.collect(),
    };
    (state::read(&scope).findings, bridges(plan.router.mode))
}

/// The kernel's bridge that each interface is in. Without netlink, no router can start anyway.
fn bridges(mode: Mode) -> Option<BTreeMap<String, u32>> {
    match mode {
        Mode::Bridged => bridge::masters().ok(),
        Mode::Routed => None,
    }
}

/// The parts of the kernel that announce changes.
struct Announced {
    chains: Option<Announcements>,
    policies: Option<Announcements>,
    rules: Option<Announcements>,
}

impl Announced {
    fn open() -> Self {
        let open = |what: &str, opened: io::Result<Announcements>| match opened {
            Ok(announcements) => Some(announcements),
            Err(error) => {
                tracing::debug!(%error, "cannot subscribe to changes of {what}; polling every {GAP_MAX:?}");
                None
            }
        };
        Self {
            chains: open("netfilter rules", Announcements::of_rules()),
            policies: open("IPsec policies", Announcements::of_policies()),
            rules: open("policy rules", Announcements::of_policy_rules()),
        }
    }

    /// Waits for an announcement until a time; returns the state to read then, and whether an announcement came.
    async fn changed(&mut self, until: Instant) -> (Changed, bool) {
        // Unannounced state may have changed.
        let mut changed = Changed {
            chains: self.chains.is_none(),
            policies: self.policies.is_none(),
        };
        let Self {
            chains,
            policies,
            rules,
        } = self;
        let first = async {
            tokio::select! {
                lives = next(chains) => Changed { chains: lives, ..Changed::NOTHING },
                lives = next(policies) => Changed { policies: lives, ..Changed::NOTHING },
                _ = next(rules) => Changed::NOTHING,
            }
        };
        let first = timeout_at(until, first).await;
        if let Ok(first) = first {
            changed.chains |= first.chains;
            changed.policies |= first.policies;
        }
        (changed, first.is_ok())
    }
}

/// Waits for an announcement; without a socket, forever. A socket that fails is closed, and counts as a change.
async fn next(announcements: &mut Option<Announcements>) -> bool {
    let Some(socket) = announcements else {
        return std::future::pending().await;
    };
    if let Err(error) = socket.changed().await {
        tracing::warn!(%error, "lost the subscription to changes of kernel state; polling every {GAP_MAX:?}");
        *announcements = None;
    }
    true
}

/// The state of the watch between two readings.
#[derive(Default)]
struct Watch {
    reader: Reader,
    scope: Option<Scope>,
    /// Routes past the ports, which are read less often than default routes.
    past: Vec<Finding>,
    whole_at: Option<Instant>,
}

impl Watch {
    /// Reads the state again, on a thread that may block.
    fn read(&mut self, running: &Running, changed: Changed) -> (Arc<InForce>, Found, Event) {
        let in_force = running.in_force();
        let mode = in_force.plan.router.mode;
        let interfaces = in_force.plan.ports.iter();
        let scope = Scope {
            mode,
            ports: interfaces
                .map(|port| in_force.interface(port).to_owned())
                .collect(),
        };
        let is_due = self.whole_at.is_none_or(|at| at.elapsed() > WHOLE_GAP);
        let is_whole = is_due || self.scope.as_ref() != Some(&scope);
        let changed = if is_whole { Changed::ALL } else { changed };
        let mut found = self.reader.read(&scope, changed);
        let tables = running.tables.load();
        if is_whole {
            self.whole_at = Some(Instant::now());
            self.past = match mode {
                Mode::Routed => state::past(&tables, &scope),
                Mode::Bridged => Vec::new(),
            };
        }
        if mode == Mode::Routed {
            found.findings.extend(state::defaults_past(&tables, &scope));
            found.findings.extend(self.past.iter().cloned());
            found
                .findings
                .extend(lock(&running.unfollowed).iter().cloned());
            found
                .findings
                .extend(state::forwarding_off(&tables, &scope));
        }
        self.scope = Some(scope);
        let event = Event::Kernel {
            findings: found.findings.clone(),
            bridges: bridges(mode),
        };
        (in_force, found, event)
    }
}

/// Reads the state again whenever it changes, and passes it to the element. Returns only if the router must stop.
pub(super) async fn follow(running: Arc<Running>) -> String {
    let mut announced = Announced::open();
    let mut watch = Watch::default();
    let (mut changed, mut is_announced) = (Changed::ALL, false);
    let mut latest = None;
    loop {
        let began = Instant::now();
        tracing::debug!("reading kernel state");
        let asked = Arc::clone(&running);
        let read = tokio::task::spawn_blocking(move || {
            let read = watch.read(&asked, changed);
            (watch, read)
        });
        let (in_force, found, event) = match read.await {
            Ok((again, read)) => {
                watch = again;
                read
            }
            Err(error) => return error.to_string(),
        };
        let router = &in_force.plan.router;
        lock(&running.known).renew(&found, router);
        let refused = found.findings.iter().filter(|f| f.is_refused(router));
        let refused: Vec<_> = refused.map(Finding::to_string).collect();
        if !refused.is_empty() && router.kernel_change == OnChange::Stop {
            return format!(
                "`kernel_change` is \"stop\", and this machine has kernel state that weir does not follow: {}",
                weir_element::kernel::listed(&refused)
            );
        }
        if latest.as_ref() != Some(&event) {
            running.handle_event(event.clone());
            latest = Some(event);
        }
        if is_announced {
            sleep_until(began + GAP).await; // a first change is read at once, and a storm a few times a second
        }
        (changed, is_announced) = announced.changed(began + GAP_MAX).await;
    }
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
        let found = |names: &[&str]| {
            let chains: Vec<_> = names.iter().map(|name| chain(name)).collect();
            let finding =
                |chain: &BypassedChain| Finding::new(&kinds::NETFILTER, chain.to_string());
            Found {
                findings: chains.iter().map(finding).collect(),
                chains,
            }
        };
        let change = weir_model::Change::new(
            weir_model::ComponentPath::new(["port", "a", "interface"]),
            weir_base::setting::Scalar::Text("r0".to_owned()),
        );
        let router = Plan::check(&[change]).unwrap().router;
        let mut known = KernelFindings::at_start(&found(&["a"]).findings);
        assert!(known.renew(&found(&["a"]), &router).is_empty());
        assert_eq!(
            known.renew(&found(&["a", "b"]), &router),
            found(&["b"]).findings
        );
        assert!(known.renew(&found(&["a", "b"]), &router).is_empty());
        assert_eq!(known.chains(), (2, 1));
        let rows = known.report_chains().into_iter();
        let rows: Vec<_> = rows.map(|row| (row.chain, row.at_start)).collect();
        assert_eq!(rows, [("a".to_owned(), true), ("b".to_owned(), false)]);
        assert!(known.report(&router).iter().all(|row| row.refused));
        assert!(known.renew(&found(&[]), &router).is_empty());
        assert_eq!(known.renew(&found(&["a"]), &router).len(), 1);
    }
}
