//! Forwarding table rows at one FE that belong to the route service, and the edits that change its routes.
//!
//! ```text
//!   IPv4UcastLPM.1.IPv4PrefixTable   row 65536: 10.0.0.0/8 --> 65536      [`ROW_FIRST`] and behind: of the service
//!   IPv4NextHop.1.IPv4NextHopTable   row 65536: 192.0.2.1, port 2         below: of operators
//!   ipv4_next_hop_groups.1.groups    row 65536: next hops and weights     for routes without exactly one next hop
//! ```
//!
//! Row numbers are not part of the desired state: after each association the CE reads which rows the FE has, and keeps
//! them. A route with a new target refers to another row, so a change of one route affects no other route. But if all
//! routes that refer to a row get the same new target, the row changes instead of theirs: when a next hop fails, one row
//! moves all its routes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_library::groups;
use weir_model::{Target, Value};
use weir_protocol::wire::{Content, OperationKind, PathData, ResultCode, Selector, WireError};

use crate::codec::Codec;
use crate::leaf::{self, Leaf};
use crate::settings::{BlockId, Edit};

/// First row of the service. Lower rows belong to operators (`weir set`).
pub(crate) const ROW_FIRST: u32 = 1 << 16;
/// The component that contains the rows, in all six classes.
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

    /// The LFB with the groups of next hops, which not every FE has.
    pub(crate) const fn groups(self) -> BlockId {
        match self {
            Self::V4 => (groups::IPV4.id, 1),
            Self::V6 => (groups::IPV6.id, 1),
        }
    }
}

/// A next hop as an FE represents it: the next router, and the instance of the port.
pub(crate) type FeNextHop = (Option<IpAddr>, u32);

/// A row to which a prefix refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Hop(u32),
    Group(u32),
}

/// The content of a next hop or a group.
#[derive(Clone, Debug, Default)]
struct Meaning {
    /// `None` if the service would not write such a row.
    target: Option<Target<FeNextHop>>,
    /// The rows of a group's next hops.
    members: Vec<u32>,
    /// Number of prefixes and groups that refer to the row.
    users: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    row: u32,
    way: Way,
}

/// The rows of one family.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    family: Family,
    prefixes: BTreeMap<IpNet, Row>,
    /// Row numbers of the prefixes.
    used: HashSet<u32>,
    /// Every existing next hop and group.
    contents: BTreeMap<Way, Meaning>,
    /// The next hop or group that gives a prefix a target.
    ways: BTreeMap<Target<FeNextHop>, Way>,
    /// Prefix rows with contents that the service would not write.
    strays: Vec<u32>,
    /// Where to continue the search for a free row, for prefixes, next hops and groups.
    cursors: [u32; 3],
}

/// A change of rows that an FE has not confirmed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    prefixes: Vec<(IpNet, Option<Row>)>,
    /// Prefixes whose routes change because the row to which they refer does.
    moved: Vec<IpNet>,
    /// Next hops and groups that are new or changed, or whose number of users changes.
    contents: BTreeMap<Way, Meaning>,
    ways: BTreeMap<Target<FeNextHop>, Way>,
    gone: Vec<Way>,
    cursors: Option<[u32; 3]>,
}

/// Edits in their order, in two lists: a refused edit of the second one does not hold up next hops of other prefixes.
pub(crate) type Edits = [Vec<Edit>; 2];

/// Row changes of both families.
pub(crate) type Updates = [Update; 2];

impl Rows {
    /// An empty set of rows.
    pub(crate) fn new(family: Family) -> Self {
        Self {
            family,
            prefixes: BTreeMap::new(),
            used: HashSet::new(),
            contents: BTreeMap::new(),
            ways: BTreeMap::new(),
            strays: Vec::new(),
            cursors: [ROW_FIRST; 3],
        }
    }

    /// The path to read for the rows of the service in a table.
    pub(crate) fn read(block: BlockId) -> Result<(BlockId, OperationKind, PathData), String> {
        let range = Selector::Range {
            first: ROW_FIRST,
            last: u32::MAX,
        };
        let path = PathData::new(vec![TABLE], Some(range), Content::Empty);
        let path = path.map_err(|e| e.to_string())?;
        Ok((block, OperationKind::Get, path))
    }

    /// Parses the rows of an FE from its answers to [`Self::read`].
    pub(crate) fn parse(family: Family, codec: &Codec, leaves: &[Leaf]) -> Result<Self, String> {
        let mut rows = Self::new(family);
        let [prefixes, hops] = family.blocks();
        let of = |block| leaves.iter().filter(move |leaf| leaf.block == block);
        for leaf in of(hops) {
            each(codec, leaf, |row, value| {
                let target = gate(value).map(Target::Hop);
                rows.insert(Way::Hop(row), target, Vec::new());
            })?;
        }
        for leaf in of(family.groups()) {
            each(codec, leaf, |row, value| {
                let group = groups::read(value);
                let hops = group.iter().flat_map(Target::hops);
                let members: Vec<u32> = hops.map(|(hop, _)| *hop).collect();
                for member in &members {
                    rows.add_user(Way::Hop(*member));
                }
                let gate = |hop: &u32| match &rows.contents.get(&Way::Hop(*hop)).ok_or(())?.target {
                    Some(Target::Hop(gate)) => Ok(*gate),
                    _ => Err(()),
                };
                let target = group.and_then(|group| group.map(gate).ok());
                rows.insert(Way::Group(row), target, members);
            })?;
        }
        for leaf in of(prefixes) {
            each(codec, leaf, |row, value| {
                rows.used.insert(row);
                match prefix(family, value) {
                    Some((prefix, way)) if !rows.prefixes.contains_key(&prefix) => {
                        rows.prefixes.insert(prefix, Row { row, way });
                        rows.add_user(way);
                    }
                    _ => rows.strays.push(row),
                }
            })?;
        }
        Ok(rows)
    }

    fn insert(&mut self, way: Way, target: Option<Target<FeNextHop>>, members: Vec<u32>) {
        if let Some(target) = target.as_ref().filter(|target| is_usual(target, way)) {
            self.ways.entry(target.clone()).or_insert(way);
        }
        let users = 0;
        let content = Meaning {
            target,
            members,
            users,
        };
        self.contents.insert(way, content);
    }

    fn add_user(&mut self, way: Way) {
        if let Some(content) = self.contents.get_mut(&way) {
            content.users += 1;
        }
    }

    /// The prefixes in the table.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &IpNet> {
        self.prefixes.keys()
    }

    /// The next hops of the prefixes, each with the number of prefixes that use it. A group may have several of them.
    pub(crate) fn next_hops(&self) -> BTreeMap<FeNextHop, u64> {
        let mut all: BTreeMap<FeNextHop, u64> = BTreeMap::new();
        for row in self.prefixes.values() {
            let target = self
                .contents
                .get(&row.way)
                .and_then(|content| content.target.as_ref());
            for (hop, _) in target.iter().flat_map(|target| target.hops()) {
                *all.entry(*hop).or_default() += 1;
            }
        }
        all
    }

    /// Whether the table contains a prefix.
    pub(crate) fn has(&self, prefix: &IpNet) -> bool {
        self.prefixes.contains_key(prefix)
    }

    /// The change that gives these prefixes these targets, or deletes them, with its edits in order: deleted prefixes, new
    /// next hops and groups; new or changed prefixes on links, changed next hops and groups, other prefixes, deleted
    /// unused groups and next hops. If `clean`, also deletes unneeded existing rows. If `moves`, rows of next hops and
    /// groups may change.
    pub(crate) fn update(
        &self,
        wanted: BTreeMap<IpNet, Option<Target<FeNextHop>>>,
        clean: bool,
        moves: bool,
    ) -> Result<(Update, Edits), String> {
        let mut update = Update {
            cursors: Some(self.cursors),
            ..Update::default()
        };
        if moves {
            self.move_all(&mut update, &wanted)?;
        }
        let [prefixes, _] = self.family.blocks();
        let (mut first, mut second, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for (prefix, target) in wanted {
            let before = self.prefixes.get(&prefix);
            let Some(target) = target else {
                if let Some(before) = before {
                    first.push(delete(prefixes, before.row)?);
                    self.leave(&mut update, before.way);
                    update.prefixes.push((prefix, None));
                }
                continue;
            };
            let content = before.and_then(|before| self.content(&update, before.way));
            if content.is_some_and(|content| content.target.as_ref() == Some(&target)) {
                continue;
            }
            let way = self.way(&mut update, &target)?;
            self.count(&mut update, way, |users| users + 1);
            let row = match before {
                Some(before) => {
                    self.leave(&mut update, before.way);
                    before.row
                }
                None => self.free(&mut update, 0)?,
            };
            // A gateway is reachable only once the network of its link has a route.
            let set = if target.hops().any(|((gateway, _), _)| gateway.is_some()) {
                &mut behind
            } else {
                &mut second
            };
            set.push(put(prefixes, row, prefix_octets(&prefix, way))?);
            update.prefixes.push((prefix, Some(Row { row, way })));
        }
        if clean {
            for row in &self.strays {
                first.push(delete(prefixes, *row)?);
            }
            for (way, _) in self
                .contents
                .iter()
                .filter(|(_, content)| content.users == 0)
            {
                self.count(&mut update, *way, |users| users);
            }
        }
        self.edit_contents(&mut update, [&mut first, &mut second])?;
        second.append(&mut behind);
        self.delete_unused(&mut update, &mut second)?;
        Ok((update, [first, second]))
    }

    /// The change that gives all prefixes with a target another one, for several pairs of targets. A pair with a number
    /// of prefixes counts only if exactly this number refers to the row. Groups keep their members: a next hop that is in
    /// a group does not change.
    pub(crate) fn shift(
        &self,
        shifts: impl IntoIterator<Item = (Target<FeNextHop>, Target<FeNextHop>, Option<usize>)>,
    ) -> Result<(Update, Edits), String> {
        let mut update = Update {
            cursors: Some(self.cursors),
            ..Update::default()
        };
        for (before, after, users) in shifts {
            let all = self.contents.iter();
            let all = all.filter(|(_, content)| content.target.as_ref() == Some(&before));
            let all: Vec<_> = all.collect();
            let is_member = |group: &Meaning| {
                let mut members = group.members.iter();
                members.any(|member| all.iter().any(|(way, _)| **way == Way::Hop(*member)))
            };
            let number = all.iter().map(|(_, content)| content.users).sum::<usize>();
            if users.is_none_or(|users| users == number) && !self.contents.values().any(is_member) {
                for (way, content) in all {
                    self.change(&mut update, *way, content, &after)?;
                }
            }
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        self.edit_contents(&mut update, [&mut first, &mut second])?;
        self.delete_unused(&mut update, &mut second)?;
        Ok((update, [first, second]))
    }

    /// Adds the edits of new and changed next hops and groups. Members of groups that are no longer used lose a user.
    fn edit_contents(
        &self,
        update: &mut Update,
        [first, second]: [&mut Vec<Edit>; 2],
    ) -> Result<(), String> {
        let ([_, hops], groups) = (self.family.blocks(), self.family.groups());
        let unused = update
            .contents
            .values()
            .filter(|content| content.users == 0);
        for member in unused
            .flat_map(|content| content.members.clone())
            .collect::<Vec<_>>()
        {
            self.leave(update, Way::Hop(member));
        }
        for (way, content) in &update.contents {
            let before = self.contents.get(way);
            let (Some(target), true) = (
                &content.target,
                before.is_none_or(|before| before.target != content.target),
            ) else {
                continue;
            };
            let edit = match (way, target) {
                (Way::Hop(row), Target::Hop(gate)) => {
                    put(hops, *row, hop_octets(self.family, gate))?
                }
                (Way::Hop(_), _) => unreachable!("a next hop is not a group"),
                (Way::Group(row), _) => put_group(groups, *row, &content.group()?)?,
            };
            let list = match before {
                Some(_) => &mut *second,
                None => &mut *first,
            };
            list.push(edit);
        }
        Ok(())
    }

    /// Adds the edits that delete next hops and groups to which nothing refers.
    fn delete_unused(&self, update: &mut Update, last: &mut Vec<Edit>) -> Result<(), String> {
        let ([_, hops], groups) = (self.family.blocks(), self.family.groups());
        let unused = update
            .contents
            .iter()
            .filter(|(_, content)| content.users == 0);
        update.gone = unused.map(|(way, _)| *way).rev().collect();
        for way in &update.gone {
            last.push(match way {
                Way::Hop(row) => delete(hops, *row)?,
                Way::Group(row) => delete(groups, *row)?,
            });
        }
        Ok(())
    }

    /// Changes the next hops and groups of which all users get the same new target.
    fn move_all(
        &self,
        update: &mut Update,
        wanted: &BTreeMap<IpNet, Option<Target<FeNextHop>>>,
    ) -> Result<(), String> {
        let mut all: BTreeMap<Way, (Option<&Target<FeNextHop>>, Vec<IpNet>)> = BTreeMap::new();
        for (prefix, target) in wanted {
            let Some(before) = self.prefixes.get(prefix) else {
                continue;
            };
            let (common, users) = all
                .entry(before.way)
                .or_insert((target.as_ref(), Vec::new()));
            *common = common.filter(|common| Some(*common) == target.as_ref());
            users.push(*prefix);
        }
        for (way, (target, users)) in all {
            let (Some(content), Some(target)) = (self.contents.get(&way), target) else {
                continue;
            };
            let is_whole = users.len() > 1 && users.len() == content.users;
            if is_whole && self.change(update, way, content, target)? {
                update.moved.extend(users);
            }
        }
        Ok(())
    }

    /// Gives a next hop or a group another target; returns whether it can have that, and has another now.
    fn change(
        &self,
        update: &mut Update,
        way: Way,
        before: &Meaning,
        target: &Target<FeNextHop>,
    ) -> Result<bool, String> {
        let is_possible = matches!(way, Way::Group(_)) || matches!(target, Target::Hop(_));
        if !is_possible || before.target.as_ref() == Some(target) {
            return Ok(false);
        }
        let members = self.members(update, way, target)?;
        for member in &before.members {
            self.leave(update, Way::Hop(*member));
        }
        let content = Meaning {
            target: Some(target.clone()),
            members,
            users: before.users,
        };
        update.contents.insert(way, content);
        Ok(true)
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
        for (way, content) in update.contents {
            let before = self.contents.remove(&way);
            if let Some(before) = before.and_then(|before| before.target)
                && self.ways.get(&before) == Some(&way)
            {
                self.ways.remove(&before);
            }
            if !update.gone.contains(&way) {
                self.insert(way, content.target, content.members);
                self.contents.entry(way).or_default().users = content.users;
            }
        }
        for row in std::mem::take(&mut self.strays) {
            self.used.remove(&row);
        }
        self.cursors = update.cursors.unwrap_or(self.cursors);
    }

    /// A next hop or group after the change.
    fn content<'a>(&'a self, update: &'a Update, way: Way) -> Option<&'a Meaning> {
        update
            .contents
            .get(&way)
            .or_else(|| self.contents.get(&way))
    }

    /// The next hop or group for a target, which may be a new one.
    fn way(&self, update: &mut Update, target: &Target<FeNextHop>) -> Result<Way, String> {
        let known = self
            .ways
            .get(target)
            .or_else(|| update.ways.get(target))
            .copied();
        let has = |way: &Way| {
            let content = self.content(update, *way);
            content.is_some_and(|content| content.target.as_ref() == Some(target))
        };
        if let Some(way) = known.filter(has) {
            return Ok(way);
        }
        let way = match target {
            Target::Hop(_) => Way::Hop(self.free(update, 1)?),
            _ => Way::Group(self.free(update, 2)?),
        };
        let content = Meaning {
            target: Some(target.clone()),
            members: self.members(update, way, target)?,
            users: 0,
        };
        update.contents.insert(way, content);
        update.ways.insert(target.clone(), way);
        Ok(way)
    }

    /// The rows of the next hops of a group, which gains a use of each.
    fn members(
        &self,
        update: &mut Update,
        way: Way,
        target: &Target<FeNextHop>,
    ) -> Result<Vec<u32>, String> {
        let mut members = Vec::new();
        for (gate, _) in target.hops().filter(|_| matches!(way, Way::Group(_))) {
            let hop = self.way(update, &Target::Hop(*gate))?;
            self.count(update, hop, |users| users + 1);
            members.extend(match hop {
                Way::Hop(row) => Some(row),
                Way::Group(_) => None,
            });
        }
        Ok(members)
    }

    /// A free row of the prefixes (0), the next hops (1) or the groups (2).
    fn free(&self, update: &mut Update, table: usize) -> Result<u32, String> {
        let mut cursors = update.cursors.unwrap_or(self.cursors);
        let is_used = |row: &u32| match table {
            0 => self.used.contains(row),
            1 => self.contents.contains_key(&Way::Hop(*row)),
            _ => self.contents.contains_key(&Way::Group(*row)),
        };
        let found = (cursors[table]..u32::MAX)
            .chain(ROW_FIRST..cursors[table])
            .find(|row| !is_used(row));
        let row = found.ok_or("the table is full")?;
        cursors[table] = row + 1;
        update.cursors = Some(cursors);
        Ok(row)
    }

    /// Changes the number of users of a next hop or a group of the service. Other rows are not counted.
    fn count(&self, update: &mut Update, way: Way, change: impl Fn(usize) -> usize) {
        if let Some(content) = self.content(update, way) {
            let users = change(content.users);
            let content = content.clone();
            update.contents.insert(way, Meaning { users, ..content });
        }
    }

    /// A next hop or a group loses a user.
    fn leave(&self, update: &mut Update, way: Way) {
        self.count(update, way, |users| users.saturating_sub(1));
    }
}

impl Meaning {
    /// The row of a group.
    fn group(&self) -> Result<Target<u32>, String> {
        let weights = self
            .target
            .iter()
            .flat_map(Target::hops)
            .map(|(_, weight)| weight);
        match &self.target {
            Some(Target::Discard(discard)) => Ok(Target::Discard(*discard)),
            _ => Target::of_hops(self.members.iter().copied().zip(weights))
                .ok_or_else(|| "the group is empty".to_owned()),
        }
    }
}

/// Whether a prefix with this target refers to such a row: a group that once had several next hops may have one now.
const fn is_usual(target: &Target<FeNextHop>, way: Way) -> bool {
    matches!(
        (target, way),
        (Target::Hop(_), Way::Hop(_)) | (Target::Hops(_) | Target::Discard(_), Way::Group(_))
    )
}

/// Whether an LFB has one of the six tables.
pub(crate) fn is_table(block: BlockId) -> bool {
    let has = |family: &Family| family.blocks().contains(&block) || family.groups() == block;
    Family::ALL.iter().any(has)
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

/// The prefixes that these updates move together with the row to which they refer.
pub(crate) fn moved(updates: &Updates) -> impl Iterator<Item = IpNet> {
    updates.iter().flat_map(|update| &update.moved).copied()
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

/// The prefix of a row, and the row to which it refers.
fn prefix(family: Family, row: &Value) -> Option<(IpNet, Way)> {
    let address = match family {
        Family::V4 => row.text("IPv4Address"),
        Family::V6 => row.text("IPv6Address"),
    };
    let len = u8::try_from(row.whole("Prefixlen")?).ok()?;
    let prefix = IpNet::new(address_of(address?)?, len).ok()?;
    let selector = u32::try_from(row.whole("HopSelector")?).ok()?;
    let way = match row.get("ECMPFlag")? {
        Value::Flag(false) => Way::Hop(selector),
        _ => Way::Group(selector),
    };
    (prefix == prefix.trunc()).then_some((prefix, way))
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
fn prefix_octets(prefix: &IpNet, way: Way) -> Vec<u8> {
    let mut octets = address_octets(prefix.network());
    let is_default = u8::from(prefix.prefix_len() == 0);
    let (is_group, row) = match way {
        Way::Hop(row) => (0, row),
        Way::Group(row) => (1, row),
    };
    octets.extend([prefix.prefix_len(), is_group, is_default, 0]);
    octets.extend(row.to_be_bytes());
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
    set(block, PathData::full(vec![TABLE, row], octets))
}

fn put_group(block: BlockId, row: u32, group: &Target<u32>) -> Result<Edit, String> {
    let content = groups::encode(group).map_err(|e| e.to_string())?;
    set(block, PathData::new(vec![TABLE, row], None, content))
}

fn set(block: BlockId, path: Result<PathData, WireError>) -> Result<Edit, String> {
    let path = path.map_err(|e| e.to_string())?;
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
