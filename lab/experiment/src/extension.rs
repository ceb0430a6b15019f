//! The parts that another crate adds: papers with their results and measurements, and the network layers that they
//! describe.

use crate::metrics::Definition;
pub use crate::namespaces::layer::{LabLayer, Start};
use crate::reproduce::recipe::Paper;
use crate::scenario::check::Check;
use crate::scenario::layer::Sections;
pub use crate::simulation::layer::{Simulate, SimulatedLayer};
use crate::{definitions, namespaces, reproduce, scenario, simulation};

/// The parts of another crate.
#[derive(Debug)]
pub struct Extension {
    /// Papers.
    pub papers: &'static [fn() -> Paper],
    /// Sections of scenarios.
    pub sections: &'static [Sections],
    /// The readers of these sections.
    pub checks: &'static [Check],
    /// Metrics of runs.
    pub metrics: &'static [&'static [Definition]],
    /// Layers of simulations.
    pub simulated: &'static [Simulate],
    /// Layers of the lab's routers.
    pub in_the_lab: &'static [Start],
}

/// Adds an extension. A program calls this once, before everything else.
pub fn extend(by: &Extension) {
    reproduce::PAPERS.add(by.papers);
    scenario::layer::SECTIONS.add(by.sections);
    scenario::check::CHECKS.add(by.checks);
    definitions::METRICS.add(by.metrics);
    simulation::layer::LAYERS.add(by.simulated);
    namespaces::layer::LAYERS.add(by.in_the_lab);
}
