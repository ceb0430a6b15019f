//! The thread that writes the store, and the table `store`.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_ce::contract::{PathRecord, Records, StoreTicket};
use weir_ce::tables::STORE;
use weir_model::{Component, Value};

use super::input::Input;
use super::store::{Health, Store};

/// Interval between attempts to write a failed store while operators make no changes.
const ATTEMPT_STEP: Duration = Duration::from_secs(2);

/// A change for the store.
pub(super) enum ToKeep {
    /// Records by FE name.
    Records(StoreTicket, Vec<(String, Records)>),
    /// A path request.
    Path(StoreTicket, PathRecord),
}

/// Starts the thread.
pub(super) fn start(
    store: Arc<Store>,
    inputs: mpsc::Sender<Input>,
) -> std::io::Result<Sender<ToKeep>> {
    let (sender, changes) = channel();
    let work = move || {
        loop {
            let (ticket, done) = match changes.recv_timeout(ATTEMPT_STEP) {
                Ok(ToKeep::Records(ticket, records)) => (ticket, store.keep(&records)),
                Ok(ToKeep::Path(ticket, record)) => (ticket, store.keep_request(&record)),
                Err(RecvTimeoutError::Timeout) => {
                    store.try_again();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if inputs.blocking_send(Input::Stored(ticket, done)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("ce-store".to_owned())
        .spawn(work)?;
    Ok(sender)
}

/// The row of the table `store`.
pub(super) fn rows(health: &Health) -> Value {
    let row = Component::values(STORE.components, |component| match component.name {
        "file" => health.path.display().to_string().into(),
        "bytes" => health.bytes.into(),
        "writable" => health.error.is_none().into(),
        "failures" => health.failures.into(),
        _ => health.error.clone().map_or(Value::Absent, Value::from),
    });
    Value::List(vec![row])
}
