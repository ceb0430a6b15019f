//! Schemas: the layout of the values of a class, with every name resolved.
//!
//! ```text
//!   weir_model::Class   the one declaration of ours  --of----->  Class
//!   xml::Library        what others declare          --resolve->  Class  -->  Registry
//!
//!   Class
//!     components        Component: ID, name, access, Kind          path 1, 2, ..
//!     capabilities      the same, read only                        path 30, 31, ..
//!     events            Event: target, condition, reports          path base.1, base.2, ..
//! ```
//!
//! A class has the components and events of the classes that it is derived from, and a struct the members of the one
//! that it is derived from. No type is left that must be looked up elsewhere. [`crate::value`] turns values into bytes
//! by a [`Kind`], and back.
//!
//! Names of classes of ours begin with `Ext-` here, as they do on the wire (RFC 5812, 9.2); wherever a person names
//! a class, that part may be left out.

mod declared;
mod path;
mod registry;
mod resolve;

pub use self::declared::EVENTS_BASE;
pub(crate) use self::path::Level;
pub use self::path::{PathError, Target};
pub use self::registry::{Registry, RegistryError};
pub use crate::xml::{Access, Condition, Size};

/// The beginning of the names of classes that the IETF did not register (RFC 5812, 9.2).
pub const EXTENSION: &str = "Ext-";
/// Components, members and rows' types of one class at most, those within others included. Without it, a library of
/// types that contain each other could ask for any number.
pub const PARTS_MAX: usize = 16_384;

/// A class of blocks, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its ID.
    pub id: u32,
    /// Its name, as on the wire.
    pub name: String,
    /// Its version, as "1.0".
    pub version: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Its components and capabilities, in their order.
    pub components: Vec<Component>,
    /// The first ID of the paths of its events; none if it has no events.
    pub events_base: Option<u32>,
    /// Its events.
    pub events: Vec<Event>,
}

/// A component, a capability, or a member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its ID, which is its place in paths.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its meaning, in a sentence.
    pub about: String,
    /// The permitted access; that of a member is the access of the component around it if it has none of its own.
    pub access: Access,
    /// Whether it is a capability: it says what an FE can do.
    pub is_capability: bool,
    /// Whether an FE may lack it, or a row.
    pub optional: bool,
    /// The layout of its values.
    pub kind: Kind,
    /// Its initial value, as a library writes it.
    pub default: Option<String>,
}

/// The layout of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number(Number),
    /// True or false, in one octet.
    Flag,
    /// A number with a fraction, in four octets.
    Real32,
    /// A number with a fraction, in eight octets.
    Real64,
    /// This number of octets.
    Bytes(u32),
    /// Text in UTF-8, with its maximum length in octets.
    Text(Option<u32>),
    /// Octets, with their maximum number.
    Octets(Option<u32>),
    /// Rows.
    Array(Box<Array>),
    /// Members, in their order.
    Struct(Vec<Component>),
    /// One of these members.
    Union(Vec<Component>),
    /// Another component, whose values have this layout.
    Alias(Box<Kind>),
}

/// A whole number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its size and sign.
    pub base: Integer,
    /// The permitted ranges, both ends included; if there are none, every value of its size is permitted.
    pub ranges: Vec<(i128, i128)>,
    /// Values that have a name.
    pub names: Vec<Named>,
}

/// A value that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The value.
    pub value: i128,
    /// Its name.
    pub name: String,
    /// Its meaning, in a sentence.
    pub about: String,
}

/// The whole numbers of the model (RFC 5812, 4.5.1).
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

/// Rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// How many rows there may be.
    pub size: Size,
    /// The layout of a row.
    pub element: Kind,
    /// Keys that select rows by their content.
    pub keys: Vec<Key>,
}

/// Fields whose values select a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its ID.
    pub id: u32,
    /// The fields, as IDs of members from the outside in; an empty list is the row itself.
    pub fields: Vec<Vec<u32>>,
}

/// Something that an FE reports when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its ID, which follows the base in its path.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// When it happens, in a sentence.
    pub about: String,
    /// The component that is watched.
    pub target: Vec<Step>,
    /// The condition.
    pub condition: Condition,
    /// The components that are reported, in this order.
    pub reports: Vec<Vec<Step>>,
}

/// A step of the path of an event to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To a component or a member, by its ID.
    Member(u32),
    /// To the row with this subscript.
    Row(u32),
    /// To any row, in the target; in a report to the row that the event is about.
    AnyRow,
}

impl Class {
    /// Its name without what marks a class that the IETF did not register: `ports` for `Ext-ports`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix(EXTENSION).unwrap_or(&self.name)
    }

    /// The schema of a class of ours: of one instance of it. The rows of a class whose rows are configured blocks are
    /// instances; those of another class are the one component `rows` of its one instance.
    pub fn of(class: &weir_model::Class) -> Self {
        declared::class(class)
    }
}

impl Component {
    /// A component or member that can be read, and says nothing about itself.
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

    /// Whether it can be read.
    pub fn can_be_read(&self) -> bool {
        matches!(
            self.access,
            Access::ReadOnly | Access::ReadWrite | Access::ReadReset
        )
    }

    /// Whether it can be written; writing to what is read-reset resets it.
    pub fn can_be_written(&self) -> bool {
        self.access != Access::ReadOnly
    }
}

impl Named {
    /// A value whose name says what it means.
    pub fn new(value: i128, name: &str) -> Self {
        Self {
            value,
            name: name.to_owned(),
            about: name.to_owned(),
        }
    }
}

impl From<Integer> for Number {
    /// Any number of this size.
    fn from(base: Integer) -> Self {
        Self {
            base,
            ranges: Vec::new(),
            names: Vec::new(),
        }
    }
}

impl Integer {
    /// Its octets.
    pub const fn octets(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// Whether it may be below zero.
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Its least and its greatest value.
    pub const fn range(self) -> (i128, i128) {
        let bits = 8 * self.octets() as u32;
        match self.is_signed() {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        }
    }
}

impl Kind {
    /// The layout of the values; that of the component behind an alias.
    pub fn resolved(&self) -> &Self {
        match self {
            Self::Alias(kind) => kind.resolved(),
            other => other,
        }
    }

    /// The members of a struct, of a union, or of the rows of a table of them.
    pub fn members(&self) -> &[Component] {
        match self.resolved() {
            Self::Struct(members) | Self::Union(members) => members,
            Self::Array(array) => array.element.members(),
            _ => &[],
        }
    }

    /// The table, if it is one.
    pub fn array(&self) -> Option<&Array> {
        match self.resolved() {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Whether the number of octets depends on the value, so that a length goes with it (RFC 5810, 7.1.8).
    pub(crate) fn is_variable(&self) -> bool {
        match self.resolved() {
            Self::Text(_) | Self::Octets(_) => true,
            Self::Array(array) => matches!(array.size, Size::Variable(_)),
            _ => false,
        }
    }
}

impl Array {
    /// Whether its rows are values by names: member 1 is a text with the name `name` and the key, member 2 the
    /// `value`. Such a table is a [`weir_model::Value::Struct`] of the values by their names.
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

    /// The layout of a field of a key, which is named by IDs of members from the outside in.
    pub fn field(&self, path: &[u32]) -> Option<&Kind> {
        path.iter()
            .try_fold(&self.element, |kind, id| match kind.resolved() {
                Kind::Struct(members) | Kind::Union(members) => Some(&member(members, *id)?.kind),
                _ => None,
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
