//! A network layer besides IP: its part of a scenario, and how both habitats run it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use weir_base::Instant;
use weir_config::ConfigError;
use weir_sim::{PortId, Simulation};

use crate::error::Error;
use crate::namespaces::build::Site;
use crate::namespaces::router::Router;
use crate::results::Metrics;
use crate::scenario::reader::Section;
use crate::scenario::{Key, Scenario};
use crate::topology::Topology;

/// Sections of a scenario file: their title, as in `domain.NAME`, what they describe, and their keys.
pub type Sections = (&'static str, &'static str, &'static [&'static Key]);

/// Reads the layer's sections; the rest of the scenario has been checked. `None` if a scenario does not use the layer.
pub type Check = fn(&Section<'_>, &Scenario) -> Result<Option<Arc<dyn Layer>>, ConfigError>;

/// The layer's part of a checked scenario.
pub trait Layer: Any + Debug + Send + Sync {
    /// Whether both are the same.
    fn equals(&self, other: &dyn Layer) -> bool;

    /// The indices of the links that fail, or work again, during a run.
    fn failing_links(&self) -> Vec<usize>;

    /// Adds the layer to a simulation, before its traffic; `ports` are the ports of each node's interfaces.
    fn simulate(
        &self,
        scenario: &Scenario,
        topology: &Topology,
        ports: &[Vec<PortId>],
        simulation: &mut Simulation,
    ) -> Result<Box<dyn SimulatedLayer>, Error>;

    /// The layer of the lab's routers; `socket` gives the path of a router's service.
    fn in_the_lab(
        &self,
        scenario: &Scenario,
        topology: &Topology,
        socket: &dyn Fn(&str) -> PathBuf,
    ) -> Result<Box<dyn LabLayer>, Error>;
}

impl PartialEq for dyn Layer {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// The layer of a simulation.
pub trait SimulatedLayer {
    /// Adds what it has counted.
    fn add_metrics(&self, scenario: &Scenario, simulation: &Simulation, metrics: &mut Metrics);
}

/// The layer of the lab's routers.
pub trait LabLayer {
    /// The sections of a router's configuration file; empty if the router does not have the layer.
    fn configuration(&self, router: &str) -> String;

    /// The time of the next event, counted from the start of the run.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Carries out the events up to this time.
    fn handle_timeout(&mut self, now: Instant, site: &Site) -> Result<(), Error>;

    /// Adds the counters of the routers.
    fn add_metrics(&self, routers: &[Router], metrics: &mut BTreeMap<String, f64>);
}
