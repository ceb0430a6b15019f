//! Which neighbours are asked for at the same time, and whose question must give way.
//!
//! ```text
//!  a packet for an unknown neighbour
//!     |
//!     +-- it answered before ----> reserved places     full: the one who holds most gives one up,
//!     +-- otherwise -------------> the other places    or the oldest question, once it has had time
//! ```
//!
//! Source: RFC 6583, section 6. Whoever sends to addresses that nobody has makes a router ask for each
//! of them, and an unanswered question holds its place for seconds. Neighbours that exist answer
//! within milliseconds. So a question that has had [`AGE_MIN`] may be given up for a new one, and
//! places are shared fairly:
//!
//! - among source prefixes (/24, /56), and within one among its hosts: a newcomer whose prefix, or host,
//!   holds fewer places than the one that holds most takes one of those, however young. A scan from one
//!   network costs the others nothing.
//! - neighbours that answered before have [`RESERVED`] places that nobody else can take.
//! - one that failed recently takes a free place, or one by fairness, and no other: many dead
//!   destinations do not keep the control side busy.
//!
//! Places are counted for each family, because the kernel bounds each table by itself.
//!
//! What does not hold: if every packet of a scan has a source prefix of its own, each is as good as an honest
//! one. Then new neighbours are found as long as a question has its [`AGE_MIN`], that is up to
//! [`PLACES_MAX`] / [`AGE_MIN`] questions a second, and above that in proportion.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use weir_base::{Instant, Span};
use weir_packet::key::{SITE_PREFIX_V4, SITE_PREFIX_V6};

use crate::ip::forward::Neighbourhood;

/// Questions at the same time in each family.
pub const PLACES_MAX: usize = 192;
/// Places in each family for neighbours that answered before, beside the others.
pub const RESERVED: usize = 32;
/// A question has this time at least, unless its asker has more places than others. Neighbours on a
/// busy wireless network take tens of milliseconds.
pub const AGE_MIN: Span = Span::from_millis(100);
/// A neighbour that failed counts as such for this time.
const FAILED_FOR: Span = Span::from_secs(20);
/// Neighbours of each kind that are remembered.
const REMEMBERED_MAX: usize = 4096;

/// What the control side shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Find out this neighbour's MAC address.
    Ask(Neighbourhood),
    /// Ask no more: there are others to be asked for.
    GiveUp(Neighbourhood),
}

/// Places and memory.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Reserved or not, for each family.
    places: [Places; 4],
    answered: Recent,
    failed: Recent,
}

/// Where a question is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    places: usize,
    source: IpAddr,
}

impl Default for Questions {
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

impl Questions {
    /// Places for a new question, for IPv4 and IPv6: at most [`PLACES_MAX`].
    pub(crate) fn set_limits(&mut self, limits: [usize; 2]) {
        for (places, limit) in self.places.iter_mut().zip(limits) {
            places.limit = limit.clamp(1, PLACES_MAX);
        }
    }

    /// A place for a question, and the question that gives way to it; none if there is no place.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        neighbour: Neighbourhood,
        source: IpAddr,
    ) -> Option<(Place, Option<Neighbourhood>)> {
        let known = self.answered.get(&neighbour).is_some();
        let family = usize::from(neighbour.1.is_ipv6());
        let number = family + if known { 2 } else { 0 };
        let failed = self.failed.get(&neighbour);
        let failed = failed.is_some_and(|at| now.since(at) < FAILED_FOR);
        let places = &mut self.places[number];
        let victim = match places.count < places.limit {
            true => None,
            false => Some(places.victim(now, source, !failed)?),
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

    /// A question has ended.
    pub(crate) fn free(&mut self, place: Place, neighbour: Neighbourhood) {
        self.places[place.places].remove(place.source, neighbour);
    }

    /// This neighbour has a MAC address.
    pub(crate) fn answers(&mut self, neighbour: Neighbourhood, now: Instant) {
        self.answered.insert(neighbour, now);
    }

    /// This neighbour does not answer.
    pub(crate) fn fails(&mut self, neighbour: Neighbourhood, now: Instant) {
        self.failed.insert(neighbour, now);
    }
}

/// The questions of one kind, by who asks.
#[derive(Debug, Default)]
struct Places {
    limit: usize,
    count: usize,
    prefixes: BTreeMap<IpAddr, Prefix>,
}

#[derive(Debug, Default)]
struct Prefix {
    count: usize,
    /// Each host's questions, oldest first.
    hosts: BTreeMap<IpAddr, VecDeque<(Instant, Neighbourhood)>>,
}

impl Places {
    fn insert(&mut self, now: Instant, source: IpAddr, neighbour: Neighbourhood) {
        let prefix = self.prefixes.entry(prefix_of(source)).or_default();
        let questions = prefix.hosts.entry(source).or_default();
        questions.push_back((now, neighbour));
        prefix.count += 1;
        self.count += 1;
    }

    fn remove(&mut self, source: IpAddr, neighbour: Neighbourhood) {
        let Some(prefix) = self.prefixes.get_mut(&prefix_of(source)) else {
            return;
        };
        let Some(questions) = prefix.hosts.get_mut(&source) else {
            return;
        };
        let Some(at) = questions.iter().position(|(_, n)| *n == neighbour) else {
            return;
        };
        questions.remove(at);
        if questions.is_empty() {
            prefix.hosts.remove(&source);
        }
        prefix.count -= 1;
        self.count -= 1;
        if prefix.count == 0 {
            self.prefixes.remove(&prefix_of(source));
        }
    }

    /// Whose question gives way to one of `source`, and which. `by_age`: also if it would hold as
    /// many places as anybody.
    fn victim(
        &self,
        now: Instant,
        source: IpAddr,
        by_age: bool,
    ) -> Option<(IpAddr, Neighbourhood)> {
        let own = self.prefixes.get(&prefix_of(source));
        // Of several that hold as many the one with the oldest question.
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
    /// The host with most questions, and its oldest one.
    fn largest(&self) -> Option<(IpAddr, Instant, Neighbourhood)> {
        let oldest = |questions: &VecDeque<(Instant, Neighbourhood)>| questions.front().copied();
        let key = |questions: &VecDeque<_>| {
            let since = oldest(questions).map(|(since, _)| since);
            (questions.len(), std::cmp::Reverse(since))
        };
        let (host, questions) = self.hosts.iter().max_by_key(|(_, q)| key(q))?;
        let (since, neighbour) = oldest(questions)?;
        Some((*host, since, neighbour))
    }
}

/// The network that an address is likely to share with whoever can use it: that of its site.
fn prefix_of(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX << (32 - SITE_PREFIX_V4)).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX << (128 - SITE_PREFIX_V6)).into()),
    }
}

/// Neighbours with a time, the latest half of [`REMEMBERED_MAX`] at least.
#[derive(Debug, Default)]
struct Recent {
    young: HashMap<Neighbourhood, Instant>,
    old: HashMap<Neighbourhood, Instant>,
}

impl Recent {
    fn insert(&mut self, neighbour: Neighbourhood, now: Instant) {
        if self.young.len() >= REMEMBERED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(neighbour, now);
    }

    fn get(&self, neighbour: &Neighbourhood) -> Option<Instant> {
        let young = self.young.get(neighbour);
        young.or_else(|| self.old.get(neighbour)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn host(n: u32) -> Neighbourhood {
        (2, IpAddr::V4((0x0a63_0000 + n).into()))
    }

    fn source(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// One scanner has taken every place, `AGE_MIN` is not over.
    fn scanned() -> Questions {
        let mut questions = Questions::default();
        for n in 0..PLACES_MAX as u32 {
            let asked = questions.ask(START, host(n), source("10.1.1.66"));
            assert!(matches!(asked, Some((_, None))));
        }
        questions
    }

    fn given_up(questions: &mut Questions, now: Instant, n: u32, from: &str) -> Option<u32> {
        let (_, victim) = questions.ask(now, host(n), source(from))?;
        (0..10_000).find(|n| Some(host(*n)) == victim)
    }

    #[test]
    fn a_scan_from_one_network_or_host_costs_the_others_nothing() {
        let mut questions = scanned();
        let refused = questions.ask(START, host(1000), source("10.1.1.66"));
        assert_eq!(refused, None);
        // Another network, and then another host of the same one: the scanner's oldest give way.
        assert_eq!(given_up(&mut questions, START, 2000, "10.2.2.2"), Some(0));
        assert_eq!(given_up(&mut questions, START, 2001, "10.1.1.2"), Some(1));
        // Until shares are equal.
        let mut taken = 2;
        while given_up(&mut questions, START, 3000 + taken, "10.2.2.2").is_some() {
            taken += 1;
        }
        let share = PLACES_MAX as u32 / 2;
        assert!((share - 1..=share + 1).contains(&taken), "{taken}");
        assert_eq!(questions.places[0].count, PLACES_MAX);
    }

    #[test]
    fn the_oldest_question_gives_way_once_it_has_had_time() {
        let mut questions = scanned();
        let later = START + AGE_MIN;
        assert_eq!(given_up(&mut questions, later, 1000, "10.1.1.66"), Some(0));
        // With as many networks as questions nobody has more than others: the age counts.
        let mut questions = Questions::default();
        for n in 0..PLACES_MAX as u32 {
            let from = IpAddr::V4((0x0b00_0000 + (n << 8)).into());
            let now = START + Span::from_micros(u64::from(n));
            assert!(questions.ask(now, host(n), from).is_some());
        }
        assert_eq!(given_up(&mut questions, START, 1000, "10.2.2.2"), None);
        assert_eq!(given_up(&mut questions, later, 1000, "10.2.2.2"), Some(0));
        assert_eq!(given_up(&mut questions, later, 1001, "10.2.3.2"), None);
    }

    #[test]
    fn who_answered_before_has_a_place_and_who_failed_takes_none_by_age() {
        let mut questions = scanned();
        questions.answers(host(5000), START);
        questions.fails(host(5001), START);
        let known = questions.ask(START, host(5000), source("10.1.1.66"));
        let (place, None) = known.unwrap() else {
            panic!("it gave way to somebody");
        };
        let later = START + AGE_MIN;
        assert_eq!(given_up(&mut questions, later, 5001, "10.1.1.66"), None);
        assert_eq!(given_up(&mut questions, later, 5001, "10.2.2.2"), Some(0));
        let forgiven = START + FAILED_FOR;
        assert_eq!(
            given_up(&mut questions, forgiven, 5001, "10.1.1.66"),
            Some(1)
        );
        questions.free(place, host(5000));
        assert_eq!(questions.places[2].count, 0);
        assert!(questions.places[2].prefixes.is_empty());
    }

    #[test]
    fn the_limits_follow_the_kernels_and_memory_is_bounded() {
        let mut questions = Questions::default();
        questions.set_limits([1, 1000]);
        assert!(questions.ask(START, host(1), source("10.1.1.1")).is_some());
        assert!(questions.ask(START, host(2), source("10.1.1.1")).is_none());
        assert_eq!(questions.places[1].limit, PLACES_MAX);
        for n in 0..100_000 {
            questions.fails(host(n), START);
        }
        let recent = &questions.failed;
        assert!(recent.young.len() + recent.old.len() <= REMEMBERED_MAX);
        assert!(recent.get(&host(99_999)).is_some());
        assert!(recent.get(&host(98_000)).is_some());
        assert!(recent.get(&host(0)).is_none());
    }
}
