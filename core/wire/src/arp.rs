//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!  0      2      4  5  6       8          14          18         24          28
//! +------+------+--+--+-------+----------+-----------+----------+-----------+
//! | 1    |0x0800|6 |4 | 1 or 2| sender's MAC, address| target's MAC, address|
//! +------+------+--+--+-------+----------+-----------+----------+-----------+
//! ```

use std::net::Ipv4Addr;

use crate::bytes::{array_at, set_u16, u16_at};
use crate::error::permit;
use crate::ethernet::Mac;
use crate::{EtherType, WireError};

const HEADER: &str = "ARP message";

/// Length of a message.
pub const LEN: usize = 28;

const ETHERNET: u16 = 1;

codes! {
    /// The kind of a message.
    Operation(u16) {
        /// Who has the target's address?
        REQUEST = 1,
        /// The sender has the sender's address.
        REPLY = 2,
    }
}

view!(
    /// A view of the bytes of an ARP message.
    View, HEADER, LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Hardware type, protocol, and the lengths of an address in each, as one number.
    pub fn format(&self) -> u64 {
        let [a, b, c, d, e, f] = array_at(self.bytes(), 0);
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The kind of the message.
    pub fn operation(&self) -> Operation {
        u16_at(self.bytes(), 6).into()
    }

    /// The sender's MAC address.
    pub fn sender_mac(&self) -> Mac {
        array_at(self.bytes(), 8)
    }

    /// The sender's address.
    pub fn sender(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes(), 14).into()
    }

    /// The target's MAC address.
    pub fn target_mac(&self) -> Mac {
        array_at(self.bytes(), 18)
    }

    /// The target's address.
    pub fn target(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes(), 24).into()
    }
}

/// An ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The kind of the message.
    pub operation: Operation,
    /// The sender's MAC address.
    pub sender_mac: Mac,
    /// The sender's address; unspecified in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// The target's MAC address; meaningless in a request.
    pub target_mac: Mac,
    /// The target's address.
    pub target: Ipv4Addr,
}

impl Repr {
    const FORMAT: u64 = 0x0001_0800_0604;

    /// Reads a message; a message that is not for IPv4 over Ethernet is an error.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let format = view.format();
        permit(HEADER, "format", format, Self::FORMAT, Self::FORMAT)?;
        Ok(Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender: view.sender(),
            target_mac: view.target_mac(),
            target: view.target(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        LEN
    }

    /// Writes the message.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let bytes = view.bytes_mut();
        set_u16(bytes, 0, ETHERNET);
        set_u16(bytes, 2, EtherType::IPV4.into());
        bytes[4..6].copy_from_slice(&[6, 4]);
        set_u16(bytes, 6, self.operation.into());
        bytes[8..14].copy_from_slice(&self.sender_mac);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_mac);
        bytes[24..28].copy_from_slice(&self.target.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_a_request() {
        // Who has 10.0.0.1? Tell 10.0.0.2, which is at 02:00:00:00:00:07.
        let bytes = [
            0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 7, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
        ];
        let repr = Repr::parse(&View::new_checked(&bytes[..]).unwrap()).unwrap();
        assert_eq!(
            repr,
            Repr {
                operation: Operation::REQUEST,
                sender_mac: [2, 0, 0, 0, 0, 7],
                sender: [10, 0, 0, 2].into(),
                target_mac: [0; 6],
                target: [10, 0, 0, 1].into(),
            }
        );
        for at in 0..6 {
            let mut other = bytes;
            other[at] ^= 1;
            let view = View::new_unchecked(&other[..]);
            let error = Repr::parse(&view).unwrap_err();
            assert!(error.to_string().starts_with("ARP message: format is "));
        }
        assert!(View::new_checked(&bytes[..27]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(operation: u16, macs: [[u8; 6]; 2], addresses: [u32; 2]) {
            let repr = Repr {
                operation: operation.into(),
                sender_mac: macs[0],
                sender: addresses[0].into(),
                target_mac: macs[1],
                target: addresses[1].into(),
            };
            let mut bytes = [0xa5; LEN + 1];
            repr.emit(&mut View::new_unchecked(&mut bytes[..repr.encoded_len()]));
            prop_assert_eq!(bytes[LEN], 0xa5);
            prop_assert_eq!(Repr::parse(&View::new_unchecked(&bytes[..LEN])), Ok(repr));
        }
    }
}
