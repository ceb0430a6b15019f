//! A fair queue: packets wait in bins, and a rule shares the link between the bins.
//!
//! ```text
//!                 place +-> [ | | ]  --+
//!  arrivals ------------+-> [ ]        +-- next --> link
//!                       +-> [ | | | ]--+             too many packets: the longest bin loses some
//! ```
//!
//! This is the common part of `drr`, `stfq`, `sfq`, `fq_codel`, `host_fair` and `class_weights`; a [`Sharing`] is what
//! distinguishes them.

use weir_base::setting::SettingError;
use weir_base::{Instant, Streams, Tally};
use weir_packet::{Class, Discarded, KeyKind, Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::params::Parameters;
use crate::parts::bins::{Bins, Measure};
use crate::waiting::{Service, Waiting};

/// The bins with their parameters.
#[derive(Debug)]
pub(crate) struct Queues<P> {
    pub(crate) params: P,
    pub(crate) bins: Bins,
    /// Packets that the longest bin lost to make room.
    pub(crate) longest_flow: u64,
}

/// The layout of the bins.
pub(crate) struct Layout {
    /// The number of bins.
    pub(crate) bins: usize,
    /// The part of their flow keys that the packets of a bin have in common.
    pub(crate) key: Option<KeyKind>,
    /// Maximum packets held.
    pub(crate) limit: usize,
}

/// How bins share the link.
pub(crate) trait Sharing: Sized + Send + 'static {
    /// The parameters.
    type Params: Parameters;
    /// The manual page.
    const MANUAL: Manual;
    /// The measure of a bin's length.
    const MEASURE: Measure = Measure::Bytes;

    /// The layout of the bins.
    fn layout(params: &Self::Params) -> Layout;

    /// Checks that the parameters do not contradict each other.
    fn check(_params: &Self::Params) -> Result<(), SettingError> {
        Ok(())
    }

    /// Whether packets need other bins after a change of parameters, although the layout is the same.
    fn moves(_old: &Self::Params, _new: &Self::Params) -> bool {
        false
    }

    /// The state without any bin.
    fn new(params: &Self::Params, now: Instant, streams: &Streams) -> Self;

    /// Starts with this number of empty bins.
    fn renew(&mut self, bins: usize);

    /// Applies other parameters, after a change of the bins.
    fn change(&mut self, _old: &Self::Params, _new: &Self::Params, _now: Instant) {}

    /// The bin of a packet, if only its flow decides.
    #[inline]
    fn find(&self, queues: &Queues<Self::Params>, cx: &Cx<'_>, packet: &Packet) -> Option<usize> {
        let key = Self::layout(&queues.params).key?;
        Some(queues.bins.bin(cx.keys.hash(packet, key)))
    }

    /// Loads the memory that `enter` will need.
    fn touch(&self, _bin: usize) {}

    /// Called when a packet arrives and none is held: the busy period is over.
    fn settle(&mut self, _now: Instant) {}

    /// The bin of an arriving packet; `None` if the packet is dropped because that bin is full.
    #[inline]
    fn place(
        &mut self,
        queues: &mut Queues<Self::Params>,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
    ) -> Option<usize> {
        self.find(queues, cx, packet)
    }

    /// Called before a packet is queued in this bin.
    fn enter(&mut self, queues: &Queues<Self::Params>, cx: &Cx<'_>, packet: &Packet, bin: usize);

    /// Maximum packets that the longest bin loses when the limit is exceeded.
    #[inline]
    fn batch(_queues: &Queues<Self::Params>, _longest: usize) -> u64 {
        1
    }

    /// Called when this bin has lost packets because the limit was exceeded.
    #[inline]
    fn overflow(&mut self, _params: &Self::Params, _bin: usize, _now: Instant) {}

    /// Takes the next packet, and drops none.
    fn next(&mut self, queues: &mut Queues<Self::Params>, now: Instant) -> Option<Packet>;

    /// Takes the next packet to send.
    #[inline]
    fn dequeue(&mut self, queues: &mut Queues<Self::Params>, cx: &mut Cx<'_>) -> Option<Packet> {
        self.next(queues, cx.now)
    }

    /// Whether any packet would be queued.
    fn has_room(queues: &Queues<Self::Params>) -> bool {
        !queues.bins.is_full(Self::layout(&queues.params).limit)
    }

    /// When `on_timeout` should be called.
    fn timeout(&self, _queues: &Queues<Self::Params>) -> Option<Instant> {
        None
    }

    /// Called when the timer is due.
    fn on_timeout(&mut self, _queues: &mut Queues<Self::Params>, _cx: &mut Cx<'_>) {}

    /// Bytes of memory allocated besides the bins.
    fn heap_bytes(&self, params: &Self::Params) -> usize;

    /// Reports the gauges.
    fn inspect(&self, queues: &Queues<Self::Params>, report: &mut dyn FnMut(&'static str, u64));

    /// The rule that decides the turns of a bin.
    fn service(&self, _bin: usize) -> Service {
        Service::EVEN
    }
}

/// Bins that share the link.
#[derive(Debug)]
pub(crate) struct FairQueue<S: Sharing> {
    pub(crate) queues: Queues<S::Params>,
    pub(crate) sharing: S,
}

impl<S: Sharing> FairQueue<S> {
    /// Drops packets at the head of the longest bin; returns that bin and the last drop.
    #[inline]
    fn make_room(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Discarded)> {
        let Self { queues, sharing } = self;
        let bin = queues.bins.longest()?;
        let mut last = None;
        for _ in 0..S::batch(queues, bin) {
            let head = queues.bins.pop(bin)?;
            queues.longest_flow += 1;
            last = Some((bin, cx.fates.discard(head, Reason::LongestFlow)));
        }
        sharing.overflow(&queues.params, bin, cx.now);
        last
    }

    /// Takes the next packet, unjudged.
    fn next(&mut self, now: Instant) -> Option<Packet> {
        match self.queues.bins.pop_aside() {
            Some(packet) => Some(packet),
            None => self.sharing.next(&mut self.queues, now),
        }
    }
}

impl<S: Sharing> Configured for FairQueue<S> {
    type Params = S::Params;
    const MANUAL: Manual = S::MANUAL;

    fn limit(params: &S::Params) -> Result<usize, SettingError> {
        S::check(params).map(|()| S::layout(params).limit)
    }

    fn build(params: S::Params, now: Instant, streams: &Streams) -> Self {
        let Layout { bins, limit, .. } = S::layout(&params);
        let mut sharing = S::new(&params, now, streams);
        sharing.renew(bins);
        Self {
            queues: Queues {
                bins: Bins::new(bins, limit, S::MEASURE),
                params,
                longest_flow: 0,
            },
            sharing,
        }
    }

    fn change(&mut self, params: S::Params, now: Instant) {
        let (old, new) = (S::layout(&self.queues.params), S::layout(&params));
        let Layout { bins, key, limit } = new;
        if (bins, key) != (old.bins, old.key) || S::moves(&self.queues.params, &params) {
            let order = std::iter::from_fn(|| self.next(now)).collect();
            self.queues.bins.renew(bins, order);
            self.sharing.renew(bins);
        }
        self.queues.bins.reserve(limit);
        self.sharing.change(&self.queues.params, &params, now);
        self.queues.params = params;
    }
}

impl<S: Sharing> Discipline for FairQueue<S> {
    fn enqueue(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Admission {
        let Self { queues, sharing } = self;
        if queues.bins.held().packets == 0 {
            sharing.settle(cx.now);
        }
        let Some(bin) = sharing.place(queues, cx, &mut packet) else {
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        };
        sharing.enter(queues, cx, &packet, bin);
        let alone = queues.bins.is_empty(bin);
        queues.bins.push(bin, packet);
        if queues.bins.held().packets <= S::layout(&queues.params).limit as u64 {
            return Admission::Queued;
        }
        match self.make_room(cx) {
            Some((victim, ended)) if alone && victim == bin => Admission::Refused(ended),
            _ => Admission::Queued,
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.queues.bins.pop_aside() {
            Some(packet) => Some(packet),
            None => self.sharing.dequeue(&mut self.queues, cx),
        }
    }

    fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        if let Some(bin) = self.sharing.find(&self.queues, cx, packet) {
            self.queues.bins.touch(bin);
            self.sharing.touch(bin);
        }
    }

    fn has_room(&self, _class: Class) -> bool {
        S::has_room(&self.queues)
    }

    fn backlog(&self) -> Tally {
        self.queues.bins.held()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self)
            + self.queues.bins.state_bytes()
            + self.sharing.heap_bytes(&self.queues.params)
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        // No decision is made here, so the time does not matter: the discipline is being removed.
        std::iter::from_fn(|| self.next(Instant::ZERO)).for_each(out);
    }

    fn timeout(&self) -> Option<Instant> {
        self.sharing.timeout(&self.queues)
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.sharing.on_timeout(&mut self.queues, cx);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        self.sharing.inspect(&self.queues, report);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        let key = S::layout(&self.queues.params).key;
        let service = |bin| self.sharing.service(bin);
        self.queues.bins.waiting(key, service, report);
    }
}
