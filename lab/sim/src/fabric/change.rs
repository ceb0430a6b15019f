//! Changes that actors make during a run: the rate of a port, the parameters of its discipline, cuts of its link.

use weir_base::Rate;
use weir_discipline::{Spec, SpecMismatch};

use super::Fabric;
use crate::id::PortId;

impl Fabric {
    /// Changes the pacing rate of a port with a line.
    pub fn pace(&mut self, port: PortId, rate: Rate) {
        self.wires[port.0 as usize].pace(rate, self.now);
        self.touch(port);
    }

    /// Changes the parameters of a port's discipline, as a controller does.
    pub fn set(&mut self, port: PortId, spec: Spec) -> Result<(), SpecMismatch> {
        self.wires[port.0 as usize].set(spec, self.now)?;
        self.touch(port);
        Ok(())
    }

    /// Cuts or restores a port's link in the direction from the port. Frames in flight on a cut link are lost.
    pub fn cut(&mut self, port: PortId, is_cut: bool) {
        self.wires[port.0 as usize].is_cut = is_cut;
    }
}
