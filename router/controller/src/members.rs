//! The state that a controller keeps for each queue, in the order of joining.

use std::collections::BTreeMap;

use crate::contract::QueueName;

/// Values of queues by name. Sums iterate in the order of joining, so their results do not depend on the names.
#[derive(Clone, Debug)]
pub(crate) struct Members<T> {
    entries: Vec<(QueueName, T)>,
    /// Index of each queue in `entries`.
    places: BTreeMap<QueueName, usize>,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<T: Default> Members<T> {
    /// Adds a queue at the end, unless it is a member already.
    pub(crate) fn join(&mut self, queue: &QueueName) {
        let place = self.places.entry(queue.clone());
        place.or_insert_with(|| {
            self.entries.push((queue.clone(), T::default()));
            self.entries.len() - 1
        });
    }

    /// Removes a queue, if it is a member. The time is bounded by the number of queues.
    pub(crate) fn leave(&mut self, queue: &QueueName) {
        let Some(place) = self.places.remove(queue) else {
            return;
        };
        self.entries.remove(place);
        for (place, (queue, _)) in self.entries.iter().enumerate().skip(place) {
            self.places.insert(queue.clone(), place);
        }
    }

    /// The value of a queue, if it is a member.
    pub(crate) fn get_mut(&mut self, queue: &QueueName) -> Option<&mut T> {
        let place = self.places.get(queue)?;
        Some(&mut self.entries[*place].1)
    }

    /// All queues with their values, in the order of joining.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueName, &T)> {
        self.entries.iter().map(|(queue, value)| (queue, value))
    }

    /// The values, in the order of joining.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_joining_stays_when_one_leaves() {
        let name = |port: &str| QueueName {
            element: "r".into(),
            port: port.into(),
        };
        let mut members: Members<u32> = Members::default();
        for (value, port) in ["d", "b", "c", "a"].iter().enumerate() {
            members.join(&name(port));
            *members.get_mut(&name(port)).unwrap() = value as u32;
        }
        members.join(&name("b")); // a member already: nothing changes
        members.leave(&name("b"));
        members.leave(&name("x"));
        members.join(&name("b"));
        let all: Vec<_> = members.iter().map(|(q, v)| (&*q.port, *v)).collect();
        assert_eq!(all, [("d", 0), ("c", 2), ("a", 3), ("b", 0)]);
        for (port, value) in [("a", 3), ("b", 0), ("c", 2), ("d", 0)] {
            assert_eq!(members.get_mut(&name(port)), Some(&mut { value }));
        }
        assert_eq!(members.get_mut(&name("x")), None);
    }
}
