//! Congestion mechanisms: how new flows are accepted although the link is congested.
//!
//! ```text
//!   a new flow's packet in congestion ─┐
//!   an estimate of the fair rate      ─┼─▶ Mechanism::on ─▶ Action, done by the admission control
//!   its timer                         ─┘   (state, event)
//! ```
//!
//! Each mechanism is a state machine without side effects: events in, actions out.
//! - [`none`](None): no new flow is accepted
//! - [`efm`]: all elastic flows leave the list
//! - [`raef`]: elastic flows that have been on the list for a certain time leave it
//!   - `rbaef`: as `raef`, and removed flows are blocked for a time
//!   - `rpaef`: as `raef`, and removed flows come back before others
//! - [`efmp`]: one flow at a time leaves, the oldest or the most active one, until that is enough
//! - [`ramaf`]: the most active flows leave, as many as exceed the permitted number, and come back
//! - [`eccm`]: the fair rate is assumed to be high enough for a moment, and no established flow leaves
//!
//! A run begins when a packet of a new flow arrives and the fair rate has been below its limit for longer
//! than `interval`, counted from the end of the mechanism's latest run if that was later.

mod eccm;
mod efm;
mod efmp;
mod none;
mod raef;
mod ramaf;

use std::fmt::Debug;

use weir_base::{Instant, Span};

use super::admission::Estimate;
use super::removal::Removal;
use crate::parts::chance::Chance;

/// The mechanisms' words in a configuration.
pub(super) const WORDS: &[&str] = &[
    "none", "efm", "raef", "rbaef", "rpaef", "efmp", "ramaf", "eccm",
];
/// An event that a mechanism reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A packet of a flow that is not on the list came in congestion.
    NewFlow {
        /// Whether congestion has lasted long enough for a run.
        due: bool,
        /// Number of elastic flows on the list, which share the fair rate.
        elastic: u64,
    },
    /// The fair rate was estimated.
    Estimate(Estimate),
    /// The mechanism's timer is due.
    Timer,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Flows leave the list.
    Remove(Removal),
    /// The fair rate is assumed to be at its limit, and is not estimated.
    Hold,
    /// The fair rate is estimated again.
    Resume,
    /// All flows that were set aside return to the list.
    Restore,
}

/// The flows that may be added to the list while the link is not congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Every flow.
    Open,
    /// Every flow that is not blocked.
    NotBlocked,
    /// Flows that were set aside; while there are any, other flows only with this probability for each packet.
    SetAsideFirst(Chance),
}

/// The parameters of mechanisms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    /// Time between two estimates of the fair rate.
    pub(super) fair_rate_interval: Span,
    /// The minimum fair rate, as a share of the link's rate.
    pub(super) min_fair_rate: f64,
    /// For how long a flow must have been on the list for RAEF, RBAEF and RPAEF to remove it.
    pub(super) active_time: Span,
    /// For how long a flow is blocked.
    pub(super) blocked_time: Span,
    /// For how long a removed flow comes before others.
    pub(super) priority_time: Span,
    /// P_RPAEF.
    pub(super) priority_admission: Chance,
    /// Whether EFMP removes the most active flow, not the oldest one.
    pub(super) removes_most_active: bool,
    /// Whether ECCM follows Figure 4 literally, without timers.
    pub(super) is_literal: bool,
}

/// A congestion mechanism.
pub(super) trait Mechanism: Debug + Send {
    /// The mechanism's word in a configuration.
    fn word(&self) -> &'static str;

    /// Handles an event.
    fn on(&mut self, event: Event, now: Instant, rules: &Rules) -> Action;

    /// When the mechanism's timer is due.
    fn timeout(&self) -> Option<Instant> {
        None
    }

    /// The flows that may be added to the list while the link is not congested.
    fn gate(&self, _rules: &Rules) -> Gate {
        Gate::Open
    }

    /// `Some` if the mechanism sets flows aside: for this time, or for an unlimited time if the inner value is `None`.
    fn sets_aside(&self, _rules: &Rules) -> Option<Option<Span>> {
        None
    }

    /// Whether the mechanism needs the most active flow.
    fn ranks(&self, _rules: &Rules) -> bool {
        false
    }
}

/// The mechanism named by a word.
pub(super) fn of(word: &str) -> Box<dyn Mechanism> {
    match word {
        "efm" => Box::new(efm::Efm),
        "raef" => Box::new(raef::Raef::Forget),
        "rbaef" => Box::new(raef::Raef::Block),
        "rpaef" => Box::new(raef::Raef::Prefer),
        "efmp" => Box::new(efmp::Efmp),
        "ramaf" => Box::new(ramaf::Ramaf::default()),
        "eccm" => Box::new(eccm::Eccm::default()),
        _ => Box::new(none::None),
    }
}

#[cfg(test)]
pub(super) mod table {
    //! Helpers to run the tables of all mechanisms.

    use super::*;

    pub(crate) fn rules() -> Rules {
        Rules {
            fair_rate_interval: Span::from_millis(500),
            min_fair_rate: 0.05,
            active_time: Span::from_secs(10),
            blocked_time: Span::from_secs(2),
            priority_time: Span::from_secs(2),
            priority_admission: Chance::new(0.03),
            removes_most_active: false,
            is_literal: false,
        }
    }

    pub(crate) const DUE: Event = Event::NewFlow {
        due: true,
        elastic: 40,
    };
    pub(crate) const NOT_DUE: Event = Event::NewFlow {
        due: false,
        elastic: 40,
    };
    pub(crate) const CLEAR: Event = Event::Estimate(Estimate::Clear);
    pub(crate) const CONGESTED: Event = Event::Estimate(Estimate::Congested);

    /// All events: the columns of a table.
    const EVENTS: [Event; 5] = [DUE, NOT_DUE, CLEAR, CONGESTED, Event::Timer];

    /// The row of a state: its action for each event, and the state after it.
    pub(crate) fn row<M: Mechanism + Clone>(state: &M, ms: u64, rules: &Rules) -> [(Action, M); 5] {
        EVENTS.map(|event| {
            let mut next = state.clone();
            (next.on(event, at(ms), rules), next)
        })
    }

    /// The actions of a row, for a mechanism that has no state, or does not change it.
    pub(crate) fn actions<M: Mechanism + Clone>(state: &M, ms: u64, rules: &Rules) -> [Action; 5] {
        row(state, ms, rules).map(|(action, _)| action)
    }

    pub(crate) fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    /// Runs lines of (time in ms, event, action).
    pub(crate) fn run(
        mechanism: &mut dyn Mechanism,
        rules: &Rules,
        lines: &[(u64, Event, Action)],
    ) {
        for (number, (ms, event, action)) in lines.iter().enumerate() {
            assert_eq!(
                mechanism.on(*event, at(*ms), rules),
                *action,
                "line {number}: {event:?} at {ms} ms"
            );
        }
    }

    #[test]
    fn every_word_has_its_mechanism() {
        for word in WORDS {
            assert_eq!(of(word).word(), *word);
        }
    }
}
