//! A control element (CE) and its forwarding element (FE), as processes on separate hosts.
//!
//! ```text
//!  source a0 ---- r0 `weir fe` r1 ---- b0 sink
//!                     c0 10.77.9.2
//!                     |  control link
//!                     c1 10.77.9.1
//!                   `weir ce`
//! ```

use std::fs;
use std::ops::Deref;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_benches::testbed::run;
use weir_live::namespace::Namespace;
use weir_northbound::client;

use crate::common::{Hosts, Router, eventually, eventually_or};

/// A file with this name belongs to the CE, or to the FE.
pub(crate) const CE: &str = "ce";
pub(crate) const FE: &str = "edge1";

/// The FE as it starts: both ports without a rate.
const PORTS: &str = "\
[port.lan]
interface = \"r0\"
[port.wan]
interface = \"r1\"
";

/// The transport between the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// QUIC with certificates, on the control link.
    Quic,
    /// TCP and UDP with certificates, on the control link.
    Tls,
    /// TCP and UDP without certificates (`insecure`), on the loopback interface of the FE's host.
    Plain,
}

/// The hosts, with the files of both elements.
pub(crate) struct Stage {
    hosts: Hosts,
    /// The host of the CE, which [`Wire::Plain`] does not use.
    pub(crate) control: Namespace,
    wire: Wire,
}

impl Stage {
    /// `None` where namespaces are not permitted.
    pub(crate) fn new(wire: Wire) -> Option<Self> {
        let hosts = Hosts::new()?;
        let control = Namespace::new().unwrap();
        hosts.ip(&format!(
            "link add c0 type veth peer name c1 netns {}",
            control.path()
        ));
        for (host, device, address) in [
            (&hosts.bed.router, "c0", "10.77.9.2/24"),
            (&control, "c1", "10.77.9.1/24"),
        ] {
            for arguments in [
                format!("address add {address} dev {device}"),
                format!("link set {device} up"),
                "link set lo up".to_owned(),
            ] {
                run(host, "ip", &arguments).unwrap();
            }
        }
        let stage = Self {
            hosts,
            control,
            wire,
        };
        for name in [CE, FE, "stranger"] {
            let made = stage.keys(name);
            assert!(made.status.success(), "{made:?}");
        }
        Some(stage)
    }

    pub(crate) fn keys(&self, name: &str) -> Output {
        let mut command = weir();
        command.arg("keys").arg(self.folder.join(name));
        command.output().unwrap()
    }

    /// Address and transport of the CE, and whether both files name certificates.
    fn way(&self) -> (&'static str, &'static str, bool) {
        match self.wire {
            Wire::Quic => ("10.77.9.1:6704", "quic", true),
            Wire::Tls => ("10.77.9.1:6704", "tcp_udp", true),
            Wire::Plain => ("127.0.0.1:6704", "tcp_udp", false),
        }
    }

    /// The host of the CE.
    pub(crate) fn home(&self) -> &Namespace {
        match self.wire {
            Wire::Plain => &self.bed.router,
            Wire::Quic | Wire::Tls => &self.control,
        }
    }

    /// The configuration of the CE, with `more` appended.
    pub(crate) fn ce_config(&self, more: &str) -> String {
        let (address, transport, is_pinned) = self.way();
        let [own, of_fe] = if is_pinned {
            [
                "certificate = \"ce.crt\"\nkey = \"ce.key\"",
                "certificate = \"edge1.crt\"",
            ]
        } else {
            ["", ""]
        };
        let insecure = !is_pinned;
        format!(
            "id = 1\nstore = \"ce.redb\"\n{own}\n[listen.main]\naddress = \"{address}\"\ntransport = \"{transport}\"\n\
             insecure = {insecure}\n[fe.edge1]\nid = 2\n{of_fe}\n[fe.edge1.port.wan]\nrate = \"50 Mbit\"\n{more}"
        )
    }

    /// The configuration of the FE, which gives up a silent CE after two seconds.
    pub(crate) fn fe_config(&self) -> String {
        let (address, transport, is_pinned) = self.way();
        let [own, of_ce] = if is_pinned {
            [
                "certificate = \"edge1.crt\"\nkey = \"edge1.key\"",
                "certificate = \"ce.crt\"",
            ]
        } else {
            ["", ""]
        };
        let insecure = !is_pinned;
        format!(
            "[fe]\nid = 2\nname = \"edge1\"\nce_dead = \"2 s\"\n{own}\n[ce.main]\nid = 1\naddress = \"{address}\"\n\
             transport = \"{transport}\"\ninsecure = {insecure}\n{of_ce}\n{PORTS}"
        )
    }

    /// Starts the CE and waits until it answers.
    pub(crate) fn start_ce(&self) -> Router {
        self.start_ce_with("")
    }

    /// Starts the CE with `more` in its configuration.
    pub(crate) fn start_ce_with(&self, more: &str) -> Router {
        self.start_ce_as(&self.ce_config(more))
    }

    /// Starts the CE with this configuration.
    pub(crate) fn start_ce_as(&self, config: &str) -> Router {
        self.start_ce_by(weir(), config)
    }

    /// Starts the CE with this configuration and a limit of open files.
    pub(crate) fn start_ce_with_files(&self, config: &str, files: u64) -> Router {
        let mut prlimit = Command::new("prlimit");
        prlimit.arg(format!("--nofile={files}:{files}"));
        prlimit.arg(crate::common::weir());
        self.start_ce_by(prlimit, config)
    }

    fn start_ce_by(&self, mut command: Command, config: &str) -> Router {
        let file = self.configure(CE, config);
        command.arg("ce").arg(&file);
        let mut process = self.spawn(self.home(), command, CE);
        let is_up = || {
            let ended = process.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", process.log());
            client::get::<Value>(&self.socket(CE), "/v1/fes").is_ok()
        };
        eventually("the CE answers", is_up);
        process
    }

    /// Starts the FE and waits until it forwards.
    pub(crate) fn start_fe(&self) -> Router {
        self.start_fe_as(FE, &self.fe_config())
    }

    /// Starts an FE with this name and configuration.
    pub(crate) fn start_fe_as(&self, name: &str, config: &str) -> Router {
        let file = self.configure(name, config);
        let mut command = weir();
        command.arg("fe").arg(&file);
        let mut process = self.spawn(&self.bed.router, command, name);
        let is_up = || {
            let ended = process.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", process.log());
            client::get::<Value>(&self.socket(name), "/v1/status").is_ok()
        };
        eventually("the FE answers", is_up);
        process
    }

    fn spawn(&self, host: &Namespace, mut weir: Command, name: &str) -> Router {
        let log = self.folder.join(format!("{name}.log"));
        let appended = fs::OpenOptions::new().create(true).append(true).open(&log);
        weir.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(appended.unwrap());
        let process = self.spawner.spawn(host, weir).unwrap();
        Router { process, log }
    }

    /// The rows of a table of the CE.
    pub(crate) fn table(&self, name: &str) -> Value {
        client::get(&self.socket(CE), &format!("/v1/{name}")).unwrap()
    }

    /// The state of an FE as its CE sees it.
    pub(crate) fn state(&self, fe: &str) -> String {
        let fes = self.table("fes");
        let row = fes.as_array().unwrap().iter().find(|row| row["fe"] == fe);
        row.unwrap()["state"].as_str().unwrap().to_owned()
    }

    /// Waits until the FE has the desired configuration.
    pub(crate) fn in_sync(&self) {
        let logs = || {
            let read = |name| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            format!("{}\n{}", read("ce.log"), read("edge1.log"))
        };
        eventually_or("the FE is in sync", logs, || self.state(FE) == "in sync");
    }

    /// Sets the rate of the FE's port towards the sink, through the CE; returns whether the CE has accepted it.
    pub(crate) fn set_rate(&self, mbit: u64) -> bool {
        let change = format!("edge1:port.wan.rate={mbit} Mbit");
        self.weir(&["set", &change], CE).status.success()
    }

    /// The running rate in Mbit/s, as reported by the FE itself.
    pub(crate) fn rate(&self) -> u64 {
        let ports: Value = client::get(&self.socket(FE), "/v1/ports").unwrap();
        let rows = ports.as_array().unwrap();
        let wan = rows.iter().find(|row| row["port"] == "wan").unwrap();
        wan["rate_bps"].as_u64().unwrap_or(0) / 1_000_000
    }
}

/// Sends SIGHUP, and waits until the log has this text once more.
pub(crate) fn reload(element: &Router, line: &str) {
    let before = element.log().matches(line).count();
    element.signal("HUP");
    eventually_or(
        line,
        || element.log(),
        || element.log().matches(line).count() > before,
    );
}

fn weir() -> Command {
    Command::new(crate::common::weir())
}

impl Deref for Stage {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}
