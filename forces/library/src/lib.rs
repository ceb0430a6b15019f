//! The library of LFB classes for peers: our own classes, and the RFCs' classes that we also implement.
//!
//! ```text
//!   EtherPHYCop.2.OperStatus       ports.wan.state       one declaration, ours;
//!   EtherMACIn.2.MACInStats        ports.wan.received    the standard LFB is a view of our LFB
//! ```
//!
//! [`VIEWS`] lists the standard classes whose LFBs are views. A view has the instance ID of our LFB, which is the ID of
//! a port, or 1 otherwise. It is read-only: to change a value, a CE sets our component.
//!
//! [`groups`] has our tables, which complete the tables of RFC 6956.

pub mod groups;

use std::borrow::Cow;

use weir_model::Value;
use weir_protocol::schema::{Class, EXTENSION, Registry};
use weir_protocol::standard::{FE_OBJECT, FE_PROTOCOL};

use weir_lfb::class::queues::QUEUES;
use weir_lfb::class::{self, Block};
use weir_lfb::named::Named;

/// Standard classes that our forwarding element implements itself: the element and its associations, and prefixes and
/// next hops of both address families.
pub const STANDARD: &[u32] = &[FE_OBJECT, FE_PROTOCOL, 10, 11, 12, 13];

/// A standard class whose LFBs are views of our LFBs.
#[derive(Debug, PartialEq, Eq)]
pub struct View {
    /// The standard class.
    pub class: u32,
    /// Our class.
    pub of: &'static str,
    /// The path of each component or member with a value, and the source of the value.
    parts: &'static [(&'static [u32], Part)],
}

/// The value of a part of a view. Names are those of components in the row of our class, with dots between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The instance ID.
    Instance,
    /// A constant.
    Number(u64),
    /// The value of this component.
    Same(&'static str),
    /// The value of this component, limited to `u32::MAX`.
    Word(&'static str),
    /// The address in this text, as the only row of a table.
    Address(&'static str),
    /// The administrative state of a port (a flag), as PortStatus.
    Switch(&'static str),
    /// The operational state of a port, as PortStatus.
    State(&'static str),
}

/// The standard classes whose LFBs are views: ports, their frames, redirected packets, and the queue of a port.
pub const VIEWS: &[View] = &[
    View {
        class: 3, // EtherPHYCop
        of: "ports",
        parts: &[
            (&[1], Part::Instance),
            (&[2], Part::Switch("up")),
            (&[3], Part::State("state")),
            (&[8], Part::Same("carrier")),
        ],
    },
    View {
        class: 4, // EtherMACIn
        of: "ports",
        parts: &[
            (&[1], Part::Switch("up")),
            (&[2], Part::Address("mac")),
            (&[7, 1], Part::Same("received.packets")),
            (&[7, 2], Part::Same("missed")),
        ],
    },
    View {
        class: 7, // EtherMACOut
        of: "ports",
        parts: &[
            (&[1], Part::Switch("up")),
            (&[2], Part::Word("mtu")),
            (&[5, 1], Part::Same("sent.packets")),
            (&[5, 2], Part::Same("refused")),
        ],
    },
    View {
        class: 14, // RedirectIn
        of: "redirect",
        parts: &[(&[1], Part::Same("injected.packets"))],
    },
    View {
        class: 15, // RedirectOut
        of: "redirect",
        parts: &[(&[1], Part::Same("redirected.packets"))],
    },
    View {
        class: 17, // GenericScheduler: a port has one queue
        of: "queues",
        parts: &[
            (&[2, 0, 1], Part::Number(0)),
            (&[2, 0, 2], Part::Word("backlog.packets")),
            (&[2, 0, 3], Part::Word("backlog.bytes")),
        ],
    },
];

impl View {
    /// The view that implements a standard class.
    pub fn find(class: u32) -> Option<&'static Self> {
        VIEWS.iter().find(|view| view.class == class)
    }

    /// The value of a view of this row of our class, as one structure. `schema` is the schema of the standard class.
    pub fn value(&self, schema: &Class, instance: u32, row: &Value) -> Value {
        let mut block = Value::Struct(Vec::new());
        for (path, part) in self.parts {
            if let Some(value) = part.value(instance, row) {
                put(&mut block, &schema.names(path).segments(), value);
            }
        }
        block
    }
}

impl Part {
    /// `None` if the row has no value.
    fn value(&self, instance: u32, row: &Value) -> Option<Value> {
        Some(match self {
            Self::Instance => Value::Whole(instance.into()),
            Self::Number(number) => Value::Whole(*number),
            Self::Same(name) => row
                .get(name)
                .filter(|value| **value != Value::Absent)?
                .clone(),
            Self::Word(name) => Value::Whole(row.whole(name)?.min(u32::MAX.into())),
            Self::Address(name) => Value::List(vec![row.text(name)?.into()]),
            Self::Switch(name) => match row.get(name)? {
                Value::Flag(true) => "Up".into(),
                _ => "Disabled".into(),
            },
            Self::State(name) => match row.text(name)? {
                "up" => "Up".into(),
                "no carrier" => "Down".into(),
                _ => "Disabled".into(),
            },
        })
    }
}

/// The kind of named section that owns the LFBs of a class: there is one LFB for each such section, or for each port
/// with this kind of discipline. `None` if the whole element has one LFB.
pub fn owner(class: u32) -> Option<Named> {
    let of_port = |class| {
        let is_queue = class == QUEUES.class.id;
        is_queue || weir_discipline::manuals().any(|kind| kind.id == class)
    };
    let class = match View::find(class) {
        Some(view) => Block::find(view.of)?.class.id,
        None => class,
    };
    Named::of_class(class).or_else(|| of_port(class).then_some(Named::Port))
}

/// Inserts a value into a structure, at a path of names.
fn put(into: &mut Value, names: &[&str], value: Value) {
    let Some((name, below)) = names.split_first() else {
        *into = value;
        return;
    };
    let Value::Struct(members) = into else {
        return;
    };
    let at = members.iter().position(|(known, _)| known == name);
    let at = at.unwrap_or_else(|| {
        members.push((Cow::Owned((*name).to_owned()), Value::Struct(Vec::new())));
        members.len() - 1
    });
    put(&mut members[at].1, below, value);
}

/// All classes that a control element knows without loading a library: those of the RFCs, and ours.
pub fn registry() -> Registry {
    let mut registry = Registry::standard();
    let tables = class::classes().into_iter().copied();
    let sections = class::sections();
    let ours = tables.chain(sections).chain(class::disciplines());
    for class in ours.chain([groups::IPV4, groups::IPV6]) {
        if let Err(error) = registry.add(Class::of(&class)) {
            unreachable!("{}: {error}", class.name);
        }
    }
    registry
}

/// The classes that our forwarding element implements, by ID.
pub fn classes() -> Vec<Class> {
    let is_here = |class: &&Class| {
        let is_ours = class.name.starts_with(EXTENSION);
        is_ours || STANDARD.contains(&class.id) || View::find(class.id).is_some()
    };
    registry().all().filter(is_here).cloned().collect()
}

#[cfg(test)]
mod tests {
    use weir_protocol::schema::{EVENTS_BASE, Kind};
    use weir_protocol::value::{decode, encode};

    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same_classes() {
        let classes = classes();
        let text = weir_protocol::library::write("Weir", "Classes of blocks.", &classes);
        let mut read = Registry::default();
        read.load(&text).unwrap();
        assert!(read.all().eq(classes.iter()));
        assert!(classes.len() > 30);
        for class in &classes {
            assert_eq!(
                class.id < 65536,
                !class.name.starts_with("Ext-"),
                "{}",
                class.name
            );
            for event in &class.events {
                assert!(!event.target.is_empty(), "{}", event.name);
            }
        }
    }

    /// Peers find the events of a class under this ID, so no component may have it.
    #[test]
    fn the_base_of_events_is_no_component() {
        for class in class::all() {
            assert!(
                class.all().iter().all(|c| c.id != EVENTS_BASE),
                "{}",
                class.name
            );
        }
    }

    /// Every example of a component can be encoded, and decodes to the same value.
    #[test]
    fn an_answer_of_every_table_survives_the_wire() {
        for class in class::classes() {
            let schema = Class::of(class);
            let row = class.example();
            let whole = if class.key.is_empty() || class.has_instances {
                row
            } else {
                Value::Struct(vec![("rows".into(), Value::List(vec![row]))])
            };
            let kind = Kind::Struct(schema.components.clone());
            let content = encode(&kind, &whole).unwrap_or_else(|e| panic!("{}: {e}", class.name));
            let read = decode(&kind, &content).unwrap();
            assert_eq!(encode(&kind, &read), Ok(content), "{}", class.name);
        }
    }

    #[test]
    fn a_view_names_components_that_exist_and_its_values_fit() {
        let registry = registry();
        for view in VIEWS {
            let row = Block::find(view.of).unwrap().class.example();
            let schema = registry.get(view.class).unwrap();
            assert!(!STANDARD.contains(&view.class), "{}", schema.name);
            for (path, part) in view.parts {
                let value = part.value(7, &row);
                let value = value.unwrap_or_else(|| panic!("{} {path:?}", schema.name));
                let kind = schema.component(path).unwrap().kind;
                encode(&kind, &value).unwrap_or_else(|e| panic!("{} {path:?}: {e}", schema.name));
            }
            let kind = Kind::Struct(schema.components.clone());
            encode(&kind, &view.value(schema, 7, &row)).unwrap();
            assert_eq!(
                view.value(schema, 7, &Value::Absent).get("CarrierStatus"),
                None
            );
        }
    }

    #[test]
    fn a_view_shows_a_block_of_ours() {
        let registry = registry();
        let view = |name: &str, row: &Value| {
            let schema = registry.find(name).unwrap();
            View::find(schema.id).unwrap().value(schema, 7, row)
        };
        let example = |of: &str| Block::find(of).unwrap().class.example();
        let port = view("EtherPHYCop", &example("ports"));
        assert_eq!(port.whole("PHYPortID"), Some(7));
        assert_eq!(port.text("OperStatus"), Some("Up"));
        assert_eq!(port.get("CarrierStatus"), Some(&Value::Flag(true)));
        let queue = view("GenericScheduler", &example("queues"));
        assert_eq!(queue.whole("QueueStats.0.QueueDepthInPackets"), Some(4));
        let backlog =
            |name: &str, n: u64| Value::Struct(vec![(name.to_owned().into(), Value::Whole(n))]);
        let row = Value::Struct(vec![("backlog".into(), backlog("bytes", 1 << 40))]);
        let queue = view("GenericScheduler", &row);
        assert_eq!(
            queue.whole("QueueStats.0.QueueDepthInBytes"),
            Some(u32::MAX.into())
        );
    }

    #[test]
    fn blocks_of_sections_with_names_are_known() {
        let registry = registry();
        let of_kind = |name: &str| owner(registry.find(name).unwrap().id);
        for name in ["EtherPHYCop", "GenericScheduler", "ports", "queues", "red"] {
            assert_eq!(of_kind(name), Some(Named::Port), "{name}");
        }
        for kind in Named::ALL {
            assert_eq!(owner(kind.class().id), Some(kind), "{kind:?}");
        }
        for name in ["RedirectIn", "redirect", "routes", "FEObject", "fpf"] {
            assert_eq!(of_kind(name), None, "{name}");
        }
        let mut others = registry.all().filter(|class| owner(class.id).is_none());
        let is_table = |class: &Class| {
            let table = Block::find(class.short_name());
            table.is_none_or(|table| !table.class.has_instances)
        };
        assert!(others.all(is_table));
    }
}
