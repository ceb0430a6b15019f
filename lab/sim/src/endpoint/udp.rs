//! Datagrams: a source that follows a schedule, and a sink.

use weir_packet::Ecn;
use weir_wire::udp::HEADER_LEN;

use crate::fabric::{Event, Fabric};
use crate::flight::{Content, Flight};
use crate::meter::Jitter;
use crate::route::Route;
use weir_base::pace::Pace;

/// A sender of datagrams.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) route: Route,
    pub(crate) pace: Pace,
}

impl Source {
    /// Schedules the first piece.
    pub(crate) fn start(&mut self, fabric: &mut Fabric) {
        self.schedule(fabric);
    }

    /// Sends a piece that is ready.
    pub(crate) fn tick(&mut self, fabric: &mut Fabric) {
        let payload = self.pace.piece();
        let now = fabric.now;
        fabric
            .meters
            .offered(self.route.traffic, now, payload.into());
        let content = Content::Datagram { payload };
        self.route.send(
            fabric,
            content,
            HEADER_LEN as u32 + payload,
            Ecn::NotCapable,
        );
        self.schedule(fabric);
    }

    fn schedule(&mut self, fabric: &mut Fabric) {
        if let Some(next) = self.pace.next_piece() {
            fabric.schedule(next, Event::Tick(self.route.own));
        }
    }
}

/// A receiver of datagrams.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) flow: u32,
    pub(crate) jitter: Jitter,
}

impl Sink {
    /// Handles an arriving datagram.
    pub(crate) fn receive(&mut self, flight: &Flight, fabric: &mut Fabric) {
        let now = fabric.now;
        fabric.meters.received(flight, now, &mut self.jitter);
        fabric.meters.datagram(flight, now);
        let payload = flight.content.payload();
        fabric.meters.arrived(self.flow, now, payload.into());
    }
}
