//! Cost of a packet's headers by protocol, in memory: parse, lookup, rewrite.
//!
//! | protocol | table | lookup |
//! |---|---|---|
//! | FPF | 256 LIDs of a byte, 64 neighbours | by the LID |
//! | MPLS | 16 thousand labels, 64 neighbours | by the label |
//! | IPv4, IPv6 | one route; the tables of [`lookup`], 64 neighbours | longest prefix |
//!
//! Frames of 78 bytes are in the slots of a pool, each with its own LID, label or destination. They are handled in
//! bursts of 64: all are parsed, all are looked up, and each is rewritten and counted; FPF handles each frame in one
//! pass. These are the functions that a worker calls, with descriptors, drop reasons and counters, except for MPLS,
//! which weir does not forward: its label swap is here for comparison (RFC 3031, RFC 3443: a label is swapped, the TTL
//! is checked and decremented). The copy into the pool, the flow key and the queue are excluded, because they are the
//! same for all protocols.
//!
//! With 16 thousand headers, the memory that packets touch fits a second-level cache of 2 MB, with 64 thousand it does
//! not. Slots follow one another, as from a receive ring; or *scattered*, in random order, so that each slot causes its
//! own miss. The *dependent* figure is for scattered packets one at a time, each selected by the previous result.

mod fpf;
mod ip;
mod mpls;

use std::hint::black_box;
use std::time::Instant as Clock;

use ipnet::IpNet;
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::Serialize;
use weir_base::{Instant, Streams};
use weir_benches::lookup;
use weir_fpf_path::table::TableError;
use weir_packet::{DropCounters, Packet, Pool, Slot};
use weir_path::ip::tables::BURST;
use weir_wire::ethernet::Mac;
use weir_wire::{EtherType, ethernet};

use crate::memory::headers::fpf::{Fpf, fpf_frame};
use crate::memory::headers::ip::Ip;
use crate::memory::headers::mpls::{Mpls, mpls_frame};

/// Number of headers of each working set.
pub const HEADERS: [usize; 2] = [16_384, 65_536];
/// Length of a frame.
const FRAME_BYTES: usize = 78;
/// The longest frame that a slot can hold, in bytes; with the spare bytes before it, a slot has three cache lines.
const SLOT_BYTES: usize = 128;
/// Passes over all headers in a round.
const PASSES: usize = 4;

/// One protocol's costs with one table, in nanoseconds per packet, the smallest of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Protocol and table.
    pub protocol: &'static str,
    /// Rules, labels or routes.
    pub entries: usize,
    /// Bytes of the table that lookups touch.
    pub table_bytes: usize,
    /// In bursts, by number of headers.
    pub burst_ns: [f64; 2],
    /// `burst_ns`, divided by that of FPF.
    pub over_fpf: [f64; 2],
    /// In bursts, from slots in random order, by number of headers.
    pub scattered_ns: [f64; 2],
    /// One at a time, each selected by the previous result, by number of headers.
    pub dependent_ns: [f64; 2],
}

/// The functions of a protocol.
trait Engine {
    /// Takes packets, and parses, looks up, rewrites and counts them; returns the sum of their egress ports.
    fn carry(
        &mut self,
        pool: &mut Pool,
        fates: &mut DropCounters,
        packets: &mut Vec<Packet>,
    ) -> usize;
}

/// Measures every protocol, `rounds` times.
pub fn run(rounds: usize) -> Result<Vec<Row>, TableError> {
    let mut random = Streams::new(1).stream("headers");
    let one = |text: &str| text.parse::<IpNet>().into_iter().collect::<Vec<_>>();
    let ip = [
        ("IPv4, one route", one("0.0.0.0/0")),
        ("IPv4, 1 million routes", lookup::prefixes_v4()),
        ("IPv6, one route", one("::/0")),
        ("IPv6, 200 thousand routes", lookup::prefixes_v6()),
    ];
    let fpf = Fpf::new()?;
    let (entries, table_bytes) = (fpf.table.rule_count(), fpf.table.rows_bytes());
    let frames = (0..HEADERS[1]).map(|_| fpf_frame(&mut random)).collect();
    let mut benches = vec![Bench::new(
        "FPF",
        entries,
        table_bytes,
        Box::new(fpf),
        frames,
    )];
    let mpls = Mpls::new();
    let (entries, table_bytes) = (mpls.labels.len(), size_of_val(&*mpls.labels));
    let frames = (0..HEADERS[1]).map(|_| mpls_frame(&mut random)).collect();
    benches.push(Bench::new(
        "MPLS, label swap",
        entries,
        table_bytes,
        Box::new(mpls),
        frames,
    ));
    for (name, prefixes) in ip {
        let mut below = || prefixes[random.random_range(0..prefixes.len())];
        let nets: Vec<_> = (0..HEADERS[1]).map(|_| below()).collect();
        let hits = nets.iter().map(|net| lookup::below(*net, &mut random));
        let frames = hits.map(lookup::frame).collect();
        let engine = Ip::new(&prefixes);
        let bytes = engine.tables.lookup_bytes()[usize::from(prefixes[0].addr().is_ipv6())];
        let routes = engine.tables.route_count();
        benches.push(Bench::new(name, routes, bytes, Box::new(engine), frames));
    }
    for _ in 0..rounds {
        benches.iter_mut().for_each(Bench::round);
    }
    let fpf = benches[0].row.burst_ns;
    let row = |bench: Bench| Row {
        over_fpf: [0, 1].map(|n| bench.row.burst_ns[n] / fpf[n]),
        ..bench.row
    };
    Ok(benches.into_iter().map(row).collect())
}

/// A protocol with its packets.
struct Bench {
    row: Row,
    engine: Box<dyn Engine>,
    frames: Vec<[u8; FRAME_BYTES]>,
    pool: Pool,
    fates: DropCounters,
}

impl Bench {
    fn new(
        protocol: &'static str,
        entries: usize,
        table_bytes: usize,
        engine: Box<dyn Engine>,
        frames: Vec<[u8; FRAME_BYTES]>,
    ) -> Self {
        let mut pool = Pool::new(frames.len(), SLOT_BYTES, (1, 2));
        for frame in &frames {
            // Every slot stays in use; `descriptor` creates the descriptors for the slots.
            let _ = pool.receive(frame, Instant::ZERO);
        }
        let row = Row {
            protocol,
            entries,
            table_bytes,
            burst_ns: [f64::INFINITY; 2],
            over_fpf: [1.0; 2],
            scattered_ns: [f64::INFINITY; 2],
            dependent_ns: [f64::INFINITY; 2],
        };
        Self {
            row,
            engine,
            frames,
            pool,
            fates: DropCounters::default(),
        }
    }

    fn round(&mut self) {
        for (n, headers) in HEADERS.into_iter().enumerate() {
            let in_order: Vec<_> = (0..headers as u32).map(Slot).collect();
            let mut scattered = in_order.clone();
            scattered.shuffle(&mut Streams::new(3).stream("slots"));
            for _ in 0..PASSES {
                let ns = [
                    self.in_bursts(&in_order),
                    self.in_bursts(&scattered),
                    self.one_by_one(&scattered),
                ];
                let Row {
                    burst_ns,
                    scattered_ns,
                    dependent_ns,
                    ..
                } = &mut self.row;
                let best = [&mut burst_ns[n], &mut scattered_ns[n], &mut dependent_ns[n]];
                best.into_iter()
                    .zip(ns)
                    .for_each(|(best, ns)| *best = best.min(ns));
            }
        }
    }

    fn in_bursts(&mut self, slots: &[Slot]) -> f64 {
        self.restore(slots);
        let mut packets = Vec::with_capacity(BURST);
        let start = Clock::now();
        for burst in slots.chunks(BURST) {
            packets.extend(burst.iter().map(|slot| descriptor(*slot)));
            let (pool, fates) = (&mut self.pool, &mut self.fates);
            black_box(self.engine.carry(pool, fates, &mut packets));
        }
        start.elapsed().as_nanos() as f64 / slots.len() as f64
    }

    fn one_by_one(&mut self, slots: &[Slot]) -> f64 {
        self.restore(slots);
        let mut packets = Vec::with_capacity(1);
        let mut place = 0;
        let start = Clock::now();
        for n in 0..slots.len() {
            packets.push(descriptor(slots[(n + place) % slots.len()]));
            let (pool, fates) = (&mut self.pool, &mut self.fates);
            // All packets leave through one port, but the processor does not know that.
            place = self.engine.carry(pool, fates, &mut packets) & 2;
        }
        black_box(place);
        start.elapsed().as_nanos() as f64 / slots.len() as f64
    }

    /// Restores the frames as they arrived.
    fn restore(&mut self, slots: &[Slot]) {
        for slot in slots {
            let frame = self.pool.frame_mut(&descriptor(*slot));
            frame.copy_from_slice(&self.frames[slot.0 as usize]);
        }
        drop(self.fates.freed());
    }
}

fn descriptor(slot: Slot) -> Packet {
    Packet::new(slot.0.into(), slot, FRAME_BYTES as u32, Instant::ZERO)
}

/// The egress port of all packets.
const PORT: usize = 1;
/// The MAC addresses of the egress port and of the ingress port.
const OURS: [Mac; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
const NEIGHBOURS: u16 = 64;

fn neighbour(n: u16) -> Mac {
    [2, 0, 0, 0, 1, (n % NEIGHBOURS) as u8]
}

/// A frame of an Ethernet type to this router, without its payload.
fn link_frame(ethertype: EtherType) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    let mut link = ethernet::View::new_unchecked(&mut frame[..]);
    link.set_destination(OURS[1]);
    link.set_source([2, 0, 0, 0, 0, 7]);
    link.set_ethertype(ethertype);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::headers::mpls::{LABEL_MIN, LABELS};
    use weir_base::Tally;

    /// Carries frames of one kind, and returns them as they leave.
    fn carried(engine: &mut dyn Engine, frames: &[[u8; FRAME_BYTES]]) -> Vec<Vec<u8>> {
        let mut pool = Pool::new(frames.len(), SLOT_BYTES, (1, 2));
        let mut fates = DropCounters::default();
        let receive = |frame: &[u8; FRAME_BYTES]| pool.receive(frame, Instant::ZERO).unwrap();
        let mut packets: Vec<_> = frames.iter().map(receive).collect();
        let slots: Vec<_> = packets.iter().map(|packet| packet.slot).collect();
        let ports = engine.carry(&mut pool, &mut fates, &mut packets);
        assert_eq!(fates.all_ended(), Tally::ZERO);
        assert_eq!(ports, PORT * frames.len(), "all leave by the second port");
        slots
            .iter()
            .map(|slot| pool.frame_at(*slot).to_vec())
            .collect()
    }

    #[test]
    fn packets_go_to_the_neighbour_that_the_table_names() {
        let mut random = Streams::new(2).stream("frames");
        let mut fpf = Fpf::new().unwrap();
        let frames: Vec<_> = (0..BURST).map(|_| fpf_frame(&mut random)).collect();
        for (frame, sent) in frames.iter().zip(carried(&mut fpf, &frames)) {
            let lid = frame[16 + usize::from(frame[15])];
            assert_eq!(sent[..12], [neighbour(lid.into()), OURS[0]].concat());
            assert_eq!(
                sent[12..],
                frame[12..],
                "the neighbour is of the same domain"
            );
        }
        let frames: Vec<_> = (0..BURST).map(|_| mpls_frame(&mut random)).collect();
        for (frame, sent) in frames.iter().zip(carried(&mut Mpls::new(), &frames)) {
            let shim = |frame: &[u8]| u32::from_be_bytes(frame[14..18].try_into().unwrap());
            let (before, after) = (shim(frame), shim(&sent));
            assert_eq!((before >> 12) + (after >> 12), LABELS - 1 + LABEL_MIN);
            assert_eq!(before & 0xfff, (after & 0xfff) + 1);
            let neighbour = neighbour((before >> 12) as u16);
            assert_eq!(sent[..12], [neighbour, OURS[0]].concat());
        }
        let net: IpNet = "2000::/3".parse().unwrap();
        let frame = lookup::frame("2001:db8::1".parse().unwrap());
        let sent = carried(&mut Ip::new(&[net]), &[frame]);
        assert_eq!((sent[0][5], sent[0][11], sent[0][21]), (2, 2, 63));
    }
}
