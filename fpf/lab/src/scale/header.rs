//! Sizes of LIDs and headers: those of FPF, by the paper's formula (1), and those of today's source routing.

/// Length of the fields Length and Index, in bytes.
pub const FIXED_BYTES: u32 = 2;
/// Behaviours of a domain for each routing path through it (DB of formula 1), as in Table II.
const BEHAVIOURS: u64 = 3;
/// Bytes of an IPv6 header, and of a routing header (RFC 8754) before its segments.
const IPV6_BYTES: u32 = 40;
const SRH_BYTES: u32 = 8;
/// Bytes of a SID, and of a container of compressed SIDs (RFC 9800).
const SID_BYTES: u32 = 16;
/// Bits of a locator block and of a compressed SID.
const BLOCK_BITS: u32 = 32;
const CSID_BITS: u32 = 16;

/// Number of LIDs of a domain with this degree in Table II: its behaviours, and one special rule, for each link.
pub fn lids(degree: u32) -> u64 {
    u64::from(degree) * BEHAVIOURS + u64::from(degree)
}

/// Bytes of each of these LIDs by formula (1).
pub fn lid_bytes(degree: u32) -> u32 {
    weir_paths::lid_bytes(degree.into(), BEHAVIOURS, degree.into())
}

/// A header that lists the hops of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// FPF with LIDs of this many bytes.
    Fpf(u32),
    /// SR-MPLS: a label stack entry of 4 bytes for each hop (RFC 8660).
    SrMpls,
    /// SRv6: a routing header with a SID of 16 bytes for each hop (RFC 8754). The outer IPv6 header is not
    /// counted.
    Srv6,
    /// SRv6 with NEXT-C-SID (RFC 9800): a block of 32 bits in each container, and six C-SIDs of 16 bits. The first
    /// container is the destination address, so up to six hops need no routing header.
    NextCSid,
    /// SRv6 with REPLACE-C-SID (RFC 9800): the first SID is whole, each further container has eight C-SIDs of 16 bits.
    ReplaceCSid,
}

impl Header {
    /// All compared headers, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("FPF, 1-byte LIDs", Self::Fpf(1)),
        ("FPF, 2-byte LIDs", Self::Fpf(2)),
        ("SR-MPLS", Self::SrMpls),
        ("SRv6", Self::Srv6),
        ("SRv6, NEXT-C-SID", Self::NextCSid),
        ("SRv6, REPLACE-C-SID", Self::ReplaceCSid),
    ];

    /// Bytes of the list for a path of this many hops, at least one. Excludes link-layer headers, and the IPv6 header
    /// that carries a routing header or a container.
    pub const fn bytes(self, hops: u32) -> u32 {
        match self {
            Self::Fpf(lid_bytes) => FIXED_BYTES + lid_bytes * hops,
            Self::SrMpls => 4 * hops,
            Self::Srv6 => SRH_BYTES + SID_BYTES * hops,
            Self::NextCSid => {
                let each = (8 * SID_BYTES - BLOCK_BITS) / CSID_BITS;
                routing_header(hops.div_ceil(each) - 1)
            }
            Self::ReplaceCSid => {
                let each = 8 * SID_BYTES / CSID_BITS;
                // The first C-SID is in the destination address; the list begins with the second.
                routing_header((hops - 1).div_ceil(each))
            }
        }
    }

    /// Like [`Self::bytes`], with the IPv6 header in which SRv6 encapsulates a transit packet (RFC 8986, H.Encaps.Red).
    pub const fn encapsulated_bytes(self, hops: u32) -> u32 {
        match self {
            Self::Fpf(_) | Self::SrMpls => self.bytes(hops),
            // The first segment is the outer destination and is left out of the list.
            Self::Srv6 => IPV6_BYTES + routing_header(hops - 1),
            Self::NextCSid | Self::ReplaceCSid => IPV6_BYTES + self.bytes(hops),
        }
    }
}

/// Bytes of a routing header with this many segments; zero without segments.
const fn routing_header(segments: u32) -> u32 {
    match segments {
        0 => 0,
        n => SRH_BYTES + SID_BYTES * n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formula_1_by_hand() {
        assert_eq!([64, 65].map(lid_bytes), [1, 2]);
        assert_eq!([0, 1, 16_384, 16_385].map(lid_bytes), [1, 1, 2, 3]);
        assert_eq!(lids(2972), 11_888);
    }

    #[test]
    fn headers_by_hand() {
        let bytes = |hops| Header::ALL.map(|(_, header)| header.bytes(hops));
        assert_eq!(bytes(1), [3, 4, 4, 24, 0, 0]);
        assert_eq!(bytes(6), [8, 14, 24, 104, 0, 24]);
        assert_eq!(bytes(7), [9, 16, 28, 120, 24, 24]);
        assert_eq!(bytes(9), [11, 20, 36, 152, 24, 24]);
        assert_eq!(bytes(10), [12, 22, 40, 168, 24, 40]);
        assert_eq!(bytes(20), [22, 42, 80, 328, 56, 56]);
        let outer = |hops| Header::ALL.map(|(_, header)| header.encapsulated_bytes(hops));
        assert_eq!(outer(1), [3, 4, 4, 40, 40, 40]);
        assert_eq!(outer(7), [9, 16, 28, 144, 64, 64]);
    }
}
