//! The classes that an element knows, by ID and by name.

use std::collections::BTreeMap;
use std::fmt;

use weir_base::setting::{did_you_mean, nearest};

use super::{Class, EXTENSION};

/// Classes by ID and by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    classes: BTreeMap<u32, Class>,
}

/// Why a class or a library was refused, or not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryError {
    /// The line of the library, if it is about one.
    pub line: Option<u32>,
    /// The error in a sentence.
    pub message: String,
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
    /// Adds a class. One that is there already with the same declaration changes nothing; another one with its ID or
    /// its name is an error.
    pub fn add(&mut self, class: Class) -> Result<(), RegistryError> {
        let error = |message| RegistryError {
            line: None,
            message,
        };
        if let Some(known) = self.classes.get(&class.id) {
            return match *known == class {
                true => Ok(()),
                false => Err(error(format!(
                    "the class ID {} is that of {}, which is declared in another way",
                    class.id, known.name
                ))),
            };
        }
        if let Some(known) = self
            .all()
            .find(|known| known.short_name() == class.short_name())
        {
            return Err(error(format!(
                "the class {} has the ID {}, but {} is declared with {}",
                class.name, class.id, known.name, known.id
            )));
        }
        self.classes.insert(class.id, class);
        Ok(())
    }

    /// The class with this ID.
    pub fn get(&self, id: u32) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// Every class, by ID.
    pub fn all(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }

    /// The class that a word names: its name, with or without `Ext-`, or its ID in decimal or after `0x`.
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
