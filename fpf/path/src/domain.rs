//! A domain: the FEs that agree on the Ethernet type and on the size of a LID.

use weir_wire::EtherType;

use crate::header::ETHERTYPE_DEFAULT;

/// The Ethernet type and the size of a LID, the same throughout a domain (section III: "constant size").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    ethertype: EtherType,
    lid_size: LidSize,
}

/// Bytes of a LID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LidSize {
    /// One byte: up to 256 LIDs, enough for 99 % of the Internet's domains (table II).
    #[default]
    One,
    /// Two bytes, big endian: up to 65 536 LIDs.
    Two,
}

/// An invalid domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// The Ethernet type has another meaning.
    #[error(
        "Ethernet type {0:#06x} cannot be used for FPF: it must be at least 0x0600, and not IP, ARP or a VLAN tag"
    )]
    EtherType(u16),
    /// The size of a LID is not 1 or 2 bytes.
    #[error("a LID must have 1 or 2 bytes, not {0}")]
    LidBytes(u8),
}

impl Default for Domain {
    fn default() -> Self {
        Self {
            ethertype: ETHERTYPE_DEFAULT,
            lid_size: LidSize::One,
        }
    }
}

impl Domain {
    /// A domain whose frames have this Ethernet type, and whose LIDs have 1 or 2 bytes.
    pub fn new(ethertype: u16, lid_bytes: u8) -> Result<Self, DomainError> {
        const LEAST: u16 = 0x0600; // below, the field is a length (IEEE 802.3, clause 3.2.6)
        let lid_size = match lid_bytes {
            1 => LidSize::One,
            2 => LidSize::Two,
            n => return Err(DomainError::LidBytes(n)),
        };
        match EtherType::from(ethertype) {
            EtherType::IPV4
            | EtherType::IPV6
            | EtherType::ARP
            | EtherType::VLAN
            | EtherType::SERVICE_VLAN
            | EtherType(..LEAST) => Err(DomainError::EtherType(ethertype)),
            ethertype => Ok(Self {
                ethertype,
                lid_size,
            }),
        }
    }

    /// The Ethernet type of the domain's frames.
    #[inline]
    pub const fn ethertype(&self) -> EtherType {
        self.ethertype
    }

    /// Bytes of a LID.
    #[inline]
    pub const fn lid_size(&self) -> LidSize {
        self.lid_size
    }
}

impl LidSize {
    /// Number of bytes.
    #[inline]
    pub const fn bytes(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// Number of possible LIDs.
    pub const fn space(self) -> usize {
        1 << (8 * self.bytes() as usize)
    }

    /// The LID at the start of these bytes; `None` if there are too few bytes.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> Option<u16> {
        match (self, bytes) {
            (Self::One, [a, ..]) => Some((*a).into()),
            (Self::Two, [a, b, ..]) => Some(u16::from_be_bytes([*a, *b])),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_sizes_that_mean_something_else_are_refused() {
        assert_eq!(Domain::new(0xc000, 1), Ok(Domain::default()));
        assert_eq!(Domain::new(0xcccc, 2).unwrap().lid_size(), LidSize::Two);
        for ethertype in [0, 0x05ff, 0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8] {
            let error = DomainError::EtherType(ethertype);
            assert_eq!(Domain::new(ethertype, 1), Err(error));
        }
        for bytes in [0, 3, 4] {
            let error = DomainError::LidBytes(bytes);
            assert_eq!(Domain::new(0xc000, bytes), Err(error));
        }
    }

    #[test]
    fn a_lid_is_big_endian_and_whole() {
        assert_eq!(LidSize::One.read(&[0xa1, 2]), Some(0xa1));
        assert_eq!(LidSize::Two.read(&[0xa1, 2, 3]), Some(0xa102));
        assert_eq!(LidSize::Two.read(&[0xa1]), None);
        assert_eq!(LidSize::One.read(&[]), None);
    }
}
