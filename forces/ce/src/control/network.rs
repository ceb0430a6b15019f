//! FPF sections that a network wants at its elements: sent at once, and restored after each association.
//!
//! The sections belong neither to the configuration nor to the desired values of operators. The path service computes
//! them, and recomputes them after a restart, so the store does not contain them.

use weir_base::Instant;
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, PendingSections, Then};
use super::member::State;
use crate::contract::{Answer, GivenSection, Refusal, Request, Ticket};
use crate::settings::{self, Edit};

impl Control {
    pub(super) fn give(
        &mut self,
        now: Instant,
        ticket: Ticket,
        name: String,
        sections: Vec<GivenSection>,
    ) {
        let id = match self.named(&name) {
            Ok(fe) => fe.id,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let Some(fe) = self.fes.get_mut(&id) else {
            return self.answer(ticket, Err(Refusal::Busy));
        };
        fe.give(sections);
        if fe.is_associated() && !fe.is_idle() {
            let request = Request::Give(name, Vec::new()); // the sections are already desired
            return self.waiting.push_back((ticket, request));
        }
        if !fe.is_associated() {
            let why = format!("{name} is not associated");
            return self.answer(ticket, Err(Refusal::Silent(why)));
        }
        match self.giving(ticket, id) {
            Ok((_, edits)) if edits.is_empty() => self.answer(ticket, Ok(Answer::Done)),
            Ok((giving, edits)) => {
                if let Some(fe) = self.fes.get_mut(&id) {
                    fe.busy = true;
                }
                self.send(now, id, edits, Then::Given(Box::new(giving)));
            }
            Err(why) => {
                let why = vec![format!("{name}: {why}")];
                self.answer(ticket, Err(Refusal::Refused(why)));
                self.restore(now, id); // the restoration may read it
            }
        }
    }

    /// The edits that bring an FE to its desired state.
    fn giving(&self, ticket: Ticket, id: Id) -> Result<(PendingSections, Vec<Edit>), String> {
        let fe = self.fes.get(&id).ok_or("it is no longer configured")?;
        let actual = match (&fe.in_force, &fe.state) {
            (Some(actual), _) => actual,
            (None, State::Refused(why)) => return Err(why.clone()),
            (None, _) => return Err("its configuration is unknown".to_owned()),
        };
        let target = fe.target(actual)?;
        let edits = settings::difference(&self.codec, &fe.directory, actual, &target)?;
        let giving = PendingSections {
            ticket,
            fe: id,
            target,
            renews: edits.iter().any(Edit::renews),
        };
        Ok((giving, edits))
    }

    /// Handles the FE's answer.
    pub(super) fn given(&mut self, now: Instant, giving: PendingSections, answers: Answers) {
        let id = giving.fe;
        let done = answers.and_then(|leaves| self.all_done(id, &leaves));
        let mut is_unsure = false;
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.busy = false;
            // After a refusal or a timeout, the CE compares the FE again, and that comparison sets the FE's state.
            is_unsure = giving.renews || done.is_err() || matches!(fe.state, State::Refused(_));
            if done.is_ok() && fe.is_associated() {
                fe.has_now(Some(giving.target));
            }
        }
        self.answer(giving.ticket, done.map(|()| Answer::Done));
        if is_unsure {
            self.restore(now, id);
        }
        self.retry(now);
    }

    /// Takes an FE out of the network; the FE loses the sections of the network.
    pub fn leave_network(&mut self, now: Instant, name: &str) {
        let id = self.names.get(name).copied();
        if let Some(fe) = id.and_then(|id| self.fes.get_mut(&id)) {
            fe.is_stale |= fe.leave_network();
        }
        self.retry(now);
        self.pump(now);
    }
}
