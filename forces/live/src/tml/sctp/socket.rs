//! Sockets below SCTP: raw IP, protocol 132, or UDP (RFC 6951).
//!
//! Over raw IP the kernel's own SCTP must not be loaded: it would answer our packets with ABORT.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket as Socket2, Type};
use tokio::net::UdpSocket;

/// Protocol number of SCTP.
const SCTP: i32 = 132;
/// Requested socket buffer size, in bytes; the kernel may limit it.
const BUFFER_BYTES: usize = 4 << 20;
/// Buffer size for a packet of any length, in bytes.
pub(super) const PACKET_BYTES: usize = 1 << 16;

/// The layer that carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// IP itself; a socket has an address but no port.
    RawIp,
    /// UDP; a socket has a port.
    Udp,
}

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    has_ip_header: bool,
}

impl Socket {
    /// Creates a socket at `local`, whose port is zero over raw IP.
    pub(super) fn bind(carrier: Carrier, local: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(local);
        let socket = match carrier {
            Carrier::Udp => Socket2::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
            Carrier::RawIp => {
                check_kernel()?;
                Socket2::new(domain, Type::RAW, Some(Protocol::from(SCTP))).map_err(explain)?
            }
        };
        socket.set_nonblocking(true)?;
        let sized = socket.set_recv_buffer_size(BUFFER_BYTES);
        if let Err(error) = sized.and_then(|()| socket.set_send_buffer_size(BUFFER_BYTES)) {
            tracing::debug!(%error, "cannot enlarge the buffers of a socket");
        }
        socket.bind(&local.into())?;
        // To the standard library, a raw socket looks like a UDP socket with ports of zero.
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            has_ip_header: carrier == Carrier::RawIp && local.is_ipv4(),
        })
    }

    /// Limits the socket to packets from `peer`.
    pub(super) async fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer).await
    }

    /// Local address of the socket.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until there is a packet to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Waits until there is room for a packet.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Reads an SCTP packet into `buffer`, if there is one. The buffer has room for [`PACKET_BYTES`].
    pub(super) fn receive<'a>(
        &self,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<(SocketAddr, &'a [u8])> {
        buffer.clear();
        let (_, from) = self.socket.try_recv_buf_from(buffer)?;
        let header = match buffer.first() {
            Some(first) if self.has_ip_header => usize::from(first & 0xf) * 4,
            _ => 0,
        };
        Ok((from, buffer.get(header..).unwrap_or_default()))
    }

    /// Sends an SCTP packet, if there is room.
    pub(super) fn send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        self.socket.try_send_to(packet, to).map(|_| ())
    }
}

/// Fails if the kernel's own SCTP is loaded.
fn check_kernel() -> io::Result<()> {
    if std::path::Path::new("/proc/net/sctp").exists() {
        let why = "the kernel's own SCTP would answer our packets: unload its module (modprobe -r sctp), or use \
                   transport = \"sctp_udp\"";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    Ok(())
}

fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let why =
                "SCTP over IP needs the capability CAP_NET_RAW; transport = \"sctp_udp\" does not";
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        }
        _ => error,
    }
}
