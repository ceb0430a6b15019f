//! Where the page of the router listens: who serves it follows the configuration, and who changes that waits for it.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use weir_live::mutex::lock;

/// Time between two looks at the configuration, and between two attempts to listen.
const STEP: Duration = Duration::from_secs(1);
/// Longest time that a change of the page's address waits for the page.
const FOLLOW_MAX: Duration = Duration::from_secs(3);

/// Where the page listens, for whoever changes that.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The address of the latest attempt, and why it failed.
    latest: Mutex<(Option<SocketAddr>, Option<String>)>,
    attempted: Condvar,
    changed: Notify,
}

impl Listening {
    /// Notes an attempt to listen, and why it failed.
    pub(super) fn attempted(&self, address: Option<SocketAddr>, error: Option<String>) {
        *lock(&self.latest) = (address, error);
        self.attempted.notify_all();
    }

    /// Waits for a change of the configuration that may be one of the address, or for a while.
    pub(super) async fn pause(&self) {
        let _ = tokio::time::timeout(STEP, self.changed.notified()).await;
    }

    /// Waits until the page listens at an address that is in force now, or at none. An error says why it does not.
    pub(super) fn follow(&self, address: Option<SocketAddr>) -> Result<(), String> {
        self.changed.notify_one();
        let is_old = |latest: &mut (Option<SocketAddr>, Option<String>)| latest.0 != address;
        let waited = self
            .attempted
            .wait_timeout_while(lock(&self.latest), FOLLOW_MAX, is_old);
        let (latest, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match (&latest.1, waited.timed_out()) {
            (_, true) => Err("it does not listen yet".to_owned()),
            (Some(error), false) => Err(error.clone()),
            (None, false) => Ok(()),
        }
    }
}
