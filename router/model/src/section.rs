//! A configuration as a tree of sections: each is a block with the parameters of its class.
//!
//! ```text
//!   mode = ..                        the root
//!   [port.NAME]                      a section with instances, which the operator names
//!   discipline = { kind = .., .. }   a section within, whose class is chosen by its `kind`
//! ```
//!
//! The configuration reader with its errors, the JSON Schema and the reference page are all derived from these
//! declarations: none of them names a key.

use std::collections::BTreeMap;

use weir_base::setting::{Scalar, unknown};

use crate::fault::ResultCode;
use crate::{Change, Class, ComponentPath, Fault};

/// A section.
#[derive(Debug)]
pub struct Section {
    /// Key within the enclosing section; empty for the root.
    pub key: &'static str,
    /// Whether the section has instances: a name follows its key.
    pub has_instances: bool,
    /// Meaning, in a sentence or two.
    pub about: &'static str,
    /// Class of the section; if there are several, `kind` selects one.
    pub classes: fn() -> Vec<Class>,
    /// Name of the class of a section without `kind`; empty if there is only one class.
    pub kind_default: &'static str,
    /// The error for a single value in place of the section.
    pub no_value: fn(&ComponentPath, &Scalar) -> String,
    /// Subsections.
    pub sections: &'static [&'static Section],
}

/// A change, resolved by the declarations.
#[derive(Clone, Copy, Debug)]
pub struct Set<'c> {
    /// Section of the change.
    pub section: &'static Section,
    /// Instance of the section, or of an enclosing section.
    pub instance: Option<&'c str>,
    /// Name and value of a parameter, both unchecked; `None` creates the section.
    pub parameter: Option<(&'c str, &'c Scalar)>,
}

/// Parameters of one block: names and values, unchecked.
pub type Given<'c> = Vec<(&'c str, &'c Scalar)>;

/// Parameters by block. The block is named by its instance (if its section has instances) and the key of its section.
pub type Blocks<'c> = BTreeMap<(Option<&'c str>, &'static str), Given<'c>>;

/// The declaration that a path refers to.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// Section that the path refers to.
    pub section: &'static Section,
    /// Instance of the section, or of an enclosing section.
    pub instance: Option<&'p str>,
    /// Name of a parameter, unchecked; `None` for the section itself.
    pub parameter: Option<&'p str>,
}

impl Section {
    /// The innermost section that a path leads to, its instance, and the rest of the path.
    pub fn enter<'p, 's>(
        &'static self,
        segments: &'s [&'p str],
    ) -> (&'static Self, Option<&'p str>, &'s [&'p str]) {
        let (mut section, mut instance, mut rest) = (self, None, segments);
        while let [key, below @ ..] = rest
            && let Some(found) = section.sections.iter().find(|s| s.key == *key)
        {
            (section, rest) = (found, below);
            if let (true, [name, below @ ..]) = (found.has_instances, rest) {
                (instance, rest) = (Some(*name), below);
            }
        }
        (section, instance, rest)
    }

    /// Finds the declaration that a path refers to.
    pub fn find<'p>(&'static self, path: &'p ComponentPath) -> Result<Place<'p>, Fault> {
        let segments = path.segments();
        let (section, instance, rest) = self.enter(&segments);
        if let [key, _, ..] = rest {
            let known = &segments[..=segments.len() - rest.len()];
            return Err(no_section(section, key, known));
        }
        Ok(Place {
            section,
            instance,
            parameter: rest.first().copied(),
        })
    }

    /// Finds the block that a change applies to.
    pub fn set<'c>(&'static self, change: &'c Change) -> Result<Set<'c>, Fault> {
        let Change { path, value } = change;
        let Place {
            section,
            instance,
            parameter,
        } = self.find(path)?;
        let parameter = match (parameter, value) {
            (Some(name), Some(value)) => Some((name, value)),
            (Some(name), None) => return Err(no_section(section, name, &path.segments())),
            (None, Some(value)) => {
                return Err(Fault::new(path.clone(), (section.no_value)(path, value)));
            }
            (None, None) => None,
        };
        Ok(Set {
            section,
            instance,
            parameter,
        })
    }

    /// Groups changes by block, in their order. A change that applies to no block yields a fault.
    pub fn sorted<'c>(
        &'static self,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> (Blocks<'c>, Vec<Fault>) {
        let (mut blocks, mut faults) = (Blocks::new(), Vec::new());
        for change in changes {
            match self.set(change) {
                Ok(set) if set.section.has_instances && set.instance.is_none() => {} // an empty [port]
                Ok(set) => {
                    let block = (set.instance, set.section.key);
                    blocks.entry(block).or_default().extend(set.parameter);
                }
                Err(fault) => faults.push(fault),
            }
        }
        (blocks, faults)
    }

    /// The class that `is_it` accepts, among the classes of this section and of its subsections, and the path of its
    /// block in the instance of this name.
    pub fn block(
        &self,
        instance: &str,
        is_it: &dyn Fn(&Class) -> bool,
    ) -> Option<(Class, ComponentPath)> {
        self.block_below(&ComponentPath::default(), instance, is_it)
    }

    fn block_below(
        &self,
        above: &ComponentPath,
        instance: &str,
        is_it: &dyn Fn(&Class) -> bool,
    ) -> Option<(Class, ComponentPath)> {
        let mut block = above.clone();
        if !self.key.is_empty() {
            block = block.join(self.key);
        }
        if self.has_instances {
            block = block.join(instance);
        }
        let found = (self.classes)().into_iter().find(is_it);
        let found = found.map(|class| (class, block.clone()));
        let mut below = self.sections.iter();
        found.or_else(|| below.find_map(|section| section.block_below(&block, instance, is_it)))
    }
}

/// The fault of a path with an unknown section `key`; `path` ends with this key.
fn no_section(section: &Section, key: &str, path: &[&str]) -> Fault {
    let error = unknown(key, section.sections.iter().map(|section| section.key));
    Fault::new(ComponentPath::new(path.iter().copied()), error).code(ResultCode::InvalidPath)
}
