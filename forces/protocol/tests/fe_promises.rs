//! Random messages, links, answers and delays: an FE always keeps the guarantees of its session.
//!
//! - After `handle_timeout(now)` its next timer is later than `now`.
//! - The numbers of unanswered requests and of bytes waiting for the transport are bounded.
//! - Every accepted request is answered exactly once, if it requests an answer and its CE stays associated.
//! - The FE is associated exactly while it has a master, and the master is one of its associated CEs.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::heartbeats;
use crate::world::{BACKUP, CE, Store, fe_params, get, ms, packet, select, set};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_base::{Instant, Span};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::execute;
use weir_protocol::session::fe::{Event, Failover, Fe, Params, Standby, State, Ticket};
use weir_protocol::wire::header::{Ack, Execution, Flags, Phase, Priority};
use weir_protocol::wire::message::association_setup_response::SetupResult;
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::message::{
    AssociationSetupResponse, AssociationTeardown, Config, Heartbeat, Query, Selects,
};
use weir_protocol::wire::{
    Body, Content, Envelope, Id, LfbSelect, Message, MessageKind, Operation, OperationKind,
    Outcome, PathData, ResultCode,
};

const CES: [Id; 3] = [CE, BACKUP, Id(0x4000_0003)];
const FE: Id = Id(2);
const REQUESTS_MAX: usize = 4;
const QUEUE_BYTES_MAX: usize = 300;
/// Messages of these tests are not longer than this.
const MESSAGE_LEN_MAX: usize = 100;

#[derive(Clone, Debug)]
enum Say {
    Query,
    Set,
    Commit,
    Complete,
    Heartbeat,
    Teardown,
    Packet,
    Setup,
}

#[derive(Clone, Debug)]
enum Act {
    /// The transport has opened the link to a CE that the FE needs, or has lost the link.
    Open(usize),
    Lose(usize),
    Writable(usize, bool),
    /// The CE answers the last setup.
    Accept(usize, bool),
    /// A CE sends messages (the last field is their number), to this FE or to another FE.
    Say(usize, Say, Flags, bool, usize),
    /// The application answers one of the open requests.
    Answer(usize, Reply),
    Wait(u64),
    /// Time passes until the next timer fires.
    Due,
    /// The application sends several events.
    Notify(usize),
    Redirect,
    Release(usize),
    Ces(Vec<usize>),
    Heartbeats(Heartbeats),
    Failover(Failover),
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Done,
    Failed,
    Part,
}

fn flags() -> impl Strategy<Value = Flags> {
    let ack = prop::sample::select(vec![
        Ack::Always,
        Ack::Always,
        Ack::Never,
        Ack::OnSuccess,
        Ack::OnFailure,
    ]);
    let execution = prop::sample::select(vec![
        Execution::AllOrNone,
        Execution::AllOrNone,
        Execution::UntilFailure,
        Execution::Unset,
    ]);
    let phase = prop::sample::select(vec![Phase::Start, Phase::Middle, Phase::End, Phase::Abort]);
    (ack, execution, any::<bool>(), phase).prop_map(|(ack, execution, transaction, phase)| Flags {
        ack,
        execution,
        transaction,
        phase,
        priority: Priority::of(MessageKind::Config),
    })
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        4 => Just(Say::Query),
        8 => Just(Say::Set),
        3 => Just(Say::Commit),
        3 => Just(Say::Complete),
        2 => Just(Say::Heartbeat),
        1 => Just(Say::Teardown),
        2 => Just(Say::Packet),
        1 => Just(Say::Setup),
    ]
}

fn failover() -> impl Strategy<Value = Failover> {
    let keeps = prop::option::of(prop_oneof![Just(0_u64), 1_u64..100_000]);
    let standby = prop::sample::select(vec![Standby::None, Standby::Cold, Standby::Hot]);
    (keeps, standby).prop_map(|(keeps, standby)| Failover {
        keeps: keeps
            .or((standby == Standby::Hot).then_some(0))
            .map(Span::from_millis),
        standby,
    })
}

fn act() -> impl Strategy<Value = Act> {
    let ce = || 0..CES.len();
    let times = || prop_oneof![6 => Just(1_usize), 1 => Just(20)];
    let reply = prop::sample::select(vec![Reply::Done, Reply::Done, Reply::Failed, Reply::Part]);
    prop_oneof![
        8 => ce().prop_map(Act::Open),
        1 => ce().prop_map(Act::Lose),
        3 => (ce(), any::<bool>()).prop_map(|(ce, on)| Act::Writable(ce, on)),
        8 => (ce(), prop::bool::weighted(0.9)).prop_map(|(ce, well)| Act::Accept(ce, well)),
        20 => (ce(), say(), flags(), prop::bool::weighted(0.9), times())
            .prop_map(|(ce, say, flags, ours, times)| Act::Say(ce, say, flags, ours, times)),
        12 => (0..REQUESTS_MAX, reply).prop_map(|(at, reply)| Act::Answer(at, reply)),
        4 => (0_u64..3000).prop_map(Act::Wait),
        4 => Just(Act::Due),
        2 => times().prop_map(Act::Notify),
        2 => Just(Act::Redirect),
        1 => ce().prop_map(Act::Release),
        1 => prop::sample::subsequence(vec![0, 1, 2], 1..=3).prop_shuffle().prop_map(Act::Ces),
        1 => heartbeats().prop_map(Act::Heartbeats),
        1 => failover().prop_map(Act::Failover),
    ]
}

#[derive(Clone, Debug)]
enum Request {
    Config(Config, Flags),
    Query(Query),
    Commit,
}

/// An FE, its transport and its application.
struct Stage {
    now: Instant,
    fe: Fe,
    wanted: BTreeSet<Id>,
    open: BTreeSet<Id>,
    blocked: BTreeSet<Id>,
    /// Correlator of the last setup to each CE.
    setups: BTreeMap<Id, u64>,
    correlator: u64,
    requests: BTreeMap<Ticket, (Id, u64, Request)>,
    /// Answers that the FE has not sent yet.
    owed: BTreeSet<(Id, u64)>,
    answered: BTreeSet<(Id, u64)>,
}

impl Stage {
    fn new(failover: Failover) -> Self {
        let params = Params {
            failover,
            requests_max: REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            ..fe_params(FE.0, &CES)
        };
        let mut stage = Self {
            now: ms(0),
            fe: Fe::new(ms(0), params).unwrap(),
            wanted: BTreeSet::new(),
            open: BTreeSet::new(),
            blocked: BTreeSet::new(),
            setups: BTreeMap::new(),
            correlator: 1000,
            requests: BTreeMap::new(),
            owed: BTreeSet::new(),
            answered: BTreeSet::new(),
        };
        stage.settle(None);
        stage
    }

    fn act(&mut self, act: Act) {
        let now = self.now;
        let mut asked = None;
        match act {
            Act::Open(at) if self.wanted.remove(&CES[at]) => {
                self.open.insert(CES[at]);
                self.fe.handle_connected(now, CES[at]);
            }
            Act::Lose(at) if self.open.remove(&CES[at]) => {
                self.fe.handle_disconnected(now, CES[at]);
            }
            Act::Writable(at, on) if self.open.contains(&CES[at]) => {
                self.fe.handle_writable(CES[at], on);
                if on {
                    self.blocked.remove(&CES[at])
                } else {
                    self.blocked.insert(CES[at])
                };
            }
            Act::Accept(at, well) => self.accept(CES[at], well),
            Act::Say(at, say, flags, ours, times) => {
                for _ in 1..times {
                    let asked = self.say(CES[at], &say, flags, ours);
                    self.take_events(asked);
                }
                asked = self.say(CES[at], &say, flags, ours);
            }
            Act::Answer(at, reply) => self.answer(at, reply),
            Act::Wait(millis) => self.wait(now + Span::from_millis(millis)),
            Act::Due => self.wait(self.fe.poll_timeout().unwrap_or(now)),
            Act::Notify(times) => {
                let path = PathData::full(vec![60, 1], vec![2]).unwrap();
                let event = Selects::new(vec![select(OperationKind::Report, vec![path])]).unwrap();
                for _ in 0..times {
                    self.fe.notify(now, &event).unwrap();
                }
            }
            Act::Redirect => drop(
                self.fe
                    .redirect(now, packet(1), Priority::URGENT_REDIRECT)
                    .unwrap(),
            ),
            Act::Release(at) => self.fe.release(now, CES[at]),
            Act::Ces(order) => {
                let ces: Vec<_> = order.iter().map(|at| CES[*at]).collect();
                self.fe.set_ces(now, &ces).unwrap();
            }
            Act::Heartbeats(heartbeats) => self.fe.set_heartbeats(heartbeats).unwrap(),
            Act::Failover(failover) => self.fe.set_failover(now, failover).unwrap(),
            Act::Open(_) | Act::Lose(_) | Act::Writable(..) => {}
        }
        self.settle(asked);
    }

    fn wait(&mut self, until: Instant) {
        self.now = self.now.max(until);
        self.fe.handle_timeout(self.now);
        let next = self.fe.poll_timeout();
        assert!(
            next.is_none_or(|next| next > self.now),
            "at {:?} the next timer is due at {next:?}",
            self.now
        );
    }

    fn accept(&mut self, ce: Id, well: bool) {
        let Some(correlator) = self.setups.get(&ce) else {
            return;
        };
        let result = if well {
            SetupResult::Success
        } else {
            SetupResult::PermissionDenied
        };
        let body = Body::AssociationSetupResponse(AssociationSetupResponse { result });
        self.hear(ce, FE, *correlator, Flags::default(), body);
    }

    fn hear(&mut self, ce: Id, to: Id, correlator: u64, flags: Flags, body: Body) {
        if !self.open.contains(&ce) {
            return;
        }
        let envelope = Envelope {
            source: ce,
            destination: to,
            correlator,
            flags,
        };
        let message = Message::new(envelope, body).unwrap().to_bytes();
        self.fe.handle_message(self.now, ce, &message);
    }

    /// A CE sends a message. Returns its request if the FE must accept or refuse it, and whether the FE must answer a
    /// refusal.
    fn say(&mut self, ce: Id, say: &Say, flags: Flags, ours: bool) -> Option<(Id, u64, bool)> {
        let block =
            |operation| Selects::new(vec![LfbSelect::new(1, 1, vec![operation]).unwrap()]).unwrap();
        let body = match say {
            Say::Query => Body::Query(get(1)),
            Say::Set => Body::Config(set(1, 7)),
            Say::Commit => Body::Config(block(Operation::COMMIT)),
            Say::Complete => Body::Config(block(Operation::TRANSACTION_COMPLETE)),
            Say::Heartbeat => Body::Heartbeat(Heartbeat),
            Say::Teardown => Body::AssociationTeardown(AssociationTeardown {
                reason: TeardownReason::Normal,
            }),
            Say::Packet => Body::PacketRedirect(packet(1)),
            Say::Setup => Body::AssociationSetupResponse(AssociationSetupResponse {
                result: SetupResult::Success,
            }),
        };
        self.correlator += 1;
        let correlator = self.correlator;
        let is_taken = self.fe.is_associated(ce)
            && self.fe.wants(ce)
            && match say {
                Say::Query => true,
                Say::Set | Say::Commit => self.fe.master() == Some(ce),
                _ => false,
            };
        let to = if ours { FE } else { Id(77) };
        self.hear(ce, to, correlator, flags, body);
        let is_answered = matches!(say, Say::Query) || matches!(flags.ack, Ack::Always);
        is_taken.then_some((ce, correlator, is_answered))
    }

    fn answer(&mut self, at: usize, reply: Reply) {
        let Some(ticket) = self.requests.keys().nth(at).copied() else {
            return;
        };
        let (ce, correlator, request) = self.requests[&ticket].clone();
        let code = match reply {
            Reply::Failed => ResultCode::MemoryError,
            _ => ResultCode::Success,
        };
        let mut store = Store::default();
        let mut is_sent = true;
        match (request, reply) {
            (Request::Config(config, flags), _) => {
                let response = match reply {
                    Reply::Failed => execute::refuse(&config, code).ok(),
                    _ => execute::config(&config, flags.execution, flags.ack, &mut store).unwrap(),
                };
                is_sent = response.is_some() && flags.ack != Ack::Never;
                let response = response.map(Body::ConfigResponse);
                self.fe.respond(self.now, ticket, response).unwrap();
            }
            (Request::Query(_), Reply::Part) => {
                let content = Content::Outcome(Outcome::SUCCESS);
                let path = PathData::new(vec![1], None, content).unwrap();
                let part =
                    Selects::new(vec![select(OperationKind::GetResponse, vec![path])]).unwrap();
                let has_room = self.fe.respond_part(self.now, ticket, part, false).unwrap();
                assert!(has_room || self.blocked.contains(&ce));
                return;
            }
            (Request::Query(query), _) => {
                let response = execute::query(&query, &mut store).unwrap();
                let response = Some(Body::QueryResponse(response));
                self.fe.respond(self.now, ticket, response).unwrap();
            }
            (Request::Commit, _) => self.fe.respond_commit(self.now, ticket, code).unwrap(),
        }
        self.requests.remove(&ticket);
        if is_sent {
            self.owed.insert((ce, correlator));
        }
    }

    /// Takes all output of the FE. `asked` is the latest request.
    fn settle(&mut self, asked: Option<(Id, u64, bool)>) {
        self.take_events(asked);
        self.send();
        let late = self.owed.iter().find(|(ce, _)| !self.blocked.contains(ce));
        assert_eq!(late, None, "an answer is missing");
        let has_room = self.requests.len() < REQUESTS_MAX;
        for ce in CES
            .iter()
            .filter(|ce| self.fe.is_associated(**ce) && !self.blocked.contains(ce))
        {
            assert_eq!(self.fe.wants(*ce), has_room, "an old request takes room");
        }
        let master = self.fe.master();
        assert_eq!(master.is_some(), self.fe.state() == State::Associated);
        assert!(master.is_none_or(|master| self.fe.is_associated(master)));
    }

    fn take_events(&mut self, asked: Option<(Id, u64, bool)>) {
        let mut taken = 0;
        while let Some(event) = self.fe.poll_event() {
            match event {
                Event::Connect(ce) => assert!(self.wanted.insert(ce), "{ce} is wanted twice"),
                Event::Disconnect(ce) => drop(self.open.remove(&ce)),
                Event::Lost(ce, _) => self.forget(ce),
                Event::Config(ticket, _, flags, config) => {
                    taken += self.take(ticket, asked, Request::Config(config, flags));
                }
                Event::Query(ticket, query) => {
                    taken += self.take(ticket, asked, Request::Query(query));
                }
                Event::Commit(ticket) | Event::Abort(Some(ticket)) => {
                    taken += self.take(ticket, asked, Request::Commit);
                }
                _ => {}
            }
        }
        if let Some((ce, correlator, is_answered)) = asked
            && taken == 0
            && is_answered
            && self.fe.is_associated(ce)
        {
            self.owed.insert((ce, correlator)); // the FE refuses it
        }
    }

    fn take(&mut self, ticket: Ticket, asked: Option<(Id, u64, bool)>, request: Request) -> usize {
        let (ce, correlator, _) = asked.expect("a request that the FE must not take");
        let before = self.requests.insert(ticket, (ce, correlator, request));
        assert!(before.is_none(), "a ticket of two requests");
        assert!(
            self.requests.len() <= REQUESTS_MAX,
            "too many requests wait"
        );
        1
    }

    fn forget(&mut self, ce: Id) {
        self.requests.retain(|_, (of, ..)| *of != ce);
        self.owed.retain(|(of, _)| *of != ce);
        self.wanted.remove(&ce);
        self.blocked.remove(&ce);
        self.setups.remove(&ce);
    }

    fn send(&mut self) {
        let mut bytes: BTreeMap<Id, usize> = BTreeMap::new();
        while let Some(transmit) = self.fe.poll_transmit() {
            let ce = transmit.ce;
            assert!(transmit.message.len() <= MESSAGE_LEN_MAX);
            *bytes.entry(ce).or_default() += transmit.message.len();
            let message = Message::parse(&transmit.message).unwrap();
            let envelope = message.envelope();
            match message.body() {
                Body::AssociationSetup(_) => drop(self.setups.insert(ce, envelope.correlator)),
                Body::ConfigResponse(_) | Body::QueryResponse(_) => {
                    let is_part = envelope.flags.transaction
                        && message.body().kind() == MessageKind::QueryResponse;
                    let key = (ce, envelope.correlator);
                    if !is_part {
                        assert!(self.answered.insert(key), "answered twice");
                        self.owed.remove(&key);
                    }
                }
                _ => {}
            }
        }
        let most = bytes.values().max().copied().unwrap_or_default();
        let room = QUEUE_BYTES_MAX + (REQUESTS_MAX + 2) * MESSAGE_LEN_MAX;
        assert!(most <= room, "{most} bytes waited for the transport");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn an_fe_keeps_its_promises(failover in failover(), acts in vec(act(), 0..200)) {
        let mut stage = Stage::new(failover);
        for act in acts {
            stage.act(act);
        }
    }
}
