//! One association of `sctp-proto`, which sends and reassembles; this crate implements the rest of SCTP.
//!
//! The library never sees an INIT, a cookie, a heartbeat or the end of an association. It starts established
//! (draft-hancke-tsvwg-snap), with the parameters on which both sides agreed, and gets only DATA, SACK and FORWARD TSN,
//! after [`super::gate`]. Its payload identifiers are those of WebRTC: on receive, [`OURS`] stands for the right
//! identifier and [`FOREIGN`] for any other; on send, the association writes the right identifier.
//!
//! Costs that only another library could save: two checksums for each sent packet and three for each received packet,
//! because the library writes and checks its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use bytes::Bytes;
use sctp_proto::{
    AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ReliabilityType, TransportConfig,
};
use weir_base::{Instant, Span};

use super::channel::{Channel, MESSAGE_MAX};
use super::cookie::{Contract, Path};
use super::init::Init;

/// Stands for the payload identifier of the channel.
pub const OURS: u32 = PayloadProtocolIdentifier::Binary as u32;
/// Stands for any other payload identifier.
pub const FOREIGN: u32 = PayloadProtocolIdentifier::String as u32;

/// Maximum length of an SCTP packet in octets: with UDP and IPv6 it fits an Ethernet frame of 1500 octets.
const PACKET_LEN: u32 = 1448;
/// Octets of overhead for a DATA chunk, including the packet's header.
const DATA_OVERHEAD: u32 = 28;
/// Octets that the library may add beyond its limit: padding and one chunk's header.
const SLACK: u32 = 20;
/// Octets of fragments that the library may hold: a message, and data that arrive before a lost fragment.
const FRAGMENTS_MAX: u32 = 1 << 20;

/// Retransmission timers. RFC 9260, 16 recommends 1 s, 1 s and 60 s for the Internet; these values suit a LAN, where
/// each packet is acknowledged at once.
const RTO_INITIAL: Span = Span::from_millis(500);
const RTO_MIN: Span = Span::from_millis(100);
const RTO_MAX: Span = Span::from_secs(2);

/// Converts instants for the library.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(SystemInstant);

impl Epoch {
    /// Instant zero is `start`, which only has to be the same in all calls.
    pub fn new(start: SystemInstant) -> Self {
        Self(start)
    }

    fn to_library(self, instant: Instant) -> SystemInstant {
        self.0 + Duration::from_nanos(instant.as_nanos())
    }

    fn of_library(self, instant: SystemInstant) -> Instant {
        let since = instant.saturating_duration_since(self.0).as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// A message reassembled by the library.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A message whose fragments all had the channel's payload identifier.
    Message(Vec<u8>),
    /// A message with another payload identifier.
    Foreign,
}

/// The library's association.
#[derive(Debug)]
pub struct Library {
    epoch: Epoch,
    remote: SocketAddr,
    endpoint: Endpoint,
    handle: AssociationHandle,
    association: sctp_proto::Association,
    lost: Option<String>,
}

const STREAM: u16 = 0;

impl Library {
    /// Creates the agreed association. `None` for a contract that the library does not accept: equal tags.
    pub fn new(epoch: Epoch, channel: Channel, path: &Path, contract: &Contract) -> Option<Self> {
        let mut config = EndpointConfig::new();
        config.max_payload_size(PACKET_LEN - DATA_OVERHEAD - SLACK);
        let mut endpoint = Endpoint::new(Arc::new(config), None);
        let transport = TransportConfig::default()
            .with_local_port(path.local_port)
            .with_remote_port(path.remote_port)
            .with_max_num_inbound_streams(1)
            .with_max_num_outbound_streams(1)
            .with_max_send_message_size(MESSAGE_MAX as u32)
            .with_max_receive_message_size(MESSAGE_MAX as u32)
            .with_max_receive_buffer_size(FRAGMENTS_MAX)
            .with_rto_initial_ms(millis(RTO_INITIAL))
            .with_rto_min_ms(millis(RTO_MIN))
            .with_rto_max_ms(millis(RTO_MAX));
        let token = |init: &Init| Bytes::from(init.token());
        let mut client = ClientConfig::new();
        client.transport = Arc::new(transport);
        let client = client.with_snap(token(&contract.ours), token(&contract.theirs));
        // The library refuses to connect to port zero, and does not use the address for anything else.
        let remote = SocketAddr::new(path.remote.ip(), path.remote.port().max(1));
        let (handle, mut association) = endpoint.connect(client, remote).ok()?;
        let mut stream = association
            .open_stream(STREAM, PayloadProtocolIdentifier::Binary)
            .ok()?;
        if let Some(lifetime) = channel.lifetime() {
            stream
                .set_reliability_params(false, ReliabilityType::Timed, millis(lifetime) as u32)
                .ok()?;
        }
        Some(Self {
            epoch,
            remote,
            endpoint,
            handle,
            association,
            lost: None,
        })
    }

    /// Handles a packet whose chunks have passed the gate.
    pub fn handle_packet(&mut self, now: Instant, packet: Vec<u8>) {
        let now = self.epoch.to_library(now);
        let event = self
            .endpoint
            .handle(now, self.remote, None, None, Bytes::from(packet));
        if let Some((handle, DatagramEvent::AssociationEvent(event))) = event
            && handle == self.handle
        {
            self.association.handle_event(event);
        }
        self.take_events();
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(self.epoch.to_library(now));
        self.take_events();
    }

    /// Time for the next call of [`Library::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let at = self.association.poll_timeout()?;
        Some(self.epoch.of_library(at))
    }

    /// Returns packets to send, with checksums, and with the library's own payload identifiers.
    pub fn poll_packets(&mut self, now: Instant) -> Vec<Bytes> {
        let now = self.epoch.to_library(now);
        let mut packets = Vec::new();
        while let Some(transmit) = self.association.poll_transmit(now) {
            if let Payload::RawEncode(contents) = transmit.payload {
                packets.extend(contents);
            }
        }
        packets
    }

    /// Returns the next message in order.
    pub fn poll_message(&mut self) -> Option<Arrived> {
        let chunks = self.association.stream(STREAM).ok()?.read_sctp().ok()??;
        if chunks.ppi != PayloadProtocolIdentifier::Binary {
            return Some(Arrived::Foreign);
        }
        let mut message = vec![0; chunks.len()];
        chunks.read(&mut message).ok()?;
        Some(Arrived::Message(message))
    }

    /// Queues a message to send; false if the association has ended.
    pub fn send(&mut self, message: &[u8]) -> bool {
        let Ok(mut stream) = self.association.stream(STREAM) else {
            return false;
        };
        stream.write(message).is_ok()
    }

    /// Unacknowledged octets of messages.
    pub fn unacknowledged(&mut self) -> usize {
        let stream = self.association.stream(STREAM);
        stream
            .and_then(|stream| stream.buffered_amount())
            .unwrap_or_default()
    }

    /// Why the library has given up the association; `None` if it has not.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn take_events(&mut self) {
        while let Some(event) = self.association.poll() {
            match event {
                Event::AssociationLost { reason } | Event::HandshakeFailed { reason } => {
                    self.lost = Some(reason.to_string());
                }
                _ => {}
            }
        }
        while self.association.accept_stream().is_some() {}
        while self.association.poll_endpoint_event().is_some() {}
    }
}

fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}
