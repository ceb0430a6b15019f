//! Asks the kernel to find a next hop's MAC address, and to verify the addresses in use.
//!
//! ```text
//!  a packet waits --> resolve --> no entry: made, and asked for -----+--> answered: the kernel's own
//!                                 FAILED:   asked for again          +--> failed: removed (update)
//!                                                                    +--> given up: removed (give_up)
//!  in use, or a gateway --> verify --> STALE: verified, as by a packet of the kernel's own
//! ```
//!
//! The kernel no longer forwards, so it would not notice that a neighbour has become unreachable: it verifies an entry
//! only while its own packets use the entry. So the forwarding thread periodically reports the neighbours that it uses.
//!
//! The router changes nothing that it would have to undo: however this process ends, the kernel's entries are entries
//! that the kernel could have created by itself. In particular:
//!
//! - An entry that the operator has set (PERMANENT, NOARP), or that another program maintains (managed, learned
//!   externally), is never requested. Both `NTF_USE` and `NTF_EXT_MANAGED` would silently remove these marks.
//! - A new entry is requested with `NLM_F_EXCL`: the kernel itself ensures that no entry exists yet. The state of an
//!   existing entry is read immediately before the request. If an operator makes it permanent in the few microseconds
//!   between these two system calls, that change is overwritten; netlink has no compare-and-set request.
//!
//! The kernel's table is bounded too. With `gc_thresh3` entries it accepts no more. With more than `gc_thresh2` it
//! removes entries that were not updated for five seconds, including those of working neighbours. So the router removes
//! entries of unsuccessful requests, and limits the number of concurrent requests to half of the free entries below
//! `gc_thresh2`. These limits apply to all network namespaces together, and only the first namespace can read them:
//! elsewhere their defaults are used.
//!
//! If an earlier version was killed, its entries that are marked as managed stay. They cannot be distinguished from
//! those of another program. They work, and `ip neighbour replace` removes the mark.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use weir_path::ip::tables::{Neighbour, NeighbourKey, Tables};

use super::netlink::{NetlinkSocket, Request, attribute, family, u16_at, u32_at};

/// Maximum neighbours verified in one call: a bound on its duration, about 10 us for each.
const VERIFIED_MAX: usize = 4096;

/// Maximum requested neighbours that the tables do not contain yet. More than any plane requests at the same time.
const ASKED_MAX: usize = 1024;
/// Default of the kernel's `gc_thresh2`.
const ENTRIES_DEFAULT: usize = 512;
/// Number of neighbours that may be requested at the same time even if the kernel's table is full.
const QUESTIONS_MIN: usize = 32;

/// Requests neighbours from the kernel.
#[derive(Debug)]
pub struct Neighbours {
    socket: NetlinkSocket,
    asked: HashSet<NeighbourKey>,
    /// Numbers of IPv4 and IPv6 entries above which the kernel removes some.
    entries_max: [usize; 2],
}

impl Neighbours {
    /// For the calling thread's network namespace.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            socket: NetlinkSocket::open(libc::NETLINK_ROUTE)?,
            asked: HashSet::new(),
            entries_max: ["ipv4", "ipv6"].map(entries_max),
        })
    }

    /// Asks the kernel for the MAC address of a neighbour. Does not wait for the answer, which comes with the tables. A
    /// repeated request is harmless.
    pub fn resolve(&mut self, neighbour: NeighbourKey) -> io::Result<()> {
        let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.socket.ask(&using(neighbour, create)) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.use_if(neighbour, |entry| entry.state & libc::NUD_FAILED != 0)
            }
            Err(error) => Err(error),
            Ok(()) => {
                if self.asked.len() >= ASKED_MAX {
                    self.asked.clear(); // failed entries among them stay until the kernel removes them
                }
                self.asked.insert(neighbour);
                Ok(())
            }
        }
    }

    /// Stops requesting a neighbour whose request was given up in favour of another one.
    pub fn give_up(&mut self, neighbour: NeighbourKey) -> io::Result<()> {
        match self.asked.remove(&neighbour) {
            true => gone_is_well(self.remove_unanswered(neighbour)),
            false => Ok(()), // requested by another program
        }
    }

    /// Removes entries of unsuccessful requests, so that they do not fill the kernel's table. Returns the number of
    /// neighbours that may be requested at the same time, for IPv4 and IPv6.
    pub fn update(&mut self, tables: &Tables) -> io::Result<[usize; 2]> {
        let known = |n: &NeighbourKey| tables.neighbours.get(n).copied();
        let ended: Vec<_> = self
            .asked
            .iter()
            .filter(|n| known(n).is_some())
            .copied()
            .collect();
        for neighbour in ended {
            self.asked.remove(&neighbour);
            if known(&neighbour) == Some(Neighbour::Failed) {
                gone_is_well(self.remove_unanswered(neighbour))?;
            }
        }
        let mut present = [0; 2];
        for (_, address) in tables.neighbours.keys() {
            // When the table is full, the kernel removes entries of multicast groups first.
            present[usize::from(address.is_ipv6())] += usize::from(!address.is_multicast());
        }
        let left = |family: usize| self.entries_max[family].saturating_sub(present[family]) / 2;
        // A request for an IPv6 neighbour creates two entries, one of them for the solicited-node group.
        Ok([left(0), left(1) / 2].map(|limit| limit.max(QUESTIONS_MIN)))
    }

    fn remove_unanswered(&mut self, neighbour: NeighbourKey) -> io::Result<()> {
        const UNANSWERED: u16 = libc::NUD_INCOMPLETE | libc::NUD_FAILED;
        let (interface, address) = neighbour;
        self.remove_if(neighbour, |e| {
            e.is_the_kernels_own() && e.state & UNANSWERED != 0
        })?;
        match address {
            IpAddr::V4(_) => Ok(()),
            // The kernel has also created an entry for the group to which it sent its solicitation.
            IpAddr::V6(address) => {
                let group = (interface, IpAddr::V6(solicited_node(address)));
                let made_for_it = Entry {
                    state: libc::NUD_NOARP,
                    ..Entry::default()
                };
                gone_is_well(self.remove_if(group, |entry| entry == made_for_it))
            }
        }
    }

    fn remove_if(
        &mut self,
        neighbour: NeighbourKey,
        wanted: impl Fn(Entry) -> bool,
    ) -> io::Result<()> {
        if wanted(self.read(neighbour)?) {
            let request = request(libc::RTM_DELNEIGH, libc::NLM_F_ACK, neighbour, 0);
            self.socket.ask(&request)
        } else {
            Ok(())
        }
    }

    /// Lets the kernel verify the stale entries of the neighbours in `in_use` and of all gateways. Requests unknown
    /// gateways. If there are several errors, returns the last one.
    pub fn verify(&mut self, in_use: &[NeighbourKey], tables: &Tables) -> io::Result<()> {
        let others = in_use.iter().copied().filter(|n| !tables.is_gateway(*n));
        let mut result = Ok(());
        for neighbour in tables.gateways().chain(others).take(VERIFIED_MAX) {
            let done = match tables.neighbours.get(&neighbour) {
                Some(Neighbour::Permanent(_)) => Ok(()),
                Some(Neighbour::Reachable(_)) => {
                    self.use_if(neighbour, |entry| entry.state & libc::NUD_STALE != 0)
                }
                Some(Neighbour::Failed) | None if tables.is_gateway(neighbour) => {
                    self.resolve(neighbour)
                }
                Some(Neighbour::Failed) | None => Ok(()), // the next packet requests it
            };
            result = gone_is_well(done).and(result);
        }
        result
    }

    /// Makes the kernel act as if it had a packet for this neighbour, provided that it created the entry by itself and
    /// that `wanted` holds.
    fn use_if(
        &mut self,
        neighbour: NeighbourKey,
        wanted: impl Fn(Entry) -> bool,
    ) -> io::Result<()> {
        let entry = self.read(neighbour)?;
        if entry.is_the_kernels_own() && wanted(entry) {
            self.socket.ask(&using(neighbour, 0))
        } else {
            Ok(())
        }
    }

    /// The kernel's current entry.
    fn read(&mut self, neighbour: NeighbourKey) -> io::Result<Entry> {
        let request = request(libc::RTM_GETNEIGH, libc::NLM_F_ACK, neighbour, 0);
        let mut found = None;
        self.socket.dump(&request, |message| {
            found = found.or(Entry::read(message.payload));
        })?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The group in which a neighbour receives solicitations for its address (RFC 4291, section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from(PREFIX | address.to_bits() & 0x00ff_ffff)
}

fn entries_max(family: &str) -> usize {
    let path = format!("/proc/sys/net/{family}/neigh/default/gc_thresh2");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(ENTRIES_DEFAULT)
}

/// The relevant parts of a neighbour's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    state: u16,
    flags: u8,
    flags_ext: u32,
}

impl Entry {
    /// Parses `struct ndmsg` and attributes (linux/neighbour.h).
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

    /// Whether neither an operator nor a program has set the entry.
    fn is_the_kernels_own(self) -> bool {
        self.state & (libc::NUD_PERMANENT | libc::NUD_NOARP) == 0
            && self.flags & NTF_EXT_LEARNED == 0
            && self.flags_ext == 0
    }
}

/// `NTF_EXT_LEARNED` of linux/neighbour.h, which the libc crate does not have for musl.
const NTF_EXT_LEARNED: u8 = 1 << 4;
/// Length of `struct ndmsg`.
const NDMSG_BYTES: usize = 12;

/// A request to use an entry, as sending a packet would.
fn using(neighbour: NeighbourKey, flags: libc::c_int) -> Request {
    let flags = flags | libc::NLM_F_ACK;
    request(libc::RTM_NEWNEIGH, flags, neighbour, libc::NTF_USE)
}

/// `struct ndmsg` and the address (linux/neighbour.h).
fn request(
    kind: u16,
    flags: libc::c_int,
    (interface, address): NeighbourKey,
    entry_flags: u8,
) -> Request {
    const NDA_DST: u16 = 1;
    let mut header = vec![family(address), 0, 0, 0];
    header.extend_from_slice(&interface.to_ne_bytes());
    header.extend_from_slice(&libc::NUD_NONE.to_ne_bytes());
    header.extend_from_slice(&[entry_flags, 0]);
    Request::new(kind, flags, &header).with_address(NDA_DST, address)
}

/// Ignores the error that the entry or its interface no longer exists.
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
        let flags = NTF_EXT_LEARNED;
        assert!(!Entry { flags, ..own }.is_the_kernels_own());
        let flags_ext = 1; // managed
        assert!(!Entry { flags_ext, ..own }.is_the_kernels_own());
    }

    #[test]
    fn the_group_has_the_last_three_bytes() {
        let group = solicited_node("2001:db8::1:2:3456:789a".parse().unwrap());
        assert_eq!(group.to_string(), "ff02::1:ff56:789a");
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
