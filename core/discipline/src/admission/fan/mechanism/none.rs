//! No mechanism: the basic FAN. New flows wait until congestion ends by itself.

use weir_base::Instant;

use super::{Action, Event, Mechanism, Rules};

/// The mechanism, which does nothing.
#[derive(Clone, Debug)]
pub(super) struct None;

impl Mechanism for None {
    fn word(&self) -> &'static str {
        "none"
    }

    fn on(&mut self, _event: Event, _now: Instant, _rules: &Rules) -> Action {
        Action::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::*;
    use super::*;

    #[test]
    fn every_event() {
        assert_eq!(actions(&None, 16_000, &rules()), [Action::Nothing; 5]);
    }
}
