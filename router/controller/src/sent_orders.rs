//! The orders sent to a queue, so that no order is sent twice.

use std::collections::BTreeMap;

use weir_base::setting::Setting;
use weir_base::{Instant, Span};

use crate::contract::{Order, Role};

/// An order is repeated after this time, because others may have changed the parameter at the element.
pub const REPEAT: Span = Span::from_secs(10);

/// The parameters sent to a queue, with the time of the order.
#[derive(Debug, Default)]
pub(crate) struct SentOrders(BTreeMap<&'static str, (Setting, Instant)>);

impl SentOrders {
    /// Records an order to a queue in this role; returns whether it must be sent.
    pub(crate) fn tell(&mut self, now: Instant, role: &Role, order: &Order) -> bool {
        let lasts = !role.renews.contains(&order.parameter)
            || matches!(order.value, Setting::Ratio(0.0) | Setting::Count(0));
        let is_in_force = self
            .0
            .get(order.parameter)
            .is_some_and(|(value, at)| *value == order.value && now.since(*at) < REPEAT);
        if is_in_force && lasts {
            return false;
        }
        let told = (order.value.clone(), now);
        self.0.insert(order.parameter, told);
        true
    }

    /// Forgets all sent orders.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::QueueName;

    #[test]
    fn a_parameter_that_lasts_for_a_time_only_is_set_again_unless_it_is_zero() {
        let role = Role {
            name: "lent",
            queues: [0, 1],
            sets: &["probability", "weight"],
            renews: &["probability"],
            reads: &[],
            about: "a queue that keeps a parameter for a time",
        };
        let mut told = SentOrders::default();
        let mut tell = |parameter, value| {
            let (element, port) = ("a".into(), "x".into());
            let queue = QueueName { element, port };
            let order = Order {
                queue,
                parameter,
                value: Setting::Ratio(value),
            };
            told.tell(Instant::ZERO, &role, &order)
        };
        let told = [0.5, 0.5, 0.0, 0.0].map(|value| tell("probability", value));
        assert_eq!(told, [true, true, true, false]);
        assert_eq!([0.5, 0.5].map(|value| tell("weight", value)), [true, false]);
    }
}
