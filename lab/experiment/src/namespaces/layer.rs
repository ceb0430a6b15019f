//! A network layer besides IP on the lab's routers.

use std::path::PathBuf;

use weir_base::Instant;

use super::build::Site;
use super::router::Router;
use crate::added::Added;
use crate::error::Error;
use crate::metrics::Measured;
use crate::scenario::Scenario;
use crate::topology::Topology;

/// Adds a layer to the routers of a scenario; the function gives the path of a router's service. `None` if the scenario
/// does not use the layer.
pub type Start =
    fn(&Scenario, &Topology, &dyn Fn(&str) -> PathBuf) -> Result<Option<Box<dyn LabLayer>>, Error>;

/// The layer of the lab's routers.
pub trait LabLayer {
    /// The sections of a router's configuration file; empty if the router does not have the layer.
    fn configuration(&self, router: &str) -> String;

    /// The time of the next event, counted from the start of the run.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Carries out the events up to this time.
    fn handle_timeout(&mut self, now: Instant, site: &Site) -> Result<(), Error>;

    /// Adds the counters of the routers.
    fn add_metrics(&self, routers: &[Router], measured: &mut Measured);
}

/// The layers of other crates.
pub(crate) static LAYERS: Added<Start> = Added::new();

/// The layers of a scenario.
pub(super) fn of(
    scenario: &Scenario,
    topology: &Topology,
    socket: &dyn Fn(&str) -> PathBuf,
) -> Result<Vec<Box<dyn LabLayer>>, Error> {
    let all = LAYERS.all().iter();
    all.filter_map(|start| start(scenario, topology, socket).transpose())
        .collect()
}
