//! Which neighbours are being resolved, and which pending request gives way to a new one.
//!
//! ```text
//!  a packet for an unknown neighbour
//!     |
//!     +-- it answered before ----> reserved places     full: the source with most places loses one,
//!     +-- otherwise -------------> the other places    or the oldest request goes, if it is old enough
//! ```
//!
//! Source: RFC 6583, section 6. A sender to unused addresses makes a router send a request for each of
//! them, and an unanswered request holds its place for seconds. Neighbours that exist answer within
//! milliseconds. Therefore a request that is older than [`AGE_MIN`] may be given up for a new one, and
//! places are shared fairly:
//!
//! - Among source prefixes (/24, /56), and within a prefix among its hosts: a new request whose prefix, or
//!   host, holds fewer places than the largest holder takes one of the holder's places, however young. A
//!   scan from one network costs the others nothing.
//! - Neighbours that answered before have [`RESERVED`] places that no other neighbour can take.
//! - A neighbour that failed recently can take a free place, or a place by fairness, but not by age: many dead
//!   destinations must not keep the control side busy.
//!
//! Places are counted separately for each family, because the kernel bounds each table separately.
//!
//! The limit: if every packet of a scan has a different source prefix, it cannot be distinguished from an honest
//! packet. New neighbours are then found as long as each request keeps its place for [`AGE_MIN`], that is, up to
//! [`PLACES_MAX`] / [`AGE_MIN`] requests per second, and a proportional share of them above that.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use weir_base::{Instant, Span};
use weir_packet::key::{SITE_PREFIX_V4, SITE_PREFIX_V6};

use crate::ip::tables::NeighbourKey;

/// Maximum pending requests in each family.
pub const PLACES_MAX: usize = 192;
/// Further places in each family, for neighbours that answered before.
pub const RESERVED: usize = 32;
/// A request keeps its place for this long, unless its source has more places than others. Neighbours on
/// a busy wireless network take tens of milliseconds.
pub const AGE_MIN: Span = Span::from_millis(100);
/// The time for which a neighbour counts as failed.
const FAILED_FOR: Span = Span::from_secs(20);
/// Maximum neighbours of each kind that are remembered.
const REMEMBERED_MAX: usize = 4096;

/// A request to the control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourRequest {
    /// Resolve this neighbour's MAC address.
    Ask(NeighbourKey),
    /// Stop resolving it: another request needs the place.
    GiveUp(NeighbourKey),
}

/// The requests that are pending, and the neighbours that answered or failed recently.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    /// Reserved and other places, for each family.
    places: [Places; 4],
    answered: Recent,
    failed: Recent,
}

/// The place that a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    places: usize,
    source: IpAddr,
}

impl Default for PendingRequests {
    fn default() -> Self {
        let places = |limit| Places {
            limit,
            ..Places::default()
        };
        Self {
            places: [PLACES_MAX, PLACES_MAX, RESERVED, RESERVED].map(places),
            answered: Recent::default(),
            failed: Recent::default(),
        }
    }
}

impl PendingRequests {
    /// Limits the places for new neighbours, IPv4 and IPv6, up to [`PLACES_MAX`].
    pub(crate) fn set_limits(&mut self, limits: [usize; 2]) {
        for (places, limit) in self.places.iter_mut().zip(limits) {
            places.limit = limit.clamp(1, PLACES_MAX);
        }
    }

    /// Takes a place for a request, and returns also the request that is given up for it. `None` if no place is
    /// available.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        neighbour: NeighbourKey,
        source: IpAddr,
    ) -> Option<(Place, Option<NeighbourKey>)> {
        let known = self.answered.get(&neighbour).is_some();
        let family = usize::from(neighbour.1.is_ipv6());
        let number = family + if known { 2 } else { 0 };
        let failed = self.failed.get(&neighbour);
        let failed = failed.is_some_and(|at| now.since(at) < FAILED_FOR);
        let places = &mut self.places[number];
        let victim = if places.count < places.limit {
            None
        } else {
            Some(places.victim(now, source, !failed)?)
        };
        if let Some((asker, victim)) = victim {
            places.remove(asker, victim);
        }
        places.insert(now, source, neighbour);
        let place = Place {
            places: number,
            source,
        };
        Some((place, victim.map(|(_, neighbour)| neighbour)))
    }

    /// Frees the place of a request that has ended.
    pub(crate) fn free(&mut self, place: Place, neighbour: NeighbourKey) {
        self.places[place.places].remove(place.source, neighbour);
    }

    /// Remembers that this neighbour answered.
    pub(crate) fn answers(&mut self, neighbour: NeighbourKey, now: Instant) {
        self.answered.insert(neighbour, now);
    }

    /// Remembers that this neighbour did not answer.
    pub(crate) fn fails(&mut self, neighbour: NeighbourKey, now: Instant) {
        self.failed.insert(neighbour, now);
    }
}

/// The requests of one kind, by the source of the packet.
#[derive(Debug, Default)]
struct Places {
    limit: usize,
    count: usize,
    prefixes: BTreeMap<IpAddr, Prefix>,
}

#[derive(Debug, Default)]
struct Prefix {
    count: usize,
    /// Each host's requests, oldest first.
    hosts: BTreeMap<IpAddr, VecDeque<(Instant, NeighbourKey)>>,
}

impl Places {
    fn insert(&mut self, now: Instant, source: IpAddr, neighbour: NeighbourKey) {
        let prefix = self.prefixes.entry(prefix_of(source)).or_default();
        let requests = prefix.hosts.entry(source).or_default();
        requests.push_back((now, neighbour));
        prefix.count += 1;
        self.count += 1;
    }

    fn remove(&mut self, source: IpAddr, neighbour: NeighbourKey) {
        let Some(prefix) = self.prefixes.get_mut(&prefix_of(source)) else {
            return;
        };
        let Some(requests) = prefix.hosts.get_mut(&source) else {
            return;
        };
        let Some(at) = requests.iter().position(|(_, n)| *n == neighbour) else {
            return;
        };
        requests.remove(at);
        if requests.is_empty() {
            prefix.hosts.remove(&source);
        }
        prefix.count -= 1;
        self.count -= 1;
        if prefix.count == 0 {
            self.prefixes.remove(&prefix_of(source));
        }
    }

    /// The request to give up for a new request of `source`, together with the source that holds it. With `by_age`, a
    /// request older than [`AGE_MIN`] is given up even if `source` then holds as many places as the largest holder.
    fn victim(&self, now: Instant, source: IpAddr, by_age: bool) -> Option<(IpAddr, NeighbourKey)> {
        let own = self.prefixes.get(&prefix_of(source));
        // Among prefixes with equally many requests, the prefix with the oldest request.
        let key = |prefix: &Prefix| Some((prefix.count, std::cmp::Reverse(prefix.largest()?.1)));
        let most = self.prefixes.values().max_by_key(|p| key(p))?;
        let (host, since, neighbour) = most.largest()?;
        let has_fewer = match own {
            None => most.count > 1,
            Some(own) if std::ptr::eq(own, most) => {
                let count = |host| own.hosts.get(&host).map_or(0, VecDeque::len);
                count(host) > count(source) + 1
            }
            Some(own) => most.count > own.count + 1,
        };
        let old = by_age && now.since(since) >= AGE_MIN;
        (has_fewer || old).then_some((host, neighbour))
    }
}

impl Prefix {
    /// The host with the most requests, and its oldest request.
    fn largest(&self) -> Option<(IpAddr, Instant, NeighbourKey)> {
        let oldest = |requests: &VecDeque<(Instant, NeighbourKey)>| requests.front().copied();
        let key = |requests: &VecDeque<_>| {
            let since = oldest(requests).map(|(since, _)| since);
            (requests.len(), std::cmp::Reverse(since))
        };
        let (host, requests) = self.hosts.iter().max_by_key(|(_, q)| key(q))?;
        let (since, neighbour) = oldest(requests)?;
        Some((*host, since, neighbour))
    }
}

/// The network of the site that an address belongs to; a sender can forge any address in it.
fn prefix_of(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX << (32 - SITE_PREFIX_V4)).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX << (128 - SITE_PREFIX_V6)).into()),
    }
}

/// Neighbours, each with a time; at least the latest half of [`REMEMBERED_MAX`] are kept.
#[derive(Debug, Default)]
struct Recent {
    young: HashMap<NeighbourKey, Instant>,
    old: HashMap<NeighbourKey, Instant>,
}

impl Recent {
    fn insert(&mut self, neighbour: NeighbourKey, now: Instant) {
        if self.young.len() >= REMEMBERED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(neighbour, now);
    }

    fn get(&self, neighbour: &NeighbourKey) -> Option<Instant> {
        let young = self.young.get(neighbour);
        young.or_else(|| self.old.get(neighbour)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn host(n: u32) -> NeighbourKey {
        (2, IpAddr::V4((0x0a63_0000 + n).into()))
    }

    fn source(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// One scanner has taken every place, and `AGE_MIN` is not over.
    fn scanned() -> PendingRequests {
        let mut requests = PendingRequests::default();
        for n in 0..PLACES_MAX as u32 {
            let asked = requests.ask(START, host(n), source("10.1.1.66"));
            assert!(matches!(asked, Some((_, None))));
        }
        requests
    }

    fn given_up(requests: &mut PendingRequests, now: Instant, n: u32, from: &str) -> Option<u32> {
        let (_, victim) = requests.ask(now, host(n), source(from))?;
        (0..10_000).find(|n| Some(host(*n)) == victim)
    }

    #[test]
    fn a_scan_from_one_network_or_host_costs_the_others_nothing() {
        let mut requests = scanned();
        let refused = requests.ask(START, host(1000), source("10.1.1.66"));
        assert_eq!(refused, None);
        // Another network, and then another host of the same network: the scanner's oldest requests are given up.
        assert_eq!(given_up(&mut requests, START, 2000, "10.2.2.2"), Some(0));
        assert_eq!(given_up(&mut requests, START, 2001, "10.1.1.2"), Some(1));
        // Until shares are equal.
        let mut taken = 2;
        while given_up(&mut requests, START, 3000 + taken, "10.2.2.2").is_some() {
            taken += 1;
        }
        let share = PLACES_MAX as u32 / 2;
        assert!((share - 1..=share + 1).contains(&taken), "{taken}");
        assert_eq!(requests.places[0].count, PLACES_MAX);
    }

    #[test]
    fn the_oldest_question_gives_way_once_it_has_had_time() {
        let mut requests = scanned();
        let later = START + AGE_MIN;
        assert_eq!(given_up(&mut requests, later, 1000, "10.1.1.66"), Some(0));
        // With as many networks as requests, no network has more than others, so the age decides.
        let mut requests = PendingRequests::default();
        for n in 0..PLACES_MAX as u32 {
            let from = IpAddr::V4((0x0b00_0000 + (n << 8)).into());
            let now = START + Span::from_micros(u64::from(n));
            assert!(requests.ask(now, host(n), from).is_some());
        }
        assert_eq!(given_up(&mut requests, START, 1000, "10.2.2.2"), None);
        assert_eq!(given_up(&mut requests, later, 1000, "10.2.2.2"), Some(0));
        assert_eq!(given_up(&mut requests, later, 1001, "10.2.3.2"), None);
    }

    #[test]
    fn who_answered_before_has_a_place_and_who_failed_takes_none_by_age() {
        let mut requests = scanned();
        requests.answers(host(5000), START);
        requests.fails(host(5001), START);
        let known = requests.ask(START, host(5000), source("10.1.1.66"));
        let (place, None) = known.unwrap() else {
            panic!("it gave way to somebody");
        };
        let later = START + AGE_MIN;
        assert_eq!(given_up(&mut requests, later, 5001, "10.1.1.66"), None);
        assert_eq!(given_up(&mut requests, later, 5001, "10.2.2.2"), Some(0));
        let forgiven = START + FAILED_FOR;
        assert_eq!(
            given_up(&mut requests, forgiven, 5001, "10.1.1.66"),
            Some(1)
        );
        requests.free(place, host(5000));
        assert_eq!(requests.places[2].count, 0);
        assert!(requests.places[2].prefixes.is_empty());
    }

    #[test]
    fn the_limits_follow_the_kernels_and_memory_is_bounded() {
        let mut requests = PendingRequests::default();
        requests.set_limits([1, 1000]);
        assert!(requests.ask(START, host(1), source("10.1.1.1")).is_some());
        assert!(requests.ask(START, host(2), source("10.1.1.1")).is_none());
        assert_eq!(requests.places[1].limit, PLACES_MAX);
        for n in 0..100_000 {
            requests.fails(host(n), START);
        }
        let recent = &requests.failed;
        assert!(recent.young.len() + recent.old.len() <= REMEMBERED_MAX);
        assert!(recent.get(&host(99_999)).is_some());
        assert!(recent.get(&host(98_000)).is_some());
        assert!(recent.get(&host(0)).is_none());
    }
}
