//! Kinds of kernel state that weir refuses or warns about: a reader of the habitat supplies the findings.

use super::{Advice, Kind, Permit, Stance};
use Stance::{Applies, Differs, Refuses, Warns, Without};

pub(super) const NETFILTER_PART: &str = "Netfilter";
const RULES_PART: &str = "Policy routing";
pub(super) const ROUTES_PART: &str = "Routes and next hops";
pub(super) const IPSEC_PART: &str = "IPsec";
pub(super) const CONTROL_PART: &str = "Traffic control, XDP";
pub(super) const LINKS_PART: &str = "Interfaces";
pub(super) const SYSCTL_PART: &str = "Sysctls";
pub(super) const BRIDGE_PART: &str = "Bridges";

pub(super) const NO_IP: Stance = Without("a bridge does not process IP");
/// In mode "queue" the kernel does everything except the order of packets at the link.
pub(super) const BESIDE: Stance =
    Applies("the kernel does this itself, before weir queues the packet or after");
pub(super) const TABLES: &str = "rtnetlink notifications";
pub(super) const CONF: &str = "rtnetlink (netconf) notifications; IPv6 links every half second";
const SURVEYED: &str = "rtnetlink at the start, at a reload, and every half second";

/// Chains of nf_tables and of legacy iptables.
pub static NETFILTER: Kind = Kind {
    part: NETFILTER_PART,
    name: "netfilter rules",
    decides: "prerouting, forward, postrouting, ingress of a port: drop, translate, mark",
    routed: Refuses("`bypass_netfilter = true` permits it"),
    bridged: Refuses(
        "chains at the ingress of a port; of family bridge if the ports are in a bridge; of IP with br_netfilter",
    ),
    queue: BESIDE,
    read: "nf_tables notifications; legacy iptables every half second",
    advice: Some(Advice {
        claim: "forwarded packets would bypass these netfilter rules of this machine",
        remedy: "remove them",
        permit: Some(Permit {
            key: "bypass_netfilter",
            then: "forwarded packets bypass",
        }),
    }),
};

/// Flowtables with the interface of a port.
pub static FLOWTABLE: Kind = Kind {
    part: NETFILTER_PART,
    name: "flowtables",
    decides: "which packets of known connections pass from interface to interface without rules, in the kernel or in \
              hardware",
    routed: Without("packets enter a flowtable by a rule at forward, which is refused"),
    bridged: Without("packets enter a flowtable by a rule at forward, which is refused"),
    queue: Refuses(
        "if the interface of a port, or the interface below it, is a device of a flowtable. No key permits it",
    ),
    read: "nf_tables notifications",
    advice: Some(Advice {
        claim: "packets of connections in these flowtables may bypass the queues of the ports",
        remedy: "remove the interface from the flowtable's `devices`, or the rules with `flow add` and the flowtable",
        permit: None,
    }),
};

/// Rules in addition to the default rules, and missing default rules.
pub static POLICY_RULES: Kind = Kind {
    part: RULES_PART,
    name: "policy rules",
    decides: "which routing table a packet uses, and which packets use none: `ip rule`",
    routed: Refuses(
        "every rule except those of the tables local, main and default in this order; rules with `iif lo`, with \
         `oif`, or for users other than root affect only the machine's own packets, and are permitted. `bypass_rules \
         = true` permits all",
    ),
    bridged: NO_IP,
    queue: BESIDE,
    read: TABLES,
    advice: Some(Advice {
        claim: "weir does not follow these policy rules of this machine, and would send forwarded packets elsewhere",
        remedy: "remove them or restore the missing ones (`ip rule`; a VPN client that takes all traffic adds such rules)",
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
    queue: BESIDE,
    read: SURVEYED,
    advice: Some(Advice {
        claim: "weir does not follow the routing table of a VRF, and these ports are in one",
        remedy: "remove them from it (`ip link set PORT nomaster`)",
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
        "policies `out` and `fwd` with a template or with action block, and a default of block. No key permits it, \
         because packets would leave in clear text",
    ),
    bridged: NO_IP,
    queue: BESIDE,
    read: "xfrm netlink notifications; policies of sockets and XFRM interfaces do not affect ports",
    advice: Some(Advice {
        claim: "weir would forward packets in clear text that these IPsec policies of this machine encrypt or forbid",
        remedy: "terminate the tunnels on another machine, or remove the policies (`ip xfrm policy`); no key permits \
                 this",
        permit: None,
    }),
};

/// Filters and programs at the ingress of a port.
pub static TC_INGRESS: Kind = Kind {
    part: CONTROL_PART,
    name: "tc ingress filters",
    decides: "qdiscs ingress and clsact, tcx programs, at the ingress of a port: drop, police, change",
    routed: Refuses("they act after the packet tap. `bypass_tc = true` permits it"),
    bridged: Refuses("they act after the packet tap. `bypass_tc = true` permits it"),
    queue: Applies("twice, if the port has `direction = \"in\"`: a warning names them"),
    read: "rtnetlink every half second; tcx with bpf(2)",
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
        "redirected frames re-enter after the rules that stop the kernel from forwarding them: weir and the kernel would both forward them. No key permits it",
    ),
    bridged: Refuses("as routed"),
    queue: Applies("twice, if the port has `direction = \"in\"`: a warning names them"),
    read: "rtnetlink every half second",
    advice: Some(Advice {
        claim: "these traffic-control filters redirect packets at the ingress of ports, and the kernel would forward them a second time",
        remedy: "remove them (`tc qdisc del dev PORT ingress`); to shape downloads, set `rate` at the port to the LAN",
        permit: None,
    }),
};

/// Filters and programs that a received frame passes before the queue, and again after it.
pub static TC_TWICE: Kind = Kind {
    part: CONTROL_PART,
    name: "tc filters on both sides of the queue",
    decides: "filters, tcx programs and redirections at the ingress of a port with `direction = \"in\"`",
    routed: Without("a frame passes the ingress of a port once"),
    bridged: Without("a frame passes the ingress of a port once"),
    queue: Warns(
        "each received frame passes them twice: a policer counts it twice, an IFB queues it twice",
    ),
    read: "rtnetlink every half second; tcx with bpf(2)",
    advice: Some(Advice {
        claim: "each received frame passes these traffic-control filters twice, before and after the queue",
        remedy: "remove filters that limit, count or redirect (`tc qdisc del dev PORT clsact`, or `ingress`); `rate` at \
                 the port takes the place of a policer or an IFB",
        permit: None,
    }),
};

/// Filters that match marks, which frames lose in the queue.
pub static TC_BY_MARK: Kind = Kind {
    part: CONTROL_PART,
    name: "tc egress filters by mark",
    decides: "classifiers `fw` and `u32` with `mark`: the class of a packet that leaves a port",
    routed: Differs("weir's frames bypass them"),
    bridged: Differs("weir's frames bypass them"),
    queue: Warns("frames come from the queue without mark and priority"),
    read: "rtnetlink every half second",
    advice: Some(Advice {
        claim: "these traffic-control filters match marks, and frames come from the queue without a mark",
        remedy: "let them match addresses, ports or DSCP",
        permit: None,
    }),
};

/// Ports whose packets the kernel gives to another interface.
pub static MASTER: Kind = Kind {
    part: LINKS_PART,
    name: "master interfaces",
    decides: "bridge, bond, team, Open vSwitch: which interface receives the frames of a member",
    routed: Refuses("a port that is a member; the master interface must be the port"),
    bridged: Refuses("a port that is a member of anything but a bridge"),
    queue: BESIDE,
    read: SURVEYED,
    advice: Some(Advice {
        claim: "the kernel passes the packets of these ports to their master interfaces",
        remedy: "make the master interface the port, or remove the port from it (`ip link set PORT nomaster`)",
        permit: None,
    }),
};

/// Default routes that leave past the ports.
pub static UNPORTED_DEFAULT: Kind = Kind {
    part: ROUTES_PART,
    name: "default routes past the ports",
    decides: "default routes (also halves: 0.0.0.0/1, 2000::/3) to an interface that is not a port",
    routed: Refuses(
        "one next hop outside the ports is enough. `bypass_default_route = true` permits it",
    ),
    bridged: NO_IP,
    queue: BESIDE,
    read: TABLES,
    advice: Some(Advice {
        claim: "a default route leads to an interface that is not a port; weir would drop packets for it with reason `not-a-port`",
        remedy: "make that interface a port, or move a route that only the machine itself needs into a VRF",
        permit: Some(Permit {
            key: "bypass_default_route",
            then: "weir drops forwarded packets that the kernel would send through",
        }),
    }),
};

/// Other routes that leave past the ports.
pub static UNPORTED_ROUTE: Kind = Kind {
    part: ROUTES_PART,
    name: "routes past the ports",
    decides: "other routes to an interface that is not a port",
    routed: Warns("packets that match one are dropped with reason `not-a-port`"),
    bridged: NO_IP,
    queue: BESIDE,
    read: TABLES,
    advice: Some(Advice {
        claim: "packets from ports to these interfaces, which are not ports, are dropped with reason `not-a-port`",
        remedy: "make an interface a port if this machine forwards to it",
        permit: None,
    }),
};

/// Default routes past the ports that are inactive because of other default routes with a lower metric.
pub static SPARE_DEFAULT: Kind = Kind {
    part: ROUTES_PART,
    name: "spare default routes past the ports",
    decides: "default routes with a higher metric to an interface that is not a port",
    routed: Warns("once active, it counts as a default route past the ports"),
    bridged: NO_IP,
    queue: BESIDE,
    read: "rtnetlink at the start and at a reload",
    advice: Some(Advice {
        claim: "if the other default routes are removed, the kernel would forward through an interface that is not a \
                port",
        remedy: "weir then hands forwarding back to the kernel; make that interface a port if that is not intended",
        permit: None,
    }),
};

/// Default routes with something that weir does not follow.
pub static UNFOLLOWED_DEFAULT: Kind = Kind {
    part: ROUTES_PART,
    name: "default routes that are not followed",
    decides: "default routes with a type of service (IPv4) or an encapsulation (MPLS, segment routing, tunnels)",
    routed: Refuses("`bypass_default_route = true` permits it"),
    bridged: NO_IP,
    queue: BESIDE,
    read: TABLES,
    advice: Some(Advice {
        claim: "weir does not follow these default routes of this machine, and would send forwarded packets elsewhere",
        remedy: "remove the attributes after the prefix from the route",
        permit: Some(Permit {
            key: "bypass_default_route",
            then: "forwarded packets do not take",
        }),
    }),
};

/// Other routes with something that weir does not follow.
pub static UNFOLLOWED_ROUTE: Kind = Kind {
    part: ROUTES_PART,
    name: "routes that are not followed",
    decides: "other routes with a type of service (IPv4) or an encapsulation",
    routed: Warns(
        "packets use the route without a type of service; for a route with an encapsulation, weir answers \"unreachable\"",
    ),
    bridged: NO_IP,
    queue: BESIDE,
    read: TABLES,
    advice: Some(Advice {
        claim: "weir does not follow these routes of this machine",
        remedy: "packets use the route without a type of service; destinations of a route with an encapsulation are \
                 unreachable",
        permit: None,
    }),
};

/// Ports whose forwarding is switched off.
pub static FORWARDING_OFF: Kind = Kind {
    part: SYSCTL_PART,
    name: "forwarding",
    decides: "`ip_forward`, `conf.*.forwarding`, `disable_ipv6`, by family and interface",
    routed: Warns("weir follows it: a port forwards a family only while its interface does"),
    bridged: NO_IP,
    queue: BESIDE,
    read: CONF,
    advice: Some(Advice {
        claim: "neither weir nor, after weir stops, the kernel forwards these packets",
        remedy: "enable forwarding if this machine should forward them (`sysctl -w net.ipv4.ip_forward=1`, `net.ipv6.conf.all.forwarding=1`); weir follows immediately",
        permit: None,
    }),
};

/// Use of learned path MTUs in forwarding.
pub static PATH_MTU: Kind = Kind {
    part: SYSCTL_PART,
    name: "path MTU in forwarding",
    decides: "`ip_forward_use_pmtu`",
    routed: Warns("weir does not use learned path MTUs, like the kernel by default"),
    bridged: NO_IP,
    queue: BESIDE,
    read: "/proc/sys every half second",
    advice: Some(Advice {
        claim: "forwarded packets may be longer than path MTUs that this machine has learned",
        remedy: "set it to 0, the default of the kernel",
        permit: None,
    }),
};

/// Programs in front of the packet tap.
pub static XDP: Kind = Kind {
    part: CONTROL_PART,
    name: "XDP programs",
    decides: "native and generic programs at a port: drop, change, redirect",
    routed: Warns(
        "they act before weir: their drops and changes apply; frames that they redirect bypass weir's queues",
    ),
    bridged: Warns("as routed"),
    queue: Warns("as routed"),
    read: SURVEYED,
    advice: Some(Advice {
        claim: "these XDP programs act before weir, and frames that they redirect bypass weir's queues",
        remedy: "`ip link set PORT xdp off` removes a program",
        permit: None,
    }),
};

/// Virtual interfaces on ports, whose packets weir does not know.
pub static UPPER: Kind = Kind {
    part: LINKS_PART,
    name: "interfaces on ports",
    decides: "VLAN, macvlan, ipvlan, MACsec: which interface receives the frames of the lower interface",
    routed: Warns(
        "VLAN and macvlan devices work as before; ipvlan and MACsec devices on a port may receive nothing",
    ),
    bridged: Warns("interfaces on the ports receive nothing"),
    queue: BESIDE,
    read: SURVEYED,
    advice: Some(Advice {
        claim: "these interfaces on ports may receive nothing while weir runs",
        remedy: "make the interface itself the port, or put it on an interface that is not a port",
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
    queue: BESIDE,
    read: SURVEYED,
    advice: Some(Advice {
        claim: "weir passes every frame between its ports, and these bridge settings would block some",
        remedy: "disable them (`ip link set BRIDGE type bridge vlan_filtering 0`, `bridge link set dev PORT isolated off`)",
        permit: None,
    }),
};

/// Kinds with a reader of findings.
pub(super) static WITH_FINDINGS: [&Kind; 20] = [
    &NETFILTER,
    &FLOWTABLE,
    &POLICY_RULES,
    &VRF,
    &XFRM,
    &TC_REDIRECT,
    &TC_INGRESS,
    &TC_TWICE,
    &TC_BY_MARK,
    &MASTER,
    &BRIDGE_FILTER,
    &UNPORTED_DEFAULT,
    &UNPORTED_ROUTE,
    &SPARE_DEFAULT,
    &UNFOLLOWED_DEFAULT,
    &UNFOLLOWED_ROUTE,
    &XDP,
    &UPPER,
    &FORWARDING_OFF,
    &PATH_MTU,
];
