//! What other crates add: a paper with its results and measurements, and the network layer that it describes.

use std::sync::OnceLock;

use crate::layer::{Check, Sections};
use crate::metrics::Metric;
use crate::reproduce::recipe::Paper;

/// What a crate adds.
#[derive(Debug)]
pub struct Extension {
    /// Its paper.
    pub paper: fn() -> Paper,
    /// The sections of its network layer in a scenario.
    pub sections: &'static [Sections],
    /// The reader of these sections.
    pub check: Check,
    /// The metrics of its network layer.
    pub metrics: &'static [Metric],
}

static EXTENSIONS: OnceLock<&[&Extension]> = OnceLock::new();

/// Adds extensions. A program calls this once, before everything else.
pub fn extend(by: &'static [&'static Extension]) {
    EXTENSIONS.get_or_init(|| by);
}

/// All extensions.
pub(crate) fn extensions() -> impl Iterator<Item = &'static Extension> {
    EXTENSIONS.get().into_iter().copied().flatten().copied()
}
