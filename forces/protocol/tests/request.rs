//! Requests: pipelined, answered out of order, in parts, late or never; and their execution.

use crate::world::{self, CE, Store, World, get, ms, select, set};
use weir_base::{Instant, Span};
use weir_protocol::session::ce::{Event, Manner, RequestError};
use weir_protocol::session::execute::{self, Target};
use weir_protocol::wire::header::{Ack, Execution, Flags, Phase};
use weir_protocol::wire::message::{Config, ConfigResponse, Query, QueryResponse, Selects};
use weir_protocol::wire::{
    Body, Content, Envelope, Id, LfbSelect, Message, Operation, OperationKind, Outcome, PathData,
    ResultCode, Selector,
};

fn manner(ack: Ack, deadline: u64) -> Manner {
    Manner {
        execution: Execution::AllOrNone,
        ack,
        deadline: ms(deadline),
    }
}

#[test]
fn requests_are_pipelined_as_far_as_the_window_goes() {
    let mut world = World::pair();
    let now = world.now;
    let ce = world.ce();
    let asked: Vec<_> = (1..=40)
        .map(|value| {
            ce.configure(now, Id(2), set(1, value), manner(Ack::Always, 5000))
                .unwrap()
        })
        .collect();
    assert_eq!(ce.requests(Id(2)), 40);
    world.run(ms(105));
    assert_eq!(world.fes[0].value(1), Some(4), "the window, and no more");
    world.run(ms(204));
    let answered: Vec<_> = world
        .ce_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Response {
                request, is_last, ..
            } => {
                assert!(is_last);
                Some(request)
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        answered, asked,
        "in order, ten round trips of ten milliseconds"
    );
    assert_eq!(
        (world.fes[0].value(1), world.ce().requests(Id(2))),
        (Some(40), 0)
    );
}

#[test]
fn what_is_never_answered_needs_no_window() {
    let mut world = World::pair();
    let now = world.now;
    for value in 1..=40 {
        world
            .ce()
            .configure(now, Id(2), set(1, value), manner(Ack::Never, 5000))
            .unwrap();
    }
    world.run(ms(105));
    assert_eq!(world.fes[0].value(1), Some(40));
    world.run(ms(10_000));
    assert!(
        !world
            .ce_events()
            .iter()
            .any(|e| matches!(e, Event::Response { .. } | Event::Unanswered(..)))
    );
}

#[test]
fn requests_that_are_late_are_unanswered_and_make_room() {
    let mut world = World::pair();
    world.fes[0].mute = true;
    let now = world.now;
    let asked: Vec<_> = (0..10)
        .map(|n| {
            world
                .ce()
                .query(now, Id(2), get(1), ms(1000 + 100 * n))
                .unwrap()
        })
        .collect();
    world.run(ms(1450));
    let unanswered = |world: &mut World| -> Vec<_> {
        let events = world.ce_events().into_iter();
        events
            .filter_map(|e| {
                if let Event::Unanswered(_, r) = e {
                    Some(r)
                } else {
                    None
                }
            })
            .collect()
    };
    assert_eq!(unanswered(&mut world), asked[..5]);
    world.run(ms(3000));
    assert_eq!(unanswered(&mut world), asked[5..]);
    assert_eq!(world.ce().requests(Id(2)), 0);
}

#[test]
fn what_cannot_be_sent_is_said_at_once() {
    let mut world = World::pair();
    let now = world.now;
    let ce = world.ce();
    let unset = Manner {
        execution: Execution::Unset,
        ..manner(Ack::Always, 1000)
    };
    assert_eq!(
        ce.configure(now, Id(2), set(1, 1), unset),
        Err(RequestError::NoExecution)
    );
    assert_eq!(
        ce.query(now, Id(3), get(1), ms(1000)),
        Err(RequestError::Unassociated(Id(3)))
    );
    let path = |_| PathData::full(vec![1], vec![0; 60_000]).unwrap();
    let long: Vec<_> = (0..5)
        .map(path)
        .map(|p| select(OperationKind::Set, vec![p]))
        .collect();
    let long: Config = Selects::new(long).unwrap();
    let refused = ce.configure(now, Id(2), long, manner(Ack::Always, 1000));
    assert!(
        matches!(refused, Err(RequestError::Wire(error)) if error.code == ResultCode::ContentsTooLong)
    );
    assert_eq!(ce.requests(Id(2)), 0);
}

/// Content of a part.
fn full() -> Content {
    Content::Full(vec![0; 8])
}

/// The CE receives a part of the response to its first request.
fn receive_part(world: &mut World, at: Instant, phase: Phase, content: Content) {
    let (link, _) = world.link_of(0, CE).unwrap();
    let path = PathData::new(vec![7], None, content).unwrap();
    let body: QueryResponse =
        Selects::new(vec![select(OperationKind::GetResponse, vec![path])]).unwrap();
    let envelope = Envelope {
        source: Id(2),
        destination: CE,
        correlator: 1,
        flags: Flags {
            transaction: true,
            phase,
            ..Flags::default()
        },
    };
    let message = Message::new(envelope, Body::QueryResponse(body)).unwrap();
    world.ce().handle_message(at, link, &message.to_bytes());
}

#[test]
fn a_long_response_comes_in_parts() {
    let mut world = World::pair();
    world.fes[0].mute = true;
    let now = world.now;
    let asked = world.ce().query(now, Id(2), get(7), ms(1000)).unwrap();
    world.settle();
    receive_part(&mut world, now, Phase::Start, full());
    receive_part(&mut world, now, Phase::Middle, full());
    let end = Content::Outcome(Outcome::SUCCESS);
    receive_part(&mut world, now, Phase::End, end);
    receive_part(&mut world, now, Phase::Middle, full());
    world.settle();
    let parts: Vec<_> = world
        .ce_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Response {
                request, is_last, ..
            } => Some((request, is_last)),
            _ => None,
        })
        .collect();
    assert_eq!(
        parts,
        [(asked, false), (asked, false), (asked, true)],
        "nothing after the last one"
    );
}

#[test]
fn requests_wait_while_a_long_response_goes_on() {
    let mut world = World::pair();
    world.fes[0].mute = true;
    let now = world.now;
    let long = world.ce().query(now, Id(2), get(7), ms(1000)).unwrap();
    let behind = world.ce().query(now, Id(2), get(1), ms(1500)).unwrap();
    world.settle();
    let ended = |world: &mut World, at| -> Vec<_> {
        world.ce().handle_timeout(at);
        world.settle();
        let events = world.ce_events().into_iter();
        let ended = events.filter_map(|event| match event {
            Event::Unanswered(_, request) => Some((request, false)),
            Event::Response {
                request,
                is_last: true,
                ..
            } => Some((request, true)),
            _ => None,
        });
        ended.collect()
    };
    receive_part(&mut world, ms(900), Phase::Start, full());
    assert_eq!(ended(&mut world, ms(2000)), []);
    receive_part(&mut world, ms(9000), Phase::Middle, full());
    assert_eq!(ended(&mut world, ms(12_000)), []);
    receive_part(&mut world, ms(13_000), Phase::End, full());
    assert_eq!(ended(&mut world, ms(13_000)), [(long, true)]);
    assert_eq!(ended(&mut world, ms(18_999)), []);
    assert_eq!(ended(&mut world, ms(19_001)), [(behind, false)]);
}

/// SET of components 1, 2 (which does not exist) and 3.
fn three() -> Config {
    let path = |id: u32| PathData::full(vec![id], vec![id as u8]).unwrap();
    Selects::new(vec![select(
        OperationKind::Set,
        vec![path(1), path(99), path(3)],
    )])
    .unwrap()
}

/// The paths of a response, and their results.
fn results(response: &ConfigResponse) -> Vec<(Vec<u32>, ResultCode)> {
    let operations = response.selects().iter().flat_map(LfbSelect::operations);
    let paths = operations.flat_map(Operation::paths);
    paths
        .map(|path| match path.content() {
            Content::Outcome(outcome) => (path.ids().to_vec(), outcome.code()),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_failure_does_what_the_execution_mode_says() {
    use ResultCode::{ComponentDoesNotExist as Missing, Success, Unspecified};
    for (execution, kept, codes) in [
        (
            Execution::AllOrNone,
            vec![],
            [Unspecified, Missing, Unspecified],
        ),
        (
            Execution::UntilFailure,
            vec![1],
            [Success, Missing, Unspecified],
        ),
        (
            Execution::ContinueOnFailure,
            vec![1, 3],
            [Success, Missing, Success],
        ),
        (Execution::Unset, vec![], [ResultCode::InvalidFlags; 3]),
    ] {
        let mut store = Store::default();
        let response = execute::config(&three(), execution, Ack::Always, &mut store)
            .unwrap()
            .unwrap();
        let ids: Vec<_> = store.values.keys().map(|path| path[0]).collect();
        assert_eq!(ids, kept, "{execution:?}");
        let expected = [1, 99, 3].map(|id| vec![id]).into_iter().zip(codes);
        assert!(results(&response).into_iter().eq(expected), "{execution:?}");
    }
}

#[test]
fn a_config_is_answered_as_its_flags_ask_for() {
    let answer = |config: &Config, ack| {
        let mut store = Store::default();
        let mode = Execution::ContinueOnFailure;
        let response = execute::config(config, mode, ack, &mut store).unwrap();
        response.map(|response| results(&response).len())
    };
    let (bad, good) = (three(), set(1, 1));
    assert_eq!(
        [answer(&good, Ack::Never), answer(&bad, Ack::Never)],
        [None, None]
    );
    assert_eq!(
        [answer(&good, Ack::OnSuccess), answer(&bad, Ack::OnSuccess)],
        [Some(1), None]
    );
    assert_eq!(
        [answer(&good, Ack::OnFailure), answer(&bad, Ack::OnFailure)],
        [None, Some(1)]
    );
    assert_eq!(
        [answer(&good, Ack::Always), answer(&bad, Ack::Always)],
        [Some(1), Some(3)]
    );
}

#[test]
fn a_response_has_the_row_in_place_of_its_key() {
    let key = |id| {
        Some(Selector::Key {
            id: 1,
            values: vec![id],
        })
    };
    let column = |value| PathData::full(vec![2], vec![value]).unwrap();
    let nested = Content::Nested(vec![column(8), PathData::full(vec![3], vec![9]).unwrap()]);
    let paths = vec![
        PathData::new(vec![7], key(4), nested).unwrap(),
        PathData::new(vec![7], key(5), Content::Full(vec![1])).unwrap(),
    ];
    let request: Config = Selects::new(vec![select(OperationKind::Set, paths)]).unwrap();
    let mut store = Store::default();
    let response = execute::config(&request, Execution::AllOrNone, Ack::Always, &mut store);
    let response = response.unwrap().unwrap();
    let paths = response.selects()[0].operations()[0].paths();
    assert_eq!([paths[0].ids(), paths[1].ids()], [&[7, 14], &[7, 15]]);
    assert!(paths.iter().all(|path| path.selector().is_none()));
    let Content::Nested(inner) = paths[0].content() else {
        panic!("the shape of the request");
    };
    assert_eq!([inner[0].ids(), inner[1].ids()], [&[2], &[3]]);
    let stored: Vec<_> = store.values.keys().cloned().collect();
    assert_eq!(stored, [vec![7, 14, 2], vec![7, 14, 3], vec![7, 15]]);

    let read = PathData::new(vec![7], key(5), Content::Empty).unwrap();
    let unknown = PathData::new(vec![7], key(6), Content::Empty).unwrap();
    let request: Query =
        Selects::new(vec![select(OperationKind::Get, vec![read, unknown])]).unwrap();
    let response = execute::query(&request, &mut store).unwrap();
    let paths = response.selects()[0].operations()[0].paths();
    assert_eq!(paths[0], PathData::full(vec![7, 15], vec![1]).unwrap());
    assert_eq!(paths[1].ids(), [7], "there is no such row");
}

#[test]
fn operations_that_are_not_known_are_refused_whole() {
    let mut bytes = vec![0x10, 3, 0, 0x15, 0x40, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 1, 0xe0, 0x40, 0, 0]);
    bytes.extend([0x10, 0, 0, 0x3c, 0, 0, 0, 9, 0, 0, 0, 1]);
    for id in [1, 2] {
        bytes.extend([
            0, 1, 0, 0x18, 1, 0x10, 0, 0x14, 0, 0, 0, 1, 0, 0, 0, id, 1, 0x12, 0, 5, 7, 0, 0, 0,
        ]);
    }
    bytes[3] = (bytes.len() / 4) as u8;
    let known = Message::parse(&bytes).unwrap();
    bytes[60] = 0x80; // changes the kind of the second SET
    let message = Message::parse(&bytes).unwrap();
    for (message, stored) in [(known, 2), (message, 0)] {
        let (_, Body::Config(config)) = message.into_parts() else {
            panic!("a Config");
        };
        let mut store = Store::default();
        let response = execute::config(&config, Execution::AllOrNone, Ack::Always, &mut store);
        let failed = results(&response.unwrap().unwrap())
            .iter()
            .any(|(_, code)| *code == ResultCode::InvalidOperation);
        assert_eq!((store.values.len(), failed), (stored, stored == 0));
    }
}

#[test]
fn a_target_that_answers_nonsense_is_an_internal_error() {
    struct Nonsense;
    impl Target for Nonsense {
        fn apply(&mut self, _: &execute::Leaf<'_>) -> execute::Answer {
            execute::Answer::new(Content::Empty)
        }
        fn undo(&mut self) {}
        fn keep(&mut self) {}
    }
    let response = execute::config(&set(1, 1), Execution::AllOrNone, Ack::Always, &mut Nonsense);
    assert_eq!(
        results(&response.unwrap().unwrap())[0].1,
        ResultCode::InternalError
    );
    let response = execute::query(&get(1), &mut Nonsense).unwrap();
    let content = response.selects()[0].operations()[0].paths()[0].content();
    assert!(
        matches!(content, Content::Outcome(outcome) if outcome.code() == ResultCode::InternalError)
    );
}

#[test]
fn an_fe_that_was_slow_is_not_mistaken() {
    let mut world = World::pair();
    world.delay = Span::from_millis(600);
    let now = world.now;
    let first = world.ce().query(now, Id(2), get(1), ms(1000)).unwrap();
    world.run(ms(1000));
    let now = world.now;
    let second = world.ce().query(now, Id(2), get(1), ms(5000)).unwrap();
    world.run(ms(3000));
    let events = world.ce_events();
    assert!(events.contains(&Event::Unanswered(Id(2), first)));
    let answers = events.iter().filter_map(|e| match e {
        Event::Response { request, .. } => Some(*request),
        _ => None,
    });
    assert_eq!(
        answers.collect::<Vec<_>>(),
        [second],
        "the late answer belongs to nobody"
    );
}

#[test]
fn a_query_that_asks_for_nothing_is_answered_with_nothing() {
    let nothing: Query = Selects::new(vec![LfbSelect::new(9, 1, vec![]).unwrap()]).unwrap();
    let response = execute::query(&nothing, &mut Store::default()).unwrap();
    assert_eq!(response.selects(), nothing.selects());
}

#[test]
fn an_fe_sends_a_long_answer_in_parts() {
    let mut fe = weir_protocol::session::fe::Fe::new(ms(0), world::fe_params(2, &[CE])).unwrap();
    fe.handle_connected(ms(0), CE);
    fe.poll_transmit().unwrap();
    let send = |fe: &mut weir_protocol::session::fe::Fe, correlator, body: Body| {
        let envelope = Envelope {
            source: CE,
            destination: Id(2),
            correlator,
            flags: Flags::from_word(0x2020_0000), // even if the Query has the flag of a transaction
        };
        fe.handle_message(ms(1), CE, &Message::new(envelope, body).unwrap().to_bytes());
    };
    let accepted = weir_protocol::wire::message::AssociationSetupResponse { result: 0.into() };
    send(&mut fe, 1, Body::AssociationSetupResponse(accepted));
    let ask = |fe: &mut weir_protocol::session::fe::Fe, correlator| {
        send(fe, correlator, Body::Query(get(7)));
        std::iter::from_fn(|| fe.poll_event()).find_map(|event| match event {
            weir_protocol::session::fe::Event::Query(ticket, _) => Some(ticket),
            _ => None,
        })
    };
    let part = |len: usize, paths: usize| -> QueryResponse {
        let path = PathData::full(vec![7], vec![0; len]).unwrap();
        let selects = vec![select(OperationKind::GetResponse, vec![path]); paths];
        Selects::new(selects).unwrap()
    };
    let ticket = ask(&mut fe, 8).unwrap();
    let too_long = Some(Body::QueryResponse(part(60_000, 5)));
    assert!(
        fe.respond(ms(2), ticket, too_long).is_err(),
        "it does not fit a message"
    );
    let (mut sent, mut words) = (0, Vec::new());
    while fe
        .respond_part(ms(2), ticket, part(3000, 1), false)
        .unwrap()
    {
        sent += 1;
    }
    assert_eq!(sent, 4, "as many as the queue takes");
    words.extend(std::iter::from_fn(|| fe.poll_transmit()));
    let end = PathData::new(vec![7], None, Content::Outcome(Outcome::SUCCESS)).unwrap();
    let end = Selects::new(vec![select(OperationKind::GetResponse, vec![end])]).unwrap();
    assert!(fe.respond_part(ms(2), ticket, end, true).unwrap());
    words.extend(std::iter::from_fn(|| fe.poll_transmit()));
    let flags = words.iter().map(|transmit| {
        let message = Message::parse(&transmit.message).unwrap();
        assert_eq!(message.envelope().correlator, 8);
        (
            message.envelope().flags.transaction,
            message.envelope().flags.phase,
        )
    });
    let middle = (true, Phase::Middle);
    assert!(flags.eq([
        (true, Phase::Start),
        middle,
        middle,
        middle,
        (true, Phase::End)
    ]));

    let ticket = ask(&mut fe, 9).unwrap();
    fe.respond(ms(3), ticket, Some(Body::QueryResponse(part(8, 1))))
        .unwrap();
    let message = Message::parse(&fe.poll_transmit().unwrap().message).unwrap();
    assert!(
        !message.envelope().flags.transaction,
        "an answer in one piece has no parts"
    );
}

#[test]
fn results_have_the_form_that_the_ce_wants() {
    let mut world = World::pair();
    for extended in [true, false] {
        world.fe().set_extended_results(extended);
        let now = world.now;
        let continued = Manner {
            execution: Execution::ContinueOnFailure,
            ..manner(Ack::Always, 5000)
        };
        world
            .ce()
            .configure(now, Id(2), three(), continued)
            .unwrap();
        world.ce().query(now, Id(2), get(99), ms(5000)).unwrap();
        world.run(now + Span::from_millis(20));
        let mut forms = Vec::new();
        for event in world.ce_events() {
            let Event::Response { body, .. } = event else {
                continue;
            };
            let selects = match &body {
                Body::ConfigResponse(response) => response.selects(),
                Body::QueryResponse(response) => response.selects(),
                other => panic!("{other:?}"),
            };
            for path in selects[0].operations()[0].paths() {
                let Content::Outcome(outcome) = path.content() else {
                    panic!("{path:?}");
                };
                forms.push((outcome.is_extended(), outcome.code()));
            }
        }
        let missing = ResultCode::ComponentDoesNotExist;
        let codes = [ResultCode::Success, missing, ResultCode::Success, missing];
        assert_eq!(forms, codes.map(|code| (extended, code)));
    }
}
