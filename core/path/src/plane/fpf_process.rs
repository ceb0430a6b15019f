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

use weir_base::{Instant, Tally};
use weir_packet::key::FlowKey;
use weir_packet::{Packet, Reason};
use weir_wire::ethernet;
use weir_wire::fpf::{Repr, View};

use crate::classify::{Classified, classify};
use crate::egress::encapsulation;
use crate::fpf::forward;
use crate::fpf::process::running::Running;
use crate::fpf::process::{Processing, Taken, segment};
use crate::headers::Parsed;
use crate::plane::Plane;
use crate::plane::fpf::Entry;

impl Plane {
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
        let fpf = self.fpf.as_deref_mut();
        let running = fpf.and_then(|fpf| Some((fpf.processors.get_mut(number)?, &mut fpf.stats)));
        let Some((running, stats)) = running else {
            self.fates.discard(packet, Reason::FpfRule);
            return;
        };
        let frame = self.pool.frame(&packet);
        let processed = running.process(Taken {
            payload: frame.get(ethernet::HEADER_LEN + len..).unwrap_or(&[]),
            at: entry.at,
            from: entry.input.interface(),
            room,
        });
        running.count_given_up(&mut stats.created, &mut self.fates);
        if let Err(reason) = processed {
            self.fates.discard(packet, reason);
            return;
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
        self.pool.release(packet);
        let fpf = self.fpf.as_mut();
        if let Some(running) = fpf.and_then(|fpf| fpf.processors.get_mut(number)) {
            running.given = given;
        }
    }

    /// Finds the flow key of a packet whose payload, at offset `at` in its frame, may be a segment. The key of a
    /// segment is the two MAC addresses, and the number of the flow.
    #[cold]
    pub(super) fn classify_segment(&mut self, parsed: Parsed, at: usize) -> Classified {
        let frame = self.pool.frame(&parsed.packet);
        let flow = segment::flow_of(frame, at);
        let link = ethernet::View::new_checked(frame);
        let key = link.map(|link| FlowKey::link(link.source(), link.destination()));
        let Classified { packet, headers } = classify(&mut self.pool, parsed);
        if let (Some(source_port), Ok(key)) = (flow, key) {
            let key = FlowKey { source_port, ..key };
            self.pool.keys.set(packet.slot, key);
        }
        Classified { packet, headers }
    }

    /// The header of a packet that continues with its own vector, if this rule permits that.
    fn own_header(&self, packet: &Packet, processing: &Processing) -> Option<Repr> {
        let table = &self.fpf.as_ref()?.table;
        if !table.goes_on(processing) {
            return None;
        }
        let bytes = self.pool.frame(packet).get(ethernet::HEADER_LEN..)?;
        let header = Repr::parse(&View::new_checked(bytes).ok()?).ok()?;
        forward::onward(&header, table.domain().lid_size())
    }

    /// Lets processors give up packets that have waited for too long. Returns the time of the next timeout.
    #[inline]
    pub(super) fn expire_processed(&mut self, now: Instant) -> Option<Instant> {
        let fpf = self.fpf.as_mut()?;
        let due = |running: &Running| running.processor.poll_timeout();
        let next = fpf.processors.iter().filter_map(due).min()?;
        if next > now {
            return Some(next);
        }
        for running in &mut fpf.processors {
            running.processor.handle_timeout(now);
            running.count_given_up(&mut fpf.stats.created, &mut self.fates);
        }
        fpf.processors.iter().filter_map(due).min()
    }

    /// Gives up all packets that these processors hold, because the processors are no longer in the table.
    pub(super) fn end_processors(&mut self, gone: Vec<Running>) {
        let mut none = Tally::ZERO;
        let fpf = self.fpf.as_mut();
        let created = fpf.map_or(&mut none, |fpf| &mut fpf.stats.created);
        for mut running in gone {
            running.processor.handle_timeout(Instant::FAR_FUTURE);
            running.count_given_up(created, &mut self.fates);
        }
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
        let Some(mut made) = self.pool.create(bare, packet.arrived) else {
            let fits = bare <= self.pool.frame_bytes_max();
            let reason = if fits { Reason::NoCopy } else { Reason::TooBig };
            self.fates.count_frame(len as u64, reason);
            return None;
        };
        let mut link = [0; ethernet::HEADER_LEN];
        link.copy_from_slice(&self.pool.frame(packet)[..ethernet::HEADER_LEN]);
        let frame = self.pool.frame_mut(&made);
        frame[..ethernet::HEADER_LEN].copy_from_slice(&link);
        frame[ethernet::HEADER_LEN..].copy_from_slice(payload);
        if !encapsulation::replace_fpf(&mut self.pool, &mut made, 0, header) {
            self.fates.discard(made, Reason::TooBig);
            return None;
        }
        Some(made)
    }
}
