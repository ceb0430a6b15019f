//! An SCTP packet: a header and chunks (RFC 9260, 3).
//!
//! ```text
//!  0             2             4                  8            12
//! +-------------+-------------+------------------+------------+-------+-------+----
//! | source port | destination | verification tag | CRC32c     | chunk | chunk | ..
//! +-------------+-------------+------------------+------------+-------+-------+----
//!                                                             |
//!                        +------+-------+--------+------------+---------+
//!                        | type | flags | length | value      | padding |
//!                        +------+-------+--------+------------+---------+
//!                          1      1       2        length - 4   to 4 octets
//! ```
//!
//! [`Packet::parse`] checks the checksum and walks all chunks before anything else reads them.

use std::fmt;

use crc::{CRC_32_ISCSI, Crc, Table};

/// Length of the header of a packet.
pub const HEADER_LEN: usize = 12;
/// Length of the header of a chunk.
pub const CHUNK_HEADER_LEN: usize = 4;

const CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Types of chunks (RFC 9260, 3.2; RFC 3758, 3.2).
pub mod kind {
    /// User data.
    pub const DATA: u8 = 0;
    /// Opens an association.
    pub const INIT: u8 = 1;
    /// The answer to an INIT, with a state cookie.
    pub const INIT_ACK: u8 = 2;
    /// Acknowledges user data.
    pub const SACK: u8 = 3;
    /// Requests a HEARTBEAT ACK from the peer.
    pub const HEARTBEAT: u8 = 4;
    /// Answers a HEARTBEAT.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// Ends an association at once.
    pub const ABORT: u8 = 6;
    /// Ends an association after all its data have arrived.
    pub const SHUTDOWN: u8 = 7;
    /// The answer to a SHUTDOWN.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// Returns the state cookie.
    pub const COOKIE_ECHO: u8 = 10;
    /// Confirms that the association is established.
    pub const COOKIE_ACK: u8 = 11;
    /// The answer to a SHUTDOWN ACK.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// Data that the sender has given up (RFC 3758).
    pub const FORWARD_TSN: u8 = 192;
}

/// The header of a packet, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's SCTP port.
    pub source_port: u16,
    /// The receiver's SCTP port.
    pub destination_port: u16,
    /// The receiver's verification tag, or zero in a packet with an INIT.
    pub tag: u32,
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The packet is too short, or a length is inconsistent.
    Length,
    /// The checksum is wrong.
    Checksum,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "a length that does not fit the packet",
            Self::Checksum => "a wrong checksum",
        })
    }
}

/// A packet with a correct checksum and consistent lengths.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The header.
    pub header: Header,
    chunks: &'a [u8],
}

/// One chunk of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Type of the chunk: a constant of [`kind`], or an unknown type.
    pub kind: u8,
    /// Flags; their meaning depends on the type.
    pub flags: u8,
    /// Value without the padding.
    pub value: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the packet in `bytes`, which has at least one chunk.
    ///
    /// The padding of the last chunk may be missing; RFC 9260, 3.2 requires receivers to accept that.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.get(..HEADER_LEN).ok_or(Malformed::Length)?;
        let checksum = u32::from_le_bytes(array(header, 8).ok_or(Malformed::Length)?);
        if checksum != checksum_of(bytes) {
            return Err(Malformed::Checksum);
        }
        let chunks = bytes.get(HEADER_LEN..).ok_or(Malformed::Length)?;
        let mut rest = chunks;
        while !rest.is_empty() {
            (_, rest) = split_chunk(rest).ok_or(Malformed::Length)?;
        }
        if chunks.is_empty() {
            return Err(Malformed::Length);
        }
        Ok(Self {
            header: Header {
                source_port: u16_at(header, 0).ok_or(Malformed::Length)?,
                destination_port: u16_at(header, 2).ok_or(Malformed::Length)?,
                tag: u32_at(header, 4).ok_or(Malformed::Length)?,
            },
            chunks,
        })
    }

    /// The chunks in order, at least one.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
        let mut rest = self.chunks;
        std::iter::from_fn(move || {
            let (chunk, after) = split_chunk(rest)?;
            rest = after;
            Some(chunk)
        })
    }
}

/// Splits the first chunk and its padding off `bytes`.
fn split_chunk(bytes: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    let len = usize::from(u16_at(bytes, 2)?);
    let value = bytes.get(CHUNK_HEADER_LEN..len)?;
    let chunk = Chunk {
        kind: *bytes.first()?,
        flags: *bytes.get(1)?,
        value,
    };
    let padded = len.next_multiple_of(4).min(bytes.len());
    Some((chunk, bytes.get(padded..)?))
}

/// A packet that is being written.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Creates a packet without chunks.
    pub fn new(header: Header) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(header.source_port.to_be_bytes());
        bytes.extend(header.destination_port.to_be_bytes());
        bytes.extend(header.tag.to_be_bytes());
        bytes.extend([0; 4]);
        Self(bytes)
    }

    /// Adds a chunk.
    ///
    /// The value must fit a chunk: a longer value is an error of the caller, and is truncated.
    pub fn chunk(mut self, kind: u8, flags: u8, value: &[u8]) -> Self {
        let len = value.len().min(usize::from(u16::MAX) - CHUNK_HEADER_LEN);
        debug_assert_eq!(len, value.len());
        self.0.extend([kind, flags]);
        self.0
            .extend(((len + CHUNK_HEADER_LEN) as u16).to_be_bytes());
        self.0.extend(value.iter().take(len));
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Writes the checksum, and returns the packet.
    pub fn finish(mut self) -> Vec<u8> {
        seal(&mut self.0);
        self.0
    }
}

/// Writes the checksum of `packet` into its header (RFC 9260, appendix A).
pub fn seal(packet: &mut [u8]) {
    let checksum = checksum_of(packet).to_le_bytes();
    if let Some(field) = packet.get_mut(8..12) {
        field.copy_from_slice(&checksum);
    }
}

/// CRC32c over the packet, with zeros in place of its checksum.
fn checksum_of(packet: &[u8]) -> u32 {
    let mut digest = CRC32C.digest();
    digest.update(packet.get(..8).unwrap_or_default());
    digest.update(&[0; 4]);
    digest.update(packet.get(HEADER_LEN..).unwrap_or_default());
    digest.finalize()
}

/// Calls `change` with the type and the value of each chunk of a packet that the library wrote, then seals the packet.
pub fn rewrite(packet: &mut [u8], mut change: impl FnMut(u8, &mut [u8])) {
    let mut at = HEADER_LEN;
    while let Some(len) = packet.get(at..).and_then(|chunk| u16_at(chunk, 2)) {
        let end = at + usize::from(len);
        let Some(chunk) = packet.get_mut(at..end) else {
            break;
        };
        let Some((header, value)) = chunk.split_at_mut_checked(CHUNK_HEADER_LEN) else {
            break;
        };
        change(header.first().copied().unwrap_or_default(), value);
        at = end.next_multiple_of(4);
    }
    seal(packet);
}

/// The 16 bits at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// The 32 bits at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// `N` octets from `at`.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        source_port: 40000,
        destination_port: 6704,
        tag: 0x0102_0304,
    };

    #[test]
    fn a_packet_is_what_was_written() {
        let bytes = Writer::new(HEADER)
            .chunk(kind::DATA, 3, b"abcde")
            .chunk(kind::COOKIE_ACK, 0, b"")
            .finish();
        assert_eq!(bytes.len(), 12 + 12 + 4);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.header, HEADER);
        let chunks: Vec<_> = packet.chunks().collect();
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[0].value, b"abcde");
        assert_eq!((chunks[0].kind, chunks[0].flags), (kind::DATA, 3));
        assert_eq!(chunks[1].kind, kind::COOKIE_ACK);
    }

    #[test]
    fn the_checksum_is_the_one_of_the_rfc() {
        // RFC 3720, B.4: the CRC32c of 32 octets of zero is aa 36 91 8a on the wire.
        let mut digest = CRC32C.digest();
        digest.update(&[0; 32]);
        assert_eq!(digest.finalize().to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }

    #[test]
    fn every_bit_counts() {
        let bytes = Writer::new(HEADER).chunk(kind::DATA, 3, b"abcde").finish();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::parse(&wrong).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Packet::parse(&bytes[..len]).is_err(), "{len} octets");
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors_although_the_checksum_is_right() {
        for chunk in [
            &[0, 0, 0, 3][..],
            &[0, 0, 0, 9, 1, 2, 3, 4],
            &[0, 0],
            &[0, 0, 0, 4, 7],
            &[],
        ] {
            let mut bytes = Writer::new(HEADER).finish();
            bytes.extend(chunk);
            seal(&mut bytes);
            assert_eq!(Packet::parse(&bytes).unwrap_err(), Malformed::Length);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Packet::parse(&bytes);
            seal(&mut bytes);
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.chunks().count() > 0);
            }
            rewrite(&mut bytes, |_, _| {});
        }
    }
}
