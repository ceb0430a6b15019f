//! Helpers that build networks and flows.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::pace::Load;
use weir_base::setting::Scalar;
use weir_base::{Framing, Instant, Offered, Rate, Spacing, Span, Streams};
use weir_discipline::Spec;
use weir_sim::NetworkError;
use weir_sim::network::End;
use weir_sim::{FlowSpec, Measurement, Network, NodeId, PortId, Simulation};

/// Bytes of the Ethernet, IPv4 and UDP headers.
pub(crate) const HEADERS: i32 = 42;

pub(crate) fn nanos(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub(crate) fn millis(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// A discipline with some settings; the others keep their defaults.
pub(crate) fn spec(kind: &str, settings: &[(&str, &str)]) -> Spec {
    let settings = settings.iter().map(|(name, text)| {
        let number = text.parse().map(Scalar::Integer);
        (*name, number.unwrap_or(Scalar::Text((*text).to_owned())))
    });
    let settings: Vec<_> = settings.collect();
    Spec::check(kind, settings.iter().map(|(name, s)| (*name, s))).unwrap()
}

pub(crate) fn fifo(limit: u32) -> Spec {
    spec("fifo", &[("limit", &limit.to_string())])
}

/// A host with its own address.
pub(crate) fn host(network: &mut Network, number: u8) -> NodeId {
    let v4 = Ipv4Addr::new(10, 0, 0, number);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into());
    network.host(&format!("host{number}"), v4, v6)
}

/// A link with FIFOs that lose nothing, without overhead. Returns the ports `a -> b` and `b -> a`.
pub(crate) fn link(
    network: &mut Network,
    a: NodeId,
    b: NodeId,
    rate: Option<Rate>,
    delay: Span,
) -> [PortId; 2] {
    link_with(network, a, b, rate, delay, fifo(1_000_000))
}

/// [`link`] with the caller's queue at `a`.
pub(crate) fn link_with(
    network: &mut Network,
    a: NodeId,
    b: NodeId,
    rate: Option<Rate>,
    delay: Span,
    queue: Spec,
) -> [PortId; 2] {
    let end = |node: NodeId, other: NodeId, spec| End {
        node,
        name: format!("{}-{}", node.0, other.0),
        spec,
    };
    let ends = [end(a, b, queue), end(b, a, fifo(1_000_000))];
    network.link(ends, rate, delay, Framing::bytes(0))
}

/// A link that takes no time.
pub(crate) fn wire(network: &mut Network, a: NodeId, b: NodeId) -> [PortId; 2] {
    link(network, a, b, None, Span::ZERO)
}

/// A simulation of a network, measured from the start.
pub(crate) fn simulation(network: Network, traffics: u32, seed: u64) -> Simulation {
    try_simulation(network, traffics, seed).unwrap()
}

pub(crate) fn try_simulation(
    network: Network,
    traffics: u32,
    seed: u64,
) -> Result<Simulation, NetworkError> {
    let measurement = Measurement {
        from: Instant::ZERO,
        until: Instant::FAR_FUTURE,
        step: Span::from_millis(100),
        traffics,
    };
    Simulation::new(network, measurement, Streams::new(seed))
}

/// A flow from the start of the run to its end.
pub(crate) fn flow_spec(from: NodeId, to: NodeId, traffic: u32) -> FlowSpec {
    FlowSpec {
        from,
        to,
        port: 9,
        ipv6: false,
        source: None,
        start: Instant::ZERO,
        stop: Instant::FAR_FUTURE,
        traffic,
        name: format!("flow{traffic}"),
    }
}

/// `pieces` pieces per second on average.
pub(crate) fn load(pieces: f64, piece: u32, spacing: Spacing) -> Load {
    let rate = Offered {
        slope: 0.0,
        base: pieces * f64::from(piece) * 8.0,
    };
    Load {
        rate,
        piece,
        spacing,
        on_off: None,
    }
}

/// Adds a flow of exactly one datagram, which its host sends at `at`.
pub(crate) fn one(sim: &mut Simulation, flow_spec: &FlowSpec, at: Instant, piece: u32) {
    let gap = Span::from_micros(1);
    let flow_spec = FlowSpec {
        start: at.before(gap),
        stop: at + Span::from_nanos(1),
        ..flow_spec.clone()
    };
    sim.udp(&flow_spec, load(1e6, piece, Spacing::Even))
        .unwrap();
}

/// Datagrams of a flow group that reached their host.
pub(crate) fn received(sim: &Simulation, traffic: u32) -> u64 {
    sim.meters().traffics[traffic as usize].received.packets
}
