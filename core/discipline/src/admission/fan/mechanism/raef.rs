//! RAEF, remove active elastic flows: as EFM, but only for flows that have been on the list for `active_time`.
//!
//! - RBAEF, remove and block active elastic flows: removed flows may not come back for a time.
//! - RPAEF, remove and prioritize in access active elastic flows: removed flows come back before others. While any
//!   of them is on the priority access flow list, and the link is not congested, each packet of another new flow
//!   gets its flow accepted only with the probability P_RPAEF: streams, which send all the time, soon succeed, but
//!   few elastic flows do.
//!
//! Source: Domzal and Jajszczyk, ICC 2008, and for RPAEF Domzal et al., GLOBECOM 2009, as described in section 3
//! of the ECCM paper.

use weir_base::{Instant, Span};

use super::{Action, Event, Gate, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The three mechanisms, which have no state: every run is the same.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raef {
    /// RAEF: removed flows wait like new ones.
    Forget,
    /// RBAEF: removed flows are blocked for a time.
    Block,
    /// RPAEF: removed flows come back before others.
    Prefer,
}

impl Mechanism for Raef {
    fn word(&self) -> &'static str {
        match self {
            Self::Forget => "raef",
            Self::Block => "rbaef",
            Self::Prefer => "rpaef",
        }
    }

    /// If a run is due, removes the elastic flows that were accepted `active_time` ago or earlier, if more time than
    /// that has passed since the start.
    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        let due = matches!(event, Event::NewFlow { due: true, .. });
        if !due || now.since(Instant::ZERO) < rules.active_time {
            return Action::Nothing;
        }
        let removal = Removal::elastic(now.before(rules.active_time));
        Action::Remove(match self {
            Self::Forget => removal,
            Self::Block | Self::Prefer => removal.set_aside(),
        })
    }

    fn gate(&self, rules: &Rules) -> Gate {
        match self {
            Self::Forget => Gate::Open,
            Self::Block => Gate::NotBlocked,
            Self::Prefer => Gate::SetAsideFirst(rules.priority_admission),
        }
    }

    fn sets_aside(&self, rules: &Rules) -> Option<Option<Span>> {
        match self {
            Self::Forget => None,
            Self::Block => Some(Some(rules.blocked_time)),
            Self::Prefer => Some(Some(rules.priority_time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;
    use crate::parts::chance::Chance;

    #[test]
    fn every_event() {
        let removal = Removal::elastic(at(6_000));
        for (mut raef, removal) in [
            (Raef::Forget, removal),
            (Raef::Block, removal.set_aside()),
            (Raef::Prefer, removal.set_aside()),
        ] {
            let due = Action::Remove(removal);
            let [n, clear] = [Action::Nothing, Action::Nothing];
            assert_eq!(actions(&raef, 16_000, &rules()), [due, n, clear, n, n]);
            let lines = [
                (9_999, DUE, Action::Nothing), // no flow can be that old
                (16_000, DUE, due),
                (16_500, CLEAR, Action::Nothing),
            ];
            run(&mut raef, &rules(), &lines);
        }
    }

    #[test]
    fn a_run_removes_those_of_ten_seconds_and_more() {
        let old = |ms| Action::Remove(Removal::elastic(at(ms)));
        let lines = [
            (10_000, DUE, old(0)),
            (16_000, DUE, old(6_000)),
            (16_000, NOT_DUE, Action::Nothing),
        ];
        run(&mut Raef::Forget, &rules(), &lines);
    }

    #[test]
    fn removed_flows_are_forgotten_blocked_or_preferred() {
        let time = Some(Some(Span::from_secs(2)));
        let preferred = Gate::SetAsideFirst(Chance::new(0.03));
        for (raef, gate, aside) in [
            (Raef::Forget, Gate::Open, None),
            (Raef::Block, Gate::NotBlocked, time),
            (Raef::Prefer, preferred, time),
        ] {
            let found = (raef.gate(&rules()), raef.sets_aside(&rules()));
            assert_eq!(found, (gate, aside));
        }
    }
}
