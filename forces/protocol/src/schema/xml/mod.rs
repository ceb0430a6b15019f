//! LFB classes from a library in XML: RFC 5812, section 4, with RFC 7408.
//!
//! ```text
//!  <LFBLibrary>                       Library
//!    load, frameDefs                    loads, frames
//!    dataTypeDefs                       types: atomic, array, struct, union, alias
//!    metadataDefs                       metadata
//!    LFBClassDefs                       classes: components, capabilities, events, ports
//! ```
//!
//! [`Library::read`] reads one file into plain declarations. [`Library::check`] then checks that the library, or a
//! library that it loads, declares every name in it. Errors of both functions state the line.
//!
//! Bounds: [`BYTES_MAX`] for the text, and [`NESTING_MAX`] for types within types. Document type declarations, and
//! therefore entities, are refused.
//!
//! *Decision*: the schema requires an order of elements; we read them in any order. Elements that the schema does not
//! permit, or that occur too often, are errors.

mod check;
mod class;
mod data_type;
mod element;
mod error;

use self::element::{Element, Often};
pub use self::error::{Fault, XmlError};
pub use weir_model::class::Condition;

/// Maximum length of a library in bytes.
pub const BYTES_MAX: usize = 4 << 20;
/// Maximum nesting of types in a declaration. Without this limit, the author would choose the depth.
pub const NESTING_MAX: usize = 16;

/// Namespaces of libraries, of RFC 5812 and of RFC 7408.
pub(crate) const NAMESPACES: [&str; 2] = [
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.0",
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.1",
];

/// A library of declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// Name by which other libraries load this library.
    pub provides: Option<String>,
    /// Purpose of the library.
    pub description: Option<String>,
    /// Libraries whose declarations this library uses.
    pub loads: Vec<Load>,
    /// Kinds of packets.
    pub frames: Vec<Frame>,
    /// Types.
    pub types: Vec<TypeDef>,
    /// Metadata of packets.
    pub metadata: Vec<MetadataDef>,
    /// LFB classes.
    pub classes: Vec<Class>,
}

/// A reference to another library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name of the library.
    pub library: String,
    /// A hint for its location.
    pub location: Option<String>,
}

/// The common part of all declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doc {
    /// Name of the declared item.
    pub name: String,
    /// A summary in one sentence.
    pub synopsis: String,
    /// A longer description.
    pub description: Option<String>,
    /// First line of the declaration.
    pub line: u32,
}

/// A kind of packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name and descriptions.
    pub doc: Doc,
}

/// A named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef {
    /// Name and descriptions.
    pub doc: Doc,
    /// The type.
    pub ty: Type,
}

/// A metadatum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataDef {
    /// Name and descriptions.
    pub doc: Doc,
    /// Metadatum ID; IDs from 0x80000000 are private.
    pub id: u32,
    /// Type of the value.
    pub ty: Type,
}

/// The type of a component, or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A built-in type or a named type.
    Ref(TypeRef),
    /// A number or a string with restrictions.
    Atomic(Atomic),
    /// A table.
    Array(Box<Array>),
    /// Several values.
    Struct(Struct),
    /// One of several values.
    Union(Struct),
    /// A reference to another component.
    Alias(TypeRef),
}

/// A reference to a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// A type of the model.
    Basic(Basic),
    /// A declared type.
    Named(String),
}

/// The types that the model defines (RFC 5812, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basic {
    /// Signed 8-bit integer.
    Char,
    /// Unsigned 8-bit integer.
    Uchar,
    /// Signed 16-bit integer.
    Int16,
    /// Unsigned 16-bit integer.
    Uint16,
    /// Signed 32-bit integer.
    Int32,
    /// Unsigned 32-bit integer.
    Uint32,
    /// Signed 64-bit integer.
    Int64,
    /// Unsigned 64-bit integer.
    Uint64,
    /// True or false.
    Boolean,
    /// 32-bit floating point.
    Float32,
    /// 64-bit floating point.
    Float64,
    /// A fixed number of bytes.
    Bytes(u32),
    /// Text, with its maximum length in bytes if there is one.
    Text(Option<u32>),
    /// A variable number of bytes, with their maximum if there is one.
    Octets(Option<u32>),
}

/// A number or a string with restrictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// The type that the restrictions apply to.
    pub base: TypeRef,
    /// The permitted ranges, both ends included; if empty, all values are permitted.
    pub ranges: Vec<(i128, i128)>,
    /// Values with a name.
    pub special: Vec<Special>,
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Special {
    /// The value.
    pub value: i128,
    /// Name and descriptions.
    pub doc: Doc,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Number of rows.
    pub size: Size,
    /// The type of a row.
    pub element: Type,
    /// Keys that select rows by content.
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
    /// The fields, as paths of member names from the outermost member inwards; an empty path means the row itself.
    pub fields: Vec<Vec<String>>,
    /// First line of the declaration.
    pub line: u32,
}

/// Values with names and IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Struct {
    /// Name of another struct or union, whose members this one inherits.
    pub derived_from: Option<String>,
    /// Members, in the order of the library.
    pub members: Vec<Component>,
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

/// A component, a capability, or a member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Component ID, used in paths.
    pub id: u32,
    /// Name and descriptions.
    pub doc: Doc,
    /// The permitted access; a member without an access of its own inherits that of its parent.
    pub access: Option<Access>,
    /// Whether an FE may lack the component.
    pub optional: bool,
    /// Type of the component.
    pub ty: Type,
    /// Initial value.
    pub default: Option<String>,
}

/// An LFB class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Class ID.
    pub id: u32,
    /// Name and descriptions.
    pub doc: Doc,
    /// Version, such as "1.0".
    pub version: String,
    /// Name of another class, whose declarations this class inherits.
    pub derived_from: Option<String>,
    /// The inputs for packets.
    pub inputs: Vec<InputPort>,
    /// The outputs for packets.
    pub outputs: Vec<OutputPort>,
    /// Components of the class.
    pub components: Vec<Component>,
    /// Capabilities of the class, which an FE reports.
    pub capabilities: Vec<Component>,
    /// First ID of the paths of the class's events.
    pub events_base: Option<u32>,
    /// Events of the class.
    pub events: Vec<Event>,
}

/// An input for packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPort {
    /// Name and descriptions.
    pub doc: Doc,
    /// Whether the input is a group of ports.
    pub group: bool,
    /// The kinds of packets that the input accepts.
    pub frames: Vec<String>,
    /// Required metadata: one metadatum of each inner list.
    pub metadata: Vec<Vec<ExpectedMetadata>>,
}

/// A metadatum that an input expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMetadata {
    /// Name of the metadatum.
    pub name: String,
    /// Value for packets that lack the metadatum; `None` means that packets must carry it.
    pub default: Option<String>,
}

/// An output for packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPort {
    /// Name and descriptions.
    pub doc: Doc,
    /// Whether the output is a group of ports.
    pub group: bool,
    /// The kinds of packets that the output emits.
    pub frames: Vec<String>,
    /// The metadata that the output adds, and whether it always does so.
    pub metadata: Vec<(String, bool)>,
}

/// An event that an FE can report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Event ID, which follows the base of the class's events in paths.
    pub id: u32,
    /// Name and descriptions.
    pub doc: Doc,
    /// Path of the watched component.
    pub target: Vec<Step>,
    /// The condition that triggers the event.
    pub condition: Condition,
    /// Paths of the reported components.
    pub reports: Vec<Vec<Step>>,
}

/// A step of the path to a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A component or a member.
    Field(String),
    /// A row.
    Row(u32),
    /// Any row; the name is only for human readers.
    AnyRow(String),
}

impl Library {
    /// Reads a library.
    pub fn read(text: &str) -> Result<Self, XmlError> {
        let error = |line, fault| XmlError { line, fault };
        if text.len() > BYTES_MAX {
            return Err(error(1, Fault::TooLong(text.len())));
        }
        let document = roxmltree::Document::parse(text)
            .map_err(|e| error(e.pos().row, Fault::NotXml(e.to_string())))?;
        let root = Element::root(&document);
        if root.name() != "LFBLibrary" || !NAMESPACES.contains(&root.namespace()) {
            return Err(root.error(Fault::NoLibrary(root.name().into())));
        }
        Self::read_root(&root)
    }

    fn read_root(root: &Element<'_>) -> Result<Self, XmlError> {
        let optional = Often::AtMostOnce;
        root.expect(&[
            ("description", optional),
            ("load", Often::Any),
            ("frameDefs", optional),
            ("dataTypeDefs", optional),
            ("metadataDefs", optional),
            ("LFBClassDefs", optional),
        ])?;
        let library = Self {
            provides: root.attribute("provides"),
            description: root.optional_text("description"),
            loads: root.each("load", |load| {
                load.expect(&[])?;
                Ok(Load {
                    library: load.need_attribute("library")?,
                    location: load.attribute("location"),
                })
            })?,
            frames: root.each_within("frameDefs", "frameDef", |frame| {
                frame.expect(&element::DOC)?;
                Ok(Frame { doc: frame.doc()? })
            })?,
            types: root.each_within("dataTypeDefs", "dataTypeDef", data_type::read_def)?,
            metadata: root.each_within("metadataDefs", "metadataDef", data_type::read_metadata)?,
            classes: root.each_within("LFBClassDefs", "LFBClassDef", class::read)?,
        };
        library.check_repeated()?;
        Ok(library)
    }

    /// The declaration of a type of this library.
    pub fn named_type(&self, name: &str) -> Option<&TypeDef> {
        self.types.iter().find(|def| def.doc.name == name)
    }

    /// The declaration of a class of this library.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.doc.name == name)
    }
}
