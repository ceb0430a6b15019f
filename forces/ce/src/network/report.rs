//! Reports the current network to operators.

use weir_base::Instant;
use weir_model::{NetworkReport, PathReport};

use super::health::Health;
use super::rollout::Rollout;
use super::state::{Flow, Network};
use weir_network::flows::to;
use weir_network::report;

/// Reports all flows.
pub(super) fn paths(
    now: Instant,
    network: &Network,
    rollout: &Rollout,
    health: &Health,
) -> Vec<PathReport> {
    let flow = |(id, flow): (&u64, &Flow)| {
        let source = network.name(flow.source);
        let is_away = health.is_away(source);
        let routes = if is_away {
            &[]
        } else {
            network.paths.routes_of(*id).unwrap_or_default()
        };
        let why = match (routes.is_empty(), is_away) {
            (false, _) => None,
            (true, true) => Some(format!("`{source}` is unavailable")),
            (true, false) => network.paths.refusal_of(*id).map(|why| why.to_string()),
        };
        let state = match (routes.is_empty(), rollout.is_done(&network.place(flow))) {
            (true, _) => "waits",
            (false, false) => "setting",
            (false, true) => "active",
        };
        let asked = flow.asked.as_ref();
        let ends = asked.and_then(|asked| asked.ends);
        PathReport {
            path: flow.name.clone(),
            request: asked.map(|asked| asked.number),
            from: source.to_owned(),
            to: to(&flow.settings).to_owned(),
            packets: report::packets(&flow.settings),
            state: state.to_owned(),
            why,
            routes: report::routes(&network.paths, routes),
            ends_s: ends.map(|at| at.since(now).as_secs_f64()),
        }
    };
    network.flows.iter().map(flow).collect()
}

/// Reports domains, links and flows.
pub(super) fn network(
    now: Instant,
    network: &Network,
    rollout: &Rollout,
    health: &Health,
) -> NetworkReport {
    let topology = network.paths.topology();
    NetworkReport {
        domains: report::domains(topology, |name| health.state_of_element(name)),
        links: report::links(&network.plan, &network.paths, |name, _| {
            health.state_of_link(name)
        }),
        paths: paths(now, network, rollout, health),
    }
}
