//! QUIC: version 1 (RFC 9000), version 2 (RFC 9369), drafts 29 to 34, and by its header Google's.
//!
//! ```text
//!  datagram   [ long header packet ][ long header packet ] ..      coalesced (RFC 9000, section 12.2)
//!  header     [ 1 X type .. ][ version 32 ][ destination ID ][ source ID ]
//!  Initial    ..[ token ][ length ][ packet number ][ frames, encrypted ][ tag 16 ]
//!                                                     CRYPTO: pieces of the ClientHello
//! ```
//!
//! The keys of Initial packets follow from the first destination ID of the client ([`keys`]), so everybody
//! on the path can read the ClientHello: server name and application protocols. Chrome sends it in several
//! pieces that are out of order, and in two packets when key shares are long.
//!
//! A known version shows QUIC even if nothing can be decrypted (a server's Initial in a capture without the client's, a
//! truncated packet); the evidence is then the header only. A connection whose beginning was missed has short headers
//! ([`short`]).

mod keys;
mod short;

use crate::assembly::Assembly;
use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;
use crate::reader::Reader;
use crate::tls::Hello;

use keys::{Keys, Suite};
pub(crate) use short::ShortHeaders;

/// Longest connection ID of the known versions.
const ID_MAX: usize = 20;
/// Maximum number of packets to read of a datagram.
const PACKETS_MAX: usize = 8;
/// Maximum number of frames to read of a packet, without padding.
const FRAMES_MAX: usize = 256;
/// Bytes after the IDs in a datagram that begins a connection: 1200 (RFC 9000, section 14.1) minus the longest IDs and
/// the bytes before them.
const REST_MIN: usize = 1200 - (1 + 4 + 2 * (1 + ID_MAX));
/// Type of the first handshake message.
const CLIENT_HELLO: u8 = 1;

/// A version whose Initial packets can be decrypted.
#[derive(Debug)]
struct Version {
    number: u32,
    name: &'static str,
    suite: &'static Suite,
    /// The type bits of an Initial packet; version 2 has moved them.
    initial: u8,
}

const fn version(number: u32, name: &'static str, suite: &'static Suite) -> Version {
    Version {
        number,
        name,
        suite,
        initial: if number == VERSION_2 { 1 } else { 0 },
    }
}

const VERSION_2: u32 = 0x6b33_43cf;

static VERSIONS: [Version; 8] = [
    version(1, "v1", &keys::VERSION_1),
    version(VERSION_2, "v2", &keys::VERSION_2),
    version(0xff00_001d, "draft 29", &keys::DRAFT_29),
    version(0xff00_001e, "draft 30", &keys::DRAFT_29),
    version(0xff00_001f, "draft 31", &keys::DRAFT_29),
    version(0xff00_0020, "draft 32", &keys::DRAFT_29),
    version(0xff00_0021, "draft 33", &keys::VERSION_1),
    version(0xff00_0022, "draft 34", &keys::VERSION_1),
];

/// The part of a connection that its Initial packets share.
#[derive(Debug, Default)]
pub(crate) struct Session {
    keys: Option<Keys>,
    hello: Assembly,
}

/// Whether a datagram may begin a connection of QUIC; the test is cheap, so that other flows need no session.
pub(crate) fn is_candidate(datagram: &[u8]) -> bool {
    google(datagram).is_some() || LongHeader::parse(&mut Reader(datagram)).is_some()
}

/// Reads a datagram.
pub(crate) fn read(datagram: &[u8], session: &mut Session) -> Reading {
    let header_only = |name: &str| Finding::new(Kind::Quic, Evidence::Header).with(name);
    if let Some(name) = google(datagram) {
        return Reading::Found(header_only(&name));
    }
    let mut best = Reading::No;
    let mut rest = Reader(datagram);
    for _ in 0..PACKETS_MAX {
        let packet = rest.0;
        let Some(header) = LongHeader::parse(&mut rest) else {
            break; // a packet with a short header, or padding
        };
        let Some(version) = header.known() else {
            let finding = header_only(&header.name());
            let goes_on = header.version == 0 || is_reserved(header.version);
            return best.or(|| match goes_on {
                true => Reading::Partial(Some(finding)), // after negotiation comes a readable hello
                false => Reading::Found(finding),
            });
        };
        let finding = header_only(version.name);
        if header.kind() != version.initial {
            // Handshake and 0-RTT packets follow an Initial one; a Retry precedes the second.
            return best.or(|| Reading::Partial(Some(finding)));
        }
        let Some(len) = initial_len(&mut rest) else {
            return best.or(|| Reading::Partial(Some(finding)));
        };
        let number_at = packet.len() - rest.len();
        let whole = &packet[..number_at + len];
        match session.open(version, &header, whole, number_at) {
            Some(Some(finding)) => return Reading::Found(finding),
            Some(None) => {
                let detail = Finding::new(Kind::Quic, Evidence::Message).with(version.name);
                best = Reading::Partial(Some(detail));
            }
            None => best = best.or(|| Reading::Partial(Some(finding))),
        }
        rest.take(len);
    }
    best
}

/// The header that all versions share (RFC 8999).
#[derive(Clone, Copy, Debug)]
struct LongHeader<'a> {
    first: u8,
    version: u32,
    destination: &'a [u8],
    /// The bytes after the source ID.
    rest: &'a [u8],
}

impl<'a> LongHeader<'a> {
    /// Reads a header of a version that is known, at least by name.
    fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        let first = reader.u8().filter(|first| first & 0x80 != 0)?;
        let version = reader.u32()?;
        let destination = reader.short().filter(|id| id.len() <= ID_MAX)?.0;
        reader.short().filter(|id| id.len() <= ID_MAX)?;
        let header = Self {
            first,
            version,
            destination,
            rest: reader.0,
        };
        (header.known().is_some() || !header.name().is_empty()).then_some(header)
    }

    fn known(&self) -> Option<&'static Version> {
        VERSIONS.iter().find(|v| v.number == self.version)
    }

    fn kind(&self) -> u8 {
        self.first >> 4 & 3
    }

    /// The name of a version whose packets are not decrypted; empty if the version is unknown.
    fn name(&self) -> String {
        match self.version.to_be_bytes() {
            [0, 0, 0, 0] if self.is_negotiation() => "version negotiation".to_owned(),
            [
                b @ (b'Q' | b'T'),
                b'0',
                tens @ b'0'..=b'9',
                ones @ b'0'..=b'9',
            ] => [b, b'0', tens, ones].map(char::from).iter().collect(),
            [0xfa, 0xce, 0xb0, _] => "mvfst".to_owned(),
            [0xff, 0, 0, draft @ 1..=28] => format!("draft {draft}"),
            // A client forces a negotiation; its datagram is as long as one that begins a connection.
            _ if is_reserved(self.version) && self.rest.len() >= REST_MIN => {
                "reserved version".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Whether the versions that a server offers are plausible (RFC 8999, section 6).
    fn is_negotiation(&self) -> bool {
        let mut offered = self.rest.chunks(4);
        let is_version = |v: u32| is_reserved(v) || VERSIONS.iter().any(|known| known.number == v);
        self.rest.len().is_multiple_of(4)
            && offered
                .any(|v| <[u8; 4]>::try_from(v).is_ok_and(|v| is_version(u32::from_be_bytes(v))))
    }
}

/// Whether a version is reserved to force negotiation (RFC 9000, section 15).
fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Skips the token, and returns the length of the rest of an Initial packet.
fn initial_len(reader: &mut Reader<'_>) -> Option<usize> {
    let token = usize::try_from(reader.varint()?).ok()?;
    reader.take(token)?;
    let len = usize::try_from(reader.varint()?).ok()?;
    (len <= reader.len()).then_some(len)
}

/// The version in a packet with Google's public header. In versions 35 to 43 the header has a flag for the version and
/// a flag for a connection ID of eight bytes; in versions 44 to 49 it is a long header with both ID lengths in one
/// byte.
fn google(datagram: &[u8]) -> Option<String> {
    let flags = *datagram.first()?;
    if let [first, b'Q', b'0', b'4', ones @ b'4'..=b'9', lengths, ..] = datagram
        && first >> 6 == 3
        && matches!(lengths, 0x50 | 0x05)
    {
        return Some(format!("Q04{}", char::from(*ones)));
    }
    if flags & 0x80 != 0 || flags & 0x09 != 0x09 {
        return None;
    }
    match datagram.get(9..13)? {
        [b'Q', b'0', tens @ b'2'..=b'4', ones @ b'0'..=b'9'] => {
            Some(format!("Q0{}{}", char::from(*tens), char::from(*ones)))
        }
        _ => None,
    }
}

impl Session {
    /// Decrypts an Initial packet of the client. `None`: it cannot be decrypted; `Some(None)`: its frames do not
    /// complete a ClientHello.
    fn open(
        &mut self,
        version: &Version,
        header: &LongHeader<'_>,
        packet: &[u8],
        number_at: usize,
    ) -> Option<Option<Finding>> {
        let known = self.keys.as_ref();
        let opened = known.and_then(|keys| keys.open(packet, number_at));
        // The first packet, or the first one after a Retry, which has chosen a new ID.
        let frames = match opened {
            Some(frames) => frames,
            None => {
                let keys = Keys::of_client(version.suite, header.destination)?;
                let frames = keys.open(packet, number_at)?;
                self.keys = Some(keys);
                self.hello = Assembly::default();
                frames
            }
        };
        take_crypto(&frames, &mut self.hello);
        let mut message = Reader(self.hello.beginning());
        let hello = (|| {
            message.u8().filter(|kind| *kind == CLIENT_HELLO)?;
            let len = message.u24()? as usize;
            Hello::parse(message.take(len)?)
        })();
        Some(hello.map(|hello| hello.finding(Kind::Quic, version.name)))
    }
}

/// Collects the CRYPTO frames of an Initial packet (RFC 9000, section 19); other frames are skipped.
fn take_crypto(frames: &[u8], into: &mut Assembly) -> Option<()> {
    let mut reader = Reader(frames);
    for _ in 0..FRAMES_MAX {
        let padding = reader.0.iter().take_while(|b| **b == 0).count();
        reader.take(padding)?;
        if reader.is_empty() {
            return Some(());
        }
        match reader.varint()? {
            0x01 => {} // PING
            kind @ (0x02 | 0x03) => {
                reader.varint()?; // largest acknowledged
                reader.varint()?; // delay
                let ranges = reader.varint()?;
                let fields = 1 + 2 * ranges.min(FRAMES_MAX as u64) + if kind == 3 { 3 } else { 0 };
                for _ in 0..fields {
                    reader.varint()?;
                }
            }
            0x06 => {
                let offset = usize::try_from(reader.varint()?).ok()?;
                let len = usize::try_from(reader.varint()?).ok()?;
                into.insert(offset, reader.take(len)?);
            }
            _ => return None, // CONNECTION_CLOSE ends the packet, and nothing else is permitted
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::client_hello;
    use proptest::prelude::*;

    const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    fn crypto(offset: usize, bytes: &[u8]) -> Vec<u8> {
        let wide = |n: usize| (n as u16 | 0x4000).to_be_bytes();
        [&[6], &wide(offset)[..], &wide(bytes.len()), bytes].concat()
    }

    /// A client's Initial packet with these frames.
    fn initial(version: &Version, number: u8, frames: &[u8]) -> Vec<u8> {
        let mut header = vec![0xc0 | version.initial << 4];
        header.extend(version.number.to_be_bytes());
        header.extend([ID.len() as u8]);
        header.extend(ID);
        header.extend([0, 0]); // no source ID, no token
        let mut frames = frames.to_vec();
        frames.resize(frames.len().max(1160), 0);
        let len = 1 + frames.len() + 16;
        header.extend((len as u16 | 0x4000).to_be_bytes());
        header.push(number);
        let keys = Keys::of_client(version.suite, &ID).unwrap();
        keys.seal(&header, number, &frames)
    }

    #[test]
    fn a_hello_in_one_packet_is_read_in_every_version() {
        let hello = client_hello("quic.example", "h3");
        for version in &VERSIONS {
            let datagram = initial(version, 0, &crypto(0, &hello));
            assert!(is_candidate(&datagram));
            let Reading::Found(finding) = read(&datagram, &mut Session::default()) else {
                panic!("{}: not found", version.name);
            };
            assert_eq!(finding.name.as_deref(), Some("quic.example"));
            assert_eq!(&*finding.detail, format!("{}, ALPN h3", version.name));
            assert_eq!(finding.evidence, Evidence::Message);
        }
    }

    #[test]
    fn pieces_come_out_of_order_and_in_several_packets() {
        let hello = client_hello("quic.example", "h3");
        let (a, b) = hello.split_at(50);
        let (b, c) = b.split_at(20);
        let mixed = [crypto(70, c), vec![1], crypto(0, a)].concat();
        let first = initial(&VERSIONS[0], 0, &mixed);
        let second = initial(&VERSIONS[0], 1, &crypto(50, b));
        for (one, two) in [(&first, &second), (&second, &first)] {
            let mut session = Session::default();
            let partial = read(one, &mut session);
            assert!(
                matches!(partial, Reading::Partial(Some(f)) if f.evidence == Evidence::Message)
            );
            let found = read(two, &mut session);
            assert!(
                matches!(found, Reading::Found(f) if f.name.as_deref() == Some("quic.example"))
            );
        }
        let both = [first, second].concat();
        assert!(
            matches!(read(&both, &mut Session::default()), Reading::Found(_)),
            "coalesced"
        );
    }

    #[test]
    fn without_the_right_keys_the_header_is_the_evidence() {
        let mut datagram = initial(&VERSIONS[0], 0, &crypto(0, b"x"));
        datagram[8] ^= 1; // an ID that differs from that of the keys
        let reading = read(&datagram, &mut Session::default());
        assert!(
            matches!(reading, Reading::Partial(Some(f)) if f.evidence == Evidence::Header && &*f.detail == "v1")
        );
        let cut = &datagram[..600];
        assert!(matches!(
            read(cut, &mut Session::default()),
            Reading::Partial(Some(_))
        ));
    }

    #[test]
    fn versions_of_others_are_recognised_by_their_names() {
        let detail = |datagram: &[u8]| match read(datagram, &mut Session::default()) {
            Reading::Found(finding) | Reading::Partial(Some(finding)) => {
                Some(finding.detail.to_string())
            }
            _ => None,
        };
        let long = |version: [u8; 4], rest: &[u8]| [&[0xc3], &version[..], &[0, 0], rest].concat();
        assert_eq!(detail(&long(*b"Q046", &[])).as_deref(), Some("Q046"));
        assert_eq!(detail(&long(*b"Q0 6", &[])), None);
        let compact = [&[0xc3], &b"Q044"[..], &[0x50, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(detail(&compact).as_deref(), Some("Q044"));
        let reserved = [0x1a, 0x2a, 0x3a, 0x4a];
        let forced = Some("reserved version".to_owned());
        assert_eq!(detail(&long(reserved, &[0; 1200])), forced);
        assert_eq!(detail(&long(reserved, &[0; 500])), None, "too short");
        let offered = [0x1a, 0x2a, 0x3a, 0x4a, 0, 0, 0, 1];
        assert_eq!(
            detail(&long([0; 4], &offered)).as_deref(),
            Some("version negotiation")
        );
        assert_eq!(detail(&long([0; 4], &[1, 2, 3, 4])), None);
        let public = [&[0x0d, 1, 2, 3, 4, 5, 6, 7, 8], &b"Q043"[..], &[1]].concat();
        assert_eq!(detail(&public).as_deref(), Some("Q043"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, byte: u8, frames in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut session = Session::default();
            read(&bytes, &mut session);
            let mut datagram = initial(&VERSIONS[0], 0, &frames);
            read(&datagram, &mut session);
            let at = at.index(60);
            datagram[at] = byte;
            read(&datagram, &mut session);
            read(&datagram[..at], &mut session);
        }
    }
}
