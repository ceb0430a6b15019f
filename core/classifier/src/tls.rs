//! TLS over TCP (RFC 8446, RFC 5246): records, ClientHello and ServerHello.
//!
//! ```text
//!  record     [ type 22 ][ version 3.x ][ length ][ handshake ..                    ] [ next record ..
//!  handshake                                      [ type 1 ][ length 24 bits ][ body .. may span records
//!  body       version, random, session ID, ciphers, compression, extensions: SNI (0), ALPN (16)
//! ```
//!
//! A ClientHello names the server (RFC 6066) and the application protocols (RFC 7301). A ServerHello, or any record of
//! a connection that began before the capture, shows TLS without a name. The hello of SSL 2 that offers later versions
//! (RFC 5246, appendix E.2) is recognised too.

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;
use crate::reader::Reader;

/// Bytes of a record's header.
const HEADER_LEN: usize = 5;
/// Longest content of a record: 2^14 bytes, and 2048 for encryption (RFC 5246, section 6.2.3).
const RECORD_MAX: usize = (1 << 14) + 2048;
/// Content types.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Handshake types.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Extensions.
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// Reads the first bytes of one direction of a connection, or of any record in its middle. If the connection `begins`
/// with them, they are a hello or not TLS.
pub(crate) fn read(bytes: &[u8], begins: bool) -> Reading {
    let Some(&first) = bytes.first() else {
        return Reading::No;
    };
    if first & 0x80 != 0 {
        return version_2(bytes);
    }
    let Some(header) = Record::parse(bytes) else {
        // A header in two pieces; only a handshake record is worth waiting for.
        let start = &bytes[..bytes.len().min(2)];
        let is_piece = bytes.len() < HEADER_LEN && [HANDSHAKE, 3].starts_with(start);
        return if is_piece {
            Reading::Partial(None)
        } else {
            Reading::No
        };
    };
    match header.content {
        HANDSHAKE => handshake(bytes, header, begins),
        _ if begins => Reading::No,
        _ => middle(bytes, header),
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug)]
struct Record {
    content: u8,
    len: usize,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let content = reader.u8()?;
        let version = reader.u16()?;
        let len = usize::from(reader.u16()?);
        let is_permitted = (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&content)
            && (0x0300..=0x0304).contains(&version)
            && (1..=RECORD_MAX).contains(&len);
        is_permitted.then_some(Self { content, len })
    }
}

/// A handshake record: its message may continue in the next records.
fn handshake(bytes: &[u8], first: Record, begins: bool) -> Reading {
    let encrypted = || Finding::new(Kind::Tls, Evidence::Header);
    let Some(&kind) = bytes.get(HEADER_LEN) else {
        return Reading::Partial(None);
    };
    if kind != CLIENT_HELLO && kind != SERVER_HELLO {
        // Another message of a handshake whose beginning was missed, or an encrypted message.
        return if begins {
            Reading::No
        } else {
            middle(bytes, first)
        };
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    while let Some(record) = Record::parse(rest).filter(|r| r.content == HANDSHAKE) {
        let body = &rest[HEADER_LEN..];
        let here = body.len().min(record.len);
        message.extend_from_slice(&body[..here]);
        rest = &body[here..];
        if here < record.len {
            break;
        }
    }
    let mut reader = Reader(&message);
    let (Some(_), Some(len)) = (reader.u8(), reader.u24()) else {
        return Reading::Partial(None);
    };
    if len > 1 << 16 {
        return Reading::No; // no hello has this length, whatever its key shares
    }
    match reader.take(len as usize) {
        Some(body) if kind == CLIENT_HELLO => match Hello::parse(body) {
            Some(hello) => Reading::Found(hello.finding(Kind::Tls, "")),
            None => Reading::No,
        },
        Some(_) => Reading::Found(Finding::new(Kind::Tls, Evidence::Message)),
        None => Reading::Partial(Some(encrypted())),
    }
}

/// A record from the middle of a connection. Its header alone is five bytes that could be chance, so the record must
/// end with the segment, or another record must follow, or its content must have the form of its type.
fn middle(bytes: &[u8], record: Record) -> Reading {
    let found = Reading::Found(Finding::new(Kind::Tls, Evidence::Header));
    let (body, next) = match bytes[HEADER_LEN..].split_at_checked(record.len) {
        Some(parts) => parts,
        None => return Reading::Partial(Some(Finding::new(Kind::Tls, Evidence::Header))),
    };
    let has_form = match record.content {
        CHANGE_CIPHER_SPEC => body == [1],
        ALERT => body.len() > 2 || matches!(body, [1 | 2, _]),
        HANDSHAKE => is_message(body),
        _ => true,
    };
    let goes_on = next.is_empty() || next.len() < HEADER_LEN || Record::parse(next).is_some();
    if has_form && goes_on {
        found
    } else {
        Reading::No
    }
}

/// Whether the content of a handshake record may be a message in plain text, or an encrypted message. The shortest
/// encrypted message is Finished: 16 bytes and at least as many bytes of integrity code.
fn is_message(body: &[u8]) -> bool {
    const ENCRYPTED_MIN: usize = 36;
    // HelloRequest to Finished, CertificateURL, CertificateStatus, KeyUpdate (RFC 8446, appendix B.3).
    let is_type = |kind: u8| matches!(kind, 0..=2 | 4..=6 | 8 | 11..=16 | 20..=22 | 24);
    match body {
        [kind, high, ..] if is_type(*kind) && *high <= 1 => true,
        [first, ..] => body.len() >= ENCRYPTED_MIN && body.iter().any(|byte| byte != first),
        [] => false,
    }
}

/// A ClientHello in the record format of SSL 2.
fn version_2(bytes: &[u8]) -> Reading {
    let parse = || {
        let mut reader = Reader(bytes);
        let len = usize::from(reader.u16()? & 0x7fff);
        let mut body = Reader(reader.take(len)?);
        let (kind, major) = (body.u8()?, body.u16()? >> 8);
        let [ciphers, session, challenge] = [body.u16()?, body.u16()?, body.u16()?];
        let fields = usize::from(ciphers) + usize::from(session) + usize::from(challenge);
        let is_hello = kind == CLIENT_HELLO
            && (major == 3 || major == 0)
            && ciphers % 3 == 0
            && matches!(session, 0 | 16)
            && (16..=32).contains(&challenge)
            && fields == body.len();
        is_hello.then(|| Finding::new(Kind::Tls, Evidence::Message).with("SSL 2 hello"))
    };
    parse().map_or(Reading::No, Reading::Found)
}

/// The fields of a ClientHello that classify a flow. QUIC and DTLS share its extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello<'a> {
    server: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
    encrypted: bool,
    version: u16,
}

impl<'a> Hello<'a> {
    /// Reads the body of a ClientHello (RFC 8446, section 4.1.2).
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(body);
        let version = reader.u16().filter(|v| v >> 8 == 3)?;
        reader.take(32)?; // random
        reader.short().filter(|session| session.len() <= 32)?;
        Self::after_session(reader, version)
    }

    /// Reads ciphers, compression methods and extensions.
    pub(crate) fn after_session(mut reader: Reader<'a>, version: u16) -> Option<Self> {
        let mut hello = Self {
            version,
            ..Self::default()
        };
        reader
            .long()
            .filter(|c| c.len() % 2 == 0 && !c.is_empty())?;
        reader.short().filter(|methods| !methods.is_empty())?;
        if reader.is_empty() {
            return Some(hello); // a hello without extensions
        }
        let mut extensions = reader.long()?;
        while !extensions.is_empty() {
            let (kind, body) = (extensions.u16()?, extensions.long()?);
            hello.extension(kind, body);
        }
        Some(hello)
    }

    fn extension(&mut self, kind: u16, mut body: Reader<'a>) {
        match kind {
            SERVER_NAME => self.server = server_name(body),
            ALPN => self.protocol = body.long().and_then(|mut l| l.short()).map(|r| r.0),
            ENCRYPTED_CLIENT_HELLO => self.encrypted = true,
            SUPPORTED_VERSIONS => {
                let mut versions = body.short().unwrap_or(Reader(&[]));
                while let Some(version) = versions.u16() {
                    // DTLS counts downwards from 0xfeff; the values of RFC 8701 are not versions.
                    if matches!(version, 0x0301..=0x0304 | 0xfefc..=0xfeff) {
                        self.version = match version >> 8 {
                            3 => self.version.max(version),
                            _ => self.version.min(version),
                        };
                    }
                }
            }
            _ => {}
        }
    }

    /// The finding for this hello.
    pub(crate) fn finding(&self, kind: Kind, prefix: &str) -> Finding {
        let mut detail = prefix.to_owned();
        let mut add = |part: &str| {
            if !detail.is_empty() {
                detail.push_str(", ");
            }
            detail.push_str(part);
        };
        if prefix.is_empty() {
            add(version_name(self.version));
        }
        let protocol = self.protocol.and_then(|p| std::str::from_utf8(p).ok());
        let is_plain = |p: &&str| p.bytes().all(|b| b.is_ascii_graphic());
        if let Some(protocol) = protocol.filter(is_plain) {
            add("ALPN ");
            detail.push_str(protocol);
        } else if self.encrypted {
            add("ECH");
        }
        Finding::new(kind, Evidence::Message)
            .named(self.server)
            .with(detail)
    }
}

/// The host name of the extension (RFC 6066, section 3).
fn server_name(mut body: Reader<'_>) -> Option<&[u8]> {
    let mut names = body.long()?;
    while !names.is_empty() {
        let (kind, name) = (names.u8()?, names.long()?);
        if kind == 0 {
            return Some(name.0);
        }
    }
    None
}

/// The highest version that a hello offers.
fn version_name(version: u16) -> &'static str {
    match version {
        0x0300 => "SSL 3",
        0x0301 => "1.0",
        0x0302 => "1.1",
        0x0303 => "1.2",
        0x0304 => "1.3",
        0xfeff => "1.0",
        0xfefd => "1.2",
        0xfefc => "1.3",
        _ => "version unknown",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ClientHello with a server name and one application protocol, as a handshake message.
    pub(crate) fn client_hello(server: &str, protocol: &str) -> Vec<u8> {
        let long = |bytes: Vec<u8>| {
            let mut out = (bytes.len() as u16).to_be_bytes().to_vec();
            out.extend(bytes);
            out
        };
        let short = |bytes: &[u8]| {
            let mut out = vec![bytes.len() as u8];
            out.extend_from_slice(bytes);
            out
        };
        let extension =
            |kind: u16, body: Vec<u8>| [kind.to_be_bytes().to_vec(), long(body)].concat();
        let name = [vec![0], long(server.into())].concat();
        let extensions = [
            extension(SERVER_NAME, long(name)),
            extension(ALPN, long(short(protocol.as_bytes()))),
            extension(SUPPORTED_VERSIONS, short(&[0x1a, 0x1a, 3, 4, 3, 3])),
        ];
        let body = [
            vec![3, 3],
            vec![7; 32],
            short(&[]),
            long(vec![0x13, 0x01]),
            short(&[0]),
            long(extensions.concat()),
        ]
        .concat();
        let len = (body.len() as u32).to_be_bytes();
        [vec![CLIENT_HELLO, len[1], len[2], len[3]], body].concat()
    }

    /// Handshake bytes in records of at most `size` bytes.
    pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let len = (part.len() as u16).to_be_bytes();
            [&[HANDSHAKE, 3, 1, len[0], len[1]], part].concat()
        };
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn a_client_hello_names_server_and_protocol() {
        let hello = client_hello("example.org", "h2");
        for size in [16_000, 100, 7] {
            let Reading::Found(finding) = read(&records(&hello, size), false) else {
                panic!("not found in records of {size} bytes");
            };
            assert_eq!(finding.name.as_deref(), Some("example.org"));
            assert_eq!(&*finding.detail, "1.3, ALPN h2");
            assert_eq!(finding.evidence, Evidence::Message);
        }
    }

    #[test]
    fn every_beginning_of_a_hello_asks_for_more() {
        let bytes = records(&client_hello("example.org", "h2"), 60);
        for len in 1..bytes.len() {
            let reading = read(&bytes[..len], false);
            assert!(matches!(reading, Reading::Partial(_)), "{len}: {reading:?}");
        }
    }

    #[test]
    fn records_from_the_middle_are_recognised_by_their_form() {
        let found = |bytes: &[u8]| matches!(read(bytes, false), Reading::Found(_));
        assert!(found(&[23, 3, 3, 0, 2, 9, 9]));
        assert!(found(&[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40]));
        assert!(found(&[21, 3, 3, 0, 2, 2, 40]));
        assert!(!found(&[21, 3, 3, 0, 2, 7, 40]), "no such level of alerts");
        assert!(!found(&[20, 3, 3, 0, 1, 2]), "no such change");
        assert!(!found(&[23, 3, 5, 0, 2, 9, 9]), "no such version");
        assert!(!found(&[23, 3, 3, 0, 0]), "an empty record");
        assert!(
            !found(&[23, 3, 3, 0, 2, 9, 9, 1, 2, 3, 4, 5]),
            "no record follows"
        );
    }

    #[test]
    fn a_hello_of_ssl_2_that_offers_tls_is_recognised() {
        let mut bytes = vec![0x80, 28, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 4];
        bytes.extend([5; 16]);
        assert!(matches!(read(&bytes, false), Reading::Found(f) if &*f.detail == "SSL 2 hello"));
        bytes[6] = 4; // ciphers have three bytes each
        assert_eq!(read(&bytes, false), Reading::No);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, byte: u8) {
            read(&bytes, false);
            let mut hello = records(&client_hello("a.example", "h3"), 90);
            let at = at.index(hello.len());
            hello[at] = byte;
            read(&hello, false);
            read(&hello[..at], false);
        }
    }
}
