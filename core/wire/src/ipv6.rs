//! IPv6 (RFC 8200, section 3). The headers that may follow are in [`crate::ipv6_extension`].
//!
//! ```text
//!  0                               4               6       7
//! +---+-------+-------------------+---------------+-------+-------+
//! | 6 | class | flow label        | payload length| next  | hops  |
//! +---+-------+-------------------+---------------+-------+-------+
//! | source, 16 bytes                                              |  8
//! +---------------------------------------------------------------+
//! | destination, 16 bytes                                         | 24 ... 40
//! +---------------------------------------------------------------+
//! ```

use std::net::Ipv6Addr;

use crate::bytes::{array_at, clamped, set_u16, set_u32, u16_at, u32_at};
use crate::error::permit;
use crate::{Protocol, WireError};

const HEADER: &str = "IPv6 header";

/// Length of the header.
pub const HEADER_LEN: usize = 40;

/// The maximum flow label: twenty bits.
pub const FLOW_LABEL_MAX: u32 = 0x000f_ffff;

view!(
    /// A view of the bytes of an IPv6 packet.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The version: 6.
    #[inline]
    pub fn version(&self) -> u8 {
        self.bytes()[0] >> 4
    }

    /// The differentiated services field with the ECN bits.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.bytes(), 0) >> 4) as u8
    }

    /// The flow label.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.bytes(), 0) & FLOW_LABEL_MAX
    }

    /// The payload length that the header claims.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        u16_at(self.bytes(), 4)
    }

    /// The length of header and payload that the header claims.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// The protocol of the bytes after the header.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        self.bytes()[6].into()
    }

    /// The number of hops left.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[7]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes(), 8).into()
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes(), 24).into()
    }

    /// The payload: the bytes after the header, up to the payload length or the end of the buffer.
    pub fn payload(&self) -> &[u8] {
        clamped(self.bytes(), HEADER_LEN, self.total_len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes version 6, the traffic class and the flow label (its lower twenty bits).
    pub fn set_first_word(&mut self, traffic_class: u8, flow_label: u32) {
        let class = u32::from(traffic_class) << 20;
        let word = 6 << 28 | class | flow_label & FLOW_LABEL_MAX;
        set_u32(self.bytes_mut(), 0, word);
    }

    /// Writes the differentiated services field with the ECN bits.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = u16_at(self.bytes(), 0) & 0xf00f | u16::from(class) << 4;
        set_u16(self.bytes_mut(), 0, word);
    }

    /// Writes the payload length.
    pub fn set_payload_len(&mut self, len: u16) {
        set_u16(self.bytes_mut(), 4, len);
    }

    /// Writes the protocol of the bytes after the header.
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.bytes_mut()[6] = protocol.into();
    }

    /// Writes the number of hops left.
    #[inline]
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.bytes_mut()[7] = hops;
    }

    /// Writes the source address.
    pub fn set_source(&mut self, address: Ipv6Addr) {
        self.bytes_mut()[8..24].copy_from_slice(&address.octets());
    }

    /// Writes the destination address.
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        self.bytes_mut()[24..40].copy_from_slice(&address.octets());
    }
}

/// A flow label: twenty bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// A label; an error above [`FLOW_LABEL_MAX`].
    pub fn new(label: u32) -> Result<Self, WireError> {
        permit(HEADER, "flow label", label, 0, FLOW_LABEL_MAX.into())?;
        Ok(Self(label))
    }

    /// The label as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services field with the ECN bits.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Length of the payload.
    pub payload_len: u16,
    /// The protocol of the bytes after the header.
    pub next_header: Protocol,
    /// The number of hops left.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// Reads a header and its length. Jumbograms (RFC 2675) are refused: they are recognised by a payload
    /// length of zero before hop-by-hop options.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        permit(HEADER, "version", view.version(), 6, 6)?;
        let room = (view.bytes().len() - HEADER_LEN) as u64;
        let least = u64::from(view.next_header() == Protocol::HOP_BY_HOP);
        let payload_len = view.payload_len();
        permit(HEADER, "payload length", payload_len, least, room)?;
        Ok(Self {
            traffic_class: view.traffic_class(),
            flow_label: FlowLabel(view.flow_label()),
            payload_len,
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            source: view.source(),
            destination: view.destination(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_first_word(self.traffic_class, self.flow_label.0);
        view.set_payload_len(self.payload_len);
        view.set_next_header(self.next_header);
        view.set_hop_limit(self.hop_limit);
        view.set_source(self.source);
        view.set_destination(self.destination);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const PACKET: [u8; 44] = [
        0x6b, 0x81, 0x23, 0x45, // version 6, traffic class 0xb8, flow label 0x12345
        0x00, 0x04,             // payload length: 4
        0x3b,                   // next header: none
        0x40,                   // hop limit 64
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // source
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, // destination
        0xde, 0xad, 0xbe, 0xef, // payload
    ];

    #[test]
    fn a_packet_is_read_and_written() {
        let view = View::new_checked(PACKET).unwrap();
        let repr = Repr {
            traffic_class: 0xb8,
            flow_label: FlowLabel::new(0x12345).unwrap(),
            payload_len: 4,
            next_header: Protocol::NO_NEXT_HEADER,
            hop_limit: 64,
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
        };
        assert_eq!(Repr::parse(&view), Ok(repr));
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
        let mut buffer = [0xa5; 40];
        repr.emit(&mut View::new_unchecked(&mut buffer[..]));
        assert_eq!(buffer, PACKET[..40]);
    }

    #[test]
    fn each_contradiction_names_its_field() {
        let error_of = |at: usize, value: u8| {
            let mut packet = PACKET;
            packet[at] = value;
            Repr::parse(&View::new_unchecked(packet))
                .unwrap_err()
                .to_string()
        };
        assert!(error_of(0, 0x40).contains("version is 4"));
        assert!(error_of(5, 5).contains("payload length is 5, but must be from 0 to 4"));
        let mut jumbo = PACKET;
        (jumbo[5], jumbo[6]) = (0, 0); // length zero before hop-by-hop options
        assert!(Repr::parse(&View::new_unchecked(jumbo)).is_err());
        assert!(FlowLabel::new(0x10_0000).is_err());
    }

    #[test]
    fn a_traffic_class_is_written_between_its_neighbours() {
        let mut packet = PACKET;
        View::new_unchecked(&mut packet[..]).set_traffic_class(0x03);
        assert_eq!(packet[..4], [0x60, 0x31, 0x23, 0x45]);
    }

    prop_compose! {
        fn reprs()(
            traffic_class: u8, label in 0..=FLOW_LABEL_MAX, payload_len in 1_u16..2000, next: u8,
            hop_limit: u8, source: u128, destination: u128,
        ) -> Repr {
            Repr {
                traffic_class,
                flow_label: FlowLabel::new(label).unwrap(),
                payload_len,
                next_header: next.into(),
                hop_limit,
                source: source.into(),
                destination: destination.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(repr in reprs()) {
            let mut buffer = vec![0xa5; HEADER_LEN + usize::from(repr.payload_len)];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert!(buffer[HEADER_LEN..].iter().all(|b| *b == 0xa5));
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
            let theirs = etherparse::Ipv6HeaderSlice::from_slice(&buffer).unwrap().to_header();
            prop_assert_eq!(theirs.source_addr(), repr.source);
            prop_assert_eq!(theirs.destination_addr(), repr.destination);
            prop_assert_eq!(theirs.traffic_class, repr.traffic_class);
            prop_assert_eq!(theirs.flow_label.value(), repr.flow_label.get());
            prop_assert_eq!(theirs.payload_length, repr.payload_len);
            prop_assert_eq!(theirs.next_header.0, u8::from(repr.next_header));
            prop_assert_eq!(theirs.hop_limit, repr.hop_limit);
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in vec(any::<u8>(), 0..100)) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x0f | 0x60;
            }
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.payload().len(), Repr::parse(&view));
            }
        }
    }
}
