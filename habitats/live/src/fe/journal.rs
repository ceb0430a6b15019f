//! The log of an FE.

use weir_element::UNCHANGED;
use weir_fe::Notice;
use weir_forces::session::fe::State;

use crate::router::journal::{Sparse, listed};

/// The log of an FE. A controller can change a router many times a second, and a router can refuse as often.
#[derive(Debug, Default)]
pub(super) struct Journal {
    changed: Sparse,
    refused: Sparse,
}

impl Journal {
    pub(super) fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Associated(ce, id) => {
                tracing::info!(%ce, %id, "associated with a control element")
            }
            Notice::Lost(ce, why) => {
                tracing::warn!(%ce, %why, "no association with a control element")
            }
            Notice::Master { from, to } => {
                let from = from.map(|from| from.to_string());
                tracing::info!(%to, from, "a control element is the master");
            }
            Notice::State(State::Associated) => {}
            Notice::State(State::NotAssociated(_)) => {
                tracing::warn!(
                    "no master: the router forwards as its last one configured it, for CEFTI"
                );
            }
            Notice::State(State::PreAssociation) => {
                tracing::warn!("no master, and CEFTI has passed")
            }
            Notice::Forwarding { on: true, why } => tracing::info!(why, "the router forwards"),
            Notice::Forwarding { on: false, why } => {
                tracing::warn!(why, "the router does not forward")
            }
            Notice::Refused(why) => tracing::debug!(%why, "a packet of the master is not sent"),
            Notice::Changed(done) => self.changed(done),
        }
    }

    fn changed(&mut self, done: &Result<Vec<String>, Vec<String>>) {
        let how = "ForCES";
        match done {
            Ok(changes) if changes[..] == [UNCHANGED] => {
                tracing::debug!(how, "configuration set again, nothing to change");
            }
            Ok(changes) => {
                let changes = listed(changes);
                match self.changed.admit() {
                    None => tracing::debug!(how, changes, "configuration changed"),
                    Some(0) => tracing::info!(how, changes, "configuration changed"),
                    Some(unlogged) => {
                        tracing::info!(how, changes, unlogged, "configuration changed");
                    }
                }
            }
            Err(why) => {
                let (why, text) = (listed(why), "configuration refused, nothing changed");
                match self.refused.admit() {
                    None => tracing::debug!(how, why, "{text}"),
                    Some(0) => tracing::warn!(how, why, "{text}"),
                    Some(unlogged) => tracing::warn!(how, why, unlogged, "{text}"),
                }
            }
        }
    }
}
