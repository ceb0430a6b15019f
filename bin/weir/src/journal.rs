//! The log of configuration changes: at level `info`, with the process that requested them.

use std::sync::Mutex;

use weir_live::mutex::lock;
use weir_live::router::journal::{Sparse, listed};
use weir_northbound::Peer;

/// The process whose `set` was logged last, and which of its changes are logged.
static LATEST_SET: Mutex<Option<(Peer, Sparse)>> = Mutex::new(None);

/// Logs a request for another configuration: the changes, or the reasons why nothing changed.
pub fn changed(how: &str, by: Option<Peer>, done: &Result<Vec<String>, Vec<String>>) {
    let (uid, pid) = (by.map(|by| by.uid), by.and_then(|by| by.pid));
    let (Ok(messages) | Err(messages)) = done;
    let changes = listed(messages);
    if done.is_err() {
        tracing::warn!(
            how,
            uid,
            pid,
            why = changes,
            "configuration refused, nothing changed"
        );
        return;
    }
    let unlogged = match (how, by) {
        ("set", Some(peer)) => {
            let mut latest = lock(&LATEST_SET);
            if latest.as_ref().is_none_or(|(last, _)| *last != peer) {
                *latest = Some((peer, Sparse::default()));
            }
            latest.as_mut().and_then(|(_, entries)| entries.admit())
        }
        _ => Some(0),
    };
    match unlogged {
        None => tracing::debug!(how, uid, pid, changes, "configuration changed"),
        Some(0) => tracing::info!(how, uid, pid, changes, "configuration changed"),
        Some(unlogged) => tracing::info!(how, uid, pid, changes, unlogged, "configuration changed"),
    }
}
