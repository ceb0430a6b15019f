//! Checks that every name in a library is declared exactly once.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::{
    Array, Class, Component, Doc, Event, Fault, Key, Library, NESTING_MAX, Step, Type, TypeRef,
    XmlError,
};

impl Library {
    /// Checks that the library or `loaded` declares all types, classes, key members and event targets that the library
    /// names, and that no type contains itself.
    pub fn check(&self, loaded: &[&Library]) -> Result<(), XmlError> {
        let scope = Scope {
            library: self,
            loaded,
        };
        let mut done = BTreeSet::new();
        for def in &self.types {
            scope.check_type(&def.ty, def.doc.line)?;
            let (name, line) = (&def.doc.name, def.doc.line);
            scope.check_finite_name(name, line, &mut Vec::new(), &mut done)?;
        }
        for def in &self.metadata {
            scope.check_type(&def.ty, def.doc.line)?;
        }
        for class in &self.classes {
            if let Some(parent) = &class.derived_from
                && scope.class(parent).is_none()
            {
                return Err(scope.undeclared("class", parent, class.doc.line));
            }
            for part in class.components.iter().chain(&class.capabilities) {
                scope.check_type(&part.ty, part.doc.line)?;
            }
            for event in &class.events {
                scope.check_event(class, event)?;
            }
        }
        Ok(())
    }

    /// Checks that IDs and names are unique.
    pub(super) fn check_repeated(&self) -> Result<(), XmlError> {
        let names = |docs: Vec<&Doc>, what| unique(what, docs.iter().map(|d| (&d.name, d.line)));
        names(self.types.iter().map(|def| &def.doc).collect(), "the type")?;
        names(
            self.metadata.iter().map(|def| &def.doc).collect(),
            "the metadatum",
        )?;
        names(
            self.classes.iter().map(|class| &class.doc).collect(),
            "the class",
        )?;
        unique(
            "the metadata ID",
            self.metadata.iter().map(|def| (def.id, def.doc.line)),
        )?;
        unique(
            "the class ID",
            self.classes.iter().map(|class| (class.id, class.doc.line)),
        )?;
        for def in &self.types {
            check_type_ids(&def.ty)?;
        }
        self.classes.iter().try_for_each(check_class_ids)
    }
}

/// Checks the IDs of a class: components, capabilities and the base of events share one ID space.
fn check_class_ids(class: &Class) -> Result<(), XmlError> {
    let parts = || class.components.iter().chain(&class.capabilities);
    let base = class.events_base.map(|base| (base, class.doc.line));
    unique(
        "the ID",
        parts().map(|part| (part.id, part.doc.line)).chain(base),
    )?;
    unique(
        "the component",
        parts().map(|part| (&part.doc.name, part.doc.line)),
    )?;
    unique(
        "the event ID",
        class.events.iter().map(|event| (event.id, event.doc.line)),
    )?;
    parts().try_for_each(check_component_ids)
}

/// Checks that component 0 is not defined, because it denotes the properties of an LFB (RFC 7408, 2.5).
fn check_component_ids(part: &Component) -> Result<(), XmlError> {
    if part.id == 0 {
        return Err(XmlError {
            line: part.doc.line,
            fault: Fault::Value {
                what: "componentID",
                found: "0".into(),
                permitted: "a number from 1 to 4294967295",
            },
        });
    }
    check_type_ids(&part.ty)
}

fn check_type_ids(ty: &Type) -> Result<(), XmlError> {
    match ty {
        Type::Struct(of) | Type::Union(of) => {
            unique("the ID", of.members.iter().map(|m| (m.id, m.doc.line)))?;
            unique(
                "the member",
                of.members.iter().map(|m| (&m.doc.name, m.doc.line)),
            )?;
            of.members.iter().try_for_each(check_component_ids)
        }
        Type::Array(array) => {
            unique("the key", array.keys.iter().map(|key| (key.id, key.line)))?;
            check_type_ids(&array.element)
        }
        Type::Ref(_) | Type::Atomic(_) | Type::Alias(_) => Ok(()),
    }
}

fn unique<T: Ord + Display>(
    what: &'static str,
    values: impl Iterator<Item = (T, u32)>,
) -> Result<(), XmlError> {
    let mut seen = BTreeSet::new();
    for (value, line) in values {
        let text = value.to_string();
        if !seen.insert(value) {
            let value = text;
            return Err(XmlError {
                line,
                fault: Fault::Repeated { what, value },
            });
        }
    }
    Ok(())
}

/// A library and the libraries that it loads.
struct Scope<'a> {
    library: &'a Library,
    loaded: &'a [&'a Library],
}

impl<'a> Scope<'a> {
    fn libraries(&self) -> impl Iterator<Item = &'a Library> + use<'a> {
        [self.library]
            .into_iter()
            .chain(self.loaded.iter().copied())
    }

    fn class(&self, name: &str) -> Option<&'a Class> {
        self.libraries().find_map(|library| library.class(name))
    }

    fn named(&self, name: &str, line: u32) -> Result<&'a Type, XmlError> {
        let def = self
            .libraries()
            .find_map(|library| library.named_type(name));
        Ok(&def.ok_or_else(|| self.undeclared("type", name, line))?.ty)
    }

    fn undeclared(&self, what: &'static str, name: &str, line: u32) -> XmlError {
        XmlError {
            line,
            fault: Fault::Undeclared {
                what,
                name: name.into(),
                loads: self
                    .library
                    .loads
                    .iter()
                    .map(|load| load.library.clone())
                    .collect(),
            },
        }
    }

    /// Checks that every type named in this type is declared.
    fn check_type(&self, ty: &Type, line: u32) -> Result<(), XmlError> {
        match ty {
            Type::Ref(named) | Type::Alias(named) => self.check_ref(named, line),
            Type::Atomic(atomic) => self.check_ref(&atomic.base, line),
            Type::Array(array) => {
                self.check_type(&array.element, line)?;
                array
                    .keys
                    .iter()
                    .try_for_each(|key| self.check_key(array, key))
            }
            Type::Struct(of) | Type::Union(of) => {
                if let Some(parent) = &of.derived_from {
                    self.named(parent, line)?;
                }
                let mut members = of.members.iter();
                members.try_for_each(|member| self.check_type(&member.ty, member.doc.line))
            }
        }
    }

    fn check_ref(&self, named: &TypeRef, line: u32) -> Result<(), XmlError> {
        match named {
            TypeRef::Basic(_) => Ok(()),
            TypeRef::Named(name) => self.named(name, line).map(|_| ()),
        }
    }

    fn check_key(&self, array: &Array, key: &Key) -> Result<(), XmlError> {
        for field in &key.fields {
            let mut ty = &array.element;
            for name in field {
                ty = self
                    .member(ty, name, key.line)?
                    .ok_or_else(|| self.undeclared("member", name, key.line))?;
            }
        }
        Ok(())
    }

    /// The type at the end of a chain of names. A type that refers to its own name is returned unresolved.
    fn resolve(&self, ty: &'a Type, line: u32) -> Result<&'a Type, XmlError> {
        let mut ty = ty;
        for _ in 0..NESTING_MAX {
            match ty {
                Type::Ref(TypeRef::Named(name)) => ty = self.named(name, line)?,
                _ => break,
            }
        }
        Ok(ty)
    }

    /// The type of a member of a struct, or of a member of its parent.
    fn member<'t>(&self, ty: &'t Type, name: &str, line: u32) -> Result<Option<&'t Type>, XmlError>
    where
        'a: 't,
    {
        let mut ty: &'t Type = match ty {
            Type::Ref(TypeRef::Named(named)) => self.resolve(self.named(named, line)?, line)?,
            other => other,
        };
        for _ in 0..NESTING_MAX {
            let (Type::Struct(of) | Type::Union(of)) = ty else {
                return Ok(None);
            };
            if let Some(member) = of.members.iter().find(|member| member.doc.name == name) {
                return Ok(Some(&member.ty));
            }
            match &of.derived_from {
                Some(parent) => ty = self.resolve(self.named(parent, line)?, line)?,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Checks that no type within this type contains itself. `above` has the names of the enclosing types, and `done`
    /// the names of types that were checked before, so that each type is checked once.
    fn check_finite(
        &self,
        ty: &'a Type,
        line: u32,
        above: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Result<(), XmlError> {
        match ty {
            Type::Ref(TypeRef::Named(name)) => self.check_finite_name(name, line, above, done),
            Type::Array(array) => self.check_finite(&array.element, line, above, done),
            Type::Struct(of) | Type::Union(of) => {
                if let Some(parent) = &of.derived_from {
                    self.check_finite_name(parent, line, above, done)?;
                }
                let mut members = of.members.iter();
                members.try_for_each(|m| self.check_finite(&m.ty, m.doc.line, above, done))
            }
            _ => Ok(()),
        }
    }

    fn check_finite_name(
        &self,
        name: &'a str,
        line: u32,
        above: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Result<(), XmlError> {
        let error = |fault| Err(XmlError { line, fault });
        if above.contains(&name) {
            return error(Fault::Endless(name.into()));
        }
        if above.len() >= NESTING_MAX {
            return error(Fault::Nesting);
        }
        if !done.contains(name) {
            above.push(name);
            self.check_finite(self.named(name, line)?, line, above, done)?;
            above.pop();
            done.insert(name);
        }
        Ok(())
    }

    /// Checks that the components in an event's target and reports are declared.
    fn check_event(&self, class: &'a Class, event: &'a Event) -> Result<(), XmlError> {
        let line = event.doc.line;
        for steps in std::iter::once(&event.target).chain(&event.reports) {
            let mut ty: Option<&Type> = None;
            for step in steps {
                let found = match (step, ty) {
                    (Step::Field(name), None) => self.component(class, name),
                    (Step::Field(name), Some(ty)) => self.member(ty, name, line)?,
                    (_, Some(ty)) => match self.resolve(ty, line)? {
                        Type::Array(array) => Some(&array.element),
                        _ => None,
                    },
                    (_, None) => None,
                };
                let (what, name) = match step {
                    Step::Field(name) => ("component", name.clone()),
                    Step::Row(row) => ("table with row", row.to_string()),
                    Step::AnyRow(name) => ("table with rows", name.clone()),
                };
                ty = Some(found.ok_or_else(|| self.undeclared(what, &name, line))?);
            }
        }
        Ok(())
    }

    /// The type of a component of a class, or of a component of its parents.
    fn component(&self, class: &'a Class, name: &str) -> Option<&'a Type> {
        let mut class = class;
        for _ in 0..NESTING_MAX {
            let mut parts = class.components.iter().chain(&class.capabilities);
            if let Some(part) = parts.find(|part| part.doc.name == name) {
                return Some(&part.ty);
            }
            class = self.class(class.derived_from.as_deref()?)?;
        }
        None
    }
}
