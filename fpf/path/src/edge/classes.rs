//! Implicit rules: encapsulations of single flows, by the class that a classifier has found.
//!
//! ```text
//!  classifier --flow, class--> [ a rule of one flow, with the vectors of its class ] <--hit-- packet
//!                                 |  ends: silent for the class's timeout, its class was removed, or
//!                                 +        others need the place and it was silent for a second
//! ```
//!
//! Source: Beben et al., section III.B.2.
//!
//! Implicit rules are state of the running router. Their number is bounded. If a class changes its vectors, or is
//! removed, each of its flows follows with its next packet: so a change costs the same for any number of flows.
//!
//! An attacker who sends flows of a class fills the table. Flows in use keep their rules, because a rule only makes
//! room when it was not hit for a second.

use weir_base::{Instant, Span, Tally};
use weir_packet::Reason;

use crate::edge::filter::{Filter, Subject};
use crate::edge::rules::{Found, Rules};
use crate::edge::setup::Class;
use crate::header::Repr;

/// Maximum rules that are tried, to find a rule that makes room.
const TRIED_MAX: usize = 8;
/// A rule that was hit within this time does not make room for another rule.
const IN_USE: Span = Span::from_secs(1);
/// Minimum time between two searches for rules whose timeout is over.
const EXPIRY_PERIOD: Span = Span::from_millis(100);

/// An active class, with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveClass {
    /// Name of the class.
    pub name: String,
    /// Flows that have a rule now.
    pub flows: u32,
    /// Flows that got a rule.
    pub classified: u64,
    /// Packets that were encapsulated.
    pub hits: Tally,
    /// Packets that the profile refused.
    pub policed: Tally,
}

/// Rules that ended, and flows that got no rule, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Rules whose flow was silent for the timeout of its class.
    pub expired: u64,
    /// Rules that made room for others.
    pub displaced: u64,
    /// Flows that got no rule, because there was no room.
    pub refused: u64,
}

/// The implicit rules of an edge.
#[derive(Debug)]
pub(super) struct Classes {
    rules: Rules,
    /// Maximum rules.
    limit: usize,
    /// The flow of each row of the table.
    flows: Vec<Flow>,
    /// Free rows.
    spare: Vec<u32>,
    states: Vec<State>,
    /// By index in the setup: the number of the class's state.
    order: Vec<u16>,
    /// Number of changes so far.
    generation: u32,
    /// The row that is tried next, to make room.
    hand: usize,
    /// When to search for rules whose timeout is over; `None` while no rule has a timeout.
    expiry: Option<Instant>,
    ended: Ended,
}

/// The flow of a rule.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The number of its class's state; [`NONE`] if the row is free.
    state: u16,
    /// Whether the classifier needs more copies of its packets.
    is_watched: bool,
    /// The generation of its rule.
    generation: u32,
}

/// No class.
const NONE: u16 = u16::MAX;

/// A class, or the free place of a removed class.
#[derive(Debug)]
struct State {
    class: Option<Class>,
    /// The generation in which the class was added: flows from before belong to the class that was here then.
    born: u32,
    /// The generation of the last change of its rule.
    changed: u32,
    flows: u32,
    classified: u64,
    hits: Tally,
    policed: Tally,
}

impl State {
    fn new(class: Class, generation: u32) -> Self {
        Self {
            class: Some(class),
            born: generation,
            changed: generation,
            flows: 0,
            classified: 0,
            hits: Tally::ZERO,
            policed: Tally::ZERO,
        }
    }

    /// Whether a flow with a rule of this generation belongs to the class.
    fn has(&self, generation: u32) -> bool {
        self.class.is_some() && generation >= self.born
    }
}

impl Classes {
    /// No classes, and room for up to `limit` rules. `secret` is the key of the flow hashes.
    pub(super) fn new(limit: usize, secret: (u64, u64), now: Instant) -> Self {
        Self {
            rules: Rules::new(limit, secret, now),
            limit,
            flows: Vec::with_capacity(limit),
            spare: Vec::new(),
            states: Vec::new(),
            order: Vec::new(),
            generation: 0,
            hand: 0,
            expiry: None,
            ended: Ended::default(),
        }
    }

    /// Replaces the classes. A class keeps its flows and counters if its name and its criteria stay. Returns whether a
    /// class was added or removed, so that decisions about flows without a rule may be different now.
    pub(super) fn change(&mut self, classes: &[Class]) -> bool {
        self.generation += 1;
        let mut has_changed = false;
        let of_state = |state: &State, class: &Class| {
            let old = state.class.as_ref();
            old.is_some_and(|old| old.name == class.name && old.criteria == class.criteria)
        };
        for state in &mut self.states {
            if !classes.iter().any(|class| of_state(state, class)) {
                has_changed |= state.class.take().is_some();
            }
        }
        self.order.clear();
        for class in classes {
            let kept = self.states.iter().position(|state| of_state(state, class));
            let place = kept.unwrap_or_else(|| {
                has_changed = true;
                self.add(class.clone())
            });
            let state = &mut self.states[place];
            if let Some(old) = &mut state.class
                && old.rule != class.rule
            {
                old.rule.clone_from(&class.rule);
                state.changed = self.generation;
            }
            self.order.push(place as u16); // a setup has fewer classes
        }
        has_changed
    }

    /// Adds the state of a class, in the place of a removed class if there is one.
    fn add(&mut self, class: Class) -> usize {
        let state = State::new(class, self.generation);
        match self.states.iter().position(|state| state.class.is_none()) {
            Some(place) => {
                self.states[place] = state;
                place
            }
            None => {
                self.states.push(state);
                self.states.len() - 1
            }
        }
    }

    /// Gives a flow the rule of the class at this index of the setup, in place of another class's. Returns whether
    /// there is room.
    pub(super) fn set(
        &mut self,
        flow: &Subject<'_>,
        class: u16,
        is_watched: bool,
        now: Instant,
    ) -> bool {
        let state = self.order.get(usize::from(class)).copied();
        let Some(number) = state else {
            return false;
        };
        let known = self.rules.find(flow).map(|found| self.rules.name(found).0);
        if let Some(row) = known
            && let of_flow = &mut self.flows[row as usize]
            && of_flow.state == number
            && of_flow.generation >= self.states[usize::from(number)].changed
        {
            of_flow.is_watched = is_watched;
            return true;
        }
        let Some(row) = known.or_else(|| self.free_row(now)) else {
            self.ended.refused += 1;
            return false;
        };
        let Some(class) = &self.states[usize::from(number)].class else {
            return false;
        };
        let rule = &class.rule;
        if self
            .rules
            .set(row, &Filter::exact(flow.key), rule, now)
            .is_err()
        {
            self.ended.refused += 1;
            self.spare.push(row);
            return false;
        }
        let before = self.flows[row as usize];
        self.flows[row as usize] = Flow {
            state: number,
            is_watched,
            generation: self.generation,
        };
        let timeout = rule.timeout;
        self.expire_within(timeout, now);
        if before.state != number || !self.states[usize::from(number)].has(before.generation) {
            self.forget(before);
            let state = &mut self.states[usize::from(number)];
            state.flows += 1;
            state.classified += 1;
        }
        true
    }

    /// Appends the rules for some packets to `found`, in their order.
    #[inline]
    pub(super) fn find_all(&self, subjects: &[Subject<'_>], found: &mut Vec<Option<Found>>) {
        self.rules.find_all(subjects, found);
    }

    /// Whether the classifier needs a copy of the packet although its rule was found; `None` if the rule is no longer
    /// valid. A rule whose class has changed its vectors gets them now; a rule whose class was removed ends.
    #[inline]
    pub(super) fn renew(&mut self, found: Found, now: Instant) -> Option<bool> {
        let row = self.rules.name(found).0;
        let flow = self.flows[row as usize];
        let state = self.states.get(usize::from(flow.state))?;
        if flow.generation >= state.changed && state.class.is_some() {
            Some(flow.is_watched)
        } else {
            self.renew_changed(row, flow, now)
        }
    }

    #[cold]
    fn renew_changed(&mut self, row: u32, flow: Flow, now: Instant) -> Option<bool> {
        let state = &self.states[usize::from(flow.state)];
        let class = state.class.as_ref().filter(|_| state.has(flow.generation));
        let Some((class, key)) = class.zip(self.rules.get(row)) else {
            self.remove(row);
            return None;
        };
        // The filter stays, so there is room.
        let _has_room = self.rules.set(row, &key.filter, &class.rule, now);
        let timeout = class.rule.timeout;
        self.expire_within(timeout, now);
        self.flows[row as usize].generation = self.generation;
        Some(flow.is_watched)
    }

    /// Counts a packet that matches a valid rule, and renews its timeout; or returns the reason to drop it.
    #[inline]
    pub(super) fn hit(&mut self, found: Found, bytes: u64, now: Instant) -> Result<(), Reason> {
        let row = self.rules.name(found).0;
        let hit = self.rules.hit(found, bytes, now);
        if let Some(state) = self
            .states
            .get_mut(usize::from(self.flows[row as usize].state))
        {
            match hit {
                Ok(()) => state.hits.count(bytes),
                Err(_) => state.policed.count(bytes),
            }
        }
        hit
    }

    /// The headers to put before a packet of this flow; more than one if a copy is sent with each.
    #[inline]
    pub(super) fn headers(&self, found: Found, flow_hash: u64) -> &[Repr] {
        self.rules.headers(found, flow_hash)
    }

    /// Ends the rules whose timeout is over. Returns when to call again.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        if self.expiry? > now {
            return self.expiry;
        }
        let mut expired = Vec::new();
        self.rules.expire(now, &mut expired);
        self.ended.expired += expired.len() as u64;
        for listed in expired {
            self.free(listed.row);
        }
        // One call expires a bounded number of rules, so more may be due already.
        self.expiry = self.rules.due().map(|due| due.max(now + EXPIRY_PERIOD));
        self.expiry
    }

    /// The active classes, in the order of the setup.
    pub(super) fn iter(&self) -> impl Iterator<Item = ActiveClass> {
        self.order.iter().filter_map(|number| {
            let state = &self.states[usize::from(*number)];
            Some(ActiveClass {
                name: state.class.as_ref()?.name.clone(),
                flows: state.flows,
                classified: state.classified,
                hits: state.hits,
                policed: state.policed,
            })
        })
    }

    /// Rules that ended, and flows that got no rule.
    pub(super) fn ended(&self) -> Ended {
        self.ended
    }

    /// Schedules the next search for expired rules no later than the timeout of a rule that was set just now.
    fn expire_within(&mut self, timeout: Option<Span>, now: Instant) {
        if let Some(timeout) = timeout {
            let over = now + timeout.max(EXPIRY_PERIOD);
            self.expiry = Some(self.expiry.map_or(over, |at| at.min(over)));
        }
    }

    /// A row for a new rule; `None` if there is no room.
    fn free_row(&mut self, now: Instant) -> Option<u32> {
        if self.rules.len() >= self.limit {
            self.displace(now)?;
        }
        self.spare.pop().or_else(|| {
            self.flows.push(Flow {
                state: NONE,
                is_watched: false,
                generation: 0,
            });
            Some(self.flows.len() as u32 - 1)
        })
    }

    /// Removes a rule that was not hit recently.
    fn displace(&mut self, now: Instant) -> Option<()> {
        for _ in 0..TRIED_MAX {
            let row = self.hand;
            self.hand = (row + 1) % self.flows.len().max(1);
            let idle = self.rules.idle(row as u32, now);
            if idle.is_some_and(|idle| idle > IN_USE) {
                self.remove(row as u32);
                self.ended.displaced += 1;
                return Some(());
            }
        }
        None
    }

    fn remove(&mut self, row: u32) {
        if self.rules.remove(row).is_some() {
            self.free(row);
        }
    }

    /// Frees the row of a rule that has been removed.
    fn free(&mut self, row: u32) {
        let flow = std::mem::replace(
            &mut self.flows[row as usize],
            Flow {
                state: NONE,
                is_watched: false,
                generation: 0,
            },
        );
        self.forget(flow);
        self.spare.push(row);
    }

    /// Removes a flow from the count of its class.
    fn forget(&mut self, flow: Flow) {
        if let Some(state) = self.states.get_mut(usize::from(flow.state))
            && state.has(flow.generation)
        {
            state.flows -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::paths::Paths;
    use crate::edge::rule::Rule;
    use crate::edge::samples::whole;
    use crate::header::Vector;
    use weir_packet::FlowKey;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn class(name: &str, lid: u8) -> Class {
        Class {
            name: name.to_owned(),
            criteria: name.to_owned(),
            rule: Rule {
                paths: Paths::single(Vector::new(&[lid]).unwrap()),
                timeout: Some(Span::from_secs(10)),
                session: 0,
                profile: None,
            },
        }
    }

    fn classes(limit: usize, all: &[Class]) -> Classes {
        let mut classes = Classes::new(limit, (1, 2), at(0));
        assert!(classes.change(all));
        classes
    }

    fn key(n: u8) -> FlowKey {
        FlowKey::ip([10, 0, 0, n].into(), [192, 0, 2, 1].into(), 17, 5000, 53)
    }

    /// The LID of the vector that a packet of the flow gets, if it has a valid rule.
    fn hit(classes: &mut Classes, n: u8, now: Instant) -> Option<u8> {
        let key = key(n);
        let hash = weir_packet::Keys::new(0, (1, 2)).hash_key(&key);
        let subject = Subject {
            hash,
            ..whole(&key)
        };
        let mut found = Vec::new();
        classes.find_all(&[subject], &mut found);
        let found = found[0]?;
        classes.renew(found, now)?;
        classes.hit(found, 100, now).unwrap();
        let [header] = classes.headers(found, hash) else {
            panic!("one vector")
        };
        Some(header.vector().as_bytes()[0])
    }

    fn set(classes: &mut Classes, n: u8, class: u16, now: Instant) {
        let key = key(n);
        let hash = weir_packet::Keys::new(0, (1, 2)).hash_key(&key);
        classes.set(
            &Subject {
                hash,
                ..whole(&key)
            },
            class,
            false,
            now,
        );
    }

    fn flows(classes: &Classes) -> Vec<(u32, u64, u64)> {
        let counts = |class: ActiveClass| (class.flows, class.classified, class.hits.packets);
        classes.iter().map(counts).collect()
    }

    #[test]
    fn a_flow_has_the_rule_of_its_class_until_it_is_silent() {
        let mut all = classes(10, &[class("voice", 1), class("video", 2)]);
        set(&mut all, 1, 0, at(0));
        set(&mut all, 2, 1, at(0));
        assert_eq!(hit(&mut all, 1, at(1)), Some(1));
        assert_eq!(hit(&mut all, 2, at(1)), Some(2));
        assert_eq!(hit(&mut all, 3, at(1)), None);
        // The classifier finds scalable video in a flow that was voice before.
        set(&mut all, 1, 1, at(2));
        set(&mut all, 1, 1, at(3));
        assert_eq!(hit(&mut all, 1, at(9000)), Some(2));
        assert_eq!(flows(&all), [(0, 1, 1), (2, 2, 2)]);
        let mut now = at(0);
        while let Some(next) = all.expire(now) {
            assert!(next > now);
            now = next;
        }
        assert!(now >= at(19_000) && now <= at(19_500), "{now:?}");
        assert_eq!(flows(&all), [(0, 1, 1), (0, 2, 2)]);
        assert_eq!(all.ended().expired, 2);
        assert_eq!(hit(&mut all, 1, now), None);
        set(&mut all, 1, 0, now);
        assert_eq!(hit(&mut all, 1, now), Some(1));
    }

    #[test]
    fn a_change_of_a_class_reaches_its_flows_and_no_others() {
        let mut all = classes(
            10,
            &[class("voice", 1), class("video", 2), class("mail", 3)],
        );
        for n in 0..3 {
            set(&mut all, n, n.into(), at(0));
        }
        // Another order, other vectors for video, and mail was removed.
        assert!(all.change(&[class("video", 7), class("voice", 1)]));
        assert_eq!(flows(&all), [(1, 1, 0), (1, 1, 0)]);
        assert_eq!(hit(&mut all, 0, at(1)), Some(1));
        assert_eq!(hit(&mut all, 1, at(1)), Some(7));
        assert_eq!(hit(&mut all, 2, at(1)), None);
        assert_eq!(flows(&all), [(1, 1, 1), (1, 1, 1)]);
        assert!(!all.change(&[class("video", 8), class("voice", 1)]));
        // A new class in the place of a removed class does not inherit its flows.
        assert!(all.change(&[class("video", 8), class("mail", 9)]));
        assert_eq!(hit(&mut all, 0, at(1)), None);
        assert_eq!(hit(&mut all, 1, at(1)), Some(8));
        assert_eq!(flows(&all), [(1, 1, 2), (0, 0, 0)]);
        set(&mut all, 0, 1, at(1));
        assert_eq!(hit(&mut all, 0, at(1)), Some(9));
        // Other criteria also end the flows.
        let mut other = class("mail", 9);
        other.criteria = "other".to_owned();
        assert!(all.change(&[class("video", 8), other]));
        assert_eq!(hit(&mut all, 0, at(1)), None);
    }

    #[test]
    fn a_shorter_time_out_counts_at_once() {
        let mut all = classes(10, &[class("voice", 1)]);
        set(&mut all, 1, 0, at(0));
        assert!(all.expire(at(0)) > Some(at(9000)));
        let mut short = class("voice", 1);
        short.rule.timeout = Some(Span::from_secs(1));
        all.change(&[short]);
        assert_eq!(hit(&mut all, 1, at(100)), Some(1));
        assert!(all.expire(at(100)) < Some(at(1500)));
        all.expire(at(2000));
        assert_eq!(flows(&all), [(0, 1, 1)]);
    }

    #[test]
    fn flows_in_use_keep_their_rules_when_the_table_is_full() {
        let mut all = classes(4, &[class("voice", 1)]);
        for n in 0..4 {
            set(&mut all, n, 0, at(0));
        }
        set(&mut all, 4, 0, at(500));
        assert_eq!(all.ended().refused, 1);
        for n in 0..3 {
            assert_eq!(hit(&mut all, n, at(1500)), Some(1));
        }
        set(&mut all, 4, 0, at(1600));
        assert_eq!((all.ended().refused, all.ended().displaced), (1, 1));
        assert_eq!(
            (hit(&mut all, 3, at(1600)), hit(&mut all, 4, at(1600))),
            (None, Some(1))
        );
        assert_eq!(flows(&all), [(4, 5, 4)]);
    }
}
