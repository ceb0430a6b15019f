//! Packets that forwarding elements (FEs) redirect to their control element (CE), and the CE's answers.
//!
//! ```text
//!  REDIRECT --> frame --+-- TTL, no route, next hop, too big --> ICMP error, back by the FE's routes
//!                       |
//!                       +-- to the CE, ARP, groups: the port has a TAP --> the CE's own kernel
//!                       |                           no TAP: ARP and ND --> an answer, back to the port
//!                       v
//!                    dropped, and counted
//!
//!  the CE's own kernel --> frame from the TAP --> REDIRECT to the port
//! ```
//!
//! Source: RFC 1812, section 4.3.2, and RFC 4443, section 2.4 (which errors to send, and their rate limits); RFC 826;
//! RFC 4861, section 7.2.4.
//!
//! The kernel behind a TAP has the remote port's addresses, so it answers ARP, pings and TCP as if the port were its
//! own, and routing daemons run there. ICMP errors always come from the CE: its kernel does not forward these packets.
//!
//! A forwarding element may lie. The CE drops packets with unknown ports, with invalid metadata, or that do not match
//! their metadata. Packets that an FE makes the CE send go back to that FE only.
//!
//! - [`received`]: a REDIRECT as a frame
//! - [`remote`]: the ports for which the CE acts, in its file
//! - [`remotes`]: these ports at a running CE

pub mod received;
pub mod remote;
pub mod remotes;
mod table;

use std::net::IpAddr;

use weir_base::Instant;
use weir_packet::Pool;
use weir_path::bridge;
use weir_path::classify::classify;
use weir_path::ip::error_budget::ErrorBudget;
use weir_path::ip::icmp_cause::IcmpCause;
use weir_path::ip::icmp_error;
use weir_path::ip::neighbour_answer;
use weir_protocol::wire::WireError;
use weir_protocol::wire::redirect::{
    ExceptionId, MetadataError, MetadataId, Redirect, RedirectPort,
};
use weir_wire::ethernet::{self, Mac};

use self::received::Received;
pub use self::table::EXCEPTIONS;

/// Longest frame in a REDIRECT, in bytes.
const FRAME_LEN_MAX: usize = 65_535 + ethernet::HEADER_LEN;

/// The CE's view of a port of a forwarding element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePort {
    /// Instance of the port.
    pub instance: u32,
    /// MAC address of the port.
    pub mac: Mac,
    /// Addresses of the port; the CE owns them.
    pub addresses: Vec<IpAddr>,
    /// Whether the port has a TAP: the CE's own kernel gets the packets for the port's addresses.
    pub tap: bool,
}

/// The fate of a packet from a forwarding element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send the frame to the TAP of this port.
    Kernel {
        /// Instance of the port.
        port: u32,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Send this answer to the forwarding element.
    Answer(Redirect),
    /// Drop the packet.
    Dropped(Why),
}

/// Why the CE drops a packet from a forwarding element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Metadata is invalid or missing, or the REDIRECT has no packet.
    Malformed(Malformed),
    /// The forwarding element has no such port.
    UnknownPort(u32),
    /// The packet must not be answered, or the answer would exceed a rate limit.
    NotAnswered,
    /// The packet is not for the CE: it has no TAP, and the CE answers no such packet itself.
    NotForUs,
}

/// The fault of a REDIRECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The REDIRECT has metadata only.
    #[error("the redirect has no packet")]
    NoPacket,
    /// Metadata is missing.
    #[error("the redirect has no {0}")]
    Missing(MetadataId),
    /// Metadata is invalid.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// Counters, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sent to the kernel.
    pub kernel: u64,
    /// Answered with an ICMP error.
    pub icmp: u64,
    /// Answered by ARP or neighbour discovery.
    pub neighbours: u64,
    /// Dropped: invalid metadata.
    pub malformed: u64,
    /// Dropped: no such port.
    pub unknown_port: u64,
    /// Dropped: must not be answered, or the answer exceeds the rate limits.
    pub not_answered: u64,
    /// Dropped: not for the CE.
    pub not_for_us: u64,
}

/// Answers of a CE to all its forwarding elements, which share the rate limits of ICMP errors.
#[derive(Debug)]
pub struct Answers {
    budget: ErrorBudget,
    /// Buffers for a packet and the ICMP error about it.
    pool: Pool,
    stats: Stats,
}

impl Answers {
    /// Creates the answers. `secret` keys the hashes over addresses, which senders must not be able to guess.
    pub fn new(secret: (u64, u64)) -> Self {
        Self {
            budget: ErrorBudget::default(),
            pool: Pool::new(2, FRAME_LEN_MAX, secret),
            stats: Stats::default(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Decides about a packet of a forwarding element with these ports.
    pub fn handle(&mut self, redirect: &Redirect, ports: &[RemotePort], now: Instant) -> Outcome {
        let outcome = match Received::new(redirect, ports) {
            Ok(received) => self.decide(received, ports, now),
            Err(why) => Outcome::Dropped(why),
        };
        let stats = &mut self.stats;
        let count = match &outcome {
            Outcome::Kernel { .. } => &mut stats.kernel,
            Outcome::Answer(answer) => match answer.number(MetadataId::RedirectIndex) {
                Ok(Some(index)) if RedirectPort::from(index) == RedirectPort::Routes => {
                    &mut stats.icmp
                }
                _ => &mut stats.neighbours,
            },
            Outcome::Dropped(Why::Malformed(_)) => &mut stats.malformed,
            Outcome::Dropped(Why::UnknownPort(_)) => &mut stats.unknown_port,
            Outcome::Dropped(Why::NotAnswered) => &mut stats.not_answered,
            Outcome::Dropped(Why::NotForUs) => &mut stats.not_for_us,
        };
        *count += 1;
        outcome
    }

    fn decide(&mut self, received: Received<'_>, ports: &[RemotePort], now: Instant) -> Outcome {
        let Received { id, port, mtu, .. } = received;
        let cause = match (id, mtu) {
            (ExceptionId::BadTtl | ExceptionId::Ipv6HopLimitZero, _) => IcmpCause::TtlExpired,
            (ExceptionId::LpmLookupFailed, _) => IcmpCause::NetUnreachable,
            (ExceptionId::NextHopLookupFailed, _) => IcmpCause::HostUnreachable,
            (ExceptionId::FragRequired, Some(mtu)) => IcmpCause::TooBig { mtu },
            (ExceptionId::FragRequired, None) => {
                let missing = Malformed::Missing(MetadataId::Mtu);
                return Outcome::Dropped(Why::Malformed(missing));
            }
            _ if port.tap => {
                let (port, frame) = (port.instance, received.frame);
                return Outcome::Kernel { port, frame };
            }
            (ExceptionId::Neighbours, _) => return answer_neighbour(port, &received.frame),
            _ => return Outcome::Dropped(Why::NotForUs),
        };
        let error = self.icmp_error(&received, cause, ports, now);
        match error.map(|packet| to_routes(packet).map(Outcome::Answer)) {
            Some(Ok(answer)) => answer,
            None | Some(Err(_)) => Outcome::Dropped(Why::NotAnswered),
        }
    }

    /// The ICMP error about a packet, as an IP packet; `None` if no error may be sent.
    fn icmp_error(
        &mut self,
        received: &Received<'_>,
        cause: IcmpCause,
        ports: &[RemotePort],
        now: Instant,
    ) -> Option<Vec<u8>> {
        let packet = self.pool.receive(&received.frame, now)?;
        let parsed = bridge::parse(&self.pool, packet);
        let offender = classify(&mut self.pool, parsed);
        let (packet, headers) = (offender.packet, offender.headers);
        let from = source_of_errors(received.port, ports, headers.source());
        let (pool, budget) = (&mut self.pool, &mut self.budget);
        let error = from
            .and_then(|from| icmp_error::build(pool, budget, &packet, &headers, cause, from, now));
        self.pool.release(packet);
        let error = error?.packet;
        let bytes = self.pool.frame(&error).get(ethernet::HEADER_LEN..);
        let bytes = bytes.map(<[u8]>::to_vec);
        self.pool.release(error);
        bytes
    }
}

/// The answer to a request that a forwarding element has not answered itself.
fn answer_neighbour(port: &RemotePort, frame: &[u8]) -> Outcome {
    let is_ours = |address| port.addresses.contains(&address);
    let answer = neighbour_answer::answer(frame, port.mac, is_ours);
    match answer.map(|frame| to_port(port.instance, frame)) {
        Some(Ok(redirect)) => Outcome::Answer(redirect),
        Some(Err(_)) | None => Outcome::Dropped(Why::NotAnswered),
    }
}

/// A frame that the CE's own kernel sent to the TAP of this port, as a REDIRECT for the forwarding element. Fails only
/// if the frame is longer than a message can carry.
pub fn to_port(instance: u32, frame: Vec<u8>) -> Result<Redirect, WireError> {
    let index = u32::from(RedirectPort::Frame).to_be_bytes();
    let metadata = vec![
        MetadataId::RedirectIndex.with(&index),
        MetadataId::PhyPortId.with(&instance.to_be_bytes()),
    ];
    Redirect::new(metadata, frame)
}

/// An IP packet for a forwarding element to send according to its routes.
pub fn to_routes(packet: Vec<u8>) -> Result<Redirect, WireError> {
    let index = u32::from(RedirectPort::Routes).to_be_bytes();
    Redirect::new(vec![MetadataId::RedirectIndex.with(&index)], packet)
}

/// Source address of an ICMP error: an address of the input port of the packet (RFC 1812, section 4.3.2.4), or of any
/// other port of the forwarding element if that port has no address of the family. Link-local addresses come last.
fn source_of_errors(port: &RemotePort, ports: &[RemotePort], to: IpAddr) -> Option<IpAddr> {
    let link_local = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
    let all = || {
        let others = ports.iter().flat_map(|port| &port.addresses);
        let all = port.addresses.iter().chain(others).copied();
        all.filter(|a| a.is_ipv4() == to.is_ipv4())
    };
    all().find(|a| !link_local(a)).or_else(|| all().next())
}

#[cfg(test)]
mod tests;
