//! Random links, messages, requests and delays: a CE always keeps the guarantees of its session.
//!
//! - After `handle_timeout(now)` its next timer is later than `now`.
//! - Every request ends exactly once, with its last response or as unanswered, and no later than its deadline. A
//!   request for which no answer is requested gets no response.
//! - Every transaction ends exactly once.
//! - The numbers of waiting requests and of bytes waiting for the transport are bounded.
//! - When all links are closed, no timer is left.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::heartbeats;
use crate::world::{CE, Store, ce_params, get, ms, packet, select, set};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_base::{Instant, Span};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{
    Ce, Deadlines, Event, LinkId, Manner, Params, RequestId, TransactionId,
};
use weir_protocol::session::execute;
use weir_protocol::wire::header::{Ack, Execution, Flags, Phase, Priority};
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::message::{
    AssociationTeardown, Config, ConfigResponse, Heartbeat, Selects,
};
use weir_protocol::wire::{
    Body, Envelope, Id, LfbSelect, Message, MessageKind, Operation, OperationKind, Outcome,
    PathData, ResultCode,
};

const FES: u32 = 3;
/// Time that a part of a long answer gives the FE's other requests.
const PART_TIME: Span = Span::from_secs(10);
const LINKS: u64 = 4;
const REQUESTS_MAX: usize = 4;
const WINDOW: usize = 2;
const QUEUE_BYTES_MAX: usize = 300;
/// Messages of these tests are not longer than this.
const MESSAGE_LEN_MAX: usize = 100;
/// Number of messages of a transaction that may exceed the limit of the queue.
const TRANSACTION_EXTRA: usize = 2;

#[derive(Clone, Debug)]
enum Say {
    Heartbeat,
    Report,
    Packet,
    Teardown,
    /// A Query Response without a request.
    Stray,
    Garbage,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Done,
    Failed,
    Part,
    WrongKind,
    Garbled,
}

#[derive(Clone, Debug)]
enum Act {
    Connect(u64, bool),
    Disconnect(u64),
    /// An FE sends setups with this correlator; the last field is their number.
    Setup(u64, u32, u64, usize),
    Say(u64, Say),
    /// An FE answers one of its received requests.
    Reply(usize, Reply),
    Writable(u64, bool),
    Configure(u32, Ack, u64),
    /// Several queries.
    Query(u32, u64, usize),
    Transact(Vec<u32>, usize, [u64; 3]),
    Redirect(u32),
    Release(u32),
    Heartbeats(u32, Heartbeats),
    Wait(u64),
    /// Time passes until the next timer fires.
    Due,
}

fn act() -> impl Strategy<Value = Act> {
    let (link, fe) = (|| 0..LINKS, || 1..=FES);
    let span = || prop_oneof![1 => Just(0_u64), 8 => 1_u64..5000];
    let times = || prop_oneof![8 => Just(1_usize), 1 => Just(20)];
    let ack = prop::sample::select(vec![
        Ack::Always,
        Ack::Never,
        Ack::OnSuccess,
        Ack::OnFailure,
    ]);
    let say = prop::sample::select(vec![
        Say::Heartbeat,
        Say::Report,
        Say::Packet,
        Say::Teardown,
        Say::Stray,
        Say::Garbage,
    ]);
    let reply = prop_oneof![
        8 => Just(Reply::Done),
        1 => Just(Reply::Failed),
        2 => Just(Reply::Part),
        1 => Just(Reply::WrongKind),
        1 => Just(Reply::Garbled),
    ];
    let fes = prop::sample::subsequence((1..=FES).collect::<Vec<_>>(), 1..=3);
    prop_oneof![
        6 => (link(), any::<bool>()).prop_map(|(link, proved)| Act::Connect(link, proved)),
        1 => link().prop_map(Act::Disconnect),
        8 => (link(), 0..=FES, 0_u64..2, times())
            .prop_map(|(link, fe, id, times)| Act::Setup(link, fe, id, times)),
        3 => (link(), say).prop_map(|(link, say)| Act::Say(link, say)),
        20 => (0_usize..20, reply).prop_map(|(at, reply)| Act::Reply(at, reply)),
        3 => (link(), any::<bool>()).prop_map(|(link, on)| Act::Writable(link, on)),
        8 => (fe(), ack, span()).prop_map(|(fe, ack, span)| Act::Configure(fe, ack, span)),
        8 => (fe(), span(), 1_usize..6).prop_map(|(fe, span, times)| Act::Query(fe, span, times)),
        6 => (fes, 0_usize..3, [span(), span(), span()])
            .prop_map(|(fes, parts, spans)| Act::Transact(fes, parts, spans)),
        2 => fe().prop_map(Act::Redirect),
        1 => fe().prop_map(Act::Release),
        1 => (fe(), heartbeats()).prop_map(|(fe, heartbeats)| Act::Heartbeats(fe, heartbeats)),
        3 => (0_u64..3000).prop_map(Act::Wait),
        3 => Just(Act::Due),
    ]
}

/// A request of the application.
struct Asked {
    fe: Id,
    deadline: Instant,
    is_answered: bool,
}

/// A request as received by an FE.
#[derive(Clone)]
struct Got {
    link: LinkId,
    fe: Id,
    correlator: u64,
    body: Body,
}

/// A CE, its transport, its application and the FEs at the far ends.
struct Stage {
    now: Instant,
    ce: Ce,
    open: BTreeMap<LinkId, Option<Id>>,
    blocked: BTreeSet<LinkId>,
    asked: BTreeMap<RequestId, Asked>,
    /// When each FE sent its latest part of a long answer.
    parts: BTreeMap<Id, Instant>,
    transactions: BTreeSet<TransactionId>,
    got: Vec<Got>,
}

impl Stage {
    fn new() -> Self {
        let params = Params {
            window: WINDOW,
            requests_max: REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            links_max: LINKS as usize - 1,
            ..ce_params(CE)
        };
        Self {
            now: ms(0),
            ce: Ce::new(params).unwrap(),
            open: BTreeMap::new(),
            blocked: BTreeSet::new(),
            asked: BTreeMap::new(),
            parts: BTreeMap::new(),
            transactions: BTreeSet::new(),
            got: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        let now = self.now;
        match act {
            Act::Connect(link, proved) if !self.open.contains_key(&LinkId(link)) => {
                let proved = proved.then_some(Id(1 + (link as u32) % FES));
                if self.ce.handle_connected(now, LinkId(link), proved) {
                    self.open.insert(LinkId(link), None);
                }
            }
            Act::Disconnect(link) => self.disconnect(LinkId(link)),
            Act::Setup(link, fe, correlator, times) => {
                let body = Body::AssociationSetup(Selects::new(vec![]).unwrap());
                for _ in 0..times {
                    self.hear(LinkId(link), Id(fe), correlator, Flags::default(), &body);
                }
            }
            Act::Say(link, say) => self.say(LinkId(link), &say),
            Act::Reply(at, reply) => self.reply(at, reply),
            Act::Writable(link, on) if self.open.contains_key(&LinkId(link)) => {
                self.ce.handle_writable(LinkId(link), on);
                if on {
                    self.blocked.remove(&LinkId(link))
                } else {
                    self.blocked.insert(LinkId(link))
                };
            }
            Act::Configure(fe, ack, span) => {
                let manner = Manner {
                    execution: Execution::AllOrNone,
                    ack,
                    deadline: now + Span::from_millis(span),
                };
                let request = self.ce.configure(now, Id(fe), set(1, 7), manner);
                self.ask(request.ok(), Id(fe), manner.deadline, ack != Ack::Never);
            }
            Act::Query(fe, span, times) => {
                let deadline = now + Span::from_millis(span);
                for _ in 0..times {
                    let request = self.ce.query(now, Id(fe), get(1), deadline);
                    self.ask(request.ok(), Id(fe), deadline, true);
                }
            }
            Act::Transact(fes, parts, spans) => self.transact(&fes, parts, spans),
            Act::Redirect(fe) => {
                drop(
                    self.ce
                        .redirect(now, Id(fe), packet(1), Priority::URGENT_REDIRECT),
                )
            }
            Act::Release(fe) => self.ce.release(now, Id(fe), TeardownReason::Normal),
            Act::Heartbeats(fe, heartbeats) => {
                self.ce.set_heartbeats(now, Id(fe), heartbeats).unwrap();
            }
            Act::Wait(millis) => self.wait(now + Span::from_millis(millis)),
            Act::Due => self.wait(self.ce.poll_timeout().unwrap_or(now)),
            Act::Connect(..) | Act::Writable(..) => {}
        }
        self.settle();
    }

    fn ask(&mut self, request: Option<RequestId>, fe: Id, deadline: Instant, is_answered: bool) {
        if let Some(request) = request {
            let asked = Asked {
                fe,
                deadline,
                is_answered,
            };
            assert!(self.asked.insert(request, asked).is_none());
        }
    }

    fn transact(&mut self, fes: &[u32], parts: usize, spans: [u64; 3]) {
        let [prepare, commit, abort] = spans.map(Span::from_millis);
        let deadlines = Deadlines {
            prepare,
            commit,
            abort,
        };
        let parts = fes.iter().map(|fe| (Id(*fe), vec![set(1, 7); parts]));
        if let Ok(id) = self.ce.transact(self.now, parts.collect(), deadlines) {
            assert!(self.transactions.insert(id));
        }
    }

    fn disconnect(&mut self, link: LinkId) {
        if self.open.remove(&link).is_some() {
            self.blocked.remove(&link);
            self.ce.handle_disconnected(self.now, link);
        }
    }

    fn wait(&mut self, until: Instant) {
        self.now = self.now.max(until);
        self.ce.handle_timeout(self.now);
        let (now, next) = (self.now, self.ce.poll_timeout());
        assert!(
            next.is_none_or(|next| next > now),
            "at {now:?} the next timer is due at {next:?}"
        );
        self.settle();
        let late = |asked: &Asked| {
            let part = self.parts.get(&asked.fe);
            let deadline =
                part.map_or(asked.deadline, |part| asked.deadline.max(*part + PART_TIME));
            asked.is_answered && deadline <= now
        };
        assert!(
            !self.asked.values().any(late),
            "a request outlives its deadline"
        );
    }

    fn hear(&mut self, link: LinkId, fe: Id, correlator: u64, flags: Flags, body: &Body) {
        let envelope = Envelope {
            source: fe,
            destination: CE,
            correlator,
            flags,
        };
        let bytes = Message::new(envelope, body.clone()).unwrap().to_bytes();
        self.hear_bytes(link, &bytes);
    }

    fn hear_bytes(&mut self, link: LinkId, bytes: &[u8]) {
        if self.open.contains_key(&link) {
            self.ce.handle_message(self.now, link, bytes);
        }
    }

    fn say(&mut self, link: LinkId, say: &Say) {
        let fe = self.ce.fes().find(|(_, of)| *of == link);
        let fe = fe.map_or(Id(1), |(fe, _)| fe);
        let body = match say {
            Say::Heartbeat => Body::Heartbeat(Heartbeat),
            Say::Report => {
                let path = PathData::full(vec![60, 1], vec![2]).unwrap();
                let report = select(OperationKind::Report, vec![path]);
                Body::EventNotification(Selects::new(vec![report]).unwrap())
            }
            Say::Packet => Body::PacketRedirect(packet(1)),
            Say::Teardown => Body::AssociationTeardown(AssociationTeardown {
                reason: TeardownReason::Normal,
            }),
            Say::Stray => {
                let response = execute::query(&get(1), &mut Store::default()).unwrap();
                Body::QueryResponse(response)
            }
            Say::Garbage => return self.hear_bytes(link, &[0x10; 40]),
        };
        self.hear(link, fe, 1 << 40, Flags::default(), &body);
    }

    fn reply(&mut self, at: usize, reply: Reply) {
        if self.got.is_empty() {
            return;
        }
        let at = at % self.got.len();
        let got = match reply {
            Reply::Part => self.got[at].clone(),
            _ => self.got.remove(at),
        };
        let query = || Body::QueryResponse(execute::query(&get(1), &mut Store::default()).unwrap());
        let mut flags = Flags::default();
        let body = match (&got.body, reply) {
            (Body::Query(_), Reply::WrongKind) => {
                let response = execute::refuse(&set(1, 7), ResultCode::Busy).unwrap();
                Body::ConfigResponse(response)
            }
            (Body::Query(_), _) => query(),
            (_, Reply::WrongKind) => query(),
            (Body::Config(config), _) => Body::ConfigResponse(answer(config, reply)),
            _ => return,
        };
        if matches!(reply, Reply::Part) {
            (flags.transaction, flags.phase) = (true, Phase::Middle);
        }
        let envelope = Envelope {
            source: got.fe,
            destination: CE,
            correlator: got.correlator,
            flags,
        };
        let mut bytes = Message::new(envelope, body).unwrap().to_bytes();
        if matches!(reply, Reply::Garbled) {
            bytes[27] = 1; // the length of its first TLV
        }
        self.hear_bytes(got.link, &bytes);
    }

    /// Takes all output of the CE.
    fn settle(&mut self) {
        self.send();
        while let Some(event) = self.ce.poll_event() {
            match event {
                Event::Response {
                    request, is_last, ..
                } => {
                    let asked = self.asked.get(&request);
                    assert!(
                        asked.is_some_and(|asked| asked.is_answered),
                        "no such request"
                    );
                    if is_last {
                        self.asked.remove(&request);
                    } else if let Some(asked) = asked {
                        self.parts.insert(asked.fe, self.now);
                    }
                }
                Event::Unanswered(fe, request) => {
                    let asked = self.asked.remove(&request);
                    assert!(asked.is_some_and(|asked| asked.fe == fe), "no such request");
                }
                Event::Ended(id, _) => assert!(self.transactions.remove(&id), "ended twice"),
                Event::Close(link) => {
                    self.open.remove(&link);
                    self.blocked.remove(&link);
                }
                _ => {}
            }
        }
        for fe in (1..=FES).map(Id) {
            let open = self
                .asked
                .values()
                .filter(|asked| asked.fe == fe && asked.is_answered);
            assert!(open.count() <= self.ce.requests(fe), "a request is lost");
            let most = REQUESTS_MAX + WINDOW + TRANSACTION_EXTRA;
            assert!(
                self.ce.requests(fe) <= most,
                "{} requests",
                self.ce.requests(fe)
            );
        }
    }

    fn send(&mut self) {
        let mut bytes: BTreeMap<LinkId, usize> = BTreeMap::new();
        while let Some(transmit) = self.ce.poll_transmit(self.now) {
            assert!(transmit.message.len() <= MESSAGE_LEN_MAX);
            let message = Message::parse(&transmit.message).unwrap();
            let (envelope, body) = message.into_parts();
            let is_control = matches!(body.kind(), MessageKind::Config | MessageKind::Query);
            if !is_control {
                *bytes.entry(transmit.link).or_default() += transmit.message.len();
            } else if envelope.correlator != 0 {
                self.got.push(Got {
                    link: transmit.link,
                    fe: envelope.destination,
                    correlator: envelope.correlator,
                    body,
                });
            }
        }
        let most = bytes.values().max().copied().unwrap_or_default();
        assert!(
            most <= QUEUE_BYTES_MAX + 2 * MESSAGE_LEN_MAX,
            "{most} bytes waited"
        );
    }

    /// Ends the test: all answers are late, or all links are lost.
    fn finish(mut self, by_time: bool) {
        if by_time {
            for _phase_of_a_transaction in 0..3 {
                self.wait(self.now + Span::from_secs(10));
            }
        } else {
            for link in 0..LINKS {
                self.disconnect(LinkId(link));
            }
            self.settle();
            assert_eq!(self.ce.poll_timeout(), None, "a timer of nothing");
        }
        let open = self
            .asked
            .values()
            .filter(|asked| asked.is_answered)
            .count();
        assert_eq!(open, 0, "requests never end");
        assert!(self.transactions.is_empty(), "transactions never end");
    }
}

/// The answer of an FE to a Config, which may be a COMMIT.
fn answer(config: &Config, reply: Reply) -> ConfigResponse {
    let code = match reply {
        Reply::Failed => ResultCode::MemoryError,
        _ => ResultCode::Success,
    };
    let commits = |o: &Operation| o.kind() == OperationKind::Commit;
    if !config.selects()[0].operations().iter().any(commits) {
        return execute::refuse(config, code).unwrap();
    }
    let operation = Operation::commit_response(Outcome::plain(code).unwrap()).unwrap();
    Selects::new(vec![LfbSelect::new(1, 1, vec![operation]).unwrap()]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_ce_keeps_its_promises(acts in vec(act(), 0..200), by_time in any::<bool>()) {
        let mut stage = Stage::new();
        for act in acts {
            stage.act(act);
        }
        stage.finish(by_time);
    }
}
