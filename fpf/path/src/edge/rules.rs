//! The encapsulation table of an edge: which packets get which LID vectors.
//!
//! ```text
//!  packet --> its flow in the index? ---------------> rule of one flow \
//!        \--> shapes, lowest row first, while they --> rule of a shape  +--> the lowest row --> LID vectors
//!             could have a lower row                                   /
//! ```
//!
//! Source: Beben et al., section III.B. Rows are priorities: of the rules that match a packet, the one with the
//! lowest row counts.
//!
//! - A rule of one flow (a whole 5-tuple) costs one lookup, however many such rules there are; the key is compared
//!   whole. Other rules are in [`shapes`](crate::edge). A packet is looked up in the shapes that have a lower row
//!   than the rule of its flow; so rules that number in the thousands should have lower rows than general rules.
//! - Rules are added and removed one by one, whatever their number: nothing is rebuilt.
//! - A hit writes the one cache line of its rule: counters, and the time from which the timeout counts.
//! - Memory is bounded by the limit.
//! - Each worker has its own table, so that hits need no locks; the control side adds their counters up.
//!
//! Order of calls for a packet: [`Rules::find`] (or [`Rules::find_all`] for a burst), [`Rules::hit`],
//! [`Rules::headers`]; before [`Rules::hit`], [`Rules::shape`] returns whether the packet waits. A [`Found`] is valid
//! until the table is changed.
//!
//! An attacker cannot aim at places of the index (its hash is keyed), and cannot add rules by sending packets. Packets
//! that match nothing cost a lookup in every shape, and the number of shapes is bounded.

use std::collections::BTreeMap;
use std::hint::black_box;

use weir_base::{Instant, Span, Tally};
use weir_packet::key::Keys;
use weir_packet::{FlowKey, Reason};

use crate::edge::deadlines::{Deadlines, TICK, tick, ticks_in};
use crate::edge::filter::{Filter, Subject};
use crate::edge::index::Index;
use crate::edge::paths::Shared;
use crate::edge::profile::Shape;
use crate::edge::rule::{Full, Listed, Rule, State};
use crate::edge::shapes::Shapes;
use crate::header::Repr;

/// The rule that a packet matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(u32);

/// The table.
#[derive(Debug)]
pub struct Rules {
    hasher: Keys,
    /// The first rule of each chain of rules with the same key and shape.
    index: Index,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// Free entries.
    spare: Vec<u32>,
    rows: BTreeMap<u32, u32>,
    shapes: Shapes,
    paths: Shared,
    deadlines: Deadlines,
    limit: usize,
}

/// The part of a rule that packets need: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    key: FlowKey,
    /// Shape of the rule, or [`ONE_FLOW`].
    shape: u8,
    /// Whether a hit changes more than this cache line.
    has_state: bool,
    row: u32,
    /// The number of its set of vectors.
    paths: u32,
    /// The tick after the latest hit.
    latest: u32,
    /// The lower half of the packet counter.
    packets: u32,
    bytes: u64,
}

/// The part of a rule that most packets do not need.
#[derive(Debug)]
struct Cold {
    /// The filter, unless the key determines it.
    filter: Option<Box<Filter>>,
    state: Option<Box<State>>,
    timeout: Option<Span>,
    session: u32,
    /// The next rule with the same key and shape, by row.
    next: Option<u32>,
    /// The upper half of the packet counter.
    packets_high: u32,
}

/// Instead of a shape: the key is a whole flow.
const ONE_FLOW: u8 = u8::MAX;
/// Maximum rules of any table.
const LIMIT_MAX: usize = 1 << 24;
/// Packets that are looked up together, so that their cache misses overlap.
const BURST: usize = 64;
/// Maximum rules that one call checks for their timeout.
const CHECKED_MAX: usize = 64;

impl Rules {
    /// An empty table for up to `limit` rules, but at most 16 million. `secret` is the key of the flow hashes of
    /// packets. Address space for all rules is reserved now, so that no rule ever moves; memory is used as rules are
    /// added.
    pub fn new(limit: usize, secret: (u64, u64), now: Instant) -> Self {
        let limit = limit.min(LIMIT_MAX);
        Self {
            hasher: Keys::new(0, secret),
            index: Index::new(limit),
            hot: Vec::with_capacity(limit),
            cold: Vec::with_capacity(limit),
            spare: Vec::new(),
            rows: BTreeMap::new(),
            shapes: Shapes::default(),
            paths: Shared::default(),
            deadlines: Deadlines::new(limit, now),
            limit,
        }
    }

    /// Writes a row. If the row has the same filter already, the rule keeps its counters and the time of its latest
    /// hit; so a path changes between two packets.
    pub fn set(
        &mut self,
        row: u32,
        filter: &Filter,
        rule: &Rule,
        now: Instant,
    ) -> Result<(), Full> {
        match self.rows.get(&row).copied() {
            Some(entry) if self.filter(entry) == *filter => {
                self.change(entry, rule, now);
                Ok(())
            }
            Some(_) => {
                self.remove(row);
                self.insert(row, filter, rule, now)
            }
            None => self.insert(row, filter, rule, now),
        }
    }

    /// Removes a row; returns its rule.
    pub fn remove(&mut self, row: u32) -> Option<Listed> {
        let entry = self.rows.remove(&row)?;
        let listed = self.listed(entry);
        let (at, next) = (entry as usize, self.cold[entry as usize].next);
        let (key, shape) = (self.hot[at].key, self.hot[at].shape);
        let hash = self.hash(&key, shape);
        match self.first(hash, &key, shape) {
            Some(first) if first == entry => {
                self.index.remove(hash, entry);
                if let Some(next) = next {
                    self.index.insert(hash, next);
                }
            }
            Some(first) => {
                let mut before = first as usize;
                while let Some(after) = self.cold[before].next
                    && after != entry
                {
                    before = after as usize;
                }
                self.cold[before].next = next;
            }
            None => unreachable!("every rule is in a chain"),
        }
        if shape != ONE_FLOW {
            self.shapes.remove(shape, row);
        }
        self.paths.remove(self.hot[at].paths);
        self.deadlines.remove(entry);
        self.cold[at].state = None;
        self.cold[at].filter = None;
        self.spare.push(entry);
        Some(listed)
    }

    /// Removes rules whose timeout is over, and appends them to `expired`. One call does a bounded amount of work; if
    /// work remains, [`Self::due`] is not later than `now`.
    pub fn expire(&mut self, now: Instant, expired: &mut Vec<Listed>) {
        let now = tick(now);
        for _ in 0..CHECKED_MAX {
            let Some(entry) = self.deadlines.take_due(now) else {
                break;
            };
            match self.over(entry) {
                Some(over) if over > now => self.deadlines.put(entry, over),
                _ => expired.extend(self.remove(self.hot[entry as usize].row)),
            }
        }
    }

    /// The instant at which [`Self::expire`] has something to do.
    pub fn due(&self) -> Option<Instant> {
        (self.deadlines.due()).map(|at| Instant::ZERO + TICK.times(at.into()))
    }

    /// The rule for a packet.
    pub fn find(&self, subject: &Subject<'_>) -> Option<Found> {
        let of_flow = if subject.is_of_one_flow() {
            self.first(subject.hash, subject.key, ONE_FLOW)
        } else {
            None
        };
        self.outranked(of_flow, subject)
    }

    /// Appends the rules for some packets to `found`, in their order. Cache misses of up to 64 packets overlap.
    pub fn find_all(&self, subjects: &[Subject<'_>], found: &mut Vec<Option<Found>>) {
        for burst in subjects.chunks(BURST) {
            // Each loop does little but load, so that many loads are in flight at once.
            let mut places = [0; BURST];
            for (place, subject) in places.iter_mut().zip(burst) {
                *place = self.index.begin(subject.hash);
            }
            let touched = places[..burst.len()]
                .iter()
                .map(|place| self.index.touch(*place));
            black_box(touched.fold(0, |all, place| all ^ place));
            let mut candidates = [None; BURST];
            for (candidate, subject) in candidates.iter_mut().zip(burst) {
                *candidate = self.index.candidate(subject.hash);
            }
            let entries = candidates.iter().flatten();
            let touched = entries.map(|entry| self.hot[*entry as usize].row);
            black_box(touched.fold(0, |all, row| all ^ row));
            let looked_up = candidates.iter().zip(burst).map(|(candidate, subject)| {
                match candidate {
                    Some(entry) if self.is(*entry, subject.key, ONE_FLOW) => {
                        let entry = subject.is_of_one_flow().then_some(*entry);
                        self.outranked(entry, subject)
                    }
                    Some(_) => self.find(subject), // two hashes with the same tag
                    None => self.outranked(None, subject),
                }
            });
            found.extend(looked_up);
        }
    }

    /// Counts a matching packet, renews the timeout, and begins the next turn of the vectors. If the profile refuses
    /// the packet, this returns the reason to drop it.
    #[inline]
    pub fn hit(&mut self, found: Found, bytes: u64, now: Instant) -> Result<(), Reason> {
        let at = found.0 as usize;
        let hot = &mut self.hot[at];
        hot.latest = tick(now).saturating_add(1);
        if hot.has_state
            && let Some(state) = &mut self.cold[at].state
        {
            state.hit(self.paths.get(hot.paths), bytes, now)?;
        }
        hot.bytes += bytes;
        let (packets, is_over) = hot.packets.overflowing_add(1);
        hot.packets = packets;
        if is_over {
            self.cold[at].packets_high += 1;
        }
        Ok(())
    }

    /// The headers to put before a packet of this flow; more than one if a copy is sent with each. If vectors take
    /// turns, call [`Self::hit`] first.
    #[inline]
    pub fn headers(&self, found: Found, flow_hash: u64) -> &[Repr] {
        let turn = self.state(found).map_or(0, State::turn);
        let paths = self.hot[found.0 as usize].paths;
        self.paths.get(paths).choose(flow_hash, turn)
    }

    /// The rate and the limit of the queue in which packets of the rule wait before [`Self::hit`]; `None` if they do
    /// not wait.
    pub fn shape(&self, found: Found) -> Option<Shape> {
        self.state(found)?.shape()
    }

    fn state(&self, found: Found) -> Option<&State> {
        let at = found.0 as usize;
        let cold = self.hot[at].has_state.then(|| &self.cold[at]);
        cold?.state.as_deref()
    }

    /// Row and session of the rule that was found, for reports about a packet.
    pub fn name(&self, found: Found) -> (u32, u32) {
        let at = found.0 as usize;
        (self.hot[at].row, self.cold[at].session)
    }

    /// The rule of a row.
    pub fn get(&self, row: u32) -> Option<Listed> {
        self.rows.get(&row).map(|entry| self.listed(*entry))
    }

    /// The rows of all rules, lowest first.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        self.rows.keys().copied()
    }

    /// All rules, lowest row first.
    pub fn iter(&self) -> impl Iterator<Item = Listed> {
        self.rows.values().map(|entry| self.listed(*entry))
    }

    /// Time since the latest hit of the rule in a row, or since it was set; up to 200 ms too short.
    pub(super) fn idle(&self, row: u32, now: Instant) -> Option<Span> {
        let hot = &self.hot[*self.rows.get(&row)? as usize];
        Some(TICK.times(tick(now).saturating_sub(hot.latest).into()))
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of memory that lookups and hits access.
    pub fn look_up_bytes(&self) -> usize {
        self.index.state_bytes() + self.hot.len() * size_of::<Hot>()
    }

    /// The rule of a packet's flow, unless a rule of a shape has a lower row.
    #[inline]
    fn outranked(&self, of_flow: Option<u32>, subject: &Subject<'_>) -> Option<Found> {
        let mut best = of_flow;
        for probe in self.shapes.probes() {
            if best.is_some_and(|entry| self.hot[entry as usize].row < probe.lowest) {
                break;
            }
            let Some(key) = probe.key(subject) else {
                continue;
            };
            let hash = self.hash(&key, probe.number);
            let mut next = self.first(hash, &key, probe.number);
            while let Some(entry) = next {
                let row = self.hot[entry as usize].row;
                if best.is_some_and(|best| self.hot[best as usize].row < row) {
                    break;
                }
                if self.filter(entry).matches(subject) {
                    best = Some(entry);
                    break;
                }
                next = self.cold[entry as usize].next;
            }
        }
        best.map(Found)
    }

    /// The first rule of a chain.
    #[inline]
    fn first(&self, hash: u64, key: &FlowKey, shape: u8) -> Option<u32> {
        self.index.find(hash, |entry| self.is(entry, key, shape))
    }

    #[inline]
    fn is(&self, entry: u32, key: &FlowKey, shape: u8) -> bool {
        let hot = &self.hot[entry as usize];
        hot.shape == shape && hot.key == *key
    }

    /// The keyed hash of a key: for one flow the hash of its packets, for each shape a different hash.
    fn hash(&self, key: &FlowKey, shape: u8) -> u64 {
        let of_shape = u64::from(ONE_FLOW - shape).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hasher.hash_key(key) ^ of_shape
    }

    fn insert(&mut self, row: u32, filter: &Filter, rule: &Rule, now: Instant) -> Result<(), Full> {
        let full = Err(Full { limit: self.limit });
        if self.rows.len() >= self.limit {
            return full;
        }
        let (shape, key) = match filter.flow() {
            Some(flow) => (ONE_FLOW, flow),
            None => self.shapes.add(row, filter),
        };
        let hash = self.hash(&key, shape);
        let entry = self.spare.pop().unwrap_or(self.hot.len() as u32);
        let hot = Hot {
            key,
            shape,
            has_state: false,
            row,
            paths: self.paths.add(&rule.paths),
            latest: tick(now).saturating_add(1),
            packets: 0,
            bytes: 0,
        };
        let cold = Cold {
            filter: (shape != ONE_FLOW).then(|| Box::new(*filter)),
            state: None,
            timeout: None,
            session: 0,
            next: None,
            packets_high: 0,
        };
        match self.hot.get_mut(entry as usize) {
            Some(place) => {
                *place = hot;
                self.cold[entry as usize] = cold;
            }
            None => {
                self.hot.push(hot);
                self.cold.push(cold);
            }
        }
        if !self.link(entry, hash) {
            self.paths.remove(self.hot[entry as usize].paths);
            self.spare.push(entry);
            if shape != ONE_FLOW {
                self.shapes.remove(shape, row);
            }
            return full;
        }
        self.rows.insert(row, entry);
        self.change(entry, rule, now);
        Ok(())
    }

    /// Puts a new entry into the chain of its key. Returns whether there was room.
    fn link(&mut self, entry: u32, hash: u64) -> bool {
        let Hot {
            key, shape, row, ..
        } = self.hot[entry as usize];
        let is_new = |rules: &Self, other: u32| other != entry && rules.is(other, &key, shape);
        let Some(first) = self.index.find(hash, |other| is_new(self, other)) else {
            return self.index.insert(hash, entry);
        };
        if row < self.hot[first as usize].row {
            self.index.remove(hash, first);
            self.cold[entry as usize].next = Some(first);
            return self.index.insert(hash, entry);
        }
        let mut before = first as usize;
        while let Some(after) = self.cold[before].next
            && self.hot[after as usize].row < row
        {
            before = after as usize;
        }
        self.cold[entry as usize].next = self.cold[before].next.replace(entry);
        true
    }

    /// Sets the rule of an entry that is linked.
    fn change(&mut self, entry: u32, rule: &Rule, now: Instant) {
        let at = entry as usize;
        let paths = self.paths.add(&rule.paths);
        self.paths.remove(self.hot[at].paths);
        let cold = &mut self.cold[at];
        cold.state = State::new(rule, cold.state.take(), now);
        (cold.timeout, cold.session) = (rule.timeout, rule.session);
        let hot = &mut self.hot[at];
        (hot.paths, hot.has_state) = (paths, cold.state.is_some());
        self.deadlines.remove(entry);
        if let Some(over) = self.over(entry) {
            self.deadlines.put(entry, over);
        }
    }

    /// The tick at which a rule expires unless it is hit again.
    fn over(&self, entry: u32) -> Option<u32> {
        let timeout = self.cold[entry as usize].timeout?;
        let latest = self.hot[entry as usize].latest;
        Some(latest.saturating_add(ticks_in(timeout)))
    }

    fn filter(&self, entry: u32) -> Filter {
        match &self.cold[entry as usize].filter {
            Some(filter) => **filter,
            None => Filter::exact(&self.hot[entry as usize].key),
        }
    }

    fn listed(&self, entry: u32) -> Listed {
        let (hot, cold) = (&self.hot[entry as usize], &self.cold[entry as usize]);
        let state = cold.state.as_deref();
        Listed {
            row: hot.row,
            filter: self.filter(entry),
            rule: Rule {
                paths: self.paths.get(hot.paths).clone(),
                timeout: cold.timeout,
                session: cold.session,
                profile: state.and_then(State::profile),
            },
            hits: Tally {
                packets: u64::from(cold.packets_high) << 32 | u64::from(hot.packets),
                bytes: hot.bytes,
            },
            policed: state.map_or(Tally::ZERO, State::policed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::filter::RawFilter;
    use crate::edge::paths::{Paths, Spread};
    use crate::edge::profile::{Police, Profile};
    use crate::edge::samples::{filters, packets, whole};
    use crate::header::Vector;
    use proptest::prelude::*;
    use weir_base::{Bytes, Rate};
    use weir_packet::key::Family;

    const SECRET: (u64, u64) = (1, 2);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn to(lid: u8) -> Rule {
        Rule {
            paths: Paths::single(Vector::new(&[lid]).unwrap()),
            timeout: None,
            session: u32::from(lid),
            profile: None,
        }
    }

    fn flow(n: u32) -> FlowKey {
        let source = std::net::Ipv4Addr::from(n);
        FlowKey::ip(source.into(), [192, 0, 2, 1].into(), 17, 5000, 53)
    }

    /// A whole packet of a flow, as the plane looks it up.
    fn subject(key: &FlowKey) -> Subject<'_> {
        Subject {
            hash: Keys::new(0, SECRET).hash_key(key),
            ..whole(key)
        }
    }

    fn row_of(rules: &Rules, key: &FlowKey) -> Option<u32> {
        rules.find(&subject(key)).map(|found| rules.name(found).0)
    }

    #[test]
    fn the_lowest_row_counts() {
        let mut rules = Rules::new(10, SECRET, at(0));
        let all = RawFilter {
            version: Some(4),
            ..RawFilter::default()
        };
        let all = all.check().unwrap();
        rules
            .set(7, &Filter::exact(&flow(1)), &to(7), at(0))
            .unwrap();
        assert_eq!(row_of(&rules, &flow(1)), Some(7));
        assert_eq!(row_of(&rules, &flow(2)), None);
        rules.set(9, &all, &to(9), at(0)).unwrap();
        assert_eq!(row_of(&rules, &flow(1)), Some(7));
        assert_eq!(row_of(&rules, &flow(2)), Some(9));
        rules.set(3, &all, &to(3), at(0)).unwrap();
        assert_eq!(row_of(&rules, &flow(1)), Some(3));
        rules
            .set(1, &Filter::exact(&flow(1)), &to(1), at(0))
            .unwrap();
        assert_eq!(row_of(&rules, &flow(1)), Some(1));
        assert_eq!(rules.remove(1).unwrap().rule, to(1));
        assert_eq!(rules.remove(3).unwrap().rule, to(3));
        assert_eq!(row_of(&rules, &flow(1)), Some(7));
        assert_eq!(rules.remove(3), None);
        let listed: Vec<_> = rules.iter().map(|listed| listed.row).collect();
        assert_eq!((listed, rules.len()), (vec![7, 9], 2));
    }

    #[test]
    fn a_changed_path_keeps_counters_and_takes_effect_at_once() {
        let mut rules = Rules::new(10, SECRET, at(0));
        let filter = Filter::exact(&flow(1));
        rules.set(1, &filter, &to(1), at(0)).unwrap();
        let found = rules.find(&subject(&flow(1))).unwrap();
        rules.hit(found, 100, at(0)).unwrap();
        rules.set(1, &filter, &to(2), at(1)).unwrap();
        let listed = rules.get(1).unwrap();
        assert_eq!((listed.rule, listed.hits), (to(2), Tally::one(100)));
        assert_eq!(rules.headers(found, 0), to(2).paths.headers());
        // Another filter is another rule.
        rules
            .set(1, &Filter::exact(&flow(2)), &to(2), at(1))
            .unwrap();
        assert_eq!(rules.get(1).unwrap().hits, Tally::ZERO);
        assert_eq!(row_of(&rules, &flow(1)), None);
    }

    #[test]
    fn hits_renew_the_time_out() {
        let mut rules = Rules::new(10, SECRET, at(0));
        let rule = Rule {
            timeout: Some(Span::from_secs(1)),
            ..to(1)
        };
        rules
            .set(1, &Filter::exact(&flow(1)), &rule, at(0))
            .unwrap();
        let mut expired = Vec::new();
        let found = rules.find(&subject(&flow(1))).unwrap();
        rules.hit(found, 78, at(950)).unwrap();
        rules.expire(at(1900), &mut expired);
        assert_eq!(expired, []);
        let due = rules.due().unwrap();
        assert!((at(1950)..=at(2150)).contains(&due), "{due:?}");
        rules.expire(due, &mut expired);
        assert_eq!(expired.len(), 1);
        assert_eq!((expired[0].row, expired[0].hits), (1, Tally::one(78)));
        assert_eq!((rules.len(), rules.due()), (0, None));
        // A rule may get a timeout later, or lose it.
        rules
            .set(2, &Filter::exact(&flow(2)), &to(2), at(3000))
            .unwrap();
        assert_eq!(rules.due(), None);
        rules
            .set(2, &Filter::exact(&flow(2)), &rule, at(3000))
            .unwrap();
        assert!(rules.due().is_some());
        rules
            .set(2, &Filter::exact(&flow(2)), &to(2), at(3000))
            .unwrap();
        assert_eq!(rules.due(), None);
    }

    #[test]
    fn one_call_removes_a_bounded_number_and_says_that_there_are_more() {
        let mut rules = Rules::new(200, SECRET, at(0));
        let rule = Rule {
            timeout: Some(Span::from_secs(1)),
            ..to(1)
        };
        for n in 0..200 {
            rules
                .set(n, &Filter::exact(&flow(n)), &rule, at(0))
                .unwrap();
        }
        let mut expired = Vec::new();
        let mut calls = 0;
        while rules.due().is_some_and(|due| due <= at(5000)) {
            rules.expire(at(5000), &mut expired);
            calls += 1;
        }
        assert_eq!((calls, expired.len(), rules.len()), (4, 200, 0));
    }

    #[test]
    fn a_policed_rule_refuses_and_a_shaped_one_has_its_rate() {
        let mut rules = Rules::new(10, SECRET, at(0));
        let police = Police::new(Rate::from_bps(8000), Bytes(2000)).unwrap();
        let with = |profile| Rule {
            profile: Some(profile),
            ..to(1)
        };
        let policed = with(Profile::Policed(police));
        rules
            .set(1, &Filter::exact(&flow(1)), &policed, at(0))
            .unwrap();
        let found = rules.find(&subject(&flow(1))).unwrap();
        assert_eq!(rules.hit(found, 1500, at(0)), Ok(()));
        assert_eq!(rules.hit(found, 1500, at(0)), Err(Reason::Policed));
        // A changed rule keeps the tokens that are left.
        rules
            .set(1, &Filter::exact(&flow(1)), &policed, at(0))
            .unwrap();
        assert_eq!(rules.hit(found, 1500, at(0)), Err(Reason::Policed));
        assert_eq!(rules.hit(found, 1500, at(1000)), Ok(()));
        let listed = rules.get(1).unwrap();
        assert_eq!((listed.hits.packets, listed.policed.packets), (2, 2));
        assert_eq!(listed.rule, policed);
        assert_eq!(rules.shape(found), None);
        let shape = Shape::new(Rate::from_bps(8000), 10).unwrap();
        let shaped = with(Profile::Shaped(shape));
        rules
            .set(1, &Filter::exact(&flow(1)), &shaped, at(0))
            .unwrap();
        assert_eq!(rules.hit(found, 1500, at(0)), Ok(()));
        assert_eq!(rules.shape(found), Some(shape));
    }

    #[test]
    fn packets_of_one_flow_take_turns_by_weight() {
        let mut rules = Rules::new(10, SECRET, at(0));
        let vectors = [1, 2].map(|lid| Vector::new(&[lid]).unwrap());
        let rule = Rule {
            paths: Paths::new(Spread::ByPacket, &[(vectors[0], 3), (vectors[1], 1)]).unwrap(),
            ..to(1)
        };
        rules
            .set(1, &Filter::exact(&flow(1)), &rule, at(0))
            .unwrap();
        let found = rules.find(&subject(&flow(1))).unwrap();
        let of_second = (0..1000).filter(|_| {
            rules.hit(found, 78, at(0)).unwrap();
            rules.headers(found, 5)[0].vector() == &vectors[1]
        });
        assert_eq!(of_second.count(), 250);
    }

    #[test]
    fn a_full_table_refuses_rules_and_changes_those_it_has() {
        let mut rules = Rules::new(2, SECRET, at(0));
        for n in 1..3 {
            rules
                .set(n, &Filter::exact(&flow(n)), &to(1), at(0))
                .unwrap();
        }
        let third = rules.set(3, &Filter::exact(&flow(3)), &to(1), at(0));
        let text = "the encapsulation table is full: its limit is 2 rules";
        assert_eq!(third.unwrap_err().to_string(), text);
        assert_eq!(
            rules.set(2, &Filter::exact(&flow(3)), &to(1), at(0)),
            Ok(())
        );
        assert_eq!(rules.get(3), None);
    }

    #[test]
    fn packets_are_counted_beyond_32_bits() {
        let mut rules = Rules::new(2, SECRET, at(0));
        rules
            .set(1, &Filter::exact(&flow(1)), &to(1), at(0))
            .unwrap();
        let found = rules.find(&subject(&flow(1))).unwrap();
        rules.hot[found.0 as usize].packets = u32::MAX;
        rules.hit(found, 1, at(0)).unwrap();
        rules.hit(found, 1, at(0)).unwrap();
        assert_eq!(rules.get(1).unwrap().hits.packets, (1 << 32) + 1);
    }

    #[test]
    fn a_rule_has_one_hot_cache_line() {
        assert_eq!(size_of::<Hot>(), 64);
        assert!(size_of::<Cold>() <= 64);
    }

    proptest! {
        /// Compares with a search of all rules in the order of their rows.
        #[test]
        fn finds_what_a_linear_search_finds(
            calls in prop::collection::vec((0_u32..30, filters(), 0_u8..4), 1..80),
            packets in prop::collection::vec(packets(), 1..100),
        ) {
            let keys = Keys::new(0, SECRET);
            let subjects: Vec<_> = packets.iter().map(|(key, fragment, ethertype)| {
                let hash = keys.hash_key(key);
                let whole = whole(key);
                let has_ports = whole.has_ports && !fragment;
                Subject { hash, has_ports, ethertype: (*ethertype).into(), ..whole }
            }).collect();
            let mut rules = Rules::new(100, SECRET, at(0));
            let mut reference = BTreeMap::new();
            for (row, filter, call) in calls {
                match call {
                    0 => {
                        let removed = rules.remove(row).map(|listed| listed.filter);
                        prop_assert_eq!(removed, reference.remove(&row));
                    }
                    _ => {
                        rules.set(row, &filter, &to(call), at(0)).unwrap();
                        reference.insert(row, filter);
                    }
                }
                prop_assert_eq!(rules.len(), reference.len());
            }
            let listed: Vec<_> = rules.iter().map(|listed| (listed.row, listed.filter)).collect();
            prop_assert_eq!(listed, reference.clone().into_iter().collect::<Vec<_>>());
            let mut found = Vec::new();
            rules.find_all(&subjects, &mut found);
            for (subject, in_burst) in subjects.iter().zip(found) {
                let expected = reference.iter().find(|(_, filter)| filter.matches(subject));
                let row = |found: Option<Found>| found.map(|found| rules.name(found).0);
                prop_assert_eq!(row(rules.find(subject)), expected.map(|(row, _)| *row));
                prop_assert_eq!(row(in_burst), expected.map(|(row, _)| *row));
            }
        }

        /// No rule ends before its timeout, and each has ended two ticks after it.
        #[test]
        fn rules_end_when_they_should(
            calls in prop::collection::vec((0_u32..8, 1_u64..4000, 0_u64..700, any::<bool>()), 1..100),
        ) {
            let mut rules = Rules::new(100, SECRET, at(0));
            let mut ends = BTreeMap::new();
            let (mut now, mut expired) = (0, Vec::new());
            for (n, timeout, pass, hit) in calls {
                let rule = Rule { timeout: Some(Span::from_millis(timeout)), ..to(1) };
                match rules.find(&subject(&flow(n))) {
                    Some(found) if hit => {
                        rules.hit(found, 78, at(now)).unwrap();
                        let (timeout, _) = ends[&n];
                        ends.insert(n, (timeout, now + timeout));
                    }
                    Some(_) => {
                        rules.remove(n);
                        ends.remove(&n);
                    }
                    None => {
                        rules.set(n, &Filter::exact(&flow(n)), &rule, at(now)).unwrap();
                        ends.insert(n, (timeout, now + timeout));
                    }
                }
                now += pass;
                expired.clear();
                rules.expire(at(now), &mut expired);
                for listed in &expired {
                    let (_, end) = ends.remove(&listed.row).unwrap();
                    prop_assert!(end <= now, "{end} {now}");
                }
                let late = ends.values().any(|(_, end)| end + 200 <= now);
                prop_assert!(!late);
                prop_assert_eq!(ends.len(), rules.len());
            }
        }
    }

    /// More shapes than there may be: rules of several shapes share a coarser one, and a range of ports is compared.
    #[test]
    fn rules_beyond_the_bound_of_shapes_are_found_by_their_rows() {
        let mut rules = Rules::new(5000, SECRET, at(0));
        let mut filters = Vec::new();
        for row in 0..2000_u32 {
            let spread = row.wrapping_mul(2_654_435_761);
            let net = |bits: u32, len: u32| {
                let address = std::net::Ipv4Addr::from((10 << 24) | bits);
                Some(ipnet::IpNet::new(address.into(), len as u8).unwrap())
            };
            let first = (spread >> 8) as u16 % 100;
            let raw = RawFilter {
                source: net((spread % 64) << 3, 27 + spread % 6),
                destination: net((spread % 61) << 3, 27 + (spread >> 4) % 6),
                protocol: Some(17),
                source_ports: (row % 3 > 0).then_some((first, first + 30)),
                ..RawFilter::default()
            };
            filters.push(raw.check().unwrap());
            rules
                .set(row, &filters[row as usize], &to(1), at(0))
                .unwrap();
        }
        assert!(rules.shapes.probes().len() >= 64, "the bound is reached");
        let mut matched = 0;
        for n in 0..4000_u32 {
            let [source, destination] = [n % 67, n % 59].map(|bits| (10 << 24) | bits << 3);
            let [source, destination] = [source, destination].map(std::net::Ipv4Addr::from);
            let key = FlowKey::ip(source.into(), destination.into(), 17, (n % 150) as u16, 53);
            let expected = filters
                .iter()
                .position(|filter| filter.matches(&subject(&key)));
            assert_eq!(
                row_of(&rules, &key),
                expected.map(|row| row as u32),
                "{key}"
            );
            matched += usize::from(expected.is_some());
            if let Some(row) = expected
                && n % 7 == 0
            {
                // The next rule with a higher row takes its place.
                rules.remove(row as u32);
                let next = filters[row + 1..]
                    .iter()
                    .position(|f| f.matches(&subject(&key)));
                let next = next.map(|after| (row + 1 + after) as u32);
                let there = row_of(&rules, &key);
                rules.set(row as u32, &filters[row], &to(1), at(0)).unwrap();
                assert_eq!(there, next, "{key}");
            }
        }
        assert!((500..4000).contains(&matched), "{matched}");
    }

    #[test]
    fn other_families_are_found_by_their_ether_type() {
        let mut rules = Rules::new(2, SECRET, at(0));
        let filter = RawFilter {
            ethertype: Some(0x88f7),
            ..RawFilter::default()
        };
        rules
            .set(1, &filter.check().unwrap(), &to(1), at(0))
            .unwrap();
        let key = FlowKey::link([1; 6], [2; 6]);
        let mut subject = subject(&key);
        assert_eq!((key.family, rules.find(&subject)), (Family::Link, None));
        subject.ethertype = 0x88f7.into();
        assert!(rules.find(&subject).is_some());
    }
}
