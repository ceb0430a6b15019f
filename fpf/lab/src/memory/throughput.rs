//! Throughput of a core FE, an edge FE and an IPv6 router by frame size: the whole path of a plane in memory.
//!
//! Frames go from one port to another through a fifo, as in [`forwarding`]. At least 16 384 frames,
//! and at least 4 MiB of them, are sent in rotation; each frame for a router has its own destination, each FPF frame
//! one of 256 LIDs. The edge gives every IPv6 frame a header with four LIDs, by the rule of its flow.
//!
//! Throughput is as in RFC 2544: the highest rate at which no frame is lost, by binary search with a resolution of 1
//! Mbit/s. There is no link, so a trial offers frames at even distances to a ring, and the plane takes up to 64 arrived
//! frames. Time is the processor time that the plane needs; when the ring is empty, the clock advances to the next
//! arrival. So the trial neither waits nor counts the time of other processes. A frame that finds the ring full is
//! lost. A trial with loss is repeated once.

use std::net::Ipv6Addr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use rand::{Rng, RngExt};
use weir_base::{Span, Stream, Streams};
use weir_benches::forwarding;
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_fpf_path::edge::copies::Copies;
use weir_fpf_path::edge::filter::Filter;
use weir_fpf_path::edge::implicit::Decision;
use weir_fpf_path::edge::paths::Paths;
use weir_fpf_path::edge::setup::{Class as FlowClass, Encapsulation, Setup};
use weir_fpf_path::header::Vector;
use weir_fpf_path::table::TableError;
use weir_fpf_path::{Builder, Domain, Fpf, Hop, Interface, Rule, Table, edge};
use weir_live::clock;
use weir_packet::{FlowKey, Queue};
use weir_path::ip::tables::{BURST, Tables};
use weir_path::plane::Plane;
use weir_wire::{Protocol, WireError};

/// Frame sizes of the paper, with their check sequence of 4 bytes. An edge cannot give a header to the longest frame,
/// because the link behind the edge carries no longer frames.
pub const FRAME_BYTES: [usize; 9] = [78, 96, 128, 196, 256, 384, 512, 1024, 1518];
/// Bytes that a frame occupies on a wire in addition to its own: preamble and gap.
pub const GAP_BYTES: usize = 20;
const CRC_BYTES: usize = 4;

const HEADERS_MIN: usize = 16_384;
const FRAMES_BYTES_MIN: usize = 4 << 20;
/// Maximum number of arrived frames that wait for the plane.
const RING: u64 = 4096;
/// The search's resolution.
const RESOLUTION_BPS: f64 = 1e6;

/// Source and destination port, and the destination of the frames of FEs.
const PORTS: (u16, u16) = (5000, 5004);
const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 2);

/// LIDs of the core FE's table.
const LIDS: u16 = 256;
/// Prefixes of the IPv6 router with many routes.
pub const PREFIXES: usize = 10_000;

/// The engine that forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A core FE: 256 LIDs of one byte, for any input interface. The inner packets belong to this number of flows.
    Fpf(u32),
    /// An edge FE with a rule for each of this number of flows, which differ in the source address.
    Edge(u32),
    /// An edge FE with a classifier, which has found the class of each of this number of flows.
    Classified(u32),
    /// An edge FE with one route, whose frames belong to this number of flows that no encapsulation matches.
    Unmatched(u32, Classifier),
    /// An IPv6 router with one route.
    Ipv6,
    /// An IPv6 router with [`PREFIXES`] routes of 29 to 48 bits; each destination matches one of them.
    Ipv6Routes,
}

/// The progress of a classifier with flows that follow the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classifier {
    /// No classifier.
    None,
    /// The classifier has found no class for them.
    Decided,
    /// The classifier needs copies, and fetches them.
    Fetches,
    /// The classifier needs copies, and does not fetch them, so that they are lost.
    Late,
}

/// A measurement that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The discipline.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The forwarding table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A vector of LIDs.
    #[error(transparent)]
    Vector(#[from] WireError),
}

/// A plane and its frames.
pub struct Engine {
    plane: Plane,
    /// Memory for copies, if the measurement fetches them.
    copies: Option<Copies>,
    frames: Vec<Vec<u8>>,
    /// The index of the next frame.
    next: usize,
    bytes: usize,
}

impl Engine {
    /// An engine for frames of this size, check sequence included.
    pub fn new(kind: Kind, bytes: usize) -> Result<Self, SetupError> {
        let mut random = Streams::new(1).stream("throughput");
        let mut tables = forwarding::interfaces();
        let prefixes = prefixes(kind, &mut random);
        for (n, prefix) in prefixes.iter().enumerate() {
            let gateway = 2 + (n % 64) as u8;
            tables.set_route(IpNet::V6(*prefix), forwarding::via(gateway));
        }
        let mut plane = forwarding::plane_with(Spec::check("fifo", [])?, &Arc::new(tables));
        if !matches!(kind, Kind::Ipv6 | Kind::Ipv6Routes) {
            Fpf::set_table(&mut plane, Some(Arc::new(core_table()?)));
        }
        let setup = match kind {
            Kind::Edge(flows) => Some(setup(flows)?),
            Kind::Classified(_) => Some(with_class(Setup::default())?),
            // A rule that no frame matches, so that the plane has an edge.
            Kind::Unmatched(flows, Classifier::None) => Some(other_setup(flows)?),
            Kind::Unmatched(flows, _) => Some(with_class(other_setup(flows)?)?),
            _ => None,
        };
        let setup = setup.map(Arc::new);
        Fpf::set_edge(&mut plane, setup.clone(), clock::now());
        let count = HEADERS_MIN.max(FRAMES_BYTES_MIN.div_ceil(bytes));
        let frame = |n| frame(kind, n, bytes - CRC_BYTES, &prefixes, &mut random);
        let frames = (0..count).map(frame).collect();
        let mut engine = Self {
            plane,
            copies: None,
            frames,
            next: 0,
            bytes,
        };
        match (kind, setup) {
            (Kind::Classified(_), Some(setup)) => engine.decide_all(&setup, Some(0)),
            (Kind::Unmatched(_, Classifier::Decided), Some(setup)) => {
                engine.decide_all(&setup, None);
            }
            (Kind::Unmatched(_, Classifier::Fetches), _) => {
                engine.copies = Some(Copies::default());
            }
            _ => {}
        }
        Ok(engine)
    }

    /// Decides that every flow has this class.
    fn decide_all(&mut self, setup: &Arc<Setup>, class: Option<u16>) {
        let mut carried = 0;
        let mut copies = Copies::default();
        while carried < self.frames.len() as u64 {
            carried += self.carry(BURST as u64);
            copies = Fpf::take_copies(&mut self.plane, copies, 0);
            let decisions = copies.iter().map(|(copy, _)| Decision {
                key: copy.key,
                hash: copy.hash,
                class,
                is_watched: false,
            });
            let decisions: Vec<_> = decisions.collect();
            Fpf::decide(&mut self.plane, setup, &decisions, clock::now());
        }
    }

    /// Number of dropped frames. A measurement with drops is void.
    pub fn dropped(&self) -> u64 {
        self.plane.fates().all_ended().packets
    }

    /// Nanoseconds of processor time for a frame, over at least `frames` frames.
    pub fn ns(&mut self, frames: u64) -> f64 {
        let cpu = clock::thread_cpu_time();
        let mut carried = 0;
        while carried < frames {
            carried += self.carry(BURST as u64);
        }
        (clock::thread_cpu_time() - cpu).as_nanos() as f64 / carried as f64
    }

    /// The highest rate without loss in frames per second, in trials of `frames` frames. `cap` limits it to a link: its
    /// rate in bit/s, and the bytes that a frame occupies on it in addition to its own.
    pub fn throughput(&mut self, frames: u64, cap: Option<(f64, usize)>) -> f64 {
        let bits = |gap: usize| 8.0 * (self.bytes + gap) as f64;
        let cap_fps = cap.map(|(bps, gap)| bps / bits(gap));
        let step = RESOLUTION_BPS / bits(GAP_BYTES);
        // No rate above that of the plane without waiting lasts for long; the search begins above it.
        let most = 1.5e9 / self.ns(frames);
        let mut high = cap_fps.map_or(most, |cap| cap.min(most));
        if self.loses_nothing(high, frames) {
            return high;
        }
        let mut low = 0.0;
        while high - low > step {
            let middle = (low + high) / 2.0;
            if self.loses_nothing(middle, frames) {
                low = middle
            } else {
                high = middle
            }
        }
        low
    }

    fn loses_nothing(&mut self, fps: f64, frames: u64) -> bool {
        self.trial(fps, frames) || self.trial(fps, frames)
    }

    /// Whether no frame is lost at this rate.
    fn trial(&mut self, fps: f64, frames: u64) -> bool {
        let gap_ns = 1e9 / fps;
        let (mut now_ns, mut taken) = (0.0, 0);
        while taken < frames {
            let arrived = ((now_ns / gap_ns) as u64 + 1).min(frames);
            // The ring is empty until the next frame arrives. Rounding must not make it late: the loop would not end.
            if arrived <= taken {
                now_ns = taken as f64 * gap_ns;
            }
            let waiting = arrived.saturating_sub(taken).max(1);
            if waiting > RING {
                return false;
            }
            let cpu = clock::thread_cpu_time();
            taken += self.carry(waiting.min(BURST as u64));
            now_ns += (clock::thread_cpu_time() - cpu).as_nanos() as f64;
        }
        true
    }

    /// Carries the next frames, at most one burst and at least one frame, and returns their number.
    fn carry(&mut self, frames: u64) -> u64 {
        let end = self.frames.len().min(self.next + frames as usize);
        let burst = &self.frames[self.next..end];
        self.next = end % self.frames.len();
        forwarding::drive(&mut self.plane, burst, burst.len());
        if let Some(copies) = self.copies.take() {
            self.copies = Some(Fpf::take_copies(&mut self.plane, copies, 0));
        }
        burst.len() as u64
    }
}

/// Nanoseconds for a lookup alone, independent of the previous lookup: of a LID in the core FE's table, and of a
/// destination among [`PREFIXES`] IPv6 prefixes. Each measurement rotates through 65 536 of them.
pub fn look_up_ns(rounds: u32) -> Result<[f64; 2], SetupError> {
    const SUBJECTS: usize = 1 << 16;
    let mut random = Streams::new(2).stream("look-up");
    let table = core_table()?;
    let lids: Vec<u16> = (0..SUBJECTS)
        .map(|_| random.random_range(0..LIDS))
        .collect();
    let prefixes = prefixes(Kind::Ipv6Routes, &mut random);
    let mut tables = Tables::default();
    for prefix in &prefixes {
        tables.set_route(IpNet::V6(*prefix), forwarding::via(2));
    }
    let destinations: Vec<_> = (0..SUBJECTS)
        .map(|_| below(&prefixes, &mut random).into())
        .collect();
    let mut nanos = [0; 2];
    for _ in 0..rounds {
        let cpu = clock::thread_cpu_time();
        for lid in &lids {
            std::hint::black_box(table.rule(table.any_input(), *lid));
        }
        let between = clock::thread_cpu_time();
        for burst in destinations.chunks(BURST) {
            std::hint::black_box(tables.route_numbers(burst.iter().copied()));
        }
        nanos[0] += (between - cpu).as_nanos();
        nanos[1] += (clock::thread_cpu_time() - between).as_nanos();
    }
    Ok(nanos.map(|nanos| nanos as f64 / (f64::from(rounds) * SUBJECTS as f64)))
}

/// A rule for each LID, through one of 64 neighbours.
fn core_table() -> Result<Table, TableError> {
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan"))?; // the ingress interface
    let wan = builder.interface(Interface::ethernet("wan"))?;
    for lid in 0..LIDS {
        let hop = Hop {
            interface: wan,
            destination: [2, 0, 0, 0, 0, 2 + (lid % 64) as u8].into(),
            queue: Queue(0),
            leaves_domain: true,
        };
        builder.rule(None, lid, Rule::Forward(hop))?;
    }
    builder.build()
}

/// A plane with these routes whose edge has one class of flows, and its setup.
pub(super) fn edge_of_a_class(tables: Tables) -> Result<(Plane, Arc<Setup>), SetupError> {
    let mut plane = forwarding::plane_with(Spec::check("fifo", [])?, &Arc::new(tables));
    Fpf::set_table(&mut plane, Some(Arc::new(core_table()?)));
    let setup = Arc::new(with_class(Setup::default())?);
    Fpf::set_edge(&mut plane, Some(Arc::clone(&setup)), clock::now());
    Ok((plane, setup))
}

/// Adds a class of flows to a setup, for the default number of flows.
fn with_class(setup: Setup) -> Result<Setup, WireError> {
    let rule = edge::rule::Rule {
        paths: Paths::single(Vector::new(&[0, 1, 2, 3])?),
        timeout: Some(Span::from_secs(60)),
        session: 0,
        profile: None,
    };
    Ok(Setup {
        classes: vec![FlowClass {
            name: "class".to_owned(),
            criteria: String::new(),
            rule,
        }],
        flows_max: 20_000,
        ..setup
    })
}

/// A rule only for flow number `flows`, which no frame belongs to.
fn other_setup(flows: u32) -> Result<Setup, WireError> {
    let mut setup = setup(flows + 1)?;
    setup.encapsulations.drain(..flows as usize);
    Ok(setup)
}

/// A rule for each flow.
fn setup(flows: u32) -> Result<Setup, WireError> {
    let encapsulation = |flow: u32| {
        let vector = Vector::new(&[flow as u8, 1, 2, 3])?;
        let ends = (source(flow).into(), DESTINATION.into());
        let key = FlowKey::ip(ends.0, ends.1, Protocol::UDP.into(), PORTS.0, PORTS.1);
        Ok(Encapsulation {
            name: flow.to_string(),
            row: flow,
            filter: Filter::exact(&key),
            rule: edge::rule::Rule {
                paths: Paths::single(vector),
                timeout: None,
                session: flow,
                profile: None,
            },
        })
    };
    let encapsulations: Result<_, WireError> = (0..flows).map(encapsulation).collect();
    Ok(Setup {
        encapsulations: encapsulations?,
        ..Setup::default()
    })
}

fn source(flow: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(flow))
}

fn prefixes(kind: Kind, random: &mut Stream) -> Vec<Ipv6Net> {
    let prefix = |_| {
        let address = (0x2 << 124) | u128::from(random.next_u64()) << 61;
        let bits = 29 + (random.next_u32() % 20) as u8;
        Ipv6Net::new_assert(Ipv6Addr::from_bits(address), bits).trunc()
    };
    match kind {
        Kind::Fpf(_) | Kind::Edge(_) => Vec::new(),
        Kind::Ipv6 | Kind::Classified(_) | Kind::Unmatched(..) => vec![Ipv6Net::default()],
        Kind::Ipv6Routes => (0..PREFIXES).map(prefix).collect(),
    }
}

/// An address below one of the prefixes that a router forwards to.
fn below(prefixes: &[Ipv6Net], random: &mut Stream) -> Ipv6Addr {
    let low = u128::from(random.next_u64());
    match prefixes {
        [net] if net.prefix_len() == 0 => Ipv6Addr::from_bits((0x2 << 124) | low << 40),
        nets => {
            let net = nets[random.random_range(0..nets.len())];
            Ipv6Addr::from_bits(net.addr().to_bits() | low & net.hostmask().to_bits())
        }
    }
}

/// Frame number `n`, without its check sequence.
fn frame(kind: Kind, n: usize, len: usize, prefixes: &[Ipv6Net], random: &mut Stream) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7];
    match kind {
        Kind::Fpf(_) => {
            let lid = (n % usize::from(LIDS)) as u8;
            frame.extend([0xc0, 0, 4, 0, lid, 1, 2, 3]);
        }
        _ => frame.extend([0x86, 0xdd]),
    }
    let (flow, destination) = match kind {
        Kind::Fpf(flows) | Kind::Edge(flows) | Kind::Classified(flows) => {
            (random.random_range(0..flows), DESTINATION)
        }
        Kind::Unmatched(flows, _) => (n as u32 % flows, DESTINATION),
        Kind::Ipv6 | Kind::Ipv6Routes => (n as u32, below(prefixes, random)),
    };
    let payload = len.saturating_sub(frame.len() + 40) as u16;
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(payload.to_be_bytes());
    frame.extend([17, 64]);
    frame.extend(source(flow).octets());
    frame.extend(destination.octets());
    frame.extend(PORTS.0.to_be_bytes());
    frame.extend(PORTS.1.to_be_bytes());
    frame.extend(payload.to_be_bytes());
    frame.resize(len, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_fpf_path::edge::copies::COPIES_MAX;

    #[test]
    fn every_frame_is_carried() {
        for kind in [
            Kind::Fpf(1),
            Kind::Edge(1000),
            Kind::Classified(1000),
            Kind::Unmatched(1000, Classifier::None),
            Kind::Unmatched(1000, Classifier::Decided),
            Kind::Unmatched(1000, Classifier::Fetches),
            Kind::Unmatched(1000, Classifier::Late),
            Kind::Ipv6,
            Kind::Ipv6Routes,
        ] {
            for bytes in [FRAME_BYTES[0], FRAME_BYTES[7]] {
                let mut engine = Engine::new(kind, bytes).unwrap();
                let mut carried = 0;
                while carried < 10_000 {
                    carried += engine.carry(BURST as u64);
                }
                assert_eq!(engine.dropped(), 0, "{kind:?}, {bytes} bytes");
                let forwarded = Fpf::stats(&engine.plane).forwarded.packets;
                let stats = Fpf::stats(&engine.plane).classes;
                match kind {
                    Kind::Classified(flows) => {
                        let class = Fpf::classes(&engine.plane).next().unwrap();
                        assert_eq!(class.flows, flows);
                        assert!(class.hits.packets >= carried);
                    }
                    Kind::Unmatched(_, classifier) => {
                        assert_eq!(forwarded, 0);
                        let expected = match classifier {
                            Classifier::None => (0, false),
                            Classifier::Decided => (1000, false),
                            Classifier::Fetches => (carried, false),
                            Classifier::Late => (COPIES_MAX as u64, true),
                        };
                        let few = stats.copied.min(carried);
                        assert_eq!((few, stats.lost > 0), expected, "{classifier:?}");
                    }
                    Kind::Fpf(_) => assert_eq!(forwarded, carried),
                    Kind::Edge(_) => {
                        let rules = Fpf::encapsulations(&engine.plane);
                        let hits = rules.map(|rule| rule.listed.hits.packets);
                        assert_eq!(hits.sum::<u64>(), carried);
                    }
                    Kind::Ipv6 | Kind::Ipv6Routes => assert_eq!(forwarded, 0),
                }
            }
        }
    }

    #[test]
    fn a_rate_beyond_the_plane_loses_and_a_low_one_does_not() {
        let mut engine = Engine::new(Kind::Ipv6, 78).unwrap();
        assert!(engine.trial(1000.0, 200));
        // Multiples of such a gap, divided by it again, are less than whole numbers.
        for fps in [1001.0, 1234.5, 3333.3, 7777.7] {
            assert!(engine.trial(fps, 200));
        }
        // A frame each picosecond.
        assert!(!engine.trial(1e12, 20_000));
        let capped = engine.throughput(1000, Some((1e3, GAP_BYTES)));
        assert!((capped - 1e3 / (8.0 * 98.0)).abs() < 1e-9);
    }
}
