//! A flood of redirects at ten times the channel rate does not starve control messages.

use std::time::Duration;

use weir_forces_live::tml::{Channel, Schedule};

use crate::tml::{CASES, flood};

const TIME: Duration = Duration::from_secs(3);

#[tokio::test]
async fn control_messages_survive_a_flood() {
    for case in CASES {
        for schedule in [Schedule::Dppbrb, Schedule::Priorities] {
            let outcome = flood::flood(*case, schedule, TIME).await;
            let (share, delay) = (outcome.share(), outcome.delay(0.99));
            assert!(
                share >= 0.99,
                "{case:?} {schedule:?}: {share:.3}, {delay:?}"
            );
            assert_eq!(outcome.dropped(Channel::Control), 0);
            assert!(outcome.dropped(Channel::Redirect) > 10_000);
            // The rest of the channel is for redirects.
            assert!(outcome.redirects > 100, "{}", outcome.redirects);
        }
    }
}

/// Without a discipline that distinguishes the two channels, credit still protects control messages from loss. But they
/// wait behind the flood: a full queue of 100 messages takes 80 ms.
#[tokio::test]
async fn one_queue_for_both_delays_them() {
    for case in CASES {
        let outcome = flood::flood(*case, Schedule::DropTail, TIME).await;
        let delay = outcome.delay(0.5);
        assert!(delay > Duration::from_millis(40), "{case:?}: {delay:?}");
        assert_eq!(outcome.dropped(Channel::Control), 0);
    }
}
