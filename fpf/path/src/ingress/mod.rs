//! The ingress edge of FPF in a plane: IP packets of a burst that get a header, before the others follow the routes.
//!
//! ```text
//!  a burst ---> at an edge port, transit, not for this router? --> rules, classes --no match--> by the routes, or drop
//!                                                                   | match          \--> copy to the classifier
//!                                                                   v
//!                      profile --> MTU of the first hop: too big, fragments, MSS --> push --> label_switch
//!                       |    ^
//!                       v    | step: at the rate of the path; the rules are asked again
//!                     [ queue ]
//! ```
//!
//! [`edge`](crate::edge) decides which packets match, and which vectors they get. The packet itself is not
//! changed: its TTL is decremented at the other edge, where it leaves the path. A packet whose TTL has run out gets no
//! header, and is answered here; a packet of a process of this machine leaves with the TTL that the process has chosen.

mod classes;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::Instant;
use weir_packet::{KeyKind, Reason};
use weir_path::classify::Classified;
use weir_path::ip::forward::Origin;
use weir_path::ip::icmp_cause::IcmpCause;
use weir_path::ip::tables::Action;
use weir_path::ip::waiting::Held;
use weir_path::plane::Plane;
use weir_path::plane::watch::Place;

use crate::edge::filter::{Filter, Subject};
use crate::edge::implicit::Implicit;
use crate::edge::rule::Listed;
use crate::edge::rules::{Found, Rules};
use crate::edge::setup::{Encapsulation, NoMatch, Setup};
use crate::edge::shaper::{QueueCounters, Released, Shapers};
use crate::forwarder::Forwarder;
use crate::header::Repr;

/// Maximum encapsulations of a plane.
const RULES_MAX: usize = 1 << 20;

/// The state of the edge.
pub(super) struct Edge {
    pub(super) setup: Arc<Setup>,
    rules: Rules,
    /// Flows with a rule of their class; `None` without classes.
    pub(super) implicit: Option<Box<Implicit>>,
    /// The name of each row.
    names: BTreeMap<u32, String>,
    /// By port: whether its packets may get a header.
    ports: Vec<bool>,
    /// The rules for the packets of a burst; empty between two bursts.
    found: Vec<Option<Found>>,
    /// Like `found`, for the rules of classes.
    of_class: Vec<Option<Found>>,
    /// Packets that wait for the rates of their paths.
    shapers: Shapers<Held>,
    /// Memory for the packets of a burst that get no header; empty between two bursts.
    others: Vec<Held>,
    /// Encapsulations that ended because no packet matched them for their timeout.
    pub(super) expired: u64,
}

/// An edge, with the forwarder and the plane that it has while it handles packets.
pub(super) struct Entering<'a> {
    pub(super) edge: &'a mut Edge,
    pub(super) fpf: &'a mut Option<Forwarder>,
    pub(super) plane: &'a mut Plane,
}

/// The rule that a packet matches.
#[derive(Clone, Copy)]
enum Match {
    /// A configured rule.
    Explicit(Found),
    /// A rule that follows from the class of the packet's flow.
    OfClass(Found),
}

/// An active encapsulation, and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveEncapsulation {
    /// Name of the encapsulation.
    pub name: String,
    /// The rule and its counters.
    pub listed: Listed,
    /// The counters of the queue, if packets wait for a rate.
    pub queue: QueueCounters,
}

impl Edge {
    /// An edge without rules.
    pub(super) fn new(plane: &Plane, now: Instant) -> Self {
        Self {
            setup: Arc::default(),
            rules: Rules::new(RULES_MAX, plane.streams.hash_key("flow-hash"), now),
            implicit: None,
            names: BTreeMap::new(),
            ports: Vec::new(),
            found: Vec::new(),
            of_class: Vec::new(),
            others: Vec::new(),
            shapers: Shapers::default(),
            expired: 0,
        }
    }

    /// The active encapsulations, lowest row first.
    pub(super) fn encapsulations(&self) -> impl Iterator<Item = ActiveEncapsulation> {
        self.rules.iter().map(|listed| ActiveEncapsulation {
            name: self.names.get(&listed.row).cloned().unwrap_or_default(),
            queue: self.shapers.books(listed.row),
            listed,
        })
    }

    /// Finds the edge's ports again, because ports or their numbers have changed. `removed` is the number that a
    /// removed port had.
    pub(super) fn bind(&mut self, plane: &Plane, removed: Option<usize>) {
        let named = &self.setup.ports;
        let is_edge = |name: &String| named.is_empty() || named.contains(name);
        self.ports = plane
            .ports()
            .iter()
            .map(|port| is_edge(&port.name))
            .collect();
        let waiting = self.shapers.packets_mut();
        waiting.for_each(|held| removed.into_iter().for_each(|gone| held.renumber(gone)));
    }

    /// Ends the encapsulations whose timeout is over. Returns the time of the next timeout.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let implicit = self.implicit.as_mut().and_then(|all| all.expire(now));
        if self.rules.due().is_some_and(|due| due <= now) {
            let mut expired = Vec::new();
            self.rules.expire(now, &mut expired);
            self.expired += expired.len() as u64;
            for Listed { row, .. } in &expired {
                self.names.remove(row);
            }
            if !expired.is_empty() {
                let rules = &self.rules;
                self.shapers.retain(|row| rules.get(row).is_some());
            }
        }
        [self.rules.due(), implicit].into_iter().flatten().min()
    }

    /// Whether packets that arrived through this port may get a header.
    pub(super) fn is_at(&self, ingress: Option<usize>) -> bool {
        ingress.is_some_and(|port| self.ports.get(port) == Some(&true))
    }

    /// Counts a matching packet, and returns the headers for it, or the reason to drop it.
    fn hit(
        &mut self,
        found: Match,
        bytes: u64,
        hash: u64,
        now: Instant,
    ) -> Result<&[Repr], Reason> {
        match (found, &mut self.implicit) {
            (Match::Explicit(found), _) => {
                self.rules.hit(found, bytes, now)?;
                Ok(self.rules.headers(found, hash))
            }
            (Match::OfClass(found), Some(implicit)) => {
                implicit.hit(found, bytes, now)?;
                Ok(implicit.headers(found, hash))
            }
            (Match::OfClass(_), None) => Err(Reason::FpfRule), // impossible without classes
        }
    }

    /// Takes out the packets that wait for the rates of their paths.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Held> {
        self.shapers.drain()
    }

    /// Replaces the setup. `secret` is the key of the flow hashes. Returns the implicit part, if it was replaced or
    /// removed.
    pub(super) fn change(
        &mut self,
        setup: Arc<Setup>,
        secret: (u64, u64),
        now: Instant,
    ) -> Option<Box<Implicit>> {
        let begins_anew = setup.classes.is_empty() || setup.flows_max != self.setup.flows_max;
        let gone = self.implicit.take_if(|_| begins_anew);
        if !setup.classes.is_empty() {
            let new = || Box::new(Implicit::new(setup.flows_max, secret, now));
            self.implicit.get_or_insert_with(new).change(&setup);
        }
        let filters = setup.encapsulations.iter().map(|e| (e.row, &e.filter));
        let filters: BTreeMap<u32, &Filter> = filters.collect();
        let rules = &self.rules;
        let before = |row| rules.get(row).map(|listed| listed.filter);
        self.shapers.retain(|row| {
            let filter = filters.get(&row).copied();
            filter.is_some() && before(row).as_ref() == filter
        });
        let rows = self.rules.rows().filter(|row| !filters.contains_key(row));
        for row in rows.collect::<Vec<_>>() {
            self.rules.remove(row);
        }
        self.names.clear();
        for encapsulation in &setup.encapsulations {
            let Encapsulation {
                name,
                row,
                filter,
                rule,
            } = encapsulation;
            // There is room: a configuration has fewer than RULES_MAX.
            if self.rules.set(*row, filter, rule, now).is_ok() {
                self.names.insert(*row, name.clone());
            }
        }
        self.setup = setup;
        gone
    }
}

impl Entering<'_> {
    /// Gives a header to those packets of a burst that match an encapsulation. The others remain.
    pub(super) fn take_burst(&mut self, burst: &mut Vec<Held>) {
        if !burst.iter().any(|held| self.edge.is_at(held.ingress)) {
            return; // a burst arrives through one port
        }
        let subjects = burst.iter().map(|held| {
            let Classified { packet, headers } = &held.packet;
            Subject::new(&self.plane.pool, packet, headers)
        });
        let subjects: Vec<_> = subjects.collect();
        let mut found = std::mem::take(&mut self.edge.found);
        let mut of_class = std::mem::take(&mut self.edge.of_class);
        self.edge.rules.find_all(&subjects, &mut found);
        if let Some(implicit) = &self.edge.implicit {
            implicit.find_all(&subjects, &mut of_class);
        }
        drop(subjects);
        let mut of_classes = of_class.drain(..);
        let mut others = std::mem::take(&mut self.edge.others);
        for (held, found) in burst.drain(..).zip(found.drain(..)) {
            let of_class = of_classes.next().flatten();
            let found = match found {
                Some(found) => Some(Match::Explicit(found)),
                None => self.find_class(&held, of_class),
            };
            if let Some(held) = self.encapsulate(held, found) {
                others.push(held);
            }
        }
        drop(of_classes);
        (self.edge.found, self.edge.of_class) = (found, of_class); // keeps their memory
        self.edge.others = std::mem::replace(burst, others);
    }

    /// Gives a packet the header of the encapsulation that was found for it. Returns it if it follows the routes.
    fn encapsulate(&mut self, held: Held, found: Option<Match>) -> Option<Held> {
        let is_ip = held.packet.headers.is_ip();
        let drops_others = self.edge.setup.no_match == NoMatch::Drop && is_ip;
        let is_concerned = found.is_some() || drops_others;
        if !self.edge.is_at(held.ingress)
            || !is_concerned
            || !held.origin.is_received()
            || is_own(self.plane, &held)
        {
            return Some(held);
        }
        let now = held.packet.packet.arrived;
        let headers = &held.packet.headers;
        if headers.ttl <= 1 && is_ip && held.origin == Origin::Transit {
            let cause = Some(IcmpCause::TtlExpired);
            self.plane.drop(held, Reason::TtlExpired, cause, now);
            return None;
        }
        let Some(found) = found else {
            let cause = Some(IcmpCause::Prohibited);
            self.plane.drop(held, Reason::FpfNoMatch, cause, now);
            return None;
        };
        self.enter(held, found, now);
        None
    }

    /// Sends a packet on the path of the encapsulation that was found for it, or lets it wait for the path's rate.
    fn enter(&mut self, held: Held, found: Match, now: Instant) {
        let shaped = match found {
            Match::Explicit(found) => self.edge.rules.shape(found).map(|shape| (found, shape)),
            Match::OfClass(_) => None,
        };
        let Some((found, shape)) = shaped else {
            return self.pass(held, found, now);
        };
        let (row, _) = self.edge.rules.name(found);
        let bytes = held.packet.packet.bytes();
        if let Err(held) = self.edge.shapers.offer(row, shape, held, bytes, now) {
            let packet = held.packet.packet;
            self.plane.discard(packet, Reason::FpfQueueFull);
        }
    }

    /// Sends the packets that have waited for the rates of their paths. Returns when to call again.
    pub(super) fn release(&mut self, now: Instant) -> Option<Instant> {
        while let Some(released) = self.edge.shapers.next(now) {
            let place = Place::coming(released.packet.ingress);
            self.leave_queue(released);
            self.plane.reclaim(place);
        }
        self.edge.shapers.due()
    }

    /// Sends a packet that has waited. It follows the current rules.
    fn leave_queue(&mut self, released: Released<Held>) {
        let Released { row, at, packet } = released;
        let mut held = packet;
        if held.ingress.is_none() {
            let packet = held.packet.packet;
            self.plane.fates.discard(packet, Reason::Reconfigured); // its port was removed
            return;
        }
        held.packet.packet.arrived = at;
        let Classified { packet, headers } = &held.packet;
        let subject = Subject::new(&self.plane.pool, packet, headers);
        let found = self.edge.rules.find(&subject);
        let found = found.filter(|_| self.edge.is_at(held.ingress));
        let is_same = found.is_some_and(|found| self.edge.rules.name(found).0 == row);
        match found.map(Match::Explicit) {
            Some(found) if is_same => self.pass(held, found, at),
            Some(found) => self.enter(held, found, at),
            None if self.edge.setup.no_match == NoMatch::Drop && held.packet.headers.is_ip() => {
                let cause = Some(IcmpCause::Prohibited);
                self.plane.drop(held, Reason::FpfNoMatch, cause, at);
            }
            None => self.leave(held, at),
        }
    }

    /// Sends a packet on the path of the encapsulation that was found for it, unless its profile refuses it.
    fn pass(&mut self, held: Held, found: Match, now: Instant) {
        let packet = &held.packet.packet;
        let hash = self.plane.pool.keys.hash(packet, KeyKind::Flow);
        match self.edge.hit(found, packet.bytes(), hash, now) {
            Ok(chosen) => match self.fpf.as_mut() {
                Some(fpf) => fpf.on(self.plane).fit_and_push(held, chosen, now),
                None => {
                    _ = self
                        .plane
                        .fates
                        .discard(held.packet.packet, Reason::FpfRule)
                }
            },
            Err(reason) => self.plane.discard(held.packet.packet, reason),
        }
    }

    /// Sends all waiting packets by the routes.
    pub(super) fn leave_all(&mut self, now: Instant) {
        for held in self.edge.drain().collect::<Vec<_>>() {
            let place = Place::coming(held.ingress);
            self.leave(held, now);
            self.plane.reclaim(place);
        }
    }

    /// Sends a packet by the routes, because its encapsulation was removed while it waited.
    #[cold]
    pub(super) fn leave(&mut self, held: Held, now: Instant) {
        match self.fpf {
            _ if !held.packet.headers.is_ip() => {
                _ = self.plane.fates.discard(held.packet.packet, Reason::NotIp)
            }
            Some(fpf) => fpf.on(self.plane).send_on(held, now),
            None => self.plane.send_on(held, now),
        }
    }
}

/// Whether a packet is for this router, so that it gets no header.
fn is_own(plane: &Plane, held: &Held) -> bool {
    let (destination, tables) = (held.packet.headers.destination(), plane.tables());
    let route = tables.numbered(tables.route_number(destination));
    let delegated = &plane.exception_policy().addresses;
    route.is_some_and(|route| route.action == Action::Local) || delegated.contains(&destination)
}
