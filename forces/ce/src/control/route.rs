//! Routes of FEs: changes that operators request, and their restoration.
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
use weir_model::{ComponentPath, RouteReport, Target};
use weir_protocol::wire::Id;

use super::Control;
use super::continuation::{Answers, Then};
use super::member::Fe;
use super::resolved::Resolved;
use super::sync::{Paths, ROUNDS_MAX};
use crate::contract::{Answer, Refusal, Ticket};
use crate::leaf::Leaf;
use crate::route::rows::{self, Edits, Family, FeNextHop, Rows, Update, Updates};
use crate::route::{Hop, LINES_MAX, RouteChange, RouteKey, RouteRecord, Shift, Verb};
use crate::settings::Edit;

/// The desired target of each prefix; `None` deletes the prefix.
type Wanted = BTreeMap<IpNet, Option<Target<FeNextHop>>>;

/// The best route of a prefix: its metric, whether a routing suite has found it, and its target. Of equal metrics, an
/// operator's route is better.
type Best<'a> = (u32, bool, Target<&'a Hop>);

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
            let best = self.best_after(*prefix, &after);
            let target = best.map(|(.., target)| gates.target(Family::of(prefix), &target));
            wanted.insert(*prefix, target.transpose()?);
        }
        let (updates, edits) = update(rows, wanted, false, false)?;
        Ok(Some((updates, edits.concat())))
    }

    /// The row changes that give these prefixes their best routes; `None` if the CE does not know the rows. Routes
    /// through ports that the FE does not have become `unroutable`. If `moves`, next hops and groups may change.
    pub(super) fn updates_of(
        &mut self,
        prefixes: &BTreeSet<IpNet>,
        moves: bool,
    ) -> Option<Result<(Updates, Edits), String>> {
        let gates = self.gates();
        let (mut wanted, mut unroutable) = (Wanted::new(), BTreeMap::new());
        for prefix in prefixes {
            let best = self
                .best(*prefix)
                .filter(|_| !self.unroutable.contains_key(prefix));
            let target = best.map(|(.., target)| gates.target(Family::of(prefix), &target));
            let target = target.transpose().unwrap_or_else(|why| {
                unroutable.insert(*prefix, why);
                None
            });
            wanted.insert(*prefix, target);
        }
        self.unroutable.extend(unroutable);
        Some(update(self.rows.as_ref()?, wanted, true, moves)) // a refused route leaves its next hops behind
    }

    /// The row changes of shifts; `None` if the CE does not know the rows. If `is_exact`, only for rows to which just the
    /// routes of the shift refer.
    pub(super) fn updates_of_shifts(
        &self,
        shifts: &[Shift],
        is_exact: bool,
    ) -> Option<Result<(Updates, Edits), String>> {
        let rows = self.rows.as_ref()?;
        let gates = self.gates();
        let shifted = |family: Family| {
            let gate = |target: &Target<Hop>| gates.target(family, &target.as_ref()).ok();
            let shifts = shifts.iter().filter_map(|shift| {
                let users = Some(shift.routes).filter(|_| is_exact);
                Some((gate(&shift.before)?, gate(&shift.after)?, users))
            });
            rows[family as usize].shift(shifts)
        };
        let [v4, v6] = Family::ALL.map(shifted);
        Some(v4.and_then(|v4| Ok(joined(v4, v6?))))
    }

    /// The best route of a prefix.
    pub(super) fn best(&self, prefix: IpNet) -> Option<Best<'_>> {
        self.best_after(prefix, &BTreeMap::new())
    }

    /// The prefixes with routes, and their best routes.
    fn bests(&self) -> impl Iterator<Item = (IpNet, Best<'_>)> {
        let learnt = self.learnt.iter().flat_map(|learnt| learnt.routes.keys());
        let learnt = learnt.filter(|prefix| self.routes.best(**prefix).is_none());
        let prefixes = self.routes.bests().map(|(prefix, _)| prefix);
        let prefixes = prefixes.chain(learnt.copied());
        prefixes.filter_map(|prefix| Some((prefix, self.best(prefix)?)))
    }

    /// The best route of a prefix after a change.
    fn best_after<'a>(
        &'a self,
        prefix: IpNet,
        after: &BTreeMap<RouteKey, Option<&'a Hop>>,
    ) -> Option<Best<'a>> {
        let of_prefix = (prefix, 0)..=(prefix, u32::MAX);
        let changed = after.range(of_prefix.clone());
        let changed = changed.filter_map(|(key, hop)| Some((key.1, (*hop)?)));
        let stays = self.routes.range(of_prefix);
        let stays = stays.filter(|(key, _)| !after.contains_key(key));
        let stays = stays.map(|(key, hop)| (key.1, hop));
        let of_operators = changed.chain(stays).min_by_key(|(metric, _)| *metric);
        let of_operators = of_operators.map(|(metric, hop)| (metric, false, Target::Hop(hop)));
        let learnt = self.learnt.as_ref();
        let learnt = learnt.and_then(|learnt| learnt.routes.get(&prefix));
        let learnt = learnt.map(|route| (route.metric, true, route.target.as_ref()));
        let all = of_operators.into_iter().chain(learnt);
        all.min_by_key(|(metric, ..)| *metric) // of equal ones the first
    }

    /// Refuses a target that the FE cannot have.
    pub(super) fn check_target(&self, prefix: &IpNet, target: &Target<&Hop>) -> Result<(), String> {
        self.gates().target(Family::of(prefix), target).map(|_| ())
    }

    /// Whether the FE has a row for a prefix.
    pub(super) fn has_row(&self, prefix: &IpNet) -> bool {
        self.rows.iter().flatten().any(|rows| rows.has(prefix))
    }

    fn gates(&self) -> Gates<'_> {
        let ports = self.directory.of_kind(Named::Port);
        Gates {
            ports: ports.map(|(number, name)| (name, number)).collect(),
            has_groups: self.has_groups(),
        }
    }

    /// Whether the FE has groups of next hops, by family.
    fn has_groups(&self) -> [bool; 2] {
        Family::ALL.map(|family| self.directory.has(family.groups()))
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

/// Instances of ports by name, and what the FE can have.
struct Gates<'a> {
    ports: HashMap<&'a str, u32>,
    has_groups: [bool; 2],
}

impl Gates<'_> {
    fn gate(&self, hop: &Hop) -> Result<FeNextHop, String> {
        match self.ports.get(&*hop.port) {
            Some(port) => Ok((hop.gateway, *port)),
            None => Err(format!("there is no port `{}`", hop.port)),
        }
    }

    /// The target in the form of the FE. An FE without groups gets the first of several next hops.
    fn target(&self, family: Family, target: &Target<&Hop>) -> Result<Target<FeNextHop>, String> {
        let gate = target.map(|hop| self.gate(hop))?;
        match &gate {
            Target::Hop(_) => return Ok(gate),
            _ if self.has_groups[family as usize] => return Ok(gate),
            Target::Hops(_) => {}
            Target::Discard(discard) => {
                let why = format!(
                    "the FE cannot have {} routes: it is an older version",
                    discard.word()
                );
                return Err(why);
            }
        }
        let first = gate.hops().next().map(|(hop, _)| Target::Hop(*hop));
        Ok(first.unwrap_or(gate))
    }
}

fn update(
    rows: &[Rows; 2],
    wanted: Wanted,
    clean: bool,
    moves: bool,
) -> Result<(Updates, Edits), String> {
    let mut families: [Wanted; 2] = Default::default();
    for (prefix, target) in wanted {
        families[Family::of(&prefix) as usize].insert(prefix, target);
    }
    let [v4, v6] = families;
    let v4 = rows[0].update(v4, clean, moves)?;
    let v6 = rows[1].update(v6, clean, moves)?;
    Ok(joined(v4, v6))
}

fn joined(v4: (Update, Edits), v6: (Update, Edits)) -> (Updates, Edits) {
    let ((v4, [mut first, mut second]), (v6, [more_first, more_second])) = (v4, v6);
    first.extend(more_first);
    second.extend(more_second);
    ([v4, v6], [first, second])
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
                let blocks = family.blocks().into_iter().chain([family.groups()]);
                for block in blocks.filter(|block| fe.directory.has(*block)) {
                    paths.push(Rows::read(block)?);
                }
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
            learnt.forget_changes();
        }
        match difference(fe) {
            Err(why) => self.refuse(now, id, &format!("its routes: {why}")),
            Ok((_, edits)) if edits.iter().all(Vec::is_empty) => {
                self.routes_in_force(now, id, count);
            }
            Ok((updates, edits)) => {
                let count = count + edits.iter().map(Vec::len).sum::<usize>();
                let then = Then::Routed(id, Box::new(updates), count);
                self.send_each(now, id, edits, then);
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
fn difference(fe: &Fe) -> Result<(Updates, Edits), String> {
    let Some(rows) = &fe.rows else {
        return Ok(Default::default());
    };
    let is_complete = fe.learnt.as_ref().is_none_or(|learnt| learnt.is_complete);
    let there = rows.iter().filter(|_| is_complete).flat_map(Rows::prefixes);
    let mut wanted: Wanted = there.map(|prefix| (*prefix, None)).collect();
    let gates = fe.gates();
    for (prefix, (.., target)) in fe.bests() {
        if !fe.unroutable.contains_key(&prefix)
            && let Ok(target) = gates.target(Family::of(&prefix), &target)
        {
            wanted.insert(prefix, Some(target));
        }
    }
    update(rows, wanted, true, false)
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

/// The desired routes of an FE, with an entry for each next hop.
fn reports(fe: &Fe) -> impl Iterator<Item = RouteReport> {
    let of_operators = fe.routes.iter();
    let of_operators =
        of_operators.map(|((prefix, metric), hop)| (prefix, (*metric, false, Target::Hop(hop))));
    let learnt = fe.learnt.iter().flat_map(|learnt| &learnt.routes);
    let learnt =
        learnt.map(|(prefix, route)| (prefix, (route.metric, true, route.target.as_ref())));
    let has_groups = fe.has_groups();
    of_operators.chain(learnt).flat_map(move |(prefix, route)| {
        let is_best = fe.best(*prefix).is_some_and(|best| best == route);
        let state = match (is_best, fe.has_row(prefix)) {
            (false, _) => "standby",
            (true, true) if fe.lacks.is_some() => "written", // its kernel lacks this or other routes
            (true, true) => "installed",
            (true, false) => "waits",
        };
        let (metric, is_learnt, target) = route;
        let has_groups = has_groups[Family::of(prefix) as usize];
        let report = RouteReport {
            fe: fe.name.clone(),
            prefix: prefix.to_string(),
            via: None,
            port: String::new(),
            weight: None,
            drops: None,
            metric,
            origin: if is_learnt { "router" } else { "operator" }.to_owned(),
            state: state.to_owned(),
        };
        let of_hop = |(hop, weight): (&&Hop, u16)| RouteReport {
            via: hop.gateway.map(|gateway| gateway.to_string()),
            port: hop.port.to_string(),
            weight: matches!(target, Target::Hops(_)).then_some(weight),
            ..report.clone()
        };
        let mut all: Vec<_> = target.hops().map(of_hop).collect();
        if let Target::Discard(discard) = target {
            let drops = Some(discard.word().to_owned());
            all.push(RouteReport { drops, ..report });
        }
        let served = usize::from(!matches!(target, Target::Discard(_)));
        for report in all
            .iter_mut()
            .skip(served)
            .filter(|_| is_best && !has_groups)
        {
            "unsupported".clone_into(&mut report.state);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use weir_model::Discard;

    use super::*;

    #[test]
    fn an_fe_of_an_older_version_gets_one_next_hop() {
        let gates = |has_groups| Gates {
            ports: HashMap::from([("wan", 2)]),
            has_groups: [has_groups, false],
        };
        let hop = |gateway: &str, port: &str| Hop {
            gateway: gateway.parse().ok(),
            port: port.into(),
        };
        let [a, b, away] = [
            hop("192.0.2.1", "wan"),
            hop("192.0.2.9", "wan"),
            hop("", "lan"),
        ];
        let both = Target::of_hops([(&a, 1), (&b, 2), (&away, 1)]).unwrap();
        let hops = [((a.gateway, 2), 1), ((b.gateway, 2), 2)];
        let whole = gates(true).target(Family::V4, &both);
        assert_eq!(
            whole,
            Ok(Target::of_hops(hops).unwrap()),
            "without the port that is missing"
        );
        let first = gates(false).target(Family::V4, &both);
        assert_eq!(first, Ok(Target::Hop(hops[0].0)));
        let nowhere = Target::Discard(Discard::Prohibit);
        let why = gates(false).target(Family::V4, &nowhere).unwrap_err();
        assert_eq!(
            why,
            "the FE cannot have prohibit routes: it is an older version"
        );
        assert!(gates(true).target(Family::V6, &nowhere).is_err());
    }
}
