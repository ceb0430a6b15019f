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
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// The netlink port of the installer, whose own changes are not losses; zero before it is opened.
    installer: Arc<AtomicU32>,
}

impl Losses {
    /// Starts to follow them.
    pub fn open(installer: Arc<AtomicU32>) -> io::Result<Self> {
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        // The kernel also announces the installer's changes; too many of them at once would look like a loss.
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
        Ok(Self {
            socket: register(socket)?,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            installer,
        })
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
            Ok(bytes) => {
                let installer = self.installer.load(Ordering::Relaxed);
                Ok(messages(bytes).filter_map(|m| hint(&m, installer)).max())
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Some(Hint::Links)),
            Err(error) => Err(error),
        }
    }
}

fn hint(message: &Message<'_>, installer: u32) -> Option<Hint> {
    match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            Some(Hint::Links)
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            let is_others = message.port != installer && is_touched(message.payload);
            is_others.then_some(Hint::Routes)
        }
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => {
            let is_others = message.port != installer && objects::own(message.payload).is_some();
            is_others.then_some(Hint::Routes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::install::{METRIC, PROTOCOL};
    use crate::kernel::netlink::Request;

    #[test]
    fn only_what_others_do_to_our_routes_is_a_hint() {
        let of = |kind: u16, protocol: u8, metric: u32, port: u32| {
            let header = [2, 24, 0, 0, libc::RT_TABLE_MAIN, protocol, 0, 1, 0, 0, 0, 0];
            let request = Request::new(kind, 0, &header);
            let request = request.with(libc::RTA_PRIORITY, &metric.to_ne_bytes());
            let mut bytes = request.numbered(1);
            bytes[12..16].copy_from_slice(&port.to_ne_bytes());
            hint(&messages(&bytes).next().unwrap(), 7)
        };
        let (new, gone) = (libc::RTM_NEWROUTE, libc::RTM_DELROUTE);
        let routes = Some(Hint::Routes);
        assert_eq!(of(gone, PROTOCOL, METRIC, 9), routes);
        assert_eq!(of(gone, PROTOCOL, METRIC, 7), None, "our own change");
        assert_eq!(of(new, 4, METRIC, 9), routes, "in place of one of ours");
        assert_eq!(of(new, 4, 0, 9), None, "beside ours");
        assert_eq!(of(libc::RTM_NEWLINK, 0, 0, 0), Some(Hint::Links));
        let short = Request::new(new, 0, &[0; 3]).numbered(1);
        assert_eq!(hint(&messages(&short).next().unwrap(), 7), None);
    }
}
