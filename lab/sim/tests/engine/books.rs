//! Random networks and traffic: no packet is lost without being counted, and no packet stays in the network forever.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_base::pace::OnOff;
use weir_base::{Distribution, Framing, Instant, Rate, Sizes, Spacing, Span, Times};
use weir_discipline::{KINDS, Spec};
use weir_sim::network::End;
use weir_sim::tcp::{Options, Variant};
use weir_sim::web::Web;
use weir_sim::{FlowSpec, Network, NodeId, PortId, Sender, Simulation};

use super::support::{flow_spec, host, load, millis, simulation};

/// After this time, no traffic begins and no application continues.
const STOP: Instant = Instant::from_nanos(1_000_000_000);
/// By this time, everything has ended: the slowest link drains its queue in less, and a connection waits at most one
/// minute for a timeout.
const END: Instant = Instant::from_nanos(1_500_000_000_000);

/// A link: its rate (of [`RATES`]), its delay, its queues (of [`KINDS`]), its framing.
#[derive(Clone, Debug)]
struct Line {
    rate: usize,
    delay: Span,
    queues: [usize; 2],
    framing: Framing,
}

const RATES: [Option<u64>; 5] = [
    Some(100_000),
    Some(1_000_000),
    Some(5_000_000),
    Some(20_000_000),
    None,
];

#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    /// Routers after the first, each with its link to an earlier one.
    routers: Vec<(prop::sample::Index, Line)>,
    /// A link that closes a ring, or adds a second path.
    closing: Option<Line>,
    hosts: Vec<(prop::sample::Index, Line)>,
    flows: Vec<Flow>,
}

#[derive(Clone, Debug)]
struct Flow {
    from: prop::sample::Index,
    to: prop::sample::Index,
    ipv6: bool,
    start: Span,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Udp(u32, f64, Spacing, bool),
    Tcp(Variant, bool, u64),
    Greedy(Variant, bool),
    Paced(f64),
    Web(u64),
}

/// A line with one of the first `rates` rates, so that sending always takes time.
fn lines(rates: usize) -> impl Strategy<Value = Line> {
    let delay = prop_oneof![Just(0), Just(1_000), 0_u64..20_000_000];
    let queues = [0..KINDS.len(), 0..KINDS.len()];
    let words = |words| Just(Framing::of_words(words).unwrap().from_ethernet());
    let framing = prop_oneof![
        Just(Framing::bytes(0)),
        Just(Framing::ETHERNET),
        Just(Framing::bytes(-14)),
        words("pppoe-llcsnap"),
        words("bridged-ptm"),
    ];
    let line = (0..rates, delay, queues, framing);
    line.prop_map(|(rate, delay, queues, framing)| Line {
        rate,
        delay: Span::from_nanos(delay),
        queues,
        framing,
    })
}

fn flows() -> impl Strategy<Value = Flow> {
    let spacing = prop_oneof![
        Just(Spacing::Even),
        Just(Spacing::Poisson),
        Just(Spacing::Jittered(0.5))
    ];
    let variant = prop_oneof![
        Just(Variant::NewReno),
        Just(Variant::Sack),
        Just(Variant::Cubic)
    ];
    let udp = (1_u32..1400, 1.0..1000.0, spacing, any::<bool>());
    let kind = prop_oneof![
        3 => udp.prop_map(|(piece, pieces, spacing, on_off)| Kind::Udp(piece, pieces, spacing, on_off)),
        2 => (variant.clone(), any::<bool>(), 1_u64..300_000).prop_map(|(v, ecn, n)| Kind::Tcp(v, ecn, n)),
        1 => (variant, any::<bool>()).prop_map(|(v, ecn)| Kind::Greedy(v, ecn)),
        1 => (1.0..200.0).prop_map(Kind::Paced),
        2 => (1_u64..50_000).prop_map(Kind::Web),
    ];
    let start = (0_u64..500_000_000).prop_map(Span::from_nanos);
    let ends = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (ends, any::<bool>(), start, kind).prop_map(|((from, to), ipv6, start, kind)| Flow {
        from,
        to,
        ipv6,
        start,
        kind,
    })
}

fn plans() -> impl Strategy<Value = Plan> {
    let index = any::<prop::sample::Index>;
    (
        any::<u64>(),
        prop::collection::vec((index(), lines(RATES.len())), 0..4),
        prop::option::of(lines(RATES.len())),
        prop::collection::vec((index(), lines(3)), 1..7),
        prop::collection::vec(flows(), 1..6),
    )
        .prop_map(|(seed, routers, closing, hosts, flows)| Plan {
            seed,
            routers,
            closing,
            hosts,
            flows,
        })
}

/// A network with its permitted traffic, and all ports.
struct Built {
    sim: Simulation,
    ports: Vec<PortId>,
    /// The ports of hosts.
    uplinks: Vec<PortId>,
    datagrams: Vec<u32>,
}

fn build(plan: &Plan) -> Built {
    let mut network = Network::default();
    let (mut ports, mut uplinks) = (Vec::new(), Vec::new());
    let mut join = |network: &mut Network, a: NodeId, b: NodeId, line: &Line| {
        let end = |node: NodeId, queue: usize| End {
            node,
            name: format!("{}-{}", node.0, ports.len()),
            spec: Spec::check(KINDS[queue].manual.name, []).unwrap(),
        };
        let ends = [end(a, line.queues[0]), end(b, line.queues[1])];
        let rate = RATES[line.rate].map(Rate::from_bps);
        let pair = network.link(ends, rate, line.delay, line.framing);
        ports.extend(pair);
        pair[0]
    };
    let mut routers = vec![network.router("router")];
    for (number, (parent, line)) in plan.routers.iter().enumerate() {
        let router = network.router(&format!("router {number}"));
        join(&mut network, *parent.get(&routers), router, line);
        routers.push(router);
    }
    if let Some(line) = plan.closing.as_ref().filter(|_| routers.len() > 1) {
        let last = routers.len() - 1;
        join(&mut network, routers[last], routers[0], line);
    }
    let mut hosts = Vec::new();
    for (number, (router, line)) in plan.hosts.iter().enumerate() {
        let host = host(&mut network, number as u8 + 1);
        uplinks.push(join(&mut network, host, *router.get(&routers), line));
        hosts.push(host);
    }
    let mut sim = simulation(network, plan.flows.len() as u32, plan.seed);
    let mut datagrams = Vec::new();
    for (traffic, flow) in plan.flows.iter().enumerate() {
        let traffic = traffic as u32;
        let flow_spec = FlowSpec {
            ipv6: flow.ipv6,
            start: Instant::ZERO + flow.start,
            stop: STOP,
            ..flow_spec(*flow.from.get(&hosts), *flow.to.get(&hosts), traffic)
        };
        // A path that takes no time is refused; other tests cover that.
        let permitted = add(&mut sim, flow_spec, &flow.kind);
        if permitted && matches!(flow.kind, Kind::Udp(..)) {
            datagrams.push(traffic);
        }
    }
    Built {
        sim,
        ports,
        uplinks,
        datagrams,
    }
}

fn add(sim: &mut Simulation, flow_spec: FlowSpec, kind: &Kind) -> bool {
    let options = |variant, ecn| Options {
        variant,
        ecn,
        ..Options::default()
    };
    let seconds = |mean| Times(Distribution::Exponential { mean });
    let added = match kind.clone() {
        Kind::Udp(piece, pieces, spacing, on_off) => {
            let mut load = load(pieces, piece, spacing);
            load.on_off = on_off.then(|| OnOff {
                on: seconds(0.05),
                off: seconds(0.05),
            });
            sim.udp(&flow_spec, load)
        }
        Kind::Tcp(variant, ecn, bytes) => {
            sim.tcp(&flow_spec, &options(variant, ecn), Sender::Transfer(bytes))
        }
        Kind::Greedy(variant, ecn) => sim.tcp(&flow_spec, &options(variant, ecn), Sender::Greedy),
        Kind::Paced(pieces) => {
            let load = load(pieces, 500, Spacing::Poisson);
            sim.tcp(&flow_spec, &Options::default(), Sender::Paced(load, None))
        }
        Kind::Web(bytes) => {
            let web = Web {
                server: flow_spec.from,
                client: flow_spec.to,
                port: 80,
                ipv6: flow_spec.ipv6,
                options: Options::default(),
                sizes: Sizes(Distribution::Exponential { mean: bytes as f64 }),
                think: seconds(0.05),
                start: flow_spec.start,
                stop: flow_spec.stop,
                traffic: flow_spec.traffic,
                chunks: None,
            };
            sim.web(web, &flow_spec.name)
        }
    };
    added.is_ok()
}

impl Built {
    fn balance(&self) {
        let fabric = self.sim.fabric();
        let [made, delivered, lost, under_way] = fabric.books();
        assert_eq!(made, delivered + lost + under_way);
        let mut all = weir_discipline::metered::Ledger::default();
        let mut held = 0;
        for port in &self.ports {
            let port = fabric.port(*port);
            let (ledger, backlog) = (port.ledger(), port.backlog());
            assert_eq!(ledger.received, ledger.sent + ledger.dropped + backlog);
            assert_eq!(ledger.sent, port.sent());
            all.received += ledger.received;
            all.sent += ledger.sent;
            all.dropped += ledger.dropped;
            held += backlog.packets;
        }
        let came = |port: &PortId| fabric.port(*port).ledger().received.packets;
        let from_hosts: u64 = self.uplinks.iter().map(came).sum();
        assert_eq!(made, from_hosts, "each packet begins at a host's port");
        assert_eq!(lost, all.dropped.packets, "packets end at ports only");
        let flying = all.sent.packets - delivered - (all.received.packets - from_hosts);
        assert_eq!(under_way, held + flying);
        self.losses(lost);
    }

    /// The losses by traffic, port and reason add up to all losses.
    fn losses(&self, lost: u64) {
        let losses = &self.sim.meters().losses;
        let told: u64 = losses.values().map(|loss| loss.packets).sum();
        assert_eq!(told, lost);
        for (port, dropped) in self.ports.iter().map(|p| (p, self.sim.fabric().port(*p))) {
            let here = losses.iter().filter(|((_, at, _), _)| at == port);
            let here: u64 = here.map(|(_, loss)| loss.packets).sum();
            assert_eq!(here, dropped.ledger().dropped.packets);
        }
    }

    /// All traffic has ended.
    fn finished(&self) {
        let fabric = self.sim.fabric();
        assert_eq!(fabric.books()[3], 0, "packets stay forever");
        assert!(self.ports.iter().all(|port| fabric.port(*port).is_idle()));
        let meters = self.sim.meters();
        for (traffic, meter) in meters.traffics.iter().enumerate() {
            let traffic = traffic as u32;
            let losses = meters.losses.iter().filter(|((t, ..), _)| *t == traffic);
            let lost: u64 = losses.map(|(_, loss)| loss.payload.packets).sum();
            let ended = meter.received.packets + lost;
            // A packet for a connection that was removed has no receiver.
            assert!(ended <= meter.sent.packets);
            if self.datagrams.contains(&traffic) {
                assert_eq!(ended, meter.sent.packets);
            }
        }
        assert!(self.sim.fetches().all(|f| f.failed || f.end.is_some()));
    }
}

/// Bound on the events: for each packet its creation, and at each of seven ports an arrival and two wakes; some events
/// for each fetch, each round of a connection, each piece.
fn events_max(sim: &Simulation) -> u64 {
    30 * sim.fabric().books()[0] + 20_000
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn books_balance_at_every_instant_and_all_ends(plan in plans()) {
        let mut built = build(&plan);
        for step in 1..=60 {
            built.sim.run_until(millis(step * 17));
            built.balance();
            prop_assert!(built.sim.fabric().events() <= events_max(&built.sim));
        }
        built.sim.run_until(END);
        built.balance();
        built.finished();
        prop_assert!(built.sim.fabric().events() <= events_max(&built.sim));
    }
}
