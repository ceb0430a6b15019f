//! Transactions over several FEs: all or nothing, for every kind of failure.

use crate::world::{CE, World, ce_params, config, fe_params, get, ms, set};
use proptest::prelude::*;
use weir_base::Span;
use weir_protocol::session::ce::{
    Cause, Deadlines, Ended, Event, Manner, RequestError, TransactionError,
};
use weir_protocol::wire::header::{Ack, Execution, View};
use weir_protocol::wire::message::Selects;
use weir_protocol::wire::{
    Body, Id, LfbSelect, Message, Operation, OperationKind, PathData, ResultCode,
};

const DEADLINES: Deadlines = Deadlines {
    prepare: Span::from_millis(500),
    commit: Span::from_millis(500),
    abort: Span::from_millis(500),
};

/// A CE with this number of FEs: 2, 3, ...
fn world(fes: u32) -> World {
    let fes = (2..2 + fes).map(|id| fe_params(id, &[CE])).collect();
    let mut world = World::new(fes, vec![ce_params(CE)]);
    world.run(ms(100));
    world.ce_events();
    world.log.clear();
    world
}

/// Begins a transaction that sets components 1 and 2 of every FE to these values.
fn begin(world: &mut World, value: u8) {
    let parts =
        (0..world.fes.len() as u32).map(|f| (Id(2 + f), vec![set(1, value), set(2, value)]));
    let (parts, now) = (parts.collect(), world.now);
    world.ce().transact(now, parts, DEADLINES).unwrap();
}

fn ended(world: &mut World) -> Ended {
    let events = world.ce_events();
    let mut ended = events.into_iter().filter_map(|event| match event {
        Event::Ended(_, ended) => Some(ended),
        _ => None,
    });
    let first = ended.next().expect("it has ended");
    assert_eq!(ended.next(), None);
    first
}

fn values(world: &World) -> Vec<[Option<u8>; 2]> {
    world
        .fes
        .iter()
        .map(|fe| [1, 2].map(|id| fe.value(id)))
        .collect()
}

fn manner() -> Manner {
    Manner {
        execution: Execution::AllOrNone,
        ack: Ack::Always,
        deadline: ms(60_000),
    }
}

#[test]
fn all_is_done() {
    let mut world = world(2);
    begin(&mut world, 5);
    world.run(ms(108));
    assert_eq!(values(&world), [[None; 2]; 2], "prepared, not done");
    world.run(ms(1000));
    assert_eq!(ended(&mut world), Ended::Committed);
    assert_eq!(values(&world), [[Some(5); 2]; 2]);
    world.check("transaction_committed");
    begin(&mut world, 6);
    world.run(ms(2000));
    assert_eq!(ended(&mut world), Ended::Committed, "and again");
}

#[test]
fn nothing_is_done_if_one_cannot() {
    let mut world = world(2);
    let now = world.now;
    let parts = vec![
        (Id(2), vec![set(1, 5)]),
        (Id(3), vec![set(1, 5), set(99, 5)]),
    ];
    world.ce().transact(now, parts, DEADLINES).unwrap();
    world.run(ms(1000));
    let failures = vec![(
        Id(3),
        Cause::Failed(ResultCode::ComponentDoesNotExist, None),
    )];
    let in_doubt = vec![];
    assert_eq!(ended(&mut world), Ended::Aborted { failures, in_doubt });
    assert_eq!(values(&world), [[None; 2]; 2]);
    world.check("transaction_aborted");
    begin(&mut world, 6);
    world.run(ms(2000));
    assert_eq!(
        ended(&mut world),
        Ended::Committed,
        "the FEs are free again"
    );
}

#[test]
fn a_commit_that_fails_undoes_those_that_succeeded() {
    let mut world = world(3);
    world.fes[2].refuses = true;
    begin(&mut world, 5);
    world.run(ms(1000));
    let failures = vec![(Id(4), Cause::Failed(ResultCode::MemoryError, None))];
    let in_doubt = vec![];
    assert_eq!(ended(&mut world), Ended::Aborted { failures, in_doubt });
    assert_eq!(values(&world), [[None; 2]; 3]);
}

#[test]
fn an_fe_that_does_not_answer_is_in_doubt() {
    let mut world = world(2);
    world.fes[1].mute = true;
    begin(&mut world, 5);
    world.run(ms(1050));
    assert!(world.ce_events().is_empty(), "not before both deadlines");
    world.run(ms(1100));
    let failures = vec![(Id(3), Cause::Unanswered)];
    let in_doubt = vec![Id(3)];
    assert_eq!(ended(&mut world), Ended::Aborted { failures, in_doubt });
    assert_eq!(values(&world)[0], [None; 2]);
}

#[test]
fn an_fe_that_is_lost_undoes_its_part() {
    for (at, step) in [
        (103, "prepared"),
        (108, "prepared"),
        (113, "being committed"),
        (118, "committed"),
    ] {
        let mut world = world(2);
        begin(&mut world, 5);
        world.run(ms(at));
        world.cut(1, CE);
        world.run(ms(3000));
        let expected = Ended::Aborted {
            failures: vec![(Id(3), Cause::Lost)],
            in_doubt: vec![],
        };
        assert_eq!(ended(&mut world), expected, "{step}");
        assert_eq!(values(&world), [[None; 2]; 2], "{step}");
    }
}

#[test]
fn an_fe_in_a_transaction_takes_no_other_changes() {
    let mut world = world(2);
    begin(&mut world, 5);
    let now = world.now;
    let ce = world.ce();
    let alone = ce.configure(now, Id(2), set(1, 9), manner());
    assert_eq!(alone, Err(RequestError::Busy(Id(2))));
    let second = ce.transact(now, vec![(Id(3), vec![set(1, 9)])], DEADLINES);
    assert_eq!(
        second,
        Err(TransactionError::Request(RequestError::Busy(Id(3))))
    );
    assert!(
        ce.query(now, Id(2), get(1), ms(1000)).is_ok(),
        "but it is asked"
    );
    world.run(ms(1000));
    let now = world.now;
    assert!(
        world
            .ce()
            .configure(now, Id(2), set(1, 9), manner())
            .is_ok()
    );
}

#[test]
fn what_cannot_be_a_transaction_does_not_begin() {
    let mut world = world(1);
    let now = world.now;
    let ce = world.ce();
    let mut begin = |parts| ce.transact(now, parts, DEADLINES).unwrap_err();
    assert_eq!(begin(vec![]), TransactionError::Parts);
    assert_eq!(begin(vec![(Id(2), vec![])]), TransactionError::Parts);
    let twice = vec![(Id(2), vec![set(1, 1)]), (Id(2), vec![set(1, 1)])];
    assert_eq!(begin(twice), TransactionError::Parts);
    let unknown = RequestError::Unassociated(Id(7));
    assert_eq!(begin(vec![(Id(7), vec![set(1, 1)])]), unknown.into());
    let long = vec![(Id(2), vec![set(1, 1); 51])];
    assert_eq!(begin(long), RequestError::Full(Id(2)).into());
    let commit = LfbSelect::new(1, 1, vec![Operation::COMMIT]).unwrap();
    let commit = Selects::new(vec![commit]).unwrap();
    assert_eq!(
        begin(vec![(Id(2), vec![commit.clone()])]),
        RequestError::Commits.into()
    );
    assert_eq!(
        ce.configure(now, Id(2), commit, manner()),
        Err(RequestError::Commits)
    );
    assert!(ce.poll_transmit(now).is_none(), "and nothing was sent");
}

/// The codes of an FE's responses to Configs with these flags.
fn codes(messages: &[(u32, &weir_protocol::wire::message::Config)]) -> Vec<Option<ResultCode>> {
    let mut world = world(1);
    let mut codes = Vec::new();
    for (serial, (flags, config)) in messages.iter().enumerate() {
        let mut bytes = vec![0x10, 3, 0, 0];
        for word in [CE.0, 2, 0, 1000 + serial as u32, *flags] {
            bytes.extend(word.to_be_bytes());
        }
        let body = Body::Config((*config).clone());
        let envelope = weir_protocol::wire::Envelope {
            source: CE,
            destination: Id(2),
            correlator: 1000 + serial as u64,
            flags: weir_protocol::wire::header::Flags::from_word(*flags),
        };
        let bytes = Message::new(envelope, body).unwrap().to_bytes();
        let now = world.now;
        world.fe().handle_message(now, CE, &bytes);
        world.log.clear();
        world.settle();
        codes.push(
            world
                .log
                .lines()
                .find(|line| line.contains("->"))
                .map(answer),
        );
    }
    codes
}

/// The first result in a recorded message.
fn answer(line: &str) -> ResultCode {
    let words = line.rsplit(": ").next().unwrap().split(' ');
    let bytes: Vec<u8> = words
        .flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes())
        .collect();
    assert_eq!(
        View::new_checked(&bytes[..]).unwrap().kind(),
        weir_protocol::wire::MessageKind::ConfigResponse
    );
    let at = bytes.windows(4).position(|w| w == [1, 0x14, 0, 8]).unwrap();
    u32::from(bytes[at + 4]).into()
}

#[test]
fn an_fe_follows_the_order_of_a_transaction() {
    let alone =
        |operation| Selects::new(vec![LfbSelect::new(1, 1, vec![operation]).unwrap()]).unwrap();
    let (commit, complete) = (
        alone(Operation::COMMIT),
        alone(Operation::TRANSACTION_COMPLETE),
    );
    let (set, wrong) = (set(1, 1), set(99, 1));
    let (start, middle, end, abort) = (0xe060_0000, 0xe068_0000, 0xe070_0000, 0xe078_0000);
    let single = 0xe040_0000;
    let ok = Some(ResultCode::Success);
    let flags = Some(ResultCode::InvalidFlags);
    let busy = Some(ResultCode::Busy);

    assert_eq!(
        codes(&[
            (start, &set),
            (middle, &set),
            (end, &commit),
            (end, &complete)
        ]),
        [ok, ok, ok, None]
    );
    assert_eq!(
        codes(&[(middle, &set), (end, &commit), (abort, &commit)]),
        [flags, flags, ok]
    );
    assert_eq!(
        codes(&[(start, &set), (start, &set), (single, &set)]),
        [ok, busy, busy]
    );
    let failed = Some(ResultCode::InvalidParameters);
    let missing = Some(ResultCode::ComponentDoesNotExist);
    assert_eq!(
        codes(&[(start, &wrong), (end, &commit), (abort, &commit)]),
        [missing, failed, ok]
    );
    assert_eq!(
        codes(&[(start, &set), (end, &set), (end, &commit)]),
        [ok, flags, failed]
    );
    let until_failure = 0xe0a0_0000;
    assert_eq!(
        codes(&[(until_failure, &set), (end, &commit)]),
        [flags, failed]
    );
    assert_eq!(
        codes(&[(single, &commit), (single, &set)]),
        [Some(ResultCode::InvalidOperation), ok]
    );
    assert_eq!(
        codes(&[(start, &set), (abort, &commit), (abort, &commit)]),
        [ok, ok, ok]
    );
    assert_eq!(
        codes(&[(start, &set), (end, &complete), (end, &commit)]),
        [ok, None, failed]
    );
}

#[test]
fn a_message_that_finds_no_room_does_not_change_the_transaction() {
    let mut world = world(1);
    let now = world.now;
    let send = |world: &mut World, flags: u32, config: &weir_protocol::wire::message::Config| {
        let envelope = weir_protocol::wire::Envelope {
            source: CE,
            destination: Id(2),
            correlator: 1000,
            flags: weir_protocol::wire::header::Flags::from_word(flags),
        };
        let message = Message::new(envelope, Body::Config(config.clone())).unwrap();
        world.fe().handle_message(now, CE, &message.to_bytes());
    };
    let commit = LfbSelect::new(10, 3, vec![Operation::COMMIT]).unwrap();
    let commit = Selects::new(vec![commit]).unwrap();
    send(&mut world, 0xe060_0000, &set(1, 7));
    for _ in 1..20 {
        send(&mut world, 0xe068_0000, &set(1, 8)); // exceeds the limit of open requests
    }
    send(&mut world, 0xe070_0000, &commit);
    world.settle();
    assert!(
        !world.fes[0]
            .events
            .iter()
            .any(|e| matches!(e, weir_protocol::session::fe::Event::Commit(_)))
    );
    world.log.clear();
    send(&mut world, 0xe070_0000, &commit);
    world.settle();
    let block = "0000000a 00000003 000d000c 01140008 00000000";
    assert!(world.log.contains(block), "at the block that it named");
    assert_eq!(world.fes[0].value(1), Some(8), "it can be committed still");
}

/// A disturbance of an FE while transactions run.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    Cut,
    Mute,
    Refuse,
    Wrong,
}

proptest! {
    #[test]
    fn all_or_nothing(
        count in 1_usize..5,
        mishaps in proptest::collection::vec((0_usize..5, 0_u64..40, 0_usize..4), 0..3),
        delay in 1_u64..6,
    ) {
        let mut world = world(count as u32);
        world.delay = Span::from_millis(delay);
        let mishap = |kind| [Mishap::Cut, Mishap::Mute, Mishap::Refuse, Mishap::Wrong][kind];
        let mut mishaps: Vec<_> = mishaps.into_iter().filter(|m| m.0 < count).collect();
        mishaps.sort_by_key(|m| m.1);
        let mut parts: Vec<_> = (0..count as u32).map(|f| (Id(2 + f), vec![set(1, 5), set(2, 5)])).collect();
        for (f, _, kind) in &mishaps {
            if let Mishap::Wrong = mishap(*kind) {
                let delete = PathData::bare(vec![95]).unwrap();
                parts[*f].1.push(config(OperationKind::Delete, delete));
            }
        }
        let now = world.now;
        world.ce().transact(now, parts, DEADLINES).unwrap();
        let mut muted = vec![];
        for (f, after, kind) in mishaps {
            world.run(ms(100 + after));
            match mishap(kind) {
                Mishap::Cut => world.cut(f, CE),
                Mishap::Mute => {
                    world.fes[f].mute = true;
                    muted.push(f);
                }
                Mishap::Refuse => world.fes[f].refuses = true,
                Mishap::Wrong => {}
            }
        }
        world.run(ms(5000));
        let ended = ended(&mut world);
        let done = values(&world);
        match ended {
            // An FE that is lost or silent after the last commit gets the CE's state later.
            Ended::Committed => {
                let there = |f: &usize| !world.log.contains(&format!("fe {f}: Lost"));
                prop_assert!((0..count).filter(there).all(|f| done[f] == [Some(5); 2]));
            }
            Ended::Aborted { failures, in_doubt } => {
                prop_assert!(!failures.is_empty());
                prop_assert!(in_doubt.iter().all(|fe| muted.contains(&(fe.0 as usize - 2))));
                let sure = |f: &usize| !in_doubt.contains(&Id(2 + *f as u32));
                prop_assert!((0..count).filter(sure).all(|f| done[f] == [None; 2]), "{:?}", done);
            }
        }
    }
}
