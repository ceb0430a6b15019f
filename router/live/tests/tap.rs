//! A TAP device in a network namespace: the test reads the frames that the kernel sends, and writes frames to the
//! kernel.

use std::process::Command;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use weir_live::device::made::MakeError;
use weir_live::device::tap::Tap;
use weir_live::namespace::{Namespace, Signal, Spawner, signal};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 8];

/// Runs `work` in a new namespace and in a runtime; skips it where the machine permits no namespaces.
fn inside(work: impl AsyncFnOnce() + Send) {
    let Ok(namespace) = Namespace::new() else {
        println!("skipped: no network namespaces here");
        return;
    };
    let run = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let bounded = async { timeout(Duration::from_secs(20), work()).await };
        runtime.block_on(bounded).unwrap();
    };
    namespace.enter(run).unwrap();
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &HOST_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend(HOST_MAC.into_iter().chain([10, 0, 0, 2]).chain([0; 6]));
    frame.extend(target);
    frame
}

/// The next ARP frame that the kernel sends: it also sends router solicitations and the like.
async fn next_arp(tap: &Tap) -> Vec<u8> {
    let mut buffer = [0; 2000];
    loop {
        let len = tap.receive(&mut buffer).await.unwrap();
        if buffer[12..14] == [8, 6] {
            return buffer[..len].to_vec();
        }
    }
}

#[test]
fn the_kernel_uses_it_like_a_port_and_it_vanishes_with_its_owner() {
    inside(async || {
        let tap = Tap::open("edge-1.wan", MAC, 1400, None).unwrap();
        let shown = ip("link show edge-1.wan");
        assert!(shown.contains("mtu 1400"), "{shown}");
        assert!(shown.contains("02:00:00:00:00:07"), "{shown}");
        assert!(shown.contains("UP,LOWER_UP"), "{shown}");
        ip("addr add 10.0.0.1/24 dev edge-1.wan");

        assert!(tap.send(&arp([10, 0, 0, 1])).unwrap());
        let reply = next_arp(&tap).await;
        assert_eq!((&reply[..6], &reply[6..12]), (&HOST_MAC[..], &MAC[..]));
        assert_eq!(reply[20..22], [0, 2]);
        assert_eq!(reply[28..32], [10, 0, 0, 1]);

        tap.set_mtu(1500).unwrap();
        tap.set_mac(HOST_MAC).unwrap();
        let shown = ip("link show edge-1.wan");
        assert!(shown.contains("mtu 1500"), "{shown}");
        assert!(shown.contains("02:00:00:00:00:08"), "{shown}");

        drop(tap);
        // Some time after the descriptor has been closed, on a busy machine.
        while !ip("link show edge-1.wan").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn what_it_cannot_be_is_said() {
    inside(async || {
        let first = Tap::open("tap7", MAC, 1500, None).unwrap();
        let error = Tap::open("tap7", MAC, 1500, None).unwrap_err();
        assert!(matches!(error, MakeError::Taken(_)), "{error}");
        let error = Tap::open("lo", MAC, 1500, None).unwrap_err();
        assert!(matches!(error, MakeError::Taken(_)), "{error}");
        let error = Tap::open("tap8", MAC, 10, None).unwrap_err().to_string();
        assert!(
            error.contains("cannot set the MTU of the interface `tap8`"),
            "{error}"
        );
        let error = Tap::open("tap8", [1; 6], 1500, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("MAC address"), "{error}");
        assert_eq!(ip("link show tap8"), "");
        drop(first);
    });
}

#[test]
fn frames_that_the_kernel_does_not_take_are_counted() {
    inside(async || {
        let tap = Tap::open("tap7", MAC, 1500, None).unwrap();
        assert!(!tap.send(&[1; 13]).unwrap());
        assert!(!tap.send(&[]).unwrap());
        ip("link set tap7 down");
        assert!(!tap.send(&arp([10, 0, 0, 1])).unwrap());
        assert_eq!(tap.refused(), 3);
        ip("link set tap7 up");
        assert!(tap.send(&arp([10, 0, 0, 1])).unwrap());
    });
}

#[test]
fn a_kernel_that_sends_more_than_is_read_costs_bounded_memory() {
    inside(async || {
        let tap = Tap::open("tap7", MAC, 1500, None).unwrap();
        ip("link set tap7 txqueuelen 10");
        ip("addr add 10.0.0.1/24 dev tap7");
        ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:08 dev tap7");
        let socket = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
        for _ in 0..1000 {
            let _full = socket.send_to(&[7; 100], "10.0.0.2:9");
        }
        let (mut buffer, mut read) = ([0; 2000], 0);
        while let Ok(len) = timeout(Duration::from_millis(200), tap.receive(&mut buffer)).await {
            len.unwrap();
            read += 1;
        }
        assert!((1..1000).contains(&read), "{read}");
    });
}

/// Set for the process that holds a TAP until it is killed.
const HOLDER: &str = "WEIR_TAP_HOLDER";

#[test]
fn it_vanishes_when_its_owner_is_killed() {
    if std::env::var_os(HOLDER).is_some() {
        return hold();
    }
    let (Ok(namespace), Ok(spawner)) = (Namespace::new(), Spawner::new()) else {
        println!("skipped: no network namespaces here");
        return;
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tap::it_vanishes_when_its_owner_is_killed"]);
    command.env(HOLDER, "yes");
    let mut holder = spawner.spawn(&namespace, command).unwrap();
    let exists = || {
        namespace
            .enter(|| !ip("link show held").is_empty())
            .unwrap()
    };
    let becomes = |wanted| {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            exists() == wanted
        })
    };
    assert!(becomes(true));
    signal(&holder, Signal::Kill).unwrap();
    holder.wait().unwrap();
    assert!(becomes(false));
}

fn hold() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let _runtime = runtime.enter();
    let _tap = Tap::open("held", MAC, 1500, None).unwrap();
    std::thread::sleep(Duration::from_secs(20));
}
