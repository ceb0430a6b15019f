//! The 802.1Q tag (IEEE 802.1Q, clause 9), without the Ethernet type that announces it.
//!
//! ```text
//!  0                  2      4
//! +---+-+------------+------+---------
//! |pri|d| VLAN id    | type | payload
//! +---+-+------------+------+---------
//!   3  1  12 bits
//! ```

use crate::bytes::{set_u16, u16_at};
use crate::error::permit;
use crate::{EtherType, WireError};

const HEADER: &str = "802.1Q tag";

/// Length of the tag after the Ethernet type that announces it.
pub const TAG_LEN: usize = 4;

/// The largest VLAN identifier; 4095 is reserved.
pub const ID_MAX: u16 = 4094;

view!(
    /// A view of the bytes of an 802.1Q tag.
    View, HEADER, TAG_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The tag control information: priority, drop eligibility and identifier.
    #[inline]
    pub fn tci(&self) -> u16 {
        u16_at(self.bytes(), 0)
    }

    /// The priority code point.
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Whether the frame may be dropped before others.
    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// The VLAN identifier.
    pub fn id(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// The Ethernet type of the bytes after the tag.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        u16_at(self.bytes(), 2).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the tag control information.
    pub fn set_tci(&mut self, tci: u16) {
        set_u16(self.bytes_mut(), 0, tci);
    }

    /// Writes the Ethernet type of the bytes after the tag.
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        set_u16(self.bytes_mut(), 2, ethertype.into());
    }
}

/// An 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    tci: u16,
    /// The Ethernet type of the bytes after the tag.
    pub ethertype: EtherType,
}

impl Repr {
    /// A tag with a priority (0 to 7) and an identifier (0 to [`ID_MAX`]; 0 means priority only).
    pub fn new(
        priority: u8,
        drop_eligible: bool,
        id: u16,
        ethertype: EtherType,
    ) -> Result<Self, WireError> {
        permit(HEADER, "priority", priority, 0, 7)?;
        permit(HEADER, "VLAN identifier", id, 0, ID_MAX.into())?;
        let tci = u16::from(priority) << 13 | u16::from(drop_eligible) << 12 | id;
        Ok(Self { tci, ethertype })
    }

    /// Reads a tag; the reserved identifier is an error.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        Self::new(
            view.priority(),
            view.drop_eligible(),
            view.id(),
            view.ethertype(),
        )
    }

    /// The tag control information: priority, drop eligibility and identifier.
    pub const fn tci(&self) -> u16 {
        self.tci
    }

    /// The VLAN identifier.
    pub const fn id(&self) -> u16 {
        self.tci & 0x0fff
    }

    /// The priority code point.
    pub const fn priority(&self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_tci(self.tci);
        view.set_ethertype(self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const TAG: [u8; 4] = [
        0xb0, 0x64, // priority 5, drop eligible, identifier 100
        0x08, 0x00, // type: IPv4
    ];

    #[test]
    fn a_tag_is_read() {
        let repr = Repr::parse(&View::new_checked(TAG).unwrap()).unwrap();
        assert_eq!(repr, Repr::new(5, true, 100, EtherType::IPV4).unwrap());
        assert_eq!((repr.priority(), repr.id()), (5, 100));
    }

    #[test]
    fn what_a_tag_cannot_say_is_refused() {
        assert!(Repr::new(8, false, 1, EtherType::IPV4).is_err());
        let reserved = View::new_unchecked([0x0f, 0xff, 8, 0]);
        assert_eq!(
            Repr::parse(&reserved).unwrap_err().to_string(),
            "802.1Q tag: VLAN identifier is 4095, but must be from 0 to 4094"
        );
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(
            priority in 0_u8..8, drop_eligible: bool, id in 0..=ID_MAX, code: u16
        ) {
            let repr = Repr::new(priority, drop_eligible, id, code.into()).unwrap();
            let mut buffer = [0xa5; TAG_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[TAG_LEN..], &[0xa5; 4]);
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
            let theirs = etherparse::SingleVlanHeaderSlice::from_slice(&buffer).unwrap();
            prop_assert_eq!(theirs.priority_code_point().value(), priority);
            prop_assert_eq!(theirs.drop_eligible_indicator(), drop_eligible);
            prop_assert_eq!(theirs.vlan_identifier().value(), id);
            prop_assert_eq!(theirs.ether_type().0, code);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = Repr::parse(&view);
            }
        }
    }
}
