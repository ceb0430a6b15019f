//! The classes of FPF's ingress edge in a plane: packets of classified flows, copies of other packets for the
//! classifier, and its decisions.
//!
//! A plane whose edge has no classes checks once for each packet that no encapsulation matches.

use weir_path::ip::waiting::Held;

use crate::edge::filter::Subject;
use crate::edge::rules::Found;

use super::{Entering, Match, is_own};

impl Entering<'_> {
    /// The class rule for a packet that no encapsulation matches, if the rule that was found is still valid. A packet
    /// whose flow is not decided is copied.
    #[inline]
    pub(super) fn find_class(&mut self, held: &Held, found: Option<Found>) -> Option<Match> {
        if self.edge.implicit.is_none()
            || !self.edge.is_at(held.ingress)
            || !held.origin.is_received()
        {
            return None;
        }
        let implicit = self.edge.implicit.as_mut()?;
        let now = held.packet.packet.arrived;
        let held_by = found.and_then(|found| Some((found, implicit.renew(found, now)?)));
        if held_by.is_none_or(|(_, is_watched)| is_watched) {
            let (packet, headers) = (&held.packet.packet, &held.packet.headers);
            let subject = Subject::new(&self.plane.pool, packet, headers);
            let transport = headers.transport(self.plane.pool.frame(packet));
            implicit.copy(&subject, transport, now, || !is_own(self.plane, held));
        }
        Some(Match::OfClass(held_by?.0))
    }
}
