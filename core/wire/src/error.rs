//! Errors in headers: the header, the field, the value found, and the values permitted.

use std::fmt;

/// The headers of this crate, as errors name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II.
    Ethernet,
    /// 802.1Q tag.
    Vlan,
    /// Flexible packet forwarding.
    Fpf,
    /// A segment of a packet with an FPF header.
    FpfSegment,
    /// A named chunk of content.
    Chunk,
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// An IPv4 option.
    Ipv4Option,
    /// IPv6.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// GRE.
    Gre,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmpv4,
    /// ICMPv6.
    Icmpv6,
    /// Neighbour discovery.
    NeighbourDiscovery,
}

/// Why bytes could not be read as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the header does.
    #[error("{header}: needs {needed} bytes, found {found}")]
    Truncated {
        /// The header.
        header: Header,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes in the buffer.
        found: usize,
    },
    /// A field has a value that contradicts the format or another field.
    #[error("{header}: {field} is {found}, but must be from {least} to {most}")]
    NotPermitted {
        /// The header.
        header: Header,
        /// The field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// The least value permitted.
        least: u64,
        /// The greatest value permitted.
        most: u64,
    },
    /// The checksum does not match the bytes.
    #[error("{header}: checksum is {found:#06x}, but must be {permitted:#06x}")]
    Checksum {
        /// The header.
        header: Header,
        /// The checksum found.
        found: u16,
        /// The correct checksum.
        permitted: u16,
    },
    /// The checksum field is outside the bytes.
    #[error("the checksum field is at byte {at}, but there are only {len} bytes")]
    ChecksumOutside {
        /// Where the field begins.
        at: usize,
        /// Number of bytes.
        len: usize,
    },
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet header",
            Self::Vlan => "802.1Q tag",
            Self::Fpf => "FPF header",
            Self::FpfSegment => "FPF segment header",
            Self::Chunk => "chunk header",
            Self::Arp => "ARP message",
            Self::Ipv4 => "IPv4 header",
            Self::Ipv4Option => "IPv4 option",
            Self::Ipv6 => "IPv6 header",
            Self::Ipv6Extension => "IPv6 extension header",
            Self::Gre => "GRE header",
            Self::Tcp => "TCP header",
            Self::Udp => "UDP header",
            Self::Icmpv4 => "ICMP header",
            Self::Icmpv6 => "ICMPv6 header",
            Self::NeighbourDiscovery => "neighbour discovery",
        })
    }
}

/// Succeeds if `found` bytes are enough for the `needed` bytes of `header`.
#[inline]
pub(crate) fn needs(header: Header, needed: usize, found: usize) -> Result<(), WireError> {
    if found >= needed {
        return Ok(());
    }
    Err(WireError::Truncated {
        header,
        needed,
        found,
    })
}

/// Succeeds if `found` lies between `least` and `most`, both included.
#[inline]
pub(crate) fn permit(
    header: Header,
    field: &'static str,
    found: impl Into<u64>,
    least: u64,
    most: u64,
) -> Result<(), WireError> {
    let found = found.into();
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(WireError::NotPermitted {
        header,
        field,
        found,
        least,
        most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_found_and_what_is_permitted() {
        let error = permit(Header::Ipv4, "version", 6_u8, 4, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "IPv4 header: version is 6, but must be from 4 to 4"
        );
        let error = needs(Header::Udp, 8, 3).unwrap_err();
        assert_eq!(error.to_string(), "UDP header: needs 8 bytes, found 3");
    }
}
