//! Actors: controllers that change ports, and the sampler of queues.

use std::sync::{Arc, Mutex};

use weir_base::{Instant, Rate, Spacing, Span};
use weir_discipline::Spec;
use weir_sim::{Actor, Fabric, FlowSpec, Network, PortId, Simulation};

use super::support::{fifo, flow_spec, host, link_with, load, millis, nanos, simulation, spec};

/// Payload of a frame of 1250 bytes, which takes one millisecond at 10 Mbit/s.
const PIECE: u32 = 1208;
const FRAME: u64 = 1250;
const RATE: Rate = Rate::from_mbps(10);

/// Sets the parameters of a port at given times.
struct Set {
    port: PortId,
    spec: Spec,
    times: Vec<Instant>,
    acted: Arc<Mutex<Vec<Instant>>>,
}

impl Actor for Set {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let now = fabric.now();
        self.acted.lock().unwrap().push(now);
        fabric.set(self.port, self.spec.clone()).unwrap();
        self.times.iter().copied().find(|at| *at > now)
    }
}

/// A port with `queue` and `rate`, and a sender of `pieces` frames of 1250 bytes per second.
fn sending(queue: Spec, rate: Rate, pieces: f64) -> (Simulation, PortId) {
    let mut network = Network::default();
    let [a, b] = [1, 2].map(|n| host(&mut network, n));
    let [port, _] = link_with(&mut network, a, b, Some(rate), Span::ZERO, queue);
    let mut sim = simulation(network, 1, 1);
    let flow_spec = FlowSpec {
        start: nanos(50_000),
        ..flow_spec(a, b, 0)
    };
    sim.udp(&flow_spec, load(pieces, PIECE, Spacing::Even))
        .unwrap();
    (sim, port)
}

fn set(
    sim: &mut Simulation,
    port: PortId,
    spec: Spec,
    times: Vec<Instant>,
) -> Arc<Mutex<Vec<Instant>>> {
    let acted = Arc::new(Mutex::new(Vec::new()));
    let first = times[0];
    let actor = Set {
        port,
        spec,
        times,
        acted: acted.clone(),
    };
    sim.actor(Box::new(actor), first);
    acted
}

fn lost(sim: &Simulation) -> u64 {
    let losses = sim.meters().losses.values();
    losses.map(|tally| tally.packets).sum()
}

fn held(sim: &Simulation, port: PortId) -> u64 {
    sim.fabric().port(port).backlog().packets
}

#[test]
fn an_actor_acts_at_its_times_and_then_no_more() {
    let (mut sim, port) = sending(fifo(10), RATE, 100.0);
    let times = vec![millis(3), nanos(7_000_001), millis(500)];
    let acted = set(&mut sim, port, fifo(10), times.clone());
    sim.run_until(nanos(2_999_999));
    assert!(acted.lock().unwrap().is_empty());
    sim.run_until(millis(2000));
    assert_eq!(*acted.lock().unwrap(), times);
    assert_eq!(sim.fabric().now(), millis(2000));
}

#[test]
fn a_lower_limit_holds_from_its_time_on_and_takes_nothing_back() {
    // Twice the rate of the link: one frame of two stays in the queue, 100 frames after 0.2 s.
    let (mut sim, port) = sending(fifo(1000), RATE, 2000.0);
    let at = nanos(200_300_000);
    set(&mut sim, port, fifo(20), vec![at]);
    sim.run_until(at.before(Span::from_nanos(1)));
    let before = held(&sim, port);
    assert!((198..=200).contains(&before), "{before}");
    assert_eq!(lost(&sim), 0);
    sim.run_until(at);
    assert_eq!((held(&sim, port), lost(&sim)), (before, 0));
    // Until the queue has shrunk to its limit, every arriving frame is lost.
    sim.run_until(at + Span::from_millis(100));
    assert_eq!((held(&sim, port), lost(&sim)), (before - 100, 200));
    sim.run_until(millis(5000));
    assert!((19..=20).contains(&held(&sim, port)));
}

/// An actor that tries to set the parameters of another discipline at a port.
struct Replace(PortId);

impl Actor for Replace {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let refused = fabric.set(self.0, spec("drr", &[])).unwrap_err();
        assert_eq!((refused.in_place, refused.offered), ("fifo", "drr"));
        None
    }
}

#[test]
fn an_actor_sets_parameters_and_replaces_no_discipline() {
    let (mut sim, port) = sending(fifo(1000), RATE, 2000.0);
    sim.actor(Box::new(Replace(port)), millis(200));
    sim.run_until(millis(400));
    assert_eq!(sim.fabric().port(port).spec(), &fifo(1000));
    // The link continued undisturbed: the first frame came at 0.55 ms.
    assert_eq!(sim.fabric().port(port).sent().packets, 400);
}

/// A frame of 1250 bytes takes 156.25 ms at 64 kbit/s, regardless of accesses to the queue meanwhile.
#[test]
fn a_controller_does_not_speed_a_link_up() {
    let sent = |times: Option<Vec<Instant>>| {
        let slow = Rate::from_bps(64_000);
        let (mut sim, port) = sending(fifo(1000), slow, 20.0);
        if let Some(times) = times {
            set(&mut sim, port, fifo(1000), times);
        }
        sim.run_until(millis(10_000));
        sim.fabric().port(port).sent()
    };
    let alone = sent(None);
    assert_eq!(alone.packets, 64); // from 50.05 ms on
    let often = (1..400).map(|n| millis(25 * n)).collect();
    assert_eq!(sent(Some(often)), alone);
}

#[test]
fn the_sampler_sees_the_queue_at_each_step() {
    // A frame every 0.9 ms, from 0.95 ms on; the link takes one every millisecond.
    let (mut sim, port) = sending(fifo(1000), RATE, 1e3 / 0.9);
    sim.watch(&[port]);
    sim.run_until(millis(1999));
    let watch = sim.watched(port).unwrap();
    let expected = |step: u64| {
        let micros = step * 100_000;
        let come = micros.saturating_sub(50) / 900;
        let gone = if come == 0 {
            0
        } else {
            (micros - 950) / 1000 + 1
        };
        come - gone
    };
    let packets: Vec<_> = (0..20).map(expected).collect();
    let bytes: Vec<_> = packets.iter().map(|n| n * FRAME).collect();
    assert!(packets[19] > 200);
    assert_eq!(watch.queue_packets, packets);
    assert_eq!(watch.queue_bytes, bytes);
    assert_eq!(watch.sent.bytes, watch.sent.packets * FRAME);
}
