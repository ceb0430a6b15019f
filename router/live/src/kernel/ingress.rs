//! The incoming frames of an interface that reach the kernel: the rules of [`super::transit`].

use std::net::IpAddr;

use super::links::{AboveKind, Links};
use super::nft::{Base, Chain, Compare, Hook, NF_NETDEV_INGRESS, Rule};

/// Priority before any other chain of an ingress hook.
const PRIORITY: i32 = -500;
/// The chain for packets that the kernel may receive but not forward.
pub(super) const LOCAL_CHAIN: &str = "local";

/// The hook for incoming frames of a device; a frame that no rule accepts there is dropped.
pub(super) fn ingress(device: &str, index: u32) -> Hook {
    Hook {
        number: NF_NETDEV_INGRESS,
        device: device.to_owned(),
        index,
        priority: PRIORITY,
        drops: true,
    }
}

/// Options of an IPv4 header with which the kernel would forward a packet that is addressed to the machine.
const SOURCE_ROUTES: [u8; 2] = [libc::IPOPT_LSRR, libc::IPOPT_SSRR];

/// The two ends of a GRE tunnel that the router itself terminates: its own address, and that of the other end.
pub type Tunnel = (IpAddr, IpAddr);

/// The chain for packets to an address of the machine. It drops the packets of these tunnels, which are the router's.
pub(super) fn local_chain(tunnels: &[Tunnel]) -> Chain {
    let source_route = |option| Rule::new().ip_option(option).drop();
    let mut rules = SOURCE_ROUTES.map(source_route).to_vec();
    rules.extend(tunnels.iter().map(|tunnel| of_tunnel(*tunnel).drop()));
    rules.push(Rule::new().accept());
    Chain::unhooked(LOCAL_CHAIN, rules)
}

/// Matches packets with the addresses of a tunnel, at any port, including fragments and packets with IPv6 extension
/// headers. The kernel, which does not know the tunnel, would answer them: with "protocol unreachable", or with
/// "parameter problem" if an extension header precedes GRE.
fn of_tunnel((own, other): Tunnel) -> Rule {
    /// Offsets of source and destination in an IP header.
    const AT_V4: [u32; 2] = [12, 16];
    const AT_V6: [u32; 2] = [8, 24];
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (protocol, at) = match own {
        IpAddr::V4(_) => (ETH_P_IP, AT_V4),
        IpAddr::V6(_) => (ETH_P_IPV6, AT_V6),
    };
    let gre = Rule::new().protocol(protocol).transport();
    let gre = gre.is(Compare::Equal, &[libc::IPPROTO_GRE as u8]);
    let ends = [other, own].map(octets);
    at.iter().zip(&ends).fold(gre, |rule, (at, end)| {
        let loaded = rule.load(Base::Network, *at, end.len() as u32);
        loaded.is(Compare::Equal, end)
    })
}

const ETH_P_IP: u16 = libc::ETH_P_IP as u16;
const ETH_P_IPV6: u16 = libc::ETH_P_IPV6 as u16;
const ETH_P_8021Q: u16 = libc::ETH_P_8021Q as u16;
const ETH_P_8021AD: u16 = libc::ETH_P_8021AD as u16;
/// Link-layer protocols of the machine itself: ARP, LLDP, EAPOL (port authentication).
const OWN_PROTOCOLS: [u16; 3] = [libc::ETH_P_ARP as u16, 0x88cc, libc::ETH_P_PAE as u16];
/// PPPoE, discovery and session.
const PPPOE: [u16; 2] = [libc::ETH_P_PPP_DISC as u16, libc::ETH_P_PPP_SES as u16];
/// Offset of the outermost tag's type in the link header; the VLAN follows it.
const TAG_TYPE_AT: u32 = 12;
const TAG_VLAN_AT: u32 = 14;
/// The bits of a tag that are the VLAN identifier.
const VLAN_MASK: [u8; 2] = [0x0f, 0xff];

/// The chains at the ingress of a routed interface: `chain`, and the one for tagged frames.
pub(super) fn routed(
    device: &str,
    index: u32,
    chain: &str,
    suffix: &str,
    links: &Links,
) -> [Chain; 2] {
    let above: Vec<_> = links
        .values()
        .filter_map(|link| Some((link, link.above.filter(|a| a.below == index)?.kind)))
        .collect();
    let tagged_name = format!("tagged-{suffix}");
    let mut tagged = Vec::new();
    let mut rules = Vec::new();
    for tag_type in [ETH_P_8021Q, ETH_P_8021AD] {
        rules.push(tag_of(tag_type).jump(&tagged_name));
    }
    for (link, kind) in above {
        match kind {
            // Without its own device, a tag with VLAN 0 counts as no tag.
            AboveKind::Vlan { id: 0, .. } => {}
            AboveKind::Vlan { protocol, id } => {
                let vlan = tag_of(protocol).load(Base::Link, TAG_VLAN_AT, 2);
                let vlan = vlan.mask(&VLAN_MASK);
                tagged.push(vlan.is(Compare::Equal, &id.to_be_bytes()).accept());
            }
            AboveKind::Macvlan | AboveKind::Macvtap => {
                let to = Rule::new().load(Base::Link, 0, link.mac.len() as u32);
                rules.push(to.is(Compare::Equal, &link.mac).accept());
            }
        }
    }
    let vlan = Rule::new().load(Base::Link, TAG_VLAN_AT, 2);
    let other = vlan.mask(&VLAN_MASK).is(Compare::NotEqual, &[0, 0]);
    tagged.push(other.drop());
    rules.extend(untagged());
    let main = Chain {
        name: chain.to_owned(),
        hook: Some(ingress(device, index)),
        rules,
    };
    [Chain::unhooked(tagged_name, tagged), main]
}

fn tag_of(tag_type: u16) -> Rule {
    Rule::new()
        .load(Base::Link, TAG_TYPE_AT, 2)
        .is(Compare::Equal, &tag_type.to_be_bytes())
}

/// The rules for frames without a VLAN tag that reach the kernel.
fn untagged() -> Vec<Rule> {
    let ip = || Rule::new().protocol(ETH_P_IP);
    let ip6 = || Rule::new().protocol(ETH_P_IPV6);
    let kind = |kind: u8| u32::from(kind).to_ne_bytes();
    let transit = |rule: Rule| {
        let unicast = kind(libc::RTN_UNICAST);
        rule.destination_kind().is(Compare::Equal, &unicast).drop()
    };
    let ours = |rule: Rule| {
        rule.destination_kind()
            .is(Compare::AtLeast, &kind(libc::RTN_LOCAL))
            .destination_kind()
            .is(Compare::AtMost, &kind(libc::RTN_MULTICAST))
    };
    const IPV6_DESTINATION_AT: u32 = 24;
    let group = ip6()
        .load(Base::Network, IPV6_DESTINATION_AT, 1)
        .is(Compare::Equal, &[0xff]);
    let mut rules = vec![
        transit(ip()),
        group.accept(), // the fib reports unicast for a group
        transit(ip6()),
        ours(ip()).goto(LOCAL_CHAIN),
        ours(ip6()).goto(LOCAL_CHAIN),
    ];
    for protocol in OWN_PROTOCOLS {
        rules.push(Rule::new().protocol(protocol).accept());
    }
    for protocol in PPPOE {
        for to in [libc::PACKET_HOST, libc::PACKET_BROADCAST] {
            let frame = Rule::new().protocol(protocol).packet_type();
            rules.push(frame.is(Compare::Equal, &[to]).accept());
        }
    }
    rules
}
