//! Watches: subscriptions to events of FEs, and periodic reads of components.
//!
//! A watch belongs to an operator, not to an association: the CE subscribes again after a loss. A slow reader loses the
//! oldest notices, and the CE counts them. A watch ends if nobody fetches from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::{Instant, Span};
use weir_model::Value;
use weir_protocol::schema::{Class, Component, Step};
use weir_protocol::value;
use weir_protocol::wire::message::EventNotification;
use weir_protocol::wire::{Content, Id, OperationKind, PathData, WireError};

use super::Control;
use super::continuation::{Answers, Registration, Then};
use super::member::Fe;
use super::resolved::Resolved;
use crate::contract::{
    Answer, CeSubscription, Filter, NOTICES_MAX, Notices, Output, Refusal, Ticket, WATCHES_MAX,
    WatchId,
};
use crate::leaf::{Leaf, leaves};
use crate::settings::Edit;

/// Default interval between samples.
const INTERVAL: Span = Span::from_secs(1);
/// Minimum interval between samples.
const INTERVAL_MIN: Span = Span::from_millis(10);
/// Lifetime of a watch without a fetch.
const IDLE_MAX: Span = Span::from_secs(60);
/// Properties of an event (RFC 5812, 4.8.5).
const REGISTRATION: u32 = 2;

/// Every watch.
#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<WatchId, Watching>);

impl Watches {
    /// The watches of these FEs.
    pub(super) fn of(&self, fes: &BTreeSet<Id>) -> Vec<WatchId> {
        let watches = self
            .0
            .iter()
            .filter(|(_, watching)| fes.contains(&watching.fe));
        watches.map(|(id, _)| *id).collect()
    }
}

#[derive(Debug)]
struct Watching {
    fe: Id,
    watch: CeSubscription,
    resolved: Resolved,
    /// Time of the next sample of a component; `None` for an event.
    next: Option<Instant>,
    is_event: bool,
    fetched: Instant,
    notices: Notices,
    queue: VecDeque<Value>,
}

impl Watches {
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ends = self.0.values().map(|watch| watch.fetched + IDLE_MAX);
        let samples = self.0.values().filter_map(|watch| watch.next);
        ends.chain(samples).min()
    }
}

impl Watching {
    fn notice(&mut self, notice: Value) {
        if self.queue.len() >= NOTICES_MAX {
            self.queue.pop_front();
            self.notices.lost += 1;
        }
        self.queue.push_back(notice);
    }

    /// Whether this watch covers an event; the path of the watch may cover all rows.
    fn concerns(&self, fe: Id, leaf: &Leaf) -> bool {
        let ids = &self.resolved.way.ids;
        self.is_event
            && self.fe == fe
            && self.resolved.block == leaf.block
            && leaf.ids.starts_with(ids)
    }
}

impl Control {
    pub(super) fn watch(&mut self, now: Instant, ticket: Ticket, watch: CeSubscription) {
        let watching = match self.watching(now, watch) {
            Ok(watching) => watching,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let id = WatchId(self.number());
        let (fe, is_event) = (watching.fe, watching.is_event);
        let edits = subscription(&watching.resolved, Some(&watching.watch.filter));
        self.watches.0.insert(id, watching);
        let is_there = self.fes.get(&fe).is_some_and(Fe::is_associated);
        match (edits, is_event && is_there) {
            (Ok(edit), true) => {
                let ticket = Some(ticket);
                let then = Then::Subscribed(Registration { ticket, watch: id });
                self.send(now, fe, vec![edit], then);
            }
            (Ok(_), false) => self.answer(ticket, Ok(Answer::Watching(id))),
            (Err(error), _) => {
                self.watches.0.remove(&id);
                self.answer(ticket, Err(Refusal::Wrong(error.to_string())));
            }
        }
    }

    fn watching(&self, now: Instant, watch: CeSubscription) -> Result<Watching, Refusal> {
        if self.watches.0.len() >= WATCHES_MAX {
            let why = format!("there are already {WATCHES_MAX} watches; end one");
            return Err(Refusal::Wrong(why));
        }
        let fe = self.named(&watch.path.fe)?;
        let resolved = self.resolve(fe, &watch.path.path)?;
        let class = self.codec.class(resolved.block.0).ok_or(Refusal::Busy)?;
        let is_event = class.event(&resolved.way.ids).is_some();
        let Filter {
            threshold,
            hysteresis,
            count,
            interval,
        } = watch.filter;
        if !is_event && (threshold, hysteresis, count) != (None, None, None) {
            let why = "a component is sampled at intervals; threshold, hysteresis and count apply only to events";
            return Err(Refusal::Wrong(why.to_owned()));
        }
        if !is_event && interval.is_some_and(|interval| interval < INTERVAL_MIN) {
            let why = format!("the interval must be at least {INTERVAL_MIN}");
            return Err(Refusal::Wrong(why));
        }
        Ok(Watching {
            fe: fe.id,
            watch,
            resolved,
            next: (!is_event).then_some(now),
            is_event,
            fetched: now,
            notices: Notices::default(),
            queue: VecDeque::new(),
        })
    }

    /// Renews the subscriptions that an FE lost with its last association. Instances of ports may have changed.
    pub(super) fn subscribe_again(&mut self, now: Instant, id: Id) {
        let Some(fe) = self.fes.get(&id) else {
            return;
        };
        let watches = self.watches.0.iter();
        let of_fe = watches.filter(|(_, watching)| watching.fe == id);
        let found = of_fe.filter_map(|(watch, watching)| {
            Some((*watch, self.resolve(fe, &watching.watch.path.path).ok()?))
        });
        for (watch, resolved) in found.collect::<Vec<_>>() {
            let Some(watching) = self.watches.0.get_mut(&watch) else {
                continue;
            };
            watching.resolved = resolved;
            if watching.is_event
                && let Ok(edit) = subscription(&watching.resolved, Some(&watching.watch.filter))
            {
                let ticket = None;
                let then = Then::Subscribed(Registration { ticket, watch });
                self.send(now, id, vec![edit], then);
            }
        }
    }

    pub(super) fn subscribed(&mut self, registration: Registration, answers: Answers) {
        let Registration { ticket, watch } = registration;
        let fe = self.watches.0.get(&watch).map(|watching| watching.fe);
        let done = answers.and_then(|leaves| match fe {
            Some(fe) => self.all_done(fe, &leaves),
            None => Ok(()),
        });
        match (done, ticket) {
            (Ok(()), Some(ticket)) => self.answer(ticket, Ok(Answer::Watching(watch))),
            (Err(refusal), Some(ticket)) => {
                self.watches.0.remove(&watch);
                self.answer(ticket, Err(refusal));
            }
            (Err(refusal), None) => {
                let why = Value::Struct(vec![("error".into(), refusal.to_string().into())]);
                self.tell(watch, why);
            }
            (Ok(()), None) => {}
        }
    }

    /// Handles events reported by an FE.
    pub(super) fn notified(&mut self, fe: Id, event: &EventNotification) {
        for leaf in leaves(event.selects()) {
            self.note_kernel(fe, &leaf);
            let watches = self.watches.0.iter();
            let watches = watches.filter(|(_, watching)| watching.concerns(fe, &leaf));
            let watches: Vec<_> = watches.map(|(id, _)| *id).collect();
            if !watches.is_empty() {
                let notice = self.notice(fe, &leaf);
                watches
                    .into_iter()
                    .for_each(|watch| self.tell(watch, notice.clone()));
            }
        }
    }

    /// Converts an event to a value.
    fn notice(&self, fe: Id, leaf: &Leaf) -> Value {
        let class = self.codec.class(leaf.block.0);
        let reports = class.and_then(|class| reports(class, leaf));
        let name = self
            .fes
            .get(&fe)
            .and_then(|fe| fe.directory.name_of(leaf.block));
        let instance = match name {
            Some(name) => name.as_str().into(),
            None => Value::Whole(leaf.block.1.into()),
        };
        Value::Struct(vec![
            ("fe".into(), self.shown(fe).into()),
            ("class".into(), self.codec.name(leaf.block.0).into()),
            ("instance".into(), instance),
            (
                "event".into(),
                self.codec.names(leaf.block.0, &leaf.ids).to_string().into(),
            ),
            ("reports".into(), reports.unwrap_or(Value::Absent)),
        ])
    }

    pub(super) fn tell(&mut self, watch: WatchId, notice: Value) {
        if let Some(watching) = self.watches.0.get_mut(&watch) {
            watching.notice(notice);
            self.outputs.push_back(Output::Noticed(watch));
        }
    }

    /// Reads the components that are due, and ends watches from which nobody fetches.
    pub(super) fn sample(&mut self, now: Instant) {
        let is_idle = |watching: &Watching| watching.fetched + IDLE_MAX <= now;
        let idle = self
            .watches
            .0
            .iter()
            .filter(|(_, watching)| is_idle(watching));
        for id in idle.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end_watch(now, id);
        }
        let is_due = |watching: &Watching| watching.next.is_some_and(|at| at <= now);
        let due = self
            .watches
            .0
            .iter()
            .filter(|(_, watching)| is_due(watching));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.take_sample(now, id);
        }
    }

    fn take_sample(&mut self, now: Instant, id: WatchId) {
        let Some(watching) = self.watches.0.get_mut(&id) else {
            return;
        };
        let interval = watching.watch.filter.interval.unwrap_or(INTERVAL);
        watching.next = Some(now + interval);
        let (fe, resolved) = (watching.fe, watching.resolved.clone());
        if !self.fes.get(&fe).is_some_and(Fe::is_associated) {
            return; // skips this sample
        }
        if let Ok(path) = resolved.path() {
            let paths = vec![(resolved.block, OperationKind::Get, path)];
            self.query(now, fe, paths, Then::Sample(id));
        }
    }

    pub(super) fn sampled(&mut self, id: WatchId, answers: Answers) {
        let Some(watching) = self.watches.0.get(&id) else {
            return;
        };
        let resolved = watching.resolved.clone();
        let fe = watching.fe;
        let value = answers.and_then(|leaves| self.value(fe, &resolved, &leaves));
        let value = match value {
            Ok(value) => ("value".into(), value),
            Err(refusal) => ("error".into(), refusal.to_string().into()),
        };
        self.tell(
            id,
            Value::Struct(vec![("fe".into(), self.shown(fe).into()), value]),
        );
    }

    pub(super) fn fetch(&mut self, now: Instant, ticket: Ticket, id: WatchId) {
        let answer = match self.watches.0.get_mut(&id) {
            Some(watching) => {
                watching.fetched = now;
                let lost = std::mem::take(&mut watching.notices.lost);
                let notices = watching.queue.drain(..).collect();
                Ok(Answer::Notices(Notices { notices, lost }))
            }
            None => Err(no_watch(id)),
        };
        self.answer(ticket, answer);
    }

    pub(super) fn unwatch(&mut self, now: Instant, ticket: Ticket, id: WatchId) {
        let answer = if self.end_watch(now, id) {
            Ok(Answer::Done)
        } else {
            Err(no_watch(id))
        };
        self.answer(ticket, answer);
    }

    /// Ends a watch. Ending the last watch of an event also ends its subscription.
    fn end_watch(&mut self, now: Instant, id: WatchId) -> bool {
        let Some(ended) = self.watches.0.remove(&id) else {
            return false;
        };
        let is_same = |other: &Watching| other.fe == ended.fe && other.resolved == ended.resolved;
        let is_last = !self.watches.0.values().any(is_same);
        let is_there = self.fes.get(&ended.fe).is_some_and(Fe::is_associated);
        if ended.is_event
            && is_last
            && is_there
            && let Ok(edit) = subscription(&ended.resolved, None)
        {
            let ticket = None;
            let then = Then::Subscribed(Registration { ticket, watch: id });
            self.send(now, ended.fe, vec![edit], then);
        }
        true
    }
}

fn no_watch(id: WatchId) -> Refusal {
    let why = format!(
        "there is no watch {}; a watch ends if it is not fetched for {IDLE_MAX}",
        id.0
    );
    Refusal::NotFound(why)
}

/// Builds the edit that subscribes to an event with a filter, or unsubscribes: event properties, as nested paths.
pub(super) fn subscription(
    resolved: &Resolved,
    filter: Option<&Filter>,
) -> Result<Edit, WireError> {
    let millis = |span: Span| u32::try_from(span.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
    let mut properties = vec![(REGISTRATION, u32::from(filter.is_some()))];
    if let Some(filter) = filter {
        let filters = [
            filter.threshold,
            filter.hysteresis,
            filter.count,
            filter.interval.map(millis),
        ];
        let given = (REGISTRATION + 1..).zip(filters);
        properties.extend(given.filter_map(|(id, value)| Some((id, value?))));
    }
    let property = |(id, value): (u32, u32)| PathData::full(vec![id], value.to_be_bytes().to_vec());
    let properties = properties
        .into_iter()
        .map(property)
        .collect::<Result<_, _>>()?;
    Ok(Edit {
        block: resolved.block,
        operation: OperationKind::SetProperty,
        path: PathData::new(resolved.way.ids.clone(), None, Content::Nested(properties))?,
    })
}

/// The components in an event report, by name.
pub(super) fn reports(class: &Class, leaf: &Leaf) -> Option<Value> {
    let (event, rows) = class.event(&leaf.ids)?;
    let member = |steps: &Vec<Step>| -> Option<Component> {
        let mut rows = rows.iter();
        let ids = steps.iter().map(|step| match step {
            Step::Member(id) | Step::Row(id) => Some(*id),
            Step::AnyRow => rows.next().copied(),
        });
        let ids = ids.collect::<Option<Vec<u32>>>()?;
        class.component(&ids).ok()?.component.cloned()
    };
    let members = event
        .reports
        .iter()
        .map(member)
        .collect::<Option<Vec<_>>>()?;
    if members.is_empty() {
        None
    } else {
        value::decode_members(&members, &leaf.content).ok()
    }
}
