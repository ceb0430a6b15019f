//! Flexible packet forwarding (FPF) in virtual time: writes the controller's decisions
//! ([`crate::control`]) to the tables of the simulated routers. Changes take no time.
//!
//! - [`measures`]: rules, changes, copies

mod measures;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::Instant;
use weir_experiment::Error;
use weir_experiment::extension::SimulatedLayer;
use weir_experiment::metrics::Measured;
use weir_experiment::scenario::Scenario;
use weir_experiment::topology::Topology;
use weir_fpf_path::edge::filter::RawFilter;
use weir_fpf_path::edge::profile::Profile;
use weir_fpf_path::edge::rule::Rule as EdgeRule;
use weir_fpf_path::header::{ETHERTYPE_DEFAULT, Vector};
use weir_fpf_path::process::{Processing, ProcessorId};
use weir_fpf_path::{Builder, Domain, Hop, Inner, Interface, Rule as TableRule, Table};
use weir_packet::Queue;
use weir_paths::{FeId, Rule};
use weir_sim::{Actor, Fabric, NodeId, PortId, Simulation};

use crate::control::{Changed, Controller, Write};
use crate::elements::FabricExt;
use crate::scenario::Forwarding;

/// FPF in a simulation.
struct Simulated {
    /// Counts of the changes by events.
    changed: Arc<Mutex<Changed>>,
}

/// Turns the routers of a scenario with FPF into forwarding elements, and adds the events.
pub(crate) fn simulate(
    scenario: &Scenario,
    topology: &Topology,
    ports: &[Vec<PortId>],
    simulation: &mut Simulation,
) -> Result<Option<Box<dyn SimulatedLayer>>, Error> {
    if scenario.layer::<Forwarding>().is_none() {
        return Ok(None);
    }
    let fabric = simulation.fabric_mut();
    let controller = ControllerActor::new(scenario, topology, ports, fabric)?;
    let changed = Arc::clone(&controller.changed);
    if let Some(first) = controller.next_event() {
        simulation.actor(Box::new(controller), first);
    }
    Ok(Some(Box::new(Simulated { changed })))
}

impl SimulatedLayer for Simulated {
    fn add_metrics(&self, scenario: &Scenario, simulation: &Simulation, measured: &mut Measured) {
        measures::add_metrics(scenario, simulation, &self.changed, measured);
    }
}

/// The controller as an actor.
struct ControllerActor {
    controller: Controller,
    /// The ports of each node by interface name, and by link of the scenario.
    ports: Vec<BTreeMap<String, PortId>>,
    links: Vec<Vec<PortId>>,
    changed: Arc<Mutex<Changed>>,
}

impl ControllerActor {
    /// The controller of a scenario, which writes its initial tables; `ports` are the ports of each node's interfaces.
    fn new(
        scenario: &Scenario,
        topology: &Topology,
        ports: &[Vec<PortId>],
        fabric: &mut Fabric,
    ) -> Result<Self, Error> {
        let (controller, writes) = Controller::new(scenario, topology)?;
        let mut links = vec![Vec::new(); scenario.links.len()];
        let mut named = Vec::new();
        for (node, ports) in topology.nodes.iter().zip(ports) {
            let of_node = node.interfaces.iter().zip(ports);
            of_node
                .clone()
                .for_each(|(interface, port)| links[interface.link].push(*port));
            named.push(of_node.map(|(i, port)| (i.name.clone(), *port)).collect());
        }
        let actor = Self {
            controller,
            ports: named,
            links,
            changed: Arc::default(),
        };
        writes
            .iter()
            .try_for_each(|write| actor.carry_out(write, fabric))?;
        Ok(actor)
    }

    /// The time of the next event.
    fn next_event(&self) -> Option<Instant> {
        Some(Instant::ZERO + self.controller.poll_timeout()?)
    }

    fn carry_out(&self, write: &Write, fabric: &mut Fabric) -> Result<(), Error> {
        match write {
            Write::Processor { fe, number } => {
                let processor = self.controller.processors()[number].function.start();
                fabric.set_processor(self.router(*fe), ProcessorId(*number), processor);
            }
            Write::Table(fe) => {
                let (table, ports) = self.table(*fe)?;
                let written = fabric.set_table(self.router(*fe), table, ports);
                written.map_err(impossible)?;
            }
            Write::Edge(number) => self.write_edge(*number, fabric)?,
            Write::Link(link, works) => {
                let ports = self.links[*link].iter();
                ports.for_each(|port| fabric.cut(*port, !works));
            }
        }
        Ok(())
    }

    fn router(&self, fe: FeId) -> NodeId {
        NodeId(self.controller.node(fe) as u32)
    }

    /// The controller's table of an element.
    fn table(&self, fe: FeId) -> Result<(Table, Vec<PortId>), Error> {
        let paths = self.controller.paths();
        let topology = paths.topology();
        let lid_bytes = paths.lid_bytes(topology.domain_of(fe));
        let agreed = Domain::new(ETHERTYPE_DEFAULT.into(), lid_bytes);
        let mut builder = Builder::new(agreed.map_err(impossible)?);
        let mut ports = Vec::new();
        let mut interfaces = BTreeMap::new();
        for link in topology.links_of(fe) {
            let [near, _] = topology.ends(link, fe);
            let interface = builder.interface(Interface::ethernet(&near.interface));
            interfaces.insert(&near.interface, interface.map_err(impossible)?);
            ports.push(self.ports[self.controller.node(fe)][&near.interface]);
        }
        for ((input, lid), rule) in paths.rules(fe) {
            let rule = match rule {
                Rule::Forward {
                    interface, advance, ..
                } => TableRule::Forward(Hop {
                    interface: interfaces[interface],
                    destination: Default::default(),
                    queue: Queue(0),
                    leaves_domain: *advance > 0,
                }),
                Rule::Copies(vectors) => {
                    let vectors = vectors.iter().map(|lids| Vector::new(lids));
                    TableRule::Multicast(vectors.collect::<Result<_, _>>().map_err(impossible)?)
                }
                Rule::Deliver(_) => TableRule::Decapsulate(Inner::Ip),
                Rule::Process(number) => TableRule::Process(Processing {
                    processor: ProcessorId(*number),
                    leaves: self.controller.processors()[number].leaves.clone(),
                }),
            };
            let input = input.as_ref().map(|name| interfaces[name]);
            let added = builder.rule(input, lid.value, rule);
            added.map_err(impossible)?;
        }
        Ok((builder.build().map_err(impossible)?, ports))
    }

    /// Writes the rule of an encapsulation, or removes it.
    fn write_edge(&self, number: usize, fabric: &mut Fabric) -> Result<(), Error> {
        let flow = &self.controller.flows()[number];
        let now = fabric.now();
        let Some(edge) = fabric.edge_mut(self.router(flow.edge)) else {
            unreachable!("every element has a table");
        };
        let Some(vectors) = &flow.vectors else {
            edge.remove(number as u32);
            return Ok(());
        };
        let rule = EdgeRule {
            paths: vectors.clone(),
            timeout: None,
            session: 0,
            profile: flow.shape.map(Profile::Shaped),
        };
        let ports = |ports: Option<[u16; 2]>| ports.map(|[first, last]| (first, last));
        let filter = RawFilter {
            version: Some(if flow.ipv6 { 6 } else { 4 }),
            protocol: flow.filter.protocol,
            source_ports: ports(flow.filter.source_ports),
            destination_ports: ports(flow.filter.destination_ports),
            ..RawFilter::default()
        };
        let filter = filter.check().map_err(impossible)?;
        let written = edge.set(number as u32, &filter, &rule, now);
        written.map_err(impossible)?;
        Ok(())
    }
}

impl Actor for ControllerActor {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let writes = self
            .controller
            .handle_timeout(fabric.now().since(Instant::ZERO));
        let done = writes.and_then(|writes| {
            writes
                .iter()
                .try_for_each(|write| self.carry_out(write, fabric))
        });
        if let Err(error) = done {
            unreachable!("the elements accept the controller's rules: {error}");
        }
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = self.controller.changed();
        self.next_event()
    }
}

fn impossible(error: impl std::fmt::Display) -> Error {
    Error::Network(error.to_string())
}
