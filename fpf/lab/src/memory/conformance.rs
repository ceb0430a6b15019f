//! Checks forwarding against the paper: its Figure 1 in four planes, multicast, LIDs of two sizes on one path, and the
//! sanity check of a header.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, RngExt};
use weir_base::{Instant, Stream, Streams};
use weir_benches::forwarding;
use weir_discipline::Spec;
use weir_fpf_path::forward::{Decision, decide, parse};
use weir_fpf_path::header::{ETHERTYPE_DEFAULT, FIXED_LEN, Vector};
use weir_fpf_path::{Builder, Domain, Fpf, Hop, Inner, Interface, Rule, Table};
use weir_packet::{Queue, Reason};
use weir_path::link::offload::Offload;
use weir_path::plane::Plane;
use weir_path::plane::step::Arrival;
use weir_wire::EtherType;

use super::throughput::SetupError;

/// The LIDs of Figure 1: domain C uses [`LID_B`] to reach B, domain B uses [`LID_A`] to reach A.
const LID_B: u8 = 0xb0;
const LID_A: u8 = 0xa0;

/// A packet on the path of Figure 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Index as each FE receives it: the edge of C, both FEs of B, the edge of A.
    pub indices: Vec<u8>,
    /// LIDs that the FEs use; the last FE uses none.
    pub lids: Vec<u8>,
    /// Whether the packet left unchanged, byte for byte.
    pub is_original: bool,
    /// Whether the packet, handed to IP, left with one hop less and no other change.
    pub is_routed: bool,
}

/// Sends a packet from C via B to A.
pub fn figure_1() -> Result<Walk, SetupError> {
    let packet = packet();
    let mut walk = Walk::default();
    let mut header_and_packet = [&[2, 0, LID_B, LID_A], &packet[..]].concat();
    for (lid, leaves_domain) in [(LID_B, true), (LID_A, false), (LID_A, true)] {
        let index = header_and_packet[1];
        walk.indices.push(index);
        let used = header_and_packet.get(2 + usize::from(index));
        walk.lids.extend(used);
        let mut fe = fe(|builder, hop| {
            let hop = Hop {
                leaves_domain,
                ..hop
            };
            builder.rule(None, lid.into(), Rule::Forward(hop))
        })?;
        match &through(&mut fe, &header_and_packet)[..] {
            [one] => header_and_packet = one[14..].to_vec(),
            _ => return Ok(walk),
        }
    }
    walk.indices.push(header_and_packet[1]);
    let mut to_host = fe(|builder, hop| builder.end(None, Inner::Frame(EtherType::IPV6, hop)))?;
    let delivered = through(&mut to_host, &header_and_packet);
    walk.is_original =
        matches!(&delivered[..], [one] if one[12..14] == [0x86, 0xdd] && one[14..] == packet);
    let mut to_ip = fe(|_, _| Ok(()))?;
    let mut routed = packet;
    routed[7] -= 1;
    let delivered = through(&mut to_ip, &header_and_packet);
    walk.is_routed = matches!(&delivered[..], [one] if one[14..] == routed);
    Ok(walk)
}

/// Number of copies of one packet for each of `leaves` leaves, and number of copies that belong to no leaf.
pub fn multicast(leaves: u8) -> Result<(Vec<usize>, usize), SetupError> {
    let vectors: Result<Vec<_>, _> = (0..leaves).map(|leaf| Vector::new(&[leaf, 7])).collect();
    let vectors: Arc<[Vector]> = vectors?.into();
    let mut fe = fe(|builder, hop| {
        builder.rule(None, 0xf1, Rule::Multicast(vectors.clone()))?;
        (0..leaves).try_for_each(|leaf| builder.rule(None, leaf.into(), Rule::Forward(hop)))
    })?;
    let packet = packet();
    let sent = through(&mut fe, &[&[1, 0, 0xf1], &packet[..]].concat());
    let of_leaf = |leaf| {
        let expected = [&[2, 1, leaf, 7], &packet[..]].concat();
        sent.iter().filter(|frame| frame[14..] == expected).count()
    };
    let copies: Vec<usize> = (0..leaves).map(of_leaf).collect();
    let others = sent.len() - copies.iter().sum::<usize>();
    Ok((copies, others))
}

const DOMAINS: usize = 64;
/// Rules of each domain.
const RULES: usize = 100;
/// Number of domains of the longest path of the paper.
const DOMAINS_MAX: usize = 20;

/// A domain with LIDs of one or two bytes, and the domains that they lead to.
struct Node {
    table: Table,
    lid_bytes: usize,
    next: Vec<(u16, usize)>,
}

/// Walks random paths through domains, every other of which has LIDs of two bytes. Returns the number of paths on which
/// every FE chose the next domain, and the last FE removed the header.
pub fn mixed_lids(paths: u64) -> Result<u64, SetupError> {
    let mut random = Streams::new(1).stream("paths");
    let nodes: Result<Vec<Node>, _> = (0..DOMAINS).map(|n| node(n, &mut random)).collect();
    let nodes = nodes?;
    let right = (0..paths).filter(|_| is_followed(&nodes, &mut random));
    Ok(right.count() as u64)
}

fn node(number: usize, random: &mut Stream) -> Result<Node, SetupError> {
    let lid_bytes = 1 + number % 2;
    let domain = Domain::new(0xc000, lid_bytes as u8).unwrap_or_default();
    let mut builder = Builder::new(domain);
    let interface = builder.interface(Interface::ethernet("wan"))?;
    let mut next = BTreeMap::new();
    while next.len() < RULES {
        let lid = random.random_range(0..domain.lid_size().space()) as u16;
        next.insert(lid, random.random_range(0..DOMAINS));
    }
    for (lid, to) in &next {
        let hop = Hop {
            interface,
            destination: [2, 0, 0, 0, 0, *to as u8].into(),
            queue: Queue(0),
            leaves_domain: true,
        };
        builder.rule(None, *lid, Rule::Forward(hop))?;
    }
    Ok(Node {
        table: builder.build()?,
        lid_bytes,
        next: next.into_iter().collect(),
    })
}

fn is_followed(nodes: &[Node], random: &mut Stream) -> bool {
    let first = random.random_range(0..DOMAINS);
    let (mut vector, mut path, mut at) = (Vec::new(), Vec::new(), first);
    for _ in 0..random.random_range(1..=DOMAINS_MAX) {
        let (lid, next) = nodes[at].next[random.random_range(0..RULES)];
        vector.extend(&lid.to_be_bytes()[2 - nodes[at].lid_bytes..]);
        path.push(next);
        at = next;
    }
    let mut header = [&[vector.len() as u8, 0], &vector[..]].concat();
    let mut here = first;
    for next in path {
        match decision(&nodes[here].table, None, &header) {
            Ok(Decision::Forward(hop, index))
                if hop.destination == [2, 0, 0, 0, 0, next as u8].into() =>
            {
                header[1] = index;
                here = next;
            }
            _ => return false,
        }
    }
    let last = decision(&nodes[here].table, None, &header);
    last == Ok(Decision::Decapsulate(Inner::Ip))
}

fn decision<'t>(
    table: &'t Table,
    interface: Option<&Interface>,
    bytes: &[u8],
) -> Result<Decision<'t>, Reason> {
    let header = parse(bytes, table.domain().lid_size())?;
    let known = interface.and_then(|interface| table.find(interface));
    let input = known.map_or(table.any_input(), |known| table.input(known));
    decide(table, input, &header)
}

/// The number of random headers (complete, truncated and invalid) that a table with rules for two interfaces handles as
/// section III.A defines, with LIDs of one byte and of two.
pub fn headers(cases: u64) -> Result<u64, SetupError> {
    let mut random = Streams::new(2).stream("headers");
    let mut right = 0;
    for lid_bytes in [1, 2] {
        let fuzz = Fuzz::new(lid_bytes, &mut random)?;
        let of_size = cases / 2 + (cases % 2) * u64::from(lid_bytes == 1);
        right += (0..of_size).filter(|_| fuzz.is_right(&mut random)).count() as u64;
    }
    Ok(right)
}

/// A table, and the same rules in a map.
struct Fuzz {
    table: Table,
    interfaces: [Interface; 2],
    /// The last byte of the neighbour's address by interface and LID.
    rules: BTreeMap<(usize, u16), u8>,
    lid_bytes: usize,
}

impl Fuzz {
    fn new(lid_bytes: usize, random: &mut Stream) -> Result<Self, SetupError> {
        let mut builder = Builder::new(Domain::new(0xc000, lid_bytes as u8).unwrap_or_default());
        let interfaces = ["lan", "wan"].map(Interface::ethernet);
        let mut rules = BTreeMap::new();
        for (at, interface) in interfaces.iter().enumerate() {
            let input = builder.interface(interface.clone())?;
            for lid in 0..128 {
                let last: u8 = random.random();
                let hop = Hop {
                    interface: input,
                    destination: [2, 0, 0, 0, 0, last].into(),
                    queue: Queue(0),
                    leaves_domain: true,
                };
                // Every other LID has a rule, a different half at each interface.
                if (usize::from(lid) + at) % 2 == 0 {
                    builder.rule(Some(input), lid, Rule::Forward(hop))?;
                    rules.insert((at, lid), last);
                }
            }
        }
        Ok(Self {
            table: builder.build()?,
            interfaces,
            rules,
            lid_bytes,
        })
    }

    fn is_right(&self, random: &mut Stream) -> bool {
        let at = random.random_range(0..self.interfaces.len());
        let length: u8 = random.random_range(0..12);
        let index: u8 = random.random_range(0..14);
        let mut bytes = vec![length, index];
        bytes.extend((0..length).map(|_| (random.next_u32() % 3 * 40) as u8));
        if random.random_range(0..8) == 0 {
            bytes.truncate(random.random_range(0..=bytes.len()));
        }
        let found = decision(&self.table, Some(&self.interfaces[at]), &bytes);
        let left = usize::from(length).checked_sub(index.into());
        match left {
            _ if bytes.len() < FIXED_LEN + usize::from(length) => {
                found == Err(Reason::TruncatedHeader)
            }
            None => found == Err(Reason::FpfIndex),
            Some(0) => found == Ok(Decision::Decapsulate(Inner::Ip)),
            Some(left) if left < self.lid_bytes => found == Err(Reason::FpfLidLength),
            Some(_) => {
                let from = FIXED_LEN + usize::from(index);
                let lid = &bytes[from..from + self.lid_bytes];
                let lid = lid.iter().fold(0, |lid, byte| lid << 8 | u16::from(*byte));
                match (found, self.rules.get(&(at, lid))) {
                    (Ok(Decision::Forward(hop, next)), Some(last)) => {
                        hop.destination == [2, 0, 0, 0, 0, *last].into()
                            && usize::from(next) == usize::from(index) + self.lid_bytes
                    }
                    (found, None) => found == Err(Reason::FpfUnknownLid),
                    _ => false,
                }
            }
        }
    }
}

/// An FE between `lan` and `wan`, with rules made from the hop through `wan`. IPv6 packets follow the default route.
fn fe(
    rules: impl FnOnce(&mut Builder, Hop) -> Result<(), weir_fpf_path::table::TableError>,
) -> Result<Plane, SetupError> {
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan"))?; // the ingress interface
    let hop = Hop {
        interface: builder.interface(Interface::ethernet("wan"))?,
        destination: [2, 0, 0, 0, 0, 2].into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    rules(&mut builder, hop)?;
    let mut tables = forwarding::interfaces();
    tables.set_route(ipnet::Ipv6Net::default().into(), forwarding::via(2));
    let mut plane = forwarding::plane_with(Spec::check("fifo", [])?, &Arc::new(tables));
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build()?)));
    Ok(plane)
}

/// Sends an FPF header with a packet into `lan`, and returns the frames that `wan` sends.
fn through(plane: &mut Plane, header_and_packet: &[u8]) -> Vec<Vec<u8>> {
    let ethertype = u16::from(ETHERTYPE_DEFAULT).to_be_bytes();
    let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7];
    let frame = [&mac[..], &ethertype, header_and_packet].concat();
    let arrival = Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(0, &frame, arrival);
    plane.step(Instant::ZERO);
    let mut sent = Vec::new();
    let flushed = plane.flush(1, |burst, _| {
        sent.extend(burst.iter().map(|frame| frame.to_vec()));
        Ok::<_, std::convert::Infallible>(burst.len())
    });
    debug_assert_eq!(flushed, Ok(false));
    sent
}

/// An IPv6 packet with UDP.
fn packet() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    for last in [1, 2] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend([0x13, 0x88, 0x13, 0x8c, 0, 12, 0, 0, 1, 2, 3, 4]);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_goes_as_in_figure_1() {
        let walk = figure_1().unwrap();
        assert_eq!(walk.indices, [0, 1, 1, 2]);
        assert_eq!(walk.lids, [LID_B, LID_A, LID_A]);
        assert!(walk.is_original && walk.is_routed, "{walk:?}");
    }

    #[test]
    fn each_leaf_has_a_copy() {
        for leaves in [2, 8] {
            let expected = (vec![1; leaves.into()], 0);
            assert_eq!(multicast(leaves).unwrap(), expected);
        }
    }

    #[test]
    fn random_paths_and_headers_are_right() {
        assert_eq!(mixed_lids(2000).unwrap(), 2000);
        assert_eq!(headers(20_001).unwrap(), 20_001);
    }
}
