//! One part of an attack: when it sends, and which flows.

use rand::RngExt;
use weir_base::random::Stream;
use weir_packet::FlowKey;

use crate::genome::Limb;
use crate::link::{BYTE, key};

/// The first source and the first destination of a part. The victim's address is zero.
const FIRST: [u32; 2] = [1 << 16, 1 << 20];

pub(crate) struct Part<'a> {
    pub(crate) limb: &'a Limb,
    /// Packets of this part that wait at the link.
    pub(crate) waiting: u32,
    /// The flows of this part, each with the number of packets left to send; and the flow that sends next.
    flows: Vec<(FlowKey, u32)>,
    next: usize,
}

impl<'a> Part<'a> {
    pub(crate) fn new(limb: &'a Limb) -> Self {
        Self {
            limb,
            waiting: 0,
            flows: Vec::new(),
            next: 0,
        }
    }

    /// The flow of a packet that makes one of the part's sources trusted, and the number of these sources.
    pub(crate) fn greeting(&self, number: u64) -> (FlowKey, u32) {
        let Limb {
            sources,
            destinations,
            ..
        } = *self.limb;
        let source = (number % u64::from(sources)) as u32;
        let to = FIRST[1] + source % destinations;
        (key(FIRST[0] + source, to, 1024), sources)
    }

    /// The packet that the part sends now, if not too many wait, and when it sends again. Times count from the part's
    /// start.
    pub(crate) fn send(&mut self, now: u64, chance: &mut Stream) -> (Option<(FlowKey, u32)>, u64) {
        let of = self.limb;
        let bytes = of.bytes[usize::from(!chance.random_bool(of.mix))];
        // The shorter the duty cycle, the faster the part sends.
        let gap = f64::from(bytes) * BYTE as f64 / of.rate * of.duty;
        let next = now + gap as u64 + 1;
        let period = (of.period_ms * 1e6) as u64;
        let is_on = (next % period) as f64 <= period as f64 * of.duty;
        let pause = if is_on { 0 } else { period - next % period };
        let sends = self.waiting < of.window;
        self.waiting += u32::from(sends);
        (sends.then(|| (self.flow(chance), bytes)), next + pause)
    }

    fn flow(&mut self, chance: &mut Stream) -> FlowKey {
        let of = self.limb;
        let at = self.next;
        self.next = (at + 1) % of.width;
        if let Some((key, left)) = self.flows.get_mut(at).filter(|(_, left)| *left > 0) {
            *left -= 1;
            return *key;
        }
        let source = chance.random_range(0..of.sources);
        let any = if of.is_bound {
            source % of.destinations
        } else {
            chance.random_range(0..of.destinations)
        };
        let to = if chance.random_bool(of.to_victim) {
            0
        } else {
            FIRST[1] + any
        };
        let port = 1024 + chance.random_range(0..of.ports);
        let key = key(FIRST[0] + source, to, port);
        match self.flows.get_mut(at) {
            Some(flow) => *flow = (key, of.life - 1),
            None => self.flows.push((key, of.life - 1)),
        }
        key
    }
}
