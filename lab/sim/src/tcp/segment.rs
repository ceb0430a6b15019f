//! A TCP segment in the simulator: everything except the bytes.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

use super::range::Range;

/// Bytes of a TCP header without options (RFC 9293, section 3.1).
const HEADER_BYTES: u32 = 20;
/// Bytes of the timestamp option, padded (RFC 7323, appendix A).
const TIMESTAMPS_BYTES: u32 = 12;

/// One segment; it fits in a cache line.
///
/// Sequence numbers have 64 bits and never wrap. The SYN occupies number 0, data starts at 1, and
/// the FIN occupies the number after the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first byte, or of the SYN or FIN.
    pub sequence: u64,
    /// The next number that the sender of this segment expects; valid with [`Flags::ACK`].
    pub acknowledgment: u64,
    /// Bytes of data.
    pub payload: u32,
    /// Bytes from `acknowledgment` on that the sender of this segment can receive, already scaled.
    pub window: u32,
    /// Timestamp value in microseconds, wrapping (RFC 7323); valid with [`Flags::TIMESTAMPS`].
    pub timestamp: u32,
    /// Timestamp echo reply.
    pub echo: u32,
    /// The maximum segment size of the sender of this segment; only on a SYN.
    pub mss: u32,
    /// Selective acknowledgments (RFC 2018).
    pub sack: SackBlocks,
    /// Control bits, and flags for the options that are present.
    pub flags: Flags,
    /// ECT(0) in the IP header: only on new data of a connection that has negotiated ECN (RFC 3168, section 6.1).
    pub ecn_capable: bool,
}

impl Segment {
    /// Length in the sequence space: data, SYN and FIN.
    pub const fn length(&self) -> u64 {
        let syn = self.flags.contains(Flags::SYN) as u64;
        let fin = self.flags.contains(Flags::FIN) as u64;
        self.payload as u64 + syn + fin
    }

    /// The range of the segment in the sequence space.
    pub const fn range(&self) -> Range {
        Range::new(self.sequence, self.sequence + self.length())
    }

    /// Length of the TCP header with options, padded as in Linux.
    pub fn header_bytes(&self) -> u32 {
        let timestamps = self.flags.contains(Flags::TIMESTAMPS);
        if self.flags.contains(Flags::SYN) {
            // MSS 4 and window scale 3+1; timestamps 10 and SACK permitted 2 share their padding.
            let sack = self.flags.contains(Flags::SACK_PERMITTED);
            return HEADER_BYTES
                + match (timestamps, sack) {
                    (true, _) => 20,
                    (false, true) => 12,
                    (false, false) => 8,
                };
        }
        let sack = match self.sack.count() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        HEADER_BYTES + sack + if timestamps { TIMESTAMPS_BYTES } else { 0 }
    }
}

/// Control bits of a header (RFC 9293 and RFC 3168), and two bits for options without content.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Synchronise: the first segment of a direction.
    pub const SYN: Self = Self(1);
    /// The sender has no more data.
    pub const FIN: Self = Self(1 << 1);
    /// The acknowledgment is valid.
    pub const ACK: Self = Self(1 << 2);
    /// The connection is refused or given up.
    pub const RST: Self = Self(1 << 3);
    /// ECN echo: a packet in the other direction was marked.
    pub const ECE: Self = Self(1 << 4);
    /// Congestion window reduced: confirms the echo.
    pub const CWR: Self = Self(1 << 5);
    /// The option that permits SACK, on a SYN.
    pub const SACK_PERMITTED: Self = Self(1 << 6);
    /// The timestamp option.
    pub const TIMESTAMPS: Self = Self(1 << 7);

    const NAMES: [&str; 8] = ["SYN", "FIN", "ACK", "RST", "ECE", "CWR", "sackOK", "TS"];

    /// No flag.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags if `condition` holds, otherwise none.
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }
}

impl BitAnd for Flags {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    /// `SYN|ACK`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 >> bit & 1 == 1);
        let mut separator = "";
        for (_, name) in set {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        Ok(())
    }
}

/// Up to three SACK blocks, as offsets from the segment's acknowledgment.
///
/// A header with timestamps has room for three (RFC 2018, section 3); a fourth would make every segment larger than a
/// cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks([(u32, u32); SackBlocks::MAX]);

impl SackBlocks {
    /// Maximum blocks in one segment.
    pub const MAX: usize = 3;

    /// The first three of those `ranges` that are above `acknowledgment`.
    pub fn new(acknowledgment: u64, ranges: &[Range]) -> Self {
        let mut blocks = Self::default();
        let above = ranges.iter().filter(|r| r.start > acknowledgment);
        for (block, range) in blocks.0.iter_mut().zip(above) {
            let offset = |sequence: u64| (sequence - acknowledgment) as u32;
            *block = (offset(range.start), offset(range.end));
        }
        blocks
    }

    /// Whether there are no blocks.
    pub const fn is_empty(&self) -> bool {
        self.0[0].1 == 0
    }

    /// Number of blocks.
    pub fn count(&self) -> u32 {
        self.0.iter().filter(|block| block.1 > 0).count() as u32
    }

    /// The blocks as sequence numbers, in the order of the option.
    pub fn ranges(&self, acknowledgment: u64) -> impl Iterator<Item = Range> {
        self.0
            .into_iter()
            .take_while(|block| block.1 > 0)
            .map(move |(start, end)| {
                Range::new(
                    acknowledgment + u64::from(start),
                    acknowledgment + u64::from(end),
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_fits_one_cache_line() {
        assert_eq!(size_of::<Segment>(), 64);
    }

    #[test]
    fn headers_are_as_long_as_those_of_linux() {
        let mut syn = Segment {
            flags: Flags::SYN,
            ..Segment::default()
        };
        assert_eq!(syn.header_bytes(), 28);
        syn.flags |= Flags::SACK_PERMITTED;
        assert_eq!(syn.header_bytes(), 32);
        syn.flags |= Flags::TIMESTAMPS;
        assert_eq!(syn.header_bytes(), 40);
        let mut ack = Segment {
            flags: Flags::ACK,
            acknowledgment: 100,
            ..Segment::default()
        };
        assert_eq!(ack.header_bytes(), 20);
        ack.flags |= Flags::TIMESTAMPS;
        assert_eq!(ack.header_bytes(), 32);
        ack.sack = SackBlocks::new(100, &[Range::new(110, 120), Range::new(130, 140)]);
        assert_eq!(ack.header_bytes(), 32 + 4 + 16);
    }

    #[test]
    fn sack_blocks_survive_a_round_trip() {
        let ranges = [Range::new(110, 120), Range::new(102, 105)];
        let blocks = SackBlocks::new(100, &ranges);
        assert!(blocks.ranges(100).eq(ranges));
        assert_eq!(blocks.count(), 2);
        assert!(!blocks.is_empty());
        assert!(SackBlocks::default().is_empty());
    }

    #[test]
    fn flags_print_their_names() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
    }

    #[test]
    fn syn_and_fin_occupy_the_sequence_space() {
        let segment = Segment {
            sequence: 7,
            payload: 10,
            flags: Flags::FIN | Flags::ACK,
            ..Segment::default()
        };
        assert_eq!(segment.range(), Range::new(7, 18));
    }
}
