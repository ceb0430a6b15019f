//! The ends of flows: a protocol with an application on top.

pub(crate) mod tcp;
pub(crate) mod udp;

use weir_packet::Ecn;

use crate::fabric::{Fabric, ProberId};
use crate::flight::{Content, Flight};
use crate::id::EndpointId;
use crate::route::Route;

/// Generations wrap: an event has 28 bits for them.
const GENERATIONS: u32 = 1 << 28;

impl Route {
    /// Sends a packet to the other end; `len` is the length without link-layer and IP headers.
    #[inline]
    pub(crate) fn send(&self, fabric: &mut Fabric, content: Content, len: u32, ecn: Ecn) {
        let flight = Flight {
            to: self.peer,
            sent: fabric.now,
            traffic: self.traffic,
            flow: self.flow,
            content,
        };
        fabric.send(self, flight, self.headers + len, ecn);
    }
}

/// An endpoint of any kind.
#[derive(Debug)]
pub(crate) enum Endpoint {
    /// An end of a TCP connection.
    Tcp(Box<tcp::Tcp>),
    /// A sender of datagrams.
    Source(Box<udp::Source>),
    /// A receiver of datagrams.
    Sink(udp::Sink),
    /// Requests chunks, for the web client with this number.
    Requester(u32, udp::Sink),
    /// Serves all chunks, with this number of bytes each.
    Producer(Route, u32),
    /// Answers probes.
    Reflector(Route),
    /// Receives the answers to a port's probes.
    Prober(ProberId),
}

/// All endpoints, by place.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    endpoint: Option<Endpoint>,
}

impl Endpoints {
    /// Reserves a place for an endpoint that will be stored there.
    pub(crate) fn reserve(&mut self) -> EndpointId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                endpoint: None,
            });
            self.places.len() as u32 - 1
        });
        let generation = self.places[place as usize].generation;
        EndpointId { place, generation }
    }

    /// Stores an endpoint at its place.
    pub(crate) fn put(&mut self, id: EndpointId, endpoint: Endpoint) {
        self.places[id.place as usize].endpoint = Some(endpoint);
    }

    /// The endpoint, if it still exists.
    #[inline]
    pub(crate) fn get(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        let place = &mut self.places[id.place as usize];
        let same = place.generation == id.generation;
        place.endpoint.as_mut().filter(|_| same)
    }

    /// Removes an endpoint; its place will be reused.
    pub(crate) fn remove(&mut self, id: EndpointId) {
        let place = &mut self.places[id.place as usize];
        if place.generation == id.generation && place.endpoint.take().is_some() {
            place.generation = (place.generation + 1) % GENERATIONS;
            self.free.push(id.place);
        }
    }
}
