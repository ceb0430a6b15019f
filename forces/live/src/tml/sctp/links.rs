//! Assigns associations to links, three to each.
//!
//! RFC 5811 does not define how a CE finds the three associations of an FE. A weir FE uses one source port for all
//! three, so associations with the same address and port belong to the same FE. An FE that uses a different source port
//! for each association gets the oldest incomplete link from its address that lacks this channel. Two such FEs behind
//! one address that connect at the same time may be mixed up: then their IDs differ from channel to channel, and their
//! sessions end.
//!
//! A link that is still incomplete after ten seconds is dropped; if there are too many incomplete links, the source
//! with the most loses its oldest. Complete links have a separate limit, so incomplete links never keep them out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_base::{Instant, Span};

use super::channel::Channel;
use super::cookie::Path;
use super::outcome::End;
use crate::tml::handshakes::{source, victim};

/// Maximum number of incomplete links.
pub const INCOMPLETE_MAX: usize = 256;
/// Time for the three channels of a link to come up.
pub const COMPLETE_WITHIN: Span = Span::from_secs(10);

/// The number of a link; a later link has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Associations, by channel.
    pub paths: [Option<Path>; 3],
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Why the link has ended; `None` while it has not.
    pub end: Option<End>,
    since: Instant,
}

/// All links of a socket.
#[derive(Debug)]
pub struct Links {
    max: usize,
    all: BTreeMap<LinkId, Link>,
    by_peer: HashMap<(SocketAddr, u16), LinkId>,
    incomplete: BTreeSet<LinkId>,
    next: u64,
}

/// The state of the link that an association has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The link lacks another channel.
    Incomplete(LinkId),
    /// The link is complete.
    Complete(LinkId),
}

impl Links {
    /// Creates an empty set for at most `max` complete links.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            all: BTreeMap::new(),
            by_peer: HashMap::new(),
            incomplete: BTreeSet::new(),
            next: 0,
        }
    }

    /// Adds the association at `path` to a link. `None` if there are too many links.
    pub fn join(&mut self, now: Instant, channel: Channel, path: Path) -> Option<Joined> {
        let id = match self.link_for(channel, &path) {
            Some(id) => id,
            None => self.create(now, path.remote)?,
        };
        let is_full = self.is_full();
        let link = self.all.get_mut(&id)?;
        if is_full && link.paths.iter().flatten().count() == link.paths.len() - 1 {
            return None; // another link took the last slot
        }
        if let Some(place) = link.paths.get_mut(channel.index()) {
            *place = Some(path);
        }
        self.by_peer.insert((path.remote, path.remote_port), id);
        if link.paths.iter().all(Option::is_some) {
            self.incomplete.remove(&id);
            return Some(Joined::Complete(id));
        }
        Some(Joined::Incomplete(id))
    }

    /// The link with this ID.
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.all.get(&id)
    }

    /// Marks a link as ended, and returns its associations. The link stays until [`Links::remove`].
    pub fn end(&mut self, id: LinkId, end: End) -> Vec<Path> {
        self.incomplete.remove(&id);
        let Some(link) = self.all.get_mut(&id) else {
            return Vec::new();
        };
        if link.end.is_some() {
            return Vec::new();
        }
        link.end = Some(end);
        let paths: Vec<_> = link.paths.iter().flatten().copied().collect();
        for path in &paths {
            let peer = (path.remote, path.remote_port);
            if self.by_peer.get(&peer) == Some(&id) {
                self.by_peer.remove(&peer);
            }
        }
        paths
    }

    /// Forgets a link.
    pub fn remove(&mut self, id: LinkId) -> Option<Link> {
        self.incomplete.remove(&id);
        self.all.remove(&id)
    }

    /// The oldest incomplete link if it is overdue, or a link to drop if there are too many.
    pub fn overdue(&self, now: Instant) -> Option<LinkId> {
        let oldest = *self.incomplete.first()?;
        if now >= self.all.get(&oldest)?.since + COMPLETE_WITHIN {
            return Some(oldest);
        }
        if self.incomplete.len() <= INCOMPLETE_MAX {
            return None;
        }
        let nobody = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let remote = |id| self.all.get(id).map_or(nobody, |link| link.remote.ip());
        let at = victim(self.incomplete.iter().map(|id| source(remote(id))))?;
        self.incomplete.iter().nth(at).copied()
    }

    /// The oldest incomplete link.
    pub fn oldest_incomplete(&self) -> Option<LinkId> {
        self.incomplete.first().copied()
    }

    /// Time at which the next link is overdue.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.all.get(self.incomplete.first()?)?;
        Some(oldest.since + COMPLETE_WITHIN)
    }

    /// Whether there are no links.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn link_for(&self, channel: Channel, path: &Path) -> Option<LinkId> {
        let misses = |id: &&LinkId| {
            self.all.get(id).is_some_and(|link| {
                link.remote == path.remote && link.paths.get(channel.index()) == Some(&None)
            })
        };
        let same_port = self.by_peer.get(&(path.remote, path.remote_port));
        same_port
            .filter(misses)
            .or_else(|| self.incomplete.iter().find(misses))
            .copied()
    }

    /// Whether the maximum number of links is complete.
    fn is_full(&self) -> bool {
        self.all.len() - self.incomplete.len() >= self.max
    }

    fn create(&mut self, now: Instant, remote: SocketAddr) -> Option<LinkId> {
        if self.is_full() {
            return None;
        }
        let id = LinkId(self.next);
        self.next += 1;
        let link = Link {
            paths: [None; 3],
            remote,
            end: None,
            since: now,
        };
        self.all.insert(id, link);
        self.incomplete.insert(id);
        Some(id)
    }
}
