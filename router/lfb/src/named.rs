//! Sections that the operator names: ports, and the parts of FPF.
//!
//! ```text
//!   [port.wan]                Port                 class ports, an instance for each
//!   [fpf.interface.core]      Fpf(Interface)       class fpf_interfaces
//!   [fpf.rule.to-b]           Fpf(Rule)            class fpf_rules
//!   [fpf.encapsulation.call]  Fpf(Encapsulation)   class fpf_encapsulations
//!   [fpf.class.voice]         Fpf(Class)           class fpf_classes
//! ```
//!
//! Each section is an instance of its class for a peer, and can be added and deleted while the router runs.

use weir_model::{Class, ComponentPath};

use crate::class::fpf::class_of;
use crate::class::ports::PORTS;
use crate::fpf::Part;
use crate::section;

/// A kind of section whose instances the operator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A port.
    Port,
    /// A part of FPF.
    Fpf(Part),
}

impl Named {
    /// All kinds; each kind depends only on the kinds before it.
    pub const ALL: [Self; 5] = [
        Self::Port,
        Self::Fpf(Part::Interface),
        Self::Fpf(Part::Rule),
        Self::Fpf(Part::Encapsulation),
        Self::Fpf(Part::Class),
    ];

    /// ID of the name component in each of their classes.
    pub const NAME: u32 = 1;

    /// The class of its sections.
    pub const fn class(self) -> &'static Class {
        match self {
            Self::Port => &PORTS.class,
            Self::Fpf(part) => class_of(part),
        }
    }

    /// The kind whose sections are the instances of a class.
    pub fn of_class(class: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.class().id == class)
    }

    /// The path of the section with this name.
    pub fn path(self, name: &str) -> ComponentPath {
        match self {
            Self::Port => ComponentPath::new([section::PORT.key, name]),
            Self::Fpf(part) => part.path(name),
        }
    }

    /// The words for a section of this kind in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Fpf(Part::Interface) => "FPF interface",
            Self::Fpf(Part::Rule) => "FPF rule",
            Self::Fpf(Part::Encapsulation) => "FPF encapsulation",
            Self::Fpf(Part::Class) => "FPF class",
        }
    }

    /// Components of which every intended new section sets at least one: changes at a mistyped name set none of them.
    pub const fn needed(self) -> &'static [&'static str] {
        match self {
            Self::Port => &["interface"],
            Self::Fpf(Part::Interface) => &["port", "local"],
            Self::Fpf(Part::Rule) => &["lid", "action"],
            Self::Fpf(Part::Encapsulation) => &["vectors"],
            Self::Fpf(Part::Class) => &["kinds"],
        }
    }
}

/// A named section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance<'a> {
    /// Kind of the section.
    pub kind: Named,
    /// Name of the section.
    pub name: &'a str,
}

impl<'a> Instance<'a> {
    /// The named section that a path names or points into.
    pub fn find(path: &'a ComponentPath) -> Option<Self> {
        if let Some((part, name)) = Part::find(path) {
            let kind = Named::Fpf(part);
            return Some(Self { kind, name });
        }
        let segments: Vec<&'a str> = path.segments();
        match segments[..] {
            [key, name, ..] if key == section::PORT.key => {
                let kind = Named::Port;
                Some(Self { kind, name })
            }
            _ => None,
        }
    }

    /// The path of the section.
    pub fn path(&self) -> ComponentPath {
        self.kind.path(self.name)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Component;

    use super::*;

    #[test]
    fn every_class_has_a_name_and_what_it_needs() {
        for kind in Named::ALL {
            let class = kind.class();
            assert!(class.has_instances, "{}", class.name);
            assert_eq!(Named::of_class(class.id), Some(kind));
            let is_name = |c: &&Component| c.id == Named::NAME && class.key == [c.name];
            assert_eq!(class.components.iter().filter(is_name).count(), 1);
            for name in kind.needed() {
                assert!(class.parameters.iter().any(|p| p.name == *name), "{name}");
            }
        }
    }

    #[test]
    fn a_path_into_a_section_finds_it() {
        for kind in Named::ALL {
            let path = kind.path("x");
            let instance = Instance { kind, name: "x" };
            assert_eq!(Instance::find(&path), Some(instance));
            assert_eq!(Instance::find(&path.join("lid")), Some(instance));
            assert_eq!(instance.path(), path);
        }
        for other in ["port", "fpf.rule", "fpf.rules.x", "redirect.bc"] {
            let path = ComponentPath::new(other.split('.'));
            assert_eq!(Instance::find(&path), None, "{other}");
        }
    }
}
