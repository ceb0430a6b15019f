//! `weir traffic sink`: receives TCP and UDP on given ports, and counts payload for each flow and for each interval,
//! by its own clock. It also measures the delays of datagrams from a sender on the same machine.
//!
//! The sink has one thread, which polls its sockets at most once a millisecond: the kernel acknowledges and buffers
//! meanwhile, and the processor is left to the router. So a measured delay may be up to a millisecond too long.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};
use weir_base::{Instant, Span};
use weir_live::clock;

use super::{Flow, Line, RunClock, Series, Timing, report, stamp};

/// Maximum number of flows that a sink counts separately; further flows are counted per port only.
pub const FLOWS_MAX: usize = 200_000;
/// Requested size of a UDP socket's buffer; the system's limit may make it smaller.
const UDP_BUFFER_BYTES: usize = 4 << 20;
/// Interval of the polls.
const LOOK: Span = Span::from_millis(1);

/// Options of a sink.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// TCP ports to listen on.
    #[arg(long = "tcp", value_name = "PORT")]
    pub tcp: Vec<u16>,
    /// UDP ports to listen on.
    #[arg(long = "udp", value_name = "PORT")]
    pub udp: Vec<u16>,
    /// The times of the run.
    #[command(flatten)]
    pub timing: Timing,
}

impl Options {
    /// As arguments of `weir traffic`.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec!["sink".to_owned()];
        args.extend(self.tcp.iter().map(|p| format!("--tcp={p}")));
        args.extend(self.udp.iter().map(|p| format!("--udp={p}")));
        args.extend(self.timing.to_args());
        args
    }
}

#[derive(Debug, Default)]
struct Count {
    start_s: f64,
    end_s: Option<f64>,
    bytes: u64,
    window_bytes: u64,
    window_packets: u64,
}

/// The counts of one port.
#[derive(Debug)]
struct PortCount {
    protocol: &'static str,
    port: u16,
    flows: HashMap<SocketAddr, Count>,
    series: Vec<u64>,
    delays: stamp::Counts,
}

enum Source {
    Listener(TcpListener, usize),
    Connection(TcpStream, SocketAddr, usize),
    Datagrams(UdpSocket, usize),
}

struct Sink {
    run: RunClock,
    poll: Poll,
    sources: HashMap<usize, Source>,
    next: usize,
    ports: Vec<PortCount>,
}

/// Runs a sink to the end of its time.
pub fn run(options: &Options) -> io::Result<()> {
    let mut sink = Sink::new(options)?;
    report(&Line::Ready)?;
    sink.receive()?;
    sink.report()
}

impl Sink {
    fn new(options: &Options) -> io::Result<Self> {
        let run = options.timing.begin();
        let mut sink = Self {
            run,
            poll: Poll::new()?,
            sources: HashMap::new(),
            next: 0,
            ports: Vec::new(),
        };
        for &port in &options.tcp {
            let listener = TcpListener::from_std(listen_tcp(port, 1024)?);
            let count = sink.count_port("tcp", port);
            sink.add(Source::Listener(listener, count))?;
        }
        for &port in &options.udp {
            let socket = UdpSocket::from_std(listen_udp(port)?);
            let count = sink.count_port("udp", port);
            sink.add(Source::Datagrams(socket, count))?;
        }
        Ok(sink)
    }

    fn count_port(&mut self, protocol: &'static str, port: u16) -> usize {
        self.ports.push(PortCount {
            protocol,
            port,
            flows: HashMap::new(),
            series: vec![0; self.run.intervals()],
            delays: stamp::Counts::default(),
        });
        self.ports.len() - 1
    }

    fn add(&mut self, mut source: Source) -> io::Result<()> {
        let token = Token(self.next);
        let registry = self.poll.registry();
        match &mut source {
            Source::Listener(s, _) => registry.register(s, token, Interest::READABLE)?,
            Source::Connection(s, ..) => registry.register(s, token, Interest::READABLE)?,
            Source::Datagrams(s, _) => registry.register(s, token, Interest::READABLE)?,
        }
        self.sources.insert(self.next, source);
        self.next += 1;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 256 << 10];
        let mut looked = Instant::ZERO;
        while !self.run.is_over() {
            let now = super::sleep_until(looked + LOOK);
            looked = now;
            let left = self.run.end().since(now).as_nanos();
            let wait = Duration::from_nanos(left).min(Duration::from_millis(100));
            match self.poll.poll(&mut events, Some(wait)) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                self.serve(event.token().0, &mut buffer)?;
            }
        }
        Ok(())
    }

    fn serve(&mut self, token: usize, buffer: &mut [u8]) -> io::Result<()> {
        let Some(mut source) = self.sources.remove(&token) else {
            return Ok(());
        };
        let open = match &mut source {
            Source::Listener(listener, port) => {
                let port = *port;
                while let Some((stream, peer)) = waiting(listener.accept())? {
                    self.ports[port].begin(&self.run, peer);
                    self.add(Source::Connection(stream, peer, port))?;
                }
                true
            }
            Source::Connection(stream, peer, port) => {
                let port = &mut self.ports[*port];
                let open = read_all(stream, buffer, |n| port.add(&self.run, *peer, n, 0));
                if !open {
                    port.end(&self.run, *peer);
                }
                open
            }
            Source::Datagrams(socket, port) => {
                while let Some((n, peer)) = waiting(socket.recv_from(buffer))? {
                    let port = &mut self.ports[*port];
                    port.add(&self.run, peer, n, 1);
                    port.add_delay(&self.run, &buffer[..n]);
                }
                true
            }
        };
        if open {
            self.sources.insert(token, source);
        }
        Ok(())
    }

    fn report(self) -> io::Result<()> {
        for port in self.ports {
            for (peer, count) in port.flows {
                report(&Line::Flow(Flow {
                    protocol: port.protocol.to_owned(),
                    port: port.port,
                    peer: plain(peer).to_string(),
                    bytes: count.bytes,
                    window_bytes: count.window_bytes,
                    window_packets: count.window_packets,
                    start_s: count.start_s,
                    end_s: count.end_s,
                }))?;
            }
            report(&Line::Series(Series {
                protocol: port.protocol.to_owned(),
                port: port.port,
                interval_s: self.run.interval_s(),
                bytes: port.series,
            }))?;
            if port.protocol == "udp" {
                report(&Line::Delays(port.delays.reported(port.port)))?;
            }
        }
        Ok(())
    }
}

impl PortCount {
    /// Begins a flow, so that a flow that never sends counts with a share of zero.
    fn begin(&mut self, run: &RunClock, peer: SocketAddr) {
        if self.flows.len() < FLOWS_MAX {
            let flow = self.flows.entry(peer);
            flow.or_insert_with(|| Count {
                start_s: run.seconds(clock::now()),
                ..Count::default()
            });
        }
    }

    fn end(&mut self, run: &RunClock, peer: SocketAddr) {
        if let Some(count) = self.flows.get_mut(&peer) {
            count.end_s = Some(run.seconds(clock::now()));
        }
    }

    fn add(&mut self, run: &RunClock, peer: SocketAddr, bytes: usize, packets: u64) {
        let now = clock::now();
        let Some(interval) = run.interval(now) else {
            return;
        };
        let bytes = bytes as u64;
        self.series[interval] += bytes;
        self.begin(run, peer);
        let Some(count) = self.flows.get_mut(&peer) else {
            return;
        };
        count.bytes += bytes;
        if run.in_window(now) {
            count.window_bytes += bytes;
            count.window_packets += packets;
        }
    }

    /// Adds the delay of a datagram, if it arrived in the window.
    fn add_delay(&mut self, run: &RunClock, payload: &[u8]) {
        let now = clock::now();
        if run.in_window(now) {
            self.delays.add(payload, run.start, now);
        }
    }
}

/// Reads the available bytes; returns false once the peer has closed or reset the connection.
fn read_all(stream: &mut TcpStream, buffer: &mut [u8], mut count: impl FnMut(usize)) -> bool {
    loop {
        match stream.read(buffer) {
            Ok(0) => return false,
            Ok(n) => count(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The accepted connection or received data; `None` if nothing is waiting. Ignores a connection that was reset before
/// it was accepted.
fn waiting<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) => match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::ConnectionAborted => Ok(None),
            ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(e),
        },
    }
}

/// A non-blocking TCP listener for both IP versions.
pub(super) fn listen_tcp(port: u16, backlog: i32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    bind(&socket, port)?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn listen_udp(port: u16) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(UDP_BUFFER_BYTES)?;
    bind(&socket, port)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn bind(socket: &Socket, port: u16) -> io::Result<()> {
    socket.set_only_v6(false)?;
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    socket
        .bind(&any.into())
        .map_err(|e| io::Error::new(e.kind(), format!("port {port}: {e}")))
}

/// The address, with an IPv4-mapped IPv6 address as its IPv4 address.
fn plain(peer: SocketAddr) -> SocketAddr {
    match peer.ip() {
        IpAddr::V6(v6) => v6
            .to_ipv4_mapped()
            .map_or(peer, |v4| SocketAddr::from((v4, peer.port()))),
        IpAddr::V4(_) => peer,
    }
}
