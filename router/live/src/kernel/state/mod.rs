//! Reads kernel state that a router refuses or warns of: the findings for [`weir_element::kernel::kinds`].
//!
//! - [`rules`]: policy rules
//! - [`policies`]: IPsec policies
//! - [`interfaces`]: what the links themselves say: masters, VRFs, XDP, bridges, devices on ports
//! - [`control`]: filters and programs at the ingress of ports
//! - [`routes`]: routes that leave past the ports
//! - [`super::netfilter`]: chains of nf_tables and iptables

mod control;
mod interfaces;
mod policies;
mod routes;
mod rules;

use std::io;

use weir_element::Finding;
use weir_element::kernel::kinds;
use weir_path::plane::Mode;

use super::netfilter::{self, BypassedChain};
use super::{follow, iptables};

pub use self::routes::{defaults_past, forwarding_off, past, unfollowed};

/// The router for which the state is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// How it forwards.
    pub mode: Mode,
    /// The interfaces of its ports.
    pub ports: Vec<String>,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All findings, each once.
    pub findings: Vec<Finding>,
    /// Of these, the netfilter chains.
    pub chains: Vec<BypassedChain>,
}

/// State whose changes the kernel announces, and which is long: it is read only after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Chains of nf_tables.
    pub chains: bool,
    /// IPsec policies.
    pub policies: bool,
}

impl Changed {
    /// Everything may have changed.
    pub const ALL: Self = Self {
        chains: true,
        policies: true,
    };
    /// Nothing was announced.
    pub const NOTHING: Self = Self {
        chains: false,
        policies: false,
    };
}

/// Reads the state, again and again. What cannot be read stays as it was, and the log says so once.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    scope: Option<Scope>,
    chains: Vec<BypassedChain>,
    policies: Vec<Finding>,
    failures: Vec<&'static str>,
}

impl Reader {
    /// Reads everything but routes, in the calling thread's network namespace.
    pub fn read(&mut self, scope: &Scope, changed: Changed) -> Found {
        let changed = match self.scope.as_ref() == Some(scope) {
            true => changed,
            false => Changed::ALL,
        };
        self.scope = Some(scope.clone());
        let ports: Vec<_> = scope.ports.iter().map(String::as_str).collect();
        if changed.chains {
            let chains = netfilter::bypassed(scope.mode, &ports);
            self.chains = self.kept("netfilter rules", chains, self.chains.clone());
        }
        let is_routed = scope.mode == Mode::Routed;
        if changed.policies && is_routed {
            let policies = policies::read();
            self.policies = self.kept("IPsec policies", policies, self.policies.clone());
        }
        let mut chains = self.chains.clone();
        let legacy = netfilter::passes_ip(scope.mode, &ports).and_then(|passes| {
            if passes {
                iptables::bypassed()
            } else {
                Ok(Vec::new())
            }
        });
        chains.extend(self.kept("iptables rules", legacy, Vec::new()));
        let mut findings: Vec<_> = chains
            .iter()
            .map(|chain| Finding::new(&kinds::NETFILTER, chain.to_string()))
            .collect();
        if is_routed {
            findings.extend(self.kept("policy rules", rules::read(&ports), Vec::new()));
            findings.extend(self.policies.iter().cloned());
        }
        findings.extend(self.kept("interfaces", interfaces::read(scope), Vec::new()));
        findings.extend(self.kept("filters", control::read(&ports), Vec::new()));
        findings.sort();
        findings.dedup();
        Found { findings, chains }
    }

    fn kept<T>(&mut self, what: &'static str, read: io::Result<Vec<T>>, before: Vec<T>) -> Vec<T> {
        match read {
            Ok(found) => {
                self.failures.retain(|failure| *failure != what);
                found
            }
            Err(error) => {
                if !self.failures.contains(&what) {
                    tracing::warn!(%error, "cannot read this machine's {what}, which forwarded packets may bypass");
                    self.failures.push(what);
                }
                before
            }
        }
    }
}

/// Reads everything once, routes too.
pub fn read(scope: &Scope) -> Found {
    let mut found = Reader::default().read(scope, Changed::ALL);
    if scope.mode == Mode::Routed {
        match follow::read_state() {
            Ok(state) => {
                let tables = state.tables();
                let defaults = defaults_past(tables, scope);
                found
                    .findings
                    .extend(routes::spare_past(&state, scope, &defaults));
                found.findings.extend(defaults);
                found.findings.extend(past(tables, scope));
                found.findings.extend(unfollowed(&state));
                found.findings.extend(forwarding_off(tables, scope));
            }
            Err(error) => tracing::warn!(%error, "cannot read this machine's routes"),
        }
    }
    found
}
