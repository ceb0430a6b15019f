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
//! Routes of one target refer to one [next-hop object](objects) where the kernel has them, so that one message moves
//! them all.
//!
//! The kernel handles the requests of a datagram before the send returns, in their order. It announces every change to
//! [`follow`](super::follow), which passes it to the forwarding thread.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::ParseableParametrized;
use netlink_packet_route::RouteNetlinkMessage;
use weir_model::{Discard, Target};
use weir_path::ip::tables::Action;

use super::netlink::{
    DATAGRAM_BYTES_MAX, HEADER_BYTES, NetlinkSocket, Request, attribute, family, messages, u32_at,
};
use super::route_message::{self, Read};
use super::routes::{RANK_MAIN, RouteTarget};
use objects::Objects;

pub mod objects;

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstalledRoute {
    /// The destinations. Bits after the prefix are ignored.
    pub prefix: IpNet,
    /// Where the packets go.
    pub target: Target<NextHop>,
    /// The next-hop object with this target to which the route refers.
    pub object: Option<u32>,
}

/// A next hop in the kernel's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The next router; `None` for destinations on the link.
    pub gateway: Option<IpAddr>,
    /// Kernel index of the interface.
    pub interface: u32,
}

impl InstalledRoute {
    /// The interface whose owner has the route: that of the first next hop. A route without next hops has none.
    pub fn interface(&self) -> Option<u32> {
        self.target.hops().next().map(|(hop, _)| hop.interface)
    }

    /// The removal of this route.
    pub fn removal(&self) -> RouteChange {
        let only = match (self.object, &self.target) {
            (Some(object), _) => Only::Object(object),
            (None, Target::Hop(hop)) => Only::Interface(hop.interface),
            _ => Only::Any, // the kernel compares only the next hop that it got first
        };
        RouteChange::Remove(self.prefix, only)
    }
}

/// A change of the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// Adds this route. The kernel refuses it if its prefix already has a route with our metric, whichever program made
    /// that.
    Add(InstalledRoute),
    /// Sets the route of this prefix; replaces a route with our metric, if there is one.
    Put(InstalledRoute),
    /// Removes the route of this prefix if it is such a route. A missing route is not an error.
    Remove(IpNet, Only),
}

/// The routes of a prefix that are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Any route.
    Any,
    /// A route through this interface.
    Interface(u32),
    /// A route that refers to this next-hop object.
    Object(u32),
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
#[error("route {}: {source}", .change.prefix())]
pub struct RefusedRoute {
    /// Index among the changes.
    pub place: usize,
    /// The change.
    pub change: RouteChange,
    /// The kernel's error.
    pub source: io::Error,
}

/// Puts routes into the kernel's main table.
#[derive(Debug)]
pub struct Installer {
    socket: NetlinkSocket,
    buffer: Vec<u8>,
    /// `None` if the kernel has none.
    objects: Option<Objects>,
}

impl Installer {
    /// For the calling thread's network namespace.
    pub fn new() -> io::Result<Self> {
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        socket.set_send_buffer(SEND_BUFFER_BYTES)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        socket.set_nonblocking()?;
        let buffer = vec![0; DATAGRAM_BYTES_MAX];
        let objects = Objects::open()?;
        Ok(Self {
            socket,
            buffer,
            objects,
        })
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
        let (mut batch, mut bytes, mut begin) = (Vec::new(), 0, 0);
        for (place, change) in changes.iter().enumerate() {
            let request = request(change);
            let len = HEADER_BYTES + request.body().len();
            bytes += len;
            if bytes > BATCH_BYTES {
                self.send(&batch, begin, changes, &mut refused)?;
                batch.clear();
                (bytes, begin) = (len, place);
            }
            batch.push(request);
        }
        if !batch.is_empty() {
            self.send(&batch, begin, changes, &mut refused)?;
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
                match (change, source.raw_os_error()) {
                    (RouteChange::Remove(..), Some(libc::ESRCH)) => continue,
                    // The kernel has deleted the object, and the route with it.
                    (RouteChange::Remove(_, Only::Object(_)), Some(libc::EINVAL)) => continue,
                    _ => {}
                }
                let change = change.clone();
                refused.push(RefusedRoute {
                    place,
                    change,
                    source,
                });
            }
        }
    }

    /// The routes of this protocol and metric that the kernel has now, from any program.
    pub fn installed(&self) -> io::Result<Vec<InstalledRoute>> {
        let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        let _ = socket.check_strictly(); // an older kernel also sends the routes of other protocols
        let (kinds, mut routes) = (self.objects.as_ref().map(|_| objects::kinds()), Vec::new());
        let kinds = kinds.transpose()?.unwrap_or_default();
        let target = |id| objects::target(&kinds, id);
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = [0; RTMSG_BYTES];
            header[0] = family as u8;
            header[5] = PROTOCOL;
            let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &header);
            socket.dump(&request, |message| {
                routes.extend(read(message.payload, &target));
            })?;
        }
        Ok(routes)
    }
}

/// Length of `struct rtnexthop`.
const RTNEXTHOP_BYTES: usize = 8;
/// Attribute of a route: its next-hop object.
pub const RTA_NH_ID: u16 = 30;

fn request(change: &RouteChange) -> Request {
    match change {
        RouteChange::Add(route) => new_route(route, libc::NLM_F_EXCL),
        RouteChange::Put(route) => new_route(route, libc::NLM_F_REPLACE),
        RouteChange::Remove(prefix, only) => {
            let header = header(*prefix, libc::RT_SCOPE_NOWHERE, libc::RTN_UNSPEC);
            let request = with_prefix(Request::new(libc::RTM_DELROUTE, 0, &header), *prefix);
            match only {
                Only::Any => request,
                Only::Interface(index) => request.with(libc::RTA_OIF, &index.to_ne_bytes()),
                Only::Object(id) => request.with(RTA_NH_ID, &id.to_ne_bytes()),
            }
        }
    }
}

/// A request that makes a route. `flag`: what happens if there is one.
fn new_route(route: &InstalledRoute, flag: libc::c_int) -> Request {
    let (kind, scope) = match (route.object, &route.target) {
        (None, Target::Discard(discard)) => (kind(*discard), libc::RT_SCOPE_UNIVERSE),
        (None, Target::Hop(NextHop { gateway: None, .. })) => {
            (libc::RTN_UNICAST, libc::RT_SCOPE_LINK)
        }
        _ => (libc::RTN_UNICAST, libc::RT_SCOPE_UNIVERSE),
    };
    let header = header(route.prefix, scope, kind);
    let request = Request::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | flag, &header);
    let request = with_prefix(request, route.prefix);
    match (route.object, &route.target) {
        (Some(object), _) => request.with(RTA_NH_ID, &object.to_ne_bytes()),
        (None, Target::Hop(hop)) => {
            let request = request.with(libc::RTA_OIF, &hop.interface.to_ne_bytes());
            with_gateway(request, libc::RTA_GATEWAY, hop.gateway)
        }
        (None, Target::Hops(hops)) => {
            let hops: Vec<u8> = hops.iter().flat_map(rtnexthop).collect();
            request.with(libc::RTA_MULTIPATH, &hops)
        }
        (None, Target::Discard(_)) => request,
    }
}

const fn kind(discard: Discard) -> u8 {
    match discard {
        Discard::Blackhole => libc::RTN_BLACKHOLE,
        Discard::Unreachable => libc::RTN_UNREACHABLE,
        Discard::Prohibit => libc::RTN_PROHIBIT,
    }
}

fn with_gateway(request: Request, attribute: u16, gateway: Option<IpAddr>) -> Request {
    match gateway {
        Some(gateway) => request.with_address(attribute, gateway),
        None => request,
    }
}

/// A next hop among several: `struct rtnexthop` (length, flags, weight - 1, interface), and its gateway.
fn rtnexthop((hop, weight): &(NextHop, u16)) -> Vec<u8> {
    let attributes = with_gateway(Request::new(0, 0, &[]), libc::RTA_GATEWAY, hop.gateway);
    let len = (RTNEXTHOP_BYTES + attributes.body().len()) as u16;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([0, weight.saturating_sub(1).min(255) as u8]);
    bytes.extend(hop.interface.to_ne_bytes());
    bytes.extend(attributes.body());
    bytes
}

/// `struct rtmsg` of one of our routes.
fn header(prefix: IpNet, scope: u8, kind: u8) -> [u8; RTMSG_BYTES] {
    let table = libc::RT_TABLE_MAIN;
    let (family, len) = (family(prefix.addr()), prefix.prefix_len());
    [family, len, 0, 0, table, PROTOCOL, scope, kind, 0, 0, 0, 0]
}

fn with_prefix(request: Request, prefix: IpNet) -> Request {
    request
        .with_address(libc::RTA_DST, prefix.network())
        .with(libc::RTA_PRIORITY, &METRIC.to_ne_bytes())
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

/// Reads a route that an installer makes: for any type of service, in the main table. `of_object`: the target of an
/// object.
fn read(
    payload: &[u8],
    of_object: &impl Fn(u32) -> Option<Target<NextHop>>,
) -> Option<InstalledRoute> {
    let parsed = RouteNetlinkMessage::parse_with_param(payload, libc::RTM_NEWROUTE);
    let Ok(RouteNetlinkMessage::NewRoute(message)) = parsed else {
        return None;
    };
    let Some(Read::Candidate(prefix, route)) = route_message::read(&message) else {
        return None;
    };
    if (route.rank, route.protocol, route.metric) != (RANK_MAIN, PROTOCOL, METRIC) {
        return None;
    }
    let object = route.object;
    let target = match route.way {
        _ if object.is_some() => of_object(object?)?,
        RouteTarget::Hops(hops) => {
            let is_only = hops.len() == 1;
            let hops = hops.into_iter().filter(|hop| is_only || !hop.dead);
            Target::of_hops(hops.map(|hop| {
                let (gateway, interface) = (hop.next.gateway, hop.next.interface);
                let weight = hop.next.weight as u16; // at most 256
                (NextHop { gateway, interface }, weight)
            }))?
        }
        RouteTarget::Fixed(Action::Blackhole) => Target::Discard(Discard::Blackhole),
        RouteTarget::Fixed(Action::Unreachable) => Target::Discard(Discard::Unreachable),
        RouteTarget::Fixed(Action::Prohibit) => Target::Discard(Discard::Prohibit),
        RouteTarget::Fixed(_) => return None,
    };
    Some(InstalledRoute {
        prefix,
        target,
        object,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(gateway: Option<&str>, interface: u32) -> NextHop {
        let gateway = gateway.map(|text| text.parse().unwrap());
        NextHop { gateway, interface }
    }

    #[test]
    fn a_put_route_reads_back_as_it_is() {
        let several = |gateways: [&str; 2]| {
            let hops = gateways.map(|gateway| hop(Some(gateway), 3));
            Target::of_hops(hops.into_iter().zip([1, 256])).unwrap()
        };
        for (prefix, target) in [
            ("10.1.0.0/16", Target::Hop(hop(Some("192.0.2.1"), 3))),
            ("0.0.0.0/0", several(["192.0.2.1", "192.0.2.2"])),
            ("10.2.0.0/16", Target::Discard(Discard::Prohibit)),
            ("2001:db8::/32", several(["fe80::1", "fe80::2"])),
            ("2001:db8:1::/48", Target::Discard(Discard::Blackhole)),
            ("::/0", Target::Hop(hop(None, 3))),
        ] {
            let prefix = prefix.parse().unwrap();
            for object in [None, Some(7)] {
                let target = target.clone();
                let route = InstalledRoute {
                    prefix,
                    target,
                    object,
                };
                let request = request(&RouteChange::Put(route.clone()));
                let of_object = |id| (id == 7).then(|| route.target.clone());
                assert_eq!(read(request.body(), &of_object), Some(route.clone()));
            }
        }
        let none = |_| None;
        assert_eq!(read(&[0; RTMSG_BYTES - 1], &none), None);
        let cut = with_prefix(
            Request::new(
                libc::RTM_NEWROUTE,
                0,
                &header("10.1.0.0/16".parse().unwrap(), 0, 1),
            ),
            "10.1.0.0/16".parse().unwrap(),
        );
        assert_eq!(
            read(
                cut.with(libc::RTA_MULTIPATH, &[8, 0, 0, 0, 1]).body(),
                &none
            ),
            None
        );
    }
}
