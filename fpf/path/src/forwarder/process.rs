//! FPF packets that a rule hands to a processor, and the packets that the processor gives back.
//!
//! ```text
//!  packet --> processor --> payloads --> [ Ethernet | FPF: the leaf's vector | payload ] --> decisions of the same FE
//!                |
//!                +--> none: the packet ends with reason `fpf-processed`
//! ```
//!
//! In the counters, the first packet that a processor gives is the packet that it took; other packets count as created,
//! like copies. A packet that the processor gives up counts as created and as dropped.

use weir_base::Instant;
use weir_packet::key::FlowKey;
use weir_packet::{Packet, Pool, Reason};
use weir_path::classify::{Classified, classify};
use weir_path::headers::Parsed;
use weir_path::plane::Plane;
use weir_wire::ethernet;

use crate::encapsulation;
use crate::forward;
use crate::header::{Repr, View};
use crate::process::running::Running;
use crate::process::{Processing, Taken, segment};

use super::{Entry, Forwarder, Forwarding};

impl Forwarder {
    /// Lets processors give up packets that have waited for too long. Returns the time of the next timeout.
    pub(crate) fn expire(&mut self, plane: &mut Plane, now: Instant) -> Option<Instant> {
        let due = |running: &Running| running.processor.poll_timeout();
        let next = self.processors.iter().filter_map(due).min()?;
        if next > now {
            return Some(next);
        }
        self.give_up(plane, now);
        self.processors.iter().filter_map(due).min()
    }

    /// Gives up the packets that processors hold and that have waited since before `now`.
    pub(crate) fn give_up(&mut self, plane: &mut Plane, now: Instant) {
        for running in &mut self.processors {
            running.processor.handle_timeout(now);
            running.count_given_up(&mut self.stats.created, &mut plane.fates);
        }
    }
}

impl Forwarding<'_> {
    /// Hands the payload of a packet with an FPF header of `len` bytes to a processor; each packet that the processor
    /// gives continues with the vector of its leaf, or with the vector of the packet.
    #[cold]
    pub(super) fn process(
        &mut self,
        entry: Entry,
        packet: Packet,
        processing: &Processing,
        len: usize,
    ) {
        let own = self.own_header(&packet, processing);
        let room = own.map_or(usize::MAX, |own| self.payload_room(entry.input, &own));
        let number = processing.processor.0 as usize;
        let Some(running) = self.fpf.processors.get_mut(number) else {
            return self.plane.discard(packet, Reason::FpfRule);
        };
        let frame = self.plane.pool.frame(&packet);
        let processed = running.process(Taken {
            payload: frame.get(ethernet::HEADER_LEN + len..).unwrap_or(&[]),
            at: entry.at,
            from: entry.input.interface(),
            room,
        });
        running.count_given_up(&mut self.fpf.stats.created, &mut self.plane.fates);
        if let Err(reason) = processed {
            return self.plane.discard(packet, reason);
        }
        let given = std::mem::take(&mut running.given);
        for (n, (leaf, range)) in given.packets.iter().enumerate() {
            let leaf = processing.leaves.get(*leaf).map(|leaf| Repr::first(*leaf));
            let payload = &given.bytes[range.clone()];
            if let Some(header) = leaf.or(own)
                && let Some(made) = self.made_of(&packet, &header, payload, n > 0)
            {
                self.label_switch(entry, made);
            }
        }
        // The given packets contain its bytes.
        self.plane.pool.release(packet);
        if let Some(running) = self.fpf.processors.get_mut(number) {
            running.given = given;
        }
    }

    /// The header of a packet that continues with its own vector, if this rule permits that.
    fn own_header(&self, packet: &Packet, processing: &Processing) -> Option<Repr> {
        let table = &self.fpf.table;
        if !table.goes_on(processing) {
            return None;
        }
        let bytes = self.plane.pool.frame(packet).get(ethernet::HEADER_LEN..)?;
        let header = Repr::parse(&View::new_checked(bytes).ok()?).ok()?;
        forward::onward(&header, table.domain().lid_size())
    }

    /// A packet with the link header of another packet; `None` if it cannot be made, which is counted with its reason.
    fn made_of(
        &mut self,
        packet: &Packet,
        header: &Repr,
        payload: &[u8],
        is_created: bool,
    ) -> Option<Packet> {
        let bare = ethernet::HEADER_LEN + payload.len();
        let len = bare + header.encoded_len();
        if is_created && !self.may_create(len as u64) {
            return None;
        }
        let Some(mut made) = self.plane.pool.create(bare, packet.arrived) else {
            let fits = bare <= self.plane.pool.frame_bytes_max();
            let reason = if fits { Reason::NoCopy } else { Reason::TooBig };
            self.plane.fates.count_frame(len as u64, reason);
            return None;
        };
        let mut link = [0; ethernet::HEADER_LEN];
        link.copy_from_slice(&self.plane.pool.frame(packet)[..ethernet::HEADER_LEN]);
        let frame = self.plane.pool.frame_mut(&made);
        frame[..ethernet::HEADER_LEN].copy_from_slice(&link);
        frame[ethernet::HEADER_LEN..].copy_from_slice(payload);
        if !encapsulation::replace_fpf(&mut self.plane.pool, &mut made, 0, header) {
            self.plane.discard(made, Reason::TooBig);
            return None;
        }
        Some(made)
    }
}

/// Finds the flow key of a packet whose payload, at offset `at` in its frame, may be a segment. The key of a segment is
/// the two MAC addresses, and the number of the flow.
#[cold]
pub(super) fn classify_segment(pool: &mut Pool, parsed: Parsed, at: usize) -> Classified {
    let frame = pool.frame(&parsed.packet);
    let flow = segment::flow_of(frame, at);
    let link = ethernet::View::new_checked(frame);
    let key = link.map(|link| FlowKey::link(link.source(), link.destination()));
    let Classified { packet, headers } = classify(pool, parsed);
    if let (Some(source_port), Ok(key)) = (flow, key) {
        let key = FlowKey { source_port, ..key };
        pool.keys.set(packet.slot, key);
    }
    Classified { packet, headers }
}
