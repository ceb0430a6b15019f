//! Processors of forwarding elements: the state machines of [`weir_fpf_path::process`], as a live FE would run them.
//!
//! ```text
//!   packet ──▶ bytes: the number under which its content is kept, padded to its IP length
//!   bytes ──▶ processor ──▶ bytes ..            a packet that a processor returned keeps its own bytes
//!   bytes ──▶ header is removed: a number, and zeros? ──▶ the content again; else dropped as not IP
//! ```
//!
//! Modelled packets have no bytes, but a processor needs bytes. So a packet is repaired only if a processor has
//! computed its bytes exactly. Lengths on the wire are those that the same packets have in a live router.
//!
//! An interest and its data have the bytes of real packets, so that a cache finds the name. An answer of the cache is a
//! packet of the flow whose addresses and ports are in its bytes.
//!
//! A packet that a processor consumes without output counts as delivered.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use weir_fpf_path::forward::NESTED_MAX;
use weir_fpf_path::header::Repr;
use weir_fpf_path::process::chunk::Message;
use weir_fpf_path::process::{Processor, ProcessorId, Taken};
use weir_packet::{Ecn, FlowKey, Reason, Shared, Slot};
use weir_sim::flight::{Chunk, Content, Flight};
use weir_sim::layer::Frame;
use weir_sim::{Fabric, NodeId, PortId};
use weir_wire::Protocol;
use weir_wire::chunk::NAME_LEN;
use weir_wire::ethernet::HEADER_LEN;

use super::Elements;

/// Maximum number of stored contents: many more than processors hold.
const KEPT_MAX: usize = 1 << 16;
/// Bytes of a number.
const NUMBER_LEN: usize = size_of::<u64>();

/// The processors of a network, and the bytes of packets in flight.
#[derive(Debug, Default)]
pub(super) struct Processors {
    by_router: HashMap<(NodeId, ProcessorId), Box<dyn Processor>>,
    /// By slot: the bytes of a packet that a processor returned, otherwise empty.
    bytes: Vec<Vec<u8>>,
    kept: VecDeque<Kept>,
    /// The number of the first stored content.
    first: u64,
    /// By flow: an interest or data of the flow, without name and content.
    chunks: HashMap<FlowKey, (Flight, Shared)>,
}

/// The content of a packet that a processor took.
#[derive(Clone, Copy, Debug)]
struct Kept {
    flight: Flight,
    key: Shared,
    ecn: Ecn,
    ip_len: usize,
}

impl Processors {
    /// Adds a processor to an FE.
    pub(super) fn set(&mut self, of: (NodeId, ProcessorId), processor: Box<dyn Processor>) {
        self.by_router.insert(of, processor);
    }

    /// A processor of an FE.
    pub(super) fn get(&self, of: (NodeId, ProcessorId)) -> Option<&dyn Processor> {
        self.by_router.get(&of).map(AsRef::as_ref)
    }

    /// Registers a flow of interests or of data.
    pub(super) fn know_chunks(&mut self, key: FlowKey, flight: Flight, shared: Shared) {
        self.chunks.insert(key, (flight, shared));
    }

    /// Forgets the bytes of a packet.
    pub(super) fn forget(&mut self, slot: Slot) {
        if let Some(bytes) = self.bytes.get_mut(slot.0 as usize) {
            bytes.clear();
        }
    }

    fn set_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        let place = slot.0 as usize;
        if self.bytes.len() <= place {
            self.bytes.resize(place + 1, Vec::new());
        }
        self.bytes[place] = bytes;
    }

    /// The bytes of a packet that a processor returned; `None` if no processor did.
    fn take_bytes(&mut self, slot: Slot) -> Option<Vec<u8>> {
        let bytes = self.bytes.get_mut(slot.0 as usize)?;
        Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())
    }

    /// Stores a content, and returns the bytes that represent it.
    fn keep(&mut self, kept: Kept) -> Vec<u8> {
        let number = self.first + self.kept.len() as u64;
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(kept);
        let mut bytes = vec![0; kept.ip_len.max(NUMBER_LEN)];
        bytes[..NUMBER_LEN].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// The interest or the data that these bytes represent.
    fn find_chunk(&self, bytes: &[u8]) -> Option<(Flight, Shared)> {
        let message = Message::read(bytes)?;
        let ends = [message.source, message.destination];
        let key = FlowKey::ip(
            ends[0].ip(),
            ends[1].ip(),
            Protocol::UDP.into(),
            ends[0].port(),
            ends[1].port(),
        );
        let (flight, key) = *self.chunks.get(&key)?;
        let name = message.name.first_chunk()?;
        let content = Content::Chunk(Chunk {
            name: u64::from_be_bytes(*name),
            content: message.content.map(|content| content.len() as u32),
        });
        Some((Flight { content, ..flight }, key))
    }

    /// The content that these bytes represent.
    fn find(&self, bytes: &[u8]) -> Option<Kept> {
        let (number, rest) = bytes.split_first_chunk::<NUMBER_LEN>()?;
        let place = u64::from_be_bytes(*number).checked_sub(self.first)?;
        let kept = self.kept.get(usize::try_from(place).ok()?)?;
        let is_whole = bytes.len() == kept.ip_len.max(NUMBER_LEN);
        (is_whole && rest.iter().all(|byte| *byte == 0)).then_some(*kept)
    }
}

impl Elements {
    /// Hands a packet to a processor; each packet that it returns continues with the vector of its leaf, or with its
    /// own vector if there is no such leaf.
    pub(super) fn process(
        &mut self,
        fabric: &mut Fabric,
        over: PortId,
        mut frame: Frame,
        number: ProcessorId,
        leaves: &[Repr],
        nested: u8,
    ) {
        if nested >= NESTED_MAX {
            return self.discard(fabric, over, &frame, Reason::FpfNested);
        }
        let router = fabric.port(over).to();
        let own = self.own_header(router, &frame);
        self.remove_header(&mut frame);
        let bytes = match self.processors.take_bytes(frame.slot) {
            Some(bytes) => bytes,
            None => self.bytes_of(fabric, &frame),
        };
        let place = (router, number);
        let Some(processor) = self.processors.by_router.get_mut(&place) else {
            return self.discard(fabric, over, &frame, Reason::FpfRule);
        };
        let mut given: Vec<(&Repr, Vec<u8>)> = Vec::new();
        let mut give = |leaf: usize, bytes: &[u8]| {
            let header = leaves.get(leaf).or(own.as_ref());
            given.extend(header.map(|header| (header, bytes.to_vec())));
        };
        let taken = Taken {
            from: over.0 as u16, // distinguishes the links of a router
            ..Taken::new(&bytes, fabric.now())
        };
        if let Err(reason) = processor.process(taken, &mut give) {
            return self.discard(fabric, over, &frame, reason);
        }
        let Some((last, before)) = given.split_last() else {
            return fabric.consume(&frame);
        };
        for (header, bytes) in before {
            let slot = fabric.flights_mut().duplicate(frame.slot);
            self.send_given(
                fabric,
                over,
                Frame { slot, ..frame },
                (header, bytes),
                nested,
            );
        }
        self.send_given(fabric, over, frame, (last.0, &last.1), nested);
    }

    /// The bytes of a packet that no processor has taken yet.
    fn bytes_of(&mut self, fabric: &Fabric, frame: &Frame) -> Vec<u8> {
        let flight = *fabric.flights().get(frame.slot);
        let key = *fabric.flights().keys().key_at(frame.slot);
        if let Content::Chunk(chunk) = flight.content
            && let Some(bytes) = chunk_bytes(&key, chunk)
        {
            return bytes;
        }
        self.processors.keep(Kept {
            flight,
            key: fabric.flights().keys().shared_at(frame.slot),
            ecn: frame.ecn,
            ip_len: frame.len as usize - HEADER_LEN,
        })
    }

    fn send_given(
        &mut self,
        fabric: &mut Fabric,
        over: PortId,
        mut frame: Frame,
        (header, bytes): (&Repr, &[u8]),
        nested: u8,
    ) {
        frame.len = (HEADER_LEN + bytes.len()) as u32;
        let processors = &mut self.processors;
        processors.set_bytes(frame.slot, bytes.to_vec());
        self.put(&mut frame, header);
        self.forward(fabric, over, frame, nested + 1);
    }

    /// Restores the content that the bytes of a packet represent, after its header was removed. A packet without bytes
    /// stays as it is. Returns whether it is an IP packet.
    pub(super) fn restore(&mut self, fabric: &mut Fabric, frame: &mut Frame) -> bool {
        let Some(bytes) = self.processors.take_bytes(frame.slot) else {
            return true;
        };
        if let Some(kept) = self.processors.find(&bytes) {
            fabric
                .flights_mut()
                .replace(frame.slot, kept.flight, kept.key);
            frame.ecn = kept.ecn;
            return true;
        }
        let Some((flight, key)) = self.processors.find_chunk(&bytes) else {
            return false;
        };
        let before = fabric.flights().get(frame.slot).content;
        let is_same =
            matches!((before, flight.content), (Content::Chunk(a), Content::Chunk(b)) if a == b);
        if !is_same {
            let sent = fabric.now();
            let flight = Flight { sent, ..flight };
            fabric.flights_mut().replace(frame.slot, flight, key);
        }
        true
    }
}

/// The bytes of an interest or of data.
fn chunk_bytes(key: &FlowKey, chunk: Chunk) -> Option<Vec<u8>> {
    let content = chunk.content.map(|len| vec![0; len as usize]);
    let mut name = [0; NAME_LEN];
    name[..NUMBER_LEN].copy_from_slice(&chunk.name.to_be_bytes());
    let message = Message {
        source: SocketAddr::new(key.source_ip()?, key.source_port),
        destination: SocketAddr::new(key.destination_ip()?, key.destination_port),
        name,
        content: content.as_deref(),
    };
    let mut bytes = Vec::new();
    message.write(&mut bytes).ok()?;
    Some(bytes)
}
