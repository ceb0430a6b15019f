//! A network namespace for each test, created by running the test again inside one.
//!
//! The tests touch nothing outside the namespaces. These vanish with their processes, which end after [`SECONDS_MAX`]
//! in any case.

#![allow(dead_code)] // each test file uses a part
#![allow(clippy::unwrap_used)] // a helper's panic is a failed test

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest duration of a test.
const SECONDS_MAX: u64 = 240;
/// Environment variable that is set in the process in the namespace.
const INSIDE: &str = "WEIR_TEST_INSIDE";

/// Runs the rest of a test, `body`, in a new network namespace. If that is not permitted, prints a message and returns.
pub(crate) fn in_namespace<F: FnOnce()>(body: F) {
    if std::env::var_os(INSIDE).is_some() {
        run("ip link set lo up");
        return body();
    }
    // `program::module::test::{{closure}}`
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let (_program, test) = path.split_once("::").unwrap();
    let Some(flags) = permitted_flags() else {
        println!("skipped {test}: neither root nor user namespaces are permitted here");
        return;
    };
    let program = std::env::current_exe().unwrap();
    let child = Command::new("unshare")
        .arg(flags)
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .spawn()
        .unwrap();
    let status = wait(Stopped(child), Duration::from_secs(SECONDS_MAX));
    assert!(status, "{test} failed in its namespace");
}

/// A process that is killed when this value is dropped.
pub(crate) struct Stopped(pub(crate) Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(mut child: Stopped, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.0.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Flags with which `unshare` can create a network namespace here: as root, or in a user namespace.
fn permitted_flags() -> Option<&'static str> {
    let works = |flags: &&str| {
        Command::new("unshare")
            .args([flags, "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    ["-n", "-Urn"].into_iter().find(works)
}

/// Runs a shell command, which must succeed, and returns its output.
pub(crate) fn run(command: &str) -> String {
    let output = Command::new("timeout")
        .args(["120", "sh", "-c", command])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a shell command succeeds.
pub(crate) fn succeeds(command: &str) -> bool {
    let status = Command::new("timeout")
        .args(["120", "sh", "-c", command])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

/// Another network namespace: a process that only sleeps in it.
pub(crate) struct Peer(Stopped);

impl Peer {
    /// A new namespace with its loopback interface up.
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare")
            .args(["-n", "sleep", &SECONDS_MAX.to_string()])
            .spawn()
            .unwrap();
        let peer = Self(Stopped(child));
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", peer.pid());
        eventually("the namespace of a peer", || {
            std::fs::read_link(&theirs).is_ok_and(|theirs| theirs != own)
        });
        peer.run("ip link set lo up");
        peer
    }

    /// The process in the namespace, for `ip link set .. netns PID`.
    pub(crate) fn pid(&self) -> u32 {
        self.0.0.id()
    }

    /// `command` as a command line that runs in this namespace.
    pub(crate) fn command(&self, command: &str) -> String {
        format!("nsenter -t {} -n {command}", self.pid())
    }

    /// Runs a command in this namespace; it must succeed.
    pub(crate) fn run(&self, command: &str) -> String {
        run(&self.command(command))
    }
}

/// Waits until `holds`, for at most thirty seconds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Hosts `a` (10.0.1.2) and `b` (10.0.2.2) on either side of this namespace, whose interfaces `ra` (10.0.1.1) and `rb`
/// (10.0.2.1) have the MAC addresses 02:..:0a and 02:..:0b; likewise for IPv6 in fd00:1::/64 and fd00:2::/64. The
/// kernel forwards.
pub(crate) fn two_hosts() -> (Peer, Peer) {
    let (a, b) = (Peer::new(), Peer::new());
    for (peer, side, net) in [(&a, "a", 1), (&b, "b", 2)] {
        run(&format!(
            "ip link add r{side} address 02:00:00:00:00:0{side} type veth \
                peer name e{side} address 02:00:00:00:01:0{side} netns {} && \
             ip link set r{side} up && ip addr add 10.0.{net}.1/24 dev r{side} && \
             ip addr add fd00:{net}::1/64 dev r{side} nodad",
            peer.pid()
        ));
        peer.run(&format!("ip link set e{side} up"));
        peer.run(&format!("ip addr add 10.0.{net}.2/24 dev e{side}"));
        peer.run(&format!("ip addr add fd00:{net}::2/64 dev e{side} nodad"));
        peer.run(&format!("ip route add default via 10.0.{net}.1"));
        peer.run(&format!("ip -6 route add default via fd00:{net}::1"));
    }
    run("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    (a, b)
}

/// Whether a host gets an answer to one ping.
pub(crate) fn pings(from: &Peer, address: &str) -> bool {
    succeeds(&from.command(&format!("ping -c 1 -W 1 {address}")))
}
