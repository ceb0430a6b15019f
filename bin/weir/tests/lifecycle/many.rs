//! Many ports that appear and disappear at once, while others forward.

use std::fmt::Write;
use std::time::Duration;

use super::common::{Hosts, eventually};
use super::stream::{CONFIG, Stream};

/// The watchdog kills a router that sends no heartbeat for one second.
const WATCHDOG: Duration = Duration::from_secs(1);

#[test]
fn many_ports_come_and_go_at_once_while_others_forward() {
    let Some(hosts) = Hosts::new() else { return };
    for ports in [25, 60] {
        let mut with_more = format!("pool = 30000\n{CONFIG}");
        let base = with_more.clone();
        for n in 0..ports {
            hosts.ip(&format!("link add x{n} group 9 type veth peer name y{n}"));
            hosts.ip(&format!("link set x{n} up"));
            hosts.ip(&format!("link set y{n} up"));
            let port = format!(
                "[port.more{n}]\ninterface = \"x{n}\"\ndiscipline = {{ kind = \"fifo\", limit = \"9 packets\" }}\n"
            );
            write!(with_more, "{port}").unwrap();
        }
        let router = hosts.start("a", &base);
        let child = router.child();
        let apply = |config: &str| {
            let path = hosts.configure("a", config);
            let applied = hosts.weir(&["apply", path.to_str().unwrap()], "a");
            assert!(applied.status.success(), "{applied:?}\n{}", router.log());
        };
        for (what, config) in [("added", &with_more), ("removed", &base)] {
            let stream = Stream::begin(&hosts);
            apply(config);
            let (sent, arrivals) = stream.arrivals();
            let delay = arrivals.iter().map(|a| a.at.saturating_sub(a.sent)).max();
            let delay = delay.unwrap();
            println!(
                "{ports} ports {what}: a delay of {delay:?} at most, {} of {} came",
                arrivals.len(),
                sent.len()
            );
            assert!(delay < WATCHDOG / 3, "{ports} ports {what}: {delay:?}");
            assert_eq!(router.child(), child, "{}", router.log());
        }
        // All interfaces are removed at the same time.
        apply(&with_more);
        let stream = Stream::begin(&hosts);
        hosts.ip("link delete group 9");
        eventually("the ports are down", || {
            hosts.ask(&["show", "ports"], "a").matches(" down").count() == ports
        });
        let (sent, arrivals) = stream.arrivals();
        let delay = arrivals.iter().map(|a| a.at.saturating_sub(a.sent)).max();
        println!(
            "{ports} interfaces deleted: a delay of {:?} at most, {} of {} came",
            delay.unwrap(),
            arrivals.len(),
            sent.len()
        );
        assert_eq!(router.child(), child, "{}", router.log());
    }
}
