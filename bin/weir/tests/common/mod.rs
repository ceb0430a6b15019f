//! Routers between two hosts, for every test that starts one.
//!
//! ```text
//!  Hosts: source ---- router ---- sink, whose kernel forwards       (weir_benches::testbed)
//!  Bench: these hosts, and one `weir router` on the middle one
//! ```

#![allow(dead_code)] // each test file uses a part
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

pub(crate) mod guest;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use weir_benches::testbed::{Testbed, run};
use weir_live::namespace::{Namespace, Spawner};
use weir_northbound::client;

/// Maximum time that a test waits for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Arguments of `ping` on the source: does the sink answer?
pub(crate) const PING: &str = "-c 1 -W 1 10.77.2.2";
/// Arguments of a `ping` that must be answered within 10 s. It asks again: a device that was just made may lose a frame.
pub(crate) const ANSWERED: &str = "-c 1 -w 10 10.77.2.2";
/// Two ports without a rate.
pub(crate) const UNPACED: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
[port.wan]
interface = \"r1\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
";

/// The name of a [`Bench`]'s router.
const ROUTER: &str = "weir";

/// The hosts, and a folder for the files of routers, which are removed when this value is dropped.
pub(crate) struct Hosts {
    pub(crate) bed: Testbed,
    /// Ends everything that it started when dropped.
    pub(crate) spawner: Spawner,
    pub(crate) folder: PathBuf,
}

impl Hosts {
    /// `None` where namespaces are not permitted.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let bed = Testbed::new().unwrap();
        bed.kernel_forwards(true).unwrap();
        Some(Self {
            bed,
            spawner: Spawner::new().unwrap(),
            folder,
        })
    }

    /// Writes the configuration of the router with this name.
    pub(crate) fn configure(&self, name: &str, config: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.toml"));
        let socket = self.socket(name);
        let text = format!("socket = \"{}\"\n{config}", socket.display());
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sock"))
    }

    /// Starts a router and waits until it answers, which means that it forwards.
    pub(crate) fn start(&self, name: &str, config: &str) -> Router {
        self.start_with(name, config, &[])
    }

    /// Like [`Self::start`], with more variables in the router's environment.
    pub(crate) fn start_with(
        &self,
        name: &str,
        config: &str,
        variables: &[(&str, &str)],
    ) -> Router {
        let mut router = self.spawn_with(name, config, variables);
        eventually("the router answers", || {
            let ended = router.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", router.log());
            client::get::<serde_json::Value>(&self.socket(name), "/v1/status").is_ok()
        });
        router
    }

    /// Starts a router.
    pub(crate) fn spawn(&self, name: &str, config: &str) -> Router {
        self.spawn_with(name, config, &[])
    }

    /// Like [`Self::spawn`], with more variables in the router's environment. With `[fe]` in its configuration it is a
    /// forwarding element.
    pub(crate) fn spawn_with(
        &self,
        name: &str,
        config: &str,
        variables: &[(&str, &str)],
    ) -> Router {
        let is_element = config.lines().any(|line| line == "[fe]");
        let command = if is_element { "fe" } else { "router" };
        self.spawn_as(command, name, config, variables)
    }

    /// Starts a router, a forwarding element or a control element: `weir router`, `weir fe` or `weir ce`.
    pub(crate) fn spawn_as(
        &self,
        what: &str,
        name: &str,
        config: &str,
        variables: &[(&str, &str)],
    ) -> Router {
        let mut command = Command::new(weir());
        let log = self.folder.join(format!("{name}.log"));
        command
            .envs(variables.iter().copied())
            .arg(what)
            .arg(self.configure(name, config))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let process = self.spawner.spawn(&self.bed.router, command).unwrap();
        Router { process, log }
    }

    /// A `weir` command for the router with this name, on its host.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(weir());
        command.env("WEIR_SOCKET", self.socket(name));
        command
    }

    pub(crate) fn weir(&self, arguments: &[&str], name: &str) -> Output {
        let mut command = self.command(name);
        command.args(arguments);
        self.bed.router.enter(|| command.output()).unwrap().unwrap()
    }

    /// The output of such a command, including errors.
    pub(crate) fn ask(&self, arguments: &[&str], name: &str) -> String {
        let Output { stdout, stderr, .. } = self.weir(arguments, name);
        String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr)
    }

    /// Runs `ip` in the middle.
    pub(crate) fn ip(&self, arguments: &str) {
        run(&self.bed.router, "ip", arguments).unwrap();
    }

    /// Whether the source's pings with these arguments are answered.
    pub(crate) fn ping(&self, arguments: &str) -> bool {
        run(&self.bed.source, "ping", arguments).is_ok()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The process of a `weir router`, killed when this value is dropped.
pub(crate) struct Router {
    pub(crate) process: Child,
    pub(crate) log: PathBuf,
}

impl Router {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The process that forwards.
    pub(crate) fn child(&self) -> u32 {
        let own = self.process.id();
        children(own).first().copied().unwrap_or(own)
    }

    pub(crate) fn signal(&self, name: &str) {
        kill(self.process.id(), name);
    }

    /// Kills the process that forwards, and its parent, which does not start another.
    pub(crate) fn kill(&mut self) {
        if !matches!(self.process.try_wait(), Ok(None)) {
            return;
        }
        self.signal("STOP");
        let child = self.child();
        kill(child, "KILL");
        let _ = self.process.kill();
        let _ = self.process.wait();
        let (process, began) = (format!("/proc/{child}"), Instant::now());
        while Path::new(&process).exists() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its exit.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the router ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Hosts with at most one router, which needs no name.
pub(crate) struct Bench {
    pub(crate) router: Option<Router>,
    hosts: Hosts,
}

impl Bench {
    /// A bench with a running router; `None` where namespaces are not permitted.
    pub(crate) fn new(config: &str) -> Option<Self> {
        let mut bench = Self::without_router()?;
        bench.start(config);
        Some(bench)
    }

    /// A bench without a router, so the kernel forwards; `None` where namespaces are not permitted.
    pub(crate) fn without_router() -> Option<Self> {
        Some(Self {
            router: None,
            hosts: Hosts::new()?,
        })
    }

    pub(crate) fn start(&mut self, config: &str) {
        self.start_with(config, &[]);
    }

    pub(crate) fn start_with(&mut self, config: &str, variables: &[(&str, &str)]) {
        self.router = Some(self.hosts.start_with(ROUTER, config, variables));
    }

    /// Stops the router with a signal.
    pub(crate) fn stop(&mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.ended()
    }

    /// Waits for the router's exit.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.router.take().unwrap().ended()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.router.as_ref().unwrap().signal(name);
    }

    pub(crate) fn configure(&self, config: &str) -> PathBuf {
        self.hosts.configure(ROUTER, config)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.hosts.socket(ROUTER)
    }

    pub(crate) fn command(&self) -> Command {
        self.hosts.command(ROUTER)
    }

    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.hosts.weir(arguments, ROUTER)
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        self.hosts.ask(arguments, ROUTER)
    }

    /// The output of `weir show ports --json`.
    pub(crate) fn ports(&self) -> serde_json::Value {
        let printed = self.ask(&["show", "ports", "--json"]);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// The router's answer for a path of its northbound interface.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        client::get(&self.socket(), path).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{ROUTER}.log"))).unwrap_or_default()
    }

    /// Waits until a condition holds; if it never does, prints the log.
    pub(crate) fn eventually(&self, what: &str, condition: impl FnMut() -> bool) {
        eventually_or(what, || self.log(), condition);
    }
}

impl Deref for Bench {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}

/// The program `weir`, next to the folder of this test.
pub(crate) fn weir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join("weir")
}

/// Runs the commands of a page in private namespaces, and returns their output; `None` where namespaces are not
/// permitted. The commands must succeed.
pub(crate) fn as_it_stands(page: &str) -> Option<String> {
    if let Err(error) = Namespace::new() {
        println!("skipped: no network namespaces here ({error})");
        return None;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let commands = commands(&fs::read_to_string(format!("{root}/{page}")).unwrap());
    let program = weir();
    let folder = program.parent().unwrap().display();
    // Private folders, because another program on this machine may use the names of the page as well. The program may
    // be below one of them.
    let script = format!(
        "mount -t tmpfs none /run && mkdir /run/bin && mount --bind {folder} /run/bin\n\
         mount -t tmpfs none /tmp\nexport PATH=/run/bin:$PATH\n{commands}"
    );
    let apart = [
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ];
    let output = Command::new("timeout")
        .args(["120", "unshare"])
        .args(apart)
        .args(["bash", "-eu", "-c", &script])
        .current_dir(root)
        .env_remove("WEIR_SOCKET")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}", output.status);
    Some(said)
}

/// The commands of a page: everything between "```sh" and "```".
pub(crate) fn commands(page: &str) -> String {
    let mut commands = String::new();
    let mut is_inside = false;
    for line in page.lines() {
        match (is_inside, line) {
            (false, "```sh") => is_inside = true,
            (true, "```") => is_inside = false,
            (true, line) => commands += &format!("{line}\n"),
            (false, _) => {}
        }
    }
    commands
}

pub(crate) fn kill(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn children(parent: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_or(what, String::new, condition);
}

/// A line of a log with all these words, once the thread that logs has written it.
pub(crate) fn logged(log: impl Fn() -> String, words: &[&str]) -> String {
    let find = || {
        let log = log();
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().find(has_all).map(str::to_owned)
    };
    eventually_or(&format!("a line with {words:?}"), &log, || find().is_some());
    find().unwrap()
}

pub(crate) fn eventually_or(
    what: &str,
    why: impl Fn() -> String,
    mut condition: impl FnMut() -> bool,
) {
    let began = Instant::now();
    while !condition() {
        let in_time = began.elapsed() < PATIENCE;
        assert!(in_time, "not within {PATIENCE:?}: {what}\n{}", why());
        thread::sleep(Duration::from_millis(10));
    }
}
