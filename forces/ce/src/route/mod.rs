//! Desired routes of FEs, and the rows of forwarding tables that they compile to (RFC 6956, classes 10 to 13).
//!
//! ```text
//!   10.0.0.0/8 via 192.0.2.1, wan, metric 0   --best--> prefix row 65536 --> next-hop row 65540
//!   10.0.0.0/8 via 192.0.2.9, lan, metric 9   standby
//! ```
//!
//! - this file: the desired routes of one FE
//! - [`rows`]: rows of one family at an FE, and the edits that produce the desired rows

pub(crate) mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_model::Target;

/// Maximum routes of one FE.
pub const ROUTES_MAX: usize = 1 << 20;
/// Maximum routes that a routing suite finds for an FE: the FE's tables of both families.
pub(crate) const LEARNT_MAX: usize = 2 << 20;

/// Maximum errors listed for a request, and maximum changes listed in an answer.
pub(crate) const LINES_MAX: usize = 20;

/// Limits a list of errors, which may contain an error for each of many routes, to `max`, and adds the number of the
/// rest.
pub(crate) fn cut(mut errors: Vec<String>, max: usize) -> Vec<String> {
    let more = errors.len().saturating_sub(max);
    errors.truncate(max);
    if more > 0 {
        errors.push(format!("and {more} more errors"));
    }
    errors
}

/// Identifies a route: its prefix and its metric.
pub type RouteKey = (IpNet, u32);

/// The next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The next router; `None` for destinations on the link.
    pub gateway: Option<IpAddr>,
    /// Name of the port.
    pub port: Arc<str>,
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "via {gateway} dev {}", self.port),
            None => write!(f, "dev {}", self.port),
        }
    }
}

/// A change of one route: its new next hop, or `None` to delete it.
pub type RouteRecord = (RouteKey, Option<Hop>);

/// A route that a routing suite has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntRoute {
    /// Priority of the route; the lowest number wins.
    pub metric: u32,
    /// Number of the protocol that has found it (`rtm_protocol`).
    pub protocol: u8,
    /// Where its packets go.
    pub target: Target<Hop>,
}

/// A change of a routing suite's route of one prefix; `None` if the suite has withdrawn it.
pub type LearntRecord = (IpNet, Option<LearntRoute>);

/// Routes of a routing suite that have got another target together, because their next-hop object has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The old target.
    pub before: Target<Hop>,
    /// The new target.
    pub after: Target<Hop>,
    /// Number of these routes.
    pub routes: usize,
}

/// A route change requested by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// The route.
    pub key: RouteKey,
    /// The kind of change.
    pub verb: Verb,
    /// Line number in a file, for errors.
    pub line: Option<u32>,
}

/// The kind of a route change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Add a new route.
    Add(Hop),
    /// Add a new route, or change the next hop of an existing route.
    Replace(Hop),
    /// Delete a route. If a gateway or port is given, the route must have it.
    Delete(Option<IpAddr>, Option<Arc<str>>),
}

impl RouteChange {
    /// An error about this route.
    pub(crate) fn error(&self, why: impl fmt::Display) -> String {
        let (prefix, metric) = self.key;
        let line = self.line.map(|line| format!("line {line}: "));
        let metric = Some(metric).filter(|metric| *metric != 0);
        let metric = metric.map(|metric| format!(" metric {metric}"));
        let (line, metric) = (line.unwrap_or_default(), metric.unwrap_or_default());
        format!("{line}route {prefix}{metric}: {why}")
    }
}

/// The desired routes of one FE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(BTreeMap<RouteKey, Hop>);

impl Routes {
    /// Number of routes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All routes, by prefix and metric.
    pub fn iter(&self) -> impl Iterator<Item = (&RouteKey, &Hop)> {
        self.0.iter()
    }

    /// The next hop of a route.
    pub fn get(&self, key: RouteKey) -> Option<&Hop> {
        self.0.get(&key)
    }

    /// The routes within a range of keys.
    pub(crate) fn range(
        &self,
        keys: std::ops::RangeInclusive<RouteKey>,
    ) -> impl Iterator<Item = (&RouteKey, &Hop)> {
        self.0.range(keys)
    }

    /// Applies a record.
    pub fn put(&mut self, key: RouteKey, hop: Option<Hop>) {
        match hop {
            Some(hop) => self.0.insert(key, hop),
            None => self.0.remove(&key),
        };
    }

    /// The route of a prefix with the lowest metric.
    pub fn best(&self, prefix: IpNet) -> Option<(u32, &Hop)> {
        let mut of_prefix = self.0.range((prefix, 0)..=(prefix, u32::MAX));
        of_prefix.next().map(|((_, metric), hop)| (*metric, hop))
    }

    /// The prefixes with their best next hops.
    pub(crate) fn bests(&self) -> impl Iterator<Item = (IpNet, &Hop)> {
        let mut last = None;
        let best = move |(key, hop): (&RouteKey, _)| {
            (last.replace(key.0) != Some(key.0)).then_some((key.0, hop))
        };
        self.0.iter().filter_map(best)
    }

    /// The records for these changes, or an error for each invalid change, at most `errors_max` errors.
    pub(crate) fn records(
        &self,
        changes: &[RouteChange],
        errors_max: usize,
    ) -> Result<Vec<RouteRecord>, Vec<String>> {
        let (mut records, mut errors) = (Vec::with_capacity(changes.len()), Vec::new());
        let mut seen = BTreeSet::new();
        for change in changes {
            let checked = if seen.insert(change.key) {
                self.checked(change, self.get(change.key))
            } else {
                Err("the request contains it twice".to_owned())
            };
            match checked {
                Ok(hop) => records.push((change.key, hop)),
                Err(why) => errors.push(change.error(why)),
            }
        }
        let is_new = |(key, hop): &&RouteRecord| hop.is_some() && self.get(*key).is_none();
        if self.len() + records.iter().filter(is_new).count() > ROUTES_MAX {
            errors.push(format!("an FE can have at most {ROUTES_MAX} routes"));
        }
        if errors.is_empty() {
            Ok(records)
        } else {
            Err(cut(errors, errors_max))
        }
    }

    fn checked(&self, change: &RouteChange, before: Option<&Hop>) -> Result<Option<Hop>, String> {
        match (&change.verb, before) {
            (Verb::Add(_), Some(before)) => Err(format!(
                "it exists, {before}; `weir route replace` changes it, and another metric adds a second route"
            )),
            (Verb::Add(hop), None) | (Verb::Replace(hop), _) => Ok(Some(hop.clone())),
            (Verb::Delete(..), None) => Err(match self.best(change.key.0) {
                Some((metric, hop)) => {
                    format!("it does not exist; an existing route is {hop} metric {metric}")
                }
                None => "it does not exist".to_owned(),
            }),
            (Verb::Delete(gateway, port), Some(before)) => {
                let is_other = gateway.is_some() && *gateway != before.gateway
                    || port.as_ref().is_some_and(|port| *port != before.port);
                if is_other {
                    Err(format!("the existing route is {before}"))
                } else {
                    Ok(None)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(prefix: &str, metric: u32) -> RouteKey {
        (prefix.parse().unwrap(), metric)
    }

    fn hop(gateway: &str, port: &str) -> Hop {
        Hop {
            gateway: Some(gateway.parse().unwrap()),
            port: port.into(),
        }
    }

    fn change(prefix: &str, metric: u32, verb: Verb) -> RouteChange {
        RouteChange {
            key: key(prefix, metric),
            verb,
            line: Some(7),
        }
    }

    fn routes() -> Routes {
        let mut routes = Routes::default();
        routes.put(key("10.0.0.0/8", 9), Some(hop("192.0.2.9", "lan")));
        routes.put(key("10.0.0.0/8", 0), Some(hop("192.0.2.1", "wan")));
        routes.put(key("2001:db8::/32", 5), Some(hop("fe80::1", "wan")));
        routes
    }

    #[test]
    fn the_lowest_metric_wins_until_it_goes() {
        let mut routes = routes();
        let ten = "10.0.0.0/8".parse().unwrap();
        assert_eq!(routes.best(ten), Some((0, &hop("192.0.2.1", "wan"))));
        assert_eq!(routes.bests().count(), 2);
        routes.put((ten, 0), None);
        assert_eq!(routes.best(ten), Some((9, &hop("192.0.2.9", "lan"))));
    }

    #[test]
    fn each_error_names_its_route_and_its_line() {
        let error = |change: RouteChange| routes().records(&[change], 10).unwrap_err().remove(0);
        let add = change("10.0.0.0/8", 0, Verb::Add(hop("192.0.2.2", "wan")));
        let exists = error(add.clone());
        assert!(
            exists.starts_with("line 7: route 10.0.0.0/8: it exists, via 192.0.2.1 dev wan"),
            "{exists}"
        );
        let none = error(change("2001:db8::/32", 0, Verb::Delete(None, None)));
        let wanted = "line 7: route 2001:db8::/32: it does not exist; an existing route is via fe80::1 \
                      dev wan metric 5";
        assert_eq!(none, wanted);
        let lan = Verb::Delete(None, Some("lan".into()));
        let other = error(change("10.0.0.0/8", 0, lan));
        assert!(
            other.ends_with("the existing route is via 192.0.2.1 dev wan"),
            "{other}"
        );
        let new = change("10.1.0.0/16", 0, Verb::Add(hop("192.0.2.2", "wan")));
        let twice = routes().records(&[new.clone(), new.clone()], 10);
        assert_eq!(
            twice,
            Err(vec![
                "line 7: route 10.1.0.0/16: the request contains it twice".to_owned()
            ])
        );
        let many = routes().records(&vec![add; 9], 2).unwrap_err();
        assert_eq!(many.len(), 3);
        assert_eq!(many[2], "and 7 more errors");
        let replace = change("10.0.0.0/8", 0, Verb::Replace(hop("192.0.2.2", "wan")));
        let records = routes().records(&[new, replace], 10).unwrap();
        assert_eq!(records.len(), 2);
    }
}
