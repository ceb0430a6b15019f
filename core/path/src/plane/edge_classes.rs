//! The classes of FPF's ingress edge in a plane: packets of classified flows, copies of other packets for the
//! classifier, and its decisions.
//!
//! A plane whose edge has no classes checks once for each packet that no encapsulation matches.

use std::sync::Arc;

use weir_base::Instant;

use crate::fpf::edge::classes::ActiveClass;
use crate::fpf::edge::copies::Copies;
use crate::fpf::edge::filter::Subject;
use crate::fpf::edge::implicit::{Decision, Implicit, Stats};
use crate::fpf::edge::rules::Found;
use crate::fpf::edge::setup::Setup;
use crate::ip::waiting::Held;
use crate::plane::Plane;
use crate::plane::edge::{Edge, Match};

impl Plane {
    /// Whether copies of packets wait for the classifier; true once until they are taken.
    pub fn announce_copies(&mut self) -> bool {
        self.implicit_mut().is_some_and(Implicit::announce)
    }

    /// Takes the copies for the classifier, which follows `followed` flows now, and continues with `empty`. Without
    /// classes it returns `empty`.
    pub fn take_copies(&mut self, mut empty: Copies, followed: usize) -> Copies {
        empty.clear();
        match self.implicit_mut() {
            Some(implicit) => {
                implicit.set_followed(followed);
                implicit.take_copies(empty)
            }
            None => empty,
        }
    }

    /// Applies decisions that the classifier made for the classes of `setup`. If another setup is active, the decisions
    /// are ignored: the next packets of their flows are copied.
    pub fn decide(&mut self, setup: &Arc<Setup>, decisions: &[Decision], now: Instant) {
        let edge = self.edge.as_mut();
        let Some(edge) = edge.filter(|edge| Arc::ptr_eq(&edge.setup, setup)) else {
            return;
        };
        if let Some(implicit) = &mut edge.implicit {
            for decision in decisions {
                implicit.decide(decision, now);
            }
        }
    }

    /// The active classes, in the order of their priority.
    pub fn fpf_classes(&self) -> impl Iterator<Item = ActiveClass> {
        let edge = self.edge.iter();
        edge.flat_map(|edge| edge.implicit.iter().flat_map(|all| all.classes()))
    }

    /// The counters of classes and copies; zero without classes.
    pub fn fpf_class_stats(&self) -> Stats {
        let edge = self.edge.as_ref();
        let implicit = edge.and_then(|edge| edge.implicit.as_ref());
        implicit.map(|all| all.stats()).unwrap_or_default()
    }

    fn implicit_mut(&mut self) -> Option<&mut Implicit> {
        self.edge.as_mut()?.implicit.as_deref_mut()
    }

    /// The class rule for a packet that no encapsulation matches, if the rule that was found is still valid. A packet
    /// whose flow is not decided is copied.
    #[inline]
    pub(super) fn find_class(
        &self,
        edge: &mut Edge,
        held: &Held,
        found: Option<Found>,
    ) -> Option<Match> {
        if edge.implicit.is_none() || !edge.is_at(held.ingress) || !held.origin.is_received() {
            return None;
        }
        let implicit = edge.implicit.as_mut()?;
        let now = held.packet.packet.arrived;
        let held_by = found.and_then(|found| Some((found, implicit.renew(found, now)?)));
        if held_by.is_none_or(|(_, is_watched)| is_watched) {
            let (packet, headers) = (&held.packet.packet, &held.packet.headers);
            let subject = Subject::new(&self.pool, packet, headers);
            let transport = headers.transport(self.pool.frame(packet));
            implicit.copy(&subject, transport, now, || !self.is_own(held));
        }
        Some(Match::OfClass(held_by?.0))
    }
}
