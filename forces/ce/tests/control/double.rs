//! An FE without a router: a table of components behind a ForCES session, and a network without delay to the CE.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::{Instant, Span};
use weir_ce::Control;
use weir_ce::contract::{
    Answer, FeConfig, LogEvent, Output, Params, Refusal, Request, StoreTicket, Ticket,
};
use weir_ce::controller::Bridge;
use weir_ce::desired::Desired;
use weir_lfb::Plan;
use weir_lfb::class::{Block, disciplines};
use weir_model::{Value, typed};
use weir_protocol::schema::{Access, Array, Class, Component, Integer, Kind, Registry, Size};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{self, LinkId};
use weir_protocol::session::execute::{self, Answer as Done, Leaf, Target};
use weir_protocol::session::fe::{Event, Failover, Fe, Params as FeParams, Retry, Stage, Standby};
use weir_protocol::value;
use weir_protocol::wire::message::{EventNotification, Selects};
use weir_protocol::wire::{
    Body, Content, Id, LfbSelect, Operation, OperationKind, PathData, ResultCode,
};

pub(crate) const CE: Id = Id(0x4000_0001);

type BlockId = (u32, u32);

/// The components of an FE, and its faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Box {
    pub(crate) values: BTreeMap<(BlockId, Vec<u32>), Content>,
    /// Components that the FE refuses to set.
    pub(crate) refuses: BTreeSet<(BlockId, Vec<u32>)>,
    /// Subscribed events: path and number of properties.
    pub(crate) subscribed: Vec<(BlockId, Vec<u32>)>,
    /// Number of changes executed.
    pub(crate) changes: usize,
    before: Option<BTreeMap<(BlockId, Vec<u32>), Content>>,
}

impl Target for Box {
    fn apply(&mut self, leaf: &Leaf<'_>) -> Done {
        let block = (leaf.class, leaf.instance);
        let ids: Vec<u32> = leaf
            .trail
            .iter()
            .flat_map(|path| path.ids().to_vec())
            .collect();
        let content = leaf.trail.last().map(|path| path.content().clone());
        let at = (block, ids);
        match (leaf.operation, content) {
            (OperationKind::Get, _) => {
                let value = self.values.get(&at).cloned().or_else(|| self.table(&at));
                value.map_or(Done::code(ResultCode::NotFound), Done::new)
            }
            (_, Some(_)) if self.refuses.contains(&at) => Done::code(ResultCode::ValueOutOfRange),
            (OperationKind::Set, Some(content)) => {
                self.save();
                self.values.insert(at, content);
                Done::code(ResultCode::Success)
            }
            (OperationKind::Delete, _) => {
                self.save();
                let gone = self.values.remove(&at);
                Done::code(gone.map_or(ResultCode::NotFound, |_| ResultCode::Success))
            }
            (OperationKind::SetProperty, _) => {
                self.subscribed.push(at);
                Done::code(ResultCode::Success)
            }
            _ => Done::code(ResultCode::InvalidOperation),
        }
    }

    fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.values = before;
        }
    }

    fn keep(&mut self) {
        self.before = None;
    }
}

impl Box {
    fn save(&mut self) {
        self.changes += 1;
        self.before.get_or_insert_with(|| self.values.clone());
    }

    /// The rows below a table of the FE object.
    fn table(&self, (block, ids): &(BlockId, Vec<u32>)) -> Option<Content> {
        let mut bytes = Vec::new();
        for ((other, path), content) in &self.values {
            if other == block && path.len() == ids.len() + 1 && path.starts_with(ids) {
                let Content::Full(row) = content else {
                    return None;
                };
                bytes.extend(path.last()?.to_be_bytes());
                bytes.extend(row);
            }
        }
        (!bytes.is_empty()).then_some(Content::Full(bytes))
    }

    fn put(&mut self, class: &weir_model::Class, instance: u32, id: u32, value: &Value) {
        let schema = Class::of(class);
        let kind = schema.component(&[id]).unwrap().kind.into_owned();
        let content = value::encode(&kind, value).unwrap();
        self.values
            .insert(((class.id, instance), vec![id]), content);
    }

    /// The components of a router with this configuration.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut all = Self::default();
        let class = |name: &str| Block::find(name).unwrap().class;
        let (status, ports, queues) = (class("status"), class("ports"), class("queues"));
        let mut blocks = vec![(1, 1), (status.id, 1)];
        let instance = |port: &str| {
            let at = plan.ports.iter().position(|p| p.name == port).unwrap();
            at as u32 + 1
        };
        for (n, port) in (1..).zip(&plan.ports) {
            let discipline = disciplines()
                .into_iter()
                .find(|c| c.name == port.discipline.kind());
            let discipline = discipline.unwrap();
            blocks.extend([(ports.id, n), (queues.id, n), (discipline.id, n)]);
            all.put(&ports, n, 1, &port.name.as_str().into());
            all.put(&queues, n, 2, &port.discipline.kind().into());
        }
        for change in plan.changes() {
            let segments = change.path.segments();
            let (class, instance, name) = match segments[..] {
                [name] => (status, 1, name),
                ["port", _, "discipline", "kind"] => continue,
                ["port", port, "discipline", name] => {
                    let kind = plan.ports[instance(port) as usize - 1].discipline.kind();
                    let class = disciplines().into_iter().find(|c| c.name == kind).unwrap();
                    (class, instance(port), name)
                }
                ["port", port, name] => (ports, instance(port), name),
                _ => continue, // belongs to an LFB that this FE does not have
            };
            let parameter = class.parameters.iter().find(|p| p.name == name).unwrap();
            let setting = parameter.check(&change.value.unwrap()).unwrap();
            all.put(
                &class,
                instance,
                parameter.id,
                &typed::in_force(parameter, &setting),
            );
        }
        for (row, (class, instance)) in (1..).zip(blocks) {
            let words = [class, instance].map(u32::to_be_bytes).concat();
            all.values
                .insert(((1, 1), vec![2, row]), Content::Full(words));
        }
        all
    }
}

/// The classes that the CE knows: weir's own, and the required part of the FE object.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    let blocks = weir_lfb::class::all();
    for class in blocks {
        registry.add(Class::of(&class)).unwrap();
    }
    registry.add(fe_object()).unwrap();
    registry
}

fn fe_object() -> Class {
    let component = |id, name: &str, kind| Component {
        id,
        name: name.to_owned(),
        about: String::new(),
        access: Access::ReadWrite,
        is_capability: false,
        optional: false,
        kind,
        default: None,
    };
    let number = || Kind::Number(Integer::Uint32.into());
    let selector = Kind::Struct(vec![
        component(1, "LFBClassID", number()),
        component(2, "LFBInstanceID", number()),
    ]);
    let selectors = Kind::Array(std::boxed::Box::new(Array {
        size: Size::Variable(None),
        element: selector,
        keys: Vec::new(),
    }));
    Class {
        id: 1,
        name: "FEObject".to_owned(),
        version: "1.0".to_owned(),
        about: String::new(),
        components: vec![
            component(2, "LFBSelectors", selectors),
            component(3, "FEName", Kind::Text(Some(40))),
        ],
        events_base: None,
        events: Vec::new(),
    }
}

/// A simulated FE.
pub(crate) struct Element {
    pub(crate) fe: Fe,
    pub(crate) state: Box,
    link: Option<LinkId>,
    prepared: Vec<(
        weir_protocol::wire::header::Flags,
        weir_protocol::wire::message::Config,
    )>,
}

/// A CE, its FEs, and the network between them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) control: Control,
    pub(crate) fes: BTreeMap<Id, Element>,
    pub(crate) answers: BTreeMap<u64, Result<Answer, Refusal>>,
    pub(crate) journal: Vec<LogEvent>,
    /// Changes written to the store. It writes at once, unless it is broken.
    pub(crate) stored: Vec<String>,
    pub(crate) store_is_broken: bool,
    /// The controllers of the CE.
    pub(crate) bridge: Bridge,
    links: u64,
    tickets: u64,
}

impl World {
    /// Creates a CE with a desired state for each of these FEs.
    pub(crate) fn new(fes: Vec<(&str, Desired, Box)>) -> Self {
        let session = ce::Params {
            id: CE,
            assigns: None,
            heartbeats: Heartbeats::default(),
            setup_max: Span::from_secs(5),
            links_max: 16,
            window: 16,
            requests_max: 256,
            queue_bytes_max: 1 << 20,
        };
        let params = Params {
            session,
            answer_max: Span::from_secs(5),
        };
        let now = Instant::from_nanos(1);
        let members = fes
            .iter()
            .zip(1..)
            .map(|((name, desired, _), id)| FeConfig {
                name: (*name).to_owned(),
                id: Id(id),
                is_pinned: true,
                desired: desired.clone(),
                kept: BTreeMap::new(),
                components: BTreeMap::new(),
                routes: Default::default(),
            });
        let control = Control::new(params, registry(), members.collect()).unwrap();
        let elements = fes.into_iter().zip(1..).map(|((_, _, state), id)| {
            let element = Element {
                fe: Fe::new(now, fe_params(Id(id))).unwrap(),
                state,
                link: None,
                prepared: Vec::new(),
            };
            (Id(id), element)
        });
        Self {
            now,
            control,
            fes: elements.collect(),
            answers: BTreeMap::new(),
            journal: Vec::new(),
            stored: Vec::new(),
            store_is_broken: false,
            bridge: Bridge::new(now, &[]),
            links: 0,
            tickets: 0,
        }
    }

    /// Runs everything that is due within `span`.
    pub(crate) fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            while self.step() {}
            let timeouts = self
                .fes
                .values()
                .filter_map(|element| element.fe.poll_timeout());
            let of_ce = [self.control.poll_timeout(), self.bridge.poll_timeout()];
            let next = timeouts.chain(of_ce.into_iter().flatten()).min();
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.control.handle_timeout(self.now);
            for element in self.fes.values_mut() {
                element.fe.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    /// Sends a request, and returns the answer.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer, Refusal> {
        let ticket = self.begin(request);
        self.run(Span::from_millis(100));
        self.answers.remove(&ticket).expect("no answer")
    }

    pub(crate) fn begin(&mut self, request: Request) -> u64 {
        self.tickets += 1;
        self.control
            .request(self.now, Ticket(self.tickets), request);
        self.tickets
    }

    /// The link of an FE fails.
    pub(crate) fn cut(&mut self, fe: Id) {
        let element = self.fes.get_mut(&fe).unwrap();
        if let Some(link) = element.link.take() {
            self.control.handle_disconnected(self.now, link);
            element.fe.handle_disconnected(self.now, CE);
        }
    }

    /// An FE reports an event.
    pub(crate) fn report(&mut self, fe: Id, block: BlockId, path: PathData) {
        let operation = Operation::on(OperationKind::Report, vec![path]).unwrap();
        let select = LfbSelect::new(block.0, block.1, vec![operation]).unwrap();
        let event: EventNotification = Selects::new(vec![select]).unwrap();
        let element = self.fes.get_mut(&fe).unwrap();
        element.fe.notify(self.now, &event).unwrap();
    }

    fn step(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.control.poll_output() {
            moved = true;
            if let Some(output) = self.bridge.handle_output(self.now, output) {
                self.output(output);
            }
        }
        self.bridge.settle(self.now, &mut self.control);
        while let Some(transmit) = self.control.poll_transmit(self.now) {
            moved = true;
            let mut elements = self.fes.values_mut();
            if let Some(element) = elements.find(|e| e.link == Some(transmit.link)) {
                element.fe.handle_message(self.now, CE, &transmit.message);
            }
        }
        for id in self.fes.keys().copied().collect::<Vec<_>>() {
            moved |= self.step_fe(id);
        }
        moved
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Answer(ticket, answer) => {
                self.answers.insert(ticket.0, answer);
            }
            Output::Store(ticket, records) => {
                self.stored.push(format!("{records:?}"));
                self.kept(ticket);
            }
            Output::LogEvent(journal) => self.journal.push(journal),
            Output::Close(link) => {
                let mut elements = self.fes.values_mut();
                if let Some(element) = elements.find(|e| e.link == Some(link)) {
                    element.link = None;
                    element.fe.handle_disconnected(self.now, CE);
                }
            }
            Output::Noticed(_) | Output::Redirected(..) => {}
        }
    }

    fn kept(&mut self, ticket: StoreTicket) {
        let done = if self.store_is_broken {
            Err("no space left".to_owned())
        } else {
            Ok(())
        };
        self.control.handle_stored(self.now, ticket, done);
    }

    fn step_fe(&mut self, id: Id) -> bool {
        let now = self.now;
        let element = self.fes.get_mut(&id).unwrap();
        let mut moved = false;
        let mut events = VecDeque::new();
        while let Some(event) = element.fe.poll_event() {
            events.push_back(event);
        }
        for event in events {
            moved = true;
            match event {
                Event::Connect(_) => {
                    self.links += 1;
                    let link = LinkId(self.links);
                    element.link = Some(link);
                    self.control.handle_connected(now, link, Some(id), "test");
                    element.fe.handle_connected(now, CE);
                }
                Event::Disconnect(_) => {
                    if let Some(link) = element.link.take() {
                        self.control.handle_disconnected(now, link);
                    }
                }
                event => element.serve(now, event),
            }
        }
        while let Some(transmit) = element.fe.poll_transmit() {
            moved = true;
            if let Some(link) = element.link {
                self.control.handle_message(now, link, &transmit.message);
            }
        }
        moved
    }
}

impl Element {
    fn serve(&mut self, now: Instant, event: Event) {
        match event {
            Event::Query(ticket, query) => {
                let response = execute::query(&query, &mut self.state).unwrap();
                let body = Some(Body::QueryResponse(response));
                self.fe.respond(now, ticket, body).unwrap();
            }
            Event::Config(ticket, stage, flags, config) => {
                let mut trial = self.state.clone();
                let target = match stage {
                    Stage::Execute => &mut self.state,
                    _ => &mut trial,
                };
                let response = execute::config(&config, flags.execution, flags.ack, target);
                let body = response.unwrap().map(Body::ConfigResponse);
                if stage != Stage::Execute {
                    self.prepared.push((flags, config));
                }
                self.fe.respond(now, ticket, body).unwrap();
            }
            Event::Commit(ticket) => {
                for (flags, config) in self.prepared.drain(..) {
                    let done =
                        execute::config(&config, flags.execution, flags.ack, &mut self.state);
                    done.unwrap();
                }
                self.fe
                    .respond_commit(now, ticket, ResultCode::Success)
                    .unwrap();
            }
            Event::Abort(ticket) => {
                self.prepared.clear();
                if let Some(ticket) = ticket {
                    self.fe
                        .respond_commit(now, ticket, ResultCode::Success)
                        .unwrap();
                }
            }
            _ => {}
        }
    }
}

fn fe_params(id: Id) -> FeParams {
    FeParams {
        id,
        setup: Selects::new(Vec::new()).unwrap(),
        extended_results: false,
        groups: Vec::new(),
        ces: vec![CE],
        heartbeats: Heartbeats::default(),
        failover: Failover {
            keeps: Some(Span::from_secs(300)),
            standby: Standby::Cold,
        },
        retry: Retry::default(),
        requests_max: 64,
        queue_bytes_max: 1 << 20,
    }
}
