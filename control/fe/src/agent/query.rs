//! Answers a Query: reads the tables of the router that it needs, each once, and then all paths at one time.
//!
//! An answer that does not fit one message is sent in parts (RFC 7391, 3.3): each part has one path, and tables are cut
//! between rows. Parts wait for room in the queue to the CE.

use std::collections::{BTreeMap, VecDeque};

use weir_base::Instant;
use weir_forces::session::execute::{self, Answer};
use weir_forces::session::fe::Ticket;
use weir_forces::wire::message::{Query, QueryResponse, Selects};
use weir_forces::wire::{
    Body, Content, LfbSelect, Operation, OperationKind, Outcome, PathData, ResultCode, WireError,
};
use weir_model::Value;

use super::{Agent, Job};
use crate::blocks::{Source, Tables};
use crate::contract::{Effect, ReadTicket};
use crate::request::{Item, Recorded, Step};
use crate::view::View;

/// The longest answer that is sent whole. With the longest causes it still fits a message.
const WHOLE_BYTES_MAX: usize = 128_000;

/// Forwarding tables with more rows are sent in parts.
const ROWS_WHOLE_MAX: usize = 4000;

/// A Query that waits for tables.
#[derive(Debug)]
pub(super) struct Reading {
    ticket: Ticket,
    query: Query,
    items: Vec<Item>,
    tables: Tables,
    waits: BTreeMap<ReadTicket, &'static str>,
}

/// A long answer under way.
#[derive(Debug)]
pub(super) struct Parts {
    ticket: Ticket,
    parts: VecDeque<QueryResponse>,
}

impl Reading {
    pub(super) fn waits_for(&self, ticket: ReadTicket) -> bool {
        self.waits.contains_key(&ticket)
    }

    pub(super) fn take(&mut self, ticket: ReadTicket, rows: Result<Value, String>) {
        if let Some(name) = self.waits.remove(&ticket) {
            self.tables.insert(name, rows);
        }
    }
}

impl Agent {
    pub(super) fn begin_query(&mut self, ticket: Ticket, query: Query) {
        let items = Item::all(query.selects());
        let mut waits = BTreeMap::new();
        let classes = items.iter().map(|item| item.class);
        for name in self.own.blocks().tables(classes) {
            let read = ReadTicket(self.ticket());
            waits.insert(read, name);
            self.effects.push_back(Effect::Read(read, name));
        }
        self.job = Some(Job::Reading(Reading {
            ticket,
            query,
            items,
            tables: Tables::default(),
            waits,
        }));
    }

    /// Answers once all tables are there; returns whether it waits.
    pub(super) fn read(&mut self, now: Instant, reading: Reading) -> bool {
        if !reading.waits.is_empty() {
            self.job = Some(Job::Reading(reading));
            return true;
        }
        let Reading {
            ticket,
            query,
            items,
            tables,
            ..
        } = reading;
        let view = View::new(&self.own, &self.plan, &self.fe, &self.fib, &tables);
        if items.iter().any(|item| self.has_many_rows(item)) {
            let parts = in_parts(&view, &items);
            self.job = Some(Job::Parts(Parts { ticket, parts }));
            return false;
        }
        let answers: Vec<Answer> = items.iter().map(|item| view.answer(item)).collect();
        let response = execute::query(&query, &mut Recorded(answers.iter()));
        let is_short = |response: &QueryResponse| response.encoded_len() <= WHOLE_BYTES_MAX;
        let parts = match response {
            Ok(response) if is_short(&response) && !answers.iter().any(is_too_long) => {
                let response = Some(Body::QueryResponse(response));
                let _ = self.fe.respond(now, ticket, response); // it fits a message
                return false;
            }
            _ => in_parts(&view, &items),
        };
        self.job = Some(Job::Parts(Parts { ticket, parts }));
        false
    }

    /// Whether an answer has too many rows of a forwarding table to be tried whole, which takes as long as its parts.
    fn has_many_rows(&self, item: &Item) -> bool {
        let (first, last) = match item.steps[..] {
            [] | [_] => (0, u32::MAX),
            [_, Step::Range { first, last }] => (first, last),
            _ => return false,
        };
        let block = self.own.blocks().get(item.class);
        match block.map(|block| &block.source) {
            Ok(Source::Fib(table)) => {
                let rows = self.fib.rows(*table, first);
                let rows = rows.take_while(|(row, _)| *row <= last);
                rows.take(ROWS_WHOLE_MAX + 1).count() > ROWS_WHOLE_MAX
            }
            _ => false,
        }
    }

    /// Sends as many parts as there is room for; returns whether it waits for more.
    pub(super) fn send_parts(&mut self, now: Instant, mut parts: Parts) -> bool {
        while let Some(part) = parts.parts.front() {
            let is_last = parts.parts.len() == 1;
            match self
                .fe
                .respond_part(now, parts.ticket, part.clone(), is_last)
            {
                Ok(true) => {}
                Ok(false) => {
                    self.job = Some(Job::Parts(parts));
                    return true;
                }
                Err(error) => unreachable!("a part is short: {error}"),
            }
            parts.parts.pop_front();
        }
        false
    }
}

/// Whether the data of a path does not fit a TLV.
fn is_too_long(answer: &Answer) -> bool {
    match &answer.content {
        Content::Outcome(outcome) => outcome.code() == ResultCode::ContentsTooLong,
        _ => false,
    }
}

/// The parts of an answer; the last one has a result and no data.
fn in_parts(view: &View<'_>, items: &[Item]) -> VecDeque<QueryResponse> {
    let mut parts = VecDeque::new();
    let mut end = (1, 1, OperationKind::GetResponse, Vec::new());
    for item in items {
        let kind = item
            .operation
            .response()
            .unwrap_or(OperationKind::GetResponse);
        for (ids, content) in view.pieces(item) {
            end = (item.class, item.instance, kind, ids.clone());
            parts.extend(part(item.class, item.instance, kind, ids, content).ok());
        }
    }
    let (class, instance, kind, ids) = end;
    let done = Content::Outcome(Outcome::SUCCESS);
    parts.extend(part(class, instance, kind, ids, done).ok());
    parts
}

fn part(
    class: u32,
    instance: u32,
    kind: OperationKind,
    ids: Vec<u32>,
    content: Content,
) -> Result<QueryResponse, WireError> {
    let path = PathData::new(ids, None, content)?;
    let operation = Operation::on(kind, vec![path])?;
    Selects::new(vec![LfbSelect::new(class, instance, vec![operation])?])
}
