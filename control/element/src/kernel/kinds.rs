//! Every kind of kernel state, and what weir does about it.
//!
//! A new kind is an entry here. If weir refuses it or warns of it, a reader of the habitat gives the findings.

use super::{Advice, Kind, Permit, Stance};
use Stance::{Applies, Differs, Follows, Refuses, Warns, Without};

const NETFILTER_PART: &str = "Netfilter";
const RULES_PART: &str = "Policy routing";
const ROUTES_PART: &str = "Routes and next hops";
const IPSEC_PART: &str = "IPsec";
const CONTROL_PART: &str = "Traffic control, XDP";
const LINKS_PART: &str = "Interfaces";
const SYSCTL_PART: &str = "Sysctls";
const BRIDGE_PART: &str = "Bridges";

const NO_IP: Stance = Without("a bridge reads no IP");
const TABLES: &str = "rtnetlink, announced";
const SURVEYED: &str = "rtnetlink at the start, at a reload, and every half second";

/// Chains of nf_tables and of legacy iptables.
pub static NETFILTER: Kind = Kind {
    part: NETFILTER_PART,
    name: "netfilter rules",
    decides: "prerouting, forward, postrouting, ingress of a port: drop, translate, mark",
    routed: Refuses("`bypass_netfilter = true` permits it"),
    bridged: Refuses(
        "ingress of a port; family bridge if the ports are in a bridge; those of IP with br_netfilter",
    ),
    read: "nf_tables, announced; legacy iptables every half second",
    advice: Some(Advice {
        claim: "forwarded packets would bypass these netfilter rules of this machine",
        remedy: "remove them",
        permit: Some(Permit {
            key: "bypass_netfilter",
            then: "forwarded packets bypass",
        }),
    }),
};

/// Rules beyond the default ones, default ones that are missing.
pub static POLICY_RULES: Kind = Kind {
    part: RULES_PART,
    name: "policy rules",
    decides: "which routing table a packet is looked up in, and packets without a table: `ip rule`",
    routed: Refuses(
        "every rule but those of the tables local, main and default in this order; rules with `iif lo`, with `oif`, or \
         for users other than root concern the box's own packets only, and are permitted. `bypass_rules = true` permits all",
    ),
    bridged: NO_IP,
    read: TABLES,
    advice: Some(Advice {
        claim: "weir does not follow these policy rules of this machine, and would send forwarded packets elsewhere",
        remedy: "remove them, or restore the missing ones (`ip rule`); VPN clients that route all traffic add such rules",
        permit: Some(Permit {
            key: "bypass_rules",
            then: "forwarded packets ignore",
        }),
    }),
};

/// Ports that belong to a VRF.
pub static VRF: Kind = Kind {
    part: RULES_PART,
    name: "VRFs",
    decides: "the routing table of the interfaces in a VRF, and the rule `l3mdev`",
    routed: Refuses(
        "if a port is in one; a VRF without ports, for management, is permitted. `bypass_rules = true` permits it",
    ),
    bridged: Refuses("a port in a VRF is not in a bridge"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "weir does not follow the routing table of a VRF, and these ports are in one",
        remedy: "take them out of it (`ip link set PORT nomaster`)",
        permit: Some(Permit {
            key: "bypass_rules",
            then: "forwarded packets ignore the VRF of",
        }),
    }),
};

/// Policies of IPsec that demand a tunnel or forbid packets.
pub static XFRM: Kind = Kind {
    part: IPSEC_PART,
    name: "IPsec policies",
    decides: "which forwarded packets leave encrypted (out) or are let through (fwd), and the default of both",
    routed: Refuses(
        "policies out and fwd with a template or action block, and a default of block. No key permits it, because \
         packets would leave in clear text",
    ),
    bridged: NO_IP,
    read: "xfrm netlink, announced; policies of a socket and of XFRM interfaces do not concern ports",
    advice: Some(Advice {
        claim: "weir would forward packets in clear text that these IPsec policies of this machine encrypt or forbid",
        remedy: "end the tunnels on another box, or remove the policies (`ip xfrm policy`); no key permits this",
        permit: None,
    }),
};

/// Filters and programs at the ingress of a port.
pub static TC_INGRESS: Kind = Kind {
    part: CONTROL_PART,
    name: "tc ingress filters",
    decides: "qdiscs ingress and clsact, tcx programs, at the ingress of a port: drop, police, change",
    routed: Refuses("they act behind the packet tap. `bypass_tc = true` permits it"),
    bridged: Refuses("they act behind the packet tap. `bypass_tc = true` permits it"),
    read: "rtnetlink, every half second; tcx by bpf(2)",
    advice: Some(Advice {
        claim: "forwarded packets would bypass these traffic-control filters at the ingress of ports",
        remedy: "remove them (`tc qdisc del dev PORT clsact`, or `ingress`; `bpftool net` lists programs)",
        permit: Some(Permit {
            key: "bypass_tc",
            then: "forwarded packets bypass",
        }),
    }),
};

/// Filters that redirect frames, for instance to an IFB.
pub static TC_REDIRECT: Kind = Kind {
    part: CONTROL_PART,
    name: "tc redirections",
    decides: "action `mirred` at the ingress of a port, for instance to an IFB that shapes downloads",
    routed: Refuses(
        "redirected frames come back behind the rules that keep them from the kernel: both would forward them. No key permits it",
    ),
    bridged: Refuses("as routed"),
    read: "rtnetlink, every half second",
    advice: Some(Advice {
        claim: "the kernel would forward packets a second time that these traffic-control filters redirect at the ingress of ports",
        remedy: "remove them (`tc qdisc del dev PORT ingress`); to shape downloads, give the port to the LAN a `rate`",
        permit: None,
    }),
};

/// Ports whose packets the kernel gives to another interface.
pub static MASTER: Kind = Kind {
    part: LINKS_PART,
    name: "master interfaces",
    decides: "bridge, bond, team, Open vSwitch: who gets the frames of a member",
    routed: Refuses("a port that is a member: the interface above it is the port"),
    bridged: Refuses("a port that is a member of anything but a bridge"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "the kernel gives the packets of these ports to the interfaces that they belong to",
        remedy: "make the interface above the port, or take the port out of it (`ip link set PORT nomaster`)",
        permit: None,
    }),
};

/// Default routes that leave past the ports.
pub static UNPORTED_DEFAULT: Kind = Kind {
    part: ROUTES_PART,
    name: "default routes past the ports",
    decides: "routes for everything (also halves: 0.0.0.0/1, 2000::/3) to an interface that is no port",
    routed: Refuses("one next hop outside is enough. `bypass_default_route = true` permits it"),
    bridged: NO_IP,
    read: TABLES,
    advice: Some(Advice {
        claim: "the kernel would forward by a default route to an interface that is no port, where weir drops packets as `not-a-port`",
        remedy: "make that interface a port, or keep a route that only the box itself needs in a VRF",
        permit: Some(Permit {
            key: "bypass_default_route",
            then: "forwarded packets are dropped that the kernel would send by",
        }),
    }),
};

/// Other routes that leave past the ports.
pub static UNPORTED_ROUTE: Kind = Kind {
    part: ROUTES_PART,
    name: "routes past the ports",
    decides: "other routes to an interface that is no port, and default routes with a higher metric",
    routed: Warns("packets that follow one are dropped as `not-a-port`"),
    bridged: NO_IP,
    read: TABLES,
    advice: Some(Advice {
        claim: "packets from ports to these interfaces, which are no ports, are dropped as `not-a-port`",
        remedy: "make an interface a port if this machine forwards to it",
        permit: None,
    }),
};

/// Programs in front of the packet tap.
pub static XDP: Kind = Kind {
    part: CONTROL_PART,
    name: "XDP programs",
    decides: "native and generic programs at a port: drop, change, redirect",
    routed: Warns(
        "they act before weir: what they drop or change is dropped and changed; what they send on themselves passes no queue",
    ),
    bridged: Warns("as routed"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "these XDP programs act before weir, and frames that they send on pass no queue of weir",
        remedy: "`ip link set PORT xdp off` removes a program",
        permit: None,
    }),
};

/// Interfaces on ports whose packets weir does not know.
pub static UPPER: Kind = Kind {
    part: LINKS_PART,
    name: "interfaces on ports",
    decides: "VLAN, macvlan, ipvlan, MACsec: who gets frames of the interface below",
    routed: Warns(
        "VLAN and macvlan devices work as before; ipvlan and MACsec devices on a port may receive nothing",
    ),
    bridged: Warns("what stands on the ports receives nothing"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "these interfaces on ports may receive nothing while weir runs",
        remedy: "make the interface itself the port, or put it on an interface that is no port",
        permit: None,
    }),
};

/// Settings by which a bridge of the kernel does not join its ports.
pub static BRIDGE_FILTER: Kind = Kind {
    part: BRIDGE_PART,
    name: "bridge settings",
    decides: "`vlan_filtering`, isolated ports: which frames a bridge passes between two ports",
    routed: Without("a port is not in a bridge"),
    bridged: Refuses("weir passes every frame between its ports"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "weir passes every frame between its ports, and these settings of the bridge would hold some back",
        remedy: "switch them off (`ip link set BRIDGE type bridge vlan_filtering 0`, `bridge link set dev PORT isolated off`)",
        permit: None,
    }),
};

/// A kind about which weir neither refuses nor warns.
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
const CONF: &str = "rtnetlink (netconf), announced";

/// Kinds that need no reader of findings.
static OTHERS: [Kind; 30] = [
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
        "the longest prefix in the tables local, main, default; then the metric",
        (
            Follows("the three tables count as one; others need a rule, which is refused"),
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
        "forwarding",
        "`ip_forward`, `conf.*.forwarding`, `disable_ipv6`, by family and interface",
        (
            Follows("a port forwards a family only while its interface does"),
            NO_IP,
        ),
        CONF,
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
        "limits of ICMP",
        "`icmp_ratelimit`, `icmp_ratemask`, `icmp.ratelimit`, `icmp_errors_use_inbound_ifaddr`",
        (Differs("weir's limits are its own"), NO_IP),
        NOT_READ,
    ),
    plain(
        SYSCTL_PART,
        "path MTU in forwarding",
        "`ip_forward_use_pmtu`, `mtu_expires`",
        (
            Differs("learned path MTUs are not used, as is the kernel's default"),
            NO_IP,
        ),
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

/// Every kind, as docs/router.md lists them.
pub static KINDS: [&Kind; 42] = {
    let mut all: [&Kind; 42] = [&NETFILTER; 42];
    let with_findings: [&Kind; 12] = [
        &NETFILTER,
        &POLICY_RULES,
        &VRF,
        &XFRM,
        &TC_REDIRECT,
        &TC_INGRESS,
        &MASTER,
        &BRIDGE_FILTER,
        &UNPORTED_DEFAULT,
        &UNPORTED_ROUTE,
        &XDP,
        &UPPER,
    ];
    let mut n = 0;
    while n < 42 {
        all[n] = if n < 12 {
            with_findings[n]
        } else {
            &OTHERS[n - 12]
        };
        n += 1;
    }
    all
};
