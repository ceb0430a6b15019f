//! Log of a control element.

use weir_ce::contract::LogEvent;
use weir_ce::network::Note;
use weir_model::Fault;

/// Logs the start or replacement of a network.
pub(super) fn network(replaced: Result<(), Vec<Fault>>) {
    for fault in replaced.err().into_iter().flatten() {
        tracing::error!(%fault, "network refused; nothing changed");
    }
}

/// Logs events of the path service.
pub(super) fn path(note: &Note) {
    match note {
        Note::Failed(what, why) => tracing::warn!(what, why, "failed; rerouting its paths"),
        Note::Used(what) => tracing::info!(what, "in use for paths again"),
        Note::Dropped(request, why) => {
            tracing::warn!(
                request,
                why,
                "path request ended: the network no longer has such a path"
            );
        }
        Note::Ended(request) => tracing::info!(request, "path request expired"),
        Note::Refused(why) => tracing::error!(why, "an element refused its part of the network"),
    }
}

/// Logs events of an FE.
pub(super) fn element(journal: &LogEvent) {
    match journal {
        LogEvent::Associated(fe) => tracing::info!(fe, "associated"),
        LogEvent::Lost(fe, why) => tracing::warn!(fe, why, "association lost"),
        LogEvent::Unknown(id) => {
            tracing::warn!(%id, "an unknown FE requested an association; add [fe.NAME] with this id");
        }
        LogEvent::Unproved(fe, peer) => {
            tracing::warn!(
                fe,
                peer,
                "refused: the peer presented no certificate, but this FE is configured with one"
            );
        }
        LogEvent::InSync(fe, 0) => tracing::info!(fe, "has the desired configuration"),
        LogEvent::InSync(fe, restored) => {
            tracing::info!(fe, restored, "has the desired configuration again");
        }
        LogEvent::Refused(fe, why) => tracing::error!(fe, why, "refuses the desired configuration"),
        LogEvent::Unroutable(fe, why) => tracing::warn!(fe, why, "refuses routes"),
        LogEvent::Lacks(fe, why) => tracing::warn!(fe, why, "its kernel lacks routes"),
        LogEvent::Leads => tracing::info!("this control element leads"),
        LogEvent::Follows(leader) => {
            tracing::warn!(leader = leader.as_deref().unwrap_or("none"), "follows");
        }
        LogEvent::Regained(fe, lost) => tracing::info!(fe, lost, "its kernel has all routes again"),
    }
}
