//! Fair between hosts, and between the flows of each host, as in today's home routers.
//!
//! ```text
//!                        host a: 3 flows   [ | | ] [ | | ] [ | ]    a third of a's half each
//!  flow, host hash -->
//!                        host b: 1 flow    [ | | | | ]              b's half
//!
//!  start tag of the next packet = start tag of this one + length x the host's busy flows
//! ```
//!
//! Source: Hoiland-Jorgensen, Taht, Morton, "Piece of CAKE: A Comprehensive Queue Management Solution
//! for Home Gateways", LANMAN 2018; Linux `sch_cake`. The scheduler is STFQ's, the AQM is CoDel plus
//! BLUE.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng;
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::SettingError;
use weir_base::{Instant, Stream, Streams};
use weir_packet::{KeyKind, Packet, Reason};

use crate::aqm::blue::Blue;
use crate::aqm::codel::{self, Control, ECN, INTERVAL, TARGET};
use crate::contract::{Cx, Manual};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::fair::fq_codel::{FLOWS, LIMIT, One};
use crate::fair::hosts::{Census, HOSTS, Hosts};
use crate::fair::sets::{Place, Sets};
use crate::fair::stfq::{ByteCost, Clock, Tag};
use crate::params::{Parameters, params};
use crate::waiting::Service;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "host_fair",
    id: 0x00F7_0209,
    purpose: "fair between hosts, then between each host's flows, with controlled delay",
    source: "Hoiland-Jorgensen, Taht, Morton, Piece of CAKE, LANMAN 2018; Linux sch_cake",
    text: "\
Each flow has its own queue. A queue is busy while it holds packets beyond its turn, and a host's load is
the number of its busy queues. A byte of a flow costs as much as its host's load, so all flows of a host
together get as much as the single flow of another host. Flows that send less than their share find the
virtual time ahead of their tags, and go first. `hosts` selects the hosts that are fair to each other:
senders, receivers, or both, where the greater of the two loads counts. The values with `prefix` count a
network as one host, /24 of IPv4 and /56 of IPv6.

    host a: 3 flows   [ | | ] [ | | ] [ | ]    a third of a's half each
    host b: 1 flow    [ | | | | ]              b's half

A flow's queue is found in a set of eight: two flows share a queue only if all eight are in use. Each queue
is under COBALT, which is CoDel combined with BLUE: while a queue overflows, BLUE's drop probability rises
by 1/256 in each `target`, whether packets are ECN-capable or not, and it falls by 1/4096 in each `target`
in which the queue is empty. Until it is zero, the queue stays with its flow. BLUE does not drop the last
packet of a queue. When the limit is reached, the longest queue (by bytes) loses its head packet.

Use `hosts = \"source\"` at the uplink, and `\"destination\"` at the port to the local network. `\"both\"` is for
all other places.

Defaults. Target, interval and the number of queues are CAKE's for the Internet, and `\"both\"` is its
triple-isolate. The limit is that of `fq_codel`.

Deviations from CAKE: the scheduler is start-time fair queueing, not deficit round robin with a quantum
divided by the load, because there one packet of a host with a thousand flows takes a thousand turns. Here
a packet takes on average time logarithmic in the number of flows (empty queues are removed when their tag
is the lowest, at worst all of them in one call), and there is no `quantum`. CoDel is that of RFC 8289. A
flow whose queue was taken by others stays in the shared queue until that is empty, and so keeps its order,
unlike in CAKE. The limit counts packets. There is no shaper (the port paces), no DiffServ, no ACK filter,
and no NAT lookup. After a change of `hosts` or `flows` the queued packets leave before all others, without
AQM.

An attacker with one address gets one host's share, while there are free queues and room for all packets.
With more waiting flows than queues it takes them all: new flows of others share a queue with its flows,
and wait and are dropped there. With many queues of small packets it fills `limit`, and the longest queue
by bytes is then an honest one. Against that, set `flows = 65536` and `limit = \"100000 packets\"`. With
forged addresses an attacker counts as many hosts, until all queues are in use; then flows share queues,
and all fare alike. With IPv6 an attacker has enough addresses without forging: use the values with
`prefix`. With `\"both\"` it raises its victim's load by sending much traffic to it from many ports, and so
takes bandwidth from the victim's other traffic.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "longest_flow", Unit::Packets, "packets dropped from the longest queue to make room"),
        Gauge::counter(102, "dropped", Unit::Packets, "packets dropped by CoDel"),
        Gauge::counter(103, "marked", Unit::Packets, "packets marked by CoDel"),
        Gauge::counter(104, "blue", Unit::Packets, "packets dropped by BLUE"),
        Gauge::counter(105, "shared", Unit::Packets,
            "packets that joined a queue of another flow, because all queues of the set were in use"),
        Gauge::level(106, "active", Unit::One, "queues that hold packets, or have held some since their last turn"),
        Gauge::level(107, "busy", Unit::One, "queues that count in the load of their hosts"),
    ],
};

/// Maximum packets that BLUE drops in one call: their number is the senders' choice, not ours.
const BLUE_DROPS_MAX: u32 = 16;

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Which hosts are fair to each other.
        pub hosts: Hosts = HOSTS.id(1),
        /// Queues for flows.
        pub flows: usize = FLOWS.id(2),
        /// The control law of each queue.
        pub control: Control => [TARGET.id(3), INTERVAL.id(4), ECN.id(5)],
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(6),
    }
}

/// Counters of the queues.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    blue: u64,
    shared: u64,
    control: codel::Stats,
}

/// One queue's state.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    tag: Tag,
    codel: codel::State,
    blue: Blue,
    /// The places where its hosts are counted.
    hosts: [Option<u32>; 2],
    /// Whether it is among the queues that wait for a turn.
    waits: bool,
    /// Whether it counts in the load of its hosts.
    busy: bool,
    /// Whether the queue may hold packets of a flow other than the one to which its set assigns it.
    shared: bool,
}

/// Flow queues, fair between hosts first.
pub(crate) type HostFair = FairQueue<ByHost>;

/// The states of the queues, their hosts, and the queues that wait for a turn, by start tag.
#[derive(Debug)]
pub(crate) struct ByHost {
    sets: Sets,
    flows: Box<[Flow]>,
    /// Sending and receiving hosts.
    census: [Census; 2],
    waiting: BinaryHeap<Reverse<(Tag, u32)>>,
    busy: u64,
    clock: Clock,
    bytes_max: u64,
    stream: Stream,
    stats: Stats,
}

impl ByHost {
    /// The queue of a packet with this flow hash.
    #[inline]
    fn queue(&mut self, queues: &Queues<Params>, hash: u64, now: Instant) -> usize {
        let first = self.sets.first(hash);
        let step = queues.params.control.target;
        let found = self.sets.find(hash, |at| {
            let flow = &self.flows[at];
            !flow.waits && queues.bins.is_empty(at) && flow.blue.rests(step, now)
        });
        match found {
            Place::Own(at) => at,
            // The flow may have packets in the shared queue, from a time when its set was full.
            _ if self.flows[first].shared => {
                self.stats.shared += 1;
                first
            }
            Place::Free(at) => {
                self.sets.claim(at, hash);
                self.flows[at].codel = codel::State::default();
                at
            }
            Place::Taken(at) => {
                self.stats.shared += 1;
                self.flows[at].shared = true;
                at
            }
        }
    }

    /// Handles a queue that was found empty at its turn.
    fn leave(&mut self, bin: usize, now: Instant) {
        self.set_busy(bin, false);
        let flow = &mut self.flows[bin];
        flow.waits = false;
        flow.shared = false;
        flow.blue.empty(now);
        for (census, host) in self.census.iter_mut().zip(flow.hosts) {
            census.leave(host);
        }
    }

    fn set_busy(&mut self, bin: usize, busy: bool) {
        let flow = &mut self.flows[bin];
        if flow.busy == busy {
            return;
        }
        flow.busy = busy;
        for (census, host) in self.census.iter_mut().zip(flow.hosts) {
            census.set_busy(host, busy);
        }
        self.busy = if busy { self.busy + 1 } else { self.busy - 1 };
    }

    /// The loads of a queue's hosts, at least one: source and destination.
    fn loads(&self, bin: usize) -> [u32; 2] {
        [0, 1].map(|end: usize| self.census[end].load(self.flows[bin].hosts[end]).max(1))
    }

    /// The load of the busier of a queue's hosts.
    #[inline]
    fn load(&self, bin: usize) -> u32 {
        let [source, destination] = self.loads(bin);
        source.max(destination)
    }

    /// Takes the next packet; `take` takes it from the queue that has the turn.
    #[inline]
    fn step(
        &mut self,
        queues: &mut Queues<Params>,
        now: Instant,
        mut take: impl FnMut(&mut Self, &mut Queues<Params>, usize) -> Option<Packet>,
    ) -> Option<Packet> {
        // Each step takes a packet, or finds an empty queue, which then leaves.
        while let Some(&Reverse((_, bin))) = self.waiting.peek() {
            let bin = bin as usize;
            let Some(packet) = take(self, queues, bin) else {
                self.waiting.pop();
                self.leave(bin, now);
                continue;
            };
            if !queues.bins.is_empty(bin) {
                self.set_busy(bin, true);
            }
            let cost = ByteCost::of_weight(1).times(self.load(bin));
            let tag = &mut self.flows[bin].tag;
            self.clock.serve(tag, cost, packet.bytes());
            if let Some(mut first) = self.waiting.peek_mut() {
                *first = Reverse((*tag, bin as u32)); // moves down to its new place
            }
            return Some(packet);
        }
        None
    }

    /// Takes the next packet that CoDel and BLUE let pass from a queue.
    #[inline]
    fn judged(
        &mut self,
        queues: &mut Queues<Params>,
        cx: &mut Cx<'_>,
        bin: usize,
    ) -> Option<Packet> {
        let mut drops = 0;
        loop {
            let packet = codel::dequeue(
                &mut self.flows[bin].codel,
                &queues.params.control,
                cx,
                &mut One(&mut queues.bins, bin),
                self.bytes_max,
                &mut self.stats.control,
            )?;
            let Some(chance) = self.flows[bin].blue.chance() else {
                return Some(packet);
            };
            let chosen = chance.happens(self.stream.next_u64());
            if !chosen || queues.bins.is_empty(bin) || drops == BLUE_DROPS_MAX {
                return Some(packet);
            }
            drops += 1;
            self.stats.blue += 1;
            cx.fates.discard(packet, Reason::Congestion);
        }
    }
}

impl Sharing for ByHost {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn check(params: &Params) -> Result<(), SettingError> {
        params.control.check()
    }

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.flows,
            key: Some(KeyKind::Flow),
            limit: params.limit,
        }
    }

    fn moves(old: &Params, new: &Params) -> bool {
        old.hosts != new.hosts
    }

    fn new(_params: &Params, _now: Instant, streams: &Streams) -> Self {
        Self {
            sets: Sets::new(0),
            flows: Box::new([]),
            census: [(); 2].map(|()| Census::new(0)),
            waiting: BinaryHeap::new(),
            busy: 0,
            clock: Clock::default(),
            bytes_max: 0,
            stream: streams.stream(MANUAL.name),
            stats: Stats::default(),
        }
    }

    fn renew(&mut self, bins: usize) {
        self.sets = Sets::new(bins);
        self.flows = vec![Flow::default(); bins].into_boxed_slice();
        self.census = [(); 2].map(|()| Census::new(bins));
        self.waiting = BinaryHeap::with_capacity(bins);
    }

    /// The first bin of the flow's set.
    #[inline]
    fn find(&self, _queues: &Queues<Params>, cx: &Cx<'_>, packet: &Packet) -> Option<usize> {
        Some(self.sets.first(cx.keys.hash(packet, KeyKind::Flow)))
    }

    #[inline]
    fn touch(&self, bin: usize) {
        std::hint::black_box(self.flows[bin].waits);
    }

    /// Forgets service beyond a share.
    #[inline]
    fn settle(&mut self, now: Instant) {
        while let Some(Reverse((_, bin))) = self.waiting.pop() {
            self.leave(bin as usize, now);
        }
        self.clock.idle();
    }

    #[inline]
    fn place(
        &mut self,
        queues: &mut Queues<Params>,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
    ) -> Option<usize> {
        let hash = cx.keys.hash(packet, KeyKind::Flow);
        Some(self.queue(queues, hash, cx.now))
    }

    #[inline]
    fn enter(&mut self, queues: &Queues<Params>, cx: &Cx<'_>, packet: &Packet, bin: usize) {
        self.bytes_max = self.bytes_max.max(packet.bytes());
        if self.flows[bin].waits {
            if queues.bins.is_empty(bin) {
                self.set_busy(bin, true); // the flow sends again before its turn
            }
            return;
        }
        let mut hosts = [None; 2];
        for (end, kind) in queues.params.hosts.kinds().into_iter().enumerate() {
            hosts[end] = kind.map(|kind| self.census[end].enter(cx.keys.hash(packet, kind)));
        }
        let flow = &mut self.flows[bin];
        flow.hosts = hosts;
        flow.blue.resume(queues.params.control.target, cx.now);
        flow.waits = true;
        self.clock.arrive(&mut flow.tag);
        self.waiting.push(Reverse((flow.tag, bin as u32)));
    }

    #[inline]
    fn overflow(&mut self, params: &Params, bin: usize, now: Instant) {
        self.flows[bin].blue.overflow(params.control.target, now);
    }

    fn next(&mut self, queues: &mut Queues<Params>, now: Instant) -> Option<Packet> {
        self.step(queues, now, |_, queues, bin| queues.bins.pop(bin))
    }

    #[inline]
    fn dequeue(&mut self, queues: &mut Queues<Params>, cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(queues, cx.now, |this, queues, bin| {
            this.judged(queues, cx, bin)
        })
    }

    fn heap_bytes(&self, _params: &Params) -> usize {
        let census = self.census.iter().map(Census::state_bytes);
        self.sets.state_bytes()
            + size_of_val(&*self.flows)
            + census.sum::<usize>()
            + self.waiting.capacity() * size_of::<Reverse<(Tag, u32)>>()
    }

    fn inspect(&self, queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        report("longest_flow", queues.longest_flow);
        report("dropped", self.stats.control.dropped);
        report("marked", self.stats.control.marked);
        report("blue", self.stats.blue);
        report("shared", self.stats.shared);
        report("active", self.waiting.len() as u64);
        report("busy", self.busy);
    }

    fn service(&self, bin: usize) -> Service {
        Service::of_busier(self.loads(bin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Configured;
    use crate::rig::{self, Rig, built, gauge};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};
    use weir_base::Span;
    use weir_packet::{FlowKey, Slot};

    /// A discipline that is fair by these hosts, with parameters at which CoDel never drops.
    fn host_fair(hosts: &str, limit: usize) -> HostFair {
        let given = [
            ("hosts", hosts),
            ("flows", "64"),
            ("target", "1 s"),
            ("interval", "2 s"),
        ];
        let params = Params {
            limit,
            ..rig::params::<HostFair>(&given).unwrap()
        };
        built(params)
    }

    /// Flows from and to these hosts, each from a different port.
    fn rig(flows: &[(u8, u8)]) -> Rig {
        let mut rig = Rig::new(flows.len());
        for (n, (from, to)) in flows.iter().enumerate() {
            let (source, destination) = ([10, 0, 0, *from].into(), [10, 0, 1, *to].into());
            let key = FlowKey::ip(source, destination, 6, 5000 + n as u16, 80);
            rig.keys.set(Slot(n as u32), key);
        }
        rig
    }

    /// Packets of each flow among the next `packets`, when all are always backlogged.
    fn shares(hosts: &str, flows: &[(u8, u8)], packets: usize) -> Vec<u32> {
        let mut rig = rig(flows);
        let mut fair = host_fair(hosts, 10_000);
        for flow in 0..flows.len() {
            for _ in 0..packets {
                rig.offer(&mut fair, flow, 1000);
            }
        }
        let mut sent = vec![0; flows.len()];
        for _ in 0..packets {
            sent[rig.take(&mut fair).unwrap().slot.0 as usize] += 1;
        }
        sent
    }

    #[track_caller]
    fn near(sent: &[u32], expected: &[u32]) {
        let pairs = sent.iter().zip(expected);
        assert!(pairs.clone().all(|(a, b)| a.abs_diff(*b) <= 1), "{sent:?}");
    }

    #[test]
    fn hosts_share_then_their_flows() {
        // Host 1 has three flows, host 2 has one, all to one host. By source: 120 packets are 60 for
        // each host, 20 for each flow of host 1. By destination there is one host: 30 each. Both:
        // each flow has the load of the destination, 4.
        let flows = [(1, 9), (1, 9), (1, 9), (2, 9)];
        near(&shares("source", &flows, 120), &[20, 20, 20, 60]);
        near(&shares("destination", &flows, 120), &[30, 30, 30, 30]);
        near(&shares("both", &flows, 120), &[30, 30, 30, 30]);
        // Now each to a different host: the source has the greater load.
        let flows = [(1, 5), (1, 6), (1, 7), (2, 8)];
        near(&shares("both", &flows, 120), &[20, 20, 20, 60]);
        // One network: only the words with `prefix` count it as one.
        near(&shares("source_prefix", &flows, 120), &[30, 30, 30, 30]);
    }

    #[test]
    fn a_sparse_flow_goes_first_and_is_no_load() {
        // Two bulk flows of host 1, and a sparse flow of host 1 too: at most one packet leaves before
        // its packet, and the loads stay.
        let mut rig = rig(&[(1, 5), (1, 6), (1, 7)]);
        let mut fair = host_fair("source", 10_000);
        for flow in 0..2 {
            for _ in 0..50 {
                rig.offer(&mut fair, flow, 1000);
            }
        }
        for _ in 0..10 {
            for _ in 0..6 {
                rig.take(&mut fair).unwrap();
            }
            rig.offer(&mut fair, 2, 100);
            let next = [(); 2].map(|()| rig.take(&mut fair).unwrap().slot.0);
            assert!(next.contains(&2), "{next:?}");
            assert_eq!(gauge(&fair, "busy"), 2);
        }
    }

    #[test]
    fn blue_stops_a_flood_that_codel_does_not() {
        // The link sends one packet per ms; a flood offers five per ms, a quiet flow one per 10 ms.
        // Every 5 ms of overflow add 1/256: after 1.1 s BLUE drops nearly all of the flood's
        // packets at the head.
        let mut rig = rig(&[(1, 5), (2, 5)]);
        let mut fair = host_fair("source", 100);
        fair.queues.params.control = Control {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: true,
        };
        let (mut quiet, mut flood) = (0, 0);
        for ms in 0..2000 {
            rig.now = Instant::ZERO + Span::from_millis(ms);
            for _ in 0..5 {
                rig.offer(&mut fair, 0, 1000);
            }
            if ms % 10 == 0 {
                rig.offer(&mut fair, 1, 1000);
            }
            let sent = rig.take(&mut fair).unwrap();
            quiet += u32::from(sent.slot.0 == 1);
            flood += u32::from(sent.slot.0 == 0);
        }
        assert!((199..=200).contains(&quiet), "{quiet}");
        assert_eq!(quiet + flood, 2000);
        assert!(gauge(&fair, "blue") > 1000);
        assert!(
            fair.queues
                .bins
                .tally(fair.sharing.waiting.peek().unwrap().0.1 as usize)
                .packets
                <= 100
        );
    }

    #[test]
    fn flows_that_share_a_queue_keep_their_order() {
        // One set of two places, three flows: the third one shares a place. When the place of another flow
        // becomes free, it stays where its packets are.
        let mut rig = rig(&[(1, 5), (2, 5), (3, 5)]);
        let mut fair = host_fair("source", 100);
        let params = Params {
            flows: 2,
            ..fair.queues.params.clone()
        };
        fair.change(params, rig.now);
        let mut last = [None; 3];
        for round in 0..60 {
            for flow in 0..3 {
                if (round + flow) % 3 > 0 && round % 20 < 10 {
                    rig.offer(&mut fair, flow, 500);
                }
            }
            if let Some(sent) = rig.take(&mut fair) {
                let last = &mut last[sent.slot.0 as usize];
                assert!(*last < Some(sent.id), "{sent:?}");
                *last = Some(sent.id);
            }
        }
        assert!(gauge(&fair, "shared") > 0);
    }

    /// The rule word for word: a queue for each flow, loads counted again each time.
    #[derive(Default)]
    struct Reference {
        flows: BTreeMap<usize, Queue>,
        now: u128,
        finish_max: u128,
    }

    #[derive(Default)]
    struct Queue {
        host: usize,
        /// The number of the bin, which decides between equal tags.
        bin: usize,
        packets: VecDeque<(u64, u64)>,
        tag: u128,
        waits: bool,
        busy: bool,
    }

    impl Reference {
        fn enqueue(&mut self, flow: usize, [host, bin]: [usize; 2], id: u64, bytes: u64) {
            if self.flows.values().all(|q| q.packets.is_empty()) {
                self.idle();
            }
            let queue = self.flows.entry(flow).or_default();
            (queue.host, queue.bin) = (host, bin);
            if !queue.waits {
                queue.waits = true;
                queue.tag = queue.tag.max(self.now);
            } else if queue.packets.is_empty() {
                queue.busy = true;
            }
            queue.packets.push_back((id, bytes));
        }

        fn idle(&mut self) {
            self.now = self.finish_max;
            for queue in self.flows.values_mut() {
                (queue.waits, queue.busy) = (false, false);
            }
        }

        /// Takes packet `id`; returns whether its flow had the lowest tag.
        fn serve(&mut self, flow: usize, id: u64) -> bool {
            let Queue { tag, bin, .. } = self.flows[&flow];
            for queue in self.flows.values_mut() {
                if queue.packets.is_empty() && (queue.tag, queue.bin) < (tag, bin) {
                    (queue.waits, queue.busy) = (false, false); // it had its turn
                }
            }
            let least = self.flows.values().filter(|q| !q.packets.is_empty());
            let least = least.map(|q| (q.tag, q.bin)).min();
            let Some(queue) = self.flows.get_mut(&flow) else {
                return false;
            };
            let head = queue.packets.pop_front();
            queue.busy |= !queue.packets.is_empty();
            let host = queue.host;
            let busy = self.flows.values().filter(|q| q.busy && q.host == host);
            let load = busy.count().max(1) as u128;
            self.now = tag;
            let bytes = head.map_or(0, |(_, bytes)| bytes);
            if let Some(queue) = self.flows.get_mut(&flow) {
                queue.tag += load * u128::from(bytes);
                self.finish_max = self.finish_max.max(queue.tag);
            }
            least == Some((tag, bin)) && head.is_some_and(|(first, _)| first == id)
        }
    }

    proptest! {
        #[test]
        fn schedules_as_the_rule(calls in prop::collection::vec((any::<bool>(), 0_usize..6, 1_u32..3000), 0..300)) {
            let hosts = [1, 1, 1, 2, 2, 3];
            let mut rig = rig(&hosts.map(|host| (host, 9)));
            let mut fair = host_fair("source", 10_000);
            let mut reference = Reference::default();
            for (arrival, flow, bytes) in calls {
                if arrival {
                    let id = rig.next_id();
                    rig.offer(&mut fair, flow, bytes);
                    let hash = rig.keys.hash_key(rig.keys.key_at(Slot(flow as u32)));
                    let Place::Own(bin) = fair.sharing.sets.find(hash, |_| false) else {
                        unreachable!("six flows need share no queue")
                    };
                    reference.enqueue(flow, [hosts[flow].into(), bin], id, bytes.into());
                } else if let Some(packet) = rig.take(&mut fair) {
                    prop_assert!(reference.serve(packet.slot.0 as usize, packet.id));
                } else {
                    reference.idle();
                }
            }
        }
    }
}
