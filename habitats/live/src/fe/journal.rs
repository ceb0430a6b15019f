//! The log of an FE.

use weir_fe::Notice;
use weir_forces::session::fe::State;

use crate::router::journal::listed;

pub(super) fn notice(notice: &Notice) {
    match notice {
        Notice::Associated(ce, id) => tracing::info!(%ce, %id, "associated with a control element"),
        Notice::Lost(ce, why) => tracing::warn!(%ce, %why, "no association with a control element"),
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
        Notice::State(State::PreAssociation) => tracing::warn!("no master, and CEFTI has passed"),
        Notice::Forwarding { on: true, why } => tracing::info!(why, "the router forwards"),
        Notice::Forwarding { on: false, why } => tracing::warn!(why, "the router does not forward"),
        Notice::Refused(why) => tracing::debug!(%why, "a packet of the master is not sent"),
        Notice::Changed(Ok(changes)) => {
            tracing::info!(
                how = "ForCES",
                changes = listed(changes),
                "configuration changed"
            );
        }
        Notice::Changed(Err(why)) => {
            let why = listed(why);
            tracing::warn!(
                how = "ForCES",
                why,
                "configuration refused, nothing changed"
            );
        }
    }
}
