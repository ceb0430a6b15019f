//! The virtual times: one of the flows, and two of the hosts.
//!
//! The flows' time is the start tag of the latest heavy packet. The hosts' times advance with it, but at least fast
//! enough to allow the light flows of each host 1/50 of the bytes of all heavy flows, and the familiar ones among them
//! 1/25, for any number of hosts: a name server among a thousand busy hosts needs more than one of their shares.

use super::hosts::ONE;
use super::turns::TAG_MAX;

/// The light flows of a host may always send the bytes of all heavy flows divided by this: for flows of any kind, and
/// for familiar flows.
const LEAST_PARTS: [u64; 2] = [50, 25];
/// Full frames by which the hosts' times may lag: the flows' time passes in steps.
const SLACK: u64 = 2;
/// The maximum time; beyond it all times restart near zero.
pub(super) const REBASE: u64 = TAG_MAX / 4;
/// The time at which they restart.
const KEPT: u64 = REBASE / 4;

/// The times.
#[derive(Debug, Default)]
pub(super) struct Time {
    /// The flows' time.
    pub(super) flows: u64,
    /// The hosts' times: for flows of any kind, and for familiar ones.
    pub(super) hosts: [u64; 2],
    /// The largest tag assigned so far.
    pub(super) latest_tag: u64,
    /// The largest clock of each kind so far.
    pub(super) latest: [u64; 2],
    /// How far the hosts' times are behind their minimum rates.
    behind: [u64; 2],
}

impl Time {
    /// Advances the times for a heavy packet that is served, with this tag and length.
    #[inline]
    pub(super) fn pass(&mut self, tag: u64, bytes: u64, wire_max: u64) {
        let passed = tag.saturating_sub(self.flows);
        self.flows += passed;
        for (kind, part) in LEAST_PARTS.into_iter().enumerate() {
            let behind = (self.behind[kind] + bytes * ONE / part).saturating_sub(passed);
            let more = behind.saturating_sub(SLACK * wire_max * ONE);
            self.behind[kind] = behind - more;
            self.hosts[kind] += passed + more;
        }
    }

    /// Forgives all service beyond a share, because no packet is queued.
    pub(super) fn settle(&mut self) {
        self.flows = self.flows.max(self.latest_tag);
        for (now, latest) in self.hosts.iter_mut().zip(self.latest) {
            *now = (*now).max(latest);
        }
        self.behind = [0; 2];
    }

    /// Restarts near zero if a time is too great; returns the amounts to subtract from tags, and from clocks of each
    /// kind.
    #[inline]
    pub(super) fn renew(&mut self) -> Option<(u64, [u64; 2])> {
        let [any, familiar] = self.hosts;
        if self.flows.max(any).max(familiar) <= REBASE {
            return None;
        }
        let from = |now: u64| now.saturating_sub(KEPT);
        let (of_flows, of_hosts) = (from(self.flows), self.hosts.map(from));
        self.flows -= of_flows;
        self.latest_tag = self.latest_tag.saturating_sub(of_flows);
        for (kind, from) in of_hosts.into_iter().enumerate() {
            self.hosts[kind] -= from;
            self.latest[kind] = self.latest[kind].saturating_sub(from);
        }
        Some((of_flows, of_hosts))
    }
}
