//! A full table of routes into the FEs of a CE: `weir bench full-table`.
//!
//! ```text
//!  r1 ─ a fe1 b ── b fe2 a ─ r2      packets of r1 to r2 pass fe1 and fe2,
//!          c         d               and fe3 too after the next hop of fe1 has changed
//!           ╲       ╱
//!            c fe3 d a ─ x
//!
//!  routes ──FPM──> CE ──ForCES──> each FE ──netlink──> its kernel ──netlink──> its tables of forwarding
//! ```
//!
//! Each FE gets the same prefixes from its own peer of FPM. Half of them have one next hop, half have another. Then
//! a next hop of fe1 changes, as it does when a router fails. Then routes change at a rate, each from one
//! next hop to the other. Then the CE is killed and started again, and gets all routes again. At the end, the kernel of
//! each FE is compared with the routes that it was sent.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use rand::RngExt;
use serde::Serialize;
use serde_json::Value;
use weir_base::{Span, Streams};
use weir_experiment::Error;
use weir_experiment::cpu::Others;
use weir_experiment::folder::Folder;
use weir_experiment::namespaces::process::memory_bytes;
use weir_experiment::namespaces::router::Router;
use weir_experiment::programs::Programs;
use weir_live::device::interface;
use weir_live::namespace::Namespace;

use super::fpm::{self, Peer};
use super::installed;
use super::probe::{Probe, Way};
use super::topology::{self, FES, FLOODED, NEIGHBOUR, Network, fe_name, ports, router};
use super::watch::{Watch, timeout};
use crate::channel::write_keys;

/// Time limit until FEs have their connected routes, and until a CE that starts again has its TAPs.
const START_MAX: Duration = Duration::from_secs(60);
/// Time limit until the FEs have the table.
const LOAD_MAX: Duration = Duration::from_secs(900);
/// Time limit until packets take another way, and until the FEs have the last changes.
const MOVE_MAX: Duration = Duration::from_secs(60);
/// Interval between two looks at FEs, whose answers cost them processor time.
const LOOK: Duration = Duration::from_millis(500);
/// Interval between two looks at the whole network.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Interval between two bursts of changed routes, and between two looks at packets.
const STEP: Duration = Duration::from_millis(1);
/// The failure if a CE does not take routes.
const SENDING: &str = "cannot send routes by FPM";
/// The route that is sent last, behind all others.
const LAST: &str = "3fff:ffff:ffff::/48";

/// Options of the measurement.
#[derive(Debug)]
pub struct Options {
    /// The prefixes of the table. Duplicates, and prefixes that no FE takes, are left out.
    pub prefixes: Vec<IpNet>,
    /// Changed routes per second and FE.
    pub updates_per_s: u64,
    /// Time during which routes change.
    pub churn: Span,
    /// A stand-in for the programs that it starts; if `None`, the programs in the folder of this program.
    pub executable: Option<PathBuf>,
    /// Ends the measurement when it becomes true.
    pub interrupt: Arc<AtomicBool>,
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Routes of each FE.
    pub routes: usize,
    /// Time from the first route until the kernels of all FEs have all of them, in seconds.
    pub load_s: f64,
    /// The processes: the CE, and each FE.
    pub processes: Vec<Process>,
    /// Memory of the kernel for the routes of all FEs, in bytes.
    pub kernel_bytes: u64,
    /// Routes of fe1 behind the next hop that changes.
    pub moved_routes: usize,
    /// Time from that change until packets take the other way, in seconds.
    pub moved_s: f64,
    /// Packets lost meanwhile; r1 sends one each millisecond.
    pub moved_lost: u64,
    /// Changed routes of each FE.
    pub updates: u64,
    /// Time from the last change until the FEs have all of them, in seconds.
    pub settled_s: f64,
    /// Time from the end of the CE by `kill -9`, which is started again at once, until it knows that all FEs have all
    /// routes, in seconds.
    pub restart_s: f64,
    /// Packets lost meanwhile.
    pub restart_lost: u64,
    /// Routes that an FE lacks at the end, or that have an old next hop.
    pub wrong: usize,
    /// CPUs that other programs kept busy.
    pub others_cpu_ratio: f64,
}

/// The figures of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// `ce` or the name of an FE.
    pub name: String,
    /// Processor time during `load_s`, in seconds.
    pub load_cpu_s: f64,
    /// Processor time while routes changed and during `settled_s`, in seconds.
    pub churn_cpu_s: f64,
    /// Routes loaded in a second of processor time.
    pub routes_per_cpu_s: f64,
    /// Resident memory with the table, in bytes.
    pub memory_bytes: u64,
}

/// Measures.
pub fn run(options: &Options) -> Result<Report, Error> {
    let programs = Programs::new(options.executable.as_deref())?;
    let (others, started) = (Others::now(), Instant::now());
    let mut watch = Watch::new(true, &options.interrupt);
    let mut bed = Bed::new(options, &programs, &mut watch)?;
    let probe = bed.probe()?;
    let kernel = kernel_bytes();

    watch.show("loading")?;
    let (before, began) = (bed.cpu_seconds(), Instant::now());
    bed.each_peer(Sent::load)?;
    bed.wait_for(&mut watch, bed.routes(), LOAD_MAX)?;
    let load_s = began.elapsed().as_secs_f64();
    let loaded = bed.cpu_seconds();
    let memory: Vec<u64> = bed.all().map(Router::memory_bytes).collect();
    let kernel_bytes = kernel_bytes().saturating_sub(kernel);
    bed.wait_for_way(&mut watch, &probe, Way::Direct)?;

    watch.show("a next hop changes")?;
    let began = Instant::now();
    let moved = bed.sent[0].move_first();
    moved.map_err(Error::io(SENDING))?;
    let arrived = bed.wait_for_way(&mut watch, &probe, Way::Around)?;
    let moved_s = arrived.duration_since(began).as_secs_f64();
    let moved_lost = probe.lost_since(began);

    watch.show("routes change")?;
    let calm = bed.cpu_seconds();
    let updates = bed.churn(&watch)?;
    let began = Instant::now();
    bed.each_peer(Sent::last)?;
    bed.wait_for(&mut watch, bed.routes() + 1, MOVE_MAX)?;
    let settled_s = began.elapsed().as_secs_f64();
    let churned = bed.cpu_seconds();

    watch.show("the CE starts again")?;
    let began = Instant::now();
    bed.restart(&programs, &mut watch)?;
    let restart_s = began.elapsed().as_secs_f64();
    let restart_lost = probe.lost_since(began);
    drop(probe);

    watch.show("comparing")?;
    let names = bed.all().map(|process| process.name.clone());
    let routes = |n: usize| bed.routes() * if n == 0 { FES as usize } else { 1 };
    let process = |(n, name)| {
        let load_cpu_s = loaded[n] - before[n];
        Process {
            name,
            load_cpu_s,
            churn_cpu_s: churned[n] - calm[n],
            routes_per_cpu_s: routes(n) as f64 / load_cpu_s,
            memory_bytes: memory[n],
        }
    };
    Ok(Report {
        routes: bed.routes(),
        load_s,
        processes: names.enumerate().map(process).collect(),
        kernel_bytes,
        moved_routes: bed.sent[0].behind_first(),
        moved_s,
        moved_lost,
        updates,
        settled_s,
        restart_s,
        restart_lost,
        wrong: bed.wrong()?,
        others_cpu_ratio: Others::now().processors(&others, started.elapsed().as_secs_f64()),
    })
}

/// The network, with what its FEs have been sent.
struct Bed<'a> {
    sent: Vec<Sent>,
    ce: Option<Router>, // `None` while it starts again
    fes: Vec<Router>,
    network: Network,
    options: &'a Options,
    folder: Folder,
}

impl<'a> Bed<'a> {
    fn new(
        options: &'a Options,
        programs: &Programs,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let folder = Folder::new().map_err(Error::io("cannot create a private folder"))?;
        write_keys(folder.path(), FES).map_err(Error::io("cannot write certificates"))?;
        let network = Network::build()?;
        let ce = start_ce(&network, programs, folder.path())?;
        let fes = network.start_fes(programs, folder.path(), None)?;
        let mut bed = Self {
            sent: Vec::new(),
            ce: Some(ce),
            fes,
            network,
            options,
            folder,
        };
        bed.wait_for(watch, 0, START_MAX)?;
        let mut seen = HashSet::new();
        let prefixes = options.prefixes.iter().copied().filter(is_taken);
        let prefixes: Arc<[IpNet]> = prefixes.filter(|prefix| seen.insert(*prefix)).collect();
        for n in 1..=FES {
            let sent = Sent::new(n, &bed.network.namespaces[router(n)], &prefixes);
            bed.sent
                .push(sent.map_err(Error::io("cannot connect to the FPM of a router"))?);
        }
        Ok(bed)
    }

    /// The CE and the FEs.
    fn all(&self) -> impl Iterator<Item = &Router> {
        self.ce.iter().chain(&self.fes)
    }

    fn cpu_seconds(&self) -> Vec<f64> {
        self.all().map(Router::cpu_seconds).collect()
    }

    /// The routes of the table.
    fn routes(&self) -> usize {
        self.sent[0].prefixes.len()
    }

    /// Waits until the kernel of each FE has its connected routes and this many others, all of them in use.
    fn wait_for(
        &mut self,
        watch: &mut Watch<'_>,
        routes: usize,
        patience: Duration,
    ) -> Result<(), Error> {
        let mut missing = String::new();
        let time = watch.time((LOOK, patience), |watch| {
            self.check()?;
            let lacking = (1..).zip(&self.fes).filter_map(|(n, fe)| {
                let page = fe.page("ce_routes");
                let all = (routes + ports(n).len()) as u64;
                let lacks = page["wanted"] != all || page["missing"] != 0;
                lacks.then(|| format!("{} of {all}: {page}", fe.name))
            });
            missing = lacking.collect::<Vec<_>>().join("; ");
            if !missing.is_empty() {
                watch.show(&missing)?;
            }
            Ok(missing.is_empty())
        })?;
        let late = || timeout("FEs lack routes", missing);
        time.map(drop).ok_or_else(late)
    }

    /// Waits for a packet that takes this way; returns when it arrived.
    fn wait_for_way(
        &mut self,
        watch: &mut Watch<'_>,
        probe: &Probe,
        way: Way,
    ) -> Result<Instant, Error> {
        let (began, mut found) = (Instant::now(), None);
        watch.time((STEP, MOVE_MAX), |_| {
            found = probe.first_since(began, way);
            self.check().map(|()| found.is_some())
        })?;
        let why = "packets of r1 do not arrive at r2 that way";
        found.ok_or_else(|| timeout("the FEs do not forward", why))
    }

    /// Returns an error if a process has ended.
    fn check(&mut self) -> Result<(), Error> {
        let mut all = self.ce.iter_mut().chain(&mut self.fes);
        all.try_for_each(Router::check)
    }

    /// Does something with all peers at the same time.
    fn each_peer(&mut self, each: fn(&mut Sent) -> io::Result<()>) -> Result<(), Error> {
        let done = thread::scope(|scope| {
            let all = self.sent.iter_mut().map(|sent| scope.spawn(|| each(sent)));
            let all: Vec<_> = all.collect();
            let joined = all.into_iter().map(|thread| {
                let panicked = |_| Err(io::Error::other("the peer of an FPM panicked"));
                thread.join().unwrap_or_else(panicked)
            });
            joined.collect::<io::Result<()>>()
        });
        done.map_err(Error::io(SENDING))
    }

    /// Changes routes for the time and at the rate of the options; returns how many of each FE.
    fn churn(&mut self, watch: &Watch<'_>) -> Result<u64, Error> {
        let length = Duration::from_nanos(self.options.churn.as_nanos());
        let (began, mut done) = (Instant::now(), 0);
        let mut random = Streams::new(1).stream("churn");
        while began.elapsed() < length {
            watch.check()?;
            self.check()?;
            let due = (began.elapsed().as_secs_f64() * self.options.updates_per_s as f64) as u64;
            for sent in &mut self.sent {
                for _ in done..due {
                    let route = random.random_range(0..sent.prefixes.len());
                    sent.change(route).map_err(Error::io(SENDING))?;
                }
                let flushed = sent.peer.flush();
                flushed.map_err(Error::io(SENDING))?;
            }
            done = due;
            thread::sleep(STEP);
        }
        Ok(done)
    }

    /// Kills the CE, starts it again, sends all routes again, and waits until it knows that the FEs have them.
    fn restart(&mut self, programs: &Programs, watch: &mut Watch<'_>) -> Result<(), Error> {
        drop(self.ce.take());
        self.ce = Some(start_ce(&self.network, programs, self.folder.path())?);
        let what = "the CE has not started again";
        let time = watch.time((LOOK, START_MAX), |_| {
            self.check()?;
            Ok(self.network.has_devices())
        })?;
        time.ok_or_else(|| timeout(what, "the TAPs of the CE are missing"))?;
        for (n, sent) in (1..).zip(&mut self.sent) {
            let connected = sent.connect(n, &self.network.namespaces[router(n)]);
            connected.map_err(Error::io("cannot connect to the FPM of a router"))?;
        }
        self.each_peer(|sent| sent.load().and_then(|()| sent.last()))?;
        let routes = (self.routes() + 1) as u64;
        let has_all = |fe: &Value| {
            let mut kinds = fe["routes"].as_array().into_iter().flatten();
            let bgp = kinds.find(|kind| kind["protocol"] == "bgp");
            let bgp = bgp.map(|bgp| (bgp["wanted"].as_u64(), bgp["installed"].as_u64()));
            fe["state"] == "in sync" && bgp == Some((Some(routes), Some(routes)))
        };
        let time = watch.time((LOOK_AGAIN, LOAD_MAX), |_| {
            self.check()?;
            let network = self.ce.as_ref().map(|ce| ce.page("network"));
            let network = network.unwrap_or_default();
            let fes = network.as_array();
            Ok(fes.is_some_and(|fes| fes.iter().all(has_all)))
        })?;
        let late = || timeout(what, "the FEs are not in sync");
        time.map(drop).ok_or_else(late)
    }

    /// The number of routes that FEs lack, or whose next hop is old.
    fn wrong(&self) -> Result<usize, Error> {
        let wrong = (1..).zip(&self.sent).map(|(n, sent)| {
            let devices = installed::devices(&self.network.namespaces[topology::fe(n)]);
            let devices = devices.map_err(Error::io("cannot read the routes of an FE"))?;
            Ok(sent.wrong(&devices))
        });
        wrong.sum()
    }

    /// Starts packets from r1 to the last prefix of IPv4 behind the next hop that changes, which arrive at r2.
    fn probe(&self) -> Result<Probe, Error> {
        let spaces = [FLOODED, NEIGHBOUR + 1].map(|n| &self.network.namespaces[n]);
        let none = || io::Error::other("the table has no route of IPv4");
        let probed = self.sent[0].probed().ok_or_else(none);
        let started = probed.and_then(|address| Probe::start(spaces, address));
        started.map_err(Error::io("cannot send packets through the FEs"))
    }
}

/// Whether the FEs take a prefix: it is neither of the network itself nor of a kind that a CE keeps.
fn is_taken(prefix: &IpNet) -> bool {
    match prefix.addr() {
        IpAddr::V4(a) => !(a.octets()[0] == 10 || a.is_loopback() || a.is_link_local()),
        IpAddr::V6(_) => true,
    }
}

/// The routes of an FE, and the peer that sends them.
#[derive(Debug)]
struct Sent {
    peer: Peer,
    prefixes: Arc<[IpNet]>,
    /// Whether a route has its second next hop.
    is_second: Vec<bool>,
    /// The ports of both next hops.
    ports: [topology::Port; 2],
    /// The port of the objects for the first next hop.
    first: usize,
    /// The interfaces of the two ports at the CE.
    interfaces: [u32; 2],
}

impl Sent {
    fn new(n: u32, namespace: &Namespace, prefixes: &Arc<[IpNet]>) -> io::Result<Self> {
        let names = match n {
            1 => ["b", "c"],
            2 => ["a", "d"],
            _ => ["d", "a"],
        };
        let port = |name| {
            let found = ports(n).into_iter().find(|port| port.name == name);
            found.ok_or_else(|| io::Error::other(format!("{} has no port {name}", fe_name(n))))
        };
        let ports = [port(names[0])?, port(names[1])?];
        Ok(Self {
            peer: Peer::connect(namespace)?,
            prefixes: Arc::clone(prefixes),
            is_second: (0..prefixes.len()).map(|route| route % 2 == 1).collect(),
            interfaces: indices(n, namespace, &ports)?,
            ports,
            first: 0,
        })
    }

    /// Connects to a CE that has started again.
    fn connect(&mut self, n: u32, namespace: &Namespace) -> io::Result<()> {
        self.peer = Peer::connect(namespace)?;
        self.interfaces = indices(n, namespace, &self.ports)?;
        Ok(())
    }

    /// Sends all objects and routes.
    fn load(&mut self) -> io::Result<()> {
        self.objects(self.first)?;
        for route in 0..self.prefixes.len() {
            self.send(route)?;
        }
        self.peer.flush()
    }

    /// Sends the objects; routes with the first next hop leave through the port `first`.
    fn objects(&mut self, first: usize) -> io::Result<()> {
        self.first = first;
        for (second, port) in [(false, first), (true, 1)] {
            let (interface, peer) = (self.interfaces[port], self.ports[port].peer());
            let link_local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 2]);
            for gateway in [peer.into(), link_local] {
                self.peer
                    .object(object(gateway, second), gateway, interface)?;
            }
        }
        self.peer.flush()
    }

    /// Lets all routes with the first next hop leave through the second port.
    fn move_first(&mut self) -> io::Result<()> {
        self.objects(1)
    }

    /// Gives a route its other next hop.
    fn change(&mut self, route: usize) -> io::Result<()> {
        self.is_second[route] ^= true;
        self.send(route)
    }

    fn send(&mut self, route: usize) -> io::Result<()> {
        let prefix = self.prefixes[route];
        let object = object(prefix.addr(), self.is_second[route]);
        self.peer.route(prefix, object)
    }

    /// Sends a route behind all others.
    fn last(&mut self) -> io::Result<()> {
        let last: IpNet = LAST.parse().map_err(io::Error::other)?;
        self.peer.route(last, object(last.addr(), true))?;
        self.peer.flush()
    }

    /// The address of the prefix of IPv4 with the first next hop that is sent last.
    fn probed(&self) -> Option<Ipv4Addr> {
        let mut routes = self.prefixes.iter().zip(&self.is_second).rev();
        routes.find_map(|(prefix, second)| match prefix {
            IpNet::V4(prefix) if !second => Some(prefix.addr()),
            _ => None,
        })
    }

    /// Number of routes behind the first next hop.
    fn behind_first(&self) -> usize {
        self.prefixes.len().div_ceil(2)
    }

    /// The number of routes whose device is another than that of the sent route, or that are missing.
    fn wrong(&self, devices: &HashMap<IpNet, String>) -> usize {
        let is_wrong = |(prefix, second): &(&IpNet, &bool)| {
            let port = if **second { 1 } else { self.first };
            devices.get(*prefix).map(String::as_str) != Some(self.ports[port].name)
        };
        self.prefixes
            .iter()
            .zip(&self.is_second)
            .filter(is_wrong)
            .count()
    }
}

fn start_ce(network: &Network, programs: &Programs, folder: &Path) -> Result<Router, Error> {
    let command = Command::new(programs.with("ce")?);
    network.start_ce(command, folder, |socket| {
        topology::ce_configuration(network, true, Some(fpm::ADDRESS), socket)
    })
}

/// The interfaces of ports of FE `n` at the CE.
fn indices(n: u32, namespace: &Namespace, ports: &[topology::Port; 2]) -> io::Result<[u32; 2]> {
    let index = |port: &topology::Port| namespace.enter(|| interface::index(&port.device(n)))?;
    Ok([index(&ports[0])?, index(&ports[1])?])
}

/// The identifier of the object for a next hop.
fn object(address: IpAddr, is_second: bool) -> u32 {
    1 + u32::from(is_second) + 2 * u32::from(address.is_ipv6())
}

/// Memory that the kernel cannot give back, in bytes.
fn kernel_bytes() -> u64 {
    memory_bytes("/proc/meminfo", "SUnreclaim:")
}
