//! Kernel state that decides whether a packet is forwarded, where to, how large, or with which source address.
//!
//! ```text
//! [all_kinds]: every kind, a stance for each mode ---+--> admission, the watch while the router runs
//! readers of the habitat --> [Finding] --------------+--> docs/router.md
//! ```
//!
//! weir follows a kind of state, refuses it by name, or warns about it; it never ignores it silently. [`all_kinds`] is
//! the only list: each finding of a reader names its kind, and the kind determines the consequence. A new kind is an
//! entry in [`kinds`] if weir refuses it or warns about it, or else in `others`.

pub mod kinds;
mod others;

use std::fmt;

use weir_lfb::router::RouterPlan;
use weir_path::plane::Mode;

/// Maximum findings in one sentence; the others are counted.
const NAMED_MAX: usize = 8;

/// A kind of kernel state.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The part of the kernel that the state belongs to.
    pub part: &'static str,
    /// Name of the kind.
    pub name: &'static str,
    /// The decision that the kernel makes by this state.
    pub decides: &'static str,
    /// weir's behaviour in mode "routed".
    pub routed: Stance,
    /// weir's behaviour in mode "bridged".
    pub bridged: Stance,
    /// weir's behaviour in mode "queue".
    pub queue: Stance,
    /// How weir reads the state, and detects changes.
    pub read: &'static str,
    /// The text for an operator about findings of this kind.
    pub advice: Option<Advice>,
}

/// weir's behaviour towards a kind of kernel state, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stance {
    /// weir does the same as the kernel.
    Follows(&'static str),
    /// The state acts on weir's packets too, or only on packets that the kernel keeps.
    Applies(&'static str),
    /// A router does not start, and a running router hands forwarding back to the kernel.
    Refuses(&'static str),
    /// The log and `weir check` warn about it.
    Warns(&'static str),
    /// weir's behaviour differs, as stated.
    Differs(&'static str),
    /// The state has no meaning in this mode.
    Without(&'static str),
}

/// The text for an operator about findings of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Advice {
    /// The consequence; the findings follow after a colon.
    pub claim: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The key that permits the state; `None` if no key permits it.
    pub permit: Option<Permit>,
}

/// A key of the router that permits state which is refused otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permit {
    /// Name of the key.
    pub key: &'static str,
    /// The consequence; the findings follow.
    pub then: &'static str,
}

/// An instance of a kind of kernel state on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Kind of the state.
    pub kind: &'static Kind,
    /// Name and place of the state, as the machine's own tools show them.
    pub what: String,
}

/// Every kind, as docs/router.md lists them.
pub fn all_kinds() -> impl Iterator<Item = &'static Kind> {
    kinds::WITH_FINDINGS.iter().copied().chain(&others::OTHERS)
}

impl Stance {
    /// The word for this stance.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Follows(_) => "follows",
            Self::Applies(_) => "applies",
            Self::Refuses(_) => "refuses",
            Self::Warns(_) => "warns",
            Self::Differs(_) => "differs",
            Self::Without(_) => "no meaning",
        }
    }

    /// The reason.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Follows(why)
            | Self::Applies(why)
            | Self::Refuses(why)
            | Self::Warns(why)
            | Self::Differs(why)
            | Self::Without(why) => why,
        }
    }
}

impl Kind {
    /// weir's behaviour in a mode.
    pub const fn stance(&self, mode: Mode) -> Stance {
        match mode {
            Mode::Routed => self.routed,
            Mode::Bridged => self.bridged,
            Mode::Queue => self.queue,
        }
    }

    fn permit(&self) -> Option<Permit> {
        self.advice.as_ref()?.permit
    }
}

impl Finding {
    /// A finding of a kind.
    pub fn new(kind: &'static Kind, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { kind, what }
    }

    /// Whether a router with these components must not forward while this state exists.
    pub fn is_refused(&self, router: &RouterPlan) -> bool {
        let permitted = self.kind.permit().is_some_and(|p| router.permits(p.key));
        matches!(self.kind.stance(router.mode), Stance::Refuses(_)) && !permitted
    }

    /// Whether `kernel_change = "ignore"` may reduce it to a log entry. State that no key permits is never ignored:
    /// packets would leave in clear text, or twice.
    pub fn is_ignorable(&self) -> bool {
        self.kind.permit().is_some()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name, self.what)
    }
}

/// Why these findings refuse a plan, a sentence for each kind.
pub fn refusals(findings: &[Finding], router: &RouterPlan) -> Vec<String> {
    let sentence = |advice: &Advice, named: String| {
        let Advice { claim, remedy, .. } = advice;
        let permit = advice
            .permit
            .map(|Permit { key, .. }| format!(", or set `{key} = true` if that is intended"));
        format!("{claim}: {named}; {remedy}{}", permit.unwrap_or_default())
    };
    sentences(findings, |finding| finding.is_refused(router), sentence)
}

/// The meaning of these findings for a router that may forward despite them, a sentence for each kind.
pub fn doubts(findings: &[Finding], router: &RouterPlan) -> Vec<String> {
    let counts = |finding: &Finding| {
        let stance = finding.kind.stance(router.mode);
        matches!(stance, Stance::Warns(_) | Stance::Refuses(_)) && !finding.is_refused(router)
    };
    let sentence = |advice: &Advice, named: String| match advice.permit {
        Some(Permit { key, then }) => format!("`{key}` is true: {then} {named}"),
        None => format!("{}: {named}; {}", advice.claim, advice.remedy),
    };
    sentences(findings, counts, sentence)
}

/// A sentence for each kind, in the order of the list.
fn sentences(
    findings: &[Finding],
    counts: impl Fn(&Finding) -> bool,
    sentence: impl Fn(&Advice, String) -> String,
) -> Vec<String> {
    let of_kind = |kind: &'static Kind| {
        let found = findings.iter().filter(|f| f.kind == kind && counts(f));
        let found: Vec<_> = found.map(|finding| finding.what.clone()).collect();
        let advice = kind.advice.as_ref().filter(|_| !found.is_empty())?;
        Some(sentence(advice, listed(&found)))
    };
    all_kinds().filter_map(of_kind).collect()
}

/// Names in one line; a long list is cut, and the rest is counted.
pub fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join("; ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_lfb::Plan;

    fn router(assignments: &[&str]) -> RouterPlan {
        let ports = ["port.a.interface=r0", "port.b.interface=r1"];
        let all = ports.iter().chain(assignments);
        let changes: Vec<_> = all.map(|t| weir_config::assignment(t).unwrap()).collect();
        Plan::check(&changes).unwrap().router
    }

    #[test]
    fn what_is_refused_or_warned_of_has_advice() {
        for kind in all_kinds() {
            let acts = [Mode::Routed, Mode::Bridged, Mode::Queue].map(|mode| {
                let stance = kind.stance(mode);
                assert!(!stance.why().is_empty(), "{}", kind.name);
                matches!(stance, Stance::Refuses(_) | Stance::Warns(_))
            });
            assert_eq!(kind.advice.is_some(), acts.contains(&true), "{}", kind.name);
            if let Some(permit) = kind.permit() {
                assert!(!router(&[]).permits(permit.key));
                assert!(router(&[&format!("{}=true", permit.key)]).permits(permit.key));
            }
        }
        let mut names: Vec<_> = all_kinds().map(|kind| kind.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a name for each kind");
    }

    #[test]
    fn sentences_name_each_kind_once_with_its_remedy() {
        let rule = |n: usize| Finding::new(&kinds::POLICY_RULES, format!("rule {n}"));
        let mut found: Vec<_> = (0..10).map(rule).collect();
        found.push(Finding::new(&kinds::XFRM, "out a b"));
        found.push(Finding::new(&kinds::UNPORTED_ROUTE, "docker0"));
        let strict = refusals(&found, &router(&[]));
        assert_eq!(strict.len(), 2, "{strict:?}");
        assert!(strict[0].contains("rule 7; and 2 more; "), "{}", strict[0]);
        assert!(strict[0].contains("`bypass_rules = true`"), "{}", strict[0]);
        assert!(strict[1].contains("out a b") && !strict[1].contains(" = true"));
        assert_eq!(doubts(&found, &router(&[])).len(), 1);
        let permitted = router(&["bypass_rules=true"]);
        assert_eq!(refusals(&found, &permitted), strict[1..]);
        assert!(doubts(&found, &permitted)[0].starts_with("`bypass_rules` is true: "));
        // IP's rules mean nothing to a bridge.
        assert!(refusals(&found, &router(&["mode=bridged"])).is_empty());
    }
}
