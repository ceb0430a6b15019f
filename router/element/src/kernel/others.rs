//! Kinds of kernel state without a reader of findings: weir follows them, they act by themselves, or weir differs.

use super::kinds::{
    BRIDGE_PART, CONF, CONTROL_PART, IPSEC_PART, LINKS_PART, NETFILTER_PART, NO_IP, ROUTES_PART,
    SYSCTL_PART, TABLES,
};
use super::{Kind, Stance};
use Stance::{Applies, Differs, Follows, Without};

/// A kind that weir neither refuses nor warns about.
const fn plain(
    part: &'static str,
    name: &'static str,
    decides: &'static str,
    (routed, bridged): (Stance, Stance),
    read: &'static str,
) -> Kind {
    Kind {
        part,
        name,
        decides,
        routed,
        bridged,
        read,
        advice: None,
    }
}

const NOT_READ: &str = "not read";

/// Kinds without a reader of findings.
pub(super) static OTHERS: [Kind; 30] = [
    plain(
        NETFILTER_PART,
        "netfilter at the box",
        "input, output, egress of a port",
        (
            Applies("they see what the kernel keeps, and egress also what weir sends"),
            Applies("egress sees what weir sends"),
        ),
        NOT_READ,
    ),
    plain(
        NETFILTER_PART,
        "BPF, IPVS and ebtables",
        "programs and modules at the hooks of forwarded packets that are no chain",
        (
            Differs(
                "forwarded packets bypass them; look yourself (`bpftool net`, `ipvsadm`, `ebtables-legacy`)",
            ),
            Differs("as routed"),
        ),
        NOT_READ,
    ),
    plain(
        NETFILTER_PART,
        "security labels",
        "secmark, labelled IPsec and NetLabel of SELinux, AppArmor and Smack",
        (
            Differs("weir's packets carry no label"),
            Differs("weir's packets carry no label"),
        ),
        NOT_READ,
    ),
    plain(
        ROUTES_PART,
        "routing tables",
        "one table after the other: local, main, default; in each the longest prefix",
        (
            Follows("in the kernel's order; other tables need a rule, which is refused"),
            NO_IP,
        ),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "route types",
        "unicast, local, broadcast, anycast; blackhole, unreachable, prohibit, throw",
        (Follows("the ICMP errors are those of the kernel"), NO_IP),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "attributes of a route",
        "metric, `pref`, lifetime, `from` (source-specific, IPv6), `mtu`, preferred source",
        (
            Follows("the preferred source is that of ICMP errors; realms decide nothing here"),
            NO_IP,
        ),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "next-hop objects",
        "single ones, groups and resilient groups, blackholes; weights; dead or without carrier; onlink",
        (
            Follows(
                "objects for a bridge's table (`fdb`) count as unreachable; buckets of a resilient group are chosen by weight",
            ),
            NO_IP,
        ),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "neighbours",
        "the MAC address of a next hop",
        (Follows("weir asks the kernel for the missing ones"), NO_IP),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "multicast routes",
        "`mc_forwarding`, the daemon of a multicast router",
        (
            Applies("multicast stays with the kernel, and passes no queue of weir"),
            Applies("multicast passes like every frame"),
        ),
        NOT_READ,
    ),
    plain(
        IPSEC_PART,
        "IPsec for the box itself",
        "policies in, of sockets and of XFRM interfaces; states",
        (
            Applies("the kernel keeps packets to and from the box"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        CONTROL_PART,
        "qdiscs and tc egress filters",
        "queue, pace, drop and redirect what leaves a port",
        (
            Applies("weir's frames pass them behind its queue"),
            Applies("weir's frames pass them behind its queue"),
        ),
        NOT_READ,
    ),
    plain(
        LINKS_PART,
        "state of an interface",
        "up, carrier, renamed, removed",
        (
            Follows("a port waits for its interface"),
            Follows("a port waits for its interface"),
        ),
        TABLES,
    ),
    plain(
        LINKS_PART,
        "MTU of an interface",
        "the largest packet",
        (
            Follows("the least of route, family and interface counts"),
            Applies("the device refuses longer frames"),
        ),
        TABLES,
    ),
    plain(
        LINKS_PART,
        "offloads of a port",
        "checksums, TSO, GSO, GRO, LRO",
        (
            Follows("completed or cut as behind a wire; LRO is switched off at the ports"),
            Follows("as routed"),
        ),
        "ethtool, at the opening of a port",
    ),
    plain(
        LINKS_PART,
        "promiscuous mode, multicast lists",
        "which frames a device receives",
        (
            Applies("the packet tap sees what the device receives; frames for others are dropped"),
            Follows("the ports are promiscuous"),
        ),
        NOT_READ,
    ),
    plain(
        LINKS_PART,
        "ARP switched off",
        "a port with `arp off` or `protodown`",
        (
            Differs("a next hop needs a permanent neighbour entry"),
            Without("a bridge resolves no addresses"),
        ),
        NOT_READ,
    ),
    plain(
        LINKS_PART,
        "tunnels and other encapsulations",
        "WireGuard, PPP, GRE, VXLAN, L2TP, MPLS to another interface",
        (
            Differs(
                "only Ethernet interfaces are ports; a route to another one counts as a route past the ports",
            ),
            Without("frames pass as they are"),
        ),
        TABLES,
    ),
    plain(
        LINKS_PART,
        "PPPoE and MPLS in a frame",
        "the flow of a packet inside",
        (
            Applies("PPPoE to the box stays with the kernel; MPLS is dropped as `not-ip`"),
            Differs("all frames between two MAC addresses are one flow"),
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "source checks",
        "`rp_filter`, `accept_local`, `src_valid_mark`",
        (
            Follows(
                "`rp_filter`, or the port's `source_check`; packets from the box's own addresses are always dropped",
            ),
            NO_IP,
        ),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "links without carrier",
        "`ignore_routes_with_linkdown`",
        (Follows("such next hops are not used"), NO_IP),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "choice of a next hop",
        "`fib_multipath_hash_policy`, `fib_multipath_use_neigh`",
        (
            Differs("weir's hash is its own, over addresses and ports"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "directed broadcasts",
        "`bc_forwarding`",
        (
            Applies("broadcasts stay with the kernel, and pass no queue of weir"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "answers for others",
        "`proxy_arp`, `proxy_ndp`",
        (
            Applies("ARP and neighbour discovery stay with the kernel"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "odd addresses",
        "`route_localnet`, `drop_unicast_in_l2_multicast`",
        (
            Differs("127.0.0.0/8 is never forwarded, nor is a unicast packet in a multicast frame"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "source routes, segment routing",
        "`accept_source_route`, `seg6_enabled`, `rpl_seg_enabled`, `ioam6_enabled`",
        (
            Differs(
                "packets to the box with such a header are the kernel's; IPv4 source routes are dropped",
            ),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "redirects",
        "`send_redirects`, `secure_redirects`",
        (Differs("weir sends no ICMP redirects"), NO_IP),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "source of ICMP errors",
        "addresses with scope and flags, `icmp_errors_use_inbound_ifaddr`, `use_oif_addrs_only`",
        (
            Follows(
                "the address that the route back to the sender chooses; `ip addrlabel` and `use_tempaddr` do not count",
            ),
            NO_IP,
        ),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "limits of ICMP",
        "`icmp_ratelimit`, `icmp_ratemask`, `icmp.ratelimit`",
        (Differs("weir's limits are its own"), NO_IP),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "packets of the box itself",
        "`ip_default_ttl`, `ip_local_port_range`, connection tracking, IPVS at input",
        (Applies("weir forwards only what is not the box's"), NO_IP),
        NOT_READ,
    ),
    plain(
        BRIDGE_PART,
        "spanning tree, learning, multicast snooping",
        "which ports of a bridge pass a frame",
        (
            Without("a port is not in a bridge"),
            Differs("two ports are a wire: everything passes, BPDUs too"),
        ),
        NOT_READ,
    ),
];
