//! Report parts for networks, both from a file and running.

use weir_base::setting::Settings;
use weir_model::path_service::{DomainReport, ElementReport, LinkReport, RouteOfPath};
use weir_paths::{FeId, LinkId, Meaning, Paths, Route, Topology};

use super::{NetworkPlan, hex};

/// Keys that select the packets of a flow.
const PACKETS: [&str; 7] = [
    "source",
    "destination",
    "protocol",
    "source_ports",
    "destination_ports",
    "version",
    "ether_type",
];

/// The packets of a flow in the notation of a configuration.
pub(crate) fn packets(settings: &Settings) -> String {
    let given = PACKETS.map(|key| (key, settings.text(key)));
    let given = given.iter().filter(|(_, text)| !text.is_empty());
    let given: Vec<String> = given.map(|(key, text)| format!("{key}={text}")).collect();
    given.join(" ")
}

/// Routes, with names.
pub(crate) fn routes(paths: &Paths, routes: &[Route]) -> Vec<RouteOfPath> {
    let element = |fe: &FeId| paths.topology().fe(*fe).name.clone();
    let route = |route: &Route| RouteOfPath {
        vector: hex(&route.vector),
        cost: route.cost,
        elements: route.fes.iter().map(element).collect(),
    };
    routes.iter().map(route).collect()
}

/// Domains with their elements, each with its state.
pub(crate) fn domains(
    topology: &Topology,
    state: impl Fn(&str) -> &'static str,
) -> Vec<DomainReport> {
    let element = |fe: &FeId| {
        let element = topology.fe(*fe).name.clone();
        let state = state(&element).to_owned();
        ElementReport { element, state }
    };
    let domain = |id| DomainReport {
        domain: topology.domain(id).name.clone(),
        elements: topology.members(id).iter().map(element).collect(),
    };
    topology.domains().map(domain).collect()
}

/// Links, each with its state and the number of its failures.
pub(crate) fn links(
    plan: &NetworkPlan,
    paths: &Paths,
    state: impl Fn(&str, LinkId) -> (&'static str, u64),
) -> Vec<LinkReport> {
    let topology = paths.topology();
    let link = |(name, id): (&String, &LinkId)| {
        let ends = topology.link(*id).ends.each_ref().map(|end| end.fe);
        let (state, failures) = state(name, *id);
        LinkReport {
            link: name.clone(),
            ends: ends.map(|fe| topology.fe(fe).name.clone()),
            lids: ends.map(|fe| lid(paths, fe, *id)),
            state: state.to_owned(),
            failures,
        }
    };
    plan.links.iter().map(link).collect()
}

/// The LID that selects a link at one of its ends; empty inside a domain.
fn lid(paths: &Paths, fe: FeId, link: LinkId) -> String {
    let domain = paths.topology().domain_of(fe);
    let exit = Meaning::Exit { link, behaviour: 0 };
    let mut lids = paths.lids(domain);
    let lid = lids.find(|(meaning, _)| *meaning == exit);
    lid.map_or_else(String::new, |(_, lid)| {
        let mut bytes = Vec::new();
        lid.append_to(&mut bytes);
        hex(&bytes)
    })
}
