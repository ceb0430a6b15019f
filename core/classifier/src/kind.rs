//! The kinds of flow that the classifier knows, and sets of them.

use std::fmt;

/// A protocol by which a flow can be classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Real-time transport (RFC 3550), in clear or as SRTP (RFC 3711).
    Rtp,
    /// Control packets of RTP, without the media.
    Rtcp,
    /// Scalable video coding (RFC 6190) within RTP.
    Svc,
    /// Session initiation (RFC 3261).
    Sip,
    /// Real-time streaming control (RFC 2326, RFC 7826).
    Rtsp,
    /// TLS over TCP (RFC 8446 and its predecessors).
    Tls,
    /// TLS over datagrams (RFC 6347, RFC 9147).
    Dtls,
    /// QUIC (RFC 9000, RFC 9369, the drafts before them, and Google's predecessor).
    Quic,
    /// Domain names (RFC 1035).
    Dns,
    /// Multicast DNS (RFC 6762).
    Mdns,
    /// Link-local multicast name resolution (RFC 4795).
    Llmnr,
    /// HTTP/1 (RFC 9112), or HTTP/2 in clear (RFC 9113).
    Http,
    /// Service discovery by HTTP over multicast (UPnP).
    Ssdp,
    /// Session traversal utilities for NAT (RFC 8489), and TURN (RFC 8656).
    Stun,
    /// Mail transfer (RFC 5321).
    Smtp,
    /// Mail retrieval (RFC 1939).
    Pop3,
    /// Mail access (RFC 9051).
    Imap,
    /// The control connection of file transfer (RFC 959).
    Ftp,
    /// Secure shell (RFC 4253).
    Ssh,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 19] = [
        Self::Rtp,
        Self::Rtcp,
        Self::Svc,
        Self::Sip,
        Self::Rtsp,
        Self::Tls,
        Self::Dtls,
        Self::Quic,
        Self::Dns,
        Self::Mdns,
        Self::Llmnr,
        Self::Http,
        Self::Ssdp,
        Self::Stun,
        Self::Smtp,
        Self::Pop3,
        Self::Imap,
        Self::Ftp,
        Self::Ssh,
    ];

    /// The word in a configuration and in a report.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rtp => "rtp",
            Self::Rtcp => "rtcp",
            Self::Svc => "svc",
            Self::Sip => "sip",
            Self::Rtsp => "rtsp",
            Self::Tls => "tls",
            Self::Dtls => "dtls",
            Self::Quic => "quic",
            Self::Dns => "dns",
            Self::Mdns => "mdns",
            Self::Llmnr => "llmnr",
            Self::Http => "http",
            Self::Ssdp => "ssdp",
            Self::Stun => "stun",
            Self::Smtp => "smtp",
            Self::Pop3 => "pop3",
            Self::Imap => "imap",
            Self::Ftp => "ftp",
            Self::Ssh => "ssh",
        }
    }

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// This set and `kind`.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u32)
    }

    /// Whether the set contains `kind`.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds of the set, in the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |k| self.contains(*k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_sets_agree() {
        let mut set = Kinds::NONE;
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
            assert!(!set.contains(kind));
            set = set.with(kind);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), Kind::ALL);
        assert!(Kinds::NONE.is_empty() && !set.is_empty());
    }
}
