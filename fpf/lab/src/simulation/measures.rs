//! The metrics of flexible packet forwarding.

use std::sync::{Mutex, PoisonError};

use weir_experiment::results::Metrics;
use weir_experiment::scenario::{Scenario, TrafficKind};
use weir_fpf_path::edge::shaper::QueueCounters;
use weir_fpf_path::process::ProcessorId;
use weir_fpf_path::process::xor::REPAIRED;
use weir_sim::{NodeId, Simulation};

use crate::control::Changed;
use crate::control::code::{decoding_routers, processors};
use crate::elements::FabricExt;
use crate::scenario::Forwarding;

/// Adds the rules of each router and of the edges, changes by events, and the copies that receivers got.
pub(super) fn add_metrics(
    scenario: &Scenario,
    simulation: &Simulation,
    changed: &Mutex<Changed>,
    metrics: &mut Metrics,
) {
    let fabric = simulation.fabric();
    let mut encapsulated = vec![0; Forwarding::of(scenario).encapsulations.len()];
    let mut shaped = vec![QueueCounters::default(); encapsulated.len()];
    // Routers come before hosts in a topology, in the order of the scenario.
    let names = scenario.routers.iter().map(|router| &router.name);
    for (place, router) in names.enumerate() {
        let router_id = NodeId(place as u32);
        if let Some(table) = fabric.table(router_id) {
            let rules = table.rule_count() as f64;
            metrics.insert(format!("fpf_rules.{router}"), rules);
        }
        for rule in fabric
            .edge(router_id)
            .into_iter()
            .flat_map(|edge| edge.iter())
        {
            // The last rows encapsulate the interests of caches, which are not encapsulations of the scenario.
            if let Some(packets) = encapsulated.get_mut(rule.row as usize) {
                *packets += rule.hits.packets;
                shaped[rule.row as usize] = fabric.shaped(router_id, rule.row);
            }
        }
    }
    let counted = encapsulated.into_iter().zip(shaped);
    for (encapsulation, (packets, books)) in
        Forwarding::of(scenario).encapsulations.iter().zip(counted)
    {
        let mut insert = |metric: &str, packets: u64| {
            let name = format!("{metric}.{}", encapsulation.name);
            metrics.insert(name, packets as f64);
        };
        insert("fpf_encapsulated_packets", packets);
        if encapsulation.shape.is_some() {
            insert("fpf_overflowed_packets", books.dropped.packets);
            insert("fpf_waiting_packets", books.waiting.packets);
        }
    }
    add_processors(scenario, simulation, metrics);
    let changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
    metrics.insert("fpf_table_changes".to_owned(), changed.rows as f64);
    metrics.insert(
        "fpf_encapsulation_changes".to_owned(),
        changed.encapsulations as f64,
    );
    add_copies(scenario, simulation, metrics);
}

/// Adds the gauges of the caches and of the decoders, and the packets that all decoders of a router have repaired.
fn add_processors(scenario: &Scenario, simulation: &Simulation, metrics: &mut Metrics) {
    for router in decoding_routers(scenario) {
        metrics.insert(format!("fpf_repaired_packets.{router}"), 0.0);
    }
    for (number, encapsulation) in Forwarding::of(scenario).encapsulations.iter().enumerate() {
        let [cache, decoder] = processors(number);
        let (kind, processor_id) = match encapsulation.cache {
            Some(_) => ("fpf_cache", cache),
            None => ("fpf_decoder", decoder),
        };
        let names = scenario.routers.iter().map(|router| &router.name);
        for (place, router) in names.enumerate() {
            let fabric = simulation.fabric();
            let processor = fabric.processor(NodeId(place as u32), ProcessorId(processor_id));
            let mut report = |gauge: &'static str, value: u64| {
                let name = format!("{kind}.{}.{gauge}", encapsulation.name);
                metrics.insert(name, value as f64);
                let repaired = metrics.get_mut(&format!("fpf_repaired_packets.{router}"));
                if let (REPAIRED, Some(sum)) = (gauge, repaired) {
                    *sum += value as f64;
                }
            };
            if let Some(processor) = processor {
                processor.inspect(&mut report);
            }
        }
    }
}

/// Adds, for each receiver of a traffic with copies, the ratio of received to sent datagrams.
fn add_copies(scenario: &Scenario, simulation: &Simulation, metrics: &mut Metrics) {
    let meters = simulation.meters();
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let TrafficKind::Udp {
            payload, copies_to, ..
        } = &traffic.kind
        else {
            continue;
        };
        if copies_to.is_empty() {
            continue;
        }
        let hosts: Vec<&String> = [&traffic.to].into_iter().chain(copies_to).collect();
        let mut received = vec![0; hosts.len()];
        // The receivers of each flow follow one another.
        let flows = meters.flows.iter();
        let flows = flows.filter(|flow| flow.traffic as usize == number);
        for (place, flow) in flows.enumerate() {
            received[place % hosts.len()] += flow.window_bytes / u64::from(*payload);
        }
        let sent = meters.traffics[number].sent.packets as f64;
        for (host, received) in hosts.into_iter().zip(received) {
            let name = format!("copies_ratio.{}.{host}", traffic.name);
            metrics.insert(name, received as f64 / sent);
        }
    }
}
