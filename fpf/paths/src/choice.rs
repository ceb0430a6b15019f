//! Chooses the paths of a flow: the cheapest paths with enough capacity left, or disjoint paths.

use std::collections::BTreeMap;

use weir_base::Rate;

use super::disjoint::{Edge, disjoint};
use super::error::PathError;
use super::request::Spread;
use super::reservations::Reservations;
use super::route::{Route, Target, View};
use super::topology::{FeId, LinkId, Payload};

/// The requested paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) source: FeId,
    pub(super) target: Target,
    pub(super) behaviour: Option<&'a str>,
    pub(super) spread: Spread,
    pub(super) rate: Option<Rate>,
}

/// Maximum number of paths of a flow.
const PATHS_MAX: usize = 64;

/// Chooses paths.
pub(super) fn choose(
    view: &View<'_>,
    books: &Reservations,
    choice: &Choice<'_>,
) -> Result<Vec<Route>, PathError> {
    let topology = &view.network.topology;
    match choice.target {
        Target::Domain(domain) if domain == topology.domain_of(choice.source) => {
            return Err(PathError::AlreadyThere {
                from: topology.fe(choice.source).name.clone(),
                to: topology.domain(domain).name.clone(),
            });
        }
        Target::Fe(fe, payload) if !topology.fe(fe).delivers.contains(&payload) => {
            return Err(PathError::NoEdge(topology.fe(fe).name.clone()));
        }
        _ => {}
    }
    let wanted = match choice.spread {
        Spread::One => 1,
        Spread::Cheapest(paths) | Spread::Disjoint(paths, _) => paths,
    };
    if !(1..=PATHS_MAX).contains(&wanted) {
        return Err(PathError::Range {
            what: "the number of paths",
            given: wanted as u64,
            least: 1,
            most: PATHS_MAX as u64,
        });
    }
    let share = |rate: Rate| Rate::from_bps(rate.as_bps().div_ceil(wanted as u64));
    let picker = Picker {
        view,
        books,
        choice,
        wanted,
        share: choice.rate.map(share),
    };
    match choice.spread {
        Spread::Disjoint(..) => picker.disjoint(),
        _ => picker.cheapest(),
    }
}

struct Picker<'a> {
    view: &'a View<'a>,
    books: &'a Reservations,
    choice: &'a Choice<'a>,
    wanted: usize,
    /// Rate of each path.
    share: Option<Rate>,
}

impl Picker<'_> {
    fn route(&self, exits: &[LinkId]) -> Result<Option<Route>, PathError> {
        let Choice {
            source,
            target,
            behaviour,
            ..
        } = *self.choice;
        self.view.route(source, target, behaviour, exits)
    }

    /// The cheapest paths. With a rate, all requested paths must exist, because each path carries a share of it.
    fn cheapest(&self) -> Result<Vec<Route>, PathError> {
        let topology = &self.view.network.topology;
        let Choice {
            source,
            target,
            behaviour,
            ..
        } = *self.choice;
        let mut books = self.books.clone();
        let graph = self.view.graph(target, behaviour, |link, from| {
            books.has_left(topology, link, from, self.share)
        });
        let (mut found, mut refused) = (Vec::new(), None);
        let sink = topology.fes().count();
        graph.k_shortest((source.0, sink), self.wanted, |walk| {
            match self.route(&graph.exits(walk)) {
                Err(error) => {
                    refused.get_or_insert(error);
                    false
                }
                Ok(Some(route)) if route.is_simple() && self.take(&mut books, &route) => {
                    found.push(route);
                    true
                }
                Ok(_) => false,
            }
        });
        match (found.len(), refused) {
            (0, Some(error)) => Err(error),
            (n, _) if n == 0 || (self.share.is_some() && n < self.wanted) => Err(self.nothing()),
            _ => Ok(found),
        }
    }

    /// Reserves the share of a path; returns false, without a reservation, if a link has too little capacity left.
    fn take(&self, books: &mut Reservations, route: &Route) -> bool {
        let topology = &self.view.network.topology;
        let steps = route.links.iter().zip(&route.fes);
        let steps: Vec<(LinkId, FeId)> = steps.map(|(link, fe)| (*link, *fe)).collect();
        let has_left =
            |(link, fe): &(LinkId, FeId)| books.has_left(topology, *link, *fe, self.share);
        let fits = steps.iter().all(has_left);
        if let Some(rate) = self.share.filter(|_| fits) {
            books.reserve(topology, &steps, rate);
        }
        fits
    }

    fn disjoint(&self) -> Result<Vec<Route>, PathError> {
        let Spread::Disjoint(_, kind) = self.choice.spread else {
            return Err(self.nothing());
        };
        let Some((parts, edges, ends)) = self.parts() else {
            return Err(self.nothing());
        };
        let paths = disjoint(parts, &edges, ends, kind, self.wanted);
        let mut books = self.books.clone();
        let mut routes = Vec::new();
        for exits in &paths {
            let route = self.route(exits)?;
            routes.extend(route.filter(|route| self.take(&mut books, route)));
        }
        let topology = &self.view.network.topology;
        match routes.len() {
            0 => Err(self.nothing()),
            found if found < self.wanted => Err(PathError::NotDisjoint {
                from: topology.fe(self.choice.source).name.clone(),
                to: self.target(),
                kind: kind.noun(),
                wanted: self.wanted,
                found,
            }),
            _ => {
                routes.sort_by_key(|route| route.cost);
                Ok(routes)
            }
        }
    }

    /// The parts of domains and the links between them, for [`disjoint`], with the first and the last part.
    fn parts(&self) -> Option<(usize, Vec<Edge>, [usize; 2])> {
        let (view, topology) = (self.view, &self.view.network.topology);
        let mut numbers: BTreeMap<FeId, usize> = BTreeMap::new();
        let target_domain = view.domain_of(self.choice.target);
        let is_whole = matches!(self.choice.target, Target::Domain(_));
        let mut part = |fe: FeId| {
            let domain = topology.domain_of(fe);
            // For a domain as the target, all its parts are equivalent.
            let name = if is_whole && domain == target_domain {
                *topology.members(domain).first()?
            } else {
                view.inside[domain.0].part(fe)?
            };
            let next = numbers.len();
            Some(*numbers.entry(name).or_insert(next))
        };
        let source = part(self.choice.source)?;
        let target = part(match self.choice.target {
            Target::Domain(domain) => *topology.members(domain).first()?,
            Target::Fe(fe, _) => fe,
        })?;
        let mut edges = Vec::new();
        let between = topology
            .links()
            .filter(|link| topology.is_between_domains(*link));
        for link in between.filter(|link| view.network.works(*link)) {
            let ends = topology.link(link).ends.each_ref().map(|end| end.fe);
            let offers = |fe: FeId| {
                let domain = topology.domain_of(fe);
                (is_whole && domain == target_domain)
                    || view.behaviour(domain, self.choice.behaviour).is_some()
            };
            let has_left = |fe| self.books.has_left(topology, link, fe, self.share);
            if ends.iter().all(|fe| offers(*fe) && has_left(*fe)) {
                let [a, b] = ends;
                edges.push(Edge {
                    parts: [part(a)?, part(b)?],
                    cost: u64::from(topology.link(link).cost),
                    link,
                });
            }
        }
        Some((numbers.len(), edges, [source, target]))
    }

    /// The error for no path at all: no path exists, or no path has the capacity.
    fn nothing(&self) -> PathError {
        let topology = &self.view.network.topology;
        let from = topology.fe(self.choice.source).name.clone();
        let to = self.target();
        if let Some(rate) = self.choice.rate {
            let plain = Choice {
                rate: None,
                spread: Spread::One,
                ..*self.choice
            };
            if choose(self.view, self.books, &plain).is_ok() {
                let bps = rate.as_bps();
                return PathError::NoCapacity { from, to, bps };
            }
        }
        PathError::NoPath {
            from,
            to,
            behaviour: self.choice.behaviour.map(str::to_owned),
        }
    }

    fn target(&self) -> String {
        let topology = &self.view.network.topology;
        match self.choice.target {
            Target::Domain(domain) => topology.domain(domain).name.clone(),
            Target::Fe(fe, Payload::Ip) => topology.fe(fe).name.clone(),
            Target::Fe(fe, Payload::EtherType(number)) => {
                format!("{} for {number:#06x}", topology.fe(fe).name)
            }
        }
    }
}
