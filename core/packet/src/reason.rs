//! Every reason for which a packet can be dropped.

/// Why a packet was not forwarded. One variant, one counter, one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The egress port is down.
    DeviceDown,
    /// The first or second header ends outside the frame.
    TruncatedHeader,
    /// The frame is longer than any port can send.
    TruncatedFrame,
    /// The offload (checksum, segmentation) that the sender left to hardware does not fit the headers.
    BadOffload,
    /// A router does not forward this Ethernet type.
    NotIp,
    /// The frame carries an 802.1Q tag, and the port has no such VLAN.
    UnknownVlan,
    /// The IP version contradicts the Ethernet type.
    IpVersion,
    /// The IP header length is below the minimum or beyond the end of the packet.
    IpHeaderLength,
    /// The IP total length is less than the header or beyond the end of the frame.
    IpTotalLength,
    /// The checksum of the IPv4 header is wrong.
    IpChecksum,
    /// The source address is not valid as a source (RFC 1812, section 5.3.7).
    MartianSource,
    /// The source is one of the router's own addresses, or a broadcast address of its networks.
    OwnSource,
    /// The route back to the source does not lead to the ingress port (RFC 3704).
    ReversePath,
    /// The kernel's settings forbid forwarding from the ingress interface.
    ForwardingOff,
    /// Packets to the destination address must not be forwarded (RFC 1812, section 5.3.7).
    MartianDestination,
    /// The packet is multicast or broadcast, which this router does not forward.
    Multicast,
    /// The packet carries an IPv4 source route or an IPv6 type-0 routing header (RFC 5095).
    SourceRoute,
    /// The packet is addressed to the router itself; the kernel has its own copy.
    LocalDelivery,
    /// The packet was handed to the control element.
    Redirected,
    /// The TTL or hop limit has run out.
    TtlExpired,
    /// No route leads to the destination.
    NoRoute,
    /// The route to the destination is a blackhole.
    RouteBlackhole,
    /// The route to the destination is of type unreachable.
    RouteUnreachable,
    /// The route to the destination is of type prohibited.
    RouteProhibit,
    /// The route leads out of an interface that is not a port of the router.
    NotAPort,
    /// The packet is longer than the egress port's MTU and may not be fragmented.
    TooBig,
    /// The FPF header has an Index beyond the end of its LID vector.
    FpfIndex,
    /// The LID vector ends within the LID that its domain uses.
    FpfLidLength,
    /// No FPF rule matches the input interface and the LID.
    FpfUnknownLid,
    /// The FPF rule drops the packet, or hands it to a control element or a processor that accepts nothing.
    FpfRule,
    /// A processor consumed the packet and returned no packet for it.
    FpfProcessed,
    /// The packet was a segment of an FPF packet, which now has its bytes.
    FpfSegment,
    /// Not all segments of the packet arrived in time, or they contradict each other.
    FpfIncomplete,
    /// The packet is neither IPv4 nor IPv6, and the rule that removed its FPF header names no other type.
    FpfPayload,
    /// The packet has more nested FPF headers, or copies of copies, than a router follows.
    FpfNested,
    /// No encapsulation of the edge matches the packet.
    FpfNoMatch,
    /// The packet exceeded the rate of its FPF path, and the queue before that path was full.
    FpfQueueFull,
    /// The FPF rule would send the packet back through its ingress interface, within its domain.
    FpfReturn,
    /// The packet has the addresses of an FPF tunnel, but arrived at a port that is not an entry of the tunnel.
    FpfTunnelPort,
    /// The packet has the addresses of an FPF tunnel, but is not a packet that the tunnel carries.
    FpfTunnelPacket,
    /// The packet is the copy for a leaf of a multicast tree, and no packet slot was free.
    NoCopy,
    /// The next hop did not answer.
    NeighbourFailed,
    /// Too many packets were waiting for neighbours to answer.
    NeighbourQueueFull,
    /// Every packet slot of the router is in use.
    PoolExhausted,
    /// Superframes of the same sender that become many packets were waiting, and left no room for the packet.
    SegmentsQueueFull,
    /// The packet waited in the receive ring for too long, because the router had stopped for a while.
    Stale,
    /// A control element, or the loss of it, has switched forwarding off.
    Disabled,
    /// The link was congested, and the flow had not been accepted.
    NotAdmitted,
    /// The queue was full.
    QueueFull,
    /// The queue was long or slow: the packet was dropped to slow its sender.
    Congestion,
    /// The flow fills a queue that was full, or waited for too long.
    LongestFlow,
    /// The packet exceeded the rate that a token bucket allows.
    Policed,
    /// An emulated link lost the packet.
    Impaired,
    /// A changed configuration left no room for the packet.
    Reconfigured,
    /// The router stopped while it held the packet.
    Shutdown,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 55] = [
        Self::DeviceDown,
        Self::TruncatedHeader,
        Self::TruncatedFrame,
        Self::BadOffload,
        Self::NotIp,
        Self::UnknownVlan,
        Self::IpVersion,
        Self::IpHeaderLength,
        Self::IpTotalLength,
        Self::IpChecksum,
        Self::MartianSource,
        Self::OwnSource,
        Self::ReversePath,
        Self::ForwardingOff,
        Self::MartianDestination,
        Self::Multicast,
        Self::SourceRoute,
        Self::LocalDelivery,
        Self::Redirected,
        Self::TtlExpired,
        Self::NoRoute,
        Self::RouteBlackhole,
        Self::RouteUnreachable,
        Self::RouteProhibit,
        Self::NotAPort,
        Self::TooBig,
        Self::FpfIndex,
        Self::FpfLidLength,
        Self::FpfUnknownLid,
        Self::FpfRule,
        Self::FpfProcessed,
        Self::FpfSegment,
        Self::FpfIncomplete,
        Self::FpfPayload,
        Self::FpfNested,
        Self::FpfNoMatch,
        Self::FpfQueueFull,
        Self::FpfReturn,
        Self::FpfTunnelPort,
        Self::FpfTunnelPacket,
        Self::NoCopy,
        Self::NeighbourFailed,
        Self::NeighbourQueueFull,
        Self::PoolExhausted,
        Self::SegmentsQueueFull,
        Self::Stale,
        Self::Disabled,
        Self::NotAdmitted,
        Self::QueueFull,
        Self::Congestion,
        Self::LongestFlow,
        Self::Policed,
        Self::Impaired,
        Self::Reconfigured,
        Self::Shutdown,
    ];

    /// The stable name, used in reports, metrics and captures.
    pub const fn name(self) -> &'static str {
        self.text().0
    }

    /// The meaning, in a sentence for an operator.
    pub const fn sentence(self) -> &'static str {
        self.text().1
    }

    /// The reason with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Whether the packet was lost. Packets for the machine itself (weir has seen a copy) are not losses, nor are
    /// packets that the control element has, nor segments, because their packet counts instead.
    pub const fn is_loss(self) -> bool {
        !matches!(
            self,
            Self::LocalDelivery
                | Self::NotIp
                | Self::Multicast
                | Self::Redirected
                | Self::FpfSegment
        )
    }

    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::DeviceDown => ("device-down", "The output port is down."),
            Self::TruncatedHeader => (
                "truncated-header",
                "A header extends beyond the end of the frame.",
            ),
            Self::TruncatedFrame => (
                "truncated-frame",
                "The frame is longer than the MTU of every port; raise the MTU, or lower the sender's.",
            ),
            Self::BadOffload => (
                "bad-offload",
                "The sender left a checksum or segmentation to hardware, and the headers do not fit that offload.",
            ),
            Self::NotIp => (
                "not-ip",
                "The packet is neither IPv4 nor IPv6 (for example ARP); the kernel has its own copy.",
            ),
            Self::UnknownVlan => (
                "unknown-vlan",
                "The frame has a VLAN tag, and the port has no such VLAN.",
            ),
            Self::IpVersion => (
                "ip-version",
                "The IP version contradicts the Ethernet type.",
            ),
            Self::IpHeaderLength => ("ip-header-length", "The IP header length is invalid."),
            Self::IpTotalLength => ("ip-total-length", "The IP total length is invalid."),
            Self::IpChecksum => ("ip-checksum", "The IPv4 header checksum is wrong."),
            Self::MartianSource => ("martian-source", "The source address is invalid."),
            Self::OwnSource => (
                "own-source",
                "The source is an address of the router itself, or a broadcast address of one of its networks.",
            ),
            Self::ReversePath => (
                "reverse-path",
                "The route back to the source does not lead to the input port (`source_check`, rp_filter).",
            ),
            Self::ForwardingOff => (
                "forwarding-off",
                "Forwarding is disabled on the input interface.",
            ),
            Self::MartianDestination => (
                "martian-destination",
                "The destination address must not be forwarded to, or only with a route of its own, or is valid on \
                 one link only and came out of an FPF path.",
            ),
            Self::Multicast => (
                "multicast",
                "The packet is multicast or broadcast, which weir does not forward; the kernel has its own copy.",
            ),
            Self::SourceRoute => ("source-route", "The packet requests a source route."),
            Self::LocalDelivery => (
                "local-delivery",
                "The packet is addressed to the router itself; the kernel has its own copy.",
            ),
            Self::Redirected => (
                "redirected",
                "The packet was handed to the control element.",
            ),
            Self::TtlExpired => ("ttl-expired", "The TTL or hop limit expired."),
            Self::NoRoute => ("no-route", "No route leads to the destination."),
            Self::RouteBlackhole => ("route-blackhole", "The route is a blackhole."),
            Self::RouteUnreachable => ("route-unreachable", "The route is of type unreachable."),
            Self::RouteProhibit => ("route-prohibit", "The route is of type prohibit."),
            Self::NotAPort => (
                "not-a-port",
                "The route leads to an interface that is not one of the router's ports.",
            ),
            Self::TooBig => (
                "too-big",
                "The packet is longer than the MTU and must not be fragmented.",
            ),
            Self::FpfIndex => (
                "fpf-index",
                "The Index of the FPF header is greater than its Length.",
            ),
            Self::FpfLidLength => (
                "fpf-lid-length",
                "The LID vector ends within the next LID of this domain; the domains use different LID sizes.",
            ),
            Self::FpfUnknownLid => (
                "fpf-unknown-lid",
                "No FPF rule matches the input interface and LID.",
            ),
            Self::FpfRule => (
                "fpf-rule",
                "The FPF rule drops the packet, or hands it to a control element or processor that is missing.",
            ),
            Self::FpfProcessed => (
                "fpf-processed",
                "A processor consumed the packet without a result: an unneeded parity, a duplicate packet, or a \
                 packet that is not a segment where one is required.",
            ),
            Self::FpfSegment => (
                "fpf-segment",
                "The packet was a segment; its bytes are in the reassembled packet, or wait for the other segments.",
            ),
            Self::FpfIncomplete => (
                "fpf-incomplete",
                "The segments of the packet did not all arrive within a second, or contradict each other.",
            ),
            Self::FpfPayload => (
                "fpf-payload",
                "The payload after the FPF header is neither IPv4 nor IPv6, and the rule that removes the header \
                 names no other type.",
            ),
            Self::FpfNested => (
                "fpf-nested",
                "The packet has more nested FPF headers than a router removes.",
            ),
            Self::FpfNoMatch => (
                "fpf-no-match",
                "No encapsulation matches the packet, and `fpf.no_match` is drop.",
            ),
            Self::FpfQueueFull => (
                "fpf-queue-full",
                "The packet exceeded the rate of its FPF path at the edge, and the queue of that path was full.",
            ),
            Self::FpfReturn => (
                "fpf-return",
                "The FPF rule would send the packet back through its input interface, within its domain: a loop.",
            ),
            Self::FpfTunnelPort => (
                "fpf-tunnel-port",
                "The packet entered its FPF tunnel at a port that is not \
                                                        permitted.",
            ),
            Self::FpfTunnelPacket => (
                "fpf-tunnel-packet",
                "The FPF tunnel does not accept this kind of packet.",
            ),
            Self::NoCopy => (
                "no-copy",
                "The packet is a copy for a leaf of a multicast tree, and all packet slots are in use.",
            ),
            Self::NeighbourFailed => ("neighbour-failed", "The next hop did not answer."),
            Self::NeighbourQueueFull => (
                "neighbour-queue-full",
                "Too many packets are waiting for next hops to answer.",
            ),
            Self::PoolExhausted => ("pool-exhausted", "All packet slots are in use."),
            Self::SegmentsQueueFull => (
                "segments-queue-full",
                "Waiting superframes of the same sender, which become many packets, left no room for the packet.",
            ),
            Self::Stale => (
                "stale",
                "The packet was in the receive ring for longer than `age_max`: the router had stalled.",
            ),
            Self::Disabled => (
                "disabled",
                "A control element, or the loss of its connection, disabled forwarding (`weir fe`).",
            ),
            Self::NotAdmitted => (
                "not-admitted",
                "The link was congested, and the flow was not among the accepted flows.",
            ),
            Self::QueueFull => ("queue-full", "The queue was full."),
            Self::Congestion => (
                "congestion",
                "The queue was long or slow: the packet was dropped to slow its sender.",
            ),
            Self::LongestFlow => (
                "longest-flow",
                "The flow fills a queue that was full, or its packet waited for too long.",
            ),
            Self::Policed => ("policed", "The packet exceeded the rate of a token bucket."),
            Self::Impaired => ("impaired", "The packet was lost on an emulated link."),
            Self::Reconfigured => (
                "reconfigured",
                "A configuration change left no room for the packet.",
            ),
            Self::Shutdown => ("shutdown", "The router stopped while it held the packet."),
        }
    }
}
