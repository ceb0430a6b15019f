//! Builds schemas of the classes of a library in XML: replaces each name by its declaration.
//!
//! *Decision*: a derived class or struct may redeclare a part of its parent, with the same ID and name; the new
//! declaration replaces the inherited one. A part that shares only the ID or only the name is an error.

use super::{
    Access, Array, Class, Component, Event, Integer, Key, Kind, Named, Number, PARTS_MAX, Size,
    Step, member,
};
use crate::xml::{
    self, Atomic, Basic, Fault, Library, NESTING_MAX, Struct, Type, TypeRef, XmlError,
};

/// Maximum depth of a layout: nested types, inline or by name.
const DEPTH_MAX: usize = 2 * NESTING_MAX;

/// The classes of `library`, whose names are declared there or in `loaded`; the caller has checked both.
pub(super) fn classes(library: &Library, loaded: &[&Library]) -> Result<Vec<Class>, XmlError> {
    let class = |class| {
        let mut resolver = Resolver {
            libraries: [&[library], loaded].concat(),
            parts: 0,
        };
        resolver.class(class, 0)
    };
    library.classes.iter().map(class).collect()
}

struct Resolver<'a> {
    /// The library, and the libraries that it loads.
    libraries: Vec<&'a Library>,
    /// Number of parts of the class so far.
    parts: usize,
}

/// The position of a part for errors, and the properties that it inherits.
#[derive(Clone, Copy)]
struct Scope {
    line: u32,
    depth: usize,
    access: Access,
}

fn error(line: u32, fault: Fault) -> XmlError {
    XmlError { line, fault }
}

impl<'a> Resolver<'a> {
    fn class(&mut self, class: &'a xml::Class, depth: usize) -> Result<Class, XmlError> {
        let line = class.doc.line;
        let mut resolved = match &class.derived_from {
            Some(_) if depth == NESTING_MAX => {
                return Err(error(line, Fault::Endless(class.doc.name.clone())));
            }
            Some(parent) => {
                let found = self
                    .libraries
                    .iter()
                    .find_map(|library| library.class(parent));
                let found = found.ok_or_else(|| self.undeclared("class", parent, line))?;
                self.class(found, depth + 1)?
            }
            None => Class {
                id: 0,
                name: String::new(),
                version: String::new(),
                about: String::new(),
                components: Vec::new(),
                events_base: None,
                events: Vec::new(),
            },
        };
        for (parts, is_capability) in [(&class.components, false), (&class.capabilities, true)] {
            for part in parts {
                let part = self.part(part, is_capability)?;
                add(&mut resolved.components, part, line)?;
            }
        }
        // Capabilities follow the components, as in a library.
        resolved.components.sort_by_key(|part| part.is_capability);
        resolved.events_base = class.events_base.or(resolved.events_base);
        if let Some(base) = resolved.events_base
            && member(&resolved.components, base).is_some()
        {
            return Err(repeated("the ID", base, line));
        }
        for event in &class.events {
            let event = self.event(&resolved.components, event)?;
            match resolved
                .events
                .iter_mut()
                .find(|known| known.id == event.id)
            {
                Some(known) if known.name == event.name => *known = event,
                Some(known) => return Err(repeated("the event ID", known.id, line)),
                None => resolved.events.push(event),
            }
        }
        resolved.id = class.id;
        resolved.name = class.doc.name.clone();
        resolved.version = class.version.clone();
        resolved.about = class.doc.synopsis.clone();
        Ok(resolved)
    }

    /// A component or a capability.
    fn part(
        &mut self,
        part: &'a xml::Component,
        is_capability: bool,
    ) -> Result<Component, XmlError> {
        let access = if is_capability {
            Access::ReadOnly
        } else {
            part.access.unwrap_or_default()
        };
        let scope = Scope {
            line: part.doc.line,
            depth: 0,
            access,
        };
        let resolved = self.component(part, scope)?;
        Ok(Component {
            access,
            is_capability,
            ..resolved
        })
    }

    /// A component or a member.
    fn component(
        &mut self,
        component: &'a xml::Component,
        scope: Scope,
    ) -> Result<Component, XmlError> {
        let line = component.doc.line;
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(error(line, Fault::TooManyParts(PARTS_MAX)));
        }
        let access = component.access.unwrap_or(scope.access);
        Ok(Component {
            id: component.id,
            name: component.doc.name.clone(),
            about: component.doc.synopsis.clone(),
            access,
            is_capability: false,
            optional: component.optional,
            kind: self.kind(
                &component.ty,
                Scope {
                    line,
                    access,
                    ..scope
                },
            )?,
            default: component.default.clone(),
        })
    }

    fn kind(&mut self, ty: &'a Type, scope: Scope) -> Result<Kind, XmlError> {
        if scope.depth == DEPTH_MAX {
            return Err(error(scope.line, Fault::Nesting));
        }
        let scope = Scope {
            depth: scope.depth + 1,
            ..scope
        };
        Ok(match ty {
            Type::Ref(named) => self.named(named, scope)?,
            Type::Alias(named) => Kind::Alias(Box::new(self.named(named, scope)?)),
            Type::Atomic(atomic) => self.atomic(atomic, scope)?,
            Type::Struct(of) => Kind::Struct(self.members(of, scope)?),
            Type::Union(of) => Kind::Union(self.members(of, scope)?),
            Type::Array(array) => {
                self.parts += 1;
                let element = self.kind(&array.element, scope)?;
                let keys = array.keys.iter().map(|key| self.key(&element, key));
                let keys = keys.collect::<Result<_, _>>()?;
                if array.size == Size::Fixed(0) {
                    return Err(empty("the length of an array", scope.line));
                }
                Kind::Array(Box::new(Array {
                    size: array.size,
                    element,
                    keys,
                }))
            }
        })
    }

    fn named(&mut self, named: &'a TypeRef, scope: Scope) -> Result<Kind, XmlError> {
        match named {
            TypeRef::Basic(Basic::Bytes(0)) => Err(empty("the length of a type", scope.line)),
            TypeRef::Basic(basic) => Ok(of_basic(*basic)),
            TypeRef::Named(name) => {
                let def = self
                    .libraries
                    .iter()
                    .find_map(|library| library.named_type(name));
                let def = def.ok_or_else(|| self.undeclared("type", name, scope.line))?;
                self.kind(&def.ty, scope)
            }
        }
    }

    /// A restricted number. Restrictions of other types do not affect the layout.
    fn atomic(&mut self, atomic: &'a Atomic, scope: Scope) -> Result<Kind, XmlError> {
        let scope = Scope {
            depth: scope.depth + 1,
            ..scope
        };
        if scope.depth >= DEPTH_MAX {
            return Err(error(scope.line, Fault::Nesting));
        }
        let base = match self.named(&atomic.base, scope)? {
            Kind::Number(base) => base,
            other => return Ok(other),
        };
        let special = atomic.special.iter().map(|special| Named {
            value: special.value,
            name: special.doc.name.clone(),
            about: special.doc.synopsis.clone(),
        });
        Ok(Kind::Number(Number {
            base: base.base,
            ranges: if atomic.ranges.is_empty() {
                base.ranges
            } else {
                atomic.ranges.clone()
            },
            names: special.chain(base.names).collect(),
        }))
    }

    fn members(&mut self, of: &'a Struct, scope: Scope) -> Result<Vec<Component>, XmlError> {
        let mut members = Vec::new();
        if let Some(parent) = &of.derived_from {
            let def = self
                .libraries
                .iter()
                .find_map(|library| library.named_type(parent));
            let def = def.ok_or_else(|| self.undeclared("type", parent, scope.line))?;
            members = match self.kind(&def.ty, scope)? {
                Kind::Struct(members) | Kind::Union(members) => members,
                _ => return Err(self.undeclared("struct", parent, scope.line)),
            };
        }
        for component in &of.members {
            let component = self.component(component, scope)?;
            add(&mut members, component, scope.line)?;
        }
        Ok(members)
    }

    fn key(&self, element: &Kind, key: &xml::Key) -> Result<Key, XmlError> {
        let field = |names: &Vec<String>| {
            let (mut kind, mut ids) = (element, Vec::new());
            for name in names {
                let members = match kind.resolved() {
                    Kind::Struct(members) | Kind::Union(members) => members,
                    _ => return Err(self.undeclared("member", name, key.line)),
                };
                let part = members.iter().find(|member| member.name == *name);
                let part = part.ok_or_else(|| self.undeclared("member", name, key.line))?;
                ids.push(part.id);
                kind = &part.kind;
            }
            Ok(ids)
        };
        Ok(Key {
            id: key.id,
            fields: key.fields.iter().map(field).collect::<Result<_, _>>()?,
        })
    }

    fn event(&self, components: &[Component], event: &xml::Event) -> Result<Event, XmlError> {
        let steps = |steps: &Vec<xml::Step>| self.steps(components, steps, event.doc.line);
        Ok(Event {
            id: event.id,
            name: event.doc.name.clone(),
            about: event.doc.synopsis.clone(),
            target: steps(&event.target)?,
            condition: event.condition,
            reports: event.reports.iter().map(steps).collect::<Result<_, _>>()?,
        })
    }

    fn steps(
        &self,
        components: &[Component],
        steps: &[xml::Step],
        line: u32,
    ) -> Result<Vec<Step>, XmlError> {
        let mut members = Some(components);
        let mut rows = None;
        let mut resolved = Vec::with_capacity(steps.len());
        for step in steps {
            let (step, kind) = match step {
                xml::Step::Field(name) => {
                    let found = members.and_then(|all| all.iter().find(|m| m.name == *name));
                    let found = found.ok_or_else(|| self.undeclared("component", name, line))?;
                    (Step::Member(found.id), &found.kind)
                }
                xml::Step::Row(row) => {
                    let array: Option<&Array> = rows;
                    let name = row.to_string();
                    let array =
                        array.ok_or_else(|| self.undeclared("table with row", &name, line))?;
                    (Step::Row(*row), &array.element)
                }
                xml::Step::AnyRow(name) => {
                    let array: Option<&Array> = rows;
                    let array =
                        array.ok_or_else(|| self.undeclared("table with rows", name, line))?;
                    (Step::AnyRow, &array.element)
                }
            };
            resolved.push(step);
            rows = kind.array();
            members = match kind.resolved() {
                Kind::Struct(members) | Kind::Union(members) => Some(members),
                _ => None,
            };
        }
        Ok(resolved)
    }

    fn undeclared(&self, what: &'static str, name: &str, line: u32) -> XmlError {
        let loads = self.libraries.first().map(|library| &library.loads);
        let fault = Fault::Undeclared {
            what,
            name: name.to_owned(),
            loads: loads
                .into_iter()
                .flatten()
                .map(|load| load.library.clone())
                .collect(),
        };
        error(line, fault)
    }
}

fn repeated(what: &'static str, id: u32, line: u32) -> XmlError {
    let value = id.to_string();
    error(line, Fault::Repeated { what, value })
}

fn empty(what: &'static str, line: u32) -> XmlError {
    let fault = Fault::Value {
        what,
        found: "0".to_owned(),
        permitted: "a number from 1 to 4294967295",
    };
    error(line, fault)
}

/// Adds a part, or replaces an inherited part with the same ID and name.
fn add(parts: &mut Vec<Component>, part: Component, line: u32) -> Result<(), XmlError> {
    let known = |known: &&mut Component| known.id == part.id || known.name == part.name;
    match parts.iter_mut().find(known) {
        Some(known) if known.id == part.id && known.name == part.name => *known = part,
        Some(_) => return Err(repeated("the ID or name of component", part.id, line)),
        None => parts.push(part),
    }
    Ok(())
}

fn of_basic(basic: Basic) -> Kind {
    let number = |base: Integer| Kind::Number(base.into());
    match basic {
        Basic::Char => number(Integer::Int8),
        Basic::Uchar => number(Integer::Uint8),
        Basic::Int16 => number(Integer::Int16),
        Basic::Uint16 => number(Integer::Uint16),
        Basic::Int32 => number(Integer::Int32),
        Basic::Uint32 => number(Integer::Uint32),
        Basic::Int64 => number(Integer::Int64),
        Basic::Uint64 => number(Integer::Uint64),
        Basic::Boolean => Kind::Flag,
        Basic::Float32 => Kind::Real32,
        Basic::Float64 => Kind::Real64,
        Basic::Bytes(len) => Kind::Bytes(len),
        Basic::Text(most) => Kind::Text(most),
        Basic::Octets(most) => Kind::Octets(most),
    }
}
