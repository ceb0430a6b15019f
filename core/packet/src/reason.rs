//! Every reason for which a packet can be dropped.

/// Declares the reasons: the meaning of each is its doc comment, a sentence for an operator; then its variant and its
/// stable name.
macro_rules! reasons {
    ($($(#[doc = $sentence:literal])+ $reason:ident = $name:literal,)*) => {
        /// Why a packet was not forwarded. One variant, one counter, one sentence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason { $($(#[doc = $sentence])+ $reason,)* }

        impl Reason {
            /// Every reason, in the order of their numbers.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$reason),*];

            /// Number of reasons.
            pub const COUNT: usize = [$(Self::$reason),*].len();

            /// The stable name, used in reports, metrics and captures.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// The meaning, in a sentence for an operator.
            pub const fn sentence(self) -> &'static str {
                // Each line of a doc comment starts with a space.
                match self { $(Self::$reason => concat!($($sentence),+).trim_ascii_start(),)* }
            }
        }
    };
}

// In the order of the checks that a packet passes.
reasons! {
    /// The output port is down.
    DeviceDown = "device-down",
    /// A header extends beyond the end of the frame.
    TruncatedHeader = "truncated-header",
    /// The frame is longer than the MTU of every port; raise the MTU, or lower the sender's.
    TruncatedFrame = "truncated-frame",
    /// The sender left a checksum or segmentation to hardware, and the headers do not fit that offload.
    BadOffload = "bad-offload",
    /// The packet is neither IPv4 nor IPv6 (for example ARP); the kernel has its own copy.
    NotIp = "not-ip",
    /// The frame has a VLAN tag, and the port has no such VLAN.
    UnknownVlan = "unknown-vlan",
    /// The IP version contradicts the Ethernet type.
    IpVersion = "ip-version",
    /// The IP header length is invalid.
    IpHeaderLength = "ip-header-length",
    /// The IP total length is invalid.
    IpTotalLength = "ip-total-length",
    /// The IPv4 header checksum is wrong.
    IpChecksum = "ip-checksum",
    // RFC 1812, section 5.3.7.
    /// The source address is invalid.
    MartianSource = "martian-source",
    /// The source is an address of the router itself, or a broadcast address of one of its networks.
    OwnSource = "own-source",
    // RFC 3704.
    /// The route back to the source does not lead to the input port (`source_check`, rp_filter).
    ReversePath = "reverse-path",
    /// Forwarding is disabled on the input interface.
    ForwardingOff = "forwarding-off",
    // RFC 1812, section 5.3.7.
    /// Packets to this destination must not be forwarded, or only by a specific route, or the destination is valid on
    /// one link only and the packet came out of an FPF path.
    MartianDestination = "martian-destination",
    /// The packet is multicast or broadcast, which weir does not forward; the kernel has its own copy.
    Multicast = "multicast",
    // An IPv4 source route, or an IPv6 routing header of type 0 (RFC 5095).
    /// The packet requests a source route.
    SourceRoute = "source-route",
    /// The packet is addressed to the router itself; the kernel has its own copy.
    LocalDelivery = "local-delivery",
    /// The packet was handed to the control element.
    Redirected = "redirected",
    /// The TTL or hop limit expired.
    TtlExpired = "ttl-expired",
    /// No route leads to the destination.
    NoRoute = "no-route",
    /// The route is a blackhole.
    RouteBlackhole = "route-blackhole",
    /// The route is of type unreachable.
    RouteUnreachable = "route-unreachable",
    /// The route is of type prohibit.
    RouteProhibit = "route-prohibit",
    /// The route leads to an interface that is not one of the router's ports.
    NotAPort = "not-a-port",
    /// The packet is longer than the MTU and must not be fragmented.
    TooBig = "too-big",
    /// The Index of the FPF header is greater than its Length.
    FpfIndex = "fpf-index",
    /// The LID vector ends within the next LID of this domain; the domains use different LID sizes.
    FpfLidLength = "fpf-lid-length",
    /// No FPF rule matches the input interface and LID.
    FpfUnknownLid = "fpf-unknown-lid",
    /// The FPF rule drops the packet, or hands it to a control element or processor that is missing.
    FpfRule = "fpf-rule",
    /// A processor consumed the packet without a result: an unneeded parity, a duplicate packet, or a packet that
    /// is not a segment where one is required.
    FpfProcessed = "fpf-processed",
    /// The packet was a segment; its bytes are in the reassembled packet, or wait for the other segments.
    FpfSegment = "fpf-segment",
    /// The segments of the packet did not all arrive within a second, or contradict each other.
    FpfIncomplete = "fpf-incomplete",
    /// The payload after the FPF header is neither IPv4 nor IPv6, and the rule that removes the header names no
    /// other type.
    FpfPayload = "fpf-payload",
    /// The packet has more nested FPF headers than a router removes.
    FpfNested = "fpf-nested",
    /// No encapsulation matches the packet, and `fpf.no_match` is drop.
    FpfNoMatch = "fpf-no-match",
    /// The packet exceeded the rate of its FPF path at the edge, and the queue of that path was full.
    FpfQueueFull = "fpf-queue-full",
    /// The FPF rule would send the packet back through its input interface, within its domain: a loop.
    FpfReturn = "fpf-return",
    /// The packet entered its FPF tunnel at a port that is not permitted.
    FpfTunnelPort = "fpf-tunnel-port",
    /// The FPF tunnel does not accept this kind of packet.
    FpfTunnelPacket = "fpf-tunnel-packet",
    /// The packet is a copy for a leaf of a multicast tree, and all packet slots are in use.
    NoCopy = "no-copy",
    /// The next hop did not answer.
    NeighbourFailed = "neighbour-failed",
    /// Too many packets are waiting for next hops to answer.
    NeighbourQueueFull = "neighbour-queue-full",
    /// All packet slots are in use.
    PoolExhausted = "pool-exhausted",
    /// Waiting superframes of the same sender, which become many packets, left no room for the packet.
    SegmentsQueueFull = "segments-queue-full",
    /// The packet was in the receive ring for longer than `age_max`: the router had stalled.
    Stale = "stale",
    /// A control element, or the loss of its connection, disabled forwarding (`weir fe`).
    Disabled = "disabled",
    /// The link was congested, and the flow was not among the accepted flows.
    NotAdmitted = "not-admitted",
    /// The queue was full.
    QueueFull = "queue-full",
    /// The queue was long or slow: the packet was dropped to slow its sender.
    Congestion = "congestion",
    /// The flow fills a queue that was full, or its packet waited for too long.
    LongestFlow = "longest-flow",
    /// The packet exceeded the rate of a token bucket.
    Policed = "policed",
    /// The packet was lost on an emulated link.
    Impaired = "impaired",
    /// A configuration change left no room for the packet.
    Reconfigured = "reconfigured",
    /// The router stopped while it held the packet.
    Shutdown = "shutdown",
}

impl Reason {
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
}
