//! The whole discipline: admission compared with a slow reference, runs of the mechanisms, floods, changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_packet::{FlowKey, Reason, Slot};

use super::*;
use crate::contract::{Admission, FlowClass, FlowStanding};
use crate::rig::{self, Rig, built, gauge};

fn params(given: &[(&str, &str)]) -> Params {
    rig::params::<Fan>(given).unwrap()
}

/// A link of 1 Mbit/s on which eight backlogged flows are too many: each gets 125 kbit/s, below the minimum of 130.
const BUSY: &[(&str, &str)] = &[
    ("rate", "1 Mbit"),
    ("min_fair_rate", "0.13"),
    ("max_priority_load", "1"),
    ("flows", "64"),
    ("waiting", "16"),
    ("interval", "2 s"),
    ("limit", "1000 packets"),
];

pub(super) struct Bench {
    pub(super) rig: Rig,
    pub(super) fan: Fan,
    /// The next packet of the eight flows.
    next: usize,
}

impl Bench {
    pub(super) fn new(more: &[(&str, &str)]) -> Self {
        let given = [BUSY, more].concat();
        Self {
            rig: Rig::new(80),
            fan: built(params(&given)),
            next: 0,
        }
    }

    /// Runs timers at their own times, as a port does.
    fn timers(&mut self) {
        let now = self.rig.now;
        while let Some(due) = self.fan.timeout().filter(|due| *due <= now) {
            self.rig.now = due;
            self.fan.on_timeout(&mut self.rig.cx());
        }
        self.rig.now = now;
    }

    pub(super) fn offer(&mut self, flow: usize, bytes: u32) -> bool {
        self.timers();
        self.rig.fates.freed().for_each(drop);
        match self.rig.offer(&mut self.fan, flow, bytes) {
            Admission::Refused(ended) => ended.reason != Reason::NotAdmitted,
            Admission::Queued | Admission::Marked => true,
        }
    }

    /// Eight flows that always have some packets waiting, for this many packet times of 8 ms.
    fn run(&mut self, packet_times: usize, mut each: impl FnMut(&mut Self, usize)) {
        for n in 0..packet_times {
            // Flows that were removed are refused, so the number of attempts is bounded.
            for _ in 0..16 {
                if self.fan.backlog().packets < 80 {
                    self.offer(self.next % 8, 1000);
                    self.next += 1;
                }
            }
            each(self, n);
            self.timers();
            self.rig.take(&mut self.fan);
            self.rig.now += Span::from_millis(8);
        }
    }

    fn standing(&self, flow: usize) -> Option<(FlowStanding, Span)> {
        let mut found = None;
        self.fan.flows(self.rig.now, &mut |report| {
            if report.key == crate::rig::flow_key(flow) {
                found = Some((report.standing, report.waited.unwrap()));
            }
        });
        found
    }
}

#[test]
fn new_flows_wait_while_the_link_is_congested() {
    let mut bench = Bench::new(&[("mechanism", "none")]);
    bench.run(500, |_, _| {});
    assert_eq!(gauge(&bench.fan, "congested"), 1);
    assert_eq!(gauge(&bench.fan, "elastic"), 8);
    assert!(!bench.offer(20, 100));
    bench.rig.now += Span::from_millis(100);
    assert!(!bench.offer(20, 100));
    assert_eq!(bench.fan.waiting.len(), 1);
    assert_eq!(
        bench.standing(20),
        Some((FlowStanding::Waiting, Span::from_millis(100)))
    );
    // Two packets of 100 B in a tenth of a second; a burst at one instant would not give a rate.
    let mut rates = Vec::new();
    bench.fan.flows(bench.rig.now, &mut |report| {
        if report.standing == FlowStanding::Waiting {
            rates.push((report.rate, report.seen.bytes));
        }
    });
    assert_eq!(rates, [(Rate::from_bps(16_000), 200)]);
    assert!(bench.offer(3, 1000)); // on the list
    let accepted = FlowStanding::Accepted(FlowClass::Elastic);
    assert_eq!(bench.standing(3), Some((accepted, Span::ZERO)));
    assert_eq!(bench.rig.fates.ended(Reason::NotAdmitted).packets, 2);
    // The link becomes idle: every flow is accepted, and the delay is known.
    while bench.rig.take(&mut bench.fan).is_some() {}
    bench.rig.now += Span::from_millis(1200);
    bench.timers();
    assert!(bench.offer(20, 100));
    let streaming = FlowStanding::Accepted(FlowClass::Streaming);
    assert_eq!(
        bench.standing(20),
        Some((streaming, Span::from_millis(1300)))
    );
    assert_eq!(gauge(&bench.fan, "delay_sum"), 1300);
    assert_eq!(gauge(&bench.fan, "accepted_late"), 1);
}

#[test]
fn eccm_lets_streams_in_and_new_elastic_flows_out_again() {
    let mut bench = Bench::new(&[("mechanism", "eccm")]);
    let mut most = 0;
    bench.run(1500, |bench, n| {
        if n == 100 || n > 200 && n % 10 == 0 {
            bench.offer(20, 100); // a stream: 100 bytes in 80 ms
        }
        if n > 300 && n % 24 == 0 {
            for _ in 0..3 {
                bench.offer(30, 1000); // a little more than a ninth of the link
            }
        }
        most = most.max(gauge(&bench.fan, "elastic"));
    });
    let (standing, waited) = bench.standing(20).unwrap();
    assert_eq!(standing, FlowStanding::Accepted(FlowClass::Streaming));
    assert!(waited <= Span::from_millis(2600), "{waited}");
    assert!(gauge(&bench.fan, "runs") >= 3);
    assert_eq!(most, 9);
    assert_eq!(gauge(&bench.fan, "elastic"), 8);
    assert!(gauge(&bench.fan, "removed_new") >= 1);
    assert_eq!(gauge(&bench.fan, "removed"), 0);
    assert_eq!(gauge(&bench.fan, "removed_established"), 0);
    assert_eq!(gauge(&bench.fan, "list_writes"), gauge(&bench.fan, "runs"));
    assert_eq!(gauge(&bench.fan, "set_aside_most"), 0);
}

#[test]
fn literally_eccm_stays_in_its_first_step() {
    let mut bench = Bench::new(&[("mechanism", "eccm"), ("eccm", "literal")]);
    bench.run(1500, |bench, n| {
        if n > 100 {
            bench.offer(20 + n % 50, 100);
        }
    });
    assert_eq!(gauge(&bench.fan, "runs"), 1);
    assert_eq!(gauge(&bench.fan, "congested"), 0); // the fair rate is held forever
    assert_eq!(gauge(&bench.fan, "fair_rate"), 130_000);
}

/// The effect of a mechanism on eight established elastic flows and a stream that waits to be accepted.
fn after(mechanism: &str) -> Bench {
    let more = [
        ("mechanism", mechanism),
        ("active_time", "1 s"),
        ("priority_admission", "0.5"),
        // 1 / 0.13 - 1 = 6.7: RAMAF leaves six.
    ];
    let mut bench = Bench::new(&more);
    bench.run(1500, |bench, n| {
        if n > 200 && n % 10 == 0 {
            bench.offer(20, 100);
        }
    });
    bench
}

#[test]
fn every_mechanism_lets_the_stream_in() {
    for mechanism in mechanism::WORDS {
        let bench = after(mechanism);
        let standing = bench.standing(20).map(|(standing, _)| standing);
        let accepted = Some(FlowStanding::Accepted(FlowClass::Streaming));
        match *mechanism {
            "none" => assert_eq!(standing, Some(FlowStanding::Waiting)),
            _ => assert_eq!(standing, accepted, "{mechanism}"),
        }
        let removed = gauge(&bench.fan, "removed");
        let runs = gauge(&bench.fan, "runs");
        match *mechanism {
            "none" | "eccm" => assert_eq!(removed, 0),
            "efm" | "raef" | "rbaef" | "rpaef" => assert!(removed > runs, "{mechanism}"),
            "efmp" => assert_eq!(removed, runs),
            _ => assert!(
                removed >= runs && removed <= 3 * runs,
                "{removed} in {runs}"
            ),
        }
        assert!(gauge(&bench.fan, "returned") <= removed);
        if ["efmp", "ramaf"].contains(mechanism) {
            let aside = gauge(&bench.fan, "set_aside");
            assert_eq!(gauge(&bench.fan, "returned") + aside, removed);
        }
    }
}

#[test]
fn ramaf_counts_elastic_flows_only() {
    // 1 / 0.13 - 1 = 6.7: six of the eight elastic flows stay, however many streams are on the list.
    let mut bench = Bench::new(&[("mechanism", "ramaf")]);
    let mut removed = None;
    bench.run(1000, |bench, n| {
        if n % 50 == 0 {
            for stream in 20..25 {
                bench.offer(stream, 100);
            }
        }
        if n > 100 && n % 10 == 0 {
            bench.offer(40, 100); // a new flow
        }
        if gauge(&bench.fan, "runs") == 1 {
            removed.get_or_insert((gauge(&bench.fan, "removed"), gauge(&bench.fan, "streaming")));
        }
    });
    assert_eq!(removed, Some((2, 5)));
}

/// The removal must not take the flows that come back meanwhile, nor any other once the link is clear.
#[test]
fn a_restoration_ends_a_removal_in_progress() {
    let mut bench = Bench {
        rig: Rig::new(300),
        ..Bench::new(&[("mechanism", "ramaf"), ("flows", "512")])
    };
    for n in 0..900 {
        assert!(bench.offer(n % 300, 1000));
    }
    assert_eq!(bench.fan.list.elastics(), 300);
    let now = bench.rig.now;
    let most = Removal::most_active(280).set_aside();
    bench.fan.act(Action::Remove(most), now);
    assert_eq!(gauge(&bench.fan, "set_aside"), 256); // one slice
    bench.fan.act(Action::Restore, now);
    for _ in 0..4 {
        bench.fan.work(now);
    }
    assert_eq!(gauge(&bench.fan, "set_aside"), 0);
    assert_eq!(gauge(&bench.fan, "flows"), 300);
    assert_eq!(gauge(&bench.fan, "removed"), 256);
    assert_eq!(bench.fan.work_at, None);
}

#[test]
fn changes_keep_the_lists() {
    let mut bench = Bench::new(&[("mechanism", "none")]);
    bench.run(500, |_, _| {});
    bench.offer(20, 100);
    let changed = [
        BUSY,
        &[("mechanism", "ramaf"), ("flows", "32"), ("waiting", "4")],
    ]
    .concat();
    let now = bench.rig.now;
    bench.fan.change(params(&changed), now);
    assert_eq!(gauge(&bench.fan, "flows"), 8);
    assert_eq!(gauge(&bench.fan, "elastic"), 8);
    assert_eq!(gauge(&bench.fan, "waiting"), 1);
    assert_eq!(gauge(&bench.fan, "congested"), 1);
    assert!(bench.fan.list.most_active().is_some()); // before the next packet of any flow
    let smaller = [BUSY, &[("mechanism", "ramaf"), ("flows", "3")]].concat();
    bench.fan.change(params(&smaller), now);
    assert_eq!(gauge(&bench.fan, "flows"), 3);
}

#[test]
fn a_flood_of_new_addresses_stays_in_its_bounds() {
    let mut rig = Rig::new(2);
    let given = [
        ("rate", "10 Gbit"),
        ("flows", "1000"),
        ("waiting", "100"),
        ("interval", "50 ms"),
    ];
    let mut fan: Fan = built(params(&given));
    let bytes = fan.state_bytes();
    for n in 0_u32..1_000_000 {
        let [a, b, c, d] = n.to_be_bytes();
        let key = FlowKey::ip([10 + a, b, c, d].into(), [192, 0, 2, 1].into(), 17, 1, 2);
        rig.keys.set(Slot(0), key);
        rig.now += Span::from_micros(2);
        while fan.timeout().is_some_and(|due| due <= rig.now) {
            fan.on_timeout(&mut rig.cx());
        }
        rig.offer(&mut fan, 0, 100);
        if n % 4096 == 0 {
            rig.offer(&mut fan, 1, 100); // an honest flow
        }
        rig.take(&mut fan);
        rig.fates.freed().for_each(drop);
        assert!(fan.list.len() <= 1000 && fan.waiting.len() <= 100);
    }
    assert_eq!(fan.state_bytes(), bytes);
    let honest = rig.keys.hash_key(&crate::rig::flow_key(1));
    assert!(fan.list.find(honest).is_some());
}

/// The slow, obvious reference: flows with their latest packet, in a map.
struct Reference {
    listed: BTreeMap<usize, Instant>,
    flows: usize,
    timeout: Span,
}

impl Reference {
    /// Whether a packet passes.
    fn passes(&mut self, flow: usize, now: Instant, congested: bool) -> bool {
        let timeout = self.timeout;
        self.listed.retain(|_, latest| now.since(*latest) < timeout);
        if let Some(latest) = self.listed.get_mut(&flow) {
            *latest = now;
            return true;
        }
        if congested {
            return false;
        }
        if self.listed.len() >= self.flows {
            let silent = self.listed.iter().min_by_key(|(_, latest)| **latest);
            match silent.map(|(flow, latest)| (*flow, *latest)) {
                Some((flow, latest)) if now.since(latest) >= Span::from_secs(1) => {
                    self.listed.remove(&flow);
                }
                _ => return true, // passes without being listed
            }
        }
        self.listed.insert(flow, now);
        true
    }
}

proptest! {
    /// Checks which flows pass and which are on the list, for any arrivals.
    #[test]
    fn admits_as_the_reference(
        calls in prop::collection::vec((0_usize..12, 60_u32..1500, 1_u64..40_000_000, any::<bool>()), 1..400),
        flows in 1_usize..12,
    ) {
        let flows_text = flows.to_string();
        let mut bench = Bench::new(&[
            ("mechanism", "none"), ("flows", &flows_text), ("flow_timeout", "1.5 s"),
            ("fair_rate_interval", "40 ms"), ("min_fair_rate", "0.4"),
        ]);
        let timeout = Span::from_millis(1500);
        let mut reference = Reference { listed: BTreeMap::new(), flows, timeout };
        for (flow, bytes, nanos, take) in calls {
            // All at different times, so that it is clear which flow has been silent for longest.
            bench.rig.now += Span::from_nanos(nanos);
            bench.timers();
            if take {
                bench.rig.take(&mut bench.fan);
            }
            let congested = gauge(&bench.fan, "congested") == 1;
            let passed = bench.offer(flow, bytes);
            prop_assert_eq!(passed, reference.passes(flow, bench.rig.now, congested));
            let mut listed = Vec::new();
            bench.fan.flows(bench.rig.now, &mut |report| {
                if let FlowStanding::Accepted(_) = report.standing {
                    listed.push((report.key, report.latest));
                }
            });
            listed.sort_unstable();
            let expected = reference.listed.iter();
            let expected: Vec<_> = expected.map(|(f, at)| (crate::rig::flow_key(*f), *at)).collect();
            prop_assert_eq!(listed, expected);
        }
    }
}
