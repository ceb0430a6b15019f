//! RBAEF, remove and block active elastic flows: as RAEF, and removed flows may not come back for a time.
//!
//! Source: Domzal and Jajszczyk, ICC 2008, as described in section 3 of the ECCM paper.

use weir_base::{Instant, Span};

use super::raef::removal;
use super::{Action, Event, Gate, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The mechanism, which has no state: every run is the same.
#[derive(Clone, Debug)]
pub(super) struct Rbaef;

impl Mechanism for Rbaef {
    fn word(&self) -> &'static str {
        "rbaef"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        let removal = removal(event, now, rules).map(Removal::set_aside);
        removal.map_or(Action::Nothing, Action::Remove)
    }

    fn gate(&self, _rules: &Rules) -> Gate {
        Gate::NotBlocked
    }

    fn sets_aside(&self, rules: &Rules) -> Option<Option<Span>> {
        Some(Some(rules.blocked_time))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_event() {
        let due = Action::Remove(Removal::elastic(at(6_000)).set_aside());
        let [n, clear] = [Action::Nothing, Action::Nothing];
        assert_eq!(actions(&Rbaef, 16_000, &rules()), [due, n, clear, n, n]);
    }

    #[test]
    fn a_run_blocks_what_it_removes() {
        let blocked = |ms| Action::Remove(Removal::elastic(at(ms)).set_aside());
        let lines = [
            (9_999, DUE, Action::Nothing),
            (16_000, DUE, blocked(6_000)),
            (16_500, CLEAR, Action::Nothing),
        ];
        run(&mut Rbaef, &rules(), &lines);
        assert_eq!(Rbaef.gate(&rules()), Gate::NotBlocked);
        assert_eq!(Rbaef.sets_aside(&rules()), Some(Some(Span::from_secs(2))));
    }
}
