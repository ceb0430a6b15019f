//! A router between two hosts, for the tests that need no more of it than this.
#![allow(dead_code)] // each test file uses a part
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::Testbed;
use weir_live::namespace::{Namespace, Spawner};

/// Whatever is waited for comes within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// For so long each connection sends.
const SENDING: Duration = Duration::from_millis(1000);

/// Two ports without a rate.
pub(crate) const UNPACED: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
[port.wan]
interface = \"r1\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
";

/// A router between two hosts.
pub(crate) struct Bench {
    pub(crate) bed: Testbed,
    _spawner: Spawner,
    pub(crate) router: Child,
    folder: PathBuf,
}

impl Bench {
    /// None where namespaces are not permitted.
    pub(crate) fn new(config: &str) -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        let bed = Testbed::new().unwrap();
        bed.kernel_forwards(true).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let (file, socket) = (folder.join("weir.toml"), folder.join("weir.sock"));
        fs::write(
            &file,
            format!("socket = \"{}\"\n{config}", socket.display()),
        )
        .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let log = fs::File::create(folder.join("log")).unwrap();
        command.arg("router").arg(file);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let spawner = Spawner::new().unwrap(); // the router ends with it
        let router = spawner.spawn(&bed.router, command).unwrap();
        let bench = Self {
            bed,
            _spawner: spawner,
            router,
            folder,
        };
        let begin = Instant::now();
        while !bench.ask(&["show", "routes"]).contains("10.77.2.0/24") {
            assert!(begin.elapsed() < PATIENCE, "the router is not ready");
            thread::sleep(Duration::from_millis(20));
        }
        Some(bench)
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(arguments)
            .env("WEIR_SOCKET", self.folder.join("weir.sock"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Goodput of one TCP connection to an address of the sink, Mbit/s.
    pub(crate) fn tcp(&self, to: &str) -> f64 {
        let listener = self.bed.sink.enter(|| TcpListener::bind((to, 0)));
        let listener = listener.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::scope(|scope| {
            let receiving = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (begin, mut buffer, mut bytes) = (Instant::now(), vec![0; 1 << 18], 0);
                loop {
                    let len = stream.read(&mut buffer).unwrap();
                    if len == 0 {
                        return bytes as f64 * 8e-6 / begin.elapsed().as_secs_f64();
                    }
                    bytes += len;
                }
            });
            let stream = self.bed.source.enter(|| TcpStream::connect((to, port)));
            let mut stream = stream.unwrap().unwrap();
            let (begin, block) = (Instant::now(), vec![0x5a; 1 << 18]);
            while begin.elapsed() < SENDING {
                stream.write_all(&block).unwrap();
            }
            drop(stream);
            receiving.join().unwrap()
        })
    }

    /// What `weir show ports --json` prints.
    pub(crate) fn ports(&self) -> serde_json::Value {
        let printed = self.ask(&["show", "ports", "--json"]);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Waits until `holds`.
    pub(crate) fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.router.kill();
        let _ = self.router.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
