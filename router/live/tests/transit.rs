//! Tests that transit is kept away from the kernel, between two hosts in namespaces.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    self, Peer, Stopped, eventually, in_namespace, pings, run, succeeds, two_hosts,
};
use weir_base::{Rate, Span, Streams};
use weir_discipline::Spec;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::device::{Device, OwnershipWindow};
use weir_live::kernel::transit::{Error, TransitGuard};
use weir_live::worker::{Lease, Worker};
use weir_path::egress::port::Link;
use weir_path::plane::{Mode, Plane};

/// The name of the test below that only holds a guard, and the environment variable that enables it.
const OWNER: &str = "transit::owner_of_a_guard";
const OWNER_WANTED: &str = "WEIR_TEST_OWNER";

/// Whether a tap at `ra` sees a ping of host `a` to `address`.
fn tap_sees(a: &Peer, address: &str) -> bool {
    let mut tap = AfPacket::open("ra", Options::default()).unwrap();
    pings(a, address);
    let mut seen = false;
    let destination: std::net::Ipv4Addr = address.parse().unwrap();
    tap.receive(1000, &mut |r| {
        seen |= r.bytes.get(30..34) == Some(&destination.octets());
    })
    .unwrap();
    seen
}

/// Takes the transit of a routed port, as a router does.
fn take(guard: &mut TransitGuard, port: &str) -> Result<(), Error> {
    let from = guard.take(&[(port.into(), Mode::Routed)])?;
    thread::sleep(from.remaining() + Duration::from_millis(1));
    guard.settle(&[port.into()])
}

#[test]
fn the_kernel_forwards_nothing_while_a_guard_lives() {
    in_namespace(|| {
        let (a, b) = two_hosts();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        eventually("the kernel forwards IPv6", || pings(&a, "fd00:2::2"));
        let mut guard =
            TransitGuard::install(&[("ra", Mode::Routed), ("rb", Mode::Routed)]).unwrap();
        let table = format!("table netdev weir-{}-", std::process::id());
        assert!(run("nft list ruleset").contains(&table));
        for there in [
            "10.0.2.2",
            "fd00:2::2",
            "10.0.2.77",
            "192.0.2.1",
            "2001:db8::1",
        ] {
            assert!(!pings(&a, there), "{there}");
        }
        // No host gets a message either: the kernel sends no "unreachable".
        let text = common::run(&a.command("ping -c 1 -W 1 192.0.2.1; true"));
        assert!(!text.to_lowercase().contains("unreachable"), "{text}");
        // The router itself is reachable at each of its addresses, and its neighbours are found.
        run("ip neigh flush all");
        a.run("ip neigh flush all");
        for own in [
            "10.0.1.1",
            "10.0.2.1",
            "fd00:1::1",
            "fd00:2::1",
            "fe80::ff:fe00:a%ea",
        ] {
            assert!(pings(&a, own), "{own}");
        }
        assert!(succeeds("ping -c 1 -W 10 10.0.2.2"));
        assert!(succeeds("ping -c 1 -W 10 fd00:1::2"));
        assert!(succeeds(
            &a.command("ping -c 1 -W 10 -b 10.0.1.255 -q; true")
        ));
        assert!(tap_sees(&a, "10.0.2.2"), "the tap is before the guard");

        guard.unprotect(&"ra".into()).unwrap();
        guard.unprotect(&"ra".into()).unwrap();
        assert!(!pings(&a, "10.0.2.2"), "rb drops the answer");
        take(&mut guard, "ra").unwrap();
        take(&mut guard, "ra").unwrap();
        guard.unprotect(&"rb".into()).unwrap();
        assert!(!pings(&b, "10.0.1.2"), "ra drops the answer");
        drop(guard);
        eventually("forwarding", || {
            pings(&a, "10.0.2.2") && pings(&b, "fd00:1::2")
        });
        assert_eq!(run("nft list ruleset"), "");
    });
}

#[test]
fn routes_that_reject_are_kept_from_the_kernel_too() {
    in_namespace(|| {
        let (a, _b) = two_hosts();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        run("ip route add unreachable 192.0.2.0/24 && ip route add prohibit 198.51.100.0/24");
        let hears = |to: &str| {
            let text = run(&a.command(&format!("ping -c 1 -W 1 {to}; true")));
            text.contains("Unreachable") || text.contains("filtered")
        };
        assert!(hears("192.0.2.1") && hears("198.51.100.1"));
        let _guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        assert!(!hears("192.0.2.1") && !hears("198.51.100.1"));
    });
}

#[test]
fn a_bridged_port_leaves_nothing_to_the_kernel() {
    in_namespace(|| {
        let (a, b) = two_hosts();
        eventually("the kernel answers", || pings(&a, "10.0.1.1"));
        let guard = TransitGuard::install(&[("ra", Mode::Bridged)]).unwrap();
        assert!(!pings(&a, "10.0.1.1"));
        assert!(pings(&b, "10.0.2.1"));
        assert!(tap_sees(&a, "10.0.1.1"));
        drop(guard);
        assert!(pings(&a, "10.0.1.1"));
    });
}

#[test]
fn rules_that_nobody_renews_leave_forwarding_to_the_kernel() {
    in_namespace(|| {
        let (a, _b) = two_hosts();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        for (mode, to) in [(Mode::Routed, "10.0.2.2"), (Mode::Bridged, "10.0.1.1")] {
            let mut guard = TransitGuard::install(&[]).unwrap();
            let lifetime = Lease::lifetime(Span::from_millis(300));
            let renewal = guard.lease(lifetime).unwrap();
            // Another router on the same machine, which renews nothing.
            let mut other = TransitGuard::install(&[]).unwrap();
            other.lease(lifetime).unwrap();
            guard.take(&[("ra".into(), mode)]).unwrap();
            guard.limit_local("ra", Some(Rate::from_bps(8))).unwrap(); // ends too
            thread::sleep(Duration::from_millis(100));
            assert!(pings(&a, to), "{}", run("nft list ruleset"));

            let mut worker = Worker::new(Plane::new(64, 1518, Streams::new(1)), Box::new(|_| {}));
            worker.set_lease(Some(Lease::new(renewal).unwrap()));
            let (handle, thread) = worker.start().unwrap();
            eventually("it renews them", || !pings(&a, to));
            let (end, ended) = mpsc::channel::<()>();
            handle
                .post(move |_| ended.recv().unwrap_or_default())
                .unwrap();
            eventually("it stands still", || pings(&a, to));
            drop(end);
            eventually("it renews them again", || !pings(&a, to));
            run("ip link set lo down");
            guard.follow_links().unwrap();
            assert!(!pings(&a, to), "it renews them by way of the port");
            run("ip link set lo up");
            guard.follow_links().unwrap();
            assert!(!pings(&a, to));
            guard.end_lease().unwrap();
            handle.post(Worker::stop).unwrap();
            thread.join().unwrap();
            thread::sleep(Duration::from_millis(400));
            assert!(!pings(&a, to), "they hold as long as the guard lives");
        }
    });
}

#[test]
fn the_lease_ends_while_rules_may_lend_frames_to_a_lost_device() {
    in_namespace(|| {
        let (a, _b) = two_hosts();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        let mut guard = TransitGuard::install(&[]).unwrap();
        let renewal = guard.lease(Span::from_millis(300)).unwrap();
        guard.take(&[("ra".into(), Mode::Routed)]).unwrap();
        let mut worker = Worker::new(Plane::new(64, 1518, Streams::new(1)), Box::new(|_| {}));
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        let spec = Spec::check("fifo", []).unwrap();
        let (plane, now) = (&mut worker.plane, weir_live::clock::now());
        plane.add_port("wan", "rb", Mode::Queue, spec, link, now);
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        worker.bind(None, Box::new(move |_| Err(gone())));
        worker.set_lease(Some(Lease::new(renewal).unwrap()));
        let (handle, thread) = worker.start().unwrap();
        eventually("it renews the lease", || !pings(&a, "10.0.2.2"));
        let lend = |worker: &mut Worker| worker.set_ownership(0, OwnershipWindow::ALWAYS);
        handle.call(lend).unwrap();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        handle.call(|worker| worker.set_unprotected(0)).unwrap();
        eventually("it renews the lease", || !pings(&a, "10.0.2.2"));
        handle.post(Worker::stop).unwrap();
        thread.join().unwrap();
    });
}

/// Does nothing unless the next test starts it.
#[test]
fn owner_of_a_guard() {
    if std::env::var_os(OWNER_WANTED).is_some() {
        let _guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        std::thread::sleep(Duration::from_secs(30));
    }
}

#[test]
fn the_kernel_forwards_again_when_the_owner_is_killed() {
    in_namespace(|| {
        let (a, _b) = two_hosts();
        eventually("the kernel forwards", || pings(&a, "10.0.2.2"));
        let mut owner = Stopped(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", OWNER])
                .env(OWNER_WANTED, "1")
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        );
        eventually("the guard", || run("nft list ruleset").contains("weir-"));
        assert!(!pings(&a, "10.0.2.2"));
        owner.0.kill().unwrap(); // signal 9
        let killed = Instant::now();
        eventually("forwarding", || pings(&a, "10.0.2.2"));
        assert!(killed.elapsed() < Duration::from_secs(1), "{killed:?}");
    });
}

#[test]
fn a_guard_can_be_renewed_when_its_interface_comes_back() {
    in_namespace(|| {
        run("ip link add x0 type veth peer name x1");
        let mut guard = TransitGuard::install(&[("x0", Mode::Routed)]).unwrap();
        run("ip link del x0");
        // Since Linux 6.16, a chain may wait for its interface; before, the interface must exist.
        if let Err(error) = take(&mut guard, "x0") {
            assert!(
                error.to_string().contains("chain at the ingress of x0"),
                "{error}"
            );
        }
        run("ip link add x0 type veth peer name x1");
        take(&mut guard, "x0").unwrap();
        assert!(run("nft list ruleset").contains("device \"x0\""));
        let too_long = "a-name-that-no-interface-can-have";
        let error = TransitGuard::install(&[("x1", Mode::Routed), (too_long, Mode::Routed)]);
        let error = error.unwrap_err();
        assert!(error.to_string().contains(too_long), "{error}");
        assert_eq!(run("nft list tables").lines().count(), 1, "all or nothing");
    });
}

#[test]
fn a_guard_of_many_ports_is_one_transaction() {
    in_namespace(|| {
        let names: Vec<_> = (0..40).map(|n| format!("x{n}")).collect();
        for pair in names.chunks(2) {
            run(&format!(
                "ip link add {} type veth peer name {}",
                pair[0], pair[1]
            ));
        }
        let ports: Vec<_> = names.iter().map(|n| (n.as_str(), Mode::Routed)).collect();
        let mut guard = TransitGuard::install(&ports).unwrap();
        for name in &names {
            assert!(
                guard
                    .limit_local(name, Some(weir_base::Rate::from_mbps(10)))
                    .unwrap()
            );
        }
        assert_eq!(run("nft list ruleset").matches("hook ingress").count(), 40);
        let too_long = "a-name-that-no-interface-can-have";
        assert!(take(&mut guard, too_long).is_err());
        guard.unprotect(&too_long.into()).unwrap();
        guard.unprotect(&"x0".into()).unwrap();
        let rules = run("nft list ruleset");
        assert_eq!(rules.matches("hook egress").count(), 39);
        assert!(!rules.contains("\"x0\""), "{rules}");
    });
}
