//! EFMP, the enhanced flushing mechanism with priority: one elastic flow at a time is removed from the list,
//! until the link is no longer congested; then all of them come back, and new flows are accepted too.
//!
//! ```text
//!              due: remove one                     fair rate high enough: restore all
//!   congested ─────────────────▶ congested ─ ... ─────────────────────────────────────▶ not congested
//! ```
//!
//! Source: Domzal, Wojcik, Lopez, Aracil, Jajszczyk, ETT 2014, as described in section 3 and Figure 2 of the ECCM
//! paper; both of its policies. The oldest flow is the one "which begun transmission as first": a flow that was
//! removed and came back keeps its original start time, so it is the next to be removed again.

use weir_base::{Instant, Span};

use super::{Action, Event, Mechanism, Rules};
use crate::admission::fan::admission::Estimate;
use crate::admission::fan::removal::Removal;

/// The mechanism, which has no state: removed flows are on the priority access flow list.
#[derive(Clone, Debug)]
pub(super) struct Efmp;

impl Mechanism for Efmp {
    fn word(&self) -> &'static str {
        "efmp"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        match event {
            Event::NewFlow { due: true, .. } => Action::Remove(if rules.removes_most_active {
                Removal::most_active(1).set_aside()
            } else {
                Removal::oldest(now).set_aside()
            }),
            Event::Estimate(Estimate::Clear) => Action::Restore,
            _ => Action::Nothing,
        }
    }

    fn sets_aside(&self, _rules: &Rules) -> Option<Option<Span>> {
        Some(None)
    }

    fn ranks(&self, rules: &Rules) -> bool {
        rules.removes_most_active
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_event() {
        let due = Action::Remove(Removal::oldest(at(16_000)).set_aside());
        let [n, clear] = [Action::Nothing, Action::Restore];
        assert_eq!(actions(&Efmp, 16_000, &rules()), [due, n, clear, n, n]);
    }

    #[test]
    fn one_at_a_time_until_it_is_enough() {
        let oldest = |ms| Action::Remove(Removal::oldest(at(ms)).set_aside());
        let lines = [
            (2000, DUE, oldest(2000)),
            (2001, NOT_DUE, Action::Nothing),
            (2500, CONGESTED, Action::Nothing),
            (4000, DUE, oldest(4000)),
            (4500, CLEAR, Action::Restore),
            (5000, CONGESTED, Action::Nothing),
        ];
        run(&mut Efmp, &rules(), &lines);
    }

    #[test]
    fn the_most_active_by_policy() {
        let rules = Rules {
            removes_most_active: true,
            ..rules()
        };
        let one = Action::Remove(Removal::most_active(1).set_aside());
        run(&mut Efmp, &rules, &[(2000, DUE, one)]);
        assert!(Efmp.ranks(&rules));
    }
}
