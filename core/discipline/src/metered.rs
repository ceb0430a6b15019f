//! The accounting around any discipline: `received == sent + dropped + backlog`.
//!
//! An algorithm's author cannot forget to count, because the counting is outside the algorithm.
//! After each call, debug builds check that the counters balance, in packets and in bytes.

use weir_base::{Framing, Instant, Rate, Streams, Tally};
use weir_packet::{Class, DropCounters, Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, FlowReport, Ready};
use crate::fifo::Fifo;
use crate::spec::Spec;
use crate::waiting::Waiting;

/// A discipline with its ledger.
pub struct Metered {
    inner: Inner,
    ledger: Ledger,
    /// The rate to which the port paces the link; `None` without pacing.
    link_rate: Option<Rate>,
    framing: Framing,
    /// Rarely used, and therefore kept out of the memory that every packet touches.
    spec: Box<Spec>,
}

/// A discipline. The plain queue, which nearly every port of a network has, is stored inline, and calls to
/// it need no indirection.
enum Inner {
    Fifo(Fifo),
    Other(Box<dyn Discipline>),
}

/// Calls a method of the discipline; for a plain queue, without indirection.
macro_rules! each {
    ($inner:expr, $discipline:ident => $call:expr) => {
        match $inner {
            Inner::Fifo($discipline) => $call,
            Inner::Other($discipline) => $call,
        }
    };
}

impl Inner {
    fn build(spec: &Spec, now: Instant, streams: &Streams) -> Self {
        match spec.params::<Fifo>() {
            Some(params) => Self::Fifo(Fifo::build(params.clone(), now, streams)),
            None => Self::Other(spec.build(now, streams)),
        }
    }

    /// Applies parameters of the same kind; `false` if they are of another kind.
    fn apply(&mut self, spec: &Spec, now: Instant) -> bool {
        match self {
            Self::Fifo(fifo) => spec.apply(fifo, now),
            Self::Other(discipline) => spec.apply(&mut **discipline, now),
        }
    }
}

/// The new parameters are for a kind of discipline other than the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the running discipline is {in_place}, but the new parameters are for {offered}")]
pub struct SpecMismatch {
    /// Kind of the current discipline.
    pub in_place: &'static str,
    /// Kind of the parameters.
    pub offered: &'static str,
}

/// The packets and bytes that went through a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Offered to it.
    pub received: Tally,
    /// Sent by it.
    pub sent: Tally,
    /// Dropped in it.
    pub dropped: Tally,
    /// Marked in it.
    pub marked: Tally,
}

impl Metered {
    /// Builds the discipline of `spec` with an empty ledger.
    pub fn new(spec: Spec, now: Instant, streams: &Streams) -> Self {
        Self {
            inner: Inner::build(&spec, now, streams),
            spec: Box::new(spec),
            ledger: Ledger::default(),
            link_rate: None,
            framing: Framing::bytes(0),
        }
    }

    /// Sets the rate to which the port paces the link; `None` without pacing.
    pub fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate = rate;
        each!(&mut self.inner, d => d.set_link_rate(rate));
    }

    /// Sets how many bytes a frame occupies on the link.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        each!(&mut self.inner, d => d.set_framing(framing));
    }

    /// Offers a packet.
    #[inline]
    pub fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        self.ledger.received.count(packet.bytes());
        let admission = self.audited(cx, |inner, cx| each!(inner, d => d.enqueue(cx, packet)));
        self.balance();
        admission
    }

    /// Takes the next packet to send.
    #[inline]
    pub fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.audited(cx, |inner, cx| each!(inner, d => d.dequeue(cx)));
        if let Some(packet) = &packet {
            self.ledger.sent.count(packet.bytes());
        }
        self.balance();
        packet
    }

    /// Whether this number of packets, arriving together at an idle link, would all be dequeued in their order: true
    /// only for an empty plain queue that can hold them.
    #[inline]
    pub fn passes(&self, packets: usize) -> bool {
        matches!(&self.inner, Inner::Fifo(fifo) if fifo.passes(packets))
    }

    /// Counts packets that [pass](Self::passes), as if they were queued and taken at once.
    #[inline]
    pub fn pass(&mut self, packets: Tally) {
        self.ledger.received += packets;
        self.ledger.sent += packets;
        self.balance();
    }

    /// Runs the timer.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.audited(cx, |inner, cx| each!(inner, d => d.on_timeout(cx)));
        self.balance();
    }

    /// Touches the memory that `enqueue` will need.
    #[inline]
    pub fn prefetch(&self, cx: &Cx<'_>, packet: &Packet) {
        each!(&self.inner, d => d.prefetch(cx, packet));
    }

    /// Whether a packet could be taken now.
    #[inline]
    pub fn ready(&self, now: Instant) -> Ready {
        each!(&self.inner, d => d.ready(now))
    }

    /// When the timer is due.
    #[inline]
    pub fn timeout(&self) -> Option<Instant> {
        each!(&self.inner, d => d.timeout())
    }

    /// Packets and bytes held now.
    pub fn backlog(&self) -> Tally {
        each!(&self.inner, d => d.backlog())
    }

    /// The packets and bytes that went through so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// The current parameters.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether a packet of `class` would be queued.
    pub fn has_room(&self, class: Class) -> bool {
        each!(&self.inner, d => d.has_room(class))
    }

    /// Lets the discipline free memory that it does not need now.
    pub fn relax(&mut self) {
        each!(&mut self.inner, d => d.relax());
    }

    /// Bytes of memory that the discipline has allocated.
    pub fn state_bytes(&self) -> usize {
        each!(&self.inner, d => d.state_bytes())
    }

    /// Gauges of the discipline.
    pub fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        each!(&self.inner, d => d.inspect(report));
    }

    /// Reports the flows whose keys the discipline stores.
    pub fn flows(&self, now: Instant, report: &mut dyn FnMut(FlowReport)) {
        each!(&self.inner, d => d.flows(now, report));
    }

    /// Reports waiting packets, and the rule that decides their turn.
    pub fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        each!(&self.inner, d => d.waiting(report));
    }

    /// Applies new parameters of the same kind, and keeps all state.
    pub fn set(&mut self, spec: Spec, now: Instant) -> Result<(), SpecMismatch> {
        if !self.inner.apply(&spec, now) {
            return Err(SpecMismatch {
                in_place: self.spec.kind(),
                offered: spec.kind(),
            });
        }
        *self.spec = spec;
        self.balance();
        Ok(())
    }

    /// Applies `spec`. A discipline of the same kind keeps its state. A discipline of another kind takes
    /// over the packets in order, and drops by its own rules the packets that do not fit.
    pub fn reconfigure(&mut self, cx: &mut Cx<'_>, spec: Spec, streams: &Streams) {
        if !self.inner.apply(&spec, cx.now) {
            let mut held = Vec::with_capacity(self.backlog().packets as usize);
            each!(&mut self.inner, d => d.drain(&mut |packet| held.push(packet)));
            self.inner = Inner::build(&spec, cx.now, streams);
            each!(&mut self.inner, d => d.set_link_rate(self.link_rate));
            each!(&mut self.inner, d => d.set_framing(self.framing));
            for packet in held {
                self.audited(cx, |inner, cx| each!(inner, d => d.enqueue(cx, packet)));
            }
        }
        *self.spec = spec;
        self.balance();
    }

    /// Drops all held packets, because the port is removed.
    pub fn shut_down(&mut self, fates: &mut DropCounters, reason: Reason) {
        let dropped = &mut self.ledger.dropped;
        each!(&mut self.inner, d => d.drain(&mut |packet| {
            dropped.count(packet.bytes());
            fates.discard(packet, reason);
        }));
        self.balance();
    }

    /// Calls the discipline, and counts the packets that were dropped or marked during the call.
    #[inline]
    fn audited<T>(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Inner, &mut Cx<'_>) -> T,
    ) -> T {
        let (ended, marked) = (cx.fates.all_ended(), cx.fates.marked());
        let result = call(&mut self.inner, cx);
        // Usually nothing is dropped, and then there is nothing to write.
        if cx.fates.all_ended() != ended {
            self.ledger.dropped += cx.fates.all_ended() - ended;
        }
        if cx.fates.marked() != marked {
            self.ledger.marked += cx.fates.marked() - marked;
        }
        result
    }

    fn balance(&self) {
        let Ledger {
            received,
            sent,
            dropped,
            ..
        } = self.ledger;
        debug_assert_eq!(
            received,
            sent + dropped + each!(&self.inner, d => d.backlog()),
            "books of {} do not balance",
            self.spec.kind()
        );
    }
}
