//! Changes by controllers: sent at once, not stored.
//!
//! They are not part of the desired state. A controller repeats its commands when an FE has associated again.

use weir_base::Instant;
use weir_model::Change;
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, Then};
use crate::contract::{Answer, Refusal, Ticket};
use crate::settings::{self, Edit};

impl Control {
    pub(super) fn steer(&mut self, now: Instant, ticket: Ticket, name: &str, changes: &[Change]) {
        match self.steps(name, changes) {
            Ok((fe, edits)) => self.send(now, fe, edits, Then::Steered(ticket, fe)),
            Err(refusal) => self.answer(ticket, Err(refusal)),
        }
    }

    /// The FE with this name, and the edits for it. Sends each change even if the CE believes that the FE already has
    /// the value, because some values expire.
    fn steps(&self, name: &str, changes: &[Change]) -> Result<(Id, Vec<Edit>), Refusal> {
        let fe = self.named(name)?;
        let in_force = fe.in_force.as_ref().filter(|_| fe.is_associated());
        let Some(in_force) = in_force else {
            return Err(Refusal::Silent(format!(
                "{name} is not associated, or its configuration is not known yet"
            )));
        };
        let instances = settings::instances(&fe.directory);
        let edit = |change: &Change| settings::edit(&self.codec, &instances, in_force, change);
        let edits = changes.iter().map(edit).collect::<Result<Vec<_>, _>>();
        let edits = edits.map_err(|why| Refusal::Refused(vec![format!("{name}: {why}")]))?;
        if edits.is_empty() {
            Err(Refusal::Wrong("the request contains no change".to_owned()))
        } else {
            Ok((fe.id, edits))
        }
    }

    pub(super) fn steered(&mut self, ticket: Ticket, fe: Id, answers: Answers) {
        let done = answers.and_then(|leaves| self.all_done(fe, &leaves));
        self.answer(ticket, done.map(|()| Answer::Done));
    }
}
