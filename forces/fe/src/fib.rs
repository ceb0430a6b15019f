//! The forwarding tables that a control element writes (RFC 6956: classes 10 to 13), and the resulting routes.
//!
//! ```text
//!  prefix table             next-hop table                routes
//!  row 7: 10.0.0.0/8 --> 3  row 3: 192.0.2.1, port 2      10.0.0.0/8 via 192.0.2.1, port 2
//! ```
//!
//! A row of a prefix table refers to a row of the next-hop table of its family. If both rows exist, they form a route;
//! without the next hop there is no route, as in RFC 6956. A change of a next hop changes the routes of all prefixes
//! that refer to it.
//!
//! [`Fib::undo`] undoes changes, given the values that [`Fib::set`] and [`Fib::delete`] have returned.
//!
//! *Decision*: a prefix has exactly one next hop; ECMPFlag is refused. The MTU and LFBOutputSelectIndex of a next hop
//! are stored and reported, but have no effect: the MTU of the port applies. MediaEncapInfoIndex is not needed, because
//! the router resolves the neighbour's MAC address itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_model::Value;
use weir_protocol::wire::ResultCode;

/// Maximum number of rows in a table.
const ROWS_MAX: usize = 1 << 20;

/// The IP version of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
}

/// A prefix: an address and the prefix length in bits.
pub type Prefix = (IpAddr, u8);

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destinations.
    pub prefix: Prefix,
    /// The next router; `None` for destinations on the link.
    pub gateway: Option<IpAddr>,
    /// Instance of the port's class.
    pub port: u32,
}

/// A change of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// Set the route of this prefix, whether or not it exists.
    Put(Route),
    /// Remove the route of this prefix.
    Remove(Prefix),
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
    /// Row of each prefix.
    row_of: BTreeMap<Prefix, u32>,
    /// The prefix rows that refer to a next hop, whether or not the next hop exists.
    users: BTreeMap<u32, BTreeSet<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefixRow {
    prefix: Prefix,
    next_hop: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextHop {
    gateway: Option<IpAddr>,
    port: u32,
}

impl Fib {
    /// The value of a row.
    pub fn row(&self, table: Table, row: u32) -> Option<&Value> {
        match table {
            Table::Prefixes(family) => Some(&self.tables(family).prefixes.get(&row)?.1),
            Table::NextHops(family) => Some(&self.tables(family).next_hops.get(&row)?.1),
        }
    }

    /// The rows of a table, starting at this index, in order.
    pub fn rows(&self, table: Table, from: u32) -> Box<dyn Iterator<Item = (u32, &Value)> + '_> {
        match table {
            Table::Prefixes(family) => {
                let rows = self.tables(family).prefixes.range(from..);
                Box::new(rows.map(|(row, (_, value))| (*row, value)))
            }
            Table::NextHops(family) => {
                let rows = self.tables(family).next_hops.range(from..);
                Box::new(rows.map(|(row, (_, value))| (*row, value)))
            }
        }
    }

    /// Number of rows of a table.
    pub fn len(&self, table: Table) -> usize {
        match table {
            Table::Prefixes(family) => self.tables(family).prefixes.len(),
            Table::NextHops(family) => self.tables(family).next_hops.len(),
        }
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        [&self.v4, &self.v6].into_iter().flat_map(|tables| {
            let rows = tables.prefixes.values();
            rows.filter_map(|(row, _)| tables.route(*row))
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
                    .set_next_hop(row, parsed, value, changes)
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
            Table::NextHops(family) => self.tables_mut(family).delete_next_hop(row, changes),
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
    fn route(&self, row: PrefixRow) -> Option<Route> {
        let (NextHop { gateway, port }, _) = self.next_hops.get(&row.next_hop)?;
        Some(Route {
            prefix: row.prefix,
            gateway: *gateway,
            port: *port,
        })
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
        let before = self.prefixes.insert(row, (parsed, value));
        if let Some((before, _)) = &before {
            self.unlink(row, *before);
        }
        self.row_of.insert(parsed.prefix, row);
        self.users.entry(parsed.next_hop).or_default().insert(row);
        let old = before.as_ref().and_then(|(before, _)| self.route(*before));
        match (old, self.route(parsed)) {
            (Some(old), Some(new)) if old == new => {}
            (old, Some(new)) => {
                let moved = old.filter(|old| old.prefix != new.prefix);
                changes.extend(moved.map(|old| RouteChange::Remove(old.prefix)));
                changes.push(RouteChange::Put(new));
            }
            (old, None) => changes.extend(old.map(|old| RouteChange::Remove(old.prefix))),
        }
        Ok(before.map(|(_, value)| value))
    }

    fn delete_prefix(&mut self, row: u32, changes: &mut Vec<RouteChange>) -> Option<Value> {
        let (parsed, value) = self.prefixes.remove(&row)?;
        self.unlink(row, parsed);
        let route = self.route(parsed);
        changes.extend(route.map(|route| RouteChange::Remove(route.prefix)));
        Some(value)
    }

    fn set_next_hop(
        &mut self,
        row: u32,
        parsed: NextHop,
        value: Value,
        changes: &mut Vec<RouteChange>,
    ) -> Option<Value> {
        let before = self.next_hops.insert(row, (parsed, value));
        if before.as_ref().map(|(before, _)| *before) != Some(parsed) {
            changes.extend(self.routes_by(row).map(RouteChange::Put));
        }
        before.map(|(_, value)| value)
    }

    fn delete_next_hop(&mut self, row: u32, changes: &mut Vec<RouteChange>) -> Option<Value> {
        let gone = self.routes_by(row);
        changes.extend(gone.map(|route| RouteChange::Remove(route.prefix)));
        self.next_hops.remove(&row).map(|(_, value)| value)
    }

    /// The routes that use a next hop.
    fn routes_by(&self, next_hop: u32) -> impl Iterator<Item = Route> {
        let users = self.users.get(&next_hop).into_iter().flatten();
        users.filter_map(|row| self.route(self.prefixes.get(row)?.0))
    }

    /// Removes a prefix row from the indices.
    fn unlink(&mut self, row: u32, parsed: PrefixRow) {
        if self.row_of.get(&parsed.prefix) == Some(&row) {
            self.row_of.remove(&parsed.prefix);
        }
        if let Some(users) = self.users.get_mut(&parsed.next_hop) {
            users.remove(&row);
            if users.is_empty() {
                self.users.remove(&parsed.next_hop);
            }
        }
    }
}

/// Parses a row of a prefix table, IPvNPrefixInfo of RFC 6956.
fn prefix_row(family: Family, row: &Value) -> Result<PrefixRow, ResultCode> {
    if flag(row, "ECMPFlag")? {
        return Err(ResultCode::NotSupported);
    }
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
    Ok(PrefixRow {
        prefix: (network(address, len), len),
        next_hop: number(row, "HopSelector")?,
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

    fn route(prefix: &str, len: u8, gateway: Option<&str>, port: u32) -> RouteChange {
        RouteChange::Put(Route {
            prefix: (prefix.parse().unwrap(), len),
            gateway: gateway.map(|text| text.parse().unwrap()),
            port,
        })
    }

    fn gone(prefix: &str, len: u8) -> RouteChange {
        RouteChange::Remove((prefix.parse().unwrap(), len))
    }

    #[test]
    fn a_route_is_there_when_its_prefix_and_its_next_hop_are() {
        let (mut fib, mut changes) = (Fib::default(), Vec::new());
        let ten = prefix("0a:01:02:03", 8, 3);
        fib.set(PREFIXES, 7, ten.clone(), &mut changes).unwrap();
        assert_eq!(changes, []);
        fib.set(NEXT_HOPS, 3, hop("c0:00:02:01", 2), &mut changes)
            .unwrap();
        assert_eq!(changes, [route("10.0.0.0", 8, Some("192.0.2.1"), 2)]);
        changes.clear();
        fib.set(NEXT_HOPS, 3, hop("00:00:00:00", 4), &mut changes)
            .unwrap();
        assert_eq!(changes, [route("10.0.0.0", 8, None, 4)]);
        assert_eq!(fib.row(PREFIXES, 7), Some(&ten));
        changes.clear();
        // Another prefix in the same row: the old route is removed.
        fib.set(PREFIXES, 7, prefix("0b:00:00:00", 8, 3), &mut changes)
            .unwrap();
        let moved = [gone("10.0.0.0", 8), route("11.0.0.0", 8, None, 4)];
        assert_eq!(changes, moved);
        changes.clear();
        fib.delete(NEXT_HOPS, 3, &mut changes).unwrap();
        assert_eq!(changes, [gone("11.0.0.0", 8)]);
        assert_eq!(fib.routes().count(), 0);
        assert_eq!(
            fib.delete(NEXT_HOPS, 3, &mut changes),
            Err(ResultCode::NotFound)
        );
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
            route("10.0.0.0", 8, Some("192.0.2.9"), 1),
            gone("11.0.0.0", 8),
            route("10.0.0.0", 8, Some("192.0.2.1"), 1),
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
