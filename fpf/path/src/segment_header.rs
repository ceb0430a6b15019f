//! The header of segments, into which forwarding elements cut packets that are too long for their link.
//!
//! ```text
//!  after the FPF header, a whole packet:       a part of a packet:
//!   0          1      2        4              0          1      2        4        6       8            10     12      16
//!  +----------+------+--------+---------     +----------+------+--------+--------+-------+------------+------+-------+---------
//!  | 1110 0001|  0   | length | payload      | 1110 0001|  1   | length | offset | total | identifier | flow | check | payload
//!  +----------+------+--------+---------     +----------+------+--------+--------+-------+------------+------+-------+---------
//!    magic, version
//! ```
//!
//! Source: Beben et al. (see [`header`](crate::header)), section III, requires "segmentation/reassembly" and defines no
//! format; this format is ours, modelled on IPv6's fragment header (RFC 8200, section 4.5). All numbers are big endian.
//!
//! - FPF does not name the type of its payload. So a packet that fits has a header too: the short form.
//! - Length: of the payload of this segment, at least one in a part. A link layer may pad frames.
//! - Offset and Total: the position of the payload in the whole packet, and the length of that packet. No flag marks
//!   the last part, because it could contradict them, and no part is the whole packet.
//! - Flow: the same for all packets of a flow, so that queues on the path can tell flows apart, although only the first
//!   part has the packet's headers (as IPv6's flow label does for tunnels, RFC 6438).
//! - Check: CRC32c of the whole packet, the same in all of its parts. Parts of two packets are never combined, even if
//!   two senders use the same identifier, or a sender restarts (RFC 4963 describes what happens to IPv4 without a
//!   check).

use std::num::NonZeroU16;

use weir_wire::bytes::{set_u16, set_u32, u16_at, u32_at};
use weir_wire::error::{needs, permit};
use weir_wire::{WireError, view};

const HEADER: &str = "FPF segment header";

/// Length of the header of a whole packet, and minimum length of any header.
pub const WHOLE_LEN: usize = 4;
/// Length of the header of a part.
pub const PART_LEN: usize = 16;

/// The first byte: four bits that are not an IP version, and the version of this format.
pub const MAGIC: u8 = 0xe1;
const WHOLE: u8 = 0;
const PART: u8 = 1;

view!(
    /// A view of the bytes of a segment's header.
    View, HEADER, WHOLE_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The first byte, which is the same in every segment.
    pub fn magic(&self) -> u8 {
        self.bytes()[0]
    }

    /// The form of the header: 0 for a whole packet, 1 for a part.
    pub fn form(&self) -> u8 {
        self.bytes()[1]
    }

    /// Bytes of the payload, as the header claims.
    pub fn length(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    fn set_form(&mut self, form: u8, length: u16) {
        self.bytes_mut()[0] = MAGIC;
        self.bytes_mut()[1] = form;
        set_u16(self.bytes_mut(), 2, length);
    }
}

/// The packet that a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Whole {
    /// The number that its sender gave the packet.
    pub identifier: u16,
    /// The flow of the packet.
    pub flow: u16,
    /// Length of the packet, in bytes.
    pub total: u16,
    /// CRC32c of the packet.
    pub check: u32,
}

/// A part of a packet, within its bounds, and shorter than the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    of: Whole,
    offset: u16,
    length: NonZeroU16,
}

impl Part {
    /// The part of a packet that begins at `offset`; an error if it does not end within the packet, or is the whole
    /// packet.
    pub fn new(of: Whole, offset: u16, length: u16) -> Result<Self, WireError> {
        let most = of.total.saturating_sub(1).into();
        permit(HEADER, "length", length, 1, most)?;
        let most = of.total.saturating_sub(length).into();
        permit(HEADER, "offset", offset, 0, most)?;
        let length = NonZeroU16::MIN.saturating_add(length - 1); // at least one
        Ok(Self { of, offset, length })
    }

    /// The packet that the part belongs to.
    pub const fn of(&self) -> Whole {
        self.of
    }

    /// The offset of the part in the packet, in bytes.
    pub const fn offset(&self) -> u16 {
        self.offset
    }

    /// The length of the part, in bytes.
    pub const fn length(&self) -> NonZeroU16 {
        self.length
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// The payload, which has this number of bytes, is a whole packet.
    Whole(u16),
    /// The payload is a part of a packet.
    Part(Part),
}

impl Repr {
    /// Reads a header, and checks that its payload is complete.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        permit(HEADER, "magic", view.magic(), MAGIC.into(), MAGIC.into())?;
        permit(HEADER, "form", view.form(), WHOLE.into(), PART.into())?;
        let (bytes, length) = (view.bytes(), view.length());
        if view.form() == WHOLE {
            needs(HEADER, WHOLE_LEN + usize::from(length), bytes.len())?;
            return Ok(Self::Whole(length));
        }
        needs(HEADER, PART_LEN + usize::from(length), bytes.len())?;
        let of = Whole {
            identifier: u16_at(bytes, 8),
            flow: u16_at(bytes, 10),
            total: u16_at(bytes, 6),
            check: u32_at(bytes, 12),
        };
        Part::new(of, u16_at(bytes, 4), length).map(Self::Part)
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        match self {
            Self::Whole(_) => WHOLE_LEN,
            Self::Part(_) => PART_LEN,
        }
    }

    /// Bytes of the payload.
    pub const fn payload_len(&self) -> u16 {
        match self {
            Self::Whole(length) => *length,
            Self::Part(part) => part.length.get(),
        }
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        match self {
            Self::Whole(length) => view.set_form(WHOLE, *length),
            Self::Part(part) => {
                view.set_form(PART, part.length.get());
                let bytes = view.bytes_mut();
                set_u16(bytes, 4, part.offset);
                set_u16(bytes, 6, part.of.total);
                set_u16(bytes, 8, part.of.identifier);
                set_u16(bytes, 10, part.of.flow);
                set_u32(bytes, 12, part.of.check);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const SECOND: [u8; 19] = [
        0xe1, 1,        // a part
        0, 3,           // length
        0, 7,           // offset
        0, 10,          // total
        0, 5,           // identifier
        0, 6,           // flow
        1, 2, 3, 4,     // check
        9, 9, 9,        // payload
    ];

    fn read(bytes: &[u8]) -> Result<Repr, WireError> {
        View::new_checked(bytes).and_then(|view| Repr::parse(&view))
    }

    #[test]
    fn a_header_is_read() {
        let of = Whole {
            identifier: 5,
            flow: 6,
            total: 10,
            check: 0x0102_0304,
        };
        let part = Part::new(of, 7, 3).unwrap();
        assert_eq!(read(&SECOND), Ok(Repr::Part(part)));
        // Bytes after the payload belong to the link layer.
        let padded = [&SECOND[..], &[0; 20]].concat();
        assert_eq!(read(&padded), Ok(Repr::Part(part)));
        assert_eq!(read(&[0xe1, 0, 0, 1, 7, 0]), Ok(Repr::Whole(1)));
        assert_eq!(read(&[0xe1, 0, 0, 0]), Ok(Repr::Whole(0)));
    }

    #[test]
    fn what_a_header_cannot_say_is_refused() {
        let error = |change: fn(&mut Vec<u8>)| {
            let mut bytes = SECOND.to_vec();
            change(&mut bytes);
            read(&bytes).unwrap_err().to_string()
        };
        let header = "FPF segment header:";
        type Change = fn(&mut Vec<u8>);
        let wrong: [(Change, &str); 11] = [
            (|b| b.truncate(3), "needs 4 bytes, found 3"),
            (|b| b.truncate(18), "needs 19 bytes, found 18"),
            (|b| (b[1], b[3]) = (0, 16), "needs 20 bytes, found 19"),
            (|b| b[0] = 0x45, "magic is 69, but must be from 225 to 225"),
            (|b| b[0] = 0xe2, "magic is 226, but must be from 225 to 225"),
            (|b| b[1] = 2, "form is 2, but must be from 0 to 1"),
            (|b| b[3] = 0, "length is 0, but must be from 1 to 9"),
            (|b| b[5] = 8, "offset is 8, but must be from 0 to 7"),
            (|b| b[7] = 9, "offset is 7, but must be from 0 to 6"),
            (|b| b[7] = 3, "length is 3, but must be from 1 to 2"),
            (|b| b[7] = 0, "length is 3, but must be from 1 to 0"),
        ];
        for (change, why) in wrong {
            assert_eq!(error(change), format!("{header} {why}"));
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(
            is_part: bool, identifier: u16, flow: u16, total in 2_u16.., check: u32, length: u16, offset: u16,
        ) {
            let repr = if is_part {
                    let length = 1 + length % (total - 1);
                    let offset = (u32::from(offset) % (u32::from(total - length) + 1)) as u16;
                    let of = Whole { identifier, flow, total, check };
                    Repr::Part(Part::new(of, offset, length).unwrap())
                } else { Repr::Whole(length) };
            let len = repr.encoded_len();
            let mut buffer = vec![0xa5; len + usize::from(repr.payload_len())];
            repr.emit(&mut View::new_unchecked(&mut buffer[..len]));
            prop_assert!(buffer[len..].iter().all(|byte| *byte == 0xa5));
            prop_assert_eq!(read(&buffer), Ok(repr));
            prop_assert!(len + usize::from(repr.payload_len()) == len || read(&buffer[..buffer.len() - 1]).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..40), form in 0_u8..3) {
            let mut bytes = bytes;
            if let [magic, found, length, ..] = &mut bytes[..] {
                (*magic, *found, *length) = (MAGIC, form, 0);
            }
            if let Ok(repr) = read(&bytes) {
                let len = repr.encoded_len();
                prop_assert!(len + usize::from(repr.payload_len()) <= bytes.len());
                if let Repr::Part(part) = repr {
                    let end = u32::from(part.offset()) + u32::from(part.length().get());
                    prop_assert!(end <= part.of().total.into());
                }
                let mut again = vec![0; len];
                repr.emit(&mut View::new_unchecked(&mut again[..]));
                prop_assert_eq!(&again[..], &bytes[..len]);
            }
        }
    }
}
