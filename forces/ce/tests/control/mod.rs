//! Conversations of a CE with FEs, without I/O.

mod double;
mod lead;
mod steer;

use weir_base::Span;
use weir_base::setting::Scalar;
use weir_ce::contract::{Answer, CeSubscription, Filter, LogEvent, Refusal, Request};
use weir_ce::desired::{Desired, DesiredValue};
use weir_lfb::Plan;
use weir_lfb::class::Block;
use weir_model::{Change, ComponentPath, ElementPath, Operation};
use weir_protocol::session::ce::LinkId;
use weir_protocol::wire::header::Flags;
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{Body, Envelope, Id, Message, PathData};

use self::double::{Box, World};

const SOON: Span = Span::from_millis(100);

fn path(text: &str) -> ComponentPath {
    text.parse().unwrap()
}

fn change(at: &str, value: &str) -> Change {
    Change::new(path(at), Scalar::Text(value.to_owned()))
}

fn set(at: &str, value: &str) -> Operation {
    Operation::Set(change(at, value))
}

fn plan() -> Plan {
    Plan::check(&[
        change("port.lan.interface", "eth0"),
        change("port.wan.rate", "10 Mbit"),
        change("port.wan.discipline.kind", "red"),
    ])
    .unwrap()
}

fn desired(wishes: &[(&str, &str)]) -> Desired {
    let mut desired = Desired::default();
    for (at, value) in wishes {
        desired.put(
            &path(at),
            Some(&DesiredValue::Is(Scalar::Text((*value).to_owned()))),
        );
    }
    desired
}

fn world(wishes: &[(&str, &str)]) -> World {
    let mut world = World::new(vec![("edge1", desired(wishes), Box::of(&plan()))]);
    world.run(SOON);
    world
}

fn config(world: &mut World, fe: &str, component: &str) -> String {
    match world.ask(Request::Config(fe.to_owned())) {
        Ok(Answer::Config(config)) => config.get(component).cloned().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn of_edge1(at: &str) -> ElementPath {
    format!("edge1:{at}").parse().unwrap()
}

fn get(world: &mut World, at: &str) -> Result<Answer, Refusal> {
    world.ask(Request::Get(of_edge1(at)))
}

fn state(world: &World) -> String {
    let rows = world.control.fes();
    rows.rows()[0].text("state").unwrap().to_owned()
}

#[test]
fn the_difference_is_restored_after_each_association() {
    let mut world = world(&[
        ("port.wan.rate", "5 Mbit"),
        ("port.wan.discipline.kind", "fifo"),
    ]);
    assert_eq!(state(&world), "in sync", "{:?}", world.journal);
    assert_eq!(config(&mut world, "edge1", "port.wan.rate"), "5 Mbit");
    let changes = world.fes[&Id(1)].state.changes;
    world.cut(Id(1));
    assert_eq!(state(&world), "away");
    world.run(Span::from_secs(1));
    assert_eq!(state(&world), "in sync");
    // The double has no LFB of the new kind; the component has the value that was set.
    assert_eq!(
        world.fes[&Id(1)].state.changes,
        changes,
        "nothing differed the second time"
    );
    // Somebody changes the FE while it is disconnected.
    world.cut(Id(1));
    world.fes.get_mut(&Id(1)).unwrap().state = Box::of(&plan());
    world.run(Span::from_secs(1));
    assert_eq!(config(&mut world, "edge1", "port.wan.rate"), "5 Mbit");
}

#[test]
fn a_port_that_is_wanted_is_created_and_one_that_is_deleted_goes() {
    let mut world = world(&[("port.dmz.interface", "eth7")]);
    assert_eq!(state(&world), "in sync", "{:?}", world.journal);
    assert_eq!(config(&mut world, "edge1", "port.dmz.interface"), "eth7");
    let delete = Operation::Delete(path("port.lan"));
    let request = Request::Change(vec![("edge1".to_owned(), vec![delete])]);
    let Ok(Answer::Changed(lines)) = world.ask(request) else {
        panic!()
    };
    assert!(
        lines.iter().any(|line| line.contains("port.lan.interface")),
        "{lines:?}"
    );
    assert_eq!(config(&mut world, "edge1", "port.lan.interface"), "");
    assert_eq!(config(&mut world, "edge1", "port.dmz.interface"), "eth7");
}

#[test]
fn a_change_is_kept_then_made_and_survives_a_loss() {
    let mut world = world(&[]);
    let request = |rate: &str| {
        let operations = vec![set("port.wan.rate", rate)];
        Request::Change(vec![("edge1".to_owned(), operations)])
    };
    let lines = world.ask(request("7 Mbit")).unwrap();
    let expected = "edge1: ~ port.wan.rate: 10 Mbit -> 7 Mbit".to_owned();
    assert_eq!(lines, Answer::Changed(vec![expected]));
    assert_eq!(world.stored.len(), 1);
    assert_eq!(config(&mut world, "edge1", "port.wan.rate"), "7 Mbit");
    world.cut(Id(1));
    let away = world.ask(request("8 Mbit"));
    let Ok(Answer::Changed(lines)) = away else {
        panic!("{away:?}")
    };
    assert!(lines[0].contains("not associated"), "{lines:?}");
    world.run(Span::from_secs(1));
    assert_eq!(config(&mut world, "edge1", "port.wan.rate"), "8 Mbit");
}

#[test]
fn what_an_fe_refuses_is_taken_back() {
    let mut world = world(&[]);
    let ports = Block::find("ports").unwrap().class;
    let rate = ports
        .parameters
        .iter()
        .find(|p| p.name == "rate")
        .unwrap()
        .id;
    let wan = 1 + plan().ports.iter().position(|p| p.name == "wan").unwrap() as u32;
    let state = &mut world.fes.get_mut(&Id(1)).unwrap().state;
    state.refuses.insert(((ports.id, wan), vec![rate]));
    let both = vec![set("port.wan.rate", "7 Mbit"), set("age_max", "2 s")];
    let refused = world.ask(Request::Change(vec![("edge1".to_owned(), both)]));
    let Err(Refusal::Refused(why)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(why.len(), 1, "only the component that is wrong: {why:?}");
    assert!(why[0].contains("edge1:port.wan.rate"), "{why:?}");
    assert_eq!(world.stored.len(), 2, "kept, and taken back");
    assert_eq!(config(&mut world, "edge1", "age_max"), "1 s");
    let status = Block::find("status").unwrap().class;
    let age_max = status.parameters.iter().find(|p| p.name == "age_max");
    let state = &mut world.fes.get_mut(&Id(1)).unwrap().state;
    state
        .refuses
        .insert(((status.id, 1), vec![age_max.unwrap().id]));
    let change = vec![("edge1".to_owned(), vec![set("age_max", "2 s")])];
    let Err(Refusal::Refused(why)) = world.ask(Request::Change(change)) else {
        panic!("it is refused")
    };
    assert!(why[0].contains("edge1:age_max"), "of no port: {why:?}");
    world.cut(Id(1));
    world.run(Span::from_secs(1));
    assert_eq!(self::state(&world), "in sync");
}

#[test]
fn a_store_that_fails_changes_nothing() {
    let mut world = world(&[]);
    world.store_is_broken = true;
    let operations = vec![set("port.wan.rate", "7 Mbit")];
    let refused = world.ask(Request::Change(vec![("edge1".to_owned(), operations)]));
    assert!(matches!(&refused, Err(Refusal::Silent(why)) if why.contains("no space left")));
    assert_eq!(config(&mut world, "edge1", "port.wan.rate"), "10 Mbit");
}

#[test]
fn a_transaction_over_two_fes_is_all_or_nothing() {
    let fes = ["edge1", "edge2"].map(|name| (name, Desired::default(), Box::of(&plan())));
    let mut world = World::new(fes.into());
    world.run(SOON);
    let both = |rate: &str| {
        let part = |fe: &str| (fe.to_owned(), vec![set("port.wan.rate", rate)]);
        Request::Change(vec![part("edge1"), part("edge2")])
    };
    assert!(matches!(world.ask(both("7 Mbit")), Ok(Answer::Changed(lines)) if lines.len() == 2));
    assert_eq!(config(&mut world, "edge2", "port.wan.rate"), "7 Mbit");
    let ports = Block::find("ports").unwrap().class;
    let rate = ports
        .parameters
        .iter()
        .find(|p| p.name == "rate")
        .unwrap()
        .id;
    let state = &mut world.fes.get_mut(&Id(2)).unwrap().state;
    let refused = [1, 2, 3].map(|port| ((ports.id, port), vec![rate]));
    state.refuses.extend(refused);
    let Err(Refusal::Refused(why)) = world.ask(both("8 Mbit")) else {
        panic!()
    };
    assert!(why[0].starts_with("edge2: refused the change"), "{why:?}");
    for fe in ["edge1", "edge2"] {
        assert_eq!(config(&mut world, fe, "port.wan.rate"), "7 Mbit");
    }
}

#[test]
fn components_are_got_and_set_by_names_and_by_numbers() {
    let mut world = world(&[]);
    let value = |text: &str| Ok(Answer::Value(text.into()));
    for (at, expected) in [
        ("port.wan.port", "wan"),
        ("port.wan.rate", "10 Mbit"),
        ("ports.wan.rate", "10 Mbit"), // as in the previous release
        ("ports.2.rate", "10 Mbit"),
        ("port.wan.discipline.kind", "red"),
        ("queues.wan.discipline", "red"),
        ("mode", "routed"),
        ("status.1.mode", "routed"),
    ] {
        assert_eq!(get(&mut world, at), value(expected), "{at}");
    }
    for (at, expected) in [
        (
            "port.wan.rat",
            "edge1:port.wan.rat: there is no component `rat` in ports; did you mean `rate`?",
        ),
        (
            "ports.wan.rat",
            "edge1:port.wan.rat: there is no component `rat` in ports; did you mean `rate`?",
        ),
        (
            "port.wna.rate",
            "edge1:port.wna.rate: there is no port `wna`; it must be one of lan, wan",
        ),
        (
            "queues.wna",
            "edge1:queues.wna: there is no port `wna`; it must be one of lan, wan",
        ),
        (
            "FEObject.x",
            "edge1:FEObject.x: there is no instance `x`; it must be a number",
        ),
        ("port", "edge1:port: name an instance, like port.wan"),
        ("prot.wan.rate", "did you mean `port`?"),
        ("mdoe", "did you mean `mode`?"),
    ] {
        let Err(Refusal::NotFound(why)) = get(&mut world, at) else {
            panic!("{at}")
        };
        assert!(why.contains(expected), "{at}: {why}");
    }
    let change =
        |at: &str, value: &str| Request::Change(vec![("edge1".to_owned(), vec![set(at, value)])]);
    for (at, rate) in [
        ("port.wan.rate", "6 Mbit"),
        ("ports.wan.rate", "7 Mbit"),
        ("ports.2.rate", "8 Mbit"),
    ] {
        world.ask(change(at, rate)).unwrap();
        assert_eq!(config(&mut world, "edge1", "port.wan.rate"), rate, "{at}");
    }
    world.ask(change("FEObject.1.FEName", "west")).unwrap();
    assert_eq!(get(&mut world, "1.1.3"), value("west"));
    world.fes.get_mut(&Id(1)).unwrap().state = Box::of(&plan());
    world.cut(Id(1));
    world.run(Span::from_secs(1));
    assert_eq!(get(&mut world, "1.1.3"), value("west"), "it is restored");
    let Err(Refusal::Wrong(why)) = world.ask(change("port.wan.carrier", "true")) else {
        panic!()
    };
    assert_eq!(why, "edge1:port.wan.carrier: it can be read, but not set");
}

#[test]
fn a_mistyped_port_does_not_become_a_new_one() {
    let mut world = world(&[]);
    let wrong =
        |at: &str, value: &str| Request::Change(vec![("edge1".to_owned(), vec![set(at, value)])]);
    let Err(Refusal::Refused(why)) = world.ask(wrong("port.wann.rate", "7 Mbit")) else {
        panic!()
    };
    assert!(why[0].contains("did you mean `wan`"), "{why:?}");
    let Err(Refusal::Refused(why)) = world.ask(wrong("port.wan.rat", "7 Mbit")) else {
        panic!()
    };
    assert!(why[0].contains("did you mean `rate`"), "{why:?}");
    assert!(world.stored.is_empty());
}

#[test]
fn an_event_is_heard_again_after_a_loss() {
    let mut world = world(&[]);
    let watch = Request::Watch(CeSubscription {
        path: of_edge1("port.wan.carrier_lost"),
        filter: Filter::default(),
    });
    let Ok(Answer::Watching(id)) = world.ask(watch) else {
        panic!()
    };
    let state = &world.fes[&Id(1)].state;
    let (block, event) = state.subscribed[0].clone();
    let wan = 1 + plan().ports.iter().position(|p| p.name == "wan").unwrap() as u32;
    assert_eq!((block.1, &event[..2]), (wan, &[60, 1][..]));
    let subscriptions = state.subscribed.len();
    world.cut(Id(1));
    world.run(Span::from_secs(1));
    assert!(world.fes[&Id(1)].state.subscribed.len() > subscriptions);
    world.report(Id(1), block, PathData::bare(vec![60, 1]).unwrap());
    world.run(SOON);
    let Ok(Answer::Notices(notices)) = world.ask(Request::Fetch(id)) else {
        panic!()
    };
    let [notice] = &notices.notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(notice.text("event"), Some("carrier_lost"));
    assert_eq!(notice.text("instance"), Some("wan"));
    assert_eq!(world.ask(Request::Unwatch(id)), Ok(Answer::Done));
    assert!(matches!(
        world.ask(Request::Fetch(id)),
        Err(Refusal::NotFound(_))
    ));
}

#[test]
fn a_component_is_sampled_and_a_slow_reader_loses_the_oldest() {
    let mut world = world(&[]);
    let watch = Request::Watch(CeSubscription {
        path: of_edge1("port.wan.rate"),
        filter: Filter {
            interval: Some(Span::from_millis(20)),
            ..Filter::default()
        },
    });
    let Ok(Answer::Watching(id)) = world.ask(watch) else {
        panic!()
    };
    world.run(Span::from_secs(1));
    let Ok(Answer::Notices(notices)) = world.ask(Request::Fetch(id)) else {
        panic!()
    };
    assert!(
        (45..60).contains(&notices.notices.len()),
        "{}",
        notices.notices.len()
    );
    assert_eq!(notices.notices[0].text("value"), Some("10 Mbit"));
    world.run(Span::from_secs(30));
    let Ok(Answer::Notices(notices)) = world.ask(Request::Fetch(id)) else {
        panic!()
    };
    assert_eq!(notices.notices.len(), 1024);
    assert!(notices.lost > 400, "{}", notices.lost);
    world.run(Span::from_secs(61));
    assert!(matches!(
        world.ask(Request::Fetch(id)),
        Err(Refusal::NotFound(_))
    ));
}

#[test]
fn the_tables_of_the_ce_have_rows() {
    let world = world(&[("port.wan.rate", "5 Mbit")]);
    let fes = world.control.fes();
    assert_eq!(fes.rows()[0].whole("ports"), Some(2));
    assert_eq!(fes.rows()[0].whole("desired"), Some(1));
    let associations = world.control.associations(world.now);
    assert!(associations.rows()[0].whole("messages_sent") >= Some(3));
    assert_eq!(associations.rows()[0].text("peer"), Some("test"));
    let lfbs = world.control.lfbs();
    let paths: Vec<_> = lfbs
        .rows()
        .iter()
        .filter_map(|row| row.text("path"))
        .collect();
    for path in [
        "edge1:port.wan",
        "edge1:port.wan.discipline",
        "edge1:queues.wan",
        "edge1:status.1",
    ] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
}

#[test]
fn a_deletion_that_is_mistyped_is_refused() {
    let mut world = world(&[]);
    world.cut(Id(1));
    let mut refused = |at: &str| {
        let delete = vec![Operation::Delete(path(at))];
        match world.ask(Request::Change(vec![("edge1".to_owned(), delete)])) {
            Err(why) => why.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(refused("port.wan.rat").contains("did you mean `rate`"));
    assert!(refused("prot.wan.rate").contains("did you mean `port`"));
    assert!(refused("port.wan.discipline.limitt").contains("did you mean `limit`"));
}

#[test]
fn an_impostor_does_not_end_the_association_of_its_victim() {
    let mut world = world(&[]);
    let setup = |source| {
        let envelope = Envelope {
            source,
            destination: double::CE,
            correlator: 1,
            flags: Flags::default(),
        };
        let body = Body::AssociationSetup(Selects::new(Vec::new()).unwrap());
        Message::new(envelope, body).unwrap().to_bytes()
    };
    let (now, link) = (world.now, LinkId(77));
    for source in [Id(1), Id(9)] {
        world
            .control
            .handle_connected(now, link, None, "192.0.2.66:6704");
        world.control.handle_message(now, link, &setup(source));
    }
    world.run(SOON);
    assert_eq!(state(&world), "in sync");
    let unproved = LogEvent::Unproved("edge1".to_owned(), "192.0.2.66:6704".to_owned());
    assert!(world.journal.contains(&unproved), "{:?}", world.journal);
    assert!(world.journal.contains(&LogEvent::Unknown(Id(9))));
    assert_eq!(world.control.associations(now).rows().len(), 1);
}
