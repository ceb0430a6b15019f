//! Sections of flexible packet forwarding as instances that a CE creates, sets and deletes.

use crate::world::{FE, World, delete, schema, selector, set, tally, write};
use weir_base::Span;
use weir_lfb::named::Named;
use weir_model::{Change, ComponentPath, Operation};
use weir_protocol::session::ce::{Deadlines, Ended, Event};
use weir_protocol::wire::header::Execution;
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{LfbSelect, ResultCode};

const SUCCESS: ResultCode = ResultCode::Success;

fn codes(outcomes: &[(ResultCode, String)]) -> Vec<ResultCode> {
    outcomes.iter().map(|(code, _)| *code).collect()
}

/// A row of LFBSelectors for a new instance, and its name.
fn make(row: u32, class: &str, instance: u32, name: &str) -> [LfbSelect; 2] {
    [
        write(1, 1, &[2, row], &selector(class, instance)),
        set(class, instance, "name", name),
    ]
}

/// An interface, a rule that uses it, and packets that take this path.
fn sections() -> Vec<LfbSelect> {
    let mut all = Vec::new();
    all.extend(make(500, "fpf_interfaces", 7, "core"));
    all.push(set("fpf_interfaces", 7, "port", "wan"));
    all.extend(make(501, "fpf_rules", 7, "to-b"));
    all.push(set("fpf_rules", 7, "lid", "b1"));
    all.push(set("fpf_rules", 7, "output", "core"));
    all.push(set("fpf_rules", 7, "neighbour", "02:00:00:00:00:0b"));
    all.push(set("fpf_rules", 7, "queue", "3"));
    all.extend(make(502, "fpf_encapsulations", 4, "video"));
    all.push(set(
        "fpf_encapsulations",
        4,
        "destination",
        "198.51.100.0/24",
    ));
    all.push(set("fpf_encapsulations", 4, "protocol", "udp"));
    all.push(set(
        "fpf_encapsulations",
        4,
        "destination_ports",
        "5000-5999",
    ));
    all.push(set("fpf_encapsulations", 4, "vectors", "b1a1:3 b1"));
    all
}

/// Number of classes of flows in the plan.
fn classes(world: &World) -> usize {
    let kind = Named::of_class(schema("fpf_classes").id).unwrap();
    world.plan.names(kind).len()
}

#[test]
fn a_ce_makes_sets_and_deletes_a_class_of_flows() {
    let mut world = world();
    let mut voice: Vec<_> = make(503, "fpf_classes", 2, "voice").into();
    voice.push(set("fpf_classes", 2, "kinds", "rtp"));
    voice.push(set("fpf_classes", 2, "vectors", "b1"));
    let answers = world.config(voice);
    assert_eq!(codes(&answers), [SUCCESS; 4], "{answers:?}");
    assert_eq!(classes(&world), 1);
    world.gauges = vec![("voice", "flows", 7_u64.into())];
    assert_eq!(world.value("fpf_classes", 2, "flows"), 7_u64.into());
    assert_eq!(
        world.value("fpf_classes", 2, "timeout"),
        60_000_000_000_u64.into()
    );
    let wrong = world.config(vec![set("fpf_classes", 2, "kinds", "rtpp")]);
    assert_eq!(codes(&wrong), [ResultCode::ValueOutOfRange]);
    assert!(wrong[0].1.contains("did you mean `rtp`"), "{wrong:?}");
    let answers = world.config(vec![delete(1, 1, &[2, 503])]);
    assert_eq!((codes(&answers), classes(&world)), (vec![SUCCESS], 0));
}

/// An FE whose port wan has the queue that a rule refers to.
fn plain() -> World {
    World::of(&[
        "port.wan.discipline.kind=class_weights",
        "port.wan.discipline.classes=queue 3 = 2, rest = 1",
    ])
}

/// The FE of `plain`, with the sections.
fn world() -> World {
    let mut world = plain();
    let answers = world.config(sections());
    assert!(
        codes(&answers).iter().all(|code| *code == SUCCESS),
        "{answers:?}"
    );
    world
}

fn rows(world: &mut World) -> usize {
    world.octets(1, 1, &[2]).len() / 12 // index, class, instance
}

#[test]
fn a_ce_makes_sets_and_deletes_every_kind_of_section() {
    let before = rows(&mut plain());
    let mut world = world();
    assert_eq!(world.changes.len(), 1, "one change of the router");
    assert_eq!(rows(&mut world), before + 3);
    let shown = world.plan.shown();
    assert_eq!(shown["fpf.rule.to-b.output"], "core");
    assert_eq!(shown["fpf.encapsulation.video.vectors"], "b1a1:3 b1");
    assert!(world.plan.layers[0].compiled().is_some());

    world.gauges = vec![("video", "count", tally(12, 1200))];
    assert_eq!(world.value("fpf_interfaces", 7, "name"), "core".into());
    assert_eq!(world.value("fpf_rules", 7, "lid"), "b1".into());
    assert_eq!(world.value("fpf_rules", 7, "queue"), 3_u64.into());
    assert_eq!(world.value("fpf_encapsulations", 4, "name"), "video".into());
    assert_eq!(
        world.value("fpf_encapsulations", 4, "count.packets"),
        12_u64.into()
    );
    assert_eq!(
        world.value("fpf_encapsulations", 4, "priority"),
        1000_u64.into()
    );

    let answers = world.config(vec![
        set("fpf", 1, "no_match", "drop"),
        set("fpf_encapsulations", 4, "vectors", "b1"),
        delete(schema("fpf_rules").id, 7, &[8]), // `queue` is reset to its default
    ]);
    assert_eq!(codes(&answers), [SUCCESS; 3], "{answers:?}");
    let shown = world.plan.shown();
    assert_eq!(shown["fpf.no_match"], "drop");
    assert_eq!(shown["fpf.encapsulation.video.vectors"], "b1");
    assert_eq!(shown["fpf.rule.to-b.queue"], "0");

    let gone = [500, 501, 502].map(|row| delete(1, 1, &[2, row]));
    let answers = world.config(gone.to_vec());
    assert_eq!(codes(&answers), [SUCCESS; 3], "{answers:?}");
    assert_eq!(rows(&mut world), before);
    assert!(world.plan.layers[0].compiled().is_none());
    let code = world.code(schema("fpf_rules").id, 7, &[1]);
    assert_eq!(code, ResultCode::InstanceNotFound);
}

#[test]
fn a_refused_section_leaves_everything_as_it_was() {
    let mut world = world();
    let before = world.plan.clone();
    let rule = |more: LfbSelect| {
        let mut all = make(510, "fpf_rules", 9, "new").to_vec();
        all.push(more);
        all
    };
    let answers = world.config(rule(set("fpf_rules", 9, "lid", "b1")));
    assert!(
        codes(&answers).contains(&ResultCode::ValueOutOfRange),
        "{answers:?}"
    );
    let why: String = answers.iter().map(|(_, why)| &why[..]).collect();
    assert!(why.contains("fpf.rule.new.output: missing"), "{why}");
    let nameless = vec![write(1, 1, &[2, 510], &selector("fpf_rules", 9))];
    let answers = world.config(nameless.clone());
    assert_eq!(codes(&answers), [ResultCode::InvalidParameters]);
    assert!(
        answers[0].1.contains("FPF rule 9 has no name"),
        "{answers:?}"
    );
    let early = world.config(vec![nameless[0].clone(), set("fpf_rules", 9, "lid", "b2")]);
    assert!(early[1].1.contains("component 1 of fpf_rules"), "{early:?}");
    let twice = make(510, "fpf_rules", 9, "to-b").to_vec();
    assert!(codes(&world.config(twice)).contains(&ResultCode::Exists));
    let missing = vec![set("fpf_rules", 8, "lid", "b2")];
    assert_eq!(
        codes(&world.config(missing)),
        [ResultCode::InstanceNotFound]
    );
    let used = vec![delete(1, 1, &[2, 500])]; // the interface that the rule refers to
    assert_ne!(codes(&world.config(used)), [SUCCESS]);
    let renamed = vec![set("fpf_rules", 7, "name", "other")];
    assert_eq!(codes(&world.config(renamed)), [ResultCode::ReadOnly]);
    let one_by_one = world.config_as(Execution::UntilFailure, nameless);
    assert_eq!(codes(&one_by_one), [ResultCode::NotSupported]);
    assert_eq!(world.plan, before);
    assert_eq!(world.value("fpf_rules", 7, "lid"), "b1".into());
}

/// Instance numbers are separate for each class: deleting a rule does not delete a port with the same number.
#[test]
fn each_class_has_numbers_of_its_own() {
    let mut world = world();
    let mut more = make(510, "fpf_rules", 2, "nowhere").to_vec();
    more.push(set("fpf_rules", 2, "lid", "b2"));
    more.push(set("fpf_rules", 2, "action", "drop"));
    let answers = world.config(more);
    assert_eq!(codes(&answers), [SUCCESS; 4], "{answers:?}");
    assert_eq!(world.value("ports", 2, "port"), "wan".into());
    let answers = world.config(vec![delete(1, 1, &[2, 510])]);
    assert_eq!(codes(&answers), [SUCCESS], "{answers:?}");
    assert_eq!(world.value("ports", 2, "port"), "wan".into());
    assert_eq!(world.value("queues", 2, "port"), "wan".into());
    let code = world.code(schema("fpf_encapsulations").id, 2, &[1]);
    assert_eq!(code, ResultCode::InstanceNotFound, "a port has none");
}

/// An operator at the FE adds a rule whose name sorts before the others.
#[test]
fn an_instance_keeps_its_number_while_others_come_and_go() {
    let mut world = world();
    let change = |at: &str, value: Option<&str>| {
        let path = ComponentPath::new(at.split('.'));
        let value = value.map(|text| weir_base::setting::Scalar::Text(text.to_owned()));
        Operation::Set(Change { path, value })
    };
    let operations = [
        change("fpf.rule.attic", None),
        change("fpf.rule.attic.lid", Some("b2")),
        change("fpf.rule.attic.action", Some("drop")),
    ];
    world.plan = world.plan.after(&operations).unwrap();
    let plan = world.plan.clone();
    world.agent.handle_plan(plan);
    assert_eq!(world.value("fpf_rules", 7, "name"), "to-b".into());
    assert_eq!(world.value("fpf_rules", 8, "name"), "attic".into());
    let gone = Operation::Delete(ComponentPath::new(["fpf", "rule", "attic"]));
    world.plan = world.plan.after(&[gone]).unwrap();
    let plan = world.plan.clone();
    world.agent.handle_plan(plan);
    let code = world.code(schema("fpf_rules").id, 8, &[1]);
    assert_eq!(code, ResultCode::InstanceNotFound);
    assert_eq!(world.value("fpf_rules", 7, "name"), "to-b".into());
}

#[test]
fn sections_are_a_part_of_transactions() {
    let phase = Span::from_millis(500);
    let transact = |world: &mut World, selects: Vec<LfbSelect>| {
        let deadlines = Deadlines {
            prepare: phase,
            commit: phase,
            abort: phase,
        };
        let parts = vec![(FE, vec![Selects::new(selects).unwrap()])];
        let now = world.now;
        world.ce().transact(now, parts, deadlines).unwrap();
        world.run(Span::from_secs(3));
        let mut events = std::mem::take(&mut world.events).into_iter();
        let ended = events.find_map(|(_, event)| match event {
            Event::Ended(_, ended) => Some(ended),
            _ => None,
        });
        ended.expect("it has ended")
    };
    let mut world = plain();
    let before = world.plan.clone();
    let mut wrong = sections();
    wrong.push(set("fpf_rules", 7, "output", "nowhere"));
    assert!(matches!(transact(&mut world, wrong), Ended::Aborted { .. }));
    assert_eq!(world.plan, before);
    assert_eq!(transact(&mut world, sections()), Ended::Committed);
    assert_eq!(world.plan.shown()["fpf.rule.to-b.lid"], "b1");
    assert_eq!(world.value("fpf_encapsulations", 4, "name"), "video".into());
}
