//! The classes as a library for peers: ours, and those of the RFCs whose blocks we have too.
//!
//! ```text
//!   EtherPHYCop    OperStatus 3, CarrierStatus 8     ports.state, ports.carrier        one declaration, ours;
//!   EtherMACIn     MACInStats 7                      ports.received, ports.missed      the standard one is a view
//! ```
//!
//! [`MIRRORS`] has every component of a standard class that has the value of one of ours. Their blocks have the
//! instances of ours: those of ports, and one of the router.

use std::borrow::Cow;

use weir_forces::schema::{Class, Registry};
use weir_forces::standard::{FE_OBJECT, FE_PROTOCOL};
use weir_model::Value;

use crate::class;

const ETHER_PHY: u32 = 3;
const ETHER_IN: u32 = 4;
const ETHER_OUT: u32 = 7;
const REDIRECT_IN: u32 = 14;
const REDIRECT_OUT: u32 = 15;
const SCHEDULER: u32 = 17;

/// Classes of the RFCs whose blocks a forwarding element of ours has: the element and its associations, ports with
/// their frames, prefixes and next hops of both families, redirects, and the queue of a port.
pub const STANDARD: &[u32] = &[
    FE_OBJECT,
    FE_PROTOCOL,
    ETHER_PHY,
    ETHER_IN,
    ETHER_OUT,
    10,
    11,
    12,
    13,
    REDIRECT_IN,
    REDIRECT_OUT,
    SCHEDULER,
];

/// A component of a standard class, and the component of ours that has its value.
#[derive(Clone, Copy, Debug)]
pub struct Mirror {
    /// The standard class.
    pub class: u32,
    /// The path of the component or member in it.
    pub path: &'static [u32],
    /// Our class.
    pub of: &'static str,
    /// The path of ours in a row of it: names with dots between them.
    pub component: &'static str,
    map: Map,
}

/// How a value of ours becomes that of the standard.
#[derive(Clone, Copy, Debug)]
enum Map {
    Same,
    /// Whether a port is switched on, as `PortStatus`.
    Switch,
    /// The state of a port, as `PortStatus`.
    State,
}

const fn mirror(
    class: u32,
    path: &'static [u32],
    (of, component): (&'static str, &'static str),
    map: Map,
) -> Mirror {
    Mirror {
        class,
        path,
        of,
        component,
        map,
    }
}

/// Every component of a standard class that mirrors one of ours.
pub const MIRRORS: &[Mirror] = &[
    mirror(ETHER_PHY, &[2], ("ports", "up"), Map::Switch),
    mirror(ETHER_PHY, &[3], ("ports", "state"), Map::State),
    mirror(ETHER_PHY, &[8], ("ports", "carrier"), Map::Same),
    mirror(ETHER_IN, &[1], ("ports", "up"), Map::Switch),
    mirror(ETHER_IN, &[7, 1], ("ports", "received.packets"), Map::Same),
    mirror(ETHER_IN, &[7, 2], ("ports", "missed"), Map::Same),
    mirror(ETHER_OUT, &[1], ("ports", "up"), Map::Switch),
    mirror(ETHER_OUT, &[5, 1], ("ports", "sent.packets"), Map::Same),
    mirror(ETHER_OUT, &[5, 2], ("ports", "refused"), Map::Same),
    mirror(
        REDIRECT_IN,
        &[1],
        ("redirect", "injected.packets"),
        Map::Same,
    ),
    mirror(
        REDIRECT_OUT,
        &[1],
        ("redirect", "redirected.packets"),
        Map::Same,
    ),
    mirror(
        SCHEDULER,
        &[2, 0, 2],
        ("queues", "backlog.packets"),
        Map::Same,
    ),
    mirror(
        SCHEDULER,
        &[2, 0, 3],
        ("queues", "backlog.bytes"),
        Map::Same,
    ),
];

impl Mirror {
    /// Its value, from the row of our class; none if the row lacks it.
    pub fn value(&self, row: &Value) -> Option<Value> {
        let value = row.get(self.component)?;
        Some(match (self.map, value) {
            (Map::Same, _) => value.clone(),
            (Map::Switch, Value::Flag(true)) => "Up".into(),
            (Map::Switch, _) => "Disabled".into(),
            (Map::State, _) => match row.text(self.component)? {
                "up" => "Up".into(),
                "no carrier" => "Down".into(),
                _ => "Disabled".into(),
            },
        })
    }
}

/// A block of a standard class, as a structure of the components that mirror ours; `row` gives the row of a class of
/// ours that the block is a view of.
pub fn mirrored(schema: &Class, row: impl Fn(&str) -> Option<Value>) -> Value {
    let mut block = Value::Struct(Vec::new());
    for mirror in MIRRORS.iter().filter(|mirror| mirror.class == schema.id) {
        let value = row(mirror.of).and_then(|row| mirror.value(&row));
        let names = schema.names(mirror.path);
        if let Some(value) = value {
            put(&mut block, &mut names.split('.'), value);
        }
    }
    block
}

/// Puts a value at a path of names into a structure.
fn put(into: &mut Value, names: &mut dyn Iterator<Item = &str>, value: Value) {
    let Some(name) = names.next() else {
        *into = value;
        return;
    };
    let Value::Struct(members) = into else {
        return;
    };
    let at = members.iter().position(|(known, _)| known == name);
    let at = at.unwrap_or_else(|| {
        members.push((Cow::Owned(name.to_owned()), Value::Struct(Vec::new())));
        members.len() - 1
    });
    put(&mut members[at].1, names, value);
}

/// Every class that a control element knows without a library: those of the RFCs, and ours.
pub fn registry() -> Registry {
    let mut registry = Registry::standard();
    for class in class::all() {
        if let Err(error) = registry.add(Class::of(&class)) {
            unreachable!("{}: {error}", class.name);
        }
    }
    registry
}

/// The classes whose blocks a forwarding element of ours has, by ID.
pub fn classes() -> Vec<Class> {
    let registry = registry();
    let is_ours = |id: u32| STANDARD.contains(&id) || class::all().any(|class| class.id == id);
    registry
        .all()
        .filter(|class| is_ours(class.id))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use weir_forces::schema::{EVENTS_BASE, Kind};
    use weir_forces::value::{decode, encode};
    use weir_forces::xml::Library;

    use super::*;
    use crate::class::Block;

    #[test]
    fn what_is_written_is_read_as_the_same_classes() {
        let classes = classes();
        let text = weir_forces::library::write("Weir", "Classes of blocks.", &classes);
        Library::read(&text).unwrap().check(&[]).unwrap();
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

    /// No component may have the ID under which a peer finds the events of its class.
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

    /// Every example of a component has a value on the wire, and it is read back.
    #[test]
    fn an_answer_of_every_table_survives_the_wire() {
        for class in class::classes() {
            let schema = Class::of(class);
            let row = class.example();
            let whole = match class.key.is_empty() || class.has_instances {
                true => row,
                false => Value::Struct(vec![("rows".into(), Value::List(vec![row]))]),
            };
            let kind = Kind::Struct(schema.components.clone());
            let content = encode(&kind, &whole).unwrap_or_else(|e| panic!("{}: {e}", class.name));
            let read = decode(&kind, &content).unwrap();
            assert_eq!(encode(&kind, &read), Ok(content), "{}", class.name);
        }
    }

    #[test]
    fn a_mirror_names_components_that_exist_and_its_value_fits() {
        let registry = registry();
        for mirror in MIRRORS {
            let ours = &Block::find(mirror.of).unwrap().class;
            let schema = registry.get(mirror.class).unwrap();
            assert!(STANDARD.contains(&mirror.class), "{}", schema.name);
            let target = schema.component(mirror.path).unwrap();
            let value = mirror.value(&ours.example()).unwrap();
            encode(&target.kind, &value).unwrap();
        }
        let row = |of: &str| Some(Block::find(of)?.class.example());
        let schema = registry.find("EtherPHYCop").unwrap();
        let port = mirrored(schema, row);
        assert_eq!(port.text("OperStatus"), Some("Up"));
        assert_eq!(port.get("CarrierStatus"), Some(&Value::Flag(true)));
        let scheduler = registry.find("GenericScheduler").unwrap();
        let queue = mirrored(scheduler, row);
        assert_eq!(queue.whole("QueueStats.0.QueueDepthInPackets"), Some(4));
        encode(&Kind::Struct(scheduler.components.clone()), &queue).unwrap();
    }
}
