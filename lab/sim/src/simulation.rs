//! A run: endpoints on a fabric, and the event loop.

use std::collections::BTreeMap;

use weir_base::{Instant, Span, Streams};
use weir_packet::{Ecn, FlowKey};
use weir_wire::{Protocol, ethernet, ipv4, ipv6};

use crate::actor::{Actor, Housekeeper};
use crate::endpoint::tcp::{Application, Progress, Tcp};
use crate::endpoint::udp::{Sink, Source};
use crate::endpoint::{Endpoint, Endpoints};
use crate::error::NetworkError;
use crate::fabric::{Event, Fabric, PROBE_BYTES};
use crate::flight::Content;
use crate::flow_spec::{FlowSpec, Sender, flow_stream};
use crate::frame::Frame;
use crate::id::EndpointId;
use crate::id::{NodeId, PortId};
use crate::meter::{Flow, Jitter, Meter, Meters};
use crate::network::Network;
use crate::route::Route;
use crate::tcp::{Connection, Options, Segment};
use crate::web::{Client, Fetch, REQUEST_BYTES, RETRY};
use weir_base::pace::{Load, Pace};

/// The first source port that is assigned.
const PORT_FIRST: u16 = 10_000;

/// The window of a measurement, and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Start of the window.
    pub from: Instant,
    /// End of the window and of the run.
    pub until: Instant,
    /// Step of all curves.
    pub step: Span,
    /// Number of flow groups.
    pub traffics: u32,
}

/// A simulated network with its traffic.
pub struct Simulation {
    pub(crate) fabric: Fabric,
    pub(crate) endpoints: Endpoints,
    pub(crate) clients: Vec<Client>,
    /// The client of an endpoint, by the endpoint's place.
    fetching: Vec<Option<u32>>,
    fetches: Vec<Fetch>,
    actors: Vec<Box<dyn Actor>>,
    pub(crate) streams: Streams,
    out: Vec<Segment>,
    next_port: u16,
    /// The run's end.
    end: Instant,
    /// The flow that counts all fetches of a web traffic from one host by another.
    web_flows: BTreeMap<(u32, [NodeId; 2]), u32>,
}

impl Simulation {
    /// A network at time zero.
    pub fn new(
        network: Network,
        measurement: Measurement,
        streams: Streams,
    ) -> Result<Self, NetworkError> {
        let mut fabric = network.build(&streams)?;
        fabric.meters = Meters {
            from: measurement.from,
            interval: measurement.step,
            traffics: vec![Meter::default(); measurement.traffics as usize],
            ..Meters::default()
        };
        let mut simulation = Self {
            fabric,
            endpoints: Endpoints::default(),
            clients: Vec::new(),
            fetching: Vec::new(),
            fetches: Vec::new(),
            actors: Vec::new(),
            streams,
            out: Vec::new(),
            next_port: PORT_FIRST,
            end: measurement.until,
            web_flows: BTreeMap::new(),
        };
        simulation.actor(Box::new(Housekeeper), Instant::ZERO);
        Ok(simulation)
    }

    /// Adds an actor, whose first turn is at `first`.
    pub fn actor(&mut self, actor: Box<dyn Actor>, first: Instant) {
        let number = self.actors.len() as u32;
        self.actors.push(actor);
        self.fabric.schedule(first, Event::Act(number));
    }

    /// Adds a TCP connection. Its receiver uses the same options.
    pub fn tcp(
        &mut self,
        flow_spec: &FlowSpec,
        options: &Options,
        sender: Sender,
    ) -> Result<(), NetworkError> {
        self.check(flow_spec.from, flow_spec.to)?;
        let size = match sender {
            Sender::Transfer(bytes) => Some(bytes),
            Sender::Paced(_, size) => size,
            Sender::Greedy => None,
        };
        let application = match sender {
            Sender::Greedy => Application::Greedy,
            Sender::Transfer(bytes) => Application::Transfer(bytes),
            Sender::Paced(load, size) => Application::Paced(self.pace(load, flow_spec), size),
        };
        let flow = self.flow(flow_spec, [flow_spec.from, flow_spec.to], size);
        let ends = self.connect(
            flow_spec,
            options,
            flow,
            [application, Application::Receive],
        );
        self.fabric.schedule(flow_spec.start, Event::Start(ends[0]));
        if flow_spec.stop < Instant::FAR_FUTURE {
            self.fabric.schedule(flow_spec.stop, Event::Stop(ends[0]));
        }
        Ok(())
    }

    /// Adds a flow of datagrams.
    pub fn udp(&mut self, flow_spec: &FlowSpec, load: Load) -> Result<(), NetworkError> {
        self.check(flow_spec.from, flow_spec.to)?;
        let flow = self.flow(flow_spec, [flow_spec.from, flow_spec.to], None);
        let pace = self.pace(load, flow_spec);
        let [own, peer] = [(); 2].map(|()| self.endpoints.reserve());
        let route = self.routes(flow_spec, Protocol::UDP, [own, peer], flow)[0];
        self.endpoints
            .put(own, Endpoint::Source(Box::new(Source { route, pace })));
        let jitter = Jitter::default();
        self.endpoints
            .put(peer, Endpoint::Sink(Sink { flow, jitter }));
        self.fabric.schedule(flow_spec.start, Event::Start(own));
        Ok(())
    }

    /// Handles all events up to `until`.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            while let Some(event) = self.fabric.next(until) {
                match event {
                    Event::Arrive(port) => self.arrive(port), // nearly all of them
                    event => self.happen(event),
                }
            }
            if !self.fabric.settle() {
                break;
            }
        }
        self.fabric.now = self.fabric.now.max(until);
    }

    /// The fabric: time, ports, numbers of packets and events.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The fabric before the run, to add a network layer besides IP.
    pub fn fabric_mut(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// The counts of the run.
    pub fn meters(&self) -> &Meters {
        &self.fabric.meters
    }

    /// Every fetch; unfinished fetches have no end.
    pub fn fetches(&self) -> impl Iterator<Item = Fetch> {
        let current = self.clients.iter().filter_map(|client| client.current);
        self.fetches.iter().copied().chain(current)
    }

    /// Handles the arrival of a frame at the other end of a wire.
    #[inline(always)]
    fn arrive(&mut self, port: PortId) {
        if let Some(frame) = self.fabric.arrive(port) {
            self.receive(&frame);
        }
    }

    /// Handles a frame that has reached its host.
    #[inline(never)]
    fn receive(&mut self, frame: &Frame) {
        let flight = &self.fabric.take(frame);
        let marked = frame.ecn == Ecn::Congested;
        match self.endpoints.get(flight.to) {
            Some(Endpoint::Tcp(tcp)) => {
                if let Content::Tcp(segment) = &flight.content {
                    let fabric = &mut self.fabric;
                    let progress = tcp.receive(flight, segment, marked, fabric, &mut self.out);
                    self.note(flight.to, progress);
                }
            }
            Some(Endpoint::Sink(sink)) => sink.receive(flight, &mut self.fabric),
            Some(Endpoint::Reflector(route)) => {
                route.send(
                    &mut self.fabric,
                    flight.content,
                    PROBE_BYTES,
                    Ecn::NotCapable,
                );
            }
            Some(Endpoint::Requester(..) | Endpoint::Producer(..)) => self.receive_chunk(flight),
            Some(Endpoint::Prober(prober)) => self.fabric.answered(*prober, flight),
            Some(Endpoint::Source(_)) | None => {} // for a connection that was removed
        }
    }

    #[inline(never)]
    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(port) => self.arrive(port),
            Event::Wake(port) => self.fabric.wake(port),
            Event::Release(router) => self.fabric.release(router),
            Event::Timeout(id) => match self.endpoints.get(id) {
                Some(Endpoint::Tcp(tcp)) => {
                    let progress = tcp.timeout(&mut self.fabric, &mut self.out);
                    self.note(id, progress);
                }
                Some(Endpoint::Requester(client, _)) => {
                    let client = *client;
                    self.expire_interest(client);
                }
                _ => {}
            },
            Event::Tick(id) => match self.endpoints.get(id) {
                Some(Endpoint::Tcp(tcp)) => tcp.tick(&mut self.fabric, &mut self.out),
                Some(Endpoint::Source(source)) => source.tick(&mut self.fabric),
                _ => {}
            },
            Event::Start(id) => match self.endpoints.get(id) {
                Some(Endpoint::Tcp(tcp)) => tcp.start(&mut self.fabric, &mut self.out),
                Some(Endpoint::Source(source)) => source.start(&mut self.fabric),
                _ => {}
            },
            Event::Stop(id) => {
                if let Some(Endpoint::Tcp(tcp)) = self.endpoints.get(id) {
                    tcp.stop(&mut self.fabric, &mut self.out);
                }
            }
            Event::Fetch(client) => self.fetch(client as usize),
            Event::Act(number) => {
                let next = self.actors[number as usize].act(&mut self.fabric);
                if let Some(next) = next {
                    self.fabric.schedule(next, event);
                }
            }
        }
    }

    /// Handles an endpoint's progress.
    #[inline]
    fn note(&mut self, id: EndpointId, progress: Progress) {
        match progress {
            Progress::None => {}
            Progress::Answered => self.answered(id),
            Progress::Closed => self.closed(id),
        }
    }

    /// Handles the successful end of a fetch.
    fn answered(&mut self, id: EndpointId) {
        let Some(number) = self.fetching[id.place as usize] else {
            return;
        };
        let connected = match self.endpoints.get(id) {
            Some(Endpoint::Tcp(tcp)) => tcp.connected,
            _ => None,
        };
        self.end_fetch(number, connected, false);
    }

    /// Handles an end of a connection that has finished; when both ends have, removes them.
    fn closed(&mut self, id: EndpointId) {
        let Some(Endpoint::Tcp(tcp)) = self.endpoints.get(id) else {
            return;
        };
        let peer = tcp.route.peer;
        let failed = tcp.connected.is_none();
        let both = match self.endpoints.get(peer) {
            Some(Endpoint::Tcp(tcp)) => tcp.connection.is_closed() || failed,
            _ => true,
        };
        if failed && let Some(number) = self.fetching[id.place as usize] {
            self.end_fetch(number, None, true);
        }
        if both {
            for id in [id, peer] {
                self.endpoints.remove(id);
                self.fetching[id.place as usize] = None;
            }
        }
    }

    pub(crate) fn end_fetch(&mut self, number: u32, connected: Option<Instant>, failed: bool) {
        let now = self.fabric.now;
        let client = &mut self.clients[number as usize];
        let Some(fetch) = client.current.take() else {
            return;
        };
        self.fetches.push(Fetch {
            connected,
            end: Some(now),
            failed,
            ..fetch
        });
        let next = if failed {
            now + RETRY
        } else {
            client.next_start(now)
        };
        self.fabric.schedule(next, Event::Fetch(number));
    }

    /// Starts a client's next fetch.
    fn fetch(&mut self, number: usize) {
        let now = self.fabric.now;
        let client = &mut self.clients[number];
        if now >= client.web.stop {
            return;
        }
        let fetch = client.choose(now);
        if client.route.is_some() {
            return self.ask(number);
        }
        let web = client.web.clone();
        let flow_spec = web.flow_spec(now);
        let flow = self.web_flow(&flow_spec);
        let request = REQUEST_BYTES;
        let answer = fetch.bytes;
        let applications = [
            Application::Fetch { request },
            Application::Serve { request, answer },
        ];
        let ends = self.connect(&flow_spec, &web.options, flow, applications);
        self.fetching[ends[0].place as usize] = Some(number as u32);
        self.happen(Event::Start(ends[0]));
    }

    /// Creates the two ends of a connection; the first end opens it.
    fn connect(
        &mut self,
        flow_spec: &FlowSpec,
        options: &Options,
        flow: u32,
        applications: [Application; 2],
    ) -> [EndpointId; 2] {
        let ends = [(); 2].map(|()| self.endpoints.reserve());
        let routes = self.routes(flow_spec, Protocol::TCP, ends, flow);
        let connections = [Connection::client(options), Connection::server(options)];
        let parts = routes.into_iter().zip(connections).zip(applications);
        for (id, ((route, connection), application)) in ends.into_iter().zip(parts) {
            let receives = matches!(
                application,
                Application::Receive | Application::Fetch { .. }
            );
            let tcp = Tcp {
                route,
                connection,
                application,
                flow: receives.then_some(flow),
                jitter: Jitter::default(),
                arrived: 0,
                timer: Instant::FAR_FUTURE,
                closing: false,
                connected: None,
            };
            self.endpoints.put(id, Endpoint::Tcp(Box::new(tcp)));
        }
        let places = ends.map(|id| id.place as usize + 1);
        let places = places.into_iter().max().unwrap_or_default();
        if self.fetching.len() < places {
            self.fetching.resize(places, None);
        }
        ends
    }

    /// The routes of a flow's packets in both directions.
    pub(crate) fn routes(
        &mut self,
        flow_spec: &FlowSpec,
        protocol: Protocol,
        ends: [EndpointId; 2],
        flow: u32,
    ) -> [Route; 2] {
        let source_port = self.take_port(flow_spec);
        let hosts = [flow_spec.from, flow_spec.to];
        let address = |host: NodeId| self.fabric.address(host, flow_spec.ipv6);
        let addresses = [
            flow_spec.source.unwrap_or(address(hosts[0])),
            address(hosts[1]),
        ];
        let ports = [source_port, flow_spec.port];
        let ip = if flow_spec.ipv6 {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN_MIN
        };
        let headers = (ethernet::HEADER_LEN + ip) as u32;
        let mut route = |own: usize, peer: usize| {
            let key = FlowKey::ip(
                addresses[own],
                addresses[peer],
                protocol.into(),
                ports[own],
                ports[peer],
            );
            Route {
                own: ends[own],
                peer: ends[peer],
                uplink: self.fabric.uplink(hosts[own]),
                first_hop: self.fabric.first_hop(hosts[own], hosts[peer], &key),
                key: self.fabric.flights.keys.share(key),
                headers,
                traffic: flow_spec.traffic,
                flow,
            }
        };
        [route(0, 1), route(1, 0)]
    }

    /// The next source port, for a flow whose receiver's port names its traffic.
    pub(crate) fn take_port(&mut self, flow_spec: &FlowSpec) -> u16 {
        let source_port = self.next_port;
        self.next_port = self.next_port.checked_add(1).unwrap_or(PORT_FIRST);
        let ports = &mut self.fabric.meters.ports;
        ports.entry(flow_spec.port).or_insert(flow_spec.traffic);
        source_port
    }

    pub(crate) fn pace(&self, load: Load, flow_spec: &FlowSpec) -> Pace {
        let stream = flow_stream(&self.streams, &flow_spec.name);
        Pace::new(load, stream, flow_spec.start, flow_spec.stop.min(self.end))
    }

    /// The row of a flow whose data go from the first to the second of these hosts.
    pub(crate) fn flow(
        &mut self,
        flow_spec: &FlowSpec,
        hosts: [NodeId; 2],
        size: Option<u64>,
    ) -> u32 {
        self.fabric.meters.flows.push(Flow {
            traffic: flow_spec.traffic,
            hosts,
            start: flow_spec.start,
            connected: None,
            end: None,
            size,
            bytes: 0,
            window_bytes: 0,
        });
        self.fabric.meters.flows.len() as u32 - 1
    }

    /// The flow of a web traffic between two hosts. All its fetches count as one flow; each fetch has its own record.
    pub(crate) fn web_flow(&mut self, fetch: &FlowSpec) -> u32 {
        let hosts = [fetch.to, fetch.from];
        if let Some(flow) = self.web_flows.get(&(fetch.traffic, hosts)) {
            return *flow;
        }
        let flow = self.flow(fetch, hosts, None);
        self.web_flows.insert((fetch.traffic, hosts), flow);
        flow
    }

    pub(crate) fn check(&self, from: NodeId, to: NodeId) -> Result<(), NetworkError> {
        let name = |node: NodeId| self.fabric.name(node).to_owned();
        match self.fabric.path_takes_time(from, to) {
            Some(true) => Ok(()),
            Some(false) => Err(NetworkError::NoTime(name(from), name(to))),
            None => Err(NetworkError::NoPath(name(from), name(to))),
        }
    }
}
