//! Observers of a plane: every drop is in exactly one event, whatever the flood, and a filter passes only matching
//! events.

use std::collections::BTreeMap;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use weir_base::setting::Scalar;
use weir_base::{Instant, Rate, Span, Streams, Tally};
use weir_discipline::Spec;
use weir_packet::Reason;
use weir_path::egress::port::Link;
use weir_path::link::offload::Offload;
use weir_path::plane::filter::Filter;
use weir_path::plane::observe::{
    Batch, Drops, EVENTS_MAX, Events, HISTORY, INTERVAL, LEASE, OBSERVERS_MAX, PLACES, TooMany,
    Want,
};
use weir_path::plane::step::Arrival;
use weir_path::plane::watch::{self, Sightings};
use weir_path::plane::{Mode, Plane};

const LAN: usize = 0;

/// Two bridged ports; a queue of three packets before each slow link.
fn plane() -> Plane {
    let mut plane = Plane::new(64, 1518, Streams::new(1));
    for name in ["lan", "wan"] {
        let spec = Spec::check("fifo", [("limit", &Scalar::Integer(3))]).unwrap();
        let link = Link {
            rate: Some(Rate::from_bps(8000)),
            framing: weir_base::Framing::bytes(0),
            frame_bytes_max: 1518,
        };
        plane.add_port(name, name, Mode::Bridged, spec, link, Instant::ZERO);
    }
    plane
}

/// A datagram of 142 bytes.
fn udp(source: [u8; 4], port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(source, [192, 0, 2, 1], 64)
        .udp(port, 53)
        .write(&mut frame, &[0; 100])
        .unwrap();
    frame
}

fn send(plane: &mut Plane, frame: &[u8], at: Instant) {
    let arrival = Arrival {
        at,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(LAN, frame, arrival);
    plane.step(at);
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// Events of each observer.
fn seen(plane: &mut Plane, now: Instant) -> BTreeMap<u64, Vec<Drops>> {
    let empties = (0..=OBSERVERS_MAX).map(|_| Events::default()).collect();
    let drained = |mut batch: Batch| (batch.observer, batch.events.drain().collect());
    plane
        .observed(empties, now)
        .into_iter()
        .map(drained)
        .collect()
}

fn sum(events: &[Drops], reason: Reason) -> Tally {
    let own = events.iter().filter(|event| event.reason == reason);
    own.fold(Tally::ZERO, |sum, event| sum + event.count)
}

fn of_source(source: &str) -> Want {
    Want {
        filter: Filter {
            sources: vec![source.parse().unwrap()],
            ..Filter::default()
        },
        ..Want::default()
    }
}

#[test]
fn drops_of_a_flow_are_one_event_with_flow_port_reason_and_time() {
    let mut plane = plane();
    // The link takes the first packet, three wait; of the others, one is sent each millisecond.
    for millis in 0..14 {
        send(&mut plane, &udp([10, 0, 0, 1], 5000), at(millis));
    }
    let events = &seen(&mut plane, at(10))[&HISTORY];
    assert!(events.is_empty(), "the interval is not over: {events:?}");
    let events = &seen(&mut plane, at(300))[&HISTORY];
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let of = event.of.as_ref().unwrap();
    assert_eq!(
        event.count,
        Tally {
            packets: 10,
            bytes: 1420
        }
    );
    assert_eq!(
        (event.reason, event.first, event.last),
        (Reason::QueueFull, at(4), at(13))
    );
    assert_eq!(of.key.to_string(), "10.0.0.1:5000 > 192.0.2.1:53 udp");
    assert_eq!(
        (of.port.as_deref(), of.outbound, of.frame_bytes),
        (Some("wan"), true, 142)
    );
    assert_eq!(of.waited, Span::ZERO);
}

#[test]
fn a_flood_of_addresses_is_a_few_events_that_add_up() {
    let mut plane = plane();
    for n in 0..1000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        send(&mut plane, &udp([10, a, b, c], 5000), at(1));
    }
    send(&mut plane, &[0; 10], at(2)); // for another reason, or none
    let dropped = plane.fates().ended(Reason::QueueFull);
    let events = &seen(&mut plane, at(300))[&HISTORY];
    assert_eq!(sum(events, Reason::QueueFull), dropped);
    let with_flow = events.iter().filter(|event| event.of.is_some()).count();
    assert!(with_flow <= PLACES && with_flow > PLACES / 2, "{with_flow}");
    assert!(events.len() <= PLACES + 1);
}

#[test]
fn a_filter_lets_its_own_drops_through_and_no_others() {
    let mut plane = plane();
    let wanted = plane
        .observe(of_source("10.0.0.7/32"), Events::default(), at(0))
        .unwrap();
    let of_lan = Want {
        ports: vec!["lan".to_owned()],
        ..Want::default()
    };
    let lan = plane.observe(of_lan, Events::default(), at(0)).unwrap();
    let other_reason = Want {
        filter: Filter {
            reasons: vec![Reason::Congestion],
            ..Filter::default()
        },
        ..Want::default()
    };
    let other = plane
        .observe(other_reason, Events::default(), at(0))
        .unwrap();
    // The flood fills the places of the history; the wanted flow comes after it.
    for n in 0..600 {
        send(
            &mut plane,
            &udp([10, 9, (n >> 8) as u8, n as u8], 5000),
            at(1),
        );
    }
    for _ in 0..5 {
        send(&mut plane, &udp([10, 0, 0, 7], 7000), at(2));
    }
    let events = seen(&mut plane, at(300));
    assert_eq!(
        sum(&events[&wanted], Reason::QueueFull),
        Tally {
            packets: 5,
            bytes: 5 * 142
        }
    );
    let flows: Vec<_> = events[&wanted]
        .iter()
        .map(|e| e.of.as_ref().unwrap().key.to_string())
        .collect();
    assert_eq!(flows, ["10.0.0.7:7000 > 192.0.2.1:53 udp"]);
    assert!(
        events[&lan].is_empty(),
        "they were dropped at wan: {:?}",
        events[&lan]
    );
    assert!(events[&other].is_empty());
    // The same for the history, as far as it distinguishes flows.
    let is_wanted = |event: &&Drops| of_source("10.9.0.0/16").takes_event(event);
    let known = events[&HISTORY].iter().filter(is_wanted).count();
    assert!(known > 0 && known <= PLACES, "{known}");
}

#[test]
fn frames_that_never_become_packets_are_seen_too() {
    let mut plane = plane();
    let frame = udp([10, 0, 0, 1], 5000);
    let arrival = Arrival {
        at: at(5),
        len: 9000,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(LAN, &frame, arrival);
    let events = &seen(&mut plane, at(300))[&HISTORY];
    let of = events[0].of.as_ref().unwrap();
    assert_eq!(
        (events.len(), events[0].reason, events[0].count.bytes),
        (1, Reason::TruncatedFrame, 9000)
    );
    assert_eq!((of.port.as_deref(), of.outbound), (Some("lan"), false));
    assert_eq!(of.key.to_string(), "10.0.0.1:5000 > 192.0.2.1:53 udp");
}

#[test]
fn a_reader_that_does_not_fetch_loses_old_events_and_then_its_observer() {
    let mut plane = plane();
    let number = plane
        .observe(of_source("10.0.0.0/8"), Events::default(), at(0))
        .unwrap();
    let mut now = at(0);
    for round in 0..EVENTS_MAX as u64 / 50 + 50 {
        now = at(round * 251);
        for port in 0..60 {
            send(&mut plane, &udp([10, 0, 0, 1], 5000 + port), now);
        }
        if round % 100 == 0 {
            let batches = plane.observed(vec![Events::default()], now);
            assert_eq!(batches.len(), 1, "the observer is not fetched from");
        }
    }
    assert!(now < Instant::ZERO + LEASE);
    let dropped = plane.fates().ended(Reason::QueueFull);
    now += INTERVAL;
    let empties = vec![Events::default(), Events::default()];
    let mut batches = plane.observed(empties, now);
    let mut own = batches.pop().unwrap();
    assert_eq!(own.observer, number);
    assert!(own.overwritten > 0);
    let events: Vec<_> = own.events.drain().collect();
    assert_eq!(events.len(), EVENTS_MAX);
    assert!(sum(&events, Reason::QueueFull).packets < dropped.packets);
    // The number of readers is bounded, and a reader that disappeared frees its place after a while.
    for _ in 1..OBSERVERS_MAX {
        plane
            .observe(Want::default(), Events::default(), now)
            .unwrap();
    }
    let more = |plane: &mut Plane, now| plane.observe(Want::default(), Events::default(), now);
    assert_eq!(more(&mut plane, now), Err(TooMany));
    let last = more(&mut plane, now + LEASE).unwrap();
    plane.end_observer(last);
    plane.end_observer(HISTORY); // never ends
    let numbers: Vec<_> = seen(&mut plane, now + LEASE).into_keys().collect();
    assert_eq!(numbers, [HISTORY]);
}

#[test]
fn a_port_that_goes_keeps_its_name_in_events() {
    let mut plane = plane();
    for millis in 0..6 {
        send(&mut plane, &udp([10, 0, 0, 1], 5000), at(millis));
    }
    plane.remove_port(1, Reason::Reconfigured);
    let events = &seen(&mut plane, at(300))[&HISTORY];
    assert_eq!(sum(events, Reason::QueueFull).packets, 2);
    assert_eq!(sum(events, Reason::Reconfigured).packets, 4); // three in the queue, one before the device
    let is_wan = |event: &Drops| event.of.as_ref().unwrap().port.as_deref() == Some("wan");
    assert!(events.iter().all(is_wan), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The sum of the events is the sum of the counters, with a watch and without, whatever is sent and when it is
    /// fetched.
    #[test]
    fn events_add_up_to_the_counters(
        frames in prop::collection::vec((0_u8..8, 0_u16..100, 0_u64..200, any::<bool>(), any::<bool>()), 1..400),
        watched in any::<bool>(),
    ) {
        let mut plane = plane();
        if watched {
            let want = watch::Want {
                ports: vec!["lan".to_owned()],
                drops: true,
                filter: Filter::default(),
                snap: 60,
                packets: 1000,
                until: Instant::FAR_FUTURE,
            };
            plane.watch(want, Sightings::default(), Instant::ZERO).unwrap();
        }
        let (mut now, mut events) = (at(0), Vec::new());
        for (host, port, later, fetch, good) in frames {
            now += Span::from_millis(if later > 150 { later } else { 0 });
            if good { send(&mut plane, &udp([10, 0, 0, host], port), now) } else { send(&mut plane, &vec![0; 1519 + usize::from(port)], now) }
            if fetch {
                events.append(&mut seen(&mut plane, now).remove(&HISTORY).unwrap());
            }
        }
        events.append(&mut seen(&mut plane, now + INTERVAL).remove(&HISTORY).unwrap());
        for reason in Reason::ALL {
            prop_assert_eq!(sum(&events, reason), plane.fates().ended(reason));
        }
    }
}
