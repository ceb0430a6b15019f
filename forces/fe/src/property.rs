//! Properties of components and events (RFC 5812, 4.8), and the subscriptions that they define.
//!
//! | property | of an event | of a table | of text |
//! |---|---|---|---|
//! | 1 | accessibility | accessibility | accessibility |
//! | 2 | registration | number of rows | length |
//! | 3 | threshold | highest index | maximum length |
//! | 4 | hysteresis | first unused index | |
//! | 5, 6 | count, interval in ms | | |
//!
//! The RFCs do not define the form of SET-PROP on an event. We accept a nested path with the number of a property and
//! its value, a bare number as the registration, all properties as FULLDATA, and any subset of them as SPARSEDATA.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::Value;
use weir_protocol::schema::{Kind, Step as EventStep};
use weir_protocol::wire::{Content, OperationKind, ResultCode};

use crate::blocks::Block;
use crate::filter::Filters;
use crate::request::{Failure, Item};
use crate::settings;
use crate::tree::{self, Found};

/// Maximum number of subscriptions.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 256;

/// Events of an instance: all events of the class, one event, or one event of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) class: u32,
    pub(crate) instance: u32,
    /// The events' base ID, the ID of the event, and subscripts.
    pub(crate) ids: Vec<u32>,
}

/// The properties of an event that a subscriber writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) is_registered: bool,
    pub(crate) filters: Filters,
}

/// The event properties that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscriptions(BTreeMap<At, Properties>);

/// An event in a request; `property` is `None` for all properties.
#[derive(Debug)]
pub(crate) struct EventItem {
    at: At,
    property: Option<u32>,
}

/// The event at the end of a path; `None` if it is not the path of an event.
pub(crate) fn at(block: &Block, item: &Item) -> Option<Result<EventItem, Failure>> {
    let base = block.schema.events_base?;
    let ids = settings::ids(&item.steps).ok()?;
    if ids.first() != Some(&base) {
        return None;
    }
    // A path that is nested in the path of an event names a property, not a subscript.
    let (ids, property) = match item.outer {
        outer @ 2.. if outer < ids.len() => (ids[..outer].to_vec(), ids.get(outer).copied()),
        _ => (ids, None),
    };
    let at = At {
        class: item.class,
        instance: item.instance,
        ids,
    };
    let is_event = match &at.ids[..] {
        [_] => true,
        ids => block.schema.event(ids).is_some_and(|(event, rows)| {
            let subscripts = event
                .target
                .iter()
                .filter(|step| **step == EventStep::AnyRow);
            rows.len() <= subscripts.count()
        }),
    };
    Some(
        if is_event && property.is_none_or(|p| (1..=6).contains(&p)) {
            Ok(EventItem { at, property })
        } else {
            let why = format!(
                "{} has no such event or property",
                block.schema.short_name()
            );
            Err(Failure::new(ResultCode::InvalidPath, why))
        },
    )
}

impl EventItem {
    /// The answer to a GET-PROP.
    pub(crate) fn content(
        &self,
        subscriptions: &Subscriptions,
        operation: OperationKind,
    ) -> Result<Content, Failure> {
        if operation != OperationKind::GetProperty {
            let why = "an event has only properties: read them with GET-PROP";
            return Err(Failure::new(ResultCode::InvalidPath, why));
        }
        let properties = subscriptions.0.get(&self.at).copied().unwrap_or_default();
        let numbers = properties.numbers();
        Ok(Content::Full(match self.property {
            Some(1) => vec![READ_WRITE],
            Some(property) => numbers[property as usize - 2].to_be_bytes().to_vec(),
            None => packed(READ_WRITE, &numbers),
        }))
    }
}

const READ_ONLY: u8 = 1;
const WRITE_ONLY: u8 = 2;
const READ_WRITE: u8 = 3;

fn packed(accessibility: u8, numbers: &[u32]) -> Vec<u8> {
    let mut octets = vec![accessibility];
    octets.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    octets
}

impl Properties {
    /// The values of properties 2 to 6.
    fn numbers(&self) -> [u32; 5] {
        let Filters {
            threshold,
            hysteresis,
            count,
            interval_ms,
        } = self.filters;
        let registered = u32::from(self.is_registered);
        [registered, threshold, hysteresis, count, interval_ms]
    }

    fn set(&mut self, property: u32, number: u32) -> Result<(), Failure> {
        match property {
            2 => self.is_registered = number != 0,
            3 => self.filters.threshold = number,
            4 => self.filters.hysteresis = number,
            5 => self.filters.count = number,
            6 => self.filters.interval_ms = number,
            1 => {
                let why = "the accessibility can be read, but not set";
                return Err(Failure::new(ResultCode::ReadOnly, why));
            }
            _ => {
                let why = format!("an event has no property {property}, only 1 to 6");
                return Err(Failure::new(ResultCode::InvalidPath, why));
            }
        }
        Ok(())
    }
}

impl Subscriptions {
    /// Executes a SET-PROP.
    pub(crate) fn set(&mut self, block: &Block, item: &Item) -> Result<(), Failure> {
        let Some(event) = at(block, item) else {
            let why = "properties of components can be read, but not set";
            return Err(Failure::new(ResultCode::ReadOnly, why));
        };
        let EventItem { at, property } = event?;
        let mut properties = self.0.get(&at).copied().unwrap_or_default();
        for (property, number) in written(property, &item.content)? {
            properties.set(property, number)?;
        }
        if properties == Properties::default() {
            self.0.remove(&at);
            return Ok(());
        }
        if self.0.len() >= SUBSCRIPTIONS_MAX && !self.0.contains_key(&at) {
            let why = format!("there are already {SUBSCRIPTIONS_MAX} subscriptions; end one");
            return Err(Failure::new(ResultCode::MemoryError, why));
        }
        self.0.insert(at, properties);
        Ok(())
    }

    /// The registered subscriptions.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (&At, &Filters)> {
        let registered = self
            .0
            .iter()
            .filter(|(_, properties)| properties.is_registered);
        registered.map(|(at, properties)| (at, &properties.filters))
    }
}

/// Decodes the data of a SET-PROP to properties with their values.
fn written(property: Option<u32>, content: &Content) -> Result<Vec<(u32, u32)>, Failure> {
    let number = |octets: &[u8]| -> Result<u32, Failure> {
        let octets = octets.try_into().map_err(|_| {
            let why = "a property must be a number of four octets";
            Failure::new(ResultCode::InvalidParameters, why)
        })?;
        Ok(u32::from_be_bytes(octets))
    };
    match (property, content) {
        (Some(property), Content::Full(octets)) => Ok(vec![(property, number(octets)?)]),
        (None, Content::Full(octets)) if octets.len() == 1 + 5 * 4 => {
            let numbers = (2..).zip(octets[1..].chunks_exact(4));
            numbers
                .map(|(property, octets)| Ok((property, number(octets)?)))
                .collect()
        }
        (None, Content::Full(octets)) => Ok(vec![(2, number(octets)?)]),
        (None, Content::Sparse(ilvs)) => {
            let written = ilvs.iter().map(|ilv| Ok((ilv.id, number(&ilv.value)?)));
            written.collect()
        }
        _ => {
            let why = "a property needs a value";
            Err(Failure::new(ResultCode::InvalidParameters, why))
        }
    }
}

/// The properties of a component.
pub(crate) fn of_component(block: &Block, found: &Found<'_>) -> Result<Content, Failure> {
    let target = block.schema.component(&found.ids)?;
    let whole = found.ids.first().and_then(|id| block.component(*id));
    let is_fixed = whole.is_none_or(|whole| !block.can_be_written(whole));
    let accessibility = match target.component {
        Some(component) if is_fixed || !component.can_be_written() => READ_ONLY,
        Some(component) if !component.can_be_read() => WRITE_ONLY,
        Some(_) => READ_WRITE,
        None => READ_ONLY,
    };
    let value = found.value.as_deref().unwrap_or(&Value::Absent);
    let numbers = match found.kind.resolved() {
        Kind::Array(_) => of_rows(value),
        Kind::Text(most) | Kind::Octets(most) => {
            let len = match value {
                Value::Text(text) => text.len(),
                _ => 0,
            };
            vec![len as u32, most.unwrap_or(u32::MAX)] // fits: a value is shorter than a message
        }
        _ => Vec::new(),
    };
    Ok(Content::Full(packed(accessibility, &numbers)))
}

/// Number of rows, highest index, first unused index.
fn of_rows(table: &Value) -> Vec<u32> {
    let indices: BTreeSet<u32> = tree::rows(table).iter().map(|(index, _)| *index).collect();
    let count = indices.len() as u32; // fits: the rows are in memory
    let gap = (0..).zip(&indices).find(|(n, index)| n != *index);
    vec![
        count,
        indices.last().copied().unwrap_or_default(),
        gap.map_or(count, |(n, _)| n),
    ]
}
