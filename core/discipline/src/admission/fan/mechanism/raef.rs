//! RAEF, remove active elastic flows: as EFM, but only for flows that have been on the list for `active_time`.
//!
//! Source: Domzal and Jajszczyk, ICC 2008, as described in section 3 of the ECCM paper.

use weir_base::Instant;

use super::{Action, Event, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The mechanism, which has no state: every run is the same.
#[derive(Clone, Debug)]
pub(super) struct Raef;

/// If a run is due, the removal of elastic flows that were accepted `active_time` ago or earlier; `None`
/// if less time than that has passed since the start.
pub(super) fn removal(event: Event, now: Instant, rules: &Rules) -> Option<Removal> {
    let due = matches!(event, Event::NewFlow { due: true, .. });
    let passed = now.since(Instant::ZERO) >= rules.active_time;
    (due && passed).then(|| Removal::elastic(now.before(rules.active_time)))
}

impl Mechanism for Raef {
    fn word(&self) -> &'static str {
        "raef"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        removal(event, now, rules).map_or(Action::Nothing, Action::Remove)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_event() {
        let due = Action::Remove(Removal::elastic(at(6_000)));
        let [n, clear] = [Action::Nothing, Action::Nothing];
        assert_eq!(actions(&Raef, 16_000, &rules()), [due, n, clear, n, n]);
    }

    #[test]
    fn a_run_removes_those_of_ten_seconds_and_more() {
        let old = |ms| Action::Remove(Removal::elastic(at(ms)));
        let lines = [
            (9_999, DUE, Action::Nothing), // no flow can be that old
            (10_000, DUE, old(0)),
            (16_000, DUE, old(6_000)),
            (16_000, NOT_DUE, Action::Nothing),
            (16_500, CLEAR, Action::Nothing),
        ];
        run(&mut Raef, &rules(), &lines);
    }
}
