//! The two virtual times: that of the flows, and that of the hosts.
//!
//! The flows' time is the start tag of the latest heavy packet. The hosts' time passes with it, but never more slowly than
//! allows the light flows of each host a fiftieth of the bytes of all heavy flows, for any number of hosts: a name server
//! among a thousand busy hosts needs more than one of their shares.

use super::hosts::ONE;
use super::turns::TAG_MAX;

/// The light flows of a host may always send the bytes of all heavy flows divided by this.
const LEAST_PART: u64 = 50;
/// Full frames by which the hosts' time may lag: the flows' time passes in steps.
const SLACK: u64 = 2;
/// The greatest time before both restart near zero.
pub(super) const REBASE: u64 = TAG_MAX / 4;
/// The time from which they restart.
const KEPT: u64 = REBASE / 4;

/// The two times.
#[derive(Debug, Default)]
pub(super) struct Time {
    /// The flows' time.
    pub(super) flows: u64,
    /// The hosts' time.
    pub(super) hosts: u64,
    /// The greatest tag and the greatest clock that were given.
    pub(super) latest: [u64; 2],
    /// How far the hosts' time is behind the least part.
    behind: u64,
}

impl Time {
    /// A heavy packet is served, of this tag and length.
    #[inline]
    pub(super) fn pass(&mut self, tag: u64, bytes: u64, bytes_max: u64) {
        let passed = tag.saturating_sub(self.flows);
        self.behind = (self.behind + bytes * ONE / LEAST_PART).saturating_sub(passed);
        let more = self.behind.saturating_sub(SLACK * bytes_max * ONE);
        self.behind -= more;
        self.flows += passed;
        self.hosts += passed + more;
    }

    /// Nothing is queued: forgives all service beyond a share.
    pub(super) fn settle(&mut self) {
        self.flows = self.flows.max(self.latest[0]);
        self.hosts = self.hosts.max(self.latest[1]);
        self.behind = 0;
    }

    /// Restarts near zero if a time is too great; returns the amounts to subtract from tags and from clocks.
    #[inline]
    pub(super) fn renew(&mut self) -> Option<[u64; 2]> {
        if self.flows.max(self.hosts) <= REBASE {
            return None;
        }
        let from = [self.flows, self.hosts].map(|now| now.saturating_sub(KEPT));
        self.flows -= from[0];
        self.hosts -= from[1];
        for (latest, from) in self.latest.iter_mut().zip(from) {
            *latest = latest.saturating_sub(from);
        }
        Some(from)
    }
}
