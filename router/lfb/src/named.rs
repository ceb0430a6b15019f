//! Sections that the operator names: ports, and sections of network layers.
//!
//! ```text
//!   [port.wan]                Port            class ports, an instance for each
//!   [LAYER.KIND.NAME]         Layer(n, kind)  the class of this kind
//! ```
//!
//! Each section is an instance of its class for a peer, and can be added and deleted while the router runs.

use weir_layer::NamedSection;
use weir_model::{Class, ComponentPath};

use crate::class::ports::PORTS;
use crate::layers::{LAYERS, joined, of_each};
use crate::section;

/// A kind of section whose instances the operator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A port.
    Port,
    /// A section of a layer: the positions in [`LAYERS`] and in [`Layer::named`](weir_layer::Layer::named).
    Layer(usize, usize),
}

const OF_LAYERS: &[Named] = &of_each!(named, Named::Port, |layer, kind| Named::Layer(layer, kind));

impl Named {
    /// All kinds; each kind depends only on the kinds before it.
    pub const ALL: [Self; 1 + OF_LAYERS.len()] = joined(&[&[Self::Port], OF_LAYERS]);

    /// ID of the name component in each of their classes.
    pub const NAME: u32 = 1;

    /// The class of its sections.
    pub fn class(self) -> &'static Class {
        self.of_layer().map_or(&PORTS.class, |of| of.class)
    }

    /// The kind whose sections are the instances of a class.
    pub fn of_class(class: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.class().id == class)
    }

    /// The path of the section with this name.
    pub fn path(self, name: &str) -> ComponentPath {
        match self {
            Self::Port => ComponentPath::new([section::PORT.key, name]),
            Self::Layer(layer, kind) => LAYERS[layer].path(kind, name),
        }
    }

    /// The words for a section of this kind in messages.
    pub fn word(self) -> &'static str {
        self.of_layer().map_or("port", |of| of.word)
    }

    /// Components of which every intended new section sets at least one: changes at a mistyped name set none of them.
    pub fn needed(self) -> &'static [&'static str] {
        self.of_layer().map_or(&["interface"], |of| of.needed)
    }

    fn of_layer(self) -> Option<&'static NamedSection> {
        match self {
            Self::Port => None,
            Self::Layer(layer, kind) => Some(&LAYERS[layer].named[kind]),
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
        let segments: Vec<&'a str> = path.segments();
        let (kind, name) = match segments[..] {
            [key, name, ..] if key == section::PORT.key => (Named::Port, name),
            [key, within, name, ..] => {
                let layer = LAYERS.iter().position(|layer| layer.section.key == key)?;
                let mut kinds = LAYERS[layer].named.iter();
                let kind = kinds.position(|kind| kind.section.key == within)?;
                (Named::Layer(layer, kind), name)
            }
            _ => return None,
        };
        Some(Self { kind, name })
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
        for other in ["port", "redirect.bc"] {
            let path = ComponentPath::new(other.split('.'));
            assert_eq!(Instance::find(&path), None, "{other}");
        }
    }
}
