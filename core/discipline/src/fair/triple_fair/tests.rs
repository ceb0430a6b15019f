//! Tests of the whole: order, shares, memory.

use proptest::prelude::*;
use weir_base::framing::Cells;
use weir_packet::{FlowKey, Slot};

use super::time::REBASE;
use super::*;
use crate::rig::{self, Rig, defaults, gauge};

pub(super) fn params() -> Params {
    defaults::<TripleFair>()
}

pub(super) fn queues() -> TripleFair {
    TripleFair::new(params())
}

/// A rig whose flow `n` has the source and the destination that `of` returns.
pub(super) fn rig(flows: usize, of: impl Fn(usize) -> (u32, u32)) -> Rig {
    let mut rig = Rig::new(flows);
    for flow in 0..flows {
        let (source, destination) = of(flow);
        let [_, a, b, c] = source.to_be_bytes();
        let [_, d, e, f] = destination.to_be_bytes();
        let ports = (1024 + flow as u16, 443);
        let key = FlowKey::ip(
            [10, a, b, c].into(),
            [172, d, e, f].into(),
            17,
            ports.0,
            ports.1,
        );
        rig.keys.set(Slot(flow as u32), key);
    }
    rig
}

/// Keeps three packets of each of `flows` flows queued; returns how many of each are among `packets` packets, after as
/// many others.
fn shares(rig: &mut Rig, discipline: &mut TripleFair, flows: usize, packets: usize) -> Vec<usize> {
    for flow in 0..flows {
        for _ in 0..3 {
            rig.offer(discipline, flow, 1000);
        }
    }
    let mut served = vec![0; flows];
    for n in 0..2 * packets {
        let packet = rig.take(discipline).unwrap();
        served[packet.slot.0 as usize] += usize::from(n >= packets);
        rig.offer(discipline, packet.slot.0 as usize, 1000);
    }
    served
}

fn sum(served: &[usize], of: impl Fn(usize) -> bool) -> f64 {
    let flows = served.iter().enumerate().filter(|(flow, _)| of(*flow));
    flows.map(|(_, n)| *n as f64).sum()
}

#[test]
fn sources_share_whatever_their_flows() {
    // Flow 0 is the only one of its source; 40 other flows are of another source. Each flow has a destination of its
    // own.
    let mut rig = rig(41, |flow| (flow.min(1) as u32, flow as u32));
    let served = shares(&mut rig, &mut queues(), 41, 8000);
    let ratio = served[0] as f64 / sum(&served, |flow| flow > 0);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn destinations_share_whatever_their_sources() {
    let mut rig = rig(41, |flow| (flow as u32, flow.min(1) as u32));
    let mut discipline = queues();
    let served = shares(&mut rig, &mut discipline, 41, 8000);
    let ratio = served[0] as f64 / sum(&served, |flow| flow > 0);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn hosts_of_one_end_share_whatever_their_flows() {
    // A host has flow 0, and another host 40 flows. All have the same host at the other end.
    for word in ["source", "destination"] {
        let mut rig = rig(41, |flow| match (flow.min(1) as u32, word) {
            (host, "source") => (host, 7),
            (host, _) => (7, host),
        });
        let params = rig::params::<TripleFair>(&[("hosts", word)]).unwrap();
        let served = shares(&mut rig, &mut TripleFair::new(params), 41, 8000);
        let ratio = served[0] as f64 / sum(&served, |flow| flow > 0);
        assert!((0.95..1.05).contains(&ratio), "{word}: {ratio}");
    }
}

#[test]
fn a_source_that_ignores_drops_has_no_more_than_one_that_responds() {
    // Four sources keep three packets queued at one destination. The fifth source sends as much as the link carries, to
    // the same destination, or to another one.
    for elsewhere in [0, 1] {
        let mut rig = rig(5, |flow| (flow as u32, flow as u32 / 4 * elsewhere));
        let mut discipline = queues();
        for flow in 0..12 {
            rig.offer(&mut discipline, flow % 4, 1000);
        }
        let mut served = [0; 5];
        for n in 0..40_000 {
            rig.offer(&mut discipline, 4, 1000);
            rig.now += Span::from_micros(100);
            let flow = rig.take(&mut discipline).unwrap().slot.0 as usize;
            served[flow] += usize::from(n >= 20_000);
            if flow < 4 {
                rig.offer(&mut discipline, flow, 1000);
            }
        }
        let others = sum(&served, |flow| flow < 4) / 4.0;
        let ratio = served[4] as f64 / others;
        assert!((0.9..1.1).contains(&ratio), "{elsewhere}: {served:?}");
    }
}

#[test]
fn flows_of_a_source_share() {
    let mut rig = rig(9, |_| (1, 1));
    let served = shares(&mut rig, &mut queues(), 9, 9000);
    assert!(served.iter().all(|n| (950..1050).contains(n)), "{served:?}");
}

#[test]
fn hosts_share_the_link_by_what_their_frames_take_of_it() {
    // Frames of 64 B and of 1500 B in ATM cells: two cells, and 32.
    let framing = Framing {
        overhead: 10,
        least: 0,
        cells: Cells::Atm,
    };
    let mut rig = rig(2, |flow| (flow as u32, flow as u32));
    let mut discipline = queues();
    discipline.set_framing(framing);
    let sizes = [64, 1500];
    for n in 0..200 {
        rig.offer(&mut discipline, n % 2, sizes[n % 2]);
    }
    let mut wire = [0, 0];
    for n in 0..20_000 {
        let flow = rig.take(&mut discipline).unwrap().slot.0 as usize;
        if n >= 10_000 {
            wire[flow] += framing.wire_bytes(sizes[flow].into());
        }
        rig.offer(&mut discipline, flow, sizes[flow]);
    }
    let ratio = wire[0] as f64 / wire[1] as f64;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn a_source_with_more_flows_than_its_part_of_the_queues_has_one_share() {
    // 3000 flows of one source and ten others, each to a place of its own, or all to the same one.
    for places in [3010, 1] {
        let of = |flow: usize| (flow.saturating_sub(2999) as u32, (flow % places) as u32);
        let mut rig = rig(3010, of);
        let mut discipline = queues();
        let served = shares(&mut rig, &mut discipline, 3010, 30_000);
        let crowd = sum(&served, |flow| flow < 3000);
        let each = sum(&served, |flow| flow >= 3000) / 10.0;
        assert!(gauge(&discipline, "shared") > 0);
        let ratio = crowd / each;
        assert!(
            (0.8..1.25).contains(&ratio),
            "{places} places: {crowd} {each}"
        );
    }
}

#[test]
fn a_destination_of_more_sources_than_its_part_of_the_queues_has_one_share() {
    // 3000 sources send to one destination, ten others to places of their own.
    let of = |flow: usize| (flow as u32, flow.saturating_sub(2999) as u32);
    let mut rig = rig(3010, of);
    let mut discipline = queues();
    let served = shares(&mut rig, &mut discipline, 3010, 30_000);
    let crowd = sum(&served, |flow| flow < 3000);
    let each = sum(&served, |flow| flow >= 3000) / 10.0;
    assert!(gauge(&discipline, "refused") > 0);
    assert!((0.8..1.25).contains(&(crowd / each)), "{crowd} {each}");
}

/// Ten hosts keep three packets queued each, and `other` returns the flow of another packet for each step. Returns
/// how many of `steps` packets are of the ten, and the maximum number of other packets between two of them.
fn honest_of(
    rig: &mut Rig,
    discipline: &mut TripleFair,
    steps: usize,
    other: impl Fn(usize) -> Option<usize>,
) -> (usize, usize) {
    let take = |rig: &mut Rig, discipline: &mut TripleFair| {
        rig.now += Span::from_micros(120); // a full frame at 100 Mbit/s
        let flow = rig.take(discipline).unwrap().slot.0 as usize;
        if flow < 10 {
            rig.offer(discipline, flow, 1000);
        }
        flow
    };
    for packet in 0..30 {
        rig.offer(discipline, packet % 10, 1000);
    }
    for _ in 0..2000 {
        take(rig, discipline); // then the ten are trusted
    }
    let (mut honest, mut wait, mut longest) = (0, 0, 0);
    for step in 0..steps {
        if let Some(flow) = other(step) {
            rig.offer(discipline, 10 + flow, 1000);
        }
        (honest, wait) = match take(rig, discipline) {
            0..10 => (honest + 1, 0),
            _ => (honest, wait + 1),
        };
        longest = longest.max(wait);
    }
    (honest, longest)
}

#[test]
fn strangers_without_end_leave_half_of_the_link() {
    // Each source sends some packets in a row and is not seen again, to one of these destinations.
    for destinations in [1, 5, 20, 200, 40_000] {
        for train in [1, 2, 4, 15] {
            let of = |flow: usize| match flow {
                0..10 => (flow as u32, flow as u32),
                _ => (flow as u32, 100 + (flow % destinations) as u32),
            };
            let mut rig = rig(40_010, of);
            let other = |step| Some(step / train % 40_000);
            let (honest, longest) = honest_of(&mut rig, &mut queues(), 15_000, other);
            let fair = 15_000 * 10 / (10 + destinations.min(10));
            let load = format!("{destinations} destinations, {train} packets in a row");
            assert!(honest * 100 >= fair * 85, "{load}: {honest} of {fair}");
            assert!(longest < 80, "{load}: {longest}");
        }
    }
}

#[test]
fn a_call_is_remembered_in_a_flood_of_strangers() {
    // Ten hosts have three packets queued each, and one has a call. A packet leaves every `micros`; then four packets
    // of strangers arrive for each: 400 between two packets of the call, or 2400.
    for (destinations, micros) in [(20, 120), (100, 120), (1000, 120), (200, 20), (1000, 20)] {
        let of = |flow: usize| match flow {
            0..11 => (flow as u32, flow as u32),
            _ => (flow as u32, 100 + (flow % destinations) as u32),
        };
        let mut rig = rig(60_000, of);
        let mut discipline = queues();
        for packet in 0..30 {
            rig.offer(&mut discipline, packet % 10, 1000);
        }
        let (mut honest, mut calls, mut late) = (0, 0, 0);
        let mut stranger = 11;
        for step in 0..60_000 {
            rig.now += Span::from_micros(micros);
            if step % (12_000 / micros) == 0 {
                rig.offer(&mut discipline, 10, 200);
            }
            for _ in 0..4 * u32::from(step >= 12_000) {
                rig.offer(&mut discipline, stranger, 1000);
                stranger = 11 + (stranger - 10) % 59_000;
            }
            let packet = rig.take(&mut discipline).unwrap();
            match packet.slot.0 as usize {
                flow @ 0..10 => {
                    honest += u32::from(step >= 12_000);
                    rig.offer(&mut discipline, flow, 1000);
                }
                10 if step >= 12_000 => {
                    calls += 1;
                    late += u32::from(rig.now.since(packet.enqueued) > Span::from_millis(5));
                }
                _ => {}
            }
        }
        assert!(honest >= 23_500, "{destinations}: {honest} of 48 000");
        assert_eq!((calls, late), (4 * micros, 0), "{destinations}, {micros}");
    }
}

#[test]
fn hosts_that_open_flows_without_end_have_their_shares() {
    for (hosts, train) in [(1, 1), (1, 2), (10, 1), (10, 2), (10, 4), (40, 1), (40, 2)] {
        let of = |flow: usize| match flow {
            0..10 => (flow as u32, flow as u32),
            _ => (100 + (flow % hosts) as u32, 1000 + (flow % hosts) as u32),
        };
        let mut rig = rig(40_010, of);
        let other = |step| Some(step / train % 40_000);
        let (honest, _) = honest_of(&mut rig, &mut queues(), 30_000, other);
        let fair = 30_000 * 10 / (10 + hosts);
        // Flows of four packets have a little more than one share.
        let part = if train == 4 { 85 } else { 90 };
        let load = format!("{hosts} hosts, {train} packets in a row");
        assert!(honest * 100 >= fair * part, "{load}: {honest} of {fair}");
    }
}

#[test]
fn a_late_host_with_many_flows_has_one_share() {
    for ports in [1, 8, 64, 512] {
        let mut rig = rig(300 + ports, |flow| {
            (flow.min(300) as u32, flow.min(300) as u32)
        });
        let mut discipline = queues();
        for packet in 0..900 {
            rig.offer(&mut discipline, packet % 300, 1000);
        }
        let mut late = 0;
        for step in 0..120_000 {
            rig.now += Span::from_micros(27);
            if step % 4 == 0 {
                rig.offer(&mut discipline, 300 + step / 4 % ports, 1000);
            }
            let flow = rig.take(&mut discipline).unwrap().slot.0 as usize;
            late += usize::from(step >= 40_000 && flow >= 300);
            if flow < 300 {
                rig.offer(&mut discipline, flow, 1000);
            }
        }
        let shares = late as f64 / 80_000.0 * 301.0;
        assert!((0.7..1.3).contains(&shares), "{ports} ports: {shares}");
    }
}

#[test]
fn an_idle_hour_is_a_pardon() {
    // A host opens 300 flows next to ten others, until all packets are sent.
    let of = |flow: usize| match flow {
        0..10 => (flow as u32, flow as u32),
        _ => (10, flow as u32),
    };
    let mut rig = rig(400, of);
    let mut discipline = queues();
    honest_of(&mut rig, &mut discipline, 3000, |step| {
        Some(step / 10 % 390)
    });
    while rig.take(&mut discipline).is_some() {}
    rig.now += Span::from_secs(3600);
    for packet in 0..6 {
        rig.offer(&mut discipline, packet % 2, 1000);
    }
    rig.offer(&mut discipline, 10, 200);
    // The flow is as new as the others, which arrived first.
    let waits = (0..7).position(|_| rig.take(&mut discipline).unwrap().slot.0 == 10);
    assert!(waits.is_some_and(|packets| packets <= 2), "{waits:?}");
}

#[test]
fn an_empty_queue_forgives_everything() {
    // Sixty hosts have a busy flow each, and twenty flows of another one become familiar. Then these flows have all of
    // their credit.
    let mut rig = rig(80, |flow| (flow.min(60) as u32, flow.min(60) as u32));
    let mut discipline = queues();
    for packet in 0..180 {
        rig.offer(&mut discipline, packet % 60, 1000);
    }
    for step in 0..20_000 {
        if step % 40 == 0 {
            rig.offer(&mut discipline, 60 + step / 40 % 20, 700);
        }
        let flow = rig.take(&mut discipline).unwrap().slot.0 as usize;
        if flow < 60 {
            rig.offer(&mut discipline, flow, 1000);
        }
    }
    while rig.take(&mut discipline).is_some() {}
    for flow in 60..80 {
        rig.offer(&mut discipline, flow, 700);
    }
    while rig.take(&mut discipline).is_some() {}
    discipline.settle();
    for hosts in &discipline.ends {
        for host in (0..hosts::HOSTS).filter_map(|at| hosts.get(at as u16)) {
            let mut clocks = host.clocks.iter().zip(discipline.time.hosts);
            assert!(clocks.all(|(clock, now)| *clock <= now), "{host:?}");
        }
    }
}

#[test]
fn a_call_does_not_wait_for_its_own_host() {
    // A host has fifty busy flows and a call; two others have two each. The call sends a packet in every 200th step.
    let of = |flow: usize| match flow {
        0..51 => (1, flow as u32),
        _ => (flow as u32 % 2 + 2, 100 + flow as u32 % 2),
    };
    let mut rig = rig(55, of);
    let mut discipline = queues();
    let mut since = None;
    for step in 0..60_000 {
        let is_trusted = step > 20_000;
        if step % 200 == 0 {
            assert!(!is_trusted || since.is_none(), "sent at {since:?}");
            rig.offer(&mut discipline, 0, 200);
            since = Some(step);
        }
        for flow in [step % 54, step * 7 % 54] {
            if discipline.backlog().packets < 200 {
                rig.offer(&mut discipline, 1 + flow, 1000);
            }
        }
        rig.now += Span::from_micros(240);
        let packet = rig.take(&mut discipline);
        if packet.is_some_and(|packet| packet.slot.0 == 0)
            && let Some(sent) = since.take()
        {
            assert!(!is_trusted || step <= sent + 2, "{}", step - sent);
        }
    }
}

#[test]
fn strangers_leave_a_trusted_source_its_part_of_their_victim() {
    // Flow 0 goes to host 0, and so does one packet of each of 3000 others; flow 1 goes elsewhere.
    let mut rig = rig(3002, |flow| (flow as u32, u32::from(flow == 1)));
    let mut discipline = queues();
    let honest = |rig: &mut Rig, discipline: &mut TripleFair, packets: usize, with: bool| {
        let mut served = [0; 3];
        for n in 0..packets {
            for flow in [0, 1] {
                if n % 2 == 0 {
                    rig.offer(discipline, flow, 1000);
                }
            }
            if with {
                rig.offer(discipline, 2 + n % 3000, 1000);
            }
            let packet = rig.take(discipline).unwrap();
            served[packet.slot.0.min(2) as usize] += 1;
        }
        served
    };
    honest(&mut rig, &mut discipline, 400, false);
    let served = honest(&mut rig, &mut discipline, 6000, true);
    assert!(
        served[1] > 2800,
        "another host keeps what it wants: {served:?}"
    );
    assert!(
        served[0] > 900,
        "a third of what is left, or more: {served:?}"
    );
}

#[test]
fn a_victim_keeps_its_part_beside_a_sender_of_one_packet_at_a_time() {
    // Eight hosts have a flow each; flow 0 goes to the same place as the attacker's and a call's packets. The attacker,
    // one address, sends a packet from the next of its ports when the latest has left.
    for ports in [1, 2, 11, 50] {
        let of = |flow: usize| match flow {
            0..8 => (flow as u32, flow as u32),
            8 => (8, 0),
            _ => (9, 0),
        };
        let mut rig = rig(9 + ports, of);
        let mut discipline = queues();
        for packet in 0..24 {
            rig.offer(&mut discipline, packet % 8, 1000);
        }
        let (mut victim, mut others, mut late, mut port) = (0, 0, 0, 0);
        for step in 0..60_000 {
            rig.now += Span::from_micros(120);
            if step % 167 == 0 {
                rig.offer(&mut discipline, 8, 200);
            }
            if step == 20_000 {
                rig.offer(&mut discipline, 9, 500);
            }
            let packet = rig.take(&mut discipline).unwrap();
            let counts = u32::from(step > 20_000);
            match packet.slot.0 as usize {
                8 => {
                    late +=
                        counts * u32::from(rig.now.since(packet.enqueued) > Span::from_millis(3))
                }
                flow @ 0..8 => {
                    victim += counts * u32::from(flow == 0);
                    others += counts * u32::from(flow > 0);
                    rig.offer(&mut discipline, flow, 1000);
                }
                _ => {
                    port = (port + 1) % ports;
                    rig.offer(&mut discipline, 9 + port, 500);
                }
            }
        }
        let part = f64::from(victim) * 7.0 / f64::from(others);
        assert!(part > 0.24, "{ports} ports: {part}");
        assert!(late <= 12, "{ports} ports: {late} of 240 late");
    }
}

#[test]
fn a_packet_now_and_then_does_not_wait() {
    let mut rig = rig(11, |flow| (flow as u32, flow as u32));
    let mut discipline = queues();
    shares(&mut rig, &mut discipline, 10, 1000);
    for _ in 0..20 {
        while let Some(packet) = rig.take(&mut discipline)
            && packet.slot.0 == 10
        {}
        rig.offer(&mut discipline, 10, 100); // half of its share
        let waits = (0..20).position(|_| rig.take(&mut discipline).unwrap().slot.0 == 10);
        assert!(waits.is_some_and(|packets| packets <= 1), "{waits:?}");
        for flow in 0..10 {
            rig.offer(&mut discipline, flow, 1000);
            rig.offer(&mut discipline, flow, 1000);
        }
    }
}

#[test]
fn a_host_whose_queue_is_always_empty_has_no_more_than_its_share() {
    // Ten hosts have three packets queued each. Another one sends one whenever its latest has left, so that its queue
    // is always a new one: of the same flow, or of a new flow for each packet.
    for flows in [1, 3000] {
        let mut rig = rig(10 + flows, |flow| (flow.min(10) as u32, flow as u32));
        let mut discipline = queues();
        for flow in 0..30 {
            rig.offer(&mut discipline, flow % 10, 1000);
        }
        let (mut sent, mut wait, mut longest) = (0, 0, 0);
        rig.offer(&mut discipline, 10, 1000);
        for _ in 0..22_000 {
            let flow = rig.take(&mut discipline).unwrap().slot.0 as usize;
            let next = if flow < 10 { flow } else { 10 + sent % flows };
            (sent, wait) = if flow < 10 {
                (sent, wait + 1)
            } else {
                (sent + 1, 0)
            };
            longest = longest.max(wait);
            rig.offer(&mut discipline, next, 1000);
        }
        // A part of eleven, and at first the allowance of its host.
        assert!((1700..2030).contains(&sent), "{flows} flows: {sent}");
        // The host waits for as many rounds as it had packets at once: its credit, and the one beyond it.
        assert!(longest < 45, "{flows} flows: {longest}");
    }
}

#[test]
fn all_state_is_below_a_megabyte() {
    assert!(
        queues().state_bytes() <= 1_000_000,
        "{}",
        queues().state_bytes()
    );
}

#[test]
fn the_fullest_host_makes_room() {
    let mut rig = rig(30, |flow| (flow.saturating_sub(20) as u32, flow as u32));
    let mut discipline = TripleFair::new(Params {
        limit: 200,
        ..params()
    });
    // Twenty-one flows of one source have eight packets each, nine of others six: no queue is much longer.
    for round in 0..8 {
        for flow in 0..30 {
            if flow <= 20 || round < 6 {
                rig.offer(&mut discipline, flow, 1000);
            }
        }
    }
    assert!((184..=200).contains(&discipline.backlog().packets));
    let mut left = vec![0; 30];
    discipline.drain(&mut |packet| left[packet.slot.0 as usize] += 1);
    assert!(left[21..].iter().all(|n| *n == 6), "{left:?}");
}

#[test]
fn one_sender_gets_a_longer_target_and_many_get_more_packets() {
    let least = Span::from_millis(5);
    let mut queue = Law::new(least);
    let at = |ms: u64| Instant::ZERO + Span::from_millis(ms);
    queue.ran_empty(at(10));
    assert_eq!(queue.target, least, "nothing was dropped before");
    for (drop, target_ms) in [(20, 10), (40, 20), (60, 40), (80, 40)] {
        queue.dropped(at(drop), least);
        queue.ran_empty(at(drop + 10));
        assert_eq!(queue.target, Span::from_millis(target_ms));
    }
    queue.dropped(at(200), least);
    queue.ran_empty(at(1300));
    assert_eq!(queue.target, Span::from_millis(40), "that was long ago");
    for drop in 1400..1500 {
        queue.dropped(at(drop), least);
    }
    assert!(queue.target < Span::from_millis(6));
    assert!(queue.target >= least);
}

#[test]
fn virtual_time_begins_anew_without_a_change_of_order() {
    let run = |start: u64| {
        let mut rig = rig(60, |flow| (flow as u32 / 3, flow as u32 / 5));
        let mut discipline = queues();
        (discipline.time.flows, discipline.time.hosts) = (start, [start; 2]);
        let mut order = Vec::new();
        for n in 0..30_000_usize {
            rig.offer(&mut discipline, n * n % 60, 100 + (n % 7 * 200) as u32);
            if n > 300 {
                order.push(rig.take(&mut discipline).unwrap().id);
            }
        }
        (order, discipline.time.flows)
    };
    let (order, _) = run(REBASE / 2);
    let (other, now) = run(REBASE - 500_000_000);
    assert!(now < REBASE / 2, "it has begun anew: {now}");
    assert!(order == other);
}

#[test]
fn a_change_of_hosts_keeps_what_is_held() {
    let mut rig = rig(10, |flow| (flow as u32, 0));
    let mut discipline = queues();
    for n in 0..100 {
        rig.offer(&mut discipline, n % 10, 500);
    }
    let other = rig::params::<TripleFair>(&[("hosts", "source")]).unwrap();
    discipline.change(other, rig.now);
    assert_eq!(discipline.backlog().packets, 100);
    rig.offer(&mut discipline, 3, 500);
    let mut last = [None; 10];
    for _ in 0..101 {
        let packet = rig.take(&mut discipline).unwrap();
        let before = last[packet.slot.0 as usize].replace(packet.id);
        assert!(before < Some(packet.id));
    }
    assert_eq!(discipline.backlog(), Tally::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Under any load: a flow stays in order, a queue with packets keeps its flow, the counters of hosts agree
    /// with a recount, and a packet leaves whenever packets are held.
    #[test]
    fn order_is_kept_and_the_books_agree(
        seed in any::<u64>(),
        flows in 1_usize..3000,
        hosts in 1_u32..400,
        load in 1_u64..5,
        limit in 1_usize..700,
    ) {
        let mut rig = rig(flows, |flow| (flow as u32 % hosts, flow as u32 % (1 + hosts / 7)));
        let mut discipline = TripleFair::new(Params { limit, ..params() });
        let mut last = vec![None; flows];
        let mut draw = seed;
        for n in 0..6000_u64 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = draw >> 33;
            rig.now += Span::from_nanos(20_000);
            let empties = n % 1500 < 300; // now and then all of it leaves
            if random % (load + 1) != 0 && !empties {
                let flow = (random / 7) as usize % flows;
                let flow = if random % 2 == 0 { flow % 50 } else { flow };
                rig.offer(&mut discipline, flow % flows, 64 + (random % 1400) as u32);
            } else {
                let held = discipline.backlog().packets;
                match rig.take(&mut discipline) {
                    Some(packet) => {
                        let before = last[packet.slot.0 as usize].replace(packet.id);
                        prop_assert!(before < Some(packet.id));
                    }
                    None => prop_assert!(held == 0 || discipline.backlog().packets == 0),
                }
            }
            if n % 100 == 0 {
                check(&discipline)?;
            }
        }
    }
}

/// Compares the counters with a recount.
fn check(discipline: &TripleFair) -> Result<(), TestCaseError> {
    let queues = &discipline.queues;
    let waiting = || queues.iter().filter(|queue| queue.waits != Waits::Not);
    let held = queues.iter().map(|queue| queue.packets.tally().packets);
    prop_assert_eq!(held.sum::<u64>(), discipline.held.packets);
    prop_assert_eq!(waiting().count() as u32, discipline.busy);
    let light: u32 = discipline.light.iter().map(List::len).sum();
    let is_light = |queue: &&Queue| queue.waits < Waits::Heavy;
    prop_assert_eq!(waiting().filter(is_light).count() as u32, light);
    for (at, queue) in queues.iter().enumerate() {
        prop_assert!(queue.waits != Waits::Not || queue.packets.is_empty());
        if at < FLOWS && queue.waits != Waits::Not {
            prop_assert!(
                discipline.flows.has(at),
                "a queue with packets keeps its flow"
            );
        }
    }
    for (end, hosts) in discipline.ends.iter().enumerate() {
        // For each host: its queues, its heavy queues, and the shares that they request.
        let mut counts = vec![[0_u32; 4]; hosts::HOSTS];
        for queue in waiting() {
            if let Some(counts) = counts.get_mut(usize::from(queue.hosts[end])) {
                counts[0] += 1;
                counts[1] += u32::from(queue.waits.is_heavy());
                counts[2 + usize::from(!queue.is_trusted)] += u32::from(queue.share);
            }
        }
        let mut active = 0;
        let (mut trusted, mut once) = (0, 0);
        for (at, counts) in counts.into_iter().enumerate() {
            let host = hosts.get(at as u16).unwrap();
            let [busy, heavy, of_trusted, of_strangers] = counts;
            prop_assert_eq!((u32::from(host.busy), u32::from(host.heavy)), (busy, heavy));
            active += u64::from(busy > 0);
            if end == 1 {
                prop_assert_eq!((host.trusted, host.strangers), (of_trusted, of_strangers));
            }
            trusted += u64::from(host.trusted);
            once += u64::from(host.trusted).min(hosts::ONE);
        }
        prop_assert_eq!(active, hosts.count());
        let mean = (trusted * hosts::ONE / once.max(1)).max(hosts::ONE);
        prop_assert_eq!(hosts.trusted_mean(), mean);
    }
    Ok(())
}
