//! Cost of the whole path in memory: parse, classify, forward, queue, dequeue, rewrite.
//!
//! 64-byte UDP frames of 4096 flows to 4096 destinations behind 10 000 routes, in bursts of 64, from
//! one port to another. There is no device: this is `weir bench live` without input and output.
//! Headers and descriptors stay within two megabytes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use rand::Rng;
use serde::Serialize;
use weir_base::{Instant, Streams};
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_live::clock;
use weir_packet::FrameBytes;
use weir_path::egress::port::Link;
use weir_path::ip::tables::{Action, Interface, Neighbour, NextHop, Route, Tables};
use weir_path::link::offload::Offload;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

use crate::live::frame;

const BURST: usize = 64;
const DESTINATIONS: u16 = 4096;
const ROUTES: u32 = 10_000;

/// One discipline's cost.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Discipline of the egress port.
    pub discipline: String,
    /// Nanoseconds of processor time per packet, the smallest of the rounds.
    pub ns: f64,
}

/// Measures the path with each of these disciplines, `rounds` times, `packets` each.
pub fn run(disciplines: &[&str], rounds: usize, packets: usize) -> Result<Vec<Row>, SpecError> {
    let frames: Vec<_> = (0..DESTINATIONS).map(frame_to).collect();
    let mut planes = disciplines
        .iter()
        .map(|kind| Ok((*kind, plane(Spec::check(kind, [])?), f64::INFINITY)))
        .collect::<Result<Vec<_>, SpecError>>()?;
    for _ in 0..rounds {
        for (_, plane, best) in &mut planes {
            let cpu = clock::thread_cpu_time();
            drive(plane, &frames, packets);
            let spent = (clock::thread_cpu_time() - cpu).as_nanos();
            *best = best.min(spent as f64 / packets as f64);
        }
    }
    let row = |(kind, _, ns): (&str, Plane, f64)| Row {
        discipline: kind.to_owned(),
        ns,
    };
    Ok(planes.into_iter().map(row).collect())
}

/// Carries at least `packets` of these frames from the first port to the second one, in bursts.
pub fn drive(plane: &mut Plane, frames: &[Vec<u8>], packets: usize) {
    carry(plane, 1, frames, packets);
}

/// Carries at least `packets` of these frames from the first port to this one, in bursts.
pub(crate) fn carry(plane: &mut Plane, to: usize, frames: &[Vec<u8>], packets: usize) {
    let mut done = 0;
    for burst in frames.chunks(BURST).cycle() {
        let now = clock::now();
        let mut gathered = plane.burst(0);
        for frame in burst {
            let arrival = Arrival {
                at: now,
                len: frame.len() as u32,
                vlan: None,
                offload: Offload::NONE,
            };
            gathered.receive(FrameBytes::Lent(frame), arrival);
        }
        drop(gathered);
        plane.step(now);
        let sent = plane.flush(to, |burst, _| {
            Ok::<_, std::convert::Infallible>(burst.len())
        });
        debug_assert_eq!(sent, Ok(false));
        done += burst.len();
        if done >= packets {
            break;
        }
    }
}

fn plane(spec: Spec) -> Plane {
    plane_with(spec, &Arc::new(tables()))
}

/// Two ports with these tables.
pub fn plane_with(spec: Spec, tables: &Arc<Tables>) -> Plane {
    let mut plane = Plane::new(16_384, 1518, Streams::new(1));
    for name in ["lan", "wan"] {
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        plane.add_port(name, name, Mode::Routed, spec.clone(), link, Instant::ZERO);
    }
    plane.set_tables(Arc::clone(tables), Instant::ZERO);
    plane
}

/// 10 000 random routes of 16 to 24 bits, and a route for the destinations; one gateway for all.
fn tables() -> Tables {
    let mut tables = interfaces();
    let to_gateway = || via(2);
    let mut random = Streams::new(1).stream("routes");
    for _ in 0..ROUTES {
        let (address, length) = (random.next_u32(), 16 + (random.next_u32() % 9) as u8);
        if let Ok(prefix) = Ipv4Net::new(address.into(), length) {
            tables.set_route(IpNet::V4(prefix), to_gateway());
        }
    }
    if let Ok(prefix) = Ipv4Net::new(Ipv4Addr::new(100, 64, 0, 0), 20) {
        tables.set_route(IpNet::V4(prefix), to_gateway());
    }
    tables
}

/// The two interfaces, and 64 gateways behind the second one.
pub fn interfaces() -> Tables {
    let mut tables = Tables::default();
    for (index, name) in [(1, "lan"), (2, "wan")] {
        let interface = Interface {
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 0, index as u8],
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: Vec::new(),
        };
        tables.interfaces.insert(index, interface);
    }
    for last in 2..66 {
        let reachable = Neighbour::Reachable([2, 0, 0, 0, 0, last]);
        tables.neighbours.insert((2, gateway(last)), reachable);
    }
    tables
}

/// A route to one of the gateways.
pub fn via(last: u8) -> Route {
    let next_hop = NextHop {
        interface: 2,
        gateway: Some(gateway(last)),
        weight: 1,
    };
    Action::Forward(vec![next_hop]).into()
}

fn gateway(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, 2, last).into()
}

/// The frame of one flow, to its own destination.
fn frame_to(number: u16) -> Vec<u8> {
    let mut frame = frame(number);
    let destination = u32::from(Ipv4Addr::new(100, 64, 0, 0)) + u32::from(number);
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    frame[24..26].fill(0);
    let checksum = weir_wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}
