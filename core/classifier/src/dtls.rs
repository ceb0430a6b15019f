//! DTLS (RFC 6347, RFC 9147): TLS over datagrams.
//!
//! ```text
//!  record     [ type 20..=26 ][ 0xfeff 0xfefd 0x0100 ][ epoch 16 ][ sequence 48 ][ length ][ content ..
//!  handshake  [ type 1 ][ length 24 ][ sequence 16 ][ offset 24 ][ length 24 ][ body ..
//! ```
//!
//! A datagram holds whole records, so one datagram decides. A ClientHello in several fragments is recognised by its
//! first fragment, without the server name.

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;
use crate::reader::Reader;
use crate::tls::Hello;

/// Longest content of a record (RFC 6347, section 4.1).
const RECORD_MAX: usize = (1 << 14) + 2048;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// Reads a datagram.
pub(crate) fn read(datagram: &[u8]) -> Reading {
    let mut reader = Reader(datagram);
    let mut first = None;
    while !reader.is_empty() {
        // Records of DTLS 1.3 after the handshake have a different header, which begins with the bits 001.
        if first.is_some() && reader.0[0] >> 5 == 1 {
            break;
        }
        let Some(record) = record(&mut reader) else {
            return Reading::No;
        };
        first.get_or_insert(record);
    }
    let Some((content, epoch, body)) = first else {
        return Reading::No;
    };
    let plain = content == HANDSHAKE && epoch == 0;
    let hello = plain.then(|| client_hello(body)).flatten();
    Reading::Found(hello.unwrap_or(Finding::new(Kind::Dtls, Evidence::Header)))
}

/// Type, epoch and content of a record.
fn record<'a>(reader: &mut Reader<'a>) -> Option<(u8, u16, Reader<'a>)> {
    let content = reader.u8().filter(|c| (20..=26).contains(c))?;
    // OpenSSL wrote 0x0100 before the standard.
    reader
        .u16()
        .filter(|v| matches!(v, 0xfeff | 0xfefd | 0xfefc | 0x0100))?;
    let epoch = reader.u16()?;
    reader.take(6)?; // sequence number
    let body = reader
        .long()
        .filter(|b| (1..=RECORD_MAX).contains(&b.len()))?;
    Some((content, epoch, body))
}

/// A ClientHello that is in one fragment (RFC 6347, section 4.2.1).
fn client_hello(mut message: Reader<'_>) -> Option<Finding> {
    message.u8().filter(|kind| *kind == CLIENT_HELLO)?;
    let (len, _sequence) = (message.u24()?, message.u16()?);
    let (offset, here) = (message.u24()?, message.u24()?);
    if offset != 0 || here != len {
        return None;
    }
    let mut body = Reader(message.take(len as usize)?);
    let version = body.u16()?;
    body.take(32)?; // random
    body.short()?; // session
    body.short()?; // cookie
    Some(Hello::after_session(body, version)?.finding(Kind::Dtls, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::client_hello as tls_hello;
    use proptest::prelude::*;

    /// A ClientHello in a record: that of TLS with other versions, a cookie and fragment fields.
    fn datagram() -> Vec<u8> {
        let hello = tls_hello("turn.example", "webrtc");
        let (versions_at, session_at) = (4, 4 + 2 + 32);
        let body = [
            &[0xfe, 0xfd],
            &hello[versions_at + 2..=session_at],
            &[0], // no cookie
            &hello[session_at + 1..],
        ]
        .concat();
        let len = &(body.len() as u32).to_be_bytes()[1..];
        let message = [&[1], len, &[0, 0], &[0, 0, 0], len, &body].concat();
        let size = (message.len() as u16).to_be_bytes();
        [
            &[22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
            &size[..],
            &message,
        ]
        .concat()
    }

    #[test]
    fn a_hello_is_read_and_a_piece_of_it_is_not_dtls() {
        let datagram = datagram();
        let Reading::Found(finding) = read(&datagram) else {
            panic!("not found");
        };
        assert_eq!(finding.kind, Kind::Dtls);
        assert_eq!(finding.name.as_deref(), Some("turn.example"));
        assert!(
            finding.detail.ends_with("ALPN webrtc"),
            "{}",
            finding.detail
        );
        assert_eq!(read(&datagram[..datagram.len() - 1]), Reading::No);
    }

    #[test]
    fn records_of_a_running_session_fill_the_datagram() {
        let record = [23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 9, 0, 2, 7, 7];
        let two = [record, record].concat();
        assert!(matches!(read(&two), Reading::Found(f) if f.evidence == Evidence::Header));
        assert_eq!(read(&two[..20]), Reading::No);
        assert_eq!(read(&[]), Reading::No);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, byte: u8) {
            read(&bytes);
            let mut datagram = datagram();
            let at = at.index(datagram.len());
            datagram[at] = byte;
            read(&datagram);
            read(&datagram[..at]);
        }
    }
}
