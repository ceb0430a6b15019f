//! The declaration of a block: a class with its components (RFC 5812, section 3).
//!
//! A class is declared once, in `router/lfb`. The HTTP interface, the tables of `weir show`, the manual pages
//! and the description of the interface (OpenAPI) are all made from the declaration, so they cannot differ.
//! IDs are stable for ever: one that was given is never given to anything else.

use std::fmt;

pub use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};

use crate::Value;

/// A class of block.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Name, also of the path `/v1/NAME` and of the table `weir show NAME`.
    pub name: &'static str,
    /// Class ID, unique among all classes. IDs below 65536 belong to the IETF (RFC 5812, section 9.2).
    pub id: u32,
    /// Version: `1.0`.
    pub version: &'static str,
    /// Its meaning, in a sentence without a full stop.
    pub about: &'static str,
    /// Names of the components that tell its rows apart; none if there is one of it.
    pub key: &'static [&'static str],
    /// Whether each row is a block of its own that a configuration names, and so an instance of the class for a peer
    /// (RFC 5812, section 3.1). The rows of other classes are one table.
    pub has_instances: bool,
    /// What may be asked for with the path: `?limit=10`.
    pub query: &'static [Parameter],
    /// Its parameters, by the keys of its section in a configuration. One with the ID of a component is that
    /// component.
    pub parameters: &'static [Parameter],
    /// Numbers that the mechanism reports.
    pub gauges: &'static [Gauge],
    /// The other components, in the order in which a row has them.
    pub components: &'static [Component],
    /// Its events.
    pub events: &'static [Event],
    /// The word of its metrics after `weir_`, which may be empty; none if it has no metrics.
    pub metric: Option<&'static str>,
    /// Rows that it always has, and that an answer leaves out while nothing was counted in them. Metrics have them:
    /// a counter that appears with its first event hides this event from a rate.
    pub silent: fn() -> Vec<Value>,
    /// Rows that report the gauges of a mechanism.
    pub mechanisms: Option<Mechanisms>,
    /// The output of `weir show` around the columns.
    pub layout: Layout,
}

/// Rows that report numbers of a mechanism: the gauges of a discipline.
#[derive(Clone, Copy, Debug)]
pub struct Mechanisms {
    /// The component with the name of the mechanism, which is that of its class.
    pub name: &'static str,
    /// The component with the numbers by their names.
    pub report: &'static str,
    /// Their classes.
    pub classes: fn() -> Vec<Class>,
}

/// A component of a class, or a member of a component that is a structure.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// ID, unique in its class (or structure).
    pub id: u32,
    /// Name; a quantity has its unit in it: `rate_bps`, `uptime_s`.
    pub name: &'static str,
    /// Type and unit.
    pub kind: Type,
    /// Whether it can be set.
    pub access: Access,
    /// Whether it may have no value.
    pub optional: bool,
    /// Its meaning, in a sentence.
    pub about: &'static str,
    /// A value that it may have; empty for none, and for structures, whose members have examples. The names
    /// of a map have theirs: `new_flows=736, drops=3`.
    pub example: &'static str,
    /// Its columns in `weir show`.
    pub cells: &'static [Cell],
    /// Whether it is a text that is another one each time (an error, a peer's address): no label of a metric.
    pub varies: bool,
}

/// Whether a component can be set, and whether it changes at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A capability (RFC 5812, section 4.7.5): it can be read, and says what the block can do or where its limits are.
    Capability,
    /// It can be read.
    Read,
    /// It can be read, and set by a configuration or by `weir set`.
    ReadWrite,
}

/// Something that happens to a block, and that a peer may want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// ID, unique among the events of the class.
    pub id: u32,
    /// Name.
    pub name: &'static str,
    /// When it happens, in a sentence.
    pub about: &'static str,
    /// Names of the component that is watched and of its members, with dots between them; empty for a row of a table.
    pub target: &'static str,
    /// The change that it reports.
    pub condition: Condition,
    /// Names of the components that it reports.
    pub reports: &'static [&'static str],
}

/// The condition of an event (RFC 5812, section 4.7.6; RFC 7408, section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// A row appears.
    Created,
    /// A row disappears.
    Deleted,
    /// A value changes.
    Changed,
    /// A value rises above the threshold.
    GreaterThan,
    /// A value falls below the threshold.
    LessThan,
    /// A value reaches the threshold (RFC 7408).
    BecomesEqualTo,
}

/// The type of a component.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// A text.
    Text,
    /// True or false.
    Flag,
    /// A whole number that goes up and down.
    Gauge(Unit),
    /// A whole number that counts up from zero.
    Counter(Unit),
    /// A number with a fraction.
    Real(Unit),
    /// A setting: a text, a number, or true or false; with its range where the class knows it.
    Setting(Option<Kind>),
    /// The members of a structure.
    Struct(&'static [Component]),
    /// Rows, each with these members.
    Rows(&'static [Component]),
    /// Values of one type by names that the class does not know.
    Map(&'static Type),
}

/// A column of `weir show`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The member of a structure that it shows; empty for the component itself.
    pub member: &'static str,
    /// Its heading.
    pub heading: &'static str,
    /// How the value is written.
    pub form: Form,
    /// Text for an absent value.
    pub absent: &'static str,
}

/// How a value of a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As its unit is written.
    Plain,
    /// The same; it counts since the start of the router.
    SinceStart,
    /// Its growth in each second since the sample before: packets, or megabits for bytes.
    PerSecond,
    /// A rate in Mbit/s, as a number.
    Megabits,
    /// A time in the two units that a person reads: `3 h 20 min`.
    Elapsed,
}

/// The output of `weir show` around the columns of a class.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// A second table has what counts since the start: the first one would be too wide.
    pub totals_apart: bool,
    /// A sentence above the table.
    pub head: &'static str,
    /// A sentence instead of a table without rows.
    pub empty: &'static str,
    /// Another class, and the sentence below the table if that has rows; `{}` stands for their number.
    pub beside: Option<(&'static str, &'static str)>,
}

impl Layout {
    /// One table, with nothing around it.
    pub const PLAIN: Self = Self {
        totals_apart: false,
        head: "",
        empty: "",
        beside: None,
    };
}

impl Component {
    /// The same; it can be set.
    pub const fn settable(self) -> Self {
        Self {
            access: Access::ReadWrite,
            ..self
        }
    }

    /// A component that can be read, and that `weir show` does not print.
    pub const fn new(id: u32, name: &'static str, kind: Type, example: &'static str) -> Self {
        Self {
            id,
            name,
            kind,
            access: Access::Read,
            optional: false,
            about: "",
            example,
            cells: &[],
            varies: false,
        }
    }

    /// The same, with its meaning.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The same as a capability.
    pub const fn capability(self) -> Self {
        Self {
            access: Access::Capability,
            ..self
        }
    }

    /// The same; it may have no value.
    pub const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// The same; it is a text that is another one each time.
    pub const fn varying(self) -> Self {
        Self {
            varies: true,
            ..self
        }
    }

    /// The same, with columns.
    pub const fn shown(self, cells: &'static [Cell]) -> Self {
        Self { cells, ..self }
    }
}

impl From<&Parameter> for Component {
    fn from(parameter: &Parameter) -> Self {
        let kind = Type::Setting(Some(parameter.kind));
        Self {
            access: Access::ReadWrite,
            ..Self::new(parameter.id, parameter.name, kind, parameter.default)
                .about(parameter.about)
        }
    }
}

impl From<&Gauge> for Component {
    fn from(gauge: &Gauge) -> Self {
        let kind = match gauge.counts {
            true => Type::Counter(gauge.unit),
            false => Type::Gauge(gauge.unit),
        };
        Self::new(gauge.id, gauge.name, kind, "").about(gauge.about)
    }
}

impl Class {
    /// A class of version 1.0 without anything else.
    pub const PLAIN: Self = Self {
        name: "",
        id: 0,
        version: "1.0",
        about: "",
        key: &[],
        has_instances: false,
        query: &[],
        parameters: &[],
        gauges: &[],
        components: &[],
        events: &[],
        metric: None,
        silent: Vec::new,
        mechanisms: None,
        layout: Layout::PLAIN,
    };

    /// The class of a mechanism that is set by parameters and reports gauges.
    pub const fn mechanism(
        (id, name, about): (u32, &'static str, &'static str),
        parameters: &'static [Parameter],
        gauges: &'static [Gauge],
    ) -> Self {
        Self {
            name,
            id,
            about,
            parameters,
            gauges,
            has_instances: true,
            metric: Some(name),
            ..Self::PLAIN
        }
    }

    /// Every component by its ID: what can be set, what is reported, and the others.
    pub fn all(&self) -> Vec<Component> {
        let shown = |parameter: &Parameter| self.components.iter().find(|c| c.id == parameter.id);
        let settings = self.parameters.iter().map(|parameter| Component {
            access: Access::ReadWrite,
            ..shown(parameter).map_or_else(|| parameter.into(), |component| *component)
        });
        let is_set = |component: &&Component| self.parameters.iter().any(|p| p.id == component.id);
        let others = self.components.iter().filter(|c| !is_set(c)).copied();
        let gauges = self.gauges.iter().map(Component::from);
        let mut all: Vec<_> = settings.chain(gauges).chain(others).collect();
        all.sort_by_key(|component| component.id);
        all
    }

    /// A row, or the one value of a class without rows, made of the examples.
    pub fn example(&self) -> Value {
        Component::values(self.components, Component::example_value)
    }
}

impl Component {
    /// A structure of these members, with what `value` gives for each.
    pub fn values(members: &'static [Self], value: impl Fn(&Self) -> Value) -> Value {
        let pair = |member: &'static Self| (member.name.into(), value(member));
        Value::Struct(members.iter().map(pair).collect())
    }

    /// Whether it may have this value.
    pub fn admits(&self, value: &Value) -> bool {
        self.kind.admits(value) || (self.optional && *value == Value::Absent)
    }

    /// Its type in words, as a page says it.
    pub fn type_in_words(&self) -> String {
        let or_null = if self.optional { "; or null" } else { "" };
        format!("{}{or_null}", self.kind)
    }

    /// The example as a value.
    pub fn example_value(&self) -> Value {
        let number = |text: &str| text.parse().map(Value::Whole);
        let word = |text: &str| match text {
            "true" | "false" => Value::Flag(text == "true"),
            _ => number(text)
                .or_else(|_| text.parse().map(Value::Real))
                .unwrap_or_else(|_| text.into()),
        };
        match (self.kind, self.example) {
            (Type::Struct(members), _) => Self::values(members, Self::example_value),
            (Type::Rows(members), _) => {
                Value::List(vec![Self::values(members, Self::example_value)])
            }
            (_, "") => Value::Absent,
            (Type::Map(_), pairs) => {
                let pairs = pairs.split(", ").filter_map(|pair| pair.split_once('='));
                Value::Struct(
                    pairs
                        .map(|(name, text)| (name.into(), word(text)))
                        .collect(),
                )
            }
            (Type::Text, text) => text.into(),
            (_, text) => word(text),
        }
    }
}

impl Cell {
    /// A column that shows the component as its unit is written.
    pub const fn new(heading: &'static str) -> Self {
        Self {
            member: "",
            heading,
            form: Form::Plain,
            absent: "-",
        }
    }

    /// The same for a member of the structure that the component is.
    pub const fn of(self, member: &'static str) -> Self {
        Self { member, ..self }
    }

    /// The same, written in another form.
    pub const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The same, for what counts since the start of the router.
    pub const fn since_start(self) -> Self {
        self.form(Form::SinceStart)
    }

    /// The same, with these words where there is no value.
    pub const fn or(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }
}

const BYTES: &str = "Bytes of layer-2 frames, without frame check sequence.";

/// Packets and bytes that were counted.
pub const COUNT: Type = Type::Struct(&[
    Component::new(1, "packets", Type::Counter(Unit::Packets), "15").about("Packets."),
    Component::new(2, "bytes", Type::Counter(Unit::Bytes), "9000").about(BYTES),
]);

/// Packets and bytes that are held now.
pub const HELD: Type = Type::Struct(&[
    Component::new(1, "packets", Type::Gauge(Unit::Packets), "4").about("Packets."),
    Component::new(2, "bytes", Type::Gauge(Unit::Bytes), "6000").about(BYTES),
]);

impl Type {
    /// Whether a value is of this type.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text | Self::Setting(_), Value::Text(_)) => true,
            (Self::Flag | Self::Setting(_), Value::Flag(_)) => true,
            (Self::Gauge(_) | Self::Counter(_) | Self::Setting(_), Value::Whole(_)) => true,
            (Self::Real(_) | Self::Setting(_), Value::Real(_)) => true,
            (Self::Struct(members), Value::Struct(values)) => {
                let fits = |(member, (name, value)): (&Component, &(_, _))| {
                    member.name == name && member.admits(value)
                };
                members.len() == values.len() && members.iter().zip(values).all(fits)
            }
            (Self::Rows(members), Value::List(rows)) => {
                rows.iter().all(|row| Self::Struct(members).admits(row))
            }
            (Self::Map(kind), Value::Struct(values)) => values.iter().all(|(_, v)| kind.admits(v)),
            _ => false,
        }
    }

    /// The members of a structure, or of the rows of a table.
    pub fn members(&self) -> &'static [Component] {
        match self {
            Self::Struct(members) | Self::Rows(members) => members,
            _ => &[],
        }
    }
}

impl fmt::Display for Type {
    /// In words, as a page says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |members: &[Component]| {
            let names: Vec<_> = members.iter().map(|m| format!("`{}`", m.name)).collect();
            names.join(", ")
        };
        match self {
            Self::Text => f.write_str("text"),
            Self::Flag => f.write_str("true or false"),
            Self::Gauge(unit) => write!(f, "whole number{unit}"),
            Self::Counter(unit) => write!(f, "counter{unit}"),
            Self::Real(unit) => write!(f, "number{unit}"),
            Self::Setting(None) => f.write_str("text, number, true or false"),
            Self::Setting(Some(kind)) => write!(f, "{kind}"),
            Self::Struct(members) => write!(f, "object: {}", names(members)),
            Self::Rows(members) => write!(f, "list of objects: {}", names(members)),
            Self::Map(kind) => write!(f, "object of names, each with: {kind}"),
        }
    }
}
