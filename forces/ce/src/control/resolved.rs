//! Paths of components, resolved for an FE.

use weir_protocol::path_selector::PathSelector;
use weir_protocol::wire::{Content, PathData};

use crate::settings::BlockId;

/// A resolved path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The LFB.
    pub(super) block: BlockId,
    /// Path within the LFB.
    pub(super) way: PathSelector,
}

impl Resolved {
    /// The path for a Query.
    pub(super) fn path(&self) -> Result<PathData, String> {
        let path = self.way.clone().path_data(Content::Empty);
        path.map_err(|e| e.to_string())
    }
}
