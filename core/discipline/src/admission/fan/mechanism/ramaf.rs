//! RAMAF, remove and accept most active flows: the most active flows leave, as many as exceed the number
//! that the minimum fair rate permits. Once the fair rate is high enough, they come back, and new flows are
//! accepted too.
//!
//! ```text
//!   idle ──due: remove N──▶ removed ──fair rate high enough: restore──▶ open ──next estimate──▶ idle
//!     ▲                     due: remove N again                          │ elastic flows that came since leave
//!     └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Equation 8: N = elastic flows on the list - (100 / min_FR - 1), with min_FR in per cent: at 5 % nineteen
//! remain. The paper says "the number of identifiers"; but the fair rate concerns elastic flows only, and the
//! eleven flows on the second list in its section 4 are 30 - 19.
//!
//! A run ends at the second estimate of the fair rate ("CM_interval plus twice FR measurement interval").
//! Elastic flows that were first accepted since the restoration then leave the list, whatever that estimate
//! is: they are "deleted from the PFL when RAMAF finishes its operation".
//!
//! Source: Domzal et al., ICC 2011, as described in section 3, equation 8 and Figure 3 of the ECCM paper.
//!
//! Deviations: flows with an MTU or less queued are not removed, however large N is, because they are not
//! active. If the first estimate after a removal is still too low, flows come back at the first estimate that
//! is not, and the run ends at the estimate after that.

use weir_base::{Instant, Span};

use super::{Action, Event, Mechanism, Rules};
use crate::admission::fan::admission::Estimate;
use crate::admission::fan::removal::Removal;

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ramaf {
    /// No run is in progress.
    #[default]
    Idle,
    /// Flows were removed, and the fair rate has not yet been estimated as high enough.
    Removed,
    /// The removed flows came back at this time, and new flows are accepted.
    Open(Instant),
}

/// Equation 8.
fn too_many(elastic: u64, min_fair_rate: f64) -> u64 {
    // Rounded up a little, so that 1 / 0.05 gives 20 whatever its representation.
    let remain = (1.0 / min_fair_rate - 1.0 + 1e-9) as u64;
    elastic.saturating_sub(remain)
}

impl Mechanism for Ramaf {
    fn word(&self) -> &'static str {
        "ramaf"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        match (*self, event) {
            (_, Event::NewFlow { due: true, elastic }) => {
                *self = Self::Removed;
                let count = too_many(elastic, rules.min_fair_rate);
                Action::Remove(Removal::most_active(count).set_aside())
            }
            (Self::Removed, Event::Estimate(Estimate::Clear)) => {
                *self = Self::Open(now);
                Action::Restore
            }
            (Self::Open(since), Event::Estimate(_)) => {
                *self = Self::Idle;
                Action::Remove(Removal::new_ones(since, now))
            }
            _ => Action::Nothing,
        }
    }

    fn sets_aside(&self, _rules: &Rules) -> Option<Option<Span>> {
        Some(None)
    }

    fn ranks(&self, _rules: &Rules) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_state_and_event() {
        use Action::{Nothing, Restore};
        use Ramaf::{Idle, Open, Removed};
        let most = Action::Remove(Removal::most_active(21).set_aside());
        let new_ones = Action::Remove(Removal::new_ones(at(4000), at(4500)));
        let (open, now) = (Open(at(4000)), Open(at(4500)));
        let due = (most, Removed);
        let table = [
            // state, and for each event: due, not due, clear, congested, timer
            (
                Idle,
                [
                    due,
                    (Nothing, Idle),
                    (Nothing, Idle),
                    (Nothing, Idle),
                    (Nothing, Idle),
                ],
            ),
            (
                Removed,
                [
                    due,
                    (Nothing, Removed),
                    (Restore, now),
                    (Nothing, Removed),
                    (Nothing, Removed),
                ],
            ),
            (
                open,
                [
                    due,
                    (Nothing, open),
                    (new_ones, Idle),
                    (new_ones, Idle),
                    (Nothing, open),
                ],
            ),
        ];
        for (state, expected) in table {
            assert_eq!(row(&state, 4500, &rules()), expected, "{state:?}");
        }
    }

    #[test]
    fn equation_8_by_hand() {
        // min_FR 5 %: 100 / 5 - 1 = 19 flows remain; 40 - 19 = 21, and the paper's 11 are 30 - 19.
        assert_eq!(too_many(40, 0.05), 21);
        assert_eq!(too_many(30, 0.05), 11);
        assert_eq!(too_many(19, 0.05), 0);
        assert_eq!(too_many(5, 0.05), 0);
        // 100 / 3 - 1 = 32.3: 32 remain.
        assert_eq!(too_many(40, 0.03), 8);
    }

    #[test]
    fn a_run_from_end_to_end() {
        let most = Action::Remove(Removal::most_active(21).set_aside());
        let lines = [
            (2900, NOT_DUE, Action::Nothing),
            (3000, CONGESTED, Action::Nothing),
            (3100, DUE, most),
            (3500, CONGESTED, Action::Nothing),
            (4000, CLEAR, Action::Restore),
            (4200, NOT_DUE, Action::Nothing), // by the priority load
            (
                4500,
                CONGESTED,
                Action::Remove(Removal::new_ones(at(4000), at(4500))),
            ),
            (5000, CLEAR, Action::Nothing),
        ];
        let mut ramaf = Ramaf::default();
        run(&mut ramaf, &rules(), &lines);
        assert_eq!(ramaf, Ramaf::Idle);
    }

    #[test]
    fn it_repeats_while_it_is_not_enough_and_ends_with_the_second_estimate() {
        let most = Action::Remove(Removal::most_active(21).set_aside());
        let new_ones = Action::Remove(Removal::new_ones(at(6500), at(7000)));
        let lines = [
            (3000, DUE, most),
            (3500, CONGESTED, Action::Nothing),
            (6000, DUE, most),
            (6500, CLEAR, Action::Restore),
            (7000, CLEAR, new_ones), // there would be room for them
            (7500, CONGESTED, Action::Nothing),
        ];
        run(&mut Ramaf::default(), &rules(), &lines);
    }
}
