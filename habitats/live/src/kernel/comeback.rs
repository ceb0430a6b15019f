//! Interfaces that have come back: the kernel has dropped their routes.
//!
//! ```text
//!   eth0 goes down, or away        the kernel drops its routes
//!   eth0 is up again               routes by it can be installed, if the next router's network is there
//!   eth0 gets an address again     now that network is there
//! ```
//!
//! The kernel drops routes without a word, so nobody hears which. An interface counts as lost, for each family, until
//! it has an address again that is no link-local one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::follow::{receive, register};
use super::netlink::{Message, NetlinkSocket, attribute, messages, text, u32_at};

/// Time for which announcements are gathered: the addresses of an interface come one after the other.
const GATHER: Duration = Duration::from_millis(20);
/// Maximum announcements that are gathered.
const GATHERED_MAX: usize = 4096;
/// Longest announcement.
const DATAGRAM_BYTES_MAX: usize = 32 * 1024;
/// Length of `struct ifinfomsg`.
const IFINFOMSG_BYTES: usize = 16;

/// Interfaces that have come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Those with these names.
    These(BTreeSet<String>),
    /// Announcements were lost: it may have been any.
    Any,
}

/// Follows the interfaces of the calling thread's network namespace.
pub struct Comebacks {
    socket: AsyncFd<NetlinkSocket>,
    buffer: Vec<u8>,
    links: Links,
}

impl Comebacks {
    /// From now on.
    pub fn open() -> io::Result<Self> {
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR as libc::c_uint,
            libc::RTNLGRP_IPV6_IFADDR as libc::c_uint,
        ] {
            socket.join(group)?;
        }
        Ok(Self {
            socket: register(socket)?,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            links: Links::default(),
        })
    }

    /// Waits for interfaces that come back.
    pub async fn next(&mut self) -> io::Result<Returned> {
        let mut names = BTreeSet::new();
        let mut until = None;
        for _ in 0..GATHERED_MAX {
            let more = match until {
                None => self.take(&mut names).await?,
                Some(until) => match timeout_at(until, self.take(&mut names)).await {
                    Ok(more) => more?,
                    Err(_) => break,
                },
            };
            if !more {
                return Ok(Returned::Any);
            }
            if !names.is_empty() && until.is_none() {
                until = Some(Instant::now() + GATHER);
            }
        }
        Ok(Returned::These(names))
    }

    /// Takes the next datagram; returns false if some were lost.
    async fn take(&mut self, names: &mut BTreeSet<String>) -> io::Result<bool> {
        match receive(&self.socket, &mut self.buffer).await {
            Ok(bytes) => {
                names.extend(messages(bytes).filter_map(|m| self.links.handle(&m)));
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The interfaces, by index.
#[derive(Debug, Default)]
struct Links(BTreeMap<u32, Link>);

#[derive(Debug, Default)]
struct Link {
    name: String,
    is_up: bool,
    /// The families (AF_INET, AF_INET6) whose routes may be gone.
    lost: BTreeSet<u8>,
}

const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

impl Links {
    /// The name of an interface whose routes may be installed again.
    fn handle(&mut self, message: &Message<'_>) -> Option<String> {
        let payload = message.payload;
        match message.kind {
            libc::RTM_NEWLINK => self.link(payload),
            libc::RTM_DELLINK => {
                self.0.remove(&u32_at(payload, 4)?);
                None
            }
            libc::RTM_NEWADDR => self.address(payload, true),
            libc::RTM_DELADDR => self.address(payload, false),
            _ => None,
        }
    }

    fn link(&mut self, payload: &[u8]) -> Option<String> {
        if payload.first() != Some(&0) {
            return None; // about a port of a bridge
        }
        let (index, flags) = (u32_at(payload, 4)?, u32_at(payload, 8)?);
        let name = text(attribute(
            payload.get(IFINFOMSG_BYTES..)?,
            libc::IFLA_IFNAME,
        )?);
        let is_up = flags & libc::IFF_UP as u32 != 0;
        let link = self.0.entry(index).or_default();
        let comes = is_up && !link.is_up; // also if nothing was known of it
        if !is_up {
            link.lost.extend(FAMILIES);
        }
        link.is_up = is_up;
        link.name = name;
        comes.then(|| link.name.clone())
    }

    /// `struct ifaddrmsg`: family, length, flags, scope, index.
    fn address(&mut self, payload: &[u8], is_new: bool) -> Option<String> {
        let (family, scope) = (*payload.first()?, *payload.get(3)?);
        let link = self.0.get_mut(&u32_at(payload, 4)?)?;
        if !is_new {
            link.lost.insert(family);
            return None;
        }
        let was_lost = match scope == libc::RT_SCOPE_LINK {
            true => link.lost.contains(&family),
            false => link.lost.remove(&family),
        };
        (was_lost && link.is_up).then(|| link.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::Request;

    fn handle(links: &mut Links, kind: u16, header: &[u8], name: Option<&str>) -> Option<String> {
        let request = Request::new(kind, 0, header);
        let request = match name {
            Some(name) => request.with_text(libc::IFLA_IFNAME, name),
            None => request,
        };
        let bytes = request.numbered(1);
        links.handle(&messages(&bytes).next().unwrap())
    }

    fn link(links: &mut Links, flags: libc::c_int) -> Option<String> {
        let mut header = [0; IFINFOMSG_BYTES];
        header[4] = 7;
        header[8..12].copy_from_slice(&(flags as u32).to_ne_bytes());
        handle(links, libc::RTM_NEWLINK, &header, Some("eth0"))
    }

    fn address(links: &mut Links, kind: u16, family: libc::c_int, scope: u8) -> Option<String> {
        let header = [family as u8, 24, 0, scope, 7, 0, 0, 0];
        handle(links, kind, &header, None)
    }

    #[test]
    fn an_interface_comes_back_when_it_is_up_and_when_it_has_addresses_again() {
        let mut links = Links::default();
        let eth0 = || Some("eth0".to_owned());
        assert_eq!(link(&mut links, libc::IFF_UP), eth0());
        assert_eq!(link(&mut links, libc::IFF_UP), None);
        // An address more: nothing was lost.
        let (new, gone) = (libc::RTM_NEWADDR, libc::RTM_DELADDR);
        assert_eq!(address(&mut links, new, libc::AF_INET, 0), None);
        assert_eq!(link(&mut links, 0), None);
        assert_eq!(link(&mut links, libc::IFF_UP), eth0());
        let local = libc::RT_SCOPE_LINK;
        assert_eq!(address(&mut links, new, libc::AF_INET6, local), eth0());
        assert_eq!(address(&mut links, new, libc::AF_INET6, 0), eth0());
        assert_eq!(address(&mut links, new, libc::AF_INET6, 0), None);
        // The last address of a family takes its routes along.
        address(&mut links, new, libc::AF_INET, 0);
        assert_eq!(address(&mut links, gone, libc::AF_INET, 0), None);
        assert_eq!(address(&mut links, new, libc::AF_INET, 0), eth0());
    }

    #[test]
    fn a_cut_announcement_is_skipped() {
        let mut links = Links::default();
        for kind in [libc::RTM_NEWLINK, libc::RTM_DELLINK, libc::RTM_NEWADDR] {
            assert_eq!(handle(&mut links, kind, &[0; 3], None), None);
        }
    }
}
