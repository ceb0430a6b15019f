//! ECCM, the efficient congestion control mechanism: for a moment the fair rate is assumed to be high
//! enough, so that every waiting flow is accepted; then the elastic ones among them are removed again.
//!
//! ```text
//!          due: FR = min_FR              FR_int / 2: estimate          FR_int: new elastic flows leave
//!   idle ────────────────────▶ open ─────────────────────▶ closing ────────────────────────────────▶ idle
//! ```
//!
//! Source: Domzal et al., section 3, Figures 4 and 5. The states are the figure's `control_param` 0, 1, 2.
//!
//! Deviations. Figure 4 makes all three steps when a packet of a new flow arrives in congestion. But the
//! first step has just ended congestion, so there is no such packet, and the procedure stays in its first
//! step forever. Here timers drive the second and the third step; `eccm = "literal"` follows the figure.
//! Where the figure restarts the estimation, we start with an estimate, because the text requires the moment
//! to last half an interval, and removes the flows that came in that time. Its two end points count as
//! part of that time.

use weir_base::Instant;

use super::{Action, Event, Mechanism, Rules};
use crate::admission::fan::removal::Removal;

/// The state of the procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Eccm {
    /// No run is in progress.
    #[default]
    Idle,
    /// The fair rate is held.
    Open(Run),
    /// The fair rate is estimated again.
    Closing(Run),
}

/// The times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// When it began.
    since: Instant,
    /// When the hold of the fair rate ends.
    half: Instant,
    /// When new elastic flows are removed.
    end: Instant,
    /// Whether the run waits for packets instead of timers.
    is_literal: bool,
}

impl Run {
    fn begin(now: Instant, rules: &Rules) -> Self {
        let interval = rules.fair_rate_interval;
        let half = weir_base::Span::from_nanos(interval.as_nanos() / 2);
        Self {
            since: now,
            half: now + half,
            end: now + interval,
            is_literal: rules.is_literal,
        }
    }

    /// Whether an event at `now` triggers the step that is due after `at`.
    fn steps(&self, event: Event, now: Instant, at: Instant) -> bool {
        match (event, self.is_literal) {
            (Event::Timer, false) => now >= at,
            (Event::NewFlow { .. }, true) => now > at,
            _ => false,
        }
    }

    /// The removal of flows that came while the fair rate was held. In the literal form, of flows that are
    /// now older than half an interval and younger than one.
    fn new_ones(&self, now: Instant, rules: &Rules) -> Removal {
        if !self.is_literal {
            return Removal::new_ones(self.since, self.half);
        }
        let half = self.half.since(self.since);
        Removal::new_ones(now.before(rules.fair_rate_interval), now.before(half))
    }
}

impl Mechanism for Eccm {
    fn word(&self) -> &'static str {
        "eccm"
    }

    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action {
        match (*self, event) {
            (Self::Idle, Event::NewFlow { due: true, .. }) => {
                *self = Self::Open(Run::begin(now, rules));
                Action::Hold
            }
            (Self::Open(run), event) if run.steps(event, now, run.half) => {
                *self = Self::Closing(run);
                Action::Resume
            }
            (Self::Closing(run), event) if run.steps(event, now, run.end) => {
                *self = Self::Idle;
                Action::Remove(run.new_ones(now, rules))
            }
            _ => Action::Nothing,
        }
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Open(run) if !run.is_literal => Some(run.half),
            Self::Closing(run) if !run.is_literal => Some(run.end),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_state_and_event() {
        use Action::{Hold, Nothing, Resume};
        use Eccm::{Closing, Idle, Open};
        let timers = rules();
        let literal = Rules {
            is_literal: true,
            ..rules()
        };
        let [run, literally] = [&timers, &literal].map(|rules| Run::begin(at(6000), rules));
        let leave = Action::Remove(Removal::new_ones(at(6000), at(6250)));
        // Flows older than 250 ms and younger than 500 ms, at 6501 ms.
        let leave_literally = Action::Remove(Removal::new_ones(at(6001), at(6251)));
        let stays = |state| (Nothing, state);
        let table = [
            // rules, state, time, and for each event: due, not due, clear, congested, timer
            (
                &timers,
                Idle,
                6000,
                [
                    (Hold, Open(run)),
                    stays(Idle),
                    stays(Idle),
                    stays(Idle),
                    stays(Idle),
                ],
            ),
            (&timers, Open(run), 6249, [stays(Open(run)); 5]),
            (
                &timers,
                Open(run),
                6250,
                [
                    stays(Open(run)),
                    stays(Open(run)),
                    stays(Open(run)),
                    stays(Open(run)),
                    (Resume, Closing(run)),
                ],
            ),
            (&timers, Closing(run), 6499, [stays(Closing(run)); 5]),
            (
                &timers,
                Closing(run),
                6500,
                [
                    stays(Closing(run)),
                    stays(Closing(run)),
                    stays(Closing(run)),
                    stays(Closing(run)),
                    (leave, Idle),
                ],
            ),
            (&literal, Open(literally), 6250, [stays(Open(literally)); 5]),
            (
                &literal,
                Open(literally),
                6251,
                [
                    (Resume, Closing(literally)),
                    (Resume, Closing(literally)),
                    stays(Open(literally)),
                    stays(Open(literally)),
                    stays(Open(literally)),
                ],
            ),
            (
                &literal,
                Closing(literally),
                6500,
                [stays(Closing(literally)); 5],
            ),
            (
                &literal,
                Closing(literally),
                6501,
                [
                    (leave_literally, Idle),
                    (leave_literally, Idle),
                    stays(Closing(literally)),
                    stays(Closing(literally)),
                    stays(Closing(literally)),
                ],
            ),
        ];
        for (rules, state, ms, expected) in table {
            assert_eq!(row(&state, ms, rules), expected, "{state:?} at {ms} ms");
        }
    }

    #[test]
    fn timers_drive_it() {
        let leave = Action::Remove(Removal::new_ones(at(6000), at(6250)));
        let mut eccm = Eccm::default();
        run(
            &mut eccm,
            &rules(),
            &[
                (5999, NOT_DUE, Action::Nothing),
                (6000, DUE, Action::Hold),
                (6100, DUE, Action::Nothing), // by the priority load
            ],
        );
        assert_eq!(eccm.timeout(), Some(at(6250)));
        run(
            &mut eccm,
            &rules(),
            &[
                (6250, Event::Timer, Action::Resume),
                (6300, DUE, Action::Nothing),
            ],
        );
        assert_eq!(eccm.timeout(), Some(at(6500)));
        let lines = [
            (6400, CONGESTED, Action::Nothing),
            (6500, Event::Timer, leave),
            (6500, Event::Timer, Action::Nothing),
        ];
        run(&mut eccm, &rules(), &lines);
        assert_eq!((eccm, eccm.timeout()), (Eccm::Idle, None));
    }

    #[test]
    fn literally_it_waits_for_packets_that_do_not_come() {
        let literal = Rules {
            is_literal: true,
            ..rules()
        };
        let mut eccm = Eccm::default();
        run(&mut eccm, &literal, &[(6000, DUE, Action::Hold)]);
        // No timer, and no packet of a new flow in congestion, because the fair rate is held.
        assert_eq!(eccm.timeout(), None);
        let lines = [
            (6500, Event::Timer, Action::Nothing),
            (9000, CLEAR, Action::Nothing),
            // Only the priority load can make the link congested, which causes the next step.
            (6250, NOT_DUE, Action::Nothing), // not later than half an interval
            (9000, NOT_DUE, Action::Resume),
            (
                9700,
                NOT_DUE,
                Action::Remove(Removal::new_ones(at(9200), at(9450))),
            ),
        ];
        run(&mut eccm, &literal, &lines);
        assert_eq!(eccm, Eccm::Idle);
    }
}
