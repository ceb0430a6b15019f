//! Reads reports, curves, distributions and rows of flows from a finished simulation.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use weir_base::Instant;

use super::build::World;
use crate::control::Record;
use crate::reported::{Fetch, Flow, Outcome, PacketDelays, Reported, Sent, Series, Transfer};
use crate::results::{Curve, Distribution, FlowRow};
use crate::scenario::{Kind, Scenario};

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// The reports of both ends of each flow group, in the form of the lab's tools.
pub(super) fn reported(scenario: &Scenario, world: &World) -> Vec<Reported> {
    let meters = world.simulation.meters();
    let all = scenario.traffic.iter().zip(&meters.traffics);
    let mut reported: Vec<Reported> = all
        .map(|(traffic, meter)| {
            let kind = traffic.kind.kind();
            let protocol = kind.word().to_owned();
            Reported {
                series: vec![Series {
                    protocol: protocol.clone(),
                    port: 0,
                    interval_s: meters.interval.as_secs_f64(),
                    bytes: meter.arrived.clone(),
                }],
                window_bytes: Some(meter.window_bytes),
                sent: vec![Sent {
                    protocol,
                    offered_bytes: meter.offered_bytes,
                    window_packets: meter.sent.packets,
                    ..Sent::default()
                }],
                delays: PacketDelays::Simulated(Box::new(meter.delay.clone())),
                ..Reported::default()
            }
        })
        .collect();
    let end = Instant::ZERO + scenario.duration;
    for (number, flow) in meters.flows.iter().enumerate() {
        let traffic = &scenario.traffic[flow.traffic as usize];
        if let Some(bytes) = flow.size {
            let time = flow.end.unwrap_or(end).since(flow.start);
            reported[flow.traffic as usize].transfers.push(Transfer {
                flow: number as u32,
                bytes,
                start_s: seconds(flow.start),
                time_s: time.as_secs_f64(),
                finished: flow.end.is_some(),
            });
        }
        if traffic.kind.kind() != Kind::Web {
            reported[flow.traffic as usize].flows.push(Flow {
                protocol: traffic.kind.kind().word().into(),
                port: 0,
                peer: number.to_string(),
                bytes: flow.bytes,
                window_bytes: flow.window_bytes,
                window_packets: 0,
                start_s: seconds(flow.start),
                end_s: flow.end.map(seconds),
            });
        }
    }
    for fetch in world.simulation.fetches() {
        let passed = |at: Instant| at.since(fetch.start).as_secs_f64();
        reported[fetch.traffic as usize].fetches.push(Fetch {
            client: fetch.client,
            bytes: fetch.bytes,
            start_s: seconds(fetch.start),
            connect_s: fetch.connected.map(passed),
            response_s: passed(fetch.end.unwrap_or(end)),
            outcome: match fetch.end {
                Some(_) if fetch.failed => Outcome::TimedOut,
                Some(_) => Outcome::Finished,
                None => Outcome::Unfinished,
            },
        });
    }
    reported
}

/// Queue lengths, and delays of datagrams, over time.
pub(super) fn add_curves(scenario: &Scenario, world: &World, curves: &mut BTreeMap<String, Curve>) {
    let meters = world.simulation.meters();
    let step_s = meters.interval.as_secs_f64();
    for (traffic, meter) in scenario.traffic.iter().zip(&meters.traffics) {
        if !meter.transits.is_empty() {
            let mean = |(sum, count): &(u64, u64)| *sum as f64 / 1e6 / *count as f64;
            let values = meter.transits.iter().map(mean).collect();
            curves.insert(
                format!("delay_ms.{}", traffic.name),
                Curve { step_s, values },
            );
        }
    }
    for (name, port) in &world.watched {
        if let Some(watch) = world.simulation.watched(*port) {
            let values = watch.queue_packets.iter().map(|n| *n as f64).collect();
            curves.insert(format!("queue_packets.{name}"), Curve { step_s, values });
        }
    }
}

/// Queue delays at each watched link.
pub(super) fn add_distributions(world: &World, distributions: &mut BTreeMap<String, Distribution>) {
    for (name, port) in &world.watched {
        let watch = world.simulation.watched(*port);
        let value = |share| Some(1e3 * watch?.sojourn.percentile(share)?);
        if let Some(all) = Distribution::of(value) {
            distributions.insert(format!("queue_delay_ms.{name}"), all);
        }
    }
}

/// The records of the controllers.
pub(super) fn records(world: &World) -> Vec<Record> {
    let record = |shared: &super::control::SharedRecord| {
        let record = shared.lock().unwrap_or_else(PoisonError::into_inner);
        record.clone()
    };
    world.records.iter().map(record).collect()
}

/// A row for each flow.
pub(super) fn flows(scenario: &Scenario, world: &World) -> Vec<FlowRow> {
    let meters = world.simulation.meters();
    let row = |flow: &weir_sim::meter::Flow| FlowRow {
        traffic: scenario.traffic[flow.traffic as usize].name.clone(),
        start_s: seconds(flow.start),
        connected_s: flow.connected.map(seconds),
        end_s: flow.end.map(seconds),
        size_bytes: flow.size,
        bytes: flow.bytes,
        window_bytes: flow.window_bytes,
    };
    meters.flows.iter().map(row).collect()
}
