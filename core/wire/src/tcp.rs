//! TCP (RFC 9293, section 3.1).
//!
//! ```text
//!  0             2             4               8                12
//! +-------------+-------------+---------------+----------------+------+------+--------
//! | source port | destination | sequence      | acknowledgment | off|flags   | window
//! +-------------+-------------+---------------+----------------+------+------+--------
//! | checksum    | urgent      | options, 0 to 40 bytes                               16 ... 60
//! +-------------+-------------+-------------------------------------------------------
//! ```

use std::net::IpAddr;

use crate::bytes::{clamped, set_u16, set_u32, u16_at, u32_at};
use crate::checksum::Sum;
use crate::error::{needs, permit};
use crate::{Protocol, WireError};

const HEADER: &str = "TCP header";

/// Length of the header without options.
pub const HEADER_LEN_MIN: usize = 20;
/// Length of the header with all the options that fit.
pub const HEADER_LEN_MAX: usize = 60;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 16;

/// Option kinds: end of options, padding, timestamps; and the length of the last.
const OPTION_END: u8 = 0;
const OPTION_NONE: u8 = 1;
const OPTION_TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LEN: u8 = 10;

/// The twelve bits after the data offset: four reserved or experimental ones (AE is the lowest of
/// them), and CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronises sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Resets the connection.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x020);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768).
    pub const AE: Self = Self(0x100);

    /// From twelve bits; higher bits are ignored.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x0fff)
    }

    /// The twelve bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `others` are set.
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These flags and `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

view!(
    /// A view of the bytes of a TCP segment.
    View, HEADER, HEADER_LEN_MIN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes(), 0)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        u32_at(self.bytes(), 4)
    }

    /// Acknowledgment number.
    pub fn acknowledgment(&self) -> u32 {
        u32_at(self.bytes(), 8)
    }

    /// The header length in bytes that the header claims: a multiple of 4 from 0 to 60.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[12] >> 4) * 4
    }

    /// Flags.
    pub fn flags(&self) -> Flags {
        Flags::from_bits(u16_at(self.bytes(), 12))
    }

    /// Window.
    pub fn window(&self) -> u16 {
        u16_at(self.bytes(), 14)
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), CHECKSUM_AT)
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        u16_at(self.bytes(), 18)
    }

    /// The options, as far as the buffer has them.
    pub fn options(&self) -> &[u8] {
        clamped(self.bytes(), HEADER_LEN_MIN, self.header_len())
    }

    /// The payload: the bytes after the header.
    pub fn payload(&self) -> &[u8] {
        clamped(self.bytes(), self.header_len(), usize::MAX)
    }

    /// TSval and TSecr of the timestamp option (RFC 7323, section 3); `None` if it is absent, or the options before it
    /// are malformed.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let mut options = self.options();
        loop {
            options = match *options {
                [OPTION_NONE, ref rest @ ..] => rest,
                [OPTION_TIMESTAMPS, TIMESTAMPS_LEN, ref rest @ ..] if rest.len() >= 8 => {
                    return Some((u32_at(rest, 0), u32_at(rest, 4)));
                }
                [kind, len, ..] if kind != OPTION_END && len >= 2 => {
                    options.get(usize::from(len)..)?
                }
                _ => return None,
            };
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the source port.
    pub fn set_source_port(&mut self, port: u16) {
        set_u16(self.bytes_mut(), 0, port);
    }

    /// Writes the destination port.
    pub fn set_destination_port(&mut self, port: u16) {
        set_u16(self.bytes_mut(), 2, port);
    }

    /// Writes the sequence number.
    pub fn set_sequence(&mut self, number: u32) {
        set_u32(self.bytes_mut(), 4, number);
    }

    /// Writes the acknowledgment number.
    pub fn set_acknowledgment(&mut self, number: u32) {
        set_u32(self.bytes_mut(), 8, number);
    }

    /// Writes a header length in bytes (a multiple of 4 up to 60) and the flags.
    pub fn set_header_len_and_flags(&mut self, len: usize, flags: Flags) {
        let word = (len as u16 / 4) << 12 | flags.bits();
        set_u16(self.bytes_mut(), 12, word);
    }

    /// Writes the window.
    pub fn set_window(&mut self, window: u16) {
        set_u16(self.bytes_mut(), 14, window);
    }

    /// Writes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes_mut(), CHECKSUM_AT, checksum);
    }

    /// Writes the urgent pointer.
    pub fn set_urgent(&mut self, pointer: u16) {
        set_u16(self.bytes_mut(), 18, pointer);
    }

    /// Computes and writes the checksum over the whole buffer.
    pub fn fill_checksum(&mut self, source: IpAddr, destination: IpAddr) {
        self.set_checksum(0);
        let len = self.bytes().len();
        let pseudo = Sum::default().pseudo(source, destination, Protocol::TCP, len);
        let sum = pseudo.bytes(self.bytes());
        self.set_checksum(sum.checksum());
    }
}

/// The bytes of a header's options: at most forty, padded to a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    bytes: [u8; HEADER_LEN_MAX - HEADER_LEN_MIN],
    len: u8,
}

impl Options {
    /// No options.
    pub const NONE: Self = Self {
        bytes: [0; HEADER_LEN_MAX - HEADER_LEN_MIN],
        len: 0,
    };

    /// These options, padded to a multiple of four with "end of options".
    pub fn new(options: &[u8]) -> Result<Self, WireError> {
        let mut padded = Self::NONE;
        let found = options.len() as u64;
        permit(HEADER, "length of all options", found, 0, 40)?;
        padded.bytes[..options.len()].copy_from_slice(options);
        padded.len = options.len().next_multiple_of(4) as u8;
        Ok(padded)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Flags.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Repr {
    /// Reads a header and its length; the checksum needs the addresses and is not validated.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let header_len = view.header_len();
        permit(HEADER, "data offset", header_len as u64, 20, 60)?;
        needs(HEADER, header_len, view.bytes().len())?;
        Ok(Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: Options::new(view.options())?,
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN_MIN + self.options.len as usize
    }

    /// Writes the header with a checksum of zero.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let header_len = self.encoded_len();
        view.set_source_port(self.source_port);
        view.set_destination_port(self.destination_port);
        view.set_sequence(self.sequence);
        view.set_acknowledgment(self.acknowledgment);
        view.set_header_len_and_flags(header_len, self.flags);
        view.set_window(self.window);
        view.set_checksum(0);
        view.set_urgent(self.urgent);
        view.bytes_mut()[HEADER_LEN_MIN..header_len].copy_from_slice(self.options.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    #[rustfmt::skip]
    const SEGMENT: [u8; 26] = [
        0x13, 0x88,             // source port: 5000
        0x00, 0x50,             // destination port: 80
        0x00, 0x00, 0x00, 0x01, // sequence: 1
        0x00, 0x00, 0x00, 0x02, // acknowledgment: 2
        0x60, 0x12,             // header length 24; SYN, ACK
        0xfa, 0xf0,             // window: 64240
        0x12, 0x34,             // checksum
        0x00, 0x00,             // urgent pointer
        0x02, 0x04, 0x05, 0xb4, // option: maximum segment size 1460
        0xbe, 0xef,             // payload
    ];

    #[test]
    fn a_segment_is_read() {
        let view = View::new_checked(SEGMENT).unwrap();
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(
            repr,
            Repr {
                source_port: 5000,
                destination_port: 80,
                sequence: 1,
                acknowledgment: 2,
                flags: Flags::SYN.and(Flags::ACK),
                window: 64240,
                urgent: 0,
                options: Options::new(&[2, 4, 5, 0xb4]).unwrap(),
            }
        );
        assert!(repr.flags.contain(Flags::ACK) && !repr.flags.contain(Flags::FIN));
        assert_eq!(view.checksum(), 0x1234);
        assert_eq!(view.payload(), [0xbe, 0xef]);
    }

    #[test]
    fn timestamps_are_found_behind_other_options() {
        let found = |options: &[u8]| {
            let mut segment = SEGMENT[..20].to_vec();
            segment.extend_from_slice(options);
            segment[12] = (((20 + options.len()) / 4) << 4) as u8;
            View::new_unchecked(segment).timestamps()
        };
        let stamps = [8, 10, 0, 0, 1, 2, 0, 0, 3, 4];
        let with = |before: &[u8]| found(&[before, &stamps].concat());
        assert_eq!(with(&[1, 1]), Some((0x102, 0x304)));
        assert_eq!(with(&[2, 4, 5, 0xb4, 4, 2]), Some((0x102, 0x304)));
        assert_eq!(with(&[0, 0]), None, "the end comes first");
        assert_eq!(with(&[9, 1]), None, "a length that does not count itself");
        assert_eq!(with(&[9, 200]), None, "longer than all options");
        assert_eq!(found(&stamps[..8]), None, "cut");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn an_impossible_data_offset_is_refused() {
        let error_of = |offset: u8| {
            let mut segment = SEGMENT;
            segment[12] = offset << 4;
            Repr::parse(&View::new_unchecked(segment)).unwrap_err()
        };
        assert!(matches!(
            error_of(4),
            WireError::NotPermitted {
                found: 16,
                least: 20,
                ..
            }
        ));
        assert!(matches!(
            error_of(7),
            WireError::Truncated {
                needed: 28,
                found: 26,
                ..
            }
        ));
    }

    prop_compose! {
        fn reprs()(
            source_port: u16, destination_port: u16, sequence: u32, acknowledgment: u32,
            flags: u16, window: u16, urgent: u16, options in vec(any::<u8>(), 0..=40),
        ) -> Repr {
            Repr {
                source_port, destination_port, sequence, acknowledgment, window, urgent,
                flags: Flags::from_bits(flags),
                options: Options::new(&options).unwrap(),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(repr in reprs()) {
            let len = repr.encoded_len();
            let mut buffer = [0xa5; HEADER_LEN_MAX + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..len]));
            prop_assert!(buffer[len..].iter().all(|b| *b == 0xa5));
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn etherparse_reads_the_same(
            repr in reprs(), from: [u8; 16], to: [u8; 16], payload in vec(any::<u8>(), 0..50),
        ) {
            let mut bytes = vec![0xa5; repr.encoded_len()];
            repr.emit(&mut View::new_unchecked(&mut bytes[..]));
            bytes.extend_from_slice(&payload);
            let [source, destination] = [from, to].map(|a| Ipv6Addr::from(a).into());
            View::new_unchecked(&mut bytes[..]).fill_checksum(source, destination);
            let slice = etherparse::TcpHeaderSlice::from_slice(&bytes).unwrap();
            let theirs = slice.to_header();
            prop_assert_eq!(slice.checksum(), slice.calc_checksum_ipv6_raw(from, to, &payload).unwrap());
            prop_assert_eq!(theirs.source_port, repr.source_port);
            prop_assert_eq!(theirs.destination_port, repr.destination_port);
            prop_assert_eq!(theirs.sequence_number, repr.sequence);
            prop_assert_eq!(theirs.acknowledgment_number, repr.acknowledgment);
            prop_assert_eq!(theirs.window_size, repr.window);
            prop_assert_eq!(theirs.urgent_pointer, repr.urgent);
            prop_assert_eq!(theirs.ns, repr.flags.contain(Flags::AE));
            prop_assert_eq!(theirs.cwr, repr.flags.contain(Flags::CWR));
            prop_assert_eq!(theirs.ece, repr.flags.contain(Flags::ECE));
            prop_assert_eq!(theirs.fin, repr.flags.contain(Flags::FIN));
            prop_assert_eq!(slice.options(), repr.options.as_bytes());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..80)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.payload().len(), view.options().len(), Repr::parse(&view));
            }
        }
    }
}
