//! For one list of arrivals, all implementations decide alike: the simulator's fabric, a port that is stepped exactly,
//! and the live router's plane between two devices in memory, stepped exactly or late.
//! ```text
//!   arrivals --+--> hosts' datagrams --> fabric -----------------> counters at every instant
//!              +--> descriptors --> Port::step, exact -----------> times, order, marks, losses
//!              +--> frames --> device -> Plane -> device, exact -> the same, from the frames
//!              '--> frames --> device -> Plane -> device, late --> the same but for a bounded delay
//! ```
//!
//! This is tested for every discipline with its defaults, and again with parameters that make it work hard.

mod exact;
mod fabric;
mod live;

use etherparse::{IpHeaders, IpNumber, Ipv4Header, PacketBuilder};
use rand::RngExt;
use weir_base::setting::Scalar;
use weir_base::{Instant, Rate, Span, Streams};
use weir_discipline::{Spec, manuals};
use weir_packet::{Ecn, FlowKey};
use weir_path::egress::port::Link;

use exact::port;
use fabric::{arrivals, fabric_agrees, trains};
use live::live;

const SEED: u64 = 7;
const LINK: Link = Link {
    rate: Some(Rate::from_mbps(100)),
    framing: weir_base::Framing::ETHERNET,
    frame_bytes_max: 1514,
};
/// Bytes of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// Maximum lateness of a step: a burst (1 ms, 12 500 bytes) minus a frame of 1538 bytes, minus 50 us.
const LATE_MAX: u64 = 826_000;

const LAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
const SENDER: [u8; 4] = [10, 0, 1, 10];
const RECEIVER: [u8; 4] = [192, 0, 2, 1];
/// The first port number that the simulator assigns to flows, in the order in which they are added.
const PORT_FIRST: u16 = 10_000;
const PORT: u16 = 9;

/// An arriving packet; its number is its position in the list.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Instant,
    flow: u16,
    payload: usize,
    ecn: Ecn,
}

impl Coming {
    fn bytes(&self) -> usize {
        HEADERS + self.payload
    }

    fn key(&self) -> FlowKey {
        let source_port = PORT_FIRST + self.flow;
        FlowKey::ip(SENDER.into(), RECEIVER.into(), 17, source_port, PORT)
    }

    fn frame(&self, id: usize) -> Vec<u8> {
        let mut payload = vec![0; self.payload];
        payload[..4].copy_from_slice(&(id as u32).to_be_bytes());
        let mut ip = Ipv4Header::new(0, 64, IpNumber::UDP, SENDER, RECEIVER).unwrap();
        let bits = match self.ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable1 => 1,
            Ecn::Capable0 => 2,
            Ecn::Congested => 3,
        };
        ip.ecn = bits.try_into().unwrap();
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
            .ip(IpHeaders::Ipv4(ip, Default::default()))
            .udp(PORT_FIRST + self.flow, PORT)
            .write(&mut frame, &payload)
            .unwrap();
        assert_eq!(frame.len(), self.bytes());
        frame
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    id: usize,
    at: Instant,
    congested: bool,
}

/// A packet that was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lost {
    id: usize,
    at: Instant,
    reason: &'static str,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    sent: Vec<Sent>,
    lost: Vec<Lost>,
}

/// Parameters that cause losses, marks, collisions, timers and reordering.
const HARD: &[(&str, &[(&str, &str)])] = &[
    ("fifo", &[("limit", "40")]),
    (
        "codel",
        &[
            ("target", "1 ms"),
            ("interval", "10 ms"),
            ("ecn", "true"),
            ("limit", "400"),
        ],
    ),
    (
        "drr",
        &[("limit", "150"), ("buckets", "8"), ("quantum", "600 B")],
    ),
    (
        "fq_codel",
        &[
            ("target", "1 ms"),
            ("interval", "10 ms"),
            ("ecn", "true"),
            ("limit", "250"),
            ("flows", "8"),
            ("drop_batch", "4"),
        ],
    ),
    (
        "impair",
        &[
            ("delay", "3 ms"),
            ("jitter", "1 ms"),
            ("loss", "0.02"),
            ("reorder", "true"),
            ("limit", "60"),
        ],
    ),
    (
        "lru_fq",
        &[
            ("cache", "4"),
            ("admission", "0.1"),
            ("threshold", "5"),
            ("limit", "60"),
            ("pin", "true"),
            ("pin_timeout", "5 ms"),
            ("hit_weight", "3"),
            ("order", "kept"),
            ("codel", "true"),
            ("target", "1 ms"),
            ("interval", "10 ms"),
            ("ecn", "true"),
        ],
    ),
    (
        "red",
        &[
            ("limit", "300"),
            ("weight", "0.02"),
            ("ecn", "true"),
            ("gentle", "false"),
        ],
    ),
    (
        "sfq",
        &[
            ("limit", "150"),
            ("depth", "40"),
            ("buckets", "8"),
            ("perturb", "7 ms"),
        ],
    ),
    ("stfq", &[("limit", "150"), ("buckets", "8")]),
    (
        "afan",
        &[
            ("limit", "60"),
            ("min_threshold", "5"),
            ("max_threshold", "40"),
            ("weight", "0.05"),
            ("mtu", "600 B"),
        ],
    ),
    (
        "class_weights",
        &[("classes", "udp = 2, rest = 1"), ("limit", "30")],
    ),
    (
        "cake",
        &[
            ("isolation", "dual-dsthost"),
            ("rtt", "10 ms"),
            ("ecn", "true"),
            ("limit", "100"),
        ],
    ),
    (
        "dppbrb",
        &[
            ("control", "sctp"),
            ("limit", "50"),
            ("min_threshold", "5"),
            ("max_threshold", "40"),
            ("estimate", "2 ms"),
        ],
    ),
    (
        "dppbrb",
        &[("adapt", "false"), ("limit", "50"), ("control", "sctp")],
    ),
    (
        "fan",
        &[
            ("limit", "60"),
            ("min_threshold", "5"),
            ("max_threshold", "40"),
            ("mtu", "600 B"),
            ("interval", "20 ms"),
            ("fair_rate_interval", "10 ms"),
            ("priority_load_interval", "5 ms"),
            ("flow_timeout", "100 ms"),
            ("flows", "16"),
            ("waiting", "8"),
        ],
    ),
    (
        "host_fair",
        &[
            ("flows", "16"),
            ("target", "1 ms"),
            ("interval", "10 ms"),
            ("ecn", "true"),
            ("limit", "100"),
        ],
    ),
    ("pdrr", &[("limit", "60"), ("quantum", "600 B")]),
    ("pfq", &[("limit", "60"), ("mtu", "600 B")]),
    (
        "refill",
        &[("threshold", "20"), ("limit", "60"), ("probability", "0.2")],
    ),
    (
        "token_bucket",
        &[
            ("flow_control", "true"),
            ("committed", "25 Mbit"),
            ("excess", "30 Mbit"),
            ("burst", "3000 B"),
            ("limit", "40"),
        ],
    ),
    (
        "triple_fair",
        &[
            ("hosts", "source"),
            ("target", "1 ms"),
            ("interval", "5 ms"),
            ("ecn", "true"),
            ("limit", "200"),
        ],
    ),
];

fn spec(kind: &str, settings: &[(&str, &str)]) -> Spec {
    let settings = settings.iter().map(|(name, text)| match *text {
        "true" => (*name, Scalar::Flag(true)),
        "false" => (*name, Scalar::Flag(false)),
        text => (*name, Scalar::Text(text.to_owned())),
    });
    let settings: Vec<_> = settings.collect();
    Spec::check(kind, settings.iter().map(|(name, s)| (*name, s))).unwrap()
}

/// Every discipline with its defaults, then with [`HARD`].
fn specs() -> impl Iterator<Item = (Spec, bool)> {
    let defaults = manuals().map(|m| (spec(m.name, &[]), false));
    let hard = HARD
        .iter()
        .map(|(kind, settings)| (spec(kind, settings), true));
    assert!(manuals().all(|m| HARD.iter().any(|(kind, _)| m.name == *kind)));
    defaults.chain(hard)
}

/// Random flows and sizes, many at equal instants, with alternating overload, idle and moderate times.
fn random_list(seed: u64) -> Vec<Coming> {
    let mut stream = Streams::new(seed).stream("list");
    let mut at = 0;
    let mut list = Vec::new();
    while list.len() < 5000 {
        let mean = [60_000.0, 60_000.0, 2_000_000.0, 150_000.0][at / 50_000_000 % 4];
        if stream.random::<f64>() < 0.6 {
            at += (-(1.0 - stream.random::<f64>()).ln() * mean) as usize;
        }
        let place: f64 = stream.random();
        list.push(Coming {
            at: Instant::from_nanos(at as u64),
            flow: (place * place * place * 24.0) as u16,
            payload: stream.random_range(18..=1472),
            ecn: [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1][stream.random_range(0..3)],
        });
    }
    list
}

#[test]
fn the_fabric_agrees_with_a_port() {
    let trains = trains();
    for (spec, hard) in specs() {
        let outcome = fabric_agrees(&spec, &trains);
        assert!(
            outcome.sent.len() > 1000,
            "{spec:?}: {}",
            outcome.sent.len()
        );
        assert!(!hard || outcome.lost.len() > 50, "{spec:?}");
    }
}

#[test]
fn the_fabric_agrees_with_the_live_plane() {
    let list = arrivals(&trains());
    for (spec, _) in specs() {
        // The fabric agrees with this port (see above).
        let (expected, _) = port(&spec, &list);
        assert!(live(&spec, &list, || None) == expected, "{spec:?}");
    }
}

#[test]
fn the_live_plane_stepped_exactly_is_the_same() {
    let list = random_list(1);
    for (spec, hard) in specs() {
        let (expected, _) = port(&spec, &list);
        let marks = expected.sent.iter().filter(|s| s.congested).count();
        let marking = spec.settings().iter().any(|(name, _)| name == "ecn");
        assert!(!hard || expected.lost.len() > 30, "{spec:?}");
        assert!(!(hard && marking) || marks > 30, "{spec:?}: {marks}");
        let exact = live(&spec, &list, || None);
        assert_eq!(exact.sent, expected.sent, "{spec:?}");
        assert_eq!(exact.lost, expected.lost, "{spec:?}");
    }
}

#[test]
fn the_live_plane_stepped_late_decides_the_same() {
    let list = random_list(2);
    for (spec, _) in specs() {
        let (expected, _) = port(&spec, &list);
        for least in [1, LATE_MAX] {
            let mut stream = Streams::new(3).stream("turns");
            let late = live(&spec, &list, || {
                let nanos = stream.random_range(least..=LATE_MAX);
                Some(Span::from_nanos(nanos))
            });
            let decisions = |o: &Outcome| {
                let sent = o.sent.iter().map(|s| (s.id, s.congested));
                let lost = o.lost.iter().map(|l| (l.id, l.reason));
                (sent.collect::<Vec<_>>(), lost.collect::<Vec<_>>())
            };
            assert_eq!(decisions(&late), decisions(&expected), "{spec:?}");
            let pairs = late.sent.iter().zip(&expected.sent);
            let lags = pairs.map(|(late, exact)| (late.at >= exact.at, late.at.since(exact.at)));
            for (after, lag) in lags {
                assert!(after && lag <= Span::from_nanos(LATE_MAX), "{lag:?}");
            }
        }
    }
}
