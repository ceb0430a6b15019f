//! Cost of finding the host behind a translated address, by number of flows, in memory.
//!
//! 64-byte UDP frames pass a port of mode `queue`, in bursts of 64, with the flows in rotation, first with the keys of
//! their outer addresses, then with the keys of the hosts inside. The connection tracking is a function, so the cost of
//! the kernel's answers is not included; `questions` counts the queries.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use weir_base::{Framing, Instant, Streams};
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_live::clock;
use weir_packet::{Direction, FlowKey};
use weir_path::egress::port::Link;
use weir_path::plane::{Mode, Plane};
use weir_path::translation::{Answer, ConnectionTracking, Inside};
use weir_wire::checksum;

use crate::forwarding::carry;
use crate::live::frame;

/// Flows that send in rotation.
const FLOWS: [u32; 4] = [64, 4096, 32_768, 100_000];
/// Flows of a host inside.
const FLOWS_PER_HOST: u16 = 50;
/// Maximum passes until each flow has an answer. A flow whose set is full never keeps its answer.
const PASSES_MAX: usize = 40;
/// Flows to a server.
const PORTS: u32 = 16_384;

/// The cost for a number of flows.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of flows.
    pub flows: u32,
    /// Nanoseconds of processor time per packet with the keys of the outer addresses, the smallest of the rounds.
    pub outer_ns: f64,
    /// Nanoseconds per packet with the keys of the hosts inside.
    pub inside_ns: f64,
    /// Queries to connection tracking per packet, once each flow has sent.
    pub questions: f64,
}

/// Measures each number of flows, `rounds` times, with `packets` at least.
pub fn run(rounds: usize, packets: usize) -> Result<Vec<Row>, SpecError> {
    FLOWS
        .into_iter()
        .map(|flows| measure(flows, rounds, packets.max(flows as usize)))
        .collect()
}

fn measure(flows: u32, rounds: usize, packets: usize) -> Result<Row, SpecError> {
    let frames: Vec<_> = (0..flows).map(frame_of).collect();
    let asked = Arc::new(AtomicU64::new(0));
    let mut outer = plane()?;
    let mut inside = plane()?;
    inside.set_connection_tracking(Box::new(Tracking(Arc::clone(&asked))));
    inside.set_translates(0, Direction::Outbound);
    carry(&mut outer, 0, &frames, packets);
    // The budget of queries lets answers come at its own rate.
    for _ in 0..PASSES_MAX {
        let before = unasked(&inside);
        carry(&mut inside, 0, &frames, packets);
        if unasked(&inside) == before {
            break;
        }
    }
    let mut best = [f64::INFINITY; 2];
    let asked_before = asked.load(Ordering::Relaxed);
    for _ in 0..rounds {
        for (best, plane) in best.iter_mut().zip([&mut outer, &mut inside]) {
            let cpu = clock::thread_cpu_time();
            carry(plane, 0, &frames, packets);
            let spent = (clock::thread_cpu_time() - cpu).as_nanos() as f64;
            *best = best.min(spent / packets as f64);
        }
    }
    let questions = asked.load(Ordering::Relaxed) - asked_before;
    Ok(Row {
        flows,
        outer_ns: best[0],
        inside_ns: best[1],
        questions: questions as f64 / (rounds * packets) as f64,
    })
}

/// Packets that had no answer because the queries are limited.
fn unasked(plane: &Plane) -> u64 {
    let side = plane.ports()[0].translates.as_ref();
    side.map_or(0, |side| side.unasked)
}

/// A connection for each tuple, and the number of queries.
struct Tracking(Arc<AtomicU64>);

impl ConnectionTracking for Tracking {
    fn find(&mut self, tuple: &FlowKey) -> Answer {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut inside = Inside {
            port: tuple.destination_port,
            ..Inside::default()
        };
        inside.address[..4].copy_from_slice(&[10, 0, 0, 0]);
        let host = tuple.destination_port / FLOWS_PER_HOST;
        inside.address[2..4].copy_from_slice(&host.to_be_bytes());
        Answer::Translated(inside)
    }
}

fn plane() -> Result<Plane, SpecError> {
    let mut plane = Plane::new(16_384, 1518, Streams::new(1));
    let link = Link {
        rate: None,
        framing: Framing::ETHERNET,
        frame_bytes_max: 1514,
    };
    let spec = Spec::check("triple_fair", [])?;
    plane.add_port("up", "wan", Mode::Queue, spec, link, Instant::ZERO);
    Ok(plane)
}

/// The frame of a flow to its server.
fn frame_of(flow: u32) -> Vec<u8> {
    let mut frame = frame((flow % PORTS) as u16);
    let server = u32::from(Ipv4Addr::new(198, 51, 100, 0)) + flow / PORTS;
    frame[30..34].copy_from_slice(&server.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}
