//! The LFBs of an FE: its LFBSelectors (RFC 5812, 5.2), and the names of its ports and other named sections.

use std::collections::{BTreeMap, BTreeSet};

use weir_lfb::named::Named;
use weir_library::owner;
use weir_model::Value;

/// Class and instance of the FE object.
pub(crate) const FE_OBJECT: (u32, u32) = (1, 1);
/// Class and instance of the FE protocol object.
pub(crate) const FE_PROTOCOL: (u32, u32) = (2, 1);
/// The component of the FE object that has a row for each LFB.
pub(crate) const SELECTORS: u32 = 2;
/// Maximum LFBs of one FE.
const BLOCKS_MAX: usize = 65_536;

/// The LFBs of an FE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Class and instance, by the row index in LFBSelectors.
    pub(crate) blocks: BTreeMap<u32, (u32, u32)>,
    /// Names of ports and other sections, by their kind and instance.
    pub(crate) names: BTreeMap<(Named, u32), String>,
}

impl Directory {
    /// Parses the LFBs listed in LFBSelectors; `None` if the value is not such a table.
    pub(crate) fn parse(selectors: &Value) -> Option<Self> {
        let rows: Vec<(u32, &Value)> = match selectors {
            Value::List(rows) => (0..).zip(rows).collect(),
            Value::Struct(rows) => {
                let rows = rows
                    .iter()
                    .map(|(index, row)| Some((index.parse().ok()?, row)));
                rows.collect::<Option<_>>()?
            }
            _ => return None,
        };
        let block = |(index, row): (u32, &Value)| {
            let member = |name| u32::try_from(row.whole(name)?).ok();
            Some((index, (member("LFBClassID")?, member("LFBInstanceID")?)))
        };
        let blocks: Option<BTreeMap<_, _>> = rows.into_iter().map(block).collect();
        let blocks = blocks.filter(|blocks| blocks.len() <= BLOCKS_MAX)?;
        Some(Self {
            blocks,
            names: BTreeMap::new(),
        })
    }

    /// Keeps the names of sections that still exist, until the CE reads the names again.
    pub(crate) fn keep_names(&mut self, before: &Self) {
        let blocks: BTreeSet<_> = self.blocks.values().copied().collect();
        let stays = |(kind, n): &(Named, u32)| blocks.contains(&(kind.class().id, *n));
        let names = before.names.iter().filter(|(instance, _)| stays(instance));
        self.names = names.map(|(n, name)| (*n, name.clone())).collect();
    }

    /// The instances of a class.
    pub(crate) fn instances(&self, class: u32) -> impl Iterator<Item = u32> {
        let of_class = self.blocks.values().filter(move |(c, _)| *c == class);
        of_class.map(|(_, instance)| *instance)
    }

    /// Whether the FE has an LFB.
    pub(crate) fn has(&self, block: (u32, u32)) -> bool {
        self.blocks.values().any(|other| *other == block)
    }

    /// The row of an LFB.
    pub(crate) fn row(&self, block: (u32, u32)) -> Option<u32> {
        let mut rows = self.blocks.iter();
        rows.find(|(_, other)| **other == block)
            .map(|(row, _)| *row)
    }

    /// Name of the port, or other section, to which an LFB belongs; `None` for an LFB of the whole FE.
    pub(crate) fn name_of(&self, (class, instance): (u32, u32)) -> Option<&String> {
        self.names.get(&(owner(class)?, instance))
    }

    /// Instance of the port, or other section, with this name.
    pub(crate) fn number(&self, kind: Named, name: &str) -> Option<u32> {
        let mut of_kind = self.of_kind(kind);
        of_kind.find(|(_, other)| *other == name).map(|(n, _)| n)
    }

    /// Instances and names of the sections of a kind.
    pub(crate) fn of_kind(&self, kind: Named) -> impl Iterator<Item = (u32, &str)> {
        let range = (kind, 0)..=(kind, u32::MAX);
        let of_kind = self.names.range(range);
        of_kind.map(|((_, number), name)| (*number, name.as_str()))
    }
}
