//! Classes of blocks (LFBs) as a library in XML declares them: RFC 5812, section 4, with RFC 7408.
//!
//! ```text
//!  <LFBLibrary>                       Library
//!    load, frameDefs                    loads, frames
//!    dataTypeDefs                       types: atomic, array, struct, union, alias
//!    metadataDefs                       metadata
//!    LFBClassDefs                       classes: components, capabilities, events, ports
//! ```
//!
//! [`Library::read`] reads one file into plain declarations. [`Library::check`] then says whether everything
//! that it names is there: in it, or in the libraries that it loads. Both say what is wrong in which line.
//!
//! Bounds: [`BYTES_MAX`] for the text, and [`NESTING_MAX`] for types within types. Document type declarations,
//! and with them entities, are refused.
//!
//! *Decision*: the schema demands an order of elements; we read them in any order. What the schema does not have
//! is an error, and so is what occurs too often.

mod check;
mod class;
mod data_type;
mod element;
mod error;

use self::element::{Element, Often};
pub use self::error::{Fault, XmlError};

/// The longest text of a library.
pub const BYTES_MAX: usize = 4 << 20;
/// How deep types may be nested in a declaration: the depth is the author's choice, not ours.
pub const NESTING_MAX: usize = 16;

/// Namespaces of libraries: of RFC 5812 and of RFC 7408.
const NAMESPACES: [&str; 2] = [
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.0",
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.1",
];

/// A library of declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// The name by which others load it.
    pub provides: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// The libraries whose declarations it uses.
    pub loads: Vec<Load>,
    /// Kinds of packets.
    pub frames: Vec<Frame>,
    /// Types.
    pub types: Vec<TypeDef>,
    /// Metadata of packets.
    pub metadata: Vec<MetadataDef>,
    /// Classes of blocks.
    pub classes: Vec<Class>,
}

/// Another library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its name.
    pub library: String,
    /// Where it might be.
    pub location: Option<String>,
}

/// What every declaration has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doc {
    /// Its name.
    pub name: String,
    /// A sentence.
    pub synopsis: String,
    /// More sentences.
    pub description: Option<String>,
    /// The line in which it begins.
    pub line: u32,
}

/// A kind of packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name and sentence.
    pub doc: Doc,
}

/// A named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef {
    /// Its name and sentence.
    pub doc: Doc,
    /// The type.
    pub ty: Type,
}

/// A metadatum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataDef {
    /// Its name and sentence.
    pub doc: Doc,
    /// Its ID; from 0x80000000 on IDs are private.
    pub id: u32,
    /// Its type.
    pub ty: Type,
}

/// The type of a component, or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type of its own right, or one with a name.
    Ref(TypeRef),
    /// A number or a string with restrictions.
    Atomic(Atomic),
    /// A table.
    Array(Box<Array>),
    /// Several values.
    Struct(Struct),
    /// One of several values.
    Union(Struct),
    /// Another component.
    Alias(TypeRef),
}

/// A type by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// One of the model's own.
    Basic(Basic),
    /// One that is declared.
    Named(String),
}

/// The model's own types (RFC 5812, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basic {
    /// Eight bits with a sign.
    Char,
    /// Eight bits.
    Uchar,
    /// 16 bits with a sign.
    Int16,
    /// 16 bits.
    Uint16,
    /// 32 bits with a sign.
    Int32,
    /// 32 bits.
    Uint32,
    /// 64 bits with a sign.
    Int64,
    /// 64 bits.
    Uint64,
    /// True or false.
    Boolean,
    /// A real number of 32 bits.
    Float32,
    /// A real number of 64 bits.
    Float64,
    /// This number of bytes.
    Bytes(u32),
    /// Text, with the maximum of its bytes.
    Text(Option<u32>),
    /// Bytes, with their maximum.
    Octets(Option<u32>),
}

/// A number or a string with restrictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// What it is.
    pub base: TypeRef,
    /// The values that are permitted, from the first to the second; all if there are none.
    pub ranges: Vec<(i128, i128)>,
    /// Values with a name.
    pub special: Vec<Special>,
}

/// A value with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Special {
    /// The value.
    pub value: i128,
    /// Its name and sentence.
    pub doc: Doc,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// How many rows it has.
    pub size: Size,
    /// What a row is.
    pub element: Type,
    /// What selects a row beside its index.
    pub keys: Vec<Key>,
}

/// How many rows a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This number.
    Fixed(u32),
    /// Any number, up to a maximum if there is one.
    Variable(Option<u32>),
}

/// Fields whose values select a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its ID.
    pub id: u32,
    /// The fields, as names of members from the outside in; an empty one is the row itself.
    pub fields: Vec<Vec<String>>,
    /// The line in which it begins.
    pub line: u32,
}

/// Values with names and IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Struct {
    /// Another one, whose members it has too.
    pub derived_from: Option<String>,
    /// Its members.
    pub members: Vec<Component>,
}

/// What may be done with a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// It is read.
    ReadOnly,
    /// It is read and written.
    #[default]
    ReadWrite,
    /// It is written.
    WriteOnly,
    /// It is read, and any write resets it.
    ReadReset,
    /// Any write triggers something.
    TriggerOnly,
}

/// A component, a capability, or a member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its ID, which is its place in paths.
    pub id: u32,
    /// Its name and sentence.
    pub doc: Doc,
    /// What may be done with it; none for members that do not say, which are as what they belong to.
    pub access: Option<Access>,
    /// Whether an FE may lack it.
    pub optional: bool,
    /// Its type.
    pub ty: Type,
    /// Its value before it is first written.
    pub default: Option<String>,
}

/// A class of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its ID.
    pub id: u32,
    /// Its name and sentence.
    pub doc: Doc,
    /// Its version, as "1.0".
    pub version: String,
    /// Another class, whose declarations it has too.
    pub derived_from: Option<String>,
    /// Where packets come in.
    pub inputs: Vec<InputPort>,
    /// Where packets go out.
    pub outputs: Vec<OutputPort>,
    /// Its components.
    pub components: Vec<Component>,
    /// What an FE says it can do.
    pub capabilities: Vec<Component>,
    /// The ID below which its events are.
    pub events_base: Option<u32>,
    /// Its events.
    pub events: Vec<Event>,
}

/// Where packets come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPort {
    /// Its name and sentence.
    pub doc: Doc,
    /// Whether it is several ports.
    pub group: bool,
    /// The kinds of packets that it takes.
    pub frames: Vec<String>,
    /// The metadata that packets need; of each list, one.
    pub metadata: Vec<Vec<ExpectedMetadata>>,
}

/// A metadatum that packets come with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMetadata {
    /// Its name.
    pub name: String,
    /// Its value where it may be missing.
    pub default: Option<String>,
}

/// Where packets go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPort {
    /// Its name and sentence.
    pub doc: Doc,
    /// Whether it is several ports.
    pub group: bool,
    /// The kinds of packets that leave by it.
    pub frames: Vec<String>,
    /// The metadata that it adds, and whether it always does.
    pub metadata: Vec<(String, bool)>,
}

/// Something that an FE reports when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its ID, below that of the class's events.
    pub id: u32,
    /// Its name and sentence.
    pub doc: Doc,
    /// The component that is watched.
    pub target: Vec<Step>,
    /// What has to happen to it.
    pub condition: Condition,
    /// The components that are reported.
    pub reports: Vec<Vec<Step>>,
}

/// A part of the way to a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A component or a member.
    Field(String),
    /// A row.
    Row(u32),
    /// Any row; the name is for people.
    AnyRow(String),
}

/// What has to happen for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// A row appears.
    Created,
    /// A row disappears.
    Deleted,
    /// A value changes.
    Changed,
    /// A value gets greater than the threshold.
    GreaterThan,
    /// A value gets less than the threshold.
    LessThan,
    /// A value reaches the threshold (RFC 7408).
    BecomesEqualTo,
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

    /// A type that is declared here.
    pub fn named_type(&self, name: &str) -> Option<&TypeDef> {
        self.types.iter().find(|def| def.doc.name == name)
    }

    /// A class that is declared here.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.doc.name == name)
    }
}
