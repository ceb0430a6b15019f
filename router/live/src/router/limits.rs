//! Keeps rules in the kernel up to date: the limit on the machine's own packets when rates of ports change, and the
//! guard's rules when devices on ports come and go.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::running::Running;
use crate::kernel::announcements::Announcements;
use crate::kernel::transit;
use crate::mutex::lock;

/// Time for which changes of interfaces are gathered, because they come in groups.
const GATHER: Duration = Duration::from_millis(10);
/// Shortest time between two readings of the interfaces.
const LINKS_GAP: Duration = Duration::from_millis(100);
/// Shortest time between two renewals of the limits: a renewed limit starts with a full bucket, and a controller
/// changes rates many times a second.
const LIMITS_GAP: Duration = Duration::from_secs(5);

/// Applies the limits. Returns false if the kernel cannot limit. If one port fails, the others still get their limits.
fn limit(running: &Running) -> Result<bool, transit::Error> {
    let mut limited = Ok(true);
    for (interface, most) in running.local_limits() {
        match lock(&running.guard).limit_local(&interface, most) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => limited = Err(error),
        }
    }
    limited
}

/// Renews the limits at the start and whenever rates of the active plan, or found rates, change.
pub(super) async fn follow_rates(running: Arc<Running>) -> String {
    loop {
        let limited = Arc::clone(&running);
        match tokio::task::spawn_blocking(move || limit(&limited)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                tracing::warn!(
                    "this kernel has no egress hook (needs Linux 5.16): the machine's own packets through a paced \
                     port are not limited, and delay transit there"
                );
                return std::future::pending().await;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot update the limit of the machine's own packets");
            }
            Err(error) => return error.to_string(),
        }
        sleep(LIMITS_GAP).await;
        running.published.rates_changed.notified().await;
    }
}

/// Renews the guard's rules when devices on ports (VLANs and the like) come and go, or helper devices change.
pub(super) async fn follow_links(running: Arc<Running>) -> String {
    let mut announcements = match Announcements::of_links() {
        Ok(announcements) => announcements,
        Err(error) => return format!("cannot monitor the interfaces: {error}"),
    };
    loop {
        let guarded = Arc::clone(&running);
        let followed = tokio::task::spawn_blocking(move || {
            let followed = lock(&guarded.guard).follow_links();
            guarded.handle.wake(); // a device may have failed
            followed
        });
        match followed.await {
            Ok(Ok(())) => {}
            // The device was removed in the meantime; the kernel announces that too.
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot update the guard after an interface change")
            }
            Err(error) => return error.to_string(),
        }
        sleep(LINKS_GAP).await;
        if let Err(error) = announcements.changed().await {
            return format!("cannot monitor the interfaces: {error}");
        }
        sleep(GATHER).await;
    }
}
