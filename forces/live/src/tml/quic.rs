//! QUIC (RFC 9000): a stream for control messages, datagrams (RFC 9221) for redirects.
//!
//! ```text
//!  FE                                             CE
//!  bidirectional stream   message, message, ...   control, both ways
//!  datagrams              one message each        redirects
//!  unidirectional streams one message each        redirects that fit no datagram
//! ```
//!
//! TLS 1.3 with pinned certificates on both sides, application protocol `forces/1`. The FE opens the only bidirectional
//! stream, and the CE sees the stream when the FE's first message arrives: in ForCES the FE speaks first. The sender
//! resets a redirect's stream at its deadline. Heartbeats are left to the session. An FE whose address changes stays
//! connected (RFC 9000, 9).
//!
//! A CE that was killed and restarts does not know its FEs' connections. It resets a connection (RFC 9000, 10.3) as
//! soon as it receives a packet of it. Therefore an FE is never silent for long, and the reset tokens are derived from
//! the CE's key, which outlives the process.
//!
//! QUIC fills a packet with datagrams before streams, so a flood of datagrams would delay control messages within QUIC,
//! where the discipline cannot prevent it. Therefore only a few bytes of datagrams may wait there, and the link passes
//! on a redirect only when the control messages before it have left QUIC.

mod reset;
mod unsent;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time;
use weir_protocol::wire::header::MESSAGE_LEN_MAX;

use self::reset::endpoint;
use self::unsent::Unsent;
use super::ended::Ended;
use super::faults::Fault;
use super::handshakes::Handshakes;
use super::identity::Proof;
use super::link::{self, Ends, Inbox, Link, Outlet};
use super::{
    ACCEPTED_MAX, Common, Limits, Listener, Local, Opening, Pinned, Remote, TmlError, Transport,
    stream, tls,
};
use weir_channel::Channel;

/// Maximum bytes of datagrams that wait within QUIC.
const DATAGRAM_SEND_BYTES: usize = 4 << 10;
/// Maximum bytes of received datagrams that wait for the reader.
const DATAGRAM_RECEIVE_BYTES: usize = 256 << 10;
/// Maximum bytes on all streams that are unacknowledged, or wait within QUIC.
const SEND_WINDOW_BYTES: u64 = 256 << 10;
/// Maximum unacknowledged bytes of redirects on their own streams. The rest of the window is for control messages. The
/// longest redirect fits.
const REDIRECT_BYTES_MAX: usize = 128 << 10;
/// Maximum unread bytes that the peer may send on one stream, and on all streams.
const RECEIVE_WINDOW_BYTES: [u32; 2] = [256 << 10, 1 << 20];
/// Maximum streams for redirects that a peer may have open.
const REDIRECT_STREAMS_MAX: u32 = 32;
/// Maximum time for which control messages wait behind a redirect that has no room on a stream.
const PATIENCE: Duration = Duration::from_millis(20);
/// Number of handshakes in progress from which a new peer must first validate its address (RFC 9000, 8.1.2).
const RETRY_FROM: usize = 64;
/// Socket buffer size of a listener, in bytes.
const SOCKET_BYTES: usize = 2 << 20;
/// Maximum connections that QUIC holds before the listener accepts them, and the bytes per connection and in total.
const INCOMING_MAX: (usize, u64, u64) = (256, 16 << 10, 4 << 20);

/// Maximum silence of an FE: a restarted CE resets the connection when it receives a packet from the FE.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Error code of a connection that one side has closed regularly.
const CLOSED: VarInt = VarInt::from_u32(0);
/// Error code of a connection that ends because of the peer's behaviour.
const FAULT: VarInt = VarInt::from_u32(1);
/// Error code of a redirect's stream that has missed its deadline.
const LATE: VarInt = VarInt::from_u32(2);

/// The transport.
#[derive(Clone, Copy, Debug)]
pub struct Quic;

impl super::Tml for Quic {
    fn connect<'a>(&'a self, ce: &'a Remote) -> Opening<'a, Link> {
        Box::pin(connect(ce))
    }

    fn listen<'a>(&'a self, local: &'a Local) -> Opening<'a, Listener> {
        Box::pin(listen(local))
    }
}

fn pinned(common: &Common) -> Result<&Pinned, TmlError> {
    common.check()?;
    let transport = Transport::Quic.word();
    let pinned = common.security.pinned.as_ref();
    pinned.ok_or(TmlError::NoCertificate { transport })
}

fn transport(limits: Limits, bidirectional: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    let [one, all] = RECEIVE_WINDOW_BYTES;
    config
        .max_concurrent_bidi_streams(bidirectional.into())
        .max_concurrent_uni_streams(REDIRECT_STREAMS_MAX.into())
        .stream_receive_window(one.into())
        .receive_window(all.into())
        .send_window(SEND_WINDOW_BYTES)
        .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_BYTES))
        .datagram_send_buffer_size(DATAGRAM_SEND_BYTES)
        // A time too long for QUIC means no idle timeout.
        .max_idle_timeout(limits.idle.try_into().ok());
    config
}

async fn connect(ce: &Remote) -> Result<Link, TmlError> {
    let (address, common) = (ce.address, &ce.common);
    let pinned = pinned(common)?;
    let crypto = QuicClientConfig::try_from(tls::of_fe(pinned)?);
    let crypto = crypto.map_err(|e| TmlError::handshake(address, e))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    let mut transport = transport(common.limits, 0);
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    config.transport_config(Arc::new(transport));
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let endpoint = Endpoint::client(any).map_err(TmlError::io("bind UDP for", address))?;
    let connecting = endpoint.connect_with(config, address, tls::SERVER_NAME);
    let connecting = connecting.map_err(|e| TmlError::handshake(address, e))?;
    let shaken = time::timeout(common.limits.handshake, async {
        let connection = connecting.await?;
        let control = connection.open_bi().await?;
        Ok::<_, ConnectionError>((connection, control))
    });
    let late = |_| {
        TmlError::handshake(
            address,
            format_args!("timeout after {:?}", common.limits.handshake),
        )
    };
    let shaken = shaken.await.map_err(late)?;
    let (connection, control) = shaken.map_err(|e| TmlError::handshake(address, e))?;
    let proof = proof(&connection, pinned);
    let (link, ends) = link::open(proof, address, &common.channel, &common.faults);
    tokio::spawn(run(connection, control, ends, common.limits));
    Ok(link)
}

fn proof(connection: &Connection, pinned: &Pinned) -> Option<Proof> {
    let shown = connection.peer_identity()?;
    let shown = shown.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    tls::proof(&pinned.peers, Some(&shown))
}

async fn listen(local: &Local) -> Result<Listener, TmlError> {
    let common = local.common.clone();
    let pinned = pinned(&common)?.clone();
    let crypto = QuicServerConfig::try_from(tls::of_ce(&pinned)?);
    let crypto = crypto.map_err(|e| TmlError::Tls { why: e.to_string() })?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    let (connections, bytes_each, bytes_all) = INCOMING_MAX;
    config
        .transport_config(Arc::new(transport(common.limits, 1)))
        .max_incoming(connections)
        .incoming_buffer_size(bytes_each)
        .incoming_buffer_size_total(bytes_all);
    let io = |error| TmlError::io("listen on UDP at", local.address)(error);
    let socket = std::net::UdpSocket::bind(local.address).map_err(io)?;
    if let Err(error) = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BYTES) {
        tracing::debug!(%error, "cannot enlarge the buffer of a UDP socket");
    }
    let (base, runtime) = (endpoint(&pinned.identity), Arc::new(TokioRuntime));
    let endpoint = Endpoint::new(base, Some(config), socket, runtime).map_err(io)?;
    let address = endpoint.local_addr().map_err(io)?;
    let (sender, links) = mpsc::channel(ACCEPTED_MAX);
    let entrance = Entrance {
        pinned,
        permits: Arc::new(Semaphore::new(local.links_max)),
        links: sender,
        common,
    };
    let handshakes = Handshakes::new(local.handshakes_max);
    let task = tokio::spawn(accept(endpoint, handshakes, Arc::new(entrance)));
    Ok(Listener {
        address,
        redirect_port: address.port(),
        links,
        task: task.abort_handle(),
    })
}

/// State shared by all new connections.
struct Entrance {
    pinned: Pinned,
    permits: Arc<Semaphore>,
    links: mpsc::Sender<Link>,
    common: Common,
}

async fn accept(endpoint: Endpoint, mut handshakes: Handshakes, entrance: Arc<Entrance>) {
    while let Some(incoming) = endpoint.accept().await {
        if handshakes.len() >= RETRY_FROM && incoming.may_retry() {
            if let Err(error) = incoming.retry() {
                tracing::debug!(%error, "cannot validate the address of a connection");
            }
            continue;
        }
        let guest = entrance.clone();
        let (faults, peer) = (&entrance.common.faults, incoming.remote_address().ip());
        handshakes.begin(peer, faults, async move { guest.welcome(incoming).await });
    }
}

impl Entrance {
    async fn welcome(&self, incoming: quinn::Incoming) {
        let (faults, limits) = (&self.common.faults, self.common.limits);
        let peer = incoming.remote_address();
        let shaken = time::timeout(limits.handshake, async {
            let connection = incoming.accept()?.await?;
            let control = connection.accept_bi().await?;
            Ok::<_, ConnectionError>((connection, control))
        });
        let (connection, control) = match shaken.await {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(error)) => return faults.report(fault(&error), format_args!("{peer}: {error}")),
            Err(_) => {
                let what = format_args!("{peer}: no message within {:?}", limits.handshake);
                return faults.report(Fault::Handshake, what);
            }
        };
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            connection.close(FAULT, b"the maximum number of links is open");
            let what = format_args!("{peer}: the maximum number of links is open");
            return faults.report(Fault::TooMany, what);
        };
        let proof = proof(&connection, &self.pinned);
        let (link, ends) = link::open(proof, peer, &self.common.channel, faults);
        tokio::spawn(async move {
            run(connection, control, ends, limits).await;
            drop(permit);
        });
        let _ = self.links.send(link).await; // an error if nobody accepts links: the link closes itself
    }
}

/// Runs a link until it ends.
async fn run(
    connection: Connection,
    control: (SendStream, RecvStream),
    ends: Ends,
    limits: Limits,
) {
    let Ends {
        outlet,
        inbox,
        closer,
    } = ends;
    let (writer, reader) = control;
    let inbox = Arc::new(inbox);
    let receiving = async {
        let ended = tokio::select! {
            ended = stream::receive(reader, &inbox, limits) => ended,
            ended = receive_datagrams(&connection, &inbox) => ended,
            ended = receive_streams(&connection, &inbox, limits) => ended,
        };
        // The connection knows the reason for the end better than its streams do.
        match (&ended, connection.close_reason()) {
            (Ended::Lost(_), Some(reason)) => end(&reason),
            _ => ended,
        }
    };
    let redirects = Redirects {
        connection: &connection,
        inbox: inbox.clone(),
        limits,
        space: Arc::new(Semaphore::new(REDIRECT_BYTES_MAX)),
        is_stalled: false,
        streams: JoinSet::new(),
    };
    let sending = async {
        let sent = send(outlet, writer, redirects).await;
        sent.map_err(|ended| {
            connection
                .close_reason()
                .map_or(ended, |reason| end(&reason))
        })
    };
    let ended = closer.run(limits.close, sending, receiving).await;
    match ended {
        Ended::Here | Ended::ByPeer => connection.close(CLOSED, b""),
        other => connection.close(FAULT, other.to_string().as_bytes()),
    }
}

/// Sends messages from the queue.
async fn send(
    mut outlet: Outlet,
    mut writer: SendStream,
    mut redirects: Redirects<'_>,
) -> Result<(), Ended> {
    let mut unsent = Unsent::default();
    loop {
        outlet.set_piece(redirects.connection.max_datagram_size().unwrap_or(0));
        let Some((channel, message)) = outlet.next().await else {
            break;
        };
        match channel {
            Channel::Control => {
                unsent.wrote(redirects.connection, message.len());
                writer
                    .write_all(&message)
                    .await
                    .map_err(|e| stream::lost(&e.into()))?;
            }
            Channel::Redirect => {
                unsent
                    .on_their_way(redirects.connection, redirects.limits)
                    .await;
                redirects.send(message).await;
            }
        }
    }
    redirects.finish().await;
    writer.shutdown().await.map_err(|e| stream::lost(&e))
}

/// Sends redirects, as datagrams or on streams.
struct Redirects<'a> {
    connection: &'a Connection,
    inbox: Arc<Inbox>,
    limits: Limits,
    /// Bytes still available for redirects on streams.
    space: Arc<Semaphore>,
    /// The peer did not accept the last redirect on a stream in time. Later redirects do not wait until it accepts one.
    is_stalled: bool,
    streams: JoinSet<()>,
}

impl Redirects<'_> {
    async fn send(&mut self, message: Vec<u8>) {
        while self.streams.try_join_next().is_some() {}
        if message.len() > self.connection.max_datagram_size().unwrap_or(0) {
            return self.send_on_stream(message).await;
        }
        let sent = self.connection.send_datagram_wait(message.into());
        match time::timeout(self.limits.redirect, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.late(format_args!("a redirect was not sent: {error}")),
            Err(_) => self.late(format_args!("a redirect was not sent in time")),
        }
    }

    async fn send_on_stream(&mut self, message: Vec<u8>) {
        let bytes = message.len().min(REDIRECT_BYTES_MAX) as u32;
        let patience = if self.is_stalled {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let space = self.space.clone().acquire_many_owned(bytes);
        let Ok(Ok(permit)) = time::timeout(patience, space).await else {
            self.is_stalled = true;
            return self.late(format_args!(
                "a redirect was not sent: earlier redirects are still in progress"
            ));
        };
        self.is_stalled = false;
        let (connection, inbox) = (self.connection.clone(), self.inbox.clone());
        let deadline = time::Instant::now() + self.limits.redirect;
        self.streams.spawn(async move {
            if !send_by(deadline, &connection, &message).await {
                inbox.report(Fault::Late, format_args!("a redirect was not sent in time"));
            }
            drop(permit);
        });
    }

    /// Waits for the redirects in progress.
    async fn finish(&mut self) {
        while self.streams.join_next().await.is_some() {}
    }

    fn late(&self, what: std::fmt::Arguments<'_>) {
        self.inbox.report(Fault::Late, what);
    }
}

/// Sends a message on its own stream, and resets the stream at the deadline. Returns whether the peer has the message.
async fn send_by(deadline: time::Instant, connection: &Connection, message: &[u8]) -> bool {
    let Ok(Ok(mut stream)) = time::timeout_at(deadline, connection.open_uni()).await else {
        return false;
    };
    let sent = time::timeout_at(deadline, async {
        stream.set_priority(-1).ok()?; // behind control messages
        stream.write_all(message).await.ok()?;
        stream.finish().ok()?;
        stream.stopped().await.ok()
    });
    let is_there = matches!(sent.await, Ok(Some(None)));
    if !is_there {
        let _ = stream.reset(LATE); // an error if the connection has ended
    }
    is_there
}

async fn receive_datagrams(connection: &Connection, inbox: &Inbox) -> Ended {
    loop {
        match connection.read_datagram().await {
            Ok(message) => {
                if let Err(ended) = inbox.redirect(message.into()) {
                    return ended;
                }
            }
            Err(error) => return gone(error).await,
        }
    }
}

async fn receive_streams(connection: &Connection, inbox: &Arc<Inbox>, limits: Limits) -> Ended {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            stream = connection.accept_uni() => match stream {
                Ok(stream) => {
                    streams.spawn(receive_stream(stream, inbox.clone(), limits));
                }
                Err(error) => return gone(error).await,
            },
            Some(Ok(Err(ended))) = streams.join_next() => return ended,
        }
    }
}

/// Reads a redirect from its own stream. The peer may reset the stream at any time.
async fn receive_stream(
    mut stream: RecvStream,
    inbox: Arc<Inbox>,
    limits: Limits,
) -> Result<(), Ended> {
    let read = time::timeout(limits.message, stream.read_to_end(MESSAGE_LEN_MAX)).await;
    match read {
        Ok(Ok(message)) => inbox.redirect(message),
        Ok(Err(quinn::ReadToEndError::TooLong)) => Err(Ended::Lost(
            "a redirect is longer than any message".to_owned(),
        )),
        Ok(Err(quinn::ReadToEndError::Read(_))) | Err(_) => Ok(()),
    }
}

/// The control stream delivers the bytes that have arrived before it reports the end of the connection. So this task
/// waits for the control stream.
async fn gone(error: ConnectionError) -> Ended {
    match error {
        ConnectionError::ApplicationClosed(_) => std::future::pending().await,
        other => end(&other),
    }
}

/// Why the link has ended, derived from the error of its connection.
fn end(error: &ConnectionError) -> Ended {
    match error {
        ConnectionError::LocallyClosed => Ended::Here,
        ConnectionError::ApplicationClosed(close) if close.error_code == CLOSED => Ended::ByPeer,
        ConnectionError::ConnectionClosed(close) if alert(close.error_code.into()).is_some() => {
            Ended::Refused(close.to_string())
        }
        other => Ended::Lost(other.to_string()),
    }
}

/// The fault of a failed handshake.
fn fault(error: &ConnectionError) -> Fault {
    /// TLS alerts (RFC 8446, 6): certificate_required, certificate_revoked, and all alerts about a certificate.
    const REQUIRED: u64 = 116;
    const REVOKED: u64 = 44;
    const ABOUT_CERTIFICATE: std::ops::RangeInclusive<u64> = 42..=48;
    let code = match error {
        ConnectionError::TransportError(error) => alert(error.code.into()),
        _ => None,
    };
    match code {
        Some(REQUIRED) => Fault::NoCertificate,
        Some(REVOKED) => Fault::Revoked,
        Some(code) if ABOUT_CERTIFICATE.contains(&code) => Fault::UnknownCertificate,
        _ => Fault::Handshake,
    }
}

/// The TLS alert in a QUIC error code (RFC 9001, 4.8).
fn alert(code: u64) -> Option<u64> {
    (0x100..0x200).contains(&code).then_some(code & 0xff)
}
