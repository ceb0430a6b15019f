//! Forwarding table rows at one FE that belong to the route service, and the edits that change its routes.
//!
//! ```text
//!   IPv4UcastLPM.1.IPv4PrefixTable   row 65536: 10.0.0.0/8 --> 65536      [`ROW_FIRST`] and behind: of the service
//!   IPv4NextHop.1.IPv4NextHopTable   row 65536: 192.0.2.1, port 2         below: of operators
//! ```
//!
//! Row numbers are not part of the desired state: after each association the CE reads which rows the FE has, and keeps
//! them. The CE never changes a next-hop row; a route with a new next hop refers to another row. So a change of one
//! route affects no other route.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_model::Value;
use weir_protocol::wire::{Content, OperationKind, PathData, ResultCode, Selector};

use crate::codec::Codec;
use crate::leaf::{self, Leaf};
use crate::settings::{BlockId, Edit};

/// First row of the service. Lower rows belong to operators (`weir set`).
pub(crate) const ROW_FIRST: u32 = 1 << 16;
/// The component that contains the rows, in all four classes.
const TABLE: u32 = 1;
/// MTU of a next hop, in bytes. weir FEs ignore it: they use the MTU of the port.
const MTU: u32 = 1500;

/// The version of the internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) const fn of(prefix: &IpNet) -> Self {
        match prefix {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// The LFB with the prefixes, and the LFB with the next hops.
    pub(crate) const fn blocks(self) -> [BlockId; 2] {
        match self {
            Self::V4 => [(10, 1), (12, 1)],
            Self::V6 => [(11, 1), (13, 1)],
        }
    }
}

/// A next hop as an FE represents it: the next router, and the instance of the port.
pub(crate) type FeNextHop = (Option<IpAddr>, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    row: u32,
    /// The row of the next hop.
    hop: u32,
}

/// The rows of one family.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    family: Family,
    prefixes: BTreeMap<IpNet, Row>,
    /// Row numbers of the prefixes.
    used: HashSet<u32>,
    hops: BTreeMap<FeNextHop, u32>,
    /// Number of prefixes that use each next hop. Every existing next-hop row has an entry.
    users: BTreeMap<u32, usize>,
    /// Prefix rows with contents that the service would not write.
    strays: Vec<u32>,
    /// Where to continue the search for a free row, for prefixes and next hops.
    cursors: [u32; 2],
}

/// A change of rows that an FE has not confirmed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    prefixes: Vec<(IpNet, Option<Row>)>,
    made: BTreeMap<FeNextHop, u32>,
    users: BTreeMap<u32, usize>,
    gone: Vec<u32>,
    cursors: Option<[u32; 2]>,
}

/// Row changes of both families.
pub(crate) type Updates = [Update; 2];

impl Rows {
    /// An empty set of rows.
    pub(crate) fn new(family: Family) -> Self {
        Self {
            family,
            prefixes: BTreeMap::new(),
            used: HashSet::new(),
            hops: BTreeMap::new(),
            users: BTreeMap::new(),
            strays: Vec::new(),
            cursors: [ROW_FIRST; 2],
        }
    }

    /// The paths to read for the rows of the service.
    pub(crate) fn reads(family: Family) -> Result<[(BlockId, OperationKind, PathData); 2], String> {
        let range = Selector::Range {
            first: ROW_FIRST,
            last: u32::MAX,
        };
        let path = PathData::new(vec![TABLE], Some(range), Content::Empty);
        let path = path.map_err(|e| e.to_string())?;
        let [prefixes, hops] = family.blocks();
        let read = |block, path| (block, OperationKind::Get, path);
        Ok([read(prefixes, path.clone()), read(hops, path)])
    }

    /// Parses the rows of an FE from its answers to [`Self::reads`].
    pub(crate) fn parse(family: Family, codec: &Codec, leaves: &[Leaf]) -> Result<Self, String> {
        let mut rows = Self::new(family);
        let [prefixes, hops] = family.blocks();
        for leaf in leaves.iter().filter(|leaf| leaf.block == hops) {
            each(codec, leaf, |row, value| {
                let gate = gate(value);
                if let Some(gate) = gate {
                    rows.hops.entry(gate).or_insert(row);
                }
                rows.users.entry(row).or_default();
            })?;
        }
        for leaf in leaves.iter().filter(|leaf| leaf.block == prefixes) {
            each(codec, leaf, |row, value| {
                rows.used.insert(row);
                match prefix(family, value) {
                    Some((prefix, hop)) if !rows.prefixes.contains_key(&prefix) => {
                        rows.prefixes.insert(prefix, Row { row, hop });
                        if let Some(users) = rows.users.get_mut(&hop) {
                            *users += 1;
                        }
                    }
                    _ => rows.strays.push(row),
                }
            })?;
        }
        Ok(rows)
    }

    /// The prefixes in the table.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &IpNet> {
        self.prefixes.keys()
    }

    /// Whether the table contains a prefix.
    pub(crate) fn has(&self, prefix: &IpNet) -> bool {
        self.prefixes.contains_key(prefix)
    }

    /// The change that gives these prefixes these next hops, or deletes them, with its edits in order: deleted
    /// prefixes, new next hops, new or changed prefixes (those on links first), deleted unused next hops. If `clean`, also deletes unneeded
    /// existing rows.
    pub(crate) fn update(
        &self,
        wanted: impl IntoIterator<Item = (IpNet, Option<FeNextHop>)>,
        clean: bool,
    ) -> Result<(Update, Vec<Edit>), String> {
        let mut update = Update {
            cursors: Some(self.cursors),
            ..Update::default()
        };
        let [prefixes, hops] = self.family.blocks();
        let (mut gone, mut set, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for (prefix, gate) in wanted {
            let before = self.prefixes.get(&prefix);
            let Some(gate) = gate else {
                if let Some(before) = before {
                    gone.push(delete(prefixes, before.row)?);
                    self.count(&mut update, before.hop, |users| users.saturating_sub(1));
                    update.prefixes.push((prefix, None));
                }
                continue;
            };
            let hop = self.hop(&mut update, gate)?;
            if before.is_some_and(|before| before.hop == hop) {
                continue;
            }
            self.count(&mut update, hop, |users| users + 1);
            let row = match before {
                Some(before) => {
                    self.count(&mut update, before.hop, |users| users.saturating_sub(1));
                    before.row
                }
                None => self.free(&mut update, 0)?,
            };
            // A gateway is reachable only once the network of its link has a route.
            let set = if gate.0.is_some() {
                &mut behind
            } else {
                &mut set
            };
            set.push(put(prefixes, row, prefix_octets(&prefix, hop))?);
            update.prefixes.push((prefix, Some(Row { row, hop })));
        }
        if clean {
            for row in &self.strays {
                gone.push(delete(prefixes, *row)?);
            }
            for hop in self.users.keys() {
                self.count(&mut update, *hop, |users| users);
            }
        }
        let mut edits = gone;
        for (gate, row) in &update.made {
            edits.push(put(hops, *row, hop_octets(self.family, gate))?);
        }
        edits.append(&mut set);
        edits.append(&mut behind);
        let unused = update.users.iter().filter(|(_, users)| **users == 0);
        update.gone = unused.map(|(row, _)| *row).collect();
        for row in &update.gone {
            edits.push(delete(hops, *row)?);
        }
        Ok((update, edits))
    }

    /// Applies a change that the FE has made.
    pub(crate) fn apply(&mut self, update: Update) {
        for (prefix, row) in update.prefixes {
            match row {
                Some(row) => {
                    self.used.insert(row.row);
                    self.prefixes.insert(prefix, row);
                }
                None => {
                    if let Some(before) = self.prefixes.remove(&prefix) {
                        self.used.remove(&before.row);
                    }
                }
            }
        }
        self.hops.extend(update.made);
        self.users.extend(update.users);
        for row in &update.gone {
            self.users.remove(row);
        }
        if !update.gone.is_empty() {
            let users = &self.users;
            self.hops.retain(|_, row| users.contains_key(row));
        }
        for row in std::mem::take(&mut self.strays) {
            self.used.remove(&row);
        }
        self.cursors = update.cursors.unwrap_or(self.cursors);
    }

    /// The row of a next hop, which may be a new row.
    fn hop(&self, update: &mut Update, gate: FeNextHop) -> Result<u32, String> {
        if let Some(row) = self.hops.get(&gate).or_else(|| update.made.get(&gate)) {
            return Ok(*row);
        }
        let row = self.free(update, 1)?;
        update.made.insert(gate, row);
        update.users.insert(row, 0);
        Ok(row)
    }

    /// A free row of the prefixes (0) or the next hops (1).
    fn free(&self, update: &mut Update, table: usize) -> Result<u32, String> {
        let mut cursors = update.cursors.unwrap_or(self.cursors);
        let is_used = |row: &u32| match table {
            0 => self.used.contains(row),
            _ => self.users.contains_key(row),
        };
        let found = (cursors[table]..u32::MAX)
            .chain(ROW_FIRST..cursors[table])
            .find(|row| !is_used(row));
        let row = found.ok_or("the table is full")?;
        cursors[table] = row + 1;
        update.cursors = Some(cursors);
        Ok(row)
    }

    /// Changes the number of prefixes that use a next hop of the service.
    fn count(&self, update: &mut Update, hop: u32, change: impl Fn(usize) -> usize) {
        let before = update.users.get(&hop).or_else(|| self.users.get(&hop));
        if let Some(users) = before.copied() {
            update.users.insert(hop, change(users)); // other hops are not counted
        }
    }
}

/// Whether an LFB has one of the four tables.
pub(crate) fn is_table(block: BlockId) -> bool {
    Family::ALL
        .iter()
        .any(|family| family.blocks().contains(&block))
}

/// Parts the edits of an update behind its next hops, so that a refused prefix does not hold up next hops of other
/// prefixes.
pub(crate) fn next_hops_first(mut edits: Vec<Edit>) -> [Vec<Edit>; 2] {
    let sets_prefix = |edit: &Edit| edit.operation == OperationKind::Set && is_prefix(edit.block);
    let at = edits.iter().position(sets_prefix).unwrap_or(edits.len());
    let rest = edits.split_off(at);
    [edits, rest]
}

/// Whether an LFB has a table of prefixes.
fn is_prefix(block: BlockId) -> bool {
    Family::ALL.iter().any(|family| family.blocks()[0] == block)
}

/// Whether the row of a path belongs to the service; `None` if the path has no row.
pub(crate) fn is_of_service(ids: &[u32]) -> Option<bool> {
    match ids {
        [TABLE, row, ..] => Some(*row >= ROW_FIRST),
        _ => None,
    }
}

/// The prefixes that these updates change.
pub(crate) fn prefixes(updates: &Updates) -> impl Iterator<Item = IpNet> {
    let all = updates.iter().flat_map(|update| &update.prefixes);
    all.map(|(prefix, _)| *prefix)
}

/// The prefixes that an FE has refused, with the reasons.
pub(crate) fn refused(updates: &[Update], leaves: &[Leaf]) -> Vec<(IpNet, String)> {
    let mut reasons = HashMap::new();
    for leaf in leaves.iter().filter(|leaf| is_prefix(leaf.block)) {
        if let ([TABLE, row], Some(outcome)) = (&leaf.ids[..], leaf.failure())
            && outcome.code() != ResultCode::Unspecified
        {
            reasons.insert((leaf.block, *row), outcome);
        }
    }
    let prefixes = updates.iter().flat_map(|update| &update.prefixes);
    let refused = prefixes.filter_map(|(prefix, row)| {
        let block = Family::of(prefix).blocks()[0];
        let outcome = reasons.get(&(block, (*row)?.row))?;
        Some((*prefix, leaf::failure_in_words(outcome)))
    });
    refused.collect()
}

/// Calls `take` with each row of a leaf that belongs to the service. A table that is empty, or that the FE does not
/// have, has no rows.
fn each(codec: &Codec, leaf: &Leaf, mut take: impl FnMut(u32, &Value)) -> Result<(), String> {
    if matches!(leaf.content, Content::Outcome(_)) {
        return Ok(());
    }
    let value = codec.value(leaf.block.0, &leaf.ids, &leaf.content)?;
    match (&leaf.ids[..], &value) {
        ([TABLE], Value::Struct(rows)) => {
            for (name, row) in rows {
                let number = name.parse().ok().filter(|number| *number >= ROW_FIRST);
                if let Some(number) = number {
                    take(number, row);
                }
            }
        }
        ([TABLE, row], value) if *row >= ROW_FIRST => take(*row, value),
        _ => {}
    }
    Ok(())
}

/// The prefix of a row, and the row of its next hop.
fn prefix(family: Family, row: &Value) -> Option<(IpNet, u32)> {
    let address = match family {
        Family::V4 => row.text("IPv4Address"),
        Family::V6 => row.text("IPv6Address"),
    };
    let len = u8::try_from(row.whole("Prefixlen")?).ok()?;
    let prefix = IpNet::new(address_of(address?)?, len).ok()?;
    let hop = u32::try_from(row.whole("HopSelector")?).ok()?;
    let has_several = row.get("ECMPFlag") != Some(&Value::Flag(false));
    (prefix == prefix.trunc() && !has_several).then_some((prefix, hop))
}

fn gate(row: &Value) -> Option<FeNextHop> {
    let address = address_of(row.text("NextHopIPAddr")?)?;
    let gateway = Some(address).filter(|address| !address.is_unspecified());
    Some((gateway, u32::try_from(row.whole("L3PortID")?).ok()?))
}

/// Parses an address in the codec's notation for octets: hexadecimal pairs with colons.
fn address_of(text: &str) -> Option<IpAddr> {
    let octets = text
        .split(':')
        .map(|pair| u8::from_str_radix(pair, 16).ok());
    let octets = octets.collect::<Option<Vec<u8>>>()?;
    match (
        <[u8; 4]>::try_from(&*octets),
        <[u8; 16]>::try_from(&*octets),
    ) {
        (Ok(v4), _) => Some(v4.into()),
        (_, Ok(v6)) => Some(v6.into()),
        _ => None,
    }
}

/// IPv4PrefixInfo or IPv6PrefixInfo (RFC 6956): address, length, ECMPFlag, DefaultRouteFlag, Reserved, HopSelector.
fn prefix_octets(prefix: &IpNet, hop: u32) -> Vec<u8> {
    let mut octets = address_octets(prefix.network());
    let is_default = prefix.prefix_len() == 0;
    octets.extend([prefix.prefix_len(), 0, u8::from(is_default), 0]);
    octets.extend(hop.to_be_bytes());
    octets
}

/// IPv4NextHopInfo or IPv6NextHopInfo: L3PortID, MTU, NextHopIPAddr, MediaEncapInfoIndex, LFBOutputSelectIndex.
fn hop_octets(family: Family, (gateway, port): &FeNextHop) -> Vec<u8> {
    let none = match family {
        Family::V4 => IpAddr::from([0; 4]),
        Family::V6 => IpAddr::from([0; 16]),
    };
    let mut octets = [port.to_be_bytes(), MTU.to_be_bytes()].concat();
    octets.extend(address_octets(gateway.unwrap_or(none)));
    octets.extend([0; 8]);
    octets
}

fn address_octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn put(block: BlockId, row: u32, octets: Vec<u8>) -> Result<Edit, String> {
    let path = PathData::full(vec![TABLE, row], octets).map_err(|e| e.to_string())?;
    let operation = OperationKind::Set;
    Ok(Edit {
        block,
        operation,
        path,
    })
}

fn delete(block: BlockId, row: u32) -> Result<Edit, String> {
    let path = PathData::bare(vec![TABLE, row]).map_err(|e| e.to_string())?;
    let operation = OperationKind::Delete;
    Ok(Edit {
        block,
        operation,
        path,
    })
}
