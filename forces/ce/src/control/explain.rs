//! Evidence about a destination at an FE: from the CE itself, and from tables of the FE.
//!
//! The FE sends only the rows of `routes` that cover the destination, because a table may have a million rows.

use ipnet::IpNet;
use weir_base::Instant;
use weir_model::{ComponentPath, Target, Value};
use weir_protocol::wire::{Id, OperationKind};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::{Fe, State};
use super::read::{as_declared, table_paths};
use super::sync::Paths;
use crate::contract::{Answer, Refusal, Ticket};
use crate::explain::{DesiredRoute, Destination, ElementView, Evidence, Progress, SuiteView};
use crate::leaf::Leaf;
use crate::route::{Hop, LEARNT_MAX};
use crate::settings;

impl Control {
    /// Explains whether packets to a destination leave an FE.
    pub(super) fn explain(
        &mut self,
        now: Instant,
        ticket: Ticket,
        fe: &str,
        destination: Destination,
        suite: Option<SuiteView>,
    ) {
        let fe = match self.named(fe) {
            Ok(fe) => fe,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let evidence = fe.evidence(destination, suite);
        let id = fe.id;
        let paths = fe
            .is_associated()
            .then(|| self.paths_for(fe, destination))
            .flatten();
        match paths {
            Some(paths) => self.query(
                now,
                id,
                paths,
                Then::Explain(ticket, id, Box::new(evidence)),
            ),
            None => self.answer(ticket, Ok(Answer::Explained(evidence.explain()))),
        }
    }

    /// Adds the FE's answers to the evidence.
    pub(super) fn explained(
        &mut self,
        ticket: Ticket,
        id: Id,
        mut evidence: Evidence,
        answers: Answers,
    ) {
        evidence.element = match answers {
            Ok(leaves) => self.element(id, &leaves),
            Err(refusal) => Err(refusal.to_string()),
        };
        self.answer(ticket, Ok(Answer::Explained(evidence.explain())));
    }

    /// The components to read; `None` if the FE is not a weir FE, or the CE does not know its LFBs yet.
    fn paths_for(&self, fe: &Fe, destination: Destination) -> Option<Paths> {
        let mut paths = Self::paths_of_tables(fe, &["status", "ports", "neighbours"])?;
        let routes = destination.candidates().filter_map(|prefix| {
            let row = format!("prefix={prefix}");
            let path = ComponentPath::new(["routes", "1", "rows", &row]);
            let resolved = self.resolve(fe, &path).ok()?;
            Some((resolved.block, OperationKind::Get, resolved.path().ok()?))
        });
        paths.extend(routes);
        Some(paths)
    }

    /// The paths of whole tables of an FE; `None` if it lacks any of them.
    pub(super) fn paths_of_tables(fe: &Fe, names: &[&str]) -> Option<Paths> {
        let mut paths = Paths::new();
        for name in names {
            let class = settings::class(name);
            if !class.has_instances && !fe.directory.has((class.id, 1)) {
                return None;
            }
            paths.extend(table_paths(fe, &class).ok()?);
        }
        Some(paths)
    }

    fn element(&self, id: Id, leaves: &[Leaf]) -> Result<ElementView, String> {
        let rows = |name| {
            self.table_of(id, name, leaves)
                .map_err(|refusal| refusal.to_string())
        };
        let fe = self.fes.get(&id);
        Ok(ElementView {
            status: rows("status")?.pop().unwrap_or(Value::Absent),
            ports: rows("ports")?,
            neighbours: rows("neighbours")?,
            routes: self.rows_of_routes(leaves),
            lacks: fe.and_then(|fe| fe.lacks.clone()),
        })
    }

    /// The rows of one table among answers with several tables.
    pub(super) fn table_of(
        &self,
        id: Id,
        name: &str,
        leaves: &[Leaf],
    ) -> Result<Vec<Value>, Refusal> {
        let class = settings::class(name);
        let own = leaves.iter().filter(|leaf| leaf.block.0 == class.id);
        let own: Vec<Leaf> = own.cloned().collect();
        if own.is_empty() {
            return Ok(Vec::new());
        }
        Ok(match self.rows(id, &class, &own)? {
            Value::List(rows) => rows,
            row => vec![row],
        })
    }

    /// The rows of routes that the FE has; for each of the others it answers with a failure.
    fn rows_of_routes(&self, leaves: &[Leaf]) -> Vec<Value> {
        let class = settings::class("routes");
        let of_row = |leaf: &&Leaf| leaf.block.0 == class.id && leaf.failure().is_none();
        let value = |leaf: &Leaf| self.codec.value(class.id, &leaf.ids, &leaf.content).ok();
        let rows = leaves.iter().filter(of_row).filter_map(value);
        rows.map(|row| as_declared(class.components, &row))
            .collect()
    }
}

impl Fe {
    fn evidence(&self, destination: Destination, suite: Option<SuiteView>) -> Evidence {
        let candidates = destination.candidates();
        let mut candidates = candidates.take(match destination {
            Destination::Prefix(_) => 1,
            Destination::Address(_) => usize::MAX,
        });
        let desired = candidates.find_map(|prefix| {
            let (metric, is_learnt, target) = self.best(prefix)?;
            let progress = self.progress(&prefix, &target);
            let target = target.map(|hop| Ok::<_, ()>((*hop).clone())).ok()?;
            let desired = DesiredRoute {
                prefix,
                metric,
                is_learnt,
                target,
            };
            Some((desired, progress))
        });
        let (desired, progress) = desired.unzip();
        let silent = match self.is_associated() {
            true => "the FE has no such tables, or has just associated",
            false => "it is not associated",
        };
        Evidence {
            fe: self.name.clone(),
            destination,
            suite,
            desired,
            is_full: self
                .learnt
                .as_ref()
                .is_some_and(|learnt| learnt.routes.len() >= LEARNT_MAX),
            progress: progress.unwrap_or_else(|| self.away().unwrap_or(Progress::Written)),
            element: Err(format!("{}: {silent}", self.name)),
        }
    }

    fn away(&self) -> Option<Progress> {
        match &self.state {
            State::Away(why) => Some(Progress::Away(why.clone())),
            _ => None,
        }
    }

    fn progress(&self, prefix: &IpNet, target: &Target<&Hop>) -> Progress {
        if let Some(away) = self.away() {
            return away;
        }
        if let Err(why) = self.check_target(prefix, target) {
            return Progress::NoPort(why);
        }
        if let Some(why) = self.unroutable.get(prefix) {
            return Progress::Refused(why.clone());
        }
        let is_changing = self
            .learnt
            .as_ref()
            .is_some_and(|learnt| learnt.changed.contains(prefix));
        match (&self.state, self.has_row(prefix)) {
            (_, true) if !is_changing => Progress::Written,
            (State::Refused(why), _) if !is_changing => Progress::NotRestored(why.clone()),
            _ => Progress::Waiting,
        }
    }
}
