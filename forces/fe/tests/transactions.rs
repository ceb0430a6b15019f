//! The FE's part in transactions, and the effect of a lost or new CE on them.

use crate::world::{self, BACKUP, CE, FE, World, session, set, write};
use weir_base::Span;
use weir_protocol::session::ce::{Deadlines, Ended, Event};
use weir_protocol::session::fe::State;
use weir_protocol::wire::message::{Config, Selects};
use weir_protocol::wire::{Id, LfbSelect, ResultCode};

const DEADLINES: Deadlines = Deadlines {
    prepare: Span::from_millis(500),
    commit: Span::from_millis(500),
    abort: Span::from_millis(500),
};

fn config(selects: Vec<LfbSelect>) -> Config {
    Selects::new(selects).unwrap()
}

fn transact(world: &mut World, parts: Vec<Config>) -> Ended {
    let now = world.now;
    world
        .ce()
        .transact(now, vec![(FE, parts)], DEADLINES)
        .unwrap();
    world.run(Span::from_secs(3));
    let ended = world.events.iter().find_map(|(_, event)| match event {
        Event::Ended(_, ended) => Some(ended.clone()),
        _ => None,
    });
    world.events.clear();
    ended.expect("it has ended")
}

#[test]
fn what_is_prepared_takes_effect_when_it_is_committed() {
    let mut world = World::new();
    let parts = vec![
        config(vec![
            set("ports", 2, "rate", "20 Mbit"),
            write(1, 1, &[3], b"new"),
        ]),
        config(vec![set("queues", 1, "discipline", "fifo")]),
        config(vec![set("fifo", 1, "limit", "77")]), // of the prepared kind
    ];
    assert_eq!(transact(&mut world, parts), Ended::Committed);
    assert_eq!(world.changes.len(), 1);
    let shown = world.plan.shown();
    assert_eq!(shown["port.wan.rate"], "20 Mbit");
    assert_eq!(shown["port.lan.discipline.limit"], "77");
    assert_eq!(world.octets(1, 1, &[3]), b"new");
}

#[test]
fn a_part_that_cannot_be_done_leaves_everything_as_it_was() {
    let mut world = World::new();
    let before = world.plan.clone();
    let parts = vec![
        config(vec![set("ports", 2, "rate", "20 Mbit")]),
        config(vec![set("ports", 1, "interface", "wan")]), // only the router refuses it
    ];
    assert!(matches!(transact(&mut world, parts), Ended::Aborted { .. }));
    assert_eq!(world.plan, before);
    assert!(world.changes.is_empty());
    let parts = vec![config(vec![set("ports", 2, "rate", "30 Mbit")])];
    assert_eq!(
        transact(&mut world, parts),
        Ended::Committed,
        "and the next one works"
    );
}

#[test]
fn a_commit_that_fails_is_an_abort() {
    let mut world = World::new();
    let before = world.plan.clone();
    world.is_broken = true;
    let parts = vec![config(vec![
        set("ports", 2, "rate", "20 Mbit"),
        write(1, 1, &[3], b"new"),
    ])];
    assert!(matches!(transact(&mut world, parts), Ended::Aborted { .. }));
    assert_eq!(world.plan, before);
    assert_eq!(world.octets(1, 1, &[3]), b"edge");
}

#[test]
fn what_was_committed_is_undone_when_the_others_fail() {
    let mut world = World::new();
    let before = world.plan.clone();
    let parts = vec![(
        FE,
        vec![config(vec![
            set("ports", 2, "rate", "20 Mbit"),
            write(1, 1, &[3], b"new"),
        ])],
    )];
    let now = world.now;
    world.ce().transact(now, parts, DEADLINES).unwrap();
    // The link breaks after the FE has committed and before the CE receives the answer.
    while world.changes.is_empty() {
        let is_quiet = world.step();
        assert!(
            !is_quiet,
            "nobody has anything to say, and nothing is committed"
        );
    }
    world.cut(CE);
    world.settle();
    assert_eq!(world.plan, before, "the FE has undone it");
    world.run(Span::from_secs(1));
    assert!(world.agent.session().is_associated(CE));
    assert_eq!(world.octets(1, 1, &[3]), b"edge");
}

#[test]
fn without_a_ce_the_fe_forwards_for_cefti() {
    let mut world = World::new();
    world.is_cut = true;
    world.cut(CE);
    world.run(Span::from_secs(59));
    assert_eq!(world.forwards, [true; 0]);
    world.run(Span::from_secs(2));
    assert_eq!(world.forwards, [false]);
    assert_eq!(world.agent.session().state(), State::PreAssociation);
    world.is_cut = false;
    world.run(Span::from_secs(11));
    assert_eq!(world.forwards, [false, true]);
}

#[test]
fn an_fe_that_finds_no_ce_forwards_for_cefti_from_its_start() {
    let mut world = World::with(session(Some(Span::from_secs(60)), &[CE]));
    world.is_cut = true;
    world.run(Span::from_secs(59));
    assert!(world.forwards.is_empty() && world.agent.forwards());
    world.run(Span::from_secs(2));
    assert_eq!(world.forwards, [false]);
    let mut world = World::with(session(None, &[CE]));
    world.is_cut = true;
    world.run(Span::from_secs(1));
    assert!(
        !world.agent.forwards(),
        "with CEFailoverPolicy 0 it waits for its CE"
    );
}

#[test]
fn a_ce_hands_the_fe_to_another_one() {
    let mut world = World::with(session(Some(Span::from_secs(60)), &[CE, BACKUP]));
    world.run(Span::from_millis(10));
    let subscribe = world::on(
        2,
        1,
        weir_protocol::wire::OperationKind::SetProperty,
        weir_protocol::wire::PathData::full(vec![61, 1], vec![0, 0, 0, 1]).unwrap(),
    );
    let answers = world.config(vec![subscribe]);
    assert_eq!(answers[0].0, ResultCode::Success, "{answers:?}");
    let answers = world.config(vec![write(2, 1, &[8], &BACKUP.0.to_be_bytes())]);
    assert_eq!(answers[0].0, ResultCode::Success, "{answers:?}");
    world.run(Span::from_secs(1));
    assert_eq!(world.agent.session().master(), Some(BACKUP));
    let order: Vec<Id> = world.agent.session().ces().map(|ce| ce.id).collect();
    assert_eq!(order, [BACKUP, CE]);
    let reports = world.notified();
    assert_eq!(reports.len(), 1, "PrimaryCEDown: {reports:?}");
    let path = &reports[0].selects()[0].operations()[0].paths()[0];
    assert_eq!(path.ids(), [61, 1]);
    let last = weir_protocol::wire::Content::Full(CE.0.to_be_bytes().to_vec());
    assert_eq!(*path.content(), last);
    assert!(world.forwards.is_empty());
}
