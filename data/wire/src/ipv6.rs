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
use crate::{Header, Protocol, WireError};

/// Length of the header.
pub const HEADER_LEN: usize = 40;

/// The greatest flow label: twenty bits.
pub const FLOW_LABEL_MAX: u32 = 0x000f_ffff;

view!(
    /// Field names on the bytes of an IPv6 packet.
    View, Header::Ipv6, HEADER_LEN
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

    /// Length of what follows the header, as the header claims it.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        u16_at(self.bytes(), 4)
    }

    /// Length of header and payload, as the header claims it.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the header.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        self.bytes()[6].into()
    }

    /// Hops that are left.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[7]
    }

    /// Who sent it.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes(), 8).into()
    }

    /// Who it is for.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes(), 24).into()
    }

    /// What follows the header, cut to the payload length and to what is there.
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

    /// Writes the length of what follows the header.
    pub fn set_payload_len(&mut self, len: u16) {
        set_u16(self.bytes_mut(), 4, len);
    }

    /// Writes what follows the header.
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.bytes_mut()[6] = protocol.into();
    }

    /// Writes the hops that are left.
    #[inline]
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.bytes_mut()[7] = hops;
    }

    /// Writes who sends it.
    pub fn set_source(&mut self, address: Ipv6Addr) {
        self.bytes_mut()[8..24].copy_from_slice(&address.octets());
    }

    /// Writes who it is for.
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        self.bytes_mut()[24..40].copy_from_slice(&address.octets());
    }
}

/// A flow label: twenty bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// A label; refused above [`FLOW_LABEL_MAX`].
    pub fn new(label: u32) -> Result<Self, WireError> {
        permit(Header::Ipv6, "flow label", label, 0, FLOW_LABEL_MAX.into())?;
        Ok(Self(label))
    }

    /// Its number.
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
    /// Length of what follows the header.
    pub payload_len: u16,
    /// What follows the header.
    pub next_header: Protocol,
    /// Hops that are left.
    pub hop_limit: u8,
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Who it is for.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// Reads a header and its length. Jumbograms (RFC 2675) are refused by their length of zero
    /// before hop-by-hop options.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        permit(Header::Ipv6, "version", view.version(), 6, 6)?;
        let room = (view.bytes().len() - HEADER_LEN) as u64;
        let least = u64::from(view.next_header() == Protocol::HopByHop);
        let payload_len = view.payload_len();
        permit(Header::Ipv6, "payload length", payload_len, least, room)?;
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
