//! A network layer besides IP: its part of a scenario.

use std::any::Any;
use std::fmt::Debug;

use super::key::Key;
use crate::added::Added;

/// The layer's part of a checked scenario.
pub trait Layer: Any + Debug + Send + Sync {
    /// Whether both are the same.
    fn equals(&self, other: &dyn Layer) -> bool;

    /// The indices of the links that fail, or work again, during a run.
    fn failing_links(&self) -> Vec<usize>;
}

impl PartialEq for dyn Layer {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// Sections of a layer: their title, as in `domain.NAME`, the things that they describe, and their keys.
pub type Sections = (&'static str, &'static str, &'static [&'static Key]);

/// The sections of other crates.
pub(crate) static SECTIONS: Added<Sections> = Added::new();
