//! Addresses of components, resolved for an FE.

use weir_protocol::path_selector::PathSelector;
use weir_protocol::wire::{Content, PathData, Selector};

use crate::settings::BlockId;

/// A resolved [`Place`](crate::contract::Place).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The LFB.
    pub(super) block: BlockId,
    /// Path within the LFB.
    pub(super) way: PathSelector,
    /// First and last row of a range.
    pub(super) range: Option<(u32, u32)>,
}

impl Resolved {
    /// The path for a Query.
    pub(super) fn path(&self) -> Result<PathData, String> {
        let path = match self.range {
            Some((first, last)) => {
                let range = Selector::Range { first, last };
                PathData::new(self.way.ids.clone(), Some(range), Content::Empty)
            }
            None => self.way.clone().path_data(Content::Empty),
        };
        path.map_err(|e| e.to_string())
    }
}
