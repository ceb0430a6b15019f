//! The LFB classes that an element knows, by ID and by name.
//!
//! A class may be declared twice: by a library that repeats a declaration of the standard, or in another version, with
//! more or fewer components. The registry uses the highest version, and of equal versions the first. If a component or
//! event that both declarations have differs in name or layout, the second declaration is refused as a contradiction.
//! Differences in descriptions, ranges, defaults and access are permitted: an erratum of RFC 5812 changes an access,
//! and libraries disagree about it.

use std::collections::BTreeMap;
use std::fmt;

use weir_base::setting::{did_you_mean, nearest};

use super::xml::{Library, XmlError};
use super::{Access, Class, Component, EXTENSION, Kind, member};
use crate::standard;

/// Classes by ID and by name, and the libraries that declare them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    classes: BTreeMap<u32, Class>,
    libraries: Vec<Library>,
}

/// Why a class or a library was refused, or was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryError {
    /// The line of the library; `None` if the error has no line.
    pub line: Option<u32>,
    /// The error, in one sentence.
    pub message: String,
}

impl RegistryError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
        }
    }
}

impl From<XmlError> for RegistryError {
    fn from(error: XmlError) -> Self {
        Self {
            line: Some(error.line),
            message: error.fault.to_string(),
        }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for RegistryError {}

impl Registry {
    /// A registry with the classes of the standards.
    pub fn standard() -> Self {
        let mut registry = Self::default();
        for text in standard::LIBRARIES {
            if let Err(error) = registry.load(text) {
                unreachable!("a library of the standards: {error}");
            }
        }
        registry
    }

    /// Adds a class. A class that is already registered changes nothing; a class that contradicts a registered one is
    /// an error.
    pub fn add(&mut self, class: Class) -> Result<(), RegistryError> {
        self.check(&class)?;
        self.keep(class);
        Ok(())
    }

    /// Adds all classes of a library in XML, or none, and returns their IDs. The libraries that it loads must have been
    /// loaded before.
    pub fn load(&mut self, text: &str) -> Result<Vec<u32>, RegistryError> {
        let library = Library::read(text)?;
        let classes = library.classes(&self.loaded_by(&library))?;
        for (line, class) in &classes {
            let line = Some(*line);
            self.check(class)
                .map_err(|error| RegistryError { line, ..error })?;
        }
        let ids = classes.iter().map(|(_, class)| class.id).collect();
        for (_, class) in classes {
            self.keep(class);
        }
        self.libraries.push(library);
        Ok(ids)
    }

    /// Registers a class that was checked, unless this or a higher version is already registered.
    fn keep(&mut self, class: Class) {
        let known = self.classes.get(&class.id);
        if known.is_none_or(|known| version(known) < version(&class)) {
            self.classes.insert(class.id, class);
        }
    }

    /// The libraries that a library loads, directly or indirectly; of several with the same name, the latest comes
    /// first.
    fn loaded_by(&self, library: &Library) -> Vec<&Library> {
        let mut found: Vec<&Library> = Vec::new();
        let mut names: Vec<&str> = library.loads.iter().map(String::as_str).collect();
        while let Some(name) = names.pop() {
            let known = self.libraries.iter().rev();
            for known in known.filter(|known| known.provides.as_deref() == Some(name)) {
                if !found.iter().any(|library| std::ptr::eq(*library, known)) {
                    names.extend(known.loads.iter().map(String::as_str));
                    found.push(known);
                }
            }
        }
        found
    }

    /// Checks that a class does not contradict a registered class.
    fn check(&self, class: &Class) -> Result<(), RegistryError> {
        let Class { id, name, .. } = class;
        if let Some(known) = self.classes.get(id) {
            return match difference(known, class) {
                None => Ok(()),
                Some(what) => Err(RegistryError::new(format!(
                    "the class {name} ({id}) differs from {}, the known class with this ID, in {what}",
                    known.name
                ))),
            };
        }
        match self
            .all()
            .find(|known| known.short_name() == class.short_name())
        {
            None => Ok(()),
            Some(known) => Err(RegistryError::new(format!(
                "the class {name} has the ID {id}, but a known class of this name has {}",
                known.id
            ))),
        }
    }

    /// The class with this ID.
    pub fn get(&self, id: u32) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// All classes, by ID.
    pub fn all(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }

    /// The class that a word identifies: by its name, with or without `Ext-`, or by its ID in decimal or after `0x`.
    pub fn find(&self, word: &str) -> Result<&Class, RegistryError> {
        let short = word.strip_prefix(EXTENSION).unwrap_or(word);
        let named = self.all().find(|class| class.short_name() == short);
        let id = match word.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        };
        named.or_else(|| self.get(id?)).ok_or_else(|| {
            let near = did_you_mean(nearest(short, self.all().map(Class::short_name)));
            let message = format!("there is no class `{word}`{near}");
            RegistryError {
                line: None,
                message,
            }
        })
    }
}

/// The major and minor number of a version.
fn version(class: &Class) -> (u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let (major, minor) = class
        .version
        .split_once('.')
        .unwrap_or((&class.version, "0"));
    (number(major), number(minor))
}

/// The first part in which two declarations of a class contradict each other; `None` if all their common parts agree.
fn difference(known: &Class, other: &Class) -> Option<String> {
    if known.short_name() != other.short_name() {
        return Some("its name".to_owned());
    }
    let (known, other) = (bare(known), bare(other));
    let component = other.components.iter().find(|component| {
        member(&known.components, component.id).is_some_and(|known| known != *component)
    });
    let event = other.events.iter().find(|event| {
        known
            .events
            .iter()
            .any(|known| known.id == event.id && known != *event)
    });
    let (a, b) = (known.events_base, other.events_base);
    match (component, event) {
        (Some(component), _) => Some(format!(
            "its component {} ({})",
            component.name, component.id
        )),
        (_, Some(event)) => Some(format!("its event {} ({})", event.name, event.id)),
        _ if a.is_some() && b.is_some() && a != b => Some("the base ID of its events".to_owned()),
        _ => None,
    }
}

/// A class without the parts that a peer cannot see on the wire: descriptions, ranges, defaults and access.
fn bare(class: &Class) -> Class {
    let mut class = class.clone();
    class.components.iter_mut().for_each(bare_component);
    class
        .events
        .iter_mut()
        .for_each(|event| event.about.clear());
    class
}

fn bare_component(component: &mut Component) {
    component.about.clear();
    component.access = Access::ReadWrite;
    component.optional = false;
    component.default = None;
    bare_kind(&mut component.kind);
}

fn bare_kind(kind: &mut Kind) {
    match kind {
        Kind::Number(number) => {
            number.ranges.clear();
            number.names.clear();
        }
        Kind::Struct(members) | Kind::Union(members) => {
            members.iter_mut().for_each(bare_component);
        }
        Kind::Array(array) => bare_kind(&mut array.element),
        Kind::Alias(kind) => bare_kind(kind),
        _ => {}
    }
}
