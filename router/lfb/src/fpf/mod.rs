//! Flexible packet forwarding (FPF): the domain, the interfaces, the rules, and the packets that get a header at this
//! edge.
//!
//! ```toml
//! [fpf]                              # the domain
//! lid_bytes = 1
//!
//! [fpf.interface.core]               # where FPF packets come in and go out
//! port = "wan"
//!
//! [fpf.rule.to-b]                    # LID b1: to the neighbour, which is in the next domain
//! lid = "b1"
//! output = "core"
//! neighbour = "192.0.2.2"
//! leaves_domain = true
//!
//! [fpf.encapsulation.video]          # packets to this prefix follow the vector b1 a1
//! destination = "198.51.100.0/24"
//! vectors = "b1a1"
//!
//! [fpf.class.voice]                  # flows in which a classifier finds RTP do so, too
//! kinds = "rtp"
//! vectors = "b1a1"
//! ```
//!
//! A router has FPF if the configuration has an FPF interface. Only these interfaces accept FPF packets; elsewhere
//! their Ethernet type is unknown. Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future
//! Internet Networks", section III.
//!
//! - `domain`: the section `[fpf]`
//! - `interface`, `rule`, `encapsulation`, `class`: one file for each kind of section within
//! - `text`: parsers for LIDs, vectors and Ethernet types

mod class;
mod domain;
mod encapsulation;
mod interface;
mod rule;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::Instant;
use weir_base::setting::{Parameter, Settings};
use weir_classifier::policy::Policy;
use weir_fpf_path::edge::filter::Filter;
use weir_fpf_path::edge::setup::{NoMatch, Setup};
use weir_fpf_path::{Builder, Fpf, Interface, InterfaceId, Table};
use weir_model::fault::ResultCode;
use weir_model::{ComponentPath, Fault};
use weir_path::plane::Plane;

pub use domain::PARAMETERS;

use crate::port::PortPlan;

/// The key of the section.
pub(crate) const KEY: &str = "fpf";

/// Maximum interfaces; also maximum rules, and maximum encapsulations.
const NAMED_MAX: usize = 65_536;

/// A kind of section within `[fpf]`, whose instances the operator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An interface that receives and sends FPF packets.
    Interface,
    /// The action for packets with a LID.
    Rule,
    /// Packets that get a header here, and their vectors.
    Encapsulation,
    /// Flows that get a header because of their content, and their vectors.
    Class,
}

impl Part {
    /// All kinds; each kind depends only on the kinds before it.
    pub const ALL: [Self; 4] = [
        Self::Interface,
        Self::Rule,
        Self::Encapsulation,
        Self::Class,
    ];

    /// The key of its sections.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Rule => "rule",
            Self::Encapsulation => "encapsulation",
            Self::Class => "class",
        }
    }

    /// The components of its sections.
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Interface => interface::PARAMETERS,
            Self::Rule => rule::PARAMETERS,
            Self::Encapsulation => encapsulation::PARAMETERS,
            Self::Class => class::PARAMETERS,
        }
    }

    /// The path of the section with this name.
    pub fn path(self, name: &str) -> ComponentPath {
        ComponentPath::new([KEY, self.key(), name])
    }

    /// The kind and name of the section that a path names or points into.
    pub fn find<'p>(path: &'p ComponentPath) -> Option<(Self, &'p str)> {
        let segments: Vec<&'p str> = path.segments();
        let [key, part, name, ..] = segments[..] else {
            return None;
        };
        let is_here = key == KEY;
        let part = Self::ALL.into_iter().find(|p| p.key() == part)?;
        is_here.then_some((part, name))
    }
}

/// The settings of sections, by name.
type Named = BTreeMap<String, Settings>;

/// The checked sections of FPF.
#[derive(Clone, Debug)]
pub struct FpfPlan {
    settings: Settings,
    named: BTreeMap<Part, Named>,
    /// `None` without named sections, and before [`Self::build`].
    built: Option<Built>,
}

/// All sections together, ready for the plane.
#[derive(Clone, Debug)]
pub struct Built {
    /// Rules by interface and LID.
    pub table: Arc<Table>,
    /// The part of the edge: encapsulations, classes, and their ports.
    pub edge: Arc<Setup>,
    /// The classifier's criteria: a row for each class, in the same order.
    pub policy: Arc<Policy>,
}

impl Default for FpfPlan {
    fn default() -> Self {
        Self {
            settings: Settings::defaults(PARAMETERS),
            named: BTreeMap::new(),
            built: None,
        }
    }
}

/// Compares the settings only, because `built` is derived from them.
impl PartialEq for FpfPlan {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings && self.named == other.named
    }
}

impl FpfPlan {
    /// The table and the edge for the plane; `None` if the router has no FPF.
    pub fn built(&self) -> Option<&Built> {
        self.built.as_ref()
    }

    /// Applies FPF to a plane, or switches it off. Returns the replaced parts, so that another thread can free them.
    pub fn apply(&self, plane: &mut Plane, now: Instant) -> impl Send + use<> {
        let built = self.built.as_ref();
        let table = Fpf::set_table(plane, built.map(|built| Arc::clone(&built.table)));
        let edge = built.map(|built| Arc::clone(&built.edge));
        (table, Fpf::set_edge(plane, edge, now))
    }

    /// The two ends of each tunnel, whose packets the kernel must not get.
    pub fn tunnels(&self) -> Vec<(IpAddr, IpAddr)> {
        let interfaces = self.built.iter().flat_map(|built| built.table.interfaces());
        let ends = interfaces.filter_map(|interface| match interface {
            Interface::Gre { local, remote, .. } => Some((*local, *remote)),
            _ => None,
        });
        ends.collect()
    }

    /// Maximum packets that wait in the shapers of this edge.
    pub(crate) fn waiting_max(&self) -> usize {
        let each = self.each(Part::Encapsulation);
        each.map(|(_, settings)| encapsulation::waiting_max(settings))
            .sum()
    }

    /// The settings of the domain.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the settings of the domain.
    pub(crate) fn set(&mut self, settings: Settings) {
        self.built = None;
        self.settings = settings;
    }

    /// Adds the section with this name, or changes it.
    pub(crate) fn set_named(&mut self, part: Part, name: &str, settings: Settings) {
        self.built = None;
        let named = self.named.entry(part).or_default();
        named.insert(name.to_owned(), settings);
    }

    /// Removes the section with this name.
    pub(crate) fn remove(&mut self, part: Part, name: &str) {
        self.built = None;
        if let Some(named) = self.named.get_mut(&part) {
            named.remove(name);
            if named.is_empty() {
                self.named.remove(&part);
            }
        }
    }

    /// Whether the named sections have changed since the last [`Self::build`].
    pub(crate) fn is_stale(&self) -> bool {
        self.built.is_none() && !self.named.is_empty()
    }

    /// The settings of the section with this name.
    pub(crate) fn get(&self, part: Part, name: &str) -> Option<&Settings> {
        self.named.get(&part)?.get(name)
    }

    /// The sections of a kind, by name.
    pub(crate) fn each(&self, part: Part) -> impl Iterator<Item = (&str, &Settings)> {
        let named = self.named.get(&part).into_iter().flatten();
        named.map(|(name, settings)| (&name[..], settings))
    }

    /// Every section with its kind and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Part, &str, &Settings)> {
        let each = |part| self.each(part).map(move |(name, s)| (part, name, s));
        Part::ALL.into_iter().flat_map(each)
    }

    /// Builds the table and the edge for the plane from the sections, of which at least one must exist. Reports every
    /// fault.
    pub(crate) fn build(mut self) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        self.check_numbers(&mut faults);
        match self.everything(&mut faults) {
            Some(built) if faults.is_empty() => {
                self.built = Some(built);
                Ok(self)
            }
            _ => Err(faults),
        }
    }

    /// Checks that every interface is on a port of the router, and that the port has the queues that rules name. A
    /// tunnel has no port, so its queues are not checked: a port that lacks the queue treats the packets like any
    /// others.
    pub(crate) fn check_ports(&self, ports: &[PortPlan]) -> Result<(), Fault> {
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
        let edge = domain::edge_ports(&self.settings);
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

    fn check_numbers(&self, faults: &mut Vec<Fault>) {
        for (part, named) in &self.named {
            let max = match part {
                Part::Class => class::CLASSES_MAX,
                _ => NAMED_MAX,
            };
            if named.len() > max {
                let (key, len) = (part.key(), named.len());
                let why =
                    format!("there are {len} sections `{key}`, but at most {max} are permitted");
                let at = ComponentPath::new([KEY, key]);
                faults.push(Fault::new(at, why));
            }
        }
    }

    fn everything(&self, faults: &mut Vec<Fault>) -> Option<Built> {
        let root = ComponentPath::new([KEY]);
        let domain = domain::domain(&self.settings)
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
        let no_match = domain::no_match(&self.settings);
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
                flows_max: domain::classifier_flows(&self.settings),
                no_match,
                ports: domain::edge_ports(&self.settings),
            }),
            policy: Arc::new(Policy::new(rows)),
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

/// The interfaces in the table, by name.
type Interfaces = BTreeMap<String, Added>;

/// An interface in the table.
#[derive(Clone, Copy)]
struct Added {
    id: InterfaceId,
    is_tunnel: bool,
}

/// The packet filter of an encapsulation at this path, or of a section with the same filter components.
pub fn filter(path: &ComponentPath, settings: &Settings) -> Result<Filter, Fault> {
    encapsulation::filter(settings).map_err(|wrong| wrong.at(path))
}

/// Why a section is refused, and the component at fault.
#[derive(Debug)]
struct Wrong {
    /// Empty for the whole section.
    component: &'static str,
    why: String,
}

impl Wrong {
    fn new(component: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { component, why }
    }

    fn whole(why: impl Into<String>) -> Self {
        Self::new("", why)
    }

    /// The fault in the section at this path.
    fn at(self, path: &ComponentPath) -> Fault {
        let at = match self.component {
            "" => path.clone(),
            component => path.join(component),
        };
        Fault::new(at, self.why).code(ResultCode::ValueOutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Rate;
    use weir_base::setting::Scalar;
    use weir_fpf_path::edge::profile::{Profile, Shape};
    use weir_fpf_path::process::Function;
    use weir_fpf_path::process::cache::Limits;
    use weir_fpf_path::{Destination, Hop, Inner, Rule};
    use weir_model::{Change, Operation};
    use weir_packet::Queue;

    use crate::Plan;

    /// Components, a line each: `path = value`, or a path alone for a section.
    fn changes(lines: &str) -> Vec<Change> {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let change = |line: &str| match line.split_once(" = ") {
            None => Change::block(ComponentPath::new(line.split('.'))),
            Some((path, value)) => Change::new(
                ComponentPath::new(path.split('.')),
                Scalar::Text(value.to_owned()),
            ),
        };
        lines.map(change).collect()
    }

    const ROUTER: &str = "
        port.lan.interface = eth0
        port.wan.interface = eth1
        fpf.interface.core.port = wan
        fpf.interface.tunnel.local = 192.0.2.1
        fpf.interface.tunnel.remote = 192.0.2.2
        fpf.rule.to-b.lid = b1
        fpf.rule.to-b.output = core
        fpf.rule.to-b.neighbour = 02:00:00:00:00:0b
        fpf.rule.to-b.leaves_domain = true
        fpf.rule.far.input = core
        fpf.rule.far.lid = c1
        fpf.rule.far.output = tunnel
        fpf.rule.both.lid = d1
        fpf.rule.both.action = multicast
        fpf.rule.both.leaves = b1a1 c1
        fpf.rule.last.action = end
        fpf.rule.last.input = tunnel
        fpf.rule.last.payload = 0x88b5
        fpf.rule.last.output = core
        fpf.rule.last.neighbour = 02:00:00:00:00:0c
        fpf.encapsulation.video.destination = 198.51.100.0/24
        fpf.encapsulation.video.vectors = b1a1:3 c1a1
        fpf.encapsulation.call.version = 4
        fpf.encapsulation.call.protocol = udp
        fpf.encapsulation.call.destination_ports = 5000-5999
        fpf.encapsulation.call.vectors = b1
        fpf.encapsulation.all.priority = 2000
        fpf.encapsulation.all.version = 6
        fpf.encapsulation.all.vectors = c1
        fpf.class.voice.kinds = rtp
        fpf.class.voice.vectors = b1
        fpf.class.partner.priority = 7
        fpf.class.partner.kinds = tls quic
        fpf.class.partner.server = *.example.org
        fpf.class.partner.vectors = b1a1
        fpf.class.partner.police = 1 Mbit
        ";

    fn plan(more: &str) -> Result<Plan, Vec<String>> {
        let faults = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect();
        Plan::check(&changes(&format!("{ROUTER}\n{more}"))).map_err(faults)
    }

    #[test]
    fn sections_become_the_table_of_the_plane() {
        let plan = plan("fpf.edge_ports = lan").unwrap();
        let built = plan.fpf.built().unwrap();
        let table = &built.table;
        let id = |interface: Interface| table.find(&interface).unwrap();
        let core = id(Interface::ethernet("wan"));
        let ends = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let tunnel = id(Interface::gre(ends[0], ends[1]).unwrap());
        let hop = |interface, last, leaves_domain| Hop {
            interface,
            destination: [2, 0, 0, 0, 0, last].into(),
            queue: Default::default(),
            leaves_domain,
        };
        let to_b = Rule::Forward(hop(core, 0xb, true));
        assert_eq!(table.rule(table.input(tunnel), 0xb1), Some(&to_b));
        assert_eq!(table.rule(table.input(tunnel), 0xc1), None);
        let Some(Rule::Forward(far)) = table.rule(table.input(core), 0xc1) else {
            panic!("a rule of its interface")
        };
        assert_eq!(
            (far.interface, far.destination),
            (tunnel, Default::default())
        );
        assert!(
            matches!(table.rule(table.any_input(), 0xd1), Some(Rule::Multicast(l)) if l.len() == 2)
        );
        let Inner::Frame(ethertype, last) = table.end(table.input(tunnel)) else {
            panic!("a rule for the end")
        };
        assert_eq!(
            (u16::from(ethertype), last),
            (0x88b5, hop(core, 0xc, false))
        );
        assert_eq!(table.end(table.input(core)), Inner::Ip);
        let names: Vec<_> = built
            .edge
            .encapsulations
            .iter()
            .map(|e| (&e.name[..], e.row))
            .collect();
        assert_eq!(
            names,
            [
                ("call", 1000 << 16),
                ("video", (1000 << 16) + 1),
                ("all", 2000 << 16)
            ]
        );
        let video = &built.edge.encapsulations[1].rule.paths;
        assert_eq!((video.weights(), video.header_len_max()), (&[3, 1][..], 4));
        let classes = built.edge.classes.iter();
        let classes = classes.map(|class| (&class.name[..], class.rule.timeout));
        let minute = Some(weir_base::Span::from_secs(60));
        assert_eq!(
            classes.collect::<Vec<_>>(),
            [("partner", minute), ("voice", minute)]
        );
        let kinds = |kind| weir_classifier::Kinds::NONE.with(kind);
        let row = |kind, server| built.policy.row(kinds(kind), server);
        assert_eq!(row(weir_classifier::Kind::Rtp, None), Some(1));
        assert_eq!(
            row(weir_classifier::Kind::Quic, Some("a.example.org")),
            Some(0)
        );
        assert!(built.edge.classes[0].rule.profile.is_some());
        assert_eq!(built.edge.flows_max, 20_000);
        assert_eq!(
            (built.edge.no_match, &built.edge.ports[..]),
            (NoMatch::Forward, &["lan".to_owned()][..])
        );
    }

    #[test]
    fn a_rule_names_a_queue_that_its_port_has() {
        let plan = plan(
            "fpf.rule.to-b.queue = 7
            fpf.rule.far.queue = 9
            port.wan.discipline.kind = class_weights
            port.wan.discipline.classes = queue 7 = 2, rest = 1",
        );
        let built = plan.unwrap();
        let table = &built.fpf.built().unwrap().table;
        let Some(Rule::Forward(hop)) = table.rule(table.any_input(), 0xb1) else {
            panic!("a rule to b")
        };
        assert_eq!(hop.queue, Queue(7));
    }

    #[test]
    fn a_cache_has_limits() {
        for (more, bytes, chunks) in [
            ("", 16_000_000, 10_000),
            (
                "fpf.rule.both.cache_bytes = 2 MB\nfpf.rule.both.cache_chunks = 7",
                2_000_000,
                7,
            ),
        ] {
            let cache = "fpf.rule.both.action = cache\nfpf.rule.both.leaves = c1";
            let plan = plan(&format!("{cache}\n{more}")).unwrap();
            let table = &plan.fpf.built().unwrap().table;
            let function = Function::Cache(Limits { bytes, chunks });
            assert_eq!(table.processors()[0].function, function);
        }
    }

    #[test]
    fn packets_that_wait_for_a_rate_count_among_those_of_the_pool() {
        let [without, with] = ["0 bit", "20 Mbit"].map(|rate| {
            plan(&format!(
                "fpf.encapsulation.call.shape = {rate}\nfpf.encapsulation.call.shape_limit = 70"
            ))
            .unwrap()
        });
        assert_eq!(with.packets_needed(), without.packets_needed() + 70);
        let call = &with.fpf.built().unwrap().edge.encapsulations[0].rule;
        let shape = Shape::new(Rate::from_mbps(20), 70).unwrap();
        assert_eq!(call.profile, Some(Profile::Shaped(shape)));
    }

    #[test]
    fn a_neighbour_has_a_mac_address_or_an_ip_address() {
        for neighbour in ["192.0.2.7", "2001:db8::7"] {
            let plan = plan(&format!("fpf.rule.to-b.neighbour = {neighbour}")).unwrap();
            let table = &plan.fpf.built().unwrap().table;
            let Some(Rule::Forward(hop)) = table.rule(table.any_input(), 0xb1) else {
                panic!("a rule to b")
            };
            let address = neighbour.parse().unwrap();
            assert_eq!(hop.destination, Destination::Address(address));
        }
    }

    #[test]
    fn a_router_without_an_fpf_section_has_none() {
        let plan = Plan::check(&changes("port.lan.interface = eth0")).unwrap();
        assert!(plan.fpf.built().is_none());
        assert_eq!(*plan.fpf, FpfPlan::default());
    }

    #[test]
    fn faults_name_their_place_and_the_remedy() {
        for (more, expected) in [
            (
                "fpf.rule.far.output = tunel",
                "fpf.rule.far.output: there is no FPF interface `tunel`; add [fpf.interface.tunel]",
            ),
            (
                "fpf.rule.far.lid = 00c1",
                "fpf.rule.far.lid: \"00c1\" is not a LID; in this domain a LID has 2 hexadecimal digits",
            ),
            (
                "fpf.rule.to-b.neighbour = 192.0.2",
                "fpf.rule.to-b.neighbour: \"192.0.2\" is neither a unicast IP address",
            ),
            (
                "fpf.rule.to-b.neighbour = 01:00:00:00:00:0b",
                "nor a unicast MAC address",
            ),
            (
                "fpf.rule.to-b.neighbour = ff02::1",
                "\"ff02::1\" is neither a unicast IP address",
            ),
            (
                "fpf.interface.core.vlan = 7\nfpf.rule.to-b.neighbour = 192.0.2.7",
                "fpf.rule.to-b: the neighbour 192.0.2.7 cannot be resolved in a VLAN",
            ),
            (
                "fpf.rule.last.lid = a1",
                "fpf.rule.last.lid: a rule with action = \"end\" has no LID",
            ),
            ("fpf.rule.both.leaves = d1", "leads back to itself"),
            (
                "fpf.rule.both.action = reassemble",
                "fpf.rule.both.leaves: reassemble has no leaves: packets follow the next LID",
            ),
            (
                "fpf.rule.both.action = cache",
                "fpf.rule.both.leaves: cache needs 1 leaf, not 2",
            ),
            (
                "fpf.rule.both.action = cache\nfpf.rule.both.cache_bytes = 1 kB",
                "fpf.rule.both.cache_bytes: `cache_bytes` is \"1 kB\", but must be a size from \"64000 B\"",
            ),
            (
                "fpf.rule.new.lid = b1\nfpf.rule.new.action = drop",
                "fpf.rule.to-b: LID 0xb1 has two rules",
            ),
            (
                "fpf.interface.again.port = wan",
                "fpf.interface.core: the interface `again` is identical",
            ),
            (
                "fpf.interface.none.vlan = 7",
                "fpf.interface.none: set either `port`, or `local` and `remote`",
            ),
            (
                "fpf.interface.none.port = guest",
                "fpf.interface.none.port: there is no port `guest`; add [port.guest]",
            ),
            (
                "port.own.kind = tun\nfpf.interface.none.port = own",
                "fpf.interface.none.port: the port `own` of kind \"tun\" leads to this machine, not to an FPF element",
            ),
            (
                "fpf.interface.core.ports = wan",
                "fpf.interface.core.ports: `ports` is only for a tunnel",
            ),
            (
                "fpf.interface.far.local = 192.0.2.1\nfpf.interface.far.remote = 192.0.2.9\n\
                 fpf.interface.far.ports = wan guest",
                "fpf.interface.far.ports: there is no port `guest`",
            ),
            (
                "fpf.edge_ports = lan guest",
                "fpf.edge_ports: there is no port `guest`",
            ),
            (
                "fpf.ether_type = 0x0800",
                "fpf.ether_type: Ethernet type 0x0800 cannot be used for FPF",
            ),
            (
                "fpf.rule.to-b.queue = 7",
                "fpf.rule.to-b.queue: the port `wan` has no queue 7; give it one with [port.wan] discipline = { kind",
            ),
            (
                "fpf.rule.to-b.queue = 7\nport.wan.discipline.kind = class_weights\n\
                 port.wan.discipline.classes = queue 8 = 2, rest = 1",
                "the port `wan` has no queue 7",
            ),
            (
                "fpf.encapsulation.y.version = 4",
                "fpf.encapsulation.y.vectors: the number of vectors is 0",
            ),
            (
                "fpf.encapsulation.video.vectors = b1:x",
                "the weight must be a number",
            ),
            (
                "fpf.encapsulation.video.source = 10.0.0.1/8",
                "has bits set beyond its prefix length; write 10.0.0.0/8",
            ),
            (
                "fpf.encapsulation.call.protocol = icmp",
                "must be absent, unless the protocol has ports",
            ),
            (
                "fpf.encapsulation.call.police = 1 Mbit\nfpf.encapsulation.call.burst = 1 B",
                "burst",
            ),
            (
                "fpf.encapsulation.call.police = 1 Mbit\nfpf.encapsulation.call.shape = 1 Mbit",
                "fpf.encapsulation.call.shape: `shape` cannot be combined with `police`; remove `police`",
            ),
            (
                "fpf.encapsulation.x",
                "fpf.encapsulation.x: version is not given",
            ),
            (
                "fpf.class.voice.kinds = rtp rtpp",
                "fpf.class.voice.kinds: \"rtpp\" is not a kind of flow; did you mean `rtp`?",
            ),
            (
                "fpf.class.x.vectors = b1",
                "fpf.class.x.kinds: no kind is given; permitted are rtp, rtcp, svc, sip",
            ),
            (
                "fpf.class.voice.server = *",
                "fpf.class.voice.server: `*` is not a server name",
            ),
            (
                "fpf.class.x.kinds = rtp",
                "fpf.class.x.vectors: the number of vectors is 0",
            ),
            (
                "fpf.lid_bytes = 2",
                "fpf.class.voice.vectors: \"b1\" is shorter than a LID of 2 bytes",
            ),
            (
                "fpf.class.voice.timeout = 0 s",
                "fpf.class.voice.timeout: `timeout` is \"0 s\", but must be a time from \"1 s\"",
            ),
            (
                "fpf.no_match = drop",
                "fpf.no_match: classes need `no_match = \"forward\"`",
            ),
            ("fpf.rules.x.lid = a1", "did you mean `rule`"),
            ("mode = bridged", "a bridge does not support FPF"),
        ] {
            let faults = plan(more).unwrap_err();
            assert!(
                faults.iter().any(|fault| fault.contains(expected)),
                "{expected}: {faults:#?}"
            );
        }
    }

    #[test]
    fn sections_come_go_and_change_while_the_router_runs() {
        let plan = plan("").unwrap();
        let after = |operations: &[Operation]| plan.after(operations);
        let sets = |lines| {
            changes(lines)
                .into_iter()
                .map(Operation::Set)
                .collect::<Vec<_>>()
        };
        let delete = |path: &str| Operation::Delete(ComponentPath::new(path.split('.')));

        let other = after(&sets("fpf.encapsulation.video.vectors = c1a1")).unwrap();
        assert!(Arc::ptr_eq(&plan.redirect, &other.redirect));
        let vectors = |plan: &Plan| {
            plan.fpf.built().unwrap().edge.encapsulations[1]
                .rule
                .paths
                .headers()
                .len()
        };
        assert_eq!((vectors(&plan), vectors(&other)), (2, 1));

        let more = sets("fpf.rule.new\nfpf.rule.new.lid = e1\nfpf.rule.new.action = drop");
        let with_new = after(&more).unwrap();
        let rules = |plan: &Plan| plan.fpf.built().unwrap().table.rule_count();
        assert_eq!(rules(&with_new), rules(&plan) + 1);
        let operations = with_new.operations_to(&plan);
        assert_eq!(operations, [delete("fpf.rule.new")]);
        assert_eq!(with_new.after(&operations).unwrap(), plan);
        assert_eq!(
            plan.after(&plan.operations_to(&with_new)).unwrap(),
            with_new
        );

        let fault = |operations: &[Operation]| after(operations).unwrap_err()[0].to_string();
        assert!(fault(&sets("fpf.rule.to_b.lid = b2")).contains("did you mean `to-b`"));
        assert!(fault(&[delete("fpf.rule.gone")]).contains("there is no FPF rule `gone`"));
        assert!(fault(&sets("fpf.rule.to-b")).contains("`fpf.rule.to-b` already exists"));
        assert!(
            fault(&[delete("fpf.interface.core")]).contains("there is no FPF interface `core`")
        );
        assert!(fault(&[delete("port.wan")]).contains("there is no port `wan`"));

        let default = after(&[delete("fpf.rule.to-b.leaves_domain")]).unwrap();
        assert_ne!(default, plan);
        let parts = plan
            .fpf
            .all()
            .map(|(part, name, _)| Operation::Delete(part.path(name)));
        let none = after(&parts.collect::<Vec<_>>()).unwrap();
        assert!(none.fpf.built().is_none());
    }
}
