//! The rule that keeps transit away from the kernel.
//!
//! ```text
//! frame --> packet tap (our copy) --> ingress hook: is it transit? --drop
//!                                          |
//!                                          +--> the kernel: ARP, ND, its own addresses, groups
//! ```
//!
//! The kernel's forwarding stays switched on. While this process lives, an nf_tables table of
//! family netdev takes transit out behind the packet tap; the table has an owner, our socket, so
//! it vanishes with the process however that ends, and the kernel forwards again (fail open).
//! Needs nf_tables with `NFT_TABLE_F_OWNER` (Linux 5.12) and its fib expression for the netdev
//! family, and works in a user namespace too. No `nft` program is used. What is installed:
//!
//! ```text
//! table netdev weir-PID-N {
//!     flags owner
//!     chain port-NAME {
//!         type filter hook ingress device "NAME" priority -500; policy accept;
//!         meta pkttype host fib daddr type unicast drop              # routed
//!         meta pkttype host fib daddr type >= 6 drop                 # blackhole .. throw
//!         drop                                                       # bridged
//!     }
//! }
//! ```
//!
//! Link-local IPv6 needs no rule: the fib asks for them on the interface they came in by, finds
//! ours local, and the kernel forwards no others. Tagged frames are judged like untagged ones, so
//! the kernel does not forward what comes in by a VLAN interface on a port either.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_path::parse::Mode;

use super::netlink::{NetlinkSocket, Request, messages};

/// Why transit cannot be kept away from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The netlink socket did not work.
    #[error("cannot talk to the kernel's nf_tables: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused a part.
    #[error("the kernel refused the {what}: {source}")]
    Refused {
        /// Which part.
        what: String,
        /// Its reason.
        source: io::Error,
    },
}

/// Keeps transit away from the kernel while it exists.
#[derive(Debug)]
pub struct TransitGuard {
    socket: NetlinkSocket, // the table's owner: the table goes when this closes
    pub(super) table: String,
}

/// Tells several guards of one process apart.
static GUARDS: AtomicU32 = AtomicU32::new(0);

pub(super) const NFT_MSG_NEWTABLE: u8 = libc::NFT_MSG_NEWTABLE as u8;
const NFT_MSG_NEWCHAIN: u8 = libc::NFT_MSG_NEWCHAIN as u8;
const NFT_MSG_DELCHAIN: u8 = libc::NFT_MSG_DELCHAIN as u8;
pub(super) const NFT_MSG_NEWRULE: u8 = libc::NFT_MSG_NEWRULE as u8;
pub(super) const NFT_TABLE_F_OWNER: u32 = 2;
/// Before any other chain of an ingress hook.
const PRIORITY: i32 = -500;

impl TransitGuard {
    /// Puts the rules of these ports into force, all or none of them, in the calling thread's
    /// network namespace. Of a routed port the router alone has what the kernel would forward, of a
    /// bridged one everything.
    pub fn install(ports: &[(&str, Mode)]) -> Result<Self, Error> {
        let socket = NetlinkSocket::open(libc::NETLINK_NETFILTER)?;
        socket.set_receive_timeout(Duration::from_secs(2))?;
        let number = GUARDS.fetch_add(1, Ordering::Relaxed);
        let mut guard = Self {
            socket,
            table: format!("weir-{}-{number}", std::process::id()),
        };
        let table = message(NFT_MSG_NEWTABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .with_text(1, &guard.table)
            .with_u32_be(2, NFT_TABLE_F_OWNER);
        let mut batch = vec![("table".to_owned(), table)];
        for (port, mode) in ports {
            batch.extend(guard.chain(port, *mode));
        }
        guard.commit(&batch)?;
        Ok(guard)
    }

    /// Puts the rules of one port into force, anew if it had some: when it is added, or when its
    /// interface has come back, since a chain goes with its interface.
    pub fn protect(&mut self, port: &str, mode: Mode) -> Result<(), Error> {
        self.unprotect(port)?;
        self.commit(&self.chain(port, mode))
    }

    /// Removes the rules of one port.
    pub fn unprotect(&mut self, port: &str) -> Result<(), Error> {
        let chain = message(NFT_MSG_DELCHAIN, 0)
            .with_text(1, &self.table)
            .with_text(3, &chain_name(port));
        match self.commit(&[(format!("removal of the chain of {port}"), chain)]) {
            Err(Error::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {
                Ok(())
            }
            other => other,
        }
    }

    /// The table's name, for an operator who lists the rules.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The parts that make a port's chain: the chain itself, then its rules.
    pub(super) fn chain(&self, port: &str, mode: Mode) -> Vec<(String, Request)> {
        const NF_NETDEV_INGRESS: u32 = 0;
        const NF_ACCEPT: u32 = 1;
        let name = chain_name(port);
        let chain = message(NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE)
            .with_text(1, &self.table)
            .with_text(3, &name)
            .nested(4, |hook| {
                hook.with_u32_be(1, NF_NETDEV_INGRESS)
                    .with_u32_be(2, PRIORITY as u32)
                    .with_text(3, port)
            })
            .with_u32_be(5, NF_ACCEPT)
            .with_text(7, "filter");
        let rule = |expressions: fn(Request) -> Request| {
            let rule = message(NFT_MSG_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND)
                .with_text(1, &self.table)
                .with_text(2, &name)
                .nested(4, expressions);
            (format!("rule for {port}"), rule)
        };
        let mut parts = vec![(format!("chain at the ingress of {port}"), chain)];
        match mode {
            Mode::Routed => {
                parts.push(rule(|r| drop_it(fib_type(r, CMP_EQ, libc::RTN_UNICAST))));
                parts.push(rule(|r| drop_it(fib_type(r, CMP_GTE, libc::RTN_BLACKHOLE))));
            }
            Mode::Bridged => parts.push(rule(drop_it)),
        }
        parts
    }

    /// Sends messages as one transaction.
    pub(super) fn commit(&mut self, batch: &[(String, Request)]) -> Result<(), Error> {
        let first = 1;
        let mut bytes = boundary(libc::NFNL_MSG_BATCH_BEGIN).numbered(0);
        for (number, (_, request)) in (first..).zip(batch) {
            bytes.extend(request.numbered(number));
        }
        let end = first + batch.len() as u32;
        bytes.extend(boundary(libc::NFNL_MSG_BATCH_END).numbered(end));
        self.socket.send_raw(&bytes)?;
        let mut outstanding = batch.len();
        let mut refused = None;
        let mut buffer = vec![0; 16 * 1024];
        while outstanding > 0 {
            for answer in messages(self.socket.receive(&mut buffer)?) {
                let Some(result) = answer.result() else {
                    continue;
                };
                let part = answer.sequence.wrapping_sub(first) as usize;
                let what = batch.get(part).map(|(what, _)| what.clone());
                match (result, what) {
                    (Ok(()), _) => {}
                    // An error of the transaction itself is its only answer.
                    (Err(error), None) => return Err(error.into()),
                    (Err(source), Some(what)) => {
                        refused.get_or_insert(Error::Refused { what, source });
                    }
                }
                outstanding -= 1;
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

pub(super) fn chain_name(port: &str) -> String {
    format!("port-{port}")
}

/// A message of nf_tables, family netdev, which asks for an answer.
pub(super) fn message(kind: u8, flags: libc::c_int) -> Request {
    let kind = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | u16::from(kind);
    let family = libc::NFPROTO_NETDEV as u8;
    Request::new(kind, flags | libc::NLM_F_ACK, &[family, 0, 0, 0])
}

/// The begin or the end of a transaction of nf_tables.
pub(super) fn boundary(kind: libc::c_int) -> Request {
    let [high, low] = (libc::NFNL_SUBSYS_NFTABLES as u16).to_be_bytes();
    Request::new(kind as u16, 0, &[0, 0, high, low])
}

const CMP_EQ: u32 = 0;
pub(super) const CMP_LT: u32 = 2;
pub(super) const CMP_GTE: u32 = 5;
/// The register that expressions pass their value in.
pub(super) const REGISTER: u32 = 1;

pub(super) fn expression(
    rule: Request,
    name: &str,
    data: impl FnOnce(Request) -> Request,
) -> Request {
    rule.nested(1, |e| e.with_text(1, name).nested(2, data))
}

pub(super) fn compare(rule: Request, operation: u32, value: &[u8]) -> Request {
    expression(rule, "cmp", |data| {
        data.with_u32_be(1, REGISTER)
            .with_u32_be(2, operation)
            .nested(3, |d| d.with(1, value))
    })
}

/// `meta pkttype host fib daddr type OPERATION KIND`. The comparison is one of bytes, which for
/// numbers below 256 gives the same in both byte orders.
fn fib_type(rule: Request, operation: u32, kind: u8) -> Request {
    const META_PKTTYPE: u32 = 19;
    const FIB_ADDRTYPE: u32 = 3;
    const FIB_F_DADDR: u32 = 2;
    let rule = expression(rule, "meta", |data| {
        data.with_u32_be(2, META_PKTTYPE).with_u32_be(1, REGISTER)
    });
    let rule = compare(rule, CMP_EQ, &[libc::PACKET_HOST]);
    let rule = expression(rule, "fib", |data| {
        data.with_u32_be(3, FIB_F_DADDR)
            .with_u32_be(2, FIB_ADDRTYPE)
            .with_u32_be(1, REGISTER)
    });
    compare(rule, operation, &u32::from(kind).to_ne_bytes())
}

fn drop_it(rule: Request) -> Request {
    const NF_DROP: u32 = 0;
    decide(rule, NF_DROP)
}

/// Ends a rule with a verdict.
pub(super) fn decide(rule: Request, verdict: u32) -> Request {
    const VERDICT_REGISTER: u32 = 0;
    expression(rule, "immediate", |data| {
        data.with_u32_be(1, VERDICT_REGISTER)
            .nested(2, |d| d.nested(2, |v| v.with_u32_be(1, verdict)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nft add rule netdev weir p meta pkttype host fib daddr type unicast drop`, nft 1.0.6,
    /// seen by strace: table, chain, expressions.
    #[rustfmt::skip]
    const RECORDED: &[u8] = &[
        0x09, 0, 0x01, 0, b'w', b'e', b'i', b'r', 0, 0, 0, 0,
        0x06, 0, 0x02, 0, b'p', 0, 0, 0,
        0xd8, 0, 0x04, 0x80,
        0x24, 0, 0x01, 0x80, 0x09, 0, 0x01, 0, b'm', b'e', b't', b'a', 0, 0, 0, 0,
        0x14, 0, 0x02, 0x80, 0x08, 0, 0x02, 0, 0, 0, 0, 0x13, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01,
        0x2c, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, b'c', b'm', b'p', 0,
        0x20, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0,
        0x0c, 0, 0x03, 0x80, 0x05, 0, 0x01, 0, 0, 0, 0, 0,
        0x28, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, b'f', b'i', b'b', 0,
        0x1c, 0, 0x02, 0x80, 0x08, 0, 0x03, 0, 0, 0, 0, 0x02, 0x08, 0, 0x02, 0, 0, 0, 0, 0x03,
        0x08, 0, 0x01, 0, 0, 0, 0, 0x01,
        0x2c, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, b'c', b'm', b'p', 0,
        0x20, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0,
        0x0c, 0, 0x03, 0x80, 0x08, 0, 0x01, 0, 0x01, 0, 0, 0,
        0x30, 0, 0x01, 0x80, 0x0e, 0, 0x01, 0,
        b'i', b'm', b'm', b'e', b'd', b'i', b'a', b't', b'e', 0, 0, 0,
        0x1c, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0,
        0x10, 0, 0x02, 0x80, 0x0c, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0,
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn a_rule_has_the_bytes_that_nft_sends() {
        let rule = message(NFT_MSG_NEWRULE, 0)
            .with_text(1, "weir")
            .with_text(2, "p")
            .nested(4, |r| drop_it(fib_type(r, CMP_EQ, libc::RTN_UNICAST)))
            .numbered(3);
        assert_eq!(&rule[20..], RECORDED);
    }
}
