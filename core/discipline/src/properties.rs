//! Properties of every discipline, under any sequence of calls, tested for all of `KINDS`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use weir_base::setting::{Kind, Scalar, Setting, Settings};
use weir_base::{Bytes, Instant, Rate, Span, Streams};
use weir_packet::{Ecn, FlowKey, Reason, Slot};

use crate::contract::{Admission, Manual, Ready};
use crate::metered::Metered;
use crate::rig::{Rig, flow_key};
use crate::spec::Spec;
use crate::{KINDS, manuals};

const FLOWS: usize = 12;

/// A permitted value of this kind, small rather than large, so that limits are reached.
fn value(kind: Kind, draw: u64) -> Scalar {
    let small = draw >> 8;
    let setting = match kind {
        Kind::Count(min, max) if draw.is_multiple_of(8) => {
            Setting::Count((min + small % 300).min(max))
        }
        Kind::Count(min, max) => Setting::Count((min + small % 10).min(max)),
        Kind::Ratio(min, _) if draw.is_multiple_of(8) => Setting::Ratio(min),
        Kind::Ratio(_, max) if draw % 8 == 1 => Setting::Ratio(max),
        Kind::Ratio(min, max) => Setting::Ratio(min + (max - min) * (small % 1000) as f64 / 1000.0),
        Kind::RatioOrWord(_, _, word) if draw.is_multiple_of(4) => Setting::Word(word),
        Kind::RatioOrWord(min, max, _) => return value(Kind::Ratio(min, max), draw),
        Kind::RateOrWord(min, max, _) => return value(Kind::Rate(min, max), draw),
        Kind::BytesOrWords(min, max, _) => return value(Kind::Bytes(min, max), draw),
        Kind::Span(min, max) => {
            Setting::Span((min + Span::from_nanos(small % 20_000_000)).min(max))
        }
        Kind::Rate(min, max) => Setting::Rate(
            Rate::from_bps(min.as_bps() + small % 10_000_000)
                .min(max)
                .max(min),
        ),
        Kind::Bytes(min, max) => Setting::Bytes(Bytes((min.0 + small % 3000).min(max.0))),
        Kind::Flag => Setting::Flag(draw.is_multiple_of(2)),
        Kind::Word(words) => Setting::Word(words[small as usize % words.len()]),
        // The only parameter of this kind is the text of classes.
        Kind::Text(_) if draw.is_multiple_of(2) => {
            return Scalar::Text(format!("udp = {}, rest = 1", 1 + small % 10));
        }
        Kind::Text(_) => {
            let network = small % 16;
            return Scalar::Text(format!("from 10.0.0.{network} = 2, udp = 1, rest = 3"));
        }
        Kind::PacketsRateOrShare(max, _) if draw.is_multiple_of(2) => {
            Setting::Count((small % 6).min(max))
        }
        Kind::PacketsRateOrShare(..) if draw % 4 == 1 => {
            Setting::Ratio((1 + small % 999) as f64 / 1000.0)
        }
        Kind::PacketsRateOrShare(_, max) => {
            Setting::Rate(Rate::from_bps(small % 10_000_000).min(max))
        }
    };
    Scalar::Text(setting.to_string())
}

/// Any parameters of this discipline.
fn specs(manual: &'static Manual) -> impl Strategy<Value = Spec> {
    let draws = prop::collection::vec(any::<u64>(), manual.parameters.len());
    draws.prop_filter_map("settings that contradict each other", |draws| {
        let values: Vec<_> = manual
            .parameters
            .iter()
            .zip(draws)
            .map(|(parameter, draw)| (parameter.name, value(parameter.kind, draw)))
            .collect();
        Spec::check(manual.name, values.iter().map(|(name, v)| (*name, v))).ok()
    })
}

#[derive(Clone, Debug)]
enum Call {
    Arrive { flow: usize, bytes: u32, ecn: Ecn },
    Take,
    Wait(Span),
    Reconfigure(Index),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Capable0)];
    let arrive = (0..FLOWS, 60_u32..3000, ecn);
    let call = prop_oneof![
        8 => arrive.prop_map(|(flow, bytes, ecn)| Call::Arrive { flow, bytes, ecn }),
        6 => Just(Call::Take),
        2 => (0_u64..3_000_000).prop_map(|n| Call::Wait(Span::from_nanos(n))),
        1 => (0_u64..300_000_000).prop_map(|n| Call::Wait(Span::from_nanos(n))),
        1 => any::<Index>().prop_map(Call::Reconfigure),
    ];
    prop::collection::vec(call, 0..250)
}

/// The order of a flow's packets that a discipline promises.
#[derive(Clone, Copy, PartialEq)]
enum FlowOrder {
    Kept,
    /// Two queues, each of which keeps the order; a flow may cross from one to the other.
    TwoQueues,
    Free,
}

fn order(spec: &Spec) -> FlowOrder {
    match spec.kind() {
        // The meaning of `control` may change during the run.
        "lru_fq" | "dppbrb" => FlowOrder::TwoQueues,
        "impair" if spec.settings().flag("reorder") => FlowOrder::Free,
        _ => FlowOrder::Kept,
    }
}

/// Whether a discipline reports its waiting packets.
fn tells_who_waits(spec: &Spec) -> bool {
    !["dppbrb", "impair"].contains(&spec.kind())
}

/// Watches one run.
struct Run {
    rig: Rig,
    streams: Streams,
    metered: Metered,
    order: FlowOrder,
    held: BTreeSet<u64>,
    /// The latest packets sent of each flow, in each of at most two queues.
    latest: BTreeMap<u32, [Option<u64>; 2]>,
    held_at_change: u64,
}

impl Run {
    fn new(spec: &Spec, order: FlowOrder) -> Self {
        let streams = Streams::new(1).below("port");
        let mut rig = Rig::new(FLOWS);
        for flow in (0..FLOWS).step_by(3) {
            let tcp = FlowKey {
                protocol: 6,
                ..flow_key(flow)
            };
            rig.keys.set(Slot(flow as u32), tcp);
        }
        Self {
            rig,
            metered: Metered::new(spec.clone(), Instant::ZERO, &streams),
            streams,
            order,
            held: BTreeSet::new(),
            latest: BTreeMap::new(),
            held_at_change: 0,
        }
    }

    fn call(&mut self, call: &Call, specs: &[Spec]) {
        match call {
            Call::Arrive { flow, bytes, ecn } => self.arrive(*flow, *bytes, *ecn),
            Call::Take => self.take(),
            Call::Wait(span) => {
                self.rig.now += *span;
                let due = |metered: &Metered, now| metered.timeout().is_some_and(|t| t <= now);
                if due(&self.metered, self.rig.now) {
                    self.metered.on_timeout(&mut self.rig.cx());
                    assert!(!due(&self.metered, self.rig.now), "the timer stays due");
                }
            }
            Call::Reconfigure(index) => {
                let spec = index.get(specs).clone();
                let (before, kind) = (self.metered.backlog(), self.metered.spec().kind());
                let same = spec.kind() == kind;
                self.metered
                    .reconfigure(&mut self.rig.cx(), spec, &self.streams);
                if same {
                    assert_eq!(self.metered.backlog(), before);
                }
                self.held_at_change = self.metered.backlog().packets;
            }
        }
        self.check();
    }

    fn arrive(&mut self, flow: usize, bytes: u32, ecn: Ecn) {
        self.rig.ecn = ecn;
        let packet = self.rig.packet(flow, bytes);
        let id = packet.id;
        let mut cx = self.rig.cx();
        self.metered.prefetch(&cx, &packet);
        match self.metered.enqueue(&mut cx, packet) {
            Admission::Refused(_) => {}
            Admission::Queued | Admission::Marked => {
                self.held.insert(id);
            }
        }
    }

    /// Takes packets as a port does: only if the discipline reports `Ready::Now`.
    fn take(&mut self) {
        if self.metered.ready(self.rig.now) != Ready::Now {
            return;
        }
        match self.metered.dequeue(&mut self.rig.cx()) {
            Some(packet) => {
                assert!(self.held.remove(&packet.id), "{packet:?} sent twice");
                self.ordered(packet.slot.0, packet.id);
            }
            None => assert_ne!(self.metered.ready(self.rig.now), Ready::Now),
        }
    }

    fn ordered(&mut self, flow: u32, id: u64) {
        let [one, other] = self.latest.entry(flow).or_default();
        match self.order {
            FlowOrder::Free => {}
            _ if *one < Some(id) => *one = Some(id),
            FlowOrder::TwoQueues if *other < Some(id) => {
                *other = Some(id);
                if other > one {
                    std::mem::swap(one, other);
                }
            }
            _ => panic!("packet {id} of flow {flow} after {one:?}"),
        }
    }

    fn check(&mut self) {
        let backlog = self.metered.backlog();
        let spec = self.metered.spec();
        self.held_at_change = self.held_at_change.min(backlog.packets);
        let most = match spec {
            // The limit applies to each of two queues, and one queue may have exceeded it before the change.
            _ if order(spec) == FlowOrder::TwoQueues => {
                2 * (spec.limit() as u64 / 2).max(self.held_at_change)
            }
            _ => (spec.limit() as u64).max(self.held_at_change),
        };
        assert!(backlog.packets <= most, "{backlog:?} of {most}");
        let mut waiting = 0;
        self.metered
            .waiting(&mut |of_queue| waiting += of_queue.held.packets);
        assert!(waiting == backlog.packets || !tells_who_waits(spec));
        match self.metered.ready(self.rig.now) {
            Ready::Empty => assert_eq!(backlog.packets, 0),
            Ready::Now => assert_ne!(backlog.packets, 0),
            Ready::At(when) => {
                let holds = ["impair", "refill"].contains(&spec.kind());
                assert!(holds, "idle with {backlog:?}");
                assert!(when > self.rig.now && backlog.packets > 0);
            }
        }
    }

    /// Checks that every held packet leaves as time goes on.
    fn finish(&mut self) {
        let spec = self.metered.spec();
        if spec.kind() == "impair" {
            // An outage does not end by itself, and a rate may be as low as 1 bit/s.
            let (rate, outage) = (Scalar::Text("0 bit".to_owned()), Scalar::Flag(false));
            let ended = spec.with([("rate", &rate), ("outage", &outage)]).unwrap();
            self.metered.set(ended, self.rig.now).unwrap();
        }
        let mut empty_handed = 0;
        while self.metered.backlog().packets > 0 {
            let before = self.metered.backlog();
            self.take();
            self.check();
            if self.metered.backlog() == before {
                empty_handed += 1;
                assert!(empty_handed < 10, "stuck with {before:?}");
                self.call(&Call::Wait(Span::from_secs(61)), &[]); // longer than any delay
            }
        }
        let ledger = self.metered.ledger();
        assert_eq!(ledger.received, ledger.sent + ledger.dropped);
        assert_eq!(ledger.dropped, self.rig.fates.all_ended());
    }
}

fn any_manual() -> impl Strategy<Value = &'static Manual> {
    (0..KINDS.len()).prop_map(|n| &KINDS[n].manual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Accounting (asserted by `Metered`), limits, order, work conservation, with parameters changing in between.
    #[test]
    fn promises_hold((specs, calls) in any_manual().prop_flat_map(|m| (prop::collection::vec(specs(m), 1..4), calls()))) {
        let loosest = specs.iter().map(order).fold(FlowOrder::Kept, |a, b| if b == FlowOrder::Kept { a } else { b });
        let mut run = Run::new(&specs[0], loosest);
        for call in &calls {
            run.call(call, &specs);
        }
        run.finish();
    }

    /// Like `promises_hold`, with changes from any discipline to any other.
    #[test]
    fn promises_survive_a_change_of_kind((specs, calls) in (prop::collection::vec(any_manual().prop_flat_map(specs), 1..5), calls())) {
        let kept = specs.iter().all(|spec| order(spec) == FlowOrder::Kept);
        let mut run = Run::new(&specs[0], if kept { FlowOrder::Kept } else { FlowOrder::Free });
        for call in &calls {
            run.call(call, &specs);
        }
        run.finish();
    }

    /// Credit that was given is honoured; draining returns all packets without dropping or marking any.
    #[test]
    fn room_is_room((spec, calls) in any_manual().prop_flat_map(|m| (specs(m), calls()))) {
        let mut rig = Rig::new(FLOWS);
        let mut discipline = spec.build(Instant::ZERO, &Streams::new(1));
        for call in &calls {
            match call {
                Call::Arrive { flow, bytes, .. } => {
                    let (room, full) = (discipline.has_room(weir_packet::Class(0)), Reason::QueueFull);
                    let before = rig.fates.ended(full) + rig.fates.ended(Reason::LongestFlow);
                    rig.offer(discipline.as_mut(), *flow, *bytes);
                    let after = rig.fates.ended(full) + rig.fates.ended(Reason::LongestFlow);
                    prop_assert!(!room || before == after);
                }
                Call::Take => drop(rig.take(discipline.as_mut())),
                Call::Wait(span) => {
                    rig.now += *span;
                    if discipline.timeout().is_some_and(|due| due <= rig.now) {
                        discipline.on_timeout(&mut rig.cx());
                    }
                }
                Call::Reconfigure(_) => {}
            }
        }
        let (held, ended) = (discipline.backlog(), rig.fates.all_ended());
        let mut drained = weir_base::Tally::ZERO;
        discipline.drain(&mut |packet| drained.count(packet.bytes()));
        prop_assert_eq!(drained, held);
        prop_assert_eq!(rig.fates.all_ended(), ended);
        prop_assert_eq!(discipline.backlog(), weir_base::Tally::ZERO);
        prop_assert_eq!(discipline.ready(rig.now), Ready::Empty);
    }
}

/// Values to try for a parameter: both ends, and some between.
fn candidates(kind: Kind) -> Vec<Scalar> {
    let ends = match kind {
        Kind::Count(min, max) => vec![Setting::Count(min), Setting::Count(max)],
        Kind::Ratio(min, max) | Kind::RatioOrWord(min, max, _) => {
            vec![Setting::Ratio(min), Setting::Ratio(max)]
        }
        Kind::Span(min, max) => vec![Setting::Span(min), Setting::Span(max)],
        Kind::Rate(min, max) | Kind::RateOrWord(min, max, _) => {
            vec![Setting::Rate(min), Setting::Rate(max)]
        }
        Kind::Bytes(min, max) | Kind::BytesOrWords(min, max, _) => {
            vec![Setting::Bytes(min), Setting::Bytes(max)]
        }
        Kind::PacketsRateOrShare(packets, rate) => {
            vec![Setting::Count(packets), Setting::Rate(rate)]
        }
        Kind::Flag | Kind::Word(_) | Kind::Text(_) => Vec::new(),
    };
    let ends = ends.into_iter().map(|end| Scalar::Text(end.to_string()));
    ends.chain((0..40).map(|n| value(kind, n * 0x0123_4567_89ab)))
        .collect()
}

/// The discipline with one parameter set; if that is refused, also with a second parameter set to one of its
/// candidates.
fn with(manual: &'static Manual, name: &str, scalar: &Scalar) -> Option<Spec> {
    let alone = Spec::check(manual.name, [(name, scalar)]);
    let ends = manual.parameters.iter().filter(|other| other.name != name);
    let mut ends =
        ends.flat_map(|other| candidates(other.kind).into_iter().map(|s| (other.name, s)));
    alone.ok().or_else(|| {
        ends.find_map(|(other, end)| Spec::check(manual.name, [(name, scalar), (other, &end)]).ok())
    })
}

#[test]
fn every_parameter_is_set_then_shown() {
    let streams = Streams::new(1);
    for manual in manuals() {
        let default = Spec::check(manual.name, []).unwrap();
        let defaults = Settings::defaults(manual.parameters);
        assert_eq!(default.settings(), &defaults, "{}", manual.name);
        let value = |settings: &Settings, name| {
            let found = settings.iter().find(|(n, _)| *n == name);
            found.unwrap().1.clone()
        };
        for parameter in manual.parameters {
            let mut shown = 0;
            for scalar in candidates(parameter.kind) {
                let set = parameter.check(&scalar).unwrap();
                let Some(spec) = with(manual, parameter.name, &scalar) else {
                    continue; // contradicts others, whatever they are
                };
                let mut rig = Rig::new(1);
                let mut metered = Metered::new(default.clone(), Instant::ZERO, &streams);
                metered.reconfigure(&mut rig.cx(), spec, &streams);
                let settings = metered.spec().settings();
                assert_eq!(value(settings, parameter.name), set);
                assert_eq!(settings.iter().count(), manual.parameters.len());
                let changed = manual
                    .parameters
                    .iter()
                    .filter(|p| value(settings, p.name) != value(&defaults, p.name));
                assert!(changed.count() <= 2);
                shown += u32::from(set != value(&defaults, parameter.name));
            }
            assert!(
                shown > 0,
                "{}.{} cannot be set",
                manual.name,
                parameter.name
            );
        }
    }
}

/// A missing setting causes a panic where it is read.
#[test]
fn every_parameter_is_read() {
    for kind in KINDS {
        let table = kind.manual.parameters;
        for missing in table {
            let others = table.iter().filter(|other| other.name != missing.name);
            let others: Vec<_> = others.copied().collect();
            let settings = Settings::defaults(others.leak());
            let read = std::panic::catch_unwind(|| (kind.check)(&settings).is_ok());
            assert!(read.is_err(), "{}.{}", kind.manual.name, missing.name);
        }
    }
}

#[test]
fn kinds_are_listed_by_name() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.manual.name));
}

#[test]
fn manuals_list_what_is_reported() {
    for manual in manuals() {
        let spec = Spec::check(manual.name, []).unwrap();
        assert_eq!(spec.kind(), manual.name);
        let mut reported = Vec::new();
        spec.build(Instant::ZERO, &Streams::new(1))
            .inspect(&mut |name, _| reported.push(name));
        let listed: Vec<_> = manual.gauges.iter().map(|gauge| gauge.name).collect();
        assert_eq!(reported, listed, "{}", manual.name);
        assert!(manual.text.contains("attacker"), "{}", manual.name);
        assert!(manual.text.lines().all(|line| line.chars().count() <= 110));
    }
}

#[test]
fn contradictions_name_the_setting_to_change() {
    let cases = [
        ("codel", "target", "200 ms"),
        ("fq_codel", "target", "100 ms"),
        ("dppbrb", "min_threshold", "75"),
        ("impair", "jitter", "1 ms"),
        ("red", "min_threshold", "1000"),
        ("refill", "threshold", "2000"),
    ];
    for (kind, name, text) in cases {
        let error = Spec::check(kind, [(name, &Scalar::Text(text.into()))]).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("`{name}`: ")),
            "{error}"
        );
    }
}

/// A flood at twice the rate of the link, and a flow that sends far less than its share.
#[test]
fn a_flood_is_heavy_and_a_flow_within_its_share_is_light() {
    for kind in ["cake", "fq_codel", "lru_fq", "triple_fair"] {
        let mut rig = Rig::new(2);
        let spec = Spec::check(kind, []).unwrap();
        let mut discipline = spec.build(rig.now, &Streams::new(1));
        let mut sent = [[0; 2]; 2];
        for n in 0..20_000 {
            rig.now += Span::from_micros(1000);
            rig.offer(&mut *discipline, 1, 1000);
            rig.offer(&mut *discipline, 1, 1000);
            if n % 40 == 0 {
                rig.offer(&mut *discipline, 0, 200);
            }
            let mut cx = rig.cx();
            if let Some(packet) = discipline.dequeue(&mut cx) {
                sent[packet.slot.0 as usize][usize::from(cx.heavy)] += usize::from(n >= 4000);
            }
        }
        let [[light, late], [early, flood]] = sent;
        assert!(light >= 360 && late <= 40, "{kind}: {sent:?}");
        assert!(flood > 15_000 && early <= 100, "{kind}: {sent:?}");
    }
}
