//! Control messages on TCP, redirects on UDP: the transport used in the papers, with TLS added.
//!
//! ```text
//!  FE                                            CE
//!  TCP  --- TLS: message, message, ... ------->  port 6704
//!  UDP  --- session | counter | sealed message > port 6706      keys exported from the TLS session
//! ```
//!
//! On TCP, messages follow each other, delimited by the lengths in their headers. Each datagram contains one
//! PacketRedirect message; a message longer than a datagram is dropped. With TLS, datagrams are sealed with keys
//! exported from the TLS session (RFC 8446, 7.5), see [`seal`]. The FE periodically sends empty datagrams, so that the
//! CE knows its address even behind a NAT.
//!
//! Without TLS, which only `insecure` permits, the transport sends plain messages, as in the papers. The FE's TCP and
//! UDP ports then have the same number: a datagram belongs to the association whose TCP connection has the same
//! addresses.

mod datagrams;
mod seal;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use self::datagrams::Hub;
use self::seal::Secrets;
use super::ended::Ended;
use super::faults::Fault;
use super::handshakes::{ACCEPT_PAUSE, Handshakes};
use super::identity::Proof;
use super::link::{self, Ends, Link, Outlet};
use super::{
    ACCEPTED_MAX, Common, Listener, Local, Opening, Remote, TmlError, Transport, stream, tls,
};
use weir_channel::Channel;

/// Maximum unsent bytes in TCP. More bytes would wait where the discipline no longer decides.
const NOT_SENT_BYTES_MAX: u32 = 16 << 10;
/// Bytes per write to TCP.
const WRITE_BYTES: usize = 16 << 10;
/// Offset of the redirect port from the control port (RFC 5811: 6704 and 6706).
const REDIRECT_PORT_STEP: u16 = 2;
/// Ports that an FE tries before it gives up.
const PORT_TRIES_MAX: u32 = 16;

/// The transport.
#[derive(Clone, Copy, Debug)]
pub struct TcpUdp;

impl TcpUdp {
    /// Listens like [`Tml::listen`](super::Tml::listen), but its links send on another runtime, possibly on another
    /// thread. The links end when that runtime ends.
    pub async fn listen_apart(self, local: &Local, sends: Handle) -> Result<Listener, TmlError> {
        listen(local, Some(sends)).await
    }
}

impl super::Tml for TcpUdp {
    fn connect<'a>(&'a self, ce: &'a Remote) -> Opening<'a, Link> {
        Box::pin(connect(ce))
    }

    fn listen<'a>(&'a self, local: &'a Local) -> Opening<'a, Listener> {
        Box::pin(listen(local, None))
    }
}

/// The redirect port that belongs to `port`.
fn redirect_port(port: u16, given: Option<u16>) -> u16 {
    given.unwrap_or(port.wrapping_add(REDIRECT_PORT_STEP))
}

/// Checks the settings; fails if TLS is required but missing.
fn check(common: &Common, address: SocketAddr) -> Result<(), TmlError> {
    common.check()?;
    match common.security.pinned {
        Some(_) => Ok(()),
        None => common.permit_open(Transport::TcpUdp.word(), address),
    }
}

async fn connect(ce: &Remote) -> Result<Link, TmlError> {
    let (address, common) = (ce.address, &ce.common);
    check(common, address)?;
    let shake = time::timeout(common.limits.handshake, shake_hands(ce));
    let late = |_| {
        TmlError::handshake(
            address,
            format_args!("timeout after {:?}", common.limits.handshake),
        )
    };
    let (wire, proof, secrets, socket) = shake.await.map_err(late)??;
    let remote = SocketAddr::new(
        address.ip(),
        redirect_port(address.port(), ce.redirect_port),
    );
    socket
        .connect(remote)
        .await
        .map_err(TmlError::io("connect UDP to", remote))?;
    let (link, ends) = link::open(proof, address, &common.channel, &common.faults);
    let Ends {
        outlet,
        inbox,
        closer,
    } = ends;
    let limits = common.limits;
    let (sender, receiver) = datagrams::fe(socket, secrets, common.faults.clone());
    tokio::spawn(async move {
        let (reader, writer) = wire.split();
        let receiving = async {
            tokio::select! {
                ended = stream::receive(reader, &inbox, limits) => ended,
                ended = receiver.run(&inbox) => ended,
            }
        };
        let greeting = sender.clone();
        let sending = async {
            tokio::select! {
                sent = send(outlet, writer, &sender) => sent,
                () = greeting.greet() => Ok(()),
            }
        };
        closer.run(limits.close, sending, receiving).await
    });
    Ok(link)
}

/// Runs the sending side of a link on `runtime`, or in this task. It ends with the link.
async fn on(
    runtime: Option<Handle>,
    sending: impl Future<Output = Result<(), Ended>> + Send + 'static,
) -> Result<(), Ended> {
    let Some(runtime) = runtime else {
        return sending.await;
    };
    let mut task = JoinSet::new(); // aborts its task when the link ends
    task.spawn_on(sending, &runtime);
    match task.join_next().await {
        Some(Ok(sent)) => sent,
        _ => Err(Ended::Lost("the sending runtime has ended".to_owned())),
    }
}

/// A connection, with TLS or without.
trait Wire: Send {
    /// Both directions, usable by different threads at the same time.
    fn split(self: Box<Self>) -> (Reader, Writer);
}

type Reader = Box<dyn AsyncRead + Unpin + Send>;
type Writer = Box<dyn AsyncWrite + Unpin + Send>;

impl Wire for TcpStream {
    fn split(self: Box<Self>) -> (Reader, Writer) {
        let (reader, writer) = self.into_split();
        (Box::new(reader), Box::new(writer))
    }
}

impl Wire for TlsStream<TcpStream> {
    fn split(self: Box<Self>) -> (Reader, Writer) {
        let (reader, writer) = tokio::io::split(*self);
        (Box::new(reader), Box::new(writer))
    }
}

/// An established connection, the ID of the peer, and the secrets for datagrams.
type Shaken = (Box<dyn Wire>, Option<Proof>, Option<Secrets>);

/// Connects the FE: returns the connection, and the socket for its datagrams.
async fn shake_hands(
    ce: &Remote,
) -> Result<(Box<dyn Wire>, Option<Proof>, Option<Secrets>, UdpSocket), TmlError> {
    let address = ce.address;
    let (tcp, udp) = sockets(address)
        .await
        .map_err(TmlError::io("connect to", address))?;
    prepare(&tcp);
    let Some(pinned) = &ce.common.security.pinned else {
        return Ok((Box::new(tcp), None, None, udp));
    };
    let connector = TlsConnector::from(Arc::new(tls::of_fe(pinned)?));
    let name = tls::SERVER_NAME.try_into();
    let name = name.map_err(|e| TmlError::handshake(address, e))?;
    let shaken = connector.connect(name, tcp).await;
    let stream = shaken.map_err(|e| TmlError::handshake(address, e))?;
    let session = stream.get_ref().1;
    let proof = tls::proof(&pinned.peers, session.peer_certificates());
    let secrets = Secrets::export(|out, label| session.export_keying_material(out, label, None));
    let secrets = secrets.map_err(|e| TmlError::handshake(address, e))?;
    Ok((Box::new(TlsStream::from(stream)), proof, Some(secrets), udp))
}

/// A connection to this address, and a socket for datagrams with the same port number. A port that is free for one
/// protocol may be in use for the other; in that case the next port is tried.
async fn sockets(address: SocketAddr) -> io::Result<(TcpStream, UdpSocket)> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let udp = UdpSocket::bind((any, 0)).await?;
        let tcp = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        let connected = match tcp.bind(udp.local_addr()?) {
            Ok(()) => tcp.connect(address).await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(tcp) => return Ok((tcp, udp)),
            Err(error) if is_taken(&error) && tries < PORT_TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
    )
}

/// Makes small messages leave at once, and limits the unsent bytes in the kernel.
fn prepare(tcp: &TcpStream) {
    let socket = SockRef::from(tcp);
    let set = tcp.set_nodelay(true);
    if let Err(error) = set.and_then(|()| socket.set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)) {
        tracing::debug!(%error, "cannot set the options of a TCP connection");
    }
}

async fn listen(local: &Local, sends: Option<Handle>) -> Result<Listener, TmlError> {
    let common = local.common.clone();
    check(&common, local.address)?;
    let acceptor = match &common.security.pinned {
        Some(pinned) => Some(TlsAcceptor::from(Arc::new(tls::of_ce(pinned)?))),
        None => None,
    };
    let bound = TcpListener::bind(local.address).await;
    let tcp = bound.map_err(TmlError::io("listen on TCP at", local.address))?;
    let address = tcp
        .local_addr()
        .map_err(TmlError::io("listen on TCP at", local.address))?;
    let redirect = SocketAddr::new(
        address.ip(),
        redirect_port(address.port(), local.redirect_port),
    );
    let udp = UdpSocket::bind(redirect)
        .await
        .map_err(TmlError::io("bind UDP at", redirect))?;
    let redirect = udp
        .local_addr()
        .map_err(TmlError::io("bind UDP at", redirect))?;
    let (sender, links) = mpsc::channel(ACCEPTED_MAX);
    let entrance = Entrance {
        acceptor,
        hub: Hub::new(udp, common.security.pinned.is_some(), common.faults.clone()),
        permits: Arc::new(Semaphore::new(local.links_max)),
        links: sender,
        sends,
        common,
    };
    let handshakes = Handshakes::new(local.handshakes_max);
    let task = tokio::spawn(accept(tcp, handshakes, Arc::new(entrance)));
    Ok(Listener {
        address,
        redirect_port: redirect.port(),
        links,
        task: task.abort_handle(),
    })
}

/// State shared by all new connections.
struct Entrance {
    acceptor: Option<TlsAcceptor>,
    hub: Arc<Hub>,
    permits: Arc<Semaphore>,
    links: mpsc::Sender<Link>,
    /// The runtime for sending; `None` to send on the receiving runtime.
    sends: Option<Handle>,
    common: Common,
}

async fn accept(tcp: TcpListener, mut handshakes: Handshakes, entrance: Arc<Entrance>) {
    loop {
        match tcp.accept().await {
            Ok((stream, peer)) => {
                let guest = entrance.clone();
                let faults = &entrance.common.faults;
                handshakes.begin(peer.ip(), faults, async move {
                    guest.welcome(stream, peer).await;
                });
            }
            Err(error) => {
                entrance.refused(format_args!("cannot accept a connection: {error}"));
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Entrance {
    fn refused(&self, what: fmt::Arguments<'_>) {
        self.common.faults.report(Fault::Handshake, what);
    }

    async fn welcome(&self, tcp: TcpStream, peer: SocketAddr) {
        let (faults, limits) = (&self.common.faults, self.common.limits);
        let shaken = match time::timeout(limits.handshake, self.shake_hands(tcp)).await {
            Ok(shaken) => shaken,
            Err(_) => Err((
                Fault::Handshake,
                format!("no handshake within {:?}", limits.handshake),
            )),
        };
        let (wire, proof, secrets) = match shaken {
            Ok(shaken) => shaken,
            Err((fault, why)) => return faults.report(fault, format_args!("{peer}: {why}")),
        };
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            let what = format_args!("{peer}: the maximum number of links is open");
            return faults.report(Fault::TooMany, what);
        };
        let (link, ends) = link::open(proof, peer, &self.common.channel, faults);
        let Ends {
            outlet,
            inbox,
            closer,
        } = ends;
        let inbox = Arc::new(inbox);
        let member = Arc::new(self.hub.enter(peer, secrets, &inbox));
        let sends = self.sends.clone();
        tokio::spawn(async move {
            let (reader, writer) = wire.split();
            let receiving = stream::receive(reader, &inbox, limits);
            let sender = member.clone();
            let sending = async move { send(outlet, writer, &*sender).await };
            closer
                .run(limits.close, on(sends, sending), receiving)
                .await;
            drop((member, permit));
        });
        let _ = self.links.send(link).await; // an error if nobody accepts links: the link closes itself
    }

    async fn shake_hands(&self, tcp: TcpStream) -> Result<Shaken, (Fault, String)> {
        prepare(&tcp);
        let (Some(acceptor), Some(pinned)) = (&self.acceptor, &self.common.security.pinned) else {
            // An FE speaks first. Until then the connection counts as a handshake, not as a link.
            let spoke = tcp.peek(&mut [0]).await;
            return match spoke {
                Ok(0) => Err((Fault::Handshake, "closed without a message".to_owned())),
                Ok(_) => Ok((Box::new(tcp), None, None)),
                Err(error) => Err((Fault::Handshake, error.to_string())),
            };
        };
        let stream = acceptor.accept(tcp).await;
        let stream = stream.map_err(|error| (tls::fault_of(&error), error.to_string()))?;
        let session = stream.get_ref().1;
        let proof = tls::proof(&pinned.peers, session.peer_certificates());
        let secrets =
            Secrets::export(|out, label| session.export_keying_material(out, label, None));
        let secrets = secrets.map_err(|e| (Fault::Handshake, e.to_string()))?;
        Ok((Box::new(TlsStream::from(stream)), proof, Some(secrets)))
    }
}

/// Sends messages from the queue. Control messages wait for TCP, and redirects wait behind them.
async fn send(
    mut outlet: Outlet,
    writer: impl AsyncWrite + Unpin,
    redirects: &impl Redirects,
) -> Result<(), Ended> {
    outlet.set_piece(redirects.bytes_max());
    let mut writer = BufWriter::with_capacity(WRITE_BYTES, writer);
    while let Some(first) = outlet.next().await {
        let mut next = Some(first);
        while let Some((channel, message)) = next {
            match channel {
                Channel::Control => writer
                    .write_all(&message)
                    .await
                    .map_err(|e| stream::lost(&e))?,
                Channel::Redirect => {
                    // Control messages that left the queue earlier must not wait behind a flood.
                    writer.flush().await.map_err(|e| stream::lost(&e))?;
                    redirects.send(&message).await;
                }
            }
            next = outlet.try_next();
        }
        writer.flush().await.map_err(|e| stream::lost(&e))?;
    }
    writer.shutdown().await.map_err(|e| stream::lost(&e))
}

/// Destination of redirects.
trait Redirects {
    /// Length of the longest message, in bytes.
    fn bytes_max(&self) -> usize;
    /// Sends a redirect, or drops and counts it.
    fn send(&self, message: &[u8]) -> impl Future<Output = ()> + Send;
}
