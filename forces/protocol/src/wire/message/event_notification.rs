//! Event Notification (RFC 5810, 7.8): an FE reports an event by its path; the data is the report.

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of an Event Notification.
pub type EventNotification = Selects<EventNotificationRule>;

/// The rule for the body of an Event Notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventNotificationRule {}

impl Rule for EventNotificationRule {
    const PART: &'static str = "Event Notification";
    const NAMES: &'static str = "REPORT";
    const COUNT: (usize, usize) = (1, 1);

    fn permits(kind: OperationKind) -> bool {
        matches!(kind, OperationKind::Report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<EventNotificationRule>(&[11]);
    }
}
