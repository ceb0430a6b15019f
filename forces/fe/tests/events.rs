//! Subscriptions: which events a CE receives, and when.

use crate::world::{self, World, on, schema};
use weir_base::Span;
use weir_protocol::wire::{Body, Content, LfbSelect, OperationKind, PathData, ResultCode};

/// The path of an event of our class.
fn event(class: &str, name: &str) -> Vec<u32> {
    let class = schema(class);
    let event = class
        .events
        .iter()
        .find(|event| event.name == name)
        .unwrap();
    vec![class.events_base.unwrap(), event.id]
}

/// Sets a property of an event in the nested form.
fn property(class: &str, instance: u32, name: &str, property: u32, value: u32) -> LfbSelect {
    let nested = PathData::full(vec![property], value.to_be_bytes().to_vec()).unwrap();
    let path = PathData::new(event(class, name), None, Content::Nested(vec![nested])).unwrap();
    on(schema(class).id, instance, OperationKind::SetProperty, path)
}

fn subscribe(class: &str, instance: u32, name: &str) -> LfbSelect {
    let path = PathData::full(event(class, name), vec![0, 0, 0, 1]).unwrap();
    on(schema(class).id, instance, OperationKind::SetProperty, path)
}

fn all_good(answers: &[(ResultCode, String)]) {
    assert!(
        answers.iter().all(|(code, _)| *code == ResultCode::Success),
        "{answers:?}"
    );
}

#[test]
fn nothing_is_read_while_nobody_subscribes() {
    let mut world = World::new();
    world.run(Span::from_secs(20));
    assert!(world.reads.is_empty(), "{:?}", world.reads);
    all_good(&world.config(vec![subscribe("ports", 2, "carrier_lost")]));
    world.run(Span::from_secs(1));
    assert!(
        (9..=12).contains(&world.reads.len()),
        "{}",
        world.reads.len()
    );
    all_good(&world.config(vec![property("ports", 2, "carrier_lost", 2, 0)]));
    world.reads.clear();
    world.run(Span::from_secs(5));
    assert!(world.reads.is_empty());
}

#[test]
fn a_lost_and_found_carrier_is_reported_with_its_port() {
    let mut world = World::new();
    world.gauges = vec![("wan", "carrier", true.into())];
    let selects = vec![
        subscribe("ports", 2, "carrier_lost"),
        subscribe("ports", 2, "carrier_found"),
    ];
    all_good(&world.config(selects));
    world.run(Span::from_secs(1));
    world.notified(); // the initial carrier state
    for (works, name) in [(false, "carrier_lost"), (true, "carrier_found")] {
        world.gauges = vec![("wan", "carrier", works.into())];
        world.run(Span::from_secs(1));
        let reports = world.notified();
        assert_eq!(reports.len(), 1, "{reports:?}");
        let select = &reports[0].selects()[0];
        assert_eq!((select.class(), select.instance()), (schema("ports").id, 2));
        let path = &select.operations()[0].paths()[0];
        assert_eq!(path.ids(), event("ports", name));
        let Content::Full(octets) = path.content() else {
            panic!("{path:?}");
        };
        assert!(
            octets.windows(3).any(|octets| octets == b"wan"),
            "{octets:?}"
        );
    }
}

#[test]
fn properties_are_set_in_both_forms_and_read_back() {
    let mut world = World::new();
    let ports = schema("ports").id;
    all_good(&world.config(vec![
        property("ports", 1, "carrier_lost", 2, 1),
        property("ports", 1, "carrier_lost", 5, 3),
        property("ports", 1, "carrier_lost", 6, 250),
    ]));
    let read = |world: &mut World| {
        let path = PathData::bare(event("ports", "carrier_lost")).unwrap();
        world.ask(OperationKind::GetProperty, ports, 1, path);
        match world.response() {
            Some(Body::QueryResponse(response)) => world::only(&response).content().clone(),
            other => panic!("{other:?}"),
        }
    };
    let expected = [
        vec![3],
        [1_u32, 0, 0, 3, 250].map(u32::to_be_bytes).concat(),
    ]
    .concat();
    assert_eq!(read(&mut world), Content::Full(expected));
    world.reads.clear();
    world.run(Span::from_secs(1));
    assert!(
        (3..=5).contains(&world.reads.len()),
        "{}",
        world.reads.len()
    ); // every 250 ms
    for (select, code) in [
        (
            property("ports", 1, "carrier_lost", 1, 1),
            ResultCode::ReadOnly,
        ),
        (
            property("ports", 1, "carrier_lost", 7, 1),
            ResultCode::InvalidPath,
        ),
        (
            subscribe("ports", 9, "carrier_lost"),
            ResultCode::InstanceNotFound,
        ),
        (
            on(
                ports,
                1,
                OperationKind::SetProperty,
                PathData::full(vec![1], vec![1]).unwrap(),
            ),
            ResultCode::ReadOnly,
        ),
        (
            on(
                ports,
                1,
                OperationKind::SetProperty,
                PathData::full(vec![60, 99], vec![0; 4]).unwrap(),
            ),
            ResultCode::InvalidPath,
        ),
    ] {
        let answers = world.config(vec![select.clone()]);
        assert_eq!(answers[0].0, code, "{select:?}: {answers:?}");
    }
}
