//! A CE that knows only the classes of the RFCs.

use std::collections::BTreeSet;

use crate::world::{self, BACKUP, CE, World, delete, on, tally, write};
use weir_base::Span;
use weir_model::Value;
use weir_protocol::schema::{Kind, Registry};
use weir_protocol::value;
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{Body, Content, Id, OperationKind, PathData, ResultCode, Selector};

/// A path of a class of the RFCs: its class, its IDs, the layout of its value.
fn path(class: &str, words: &str) -> (u32, Vec<u32>, Kind) {
    let registry = Registry::standard();
    let class = registry.find(class).unwrap();
    let words: Vec<&str> = words.split('.').filter(|word| !word.is_empty()).collect();
    let ids = class.way(&words).unwrap().ids;
    let kind = class.component(&ids).unwrap().kind.into_owned();
    (class.id, ids, kind)
}

fn read(world: &mut World, class: &str, instance: u32, words: &str) -> Value {
    let (class, ids, kind) = path(class, words);
    let answer = world.get(class, instance, PathData::bare(ids).unwrap());
    value::decode(&kind, answer.content()).unwrap()
}

fn property(world: &mut World, class: &str, instance: u32, words: &str) -> Vec<u8> {
    let (class, ids, _) = path(class, words);
    let path = PathData::bare(ids).unwrap();
    world.ask(OperationKind::GetProperty, class, instance, path);
    match world.response() {
        Some(Body::QueryResponse(response)) => match world::only(&response).content() {
            Content::Full(octets) => octets.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn block(of: &Value) -> (u64, u64) {
    let number = |name| of.whole(name).unwrap();
    (number("LFBClassID"), number("LFBInstanceID"))
}

#[test]
fn the_fe_object_lists_every_block_and_its_class() {
    let mut world = World::new();
    let object = read(&mut world, "FEObject", 1, "");
    let rows = |name: &str| object.get(name).unwrap().rows().to_vec();
    let blocks: BTreeSet<_> = rows("LFBSelectors").iter().map(block).collect();
    for of_port in [3, 4, 7, 17] {
        assert!(blocks.contains(&(of_port, 1)) && blocks.contains(&(of_port, 2)));
        assert!(!blocks.contains(&(of_port, 3)), "there are two ports");
    }
    for single in [1, 2, 10, 11, 12, 13, 14, 15] {
        assert!(blocks.contains(&(single, 1)), "{single}: {blocks:?}");
    }
    let classes = rows("SupportedLFBs");
    let classes: BTreeSet<_> = classes.iter().map(|c| c.whole("LFBClassID")).collect();
    let known: BTreeSet<_> = weir_library::classes()
        .iter()
        .map(|class| Some(u64::from(class.id)))
        .collect();
    assert_eq!(classes, known, "as `weir list lfb` has them");
    assert!(
        blocks
            .iter()
            .all(|(class, _)| classes.contains(&Some(*class)))
    );
    let links = rows("LFBTopology");
    let ends = links
        .iter()
        .flat_map(|link| ["FromLFBID", "ToLFBID"].map(|end| link.get(end)));
    assert!(
        ends.map(|end| block(end.unwrap()))
            .all(|end| blocks.contains(&end))
    );
    assert!(!links.is_empty());
}

#[test]
fn a_standard_block_shows_the_state_of_a_port() {
    let mut world = World::new();
    world.gauges = vec![
        ("wan", "state", "no carrier".into()),
        ("wan", "carrier", false.into()),
        ("wan", "received", tally(7, 700)),
        ("wan", "mtu", 9000_u64.into()),
        ("lan", "up", false.into()),
        ("lan", "mac", Value::Absent), // no interface
    ];
    assert_eq!(
        read(&mut world, "EtherPHYCop", 2, "PHYPortID"),
        Value::Whole(2)
    );
    assert_eq!(
        read(&mut world, "EtherPHYCop", 2, "OperStatus"),
        "Down".into()
    );
    assert_eq!(
        read(&mut world, "EtherPHYCop", 2, "AdminStatus"),
        "Up".into()
    );
    assert_eq!(
        read(&mut world, "EtherPHYCop", 1, "AdminStatus"),
        "Disabled".into()
    );
    assert_eq!(
        read(&mut world, "EtherMACOut", 2, "MTU"),
        Value::Whole(9000)
    );
    let whole = read(&mut world, "EtherMACIn", 2, "");
    assert_eq!(whole.whole("MACInStats.NumPacketsReceived"), Some(7));
    let stats = read(&mut world, "EtherMACIn", 2, "MACInStats.NumPacketsReceived");
    assert_eq!(stats, Value::Whole(7));
    let mac = read(&mut world, "EtherMACIn", 2, "LocalMACAddresses.0");
    assert_eq!(mac, "02:00:00:00:00:01".into());
    let queue = read(&mut world, "GenericScheduler", 2, "QueueStats.0");
    assert_eq!(queue.whole("QueueID"), Some(0));
    assert!(queue.whole("QueueDepthInBytes").is_some());
    let packets = read(&mut world, "RedirectOut", 1, "NumPacketsSent");
    assert!(matches!(packets, Value::Whole(_)));
    world.reads.clear();
    read(&mut world, "EtherPHYCop", 1, "");
    assert_eq!(world.reads, ["ports"]);
}

#[test]
fn what_a_view_does_not_have_has_the_code_of_the_rfc() {
    let mut world = World::new();
    let (phy, _, _) = path("EtherPHYCop", "");
    let (mac, _, _) = path("EtherMACIn", "");
    for (class, instance, ids, code) in [
        (phy, 3, &[3][..], ResultCode::InstanceNotFound),
        (14, 2, &[1], ResultCode::InstanceNotFound),
        (phy, 1, &[5], ResultCode::ComponentDoesNotExist), // the speed is unknown
        (phy, 1, &[99], ResultCode::InvalidPath),
        (mac, 1, &[2, 1], ResultCode::NotFound), // there is only one address
        (5, 1, &[1], ResultCode::LfbUnknown),
    ] {
        assert_eq!(
            world.code(class, instance, ids),
            code,
            "{class}.{instance} {ids:?}"
        );
    }
    let (scheduler, table, _) = path("GenericScheduler", "QueueStats");
    let mut select = |selector| {
        let path = PathData::new(table.clone(), Some(selector), Content::Empty).unwrap();
        world.get(scheduler, 1, path).content().clone()
    };
    match select(Selector::Range { first: 0, last: 9 }) {
        Content::Sparse(rows) => assert_eq!(rows.len(), 1),
        other => panic!("{other:?}"),
    }
    let values = vec![0; 4];
    match select(Selector::Key { id: 1, values }) {
        Content::Outcome(outcome) => assert!(!outcome.is_success(), "it has no keys"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_view_cannot_be_set() {
    let mut world = World::new();
    let before = world.plan.clone();
    for (select, code) in [
        (write(3, 1, &[2], &[0]), ResultCode::NotSupported), // AdminStatus
        (write(7, 1, &[2], &[0, 0, 5, 220]), ResultCode::NotSupported), // MTU
        (write(4, 1, &[7, 1], &[0; 8]), ResultCode::NotSupported), // read-reset
        (write(3, 1, &[3], &[1]), ResultCode::ReadOnly),     // OperStatus
        (write(17, 1, &[2, 0, 2], &[0; 4]), ResultCode::ReadOnly),
        (write(3, 9, &[2], &[0]), ResultCode::InstanceNotFound),
        (delete(4, 1, &[2, 0]), ResultCode::NotSupported),
        (
            write(1, 1, &[2, 500], &[0, 0, 0, 3, 0, 0, 0, 9]),
            ResultCode::NotSupported,
        ),
    ] {
        let answers = world.config(vec![select.clone()]);
        assert_eq!(answers[0].0, code, "{select:?}: {answers:?}");
    }
    assert_eq!(world.plan, before);
    for (class, words) in [
        ("EtherPHYCop", "AdminStatus"),
        ("EtherMACIn", "MACInStats.NumPacketsReceived"),
        ("FEObject", "FEID"),
        ("FEPO", "LastCEID"),
    ] {
        assert_eq!(
            property(&mut world, class, 1, words),
            [1],
            "{class}.{words}: read only"
        );
    }
    assert_eq!(property(&mut world, "FEObject", 1, "FEState"), [3]);
    let addresses = property(&mut world, "EtherMACIn", 1, "LocalMACAddresses");
    assert_eq!(
        addresses,
        [vec![1], [1_u32, 0, 1].map(u32::to_be_bytes).concat()].concat()
    );
}

#[test]
fn an_event_of_a_standard_class_is_reported() {
    let mut world = World::new();
    world.gauges = vec![("wan", "state", "up".into())];
    let changed = [60, 1]; // PHYPortStatusChanged
    let subscribe = PathData::full(changed.to_vec(), 1_u32.to_be_bytes().to_vec()).unwrap();
    let answers = world.config(vec![on(3, 2, OperationKind::SetProperty, subscribe)]);
    assert_eq!(answers[0].0, ResultCode::Success, "{answers:?}");
    world.run(Span::from_secs(1));
    assert!(world.notified().is_empty());
    world.gauges = vec![("wan", "state", "no carrier".into())];
    world.run(Span::from_secs(1));
    let reports = world.notified();
    assert_eq!(reports.len(), 1, "{reports:?}");
    let select = &reports[0].selects()[0];
    assert_eq!((select.class(), select.instance()), (3, 2));
    let path = &select.operations()[0].paths()[0];
    assert_eq!(path.ids(), changed);
    assert_eq!(*path.content(), Content::Full(vec![2]), "Down");
}

#[test]
fn a_property_of_an_event_belongs_to_an_instance() {
    let mut world = World::new();
    let path = PathData::bare(vec![60, 1]).unwrap();
    world.ask(OperationKind::GetProperty, 3, 9, path);
    let Some(Body::QueryResponse(response)) = world.response() else {
        panic!("no answer");
    };
    let Content::Outcome(outcome) = world::only(&response).content().clone() else {
        panic!("{response:?}");
    };
    assert_eq!(outcome.code(), ResultCode::InstanceNotFound);
}

/// Hot standby, RFC 7121: the backup receives the IDs of the previous and the new master.
#[test]
fn the_next_master_hears_of_the_change() {
    let mut session = world::session(Some(Span::from_secs(60)), &[CE, BACKUP]);
    session.failover.standby = weir_protocol::session::fe::Standby::Hot;
    let mut world = World::with(session);
    world.run(Span::from_secs(1));
    assert!(world.agent.session().is_associated(BACKUP));
    let subscribe = |event| {
        let path = PathData::full(vec![61, event], 1_u32.to_be_bytes().to_vec()).unwrap();
        on(2, 1, OperationKind::SetProperty, path)
    };
    let answers = world.config(vec![subscribe(1), subscribe(2)]);
    assert!(answers.iter().all(|(code, _)| *code == ResultCode::Success));
    world.notified();
    world.is_cut = true;
    world.cut(CE);
    world.run(Span::from_secs(1));
    let reports = world.notified();
    let told: Vec<_> = reports
        .iter()
        .map(|report| {
            let path = report.selects()[0].operations()[0].paths()[0].clone();
            (path.ids().to_vec(), path.content().clone())
        })
        .collect();
    let id = |ce: Id| Content::Full(ce.0.to_be_bytes().to_vec());
    let expected = [(vec![61, 1], id(CE)), (vec![61, 2], id(BACKUP))];
    assert_eq!(told, expected, "PrimaryCEDown, PrimaryCEChanged");
    let capabilities = Value::List(vec!["GracefullRestart".into(), "HA".into()]);
    assert_eq!(read_by(&mut world, BACKUP, "HACapabilities"), capabilities);
}

/// Cold standby, RFC 7121: a lost CE becomes the last backup.
#[test]
fn the_backups_are_in_the_order_in_which_they_are_tried() {
    const LAST: Id = Id(0x4000_0003);
    let mut world = World::with(world::session(
        Some(Span::from_secs(60)),
        &[CE, BACKUP, LAST],
    ));
    world.run(Span::from_secs(1));
    let ids = |ids: &[Id]| Value::List(ids.iter().map(|id| Value::Whole(id.0.into())).collect());
    assert_eq!(
        read(&mut world, "FEPO", 1, "BackupCEs"),
        ids(&[BACKUP, LAST])
    );
    world.cut(CE);
    world.run(Span::from_secs(1));
    assert_eq!(
        read_by(&mut world, BACKUP, "CEID"),
        Value::Whole(BACKUP.0.into())
    );
    assert_eq!(read_by(&mut world, BACKUP, "BackupCEs"), ids(&[LAST, CE]));
    world.cut(BACKUP);
    world.run(Span::from_secs(1));
    assert_eq!(world.agent.session().master(), Some(LAST));
}

/// A component of FEPO, as read by this CE.
fn read_by(world: &mut World, ce: Id, words: &str) -> Value {
    let (class, ids, kind) = path("FEPO", words);
    let get = on(class, 1, OperationKind::Get, PathData::bare(ids).unwrap());
    let query = Selects::new(vec![get]).unwrap();
    let (now, deadline) = (world.now, world.now + Span::from_secs(1));
    let ce = world.ces.get_mut(&ce).unwrap();
    ce.query(now, world::FE, query, deadline).unwrap();
    world.settle();
    let Some(Body::QueryResponse(response)) = world.response() else {
        panic!("no answer: {:?}", world.events);
    };
    value::decode(&kind, world::only(&response).content()).unwrap()
}
