//! The reasons for which reading a capture stops.

use std::fmt;

use crate::writer::SNAP_MAX;

/// Maximum number of interfaces of a section.
pub(super) const INTERFACES_MAX: usize = 4096;

/// The error that stops reading a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
    /// Number of packets before the record.
    pub packets: u64,
    /// The reason.
    pub fault: Fault,
}

/// The reasons for which reading a capture stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first bytes match no known format.
    NotACapture([u8; 4]),
    /// The file is compressed; this program decompresses it.
    Compressed(&'static str),
    /// The version of the format is not supported.
    Version(u16),
    /// The file ends within a header or a packet.
    Truncated,
    /// A record is longer than [`RECORD_MAX`](super::RECORD_MAX), or a packet longer than [`SNAP_MAX`].
    TooLong(u32),
    /// Lengths of a block contradict each other.
    Lengths,
    /// A packet belongs to an interface that was not described before.
    Interface(u32),
    /// The file describes more than 4096 interfaces.
    Interfaces,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset, packets, ..
        } = self;
        match self.fault {
            Fault::NotACapture([a, b, c, d]) => write!(
                f,
                "the file begins with {a:02x} {b:02x} {c:02x} {d:02x}, which is neither pcap nor pcapng"
            ),
            Fault::Compressed(program) => {
                write!(f, "the file is compressed; decompress it with `{program}`")
            }
            Fault::Version(version) => write!(
                f,
                "byte {offset}: unsupported format version {version}; weir reads pcap version 2 and pcapng version 1"
            ),
            Fault::Truncated => write!(
                f,
                "byte {offset}, after {packets} packets: the file ends within the record that begins here; the \
                 program that wrote it was stopped, or the file was not copied completely"
            ),
            Fault::TooLong(len) => write!(
                f,
                "byte {offset}: packet {} has {len} bytes, but at most {SNAP_MAX} are permitted; the file is damaged \
                 here",
                packets + 1
            ),
            Fault::Lengths => write!(
                f,
                "byte {offset}, after {packets} packets: block lengths contradict each other; the file is damaged here"
            ),
            Fault::Interface(number) => write!(
                f,
                "byte {offset}: packet {} belongs to interface {number}, which the file does not describe",
                packets + 1
            ),
            Fault::Interfaces => write!(
                f,
                "byte {offset}: the file describes more than {INTERFACES_MAX} interfaces"
            ),
        }
    }
}

impl std::error::Error for ReadError {}
