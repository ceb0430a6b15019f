//! Puts routes of a control element into the kernel's main table, many at a time.
//!
//! ```text
//!  changes --> one datagram of requests (64 KiB) --> kernel --> a message for each request that it refused
//! ```
//!
//! The routes have their own protocol number ([`PROTOCOL`]) and their own metric ([`METRIC`]). So nobody takes them for
//! routes of the operator or of a routing daemon, they replace nobody else's route, and an operator's own route wins if
//! its metric is lower (the default is 0 for IPv4, but 1024 for IPv6). They stay when this process ends: the kernel
//! forwards by them until they are removed. [`Installer::installed`] finds them after a restart, together with routes
//! of other forwarding elements in the same network namespace: a route belongs to the router that has claimed its
//! interface ([`claim`](super::claim)).
//!
//! The kernel handles the requests of a datagram before the send returns, in their order. It announces every change to
//! [`follow`](super::follow), which passes it to the forwarding thread.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

use super::netlink::{
    DATAGRAM_BYTES_MAX, NetlinkSocket, Request, attribute, attributes, messages, u32_at,
};

/// The protocol of the routes (`ip route` prints `proto 119`), a number that no daemon uses.
pub const PROTOCOL: u8 = 119;
/// The metric of the routes: behind an operator's IPv4 routes, whose default is 0, and before routes from DHCP.
pub const METRIC: u32 = 50;

/// Length of `struct rtmsg`.
const RTMSG_BYTES: usize = 12;
/// Bytes of requests that are sent at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Send buffer: the kernel counts more for a datagram than its bytes.
const SEND_BUFFER_BYTES: usize = 4 * BATCH_BYTES;
/// Receive buffer with room for refusals of all requests of a datagram.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstalledRoute {
    /// The destinations. Bits after the prefix are ignored.
    pub prefix: IpNet,
    /// The next router; `None` for destinations on the link.
    pub gateway: Option<IpAddr>,
    /// Kernel index of the interface.
    pub interface: u32,
}

/// A change of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// Adds this route. The kernel refuses it if its prefix already has a route with our metric, whichever program made
    /// that.
    Add(InstalledRoute),
    /// Sets the route of this prefix; replaces a route with our metric, if there is one.
    Put(InstalledRoute),
    /// Removes the route of this prefix, and only through this interface if one is named. A missing route is not an
    /// error.
    Remove(IpNet, Option<u32>),
}

impl RouteChange {
    /// The destinations of the route.
    pub fn prefix(&self) -> IpNet {
        match self {
            Self::Add(route) | Self::Put(route) => route.prefix,
            Self::Remove(prefix, _) => *prefix,
        }
    }
}

/// The kernel refused a change.
#[derive(Debug, thiserror::Error)]
#[error("route {prefix}: {source}")]
pub struct RefusedRoute {
    /// Index among the changes.
    pub place: usize,
    /// Prefix of the route.
    pub prefix: IpNet,
    /// The kernel's error.
    pub source: io::Error,
}

/// Puts routes into the kernel's main table.
#[derive(Debug)]
pub struct Installer {
    socket: NetlinkSocket,
    buffer: Vec<u8>,
}

impl Installer {
    /// For the calling thread's network namespace.
    pub fn new() -> io::Result<Self> {
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        socket.set_send_buffer(SEND_BUFFER_BYTES)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        socket.set_nonblocking()?;
        let buffer = vec![0; DATAGRAM_BYTES_MAX];
        Ok(Self { socket, buffer })
    }

    /// The netlink port in the kernel's announcements of the changes that are made here.
    pub fn port(&mut self) -> io::Result<u32> {
        let nothing = Request::new(libc::NLMSG_NOOP as u16, 0, &[]).acknowledged();
        self.socket.send(&nothing)?; // the kernel answers before that returns
        let answer = messages(self.socket.receive(&mut self.buffer)?).next();
        answer
            .map(|answer| answer.port)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Makes the changes in their order, and returns those that the kernel refused. It makes the others. Blocks for
    /// about a microsecond or two per change.
    pub fn change(&mut self, changes: &[RouteChange]) -> io::Result<Vec<RefusedRoute>> {
        let mut refused = Vec::new();
        let (mut batch, mut begin) = (Vec::with_capacity(BATCH_BYTES), 0);
        for (place, change) in changes.iter().enumerate() {
            batch.push(request(change));
            let bytes: usize = (place + 1 - begin) * REQUEST_BYTES_MAX;
            if bytes + REQUEST_BYTES_MAX > BATCH_BYTES || place + 1 == changes.len() {
                self.send(&batch, begin, changes, &mut refused)?;
                batch.clear();
                begin = place + 1;
            }
        }
        Ok(refused)
    }

    /// Sends the requests of some changes, the first of which has the index `begin`.
    fn send(
        &mut self,
        batch: &[Request],
        begin: usize,
        changes: &[RouteChange],
        refused: &mut Vec<RefusedRoute>,
    ) -> io::Result<()> {
        let first = self.socket.reserve(batch.len() as u32);
        let numbered = batch.iter().enumerate();
        let bytes: Vec<u8> = numbered
            .flat_map(|(n, request)| request.numbered(first.wrapping_add(n as u32)))
            .collect();
        self.socket.send_raw(&bytes)?;
        loop {
            let bytes = match self.socket.receive(&mut self.buffer) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            for message in messages(bytes) {
                let place = begin + message.sequence.wrapping_sub(first) as usize;
                let Some((Err(source), change)) = message.result().zip(changes.get(place)) else {
                    continue;
                };
                let was_none = source.raw_os_error() == Some(libc::ESRCH);
                if was_none && matches!(change, RouteChange::Remove(..)) {
                    continue;
                }
                refused.push(RefusedRoute {
                    place,
                    prefix: change.prefix(),
                    source,
                });
            }
        }
    }

    /// The routes of this protocol and metric that the kernel has now, from any program.
    pub fn installed(&self) -> io::Result<Vec<InstalledRoute>> {
        let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        let _ = socket.check_strictly(); // an older kernel also sends the routes of other protocols
        let mut routes = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = [0; RTMSG_BYTES];
            header[0] = family as u8;
            header[5] = PROTOCOL;
            let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &header);
            socket.dump(&request, |message| {
                routes.extend(read(message.payload).filter(|_| is_ours(message.payload)));
            })?;
        }
        Ok(routes)
    }
}

/// The longest request: header, `struct rtmsg`, and the attributes of an IPv6 route.
const REQUEST_BYTES_MAX: usize = 16 + RTMSG_BYTES + 2 * 20 + 2 * 8;

fn request(change: &RouteChange) -> Request {
    const ADD: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    const PUT: libc::c_int = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let flags = match change {
        RouteChange::Add(_) => ADD,
        _ => PUT,
    };
    match change {
        RouteChange::Add(route) | RouteChange::Put(route) => {
            let scope = match route.gateway {
                Some(_) => libc::RT_SCOPE_UNIVERSE,
                None => libc::RT_SCOPE_LINK,
            };
            let header = header(route.prefix, scope);
            let request = Request::new(libc::RTM_NEWROUTE, flags, &header);
            let request = with_prefix(request, route.prefix);
            let request = request.with(libc::RTA_OIF, &route.interface.to_ne_bytes());
            match route.gateway {
                Some(IpAddr::V4(gateway)) => request.with(libc::RTA_GATEWAY, &gateway.octets()),
                Some(IpAddr::V6(gateway)) => request.with(libc::RTA_GATEWAY, &gateway.octets()),
                None => request,
            }
        }
        RouteChange::Remove(prefix, interface) => {
            let header = header(*prefix, libc::RT_SCOPE_NOWHERE);
            let request = with_prefix(Request::new(libc::RTM_DELROUTE, 0, &header), *prefix);
            match interface {
                Some(index) => request.with(libc::RTA_OIF, &index.to_ne_bytes()),
                None => request,
            }
        }
    }
}

/// `struct rtmsg` of one of our routes.
fn header(prefix: IpNet, scope: u8) -> [u8; RTMSG_BYTES] {
    let family = match prefix {
        IpNet::V4(_) => libc::AF_INET,
        IpNet::V6(_) => libc::AF_INET6,
    };
    let (table, kind) = (libc::RT_TABLE_MAIN, libc::RTN_UNICAST);
    let (family, len) = (family as u8, prefix.prefix_len());
    [family, len, 0, 0, table, PROTOCOL, scope, kind, 0, 0, 0, 0]
}

fn with_prefix(request: Request, prefix: IpNet) -> Request {
    let request = match prefix.network() {
        IpAddr::V4(network) => request.with(libc::RTA_DST, &network.octets()),
        IpAddr::V6(network) => request.with(libc::RTA_DST, &network.octets()),
    };
    request.with(libc::RTA_PRIORITY, &METRIC.to_ne_bytes())
}

/// Whether a route is one that an installer makes: unicast, for any type of service, in the main table.
fn is_ours(payload: &[u8]) -> bool {
    let Some([_, _, _, tos, table, protocol, _, kind]) = payload.first_chunk() else {
        return false;
    };
    (*tos, *table, *protocol, *kind) == (0, libc::RT_TABLE_MAIN, PROTOCOL, libc::RTN_UNICAST)
        && metric(payload) == Some(METRIC)
}

/// Whether a changed route may concern ours: another program may have replaced one of ours by its own.
pub(super) fn is_touched(payload: &[u8]) -> bool {
    let is_main = payload.get(4) == Some(&libc::RT_TABLE_MAIN);
    is_main && (payload.get(5) == Some(&PROTOCOL) || metric(payload) == Some(METRIC))
}

fn metric(payload: &[u8]) -> Option<u32> {
    u32_at(
        attribute(payload.get(RTMSG_BYTES..)?, libc::RTA_PRIORITY)?,
        0,
    )
}

fn read(payload: &[u8]) -> Option<InstalledRoute> {
    let (header, body) = payload.split_at_checked(RTMSG_BYTES)?;
    let (family, len) = (libc::c_int::from(header[0]), header[1]);
    let address = |bytes: &[u8]| match family {
        libc::AF_INET => bytes.first_chunk::<4>().map(|b| IpAddr::from(*b)),
        _ => bytes.first_chunk::<16>().map(|b| IpAddr::from(*b)),
    };
    let network = match attribute(body, libc::RTA_DST) {
        Some(bytes) => address(bytes)?,
        None if family == libc::AF_INET => IpAddr::from([0; 4]),
        None => IpAddr::from([0; 16]),
    };
    let gateway = attributes(body).find(|(kind, _)| *kind == libc::RTA_GATEWAY);
    Some(InstalledRoute {
        prefix: IpNet::new(network, len).ok()?,
        gateway: gateway.and_then(|(_, bytes)| address(bytes)),
        interface: u32_at(attribute(body, libc::RTA_OIF)?, 0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_never_longer_than_a_batch_counts_for_it() {
        let prefix = "2001:db8::/64".parse().unwrap();
        let gateway = Some("fe80::1".parse().unwrap());
        let interface = 7;
        let put = RouteChange::Put(InstalledRoute {
            prefix,
            gateway,
            interface,
        });
        for change in [put, RouteChange::Remove(prefix, Some(7))] {
            assert!(request(&change).numbered(1).len() <= REQUEST_BYTES_MAX);
        }
    }

    #[test]
    fn a_put_route_reads_back_as_it_is() {
        for (prefix, gateway) in [
            ("10.1.0.0/16", Some("192.0.2.1")),
            ("0.0.0.0/0", Some("192.0.2.1")),
            ("2001:db8::/32", Some("fe80::1")),
            ("::/0", None),
        ] {
            let route = InstalledRoute {
                prefix: prefix.parse().unwrap(),
                gateway: gateway.map(|text| text.parse().unwrap()),
                interface: 3,
            };
            let request = request(&RouteChange::Put(route));
            assert_eq!(read(request.body()), Some(route));
            assert!(is_ours(request.body()));
        }
        assert_eq!(read(&[0; RTMSG_BYTES - 1]), None);
    }
}
