//! The two ends of a port's probes.

use weir_packet::FlowKey;
use weir_wire::{Protocol, ethernet, ipv4};

use crate::endpoint::Endpoint;
use crate::error::NetworkError;
use crate::fabric::{NO_TRAFFIC, Prober, ProberId};
use crate::id::{NodeId, PortId};
use crate::route::Route;
use crate::simulation::Simulation;

impl Simulation {
    /// Makes `host` a reflector for probes of a router's port, which must have a line. The host must be behind that port.
    pub fn reflect(
        &mut self,
        router: NodeId,
        port: PortId,
        host: NodeId,
    ) -> Result<ProberId, NetworkError> {
        let fabric = &mut self.fabric;
        let next = fabric.wires[port.0 as usize].to;
        let [asking, answering] = [router, host].map(|node| fabric.address(node, false));
        let key = |from, to| FlowKey::ip(from, to, Protocol::ICMPV4.into(), 0, 0);
        let [there, back] = [key(asking, answering), key(answering, asking)];
        let is_behind = fabric.path_takes_time(host, router).is_some();
        if !is_behind {
            let name = |node| fabric.name(node).to_owned();
            return Err(NetworkError::NoPath(name(host), name(router)));
        }
        let hop = fabric.hops_from(next, false, host, &there);
        let first_hop = fabric.first_hop(host, router, &back);
        let shared = [there, back].map(|key| fabric.flights.keys.share(key));
        let uplink = fabric.uplink(host);
        let headers = (ethernet::HEADER_LEN + ipv4::HEADER_LEN_MIN) as u32;
        let [own, reflector] = [(); 2].map(|()| self.endpoints.reserve());
        let prober = self.fabric.add_prober(Prober {
            port,
            to: reflector,
            hop,
            key: shared[0],
            headers,
            echoes: Vec::new(),
        });
        self.endpoints.put(own, Endpoint::Prober(prober));
        let route = Route {
            own: reflector,
            peer: own,
            uplink,
            first_hop,
            key: shared[1],
            headers,
            traffic: NO_TRAFFIC,
            flow: NO_TRAFFIC,
        };
        self.endpoints.put(reflector, Endpoint::Reflector(route));
        Ok(prober)
    }
}
