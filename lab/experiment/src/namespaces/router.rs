//! The routers of a run: their configuration, their start, and their pages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant as Wall};

use serde_json::{Map, Value};
use weir_autorate::BY_TRAFFIC;
use weir_base::{Instant, Rate, Span, Varying};
use weir_config::{quoted, written};
use weir_live::namespace::{Namespace, Signal, Spawner};
use weir_northbound::client;

use super::process::{Running, memory_bytes};
use crate::cpu::cpu_seconds_of;
use crate::error::Error;
use crate::lines;
use crate::programs::Programs;
use crate::scenario::{Auto, Direction, Discipline, Mode, Shaper};
use crate::topology::{Node, QUEUE_PACKETS, Topology};

/// The pages that the lab fetches from a router at the end of a run, with their names in the result.
const PAGES: [&str; 4] = ["ports", "queues", "hogs", "drops"];
/// A router must answer within this time after its start.
const READY_MAX: Duration = Duration::from_secs(10);
/// Maximum time for a router to end by itself. The run is over, so packets in its queues need not leave.
const STOP_MAX: Duration = Duration::from_millis(100);
/// Maximum time for a router to shut down in order.
const END_MAX: Duration = Duration::from_secs(20);
/// Minimum interval between changes of a router or bridge.
pub const CHANGE_MIN: Span = Span::from_millis(100);
/// The minimum rate of a port, used during an outage, in which the bridge stops the link.
const RATE_MIN: Rate = Rate::from_bps(8_000);

/// A `weir router`, `weir fe` or `weir ce` in its namespace.
#[derive(Debug)]
pub struct Router {
    /// The router's name.
    pub name: String,
    socket: PathBuf,
    running: Running,
}

impl Router {
    /// Writes the configuration of the router `name` into `folder` and starts `weir` with this command. The router is
    /// not ready yet.
    pub fn start(
        place: (&Spawner, &Namespace),
        (programs, subcommand): (&Programs, &str),
        folder: &Path,
        name: &str,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Self, Error> {
        let command = Command::new(programs.with(subcommand)?);
        Self::start_by(place, (command, subcommand), folder, name, configuration)
    }

    /// Like [`Self::start`], by a command that starts the program with the arguments that it gets.
    pub fn start_by(
        (spawner, namespace): (&Spawner, &Namespace),
        (mut command, subcommand): (Command, &str),
        folder: &Path,
        name: &str,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Self, Error> {
        let socket = socket(folder, name);
        let file = folder.join(format!("{name}.toml"));
        fs::write(&file, configuration(&socket))
            .map_err(Error::io(format!("cannot write {}", file.display())))?;
        command.arg(subcommand).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        let what = format!("weir {subcommand} for {name}");
        Ok(Self {
            name: name.to_owned(),
            socket,
            running: Running::start(spawner, namespace, &what, command)?,
        })
    }

    /// Waits until the router serves this page.
    pub fn wait_ready(&mut self, page: &str) -> Result<(), Error> {
        let deadline = Wall::now() + READY_MAX;
        while self.page(page).is_null() {
            self.check()?;
            if Wall::now() >= deadline {
                return Err(self.running.failed("did not answer in time"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns an error if the router has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.running.has_ended()? {
            None => Ok(()),
            Some(status) => Err(self.running.failed(&format!("exited early, {status}"))),
        }
    }

    /// The router's pages about ports, queues, hogs and drops; null for a page that does not exist.
    pub fn inspect(&self) -> Value {
        let pages = PAGES.map(|name| (name.to_owned(), self.page(name)));
        Value::Object(pages.into_iter().collect::<Map<_, _>>())
    }

    /// A page of the router; null if it does not exist.
    pub fn page(&self, name: &str) -> Value {
        client::get(&self.socket, &format!("/v1/{name}")).unwrap_or(Value::Null)
    }

    /// Processor time that the router has used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds_of(self.running.pid())
    }

    /// Resident memory of the router, in bytes; zero if it has ended.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&format!("/proc/{}/status", self.running.pid()), "VmRSS:")
    }

    /// Makes the router reload its configuration.
    pub fn hang_up(&self) -> Result<(), Error> {
        self.running.signal(Signal::Hangup)
    }

    /// Shuts the router down in order; returns an error if that fails.
    pub fn end(mut self) -> Result<(), Error> {
        self.running.end(END_MAX)
    }

    /// Stops the router, and kills it if it does not end at once.
    pub fn stop(mut self) {
        self.running.stop(STOP_MAX);
    }
}

/// The socket of the router `name`, or of the control element.
pub fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// Routers of a run have no supervisor: the lab itself notices a router that does not answer, it measures processor
/// time per process, and an overloaded machine must not end a run.
pub const NO_SUPERVISOR: &str = "watchdog = \"0 s\"\n";

/// The configuration of a node's router.
pub fn configuration(topology: &Topology, node: &Node, mode: Mode, socket: &Path) -> String {
    let socket = quoted(&socket.to_string_lossy());
    let mut text = format!("mode = \"{mode}\"\nsocket = {socket}\n{NO_SUPERVISOR}");
    for interface in &node.interfaces {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n[port.{0}]\ninterface = \"{0}\"", interface.name);
        let modem = interface.direction.modem.as_ref();
        match modem.and_then(|modem| modem.shaper.as_ref()) {
            Some(Shaper::Auto(auto)) => text += &auto_rate(topology, auto),
            _ => {
                if let Some(rate) = first_rate(&interface.direction) {
                    let _ = writeln!(text, "rate = \"{rate}\"");
                }
            }
        }
        let discipline = interface.discipline.as_ref().map(inline);
        let discipline =
            discipline.unwrap_or_else(|| format!("{{ kind = \"fifo\", limit = {QUEUE_PACKETS} }}"));
        let _ = writeln!(text, "discipline = {discipline}");
    }
    text
}

/// The initial rate of a port; `None` to send as fast as it can.
pub(super) fn first_rate(direction: &Direction) -> Option<Rate> {
    match (&direction.modem, &direction.rate) {
        (Some(modem), _) => modem.shaper.as_ref().map(Shaper::first),
        (None, Some(rate)) => Some(port_rate(rate, Instant::ZERO).0),
        (None, None) => None,
    }
}

/// The rate at `now` of a port that knows the link's rate, and the end of its validity.
pub(super) fn port_rate(rate: &Varying<Rate>, now: Instant) -> (Rate, Instant) {
    let (rate, until) = lines::settled(rate, now, CHANGE_MIN);
    (rate.max(RATE_MIN), until)
}

/// The keys of a port that finds its rate. The limits of the lab have checked its reflectors.
fn auto_rate(topology: &Topology, auto: &Auto) -> String {
    let hosts = topology.reflectors(auto).unwrap_or_default().into_iter();
    let hosts = hosts.map(|host| topology.nodes[host].interfaces[0].v4.to_string());
    let traffic = auto.by_traffic.then(|| BY_TRAFFIC.to_owned());
    let reflectors = hosts.chain(traffic).map(|name| quoted(&name));
    let Auto {
        least,
        base,
        most,
        threshold,
        interval,
        ..
    } = auto;
    format!(
        "rate = \"auto\"\nrate_least = \"{least}\"\nrate_base = \"{base}\"\nrate_most = \"{most}\"\n\
         rate_threshold = \"{threshold}\"\nrate_interval = \"{interval}\"\nreflectors = [{}]\n",
        reflectors.collect::<Vec<_>>().join(", ")
    )
}

/// A discipline as a TOML inline table.
fn inline(discipline: &Discipline) -> String {
    let mut entries = vec![format!("kind = {}", quoted(&discipline.kind))];
    for (name, scalar) in &discipline.settings {
        entries.push(format!("{name} = {}", written(scalar)));
    }
    format!("{{ {} }}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    /// The configuration of a router between two hosts, and the address of the second one.
    fn told(link_to_b: &str) -> (String, String) {
        let scenario = format!(
            r#"
title = "t"
[router.r]
[host.a]
[host.b]
[link.in]
ends = ["a", "r"]
[link.out]
ends = ["r", "b"]
rate = "100 Mbit"
{link_to_b}
"#
        );
        let (scenario, _) = plan(&scenario, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let mode = scenario.routers[0].mode;
        let text = configuration(
            &topology,
            &topology.nodes[0],
            mode,
            Path::new("/run/r.sock"),
        );
        let b = &topology.nodes[topology.node("b").unwrap()];
        (text, b.interfaces[0].v4.to_string())
    }

    #[test]
    fn a_router_is_told_its_ports() {
        let (text, _) = told("discipline = { kind = \"fifo\", limit = \"100 packets\" }");
        let expected = "mode = \"routed\"\nsocket = \"/run/r.sock\"\nwatchdog = \"0 s\"\n\
            \n[port.a]\ninterface = \"a\"\ndiscipline = { kind = \"fifo\", limit = 1000 }\n\
            \n[port.b]\ninterface = \"b\"\nrate = \"100 Mbit\"\n\
            discipline = { kind = \"fifo\", limit = \"100 packets\" }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_port_that_finds_its_rate_is_told_what_it_measures_by() {
        let (text, b) = told(
            r#"
buffer = "300 kB"
shaper = "auto"
reflectors = ["b", "traffic"]
"#,
        );
        assert!(
            text.contains(&format!("\nreflectors = [\"{b}\", \"traffic\"]\n")),
            "{text}"
        );
    }
}
