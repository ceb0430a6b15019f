//! The simulator's fabric, with a port that receives its packets from a host's datagrams.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use weir_base::pace::Load;
use weir_base::{Instant, Offered, Spacing, Span, Streams};
use weir_discipline::Spec;
use weir_packet::Ecn;
use weir_sim::meter::Loss;
use weir_sim::network::End;
use weir_sim::{FlowSpec, Measurement, Network, PortId, Simulation};

use super::exact::port;
use super::{Coming, LINK, Outcome, PORT, RECEIVER, SEED, SENDER};

/// A host's datagrams, evenly spaced between two times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    rate: Offered,
    payload: u32,
    start: Instant,
    stop: Instant,
}

fn train(mbps: f64, payload: u32, start_ms: u64, stop_ms: u64) -> Train {
    let rate = Offered {
        slope: 0.0,
        base: mbps * 1e6,
    };
    Train {
        rate,
        payload,
        start: millis(start_ms),
        stop: millis(stop_ms),
    }
}

fn millis(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// A light load all the time, two overloads with an idle time between them, and bursts at one instant.
pub(crate) fn trains() -> Vec<Train> {
    let mut trains: Vec<_> = (0..4).map(|n| train(0.5, 100 + 100 * n, 0, 400)).collect();
    trains.push(train(80.0, 1400, 20, 160));
    // In phase with each other.
    trains.extend([train(10.0, 900, 40, 140); 8]);
    // 50 datagrams within one nanosecond, from 220 ms on.
    for payload in [60, 700] {
        let mut burst = train(0.0, payload, 220, 220);
        burst.rate.base = 2e10 * f64::from(payload) * 8.0;
        burst.stop += Span::from_nanos(1);
        trains.push(burst);
    }
    for start in [250, 260, 270] {
        let mut growing = train(0.0, 1000, start, 400);
        growing.rate.slope = 1e9;
        growing.rate.base = -1e9 * 0.23;
        trains.push(growing);
    }
    trains
}

/// The arrivals of all datagrams; at one instant, they are in the order in which their events were scheduled.
pub(crate) fn arrivals(trains: &[Train]) -> Vec<Coming> {
    let mut events = BTreeMap::new();
    for (flow, train) in trains.iter().enumerate() {
        events.insert((train.start, flow), (flow, 0));
    }
    let (mut list, mut serial) = (Vec::new(), trains.len());
    while let Some(((at, _), (flow, place))) = events.pop_first() {
        let train = &trains[flow];
        if place > 0 {
            list.push(Coming {
                at,
                flow: flow as u16,
                payload: train.payload as usize,
                ecn: Ecn::NotCapable,
            });
        }
        let place = place + 1;
        let bits = f64::from(place) * f64::from(train.payload) * 8.0;
        let origin = train.start.since(Instant::ZERO).as_secs_f64();
        let next = train.rate.time_of(origin, bits).unwrap();
        let next = Instant::ZERO + Span::from_secs_f64(next);
        if next < train.stop {
            events.insert((next, serial), (flow, place));
            serial += 1;
        }
    }
    list
}

/// The same trains in a simulated network; its port `wan` is compared.
fn fabric(spec: &Spec, trains: &[Train]) -> (Simulation, PortId) {
    let mut network = Network::default();
    let host = |network: &mut Network, name: &str, v4: [u8; 4]| {
        network.host(name, v4.into(), Ipv6Addr::UNSPECIFIED)
    };
    let a = host(&mut network, "a", SENDER);
    let b = host(&mut network, "b", RECEIVER);
    let router = network.router("router");
    let end = |node, name: &str, spec: &Spec| End {
        node,
        name: name.to_owned(),
        spec: spec.clone(),
    };
    let fifo = Spec::check("fifo", []).unwrap();
    let access = [end(a, "a", &fifo), end(router, "lan", &fifo)];
    network.link(access, None, Span::ZERO, weir_base::Framing::bytes(0));
    let egress = [end(router, "wan", spec), end(b, "b", &fifo)];
    let [wan, _] = network.link(egress, LINK.rate, DELAY, LINK.framing);
    let measurement = Measurement {
        from: Instant::ZERO,
        until: Instant::FAR_FUTURE,
        step: Span::from_secs(1),
        traffics: trains.len() as u32,
    };
    let mut sim = Simulation::new(network, measurement, Streams::new(SEED)).unwrap();
    for (flow, train) in trains.iter().enumerate() {
        let flow_spec = FlowSpec {
            from: a,
            to: b,
            port: PORT,
            ipv6: false,
            source: None,
            start: train.start,
            stop: train.stop,
            traffic: flow as u32,
            name: format!("train {flow}"),
        };
        let load = Load {
            rate: train.rate,
            piece: train.payload,
            spacing: Spacing::Even,
            on_off: None,
        };
        sim.udp(&flow_spec, load).unwrap();
    }
    (sim, wan)
}

const DELAY: Span = Span::from_micros(123);

/// The observable state of the fabric at an instant.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counters {
    sent: u64,
    received: Vec<u64>,
    lost: BTreeMap<(u32, &'static str), Loss>,
}

fn counters(sim: &Simulation, wan: PortId) -> Counters {
    let meters = sim.meters();
    let losses = meters.losses.iter();
    Counters {
        sent: sim.fabric().port(wan).sent().packets,
        received: meters.traffics.iter().map(|m| m.received.packets).collect(),
        lost: losses
            .map(|((flow, _, why), n)| ((*flow, *why), *n))
            .collect(),
    }
}

/// A change that the counters must show from its time on.
enum Change {
    Sent,
    Received(u16),
    Lost(u16, &'static str, usize),
}

/// The fabric's counters change exactly at the instants at which the exact port decided, and at no others.
pub(crate) fn fabric_agrees(spec: &Spec, trains: &[Train]) -> Outcome {
    let list = arrivals(trains);
    let (outcome, ends) = port(spec, &list);
    let mut changes: Vec<(Instant, Change)> = Vec::new();
    for (sent, end) in outcome.sent.iter().zip(&ends) {
        changes.push((sent.at, Change::Sent));
        changes.push((*end + DELAY, Change::Received(list[sent.id].flow)));
    }
    for lost in &outcome.lost {
        let Coming { flow, payload, .. } = list[lost.id];
        changes.push((lost.at, Change::Lost(flow, lost.reason, payload)));
    }
    changes.sort_by_key(|(at, _)| *at);
    let (mut sim, wan) = fabric(spec, trains);
    let mut expected = Counters {
        received: vec![0; trains.len()],
        ..Counters::default()
    };
    let mut changes = changes.into_iter().peekable();
    while let Some((at, _)) = changes.peek() {
        let at = *at;
        sim.run_until(at.before(Span::from_nanos(1)));
        assert_eq!(counters(&sim, wan), expected, "before {at:?}");
        while let Some((_, change)) = changes.next_if(|(a, _)| *a == at) {
            match change {
                Change::Sent => expected.sent += 1,
                Change::Received(flow) => expected.received[usize::from(flow)] += 1,
                Change::Lost(flow, why, payload) => {
                    let lost = expected.lost.entry((flow.into(), why)).or_default();
                    lost.packets += 1;
                    lost.payload.count(payload as u64);
                }
            }
        }
        sim.run_until(at);
        assert_eq!(counters(&sim, wan), expected, "at {at:?}");
    }
    assert_eq!(sim.fabric().books()[0], list.len() as u64);
    assert_eq!(sim.fabric().books()[3], 0);
    outcome
}
