//! Tests of the whole: order, shares, memory.

use proptest::prelude::*;
use weir_packet::{FlowKey, Slot};

use super::share::REBASE;
use super::*;
use crate::rig::{Rig, gauge};

fn params() -> Params {
    Params::new(&Settings::defaults(MANUAL.parameters)).unwrap()
}

fn queues() -> TripleFair {
    TripleFair::new(params())
}

/// A rig whose flow `n` has the source and the destination that `of` says.
fn rig(flows: usize, of: impl Fn(usize) -> (u32, u32)) -> Rig {
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
    // Flow 0 is the only one of its source; 40 others are of another. Each has a destination of its own.
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
fn a_source_that_ignores_drops_has_no_more_than_one_that_responds() {
    // Four sources keep three packets queued at one destination. The fifth one sends as much as the link carries, to the
    // same destination, or to another one.
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
fn a_source_with_more_flows_than_its_part_of_the_queues_has_one_share() {
    // 400 flows of one source and ten others, each to a place of its own, or all to the same one.
    for places in [410, 1] {
        let of = |flow: usize| (flow.saturating_sub(399) as u32, (flow % places) as u32);
        let mut rig = rig(410, of);
        let mut discipline = queues();
        let served = shares(&mut rig, &mut discipline, 410, 20_000);
        let crowd = sum(&served, |flow| flow < 400);
        let each = sum(&served, |flow| flow >= 400) / 10.0;
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
    // 400 sources send to one destination, ten others to places of their own.
    let mut rig = rig(410, |flow| (flow as u32, flow.saturating_sub(399) as u32));
    let mut discipline = queues();
    let served = shares(&mut rig, &mut discipline, 410, 20_000);
    let crowd = sum(&served, |flow| flow < 400);
    let each = sum(&served, |flow| flow >= 400) / 10.0;
    assert!(gauge(&discipline, "shared") > 0);
    assert!((0.8..1.25).contains(&(crowd / each)), "{crowd} {each}");
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
fn a_packet_now_and_then_does_not_wait() {
    let mut rig = rig(11, |flow| (flow as u32, flow as u32));
    let mut discipline = queues();
    shares(&mut rig, &mut discipline, 10, 1000);
    for _ in 0..20 {
        while let Some(packet) = rig.take(&mut discipline)
            && packet.slot.0 == 10
        {}
        rig.offer(&mut discipline, 10, 200);
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
        assert!(longest < 40, "{flows} flows: {longest}");
    }
}

#[test]
fn all_state_is_in_256_kb() {
    assert!(
        queues().state_bytes() <= 256_000,
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
        (discipline.now, discipline.finish) = (start, start);
        discipline
            .ends
            .iter_mut()
            .for_each(|hosts| hosts.now = start);
        let mut order = Vec::new();
        for n in 0..30_000_usize {
            rig.offer(&mut discipline, n * n % 60, 100 + (n % 7 * 200) as u32);
            if n > 300 {
                order.push(rig.take(&mut discipline).unwrap().id);
            }
        }
        (order, discipline.now)
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
    let mut settings = Settings::defaults(MANUAL.parameters);
    let word = weir_base::setting::Scalar::Text("source".into());
    settings.set(MANUAL.parameters, "hosts", &word).unwrap();
    discipline.reconfigure(&settings, rig.now);
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

    /// Under any load: a flow stays in order, a queue with packets keeps its flow, the books of hosts agree with a
    /// count, and something leaves whenever something is held.
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

/// Compares what is counted with what is there.
fn check(discipline: &TripleFair) -> Result<(), TestCaseError> {
    let waiting = || discipline.queues.iter().filter(|queue| queue.waits);
    let held: u64 = discipline
        .queues
        .iter()
        .map(|queue| queue.packets.tally().packets)
        .sum();
    prop_assert_eq!(held, discipline.held.packets);
    prop_assert_eq!(waiting().count() as u32, discipline.busy);
    for (at, queue) in discipline.queues.iter().enumerate() {
        prop_assert!(queue.waits || queue.packets.is_empty());
        if at < FLOWS && queue.waits {
            prop_assert!(
                discipline.flows.has(at),
                "a queue with packets keeps its flow"
            );
        }
    }
    for (end, hosts) in discipline.ends.iter().enumerate() {
        let mut active = 0;
        for at in 0..hosts::HOSTS as u16 {
            let host = hosts.get(at).unwrap();
            let queues = || waiting().filter(|queue| queue.hosts[end] == at);
            prop_assert_eq!(usize::from(host.busy), queues().count());
            active += u64::from(host.busy > 0);
            if end == 1 {
                let load = |trusted: bool| -> u32 {
                    let queues = queues().filter(|queue| queue.is_trusted == trusted);
                    queues.map(|queue| u32::from(queue.share)).sum()
                };
                prop_assert_eq!((host.trusted, host.strangers), (load(true), load(false)));
            }
        }
        prop_assert_eq!(active, hosts.count());
        let trusted = (0..hosts::HOSTS as u16).map(|at| u64::from(hosts.get(at).unwrap().trusted));
        let once = trusted
            .clone()
            .map(|trusted| trusted.min(hosts::ONE))
            .sum::<u64>();
        let mean = (trusted.sum::<u64>() * hosts::ONE / once.max(1)).max(hosts::ONE);
        prop_assert_eq!(hosts.trusted_mean(), mean);
    }
    Ok(())
}
