//! Transports of ForCES messages between control elements (CEs) and forwarding elements (FEs): the transport mapping
//! layer (TML) of RFC 5810, section 5.
//!
//! ```text
//!  session <--> Link <--> queue: DPPBRB, rate <--> quic | tcp_udp <--> network
//! ```
//!
//! - [`link`]: an open link, with credit for control messages and losses for redirects
//! - [`queue`]: what stands between control messages and redirects
//! - [`identity`]: certificates, keys, and which certificate belongs to which ID
//! - [`faults`]: everything that goes wrong, counted and logged
//! - [`sctp`]: three associations of SCTP (RFC 5811)
//! - [`quic`]: QUIC: a stream for control messages, datagrams for redirects; the default
//! - [`tcp_udp`]: TLS on TCP for control messages, sealed UDP for redirects
//!
//! The CE listens, the FE connects. Each association has a link of its own, over the transport that its configuration
//! names. All transports keep the same promises, which `tests/tml_conformance.rs` checks for each:
//!
//! - control messages arrive whole and in order, or the link ends;
//! - redirects arrive whole, or not at all;
//! - a peer that does not read takes credit from the other side, and never more memory than the limits;
//! - a link ends with a reason ([`Incoming::ended`]).
//!
//! Peers are authenticated by certificates, which belong to IDs. Without them a transport works only if the
//! configuration says `insecure`, on the loopback interface too: any local user may bind a port or connect to it.

pub mod ended;
pub mod faults;
mod handshakes;
pub mod identity;
pub mod link;
pub mod quic;
pub mod sctp;
mod stream;
pub mod tcp_udp;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

pub use self::ended::Ended;
pub use self::faults::{Fault, Faults};
pub use self::identity::{Identity, Pins};
pub use self::link::{Incoming, Link, Outgoing};
pub use weir_channel::{Channel, ChannelSettings, Report, Schedule, Sent};

/// A transport.
pub trait Tml: Send + Sync {
    /// Opens a link to a CE. The peer may still refuse our certificate, which ends the link with
    /// [`Ended::Refused`].
    fn connect<'a>(&'a self, ce: &'a Remote) -> Opening<'a, Link>;

    /// Listens for FEs.
    fn listen<'a>(&'a self, local: &'a Local) -> Opening<'a, Listener>;
}

/// A link or a listener that is being opened.
pub type Opening<'a, T> = Pin<Box<dyn Future<Output = Result<T, TmlError>> + Send + 'a>>;

/// The transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// QUIC: a stream for control messages, datagrams for redirects.
    #[default]
    Quic,
    /// TLS on TCP for control messages, sealed UDP for redirects.
    TcpUdp,
    /// SCTP over IP (RFC 5811).
    Sctp,
    /// SCTP over UDP (RFC 6951).
    SctpUdp,
}

impl Transport {
    const ALL: [Self; 4] = [Self::Quic, Self::TcpUdp, Self::Sctp, Self::SctpUdp];
    /// The words of a configuration, in the order of the transports.
    pub const WORDS: &'static [&'static str] = &["quic", "tcp_udp", "sctp", "sctp_udp"];

    /// The transport that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.word() == word)
    }

    /// The word of a configuration.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Whether both sides of a link prove who they are.
    pub fn proves(self, security: &Security) -> bool {
        matches!(self, Self::Quic | Self::TcpUdp) && security.pinned.is_some()
    }

    /// The transport itself.
    pub fn tml(self) -> &'static dyn Tml {
        match self {
            Self::Quic => &quic::Quic,
            Self::TcpUdp => &tcp_udp::TcpUdp,
            Self::Sctp => &sctp::Sctp(sctp::Carrier::RawIp),
            Self::SctpUdp => &sctp::Sctp(sctp::Carrier::Udp),
        }
    }
}

/// A CE as an FE sees it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its port for redirects, where a transport has a second one; two above the other one if not given, as the
    /// ports 6704 and 6706 of RFC 5811.
    pub redirect_port: Option<u16>,
    /// Settings that both sides have.
    pub common: Common,
}

/// Where and how a CE listens.
#[derive(Clone, Debug)]
pub struct Local {
    /// Address and port; port 0 for any free one.
    pub address: SocketAddr,
    /// Port for redirects, as in [`Remote::redirect_port`].
    pub redirect_port: Option<u16>,
    /// Links that may be open at once.
    pub links_max: usize,
    /// Handshakes that may be under way at once; each has a file descriptor over TCP.
    pub handshakes_max: usize,
    /// Settings that both sides have.
    pub common: Common,
}

/// Settings that both sides of a link have.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// Who may be at the other end.
    pub security: Security,
    /// The queue of each link.
    pub channel: ChannelSettings,
    /// Time limits.
    pub limits: Limits,
    /// The counters of what goes wrong. All links of a process may share them.
    pub faults: Arc<Faults>,
}

/// Who may be at the other end of a link.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Our certificate, and those of the peers.
    pub pinned: Option<Pinned>,
    /// A link without certificates is permitted.
    pub insecure: bool,
}

/// Certificates of both sides.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Our certificate and key.
    pub identity: Arc<Identity>,
    /// The certificates of the peers, each with its ID.
    pub peers: Arc<Pins>,
}

/// Time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet until the link is open.
    pub handshake: Duration,
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// From the wish to close until the link is closed, with the queue sent and received.
    pub close: Duration,
    /// Without any packet from the peer until a link is given up, where the transport does so. More than the interval
    /// of heartbeats.
    pub idle: Duration,
    /// A redirect that the transport has not sent by then is dropped.
    pub redirect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            message: Duration::from_secs(30),
            close: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            redirect: Duration::from_millis(500),
        }
    }
}

/// A CE's listening socket. Links come from it until it is dropped; they outlive it.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    redirect_port: u16,
    links: mpsc::Receiver<Link>,
    task: AbortHandle,
}

impl Listener {
    /// The next link that an FE has opened. None if the socket has failed, which is logged. It may be cancelled without
    /// loss.
    pub async fn accept(&mut self) -> Option<Link> {
        self.links.recv().await
    }

    /// Address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Port for redirects; the same as that of the address where a transport has only one.
    pub fn redirect_port(&self) -> u16 {
        self.redirect_port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handshakes that may be under way at a listener, where descriptors do not limit them.
pub const HANDSHAKES_MAX: usize = 1024;

/// Links that wait for [`Listener::accept`].
const ACCEPTED_MAX: usize = 64;

/// Why a link or a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TmlError {
    /// A socket did not work.
    #[error("cannot {what} {address}: {source}")]
    Io {
        /// The attempt, as a verb.
        what: &'static str,
        /// At which address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// A link without certificates is not permitted.
    #[error(
        "{transport} at {address} without certificates: anybody who reaches this address could send messages, on \
         loopback any local user. Set `certificate` and `key` with transport \"quic\" or \"tcp_udp\" (`weir keys` makes \
         them), or accept it with `insecure = true`"
    )]
    Insecure {
        /// The transport.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// The transport does not work without certificates.
    #[error("{transport} needs certificates: `weir keys NAME` makes one and its key")]
    NoCertificate {
        /// The transport.
        transport: &'static str,
    },
    /// The peer did not complete the handshake.
    #[error("{address} did not complete the handshake: {why}")]
    Handshake {
        /// Address of the peer.
        address: SocketAddr,
        /// The reason.
        why: String,
    },
    /// The discipline may drop control messages.
    #[error(
        "the channel cannot have the discipline {kind}: only dppbrb and fifo never drop a control message"
    )]
    Discipline {
        /// Its kind.
        kind: &'static str,
    },
    /// A certificate or key does not work.
    #[error("certificate and key: {why}")]
    Tls {
        /// The reason.
        why: String,
    },
}

impl TmlError {
    fn io(what: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            what,
            address,
            source,
        }
    }

    fn handshake(address: SocketAddr, why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::Handshake { address, why }
    }
}

impl Common {
    /// Checks what is the same for all transports.
    fn check(&self) -> Result<(), TmlError> {
        match self.channel.is_permitted() {
            true => Ok(()),
            false => Err(TmlError::Discipline {
                kind: self.channel.discipline.kind(),
            }),
        }
    }

    /// Checks that a link without certificates is permitted.
    fn permit_open(&self, transport: &'static str, address: SocketAddr) -> Result<(), TmlError> {
        match self.security.insecure {
            true => Ok(()),
            false => Err(TmlError::Insecure { transport, address }),
        }
    }
}

/// A random number that nobody can know.
fn entropy() -> u64 {
    let mut bytes = [0; 8];
    match ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => unreachable!("the kernel's random numbers do not end"),
    }
}
