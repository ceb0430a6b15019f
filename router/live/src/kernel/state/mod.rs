//! Reads kernel state that a router refuses or warns of: the findings for [`weir_element::kernel::kinds`].
//!
//! - [`rules`]: policy rules
//! - [`policies`]: IPsec policies
//! - [`interfaces`]: state of the links themselves: masters, VRFs, XDP, bridges, devices on ports
//! - [`control`]: filters and programs of traffic control at ports
//! - [`routes`]: routes past the ports
//! - [`super::netfilter`]: chains of nf_tables and iptables, flowtables

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
use super::transit::Side;
use super::{follow, iptables};

pub use self::routes::{defaults_past, forwarding_off, past, unfollowed};

/// The router for which the state is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Forwarding mode of the router.
    pub mode: Mode,
    /// The frames that its ports take.
    pub ports: Vec<Side>,
}

impl Scope {
    /// Whether a port has this interface.
    pub(super) fn has(&self, interface: &str) -> bool {
        self.ports.iter().any(|port| port.interface == interface)
    }
}

/// The result of a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All findings, each once.
    pub findings: Vec<Finding>,
    /// The netfilter chains among the findings.
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

/// Reads the state repeatedly. A part that cannot be read keeps its latest value, so that a finding does not disappear
/// with a failure; the first failure of each part is logged.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    scope: Option<Scope>,
    latest: Latest,
    failures: Failures,
}

/// The latest value of each part.
#[derive(Clone, Debug, Default)]
struct Latest {
    chains: Vec<BypassedChain>,
    legacy: Vec<BypassedChain>,
    flowtables: Vec<String>,
    rules: Vec<Finding>,
    policies: Vec<Finding>,
    interfaces: Vec<Finding>,
    filters: Vec<Finding>,
}

/// The parts that could not be read.
#[derive(Clone, Debug, Default)]
struct Failures(Vec<&'static str>);

impl Reader {
    /// Reads everything but routes, in the calling thread's network namespace.
    pub fn read(&mut self, scope: &Scope, changed: Changed) -> Found {
        let changed = if self.scope.as_ref() == Some(scope) {
            changed
        } else {
            Changed::ALL
        };
        self.scope = Some(scope.clone());
        let ports = scope.ports.iter().map(|port| port.interface.as_str());
        let ports: Vec<_> = ports.collect();
        let (latest, failures) = (&mut self.latest, &mut self.failures);
        if changed.chains {
            let chains = netfilter::bypassed(scope.mode, &ports);
            failures.keep("netfilter rules", chains, &mut latest.chains);
            let flowtables = match scope.mode {
                Mode::Queue => netfilter::flowtables(&ports),
                Mode::Routed | Mode::Bridged => Ok(Vec::new()),
            };
            failures.keep("flowtables", flowtables, &mut latest.flowtables);
        }
        let legacy = netfilter::passes_ip(scope.mode, &ports).and_then(|passes| {
            if passes {
                iptables::bypassed()
            } else {
                Ok(Vec::new())
            }
        });
        failures.keep("iptables rules", legacy, &mut latest.legacy);
        failures.keep(
            "interfaces",
            interfaces::read(scope),
            &mut latest.interfaces,
        );
        failures.keep("filters", control::read(scope), &mut latest.filters);
        let chains = [&latest.chains[..], &latest.legacy].concat();
        let of_chain = |chain: &BypassedChain| Finding::new(&kinds::NETFILTER, chain.to_string());
        let mut findings: Vec<_> = chains.iter().map(of_chain).collect();
        let flowtables = latest.flowtables.iter();
        findings.extend(flowtables.map(|found| Finding::new(&kinds::FLOWTABLE, found)));
        if scope.mode == Mode::Routed {
            if changed.policies {
                failures.keep("IPsec policies", policies::read(), &mut latest.policies);
            }
            failures.keep("policy rules", rules::read(&ports), &mut latest.rules);
            findings.extend([&latest.rules[..], &latest.policies].concat());
        }
        findings.extend([&latest.interfaces[..], &latest.filters].concat());
        findings.sort();
        findings.dedup();
        Found { findings, chains }
    }
}

impl Failures {
    /// Takes over a value that could be read.
    fn keep<T>(&mut self, what: &'static str, read: io::Result<Vec<T>>, latest: &mut Vec<T>) {
        match read {
            Ok(found) => {
                self.0.retain(|failure| *failure != what);
                *latest = found;
            }
            Err(error) => {
                if !self.0.contains(&what) {
                    tracing::warn!(%error, "cannot read this machine's {what}, which forwarded packets may bypass");
                    self.0.push(what);
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_cannot_be_read_keeps_its_latest_value() {
        let (mut failures, mut latest) = (Failures::default(), vec![1]);
        failures.keep("rules", Err(io::ErrorKind::WouldBlock.into()), &mut latest);
        assert_eq!((failures.0.len(), &latest[..]), (1, &[1][..]));
        failures.keep("rules", Ok(vec![2]), &mut latest);
        assert_eq!((failures.0.len(), &latest[..]), (0, &[2][..]));
    }
}
