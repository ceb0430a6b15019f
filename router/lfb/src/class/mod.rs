//! Every LFB of the router as a class: its declaration next to the functions that read it.
//!
//! ```text
//!   Class { name, id, .. }          the source of northbound, `weir show`, `weir describe` and the pages
//!   Column { component, read }      one component, and the function that reads it from a row
//!   Block { class, source }         the class, and the source of its rows
//! ```
//!
//! A new table is a file here, and a line in `BEFORE_LAYERS` or `AFTER_LAYERS`.

use weir_base::Instant;
use weir_base::setting::{Scalar, SettingError, Settings};
use weir_discipline::Manual;
use weir_model::class::{Cell, Form, Type, Unit};
use weir_model::column::{Column, Row, components, row, rows};
use weir_model::{Class, Component, Value, capture};
use weir_path::ip::tables::Tables;
use weir_path::plane::Plane;

use self::sampled::Sampled;
use crate::layers::{LAYERS, joined, of_each};

pub mod ce_routes;
mod drops;
pub mod kernel;
mod neighbours;
pub mod netfilter;
pub mod ports;
pub mod queues;
pub mod rates;
pub(crate) mod redirect;
pub mod reflectors;
mod routes;
pub mod sampled;
pub mod status;
mod tracked;

pub use redirect::ControlSent;
pub use tracked::Flow;

/// Every LFB, in the order of the manual pages.
pub static BLOCKS: &[Block] = &joined::<
    _,
    { BEFORE_LAYERS.len() + OF_LAYERS.len() + AFTER_LAYERS.len() },
>(&[BEFORE_LAYERS, OF_LAYERS, AFTER_LAYERS]);
const BEFORE_LAYERS: &[Block] = &[
    status::STATUS,
    ports::PORTS,
    queues::QUEUES,
    tracked::hogs::HOGS,
    tracked::flows::FLOWS,
    routes::ROUTES,
    neighbours::NEIGHBOURS,
    drops::DROPS,
    sampled::waiting::WAITING,
    sampled::talkers::TALKERS,
    sampled::history::HISTORY,
    sampled::drop_history::DROP_HISTORY,
    redirect::REDIRECT,
];
const OF_LAYERS: &[Block] = &of_each!(tables, status::STATUS, |layer, n| Block {
    class: *LAYERS[layer].tables[n].class,
    source: Source::Plane(LAYERS[layer].tables[n].read),
});
const AFTER_LAYERS: &[Block] = &[
    kernel::KERNEL,
    netfilter::NETFILTER,
    rates::RATES,
    reflectors::REFLECTORS,
    ce_routes::CE_ROUTES,
];

/// A class, and the source of its values.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The declaration.
    pub class: Class,
    /// The source of its values.
    pub source: Source,
}

/// The source of a class's values; the reading function returns a structure, or a list of structures.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The plane, on the forwarding thread between two bursts.
    Plane(fn(&Plane) -> Value),
    /// The plane, with the control messages that the forwarding element has sent.
    Redirect(fn(&Plane, Instant, ControlSent) -> Value),
    /// The plane in two steps, since there may be many flows: the forwarding thread collects them with the first
    /// function, and the requesting thread converts them to values with the second.
    Flows(
        fn(&Plane, Instant, &Settings) -> Vec<Flow>,
        fn(Vec<Flow>) -> Value,
    ),
    /// The plane, with the counters of devices: an entry for each port, in the same order.
    Ports(fn(&Plane, &[ports::Device]) -> Value),
    /// The latest snapshot of the kernel's tables: reading a full table takes too long for the forwarding thread.
    Tables(fn(&Tables) -> Value),
    /// Ports that find their rate, from the thread that finds it.
    Rates(fn(&[rates::Finding]) -> Value),
    /// Kernel state that the router refuses or warns about.
    Kernel(fn(&[kernel::Found]) -> Value),
    /// Netfilter rules of the machine.
    Netfilter(fn(&[netfilter::Bypassed]) -> Value),
    /// The latest sample, and the records of earlier samples.
    Sampled(fn(&Sampled, &Settings) -> Value),
    /// Routes of a control element, as recorded by the forwarding element.
    CeRoutes(fn(&ce_routes::CeRoutes) -> Value),
    /// The router process.
    Status(fn(&status::Process) -> Value),
}

impl Block {
    /// Finds the LFB with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        BLOCKS.iter().find(|block| block.class.name == name)
    }

    /// Checks the query parameters of a request: names and values as in a path.
    pub fn query<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Settings, SettingError> {
        let given = given.into_iter();
        let given: Vec<_> = given
            .map(|(name, text)| (name, Scalar::Text(text.to_owned())))
            .collect();
        Settings::check(
            self.class.query,
            given.iter().map(|(name, scalar)| (*name, scalar)),
        )
    }
}

/// The class of every table, in the order of [`BLOCKS`].
pub fn classes() -> Vec<&'static Class> {
    BLOCKS.iter().map(|block| &block.class).collect()
}

/// The class of every named section that has no table.
pub fn sections() -> impl Iterator<Item = Class> {
    let named = LAYERS.iter().flat_map(|layer| layer.named);
    named
        .map(|named| *named.class)
        .filter(|class| Block::find(class.name).is_none())
}

/// The class of a kind of discipline.
pub fn of_discipline(manual: &'static Manual) -> Class {
    let head = (manual.id, manual.name, manual.purpose);
    Class::mechanism(head, manual.parameters, manual.gauges)
}

/// The class of every kind of discipline.
pub fn disciplines() -> Vec<Class> {
    weir_discipline::manuals().map(of_discipline).collect()
}

/// Every class of the router: the tables, captures, sections, and the kinds of discipline.
pub fn all() -> impl Iterator<Item = Class> {
    let tables = BLOCKS.iter().map(|block| block.class);
    tables
        .chain([capture::CLASS])
        .chain(sections())
        .chain(disciplines())
}

/// Declares a component; an empty example means no example.
const fn component(id: u32, name: &'static str, kind: Type, example: &'static str) -> Component {
    Component::new(id, name, kind, example)
}

const TEXT: Type = Type::Text;
const FLAG: Type = Type::Flag;
const NUMBER: Type = Type::Gauge(Unit::One);
const PACKETS: Type = Type::Gauge(Unit::Packets);
const BYTES: Type = Type::Gauge(Unit::Bytes);
const COUNTER: Type = Type::Counter(Unit::One);
const PACKET_COUNTER: Type = Type::Counter(Unit::Packets);
const BYTE_COUNTER: Type = Type::Counter(Unit::Bytes);
const RATE_BPS: Type = Type::Gauge(Unit::BitsPerSecond);
const SECONDS: Type = Type::Real(Unit::Seconds);
const RATIO: Type = Type::Real(Unit::Ratio);

/// Columns of received packets, for components of type [`COUNT`](weir_model::class::COUNT).
const IN: &[Cell] = &[
    Cell::new("IN PKT/S").of("packets").form(Form::PerSecond),
    Cell::new("IN MBIT/S").of("bytes").form(Form::PerSecond),
    Cell::new("IN PACKETS").of("packets").since_start(),
    Cell::new("IN BYTES").of("bytes").since_start(),
];

/// Columns of sent packets.
const OUT: &[Cell] = &[
    Cell::new("OUT PKT/S").of("packets").form(Form::PerSecond),
    Cell::new("OUT MBIT/S").of("bytes").form(Form::PerSecond),
    Cell::new("OUT PACKETS").of("packets").since_start(),
    Cell::new("OUT BYTES").of("bytes").since_start(),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check_component(class: &str, component: &Component) {
        let Component {
            name,
            about,
            kind,
            cells,
            ..
        } = component;
        assert!(about.ends_with('.'), "{class} {name}");
        let value = component.example_value();
        assert!(component.admits(&value), "{class} {name}: {value:?}");
        let members = kind.members();
        for cell in *cells {
            let known = members.iter().any(|member| member.name == cell.member);
            assert!(
                known || cell.member.is_empty(),
                "{class} {name} {}",
                cell.member
            );
        }
        members
            .iter()
            .for_each(|member| check_component(class, member));
    }

    #[test]
    fn every_class_is_whole() {
        for Block { class, .. } in BLOCKS {
            class
                .components
                .iter()
                .for_each(|c| check_component(class.name, c));
            for key in class.key {
                assert!(class.components.iter().any(|c| c.name == *key), "{key}");
            }
            Settings::defaults(class.query);
            for event in class.events {
                let is_component = |name: &&str| class.components.iter().any(|c| c.name == *name);
                assert!(event.reports.iter().all(is_component), "{}", event.name);
                assert!(event.about.ends_with('.'), "{}", event.name);
            }
            if let Some(mechanisms) = class.mechanisms {
                for name in [mechanisms.name, mechanisms.report] {
                    assert!(class.components.iter().any(|c| c.name == name), "{name}");
                }
            }
            let other = class
                .layout
                .beside
                .map(|(other, _)| Block::find(other).is_some());
            assert!(other.unwrap_or(true));
        }
    }

    #[test]
    fn a_component_of_a_parameter_s_id_is_that_parameter() {
        for class in all() {
            for parameter in class.parameters {
                let same = class.components.iter().find(|c| c.id == parameter.id);
                assert!(
                    same.is_none_or(|c| c.name == parameter.name),
                    "{}",
                    parameter.name
                );
            }
            let ids: Vec<_> = class.all().iter().map(|component| component.id).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{}: {ids:?}", class.name);
            assert!(ids[0] > 0, "{}: {ids:?}", class.name);
        }
    }

    #[test]
    fn a_metric_is_named_once() {
        let mut names: Vec<_> = all()
            .flat_map(|class| class.metrics())
            .map(|m| (m.name, m.number))
            .collect();
        names.extend(all().filter_map(|class| Some((class.info()?, None))));
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        let is_word = |(name, _): &(String, _)| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        assert!(names.iter().all(is_word), "{names:?}");
    }

    #[test]
    fn a_query_is_checked_by_its_class() {
        let hogs = Block::find("hogs").unwrap();
        let query = hogs.query([("all", "true"), ("limit", "7")]).unwrap();
        assert_eq!((query.flag("all"), query.count("limit")), (true, 7));
        assert!(hogs.query([("limit", "10001")]).is_err());
        let error = hogs.query([("limits", "7")]).unwrap_err().to_string();
        assert!(error.contains("did you mean `limit`"), "{error}");
    }
}
