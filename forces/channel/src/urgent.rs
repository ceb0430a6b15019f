//! Redirects that go before others: packets of routing protocols and of neighbour discovery
//! ([`Priority::URGENT_REDIRECT`]).
//!
//! Each protocol of each port has a short queue, and the queues are served round-robin. So packets that pretend to be
//! of one protocol cannot displace the packets of another protocol or port.

use std::collections::VecDeque;

use weir_protocol::wire::header::{HEADER_LEN, Priority, View};
use weir_protocol::wire::message::packet_redirect;
use weir_protocol::wire::redirect::{MetadataId, RedirectPort};
use weir_wire::EtherType;
use weir_wire::routing::RoutingProtocol;

use crate::Channel;

/// Maximum messages of one protocol of one port.
const MESSAGES_MAX: usize = 32;
/// Maximum protocols, of all ports, that wait at a time.
const FLOWS_MAX: usize = 64;

/// Maximum bytes that it may send in a row after messages of the other queue.
const CREDIT_MAX: i64 = 1500;

/// A protocol at a port; `None`: neighbour discovery.
type Flow = (u32, Option<RoutingProtocol>);

/// The waiting messages, in the order of service.
#[derive(Debug, Default)]
pub(crate) struct Urgent {
    flows: VecDeque<(Flow, VecDeque<Vec<u8>>)>,
    /// Bytes by which it has sent more than the other queue while both had messages; at least minus [`CREDIT_MAX`].
    lead: i64,
}

impl Urgent {
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether its next message goes before the other queue's. Together, urgent messages get half of the link while
    /// others wait.
    pub(crate) fn is_first(&self) -> bool {
        !self.is_empty() && self.lead <= 0
    }

    /// Queues a message; gives it back if there is no room.
    pub(crate) fn push(&mut self, flow: Flow, message: Vec<u8>) -> Result<(), Vec<u8>> {
        let has_room = self.flows.len() < FLOWS_MAX;
        match self.flows.iter_mut().find(|(own, _)| *own == flow) {
            Some((_, waiting)) if waiting.len() < MESSAGES_MAX => waiting.push_back(message),
            None if has_room => self.flows.push_back((flow, VecDeque::from([message]))),
            _ => return Err(message),
        }
        Ok(())
    }

    /// Takes the next message.
    pub(crate) fn pop(&mut self, others_wait: bool) -> Option<Vec<u8>> {
        let (flow, mut waiting) = self.flows.pop_front()?;
        let message = waiting.pop_front();
        if !waiting.is_empty() {
            self.flows.push_back((flow, waiting));
        }
        let bytes = message.as_ref().map_or(0, Vec::len) as i64;
        self.lead = if others_wait { self.lead + bytes } else { 0 };
        message
    }

    /// Counts a message of the other queue.
    pub(crate) fn count_other(&mut self, bytes: usize) {
        if !self.is_empty() {
            self.lead = (self.lead - bytes as i64).max(-CREDIT_MAX);
        }
    }
}

/// The flow of an urgent message; `None` if it is another one.
pub(crate) fn flow_of(message: &[u8]) -> Option<Flow> {
    if Channel::of(message) != Channel::Redirect {
        return None;
    }
    let header = View::new_checked(message).ok()?;
    if header.flags().priority != Priority::URGENT_REDIRECT {
        return None;
    }
    let redirect = packet_redirect::views(message.get(HEADER_LEN..)?)
        .next()?
        .ok()?;
    let (mut port, mut ethertype, mut is_frame) = (None, None, false);
    for metadatum in redirect.metadata() {
        let (id, value) = metadatum.ok()?;
        let number = value.try_into().ok().map(u32::from_be_bytes);
        match MetadataId::from(id) {
            MetadataId::PhyPortId | MetadataId::L3PortId => port = number,
            MetadataId::RedirectIndex => {
                is_frame = number.map(RedirectPort::from) == Some(RedirectPort::Frame);
            }
            MetadataId::EtherType => {
                let number = value.try_into().ok().map(u16::from_be_bytes);
                ethertype = number.map(EtherType::from);
            }
            _ => {}
        }
    }
    let packet = redirect.packet()?;
    let protocol = match ethertype {
        _ if is_frame => RoutingProtocol::of_frame(packet),
        Some(ethertype) => RoutingProtocol::of_payload(ethertype, packet),
        None => None,
    };
    Some((port?, protocol))
}
