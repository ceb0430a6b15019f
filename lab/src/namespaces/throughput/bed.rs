//! A `weir router` between two hosts, without rates.
//!
//! ```text
//!   source ── a0 ═══ in ── router ── out ═══ b0 ── sink
//! ```
//!
//! Next hops have the MAC address of nobody, so that the sink's kernel takes a frame, counts it, and drops it at once.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use weir_live::namespace::{Namespace, Spawner};

use super::Kind;
use super::frames::{LIDS, V4, V6, source};
use crate::error::Error;
use crate::namespaces::process::run_to_end;
use crate::namespaces::router::{NO_SUPERVISOR, Router, quoted};

/// MAC addresses: of the source, of the router's port, and of nobody.
pub(super) const MACS: [[u8; 6]; 3] = [
    [2, 0, 0, 0, 77, 1],
    [2, 0, 0, 0, 77, 2],
    [2, 0, 0, 0, 77, 99],
];

/// Counters by which a trial is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Frames that the router has sent to the sink.
    pub(super) sent: u64,
    /// Of them, those that the interface has dropped.
    pub(super) dropped: u64,
    /// Processor time of the router, in seconds.
    pub(super) cpu_s: f64,
}

/// The hosts and the router. Everything ends with this value.
#[derive(Debug)]
pub(super) struct Bed {
    router: Router, // before its namespace
    pub(super) source: Namespace,
    middle: Namespace,
    _sink: Namespace,
    _spawner: Spawner,
}

impl Bed {
    /// Builds the hosts and starts the router: a core FE, which is a router of IPv4 and IPv6, too; or an edge FE with a
    /// rule for each flow.
    pub(super) fn new(executable: &Path, folder: &Path, edge: Option<u32>) -> Result<Self, Error> {
        let namespace = || Namespace::new().map_err(Error::io("cannot make a network namespace"));
        let (source, middle, sink) = (namespace()?, namespace()?, namespace()?);
        let spawner = Spawner::new().map_err(Error::io("cannot start a thread"))?;
        let run = |namespace: &Namespace, program: &str, arguments: &str, input: &str| {
            let mut command = Command::new(program);
            command.args(arguments.split(' '));
            run_to_end(&spawner, namespace, program, command, input)
        };
        let forward = || {
            let accept = ["all", "default"].map(|which| format!("ipv6/conf/{which}/accept_dad"));
            let zero = accept.iter().map(|path| (&path[..], "0"));
            let one = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map(|path| (path, "1"));
            zero.chain(one)
                .try_for_each(|(path, value)| fs::write(format!("/proc/sys/net/{path}"), value))
        };
        let entered = middle.enter(forward);
        entered
            .and_then(|written| written)
            .map_err(Error::io("cannot switch forwarding on"))?;
        let [a0, near, nobody] = MACS.map(shown);
        let (to_source, to_sink) = (source.path(), sink.path());
        let ip = format!(
            "link add in address {near} type veth peer name a0 address {a0} netns {to_source}\n\
             link add out type veth peer name b0 netns {to_sink}\n\
             link set lo up\nlink set in up\nlink set out up\n\
             addr add 10.77.1.1/24 dev in\naddr add fd77:1::1/64 dev in nodad\n\
             addr add 10.77.2.1/24 dev out\naddr add fd77:2::1/64 dev out nodad\n\
             neigh replace 10.77.2.2 lladdr {nobody} dev out nud permanent\n\
             neigh replace fd77:2::2 lladdr {nobody} dev out nud permanent\n\
             route add {V4} via 10.77.2.2\nroute add {V6} via fd77:2::2\n"
        );
        run(&middle, "ip", "-batch -", &ip)?;
        run(&source, "ip", "link set a0 up", "")?;
        run(&sink, "ip", "link set b0 up", "")?;
        for port in ["in", "out"] {
            run(&middle, "ethtool", &format!("-K {port} tx off gro off"), "")?;
        }
        let name = edge.map_or("core".to_owned(), |flows| format!("edge-{flows}"));
        let started = Router::start(
            (&spawner, &middle),
            (executable, "router"),
            folder,
            &name,
            |socket| configuration(socket, edge),
        );
        let mut router = started?;
        router.wait_ready("ports")?;
        Ok(Self {
            router,
            source,
            middle,
            _sink: sink,
            _spawner: spawner,
        })
    }

    /// The router's counters.
    pub(super) fn counters(&mut self) -> Result<Counters, Error> {
        self.router.check()?;
        let ports = self.router.page("ports");
        let mut ports = ports.as_array().into_iter().flatten();
        let Some(out) = ports.find(|port| port["port"] == "out") else {
            return Err(Error::Program {
                what: "the router".to_owned(),
                output: "it did not say what its ports have sent".to_owned(),
            });
        };
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.middle.enter(read).and_then(|text| text);
        let text = text.map_err(Error::io("cannot read the counters of interfaces"))?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("out:"));
        // Twelfth: what was to be sent and was dropped.
        let dropped = line.and_then(|line| line.split_whitespace().nth(11));
        Ok(Counters {
            sent: out["sent"]["packets"].as_u64().unwrap_or(0),
            dropped: dropped.and_then(|n| n.parse().ok()).unwrap_or(0),
            cpu_s: self.router.cpu_seconds(),
        })
    }

    /// The packets that the router has dropped, by reason.
    pub(super) fn drops(&self) -> String {
        self.router.page("drops").to_string()
    }

    /// Whether it can carry these frames.
    pub(super) fn is_for(&self, kind: Kind) -> bool {
        match kind {
            Kind::Edge(flows) => self.router.name == format!("edge-{flows}"),
            _ => self.router.name == "core",
        }
    }
}

/// The configuration of the router: 256 rules, and with an edge an encapsulation for each flow, by its source.
fn configuration(socket: &Path, edge: Option<u32>) -> String {
    let socket = quoted(&socket.to_string_lossy());
    let mut text = format!("mode = \"routed\"\nsocket = {socket}\n{NO_SUPERVISOR}");
    // Writing to a string cannot fail.
    for port in ["in", "out"] {
        let _ = writeln!(
            text,
            "[port.{port}]\ninterface = \"{port}\"\ndiscipline = {{ kind = \"fifo\", limit = 1000 }}\n\
             [fpf.interface.{port}]\nport = \"{port}\""
        );
    }
    let neighbour = shown(MACS[2]);
    for lid in 0..LIDS {
        let _ = writeln!(
            text,
            "[fpf.rule.r{lid}]\nlid = \"{lid:02x}\"\noutput = \"out\"\nneighbour = \"{neighbour}\"\n\
             leaves_domain = true"
        );
    }
    if edge.is_some() {
        text.push_str("[fpf.encapsulation]\n");
    }
    for flow in 0..edge.unwrap_or(0) {
        // In few bytes: a configuration may have a mebibyte.
        let _ = writeln!(
            text,
            "e{flow} = {{ source = \"{}\", vectors = \"{:02x}010203\" }}",
            source(flow),
            flow % LIDS
        );
    }
    text
}

fn shown(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
