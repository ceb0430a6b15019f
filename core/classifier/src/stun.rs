//! STUN messages (RFC 8489, RFC 3489), and TURN's data within them and next to them (RFC 8656).
//!
//! ```text
//!  message       [ 00 type 14 ][ length 16 ][ 0x2112A442 ][ transaction 96 ][ attributes, 4-byte aligned ]
//!  channel data  [ 0x4000..=0x4fff ][ length 16 ][ data of a peer ]
//! ```
//!
//! The magic cookie decides. A message of RFC 3489 has no cookie; its attributes must then fill it exactly, and belong
//! to that standard. Data of a peer travels in a Send or Data indication (attribute DATA), or after a channel number;
//! [`peer_data`] finds it, so that media through a relay are recognised.
//!
//! Over TCP the same messages follow one another, each after a length if ICE made the connection (RFC 6544).

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;
use crate::reader::Reader;

/// Bytes of a header.
const HEADER_LEN: usize = 20;
const COOKIE: u32 = 0x2112_a442;
/// Channel numbers (RFC 8656, section 12), with those of RFC 5766 above.
const CHANNELS: std::ops::RangeInclusive<u16> = 0x4000..=0x7fff;
/// Maximum number of attributes to read.
const ATTRIBUTES_MAX: usize = 64;
/// The attribute DATA (RFC 8656, section 18.4).
const DATA: u16 = 0x0013;
/// Attributes of RFC 3489: MAPPED-ADDRESS to REFLECTED-FROM.
const CLASSIC: std::ops::RangeInclusive<u16> = 0x0001..=0x000b;

/// Reads a datagram.
pub(crate) fn datagram(bytes: &[u8]) -> Reading {
    match Message::parse(bytes) {
        Some(message) if message.len == bytes.len() => Reading::Found(message.finding()),
        _ => Reading::No,
    }
}

/// Reads the first bytes of a direction of a TCP connection.
pub(crate) fn stream(bytes: &[u8]) -> Reading {
    let framed = bytes.get(2..);
    let message = Message::parse(bytes).or_else(|| framed.and_then(Message::parse));
    // Without the cookie, a stream has too few fixed fields to distinguish a message from chance.
    match message.filter(|m| m.has_cookie) {
        Some(message) => Reading::Found(message.finding()),
        None => Reading::No,
    }
}

/// The data of a peer in a datagram of a flow that is STUN.
pub(crate) fn peer_data(bytes: &[u8]) -> Option<&[u8]> {
    if let Some(message) = Message::parse(bytes) {
        return message.data;
    }
    let mut reader = Reader(bytes);
    reader.u16().filter(|channel| CHANNELS.contains(channel))?;
    reader.long().map(|data| data.0)
}

/// A message.
#[derive(Clone, Copy, Debug)]
struct Message<'a> {
    kind: u16,
    has_cookie: bool,
    /// Bytes of the message.
    len: usize,
    data: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.u16().filter(|kind| kind >> 14 == 0)?;
        let len = usize::from(reader.u16()?);
        let has_cookie = reader.u32()? == COOKIE;
        reader.take(12)?; // transaction
        if len % 4 != 0 {
            return None;
        }
        let mut message = Self {
            kind,
            has_cookie,
            len: HEADER_LEN + len,
            data: None,
        };
        let attributes = if has_cookie {
            Reader(&reader.0[..len.min(reader.len())])
        } else {
            Reader(reader.take(len)?)
        };
        let walked = message.attributes(attributes);
        (has_cookie || walked.is_some() && message.is_classic(len)).then_some(message)
    }

    /// Walks over the attributes; `None` if they do not fill the message.
    fn attributes(&mut self, mut reader: Reader<'a>) -> Option<()> {
        for _ in 0..ATTRIBUTES_MAX {
            if reader.is_empty() {
                return Some(());
            }
            let (kind, value) = (reader.u16()?, reader.long()?);
            if kind == DATA {
                self.data = Some(value.0);
            }
            if !self.has_cookie && !CLASSIC.contains(&kind) && kind < 0x8000 {
                return None;
            }
            let padding = value.len().wrapping_neg() % 4;
            reader.take(padding.min(reader.len()))?;
        }
        None
    }

    /// Whether type and length are permitted by RFC 3489: Binding and Shared Secret, with attributes.
    fn is_classic(&self, attributes_len: usize) -> bool {
        let is_request = matches!(self.kind, 0x0001 | 0x0002);
        let is_answer = matches!(self.kind, 0x0101 | 0x0102 | 0x0111 | 0x0112);
        (is_request || is_answer) && attributes_len > 0
    }

    fn finding(&self) -> Finding {
        // Bits 0 to 3, 5 to 7 and 9 to 13 are the method, bits 4 and 8 the class.
        let method = self.kind & 0xf | self.kind >> 1 & 0x70 | self.kind >> 2 & 0xf80;
        let name = match method {
            1 => "binding",
            3 => "allocate",
            4 => "refresh",
            6 | 7 => "relayed data",
            8 => "permission",
            9 => "channel",
            _ => "",
        };
        let evidence = if self.has_cookie {
            Evidence::Message
        } else {
            Evidence::Header
        };
        Finding::new(Kind::Stun, evidence).with(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message with one attribute, padded.
    fn message(kind: u16, cookie: u32, attribute: u16, value: &[u8]) -> Vec<u8> {
        let mut body = attribute.to_be_bytes().to_vec();
        body.extend((value.len() as u16).to_be_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
        let mut out = kind.to_be_bytes().to_vec();
        out.extend((body.len() as u16).to_be_bytes());
        out.extend(cookie.to_be_bytes());
        out.extend([9; 12]);
        out.extend(body);
        out
    }

    #[test]
    fn the_cookie_and_the_length_decide() {
        let request = message(1, COOKIE, 0x8022, b"weir!");
        assert!(matches!(datagram(&request), Reading::Found(f) if &*f.detail == "binding"));
        let longer = [&request[..], &[0; 4]].concat();
        assert_eq!(
            datagram(&longer),
            Reading::No,
            "a datagram holds one message"
        );
        assert!(matches!(stream(&longer), Reading::Found(_)));
        let framed = [&[0, request.len() as u8], &request[..]].concat();
        assert!(matches!(stream(&framed), Reading::Found(_)));
    }

    #[test]
    fn a_message_without_cookie_has_attributes_of_its_time() {
        assert!(matches!(
            datagram(&message(1, 7, 3, &[0; 4])),
            Reading::Found(_)
        ));
        assert_eq!(datagram(&message(1, 7, 0x20, &[0; 4])), Reading::No);
        assert_eq!(datagram(&message(3, 7, 3, &[0; 4])), Reading::No);
        assert_eq!(stream(&message(1, 7, 3, &[0; 4])), Reading::No);
    }

    #[test]
    fn data_of_a_peer_is_found_in_both_forms() {
        let indication = message(0x0016, COOKIE, DATA, b"media");
        assert!(matches!(datagram(&indication), Reading::Found(f) if &*f.detail == "relayed data"));
        assert_eq!(peer_data(&indication), Some(&b"media"[..]));
        let channel = [&[0x40, 1, 0, 5], &b"media"[..], &[0, 0, 0]].concat();
        assert_eq!(peer_data(&channel), Some(&b"media"[..]));
        assert_eq!(peer_data(&[0x80, 1, 0, 1, 7]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), at: prop::sample::Index, byte: u8) {
            let mut known = message(0x0016, COOKIE, DATA, &bytes);
            for _ in 0..2 {
                let at = at.index(known.len());
                datagram(&known);
                stream(&known[..at]);
                peer_data(&known[..at]);
                known[at] = byte;
            }
            datagram(&bytes);
            stream(&bytes);
            peer_data(&bytes);
        }
    }
}
