//! The state of the law for an observer, and changes of its parameters.

use weir_base::Rate;

use super::{Autorate, LOAD_HIGH, LOAD_IDLE, Params, Phase};
use crate::reflectors::ReflectorState;

impl Autorate {
    /// The estimated rate of the link; the port's rate differs during a suspicion or a drain.
    pub fn found(&self) -> Rate {
        self.within(self.rate)
    }

    /// Whether no reflector answers.
    pub fn is_blind(&self) -> bool {
        self.phase == Phase::Blind
    }

    /// Why the port's rate is what it is, as a clause.
    pub fn why(&self) -> &'static str {
        match (self.phase, &self.drain) {
            (Phase::Blind, _) if self.reflectors.asks_nobody() => {
                "no round-trip time of the traffic is known: at most the base rate"
            }
            (Phase::Blind, _) if self.baseline().is_none() => {
                "no reflector has answered yet: at most the base rate"
            }
            (Phase::Blind, _) => "no reflector answers: at most the base rate",
            (Phase::Suspicion, _) => "one high delay: one eighth of the rate until the next answer",
            (Phase::Drain, Some(drain)) if drain.hard => {
                "high delay: draining the queue behind the port"
            }
            (Phase::Drain, _) => {
                "rising delay: the rate of the link is reached; draining its queue"
            }
            (Phase::Follow, _) => self.why_follow(),
        }
    }

    fn why_follow(&self) -> &'static str {
        let load = self.load.share();
        if self.now < self.leave_until {
            "the delay did not fall with the rate, so this port does not cause it: ignored for a while"
        } else if load < LOAD_IDLE {
            "low load: returning to the base rate"
        } else if self.found() == self.params.most {
            "low delay: at the maximum rate"
        } else if load < LOAD_HIGH {
            "low delay, and the load needs no higher rate"
        } else if self.now < self.hold_until {
            "holding just below the rate that the link delivered"
        } else {
            "low delay under load: increasing the rate"
        }
    }

    /// The state of each reflector, in their order.
    pub fn reflectors(&self) -> impl Iterator<Item = ReflectorState> {
        self.reflectors.states(self.now)
    }

    /// The state of the port's own traffic as a reflector.
    pub fn traffic(&self) -> ReflectorState {
        self.reflectors.traffic(self.now)
    }

    /// Applies new parameters for the same reflectors. The learnt state stays.
    pub fn set_params(&mut self, params: Params) {
        debug_assert_eq!(
            params.reflectors, self.params.reflectors,
            "others need another law"
        );
        self.params = params;
        self.rate = self.found().as_bps() as f64;
        self.put_out();
    }
}
