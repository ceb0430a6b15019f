//! Datagrams from one host to many, by multicast of a network layer besides IP.
//!
//! ```text
//!   source ──▶ ingress edge: a rule takes the group's packets ──▶ copies ──▶ last FE ──▶ receiver
//! ```
//!
//! The packets have the address of a group, to which no route leads. The router of each receiver is the last FE on the
//! path of its copy, and has this host as the only receiver of the group.

use std::net::IpAddr;

use weir_base::pace::Load;
use weir_packet::FlowKey;
use weir_wire::{Protocol, ethernet, ipv4, ipv6};

use crate::endpoint::Endpoint;
use crate::endpoint::udp::{Sink, Source};
use crate::error::NetworkError;
use crate::fabric::Event;
use crate::flow_spec::FlowSpec;
use crate::id::EndpointId;
use crate::id::NodeId;
use crate::meter::Jitter;
use crate::route::Route;
use crate::simulation::Simulation;

impl Simulation {
    /// Adds a flow of datagrams to the address of a group, with a receiver at each of these hosts. Each receiver counts
    /// as a flow. The receiver in the specification must be the first host.
    pub fn multicast(
        &mut self,
        flow_spec: &FlowSpec,
        group: IpAddr,
        receivers: &[NodeId],
        load: Load,
    ) -> Result<(), NetworkError> {
        let mut routers: Vec<(NodeId, NodeId)> = Vec::new();
        for &receiver in receivers {
            self.check(flow_spec.from, receiver)?;
            let router = self.fabric.router_of(receiver);
            if let Some((_, other)) = routers.iter().find(|(known, _)| *known == router) {
                let name = |node| self.fabric.name(node).to_owned();
                return Err(NetworkError::OneRouter(
                    name(*other),
                    name(receiver),
                    name(router),
                ));
            }
            routers.push((router, receiver));
        }
        let source = flow_spec.source;
        let source = source.unwrap_or_else(|| self.fabric.address(flow_spec.from, flow_spec.ipv6));
        let ports = [self.take_port(flow_spec), flow_spec.port];
        let key = FlowKey::ip(source, group, Protocol::UDP.into(), ports[0], ports[1]);
        let mut sinks: Vec<(EndpointId, u32)> = Vec::new();
        for (router, receiver) in routers {
            let (own, flow) = (
                self.endpoints.reserve(),
                self.flow(flow_spec, [flow_spec.from, receiver], None),
            );
            let jitter = Jitter::default();
            self.endpoints
                .put(own, Endpoint::Sink(Sink { flow, jitter }));
            self.fabric.deliver(router, &key, (receiver, own));
            sinks.push((own, flow));
        }
        let Some((peer, flow)) = sinks.first().copied() else {
            return Ok(());
        };
        let ip = if flow_spec.ipv6 {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN_MIN
        };
        let own = self.endpoints.reserve();
        let route = Route {
            own,
            peer,
            uplink: self.fabric.uplink(flow_spec.from),
            first_hop: self.fabric.hops_to_group(),
            key: self.fabric.flights.keys.share(key),
            headers: (ethernet::HEADER_LEN + ip) as u32,
            traffic: flow_spec.traffic,
            flow,
        };
        let pace = self.pace(load, flow_spec);
        let source = Source { route, pace };
        self.endpoints.put(own, Endpoint::Source(Box::new(source)));
        self.fabric.schedule(flow_spec.start, Event::Start(own));
        Ok(())
    }
}
