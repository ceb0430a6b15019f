//! Two hosts, a router between them that is the kernel or weir, and frames of an attacker's choice.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::{Testbed, run};
use weir_live::namespace::{Namespace, Signal, Spawner, signal};

/// Whatever is waited for comes within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ports between the two hosts.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
[port.wan]
interface = \"r1\"
";

/// The hosts, and a folder for the router's files.
pub(crate) struct Bench {
    pub(crate) bed: Testbed,
    spawner: Spawner,
    folder: PathBuf,
    router: Option<Child>,
}

impl Bench {
    /// The kernel forwards. None where namespaces are not permitted.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-hostile-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let bed = Testbed::new().unwrap();
        bed.kernel_forwards(true).unwrap();
        Some(Self {
            bed,
            spawner: Spawner::new().unwrap(),
            folder,
            router: None,
        })
    }

    /// Starts weir, and waits until it forwards.
    pub(crate) fn start(&mut self, config: &str) {
        let path = self.folder.join("weir.toml");
        let socket = self.folder.join("weir.sock");
        fs::write(
            &path,
            format!("socket = \"{}\"\n{config}", socket.display()),
        )
        .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .arg("router")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("log")).unwrap());
        self.router = Some(self.spawner.spawn(&self.bed.router, command).unwrap());
        eventually("the router answers and knows its routes", || {
            self.ask(&["show", "routes"]).contains("10.77.2.0/24")
        });
    }

    /// Ends weir; the kernel forwards again.
    pub(crate) fn stop(&mut self, how: Signal) {
        let Some(mut router) = self.router.take() else {
            return;
        };
        signal(&router, how).unwrap();
        router.wait().unwrap();
    }

    /// Runs `weir` against this router and gives what it printed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let Output { stdout, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(arguments)
            .env("WEIR_SOCKET", self.folder.join("weir.sock"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr)
    }

    /// Seconds of processor time that weir's main thread, the control side, has had.
    pub(crate) fn control_seconds(&self) -> f64 {
        let Some(id) = self.router.as_ref().map(Child::id) else {
            return 0.0;
        };
        // The process that was started only watches the one that forwards.
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let child = children.unwrap_or_default();
        let id = child
            .split_whitespace()
            .next()
            .map_or(id, |c| c.parse().unwrap());
        let stat = fs::read_to_string(format!("/proc/{id}/task/{id}/stat")).unwrap();
        // Behind the name, which may hold spaces: the 12th and 13th fields, in hundredths.
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    }

    /// A file in the router's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What weir has logged since it was started.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Runs `ip` on a host; it must succeed.
    pub(crate) fn ip(&self, host: &Namespace, arguments: &str) -> String {
        run(host, "ip", arguments).unwrap()
    }

    /// Sets one of a host's `/proc/sys/net` values.
    pub(crate) fn sysctl(&self, host: &Namespace, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        host.enter(|| fs::write(&path, value)).unwrap().unwrap();
    }

    /// Whether the source's pings with these arguments are answered.
    pub(crate) fn ping(&self, arguments: &str) -> bool {
        run(&self.bed.source, "ping", arguments).is_ok()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.stop(Signal::Kill);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Prints a table of docs/hostile-network.md, for `cargo xtask hostile`.
pub(crate) fn table(name: &str, print: impl FnOnce()) {
    println!("\n<!-- table {name} -->");
    print();
    println!("<!-- end of table {name} -->");
}
