//! IPv4 (RFC 791; the ECN field of RFC 3168) and the walk over its options.
//!
//! ```text
//!  0       1       2               4               6
//! +---+---+-------+---------------+---------------+-+-+-+-----------+
//! |ver|ihl| tos   | total length  | identification| |D|M| offset    |
//! +-------+-------+---------------+---------------+-----------------+
//! | ttl   | proto | checksum      | source        | destination     |  8 ... 20
//! +-------+-------+---------------+---------------+-----------------+
//! | options, 0 to 40 bytes                                          |
//! +-----------------------------------------------------------------+
//! ```

use std::net::Ipv4Addr;
use std::num::NonZeroU8;

use crate::bytes::{array_at, clamped, set_u16, u16_at};
use crate::error::{needs, permit};
use crate::{FragmentOffset, Protocol, WireError, checksum};

const HEADER: &str = "IPv4 header";
const OPTIONS: &str = "IPv4 option";

/// Length of the header without options.
pub const HEADER_LEN_MIN: usize = 20;
/// Length of the header with all the options that fit.
pub const HEADER_LEN_MAX: usize = 60;

view!(
    /// A view of the bytes of an IPv4 packet.
    View, HEADER, HEADER_LEN_MIN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The version: 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.bytes()[0] >> 4
    }

    /// The header length in bytes that the header claims: a multiple of 4 from 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[0] & 0x0f) * 4
    }

    /// The differentiated services field with the ECN bits.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.bytes()[1]
    }

    /// The length of header and payload that the header claims.
    #[inline]
    pub fn total_len(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }

    /// The identification: the same in all fragments of a datagram.
    #[inline]
    pub fn identification(&self) -> u16 {
        u16_at(self.bytes(), 4)
    }

    /// Whether fragmentation is forbidden.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.bytes()[6] & 0x40 != 0
    }

    /// Whether another fragment follows.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.bytes()[6] & 0x20 != 0
    }

    /// The fragment's position in the datagram.
    #[inline]
    pub fn fragment_offset(&self) -> FragmentOffset {
        FragmentOffset::from_bits(u16_at(self.bytes(), 6))
    }

    /// The number of hops left.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes()[8]
    }

    /// The protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.bytes()[9].into()
    }

    /// The header checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), 10)
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes(), 12).into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes(), 16).into()
    }

    /// The header's 16-bit word `n` (0 to 9), for updating the checksum by the difference.
    #[inline]
    pub fn word(&self, n: usize) -> u16 {
        u16_at(self.bytes(), 2 * n)
    }

    /// The options, as far as the buffer has them.
    pub fn options(&self) -> &[u8] {
        clamped(self.bytes(), HEADER_LEN_MIN, self.header_len())
    }

    /// The payload: the bytes after the header, up to the total length or the end of the buffer.
    pub fn payload(&self) -> &[u8] {
        clamped(self.bytes(), self.header_len(), self.total_len().into())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes version 4 and a header length in bytes: a multiple of 4 up to 60.
    pub fn set_version_and_header_len(&mut self, len: usize) {
        self.bytes_mut()[0] = 0x40 | (len / 4) as u8 & 0x0f;
    }

    /// Writes the differentiated services field with the ECN bits.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.bytes_mut()[1] = class;
    }

    /// Writes the length of header and payload.
    pub fn set_total_len(&mut self, len: u16) {
        set_u16(self.bytes_mut(), 2, len);
    }

    /// Writes the identification.
    pub fn set_identification(&mut self, identification: u16) {
        set_u16(self.bytes_mut(), 4, identification);
    }

    /// Writes the two flags and the fragment offset; the reserved flag becomes zero.
    pub fn set_fragmentation(&mut self, dont: bool, more: bool, offset: FragmentOffset) {
        let flags = u16::from(dont) << 14 | u16::from(more) << 13;
        set_u16(self.bytes_mut(), 6, flags | offset.bits());
    }

    /// Writes the number of hops left.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.bytes_mut()[8] = ttl;
    }

    /// Writes the protocol of the payload.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.bytes_mut()[9] = protocol.into();
    }

    /// Writes the header checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes_mut(), 10, checksum);
    }

    /// Writes the source address.
    pub fn set_source(&mut self, address: Ipv4Addr) {
        self.bytes_mut()[12..16].copy_from_slice(&address.octets());
    }

    /// Writes the destination address.
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        self.bytes_mut()[16..20].copy_from_slice(&address.octets());
    }

    /// Computes and writes the header checksum; a header length beyond the buffer is cut to the buffer.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::internet(clamped(self.bytes(), 0, self.header_len()));
        self.set_checksum(sum);
    }
}

/// The bytes of a header's options: at most forty, padded to a multiple of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    bytes: [u8; HEADER_LEN_MAX - HEADER_LEN_MIN],
    len: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self::NONE
    }
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
        permit(OPTIONS, "length of all options", found, 0, 40)?;
        padded.bytes[..options.len()].copy_from_slice(options);
        padded.len = options.len().next_multiple_of(4) as u8;
        Ok(padded)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The options that every fragment carries: those with the copied flag (RFC 791, section 3.1).
    pub fn copied(&self) -> Self {
        let mut kept = Self::NONE;
        let mut len = 0;
        for option in walk_options(self.as_bytes()).map_while(Result::ok) {
            if option.is_copied() {
                kept.bytes[len..len + option.bytes.len()].copy_from_slice(option.bytes);
                len += option.bytes.len();
            }
        }
        kept.len = len.next_multiple_of(4) as u8;
        kept
    }
}

/// One option, "no operation" included; "end of options" ends the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The option with its type and length bytes.
    pub bytes: &'a [u8],
}

impl Ipv4Option<'_> {
    /// The option type: copied flag, class and number.
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// Whether fragments after the first also carry it.
    pub fn is_copied(&self) -> bool {
        self.kind() & 0x80 != 0
    }

    /// Whether it is a loose or strict source route.
    pub fn is_source_route(&self) -> bool {
        matches!(self.kind(), 131 | 137)
    }
}

/// Walks over options. A length that is less than 2 or exceeds the options is an error and ends the walk. There are at
/// most forty steps, because there are at most forty bytes.
pub fn walk_options(options: &[u8]) -> impl Iterator<Item = Result<Ipv4Option<'_>, WireError>> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut rest = options;
    std::iter::from_fn(move || {
        let left = rest.len();
        let len = match *rest {
            [] | [END, ..] => return None,
            [NO_OPERATION, ..] => 1,
            [_, len, ..] if usize::from(len) >= 2 && usize::from(len) <= left => usize::from(len),
            [_, ref after @ ..] => {
                let found = after.first().copied().unwrap_or(0);
                rest = &[];
                let most = left as u64;
                return Some(Err(WireError::NotPermitted {
                    header: OPTIONS,
                    field: "length",
                    found: found.into(),
                    least: 2,
                    most,
                }));
            }
        };
        let (bytes, after) = rest.split_at(len);
        rest = after;
        Some(Ok(Ipv4Option { bytes }))
    })
}

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services field with the ECN bits.
    pub traffic_class: u8,
    /// The identification: the same in all fragments of a datagram.
    pub identification: u16,
    /// Whether fragmentation is forbidden.
    pub dont_fragment: bool,
    /// Whether another fragment follows.
    pub more_fragments: bool,
    /// The fragment's position in the datagram.
    pub fragment_offset: FragmentOffset,
    /// The number of hops left; no sender may send zero (RFC 1122, section 3.2.1.7).
    pub ttl: NonZeroU8,
    /// The protocol of the payload.
    pub protocol: Protocol,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    options: Options,
    payload_len: u16,
}

impl Repr {
    /// A whole datagram without options, with TTL 64; change the public fields as needed.
    pub fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: Protocol,
        payload_len: usize,
    ) -> Result<Self, WireError> {
        const TTL_DEFAULT: NonZeroU8 = NonZeroU8::MIN.saturating_add(63);
        let empty = Self {
            traffic_class: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: FragmentOffset::ZERO,
            ttl: TTL_DEFAULT,
            protocol,
            source,
            destination,
            options: Options::NONE,
            payload_len: 0,
        };
        empty.with_body(Options::NONE, payload_len)
    }

    /// The same header with other options and another payload length.
    pub fn with_body(self, options: Options, payload_len: usize) -> Result<Self, WireError> {
        let header_len = HEADER_LEN_MIN + usize::from(options.len);
        let total = (header_len + payload_len) as u64;
        permit(HEADER, "total length", total, 0, u16::MAX.into())?;
        Ok(Self {
            options,
            payload_len: payload_len as u16, // fits: the total does
            ..self
        })
    }

    /// Reads a header, its lengths and its checksum.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let bytes = view.bytes();
        permit(HEADER, "version", view.version(), 4, 4)?;
        let header_len = view.header_len();
        permit(HEADER, "header length", header_len as u64, 20, 60)?;
        needs(HEADER, header_len, bytes.len())?;
        let (least, most) = (header_len as u64, bytes.len() as u64);
        permit(HEADER, "total length", view.total_len(), least, most)?;
        permit(HEADER, "reserved flag", bytes[6] >> 7, 0, 0)?;
        if !checksum::is_right(&bytes[..header_len]) {
            let stored = view.checksum();
            let without = checksum::Sum::default()
                .bytes(&bytes[..10])
                .bytes(&bytes[12..header_len]);
            return Err(WireError::Checksum {
                header: HEADER,
                found: stored,
                permitted: without.checksum(),
            });
        }
        let ttl = NonZeroU8::new(view.ttl()).ok_or(WireError::NotPermitted {
            header: HEADER,
            field: "TTL",
            found: 0,
            least: 1,
            most: 255,
        })?;
        Ok(Self {
            traffic_class: view.traffic_class(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl,
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            options: Options::new(view.options())?,
            payload_len: view.total_len() - header_len as u16,
        })
    }

    /// The options.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Length of the payload.
    pub const fn payload_len(&self) -> u16 {
        self.payload_len
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN_MIN + self.options.len as usize
    }

    /// Writes the header with its checksum.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let header_len = self.encoded_len();
        view.set_version_and_header_len(header_len);
        view.set_traffic_class(self.traffic_class);
        view.set_total_len(header_len as u16 + self.payload_len);
        view.set_identification(self.identification);
        view.set_fragmentation(
            self.dont_fragment,
            self.more_fragments,
            self.fragment_offset,
        );
        view.set_ttl(self.ttl.get());
        view.set_protocol(self.protocol);
        view.set_source(self.source);
        view.set_destination(self.destination);
        view.bytes_mut()[HEADER_LEN_MIN..header_len].copy_from_slice(self.options.as_bytes());
        view.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const PACKET: [u8; 28] = [
        0x46,                   // version 4, header length 24
        0xb9,                   // traffic class: EF, ECT(1)
        0x00, 0x1c,             // total length: 28
        0x12, 0x34,             // identification
        0x20, 0x05,             // more fragments, offset 40
        0x40,                   // TTL 64
        0x11,                   // protocol: UDP
        0xe6, 0xd8,             // checksum: complement of 46b9+001c+1234+...+9404+0000 = 1927
        0x0a, 0x00, 0x00, 0x01, // source
        0xc0, 0x00, 0x02, 0x01, // destination
        0x94, 0x04, 0x00, 0x00, // option: router alert
        0xde, 0xad, 0xbe, 0xef, // payload
    ];

    fn fixture() -> Repr {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
        let repr = Repr {
            traffic_class: 0xb9,
            identification: 0x1234,
            more_fragments: true,
            fragment_offset: FragmentOffset::from_bytes(40).unwrap(),
            ..Repr::new(from, to, Protocol::UDP, 0).unwrap()
        };
        repr.with_body(Options::new(&PACKET[20..24]).unwrap(), 4)
            .unwrap()
    }

    fn error_of(change: impl FnOnce(&mut [u8; 28])) -> WireError {
        let mut packet = PACKET;
        change(&mut packet);
        Repr::parse(&View::new_unchecked(packet)).unwrap_err()
    }

    #[test]
    fn a_packet_is_read_and_written() {
        let view = View::new_checked(PACKET).unwrap();
        assert_eq!(Repr::parse(&view), Ok(fixture()));
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
        let mut buffer = [0xa5; 24];
        fixture().emit(&mut View::new_unchecked(&mut buffer[..]));
        assert_eq!(buffer, PACKET[..24]);
    }

    #[test]
    fn each_contradiction_names_its_field() {
        let field_of = |error| match error {
            WireError::NotPermitted { field, .. } => field,
            WireError::Checksum { .. } => "checksum",
            other => panic!("{other}"),
        };
        assert_eq!(field_of(error_of(|p| p[0] = 0x66)), "version");
        assert_eq!(field_of(error_of(|p| p[0] = 0x44)), "header length");
        assert_eq!(field_of(error_of(|p| p[3] = 23)), "total length");
        assert_eq!(field_of(error_of(|p| p[3] = 29)), "total length");
        assert_eq!(field_of(error_of(|p| p[6] |= 0x80)), "reserved flag");
        assert_eq!(field_of(error_of(|p| p[10] ^= 1)), "checksum");
        let no_hops = |p: &mut [u8; 28]| {
            p[8] = 0;
            View::new_unchecked(&mut p[..]).fill_checksum();
        };
        assert_eq!(field_of(error_of(no_hops)), "TTL");
        assert_eq!(
            error_of(|p| p[3] = 20),
            WireError::NotPermitted {
                header: HEADER,
                field: "total length",
                found: 20,
                least: 24,
                most: 28
            }
        );
        assert!(matches!(
            error_of(|p| p[0] = 0x4f),
            WireError::Truncated { needed: 60, .. }
        ));
    }

    #[test]
    fn options_are_walked_and_the_copied_ones_kept() {
        #[rustfmt::skip]
        let options = [
            0x01,                               // no operation
            0x07, 0x07, 0x04, 0, 0, 0, 0,       // record route: not copied
            0x83, 0x07, 0x04, 10, 0, 0, 9,      // loose source route: copied
            0x00, 0xff,                         // end; the rest is ignored
        ];
        let kinds: Vec<_> = walk_options(&options)
            .map(|o| o.unwrap())
            .map(|o| (o.kind(), o.is_copied(), o.is_source_route()))
            .collect();
        assert_eq!(
            kinds,
            [(1, false, false), (7, false, false), (131, true, true)]
        );
        let copied = Options::new(&options).unwrap().copied();
        assert_eq!(copied.as_bytes(), [0x83, 0x07, 0x04, 10, 0, 0, 9, 0]);
        assert!(Options::new(&[0; 41]).is_err());
    }

    #[test]
    fn a_bad_option_length_ends_the_walk_with_an_error() {
        for bad in [&[0x44, 0][..], &[0x44, 1], &[0x44, 5, 0, 0], &[0x44]] {
            let found: Vec<_> = walk_options(bad).collect();
            assert!(matches!(found[..], [Err(_)]), "{bad:?}");
        }
    }

    prop_compose! {
        fn reprs()(
            traffic_class: u8, identification: u16, dont_fragment: bool, more_fragments: bool,
            offset: u16, ttl in 1_u8.., protocol: u8, source: [u8; 4], destination: [u8; 4],
            options in vec(any::<u8>(), 0..=40), payload_len in 0_usize..65475,
        ) -> Repr {
            let repr = Repr {
                traffic_class, identification, dont_fragment, more_fragments,
                fragment_offset: FragmentOffset::from_bits(offset),
                ttl: NonZeroU8::new(ttl).unwrap(),
                ..Repr::new(source.into(), destination.into(), protocol.into(), 0).unwrap()
            };
            repr.with_body(Options::new(&options).unwrap(), payload_len).unwrap()
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(repr in reprs()) {
            let len = repr.encoded_len();
            let mut buffer = vec![0xa5; len + usize::from(repr.payload_len()) + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..len]));
            prop_assert!(buffer[len..].iter().all(|b| *b == 0xa5));
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
            let theirs = etherparse::Ipv4HeaderSlice::from_slice(&buffer).unwrap().to_header();
            prop_assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
            prop_assert_eq!(theirs.source, repr.source.octets());
            prop_assert_eq!(theirs.destination, repr.destination.octets());
            prop_assert_eq!(theirs.total_len as usize, len + usize::from(repr.payload_len()));
            prop_assert_eq!(theirs.fragment_offset.value(), repr.fragment_offset.bits());
            prop_assert_eq!(theirs.dont_fragment, repr.dont_fragment);
            prop_assert_eq!(theirs.more_fragments, repr.more_fragments);
            prop_assert_eq!(theirs.time_to_live, repr.ttl.get());
            prop_assert_eq!(theirs.protocol.0, u8::from(repr.protocol));
            prop_assert_eq!(theirs.identification, repr.identification);
            prop_assert_eq!(theirs.dscp.value() << 2 | theirs.ecn.value(), repr.traffic_class);
            prop_assert_eq!(&theirs.options[..], repr.options().as_bytes());
        }

        #[test]
        fn copied_options_are_options_again(options in vec(any::<u8>(), 0..=40)) {
            let copied = Options::new(&options).unwrap().copied();
            prop_assert!(copied.as_bytes().len() <= options.len().next_multiple_of(4));
            for option in walk_options(copied.as_bytes()) {
                prop_assert!(option.unwrap().is_copied());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in vec(any::<u8>(), 0..100)) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x0f | 0x40; // or the version ends it too early
            }
            if let Ok(mut view) = View::new_checked(&mut bytes[..]) {
                let _ = (view.options().len(), view.payload().len());
                let _ = walk_options(view.options()).count();
                let _ = Repr::parse(&view);
                view.fill_checksum();
                let _ = Repr::parse(&view);
            }
        }
    }
}
