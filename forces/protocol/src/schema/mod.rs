//! Schemas: the layout of the values of a class, with every name resolved.
//!
//! ```text
//!   weir_model::Class   the one declaration of ours  --of---->  Class
//!   a library in XML    what others declare          --read-->  Class  -->  Registry
//!
//!   Class
//!     components        Component: ID, name, access, Kind          path 1, 2, ..
//!     capabilities      the same, read only                        path 30, 31, ..
//!     events            Event: target, condition, reports          path base.1, base.2, ..
//! ```
//!
//! A class includes the components and events of the classes that it is derived from, and a struct the members of the
//! struct that it is derived from. No type refers to another one by name. [`crate::value`] converts values to bytes and
//! back according to a [`Kind`].
//!
//! Names of our classes begin with `Ext-` here, as they do on the wire (RFC 5812, 9.2); users may omit this prefix.

mod declared;
mod path;
mod registry;
pub(crate) mod xml;

pub use self::declared::EVENTS_BASE;
pub(crate) use self::path::Level;
pub use self::path::{PathError, Target};
pub use self::registry::{Registry, RegistryError};
pub use weir_model::class::Condition;

/// Prefix of the names of classes that are not registered with the IETF (RFC 5812, 9.2).
pub const EXTENSION: &str = "Ext-";
/// Maximum number of components, members and row types of a class, nested ones included. Without this limit, a library
/// of types that contain each other could require any number of them.
pub const PARTS_MAX: usize = 16_384;

/// An LFB class with all names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Class ID.
    pub id: u32,
    /// Name, as on the wire.
    pub name: String,
    /// Version, such as "1.0".
    pub version: String,
    /// Purpose, in one sentence.
    pub about: String,
    /// Components and capabilities, in schema order.
    pub components: Vec<Component>,
    /// First ID of the paths of its events; `None` if the class has no events.
    pub events_base: Option<u32>,
    /// Events of the class.
    pub events: Vec<Event>,
}

/// A component, a capability, or a member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Component ID, used in paths.
    pub id: u32,
    /// Component name.
    pub name: String,
    /// Meaning, in one sentence.
    pub about: String,
    /// The permitted access; a member without an access of its own inherits that of its parent.
    pub access: Access,
    /// Whether this is a capability: it describes the abilities of an FE.
    pub is_capability: bool,
    /// Whether an FE or a row may lack the component.
    pub optional: bool,
    /// The layout of its values.
    pub kind: Kind,
    /// Initial value, in the form that a library uses.
    pub default: Option<String>,
}

/// The permitted access to a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    ReadOnly,
    /// Read and write.
    #[default]
    ReadWrite,
    /// Write only.
    WriteOnly,
    /// Read; a write of any value resets the component.
    ReadReset,
    /// Write only; a write of any value triggers an action.
    TriggerOnly,
}

/// The layout of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Number(Number),
    /// A boolean, in one octet.
    Flag,
    /// A floating-point number, in four octets.
    Real32,
    /// A floating-point number, in eight octets.
    Real64,
    /// A fixed number of octets.
    Bytes(u32),
    /// Text in UTF-8, with its maximum length in octets if there is one.
    Text(Option<u32>),
    /// Octets, with their maximum number if there is one.
    Octets(Option<u32>),
    /// A table.
    Array(Box<Array>),
    /// Members, in schema order.
    Struct(Vec<Component>),
    /// Exactly one of these members.
    Union(Vec<Component>),
    /// A reference to another component, whose values have this layout.
    Alias(Box<Kind>),
}

/// An integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Size and sign.
    pub base: Integer,
    /// The permitted ranges, both ends included; if empty, every value of the size is permitted.
    pub ranges: Vec<(i128, i128)>,
    /// Values with names.
    pub names: Vec<Named>,
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The value.
    pub value: i128,
    /// Name of the value.
    pub name: String,
    /// Meaning, in one sentence.
    pub about: String,
}

/// The integer types of the model (RFC 5812, 4.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integer {
    /// `char`: 8 bits, signed.
    Int8,
    /// `uchar`: 8 bits.
    Uint8,
    /// 16 bits, signed.
    Int16,
    /// 16 bits.
    Uint16,
    /// 32 bits, signed.
    Int32,
    /// 32 bits.
    Uint32,
    /// 64 bits, signed.
    Int64,
    /// 64 bits.
    Uint64,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Number of rows.
    pub size: Size,
    /// The layout of a row.
    pub element: Kind,
    /// Keys that select rows by their content.
    pub keys: Vec<Key>,
}

/// The number of rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A fixed number.
    Fixed(u32),
    /// Any number, up to a maximum if there is one.
    Variable(Option<u32>),
}

/// Fields whose values select a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Key ID.
    pub id: u32,
    /// The fields, as paths of member IDs from the outermost member inwards; an empty path means the row itself.
    pub fields: Vec<Vec<u32>>,
}

/// An event that an FE can report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Event ID, which follows the base in its path.
    pub id: u32,
    /// Event name.
    pub name: String,
    /// When the event occurs, in one sentence.
    pub about: String,
    /// Path of the watched component.
    pub target: Vec<Step>,
    /// The condition that triggers the event.
    pub condition: Condition,
    /// Paths of the reported components, in report order.
    pub reports: Vec<Vec<Step>>,
}

/// A step of a path from an event to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To a component or a member, by its ID.
    Member(u32),
    /// To the row with this subscript.
    Row(u32),
    /// To any row in a target; in a report, to the row that the event concerns.
    AnyRow,
}

impl Class {
    /// The name without the prefix for classes not registered with the IETF: `ports` for `Ext-ports`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix(EXTENSION).unwrap_or(&self.name)
    }

    /// The schema of one instance of a class that we declare. If the rows of the class are configured LFBs, each row is
    /// an instance; otherwise all rows are in the component `rows` of the only instance.
    pub fn of(class: &weir_model::Class) -> Self {
        declared::class(class)
    }
}

impl Component {
    /// A readable component or member without a description.
    pub fn read_only(id: u32, name: &str, kind: Kind) -> Self {
        Self {
            id,
            name: name.to_owned(),
            about: String::new(),
            access: Access::ReadOnly,
            is_capability: false,
            optional: false,
            kind,
            default: None,
        }
    }

    /// Whether the component can be read.
    pub fn can_be_read(&self) -> bool {
        matches!(
            self.access,
            Access::ReadOnly | Access::ReadWrite | Access::ReadReset
        )
    }

    /// Whether the component can be written; a write to a read-reset component resets it.
    pub fn can_be_written(&self) -> bool {
        self.access != Access::ReadOnly
    }
}

impl Named {
    /// A value whose name explains it.
    pub fn new(value: i128, name: &str) -> Self {
        Self {
            value,
            name: name.to_owned(),
            about: name.to_owned(),
        }
    }
}

impl From<Integer> for Number {
    /// An integer of this size, without further restrictions.
    fn from(base: Integer) -> Self {
        Self {
            base,
            ranges: Vec::new(),
            names: Vec::new(),
        }
    }
}

impl Integer {
    /// Number of octets.
    pub const fn octets(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// Whether the type has negative values.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// The minimum and the maximum value.
    pub const fn range(self) -> (i128, i128) {
        let bits = 8 * self.octets() as u32;
        if self.is_signed() {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1 << bits) - 1)
        }
    }
}

impl Kind {
    /// This layout, with aliases replaced by the layout of their target.
    pub fn resolved(&self) -> &Self {
        match self {
            Self::Alias(kind) => kind.resolved(),
            other => other,
        }
    }

    /// The members of a struct or union, or of the rows of a table of structs or unions.
    pub fn members(&self) -> &[Component] {
        match self.resolved() {
            Self::Array(array) => array.element.members(),
            _ => self.own_members(),
        }
    }

    /// The members of a struct or union.
    fn own_members(&self) -> &[Component] {
        match self.resolved() {
            Self::Struct(members) | Self::Union(members) => members,
            _ => &[],
        }
    }

    /// The table, if the layout is a table.
    pub fn array(&self) -> Option<&Array> {
        match self.resolved() {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Whether the number of octets depends on the value, so that the encoding needs a length (RFC 5810, 7.1.8).
    pub(crate) fn is_variable(&self) -> bool {
        match self.resolved() {
            Self::Text(_) | Self::Octets(_) => true,
            Self::Array(array) => matches!(array.size, Size::Variable(_)),
            _ => false,
        }
    }
}

impl Array {
    /// Whether the rows are a map from names to values: member 1 is a text called `name` and the key, member 2 is
    /// called `value`. Such a table is a [`weir_model::Value::Struct`] of the values by their names.
    pub fn is_map(&self) -> bool {
        let Kind::Struct(members) = self.element.resolved() else {
            return false;
        };
        let [name, value] = &members[..] else {
            return false;
        };
        (&*name.name, name.id, &*value.name, value.id) == ("name", 1, "value", 2)
            && name.kind == Kind::Text(None)
            && !name.optional
            && !value.optional
            && matches!(&self.keys[..], [Key { id: 1, fields }] if fields[..] == [vec![1]])
    }

    /// The layout of a field of a key, given as a path of member IDs from the outermost member inwards.
    pub fn field(&self, path: &[u32]) -> Option<&Kind> {
        let mut path = path.iter();
        path.try_fold(&self.element, |kind, id| {
            Some(&member(kind.own_members(), *id)?.kind)
        })
    }

    /// The key with this ID.
    pub fn key(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }
}

/// The member with this ID.
pub(crate) fn member(members: &[Component], id: u32) -> Option<&Component> {
    members.iter().find(|member| member.id == id)
}
