//! The forwarding tables that a control element writes (RFC 6956: classes 10 to 13), and the resulting routes.
//!
//! ```text
//!  prefix table             next-hop table                routes
//!  row 7: 10.0.0.0/8 --> 3  row 3: 192.0.2.1, port 2      10.0.0.0/8 via 192.0.2.1, port 2
//! ```
//!
//! A row of a prefix table refers to a row of the next-hop table of its family, or with ECMPFlag to a row of the table of
//! [groups](weir_library::groups). If both rows exist, they form a route; without the next hop there is no route, as in
//! RFC 6956. A route through a group has the next hops of the group that exist. A change of a next hop or a group is one
//! change for all prefixes that refer to it.
//!
//! [`Fib::undo`] undoes changes, given the values that [`Fib::set`] and [`Fib::delete`] have returned.
//!
//! *Decision*: the MTU and LFBOutputSelectIndex of a next hop are stored and reported, but have no effect: the MTU of the
//! port applies. MediaEncapInfoIndex is not needed, because the router resolves the neighbour's MAC address itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_library::groups;
use weir_model::{Target, Value};
use weir_protocol::wire::ResultCode;

/// Maximum number of rows in a table.
const ROWS_MAX: usize = 1 << 20;

/// The IP version of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4: classes 10 and 12.
    V4,
    /// IPv6: classes 11 and 13.
    V6,
}

/// A forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The prefix table of IPv4UcastLPM or IPv6UcastLPM.
    Prefixes(Family),
    /// The next-hop table of IPv4NextHop or IPv6NextHop.
    NextHops(Family),
    /// The table of groups of next hops.
    Groups(Family),
}

/// A prefix: an address and the prefix length in bits.
pub type Prefix = (IpAddr, u8);

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destinations.
    pub prefix: Prefix,
    /// The row to which the prefix refers.
    pub row: TargetRow,
    /// Where the packets go.
    pub target: Target<NextHop>,
}

/// A row to which prefixes refer. All routes of a row have the same target.
pub type TargetRow = (Family, Selector);

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// The next router; `None` for destinations on the link.
    pub gateway: Option<IpAddr>,
    /// Instance of the port's class.
    pub port: u32,
}

/// A change of the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// Set the route of this prefix, whether or not it exists.
    Put(Route),
    /// Remove the route of this prefix.
    Remove(Prefix),
    /// Set the target of all routes of this row.
    Move(TargetRow, Target<NextHop>),
}

/// The previous value of a row; `None` if the row did not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Before {
    table: Table,
    row: u32,
    value: Option<Value>,
}

/// The forwarding tables of both families.
#[derive(Clone, Debug, Default)]
pub struct Fib {
    v4: Tables,
    v6: Tables,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    prefixes: BTreeMap<u32, (PrefixRow, Value)>,
    next_hops: BTreeMap<u32, (NextHop, Value)>,
    groups: BTreeMap<u32, (Target<u32>, Value)>,
    /// Row of each prefix.
    row_of: BTreeMap<Prefix, u32>,
    /// The prefix rows that refer to a next hop or a group, whether or not that exists.
    users: BTreeMap<Selector, BTreeSet<u32>>,
    /// The groups that refer to a next hop, whether or not that exists.
    groups_of: BTreeMap<u32, BTreeSet<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefixRow {
    prefix: Prefix,
    selector: Selector,
}

/// A row of the next hops or the groups of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// A next hop.
    NextHop(u32),
    /// A group of next hops.
    Group(u32),
}

impl Family {
    const fn of(prefix: &Prefix) -> Self {
        match prefix.0 {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl Fib {
    /// The value of a row.
    pub fn row(&self, table: Table, row: u32) -> Option<&Value> {
        match table {
            Table::Prefixes(family) => Some(&self.tables(family).prefixes.get(&row)?.1),
            Table::NextHops(family) => Some(&self.tables(family).next_hops.get(&row)?.1),
            Table::Groups(family) => Some(&self.tables(family).groups.get(&row)?.1),
        }
    }

    /// The rows of a table, starting at this index, in order.
    pub fn rows(&self, table: Table, from: u32) -> Box<dyn Iterator<Item = (u32, &Value)> + '_> {
        fn rows<T>(
            table: &BTreeMap<u32, (T, Value)>,
            from: u32,
        ) -> Box<dyn Iterator<Item = (u32, &Value)> + '_> {
            let rows = table.range(from..);
            Box::new(rows.map(|(row, (_, value))| (*row, value)))
        }
        match table {
            Table::Prefixes(family) => rows(&self.tables(family).prefixes, from),
            Table::NextHops(family) => rows(&self.tables(family).next_hops, from),
            Table::Groups(family) => rows(&self.tables(family).groups, from),
        }
    }

    /// Number of rows of a table.
    pub fn len(&self, table: Table) -> usize {
        match table {
            Table::Prefixes(family) => self.tables(family).prefixes.len(),
            Table::NextHops(family) => self.tables(family).next_hops.len(),
            Table::Groups(family) => self.tables(family).groups.len(),
        }
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        [&self.v4, &self.v6].into_iter().flat_map(|tables| {
            let rows = tables.prefixes.values();
            rows.filter_map(|(row, _)| tables.route(row))
        })
    }

    /// Sets a row. Appends the resulting changes of routes to `changes`, and returns the previous row.
    pub fn set(
        &mut self,
        table: Table,
        row: u32,
        value: Value,
        changes: &mut Vec<RouteChange>,
    ) -> Result<Before, ResultCode> {
        if self.len(table) >= ROWS_MAX && self.row(table, row).is_none() {
            return Err(ResultCode::MemoryError);
        }
        let before = match table {
            Table::Prefixes(family) => {
                let parsed = prefix_row(family, &value)?;
                self.tables_mut(family)
                    .set_prefix(row, parsed, value, changes)?
            }
            Table::NextHops(family) => {
                let parsed = next_hop(family, &value)?;
                self.tables_mut(family)
                    .put_next_hop(family, row, Some((parsed, value)), changes)
            }
            Table::Groups(family) => {
                let parsed = groups::read(&value).ok_or(ResultCode::InvalidParameters)?;
                let set = Some((parsed, value));
                self.tables_mut(family).put_group(family, row, set, changes)
            }
        };
        let value = before;
        Ok(Before { table, row, value })
    }

    /// Deletes a row. Appends the resulting changes of routes to `changes`, and returns the previous row.
    pub fn delete(
        &mut self,
        table: Table,
        row: u32,
        changes: &mut Vec<RouteChange>,
    ) -> Result<Before, ResultCode> {
        let value = match table {
            Table::Prefixes(family) => self.tables_mut(family).delete_prefix(row, changes),
            Table::NextHops(family) => self
                .tables_mut(family)
                .put_next_hop(family, row, None, changes),
            Table::Groups(family) => self
                .tables_mut(family)
                .put_group(family, row, None, changes),
        };
        match value {
            Some(_) => Ok(Before { table, row, value }),
            None => Err(ResultCode::NotFound),
        }
    }

    /// Undoes changes, starting with the last one, and returns the resulting changes of routes.
    pub fn undo(&mut self, changes: Vec<Before>) -> Vec<RouteChange> {
        let mut undone = Vec::new();
        for Before { table, row, value } in changes.into_iter().rev() {
            // Neither fails: `set` restores a row that existed, `delete` removes a row that was added.
            let _ = match value {
                Some(value) => self.set(table, row, value, &mut undone),
                None => self.delete(table, row, &mut undone),
            };
        }
        undone
    }

    /// Deletes all rows, and returns the removal of all routes.
    pub fn clear(&mut self) -> Vec<RouteChange> {
        let gone = self.routes().map(|route| RouteChange::Remove(route.prefix));
        let gone = gone.collect();
        *self = Self::default();
        gone
    }

    const fn tables(&self, family: Family) -> &Tables {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn tables_mut(&mut self, family: Family) -> &mut Tables {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }
}

impl Tables {
    fn route(&self, row: &PrefixRow) -> Option<Route> {
        let prefix = row.prefix;
        Some(Route {
            prefix,
            row: (Family::of(&prefix), row.selector),
            target: self.target(row.selector)?,
        })
    }

    /// The target of the prefixes that refer to a row.
    fn target(&self, row: Selector) -> Option<Target<NextHop>> {
        let next_hop = |row: &u32| self.next_hops.get(row).map(|(hop, _)| *hop).ok_or(());
        match row {
            Selector::NextHop(row) => next_hop(&row).ok().map(Target::Hop),
            Selector::Group(row) => self.groups.get(&row)?.0.map(next_hop).ok(),
        }
    }

    /// Makes a change that concerns a prefix row, and appends the resulting changes of its route.
    fn change_prefix<T>(
        &mut self,
        row: u32,
        changes: &mut Vec<RouteChange>,
        make: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let route = |tables: &Self| tables.route(&tables.prefixes.get(&row)?.0);
        let old = route(self);
        let made = make(self);
        let new = route(self);
        if old != new {
            let stays = |old: &Route| new.as_ref().is_some_and(|new| new.prefix == old.prefix);
            let gone = old.filter(|old| !stays(old));
            changes.extend(gone.map(|old| RouteChange::Remove(old.prefix)));
            changes.extend(new.map(RouteChange::Put));
        }
        made
    }

    /// Makes a change of the targets of these rows, and appends the resulting changes of routes.
    fn change_targets<T>(
        &mut self,
        rows: impl IntoIterator<Item = TargetRow>,
        changes: &mut Vec<RouteChange>,
        make: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let rows = rows.into_iter();
        let before: Vec<_> = rows.map(|row| (row, self.target(row.1))).collect();
        let made = make(self);
        for (row, before) in before {
            let after = self.target(row.1);
            let Some(users) = self.users.get(&row.1).filter(|_| before != after) else {
                continue;
            };
            if let (Some(_), Some(target)) = (&before, &after) {
                changes.push(RouteChange::Move(row, target.clone()));
                continue;
            }
            let prefixes = users.iter().filter_map(|user| self.prefixes.get(user));
            changes.extend(prefixes.map(|(user, _)| match self.route(user) {
                Some(route) => RouteChange::Put(route),
                None => RouteChange::Remove(user.prefix),
            }));
        }
        made
    }

    fn set_prefix(
        &mut self,
        row: u32,
        parsed: PrefixRow,
        value: Value,
        changes: &mut Vec<RouteChange>,
    ) -> Result<Option<Value>, ResultCode> {
        if self.row_of.get(&parsed.prefix).is_some_and(|of| *of != row) {
            return Err(ResultCode::Exists);
        }
        let before = self.change_prefix(row, changes, |tables| {
            let before = tables.prefixes.insert(row, (parsed, value));
            if let Some((before, _)) = &before {
                tables.unlink(row, *before);
            }
            tables.row_of.insert(parsed.prefix, row);
            tables.users.entry(parsed.selector).or_default().insert(row);
            before
        });
        Ok(before.map(|(_, value)| value))
    }

    fn delete_prefix(&mut self, row: u32, changes: &mut Vec<RouteChange>) -> Option<Value> {
        self.change_prefix(row, changes, |tables| {
            let (parsed, value) = tables.prefixes.remove(&row)?;
            tables.unlink(row, parsed);
            Some(value)
        })
    }

    /// Sets or deletes a next hop.
    fn put_next_hop(
        &mut self,
        family: Family,
        row: u32,
        next_hop: Option<(NextHop, Value)>,
        changes: &mut Vec<RouteChange>,
    ) -> Option<Value> {
        let groups = self.groups_of.get(&row).into_iter().flatten();
        let groups = groups.map(|group| Selector::Group(*group));
        let rows: Vec<_> = groups.chain([Selector::NextHop(row)]).collect();
        let rows = rows.into_iter().map(|row| (family, row));
        let before = self.change_targets(rows, changes, |tables| match next_hop {
            Some(next_hop) => tables.next_hops.insert(row, next_hop),
            None => tables.next_hops.remove(&row),
        });
        before.map(|(_, value)| value)
    }

    /// Sets or deletes a group.
    fn put_group(
        &mut self,
        family: Family,
        row: u32,
        group: Option<(Target<u32>, Value)>,
        changes: &mut Vec<RouteChange>,
    ) -> Option<Value> {
        let rows = [(family, Selector::Group(row))];
        let (before, value) = self.change_targets(rows, changes, |tables| {
            for (hop, _) in group.iter().flat_map(|(group, _)| group.hops()) {
                tables.groups_of.entry(*hop).or_default().insert(row);
            }
            match group {
                Some(group) => tables.groups.insert(row, group),
                None => tables.groups.remove(&row),
            }
        })?;
        let after = self.groups.get(&row);
        for (hop, _) in before.hops() {
            let stays = after.is_some_and(|(after, _)| after.hops().any(|(other, _)| other == hop));
            if !stays {
                unlink(&mut self.groups_of, *hop, row);
            }
        }
        Some(value)
    }

    /// Removes a prefix row from the indices.
    fn unlink(&mut self, row: u32, parsed: PrefixRow) {
        if self.row_of.get(&parsed.prefix) == Some(&row) {
            self.row_of.remove(&parsed.prefix);
        }
        unlink(&mut self.users, parsed.selector, row);
    }
}

/// Removes a row from an index.
fn unlink<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u32>>, key: K, row: u32) {
    if let Some(rows) = index.get_mut(&key) {
        rows.remove(&row);
        if rows.is_empty() {
            index.remove(&key);
        }
    }
}

/// Parses a row of a prefix table, IPvNPrefixInfo of RFC 6956.
fn prefix_row(family: Family, row: &Value) -> Result<PrefixRow, ResultCode> {
    let address = match family {
        Family::V4 => address(row, "IPv4Address")?,
        Family::V6 => address(row, "IPv6Address")?,
    };
    let bits: u8 = match family {
        Family::V4 => 32,
        Family::V6 => 128,
    };
    let len = number(row, "Prefixlen")?;
    let len = u8::try_from(len).ok().filter(|len| *len <= bits);
    let len = len.ok_or(ResultCode::ValueOutOfRange)?;
    let selector = number(row, "HopSelector")?;
    Ok(PrefixRow {
        prefix: (network(address, len), len),
        selector: match flag(row, "ECMPFlag")? {
            true => Selector::Group(selector),
            false => Selector::NextHop(selector),
        },
    })
}

/// Parses a row of a next-hop table, IPvNNextHopInfo of RFC 6956.
fn next_hop(family: Family, row: &Value) -> Result<NextHop, ResultCode> {
    let gateway = match family {
        Family::V4 => address(row, "NextHopIPAddr")?,
        Family::V6 => address(row, "NextHopIPv6Addr").or_else(|_| address(row, "NextHopIPAddr"))?,
    };
    Ok(NextHop {
        gateway: Some(gateway).filter(|gateway| !gateway.is_unspecified()),
        port: number(row, "L3PortID")?,
    })
}

fn flag(row: &Value, name: &str) -> Result<bool, ResultCode> {
    match row.get(name) {
        Some(Value::Flag(flag)) => Ok(*flag),
        _ => Err(ResultCode::InvalidParameters),
    }
}

fn number(row: &Value, name: &str) -> Result<u32, ResultCode> {
    let number = row.whole(name).ok_or(ResultCode::InvalidParameters)?;
    u32::try_from(number).map_err(|_| ResultCode::ValueOutOfRange)
}

/// Parses an address, as octets in [`weir_protocol::value`]: hexadecimal pairs with colons.
fn address(row: &Value, name: &str) -> Result<IpAddr, ResultCode> {
    let text = row.text(name).ok_or(ResultCode::InvalidParameters)?;
    let mut octets = [0; 16];
    let mut len = 0;
    for pair in text.split(':') {
        let octet = u8::from_str_radix(pair, 16).map_err(|_| ResultCode::InvalidParameters)?;
        *octets.get_mut(len).ok_or(ResultCode::InvalidParameters)? = octet;
        len += 1;
    }
    match (len, octets.first_chunk::<4>()) {
        (4, Some(octets)) => Ok(Ipv4Addr::from(*octets).into()),
        (16, _) => Ok(Ipv6Addr::from(octets).into()),
        _ => Err(ResultCode::InvalidParameters),
    }
}

/// The address with the host bits cleared.
fn network(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIXES: Table = Table::Prefixes(Family::V4);
    const NEXT_HOPS: Table = Table::NextHops(Family::V4);

    fn prefix(address: &str, len: u64, hop: u64) -> Value {
        Value::Struct(vec![
            ("IPv4Address".into(), address.into()),
            ("Prefixlen".into(), len.into()),
            ("ECMPFlag".into(), false.into()),
            ("DefaultRouteFlag".into(), false.into()),
            ("Reserved".into(), 0_u64.into()),
            ("HopSelector".into(), hop.into()),
        ])
    }

    fn hop(address: &str, port: u64) -> Value {
        Value::Struct(vec![
            ("L3PortID".into(), port.into()),
            ("MTU".into(), 1500_u64.into()),
            ("NextHopIPAddr".into(), address.into()),
            ("MediaEncapInfoIndex".into(), 0_u64.into()),
            ("LFBOutputSelectIndex".into(), 0_u64.into()),
        ])
    }

    fn target(gateway: Option<&str>, port: u32) -> Target<NextHop> {
        let gateway = gateway.map(|text| text.parse().unwrap());
        Target::Hop(NextHop { gateway, port })
    }

    /// A route whose prefix refers to this row.
    fn route(prefix: &str, row: Selector, gateway: Option<&str>, port: u32) -> RouteChange {
        RouteChange::Put(Route {
            prefix: (prefix.parse().unwrap(), 8),
            row: (Family::V4, row),
            target: target(gateway, port),
        })
    }

    fn moved(row: Selector, gateway: Option<&str>, port: u32) -> RouteChange {
        RouteChange::Move((Family::V4, row), target(gateway, port))
    }

    fn gone(prefix: &str, len: u8) -> RouteChange {
        RouteChange::Remove((prefix.parse().unwrap(), len))
    }

    #[test]
    fn a_route_is_there_when_its_prefix_and_its_next_hop_are() {
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        let three = Selector::NextHop(3);
        let ten = prefix("0a:01:02:03", 8, 3);
        fib.set(PREFIXES, 7, ten.clone(), &mut changes).unwrap();
        assert_eq!(changes, []);
        fib.set(NEXT_HOPS, 3, hop("c0:00:02:01", 2), &mut changes)
            .unwrap();
        assert_eq!(changes, [route("10.0.0.0", three, Some("192.0.2.1"), 2)]);
        changes.clear();
        fib.set(NEXT_HOPS, 3, hop("00:00:00:00", 4), &mut changes)
            .unwrap();
        assert_eq!(changes, [moved(three, None, 4)]);
        assert_eq!(fib.row(PREFIXES, 7), Some(&ten));
        changes.clear();
        // Another prefix in the same row: the old route is removed.
        fib.set(PREFIXES, 7, prefix("0b:00:00:00", 8, 3), &mut changes)
            .unwrap();
        let other = [gone("10.0.0.0", 8), route("11.0.0.0", three, None, 4)];
        assert_eq!(changes, other);
        changes.clear();
        fib.delete(NEXT_HOPS, 3, &mut changes).unwrap();
        assert_eq!(changes, [gone("11.0.0.0", 8)]);
        assert_eq!(fib.routes().count(), 0);
        assert_eq!(
            fib.delete(NEXT_HOPS, 3, &mut changes),
            Err(ResultCode::NotFound)
        );
    }

    /// A change of a next hop or a group moves every route that uses it.
    #[test]
    fn a_group_is_the_target_of_its_prefixes() {
        const GROUPS: Table = Table::Groups(Family::V4);
        let group = |members: &[(u64, u64)], action: &str| {
            let member = |(hop, weight): &(u64, u64)| {
                let weight = (*weight).into();
                Value::Struct(vec![
                    ("next_hop".into(), (*hop).into()),
                    ("weight".into(), weight),
                ])
            };
            let members = members.iter().map(member).collect();
            Value::Struct(vec![
                ("members".into(), Value::List(members)),
                ("action".into(), action.into()),
            ])
        };
        let ecmp = |address: &str, row: u64| {
            let Value::Struct(mut members) = prefix(address, 8, row) else {
                panic!("it is a structure");
            };
            members[2].1 = true.into();
            Value::Struct(members)
        };
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        let mut set = |fib: &mut Fib, table, row, value| {
            let before = fib.set(table, row, value, &mut changes).unwrap();
            (before, std::mem::take(&mut changes))
        };
        set(&mut fib, NEXT_HOPS, 3, hop("c0:00:02:01", 1));
        set(&mut fib, PREFIXES, 1, ecmp("0a:00:00:00", 3));
        set(&mut fib, PREFIXES, 2, ecmp("0b:00:00:00", 3));
        let both = [(3, 1), (4, 5)];
        let (made, one) = set(&mut fib, GROUPS, 3, group(&both, "forward"));
        let of_group = Selector::Group(3);
        let both = ["10.0.0.0", "11.0.0.0"].map(|p| route(p, of_group, Some("192.0.2.1"), 1));
        assert_eq!(one, both);
        // The second next hop of the group appears, and changes.
        let (_, two) = set(&mut fib, NEXT_HOPS, 4, hop("c0:00:02:09", 2));
        let [RouteChange::Move((Family::V4, Selector::Group(3)), target)] = &two[..] else {
            panic!("{two:?}");
        };
        let shown: Vec<_> = target.hops().map(|(hop, n)| (hop.port, n)).collect();
        assert_eq!(shown, [(1, 1), (2, 5)]);
        let before: Vec<_> = fib.routes().collect();
        let (moved, two) = set(&mut fib, NEXT_HOPS, 4, hop("c0:00:02:09", 7));
        assert_eq!(two.len(), 1);
        let (dropped, two) = set(&mut fib, GROUPS, 3, group(&[], "blackhole"));
        let drops = Target::Discard(weir_model::Discard::Blackhole);
        assert_eq!(two, [RouteChange::Move((Family::V4, of_group), drops)]);
        // The next hops no longer concern the group.
        assert_eq!(set(&mut fib, NEXT_HOPS, 3, hop("c0:00:02:02", 1)).1, []);
        set(&mut fib, NEXT_HOPS, 3, hop("c0:00:02:01", 1));
        fib.undo(vec![moved, dropped]);
        assert_eq!(fib.routes().collect::<Vec<_>>(), before);
        assert_eq!(fib.undo(vec![made]).len(), 2);
        assert_eq!(fib.routes().count(), 0);
        let empty = fib.set(GROUPS, 3, group(&[], "forward"), &mut Vec::new());
        assert_eq!(empty, Err(ResultCode::InvalidParameters));
    }

    #[test]
    fn undone_changes_leave_the_routes_as_they_were() {
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        fib.set(NEXT_HOPS, 1, hop("c0:00:02:01", 1), &mut changes)
            .unwrap();
        fib.set(PREFIXES, 1, prefix("0a:00:00:00", 8, 1), &mut changes)
            .unwrap();
        let before: Vec<_> = fib.routes().collect();
        let journal = vec![
            fib.set(NEXT_HOPS, 1, hop("c0:00:02:09", 1), &mut changes)
                .unwrap(),
            fib.set(PREFIXES, 2, prefix("0b:00:00:00", 8, 1), &mut changes)
                .unwrap(),
            fib.delete(PREFIXES, 1, &mut changes).unwrap(),
        ];
        let undone = fib.undo(journal);
        assert_eq!(fib.routes().collect::<Vec<_>>(), before);
        let expected = [
            route("10.0.0.0", Selector::NextHop(1), Some("192.0.2.9"), 1),
            gone("11.0.0.0", 8),
            moved(Selector::NextHop(1), Some("192.0.2.1"), 1),
        ];
        assert_eq!(undone, expected);
        assert_eq!(fib.clear(), [gone("10.0.0.0", 8)]);
    }

    #[test]
    fn a_row_that_cannot_be_a_route_has_its_code() {
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        let mut code = |row, value| fib.set(PREFIXES, row, value, &mut changes).unwrap_err();
        let short = prefix("0a:00:00", 8, 1);
        assert_eq!(code(1, short), ResultCode::InvalidParameters);
        let long = prefix("0a:00:00:00", 33, 1);
        assert_eq!(code(1, long), ResultCode::ValueOutOfRange);
        let nothing = Value::Struct(Vec::new());
        assert_eq!(code(1, nothing), ResultCode::InvalidParameters);
        fib.set(PREFIXES, 1, prefix("0a:00:00:00", 8, 1), &mut changes)
            .unwrap();
        let again = fib.set(PREFIXES, 2, prefix("0a:00:00:01", 8, 1), &mut changes);
        assert_eq!(again, Err(ResultCode::Exists));
    }
}
