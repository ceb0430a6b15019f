//! Controllers that steer FEs over associations.

use weir_base::setting::Scalar;
use weir_base::{Span, Tally};
use weir_ce::contract::{Answer, Refusal, Request};
use weir_ce::controller::{Bridge, ControllerPlan};
use weir_ce::desired::Desired;
use weir_lfb::Plan;
use weir_lfb::class::Block;
use weir_model::Value;
use weir_protocol::schema::{Class, Component, Step};
use weir_protocol::value;
use weir_protocol::wire::{Id, PathData};

use super::double::{Box, World};
use super::{SOON, change, get};

/// A controller that sets the probability at `wan` from the backlog of `lan` at the same FE, and reaches 1 at 10
/// packets.
fn backpressure() -> ControllerPlan {
    let given = [
        ("kind", "backpressure"),
        ("ingress", "edge1.wan"),
        ("egress", "edge1.lan"),
        ("queue", "egress"),
        ("weight", "1"),
        ("min_threshold", "1 packets"),
        ("max_threshold", "10 packets"),
        ("gentle", "false"),
    ];
    let given = given.map(|(key, value)| (key, Scalar::Text(value.to_owned())));
    let given: Vec<_> = given.iter().map(|(key, value)| (*key, value)).collect();
    ControllerPlan::check("rs", &given, &["edge1"], &[]).unwrap()
}

fn world() -> World {
    let plan = Plan::check(&[
        change("port.lan.interface", "eth0"),
        change("port.wan.rate", "10 Mbit"),
        change("port.wan.discipline.kind", "refill"),
    ]);
    let fe = ("edge1", Desired::default(), Box::of(&plan.unwrap()));
    let mut world = World::new(vec![fe]);
    world.bridge = Bridge::new(world.now, &[backpressure()]);
    world
}

/// An event report of a queue that holds this number of packets.
fn report(event: u32, backlog: u64) -> PathData {
    let class = Class::of(&Block::find("queues").unwrap().class);
    let declared = class.events.iter().find(|e| e.id == event).unwrap();
    let member = |steps: &Vec<Step>| -> Component {
        let ids: Vec<u32> = steps
            .iter()
            .map(|step| match step {
                Step::Member(id) => *id,
                other => panic!("{other:?}"),
            })
            .collect();
        class.component(&ids).unwrap().component.cloned().unwrap()
    };
    let members: Vec<Component> = declared.reports.iter().map(member).collect();
    let count = |packets| {
        Value::from(Tally {
            packets,
            bytes: 100 * packets,
        })
    };
    let value = Value::Struct(vec![
        ("port".into(), "lan".into()),
        ("received".into(), count(backlog)),
        ("sent".into(), count(0)),
        ("backlog".into(), count(backlog)),
        ("gauges".into(), Value::List(Vec::new())),
    ]);
    let content = value::encode_members(&members, &value).unwrap();
    PathData::new(vec![60, event], None, content).unwrap()
}

fn probability(world: &mut World) -> Value {
    match get(world, "refill.wan.probability") {
        Ok(Answer::Value(value)) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reports_of_backlogs_become_probabilities() {
    let mut world = world();
    world.run(SOON);
    // The CE has subscribed to both queues, with the period as interval.
    let subscribed = &world.fes[&Id(1)].state.subscribed;
    let events: Vec<_> = subscribed
        .iter()
        .filter(|(_, ids)| ids[..] == [60, 1, 6])
        .collect();
    assert_eq!(events.len(), 2, "{subscribed:?}");
    let lan = *events.iter().map(|(block, _)| block).min().unwrap();
    for (backlog, expected) in [(10, 1.0), (0, 0.0), (30, 1.0)] {
        world.report(Id(1), lan, report(1, backlog));
        world.run(Span::from_millis(50));
        assert_eq!(probability(&mut world), Value::Real(expected), "{backlog}");
    }
    // The store has none of this.
    assert!(world.stored.is_empty(), "{:?}", world.stored);
    // After a loss the CE subscribes again, and the controller steers again.
    let before = world.fes[&Id(1)].state.subscribed.len();
    world.cut(Id(1));
    world.run(Span::from_secs(1));
    assert!(world.fes[&Id(1)].state.subscribed.len() >= before + 2);
    world.report(Id(1), lan, report(1, 0));
    world.run(Span::from_millis(50));
    assert_eq!(probability(&mut world), Value::Real(0.0));
}

#[test]
fn what_cannot_be_steered_says_why() {
    let mut world = world();
    let steer = |path: &str| Request::Steer("edge1".to_owned(), vec![change(path, "0.5")]);
    let away = world.control.names().count();
    assert_eq!(away, 1);
    world.run(SOON);
    assert_eq!(
        world.ask(steer("port.wan.discipline.probability")),
        Ok(Answer::Done)
    );
    for wrong in [
        "port.wan.discipline.probabilty",
        "port.wam.discipline.probability",
        "port.lan.discipline.probability",
    ] {
        let Err(Refusal::Refused(why)) = world.ask(steer(wrong)) else {
            panic!("{wrong}")
        };
        assert!(
            why[0].starts_with("edge1: ") && why[0].contains(wrong),
            "{why:?}"
        );
    }
    let state = &mut world.fes.get_mut(&Id(1)).unwrap().state;
    state.refuses.extend(state.values.keys().cloned());
    let refused = world.ask(steer("port.wan.discipline.probability"));
    assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
    world.cut(Id(1));
    let request = world.begin(steer("port.wan.discipline.probability"));
    world.run(Span::from_millis(1));
    assert!(matches!(world.answers[&request], Err(Refusal::Silent(_))));
}
