//! A configuration as a tree of sections: each is a block with the parameters of its class.
//!
//! ```text
//!   mode = ..                        the root
//!   [port.NAME]                      a section with instances, which the operator names
//!   discipline = { kind = .., .. }   a section within, whose class is chosen by its `kind`
//! ```
//!
//! The reader of configurations with its errors, their JSON Schema and their reference page are made from these
//! declarations: none of them names a key.

use weir_base::setting::{Scalar, unknown};

use crate::fault::ResultCode;
use crate::{Change, Class, ComponentPath, Fault};

/// A section.
#[derive(Debug)]
pub struct Section {
    /// Its key within the section around it; empty for the root.
    pub key: &'static str,
    /// Whether it has instances: a name stands between its key and its parameters.
    pub has_instances: bool,
    /// What it is, in a sentence or two.
    pub about: &'static str,
    /// Its class; where there are several, `kind` chooses.
    pub classes: fn() -> Vec<Class>,
    /// The class of a section that names no `kind`; empty where there is one class.
    pub kind_default: &'static str,
    /// The error about a single value in place of the section.
    pub no_value: fn(&ComponentPath, &Scalar) -> String,
    /// The sections within.
    pub sections: &'static [&'static Section],
}

/// A change as the declarations understand it.
#[derive(Clone, Copy, Debug)]
pub struct Set<'c> {
    /// The section that it is in.
    pub section: &'static Section,
    /// The instance: of the section, or of one around it.
    pub instance: Option<&'c str>,
    /// The name of a parameter and its value, both unchecked; none if the section shall exist.
    pub parameter: Option<(&'c str, &'c Scalar)>,
}

impl Section {
    /// Finds the block that a change is for.
    pub fn set<'c>(&'static self, change: &'c Change) -> Result<Set<'c>, Fault> {
        let Change { path, value } = change;
        let segments = path.segments();
        let mut set = Set {
            section: self,
            instance: None,
            parameter: None,
        };
        let mut rest = &segments[..];
        while let [key, within @ ..] = rest {
            let sections = set.section.sections;
            set.section = match (sections.iter().find(|s| s.key == *key), within, value) {
                (Some(section), ..) => section,
                (None, [], Some(value)) => {
                    set.parameter = Some((key, value));
                    return Ok(set);
                }
                (None, ..) => {
                    let known = &segments[..segments.len() - within.len()];
                    let path = ComponentPath::new(known.iter().copied());
                    let error = unknown(key, sections.iter().map(|section| section.key));
                    return Err(Fault::new(path, error).code(ResultCode::InvalidPath));
                }
            };
            rest = within;
            if let (true, [name, within @ ..]) = (set.section.has_instances, rest) {
                (set.instance, rest) = (Some(*name), within);
            }
        }
        match value {
            Some(value) => Err(Fault::new(
                path.clone(),
                (set.section.no_value)(path, value),
            )),
            None => Ok(set),
        }
    }
}
