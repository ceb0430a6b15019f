//! Associations: how they begin, how they are lost, and how misbehaving peers are handled.

use crate::world::{self, BACKUP, CE, World, ce_params, fe_params, get, ms, packet, select, set};
use weir_base::{Instant, Span};
use weir_protocol::session::ce::{self, Ce, LinkId, Manner};
use weir_protocol::session::fe::{
    self, CeStatus, Failover, Fe, ParamsError, STRAYS_MAX, Standby, State,
};
use weir_protocol::session::{Dropped, Heartbeats, Loss};
use weir_protocol::wire::header::{Ack, Execution, Flags, Priority, View};
use weir_protocol::wire::message::association_setup_response::SetupResult;
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::message::{EventNotification, Selects};
use weir_protocol::wire::{
    Body, Envelope, Id, LfbSelect, Message, MessageKind, Operation, OperationKind, PathData,
    ResultCode,
};

fn manner(deadline: u64) -> Manner {
    Manner {
        execution: Execution::AllOrNone,
        ack: Ack::Always,
        deadline: ms(deadline),
    }
}

/// A message from FE 2 to the CE, or in the other direction, as bytes.
fn raw(kind: u8, from: Id, to: Id, correlator: u64, flags: u32, body: &[u8]) -> Vec<u8> {
    let words = (24 + body.len()) / 4;
    let mut bytes = vec![0x10, kind, (words >> 8) as u8, words as u8];
    bytes.extend(from.0.to_be_bytes());
    bytes.extend(to.0.to_be_bytes());
    bytes.extend(correlator.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn hot(keeps: u64) -> Failover {
    Failover {
        keeps: Some(Span::from_millis(keeps)),
        standby: Standby::Hot,
    }
}

fn cold(keeps: u64) -> Failover {
    Failover {
        standby: Standby::Cold,
        ..hot(keeps)
    }
}

#[test]
fn an_ordinary_life() {
    let mut world = World::pair();
    let now = world.now;
    world
        .ce()
        .configure(now, Id(2), set(1, 7), manner(1000))
        .unwrap();
    world.ce().query(now, Id(2), get(1), ms(1000)).unwrap();
    world.run(ms(200));
    let now = world.now;
    let path = PathData::full(vec![60, 1], vec![2]).unwrap();
    let event: EventNotification =
        Selects::new(vec![select(OperationKind::Report, vec![path])]).unwrap();
    world.fe().notify(now, &event).unwrap();
    assert!(
        world
            .fe()
            .redirect(now, packet(0x45), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    world.run(ms(25_000));
    let now = world.now;
    assert!(
        world
            .ce()
            .redirect(now, Id(2), packet(0x60), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    world.run(ms(26_000));
    let now = world.now;
    world.ce().release(now, Id(2), TeardownReason::OutOfMemory);
    world.run(ms(26_050));
    assert_eq!(world.fes[0].value(1), Some(7));
    assert_eq!(world.fe().drops().total() + world.ce().drops().total(), 0);
    world.check("ordinary_life");
}

#[test]
fn an_fe_without_an_id_is_given_one() {
    let params = vec![
        fe_params(0, &[CE]),
        fe_params(0, &[CE]),
        fe_params(0, &[CE]),
    ];
    let mut world = World::new(params, vec![ce_params(CE)]);
    world.run(ms(90));
    let fes: Vec<_> = world.ces[0].ce.fes().map(|(id, _)| id.0).collect();
    assert_eq!(fes, [100, 101]);
    assert_eq!([0, 1].map(|f| world.fes[f].fe.id().0), [100, 101]);
    let refused = fe::Event::Lost(CE, Loss::Refused(SetupResult::FeIdInvalid));
    assert!(
        world.fes[2].events.contains(&refused),
        "both IDs are assigned"
    );
}

#[test]
fn an_id_that_was_proved_is_the_only_one() {
    for (proved, asks, result) in [
        (2, 2, SetupResult::Success),
        (2, 0, SetupResult::Success),
        (3, 2, SetupResult::PermissionDenied),
    ] {
        let mut ce = Ce::new(ce_params(CE)).unwrap();
        assert!(ce.handle_connected(ms(0), LinkId(1), Some(Id(proved))));
        ce.handle_message(ms(1), LinkId(1), &raw(1, Id(asks), CE, 5, 0, &[]));
        let answer = ce.poll_transmit(ms(1)).unwrap().message;
        let Body::AssociationSetupResponse(response) =
            Message::parse(&answer).unwrap().body().clone()
        else {
            panic!("not an answer");
        };
        assert_eq!(response.result, result);
        let associated: Vec<_> = ce.fes().map(|(id, _)| id.0).collect();
        assert_eq!(
            associated.as_slice(),
            if result == SetupResult::Success {
                &[2][..]
            } else {
                &[]
            }
        );
    }
}

#[test]
fn a_ce_that_does_not_answer_is_asked_again_and_then_left() {
    let mut fe = asking();
    let mut setups = Vec::new();
    while setups.len() < 4 {
        let message = fe.poll_transmit().unwrap();
        assert_eq!(fe.poll_transmit(), None);
        setups.push(message.message);
        fe.handle_timeout(fe.poll_timeout().unwrap());
    }
    assert!(
        setups.iter().all(|s| *s == setups[0]),
        "one correlator for all of them"
    );
    assert_eq!(fe.poll_event(), Some(fe::Event::Lost(CE, Loss::Unanswered)));
    assert_eq!(fe.poll_event(), Some(fe::Event::Disconnect(CE)));
    let again = fe.poll_timeout().unwrap();
    assert_eq!(
        again,
        ms(1000 + 2000 + 4000 + 8000 + 100),
        "each one has twice as long"
    );
    fe.handle_timeout(again);
    assert_eq!(fe.poll_event(), Some(fe::Event::Connect(CE)));
}

/// An FE that has requested an association.
fn asking() -> Fe {
    let mut fe = Fe::new(ms(0), fe_params(2, &[CE])).unwrap();
    assert_eq!(fe.poll_event(), Some(fe::Event::Connect(CE)));
    fe.handle_connected(ms(0), CE);
    fe
}

#[test]
fn a_ce_that_sends_anything_but_its_answer_is_left() {
    let query = raw(4, CE, Id(2), 9, 0, &[]);
    let config = raw(3, CE, Id(2), 9, 0, &[]);
    let other_setup = raw(17, CE, Id(2), 9, 0, &[0, 16, 0, 8, 0, 0, 0, 0]);
    let forged = raw(17, BACKUP, Id(2), 1, 0, &[0, 16, 0, 8, 0, 0, 0, 0]);
    let garbage = vec![0x10; 7];
    for stray in [query, config, other_setup, forged, garbage] {
        let mut fe = asking();
        for _ in 0..STRAYS_MAX {
            fe.handle_message(ms(1), CE, &stray);
        }
        assert_eq!(fe.poll_event(), None, "it may still answer");
        fe.handle_message(ms(1), CE, &stray);
        let events: Vec<_> = std::iter::from_fn(|| fe.poll_event()).collect();
        let left = [
            fe::Event::Lost(CE, Loss::Unexpected),
            fe::Event::Disconnect(CE),
        ];
        assert_eq!(events, left);
        assert_eq!(fe.drops().total(), u64::from(STRAYS_MAX) + 1);
        assert_eq!(fe.poll_timeout(), Some(ms(101)), "it is tried again");
    }
}

#[test]
fn what_overtakes_the_answer_of_a_ce_is_dropped_and_ends_nothing() {
    let mut fe = asking();
    let packet = Message::new(
        Envelope {
            source: CE,
            destination: Id(2),
            correlator: 0,
            flags: Flags::default(),
        },
        Body::PacketRedirect(packet(1)),
    );
    let packet = packet.unwrap().to_bytes();
    for _ in 0..10 * STRAYS_MAX {
        fe.handle_message(ms(1), CE, &packet);
        fe.handle_message(ms(1), CE, &raw(15, CE, Id(2), 0, 0, &[]));
    }
    assert_eq!(
        fe.drops().of(Dropped::Unassociated),
        20 * u64::from(STRAYS_MAX)
    );
    let setup = fe.poll_transmit().unwrap().message;
    let correlator = View::new_checked(&setup[..]).unwrap().correlator();
    let answer = raw(17, CE, Id(2), correlator, 0, &[0, 16, 0, 8, 0, 0, 0, 0]);
    fe.handle_message(ms(2), CE, &answer);
    assert!(fe.is_associated(CE));
}

#[test]
fn a_ce_that_cannot_be_reached_is_tried_ever_less_often() {
    let mut world = World::new(vec![fe_params(2, &[CE])], vec![ce_params(CE)]);
    world.kill(0);
    world.run(ms(60_000));
    let tries = world
        .fe_events()
        .iter()
        .filter(|e| **e == fe::Event::Connect(CE))
        .count();
    assert!((10..=14).contains(&tries), "{tries}");
    world.ces[0].dead = false;
    world.run(ms(75_000));
    assert_eq!(world.fe().state(), State::Associated);
}

#[test]
fn a_ce_that_goes_silent_is_given_up() {
    let mut world = World::pair();
    world.ces[0].dead = true; // its links stay open
    world.run(ms(30_000));
    assert_eq!(world.fe().state(), State::Associated);
    world.run(ms(30_200));
    assert_eq!(world.fe().state(), State::PreAssociation);
    let events = world.fe_events();
    assert!(events.contains(&fe::Event::Lost(CE, Loss::Silent)));
    assert!(world.log.contains("Association Teardown"), "and told so");
}

#[test]
fn an_fe_that_goes_silent_is_given_up_however_it_shows_its_life() {
    for (fe_sends, least, most) in [(true, 1500, 1700), (false, 30_000, 40_400)] {
        let heartbeats = Heartbeats {
            fe_sends,
            ..Heartbeats::default()
        };
        let fe = fe::Params {
            heartbeats,
            ..fe_params(2, &[CE])
        };
        let ce = ce::Params {
            heartbeats,
            ..ce_params(CE)
        };
        let mut world = World::new(vec![fe], vec![ce]);
        world.run(ms(100_000));
        assert_eq!(world.ce().fes().count(), 1, "it lives");
        world.fes[0].mute = true;
        world.run(ms(100_000 + least - 1000));
        assert_eq!(world.ce().fes().count(), 1);
        world.run(ms(100_000 + most));
        assert!(
            world
                .ce_events()
                .contains(&ce::Event::Lost(Id(2), Loss::Silent))
        );
    }
}

#[test]
fn lost_heartbeats_and_delay_end_no_association() {
    let mut world = World::pair();
    world.loses = 3;
    world.delay = Span::from_millis(700);
    world.run(ms(1_000_000));
    assert_eq!(world.fe().state(), State::Associated);
    assert!(
        !world
            .ce_events()
            .iter()
            .any(|e| matches!(e, ce::Event::Lost(..)))
    );
}

#[test]
fn whatever_comes_is_a_sign_of_life() {
    let mut world = World::pair();
    for second in 1..200 {
        world.run(ms(100 + 1000 * second));
        let now = world.now;
        let path = PathData::full(vec![60, 1], vec![2]).unwrap();
        let event = Selects::new(vec![select(OperationKind::Report, vec![path])]).unwrap();
        world.fe().notify(now, &event).unwrap();
        world
            .ce()
            .redirect(now, Id(2), packet(1), Priority::URGENT_REDIRECT)
            .unwrap();
    }
    assert!(!world.log.contains("Heartbeat"), "none is needed");
}

/// Correlator of a heartbeat with which an FE requests a heartbeat of its CE.
const PROBE: u64 = 0x7765_6972_6c69_7665;

/// An FE that is associated with a silent CE.
fn lonely() -> Fe {
    let mut fe = Fe::new(ms(0), fe_params(2, &[CE])).unwrap();
    fe.handle_connected(ms(0), CE);
    let setup = Message::parse(&fe.poll_transmit().unwrap().message).unwrap();
    let correlator = setup.envelope().correlator;
    let result = [0x00, 0x10, 0x00, 0x08, 0, 0, 0, 0];
    let response = raw(0x11, CE, Id(2), correlator, 0, &result);
    fe.handle_message(ms(0), CE, &response);
    assert!(fe.is_associated(CE) && fe.poll_transmit().is_none());
    fe
}

/// The kinds and correlators of the messages that an FE sends now.
fn sends(fe: &mut Fe) -> Vec<(MessageKind, u64)> {
    let all = std::iter::from_fn(|| fe.poll_transmit());
    let messages = all.map(|transmit| Message::parse(&transmit.message).unwrap());
    messages
        .map(|m| (m.body().kind(), m.envelope().correlator))
        .collect()
}

#[test]
fn a_master_that_has_answered_and_falls_silent_gets_no_more_packets() {
    let mut fe = lonely();
    let (question, redirect) = (
        (MessageKind::Heartbeat, PROBE),
        (MessageKind::PacketRedirect, 0),
    );
    let answer = raw(0x0F, CE, Id(2), PROBE, 0, &[]);
    fe.ask_master(ms(0));
    fe.ask_master(ms(1));
    assert_eq!(sends(&mut fe), [question], "one at a time");
    fe.handle_message(ms(10), CE, &answer);
    // The FE received a message just before.
    assert!(
        fe.redirect(ms(400), packet(1), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    assert_eq!(sends(&mut fe), [redirect]);
    assert!(
        fe.redirect(ms(600), packet(1), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    assert!(
        fe.redirect(ms(700), packet(1), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    assert_eq!(sends(&mut fe), [question, redirect, redirect]);
    assert_eq!(fe.poll_timeout(), Some(ms(2100)));
    assert!(fe.has_attentive_master());
    fe.handle_timeout(ms(2100));
    assert!(!fe.has_attentive_master() && fe.is_associated(CE));
    assert!(fe.poll_timeout().unwrap() > ms(2100));
    fe.redirect(ms(2200), packet(1), Priority::URGENT_REDIRECT)
        .unwrap();
    assert_eq!(sends(&mut fe), [redirect], "it has one question already");
    fe.handle_message(ms(5000), CE, &raw(0x0F, CE, Id(2), 0, 0, &[]));
    assert!(fe.has_attentive_master(), "whatever comes shows life");
}

#[test]
fn a_ce_that_does_not_know_the_question_is_not_given_up_for_it() {
    let mut fe = lonely();
    for at in [0, 2000, 4000] {
        fe.redirect(ms(at), packet(1), Priority::URGENT_REDIRECT)
            .unwrap();
        fe.handle_timeout(ms(at + 1600));
        assert!(fe.has_attentive_master());
        fe.handle_message(ms(at + 1700), CE, &raw(0x0F, CE, Id(2), 7, 0, &[]));
    }
    fe.handle_timeout(ms(40_000));
    assert!(!fe.has_attentive_master() && !fe.is_associated(CE), "CEHDI");
}

#[test]
fn a_ce_answers_the_question_of_an_fe_and_no_other_heartbeat() {
    let mut world = World::pair();
    let (now, (link, _)) = (world.now, world.link_of(0, CE).unwrap());
    for (correlator, ack) in [(7, 0), (7, 0xC000_0000)] {
        let heartbeat = raw(0x0F, Id(2), CE, correlator, ack, &[]);
        world.ce().handle_message(now, link, &heartbeat);
        assert_eq!(world.ce().poll_transmit(now), None);
    }
    let question = raw(0x0F, Id(2), CE, PROBE, 0, &[]);
    world.ce().handle_message(now, link, &question);
    let answer = world.ce().poll_transmit(now).unwrap().message;
    let view = View::new_checked(&answer).unwrap();
    assert_eq!(
        (view.kind(), view.correlator(), view.flags().ack),
        (MessageKind::Heartbeat, PROBE, Ack::Never)
    );
}

#[test]
fn an_fe_that_associates_again_begins_anew() {
    let mut world = World::pair();
    let (now, setup) = (world.now, raw(1, Id(2), CE, 77, 0, &[]));
    world.fes[0].mute = true;
    let request = world.ce().query(now, Id(2), get(1), ms(60_000)).unwrap();
    world.ce_events();
    let (link, _) = world.link_of(0, CE).unwrap();
    world.ce().handle_message(now, link, &setup);
    world.settle();
    let events = world.ce_events();
    assert_eq!(events[0], ce::Event::Lost(Id(2), Loss::Replaced));
    assert_eq!(events[1], ce::Event::Unanswered(Id(2), request));
    assert!(matches!(&events[2], ce::Event::Associated { fe: Id(2), link: l, .. } if *l == link));
    assert_eq!(events.len(), 3, "the link stays");

    let other = LinkId(1000);
    assert!(world.ce().handle_connected(now, other, None));
    world.ce().handle_message(now, other, &setup);
    let events: Vec<_> = std::iter::from_fn(|| world.ce().poll_event()).collect();
    assert_eq!(
        events[..2],
        [
            ce::Event::Lost(Id(2), Loss::Replaced),
            ce::Event::Close(link)
        ]
    );
    assert_eq!(world.ce().fes().collect::<Vec<_>>(), [(Id(2), other)]);

    world
        .ce()
        .handle_message(now, other, &raw(1, Id(3), CE, 78, 0, &[]));
    let events: Vec<_> = std::iter::from_fn(|| world.ce().poll_event()).collect();
    assert!(
        events.contains(&ce::Event::Close(other)),
        "one link is one FE"
    );
    assert_eq!(world.ce().fes().count(), 0);
}

#[test]
fn links_without_an_association_are_few_and_do_not_last() {
    let mut ce = Ce::new(ce_params(CE)).unwrap();
    for link in 0..8 {
        assert!(ce.handle_connected(ms(link), LinkId(link), None));
    }
    assert!(!ce.handle_connected(ms(8), LinkId(8), None));
    ce.handle_message(ms(9), LinkId(3), &raw(15, Id(2), CE, 0, 0, &[]));
    assert_eq!(
        ce.poll_event(),
        Some(ce::Event::Close(LinkId(3))),
        "a setup comes first"
    );
    ce.handle_message(ms(9), LinkId(4), &[0x10; 7]);
    assert_eq!(ce.poll_event(), Some(ce::Event::Close(LinkId(4))));
    assert_eq!(ce.poll_timeout(), Some(ms(5000)));
    ce.handle_timeout(ms(6000));
    assert_eq!(std::iter::from_fn(|| ce.poll_event()).count(), 6);
    assert_eq!(ce.drops().of(Dropped::Unassociated), 8);
    assert_eq!(ce.poll_timeout(), None);
}

#[test]
fn without_failover_an_fe_stops_at_once_and_starts_again() {
    let mut world = World::pair();
    world.fe_events();
    world.cut(0, CE);
    assert_eq!(world.fe().state(), State::PreAssociation);
    world.run(ms(1000));
    assert_eq!(world.fe().state(), State::Associated);
    let events = world.fe_events();
    let master = fe::Event::Master {
        from: Some(CE),
        to: CE,
    };
    assert!(events.contains(&fe::Event::State(State::PreAssociation)) && events.contains(&master));
}

#[test]
fn with_a_cefti_of_zero_an_fe_stops_when_it_gives_up_its_ce() {
    let params = fe::Params {
        failover: cold(0),
        ..fe_params(2, &[CE])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE)]);
    world.run(ms(100));
    let dead = world.now + Span::from_secs(60);
    world.fe().handle_timeout(dead);
    assert_eq!(world.fe().state(), State::PreAssociation);
    assert!(world.fe().poll_timeout() > Some(dead), "no timer is due");
}

#[test]
fn an_fe_keeps_forwarding_until_its_time_has_passed() {
    let params = fe::Params {
        failover: cold(20_000),
        ..fe_params(2, &[CE, BACKUP])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
    world.run(ms(1000));
    world.kill(1);
    world.kill(0);
    assert_eq!(world.fe().state(), State::NotAssociated(ms(21_000)));
    world.run(ms(20_999));
    assert!(matches!(world.fe().state(), State::NotAssociated(_)));
    world.run(ms(21_000));
    assert_eq!(world.fe().state(), State::PreAssociation);
    world.ces[1].dead = false;
    world.run(ms(60_000));
    assert_eq!(world.fe().master(), Some(BACKUP), "it goes on trying");
}

#[test]
fn cold_standby_goes_round() {
    let params = fe::Params {
        failover: cold(300_000),
        ..fe_params(2, &[CE, BACKUP])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
    world.run(ms(1000));
    assert_eq!(
        world.ces[1].ce.fes().count(),
        0,
        "the backup knows nothing of it"
    );
    world.kill(0);
    world.run(ms(2000));
    assert_eq!(
        (world.fe().master(), world.fe().state()),
        (Some(BACKUP), State::Associated)
    );
    world.ces[0] = world::World::new(vec![], vec![ce_params(CE)]).ces.remove(0);
    world.kill(1);
    world.run(ms(3000));
    assert_eq!(world.fe().master(), Some(CE));
    world.check("cold_standby");
}

#[test]
fn hot_standby_takes_over_at_once() {
    let params = fe::Params {
        failover: hot(300_000),
        ..fe_params(2, &[CE, BACKUP])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
    world.run(ms(1000));
    let now = world.now;
    assert_eq!(world.fe().master(), Some(CE));
    assert!(world.fe().is_associated(BACKUP));

    // A backup may query, but not change anything.
    let backup = &mut world.ces[1].ce;
    backup.query(now, Id(2), get(1), ms(1900)).unwrap();
    let change = backup
        .configure(now, Id(2), set(1, 1), manner(1900))
        .unwrap();
    assert!(
        world
            .fe()
            .redirect(now, packet(0x45), Priority::URGENT_REDIRECT)
            .unwrap()
    );
    let path = PathData::full(vec![60, 1], vec![2]).unwrap();
    let event = Selects::new(vec![select(OperationKind::Report, vec![path])]).unwrap();
    world.fe().notify(now, &event).unwrap();
    world.run(ms(2000));
    let events = std::mem::take(&mut world.ces[1].events);
    assert!(events.contains(&ce::Event::Unanswered(Id(2), change)));
    assert!(
        events
            .iter()
            .any(|e| matches!(e, ce::Event::Response { .. }))
    );
    assert!(
        !events
            .iter()
            .any(|e| matches!(e, ce::Event::Redirected(..)))
    );
    let heard = |e: &ce::Event| matches!(e, ce::Event::Notified(..));
    assert!(events.iter().any(heard), "events go to all");
    assert_eq!(
        (
            world.fes[0].value(1),
            world.fe().drops().of(Dropped::NotMaster)
        ),
        (None, 1)
    );

    world.kill(0);
    assert_eq!(
        (world.fe().master(), world.fe().state()),
        (Some(BACKUP), State::Associated)
    );
    let states = world.fe_events();
    assert_eq!(
        states
            .iter()
            .filter(|e| matches!(e, fe::Event::State(_)))
            .count(),
        1,
        "at the start only"
    );
    let now = world.now;
    world.ces[1]
        .ce
        .configure(now, Id(2), set(1, 1), manner(3000))
        .unwrap();
    world.run(ms(2100));
    assert_eq!(world.fes[0].value(1), Some(1));
    world.ces[0] = World::new(vec![], vec![ce_params(CE)]).ces.remove(0);
    world.run(ms(4000));
    assert!(
        world.fe().is_associated(CE),
        "a CE that comes back is a backup"
    );
    assert_eq!(world.fe().master(), Some(BACKUP));
    world.check("hot_standby");
    let ces: Vec<_> = world.fe().ces().collect();
    let statuses: Vec<_> = ces.iter().map(|ce| (ce.id, ce.status)).collect();
    assert_eq!(
        statuses,
        [(CE, CeStatus::Associated), (BACKUP, CeStatus::IsMaster)]
    );
    assert_eq!(
        (ces[1].dropped.packets, ces[1].dropped.bytes),
        (1, 60),
        "the Config of a backup"
    );
    let statistics = world.ces[1].ce.statistics(Id(2)).unwrap();
    assert_eq!(statistics.since, ms(25));
    let counts = |s: ce::Statistics| [s.operations_sent, s.operations_received];
    assert_eq!(
        counts(statistics),
        [3, 3],
        "two changes and a query; two answers and an event"
    );
    assert_eq!(
        [ces[1].received.packets, ces[1].sent.packets],
        [1 + 3, 1 + 3],
        "and the setup"
    );
}

#[test]
fn a_master_moves_its_fe() {
    for (failover, keeps_old) in [(cold(300_000), false), (hot(300_000), true)] {
        let params = fe::Params {
            failover,
            ..fe_params(2, &[CE, BACKUP])
        };
        let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
        world.run(ms(1000));
        let now = world.now;
        world.fe().set_ces(now, &[BACKUP, CE]).unwrap();
        world.run(ms(1100));
        assert_eq!(world.fe().master(), Some(BACKUP));
        assert_eq!(world.fe().is_associated(CE), keeps_old);
        let now = world.now;
        world.fe().set_ces(now, &[BACKUP]).unwrap();
        world.run(ms(1200));
        assert!(!world.fe().is_associated(CE) && world.fe().is_associated(BACKUP));
        assert_eq!(world.ces[0].ce.fes().count(), 0);
    }
}

#[test]
fn wrong_parameters_of_an_fe_are_refused() {
    let new = |params| Fe::new(ms(0), params).map(|_| ()).unwrap_err();
    assert_eq!(new(fe_params(2, &[])), ParamsError::Ces(0));
    assert_eq!(new(fe_params(2, &[CE, CE])), ParamsError::Ces(2));
    assert_eq!(new(fe_params(2, &[Id(7)])), ParamsError::Id(Id(7), "a CE"));
    assert_eq!(
        new(fe_params(0x4000_0000, &[CE])),
        ParamsError::Id(CE_ZERO, "an FE")
    );
    let hot = fe::Params {
        failover: Failover {
            keeps: None,
            standby: Standby::Hot,
        },
        ..fe_params(2, &[CE])
    };
    assert_eq!(new(hot), ParamsError::HotNeedsKeeping);
}

const CE_ZERO: Id = Id(0x4000_0000);
const GROUP: Id = Id(0xc000_0007);

/// An FE that is associated with a CE whose messages the test builds.
fn associated() -> Fe {
    let params = fe::Params {
        groups: vec![GROUP],
        ..fe_params(2, &[CE])
    };
    let mut fe = Fe::new(ms(0), params).unwrap();
    fe.handle_connected(ms(0), CE);
    let setup = fe.poll_transmit().unwrap().message;
    let correlator = View::new_checked(&setup[..]).unwrap().correlator();
    fe.handle_message(
        ms(1),
        CE,
        &raw(0x11, CE, Id(2), correlator, 0, &[0, 16, 0, 8, 0, 0, 0, 0]),
    );
    assert!(fe.is_associated(CE));
    while fe.poll_event().is_some() {}
    fe
}

#[test]
fn lies_about_ids_and_correlators_change_nothing() {
    let mut fe = Fe::new(ms(0), fe_params(2, &[CE])).unwrap();
    fe.handle_connected(ms(0), CE);
    let accepted = [0, 16, 0, 8, 0, 0, 0, 0];
    fe.handle_message(ms(1), CE, &raw(0x11, CE, Id(2), 999, 0, &accepted));
    fe.handle_message(ms(1), CE, &raw(0x11, BACKUP, Id(2), 1, 0, &accepted));
    fe.handle_message(ms(1), CE, &raw(0x11, CE, Id(3), 1, 0, &accepted));
    fe.handle_message(ms(1), BACKUP, &raw(0x11, BACKUP, Id(2), 1, 0, &accepted));
    fe.handle_message(ms(1), CE, &raw(15, CE, Id(2), 0, 0, &[]));
    assert!(!fe.is_associated(CE));
    assert_eq!(fe.drops().of(Dropped::Unexpected), 2);
    assert_eq!(fe.drops().of(Dropped::WrongId), 1);
    assert_eq!(fe.drops().of(Dropped::Unassociated), 2);

    let mut world = World::pair();
    let now = world.now;
    let request = world.ce().query(now, Id(2), get(1), ms(2000)).unwrap();
    world.fes[0].mute = true;
    world.settle();
    let (link, _) = world.link_of(0, CE).unwrap();
    let ce = world.ce();
    let result = [
        0x10, 0, 0, 0x24, 0, 0, 0, 9, 0, 0, 0, 1, 0, 9, 0, 0x18, 1, 0x10, 0, 0x14, 0, 0, 0, 1, 0,
        0, 0, 1, 1, 0x14, 0, 8, 9, 0, 0, 0,
    ];
    let mut changed = result;
    changed[13] = 3; // SET-RESPONSE
    ce.handle_message(now, link, &raw(0x14, Id(3), CE, 2, 0, &result));
    ce.handle_message(now, link, &raw(0x14, Id(2), CE, 12_345, 0, &result));
    ce.handle_message(now, link, &raw(0x13, Id(2), CE, 1, 0, &changed));
    ce.handle_message(now, link, &raw(3, CE, Id(2), 1, 0, &[]));
    assert_eq!(ce.drops().of(Dropped::WrongId), 1);
    assert_eq!(ce.drops().of(Dropped::Unexpected), 2);
    assert_eq!(ce.drops().of(Dropped::Malformed), 1);
    assert_eq!(ce.poll_event(), None);
    world.run(ms(2000));
    assert!(
        world
            .ce_events()
            .contains(&ce::Event::Unanswered(Id(2), request))
    );
}

#[test]
fn a_request_that_cannot_be_read_is_answered_where_its_error_lies() {
    let mut fe = associated();
    // Two paths; the second path has a flag without a selector.
    let body = [
        0x10, 0, 0, 0x30, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 0, 0x24, 1, 0x10, 0, 0x10, 0, 0, 0, 0, 1,
        0x12, 0, 5, 1, 0, 0, 0, 1, 0x10, 0, 0x10, 0x80, 0, 0, 1, 0, 0, 0, 7, 1, 0x12, 0, 4,
    ];
    for (flags, answered) in [
        (0xc040_0000, true),
        (0x8040_0000, true),
        (0x0040_0000, false),
    ] {
        fe.handle_message(ms(2), CE, &raw(3, CE, Id(2), 8, flags, &body));
        let answer = fe.poll_transmit();
        assert_eq!(answer.is_some(), answered);
        let Some(answer) = answer else { continue };
        let message = Message::parse(&answer.message).unwrap();
        assert_eq!(message.envelope().correlator, 8);
        let Body::ConfigResponse(response) = message.body() else {
            panic!("{message:?}");
        };
        let path = &response.selects()[0].operations()[0].paths()[0];
        assert_eq!(path.ids(), [7]);
        let expected = weir_protocol::wire::Outcome::plain(ResultCode::InvalidTflags).unwrap();
        assert_eq!(
            *path.content(),
            weir_protocol::wire::Content::Outcome(expected)
        );
    }
    // A body whose first TLV is unreadable, and a message that is not a request.
    fe.handle_message(
        ms(3),
        CE,
        &raw(3, CE, Id(2), 8, 0xc040_0000, &[0x10, 0, 0, 3]),
    );
    fe.handle_message(ms(3), CE, &raw(6, CE, Id(2), 0, 0, &[]));
    assert_eq!(fe.poll_transmit(), None);
    assert_eq!(fe.drops().of(Dropped::Malformed), 5);
    assert!(fe.is_associated(CE));
}

#[test]
fn a_request_for_somebody_else_is_refused() {
    let mut fe = associated();
    let query = [
        0x10, 0, 0, 0x1c, 0, 0, 0, 9, 0, 0, 0, 1, 0, 7, 0, 0x10, 1, 0x10, 0, 0xc, 0, 0, 0, 1, 0, 0,
        0, 1,
    ];
    let flags = Flags {
        transaction: true,
        ..Flags::default()
    };
    fe.handle_message(ms(2), CE, &raw(4, CE, Id(3), 8, flags.word(), &query));
    let answer = Message::parse(&fe.poll_transmit().unwrap().message).unwrap();
    assert_eq!(answer.body().kind(), MessageKind::QueryResponse);
    assert!(!answer.envelope().flags.transaction, "no parts follow");
    assert_eq!(fe.poll_event(), None);
    fe.handle_message(ms(2), CE, &raw(4, CE, Id(0xc000_0008), 9, 0, &query));
    assert_eq!(
        (fe.poll_event(), fe.drops().of(Dropped::WrongId)),
        (None, 2),
        "not our group"
    );
    for us in [Id::ALL_FES, GROUP] {
        fe.handle_message(ms(2), CE, &raw(4, CE, us, 10, 0, &query));
        assert!(
            matches!(fe.poll_event(), Some(fe::Event::Query(..))),
            "{us}"
        );
    }
}

#[test]
fn a_ce_that_asks_without_end_or_never_reads_is_held_up() {
    let mut fe = associated();
    let query = [
        0x10, 0, 0, 0x1c, 0, 0, 0, 9, 0, 0, 0, 1, 0, 7, 0, 0x10, 1, 0x10, 0, 0xc, 0, 0, 0, 1, 0, 0,
        0, 1,
    ];
    for correlator in 1..=100 {
        assert_eq!(fe.wants(CE), correlator <= 16);
        fe.handle_message(ms(2), CE, &raw(4, CE, Id(2), correlator, 0, &query));
    }
    assert_eq!(std::iter::from_fn(|| fe.poll_event()).count(), 16);
    assert_eq!(fe.drops().of(Dropped::Full), 84);

    let mut fe = associated();
    let before = fe.ces().next().unwrap().sent.packets;
    for _ in 0..100_000 {
        fe.handle_message(ms(2), CE, &raw(15, CE, Id(2), 7, 0xc000_0000, &[]));
        fe.redirect(ms(2), packet(1), Priority::URGENT_REDIRECT)
            .unwrap();
    }
    assert!(!fe.wants(CE));
    let waiting: usize = std::iter::from_fn(|| fe.poll_transmit())
        .map(|t| t.message.len())
        .sum();
    assert!((10_000..10_100).contains(&waiting), "{waiting}");
    let ce = fe.ces().next().unwrap();
    let sent = ce.sent.packets - before;
    assert_eq!(sent + ce.unsent.packets, 200_000, "none is forgotten");
}

#[test]
fn an_fe_that_never_reads_is_owed_no_more_than_was_agreed() {
    let mut world = World::pair();
    let (link, _) = world.link_of(0, CE).unwrap();
    world.ce().handle_writable(link, false);
    let now = world.now;
    let mut taken = 0;
    while world
        .ce()
        .configure(now, Id(2), set(1, 1), manner(50_000))
        .is_ok()
    {
        taken += 1;
    }
    assert_eq!(taken, 4 + 50, "the window and the queue");
    let mut redirected = 0;
    while world
        .ce()
        .redirect(now, Id(2), packet(9), Priority::URGENT_REDIRECT)
        .unwrap()
    {
        redirected += 1;
    }
    assert!(redirected < 10_000);
    world.run(ms(45_000));
    let events = world.ce_events();
    assert!(events.iter().any(|e| matches!(e, ce::Event::Lost(..))));
    let unanswered = events
        .iter()
        .filter(|e| matches!(e, ce::Event::Unanswered(..)))
        .count();
    assert_eq!(unanswered, taken, "each one is accounted for");
}

#[test]
fn time_that_stands_still_is_no_endless_work() {
    let mut world = World::pair();
    let (link, _) = world.link_of(0, CE).unwrap();
    world.ce().handle_writable(link, false);
    let now = world.now;
    while world
        .ce()
        .redirect(now, Id(2), packet(9), Priority::URGENT_REDIRECT)
        .unwrap()
    {}
    let mut at = Instant::ZERO;
    for _ in 0..20 {
        let Some(next) = world.ce().poll_timeout() else {
            return;
        };
        assert!(next > at);
        at = next;
        world.ce().handle_timeout(at);
    }
    panic!("the FE that never reads is still associated");
}

#[test]
fn what_a_ce_writes_about_heartbeats_and_failover_holds_from_then_on() {
    let mut world = World::pair();
    let heartbeats = Heartbeats {
        ce_sends: true,
        ce_dead: Span::from_millis(300),
        fe_sends: true,
        fe_interval: Span::from_millis(50),
    };
    let now = world.now;
    world.fe().set_heartbeats(heartbeats).unwrap();
    world.ce().set_heartbeats(now, Id(2), heartbeats).unwrap();
    let zero = Heartbeats {
        fe_interval: Span::ZERO,
        ..heartbeats
    };
    assert!(world.fe().set_heartbeats(zero).is_err());
    assert!(world.ce().set_heartbeats(now, Id(2), zero).is_err());
    world.run(ms(1095));
    let count = |from: &str| {
        let heartbeats = world.log.lines().filter(|l| l.contains("Heartbeat"));
        heartbeats.filter(|l| l.contains(from)).count()
    };
    assert_eq!([count("ce 0 -> fe 0"), count("fe 0 -> ce 0")], [10, 20]);

    let now = world.now;
    let keeps = Some(Span::from_millis(700));
    let failover = |keeps, standby| Failover { keeps, standby };
    let refused = world.fe().set_failover(now, failover(None, Standby::Hot));
    assert_eq!(refused, Err(ParamsError::HotNeedsKeeping));
    world
        .fe()
        .set_failover(now, failover(keeps, Standby::None))
        .unwrap();
    world.ces[0].dead = true;
    world.run(ms(1500));
    let State::NotAssociated(until) = world.fe().state() else {
        panic!("it keeps forwarding");
    };
    world.run(until);
    assert_eq!(world.fe().state(), State::PreAssociation);
}

#[test]
fn wrong_parameters_of_a_ce_are_refused() {
    let good = || ce_params(CE);
    let new = |params| Ce::new(params).map(|_| ()).unwrap_err().to_string();
    assert_eq!(new(ce_params(Id(7))), "0x00000007 is not the ID of a CE");
    let assigns = Some(0..=7);
    let error = new(ce::Params { assigns, ..good() });
    assert_eq!(error, "0x00000000 is not the ID of an FE");
    for params in [
        ce::Params {
            window: 0,
            ..good()
        },
        ce::Params {
            links_max: 0,
            ..good()
        },
        ce::Params {
            requests_max: 0,
            ..good()
        },
    ] {
        assert!(new(params).starts_with("a CE needs at least one link"));
    }
    let heartbeats = Heartbeats {
        ce_dead: Span::ZERO,
        ..Heartbeats::default()
    };
    let error = new(ce::Params {
        heartbeats,
        ..good()
    });
    assert!(
        error.ends_with("(CEHDI) is 0 s, but must be at least 1 ms"),
        "{error}"
    );
}

#[test]
fn a_setup_that_is_sent_again_is_answered_again() {
    let mut world = World::new(vec![fe_params(2, &[CE])], vec![ce_params(CE)]);
    world.delay = Span::from_millis(1200);
    world.run(ms(20_000));
    let setups = world.log.lines().filter(|l| l.contains("Setup:")).count();
    assert!(
        setups > 1,
        "the answer took longer than the first try waits"
    );
    let events = world.ce_events();
    let associated = |e: &&ce::Event| matches!(e, ce::Event::Associated { .. });
    assert_eq!(events.iter().filter(associated).count(), 1);
    assert_eq!((events.len(), world.fe().state()), (1, State::Associated));
}

#[test]
fn a_ce_whose_link_takes_no_more_holds_up_no_other() {
    let params = fe::Params {
        failover: hot(300_000),
        ..fe_params(2, &[CE, BACKUP])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
    world.run(ms(1000));
    let now = world.now;
    world.fe().handle_writable(CE, false);
    let path = PathData::full(vec![60, 1], vec![2]).unwrap();
    let event = Selects::new(vec![select(OperationKind::Report, vec![path])]).unwrap();
    let heard = |world: &World, c: usize| {
        let events = world.ces[c].events.iter();
        events
            .filter(|e| matches!(e, ce::Event::Notified(..)))
            .count()
    };
    world.fe().notify(now, &event).unwrap();
    world.run(ms(1100));
    assert_eq!([heard(&world, 0), heard(&world, 1)], [0, 1]);
    world.fe().handle_writable(CE, true);
    world.run(ms(1200));
    assert_eq!([heard(&world, 0), heard(&world, 1)], [1, 1]);
}

#[test]
fn an_fe_knows_what_became_of_its_ces() {
    let params = fe::Params {
        failover: cold(300_000),
        ..fe_params(2, &[CE, BACKUP])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE), ce_params(BACKUP)]);
    let statuses = |world: &mut World| world.fe().ces().map(|ce| ce.status).collect::<Vec<_>>();
    world.run(ms(12));
    assert_eq!(
        statuses(&mut world),
        [CeStatus::Connected, CeStatus::Disconnected]
    );
    world.run(ms(1000));
    assert_eq!(
        statuses(&mut world),
        [CeStatus::IsMaster, CeStatus::Disconnected]
    );
    world.kill(1);
    world.kill(0);
    world.run(ms(1050));
    assert_eq!(
        statuses(&mut world),
        [CeStatus::LostConnection, CeStatus::Unreachable]
    );
}

#[test]
fn a_ce_learns_what_an_fe_reports_of_itself() {
    let state = PathData::full(vec![7], vec![1]).unwrap();
    let report = Operation::on(OperationKind::Report, vec![state]).unwrap();
    let report = LfbSelect::new(1, 1, vec![report]).unwrap();
    let params = fe::Params {
        setup: Selects::new(vec![report.clone()]).unwrap(),
        ..fe_params(2, &[CE])
    };
    let mut world = World::new(vec![params], vec![ce_params(CE)]);
    world.run(ms(100));
    let events = world.ce_events();
    let ce::Event::Associated { setup, .. } = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(setup.selects(), [report]);
}

#[test]
fn a_thousand_fes_are_kept_alive() {
    let params = ce::Params {
        links_max: 1000,
        ..ce_params(CE)
    };
    let mut ce = Ce::new(params).unwrap();
    for fe in 1..=1000 {
        let link = LinkId(u64::from(fe));
        assert!(ce.handle_connected(ms(0), link, None));
        ce.handle_message(ms(0), link, &raw(1, Id(fe), CE, 1, 0, &[]));
    }
    let (mut asked, mut turns) = (0, 0);
    let mut now = ms(0);
    while now < ms(60_000) {
        while let Some(ce::Transmit { link, message }) = ce.poll_transmit(now) {
            let view = View::new_checked(&message[..]).unwrap();
            if view.kind() == MessageKind::Heartbeat {
                asked += 1;
                let (fe, correlator) = (view.destination(), view.correlator());
                ce.handle_message(now, link, &raw(15, fe, CE, correlator, 0, &[]));
            }
        }
        turns += 1;
        now = ce.poll_timeout().unwrap();
        ce.handle_timeout(now);
    }
    assert_eq!(ce.fes().count(), 1000);
    assert_eq!(asked, 5000, "one in ten seconds for each");
    assert!(
        turns < 100,
        "{turns} turns: timers of one instant go off together"
    );
}
