//! Transport faults, counted by kind and logged.
//!
//! A stranger can cause most faults at any rate. So the log gets at most one line per second for each kind; the next
//! line gives the number of unlogged faults.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_live::clock;

/// Minimum time between two log lines about one kind of fault, in nanoseconds.
const QUIET_NANOS: u64 = 1_000_000_000;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// A peer presented no certificate.
    NoCertificate,
    /// A peer presented a certificate that belongs to no configured ID.
    UnknownCertificate,
    /// A peer with a known certificate requested an association under the ID of another element.
    OtherId,
    /// A handshake failed for another reason, or took too long.
    Handshake,
    /// A connection arrived while the maximum number was open, or being opened.
    TooMany,
    /// A link was lost: an error, or an end in the middle of a message.
    Lost,
    /// A peer sent bytes that are not a message; the link was closed.
    Malformed,
    /// A peer started a message and did not complete it in time; the link was closed.
    Stalled,
    /// A message arrived on the channel of another message type, and was dropped.
    WrongChannel,
    /// A redirect arrived while its reader was behind, and was dropped.
    Unread,
    /// A redirect was too long for the transport, and was dropped.
    TooLong,
    /// The transport did not take a redirect in time, and it was dropped.
    Late,
    /// A datagram belonged to no association, and was dropped.
    Unassociated,
    /// A datagram was not sealed by the peer, and was dropped.
    Forged,
    /// A datagram was a duplicate, or far too late, and was dropped.
    Replayed,
    /// A peer presented a revoked certificate.
    Revoked,
    /// A request for enrolment or renewal was refused.
    Enrolment,
}

impl Fault {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 17] = [
        Self::NoCertificate,
        Self::UnknownCertificate,
        Self::OtherId,
        Self::Handshake,
        Self::TooMany,
        Self::Lost,
        Self::Malformed,
        Self::Stalled,
        Self::WrongChannel,
        Self::Unread,
        Self::TooLong,
        Self::Late,
        Self::Unassociated,
        Self::Forged,
        Self::Replayed,
        Self::Revoked,
        Self::Enrolment,
    ];

    /// The name in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::UnknownCertificate => "unknown_certificate",
            Self::OtherId => "other_id",
            Self::Handshake => "handshake",
            Self::TooMany => "too_many",
            Self::Lost => "lost",
            Self::Malformed => "malformed",
            Self::Stalled => "stalled",
            Self::WrongChannel => "wrong_channel",
            Self::Unread => "unread",
            Self::TooLong => "too_long",
            Self::Late => "late",
            Self::Unassociated => "unassociated",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::Revoked => "revoked",
            Self::Enrolment => "enrolment",
        }
    }
}

/// A counter for each kind of fault.
#[derive(Debug, Default)]
pub struct Faults([Counter; Fault::ALL.len()]);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    /// Count at the last log line, and the time of that line in nanoseconds.
    logged: AtomicU64,
    logged_at: AtomicU64,
}

impl Faults {
    /// Number of faults of this kind.
    pub fn count(&self, fault: Fault) -> u64 {
        self.0[fault as usize].count.load(Ordering::Relaxed)
    }

    /// Counts a fault, and logs it unless a fault of its kind was logged within the last second.
    pub(crate) fn report(&self, fault: Fault, what: fmt::Arguments<'_>) {
        if let Some(unlogged) = self.0[fault as usize].hit(clock::now().as_nanos()) {
            let fault = fault.name();
            match unlogged {
                0 => tracing::warn!(fault, "{what}"),
                more => tracing::warn!(fault, more, "{what}"),
            }
        }
    }
}

impl Counter {
    /// Counts a fault. Returns the number of unlogged faults if this fault must be logged.
    fn hit(&self, now: u64) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let last = self.logged_at.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < QUIET_NANOS {
            return None;
        }
        self.logged_at.store(now, Ordering::Relaxed);
        let logged = self.logged.swap(count, Ordering::Relaxed);
        Some(count.saturating_sub(logged + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers_and_names() {
        for (number, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, number);
            let same = Fault::ALL.iter().filter(|f| f.name() == fault.name());
            assert_eq!(same.count(), 1);
        }
    }

    #[test]
    fn one_line_a_second_tells_about_all() {
        let counter = Counter::default();
        assert_eq!(counter.hit(1), Some(0));
        assert_eq!(counter.hit(2), None);
        assert_eq!(counter.hit(3), None);
        assert_eq!(counter.hit(2 + QUIET_NANOS), Some(2));
        assert_eq!(counter.hit(2 + 2 * QUIET_NANOS), Some(0));
        assert_eq!(counter.count.into_inner(), 5);
    }
}
