//! A router that hangs: it is killed so that the kernel forwards, or it resumes after a short pause without sending
//! stale packets.

use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use super::common::{Hosts, eventually, kill};
use super::stream::{CONFIG, Stream, count};

#[test]
fn a_hung_router_is_ended_and_the_kernel_forwards() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", CONFIG);
    let child = router.child();
    assert_ne!(child, router.process.id(), "a parent and a child");
    let stream = Stream::begin(&hosts);
    let stopped = Instant::now();
    kill(child, "STOP");
    assert_eq!(router.ended().code(), Some(1));
    let took = stopped.elapsed();
    assert!(router.log().contains("no sign of life"), "{}", router.log());
    thread::sleep(Duration::from_millis(300));
    let (sent, arrivals) = stream.arrivals();
    let count = count(sent, &arrivals);
    println!("a hang of {took:?}: {count:?}");
    // The limit is one second, checked five times a second; the test's machine may be slow.
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(count.lost < 3 * 4000, "{count:?}");
    let last = arrivals.iter().map(|a| a.number).max();
    assert!(
        last > Some(sent - 400),
        "the kernel forwards: {last:?} of {sent}"
    );
}

#[test]
fn after_a_pause_no_stale_packets_leave() {
    let Some(hosts) = Hosts::new() else { return };
    let config = format!("age_max = \"100 ms\"\nwatchdog = \"0 s\"\n{CONFIG}");
    let router = hosts.start("a", &config);
    assert_eq!(router.child(), router.process.id(), "one process");
    let stream = Stream::begin(&hosts);
    kill(router.child(), "STOP");
    let stopped = stream.now();
    thread::sleep(Duration::from_millis(600));
    let continued = stream.now();
    kill(router.child(), "CONT");
    thread::sleep(Duration::from_millis(300));
    let drops = hosts.ask(&["show", "drops", "--json"], "a");
    let drops: serde_json::Value = serde_json::from_str(&drops).unwrap();
    let stale = drops.as_array().unwrap().iter();
    let stale = stale.clone().find(|d| d["reason"] == "stale").unwrap();
    let stale = stale["count"]["packets"].as_u64().unwrap();
    assert!(
        (1000..2400).contains(&stale),
        "of half a second at 4000/s: {stale}"
    );
    let (sent, arrivals) = stream.arrivals();
    let count = count(sent, &arrivals);
    // Two or three other packets were in flight as well.
    assert!(
        stale.abs_diff(u64::from(count.lost)) < 10,
        "{count:?}, {stale} stale"
    );
    // The packets that the router held when it was stopped still leave: those of a turn and of its queue, more of them if the
    // machine had let the source send a burst. Nothing leaves of what came into the ring during the pause, except for
    // the last 100 ms; 50 more are for a stop that takes its time.
    let aged = stopped + Duration::from_millis(50)..continued - Duration::from_millis(150);
    let left = arrivals.iter().filter(|a| aged.contains(&a.sent)).count();
    assert_eq!(left, 0, "of {aged:?}");
}

#[test]
fn a_short_pause_kills_nothing() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", &format!("watchdog = \"2 s\"\n{CONFIG}"));
    let child = router.child();
    // First the child alone, for less than the limit; then both, for longer, as on a suspended machine.
    kill(child, "STOP");
    thread::sleep(Duration::from_millis(800));
    kill(child, "CONT");
    router.signal("STOP");
    kill(child, "STOP");
    thread::sleep(Duration::from_millis(2500));
    router.signal("CONT");
    kill(child, "CONT");
    thread::sleep(Duration::from_millis(1000));
    assert!(router.process.try_wait().unwrap().is_none());
    assert_eq!(router.child(), child, "{}", router.log());
}

#[test]
fn parent_and_child_share_signals_and_ends() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", CONFIG);
    router.signal("HUP");
    eventually("SIGHUP is passed on", || {
        router.log().contains("configuration changed")
    });
    router.signal("INT");
    assert!(router.ended().success());

    // A child crashes.
    let mut router = hosts.start("a", CONFIG);
    let stream = Stream::begin(&hosts);
    kill(router.child(), "KILL");
    assert_eq!(router.ended().code(), Some(1));
    assert!(
        router.log().contains("ended by signal 9"),
        "{}",
        router.log()
    );
    let lost = stream.end().lost;
    println!("a crash: {lost} lost of 4000 a second");
    assert!(lost < 160, "the kernel forwards: {lost} lost");

    // A parent is killed: the child stops in an orderly way.
    let mut router = hosts.start("a", CONFIG);
    let child = router.child();
    let stream = Stream::begin(&hosts);
    router.process.kill().unwrap();
    router.process.wait().unwrap();
    eventually("the child ends too", || {
        !std::path::Path::new(&format!("/proc/{child}")).exists()
    });
    assert!(
        router.log().contains("the supervisor has ended"),
        "{}",
        router.log()
    );
    let count = stream.end();
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");

    // An error that prevents the start is reported once, with its exit code.
    let mut router = hosts.spawn("a", &CONFIG.replace("r0", "nowhere"));
    assert_eq!(router.ended().code(), Some(2));
    assert_eq!(
        router.log().matches("No such device").count(),
        1,
        "{}",
        router.log()
    );
}

#[test]
fn the_service_manager_hears_of_start_life_and_end() {
    let Some(hosts) = Hosts::new() else { return };
    for watchdog in ["watchdog = \"0 s\"", "watchdog = \"1 s\""] {
        let path = hosts.folder.join("notify.sock");
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let hears = || {
            let mut buffer = [0; 64];
            let len = manager.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..len].to_vec()).unwrap()
        };
        let variable = ("NOTIFY_SOCKET", path.to_str().unwrap());
        let mut router = hosts.spawn_with("a", &format!("{watchdog}\n{CONFIG}"), &[variable]);
        assert_eq!(hears(), "READY=1");
        assert_eq!(hears(), "WATCHDOG=1");
        assert_eq!(hears(), "WATCHDOG=1");
        router.signal("TERM");
        eventually("it hears of the end", || hears() == "STOPPING=1");
        assert!(router.ended().success());
    }
}
