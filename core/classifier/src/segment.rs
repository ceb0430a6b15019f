//! The part of a packet that the classifier reads.

use weir_wire::{Protocol, tcp, udp};

/// The transport payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// A datagram of UDP.
    Datagram(&'a [u8]),
    /// A segment of TCP.
    Stream {
        /// The sequence number of the first byte, or of the SYN.
        sequence: u32,
        /// Whether the segment begins a direction of the connection.
        is_syn: bool,
        /// The bytes of the segment; often empty.
        bytes: &'a [u8],
    },
    /// Another protocol, which is not classified.
    Other,
}

impl<'a> Segment<'a> {
    /// The segment in the bytes after the headers of an IP packet with this protocol number; `None` if its header is
    /// truncated. The payload may be truncated.
    pub fn parse(protocol: u8, bytes: &'a [u8]) -> Option<Self> {
        match Protocol::from(protocol) {
            Protocol::TCP => {
                let view = tcp::View::new_checked(bytes).ok()?;
                Some(Self::Stream {
                    sequence: view.sequence(),
                    is_syn: view.flags().contain(tcp::Flags::SYN),
                    bytes: bytes.get(view.header_len()..)?,
                })
            }
            Protocol::UDP => {
                let view = udp::View::new_checked(bytes).ok()?;
                let len = match usize::from(view.length()) {
                    0 => bytes.len(), // a jumbogram, or a segment before segmentation
                    len => len.min(bytes.len()),
                };
                Some(Self::Datagram(bytes.get(udp::HEADER_LEN..len)?))
            }
            _ => Some(Self::Other),
        }
    }
}
