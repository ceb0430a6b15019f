//! Conversations of controllers with FEs simulated by a test, without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use weir_base::setting::Scalar;
use weir_base::{Instant, Span, Tally};
use weir_ce::controller::{Command, CommandId, ControllerPlan, Controllers, Done};
use weir_controller::Sample;
use weir_model::Value;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn plan(given: &[(&str, &str)], fes: &[&str], devices: &[&str]) -> ControllerPlan {
    let scalar = |text: &str| Scalar::Text(text.to_owned());
    let given: Vec<_> = given
        .iter()
        .map(|(key, value)| (*key, scalar(value)))
        .collect();
    let given: Vec<_> = given.iter().map(|(key, value)| (*key, value)).collect();
    ControllerPlan::check("c", &given, fes, devices).unwrap()
}

/// Backpressure at two ingresses, from the backlog of one egress; the probability reaches 1 at 10 packets.
fn backpressure() -> ControllerPlan {
    let given = [
        ("kind", "backpressure"),
        ("ingress", "a.wan, b.wan"),
        ("egress", "c.wan"),
        ("queue", "egress"),
        ("weight", "1"),
        ("min_threshold", "1 packets"),
        ("max_threshold", "10 packets"),
        ("gentle", "false"),
    ];
    plan(&given, &["a", "b", "c"], &[])
}

/// A row of the class `queues`, or a report of one of its events.
fn row(port: &str, backlog: u64, redirected: u64) -> Value {
    let count = |packets| {
        Value::from(Tally {
            packets,
            bytes: 100 * packets,
        })
    };
    let gauge = Value::Struct(vec![
        ("name".into(), "redirect_bytes".into()),
        ("value".into(), redirected.into()),
    ]);
    Value::Struct(vec![
        ("port".into(), port.into()),
        ("received".into(), count(backlog)),
        ("sent".into(), count(0)),
        ("backlog".into(), count(backlog)),
        ("gauges".into(), Value::List(vec![gauge])),
    ])
}

fn rows(backlog: u64) -> Done {
    Done::Rows(Value::List(vec![row("wan", backlog, 0)]))
}

/// Controllers with the commands that they issued.
struct World {
    controllers: Controllers,
    /// Pending commands.
    open: Vec<(CommandId, Command)>,
    watches: BTreeMap<String, CommandId>,
}

impl World {
    fn new(plans: &[ControllerPlan]) -> Self {
        Self {
            controllers: Controllers::new(Instant::ZERO, plans),
            open: Vec::new(),
            watches: BTreeMap::new(),
        }
    }

    /// Collects the commands.
    fn collect(&mut self) {
        while let Some((id, command)) = self.controllers.poll_command() {
            if let Command::Watch { fe, .. } = &command {
                self.watches.insert(fe.to_string(), id);
            }
            self.open.push((id, command));
        }
    }

    fn turn(&mut self, now: Instant) {
        self.controllers.handle_timeout(now);
        self.collect();
    }

    /// Answers every command, including follow-up commands; returns the commands as text.
    fn answer(
        &mut self,
        now: Instant,
        mut done: impl FnMut(&Command) -> Option<Done>,
    ) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            self.collect();
            let place = self
                .open
                .iter()
                .position(|(_, command)| done(command).is_some());
            let Some(place) = place else {
                return seen;
            };
            let (id, command) = self.open.remove(place);
            seen.push(words(&command));
            if let Some(done) = done(&command) {
                self.controllers.handle_done(now, id, done);
            }
        }
    }

    fn report(&mut self, now: Instant, fe: &str, backlog: u64) {
        let watch = self.watches[fe];
        self.controllers
            .handle_report(now, watch, &row("wan", backlog, 0));
    }

    fn notes(&mut self) -> Vec<String> {
        let note = || self.controllers.poll_note();
        let note = std::iter::from_fn(note).map(|note| format!("{}: {}", note.element, note.why));
        note.collect()
    }
}

fn words(command: &Command) -> String {
    match command {
        Command::Watch {
            fe,
            instance,
            event,
            filter,
            class,
        } => {
            let filter = match (filter.interval, filter.hysteresis) {
                (Some(interval), None) => interval.to_string(),
                (None, Some(step)) => format!("by {step}"),
                other => panic!("{other:?}"),
            };
            format!("watch {fe} {class}.{instance}.{event} {filter}")
        }
        Command::Read { fe, class } => format!("read {fe} {class}"),
        Command::Steer { fe, changes } => {
            let change = |c: &weir_model::Change| match &c.value {
                Some(Scalar::Text(text)) => format!("{}={text}", c.path),
                other => format!("{}={other:?}", c.path),
            };
            let changes: Vec<_> = changes.iter().map(change).collect();
            format!("steer {fe} {}", changes.join(" "))
        }
        Command::Sample { device, ports } => format!("sample {device} {}", ports.join(" ")),
    }
}

/// An FE that executes everything, and holds this number of packets.
fn good(backlog: u64) -> impl Fn(&Command) -> Option<Done> {
    move |command| {
        Some(match command {
            Command::Watch { .. } => Done::Watching,
            Command::Read { .. } => rows(backlog),
            Command::Steer { .. } => Done::Changed,
            Command::Sample { .. } => Done::Silent("no such device".into()),
        })
    }
}

fn steered(fe: &str, probability: &str) -> String {
    format!("steer {fe} port.wan.discipline.probability={probability}")
}

#[test]
fn backlogs_come_by_subscription() {
    let mut world = World::new(&[backpressure()]);
    // No FE has associated.
    world.turn(at(0));
    assert!(world.open.is_empty());
    for fe in ["a", "b", "c", "stranger"] {
        world.controllers.handle_associated(at(10), fe);
    }
    let watch = |fe| format!("watch {fe} queues.wan.backlog_changed 40 ms");
    assert_eq!(world.answer(at(10), good(0)), ["a", "b", "c"].map(watch));
    // The first samples are read from tables.
    world.turn(at(40));
    let seen = world.answer(at(45), good(10));
    let read = ["a", "b", "c"].map(|fe| format!("read {fe} queues"));
    assert_eq!(
        seen,
        [&read[..], &[steered("a", "1"), steered("b", "1")]].concat()
    );
    // Then samples come from reports: the egress holds 5 packets, then none.
    world.report(at(70), "c", 0);
    world.turn(at(80));
    let none = ["a", "b"].map(|fe| steered(fe, "0"));
    assert_eq!(world.answer(at(81), good(0)), none);
    world.report(at(110), "c", 10);
    world.turn(at(120));
    let one = ["a", "b"].map(|fe| steered(fe, "1"));
    assert_eq!(world.answer(at(121), good(0)), one);
    // Without a report nothing has changed. Each table is read every 400 ms, in case a report was lost.
    let mut reads = BTreeMap::new();
    for now in (160..3160).step_by(40) {
        world.turn(at(now));
        for seen in world.answer(at(now), good(10)) {
            match seen.strip_prefix("read ") {
                Some(fe) => *reads.entry(fe.to_owned()).or_insert(0) += 1,
                None => assert!(one.contains(&seen), "{seen}"),
            }
        }
    }
    assert_eq!(reads.into_values().collect::<Vec<_>>(), [7, 7, 7]);
    assert!(world.notes().is_empty());
}

#[test]
fn a_slow_fe_gets_the_newest_values_only() {
    let mut world = World::new(&[backpressure()]);
    for fe in ["a", "b", "c"] {
        world.controllers.handle_associated(at(0), fe);
    }
    world.answer(at(0), good(0));
    // `a` executes nothing for a while.
    let slow = |command: &Command| match command {
        Command::Steer { fe, .. } if **fe == *"a" => None,
        command => good(0)(command),
    };
    for (round, backlog) in [10, 0, 10, 0, 10].into_iter().enumerate() {
        let now = at(40 * round as u64);
        world.report(now, "c", backlog);
        world.turn(now);
        world.answer(now, slow);
    }
    let [(_, Command::Steer { .. })] = &world.open[..] else {
        panic!("{:?}", world.open)
    };
    // The command in progress, and the newest.
    let seen = world.answer(at(200), good(0));
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1], steered("a", "1"));
    // A late outcome is not an error.
    assert!(world.notes().is_empty());
}

#[test]
fn what_cannot_be_watched_is_polled() {
    let mut world = World::new(&[backpressure()]);
    world.controllers.handle_associated(at(0), "c");
    let refused = |command: &Command| match command {
        Command::Watch { .. } => Some(Done::Refused("no such event".into())),
        command => good(3)(command),
    };
    assert_eq!(world.answer(at(0), refused).len(), 1);
    assert_eq!(
        world.notes(),
        ["c: wan is polled, because it cannot be watched: no such event"]
    );
    for now in (0..400).step_by(40) {
        world.turn(at(now));
        assert_eq!(world.answer(at(now), refused), ["read c queues"], "{now}");
    }
    // The controller subscribes again when the FE associates again, and not before.
    world.controllers.handle_associated(at(400), "c");
    assert!(world.answer(at(400), good(3))[0].starts_with("watch c"));
}

#[test]
fn an_fe_that_does_not_answer_is_asked_once() {
    let mut world = World::new(&[backpressure()]);
    world.controllers.handle_associated(at(0), "c");
    let dead = |command: &Command| match command {
        Command::Watch { .. } => Some(Done::Watching),
        _ => None,
    };
    for now in (0..4000).step_by(20) {
        world.turn(at(now));
        world.answer(at(now), dead);
        assert!(world.open.len() <= 1, "{:?}", world.open);
    }
    assert_eq!(world.notes(), ["c: no answer in time"]);
    assert_eq!(
        world.controllers.report(at(4000))[0].troubles[0].1,
        "no answer in time"
    );
    // The late answer counts, and reports do.
    world.answer(at(4000), good(3));
    world.turn(at(4040));
    assert!(world.open.is_empty());
}

/// Three uplinks of 100 Mbit/s with 5 Mbit/s of control messages each.
fn flow_control() -> ControllerPlan {
    let given = [("kind", "flow_control"), ("uplinks", "a.wan, b.wan, c.wan")];
    plan(&given, &["a", "b", "c"], &[])
}

#[test]
fn rates_are_shared_out_again_when_an_fe_comes_or_goes() {
    let mut world = World::new(&[flow_control()]);
    // The latest order for each component, and the number of orders.
    let run = |world: &mut World, from: u64| {
        let (mut orders, mut count) = (BTreeMap::new(), 0);
        for now in (from..from + 1000).step_by(40) {
            world.turn(at(now));
            for seen in world.answer(at(now), good(0)) {
                if let Some(order) = seen.strip_prefix("steer ") {
                    count += 1;
                    let (fe, changes) = order.split_once(" port").unwrap();
                    for change in changes.split(" port.wan.discipline.") {
                        let change = change.trim_start_matches(".wan.discipline.");
                        let (name, value) = change.split_once('=').unwrap();
                        orders.insert(format!("{fe} {name}"), value.to_owned());
                    }
                }
            }
        }
        (orders, count)
    };
    world.controllers.handle_associated(at(0), "a");
    world.controllers.handle_associated(at(0), "b");
    let (two, count) = run(&mut world, 0);
    // (100 - 10) / 2; 1.01 times the rest, once it is known that no FE redirects anything.
    for fe in ["a", "b"] {
        assert_eq!(two[&format!("{fe} committed")], "45 Mbit", "{two:?}");
        assert_eq!(two[&format!("{fe} excess")], "90.9 Mbit", "{two:?}");
        assert_eq!(two[&format!("{fe} flow_control")], "true", "{two:?}");
    }
    // A value that the FE already has is not sent again.
    assert!(count <= 6, "{count}");
    assert_eq!(run(&mut world, 1000).1, 0);
    world.controllers.handle_associated(at(2000), "c");
    let (three, _) = run(&mut world, 2000);
    // (100 - 15) / 3; two of the FEs already have the flag.
    for fe in ["a", "b", "c"] {
        assert_eq!(three[&format!("{fe} committed")], "28.333333 Mbit");
    }
    let flags = three.keys().filter(|name| name.ends_with("flow_control"));
    assert_eq!(flags.collect::<Vec<_>>(), ["c flow_control"]);
    world.controllers.handle_lost(at(3000), "b");
    let (two, _) = run(&mut world, 3000);
    assert_eq!(two["a committed"], "45 Mbit");
    assert!(two.keys().all(|name| !name.starts_with('b')), "{two:?}");
    // An FE that associates again receives all orders.
    world.controllers.handle_associated(at(4000), "c");
    let (one, _) = run(&mut world, 4000);
    assert_eq!(one["c committed"], "45 Mbit");
    assert_eq!(one["c flow_control"], "true");
}

/// The value of the LFB `redirect`, with these bytes of exceptions and of control messages.
fn block(redirected: u64, control: u64) -> Value {
    let of = |names: [&'static str; 2], bytes: u64| {
        let [first, second] = names;
        Value::Struct(vec![
            (first.into(), (bytes / 100).into()),
            (second.into(), bytes.into()),
        ])
    };
    Value::Struct(vec![
        ("stats".into(), of(["packets", "bytes"], redirected)),
        ("control".into(), of(["messages", "bytes"], control)),
    ])
}

#[test]
fn the_buckets_of_exceptions_are_those_of_the_block() {
    let given = [
        ("kind", "flow_control"),
        ("uplinks", "a, b"),
        ("measure", "true"),
    ];
    let mut world = World::new(&[plan(&given, &["a", "b"], &[])]);
    for fe in ["a", "b"] {
        world.controllers.handle_associated(at(0), fe);
    }
    let none = |command: &Command| match command {
        Command::Read { .. } => Some(Done::Rows(block(0, 0))),
        command => good(0)(command),
    };
    let watches = world.answer(at(0), none);
    assert_eq!(
        watches[..2],
        [
            "watch a redirect.1.redirect_rate_changed 40 ms",
            "watch a redirect.1.control_rate_changed by 100000"
        ]
    );
    world.turn(at(0));
    let seen = world.answer(at(1), none);
    // (100 - 10) / 2 = 45 Mbit/s; as nothing is known yet, at most 1.01 times that. T_s is 1.5 s.
    let order =
        "redirect.ts=1.5 s redirect.bc=67500000 redirect.be=68175000 redirect.flow_control=true";
    let expected = ["read a redirect", "read b redirect"].map(str::to_owned);
    let orders = ["a", "b"].map(|fe| format!("steer {fe} {order}"));
    assert_eq!(seen, [expected, orders].concat());
    // `a` redirects 60 Mbit/s and `b` 30 Mbit/s, known from reports alone. Control messages of `b` take 15 Mbit/s.
    let mut last = BTreeMap::new();
    for now in (40..1000).step_by(40) {
        let watch = |fe: &str| world.watches[fe];
        let (of_a, of_b) = (watch("a"), watch("b"));
        let controllers = &mut world.controllers;
        controllers.handle_report(at(now), of_a, &block(now * 7500, now * 125));
        controllers.handle_report(at(now), of_b, &block(now * 3750, now * 1875));
        world.turn(at(now));
        for seen in world.answer(at(now), none) {
            let (fe, order) = seen
                .strip_prefix("steer ")
                .unwrap()
                .split_once(' ')
                .unwrap();
            last.insert(fe.to_owned(), order.to_owned());
        }
    }
    // (100 - 5 - 15) / 2 = 40; 1.01 * 80 - 30 = 50.8.
    let order = "redirect.ts=1.5 s redirect.bc=60000000 redirect.be=76200000";
    assert_eq!(last.into_values().collect::<Vec<_>>(), [order, order]);
    assert!(world.notes().is_empty());
}

#[test]
fn a_queue_that_cannot_be_steered_is_no_sample() {
    let mut world = World::new(&[flow_control()]);
    world.controllers.handle_associated(at(0), "a");
    let without = Value::List(vec![Value::Struct(vec![
        ("port".into(), "wan".into()),
        ("received".into(), Tally::ZERO.into()),
        ("sent".into(), Tally::ZERO.into()),
        ("backlog".into(), Tally::ZERO.into()),
    ])]);
    for (rows, why) in [
        (
            without,
            "a: wan: its discipline has no gauge `redirect_bytes`",
        ),
        (Value::List(Vec::new()), "a: wan: there is no such port"),
    ] {
        let mut world = World::new(&[flow_control()]);
        world.controllers.handle_associated(at(0), "a");
        let read = |command: &Command| match command {
            Command::Read { .. } => Some(Done::Rows(rows.clone())),
            command => good(0)(command),
        };
        let mut seen = Vec::new();
        for now in (0..400).step_by(40) {
            world.turn(at(now));
            seen.extend(world.answer(at(now), read));
        }
        // The controller has tried once: no orders, and no table read every round.
        assert_eq!(seen[1..], ["read a queues"]);
        assert_eq!(world.notes(), [why]);
    }
}

#[test]
fn a_device_is_sampled_once_a_period_and_one_request_at_a_time() {
    let given = [
        ("kind", "backpressure"),
        ("ingress", "a.wan"),
        ("egress", "core.Gi0/1"),
        ("queue", "egress"),
        ("weight", "1"),
        ("min_threshold", "1 packets"),
        ("max_threshold", "10 packets"),
    ];
    let mut world = World::new(&[plan(&given, &["a"], &["core"])]);
    world.controllers.handle_associated(at(0), "a");
    world.controllers.handle_lost(at(0), "core"); // `core` is a device, not an FE
    let backlog = |packets| {
        let backlog = Tally { packets, bytes: 0 };
        let sample = Sample::new(Tally::ZERO, Tally::ZERO, backlog);
        Done::Samples(vec![(Arc::from("Gi0/1"), sample)])
    };
    let with = |packets| {
        move |command: &Command| match command {
            Command::Sample { .. } => Some(backlog(packets)),
            command => good(0)(command),
        }
    };
    world.turn(at(0));
    let seen = world.answer(at(5), with(10));
    assert!(seen.contains(&"sample core Gi0/1".to_owned()), "{seen:?}");
    assert!(seen.contains(&steered("a", "0.1")), "{seen:?}");
    // Four rounds without an answer.
    let none = |command: &Command| match command {
        Command::Sample { .. } => None,
        command => good(0)(command),
    };
    for now in [40, 80, 120, 160] {
        world.turn(at(now));
        world.answer(at(now), none);
    }
    let samples = world
        .open
        .iter()
        .filter(|(_, c)| matches!(c, Command::Sample { .. }));
    assert_eq!(samples.count(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Associate(u8),
    Lose(u8),
    Report(u8, u64),
    Answer(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_u64..100).prop_map(Step::Pass),
        (0_u8..3).prop_map(Step::Associate),
        (0_u8..3).prop_map(Step::Lose),
        ((0_u8..3), 0_u64..20).prop_map(|(fe, backlog)| Step::Report(fe, backlog)),
        ((0_usize..6), any::<bool>()).prop_map(|(place, good)| Step::Answer(place, good)),
        ((0_usize..6), any::<bool>()).prop_map(|(place, good)| Step::Answer(place, good)),
    ]
}

proptest! {
    /// With any behaviour of FEs, pending commands are bounded, a lost FE gets none, and no FE is lost forever.
    #[test]
    fn any_conversation(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new(&[backpressure(), flow_control()]);
        let names = ["a", "b", "c"];
        let mut there = BTreeSet::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Pass(millis) => now += millis,
                Step::Associate(fe) => {
                    there.insert(names[usize::from(fe)]);
                    world.controllers.handle_associated(at(now), names[usize::from(fe)]);
                }
                Step::Lose(fe) => {
                    there.remove(names[usize::from(fe)]);
                    world.controllers.handle_lost(at(now), names[usize::from(fe)]);
                }
                Step::Report(fe, backlog) => {
                    if world.watches.contains_key(names[usize::from(fe)]) {
                        world.report(at(now), names[usize::from(fe)], backlog);
                    }
                }
                Step::Answer(place, is_good) if place < world.open.len() => {
                    let (id, command) = world.open.remove(place);
                    let done = good(5)(&command).filter(|_| is_good);
                    let done = done.unwrap_or(Done::Silent("gone".into()));
                    world.controllers.handle_done(at(now), id, done);
                }
                Step::Answer(..) => {}
            }
            let before = world.open.len();
            world.turn(at(now));
            for (_, command) in &world.open[before..] {
                let fe = match command {
                    Command::Watch { fe, .. } | Command::Read { fe, .. } | Command::Steer { fe, .. } => fe,
                    Command::Sample { device, .. } => device,
                };
                prop_assert!(there.contains(&**fe), "{command:?}");
            }
            // FEs that were lost and associated again have older unanswered commands.
            world.open.sort_by_key(|(id, _)| *id);
        }
        // In the end all answer, and the controllers steer every associated FE.
        for fe in names {
            world.controllers.handle_lost(at(now), fe);
        }
        world.answer(at(now), good(5));
        for fe in names {
            world.controllers.handle_associated(at(now), fe);
        }
        let mut steered = BTreeSet::new();
        let begin = now;
        while now < begin + 200 {
            now += 40;
            world.turn(at(now));
            for seen in world.answer(at(now), good(5)) {
                if let Some(order) = seen.strip_prefix("steer ") {
                    let kind = order.contains("probability");
                    steered.insert((order.split(' ').next().unwrap().to_owned(), kind));
                }
            }
        }
        prop_assert_eq!(steered.len(), 5, "two ingresses and three uplinks: {:?}", steered);
    }
}
