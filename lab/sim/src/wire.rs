//! One direction of a link: its sender and its frames.

use weir_base::{Instant, Rate, Span, Streams, Tally};
use weir_discipline::metered::Ledger;
use weir_discipline::{Spec, SpecMismatch};
use weir_packet::{DropCounters, Packet, Reason};
use weir_path::egress::port::{Link, Port, Transmission};

use crate::analytic_fifo::AnalyticFifo;
use crate::flight::Flights;
use crate::frame::{Frame, Ring};
use crate::id::NodeId;
use crate::line::{Line, LineSpec};
use crate::meter::Watch;
use crate::round_trips::Measured;

/// One direction of a link.
pub(crate) struct Wire {
    pub(crate) sender: Sender,
    /// The node at the other end.
    pub(crate) to: NodeId,
    /// Propagation delay of the link.
    pub(crate) delay: Span,
    /// Frames in flight and, for a plain queue, also those that wait.
    pub(crate) ring: Ring,
    /// Whether the wire is on the list of ports to be stepped at this instant.
    pub(crate) touched: bool,
    /// Whether the link is cut: nothing is sent, and nothing in flight arrives.
    pub(crate) is_cut: bool,
    /// Whether the port at the other end measures round trips, so that it must see the arriving frames.
    pub(crate) is_measured: bool,
}

/// The sender of a link.
pub(crate) enum Sender {
    /// A FIFO that is not watched, in front of a link with a delay.
    AnalyticFifo(AnalyticFifo),
    /// Any other port.
    Stepped(Box<Stepped>),
}

/// A port that is stepped at each of its events.
pub(crate) struct Stepped {
    pub(crate) port: Port,
    /// The line that takes its frames instead of a link with a constant rate and delay.
    pub(crate) line: Option<Box<Line>>,
    /// Time of its next step; events for other times are obsolete.
    pub(crate) wake: Instant,
    /// The record of the port, if it is watched.
    pub(crate) watch: Option<Box<Watch>>,
    /// The round trips of the port, if they are measured.
    pub(crate) round_trips: Option<Box<Measured>>,
}

impl Stepped {
    fn new(port: Port) -> Self {
        Self {
            port,
            line: None,
            wake: Instant::FAR_FUTURE,
            watch: None,
            round_trips: None,
        }
    }

    /// Does the work due at `now`: frames that the link starts are added to `ring`, and travel for `delay`. Returns the
    /// time of the next step, unless that is already scheduled.
    #[inline]
    pub(crate) fn step(
        &mut self,
        now: Instant,
        delay: Span,
        ring: &mut Ring,
        flights: &Flights,
        fates: &mut DropCounters,
    ) -> Option<Instant> {
        if self.line.is_some() {
            return self.step_to_line(now, ring, flights, fates);
        }
        if self.watch.is_none()
            && let Some((packet, sending)) = self.port.pass(now)
        {
            ring.push(flights.frame(&packet, sending, delay));
            return None;
        }
        let watch = &mut self.watch;
        let mut departed = |packet: Packet, sending: Transmission| {
            let flight = flights.get(packet.slot);
            if let Some(watch) = watch
                && flight.content.counts()
            {
                let key = flights.keys.key(&packet);
                watch.passed(&packet, flight, key, sending.start);
            }
            ring.push(flights.frame(&packet, sending, delay));
        };
        let next = self
            .port
            .step(now, &flights.keys, fates, usize::MAX, &mut departed)
            .filter(|next| *next != self.wake)?;
        self.wake = next;
        Some(next)
    }

    /// [`Self::step`] in front of a line, which may take frames one at a time, and may lose some.
    fn step_to_line(
        &mut self,
        now: Instant,
        ring: &mut Ring,
        flights: &Flights,
        fates: &mut DropCounters,
    ) -> Option<Instant> {
        let line = self.line.as_deref_mut()?;
        if let Some(rate) = line.news(now) {
            self.port.set_known_rate(Some(rate));
        }
        let (watch, round_trips, mut lost) = (&mut self.watch, &mut self.round_trips, Vec::new());
        let room = line.room(now);
        let mut departed = |packet: Packet, sending: Transmission| {
            let at = sending.start;
            let flight = flights.get(packet.slot);
            if let Some(watch) = watch
                && flight.content.counts()
            {
                watch.passed(&packet, flight, flights.keys.key(&packet), at);
            }
            if let Some(measured) = round_trips {
                measured.sent(at, flights.keys.key(&packet), flight, packet.len);
            }
            let Some((sending, arrival)) = line.send(packet.bytes(), at) else {
                lost.push(packet);
                return;
            };
            if let Some(watch) = watch {
                watch.carried(&packet, sending.start);
            }
            ring.push(Frame {
                arrival,
                ..flights.frame(&packet, sending, Span::ZERO)
            });
        };
        let next = self
            .port
            .step(now, &flights.keys, fates, room, &mut departed);
        for packet in lost {
            fates.discard(packet, Reason::Impaired);
        }
        let holds = self.port.queue().backlog() != Tally::ZERO;
        let free = line.next_room(now).filter(|_| holds);
        let next = next.into_iter().chain(free).min();
        let next = next.filter(|next| *next != self.wake)?;
        self.wake = next;
        Some(next)
    }
}

impl Wire {
    /// A wire at time zero, to the node `to`. Its discipline takes its random streams from below `streams`.
    pub(crate) fn new(spec: Spec, link: Link, to: NodeId, delay: Span, streams: &Streams) -> Self {
        let sender = if delay > Span::ZERO && AnalyticFifo::can_be(&spec) {
            Sender::AnalyticFifo(AnalyticFifo::new(spec, link, Instant::ZERO))
        } else {
            let port = Port::new(spec, link, Instant::ZERO, streams);
            Sender::Stepped(Box::new(Stepped::new(port)))
        };
        Self {
            sender,
            to,
            delay,
            ring: Ring::default(),
            touched: false,
            is_cut: false,
            is_measured: false,
        }
    }

    /// The same wire over a line.
    pub(crate) fn over(mut self, line: LineSpec) -> Self {
        let stepped = self.stepped();
        let line = Line::new(line, stepped.port.link().framing);
        stepped.line = Some(Box::new(line));
        self
    }

    /// Makes this a stepped port before the run, so that it can be watched.
    pub(crate) fn stepped(&mut self) -> &mut Stepped {
        if let Sender::AnalyticFifo(plain) = &self.sender {
            debug_assert!(self.ring.is_empty(), "the run has begun");
            let no_chance = Streams::new(0); // a FIFO uses no random numbers
            let port = Port::new(
                plain.spec().clone(),
                *plain.link(),
                Instant::ZERO,
                &no_chance,
            );
            self.sender = Sender::Stepped(Box::new(Stepped::new(port)));
        }
        match &mut self.sender {
            Sender::Stepped(stepped) => stepped,
            Sender::AnalyticFifo(_) => unreachable!("it was replaced"),
        }
    }

    /// Takes the frame that arrives next.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Frame> {
        if let Sender::AnalyticFifo(plain) = &mut self.sender {
            plain.popped();
        }
        self.ring.pop()
    }

    /// The frame that arrives next, after a frame that has arrived at `now`; `None` if the step of this instant will
    /// schedule it.
    #[inline]
    pub(crate) fn next_arrival(&self, now: Instant) -> Option<&Frame> {
        let first = self.ring.get(0)?;
        // A plain wire is touched by a packet if all earlier packets have arrived by now.
        let waits =
            self.touched && matches!(self.sender, Sender::AnalyticFifo(_)) && first.arrival > now;
        (!waits).then_some(first)
    }

    /// Whether frames arrive later than they are sent.
    pub(crate) fn takes_time(&self) -> bool {
        match &self.sender {
            Sender::AnalyticFifo(_) => true,
            Sender::Stepped(stepped) => match &stepped.line {
                Some(line) => line.takes_time(),
                None => self.delay > Span::ZERO || stepped.port.link().rate.is_some(),
            },
        }
    }

    /// The record of the port.
    pub(crate) fn watch(&self) -> Option<&Watch> {
        match &self.sender {
            Sender::AnalyticFifo(_) => None,
            Sender::Stepped(stepped) => stepped.watch.as_deref(),
        }
    }

    /// The port and its record.
    pub(crate) fn watched(&mut self) -> Option<(&Port, &mut Watch)> {
        match &mut self.sender {
            Sender::AnalyticFifo(_) => None,
            Sender::Stepped(stepped) => Some((&stepped.port, stepped.watch.as_deref_mut()?)),
        }
    }

    /// Paces the port in front of its line's modem to another rate.
    pub(crate) fn pace(&mut self, rate: Rate, now: Instant) {
        self.stepped().port.pace(Some(rate), now);
    }

    /// Changes the parameters of the discipline.
    pub(crate) fn set(&mut self, spec: Spec, now: Instant) -> Result<(), SpecMismatch> {
        match &mut self.sender {
            Sender::AnalyticFifo(plain) => plain.set(spec),
            Sender::Stepped(stepped) => stepped.port.set(spec, now),
        }
    }

    /// Releases memory that is not needed now.
    pub(crate) fn relax(&mut self) {
        self.ring.relax();
        if let Sender::Stepped(stepped) = &mut self.sender {
            stepped.port.relax();
            if let Some(line) = &mut stepped.line {
                line.relax();
            }
        }
    }
}

/// A view of a port after all events due at this instant.
pub struct PortView<'a> {
    pub(crate) wire: &'a Wire,
    pub(crate) now: Instant,
}

impl<'a> PortView<'a> {
    /// The node at the other end of the link.
    pub fn to(&self) -> NodeId {
        self.wire.to
    }

    /// Whether a packet takes time from the port to the other end of the link.
    pub fn takes_time(&self) -> bool {
        self.wire.takes_time()
    }

    /// The ledger of the port's packets.
    pub fn ledger(&self) -> Ledger {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.ledger(self.now, &self.wire.ring),
            Sender::Stepped(stepped) => stepped.port.queue().ledger(),
        }
    }

    /// Packets that the link has started to send.
    pub fn sent(&self) -> Tally {
        self.ledger().sent
    }

    /// Bytes on the wire of these packets.
    pub fn on_wire(&self) -> u64 {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.on_wire(self.now, &self.wire.ring),
            Sender::Stepped(stepped) => stepped.port.on_wire(),
        }
    }

    /// Packets in the queue.
    pub fn backlog(&self) -> Tally {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.backlog(self.now, &self.wire.ring),
            Sender::Stepped(stepped) => stepped.port.queue().backlog(),
        }
    }

    /// The current parameters.
    pub fn spec(&self) -> &'a Spec {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.spec(),
            Sender::Stepped(stepped) => stepped.port.queue().spec(),
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.link(),
            Sender::Stepped(stepped) => stepped.port.link(),
        }
    }

    /// The line behind the port, if it has one; [`Self::link`] is then the port's view of the line.
    pub fn line(&self) -> Option<&'a LineSpec> {
        match &self.wire.sender {
            Sender::AnalyticFifo(_) => None,
            Sender::Stepped(stepped) => stepped.line.as_deref().map(Line::spec),
        }
    }

    /// Bytes on the wire of the packets in the modem of the line.
    pub fn behind(&self) -> u64 {
        match &self.wire.sender {
            Sender::AnalyticFifo(_) => 0,
            Sender::Stepped(stepped) => {
                let line = stepped.line.as_deref();
                line.map_or(0, |line| line.behind(self.now))
            }
        }
    }

    /// Whether the queue is empty.
    pub fn is_idle(&self) -> bool {
        self.backlog() == Tally::ZERO
    }

    /// Bytes of memory used by the discipline.
    pub fn state_bytes(&self) -> usize {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.state_bytes(),
            Sender::Stepped(stepped) => stepped.port.queue().state_bytes(),
        }
    }

    /// Gauges of the discipline.
    pub fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        match &self.wire.sender {
            Sender::AnalyticFifo(plain) => plain.inspect(report),
            Sender::Stepped(stepped) => stepped.port.queue().inspect(report),
        }
    }
}
