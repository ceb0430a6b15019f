//! Lines whose rate and delay change, behind ports of a network.

use weir_base::{Bytes, Instant, Rate, Spacing, Span, Varying};
use weir_sim::{LineSpec, Network, PortId, Simulation};

use super::support::*;

/// A datagram of 958 B: 1000 B with its headers, 8 000 bit.
const PIECE: u32 = 958;

/// Two hosts at a router; the line of the port towards the second host is `line`.
fn network(line: LineSpec, shaper: Option<Rate>, limit: u32) -> (Simulation, PortId) {
    let mut network = Network::default();
    let (a, b) = (host(&mut network, 1), host(&mut network, 2));
    let r = network.router("r");
    wire(&mut network, a, r);
    let queue = fifo(limit);
    let [port, _] = link_with(&mut network, r, b, None, Span::ZERO, queue);
    network.line(port, line, shaper);
    let mut sim = simulation(network, 1, 1);
    sim.watch(&[port]);
    // 2000 datagrams a second: 16 Mbit/s.
    let load = load(2000.0, PIECE, Spacing::Even);
    sim.udp(&flow_spec(a, b, 0), load).unwrap();
    (sim, port)
}

fn line(rate: &str, delay: &str, buffer: Option<u64>) -> LineSpec {
    LineSpec {
        rate: Some(rate.parse::<Varying<Rate>>().unwrap()),
        delay: delay.parse().unwrap(),
        buffer: buffer.map(Bytes),
    }
}

fn received_by(sim: &mut Simulation, until: Instant) -> u64 {
    sim.run_until(until);
    received(sim, 0)
}

#[test]
fn a_port_sends_at_each_instant_what_its_line_carries() {
    let rate = "8 Mbit, 4 Mbit from 1 s, outage from 2 s, 8 Mbit from 3 s";
    let (mut sim, port) = network(line(rate, "10 ms", None), None, 100_000);
    // Frames follow each other from 0.5 ms on and arrive 10 ms after their last bit. Up to the first step the line has
    // sent 999.5 frames, up to the outage 1499.5; the second half of the last frame takes 0.5 ms after the outage.
    let after = |millis: u64| millis_and_half(millis);
    let counts = [1010, 2010, 2900, 3010, 3510].map(|at| received_by(&mut sim, after(at)));
    assert_eq!(counts, [999, 1499, 1499, 1500, 2000]);
    assert_eq!(sim.fabric().books()[2], 0, "nothing is lost");
    let sojourn = sim.watched(port).unwrap().sojourn.percentile(1.0);
    assert!(sojourn > Some(2.0), "the queue is the port's: {sojourn:?}");
}

fn millis_and_half(at: u64) -> Instant {
    millis(at) + Span::from_micros(500)
}

#[test]
fn latency_arises_in_the_modem_if_the_shaper_is_faster_than_the_line() {
    let shaper = |mbps| Some(Rate::from_mbps(mbps));
    let delay = |shaper| {
        let line = line("12 Mbit, 4 Mbit from 1 s", "0 s", Some(50_000));
        let (mut sim, port) = network(line, shaper, 100);
        sim.run_until(millis(3000));
        let delays = &sim.meters().traffics[0].delay;
        let watch = sim.watched(port).unwrap();
        let queued = watch.sojourn.percentile(1.0).unwrap();
        (delays.percentile(1.0).unwrap(), queued, sim)
    };
    // Below both rates everything waits in the port's queue: 100 datagrams at 2 Mbit/s are 0.4 s, and none is lost
    // behind the port.
    let (most, queued, _) = delay(shaper(2));
    assert!(
        (0.39..0.42).contains(&queued) && most < queued + 0.005,
        "{most} {queued}"
    );
    // Above the second rate the modem's 50 kB fill: 0.1 s at 4 Mbit/s, and the port's queue stays as it was.
    let (most, queued, sim) = delay(shaper(8));
    assert!((0.2..0.21).contains(&(most)), "{most} {queued}");
    let impaired = sim
        .meters()
        .losses
        .keys()
        .filter(|(.., reason)| *reason == "impaired");
    assert_eq!(impaired.count(), 1);
    // Without a shaper the port never holds anything.
    let (most, queued, _) = delay(None);
    assert!(
        (0.1..0.105).contains(&most) && queued == 0.0,
        "{most} {queued}"
    );
}

#[test]
fn an_outage_without_end_keeps_what_it_has_got() {
    let rate = "8 Mbit, outage from 1 s";
    let (mut sim, _) = network(line(rate, "0 s", Some(10_000)), None, 100);
    let counted = received_by(&mut sim, millis(60_000));
    assert_eq!(counted, 999);
    let [created, delivered, lost, under_way] = sim.fabric().books();
    assert_eq!((delivered + lost + under_way, under_way), (created, 11));
}
