//! Kinds of kernel state without a reader of findings: weir follows them, they act by themselves, or weir differs.

use super::kinds::{
    BESIDE, BRIDGE_PART, CONF, CONTROL_PART, IPSEC_PART, LINKS_PART, NETFILTER_PART, NO_IP,
    ROUTES_PART, SYSCTL_PART, TABLES,
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
        queue: BESIDE,
        read,
        advice: None,
    }
}

const NOT_READ: &str = "not read";

/// Kinds without a reader of findings.
pub(super) static OTHERS: [Kind; 30] = [
    plain(
        NETFILTER_PART,
        "netfilter for the machine's own packets",
        "input, output, egress of a port",
        (
            Applies(
                "they see packets that the kernel handles; egress also sees packets that weir sends",
            ),
            Applies("egress sees packets that weir sends"),
        ),
        NOT_READ,
    ),
    plain(
        NETFILTER_PART,
        "BPF, IPVS and ebtables",
        "programs and modules, other than chains, at the hooks of forwarded packets",
        (
            Differs(
                "forwarded packets bypass them; check for them yourself (`bpftool net`, `ipvsadm`, `ebtables-legacy`)",
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
        "tables in order: local, main, default; the longest prefix in each",
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
        (Follows("with the same ICMP errors as the kernel"), NO_IP),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "attributes of a route",
        "metric, `pref`, lifetime, `from` (source-specific, IPv6), `mtu`, preferred source",
        (
            Follows("the preferred source is the source of ICMP errors; realms have no effect"),
            NO_IP,
        ),
        TABLES,
    ),
    plain(
        ROUTES_PART,
        "next-hop objects",
        "single next hops, groups and resilient groups, blackholes; weights; dead or without carrier; onlink",
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
            Applies("the kernel handles multicast, which bypasses weir's queues"),
            Applies("multicast is forwarded like every frame"),
        ),
        NOT_READ,
    ),
    plain(
        IPSEC_PART,
        "IPsec for the machine itself",
        "`in` policies, policies of sockets and XFRM interfaces; states",
        (
            Applies("the kernel handles packets to and from the machine"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        CONTROL_PART,
        "qdiscs and tc egress filters",
        "queue, pace, drop and redirect packets that leave a port",
        (
            Differs("weir's frames bypass them: its queues take their place"),
            Differs("weir's frames bypass them: its queues take their place"),
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
            Follows("the minimum of route, family and interface applies"),
            Applies("the device refuses longer frames"),
        ),
        TABLES,
    ),
    plain(
        LINKS_PART,
        "offloads of a port",
        "checksums, TSO, GSO, GRO, LRO",
        (
            Follows(
                "checksums are completed and packets segmented as on a wire; LRO is disabled at the ports",
            ),
            Follows("as routed"),
        ),
        "ethtool, when a port opens",
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
        "ARP disabled",
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
                "only Ethernet interfaces can be ports; a route to another interface counts as a route past the ports",
            ),
            Without("frames pass unchanged"),
        ),
        TABLES,
    ),
    plain(
        LINKS_PART,
        "PPPoE and MPLS in a frame",
        "the flow of a packet inside",
        (
            Applies(
                "the kernel handles PPPoE to the machine; MPLS is dropped with reason `not-ip`",
            ),
            Follows("weir finds the packet inside"),
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "source checks",
        "`rp_filter`, `accept_local`, `src_valid_mark`",
        (
            Follows(
                "`rp_filter`, or the port's `source_check`; packets from the machine's own addresses are always \
                 dropped",
            ),
            NO_IP,
        ),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "links without carrier",
        "`ignore_routes_with_linkdown`",
        (Follows("next hops on these links are not used"), NO_IP),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "choice of a next hop",
        "`fib_multipath_hash_policy`, `fib_multipath_use_neigh`",
        (
            Differs("weir has its own hash over addresses and ports"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "directed broadcasts",
        "`bc_forwarding`",
        (
            Applies("the kernel handles broadcasts, which bypass weir's queues"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "proxy ARP and NDP",
        "`proxy_arp`, `proxy_ndp`",
        (
            Applies("the kernel handles ARP and neighbour discovery"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "unusual addresses",
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
                "the kernel handles packets to the machine with such a header; IPv4 source routes are dropped",
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
                "the source address of the route back to the sender; `ip addrlabel` and `use_tempaddr` have no effect",
            ),
            NO_IP,
        ),
        CONF,
    ),
    plain(
        SYSCTL_PART,
        "limits of ICMP",
        "`icmp_ratelimit`, `icmp_ratemask`, `icmp.ratelimit`",
        (Differs("weir has its own limits"), NO_IP),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "packets of the machine itself",
        "`ip_default_ttl`, `ip_local_port_range`, connection tracking, IPVS at input",
        (
            Applies("the kernel handles these packets; weir only forwards"),
            NO_IP,
        ),
        NOT_READ,
    ),
    plain(
        BRIDGE_PART,
        "spanning tree, learning, multicast snooping",
        "which ports of a bridge pass a frame",
        (
            Without("a port is not in a bridge"),
            Differs("two ports act as a wire: all frames pass, including BPDUs"),
        ),
        NOT_READ,
    ),
];
