//! Reads captures: pcap in both byte orders, with microseconds or nanoseconds, and pcapng.
//!
//! ```text
//! pcap    header: magic, version, snap length, link type      record: seconds, fraction, kept, original, bytes
//! pcapng  section [order] interface [link type, resolution]    packet: interface, stamp, kept, original, bytes
//! ```
//!
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. The caller owns the bytes. On [`Step::Wanted`] it passes
//! the same bytes again, followed by more; a frame borrows from them. Blocks of unused types are skipped whatever their
//! size, so a caller needs a buffer of [`RECORD_MAX`] bytes only.
//!
//! The library that the writer uses does not read captures here: it ignores the resolution of pcapng stamps, and
//! refuses packets that were truncated to the snap length.

mod fault;
mod pcapng;

pub use fault::{Fault, ReadError};
use pcapng::{SECTION, Section, block};

use crate::writer::SNAP_MAX;

/// Bytes of the longest record that is read: a packet of [`SNAP_MAX`], and as much again for its options.
pub const RECORD_MAX: usize = 2 * SNAP_MAX as usize;
/// Length of the header of a pcap file.
const PCAP_HEADER: usize = 24;
const NANOS: u64 = 1_000_000_000;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Unix time in nanoseconds; `None` for a packet without a stamp.
    pub at: Option<u64>,
    /// The type of the link (`LINKTYPE_` of libpcap).
    pub link_type: u32,
    /// Length of the packet on the link, in bytes.
    pub original_len: u32,
    /// The bytes that were kept.
    pub bytes: &'a [u8],
}

/// One step through a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A packet. The reader has consumed this number of bytes.
    Frame(usize, Frame<'a>),
    /// No packet. The reader has consumed this number of bytes, which may include bytes that the caller has not passed
    /// yet.
    Passed(u64),
    /// The reader needs at least this number of bytes, counted from the first byte passed. Never more than
    /// [`RECORD_MAX`].
    Wanted(usize),
}

/// Reads one capture. Call [`Self::step`] until the bytes are used up, and then [`Self::end`].
#[derive(Clone, Debug)]
pub struct Reader {
    format: Format,
    offset: u64,
    packets: u64,
}

#[derive(Clone, Debug)]
enum Format {
    /// Not known yet; the first bytes decide.
    Unknown,
    Pcap {
        order: ByteOrder,
        /// Nanoseconds per unit of the fraction.
        unit: u64,
        link_type: u32,
        /// Bytes of a record's header.
        header: usize,
    },
    Pcapng(Section),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Big,
    Little,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// A reader at the beginning of a capture.
    pub fn new() -> Self {
        Self {
            format: Format::Unknown,
            offset: 0,
            packets: 0,
        }
    }

    /// Reads the record at the start of `bytes`.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, ReadError> {
        let step = match &mut self.format {
            Format::Unknown => match begin(bytes) {
                Ok(Some((format, passed))) => {
                    self.format = format;
                    Ok(Step::Passed(passed))
                }
                Ok(None) => Ok(Step::Wanted(PCAP_HEADER)),
                Err(fault) => Err(fault),
            },
            Format::Pcap {
                order,
                unit,
                link_type,
                header,
            } => record(bytes, *order, *unit, *link_type, *header),
            Format::Pcapng(section) => block(bytes, section),
        };
        let step = step.map_err(|fault| self.error(fault))?;
        match step {
            Step::Frame(passed, _) => {
                self.offset += passed as u64;
                self.packets += 1;
            }
            Step::Passed(passed) => self.offset += passed,
            Step::Wanted(_) => {}
        }
        Ok(step)
    }

    /// Ends the capture; `left` are the bytes that [`Self::step`] has not consumed. An incomplete record and an empty
    /// file are errors.
    pub fn end(&self, left: &[u8]) -> Result<(), ReadError> {
        match &self.format {
            Format::Unknown => {
                let mut first = [0; 4];
                first
                    .iter_mut()
                    .zip(left)
                    .for_each(|(to, from)| *to = *from);
                let fault = if left.len() < 4 {
                    Fault::Truncated
                } else {
                    Fault::NotACapture(first)
                };
                Err(self.error(fault))
            }
            _ if !left.is_empty() || self.passing().is_some() => Err(self.error(Fault::Truncated)),
            _ => Ok(()),
        }
    }

    /// Number of packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The length of a block that was skipped up to the length at its end.
    fn passing(&self) -> Option<u32> {
        match &self.format {
            Format::Pcapng(section) => section.passing,
            _ => None,
        }
    }

    /// An error in the record that begins at the offset, or that is being skipped.
    fn error(&self, fault: Fault) -> ReadError {
        let passed = self.passing().map_or(0, |len| u64::from(len - 4));
        ReadError {
            offset: self.offset - passed,
            packets: self.packets,
            fault,
        }
    }
}

impl ByteOrder {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Big => u16::from_be_bytes(bytes),
            Self::Little => u16::from_le_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Big => u32::from_be_bytes(bytes),
            Self::Little => u32::from_le_bytes(bytes),
        }
    }
}

/// Fields from the front of a slice.
struct Fields<'a>(ByteOrder, &'a [u8]);

impl Fields<'_> {
    fn u16(&mut self) -> Option<u16> {
        let (field, rest) = self.1.split_first_chunk()?;
        self.1 = rest;
        Some(self.0.u16(*field))
    }

    fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.1.split_first_chunk()?;
        self.1 = rest;
        Some(self.0.u32(*field))
    }
}

/// The format that the first bytes show, and the number of bytes consumed; `None` if more bytes are needed.
fn begin(bytes: &[u8]) -> Result<Option<(Format, u64)>, Fault> {
    const MICRO: u32 = 0xa1b2_c3d4;
    const NANO: u32 = 0xa1b2_3c4d;
    const MODIFIED: u32 = 0xa1b2_cd34; // by A. Kuznetzov: eight more bytes in each record
    let Some(first) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let program = match *first {
        [0x1f, 0x8b, ..] => Some("gunzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("unzstd"),
        [0xfd, b'7', b'z', b'X'] => Some("unxz"),
        [b'B', b'Z', b'h', _] => Some("bunzip2"),
        [0x04, 0x22, 0x4d, 0x18] => Some("unlz4"),
        _ => None,
    };
    if let Some(program) = program {
        return Err(Fault::Compressed(program));
    }
    if u32::from_be_bytes(*first) == SECTION {
        // The section header is a block, and is read as a block.
        let section = Section {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            passing: None,
        };
        return Ok(Some((Format::Pcapng(section), 0)));
    }
    let known = [ByteOrder::Big, ByteOrder::Little]
        .into_iter()
        .find_map(|order| {
            let (unit, header) = match order.u32(*first) {
                MICRO => (1000, 16),
                NANO => (1, 16),
                MODIFIED => (1000, 24),
                _ => return None,
            };
            Some((order, unit, header))
        });
    let Some((order, unit, header)) = known else {
        return Err(Fault::NotACapture(*first));
    };
    let Some(rest) = bytes.get(4..PCAP_HEADER) else {
        return Ok(None);
    };
    let mut fields = Fields(order, rest);
    let major = fields.u16().unwrap_or(0);
    if major != 2 {
        return Err(Fault::Version(major));
    }
    let last = [rest[16], rest[17], rest[18], rest[19]];
    let format = Format::Pcap {
        order,
        unit,
        // The upper half describes the frame check sequence.
        link_type: order.u32(last) & 0xffff,
        header,
    };
    Ok(Some((format, PCAP_HEADER as u64)))
}

/// A record of pcap.
#[inline]
fn record(
    bytes: &[u8],
    order: ByteOrder,
    unit: u64,
    link_type: u32,
    header: usize,
) -> Result<Step<'_>, Fault> {
    let mut fields = Fields(order, bytes);
    let (Some(seconds), Some(fraction), Some(kept), Some(original_len)) =
        (fields.u32(), fields.u32(), fields.u32(), fields.u32())
    else {
        return Ok(Step::Wanted(header));
    };
    if kept > SNAP_MAX {
        return Err(Fault::TooLong(kept));
    }
    let end = header + kept as usize;
    let Some(bytes) = bytes.get(header..end) else {
        return Ok(Step::Wanted(end));
    };
    let at = u64::from(seconds) * NANOS + u64::from(fraction) * unit;
    let frame = Frame {
        at: Some(at),
        link_type,
        original_len,
        bytes,
    };
    Ok(Step::Frame(end, frame))
}

#[cfg(test)]
mod tests {
    use super::fault::INTERFACES_MAX;
    use super::pcapng::{BLOCK_FRAME, ENHANCED_PACKET, INTERFACE, PACKET, SIMPLE_PACKET};
    use super::*;
    use core::time::Duration;
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
    use pcap_file::{DataLink, Endianness, TsResolution};
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_packet::Fate;

    use crate::{Seen, Writer};

    /// Stamp, link type, original length, bytes.
    type Packet = (Option<u64>, u32, u32, Vec<u8>);

    /// Reads a file that arrives in pieces of `piece` bytes.
    fn read(file: &[u8], piece: usize) -> Result<Vec<Packet>, ReadError> {
        let (mut reader, mut packets) = (Reader::new(), Vec::new());
        let (mut at, mut end) = (0, 0);
        loop {
            match reader.step(&file[at..end])? {
                Step::Frame(passed, frame) => {
                    let (stamp, bytes) = (frame.at, frame.bytes.to_vec());
                    packets.push((stamp, frame.link_type, frame.original_len, bytes));
                    at += passed;
                }
                Step::Passed(passed) => {
                    at = file.len().min(at + passed as usize);
                    end = end.max(at);
                }
                Step::Wanted(_) if end < file.len() => end = file.len().min(end + piece),
                Step::Wanted(wanted) => {
                    assert!(wanted > end - at && wanted <= RECORD_MAX);
                    reader.end(&file[at..end])?;
                    return Ok(packets);
                }
            }
        }
    }

    fn fault(file: &[u8]) -> ReadError {
        read(file, 7).unwrap_err()
    }

    fn pcap(order: Endianness, resolution: TsResolution, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let header = PcapHeader {
            endianness: order,
            ts_resolution: resolution,
            datalink: DataLink::RAW,
            ..Default::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (at, bytes) in packets {
            let len = bytes.len() as u32;
            let packet = PcapPacket::new(Duration::from_nanos(*at), len, bytes);
            writer.write_packet(&packet).unwrap();
        }
        writer.into_writer()
    }

    /// A block of pcapng.
    fn block_of(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
        let field = |value: u32| match order {
            ByteOrder::Big => value.to_be_bytes(),
            ByteOrder::Little => value.to_le_bytes(),
        };
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = field((body.len() + BLOCK_FRAME) as u32);
        [&field(kind)[..], &len, &body, &len].concat()
    }

    /// The fields of a block, each two or four bytes.
    fn fields(order: ByteOrder, fields: &[(u32, usize)]) -> Vec<u8> {
        let bytes = |(value, len): &(u32, usize)| match order {
            ByteOrder::Big => value.to_be_bytes()[4 - len..].to_vec(),
            ByteOrder::Little => value.to_le_bytes()[..*len].to_vec(),
        };
        fields.iter().flat_map(bytes).collect()
    }

    fn section(order: ByteOrder) -> Vec<u8> {
        let start = [
            (0x1a2b_3c4d, 4),
            (1, 2),
            (0, 2),
            (u32::MAX, 4),
            (u32::MAX, 4),
        ];
        block_of(order, SECTION, &fields(order, &start))
    }

    /// An interface with these options.
    fn interface(order: ByteOrder, link_type: u32, options: &[u8]) -> Vec<u8> {
        let head = fields(order, &[(link_type, 2), (0, 2), (6, 4)]);
        block_of(order, INTERFACE, &[&head, options].concat())
    }

    fn enhanced(order: ByteOrder, number: u32, stamp: u64, bytes: &[u8]) -> Vec<u8> {
        let (high, low) = ((stamp >> 32) as u32, stamp as u32);
        let lengths = [(bytes.len() as u32, 4), (1500, 4)];
        let head = fields(order, &[(number, 4), (high, 4), (low, 4)]);
        let body = [head, fields(order, &lengths), bytes.to_vec()].concat();
        block_of(order, ENHANCED_PACKET, &body)
    }

    #[test]
    fn blocks_of_both_orders_follow_each_other_in_one_file() {
        let mut file = Vec::new();
        for order in [ByteOrder::Big, ByteOrder::Little] {
            let code = |code, len| fields(order, &[(code, 2), (len, 2)]);
            // Nanoseconds, an offset of one second, and an unknown option, padded.
            let (mut options, mut offset) = (code(9, 1), [0; 8]);
            offset[if order == ByteOrder::Big { 7 } else { 0 }] = 1;
            options.extend([9, 0, 0, 0]);
            options.extend(code(14, 8).iter().chain(&offset));
            options.extend(code(2, 5).iter().chain(b"eth0\xff\0\0\0"));
            options.extend(code(0, 0));
            file.extend(section(order));
            file.extend(interface(order, 101, &options));
            file.extend(interface(order, 1, &[]));
            file.extend(block_of(order, 5, &[0; 40])); // statistics
            file.extend(enhanced(order, 0, 7_000_000_001, b"nano"));
            file.extend(enhanced(order, 1, 7_000_001, b"micro"));
            let old = [(1, 2), (0, 2), (0, 4), (5, 4), (3, 4), (3, 4)];
            let old = [fields(order, &old), b"old".to_vec()].concat();
            file.extend(block_of(order, PACKET, &old));
            let simple = [fields(order, &[(900, 4)]), b"simple!!".to_vec()].concat();
            file.extend(block_of(order, SIMPLE_PACKET, &simple));
        }
        let one = [
            (Some(8_000_000_001), 101, 1500, b"nano".to_vec()),
            (Some(7_000_001_000), 1, 1500, b"micro".to_vec()),
            (Some(5_000), 1, 3, b"old".to_vec()),
            (None, 101, 900, b"simple".to_vec()), // the interface keeps six bytes
        ];
        for piece in [1, 13, 10_000] {
            assert_eq!(read(&file, piece), Ok([one.clone(), one.clone()].concat()));
        }
    }

    #[test]
    fn packets_that_the_snap_length_has_cut_are_read() {
        let mut file = pcap(
            Endianness::Little,
            TsResolution::MicroSecond,
            &[(0, vec![7; 60])],
        );
        file[16..20].copy_from_slice(&60_u32.to_le_bytes()); // snap length
        file[36..40].copy_from_slice(&1500_u32.to_le_bytes()); // original length
        assert_eq!(
            read(&file, 100),
            Ok(vec![(Some(0), 101, 1500, vec![7; 60])])
        );
    }

    #[test]
    fn an_error_says_where_and_why() {
        let packets = [(0, vec![7; 60]), (1, vec![8; 60])];
        let whole = pcap(Endianness::Big, TsResolution::NanoSecond, &packets);
        let cut = fault(&whole[..whole.len() - 1]);
        assert_eq!(
            (cut.offset, cut.packets, cut.fault),
            (100, 1, Fault::Truncated)
        );
        assert!(
            cut.to_string()
                .starts_with("byte 100, after 1 packets: the file ends within the record")
        );
        let mut long = whole.clone();
        long[108..112].copy_from_slice(&[0, 4, 0, 1]);
        assert_eq!(fault(&long).fault, Fault::TooLong(262_145));
        let mut version = whole;
        version[5] = 3;
        assert_eq!(fault(&version).fault, Fault::Version(3));
        assert_eq!(fault(b"").fault, Fault::Truncated);
        assert_eq!(fault(b"#!/bin/sh").fault, Fault::NotACapture(*b"#!/b"));
        assert_eq!(
            fault(&[0x1f, 0x8b, 8, 0]).fault,
            Fault::Compressed("gunzip")
        );

        let order = ByteOrder::Little;
        let start = [section(order), interface(order, 1, &[])].concat();
        let strange = [start.clone(), enhanced(order, 1, 0, b"a")].concat();
        assert_eq!(fault(&strange).fault, Fault::Interface(1));
        let mut contradicts = [start.clone(), enhanced(order, 0, 0, b"a")].concat();
        *contradicts.last_mut().unwrap() = 1;
        assert_eq!(fault(&contradicts).fault, Fault::Lengths);
        let many = interface(order, 1, &[]).repeat(INTERFACES_MAX);
        assert_eq!(
            fault(&[start.clone(), many].concat()).fault,
            Fault::Interfaces
        );
        // The reader does not wait for the bytes of a skipped block, but its end must repeat its length.
        let unread = |len: u8, again: u8| {
            let block = [9, 0, 0, 0, len, 0, 0, 0, 1, 2, 3, 4, again, 0, 0, 0];
            [&start[..], &block, &enhanced(order, 0, 0, b"a")].concat()
        };
        let offset = start.len() as u64;
        assert_eq!(read(&unread(16, 16), 5).map(|packets| packets.len()), Ok(1));
        for (file, reason) in [
            (unread(16, 12), Fault::Lengths),
            (unread(20, 16), Fault::Lengths),
            (unread(240, 16), Fault::Truncated),
            (
                unread(16, 16)[..start.len() + 13].to_vec(),
                Fault::Truncated,
            ),
        ] {
            let error = fault(&file);
            assert_eq!((error.fault, error.offset), (reason, offset));
        }
    }

    proptest! {
        #[test]
        fn files_of_the_library_are_read(
            packets in prop::collection::vec((0_u64..4_000_000_000_000_000_000, prop::collection::vec(any::<u8>(), 0..90)), 0..9),
            is_big: bool,
            is_nano: bool,
            piece in 1_usize..200,
        ) {
            let order = if is_big { Endianness::Big } else { Endianness::Little };
            let resolution = if is_nano { TsResolution::NanoSecond } else { TsResolution::MicroSecond };
            let file = pcap(order, resolution, &packets);
            let unit = if is_nano { 1 } else { 1000 };
            let expected = packets.into_iter().map(|(at, bytes)| (Some(at / unit * unit), 101, bytes.len() as u32, bytes));
            prop_assert_eq!(read(&file, piece), Ok(expected.collect()));
        }

        #[test]
        fn files_of_the_writer_are_read(
            packets in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..90)), 0..9),
            piece in 1_usize..200,
        ) {
            let mut file = Vec::new();
            let mut writer = Writer::new(0, 0, &mut file);
            let interface = writer.interface("a", None, &mut file);
            for (at, frame) in &packets {
                let seen = Seen { interface, at: Instant::from_nanos(*at), frame, original_len: 0, direction: None, fate: Fate::Marked };
                writer.packet(&seen, &mut file);
            }
            let expected = packets.into_iter().map(|(at, bytes)| (Some(at), 1, bytes.len() as u32, bytes));
            prop_assert_eq!(read(&file, piece), Ok(expected.collect()));
        }

        #[test]
        fn no_bytes_make_it_panic(noise in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, byte: u8, is_big: bool) {
            let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
            let mut file = [section(order), interface(order, 1, &noise), enhanced(order, 0, 9, &noise)].concat();
            let at = at.index(file.len());
            file[at] = byte;
            let _ = (read(&file, 64), read(&noise, 3));
            let _ = read(&pcap(Endianness::Big, TsResolution::NanoSecond, &[(1, noise)]), 9);
        }
    }
}
