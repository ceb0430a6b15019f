//! Announcements after which the kernel may have lost routes that [`install`](super::install) has put into it.
//!
//! ```text
//!   eth0 goes down, is removed, or loses an address     the kernel drops its routes, IPv4 routes silently
//!   eth0 is up, or has an address, again                they can be installed again
//!   ip route del, flush, replace; ip nexthop del        another program has removed a route, or taken its place
//! ```
//!
//! An announcement only triggers a comparison: the kernel's routes themselves show which routes are missing.

use std::io;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::follow::{NEXT_HOP_GROUP, RECEIVE_BUFFER_BYTES, receive, register};
use super::install::{is_touched, objects};
use super::message::{RTM_DELNEXTHOP, RTM_NEWNEXTHOP};
use super::netlink::{Message, NetlinkSocket, messages};

/// Time for which announcements are gathered: the addresses of an interface come one after the other.
const GATHER: Duration = Duration::from_millis(20);
/// Longest announcement.
const DATAGRAM_BYTES_MAX: usize = 32 * 1024;

/// The kind of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Another program has changed a route.
    Routes,
    /// An interface or an address has changed, or announcements were lost.
    Links,
}

/// Follows interfaces, addresses and routes of the calling thread's network namespace.
pub struct Losses {
    socket: AsyncFd<NetlinkSocket>,
    buffer: Vec<u8>,
}

/// Decides whose changes do not count as losses.
pub struct Ignored(NetlinkSocket);

impl Losses {
    /// Starts to follow them.
    pub fn open() -> io::Result<(Self, Ignored)> {
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR as libc::c_uint,
            libc::RTNLGRP_IPV6_IFADDR as libc::c_uint,
            libc::RTNLGRP_IPV4_ROUTE as libc::c_uint,
            libc::RTNLGRP_IPV6_ROUTE as libc::c_uint,
        ] {
            socket.join(group)?;
        }
        let _ = socket.join(NEXT_HOP_GROUP); // an older kernel has no next-hop objects
        let ignored = Ignored(socket.try_clone()?);
        let losses = Self {
            socket: register(socket)?,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        Ok((losses, ignored))
    }

    /// Waits for announcements.
    pub async fn next(&mut self) -> io::Result<Hint> {
        let mut hint = loop {
            if let Some(hint) = self.take().await? {
                break hint;
            }
        };
        let until = Instant::now() + GATHER;
        while let Ok(more) = timeout_at(until, self.take()).await {
            hint = hint.max(more?.unwrap_or(Hint::Routes));
        }
        Ok(hint)
    }

    /// Takes the next datagram.
    async fn take(&mut self) -> io::Result<Option<Hint>> {
        match receive(&self.socket, &mut self.buffer).await {
            Ok(bytes) => Ok(messages(bytes).filter_map(|m| hint(&m)).max()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Some(Hint::Links)),
            Err(error) => Err(error),
        }
    }
}

impl Ignored {
    /// Lets the kernel leave out the changes that come from the netlink port of an installer: announcements of a table's
    /// changes would fill the receive buffer, and look like a loss. That port changes routes and next hops only.
    pub fn set(&self, installer: u32) -> io::Result<()> {
        self.0.refuse_port(installer)
    }
}

fn hint(message: &Message<'_>) -> Option<Hint> {
    match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            Some(Hint::Links)
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            is_touched(message.payload).then_some(Hint::Routes)
        }
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => objects::own(message.payload).map(|_| Hint::Routes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Discard, Target};

    use super::*;
    use crate::kernel::install::{InstalledRoute, Installer, METRIC, PROTOCOL, RouteChange};
    use crate::kernel::netlink::Request;
    use crate::namespace::Namespace;

    #[test]
    fn only_what_concerns_our_routes_is_a_hint() {
        let of = |kind: u16, protocol: u8, metric: u32| {
            let header = [2, 24, 0, 0, libc::RT_TABLE_MAIN, protocol, 0, 1, 0, 0, 0, 0];
            let request = Request::new(kind, 0, &header);
            let request = request.with(libc::RTA_PRIORITY, &metric.to_ne_bytes());
            hint(&messages(&request.numbered(1)).next().unwrap())
        };
        let (new, gone) = (libc::RTM_NEWROUTE, libc::RTM_DELROUTE);
        let routes = Some(Hint::Routes);
        assert_eq!(of(gone, PROTOCOL, METRIC), routes);
        assert_eq!(of(new, 4, METRIC), routes, "in place of one of ours");
        assert_eq!(of(new, 4, 0), None, "beside ours");
        assert_eq!(of(libc::RTM_NEWLINK, 0, 0), Some(Hint::Links));
        let short = Request::new(new, 0, &[0; 3]).numbered(1);
        assert_eq!(hint(&messages(&short).next().unwrap()), None);
    }

    #[test]
    fn the_kernel_leaves_out_changes_of_the_installer() {
        let Ok(namespace) = Namespace::new() else {
            return eprintln!("skipped: no namespaces");
        };
        let change = || {
            let socket = NetlinkSocket::open(libc::NETLINK_ROUTE).unwrap();
            socket.join(libc::RTNLGRP_IPV4_ROUTE).unwrap();
            let [mut own, mut other] = [0; 2].map(|_| Installer::new().unwrap());
            let ignored = Ignored(socket.try_clone().unwrap());
            ignored.set(own.port().unwrap()).unwrap();
            for (installer, prefix) in [(&mut own, "10.1.0.0/16"), (&mut other, "10.2.0.0/16")] {
                let route = RouteChange::Add(InstalledRoute {
                    prefix: prefix.parse().unwrap(),
                    target: Target::Discard(Discard::Blackhole),
                    object: None,
                });
                assert!(installer.change(&[route]).unwrap().is_empty());
            }
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            let bytes = socket.receive(&mut buffer).unwrap();
            let announced = messages(bytes).next().unwrap();
            assert_eq!(announced.port, other.port().unwrap());
        };
        namespace.enter(change).unwrap();
    }
}
