//! Paths that an operator names by their domains or FEs.
//!
//! ```text
//!   through: c, b, a      c1 ═══▶ b1 ──▶ b2 ═══▶ a1       ═▶: the chosen exits, with the lowest total cost
//!   through: c, b3, a     c1 ═══▶ b1 ──▶ b3 ═══▶ a1       only exits whose tree inside B passes b3
//! ```
//!
//! Inside a domain, a path follows the domain's trees, which all paths share. Therefore the name of an FE inside a
//! domain selects among the exits, but does not create another path inside.

use std::collections::BTreeMap;

use super::{Change, Paths};
use crate::error::PathError;
use crate::lids::{Lid, Meaning};
use crate::request::Step;
use crate::route::{Route, Target, View};
use crate::topology::{DomainId, FeId, LinkId, Payload};

/// The steps inside one domain: the FEs that the path must visit, in order.
struct Stay {
    domain: DomainId,
    fes: Vec<FeId>,
}

/// The cheapest path to each FE: its cost, and its exits.
type Best = BTreeMap<FeId, (u64, Vec<LinkId>)>;

impl Paths {
    /// Allocates the identifier of a processor at an FE: a special rule of section VI. All FEs of the domain forward
    /// packets with this identifier to the FE. A second call with the same number returns the same identifier.
    pub fn process(&mut self, fe: FeId, number: u32) -> Result<(Lid, Vec<Change>), PathError> {
        let domain = self.topology().domain_of(fe);
        let allocated = self.lids[domain.0].allocate(Meaning::Process(fe, number));
        let lid = allocated.map_err(|_| PathError::Full {
            domain: self.topology().domain(domain).name.clone(),
            bytes: self.lid_bytes(domain),
        })?;
        Ok((lid, self.refreshed(&[domain])))
    }

    /// The identifier with which an edge FE delivers a payload, with the first behaviour of its domain.
    pub fn delivery(&self, fe: FeId, payload: Payload) -> Option<Lid> {
        let meaning = Meaning::Deliver {
            fe,
            payload,
            behaviour: 0,
        };
        self.lids[self.topology().domain_of(fe).0].get(meaning)
    }

    /// The cheapest path through these domains and FEs, in order. The first step must be the source's domain or the
    /// source itself, the last step must be in the target's domain.
    pub fn along(
        &self,
        source: FeId,
        target: Target,
        behaviour: Option<&str>,
        through: &[Step],
    ) -> Result<Route, PathError> {
        let view = self.view();
        let topology = self.topology();
        let name = |domain: DomainId| topology.domain(domain).name.clone();
        let stays = stays(&view, through);
        let ends = [topology.domain_of(source), view.domain_of(target)];
        let named = [stays.first(), stays.last()].map(|stay| stay.map(|stay| stay.domain));
        if named != ends.map(Some) {
            let [from, to] = ends.map(name);
            return Err(PathError::Ends { from, to });
        }
        let mut best = Best::from([(source, (0, Vec::new()))]);
        for pair in stays.windows(2) {
            best = cross(&view, &best, [&pair[0], &pair[1]]);
            if best.is_empty() {
                let [from, to] = [&pair[0], &pair[1]].map(|stay| name(stay.domain));
                return Err(PathError::NoLink { from, to });
            }
        }
        let last = stays.last().map_or(&[][..], |stay| &stay.fes);
        let arrives = |(entry, (cost, exits)): (&FeId, &(u64, Vec<LinkId>))| {
            let end = match target {
                Target::Fe(fe, _) => fe,
                Target::Domain(_) => *entry,
            };
            let (inner, fes) = walk(&view, *entry, end)?;
            passes(&fes, last).then(|| (cost + inner, exits.clone()))
        };
        let exits = best
            .iter()
            .filter_map(arrives)
            .min()
            .map(|(_, exits)| exits);
        let route = match exits {
            Some(exits) => view.route(source, target, behaviour, &exits)?,
            None => None,
        };
        route.ok_or_else(|| {
            let [from, to] = ends.map(name);
            let behaviour = behaviour.map(str::to_owned);
            PathError::NoPath {
                from,
                to,
                behaviour,
            }
        })
    }
}

/// Groups the steps by domain.
fn stays(view: &View<'_>, through: &[Step]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    for step in through {
        let domain = match step {
            Step::Domain(domain) => *domain,
            Step::Fe(fe) => view.network.topology.domain_of(*fe),
        };
        if stays.last().is_none_or(|stay| stay.domain != domain) {
            stays.push(Stay {
                domain,
                fes: Vec::new(),
            });
        }
        if let (Step::Fe(fe), Some(stay)) = (step, stays.last_mut()) {
            stay.fes.push(*fe);
        }
    }
    stays
}

/// The cheapest paths to the FEs at which a path can enter the next domain.
fn cross(view: &View<'_>, best: &Best, [from, to]: [&Stay; 2]) -> Best {
    let topology = &view.network.topology;
    let mut crossed = Best::new();
    let exits = topology.exits(from.domain).into_iter();
    for (exit, link) in exits.filter(|(_, link)| view.network.works(*link)) {
        let peer = topology.peer(link, exit);
        if topology.domain_of(peer) != to.domain {
            continue;
        }
        for (entry, (cost, exits)) in best {
            let Some((inner, fes)) = walk(view, *entry, exit) else {
                continue;
            };
            let cost = cost + inner + u64::from(topology.link(link).cost);
            let is_better = crossed.get(&peer).is_none_or(|(known, _)| cost < *known);
            if is_better && passes(&fes, &from.fes) {
                let exits = exits.iter().copied().chain([link]).collect();
                crossed.insert(peer, (cost, exits));
            }
        }
    }
    crossed
}

/// The cost and the FEs of the path between two FEs of a domain.
fn walk(view: &View<'_>, from: FeId, to: FeId) -> Option<(u64, Vec<FeId>)> {
    let topology = &view.network.topology;
    let inside = &view.inside[topology.domain_of(to).0];
    let cost = inside.step(from, to)?.cost;
    let (mut at, mut fes) = (from, vec![from]);
    while let Some(link) = inside.step(at, to)?.link {
        at = topology.peer(link, at);
        fes.push(at);
    }
    Some((cost, fes))
}

/// Whether a path visits these FEs in order.
fn passes(way: &[FeId], fes: &[FeId]) -> bool {
    let mut way = way.iter();
    fes.iter().all(|fe| way.any(|passed| passed == fe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, End, Fe, Link, Rule, Topology};

    /// ```text
    ///   c1 ── b1 ── b2 ── a1      c1 has two links into B, B two exits to A; IP goes through D
    ///    │╲    │           │
    ///    │ ╲── b3 ─────────┤
    ///   d1 ────────────────┘
    /// ```
    fn net() -> Paths {
        let mut topology = Topology::default();
        for (name, fes) in [
            ("a", vec!["a1"]),
            ("b", vec!["b1", "b2", "b3"]),
            ("c", vec!["c1"]),
            ("d", vec!["d1"]),
        ] {
            let domain = Domain {
                name: name.to_owned(),
                behaviours: Vec::new(),
                lid_bytes: None,
                special: None,
            };
            let domain = topology.add_domain(domain).unwrap();
            for name in fes {
                let name = name.to_owned();
                let delivers = vec![Payload::Ip];
                let fe = Fe {
                    name,
                    domain,
                    delivers,
                };
                topology.add_fe(fe).unwrap();
            }
        }
        for (a, b, cost) in [
            ("c1", "b1", 1),
            ("c1", "b3", 5),
            ("b1", "b2", 1),
            ("b1", "b3", 1),
            ("b2", "a1", 1),
            ("b3", "a1", 3),
            ("c1", "d1", 1),
            ("d1", "a1", 1),
        ] {
            let ends = [(a, b), (b, a)].map(|(near, far)| End {
                fe: topology.fe_named(near).unwrap(),
                interface: far.to_owned(),
                address: None,
            });
            let rate = None;
            topology.add_link(Link { ends, cost, rate }).unwrap();
        }
        Paths::new(topology).unwrap()
    }

    /// The FEs on a named path, by name.
    fn passed(paths: &Paths, through: &[&str]) -> Result<String, String> {
        let topology = paths.topology();
        let step = |name: &&str| match topology.domain_named(name) {
            Ok(domain) => Step::Domain(domain),
            Err(_) => Step::Fe(topology.fe_named(name).unwrap()),
        };
        let steps: Vec<Step> = through.iter().map(step).collect();
        let [source, target] = ["c1", "a1"].map(|name| topology.fe_named(name).unwrap());
        let route = paths.along(source, Target::Fe(target, Payload::Ip), None, &steps);
        let route = route.map_err(|error| error.to_string())?;
        let names = route.fes.iter().map(|fe| topology.fe(*fe).name.as_str());
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_path_leads_through_what_it_names() {
        let paths = net();
        let ok = |through: &[&str]| passed(&paths, through).unwrap();
        assert_eq!(ok(&["c", "b", "a"]), "c1 b1 b2 a1");
        assert_eq!(ok(&["c", "d", "a"]), "c1 d1 a1");
        // An FE inside the domain selects the exit: the path over b1 and b3 is cheaper than over b3 alone.
        assert_eq!(ok(&["c", "b3", "a"]), "c1 b1 b3 a1");
        assert_eq!(ok(&["c1", "b1", "b2", "a1"]), "c1 b1 b2 a1");
    }

    #[test]
    fn a_processor_has_an_identifier_that_leads_to_it() {
        let mut paths = net();
        let topology = paths.topology().clone();
        let [b1, b2] = ["b1", "b2"].map(|name| topology.fe_named(name).unwrap());
        let (lid, changes) = paths.process(b2, 7).unwrap();
        assert_eq!(changes.len(), 3); // one row at each FE of the domain
        let rule = |paths: &Paths, fe| paths.rules(fe)[&(None, lid)].clone();
        assert_eq!(rule(&paths, b2), Rule::Process(7));
        let Rule::Forward {
            interface, advance, ..
        } = rule(&paths, b1)
        else {
            panic!("b1 leads to b2")
        };
        assert_eq!((interface.as_str(), advance), ("b2", 0));
        assert_eq!(paths.process(b2, 7), Ok((lid, Vec::new())));
        assert_ne!(paths.process(b1, 7).unwrap().0, lid);
        assert_ne!(paths.delivery(b2, Payload::Ip), Some(lid));
    }

    #[test]
    fn a_path_that_cannot_be_is_refused() {
        let mut paths = net();
        let error = |paths: &Paths, through: &[&str]| passed(paths, through).unwrap_err();
        assert_eq!(
            error(&paths, &["b", "a"]),
            "the named path must begin in domain `c` and end in `a`, like its flow"
        );
        let gap = "no working link leads from domain `b` to `d` on the named path, through the elements that it names";
        assert_eq!(error(&paths, &["c", "b", "d", "a"]), gap);
        assert!(error(&paths, &["c", "b2", "b3", "a"]).contains("from domain `b` to `a`"));
        let topology = paths.topology();
        let link = topology.link_at(topology.fe_named("c1").unwrap(), "d1");
        let link = link.unwrap();
        paths.handle_link(link, false);
        assert!(error(&paths, &["c", "d", "a"]).contains("from domain `c` to `d`"));
    }
}
