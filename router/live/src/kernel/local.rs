//! A limit on the traffic that the machine itself sends out of a paced port.
//!
//! ```text
//! the kernel --> egress hook: within the limit? --> queue of the device --> wire
//!                     | no: dropped, counted                                 ^
//! weir ---------> egress hook: has our mark ---------------------------------+  (qdisc bypass)
//! ```
//!
//! A packet socket that bypasses the device's queue still passes this hook, so frames of weir carry a mark
//! ([`Mark`]).
//!
//! Packets of the kernel bypass all our queues. Without a limit, anybody who makes the kernel answer (with a flood of
//! pings) takes the link from transit. Packets within the limit are charged to the port's pacing, so that both together
//! keep to the port's rate. Shares of the limit of L bytes per second:
//!
//! | what | it gets |
//! |---|---|
//! | ARP, neighbour discovery | passes always |
//! | ICMP, TCP resets: what anybody can ask for | at most L/8 |
//! | TCP SYN, also with ACK: connections that begin | at most L/8 |
//! | TCP otherwise; OSPF, IGMP, PIM, VRRP: conversations and routing | L/4 of its own, and of the rest |
//! | everything else: UDP, VPNs | of the rest, 3/4 L |
//!
//! So under a flood of pings or SYNs, management and VPNs keep nearly everything, and under a flood of requests to a
//! UDP service of the machine, TCP and routing daemons keep a quarter. A bucket of nf_tables holds one second's bytes
//! in addition to its burst.

use std::collections::BTreeMap;
use std::io;

use weir_base::{Rate, Tally};
use weir_lfb::router::Mark;

use super::netlink::{NetlinkSocket, Request, attribute, attributes, text};
use super::nft::{Base, Chain, Compare, Hook, NF_NETDEV_EGRESS, Rule};

/// Priority after every other chain of the hook.
const PRIORITY: i32 = 500;
/// Slightly more than the longest packet that the kernel passes to a device in one piece for segmentation; such a
/// packet could never pass a smaller burst.
const SEGMENTED_BYTES: u32 = 72 * 1024;
/// Slightly more than a jumbo frame.
const FRAME_BYTES: u32 = 16 * 1024;
/// Prefix of the names of the chains that count.
const REFUSED_PREFIX: &str = "refused-";

const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;
/// Protocols of routing daemons: IGMP, OSPF, PIM, VRRP.
const ROUTING: [u8; 4] = [libc::IPPROTO_IGMP as u8, 89, libc::IPPROTO_PIM as u8, 112];
/// The first and the last ICMPv6 message type of neighbour discovery (RFC 4861).
const ND_TYPES: (u8, u8) = (133, 137);
/// The offset of TCP's flags, and some of the flags.
const TCP_FLAGS_AT: u32 = 13;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;

/// The chains that limit the machine's own packets, which have not this mark, at a port to `most`.
pub(super) fn chains(port: &str, index: u32, most: Rate, mark: Mark) -> Vec<Chain> {
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
        Rule::new().marked(mark).accept(), // transit first: most frames are transit
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

/// Reads the counters of a table's chains, by interface.
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

/// Interface and count of a counting rule.
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
