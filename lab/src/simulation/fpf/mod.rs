//! Flexible packet forwarding (FPF) in virtual time: a controller that knows the whole network, and routers that do
//! what it says.
//!
//! ```text
//!   domains, links ──▶ Paths ──▶ rules ──▶ table of each router
//!   encapsulations ──▶       ──▶ vectors ──▶ rules of the ingress edges
//!   events: a link is cut ──▶ Paths ──▶ changes ──▶ tables, edges
//! ```
//!
//! The controller learns of a link at the instant of the event, and its changes take no time. Paths that a scenario
//! names stay as they are when one of their links is cut, because an operator asked for them; paths that the controller
//! found are found anew. Routes of IP do not change during a run.
//!
//! - [`code`]: processors that code packets at the ingress edge, and decode them at the last router
//! - [`survey`]: the network as the controller sees it
//! - [`measures`]: rules, changes, copies

mod code;
mod measures;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::{Instant, Span};
use weir_controller::paths::{
    Carry, Change, FeId, Filter, LinkId, Paths, Payload, Request, Rule, Spread, Step, Target,
};
use weir_packet::Class;
use weir_path::fpf::edge::filter::RawFilter;
use weir_path::fpf::edge::paths::{Paths as Vectors, Spread as Sharing};
use weir_path::fpf::edge::rule::Rule as EdgeRule;
use weir_path::fpf::process::{Processing, ProcessorId};
use weir_path::fpf::{Builder, Domain, Hop, Inner, Interface, Rule as TableRule, Table};
use weir_sim::{Actor, Fabric, PortId};
use weir_wire::Protocol;
use weir_wire::fpf::{ETHERTYPE_DEFAULT, Vector};

pub(super) use self::measures::add_metrics;
use self::survey::{Element, Survey, refused};
use crate::error::Error;
use crate::scenario::forwarding::{Effect, Path, Selection};
use crate::scenario::{Scenario, TrafficKind};
use crate::topology::{PORT_FIRST, Topology};

/// Counts of changes by events, which can be read after the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Rows of forwarding tables.
    pub(super) rows: u64,
    /// Encapsulation rules.
    pub(super) encapsulations: u64,
}

/// The controller with its events.
pub(super) struct Controller {
    paths: Paths,
    elements: BTreeMap<FeId, Element>,
    /// By encapsulation.
    flows: Vec<Flow>,
    /// The vectors of the packets that processors give, by the number of the processor.
    leaves: BTreeMap<u32, Arc<[Vector]>>,
    /// The links of the controller that a link of the scenario consists of, and its ports in both directions.
    links: Vec<(Vec<LinkId>, Vec<PortId>)>,
    /// The next one last.
    events: Vec<(Span, Action)>,
    changed: Arc<Mutex<Changed>>,
}

/// An encapsulation.
struct Flow {
    edge: FeId,
    filter: RawFilter,
    sharing: Sharing,
    weights: Vec<u32>,
    /// The controller's request, unless the paths are named.
    request: Option<u64>,
}

enum Action {
    Cut(usize),
    Join(usize),
    Change(usize, Vectors),
}

impl Controller {
    /// The controller of a scenario; `ports` are those of each node's interfaces.
    pub(super) fn new(
        scenario: &Scenario,
        topology: &Topology,
        ports: &[Vec<PortId>],
    ) -> Result<Self, Error> {
        let survey = Survey::of(scenario, topology, ports)?;
        let paths = Paths::new(survey.network).map_err(refused("domains"))?;
        let mut controller = Self {
            paths,
            elements: survey.elements,
            flows: Vec::new(),
            leaves: BTreeMap::new(),
            links: survey.links,
            events: Vec::new(),
            changed: Arc::default(),
        };
        for event in &scenario.forwarding.events {
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
        Ok(controller)
    }

    /// The changes by its events.
    pub(super) fn changed(&self) -> Arc<Mutex<Changed>> {
        Arc::clone(&self.changed)
    }

    /// The instant of its first event.
    pub(super) fn first_event(&self) -> Option<Instant> {
        self.events.last().map(|(at, _)| Instant::ZERO + *at)
    }

    /// Installs the tables, and the rules of the ingress edges.
    pub(super) fn install(
        &mut self,
        scenario: &Scenario,
        fabric: &mut Fabric,
    ) -> Result<(), Error> {
        for fe in self.elements.keys().copied().collect::<Vec<_>>() {
            self.write_table(fe, fabric)?;
        }
        for (number, encapsulation) in scenario.forwarding.encapsulations.iter().enumerate() {
            let place = format!("encapsulation.{}", encapsulation.name);
            let mut flow = self.flow(scenario, number)?;
            let vectors = match &encapsulation.selection {
                Selection::Named(named) if encapsulation.is_coded => {
                    Some(self.install_code(scenario, number, named, fabric)?)
                }
                Selection::Named(named) => Some(self.named(scenario, number, named)?),
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
                    let (id, changes) = answer;
                    flow.weights.clone_from(weights);
                    flow.request = Some(id);
                    for change in changes {
                        if let Change::Rule { fe, .. } = change {
                            self.write_table(fe, fabric)?;
                        }
                    }
                    None
                }
            };
            let vectors = match (vectors, flow.request) {
                (Some(vectors), _) => Some(vectors),
                (None, Some(id)) => match self.paths.rule_of(id) {
                    Some(rule) => Some(flow.vectors(&rule.carry)?),
                    None => None,
                },
                (None, None) => None,
            };
            self.flows.push(flow);
            self.write_edge(number, vectors.as_ref(), fabric)?;
        }
        Ok(())
    }

    fn flow(&self, scenario: &Scenario, number: usize) -> Result<Flow, Error> {
        let encapsulation = &scenario.forwarding.encapsulations[number];
        let traffic = &scenario.traffic[encapsulation.traffic];
        let sharing = match (traffic.kind.copies_to().is_empty(), encapsulation.by_packet) {
            (false, _) => Sharing::Copies,
            (true, true) => Sharing::ByPacket,
            (true, false) => Sharing::ByFlow,
        };
        let filter = filter(scenario, number);
        Ok(Flow {
            edge: self.fe_at(scenario, &traffic.from)?,
            filter: RawFilter {
                version: Some(if traffic.ipv6 { 6 } else { 4 }),
                protocol: filter.protocol,
                source_ports: filter.source_ports.map(|[first, last]| (first, last)),
                destination_ports: filter.destination_ports.map(|[first, last]| (first, last)),
                ..RawFilter::default()
            },
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
        let encapsulation = &scenario.forwarding.encapsulations[number];
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

    /// The routers of the receivers.
    fn targets(&self, scenario: &Scenario, number: usize) -> Result<Vec<Target>, Error> {
        let traffic = &scenario.traffic[scenario.forwarding.encapsulations[number].traffic];
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
        let encapsulation = &scenario.forwarding.encapsulations[number];
        let flow = self.flow(scenario, number)?;
        let topology = self.paths.topology();
        let mut targets = self.targets(scenario, number)?;
        let mut vectors = Vec::new();
        for (path, weight) in named {
            let path = &scenario.forwarding.paths[*path];
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

    /// Writes the table of a router as the controller has it.
    fn write_table(&self, fe: FeId, fabric: &mut Fabric) -> Result<(), Error> {
        let element = &self.elements[&fe];
        let (table, ports) = self.table(fe, element)?;
        let written = fabric.set_table(element.router, table, ports);
        written.map_err(|error| Error::Network(error.to_string()))
    }

    fn table(&self, fe: FeId, element: &Element) -> Result<(Table, Vec<PortId>), Error> {
        let impossible = |error: &dyn std::fmt::Display| Error::Network(error.to_string());
        let lid_bytes = self.paths.lid_bytes(self.paths.topology().domain_of(fe));
        let agreed = Domain::new(ETHERTYPE_DEFAULT.into(), lid_bytes);
        let mut builder = Builder::new(agreed.map_err(|error| impossible(&error))?);
        let mut ports = Vec::new();
        let mut interfaces = BTreeMap::new();
        for (name, port) in &element.ports {
            let interface = builder.interface(Interface::ethernet(name));
            interfaces.insert(name, interface.map_err(|error| impossible(&error))?);
            ports.push(*port);
        }
        for ((input, lid), rule) in self.paths.rules(fe) {
            let rule = match rule {
                Rule::Forward {
                    interface, advance, ..
                } => TableRule::Forward(Hop {
                    interface: interfaces[interface],
                    destination: Default::default(),
                    queue: Class(0),
                    leaves_domain: *advance > 0,
                }),
                Rule::Copies(vectors) => {
                    let vectors = vectors.iter().map(|lids| vector(lids));
                    TableRule::Multicast(vectors.collect::<Result<_, _>>()?)
                }
                Rule::Deliver(_) => TableRule::Decapsulate(Inner::Ip),
                Rule::Process(number) => TableRule::Process(Processing {
                    processor: ProcessorId(*number),
                    leaves: Arc::clone(&self.leaves[number]),
                }),
            };
            let input = input.as_ref().map(|name| interfaces[name]);
            let added = builder.rule(input, lid.value, rule);
            added.map_err(|error| impossible(&error))?;
        }
        let table = builder.build().map_err(|error| impossible(&error))?;
        Ok((table, ports))
    }

    /// Writes the rule of an encapsulation, or removes it.
    fn write_edge(
        &self,
        number: usize,
        vectors: Option<&Vectors>,
        fabric: &mut Fabric,
    ) -> Result<(), Error> {
        let flow = &self.flows[number];
        let now = fabric.now();
        let Some(edge) = fabric.edge_mut(self.elements[&flow.edge].router) else {
            unreachable!("every element has a table");
        };
        let Some(vectors) = vectors else {
            edge.remove(number as u32);
            return Ok(());
        };
        let rule = EdgeRule {
            paths: vectors.clone(),
            timeout: None,
            session: 0,
            profile: None,
        };
        let filter = flow.filter.check();
        let filter = filter.map_err(|error| Error::Network(error.to_string()))?;
        let written = edge.set(number as u32, &filter, &rule, now);
        written.map_err(|error| Error::Network(error.to_string()))
    }

    fn happen(&mut self, action: &Action, fabric: &mut Fabric) -> Result<(), Error> {
        match action {
            Action::Cut(link) => self.set_link(*link, false, fabric),
            Action::Join(link) => self.set_link(*link, true, fabric),
            Action::Change(number, vectors) => {
                self.write_edge(*number, Some(vectors), fabric)?;
                self.count(|changed| changed.encapsulations += 1);
                match self.flows[*number].request.take() {
                    None => Ok(()),
                    Some(request) => {
                        let changes = self.paths.release(request);
                        let changes = changes.map_err(refused("encapsulation"))?;
                        self.carry_out(changes, fabric)
                    }
                }
            }
        }
    }

    fn set_link(&mut self, link: usize, works: bool, fabric: &mut Fabric) -> Result<(), Error> {
        let (links, ports) = self.links[link].clone();
        for port in ports {
            fabric.cut(port, !works);
        }
        for link in links {
            let changes = self.paths.handle_link(link, works);
            self.carry_out(changes, fabric)?;
        }
        Ok(())
    }

    /// Carries changes out. At one instant their order has no effect.
    fn carry_out(&mut self, changes: Vec<Change>, fabric: &mut Fabric) -> Result<(), Error> {
        let mut tables = BTreeSet::new();
        for change in changes {
            match change {
                Change::Rule { fe, .. } => {
                    tables.insert(fe);
                    self.count(|changed| changed.rows += 1);
                }
                Change::Encapsulate { request, rule, .. } => {
                    let mut flows = self.flows.iter();
                    let Some(number) = flows.position(|flow| flow.request == Some(request)) else {
                        continue; // its paths are named by now
                    };
                    let vectors = rule.map(|rule| self.flows[number].vectors(&rule.carry));
                    self.write_edge(number, vectors.transpose()?.as_ref(), fabric)?;
                    self.count(|changed| changed.encapsulations += 1);
                }
            }
        }
        tables
            .into_iter()
            .try_for_each(|fe| self.write_table(fe, fabric))
    }

    fn count(&self, count: impl FnOnce(&mut Changed)) {
        count(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Flow {
    /// The vectors that the controller has chosen, with the weights of the scenario.
    fn vectors(&self, carry: &Carry) -> Result<Vectors, Error> {
        let (Carry::Share { vectors, .. } | Carry::Copies(vectors)) = carry;
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1));
        let weighted = vectors.iter().zip(weights);
        let weighted = weighted.map(|(lids, weight)| Ok((vector(lids)?, weight)));
        let weighted = weighted.collect::<Result<Vec<_>, Error>>()?;
        Vectors::new(self.sharing, &weighted).map_err(|error| Error::Network(error.to_string()))
    }
}

impl Actor for Controller {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        while let Some((at, action)) = self.events.pop() {
            if Instant::ZERO + at > fabric.now() {
                self.events.push((at, action));
                break;
            }
            if let Err(error) = self.happen(&action, fabric) {
                unreachable!("the controller's own rules are accepted: {error}");
            }
        }
        self.first_event()
    }
}

/// The packets of a traffic from its sender: those of the web come from the server's port.
fn filter(scenario: &Scenario, number: usize) -> Filter {
    let place = scenario.forwarding.encapsulations[number].traffic;
    let port = Some([PORT_FIRST + place as u16; 2]);
    let is_udp = matches!(scenario.traffic[place].kind, TrafficKind::Udp { .. });
    let protocol = if is_udp { Protocol::UDP } else { Protocol::TCP };
    let is_web = matches!(scenario.traffic[place].kind, TrafficKind::Web { .. });
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
