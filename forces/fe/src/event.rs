//! Samples the watched components, and builds the notifications.
//!
//! Without subscriptions, nothing is read. All subscriptions share one period: the shortest subscribed interval, from
//! 10 ms to 1 s; a subscription without an interval counts as 100 ms. A sampling that the router answers late counts as
//! taken when it was due, so that a delay does not make a report miss its interval.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Instant, Span};
use weir_model::Value;
use weir_protocol::schema::{Array, Component, Condition, Event, Kind, Step as EventStep};
use weir_protocol::value;
use weir_protocol::wire::message::{EventNotification, Selects};
use weir_protocol::wire::{LfbSelect, Operation, OperationKind, PathData};

use crate::blocks::{Block, Source, Tables};
use crate::contract::ReadTicket;
use crate::filter::{Filters, Tracker};
use crate::own::Own;
use crate::property::At;
use crate::request::Step;
use crate::tree;
use crate::view::View;

const PERIOD_MIN: Span = Span::from_millis(10);
const PERIOD_DEFAULT: Span = Span::from_millis(100);
const PERIOD_MAX: Span = Span::from_millis(1000);
/// Maximum number of watched rows of one subscription; later rows are not watched.
const ROWS_MAX: usize = 4096;

/// A watched event: its subscription, and its ID.
type Key = (At, u32);

/// The history of all watched events.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    histories: BTreeMap<Key, History>,
    period: Option<Span>,
    due: Option<Instant>,
    round: Option<Round>,
}

/// The history of a watched event.
#[derive(Debug, Default)]
struct History {
    /// The values of the rows by key.
    rows: BTreeMap<String, Tracker>,
    /// The reports of created or deleted rows. They share one count and one interval, because each row appears and
    /// disappears only once.
    population: Tracker,
}

/// A sampling in progress.
#[derive(Debug)]
struct Round {
    at: Instant,
    waits: BTreeMap<ReadTicket, &'static str>,
    tables: Tables,
}

impl Watches {
    /// When the next sampling begins.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.round.is_none())
    }

    /// Adapts the watches to the subscriptions.
    pub(crate) fn follow(&mut self, now: Instant, own: &Own) {
        let subscriptions = own.subscriptions();
        let registered: Vec<_> = subscriptions.registered().collect();
        self.histories
            .retain(|(at, _), _| registered.iter().any(|(known, _)| *known == at));
        let needs_tables = |at: &At| {
            let block = own.blocks().get(at.class);
            block.is_ok_and(|block| block.table().is_some())
        };
        let wanted = registered.iter().filter(|(at, _)| needs_tables(at));
        let period = |filters: &Filters| match filters.interval_ms {
            0 => PERIOD_DEFAULT,
            millis => Span::from_millis(millis.into()).clamp(PERIOD_MIN, PERIOD_MAX),
        };
        self.period = wanted.map(|(_, filters)| period(filters)).min();
        self.due = match (self.due, self.period) {
            (Some(due), Some(period)) => Some(due.min(now + period)),
            (None, Some(_)) => Some(now),
            (_, None) => None,
        };
    }

    /// Begins a sampling if it is due, and returns whether it does. The caller then requests the tables and registers
    /// their tickets with [`Self::wait_for`].
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let (Some(due), Some(period)) = (self.due(), self.period) else {
            return false;
        };
        if now < due {
            return false;
        }
        let next = due + period;
        self.due = Some(if next > now { next } else { now + period }); // missed samplings are skipped
        self.round = Some(Round {
            at: if next > now { due } else { now },
            waits: BTreeMap::new(),
            tables: Tables::default(),
        });
        true
    }

    /// Registers a table that the current sampling needs.
    pub(crate) fn wait_for(&mut self, ticket: ReadTicket, name: &'static str) {
        if let Some(round) = &mut self.round {
            round.waits.insert(ticket, name);
        }
    }

    /// Adds a table; returns whether the sampling has all its tables.
    pub(crate) fn take(&mut self, ticket: ReadTicket, rows: Result<Value, String>) -> bool {
        let Some(round) = &mut self.round else {
            return false;
        };
        if let Some(name) = round.waits.remove(&ticket) {
            round.tables.insert(name, rows);
        }
        round.waits.is_empty()
    }

    /// Ends the sampling; returns the time when it was due, and its tables.
    pub(crate) fn end(&mut self) -> Option<(Instant, Tables)> {
        let round = self.round.take()?;
        Some((round.at, round.tables))
    }

    /// The notifications of a sample: of the FE's own objects, which need no tables, if `is_own`, otherwise of all
    /// others.
    pub(crate) fn evaluate(
        &mut self,
        now: Instant,
        own: &Own,
        view: &View<'_>,
        is_own: bool,
    ) -> Vec<EventNotification> {
        let mut notifications = Vec::new();
        for (at, filters) in own.subscriptions().registered() {
            let Ok(block) = own.blocks().get(at.class) else {
                continue;
            };
            let is_of_fe = matches!(block.source, Source::Object | Source::Protocol);
            if is_of_fe != is_own {
                continue;
            }
            let Ok(value) = view.value(at.class, at.instance) else {
                continue; // the instance was deleted, or is unreadable now
            };
            let id = at.ids.get(1);
            let events = block.schema.events.iter();
            for event in events.filter(|event| id.is_none_or(|id| *id == event.id)) {
                let fired = self.sample(now, at, filters, block, event, &value);
                let made = fired
                    .iter()
                    .filter_map(|row| notification(at, block, event, *row, &value));
                notifications.extend(made);
            }
        }
        notifications
    }

    /// The rows whose event must be reported; `None` stands for an event without a row.
    fn sample(
        &mut self,
        now: Instant,
        at: &At,
        filters: &Filters,
        block: &Block,
        event: &Event,
        value: &Value,
    ) -> Vec<Option<u32>> {
        let samples = samples(block, event, value, at.ids.get(2).copied());
        let history = self.histories.entry((at.clone(), event.id));
        let is_new = matches!(history, Entry::Vacant(_));
        let History { rows, population } = history.or_default();
        let is_shared = matches!(event.condition, Condition::Created | Condition::Deleted);
        let mut is_reported = |tracker: &mut Tracker, value: &Value| {
            if !is_shared {
                return tracker.sample(now, event.condition, filters, value);
            }
            tracker.occurs(event.condition, filters, value)
                && population.reports(now, event.condition, filters, value)
        };
        let mut fired = Vec::new();
        let keys: BTreeSet<_> = samples.iter().map(|sample| &sample.key).collect();
        let deleted = rows.iter_mut().filter(|(key, _)| !keys.contains(key));
        for (_, tracker) in deleted.filter(|_| event.condition == Condition::Deleted) {
            if is_reported(tracker, &Value::Absent) {
                fired.push(None);
            }
        }
        rows.retain(|key, _| keys.contains(key));
        for sample in &samples {
            let tracker = rows.entry(sample.key.clone()).or_insert_with(|| {
                if is_new {
                    Tracker::default()
                } else {
                    Tracker::of_new()
                }
            });
            if is_reported(tracker, &sample.value) {
                fired.push(sample.row);
            }
        }
        fired
    }
}

/// The sampled value of an event's target.
struct Sample {
    /// Key of the row.
    key: String,
    row: Option<u32>,
    value: Value,
}

/// The values of the target: one value, or one per row.
fn samples(block: &Block, event: &Event, value: &Value, only: Option<u32>) -> Vec<Sample> {
    let any = event
        .target
        .iter()
        .position(|step| *step == EventStep::AnyRow);
    let Some(any) = any else {
        return vec![Sample {
            key: String::new(),
            row: None,
            value: target(&block.kind, value, &event.target, None),
        }];
    };
    let Ok(table) = tree::find(&block.kind, value, &steps(&event.target[..any], None)) else {
        return Vec::new();
    };
    let Some((array, Value::List(rows))) = table.kind.array().zip(table.value.as_deref()) else {
        return Vec::new();
    };
    let rows = (0..).zip(rows);
    let rows = rows.filter(|(index, _)| only.is_none_or(|only| only == *index));
    let sample = |(index, row): (u32, &Value)| Sample {
        key: key_of(array, row).unwrap_or_else(|| index.to_string()),
        row: Some(index),
        value: target(&array.element, row, &event.target[any + 1..], Some(index)),
    };
    rows.take(ROWS_MAX).map(sample).collect()
}

/// The values of the first key of a row, as text.
fn key_of(array: &Array, row: &Value) -> Option<String> {
    let values = value::key_of_row(array, array.keys.first()?, row)?;
    Some(format!("{values:?}"))
}

fn target(kind: &Kind, value: &Value, path: &[EventStep], row: Option<u32>) -> Value {
    let found = tree::find(kind, value, &steps(path, row));
    let value = found
        .ok()
        .and_then(|found| found.value.map(|value| value.into_owned()));
    value.unwrap_or(Value::Absent)
}

fn steps(path: &[EventStep], row: Option<u32>) -> Vec<Step> {
    let step = |step: &EventStep| match step {
        EventStep::Member(id) | EventStep::Row(id) => Some(Step::Id(*id)),
        EventStep::AnyRow => row.map(Step::Id),
    };
    path.iter().filter_map(step).collect()
}

/// The notification of an event: its path, with the reported components as members of one structure.
fn notification(
    at: &At,
    block: &Block,
    event: &Event,
    row: Option<u32>,
    value: &Value,
) -> Option<EventNotification> {
    let mut ids = vec![block.schema.events_base?, event.id];
    ids.extend(row);
    let (mut members, mut values): (Vec<Component>, Vec<_>) = (Vec::new(), Vec::new());
    for (id, report) in (1..).zip(&event.reports) {
        let found = tree::find(&block.kind, value, &steps(report, row));
        let Ok(found) = found else {
            continue; // the row was deleted
        };
        let name = id.to_string();
        members.push(Component::read_only(id, &name, found.kind.clone()));
        let value = found
            .value
            .map_or(Value::Absent, |value| value.into_owned());
        values.push((name.into(), value));
    }
    let content = value::encode_members(&members, &Value::Struct(values)).ok()?;
    let path = PathData::new(ids, None, content).ok()?;
    let report = Operation::on(OperationKind::Report, vec![path]).ok()?;
    let select = LfbSelect::new(at.class, at.instance, vec![report]).ok()?;
    Selects::new(vec![select]).ok()
}
