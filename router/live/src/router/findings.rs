//! The findings about the kernel's state, as readers of a running router see them.

use std::collections::BTreeMap;

use weir_element::Finding;
use weir_element::kernel::kinds;
use weir_lfb::class::{kernel, netfilter};
use weir_lfb::router::RouterPlan;

use crate::kernel::netfilter::BypassedChain;
use crate::kernel::state::Found;

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
    pub(super) fn renew(&mut self, found: &Found, router: &RouterPlan) -> Vec<Finding> {
        let before = std::mem::take(&mut self.findings);
        self.chains.clone_from(&found.chains);
        for finding in &found.findings {
            let at_start = before.get(finding).copied().unwrap_or(false);
            self.findings.insert(finding.clone(), at_start);
        }
        let new = found.findings.iter().filter(|f| !before.contains_key(*f));
        for Finding { kind, what } in new.clone() {
            let finding = Finding::new(kind, what);
            if finding.is_refused(router) {
                tracing::error!(
                    kind = kind.name,
                    what,
                    "new kernel state that weir does NOT follow"
                )
            } else {
                tracing::warn!(kind = kind.name, what, "new kernel state")
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_lfb::Plan;

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
