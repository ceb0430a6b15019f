//! Tables of a control element.

use weir_base::Instant;
use weir_ce::tables::{CERTIFICATES, CHANNELS, CONTROLLERS, EXCEPTIONS, FAULTS, STORE};
use weir_model::{Class, Value};

use super::Driver;
use crate::ce::{certificates, channels, faults, keeper};

impl Driver {
    /// The rows of a table.
    pub(super) fn table(&self, now: Instant, class: &'static Class) -> Value {
        match class.id {
            id if id == CONTROLLERS.id => self.bridge.table(now),
            id if id == CHANNELS.id => self.channels(),
            id if id == EXCEPTIONS.id => self.remotes.stats().rows(),
            id if id == FAULTS.id => faults::rows(&self.faults),
            id if id == CERTIFICATES.id => {
                let name = |id| self.control.name(id).map(str::to_owned);
                certificates::rows(self.pinned.as_ref(), name)
            }
            id if id == STORE.id => keeper::rows(&self.store.health()),
            _ => self.control.table(now, class),
        }
    }

    /// The rows of the table `channels`.
    fn channels(&self) -> Value {
        let row = |(fe, link)| Some(channels::row(fe, &self.links.get(&link)?.inspect()));
        Value::List(self.control.links().filter_map(row).collect())
    }
}
