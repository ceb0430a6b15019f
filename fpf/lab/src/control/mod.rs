//! Flexible packet forwarding (FPF) and the events of a scenario: a controller that knows the whole network. Both
//! habitats carry out its decisions.
//!
//! ```text
//!   domains, links ──▶ Paths ──▶ rules ──▶ table of each router
//!   encapsulations ──▶       ──▶ vectors ──▶ rules of the ingress edges
//!   events: a link is cut ──▶ Paths ──▶ changes ──▶ tables, edges
//! ```
//!
//! The controller learns of a link failure at the instant of the event. Paths that a scenario names stay unchanged when
//! one of their links fails, because an operator chose them; paths that the controller found are recomputed. IP routes
//! do not change during a run.
//!
//! - [`survey`]: the network as the controller sees it
//! - [`code`]: processors that code packets at the ingress edge, and decode them at the last router; caches

pub(crate) mod code;
mod survey;

use std::collections::{BTreeMap, BTreeSet};

use weir_base::Span;
use weir_experiment::Error;
use weir_experiment::scenario::{Scenario, TrafficKind};
use weir_experiment::topology::{PORT_FIRST, Topology};
use weir_fpf_path::edge::paths::{Paths as Vectors, Spread as Sharing};
use weir_fpf_path::edge::profile::Shape;
use weir_fpf_path::header::Vector;
use weir_network::Processors;
use weir_paths::{
    Carry, Change, FeId, Filter, LinkId, Paths, Payload, Request, Spread, Step, Target,
};
use weir_wire::Protocol;

use self::survey::{Survey, refused};
use crate::scenario::{Effect, Forwarding, Path, Selection};

/// Counts of changes by events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changed {
    /// Changed rows of forwarding tables.
    pub(crate) rows: u64,
    /// Changed encapsulation rules.
    pub(crate) encapsulations: u64,
}

/// A change that a habitat carries out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Gives an element the processor of this number.
    Processor { fe: FeId, number: u32 },
    /// Gives an element the controller's table for it.
    Table(FeId),
    /// Gives an edge the controller's rule for this encapsulation, or removes the rule.
    Edge(usize),
    /// Makes a link of the scenario fail in both directions, or work again if true.
    Link(usize, bool),
}

/// The controller with its events.
#[derive(Debug)]
pub(crate) struct Controller {
    paths: Paths,
    nodes: BTreeMap<FeId, usize>,
    /// The flows by encapsulation, followed by the flows of interests, which caches need.
    flows: Vec<Flow>,
    processors: Processors,
    /// For each link of the scenario, the links of the controller that it consists of.
    links: Vec<Vec<LinkId>>,
    /// The events in descending order of time: the next event is the last.
    events: Vec<(Span, Action)>,
    changed: Changed,
}

/// An encapsulation.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The edge that adds the header.
    pub(crate) edge: FeId,
    /// The packets to encapsulate.
    pub(crate) filter: Filter,
    /// Whether they are IPv6 packets.
    pub(crate) ipv6: bool,
    /// The vectors in use; `None` without a path.
    pub(crate) vectors: Option<Vectors>,
    /// The shaper of the encapsulated packets; `None` without shaping.
    pub(crate) shape: Option<Shape>,
    sharing: Sharing,
    weights: Vec<u32>,
    /// The controller's request; `None` if the scenario names the paths.
    request: Option<u64>,
}

#[derive(Debug)]
enum Action {
    Cut(usize),
    Join(usize),
    Change(usize, Vectors),
}

impl Controller {
    /// The controller of a scenario, and its initial writes.
    pub(crate) fn new(
        scenario: &Scenario,
        topology: &Topology,
    ) -> Result<(Self, Vec<Write>), Error> {
        let survey = Survey::of(scenario, topology)?;
        let paths = Paths::new(survey.network).map_err(refused("domains"))?;
        let mut controller = Self {
            paths,
            nodes: survey.nodes,
            flows: Vec::new(),
            processors: Processors::new(),
            links: survey.links,
            events: Vec::new(),
            changed: Changed::default(),
        };
        let mut writes = controller.choose(scenario)?;
        writes.extend(controller.nodes.keys().copied().map(Write::Table));
        writes.extend((0..controller.flows.len()).map(Write::Edge));
        for event in &Forwarding::of(scenario).events {
            let action = match &event.effect {
                Effect::Cut(link) => Action::Cut(*link),
                Effect::Join(link) => Action::Join(*link),
                Effect::Change(number, named) => {
                    let vectors = controller.named(scenario, *number, named)?;
                    Action::Change(*number, vectors)
                }
            };
            controller.events.push((event.at, action));
        }
        controller.events.reverse();
        Ok((controller, writes))
    }

    /// The paths, with the rules of each element.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The elements, each with the index of its node in the topology.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (FeId, usize)> {
        self.nodes.iter().map(|(fe, node)| (*fe, *node))
    }

    /// The index of an element's node in the topology.
    pub(crate) fn node(&self, fe: FeId) -> usize {
        self.nodes[&fe]
    }

    /// The encapsulations, in the order of the scenario.
    pub(crate) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The processors that the controller's rules name.
    pub(crate) fn processors(&self) -> &Processors {
        &self.processors
    }

    /// Counts of the changes by events so far.
    pub(crate) fn changed(&self) -> Changed {
        self.changed
    }

    /// The time of the next event.
    pub(crate) fn poll_timeout(&self) -> Option<Span> {
        self.events.last().map(|(at, _)| *at)
    }

    /// Handles the events up to this time of the run.
    pub(crate) fn handle_timeout(&mut self, now: Span) -> Result<Vec<Write>, Error> {
        let mut writes = Vec::new();
        while let Some((at, action)) = self.events.pop() {
            if at > now {
                self.events.push((at, action));
                break;
            }
            match action {
                Action::Cut(link) => self.set_link(link, false, &mut writes),
                Action::Join(link) => self.set_link(link, true, &mut writes),
                Action::Change(number, vectors) => {
                    self.flows[number].vectors = Some(vectors);
                    self.changed.encapsulations += 1;
                    writes.push(Write::Edge(number));
                    if let Some(request) = self.flows[number].request.take() {
                        let changes = self.paths.release(request);
                        let changes = changes.map_err(refused("encapsulation"))?;
                        self.carry_out(changes, &mut writes);
                    }
                }
            }
        }
        Ok(writes)
    }

    /// Chooses the paths of all encapsulations; returns the processors that they need.
    fn choose(&mut self, scenario: &Scenario) -> Result<Vec<Write>, Error> {
        let (mut writes, mut interests) = (Vec::new(), Vec::new());
        for (number, encapsulation) in Forwarding::of(scenario).encapsulations.iter().enumerate() {
            let place = format!("encapsulation.{}", encapsulation.name);
            let mut flow = self.flow(scenario, number)?;
            match &encapsulation.selection {
                Selection::Named(named) if encapsulation.is_coded => {
                    let (vectors, processors) = self.code(scenario, number, named)?;
                    flow.vectors = Some(vectors);
                    writes.extend(processors);
                }
                Selection::Named(named) => {
                    flow.vectors = Some(self.named(scenario, number, named)?);
                    if let (Some(bytes), [(path, _)]) = (encapsulation.cache, &named[..]) {
                        let (of_interests, cache) =
                            self.cache(scenario, &mut flow, number, *path, bytes)?;
                        interests.push(of_interests);
                        writes.push(cache);
                    }
                }
                Selection::Found {
                    number: wanted,
                    disjoint,
                    weights,
                } => {
                    let spread = match (disjoint, wanted) {
                        (Some(kind), wanted) => Spread::Disjoint(*wanted, *kind),
                        (None, 1) => Spread::One,
                        (None, wanted) => Spread::Cheapest(*wanted),
                    };
                    let request = self.request(scenario, number, spread)?;
                    let answer = self.paths.request(request).map_err(refused(&place))?;
                    flow.weights.clone_from(weights);
                    flow.request = Some(answer.0);
                    if let Some(rule) = self.paths.rule_of(answer.0) {
                        flow.vectors = Some(flow.found(&rule.carry)?);
                    }
                }
            }
            self.flows.push(flow);
        }
        self.flows.append(&mut interests);
        Ok(writes)
    }

    fn flow(&self, scenario: &Scenario, number: usize) -> Result<Flow, Error> {
        let encapsulation = &Forwarding::of(scenario).encapsulations[number];
        let traffic = &scenario.traffic[encapsulation.traffic];
        let sharing = match (traffic.kind.copies_to().is_empty(), encapsulation.by_packet) {
            (false, _) => Sharing::Copies,
            (true, true) => Sharing::ByPacket,
            (true, false) => Sharing::ByFlow,
        };
        Ok(Flow {
            edge: self.fe_at(scenario, &traffic.from)?,
            filter: filter(scenario, number),
            ipv6: traffic.ipv6,
            vectors: None,
            shape: encapsulation.shape,
            sharing,
            weights: Vec::new(),
            request: None,
        })
    }

    fn request(
        &self,
        scenario: &Scenario,
        number: usize,
        spread: Spread,
    ) -> Result<Request, Error> {
        let encapsulation = &Forwarding::of(scenario).encapsulations[number];
        let traffic = &scenario.traffic[encapsulation.traffic];
        Ok(Request {
            filter: filter(scenario, number),
            source: self.fe_at(scenario, &traffic.from)?,
            targets: self.targets(scenario, number)?,
            through: Vec::new(),
            behaviour: None,
            rate: None,
            spread,
            by_packet: encapsulation.by_packet,
            timeout: None,
            session: None,
        })
    }

    /// The routers of a flow group's receivers, as targets of paths.
    fn targets(&self, scenario: &Scenario, number: usize) -> Result<Vec<Target>, Error> {
        let traffic = &scenario.traffic[Forwarding::of(scenario).encapsulations[number].traffic];
        let receivers = [&traffic.to].into_iter().chain(traffic.kind.copies_to());
        receivers
            .map(|host| Ok(Target::Fe(self.fe_at(scenario, host)?, Payload::Ip)))
            .collect()
    }

    /// The vectors of named paths with their weights. With copies, each path leads to another receiver.
    fn named(
        &self,
        scenario: &Scenario,
        number: usize,
        named: &[(usize, u32)],
    ) -> Result<Vectors, Error> {
        let encapsulation = &Forwarding::of(scenario).encapsulations[number];
        let flow = self.flow(scenario, number)?;
        let topology = self.paths.topology();
        let mut targets = self.targets(scenario, number)?;
        let mut vectors = Vec::new();
        for (path, weight) in named {
            let path = &Forwarding::of(scenario).paths[*path];
            let place = format!("encapsulation.{}, path {}", encapsulation.name, path.name);
            let steps = self.steps(path)?;
            let last = steps.last().map(|step| match step {
                Step::Domain(domain) => *domain,
                Step::Fe(fe) => topology.domain_of(*fe),
            });
            let is_end = |target: &Target| matches!(target, Target::Fe(fe, _) if Some(topology.domain_of(*fe)) == last);
            let at = targets.iter().position(is_end).unwrap_or(0);
            let target = match flow.sharing {
                Sharing::Copies if !targets.is_empty() => targets.remove(at),
                _ => targets[0],
            };
            let route = self.paths.along(flow.edge, target, None, &steps);
            let route = route.map_err(refused(&place))?;
            vectors.push((vector(&route.vector)?, *weight));
        }
        Vectors::new(flow.sharing, &vectors).map_err(|error| Error::Network(error.to_string()))
    }

    /// The domains and elements of a named path.
    fn steps(&self, path: &Path) -> Result<Vec<Step>, Error> {
        let topology = self.paths.topology();
        let step = |name: &String| match topology.domain_named(name) {
            Ok(domain) => Ok(Step::Domain(domain)),
            Err(_) => topology.fe_named(name).map(Step::Fe),
        };
        let steps = path.through.iter().map(step);
        let steps = steps.collect::<Result<Vec<_>, _>>();
        steps.map_err(refused(&format!("path.{}", path.name)))
    }

    /// The forwarding element at the router of a host.
    fn fe_at(&self, scenario: &Scenario, host: &str) -> Result<FeId, Error> {
        let router = scenario.router_of(host).unwrap_or_default();
        let fe = self.paths.topology().fe_named(router);
        fe.map_err(refused(host))
    }

    fn set_link(&mut self, link: usize, works: bool, writes: &mut Vec<Write>) {
        writes.push(Write::Link(link, works));
        for link in self.links[link].clone() {
            let changes = self.paths.handle_link(link, works);
            self.carry_out(changes, writes);
        }
    }

    /// Records changes of paths, and adds the writes that they need. Tables come before the edges that use them.
    fn carry_out(&mut self, changes: Vec<Change>, writes: &mut Vec<Write>) {
        let (mut tables, mut edges) = (BTreeSet::new(), Vec::new());
        for change in changes {
            match change {
                Change::Rule { fe, .. } => {
                    tables.insert(fe);
                    self.changed.rows += 1;
                }
                Change::Encapsulate { request, rule, .. } => {
                    let mut flows = self.flows.iter();
                    let Some(number) = flows.position(|flow| flow.request == Some(request)) else {
                        continue; // an event has replaced its paths by named ones
                    };
                    let flow = &mut self.flows[number];
                    let found = rule.map(|rule| flow.found(&rule.carry));
                    flow.vectors = match found.transpose() {
                        Ok(vectors) => vectors,
                        Err(error) => {
                            unreachable!("paths found by the search have vectors: {error}")
                        }
                    };
                    self.changed.encapsulations += 1;
                    edges.push(Write::Edge(number));
                }
            }
        }
        writes.extend(tables.into_iter().map(Write::Table));
        writes.extend(edges);
    }
}

impl Flow {
    /// The vectors that the controller has chosen, with the scenario's weights.
    fn found(&self, carry: &Carry) -> Result<Vectors, Error> {
        let (Carry::Share { vectors, .. } | Carry::Copies(vectors)) = carry;
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1));
        let weighted = vectors.iter().zip(weights);
        let weighted = weighted.map(|(lids, weight)| Ok((vector(lids)?, weight)));
        let weighted = weighted.collect::<Result<Vec<_>, Error>>()?;
        Vectors::new(self.sharing, &weighted).map_err(|error| Error::Network(error.to_string()))
    }
}

/// A filter for the packets that a flow group's sender sends; web packets come from the server's port.
fn filter(scenario: &Scenario, number: usize) -> Filter {
    let place = Forwarding::of(scenario).encapsulations[number].traffic;
    let port = Some([PORT_FIRST + place as u16; 2]);
    let kind = &scenario.traffic[place].kind;
    let is_udp = matches!(kind, TrafficKind::Udp { .. }) || kind.has_chunks();
    let protocol = if is_udp { Protocol::UDP } else { Protocol::TCP };
    let is_web = matches!(kind, TrafficKind::Web { .. });
    Filter {
        protocol: Some(protocol.into()),
        source_ports: port.filter(|_| is_web),
        destination_ports: port.filter(|_| !is_web),
        ..Filter::default()
    }
}

fn vector(lids: &[u8]) -> Result<Vector, Error> {
    Vector::new(lids).map_err(|error| Error::Network(error.to_string()))
}
