//! Forwarding tables that a CE writes, and the resulting routes of the machine.

use std::net::IpAddr;

use crate::world::{self, CE, FE, World, delete, on, selector, set, write};
use weir_base::Span;
use weir_fe::fib::{self, Family, NextHop, Route, RouteChange};
use weir_model::{Target, Value};
use weir_protocol::schema::{Kind, Registry};
use weir_protocol::session::ce::{Deadlines, Ended, Event};
use weir_protocol::value;
use weir_protocol::wire::header::Execution;
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{
    Body, Content, LfbSelect, OperationKind, PathData, ResultCode, Selector,
};

const LPM: u32 = 10;
const HOPS: u32 = 12;
const ROWS: usize = 5000;

/// The layout of a table.
fn table(class: u32) -> Kind {
    let registry = Registry::standard();
    registry
        .get(class)
        .unwrap()
        .component(&[1])
        .unwrap()
        .kind
        .into_owned()
}

/// The octets of a row of a forwarding table.
fn octets(class: u32, row: &Value) -> Vec<u8> {
    match value::encode(&table(class).array().unwrap().element, row).unwrap() {
        Content::Full(octets) => octets,
        other => panic!("{other:?}"),
    }
}

fn hex(address: &str) -> Value {
    let IpAddr::V4(address) = address.parse().unwrap() else {
        panic!("{address}");
    };
    let octets = address.octets().map(|octet| format!("{octet:02x}"));
    octets.join(":").as_str().into()
}

fn prefix_row(address: &str, len: u64, hop: u64) -> Value {
    Value::Struct(vec![
        ("IPv4Address".into(), hex(address)),
        ("Prefixlen".into(), len.into()),
        ("ECMPFlag".into(), false.into()),
        ("DefaultRouteFlag".into(), false.into()),
        ("Reserved".into(), 0_u64.into()),
        ("HopSelector".into(), hop.into()),
    ])
}

fn prefix(address: &str, len: u64, hop: u64) -> Vec<u8> {
    octets(LPM, &prefix_row(address, len, hop))
}

fn hop(address: &str, port: u64) -> Vec<u8> {
    let row = Value::Struct(vec![
        ("L3PortID".into(), port.into()),
        ("MTU".into(), 1500_u64.into()),
        ("NextHopIPAddr".into(), hex(address)),
        ("MediaEncapInfoIndex".into(), 0_u64.into()),
        ("LFBOutputSelectIndex".into(), 0_u64.into()),
    ]);
    octets(HOPS, &row)
}

fn set_prefix(row: u32, address: &str, len: u64, hop: u64) -> LfbSelect {
    write(LPM, 1, &[1, row], &prefix(address, len, hop))
}

fn set_hop(row: u32, address: &str, port: u64) -> LfbSelect {
    write(HOPS, 1, &[1, row], &hop(address, port))
}

fn put(address: &str, row: u32, gateway: &str, port: u32) -> RouteChange {
    RouteChange::Put(Route {
        prefix: (address.parse().unwrap(), 8),
        row: (Family::V4, fib::Selector::NextHop(row)),
        target: Target::Hop(NextHop {
            gateway: Some(gateway.parse().unwrap()),
            port,
        }),
    })
}

fn gone(address: &str, len: u8) -> RouteChange {
    RouteChange::Remove((address.parse().unwrap(), len))
}

/// The changes of routes since the last call.
fn routes(world: &mut World) -> Vec<RouteChange> {
    world.routes.drain(..).flatten().collect()
}

/// Row 1 is 10.0.0.0/8 with next hop 3 through the port lan.
fn with_route() -> World {
    let mut world = World::new();
    let results = world.config(vec![
        set_hop(3, "192.0.2.1", 1),
        set_prefix(1, "10.0.0.0", 8, 3),
    ]);
    assert!(
        results.iter().all(|(code, _)| *code == ResultCode::Success),
        "{results:?}"
    );
    let expected = [put("10.0.0.0", 3, "192.0.2.1", 1)];
    assert_eq!(routes(&mut world), expected);
    world
}

/// The first path that failed for its own reason: its index, its code and its cause.
fn failed(results: &[(ResultCode, String)]) -> (usize, ResultCode, String) {
    let is_undone = |code| matches!(code, ResultCode::Success | ResultCode::Unspecified);
    let at = results.iter().position(|(code, _)| !is_undone(*code));
    let at = at.expect("a path has failed");
    (at, results[at].0, results[at].1.clone())
}

#[test]
fn rows_are_read_one_by_one_by_range_and_all() {
    let mut world = with_route();
    world.config(vec![set_prefix(9, "11.0.0.0", 8, 3)]);
    assert_eq!(world.octets(LPM, 1, &[1, 9]), prefix("11.0.0.0", 8, 3));
    assert_eq!(world.octets(LPM, 1, &[1, 9, 6]), [0, 0, 0, 3]);
    assert_eq!(world.code(LPM, 1, &[1, 2]), ResultCode::NotFound);
    assert_eq!(world.code(LPM, 2, &[1]), ResultCode::InstanceNotFound);
    let rows = |world: &mut World, path| {
        let answer = world.get(LPM, 1, path);
        match value::decode(&table(LPM), answer.content()).unwrap() {
            Value::Struct(rows) => rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let all = PathData::bare(vec![1]).unwrap();
    assert_eq!(rows(&mut world, all), ["1", "9"]);
    let range = |first, last| {
        let selector = Some(Selector::Range { first, last });
        PathData::new(vec![1], selector, Content::Empty).unwrap()
    };
    assert_eq!(rows(&mut world, range(2, 9)), ["9"]);
    let deleted = on(LPM, 1, OperationKind::Delete, range(0, 5));
    assert_eq!(world.config(vec![deleted])[0].0, ResultCode::Success);
    assert_eq!(rows(&mut world, PathData::bare(vec![1]).unwrap()), ["9"]);
    world.config(vec![delete(LPM, 1, &[1])]);
    assert_eq!(world.code(LPM, 1, &[1, 9]), ResultCode::NotFound);
    let removed: Vec<_> = routes(&mut world).into_iter().skip(1).collect();
    assert_eq!(removed, [gone("10.0.0.0", 8), gone("11.0.0.0", 8)]);
}

#[test]
fn a_long_table_is_set_by_a_message_and_read_in_parts() {
    let mut world = with_route();
    let row = |n: usize| {
        let address = format!("11.{}.{}.0", n >> 8, n & 0xff);
        let row = prefix_row(&address, 24, 3);
        ((n + 10).to_string().into(), row)
    };
    let rows = value::encode_parts(&table(LPM), &Value::Struct((0..ROWS).map(row).collect()));
    for part in rows.unwrap().chunks(500) {
        let content = Content::Sparse(part.to_vec());
        let path = PathData::new(vec![1], None, content).unwrap();
        let results = world.config(vec![on(LPM, 1, OperationKind::Set, path)]);
        assert_eq!(results[0].0, ResultCode::Success, "{results:?}");
    }
    assert_eq!(routes(&mut world).len(), ROWS);
    let path = PathData::bare(vec![1]).unwrap();
    world.ask(OperationKind::Get, LPM, 1, path);
    assert_eq!(world.turns, 2, "one for each slice of 4000 rows");
    let mut rows = 0;
    for (body, _) in world.responses() {
        let Body::QueryResponse(part) = body else {
            panic!("{body:?}");
        };
        if let Content::Sparse(part) = world::only(&part).content() {
            rows += part.len();
        }
    }
    assert_eq!(rows, ROWS + 1);
    // FULLDATA replaces the table.
    let row = [vec![0; 4], prefix("12.0.0.0", 8, 3)].concat();
    let whole = PathData::full(vec![1], row).unwrap();
    world.config(vec![on(LPM, 1, OperationKind::Set, whole)]);
    assert_eq!(routes(&mut world).len(), ROWS + 2);
    assert_eq!(world.octets(LPM, 1, &[1, 0]), prefix("12.0.0.0", 8, 3));
}

#[test]
fn a_message_with_a_wrong_row_changes_nothing() {
    let mut world = with_route();
    let results = world.config(vec![
        set_prefix(2, "11.0.0.0", 8, 3),
        set_hop(3, "192.0.2.9", 1),
        set_hop(4, "192.0.2.2", 77),
    ]);
    let (at, code, why) = failed(&results);
    assert_eq!((at, code), (2, ResultCode::InvalidParameters));
    assert!(why.contains("no port 77"), "{why}");
    assert_eq!(routes(&mut world), []);
    assert_eq!(world.code(LPM, 1, &[1, 2]), ResultCode::NotFound);
    assert_eq!(world.octets(HOPS, 1, &[1, 3]), hop("192.0.2.1", 1));
    // The same prefix in two rows.
    let results = world.config(vec![set_prefix(2, "10.0.0.0", 8, 3)]);
    assert_eq!(failed(&results).1, ResultCode::Exists);
    let results = world.config(vec![delete(LPM, 1, &[1, 7])]);
    assert_eq!(failed(&results).1, ResultCode::NotFound);
}

#[test]
fn a_route_that_the_machine_refuses_fails_its_path_and_undoes_the_message() {
    let mut world = with_route();
    world.refused_routes = vec![1];
    let results = world.config(vec![
        set_prefix(2, "11.0.0.0", 8, 3),
        set_prefix(3, "12.0.0.0", 8, 3),
        set("ports", 2, "rate", "20 Mbit"),
    ]);
    let (at, code, why) = failed(&results);
    assert_eq!((at, code), (1, ResultCode::InternalError));
    assert!(why.contains("cannot be reached"), "{why}");
    assert_eq!(
        routes(&mut world)[2..],
        [gone("12.0.0.0", 8), gone("11.0.0.0", 8)]
    );
    assert_eq!(world.code(LPM, 1, &[1, 2]), ResultCode::NotFound);
    assert_eq!(world.plan.shown()["port.wan.rate"], "10 Mbit", "undone");
    // Executed one by one, the other routes stay.
    world.refused_routes = vec![0];
    let results = world.config_as(
        Execution::ContinueOnFailure,
        vec![set_prefix(2, "11.0.0.0", 8, 3)],
    );
    assert_eq!(failed(&results).1, ResultCode::InternalError);
    world.refused_routes.clear();
    let both = vec![
        set_prefix(2, "10.0.0.0", 8, 3), // a duplicate
        set_prefix(3, "12.0.0.0", 8, 3),
    ];
    let results = world.config_as(Execution::ContinueOnFailure, both);
    assert_eq!(failed(&results).0, 0);
    assert_eq!(results[1].0, ResultCode::Success);
    assert_eq!(world.octets(LPM, 1, &[1, 3]), prefix("12.0.0.0", 8, 3));
}

#[test]
fn a_port_comes_with_its_routes_and_takes_them_along() {
    let mut world = with_route();
    let results = world.config(vec![
        write(1, 1, &[2, 90], &selector("ports", 9)),
        set("ports", 9, "port", "dmz"),
        set("ports", 9, "interface", "eth9"),
        set_hop(4, "198.51.100.1", 9),
        set_prefix(2, "11.0.0.0", 8, 4),
    ]);
    assert!(
        results.iter().all(|(code, _)| *code == ResultCode::Success),
        "{results:?}"
    );
    assert_eq!(routes(&mut world), [put("11.0.0.0", 4, "198.51.100.1", 9)]);
    // The port moves to another interface: the kernel needs the route again.
    world.config(vec![set("ports", 9, "interface", "eth8")]);
    assert_eq!(routes(&mut world), [put("11.0.0.0", 4, "198.51.100.1", 9)]);
    world.config(vec![delete(1, 1, &[2, 90])]);
    assert_eq!(routes(&mut world)[0], gone("11.0.0.0", 8));
}

const DEADLINES: Deadlines = Deadlines {
    prepare: Span::from_millis(500),
    commit: Span::from_millis(500),
    abort: Span::from_millis(500),
};

fn transact(world: &mut World, parts: Vec<Vec<LfbSelect>>) -> Ended {
    let now = world.now;
    let parts = parts.into_iter().map(|part| Selects::new(part).unwrap());
    let parts = vec![(FE, parts.collect())];
    world.ce().transact(now, parts, DEADLINES).unwrap();
    world.run(Span::from_secs(3));
    let ended = world.events.drain(..).find_map(|(_, event)| match event {
        Event::Ended(_, ended) => Some(ended),
        _ => None,
    });
    ended.expect("it has ended")
}

#[test]
fn routes_of_a_transaction_come_with_its_commit() {
    let mut world = with_route();
    let parts = vec![
        vec![set_hop(4, "192.0.2.4", 2)],
        vec![set_prefix(2, "11.0.0.0", 8, 4)],
    ];
    assert_eq!(transact(&mut world, parts), Ended::Committed);
    let expected = [put("11.0.0.0", 4, "192.0.2.4", 2)];
    assert_eq!(routes(&mut world), expected);
    // A failed part leaves no trace of the changes that were prepared before it.
    let parts = vec![
        vec![set_prefix(3, "12.0.0.0", 8, 4)],
        vec![set_prefix(4, "11.0.0.0", 8, 4)],
    ];
    assert!(matches!(transact(&mut world, parts), Ended::Aborted { .. }));
    assert_eq!(routes(&mut world), []);
    assert_eq!(world.code(LPM, 1, &[1, 3]), ResultCode::NotFound);
    // The machine refuses a commit.
    world.refused_routes = vec![0];
    let parts = vec![vec![set_prefix(3, "12.0.0.0", 8, 4)]];
    assert!(matches!(transact(&mut world, parts), Ended::Aborted { .. }));
    assert_eq!(routes(&mut world)[1..], [gone("12.0.0.0", 8)]);
    assert_eq!(world.code(LPM, 1, &[1, 3]), ResultCode::NotFound);
}

#[test]
fn routes_of_an_earlier_process_go_after_the_restoration_and_all_after_cefti() {
    let mut world = World::new();
    assert_eq!(world.sweeps, 0);
    world.run(Span::from_secs(6));
    world.config(vec![
        set_hop(3, "192.0.2.1", 1),
        set_prefix(1, "10.0.0.0", 8, 3),
    ]);
    routes(&mut world);
    world.run(Span::from_secs(6));
    assert_eq!(world.sweeps, 0, "the CE may still restore rows");
    world.run(Span::from_secs(6));
    assert_eq!(world.sweeps, 1);
    world.is_cut = true;
    world.cut(CE);
    world.run(Span::from_secs(50));
    assert_eq!(routes(&mut world), [], "CEFTI has not passed");
    world.run(Span::from_secs(20));
    assert_eq!(routes(&mut world), [gone("10.0.0.0", 8)]);
    assert_eq!(world.sweeps, 1);
}
