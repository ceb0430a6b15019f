//! A CE and this repository's FE, without I/O: each understands the other's messages.

use std::collections::BTreeMap;
use std::net::IpAddr;

use etherparse::PacketBuilder;
use weir_base::setting::Scalar;
use weir_base::{Instant, Span};
use weir_ce::Control;
use weir_ce::contract::{
    Answer, CeSubscription, FeConfig, Filter, LogEvent, Output, Params, Refusal, Request, Ticket,
};
use weir_ce::desired::{Desired, DesiredValue};
use weir_ce::exception::remote::RemotePlan;
use weir_ce::exception::remotes::{Effect as Act, Remotes, TapPlan};
use weir_ce::route::{Hop, LearntRoute, Shift};
use weir_fe::fib::{NextHop, Prefix, Route, RouteChange};
use weir_fe::{Agent, Effect, RouteFailure};
use weir_lfb::class::Block;
use weir_lfb::{Plan, class};
use weir_library::owner;
use weir_model::{
    Change, ComponentPath, Discard, ElementPath, Operation, RouteRequest, RouteVerb, RouteWish,
    ServiceRequest, Target, Value,
};
use weir_path::exception::{Cause, Entry, Exception, ExceptionClass, Injection};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{self, LinkId};
use weir_protocol::session::fe::{self, Failover, Retry, Standby};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::Selects;

const CE: Id = Id(0x4000_0001);
const FE: Id = Id(2);

struct World {
    now: Instant,
    control: Control,
    agent: Agent,
    plan: Plan,
    link: Option<LinkId>,
    links: u64,
    answers: BTreeMap<u64, Result<Answer, Refusal>>,
    tickets: u64,
    journal: Vec<LogEvent>,
    remotes: Remotes,
    acts: Vec<Act>,
    injected: Vec<Injection>,
    /// Routes of the FE's machine, which refuses routes via `unreachable`.
    routes: BTreeMap<Prefix, Route>,
    unreachable: Option<IpAddr>,
    /// Whether links cannot be opened.
    is_cut: bool,
    /// Number of routes that the machine lacks, and number of routes that it has lost.
    kernel: [u64; 2],
    /// Octets of messages from the CE.
    sent: usize,
}

fn path(text: &str) -> ComponentPath {
    text.parse().unwrap()
}

fn change(at: &str, value: &str) -> Change {
    Change::new(path(at), Scalar::Text(value.to_owned()))
}

fn set(at: &str, value: &str) -> Operation {
    Operation::Set(change(at, value))
}

fn plan() -> Plan {
    let changes = [
        change("port.lan.interface", "eth0"),
        change("port.wan.rate", "10 Mbit"),
        change("port.wan.discipline.kind", "red"),
    ];
    Plan::check(&changes).unwrap()
}

/// The CE acts for the port `lan`.
fn remotes() -> Remotes {
    let plan = RemotePlan {
        name: "lan".to_owned(),
        fe: "edge1".to_owned(),
        port: "lan".to_owned(),
        addresses: vec!["192.0.2.7/24".parse().unwrap()],
        interface: Some("edge1.lan".to_owned()),
        namespace: None,
    };
    Remotes::new(&[plan], [(FE, "edge1")], (1, 2))
}

fn agent(now: Instant, plan: &Plan) -> Agent {
    let session = fe::Params {
        id: FE,
        setup: Selects::new(vec![]).unwrap(),
        extended_results: true,
        groups: vec![],
        ces: vec![CE],
        heartbeats: Heartbeats::default(),
        failover: Failover {
            keeps: Some(Span::from_secs(300)),
            standby: Standby::None,
        },
        retry: Retry::default(),
        requests_max: 64,
        queue_bytes_max: 1 << 20,
    };
    let params = weir_fe::Params {
        session,
        name: "edge".to_owned(),
        model: "weir 0".to_owned(),
        plan: plan.clone(),
    };
    Agent::new(now, params).unwrap()
}

impl World {
    fn new(settings: &[(&str, &str)]) -> Self {
        Self::with(settings, &[])
    }

    /// Like [`Self::new`], with components of any class that operators have set.
    fn with(settings: &[(&str, &str)], components: &[(&str, &str)]) -> Self {
        let now = Instant::from_nanos(1);
        let mut desired = Desired::default();
        for (at, value) in settings {
            let wish = DesiredValue::Is(Scalar::Text((*value).to_owned()));
            desired.put(&path(at), Some(&wish));
        }
        let session = ce::Params {
            id: CE,
            assigns: None,
            heartbeats: Heartbeats::default(),
            setup_max: Span::from_secs(5),
            links_max: 8,
            window: 16,
            requests_max: 500,
            queue_bytes_max: 1 << 20,
        };
        let params = Params {
            session,
            answer_max: Span::from_secs(5),
        };
        let member = FeConfig {
            name: "edge1".to_owned(),
            id: FE,
            is_pinned: true,
            desired,
            kept: BTreeMap::new(),
            components: components
                .iter()
                .map(|(at, text)| (path(at), (*text).to_owned()))
                .collect(),
            routes: Default::default(),
        };
        let mut world = Self {
            now,
            control: Control::new(params, weir_library::registry(), vec![member]).unwrap(),
            agent: agent(now, &plan()),
            plan: plan(),
            link: None,
            kernel: [0; 2],
            sent: 0,
            links: 0,
            answers: BTreeMap::new(),
            tickets: 0,
            journal: Vec::new(),
            remotes: remotes(),
            acts: Vec::new(),
            injected: Vec::new(),
            routes: BTreeMap::new(),
            unreachable: None,
            is_cut: false,
        };
        world.run(Span::from_millis(100));
        world
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            while self.step() {}
            let timeouts = [self.agent.poll_timeout(), self.control.poll_timeout()];
            match timeouts.into_iter().flatten().min().filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.control.handle_timeout(self.now);
            self.agent.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn step(&mut self) -> bool {
        let now = self.now;
        let mut moved = false;
        self.remotes.settle(now, &mut self.control);
        while let Some(act) = self.remotes.poll_effect() {
            self.acts.push(act);
        }
        while let Some(output) = self.control.poll_output() {
            moved = true;
            let output = self.remotes.handle_output(now, &mut self.control, output);
            let Some(output) = output else { continue };
            match output {
                Output::Answer(ticket, answer) => {
                    self.answers.insert(ticket.0, answer);
                }
                Output::Store(ticket, _) => self.control.handle_stored(now, ticket, Ok(())),
                Output::LogEvent(journal) => self.journal.push(journal),
                Output::Close(_) => self.agent.handle_disconnected(now, CE),
                Output::Noticed(_) | Output::Redirected(..) => {}
            }
        }
        while let Some(transmit) = self.control.poll_transmit(now) {
            moved = true;
            self.sent += transmit.message.len();
            if Some(transmit.link) == self.link {
                self.agent.handle_message(now, CE, &transmit.message);
            }
        }
        while let Some(effect) = self.agent.poll_effect() {
            moved = true;
            self.effect(effect);
        }
        while let Some(transmit) = self.agent.poll_transmit(now) {
            moved = true;
            if let Some(link) = self.link {
                self.control.handle_message(now, link, &transmit.message);
            }
        }
        moved
    }

    fn effect(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Connect(_) if self.is_cut => self.agent.handle_disconnected(now, CE),
            Effect::Connect(_) => {
                self.links += 1;
                let link = LinkId(self.links);
                self.link = Some(link);
                self.control.handle_connected(now, link, Some(FE), "test");
                self.agent.handle_connected(now, CE);
            }
            Effect::Disconnect(_) => {
                if let Some(link) = self.link.take() {
                    self.control.handle_disconnected(now, link);
                }
            }
            Effect::Read(ticket, name) => {
                let rows = self.rows(name);
                self.agent.handle_read(now, ticket, Ok(rows));
            }
            Effect::Check(ticket, operations) => {
                let answer = self.plan.after(&operations).map(|_| Vec::new());
                self.agent.handle_changed(now, ticket, answer);
            }
            Effect::Change(ticket, operations) => {
                let answer = self.plan.after(&operations).map(|plan| self.plan = plan);
                self.agent.handle_plan(self.plan.clone());
                let answer = answer.map(|()| Vec::new());
                self.agent.handle_changed(now, ticket, answer);
            }
            Effect::Routes(ticket, changes, _) => {
                let mut failures = Vec::new();
                for (place, change) in changes.iter().enumerate() {
                    match change {
                        RouteChange::Put(Route { target, .. }) | RouteChange::Move(_, target)
                            if target.hops().any(|(hop, _)| {
                                hop.gateway.is_some() && hop.gateway == self.unreachable
                            }) =>
                        {
                            let why = "Network is unreachable".to_owned();
                            failures.push(RouteFailure { place, why });
                        }
                        RouteChange::Put(route) => {
                            drop(self.routes.insert(route.prefix, route.clone()))
                        }
                        RouteChange::Remove(prefix) => drop(self.routes.remove(prefix)),
                        RouteChange::Move(row, target) => {
                            let routes = self.routes.values_mut();
                            for route in routes.filter(|route| route.row == *row) {
                                route.target.clone_from(target);
                            }
                        }
                    }
                }
                self.agent.handle_routed(now, ticket, &failures);
            }
            Effect::Turn => self.agent.handle_turn(now),
            Effect::Inject(packets) => self.injected.extend(packets),
            _ => {}
        }
    }

    fn ce_routes(&self, example: Value) -> Value {
        let Value::Struct(mut members) = example else {
            panic!("it is a structure");
        };
        let [missing, lost] = self.kernel;
        for (name, value) in &mut members {
            match &**name {
                "missing" => *value = missing.into(),
                "lost" => *value = lost.into(),
                "first" if missing == 0 => *value = "".into(),
                _ => {}
            }
        }
        Value::Struct(members)
    }

    fn rows(&self, name: &str) -> Value {
        let class = Block::find(name).unwrap().class;
        let Some(kind) = owner(class.id) else {
            if name == "ce_routes" {
                return self.ce_routes(class.example());
            }
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
            }
            Value::Struct(members)
        };
        Value::List(self.plan.names(kind).into_iter().map(row).collect())
    }

    fn ask(&mut self, request: Request) -> Result<Answer, Refusal> {
        self.tickets += 1;
        let ticket = self.tickets;
        self.control.request(self.now, Ticket(ticket), request);
        self.run(Span::from_millis(100));
        self.answers.remove(&ticket).expect("no answer")
    }

    fn change(&mut self, operations: Vec<Operation>) -> Result<Answer, Refusal> {
        self.ask(Request::Change(vec![("edge1".to_owned(), operations)]))
    }

    /// Changes routes like `10.0.0.0/8 192.0.2.1 wan 0`: prefix, next router (or `-`), port, metric.
    fn route(&mut self, verb: RouteVerb, routes: &[&str]) -> Result<Answer, Refusal> {
        let wish = |text: &&str| {
            let words: Vec<&str> = text.split(' ').collect();
            RouteWish {
                prefix: words[0].to_owned(),
                via: Some(words[1]).filter(|via| *via != "-").map(str::to_owned),
                port: Some(words[2].to_owned()),
                metric: words[3].parse().unwrap(),
                line: None,
            }
        };
        let request = RouteRequest {
            fes: vec!["edge1".to_owned()],
            routes: routes.iter().map(wish).collect(),
        };
        let service = ServiceRequest::Route(verb, vec![request]);
        self.ask(weir_ce::service::operations(&service).unwrap())
    }

    /// The routes listed by the CE: prefix and state.
    fn listed(&mut self) -> Vec<String> {
        let Ok(Answer::Routes(routes)) = self.ask(Request::Routes(None)) else {
            panic!("no routes");
        };
        let shown = routes.iter();
        let shown = shown.map(|r| format!("{} {} {}", r.prefix, r.metric, r.state));
        shown.collect()
    }

    /// The routes of the machine: prefix and gateway, with the weight if there are several.
    fn machine(&self) -> Vec<String> {
        let shown = self.routes.values().map(|route| {
            let (address, len) = route.prefix;
            let gateway = |hop: &NextHop| hop.gateway.map(|gateway| gateway.to_string());
            let target = match &route.target {
                Target::Hop(hop) => gateway(hop).unwrap_or_default(),
                Target::Discard(discard) => discard.word().to_owned(),
                several => {
                    let one = |(hop, n)| format!("{}*{n}", gateway(hop).unwrap_or_default());
                    several.hops().map(one).collect::<Vec<_>>().join(",")
                }
            };
            format!("{address}/{len} {target}")
        });
        shown.collect()
    }

    /// The rows of a table at the FE.
    fn table(&mut self, at: &str) -> usize {
        match self.get(at) {
            Ok(Answer::Value(Value::Struct(rows))) => rows.len(),
            Ok(Answer::Value(Value::List(rows))) => rows.len(),
            other => panic!("{other:?}"),
        }
    }

    /// The link fails. With `forget` the FE restarts with only its own configuration.
    fn lose(&mut self, forget: bool) {
        if let Some(link) = self.link.take() {
            self.control.handle_disconnected(self.now, link);
            self.agent.handle_disconnected(self.now, CE);
        }
        self.is_cut = true;
        if forget {
            self.agent = agent(self.now, &self.plan);
        }
    }

    /// Lets the link be opened again, and waits.
    fn mend(&mut self) {
        self.is_cut = false;
        self.run(Span::from_secs(60));
    }

    fn get(&mut self, at: &str) -> Result<Answer, Refusal> {
        self.ask(Request::Get(of_edge1(at)))
    }

    fn state(&self) -> String {
        let rows = self.control.fes();
        let row = &rows.rows()[0];
        let why = row.text("why").unwrap_or_default();
        format!("{} {why}", row.text("state").unwrap())
            .trim()
            .to_owned()
    }

    fn shown(&self, component: &str) -> String {
        self.plan
            .shown()
            .get(component)
            .cloned()
            .unwrap_or_default()
    }
}

fn of_edge1(at: &str) -> ElementPath {
    format!("edge1:{at}").parse().unwrap()
}

#[test]
fn the_desired_configuration_is_restored() {
    let world = World::new(&[
        ("port.wan.rate", "5 Mbit"),
        ("port.wan.discipline.kind", "lru_fq"),
        ("port.wan.discipline.cache", "77"),
        ("port.dmz.interface", "eth7"),
        ("port.dmz.discipline.kind", "fifo"),
        ("age_max", "2 s"),
        ("redirect.addresses", "192.0.2.7 2001:db8::7"),
        ("redirect.neighbours", "true"),
        ("redirect.bc", "15000"),
    ]);
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    let wanted = [
        ("port.wan.rate", "5 Mbit"),
        ("port.wan.discipline.kind", "lru_fq"),
        ("port.wan.discipline.cache", "77"),
        ("port.dmz.interface", "eth7"),
        ("port.dmz.discipline.kind", "fifo"),
        ("port.lan.interface", "eth0"),
        ("age_max", "2 s"),
        ("redirect.addresses", "192.0.2.7 2001:db8::7"),
        ("redirect.neighbours", "true"),
        ("redirect.bc", "15000"),
    ];
    for (component, value) in wanted {
        assert_eq!(world.shown(component), value, "{component}");
    }
}

#[test]
fn operators_change_ports_and_disciplines() {
    let mut world = World::new(&[]);
    world
        .change(vec![set("redirect.hop_limit", "true")])
        .unwrap();
    assert_eq!(world.shown("redirect.hop_limit"), "true");
    let hop_limit = world.get("redirect.hop_limit");
    assert_eq!(hop_limit, Ok(Answer::Value(Value::Flag(true))));
    world.change(vec![set("port.wan.rate", "7 Mbit")]).unwrap();
    assert_eq!(world.shown("port.wan.rate"), "7 Mbit");
    let kind = vec![
        set("port.wan.discipline.kind", "fifo"),
        set("port.wan.discipline.limit", "33"),
    ];
    world.change(kind).unwrap();
    assert_eq!(world.shown("port.wan.discipline.limit"), "33");
    world
        .change(vec![set("port.wan.discipline.limit", "34")])
        .unwrap();
    assert_eq!(world.shown("port.wan.discipline.limit"), "34");
    let deleted = world.change(vec![Operation::Delete(path("port.lan"))]);
    assert!(deleted.is_ok(), "{deleted:?}");
    assert_eq!(world.shown("port.lan.interface"), "");
    world
        .change(vec![set("port.lan.interface", "eth9")])
        .unwrap();
    assert_eq!(world.shown("port.lan.interface"), "eth9");
    let both = [
        Operation::Delete(path("port.lan")),
        Operation::Delete(path("port.wan")),
    ];
    let Err(Refusal::Refused(why)) = world.change(both.to_vec()) else {
        panic!()
    };
    assert!(why[0].contains("no port is configured"), "{why:?}");
    assert_eq!(world.state(), "in sync");
}

/// A UDP frame that arrives at a port with a TTL of 1.
fn frame() -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 9], [198, 51, 100, 1], 1)
        .udp(5000, 53)
        .write(&mut frame, &[7; 100])
        .unwrap();
    frame
}

#[test]
fn the_ce_acts_for_a_port() {
    let mut world = World::new(&[]);
    let tap = TapPlan {
        interface: "edge1.lan".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        carrier: true,
        addresses: vec!["192.0.2.7/24".parse().unwrap()],
        namespace: None,
    };
    world.acts.dedup(); // the CE reads the ports again after the first report of a carrier
    assert_eq!(world.acts, [Act::Tap(tap)]);
    world.acts.clear();
    let exception = |port: &str, cause| Exception {
        cause,
        class: ExceptionClass::Local,
        port: port.to_owned(),
        at: Instant::ZERO,
        frame: frame(),
    };
    let all = [
        exception("lan", Cause::Local),
        exception("lan", Cause::HopLimit),
        exception("wan", Cause::HopLimit), // `wan` has no address, so that of `lan` is used
        exception("wan", Cause::Local),    // the CE does not act for it
    ];
    world.agent.redirect(world.now, all);
    world.run(Span::from_millis(1));
    assert_eq!(world.acts, [Act::Frame("edge1.lan".to_owned(), frame())]);
    let entries: Vec<_> = world
        .injected
        .drain(..)
        .map(|packet| packet.entry)
        .collect();
    assert_eq!(entries, [Entry::Routes, Entry::Routes]);
    let stats = world.remotes.stats();
    assert_eq!((stats.kernel, stats.icmp, stats.not_for_us), (1, 2, 1));

    let now = world.now;
    for interface in ["edge1.lan", "edge1.wan"] {
        let control = &mut world.control;
        world.remotes.handle_frame(now, control, interface, frame());
    }
    world.run(Span::from_millis(1));
    let entry = Entry::Frame {
        port: "lan".to_owned(),
    };
    let bytes = frame();
    assert_eq!(world.injected, [Injection { entry, bytes }]);
}

#[test]
fn tables_look_as_at_the_fe_itself() {
    let mut world = World::new(&[]);
    for class in class::classes() {
        let request = Request::Read {
            fe: "edge1".to_owned(),
            class: class.name.to_owned(),
        };
        let Ok(Answer::Value(value)) = world.ask(request) else {
            panic!("{}", class.name)
        };
        let expected = world.rows(class.name);
        // The FE's rows also contain running settings, which this test's rows lack.
        let rows = |value: &Value| value.rows().len();
        assert_eq!(rows(&value), rows(&expected), "{}", class.name);
        for (row, expected) in value.rows().iter().zip(expected.rows()) {
            for component in class.components {
                let (row, expected) = (row.get(component.name), expected.get(component.name));
                assert!(component.admits(row.unwrap()), "{} {row:?}", component.name);
                if !class.parameters.iter().any(|p| p.id == component.id) {
                    assert_eq!(row, expected, "{} {}", class.name, component.name);
                }
            }
        }
    }
}

#[test]
fn any_component_is_got_set_and_watched() {
    let mut world = World::new(&[]);
    let value = |value: Value| Ok(Answer::Value(value));
    assert_eq!(world.get("port.wan.rate"), value(Value::from("10 Mbit")));
    assert_eq!(world.get("FEObject.1.FEName"), value("edge".into()));
    assert_eq!(world.get("2.1.1"), value(Value::Whole(1)));
    let set =
        |at: &str, text: &str| Request::Change(vec![("edge1".to_owned(), vec![set(at, text)])]);
    world.ask(set("FEObject.1.FEName", "west")).unwrap();
    assert_eq!(world.get("FEObject.1.FEName"), value("west".into()));
    world.ask(set("FEPO.1.CEHDI", "20000")).unwrap();
    world.ask(set("queues.wan.discipline", "fifo")).unwrap();
    assert_eq!(world.shown("port.wan.discipline.kind"), "fifo");
    let Err(Refusal::Wrong(why)) = world.ask(set("FEObject.1.FEVendor", "me")) else {
        panic!()
    };
    assert!(why.contains("can be read, but not set"), "{why}");
    let watch = Request::Watch(CeSubscription {
        path: of_edge1("port.wan.carrier_lost"),
        filter: Filter::default(),
    });
    assert!(matches!(world.ask(watch), Ok(Answer::Watching(_))));
    let whole = world.get("port.wan");
    assert!(
        matches!(&whole, Ok(Answer::Value(v)) if v.text("port") == Some("wan")),
        "{whole:?}"
    );
    let missing = world.get("routes.1.rows.\"prefix=192.0.2.0/7\"");
    assert!(matches!(missing, Err(Refusal::NotFound(_))), "{missing:?}");
}

#[test]
fn heartbeats_follow_what_an_operator_sets() {
    let mut world = World::new(&[]);
    world.change(vec![set("FEPO.1.CEHDI", "1000")]).unwrap();
    world.run(Span::from_secs(20));
    let is_lost = |journal: &LogEvent| matches!(journal, LogEvent::Lost(..));
    assert!(!world.journal.iter().any(is_lost), "{:?}", world.journal);
    assert_eq!(world.state(), "in sync");
}

#[test]
fn a_port_keeps_its_name_while_blocks_are_read_again() {
    let mut world = World::new(&[]);
    world.tickets += 1;
    let ticket = world.tickets;
    let kind = set("port.wan.discipline.kind", "fifo");
    let change = Request::Change(vec![("edge1".to_owned(), vec![kind])]);
    world.control.request(world.now, Ticket(ticket), change);
    while !world.answers.contains_key(&ticket) {
        assert!(world.step());
    }
    world.get("port.wan.rate").unwrap();
}

#[test]
fn exceptions_belong_to_the_desired_configuration() {
    let mut world = World::new(&[("redirect.no_route", "true"), ("redirect.ts", "1 s")]);
    assert_eq!(world.state(), "in sync");
    let shown = |world: &World| {
        ["no_route", "hop_limit", "ts"].map(|name| world.shown(&format!("redirect.{name}")))
    };
    assert_eq!(shown(&world), ["true", "false", "1 s"]);
    let changes = vec![
        set("redirect.hop_limit", "true"),
        Operation::Delete(path("redirect.no_route")),
    ];
    world.change(changes).unwrap();
    assert_eq!(shown(&world), ["false", "true", "1 s"]);
}

const PREFIXES: &str = "IPv4UcastLPM.1.IPv4PrefixTable";
const HOPS: &str = "IPv4NextHop.1.IPv4NextHopTable";

#[test]
fn routes_become_rows_and_leave_none_behind() {
    let mut world = World::new(&[]);
    let routes = [
        "10.0.0.0/8 192.0.2.1 wan 0",
        "10.0.0.0/8 192.0.2.9 lan 5",
        "11.0.0.0/8 192.0.2.1 wan 0",
        "12.0.0.0/8 - lan 0",
        "2001:db8::/32 fe80::1 wan 7",
    ];
    world.route(RouteVerb::Add, &routes).unwrap();
    let machine = [
        "10.0.0.0/8 192.0.2.1",
        "11.0.0.0/8 192.0.2.1",
        "12.0.0.0/8 ",
    ];
    assert_eq!(world.machine()[..3], machine);
    assert_eq!(world.machine()[3], "2001:db8::/32 fe80::1");
    assert_eq!((world.table(PREFIXES), world.table(HOPS)), (3, 2));
    assert_eq!(
        world.listed()[..2],
        ["10.0.0.0/8 0 installed", "10.0.0.0/8 5 standby"]
    );
    // The route with the lowest metric is deleted; the next route takes its place.
    world.route(RouteVerb::Delete, &routes[..1]).unwrap();
    assert_eq!(world.machine()[0], "10.0.0.0/8 192.0.2.9");
    assert_eq!(world.table(HOPS), 3);
    world
        .route(RouteVerb::Replace, &["11.0.0.0/8 - lan 0"])
        .unwrap();
    assert_eq!(world.machine()[1], "11.0.0.0/8 ");
    assert_eq!(world.table(HOPS), 2);
    world
        .route(
            RouteVerb::Delete,
            &[
                "10.0.0.0/8 192.0.2.9 lan 5",
                "11.0.0.0/8 - lan 0",
                "12.0.0.0/8 - lan 0",
            ],
        )
        .unwrap();
    assert_eq!((world.table(PREFIXES), world.table(HOPS)), (0, 0));
    assert_eq!(world.machine(), ["2001:db8::/32 fe80::1"]);
    assert_eq!(world.state(), "in sync");
}

#[test]
fn routes_are_restored_and_what_was_deleted_meanwhile_goes() {
    let mut world = World::new(&[]);
    world
        .route(
            RouteVerb::Add,
            &["10.0.0.0/8 192.0.2.1 wan 0", "11.0.0.0/8 192.0.2.2 wan 0"],
        )
        .unwrap();
    let rows = world.get(PREFIXES);
    world.lose(false);
    world
        .route(RouteVerb::Delete, &["10.0.0.0/8 192.0.2.1 wan 0"])
        .unwrap();
    world
        .route(RouteVerb::Add, &["12.0.0.0/8 192.0.2.2 wan 0"])
        .unwrap();
    assert_eq!(world.listed(), ["11.0.0.0/8 0 waits", "12.0.0.0/8 0 waits"]);
    world.mend();
    assert_eq!(world.state(), "in sync");
    let machine = ["11.0.0.0/8 192.0.2.2", "12.0.0.0/8 192.0.2.2"];
    assert_eq!(world.machine(), machine);
    assert_eq!(world.table(HOPS), 1);
    assert_ne!(world.get(PREFIXES), rows);
    // The machine keeps its routes when the FE dies; the new FE has no rows.
    world.lose(true);
    world.mend();
    assert_eq!(world.machine(), machine);
    assert_eq!((world.table(PREFIXES), world.table(HOPS)), (2, 1));
    assert_eq!(world.state(), "in sync");
}

#[test]
fn an_fe_whose_kernel_lacks_routes_is_not_in_sync() {
    let why = "degraded route 10.0.0.0/8: interface eth1 is down or absent";
    let mut world = World::new(&[]);
    assert_eq!(world.state(), "in sync");
    world
        .route(RouteVerb::Add, &["10.0.0.0/8 192.0.2.1 wan 0"])
        .unwrap();
    for [missing, lost] in [[1, 1], [3, 3], [0, 3], [0, 4]] {
        world.kernel = [missing, lost];
        world.run(Span::from_secs(1));
        let expected = match missing {
            0 => "in sync".to_owned(),
            1 => why.to_owned(),
            more => format!("{why}; and {} more routes", more - 1),
        };
        assert_eq!(world.state(), expected);
        let listed = if missing == 0 { "installed" } else { "written" };
        assert_eq!(world.listed(), [format!("10.0.0.0/8 0 {listed}")]);
    }
    // A route was lost and restored between two samples: the CE gets an event.
    let regained = |journal: &LogEvent| matches!(journal, LogEvent::Regained(_, 4));
    assert!(world.journal.iter().any(regained), "{:?}", world.journal);
    // The CE knows the state from the first moment of an association.
    world.lose(false);
    world.kernel = [1, 5];
    world.mend();
    assert_eq!(world.state(), why);
}

#[test]
fn a_route_that_the_fe_refuses_changes_nothing_and_keeps_no_other_back() {
    let mut world = World::new(&[]);
    world.unreachable = Some("203.0.113.1".parse().unwrap());
    let both = ["10.0.0.0/8 192.0.2.1 wan 0", "11.0.0.0/8 203.0.113.1 wan 0"];
    let Err(Refusal::Refused(why)) = world.route(RouteVerb::Add, &both) else {
        panic!("it is accepted");
    };
    assert!(why.concat().contains("Network is unreachable"), "{why:?}");
    assert!(world.listed().is_empty() && world.machine().is_empty());
    // While the FE is disconnected, the CE cannot know.
    world.lose(false);
    world.route(RouteVerb::Add, &both).unwrap();
    world.mend();
    let state = world.state();
    assert!(
        state.starts_with("refused route 11.0.0.0/8: Network is unreachable"),
        "{state}"
    );
    assert_eq!(world.machine(), ["10.0.0.0/8 192.0.2.1"]);
    assert_eq!(
        world.listed(),
        ["10.0.0.0/8 0 installed", "11.0.0.0/8 0 waits"]
    );
    world.route(RouteVerb::Delete, &both[1..]).unwrap();
    world.run(Span::from_secs(1));
    assert_eq!(world.state(), "in sync");
}

#[test]
fn rows_of_the_service_and_those_of_operators_stay_apart() {
    let mut world = World::new(&[]);
    world
        .route(RouteVerb::Add, &["10.0.0.0/8 192.0.2.1 wan 0"])
        .unwrap();
    let mut set = |row| world.change(vec![set(&format!("{PREFIXES}.{row}.HopSelector"), "1")]);
    let Err(Refusal::Wrong(why)) = set(65536) else {
        panic!("it is accepted");
    };
    assert!(why.contains("`weir route`"), "{why}");
    // A row set by an operator needs all of its members; the FE refuses incomplete rows.
    assert!(matches!(set(7), Err(Refusal::Refused(_))));
    let missing = world.route(RouteVerb::Add, &["10.0.0.0/8 192.0.2.1 wam 0"]);
    let Err(Refusal::Refused(why)) = missing else {
        panic!("it is accepted");
    };
    assert_eq!(
        why,
        ["edge1: route 10.0.0.0/8: there is no port `wam`; did you mean `wan`?"]
    );
}

#[test]
fn a_port_that_comes_and_goes_takes_its_routes_along() {
    let mut world = World::new(&[]);
    world
        .change(vec![set("port.dmz.interface", "eth7")])
        .unwrap();
    world
        .route(
            RouteVerb::Add,
            &["10.0.0.0/8 192.0.2.1 dmz 0", "11.0.0.0/8 192.0.2.1 wan 0"],
        )
        .unwrap();
    assert_eq!(world.machine().len(), 2);
    world
        .change(vec![Operation::Delete(path("port.dmz"))])
        .unwrap();
    world.run(Span::from_secs(1));
    assert_eq!(world.machine(), ["11.0.0.0/8 192.0.2.1"]);
    assert_eq!(
        world.state(),
        "refused route 10.0.0.0/8: there is no port `dmz`"
    );
    world
        .change(vec![set("port.dmz.interface", "eth7")])
        .unwrap();
    world.run(Span::from_secs(1));
    assert_eq!(world.machine().len(), 2);
    assert_eq!(world.state(), "in sync");
}

/// A path of flexible packet forwarding at the FE.
const FPF: &[(&str, &str)] = &[
    ("fpf.edge_ports", "lan"),
    ("fpf.interface.core.port", "wan"),
    ("fpf.rule.to-b.lid", "b1"),
    ("fpf.rule.to-b.output", "core"),
    ("fpf.rule.to-b.neighbour", "02:00:00:00:00:0b"),
    ("fpf.encapsulation.video.destination", "198.51.100.0/24"),
    ("fpf.encapsulation.video.protocol", "udp"),
    ("fpf.encapsulation.video.destination_ports", "5000-5999"),
    ("fpf.encapsulation.video.vectors", "b1a1:3 b1"),
    ("fpf.encapsulation.video.police", "1 Mbit"),
];

#[test]
fn sections_of_fpf_are_restored() {
    let mut world = World::new(FPF);
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    for (component, value) in FPF {
        assert_eq!(world.shown(component), *value, "{component}");
    }
    world.lose(false);
    let gone = ["fpf.rule.to-b", "fpf.encapsulation.video"].map(|at| Operation::Delete(path(at)));
    let other = [
        Operation::Set(Change::block(path("fpf.rule.own"))),
        set("fpf.rule.own.lid", "c1"),
        set("fpf.rule.own.action", "drop"),
    ];
    world.plan = world.plan.after(&[&gone[..], &other].concat()).unwrap();
    world.agent.handle_plan(world.plan.clone());
    world.mend();
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b1");
    assert_eq!(world.shown("fpf.encapsulation.video.vectors"), "b1a1:3 b1");
    assert_eq!(world.shown("fpf.rule.own.lid"), "c1", "the FE's own stays");
    world.plan = plan(); // the plan of its own file
    world.lose(true);
    world.mend();
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b1");
}

#[test]
fn operators_add_change_and_remove_sections_of_fpf() {
    let mut world = World::new(FPF);
    world
        .change(vec![
            set("fpf.rule.to-b.lid", "b2"),
            set("fpf.no_match", "drop"),
        ])
        .unwrap();
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b2");
    let added = vec![
        set("fpf.rule.away.lid", "d1"),
        set("fpf.rule.away.action", "drop"),
    ];
    world.change(added).unwrap();
    assert_eq!(world.shown("fpf.rule.away.action"), "drop");
    let lid = world.get("fpf.rule.away.lid");
    assert_eq!(lid, Ok(Answer::Value("d1".into())));
    let number = set("fpf_rules.2.lid", "d2");
    world.change(vec![number]).unwrap();
    assert_eq!(world.shown("fpf.rule.away.lid"), "d2");
    world
        .change(vec![Operation::Delete(path("fpf.rule.away"))])
        .unwrap();
    assert_eq!(world.shown("fpf.rule.away.lid"), "");
    world.lose(false);
    world.mend();
    assert_eq!(world.shown("fpf.rule.away.lid"), "");
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b2");

    let mut refused = |operations: Vec<Operation>, why: &str| {
        let before = world.plan.clone();
        let refusal = world.change(operations).unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
        assert_eq!(world.plan, before);
    };
    refused(
        vec![set("fpf.rule.to_b.output", "core")],
        "did you mean `to-b`",
    );
    refused(
        vec![set("fpf.rule.x.output", "core")],
        "needs its `lid` or `action`",
    );
    refused(
        vec![set("fpf.encapsulation.vide.police", "2 Mbit")],
        "there is no FPF encapsulation `vide`; did you mean `video`? (a new FPF encapsulation needs its `vectors`)",
    );
    refused(
        vec![set("fpf.interface.x.vlan", "7")],
        "needs its `port` or `local`",
    );
    refused(
        vec![Operation::Delete(path("fpf.rule.away"))],
        "there is no FPF rule `away`",
    );
    refused(
        vec![Operation::Delete(path("fpf.interface.core"))],
        "there is no FPF interface `core`",
    );
    refused(
        vec![set("fpf.encapsulation.video.vectors", "b")],
        "is not a vector",
    );
    refused(vec![set("port.wan.rat", "1 Mbit")], "did you mean");
    assert_eq!(world.state(), "in sync");
}

/// Reloads the CE with the desired values of another file.
fn reload(world: &mut World, settings: &[(&str, &str)]) {
    let mut desired = Desired::default();
    for (at, value) in settings {
        let wish = DesiredValue::Is(Scalar::Text((*value).to_owned()));
        desired.put(&path(at), Some(&wish));
    }
    let member = FeConfig {
        name: "edge1".to_owned(),
        id: FE,
        is_pinned: true,
        desired,
        kept: BTreeMap::new(),
        components: BTreeMap::new(),
        routes: Default::default(),
    };
    let now = world.now;
    let ended = Default::default();
    world.control.replace_members(now, vec![member], &ended);
    world.run(Span::from_millis(100));
}

#[test]
fn a_section_that_is_gone_from_the_file_goes_at_the_fe() {
    let mut wishes = FPF.to_vec();
    wishes.push(("port.wan.rate", "7 Mbit"));
    let mut world = World::new(&wishes);
    let own = [
        set("fpf.rule.operator.lid", "c1"),
        set("fpf.rule.operator.action", "drop"),
    ];
    world.change(own.to_vec()).unwrap();
    let is_kept = |(at, _): &&(&str, &str)| at.starts_with("fpf.interface");
    let kept: Vec<_> = FPF.iter().filter(is_kept).copied().collect();
    reload(&mut world, &kept);
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "");
    assert_eq!(world.shown("fpf.encapsulation.video.vectors"), "");
    assert_eq!(world.shown("fpf.interface.core.port"), "wan");
    assert_eq!(world.shown("fpf.rule.operator.lid"), "c1");
    assert_eq!(world.shown("port.wan.rate"), "7 Mbit", "it stays as it is");
    reload(&mut world, &wishes);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b1");

    // The CE deletes the rule while the FE is disconnected, and only once: a rule that the FE adds later is the FE's
    // own.
    world.lose(false);
    reload(&mut world, &kept);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "b1");
    world.mend();
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "");
    world.lose(false);
    let again = [
        Operation::Set(Change::block(path("fpf.rule.to-b"))),
        set("fpf.rule.to-b.lid", "d1"),
        set("fpf.rule.to-b.action", "drop"),
    ];
    world.plan = world.plan.after(&again).unwrap();
    world.agent.handle_plan(world.plan.clone());
    world.mend();
    assert_eq!(world.shown("fpf.rule.to-b.lid"), "d1");
}

/// More sections than one message carries: no section is split, and the order follows their dependencies.
#[test]
fn a_thousand_rules_come_as_one_transaction() {
    const RULES: u32 = 1000;
    let mut wishes: Vec<(String, String)> = FPF
        .iter()
        .filter(|(at, _)| !at.starts_with("fpf.rule"))
        .map(|(at, value)| ((*at).to_owned(), (*value).to_owned()))
        .collect();
    wishes.retain(|(at, _)| !at.ends_with("vectors"));
    wishes.push(("fpf.encapsulation.video.vectors".into(), "0001".into()));
    wishes.push(("fpf.lid_bytes".into(), "2".into()));
    for rule in 1..=RULES {
        let component = |name: &str| format!("fpf.rule.r{rule}.{name}");
        wishes.push((component("lid"), format!("{rule:04x}")));
        wishes.push((component("output"), "core".into()));
        wishes.push((component("neighbour"), "02:00:00:00:00:0b".into()));
    }
    let pairs: Vec<_> = wishes.iter().map(|(at, value)| (&**at, &**value)).collect();
    let mut world = World::new(&pairs);
    world.run(Span::from_secs(10));
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert_eq!(world.shown("fpf.rule.r1000.lid"), "03e8");
    reload(&mut world, &[]);
    world.run(Span::from_secs(10));
    assert_eq!(world.state(), "in sync", "{:?}", world.journal);
    assert!(world.plan.layers[0].compiled().is_none(), "all are gone");
}

impl World {
    /// Routes of a routing suite, in the form of [`World::route`], or with several gateways and their weights, or
    /// `blackhole`; without a port the suite withdraws the route.
    fn learn(&mut self, routes: &[&str], is_all: bool) {
        let record = |text: &&str| {
            let words: Vec<&str> = text.split(' ').collect();
            let route = words.get(2).map(|port| {
                let hop = |via: &str| {
                    let (gateway, weight) = via.split_once('*').unwrap_or((via, "1"));
                    let gateway = Some(gateway).filter(|via| *via != "-");
                    let gateway = gateway.map(|via| via.parse().unwrap());
                    let port = (*port).into();
                    (Hop { gateway, port }, weight.parse().unwrap())
                };
                let target = match words[1] {
                    "blackhole" => Target::Discard(Discard::Blackhole),
                    hops => Target::of_hops(hops.split(',').map(hop)).unwrap(),
                };
                LearntRoute {
                    metric: words[3].parse().unwrap(),
                    protocol: 188,
                    target,
                }
            });
            (words[0].parse().unwrap(), route)
        };
        let records = routes.iter().map(record).collect();
        self.control.learn(self.now, "edge1", records, is_all);
        if is_all {
            self.control.complete_routes(self.now, "edge1");
        }
        self.run(Span::from_millis(100));
    }
}

#[test]
fn routes_of_a_suite_follow_its_changes() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    world.learn(
        &["10.0.0.0/8 192.0.2.1 wan 20", "192.0.2.0/24 - wan 0"],
        true,
    );
    assert_eq!(world.machine(), ["10.0.0.0/8 192.0.2.1", "192.0.2.0/24 "]);
    // A prefix has one route, whatever its metric was before.
    world.learn(
        &["10.0.0.0/8 192.0.2.9 wan 30", "11.0.0.0/8 192.0.2.1 wan 20"],
        false,
    );
    assert_eq!(
        world.machine()[..2],
        ["10.0.0.0/8 192.0.2.9", "11.0.0.0/8 192.0.2.1"]
    );
    // Routes of operators have their own metrics.
    world
        .route(RouteVerb::Add, &["10.0.0.0/8 - lan 0"])
        .unwrap();
    assert_eq!(world.machine()[0], "10.0.0.0/8 ");
    let both = ["10.0.0.0/8 0 installed", "10.0.0.0/8 30 standby"];
    assert!(
        both.iter()
            .all(|line| world.listed().iter().any(|found| found == line))
    );
    world
        .route(RouteVerb::Delete, &["10.0.0.0/8 - lan 0"])
        .unwrap();
    assert_eq!(world.machine()[0], "10.0.0.0/8 192.0.2.9");
    world.learn(&["10.0.0.0/8"], false);
    assert_eq!(world.machine()[..1], ["11.0.0.0/8 192.0.2.1"]);
    // A whole table replaces everything.
    world.learn(&["12.0.0.0/8 192.0.2.1 wan 20"], true);
    assert_eq!(world.machine(), ["12.0.0.0/8 192.0.2.1"]);
}

const GROUPS: &str = "ipv4_next_hop_groups.1.groups";

#[test]
fn routes_with_several_next_hops_or_none_follow_the_suite_and_leave_no_rows() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    let both = "192.0.2.1*3,192.0.2.9*1";
    let all = [
        &format!("10.0.0.0/8 {both} wan 20")[..],
        &format!("11.0.0.0/8 {both} wan 20"),
        "12.0.0.0/8 192.0.2.1*1,192.0.2.9*1 wan 20",
        "13.0.0.0/8 blackhole wan 20",
        "14.0.0.0/8 blackhole wan 20",
        "15.0.0.0/8 192.0.2.9 wan 20",
    ];
    world.learn(&all, true);
    let machine = [
        &format!("10.0.0.0/8 {both}")[..],
        &format!("11.0.0.0/8 {both}"),
        "12.0.0.0/8 192.0.2.1*1,192.0.2.9*1",
        "13.0.0.0/8 blackhole",
        "14.0.0.0/8 blackhole",
        "15.0.0.0/8 192.0.2.9",
    ];
    assert_eq!(world.machine(), machine);
    let rows = |world: &mut World| [PREFIXES, GROUPS, HOPS].map(|table| world.table(table));
    assert_eq!(rows(&mut world), [6, 3, 2]);
    let listed = world.listed();
    assert_eq!(listed.len(), 9, "an entry for each next hop: {listed:?}");
    assert!(listed.iter().all(|line| line.ends_with(" installed")));
    // Rows of the service are not for operators.
    let member = format!("{GROUPS}.65536.action");
    let Err(Refusal::Wrong(why)) = world.change(vec![set(&member, "blackhole")]) else {
        panic!("it is accepted");
    };
    assert!(why.contains("`weir route`"), "{why}");
    // A new CE finds all rows, and an FE that has forgotten them gets them again.
    world.lose(false);
    world.mend();
    assert_eq!(
        (world.machine(), rows(&mut world)),
        (machine.map(str::to_owned).into(), [6, 3, 2])
    );
    world.lose(true);
    world.mend();
    assert_eq!(
        (world.machine(), rows(&mut world)),
        (machine.map(str::to_owned).into(), [6, 3, 2])
    );

    // One next hop of a route is withdrawn; the other routes stay.
    world.learn(&["10.0.0.0/8 192.0.2.9 wan 20"], false);
    assert_eq!(world.machine()[0], "10.0.0.0/8 192.0.2.9");
    assert_eq!(world.machine()[1..], machine[1..]);
    assert_eq!(rows(&mut world), [6, 3, 2]);
    // An operator's route goes before a blackhole.
    let own = ["13.0.0.0/8 192.0.2.1 wan 0"];
    world.route(RouteVerb::Add, &own).unwrap();
    assert_eq!(world.machine()[3], "13.0.0.0/8 192.0.2.1");
    world.route(RouteVerb::Delete, &own).unwrap();
    assert_eq!(world.machine()[3], "13.0.0.0/8 blackhole");
    // A refused next hop does not hold up the others.
    world.unreachable = Some("198.51.100.1".parse().unwrap());
    let refused = [
        "16.0.0.0/8 192.0.2.1*1,198.51.100.1*1 wan 20",
        "17.0.0.0/8 blackhole wan 20",
    ];
    world.learn(&refused, false);
    assert_eq!(world.machine()[6..], ["17.0.0.0/8 blackhole"]);
    world.learn(&["16.0.0.0/8", "17.0.0.0/8"], false);

    world.learn(
        &["11.0.0.0/8", "12.0.0.0/8", "13.0.0.0/8", "15.0.0.0/8"],
        false,
    );
    assert_eq!(
        world.machine(),
        ["10.0.0.0/8 192.0.2.9", "14.0.0.0/8 blackhole"]
    );
    assert_eq!(rows(&mut world), [2, 1, 1]);
    world.learn(&["10.0.0.0/8", "14.0.0.0/8"], false);
    assert_eq!(rows(&mut world), [0, 0, 0]);
}

#[test]
fn routes_that_shift_together_move_before_their_own_changes_come() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    let all = |via: &str, range: std::ops::Range<u8>| -> Vec<String> {
        range
            .map(|n| format!("10.0.{n}.0/24 {via} wan 20"))
            .collect()
    };
    let learn = |world: &mut World, routes: &[String], is_all| {
        world.learn(
            &routes.iter().map(String::as_str).collect::<Vec<_>>(),
            is_all,
        );
    };
    let shift = |world: &mut World, [before, after]: [&str; 2], routes| {
        let target = |via: &str| {
            let gateway = Some(via.parse().unwrap());
            let port = "wan".into();
            Target::Hop(Hop { gateway, port })
        };
        let (before, after) = (target(before), target(after));
        let shift = Shift {
            before,
            after,
            routes,
        };
        world.control.shift(world.now, "edge1", vec![shift]);
        world.run(Span::from_millis(100));
    };
    let ends = |world: &World, via: &str| {
        let machine = world.machine();
        machine.iter().filter(|route| route.ends_with(via)).count()
    };
    learn(&mut world, &all("192.0.2.1", 0..100), true);
    learn(&mut world, &all("192.0.2.9", 100..105), false);
    shift(&mut world, ["192.0.2.1", "192.0.2.9"], 99); // not all of them
    assert_eq!(ends(&world, "192.0.2.9"), 5);
    let before = world.sent;
    shift(&mut world, ["192.0.2.1", "192.0.2.9"], 100);
    assert_eq!(ends(&world, "192.0.2.9"), 105);
    assert!(world.sent - before < 300, "{} octets", world.sent - before);
    let before = world.sent;
    learn(&mut world, &all("192.0.2.9", 0..100), false);
    assert_eq!((ends(&world, "192.0.2.9"), world.sent), (105, before));

    // Both rows of this target shift. The changes show that others than these routes have it, which move back.
    shift(&mut world, ["192.0.2.9", "192.0.2.5"], 105);
    assert_eq!(ends(&world, "192.0.2.5"), 105);
    learn(&mut world, &all("192.0.2.5", 1..105), false);
    assert_eq!(
        (ends(&world, "192.0.2.5"), ends(&world, "192.0.2.9")),
        (104, 1)
    );

    // A next hop of a group, and of an operator's route, stays.
    learn(&mut world, &all("192.0.2.5*1,192.0.2.9*1", 0..1), false);
    shift(&mut world, ["192.0.2.5", "192.0.2.7"], 104);
    assert_eq!(
        (ends(&world, "192.0.2.7"), ends(&world, "192.0.2.5")),
        (0, 104)
    );
    learn(&mut world, &["10.0.0.0/24".to_owned()], false);
    let own = ["11.0.0.0/8 192.0.2.5 wan 0"];
    world.route(RouteVerb::Add, &own).unwrap();
    shift(&mut world, ["192.0.2.5", "192.0.2.7"], 104);
    assert_eq!(ends(&world, "192.0.2.5"), 105);
    world.route(RouteVerb::Delete, &own).unwrap();

    // Before the suite has found its routes, others may have the row.
    world.control.expect_routes("edge1");
    let rest = all("192.0.2.5", 1..103);
    let rest: Vec<_> = rest.iter().map(String::as_str).collect();
    world.control.learn(world.now, "edge1", Vec::new(), true);
    world.learn(&rest, false);
    shift(&mut world, ["192.0.2.5", "192.0.2.7"], 102);
    assert_eq!(ends(&world, "192.0.2.5"), 104);

    // An FE without an association is compared as a whole when it returns: nothing moves then.
    world.control.complete_routes(world.now, "edge1");
    world.run(Span::from_millis(100));
    world.lose(false);
    shift(&mut world, ["192.0.2.5", "192.0.2.7"], 102);
    learn(&mut world, &all("192.0.2.7", 1..103), false);
    learn(&mut world, &all("192.0.2.5", 1..103), false);
    world.mend();
    assert_eq!(
        (ends(&world, "192.0.2.7"), ends(&world, "192.0.2.5")),
        (0, 102)
    );
}

#[test]
fn one_row_moves_all_routes_of_a_next_hop_that_fails() {
    const ROUTES: usize = 1000;
    const BOTH: &str = "192.0.2.1*1,192.0.2.9*1";
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    let learn = |world: &mut World, via: &str, range: std::ops::Range<usize>| {
        let route = |n| format!("10.{}.{}.0/24 {via} wan 20", n >> 8, n & 255);
        let all: Vec<_> = range.map(route).collect();
        let before = world.sent;
        world.learn(&all.iter().map(String::as_str).collect::<Vec<_>>(), false);
        world.sent - before
    };
    let rows = |world: &mut World| [GROUPS, HOPS].map(|table| world.table(table));
    let ends = |world: &World, via: &str| {
        let machine = world.machine();
        machine
            .iter()
            .filter(|route| route.ends_with(&format!("/24 {via}")))
            .count()
    };
    let loaded = learn(&mut world, BOTH, 0..ROUTES);
    assert_eq!((ends(&world, BOTH), rows(&mut world)), (ROUTES, [1, 2]));
    let before = world.get(PREFIXES);
    for (via, counts) in [
        ("192.0.2.9", [1, 1]),
        (BOTH, [1, 2]),
        ("blackhole", [1, 0]),
        ("192.0.2.1*2,192.0.2.7*1", [1, 2]),
    ] {
        let moved = learn(&mut world, via, 0..ROUTES);
        assert_eq!(
            (ends(&world, via), rows(&mut world)),
            (ROUTES, counts),
            "{via}"
        );
        assert!(
            30 * moved < loaded,
            "{moved} octets for {via}, {loaded} for the routes"
        );
        assert_eq!(world.get(PREFIXES), before);
    }
    learn(&mut world, "192.0.2.9", 0..ROUTES);
    // Other prefixes do not share a row that once had another meaning, and a part moves by itself.
    learn(&mut world, "192.0.2.9", ROUTES..ROUTES + 5);
    assert_eq!(
        (ends(&world, "192.0.2.9"), rows(&mut world)),
        (ROUTES + 5, [1, 1])
    );
    learn(&mut world, BOTH, 0..3);
    assert_eq!(
        (ends(&world, "192.0.2.9"), ends(&world, BOTH)),
        (ROUTES + 2, 3)
    );
    assert_eq!(rows(&mut world), [2, 2]);
    // Single next hops move too, and a new CE finds everything.
    let moved = learn(&mut world, "192.0.2.5", ROUTES..ROUTES + 5);
    let whole = learn(&mut world, "192.0.2.6", ROUTES..ROUTES + 5);
    assert_eq!(
        (ends(&world, "192.0.2.6"), rows(&mut world)),
        (5, [2, 3]),
        "{moved} {whole}"
    );
    world.lose(false);
    world.mend();
    assert_eq!(
        (world.machine().len(), rows(&mut world)),
        (ROUTES + 5, [2, 3])
    );
    // A refused row holds up no other route.
    world.unreachable = Some("198.51.100.1".parse().unwrap());
    let first: Vec<_> = (3..ROUTES)
        .map(|n| format!("10.{}.{}.0/24 198.51.100.1 wan 20", n >> 8, n & 255))
        .collect();
    let all = first
        .iter()
        .map(String::as_str)
        .chain(["11.0.0.0/24 192.0.2.1 wan 20"]);
    world.learn(&all.collect::<Vec<_>>(), false);
    assert_eq!(
        (world.machine().len(), ends(&world, "192.0.2.1")),
        (ROUTES + 6, 1)
    );
    world.unreachable = None;
    learn(&mut world, BOTH, 0..ROUTES + 5);
    assert_eq!(ends(&world, BOTH), ROUTES + 5);
    assert_eq!(world.state(), "in sync");
}

#[test]
fn an_fe_keeps_its_rows_until_the_suite_has_named_all_routes() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    world.learn(
        &["10.0.0.0/8 192.0.2.1 wan 20", "11.0.0.0/8 192.0.2.1 wan 20"],
        true,
    );
    // The CE starts again, and knows nothing yet.
    world.control.expect_routes("edge1");
    world.lose(false);
    world.mend();
    assert_eq!(world.machine().len(), 2);
    world.learn(&["11.0.0.0/8 192.0.2.1 wan 20"], true);
    assert_eq!(world.machine(), ["11.0.0.0/8 192.0.2.1"]);
}

#[test]
fn a_refused_route_of_a_suite_does_not_hold_up_the_others() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    world.unreachable = Some("198.51.100.1".parse().unwrap());
    world.learn(
        &[
            "10.0.0.0/8 198.51.100.1 wan 20",
            "11.0.0.0/8 192.0.2.1 wan 20",
        ],
        true,
    );
    assert_eq!(world.machine(), ["11.0.0.0/8 192.0.2.1"]);
    world.learn(
        &[
            "12.0.0.0/8 198.51.100.1 wan 20",
            "13.0.0.0/8 192.0.2.1 nowhere 20",
        ],
        false,
    );
    world.learn(&["14.0.0.0/8 192.0.2.1 wan 20"], false);
    assert_eq!(
        world.machine(),
        ["11.0.0.0/8 192.0.2.1", "14.0.0.0/8 192.0.2.1"]
    );
    world.unreachable = None;
    world.learn(&["10.0.0.0/8 198.51.100.1 wan 20"], false);
    assert_eq!(world.machine()[0], "10.0.0.0/8 198.51.100.1");
}

/// The row of the FE in the table `network`.
fn network(world: &mut World) -> Value {
    match world.ask(Request::Network("edge1".to_owned(), None)) {
        Ok(Answer::Value(row)) => row,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_network_lists_components_that_differ_or_that_no_class_has() {
    let mut world = World::with(
        &[],
        &[
            ("FEObject.1.FEName", "west"),
            ("FEObject.1.FEPlace", "here"),
        ],
    );
    let row = network(&mut world);
    let why = row.text("why").unwrap();
    assert!(why.starts_with("edge1:FEObject.1.FEPlace: "), "{why}");
    let differences = row.get("differences").unwrap().rows();
    let texts =
        |row: &Value| ["path", "desired", "actual"].map(|name| row.text(name).map(str::to_owned));
    let texts: Vec<_> = differences.iter().map(texts).collect();
    let expected = [
        ["edge1:FEObject.1.FEName", "west", "edge"].map(Some),
        [Some("edge1:FEObject.1.FEPlace"), Some("here"), None],
    ];
    assert_eq!(
        texts,
        expected.map(|row| row.map(|text| text.map(str::to_owned)))
    );
}

#[test]
fn the_network_and_an_explanation_name_what_the_fe_has_refused() {
    let mut world = World::new(&[]);
    world.control.expect_routes("edge1");
    world.unreachable = "198.51.100.1".parse().ok();
    let all = [
        "10.0.0.0/8 192.0.2.1 wan 20",
        "11.0.0.0/8 192.0.2.1 wan 20",
        "12.0.0.0/8 198.51.100.1 wan 20",
    ];
    world.learn(&all, true);
    world
        .route(RouteVerb::Add, &["10.0.0.0/8 192.0.2.9 wan 5"])
        .unwrap();
    world
        .change(vec![set("FEObject.1.FEName", "west")])
        .unwrap();
    let row = network(&mut world);
    let counts = |of: &Value| {
        let counts = ["wanted", "installed", "standby", "waiting", "refused"];
        counts.map(|name| of.whole(name).unwrap())
    };
    let [of_operator, of_suite] = row.get("routes").unwrap().rows() else {
        panic!("{row:?}")
    };
    assert_eq!(counts(of_operator), [1, 1, 0, 0, 0]);
    assert_eq!(counts(of_suite), [3, 1, 1, 0, 1]);
    assert_eq!(of_suite.text("protocol"), Some("ospf"));
    assert!(
        of_suite
            .text("first_refused")
            .unwrap()
            .starts_with("12.0.0.0/8: "),
        "{of_suite:?}"
    );
    assert_eq!(row.text("role"), Some("master"));
    let hops = row.get("next_hops").unwrap().rows();
    let hops: Vec<_> = hops
        .iter()
        .map(|hop| (hop.text("address").unwrap(), hop.whole("routes")))
        .collect();
    assert_eq!(hops, [("192.0.2.1", Some(1)), ("192.0.2.9", Some(1))]);
    assert_eq!(row.get("differences").unwrap().rows(), []);

    let explain = |world: &mut World, to: &str| {
        let request = Request::Explain("edge1".to_owned(), to.parse().unwrap(), None);
        let Ok(Answer::Explained(explained)) = world.ask(request) else {
            panic!("no explanation")
        };
        explained
            .reason
            .map(|reason| reason.name)
            .unwrap_or_default()
    };
    assert_eq!(explain(&mut world, "12.0.0.0/8"), "fe-refused");
    assert_eq!(explain(&mut world, "12.1.2.3"), "fe-refused");
    // The double's table of routes has only a default route.
    assert_eq!(explain(&mut world, "11.0.0.0/8"), "fe-lacks");
    assert_eq!(explain(&mut world, "13.0.0.0/8"), "no-route");
    world.lose(false);
    world.run(Span::from_secs(1));
    assert_eq!(explain(&mut world, "11.0.0.0/8"), "fe-away");
    let row = network(&mut world);
    assert_eq!((row.text("state"), row.text("role")), (Some("away"), None));
}
