//! The log of configuration changes: at level `info`, with the process that requested them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use weir_live::mutex::lock;
use weir_live::router::journal::listed;
use weir_northbound::Peer;

/// A controller can change components many times a second. Level `info` logs at most one change a second for each
/// process; level `debug` logs all.
const SET_GAP: Duration = Duration::from_secs(1);

/// The process whose `set` was logged last, the time of that entry, and the number of its changes not logged since.
static LATEST_SET: Mutex<Option<(Peer, Instant, u64)>> = Mutex::new(None);

/// Logs a request for another configuration: the changes, or the reasons why nothing changed.
pub(crate) fn changed(how: &str, by: Option<Peer>, done: &Result<Vec<String>, Vec<String>>) {
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
    let mut unlogged = 0;
    if let ("set", Some(peer)) = (how, by) {
        let mut latest = lock(&LATEST_SET);
        if let Some((_, at, skipped)) = latest.as_mut().filter(|(last, ..)| *last == peer) {
            if at.elapsed() < SET_GAP {
                *skipped += 1;
                tracing::debug!(how, uid, pid, changes, "configuration changed");
                return;
            }
            unlogged = *skipped;
        }
        *latest = Some((peer, Instant::now(), 0));
    }
    match unlogged {
        0 => tracing::info!(how, uid, pid, changes, "configuration changed"),
        _ => tracing::info!(how, uid, pid, changes, unlogged, "configuration changed"),
    }
}
