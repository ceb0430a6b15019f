//! Properties of components, which GET-PROP reads and SET-PROP writes (RFC 5812, 4.8).
//!
//! ```text
//!   any component        1 accessibility
//!   table                + 2 entryCount, 3 highestUsedSubscript, 4 firstUnusedSubscript
//!   text, octets         + 2 length, 3 maximum length
//!   event                + 2 registration, 3 threshold, 4 eventHysteresis, 5 eventCount, 6 eventInterval (ms)
//!   alias                + 2 targetLFBClass, 3 targetLFBInstance, 4 targetComponentPath
//! ```
//!
//! *Decision*: we write a property of an event as a nested PATH-DATA of one ID below the PATH-DATA of the event, as in
//! section 8.4; a flat path would name a row. We also read a whole structure at the event's path, and a bare number
//! there, which is the registration, because captured peers send both.

use weir_model::Value;

use crate::schema::{Access, Class, Component, Integer, Kind, Named, Number, PathError, member};
use crate::value::{self, ValueError};
use crate::wire::{Content, PathData, ResultCode, WireError};

/// ID of the accessibility property: whether a component can be read and written.
pub const ACCESSIBILITY: u32 = 1;
/// ID of an event's registration property: whether the FE reports the event.
pub const REGISTRATION: u32 = 2;
/// ID of an event's threshold property.
pub const THRESHOLD: u32 = 3;
/// ID of an event's hysteresis property.
pub const HYSTERESIS: u32 = 4;
/// ID of an event's count filter property.
pub const COUNT: u32 = 5;
/// ID of an event's interval filter property.
pub const INTERVAL: u32 = 6;

/// The properties of a component, of a row, or of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Whether the component can be read and written.
    pub access: Access,
    /// Properties that depend on the kind of component.
    pub more: More,
}

/// Properties other than the access, by the kind of component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum More {
    /// No further properties.
    Plain,
    /// Properties of a table.
    Array {
        /// Number of rows.
        entries: u32,
        /// Highest index of a row; 0 if the table is empty.
        highest_used: u32,
        /// Lowest index without a row.
        first_unused: u32,
    },
    /// Properties of text or octets.
    Length {
        /// Length of the value in octets.
        octets: u32,
        /// Maximum length in octets.
        octets_max: u32,
    },
    /// Properties of an event.
    Event(Subscription),
    /// Properties of an alias, which identify its target.
    Alias {
        /// Class ID of the target.
        class: u32,
        /// Instance ID of the target.
        instance: u32,
        /// Path of the component in the target.
        path: Vec<u32>,
    },
}

/// Whether and when an FE reports an event. A filter of 0 is off. If several filters are set, the FE reports an
/// occurrence that passes any of them (RFC 5812, 4.8.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subscription {
    /// Whether the FE reports the event.
    pub registered: bool,
    /// The value that the component must cross or reach, for conditions that have a threshold.
    pub threshold: Option<u32>,
    /// Minimum change of the value before the next report.
    pub hysteresis: Option<u32>,
    /// Number of occurrences that the FE skips between two reports.
    pub count: Option<u32>,
    /// Minimum time between two reports, in milliseconds.
    pub interval_ms: Option<u32>,
}

/// The target of the path of a GET-PROP or SET-PROP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the component or event.
    pub ids: Vec<u32>,
    /// ID of one property; `None` means all properties.
    pub property: Option<u32>,
}

impl Place {
    /// Splits nested PATH-DATA, from the outermost to the innermost, into component path and property.
    pub fn of(class: &Class, trail: &[&PathData]) -> Self {
        let ids = |trail: &[&PathData]| -> Vec<u32> {
            trail
                .iter()
                .flat_map(|path| path.ids().iter().copied())
                .collect()
        };
        if let [before @ .., last] = trail
            && let [property] = last.ids()
            && class.event(&ids(before)).is_some()
        {
            return Self {
                ids: ids(before),
                property: Some(*property),
            };
        }
        Self {
            ids: ids(trail),
            property: None,
        }
    }
}

/// The layout of the properties of the component or event at a path.
pub fn kind(class: &Class, ids: &[u32]) -> Result<Kind, PathError> {
    if class.event(ids).is_some() {
        return Ok(Kind::Struct(event_members()));
    }
    let target = class.component(ids)?;
    let mut members = base_members();
    members.extend(match &*target.kind {
        Kind::Alias(_) => vec![
            number(2, "targetLFBClass", "The class of the target.", false),
            number(3, "targetLFBInstance", "The instance of the target.", false),
            part(
                4,
                "targetComponentPath",
                "The path within the target.",
                Kind::Octets(Some(128)),
                false,
            ),
        ],
        Kind::Array(_) => vec![
            number(2, "entryCount", "The number of rows.", false),
            number(
                3,
                "highestUsedSubscript",
                "The highest index of a row.",
                false,
            ),
            number(
                4,
                "firstUnusedSubscript",
                "The lowest index without a row.",
                false,
            ),
        ],
        Kind::Text(_) => vec![
            number(2, "stringLength", "The length in octets.", false),
            number(3, "maxStringLength", "The maximum length in octets.", false),
        ],
        Kind::Octets(_) => vec![
            number(2, "octetstringLength", "The length in octets.", false),
            number(
                3,
                "maxOctetstringLength",
                "The maximum length in octets.",
                false,
            ),
        ],
        _ => Vec::new(),
    });
    Ok(Kind::Struct(members))
}

fn part(id: u32, name: &str, about: &str, kind: Kind, optional: bool) -> Component {
    Component {
        id,
        name: name.to_owned(),
        about: about.to_owned(),
        access: Access::ReadWrite,
        is_capability: false,
        optional,
        kind,
        default: None,
    }
}

fn number(id: u32, name: &str, about: &str, optional: bool) -> Component {
    part(
        id,
        name,
        about,
        Kind::Number(Integer::Uint32.into()),
        optional,
    )
}

fn base_members() -> Vec<Component> {
    let kind = Kind::Number(Number {
        names: vec![
            Named::new(0, "None"),
            Named::new(1, "Read-Only"),
            Named::new(2, "Write-Only"),
            Named::new(3, "Read-Write"),
        ],
        ..Integer::Uint8.into()
    });
    let about = "Whether the component can be read and written.";
    vec![Component {
        access: Access::ReadOnly,
        ..part(ACCESSIBILITY, "accessibility", about, kind, false)
    }]
}

fn event_members() -> Vec<Component> {
    let mut members = base_members();
    members.extend([
        number(
            REGISTRATION,
            "registration",
            "Whether the event is reported; 0 means no.",
            false,
        ),
        number(
            THRESHOLD,
            "threshold",
            "The value that must be crossed or reached.",
            true,
        ),
        number(
            HYSTERESIS,
            "eventHysteresis",
            "How far the value must change.",
            true,
        ),
        number(
            COUNT,
            "eventCount",
            "Occurrences that are not reported between two reports.",
            true,
        ),
        number(
            INTERVAL,
            "eventInterval",
            "Milliseconds between two reports.",
            true,
        ),
    ]);
    members
}

/// Encodes an access as the accessibility property does. A write that resets or triggers counts as a write.
fn accessibility(access: Access) -> u64 {
    match access {
        Access::ReadOnly => 1,
        Access::WriteOnly | Access::TriggerOnly => 2,
        Access::ReadWrite | Access::ReadReset => 3,
    }
}

impl Properties {
    /// The data of a GET-PROP-RESPONSE: the requested property, or all of them. `kind` is their [`kind`].
    pub fn content(&self, kind: &Kind, property: Option<u32>) -> Result<Content, ValueError> {
        let all = self.value(kind);
        let Some(id) = property else {
            return value::encode(kind, &all);
        };
        let one = member(kind.members(), id).ok_or_else(|| unknown(id))?;
        match all.get(&one.name) {
            Some(Value::Absent) | None => {
                let message = format!("the event has no {}", one.name);
                Err(ValueError::new(ResultCode::ComponentDoesNotExist, message))
            }
            Some(value) => value::encode(&one.kind, value),
        }
    }

    fn value(&self, kind: &Kind) -> Value {
        let numbers = |all: &[u32]| all.iter().map(|n| Value::from(u64::from(*n))).collect();
        let optional = |n: Option<u32>| Value::from(n.map(u64::from));
        let more: Vec<Value> = match &self.more {
            More::Plain => Vec::new(),
            More::Array {
                entries,
                highest_used,
                first_unused,
            } => numbers(&[*entries, *highest_used, *first_unused]),
            More::Length { octets, octets_max } => numbers(&[*octets, *octets_max]),
            More::Event(event) => vec![
                u64::from(event.registered).into(),
                optional(event.threshold),
                optional(event.hysteresis),
                optional(event.count),
                optional(event.interval_ms),
            ],
            More::Alias {
                class,
                instance,
                path,
            } => {
                let hex = |id: &u32| {
                    id.to_be_bytes()
                        .map(|octet| format!("{octet:02x}"))
                        .join(":")
                };
                let path: Vec<_> = path.iter().map(hex).collect();
                let target: Vec<Value> = numbers(&[*class, *instance]);
                target.into_iter().chain([path.join(":").into()]).collect()
            }
        };
        let values = [accessibility(self.access).into()].into_iter().chain(more);
        let named = kind
            .members()
            .iter()
            .map(|member| member.name.clone().into())
            .zip(values);
        Value::Struct(named.collect())
    }
}

fn unknown(id: u32) -> ValueError {
    ValueError::new(
        ResultCode::InvalidPath,
        format!("there is no property {id}"),
    )
}

impl Subscription {
    /// Applies a SET-PROP to an event: one property, the registration as a bare number, or several properties. On an
    /// error nothing changes.
    pub fn set(&mut self, property: Option<u32>, content: &Content) -> Result<(), ValueError> {
        let members = event_members();
        let given: Vec<(u32, Value)> = match (property, content) {
            (Some(id), _) => {
                let one = member(&members, id).ok_or_else(|| unknown(id))?;
                vec![(id, value::decode(&one.kind, content)?)]
            }
            (None, Content::Full(octets)) if octets.len() == 4 => {
                let kind = Kind::Number(Integer::Uint32.into());
                vec![(REGISTRATION, value::decode(&kind, content)?)]
            }
            (None, _) => {
                let Value::Struct(values) = value::decode_members(&members, content)? else {
                    unreachable!("members are a structure")
                };
                let id = |name: &str| members.iter().find(|m| m.name == name).map(|m| m.id);
                values
                    .into_iter()
                    .filter_map(|(name, value)| Some((id(&name)?, value)))
                    .collect()
            }
        };
        let mut after = *self;
        for (id, value) in given {
            after.take(id, &value, property.is_some())?;
        }
        *self = after;
        Ok(())
    }

    fn take(&mut self, id: u32, value: &Value, alone: bool) -> Result<(), ValueError> {
        let number = match value {
            Value::Whole(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        match (id, number) {
            (REGISTRATION, Some(number)) => self.registered = number != 0,
            (THRESHOLD, number) => self.threshold = number,
            (HYSTERESIS, number) => self.hysteresis = number,
            (COUNT, number) => self.count = number,
            (INTERVAL, number) => self.interval_ms = number,
            // A peer that writes back a whole structure that it has read includes the accessibility.
            (ACCESSIBILITY, _) if !alone => {}
            _ => {
                let message = "the accessibility of an event can be read, but not set";
                return Err(ValueError::new(ResultCode::ReadOnly, message));
            }
        }
        Ok(())
    }

    /// Reads a GET-PROP-RESPONSE about an event.
    pub fn read(content: &Content) -> Result<Self, ValueError> {
        let mut subscription = Self::default();
        subscription.set(None, content)?;
        Ok(subscription)
    }

    /// The path of a SET-PROP that sets this subscription at the event's path: a nested path for each property that is
    /// set.
    pub fn path_data(&self, event: Vec<u32>) -> Result<PathData, WireError> {
        let properties = [
            (REGISTRATION, Some(self.registered.into())),
            (THRESHOLD, self.threshold),
            (HYSTERESIS, self.hysteresis),
            (COUNT, self.count),
            (INTERVAL, self.interval_ms),
        ];
        let path = |(id, number): (u32, Option<u32>)| {
            number.map(|number: u32| PathData::full(vec![id], number.to_be_bytes().to_vec()))
        };
        let paths = properties
            .into_iter()
            .filter_map(path)
            .collect::<Result<_, _>>()?;
        PathData::new(event, None, Content::Nested(paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Registry;
    use crate::wire::Ilv;

    fn fe_protocol() -> Class {
        let registry = Registry::standard();
        registry.get(2).cloned().unwrap_or_else(|| unreachable!())
    }

    fn at(ids: &[u32], more: More) -> Result<Content, ValueError> {
        let class = fe_protocol();
        let properties = Properties {
            access: Access::ReadWrite,
            more,
        };
        properties.content(&kind(&class, ids).unwrap(), None)
    }

    #[test]
    fn every_kind_has_its_properties() {
        let full = |octets: &[u8]| Ok(Content::Full(octets.to_vec()));
        assert_eq!(at(&[5], More::Plain), full(&[3]));
        let array = More::Array {
            entries: 2,
            highest_used: 7,
            first_unused: 1,
        };
        assert_eq!(
            at(&[9], array),
            full(&[3, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 1])
        );
        let all = Subscription {
            registered: true,
            threshold: Some(1),
            hysteresis: Some(2),
            count: Some(3),
            interval_ms: Some(40),
        };
        let octets = [
            3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 40,
        ];
        assert_eq!(at(&[61, 1], More::Event(all)), full(&octets));
        assert_eq!(Subscription::read(&Content::Full(octets.to_vec())), Ok(all));
        let some = Subscription {
            registered: true,
            ..Subscription::default()
        };
        let parts = |all: &[(u32, &[u8])]| {
            let part = |(id, value): &(u32, &[u8])| Ilv {
                id: *id,
                value: value.to_vec(),
            };
            Content::Sparse(all.iter().map(part).collect())
        };
        let content = parts(&[(1, &[3]), (2, &[0, 0, 0, 1])]);
        assert_eq!(at(&[61, 1], More::Event(some)).as_ref(), Ok(&content));
        assert_eq!(Subscription::read(&content), Ok(some));

        let object = Registry::standard().find("FEObject").unwrap().clone();
        let name = Properties {
            access: Access::ReadWrite,
            more: More::Length {
                octets: 3,
                octets_max: 40,
            },
        };
        let kind_of_name = kind(&object, &[3]).unwrap();
        assert_eq!(
            name.content(&kind_of_name, None),
            full(&[3, 0, 0, 0, 3, 0, 0, 0, 40])
        );
        assert_eq!(name.content(&kind_of_name, Some(2)), full(&[0, 0, 0, 3]));
        let missing = name.content(&kind_of_name, Some(9)).unwrap_err();
        assert_eq!(missing.code, ResultCode::InvalidPath);
        assert!(kind(&object, &[99]).is_err());

        let out = Registry::standard().find("EtherMACOut").unwrap().clone();
        let alias = More::Alias {
            class: 4,
            instance: 1,
            path: vec![1, 2],
        };
        let properties = Properties {
            access: Access::ReadOnly,
            more: alias,
        };
        let parts = parts(&[
            (1, &[1]),
            (2, &[0, 0, 0, 4]),
            (3, &[0, 0, 0, 1]),
            (4, &[0, 0, 0, 1, 0, 0, 0, 2]),
        ]);
        assert_eq!(
            properties.content(&kind(&out, &[1]).unwrap(), None),
            Ok(parts)
        );
    }

    #[test]
    fn a_subscription_is_set_in_every_form() {
        let class = fe_protocol();
        let full = |number: u32| Content::Full(number.to_be_bytes().to_vec());
        let mut event = Subscription::default();
        event.set(None, &full(1)).unwrap();
        assert!(event.registered);
        event.set(Some(THRESHOLD), &full(15)).unwrap();
        assert_eq!(event.threshold, Some(15));
        let before = event;
        let code =
            |event: &mut Subscription, id, content| event.set(id, &content).unwrap_err().code;
        assert_eq!(
            code(&mut event, Some(1), Content::Full(vec![3])),
            ResultCode::ReadOnly
        );
        assert_eq!(code(&mut event, Some(9), full(1)), ResultCode::InvalidPath);
        assert_eq!(
            code(&mut event, Some(2), Content::Empty),
            ResultCode::InvalidTlv
        );
        let parts = vec![
            Ilv {
                id: COUNT,
                value: vec![0, 0, 0, 1],
            },
            Ilv {
                id: 9,
                value: vec![0, 0, 0, 1],
            },
        ];
        assert_eq!(
            code(&mut event, None, Content::Sparse(parts)),
            ResultCode::InvalidPath
        );
        assert_eq!(event, before, "nothing changes on an error");

        // Parsing a path that we send gives the same subscription.
        let path = event.path_data(vec![61, 1]).unwrap();
        let Content::Nested(nested) = path.content() else {
            panic!("nested")
        };
        let mut read = Subscription::default();
        for inner in nested {
            let place = Place::of(&class, &[&path, inner]);
            assert_eq!(place.ids, [61, 1]);
            read.set(place.property, inner.content()).unwrap();
        }
        assert_eq!(read, event);
    }

    #[test]
    fn a_nested_path_below_an_event_is_a_property_and_no_other_is() {
        let class = fe_protocol();
        let bare = |ids: &[u32]| PathData::bare(ids.to_vec()).unwrap();
        let place = |paths: &[&[u32]]| {
            let paths: Vec<_> = paths.iter().map(|ids| bare(ids)).collect();
            let place = Place::of(&class, &paths.iter().collect::<Vec<_>>());
            (place.ids, place.property)
        };
        assert_eq!(place(&[&[61, 1]]), (vec![61, 1], None));
        assert_eq!(place(&[&[61, 1], &[2]]), (vec![61, 1], Some(2)));
        assert_eq!(place(&[&[61], &[1], &[2]]), (vec![61, 1], Some(2)));
        assert_eq!(place(&[&[61], &[1]]), (vec![61, 1], None));
        assert_eq!(place(&[&[15], &[1]]), (vec![15, 1], None));
    }
}
