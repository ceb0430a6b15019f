//! The metrics of flexible packet forwarding.

use std::sync::{Mutex, PoisonError};

use weir_experiment::measure;
use weir_experiment::metrics::Measured;
use weir_experiment::scenario::{Scenario, TrafficKind};
use weir_fpf_path::process::ProcessorId;
use weir_fpf_path::process::xor::REPAIRED;
use weir_sim::{NodeId, Simulation};

use crate::control::Changed;
use crate::control::code::{decoding_routers, processors};
use crate::elements::FabricExt;
use crate::metrics::{self, Encapsulated};
use crate::scenario::Forwarding;

/// Adds the rules of each router and of the edges, changes by events, and the copies that receivers got.
pub(super) fn add_metrics(
    scenario: &Scenario,
    simulation: &Simulation,
    changed: &Mutex<Changed>,
    measured: &mut Measured,
) {
    let fabric = simulation.fabric();
    let encapsulations = &Forwarding::of(scenario).encapsulations;
    let mut encapsulated = vec![Encapsulated::default(); encapsulations.len()];
    // Routers come before hosts in a topology, in the order of the scenario.
    let names = scenario.routers.iter().map(|router| &router.name);
    for (place, router) in names.enumerate() {
        let router_id = NodeId(place as u32);
        if let Some(table) = fabric.table(router_id) {
            metrics::add_rules(table.rule_count(), &[router], measured);
        }
        for rule in fabric
            .edge(router_id)
            .into_iter()
            .flat_map(|edge| edge.iter())
        {
            // The last rows encapsulate the interests of caches, which are not encapsulations of the scenario.
            if let Some(of) = encapsulated.get_mut(rule.row as usize) {
                let shaped = fabric.shaped(router_id, rule.row);
                of.packets += rule.hits.packets;
                of.overflowed = shaped.dropped.packets;
                of.waiting = shaped.waiting.packets;
            }
        }
    }
    for (encapsulation, mut of) in encapsulations.iter().zip(encapsulated) {
        of.is_shaped = encapsulation.shape.is_some();
        metrics::add_encapsulated(of, &[&encapsulation.name], measured);
    }
    add_processors(scenario, simulation, measured);
    let changed = *changed.lock().unwrap_or_else(PoisonError::into_inner);
    metrics::add_changes(changed, &[], measured);
    add_copies(scenario, simulation, measured);
}

/// Adds the gauges of the caches and of the decoders, and the packets that all decoders of a router have repaired.
fn add_processors(scenario: &Scenario, simulation: &Simulation, measured: &mut Measured) {
    let fabric = simulation.fabric();
    let decoding = decoding_routers(scenario);
    for (place, router) in scenario.routers.iter().enumerate() {
        let mut repaired = 0;
        for (number, encapsulation) in Forwarding::of(scenario).encapsulations.iter().enumerate() {
            let [cache, decoder] = processors(number);
            let is_cache = encapsulation.cache.is_some();
            let processor = ProcessorId(if is_cache { cache } else { decoder });
            let Some(processor) = fabric.processor(NodeId(place as u32), processor) else {
                continue;
            };
            processor.inspect(&mut |gauge: &'static str, value: u64| {
                let names = [&*encapsulation.name, gauge];
                if is_cache {
                    metrics::add_cache(value, &names, measured);
                } else {
                    metrics::add_decoder(value, &names, measured);
                }
                if gauge == REPAIRED {
                    repaired += value;
                }
            });
        }
        if decoding.contains(&*router.name) {
            metrics::add_repaired(repaired, &[&router.name], measured);
        }
    }
}

/// Adds, for each receiver of a flow group with copies, the ratio of received to sent datagrams.
fn add_copies(scenario: &Scenario, simulation: &Simulation, measured: &mut Measured) {
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
        let sent = meters.traffics[number].sent.packets;
        for (host, received) in hosts.into_iter().zip(received) {
            measure::add_copies(received, sent, &[&traffic.name, host], measured);
        }
    }
}
