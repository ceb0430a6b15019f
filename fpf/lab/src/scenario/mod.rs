//! Flexible packet forwarding (FPF) in a scenario: `[domain.NAME]`, `[path.NAME]`, `[encapsulation.NAME]`; and
//! `[event.NAME]`, changes at a given time.
//!
//! Scenarios contain no identifiers: a controller assigns them, finds paths, and makes the rules of each router. All
//! routers in domains are edges. Routers in no domain forward by IP alone.
//!
//! ```toml
//! [domain.b]                         # flexible packet forwarding (FPF) next to IP
//! routers = ["b1", "b2"]
//!
//! [path.detour]
//! through = ["c", "b", "a"]          # domains or routers
//!
//! [encapsulation.video]              # which packets get an FPF header
//! traffic = "video"
//! paths = ["detour"]                 # or cheapest = 2, disjoint = "links"
//!
//! [event.back]
//! at = "30 s"
//! encapsulation = "video"
//! paths = ["other"]                  # or cut = "LINK", join = "LINK"
//! ```
//!
//! - `check`: reads the sections; `keys`: their keys

mod check;
mod keys;

use weir_base::Span;
use weir_experiment::scenario::Scenario;
use weir_experiment::scenario::layer::{Layer, Sections};
use weir_fpf_path::edge::profile::Shape;
use weir_paths::Disjoint;

pub(crate) use self::check::check;

/// The sections of FPF in a scenario.
pub(crate) const SECTIONS: &[Sections] = &[
    ("domain.NAME", "FPF domains", keys::DOMAIN),
    ("path.NAME", "paths", keys::PATH),
    ("encapsulation.NAME", "encapsulations", keys::ENCAPSULATION),
    ("event.NAME", "events", keys::EVENT),
];

/// FPF in addition to IP, and events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forwarding {
    /// Domains; without domains all routers forward by IP.
    pub domains: Vec<Domain>,
    /// Named paths.
    pub paths: Vec<Path>,
    /// The packets that get an FPF header.
    pub encapsulations: Vec<Encapsulation>,
    /// Events of a run, by ascending time.
    pub events: Vec<Event>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name.
    pub name: String,
    /// The forwarding elements of the domain.
    pub routers: Vec<String>,
    /// Length of the domain's identifiers in bytes; if `None`, as long as its links need.
    pub lid_bytes: Option<u8>,
}

/// A named path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The name.
    pub name: String,
    /// The domains or routers on the path.
    pub through: Vec<String>,
}

/// A flow group whose packets get an FPF header at the router of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// The name.
    pub name: String,
    /// The index of the traffic.
    pub traffic: usize,
    /// The paths.
    pub selection: Selection,
    /// Whether the encapsulation distributes packets instead of flows over the paths.
    pub by_packet: bool,
    /// Whether pairs of packets are coded, with the parity on the last path.
    pub is_coded: bool,
    /// Memory in bytes of the cache at the clients' router; `None` without a cache.
    pub cache: Option<u64>,
    /// The shaper of the encapsulated packets; `None` without shaping.
    pub shape: Option<Shape>,
}

/// The paths of an encapsulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Paths by their index, each with its weight.
    Named(Vec<(usize, u32)>),
    /// Paths that the controller finds, and recomputes when a link fails.
    Found {
        /// The number of paths; without `disjoint` there may be fewer.
        number: usize,
        /// The parts of the network that the paths must not share.
        disjoint: Option<Disjoint>,
        /// The weights of the paths; equal if empty.
        weights: Vec<u32>,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name.
    pub name: String,
    /// The time from the start of the run.
    pub at: Span,
    /// The effect.
    pub effect: Effect,
}

/// The effect of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A link, by its index, fails in both directions.
    Cut(usize),
    /// The link works again.
    Join(usize),
    /// An encapsulation, by its index, gets these paths with their weights.
    Change(usize, Vec<(usize, u32)>),
}

impl Layer for Forwarding {
    fn equals(&self, other: &dyn Layer) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref() == Some(self)
    }

    fn failing_links(&self) -> Vec<usize> {
        let events = self.events.iter();
        let links = events.filter_map(|event| match event.effect {
            Effect::Cut(link) | Effect::Join(link) => Some(link),
            Effect::Change(..) => None,
        });
        links.collect()
    }
}

impl Forwarding {
    /// The FPF of a scenario that uses it.
    pub fn of(scenario: &Scenario) -> &Self {
        let forwarding = scenario.layer();
        forwarding.unwrap_or_else(|| unreachable!("the scenario has FPF"))
    }

    /// The index of the domain of a router.
    pub fn domain_of(&self, router: &str) -> Option<usize> {
        let has_it = |domain: &Domain| domain.routers.iter().any(|name| name == router);
        self.domains.iter().position(has_it)
    }
}
