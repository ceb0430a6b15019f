//! The SCTP transport of RFC 5811: three associations, each with its priority.
//!
//! ```text
//!  FE                                                          CE
//!  high     -- set-up, Config, Query: reliable           -->  port 6704
//!  medium   -- events: given up after 2 s                -->  port 6705
//!  low      -- redirects, heartbeats: after 0.5 s        -->  port 6706
//! ```
//!
//! The FE opens low, then medium, then high; the CE accepts them in any order. The loss of one channel ends the link. A
//! receiver reads high until it is empty, then medium, then low.
//!
//! Over raw IP ([`Carrier::RawIp`], configured as `sctp`) the port in a CE's address is the port of its high channel.
//! Over UDP ([`Carrier::Udp`], `sctp_udp`, RFC 6951) packets use UDP port 9899, or the configured port for redirects.
//! There are no certificates: SCTP works only if the configuration sets `insecure`.
//!
//! - [`packet`], [`init`], [`cookie`], [`opening`]: the wire format, and the opening of an association
//! - [`channel`], [`gate`], [`library`], [`inbox`], [`association`], [`outcome`]: an established association
//! - [`links`], [`endpoint`]: all associations of a socket; none of these has sockets or clocks
//! - `socket`, `driver`: the sockets, and the tasks that run an endpoint on them
//!
//! An on-path attacker can do everything, as there is no authentication. An off-path attacker cannot open an
//! association (cookies), end it or inject data (32 bits of verification tag), or exhaust memory (an INIT allocates
//! none). A peer that lies in its own association is limited by [`gate`].

pub mod association;
pub mod channel;
pub mod cookie;
mod driver;
pub mod endpoint;
pub mod gate;
pub mod inbox;
pub mod init;
pub mod library;
pub mod links;
pub mod opening;
pub mod outcome;
pub mod packet;
mod socket;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time;
use weir_base::Span;

use self::driver::Driver;
use self::endpoint::{Endpoint, Event, Settings};
use self::library::Epoch;
use self::links::LinkId;
pub use self::socket::Carrier;
use self::socket::Socket;
use super::faults::Fault;
use super::link::{self, Link};
use super::{
    ACCEPTED_MAX, Common, Limits, Listener, Local, Opening, Remote, TmlError, Transport, random,
};
use weir_live::clock;

/// Port of the high channel (RFC 5811, 4.2.1); the medium and low channels use the next two ports.
const FIRST_PORT: u16 = 6704;
/// UDP port of SCTP (RFC 6951, 4).
const UDP_PORT: u16 = 9899;

/// The transport.
#[derive(Clone, Copy, Debug)]
pub struct Sctp(pub Carrier);

impl super::Tml for Sctp {
    fn connect<'a>(&'a self, ce: &'a Remote) -> Opening<'a, Link> {
        Box::pin(self.open(ce))
    }

    fn listen<'a>(&'a self, local: &'a Local) -> Opening<'a, Listener> {
        Box::pin(async { self.start(local) })
    }
}

impl Sctp {
    fn word(self) -> &'static str {
        match self.0 {
            Carrier::RawIp => Transport::Sctp.word(),
            Carrier::Udp => Transport::SctpUdp.word(),
        }
    }

    fn check(self, common: &Common, address: SocketAddr) -> Result<(), TmlError> {
        common.check()?;
        common.permit_open(self.word(), address)
    }

    async fn open(self, ce: &Remote) -> Result<Link, TmlError> {
        let (address, limits) = (ce.address, ce.common.limits);
        self.check(&ce.common, address)?;
        let remote = self.carried_at(address, ce.redirect_port);
        let any = SocketAddr::new(unspecified(address), 0);
        let io = |what| TmlError::io(what, remote);
        let socket = Socket::bind(self.0, any).map_err(io("open SCTP to"))?;
        socket.connect(remote).await.map_err(io("open SCTP to"))?;
        // Over UDP the port is unique on this machine; over IP, an otherwise unused UDP port reserves the number.
        let reserved = Socket::bind(Carrier::Udp, any).map_err(io("reserve a port for SCTP to"))?;
        let port = match self.0 {
            Carrier::Udp => socket.local(),
            Carrier::RawIp => reserved.local(),
        };
        let port = port.map_err(io("open SCTP to"))?.port();
        let first_port = first_port(address);
        let endpoint =
            Endpoint::connect(clock::now(), settings(1, limits), remote, first_port, port);
        let driver = Driver::new(socket, endpoint, ce.common.faults.clone());
        let up = time::timeout(limits.handshake, first_event(&driver)).await;
        let id = match up {
            Ok(Ok(id)) => id,
            Ok(Err(why)) => return Err(TmlError::handshake(address, why)),
            Err(_) => {
                let why = format_args!("timeout after {:?}", limits.handshake);
                return Err(TmlError::handshake(address, why));
            }
        };
        let common = &ce.common;
        let (link, ends) = link::open(None, address, &common.channel, &common.faults);
        let task = driver.clone();
        tokio::spawn(async move {
            let serve = task.clone().serve(id, ends, limits);
            tokio::select! {
                () = serve => {}
                () = run(&task) => {}
            }
            drop(reserved);
        });
        Ok(link)
    }

    fn start(self, local: &Local) -> Result<Listener, TmlError> {
        let (address, common) = (local.address, local.common.clone());
        self.check(&common, address)?;
        let first_port = first_port(address);
        let udp = self.carried_at(address, local.redirect_port);
        let socket = Socket::bind(self.0, udp).map_err(TmlError::io("listen for SCTP at", udp))?;
        let bound = socket
            .local()
            .map_err(TmlError::io("listen for SCTP at", udp))?;
        let endpoint = Endpoint::listen(settings(local.links_max, common.limits), first_port);
        let driver = Driver::new(socket, endpoint, common.faults.clone());
        let (sender, links) = mpsc::channel(ACCEPTED_MAX);
        let (opened, mut waiting) = mpsc::channel(ACCEPTED_MAX);
        tokio::spawn(listen(driver, opened, common));
        // The socket serves the open links even after the listener was dropped.
        let task = tokio::spawn(async move {
            while let Some(link) = waiting.recv().await {
                let _ = sender.send(link).await; // an error if nobody accepts links: the link closes itself
            }
        });
        Ok(Listener {
            address: SocketAddr::new(bound.ip(), first_port),
            redirect_port: match self.0 {
                Carrier::RawIp => first_port,
                Carrier::Udp => bound.port(),
            },
            links,
            task: task.abort_handle(),
        })
    }

    /// Destination of packets: an address with the UDP port, or with zero over raw IP.
    fn carried_at(self, address: SocketAddr, udp_port: Option<u16>) -> SocketAddr {
        let port = match self.0 {
            Carrier::RawIp => 0,
            Carrier::Udp => udp_port.unwrap_or(UDP_PORT),
        };
        SocketAddr::new(address.ip(), port)
    }
}

/// The port of the high channel.
fn first_port(address: SocketAddr) -> u16 {
    match address.port() {
        0 => FIRST_PORT,
        port => port,
    }
}

fn unspecified(address: SocketAddr) -> std::net::IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn settings(links_max: usize, limits: Limits) -> Settings {
    let idle = u64::try_from(limits.idle.as_nanos()).unwrap_or(u64::MAX);
    Settings {
        epoch: Epoch::new(std::time::Instant::now()),
        secret: random(),
        random: Box::new(|| u32::from_ne_bytes(random())),
        links_max,
        silence_max: Span::from_nanos(idle),
    }
}

/// Runs the driver until the link that it opens is up, or has failed.
async fn first_event(driver: &Driver) -> Result<LinkId, String> {
    loop {
        match driver.next().await.pop_front() {
            Some(Event::Up(id, _)) => return Ok(id),
            Some(Event::Failed(why)) => return Err(why),
            None => {}
        }
    }
}

/// Runs the driver forever.
async fn run(driver: &Driver) {
    loop {
        driver.next().await;
    }
}

/// Runs the driver of a listener until the listener was dropped and no link is left.
async fn listen(driver: Arc<Driver>, opened: mpsc::Sender<Link>, common: Common) {
    loop {
        let events = tokio::select! {
            events = driver.next() => events,
            () = opened.closed(), if !driver.with(|endpoint, _| endpoint.is_deaf()) => {
                driver.with(|endpoint, _| endpoint.stop_listening());
                Default::default()
            }
        };
        for event in events {
            if let Event::Up(id, peer) = event {
                let (link, ends) = link::open(None, peer, &common.channel, &common.faults);
                tokio::spawn(driver.clone().serve(id, ends, common.limits));
                if opened.try_send(link).is_err() {
                    let what = format_args!("{peer}: too many links are waiting to be accepted");
                    common.faults.report(Fault::TooMany, what);
                }
            }
        }
        if driver.with(|endpoint, _| endpoint.is_deaf() && endpoint.is_idle()) {
            return;
        }
    }
}
