//! The requests of one FE: a queue of waiting requests, and a window of open requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::{Instant, Span};

use super::contract::{RequestId, TransactionId};
use crate::wire::MessageKind;

/// The receiver of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Caller,
    Transaction(TransactionId, Step),
}

/// A phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Prepare,
    Commit,
    Abort,
}

/// A request that waits to be sent.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) id: RequestId,
    pub(super) message: Vec<u8>,
    pub(super) kind: MessageKind,
    pub(super) is_answered: bool,
    pub(super) deadline: Instant,
    pub(super) owner: Owner,
}

#[derive(Debug)]
struct Open {
    kind: MessageKind,
    deadline: Instant,
    owner: Owner,
    /// Number of parts of its answer so far.
    parts: u32,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) window: usize,
    waiting: VecDeque<Queued>,
    open: BTreeMap<RequestId, Open>,
    deadlines: BTreeSet<(Instant, RequestId)>,
    /// Time of the latest part of an answer that has more parts.
    part: Option<Instant>,
}

/// Time for the next part of an answer. The deadlines of the other requests are not earlier, because they wait for it.
const PART_TIME: Span = Span::from_secs(10);
/// An answer with more parts has no more time: an FE must not keep a CE waiting, or fill its memory, without end.
const PARTS_MAX: u32 = 4096;

impl Requests {
    /// Waiting and open requests together.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.open.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, request: Queued) {
        self.deadlines.insert((request.deadline, request.id));
        self.waiting.push_back(request);
    }

    /// The next request to send, if the window has room for it.
    pub(super) fn next(&mut self) -> Option<(MessageKind, Vec<u8>)> {
        let next = self.waiting.front()?;
        if next.is_answered && self.open.len() >= self.window {
            return None;
        }
        let request = self.waiting.pop_front()?;
        if request.is_answered {
            let (kind, deadline, owner) = (request.kind, request.deadline, request.owner);
            self.open.insert(
                request.id,
                Open {
                    kind,
                    deadline,
                    owner,
                    parts: 0,
                },
            );
        } else {
            self.deadlines.remove(&(request.deadline, request.id));
        }
        Some((request.kind, request.message))
    }

    /// Finds the request that a response answers; the request stays open if further parts follow.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        correlator: u64,
        response: MessageKind,
        is_last: bool,
    ) -> Option<(RequestId, Owner)> {
        let id = RequestId(correlator);
        let open = self.open.get_mut(&id)?;
        let expected = match open.kind {
            MessageKind::Query => MessageKind::QueryResponse,
            _ => MessageKind::ConfigResponse,
        };
        if response != expected {
            return None;
        }
        let owner = open.owner;
        open.parts += 1;
        if is_last {
            self.deadlines.remove(&(open.deadline, id));
            self.open.remove(&id);
        } else if open.parts <= PARTS_MAX {
            self.part = Some(now);
        }
        Some((id, owner))
    }

    /// Removes and returns a request whose deadline has passed, unless the FE works on a long answer.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(RequestId, Owner)> {
        let (at, id) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        if let Some(later) = self
            .part
            .map(|part| part + PART_TIME)
            .filter(|at| *at > now)
        {
            self.postpone(later);
            return None;
        }
        self.deadlines.pop_first();
        if let Some(open) = self.open.remove(&id) {
            return Some((id, open.owner));
        }
        let at = self.waiting.iter().position(|queued| queued.id == id)?;
        let queued = self.waiting.remove(at)?;
        Some((id, queued.owner))
    }

    /// Moves earlier deadlines to this time.
    fn postpone(&mut self, later: Instant) {
        let open = self.open.iter_mut();
        let open = open.map(|(id, open)| (*id, &mut open.deadline));
        let waiting = self.waiting.iter_mut();
        let waiting = waiting.map(|queued| (queued.id, &mut queued.deadline));
        for (id, deadline) in open.chain(waiting).filter(|(_, at)| **at < later) {
            self.deadlines.remove(&(*deadline, id));
            self.deadlines.insert((later, id));
            *deadline = later;
        }
    }

    /// Removes the requests of a transaction that were not sent yet.
    pub(super) fn cancel(&mut self, transaction: TransactionId) {
        let of = |owner| matches!(owner, Owner::Transaction(id, _) if id == transaction);
        for queued in self.waiting.iter().filter(|queued| of(queued.owner)) {
            self.deadlines.remove(&(queued.deadline, queued.id));
        }
        self.waiting.retain(|queued| !of(queued.owner));
    }

    /// Removes all requests, because the FE is lost.
    pub(super) fn abandon(&mut self) -> Vec<(RequestId, Owner)> {
        self.deadlines.clear();
        let open = std::mem::take(&mut self.open).into_iter();
        let open = open.map(|(id, open)| (id, open.owner));
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        open.chain(waiting.map(|queued| (queued.id, queued.owner)))
            .collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}
