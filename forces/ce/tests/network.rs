//! A CE with the network of the paper's Figure 1, and four of this repository's FEs, without I/O.
//!
//! ```text
//!          +--- b1 ---+
//!   c1 ----+          +---- a1        cost 1 by b, cost 2 by d
//!          +--- d1 ---+
//! ```

use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::Scalar;
use weir_base::{Instant, Span};
use weir_ce::Control;
use weir_ce::contract::{Answer, FeConfig, LogEvent, Output, Params, PathCommand, Refusal, Ticket};
use weir_ce::desired::Desired;
use weir_ce::network::{Keys, PathService, REQUESTS_MAX};
use weir_config::Document;
use weir_fe::{Agent, Effect};
use weir_lfb::class::Block;
use weir_lfb::{Plan, class};
use weir_library::owner;
use weir_model::{
    Change, ChangeValue, ComponentPath, NetworkReport, PathReport, PathRequest, Value,
};
use weir_network::NetworkPlan;
use weir_protocol::schema::{Class, Registry};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{self, LinkId};
use weir_protocol::session::fe::{self, Failover, Retry, Standby};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::Selects;

const CE: Id = Id(0x4000_0001);
/// The FEs. A port has the name of the domain to which it leads.
const FES: [(&str, [&str; 2]); 4] = [
    ("a1", ["b", "d"]),
    ("b1", ["c", "a"]),
    ("c1", ["b", "d"]),
    ("d1", ["c", "a"]),
];
const LINKS: [(&str, &str, u32); 4] = [("c", "b", 1), ("b", "a", 1), ("c", "d", 2), ("d", "a", 2)];

/// The file of the network, followed by `more`.
fn file(more: &str) -> String {
    let mut text = String::new();
    for domain in ["a", "b", "c", "d"] {
        text += &format!("[domain.{domain}]\n[element.{domain}1]\ndomain = \"{domain}\"\n");
    }
    for (from, to, cost) in LINKS {
        let mac = |own: &str, other: &str| {
            let byte = |name: &str| name.as_bytes()[0];
            format!("02:00:00:00:{:02x}:{:02x}", byte(own), byte(other))
        };
        text += &format!(
            "[link.{from}-{to}]\nfrom = \"{from}1:{to}\"\nto = \"{to}1:{from}\"\ncost = {cost}\n\
             from_address = \"{}\"\nto_address = \"{}\"\n",
            mac(from, to),
            mac(to, from)
        );
    }
    text + more
}

fn network(more: &str) -> NetworkPlan {
    let document = Document::parse("network.toml", &file(more)).unwrap();
    NetworkPlan::check(document.changes()).unwrap()
}

struct Fe {
    agent: Agent,
    plan: Plan,
    link: Option<LinkId>,
    /// Whether links cannot be opened.
    is_cut: bool,
    /// Number of changes of the FE's configuration.
    changes: usize,
}

struct World {
    now: Instant,
    control: Control,
    paths: PathService,
    fes: BTreeMap<Id, Fe>,
    links: u64,
    /// Ports without a carrier.
    down: BTreeSet<(Id, String)>,
    /// Ports that cannot send.
    off: BTreeSet<(Id, String)>,
    answers: BTreeMap<u64, Result<Answer, Refusal>>,
    tickets: u64,
    stored: BTreeMap<u64, Keys>,
    journal: Vec<LogEvent>,
}

fn id(name: &str) -> Id {
    let position = FES.iter().position(|(fe, _)| *fe == name).unwrap();
    Id(2 + position as u32)
}

fn ports(name: &str) -> Plan {
    let (_, ports) = FES.iter().find(|(fe, _)| *fe == name).unwrap();
    let changes = ports.iter().map(|port| {
        let path = ComponentPath::new(["port", port, "interface"]);
        Change::new(path, Scalar::Text(format!("eth-{port}")))
    });
    Plan::check(&changes.collect::<Vec<_>>()).unwrap()
}

fn agent(now: Instant, id: Id, plan: &Plan) -> Agent {
    let session = fe::Params {
        id,
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
        name: "fe".to_owned(),
        model: "weir 0".to_owned(),
        plan: plan.clone(),
    };
    Agent::new(now, params).unwrap()
}

fn control() -> Control {
    let session = ce::Params {
        id: CE,
        assigns: None,
        heartbeats: Heartbeats::default(),
        setup_max: Span::from_secs(5),
        links_max: 16,
        window: 32,
        requests_max: 1024,
        queue_bytes_max: 4 << 20,
    };
    let params = Params {
        session,
        answer_max: Span::from_secs(5),
    };
    let member = |(name, _): &(&str, [&str; 2])| FeConfig {
        name: (*name).to_owned(),
        id: id(name),
        is_pinned: true,
        desired: Desired::default(),
        kept: BTreeMap::new(),
        components: BTreeMap::new(),
        routes: Default::default(),
    };
    let mut registry = Registry::standard();
    for class in class::all() {
        registry.add(Class::of(&class)).unwrap();
    }
    Control::new(params, registry, FES.iter().map(member).collect()).unwrap()
}

impl World {
    /// Creates the CE and its FEs; the FEs in `away` cannot reach the CE.
    fn new(more: &str, away: &[&str]) -> Self {
        let now = Instant::from_nanos(1);
        let fe = |(name, _): &(&str, [&str; 2])| {
            let plan = ports(name);
            let fe = Fe {
                agent: agent(now, id(name), &plan),
                plan,
                link: None,
                is_cut: away.contains(name),
                changes: 0,
            };
            (id(name), fe)
        };
        let mut world = Self {
            now,
            control: control(),
            paths: PathService::default(),
            fes: FES.iter().map(fe).collect(),
            links: 0,
            down: BTreeSet::new(),
            off: BTreeSet::new(),
            answers: BTreeMap::new(),
            tickets: 0,
            stored: BTreeMap::new(),
            journal: Vec::new(),
        };
        world.follow(more);
        world.run(1000);
        world
    }

    /// Starts or replaces the CE's network.
    fn follow(&mut self, more: &str) {
        let kept = self.stored.clone();
        let plan = Some(network(more));
        let replaced = self.paths.replace(self.now, plan, kept, &mut self.control);
        replaced.unwrap();
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + Span::from_millis(millis);
        loop {
            while self.step() {}
            let agents = self.fes.values().filter_map(|fe| fe.agent.poll_timeout());
            let others = [self.control.poll_timeout(), self.paths.poll_timeout()];
            let first = agents.chain(others.into_iter().flatten()).min();
            let Some(at) = first.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            self.control.handle_timeout(self.now);
            for fe in self.fes.values_mut() {
                fe.agent.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    fn step(&mut self) -> bool {
        let now = self.now;
        let mut moved = false;
        self.paths.settle(now, &mut self.control);
        while let Some((ticket, (number, keys))) = self.paths.poll_store() {
            moved = true;
            match keys {
                Some(keys) => self.stored.insert(number, keys),
                None => self.stored.remove(&number),
            };
            assert!(self.paths.handle_stored(ticket, &Ok(())));
        }
        while let Some((ticket, answer)) = self.paths.poll_answer() {
            moved = true;
            self.answers.insert(ticket.0, answer);
        }
        while let Some(transmit) = self.control.poll_transmit(now) {
            moved = true;
            let fe = self
                .fes
                .values_mut()
                .find(|fe| fe.link == Some(transmit.link));
            if let Some(fe) = fe {
                fe.agent.handle_message(now, CE, &transmit.message);
            }
        }
        while let Some(output) = self.control.poll_output() {
            moved = true;
            match self.paths.handle_output(now, output) {
                Some(Output::Store(ticket, _)) => self.control.handle_stored(now, ticket, Ok(())),
                Some(Output::LogEvent(journal)) => self.journal.push(journal),
                Some(Output::Close(link)) => {
                    let fe = self.fes.values_mut().find(|fe| fe.link == Some(link));
                    if let Some(fe) = fe {
                        fe.agent.handle_disconnected(now, CE);
                    }
                }
                _ => {}
            }
        }
        for fe in self.fes.keys().copied().collect::<Vec<_>>() {
            while let Some(effect) = self.fes.get_mut(&fe).unwrap().agent.poll_effect() {
                moved = true;
                self.effect(fe, effect);
            }
            while let Some(transmit) = self.fes.get_mut(&fe).unwrap().agent.poll_transmit(now) {
                moved = true;
                if let Some(link) = self.fes[&fe].link {
                    self.control.handle_message(now, link, &transmit.message);
                }
            }
        }
        moved
    }

    fn effect(&mut self, of: Id, effect: Effect) {
        let now = self.now;
        let rows = match &effect {
            Effect::Read(_, name) => Some(self.rows(of, name)),
            _ => None,
        };
        let fe = self.fes.get_mut(&of).unwrap();
        match effect {
            Effect::Connect(_) if fe.is_cut => fe.agent.handle_disconnected(now, CE),
            Effect::Connect(_) => {
                self.links += 1;
                let link = LinkId(self.links);
                fe.link = Some(link);
                self.control.handle_connected(now, link, Some(of), "test");
                fe.agent.handle_connected(now, CE);
            }
            Effect::Disconnect(_) => {
                if let Some(link) = fe.link.take() {
                    self.control.handle_disconnected(now, link);
                }
            }
            Effect::Read(ticket, _) => fe.agent.handle_read(now, ticket, Ok(rows.unwrap())),
            Effect::Check(ticket, operations) => {
                let answer = fe.plan.after(&operations).map(|_| Vec::new());
                fe.agent.handle_changed(now, ticket, answer);
            }
            Effect::Change(ticket, operations) => {
                let answer = fe.plan.after(&operations).map(|plan| fe.plan = plan);
                fe.changes += 1;
                fe.agent.handle_plan(fe.plan.clone());
                fe.agent
                    .handle_changed(now, ticket, answer.map(|()| Vec::new()));
            }
            Effect::Routes(ticket, ..) => fe.agent.handle_routed(now, ticket, &[]),
            Effect::Turn => fe.agent.handle_turn(now),
            _ => {}
        }
    }

    fn rows(&self, fe: Id, name: &str) -> Value {
        let class = Block::find(name).unwrap().class;
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
            for (name, value) in &mut members {
                match &**name {
                    name if class.key == [name] => *value = of.into(),
                    "carrier" => *value = (!self.down.contains(&(fe, of.to_owned()))).into(),
                    "up" => *value = (!self.off.contains(&(fe, of.to_owned()))).into(),
                    "discipline" => *value = "fq_codel".into(),
                    _ => {}
                }
            }
            Value::Struct(members)
        };
        Value::List(
            self.fes[&fe]
                .plan
                .names(kind)
                .into_iter()
                .map(row)
                .collect(),
        )
    }

    fn begin(&mut self, command: PathCommand) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.paths.request(self.now, Ticket(ticket), command);
        ticket
    }

    fn ask(&mut self, command: PathCommand) -> Result<Answer, Refusal> {
        let ticket = self.begin(command);
        self.run(50);
        self.answers.remove(&ticket).expect("no answer")
    }

    /// Requests a path; keys like `from=c1 to=a`.
    fn request(&mut self, keys: &str) -> Result<PathReport, String> {
        match self.ask(PathCommand::Request(request(keys))) {
            Ok(Answer::Paths(mut paths)) => Ok(paths.remove(0)),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    fn network(&mut self) -> NetworkReport {
        match self.ask(PathCommand::Network) {
            Ok(Answer::Network(network)) => network,
            other => panic!("{other:?}"),
        }
    }

    /// The vectors of an encapsulation at the FE c1; empty if c1 does not have it.
    fn vectors(&self, name: &str) -> String {
        let shown = self.fes[&id("c1")].plan.shown();
        let path = format!("fpf.encapsulation.{name}.vectors");
        shown.get(&path).cloned().unwrap_or_default()
    }

    /// The FPF rules of an FE.
    fn rules(&self, fe: &str) -> usize {
        let shown = self.fes[&id(fe)].plan.shown();
        let lids = shown
            .keys()
            .filter(|path| path.starts_with("fpf.rule.") && path.ends_with(".lid"));
        lids.count()
    }

    fn carrier(&mut self, fe: &str, port: &str, works: bool) {
        let port = (id(fe), port.to_owned());
        if works {
            self.down.remove(&port)
        } else {
            self.down.insert(port)
        };
    }

    /// The time in milliseconds until `condition` is true, at most ten seconds.
    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) -> u64 {
        for millis in (0..10_000).step_by(5) {
            if condition(self) {
                return millis;
            }
            self.run(5);
        }
        panic!("{what}: {:?}", self.journal);
    }

    /// An FE loses its association; with `forget` it restarts with its ports alone.
    fn lose(&mut self, name: &str, forget: bool) {
        let fe = self.fes.get_mut(&id(name)).unwrap();
        if let Some(link) = fe.link.take() {
            self.control.handle_disconnected(self.now, link);
            fe.agent.handle_disconnected(self.now, CE);
        }
        fe.is_cut = true;
        if forget {
            fe.plan = ports(name);
            fe.agent = agent(self.now, id(name), &fe.plan);
        }
    }

    fn mend(&mut self, name: &str) {
        self.fes.get_mut(&id(name)).unwrap().is_cut = false;
    }
}

fn request(keys: &str) -> PathRequest {
    let mut request = PathRequest::default();
    for key in keys.split_whitespace() {
        let (key, value) = key.split_once('=').unwrap();
        let value = ChangeValue::Text(value.replace('_', " "));
        match key {
            "lifetime" => request.lifetime = Some(value),
            key => drop(request.keys.insert(key.to_owned(), value)),
        }
    }
    request
}

const VIDEO: &str = "from=c1 to=a destination=10.0.6.0/24 protocol=udp";
const PLAIN: &str = "[path.plain]\nfrom = \"c1\"\nto = \"a\"\ndestination = \"10.0.7.0/24\"\n";

#[test]
fn a_path_stands_when_it_is_answered_moves_within_a_second_and_comes_back() {
    let mut world = World::new(PLAIN, &[]);
    let by_b = world.vectors("plain");
    assert_eq!(by_b.len(), 4, "two LIDs: {:?}", world.journal);
    assert!(FES.iter().all(|(fe, _)| world.rules(fe) == 2));
    let path = world.request(VIDEO).unwrap();
    assert_eq!(path.routes[0].elements, ["c1", "b1", "a1"]);
    assert_eq!((&*path.state, path.routes[0].cost), ("active", 2));
    assert_eq!(world.vectors("request-000001"), path.routes[0].vector);

    // b sees its link to c fail; c does not.
    world.carrier("b1", "c", false);
    let before = world.fes[&id("b1")].changes;
    let took = world.until("the path goes by d", |world| {
        world.vectors("request-000001") != by_b && world.vectors("plain") != by_b
    });
    assert!(took <= 250, "{took} ms");
    assert_eq!(
        world.fes[&id("b1")].changes,
        before,
        "only a vector changes"
    );
    let network = world.network();
    let failed: Vec<&str> = network
        .links
        .iter()
        .filter(|l| l.state == "failed")
        .map(|l| &*l.link)
        .collect();
    assert_eq!(failed, ["c-b"]);
    assert_eq!(network.paths[1].routes[0].elements, ["c1", "d1", "a1"]);

    // The link recovers, and is used once the recovery has lasted.
    world.off.insert((id("b1"), "c".to_owned()));
    world.carrier("b1", "c", true);
    world.run(200);
    world.off.clear(); // the port has its carrier before it can send
    world.run(900);
    assert_ne!(world.vectors("plain"), by_b);
    world.run(1200);
    assert_eq!(
        [world.vectors("plain"), world.vectors("request-000001")],
        [by_b.clone(), by_b]
    );

    assert_eq!(world.ask(PathCommand::Release(1)), Ok(Answer::Done));
    assert_eq!(world.vectors("request-000001"), "");
    assert!(world.stored.is_empty());
    let again = world.ask(PathCommand::Release(1)).unwrap_err();
    assert!(
        again.to_string().starts_with("there is no request 1"),
        "{again}"
    );
}

#[test]
fn a_request_that_cannot_be_met_is_refused_and_the_same_one_is_renewed() {
    let mut world = World::new(PLAIN, &[]);
    for (keys, why) in [
        (
            "from=c9 to=a destination=10.0.6.0/24",
            "from: there is no forwarding element `c9`",
        ),
        (
            "from=c1 to=z destination=10.0.6.0/24",
            "to: there is no domain `z`",
        ),
        ("from=c1 to=c destination=10.0.6.0/24", "no path is needed"),
        (
            "from=c1 to=a destinaton=10.0.6.0/24",
            "did you mean `destination`?",
        ),
        (
            "from=c1 to=a destination=10.0.6.1/24",
            "has bits set beyond its prefix length",
        ),
        ("from=c1 to=a", "version"),
        (
            "from=c1 through=c_a destination=10.0.6.0/24",
            "no working link leads from domain `c` to `a`",
        ),
        (
            "from=c1 to=a paths=3 disjoint=links destination=10.0.6.0/24",
            "2 of 3 paths",
        ),
        (
            "from=c1 to=a destination=10.0.7.0/24",
            "the path `plain` of the file already has these packets",
        ),
        (
            "from=c1 to=a destination=10.0.6.0/24 timeout=5_s",
            "set its `lifetime`",
        ),
        (
            "from=c1 to=a destination=10.0.6.0/24 lifetime=soon",
            "lifetime",
        ),
    ] {
        let refused = world.request(keys).unwrap_err();
        assert!(refused.contains(why), "{keys}: {refused}");
    }
    assert!(world.stored.is_empty());
    let first = world.request(&format!("{VIDEO} lifetime=10_s")).unwrap();
    world.run(8000);
    let second = world.request(&format!("{VIDEO} lifetime=10_s")).unwrap();
    assert_eq!((first.request, second.request), (Some(1), Some(1)));
    let other = world.request("from=c1 through=c_d_a destination=10.0.6.0/24 protocol=17");
    let other = other.unwrap_err();
    assert!(
        other.contains("request 1 already has these packets at `c1`"),
        "{other}"
    );
    let before =
        world.request("from=c1 through=c_d_a destination=10.0.6.0/24 protocol=17 priority=999");
    assert_eq!(before.unwrap().routes[0].elements[1], "d1");
    // Overlapping packets: the priority decides, and then the name, in which the older request sorts first.
    assert_eq!(
        world
            .request("from=c1 to=a destination=10.0.0.0/16")
            .unwrap()
            .path,
        "request-000003"
    );
    world.run(8000);
    assert!(
        !world.vectors("request-000001").is_empty(),
        "its lifetime began anew"
    );
    world.run(2500);
    assert_eq!(world.vectors("request-000001"), "");
    assert_eq!(world.stored.keys().copied().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_link_that_flaps_moves_paths_seldom_and_none_is_lost() {
    let mut world = World::new(PLAIN, &[]);
    let (by_b, before) = (world.vectors("plain"), world.fes[&id("c1")].changes);
    for _ in 0..300 {
        world.carrier("c1", "b", false);
        world.run(100);
        world.carrier("c1", "b", true);
        world.run(100);
    }
    let changes = world.fes[&id("c1")].changes - before;
    assert!(
        changes <= 12,
        "{changes} changes of vectors in a minute with 300 failures"
    );
    world.run(70_000);
    assert_eq!(world.vectors("plain"), by_b);
}

#[test]
fn hundreds_of_requests_at_once_are_few_messages_and_have_a_bound() {
    let mut world = World::new("", &[]);
    let keys = |n: usize| format!("{VIDEO} destination_ports={}", 1000 + n);
    let before = world.fes[&id("c1")].changes;
    let tickets: Vec<u64> = (0..300)
        .map(|n| world.begin(PathCommand::Request(request(&keys(n)))))
        .collect();
    world.run(3000);
    let answers: Vec<_> = tickets
        .iter()
        .map(|ticket| world.answers.remove(ticket).unwrap())
        .collect();
    let busy = answers
        .iter()
        .filter(|answer| **answer == Err(Refusal::Busy))
        .count();
    let good = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(
        (good, busy),
        (256, 44),
        "those beyond the places of waiting operators ask again"
    );
    let messages = world.fes[&id("c1")].changes - before;
    assert!(messages <= 20, "{messages} messages");
    for chunk in (300..300 + REQUESTS_MAX).collect::<Vec<_>>().chunks(200) {
        for n in chunk {
            world.begin(PathCommand::Request(request(&keys(*n))));
        }
        world.run(3000);
    }
    assert_eq!(world.stored.len(), REQUESTS_MAX);
    let full = world.request(&keys(5000)).unwrap_err();
    assert!(full.contains("there are already 1024 requests"), "{full}");
}

#[test]
fn elements_that_start_again_have_their_sections_and_those_that_are_away_carry_nothing() {
    let mut world = World::new(PLAIN, &[]);
    world.request(VIDEO).unwrap();
    let by_b = world.vectors("plain");
    world.lose("b1", true);
    let took = world.until("packets avoid b1", |world| world.vectors("plain") != by_b);
    assert!(took <= 250, "{took} ms");
    let by_d = world.vectors("plain");
    world.lose("d1", true);
    world.until("no path is left, and packets go by IP", |world| {
        world.vectors("plain").is_empty()
    });
    let network = world.network();
    let why = network.paths[0].why.as_deref().unwrap();
    assert_eq!(
        (&*network.paths[0].state, why),
        ("waits", "no path leads from `c1` to `a`")
    );
    world.mend("d1");
    world.until("d1 is back", |world| world.vectors("plain") == by_d);
    assert_eq!(
        world.rules("d1"),
        2,
        "its rules were there before the vector"
    );
    world.mend("b1");
    world.until("b1 is back", |world| world.vectors("plain") == by_b);
    // The edge itself restarts.
    world.lose("c1", true);
    world.run(100);
    let refused = world
        .request("from=c1 to=a destination=10.0.8.0/24")
        .unwrap_err();
    assert!(refused.contains("`c1` is unavailable"), "{refused}");
    world.mend("c1");
    world.until("c1 is back", |world| {
        world.vectors("plain") == by_b && world.vectors("request-000001") == by_b
    });
    assert_eq!(world.rules("c1"), 2);
}

#[test]
fn a_ce_that_starts_again_changes_nothing_until_all_are_there_and_removes_what_is_gone() {
    let mut world = World::new(PLAIN, &[]);
    world.request(VIDEO).unwrap();
    let by_b = world.vectors("plain");
    // The CE dies, and restarts with another file; b1 associates late.
    for (fe, _) in FES {
        world.lose(fe, false);
    }
    (world.control, world.paths) = (control(), PathService::default());
    world.follow("");
    for fe in ["a1", "c1", "d1"] {
        world.mend(fe);
    }
    world.run(3000);
    assert_eq!(
        [world.vectors("plain"), world.vectors("request-000001")],
        [by_b.clone(), by_b.clone()]
    );
    let early = world
        .request("from=c1 to=a destination=10.0.8.0/24")
        .unwrap_err();
    assert!(early.contains("has just started"), "{early}");
    world.mend("b1");
    world.until("what the file has lost is gone", |world| {
        world.vectors("plain").is_empty()
    });
    assert_eq!(
        world.vectors("request-000001"),
        by_b,
        "the store has the request"
    );
    // A reload restores the path, and removes an element.
    world.follow(PLAIN);
    world.until("the path is there again", |world| {
        world.vectors("plain") == by_b
    });
    let none = world
        .paths
        .replace(world.now, None, BTreeMap::new(), &mut world.control);
    assert_eq!(none, Ok(()));
    world.run(1000);
    assert!(
        FES.iter().all(|(fe, _)| world.rules(fe) == 0),
        "no network, no sections"
    );
}

#[test]
fn a_file_that_does_not_fit_the_ce_is_refused() {
    let with = |more: &str, fes: &[&str], desired: &[Change]| {
        let fes = fes.iter().map(|name| (*name, desired)).collect();
        let faults = PathService::check(&network(more), &fes).unwrap_err();
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        faults.join("\n")
    };
    let check = |more: &str, fes: &[&str]| with(more, fes, &[]);
    let all = ["a1", "b1", "c1", "d1"];
    let unknown = check("", &["a1", "b1", "c2", "d1"]);
    assert!(
        unknown.contains("the control element has no FE `c1`") && unknown.contains("[fe.c1]"),
        "{unknown}"
    );
    let name = check(&PLAIN.replace("plain", "request-7"), &all);
    assert!(name.contains("are reserved for requests"), "{name}");
    let bare = "[element.a2]\ndomain = \"a\"\n[link.inner]\nfrom = \"a1:in\"\nto = \"a2:out\"\n";
    let bare = check(bare, &["a1", "a2", "b1", "c1", "d1"]);
    assert!(bare.contains("link.inner.from_address: missing"), "{bare}");
    let at = |path: [&str; 4]| Change::new(ComponentPath::new(path), Scalar::Text("x".into()));
    let wish = at(["fpf", "encapsulation", "plain", "vectors"]);
    let twice = with(PLAIN, &all, &[wish]);
    assert_eq!(
        twice.matches("remove it there").count(),
        1,
        "c1 alone has this encapsulation: {twice}"
    );
    assert!(
        twice.contains("`fe.c1.fpf.encapsulation.plain.vectors`"),
        "{twice}"
    );
    let own = at(["fpf", "encapsulation", "own", "vectors"]);
    let fes = all.iter().map(|name| (*name, std::slice::from_ref(&own)));
    assert_eq!(PathService::check(&network(PLAIN), &fes.collect()), Ok(()));
}
