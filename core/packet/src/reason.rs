//! Every reason for which a packet can be dropped.

/// Why a packet was not forwarded. One variant, one counter, one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Its egress port does not work.
    DeviceDown,
    /// Its first or second header ends outside the frame.
    TruncatedHeader,
    /// It is longer than any port can send.
    TruncatedFrame,
    /// The work that its sender left to hardware (checksum, segmentation) does not fit its headers.
    BadOffload,
    /// Its Ethernet type is not one that a router forwards.
    NotIp,
    /// It carries an 802.1Q tag, and the port has no such VLAN.
    UnknownVlan,
    /// Its IP version contradicts the Ethernet type.
    IpVersion,
    /// Its IP header length is below the minimum or beyond the end of the packet.
    IpHeaderLength,
    /// Its IP total length is less than its header or beyond the end of the frame.
    IpTotalLength,
    /// The checksum of its IPv4 header is wrong.
    IpChecksum,
    /// Its source address is not valid as a source (RFC 1812, section 5.3.7).
    MartianSource,
    /// Its source is one of the router's own addresses, or a broadcast address of its networks.
    OwnSource,
    /// The route back to its source does not lead to its ingress port (RFC 3704).
    ReversePath,
    /// The kernel's settings forbid to forward it from the interface where it came in.
    ForwardingOff,
    /// Packets to its destination address must not be forwarded (RFC 1812, section 5.3.7).
    MartianDestination,
    /// It is multicast or broadcast, which this router does not forward.
    Multicast,
    /// It carries an IPv4 source route or an IPv6 type-0 routing header (RFC 5095).
    SourceRoute,
    /// It is addressed to the router itself; the kernel has its own copy.
    LocalDelivery,
    /// It was handed to the control element.
    Redirected,
    /// Its TTL or hop limit has run out.
    TtlExpired,
    /// No route leads to its destination.
    NoRoute,
    /// The route to its destination is a blackhole.
    RouteBlackhole,
    /// The route to its destination is of type unreachable.
    RouteUnreachable,
    /// The route to its destination is of type prohibited.
    RouteProhibit,
    /// Its route leads out of an interface that is not one of the router's ports.
    NotAPort,
    /// It is longer than the egress port's MTU and may not be fragmented.
    TooBig,
    /// Its FPF header has an Index beyond the end of its LID vector.
    FpfIndex,
    /// Its LID vector ends within the LID that its domain uses.
    FpfLidLength,
    /// No FPF rule is for its input interface and its LID.
    FpfUnknownLid,
    /// Its FPF rule drops it, or hands it to a control element or a processor that takes nothing.
    FpfRule,
    /// A processor took it, and gave no packet for it.
    FpfProcessed,
    /// It was a segment of an FPF packet, and its bytes are in that packet.
    FpfSegment,
    /// Not all segments of it came in time, or those that came contradict each other.
    FpfIncomplete,
    /// It is neither IPv4 nor IPv6, and the rule that removed its FPF header names no other type.
    FpfPayload,
    /// It has more FPF headers, or copies of copies, within each other than a router follows.
    FpfNested,
    /// No encapsulation of the edge matches it.
    FpfNoMatch,
    /// It was beyond the rate of its FPF path, and as many packets as permitted wait for that path.
    FpfQueueFull,
    /// Its FPF rule would send it back to where it came from, within its domain.
    FpfReturn,
    /// It has the addresses of an FPF tunnel, and came in by a port at which the tunnel is not entered.
    FpfTunnelPort,
    /// It has the addresses of an FPF tunnel, and is not a packet that the tunnel carries.
    FpfTunnelPacket,
    /// A copy of it for a leaf of a multicast tree found no packet slot.
    NoCopy,
    /// Its next hop did not answer.
    NeighbourFailed,
    /// Too many packets were waiting for neighbours to answer.
    NeighbourQueueFull,
    /// Every packet slot of the router is in use.
    PoolExhausted,
    /// Superframes of its sender that become many packets wait, and there was no room behind them.
    SegmentsQueueFull,
    /// It waited in the receive ring for too long, because the router had stopped for a while.
    Stale,
    /// A control element, or the loss of it, has switched forwarding off.
    Disabled,
    /// The link was congested, and its flow had not been accepted.
    NotAdmitted,
    /// The queue was full.
    QueueFull,
    /// Its queue was long or slow: it was dropped to slow its sender.
    Congestion,
    /// Its flow fills a queue that was full, or waited for too long.
    LongestFlow,
    /// It exceeded the rate that a token bucket allows.
    Policed,
    /// An emulated link lost it.
    Impaired,
    /// A changed configuration left no room for it.
    Reconfigured,
    /// The router stopped while holding it.
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

    /// The stable name: in reports, metrics and captures.
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

    /// Whether a packet was lost. Packets for the machine itself (of which weir has seen a copy) are not losses. Nor are
    /// those that the control element has, and segments, whose packet is lost or not.
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
