//! FRR: the daemons of routers and neighbours, their configurations, and their state.
//!
//! The daemons come from the distribution, unchanged. They change their user, which would detach them
//! from the lab; so each router's daemons have a PID namespace, whose first process the kernel kills with the lab. Their
//! state comes from the sockets that `vtysh` uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
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
const DAEMONS: [&str; 4] = ["zebra", "ospfd", "bgpd", "bfdd"];
/// Number of the AS of the routers v1 to v3.
const OWN_AS: u32 = 65_000;
/// A daemon must answer within this time, even under a flood.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Starts the daemons of the folder `$1`. The others connect to zebra once, and only much later again if that fails. The
/// folders in which FRR keeps files under fixed names are private to each router.
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
start ospfd
start bgpd
start bfdd --bfdctl "$D/bfdd.sock"
wait
"#;

/// Returns an error with the remedy if FRR is not installed, or this process may not start it.
pub(super) fn check_installed() -> Result<(), Error> {
    let missing = DAEMONS
        .iter()
        .map(|daemon| Path::new(PROGRAMS).join(daemon));
    if let Some(daemon) = missing.into_iter().find(|daemon| !daemon.is_file()) {
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
            "FRR's daemons change their user, for which only root can start them; remedy: run as root",
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

/// The flaps of each protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AllFlaps {
    pub(super) ospf: Flaps,
    pub(super) bgp: Flaps,
    pub(super) bfd: Flaps,
}

impl AllFlaps {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            ospf: self.ospf.since(before.ospf),
            bgp: self.bgp.since(before.bgp),
            bfd: self.bfd.since(before.bfd),
        }
    }
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
    /// Starts all daemons, with their files in folders below `folder`.
    pub(super) fn start(network: &Network, folder: &Path) -> Result<Self, Error> {
        let routers = (1..=FES).map(|n| (router(n), Configuration::of_router(n)));
        let neighbours = (1..).zip(NEIGHBOURS);
        let neighbours = neighbours.map(|(n, name)| {
            let place = NEIGHBOUR + n as usize - 1;
            (place, Configuration::of_neighbour(n, name))
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
        (1..=FES).all(|n| self.router(n).full() == ospf_ports(n).count())
    }

    /// Whether all adjacencies of all protocols are up, and routes use the link that will fail.
    pub(super) fn is_up(&self) -> bool {
        self.missing().is_empty()
    }

    /// The missing adjacencies, for an error; empty if all are up.
    pub(super) fn missing(&self) -> String {
        let mut missing = Vec::new();
        for n in 1..=FES {
            let (node, sessions) = (self.router(n), sessions(n).len());
            for (protocol, up, all) in [
                ("OSPF", node.full(), ospf_ports(n).count()),
                ("BGP", node.established(), sessions),
                ("BFD", node.bfd_up(), sessions),
            ] {
                if up < all {
                    missing.push(format!("{}: {protocol} {up} of {all}", node.name));
                }
            }
        }
        if !self.uses_link() {
            missing.push("v1, v2: routes through their link".to_owned());
        }
        missing.join(", ")
    }

    /// The ends of adjacencies so far. An adjacency between two routers counts at one end.
    pub(super) fn flaps(&self) -> Result<AllFlaps, Error> {
        let mut all = AllFlaps::default();
        for n in 1..=FES {
            let node = self.router(n);
            let log = fs::read_to_string(node.folder.join("ospfd.log"));
            let log = log.map_err(Error::io("cannot read the log of OSPF"))?;
            let (dropped, downs) = (node.dropped()?, node.downs()?);
            for port in ports(n).iter().filter(|port| port.host == 1) {
                let is_flooded = (n, port.name) == (1, "a");
                all.ospf.add(is_flooded, left_full(&log, &port.device(n)));
                let of_peer =
                    |counts: &BTreeMap<String, u64>| counts.get(&port.peer().to_string()).copied();
                all.bgp.add(is_flooded, of_peer(&dropped).unwrap_or(0));
                all.bfd.add(is_flooded, of_peer(&downs).unwrap_or(0));
            }
        }
        Ok(all)
    }
}

/// How often a neighbour at `device` left Full, in OSPF's log.
fn left_full(log: &str, device: &str) -> u64 {
    let at = format!(" on {device}:");
    let lines = log.lines();
    lines
        .filter(|line| line.contains("AdjChg") && line.contains(&at) && line.contains(": Full -> "))
        .count() as u64
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
        for daemon in DAEMONS {
            let file = folder.join(format!("{daemon}.conf"));
            fs::write(file, configuration.of(daemon)).map_err(Error::io(wrong()))?;
        }
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--mount", "--fork", "--kill-child"])
            .args(["sh", "-c", START, "sh"])
            .arg(&folder)
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

    /// Like [`Self::show`], for states: a daemon that does not answer has no state.
    fn state(&self, daemon: &str, command: &str) -> Value {
        self.show(daemon, command).unwrap_or_default()
    }

    /// The device of the selected route to an address.
    fn route(&self, address: &str) -> Option<String> {
        let routes = self.state("zebra", &format!("show ip route {address}/32 json"));
        let routes = routes[format!("{address}/32")].as_array()?.iter();
        let installed = routes.filter(|route| route["installed"] == true);
        let mut devices = installed
            .flat_map(|route| route["nexthops"].as_array().into_iter().flatten())
            .filter_map(|next| next["interfaceName"].as_str());
        devices.next().map(str::to_owned)
    }

    /// Number of OSPF neighbours that are Full.
    fn full(&self) -> usize {
        let state = self.state("ospfd", "show ip ospf neighbor json");
        let neighbours = state["neighbors"].as_object().into_iter().flatten();
        let neighbours = neighbours.flat_map(|(_, list)| list.as_array().into_iter().flatten());
        let is_full = |neighbour: &&Value| {
            let state = neighbour["nbrState"].as_str();
            state.is_some_and(|state| state.starts_with("Full"))
        };
        neighbours.filter(is_full).count()
    }

    /// Number of established BGP sessions.
    fn established(&self) -> usize {
        let state = self.state("bgpd", "show bgp neighbors json");
        let sessions = state.as_object().into_iter().flatten();
        let is_up = |(_, session): &(&String, &Value)| session["bgpState"] == "Established";
        sessions.filter(is_up).count()
    }

    /// Number of BFD sessions that are up.
    fn bfd_up(&self) -> usize {
        let state = self.state("bfdd", "show bfd peers json");
        let sessions = state.as_array().into_iter().flatten();
        sessions.filter(|peer| peer["status"] == "up").count()
    }

    /// Sessions of BGP that ended, by peer.
    fn dropped(&self) -> Result<BTreeMap<String, u64>, Error> {
        let sessions = self.counts("bgpd", "show bgp neighbors json")?;
        let sessions = sessions.as_object().into_iter().flatten();
        Ok(sessions
            .filter_map(|(peer, session)| {
                Some((peer.clone(), session["connectionsDropped"].as_u64()?))
            })
            .collect())
    }

    /// Sessions of BFD that went down, by peer.
    fn downs(&self) -> Result<BTreeMap<String, u64>, Error> {
        let peers = self.counts("bfdd", "show bfd peers counters json")?;
        let peers = peers.as_array().into_iter().flatten();
        Ok(peers
            .filter_map(|peer| {
                let name = peer["peer"].as_str()?.to_owned();
                Some((name, peer["session-down"].as_u64()?))
            })
            .collect())
    }

    fn counts(&self, daemon: &str, command: &str) -> Result<Value, Error> {
        let doing = format!("cannot read the counters of {daemon} of {}", self.name);
        self.show(daemon, command).map_err(Error::io(doing))
    }
}

/// The ports of FE `n` through which its router has OSPF neighbours: all but that to the other AS.
fn ospf_ports(n: u32) -> impl Iterator<Item = Port> {
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
    /// Devices with OSPF, and their area.
    ospf: Vec<(String, u32)>,
    own_as: u32,
    /// The peers of BGP and BFD, and their AS.
    peers: Vec<(String, u32)>,
    /// A network that BGP announces.
    announces: Option<String>,
}

impl Configuration {
    /// Router v`n`, whose area towards r1 is another.
    fn of_router(n: u32) -> Self {
        let area = |port: &Port| u32::from((n, port.name) == (1, "a"));
        let ospf = ospf_ports(n).map(|port| (port.device(n), area(&port)));
        Self {
            name: format!("v{n}"),
            id: format!("9.9.9.{n}"),
            ospf: ospf.collect(),
            own_as: OWN_AS,
            peers: sessions(n),
            announces: None,
        }
    }

    /// The neighbour at port `a` of FE `n`.
    fn of_neighbour(n: u32, name: &str) -> Self {
        let area = u32::from(n == 1);
        let devices = ["eth0", "lo"].map(|device| (device.to_owned(), area));
        let is_edge = ospf_ports(n).all(|port| port.name != "a");
        let has_bgp = sessions(n).iter().any(|(_, peer)| *peer == OWN_AS + n);
        Self {
            name: name.to_owned(),
            id: format!("{n}.{n}.{n}.{n}"),
            ospf: devices.into_iter().filter(|_| !is_edge).collect(),
            own_as: OWN_AS + n,
            peers: Vec::from_iter(has_bgp.then(|| (format!("10.0.{n}.1"), OWN_AS))),
            announces: is_edge.then(|| format!("{}/32", loopback(n))),
        }
    }

    /// The configuration of a daemon.
    fn of(&self, daemon: &str) -> String {
        let mut text = format!("hostname {}\n", self.name);
        match daemon {
            "ospfd" => self.add_ospf(&mut text),
            "bgpd" => self.add_bgp(&mut text),
            // zebra has the addresses of the kernel, and bfdd the peers of bgpd.
            _ => {}
        }
        text
    }

    // Writing to a string cannot fail.
    fn add_ospf(&self, text: &mut String) {
        for (device, area) in &self.ospf {
            let _ = write!(
                text,
                "interface {device}\n ip ospf network point-to-point\n ip ospf hello-interval 1\n \
                 ip ospf dead-interval 4\n ip ospf area {area}\n"
            );
        }
        let _ = write!(
            text,
            "router ospf\n ospf router-id {}\n log-adjacency-changes\n redistribute bgp\n",
            self.id
        );
    }

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
                 neighbor {peer} timers connect 2\n neighbor {peer} bfd\n"
            );
        }
        if let Some(network) = &self.announces {
            let _ = write!(text, " address-family ipv4 unicast\n  network {network}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_that_leaves_full_counts_at_its_port() {
        let log = "2026/11/29 10:53:00 OSPF: [X] AdjChg: Nbr 1.1.1.1(default) on fe1.a:10.0.1.1: Full -> Deleted\n\
                   2026/11/29 10:53:01 OSPF: [X] AdjChg: Nbr 1.1.1.1(default) on fe1.a:10.0.1.1: Loading -> Full\n\
                   2026/11/29 10:53:02 OSPF: [X] AdjChg: Nbr 9.9.9.2(default) on fe1.b:10.1.12.1: Full -> Init\n";
        assert_eq!(left_full(log, "fe1.a"), 1);
        assert_eq!(left_full(log, "fe1.b"), 1);
        assert_eq!(left_full(log, "fe1.c"), 0);
    }

    #[test]
    fn each_session_has_two_ends() {
        assert_eq!(sessions(1).len() + sessions(2).len() + sessions(3).len(), 4);
        let edge = Configuration::of_neighbour(3, "x");
        assert!(edge.ospf.is_empty() && edge.announces.is_some());
        assert_eq!(edge.peers, [("10.0.3.1".to_owned(), 65_000)]);
        assert!(Configuration::of_neighbour(2, "r2").peers.is_empty());
        let text = Configuration::of_router(1).of("ospfd");
        assert!(text.contains("interface fe1.a\n"), "{text}");
        assert_eq!(text.matches("area 0").count(), 2, "{text}");
    }
}
