//! Transports of ForCES messages between control elements (CEs) and forwarding elements (FEs): the transport mapping
//! layer (TML) of RFC 5810, section 5.
//!
//! ```text
//!  session <--> Link <--> queue: DPPBRB, rate <--> quic | tcp_udp <--> network
//! ```
//!
//! - [`link`]: an open link, with credit for control messages and drops of redirects
//! - [`weir_channel`]: the queue that separates control messages from redirects
//! - [`identity`]: certificates, keys, and the mapping of certificates to IDs
//! - [`faults`]: transport faults, counted and logged
//! - [`sctp`]: three associations of SCTP (RFC 5811)
//! - [`quic`]: QUIC: a stream for control messages, datagrams for redirects; the default
//! - [`tcp_udp`]: TLS on TCP for control messages, sealed UDP for redirects
//!
//! The CE listens, the FE connects. Each association has its own link, over the transport named in its configuration.
//! All transports make the same guarantees, which `tests/tml_conformance.rs` checks for each:
//!
//! - control messages arrive whole and in order, or the link ends;
//! - redirects arrive whole, or not at all;
//! - a peer that does not read reduces the other side's credit, but never uses more memory than the limits;
//! - a link ends with a reason ([`Incoming::ended`]).
//!
//! Certificates, which belong to IDs, authenticate the peers. Without certificates a transport works only if the
//! configuration sets `insecure`, even on the loopback interface: any local user may bind a port or connect to it.

pub mod ended;
pub mod faults;
pub(crate) mod handshakes;
pub mod identity;
pub mod link;
pub mod quic;
pub mod sctp;
mod stream;
pub mod tcp_udp;
pub(crate) mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

pub use self::ended::Ended;
pub use self::faults::{Fault, Faults};
pub use self::identity::{Identity, Pins};
pub use self::link::{Incoming, Link, Outgoing};
pub use weir_channel::{Channel, ChannelSettings, Report, Sent};
pub use weir_discipline::channel::schedule::Schedule;
pub use weir_lfb::fe::Transport;

/// A transport.
pub trait Tml: Send + Sync {
    /// Opens a link to a CE. The peer may still refuse our certificate, which ends the link with
    /// [`Ended::Refused`].
    fn connect<'a>(&'a self, ce: &'a Remote) -> Opening<'a, Link>;

    /// Listens for FEs.
    fn listen<'a>(&'a self, local: &'a Local) -> Opening<'a, Listener>;
}

/// The future of a link or listener that is being opened.
pub type Opening<'a, T> = Pin<Box<dyn Future<Output = Result<T, TmlError>> + Send + 'a>>;

/// The implementation of a transport.
pub fn tml(transport: Transport) -> &'static dyn Tml {
    match transport {
        Transport::Quic => &quic::Quic,
        Transport::TcpUdp => &tcp_udp::TcpUdp,
        Transport::Sctp => &sctp::Sctp(sctp::Carrier::RawIp),
        Transport::SctpUdp => &sctp::Sctp(sctp::Carrier::Udp),
    }
}

/// A CE from an FE's point of view.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Address and port of the CE.
    pub address: SocketAddr,
    /// Port for redirects, for a transport with a second port; by default the first port plus two, like the ports 6704
    /// and 6706 of RFC 5811.
    pub redirect_port: Option<u16>,
    /// Settings common to both sides.
    pub common: Common,
}

/// Where and how a CE listens.
#[derive(Clone, Debug)]
pub struct Local {
    /// Address and port; port 0 selects any free port.
    pub address: SocketAddr,
    /// Port for redirects, as in [`Remote::redirect_port`].
    pub redirect_port: Option<u16>,
    /// Maximum number of open links.
    pub links_max: usize,
    /// Maximum number of handshakes in progress; over TCP, each has a file descriptor.
    pub handshakes_max: usize,
    /// Settings common to both sides.
    pub common: Common,
}

/// Settings common to both sides of a link.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// Authentication of the peer.
    pub security: Security,
    /// The queue of each link.
    pub channel: ChannelSettings,
    /// Time limits.
    pub limits: Limits,
    /// Fault counters. All links of a process may share them.
    pub faults: Arc<Faults>,
}

/// Authentication of the peer of a link.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Our certificate, and the peers' certificates; `None` without certificates.
    pub pinned: Option<Pinned>,
    /// Whether a link without certificates is permitted.
    pub insecure: bool,
}

/// Certificates of both sides.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Our certificate and key.
    pub identity: Arc<Identity>,
    /// Certificates of the peers, each with its ID.
    pub peers: Arc<Pins>,
}

/// Time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet until the link is open.
    pub handshake: Duration,
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// From the request to close until the link is closed, with the queue sent and received.
    pub close: Duration,
    /// Longest silence of the peer before the transport gives up the link, if the transport does so. Must exceed the
    /// heartbeat interval.
    pub idle: Duration,
    /// Maximum delay of a redirect; the transport drops it afterwards.
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

/// A CE's listening socket. It accepts links until it is dropped; the links outlive it.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    redirect_port: u16,
    links: mpsc::Receiver<Link>,
    task: AbortHandle,
}

impl Listener {
    /// Accepts the next link that an FE has opened; `None` if the socket has failed, which is logged. Cancel safe.
    pub async fn accept(&mut self) -> Option<Link> {
        self.links.recv().await
    }

    /// Local address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Port for redirects; equals the port of the address if the transport has only one port.
    pub fn redirect_port(&self) -> u16 {
        self.redirect_port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Maximum handshakes in progress at a listener, where descriptors do not limit them.
pub const HANDSHAKES_MAX: usize = 1024;

/// Maximum links that wait for [`Listener::accept`].
const ACCEPTED_MAX: usize = 64;

/// Why a link or a listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TmlError {
    /// A socket operation failed.
    #[error("cannot {what} {address}: {source}")]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// A link without certificates is not permitted.
    #[error(
        "{transport} at {address} has no certificates: anyone who can reach this address could send messages; on \
         loopback, any local user. Set `certificate` and `key` with transport \"quic\" or \"tcp_udp\" (`weir keys` \
         generates them), or accept this with `insecure = true`"
    )]
    Insecure {
        /// Keyword of the transport.
        transport: &'static str,
        /// Address of the listener or peer.
        address: SocketAddr,
    },
    /// The transport does not work without certificates.
    #[error("{transport} needs certificates: `weir keys NAME` generates one and its key")]
    NoCertificate {
        /// Keyword of the transport.
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
        "the channel cannot use the discipline {kind}: only dppbrb and fifo never drop a control message"
    )]
    Discipline {
        /// Kind of the discipline.
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
    pub(crate) fn io(what: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
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
    /// Checks the settings that are common to all transports.
    fn check(&self) -> Result<(), TmlError> {
        if self.channel.is_permitted() {
            Ok(())
        } else {
            Err(TmlError::Discipline {
                kind: self.channel.discipline.kind(),
            })
        }
    }

    /// Checks that a link without certificates is permitted.
    fn permit_open(&self, transport: &'static str, address: SocketAddr) -> Result<(), TmlError> {
        if self.security.insecure {
            Ok(())
        } else {
            Err(TmlError::Insecure { transport, address })
        }
    }
}

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => bytes,
        Err(_) => unreachable!("the kernel's random numbers do not end"),
    }
}
