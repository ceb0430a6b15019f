//! Tables of a control element.

use weir_base::Instant;
use weir_ce::control::{ASSOCIATIONS, FES, LFBS, NETWORK};
use weir_ce::controller::CONTROLLERS;
use weir_ce::exception::EXCEPTIONS;
use weir_model::column::rows;
use weir_model::{Class, Value};

use super::Driver;
use crate::ce::{certificates, channels, faults, keeper, suites};

/// The source of a table's rows.
type Rows = fn(&Driver, Instant) -> Value;

/// Every table with the source of its rows, in the order in which pages list them.
static SOURCES: [(&Class, Rows); 10] = [
    (&FES, |ce, _| ce.control.fes()),
    (&ASSOCIATIONS, |ce, now| ce.control.associations(now)),
    (&channels::CHANNELS, |ce, _| ce.channels()),
    (&LFBS, |ce, _| ce.control.lfbs()),
    (&CONTROLLERS, |ce, now| ce.bridge.table(now)),
    (&EXCEPTIONS, |ce, _| ce.remotes.stats().rows()),
    (&suites::ROUTERS, |ce, _| ce.suites.rows()),
    (&faults::FAULTS, |ce, _| faults::rows(&ce.faults)),
    (&certificates::CERTIFICATES, |ce, _| {
        let name = |id| ce.control.name(id).map(str::to_owned);
        certificates::rows(ce.pinned.as_ref(), name)
    }),
    (&keeper::STORE, |ce, _| {
        rows(keeper::COLUMNS, [&ce.store.health()])
    }),
];

/// Every table, in the order in which pages list them. The first one needs answers of the FEs.
pub static TABLES: &[&Class] = &{
    let mut classes = [&NETWORK; 1 + SOURCES.len()];
    let mut n = 0;
    while n < SOURCES.len() {
        classes[1 + n] = SOURCES[n].0;
        n += 1;
    }
    classes
};

impl Driver {
    /// The rows of a table.
    pub(super) fn table(&self, now: Instant, class: &Class) -> Value {
        let source = SOURCES.iter().find(|(known, _)| known.id == class.id);
        source.map_or(Value::List(Vec::new()), |(_, rows)| rows(self, now))
    }

    /// The rows of the table `channels`.
    fn channels(&self) -> Value {
        let row = |(fe, link)| Some((fe, self.links.get(&link)?.inspect()));
        rows(channels::COLUMNS, self.control.links().filter_map(row))
    }
}

#[cfg(test)]
mod tests {
    use weir_ce::configuration::CE;
    use weir_model::class::Access;

    use super::*;

    /// IDs of tables, of configuration sections, and of controllers.
    #[test]
    fn ids_of_classes_are_unique() {
        let sections = CE.sections.iter().flat_map(|section| (section.classes)());
        // The sections of an FE are defined by its router, elsewhere.
        let mut ids: Vec<_> = sections
            .chain((CE.classes)())
            .map(|class| class.id)
            .collect();
        ids.extend(TABLES.iter().map(|class| class.id));
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{ids:x?}");
    }

    #[test]
    fn a_metric_is_named_once() {
        let metrics = TABLES.iter().flat_map(|class| class.metrics());
        let of_routers = weir_lfb::class::all().flat_map(|class| class.metrics());
        let mut names: Vec<_> = metrics
            .chain(of_routers)
            .map(|metric| (metric.name, metric.number))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }

    #[test]
    fn every_table_is_whole() {
        for class in TABLES {
            for key in class.key {
                assert!(class.components.iter().any(|c| c.name == *key), "{key}");
            }
            for component in class.components {
                assert!(component.about.ends_with('.'), "{}", component.name);
                assert!(
                    component.admits(&component.example_value()),
                    "{}",
                    component.name
                );
                assert_eq!(component.access, Access::Read);
            }
            let ids: Vec<_> = class.components.iter().map(|c| c.id).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        }
    }
}
