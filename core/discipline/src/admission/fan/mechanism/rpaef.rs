//! RPAEF, remove and prioritize in access active elastic flows: as RAEF, and removed flows come back before
//! others.
//!
//! While any of them is on the priority access flow list, and the link is not congested, each packet of
//! another new flow gets its flow accepted only with the probability P_RPAEF: streams, which send all the
//! time, soon succeed, but few elastic flows do.
//!
//! Source: Domzal et al., GLOBECOM 2009, as described in section 3 of the ECCM paper.

use weir_base::{Instant, Span};

use super::raef::removal;
use super::{Action, Event, Gate, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The mechanism, which has no state: every run is the same.
#[derive(Clone, Debug)]
pub(super) struct Rpaef;

impl Mechanism for Rpaef {
    fn word(&self) -> &'static str {
        "rpaef"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        let removal = removal(event, now, rules).map(Removal::set_aside);
        removal.map_or(Action::Nothing, Action::Remove)
    }

    fn gate(&self, rules: &Rules) -> Gate {
        Gate::SetAsideFirst(rules.priority_admission)
    }

    fn sets_aside(&self, rules: &Rules) -> Option<Option<Span>> {
        Some(Some(rules.priority_time))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;
    use crate::parts::chance::Chance;

    #[test]
    fn every_event() {
        let due = Action::Remove(Removal::elastic(at(6_000)).set_aside());
        let [n, clear] = [Action::Nothing, Action::Nothing];
        assert_eq!(actions(&Rpaef, 16_000, &rules()), [due, n, clear, n, n]);
    }

    #[test]
    fn a_run_prefers_what_it_removes() {
        let preferred = |ms| Action::Remove(Removal::elastic(at(ms)).set_aside());
        let lines = [
            (9_999, DUE, Action::Nothing),
            (16_000, DUE, preferred(6_000)),
            (16_500, CLEAR, Action::Nothing),
        ];
        run(&mut Rpaef, &rules(), &lines);
        let gate = Gate::SetAsideFirst(Chance::new(0.03));
        assert_eq!(Rpaef.gate(&rules()), gate);
        assert_eq!(Rpaef.sets_aside(&rules()), Some(Some(Span::from_secs(2))));
    }
}
