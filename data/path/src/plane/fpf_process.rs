//! FPF packets that a rule hands to a processor, and those that it gives back.
//!
//! ```text
//!  packet --> processor --> payloads --> [ Ethernet | FPF: the leaf's vector | payload ] --> decisions of the same FE
//!                |
//!                +--> none: the packet has ended as `fpf-processed`
//! ```
//!
//! In the books, the first packet that a processor gives is the one that it took; others are created, like copies.

use weir_packet::{Packet, Reason};
use weir_wire::ethernet;
use weir_wire::fpf::{Repr, View};

use crate::fpf::Table;
use crate::fpf::process::xor::REPAIRED;
use crate::fpf::process::{GIVES_MAX, Named, Processing, Processor};
use crate::plane::Plane;
use crate::plane::fpf::Entry;

/// A processor of the table in force.
#[derive(Debug)]
pub(crate) struct Running {
    named: Named,
    processor: Box<dyn Processor>,
    /// The leaf and the payload of each packet that it gave last; their memory is kept.
    given: [(usize, Vec<u8>); GIVES_MAX],
}

/// The processors of a table: with their state if they are among those before, which they leave.
pub(super) fn processors(table: &Table, before: &mut Vec<Running>) -> Vec<Running> {
    let processor = |named: &Named| {
        let kept = before.iter().position(|running| running.named == *named);
        kept.map_or_else(
            || Running {
                named: named.clone(),
                processor: named.function.start(),
                given: Default::default(),
            },
            |place| before.swap_remove(place),
        )
    };
    table.processors().iter().map(processor).collect()
}

impl Running {
    /// Hands a payload to the processor. Returns the number of packets that it gave, at least one.
    fn process(&mut self, payload: &[u8]) -> Result<usize, Reason> {
        let mut count = 0;
        let given = &mut self.given;
        self.processor.process(payload, &mut |leaf, bytes| {
            if let Some(place) = given.get_mut(count) {
                place.0 = leaf;
                place.1.clear();
                place.1.extend_from_slice(bytes);
                count += 1;
            }
        })?;
        match count {
            0 => Err(Reason::FpfProcessed),
            _ => Ok(count),
        }
    }
}

/// Packets that these have repaired.
pub(super) fn repaired(processors: &[Running]) -> u64 {
    let mut sum = 0;
    for running in processors {
        running.processor.inspect(&mut |gauge, value| {
            if gauge == REPAIRED {
                sum += value;
            }
        });
    }
    sum
}

impl Plane {
    /// Hands the payload of a packet with an FPF header of `len` bytes to a processor; each packet that this gives goes on
    /// with the vector of its leaf.
    #[cold]
    pub(super) fn process(
        &mut self,
        entry: Entry,
        packet: Packet,
        processing: &Processing,
        len: usize,
    ) {
        let number = processing.processor.0 as usize;
        let fpf = self.fpf.as_mut();
        let Some(running) = fpf.and_then(|fpf| fpf.processors.get_mut(number)) else {
            self.fates.discard(packet, Reason::FpfRule);
            return;
        };
        let frame = self.pool.frame(&packet);
        let payload = frame.get(ethernet::HEADER_LEN + len..).unwrap_or(&[]);
        let count = match running.process(payload) {
            Ok(count) => count,
            Err(reason) => {
                self.fates.discard(packet, reason);
                return;
            }
        };
        let given = std::mem::take(&mut running.given);
        for (n, (leaf, payload)) in given[..count].iter().enumerate() {
            if let Some(vector) = processing.leaves.get(*leaf)
                && let Some(made) = self.made_of(&packet, &Repr::first(*vector), payload, n > 0)
            {
                self.label_switch(entry, made);
            }
        }
        // Its bytes are in what was given.
        self.pool.release(packet);
        let fpf = self.fpf.as_mut();
        if let Some(running) = fpf.and_then(|fpf| fpf.processors.get_mut(number)) {
            running.given = given;
        }
    }

    /// A packet with the link header of another one; if there is none, it has ended with its reason.
    fn made_of(
        &mut self,
        packet: &Packet,
        header: &Repr,
        payload: &[u8],
        is_created: bool,
    ) -> Option<Packet> {
        let at = ethernet::HEADER_LEN + header.encoded_len();
        let len = at + payload.len();
        if is_created && !self.may_create(len as u64) {
            return None;
        }
        let Some(made) = self.pool.create(len, packet.arrived) else {
            let fits = len <= self.pool.frame_bytes_max();
            let reason = if fits { Reason::NoCopy } else { Reason::TooBig };
            self.fates.count_frame(len as u64, reason);
            return None;
        };
        let mut link = [0; ethernet::HEADER_LEN];
        link.copy_from_slice(&self.pool.frame(packet)[..ethernet::HEADER_LEN]);
        let frame = self.pool.frame_mut(&made);
        frame[..ethernet::HEADER_LEN].copy_from_slice(&link);
        header.emit(&mut View::new_unchecked(&mut frame[ethernet::HEADER_LEN..]));
        frame[at..].copy_from_slice(payload);
        Some(made)
    }
}
