//! No mechanism: the basic FAN. New flows wait until congestion ends by itself.

use weir_base::Instant;

use super::{Action, Event, Mechanism, Rules};

/// Does nothing.
#[derive(Debug)]
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
    fn nothing_moves_it() {
        let all = [DUE, NOT_DUE, CLEAR, CONGESTED, Event::Timer];
        run(
            &mut None,
            &rules(),
            &all.map(|event| (0, event, Action::Nothing)),
        );
    }
}
