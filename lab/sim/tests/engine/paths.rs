//! The paths of packets, and networks that are refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_base::{Distribution, Instant, Rate, Sizes, Spacing, Span, Times};
use weir_sim::NetworkError;
use weir_sim::tcp::Options;
use weir_sim::web::Web;
use weir_sim::{FlowSpec, Network, NodeId, PortId, Sender, Simulation};

use super::support::{
    flow_spec, host, link, load, millis, received, simulation, try_simulation, wire,
};

const DELAY: Span = Span::from_millis(1);

/// Hosts `a` and `b`, and routers `names`; the first router is next to `a`, the last next to `b`.
fn ends(names: &[&str]) -> (Network, NodeId, NodeId, Vec<NodeId>) {
    let mut network = Network::default();
    let routers: Vec<_> = names.iter().map(|name| network.router(name)).collect();
    let [a, b] = [1, 2].map(|n| host(&mut network, n));
    wire(&mut network, a, routers[0]);
    wire(&mut network, b, routers[names.len() - 1]);
    (network, a, b, routers)
}

/// Packets sent by ports.
fn sent(sim: &Simulation, ports: &[PortId]) -> Vec<u64> {
    let sent = |port: &PortId| sim.fabric().port(*port).sent().packets;
    ports.iter().map(sent).collect()
}

/// Runs `flows` flows of ten packets each from `a` to `b`.
fn run_flows(network: Network, a: NodeId, b: NodeId, flows: u32, seed: u64) -> Simulation {
    let mut sim = simulation(network, flows, seed);
    for flow in 0..flows {
        let flow_spec = FlowSpec {
            stop: millis(105),
            ..flow_spec(a, b, flow)
        };
        sim.udp(&flow_spec, load(100.0, 100, Spacing::Even))
            .unwrap();
    }
    sim.run_until(millis(1000));
    assert!((0..flows).all(|flow| received(&sim, flow) == 10));
    sim
}

/// Two equally short paths.
fn diamond() -> (Network, NodeId, NodeId, [PortId; 2]) {
    let (mut network, a, b, routers) = ends(&["west", "north", "south", "east"]);
    let [west, north, south, east] = routers[..] else {
        unreachable!("four were asked for")
    };
    let ports = [north, south].map(|middle| {
        link(&mut network, middle, east, None, DELAY);
        link(&mut network, west, middle, None, DELAY)[0]
    });
    (network, a, b, ports)
}

#[test]
fn one_flow_takes_one_of_two_equal_paths() {
    let mut taken = [0; 2];
    for seed in 0..16 {
        let (network, a, b, ports) = diamond();
        let sent = sent(&run_flows(network, a, b, 1, seed), &ports);
        assert!(sent == [10, 0] || sent == [0, 10], "{sent:?}");
        taken[usize::from(sent[0] == 0)] += 1;
    }
    // The seed is the key of the hash: the same flow takes one path or the other, by chance.
    assert!(taken.iter().all(|n| *n > 0), "{taken:?}");
}

#[test]
fn many_flows_spread_over_equal_paths() {
    let (network, a, b, ports) = diamond();
    let sent = sent(&run_flows(network, a, b, 200, 1), &ports);
    assert_eq!(sent.iter().sum::<u64>(), 2000);
    // Whole flows; 100 flows on each, binomial with a standard deviation of 7: four standard deviations are permitted.
    assert!(sent.iter().all(|n| n % 10 == 0 && (720..=1280).contains(n)));
}

#[test]
fn parallel_links_are_paths_of_their_own() {
    let (mut network, a, b, routers) = ends(&["west", "east"]);
    let ports = [(); 3].map(|()| link(&mut network, routers[0], routers[1], None, DELAY)[0]);
    let sent = sent(&run_flows(network, a, b, 300, 1), &ports);
    assert_eq!(sent.iter().sum::<u64>(), 3000);
    // 100 flows on each, binomial with a standard deviation of 8: four standard deviations are permitted.
    assert!(sent.iter().all(|n| n % 10 == 0 && (680..=1320).contains(n)));
}

/// A flow's choice at one router must not determine its choice at the next one.
#[test]
fn a_second_choice_is_independent_of_the_first() {
    let names = ["west", "north", "south", "left", "right", "east"];
    let (mut network, a, b, routers) = ends(&names);
    let [west, north, south, left, right, east] = routers[..] else {
        unreachable!("six were asked for")
    };
    let mut ports = Vec::new();
    for first in [north, south] {
        link(&mut network, west, first, None, DELAY);
        for second in [left, right] {
            ports.push(link(&mut network, first, second, None, DELAY)[0]);
        }
    }
    for second in [left, right] {
        link(&mut network, second, east, None, DELAY);
    }
    let sent = sent(&run_flows(network, a, b, 200, 1), &ports);
    assert_eq!(sent.iter().sum::<u64>(), 2000);
    // 50 flows on each, binomial with a standard deviation of 6: four standard deviations are permitted.
    assert!(sent.iter().all(|n| (260..=740).contains(n)), "{sent:?}");
}

#[test]
fn fewer_hops_are_shorter_whatever_they_take() {
    let (mut network, a, b, routers) = ends(&["west", "middle", "east"]);
    let slow = Some(Rate::from_mbps(1));
    let long = Span::from_millis(50);
    let direct = link(&mut network, routers[0], routers[2], slow, long)[0];
    let detour = link(&mut network, routers[0], routers[1], None, DELAY)[0];
    link(&mut network, routers[1], routers[2], None, DELAY);
    let sent = sent(&run_flows(network, a, b, 20, 1), &[direct, detour]);
    assert_eq!(sent, [200, 0]);
}

#[test]
fn hosts_may_be_linked_to_each_other_but_pass_nothing_on() {
    let mut network = Network::default();
    let [a, b, c] = [1, 2, 3].map(|n| host(&mut network, n));
    let router = network.router("lonely");
    let port = link(&mut network, a, b, None, DELAY)[0];
    link(&mut network, c, router, None, DELAY);
    let mut sim = simulation(network, 1, 1);
    sim.udp(&flow_spec(a, b, 0), load(100.0, 100, Spacing::Even))
        .unwrap();
    assert_eq!(refusals(&mut sim, a, c).unwrap(), no_path("host1", "host3"));
    sim.run_until(millis(105));
    assert_eq!((sent(&sim, &[port])[0], received(&sim, 0)), (10, 10));
}

/// The single error with which every kind of traffic between these hosts is refused; `None` if no kind is refused.
fn refusals(sim: &mut Simulation, from: NodeId, to: NodeId) -> Option<NetworkError> {
    let flow_spec = flow_spec(from, to, 0);
    let udp = sim.udp(&flow_spec, load(1.0, 100, Spacing::Even));
    let tcp = sim.tcp(&flow_spec, &Options::default(), Sender::Greedy);
    let web = Web {
        server: to,
        client: from,
        port: 80,
        ipv6: false,
        options: Options::default(),
        sizes: Sizes(Distribution::Fixed(100.0)),
        think: Times(Distribution::Fixed(1.0)),
        start: Instant::ZERO,
        stop: millis(10),
        traffic: 0,
        chunks: None,
    };
    let back = sim.web(web, "web");
    assert_eq!(udp, tcp);
    assert_eq!(udp.is_err(), back.is_err());
    udp.err()
}

fn no_path(from: &str, to: &str) -> NetworkError {
    NetworkError::NoPath(from.to_owned(), to.to_owned())
}

fn no_time(from: &str, to: &str) -> NetworkError {
    NetworkError::NoTime(from.to_owned(), to.to_owned())
}

#[test]
fn traffic_without_a_path_is_refused() {
    let (network, a, b, _) = ends(&["here", "there"]);
    let mut sim = simulation(network, 1, 1);
    let refusal = refusals(&mut sim, a, b).unwrap();
    assert_eq!(refusal, no_path("host1", "host2"));
    assert_eq!(refusal.to_string(), "no path from host1 to host2");
}

#[test]
fn a_loop_that_takes_no_time_is_refused() {
    let (network, a, b, _) = ends(&["only"]);
    let mut sim = simulation(network, 1, 1);
    let refusal = refusals(&mut sim, a, b);
    assert_eq!(refusal, Some(no_time("host1", "host2")));
    // A rate or a delay anywhere on the path is enough.
    for (rate, delay) in [(Some(Rate::from_mbps(1000)), Span::ZERO), (None, DELAY)] {
        let (mut network, a, b, routers) = ends(&["west", "east"]);
        link(&mut network, routers[0], routers[1], rate, delay);
        let mut sim = simulation(network, 1, 1);
        assert_eq!(refusals(&mut sim, a, b), None);
        sim.run_until(millis(100));
    }
}

/// A flow may take any of several equal paths, so each of them must take time.
#[test]
fn a_loop_that_may_take_no_time_is_refused() {
    for timeless in 0..2 {
        let (mut network, a, b, routers) = ends(&["west", "north", "south", "east"]);
        for (place, middle) in routers[1..3].iter().enumerate() {
            let delay = if place == timeless { Span::ZERO } else { DELAY };
            link(&mut network, routers[0], *middle, None, delay);
            wire(&mut network, *middle, routers[3]);
        }
        let mut sim = simulation(network, 1, 1);
        let refusal = refusals(&mut sim, a, b);
        assert_eq!(refusal, Some(no_time("host1", "host2")), "{timeless}");
    }
}

#[test]
fn a_host_has_exactly_one_link() {
    for links in [0, 2, 3] {
        let mut network = Network::default();
        let router = network.router("router");
        let host = network.host("host", Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        for _ in 0..links {
            link(&mut network, host, router, None, DELAY);
        }
        let error = try_simulation(network, 0, 1).err().unwrap();
        assert_eq!(error, NetworkError::Links("host".to_owned(), links));
    }
}
