//! A control element for the controllers of a run, and its links to the routers that they control.
//!
//! ```text
//!   namespace of `weir ce`                     namespace of `weir fe`, link n
//!   fe0, fe1, ..  100.64.n.1/24 ══ veth ══ weir-ce  100.64.n.2/24
//! ```
//!
//! The links carry nothing but the protocol, over `tcp_udp` without certificates, and are not ports of the routers. So
//! the scenario's links have the same packets as with `control = "northbound"`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as Wall};

use serde_json::Value;
use weir_base::gauge::Gauge;
use weir_base::{Instant, Span};
use weir_config::quoted;
use weir_live::namespace::Namespace;
use weir_northbound::client;

use super::build::Site;
use super::elements::PERIOD_MIN;
use super::window::RunWindow;
use crate::control::{self, Record};
use crate::error::Error;
use crate::scenario::{Controller, Scenario, Wire};
use crate::topology::Topology;

/// The name of the control element; a router of a scenario cannot have it.
pub(super) const NAME: &str = "control element";
/// All routers must have associated within this time.
const ASSOCIATED_MAX: Duration = Duration::from_secs(10);
/// The port of ForCES.
const PORT: u16 = 6704;

/// The links between the control element and its routers, and its configuration.
#[derive(Debug)]
pub(super) struct ControlElement {
    /// The namespace of the control element.
    pub(super) namespace: Namespace,
    /// The numbers of the links, by node.
    links: BTreeMap<usize, usize>,
    /// The rate and the queue of a link, by node: those of the first controller with a rate.
    wires: BTreeMap<usize, Wire>,
}

impl ControlElement {
    /// Builds the links to every router that a controller controls; `None` without controllers, or if controllers
    /// use the routers' northbound services.
    pub(super) fn build(
        scenario: &Scenario,
        topology: &Topology,
        site: &Site,
    ) -> Result<Option<Self>, Error> {
        if !scenario.uses_forces || scenario.controllers.is_empty() {
            return Ok(None);
        }
        let steered = scenario.controllers.iter();
        let steered = steered.flat_map(|described| topology.steered(scenario, described));
        let nodes: BTreeSet<usize> = steered.map(|(_, queue)| queue.node).collect();
        let links: BTreeMap<usize, usize> = nodes.into_iter().zip(0..).collect();
        let namespace = Namespace::new().map_err(Error::io("cannot create a network namespace"))?;
        let element = Self {
            namespace,
            links,
            wires: wires(scenario, topology),
        };
        let mut near = String::from("link set lo up\n");
        for (node, n) in &element.links {
            let router = site.namespaces[*node].path();
            let ours = address(*n, 1);
            // Writing to a string cannot fail.
            let _ = writeln!(
                near,
                "link add name fe{n} type veth peer name weir-ce netns {router}\n\
                 addr add {ours}/24 dev fe{n}\nlink set dev fe{n} up"
            );
        }
        site.ip(&element.namespace, NAME, &near)?;
        for (node, n) in &element.links {
            let theirs = address(*n, 2);
            let far = format!("addr add {theirs}/24 dev weir-ce\nlink set dev weir-ce up\n");
            let name = &topology.nodes[*node].name;
            site.ip(&site.namespaces[*node], name, &far)?;
        }
        Ok(Some(element))
    }

    /// The configuration of the control element.
    pub(super) fn configuration(
        &self,
        scenario: &Scenario,
        topology: &Topology,
        socket: &Path,
    ) -> String {
        let mut text = format!(
            "id = 1\nsocket = {}\nstore = {}\n\n\
             [listen.all]\naddress = \"0.0.0.0:{PORT}\"\ntransport = \"tcp_udp\"\ninsecure = true\n",
            quoted(&socket.to_string_lossy()),
            quoted(&socket.with_extension("store").to_string_lossy()),
        );
        for (node, n) in &self.links {
            let (name, id) = (quoted(&topology.nodes[*node].name), n + 1);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[fe.{name}]\nid = {id}\n");
        }
        for described in &scenario.controllers {
            text += &section(scenario, topology, described);
        }
        text
    }

    /// The sections that make a router one of the forwarding elements; `None` if no controller controls it.
    pub(super) fn sections_of(&self, node: usize) -> Option<String> {
        let n = *self.links.get(&node)?;
        let (id, address) = (n + 1, address(n, 1));
        let wire = self.wires.get(&node).map(|wire| {
            let schedule = wire.schedule.word();
            format!("rate = \"{}\"\nschedule = \"{schedule}\"\n", wire.rate)
        });
        Some(format!(
            "\n[fe]\nid = {id}\n\n[ce.main]\nid = 1\naddress = \"{address}:{PORT}\"\n\
             transport = \"tcp_udp\"\ninsecure = true\n{}",
            wire.unwrap_or_default()
        ))
    }

    /// Waits until every router has associated.
    pub(super) fn wait_associated(
        &self,
        socket: &Path,
        check: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let deadline = Wall::now() + ASSOCIATED_MAX;
        loop {
            let fes = client::get::<Value>(socket, "/v1/fes").unwrap_or_default();
            let fes = fes.as_array().map_or(&[][..], Vec::as_slice);
            let is_away = |fe: &&Value| fe["state"] != "in sync";
            if fes.len() == self.links.len() && !fes.iter().any(|fe| is_away(&fe)) {
                return Ok(());
            }
            check()?;
            if Wall::now() >= deadline {
                let away: Vec<_> = fes.iter().filter(is_away).map(Value::to_string).collect();
                let why = io::Error::other(away.join(", "));
                return Err(Error::io(
                    "timeout: not all routers associated with the control element",
                )(why));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn wires(scenario: &Scenario, topology: &Topology) -> BTreeMap<usize, Wire> {
    let mut wires = BTreeMap::new();
    for described in &scenario.controllers {
        for (_, queue) in topology.steered(scenario, described) {
            if let Some(wire) = &described.wire {
                wires.entry(queue.node).or_insert_with(|| wire.clone());
            }
        }
    }
    wires
}

/// An address of link `n`.
fn address(n: usize, host: u8) -> String {
    format!("100.{}.{}.{host}", 64 + n / 256, n % 256)
}

/// The section of a controller.
fn section(scenario: &Scenario, topology: &Topology, described: &Controller) -> String {
    let manual = described.spec.manual();
    let period = period(described);
    let mut text = format!(
        "\n[controller.{}]\nkind = \"{}\"\nperiod = \"{period}\"\n",
        quoted(&described.name),
        manual.name
    );
    for (name, setting) in described.spec.settings().iter() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = {}", quoted(&setting.to_string()));
    }
    let queues = control::queues(topology, scenario, described);
    for role in manual.roles {
        let of_role = queues.iter().filter(|queue| queue.role.name == role.name);
        let names: Vec<_> = of_role
            .map(|queue| format!("{}.{}", queue.name.element, queue.name.port))
            .collect();
        let _ = writeln!(text, "{} = {}", role.name, quoted(&names.join(", ")));
    }
    text
}

fn period(described: &Controller) -> Span {
    described.period.max(PERIOD_MIN)
}

/// The records of the controllers: one thread per controller reads its gauges from the control element once a period.
pub(super) fn follow(
    scenario: &Scenario,
    socket: &Path,
    window: RunWindow,
) -> io::Result<Vec<JoinHandle<Record>>> {
    let followed = scenario.controllers.iter().map(|described| {
        let (name, period) = (described.name.clone(), period(described));
        let gauges = described.spec.manual().gauges;
        let socket = socket.to_owned();
        let thread = thread::Builder::new().name(format!("controller-{name}"));
        thread.spawn(move || {
            let mut record = Record::new(period);
            let mut next = Instant::ZERO;
            while next < window.last() {
                thread::sleep(window.until(next));
                next += period;
                match client::get::<Value>(&socket, "/v1/controllers") {
                    Ok(rows) => take(&mut record, &rows, &name, gauges),
                    Err(error) => record.unanswered(NAME, error),
                }
            }
            record
        })
    });
    followed.collect()
}

/// Reads a controller's row of the table of controllers into its record.
fn take(record: &mut Record, rows: &Value, name: &str, gauges: &[Gauge]) {
    let mut rows = rows.as_array().into_iter().flatten();
    let Some(row) = rows.find(|row| row["controller"] == name) else {
        return record.unanswered(NAME, "it does not know this controller");
    };
    for gauge in gauges {
        if let Some(value) = row["gauges"][gauge.name].as_f64() {
            record.take_gauge(gauge.name, value);
        }
    }
    if let Some(why) = row["why"].as_str() {
        record.troubled(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    const TEXT: &str = r#"
title = "t"
control = "forces"
[router.fe]
[router.plain]
[host.a]
[host.b]
[link.in]
ends = ["a", "fe"]
[link.up]
ends = ["fe", "plain"]
discipline = { kind = "token_bucket" }
[link.out]
ends = ["plain", "b"]
[traffic.t]
kind = "tcp"
from = "a"
to = "b"
[controller.flow]
kind = "flow_control"
uplinks = ["up"]
period = "1 ms"
total = "9 Mbit"
"#;

    #[test]
    fn a_controller_has_its_keys_and_the_ports_of_its_queues() {
        let (scenario, _) = plan(TEXT, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        // The parameters of the kind are in alphabetical order.
        let expected = "\n[controller.\"flow\"]\nkind = \"flow_control\"\nperiod = \"10 ms\"\n\
             control = \"5 Mbit\"\ndelta = \"0.01\"\nflow_control = \"true\"\nmeasure = \"false\"\n\
             timeout = \"500 ms\"\ntotal = \"9 Mbit\"\nwindow = \"200 ms\"\nuplinks = \"fe.plain\"\n";
        let [described] = &scenario.controllers[..] else {
            panic!("{:?}", scenario.controllers)
        };
        assert_eq!(section(&scenario, &topology, described), expected);
    }

    #[test]
    fn only_a_controller_of_forces_needs_a_control_element() {
        let (forces, _) = plan(TEXT, &[], &[]).unwrap();
        assert!(forces.uses_forces);
        let northbound = TEXT.replace("control = \"forces\"", "");
        let (northbound, _) = plan(&northbound, &[], &[]).unwrap();
        assert!(!northbound.uses_forces);
        assert!(plan(&TEXT.replace("\"forces\"", "\"force\""), &[], &[]).is_err());
    }
}
