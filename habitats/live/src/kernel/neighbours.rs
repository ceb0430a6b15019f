//! Asks the kernel to find a next hop's MAC address, and to keep it known.
//!
//! ```text
//! resolve --> asked --(answered: update)--> kept, a managed entry that the kernel refreshes
//!                |                            |
//!                +--(failed)--> forgotten     +--(too many: the oldest)--> an ordinary entry
//! ```
//!
//! The gateways of all routes are asked for at once and kept: the kernel, which does not forward any
//! more, would not notice that one it knows from before has gone. Hosts are asked for when a packet
//! needs them.
//!
//! An entry is managed only after its neighbour has answered: otherwise a scan of a connected
//! network would leave an entry for each address, which the kernel then asks for ever. When this
//! value goes, the kernel's entries become ordinary ones again and age out; when the process is
//! killed they stay managed, which costs one question each half minute and ends with the link.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::IpAddr;

use weir_path::tables::{Neighbour, Tables};

use super::netlink::{NetlinkSocket, Request};

/// Questions whose answer is still to come.
const ASKED_MAX: usize = 1024;
/// Managed entries.
const KEPT_MAX: usize = 1024;

/// Interface and address.
type Key = (u32, IpAddr);

/// The neighbours that this process asked the kernel for.
#[derive(Debug)]
pub struct Neighbours {
    socket: NetlinkSocket,
    asked: HashSet<Key>,
    kept: VecDeque<Key>,
    managed_works: bool,
}

impl Neighbours {
    /// For the calling thread's network namespace.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            socket: NetlinkSocket::open(libc::NETLINK_ROUTE)?,
            asked: HashSet::new(),
            kept: VecDeque::new(),
            managed_works: true,
        })
    }

    /// Asks the kernel to find out the MAC address of `address` on `interface`. Does not wait for
    /// the answer, which comes with the tables. Asking again while the kernel is at it is harmless.
    pub fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        let key = (interface, address);
        if self.asked.len() >= ASKED_MAX {
            self.asked.clear(); // they are answered all the same, only not kept known
        }
        self.socket
            .ask(&entry(key, libc::NLM_F_CREATE, Wish::Use))?;
        self.asked.insert(key);
        Ok(())
    }

    /// Looks which questions have been answered: those neighbours are kept known from now on. Asks
    /// for gateways that are not.
    pub fn update(&mut self, tables: &Tables) -> io::Result<()> {
        let asked = self.asked.len();
        self.keep_answered(tables)?;
        // A gateway that has just failed is asked for again with the next change.
        if self.managed_works && self.asked.len() == asked {
            for key in tables.gateways() {
                if !self.kept.contains(&key) && !self.asked.contains(&key) {
                    self.resolve(key.0, key.1)?;
                }
            }
        }
        Ok(())
    }

    fn keep_answered(&mut self, tables: &Tables) -> io::Result<()> {
        let (mut answered, mut failed) = (Vec::new(), Vec::new());
        for key in &self.asked {
            match tables.neighbours.get(key) {
                Some(Neighbour::Reachable(_)) => answered.push(*key),
                Some(Neighbour::Failed) => failed.push(*key),
                None => {}
            }
        }
        for key in answered.iter().chain(&failed) {
            self.asked.remove(key);
        }
        for key in answered {
            self.keep(key)?;
        }
        Ok(())
    }

    fn keep(&mut self, key: Key) -> io::Result<()> {
        if !self.managed_works || self.kept.contains(&key) {
            return Ok(());
        }
        match self.socket.ask(&entry(key, 0, Wish::Manage)) {
            Ok(()) => self.kept.push_back(key),
            // The entry or its interface went away in the meantime.
            Err(error) if is_gone(&error) => {}
            // A kernel before 5.16: entries are asked for anew each time they have aged out.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.managed_works = false,
            Err(error) => return Err(error),
        }
        if self.kept.len() > KEPT_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.release(oldest)?;
        }
        Ok(())
    }

    fn release(&mut self, key: Key) -> io::Result<()> {
        match self.socket.ask(&entry(key, 0, Wish::Release)) {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        while let Some(key) = self.kept.pop_front() {
            if self.release(key).is_err() {
                return; // the socket is broken
            }
        }
    }
}

/// What the kernel is asked to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Find it out as if a packet waited for it.
    Use,
    /// Keep it known.
    Manage,
    /// Let it age like any other.
    Release,
}

/// `RTM_NEWNEIGH`: `struct ndmsg` and attributes (linux/neighbour.h).
fn entry((interface, address): Key, flags: libc::c_int, wish: Wish) -> Request {
    const NDA_DST: u16 = 1;
    const NDA_FLAGS_EXT: u16 = 15;
    const NTF_EXT_MANAGED: u32 = 1;
    let family = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let (state, legacy_flags) = match wish {
        Wish::Use | Wish::Manage => (libc::NUD_NONE, libc::NTF_USE),
        Wish::Release => (libc::NUD_STALE, 0),
    };
    let mut header = vec![family as u8, 0, 0, 0];
    header.extend_from_slice(&interface.to_ne_bytes());
    header.extend_from_slice(&state.to_ne_bytes());
    header.extend_from_slice(&[legacy_flags, 0]);
    let flags = flags | libc::NLM_F_ACK | libc::NLM_F_REPLACE;
    let request = Request::new(libc::RTM_NEWNEIGH, flags, &header);
    let request = match address {
        IpAddr::V4(a) => request.with(NDA_DST, &a.octets()),
        IpAddr::V6(a) => request.with(NDA_DST, &a.octets()),
    };
    match wish {
        Wish::Manage => request.with(NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes()),
        Wish::Use | Wish::Release => request,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENODEV | libc::ENETDOWN)
    )
}
