//! The protocols whose messages begin with a line like HTTP's: HTTP/1 (RFC 9112), SIP (RFC 3261), RTSP (RFC 7826), and
//! UPnP's discovery (SSDP).
//!
//! ```text
//!  request    METHOD SP target SP HTTP/1.1 CRLF         answer    HTTP/1.1 SP 200 SP reason CRLF
//!             METHOD SP target SP SIP/2.0 CRLF                    SIP/2.0 SP 180 SP Ringing CRLF
//! ```
//!
//! The version identifies the protocol, so a port decides nothing. A request of HTTP/2 in clear begins with a preface
//! that looks like a request of HTTP/1 (RFC 9113, section 3.4).

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;

/// Longest line to wait for.
const LINE_MAX: usize = 4096;
/// Longest method: those of WebDAV have up to 17 letters.
const METHOD_MAX: usize = 20;
/// Maximum number of header lines to search for a host.
const LINES_MAX: usize = 64;
/// The versions, with the kinds that they show.
const VERSIONS: [(&[u8], Kind); 4] = [
    (b"HTTP/1.", Kind::Http),
    (b"HTTP/2.0", Kind::Http),
    (b"SIP/2.0", Kind::Sip),
    (b"RTSP/", Kind::Rtsp),
];

/// Reads the first bytes of a direction of a TCP connection.
pub(crate) fn stream(bytes: &[u8]) -> Reading {
    let Some(end) = line_end(bytes) else {
        return unfinished(bytes);
    };
    match parse(&bytes[..end]) {
        Some(line) => line.finding(bytes),
        None => Reading::No,
    }
}

/// Reads a datagram: a whole message of SIP or of discovery. The start line must be whole.
pub(crate) fn datagram(bytes: &[u8]) -> Reading {
    let line = line_end(bytes).and_then(|end| parse(&bytes[..end]));
    let Some(mut line) = line else {
        return Reading::No;
    };
    if line.kind == Kind::Http {
        line.kind = Kind::Ssdp;
    }
    match line.finding(bytes) {
        Reading::Partial(Some(finding)) => Reading::Found(finding),
        other => other,
    }
}

/// A start line.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    kind: Kind,
    /// The method, or the code of an answer.
    word: &'a [u8],
    target: Option<&'a [u8]>,
}

/// Reads a line without its end.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    if let Some(kind) = version(line) {
        let mut words = line.split(|b| *b == b' ').skip(1);
        let code = words.next()?;
        let is_code = code.len() == 3 && code.iter().all(u8::is_ascii_digit);
        return is_code.then_some(Line {
            kind,
            word: code,
            target: None,
        });
    }
    let mut words = line.split(|b| *b == b' ');
    let (method, target, version_word) = (
        words.next()?,
        words.next()?,
        line.rsplit(|b| *b == b' ').next()?,
    );
    let kind = version(version_word)?;
    (is_method(method) && !target.is_empty()).then_some(Line {
        kind,
        word: method,
        target: Some(target),
    })
}

/// The kind whose version is at the start of a text.
fn version(text: &[u8]) -> Option<Kind> {
    let found = VERSIONS.iter().find(|(v, _)| text.starts_with(v));
    found.map(|(_, kind)| *kind)
}

/// Whether these bytes can be a method: capitals and hyphens.
fn is_method(word: &[u8]) -> bool {
    let is_letter = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'-' | b'_');
    (3..=METHOD_MAX).contains(&word.len()) && word.iter().all(is_letter)
}

/// The offset of the first line's end.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let line = &bytes[..bytes.len().min(LINE_MAX)];
    let end = line.iter().position(|b| *b == b'\n')?;
    Some(end - usize::from(end > 0 && line[end - 1] == b'\r'))
}

/// An incomplete line: more bytes are needed if it begins like one of these protocols.
fn unfinished(bytes: &[u8]) -> Reading {
    if bytes.len() >= LINE_MAX {
        return Reading::No;
    }
    if VERSIONS.iter().any(|(v, _)| bytes.starts_with(v)) {
        return Reading::Partial(None);
    }
    let mut words = bytes.splitn(2, |b| *b == b' ');
    let method = words.next().unwrap_or_default();
    let is_target = |t: &[u8]| t.first().is_none_or(|b| b.is_ascii_graphic());
    match words.next() {
        Some(target) if is_method(method) && is_target(target) => Reading::Partial(None),
        _ => Reading::No,
    }
}

impl Line<'_> {
    fn finding(&self, message: &[u8]) -> Reading {
        let word = String::from_utf8_lossy(self.word);
        let finding = Finding::new(self.kind, Evidence::Message).with(word);
        match (self.target, self.kind) {
            (None, _) => Reading::Found(finding), // an answer has no target
            (Some(target), Kind::Sip | Kind::Rtsp) => Reading::Found(finding.named(Some(target))),
            (Some(target), _) if self.word == b"CONNECT" => {
                Reading::Found(finding.named(Some(target)))
            }
            (Some(_), _) if self.word == b"PRI" => Reading::Found(finding.with("HTTP/2")),
            (Some(_), _) => match host(message) {
                Some(name) => Reading::Found(finding.named(Some(name))),
                None if is_over(message) => Reading::Found(finding),
                None => Reading::Partial(Some(finding)),
            },
        }
    }
}

/// The value of the field `Host` (RFC 9110, section 7.2), if its line is complete.
fn host(message: &[u8]) -> Option<&[u8]> {
    let lines = message.split_inclusive(|b| *b == b'\n').skip(1);
    let whole = lines.take(LINES_MAX).filter(|line| line.ends_with(b"\n"));
    for line in whole {
        let Some((field, value)) = line.split_at_checked(5) else {
            continue;
        };
        if field.eq_ignore_ascii_case(b"host:") {
            return Some(value.trim_ascii());
        }
    }
    None
}

/// Whether the header of a message is complete.
fn is_over(message: &[u8]) -> bool {
    let has = |end: &[u8]| message.windows(end.len()).any(|window| window == end);
    has(b"\r\n\r\n") || has(b"\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GET: &[u8] = b"GET /a HTTP/1.1\r\nAccept: */*\r\nhost: Www.Example.org\r\n\r\n";

    fn found(reading: Reading) -> Option<(Kind, String, String)> {
        match reading {
            Reading::Found(f) => Some((f.kind, f.name.unwrap_or_default().into(), f.detail.into())),
            _ => None,
        }
    }

    fn expected(kind: Kind, name: &str, detail: &str) -> Option<(Kind, String, String)> {
        Some((kind, name.into(), detail.into()))
    }

    #[test]
    fn requests_and_answers_are_told_by_their_version() {
        let read = |text: &str| found(stream(text.as_bytes()));
        assert_eq!(
            found(stream(GET)),
            expected(Kind::Http, "www.example.org", "GET")
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\n"), expected(Kind::Http, "", "200"));
        assert_eq!(
            read("PRI * HTTP/2.0\r\n\r\nSM"),
            expected(Kind::Http, "", "HTTP/2")
        );
        let connect = "CONNECT ab.de:443 HTTP/1.1\r\n";
        assert_eq!(read(connect), expected(Kind::Http, "ab.de:443", "CONNECT"));
        let invite = "INVITE sip:a@b.example SIP/2.0\r\n";
        assert_eq!(
            read(invite),
            expected(Kind::Sip, "sip:a@b.example", "INVITE")
        );
        assert_eq!(read("RTSP/1.0 200 OK\r\n"), expected(Kind::Rtsp, "", "200"));
        assert_eq!(read("GET /a FTP/1.1\r\n"), None);
        assert_eq!(read("HTTP/1.1 OK 200\r\n"), None);
        assert_eq!(read("get /a HTTP/1.1\r\n"), None);
    }

    #[test]
    fn more_is_wanted_until_the_host_is_there() {
        for len in 5..GET.len() - 4 {
            assert!(matches!(stream(&GET[..len]), Reading::Partial(_)), "{len}");
        }
        let without = b"GET / HTTP/1.0\r\nA: b\r\n\r\n";
        assert_eq!(found(stream(without)), expected(Kind::Http, "", "GET"));
        assert_eq!(stream(b"random bytes"), Reading::No);
    }

    #[test]
    fn discovery_is_http_in_a_datagram() {
        let search = b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n\r\n";
        let kind = found(datagram(search)).map(|f| f.0);
        assert_eq!(kind, Some(Kind::Ssdp));
        assert_eq!(datagram(b"M-SEARCH * HTTP"), Reading::No);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), at: prop::sample::Index, byte: u8) {
            stream(&bytes);
            datagram(&bytes);
            let mut get = GET.to_vec();
            let at = at.index(get.len());
            get[at] = byte;
            stream(&get);
            datagram(&get[..at]);
        }
    }
}
