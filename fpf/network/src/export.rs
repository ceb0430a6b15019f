//! Configuration of each FE: its interfaces, the rules of its domain, and encapsulations for packets that enter there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::setting::{Scalar, Settings};
use weir_fpf_lfb::Part;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::Function;
use weir_lfb::Plan;
use weir_lfb::named::Named;
use weir_model::{Change, ComponentPath, Fault};
use weir_paths::{Address, End, FeId, Input, Lid, LinkId, Paths, Payload, Rule};
use weir_wire::mac;

use super::section::OF_ENCAPSULATION;
use super::topology::address_of;
use super::{Flow, NetworkPlan, wrong};

/// A section with its components.
pub type Section = (ComponentPath, Vec<Change>);

/// Packets that get a header at an FE, as a section of its configuration.
#[derive(Clone, Debug)]
pub struct Encapsulation {
    name: String,
    components: Vec<(&'static str, String)>,
}

impl Encapsulation {
    /// Creates a section with this name, for all packets: these vectors with their weights, and this spread (`flow`,
    /// `packet` or `copies`).
    pub fn new<'v>(
        name: &str,
        spread: &str,
        vectors: impl IntoIterator<Item = (&'v [u8], u32)>,
    ) -> Self {
        let vector = |(lids, weight): (&[u8], u32)| match weight {
            1 => hex(lids),
            _ => format!("{}:{weight}", hex(lids)),
        };
        let vectors: Vec<String> = vectors.into_iter().map(vector).collect();
        Self {
            name: name.to_owned(),
            components: vec![
                ("vectors", vectors.join(" ")),
                ("spread", spread.to_owned()),
            ],
        }
    }

    /// Adds another component to the section.
    pub fn with(mut self, component: &'static str, value: impl ToString) -> Self {
        self.components.push((component, value.to_string()));
        self
    }

    /// The section.
    pub fn section(&self) -> Vec<Change> {
        let mut section = Components::new(Part::Encapsulation, &self.name);
        for (name, value) in &self.components {
            section.set(name, value);
        }
        section.changes
    }

    /// The path of the section.
    pub fn path(&self) -> ComponentPath {
        Part::Encapsulation.path(&self.name)
    }
}

/// A packet processor, as referenced by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Function of the processor.
    pub function: Function,
    /// Vectors of the packets that the processor emits.
    pub leaves: Arc<[Vector]>,
}

/// The processors of a network, by their numbers in rules.
pub type Processors = BTreeMap<u32, Processor>;

/// The processors of a network's file, whose syntax has none.
const NONE: Processors = Processors::new();

/// Why an FE has no configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExportError {
    /// An end of a link has no address for the frames.
    #[error("the interface `{interface}` has no address, so no frames can be sent to it")]
    NoAddress {
        /// The link.
        link: LinkId,
        /// The FE at that end.
        to: FeId,
        /// Interface of that FE.
        interface: String,
    },
    /// A rule uses an undescribed processor.
    #[error("a rule uses processor {0}, which is unknown")]
    Processor(u32),
    /// The FE would refuse the configuration.
    #[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Fault>),
}

/// The FPF sections of an FE's configuration: its interfaces, the rules of its domain with their processors, and these
/// encapsulations. Already checked with the FE's own checks.
pub fn sections(
    paths: &Paths,
    fe: FeId,
    processors: &Processors,
    encapsulations: &[Encapsulation],
) -> Result<Vec<Change>, ExportError> {
    let entering = encapsulations.iter().map(Encapsulation::section);
    whole(paths, fe, processors, entering)
}

/// The sections of an FE, with these ingress encapsulations; checked with the FE's own checks.
fn whole(
    paths: &Paths,
    fe: FeId,
    processors: &Processors,
    entering: impl Iterator<Item = Vec<Change>>,
) -> Result<Vec<Change>, ExportError> {
    let inner = inner(paths, fe, processors)?.into_iter();
    let inner = inner.map(|(_, changes)| changes);
    let changes: Vec<Change> = inner.chain(entering).flatten().collect();
    check(paths, fe, &changes).map_err(ExportError::Refused)?;
    Ok(changes)
}

/// The sections of an FE without its ingress encapsulations: the sections of its domain, interfaces and rules.
fn inner(paths: &Paths, fe: FeId, processors: &Processors) -> Result<Vec<Section>, ExportError> {
    let topology = paths.topology();
    let bytes = Scalar::Integer(paths.lid_bytes(topology.domain_of(fe)).into());
    let of_domain = Change::new(ComponentPath::new(["fpf", "lid_bytes"]), bytes);
    let mut sections = vec![(ComponentPath::new(["fpf"]), vec![of_domain])];
    let links = topology.links_of(fe);
    sections.extend(links.map(|link| interface(topology.ends(link, fe))));
    for ((input, lid), rule) in paths.rules(fe) {
        sections.push(rule_section(paths, fe, processors, (input, *lid), rule)?);
    }
    Ok(sections)
}

/// Checks sections for an FE with the ports that its links name.
fn check(paths: &Paths, fe: FeId, changes: &[Change]) -> Result<(), Vec<Fault>> {
    let topology = paths.topology();
    let links = topology.links_of(fe);
    let ports: BTreeSet<&str> = links
        .filter_map(|link| port(topology.ends(link, fe)))
        .collect();
    let queues = paths.rules(fe).values().filter_map(|rule| match rule {
        Rule::Forward { queue, .. } => queue.as_ref(),
        _ => None,
    });
    let queues: BTreeSet<&String> = queues.collect();
    let ports = ports
        .into_iter()
        .flat_map(|port| with_queues(port, &queues));
    let whole: Vec<Change> = ports.chain(changes.iter().cloned()).collect();
    Plan::check(&whole).map(|_| ())
}

/// A minimal port of the FE, with only the queues that the rules name.
fn with_queues(port: &str, queues: &BTreeSet<&String>) -> Vec<Change> {
    let set = |path: ComponentPath, text: &str| Change::new(path, Scalar::Text(text.to_owned()));
    let port_path = Named::Port.path(port);
    let mut changes = vec![set(port_path.join("interface"), port)];
    if !queues.is_empty() {
        let classes: String = queues
            .iter()
            .map(|queue| format!("queue {queue} = 1, "))
            .collect();
        let discipline = port_path.join("discipline");
        changes.push(set(discipline.join("kind"), "class_weights"));
        changes.push(set(discipline.join("classes"), &(classes + "rest = 1")));
    }
    changes
}

impl NetworkPlan {
    /// The FPF sections of an FE's configuration: for these paths, and for other paths through its domain. Already
    /// checked with the FE's own checks.
    pub fn configuration(
        &self,
        paths: &Paths,
        fe: FeId,
        flows: &[Flow],
    ) -> Result<Vec<Change>, Vec<Fault>> {
        let entering = flows.iter().filter(|flow| flow.source == fe);
        let entering = entering.map(|flow| {
            let vectors = flow.routes.iter().map(|route| &route.vector[..]);
            encapsulation(&flow.name, &flow.settings, vectors).1
        });
        whole(paths, fe, &NONE, entering).map_err(|error| self.faults(fe, error))
    }

    /// The sections of an FE without its ingress encapsulations.
    pub fn inner(&self, paths: &Paths, fe: FeId) -> Result<Vec<Section>, Fault> {
        inner(paths, fe, &NONE).map_err(|error| self.fault(fe, error))
    }

    /// A rule of an FE.
    pub fn rule(
        &self,
        paths: &Paths,
        fe: FeId,
        place: (&Input, Lid),
        rule: &Rule,
    ) -> Result<Section, Fault> {
        rule_section(paths, fe, &NONE, place, rule).map_err(|error| self.fault(fe, error))
    }

    /// The port at an end of a link; `None` for a tunnel.
    pub fn port(&self, link: LinkId, fe: FeId) -> Option<&str> {
        port(self.topology.ends(link, fe))
    }

    /// Checks sections for an FE with the ports that the links name.
    pub fn check_at(&self, paths: &Paths, fe: FeId, changes: &[Change]) -> Result<(), Vec<Fault>> {
        let checked = check(paths, fe, changes);
        checked.map_err(|faults| self.faults(fe, ExportError::Refused(faults)))
    }

    /// Converts an error to faults of the file; faults that the FE would report get the FE's name.
    fn faults(&self, fe: FeId, error: ExportError) -> Vec<Fault> {
        let ExportError::Refused(faults) = error else {
            return vec![self.fault(fe, error)];
        };
        let element = &self.topology.fe(fe).name;
        let named = faults.into_iter().map(|fault| Fault {
            message: format!("at `{element}`: {fault}"),
            ..fault
        });
        named.collect()
    }

    /// Converts an error to a fault of the file.
    fn fault(&self, fe: FeId, error: ExportError) -> Fault {
        match error {
            ExportError::NoAddress { link, to, .. } => {
                let name = self.of_links.get(&link).map_or("", |name| &name[..]);
                let is_first = self.topology.link(link).ends[0].fe == to;
                let key = address_of(if is_first { "from" } else { "to" });
                let why = "missing: the previous element sends its frames to this address";
                wrong("link", name, key, why)
            }
            other => wrong("element", &self.topology.fe(fe).name, "", other),
        }
    }
}

/// Formats changes as a configuration file, with a table for each section.
pub fn toml(changes: &[Change]) -> String {
    let mut text = String::new();
    let mut section = String::new();
    for Change { path, value } in changes {
        let block = path.parent().to_string();
        if block != section {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{block}]");
            section = block;
        }
        let segments = path.segments();
        let (Some(name), Some(value)) = (segments.last(), value) else {
            continue;
        };
        let _ = match value {
            Scalar::Text(value) => writeln!(text, "{name} = \"{value}\""),
            other => writeln!(text, "{name} = {other}"),
        };
    }
    text
}

/// A vector in the notation of configurations.
pub fn hex(vector: &[u8]) -> String {
    vector.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Components of one section.
struct Components {
    block: ComponentPath,
    changes: Vec<Change>,
}

impl Components {
    fn new(part: Part, name: &str) -> Self {
        Self {
            block: part.path(name),
            changes: Vec::new(),
        }
    }

    fn set(&mut self, name: &str, value: impl ToString) {
        let value = Scalar::Text(value.to_string());
        self.changes.push(Change::new(self.block.join(name), value));
    }

    fn flag(&mut self, name: &str) {
        let value = Scalar::Flag(true);
        self.changes.push(Change::new(self.block.join(name), value));
    }

    fn finish(self) -> Section {
        (self.block, self.changes)
    }
}

/// The port at the first end; `None` for a tunnel.
fn port(ends: [&End; 2]) -> Option<&str> {
    let near = ends[0];
    match tunnel(ends) {
        Some(_) => None,
        None => Some(port_and_vlan(&near.interface).0),
    }
}

/// The addresses of a tunnel, at the first end and at the second.
fn tunnel(ends: [&End; 2]) -> Option<[IpAddr; 2]> {
    match ends.map(|end| end.address) {
        [Some(Address::Tunnel(local)), Some(Address::Tunnel(remote))] => Some([local, remote]),
        _ => None,
    }
}

/// The interface at the first end.
fn interface(ends: [&End; 2]) -> Section {
    let near = ends[0];
    let mut section = Components::new(Part::Interface, &near.interface);
    if let Some([local, remote]) = tunnel(ends) {
        section.set("local", local);
        section.set("remote", remote);
        return section.finish();
    }
    let (port, vlan) = port_and_vlan(&near.interface);
    section.set("port", port);
    if let Some(vlan) = vlan {
        section.set("vlan", vlan);
    }
    section.finish()
}

/// A rule of an FE.
fn rule_section(
    paths: &Paths,
    fe: FeId,
    processors: &Processors,
    (input, lid): (&Input, Lid),
    rule: &Rule,
) -> Result<Section, ExportError> {
    let (path, digits) = rule_path(input, lid);
    let mut section = Components {
        block: path,
        changes: Vec::new(),
    };
    section.set("lid", digits);
    if let Some(input) = input {
        section.set("input", input);
    }
    set_action(&mut section, paths, fe, processors, rule)?;
    Ok(section.finish())
}

fn set_action(
    section: &mut Components,
    paths: &Paths,
    fe: FeId,
    processors: &Processors,
    rule: &Rule,
) -> Result<(), ExportError> {
    match rule {
        Rule::Forward {
            interface,
            next,
            queue,
            advance,
        } => {
            section.set("output", interface);
            match next.address {
                Some(Address::Ethernet(mac)) => section.set("neighbour", mac::shown(&mac)),
                Some(Address::Ip(address)) => section.set("neighbour", address),
                Some(Address::Tunnel(_)) => {}
                None => {
                    let link = paths.topology().link_at(fe, interface);
                    let link = link.unwrap_or_else(|_| unreachable!("a rule leads over a link"));
                    return Err(ExportError::NoAddress {
                        link,
                        to: next.fe,
                        interface: next.interface.clone(),
                    });
                }
            }
            if *advance > 0 {
                section.flag("leaves_domain");
            }
            if let Some(queue) = queue {
                section.set("queue", queue);
            }
        }
        Rule::Copies(vectors) => {
            section.set("action", "multicast");
            section.set("leaves", leaves(vectors.iter().map(|lids| &lids[..])));
        }
        Rule::Process(number) => {
            let processor = processors.get(number);
            let processor = processor.ok_or(ExportError::Processor(*number))?;
            section.set("action", processor.function.word());
            if let Function::Cache(limits) = processor.function {
                section.set("cache_bytes", format!("{} B", limits.bytes));
                section.set("cache_chunks", limits.chunks);
            }
            let vectors = processor.leaves.iter().map(Vector::as_bytes);
            section.set("leaves", leaves(vectors));
        }
        Rule::Deliver(payload) => {
            section.set("action", "decapsulate");
            if let Payload::EtherType(code) = payload {
                section.set("payload", format!("{code:#06x}"));
            }
        }
    }
    Ok(())
}

/// Vectors in the notation of a rule.
fn leaves<'v>(vectors: impl Iterator<Item = &'v [u8]>) -> String {
    let vectors: Vec<String> = vectors.map(hex).collect();
    vectors.join(" ")
}

/// The port of an interface, and its VLAN if it has one.
fn port_and_vlan(interface: &str) -> (&str, Option<&str>) {
    match interface.rsplit_once('.') {
        Some((port, vlan)) if vlan.parse::<u16>().is_ok() => (port, Some(vlan)),
        _ => (interface, None),
    }
}

/// Path of the rule for a LID, and the LID's digits.
pub fn rule_path(input: &Input, lid: Lid) -> (ComponentPath, String) {
    let width = 2 * usize::from(lid.bytes);
    let digits = format!("{:0width$x}", lid.value);
    let name = match input {
        None => format!("lid-{digits}"),
        Some(input) => format!("lid-{digits}-from-{input}"),
    };
    (Part::Rule.path(&name), digits)
}

/// The encapsulation of a path's packets, with these vectors.
pub fn encapsulation<'v>(
    name: &str,
    settings: &Settings,
    vectors: impl IntoIterator<Item = &'v [u8]>,
) -> Section {
    let vectors = vectors.into_iter().map(|vector| (vector, 1));
    let mut section = Encapsulation::new(name, settings.word("spread"), vectors);
    let defaults = Settings::defaults(Part::Encapsulation.parameters());
    for (name, value) in settings.iter() {
        let is_shared = OF_ENCAPSULATION.contains(&name);
        let text = value.to_string();
        let is_default = defaults
            .iter()
            .any(|(n, d)| n == name && d.to_string() == text);
        if is_shared && !is_default {
            section = section.with(name, text);
        }
    }
    (section.path(), section.section())
}
