//! Transactions, chains and rules of nf_tables, family netdev, in the kernel's own form.
//!
//! This does not use the `nft` program: weir needs few of its functions, and must work where `nft` is not installed.

use std::io;
use std::time::Duration;

use weir_base::Span;
use weir_lfb::router::Mark;

use super::netlink::{DATAGRAM_BYTES_MAX, NetlinkSocket, Request, messages};
use crate::clock::UnixTime;

/// A part of a transaction: a name for error messages, and its message.
pub(super) type Part = (String, Request);

/// Reason why a transaction failed; the kernel applied no part of it.
#[derive(Debug)]
pub(super) enum CommitError {
    /// The netlink socket failed, or the whole transaction was refused.
    Socket(io::Error),
    /// The kernel refused a part.
    Refused {
        /// Name of the part.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl From<io::Error> for CommitError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

pub(super) const NFT_MSG_NEWTABLE: u8 = libc::NFT_MSG_NEWTABLE as u8;
const NFT_MSG_NEWCHAIN: u8 = libc::NFT_MSG_NEWCHAIN as u8;
const NFT_MSG_DELCHAIN: u8 = libc::NFT_MSG_DELCHAIN as u8;
const NFT_MSG_NEWRULE: u8 = libc::NFT_MSG_NEWRULE as u8;
const NFT_MSG_DELRULE: u8 = libc::NFT_MSG_DELRULE as u8;
/// The table belongs to the socket that created it, and vanishes with that socket (Linux 5.12).
pub(super) const NFT_TABLE_F_OWNER: u32 = 2;
/// Of linux/netfilter.h: an incoming frame.
pub(super) const NF_NETDEV_INGRESS: u32 = 0;
/// Of linux/netfilter.h: a frame that the kernel sends (Linux 5.16).
pub(super) const NF_NETDEV_EGRESS: u32 = 1;

/// A transaction is one datagram; a port with every possible VLAN needs about a megabyte.
const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// A socket for transactions.
pub(super) fn open() -> io::Result<NetlinkSocket> {
    let socket = NetlinkSocket::open(libc::NETLINK_NETFILTER)?;
    socket.set_receive_timeout(Duration::from_secs(2))?;
    socket.set_send_buffer(TRANSACTION_BYTES_MAX)?;
    Ok(socket)
}

/// Sends messages as one transaction: the kernel applies all of it at one instant, or none of it.
///
/// Only the last message requests an answer, because answers to all might exceed the socket's buffer. For the other
/// messages, the kernel reports refusals only, in their order.
pub(super) fn commit(socket: &mut NetlinkSocket, batch: &[Part]) -> Result<(), CommitError> {
    let Some(((_, last), parts)) = batch.split_last() else {
        return Ok(());
    };
    let begin = socket.reserve(batch.len() as u32 + 2);
    let number_of = |part: usize| begin.wrapping_add(1 + part as u32);
    let mut bytes = boundary(libc::NFNL_MSG_BATCH_BEGIN).numbered(begin);
    for (part, (_, request)) in parts.iter().enumerate() {
        bytes.extend(request.numbered(number_of(part)));
    }
    bytes.extend(last.clone().acknowledged().numbered(number_of(parts.len())));
    bytes.extend(boundary(libc::NFNL_MSG_BATCH_END).numbered(number_of(batch.len())));
    socket.send_raw(&bytes)?;
    let mut refused = None;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        for answer in messages(socket.receive(&mut buffer)?) {
            let Some(result) = answer.result() else {
                continue;
            };
            let part = answer.sequence.wrapping_sub(begin) as usize;
            match (result, part.checked_sub(1).and_then(|part| batch.get(part))) {
                (Err(source), Some((what, _))) => {
                    let what = what.clone();
                    refused.get_or_insert(CommitError::Refused { what, source });
                }
                // The transaction itself failed; answers to an earlier one have other numbers.
                (Err(error), None) if part == 0 => return Err(error.into()),
                _ => {}
            }
            if part == batch.len() {
                return refused.map_or(Ok(()), Err);
            }
        }
    }
}

/// A message of nf_tables, family netdev.
pub(super) fn message(kind: u8, flags: libc::c_int) -> Request {
    let kind = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | u16::from(kind);
    let family = libc::NFPROTO_NETDEV as u8;
    Request::new(kind, flags, &[family, 0, 0, 0])
}

/// The begin or end message of an nf_tables transaction.
fn boundary(kind: libc::c_int) -> Request {
    let [high, low] = (libc::NFNL_SUBSYS_NFTABLES as u16).to_be_bytes();
    Request::new(kind as u16, 0, &[0, 0, high, low])
}

/// Creates a set of one-word keys whose elements expire, and that rules may renew.
pub(super) fn new_set(table: &str, set: &str, lifetime: Span) -> Part {
    const KEY_TYPE_MARK: u32 = 19; // how `nft` shows the key
    const SIZE: u32 = 64; // an expired element counts until the kernel collects it, about a second later
    let flags = (libc::NFT_SET_TIMEOUT | libc::NFT_SET_EVAL) as u32;
    let message = message(libc::NFT_MSG_NEWSET as u8, libc::NLM_F_CREATE)
        .with_text(1, table)
        .with_text(2, set)
        .with_u32_be(3, flags)
        .with_u32_be(4, KEY_TYPE_MARK)
        .with_u32_be(5, KEY.len() as u32)
        .nested(9, |desc| desc.with_u32_be(1, SIZE))
        .with_u32_be(10, 1)
        .with(11, &millis(lifetime));
    (format!("set {set} with expiring elements"), message)
}

fn millis(span: Span) -> [u8; 8] {
    (span.as_nanos() / 1_000_000).to_be_bytes()
}

/// Creates a table that belongs to the socket that commits this.
pub(super) fn new_table(table: &str) -> Part {
    let message = message(NFT_MSG_NEWTABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
        .with_text(1, table)
        .with_u32_be(2, NFT_TABLE_F_OWNER);
    ("table".to_owned(), message)
}

/// The point at which frames enter a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    /// [`NF_NETDEV_INGRESS`] or [`NF_NETDEV_EGRESS`].
    pub(super) number: u32,
    /// The interface's name.
    pub(super) device: String,
    /// The interface's index: an interface that comes back under the same name has a different index.
    pub(super) index: u32,
    /// Order at the hook, lowest first.
    pub(super) priority: i32,
    /// The policy: whether frames that match no rule are dropped.
    pub(super) drops: bool,
}

/// A chain in its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) name: String,
    /// `None`: rules of other chains jump to this chain.
    pub(super) hook: Option<Hook>,
    /// Rules, in the order of evaluation.
    pub(super) rules: Vec<Rule>,
}

impl Chain {
    /// A chain that rules of other chains jump to.
    pub(super) fn unhooked(name: impl Into<String>, rules: Vec<Rule>) -> Self {
        Self {
            name: name.into(),
            hook: None,
            rules,
        }
    }

    /// Creates the chain itself, unless it exists.
    pub(super) fn declare(&self, table: &str) -> Part {
        let Self { name, hook, .. } = self;
        let chain = message(NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE)
            .with_text(1, table)
            .with_text(3, name);
        let Some(hook) = hook else {
            return (format!("chain {name}"), chain);
        };
        let policy = if hook.drops { NF_DROP } else { NF_ACCEPT };
        let chain = chain
            .nested(4, |h| {
                h.with_u32_be(1, hook.number)
                    .with_u32_be(2, hook.priority as u32)
                    .with_text(3, &hook.device)
            })
            .with_u32_be(5, policy)
            .with_text(7, "filter");
        let side = match hook.number {
            NF_NETDEV_EGRESS => "egress",
            _ => "ingress",
        };
        (format!("chain at the {side} of {}", hook.device), chain)
    }

    /// Replaces the rules of the chain in the kernel by its `rules`.
    pub(super) fn fill<'a>(&'a self, table: &'a str) -> impl Iterator<Item = Part> + 'a {
        let name = &self.name;
        let flush = message(NFT_MSG_DELRULE, 0)
            .with_text(1, table)
            .with_text(2, name);
        let rule = move |rule: &Rule| {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
            let message = message(NFT_MSG_NEWRULE, flags)
                .with_text(1, table)
                .with_text(2, name)
                .with(4 | libc::NLA_F_NESTED as u16, rule.0.body());
            (format!("rule in chain {name}"), message)
        };
        let flush = (format!("replacement of the rules in chain {name}"), flush);
        std::iter::once(flush).chain(self.rules.iter().map(rule))
    }
}

/// Removes a chain with its rules.
pub(super) fn delete_chain(table: &str, name: &str) -> Part {
    let chain = message(NFT_MSG_DELCHAIN, 0)
        .with_text(1, table)
        .with_text(3, name);
    (format!("removal of chain {name}"), chain)
}

/// `enum nft_payload_bases`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    /// The Ethernet header, with the outermost tag even if that is stored outside the frame.
    Link = 0,
    /// The IP header.
    Network = 1,
    /// TCP, UDP, ICMP.
    Transport = 2,
}

/// How a loaded value is compared. The comparison is byte by byte. So for numbers in the machine's byte order, only
/// values below 256 give the same result on machines of both byte orders.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compare {
    Equal = 0,
    NotEqual = 1,
    Below = 2,
    AtMost = 3,
    AtLeast = 5,
}

const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NFT_JUMP: u32 = -3_i32 as u32;
const NFT_GOTO: u32 = -4_i32 as u32;
/// The register in which expressions pass their value.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const NFT_META_MARK: u32 = 3;
/// The one element of a set from [`new_set`].
const KEY: [u8; 4] = [0, 0, 0, 1];

/// A rule: matches, each of which ends the rule if it fails, then the verdict on the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule(Request);

impl Rule {
    /// A rule that matches everything and does nothing.
    pub(super) fn new() -> Self {
        Self(Request::new(0, 0, &[]))
    }

    fn expression(self, name: &str, data: impl FnOnce(Request) -> Request) -> Self {
        Self(self.0.nested(1, |e| e.with_text(1, name).nested(2, data)))
    }

    /// Compares the value loaded last.
    pub(super) fn is(self, how: Compare, value: &[u8]) -> Self {
        self.expression("cmp", |data| {
            data.with_u32_be(1, REGISTER)
                .with_u32_be(2, how as u32)
                .nested(3, |d| d.with(1, value))
        })
    }

    fn meta(self, key: u32) -> Self {
        self.expression("meta", |data| {
            data.with_u32_be(2, key).with_u32_be(1, REGISTER)
        })
    }

    /// Matches the Ethernet type after the outermost tag.
    pub(super) fn protocol(self, ethertype: u16) -> Self {
        const NFT_META_PROTOCOL: u32 = 1;
        self.meta(NFT_META_PROTOCOL)
            .is(Compare::Equal, &ethertype.to_be_bytes())
    }

    /// Matches frames that were sent with this mark (`SO_MARK`).
    pub(super) fn marked(self, Mark { value, mask }: Mark) -> Self {
        self.meta(NFT_META_MARK)
            .mask(&mask.to_ne_bytes())
            .is(Compare::Equal, &value.to_ne_bytes())
    }

    /// Removes the bits of a mark from the mark of the frame.
    pub(super) fn unmark(self, mark: Mark) -> Self {
        self.meta(NFT_META_MARK)
            .mask(&(!mark.mask).to_ne_bytes())
            .expression("meta", |data| {
                data.with_u32_be(2, NFT_META_MARK).with_u32_be(3, REGISTER)
            })
    }

    /// Loads the frame's packet type: `PACKET_HOST` and so on.
    pub(super) fn packet_type(self) -> Self {
        const NFT_META_PKTTYPE: u32 = 19;
        self.meta(NFT_META_PKTTYPE)
    }

    /// Loads the transport protocol's number.
    pub(super) fn transport(self) -> Self {
        const NFT_META_L4PROTO: u32 = 16;
        self.meta(NFT_META_L4PROTO)
    }

    /// Matches frames by the wall clock at which the rule evaluates them: `Below` for earlier than `when`, `AtLeast`
    /// for `when` and later. nf_tables compares bytes, so the value is in network byte order.
    pub(super) fn time(self, how: Compare, when: UnixTime) -> Self {
        const NFT_META_TIME_NS: u32 = 30;
        const NFT_BYTEORDER_HTON: u32 = 1;
        const BYTES: u32 = size_of::<u64>() as u32;
        self.meta(NFT_META_TIME_NS)
            .expression("byteorder", |data| {
                data.with_u32_be(1, REGISTER)
                    .with_u32_be(2, REGISTER)
                    .with_u32_be(3, NFT_BYTEORDER_HTON)
                    .with_u32_be(4, BYTES)
                    .with_u32_be(5, BYTES)
            })
            .is(how, &when.as_nanos().to_be_bytes())
    }

    /// Loads bytes of a header.
    pub(super) fn load(self, base: Base, offset: u32, len: u32) -> Self {
        self.expression("payload", |data| {
            data.with_u32_be(1, REGISTER)
                .with_u32_be(2, base as u32)
                .with_u32_be(3, offset)
                .with_u32_be(4, len)
        })
    }

    /// Keeps only these bits of the value loaded last.
    pub(super) fn mask(self, mask: &[u8]) -> Self {
        let zeros = vec![0; mask.len()];
        self.expression("bitwise", |data| {
            data.with_u32_be(1, REGISTER)
                .with_u32_be(2, REGISTER)
                .with_u32_be(3, mask.len() as u32)
                .nested(4, |d| d.with(1, mask))
                .nested(5, |d| d.with(1, &zeros))
        })
    }

    /// Loads the route type of the destination: `RTN_LOCAL` and so on.
    pub(super) fn destination_kind(self) -> Self {
        const FIB_ADDRTYPE: u32 = 3;
        const FIB_F_DADDR: u32 = 2;
        self.expression("fib", |data| {
            data.with_u32_be(3, FIB_F_DADDR)
                .with_u32_be(2, FIB_ADDRTYPE)
                .with_u32_be(1, REGISTER)
        })
    }

    /// Matches IPv4 headers with this option.
    pub(super) fn ip_option(self, option: u8) -> Self {
        const NFT_EXTHDR_F_PRESENT: u32 = 1;
        const NFT_EXTHDR_OP_IPV4: u32 = 2;
        self.expression("exthdr", |data| {
            data.with_u32_be(1, REGISTER)
                .with(2, &[option])
                .with_u32_be(3, 0)
                .with_u32_be(4, 1)
                .with_u32_be(5, NFT_EXTHDR_F_PRESENT)
                .with_u32_be(6, NFT_EXTHDR_OP_IPV4)
        })
        .is(Compare::Equal, &[1])
    }

    /// Matches frames within a rate, or above it if `over` is set. The kernel's bucket holds `burst_bytes` and one
    /// second's bytes in addition.
    pub(super) fn rate(self, bytes_per_second: u64, burst_bytes: u32, over: bool) -> Self {
        const NFT_LIMIT_PKT_BYTES: u32 = 1;
        const NFT_LIMIT_F_INV: u32 = 1;
        self.expression("limit", |data| {
            data.with(1, &bytes_per_second.to_be_bytes())
                .with(2, &1_u64.to_be_bytes())
                .with_u32_be(3, burst_bytes)
                .with_u32_be(4, NFT_LIMIT_PKT_BYTES)
                .with_u32_be(5, if over { NFT_LIMIT_F_INV } else { 0 })
        })
    }

    /// Loads a constant.
    fn constant(self, value: &[u8]) -> Self {
        self.expression("immediate", |data| {
            data.with_u32_be(1, REGISTER)
                .nested(2, |data| data.with(1, value))
        })
    }

    fn key(self) -> Self {
        self.constant(&KEY)
    }

    /// Matches while a set from [`new_set`] has no element.
    pub(super) fn while_empty(self, set: &str) -> Self {
        self.key().expression("lookup", |data| {
            data.with_text(1, set)
                .with_u32_be(2, REGISTER)
                .with_u32_be(5, libc::NFT_LOOKUP_F_INV as u32)
        })
    }

    /// Adds the element of such a set, or lets the existing one live for `lifetime` from now.
    pub(super) fn renew(self, set: &str, lifetime: Span) -> Self {
        self.key().expression("dynset", |data| {
            data.with_text(1, set)
                .with_u32_be(3, libc::NFT_DYNSET_OP_UPDATE as u32)
                .with_u32_be(4, REGISTER)
                .with(6, &millis(lifetime))
        })
    }

    /// Sends the frame out of the interface with this index instead.
    pub(super) fn lend(self, index: u32) -> Self {
        self.constant(&index.to_ne_bytes())
            .expression("fwd", |data| data.with_u32_be(1, REGISTER))
    }

    /// Counts the frames that reach this point.
    pub(super) fn counted(self) -> Self {
        self.expression("counter", |data| data)
    }

    fn verdict(self, code: u32, chain: Option<&str>) -> Self {
        self.expression("immediate", |data| {
            data.with_u32_be(1, VERDICT_REGISTER).nested(2, |d| {
                d.nested(2, |v| {
                    let v = v.with_u32_be(1, code);
                    match chain {
                        Some(chain) => v.with_text(2, chain),
                        None => v,
                    }
                })
            })
        })
    }

    /// Accepts the frame.
    pub(super) fn accept(self) -> Self {
        self.verdict(NF_ACCEPT, None)
    }

    /// Drops the frame.
    pub(super) fn drop(self) -> Self {
        self.verdict(NF_DROP, None)
    }

    /// Continues with the rules of that chain, and after them with the rules after this one.
    pub(super) fn jump(self, chain: &str) -> Self {
        self.verdict(NFT_JUMP, Some(chain))
    }

    /// Continues with the rules of that chain, and does not return.
    pub(super) fn goto(self, chain: &str) -> Self {
        self.verdict(NFT_GOTO, Some(chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nft add rule netdev weir p meta pkttype host fib daddr type unicast drop`, nft 1.0.6, recorded with strace:
    /// table, chain, expressions.
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
        let unicast = u32::from(libc::RTN_UNICAST).to_ne_bytes();
        let rule = Rule::new()
            .packet_type()
            .is(Compare::Equal, &[libc::PACKET_HOST])
            .destination_kind()
            .is(Compare::Equal, &unicast)
            .drop();
        let chain = Chain::unhooked("p", vec![rule]);
        let (_, message) = chain.fill("weir").nth(1).unwrap();
        assert_eq!(&message.numbered(3)[20..], RECORDED);
    }

    /// `nft insert rule netdev t c meta time >= 1700000000 accept`, nft 1.0.6: the expressions.
    #[rustfmt::skip]
    const RECORDED_TIME: &[u8] = &[
        0x24, 0, 0x01, 0x80, 0x09, 0, 0x01, 0, b'm', b'e', b't', b'a', 0, 0, 0, 0,
        0x14, 0, 0x02, 0x80, 0x08, 0, 0x02, 0, 0, 0, 0, 0x1e, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01,
        0x40, 0, 0x01, 0x80, 0x0e, 0, 0x01, 0,
        b'b', b'y', b't', b'e', b'o', b'r', b'd', b'e', b'r', 0, 0, 0,
        0x2c, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0x01,
        0x08, 0, 0x03, 0, 0, 0, 0, 0x01, 0x08, 0, 0x04, 0, 0, 0, 0, 0x08,
        0x08, 0, 0x05, 0, 0, 0, 0, 0x08,
        0x30, 0, 0x01, 0x80, 0x08, 0, 0x01, 0, b'c', b'm', b'p', 0,
        0x24, 0, 0x02, 0x80, 0x08, 0, 0x01, 0, 0, 0, 0, 0x01, 0x08, 0, 0x02, 0, 0, 0, 0, 0x05,
        0x10, 0, 0x03, 0x80, 0x0c, 0, 0x01, 0, 0x17, 0x97, 0x9c, 0xfe, 0x36, 0x2a, 0, 0,
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn a_time_has_the_bytes_that_nft_sends() {
        let when = UnixTime::from_stamp(1_700_000_000, 0);
        let rule = Rule::new().time(Compare::AtLeast, when);
        assert_eq!(rule.0.body(), RECORDED_TIME);
    }
}
