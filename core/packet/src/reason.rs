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
            Self::DeviceDown => ("device-down", "The port it should leave by is down."),
            Self::TruncatedHeader => ("truncated-header", "A header ends outside the frame."),
            Self::TruncatedFrame => (
                "truncated-frame",
                "The frame is longer than the MTU of every port; raise the MTU, or lower the sender's.",
            ),
            Self::BadOffload => (
                "bad-offload",
                "Its sender left a checksum or its segmentation to hardware, and its headers do not fit that.",
            ),
            Self::NotIp => (
                "not-ip",
                "It is neither IPv4 nor IPv6 (ARP, say); the kernel has its own copy.",
            ),
            Self::UnknownVlan => (
                "unknown-vlan",
                "It is tagged, and the port has no such VLAN.",
            ),
            Self::IpVersion => (
                "ip-version",
                "Its IP version contradicts the Ethernet type.",
            ),
            Self::IpHeaderLength => ("ip-header-length", "Its IP header length is impossible."),
            Self::IpTotalLength => ("ip-total-length", "Its IP total length is impossible."),
            Self::IpChecksum => ("ip-checksum", "The checksum of its IPv4 header is wrong."),
            Self::MartianSource => ("martian-source", "Its source address may not be one."),
            Self::OwnSource => (
                "own-source",
                "Its source is an address of the router itself, or a broadcast address of one of its networks.",
            ),
            Self::ReversePath => (
                "reverse-path",
                "The route back to its source does not lead to the port where it came in (`source_check`, rp_filter).",
            ),
            Self::ForwardingOff => ("forwarding-off", "Forwarding is off where it came in."),
            Self::MartianDestination => (
                "martian-destination",
                "Its destination address may not be forwarded to, not without a route of its own, or is valid on a link only and came out of an FPF path.",
            ),
            Self::Multicast => (
                "multicast",
                "It is multicast or broadcast, which is not forwarded; the kernel has its own copy.",
            ),
            Self::SourceRoute => ("source-route", "It asks for a source route."),
            Self::LocalDelivery => (
                "local-delivery",
                "It is addressed to the router itself; the kernel has its own copy.",
            ),
            Self::Redirected => ("redirected", "It was handed to the control element."),
            Self::TtlExpired => ("ttl-expired", "Its TTL or hop limit has run out."),
            Self::NoRoute => ("no-route", "No route leads to its destination."),
            Self::RouteBlackhole => ("route-blackhole", "Its route is a blackhole."),
            Self::RouteUnreachable => ("route-unreachable", "Its route says unreachable."),
            Self::RouteProhibit => ("route-prohibit", "Its route says prohibited."),
            Self::NotAPort => (
                "not-a-port",
                "Its route leads out of an interface that is not one of the router's ports.",
            ),
            Self::TooBig => (
                "too-big",
                "It is longer than the MTU and may not be fragmented.",
            ),
            Self::FpfIndex => (
                "fpf-index",
                "The Index of its FPF header is greater than the Length.",
            ),
            Self::FpfLidLength => (
                "fpf-lid-length",
                "Its LID vector ends within the LID that this domain uses; the domains differ about the size of a LID.",
            ),
            Self::FpfUnknownLid => (
                "fpf-unknown-lid",
                "No FPF rule is for its input interface and LID.",
            ),
            Self::FpfRule => (
                "fpf-rule",
                "Its FPF rule says drop, or hands it to a control element or a processor that is not there.",
            ),
            Self::FpfProcessed => (
                "fpf-processed",
                "A processor took it and gave no packet for it: a parity that no packet needed, a packet that came twice, or no segment where one must be.",
            ),
            Self::FpfSegment => (
                "fpf-segment",
                "It was a segment; its bytes are in the packet that was put together, or wait for the others.",
            ),
            Self::FpfIncomplete => (
                "fpf-incomplete",
                "Its segments did not all come within a second, or contradict each other.",
            ),
            Self::FpfPayload => (
                "fpf-payload",
                "Behind its FPF header is neither IPv4 nor IPv6, and the rule that removes the header names no other type.",
            ),
            Self::FpfNested => (
                "fpf-nested",
                "It is wrapped in more FPF headers, one within the other, than a router removes.",
            ),
            Self::FpfNoMatch => (
                "fpf-no-match",
                "No encapsulation matches it, and `fpf.no_match` is drop.",
            ),
            Self::FpfQueueFull => (
                "fpf-queue-full",
                "It was beyond the rate of its FPF path, at the edge, and the queue before that path was full.",
            ),
            Self::FpfReturn => (
                "fpf-return",
                "Its FPF rule would send it back by the interface by which it came, within its domain: a loop.",
            ),
            Self::FpfTunnelPort => ("fpf-tunnel-port", "Its FPF tunnel is not entered there."),
            Self::FpfTunnelPacket => ("fpf-tunnel-packet", "Its FPF tunnel does not carry it."),
            Self::NoCopy => (
                "no-copy",
                "It is the copy for a leaf of a multicast tree, and every packet slot is in use.",
            ),
            Self::NeighbourFailed => ("neighbour-failed", "The next hop did not answer."),
            Self::NeighbourQueueFull => (
                "neighbour-queue-full",
                "Too many packets wait for next hops to answer.",
            ),
            Self::PoolExhausted => ("pool-exhausted", "Every packet slot is in use."),
            Self::SegmentsQueueFull => (
                "segments-queue-full",
                "Superframes of its sender that become very many packets wait, and there was no room behind them.",
            ),
            Self::Stale => (
                "stale",
                "It waited in the receive ring for longer than `age_max`: the router had stood still.",
            ),
            Self::Disabled => (
                "disabled",
                "A control element, or the loss of it, has switched forwarding off (`weir fe`).",
            ),
            Self::NotAdmitted => (
                "not-admitted",
                "The link was congested, and its flow is not one of those accepted.",
            ),
            Self::QueueFull => ("queue-full", "The queue was full."),
            Self::Congestion => (
                "congestion",
                "Its queue was long or slow: it was dropped to slow its sender.",
            ),
            Self::LongestFlow => (
                "longest-flow",
                "Its flow fills a queue that was full, or waited for too long.",
            ),
            Self::Policed => (
                "policed",
                "It was beyond the rate that a token bucket allows.",
            ),
            Self::Impaired => ("impaired", "An emulated link lost it."),
            Self::Reconfigured => (
                "reconfigured",
                "A changed configuration left no place for it.",
            ),
            Self::Shutdown => ("shutdown", "The router stopped while it held it."),
        }
    }
}
