//! Blocks, appended to a vector.
//!
//! The section is little-endian on every machine, so a simulation gives the same file, byte for byte, everywhere.

use core::time::Duration; // a length of time, not a clock
use std::borrow::Cow;
use std::fmt;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness};
use weir_base::{Instant, Rate};
use weir_packet::{Direction, Fate, Reason};

/// Maximum bytes of a frame that are kept; Wireshark reads no more.
pub const SNAP_MAX: u32 = 262_144;
/// Maximum bytes of an interface's name that are kept.
const NAME_BYTES_MAX: usize = 255;
/// Stamps are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Writes one section. Call [`Self::interface`] for each port or link, then [`Self::packet`] for
/// each packet, and at the end, optionally, [`Self::statistics`]. A new interface may be described
/// at any time.
pub struct Writer {
    snap: u32,
    epoch: u64,
    interfaces: u32,
    /// The comments, by number of the reason.
    dropped: [String; Reason::COUNT],
    /// `None` if it could not be created, which does not happen in memory.
    blocks: Option<PcapNgWriter<Vec<u8>>>,
}

/// An interface that a [`Writer`] has described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface(u32);

/// A packet that a capture has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The interface.
    pub interface: Interface,
    /// The time at which it was seen.
    pub at: Instant,
    /// The bytes from the Ethernet header on; the headers alone are enough.
    pub frame: &'a [u8],
    /// The length on the link, in bytes; never less than the number of bytes.
    pub original_len: u32,
    /// The direction, if known.
    pub direction: Option<Direction>,
    /// The fate at the point of capture.
    pub fate: Fate,
}

impl Writer {
    /// Begins a section. The writer keeps the first `snap` bytes of each frame; zero, and more than [`SNAP_MAX`], mean
    /// [`SNAP_MAX`]. `epoch` is [`Instant::ZERO`] in Unix time, in nanoseconds: zero for a simulation.
    pub fn new(snap: u32, epoch: u64, out: &mut Vec<u8>) -> Self {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication("weir".into())],
            ..Default::default()
        };
        let mut blocks = PcapNgWriter::with_section_header(Vec::new(), section).ok();
        if let Some(blocks) = &mut blocks {
            out.append(blocks.get_mut());
        }
        Self {
            snap: match snap {
                0 => SNAP_MAX,
                snap => snap.min(SNAP_MAX),
            },
            epoch,
            interfaces: 0,
            dropped: Reason::ALL.map(|r| format!("dropped: {} ({})", r.name(), r.sentence())),
            blocks,
        }
    }

    /// Describes an Ethernet interface, with the rate of its link, if that is known.
    pub fn interface(&mut self, name: &str, rate: Option<Rate>, out: &mut Vec<u8>) -> Interface {
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(&name[..end])),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        options.extend(rate.map(|r| InterfaceDescriptionOption::IfSpeed(r.as_bps())));
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: self.snap,
            options,
        };
        append(&mut self.blocks, block, out);
        let number = self.interfaces;
        self.interfaces += 1;
        Interface(number)
    }

    /// Writes a packet, unless this writer has not described its interface.
    pub fn packet(&mut self, seen: &Seen<'_>, out: &mut Vec<u8>) {
        let whole = u32::try_from(seen.frame.len()).unwrap_or(u32::MAX);
        let kept = seen.frame.len().min(self.snap as usize);
        let mut options = Vec::with_capacity(2);
        if let Some(direction) = seen.direction {
            options.push(EnhancedPacketOption::Flags(flags(direction)));
        }
        let comment = match seen.fate {
            Fate::Passed => None,
            Fate::Marked => Some("marked: congestion"),
            Fate::Dropped(reason) => Some(self.dropped[reason as usize].as_str()),
        };
        options.extend(comment.map(|c| EnhancedPacketOption::Comment(Cow::Borrowed(c))));
        let block = EnhancedPacketBlock {
            interface_id: seen.interface.0,
            timestamp: Duration::from_nanos(unix_nanos(self.epoch, seen.at)),
            original_len: seen.original_len.max(whole),
            data: Cow::Borrowed(&seen.frame[..kept]),
            options,
        };
        append(&mut self.blocks, block, out);
    }

    /// Records that the capture missed `missed` packets of an interface up to `at`.
    pub fn statistics(
        &mut self,
        interface: Interface,
        at: Instant,
        missed: u64,
        out: &mut Vec<u8>,
    ) {
        let block = InterfaceStatisticsBlock {
            interface_id: interface.0,
            // The format has the upper half first, but the library writes the lower half first.
            timestamp: unix_nanos(self.epoch, at).rotate_left(32),
            options: vec![InterfaceStatisticsOption::IsbOsDrop(missed)],
        };
        append(&mut self.blocks, block, out);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("snap", &self.snap)
            .field("interfaces", &self.interfaces)
            .finish_non_exhaustive()
    }
}

/// Appends a block to `out`. The library refuses a block of an interface that it does not know, and
/// then there is nothing to append.
fn append<'a>(
    blocks: &mut Option<PcapNgWriter<Vec<u8>>>,
    block: impl PcapNgBlock<'a>,
    out: &mut Vec<u8>,
) {
    if let Some(blocks) = blocks {
        let _ = blocks.write_pcapng_block(block);
        out.append(blocks.get_mut());
    }
}

fn unix_nanos(epoch: u64, at: Instant) -> u64 {
    epoch.saturating_add(at.as_nanos())
}

/// The two lowest bits of `epb_flags`.
fn flags(direction: Direction) -> u32 {
    match direction {
        Direction::Inbound => 0b01,
        Direction::Outbound => 0b10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use proptest::prelude::*;

    /// 2026-01-01 00:00:00 UTC.
    const EPOCH: u64 = 1_767_225_600_000_000_000;

    fn blocks(bytes: &[u8]) -> Vec<Block<'static>> {
        let mut reader = PcapNgReader::new(bytes).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block() {
            blocks.push(block.unwrap().into_owned());
        }
        blocks
    }

    fn packets(bytes: &[u8]) -> Vec<EnhancedPacketBlock<'static>> {
        let packets = blocks(bytes).into_iter();
        packets.filter_map(Block::into_enhanced_packet).collect()
    }

    fn seen(interface: Interface, frame: &[u8], fate: Fate) -> Seen<'_> {
        Seen {
            interface,
            at: Instant::from_nanos(1),
            frame,
            original_len: 0,
            direction: None,
            fate,
        }
    }

    fn comment(packet: &EnhancedPacketBlock<'_>) -> Option<String> {
        packet.options.iter().find_map(|option| match option {
            EnhancedPacketOption::Comment(text) => Some(text.to_string()),
            _ => None,
        })
    }

    #[test]
    fn a_file_says_who_wrote_it_and_what_its_interfaces_are() {
        let mut out = Vec::new();
        let mut writer = Writer::new(96, EPOCH, &mut out);
        writer.interface("wan", Some(Rate::from_mbps(50)), &mut out);
        writer.interface("lan", None, &mut out);
        let reader = PcapNgReader::new(out.as_slice()).unwrap();
        let application = SectionHeaderOption::UserApplication("weir".into());
        assert_eq!(reader.section().options, [application]);
        let blocks = blocks(&out);
        let [
            Block::InterfaceDescription(wan),
            Block::InterfaceDescription(lan),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}");
        };
        assert_eq!((wan.linktype, wan.snaplen), (DataLink::ETHERNET, 96));
        let expected = [
            InterfaceDescriptionOption::IfName("wan".into()),
            InterfaceDescriptionOption::IfTsResol(9),
            InterfaceDescriptionOption::IfSpeed(50_000_000),
        ];
        assert_eq!(wan.options, expected);
        assert_eq!(
            lan.options,
            [
                InterfaceDescriptionOption::IfName("lan".into()),
                InterfaceDescriptionOption::IfTsResol(9),
            ]
        );
    }

    #[test]
    fn the_fate_is_a_comment() {
        let mut out = Vec::new();
        let mut writer = Writer::new(0, EPOCH, &mut out);
        let wan = writer.interface("wan", None, &mut out);
        for fate in [Fate::Passed, Fate::Marked, Fate::Dropped(Reason::QueueFull)] {
            writer.packet(&seen(wan, b"frame", fate), &mut out);
        }
        let comments: Vec<_> = packets(&out).iter().map(comment).collect();
        let expected = [
            None,
            Some("marked: congestion".to_owned()),
            Some("dropped: queue-full (The queue was full.)".to_owned()),
        ];
        assert_eq!(comments, expected);
    }

    #[test]
    fn a_section_is_the_same_on_every_machine() {
        let mut out = Vec::new();
        Writer::new(96, 0, &mut out);
        #[rustfmt::skip]
        let expected = [
            0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 4, 0, b'w', b'e', b'i', b'r',
            0, 0, 0, 0, 40, 0, 0, 0,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn statistics_have_the_upper_half_of_their_stamp_first() {
        let mut out = Vec::new();
        let mut writer = Writer::new(96, 0, &mut out);
        let wan = writer.interface("wan", None, &mut out);
        let begin = out.len();
        let at = Instant::from_nanos(0x0102_0304_0506_0708);
        writer.statistics(wan, at, 7, &mut out);
        let stamp = &out[begin + 12..begin + 20];
        assert_eq!(stamp, [4, 3, 2, 1, 8, 7, 6, 5]);
        let last = blocks(&out)
            .pop()
            .and_then(Block::into_interface_statistics);
        let missed = InterfaceStatisticsOption::IsbOsDrop(7);
        assert_eq!(last.unwrap().options, [missed]);
    }

    #[test]
    fn a_packet_of_another_writers_interface_is_left_out() {
        let mut other = Writer::new(96, 0, &mut Vec::new());
        other.interface("a", None, &mut Vec::new());
        let strange = other.interface("b", None, &mut Vec::new());
        let mut out = Vec::new();
        let mut writer = Writer::new(96, 0, &mut out);
        let known = writer.interface("c", None, &mut out);
        writer.packet(&seen(strange, b"left out", Fate::Passed), &mut out);
        writer.packet(&seen(known, b"written", Fate::Passed), &mut out);
        let packets = packets(&out);
        assert_eq!(packets.len(), 1);
        assert_eq!(packets[0].data.as_ref(), b"written");
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            Just(Fate::Passed),
            Just(Fate::Marked),
            (0..Reason::COUNT).prop_map(|n| Fate::Dropped(Reason::ALL[n])),
        ]
    }

    fn direction() -> impl Strategy<Value = Option<Direction>> {
        prop_oneof![
            Just(None),
            Just(Some(Direction::Inbound)),
            Just(Some(Direction::Outbound)),
        ]
    }

    type Drawn = (usize, u64, Vec<u8>, u32, Option<Direction>, Fate);

    fn drawn() -> impl Strategy<Value = Drawn> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        (
            0..3_usize,
            any::<u64>(),
            bytes,
            any::<u32>(),
            direction(),
            fate(),
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            snap in 0..300_u32,
            epoch in any::<u64>(),
            names in proptest::collection::vec(".{0,300}", 3),
            list in proptest::collection::vec(drawn(), 0..40),
        ) {
            let mut out = Vec::new();
            let mut writer = Writer::new(snap, epoch, &mut out);
            let interfaces: Vec<_> =
                names.iter().map(|n| writer.interface(n, None, &mut out)).collect();
            for (on, at, frame, original_len, direction, fate) in &list {
                let seen = Seen {
                    interface: interfaces[*on],
                    at: Instant::from_nanos(*at),
                    frame,
                    original_len: *original_len,
                    direction: *direction,
                    fate: *fate,
                };
                writer.packet(&seen, &mut out);
            }
            prop_assert_eq!(out.len() % 4, 0);
            let packets = packets(&out);
            prop_assert_eq!(packets.len(), list.len());
            for (packet, (on, at, frame, original_len, direction, fate)) in packets.iter().zip(&list) {
                let snap = if snap == 0 { usize::MAX } else { snap as usize };
                prop_assert_eq!(packet.interface_id as usize, *on);
                prop_assert_eq!(packet.timestamp.as_nanos(), u128::from(epoch.saturating_add(*at)));
                prop_assert_eq!(packet.data.as_ref(), &frame[..frame.len().min(snap)]);
                prop_assert_eq!(packet.original_len, (*original_len).max(frame.len() as u32));
                let flags = packet.options.iter().find_map(|o| match o {
                    EnhancedPacketOption::Flags(flags) => Some(*flags),
                    _ => None,
                });
                prop_assert_eq!(flags, direction.map(|d| match d {
                    Direction::Inbound => 1,
                    Direction::Outbound => 2,
                }));
                let expected = match fate {
                    Fate::Passed => None,
                    Fate::Marked => Some("marked: congestion".to_owned()),
                    Fate::Dropped(r) => Some(format!("dropped: {} ({})", r.name(), r.sentence())),
                };
                prop_assert_eq!(comment(packet), expected);
            }
        }
    }
}
