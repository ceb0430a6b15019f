//! Adds web clients to a simulation, and runs the clients that fetch named chunks instead of files. Such a fetch is an
//! interest and the data that answer it, one datagram each, without a connection. A cache on the path may answer; a
//! client cannot tell it from the server.

use weir_base::Span;
use weir_packet::Ecn;
use weir_wire::Protocol;
use weir_wire::udp::HEADER_LEN;

use crate::endpoint::Endpoint;
use crate::endpoint::udp::Sink;
use crate::error::NetworkError;
use crate::fabric::{Event, Fabric};
use crate::flight::{Chunk, Content, Flight};
use crate::flow_spec::client_stream;
use crate::meter::Jitter;
use crate::route::Route;
use crate::simulation::Simulation;
use crate::web::{Client, Web};

/// Time after which a fetch of a chunk has failed.
const PATIENCE: Span = Span::from_secs(1);

impl Simulation {
    /// Adds a web client.
    pub fn web(&mut self, web: Web, name: &str) -> Result<(), NetworkError> {
        self.check(web.server, web.client)?;
        self.check(web.client, web.server)?;
        let number = self.clients.len() as u32;
        self.fabric.schedule(web.start, Event::Fetch(number));
        let mut stream = client_stream(&self.streams, name);
        let route = web.chunks.as_ref().map(|_| {
            let bytes = web.sizes.sample(&mut stream) as u32; // a datagram has room for it
            self.connect_chunks(&web, number, bytes)
        });
        self.clients.push(Client {
            stream,
            web,
            number,
            current: None,
            route,
            asked: 0,
        });
        Ok(())
    }

    /// Creates the two ends of a client that fetches chunks; returns the route of its interests.
    fn connect_chunks(&mut self, web: &Web, client: u32, bytes: u32) -> Route {
        let flow_spec = web.flow_spec(web.start);
        let flow = self.web_flow(&flow_spec);
        let ends = [(); 2].map(|()| self.endpoints.reserve());
        let [there, back] = self.routes(&flow_spec, Protocol::UDP, ends, flow);
        let jitter = Jitter::default();
        let requester = Endpoint::Requester(client, Sink { flow, jitter });
        self.endpoints.put(there.own, requester);
        self.endpoints
            .put(back.own, Endpoint::Producer(back, bytes));
        for route in [&there, &back] {
            self.fabric.know_chunks(route);
        }
        there
    }

    /// Requests the chunk of a client's next fetch.
    pub(crate) fn ask(&mut self, client: usize) {
        let client = &mut self.clients[client];
        let (Some(route), Some(chunks)) = (client.route, &client.web.chunks) else {
            return;
        };
        client.asked = chunks.sample(&mut client.stream) as u64;
        let interest = Chunk {
            name: client.asked,
            content: None,
        };
        send_chunk(&route, &mut self.fabric, interest);
        let end = self.fabric.now + PATIENCE;
        self.fabric.schedule(end, Event::Timeout(route.own));
    }

    /// Handles an interest or data that have reached their host.
    pub(crate) fn receive_chunk(&mut self, flight: &Flight) {
        let Content::Chunk(chunk) = flight.content else {
            return;
        };
        match (self.endpoints.get(flight.to), chunk.content) {
            (Some(Endpoint::Producer(route, bytes)), None) => {
                let content = Some(*bytes);
                send_chunk(route, &mut self.fabric, Chunk { content, ..chunk });
            }
            (Some(Endpoint::Requester(client, sink)), Some(_)) => {
                sink.receive(flight, &mut self.fabric);
                let client = *client;
                if self.clients[client as usize].asked == chunk.name {
                    self.end_fetch(client, None, false);
                }
            }
            _ => {}
        }
    }

    /// Gives up a fetch that has lasted for too long.
    pub(crate) fn expire_interest(&mut self, client: u32) {
        let current = self.clients[client as usize].current;
        if current.is_some_and(|fetch| fetch.start + PATIENCE <= self.fabric.now) {
            self.end_fetch(client, None, true);
        }
    }
}

/// Sends an interest or data.
fn send_chunk(route: &Route, fabric: &mut Fabric, chunk: Chunk) {
    let content = Content::Chunk(chunk);
    let len = HEADER_LEN as u32 + content.payload();
    route.send(fabric, content, len, Ecn::NotCapable);
}
