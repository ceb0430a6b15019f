//! Flexible packet forwarding (FPF) on real routers: writes the controller's decisions
//! ([`crate::control`]) to sections of the routers' configuration, and changes them while they run.
//!
//! ```text
//!   before the start:  sections of each element ──▶ its configuration file
//!   at an event:       a link ──▶ both ends of the bridge in its wire go down, or up
//!                      sections that differ ──▶ PATCH, DELETE /v1/config of their router
//! ```
//!
//! The sections are the same as from `weir paths --configure`. Tables change before the edges that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use weir_base::Instant;
use weir_experiment::Error;
use weir_experiment::extension::LabLayer;
use weir_experiment::metrics::Measured;
use weir_experiment::namespaces::build::Site;
use weir_experiment::namespaces::router::Router;
use weir_experiment::scenario::Scenario;
use weir_experiment::topology::Topology;
use weir_fpf_path::edge::paths::Spread;
use weir_model::operation::CHANGES_MAX;
use weir_model::{ApplyReport, Change, ChangeRequest, ComponentPath, DeleteRequest};
use weir_network::{self as network, Encapsulation};
use weir_northbound::client::{self, ClientError};
use weir_paths::FeId;

use crate::control::code::decoding_routers;
use crate::control::{Changed, Controller, Write};
use crate::metrics::{self, Encapsulated};
use crate::scenario::Forwarding;

/// The controller of a run, and the sections that it has written to each router.
#[derive(Debug)]
struct Elements {
    controller: Controller,
    /// The names of the encapsulations.
    names: Vec<String>,
    /// The routers at which packets are decoded.
    decoding: BTreeSet<String>,
    /// The name of each element's router, and its socket.
    routers: BTreeMap<FeId, (String, PathBuf)>,
    /// The sections of each element.
    sections: BTreeMap<FeId, Vec<Change>>,
    changed: Changed,
}

/// The controller of a scenario with FPF; `socket` gives the path of a router's service.
pub(crate) fn start(
    scenario: &Scenario,
    topology: &Topology,
    socket: &dyn Fn(&str) -> PathBuf,
) -> Result<Option<Box<dyn LabLayer>>, Error> {
    if scenario.layer::<Forwarding>().is_none() {
        return Ok(None);
    }
    Ok(Some(Box::new(Elements::new(scenario, topology, socket)?)))
}

impl Elements {
    /// The controller of a scenario; `socket` gives the path of a router's service.
    fn new(
        scenario: &Scenario,
        topology: &Topology,
        socket: &dyn Fn(&str) -> PathBuf,
    ) -> Result<Self, Error> {
        let (controller, _) = Controller::new(scenario, topology)?;
        let router = |(fe, node): (FeId, usize)| {
            let name = &topology.nodes[node].name;
            (fe, (name.clone(), socket(name)))
        };
        let names = Forwarding::of(scenario).encapsulations.iter();
        let mut all = Self {
            routers: controller.elements().map(router).collect(),
            names: names
                .map(|encapsulation| encapsulation.name.clone())
                .collect(),
            decoding: decoding_routers(scenario)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            sections: BTreeMap::new(),
            changed: Changed::default(),
            controller,
        };
        for fe in all.routers.keys().copied().collect::<Vec<_>>() {
            let sections = all.wanted(fe)?;
            all.sections.insert(fe, sections);
        }
        Ok(all)
    }
}

impl LabLayer for Elements {
    fn configuration(&self, router: &str) -> String {
        let mut named = self.routers.iter();
        let element = named.find(|(_, (name, _))| name == router);
        let sections = element.and_then(|(fe, _)| self.sections.get(fe));
        sections.map_or_else(String::new, |sections| {
            format!("\n{}", network::toml(sections))
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::ZERO + self.controller.poll_timeout()?)
    }

    fn handle_timeout(&mut self, now: Instant, site: &Site) -> Result<(), Error> {
        let mut changed = Vec::new();
        for write in self.controller.handle_timeout(now.since(Instant::ZERO))? {
            let fe = match write {
                Write::Link(link, works) => {
                    site.set_link(link, works)?;
                    continue;
                }
                Write::Table(fe) | Write::Processor { fe, .. } => fe,
                Write::Edge(number) => self.controller.flows()[number].edge,
            };
            if !changed.contains(&fe) {
                changed.push(fe);
            }
        }
        changed.into_iter().try_for_each(|fe| self.write(fe))
    }

    fn add_metrics(&self, routers: &[Router], measured: &mut Measured) {
        let shapes = self.controller.flows().iter().map(|flow| flow.shape);
        let counted = shapes.map(|shape| Encapsulated {
            is_shaped: shape.is_some(),
            ..Encapsulated::default()
        });
        let mut counted: BTreeMap<&str, Encapsulated> =
            self.names.iter().map(String::as_str).zip(counted).collect();
        for router in routers {
            if !self.routers.values().any(|(name, _)| *name == router.name) {
                continue;
            }
            let configuration = router.page("config");
            let paths = configuration
                .as_object()
                .into_iter()
                .flat_map(|all| all.keys());
            let rules = paths.filter_map(|path| path.strip_prefix("fpf.rule.")?.rsplit_once('.'));
            let rules: BTreeSet<&str> = rules.map(|(name, _)| name).collect();
            metrics::add_rules(rules.len(), &[&router.name], measured);
            if self.decoding.contains(&router.name) {
                let repaired = router.page("fpf")["repaired"].as_u64();
                metrics::add_repaired(repaired.unwrap_or(0), &[&router.name], measured);
            }
            let rows = router.page("fpf_encapsulations");
            for row in rows.as_array().into_iter().flatten() {
                let name = row["name"].as_str().unwrap_or_default();
                let packets = |component: &str| row[component]["packets"].as_u64().unwrap_or(0);
                if let Some(of) = counted.get_mut(name) {
                    of.packets += packets("count");
                    of.overflowed += packets("overflowed");
                    of.waiting += packets("waiting");
                }
            }
        }
        for (name, of) in counted {
            metrics::add_encapsulated(of, &[name], measured);
        }
        metrics::add_changes(self.changed, &[], measured);
    }
}

impl Elements {
    /// The controller's sections of an element.
    fn wanted(&self, fe: FeId) -> Result<Vec<Change>, Error> {
        let flows = self.names.iter().zip(self.controller.flows());
        let own = flows.filter(|(_, flow)| flow.edge == fe);
        let own = own.filter_map(|(name, flow)| {
            let vectors = flow.vectors.as_ref()?;
            let spread = match vectors.spread() {
                Spread::ByFlow => "flow",
                Spread::ByPacket => "packet",
                Spread::Copies => "copies",
            };
            let all = vectors.headers().iter().zip(vectors.weights());
            let all = all.map(|(header, weight)| (header.vector().as_bytes(), *weight));
            let mut section = Encapsulation::new(name, spread, all)
                .with("version", if flow.ipv6 { 6 } else { 4 });
            if let Some(protocol) = flow.filter.protocol {
                section = section.with("protocol", protocol);
            }
            if let Some(shape) = flow.shape {
                let section_of = section.with("shape", shape.rate());
                section = section_of.with("shape_limit", shape.limit());
            }
            let ports = [
                ("source_ports", flow.filter.source_ports),
                ("destination_ports", flow.filter.destination_ports),
            ];
            for (key, ports) in ports {
                if let Some([first, last]) = ports {
                    section = section.with(key, format!("{first}-{last}"));
                }
            }
            Some(section)
        });
        let (paths, processors) = (self.controller.paths(), self.controller.processors());
        let sections = network::sections(paths, fe, processors, &own.collect::<Vec<_>>());
        let name = &paths.topology().fe(fe).name;
        sections.map_err(|error| Error::Network(format!("router {name}: {error}")))
    }

    /// Writes the sections in which a router differs from the controller's state.
    fn write(&mut self, fe: FeId) -> Result<(), Error> {
        let wanted = self.wanted(fe)?;
        let (Some((name, socket)), Some(sections)) =
            (self.routers.get(&fe), self.sections.get_mut(&fe))
        else {
            return Ok(()); // never happens: every element has both
        };
        let set: Vec<&Change> = wanted.iter().filter(|c| !sections.contains(c)).collect();
        let (had, has) = (paths(sections), paths(&wanted));
        let lost: Vec<&ComponentPath> = had.difference(&has).collect();
        let blocks: BTreeSet<ComponentPath> = has.iter().map(ComponentPath::parent).collect();
        // The deletion of a section includes its components.
        let gone = lost.iter().map(|path| match path.parent() {
            block if blocks.contains(&block) => (*path).clone(),
            block => block,
        });
        let gone: BTreeSet<ComponentPath> = gone.collect();
        let requests = set.iter().filter_map(|change| {
            Some(ChangeRequest {
                path: change.path.to_string(),
                value: change.value.clone()?.into(),
            })
        });
        let requests: Vec<ChangeRequest> = requests.collect();
        for some in requests.chunks(CHANGES_MAX) {
            applied(name, client::patch(socket, "/v1/config", &some))?;
        }
        let requests = gone.iter().map(|path| DeleteRequest {
            path: path.to_string(),
        });
        let requests: Vec<DeleteRequest> = requests.collect();
        for some in requests.chunks(CHANGES_MAX) {
            applied(name, client::delete_named(socket, "/v1/config", &some))?;
        }
        let touched = set.iter().map(|change| change.path.parent());
        let touched: BTreeSet<ComponentPath> = touched
            .chain(lost.iter().map(|path| path.parent()))
            .collect();
        for block in touched {
            match block.segments()[..] {
                ["fpf", "rule", _] => self.changed.rows += 1,
                ["fpf", "encapsulation", _] => self.changed.encapsulations += 1,
                _ => {}
            }
        }
        *sections = wanted;
        Ok(())
    }
}

/// The error that a router refused a change.
fn applied(router: &str, answer: Result<ApplyReport, ClientError>) -> Result<(), Error> {
    let why = match answer {
        Ok(ApplyReport { applied: true, .. }) => return Ok(()),
        Ok(ApplyReport { messages, .. }) => messages.join("; "),
        Err(error) => error.to_string(),
    };
    let what = format!("changing the paths of {router}");
    Err(Error::Program { what, output: why })
}

fn paths(changes: &[Change]) -> BTreeSet<ComponentPath> {
    changes.iter().map(|change| change.path.clone()).collect()
}
