//! The configuration of each FE: its interfaces, the rules of its domain, and the packets that enter there.

use std::collections::BTreeSet;

use weir_base::setting::{Scalar, Settings};
use weir_controller::paths::{FeId, Input, Lid, LinkId, Paths, Payload, Rule};
use weir_lfb::Plan;
use weir_lfb::fpf::Part;
use weir_lfb::named::Named;
use weir_model::{Change, ComponentPath, Fault};

use super::section::OF_ENCAPSULATION;
use super::{Flow, NetworkPlan, wrong};

/// A section with its components.
pub(crate) type Section = (ComponentPath, Vec<Change>);

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

impl NetworkPlan {
    /// The FPF sections of an FE's configuration: for these paths, and for those of others through its domain. They
    /// have been checked as the FE itself will check them.
    pub fn configuration(
        &self,
        paths: &Paths,
        fe: FeId,
        flows: &[Flow],
    ) -> Result<Vec<Change>, Vec<Fault>> {
        let mut sections = self.inner(paths, fe).map_err(|fault| vec![fault])?;
        let entering = flows.iter().filter(|flow| flow.source == fe);
        sections.extend(entering.map(|flow| {
            let vectors = flow.routes.iter().map(|route| &route.vector[..]);
            encapsulation(&flow.name, &flow.settings, vectors)
        }));
        let changes = sections.into_iter().flat_map(|(_, changes)| changes);
        let changes: Vec<Change> = changes.collect();
        self.check_at(fe, &changes)?;
        Ok(changes)
    }

    /// The sections of an FE without those of the packets that enter there: of its domain, of its interfaces, and of its
    /// rules.
    pub(super) fn inner(&self, paths: &Paths, fe: FeId) -> Result<Vec<Section>, Fault> {
        let bytes = Scalar::Integer(paths.lid_bytes(self.topology.domain_of(fe)).into());
        let of_domain = Change::new(ComponentPath::new(["fpf", "lid_bytes"]), bytes);
        let mut sections = vec![(ComponentPath::new(["fpf"]), vec![of_domain])];
        sections.extend(
            self.topology
                .links_of(fe)
                .map(|link| self.interface(link, fe)),
        );
        for ((input, lid), rule) in paths.rules(fe) {
            sections.push(self.rule(fe, (input, *lid), rule)?);
        }
        Ok(sections)
    }

    /// Checks sections of an FE that has the ports that the links name.
    pub(super) fn check_at(&self, fe: FeId, changes: &[Change]) -> Result<(), Vec<Fault>> {
        let ports = self
            .topology
            .links_of(fe)
            .filter_map(|link| self.port(link, fe));
        let ports: BTreeSet<&str> = ports.collect();
        let ports = ports.into_iter().map(|port| {
            let path = Named::Port.path(port).join("interface");
            Change::new(path, Scalar::Text(port.to_owned()))
        });
        let whole: Vec<Change> = ports.chain(changes.iter().cloned()).collect();
        let checked = Plan::check(&whole).map_err(|faults| {
            let element = &self.topology.fe(fe).name;
            let named = faults.into_iter().map(|fault| Fault {
                message: format!("at `{element}`: {fault}"),
                ..fault
            });
            named.collect::<Vec<_>>()
        });
        checked.map(|_| ())
    }

    /// The port at an end of a link; none for a tunnel.
    pub(super) fn port(&self, link: LinkId, fe: FeId) -> Option<&str> {
        let near = self.topology.ends(link, fe)[0];
        (!self.is_tunnel(link)).then(|| port_and_vlan(&near.interface).0)
    }

    /// The interface at an end of a link.
    fn interface(&self, link: LinkId, fe: FeId) -> Section {
        let near = self.topology.ends(link, fe)[0];
        let mut section = Components::new(Part::Interface, &near.interface);
        if self.is_tunnel(link) {
            let [local, remote] = self.addresses(link, fe);
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

    /// The addresses of a link as the file has them: at this FE, and at the other one.
    fn addresses(&self, link: LinkId, fe: FeId) -> [&str; 2] {
        let Some((_, settings)) = self.of_links.get(&link) else {
            return [""; 2];
        };
        let ends = ["from_address", "to_address"].map(|name| settings.text(name));
        match self.topology.link(link).ends[0].fe == fe {
            true => ends,
            false => [ends[1], ends[0]],
        }
    }

    fn is_tunnel(&self, link: LinkId) -> bool {
        let link = self.of_links.get(&link);
        link.is_some_and(|(_, settings)| settings.flag("tunnel"))
    }

    /// A rule of an FE.
    pub(super) fn rule(
        &self,
        fe: FeId,
        (input, lid): (&Input, Lid),
        rule: &Rule,
    ) -> Result<Section, Fault> {
        let (path, digits) = rule_path(input, lid);
        let mut section = Components {
            block: path,
            changes: Vec::new(),
        };
        section.set("lid", digits);
        if let Some(input) = input {
            section.set("input", input);
        }
        self.action(&mut section, fe, rule)?;
        Ok(section.finish())
    }

    fn action(&self, section: &mut Components, fe: FeId, rule: &Rule) -> Result<(), Fault> {
        match rule {
            Rule::Forward {
                interface,
                queue,
                advance,
                ..
            } => {
                let link = self.topology.link_at(fe, interface);
                let link = link.map_err(|error| wrong("link", interface, "", error))?;
                let [_, far] = self.addresses(link, fe);
                section.set("output", interface);
                if far.is_empty() {
                    let name = self.of_links.get(&link).map_or("", |(name, _)| name);
                    let is_from = self.topology.link(link).ends[0].fe == fe;
                    let key = if is_from {
                        "to_address"
                    } else {
                        "from_address"
                    };
                    let why = "missing: the element before it sends its frames to this address";
                    return Err(wrong("link", name, key, why));
                }
                if !self.is_tunnel(link) {
                    section.set("neighbour", far);
                }
                if *advance > 0 {
                    section.flag("leaves_domain");
                }
                if let Some(queue) = queue {
                    section.set("queue", queue);
                }
            }
            Rule::Copies(vectors) => {
                let leaves: Vec<String> = vectors.iter().map(|vector| hex(vector)).collect();
                section.set("action", "multicast");
                section.set("leaves", leaves.join(" "));
            }
            // A file has no word for it: only a simulated network has processors.
            Rule::Process(_) => {
                return Err(wrong(
                    "element",
                    &self.topology.fe(fe).name,
                    "",
                    "it would process packets",
                ));
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
}

/// The port of an interface, and its VLAN if it has one.
fn port_and_vlan(interface: &str) -> (&str, Option<&str>) {
    match interface.rsplit_once('.') {
        Some((port, vlan)) if vlan.parse::<u16>().is_ok() => (port, Some(vlan)),
        _ => (interface, None),
    }
}

/// Where the rule for a LID is, and the LID's digits.
pub(super) fn rule_path(input: &Input, lid: Lid) -> (ComponentPath, String) {
    let width = 2 * usize::from(lid.bytes);
    let digits = format!("{:0width$x}", lid.value);
    let name = match input {
        None => format!("lid-{digits}"),
        Some(input) => format!("lid-{digits}-from-{input}"),
    };
    (Part::Rule.path(&name), digits)
}

/// The packets of a path's section, which get these vectors.
pub(super) fn encapsulation<'v>(
    name: &str,
    settings: &Settings,
    vectors: impl IntoIterator<Item = &'v [u8]>,
) -> Section {
    let mut section = Components::new(Part::Encapsulation, name);
    let vectors: Vec<String> = vectors.into_iter().map(hex).collect();
    section.set("vectors", vectors.join(" "));
    section.set("spread", settings.word("spread"));
    let defaults = Settings::defaults(Part::Encapsulation.parameters());
    for (name, value) in settings.iter() {
        let is_shared = OF_ENCAPSULATION.contains(&name);
        let text = value.to_string();
        let is_default = defaults
            .iter()
            .any(|(n, d)| n == name && d.to_string() == text);
        if is_shared && !is_default {
            section.set(name, text);
        }
    }
    section.finish()
}

/// A vector as configurations write it.
pub fn hex(vector: &[u8]) -> String {
    vector.iter().map(|byte| format!("{byte:02x}")).collect()
}
