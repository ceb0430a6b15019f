//! DNS messages (RFC 1035), and the kinds that share their format: mDNS (RFC 6762), LLMNR (RFC 4795).
//!
//! ```text
//!  [ ID ][ QR opcode AA TC RD RA Z AD CD rcode ][ questions ][ answers ][ authorities ][ additionals ]
//!  question: name, type, class          record: name, type, class, TTL, length, data
//! ```
//!
//! A header of twelve bytes proves nothing, because nearly all values are permitted. On a port of a name service the
//! header and the first name decide. On other ports every record must be complete, and nothing may follow: a resolver
//! in a laboratory is recognised, and a game is not. NetBIOS names (port 137) have the same format but are not DNS.
//!
//! Over TCP a length of two bytes comes first (RFC 7766).

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;
use crate::reader::Reader;

/// Ports of the name services.
const PORT_DNS: u16 = 53;
const PORT_NETBIOS: u16 = 137;
const PORT_MDNS: u16 = 5353;
const PORT_LLMNR: u16 = 5355;
/// Bytes of a header.
const HEADER_LEN: usize = 12;
/// Maximum number of records to read; the shortest has 11 bytes, so a datagram has no more.
const RECORDS_MAX: u32 = 6000;
/// Longest name, with its lengths (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 255;

/// Reads a datagram between these ports.
pub(crate) fn datagram(bytes: &[u8], ports: [u16; 2]) -> Reading {
    let Some((kind, at_home)) = service(ports) else {
        return Reading::No;
    };
    Message::parse(bytes).map_or(Reading::No, |message| message.reading(kind, at_home))
}

/// Reads the first bytes of a direction of a TCP connection.
pub(crate) fn stream(bytes: &[u8], ports: [u16; 2]) -> Reading {
    let Some((kind, at_home)) = service(ports) else {
        return Reading::No;
    };
    let mut reader = Reader(bytes);
    let Some(len) = reader.u16().map(usize::from) else {
        return Reading::No;
    };
    if len < HEADER_LEN {
        return Reading::No;
    }
    match reader.take(len) {
        Some(message) => match Message::parse(message) {
            Some(message) => message.reading(kind, at_home),
            None => Reading::No,
        },
        // A long answer comes in several segments.
        None if at_home && reader.len() >= HEADER_LEN => match Message::parse(reader.0) {
            Some(_) => Reading::Partial(Some(Finding::new(kind, Evidence::Header))),
            None => Reading::No,
        },
        None => Reading::No,
    }
}

/// The kind of the messages between two ports, and whether one of the ports belongs to a name service; `None` for
/// NetBIOS.
fn service(ports: [u16; 2]) -> Option<(Kind, bool)> {
    let has = |port| ports.contains(&port);
    match () {
        () if has(PORT_NETBIOS) => None,
        () if has(PORT_MDNS) => Some((Kind::Mdns, true)),
        () if has(PORT_LLMNR) => Some((Kind::Llmnr, true)),
        () => Some((Kind::Dns, has(PORT_DNS))),
    }
}

/// A message, as far as it could be read.
#[derive(Debug)]
struct Message {
    /// The first name, with dots.
    name: Vec<u8>,
    /// The type of the first question or record; `None` if it could not be read.
    kind: Option<u16>,
    is_answer: bool,
    code: u8,
    /// Whether all records were read, and nothing follows them.
    is_whole: bool,
    questions: u16,
    /// Whether reserved bits are zero, and the class of the first question is in use.
    is_usual: bool,
}

impl Message {
    /// Reads a message; `None` if its header contradicts itself.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (_id, flags) = (reader.u16()?, reader.u16()?);
        let mut counts = [0_u16; 4];
        for count in &mut counts {
            *count = reader.u16()?;
        }
        let (opcode, code) = (flags >> 11 & 15, (flags & 15) as u8);
        let is_answer = flags >> 15 == 1;
        let records: u32 = counts[1..].iter().map(|c| u32::from(*c)).sum();
        let contradicts = !matches!(opcode, 0..=2 | 4..=6)
            || code > 11
            || counts[0] > 64
            || records > RECORDS_MAX
            || (!is_answer && (code != 0 || counts[0] == 0 && records == 0))
            // An answer with neither question nor record is an error, or a bare acknowledgement.
            || (is_answer && counts[0] == 0 && records == 0 && code == 0);
        if contradicts {
            return None;
        }
        let mut message = Self {
            name: Vec::new(),
            kind: None,
            is_answer,
            code,
            is_whole: false,
            questions: counts[0],
            is_usual: flags & 0x40 == 0,
        };
        message.is_whole = message.body(reader, counts[0], records).is_some();
        Some(message)
    }

    /// Reads questions and records; `None` if they do not fill the message.
    fn body(&mut self, mut reader: Reader<'_>, questions: u16, records: u32) -> Option<()> {
        for number in 0..u32::from(questions) + records {
            let name = name(&mut reader)?;
            let (kind, class) = (reader.u16()?, reader.u16()?);
            if number == 0 {
                self.name = name;
                self.kind = Some(kind);
                // The highest bit is a flag of mDNS; 1, 3, 4, 254 and 255 are all the classes in use.
                self.is_usual &= matches!(class & 0x7fff, 1 | 3 | 4 | 254 | 255);
            }
            if number >= u32::from(questions) {
                reader.u32()?; // time to live
                reader.long()?;
            }
        }
        reader.is_empty().then_some(())
    }

    fn reading(&self, kind: Kind, at_home: bool) -> Reading {
        let decided = if at_home {
            self.kind.is_some() || (self.is_answer && self.code != 0)
        } else {
            self.is_whole && self.is_usual && self.questions == 1
        };
        if !decided {
            return Reading::No;
        }
        let evidence = if self.is_whole {
            Evidence::Message
        } else {
            Evidence::Header
        };
        let finding = Finding::new(kind, evidence).named(Some(&self.name));
        Reading::Found(finding.with(self.kind.map_or("", type_name)))
    }
}

/// Reads a name and advances the reader past it. A pointer ends the name; it is not followed, because the first name of
/// a message has no pointer.
fn name(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    loop {
        let len = reader.u8()?;
        match len >> 6 {
            0 if len == 0 => return Some(name),
            0 => {
                if !name.is_empty() {
                    name.push(b'.');
                }
                name.extend_from_slice(reader.take(len.into())?);
                if name.len() > NAME_MAX {
                    return None;
                }
            }
            3 => {
                reader.u8()?;
                return Some(name);
            }
            _ => return None,
        }
    }
}

/// The name of a record type (IANA).
fn type_name(kind: u16) -> &'static str {
    match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        10 => "NULL",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        43 => "DS",
        48 => "DNSKEY",
        65 => "HTTPS",
        255 => "ANY",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEAR: [u16; 2] = [40_000, 53];
    const ELSEWHERE: [u16; 2] = [40_000, 7777];

    #[rustfmt::skip]
    const QUERY: [u8; 28] = [
        0x12, 0x34, 0x01, 0x00,             // ID; a query, recursion desired
        0, 1, 0, 0, 0, 0, 0, 0,             // one question
        3, b'w', b'w', b'w', 2, b'A', b'b', 2, b'd', b'e', 0,
        0, 28, 0, 1,                        // AAAA, internet
        0,                                  // a byte too many
    ];
    const EXACT: usize = QUERY.len() - 1;

    fn found(reading: Reading) -> Option<Finding> {
        match reading {
            Reading::Found(finding) => Some(finding),
            _ => None,
        }
    }

    #[test]
    fn a_query_names_what_it_asks_for() {
        let finding = found(datagram(&QUERY[..EXACT], NEAR)).unwrap();
        assert_eq!(finding.name.as_deref(), Some("www.ab.de"));
        assert_eq!(
            (&*finding.detail, finding.evidence),
            ("AAAA", Evidence::Message)
        );
        let with_length = [&[0, EXACT as u8], &QUERY[..EXACT]].concat();
        assert_eq!(found(stream(&with_length, NEAR)), Some(finding));
    }

    #[test]
    fn the_port_decides_how_much_must_be_right() {
        assert!(found(datagram(&QUERY[..EXACT], ELSEWHERE)).is_some());
        assert_eq!(datagram(&QUERY, ELSEWHERE), Reading::No);
        let lenient = found(datagram(&QUERY, NEAR)).unwrap();
        assert_eq!(lenient.evidence, Evidence::Header);
        assert_eq!(datagram(&QUERY, [137, 137]), Reading::No);
        let kind = |port| found(datagram(&QUERY[..EXACT], [port, port])).map(|f| f.kind);
        assert_eq!(kind(5353), Some(Kind::Mdns));
        assert_eq!(kind(5355), Some(Kind::Llmnr));
    }

    #[test]
    fn a_header_that_contradicts_itself_is_no_message() {
        for (at, value) in [(2, 0x78), (3, 0x0f), (4, 0xff), (5, 0)] {
            let mut query = QUERY[..EXACT].to_vec();
            query[at] = value;
            assert_eq!(datagram(&query, NEAR), Reading::No, "byte {at}");
        }
        let mut refusal = [0; HEADER_LEN];
        refusal[2..4].copy_from_slice(&[0x80, 5]);
        assert!(
            found(datagram(&refusal, NEAR)).is_some(),
            "refused, without a question"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), at: prop::sample::Index, byte: u8) {
            for ports in [NEAR, ELSEWHERE] {
                datagram(&bytes, ports);
                stream(&bytes, ports);
                let mut query = QUERY.to_vec();
                let at = at.index(query.len());
                query[at] = byte;
                datagram(&query, ports);
                datagram(&query[..at], ports);
                stream(&query, ports);
            }
        }
    }
}
