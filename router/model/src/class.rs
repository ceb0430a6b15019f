//! The declaration of an LFB: a class with its components (RFC 5812, section 3).
//!
//! A class is declared once, in `router/lfb`. The HTTP interface, the tables of `weir show`, the manual pages
//! and the OpenAPI description are all generated from the declaration, so they cannot differ.
//! IDs are stable forever: an assigned ID is never reused.

use std::fmt;

pub use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};

use crate::Value;

/// An LFB class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Name, also of the path `/v1/NAME` and of the table `weir show NAME`.
    pub name: &'static str,
    /// Class ID, unique among all classes. IDs below 65536 belong to the IETF (RFC 5812, section 9.2).
    pub id: u32,
    /// Version: `1.0`.
    pub version: &'static str,
    /// Meaning, in a sentence without a full stop.
    pub about: &'static str,
    /// Names of the key components, which identify a row; empty for a class without rows.
    pub key: &'static [&'static str],
    /// Whether each row is a separate LFB that a configuration names, and so an instance of the class for a peer
    /// (RFC 5812, section 3.1). The rows of other classes form one table.
    pub has_instances: bool,
    /// Query parameters of the path: `?limit=10`.
    pub query: &'static [Parameter],
    /// Parameters, which are the keys of the class's section in a configuration. A parameter with the ID of a
    /// component is that component.
    pub parameters: &'static [Parameter],
    /// Numbers that the mechanism reports.
    pub gauges: &'static [Gauge],
    /// The other components, in the order of their values in a row.
    pub components: &'static [Component],
    /// Events that a peer can subscribe to.
    pub events: &'static [Event],
    /// Word after `weir_` in the names of metrics, which may be empty; `None` if the class has no metrics.
    pub metric: Option<&'static str>,
    /// Rows that always exist, and that an answer omits while their counters are zero. Metrics include them:
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
    /// The component with the name of the mechanism, which is the name of its class.
    pub name: &'static str,
    /// The component that maps names of gauges to numbers.
    pub report: &'static str,
    /// Classes of the mechanisms.
    pub classes: fn() -> Vec<Class>,
}

/// A component of a class, or a member of a component that is a structure.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// ID, unique in its class (or structure).
    pub id: u32,
    /// Name; that of a quantity ends with its unit: `rate_bps`, `uptime_s`.
    pub name: &'static str,
    /// Type and unit.
    pub kind: Type,
    /// Whether it can be set.
    pub access: Access,
    /// Whether it may have no value.
    pub optional: bool,
    /// Meaning, in a sentence.
    pub about: &'static str,
    /// A possible value; empty for an absent value, and for structures, whose members have examples. A map lists
    /// names with values: `new_flows=736, drops=3`.
    pub example: &'static str,
    /// Columns in `weir show`.
    pub cells: &'static [Cell],
    /// Whether the text differs each time (an error, a peer's address), so that it must not label a metric.
    pub varies: bool,
}

/// Whether a component can be set, and whether it changes at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A capability (RFC 5812, section 4.7.5): readable; describes the abilities or limits of the LFB.
    Capability,
    /// Readable.
    Read,
    /// Readable, and settable by a configuration or by `weir set`.
    ReadWrite,
}

/// An event of an LFB that a peer may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// ID, unique among the events of the class.
    pub id: u32,
    /// Name.
    pub name: &'static str,
    /// When the event happens, in a sentence.
    pub about: &'static str,
    /// Dotted path of the watched component or member; empty for a row of a table.
    pub target: &'static str,
    /// The change that it reports.
    pub condition: Condition,
    /// Names of the components that a report contains.
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
    /// A whole number that rises and falls.
    Gauge(Unit),
    /// A whole number that counts up from zero.
    Counter(Unit),
    /// A number with a fraction.
    Real(Unit),
    /// A setting: a text, a number, or true or false; with its range if the class knows it.
    Setting(Option<Kind>),
    /// The members of a structure.
    Struct(&'static [Component]),
    /// Rows, each with these members.
    Rows(&'static [Component]),
    /// Values of one type, by names that the class does not declare.
    Map(&'static Type),
}

/// A column of `weir show`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The displayed member of a structure; empty for the component itself.
    pub member: &'static str,
    /// Heading of the column.
    pub heading: &'static str,
    /// Format of the value.
    pub form: Form,
    /// Text for an absent value.
    pub absent: &'static str,
}

/// Format of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The usual format of its unit.
    Plain,
    /// The usual format of its unit, for a counter since the start of the router.
    SinceStart,
    /// Growth per second since the previous sample: packets, or megabits for bytes.
    PerSecond,
    /// A rate in Mbit/s, as a number.
    Megabits,
    /// A time in the two units that a person reads: `3 h 20 min`.
    Elapsed,
}

/// The output of `weir show` around the columns of a class.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Show counters since the start in a second table, because the first would be too wide.
    pub totals_apart: bool,
    /// Show each row as a list of its values, and the rows within it as tables below.
    pub is_divided: bool,
    /// A sentence above the table.
    pub head: &'static str,
    /// A sentence instead of a table without rows.
    pub empty: &'static str,
    /// Another class, and the sentence below the table if that class has rows; `{}` is replaced by their number.
    pub beside: Option<(&'static str, &'static str)>,
}

impl Layout {
    /// One table, with nothing around it.
    pub const PLAIN: Self = Self {
        totals_apart: false,
        is_divided: false,
        head: "",
        empty: "",
        beside: None,
    };
}

impl Component {
    /// Makes the component settable.
    pub const fn settable(self) -> Self {
        Self {
            access: Access::ReadWrite,
            ..self
        }
    }

    /// A readable component that `weir show` does not print.
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

    /// Sets the meaning.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Makes the component a capability.
    pub const fn capability(self) -> Self {
        Self {
            access: Access::Capability,
            ..self
        }
    }

    /// Permits an absent value.
    pub const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// Marks a text that differs each time ([`varies`](Self::varies)).
    pub const fn varying(self) -> Self {
        Self {
            varies: true,
            ..self
        }
    }

    /// Sets the columns in `weir show`.
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
        let kind = if gauge.counts {
            Type::Counter(gauge.unit)
        } else {
            Type::Gauge(gauge.unit)
        };
        Self::new(gauge.id, gauge.name, kind, "").about(gauge.about)
    }
}

impl Class {
    /// An empty class of version 1.0.
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

    /// The class of a mechanism with parameters and gauges.
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

    /// Every component in the order of IDs: parameters, gauges, and the others.
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

    /// A row (or the value of a class without rows) made of the examples.
    pub fn example(&self) -> Value {
        Component::values(self.components, Component::example_value)
    }
}

impl Component {
    /// A structure of these members; `value` returns the value of each.
    pub fn values(members: &'static [Self], value: impl Fn(&Self) -> Value) -> Value {
        let pair = |member: &'static Self| (member.name.into(), value(member));
        Value::Struct(members.iter().map(pair).collect())
    }

    /// Whether the component may have this value.
    pub fn admits(&self, value: &Value) -> bool {
        self.kind.admits(value) || (self.optional && *value == Value::Absent)
    }

    /// The type in words, as in the manual pages.
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
    /// A column that shows the component in the usual format of its unit.
    pub const fn new(heading: &'static str) -> Self {
        Self {
            member: "",
            heading,
            form: Form::Plain,
            absent: "-",
        }
    }

    /// Shows a member of a structure component.
    pub const fn of(self, member: &'static str) -> Self {
        Self { member, ..self }
    }

    /// Sets the format.
    pub const fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// Marks a counter since the start of the router.
    pub const fn since_start(self) -> Self {
        self.form(Form::SinceStart)
    }

    /// Sets the words for an absent value.
    pub const fn or(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }
}

const BYTES: &str = "Bytes of layer-2 frames, without frame check sequence.";

/// Counters of packets and bytes.
pub const COUNT: Type = Type::Struct(&[
    Component::new(1, "packets", Type::Counter(Unit::Packets), "15").about("Packets."),
    Component::new(2, "bytes", Type::Counter(Unit::Bytes), "9000").about(BYTES),
]);

/// Current numbers of queued packets and bytes.
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
    /// In words, as in the manual pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |members: &[Component]| {
            let names: Vec<_> = members.iter().map(|m| format!("`{}`", m.name)).collect();
            names.join(", ")
        };
        match self {
            Self::Text => f.write_str("string"),
            Self::Flag => f.write_str("boolean"),
            Self::Gauge(unit) => write!(f, "integer{unit}"),
            Self::Counter(unit) => write!(f, "counter{unit}"),
            Self::Real(unit) => write!(f, "number{unit}"),
            Self::Setting(None) => f.write_str("string, number or boolean"),
            Self::Setting(Some(kind)) => write!(f, "{kind}"),
            Self::Struct(members) => write!(f, "object: {}", names(members)),
            Self::Rows(members) => write!(f, "list of objects: {}", names(members)),
            Self::Map(kind) => write!(f, "object; each value: {kind}"),
        }
    }
}
