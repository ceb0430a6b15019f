//! Reads any bytes as a capture (pcap, pcapng), whole and in pieces.
//!
//! Checks besides "no panic": both ways read the same frames and the same error, and a reader does not request more
//! bytes than it may.

use weir_base::Instant;
use weir_capture::{Direction, Fate, RECORD_MAX, Reader, Seen, Step, Writer};

/// Length and link type of each frame, and the error, if any.
type Read = (Vec<(usize, u32)>, Option<String>);

/// The target: the first byte is the size of the pieces.
pub(crate) fn target(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = read(bytes, bytes.len());
    assert_eq!(read(bytes, usize::from(*piece) + 1), whole);
}

/// Reads the bytes; whenever the reader wants more, it gets a piece of this size.
fn read(bytes: &[u8], piece: usize) -> Read {
    let mut reader = Reader::new();
    let (mut at, mut had, mut frames) = (0, 0, Vec::new());
    loop {
        match reader.step(&bytes[at..had]) {
            Ok(Step::Frame(passed, frame)) => {
                frames.push((frame.bytes.len(), frame.link_type));
                at += passed;
            }
            Ok(Step::Passed(passed)) => {
                at = at.saturating_add(passed as usize).min(bytes.len());
                had = had.max(at);
            }
            Ok(Step::Wanted(wanted)) => {
                assert!(wanted > had - at && wanted <= RECORD_MAX);
                if had == bytes.len() {
                    let ended = reader.end(&bytes[at..]);
                    return (frames, ended.err().map(|error| error.to_string()));
                }
                had = bytes.len().min(had + piece);
            }
            Err(error) => return (frames, Some(error.to_string())),
        }
    }
}

/// A capture in each format, with two frames.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let frames = super::frames::seeds();
    let frames = [&frames[4], &frames[5]];
    let mut pcapng = vec![7];
    let mut writer = Writer::new(96, 1_700_000_000_000_000_000, &mut pcapng);
    let interface = writer.interface("wan", None, &mut pcapng);
    let mut pcap = [
        &[7][..],
        &0xa1b2_c3d4_u32.to_le_bytes(),
        &[2, 0, 4, 0],
        &[0; 8],
        &[0, 0, 1, 0, 1, 0, 0, 0],
    ]
    .concat();
    for (number, frame) in frames.iter().enumerate() {
        let seen = Seen {
            interface,
            at: Instant::from_nanos(number as u64 * 1_000_000),
            frame,
            original_len: frame.len() as u32,
            direction: Some(Direction::Outbound),
            fate: Fate::Passed,
        };
        writer.packet(&seen, &mut pcapng);
        let len = (frame.len() as u32).to_le_bytes();
        pcap.extend(
            [
                &(number as u32).to_le_bytes()[..],
                &[9, 0, 0, 0],
                &len,
                &len,
                frame,
            ]
            .concat(),
        );
    }
    vec![pcapng, pcap]
}
