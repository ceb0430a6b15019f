//! Reads and sends messages of links, and closes links.

use weir_base::Instant;
use weir_protocol::wire::MessageKind;

use super::super::channel::Channel;
use super::super::cookie::Path;
use super::super::links::LinkId;
use super::super::outcome::{Dropped, End};
use super::Endpoint;

impl Endpoint {
    /// Returns the next message of a link: from the high channel until it is empty, then medium, then low (RFC 5811,
    /// A.2).
    pub fn poll_message(&mut self, now: Instant, link: LinkId) -> Option<Vec<u8>> {
        if let Some(finished) = self.finished.get_mut(&link) {
            return finished.iter_mut().find_map(|(_, a)| a.poll_message(now));
        }
        for channel in Channel::ALL {
            let path = self.path(link, channel)?;
            let association = &mut self.up.get_mut(&path)?.association;
            let message = association.poll_message(now);
            if association.has_news() {
                self.unsettled.insert(path); // its window has room again
            }
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// Why a link has ended; `None` while it is up.
    pub fn end(&self, link: LinkId) -> Option<End> {
        match self.links.get(link) {
            Some(link) => link.end.clone(),
            None => Some(End::Closed),
        }
    }

    /// Sends a message; false if there is no room for it now.
    pub fn send(&mut self, link: LinkId, message: &[u8]) -> bool {
        let kind = MessageKind::from(message.get(1).copied().unwrap_or_default());
        let Some(path) = self.path(link, Channel::of(kind)) else {
            return false;
        };
        let slot = self.up.get_mut(&path);
        let sent = slot.is_some_and(|slot| slot.association.send(message));
        if sent {
            self.unsettled.insert(path);
        }
        sent
    }

    /// Closes a link, at once or when all sent messages have arrived on all channels.
    pub fn close(&mut self, now: Instant, link: LinkId, after_queue: bool) {
        if !after_queue {
            return self.end_link(now, link, End::Closed);
        }
        self.closing.insert(link);
        self.shut_down_flushed(now, link);
    }

    /// Forgets a link; closes it first if it is up.
    pub fn forget(&mut self, now: Instant, link: LinkId) {
        self.end_link(now, link, End::Closed);
        self.finished.remove(&link);
        self.links.remove(link);
    }

    /// Counters of dropped packets, chunks and messages of a link, by channel.
    pub fn dropped(&self, link: LinkId) -> [Dropped; 3] {
        Channel::ALL.map(|channel| {
            let finished = self.finished.get(&link).and_then(|associations| {
                let found = associations.iter().find(|(of, _)| *of == channel)?;
                Some(found.1.dropped)
            });
            let up = || {
                let slot = self.up.get(&self.path(link, channel)?)?;
                Some(slot.association.dropped)
            };
            finished.or_else(up).unwrap_or_default()
        })
    }

    pub(super) fn path(&self, link: LinkId, channel: Channel) -> Option<Path> {
        *self.links.get(link)?.paths.get(channel.index())?
    }

    /// Shuts down the channels of a closing link once all sent messages have arrived, so that no channel cuts another
    /// off.
    pub(super) fn shut_down_flushed(&mut self, now: Instant, link: LinkId) {
        let paths = Channel::ALL.map(|channel| self.path(link, channel));
        let mut paths = paths.into_iter().flatten();
        let flushed = paths.clone().all(|path| {
            let slot = self.up.get_mut(&path);
            slot.is_none_or(|slot| slot.association.is_flushed())
        });
        if flushed && self.closing.remove(&link) {
            paths.by_ref().for_each(|path| {
                if let Some(slot) = self.up.get_mut(&path) {
                    slot.association.close(now, true);
                }
                self.settle(now, path);
            });
        }
    }
}
