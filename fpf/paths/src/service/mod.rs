//! The state machine: events and requests in, changes out.

mod flows;
mod named;
mod tree;

use std::collections::BTreeMap;

use self::flows::Established;
use crate::choice::{Choice, choose};
use crate::error::PathError;
use crate::inside::{Inside, Network};
use crate::lids::{LID_BYTES_MAX, Lids, Meaning, lid_bytes};
use crate::request::{Encapsulation, Request, Spread};
use crate::reservations::Reservations;
use crate::route::{Route, Target, View};
use crate::rules::{self, Branch, Input, Rule, Rules};
use crate::topology::{DomainId, Fe, FeId, Link, LinkId, Topology};
use crate::{Disjoint, Lid};

/// A change at an FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A row of the forwarding table.
    Rule {
        /// The FE.
        fe: FeId,
        /// The input interface of the row.
        input: Input,
        /// The identifier.
        lid: Lid,
        /// The new rule; `None` deletes the row.
        rule: Option<Rule>,
    },
    /// A rule of the encapsulation table.
    Encapsulate {
        /// The FE.
        fe: FeId,
        /// The request that the rule belongs to.
        request: u64,
        /// The new rule; `None` deletes it.
        rule: Option<Encapsulation>,
    },
}

/// The path controller of a network.
#[derive(Clone, Debug)]
pub struct Paths {
    network: Network,
    inside: Vec<Inside>,
    lids: Vec<Lids>,
    /// The current rules of each FE.
    tables: Vec<Rules>,
    /// Copies of multicast trees, by tree and FE.
    branches: BTreeMap<(u64, FeId), Branch>,
    established: BTreeMap<u64, Established>,
    next_request: u64,
    books: Reservations,
}

/// Changes, grouped by the order in which they must be applied.
#[derive(Debug, Default)]
pub(super) struct Changes {
    added: Vec<Change>,
    vectors: Vec<Change>,
    removed: Vec<Change>,
}

impl Changes {
    fn in_order(self) -> Vec<Change> {
        [self.added, self.vectors, self.removed].concat()
    }
}

impl Paths {
    /// Allocates identifiers for a topology, and computes the rules.
    pub fn new(topology: Topology) -> Result<Self, PathError> {
        let mut paths = Self {
            network: Network::new(Topology::default()),
            inside: Vec::new(),
            lids: Vec::new(),
            tables: Vec::new(),
            branches: BTreeMap::new(),
            established: BTreeMap::new(),
            next_request: 1,
            books: Reservations::default(),
        };
        paths.extend(topology)?;
        Ok(paths)
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.network.topology
    }

    /// Bytes of the domain's identifiers.
    pub fn lid_bytes(&self, domain: DomainId) -> u8 {
        self.lids[domain.0].bytes()
    }

    /// The identifiers of a domain, with their meanings.
    pub fn lids(&self, domain: DomainId) -> impl Iterator<Item = (Meaning, Lid)> {
        self.lids[domain.0].iter()
    }

    /// The rules of an FE.
    pub fn rules(&self, fe: FeId) -> &Rules {
        &self.tables[fe.0]
    }

    /// Whether a link and the FEs at both ends work.
    pub fn works(&self, link: LinkId) -> bool {
        self.network.works(link)
    }

    /// The paths of a request; empty while no path exists.
    pub fn routes_of(&self, request: u64) -> Result<&[Route], PathError> {
        let found = self.established.get(&request);
        let found = found.ok_or(PathError::NoRequest(request))?;
        Ok(&found.routes)
    }

    /// The encapsulation rule of a request; `None` while no path exists.
    pub fn rule_of(&self, request: u64) -> Option<&Encapsulation> {
        self.established.get(&request)?.rule.as_ref()
    }

    /// Why a request has no path now; `None` if it has a path.
    pub fn refusal_of(&self, request: u64) -> Option<PathError> {
        let one = self.established.get(&request);
        let one = one.filter(|one| one.routes.is_empty())?;
        self.select(&one.request).err()
    }

    /// Up to `k` paths to a target, the cheapest first.
    pub fn cheapest(
        &self,
        source: FeId,
        target: Target,
        behaviour: Option<&str>,
        k: usize,
    ) -> Result<Vec<Route>, PathError> {
        let choice = Choice {
            source,
            target,
            behaviour,
            spread: Spread::Cheapest(k),
            rate: None,
        };
        choose(&self.view(), &self.books, &choice)
    }

    /// This number of paths that share nothing of this kind, with minimum total cost.
    pub fn disjoint(
        &self,
        source: FeId,
        target: Target,
        behaviour: Option<&str>,
        (number, kind): (usize, Disjoint),
    ) -> Result<Vec<Route>, PathError> {
        let choice = Choice {
            source,
            target,
            behaviour,
            spread: Spread::Disjoint(number, kind),
            rate: None,
        };
        choose(&self.view(), &self.books, &choice)
    }

    /// Adds an FE, initially without links, to a domain.
    pub fn add_fe(&mut self, fe: Fe) -> Result<Vec<Change>, PathError> {
        let mut topology = self.network.topology.clone();
        topology.add_fe(fe)?;
        self.extend(topology)
    }

    /// Adds a link. Existing identifiers and vectors do not change.
    pub fn add_link(&mut self, link: Link) -> Result<Vec<Change>, PathError> {
        let mut topology = self.network.topology.clone();
        topology.add_link(link)?;
        self.extend(topology)
    }

    /// A link has failed or recovered.
    pub fn handle_link(&mut self, link: LinkId, works: bool) -> Vec<Change> {
        if std::mem::replace(&mut self.network.down[link.0], !works) != works {
            return Vec::new(); // no change
        }
        let ends = self.network.topology.link(link).ends.each_ref();
        let domains = ends.map(|end| self.network.topology.domain_of(end.fe));
        self.settle(&domains)
    }

    /// An FE has disconnected or reconnected. The controller assumes that it reconnects without rules.
    pub fn handle_fe(&mut self, fe: FeId, works: bool) -> Vec<Change> {
        if std::mem::replace(&mut self.network.gone[fe.0], !works) != works {
            return Vec::new();
        }
        self.tables[fe.0].clear();
        for one in self.established.values_mut() {
            if one.request.source == fe {
                one.rule = None;
            }
        }
        self.settle(&[self.network.topology.domain_of(fe)])
    }

    /// Chooses paths for a flow. The application receives its answer after the edge FE has applied the changes.
    pub fn request(&mut self, request: Request) -> Result<(u64, Vec<Change>), PathError> {
        request.filter.check()?;
        let routes = self.select(&request)?;
        let id = self.next_request;
        let mut changes = Changes::default();
        let mut touched = Vec::new();
        self.establish(id, request, routes, &mut changes, &mut touched)?;
        self.next_request += 1;
        self.refresh(&touched, &mut changes);
        Ok((id, changes.in_order()))
    }

    /// Ends a request.
    pub fn release(&mut self, request: u64) -> Result<Vec<Change>, PathError> {
        let (mut changes, mut touched) = (Changes::default(), Vec::new());
        let one = self.established.remove(&request);
        let one = one.ok_or(PathError::NoRequest(request))?;
        self.give_back(request, &one, &mut touched);
        if one.rule.is_some() {
            changes.vectors.push(Change::Encapsulate {
                fe: one.request.source,
                request,
                rule: None,
            });
        }
        self.refresh(&touched, &mut changes);
        Ok(changes.in_order())
    }

    /// Chooses the paths of a request as for a new request. Only vectors at its edge FE change, and rules for copies of
    /// a multicast tree. If there is no path, the request keeps its current paths, and the error is returned.
    pub fn reselect(&mut self, request: u64) -> Result<Vec<Change>, PathError> {
        let one = self.established.get(&request).cloned();
        let one = one.ok_or(PathError::NoRequest(request))?;
        let before = self.clone();
        let (mut changes, mut touched) = (Changes::default(), Vec::new());
        self.give_back(request, &one, &mut touched);
        let chosen = self.select(&one.request).and_then(|routes| {
            self.establish(request, one.request, routes, &mut changes, &mut touched)
        });
        if let Err(error) = chosen {
            *self = before;
            return Err(error);
        }
        self.refresh(&touched, &mut changes);
        Ok(changes.in_order())
    }

    /// Chooses the paths of all requests as for new requests, in the order of their numbers; requests for which there
    /// is no path keep their current paths.
    pub fn reselect_all(&mut self) -> Vec<Change> {
        let ids: Vec<u64> = self.established.keys().copied().collect();
        let mut changes = Vec::new();
        for id in ids {
            if !self.has_best(id) {
                changes.extend(self.reselect(id).unwrap_or_default());
            }
        }
        changes
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            network: &self.network,
            inside: &self.inside,
            lids: &self.lids,
        }
    }

    /// Replaces the topology by an extension of it. Refuses the extension as a whole if a domain has no identifier
    /// left.
    fn extend(&mut self, topology: Topology) -> Result<Vec<Change>, PathError> {
        let mut lids = self.lids.clone();
        for domain in topology.domains() {
            let (of, exits) = (topology.domain(domain), topology.exits(domain));
            if domain.0 == lids.len() {
                let special = of.special.map_or(exits.len() as u64, u64::from);
                let bytes = lid_bytes(exits.len() as u64, of.behaviours.len() as u64, special);
                let bytes = of.lid_bytes.unwrap_or(bytes.min(LID_BYTES_MAX) as u8);
                lids.push(Lids::new(bytes));
            }
            let bytes = lids[domain.0].bytes();
            for meaning in meanings(&topology, domain, &exits) {
                let allocated = lids[domain.0].allocate(meaning);
                allocated.map_err(|_| PathError::Full {
                    domain: of.name.clone(),
                    bytes,
                })?;
            }
        }
        self.lids = lids;
        self.network.down.resize(topology.links().count(), false);
        self.network.gone.resize(topology.fes().count(), false);
        self.tables.resize(topology.fes().count(), Rules::new());
        self.books.grow(topology.links().count());
        self.network.topology = topology;
        let all: Vec<DomainId> = self.network.topology.domains().collect();
        self.inside.resize(all.len(), Inside::default());
        Ok(self.settle(&all))
    }

    /// Recomputes the trees of these domains, moves the requests whose paths no longer work, and returns the changes.
    fn settle(&mut self, domains: &[DomainId]) -> Vec<Change> {
        for domain in domains {
            self.inside[domain.0] = Inside::of(&self.network, *domain);
        }
        let (mut changes, mut touched) = (Changes::default(), domains.to_vec());
        // Requests without a rate do not affect each other, and many have the same ends.
        let mut chosen: BTreeMap<_, Vec<Route>> = BTreeMap::new();
        let ids: Vec<u64> = self.established.keys().copied().collect();
        for id in ids {
            let Some(one) = self.established.get(&id) else {
                continue;
            };
            if let Some(routes) = self.still(one) {
                if routes != one.routes {
                    self.rebook(id, routes);
                }
                continue;
            }
            let one = one.clone();
            self.give_back(id, &one, &mut touched);
            let request = &one.request;
            let key = (
                request.source,
                request.targets.clone(),
                request.through.clone(),
                request.behaviour.clone(),
                request.spread,
            );
            let routes = match chosen.get(&key).filter(|_| request.rate.is_none()) {
                Some(routes) => routes.clone(),
                None => self.select(request).unwrap_or_default(), // empty: the request waits
            };
            if request.rate.is_none() {
                chosen.insert(key, routes.clone());
            }
            let moved = self.establish(id, one.request.clone(), routes, &mut changes, &mut touched);
            if moved.is_err() {
                // A tree for which a domain has no identifier left must wait too; without paths it needs no
                // identifiers.
                let _ = self.establish(id, one.request, Vec::new(), &mut changes, &mut touched);
            }
        }
        self.refresh(&touched, &mut changes);
        changes.in_order()
    }

    /// Recomputes the rules of these domains, and returns the differences.
    pub(super) fn refreshed(&mut self, domains: &[DomainId]) -> Vec<Change> {
        let mut changes = Changes::default();
        self.refresh(domains, &mut changes);
        changes.in_order()
    }

    /// Recomputes the rules of these domains, and adds the differences to `changes`.
    fn refresh(&mut self, domains: &[DomainId], changes: &mut Changes) {
        let mut domains = domains.to_vec();
        domains.sort_unstable();
        domains.dedup();
        let of_each = domains.iter();
        let of_each =
            of_each.flat_map(|domain| rules::of_domain(&self.view(), *domain, &self.branches));
        let new: Vec<(FeId, Rules)> = of_each.collect();
        for (fe, new) in new {
            let old = std::mem::take(&mut self.tables[fe.0]);
            let row = |(input, lid): &(Input, Lid), rule| Change::Rule {
                fe,
                input: input.clone(),
                lid: *lid,
                rule,
            };
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            changes.removed.extend(gone.map(|key| row(key, None)));
            let other = new
                .iter()
                .filter(|(key, rule)| old.get(*key) != Some(*rule));
            changes
                .added
                .extend(other.map(|(key, rule)| row(key, Some(rule.clone()))));
            self.tables[fe.0] = new;
        }
    }
}

/// All meanings that need an identifier of a domain, except those of multicast trees and processors.
fn meanings(topology: &Topology, domain: DomainId, exits: &[(FeId, LinkId)]) -> Vec<Meaning> {
    let mut all = Vec::new();
    for behaviour in 0..topology.domain(domain).behaviours.len() {
        all.extend(exits.iter().map(|(_, link)| Meaning::Exit {
            link: *link,
            behaviour,
        }));
        for &fe in topology.members(domain) {
            let payloads = topology.fe(fe).delivers.iter();
            all.extend(payloads.map(|payload| Meaning::Deliver {
                fe,
                payload: *payload,
                behaviour,
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Behaviour, Carry, Domain, End, Filter, Payload, Prefix, Step};
    use proptest::prelude::*;
    use weir_base::Rate;

    /// Builds a network by names: domains with the bytes of their identifiers, FEs, links with their costs. All FEs are
    /// edges.
    #[derive(Debug)]
    struct Net {
        topology: Topology,
        interfaces: usize,
    }

    impl Net {
        fn new() -> Self {
            Self {
                topology: Topology::default(),
                interfaces: 0,
            }
        }

        fn domain(&mut self, name: &str, bytes: u8, fes: &[&str]) -> &mut Self {
            let behaviour = |name: &str| Behaviour {
                name: name.to_owned(),
                queue: Some(format!("queue of {name}")),
            };
            let domain = Domain {
                name: name.to_owned(),
                behaviours: vec![behaviour("plain"), behaviour("gold")],
                lid_bytes: Some(bytes),
                special: None,
            };
            let domain = self.topology.add_domain(domain).unwrap();
            for fe in fes {
                self.topology.add_fe(fe_of(fe, domain)).unwrap();
            }
            self
        }

        fn link(&mut self, a: &str, b: &str, cost: u32) -> &mut Self {
            let [a, b] = [a, b].map(|name| self.topology.fe_named(name).unwrap());
            let link = link_of(&mut self.interfaces, [a, b], cost, None);
            self.topology.add_link(link).unwrap();
            self
        }

        fn paths(&self) -> Paths {
            Paths::new(self.topology.clone()).unwrap()
        }
    }

    fn fe_of(name: &str, domain: DomainId) -> Fe {
        Fe {
            name: name.to_owned(),
            domain,
            delivers: vec![Payload::Ip, Payload::EtherType(0x88b5)],
        }
    }

    fn link_of(interfaces: &mut usize, fes: [FeId; 2], cost: u32, rate: Option<Rate>) -> Link {
        let ends = fes.map(|fe| {
            *interfaces += 1;
            End {
                fe,
                interface: format!("if{interfaces}"),
                address: None,
            }
        });
        Link { ends, cost, rate }
    }

    /// Figure 1: the path C-B-A, while IP uses C-D-A. B has two FEs.
    fn figure_1() -> Net {
        let mut net = Net::new();
        net.domain("A", 1, &["a1"]).domain("B", 1, &["b1", "b2"]);
        net.domain("C", 2, &["c1"]).domain("D", 1, &["d1"]);
        net.link("c1", "b1", 1)
            .link("b1", "b2", 1)
            .link("b2", "a1", 1);
        net.link("c1", "d1", 2).link("d1", "a1", 2);
        net
    }

    fn request(source: FeId, targets: &[Target], spread: Spread) -> Request {
        let address = [192, 0, 2, 1].into();
        Request {
            filter: Filter {
                destination: Some(Prefix { address, bits: 32 }),
                ..Filter::default()
            },
            source,
            targets: targets.to_vec(),
            through: Vec::new(),
            behaviour: None,
            rate: None,
            spread,
            by_packet: false,
            timeout: None,
            session: None,
        }
    }

    /// The tables of all FEs and edges after the changes.
    #[derive(Default)]
    struct Installed {
        rules: BTreeMap<FeId, Rules>,
        edges: BTreeMap<u64, Encapsulation>,
    }

    impl Installed {
        fn of(paths: &Paths) -> Self {
            let rules = paths.topology().fes();
            Self {
                rules: rules.map(|fe| (fe, paths.rules(fe).clone())).collect(),
                edges: BTreeMap::new(),
            }
        }

        fn apply(&mut self, changes: &[Change]) {
            for change in changes {
                match change.clone() {
                    Change::Rule {
                        fe,
                        input,
                        lid,
                        rule,
                    } => {
                        let table = self.rules.entry(fe).or_default();
                        match rule {
                            Some(rule) => drop(table.insert((input, lid), rule)),
                            None => assert!(table.remove(&(input, lid)).is_some()),
                        }
                    }
                    Change::Encapsulate { request, rule, .. } => match rule {
                        Some(rule) => drop(self.edges.insert(request, rule)),
                        None => assert!(self.edges.remove(&request).is_some()),
                    },
                }
            }
        }
    }

    /// Follows a packet with a vector from FE to FE.
    struct Walker<'a> {
        paths: &'a Paths,
        rules: &'a BTreeMap<FeId, Rules>,
        /// Index at each FE on the path.
        trace: Vec<(FeId, usize)>,
        delivered: Vec<(FeId, Payload)>,
    }

    impl<'a> Walker<'a> {
        fn new(paths: &'a Paths, rules: &'a BTreeMap<FeId, Rules>) -> Self {
            Self {
                paths,
                rules,
                trace: Vec::new(),
                delivered: Vec::new(),
            }
        }

        /// The five steps of section III.A.
        fn walk(&mut self, at: FeId, input: Option<&str>, vector: &[u8], index: usize) {
            assert!(self.trace.len() < 1000, "a loop: {:?}", &self.trace[..20]);
            self.trace.push((at, index));
            assert!(!vector.is_empty() && index <= vector.len());
            if index == vector.len() {
                return self.delivered.push((at, Payload::Ip));
            }
            let topology = self.paths.topology();
            let bytes = self.paths.lid_bytes(topology.domain_of(at));
            let value = match bytes {
                1 => u16::from(vector[index]),
                _ => u16::from_be_bytes([vector[index], vector[index + 1]]),
            };
            let lid = Lid { value, bytes };
            let table = &self.rules[&at];
            let own = table.get(&(input.map(str::to_owned), lid));
            match own.or_else(|| table.get(&(None, lid))).expect("a rule") {
                Rule::Forward {
                    interface,
                    next,
                    advance,
                    ..
                } => {
                    let link = topology.link_at(at, interface).unwrap();
                    assert!(self.paths.works(link), "over a link that failed");
                    let index = index + usize::from(*advance);
                    self.walk(next.fe, Some(&next.interface), vector, index);
                }
                Rule::Copies(vectors) => {
                    for vector in vectors {
                        self.walk(at, input, vector, 0);
                    }
                }
                Rule::Deliver(payload) => self.delivered.push((at, *payload)),
                Rule::Process(_) => unreachable!("no path leads to a processor by itself"),
            }
        }
    }

    fn walked(paths: &Paths, source: FeId, vector: &[u8]) -> (Vec<(FeId, Payload)>, Vec<usize>) {
        let installed = Installed::of(paths);
        let mut walker = Walker::new(paths, &installed.rules);
        walker.walk(source, None, vector, 0);
        let trace = walker.trace.iter().map(|(_, index)| *index).collect();
        (walker.delivered, trace)
    }

    #[test]
    fn figure_1_moves_the_index_at_borders_only() {
        let net = figure_1();
        let paths = net.paths();
        let topology = paths.topology();
        let [c1, b1, b2, a1] = ["c1", "b1", "b2", "a1"].map(|fe| topology.fe_named(fe).unwrap());
        let to_a = Target::Domain(topology.domain_named("A").unwrap());
        let routes = paths.cheapest(c1, to_a, None, 9).unwrap();
        assert_eq!(routes.iter().map(|r| r.cost).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(routes[0].fes, [c1, b1, b2, a1]);
        assert_eq!(routes[0].vector.len(), 3); // two bytes in C, one in B
        let (delivered, trace) = walked(&paths, c1, &routes[0].vector);
        assert_eq!(
            (delivered, trace),
            (vec![(a1, Payload::Ip)], vec![0, 2, 2, 3])
        );
        // Both FEs of B use the same identifier.
        let lid = Lid {
            value: u16::from(routes[0].vector[2]),
            bytes: 1,
        };
        let rule = |fe: FeId| paths.rules(fe)[&(None, lid)].clone();
        let advance = |rule| match rule {
            Rule::Forward { advance, queue, .. } => (advance, queue),
            other => panic!("{other:?}"),
        };
        let queue = Some("queue of plain".to_owned());
        assert_eq!(advance(rule(b1)), (0, queue.clone()));
        assert_eq!(advance(rule(b2)), (1, queue));
    }

    #[test]
    fn a_payload_that_is_not_ip_is_named_by_an_identifier() {
        let paths = figure_1().paths();
        let topology = paths.topology();
        let [c1, b2, a1] = ["c1", "b2", "a1"].map(|fe| topology.fe_named(fe).unwrap());
        for payload in [Payload::Ip, Payload::EtherType(0x88b5)] {
            for fe in [a1, b2] {
                let routes = paths
                    .cheapest(c1, Target::Fe(fe, payload), Some("gold"), 1)
                    .unwrap();
                let (delivered, _) = walked(&paths, c1, &routes[0].vector);
                assert_eq!(delivered, [(fe, payload)]);
            }
        }
        let none = paths.cheapest(c1, Target::Fe(a1, Payload::EtherType(1)), None, 1);
        assert_eq!(
            none.unwrap_err().to_string(),
            "`a1` does not deliver packets of this kind: it is not an edge for them"
        );
        let none = paths.cheapest(c1, Target::Fe(a1, Payload::Ip), Some("silver"), 1);
        let expected = "no path leads from `c1` to `a1` through domains that offer `silver`";
        assert_eq!(none.unwrap_err().to_string(), expected);
        // Within a domain, one of its own identifiers leads to the other FE.
        let b1 = topology.fe_named("b1").unwrap();
        let inner = paths
            .cheapest(b1, Target::Fe(b2, Payload::Ip), None, 1)
            .unwrap();
        assert_eq!(walked(&paths, b1, &inner[0].vector).0, [(b2, Payload::Ip)]);
    }

    #[test]
    fn a_link_between_domains_fails_and_only_a_vector_changes() {
        let mut paths = figure_1().paths();
        let topology = paths.topology().clone();
        let [c1, b2] = ["c1", "b2"].map(|fe| topology.fe_named(fe).unwrap());
        let to_a = Target::Domain(topology.domain_named("A").unwrap());
        let (id, changes) = paths.request(request(c1, &[to_a], Spread::One)).unwrap();
        assert!(
            matches!(&changes[..], [Change::Encapsulate { fe, rule: Some(_), .. }] if *fe == c1)
        );
        let first = paths.routes_of(id).unwrap()[0].clone();
        let b2_a1 = topology
            .links_of(b2)
            .find(|link| topology.is_between_domains(*link))
            .unwrap();
        let changes = paths.handle_link(b2_a1, false);
        assert!(
            matches!(&changes[..], [Change::Encapsulate { fe, rule: Some(_), .. }] if *fe == c1),
            "{changes:?}"
        );
        assert_eq!(paths.routes_of(id).unwrap()[0].cost, 4);
        assert_eq!(paths.handle_link(b2_a1, false), []);
        // The path does not move back on its own.
        assert_eq!(paths.handle_link(b2_a1, true), []);
        assert_eq!(paths.reselect(id).unwrap().len(), 1);
        assert_eq!(paths.routes_of(id).unwrap(), [first]);
        // Inside B the tree changes, and therefore B's rules; without another path in B, the flow moves to D.
        let b1_b2 = topology.links_of(b2).find(|link| *link != b2_a1).unwrap();
        let changes = paths.handle_link(b1_b2, false);
        let is_rule = |change: &Change| matches!(change, Change::Rule { rule: None, .. });
        assert!(changes.iter().any(is_rule) && matches!(changes[0], Change::Encapsulate { .. }));
        // No path is left: IP forwards the flow until a link recovers.
        let c1_d1 = topology.links_of(c1).last().unwrap();
        let changes = paths.handle_link(c1_d1, false);
        let gone = Change::Encapsulate {
            fe: c1,
            request: id,
            rule: None,
        };
        assert_eq!(changes, std::slice::from_ref(&gone));
        assert_eq!(paths.handle_link(c1_d1, true).len(), 1);
        assert_eq!(paths.release(id).unwrap(), [gone]);
        assert_eq!(paths.release(id).unwrap_err(), PathError::NoRequest(id));
    }

    #[test]
    fn rates_are_reserved_and_given_back() {
        let mut net = figure_1();
        let [c1, d1] = ["c1", "d1"].map(|fe| net.topology.fe_named(fe).unwrap());
        let mut small = Topology::default();
        for domain in net.topology.domains() {
            small
                .add_domain(net.topology.domain(domain).clone())
                .unwrap();
        }
        for fe in net.topology.fes() {
            small.add_fe(net.topology.fe(fe).clone()).unwrap();
        }
        for link in net.topology.links() {
            let rate = Some(Rate::from_mbps(10));
            small
                .add_link(Link {
                    rate,
                    ..net.topology.link(link).clone()
                })
                .unwrap();
        }
        net.topology = small;
        let mut paths = net.paths();
        let to_a = Target::Domain(net.topology.domain_named("A").unwrap());
        let of = |mbps| Request {
            rate: Some(Rate::from_mbps(mbps)),
            ..request(c1, &[to_a], Spread::One)
        };
        let (first, _) = paths.request(of(6)).unwrap();
        let (second, _) = paths.request(of(6)).unwrap();
        assert_eq!(paths.routes_of(first).unwrap()[0].cost, 3);
        assert_eq!(paths.routes_of(second).unwrap()[0].fes[1], d1);
        let error = paths.request(of(6)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no path from `c1` to `A` has 6000000 bit/s left"
        );
        // Two paths carry half of the rate each.
        let two = Request {
            spread: Spread::Cheapest(2),
            ..of(8)
        };
        let (two, _) = paths.request(two).unwrap();
        assert_eq!(paths.routes_of(two).unwrap().len(), 2);
        assert!(paths.request(of(1)).is_err());
        paths.release(first).unwrap();
        assert!(paths.request(of(6)).is_ok());
    }

    #[test]
    fn a_new_link_renumbers_nothing() {
        let mut net = figure_1();
        let mut paths = net.paths();
        let before: Vec<Vec<(Meaning, Lid)>> = net
            .topology
            .domains()
            .map(|domain| paths.lids(domain).collect())
            .collect();
        let [c1, a1] = ["c1", "a1"].map(|fe| net.topology.fe_named(fe).unwrap());
        let link = link_of(&mut net.interfaces, [c1, a1], 1, None);
        let changes = paths.add_link(link).unwrap();
        assert!(
            changes
                .iter()
                .all(|change| matches!(change, Change::Rule { rule: Some(_), .. }))
        );
        for (domain, before) in net.topology.domains().zip(before) {
            let now: Vec<(Meaning, Lid)> = paths.lids(domain).collect();
            assert!(before.iter().all(|one| now.contains(one)));
        }
        let d = net.topology.domain_named("D").unwrap();
        paths.add_fe(fe_of("d2", d)).unwrap();
        assert!(paths.add_fe(fe_of("d2", d)).is_err());
    }

    #[test]
    fn a_domain_without_identifiers_refuses_another_link() {
        let mut net = Net::new();
        net.domain("hub", 1, &["h"]).domain("others", 2, &["o"]);
        // Each link needs two identifiers, for two behaviours; the deliveries of the FE need four.
        for _ in 0..126 {
            net.link("h", "o", 1);
        }
        let mut paths = net.paths();
        let [h, o] = ["h", "o"].map(|fe| net.topology.fe_named(fe).unwrap());
        let error = paths
            .add_link(link_of(&mut net.interfaces, [h, o], 1, None))
            .unwrap_err();
        let expected = "domain `hub` has no free identifier: all 256 identifiers of 1 byte are in use; use 2-byte identifiers";
        assert_eq!(error.to_string(), expected);
        assert_eq!(paths.topology().links().count(), 126);
    }

    #[test]
    fn a_tree_is_copied_where_its_paths_part() {
        let mut net = Net::new();
        net.domain("S", 1, &["s"]).domain("T", 2, &["t1", "t2"]);
        net.domain("X", 1, &["x"])
            .domain("Y", 1, &["y"])
            .domain("Z", 2, &["z1", "z2"]);
        net.link("s", "t1", 1)
            .link("t1", "t2", 1)
            .link("t2", "x", 1)
            .link("t2", "y", 1);
        net.link("y", "z1", 1).link("z1", "z2", 1);
        let mut paths = net.paths();
        let fe = |name: &str| net.topology.fe_named(name).unwrap();
        let targets = ["x", "y", "z2"].map(|name| Target::Fe(fe(name), Payload::Ip));
        let mut installed = Installed::of(&paths);
        let (id, changes) = paths
            .request(request(fe("s"), &targets, Spread::One))
            .unwrap();
        installed.apply(&changes);
        let Carry::Copies(vectors) = &installed.edges[&id].carry else {
            panic!("no copies")
        };
        assert_eq!(vectors.len(), 1); // one packet on the trunk
        let mut walker = Walker::new(&paths, &installed.rules);
        walker.walk(fe("s"), None, &vectors[0], 0);
        walker.delivered.sort_unstable();
        let mut expected = ["x", "y", "z2"].map(|name| (fe(name), Payload::Ip));
        expected.sort_unstable();
        assert_eq!(walker.delivered, expected);
        // Two forks: t1, where the trunk enters T, and y, which is one of the targets.
        let copies = changes.iter().filter(|c| {
            matches!(
                c,
                Change::Rule {
                    rule: Some(Rule::Copies(_)),
                    ..
                }
            )
        });
        assert_eq!(copies.count(), 2);
        installed.apply(&paths.release(id).unwrap());
        let now = Installed::of(&paths);
        assert_eq!((installed.rules, installed.edges.len()), (now.rules, 0));
    }

    #[test]
    fn a_core_table_does_not_grow_with_the_number_of_paths() {
        let mut paths = figure_1().paths();
        let topology = paths.topology().clone();
        let b1 = topology.fe_named("b1").unwrap();
        let (c1, to_a) = (
            topology.fe_named("c1").unwrap(),
            topology.domain_named("A").unwrap(),
        );
        let before = paths.rules(b1).len();
        for _ in 0..1000 {
            paths
                .request(request(c1, &[Target::Domain(to_a)], Spread::Cheapest(2)))
                .unwrap();
        }
        assert_eq!(paths.rules(b1).len(), before);
        // Two exits with two behaviours, and two edge FEs with two payloads and two behaviours.
        assert_eq!(before, 2 * 2 + 2 * 2 * 2);
    }

    /// A random network of six domains with up to three FEs each.
    fn random_net() -> impl Strategy<Value = Net> {
        let domains = proptest::collection::vec((1..=2_u8, 1..=3_usize), 6);
        let links = proptest::collection::vec((any::<u16>(), any::<u16>(), 1..6_u32), 8..40);
        (domains, links).prop_map(|(domains, links)| {
            let mut net = Net::new();
            let mut names = Vec::new();
            for (place, (bytes, fes)) in domains.into_iter().enumerate() {
                let of: Vec<String> = (0..fes).map(|fe| format!("{place}.{fe}")).collect();
                let of: Vec<&str> = of.iter().map(String::as_str).collect();
                net.domain(&place.to_string(), bytes, &of);
                names.extend(of.iter().map(|name| (*name).to_owned()));
            }
            for (a, b, cost) in links {
                let [a, b] = [a, b].map(|n| &names[usize::from(n) % names.len()]);
                if a != b {
                    net.link(a, b, cost);
                }
            }
            net
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// After every event, the packets of all requests with a path arrive, given the rules and vectors after the
        /// changes; and no path is possible for the other requests.
        #[test]
        fn every_vector_arrives_after_any_failures(
            net in random_net(),
            requests in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u16>(), 0..5_u8), 1..8),
            events in proptest::collection::vec((any::<u16>(), any::<bool>(), 0..5_u8), 0..20),
        ) {
            let mut paths = net.paths();
            let mut installed = Installed::of(&paths);
            let fes: Vec<FeId> = net.topology.fes().collect();
            let links: Vec<LinkId> = net.topology.links().collect();
            let fe = |n: u16| fes[usize::from(n) % fes.len()];
            let mut ids = Vec::new();
            for (source, a, b, kind) in requests {
                let ip = |n| Target::Fe(fe(n), Payload::Ip);
                let (targets, spread) = match kind {
                    0 => (vec![Target::Domain(net.topology.domain_of(fe(a)))], Spread::One),
                    1 => (vec![ip(a)], Spread::Cheapest(3)),
                    2 => (vec![ip(a)], Spread::Disjoint(2, Disjoint::Domains)),
                    3 => (vec![Target::Fe(fe(a), Payload::EtherType(0x88b5))], Spread::Disjoint(2, Disjoint::Links)),
                    _ => (vec![ip(a), ip(b)], Spread::One),
                };
                if let Ok((id, changes)) = paths.request(request(fe(source), &targets, spread)) {
                    installed.apply(&changes);
                    ids.push((id, fe(source), targets, spread));
                }
            }
            check(&paths, &installed, &ids)?;
            for (which, works, kind) in events {
                let changes = match kind {
                    0 => {
                        let fe = fe(which);
                        let changes = paths.handle_fe(fe, works);
                        if !works {
                            installed.rules.insert(fe, Rules::new());
                            for (id, source, ..) in &ids {
                                if *source == fe {
                                    installed.edges.remove(id);
                                }
                            }
                        }
                        changes
                    }
                    _ if links.is_empty() => continue,
                    _ => paths.handle_link(links[usize::from(which) % links.len()], works),
                };
                installed.apply(&changes);
                check(&paths, &installed, &ids)?;
            }
        }
    }

    type Asked = (u64, FeId, Vec<Target>, Spread);

    fn check(paths: &Paths, installed: &Installed, ids: &[Asked]) -> Result<(), TestCaseError> {
        for fe in paths.topology().fes() {
            prop_assert_eq!(&installed.rules[&fe], paths.rules(fe));
        }
        for (id, source, targets, spread) in ids {
            prop_assert_eq!(installed.edges.get(id), paths.rule_of(*id));
            let Some(rule) = installed.edges.get(id) else {
                let found = paths.select(&request(*source, targets, *spread));
                prop_assert!(paths.network.gone[source.0] || found.is_err());
                continue;
            };
            let walk = |vector: &Vec<u8>| {
                let mut walker = Walker::new(paths, &installed.rules);
                walker.walk(*source, None, vector, 0);
                walker
            };
            match &rule.carry {
                Carry::Share { vectors, .. } => {
                    let routes = paths.routes_of(*id).unwrap();
                    prop_assert_eq!(vectors.len(), routes.len());
                    for (vector, route) in vectors.iter().zip(routes) {
                        let walker = walk(vector);
                        let fes: Vec<FeId> = walker.trace.iter().map(|(fe, _)| *fe).collect();
                        prop_assert_eq!(&fes, &route.fes);
                        prop_assert!(arrived(paths, walker.delivered[0], targets[0]));
                        prop_assert_eq!(walker.delivered.len(), 1);
                    }
                    if let Spread::Disjoint(wanted, _) = spread {
                        prop_assert_eq!(routes.len(), *wanted);
                    }
                }
                Carry::Copies(vectors) => {
                    let mut all: Vec<_> = vectors.iter().flat_map(|v| walk(v).delivered).collect();
                    all.sort_unstable();
                    let mut expected: Vec<_> = targets
                        .iter()
                        .filter_map(|target| match target {
                            Target::Fe(fe, payload) => Some((*fe, *payload)),
                            Target::Domain(_) => None,
                        })
                        .collect();
                    expected.sort_unstable();
                    prop_assert_eq!(all, expected);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_named_path_waits_for_its_links_and_the_others_return_to_the_best_ones() {
        let mut paths = figure_1().paths();
        let topology = paths.topology();
        let fe = |name: &str| topology.fe_named(name).unwrap();
        let domain = |name: &str| topology.domain_named(name).unwrap();
        let (c1, to_a) = (fe("c1"), [Target::Domain(domain("A"))]);
        let through = ["C", "D", "A"].map(|name| Step::Domain(domain(name)));
        let [c_b, c_d] = ["b1", "d1"].map(|peer| {
            let mut links = topology.links_of(c1);
            links
                .find(|link| topology.peer(*link, c1) == fe(peer))
                .unwrap()
        });
        let named = Request {
            through: through.to_vec(),
            ..request(c1, &to_a, Spread::One)
        };
        let (by_d, _) = paths.request(named.clone()).unwrap();
        let (best, _) = paths.request(request(c1, &to_a, Spread::One)).unwrap();
        let entered = |paths: &Paths, id| {
            let routes = paths.routes_of(id).unwrap();
            routes.first().map(|route| route.fes[1])
        };
        let [b1, d1] = ["b1", "d1"].map(|name| paths.topology().fe_named(name).unwrap());
        assert_eq!(entered(&paths, by_d), Some(d1));
        assert_eq!(entered(&paths, best), Some(b1));
        paths.handle_link(c_d, false);
        assert_eq!(entered(&paths, by_d), None, "it has no other way");
        assert!(paths.request(named).is_err());
        paths.handle_link(c_d, true);
        assert_eq!(entered(&paths, by_d), Some(d1));
        paths.handle_link(c_b, false);
        assert_eq!(entered(&paths, best), Some(d1));
        assert_eq!(paths.handle_link(c_b, true), [], "it stays where it is");
        assert_eq!(paths.reselect_all().len(), 1, "one vector changes");
        assert_eq!(entered(&paths, best), Some(b1));
        assert_eq!(paths.reselect_all(), []);
    }

    fn arrived(paths: &Paths, delivered: (FeId, Payload), target: Target) -> bool {
        match target {
            Target::Domain(domain) => paths.topology().domain_of(delivered.0) == domain,
            Target::Fe(fe, payload) => delivered == (fe, payload),
        }
    }
}
