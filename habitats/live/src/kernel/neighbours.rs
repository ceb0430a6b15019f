//! Asks the kernel to find a next hop's MAC address, and to verify those that are in use.
//!
//! ```text
//!  a packet waits --> resolve --> no entry: made, and asked for
//!                                 FAILED:   asked for again
//!  in use, or a gateway --> verify --> STALE: verified, as by a packet of the kernel's own
//! ```
//!
//! The kernel, which does not forward any more, would not notice that a neighbour it knows from
//! before has gone: an entry is verified only while packets of the kernel's own use it. So
//! whoever forwards says now and then which neighbours it uses.
//!
//! Nothing is changed that would have to be undone: when this process ends, however it ends, the
//! kernel's entries are such as it could have made by itself. In particular
//!
//! - an entry that the operator has set (PERMANENT, NOARP), or that another program keeps (managed,
//!   learned externally), is never asked for. `NTF_USE` and `NTF_EXT_MANAGED` would both take these
//!   marks away, without a word.
//! - a new entry is asked for with `NLM_F_EXCL`: the kernel itself sees to it that there is none.
//!   Of an existing one the state is read right before. An operator who makes it permanent between
//!   these two system calls, a few microseconds, is overruled; netlink has no request that
//!   compares and sets.
//!
//! Entries that an earlier version marked as managed, and left so because it was killed, stay: they
//! cannot be told from those of another program, they work, and `ip neighbour replace` ends that.

use std::io;
use std::net::IpAddr;

use weir_path::forward::Neighbourhood;
use weir_path::tables::{Neighbour, Tables};

use super::netlink::{NetlinkSocket, Request, attribute, u16_at, u32_at};

/// Neighbours that are verified in one go: a bound on the time that this takes, some 10 us each.
const VERIFIED_MAX: usize = 4096;

/// Asks for neighbours.
#[derive(Debug)]
pub struct Neighbours {
    socket: NetlinkSocket,
}

impl Neighbours {
    /// For the calling thread's network namespace.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            socket: NetlinkSocket::open(libc::NETLINK_ROUTE)?,
        })
    }

    /// Asks the kernel to find out the MAC address of a neighbour. Does not wait for the answer,
    /// which comes with the tables. Asking again while the kernel is at it is harmless.
    pub fn resolve(&mut self, neighbour: Neighbourhood) -> io::Result<()> {
        let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.socket.ask(&using(neighbour, create)) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.use_if(neighbour, |entry| entry.state & libc::NUD_FAILED != 0)
            }
            result => result,
        }
    }

    /// Lets the kernel verify those of `in_use`, and of all gateways, that it has not heard of
    /// recently. A gateway that it does not know is asked for.
    pub fn verify(&mut self, in_use: &[Neighbourhood], tables: &Tables) -> io::Result<()> {
        let gateways = tables.gateways();
        for gateway in gateways.iter().take(VERIFIED_MAX) {
            match tables.neighbours.get(gateway) {
                Some(Neighbour::Reachable(_)) => self.verify_one(*gateway)?,
                Some(Neighbour::Permanent(_)) => {}
                Some(Neighbour::Failed) | None => gone_is_well(self.resolve(*gateway))?,
            }
        }
        let others = in_use.iter().filter(|n| !gateways.contains(n));
        for neighbour in others.take(VERIFIED_MAX) {
            if let Some(Neighbour::Reachable(_)) = tables.neighbours.get(neighbour) {
                self.verify_one(*neighbour)?;
            }
        }
        Ok(())
    }

    fn verify_one(&mut self, neighbour: Neighbourhood) -> io::Result<()> {
        let stale = |entry: Entry| entry.state & libc::NUD_STALE != 0;
        gone_is_well(self.use_if(neighbour, stale))
    }

    /// Lets the kernel act as if it had a packet for this neighbour, if the entry is one that it
    /// made by itself, and `wanted`.
    fn use_if(
        &mut self,
        neighbour: Neighbourhood,
        wanted: impl Fn(Entry) -> bool,
    ) -> io::Result<()> {
        let entry = self.read(neighbour)?;
        match entry.is_the_kernels_own() && wanted(entry) {
            true => self.socket.ask(&using(neighbour, 0)),
            false => Ok(()),
        }
    }

    /// The kernel's entry as it is now.
    fn read(&mut self, neighbour: Neighbourhood) -> io::Result<Entry> {
        let request = request(libc::RTM_GETNEIGH, libc::NLM_F_ACK, neighbour, 0);
        let mut found = None;
        self.socket.dump(&request, |message| {
            found = found.or(Entry::read(message.payload));
        })?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// What counts of a neighbour's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    state: u16,
    flags: u8,
    flags_ext: u32,
}

impl Entry {
    /// From `struct ndmsg` and attributes (linux/neighbour.h).
    fn read(payload: &[u8]) -> Option<Self> {
        const NDA_FLAGS_EXT: u16 = 15;
        let attributes = payload.get(NDMSG_BYTES..)?;
        Some(Self {
            state: u16_at(payload, 8)?,
            flags: *payload.get(10)?,
            flags_ext: attribute(attributes, NDA_FLAGS_EXT)
                .and_then(|value| u32_at(value, 0))
                .unwrap_or(0),
        })
    }

    /// Whether no operator and no program has a hand in it.
    fn is_the_kernels_own(self) -> bool {
        self.state & (libc::NUD_PERMANENT | libc::NUD_NOARP) == 0
            && self.flags & libc::NTF_EXT_LEARNED == 0
            && self.flags_ext == 0
    }
}

/// Length of `struct ndmsg`.
const NDMSG_BYTES: usize = 12;

/// A request to use an entry as a packet would.
fn using(neighbour: Neighbourhood, flags: libc::c_int) -> Request {
    let flags = flags | libc::NLM_F_ACK;
    request(libc::RTM_NEWNEIGH, flags, neighbour, libc::NTF_USE)
}

/// `struct ndmsg` and the address (linux/neighbour.h).
fn request(
    kind: u16,
    flags: libc::c_int,
    (interface, address): Neighbourhood,
    entry_flags: u8,
) -> Request {
    const NDA_DST: u16 = 1;
    let family = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let mut header = vec![family as u8, 0, 0, 0];
    header.extend_from_slice(&interface.to_ne_bytes());
    header.extend_from_slice(&libc::NUD_NONE.to_ne_bytes());
    header.extend_from_slice(&[entry_flags, 0]);
    let request = Request::new(kind, flags, &header);
    match address {
        IpAddr::V4(a) => request.with(NDA_DST, &a.octets()),
        IpAddr::V6(a) => request.with(NDA_DST, &a.octets()),
    }
}

/// The entry or its interface may have gone away in the meantime.
fn gone_is_well(result: io::Result<()>) -> io::Result<()> {
    let gone = |code: &i32| matches!(*code, libc::ENOENT | libc::ENODEV | libc::ENETDOWN);
    match result {
        Err(error) if error.raw_os_error().as_ref().is_some_and(gone) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_entries_are_used() {
        let own = Entry {
            state: libc::NUD_STALE,
            flags: 0,
            flags_ext: 0,
        };
        assert!(own.is_the_kernels_own());
        let router = libc::NTF_ROUTER;
        assert!(
            Entry {
                flags: router,
                ..own
            }
            .is_the_kernels_own()
        );
        for state in [libc::NUD_PERMANENT, libc::NUD_NOARP] {
            assert!(!Entry { state, ..own }.is_the_kernels_own());
        }
        let flags = libc::NTF_EXT_LEARNED;
        assert!(!Entry { flags, ..own }.is_the_kernels_own());
        let flags_ext = 1; // managed
        assert!(!Entry { flags_ext, ..own }.is_the_kernels_own());
    }

    #[test]
    fn an_entry_is_read_from_the_kernels_message() {
        // ip neigh add 10.0.0.2 dev (index 3) use managed
        let bytes = request(libc::RTM_NEWNEIGH, 0, (3, [10, 0, 0, 2].into()), 0x12)
            .with(15, &1_u32.to_ne_bytes())
            .numbered(1);
        let entry = Entry {
            state: 0,
            flags: 0x12,
            flags_ext: 1,
        };
        assert_eq!(Entry::read(&bytes[16..]), Some(entry));
        assert_eq!(Entry::read(&bytes[16..20]), None);
    }
}
