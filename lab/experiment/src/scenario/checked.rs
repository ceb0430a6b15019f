//! A scenario after checking: every name resolves, every value is within its range.

use std::any::Any;
use std::sync::Arc;

use weir_base::Span;

use super::controller::Controller;
use super::layer::Layer;
use super::link::Link;
use super::router::Router;
use super::traffic::Traffic;

/// A network, its traffic, and the length of its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// One line of text.
    pub title: String,
    /// A longer explanation.
    pub about: String,
    /// Length of a run.
    pub duration: Span,
    /// The length of the start of a run, which the metrics leave out.
    pub warm_up: Span,
    /// Seed of the first run.
    pub seed: u64,
    /// Number of runs of each point, unless the caller chooses another number.
    pub runs: u64,
    /// Step of the curves.
    pub sample: Span,
    /// Links whose queues are sampled; if `None`, the links that name a discipline.
    pub watch: Option<Vec<String>>,
    /// Whether controllers run within a control element, in the lab.
    pub uses_forces: bool,
    /// Routers.
    pub routers: Vec<Router>,
    /// Groups of one or more hosts.
    pub hosts: Vec<HostGroup>,
    /// Links.
    pub links: Vec<Link>,
    /// Traffic.
    pub traffic: Vec<Traffic>,
    /// Controllers, which steer queues.
    pub controllers: Vec<Controller>,
    /// The network layer besides IP, if the scenario uses one.
    pub layer: Option<Arc<dyn Layer>>,
}

/// A group of hosts with a common name.
#[derive(Clone, Debug, PartialEq)]
pub struct HostGroup {
    /// The name; a number follows it if the group has more than one host.
    pub name: String,
    /// Number of hosts.
    pub count: u32,
}

impl Scenario {
    /// The measurement window, in seconds from the start.
    pub fn window(&self) -> (f64, f64) {
        (self.warm_up.as_secs_f64(), self.duration.as_secs_f64())
    }

    /// The network layer besides IP, if it is of this type.
    pub fn layer<T: Layer>(&self) -> Option<&T> {
        let layer: &dyn Any = &**self.layer.as_ref()?;
        layer.downcast_ref()
    }

    /// The host group of this name.
    pub fn group(&self, name: &str) -> Option<&HostGroup> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// The router of this name.
    pub fn router(&self, name: &str) -> Option<&Router> {
        self.routers.iter().find(|router| router.name == name)
    }

    /// The router of a host group: the other end of its link.
    pub fn router_of(&self, host: &str) -> Option<&str> {
        let mut links = self.links.iter();
        let link = links.find(|link| link.ends.iter().any(|end| end == host))?;
        let mut ends = link.ends.iter();
        let router = ends.find(|end| *end != host && self.router(end).is_some())?;
        Some(router)
    }

    /// Number of pairs of a sending and a receiving host of a flow group.
    pub fn pairs(&self, traffic: &Traffic) -> usize {
        self.count(&traffic.from).max(self.count(&traffic.to))
    }

    /// Number of nodes with this name.
    pub(super) fn count(&self, end: &str) -> usize {
        self.group(end).map_or(1, |group| group.count as usize)
    }

    /// The links whose queues are sampled.
    pub fn watched(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| match &self.watch {
            Some(names) => names.contains(&link.name),
            None => link.discipline.is_some() || link.reverse_discipline.is_some(),
        })
    }
}

impl HostGroup {
    /// The names of the group's hosts.
    pub fn members(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            n => (1..=n).map(|i| format!("{}{i}", self.name)).collect(),
        }
    }
}
