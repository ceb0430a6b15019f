//! Log of an FE.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_element::UNCHANGED;
use weir_fe::Notice;
use weir_protocol::session::Loss;
use weir_protocol::session::fe::State;
use weir_protocol::wire::Id;

use weir_live::router::journal::{Sparse, listed};

/// Log of an FE, rate-limited: a controller can change a router many times a second, and a router can refuse as often.
#[derive(Debug, Default)]
pub(super) struct Journal {
    changed: Sparse,
    refused: Sparse,
    inattentive: Sparse,
    /// Why the last link to a CE ended; kept until the loss is logged.
    ended: BTreeMap<Id, String>,
    /// CEs without an association.
    absent: BTreeMap<Id, Absence>,
}

/// A CE that an FE repeatedly tries to associate with.
#[derive(Debug)]
struct Absence {
    why: String,
    logged: Instant,
    /// Attempts that have failed since then for the same reason.
    unlogged: u64,
}

/// Log interval while a CE is absent for an unchanged reason.
const ABSENCE_GAP: Span = Span::from_secs(60);

impl Journal {
    pub(super) fn notice(&mut self, now: Instant, notice: &Notice) {
        match notice {
            Notice::Associated(ce, id) => {
                self.absent.remove(ce);
                tracing::info!(%ce, %id, "associated with a control element");
            }
            Notice::Lost(ce, loss) => {
                let ended = self.ended.remove(ce).filter(|_| *loss == Loss::LinkLost);
                let why = ended.unwrap_or_else(|| loss.to_string());
                if let Some(unlogged) = self.lost(now, *ce, &why) {
                    let attempts = (unlogged > 0).then_some(unlogged);
                    tracing::warn!(%ce, why, attempts, "no association with a control element");
                }
            }
            Notice::Master { from, to } => {
                let from = from.map(|from| from.to_string());
                tracing::info!(%to, from, "a control element is now the master");
            }
            Notice::State(State::Associated) => {}
            Notice::State(State::NotAssociated(_)) => {
                tracing::warn!(
                    "no master: the configuration of the last master stays active until CEFTI expires"
                );
            }
            Notice::State(State::PreAssociation) => {
                tracing::warn!("no master, and CEFTI has expired")
            }
            Notice::Forwarding(why) if why.is_on() => tracing::info!(%why, "the router forwards"),
            Notice::Forwarding(why) => tracing::error!(%why, "the router does not forward"),
            Notice::Refused(why) => tracing::debug!(%why, "a packet from the master was not sent"),
            Notice::Changed(done) => self.changed(done),
        }
    }

    /// A link has ended, or could not be opened. A later notice reports the consequence.
    pub(super) fn link_ended(&mut self, ce: Id, why: String) {
        tracing::debug!(%ce, why, "no link to the CE");
        self.ended.insert(ce, why);
    }

    /// The master accepts exceptions again, or does not answer.
    pub(super) fn attention(&mut self, ce: Id, is_attentive: bool) {
        if is_attentive {
            tracing::debug!(%ce, "the master accepts exceptions")
        } else if let Some(unlogged) = self.inattentive.admit() {
            let text = "the master does not answer: the router handles exceptions itself";
            tracing::warn!(%ce, unlogged, "{text}");
        }
    }

    /// An association has ended, or an attempt has failed. Returns `None` if this must not be logged, otherwise the
    /// number of attempts since the last entry.
    fn lost(&mut self, now: Instant, ce: Id, why: &str) -> Option<u64> {
        let last = self.absent.get_mut(&ce);
        if let Some(last) = last
            && last.why == why
            && now.since(last.logged) < ABSENCE_GAP
        {
            last.unlogged += 1;
            return None;
        }
        let absence = Absence {
            why: why.to_owned(),
            logged: now,
            unlogged: 0,
        };
        let last = self.absent.insert(ce, absence);
        Some(last.map_or(0, |last| last.unlogged + 1))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_ce_is_logged_when_the_reason_changes_and_once_a_minute() {
        let mut journal = Journal::default();
        let ce = Id(0x4000_0001);
        let at = |seconds| Instant::ZERO + Span::from_secs(seconds);
        assert_eq!(journal.lost(at(0), ce, "timed out"), Some(0));
        for second in 1..60 {
            assert_eq!(journal.lost(at(second), ce, "timed out"), None);
        }
        assert_eq!(journal.lost(at(60), ce, "timed out"), Some(60));
        assert_eq!(journal.lost(at(61), ce, "timed out"), None);
        assert_eq!(journal.lost(at(62), ce, "refused"), Some(2));
        assert_eq!(journal.lost(at(62), Id(0x4000_0002), "refused"), Some(0));
        let associated = Notice::Associated(ce, Id(2));
        journal.notice(at(63), &associated);
        assert_eq!(journal.lost(at(64), ce, "refused"), Some(0));
    }

    #[test]
    fn the_reason_is_that_of_the_link_only_if_the_link_was_lost() {
        let mut journal = Journal::default();
        let ce = Id(0x4000_0001);
        journal.link_ended(ce, "timed out".to_owned());
        journal.notice(Instant::ZERO, &Notice::Lost(ce, Loss::LinkLost));
        assert_eq!(journal.absent[&ce].why, "timed out");
        journal.link_ended(ce, "closed".to_owned());
        journal.notice(Instant::ZERO, &Notice::Lost(ce, Loss::Unanswered));
        assert_eq!(journal.absent[&ce].why, "the CE did not answer");
        assert!(journal.ended.is_empty());
    }
}
