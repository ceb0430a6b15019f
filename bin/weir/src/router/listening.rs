//! The address of the router's page: the task that serves the page follows the configuration, and a request that
//! changes the address waits for that task.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use weir_live::mutex::lock;

/// Interval of the checks of the configuration, and of the attempts to listen.
const STEP: Duration = Duration::from_secs(1);
/// Maximum time that a change of the page's address waits for the page.
const FOLLOW_MAX: Duration = Duration::from_secs(3);

/// The page's latest attempt to listen, for requests that change its address.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The address of the latest attempt, and the error if it failed.
    latest: Mutex<(Option<SocketAddr>, Option<String>)>,
    attempted: Condvar,
    changed: Notify,
}

impl Listening {
    /// Records an attempt to listen, and the error if it failed.
    pub(super) fn attempted(&self, address: Option<SocketAddr>, error: Option<String>) {
        *lock(&self.latest) = (address, error);
        self.attempted.notify_all();
    }

    /// Waits until the configuration, and perhaps the address, changes; at most [`STEP`].
    pub(super) async fn pause(&self) {
        let _ = tokio::time::timeout(STEP, self.changed.notified()).await;
    }

    /// Waits until the page listens at this address, or has stopped listening for `None`. The error is the reason why
    /// it does not.
    pub(super) fn follow(&self, address: Option<SocketAddr>) -> Result<(), String> {
        self.changed.notify_one();
        let is_old = |latest: &mut (Option<SocketAddr>, Option<String>)| latest.0 != address;
        let waited = self
            .attempted
            .wait_timeout_while(lock(&self.latest), FOLLOW_MAX, is_old);
        let (latest, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&latest.1, waited.timed_out()) {
            (_, true) => Err("it is not listening yet".to_owned()),
            (Some(error), false) => Err(error.clone()),
            (None, false) => Ok(()),
        }
    }
}
