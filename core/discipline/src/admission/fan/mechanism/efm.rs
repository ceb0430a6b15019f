//! EFM, the enhanced flushing mechanism: all elastic flows leave the list.
//!
//! They then wait like new flows, and come back together with new flows as soon as the link is no longer
//! congested, so the list grows with every run.
//!
//! Source: Domzal and Jajszczyk, ICC 2008, as described in section 3 of the ECCM paper.

use weir_base::Instant;

use super::{Action, Event, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The mechanism, which has no state: every run is the same.
#[derive(Clone, Debug)]
pub(super) struct Efm;

impl Mechanism for Efm {
    fn word(&self) -> &'static str {
        "efm"
    }

    fn on(&mut self, event: Event, now: Instant, _rules: &Rules) -> Action {
        match event {
            Event::NewFlow { due: true, .. } => Action::Remove(Removal::elastic(now)),
            _ => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_event() {
        let due = Action::Remove(Removal::elastic(at(16_000)));
        let [n, clear] = [Action::Nothing, Action::Nothing];
        assert_eq!(actions(&Efm, 16_000, &rules()), [due, n, clear, n, n]);
    }

    #[test]
    fn a_run_removes_all() {
        let all = Action::Remove(Removal::elastic(at(6000)));
        let lines = [
            (5000, NOT_DUE, Action::Nothing),
            (5500, CONGESTED, Action::Nothing),
            (6000, DUE, all),
            (6001, NOT_DUE, Action::Nothing),
            (6500, CLEAR, Action::Nothing),
            (7000, Event::Timer, Action::Nothing),
        ];
        run(&mut Efm, &rules(), &lines);
    }
}
