//! A `weir router` between two hosts, without rates.
//!
//! ```text
//!   source ── a0 ═══ in ── router ── out ═══ b0 ── sink
//! ```
//!
//! Next hops have an unassigned MAC address, so that the sink's kernel receives a frame, counts it, and drops it at
//! once.
//!
//! A router with loops has additional pairs of ports, each joined by a wire; so a packet whose vector names some of
//! them passes the router once more for each, as in section V.A of the paper:
//!
//! ```text
//!           ╭─────╮  ╭─────╮
//!           1a    1b 2a    2b      a LID for each interface through which packets leave: 0 out, 1 1a, 2 2a, ...
//!   in ──▶ ┌────────────────┐
//!          │     router     │ ──▶ out
//!          └────────────────┘
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use weir_config::quoted;
use weir_experiment::Error;
use weir_experiment::namespaces::process::run_to_end;
use weir_experiment::namespaces::router::{NO_SUPERVISOR, Router};
use weir_experiment::programs::Programs;
use weir_live::namespace::{Namespace, Spawner};

use super::frames::{LIDS, V4, V6, source};
use super::{Kind, LOOPS_MAX};

/// MAC addresses: of the source, of the router's port, and an unassigned one.
pub(super) const MACS: [[u8; 6]; 3] = [
    [2, 0, 0, 0, 77, 1],
    [2, 0, 0, 0, 77, 2],
    [2, 0, 0, 0, 77, 99],
];

/// Counters that decide on a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Number of frames that the router has sent to the sink.
    pub(super) sent: u64,
    /// Number of these frames that the interface has dropped.
    pub(super) dropped: u64,
    /// Processor time of the router, in seconds.
    pub(super) cpu_s: f64,
}

/// The work of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A core FE, which is also an IPv4 and IPv6 router.
    Core,
    /// An edge FE with a rule for each of this many flows.
    Edge(u32),
    /// A core FE with loops.
    Loops,
}

/// The hosts and the router, which are removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Bed {
    router: Router, // dropped before its namespace
    role: Role,
    pub(super) source: Namespace,
    middle: Namespace,
    _sink: Namespace,
    _spawner: Spawner,
}

impl Bed {
    /// Builds the hosts and starts the router.
    pub(super) fn new(programs: &Programs, folder: &Path, role: Role) -> Result<Self, Error> {
        let namespace = || Namespace::new().map_err(Error::io("cannot create a network namespace"));
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
            .map_err(Error::io("cannot enable forwarding"))?;
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
        run(&middle, "ip", "-batch -", &(ip + &loops(role)))?;
        run(&source, "ip", "link set a0 up", "")?;
        run(&sink, "ip", "link set b0 up", "")?;
        for port in ports(role) {
            run(&middle, "ethtool", &format!("-K {port} tx off gro off"), "")?;
        }
        let name = match role {
            Role::Core => "core".to_owned(),
            Role::Edge(flows) => format!("edge-{flows}"),
            Role::Loops => "loops".to_owned(),
        };
        let started = Router::start(
            (&spawner, &middle),
            (programs, "router"),
            folder,
            &name,
            |socket| configuration(socket, role),
        );
        let mut router = started?;
        router.wait_ready("ports")?;
        Ok(Self {
            router,
            role,
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
                output: "it did not report the counters of its ports".to_owned(),
            });
        };
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.middle.enter(read).and_then(|text| text);
        let text = text.map_err(Error::io("cannot read the interface counters"))?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("out:"));
        // Column 12: packets dropped on sending.
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

    /// The role of the router.
    pub(super) fn role(&self) -> Role {
        self.role
    }
}

impl Kind {
    /// The role of the router that these frames need.
    pub(super) fn role(self) -> Role {
        match self {
            Self::Edge(flows) => Role::Edge(flows),
            Self::Loops(_) => Role::Loops,
            _ => Role::Core,
        }
    }
}

/// The wires of the loops, with their MAC addresses.
fn loops(role: Role) -> String {
    let number = if role == Role::Loops { LOOPS_MAX } else { 0 };
    let wire = |n| {
        let mac = shown(mac_of_loop(n));
        format!(
            "link add {n}a type veth peer name {n}b address {mac}\nlink set {n}a up\nlink set {n}b up\n"
        )
    };
    (1..=number).map(wire).collect()
}

/// The MAC address of the port to which a loop leads.
fn mac_of_loop(n: u32) -> [u8; 6] {
    [2, 0, 0, 0, 78, n as u8]
}

/// The router's ports.
fn ports(role: Role) -> Vec<String> {
    let number = if role == Role::Loops { LOOPS_MAX } else { 0 };
    let loops = (1..=number).flat_map(|n| [format!("{n}a"), format!("{n}b")]);
    let ports = ["in", "out"].map(str::to_owned);
    ports.into_iter().chain(loops).collect()
}

/// The configuration of the router: a core FE has a rule for each LID, an FE with loops a rule for each interface
/// through which packets leave, and an edge FE an encapsulation for each flow, by its source.
fn configuration(socket: &Path, role: Role) -> String {
    let socket = quoted(&socket.to_string_lossy());
    let mut text = format!("mode = \"routed\"\nsocket = {socket}\n{NO_SUPERVISOR}");
    // Writing to a string cannot fail.
    for port in ports(role) {
        let _ = writeln!(
            text,
            "[port.{port}]\ninterface = \"{port}\"\ndiscipline = {{ kind = \"fifo\", limit = 1000 }}\n\
             [fpf.interface.{port}]\nport = \"{port}\""
        );
    }
    let lids = match role {
        Role::Loops => LOOPS_MAX + 1,
        _ => LIDS,
    };
    for lid in 0..lids {
        let (output, mac) = match role {
            Role::Loops if lid > 0 => (format!("{lid}a"), mac_of_loop(lid)),
            _ => ("out".to_owned(), MACS[2]),
        };
        let _ = writeln!(
            text,
            "[fpf.rule.r{lid}]\nlid = \"{lid:02x}\"\noutput = \"{output}\"\nneighbour = \"{}\"\n\
             leaves_domain = true",
            shown(mac)
        );
    }
    if let Role::Edge(flows) = role {
        text.push_str("[fpf.encapsulation]\n");
        for flow in 0..flows {
            // Write short rules: a configuration may have at most a mebibyte.
            let _ = writeln!(
                text,
                "e{flow} = {{ source = \"{}\", vectors = \"{:02x}010203\" }}",
                source(flow),
                flow % LIDS
            );
        }
    }
    text
}

fn shown(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loop_leads_to_a_port_of_the_same_router() {
        let text = configuration(Path::new("/run/r.sock"), Role::Loops);
        let rule = "[fpf.rule.r7]\nlid = \"07\"\noutput = \"7a\"\nneighbour = \"02:00:00:00:4e:07\"\nleaves_domain = true";
        assert!(text.contains(rule), "{text}");
        assert!(!text.contains("[fpf.rule.r8]"));
        let wires = loops(Role::Loops);
        assert!(wires.contains("7a type veth peer name 7b address 02:00:00:00:4e:07"));
        assert!(text.contains("[port.7b]"));
        assert!(!configuration(Path::new("/run/r.sock"), Role::Core).contains("[port.1a]"));
    }
}
