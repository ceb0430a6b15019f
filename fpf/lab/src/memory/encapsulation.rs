//! Cost of encapsulation at an edge by number of flows, in memory: the paper's figure 6 without a link.
//!
//! IPv6 frames of 78 bytes (with their check sequence) whose flows differ in the source address, each with its own rule
//! over one of 16 paths. Each packet's flow is drawn evenly. Packets are received into a pool before the clock starts,
//! 1024 at a time; then, in bursts of 64, all are parsed and classified (flow key and keyed hash), all are looked up,
//! and each is counted and gets its header. These are the functions that a worker calls. The frames of a batch stay
//! within 400 kB; the table lists the memory that lookups touch.
//!
//! Lookups are also measured alone, with keys and hashes at hand: in bursts; one by one, where the processor overlaps
//! them; and each dependent on the previous result, which is the latency of a lookup. Every figure is the smallest of
//! several rounds.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant as Clock;

use rand::RngExt;
use serde::Serialize;
use weir_base::{Instant, Span, Stream, Streams};
use weir_fpf_path::edge::filter::{Filter, Subject};
use weir_fpf_path::edge::paths::Paths;
use weir_fpf_path::edge::rule::Rule;
use weir_fpf_path::edge::rules::{Found, Rules};
use weir_fpf_path::encapsulation::push_fpf;
use weir_fpf_path::header::{ETHERTYPE_DEFAULT, Vector};
use weir_packet::{FlowKey, Keys, Packet, Pool};
use weir_path::classify::{Classified, classify};
use weir_path::headers::Parsed;
use weir_path::ip::parse::parse;
use weir_path::link;
use weir_wire::{EtherType, Protocol, WireError, ethernet, ipv6, udp};

/// Flows, each with a rule.
const FLOWS: [u32; 5] = [1_000, 4_000, 16_000, 64_000, 1_000_000];
/// Packets received before the clock starts.
const BATCH: usize = 1024;
const BURST: usize = 64;
/// Length of a frame without its check sequence.
const FRAME_BYTES: usize = 74;
/// The longest frame that a slot can hold, in bytes.
const SLOT_BYTES: usize = 192;
/// Paths that the rules use.
const PATHS: u8 = 16;
const PORTS: (u16, u16) = (5000, 5004);

/// The cost for one number of flows.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of flows.
    pub flows: u32,
    /// Memory that lookups and hits touch, in bytes.
    pub working_set_bytes: usize,
    /// Nanoseconds for a packet: parse, classify, look up, count, push the header.
    pub encapsulate_ns: f64,
    /// `encapsulate_ns`, divided by its value for the fewest flows.
    pub ratio: f64,
    /// Nanoseconds for a lookup in bursts.
    pub burst_ns: f64,
    /// Nanoseconds for a lookup, one by one.
    pub single_ns: f64,
    /// Nanoseconds for a lookup that depends on the previous lookup.
    pub dependent_ns: f64,
    /// Nanoseconds to add a rule, mean over all rules.
    pub insert_ns: f64,
    /// The longest time that adding a rule took, in nanoseconds.
    pub insert_ns_max: u64,
}

/// Measures the numbers of flows, `rounds` times each.
pub fn run(rounds: usize, quick: bool) -> Result<Vec<Row>, WireError> {
    let batches = if quick { 20 } else { 200 };
    let mut rows: Vec<Row> = Vec::new();
    for flows in FLOWS {
        let (mut edge, insert_ns, insert_ns_max) = Edge::new(flows)?;
        let mut best = [f64::INFINITY; 4];
        for _ in 0..rounds {
            let round = edge.round(batches);
            for (best, ns) in best.iter_mut().zip(round) {
                *best = best.min(ns);
            }
        }
        let [encapsulate_ns, burst_ns, single_ns, dependent_ns] = best;
        let fewest = rows
            .first()
            .map_or(encapsulate_ns, |row| row.encapsulate_ns);
        rows.push(Row {
            flows,
            working_set_bytes: edge.rules.look_up_bytes(),
            encapsulate_ns,
            ratio: encapsulate_ns / fewest,
            burst_ns,
            single_ns,
            dependent_ns,
            insert_ns,
            insert_ns_max,
        });
    }
    Ok(rows)
}

/// Nanoseconds for a packet in one round with `flows` flows, and for its lookup in a burst.
pub fn sample(flows: u32, batches: usize) -> Result<[f64; 2], WireError> {
    let (mut edge, ..) = Edge::new(flows)?;
    edge.round(batches.div_ceil(4)); // caches and branches are cold at first
    let [encapsulate_ns, burst_ns, ..] = edge.round(batches);
    Ok([encapsulate_ns, burst_ns])
}

/// Rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "    flows   memory  encapsulate  ratio   lookup: burst  one by one  dependent  insert  longest\n",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:>9} {:>5.1} MB {:>9.1} ns {:>6.2} {:>12.1} ns {:>8.1} ns {:>7.1} ns {:>4.0} ns {:>5} us",
            row.flows,
            row.working_set_bytes as f64 / 1e6,
            row.encapsulate_ns,
            row.ratio,
            row.burst_ns,
            row.single_ns,
            row.dependent_ns,
            row.insert_ns,
            row.insert_ns_max / 1000,
        );
    }
    table
}

/// An edge with a rule for each flow.
struct Edge {
    flows: u32,
    frame: [u8; FRAME_BYTES],
    pool: Pool,
    rules: Rules,
    keys: Keys,
    random: Stream,
    now: Instant,
}

impl Edge {
    /// The edge, and the mean and the longest time to add a rule.
    fn new(flows: u32) -> Result<(Self, f64, u64), WireError> {
        let streams = Streams::new(1);
        let secret = streams.hash_key("keys");
        let mut rules = Rules::new(flows as usize, secret, Instant::ZERO);
        let paths: Result<Vec<_>, _> = (0..PATHS)
            .map(|n| Vector::new(&[n, 2, 3, 4]).map(Paths::single))
            .collect();
        let paths = paths?;
        let (mut longest, start) = (0, Clock::now());
        for flow in 0..flows {
            let rule = Rule {
                paths: paths[flow as usize % paths.len()].clone(),
                timeout: Some(Span::from_secs(60)),
                session: flow,
                profile: None,
            };
            let start = Clock::now();
            // The table has room for all rules.
            let _ = rules.set(flow, &Filter::exact(&key(flow)), &rule, Instant::ZERO);
            longest = longest.max(start.elapsed().as_nanos() as u64);
        }
        let insert_ns = start.elapsed().as_nanos() as f64 / f64::from(flows);
        let edge = Self {
            flows,
            frame: frame()?,
            pool: Pool::new(BATCH, SLOT_BYTES, secret),
            rules,
            keys: Keys::new(0, secret),
            random: streams.stream("flows"),
            now: Instant::ZERO,
        };
        Ok((edge, insert_ns, longest))
    }

    /// Nanoseconds for a packet: encapsulated; looked up in bursts, one by one, and each dependent on the previous one.
    fn round(&mut self, batches: usize) -> [f64; 4] {
        let mut nanos = [0; 4];
        for _ in 0..batches {
            let packets = self.receive();
            self.now += Span::from_micros(100);
            let start = Clock::now();
            let sent = self.encapsulate(packets);
            nanos[0] += start.elapsed().as_nanos();
            sent.into_iter()
                .for_each(|packet| self.pool.release(packet));
            for (nanos, look_up) in nanos[1..]
                .iter_mut()
                .zip([in_bursts, one_by_one, dependent])
            {
                let keys = self.draw();
                let subjects: Vec<_> = keys.iter().map(subject).collect();
                let start = Clock::now();
                look_up(&self.rules, &subjects);
                *nanos += start.elapsed().as_nanos();
            }
        }
        nanos.map(|nanos| nanos as f64 / (batches * BATCH) as f64)
    }

    /// Packets of flows drawn evenly.
    fn receive(&mut self) -> Vec<Packet> {
        let (mut packets, mut frame) = (Vec::with_capacity(BATCH), self.frame);
        for _ in 0..BATCH {
            let flow = self.random.random_range(0..self.flows);
            frame[26..30].copy_from_slice(&flow.to_be_bytes());
            packets.extend(self.pool.receive(&frame, self.now));
        }
        packets
    }

    /// Keys of flows drawn evenly, with their hashes.
    fn draw(&mut self) -> Vec<(FlowKey, u64)> {
        let flows = (0..BATCH).map(|_| self.random.random_range(0..self.flows));
        let with_hash = |flow| {
            let key = key(flow);
            (key, self.keys.hash_key(&key))
        };
        flows.map(with_hash).collect()
    }

    fn encapsulate(&mut self, packets: Vec<Packet>) -> Vec<Packet> {
        let mut sent = Vec::with_capacity(packets.len());
        let mut burst = Vec::with_capacity(BURST);
        let mut found = Vec::with_capacity(BURST);
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            for mut packet in packets.by_ref().take(BURST) {
                let link = link::validate(self.pool.frame(&packet));
                if let Ok(Ok(headers)) = link.map(|link| parse(&mut self.pool, &mut packet, &link))
                {
                    burst.push(classify(&mut self.pool, Parsed { packet, headers }));
                }
            }
            let mut subjects = [NOBODY; BURST];
            for (subject, Classified { packet, headers }) in subjects.iter_mut().zip(&burst) {
                *subject = Subject::new(&self.pool, packet, headers);
            }
            self.rules.find_all(&subjects[..burst.len()], &mut found);
            for (classified, found) in burst.drain(..).zip(found.drain(..)) {
                let packet = classified.packet;
                sent.push(match found {
                    Some(found) => self.send(packet, found),
                    None => packet,
                });
            }
        }
        sent
    }

    /// Counts a packet and adds its header.
    #[inline]
    fn send(&mut self, mut packet: Packet, found: Found) -> Packet {
        let passed = self.rules.hit(found, packet.bytes(), self.now).is_ok();
        let hash = self.pool.keys.hash(&packet, weir_packet::KeyKind::Flow);
        if passed && let [header] = self.rules.headers(found, hash) {
            push_fpf(&mut self.pool, &mut packet, ETHERTYPE_DEFAULT, header);
        }
        packet
    }
}

fn in_bursts(rules: &Rules, subjects: &[Subject<'_>]) {
    let mut found = Vec::with_capacity(BURST);
    for burst in subjects.chunks(BURST) {
        found.clear();
        rules.find_all(burst, &mut found);
        black_box(&found);
    }
}

fn one_by_one(rules: &Rules, subjects: &[Subject<'_>]) {
    for subject in subjects {
        black_box(rules.find(subject));
    }
}

/// Looks up one packet after another; the index of the next packet is computed from the rule found.
fn dependent(rules: &Rules, subjects: &[Subject<'_>]) {
    let mut at = 0;
    for _ in 0..subjects.len() {
        let row = rules
            .find(&subjects[at])
            .map_or(0, |found| rules.name(found).0);
        at = (at + 1 + (row >> 31) as usize) % subjects.len(); // no row is that high
    }
    black_box(at);
}

/// An unused entry of a burst.
const NOBODY: Subject<'static> = Subject {
    key: &FlowKey {
        source: [0; 16],
        destination: [0; 16],
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        family: weir_packet::Family::Link,
    },
    hash: 0,
    has_ports: false,
    ethertype: EtherType(0),
};

fn subject((key, hash): &(FlowKey, u64)) -> Subject<'_> {
    Subject {
        key,
        hash: *hash,
        has_ports: true,
        ethertype: EtherType::IPV6,
    }
}

/// The source address of flow 0, whose bytes 4 to 8 are the number of the flow; and the destination.
const SOURCE: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const DESTINATION: [u8; 16] = [0x20, 1, 0xd, 0xb8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn key(flow: u32) -> FlowKey {
    let mut source = SOURCE;
    source[4..8].copy_from_slice(&flow.to_be_bytes());
    FlowKey::ip(
        source.into(),
        DESTINATION.into(),
        Protocol::UDP.into(),
        PORTS.0,
        PORTS.1,
    )
}

/// The frame of flow 0.
fn frame() -> Result<[u8; FRAME_BYTES], WireError> {
    const L4: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
    let mut frame = [0; FRAME_BYTES];
    let mut link = ethernet::View::new_unchecked(&mut frame[..]);
    link.set_destination([2, 0, 0, 0, 0, 1]);
    link.set_source([2, 0, 0, 0, 0, 2]);
    link.set_ethertype(EtherType::IPV6);
    let ip = ipv6::Repr {
        traffic_class: 0,
        flow_label: ipv6::FlowLabel::default(),
        payload_len: (FRAME_BYTES - L4) as u16,
        next_header: Protocol::UDP,
        hop_limit: 64,
        source: SOURCE.into(),
        destination: DESTINATION.into(),
    };
    ip.emit(&mut ipv6::View::new_unchecked(
        &mut frame[ethernet::HEADER_LEN..],
    ));
    let udp = udp::Repr::new(PORTS.0, PORTS.1, FRAME_BYTES - L4 - udp::HEADER_LEN)?;
    udp.emit(&mut udp::View::new_unchecked(&mut frame[L4..]));
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_encapsulated() {
        let (mut edge, ..) = Edge::new(100).unwrap();
        let packets = edge.receive();
        let sent = edge.encapsulate(packets);
        assert_eq!(sent.len(), BATCH);
        for packet in &sent {
            let frame = edge.pool.frame(packet);
            assert_eq!(frame.len(), FRAME_BYTES + 6);
            assert_eq!(
                (&frame[12..16], &frame[17..20]),
                (&[0xc0, 0, 4, 0][..], &[2, 3, 4][..])
            );
        }
        let hits: u64 = edge.rules.iter().map(|listed| listed.hits.packets).sum();
        assert_eq!(hits, BATCH as u64);
    }
}
