//! The hosts, the links between them, and the router.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use weir_config::quoted;
use weir_live::namespace::{Namespace, Spawner};
use weir_northbound::client::{self, ClientError};

use crate::error::Error;
use crate::folder::Folder;
use crate::namespaces::process::run_to_end;
use crate::namespaces::router::Router;
use crate::programs::Programs;
use crate::scenario::Mode;

/// The router's interfaces, each with the other end of its link, its MAC address and the other end's.
pub(super) const LINKS: [(&str, &str, [u8; 6], [u8; 6]); 4] = [
    ("lan", "a0", [2, 0, 0, 0, 83, 1], [2, 0, 0, 0, 83, 11]),
    ("wan", "b0", [2, 0, 0, 0, 83, 2], [2, 0, 0, 0, 83, 12]),
    ("guest", "g0", [2, 0, 0, 0, 83, 3], [2, 0, 0, 0, 83, 13]),
    ("spare", "s0", [2, 0, 0, 0, 83, 4], [2, 0, 0, 0, 83, 14]),
];
/// The name of the router's files.
const NAME: &str = "soak";

/// All processes share this machine's processors, so the router may have to wait longer than on a dedicated machine.
const WATCHDOG: &str = "watchdog = \"5 s\"\n";

/// The translation of packets to the sink, in [`Mode::Queue`].
const MASQUERADE: &str = "table ip operator { chain postrouting {\n\
                          type nat hook postrouting priority srcnat; oifname wan masquerade\n}\n}\n";
/// The line that `nft` prints of it.
pub(super) const OPERATOR_TABLE: &str = "table ip operator";

/// The hosts and the router, which are removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Bed {
    router: Router, // dropped before its namespace
    mode: Mode,
    folder: Folder,
    socket: PathBuf,
    /// Number of requests to the router, and of those that it did not answer in time.
    pub(super) asked: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) programs: Programs,
    pub(super) spawner: Spawner,
    pub(super) source: Namespace,
    pub(super) middle: Namespace,
    pub(super) sink: Namespace,
    pub(super) guest: Namespace,
}

impl Bed {
    /// Builds the hosts, and starts the router, which then forwards.
    pub(super) fn new(programs: Programs, mode: Mode) -> Result<Self, Error> {
        let namespace = || Namespace::new().map_err(Error::io("cannot create a network namespace"));
        let (source, middle, sink, guest) =
            (namespace()?, namespace()?, namespace()?, namespace()?);
        let spawner = Spawner::new().map_err(Error::io("cannot start a thread"))?;
        let folder = Folder::new().map_err(Error::io("cannot create a private folder"))?;
        let forward = || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
        };
        let entered = middle.enter(forward);
        entered
            .and_then(|written| written)
            .map_err(Error::io("cannot enable forwarding"))?;
        let run = |namespace: &Namespace, program: &str, arguments: &str, input: &str| {
            let mut command = Command::new(program);
            command.args(arguments.split(' '));
            run_to_end(&spawner, namespace, program, command, input)
        };
        let far = [source.path(), sink.path(), guest.path(), middle.path()];
        let mut batch = "link set lo up\n".to_owned();
        for ((near, peer, mac, peer_mac), path) in LINKS.iter().zip(far) {
            let [mac, peer_mac] = [mac, peer_mac].map(shown);
            batch += &format!(
                "link add {near} address {mac} type veth peer name {peer} address {peer_mac} netns {path}\n"
            );
        }
        for (net, near) in (1..).zip(["lan", "wan", "guest"]) {
            batch += &format!(
                "addr add 10.83.{net}.1/24 dev {near}\naddr add fd83:{net}::1/64 dev {near} nodad\nlink set {near} up\n"
            );
        }
        run(&middle, "ip", "-batch -", &batch)?;
        // No packet is ever sent over the spare link, neither by routes nor by the kernel: so the removal of its port
        // loses no counts.
        let quiet = || {
            ["spare", "s0"]
                .map(|name| fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"))
        };
        let entered = middle
            .enter(quiet)
            .map_err(Error::io("cannot enter a network namespace"))?;
        entered
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(Error::io("cannot disable IPv6"))?;
        run(
            &middle,
            "ip",
            "-batch -",
            "link set spare up\nlink set s0 up\n",
        )?;
        for (net, host, device) in [(1, &source, "a0"), (2, &sink, "b0"), (3, &guest, "g0")] {
            let batch = format!(
                "link set lo up\naddr add 10.83.{net}.2/24 dev {device}\n\
                 addr add fd83:{net}::2/64 dev {device} nodad\nlink set {device} up\n\
                 route add default via 10.83.{net}.1\nroute add default via fd83:{net}::1\n"
            );
            run(host, "ip", "-batch -", &batch)?;
        }
        // The kernel's counters of an interface count a superframe once, weir counts the packets that it becomes. So
        // the hosts whose packets are counted send no superframes; the guest sends many.
        for (host, device) in [
            (&source, "a0"),
            (&sink, "b0"),
            (&middle, "lan"),
            (&middle, "wan"),
        ] {
            let off = format!("-K {device} tx off tso off gso off gro off");
            run(host, "ethtool", &off, "")?;
        }
        if mode == Mode::Queue {
            run(&middle, "nft", "-f -", MASQUERADE)?;
        }
        let started = Router::start(
            (&spawner, &middle),
            (&programs, "router"),
            folder.path(),
            NAME,
            |socket| configuration(socket, mode, true),
        );
        let mut router = started?;
        router.wait_ready("ports")?;
        Ok(Self {
            socket: crate::namespaces::router::socket(folder.path(), NAME),
            router,
            mode,
            folder,
            asked: AtomicU64::new(0),
            late: AtomicU64::new(0),
            programs,
            spawner,
            source,
            middle,
            sink,
            guest,
        })
    }

    /// Returns an error if the router has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.router.check()
    }

    /// The router's answer; `None` if it came too late.
    pub(super) fn answer<T>(
        &self,
        answer: Result<T, ClientError>,
    ) -> Result<Option<T>, ClientError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match answer {
            Err(ClientError::Silent { .. }) => {
                self.late.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// A page of the router; null if it does not answer in time, or the page is too long.
    pub(super) fn page(&self, name: &str) -> Value {
        let page = client::get(&self.socket, &format!("/v1/{name}"));
        self.answer(page).ok().flatten().unwrap_or(Value::Null)
    }

    /// The socket of the router's service.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process that forwards, which the supervisor watches.
    pub(super) fn process(&self) -> Option<u32> {
        let pid = self.page("status")["pid"].as_u64();
        pid.and_then(|pid| u32::try_from(pid).ok())
    }

    /// Writes another configuration to the router's file, which it reloads at a signal, and returns it.
    pub(super) fn configure(&self, has_spare: bool) -> Result<String, Error> {
        let text = configuration(&self.socket, self.mode, has_spare);
        let file = self.folder.path().join(format!("{NAME}.toml"));
        fs::write(&file, &text).map_err(Error::io("cannot write the configuration"))?;
        Ok(text)
    }

    /// Runs `ip` in a namespace, with one command per line.
    pub(super) fn ip(&self, namespace: &Namespace, batch: &str) -> Result<(), Error> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]);
        run_to_end(&self.spawner, namespace, "ip", command, batch)
    }

    /// Makes the router reload its file.
    pub(super) fn reload(&self) -> Result<(), Error> {
        self.router.hang_up()
    }

    /// Shuts the router down in order; returns its host, and the outcome.
    pub(super) fn stop(self) -> (Namespace, Result<(), Error>) {
        let ended = self.router.end();
        (self.middle, ended)
    }
}

/// A configuration of the router, with or without its fourth port.
fn configuration(socket: &Path, mode: Mode, has_spare: bool) -> String {
    let socket = quoted(&socket.to_string_lossy());
    let mut text = format!(
        "mode = \"{mode}\"\nsocket = {socket}\npool = 40000\n{WATCHDOG}\
         [port.lan]\ninterface = \"lan\"\n\
         [port.wan]\ninterface = \"wan\"\nrate = \"60 Mbit\"\n\
         [port.guest]\ninterface = \"guest\"\nrate = \"20 Mbit\"\n"
    );
    if mode == Mode::Queue {
        text += "[port.down]\ninterface = \"wan\"\ndirection = \"in\"\nrate = \"60 Mbit\"\n";
    }
    if has_spare {
        text += "[port.spare]\ninterface = \"spare\"\ndiscipline = { kind = \"fifo\", limit = \"100 packets\" }\n";
    }
    text
}

fn shown(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
