//! Measurement of round trips at ports.

use weir_path::round_trips::RoundTrip;

use super::Fabric;
use crate::frame::Frame;
use crate::id::PortId;
use crate::round_trips::Measured;

impl Fabric {
    /// Measures round trips of the TCP connections that pass a port, which must have a line.
    pub fn measure_round_trips(&mut self, port: PortId, secret: (u64, u64)) {
        let stepped = self.wires[port.0 as usize].stepped();
        stepped.round_trips = Some(Box::new(Measured::new(*stepped.port.link(), secret)));
        self.wires[port.peer().0 as usize].is_measured = true;
    }

    /// Takes the round trips of a port that were measured since the last call.
    pub fn round_trips(&mut self, port: PortId) -> Vec<RoundTrip> {
        let measured = self.wires[port.0 as usize].stepped().round_trips.as_mut();
        measured.map_or(Vec::new(), |measured| std::mem::take(&mut measured.taken))
    }

    /// Records the arrival of a frame from `port` at the port at the other end.
    pub(crate) fn measure_arrival(&mut self, port: PortId, frame: &Frame) {
        let other_end = &mut self.wires[port.peer().0 as usize];
        if let Some(measured) = other_end.stepped().round_trips.as_mut() {
            let key = self.flights.keys.key_at(frame.slot);
            measured.received(self.now, key, self.flights.get(frame.slot));
        }
    }
}
