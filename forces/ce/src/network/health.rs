//! Health of links and elements, derived from the elements' ports and associations.
//!
//! The CE subscribes to carrier loss and recovery at every port of a link. A lost carrier counts at once; after any of
//! these events, and every [`READ_INTERVAL`], the CE reads all ports of the element, so that it notices a failure even
//! if the event is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::setting::{did_you_mean, nearest};
use weir_base::{Instant, Span};
use weir_lfb::named::Named;
use weir_model::{Change, ComponentPath, ElementPath, Fault, Value};
use weir_paths::{FeId, LinkId};

use super::Note;
use super::hold_down::{HoldDown, State};
use super::rollout::Rollout;
use super::state::Network;
use crate::contract::{Answer, CeSubscription, Filter, Refusal, Request, WatchId};
use weir_network::{NetworkPlan, wrong};

/// Interval between reads of all ports without an event. A watch ends after three intervals without a fetch.
const READ_INTERVAL: Span = Span::from_secs(20);
/// Read interval while a port is down, or could not be read: a recovering port has a carrier before it can send, and no
/// event reports that it can.
const RETRY: Span = Span::from_secs(1);
/// The class with the ports of an FE, and its events.
const PORTS: &str = "ports";
const LOST: &str = "carrier_lost";
const FOUND: &str = "carrier_found";

/// An FE and its port, by name.
type Port = (String, String);

/// A request to an FE.
#[derive(Clone, Debug)]
pub(super) enum HealthQuery {
    /// Subscribe to an event of a port.
    Watch(Port, &'static str),
    /// Read the ports of this FE.
    Ports(String),
    /// Fetch the notices of a watch.
    Fetch(WatchId),
}

/// A link or element entered or left service.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Link(LinkId, bool, Note),
    Element(FeId, bool, Note),
}

#[derive(Debug)]
struct Element {
    fe: FeId,
    hold_down: HoldDown,
    /// Ports of the element's links, and whether each port works; empty before the first read.
    ports: BTreeMap<String, bool>,
    /// Whether the ports were read since the element associated.
    is_read: bool,
    is_reading: bool,
    /// Whether a new read was requested during the current read.
    is_old: bool,
    /// Time of the next read without an event.
    read_at: Instant,
}

#[derive(Debug)]
struct Link {
    id: LinkId,
    /// Ports at both ends of the link; a tunnel has none.
    ports: Vec<Port>,
    hold_down: HoldDown,
}

/// Health of the links and elements of a network.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// FEs in sync, including FEs outside the network.
    there: BTreeSet<String>,
    elements: BTreeMap<String, Element>,
    links: BTreeMap<String, Link>,
    /// Whether failures count: the network has started.
    has_begun: bool,
    watches: BTreeMap<WatchId, (Port, &'static str)>,
    /// Subscriptions, including those in progress.
    watched: BTreeSet<(Port, &'static str)>,
    noticed: BTreeSet<WatchId>,
    /// Time of the next fetch from all watches without a notice.
    fetch_at: Instant,
    wishes: VecDeque<HealthQuery>,
    events: VecDeque<Event>,
}

/// Reports elements that are not FEs of the CE, and links whose ends have no addresses.
pub(super) fn check_elements(plan: &NetworkPlan, fes: &BTreeMap<&str, &[Change]>) -> Vec<Fault> {
    let topology = &plan.topology;
    let names = topology.fes().map(|fe| &topology.fe(fe).name);
    let unknown = names.filter(|name| !fes.contains_key(&name[..]));
    let faults = unknown.map(|name| {
        let near = did_you_mean(nearest(name, fes.keys().copied()));
        let why = format!(
            "the control element has no FE `{name}`{near} (its configuration needs [fe.{name}])"
        );
        Fault::new(ComponentPath::new(["element", name]), why)
    });
    let ends = plan.links.iter().flat_map(|(name, id)| {
        let ends = topology.link(*id).ends.iter();
        let keys = ["from_address", "to_address"];
        let is_tunnel = plan.port(*id, topology.link(*id).ends[0].fe).is_none();
        let missing = ends
            .zip(keys)
            .filter(move |(end, _)| !is_tunnel && end.address.is_none());
        missing.map(move |(_, key)| {
            let why = "missing: the previous element sends its frames to this address";
            wrong("link", name, key, why)
        })
    });
    faults.chain(ends).collect()
}

impl Health {
    /// Switches to another network. Keeps the state of elements and links with the same names, and applies it to
    /// `network`.
    pub(super) fn replace(&mut self, now: Instant, network: &mut Network) {
        let (mut elements, mut links) = (BTreeMap::new(), BTreeMap::new());
        let plan = network.plan.clone();
        let topology = &plan.topology;
        let mut unseen = Rollout::default(); // discarded: the caller then wants all sections
        for fe in topology.fes() {
            let name = topology.fe(fe).name.clone();
            let known = self.elements.remove(&name);
            let is_new = known.is_none();
            let element = Element {
                fe,
                ..known.unwrap_or_else(|| Element::new(fe))
            };
            if self.has_begun && !matches!(element.hold_down.state(), State::Used(_)) {
                network.handle_fe(fe, false, &mut unseen);
            }
            elements.insert(name.clone(), element);
            if is_new && self.there.contains(&name) {
                self.wishes.push_back(HealthQuery::Ports(name));
            }
        }
        for (name, id) in &plan.links {
            let ends = topology.link(*id).ends.iter();
            let ports = ends.filter_map(|end| {
                let port = plan.port(*id, end.fe)?.to_owned();
                Some((topology.fe(end.fe).name.clone(), port))
            });
            let known = self.links.remove(name).map(|link| link.hold_down);
            let link = Link {
                id: *id,
                ports: ports.collect(),
                hold_down: known.unwrap_or_else(|| HoldDown::used(now)),
            };
            if self.has_begun && !matches!(link.hold_down.state(), State::Used(_)) {
                network.handle_link(*id, false, &mut unseen);
            }
            links.insert(name.clone(), link);
        }
        (self.elements, self.links) = (elements, links);
        self.watch();
        self.decide(now);
    }

    /// Starts to count failures. Elements that are not associated have failed.
    pub(super) fn begin(&mut self, now: Instant) {
        self.has_begun = true;
        for (name, element) in &mut self.elements {
            if element.is_read && self.there.contains(name) {
                element.hold_down = HoldDown::used(now)
            } else {
                let why = "it is not associated".to_owned();
                let note = Note::Failed(format!("element {name}"), why);
                self.events
                    .push_back(Event::Element(element.fe, false, note));
            }
        }
        self.decide(now);
    }

    /// Whether all elements are in sync, and their ports are known.
    pub(super) fn is_complete(&self) -> bool {
        let mut elements = self.elements.iter();
        elements.all(|(name, element)| element.is_read && self.there.contains(name))
    }

    /// Handles an FE that is in sync.
    pub(super) fn comes(&mut self, fe: &str) {
        if self.there.insert(fe.to_owned()) && self.elements.contains_key(fe) {
            self.wishes.push_back(HealthQuery::Ports(fe.to_owned()));
        }
        self.watch();
    }

    /// Handles an FE that is disconnected, or that refused its desired state.
    pub(super) fn goes(&mut self, now: Instant, fe: &str, why: &str) {
        self.there.remove(fe);
        let Some(element) = self.elements.get_mut(fe) else {
            return;
        };
        element.is_read = false;
        if self.has_begun && element.hold_down.fail(now) {
            let note = Note::Failed(format!("element {fe}"), why.to_owned());
            self.events
                .push_back(Event::Element(element.fe, false, note));
        }
    }

    /// Subscribes to the port events of FEs in sync, once per port and event.
    fn watch(&mut self) {
        let links = self.links.values();
        let ports = links
            .flat_map(|link| &link.ports)
            .filter(|(fe, _)| self.there.contains(fe));
        for port in ports {
            for event in [LOST, FOUND] {
                if self.watched.insert((port.clone(), event)) {
                    self.wishes
                        .push_back(HealthQuery::Watch(port.clone(), event));
                }
            }
        }
    }

    /// Whether a watch belongs to this module.
    pub(super) fn watches(&self, watch: WatchId) -> bool {
        self.watches.contains_key(&watch)
    }

    /// Records that a watch has notices.
    pub(super) fn noticed(&mut self, watch: WatchId) {
        self.noticed.insert(watch);
    }

    /// The requests that are due.
    pub(super) fn poll_wishes(&mut self, now: Instant) -> Vec<(HealthQuery, Request)> {
        if self.fetch_at <= now {
            self.fetch_at = now + READ_INTERVAL;
            self.noticed.extend(self.watches.keys());
        }
        for (name, element) in &mut self.elements {
            if element.read_at <= now && self.there.contains(name) {
                element.read_at = now + READ_INTERVAL;
                self.wishes.push_back(HealthQuery::Ports(name.clone()));
            }
        }
        let fetches = std::mem::take(&mut self.noticed)
            .into_iter()
            .map(HealthQuery::Fetch);
        let wishes: Vec<HealthQuery> = self.wishes.drain(..).chain(fetches).collect();
        let mut requests = Vec::new();
        for wish in wishes {
            let request = match &wish {
                HealthQuery::Watch((fe, port), event) => Request::Watch(CeSubscription {
                    path: ElementPath {
                        fe: fe.clone(),
                        path: Named::Port.path(port).join(event),
                    },
                    filter: Filter::default(),
                }),
                HealthQuery::Fetch(watch) => Request::Fetch(*watch),
                HealthQuery::Ports(fe) => {
                    let Some(element) = self.elements.get_mut(fe) else {
                        continue;
                    };
                    element.is_old |= element.is_reading;
                    if std::mem::replace(&mut element.is_reading, true) {
                        continue; // repeated after the answer
                    }
                    let class = PORTS.to_owned();
                    Request::Read {
                        fe: fe.clone(),
                        class,
                    }
                }
            };
            requests.push((wish, request));
        }
        requests
    }

    /// Handles the answer to a request.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        wish: HealthQuery,
        answer: Result<Answer, Refusal>,
    ) {
        match (wish, answer) {
            (HealthQuery::Watch(port, event), Ok(Answer::Watching(watch))) => {
                self.watches.insert(watch, (port, event));
            }
            (HealthQuery::Watch(port, event), _) => {
                self.watched.remove(&(port, event)); // repeated when the FE is next in sync
            }
            (HealthQuery::Fetch(_), Ok(Answer::Notices(notices))) => {
                for notice in &notices.notices {
                    self.notice(now, notice);
                }
            }
            (HealthQuery::Fetch(watch), _) => {
                if let Some(ended) = self.watches.remove(&watch) {
                    self.watched.remove(&ended);
                    self.watch();
                }
            }
            (HealthQuery::Ports(fe), Ok(Answer::Value(rows))) => self.read(now, &fe, &rows),
            (HealthQuery::Ports(fe), _) => {
                if let Some(element) = self.elements.get_mut(&fe) {
                    element.read_at = now + RETRY;
                    (element.is_reading, element.is_old) = (false, false);
                }
            }
        }
    }

    /// Handles a port event.
    fn notice(&mut self, now: Instant, notice: &Value) {
        let [fe, port, event] = ["fe", "instance", "event"].map(|name| notice.text(name));
        let (Some(fe), Some(port)) = (fe, port) else {
            return; // an error of the subscription
        };
        if let Some(element) = self.elements.get_mut(fe) {
            if event == Some(LOST) {
                element.ports.insert(port.to_owned(), false);
            }
            self.wishes.push_back(HealthQuery::Ports(fe.to_owned()));
        }
        self.decide(now);
    }

    /// Stores the state of an FE's ports.
    fn read(&mut self, now: Instant, fe: &str, rows: &Value) {
        let Some(element) = self.elements.get_mut(fe) else {
            return;
        };
        element.is_reading = false;
        if std::mem::take(&mut element.is_old) {
            return self.wishes.push_back(HealthQuery::Ports(fe.to_owned()));
        }
        if !self.there.contains(fe) {
            return;
        }
        let is_true = |row: &Value, name| row.get(name) == Some(&Value::Flag(true));
        let port = |row: &Value| {
            let works = is_true(row, "up") && is_true(row, "carrier");
            Some((row.text("port")?.to_owned(), works))
        };
        element.ports = rows.rows().iter().filter_map(port).collect();
        element.is_read = true;
        let mut of_links = self.links.values().flat_map(|link| &link.ports);
        let fails = |(of, port): &Port| of == fe && element.ports.get(port) != Some(&true);
        let interval = if of_links.any(fails) {
            RETRY
        } else {
            READ_INTERVAL
        };
        element.read_at = now + interval;
        if self.has_begun {
            element.hold_down.come_back(now);
        }
        self.decide(now);
    }

    /// Compares each link with the ports at its ends. A disconnected FE's ports have their last known state.
    fn decide(&mut self, now: Instant) {
        if !self.has_begun {
            return;
        }
        for (name, link) in &mut self.links {
            let fails = |(fe, port): &&Port| {
                let element = self.elements.get(fe);
                let known = element.filter(|element| !element.ports.is_empty());
                known.is_some_and(|element| element.ports.get(port) != Some(&true))
            };
            match link.ports.iter().find(fails) {
                None => link.hold_down.come_back(now),
                Some((fe, port)) => {
                    if link.hold_down.fail(now) {
                        let why = format!("{fe}:{port} has no carrier");
                        let note = Note::Failed(format!("link {name}"), why);
                        self.events.push_back(Event::Link(link.id, false, note));
                    }
                }
            }
        }
    }

    /// Returns links and elements to service whose hold-down has ended.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for (name, element) in &mut self.elements {
            if element.hold_down.handle_timeout(now) {
                let note = Note::Used(format!("element {name}"));
                self.events
                    .push_back(Event::Element(element.fe, true, note));
            }
        }
        for (name, link) in &mut self.links {
            if link.hold_down.handle_timeout(now) {
                let note = Note::Used(format!("link {name}"));
                self.events.push_back(Event::Link(link.id, true, note));
            }
        }
    }

    /// Returns the next event.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Time at which the next work is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let elements = self.elements.values().map(|element| &element.hold_down);
        let all = elements.chain(self.links.values().map(|link| &link.hold_down));
        let holds = all.filter_map(HoldDown::poll_timeout);
        let there = |(name, element): (&String, &Element)| {
            self.there.contains(name).then_some(element.read_at)
        };
        let reads = self.elements.iter().filter_map(there);
        holds.chain(reads).chain([self.fetch_at]).min()
    }

    /// Whether `name` is an element that is out of service.
    pub(super) fn is_away(&self, name: &str) -> bool {
        let element = self.elements.get(name);
        element.is_some_and(|element| !matches!(element.hold_down.state(), State::Used(_)))
    }

    /// The state of an element as one word.
    pub(super) fn state_of_element(&self, name: &str) -> &'static str {
        let element = self.elements.get(name);
        element.map_or("failed", |element| word(&element.hold_down))
    }

    /// The state of a link as one word, and its number of failures.
    pub(super) fn state_of_link(&self, name: &str) -> (&'static str, u64) {
        let hold_down = self.links.get(name).map(|link| &link.hold_down);
        hold_down.map_or(("failed", 0), |hold| (word(hold), hold.failures()))
    }
}

impl Element {
    fn new(fe: FeId) -> Self {
        Self {
            fe,
            hold_down: HoldDown::away(),
            ports: BTreeMap::new(),
            is_read: false,
            is_reading: false,
            is_old: false,
            read_at: Instant::ZERO,
        }
    }
}

fn word(hold_down: &HoldDown) -> &'static str {
    match hold_down.state() {
        State::Used(_) => "works",
        State::Failed => "failed",
        State::Held(_) => "held",
    }
}
