//! A network layer besides IP in a simulation.

use weir_sim::{PortId, Simulation};

use crate::added::Added;
use crate::error::Error;
use crate::metrics::Measured;
use crate::scenario::Scenario;
use crate::topology::Topology;

/// Adds a layer to a simulation, before its traffic; the ports are those of each node's interfaces. `None` if the
/// scenario does not use the layer.
pub type Simulate = fn(
    &Scenario,
    &Topology,
    &[Vec<PortId>],
    &mut Simulation,
) -> Result<Option<Box<dyn SimulatedLayer>>, Error>;

/// The layer of a simulation.
pub trait SimulatedLayer {
    /// Adds its metrics.
    fn add_metrics(&self, scenario: &Scenario, simulation: &Simulation, measured: &mut Measured);
}

/// The layers of other crates.
pub(crate) static LAYERS: Added<Simulate> = Added::new();
