//! The part of a packet that the classifier reads.

/// The transport payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// A datagram of UDP.
    Datagram(&'a [u8]),
    /// A segment of TCP.
    Stream {
        /// The sequence number of its first byte, or of the SYN.
        sequence: u32,
        /// Whether it begins a direction of the connection.
        is_syn: bool,
        /// Its bytes; often none.
        bytes: &'a [u8],
    },
    /// Another protocol, which is not classified.
    Other,
}
