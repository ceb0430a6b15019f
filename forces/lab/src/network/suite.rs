//! FRR: the daemons of routers and neighbours, their configurations, and their state.
//!
//! The daemons come from the distribution, unchanged. They change their user, which would detach them
//! from the lab; so each router's daemons have a PID namespace, whose first process the kernel kills with the lab. Their
//! state comes from the sockets that `vtysh` uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use weir_experiment::namespaces::process::Running;
use weir_experiment::{Error, Habitat};

use super::topology::{BROKEN, FES, NEIGHBOUR, NEIGHBOURS, Network, Port, ports, router};

/// The folder of the daemons in Debian's package.
const PROGRAMS: &str = "/usr/lib/frr";
/// Number of the AS of the routers v1 to v3.
const OWN_AS: u32 = 65_000;
/// A daemon must answer within this time, even under a flood.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Starts zebra and then the daemons `$2` and so on, with their files in the folder `$1`. The other daemons connect to zebra
/// once, and only much later again if that fails. The folders in which FRR keeps files under fixed names are private to
/// each router.
const START: &str = r#"
set -e
mkdir -p /run/frr /var/tmp/frr
mount -t tmpfs none /run/frr
mount -t tmpfs none /var/tmp/frr
chown frr:frr "$1" /run/frr /var/tmp/frr
start() {
    daemon=$1
    shift
    /usr/lib/frr/$daemon -z "$D/zserv.api" --vty_socket "$D" -i "$D/$daemon.pid" -f "$D/$daemon.conf" -P 0 \
        --log "file:$D/$daemon.log" "$@" &
}
D=$1
start zebra
until [ -S "$D/zserv.api" ]; do
    kill -0 $!
    sleep 0.1
done
shift
for daemon; do
    case $daemon in
    bfdd) start $daemon --bfdctl "$D/bfdd.sock" ;;
    *) start $daemon ;;
    esac
done
wait
"#;

/// Returns an error with the remedy if FRR is not installed, or this process may not start it.
pub(super) fn check_installed() -> Result<(), Error> {
    let mut programs = daemons().map(|daemon| Path::new(PROGRAMS).join(daemon));
    if let Some(daemon) = programs.find(|daemon| !daemon.is_file()) {
        let why = format!(
            "FRR is not installed ({} is missing); remedy: apt install frr",
            daemon.display()
        );
        return Err(Error::unsupported(Habitat::Lab, why));
    }
    let user = fs::metadata("/proc/self").map(|own| own.uid());
    match user.map_err(Error::io("cannot read /proc/self"))? {
        0 => Ok(()),
        _ => Err(Error::unsupported(
            Habitat::Lab,
            "FRR's daemons change their user, so only root can start them; remedy: run as root",
        )),
    }
}

/// Ends of adjacencies during a flood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flaps {
    /// With the neighbour at the flooded port.
    pub same_port: u64,
    /// With neighbours at other ports.
    pub elsewhere: u64,
}

impl Flaps {
    fn add(&mut self, is_flooded: bool, number: u64) {
        let side = if is_flooded {
            &mut self.same_port
        } else {
            &mut self.elsewhere
        };
        *side += number;
    }

    fn since(self, before: Self) -> Self {
        Self {
            same_port: self.same_port.saturating_sub(before.same_port),
            elsewhere: self.elsewhere.saturating_sub(before.elsewhere),
        }
    }
}

/// The flaps of each protocol, by its name.
pub type AllFlaps = BTreeMap<&'static str, Flaps>;

/// A protocol, and how its adjacencies are counted.
#[derive(Debug)]
pub struct Protocol {
    /// The name in results.
    pub name: &'static str,
    /// The name in texts.
    pub title: &'static str,
    daemon: &'static str,
    /// The command that shows the adjacencies.
    shows: &'static str,
    /// Where the answer has the adjacencies: keys, and "" for all entries of a list or an object.
    path: &'static [&'static str],
    /// The field of an adjacency with its state, and how the state begins when the adjacency is up.
    up: (&'static str, &'static str),
    ends: Ends,
}

/// The programs of a router.
fn daemons() -> impl Iterator<Item = &'static str> {
    let protocols = PROTOCOLS.iter().map(|protocol| protocol.daemon);
    iter::once("zebra").chain(protocols)
}

impl Protocol {
    /// How many adjacencies the router of FE `n` has when all are up.
    fn expected(&self, n: u32) -> usize {
        match self.ends {
            Ends::Log(..) => inner_ports(n).count(),
            Ends::Counter(..) => sessions(n).len(),
        }
    }

    /// How many adjacencies of a router are up.
    fn number_up(&self, node: &Node) -> usize {
        let (field, begin) = self.up;
        // A daemon that does not answer has no adjacencies.
        let answer = node.show(self.daemon, self.shows).unwrap_or_default();
        let adjacencies = entries(&answer, self.path);
        let states = adjacencies
            .iter()
            .filter_map(|(_, entry)| entry[field].as_str());
        states.filter(|state| state.starts_with(begin)).count()
    }
}

/// Counts the adjacencies at a port of an FE that have ended.
type Ended = Box<dyn Fn(&Port, u32) -> u64>;

/// How the ends of a protocol's adjacencies are counted.
#[derive(Debug)]
enum Ends {
    /// By lines of the daemon's log that have the name of this event, the device between two texts, and the state that
    /// ended. These protocols run between routers of one AS.
    Log(&'static str, [&'static str; 2], &'static str),
    /// By the answer to a command: an entry for each peer, and the field with the number.
    Counter(&'static str, &'static str),
}

/// All protocols.
pub const PROTOCOLS: [Protocol; 5] = [
    Protocol {
        name: "ospf",
        title: "OSPF",
        daemon: "ospfd",
        shows: "show ip ospf neighbor json",
        path: &["neighbors", "", ""],
        up: ("nbrState", "Full"),
        ends: Ends::Log("AdjChg", [" on ", ":"], ": Full -> "),
    },
    Protocol {
        name: "ospf6",
        title: "OSPFv3",
        daemon: "ospf6d",
        shows: "show ipv6 ospf6 neighbor json",
        path: &["neighbors", ""],
        up: ("state", "Full"),
        ends: Ends::Log("AdjChg", ["%", ":"], ": Full -> "),
    },
    Protocol {
        name: "isis",
        title: "IS-IS",
        daemon: "isisd",
        shows: "show isis neighbor json",
        path: &["areas", "", "circuits", ""],
        up: ("state", "Up"),
        ends: Ends::Log("ADJCHANGE", [" (", ") "], "changed from Up to "),
    },
    Protocol {
        name: "bgp",
        title: "BGP",
        daemon: "bgpd",
        shows: "show bgp neighbors json",
        path: &[""],
        up: ("bgpState", "Established"),
        ends: Ends::Counter("show bgp neighbors json", "connectionsDropped"),
    },
    Protocol {
        name: "bfd",
        title: "BFD",
        daemon: "bfdd",
        shows: "show bfd peers json",
        path: &[""],
        up: ("status", "up"),
        ends: Ends::Counter("show bfd peers counters json", "session-down"),
    },
];

/// The flaps since `before`.
pub(super) fn since(now: &AllFlaps, before: &AllFlaps) -> AllFlaps {
    let of = |(name, flaps): (&&'static str, &Flaps)| {
        let before = before.get(name).copied().unwrap_or_default();
        (*name, flaps.since(before))
    };
    now.iter().map(of).collect()
}

/// The daemons of all routers and neighbours.
#[derive(Debug)]
pub(super) struct Suite {
    nodes: Vec<Node>,
}

/// The daemons of a router.
#[derive(Debug)]
struct Node {
    name: String,
    folder: PathBuf,
    running: Running,
}

impl Suite {
    /// Starts all daemons, with their files in folders below `folder`. `follows_bfd`: whether a session of BGP ends with
    /// that of BFD.
    pub(super) fn start(
        network: &Network,
        folder: &Path,
        follows_bfd: bool,
    ) -> Result<Self, Error> {
        let routers = (1..=FES).map(|n| (router(n), Configuration::of_router(n, follows_bfd)));
        let neighbours = (1..).zip(NEIGHBOURS);
        let neighbours = neighbours.map(|(n, name)| {
            let place = NEIGHBOUR + n as usize - 1;
            (place, Configuration::of_neighbour(n, name, follows_bfd))
        });
        let nodes = routers
            .chain(neighbours)
            .map(|(place, configuration)| Node::start(network, place, &configuration, folder));
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }

    /// Returns an error if the daemons of a router have ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.nodes.iter_mut().try_for_each(|node| {
            let ended = node.running.has_ended()?;
            ended.map_or(Ok(()), |status| {
                Err(node.running.failed(&format!("exited early, {status}")))
            })
        })
    }

    /// The router of FE `n`.
    fn router(&self, n: u32) -> &Node {
        &self.nodes[n as usize - 1]
    }

    /// The ports through which v1 and v2 reach each other's neighbours: `b` is the link that fails.
    fn ways(&self) -> [Option<String>; 2] {
        [(1, 2), (2, 1)].map(|(near, far)| {
            let device = self.router(near).route(&loopback(far))?;
            let (_, port) = device.split_once('.')?;
            Some(port.to_owned())
        })
    }

    /// Whether v1 and v2 have routes through the link that fails.
    pub(super) fn uses_link(&self) -> bool {
        self.ways().iter().all(|way| way.as_deref() == Some(BROKEN))
    }

    /// Whether v1 and v2 have routes around the link that fails.
    pub(super) fn has_detour(&self) -> bool {
        let mut ways = self.ways().into_iter();
        ways.all(|way| way.is_some_and(|port| port != BROKEN))
    }

    /// Whether all OSPF neighbours of the routers are Full.
    pub(super) fn is_full(&self) -> bool {
        let [ospf, ..] = &PROTOCOLS;
        (1..=FES).all(|n| ospf.number_up(self.router(n)) == ospf.expected(n))
    }

    /// Whether all adjacencies of all protocols are up, and routes use the link that will fail.
    pub(super) fn is_up(&self) -> bool {
        self.missing().is_empty()
    }

    /// The missing adjacencies, for an error; empty if all are up.
    pub(super) fn missing(&self) -> String {
        let mut missing = Vec::new();
        for n in 1..=FES {
            let node = self.router(n);
            for protocol in &PROTOCOLS {
                let (up, all) = (protocol.number_up(node), protocol.expected(n));
                if up < all {
                    missing.push(format!("{}: {} {up} of {all}", node.name, protocol.title));
                }
            }
        }
        if !self.uses_link() {
            missing.push("v1, v2: routes through their link".to_owned());
        }
        missing.join(", ")
    }

    /// Number of adjacencies that have gone down so far. An adjacency between two routers counts at one end.
    pub(super) fn flaps(&self) -> Result<AllFlaps, Error> {
        let mut all = AllFlaps::new();
        for (n, protocol) in (1..=FES).flat_map(|n| PROTOCOLS.iter().map(move |p| (n, p))) {
            let ended = self.router(n).ended(protocol)?;
            let flaps = all.entry(protocol.name).or_default();
            for port in ports(n).iter().filter(|port| port.host == 1) {
                flaps.add((n, port.name) == (1, "a"), ended(port, n));
            }
        }
        Ok(all)
    }
}

/// How many lines of a log have all of these texts.
fn lines_with(log: &str, texts: &[&str]) -> u64 {
    let has_all = |line: &&str| texts.iter().all(|text| line.contains(text));
    log.lines().filter(has_all).count() as u64
}

/// The entries of an answer at a path, with their keys.
fn entries<'a>(answer: &'a Value, path: &[&str]) -> Vec<(&'a str, &'a Value)> {
    path.iter().fold(vec![("", answer)], |all, step| {
        let below = |(_, value): (_, &'a Value)| match (*step, value) {
            ("", Value::Object(map)) => Vec::from_iter(map.iter().map(|(k, v)| (k.as_str(), v))),
            ("", value) => Vec::from_iter(value.as_array().into_iter().flatten().map(|v| ("", v))),
            (key, value) => Vec::from_iter(value.get(key).map(|v| ("", v))),
        };
        all.into_iter().flat_map(below).collect()
    })
}

impl Node {
    fn start(
        network: &Network,
        place: usize,
        configuration: &Configuration,
        folder: &Path,
    ) -> Result<Self, Error> {
        let name = configuration.name.clone();
        let folder = folder.join(&name);
        let wrong = || format!("cannot write the configuration of {name}");
        fs::create_dir(&folder).map_err(Error::io(wrong()))?;
        for daemon in daemons() {
            let file = folder.join(format!("{daemon}.conf"));
            fs::write(file, configuration.of(daemon)).map_err(Error::io(wrong()))?;
        }
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--mount", "--fork", "--kill-child"])
            .args(["sh", "-c", START, "sh"])
            .arg(&folder)
            .args(PROTOCOLS.iter().map(|protocol| protocol.daemon))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let namespace = &network.namespaces[place];
        let what = format!("FRR of {name}");
        Ok(Self {
            running: Running::start(&network.spawner, namespace, &what, command)?,
            name,
            folder,
        })
    }

    /// A daemon's answer to a command that shows JSON.
    fn show(&self, daemon: &str, command: &str) -> io::Result<Value> {
        let mut socket = UnixStream::connect(self.folder.join(format!("{daemon}.vty")))?;
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        // Commands begin in the mode that shows little; each answer ends with three zeros and a result.
        let mut answer = Vec::new();
        for command in ["enable", command] {
            socket.write_all(&[command.as_bytes(), b"\0"].concat())?;
            answer.clear();
            let mut part = [0; 4096];
            while answer.len() < 4 || answer[answer.len() - 4..][..3] != [0; 3] {
                let len = socket.read(&mut part)?;
                if len == 0 || answer.len() > ANSWER_BYTES_MAX {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                answer.extend_from_slice(&part[..len]);
            }
        }
        answer.truncate(answer.len() - 4);
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The device of the selected route to an address.
    fn route(&self, address: &str) -> Option<String> {
        let routes = self.show("zebra", &format!("show ip route {address}/32 json"));
        let routes = routes.ok()?;
        let routes = routes[format!("{address}/32")].as_array()?.iter();
        let installed = routes.filter(|route| route["installed"] == true);
        let mut devices = installed
            .flat_map(|route| route["nexthops"].as_array().into_iter().flatten())
            .filter_map(|next| next["interfaceName"].as_str());
        devices.next().map(str::to_owned)
    }

    /// Counts the ends of a protocol's adjacencies so far, by port of FE `n`.
    fn ended(&self, protocol: &Protocol) -> Result<Ended, Error> {
        let daemon = protocol.daemon;
        match protocol.ends {
            Ends::Log(event, [before, after], state) => {
                let log = fs::read_to_string(self.folder.join(format!("{daemon}.log")));
                let log = log.map_err(Error::io(format!("cannot read the log of {daemon}")))?;
                Ok(Box::new(move |port, n| {
                    let device = format!("{before}{}{after}", port.device(n));
                    lines_with(&log, &[event, &device, state])
                }))
            }
            Ends::Counter(command, field) => {
                let doing = format!("cannot read the counters of {daemon} of {}", self.name);
                let answer = self.show(daemon, command).map_err(Error::io(doing))?;
                Ok(Box::new(move |port, _| {
                    let peer = port.peer().to_string();
                    let mut peers = entries(&answer, &[""]).into_iter();
                    let entry = peers.find(|(key, entry)| *key == peer || entry["peer"] == *peer);
                    entry
                        .and_then(|(_, entry)| entry[field].as_u64())
                        .unwrap_or(0)
                }))
            }
        }
    }
}

/// The ports of FE `n` through which its router has neighbours of its own AS: all but that to the other AS.
fn inner_ports(n: u32) -> impl Iterator<Item = Port> {
    let is_edge = move |port: &Port| n == 3 && port.name == "a";
    ports(n).into_iter().filter(move |port| !is_edge(port))
}

/// The address of neighbour `n` that routes lead to.
fn loopback(n: u32) -> String {
    format!("172.16.{n}.1")
}

/// The peers of the router of FE `n` in BGP and BFD, and their AS.
fn sessions(n: u32) -> Vec<(String, u32)> {
    let ports = ports(n).into_iter();
    let peers = ports.filter_map(|port| match (n, port.name) {
        (1 | 3, "a") => Some((port.peer().to_string(), OWN_AS + n)),
        (1 | 2, BROKEN) => Some((port.peer().to_string(), OWN_AS)),
        _ => None,
    });
    peers.collect()
}

/// The configuration of a router's daemons.
struct Configuration {
    name: String,
    id: String,
    /// Devices with OSPF, OSPFv3 and IS-IS, and their area of OSPF.
    inner: Vec<(String, u32)>,
    own_as: u32,
    /// The peers of BGP and BFD, and their AS.
    peers: Vec<(String, u32)>,
    /// A network that BGP announces.
    announces: Option<String>,
    /// Whether a session of BGP ends with that of BFD.
    follows_bfd: bool,
}

impl Configuration {
    /// Router v`n`, whose area towards r1 is another.
    fn of_router(n: u32, follows_bfd: bool) -> Self {
        let area = |port: &Port| u32::from((n, port.name) == (1, "a"));
        let inner = inner_ports(n).map(|port| (port.device(n), area(&port)));
        Self {
            name: format!("v{n}"),
            id: format!("9.9.9.{n}"),
            inner: inner.collect(),
            own_as: OWN_AS,
            peers: sessions(n),
            announces: None,
            follows_bfd,
        }
    }

    /// The neighbour at port `a` of FE `n`.
    fn of_neighbour(n: u32, name: &str, follows_bfd: bool) -> Self {
        let area = u32::from(n == 1);
        let devices = ["eth0", "lo"].map(|device| (device.to_owned(), area));
        let is_edge = inner_ports(n).all(|port| port.name != "a");
        let has_bgp = sessions(n).iter().any(|(_, peer)| *peer == OWN_AS + n);
        Self {
            name: name.to_owned(),
            id: format!("{n}.{n}.{n}.{n}"),
            inner: devices.into_iter().filter(|_| !is_edge).collect(),
            own_as: OWN_AS + n,
            peers: Vec::from_iter(has_bgp.then(|| (format!("10.0.{n}.1"), OWN_AS))),
            announces: is_edge.then(|| format!("{}/32", loopback(n))),
            follows_bfd,
        }
    }

    /// The configuration of a daemon.
    fn of(&self, daemon: &str) -> String {
        let mut text = format!("hostname {}\n", self.name);
        let id = &self.id;
        // All routers are in one area of IS-IS, and of its level 2.
        let digits = id.split('.').map(|byte| format!("{byte:0>3}"));
        let digits = digits.collect::<String>();
        let [first, second, third] = [0, 4, 8].map(|at| &digits[at..at + 4]);
        match daemon {
            "ospfd" => self.add_inner(
                &mut text,
                |area| ospf_at("ip ospf", area),
                &format!("router ospf\n ospf router-id {id}\n log-adjacency-changes\n redistribute bgp\n"),
            ),
            "ospf6d" => self.add_inner(
                &mut text,
                |area| ospf_at("ipv6 ospf6", area),
                &format!("router ospf6\n ospf6 router-id {id}\n log-adjacency-changes\n"),
            ),
            "isisd" => self.add_inner(
                &mut text,
                |_| {
                    " ip router isis lab\n isis network point-to-point\n isis hello-interval 1\n \
                     isis hello-multiplier 4\n"
                        .to_owned()
                },
                &format!(
                    "router isis lab\n net 49.0001.{first}.{second}.{third}.00\n is-type level-2-only\n \
                     log-adjacency-changes\n"
                ),
            ),
            "bgpd" => self.add_bgp(&mut text),
            "bfdd" if !self.follows_bfd => {
                text += "bfd\n";
                text.extend(self.peers.iter().map(|(peer, _)| format!(" peer {peer}\n")));
            }
            // zebra has the addresses of the kernel, and bfdd the peers of bgpd.
            _ => {}
        }
        text
    }

    /// Adds lines for each device with protocols within the AS, and for the router.
    fn add_inner(&self, text: &mut String, at: impl Fn(u32) -> String, router: &str) {
        for (device, area) in &self.inner {
            *text += &format!("interface {device}\n{}", at(*area));
        }
        *text += router;
    }

    // Writing to a string cannot fail.
    fn add_bgp(&self, text: &mut String) {
        let Self { own_as, id, .. } = self;
        let _ = write!(
            text,
            "router bgp {own_as}\n bgp router-id {id}\n no bgp ebgp-requires-policy\n"
        );
        for (peer, peer_as) in &self.peers {
            let _ = write!(
                text,
                " neighbor {peer} remote-as {peer_as}\n neighbor {peer} timers 1 4\n \
                 neighbor {peer} timers connect 2\n"
            );
            if self.follows_bfd {
                let _ = writeln!(text, " neighbor {peer} bfd");
            }
        }
        if let Some(network) = &self.announces {
            let _ = write!(text, " address-family ipv4 unicast\n  network {network}\n");
        }
    }
}

/// OSPF at a device: the same for both versions, but for the beginning of each command.
fn ospf_at(version: &str, area: u32) -> String {
    let lines = [
        "network point-to-point".to_owned(),
        "hello-interval 1".to_owned(),
        "dead-interval 4".to_owned(),
        format!("area {area}"),
    ];
    lines.map(|line| format!(" {version} {line}\n")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adjacency_that_ends_counts_at_its_port() {
        let log = "2026/11/29 10:53:00 OSPF: [X] AdjChg: Nbr 1.1.1.1(default) on fe1.a:10.0.1.1: Full -> Deleted\n\
                   2026/11/29 10:53:01 OSPF: [X] AdjChg: Nbr 1.1.1.1(default) on fe1.a:10.0.1.1: Loading -> Full\n\
                   2026/11/29 10:53:02 OSPF: [X] AdjChg: Nbr 9.9.9.2(default) on fe1.b:10.1.12.1: Full -> Init\n\
                   2026/11/29 10:53:02 OSPF6: [X] AdjChg: Nbr 9.9.9.2(default) on 9.9.9.2%fe1.b: Full -> Init (1-Way)\n\
                   2026/11/29 10:53:02 ISIS: [X] %ADJCHANGE: Adjacency to v2 (fe1.b) for level-2 changed from \
                   Up to Down, holding time expired\n";
        let number = |protocol: &Protocol, device: &str| match protocol.ends {
            Ends::Log(event, [before, after], state) => {
                lines_with(log, &[event, &format!("{before}{device}{after}"), state])
            }
            Ends::Counter(..) => 0,
        };
        let numbers =
            PROTOCOLS.map(|p| ["fe1.a", "fe1.b", "fe1.c"].map(|device| number(&p, device)));
        assert_eq!(numbers[..3], [[1, 1, 0], [0, 1, 0], [0, 1, 0]]);
    }

    #[test]
    fn each_session_has_two_ends() {
        assert_eq!(sessions(1).len() + sessions(2).len() + sessions(3).len(), 4);
        let edge = Configuration::of_neighbour(3, "x", true);
        assert!(edge.inner.is_empty() && edge.announces.is_some());
        assert_eq!(edge.peers, [("10.0.3.1".to_owned(), 65_000)]);
        assert!(Configuration::of_neighbour(2, "r2", true).peers.is_empty());
        let text = Configuration::of_router(1, true).of("ospfd");
        assert!(text.contains("interface fe1.a\n"), "{text}");
        assert_eq!(text.matches("area 0").count(), 2, "{text}");
    }
}
