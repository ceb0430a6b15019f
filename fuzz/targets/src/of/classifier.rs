//! Takes any bytes as a capture, and classifies its packets; and any bytes as the payloads of one flow.
//!
//! Checks besides "no panic": a reader does not request more than it may, the table keeps its bound, and no flow is
//! lost.

use weir_base::{Instant, Span};
use weir_capture::{RECORD_MAX, Reader, Step};
use weir_classifier::{Classifier, Offline, Segment, Settings};
use weir_packet::FlowKey;

/// Maximum number of flows in the table: few, so that flows are evicted.
const FLOWS: usize = 3;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    capture(bytes);
    payloads(bytes);
}

fn settings() -> Settings {
    Settings {
        flows: FLOWS,
        assemblies: 2,
        ..Settings::default()
    }
}

fn capture(bytes: &[u8]) {
    let (mut reader, mut offline) = (Reader::new(), Offline::new(settings(), (1, 2)));
    let (mut rest, mut classified) = (bytes, 0);
    let ended = loop {
        match reader.step(rest) {
            Ok(Step::Frame(passed, frame)) => {
                let verdict = offline.take(frame.at, frame.link_type, frame.bytes);
                classified += u64::from(verdict.is_some());
                rest = &rest[passed..];
            }
            Ok(Step::Passed(passed)) => {
                rest = rest.get(passed as usize..).unwrap_or_default();
            }
            Ok(Step::Wanted(wanted)) => {
                assert!(wanted > rest.len() && wanted <= RECORD_MAX);
                break reader.end(rest);
            }
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = ended {
        assert!(!error.to_string().is_empty());
        assert_eq!(error.packets, reader.packets());
    }
    let unread = offline.finish();
    let other: u64 = unread.link_types.iter().map(|(_, frames)| frames).sum();
    let unread = unread.not_ip + unread.fragments + unread.malformed + other;
    let flows = std::iter::from_fn(|| offline.take_ended());
    let in_flows: u64 = flows.map(|flow| flow.packets.iter().sum::<u64>()).sum();
    assert_eq!(in_flows, classified);
    assert!(classified + unread <= reader.packets()); // link types beyond the first 16 are not counted
}

/// Each payload follows two bytes: its properties, and its length.
fn payloads(bytes: &[u8]) {
    let mut classifier = Classifier::new(settings(), (1, 2));
    let (mut rest, mut now, mut sequence) = (bytes, Instant::ZERO, [1_u32; 2]);
    while let [kind, len, after @ ..] = rest {
        let (payload, left) = after.split_at(after.len().min(usize::from(*len) * 8));
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let side = usize::from(kind & 1);
        let port = [53, 443, 5004, 40_000][usize::from(kind >> 1 & 3)];
        let protocol = if kind & 8 == 0 { 17 } else { 6 };
        let key = match side {
            0 => FlowKey::ip(a, b, protocol, 40_001, port),
            _ => FlowKey::ip(b, a, protocol, port, 40_001),
        };
        let segment = match kind & 8 {
            0 => Segment::Datagram(payload),
            _ => Segment::Stream {
                sequence: sequence[side].wrapping_sub(u32::from(kind >> 5)),
                is_syn: kind & 16 != 0,
                bytes: payload,
            },
        };
        sequence[side] = sequence[side].wrapping_add(payload.len() as u32);
        now += Span::from_millis(u64::from(*len));
        classifier.observe(now, &key, segment);
        assert!(classifier.flows() <= FLOWS);
        rest = left;
    }
    classifier.finish();
    assert_eq!(classifier.flows(), 0);
}

/// Captures, and first payloads of protocols.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let payloads: [(u8, &[u8]); 6] = [
        (
            0b000,
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04weir\x00\x00\x01\x00\x01",
        ),
        (
            0b010,
            &[
                0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x41, 0, 1, 2, 3, 4,
            ],
        ),
        (0b100, &[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 5, 5, 5, 5]),
        (
            0b100,
            &[
                0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
            ],
        ),
        (0b1010, &[22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0]),
        (0b1110, b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n"),
    ];
    let of = |(kind, payload): &(u8, &[u8])| {
        let mut padded = payload.to_vec();
        padded.resize(payload.len().next_multiple_of(8), 0);
        [&[*kind, (padded.len() / 8) as u8], &padded[..]].concat()
    };
    let mut all: Vec<Vec<u8>> = payloads.iter().map(of).collect();
    all.push(all.concat());
    all.extend(super::capture::seeds());
    all
}
