//! Changes that actors make during a run: the rate of a port, the parameters of its discipline, cuts of its link.

use weir_base::Rate;
use weir_discipline::{Spec, SpecMismatch};

use super::Fabric;
use crate::network::PortId;

impl Fabric {
    /// Paces a port with a line to another rate.
    pub fn pace(&mut self, port: PortId, rate: Rate) {
        self.wires[port.0 as usize].pace(rate, self.now);
        self.touch(port);
    }

    /// Puts other parameters of its discipline in force at a port, as a controller does.
    pub fn set(&mut self, port: PortId, spec: Spec) -> Result<(), SpecMismatch> {
        self.wires[port.0 as usize].set(spec, self.now)?;
        self.touch(port);
        Ok(())
    }

    /// Cuts a port's link in the direction from it, or joins it again. What is on its way over a cut link is lost.
    pub fn cut(&mut self, port: PortId, is_cut: bool) {
        self.wires[port.0 as usize].is_cut = is_cut;
    }
}
