//! The order of events at one instant: arrivals are queued, then links start frames.

use weir_base::{Instant, Rate, Spacing, Span};
use weir_discipline::Spec;
use weir_sim::{FlowSpec, Network, NodeId, PortId, Simulation};

use super::support::{
    fifo, flow_spec, host, link, link_with, load, millis, nanos, one, received, simulation, spec,
    wire,
};

/// Payload of a frame of 1250 bytes, which takes one millisecond at 10 Mbit/s.
const PIECE: u32 = 1208;
const RATE: Rate = Rate::from_mbps(10);

/// A router with `queue` in front of a link of 10 Mbit/s to the second of the two hosts.
fn bottleneck(queue: Spec) -> (Network, NodeId, NodeId, PortId) {
    let mut network = Network::default();
    let router = network.router("router");
    let receiver = host(&mut network, 99);
    let [port, _] = link_with(
        &mut network,
        router,
        receiver,
        Some(RATE),
        Span::ZERO,
        queue,
    );
    (network, router, receiver, port)
}

/// Sends one datagram of each flow group at its time, from one host. Returns the number received.
fn receptions(limit: u32, times: &[Instant]) -> u64 {
    let (mut network, router, receiver, port) = bottleneck(fifo(limit));
    let sender = host(&mut network, 1);
    wire(&mut network, sender, router);
    let mut sim = simulation(network, times.len() as u32, 1);
    for (traffic, at) in times.iter().enumerate() {
        one(
            &mut sim,
            &flow_spec(sender, receiver, traffic as u32),
            *at,
            PIECE,
        );
    }
    sim.run_until(millis(1000));
    let received = (0..times.len() as u32).map(|t| received(&sim, t)).sum();
    assert_eq!(sim.fabric().port(port).sent().packets, received);
    assert_eq!(lost(&sim), times.len() as u64 - received);
    received
}

fn lost(sim: &Simulation) -> u64 {
    let losses = sim.meters().losses.values();
    losses.map(|loss| loss.packets).sum()
}

#[test]
fn all_that_comes_at_one_instant_is_queued_before_the_link_starts() {
    // If the first datagram were sent immediately, another datagram would fit.
    for limit in 1..6 {
        let received = receptions(limit, &[millis(5); 5]);
        assert_eq!(received, u64::from(limit));
    }
}

#[test]
fn the_link_starts_nothing_before_what_comes_as_it_becomes_free() {
    // One datagram is sent from 5 to 6 ms, and a second datagram waits. The third finds the only place occupied until
    // the link takes the second, which happens after all arrivals of that instant.
    let third = |at| receptions(1, &[millis(5), nanos(5_500_000), at]);
    assert_eq!(third(nanos(5_999_999)), 2);
    assert_eq!(third(nanos(6_000_000)), 2);
    assert_eq!(third(nanos(6_000_001)), 3);
}

/// Five hosts at different distances, whose datagrams reach the same queue at the same instant.
#[test]
fn the_way_to_a_queue_does_not_matter_if_the_time_is_the_same() {
    for limit in 1..6 {
        let (mut network, router, receiver, _) = bottleneck(fifo(limit));
        let near: Vec<_> = (1..3).map(|n| host(&mut network, n)).collect();
        for host in &near {
            wire(&mut network, *host, router);
        }
        // Two hops that take no time, three such hops, and one hop of a millisecond.
        let middle = network.router("middle");
        wire(&mut network, middle, router);
        let second = host(&mut network, 3);
        wire(&mut network, second, middle);
        let edge = network.router("edge");
        wire(&mut network, edge, middle);
        let third = host(&mut network, 4);
        wire(&mut network, third, edge);
        let far = host(&mut network, 5);
        link(&mut network, far, router, None, Span::from_millis(1));

        let mut sim = simulation(network, 5, 1);
        let hosts = [near[0], near[1], second, third, far];
        for (traffic, host) in hosts.into_iter().enumerate() {
            let at = if host == far { millis(4) } else { millis(5) };
            let flow_spec = flow_spec(host, receiver, traffic as u32);
            one(&mut sim, &flow_spec, at, PIECE);
        }
        sim.run_until(millis(1000));
        let all: u64 = (0..5).map(|traffic| received(&sim, traffic)).sum();
        assert_eq!((all, lost(&sim)), (limit.into(), 5 - u64::from(limit)));
    }
}

/// A hop without rate and delay forwards packets at the instant of their arrival, in order.
#[test]
fn a_hop_that_takes_no_time_changes_nothing() {
    let run = |hops: usize| {
        let (mut network, router, receiver, _) = bottleneck(fifo(3));
        let sender = host(&mut network, 1);
        let mut last = sender;
        for hop in 0..hops {
            let next = network.router(&format!("hop {hop}"));
            wire(&mut network, last, next);
            last = next;
        }
        wire(&mut network, last, router);
        let mut sim = simulation(network, 3, 1);
        for traffic in 0..3 {
            let flow_spec = FlowSpec {
                stop: millis(500),
                ..flow_spec(sender, receiver, traffic)
            };
            let load = load(400.0, 1000 + 100 * traffic, Spacing::Poisson);
            sim.udp(&flow_spec, load).unwrap();
        }
        sim.run_until(millis(1000));
        let meters = sim.meters();
        let told = meters.traffics.iter();
        let told = told.map(|m| (m.received, m.delay.mean(), m.arrived.clone()));
        let losses = meters.losses.iter().map(|(key, n)| (key.0, *n));
        (told.collect::<Vec<_>>(), losses.collect::<Vec<_>>())
    };
    let direct = run(0);
    assert_eq!(direct.1.len(), 3);
    assert_eq!(direct, run(1));
    assert_eq!(direct, run(4));
}

/// A packet of a flow that LRU-FQ knows, and immediately after it, at the same instant, a packet of another flow. Of
/// two queues with equal tags, the queue for unknown flows is served first if both packets are queued. The tags are
/// equal because each queue has sent one packet before.
#[test]
fn a_scheduler_sees_all_that_came_at_one_instant() {
    let queue = spec("lru_fq", &[("admission", "1"), ("threshold", "0")]);
    let (mut network, router, receiver, _) = bottleneck(queue);
    let sender = host(&mut network, 1);
    wire(&mut network, sender, router);
    let mut sim = simulation(network, 2, 1);
    let known = FlowSpec {
        start: millis(1),
        stop: millis(14),
        ..flow_spec(sender, receiver, 0)
    };
    // At 5 ms, when its flow is admitted, at 9 ms and at 13 ms.
    sim.udp(&known, load(250.0, PIECE, Spacing::Even)).unwrap();
    one(&mut sim, &flow_spec(sender, receiver, 1), millis(13), PIECE);
    sim.run_until(nanos(13_999_999));
    assert_eq!([received(&sim, 0), received(&sim, 1)], [2, 0]);
    sim.run_until(millis(14));
    assert_eq!([received(&sim, 0), received(&sim, 1)], [2, 1]);
    sim.run_until(millis(15));
    assert_eq!([received(&sim, 0), received(&sim, 1)], [3, 1]);
}
