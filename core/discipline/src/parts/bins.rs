//! Queues by flow hash in fixed memory, for fair queues.
//!
//! ```text
//!              +-> bin 0   [ | | ]
//!  flow hash --+-> bin 1   [ ]         one slab of cells; the longest bin is known at any time
//!              +-> bin n   [ | | | | ]
//!
//!  aside       [ | ]      packets from before a change of bins: they leave first
//! ```
//!
//! A new number of bins, or a new flow key, would scatter a flow's packets over an old and a new bin,
//! and let later packets overtake. Therefore the packets held at that moment are put aside in the order
//! in which they would have left, and leave before all others.

use std::hint::black_box;

use weir_base::setting::{Kind, Parameter};
use weir_base::{Bytes, Tally};
use weir_packet::{KeyKind, Packet};

use crate::parts::chain::{Chain, Slab};
use crate::parts::longest::Longest;
use crate::waiting::{REPORTS_MAX, Service, Waiting};

/// The `key` parameter.
pub(crate) const KEY: Parameter = Parameter::new(
    "key",
    Kind::Word(KeyKind::WORDS),
    "flow",
    "what counts as one flow",
);

/// The `buckets` parameter.
pub(crate) const BUCKETS: Parameter = Parameter::new(
    "buckets",
    Kind::Count(1, 65536),
    "1024",
    "queues that flows are hashed to",
);

/// The `quantum` parameter.
pub(crate) const QUANTUM: Parameter = Parameter::new(
    "quantum",
    Kind::Bytes(Bytes(256), Bytes(65536)),
    "1514 B",
    "bytes that a queue may send in one round; at least a full frame",
);

/// Name of the queue of packets that were put aside.
pub(crate) const ASIDE: &str = "packets queued before a change of parameters";

/// The measure of a bin's length, for finding the longest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// By packets.
    Packets,
    /// By bytes, in steps of 256.
    Bytes,
}

/// The bins.
#[derive(Debug)]
pub(crate) struct Bins {
    slab: Slab,
    chains: Box<[Chain]>,
    longest: Longest,
    measure: Measure,
    aside: Chain,
    held: Tally,
}

impl Bins {
    /// `bins` empty bins that share room for `limit` packets.
    pub(crate) fn new(bins: usize, limit: usize, measure: Measure) -> Self {
        let shift = match measure {
            Measure::Packets => 0,
            Measure::Bytes => 8,
        };
        Self {
            slab: Slab::new(limit + 1), // a packet is queued before another one makes room for it
            chains: vec![Chain::EMPTY; bins].into_boxed_slice(),
            longest: Longest::new(bins, shift),
            measure,
            aside: Chain::EMPTY,
            held: Tally::ZERO,
        }
    }

    /// The number of bins.
    pub(crate) fn count(&self) -> usize {
        self.chains.len()
    }

    /// The bin of a flow hash.
    pub(crate) fn bin(&self, hash: u64) -> usize {
        Self::place(hash, self.chains.len())
    }

    /// The bin, of `bins` bins, that the high bits of a flow hash select.
    pub(crate) fn place(hash: u64, bins: usize) -> usize {
        ((u128::from(hash) * bins as u128) >> 64) as usize
    }

    /// Loads the memory that `push` to this bin will need.
    pub(crate) fn touch(&self, bin: usize) {
        black_box(self.chains[bin].tally());
    }

    /// Queues a packet.
    #[inline]
    pub(crate) fn push(&mut self, bin: usize, packet: Packet) {
        self.held.count(packet.bytes());
        self.slab.push(&mut self.chains[bin], packet);
        self.remeasure(bin);
    }

    /// The longest bin, if any holds a packet.
    pub(crate) fn longest(&self) -> Option<usize> {
        self.longest.get()
    }

    /// Takes the packet at the head of a bin.
    pub(crate) fn pop(&mut self, bin: usize) -> Option<Packet> {
        let packet = self.slab.pop(&mut self.chains[bin])?;
        self.held.uncount(packet.bytes());
        self.remeasure(bin);
        Some(packet)
    }

    /// The length of the packet at the head of a bin.
    #[inline]
    pub(crate) fn front_bytes(&self, bin: usize) -> Option<u64> {
        self.front(bin).map(Packet::bytes)
    }

    /// Packets and bytes in a bin.
    pub(crate) fn tally(&self, bin: usize) -> Tally {
        self.chains[bin].tally()
    }

    /// Whether a bin holds nothing.
    pub(crate) fn is_empty(&self, bin: usize) -> bool {
        self.chains[bin].is_empty()
    }

    /// Packets and bytes in all bins, including packets put aside.
    pub(crate) fn held(&self) -> Tally {
        self.held
    }

    /// Whether one packet more would exceed `limit`.
    #[inline]
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        self.held.packets >= limit as u64
    }

    /// The packet at the head of a bin.
    pub(crate) fn front(&self, bin: usize) -> Option<&Packet> {
        self.slab.front(&self.chains[bin])
    }

    /// Reports the packets put aside, and the bins that hold packets, each with the rule that decides its turns.
    pub(crate) fn waiting(
        &self,
        common: Option<KeyKind>,
        service: impl Fn(usize) -> Service,
        report: &mut dyn FnMut(Waiting<'_>),
    ) {
        if let Some(first) = self.slab.front(&self.aside) {
            report(Waiting {
                first,
                held: self.aside.tally(),
                common: None,
                service: Service::Arrival(ASIDE),
            });
        }
        let bins = self.chains.iter().enumerate();
        let held = bins.filter_map(|(bin, chain)| Some((bin, chain, self.slab.front(chain)?)));
        for (bin, chain, first) in held.take(REPORTS_MAX - 1) {
            report(Waiting {
                first,
                held: chain.tally(),
                common,
                service: service(bin),
            });
        }
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        self.slab.state_bytes() + size_of_val(&*self.chains) + self.longest.state_bytes()
    }

    /// Takes the next packet that was put aside.
    #[inline]
    pub(crate) fn pop_aside(&mut self) -> Option<Packet> {
        let packet = self.slab.pop(&mut self.aside)?;
        self.held.uncount(packet.bytes());
        Some(packet)
    }

    /// Ensures room for `limit` packets in total.
    pub(crate) fn reserve(&mut self, limit: usize) {
        self.slab.reserve(limit + 1);
    }

    /// Ensures `bins` bins in total. Only for users that do not map flow hashes to bins by their number.
    pub(crate) fn reserve_bins(&mut self, bins: usize) {
        let mut chains = std::mem::take(&mut self.chains).into_vec();
        chains.resize(bins.max(chains.len()), Chain::EMPTY);
        self.chains = chains.into_boxed_slice();
        self.longest.reserve(bins);
    }

    /// Puts aside `order`, which must be all packets that the bins held, and starts with `bins` empty bins.
    pub(crate) fn renew(&mut self, bins: usize, order: Vec<Packet>) {
        let mut new = Self::new(bins, 0, self.measure);
        std::mem::swap(&mut new.slab, &mut self.slab);
        std::mem::swap(&mut new.aside, &mut self.aside);
        new.held = self.held;
        for packet in order {
            new.held.count(packet.bytes());
            new.slab.push(&mut new.aside, packet);
        }
        *self = new;
    }

    /// Distributes all packets over the bins again; `place` returns the new bin of each packet.
    pub(crate) fn rehash(&mut self, mut place: impl FnMut(&Packet) -> usize) {
        let mut all = Chain::EMPTY;
        for bin in 0..self.chains.len() {
            let chain = std::mem::replace(&mut self.chains[bin], Chain::EMPTY);
            self.slab.append(&mut all, chain);
            self.longest.set(bin, 0);
        }
        while let Some(packet) = self.slab.pop(&mut all) {
            let bin = place(&packet);
            self.slab.push(&mut self.chains[bin], packet);
            self.remeasure(bin);
        }
    }

    fn remeasure(&mut self, bin: usize) {
        let tally = self.chains[bin].tally();
        let length = match self.measure {
            Measure::Packets => tally.packets,
            // A frame without bytes does not exist, but a queued packet must count as something.
            Measure::Bytes => tally.bytes.max(tally.packets),
        };
        self.longest.set(bin, length);
    }
}
