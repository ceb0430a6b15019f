//! The running processors of a table.

use std::ops::Range;

use weir_base::Tally;
use weir_packet::{DropCounters, Reason};

use super::{GIVES_MAX, Named, Processor, Taken};

/// A processor of the current table.
#[derive(Debug)]
pub(crate) struct Running {
    named: Named,
    pub(crate) processor: Box<dyn Processor>,
    pub(crate) given: Given,
}

/// The packets that a processor gave last; their memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The leaf of each packet, and its payload in `bytes`.
    pub(crate) packets: Vec<(usize, Range<usize>)>,
    pub(crate) bytes: Vec<u8>,
}

/// Starts the processors of a table. A processor that is also in `before` is moved from there, with its state.
pub(crate) fn processors(all: &[Named], before: &mut Vec<Running>) -> Vec<Running> {
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
    all.iter().map(processor).collect()
}

impl Running {
    /// Hands a packet to the processor. Returns an error if it gave no packet.
    pub(crate) fn process(&mut self, packet: Taken<'_>) -> Result<(), Reason> {
        let Given { packets, bytes } = &mut self.given;
        packets.clear();
        bytes.clear();
        self.processor.process(packet, &mut |leaf, payload| {
            if packets.len() < GIVES_MAX {
                let start = bytes.len();
                bytes.extend_from_slice(payload);
                packets.push((leaf, start..bytes.len()));
            }
        })?;
        if packets.is_empty() {
            Err(Reason::FpfProcessed)
        } else {
            Ok(())
        }
    }

    /// Counts the packets that the processor has given up, as created and as dropped.
    pub(crate) fn count_given_up(&mut self, created: &mut Tally, fates: &mut DropCounters) {
        while let Some(bytes) = self.processor.poll_given_up() {
            created.count(bytes as u64);
            fates.count_frame(bytes as u64, Reason::FpfIncomplete);
        }
    }
}

/// The sum of a gauge over all processors that have it.
pub(crate) fn gauge(processors: &[Running], name: &str) -> u64 {
    let mut sum = 0;
    for running in processors {
        running.processor.inspect(&mut |gauge, value| {
            if gauge == name {
                sum += value;
            }
        });
    }
    sum
}
