//! Requests of a CE: reading and writing the FE and its router.

use crate::world::{self, World, delete, path, schema, selector, set, tally, write};
use weir_fe::Forwarding;
use weir_model::{Component, Value};
use weir_protocol::wire::header::Execution;
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{
    Body, Content, LfbSelect, Operation, OperationKind, PathData, ResultCode, Selector,
};

const SUCCESS: ResultCode = ResultCode::Success;

fn codes(outcomes: &[(ResultCode, String)]) -> Vec<ResultCode> {
    outcomes.iter().map(|(code, _)| *code).collect()
}

#[test]
fn settings_and_counters_of_a_port_are_read() {
    let mut world = World::new();
    world.gauges = vec![("wan", "received", tally(7, 700))];
    assert_eq!(world.value("ports", 2, "rate"), Value::from("10 Mbit"));
    assert_eq!(world.value("ports", 1, "rate"), Value::from("0 bit"));
    assert_eq!(world.value("ports", 2, "received.packets"), Value::Whole(7));
    assert_eq!(world.value("ports", 1, "port"), "lan".into());
    assert_eq!(
        world.value("triple_fair", 2, "target"),
        Value::Whole(5_000_000)
    );
    assert_eq!(world.value("status", 1, "mode"), "routed".into());
    let whole = world.value("ports", 2, "");
    assert_eq!(whole.text("rate"), Some("10 Mbit"));
    assert_eq!(whole.whole("received.bytes"), Some(700));
    assert!(!world.value("routes", 1, "rows").rows().is_empty());
}

#[test]
fn a_table_is_read_once_for_all_paths_of_a_request() {
    let mut world = World::new();
    let ports = schema("ports").id;
    let get = |instance, words| {
        let path = PathData::bare(path("ports", words).0).unwrap();
        world::on(ports, instance, OperationKind::Get, path)
    };
    let selects = vec![get(1, "rate"), get(2, "rate"), get(2, "sent"), get(1, "")];
    let query = Selects::new(selects).unwrap();
    let (now, deadline) = (world.now, world.now + weir_base::Span::from_secs(1));
    world.ce().query(now, world::FE, query, deadline).unwrap();
    world.settle();
    let Some(Body::QueryResponse(response)) = world.response() else {
        panic!("no answer");
    };
    assert_eq!(response.selects().len(), 4);
    assert_eq!(world.reads, ["ports"]);
}

#[test]
fn what_is_not_there_has_the_code_of_the_rfc() {
    let mut world = World::new();
    let ports = schema("ports").id;
    let red = schema("red").id;
    assert_eq!(world.code(0x00f7_9999, 1, &[1]), ResultCode::LfbUnknown);
    assert_eq!(world.code(ports, 9, &[1]), ResultCode::InstanceNotFound);
    assert_eq!(world.code(red, 1, &[1]), ResultCode::InstanceNotFound);
    assert_eq!(world.code(ports, 1, &[999]), ResultCode::InvalidPath);
    assert_eq!(world.code(ports, 1, &[1, 1]), ResultCode::InvalidPath);
    let routes = schema("routes").id;
    assert_eq!(world.code(routes, 1, &[1, 77]), ResultCode::NotFound);
    let key = Some(Selector::Key {
        id: 1,
        values: b"192.0.2.0/24".to_vec(),
    });
    let path = PathData::new(vec![1], key, Content::Empty).unwrap();
    let answer = world.get(routes, 1, path);
    let Content::Outcome(outcome) = answer.content() else {
        panic!("{answer:?}");
    };
    assert_eq!(outcome.code(), ResultCode::NotFound);
}

/// A Query for rows of `routes` by their prefixes; returns the index of each row, and `None` if there is none.
fn rows_of_routes(world: &mut World, prefixes: &[&str]) -> Vec<Option<u32>> {
    let get = |prefix: &&str| {
        let values = prefix.as_bytes().to_vec();
        let key = Some(Selector::Key { id: 1, values });
        let path = PathData::new(vec![1], key, Content::Empty).unwrap();
        world::on(schema("routes").id, 1, OperationKind::Get, path)
    };
    let query = Selects::new(prefixes.iter().map(get).collect()).unwrap();
    let (now, deadline) = (world.now, world.now + weir_base::Span::from_secs(1));
    world.ce().query(now, world::FE, query, deadline).unwrap();
    world.settle();
    let Some(Body::QueryResponse(response)) = world.response() else {
        panic!("no answer");
    };
    let row = |select: &LfbSelect| {
        let path = &select.operations()[0].paths()[0];
        match path.content() {
            Content::Outcome(outcome) => {
                assert_eq!(outcome.code(), ResultCode::NotFound);
                None
            }
            _ => path.ids().get(1).copied(),
        }
    };
    response.selects().iter().map(row).collect()
}

#[test]
fn a_request_selects_several_rows_by_key() {
    let mut world = World::new();
    let class = weir_lfb::class::Block::find("routes").unwrap().class;
    let row = |prefix: &str| {
        Component::values(class.components, |component| match component.name {
            "prefix" => prefix.into(),
            _ => component.example_value(),
        })
    };
    let rows = ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/8", "10.1.0.0/16"].map(row);
    world.rows.insert("routes", Value::List(rows.to_vec()));
    let wanted = ["10.1.0.0/16", "10.1.1.0/24", "10.0.0.0/8", "0.0.0.0/0"];
    let found = rows_of_routes(&mut world, &wanted);
    assert_eq!(found, [Some(3), None, Some(1), Some(0)]);
    assert_eq!(world.reads, ["routes"]);
}

#[test]
fn rows_are_selected_by_key_and_by_range() {
    let mut world = World::new();
    let drops = schema("drops");
    let row = |reason: &str| {
        let Value::Struct(mut members) = weir_lfb::class::Block::find("drops")
            .unwrap()
            .class
            .example()
        else {
            panic!("a row is a structure");
        };
        for (name, value) in &mut members {
            if name == "reason" {
                *value = reason.into();
            }
        }
        Value::Struct(members)
    };
    world
        .rows
        .insert("drops", Value::List(["a", "b", "c"].map(row).to_vec()));
    let key = Some(Selector::Key {
        id: 1,
        values: b"b".to_vec(),
    });
    let by_key = world.get(
        drops.id,
        1,
        PathData::new(vec![1], key, Content::Empty).unwrap(),
    );
    assert_eq!(
        by_key.ids(),
        [1, 1],
        "the index of the row replaces its key"
    );
    let range = |first, last| {
        let range = Some(Selector::Range { first, last });
        PathData::new(vec![1], range, Content::Empty).unwrap()
    };
    let answer = world.get(drops.id, 1, range(1, u32::MAX));
    let Content::Sparse(rows) = answer.content() else {
        panic!("{answer:?}");
    };
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2]);
    let answer = world.get(drops.id, 1, range(7, 9));
    assert!(
        matches!(answer.content(), Content::Outcome(outcome) if outcome.code() == ResultCode::Empty)
    );
    world.ask(
        OperationKind::GetProperty,
        drops.id,
        1,
        PathData::bare(vec![1]).unwrap(),
    );
    let Some(Body::QueryResponse(response)) = world.response() else {
        panic!("no answer");
    };
    let properties = [vec![1], [3_u32, 2, 3].map(u32::to_be_bytes).concat()].concat();
    assert_eq!(*world::only(&response).content(), Content::Full(properties));
}

#[test]
fn a_long_table_comes_in_parts() {
    let mut world = World::new();
    let routes = schema("routes");
    let example = weir_lfb::class::Block::find("routes")
        .unwrap()
        .class
        .example();
    world
        .rows
        .insert("routes", Value::List(vec![example; 5000]));
    for ids in [vec![1], vec![]] {
        world.ask(
            OperationKind::Get,
            routes.id,
            1,
            PathData::bare(ids).unwrap(),
        );
        let responses = world.responses();
        assert!(responses.len() > 3, "{}", responses.len());
        let mut rows = 0;
        let last = responses.len() - 1;
        for (n, (body, is_last)) in responses.into_iter().enumerate() {
            let Body::QueryResponse(response) = body else {
                panic!("another answer");
            };
            assert_eq!(is_last, n == last);
            match world::only(&response).content() {
                Content::Sparse(ilvs) => rows += ilvs.len(),
                Content::Outcome(outcome) => assert!(is_last && outcome.is_success()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(rows, 5000);
    }
}

#[test]
fn several_settings_are_one_change() {
    let mut world = World::new();
    let selects = vec![
        set("ports", 2, "rate", "20 Mbit"),
        set("queues", 2, "discipline", "red"),
        set("red", 2, "limit", "300"),
    ];
    assert_eq!(codes(&world.config(selects)), [SUCCESS; 3]);
    assert_eq!(world.changes.len(), 1);
    let shown = world.plan.shown();
    assert_eq!(shown["port.wan.rate"], "20 Mbit");
    assert_eq!(shown["port.wan.discipline.kind"], "red");
    assert_eq!(shown["port.wan.discipline.limit"], "300");
    assert_eq!(world.value("red", 2, "limit"), Value::Whole(300));
    let reset = vec![delete(schema("ports").id, 2, &path("ports", "rate").0)];
    assert_eq!(codes(&world.config(reset)), [SUCCESS]);
    assert_eq!(world.plan.shown()["port.wan.rate"], "0 bit");
}

#[test]
fn a_refused_setting_is_named_with_its_cause_and_nothing_changes() {
    let mut world = World::new();
    let before = world.plan.clone();
    let answers = world.config(vec![
        set("ports", 2, "rate", "20 Mbit"),
        set("ports", 1, "rate", "5 bit"), // too slow
    ]);
    assert_eq!(
        codes(&answers),
        [ResultCode::Unspecified, ResultCode::ValueOutOfRange]
    );
    assert!(answers[1].1.contains("port.lan.rate"), "{answers:?}");
    let answers = world.config(vec![set("ports", 1, "interface", "wan")]);
    assert_eq!(codes(&answers), [ResultCode::InvalidParameters]);
    assert!(
        answers[0].1.contains("already uses this interface"),
        "{answers:?}"
    );
    assert_eq!(
        codes(&world.config(vec![set("red", 1, "limit", "5")])),
        [ResultCode::InstanceNotFound]
    );
    let ports = schema("ports").id;
    assert_eq!(
        codes(&world.config(vec![write(ports, 1, &[4], &[1])])),
        [ResultCode::ReadOnly]
    );
    assert_eq!(
        codes(&world.config(vec![write(
            ports,
            1,
            &path("ports", "rate_least").0,
            &[1, 2, 3]
        )])),
        [ResultCode::LengthMismatch]
    );
    world.is_broken = true;
    let answers = world.config(vec![set("ports", 2, "rate", "20 Mbit")]);
    assert_eq!(codes(&answers), [ResultCode::InternalError]);
    assert!(answers[0].1.contains("broken"), "{answers:?}");
    assert_eq!(world.plan, before);
}

#[test]
fn other_modes_change_path_by_path() {
    let mut world = World::new();
    let selects = || {
        vec![
            set("ports", 2, "rate", "20 Mbit"),
            set("ports", 1, "rate", "5 bit"),
            set("ports", 1, "overhead", "30 B"),
        ]
    };
    let answers = world.config_as(Execution::UntilFailure, selects());
    let refused = ResultCode::ValueOutOfRange;
    assert_eq!(codes(&answers), [SUCCESS, refused, ResultCode::Unspecified]);
    let shown = world.plan.shown();
    assert_eq!(
        (&*shown["port.wan.rate"], &*shown["port.lan.overhead"]),
        ("20 Mbit", "ethernet")
    );
    let answers = world.config_as(Execution::ContinueOnFailure, selects());
    assert_eq!(codes(&answers), [SUCCESS, refused, SUCCESS]);
    assert_eq!(world.plan.shown()["port.lan.overhead"], "30 B");
}

#[test]
fn a_port_comes_and_goes() {
    let mut world = World::new();
    let rows = world.octets(1, 1, &[2]).len() / 12; // index, class, instance
    let ports = schema("ports").id;
    let answers = world.config(vec![
        write(1, 1, &[2, 500], &selector("ports", 7)),
        set("ports", 7, "port", "guest"),
        set("ports", 7, "interface", "eth7"),
        set("ports", 7, "rate", "1 Mbit"),
        set("queues", 7, "discipline", "fifo"),
        set("fifo", 7, "limit", "50"),
    ]);
    assert_eq!(codes(&answers), [SUCCESS; 6], "{answers:?}");
    let shown = world.plan.shown();
    assert_eq!(shown["port.guest.interface"], "eth7");
    assert_eq!(shown["port.guest.discipline.limit"], "50");
    assert_eq!(world.value("ports", 7, "port"), "guest".into());
    assert_eq!(
        world.octets(1, 1, &[2]).len() / 12,
        rows + 7,
        "3 blocks of ours, 4 of the RFCs"
    );
    assert_eq!(world.octets(1, 1, &[2, 500]), selector("ports", 7));
    let answers = world.config(vec![delete(1, 1, &[2, 500])]);
    assert_eq!(codes(&answers), [SUCCESS], "{answers:?}");
    assert_eq!(world.plan.ports.len(), 2);
    assert_eq!(world.octets(1, 1, &[2]).len() / 12, rows);
    assert_eq!(world.code(ports, 7, &[1]), ResultCode::InstanceNotFound);
}

/// The CE and an operator at the FE create ports at the same time.
#[test]
fn a_port_keeps_its_number_when_another_one_comes() {
    let mut world = World::new();
    world.plan = world::plan(&[
        "port.lan.interface=eth0",
        "port.wan.rate=10 Mbit",
        "port.attic.interface=eth9", // the agent has not seen it yet
    ]);
    let answers = world.config(vec![
        write(1, 1, &[2, 500], &selector("ports", 3)),
        set("ports", 3, "port", "guest"),
    ]);
    assert_eq!(codes(&answers), [SUCCESS; 2], "{answers:?}");
    assert_eq!(world.value("ports", 3, "port"), "guest".into());
    assert_eq!(world.value("ports", 4, "port"), "attic".into());
}

#[test]
fn a_port_that_cannot_be_made_says_why() {
    let mut world = World::new();
    let make = |instance| write(1, 1, &[2, 500], &selector("ports", instance));
    let answers = world.config(vec![make(7)]);
    assert_eq!(codes(&answers), [ResultCode::InvalidParameters]);
    assert!(answers[0].1.contains("has no name"), "{answers:?}");
    assert_eq!(codes(&world.config(vec![make(2)])), [ResultCode::Exists]);
    let answers = world.config(vec![make(7), set("ports", 7, "port", "wan")]);
    assert_eq!(codes(&answers)[1], ResultCode::Exists, "{answers:?}");
    for number in [0, u32::MAX] {
        let answers = world.config(vec![make(number)]);
        assert_eq!(codes(&answers), [ResultCode::ValueOutOfRange]);
    }
    let other = vec![write(1, 1, &[2, 500], &selector("routes", 2))];
    assert_eq!(codes(&world.config(other)), [ResultCode::NotSupported]);
    let taken = vec![write(1, 1, &[2, 0], &selector("ports", 9))];
    assert_eq!(codes(&world.config(taken)), [ResultCode::InvalidParameters]);
    assert_eq!(world.plan.ports.len(), 2);
}

#[test]
fn the_objects_of_the_fe_are_read_and_written() {
    let mut world = World::new();
    assert_eq!(world.octets(1, 1, &[3]), b"edge");
    assert_eq!(world.octets(1, 1, &[4]), 2_u32.to_be_bytes());
    assert_eq!(world.octets(1, 1, &[7]), [2]);
    assert_eq!(world.octets(2, 1, &[8]), world::CE.0.to_be_bytes());
    assert_eq!(world.octets(2, 1, &[11]), 60_000_u32.to_be_bytes());
    let answers = world.config(vec![
        write(1, 1, &[3], b"attic"),
        write(2, 1, &[5], &9000_u32.to_be_bytes()),
        write(2, 1, &[16], &[2]),
    ]);
    assert_eq!(codes(&answers), [SUCCESS; 3], "{answers:?}");
    assert_eq!(world.octets(1, 1, &[3]), b"attic");
    assert_eq!(world.octets(2, 1, &[5]), 9000_u32.to_be_bytes());
    for (select, code) in [
        (write(2, 1, &[1], &[1]), ResultCode::ReadOnly),
        (
            write(1, 1, &[4], &9_u32.to_be_bytes()),
            ResultCode::NotSupported,
        ),
        (
            write(2, 1, &[5], &0_u32.to_be_bytes()),
            ResultCode::ValueOutOfRange,
        ),
        (
            write(2, 1, &[8], &0x4000_0009_u32.to_be_bytes()),
            ResultCode::InvalidParameters,
        ),
        (write(2, 1, &[16], &[3]), ResultCode::ValueOutOfRange),
        (write(2, 2, &[5], &[0; 4]), ResultCode::InstanceNotFound),
        (write(1, 1, &[7], &[1]), ResultCode::InvalidParameters),
        (
            write(1, 1, &[2, 0], &selector("ports", 1)),
            ResultCode::InvalidParameters,
        ),
        (delete(2, 1, &[5]), ResultCode::NotSupported),
    ] {
        let answers = world.config(vec![select.clone()]);
        assert_eq!(codes(&answers), [code], "{select:?}: {answers:?}");
    }
}

#[test]
fn the_whole_of_every_instance_can_be_read() {
    let mut world = World::new();
    let selectors = world.octets(1, 1, &[2]);
    assert!(selectors.len() > 12 * 10);
    for row in selectors.chunks_exact(12) {
        let number = |at: usize| u32::from_be_bytes(row[at..at + 4].try_into().unwrap());
        let answer = world.get(number(4), number(8), PathData::bare(vec![]).unwrap());
        let is_data = matches!(answer.content(), Content::Full(_) | Content::Sparse(_));
        assert!(is_data, "{:#x}.{}: {answer:?}", number(4), number(8));
    }
}

#[test]
fn a_disabled_fe_does_not_forward() {
    let mut world = World::new();
    assert_eq!(
        codes(&world.config(vec![write(1, 1, &[7], &[0])])),
        [SUCCESS]
    );
    assert_eq!(
        codes(&world.config(vec![write(1, 1, &[7], &[2])])),
        [SUCCESS]
    );
    assert_eq!(world.forwards, [false, true]);
    // An operator also enables the FE.
    assert_eq!(
        codes(&world.config(vec![write(1, 1, &[7], &[0])])),
        [SUCCESS]
    );
    let before = world.agent.enable(world.now);
    assert!(
        matches!(
            before,
            Some(Forwarding::Disabled {
                is_master: true,
                ..
            })
        ),
        "{before:?}"
    );
    assert!(world.agent.forwards());
    assert_eq!(world.agent.enable(world.now), None);
}

#[test]
fn exceptions_are_switched_on() {
    let mut world = World::new();
    let answers = world.config(vec![set("redirect", 1, "hop_limit", "true")]);
    assert_eq!(codes(&answers), [SUCCESS], "{answers:?}");
    assert_eq!(world.plan.shown()["redirect.hop_limit"], "true");
    assert_eq!(world.value("redirect", 1, "hop_limit"), true.into());
}

/// A deletion takes 16 bytes, and its result 8 more, so the answer to a TLV full of deletions does not fit.
#[test]
fn a_config_whose_answer_would_not_fit_is_refused_before_it_is_executed() {
    let mut world = World::new();
    let (ports, rate) = (schema("ports").id, path("ports", "rate").0);
    let deletions = |number| {
        let paths = vec![PathData::bare(rate.clone()).unwrap(); number];
        let operation = Operation::on(OperationKind::Delete, paths).unwrap();
        vec![LfbSelect::new(ports, 2, vec![operation]).unwrap()]
    };
    let answers = world.config(deletions(5000));
    assert_eq!(codes(&answers), [ResultCode::ContentsTooLong]);
    assert_eq!(world.value("ports", 2, "rate"), Value::from("10 Mbit"));
    let answers = world.config(deletions(2500));
    assert_eq!(codes(&answers), vec![SUCCESS; 2500]);
    assert_eq!(world.value("ports", 2, "rate"), Value::from("0 bit"));
}
