//! The router, and the check of its counters after each frame.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Instant, Rate, Span, Streams};
use weir_discipline::Spec;
use weir_fpf_path::edge::filter::RawFilter;
use weir_fpf_path::edge::paths::{Paths, Spread};
use weir_fpf_path::edge::profile::{Profile, Shape};
use weir_fpf_path::edge::rule::Rule as Encapsulate;
use weir_fpf_path::edge::setup::{Encapsulation, Setup};
use weir_fpf_path::forwarder::Stats;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::cache::Limits;
use weir_fpf_path::process::chunk::Message;
use weir_fpf_path::process::{Function, Processing};
use weir_fpf_path::segment_header::{PART_LEN, Part, Repr, View, Whole};
use weir_fpf_path::{Builder, Domain, Fpf, Hop, Inner, Interface, Rule, Table};
use weir_packet::Queue;
use weir_path::egress::port::Link;
use weir_path::ip::tables::{Action, Address, Interface as Device, Neighbour, NextHop, Tables};
use weir_path::link::offload::Offload;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};
use weir_wire::EtherType;
use weir_wire::checksum::crc32c;
use weir_wire::chunk::NAME_LEN;

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 8];
const LAN: usize = 0;
const PORTS: usize = 2;
const SLOTS: usize = 64;
/// The ends of the tunnel: the router's, and the other one.
const TUNNEL: [[u8; 4]; 2] = [[10, 0, 2, 1], [10, 9, 9, 9]];
/// The LIDs with a rule.
pub(crate) const LIDS: std::ops::RangeInclusive<u8> = 1..=17;

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

/// A frame for the router.
pub(crate) fn frame(ethertype: u16, bytes: &[&[u8]]) -> Vec<u8> {
    let ethertype = ethertype.to_be_bytes();
    [&mac(LAN)[..], &HOST, &ethertype, &bytes.concat()].concat()
}

/// An IPv4 packet with a UDP datagram to 192.0.2.1.
pub(crate) fn ipv4() -> Vec<u8> {
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .udp(4000, 53)
        .write(&mut packet, b"payload")
        .unwrap();
    packet
}

/// An interest in a chunk of 192.0.2.1, and the data.
pub(crate) fn chunk() -> [Vec<u8>; 2] {
    let ends = ["10.0.1.10:4000", "192.0.2.1:53"].map(|end| end.parse().unwrap());
    let both = [(ends, None), ([ends[1], ends[0]], Some(&[7; 20][..]))];
    both.map(|([source, destination], content)| {
        let message = Message {
            source,
            destination,
            name: [9; NAME_LEN],
            content,
        };
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        bytes
    })
}

/// An IPv6 packet with a UDP datagram to 2001:db8:0:7::1.
pub(crate) fn ipv6() -> Vec<u8> {
    let address = |n| [0x20, 1, 0xd, 0xb8, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ipv6(address(1), address(7), 9)
        .udp(4000, 53)
        .write(&mut packet, b"payload")
        .unwrap();
    packet
}

/// An IPv4 packet out of the tunnel: a GRE header (with what follows it), and a payload.
pub(crate) fn in_tunnel(gre: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ipv4(TUNNEL[1], TUNNEL[0], 9)
        .write(&mut packet, 47.into(), &[gre, payload].concat())
        .unwrap();
    packet
}

/// A packet in two parts, as the previous router cuts it.
pub(crate) fn in_parts(identifier: u16, packet: &[u8]) -> [Vec<u8>; 2] {
    let of = Whole {
        identifier,
        flow: 7,
        total: packet.len() as u16,
        check: crc32c(packet),
    };
    let (first, second) = packet.split_at(packet.len() / 2);
    [(0, first), (first.len(), second)].map(|(offset, bytes)| {
        let part = Part::new(of, offset as u16, bytes.len() as u16).unwrap();
        let mut segment = vec![0; PART_LEN];
        Repr::Part(part).emit(&mut View::new_unchecked(&mut segment[..]));
        [&segment, bytes].concat()
    })
}

/// A router with the ports `lan` and `wan`, and rules of every kind.
pub(crate) struct Router {
    plane: Plane,
    now: Instant,
    received: u64,
    sent: u64,
}

impl Router {
    /// The router.
    pub(crate) fn new() -> Self {
        let mut plane = Plane::new(SLOTS, 1600, Streams::new(1));
        let mut tables = Tables::default();
        for (port, name) in ["lan", "wan"].into_iter().enumerate() {
            let spec = Spec::check("fifo", []).unwrap();
            let link = Link {
                rate: None,
                framing: weir_base::Framing::ETHERNET,
                frame_bytes_max: 1518,
            };
            plane.add_port(name, name, Mode::Routed, spec, link, Instant::ZERO);
            let device = Device {
                name: name.to_owned(),
                mac: mac(port),
                mtu: [1500, 300][port],
                up: true,
                carrier: true,
                addresses: vec![Address::of(
                    format!("10.0.{}.1/24", port + 1).parse().unwrap(),
                )],
            };
            tables.interfaces.insert(port as u32 + 1, device);
        }
        for (prefix, gateway) in [("0.0.0.0/0", "10.0.2.254"), ("::/0", "2001:db8:2::254")] {
            let gateway: IpAddr = gateway.parse().unwrap();
            let hop = NextHop {
                interface: 2,
                gateway: Some(gateway),
                weight: 1,
            };
            let action = Action::Forward(vec![hop]);
            tables.set_route(prefix.parse().unwrap(), action.into());
            let known = Neighbour::Reachable(NEXT);
            tables.neighbours.insert((2, gateway), known);
        }
        tables.set_route("10.0.2.1/32".parse().unwrap(), Action::Local.into());
        plane.set_tables(Arc::new(tables), Instant::ZERO);
        Fpf::set_table(&mut plane, Some(Arc::new(rules())));
        Fpf::set_edge(&mut plane, Some(Arc::new(edge())), Instant::ZERO);
        Self {
            plane,
            now: Instant::ZERO,
            received: 0,
            sent: 0,
        }
    }

    /// Takes a frame from `lan`, and sends the frames that then leave. Every packet has ended, left, or waits.
    pub(crate) fn carry(&mut self, bytes: &[u8]) {
        let arrival = Arrival {
            at: self.now,
            len: bytes.len() as u32,
            vlan: None,
            offload: Offload::NONE,
        };
        self.plane.receive(LAN, bytes, arrival);
        self.received += 1;
        self.step(Span::from_micros(10));
        let waiting: u64 = Fpf::encapsulations(&self.plane)
            .map(|e| e.queue.waiting.packets)
            .sum();
        let created = Fpf::stats(&self.plane).created.packets;
        let begun = self.received + created + self.plane.errors().stats().sent();
        let ended = self.sent + self.plane.fates().all_ended().packets;
        assert_eq!(begun, ended + waiting, "after {bytes:02x?}");
    }

    /// Lets all waiting packets out. Then all memory is free.
    pub(crate) fn settle(&mut self) {
        self.step(Span::from_secs(100));
        self.plane.take_exceptions();
        let before = self.sent;
        let copies = frame(0xc000, &[&[1, 0, *LIDS.end()], &ipv4()]);
        self.carry(&copies);
        assert_eq!(self.sent - before, SLOTS as u64, "a copy in each slot");
    }

    fn step(&mut self, span: Span) {
        self.now += span;
        self.plane.step(self.now);
        for port in 0..PORTS {
            let sent = &mut self.sent;
            let flushed = self.plane.flush(port, |burst, _| {
                *sent += burst.len() as u64;
                Ok::<_, ()>(burst.len())
            });
            flushed.unwrap();
        }
        self.plane.take_exceptions();
    }

    /// The balance of the counters.
    pub(crate) fn stats(&self) -> Stats {
        Fpf::stats(&self.plane)
    }
}

fn vector(lids: &[u8]) -> Vector {
    Vector::new(lids).unwrap()
}

/// A rule of each kind, for the [`LIDS`] in this order.
fn rules() -> Table {
    let mut builder = Builder::new(Domain::default());
    let [near, far] = TUNNEL.map(IpAddr::from);
    let [wan, vlan, tunnel, _] = [
        Interface::ethernet("wan"),
        Interface::vlan("lan", 7).unwrap(),
        Interface::gre(near, far).unwrap(),
        Interface::ethernet("lan"),
    ]
    .map(|interface| builder.interface(interface).unwrap());
    let functions = [
        ("encoder", Function::XorEncode),
        ("decoder", Function::XorDecode),
        ("cutter", Function::Segment),
        ("joiner", Function::Reassemble),
        (
            "cache",
            Function::Cache(Limits {
                bytes: 1000,
                chunks: 2,
            }),
        ),
    ];
    let [encoder, decoder, cutter, joiner, cache] =
        functions.map(|(name, function)| builder.processor(name, function).unwrap());
    let hop = |interface| Hop {
        interface,
        destination: NEXT.into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    let stays = Hop {
        leaves_domain: false,
        ..hop(wan)
    };
    let process = |processor, leaves: &[&[u8]]| {
        let leaves = leaves.iter().map(|lids| vector(lids)).collect();
        Rule::Process(Processing { processor, leaves })
    };
    let copies = |leaves: &[&[u8]]| {
        let leaves: Vec<Vector> = leaves.iter().map(|lids| vector(lids)).collect();
        Rule::Multicast(leaves.into())
    };
    let [other, fallback] = [0x88b5, 0x0800].map(EtherType);
    let rules = [
        Rule::Forward(hop(wan)),
        Rule::Forward(stays),
        Rule::Drop,
        Rule::Redirect,
        Rule::Decapsulate(Inner::Ip),
        Rule::Decapsulate(Inner::Frame(other, hop(wan))),
        Rule::Decapsulate(Inner::Frame(fallback, hop(tunnel))),
        copies(&[&[1, 2], &[5], &[11, 1], &[1; 200]]),
        copies(&[&[8, 9], &[1], &[10]]), // copies of copies
        Rule::Forward(Hop {
            destination: Default::default(),
            ..hop(tunnel)
        }),
        process(encoder, &[&[12], &[3], &[12]]), // the second packet of each pair is lost
        process(decoder, &[&[5]]),
        Rule::Forward(hop(vlan)),
        process(cutter, &[]),
        process(joiner, &[]),
        process(cache, &[&[5]]),
        copies(&[&[1][..]; SLOTS]),
    ];
    for (lid, rule) in LIDS.zip(rules) {
        builder.rule(None, lid.into(), rule).unwrap();
    }
    builder.build().unwrap()
}

/// Packets that get headers: of a prefix, with copies, shaped, and of another Ethernet type.
fn edge() -> Setup {
    let to = |prefix: &str| RawFilter {
        destination: Some(prefix.parse().unwrap()),
        ..RawFilter::default()
    };
    let other = RawFilter {
        ethertype: Some(0x88b5),
        ..RawFilter::default()
    };
    let shape = Shape::new("10 Mbit".parse::<Rate>().unwrap(), 8).unwrap();
    let all = [
        (to("192.0.2.0/24"), Spread::Copies, None),
        (
            to("2001:db8:0:7::/64"),
            Spread::ByPacket,
            Some(Profile::Shaped(shape)),
        ),
        (other, Spread::ByFlow, None),
    ];
    let encapsulation = |(row, (filter, spread, profile)): (u32, (RawFilter, _, _))| {
        let vectors = [(vector(&[11, 1]), 1), (vector(&[8]), 2)];
        Encapsulation {
            name: format!("number {row}"),
            row,
            filter: filter.check().unwrap(),
            rule: Encapsulate {
                paths: Paths::new(spread, &vectors).unwrap(),
                timeout: None,
                session: 0,
                profile,
            },
        }
    };
    Setup {
        encapsulations: (1..).zip(all).map(encapsulation).collect(),
        ..Setup::default()
    }
}
