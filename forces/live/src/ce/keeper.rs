//! The thread that writes the store, and the table `store`.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_ce::contract::{PathRecord, Records, StoreTicket};
use weir_model::class::{Cell, Type, Unit};
use weir_model::column::{Column, Row, components};
use weir_model::{Class, Component};

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

impl Row for Health {
    type View<'a> = &'a Self;
}

/// The file with the changes by operators.
pub(super) static STORE: Class = Class {
    name: "store",
    metric: Some("store"),
    id: 0x00F7_031E,
    about: "the control element's store of operators' changes to FEs, and whether it can be written",
    key: &["file"],
    components: &components::<Health, { COLUMNS.len() }>(COLUMNS),
    ..Class::PLAIN
};

pub(super) const COLUMNS: &[Column<Health>] = &[
    Component::new(1, "file", Type::Text, "/var/lib/weir/ce.store")
        .about("Path of the store.")
        .shown(&[Cell::new("STORE")])
        .read(|health| health.path.display().to_string().into()),
    Component::new(2, "bytes", Type::Gauge(Unit::Bytes), "4096")
        .about("Size of the store.")
        .shown(&[Cell::new("SIZE")])
        .read(|health| health.bytes.into()),
    Component::new(3, "writable", Type::Flag, "true")
        .about("Whether the last change could be written.")
        .shown(&[Cell::new("WRITABLE")])
        .read(|health| health.error.is_none().into()),
    Component::new(4, "failures", Type::Counter(Unit::One), "0")
        .about("Changes refused since the start because they could not be written.")
        .shown(&[Cell::new("FAILURES")])
        .read(|health| health.failures.into()),
    Component::new(5, "why", Type::Text, "No space left on device")
        .optional()
        .varying()
        .about("Why changes cannot be written.")
        .shown(&[Cell::new("WHY").or("")])
        .read(|health| health.error.clone().into()),
    Component::new(6, "leader", Type::Text, "ce-a")
        .optional()
        .varying()
        .about("Name of the control element that leads, if several share their desired state.")
        .shown(&[Cell::new("LEADER").or("-")])
        .read(|health| health.leader.clone().into()),
];
