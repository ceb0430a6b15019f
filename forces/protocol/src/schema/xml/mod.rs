//! LFB classes from a library in XML: RFC 5812, section 4, with RFC 7408.
//!
//! ```text
//!  <LFBLibrary>
//!    load                               Library: the libraries that it loads
//!    frameDefs, metadataDefs            checked only
//!    dataTypeDefs                       types: atomic, array, struct, union, alias
//!    LFBClassDefs                       Class: components, capabilities, events; ports are checked only
//! ```
//!
//! A name is replaced by its declaration, in this library or in a library that it loads, wherever the name is read.
//! Errors state the line.
//!
//! Bounds: [`BYTES_MAX`] for the text, [`NESTING_MAX`] for types within types, [`PARTS_MAX`](super::PARTS_MAX) for a
//! class. Document type declarations, and therefore entities, are refused.
//!
//! *Decision*: the schema requires an order of elements; we read them in any order. Elements that the schema does not
//! permit, or that occur too often, are errors.
//!
//! *Decision*: a derived class or struct may redeclare a part of its parent, with the same ID and name; the new
//! declaration replaces the inherited one. A part that shares only the ID or only the name is an error.

mod class;
mod data_type;
mod element;
mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use roxmltree::Document;

use self::data_type::TYPES;
use self::element::{DOC, Element, Often};
use self::error::Fault;
pub(super) use self::error::XmlError;
use super::{Access, Class, Component};

/// Maximum length of a library in bytes.
const BYTES_MAX: usize = 4 << 20;
/// Maximum nesting of types in a declaration, and of classes that are derived from each other. Without this limit, the
/// author would choose the depth.
const NESTING_MAX: usize = 16;
/// Maximum depth of a layout: nested types, inline or by name.
const DEPTH_MAX: usize = 2 * NESTING_MAX;
/// Namespaces of libraries, of RFC 5812 and of RFC 7408.
pub(crate) const NAMESPACES: [&str; 2] = [
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.0",
    "urn:ietf:params:xml:ns:forces:lfbmodel:1.1",
];

/// A library.
#[derive(Clone, Debug)]
pub(super) struct Library {
    /// Name by which other libraries load this library.
    pub(super) provides: Option<String>,
    /// Names of the libraries whose declarations this library uses.
    pub(super) loads: Vec<String>,
    text: String,
}

impl Library {
    /// Reads the head of a library.
    pub(super) fn read(text: &str) -> Result<Self, XmlError> {
        let document = parse(text)?;
        let root = Element::root(&document);
        if root.name() != "LFBLibrary" || !NAMESPACES.contains(&root.namespace()) {
            return Err(root.error(Fault::NoLibrary(root.name().into())));
        }
        let optional = Often::AtMostOnce;
        root.expect(&[
            ("description", optional),
            ("load", Often::Any),
            ("frameDefs", optional),
            ("dataTypeDefs", optional),
            ("metadataDefs", optional),
            ("LFBClassDefs", optional),
        ])?;
        let loads = root.each("load", |load| {
            load.expect(&[])?;
            load.need_attribute("library")
        })?;
        Ok(Self {
            provides: root.attribute("provides"),
            loads,
            text: text.to_owned(),
        })
    }

    /// The classes, each with its line. Names are declared here or in `loaded`, of which the first has precedence.
    pub(super) fn classes(&self, loaded: &[&Self]) -> Result<Vec<(u32, Class)>, XmlError> {
        let document = parse(&self.text)?;
        let loaded = loaded.iter().map(|library| parse(&library.text));
        let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
        let root = Element::root(&document);
        let mut reader = Reader {
            types: BTreeMap::new(),
            classes: BTreeMap::new(),
            loads: &self.loads,
            parts: 0,
            above: Vec::new(),
        };
        let classes = reader.declare(&root)?;
        for document in &loaded {
            reader.declare(&Element::root(document))?;
        }
        root.each_within("frameDefs", "frameDef", |frame| {
            frame.expect(&DOC)?;
            frame.doc()
        })?;
        reader.check_types(&root)?;
        let classes = classes.into_iter();
        let classes = classes.map(|class| Ok((class.line(), reader.class(class)?)));
        classes.collect()
    }
}

fn parse(text: &str) -> Result<Document<'_>, XmlError> {
    if text.len() > BYTES_MAX {
        let fault = Fault::TooLong(text.len());
        return Err(XmlError { line: 1, fault });
    }
    Document::parse(text).map_err(|error| XmlError {
        line: error.pos().row,
        fault: Fault::NotXml(error.to_string()),
    })
}

/// Reads declarations of a library.
struct Reader<'a> {
    /// The declarations of the library, and of the libraries that it loads, by name.
    types: BTreeMap<String, Element<'a>>,
    classes: BTreeMap<String, Element<'a>>,
    loads: &'a [String],
    /// Number of parts of the class so far.
    parts: usize,
    /// Names of the types around the place of reading.
    above: Vec<String>,
}

/// The place of a type in its declaration.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The declaration, component or member, for errors.
    at: Element<'a>,
    /// Number of types around this one, and their maximum within the declaration.
    depth: usize,
    depth_max: usize,
    /// The access that members inherit.
    access: Access,
}

impl<'a> Scope<'a> {
    fn of(at: Element<'a>) -> Self {
        Self {
            at,
            depth: 0,
            depth_max: NESTING_MAX,
            access: Access::default(),
        }
    }
}

impl<'a> Reader<'a> {
    /// Adds the declarations of a library, unless their names are known; returns the classes.
    fn declare(&mut self, root: &Element<'a>) -> Result<Vec<Element<'a>>, XmlError> {
        let types = root.each_within("dataTypeDefs", "dataTypeDef", |def| {
            def.expect(&[&DOC[..], &TYPES, &[("defaultValue", Often::AtMostOnce)]].concat())?;
            Ok((def.doc()?.0, def))
        })?;
        unique("the type", types.iter().map(|(name, def)| (name, *def)))?;
        let classes = root.each_within("LFBClassDefs", "LFBClassDef", |class| {
            Ok((class.doc()?.0, class))
        })?;
        let names = classes.iter().map(|(name, class)| (name, *class));
        unique("the class", names)?;
        let ids = classes
            .iter()
            .map(|(_, class)| Ok((class::id(class)?, *class)));
        let ids = ids.collect::<Result<Vec<_>, XmlError>>()?;
        unique("the class ID", ids.iter().copied())?;
        for (names, all) in [(&mut self.types, types), (&mut self.classes, classes)] {
            for (name, element) in all {
                names.entry(name).or_insert(element);
            }
        }
        Ok(ids.into_iter().map(|(_, class)| class).collect())
    }

    fn undeclared(&self, what: &'static str, name: &str, at: Element<'a>) -> XmlError {
        at.error(Fault::Undeclared {
            what,
            name: name.to_owned(),
            loads: self.loads.to_vec(),
        })
    }
}

/// Checks that these IDs or names are unique.
fn unique<'a, T: Ord + Display>(
    what: &'static str,
    values: impl IntoIterator<Item = (T, Element<'a>)>,
) -> Result<(), XmlError> {
    let mut seen = BTreeSet::new();
    for (value, at) in values {
        let text = value.to_string();
        if !seen.insert(value) {
            return Err(at.repeated(what, text));
        }
    }
    Ok(())
}

/// Adds a part, or replaces an inherited part with the same ID and name.
fn add(parts: &mut Vec<Component>, part: Component, at: Element<'_>) -> Result<(), XmlError> {
    let known = |known: &&mut Component| known.id == part.id || known.name == part.name;
    match parts.iter_mut().find(known) {
        Some(known) if known.id == part.id && known.name == part.name => *known = part,
        Some(_) => return Err(at.repeated("the ID or name of component", part.id)),
        None => parts.push(part),
    }
    Ok(())
}
