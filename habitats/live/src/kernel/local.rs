//! A limit for what the box itself sends out of a paced port.
//!
//! ```text
//! the kernel --> egress hook: within the limit? --> queue of the device --> wire
//!                     | no: dropped, counted                                 ^
//! weir ---------> egress hook: has our mark ---------------------------------+  (qdisc bypass)
//! ```
//!
//! A packet socket that passes the device's queue passes this hook all the same, so what weir sends
//! carries a mark ([`af_packet::MARK`]).
//!
//! Packets of the kernel pass no queue of ours, and without a limit anybody who makes it answer (a
//! flood of pings) takes the link from transit. Below the limit it is charged to the port's pacing,
//! so that both together keep to the port's rate. Of the limit, L bytes a second:
//!
//! | what | it gets |
//! |---|---|
//! | ARP, neighbour discovery | passes always |
//! | ICMP, TCP resets: what anybody can ask for | at most L/8 |
//! | TCP SYN, also with ACK: connections that begin | at most L/8 |
//! | TCP otherwise; OSPF, IGMP, PIM, VRRP: conversations and routing | L/4 of its own, and of the rest |
//! | everything else: UDP, VPNs | of the rest, 3/4 L |
//!
//! So a flood of pings or of SYNs leaves management and VPNs nearly all, and a flood of questions to
//! a UDP service of the box leaves a quarter to TCP and routing daemons. nf_tables lets a bucket hold
//! one second's bytes beside its burst.

use std::collections::BTreeMap;
use std::io;

use weir_base::{Rate, Tally};

use crate::device::af_packet;

use super::netlink::{NetlinkSocket, Request, attribute, attributes, text};
use super::nft::{Base, Chain, Compare, Hook, NF_NETDEV_EGRESS, Rule};

/// Behind every other chain of the hook.
const PRIORITY: i32 = 500;
/// The longest packet that the kernel hands to a device in one piece, for segmentation there, and a
/// little: less could never pass.
const SEGMENTED_BYTES: u32 = 72 * 1024;
/// A jumbo frame, and a little.
const FRAME_BYTES: u32 = 16 * 1024;
/// How the names of the chains that count begin.
const REFUSED_PREFIX: &str = "refused-";

const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;
/// Protocols of routing daemons: IGMP, OSPF, PIM, VRRP.
const ROUTING: [u8; 4] = [libc::IPPROTO_IGMP as u8, 89, libc::IPPROTO_PIM as u8, 112];
/// Types of ICMPv6 messages of neighbour discovery, the first and the last (RFC 4861).
const ND_TYPES: (u8, u8) = (133, 137);
/// Where TCP's flags are, and some of them.
const TCP_FLAGS_AT: u32 = 13;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;

/// The chains that hold a port's own packets within `most`.
pub(super) fn chains(port: &str, index: u32, most: Rate) -> Vec<Chain> {
    let limit = most.as_bps() / 8;
    let share = |eighths: u64| (limit * eighths / 8).max(1);
    let refused = format!("{REFUSED_PREFIX}{port}");
    let answers = format!("answers-{port}");
    let conversations = format!("conversations-{port}");
    let is = |protocol: u8| Rule::new().transport().is(Compare::Equal, &[protocol]);
    let flags = |mask: u8, set: u8| {
        let flags = is(TCP).load(Base::Transport, TCP_FLAGS_AT, 1);
        flags.mask(&[mask]).is(Compare::Equal, &[set])
    };
    let load_type = |rule: Rule| rule.load(Base::Transport, 0, 1);
    let discovery = load_type(is(ICMPV6))
        .is(Compare::AtLeast, &[ND_TYPES.0])
        .is(Compare::AtMost, &[ND_TYPES.1]);
    let begins = flags(TCP_SYN, TCP_SYN).rate(share(1), FRAME_BYTES, true);
    let mut rules = vec![
        Rule::new().marked(af_packet::MARK).accept(), // transit comes first: it is the most
        Rule::new().protocol(libc::ETH_P_ARP as u16).accept(),
        discovery.accept(),
        is(ICMP).jump(&answers),
        is(ICMPV6).jump(&answers),
        flags(TCP_RST, TCP_RST).jump(&answers),
        begins.goto(&refused),
        flags(TCP_SYN | TCP_RST, 0).jump(&conversations),
    ];
    rules.extend(ROUTING.map(|protocol| is(protocol).jump(&conversations)));
    let rest = Rule::new().rate(share(6), SEGMENTED_BYTES, true);
    rules.push(rest.goto(&refused));
    let hook = Hook {
        number: NF_NETDEV_EGRESS,
        device: port.to_owned(),
        index,
        priority: PRIORITY,
        drops: false,
    };
    let over = Rule::new().rate(share(1), FRAME_BYTES, true).goto(&refused);
    let own = Rule::new().rate(share(2), SEGMENTED_BYTES, false).accept();
    vec![
        Chain::unhooked(refused, vec![Rule::new().counted().drop()]),
        Chain::unhooked(answers, vec![over]),
        Chain::unhooked(conversations, vec![own]),
        Chain {
            name: format!("egress-{port}"),
            hook: Some(hook),
            rules,
        },
    ]
}

/// Reads what the chains of a table have counted, by interface.
pub(super) fn dropped(
    socket: &mut NetlinkSocket,
    table: &str,
) -> io::Result<BTreeMap<String, Tally>> {
    const NFTA_RULE_TABLE: u16 = 1;
    let kind = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | libc::NFT_MSG_GETRULE as u16;
    let header = [libc::NFPROTO_NETDEV as u8, 0, 0, 0];
    let request = Request::new(kind, libc::NLM_F_DUMP, &header).with_text(NFTA_RULE_TABLE, table);
    let mut found = BTreeMap::new();
    socket.dump(&request, |message| {
        if let Some((port, tally)) = read_counter(message.payload, table) {
            found.insert(port, tally);
        }
    })?;
    Ok(found)
}

/// Interface and count of a rule that counts.
fn read_counter(payload: &[u8], table: &str) -> Option<(String, Tally)> {
    const NFTA_RULE_TABLE: u16 = 1;
    const NFTA_RULE_CHAIN: u16 = 2;
    const NFTA_RULE_EXPRESSIONS: u16 = 4;
    const NFTA_EXPR_NAME: u16 = 1;
    const NFTA_EXPR_DATA: u16 = 2;
    const NFTA_COUNTER_BYTES: u16 = 1;
    const NFTA_COUNTER_PACKETS: u16 = 2;
    let body = payload.get(size_of::<u32>()..)?;
    if text(attribute(body, NFTA_RULE_TABLE)?) != table {
        return None;
    }
    let chain = text(attribute(body, NFTA_RULE_CHAIN)?);
    let port = chain.strip_prefix(REFUSED_PREFIX)?;
    let mut expressions = attributes(attribute(body, NFTA_RULE_EXPRESSIONS)?).map(|(_, e)| e);
    let counter = expressions
        .find(|e| attribute(e, NFTA_EXPR_NAME).is_some_and(|name| text(name) == "counter"))?;
    let data = attribute(counter, NFTA_EXPR_DATA)?;
    let number = |kind| Some(u64::from_be_bytes(*attribute(data, kind)?.first_chunk()?));
    let tally = Tally {
        packets: number(NFTA_COUNTER_PACKETS)?,
        bytes: number(NFTA_COUNTER_BYTES)?,
    };
    Some((port.to_owned(), tally))
}
