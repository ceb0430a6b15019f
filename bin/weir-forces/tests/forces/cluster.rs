//! Several CEs that share their desired state in etcd: deaths, partitions and processes that stand still.
//!
//! ```text
//!   machine 1: etcd, ce-1 ---+
//!   machine 2: etcd, ce-2 ---+--- switch --- `weir fe`
//!   machine 3: etcd, ce-3 ---+
//! ```
//!
//! etcd runs with its defaults.

use std::fs;
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_benches::testbed::run;
use weir_live::namespace::Namespace;
use weir_northbound::client;

use crate::common::{Hosts, Router, eventually_or, weir};

/// Time within which another CE must serve.
const FAILOVER_MAX: Duration = Duration::from_secs(4);
const FE: &str = "edge1";

/// A machine with a member of etcd, and perhaps a CE.
struct Machine {
    host: Namespace,
    etcd: Option<Child>,
    ce: Option<Router>,
}

struct Cluster {
    hosts: Hosts,
    switch: Namespace,
    machines: Vec<Machine>,
    fe: Option<Router>,
}

impl Cluster {
    /// Starts three members of etcd, as many CEs, and the FE. `None` where namespaces or etcd are not available.
    fn new(ces: usize, fe: &str, transport: &str) -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("skipped: no etcd here (`scripts/install-packages`)");
            return None;
        }
        let hosts = Hosts::new()?;
        let switch = Namespace::new().unwrap();
        run(&switch, "ip", "link add sw type bridge").unwrap();
        run(&switch, "ip", "link set sw up").unwrap();
        let machines = (1..=3).map(|n| {
            let host = Namespace::new().unwrap();
            plug(&host, &switch, n);
            Machine {
                host,
                etcd: None,
                ce: None,
            }
        });
        let machines = machines.collect();
        plug(&hosts.bed.router, &switch, 100);
        let mut cluster = Self {
            hosts,
            switch,
            machines,
            fe: None,
        };
        for name in ["ce-1", "ce-2", "ce-3", FE] {
            let mut keys = Command::new(weir());
            let made = keys
                .arg("keys")
                .arg(cluster.folder.join(name))
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        (1..=3).for_each(|n| cluster.start_etcd(n));
        (1..=ces).for_each(|n| cluster.start_ce(n, transport));
        let of_ces = (1..=ces).map(|n| {
            format!(
                "[ce.ce-{n}]\nid = {n}\naddress = \"10.77.9.{n}:6704\"\ntransport = \"{transport}\"\n\
                 certificate = \"ce-{n}.crt\"\n"
            )
        });
        let config = format!(
            "[fe]\nid = 2\nname = \"{FE}\"\n{fe}\ncertificate = \"{FE}.crt\"\nkey = \"{FE}.key\"\n{}\
             [port.lan]\ninterface = \"r0\"\n[port.wan]\ninterface = \"r1\"\n",
            of_ces.collect::<String>()
        );
        cluster.fe = Some(cluster.hosts.start(FE, &config));
        Some(cluster)
    }

    fn start_etcd(&mut self, n: usize) {
        let [client, peer] = [2379, 2380].map(|port| format!("http://10.77.9.{n}:{port}"));
        let all = (1..=3).map(|n| format!("m{n}=http://10.77.9.{n}:2380"));
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("etcd.log"));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", &format!("m{n}"), "--data-dir"])
            .arg(self.folder.join(format!("etcd-{n}")))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap());
        let started = self.hosts.spawner.spawn(&self.machines[n - 1].host, etcd);
        self.machines[n - 1].etcd = Some(started.unwrap());
    }

    fn start_ce(&mut self, n: usize, transport: &str) {
        let config = format!(
            "id = {n}\ncertificate = \"ce-{n}.crt\"\nkey = \"ce-{n}.key\"\n\
             [etcd]\nendpoints = \"http://10.77.9.1:2379 http://10.77.9.2:2379 http://10.77.9.3:2379\"\n\
             name = \"ce-{n}\"\ninsecure = true\n\
             [listen.main]\naddress = \"10.77.9.{n}:6704\"\ntransport = \"{transport}\"\n\
             [fe.{FE}]\nid = 2\ncertificate = \"{FE}.crt\"\n[fe.{FE}.port.wan]\nrate = \"50 Mbit\"\n"
        );
        let name = format!("ce-{n}");
        let file = self.hosts.configure(&name, &config);
        let log = self.folder.join(format!("{name}.log"));
        let appended = fs::OpenOptions::new().create(true).append(true).open(&log);
        let mut command = Command::new(weir());
        command.arg("ce").arg(file);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(appended.unwrap());
        let process = self
            .spawner
            .spawn(&self.machines[n - 1].host, command)
            .unwrap();
        self.machines[n - 1].ce = Some(Router { process, log });
        self.eventually(&format!("{name} answers"), || {
            client::get::<Value>(&self.socket(&name), "/v1/fes").is_ok()
        });
    }

    fn kill_etcd(&mut self, n: usize) {
        if let Some(mut etcd) = self.machines[n - 1].etcd.take() {
            etcd.kill().unwrap();
            etcd.wait().unwrap();
        }
    }

    /// Waits for a condition; if it never holds, prints the logs.
    fn eventually(&self, what: &str, condition: impl FnMut() -> bool) {
        let read = |name: &str| {
            let text =
                fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            format!("{name}:\n{text}\n")
        };
        eventually_or(
            what,
            || ["ce-1", "ce-2", "ce-3", FE].map(read).concat(),
            condition,
        );
    }

    /// A row of a CE, if it answers.
    fn row(&self, n: usize, table: &str) -> Option<Value> {
        let rows: Value =
            client::get(&self.socket(&format!("ce-{n}")), &format!("/v1/{table}")).ok()?;
        rows.get(0).cloned()
    }

    fn is_in_sync(&self, n: usize) -> bool {
        self.row(n, "fes")
            .is_some_and(|row| row["state"] == "in sync")
    }

    /// The number of the CE that all running CEs call the leader, once the FE is in sync with it.
    fn leader(&self) -> usize {
        let mut leader = 0;
        self.eventually("a CE leads, and the FE is in sync", || {
            let running = (1..=3).filter(|n| self.machines[n - 1].ce.is_some());
            let names = running.map(|n| {
                self.row(n, "store")
                    .and_then(|row| row["leader"].as_str().map(str::to_owned))
            });
            let mut names: Vec<_> = names.collect();
            names.dedup();
            let [Some(name)] = &names[..] else {
                return false;
            };
            leader = name.trim_start_matches("ce-").parse().unwrap();
            self.is_in_sync(leader)
        });
        leader
    }

    /// Waits until a CE has the FE in sync, and returns the CE and the time since `from`.
    fn taken_over(&self, from: Instant, among: &[usize]) -> (usize, Duration) {
        let mut by = None;
        self.eventually("another CE serves", || {
            by = among
                .iter()
                .find(|n| self.is_in_sync(**n))
                .map(|n| (*n, from.elapsed()));
            by.is_some()
        });
        by.unwrap()
    }

    /// Sets the rate of a port through a CE: the output, and whether the CE has accepted it.
    fn set_rate(&self, n: usize, mbit: usize) -> (bool, String) {
        let change = format!("{FE}:port.wan.rate={mbit} Mbit");
        let done = self.weir(&["set", &change], &format!("ce-{n}"));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), said)
    }

    /// The running rate in Mbit/s, per the FE.
    fn rate(&self) -> u64 {
        let ports: Value = client::get(&self.socket(FE), "/v1/ports").unwrap();
        let mut rows = ports.as_array().unwrap().iter();
        let wan = rows.find(|row| row["port"] == "wan").unwrap();
        wan["rate_bps"].as_u64().unwrap_or(0) / 1_000_000
    }

    /// Sets the link of a machine up or down.
    fn link(&self, n: usize, state: &str) {
        run(&self.switch, "ip", &format!("link set s{n} {state}")).unwrap();
    }

    fn others(&self, leader: usize) -> Vec<usize> {
        let others = (1..=3).filter(|n| *n != leader && self.machines[n - 1].ce.is_some());
        others.collect()
    }
}

impl Deref for Cluster {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (1..=3).for_each(|n| self.kill_etcd(n));
    }
}

/// Connects a host to the switch.
fn plug(host: &Namespace, switch: &Namespace, n: usize) {
    let commands = [
        (
            switch,
            format!("link add s{n} type veth peer name c0 netns {}", host.path()),
        ),
        (switch, format!("link set s{n} master sw up")),
        (host, format!("address add 10.77.9.{n}/24 dev c0")),
        (host, "link set c0 up".to_owned()),
        (host, "link set lo up".to_owned()),
    ];
    for (host, arguments) in commands {
        run(host, "ip", &arguments).unwrap();
    }
}

/// Rounds of each kind of death: WEIR_FORCES_ROUNDS, or three.
fn rounds() -> usize {
    let given = std::env::var("WEIR_FORCES_ROUNDS");
    given.map_or(3, |text| text.parse().unwrap())
}

const HOT: &str = "standby = \"hot\"\nce_dead = \"1 s\"";
const COLD: &str = "standby = \"cold\"\nce_dead = \"1 s\"";

fn leaders_die(ces: usize, fe: &str, transport: &str) {
    let Some(mut cluster) = Cluster::new(ces, fe, transport) else {
        return;
    };
    let mut leader = cluster.leader();
    for round in 0..rounds() {
        let mbit = 20 + round;
        let (is_set, said) = cluster.set_rate(leader, mbit);
        assert!(is_set, "{said}");
        let killed = Instant::now();
        cluster.machines[leader - 1].ce.take().unwrap().kill();
        let (next, took) = cluster.taken_over(killed, &cluster.others(leader));
        println!(
            "{ces} CEs, {transport}, {}: ce-{next} serves after {took:.2?}",
            fe.lines().next().unwrap()
        );
        assert!(took < FAILOVER_MAX, "{took:?}");
        assert_eq!(cluster.rate(), mbit as u64, "nothing was lost");
        assert!(cluster.set_rate(next, mbit + 50).0);
        assert_eq!(cluster.rate(), mbit as u64 + 50);
        cluster.start_ce(leader, transport);
        leader = cluster.leader();
        assert_eq!(leader, next);
    }
}

#[test]
fn a_leader_dies_and_another_ce_serves_within_four_seconds() {
    leaders_die(2, HOT, "quic");
    leaders_die(2, COLD, "quic");
    leaders_die(2, COLD, "tcp_udp");
    leaders_die(3, HOT, "quic");
    leaders_die(3, COLD, "tcp_udp");
}

#[test]
fn a_machine_with_the_leader_and_a_member_of_etcd_dies() {
    let Some(mut cluster) = Cluster::new(3, HOT, "quic") else {
        return;
    };
    for _ in 0..rounds() {
        let leader = cluster.leader();
        let killed = Instant::now();
        cluster.machines[leader - 1].ce.take().unwrap().kill();
        cluster.kill_etcd(leader);
        let (next, took) = cluster.taken_over(killed, &cluster.others(leader));
        println!("a machine dies: ce-{next} serves after {took:.2?}");
        assert!(took < FAILOVER_MAX, "{took:?}");
        cluster.start_etcd(leader);
        cluster.start_ce(leader, "quic");
    }
}

#[test]
fn any_member_of_etcd_dies_and_changes_go_on() {
    let Some(mut cluster) = Cluster::new(2, HOT, "quic") else {
        return;
    };
    for n in 1..=3 {
        let leader = cluster.leader();
        let killed = Instant::now();
        cluster.kill_etcd(n);
        let mut took = None;
        cluster.eventually("a change is made", || {
            let done = (1..=2).find(|ce| cluster.set_rate(*ce, 20 + n).0);
            took = done.map(|by| (by, killed.elapsed()));
            took.is_some()
        });
        let (by, took) = took.unwrap();
        println!("etcd m{n} dies while ce-{leader} leads: ce-{by} makes a change after {took:.2?}");
        assert!(took < FAILOVER_MAX, "{took:?}");
        cluster.eventually("the FE has the change", || cluster.rate() == 20 + n as u64);
        cluster.start_etcd(n);
    }
}

#[test]
fn a_deposed_leader_changes_nothing() {
    let Some(cluster) = Cluster::new(2, HOT, "quic") else {
        return;
    };
    let leader = cluster.leader();
    assert!(cluster.set_rate(leader, 20).0);
    let follower = 3 - leader;
    let (is_set, said) = cluster.set_rate(follower, 66);
    let expected = format!("this CE is not the leader: ce-{leader} is");
    assert!(!is_set && said.contains(&expected), "{said}");
    // The deposed leader still has a change that an operator has sent.
    let old = cluster.machines[leader - 1].ce.as_ref().unwrap();
    old.signal("STOP");
    let stopped = Instant::now();
    let late = thread::scope(|scope| {
        let late = scope.spawn(|| cluster.set_rate(leader, 77));
        let (next, took) = cluster.taken_over(stopped, &[follower]);
        println!("a leader stands still: ce-{next} serves after {took:.2?}");
        assert!(took < FAILOVER_MAX, "{took:?}");
        assert!(cluster.set_rate(follower, 30).0);
        old.signal("CONT");
        late.join().unwrap()
    });
    assert!(!late.0, "{}", late.1);
    assert_eq!(cluster.leader(), follower);
    assert_eq!(cluster.rate(), 30);
    let (is_set, said) = cluster.set_rate(leader, 77);
    let expected = format!("this CE is not the leader: ce-{follower} is");
    assert!(!is_set && said.contains(&expected), "{said}");
    // The follower knows the change, and leads next.
    cluster.machines[follower - 1]
        .ce
        .as_ref()
        .unwrap()
        .signal("TERM");
    let ended = Instant::now();
    let (_, took) = cluster.taken_over(ended, &[leader]);
    println!("a leader ends: the other serves after {took:.2?}");
    assert_eq!(cluster.rate(), 30);
}

#[test]
fn a_leader_that_is_cut_off_gives_way_and_follows_afterwards() {
    let Some(cluster) = Cluster::new(2, HOT, "quic") else {
        return;
    };
    let leader = cluster.leader();
    let other = 3 - leader;
    let cut = Instant::now();
    cluster.link(leader, "down");
    let (_, took) = cluster.taken_over(cut, &[other]);
    println!("a leader is cut off: the other serves after {took:.2?}");
    assert!(took < FAILOVER_MAX, "{took:?}");
    assert!(!cluster.is_in_sync(leader));
    assert!(cluster.set_rate(other, 30).0);
    assert!(!cluster.set_rate(leader, 77).0);
    cluster.link(leader, "up");
    assert_eq!(cluster.leader(), other);
    assert_eq!(cluster.rate(), 30);
}

#[test]
fn an_fe_that_cannot_reach_the_leader_keeps_its_state_and_returns() {
    let Some(cluster) = Cluster::new(2, HOT, "quic") else {
        return;
    };
    let leader = cluster.leader();
    assert!(cluster.set_rate(leader, 20).0);
    cluster.ip(&format!("route add blackhole 10.77.9.{leader}/32"));
    cluster.eventually("the leader misses the FE", || !cluster.is_in_sync(leader));
    assert!(cluster.set_rate(leader, 30).0, "stored for later");
    assert!(!cluster.set_rate(3 - leader, 77).0);
    assert_eq!(cluster.rate(), 20);
    cluster.ip(&format!("route del blackhole 10.77.9.{leader}/32"));
    assert_eq!(cluster.leader(), leader);
    assert_eq!(cluster.rate(), 30);
}
