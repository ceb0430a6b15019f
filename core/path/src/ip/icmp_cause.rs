//! The causes that ICMP errors report.

/// The cause that an ICMP error reports to the sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpCause {
    /// The TTL or hop limit ran out.
    TtlExpired,
    /// No route leads to the destination's network.
    NetUnreachable,
    /// The destination on the link, or the next-hop router, does not answer.
    HostUnreachable,
    /// The route to the destination is of type unreachable.
    RouteUnreachable,
    /// A rule of this router forbids the packet.
    Prohibited,
    /// The packet is longer than the next hop's MTU and must not be fragmented.
    TooBig {
        /// The next hop's MTU in bytes.
        mtu: u32,
    },
}
