//! The distinct routes, each once and with a number: a table of a million prefixes has few different routes.

use std::sync::Arc;

use super::Sorted;
use super::entry::Leaf;
use crate::ip::route::{Action, MovedRoute, Route, SCOPE_GLOBAL};

/// The largest route number: a table has at most this number of distinct routes.
pub(crate) const MAX: u32 = Leaf::NUMBER_MAX;

/// The number of [`UNREACHABLE`], which replaces routes that get no number of their own.
const OVERFLOW: u32 = 1;
const UNREACHABLE: Route = Route {
    action: Action::Unreachable,
    metric: 0,
    mtu: None,
    source: None,
    scope: SCOPE_GLOBAL,
    protocol: 0,
    object: None,
};

/// The routes by number.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    routes: Sorted<u32, Used>,
    numbers: Sorted<Arc<Route>, u32>,
    free: Sorted<u32, ()>,
    max: u32,
}

#[derive(Clone, Debug)]
struct Used {
    route: Arc<Route>,
    /// Number of prefixes with this route.
    prefixes: u32,
}

/// A number for one more prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) number: u32,
    /// The route, if no other prefix has it.
    pub(crate) first: Option<Arc<Route>>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::with_max(MAX)
    }
}

impl Numbers {
    fn with_max(max: u32) -> Self {
        let mut numbers = Self {
            routes: Sorted::default(),
            numbers: Sorted::default(),
            free: Sorted::default(),
            max,
        };
        numbers.take(UNREACHABLE); // forever, as number 1
        numbers
    }

    /// The route with a number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Route> {
        Some(&self.routes.get(&number)?.route)
    }

    /// Returns the number of a route for one more prefix. A route that would need a number beyond the maximum becomes
    /// "unreachable": without a route, its packets would follow a shorter prefix, perhaps into a routing loop.
    pub(crate) fn take(&mut self, route: Route) -> Taken {
        let route = Arc::new(route);
        let known = self.numbers.get(&route).copied();
        if known.is_none()
            && let Some(number) = self.free_number()
        {
            self.free.remove(&number);
            self.numbers.insert(Arc::clone(&route), number);
            let used = Used {
                route: Arc::clone(&route),
                prefixes: 1,
            };
            self.routes.insert(number, used);
            let first = Some(route);
            return Taken { number, first };
        }
        let number = known.unwrap_or(OVERFLOW);
        self.count(number, |prefixes| prefixes + 1);
        Taken {
            number,
            first: None,
        }
    }

    /// Takes a number back from a prefix; returns the route if no other prefix has it.
    pub(crate) fn give_back(&mut self, number: u32) -> Option<Arc<Route>> {
        if self.count(number, |prefixes| prefixes - 1)? > 0 {
            return None;
        }
        let used = self.routes.remove(&number)?;
        self.unlink(number, &used.route);
        self.free.insert(number, ());
        Some(used.route)
    }

    /// Changes routes in place, for all prefixes that have them: `change` returns the new route.
    pub(crate) fn change(&mut self, change: impl Fn(&Route) -> Option<Route>) -> Vec<MovedRoute> {
        let routes = self.routes.iter();
        let changed = routes.filter_map(|(number, used)| {
            let new = Arc::new(change(&used.route)?);
            Some((*number, used.clone(), new))
        });
        let changed: Vec<_> = changed.collect();
        for (number, Used { route, prefixes }, new) in &changed {
            self.unlink(*number, route);
            if self.numbers.get(new).is_none() {
                self.numbers.insert(Arc::clone(new), *number);
            }
            let used = Used {
                route: Arc::clone(new),
                prefixes: *prefixes,
            };
            self.routes.insert(*number, used);
        }
        let moved = |(_, used, after): (_, Used, _)| MovedRoute {
            before: used.route,
            after,
            prefixes: used.prefixes as usize,
        };
        changed.into_iter().map(moved).collect()
    }

    /// Removes the number of a route, unless the number listed for an equal route is another.
    fn unlink(&mut self, number: u32, route: &Arc<Route>) {
        if self.numbers.get(route) == Some(&number) {
            self.numbers.remove(route);
        }
    }

    fn free_number(&self) -> Option<u32> {
        let unused = || self.routes.last().map_or(1, |(last, _)| last + 1);
        let number = self
            .free
            .iter()
            .next()
            .map_or_else(unused, |(number, ())| *number);
        (number <= self.max).then_some(number)
    }

    /// Changes the count of a number's prefixes, and returns it.
    fn count(&mut self, number: u32, change: impl FnOnce(u32) -> u32) -> Option<u32> {
        let mut used = self.routes.get(&number)?.clone();
        used.prefixes = change(used.prefixes);
        let prefixes = used.prefixes;
        self.routes.insert(number, used);
        Some(prefixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(metric: u32) -> Route {
        Route {
            metric,
            ..Action::Blackhole.into()
        }
    }

    #[test]
    fn equal_routes_have_one_number_as_long_as_a_prefix_has_it() {
        let mut numbers = Numbers::default();
        let [a, b, a_again] = [7, 8, 7].map(|metric| numbers.take(route(metric)));
        assert_eq!([a.number, b.number, a_again.number], [2, 3, 2]);
        assert_eq!(a.first.as_deref(), Some(&route(7)));
        assert_eq!(a_again.first, None);
        assert_eq!(numbers.get(2), Some(&route(7)));
        assert_eq!(numbers.give_back(2), None);
        let before = numbers.clone();
        assert_eq!(numbers.give_back(2).as_deref(), Some(&route(7)));
        assert_eq!((numbers.get(2), before.get(2)), (None, Some(&route(7))));
        // A free number is reused.
        assert_eq!(
            [9, 10].map(|metric| numbers.take(route(metric)).number),
            [2, 4]
        );
    }

    #[test]
    fn a_changed_route_keeps_its_number() {
        let mut numbers = Numbers::default();
        let taken = [7, 8, 8].map(|metric| numbers.take(route(metric)).number);
        let seven_is_eight = |old: &Route| (old.metric == 7).then(|| route(8));
        let changed = numbers.change(seven_is_eight);
        assert_eq!(changed.len(), 1);
        assert_eq!(numbers.get(taken[0]), Some(&route(8)));
        // Equal routes may have two numbers now; each ends by itself.
        assert_eq!(numbers.take(route(7)).number, 4);
        assert_eq!(numbers.give_back(taken[0]).as_deref(), Some(&route(8)));
        assert_eq!(numbers.take(route(8)).number, taken[1]);
        assert_eq!(numbers.get(taken[1]), Some(&route(8)));
    }

    #[test]
    fn a_route_without_a_number_is_unreachable() {
        let mut numbers = Numbers::with_max(3);
        let taken = [5, 6, 7, 8, 6].map(|metric| numbers.take(route(metric)).number);
        assert_eq!(taken, [2, 3, 1, 1, 3]);
        assert_eq!(numbers.get(1), Some(&UNREACHABLE));
        for number in [1, 1] {
            assert_eq!(numbers.give_back(number), None);
        }
        assert_eq!(numbers.give_back(2).as_deref(), Some(&route(5)));
        assert_eq!(numbers.take(route(8)).number, 2);
    }
}
