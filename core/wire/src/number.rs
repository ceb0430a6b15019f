//! The code points that several headers share.

codes! {
    /// Ethernet types: the protocol that a frame carries (IEEE 802 numbers).
    EtherType(u16) {
        /// IPv4.
        IPV4 = 0x0800,
        /// Address resolution for IPv4.
        ARP = 0x0806,
        /// An 802.1Q tag follows.
        VLAN = 0x8100,
        /// IPv6.
        IPV6 = 0x86dd,
        /// An MPLS label stack follows.
        MPLS = 0x8847,
        /// An MPLS label stack with upstream-assigned labels follows (RFC 5332).
        MPLS_UPSTREAM = 0x8848,
        /// The header of a PPPoE session follows.
        PPPOE_SESSION = 0x8864,
        /// An 802.1ad service tag follows.
        SERVICE_VLAN = 0x88a8,
    }
}

codes! {
    /// IP protocols: the protocol after an IP header (IANA protocol numbers).
    Protocol(u8) {
        /// IPv6 hop-by-hop options.
        HOP_BY_HOP = 0,
        /// ICMP.
        ICMPV4 = 1,
        /// TCP.
        TCP = 6,
        /// UDP.
        UDP = 17,
        /// DCCP.
        DCCP = 33,
        /// IPv6 routing header.
        ROUTING = 43,
        /// IPv6 fragment header.
        FRAGMENT = 44,
        /// Generic routing encapsulation.
        GRE = 47,
        /// Encapsulating security payload.
        ESP = 50,
        /// Authentication header.
        AUTHENTICATION = 51,
        /// ICMPv6.
        ICMPV6 = 58,
        /// No header follows an IPv6 header.
        NO_NEXT_HEADER = 59,
        /// IPv6 destination options.
        DESTINATION_OPTIONS = 60,
        /// SCTP.
        SCTP = 132,
        /// UDP-Lite.
        UDP_LITE = 136,
    }
}

impl EtherType {
    /// Whether an 802.1Q or 802.1ad tag follows.
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl Protocol {
    /// Whether the first four bytes are a source and a destination port.
    pub const fn has_ports(self) -> bool {
        matches!(
            self,
            Self::TCP | Self::UDP | Self::DCCP | Self::SCTP | Self::UDP_LITE
        )
    }
}

/// The position of a fragment in its datagram: a multiple of eight bytes below 65536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FragmentOffset(u16);

impl FragmentOffset {
    /// The start of the datagram.
    pub const ZERO: Self = Self(0);

    /// An offset in bytes; `None` if it is not a multiple of eight.
    pub const fn from_bytes(bytes: u16) -> Option<Self> {
        match bytes % 8 {
            0 => Some(Self(bytes / 8)),
            _ => None,
        }
    }

    /// From the thirteen bits of the header; higher bits are ignored.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1fff)
    }

    /// The thirteen bits of the header: units of eight bytes.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The offset in bytes.
    pub const fn bytes(self) -> u16 {
        self.0 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for n in 0..=u8::MAX {
            assert_eq!(u8::from(Protocol::from(n)), n);
        }
        for n in 0..=u16::MAX {
            assert_eq!(u16::from(EtherType::from(n)), n);
        }
    }

    #[test]
    fn a_fragment_offset_is_a_multiple_of_eight() {
        assert_eq!(
            FragmentOffset::from_bytes(1480).map(FragmentOffset::bits),
            Some(185)
        );
        assert_eq!(FragmentOffset::from_bytes(1481), None);
        assert_eq!(FragmentOffset::from_bits(0xffff).bytes(), 65528);
    }
}
