//! Class-based weights: a queue for each class of traffic, and shares by weight.
//!
//! ```text
//!  first match:  to 10.0.1.0/24  --> [ | | ]    weight 3 --+
//!                tcp             --> [ | | | ]  weight 2 --+--> least start tag --> link
//!                rest            --> [ ]        weight 1 --+
//! ```
//!
//! Source: Floyd and Jacobson, "Link-sharing and Resource Management Models for Packet Networks",
//! IEEE/ACM ToN 1995 (one level of its hierarchy); the scheduler is STFQ's.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};
use weir_base::{Instant, Streams};
use weir_packet::{Class, Packet};

use crate::contract::{Cx, Manual};
use crate::fair::classes::{CLASSES_MAX, Classes};
use crate::fair::fair_queue::{FairQueue, Layout, Queues, Sharing};
use crate::fair::stfq::{ByteCost, Clock, Tag};
use crate::params::{Parameters, params};
use crate::parts::bins::Measure;
use crate::waiting::Service;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "class_weights",
    id: 0x00F7_0202,
    purpose: "a queue for each class of traffic, with shares by weight: known in routers as CBQ or WFQ",
    source: "Floyd and Jacobson, ToN 1995; Goyal, Vin, Cheng, ToN 1997; Linux HTB without its rates",
    text: "\
The operator defines the classes. A packet belongs to the first class whose words all match it. Each class
has one FIFO queue. Under load a class gets a part of the link in proportion to its weight among the
weights of all classes that have packets; the other classes borrow the unused part of a class by their
weights.

    first match:  to 10.0.1.0/24  --> [ | | ]    weight 3 --+
                  tcp             --> [ | | | ]  weight 2 --+--> least start tag --> link
                  rest            --> [ ]        weight 1 --+

`classes` is a list of matches with weights from 1 to 1000, at most 16 of them:

    classes = \"to 10.0.1.0/24 tcp = 3, udp port 53 = 2, from 2001:db8::/32 = 2, rest = 1\"

The words of a match are `tcp`, `udp`, `icmp`, `icmpv6` or `protocol N`; `from` and `to` with a network or
an address; `port` with a port or a range, of source or destination; `queue` with a number from 1 to 255,
for packets to which a rule of flexible packet forwarding assigns that queue. All words of a match must
apply. Fragments, even the first one, have no ports here. The last class is `rest`, which contains all
other packets. A class that can never match because of earlier classes, and words that contradict each
other, are errors.

A packet that finds `limit` packets of its class is dropped. The gauges `class_0` and `full_0` count for
the first class of the list, and so on.

Defaults. TCP and UDP get half of the link each, so that neither starves the other; this is a starting
point, write your own classes. With 500 packets each, two classes hold as much as the default `fifo`.

Deviations: one level of classes, without rates or ceilings of their own: the port paces, and classes share
its rate by weight (in Linux, HTB with a common rate, or DRR with a filter). New weights apply from the
next packet on. When the matches change, the queued packets leave before all others, and `class_n` and
`full_n` continue to count for the class that is now the nth. Until fewer of those packets are left than
all classes together may hold, no class accepts more.

An attacker gets all of the class that its packets match, and no more: other flows of that class lose as in
a plain queue. An attacker can choose the class if it depends on port or protocol, on the source address
where it is not checked, or on the queue of a rule if it may send FPF packets. It cannot choose the
destination. Classes by address confine a flood that comes from elsewhere, or goes elsewhere.",
    parameters: Params::TABLE,
    gauges: &GAUGES,
};

/// Gauge names: packets that arrived in each class.
const CAME: [&str; CLASSES_MAX] = [
    "class_0", "class_1", "class_2", "class_3", "class_4", "class_5", "class_6", "class_7",
    "class_8", "class_9", "class_10", "class_11", "class_12", "class_13", "class_14", "class_15",
];

/// Gauge names: packets that each class dropped because it was full.
const FULL: [&str; CLASSES_MAX] = [
    "full_0", "full_1", "full_2", "full_3", "full_4", "full_5", "full_6", "full_7", "full_8",
    "full_9", "full_10", "full_11", "full_12", "full_13", "full_14", "full_15",
];

const GAUGES: [Gauge; 2 * CLASSES_MAX] = {
    const fn packets(id: usize, name: &'static str, about: &'static str) -> Gauge {
        Gauge::counter(id as u32, name, Unit::Packets, about)
    }
    let mut gauges = [packets(0, "", ""); 2 * CLASSES_MAX];
    let mut class = 0;
    while class < CLASSES_MAX {
        let full = CLASSES_MAX + class;
        gauges[class] = packets(
            101 + class,
            CAME[class],
            "packets that arrived for this class",
        );
        gauges[full] = packets(
            101 + full,
            FULL[class],
            "packets dropped because the queue of this class was full",
        );
        class += 1;
    }
    gauges
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The classes with their weights.
        pub classes: Classes = Parameter::new("classes", Kind::Text(1000), "tcp = 1, udp = 1, rest = 1",
            "classes with their weights, in the order in which packets are matched").id(1),
        /// Maximum packets held, in each class.
        pub limit: usize = Parameter::new("limit", Kind::Count(1, 62_500), "500 packets",
            "maximum packets held, in each class").id(2),
    }
}

/// One class's place in virtual time, and its counters.
#[derive(Clone, Copy, Debug)]
struct Share {
    tag: Tag,
    cost: ByteCost,
    came: u64,
    full: u64,
}

/// A queue for each class, with shares by weight.
pub(crate) type ClassWeights = FairQueue<ByWeight>;

/// The shares of the classes.
#[derive(Debug)]
pub(crate) struct ByWeight {
    shares: [Share; CLASSES_MAX],
    clock: Clock,
}

impl ByWeight {
    fn set_costs(&mut self, params: &Params) {
        for (share, weight) in self.shares.iter_mut().zip(params.classes.weights()) {
            share.cost = ByteCost::of_weight(weight);
        }
    }
}

/// Whether there is room for a packet in this class and in total.
fn room(queues: &Queues<Params>, class: usize) -> bool {
    queues.bins.tally(class).packets < queues.params.limit as u64
        && !queues.bins.is_full(ByWeight::layout(&queues.params).limit)
}

impl Sharing for ByWeight {
    type Params = Params;
    const MANUAL: Manual = MANUAL;
    const MEASURE: Measure = Measure::Packets;

    #[inline]
    fn layout(params: &Params) -> Layout {
        Layout {
            bins: params.classes.count(),
            key: None,
            limit: params.limit * params.classes.count(),
        }
    }

    fn moves(old: &Params, new: &Params) -> bool {
        !old.classes.match_like(&new.classes)
    }

    fn new(params: &Params, _now: Instant, _streams: &Streams) -> Self {
        let share = Share {
            tag: Tag::default(),
            cost: ByteCost::of_weight(1),
            came: 0,
            full: 0,
        };
        let mut new = Self {
            shares: [share; CLASSES_MAX],
            clock: Clock::default(),
        };
        new.set_costs(params);
        new
    }

    fn renew(&mut self, _bins: usize) {
        let shares = self.shares.iter_mut();
        shares.for_each(|share| share.tag = Tag::default());
    }

    fn change(&mut self, _old: &Params, new: &Params, _now: Instant) {
        self.set_costs(new);
    }

    #[inline]
    fn settle(&mut self, _now: Instant) {
        self.clock.idle();
    }

    #[inline]
    fn place(
        &mut self,
        queues: &mut Queues<Params>,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
    ) -> Option<usize> {
        let classes = &queues.params.classes;
        let class = classes.class(cx.keys.key(packet), packet.queue);
        let share = &mut self.shares[class];
        share.came += 1;
        packet.class = Class(class as u8);
        if !room(queues, class) {
            share.full += 1;
            return None;
        }
        Some(class)
    }

    #[inline]
    fn enter(&mut self, queues: &Queues<Params>, _cx: &Cx<'_>, _packet: &Packet, class: usize) {
        if queues.bins.is_empty(class) {
            self.clock.arrive(&mut self.shares[class].tag);
        }
    }

    #[inline]
    fn next(&mut self, queues: &mut Queues<Params>, _now: Instant) -> Option<Packet> {
        let backlogged = (0..queues.bins.count()).filter(|class| !queues.bins.is_empty(*class));
        let class = backlogged.min_by_key(|class| self.shares[*class].tag)?;
        let packet = queues.bins.pop(class)?;
        let share = &mut self.shares[class];
        self.clock.serve(&mut share.tag, share.cost, packet.bytes());
        Some(packet)
    }

    fn has_room(queues: &Queues<Params>) -> bool {
        // The class of a packet is not known before it arrives, so all classes must have room.
        (0..queues.bins.count()).all(|class| room(queues, class))
    }

    fn heap_bytes(&self, params: &Params) -> usize {
        params.classes.state_bytes()
    }

    fn inspect(&self, _queues: &Queues<Params>, report: &mut dyn FnMut(&'static str, u64)) {
        for (name, share) in CAME.iter().zip(&self.shares) {
            report(name, share.came);
        }
        for (name, share) in FULL.iter().zip(&self.shares) {
            report(name, share.full);
        }
    }

    fn service(&self, _bin: usize) -> Service {
        Service::Arrival("the queue of its class")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Admission, Configured, Discipline, Ready};
    use crate::fair::stfq::tests::Reference;
    use crate::rig::{Rig, built, gauge};
    use proptest::prelude::*;

    /// Flow 0 of the rig is 10.0.0.0, and so on.
    fn class_weights(classes: &str, limit: usize) -> ClassWeights {
        built(Params {
            classes: Classes::parse(classes).unwrap(),
            limit,
        })
    }

    /// Bytes of each flow among the next packets.
    fn bytes(rig: &mut Rig, queue: &mut ClassWeights, packets: usize) -> [u64; 3] {
        let mut bytes = [0; 3];
        for _ in 0..packets {
            let packet = rig.take(queue).unwrap();
            assert_eq!(u32::from(packet.class.0), packet.slot.0);
            bytes[packet.slot.0 as usize] += packet.bytes();
        }
        bytes
    }

    #[test]
    fn weights_share_and_the_idle_lend() {
        let classes = "from 10.0.0.0 = 3, from 10.0.0.1 = 2, rest = 1";
        let mut rig = Rig::new(3);
        let mut queue = class_weights(classes, 1000);
        for flow in 0..3 {
            for _ in 0..300 {
                rig.offer(&mut queue, flow, 1000);
            }
        }
        // 120 packets: 60, 40, 20, give or take the one packet that each class may be ahead.
        let sent = bytes(&mut rig, &mut queue, 120);
        for (sent, expected) in sent.iter().zip([60_000, 40_000, 20_000]) {
            assert!(sent.abs_diff(expected) <= 1000, "{sent} of {expected}");
        }
        // Class 0 sends its other 240 packets, and then no more: 1 and 2 share 2:1.
        let mut left = 240;
        while left > 0 {
            left -= usize::from(rig.take(&mut queue).unwrap().slot.0 == 0);
        }
        let sent = bytes(&mut rig, &mut queue, 30);
        assert!(sent[1].abs_diff(20_000) <= 1000 && sent[0] == 0, "{sent:?}");
    }

    #[test]
    fn a_busy_period_ends_and_its_debts_with_it() {
        // A packet of `rest` costs as much as 1000 packets of class 0. An hour later the debt is forgotten.
        let mut rig = Rig::new(2);
        let mut queue = class_weights("from 10.0.0.0 = 1000, rest = 1", 4000);
        rig.offer(&mut queue, 1, 1500);
        assert!(rig.take(&mut queue).is_some());
        assert_eq!(queue.ready(rig.now), Ready::Empty); // so the port does not call `dequeue`
        rig.now += weir_base::Span::from_secs(3600);
        rig.offer(&mut queue, 1, 1500);
        for _ in 0..3000 {
            rig.offer(&mut queue, 0, 1500);
        }
        let first = [(); 2].map(|()| rig.take(&mut queue).unwrap().slot.0);
        assert!(first.contains(&1), "{first:?}");
    }

    #[test]
    fn a_full_class_is_no_other_classes_loss() {
        let mut rig = Rig::new(2);
        let mut queue = class_weights("from 10.0.0.0 = 1, rest = 1", 5);
        for _ in 0..20 {
            rig.offer(&mut queue, 0, 100);
        }
        for _ in 0..5 {
            assert_eq!(rig.offer(&mut queue, 1, 100), Admission::Queued);
        }
        assert_eq!(
            (gauge(&queue, "class_0"), gauge(&queue, "full_0")),
            (20, 15)
        );
        assert_eq!((gauge(&queue, "class_1"), gauge(&queue, "full_1")), (5, 0));
        assert_eq!(queue.backlog().packets, 10);
    }

    #[test]
    fn new_weights_keep_the_queues_and_new_matches_the_order() {
        let mut rig = Rig::new(3);
        let mut queue = class_weights("from 10.0.0.0 = 1, rest = 1", 100);
        for flow in [0, 0, 1, 1, 0] {
            rig.offer(&mut queue, flow, 100);
        }
        let change = |queue: &mut ClassWeights, classes| {
            queue.change(class_weights(classes, 100).queues.params, Instant::ZERO);
        };
        change(&mut queue, "from 10.0.0.0 = 9, rest = 1");
        assert_eq!(queue.queues.bins.tally(0).packets, 3);
        change(&mut queue, "from 10.0.0.1 = 1, rest = 1");
        rig.offer(&mut queue, 2, 100);
        let ids: Vec<_> = std::iter::from_fn(|| rig.take(&mut queue))
            .map(|p| p.id)
            .collect();
        // Tags under 9:1: 0 and 2 start at 0, then 1 and 4, which are cheap, then 3; the new one is last.
        assert_eq!(ids, [0, 2, 1, 4, 3, 5]);
    }

    #[test]
    fn an_error_names_its_place() {
        let given = weir_base::setting::Scalar::Text("tcp = 1, udp 2, rest = 1".into());
        let error = crate::Spec::check(MANUAL.name, [("classes", &given)]).unwrap_err();
        let text = "`classes`: `udp 2` at character 10 is not a match with a weight, like `udp port 53 = 2`";
        assert_eq!(error.to_string(), text);
    }

    proptest! {
        #[test]
        fn schedules_as_stfq(
            weights in (1_u32..=6, 1_u32..=6, 1_u32..=6),
            calls in prop::collection::vec((any::<bool>(), 0_usize..3, 1_u32..3000), 0..300),
        ) {
            let weights = [weights.0, weights.1, weights.2];
            let [a, b, c] = weights;
            let mut rig = Rig::new(3);
            let text = format!("from 10.0.0.0 = {a}, from 10.0.0.1 = {b}, rest = {c}");
            let mut queue = class_weights(&text, 1000);
            let mut reference = Reference::new(3);
            for (arrival, flow, bytes) in calls {
                if arrival {
                    reference.enqueue(flow, weights[flow].into(), rig.next_id(), bytes.into());
                    rig.offer(&mut queue, flow, bytes);
                } else {
                    match rig.take(&mut queue) {
                        Some(packet) => prop_assert!(reference.serve(packet.id)),
                        None => prop_assert!(reference.is_empty()),
                    }
                }
            }
        }
    }
}
