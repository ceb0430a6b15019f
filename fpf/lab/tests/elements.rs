//! Flexible packet forwarding together with IP: Figure 1 of the paper, with tables written by hand.

use std::sync::Arc;

use weir_base::{Instant, Rate, Spacing, Span};
use weir_fpf_lab::elements::FabricExt;
use weir_fpf_path::edge::filter::RawFilter;
use weir_fpf_path::edge::paths::{Paths, Spread};
use weir_fpf_path::edge::profile::{Profile, Shape};
use weir_fpf_path::edge::rule::Rule as Encapsulation;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::xor::{Decoder, Encoder};
use weir_fpf_path::process::{Processing, Processor, ProcessorId};
use weir_fpf_path::{Builder, Domain, Hop, Inner, Interface, LidSize, Rule};
use weir_packet::Queue;
use weir_sim::{FlowSpec, Network, NodeId, PortId, Simulation};

use crate::support::{HEADERS, flow_spec, host, link, load, millis, received, simulation};

const DELAY: Span = Span::from_millis(1);
const PAYLOAD: u32 = 100;
/// Port of the first traffic.
const PORT: u16 = 9;
/// A thousand packets, one each millisecond.
const END: Instant = Instant::from_nanos(1_000_500_000);

/// C, two FEs of B, A, D: IP takes C-D-A, because that path has fewer hops.
struct Figure1 {
    sim: Simulation,
    hosts: [NodeId; 2],
    /// The port of the first host.
    uplink: PortId,
    c: NodeId,
    a: NodeId,
    /// Ports C to B, B to B, B to A, C to D, D to A.
    ports: [PortId; 5],
}

/// LIDs by hand: in C (one byte) 0xb0 leads to B and 0xd0 to D; in B (two bytes) 0xa0a0 leads to A; in D 0xaa does.
fn figure_1(traffics: u32) -> Figure1 {
    let mut network = Network::default();
    let [c, b1, b2, a, d] = ["c", "b1", "b2", "a", "d"].map(|name| network.router(name));
    let hosts = [1, 2].map(|number| host(&mut network, number));
    let rate = Some(Rate::from_mbps(100));
    let [uplink, _] = link(&mut network, hosts[0], c, rate, DELAY);
    link(&mut network, hosts[1], a, rate, DELAY);
    let mut join = |from, to| link(&mut network, from, to, rate, DELAY)[0];
    let ports = [
        join(c, b1),
        join(b1, b2),
        join(b2, a),
        join(c, d),
        join(d, a),
    ];
    let [to_b, inside, b_to_a, to_d, d_to_a] = ports;
    let mut sim = simulation(network, traffics, 1);
    let mut table = |fe: NodeId, bytes: u8, rules: &[(u16, PortId, bool)]| {
        let mut builder = Builder::new(Domain::new(0xc000, bytes).unwrap());
        let mut ports = Vec::new();
        for (lid, port, leaves_domain) in rules {
            let interface = Interface::ethernet(&port.0.to_string());
            let hop = Hop {
                interface: builder.interface(interface).unwrap(),
                destination: Default::default(),
                queue: Queue(0),
                leaves_domain: *leaves_domain,
            };
            builder.rule(None, *lid, Rule::Forward(hop)).unwrap();
            ports.push(*port);
        }
        let table = builder.build().unwrap();
        sim.fabric_mut().set_table(fe, table, ports).unwrap();
    };
    table(c, 1, &[(0xb0, to_b, true), (0xd0, to_d, true)]);
    table(b1, 2, &[(0xa0a0, inside, false)]);
    table(b2, 2, &[(0xa0a0, b_to_a, true)]);
    table(d, 1, &[(0xaa, d_to_a, true)]);
    table(a, 1, &[]);
    Figure1 {
        sim,
        hosts,
        uplink,
        c,
        a,
        ports,
    }
}

const BY_B: &[u8] = &[0xb0, 0xa0, 0xa0];
const BY_D: &[u8] = &[0xd0, 0xaa];

impl Figure1 {
    /// Sends a thousand datagrams of a flow group in a second.
    fn send(&mut self, traffic: u32) {
        let [from, to] = self.hosts;
        let flow_spec = FlowSpec {
            port: PORT + traffic as u16,
            stop: END,
            ..flow_spec(from, to, traffic)
        };
        let load = load(1000.0, PAYLOAD, Spacing::Even);
        self.sim.udp(&flow_spec, load).unwrap();
    }

    /// Adds vectors to the packets of a flow group.
    fn encapsulate(&mut self, traffic: u32, spread: Spread, vectors: &[(&[u8], u32)]) {
        self.encapsulate_with(traffic, spread, vectors, None);
    }

    fn encapsulate_with(
        &mut self,
        traffic: u32,
        spread: Spread,
        vectors: &[(&[u8], u32)],
        profile: Option<Profile>,
    ) {
        let port = PORT + traffic as u16;
        let filter = RawFilter {
            version: Some(4),
            protocol: Some(17),
            destination_ports: Some((port, port)),
            ..RawFilter::default()
        };
        let vector = |(lids, weight): &(&[u8], u32)| (Vector::new(lids).unwrap(), *weight);
        let vectors: Vec<_> = vectors.iter().map(vector).collect();
        let rule = Encapsulation {
            paths: Paths::new(spread, &vectors).unwrap(),
            timeout: None,
            session: 0,
            profile,
        };
        let now = self.sim.fabric().now();
        let edge = self.sim.fabric_mut().edge_mut(self.c).unwrap();
        edge.set(traffic, &filter.check().unwrap(), &rule, now)
            .unwrap();
    }

    /// Packets that the ports have sent.
    fn sent(&self) -> [u64; 5] {
        self.ports
            .map(|port| self.sim.fabric().port(port).sent().packets)
    }

    fn assert_books(&self) {
        let [created, delivered, lost, under_way] = self.sim.fabric().books();
        assert_eq!(created, delivered + lost + under_way);
    }
}

#[test]
fn one_flow_goes_by_b_while_ip_goes_by_d() {
    let mut net = figure_1(2);
    net.encapsulate(0, Spread::ByFlow, &[(BY_B, 1)]);
    net.send(0);
    net.send(1);
    net.sim.run_until(millis(1100));
    assert_eq!([received(&net.sim, 0), received(&net.sim, 1)], [1000; 2]);
    assert_eq!(net.sent(), [1000; 5]);
    // Two bytes and the vector count on the links between the edges, and nowhere else.
    let bytes = net
        .ports
        .map(|port| net.sim.fabric().port(port).sent().bytes);
    let plain = 1000 * (u64::from(PAYLOAD) + HEADERS as u64);
    let labelled = plain + 1000 * (2 + BY_B.len() as u64);
    assert_eq!(bytes, [labelled, labelled, labelled, plain, plain]);
    let hits = net.sim.fabric().edge(net.c).unwrap().get(0).unwrap().hits;
    assert_eq!(hits.packets, 1000);
    net.assert_books();
}

#[test]
fn packets_of_one_flow_are_shared_by_weight() {
    let mut net = figure_1(1);
    net.encapsulate(0, Spread::ByPacket, &[(BY_B, 3), (BY_D, 1)]);
    net.send(0);
    net.sim.run_until(millis(1100));
    assert_eq!(net.sent(), [750, 750, 750, 250, 250]);
    assert_eq!(received(&net.sim, 0), 1000);
}

#[test]
fn a_path_is_changed_at_the_edge_between_two_packets() {
    let mut net = figure_1(1);
    net.encapsulate(0, Spread::ByFlow, &[(BY_B, 1)]);
    net.send(0);
    net.sim.run_until(millis(500));
    net.encapsulate(0, Spread::ByFlow, &[(BY_D, 1)]);
    net.sim.run_until(millis(1100));
    let sent = net.sent();
    assert_eq!(received(&net.sim, 0), 1000);
    assert_eq!(
        (sent[0] + sent[3], sent[0], sent[4]),
        (1000, sent[2], sent[3])
    );
    assert!((498..=501).contains(&sent[0]), "{sent:?}");
}

#[test]
fn what_a_cut_link_carries_is_lost_and_counted() {
    let mut net = figure_1(1);
    net.encapsulate(0, Spread::ByFlow, &[(BY_B, 1)]);
    net.send(0);
    net.sim.run_until(millis(500));
    let inside = net.ports[1];
    net.sim.fabric_mut().cut(inside, true);
    net.sim.run_until(millis(750));
    net.sim.fabric_mut().cut(inside, false);
    net.sim.run_until(millis(1100));
    let lost = &net.sim.meters().losses[&(0, inside, "device-down")];
    assert_eq!(received(&net.sim, 0) + lost.packets, 1000);
    assert!((249..=252).contains(&lost.packets), "{}", lost.packets);
    net.assert_books();
}

/// A thousand packets a second for a second, on a path for five hundred a second.
#[test]
fn a_shaped_path_sends_at_its_rate_and_drops_what_its_queue_does_not_hold() {
    let mut net = figure_1(2);
    let bytes = u64::from(PAYLOAD) + HEADERS as u64;
    let shape = Shape::new(Rate::from_bps(bytes * 8 * 500), 100).unwrap();
    net.encapsulate_with(
        0,
        Spread::ByFlow,
        &[(BY_B, 1)],
        Some(Profile::Shaped(shape)),
    );
    net.send(0);
    net.send(1);
    net.sim.run_until(millis(600));
    net.assert_books();
    let by_b = net.sent()[0];
    assert!((297..=300).contains(&by_b), "{by_b}");
    // The queue is full after 200 ms, and empty 200 ms after the last packet.
    net.sim.run_until(millis(1300));
    let lost = net.sim.meters().losses[&(0, net.uplink, "fpf-queue-full")];
    let arrived = received(&net.sim, 0);
    assert_eq!(
        (arrived + lost.packets, received(&net.sim, 1)),
        (1000, 1000)
    );
    assert!((599..=601).contains(&arrived), "{arrived}");
    net.assert_books();
}

/// Packets that wait for a rate take the path that the rule has when they leave.
#[test]
fn a_shaped_path_that_changes_takes_its_packets_with_it() {
    let mut net = figure_1(1);
    let bytes = u64::from(PAYLOAD) + HEADERS as u64;
    let shape = Shape::new(Rate::from_bps(bytes * 8 * 500), 1000).unwrap();
    let profile = Some(Profile::Shaped(shape));
    net.encapsulate_with(0, Spread::ByFlow, &[(BY_B, 1)], profile);
    net.send(0);
    net.sim.run_until(millis(1001));
    let by_b = net.sent()[0];
    net.encapsulate_with(0, Spread::ByFlow, &[(BY_D, 1)], profile);
    net.sim.run_until(millis(2100));
    assert_eq!(net.sent()[0], by_b);
    assert!((498..=501).contains(&by_b), "{by_b}");
    assert_eq!(received(&net.sim, 0), 1000);
    net.assert_books();
}

/// A header that no FE removes does not stay with the slot of its packet.
#[test]
fn a_wrong_vector_is_dropped_with_its_reason() {
    let mut net = figure_1(2);
    net.encapsulate(0, Spread::ByFlow, &[(&[0xb0, 0xa0], 1)]);
    net.send(0);
    net.send(1);
    net.sim.run_until(millis(1100));
    let lost = &net.sim.meters().losses[&(0, net.ports[0], "fpf-lid-length")];
    assert_eq!(lost.packets, 1000);
    assert_eq!([received(&net.sim, 0), received(&net.sim, 1)], [0, 1000]);
    net.assert_books();
}

/// Pairs of packets over two paths with their parity: while one path is cut, nothing is lost.
#[test]
fn xor_coding_over_two_paths_repairs_what_one_loses() {
    for coded in [false, true] {
        let mut net = figure_1(1);
        let to_decoder = |lids: &[u8]| Vector::new(&[lids, &[0xdd]].concat()).unwrap();
        let sim = &mut net.sim;
        let mut process = |fe, lid: u16, leaves: Vec<Vector>, processor: Box<dyn Processor>| {
            let number = ProcessorId(lid.into());
            sim.fabric_mut().set_processor(fe, number, processor);
            let rule = Rule::Process(Processing {
                processor: number,
                leaves: leaves.into(),
            });
            (lid, rule)
        };
        let (c, [to_b, _, _, to_d, _]) = (net.c, net.ports);
        let leaves = [BY_B, BY_D, BY_B].map(to_decoder).to_vec();
        let encode = process(c, 0xee, leaves, Box::<Encoder>::default());
        let deliver = vec![Vector::new(&[0x01]).unwrap()];
        let decode = process(net.a, 0xdd, deliver, Box::<Decoder>::default());
        let mut builder = Builder::new(Domain::default());
        let mut hop = |port: PortId| Hop {
            interface: builder
                .interface(Interface::ethernet(&port.0.to_string()))
                .unwrap(),
            destination: Default::default(),
            queue: Queue(0),
            leaves_domain: true,
        };
        let (b, d) = (hop(to_b), hop(to_d));
        builder.rule(None, 0xb0, Rule::Forward(b)).unwrap();
        builder.rule(None, 0xd0, Rule::Forward(d)).unwrap();
        builder.rule(None, encode.0, encode.1).unwrap();
        let fabric = net.sim.fabric_mut();
        fabric
            .set_table(c, builder.build().unwrap(), vec![to_b, to_d])
            .unwrap();
        let mut builder = Builder::new(Domain::default());
        let end = Rule::Decapsulate(Inner::Ip);
        builder.rule(None, 0x01, end).unwrap();
        builder.rule(None, decode.0, decode.1).unwrap();
        let table = builder.build().unwrap();
        fabric.set_table(net.a, table, Vec::new()).unwrap();
        if coded {
            net.encapsulate(0, Spread::ByFlow, &[(&[0xee], 1)])
        } else {
            net.encapsulate(0, Spread::ByPacket, &[(BY_B, 1), (BY_D, 1)])
        }
        net.send(0);
        net.sim.run_until(millis(250));
        net.sim.fabric_mut().cut(to_d, true);
        net.sim.run_until(millis(750));
        net.sim.fabric_mut().cut(to_d, false);
        net.sim.run_until(millis(1100));
        let lost = net.sim.meters().losses[&(0, to_d, "device-down")].packets;
        assert!((249..=252).contains(&lost), "{lost}");
        let received = received(&net.sim, 0);
        assert_eq!(received, if coded { 1000 } else { 1000 - lost });
        if coded {
            // A packet and a parity of each pair via B: header, vector, eight bytes before the payload.
            assert_eq!(net.sent()[0], 1000);
            let len = u64::from(PAYLOAD) + HEADERS as u64 + 2 + BY_B.len() as u64 + 1 + 8;
            assert_eq!(net.sim.fabric().port(to_b).sent().bytes, 1000 * len);
        }
        net.assert_books();
    }
}

/// Leaves at separate hosts, from one branch in the network and from the edge's own copies.
#[test]
fn each_leaf_gets_exactly_one_copy() {
    for leaves in [2, 8] {
        for branch in [false, true] {
            let (mut sim, receivers) = star(leaves, branch);
            sim.run_until(millis(1100));
            let flows = sim.meters().flows.iter();
            let bytes: Vec<u64> = flows.map(|flow| flow.bytes).collect();
            assert_eq!(bytes, vec![1000 * u64::from(PAYLOAD); leaves], "{branch}");
            let to_leaf = |port: &PortId| sim.fabric().port(*port).sent().packets;
            assert!(receivers.iter().all(|port| to_leaf(port) == 1000));
            assert_eq!(received(&sim, 0), 1000 * leaves as u64);
            let [created, delivered, lost, under_way] = sim.fabric().books();
            assert_eq!((lost, created), (0, delivered + under_way));
        }
    }
}

/// A source behind an edge, a router in the middle, and leaves around it. The middle or the edge makes the copies.
fn star(leaves: usize, branch: bool) -> (Simulation, Vec<PortId>) {
    let mut network = Network::default();
    let [edge, middle] = ["edge", "middle"].map(|name| network.router(name));
    let rate = Some(Rate::from_mbps(100));
    let source = host(&mut network, 1);
    link(&mut network, source, edge, rate, DELAY);
    let to_middle = link(&mut network, edge, middle, rate, DELAY)[0];
    let (mut ports, mut routers, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
    for leaf in 0..leaves {
        let router = network.router(&format!("leaf{leaf}"));
        let receiver = host(&mut network, 10 + leaf as u8);
        ports.push(link(&mut network, middle, router, rate, DELAY)[0]);
        link(&mut network, router, receiver, rate, DELAY);
        routers.push(router);
        receivers.push(receiver);
    }
    let mut sim = simulation(network, 1, 1);
    let vectors: Vec<Vec<u8>> = (0..leaves as u8).map(|lid| vec![lid]).collect();
    let domain = Domain::default();
    assert_eq!(domain.lid_size(), LidSize::One);
    let forward = |builder: &mut Builder, port: PortId| {
        let interface = Interface::ethernet(&port.0.to_string());
        Rule::Forward(Hop {
            interface: builder.interface(interface).unwrap(),
            destination: Default::default(),
            queue: Queue(0),
            leaves_domain: true,
        })
    };
    let mut builder = Builder::new(domain);
    let rule = forward(&mut builder, to_middle);
    builder.rule(None, 0xee, rule).unwrap();
    let table = builder.build().unwrap();
    let fabric = sim.fabric_mut();
    fabric.set_table(edge, table, vec![to_middle]).unwrap();
    let mut builder = Builder::new(domain);
    for (lid, port) in ports.iter().enumerate() {
        let rule = forward(&mut builder, *port);
        builder.rule(None, lid as u16, rule).unwrap();
    }
    let copies = vectors.iter().map(|lids| Vector::new(lids).unwrap());
    let copies: Arc<[Vector]> = copies.collect();
    builder.rule(None, 0xcc, Rule::Multicast(copies)).unwrap();
    let table = builder.build().unwrap();
    fabric.set_table(middle, table, ports.clone()).unwrap();
    for router in routers {
        let table = Builder::new(domain).build().unwrap();
        fabric.set_table(router, table, Vec::new()).unwrap();
    }
    let of_edge = if branch {
        vec![vec![0xee, 0xcc]]
    } else {
        vectors.iter().map(|lids| vec![0xee, lids[0]]).collect()
    };
    let of_edge: Vec<_> = of_edge
        .iter()
        .map(|lids: &Vec<u8>| (Vector::new(lids).unwrap(), 1))
        .collect();
    let rule = Encapsulation {
        paths: Paths::new(Spread::Copies, &of_edge).unwrap(),
        timeout: None,
        session: 0,
        profile: None,
    };
    let group = "239.0.0.1".parse().unwrap();
    let filter = RawFilter {
        destination: Some(format!("{group}/32").parse().unwrap()),
        ..RawFilter::default()
    };
    let now = fabric.now();
    let rules = fabric.edge_mut(edge).unwrap();
    rules.set(1, &filter.check().unwrap(), &rule, now).unwrap();
    let flow_spec = FlowSpec {
        stop: END,
        ..flow_spec(source, receivers[0], 0)
    };
    let load = load(1000.0, PAYLOAD, Spacing::Even);
    sim.multicast(&flow_spec, group, &receivers, load).unwrap();
    (sim, ports)
}
