//! All sections together: the rules between them, and the table and the edge of the plane.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::Instant;
use weir_base::setting::Settings;
use weir_classifier::policy::Policy;
use weir_fpf_path::edge::setup::{NoMatch, Setup};
use weir_fpf_path::{Builder, Fpf, Interface, Table};
use weir_layer::{Compilation, Compiled, LayerPlan, Port};
use weir_model::fault::ResultCode;
use weir_model::{ComponentPath, Fault};
use weir_path::plane::Plane;

use crate::interface::Interfaces;
use crate::{KEY, Part, Wrong, class, domain, encapsulation, interface, rule};

/// Maximum interfaces; also maximum rules, and maximum encapsulations.
const NAMED_MAX: usize = 65_536;

/// All sections together, ready for the plane.
#[derive(Debug)]
pub struct Built {
    /// Rules by interface and LID.
    pub table: Arc<Table>,
    /// The part of the edge: encapsulations, classes, and their ports.
    pub edge: Arc<Setup>,
    /// The classifier's criteria: a row for each class, in the same order.
    pub policy: Policy,
    waiting_max: usize,
}

impl Built {
    /// The compiled sections of FPF; `None` for another layer.
    pub fn of(compiled: &dyn Compiled) -> Option<&Self> {
        (compiled as &dyn Any).downcast_ref()
    }
}

impl Compiled for Built {
    fn apply(&self, plane: &mut Plane, now: Instant) -> Box<dyn Send> {
        apply(plane, Some(self), now)
    }

    fn tunnels(&self) -> Vec<(IpAddr, IpAddr)> {
        let ends = self
            .table
            .interfaces()
            .iter()
            .filter_map(|interface| match interface {
                Interface::Gre { local, remote, .. } => Some((*local, *remote)),
                _ => None,
            });
        ends.collect()
    }

    fn waiting_max(&self) -> usize {
        self.waiting_max
    }
}

fn apply(plane: &mut Plane, built: Option<&Built>, now: Instant) -> Box<dyn Send> {
    let table = Fpf::set_table(plane, built.map(|built| Arc::clone(&built.table)));
    let edge = built.map(|built| Arc::clone(&built.edge));
    Box::new((table, Fpf::set_edge(plane, edge, now)))
}

pub(super) fn switch_off(plane: &mut Plane, now: Instant) -> Box<dyn Send> {
    apply(plane, None, now)
}

/// Builds the table and the edge for the plane.
pub(super) fn compile(plan: &LayerPlan) -> Compilation {
    let mut faults = Vec::new();
    let sections = Sections(plan);
    sections.check_numbers(&mut faults);
    match sections.everything(&mut faults) {
        Some(built) if faults.is_empty() => Ok(Arc::new(built)),
        _ => Err(faults),
    }
}

/// Checks the sections against the ports of the router.
pub(super) fn check_ports(plan: &LayerPlan, ports: &[Port<'_>]) -> Result<(), Fault> {
    Sections(plan).check_ports(ports)
}

/// The sections of FPF.
struct Sections<'a>(&'a LayerPlan);

impl Sections<'_> {
    /// The settings of the section with this name.
    fn get(&self, part: Part, name: &str) -> Option<&Settings> {
        self.0.get(part as usize, name)
    }

    /// The sections of a kind, by name.
    fn each(&self, part: Part) -> impl Iterator<Item = (&str, &Settings)> {
        self.0.each(part as usize)
    }

    /// Checks that every interface is on a port of the router, and that the port has the queues that rules name. A
    /// tunnel has no port, so its queues are not checked: a port that lacks the queue treats the packets like any
    /// others.
    fn check_ports(&self, ports: &[Port<'_>]) -> Result<(), Fault> {
        let is_port = |name: &str| ports.iter().any(|port| port.name == name);
        for (name, settings) in self.each(Part::Interface) {
            let entrances = interface::entrances(settings);
            if let Some(port) = entrances.iter().find(|port| !is_port(port)) {
                let why =
                    format!("there is no port `{port}`; `ports` must name ports of the router");
                let at = Part::Interface.path(name).join("ports");
                return Err(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
            }
            let port = settings.text("port");
            if !port.is_empty() && !is_port(port) {
                let why = format!("there is no port `{port}`; add [port.{port}]");
                let at = Part::Interface.path(name).join("port");
                return Err(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
            }
            if ports.iter().any(|p| p.name == port && p.is_tun) {
                let why = format!(
                    "the port `{port}` of kind \"tun\" leads to this machine, not to an FPF element; name a port with \
                     a link"
                );
                let at = Part::Interface.path(name).join("port");
                return Err(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
            }
        }
        let edge = domain::edge_ports(self.0.settings());
        if let Some(port) = edge.iter().find(|port| !is_port(port)) {
            let why =
                format!("there is no port `{port}`; `edge_ports` must name ports of the router");
            let at = ComponentPath::new([KEY, "edge_ports"]);
            return Err(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
        }
        for (name, settings) in self.each(Part::Rule) {
            let Some((interface, queue)) = rule::queue(settings) else {
                continue;
            };
            let interface = self.get(Part::Interface, interface);
            let port =
                interface.and_then(|i| ports.iter().find(|port| port.name == i.text("port")));
            if let Some(port) = port.filter(|port| !port.discipline.has_queue(queue)) {
                let (at, queue) = (Part::Rule.path(name).join("queue"), queue.0);
                let why = format!(
                    "the port `{0}` has no queue {queue}; give it one with [port.{0}] discipline = {{ kind = \"class_weights\", \
                     classes = \"queue {queue} = 2, rest = 1\" }}",
                    port.name
                );
                return Err(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
            }
        }
        Ok(())
    }

    /// Maximum packets that wait in the shapers of this edge.
    fn waiting_max(&self) -> usize {
        let each = self.each(Part::Encapsulation);
        each.map(|(_, settings)| encapsulation::waiting_max(settings))
            .sum()
    }

    fn check_numbers(&self, faults: &mut Vec<Fault>) {
        for part in Part::ALL {
            let max = match part {
                Part::Class => class::CLASSES_MAX,
                _ => NAMED_MAX,
            };
            let len = self.each(part).count();
            if len > max {
                let key = part.key();
                let why =
                    format!("there are {len} sections `{key}`, but at most {max} are permitted");
                let at = ComponentPath::new([KEY, key]);
                faults.push(Fault::new(at, why));
            }
        }
    }

    fn everything(&self, faults: &mut Vec<Fault>) -> Option<Built> {
        let root = ComponentPath::new([KEY]);
        let domain = domain::domain(self.0.settings())
            .map_err(|wrong| faults.push(wrong.at(&root)))
            .ok()?;
        let mut builder = Builder::new(domain);
        let mut interfaces = Interfaces::new();
        for (name, settings) in self.each(Part::Interface) {
            match interface::add(settings, &interfaces, &mut builder) {
                Ok(added) => _ = interfaces.insert(name.to_owned(), added),
                Err(wrong) => faults.push(wrong.at(&Part::Interface.path(name))),
            }
        }
        for (name, settings) in self.each(Part::Rule) {
            if let Err(wrong) = rule::add(name, settings, &domain, &interfaces, &mut builder) {
                faults.push(wrong.at(&Part::Rule.path(name)));
            }
        }
        let encapsulations = self.checked(Part::Encapsulation, faults, |name, settings| {
            encapsulation::encapsulation(name, settings, &domain)
        });
        let mut classes = self.checked(Part::Class, faults, |name, settings| {
            class::class(name, settings, &domain)
        });
        classes.sort_by_key(|class| class.priority); // stable: equal priorities stay in the order of names
        let no_match = domain::no_match(self.0.settings());
        if !classes.is_empty() && no_match == NoMatch::Drop {
            let why = "classes need `no_match = \"forward\"`: the first packets of a flow follow the routes";
            faults.push(Fault::new(root.join("no_match"), why));
        }
        if interfaces.is_empty() && faults.is_empty() {
            let why = "FPF has no interface; add [fpf.interface.NAME] with its `port`";
            faults.push(Fault::new(root.clone(), why));
        }
        let table = builder
            .build()
            .map_err(|error| faults.push(Fault::new(root, error.to_string())))
            .ok()?;
        let (classes, rows) = classes.into_iter().map(|c| (c.class, c.row)).unzip();
        Some(Built {
            table: Arc::new(table),
            edge: Arc::new(Setup {
                encapsulations: encapsulation::in_rows(encapsulations),
                classes,
                flows_max: domain::classifier_flows(self.0.settings()),
                no_match,
                ports: domain::edge_ports(self.0.settings()),
            }),
            policy: Policy::new(rows),
            waiting_max: self.waiting_max(),
        })
    }

    /// The sections of a kind, each checked by itself.
    fn checked<T>(
        &self,
        part: Part,
        faults: &mut Vec<Fault>,
        check: impl Fn(&str, &Settings) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let checked = self.each(part).filter_map(|(name, settings)| {
            let checked = check(name, settings);
            checked
                .map_err(|wrong| faults.push(wrong.at(&part.path(name))))
                .ok()
        });
        checked.collect()
    }
}
