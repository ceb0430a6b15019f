//! Samples the watched components, and reports their events.

use weir_base::Instant;

use super::Agent;
use crate::blocks::Tables;
use crate::contract::{Effect, ReadTicket};
use crate::view::View;

impl Agent {
    /// Starts to read the watched tables, if a sampling is due.
    pub(super) fn sample(&mut self, now: Instant) {
        if !self.watches.begin(now) {
            return;
        }
        let watched = self.own.subscriptions().registered();
        let classes = watched.map(|(at, _)| at.class);
        for name in self.own.blocks().tables(classes) {
            let ticket = ReadTicket(self.ticket());
            self.watches.wait_for(ticket, name);
            self.effects.push_back(Effect::Read(ticket, name));
        }
    }

    /// Reports the events of a complete sample.
    pub(super) fn report_events(&mut self, now: Instant) {
        let Some((at, tables)) = self.watches.end() else {
            return;
        };
        self.report(now, at, &tables, false);
    }

    /// Reports changes of the FE's own objects.
    pub(super) fn sample_own(&mut self, now: Instant) {
        self.report(now, now, &Tables::default(), true);
    }

    fn report(&mut self, now: Instant, sampled: Instant, tables: &Tables, is_own: bool) {
        let view = View::new(&self.own, &self.plan, &self.fe, &self.fib, tables);
        let notifications = self.watches.evaluate(sampled, &self.own, &view, is_own);
        for notification in notifications {
            let _ = self.fe.notify(now, &notification); // it fits a message, as its values did
        }
    }
}
