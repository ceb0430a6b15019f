//! A finding: the protocol that a parser has found, and the strength of the evidence.

use std::fmt;

use crate::kind::Kind;

/// Longest name of a peer's message to keep (a domain name has at most 255 bytes).
const NAME_BYTES_MAX: usize = 255;

/// The strength of the evidence for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The fields of a header have permitted values.
    Header,
    /// Fields continue from one packet to the next as the protocol prescribes.
    Sequence,
    /// A message of the protocol was read whole; a QUIC message was also authenticated.
    Message,
}

impl Evidence {
    /// The word in a report.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Sequence => "sequence",
            Self::Message => "message",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A protocol that was found, and details about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The protocol.
    pub kind: Kind,
    /// The strength of the evidence.
    pub evidence: Evidence,
    /// The name that the client requests: server name of TLS and QUIC, host of HTTP, question of DNS.
    pub name: Option<Box<str>>,
    /// Details for a person: versions, application protocols, payload type.
    pub detail: Box<str>,
}

impl Finding {
    /// A finding without name or details.
    pub(crate) fn new(kind: Kind, evidence: Evidence) -> Self {
        Self {
            kind,
            evidence,
            name: None,
            detail: "".into(),
        }
    }

    /// Adds a name, if its bytes are printable.
    pub(crate) fn named(mut self, name: Option<&[u8]>) -> Self {
        self.name = name.and_then(printable);
        self
    }

    /// Adds details.
    pub(crate) fn with(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// The result of reading the beginning of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Not this protocol.
    No,
    /// The parser needs more bytes of the message. If none arrive, the finding counts.
    Partial(Option<Finding>),
    /// This protocol; the parser needs no more bytes.
    Found(Finding),
}

impl Reading {
    /// This reading, or the next reading if this is [`Self::No`].
    pub(crate) fn or(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => next(),
            other => other,
        }
    }
}

/// A name of printable ASCII characters, in lower case.
fn printable(name: &[u8]) -> Option<Box<str>> {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    let text = std::str::from_utf8(name).ok()?;
    let is_printable = text.bytes().all(|b| b.is_ascii_graphic());
    (fits && is_printable).then(|| text.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_harm_a_terminal_is_not_kept() {
        let named = |name: &[u8]| {
            let finding = Finding::new(Kind::Tls, Evidence::Message);
            finding.named(Some(name)).name
        };
        assert_eq!(
            named(b"WWW.Example.org").as_deref(),
            Some("www.example.org")
        );
        assert_eq!(named(b"a\x1b[2Jb"), None);
        assert_eq!(named(b""), None);
        assert_eq!(named(&[b'a'; 256]), None);
    }
}
