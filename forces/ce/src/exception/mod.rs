//! The packets that forwarding elements (FEs) redirect to their control element (CE), and its answers.
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
//! Source: RFC 1812, section 4.3.2, and RFC 4443, section 2.4 (which errors are sent, and how many); RFC 826; RFC 4861,
//! section 7.2.4.
//!
//! The kernel behind a TAP has the remote port's addresses, so it answers ARP, pings and TCP as if the port were its own,
//! and routing daemons run there. ICMP errors are the CE's in any case: its kernel does not forward these packets.
//!
//! A forwarding element may lie. A port that it does not have, metadata that cannot be read and packets that are
//! not what their metadata says are dropped. What it makes the CE send goes back to itself only.
//!
//! - [`received`]: a REDIRECT as a frame
//! - [`neighbour`]: answers to ARP and neighbour discovery
//! - [`remote`]: the ports that the CE acts for, in its file
//! - [`remotes`]: these ports at a running CE

pub mod neighbour;
pub mod received;
pub mod remote;
pub mod remotes;

use std::net::IpAddr;

use weir_base::Instant;
use weir_model::{Component, Value};
use weir_packet::Pool;
use weir_path::bridge;
use weir_path::classify::classify;
use weir_path::ip::error_budget::ErrorBudget;
use weir_path::ip::icmp_error::{self, IcmpCause};
use weir_protocol::wire::WireError;
use weir_protocol::wire::redirect::{
    ExceptionId, MetadataError, MetadataId, Redirect, RedirectPort,
};
use weir_wire::ethernet::{self, Mac};

use self::received::Received;
use crate::tables::EXCEPTIONS;

/// The longest frame that a REDIRECT carries.
const FRAME_LEN_MAX: usize = 65_535 + ethernet::HEADER_LEN;

/// A port of a forwarding element, as the CE needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePort {
    /// Its instance.
    pub instance: u32,
    /// Its MAC address.
    pub mac: Mac,
    /// Its addresses, which are the CE's.
    pub addresses: Vec<IpAddr>,
    /// Whether it has a TAP: the CE's own kernel gets what is addressed to it.
    pub tap: bool,
}

/// The fate of a packet from a forwarding element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The TAP of this port takes the frame.
    Kernel {
        /// The instance of the port.
        port: u32,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The forwarding element gets an answer to send.
    Answer(Redirect),
    /// Nothing.
    Dropped(Why),
}

/// Why a packet from a forwarding element is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its metadata cannot be read or is missing, or it has no packet.
    Malformed(Malformed),
    /// The forwarding element has no such port.
    UnknownPort(u32),
    /// It must not be answered, or answers are beyond their rate limits.
    NotAnswered,
    /// It is for nobody here: no TAP, and nothing that the CE answers itself.
    NotForUs,
}

/// The fault of a REDIRECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It has metadata only.
    #[error("the redirect has no packet")]
    NoPacket,
    /// Metadata is missing.
    #[error("the redirect has no {0}")]
    Missing(MetadataId),
    /// Metadata cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// The counters: packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// For the kernel.
    pub kernel: u64,
    /// Answered by an ICMP error.
    pub icmp: u64,
    /// Answered by ARP or neighbour discovery.
    pub neighbours: u64,
    /// Dropped: cannot be read.
    pub malformed: u64,
    /// Dropped: no such port.
    pub unknown_port: u64,
    /// Dropped: must not be answered, or beyond the rate limits.
    pub not_answered: u64,
    /// Dropped: for nobody here.
    pub not_for_us: u64,
}

impl Stats {
    /// The rows of the table [`EXCEPTIONS`].
    pub fn rows(&self) -> Value {
        let rows = [
            (
                "kernel",
                self.kernel,
                "handed to the kernel of the CE, at the TAP of the port",
            ),
            ("icmp", self.icmp, "answered with an ICMP error"),
            (
                "neighbours",
                self.neighbours,
                "answered: ARP or neighbour discovery",
            ),
            (
                "malformed",
                self.malformed,
                "dropped: the metadata cannot be read or is missing",
            ),
            (
                "unknown_port",
                self.unknown_port,
                "dropped: no port that the CE acts for has this number",
            ),
            (
                "not_answered",
                self.not_answered,
                "dropped: an error about it must not be sent, or too many were",
            ),
            (
                "not_for_us",
                self.not_for_us,
                "dropped: no TAP, and nothing that the CE answers itself",
            ),
        ];
        let row = |(fate, packets, meaning): (&str, u64, &str)| {
            Component::values(EXCEPTIONS.components, |component| match component.name {
                "fate" => fate.into(),
                "is_loss" => Value::Flag(meaning.starts_with("dropped")),
                "packets" => packets.into(),
                _ => meaning.into(),
            })
        };
        Value::List(rows.into_iter().map(row).collect())
    }
}

/// The answers of a CE to all its forwarding elements: they share the rate limits of ICMP errors.
#[derive(Debug)]
pub struct Answers {
    budget: ErrorBudget,
    /// A packet and the error about it.
    pool: Pool,
    stats: Stats,
}

impl Answers {
    /// `secret` is for the hashes over addresses, which senders must not be able to guess.
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
            (ExceptionId::Neighbours, _) => return neighbour::answer(port, &received.frame),
            _ => return Outcome::Dropped(Why::NotForUs),
        };
        let error = self.icmp_error(&received, cause, ports, now);
        match error.map(|packet| to_routes(packet).map(Outcome::Answer)) {
            Some(Ok(answer)) => answer,
            None | Some(Err(_)) => Outcome::Dropped(Why::NotAnswered),
        }
    }

    /// The ICMP error about a packet, as an IP packet; none if no error may be sent.
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

/// A frame that the CE's own kernel sent to the TAP of this port, for its forwarding element. It fails only if the
/// frame is longer than a message can carry.
pub fn to_port(instance: u32, frame: Vec<u8>) -> Result<Redirect, WireError> {
    let index = u32::from(RedirectPort::Frame).to_be_bytes();
    let metadata = vec![
        MetadataId::RedirectIndex.with(&index),
        MetadataId::PhyPortId.with(&instance.to_be_bytes()),
    ];
    Redirect::new(metadata, frame)
}

/// An IP packet that a forwarding element sends by its routes.
pub fn to_routes(packet: Vec<u8>) -> Result<Redirect, WireError> {
    let index = u32::from(RedirectPort::Routes).to_be_bytes();
    Redirect::new(vec![MetadataId::RedirectIndex.with(&index)], packet)
}

/// The source address of an ICMP error: one of the port where the packet arrived (RFC 1812, section 4.3.2.4), or of any
/// other port of the forwarding element if that one has none of the family; a link-local one last.
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
