//! Answers a Query: first reads each required table of the router once, then answers all paths from this snapshot.
//!
//! An answer that does not fit one message is sent in parts (RFC 7391, 3.3): each part has one path, and tables are
//! split between rows. Parts wait for room in the queue to the CE. Reading a forwarding table with a million rows takes
//! seconds, and must not block the FE: the table is read in slices, and the driver of the agent can do other work
//! between two slices. The agent executes no other request in the meantime, so all parts show the same table.

use std::collections::{BTreeMap, VecDeque};

use weir_base::Instant;
use weir_model::Value;
use weir_protocol::session::execute::{self, Answer};
use weir_protocol::session::fe::Ticket;
use weir_protocol::wire::message::{Query, QueryResponse, Selects};
use weir_protocol::wire::{
    Body, Content, LfbSelect, Operation, OperationKind, Outcome, PathData, ResultCode, WireError,
};

use super::{Agent, Job};
use crate::blocks::{Source, TABLE, Tables};
use crate::contract::{Effect, ReadTicket};
use crate::request::{Item, Recorded, Step};
use crate::view::{Cache, View};

/// Maximum length in bytes of an answer in one message. It fits a message even with causes of maximum length.
const WHOLE_BYTES_MAX: usize = 128_000;

/// Forwarding tables with more rows than this are read in slices of this number of rows.
const SLICE_ROWS: usize = 4000;

/// A Query that waits for tables.
#[derive(Debug)]
pub(super) struct Reading {
    ticket: Ticket,
    query: Query,
    items: Vec<Item>,
    tables: Tables,
    waits: BTreeMap<ReadTicket, &'static str>,
}

/// A long answer in progress.
#[derive(Debug)]
pub(super) struct Parts {
    ticket: Ticket,
    tables: Tables,
    cache: Cache,
    /// Paths whose parts are not built yet.
    items: VecDeque<Item>,
    made: VecDeque<QueryResponse>,
    /// Position of the last part built.
    end: PartPlace,
    /// Whether the final part, which has a result and no data, is built.
    is_complete: bool,
    /// Whether the next path waits for [`Agent::handle_turn`].
    is_paused: bool,
}

/// The LFB and the path of the data in a part.
#[derive(Clone, Debug)]
struct PartPlace {
    class: u32,
    instance: u32,
    kind: OperationKind,
    ids: Vec<u32>,
}

impl PartPlace {
    fn part(self, content: Content) -> Result<QueryResponse, WireError> {
        let path = PathData::new(self.ids, None, content)?;
        let operation = Operation::on(self.kind, vec![path])?;
        let select = LfbSelect::new(self.class, self.instance, vec![operation])?;
        Selects::new(vec![select])
    }
}

impl Parts {
    fn new(ticket: Ticket, items: VecDeque<Item>, tables: Tables) -> Self {
        let end = PartPlace {
            class: 1,
            instance: 1,
            kind: OperationKind::GetResponse,
            ids: Vec::new(),
        };
        Self {
            ticket,
            tables,
            cache: Cache::default(),
            items,
            made: VecDeque::new(),
            end,
            is_complete: false,
            is_paused: false,
        }
    }

    pub(super) const fn go_on(&mut self) {
        self.is_paused = false;
    }

    /// Builds the parts of the next path.
    fn make(&mut self, view: &View<'_>, item: &Item) {
        let kind = item.operation.response();
        for (ids, content) in view.pieces(item) {
            self.end = PartPlace {
                class: item.class,
                instance: item.instance,
                kind: kind.unwrap_or(OperationKind::GetResponse),
                ids,
            };
            self.made.extend(self.end.clone().part(content).ok());
        }
    }

    fn complete(&mut self) {
        let done = Content::Outcome(Outcome::SUCCESS);
        self.made.extend(self.end.clone().part(done).ok());
        self.is_complete = true;
    }
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

    /// Answers as soon as all tables have arrived; returns whether the Query still waits.
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
        let paths = items.len();
        let slices = items.into_iter().flat_map(|item| self.slices(item));
        let items: VecDeque<Item> = slices.collect();
        if items.len() > paths {
            self.job = Some(Job::Parts(Parts::new(ticket, items, tables)));
            return false;
        }
        let view = View::new(&self.own, &self.plan, &self.fe, &self.fib, &tables);
        let answers: Vec<Answer> = items.iter().map(|item| view.answer(item)).collect();
        let response = execute::query(&query, &mut Recorded(answers.iter()));
        let is_short = |response: &QueryResponse| response.encoded_len() <= WHOLE_BYTES_MAX;
        match response {
            Ok(response) if is_short(&response) && !answers.iter().any(is_too_long) => {
                let response = Some(Body::QueryResponse(response));
                let _ = self.fe.respond(now, ticket, response); // it fits a message
            }
            _ => self.job = Some(Job::Parts(Parts::new(ticket, items, tables))),
        }
        false
    }

    /// Splits a path that reads many rows of a forwarding table into paths that read one slice each; returns any other
    /// path unchanged.
    fn slices(&self, item: Item) -> Vec<Item> {
        let (first, last) = match item.steps[..] {
            [] | [Step::Id(TABLE)] => (0, u32::MAX),
            [Step::Id(TABLE), Step::Range { first, last }] => (first, last),
            _ => return vec![item],
        };
        let block = self.own.blocks().get(item.class);
        let (OperationKind::Get, 1, Ok(Source::Fib(table))) = (
            item.operation,
            item.instance,
            block.map(|block| &block.source),
        ) else {
            return vec![item];
        };
        let rows = self.fib.rows(*table, first).map(|(row, _)| row);
        let rows = rows.take_while(|row| *row <= last);
        let starts: Vec<u32> = rows.step_by(SLICE_ROWS).collect();
        if starts.len() < 2 {
            return vec![item];
        }
        let ends = starts.iter().skip(1).map(|next| next - 1).chain([last]);
        let slice = |(first, last): (&u32, u32)| {
            let first = *first;
            Item {
                steps: vec![Step::Id(TABLE), Step::Range { first, last }],
                ..item.clone()
            }
        };
        starts.iter().zip(ends).map(slice).collect()
    }

    /// Builds and sends parts while the queue has room, for one path per turn; returns whether the answer must wait.
    pub(super) fn send_parts(&mut self, now: Instant, mut parts: Parts) -> bool {
        while self.fe.awaits(parts.ticket) {
            let Some(part) = parts.made.front().cloned() else {
                if parts.is_paused {
                    self.job = Some(Job::Parts(parts));
                    return true;
                }
                match parts.items.pop_front() {
                    Some(item) => {
                        let tables = std::mem::take(&mut parts.tables);
                        let view = View::new(&self.own, &self.plan, &self.fe, &self.fib, &tables);
                        let view = view.with(std::mem::take(&mut parts.cache));
                        parts.make(&view, &item);
                        parts.cache = view.into_cache();
                        parts.tables = tables;
                        parts.is_paused = true;
                        self.effects.push_back(Effect::Turn);
                    }
                    None if parts.is_complete => return false,
                    None => parts.complete(),
                }
                continue;
            };
            let is_last = parts.is_complete && parts.made.len() == 1;
            match self.fe.respond_part(now, parts.ticket, part, is_last) {
                Ok(true) => {}
                Ok(false) => {
                    self.job = Some(Job::Parts(parts));
                    return true;
                }
                Err(error) => unreachable!("a part is short: {error}"),
            }
            parts.made.pop_front();
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
