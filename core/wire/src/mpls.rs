//! An entry of an MPLS label stack.
//!
//! ```text
//!  0                      2       3      4
//! +---------------------------+--+-+-----+---------
//! |           label           |tc|S| TTL | next entry, or the payload after the bottom of the stack (S)
//! +---------------------------+--+-+-----+---------
//!             20 bits           3 1   8
//! ```
//!
//! Source: RFC 3032, section 2.1; RFC 5462 (the traffic class).

use crate::WireError;
use crate::bytes::{set_u32, u32_at};
use crate::error::permit;

const HEADER: &str = "MPLS label";

/// Length of an entry.
pub const ENTRY_LEN: usize = 4;

/// The largest label.
pub const LABEL_MAX: u32 = 0xf_ffff;

/// The label for IPv4 after the bottom of the stack.
pub const EXPLICIT_NULL_IPV4: u32 = 0;
/// The label for IPv6 after the bottom of the stack.
pub const EXPLICIT_NULL_IPV6: u32 = 2;

view!(
    /// A view of the bytes of an entry of a label stack.
    View, HEADER, ENTRY_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The label.
    #[inline]
    pub fn label(&self) -> u32 {
        u32_at(self.bytes(), 0) >> 12
    }

    /// The traffic class.
    pub fn traffic_class(&self) -> u8 {
        (u32_at(self.bytes(), 0) >> 9 & 7) as u8
    }

    /// Whether this is the last entry of the stack.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        u32_at(self.bytes(), 0) & 0x100 != 0
    }

    /// The time to live.
    pub fn ttl(&self) -> u8 {
        u32_at(self.bytes(), 0) as u8
    }
}

/// An entry of a label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr(u32);

impl Repr {
    /// An entry with a label (0 to [`LABEL_MAX`]) and a traffic class (0 to 7).
    pub fn new(label: u32, traffic_class: u8, bottom: bool, ttl: u8) -> Result<Self, WireError> {
        permit(HEADER, "label", label, 0, LABEL_MAX.into())?;
        permit(HEADER, "traffic class", traffic_class, 0, 7)?;
        let class_and_bottom = u32::from(traffic_class) << 9 | u32::from(bottom) << 8;
        Ok(Self(label << 12 | class_and_bottom | u32::from(ttl)))
    }

    /// Reads an entry; every entry is valid.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        Ok(Self(u32_at(view.bytes(), 0)))
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        ENTRY_LEN
    }

    /// Writes the entry.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        set_u32(view.bytes_mut(), 0, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_read() {
        let view = View::new_checked([0x00, 0x06, 0x4b, 0x40]).unwrap();
        assert_eq!(Repr::parse(&view), Repr::new(100, 5, true, 64));
        assert_eq!((view.label(), view.traffic_class()), (100, 5));
        assert_eq!((view.is_bottom(), view.ttl()), (true, 64));
    }

    #[test]
    fn what_an_entry_cannot_say_is_refused() {
        assert_eq!(
            Repr::new(LABEL_MAX + 1, 0, true, 64)
                .unwrap_err()
                .to_string(),
            "MPLS label: label is 1048576, but must be from 0 to 1048575"
        );
        assert!(Repr::new(16, 8, true, 64).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(
            label in 0..=LABEL_MAX, traffic_class in 0_u8..8, bottom: bool, ttl: u8
        ) {
            let repr = Repr::new(label, traffic_class, bottom, ttl).unwrap();
            let mut buffer = [0xa5; ENTRY_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[ENTRY_LEN..], &[0xa5; 4]);
            let view = View::new_checked(&buffer[..]).unwrap();
            prop_assert_eq!(Repr::parse(&view), Ok(repr));
            prop_assert_eq!((view.label(), view.traffic_class()), (label, traffic_class));
            prop_assert_eq!((view.is_bottom(), view.ttl()), (bottom, ttl));
        }
    }
}
