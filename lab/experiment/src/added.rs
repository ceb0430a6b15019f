//! A list to which another crate adds its part.

use std::sync::OnceLock;

/// The part of the list that another crate has added.
pub(crate) struct Added<T: 'static>(OnceLock<&'static [T]>);

impl<T> Added<T> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Adds to the list, unless it is the same again.
    pub(crate) fn add(&self, all: &'static [T]) {
        self.0.get_or_init(|| all);
    }

    /// The added part.
    pub(crate) fn all(&self) -> &'static [T] {
        self.0.get().copied().unwrap_or_default()
    }
}
