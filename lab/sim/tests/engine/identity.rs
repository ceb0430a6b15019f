//! A run depends on its seed and nothing else, and the random numbers of one source do not depend on other sources.

use weir_base::pace::{Load, OnOff};
use weir_base::{Distribution, Framing, Instant, Rate, Sizes, Spacing, Span, Streams, Times};
use weir_discipline::Spec;
use weir_sim::network::End;
use weir_sim::tcp::Options;
use weir_sim::web::Web;
use weir_sim::{FlowSpec, Measurement, Network, NodeId, PortId, Sender, Simulation};

use super::support::{fifo, flow_spec, host, load, millis, spec};

const RUN: Instant = Instant::from_nanos(3_000_000_000);

/// All results of a run for these flow groups.
fn told(sim: &Simulation, traffics: std::ops::Range<u32>) -> String {
    let meters = sim.meters();
    let ours = |traffic: &u32| traffics.contains(traffic);
    let mut told = String::new();
    for meter in &meters.traffics[traffics.start as usize..traffics.end as usize] {
        let percentiles = [0.1, 0.5, 0.9, 0.99, 1.0].map(|p| meter.delay.percentile(p));
        let delay = (meter.delay.mean(), percentiles, meter.jitter);
        let counts = (meter.sent, meter.received, meter.offered_bytes);
        told += &format!("{counts:?} {delay:?} {:?}\n", meter.arrived);
    }
    for flow in meters.flows.iter().filter(|flow| ours(&flow.traffic)) {
        told += &format!("{flow:?}\n");
    }
    for fetch in sim.fetches().filter(|fetch| ours(&fetch.traffic)) {
        told += &format!("{fetch:?}\n");
    }
    for ((traffic, port, reason), tally) in &meters.losses {
        if ours(traffic) {
            told += &format!("{traffic} {port:?} {reason} {tally:?}\n");
        }
    }
    told
}

/// Two routers with a link of 10 Mbit/s between them, and `queue` before it; a host at either side.
struct Site {
    network: Network,
    ends: [NodeId; 2],
    port: PortId,
}

fn site(mut network: Network, number: u8, queue: Spec) -> Site {
    let routers = [1, 2].map(|n| network.router(&format!("router {number} {n}")));
    let ends = [1, 2].map(|n| host(&mut network, 10 * number + n));
    // A port's random stream is named after the port.
    let end = |node, place: &str, spec: Spec| End {
        node,
        name: format!("{place} of {number}"),
        spec,
    };
    let middle = [
        end(routers[0], "east", queue),
        end(routers[1], "west", fifo(1000)),
    ];
    let rate = Some(Rate::from_mbps(10));
    let [port, _] = network.link(middle, rate, Span::from_millis(5), Framing::bytes(0));
    for (host, router) in ends.into_iter().zip(routers) {
        let access = [
            end(host, "host", fifo(1000)),
            end(router, "edge", fifo(1000)),
        ];
        let fast = Some(Rate::from_mbps(100));
        network.link(access, fast, Span::from_micros(10), Framing::bytes(0));
    }
    Site {
        network,
        ends,
        port,
    }
}

fn run(network: Network, traffics: u32, seed: u64) -> Simulation {
    let measurement = Measurement {
        from: Instant::ZERO,
        until: Instant::FAR_FUTURE,
        step: Span::from_millis(1),
        traffics,
    };
    Simulation::new(network, measurement, Streams::new(seed)).unwrap()
}

/// Four flow groups, from `first` on: datagrams at random times, the same with pauses, a connection, a web client.
/// `label` names their random streams.
fn add_traffic(sim: &mut Simulation, [from, to]: [NodeId; 2], first: u32, label: &str) {
    let flow_spec = |n: u32| FlowSpec {
        stop: millis(2500),
        name: format!("{label} {n}"),
        ..flow_spec(from, to, first + n)
    };
    let poisson = load(500.0, 700, Spacing::Poisson);
    sim.udp(&flow_spec(0), poisson.clone()).unwrap();
    let seconds = |mean| Times(Distribution::Exponential { mean });
    let on_off = Some(OnOff {
        on: seconds(0.1),
        off: seconds(0.1),
    });
    let pausing = Load { on_off, ..poisson };
    sim.udp(&flow_spec(1), pausing).unwrap();
    let greedy = Sender::Greedy;
    sim.tcp(&flow_spec(2), &Options::default(), greedy).unwrap();
    let web = Web {
        server: from,
        client: to,
        port: 80,
        ipv6: true,
        options: Options::default(),
        sizes: Sizes(Distribution::Exponential { mean: 20e3 }),
        think: seconds(0.05),
        start: millis(100),
        stop: millis(2500),
        traffic: first + 3,
        chunks: None,
    };
    sim.web(web, &format!("{label} 3")).unwrap();
}

fn red() -> Spec {
    spec("red", &[("limit", "60"), ("rate", "10 Mbit")])
}

fn whole_run(seed: u64, queue: Spec) -> String {
    let site = site(Network::default(), 1, queue);
    let mut sim = run(site.network, 4, seed);
    add_traffic(&mut sim, site.ends, 0, "ours");
    sim.run_until(RUN);
    let lost = sim.meters().losses.values().map(|t| t.packets);
    assert!(lost.sum::<u64>() > 10);
    let fabric = sim.fabric();
    let books = (fabric.events(), fabric.books());
    format!("{books:?}\n{}", told(&sim, 0..4))
}

#[test]
fn the_same_seed_is_the_same_run() {
    // Each of these disciplines has its own random stream.
    let impair = &[("delay", "5 ms"), ("jitter", "2 ms"), ("loss", "0.01")];
    for queue in [
        red(),
        spec("lru_fq", &[("limit", "50")]),
        spec("impair", impair),
    ] {
        let first = whole_run(1, queue.clone());
        assert!(first == whole_run(1, queue.clone()));
        assert!(first != whole_run(2, queue));
    }
}

/// Stopping in between does not change the run.
#[test]
fn a_run_in_pieces_is_the_same_run() {
    let site = site(Network::default(), 1, red());
    let mut sim = run(site.network, 4, 1);
    add_traffic(&mut sim, site.ends, 0, "ours");
    let mut at = Instant::ZERO;
    while at < RUN {
        at = (at + Span::from_nanos(777_777)).min(RUN);
        sim.run_until(at);
    }
    let fabric = sim.fabric();
    let books = (fabric.events(), fabric.books());
    let pieces = format!("{books:?}\n{}", told(&sim, 0..4));
    assert!(pieces == whole_run(1, red()));
}

/// A FIFO that is not watched has no events of its own. The run is the same, down to every arrival time, whether its
/// ports are stepped or not; round numbers make many events coincide.
#[test]
fn a_port_that_is_exposed_is_the_same_port() {
    let run = |exposed: &[PortId], limit: u32| {
        let site = site(Network::default(), 1, fifo(limit));
        let mut sim = run(site.network, 4, 1);
        sim.expose(exposed);
        add_traffic(&mut sim, site.ends, 0, "ours");
        sim.run_until(RUN);
        let fabric = sim.fabric();
        let ports = (0..6).map(|n| fabric.port(PortId(n)));
        let ledgers: Vec<_> = ports.map(|p| (p.ledger(), p.backlog())).collect();
        let told = format!("{:?}\n{ledgers:?}\n{}", fabric.books(), told(&sim, 0..4));
        (fabric.events(), told)
    };
    for limit in [3, 20, 60] {
        let (events, stepped) = run(&[0, 1, 2, 3, 4, 5].map(PortId), limit);
        for exposed in [&[][..], &[PortId(0)], &[PortId(1), PortId(2), PortId(5)]] {
            let (fewer, plain) = run(exposed, limit);
            assert!(plain == stepped); // too long to be shown
            assert!(fewer <= events);
        }
    }
}

/// The other site is described first and has its traffic first: names matter, numbers do not.
#[test]
fn others_elsewhere_change_nothing() {
    let alone = whole_run(1, red());
    let others = site(Network::default(), 2, red());
    let ours = site(others.network, 1, red());
    let mut sim = run(ours.network, 8, 1);
    add_traffic(&mut sim, others.ends, 4, "others");
    add_traffic(&mut sim, ours.ends, 0, "ours");
    sim.run_until(RUN);
    let (_of_all, alone) = alone.split_once('\n').unwrap();
    let [before, after] = [alone, &told(&sim, 0..4)].map(without_numbers);
    assert!(before == after); // too long to be shown
    assert!(told(&sim, 4..8) != told(&sim, 0..4));
}

/// Removes the numbers of ports, nodes and clients.
fn without_numbers(told: &str) -> String {
    let mut rest = String::new();
    for line in told.lines() {
        let mut words = line.split(' ').peekable();
        while let Some(word) = words.next() {
            if word == "client:" {
                words.next();
            } else if !word.starts_with("PortId") && !word.contains("NodeId") {
                rest += word;
                rest += " ";
            }
        }
        rest += "\n";
    }
    rest
}

/// Others in the same queue take capacity of the link; but the times at which our sources send, and the files that they
/// fetch, do not change.
#[test]
fn others_on_the_same_way_do_not_change_when_sources_send() {
    let run = |others: bool| {
        let site = site(Network::default(), 1, spec("drr", &[]));
        let mut sim = run(site.network, 8, 1);
        sim.watch(&[site.port]);
        if others {
            add_traffic(&mut sim, site.ends, 4, "others");
        }
        add_traffic(&mut sim, site.ends, 0, "ours");
        let mut sent = Vec::new();
        for step in 0..30_000_u64 {
            sim.run_until(Instant::ZERO + Span::from_micros(100 * step));
            let traffics = &sim.meters().traffics;
            sent.push([traffics[0].sent, traffics[1].sent]);
        }
        let fetched = sim.fetches().filter(|f| f.traffic == 3);
        let fetched: Vec<_> = fetched.map(|f| f.bytes).collect();
        (sent, fetched, told(&sim, 0..4))
    };
    let (alone, crowded) = (run(false), run(true));
    assert!(alone.0.last().unwrap()[0].packets > 1000);
    assert!(alone.0 == crowded.0);
    let both = alone.1.len().min(crowded.1.len());
    assert!(both > 5, "{both}");
    assert_eq!(alone.1[..both], crowded.1[..both]);
    assert!(alone.2 != crowded.2);
}
