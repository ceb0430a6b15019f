//! The configuration of each FE: its interfaces, the rules of its domain, and the packets that enter there.

use std::collections::BTreeSet;

use weir_base::setting::{Scalar, Settings};
use weir_controller::paths::{End, FeId, LinkId, Paths, Payload, Rule};
use weir_lfb::Plan;
use weir_lfb::fpf::Part;
use weir_lfb::named::Named;
use weir_model::{Change, ComponentPath, Fault};

use super::section::OF_ENCAPSULATION;
use super::{Flow, NetworkPlan, wrong};

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
        let one = |fault| vec![fault];
        let topology = paths.topology();
        let mut changes = Vec::new();
        let bytes = Scalar::Integer(paths.lid_bytes(topology.domain_of(fe)).into());
        changes.push(Change::new(ComponentPath::new(["fpf", "lid_bytes"]), bytes));
        let mut ports = BTreeSet::new();
        for link in topology.links_of(fe) {
            let [near, _] = topology.ends(link, fe);
            let (section, port) = self.interface(link, fe, near);
            ports.extend(port);
            changes.extend(section.changes);
        }
        for ((input, lid), rule) in paths.rules(fe) {
            let digits = 2 * usize::from(lid.bytes);
            let lid = format!("{:0digits$x}", lid.value);
            let name = match input {
                None => format!("lid-{lid}"),
                Some(input) => format!("lid-{lid}-from-{input}"),
            };
            let mut section = Components::new(Part::Rule, &name);
            section.set("lid", lid);
            if let Some(input) = input {
                section.set("input", input);
            }
            self.rule(&mut section, fe, rule).map_err(one)?;
            changes.extend(section.changes);
        }
        for flow in flows.iter().filter(|flow| flow.source == fe) {
            changes.extend(encapsulation(flow).changes);
        }
        let ports = ports.into_iter().map(|port| {
            let path = Named::Port.path(port).join("interface");
            Change::new(path, Scalar::Text(port.to_owned()))
        });
        let whole: Vec<Change> = ports.chain(changes.iter().cloned()).collect();
        Plan::check(&whole).map_err(|faults| {
            let element = &topology.fe(fe).name;
            let named = faults.into_iter().map(|fault| Fault {
                message: format!("at `{element}`: {fault}"),
                ..fault
            });
            named.collect::<Vec<_>>()
        })?;
        Ok(changes)
    }

    /// The interface at an end of a link, and its port, if it has one.
    fn interface<'a>(
        &self,
        link: LinkId,
        fe: FeId,
        near: &'a End,
    ) -> (Components, Option<&'a str>) {
        let mut section = Components::new(Part::Interface, &near.interface);
        if self.is_tunnel(link) {
            let [local, remote] = self.addresses(link, fe);
            section.set("local", local);
            section.set("remote", remote);
            return (section, None);
        }
        let (port, vlan) = match near.interface.rsplit_once('.') {
            Some((port, vlan)) if vlan.parse::<u16>().is_ok() => (port, Some(vlan)),
            _ => (&near.interface[..], None),
        };
        section.set("port", port);
        if let Some(vlan) = vlan {
            section.set("vlan", vlan);
        }
        (section, Some(port))
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

    fn rule(&self, section: &mut Components, fe: FeId, rule: &Rule) -> Result<(), Fault> {
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

fn encapsulation(flow: &Flow) -> Components {
    let mut section = Components::new(Part::Encapsulation, &flow.name);
    let vectors: Vec<String> = flow.routes.iter().map(|route| hex(&route.vector)).collect();
    section.set("vectors", vectors.join(" "));
    section.set("spread", flow.settings.word("spread"));
    let defaults = Settings::defaults(Part::Encapsulation.parameters());
    for (name, value) in flow.settings.iter() {
        let is_shared = OF_ENCAPSULATION.contains(&name);
        let text = value.to_string();
        let is_default = defaults
            .iter()
            .any(|(n, d)| n == name && d.to_string() == text);
        if is_shared && !is_default {
            section.set(name, text);
        }
    }
    section
}

/// A vector as configurations write it.
pub fn hex(vector: &[u8]) -> String {
    vector.iter().map(|byte| format!("{byte:02x}")).collect()
}
