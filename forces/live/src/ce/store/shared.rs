//! The store of several control elements: a copy of the state in etcd, and changes for the thread that writes them.

use std::collections::BTreeMap;
use std::sync::mpsc as threads;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_ce::election::Entry;
use weir_live::mutex::lock;

/// Longest time for giving up the lease when the control element ends.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// A change, or the end of the control element, with the sender of the result.
pub(in crate::ce) type Ask = (Option<Vec<Entry>>, threads::Sender<Result<(), String>>);

/// The state that has been read from etcd, and the way to change it.
#[derive(Debug)]
pub(in crate::ce) struct Shared {
    pub(in crate::ce) state: Arc<Mutex<BTreeMap<String, String>>>,
    pub(in crate::ce) asks: mpsc::UnboundedSender<Ask>,
}

impl Shared {
    pub(super) fn state(&self) -> BTreeMap<String, String> {
        lock(&self.state).clone()
    }

    /// Makes entries durable, all or none. Blocks; the leader's lease bounds the time.
    pub(super) fn change(&self, entries: &[Entry]) -> Result<(), String> {
        let (sender, answer) = threads::channel();
        let sent = self.asks.send((Some(entries.to_vec()), sender));
        let answer = sent.ok().and_then(|()| answer.recv().ok());
        answer.unwrap_or_else(|| Err("the connection to etcd has ended".to_owned()))
    }

    /// Gives up the lease.
    pub(super) fn leave(&self) {
        let (sender, answer) = threads::channel();
        if self.asks.send((None, sender)).is_ok() {
            let _ = answer.recv_timeout(LEAVE_MAX); // else the lease ends by itself
        }
    }
}
