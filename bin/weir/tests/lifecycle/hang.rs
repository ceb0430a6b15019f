//! A router that hangs: it is replaced while the kernel forwards, or it resumes after a short pause without sending
//! stale packets. If its supervisor is frozen as well, the kernel forwards until both continue.

use std::fs;
use std::ops::Range;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::common::{ANSWERED, Hosts, Router, eventually, eventually_or, kill};
use super::stream::{CONFIG, Stream, count};
use weir_northbound::client;

/// Waits until a child other than this one answers, and returns it.
fn successor(hosts: &Hosts, router: &Router, before: u32) -> u32 {
    let mut child = before;
    let log = || router.log();
    eventually_or("another child", log, || {
        child = router.child();
        ![before, router.process.id()].contains(&child)
    });
    eventually_or("it answers", log, || {
        let status = client::get::<serde_json::Value>(&hosts.socket("a"), "/v1/status");
        status.is_ok_and(|status| status["pid"] == child)
    });
    child
}

/// Packets that a port has received.
fn received(hosts: &Hosts, port: usize) -> u64 {
    let ports = hosts.ask(&["show", "ports", "--json"], "a");
    let ports: serde_json::Value = serde_json::from_str(&ports).unwrap();
    ports[port]["received"]["packets"].as_u64().unwrap()
}

/// Packets that were sent within `time`.
fn within(sent: &[Duration], time: Range<Duration>) -> u32 {
    sent.iter().filter(|at| time.contains(at)).count() as u32
}

fn restarts(hosts: &Hosts) -> u64 {
    let status: serde_json::Value = client::get(&hosts.socket("a"), "/v1/status").unwrap();
    status["restarts"].as_u64().unwrap()
}

#[test]
fn a_hung_router_is_replaced_and_the_kernel_forwards_meanwhile() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", CONFIG);
    let child = router.child();
    assert_ne!(child, router.process.id(), "a parent and a child");
    assert_eq!(restarts(&hosts), 0);
    let stream = Stream::begin(&hosts);
    kill(child, "STOP");
    let stopped = stream.now();
    successor(&hosts, &router, child);
    eventually("the successor forwards", || received(&hosts, 0) > 400);
    let (sent, arrivals) = stream.arrivals();
    let count = count(&sent, &arrivals);
    println!("a hang: {count:?}");
    assert!(
        router.log().contains("forwarding thread made no progress"),
        "{}",
        router.log()
    );
    assert_eq!(restarts(&hosts), 1);
    // The limit is one second, checked five times a second; the test's machine may be slow.
    let slow = within(&sent, stopped..stopped + Duration::from_secs(3));
    assert!(count.lost <= slow, "{slow}, {count:?}");
    let last = arrivals.iter().map(|a| a.number as usize).max().unwrap();
    assert!(sent.len() - last < 400, "{last} of {}", sent.len());
    router.signal("TERM");
    assert!(router.ended().success(), "{}", router.log());
}

#[test]
fn while_router_and_supervisor_are_frozen_the_kernel_forwards() {
    let Some(hosts) = Hosts::new() else { return };
    for loopback in ["down", "up"] {
        hosts.ip(&format!("link set lo {loopback}"));
        let router = hosts.start("a", CONFIG);
        let child = router.child();
        let stream = Stream::begin(&hosts);
        router.signal("STOP");
        kill(child, "STOP");
        let stopped = stream.now();
        thread::sleep(Duration::from_secs(4));
        let continued = stream.now();
        kill(child, "CONT");
        router.signal("CONT");
        eventually_or(
            "it notices",
            || router.log(),
            || router.log().contains("the forwarding thread stalled"),
        );
        thread::sleep(Duration::from_millis(300));
        assert_eq!(router.child(), child, "{}", router.log());
        let before = received(&hosts, 0);
        eventually_or(
            "it forwards again",
            || router.log(),
            || received(&hosts, 0) > before,
        );
        let (sent, arrivals) = stream.arrivals();
        let count = count(&sent, &arrivals);
        println!(
            "frozen, lo {loopback}: {count:?} of {:?}",
            continued - stopped
        );
        // The kernel forwards after one second; the test's machine may be slow.
        let frozen = stopped + Duration::from_secs(2)..continued;
        let came = arrivals.iter().filter(|a| frozen.contains(&a.sent)).count();
        let passed = within(&sent, frozen);
        assert!(came * 2 > passed as usize, "{came} of {passed}");
        let before = within(&sent, stopped..stopped + Duration::from_secs(2));
        assert!(count.lost <= before, "{before}, {count:?}");
        assert_eq!(count.duplicated, 0, "{count:?}");
    }
}

#[test]
fn a_reader_of_the_log_that_stands_still_holds_up_nobody() {
    let Some(hosts) = Hosts::new() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env("WEIR_LOG", "debug") // a line for each change of the kernel's tables
        .arg("router")
        .arg(hosts.configure("a", CONFIG))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let process = hosts.spawner.spawn(&hosts.bed.router, command).unwrap();
    let mut router = Router {
        process,
        log: "/dev/null".into(),
    };
    let status = || client::get::<serde_json::Value>(&hosts.socket("a"), "/v1/status");
    eventually_or("it answers", String::new, || status().is_ok());
    let child = router.child();
    // Far more than a pipe holds.
    let lines: String = (0..400)
        .map(|n| format!("route add blackhole 10.99.{}.{}/32\n", n / 250, n % 250))
        .collect();
    let batch = hosts.folder.join("routes");
    fs::write(&batch, lines).unwrap();
    for _ in 0..20 {
        hosts.ip(&format!("-batch {}", batch.display()));
        hosts.ip("route flush type blackhole");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(status().is_ok());
    assert_eq!(router.child(), child);
    assert!(hosts.ping("-c 3 -W 5 10.77.2.2"));
    router.signal("TERM");
    assert!(router.ended().success());
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
    let (sent, arrivals) = stream.arrivals();
    let count = count(&sent, &arrivals);
    // Packets of the last tenth of a second are not stale.
    let paused = u64::from(within(&sent, stopped..continued));
    assert!(
        (paused / 2..=paused).contains(&stale),
        "{stale} of {paused}"
    );
    // Two or three other packets were in flight as well.
    assert!(
        stale.abs_diff(u64::from(count.lost)) < 10,
        "{count:?}, {stale} stale"
    );
    // The packets that the router held when it was stopped still leave: those of a poll iteration and of its queue, and
    // more of them if the machine had let the source send a burst. Packets that entered the ring during the pause do
    // not leave, except for the last 100 ms; 50 more are for a stop that is slow.
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

    // A child crashes, and is replaced.
    let mut router = hosts.start("a", CONFIG);
    let child = router.child();
    let stream = Stream::begin(&hosts);
    let killed = stream.now();
    kill(child, "KILL");
    successor(&hosts, &router, child);
    assert!(
        router.log().contains("killed by signal 9"),
        "{}",
        router.log()
    );
    let (sent, arrivals) = stream.arrivals();
    let count = count(&sent, &arrivals);
    println!("a crash: {count:?}");
    let second = within(&sent, killed..killed + Duration::from_secs(1));
    assert!(
        count.lost < second,
        "the kernel forwards: {second}, {count:?}"
    );
    router.signal("TERM");
    assert!(router.ended().success(), "{}", router.log());

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
        router.log().contains("the supervisor has died"),
        "{}",
        router.log()
    );
    let ended = stream.end();
    assert_eq!((ended.lost, ended.duplicated), (0, 0), "{ended:?}");

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
fn a_router_that_crashes_again_and_again_ends() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", CONFIG);
    let mut child = router.child();
    for _ in 0..5 {
        kill(child, "KILL");
        child = successor(&hosts, &router, child);
    }
    kill(child, "KILL");
    assert_eq!(router.ended().code(), Some(1));
    assert!(
        router.log().contains("6 times within 60 s"),
        "{}",
        router.log()
    );
    assert!(hosts.ping(ANSWERED));
}

#[test]
fn what_ends_a_router_ends_it_between_two_children_too() {
    let Some(hosts) = Hosts::new() else { return };
    let crash = |router: &Router| {
        kill(router.child(), "KILL");
        eventually_or(
            "the crash is noticed",
            || router.log(),
            || router.log().contains("until it is restarted"),
        );
    };
    // In the pause, or in the next start.
    for signal in ["TERM", "INT"] {
        let mut router = hosts.start("a", CONFIG);
        crash(&router);
        router.signal("HUP");
        router.signal(signal);
        assert!(router.ended().success(), "{}", router.log());
    }
    // The next start refuses the configuration.
    let mut router = hosts.start("a", CONFIG);
    hosts.configure("a", &CONFIG.replace("r0", "nowhere"));
    crash(&router);
    assert_eq!(router.ended().code(), Some(2), "{}", router.log());
    assert!(hosts.ping(ANSWERED));
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
            let mut buffer = [0; 256];
            loop {
                let len = manager.recv(&mut buffer).unwrap();
                match str::from_utf8(&buffer[..len]).unwrap() {
                    "STATUS=weir forwards" => {} // at any time
                    other => return other.to_owned(),
                }
            }
        };
        let variable = ("NOTIFY_SOCKET", path.to_str().unwrap());
        let mut router = hosts.spawn_with("a", &format!("{watchdog}\n{CONFIG}"), &[variable]);
        assert_eq!(hears(), "READY=1");
        assert_eq!(hears(), "WATCHDOG=1");
        assert_eq!(hears(), "WATCHDOG=1");
        if router.child() != router.process.id() {
            kill(router.child(), "KILL");
            eventually("it hears of the crash", || {
                hears() == "STATUS=the router was killed by signal 9; restarting it"
            });
            eventually("it hears of the next start", || {
                hears() == "READY=1\nSTATUS=restarted"
            });
        }
        router.signal("TERM");
        eventually("it hears of the end", || hears() == "STOPPING=1");
        assert!(router.ended().success());
    }
}
