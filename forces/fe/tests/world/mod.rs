//! An agent, a router without packets, and a CE: without sockets and without a clock.

use std::collections::BTreeMap;

use weir_base::{Instant, Span, Tally};
use weir_fe::fib::RouteChange;
use weir_fe::{Agent, Effect, Notice, Params, RouteFailure};
use weir_lfb::Plan;
use weir_lfb::class;
use weir_library::owner;
use weir_model::{Operation as Change, Value};
use weir_protocol::schema::{Class, Kind};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{self, Ce, Event, LinkId, Manner};
use weir_protocol::session::fe::{self, Failover, Retry, Standby};
use weir_protocol::value;
use weir_protocol::wire::header::{Ack, Execution};
use weir_protocol::wire::message::{Config, EventNotification, QueryResponse, Selects};
use weir_protocol::wire::{
    Body, Content, Id, LfbSelect, Operation, OperationKind, PathData, ResultCode,
};

pub(crate) const CE: Id = Id(0x4000_0001);
pub(crate) const BACKUP: Id = Id(0x4000_0002);
pub(crate) const FE: Id = Id(2);

/// One FE and its CEs.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) agent: Agent,
    pub(crate) ces: BTreeMap<Id, Ce>,
    links: u64,
    by_link: BTreeMap<LinkId, Id>,
    pub(crate) plan: Plan,
    /// Rows of `ports` and `queues` are made from the plan; these entries replace or add members: port, member, value.
    pub(crate) gauges: Vec<(&'static str, &'static str, Value)>,
    /// Rows of other classes.
    pub(crate) rows: BTreeMap<&'static str, Value>,
    /// Whether the machine refuses the next changes.
    pub(crate) is_broken: bool,
    /// Whether new links cannot be opened.
    pub(crate) is_cut: bool,
    pub(crate) reads: Vec<&'static str>,
    pub(crate) changes: Vec<Vec<Change>>,
    pub(crate) routes: Vec<Vec<RouteChange>>,
    /// Indices of the changes of routes that the machine refuses.
    pub(crate) refused_routes: Vec<usize>,
    pub(crate) sweeps: usize,
    /// Number of turns.
    pub(crate) turns: usize,
    pub(crate) forwards: Vec<bool>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) events: Vec<(Id, Event)>,
}

pub(crate) fn plan(assignments: &[&str]) -> Plan {
    let change = |text: &&str| weir_config::assignment(text).unwrap();
    Plan::check(&assignments.iter().map(change).collect::<Vec<_>>()).unwrap()
}

pub(crate) fn session(keeps: Option<Span>, ces: &[Id]) -> fe::Params {
    fe::Params {
        id: FE,
        setup: Selects::new(vec![]).unwrap(),
        extended_results: true,
        groups: vec![],
        ces: ces.to_vec(),
        heartbeats: Heartbeats::default(),
        failover: Failover {
            keeps,
            standby: if ces.len() > 1 {
                Standby::Cold
            } else {
                Standby::None
            },
        },
        retry: Retry::default(),
        requests_max: 64,
        queue_bytes_max: 100_000,
    }
}

fn ce_params(id: Id) -> ce::Params {
    ce::Params {
        id,
        assigns: None,
        heartbeats: Heartbeats::default(),
        setup_max: Span::from_secs(5),
        links_max: 8,
        window: 16,
        requests_max: 500,
        queue_bytes_max: 1_000_000,
    }
}

impl World {
    /// An FE with the ports lan and wan, associated with its CE.
    pub(crate) fn new() -> Self {
        Self::of(&[])
    }

    /// An FE like that of `new`, with more settings.
    pub(crate) fn of(settings: &[&str]) -> Self {
        let ports = ["port.lan.interface=eth0", "port.wan.rate=10 Mbit"];
        let session = session(Some(Span::from_secs(60)), &[CE]);
        let mut world = Self::with_plan(session, plan(&[&ports, settings].concat()));
        world.run(Span::from_millis(10));
        assert!(world.agent.session().is_associated(CE));
        world.notices.clear();
        world
    }

    pub(crate) fn with(session: fe::Params) -> Self {
        let ports = ["port.lan.interface=eth0", "port.wan.rate=10 Mbit"];
        Self::with_plan(session, plan(&ports))
    }

    fn with_plan(session: fe::Params, plan: Plan) -> Self {
        let ces = session
            .ces
            .iter()
            .map(|id| (*id, Ce::new(ce_params(*id)).unwrap()));
        let ces = ces.collect();
        let params = Params {
            session,
            name: "edge".to_owned(),
            model: "weir 0".to_owned(),
            plan: plan.clone(),
        };
        Self {
            now: Instant::ZERO,
            agent: Agent::new(Instant::ZERO, params).unwrap(),
            ces,
            links: 0,
            by_link: BTreeMap::new(),
            plan,
            gauges: Vec::new(),
            rows: BTreeMap::new(),
            is_broken: false,
            is_cut: false,
            reads: Vec::new(),
            changes: Vec::new(),
            routes: Vec::new(),
            refused_routes: Vec::new(),
            sweeps: 0,
            turns: 0,
            forwards: Vec::new(),
            notices: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(crate) fn ce(&mut self) -> &mut Ce {
        self.ces.get_mut(&CE).unwrap()
    }

    /// Runs for this time, and handles each timer when it is due.
    pub(crate) fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            self.settle();
            let timers = self.ces.values().filter_map(Ce::poll_timeout);
            let due = timers.chain(self.agent.poll_timeout()).min();
            match due.filter(|due| *due <= until) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
            self.agent.handle_timeout(self.now);
            self.ces
                .values_mut()
                .for_each(|ce| ce.handle_timeout(self.now));
        }
        self.now = until;
    }

    /// Delivers messages until there are none left.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.step() {
                return;
            }
        }
        panic!("they never stop");
    }

    /// Delivers the current messages; returns whether there were none.
    pub(crate) fn step(&mut self) -> bool {
        let mut quiet = true;
        {
            while let Some(message) = self.agent.poll_transmit(self.now) {
                quiet = false;
                let link = self.link_of(message.ce);
                if let (Some(link), Some(ce)) = (link, self.ces.get_mut(&message.ce)) {
                    ce.handle_message(self.now, link, &message.message);
                }
            }
            while let Some(effect) = self.agent.poll_effect() {
                quiet = false;
                self.carry_out(effect);
            }
            let ids: Vec<Id> = self.ces.keys().copied().collect();
            for id in ids {
                let ce = self.ces.get_mut(&id).unwrap();
                while let Some(transmit) = ce.poll_transmit(self.now) {
                    quiet = false;
                    if self.by_link.contains_key(&transmit.link) {
                        self.agent.handle_message(self.now, id, &transmit.message);
                    }
                }
                while let Some(event) = ce.poll_event() {
                    quiet = false;
                    if let Event::Close(link) = event {
                        self.by_link.remove(&link);
                        self.agent.handle_disconnected(self.now, id);
                    }
                    self.events.push((id, event));
                }
            }
        }
        quiet
    }

    fn link_of(&self, ce: Id) -> Option<LinkId> {
        let mut links = self.by_link.iter();
        links.find(|(_, of)| **of == ce).map(|(link, _)| *link)
    }

    /// The link to a CE breaks.
    pub(crate) fn cut(&mut self, ce: Id) {
        if let Some(link) = self.link_of(ce) {
            self.by_link.remove(&link);
            let now = self.now;
            self.ces
                .get_mut(&ce)
                .unwrap()
                .handle_disconnected(now, link);
            self.agent.handle_disconnected(now, ce);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Connect(id) if self.is_cut => self.agent.handle_disconnected(now, id),
            Effect::Connect(id) => {
                self.links += 1;
                let link = LinkId(self.links);
                self.by_link.insert(link, id);
                self.ces
                    .get_mut(&id)
                    .unwrap()
                    .handle_connected(now, link, Some(FE));
                self.agent.handle_connected(now, id);
            }
            Effect::Disconnect(id) => {
                if let Some(link) = self.link_of(id) {
                    self.by_link.remove(&link);
                    self.ces
                        .get_mut(&id)
                        .unwrap()
                        .handle_disconnected(now, link);
                }
            }
            Effect::Read(ticket, name) => {
                self.reads.push(name);
                let rows = self.table(name);
                self.agent.handle_read(now, ticket, Ok(rows));
            }
            Effect::Check(ticket, operations) => {
                let answer = self.plan.after(&operations).map(|_| Vec::new());
                self.agent.handle_changed(now, ticket, answer);
            }
            Effect::Change(ticket, operations) => {
                let answer = if self.is_broken {
                    Err(vec![weir_model::Fault::of_machine("the machine is broken")])
                } else {
                    self.plan.after(&operations).map(|plan| self.plan = plan)
                };
                self.changes.push(operations);
                self.agent.handle_plan(self.plan.clone());
                self.agent
                    .handle_changed(now, ticket, answer.map(|()| Vec::new()));
            }
            Effect::Routes(ticket, changes, _) => {
                let refused = |place: &usize| *place < changes.len();
                let failures = self.refused_routes.iter().filter(|p| refused(p));
                let failures: Vec<_> = failures
                    .map(|place| RouteFailure {
                        place: *place,
                        why: "the gateway cannot be reached".to_owned(),
                    })
                    .collect();
                self.routes.push(changes);
                self.agent.handle_routed(now, ticket, &failures);
            }
            Effect::Sweep => self.sweeps += 1,
            Effect::Forward(on) => self.forwards.push(on),
            Effect::Inject(_) => {}
            Effect::Turn => {
                self.turns += 1;
                self.agent.handle_turn(now);
            }
            Effect::Notice(notice) => self.notices.push(notice),
        }
    }

    fn table(&self, name: &'static str) -> Value {
        let class = class::Block::find(name).unwrap().class;
        if let Some(rows) = self.rows.get(name) {
            return rows.clone();
        }
        let Some(kind) = owner(class.id) else {
            return match class.key {
                [] => class.example(),
                _ => Value::List(vec![class.example()]),
            };
        };
        let row = |of: &str| {
            let Value::Struct(mut members) = class.example() else {
                panic!("a row is a structure");
            };
            let port = self.plan.ports.iter().find(|port| port.name == of);
            for (name, value) in &mut members {
                match (&**name, port) {
                    (name, _) if class.key == [name] => *value = of.into(),
                    ("interface", Some(port)) => *value = port.interface.as_str().into(),
                    ("discipline", Some(port)) => *value = port.discipline.kind().into(),
                    _ => {}
                }
                let gauges = self
                    .gauges
                    .iter()
                    .filter(|(at, member, _)| *at == of && member == name);
                for (_, _, gauge) in gauges {
                    *value = gauge.clone();
                }
            }
            Value::Struct(members)
        };
        Value::List(self.plan.names(kind).into_iter().map(row).collect())
    }
}

/// The schema of our class with this name.
pub(crate) fn schema(name: &str) -> Class {
    let class = class::all().find(|class| class.name == name).unwrap();
    Class::of(&class)
}

/// A path of our class, by names.
pub(crate) fn path(name: &str, words: &str) -> (Vec<u32>, Kind) {
    let class = schema(name);
    let words: Vec<&str> = words.split('.').filter(|word| !word.is_empty()).collect();
    let ids = class.way(&words).unwrap().ids;
    let kind = class.component(&ids).unwrap().kind.into_owned();
    (ids, kind)
}

pub(crate) fn on(class: u32, instance: u32, kind: OperationKind, path: PathData) -> LfbSelect {
    LfbSelect::new(
        class,
        instance,
        vec![Operation::on(kind, vec![path]).unwrap()],
    )
    .unwrap()
}

/// A SET of a component of our class, by names.
pub(crate) fn set(name: &str, instance: u32, words: &str, text: &str) -> LfbSelect {
    let (ids, kind) = path(name, words);
    let content = value::encode(&kind, &value::parse(&kind, text).unwrap()).unwrap();
    let path = PathData::new(ids, None, content).unwrap();
    on(schema(name).id, instance, OperationKind::Set, path)
}

/// A SET of octets at a path of IDs.
pub(crate) fn write(class: u32, instance: u32, ids: &[u32], octets: &[u8]) -> LfbSelect {
    let path = PathData::full(ids.to_vec(), octets.to_vec()).unwrap();
    on(class, instance, OperationKind::Set, path)
}

pub(crate) fn delete(class: u32, instance: u32, ids: &[u32]) -> LfbSelect {
    on(
        class,
        instance,
        OperationKind::Delete,
        PathData::bare(ids.to_vec()).unwrap(),
    )
}

/// The row of LFBSelectors for an instance of our class.
pub(crate) fn selector(name: &str, instance: u32) -> Vec<u8> {
    [schema(name).id.to_be_bytes(), instance.to_be_bytes()].concat()
}

impl World {
    pub(crate) fn config_as(
        &mut self,
        execution: Execution,
        selects: Vec<LfbSelect>,
    ) -> Vec<(ResultCode, String)> {
        let config: Config = Selects::new(selects).unwrap();
        let manner = Manner {
            execution,
            ack: Ack::Always,
            deadline: self.now + Span::from_secs(10),
        };
        let now = self.now;
        self.ce().configure(now, FE, config, manner).unwrap();
        self.settle();
        let Some(Body::ConfigResponse(response)) = self.response() else {
            panic!("no answer: {:?}", self.events);
        };
        outcomes(response.selects())
    }

    /// Sends an all-or-none Config; returns the result of each path, with its cause.
    pub(crate) fn config(&mut self, selects: Vec<LfbSelect>) -> Vec<(ResultCode, String)> {
        self.config_as(Execution::AllOrNone, selects)
    }

    /// All answers received; the last part of a long answer comes last.
    pub(crate) fn responses(&mut self) -> Vec<(Body, bool)> {
        let responses = self
            .events
            .extract_if(.., |(_, event)| matches!(event, Event::Response { .. }));
        let body = |(_, event)| match event {
            Event::Response { body, is_last, .. } => (body, is_last),
            _ => unreachable!("filtered"),
        };
        responses.map(body).collect()
    }

    pub(crate) fn response(&mut self) -> Option<Body> {
        let mut responses = self.responses();
        assert!(responses.len() <= 1, "{responses:?}");
        responses.pop().map(|(body, _)| body)
    }

    pub(crate) fn ask(&mut self, kind: OperationKind, class: u32, instance: u32, path: PathData) {
        let query = Selects::new(vec![on(class, instance, kind, path)]).unwrap();
        let (now, deadline) = (self.now, self.now + Span::from_secs(10));
        self.ce().query(now, FE, query, deadline).unwrap();
        self.settle();
    }

    /// A GET of one path: the path of the answer and its content.
    pub(crate) fn get(&mut self, class: u32, instance: u32, path: PathData) -> PathData {
        self.ask(OperationKind::Get, class, instance, path);
        let Some(Body::QueryResponse(response)) = self.response() else {
            panic!("no answer: {:?}", self.events);
        };
        only(&response)
    }

    /// The value of a component of our class, by names.
    pub(crate) fn value(&mut self, name: &str, instance: u32, words: &str) -> Value {
        let (ids, kind) = path(name, words);
        let answer = self.get(schema(name).id, instance, PathData::bare(ids).unwrap());
        value::decode(&kind, answer.content()).unwrap()
    }

    /// The octets of a component of any class.
    pub(crate) fn octets(&mut self, class: u32, instance: u32, ids: &[u32]) -> Vec<u8> {
        let answer = self.get(class, instance, PathData::bare(ids.to_vec()).unwrap());
        match answer.content() {
            Content::Full(octets) => octets.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// The result code of a GET that fails.
    pub(crate) fn code(&mut self, class: u32, instance: u32, ids: &[u32]) -> ResultCode {
        let answer = self.get(class, instance, PathData::bare(ids.to_vec()).unwrap());
        match answer.content() {
            Content::Outcome(outcome) => outcome.code(),
            other => panic!("{other:?}"),
        }
    }

    /// The notifications received.
    pub(crate) fn notified(&mut self) -> Vec<EventNotification> {
        let notified = self
            .events
            .extract_if(.., |(_, event)| matches!(event, Event::Notified(..)));
        let report = |(_, event)| match event {
            Event::Notified(_, report) => report,
            _ => unreachable!("filtered"),
        };
        notified.map(report).collect()
    }
}

/// The only path of an answer.
pub(crate) fn only(response: &QueryResponse) -> PathData {
    let [select] = response.selects() else {
        panic!("{response:?}");
    };
    select.operations()[0].paths()[0].clone()
}

/// The results of a response, in order.
pub(crate) fn outcomes(selects: &[LfbSelect]) -> Vec<(ResultCode, String)> {
    fn walk(path: &PathData, to: &mut Vec<(ResultCode, String)>) {
        match path.content() {
            Content::Outcome(outcome) => {
                to.push((outcome.code(), outcome.cause().unwrap_or_default()));
            }
            Content::Nested(paths) => paths.iter().for_each(|path| walk(path, to)),
            other => panic!("{other:?}"),
        }
    }
    let mut outcomes = Vec::new();
    let operations = selects.iter().flat_map(LfbSelect::operations);
    operations
        .flat_map(Operation::paths)
        .for_each(|path| walk(path, &mut outcomes));
    outcomes
}

pub(crate) fn tally(packets: u64, bytes: u64) -> Value {
    Tally { packets, bytes }.into()
}
