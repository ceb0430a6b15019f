//! Changes requested by operators: the CE stores them first, then sends them.
//!
//! ```text
//!  request -> checked -> store -> sent to the FEs that are associated -> answer
//!                                      '-- refused: store as before -> refusal
//! ```
//!
//! A disconnected FE gets the change at its next association. The CE makes the changes of one FE one after the other.
//! If an FE does not answer, the change stays desired, and the CE restores it as soon as it can.

use std::collections::BTreeMap;

use weir_base::Instant;
use weir_base::setting::Scalar;
use weir_element::differences;
use weir_lfb::{Plan, section};
use weir_model::{Change, ComponentPath, Fault, Operation, Value};
use weir_protocol::path_selector::PathSelector;
use weir_protocol::schema::Access;
use weir_protocol::value;
use weir_protocol::wire::{Content, Id, OperationKind, Selector};

use super::Control;
use super::continuation::{Answers, Part, Pending, Then};
use super::member::{Fe, State};
use super::permitted::{check_deletions, check_names, set_of};
use super::resolved::Resolved;
use super::route::check_rows;
use crate::contract::{Answer, Output, Records, Refusal, Request, StoreTicket, Ticket};
use crate::route::{RouteChange, RouteRecord};
use crate::settings::{self, Edit};

/// Requested changes of one FE: to its configuration, to components of any class, and to its routes.
#[derive(Debug, Default)]
struct Wanted {
    operations: Vec<Operation>,
    components: Vec<(ComponentPath, Option<String>)>,
    routes: Vec<RouteChange>,
}

impl Control {
    pub(super) fn change(&mut self, ticket: Ticket, request: Request) {
        let wanted = match self.wanted(&request) {
            Ok(wanted) => wanted,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let is_busy = |id: &Id| self.fes.get(id).is_some_and(|fe| !fe.is_idle());
        if wanted.keys().any(is_busy) {
            return self.waiting.push_back((ticket, request));
        }
        let parts = wanted.iter().map(|(fe, wanted)| self.part(*fe, wanted));
        let parts = match parts.collect::<Result<Vec<_>, _>>() {
            Ok(parts) => parts,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let pending = Pending {
            ticket,
            parts,
            undone: None,
        };
        for part in &pending.parts {
            if let Some(fe) = self.fes.get_mut(&part.fe) {
                fe.busy = true;
            }
        }
        self.keep(pending);
    }

    /// Asks the store to write a change, or to roll it back.
    fn keep(&mut self, pending: Pending) {
        let records = |part: &Part| match pending.undone {
            None => part.records.clone(),
            Some(_) => part.undo.clone(),
        };
        let records = pending
            .parts
            .iter()
            .map(|part| (self.shown(part.fe), records(part)));
        let records = records.collect();
        let ticket = StoreTicket(self.number());
        self.stores.insert(ticket, pending);
        self.outputs.push_back(Output::Store(ticket, records));
    }

    /// The changes that a request makes, by FE.
    fn wanted(&self, request: &Request) -> Result<BTreeMap<Id, Wanted>, Refusal> {
        let mut all: BTreeMap<Id, Wanted> = BTreeMap::new();
        match request {
            Request::Change(parts) => {
                for (name, operations) in parts {
                    let fe = self.named(name)?;
                    let wanted = all.entry(fe.id).or_default();
                    for operation in operations {
                        self.add_operation(fe, operation, wanted)?;
                    }
                }
            }
            Request::Route(parts) => {
                for (name, changes) in parts {
                    let wanted = all.entry(self.named(name)?.id).or_default();
                    wanted.routes.extend(changes.iter().cloned());
                }
            }
            _ => {}
        }
        if all.is_empty() {
            Err(Refusal::Wrong("the request contains no change".to_owned()))
        } else {
            Ok(all)
        }
    }

    /// Adds an operation on a setting of the configuration, or on a component outside the configuration.
    fn add_operation(
        &self,
        fe: &Fe,
        operation: &Operation,
        wanted: &mut Wanted,
    ) -> Result<(), Refusal> {
        let path = operation.path();
        let path = section::renamed(path).unwrap_or_else(|| path.clone());
        let setting = match is_setting(fe, &path) {
            true => path.clone(),
            false => {
                let Resolved { block, way } = self.resolve(fe, &path)?;
                let by_name = self.path_of(fe.id, block, &way.ids).path;
                if way.rows.is_some() || !is_setting(fe, &by_name) {
                    let text = match operation {
                        Operation::Set(Change { value, .. }) => value.as_ref().map(text_of),
                        Operation::Delete(_) => None,
                    };
                    check_rows(fe, &path, &Resolved { block, way })?;
                    self.component_edit(fe, &path, text.as_deref())?; // fails if the change is not permitted
                    let class = ComponentPath::new([self.codec.name(block.0)]);
                    let path = class.below(path.segments().into_iter().skip(1));
                    wanted.components.push((path, text));
                    return Ok(());
                }
                by_name
            }
        };
        wanted.operations.push(match operation {
            Operation::Set(Change { value, .. }) => Operation::Set(Change {
                path: setting,
                value: value.clone(),
            }),
            Operation::Delete(_) => Operation::Delete(setting),
        });
        Ok(())
    }

    /// Checks the part of one FE, as far as the CE knows that FE.
    fn part(&self, id: Id, wanted: &Wanted) -> Result<Part, Refusal> {
        let fe = self.fes.get(&id).ok_or(Refusal::Busy)?;
        let faults = |faults: Vec<Fault>| Refusal::of_faults(&fe.name, &faults);
        check_names(fe, &wanted.operations).map_err(|fault| faults(vec![fault]))?;
        check_deletions(&wanted.operations).map_err(|fault| faults(vec![fault]))?;
        let records = Records {
            desired: fe.desired.records(&wanted.operations),
            components: wanted.components.clone(),
            routes: fe.route_records(&wanted.routes)?,
        };
        let before = fe
            .desired
            .iter()
            .map(|(path, wish)| (path.clone(), wish.clone()));
        let before: BTreeMap<_, _> = before.collect();
        let old = |(path, _): &(ComponentPath, _)| (path.clone(), before.get(path).cloned());
        let old_text =
            |(path, _): &(ComponentPath, _)| (path.clone(), fe.components.get(path).cloned());
        let old_hop = |(key, _): &RouteRecord| (*key, fe.routes.get(*key).cloned());
        let undo = Records {
            desired: records.desired.iter().map(old).collect(),
            components: records.components.iter().map(old_text).collect(),
            routes: records.routes.iter().map(old_hop).collect(),
        };
        let mut desired = fe.desired.clone();
        for (path, wish) in &records.desired {
            desired.put(path, wish.as_ref());
        }
        let mut part = Part {
            fe: id,
            records,
            undo,
            target: None,
            updates: None,
            edits: Vec::new(),
            renews: false,
            lines: Vec::new(),
        };
        match &fe.in_force {
            Some(actual) => {
                let target = desired.target(actual).map_err(faults)?;
                part.edits = settings::difference(&self.codec, &fe.directory, actual, &target)
                    .map_err(|why| Refusal::Refused(vec![format!("{}: {why}", fe.name)]))?;
                part.lines = differences(&actual.shown(), &target.shown());
                part.target = Some(target);
            }
            None => {
                let sets: Vec<Change> = wanted.operations.iter().filter_map(set_of).collect();
                Plan::check_part(&sets).map_err(faults)?;
                part.lines.push(if fe.is_associated() {
                        "its configuration is unknown: the change is stored, and applied when it is known"
                            .to_owned()
                    } else {
                        "it is not associated: the change is stored, and applied when it associates"
                            .to_owned()
                    });
            }
        }
        if fe.is_associated() {
            for (at, text) in &wanted.components {
                let (edit, _) = self.component_edit(fe, at, text.as_deref())?;
                part.edits.push(edit);
                part.lines.push(match text {
                    Some(text) => format!("~ {at}: {text}"),
                    None => format!("- {at}"),
                });
            }
        }
        let routes = fe.route_updates(&part.records.routes);
        let refused = |why| Refusal::Refused(vec![format!("{}: {why}", fe.name)]);
        if let Some((updates, edits)) = routes.map_err(refused)? {
            part.updates = Some(updates);
            part.edits.extend(edits);
        }
        part.lines.extend(fe.route_lines(&part.records.routes));
        part.renews = part.edits.iter().any(Edit::renews);
        part.lines
            .iter_mut()
            .for_each(|line| *line = format!("{}: {line}", fe.name));
        Ok(part)
    }

    /// Encodes a component of any class and its value; without a text, the edit deletes the component.
    pub(super) fn component_edit(
        &self,
        fe: &Fe,
        path: &ComponentPath,
        text: Option<&str>,
    ) -> Result<(Edit, Option<Value>), Refusal> {
        let Resolved { block, way } = self.resolve(fe, path)?;
        let wrong =
            |why: &dyn std::fmt::Display| Refusal::Wrong(format!("{}:{path}: {why}", fe.name));
        if let Some((Selector::Range { .. }, _)) = way.rows {
            return Err(wrong(&"a range of rows can be read, but not set"));
        }
        let class = self.codec.class(block.0).ok_or(Refusal::Busy)?;
        let target = class.component(&whole_ids(&way)).map_err(|e| wrong(&e))?;
        if matches!(target.access, Access::ReadOnly) {
            return Err(wrong(&"it can be read, but not set"));
        }
        let value = text
            .map(|text| value::parse(&target.kind, text))
            .transpose();
        let value = value.map_err(|e| wrong(&e))?;
        let content = match &value {
            Some(value) => value::encode(&target.kind, value).map_err(|e| wrong(&e))?,
            None => Content::Empty,
        };
        let edit = Edit {
            block,
            operation: match text {
                Some(_) => OperationKind::Set,
                None => OperationKind::Delete,
            },
            path: way.path_data(content).map_err(|e| wrong(&e))?,
        };
        Ok((edit, value))
    }

    /// The store has written a change, or has failed.
    pub(super) fn stored(&mut self, now: Instant, pending: Pending, done: Result<(), String>) {
        let Pending { ticket, undone, .. } = &pending;
        let ticket = *ticket;
        match (undone.clone(), done) {
            (Some(refusal), _) => {
                self.put(&pending, |part| &part.undo);
                self.release(now, &pending);
                self.restore_all(now, &pending);
                self.answer(ticket, Err(refusal));
            }
            (None, Err(why)) => {
                self.release(now, &pending);
                let why = match self.leadership {
                    None => format!("the store failed, and nothing has changed: {why}"),
                    Some(_) => format!("the change is not made: {why}"),
                };
                self.answer(ticket, Err(Refusal::Silent(why)));
            }
            (None, Ok(())) => {
                self.put(&pending, |part| &part.records);
                self.execute(now, pending);
            }
        }
    }

    fn put(&mut self, pending: &Pending, records: fn(&Part) -> &Records) {
        for part in &pending.parts {
            if let Some(fe) = self.fes.get_mut(&part.fe) {
                fe.put(records(part).clone());
            }
        }
    }

    /// Sends a stored change.
    fn execute(&mut self, now: Instant, mut pending: Pending) {
        let has_edits = |part: &&mut Part| {
            let fe = self.fes.get(&part.fe);
            !part.edits.is_empty() && fe.is_some_and(Fe::is_associated)
        };
        let edits = pending.parts.iter_mut().filter(has_edits);
        let edits = edits.map(|part| (part.fe, std::mem::take(&mut part.edits)));
        let mut edits: Vec<_> = edits.collect();
        match (edits.len(), edits.pop()) {
            (_, None) => self.changed(now, pending, Ok(Vec::new())),
            (1, Some((fe, edits))) => self.send(now, fe, edits, Then::Changed(Box::new(pending))),
            (_, Some(last)) => {
                edits.push(last);
                self.transact(now, edits, Then::Changed(Box::new(pending)));
            }
        }
    }

    /// The FEs have answered.
    pub(super) fn changed(&mut self, now: Instant, mut pending: Pending, answers: Answers) {
        let first = pending.parts.first().map(|part| part.fe);
        let done = answers.and_then(|leaves| match first {
            Some(fe) => self.all_done(fe, &leaves),
            None => Ok(()),
        });
        match done {
            Ok(()) => {
                let mut lines = Vec::new();
                for part in &mut pending.parts {
                    lines.append(&mut part.lines);
                    if let Some(fe) = self.fes.get_mut(&part.fe)
                        && fe.is_associated()
                    {
                        fe.in_force = part.target.take();
                        if let Some(updates) = part.updates.take() {
                            fe.apply_routes(updates);
                        }
                    }
                }
                self.release(now, &pending);
                self.answer(pending.ticket, Ok(Answer::Changed(lines)));
            }
            // An FE that does not answer may or may not have made the change, so the change stays desired.
            Err(Refusal::Silent(why)) => {
                for part in &pending.parts {
                    self.forget_rows(part.fe);
                }
                self.release(now, &pending);
                let why =
                    format!("{why}; the change is stored, and applied as soon as the FE answers");
                self.answer(pending.ticket, Err(Refusal::Silent(why)));
                self.restore_all(now, &pending);
            }
            Err(refusal) => {
                pending.undone = Some(refusal);
                self.keep(pending);
            }
        }
    }

    /// Lets the FEs of a change accept other changes again. Reads an FE again if the change added or removed LFBs.
    fn release(&mut self, now: Instant, pending: &Pending) {
        for part in &pending.parts {
            if let Some(fe) = self.fes.get_mut(&part.fe) {
                fe.busy = false;
            }
        }
        let is_renewed = |part: &&Part| {
            let fe = self.fes.get(&part.fe);
            // The CE could not read the configuration of this FE; after this change it may succeed.
            let is_unread =
                fe.is_some_and(|fe| fe.in_force.is_none() && matches!(fe.state, State::Refused(_)));
            // The changed routes may include a route that the FE refused.
            let is_refused = !part.records.routes.is_empty()
                && fe.is_some_and(|fe| matches!(fe.state, State::Refused(_)));
            is_unread || is_refused || (pending.undone.is_none() && part.renews)
        };
        let renewed = pending.parts.iter().filter(is_renewed);
        let renewed: Vec<Id> = renewed.map(|part| part.fe).collect();
        for fe in renewed {
            self.restore(now, fe);
        }
        self.retry(now);
    }

    fn restore_all(&mut self, now: Instant, pending: &Pending) {
        for part in &pending.parts {
            self.restore(now, part.fe);
        }
    }

    /// Reads an FE again, and restores any differences.
    pub(super) fn restore(&mut self, now: Instant, id: Id) {
        if let Some(fe) = self.fes.get_mut(&id)
            && fe.is_associated()
            && fe.state != State::Restoring
        {
            fe.begin_restoring();
            self.describe(now, id);
        }
    }

    /// Starts pending work: first changes from the configuration, then requests, then routes of routing suites.
    pub(super) fn retry(&mut self, now: Instant) {
        self.restore_stale(now);
        for (ticket, request) in std::mem::take(&mut self.waiting) {
            self.begin(now, ticket, request);
        }
        self.send_all_learnt(now);
    }
}

/// The IDs of a path, with 0 standing for any row where a key selects one.
fn whole_ids(way: &PathSelector) -> Vec<u32> {
    let mut ids = way.ids.clone();
    if let Some((_, below)) = &way.rows {
        ids.push(0);
        ids.extend(whole_ids(below));
    }
    ids
}

/// Whether a path leads to the configuration of an FE, as far as the CE knows that FE: another vendor's FE has none.
fn is_setting(fe: &Fe, path: &ComponentPath) -> bool {
    let is_router = fe.directory.blocks.is_empty() || settings::is_router(&fe.directory);
    is_router && section::is_setting(path)
}

/// The text of a value, without quotes.
fn text_of(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        other => other.to_string(),
    }
}
