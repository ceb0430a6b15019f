//! Routes of FEs: changes that operators ask for, and their restoration.
//!
//! ```text
//!  running configuration  -> rows that the FE has -> difference, Config by Config -> in sync
//!                                   ^                          | some are refused
//!                                   '--- read again, without --'-> refused, and the others are installed
//! ```
//!
//! A change by operators is all or none. A restoration is not: an FE may refuse a route because a network no longer
//! exists there, and that must not hold up a hundred thousand other routes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use weir_base::Instant;
use weir_base::setting::{did_you_mean, nearest};
use weir_lfb::named::Named;
use weir_model::{ComponentPath, RouteReport};
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, Then};
use super::member::Fe;
use super::resolved::Resolved;
use super::sync::{Paths, ROUNDS_MAX};
use crate::contract::{Answer, Refusal, Ticket};
use crate::leaf::Leaf;
use crate::route::rows::{self, Family, FeNextHop, Rows, Updates};
use crate::route::{Hop, LINES_MAX, RouteChange, RouteKey, RouteRecord, Verb};
use crate::settings::Edit;

/// The desired next hop of each prefix; `None` deletes the prefix.
type Wanted = BTreeMap<IpNet, Option<FeNextHop>>;

impl Fe {
    /// The changes to the desired routes, if each change is permitted.
    pub(super) fn route_records(
        &self,
        changes: &[RouteChange],
    ) -> Result<Vec<RouteRecord>, Refusal> {
        let mut lines = Vec::new();
        for change in changes {
            if let Verb::Add(hop) | Verb::Replace(hop) = &change.verb
                && let Err(why) = self.check_port(&hop.port)
            {
                lines.push(change.error(why));
                if lines.len() == LINES_MAX {
                    break;
                }
            }
        }
        let records = if lines.is_empty() {
            self.routes.records(changes, LINES_MAX)
        } else {
            Err(lines)
        };
        let named = |line: String| format!("{}: {line}", self.name);
        records.map_err(|lines| Refusal::Refused(lines.into_iter().map(named).collect()))
    }

    /// Refuses an unknown port as a mistyped name, unless the FE has not associated yet.
    fn check_port(&self, port: &str) -> Result<(), String> {
        let known = self.directory.of_kind(Named::Port).map(|(_, name)| name);
        let known: Vec<&str> = known.collect();
        if known.is_empty() || known.contains(&port) {
            return Ok(());
        }
        let near = did_you_mean(nearest(port, known.into_iter()));
        Err(format!("there is no port `{port}`{near}"))
    }

    /// The row changes that follow from these changes to the desired routes; `None` if the CE does not know the rows.
    pub(super) fn route_updates(
        &self,
        records: &[RouteRecord],
    ) -> Result<Option<(Updates, Vec<Edit>)>, String> {
        let Some(rows) = &self.rows else {
            return Ok(None);
        };
        let after: BTreeMap<RouteKey, Option<&Hop>> = records
            .iter()
            .map(|(key, hop)| (*key, hop.as_ref()))
            .collect();
        let gates = self.gates();
        let mut wanted = Wanted::new();
        for (prefix, _) in after.keys() {
            if wanted.contains_key(prefix) {
                continue;
            }
            let gate = match self.best_after(*prefix, &after) {
                Some(hop) => Some(gates.gate(hop)?),
                None => None,
            };
            wanted.insert(*prefix, gate);
        }
        update(rows, wanted, false).map(Some)
    }

    /// The row changes that give these prefixes their best routes; `None` if the CE does not know the rows. Routes
    /// through ports that the FE does not have become `unroutable`.
    pub(super) fn updates_of(
        &mut self,
        prefixes: &BTreeSet<IpNet>,
    ) -> Option<Result<(Updates, Vec<Edit>), String>> {
        let gates = self.gates();
        let (mut wanted, mut unroutable) = (Wanted::new(), BTreeMap::new());
        for prefix in prefixes {
            let best = self
                .best(*prefix)
                .filter(|_| !self.unroutable.contains_key(prefix));
            let gate = best.map(|hop| gates.gate(hop)).transpose();
            let gate = gate.unwrap_or_else(|why| {
                unroutable.insert(*prefix, why);
                None
            });
            wanted.insert(*prefix, gate);
        }
        self.unroutable.extend(unroutable);
        Some(update(self.rows.as_ref()?, wanted, false))
    }

    /// The best next hop of a prefix.
    fn best(&self, prefix: IpNet) -> Option<&Hop> {
        self.best_after(prefix, &BTreeMap::new())
    }

    /// The prefixes with routes, and their best next hops.
    fn bests(&self) -> impl Iterator<Item = (IpNet, &Hop)> {
        let learnt = self.learnt.iter().flat_map(|learnt| learnt.routes.keys());
        let learnt = learnt.filter(|prefix| self.routes.best(**prefix).is_none());
        let prefixes = self.routes.bests().map(|(prefix, _)| prefix);
        let prefixes = prefixes.chain(learnt.copied());
        prefixes.filter_map(|prefix| Some((prefix, self.best(prefix)?)))
    }

    /// The best next hop of a prefix after a change. Of equal metrics, an operator's route is better.
    fn best_after<'a>(
        &'a self,
        prefix: IpNet,
        after: &BTreeMap<RouteKey, Option<&'a Hop>>,
    ) -> Option<&'a Hop> {
        let of_prefix = (prefix, 0)..=(prefix, u32::MAX);
        let changed = after.range(of_prefix.clone());
        let changed = changed.filter_map(|(key, hop)| Some((key.1, (*hop)?)));
        let stays = self.routes.range(of_prefix);
        let stays = stays.filter(|(key, _)| !after.contains_key(key));
        let stays = stays.map(|(key, hop)| (key.1, hop));
        let learnt = self.learnt.as_ref();
        let learnt = learnt.and_then(|learnt| learnt.routes.get(&prefix));
        let learnt = learnt.map(|(metric, hop)| (*metric, hop));
        let all = changed.chain(stays).chain(learnt);
        let best = all.min_by_key(|(metric, _)| *metric); // of equal ones the first
        best.map(|(_, hop)| hop)
    }

    fn gates(&self) -> Gates<'_> {
        let ports = self.directory.of_kind(Named::Port);
        Gates(ports.map(|(number, name)| (name, number)).collect())
    }

    /// A line for each changed route, or one line for all if there are too many.
    pub(super) fn route_lines(&self, records: &[RouteRecord]) -> Vec<String> {
        if records.len() > LINES_MAX {
            return vec![format!("{} routes changed", records.len())];
        }
        let line = |(key, hop): &RouteRecord| {
            let (prefix, metric) = key;
            match (hop, self.routes.get(*key)) {
                (Some(hop), None) => format!("+ route {prefix} {hop} metric {metric}"),
                (Some(hop), Some(_)) => format!("~ route {prefix} {hop} metric {metric}"),
                (None, _) => format!("- route {prefix} metric {metric}"),
            }
        };
        records.iter().map(line).collect()
    }
}

/// Instances of ports, by name.
struct Gates<'a>(HashMap<&'a str, u32>);

impl Gates<'_> {
    fn gate(&self, hop: &Hop) -> Result<FeNextHop, String> {
        match self.0.get(&*hop.port) {
            Some(port) => Ok((hop.gateway, *port)),
            None => Err(format!("there is no port `{}`", hop.port)),
        }
    }
}

fn update(rows: &[Rows; 2], wanted: Wanted, clean: bool) -> Result<(Updates, Vec<Edit>), String> {
    let mut families: [Wanted; 2] = Default::default();
    for (prefix, gate) in wanted {
        families[Family::of(&prefix) as usize].insert(prefix, gate);
    }
    let [v4, v6] = families;
    let (v4, mut edits) = rows[0].update(v4, clean)?;
    let (v6, more) = rows[1].update(v6, clean)?;
    edits.extend(more);
    Ok(([v4, v6], edits))
}

/// Refuses to let an operator set rows that belong to the route service.
pub(super) fn check_rows(
    fe: &Fe,
    path: &ComponentPath,
    resolved: &Resolved,
) -> Result<(), Refusal> {
    let of_service = rows::is_of_service(&resolved.way.ids);
    let has_routes = !fe.routes.is_empty() || fe.learnt.is_some();
    if !rows::is_table(resolved.block) || !of_service.unwrap_or(has_routes) {
        return Ok(());
    }
    let why = "rows from 65536, and tables that contain such rows, are changed with `weir route`";
    Err(Refusal::Wrong(format!("{}:{path}: {why}", fe.name)))
}

impl Control {
    /// The paths to read for the rows of an FE.
    pub(super) fn route_reads(fe: &Fe) -> Result<Paths, String> {
        let mut paths = Paths::new();
        for family in Family::ALL {
            if family.blocks().iter().all(|block| fe.directory.has(*block)) {
                paths.extend(Rows::reads(family)?);
            }
        }
        Ok(paths)
    }

    /// Stores the rows that were read from an FE.
    pub(super) fn read_rows(&mut self, id: Id, leaves: &[Leaf]) -> Result<(), String> {
        let parse = |family| Rows::parse(family, &self.codec, leaves);
        let rows = [parse(Family::V4)?, parse(Family::V6)?];
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.rows = Some(rows);
        }
        Ok(())
    }

    /// Restores the routes of an FE whose other state is as desired; `count` components were restored before.
    pub(super) fn sync_routes(&mut self, now: Instant, id: Id, count: usize) {
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) else {
            return;
        };
        if let Some(learnt) = &mut fe.learnt {
            learnt.changed.clear();
        }
        match difference(fe) {
            Err(why) => self.refuse(now, id, &format!("its routes: {why}")),
            Ok((_, edits)) if edits.is_empty() => self.routes_in_force(now, id, count),
            Ok((updates, edits)) => {
                let count = count + edits.len();
                let then = Then::Routed(id, Box::new(updates), count);
                self.send_each(now, id, rows::next_hops_first(edits), then);
            }
        }
    }

    /// Handles an FE's answer to the routes that it lacked.
    pub(super) fn routed(
        &mut self,
        now: Instant,
        id: Id,
        updates: Updates,
        count: usize,
        answers: Answers,
    ) {
        let leaves = match answers {
            Ok(leaves) => leaves,
            Err(refusal) => {
                self.forget_rows(id);
                return self.refuse(now, id, &refusal.to_string());
            }
        };
        let done = self.all_done(id, &leaves);
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) else {
            return;
        };
        if let Err(refusal) = done {
            let refused = rows::refused(&updates, &leaves);
            let is_known = !refused.is_empty();
            fe.unroutable.extend(refused);
            fe.rounds += 1;
            return match is_known && fe.rounds < ROUNDS_MAX {
                true => self.describe(now, id), // learns which other routes the FE accepted
                false => {
                    self.forget_rows(id);
                    self.refuse(now, id, &refusal.to_string());
                }
            };
        }
        fe.apply_routes(updates);
        self.routes_in_force(now, id, count);
    }

    /// Forgets the rows of an FE that may have made a part of a change.
    pub(super) fn forget_rows(&mut self, id: Id) {
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.rows = None;
        }
    }

    /// The FE has all routes that it can have; reports any that it cannot have.
    fn routes_in_force(&mut self, now: Instant, id: Id, count: usize) {
        let Some(fe) = self.fes.get(&id) else {
            return;
        };
        match missing(fe) {
            Some(why) => self.refuse(now, id, &why),
            None => self.in_sync(now, id, count),
        }
    }

    /// Lists the desired routes of one FE or of all FEs.
    pub(super) fn list_routes(&mut self, ticket: Ticket, fe: Option<&str>) {
        let listed = match fe {
            Some(name) => self.named(name).map(|fe| reports(fe).collect()),
            None => Ok(self.fes.values().flat_map(reports).collect()),
        };
        self.answer(ticket, listed.map(Answer::Routes));
    }
}

impl Fe {
    /// Applies a change of rows that the FE has confirmed.
    pub(super) fn apply_routes(&mut self, updates: Updates) {
        if let Some(rows) = &mut self.rows {
            for (rows, update) in rows.iter_mut().zip(updates) {
                rows.apply(update);
            }
        }
    }
}

/// The change that adds missing routes to an FE and deletes undesired ones, unless those may still be learnt.
fn difference(fe: &Fe) -> Result<(Updates, Vec<Edit>), String> {
    let Some(rows) = &fe.rows else {
        return Ok(Default::default());
    };
    let is_complete = fe.learnt.as_ref().is_none_or(|learnt| learnt.is_complete);
    let there = rows.iter().filter(|_| is_complete).flat_map(Rows::prefixes);
    let mut wanted: Wanted = there.map(|prefix| (*prefix, None)).collect();
    let gates = fe.gates();
    for (prefix, hop) in fe.bests() {
        if !fe.unroutable.contains_key(&prefix)
            && let Ok(gate) = gates.gate(hop)
        {
            wanted.insert(prefix, Some(gate));
        }
    }
    update(rows, wanted, true)
}

/// The routes of operators that an FE cannot have, as a sentence.
fn missing(fe: &Fe) -> Option<String> {
    let gates = fe.gates();
    let mut missing = fe.routes.bests().filter_map(|(prefix, hop)| {
        let why = fe.unroutable.get(&prefix).cloned();
        let why = why.or_else(|| gates.gate(hop).err())?;
        Some((prefix, why))
    });
    let (prefix, why) = missing.next()?;
    let more = missing.count();
    let more = Some(more).filter(|more| *more > 0);
    let more = more.map(|more| format!("; and {more} more routes (`weir route list`)"));
    Some(format!("route {prefix}: {why}{}", more.unwrap_or_default()))
}

fn reports(fe: &Fe) -> impl Iterator<Item = RouteReport> {
    let of_operators = fe.routes.iter();
    let of_operators =
        of_operators.map(|((prefix, metric), hop)| (prefix, *metric, hop, "operator"));
    let learnt = fe.learnt.iter().flat_map(|learnt| &learnt.routes);
    let learnt = learnt.map(|(prefix, (metric, hop))| (prefix, *metric, hop, "router"));
    of_operators
        .chain(learnt)
        .map(|(prefix, metric, hop, origin)| {
            let is_best = fe.best(*prefix).is_some_and(|best| std::ptr::eq(best, hop));
            let has = |rows: &[Rows; 2]| rows.iter().any(|rows| rows.has(prefix));
            let state = match (is_best, fe.rows.as_ref().is_some_and(has)) {
                (false, _) => "standby",
                (true, true) if fe.lacks.is_some() => "written", // its kernel lacks this or other routes
                (true, true) => "installed",
                (true, false) => "waits",
            };
            RouteReport {
                fe: fe.name.clone(),
                prefix: prefix.to_string(),
                via: hop.gateway.map(|gateway| gateway.to_string()),
                port: hop.port.to_string(),
                metric,
                origin: origin.to_owned(),
                state: state.to_owned(),
            }
        })
}
