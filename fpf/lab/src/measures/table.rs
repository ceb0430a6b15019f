//! Rows of a core FE's forwarding table by the number of paths from end to end, set up by the controller of paths.
//!
//! ```text
//!   edges s0 .. s9 --- core --- edges t0 .. t9            a domain each
//! ```

use weir_experiment::Error;
use weir_experiment::reproduce::bench::Point;
use weir_experiment::results::Metrics;
use weir_paths::{
    Address, Domain, End, Fe, FeId, Filter, Link, PathError, Paths, Payload, Request, Spread,
    Target, Topology,
};

use super::place;

/// Numbers of paths from end to end.
const PATHS: [u32; 3] = [10, 1000, 100_000];
/// Number of edge domains on each side of the core.
const EDGES: usize = 10;

/// All points.
pub(super) fn points() -> Vec<Point> {
    let paths = PATHS.into_iter();
    paths
        .map(|n| ("core FE", place(&[("paths", n.into())])))
        .collect()
}

/// Measures all points; a preview has a hundredth of the paths.
pub(super) fn rows(is_quick: bool) -> Result<Vec<Metrics>, Error> {
    let paths = PATHS.into_iter();
    let rows = paths.map(|paths| {
        let paths = if is_quick { paths.div_ceil(100) } else { paths };
        let (core, edge) = network(paths)?;
        let metrics = [("rows", core), ("encapsulations", edge)];
        Ok(metrics.map(|(name, n)| (name.to_owned(), n as f64)).into())
    });
    let rows: Result<Vec<Metrics>, PathError> = rows.collect();
    rows.map_err(|error| Error::Network(error.to_string()))
}

/// Number of rows of the core FE's table, and of encapsulation rules at the edges.
fn network(count: u32) -> Result<(usize, usize), PathError> {
    let mut topology = Topology::default();
    let core = fe(&mut topology, "core")?;
    let mut sides = [Vec::new(), Vec::new()];
    for (side, name) in sides.iter_mut().zip(["s", "t"]) {
        for n in 0..EDGES {
            let edge = fe(&mut topology, &format!("{name}{n}"))?;
            let end = |fe, interface: String| End {
                fe,
                interface,
                address: Some(Address::Ethernet([2, 0, 0, 0, 0, n as u8])),
            };
            topology.add_link(Link {
                ends: [
                    end(core, format!("{name}{n}")),
                    end(edge, "core".to_owned()),
                ],
                cost: 1,
                rate: None,
            })?;
            side.push(edge);
        }
    }
    let mut paths = Paths::new(topology)?;
    let [sources, targets] = sides;
    let mut requests = Vec::new();
    for n in 0..count {
        let port = (n / 100) as u16;
        let filter = Filter {
            protocol: Some(17),
            source_ports: Some([port, port]),
            ..Filter::default()
        };
        let request = Request {
            filter,
            source: sources[n as usize % EDGES],
            targets: vec![Target::Fe(targets[n as usize / EDGES % EDGES], Payload::Ip)],
            through: Vec::new(),
            behaviour: None,
            rate: None,
            spread: Spread::One,
            by_packet: false,
            timeout: None,
            session: None,
        };
        requests.push(paths.request(request)?.0);
    }
    let rules = requests.iter().filter(|id| paths.rule_of(**id).is_some());
    Ok((paths.rules(core).len(), rules.count()))
}

/// Adds a domain with one FE.
fn fe(topology: &mut Topology, name: &str) -> Result<FeId, PathError> {
    let domain = topology.add_domain(Domain {
        name: name.to_owned(),
        behaviours: Vec::new(),
        lid_bytes: None,
        special: None,
    })?;
    topology.add_fe(Fe {
        name: name.to_owned(),
        domain,
        delivers: vec![Payload::Ip],
    })
}
