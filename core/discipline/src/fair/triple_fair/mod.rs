//! Fair between sources, destinations and flows at once, in fixed memory and without configuration.
//!
//! ```text
//!   packet -- its flow has a queue ------------------> [ | | ]   2048 queues of flows
//!      +----- its flow may wait in a shared queue ---> there     (sketch: no flow is ever reordered)
//!      +----- its host has had enough new flows -----> [ | | | ] 512 queues of hosts
//!      +----- otherwise --- a free queue, at once ---> [ ]       or, if none is empty, one of 16 bins
//!
//!   light queues first:  flow and hosts within their shares
//!   heavy queues then:   lowest start tag; tag += bytes x heavy flows of the source x load of the destination
//!   CoDel in each queue; full: the host with most packets loses some
//! ```
//!
//! | file | content |
//! |---|---|
//! | `manual` | manual page and parameters |
//! | `queue` | one queue, and how many there are |
//! | `flows` | which flow has which queue |
//! | `places` | which entry of a set has a hash |
//! | `hosts` | the hosts at one end, and the service that they have received |
//! | `sketch` | which flows may wait in a shared queue |
//! | `place` | the queue of an arriving packet |
//! | `share` | the law: the price of a turn, which flows are light, and when heavy queues have their turns |
//! | `time` | the virtual times |
//! | `light`, `turns` | the order of light queues, and that of heavy ones |
//! | `drops` | which packets are dropped when the queues together are full, or when a sender does not respond |
//! | `report` | waiting packets, for an operator |

use weir_base::setting::SettingError;
use weir_base::{Framing, Instant, Span, Streams, Tally};
use weir_packet::{Class, KeyKind, Packet, Reason};

use self::flows::Flows;
use self::hosts::Hosts;
use self::layout::{BINS, FIRST_BIN, FIRST_SHARED, FLOWS, QUEUES, SHARED};
use self::light::{LISTS, List};
use self::queue::{Law, Queue, Waits};
use self::sketch::{Sketch, WORDS_OF_BIN, WORDS_OF_HOST};
use self::time::Time;
use self::turns::Turns;
use crate::aqm::codel::{self, Control};
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::parts::chain::{Chain, Slab};
use crate::waiting::Waiting;

mod drops;
mod flows;
mod hosts;
mod layout;
mod light;
mod manual;
mod place;
mod places;
mod queue;
mod report;
mod share;
mod sketch;
mod time;
mod turns;

pub use self::manual::{MANUAL, Params};

/// The control law spares the one full frame of RFC 8289, and one more for each of this many busy queues.
const QUEUES_A_FRAME: u32 = 64;
/// Maximum of these additional frames.
const FRAMES_MORE: u32 = 4;
/// A queue is too long if it holds more than this number of full frames beyond the spared ones: a sender that responds
/// to drops keeps fewer.
const FRAMES_FLOODED: u64 = 6;
/// Maximum flows in a shared queue for which the control law spares frames.
const FLOWS_SPARED: u32 = 8;
/// Waiting time that all busy queues divide, for one round trip: a single busy queue may use all of it.
const TARGET_TOGETHER: Span = Span::from_millis(100);

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    fullest_host: u64,
    shared: u64,
    bins: u64,
    evicted: u64,
    late: u64,
    refused: u64,
    control: codel::Stats,
}

/// The queues, their hosts, and their order.
#[derive(Debug)]
pub struct TripleFair {
    params: Params,
    /// The parts of a flow key that identify a source and a destination.
    kinds: [Option<KeyKind>; 2],
    slab: Slab,
    /// Packets from before a change of `hosts`: they leave first.
    aside: Chain,
    held: Tally,
    queues: Box<[Queue; QUEUES]>,
    /// The control law of each queue.
    laws: Box<[Law; QUEUES]>,
    flows: Flows,
    /// The sketch of each queue that many flows may share.
    sketches: Box<[Sketch]>,
    /// Shared queues that no host has.
    spare: Vec<u16>,
    /// Sources and destinations.
    ends: [Hosts; 2],
    light: [List; LISTS],
    /// The heavy queues: of trusted sources, and of strangers.
    turns: [Turns; 2],
    time: Time,
    /// Bytes that light strangers sent while heavy strangers waited, minus the bytes that these sent since; and the
    /// same for all strangers while heavy queues of trusted sources waited.
    rows: [u64; 2],
    /// Queues that wait: all, and queues of single flows.
    busy: u32,
    busy_flows: u32,
    framing: Framing,
    /// The longest frame so far: its length, and the bytes that it occupies on the link.
    bytes_max: u64,
    wire_max: u64,
    stats: Stats,
}

/// The packets of one queue, as the control law sees them.
struct One<'a> {
    slab: &'a mut Slab,
    packets: &'a mut Chain,
    held: &'a mut Tally,
    taken: u64,
}

impl codel::Source for One<'_> {
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.slab.pop(self.packets)?;
        self.held.uncount(packet.bytes());
        self.taken += 1;
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.packets.tally().bytes
    }
}

/// The parts of a flow key that identify the hosts of both ends. If hosts matter at one end only, they
/// have shares, like sources.
fn ends(params: &Params) -> [Option<KeyKind>; 2] {
    match params.hosts.kinds() {
        [None, destination] => [destination, None],
        both => both,
    }
}

impl TripleFair {
    /// Empty queues. All memory that they will ever use is allocated now.
    pub fn new(params: Params) -> Self {
        let law = Law::new(params.control.target);
        Self {
            slab: Slab::new(params.limit + 1), // a packet is queued before another one makes room for it
            aside: Chain::EMPTY,
            held: Tally::ZERO,
            queues: Box::new([Queue::NOBODYS; QUEUES]),
            laws: Box::new([law; QUEUES]),
            flows: Flows::new(),
            sketches: (0..SHARED + BINS)
                .map(|at| {
                    Sketch::new(if at < SHARED {
                        WORDS_OF_HOST
                    } else {
                        WORDS_OF_BIN
                    })
                })
                .collect(),
            spare: (FIRST_SHARED..FIRST_SHARED + SHARED)
                .map(|at| at as u16)
                .collect(),
            ends: [(); 2].map(|()| Hosts::new()),
            light: [List::default(); LISTS],
            turns: [(); 2].map(|()| Turns::new(QUEUES)),
            time: Time::default(),
            rows: [0; 2],
            busy: 0,
            busy_flows: 0,
            framing: Framing::bytes(0),
            bytes_max: 1514,
            wire_max: 1514,
            stats: Stats::default(),
            kinds: ends(&params),
            params,
        }
    }

    /// Takes the packet at the head of a queue.
    #[inline]
    fn pop(&mut self, at: usize) -> Option<Packet> {
        let packet = self.slab.pop(&mut self.queues[at].packets)?;
        self.held.uncount(packet.bytes());
        if at >= FLOWS {
            self.sketches[at - FLOWS].leave(1);
        }
        Some(packet)
    }

    /// Serves the next packet, if it is in the queue of a single flow and has waited for less than the minimum target:
    /// then the control law does not apply. Returns the queue; the caller takes the packet out of it.
    #[inline]
    fn punctual(&mut self, cx: &mut Cx<'_>) -> Option<usize> {
        let now = cx.now;
        let turn = self.first()?;
        let at = turn.queue;
        let queue = &mut self.queues[at];
        let head = self.slab.front(&queue.packets)?;
        if at >= FLOWS || now.since(head.enqueued) >= self.params.control.target {
            return None;
        }
        let bytes = head.bytes();
        let is_last = queue.packets.tally().packets == 1;
        if queue.was_late {
            let law = &mut self.laws[at];
            law.calm();
            queue.is_stubborn = false;
            if is_last {
                law.ran_empty(now);
            }
        }
        self.held.uncount(bytes);
        cx.heavy = turn.from.is_heavy();
        self.serve(turn, self.framing.wire_bytes(bytes), is_last);
        Some(at)
    }

    /// Takes the next packet that the control law lets pass from a queue.
    fn judged(&mut self, cx: &mut Cx<'_>, at: usize) -> Option<Packet> {
        cx.heavy = self.queues[at].waits.is_heavy();
        let is_flow = at < FLOWS;
        let flows = self.flows_in(at).min(FLOWS_SPARED);
        // A sender with fewer than four packets in flight detects a loss only by its timer.
        let frames = flows * (1 + (self.busy / QUEUES_A_FRAME).min(FRAMES_MORE));
        let spared = u64::from(frames) * self.wire_max;
        let (queue, law) = (&mut self.queues[at], &mut self.laws[at]);
        let least = self.params.control.target;
        if !queue.was_late {
            queue.was_late = true;
            *law = Law::new(least);
        }
        let target = if is_flow {
            law.target.max(share::part(TARGET_TOGETHER, self.busy))
        } else {
            least
        };
        let head = self.slab.front(&queue.packets)?;
        let room = spared + FRAMES_FLOODED * self.wire_max;
        let is_too_long =
            queue.packets.tally().bytes > room && cx.now.since(head.enqueued) > target;
        // A bin holds packets of many sources, of which some respond.
        queue.is_stubborn = law.is_stubborn(is_too_long, cx.now) && at < FIRST_BIN;
        self.drop_late(cx, at);
        let (queue, law) = (&mut self.queues[at], &mut self.laws[at]);
        let control = Control {
            target,
            ..self.params.control
        };
        let before = (self.stats.control.dropped, self.stats.control.marked);
        let mut source = One {
            slab: &mut self.slab,
            packets: &mut queue.packets,
            held: &mut self.held,
            taken: 0,
        };
        let stats = &mut self.stats.control;
        let packet = codel::dequeue(&mut law.codel, &control, cx, &mut source, spared, stats);
        let taken = source.taken;
        if is_flow {
            if before != (stats.dropped, stats.marked) {
                law.dropped(cx.now, least);
            }
            if queue.packets.is_empty() {
                law.ran_empty(cx.now);
            }
        } else if taken > 0 {
            self.sketches[at - FLOWS].leave(taken);
        }
        packet
    }

    /// Takes the next packet; `take` takes it from the queue whose turn it is.
    #[inline(never)] // so that `punctual` need not save as many registers
    fn next(&mut self, mut take: impl FnMut(&mut Self, usize) -> Option<Packet>) -> Option<Packet> {
        // Each step takes a packet, or finds an empty queue, which then leaves.
        while let Some(turn) = self.first() {
            let Some(packet) = take(self, turn.queue) else {
                self.leave(turn);
                continue;
            };
            let is_empty = self.queues[turn.queue].packets.is_empty();
            let wire = self.framing.wire_bytes(packet.bytes());
            self.serve(turn, wire, is_empty);
            return Some(packet);
        }
        None
    }

    fn next_unjudged(&mut self) -> Option<Packet> {
        match self.pop_aside() {
            Some(packet) => Some(packet),
            None => self.next(Self::pop),
        }
    }

    fn pop_aside(&mut self) -> Option<Packet> {
        let packet = self.slab.pop(&mut self.aside)?;
        self.held.uncount(packet.bytes());
        Some(packet)
    }
}

impl Configured for TripleFair {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        params.control.check()?;
        Ok(params.limit)
    }

    fn build(params: Params, _now: Instant, _streams: &Streams) -> Self {
        Self::new(params)
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.slab.reserve(params.limit + 1);
        if params.hosts != self.params.hosts {
            let mut order = Chain::EMPTY;
            while let Some(packet) = self.next_unjudged() {
                self.slab.push(&mut order, packet);
            }
            let empty = Params {
                limit: 0,
                ..params.clone()
            };
            let mut new = Self::new(empty);
            std::mem::swap(&mut new.slab, &mut self.slab);
            (new.aside, new.held) = (order, order.tally());
            (new.bytes_max, new.stats) = (self.bytes_max, self.stats);
            new.set_framing(self.framing);
            *self = new;
        }
        self.params = params;
    }
}

impl Discipline for TripleFair {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if packet.bytes() > self.bytes_max {
            self.bytes_max = packet.bytes();
            self.set_framing(self.framing);
        }
        if self.held.packets == 0 {
            self.settle();
        }
        self.renew();
        let Some(at) = self.place(cx, &packet) else {
            self.stats.refused += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::LongestFlow));
        };
        self.held.count(packet.bytes());
        let queue = &mut self.queues[at];
        let alone = queue.packets.is_empty();
        self.slab.push(&mut queue.packets, packet);
        if queue.waits == Waits::Not {
            self.wake(at);
        }
        if self.held.packets <= self.params.limit as u64 {
            return Admission::Queued;
        }
        match self.make_room(cx) {
            Some((fullest, ended)) if alone && fullest == at => Admission::Refused(ended),
            _ => Admission::Queued,
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if !self.aside.is_empty() {
            return self.pop_aside();
        }
        self.drop_late_strangers(cx);
        match self.punctual(cx) {
            Some(at) => self.slab.pop_whole(&mut self.queues[at].packets),
            None => self.next(|this, at| this.judged(cx, at)),
        }
    }

    fn has_room(&self, _class: Class) -> bool {
        self.held.packets < self.params.limit as u64
    }

    fn backlog(&self) -> Tally {
        self.held
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self)
            + self.slab.state_bytes()
            + size_of_val(&*self.queues)
            + size_of_val(&*self.laws)
            + self.flows.state_bytes()
            + size_of_val(&*self.sketches)
            + self.sketches.iter().map(Sketch::state_bytes).sum::<usize>()
            + self.spare.capacity() * size_of::<u16>()
            + self.ends.iter().map(Hosts::state_bytes).sum::<usize>()
            + self.turns.iter().map(Turns::state_bytes).sum::<usize>()
    }

    fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        self.wire_max = framing.wire_bytes(self.bytes_max);
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        while let Some(packet) = self.next_unjudged() {
            out(packet);
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("fullest_host", self.stats.fullest_host);
        report("dropped", self.stats.control.dropped);
        report("marked", self.stats.control.marked);
        report("shared", self.stats.shared);
        report("bins", self.stats.bins);
        report("evicted", self.stats.evicted);
        report("late", self.stats.late);
        report("refused", self.stats.refused);
        report("busy", u64::from(self.busy));
        report("sources", self.ends[0].count());
        report("destinations", self.ends[1].count());
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        self.report_waiting(report);
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
