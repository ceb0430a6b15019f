//! Cost of the flow-aware classifier by number of flows, on a capture in memory: figure 7 of the paper on flexible
//! packet forwarding.
//!
//! T0 is the time to read the capture: each record is found and its bytes are copied, as a device or a file system
//! would. T1 is the time to read it and to classify: headers are parsed, the flow is looked up in a table of 20 000,
//! and the first packets of a flow go to the parsers. The figure shows T0/T1.
//!
//! A quarter each of the flows is RTP (two packets decide), TLS (a ClientHello of one packet decides), HTTP (one packet
//! decides), and random bytes over UDP (given up after 32 packets). The flow of each packet is drawn evenly. The
//! capture is pcap, and is read as often as the number of packets requires; it is larger than the caches of usual
//! processors. The last columns are for decided flows: the time that classification adds to a packet, and the time of
//! the lookup alone, with key and payload at hand as in a router.
//!
//! Frames have 128 and 1518 bytes with their check sequence, which captures omit.

use std::fmt::Write;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant as Clock;

use rand::RngExt;
use serde::Serialize;
use weir_base::{Instant, Stream, Streams};
use weir_capture::{ReadError, Reader, Step};
use weir_classifier::frame::parse;
use weir_classifier::{Classifier, Offline, Segment, Settings};
use weir_wire::{EtherType, Protocol, WireError, ethernet, ipv4, tcp, udp};

use crate::live::median;

/// Flows in the capture.
pub const FLOWS: [u32; 4] = [10, 100, 1000, 10_000];
/// Lengths of frames with their check sequence.
pub const FRAME_BYTES: [usize; 2] = [128, 1518];
/// Length of the check sequence.
const CHECK_LEN: usize = 4;
/// Packets in the capture.
const CAPTURE: usize = 100_000;
/// Packets of a round, in all readings of the capture.
const PACKETS: usize = 1_000_000;
/// The type of an Ethernet link in pcap.
const ETHERNET: u32 = 1;
const L4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN_MIN;

/// The cost for one number of flows and one length.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of flows.
    pub flows: u32,
    /// Bytes of a frame, with its check sequence.
    pub frame_bytes: usize,
    /// T0: nanoseconds for a packet, read only; median of the rounds.
    pub read_ns: f64,
    /// T1: nanoseconds for a packet, read and classified; median of the rounds.
    pub classify_ns: f64,
    /// T0/T1, median of the rounds.
    pub ratio: f64,
    /// Half the distance between the minimum and the maximum T0/T1, divided by the median.
    pub spread: f64,
    /// Nanoseconds that classification adds to a packet when all flows are decided; median of the rounds.
    pub decided_ns: f64,
    /// Nanoseconds for the lookup of a decided flow; median of the rounds.
    pub look_up_ns: f64,
}

/// A failure to build or read the capture, which would be our own bug.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A header cannot have these values.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The capture cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Measures all numbers of flows and both lengths, `rounds` times each; `quick` with a tenth of the packets.
pub fn run(rounds: usize, quick: bool) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for frame_bytes in FRAME_BYTES {
        for flows in FLOWS {
            rows.push(row(flows, frame_bytes, rounds, quick)?);
        }
    }
    Ok(rows)
}

/// Measures one number of flows and one length, with its check sequence, `rounds` times.
pub fn row(flows: u32, frame_bytes: usize, rounds: usize, quick: bool) -> Result<Row, Fault> {
    let readings = if quick { 1 } else { PACKETS / CAPTURE };
    let file = capture(flows, frame_bytes - CHECK_LEN, CAPTURE)?;
    let rounds: Result<Vec<_>, _> = (0..rounds).map(|_| round(&file, readings)).collect();
    let rounds = rounds?;
    let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let ratios = || rounds.iter().map(Round::ratio);
    let (least, greatest) = (
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
    );
    let ratio = of(Round::ratio);
    Ok(Row {
        flows,
        frame_bytes,
        read_ns: of(|round| round.read_ns),
        classify_ns: of(|round| round.classify_ns),
        ratio,
        spread: (greatest - least) / 2.0 / ratio,
        decided_ns: of(|round| round.decided_ns - round.read_ns),
        look_up_ns: of(|round| round.look_up_ns),
    })
}

/// Rows as an aligned table.
pub fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "frame   flows  T0: read  T1: classify  T0/T1  spread  decided flows add   lookup\n",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:>5} {:>7} {:>6.1} ns {:>10.1} ns {:>6.3} {:>5.1} % {:>15.1} ns {:>6.1} ns",
            row.frame_bytes,
            row.flows,
            row.read_ns,
            row.classify_ns,
            row.ratio,
            row.spread * 100.0,
            row.decided_ns,
            row.look_up_ns,
        );
    }
    table
}

/// Nanoseconds for a packet.
struct Round {
    read_ns: f64,
    classify_ns: f64,
    /// Read and classified, when all flows are decided.
    decided_ns: f64,
    look_up_ns: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.read_ns / self.classify_ns
    }
}

fn round(file: &[u8], readings: usize) -> Result<Round, ReadError> {
    let read = |_: Option<u64>, frame: &[u8]| {
        black_box(frame);
    };
    let read_ns = time(file, readings, read)?;
    let mut offline = Offline::new(Settings::default(), (1, 2));
    let mut take = |at: Option<u64>, frame: &[u8]| {
        black_box(offline.take(at, ETHERNET, frame));
    };
    let classify_ns = time(file, readings, &mut take)?;
    // After this, nearly every flow has had its 32 packets: with 10 000 flows, one reading has 10 packets of each.
    time(file, 4, &mut take)?;
    let decided_ns = time(file, readings, &mut take)?;
    Ok(Round {
        read_ns,
        classify_ns,
        decided_ns,
        look_up_ns: look_ups(file, readings)?,
    })
}

/// Nanoseconds for the lookup of a decided flow.
fn look_ups(file: &[u8], readings: usize) -> Result<f64, ReadError> {
    let mut classifier = Classifier::new(Settings::default(), (1, 2));
    let mut keys = Vec::with_capacity(CAPTURE);
    for _ in 0..4 {
        keys.clear();
        time(file, 1, |_, frame| {
            if let Ok(packet) = parse(ETHERNET, frame) {
                classifier.observe(Instant::ZERO, &packet.key, packet.segment);
                keys.push(packet.key);
            }
        })?;
    }
    let start = Clock::now();
    for _ in 0..readings {
        for key in &keys {
            let segment = Segment::Datagram(&[]);
            black_box(classifier.observe(Instant::ZERO, key, segment));
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / (readings * keys.len()) as f64)
}

/// Nanoseconds for a packet of `file`, which is read several times. `take` receives the stamp and a copy of each frame.
fn time(
    file: &[u8],
    readings: usize,
    mut take: impl FnMut(Option<u64>, &[u8]),
) -> Result<f64, ReadError> {
    let mut packet = [0; 2048];
    let (mut packets, start) = (0_u64, Clock::now());
    for _ in 0..readings {
        let (mut reader, mut rest) = (Reader::new(), file);
        loop {
            match reader.step(rest)? {
                Step::Frame(passed, frame) => {
                    let copy = &mut packet[..frame.bytes.len()];
                    copy.copy_from_slice(frame.bytes);
                    take(frame.at, copy);
                    rest = &rest[passed..];
                }
                Step::Passed(passed) => rest = rest.get(passed as usize..).unwrap_or_default(),
                Step::Wanted(_) => break,
            }
        }
        reader.end(rest)?;
        packets += reader.packets();
    }
    Ok(start.elapsed().as_nanos() as f64 / packets as f64)
}

/// A capture in pcap, with microseconds.
fn capture(flows: u32, frame_len: usize, packets: usize) -> Result<Vec<u8>, WireError> {
    let mut random = Streams::new(1).stream("flows");
    let mut seen = vec![0_u32; flows as usize];
    let mut file = Vec::with_capacity(24 + packets * (16 + frame_len));
    let header = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, ETHERNET];
    header
        .iter()
        .for_each(|field| file.extend(field.to_be_bytes()));
    for number in 0..packets as u32 {
        let flow = random.random_range(0..flows);
        let count = &mut seen[flow as usize];
        let frame = frame(flow, *count, frame_len, &mut random)?;
        *count += 1;
        let len = frame_len as u32;
        let record = [number / 100_000, number % 100_000 * 10, len, len];
        record
            .iter()
            .for_each(|field| file.extend(field.to_be_bytes()));
        file.extend(frame);
    }
    Ok(file)
}

/// The `number`th packet of a flow.
fn frame(flow: u32, number: u32, len: usize, random: &mut Stream) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; len];
    let protocol = match flow % 4 {
        0 | 3 => Protocol::UDP,
        _ => Protocol::TCP,
    };
    ethernet::View::new_unchecked(&mut frame[..]).set_ethertype(EtherType::IPV4);
    let source = Ipv4Addr::from_bits(0x0a00_0000 + flow);
    let destination = Ipv4Addr::new(192, 0, 2, 1);
    let ip = ipv4::Repr::new(source, destination, protocol, len - L4)?;
    ip.emit(&mut ipv4::View::new_unchecked(
        &mut frame[ethernet::HEADER_LEN..],
    ));
    let (source_port, port) = (40_000, [5004, 443, 80, 9000][flow as usize % 4]);
    let header_len = match protocol {
        Protocol::UDP => {
            let udp = udp::Repr::new(source_port, port, len - L4 - udp::HEADER_LEN)?;
            udp.emit(&mut udp::View::new_unchecked(&mut frame[L4..]));
            udp::HEADER_LEN
        }
        _ => {
            let mut tcp = tcp::View::new_unchecked(&mut frame[L4..]);
            let repr = tcp::Repr {
                source_port,
                destination_port: port,
                sequence: 1 + number.wrapping_mul((len - L4 - tcp::HEADER_LEN_MIN) as u32),
                acknowledgment: 1,
                flags: tcp::Flags::ACK,
                window: 65_535,
                urgent: 0,
                options: tcp::Options::NONE,
            };
            repr.emit(&mut tcp);
            tcp::HEADER_LEN_MIN
        }
    };
    let payload = &mut frame[L4 + header_len..];
    random.fill(payload);
    let head = match (flow % 4, number) {
        (0, _) => rtp(flow, number).to_vec(),
        (1, 0) => client_hello(),
        (2, 0) => b"GET / HTTP/1.1\r\nHost: weir.test\r\n\r\n".to_vec(),
        _ => Vec::new(),
    };
    let head = &head[..head.len().min(payload.len())];
    payload[..head.len()].copy_from_slice(head);
    Ok(frame)
}

/// The header of an RTP packet (RFC 3550, section 5.1).
fn rtp(source: u32, number: u32) -> [u8; 12] {
    let mut header = [0x80, 111, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    header[4..8].copy_from_slice(&(number * 960).to_be_bytes());
    header[8..].copy_from_slice(&(source + 1).to_be_bytes());
    header
}

/// A ClientHello with a server name, in a record (RFC 8446, sections 4.1.2 and 5.1).
fn client_hello() -> Vec<u8> {
    const NAME: &[u8] = b"weir.test";
    let name = [&[0, 0, 0, 14, 0, 12, 0, 0, 9], NAME].concat(); // extension 0: one host name
    let body = [
        &[3, 3],
        &[7; 32][..],                                   // version, random
        &[0, 0, 2, 0x13, 1, 1, 0, 0, name.len() as u8], // no session, one cipher, no compression
        &name,
    ]
    .concat();
    let (message, record) = (body.len() as u8, body.len() as u8 + 4);
    [&[22, 3, 1, 0, record, 1, 0, 0, message], &body[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_the_classes_that_were_meant() {
        for bytes in FRAME_BYTES {
            let file = capture(8, bytes - CHECK_LEN, 2000).unwrap();
            let mut offline = Offline::new(Settings::default(), (1, 2));
            time(&file, 1, |at, frame| {
                offline.take(at, ETHERNET, frame);
            })
            .unwrap();
            offline.finish();
            let flows: Vec<_> = std::iter::from_fn(|| offline.take_ended()).collect();
            assert_eq!(flows.len(), 8);
            for flow in flows {
                let number = u32::from_be_bytes([
                    0,
                    flow.key.source[1],
                    flow.key.source[2],
                    flow.key.source[3],
                ]);
                let (word, after) = match number % 4 {
                    0 => ("rtp", 2),
                    1 => ("tls", 1),
                    2 => ("http", 1),
                    _ => ("-", 0),
                };
                let class = flow.class.as_ref().map_or("-", |c| c.kind.word());
                assert_eq!((class, flow.decided_after), (word, after), "flow {number}");
            }
        }
    }
}
