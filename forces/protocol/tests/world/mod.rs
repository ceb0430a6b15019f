//! FEs and CEs with a network between them, in virtual time; their messages are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_base::{Instant, Span};
use weir_protocol::session::Heartbeats;
use weir_protocol::session::ce::{self, Ce, LinkId};
use weir_protocol::session::execute::{self, Answer, Leaf, Target};
use weir_protocol::session::fe::{self, Failover, Fe, Retry, Stage, Standby};
use weir_protocol::wire::header::{Execution, View};
use weir_protocol::wire::message::{Config, PacketRedirect, Query, Selects};
use weir_protocol::wire::{
    Body, Content, Id, LfbSelect, MessageKind, Operation, OperationKind, Outcome, PathData,
    ResultCode, Selector,
};

pub(crate) const CE: Id = Id(0x4000_0001);
pub(crate) const BACKUP: Id = Id(0x4000_0002);

pub(crate) fn ms(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

pub(crate) fn fe_params(id: u32, ces: &[Id]) -> fe::Params {
    fe::Params {
        id: Id(id),
        setup: Selects::new(vec![]).unwrap(),
        extended_results: false,
        groups: vec![],
        ces: ces.to_vec(),
        heartbeats: Heartbeats::default(),
        failover: Failover {
            keeps: None,
            standby: Standby::None,
        },
        retry: Retry::default(),
        requests_max: 16,
        queue_bytes_max: 10_000,
    }
}

pub(crate) fn ce_params(id: Id) -> ce::Params {
    ce::Params {
        id,
        assigns: Some(100..=101),
        heartbeats: Heartbeats::default(),
        setup_max: Span::from_secs(5),
        links_max: 8,
        window: 4,
        requests_max: 50,
        queue_bytes_max: 10_000,
    }
}

/// A SET of component `id` of LFB 9.1.
pub(crate) fn set(id: u32, value: u8) -> Config {
    config(
        OperationKind::Set,
        PathData::full(vec![id], vec![value]).unwrap(),
    )
}

pub(crate) fn config(kind: OperationKind, path: PathData) -> Config {
    Selects::new(vec![select(kind, vec![path])]).unwrap()
}

pub(crate) fn get(id: u32) -> Query {
    let path = PathData::bare(vec![id]).unwrap();
    Selects::new(vec![select(OperationKind::Get, vec![path])]).unwrap()
}

pub(crate) fn select(kind: OperationKind, paths: Vec<PathData>) -> LfbSelect {
    LfbSelect::new(9, 1, vec![Operation::on(kind, paths).unwrap()]).unwrap()
}

/// Components by path; components from 90 on do not exist. The key of a row of table 7 is its index minus ten.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Store {
    pub(crate) values: BTreeMap<Vec<u32>, Vec<u8>>,
    before: Option<BTreeMap<Vec<u32>, Vec<u8>>>,
}

impl Target for Store {
    fn apply(&mut self, leaf: &Leaf<'_>) -> Answer {
        let mut path = Vec::new();
        let mut indices = Vec::new();
        for part in leaf.trail {
            path.extend(part.ids());
            if let Some(Selector::Key { values, .. }) = part.selector() {
                indices.push(10 + u32::from(values.first().copied().unwrap_or_default()));
                path.extend(indices.last());
            }
        }
        if path.first().is_some_and(|id| *id >= 90) {
            return Answer::code(ResultCode::ComponentDoesNotExist);
        }
        let content = leaf.trail.last().map(|part| part.content());
        let before = self.values.clone();
        let end = match (leaf.operation, content) {
            (OperationKind::Get, _) => match self.values.get(&path) {
                Some(value) => Content::Full(value.clone()),
                None => return Answer::code(ResultCode::NotFound),
            },
            (OperationKind::Set, Some(Content::Full(value))) => {
                self.values.insert(path, value.clone());
                Content::Outcome(Outcome::SUCCESS)
            }
            (OperationKind::Delete, _) if self.values.remove(&path).is_some() => {
                Content::Outcome(Outcome::SUCCESS)
            }
            _ => return Answer::code(ResultCode::NotFound),
        };
        self.before.get_or_insert(before);
        Answer {
            content: end,
            indices,
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

/// An FE that executes every request at once.
pub(crate) struct FeNode {
    pub(crate) fe: Fe,
    pub(crate) store: Store,
    prepared: Vec<Config>,
    /// Whether the FE sends nothing any longer, but keeps its links.
    pub(crate) mute: bool,
    /// Whether the FE refuses commits.
    pub(crate) refuses: bool,
    pub(crate) events: Vec<fe::Event>,
}

pub(crate) struct CeNode {
    pub(crate) ce: Ce,
    id: Id,
    /// Whether new links to the CE cannot be opened.
    pub(crate) dead: bool,
    pub(crate) events: Vec<ce::Event>,
}

enum Delivery {
    ToFe(Vec<u8>),
    ToCe(Vec<u8>),
    Open,
    Closed,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) fes: Vec<FeNode>,
    pub(crate) ces: Vec<CeNode>,
    /// The FE and the CE at the ends of a link.
    links: BTreeMap<LinkId, (usize, usize)>,
    under_way: BTreeMap<(Instant, u64), (LinkId, Delivery)>,
    serial: u64,
    pub(crate) delay: Span,
    /// Every `loses`-th of the messages that may be lost is lost; zero means no loss.
    pub(crate) loses: u64,
    pub(crate) log: String,
}

impl World {
    pub(crate) fn new(fes: Vec<fe::Params>, ces: Vec<ce::Params>) -> Self {
        let fe = |params| FeNode {
            fe: Fe::new(Instant::ZERO, params).unwrap(),
            store: Store::default(),
            prepared: vec![],
            mute: false,
            refuses: false,
            events: vec![],
        };
        let ce = |params: ce::Params| CeNode {
            id: params.id,
            ce: Ce::new(params).unwrap(),
            dead: false,
            events: vec![],
        };
        let mut world = Self {
            now: Instant::ZERO,
            fes: fes.into_iter().map(fe).collect(),
            ces: ces.into_iter().map(ce).collect(),
            links: BTreeMap::new(),
            under_way: BTreeMap::new(),
            serial: 0,
            delay: Span::from_millis(5),
            loses: 0,
            log: String::new(),
        };
        world.settle();
        world
    }

    /// One FE that is associated with one CE.
    pub(crate) fn pair() -> Self {
        let mut world = Self::new(vec![fe_params(2, &[CE])], vec![ce_params(CE)]);
        world.run(ms(100));
        assert_eq!(world.ces[0].ce.fes().count(), 1);
        world
    }

    pub(crate) fn ce(&mut self) -> &mut Ce {
        &mut self.ces[0].ce
    }

    pub(crate) fn fe(&mut self) -> &mut Fe {
        &mut self.fes[0].fe
    }

    pub(crate) fn ce_events(&mut self) -> Vec<ce::Event> {
        std::mem::take(&mut self.ces[0].events)
    }

    pub(crate) fn fe_events(&mut self) -> Vec<fe::Event> {
        std::mem::take(&mut self.fes[0].events)
    }

    /// Runs until an instant.
    pub(crate) fn run(&mut self, until: Instant) {
        self.settle();
        for _ in 0..100_000 {
            let timers = self
                .ces
                .iter()
                .filter(|c| !c.dead)
                .filter_map(|c| c.ce.poll_timeout());
            let timers = timers.chain(self.fes.iter().filter_map(|f| f.fe.poll_timeout()));
            let next = self.under_way.keys().map(|(at, _)| *at).chain(timers).min();
            let Some(at) = next.filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(at);
            self.step();
            self.settle();
        }
        panic!("time stands still at {:?}\n{}", self.now, self.log);
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= now
        {
            let (link, delivery) = entry.remove();
            self.deliver(link, delivery);
            self.settle();
        }
        for node in &mut self.fes {
            if node.fe.poll_timeout().is_some_and(|at| at <= now) {
                node.fe.handle_timeout(now);
                assert!(node.fe.poll_timeout().is_none_or(|next| next > now));
            }
        }
        for node in self.ces.iter_mut().filter(|node| !node.dead) {
            if node.ce.poll_timeout().is_some_and(|at| at <= now) {
                node.ce.handle_timeout(now);
                assert!(node.ce.poll_timeout().is_none_or(|next| next > now));
            }
        }
    }

    fn deliver(&mut self, link: LinkId, delivery: Delivery) {
        let (now, Some((f, c))) = (self.now, self.links.get(&link).copied()) else {
            return;
        };
        let ce = self.ces[c].id;
        match delivery {
            Delivery::ToFe(bytes) => self.fes[f].fe.handle_message(now, ce, &bytes),
            Delivery::ToCe(bytes) if !self.ces[c].dead => {
                self.ces[c].ce.handle_message(now, link, &bytes);
            }
            Delivery::ToCe(_) => {}
            Delivery::Open
                if self.ces[c].dead || !self.ces[c].ce.handle_connected(now, link, None) =>
            {
                self.links.remove(&link);
                self.fes[f].fe.handle_disconnected(now, ce);
            }
            Delivery::Open => self.fes[f].fe.handle_connected(now, ce),
            Delivery::Closed => {
                self.links.remove(&link);
                self.ces[c].ce.handle_disconnected(now, link);
                self.fes[f].fe.handle_disconnected(now, ce);
            }
        }
    }

    /// Does all work that is due now.
    pub(crate) fn settle(&mut self) {
        loop {
            let busy = (0..self.fes.len()).any(|f| self.settle_fe(f));
            let busy = (0..self.ces.len()).any(|c| self.settle_ce(c)) || busy;
            if !busy {
                return;
            }
        }
    }

    fn settle_fe(&mut self, f: usize) -> bool {
        let mut busy = false;
        while let Some(fe::Transmit { ce, message }) = self.fes[f].fe.poll_transmit() {
            busy = true;
            let link = self.link_of(f, ce);
            if let Some((link, c)) = link.filter(|_| !self.fes[f].mute) {
                self.note(&format!("fe {f}"), &format!("ce {c}"), &message);
                self.post(link, &message, Delivery::ToCe(message.clone()));
            }
        }
        while let Some(event) = self.fes[f].fe.poll_event() {
            busy = true;
            self.note_event(&format!("fe {f}"), &event);
            self.carry_out(f, &event);
            self.fes[f].events.push(event);
        }
        busy
    }

    fn settle_ce(&mut self, c: usize) -> bool {
        let (mut busy, now) = (false, self.now);
        if self.ces[c].dead {
            return false;
        }
        while let Some(ce::Transmit { link, message }) = self.ces[c].ce.poll_transmit(now) {
            busy = true;
            if let Some((f, _)) = self.links.get(&link).copied() {
                self.note(&format!("ce {c}"), &format!("fe {f}"), &message);
                self.post(link, &message, Delivery::ToFe(message.clone()));
            }
        }
        while let Some(event) = self.ces[c].ce.poll_event() {
            busy = true;
            self.note_event(&format!("ce {c}"), &event);
            if let ce::Event::Close(link) = event {
                self.post(link, &[], Delivery::Closed);
            }
            self.ces[c].events.push(event);
        }
        busy
    }

    fn carry_out(&mut self, f: usize, event: &fe::Event) {
        let now = self.now;
        let node = &mut self.fes[f];
        match event {
            fe::Event::Connect(ce) => {
                let c = self.ces.iter().position(|node| node.id == *ce).unwrap();
                let link = LinkId(self.serial);
                self.links.insert(link, (f, c));
                self.post(link, &[], Delivery::Open);
            }
            fe::Event::Disconnect(ce) => {
                if let Some((link, _)) = self.link_of(f, *ce) {
                    self.post(link, &[], Delivery::Closed);
                }
            }
            fe::Event::Config(ticket, stage, flags, config) => {
                let mut trial = node.store.clone();
                let target = match stage {
                    Stage::Execute => &mut node.store,
                    Stage::Prepare => {
                        node.prepared.push(config.clone());
                        &mut trial
                    }
                };
                let response = execute::config(config, flags.execution, flags.ack, target).unwrap();
                let response = response.map(Body::ConfigResponse);
                node.fe.respond(now, *ticket, response).unwrap();
            }
            fe::Event::Query(ticket, query) => {
                let response = Body::QueryResponse(execute::query(query, &mut node.store).unwrap());
                node.fe.respond(now, *ticket, Some(response)).unwrap();
            }
            fe::Event::Commit(ticket) => {
                let code = if node.refuses {
                    ResultCode::MemoryError
                } else {
                    node.commit()
                };
                node.fe.respond_commit(now, *ticket, code).unwrap();
            }
            fe::Event::Abort(ticket) => {
                node.prepared.clear();
                node.store.undo();
                if let Some(ticket) = ticket {
                    node.fe
                        .respond_commit(now, *ticket, ResultCode::Success)
                        .unwrap();
                }
            }
            fe::Event::Complete => {
                node.prepared.clear();
                node.store.keep();
            }
            _ => {}
        }
    }

    /// The newest link between an FE and a CE.
    pub(crate) fn link_of(&self, f: usize, ce: Id) -> Option<(LinkId, usize)> {
        let joins = |(_, (fe, c)): &(&LinkId, &(usize, usize))| *fe == f && self.ces[*c].id == ce;
        let (link, (_, c)) = self.links.iter().rfind(joins)?;
        Some((*link, *c))
    }

    /// The transport loses the link between an FE and a CE.
    pub(crate) fn cut(&mut self, f: usize, ce: Id) {
        if let Some((link, _)) = self.link_of(f, ce) {
            self.deliver(link, Delivery::Closed);
            self.settle();
        }
    }

    /// A CE fails; its links break.
    pub(crate) fn kill(&mut self, c: usize) {
        self.ces[c].dead = true;
        let links: BTreeSet<_> = self
            .links
            .iter()
            .filter(|(_, l)| l.1 == c)
            .map(|(l, _)| *l)
            .collect();
        for link in links {
            self.deliver(link, Delivery::Closed);
        }
        self.settle();
    }

    fn post(&mut self, link: LinkId, message: &[u8], delivery: Delivery) {
        self.serial += 1;
        let may_be_lost = View::new_checked(message).is_ok_and(|view| {
            let kind = view.kind();
            use MessageKind::{EventNotification, Heartbeat, PacketRedirect};
            matches!(kind, EventNotification | Heartbeat | PacketRedirect)
        });
        if may_be_lost && self.loses > 0 && self.serial.is_multiple_of(self.loses) {
            return;
        }
        self.under_way
            .insert((self.now + self.delay, self.serial), (link, delivery));
    }

    fn note(&mut self, from: &str, to: &str, message: &[u8]) {
        let view = View::new_checked(message).unwrap();
        let mut words = String::new();
        for word in message.chunks(4) {
            let word = u32::from_be_bytes(word.try_into().unwrap());
            write!(words, " {word:08x}").unwrap();
        }
        let time = self.now.as_nanos() / 1_000_000;
        writeln!(
            self.log,
            "{time:>6} ms  {from} -> {to}  {}:{words}",
            view.kind()
        )
        .unwrap();
    }

    fn note_event(&mut self, who: &str, event: &impl std::fmt::Debug) {
        let text = format!("{event:?}");
        let name = text
            .split(|c: char| !c.is_alphanumeric())
            .next()
            .unwrap_or_default();
        let brief = match name {
            "Config" | "Query" | "Response" | "Notified" | "Redirected" | "Associated" => name,
            _ => &text,
        };
        let time = self.now.as_nanos() / 1_000_000;
        writeln!(self.log, "{time:>6} ms  {who}: {brief}").unwrap();
    }

    /// Compares the conversation with the recording. `WEIR_GOLDEN_UPDATE=1` records it again.
    pub(crate) fn check(&self, name: &str) {
        let file = format!(
            "{}/tests/conversations/{name}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        if std::env::var("WEIR_GOLDEN_UPDATE").is_ok_and(|update| update == "1") {
            std::fs::write(&file, &self.log).unwrap();
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            recorded == self.log,
            "{name} differs; it is now:\n{}",
            self.log
        );
    }
}

impl FeNode {
    /// Executes all prepared changes; if one fails, undoes all.
    fn commit(&mut self) -> ResultCode {
        let before = self.store.values.clone();
        for config in std::mem::take(&mut self.prepared) {
            let mode = Execution::ContinueOnFailure;
            let ack = weir_protocol::wire::header::Ack::OnFailure;
            if execute::config(&config, mode, ack, &mut self.store)
                .unwrap()
                .is_some()
            {
                self.store.values = before;
                return ResultCode::Unspecified;
            }
        }
        self.store.before = Some(before); // until the transaction is complete
        ResultCode::Success
    }

    pub(crate) fn value(&self, id: u32) -> Option<u8> {
        self.store.values.get(&vec![id]).map(|value| value[0])
    }
}

/// A packet of one byte.
pub(crate) fn packet(byte: u8) -> PacketRedirect {
    let redirect = weir_protocol::wire::redirect::Redirect::new(vec![], vec![byte]).unwrap();
    PacketRedirect::new(vec![redirect]).unwrap()
}
