//! Order of changes to the elements: first new rules, then the vectors that use them, then deletion of unused rules.
//!
//! ```text
//!   want ──▶ wanted ─┐                     ┌── 1. interfaces and rules that come or change ──▶ all elements
//!                    ├── the difference ───┼── 2. encapsulations ──▶ edges                     (when 1 is answered)
//!            given ──┘                     └── 3. rules and interfaces that go                 (when 2 is)
//! ```
//!
//! New changes merge with waiting changes, so the final state is the last desired state, however many changes there
//! were. An element that does not answer does not hold up the others: the next step starts after [`STEP_MAX`].

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Instant, Span};
use weir_fpf_lfb::Part;
use weir_model::{Change, ComponentPath, ElementPath};

use crate::contract::GivenSection;

/// Maximum time for which a step waits for the previous step. Every change follows a failure or a request, and in both
/// cases it is better to proceed: a failed path drops packets, and the elements of a new path have long had its rules.
const STEP_MAX: Span = Span::from_millis(250);

/// Sections for one element, sent together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delivery {
    /// Name of the element.
    pub(super) fe: String,
    /// The sections.
    pub(super) sections: Vec<GivenSection>,
}

/// ID of a delivery in progress.
pub(super) type DeliveryId = u64;

/// The sections wanted at the elements, and those already sent.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    wanted: BTreeMap<ElementPath, Vec<Change>>,
    given: BTreeMap<ElementPath, Vec<Change>>,
    /// Locations where `wanted` and `given` differ.
    different: BTreeSet<ElementPath>,
    open: BTreeMap<DeliveryId, Delivery>,
    /// Time until which the next step waits for the current step.
    until: Instant,
    next: DeliveryId,
    /// If set, the next step sends the whole difference at once: replacing a network has no steps.
    is_whole: bool,
}

impl Rollout {
    /// Sets the section that an element must have at a path; `None` deletes the section.
    pub(super) fn want(&mut self, fe: &str, path: ComponentPath, section: Option<Vec<Change>>) {
        let place = ElementPath {
            fe: fe.to_owned(),
            path,
        };
        if self.given.get(&place) == section.as_ref() {
            self.different.remove(&place)
        } else {
            self.different.insert(place.clone())
        };
        match section {
            Some(section) => self.wanted.insert(place, section),
            None => self.wanted.remove(&place),
        };
    }

    /// Paths of the sections wanted at an element.
    pub(super) fn wanted(&self, fe: &str) -> impl Iterator<Item = &ComponentPath> {
        let of_fe = self.wanted.keys().filter(move |place| place.fe == fe);
        of_fe.map(|place| &place.path)
    }

    /// Clears the wanted sections, and sends the next wanted sections in one step.
    pub(super) fn replace(&mut self) {
        self.wanted.clear();
        self.different = self.given.keys().cloned().collect();
        self.is_whole = true;
    }

    /// Forgets an element that has left the network.
    pub(super) fn forget(&mut self, fe: &str) {
        self.given.retain(|place, _| place.fe != fe);
        self.different.retain(|place| place.fe != fe);
    }

    /// Whether a section was sent as wanted, and the element has answered.
    pub(super) fn is_done(&self, place: &ElementPath) -> bool {
        let is_open = |order: &Delivery| {
            order.fe == place.fe && order.sections.iter().any(|(path, _)| *path == place.path)
        };
        !self.different.contains(place) && !self.open.values().any(is_open)
    }

    /// Returns the next step if it can start: a delivery for each affected element.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<(DeliveryId, Delivery)> {
        if self.different.is_empty() || (!self.open.is_empty() && now < self.until) {
            return Vec::new();
        }
        let step = |place: &ElementPath| match (is_edge(place), self.wanted.contains_key(place)) {
            (false, true) => 1,
            (true, _) => 2,
            (false, false) => 3,
        };
        let first = self.different.iter().map(step).min();
        let is_in = |place: &&ElementPath| self.is_whole || Some(step(place)) == first;
        let places: Vec<ElementPath> = self.different.iter().filter(is_in).cloned().collect();
        let mut orders: BTreeMap<String, Vec<GivenSection>> = BTreeMap::new();
        for place in places {
            self.different.remove(&place);
            let section = self.wanted.get(&place).cloned();
            match &section {
                Some(section) => self.given.insert(place.clone(), section.clone()),
                None => self.given.remove(&place),
            };
            orders
                .entry(place.fe)
                .or_default()
                .push((place.path, section));
        }
        self.is_whole = false;
        self.until = now + STEP_MAX;
        let orders = orders.into_iter().map(|(fe, sections)| {
            self.next += 1;
            let order = Delivery { fe, sections };
            self.open.insert(self.next, order.clone());
            (self.next, order)
        });
        orders.collect()
    }

    /// Handles an answer, or the certainty that none will come. Returns the delivery.
    pub(super) fn handle_done(&mut self, delivery: DeliveryId) -> Option<Delivery> {
        self.open.remove(&delivery)
    }

    /// Handles a delivery that did not reach its element; the next step sends it again.
    pub(super) fn handle_unsent(&mut self, delivery: DeliveryId) {
        let Some(delivery) = self.open.remove(&delivery) else {
            return;
        };
        for (path, _) in delivery.sections {
            let place = ElementPath {
                fe: delivery.fe.clone(),
                path,
            };
            self.given.remove(&place);
            self.different.insert(place);
        }
    }

    /// Time for the next call of [`Self::poll`], if no answer comes first.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (!self.different.is_empty()).then_some(self.until)
    }
}

fn is_edge(ElementPath { path, .. }: &ElementPath) -> bool {
    matches!(Part::find(path), Some((Part::Encapsulation, _)))
}

#[cfg(test)]
mod tests {
    use weir_base::setting::Scalar;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn section(value: i64) -> Vec<Change> {
        vec![Change::new(
            ComponentPath::default(),
            Scalar::Integer(value),
        )]
    }

    /// The deliveries of a step, as `element: sections`.
    fn shown(orders: &[(DeliveryId, Delivery)]) -> Vec<String> {
        let one = |(_, order): &(DeliveryId, Delivery)| {
            let section = |(path, section): &GivenSection| match section {
                Some(_) => format!(" +{path}"),
                None => format!(" -{path}"),
            };
            let sections: String = order.sections.iter().map(section).collect();
            format!("{}:{sections}", order.fe)
        };
        orders.iter().map(one).collect()
    }

    #[test]
    fn rules_go_before_vectors_and_come_first() {
        let [rule, old] = ["new", "old"].map(|name| Part::Rule.path(name));
        let video = Part::Encapsulation.path("video");
        let mut rollout = Rollout::default();
        rollout.want("b", old.clone(), Some(section(1)));
        let first = rollout.poll(at(0));
        rollout.handle_done(first[0].0);
        rollout.want("c", video.clone(), Some(section(1)));
        rollout.want("b", old, None);
        rollout.want("b", rule.clone(), Some(section(2)));
        rollout.want("c", rule, Some(section(2)));
        let rules = rollout.poll(at(0));
        assert_eq!(shown(&rules), ["b: +fpf.rule.new", "c: +fpf.rule.new"]);
        let place = ElementPath {
            fe: "c".to_owned(),
            path: video,
        };
        assert!(rollout.poll(at(0)).is_empty() && !rollout.is_done(&place));
        rollout.handle_done(rules[0].0);
        assert!(rollout.poll(at(0)).is_empty(), "c has not answered");
        rollout.handle_done(rules[1].0);
        let vectors = rollout.poll(at(1));
        assert_eq!(shown(&vectors), ["c: +fpf.encapsulation.video"]);
        assert!(!rollout.is_done(&place), "it is under way");
        assert_eq!(rollout.poll_timeout(), Some(at(251)));
        // c never answers.
        let gone = rollout.poll(at(251));
        assert_eq!(shown(&gone), ["b: -fpf.rule.old"]);
        rollout.handle_done(vectors[0].0);
        assert!(rollout.is_done(&place));
    }

    #[test]
    fn changes_that_come_meanwhile_become_one() {
        let video = Part::Encapsulation.path("video");
        let mut rollout = Rollout::default();
        for value in 0..1000 {
            rollout.want("c", video.clone(), Some(section(value)));
        }
        let first = rollout.poll(at(0));
        assert_eq!(first.len(), 1);
        for value in 0..1000 {
            rollout.want("c", video.clone(), Some(section(value)));
        }
        rollout.handle_done(first[0].0);
        assert!(rollout.poll(at(0)).is_empty(), "it ends as it was given");
        rollout.replace();
        rollout.want("d", video.clone(), Some(section(1)));
        let all = rollout.poll(at(0));
        let wanted = ["c: -fpf.encapsulation.video", "d: +fpf.encapsulation.video"];
        assert_eq!(shown(&all), wanted);
        assert_eq!(rollout.wanted("d").collect::<Vec<_>>(), [&video]);
    }
}
