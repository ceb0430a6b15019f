//! An encapsulation rule: the treatment of the packets that match its filter.
//!
//! Source: Beben et al., section III.B, items (2) to (4) of the encapsulation table.

use weir_base::{Instant, Span, Tally};
use weir_discipline::channel::token_bucket::Gate;
use weir_packet::Reason;

use crate::edge::filter::Filter;
use crate::edge::paths::{Paths, Spread, Turns};
use crate::edge::profile::{Profile, Shape};

/// The table has reached its limit of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the encapsulation table is full: its limit is {limit} rules")]
pub struct Full {
    /// Maximum rules.
    pub limit: usize,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The LID vectors.
    pub paths: Paths,
    /// Time without a hit after which the rule is removed; `None`: never. Removal may take up to 200 ms more.
    pub timeout: Option<Span>,
    /// Session that the flow belongs to, for the control side; zero if there is none.
    pub session: u32,
    /// The traffic that the packets may send; `None`: no limit.
    pub profile: Option<Profile>,
}

/// A rule of the table with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Row of the rule.
    pub row: u32,
    /// Filter of the rule.
    pub filter: Filter,
    /// The rule.
    pub rule: Rule,
    /// Packets that were encapsulated, with the bytes that [`hit`](crate::edge::rules::Rules::hit) was given.
    pub hits: Tally,
    /// Packets that the profile refused.
    pub policed: Tally,
}

/// State that few rules have: rules with a profile, and rules whose vectors take turns.
#[derive(Debug)]
pub(super) struct State {
    turns: Option<Turns>,
    profile: Option<Profile>,
    gate: Option<Gate>,
}

impl State {
    /// The state that a rule needs, if any; tokens of an old bucket are kept.
    pub(super) fn new(rule: &Rule, old: Option<Box<Self>>, now: Instant) -> Option<Box<Self>> {
        let turns = match rule.paths.spread() {
            Spread::ByPacket if rule.paths.headers().len() > 1 => Some(Turns::new(&rule.paths)),
            _ => None,
        };
        let gate = match rule.profile {
            Some(Profile::Policed(police)) => Some(match old.and_then(|old| old.gate) {
                Some(mut gate) => {
                    gate.change(&police.limits(), now);
                    gate
                }
                None => police.gate(now),
            }),
            _ => None,
        };
        let needed = turns.is_some() || rule.profile.is_some();
        needed.then(|| {
            Box::new(Self {
                turns,
                profile: rule.profile,
                gate,
            })
        })
    }

    /// Takes the tokens for a packet and begins the next turn; or returns the reason to drop the packet.
    pub(super) fn hit(&mut self, paths: &Paths, bytes: u64, now: Instant) -> Result<(), Reason> {
        if let Some(gate) = &mut self.gate
            && !gate.passes(now, bytes)
        {
            return Err(Reason::Policed);
        }
        if let Some(turns) = &mut self.turns {
            turns.next(paths);
        }
        Ok(())
    }

    /// The vector whose turn it is.
    pub(super) fn turn(&self) -> usize {
        self.turns.as_ref().map_or(0, Turns::turn)
    }

    /// The rate and the queue limit for which packets wait, if the rule is shaped.
    pub(super) fn shape(&self) -> Option<Shape> {
        match self.profile {
            Some(Profile::Shaped(shape)) => Some(shape),
            _ => None,
        }
    }

    /// The traffic profile.
    pub(super) fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// Packets that the profile refused.
    pub(super) fn policed(&self) -> Tally {
        let gate = self.gate.as_ref();
        gate.map_or(Tally::ZERO, |gate| gate.stats().policed)
    }
}
