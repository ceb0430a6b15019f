//! The forwarding thread renews the lease on transit, and leaves frames that it may have missed to the kernel.
//!
//! ```text
//!  renewed          kernel forwards from about here      renewed again
//!  ---+------------------------+------------+-----------------+-------> time
//!     |   router forwards      | DOUBT      |                 | router forwards
//!     +------------------------+------------+                 |
//!     frames from here on, up to the next renewal, are the kernel's
//! ```
//!
//! The rules that keep transit from the kernel are active for the lifetime of a renewal
//! ([`kernel::lease`](crate::kernel::lease)). The kernel ends them by its timer, which is exact to a tick. So the
//! router stops [`DOUBT`] earlier: a frame in doubt belongs to the kernel, and no frame is forwarded twice. The next
//! renewal takes transit back at that instant. The router discards frames that wait in a ring with an earlier stamp.
//!
//! This uses the monotonic clock, like the kernel's timer: neither setting the wall clock nor suspending the machine
//! ends the lease.

use std::io;
use std::sync::atomic::Ordering;

use socket2::{Domain, Protocol, Socket, Type};
use weir_base::{Instant, Span};

use super::Worker;
use crate::clock::{self, UnixTime};
use crate::device::af_packet::link_address;
use crate::kernel::lease::Renewal;

/// Time at the end of a lease in which both the router and the kernel might forward a frame: some ticks of the slowest
/// timer.
const DOUBT: Span = Span::from_millis(40);
/// The shortest lifetime of a renewal: several times [`DOUBT`].
const LIFETIME_MIN: Span = Span::from_millis(200);
/// Renewals per lifetime.
const RENEWALS: u64 = 5;
/// Length of the shortest Ethernet frame, in bytes. A rule drops the frame before it reaches a link.
const FRAME_BYTES: usize = 60;
/// Header in case the frame is sent nevertheless: it reaches a neighbour at most (IEEE 802.1Q), as a local experiment
/// (IEEE 802).
const HEADER: [u8; 14] = [1, 0x80, 0xc2, 0, 0, 0x0e, 0, 0, 0, 0, 0, 0, 0x88, 0xb5];

/// A lease on transit that this thread renews.
#[derive(Debug)]
pub struct Lease {
    socket: Socket,
    renewal: Renewal,
    /// Frames that arrive from this instant on may be the kernel's.
    until: Instant,
    renew_at: Instant,
    has_failed: bool,
}

impl Lease {
    /// The lifetime of a renewal with which the kernel forwards once the router has stalled for `limit`.
    pub fn lifetime(limit: Span) -> Span {
        limit.max(LIFETIME_MIN)
    }

    /// A lease with a renewal from [`TransitGuard::lease`](crate::kernel::transit::TransitGuard::lease).
    pub fn new(renewal: Renewal) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        socket.set_mark(renewal.mark)?;
        Ok(Self {
            socket,
            renewal,
            until: Instant::ZERO,
            renew_at: Instant::ZERO,
            has_failed: false,
        })
    }

    /// Renews the lease. Returns the time since its end, if it had ended.
    fn renew(&mut self) -> io::Result<Option<Span>> {
        let before = clock::now();
        let lifetime = self.renewal.lifetime;
        self.renew_at = before + Span::from_nanos(lifetime.as_nanos() / RENEWALS);
        let mut frame = [0; FRAME_BYTES];
        frame[..HEADER.len()].copy_from_slice(&HEADER);
        let to = link_address(self.renewal.device.load(Ordering::Relaxed), 0)?;
        match self
            .socket
            .send_to_with_flags(&frame, &to, libc::MSG_DONTWAIT)
        {
            // The rule that renewed the lease dropped the frame.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(io::Error::other(
                    "the rule that renews the lease is missing",
                ));
            }
        }
        let after = clock::now();
        let ended = (after >= self.until).then(|| after.since(self.until));
        self.until = before + (lifetime - DOUBT);
        Ok(ended)
    }
}

impl Worker {
    /// Sets the lease that this thread renews; without a lease, the router forwards as long as it has rules.
    pub fn set_lease(&mut self, lease: Option<Lease>) {
        self.lease = lease;
    }

    /// Renews the lease now.
    pub fn renew_lease(&mut self) -> io::Result<()> {
        let Some(lease) = &mut self.lease else {
            return Ok(());
        };
        let had_one = lease.until > Instant::ZERO;
        let Some(ended) = lease.renew()? else {
            return Ok(());
        };
        let from = UnixTime::now();
        let devices = self.links.iter_mut().filter_map(|l| l.device.as_mut());
        devices.for_each(|device| device.begin_again(from));
        if had_one {
            tracing::warn!(
                %ended,
                "the forwarding thread stalled: the kernel forwarded in the meantime"
            );
        }
        Ok(())
    }

    /// Frames that arrived from this instant on may be the kernel's.
    pub(super) fn leased_until(&self) -> Instant {
        let lease = self.lease.as_ref();
        lease.map_or(Instant::FAR_FUTURE, |lease| lease.until)
    }

    /// Renews the lease if that is due; returns when it is due next. The lease ends while rules may still lend frames to
    /// a device that was lost: nobody would send these frames.
    pub(super) fn keep_lease(&mut self, now: Instant) -> Option<Instant> {
        let mut links = self.links.iter();
        if links.any(|link| link.is_lent && link.device.is_none()) {
            return None;
        }
        if self.lease.as_ref()?.renew_at <= now {
            let had_one = self.leased_until() > Instant::ZERO;
            let kept = self.renew_lease();
            let lease = self.lease.as_mut()?;
            match kept {
                // The interface of the rule may just have been switched off: then the rule moves to another interface.
                Err(error) if !lease.has_failed && had_one && now >= lease.until => {
                    lease.has_failed = true;
                    tracing::error!(%error, "cannot renew the transit lease: the kernel forwards");
                }
                Err(_) => {}
                Ok(()) => lease.has_failed = false,
            }
        }
        self.lease.as_ref().map(|lease| lease.renew_at)
    }
}
