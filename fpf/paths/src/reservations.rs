//! Reservations: the rate that requests have reserved on each link, in each direction.

use weir_base::Rate;

use super::topology::{FeId, LinkId, Topology};

/// Reserved rates, in bit/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reservations {
    /// Reserved rates by link: from its first end, and from its second end.
    reserved: Vec<[u64; 2]>,
}

impl Reservations {
    /// Adds entries, so that there are this number of links.
    pub(super) fn grow(&mut self, links: usize) {
        self.reserved.resize(links, [0; 2]);
    }

    /// Whether a link has this rate left in the direction away from `from`.
    pub(super) fn has_left(
        &self,
        topology: &Topology,
        link: LinkId,
        from: FeId,
        rate: Option<Rate>,
    ) -> bool {
        let (Some(rate), Some(all)) = (rate, topology.link(link).rate) else {
            return true;
        };
        let reserved = self.reserved[link.0][direction(topology, link, from)];
        reserved.saturating_add(rate.as_bps()) <= all.as_bps()
    }

    /// Reserves a rate on links; each link has the FE that sends on it.
    pub(super) fn reserve(&mut self, topology: &Topology, links: &[(LinkId, FeId)], rate: Rate) {
        for (link, from) in links {
            let reserved = &mut self.reserved[link.0][direction(topology, *link, *from)];
            *reserved = reserved.saturating_add(rate.as_bps());
        }
    }

    /// Releases a rate on links.
    pub(super) fn release(&mut self, topology: &Topology, links: &[(LinkId, FeId)], rate: Rate) {
        for (link, from) in links {
            let reserved = &mut self.reserved[link.0][direction(topology, *link, *from)];
            *reserved = reserved.saturating_sub(rate.as_bps());
        }
    }
}

fn direction(topology: &Topology, link: LinkId, from: FeId) -> usize {
    usize::from(topology.link(link).ends[0].fe != from)
}
