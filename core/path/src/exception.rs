//! Exceptions: packets that a forwarding element hands to its control element, because it cannot forward them or
//! because they are addressed to it.
//!
//! ```text
//!  a network layer refuses a packet --> wanted? --> class --> buckets --> its ring --take--> control side
//!                                         | no                  | no tokens    | full
//!                                         v                     v              v
//!                                    dropped as              policed       queue-full
//!                                    without a CE
//! ```
//!
//! Classes, in the order in which the control side takes them ([`ExceptionClass`]):
//!
//! | class | packets | limit |
//! |---|---|---|
//! | `routing` | OSPF, IS-IS, LDP, VRRP; BGP and BFD of [`Policy::peers`] | [`FLOW`] for each protocol of each port |
//! | `neighbours` | ARP, IPv6 neighbour discovery | [`FLOW`] for each port, and the token buckets |
//! | `local` | other packets to the control element or to groups | the token buckets, without their last quarter |
//! | `errors` | TTL, no route, next hop, too big, router alert, rules | the token buckets, without their last half |
//!
//! So a flood of one class leaves the others alone, and a flood that pretends to be a routing protocol leaves the other
//! protocols and ports alone.
//!
//! Source: RFC 5810, section 7.9 (redirect); RFC 6956, section 5 (the exceptions of each LFB); Zhuge et al., "Research
//! on Internal Flow Control Mechanism of ForCES Routers" (the token buckets in front).
//!
//! A [`Policy`] selects the packets that go to the control element. By default none do, and the router behaves as
//! without a control element. A selected packet gets no ICMP error from this router: the control element answers it. A
//! packet that finds no tokens or no room in the ring is dropped, and is not answered either. Thus a flood costs the
//! forwarding thread little, and the control element never receives more than the buckets let pass. The senders of a
//! flood and of other packets of its class share the buckets.
//!
//! A ring holds at most [`RING_MAX`] packets. The control side takes all of them at once. If it does not do so within
//! [`LEASE`], the control element counts as absent: until the ring is taken again, the router handles packets as
//! without a control element, and answers them itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_base::{Bytes, Instant, Rate, Span, Tally, Throughput};
use weir_discipline::channel::token_bucket::{Gate, Limits, Passed};
use weir_packet::Reason;
use weir_packet::key::Family;
use weir_wire::routing::RoutingProtocol;
use weir_wire::{EtherType, Protocol, ethernet, ipv4};

use crate::headers::{self, Headers};
use crate::ip::error_budget::{Bucket, Limit};
use crate::ip::icmp_cause::IcmpCause;
use crate::link;

/// Maximum packets of a class that wait for the control side.
pub const RING_MAX: usize = 256;
/// Packets of one routing protocol, or of neighbour discovery, through one port.
pub const FLOW: Limit = Limit {
    rate: 500,
    burst: 100,
};
/// Maximum packets of such a flow that wait for the control side.
const FLOW_WAITING_MAX: u32 = 32;
/// A control side that leaves exceptions in the ring for this time counts as absent.
pub const LEASE: Span = Span::from_secs(1);
/// Maximum bytes that an exception takes in a message to the control element in addition to its frame: the message's
/// header (24), the headers of REDIRECT, METADATA and REDIRECTDATA (4 each), the metadata (at most 80) and padding (at
/// most 3), less the Ethernet header (14), which travels as metadata.
pub const MESSAGE_OVERHEAD: u64 = 105;

/// Why a packet is handed to the control element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The packet is addressed to the control element ([`Policy::addresses`]).
    Local,
    /// The packet belongs to ARP or to IPv6 neighbour discovery.
    Neighbours,
    /// The packet goes to a group, and does not belong to neighbour discovery.
    Multicast,
    /// The TTL or hop limit has run out.
    HopLimit,
    /// No route leads to the destination.
    NoRoute,
    /// The next hop did not answer.
    NextHop,
    /// The packet is longer than the MTU of the egress port and must not be fragmented.
    TooBig {
        /// The MTU in bytes.
        mtu: u32,
    },
    /// The packet carries the router alert option (RFC 2113, RFC 2711).
    RouterAlert,
    /// A rule of the overlay redirects the packet. The rule is the control element's own, so no policy applies.
    Overlay,
}

weir_base::words! {
    /// Classes of exceptions, the most important one first.
    #[derive(PartialOrd, Ord)]
    pub enum ExceptionClass {
        /// Packets of routing protocols.
        Routing = "routing",
        /// ARP and IPv6 neighbour discovery.
        Neighbours = "neighbours",
        /// Other packets to the control element.
        Local = "local",
        /// Packets that cannot be forwarded.
        Errors = "errors",
    }
}

/// The packets that go to the control element, and their rate. The default: none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Addresses of the control element at this router: packets to them are [`Cause::Local`].
    pub addresses: BTreeSet<IpAddr>,
    /// Whether [`Cause::Neighbours`] goes to the control element.
    pub neighbours: bool,
    /// Whether [`Cause::Multicast`] goes to the control element.
    pub multicast: bool,
    /// The groups of [`Cause::Multicast`], as prefixes; by default the link-local groups.
    pub groups: Vec<IpNet>,
    /// Whether [`Cause::HopLimit`] goes to the control element.
    pub hop_limit: bool,
    /// Whether [`Cause::NoRoute`] goes to the control element.
    pub no_route: bool,
    /// Whether [`Cause::NextHop`] goes to the control element.
    pub next_hop: bool,
    /// Whether [`Cause::TooBig`] goes to the control element.
    pub too_big: bool,
    /// Whether [`Cause::RouterAlert`] goes to the control element; such a packet is not forwarded.
    pub router_alert: bool,
    /// Whether exceptions have classes. Without them, all are of the class [`ExceptionClass::Errors`] with all tokens.
    pub classes: bool,
    /// Sources whose BGP and BFD packets are of the class [`ExceptionClass::Routing`].
    pub peers: BTreeSet<IpAddr>,
    /// The token buckets in front of the rings.
    pub limits: Limits,
}

/// A packet for the control element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Why the packet goes to the control element.
    pub cause: Cause,
    /// Class of the packet.
    pub class: ExceptionClass,
    /// Name of the ingress port; for an ICMP error of this router, the ingress port of the offending packet.
    pub port: String,
    /// When the packet was put into the ring.
    pub at: Instant,
    /// The whole frame, without VLAN tags.
    pub frame: Vec<u8>,
}

/// How a packet of the control element is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An IP packet, sent to a next hop that the control element names.
    NextHop {
        /// Name of the port.
        port: String,
        /// The address of the next hop, which must be a known neighbour. A multicast group is its own next hop.
        next_hop: IpAddr,
    },
    /// An IP packet that follows the routes.
    Routes,
    /// A complete frame.
    Frame {
        /// Name of the port.
        port: String,
    },
}

/// A packet of the control element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// How the packet is sent.
    pub entry: Entry,
    /// An IP packet or a frame, depending on `entry`.
    pub bytes: Vec<u8>,
}

/// The counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of the token buckets.
    pub gate: Passed,
    /// Exceptions that were put into the ring.
    pub redirected: Tally,
    /// Exceptions of the class [`ExceptionClass::Routing`] that were put into its ring.
    pub routing: Tally,
    /// Exceptions dropped because their protocol had sent too many through their port ([`FLOW`]).
    pub crowded: Tally,
    /// Exceptions dropped because the ring was full.
    pub full: Tally,
    /// Packets of the control element that were sent on.
    pub injected: Tally,
    /// Packets of the control element that were refused.
    pub refused: Tally,
}

/// The path of exceptions to the control side.
#[derive(Debug)]
pub(crate) struct Exceptions {
    policy: Policy,
    gate: Gate,
    offered: Throughput,
    /// By class.
    rings: [VecDeque<Exception>; ExceptionClass::ALL.len()],
    /// By number of the port, and protocol; `None`: neighbour discovery.
    flows: BTreeMap<(usize, Option<RoutingProtocol>), Flow>,
    /// Whether the control side knows that the ring is not empty.
    announced: bool,
    /// When the first packet entered the ring.
    waiting_since: Option<Instant>,
    pub(crate) stats: Stats,
}

/// Packets of one routing protocol, or of neighbour discovery, through one port.
#[derive(Debug, Default)]
struct Flow {
    bucket: Bucket,
    waiting: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            addresses: BTreeSet::new(),
            neighbours: false,
            multicast: false,
            groups: vec![
                Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 24).into(),
                Ipv6Net::new_assert(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0), 16).into(),
            ],
            hop_limit: false,
            no_route: false,
            next_hop: false,
            too_big: false,
            router_alert: false,
            classes: true,
            peers: BTreeSet::new(),
            limits: Limits {
                flow_control: false,
                committed: Rate::from_bps(0),
                excess: Rate::from_bps(0),
                burst: Bytes(0),
            },
        }
    }
}

impl Policy {
    /// Whether packets of this cause go to the control element.
    pub fn wants(&self, cause: Cause) -> bool {
        match cause {
            Cause::Local => !self.addresses.is_empty() || self.neighbours,
            Cause::Neighbours => self.neighbours,
            Cause::Multicast => self.multicast,
            Cause::HopLimit => self.hop_limit,
            Cause::NoRoute => self.no_route,
            Cause::NextHop => self.next_hop,
            Cause::TooBig { .. } => self.too_big,
            Cause::RouterAlert => self.router_alert,
            Cause::Overlay => true,
        }
    }

    /// Like [`Exceptions::cause`], but does not check whether the control side takes exceptions.
    fn cause(&self, frame: &[u8], reason: Reason, notify: Option<IcmpCause>) -> Option<Cause> {
        let cause = match (reason, notify) {
            (Reason::NotIp, _) if is_arp(frame) => Cause::Neighbours,
            (Reason::NotIp, _) if RoutingProtocol::of_frame(frame).is_some() => Cause::Multicast,
            (Reason::LocalDelivery | Reason::Multicast, _) => self.cause_to_us(frame, reason)?,
            (Reason::TtlExpired, _) => Cause::HopLimit,
            (Reason::NoRoute, _) => Cause::NoRoute,
            (Reason::NeighbourFailed, _) => Cause::NextHop,
            (Reason::TooBig, Some(IcmpCause::TooBig { mtu })) => Cause::TooBig { mtu },
            _ => return None,
        };
        self.wants(cause).then_some(cause)
    }

    /// The class of an exception, and its protocol if that has a limit of its own at each port.
    fn class(&self, cause: Cause, frame: &[u8]) -> (ExceptionClass, Option<RoutingProtocol>) {
        let class = match cause {
            _ if !self.classes => ExceptionClass::Errors,
            Cause::Neighbours => ExceptionClass::Neighbours,
            Cause::Local | Cause::Multicast => {
                let protocol = RoutingProtocol::of_frame(frame);
                match protocol.filter(|protocol| self.is_of_router(*protocol, frame)) {
                    None => ExceptionClass::Local,
                    protocol => return (ExceptionClass::Routing, protocol),
                }
            }
            _ => ExceptionClass::Errors,
        };
        (class, None)
    }

    /// Whether a packet of a protocol comes from a router: anybody can send BGP and BFD packets from afar.
    fn is_of_router(&self, protocol: RoutingProtocol, frame: &[u8]) -> bool {
        match protocol {
            RoutingProtocol::Bgp | RoutingProtocol::Bfd => {
                self.peers.contains(&headers::peek(frame).source())
            }
            _ => true,
        }
    }

    fn cause_to_us(&self, frame: &[u8], reason: Reason) -> Option<Cause> {
        let headers = headers::peek(frame);
        let destination = headers.destination();
        if self.neighbours && is_discovery(&headers, frame) {
            return Some(Cause::Neighbours);
        }
        // A control element that answers neighbours has the link-local addresses of the ports, which follow from their MAC
        // addresses.
        let is_own = |a: IpAddr| {
            let is_link_local = matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
            self.addresses.contains(&a) || self.neighbours && is_link_local
        };
        let is_group = |a: IpAddr| self.groups.iter().any(|groups| groups.contains(&a));
        match reason {
            Reason::LocalDelivery if is_own(destination) => Some(Cause::Local),
            Reason::Multicast if is_discovery(&headers, frame) => None,
            Reason::Multicast if is_group(destination) => Some(Cause::Multicast),
            _ => None,
        }
    }
}

impl Default for Exceptions {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            gate: Gate::new(policy.limits.clone(), Instant::ZERO),
            policy,
            offered: Throughput::default(),
            rings: Default::default(),
            flows: BTreeMap::new(),
            announced: false,
            waiting_since: None,
            stats: Stats::default(),
        }
    }
}

impl Exceptions {
    /// The current policy.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The cause for which a packet that a network layer refused for `reason` goes to the control element; `None` if it
    /// does not.
    pub(crate) fn cause(
        &self,
        frame: &[u8],
        reason: Reason,
        notify: Option<IcmpCause>,
        now: Instant,
    ) -> Option<Cause> {
        let cause = self.policy.cause(frame, reason, notify)?;
        self.is_attended(now).then_some(cause)
    }

    /// Whether a packet that could be forwarded goes to the control element instead, because of its router alert
    /// option.
    #[cold]
    pub(crate) fn is_alert(&self, frame: &[u8], headers: &Headers, now: Instant) -> bool {
        has_router_alert(frame, headers) && self.is_attended(now)
    }

    /// Whether the control side takes exceptions.
    pub(crate) fn is_attended(&self, now: Instant) -> bool {
        self.waiting_since.is_none_or(|since| now < since + LEASE)
    }

    /// Replaces the policy; the buckets keep their tokens, up to the new burst.
    pub(crate) fn set_policy(&mut self, policy: Policy, now: Instant) {
        self.gate.change(&policy.limits, now);
        self.policy = policy;
    }

    /// Whether a request of neighbour discovery at a port may be answered now; counts it otherwise.
    pub(crate) fn admits_neighbour(&mut self, number: usize, bytes: u32, now: Instant) -> bool {
        let admits = self.flow(number, None).takes(now);
        if !admits {
            self.stats.crowded.count(bytes.into());
        }
        admits
    }

    /// Puts a frame that arrived at a port into the ring of its class. Returns the reason with which the caller discards
    /// the packet.
    pub(crate) fn push(
        &mut self,
        cause: Cause,
        (number, port): (usize, &str),
        frame: &[u8],
        now: Instant,
    ) -> Reason {
        let bytes = frame.len() as u64;
        let in_message = bytes + MESSAGE_OVERHEAD;
        let (class, protocol) = self.policy.class(cause, frame);
        let is_limited = class <= ExceptionClass::Neighbours;
        if is_limited && !self.flow(number, protocol).admits(now) {
            self.stats.crowded.count(bytes);
            return Reason::Policed;
        }
        let reserve = match class {
            ExceptionClass::Routing => None,
            ExceptionClass::Local => Some(0.25),
            ExceptionClass::Errors if self.policy.classes => Some(0.5),
            ExceptionClass::Neighbours | ExceptionClass::Errors => Some(0.0),
        };
        if let Some(reserve) = reserve {
            self.offered.count(now, in_message);
            if !self.gate.passes_beyond(now, in_message, reserve) {
                return Reason::Policed;
            }
        }
        if self.rings[class as usize].len() >= RING_MAX {
            self.stats.full.count(bytes);
            return Reason::QueueFull;
        }
        if is_limited {
            self.flow(number, protocol).waiting += 1;
        }
        self.stats.redirected.count(bytes);
        if class == ExceptionClass::Routing {
            self.stats.routing.count(bytes);
        }
        self.waiting_since.get_or_insert(now);
        self.rings[class as usize].push_back(Exception {
            cause,
            class,
            port: port.to_owned(),
            at: now,
            frame: frame.to_vec(),
        });
        Reason::Redirected
    }

    fn flow(&mut self, number: usize, protocol: Option<RoutingProtocol>) -> &mut Flow {
        self.flows.entry((number, protocol)).or_default()
    }

    /// Forgets the limits of all ports, because their numbers change.
    pub(crate) fn renumber(&mut self) {
        self.flows.clear();
    }

    /// Whether the rings have become non-empty since the last [`Self::take`]: true once.
    pub(crate) fn announce(&mut self) -> bool {
        let news = !self.announced && self.rings.iter().any(|ring| !ring.is_empty());
        self.announced |= news;
        news
    }

    /// Takes all exceptions out of the rings, the most important ones first.
    pub(crate) fn take(&mut self) -> VecDeque<Exception> {
        self.announced = false;
        self.waiting_since = None;
        for flow in self.flows.values_mut() {
            flow.waiting = 0;
        }
        let [mut first, others @ ..] = std::mem::take(&mut self.rings);
        first.extend(others.into_iter().flatten());
        first
    }

    /// The counters.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            gate: self.gate.stats(),
            ..self.stats
        }
    }

    /// Rate of the exceptions offered to the token buckets, message overhead included.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        self.offered.rate(now)
    }
}

impl Flow {
    /// Takes a token for a packet that must wait, if there is one, and if not too many packets wait.
    fn admits(&mut self, now: Instant) -> bool {
        self.waiting < FLOW_WAITING_MAX && self.takes(now)
    }

    /// Takes a token for a packet, if there is one.
    fn takes(&mut self, now: Instant) -> bool {
        let takes = self.bucket.has_token(&FLOW, now);
        if takes {
            self.bucket.take(&FLOW, now);
        }
        takes
    }
}

/// Whether a frame belongs to ARP or to IPv6 neighbour discovery.
pub fn is_of_neighbours(frame: &[u8]) -> bool {
    is_arp(frame) || is_discovery(&headers::peek(frame), frame)
}

fn is_arp(frame: &[u8]) -> bool {
    link::peek(frame).is_some_and(|link| link.ethertype == EtherType::ARP)
}

/// Whether a packet belongs to IPv6 neighbour discovery (RFC 4861: types 133 to 137, hop limit 255).
fn is_discovery(headers: &Headers, frame: &[u8]) -> bool {
    let is_icmp = Protocol::from(headers.protocol) == Protocol::ICMPV6;
    let kind = headers.transport(frame).first();
    headers.family == Family::V6
        && is_icmp
        && headers.ttl == 255
        && kind.is_some_and(|kind| (133..=137).contains(kind))
}

fn has_router_alert(frame: &[u8], headers: &Headers) -> bool {
    let header = frame
        .get(usize::from(headers.l3)..usize::from(headers.l4))
        .unwrap_or_default();
    match headers.family {
        Family::V4 => {
            const ROUTER_ALERT: u8 = 148;
            let options = header.get(ipv4::HEADER_LEN_MIN..).unwrap_or_default();
            let mut options = ipv4::walk_options(options).map_while(Result::ok);
            options.any(|option| option.kind() == ROUTER_ALERT)
        }
        Family::V6 => has_router_alert_v6(header),
        Family::Link => false,
    }
}

/// Whether the hop-by-hop options after a fixed IPv6 header contain a router alert (RFC 2711: type 5).
fn has_router_alert_v6(header: &[u8]) -> bool {
    use weir_wire::ipv6;
    const PAD1: u8 = 0;
    const ROUTER_ALERT: u8 = 5;
    let Some((fixed, after)) = header.split_first_chunk::<{ ipv6::HEADER_LEN }>() else {
        return false;
    };
    let first = ipv6::View::new_unchecked(fixed).next_header();
    let [_, units, ..] = *after else {
        return false;
    };
    let len = (usize::from(units) + 1) * 8;
    let mut options = match (first, after.get(2..len)) {
        (Protocol::HOP_BY_HOP, Some(options)) => options,
        _ => return false,
    };
    loop {
        options = match *options {
            [ROUTER_ALERT, ..] => return true,
            [PAD1, ref rest @ ..] => rest,
            [_, len, ref rest @ ..] => match rest.get(usize::from(len)..) {
                Some(rest) => rest,
                None => return false,
            },
            _ => return false,
        };
    }
}

/// The MAC address of a multicast group (RFC 1112, section 6.4; RFC 2464, section 7); `None` if `address` is not a
/// group.
pub(crate) fn group_mac(address: IpAddr) -> Option<ethernet::Mac> {
    match address {
        IpAddr::V4(a) if a.is_multicast() => {
            let [_, b, c, d] = a.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(a) if a.is_multicast() => {
            let [.., w, x, y, z] = a.octets();
            Some([0x33, 0x33, w, x, y, z])
        }
        _ => None,
    }
}
